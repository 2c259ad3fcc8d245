/* A view as a Python dict with all of its fields, for the tests' extensions. */
#ifndef TENON_TESTS_DESCRIBE_H
#define TENON_TESTS_DESCRIBE_H

#include <tenon/python.h>

static inline PyObject *tuple_of(int32_t count, const int64_t *values)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple && i < count; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (!value) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SetItem(tuple, i, value);
    }
    return tuple;
}

static inline PyObject *describe(const tenon_view *view)
{
    char dtype[64];
    tenon_dtype_format(view->dtype, dtype, sizeof dtype);
    return Py_BuildValue("{sKsNsNsss(ii)sKsKsL}", "data", (unsigned long long)(uintptr_t)view->data, "shape",
                         tuple_of(view->ndim, view->shape), "strides", tuple_of(view->ndim, view->strides), "dtype",
                         dtype, "device", view->device.device_type, view->device.device_id, "flags",
                         (unsigned long long)view->flags, "byte_offset", (unsigned long long)view->byte_offset, "numel",
                         (long long)view->numel);
}

#endif
