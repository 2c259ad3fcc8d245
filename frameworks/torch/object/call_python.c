/* Calls through Python, for versions of torch without the C functions, and for types that those cannot represent. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------- arguments */

static PyObject *new_none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *tensor_object(const tenon_torch *tensor)
{
    return tensor ? tenon__torch_object(tenon__torch_block_of(tensor)) : new_none();
}

static PyObject *list_object(const tenon_torch_value *value)
{
    const void *data = value->as.list.data;
    PyObject *list = PyList_New((Py_ssize_t)value->as.list.length);
    for (int64_t i = 0; list && i < value->as.list.length; i++) {
        PyObject *item = value->kind == TENON_TORCH_INTS     ? PyLong_FromLongLong(((const int64_t *)data)[i])
                         : value->kind == TENON_TORCH_BOOLS  ? PyBool_FromLong(((const bool *)data)[i])
                         : value->kind == TENON_TORCH_FLOATS ? PyFloat_FromDouble(((const double *)data)[i])
                                                             : tensor_object(((tenon_torch *const *)data)[i]);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *device_object(const tenon__torch_api *api, tenon_device device)
{
    return device.device_type == TENON_CPU
               ? PyObject_CallMethod(api->module, "device", "s", "cpu")
               : PyObject_CallMethod(api->module, "device", "si", "cuda", (int)device.device_id);
}

/* A layout or memory format. NULL without an exception if torch does not have it. */
static PyObject *layout_object(const tenon__torch_api *api, const char *word)
{
    PyObject *object = PyObject_GetAttrString(api->module, word);
    PyObject *layout = PyObject_GetAttrString(api->module, "layout");
    PyObject *format = PyObject_GetAttrString(api->module, "memory_format");
    bool is_one = object && layout && format &&
                  (PyObject_IsInstance(object, layout) == 1 || PyObject_IsInstance(object, format) == 1);
    if (!is_one) {
        Py_CLEAR(object);
        PyErr_Clear();
    }
    Py_XDECREF(layout);
    Py_XDECREF(format);
    return object;
}

/* NULL with an exception, or without one if torch does not have the layout. */
static PyObject *to_object(const tenon__torch_api *api, const tenon__torch_type *type, const tenon_torch_value *value)
{
    char word[64];
    switch (value->kind) {
    case TENON_TORCH_NONE:
        return new_none();
    case TENON_TORCH_TENSOR:
        return tensor_object(value->as.tensor);
    case TENON_TORCH_INT:
        return PyLong_FromLongLong(value->as.integer);
    case TENON_TORCH_FLOAT:
        return PyFloat_FromDouble(value->as.number);
    case TENON_TORCH_BOOL:
        return PyBool_FromLong(value->as.integer != 0);
    case TENON_TORCH_DTYPE:
        tenon_dtype_format_long(value->as.dtype, word, sizeof word);
        return PyObject_GetAttrString(api->module, word);
    case TENON_TORCH_DEVICE:
        return device_object(api, value->as.device);
    case TENON_TORCH_STR:
        return type->base == TENON__TORCH_LAYOUT ? layout_object(api, value->as.list.data)
                                                 : PyUnicode_FromString(value->as.list.data);
    case TENON_TORCH_COMPLEX:
        return PyComplex_FromDoubles(value->as.pair[0], value->as.pair[1]);
    default:
        return list_object(value);
    }
}

/* ---------------------------------------------------------------------------------------------------------- results */

static bool take_tensors(PyObject *object, tenon_torch_value *out)
{
    Py_ssize_t size = PySequence_Size(object);
    tenon_torch **items = size >= 0 ? calloc((size_t)size + 1, sizeof(void *)) : NULL;
    bool good = items;
    if (size >= 0 && !items)
        PyErr_NoMemory();
    *out = tenon_torch_list(TENON_TORCH_TENSORS, items, items ? size : 0);
    for (Py_ssize_t i = 0; good && i < size; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        /* In Python an undefined tensor is None. */
        good = item && (item == Py_None || tenon_torch_import(item, &items[i]) == 0);
        Py_XDECREF(item);
    }
    return good;
}

bool tenon__torch_take_numbers(PyObject *list, tenon__torch_base base, tenon_torch_value *out)
{
    Py_ssize_t size = PySequence_Size(list);
    void *items = size >= 0 ? calloc((size_t)size + 1, sizeof(int64_t)) : NULL;
    bool good = items;
    if (size >= 0 && !items)
        PyErr_NoMemory();
    int32_t kind = base == TENON__TORCH_INT    ? TENON_TORCH_INTS
                   : base == TENON__TORCH_BOOL ? TENON_TORCH_BOOLS
                                               : TENON_TORCH_FLOATS;
    *out = tenon_torch_list(kind, items, items ? size : 0);
    for (Py_ssize_t i = 0; good && i < size; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        if (item && kind == TENON_TORCH_INTS)
            ((int64_t *)items)[i] = PyLong_AsLongLong(item);
        else if (item && kind == TENON_TORCH_BOOLS)
            ((bool *)items)[i] = PyObject_IsTrue(item) == 1;
        else if (item)
            ((double *)items)[i] = PyFloat_AsDouble(item);
        Py_XDECREF(item);
        good = !PyErr_Occurred();
    }
    return good;
}

static bool take_text(PyObject *object, tenon_torch_value *out)
{
    const char *text = PyUnicode_AsUTF8AndSize(object, NULL);
    size_t size = text ? strlen(text) + 1 : 0;
    char *copy = text ? malloc(size) : NULL;
    if (copy)
        memcpy(copy, text, size);
    else if (text)
        PyErr_NoMemory();
    *out = tenon_torch_list(TENON_TORCH_STR, copy, copy ? (int64_t)size - 1 : 0);
    return copy;
}

static bool take_dtype(const tenon__torch_api *api, PyObject *object, tenon_torch_value *out)
{
    long number = PyLong_AsLong(object); /* torch's operators return dtypes only as numbers */
    if (!PyErr_Occurred() && number >= 0 && number < TENON__TORCH_DTYPES && api->dtypes[number].bits)
        *out = tenon_torch_dtype(api->dtypes[number]);
    else if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "Tenon does not know torch's dtype number %ld", number);
    return !PyErr_Occurred();
}

static bool take_device(const tenon__torch_api *api, PyObject *object, tenon_torch_value *out)
{
    PyObject *text_object = PyObject_Str(object);
    const char *text = text_object ? PyUnicode_AsUTF8AndSize(text_object, NULL) : NULL;
    tenon_device device;
    if (text && tenon_device_parse(text, &device, NULL) == TENON_OK) {
        if (device.device_type == TENON_CUDA)
            device.device_type = api->cuda_device;
        *out = tenon_torch_device(device);
    } else if (text) {
        PyErr_Format(PyExc_TypeError, "Tenon does not know the device %s", text);
    }
    Py_XDECREF(text_object);
    return !PyErr_Occurred();
}

static bool take_object_list(const tenon__torch_type *type, PyObject *object, tenon_torch_value *out)
{
    if (type->base == TENON__TORCH_TENSOR)
        return take_tensors(object, out);
    if (type->base == TENON__TORCH_INT || type->base == TENON__TORCH_FLOAT || type->base == TENON__TORCH_BOOL)
        return tenon__torch_take_numbers(object, type->base, out);
    PyErr_Format(PyExc_TypeError, "a result of type %s cannot be represented in C", type->text);
    return false;
}

/* Take a number or string. It must have the type in the schema: a __torch_function__ may return anything. */
static bool take_single(const tenon__torch_type *type, PyObject *object, tenon_torch_value *out)
{
    tenon__torch_base base = type->base;
    bool any = base == TENON__TORCH_OTHER || base == TENON__TORCH_LAYOUT, number = base == TENON__TORCH_SCALAR || any;
    if (PyBool_Check(object) && (number || base == TENON__TORCH_BOOL)) {
        *out = tenon_torch_bool(object == Py_True);
    } else if (PyLong_Check(object) && !PyBool_Check(object) && (number || base == TENON__TORCH_INT)) {
        *out = tenon_torch_int(PyLong_AsLongLong(object));
    } else if (PyFloat_Check(object) && (number || base == TENON__TORCH_FLOAT)) {
        *out = tenon_torch_float(PyFloat_AsDouble(object));
    } else if (PyComplex_Check(object) && (number || base == TENON__TORCH_COMPLEX)) {
        *out = tenon_torch_complex(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
    } else if (PyUnicode_Check(object) && (any || base == TENON__TORCH_STR)) {
        return take_text(object, out);
    } else {
        PyObject *name = tenon__py_type_name(object);
        if (name)
            PyErr_Format(PyExc_TypeError, "expected a result of type %s, got %U", type->text, name);
        Py_XDECREF(name);
    }
    return !PyErr_Occurred();
}

/* `may_lack`: the tensor may be undefined. False with an exception; `out` may be released in both cases. */
static bool take_object(const tenon__torch_api *api, const tenon__torch_type *type, bool may_lack, PyObject *object,
                        tenon_torch_value *out)
{
    bool is_tensor = type->base == TENON__TORCH_TENSOR && !type->list;
    *out = tenon_torch_value_of(TENON_TORCH_NONE);
    if (object == Py_None && (type->optional || type->base == TENON__TORCH_OTHER || (is_tensor && may_lack)))
        return true;
    if (is_tensor) {
        *out = tenon_torch_tensor(NULL);
        return tenon_torch_import(object, &out->as.tensor) == 0;
    }
    if (type->list)
        return take_object_list(type, object, out);
    if (type->base == TENON__TORCH_DTYPE)
        return take_dtype(api, object, out);
    if (type->base == TENON__TORCH_DEVICE)
        return take_device(api, object, out);
    return take_single(type, object, out);
}

static bool take_all(const tenon_torch_op *op, PyObject *answer, tenon_torch_value *results)
{
    bool good = true, several = op->nresults > 1;
    for (size_t i = 0; i < op->nresults; i++) {
        results[i] = tenon_torch_value_of(TENON_TORCH_DEFAULT);
        PyObject *item = good && several ? PySequence_GetItem(answer, (Py_ssize_t)i) : NULL;
        good = good && (!several || item) &&
               take_object(op->api, &op->results[i], several, several ? item : answer, &results[i]);
        Py_XDECREF(item);
    }
    for (size_t i = 0; !good && i < op->nresults; i++)
        tenon_torch_value_release(&results[i]);
    return good;
}

tenon_status tenon__torch_call_python(const tenon_torch_op *op, const tenon_torch_value *args,
                                      tenon_torch_value *results, tenon_error *err)
{
    const tenon__torch_api *api = op->api;
    if (!tenon__py_attached_to(api->interp))
        return tenon_error_set(err, TENON_EFAILED,
                               "%s: with torch %s this call goes through Python, but this thread does not hold the "
                               "lock of the interpreter that imported torch",
                               op->full_name, api->report.version);
    tenon__py_scope scope = tenon__py_enter_scope();
    PyObject *names = PyDict_New(), *none_by_place = PyTuple_New(0), *function = tenon__torch_function(op);
    bool good = names && none_by_place && function;
    const tenon__torch_param *unknown = NULL;
    for (size_t i = 0; good && i < op->nparams; i++) {
        if (args[i].kind == TENON_TORCH_DEFAULT)
            continue; /* Python fills in its default */
        PyObject *object = to_object(api, &op->params[i].type, &args[i]);
        good = object && PyDict_SetItemString(names, op->params[i].name, object) == 0;
        unknown = good || PyErr_Occurred() ? NULL : &op->params[i];
        Py_XDECREF(object);
    }
    PyObject *answer = good ? PyObject_Call(function, none_by_place, names) : NULL;
    good = answer && take_all(op, answer, results);
    Py_XDECREF(names);
    Py_XDECREF(none_by_place);
    Py_XDECREF(function);
    Py_XDECREF(answer);
    tenon_status status = TENON_OK;
    if (unknown)
        status = tenon_error_set(err, TENON_EINVAL, "%s: argument '%s': torch has no such layout or memory format",
                                 op->full_name, unknown->name);
    else if (!good)
        status = tenon__torch_take_exception(op->full_name, err);
    tenon__py_leave_scope(scope);
    return status;
}
