/* Arguments of a call that does not run here: sorted and converted as a call does, with the same errors. */
#include "internal.h"

#include "../src/call/internal.h"

/* The function that it describes, or NULL with an exception. */
static const tenon__py_function *function_in(PyObject *object)
{
    return tenon__native_is_function(object) ? (const tenon__py_function *)(const void *)object : NULL;
}

static const tenon_parameter *parameter_at(const tenon__py_function *function, Py_ssize_t index)
{
    if (index >= 0 && index < function->signature->nparams)
        return &function->signature->params[index];
    PyErr_Format(PyExc_IndexError, "%s() has no parameter %zd", function->signature->name, index);
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------------- sorting */

/* The arguments in the form of a vectorcall, in one block: `args`, then the values of `keywords`, then room for `more`.
 * Sets *names to a new tuple. NULL with an exception. */
static PyObject **flatten(PyObject *args, PyObject *keywords, Py_ssize_t more, PyObject **names)
{
    Py_ssize_t nargs = PyTuple_Size(args), nkeywords = PyDict_Size(keywords), at = 0, k = 0;
    *names = PyTuple_New(nkeywords);
    PyObject **flat = *names ? PyMem_Malloc((size_t)(nargs + nkeywords + more) * sizeof(PyObject *)) : NULL;
    PyObject *name, *value;
    if (*names && !flat)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; flat && i < nargs; i++)
        flat[i] = PyTuple_GetItem(args, i);
    while (flat && PyDict_Next(keywords, &at, &name, &value)) {
        flat[nargs + k] = value;
        Py_INCREF(name);
        PyTuple_SetItem(*names, k++, name);
    }
    return flat;
}

/* A tuple with the argument of each parameter; `missing` for those that were left out. */
static PyObject *sorted_tuple(const tenon__py_function *function, PyObject *const *given, PyObject *missing)
{
    int32_t count = function->signature->nparams;
    for (int32_t i = count; i < count + 2; i++)
        if (given[i])
            return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'",
                                function->signature->name, function->names[i]);
    PyObject *sorted = PyTuple_New(count);
    for (int32_t i = 0; sorted && i < count; i++) {
        PyObject *object = given[i] ? given[i] : missing;
        Py_INCREF(object);
        PyTuple_SetItem(sorted, i, object);
    }
    return sorted;
}

static PyObject *sort_arguments(PyObject *self, PyObject *arguments)
{
    PyObject *object, *args, *keywords, *missing, *names = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OO!O!O:_sort_arguments", &object, &PyTuple_Type, &args, &PyDict_Type, &keywords,
                          &missing))
        return NULL;
    const tenon__py_function *function = function_in(object);
    PyObject **flat = function ? flatten(args, keywords, (Py_ssize_t)function->signature->nparams + 2, &names) : NULL;
    PyObject *sorted = NULL;
    if (flat) {
        Py_ssize_t nargs = PyTuple_Size(args);
        PyObject **given = flat + nargs + PyTuple_Size(names);
        if (tenon__py_distribute(function, flat, nargs, names, given) == 0)
            sorted = sorted_tuple(function, given, missing);
    }
    PyMem_Free(flat);
    Py_XDECREF(names);
    return sorted;
}

/* ------------------------------------------------------------------------------------------------------------ values */

static PyObject *number_tuple(const tenon_value *value)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)value->as.list.length);
    for (int64_t i = 0; tuple && i < value->as.list.length; i++) {
        PyObject *item = value->kind == TENON_KIND_INTS ? PyLong_FromLongLong(((const int64_t *)value->as.list.data)[i])
                                                        : PyFloat_FromDouble(((const double *)value->as.list.data)[i]);
        if (!item) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SetItem(tuple, (Py_ssize_t)i, item);
    }
    return tuple;
}

static PyObject *builtin_value(const tenon_parameter *param, const tenon_value *value)
{
    char dtype[64];
    switch (param->kind) {
    case TENON_KIND_INT:
        return PyLong_FromLongLong(value->as.integer);
    case TENON_KIND_FLOAT:
        return PyFloat_FromDouble(value->as.number);
    case TENON_KIND_BOOL:
        return PyBool_FromLong(value->as.integer != 0);
    case TENON_KIND_ENUM:
        return PyUnicode_FromString(param->choices[value->as.integer]);
    case TENON_KIND_STR:
        return PyUnicode_DecodeUTF8(value->as.list.data, (Py_ssize_t)value->as.list.length, NULL);
    case TENON_KIND_UINT:
    case TENON_KIND_COMPLEX:
        return tenon__py_value_result(value);
    case TENON_KIND_DTYPE:
        tenon_dtype_format(value->as.dtype, dtype, sizeof dtype);
        return PyUnicode_FromString(dtype);
    default:
        return number_tuple(value);
    }
}

