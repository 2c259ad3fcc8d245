/* An argument that is a dtype: its name, or the dtype object or the number type of a framework. */
#include "internal.h"

#include <ctype.h>
#include <string.h>

/* Whether frameworks call objects of this type dtypes: "dtype", "DType", "Float32DType". */
static bool is_dtype_type(PyTypeObject *type)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)type, "__name__");
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    bool found = false;
    for (; text && *text && !found; text++) {
        const char *wanted = "dtype";
        size_t i = 0;
        while (wanted[i] && tolower((unsigned char)text[i]) == wanted[i])
            i++;
        found = !wanted[i];
    }
    Py_XDECREF(name);
    return found;
}

/* The name inside what a framework prints: "float32", "torch.float32", "<dtype: 'float32'>". */
static bool parse_printed(const char *text, tenon_dtype *out)
{
    char name[64];
    const char *quote = strchr(text, '\''), *dot = strrchr(text, '.');
    const char *start = quote ? quote + 1 : dot ? dot + 1 : text;
    size_t length = quote ? strcspn(start, "'") : strlen(start);
    length -= length > 0 && start[length - 1] == '_'; /* bool_ */
    if (length >= sizeof name)
        return false;
    memcpy(name, start, length);
    name[length] = '\0';
    return tenon_dtype_parse(name, out, NULL) == TENON_OK;
}

/* Where the interpreter may remember the object, or NULL. Objects of classes that are written in Python may change. */
static tenon__py_known_dtype *place_of_dtype(PyObject *object, tenon__py_interp **interp)
{
    if (PyType_Check(object) || (PyType_GetFlags(Py_TYPE(object)) & Py_TPFLAGS_HEAPTYPE))
        return NULL;
    *interp = tenon__py_interp_state();
    uint64_t hash = (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15u;
    return *interp ? &(*interp)->dtypes[hash >> 58] : NULL;
}

static bool find_known_dtype(PyObject *object, tenon_dtype *out)
{
    tenon__py_interp *interp;
    const tenon__py_known_dtype *place = place_of_dtype(object, &interp);
    if (!place)
        return false;
    tenon__py_spin_lock(&interp->dtypes_lock);
    bool found = place->object == object;
    if (found)
        *out = place->dtype;
    tenon__py_spin_unlock(&interp->dtypes_lock);
    return found;
}

static void remember_dtype(PyObject *object, tenon_dtype dtype)
{
    tenon__py_interp *interp;
    tenon__py_known_dtype *place = place_of_dtype(object, &interp);
    if (!place)
        return;
    Py_INCREF(object);
    tenon__py_spin_lock(&interp->dtypes_lock);
    PyObject *replaced = place->object;
    *place = (tenon__py_known_dtype){object, dtype};
    tenon__py_spin_unlock(&interp->dtypes_lock);
    Py_XDECREF(replaced);
}

int tenon__py_to_dtype(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       tenon_dtype *out)
{
    if (PyUnicode_Check(object)) {
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(object, &length);
        if (text && strlen(text) == (size_t)length && tenon_dtype_parse(text, out, NULL) == TENON_OK)
            return 0;
        if (!text && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return -1;
        PyErr_Clear();
        return tenon__py_argument_error(function, param->name, PyExc_TypeError,
                                        "expected %s, got %R, which is not the name of a dtype", param->type, object);
    }
    if (find_known_dtype(object, out))
        return 0;
    PyObject *printed = PyType_Check(object)             ? PyObject_GetAttrString(object, "__name__")
                        : is_dtype_type(Py_TYPE(object)) ? PyObject_Str(object)
                                                         : NULL;
    const char *text = printed ? PyUnicode_AsUTF8AndSize(printed, NULL) : NULL;
    bool is_named = text != NULL, found = text && parse_printed(text, out);
    Py_XDECREF(printed);
    if (PyErr_Occurred())
        return -1;
    if (found) {
        remember_dtype(object, *out);
        return 0;
    }
    return is_named ? tenon__py_argument_error(function, param->name, PyExc_TypeError,
                                               "expected %s, got %R, which has no DLPack dtype", param->type, object)
                    : tenon__py_wrong_type(function, param, object);
}
