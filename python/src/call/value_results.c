/* Results that are not tensors, and not of the kinds that most functions return. */
#include "internal.h"

static PyObject *make_item(const tenon_value *list, int64_t index)
{
    const tenon_text *text;
    switch (list->kind) {
    case TENON_KIND_INTS:
        return PyLong_FromLongLong(((const int64_t *)list->as.list.data)[index]);
    case TENON_KIND_FLOATS:
        return PyFloat_FromDouble(((const double *)list->as.list.data)[index]);
    default:
        text = (const tenon_text *)list->as.list.data + index;
        return PyUnicode_DecodeUTF8(text->data, (Py_ssize_t)text->length, NULL);
    }
}

static PyObject *make_list(const tenon_value *value)
{
    PyObject *list = PyList_New((Py_ssize_t)value->as.list.length);
    for (int64_t i = 0; list && i < value->as.list.length; i++) {
        PyObject *item = make_item(value, i);
        if (item)
            PyList_SetItem(list, (Py_ssize_t)i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

PyObject *tenon__py_value_result(const tenon_value *value)
{
    switch (value->kind) {
    case TENON_KIND_UINT:
        return PyLong_FromUnsignedLongLong((unsigned long long)value->as.integer);
    case TENON_KIND_COMPLEX:
        return PyComplex_FromDoubles(value->as.parts[0], value->as.parts[1]);
    default: /* the driver lets no other kind pass, and bytes are made while the function runs */
        return make_list(value);
    }
}