static PyObject *read_value(PyObject *self, PyObject *arguments)
{
    PyObject *owner, *object;
    Py_ssize_t index;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OnO:_read_value", &owner, &index, &object))
        return NULL;
    const tenon__py_function *function = function_in(owner);
    const tenon_parameter *param = function ? parameter_at(function, index) : NULL;
    if (!param)
        return NULL;
    bool is_plain = param->kind != TENON_KIND_BYTES && param->kind != TENON_KIND_STRS &&
                    param->kind != TENON_KIND_HANDLE && param->kind != TENON_KIND_CALLABLE;
    if (param->spec || param->items || !is_plain)
        return PyErr_Format(PyExc_TypeError, "parameter '%s' is not a plain value", param->name);
    tenon_block *blocks = NULL;
    tenon_value value;
    PyObject *result = NULL, *held = NULL;
    if (tenon__py_enter_recursion(" while the arguments of a Tenon function were read") < 0)
        return NULL;
    if (tenon__py_to_value(function, param, object, &held, &blocks, &value) == 0)
        result = builtin_value(param, &value);
    else
        tenon__py_note_argument(function, param->name);
    tenon__py_leave_recursion();
    tenon_blocks_release(blocks);
    Py_XDECREF(held);
    return result;
}

/* ----------------------------------------------------------------------------------------------------------- tensors */

static PyObject *read_tensor(PyObject *self, PyObject *arguments)
{
    PyObject *owner, *object;
    Py_ssize_t index;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OnO:_read_tensor", &owner, &index, &object))
        return NULL;
    tenon__py_frame f = {.function = function_in(owner)};
    const tenon_parameter *param = f.function ? parameter_at(f.function, index) : NULL;
    if (!param)
        return NULL;
    tenon_py_borrowed borrowed;
    if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &borrowed) < 0) {
        tenon__py_raise_not_borrowed(&f, param, object);
        return NULL;
    }
    char dtype[64];
    tenon_dtype_format(borrowed.view.dtype, dtype, sizeof dtype);
    PyObject *shape = PyTuple_New(borrowed.view.ndim);
    for (int32_t i = 0; shape && i < borrowed.view.ndim; i++) {
        PyObject *size = PyLong_FromLongLong(borrowed.view.shape[i]);
        if (size)
            PyTuple_SetItem(shape, i, size);
        else
            Py_CLEAR(shape);
    }
    tenon_py_unborrow(&borrowed);
    return shape ? Py_BuildValue("(sN)", dtype, shape) : NULL;
}

static PyObject *dtype_names(PyObject *self, PyObject *name)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } kinds[] = {{"real", TENON_DTYPES_REAL}, {"integer", TENON_DTYPES_INTEGER}, {"any", TENON_DTYPES_ANY}};
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    char short_name[64], long_name[64];
    tenon_dtype dtype;
    (void)self;
    if (!text)
        return NULL;
    if (tenon_dtype_parse(text, &dtype, NULL))
        Py_RETURN_NONE;
    tenon_dtype_format(dtype, short_name, sizeof short_name);
    tenon_dtype_format_long(dtype, long_name, sizeof long_name);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < sizeof kinds / sizeof *kinds; i++) {
        tenon_dtypes set = {.kinds = kinds[i].bit};
        PyObject *kind = tenon_dtypes_has(&set, dtype) ? PyUnicode_FromString(kinds[i].name) : NULL;
        if ((!kind && PyErr_Occurred()) || (kind && PyList_Append(list, kind) < 0)) {
            Py_DECREF(list);
            list = NULL;
        }
        Py_XDECREF(kind);
    }
    return list ? Py_BuildValue("(ssN)", short_name, long_name, list) : NULL;
}

PyMethodDef tenon__argument_methods[] = {
    {"_dtype_names", dtype_names, METH_O,
     "_dtype_names(name, /)\n--\n\nReturn the short name of a dtype, its long name and the kinds of dtypes that have "
     "it, or "
     "None if the name is not a dtype's."},
    {"_sort_arguments", sort_arguments, METH_VARARGS,
     "_sort_arguments(function, args, kwargs, missing, /)\n--\n\nReturn the argument of each parameter, or `missing`. "
     "Raise what a call raises if they do not fit."},
    {"_read_value", read_value, METH_VARARGS,
     "_read_value(function, index, object, /)\n--\n\nReturn an argument that is not a tensor as a call reads it: an "
     "int, float, bool, complex, str, the name of a dtype, or a tuple of numbers."},
    {"_read_tensor", read_tensor, METH_VARARGS,
     "_read_tensor(function, index, object, /)\n--\n\nReturn the dtype and the shape of an argument. Raise what a call "
     "raises if it is not a tensor."},
    {NULL, NULL, 0, NULL},
};
