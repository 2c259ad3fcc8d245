/* Frameworks that nothing is known of but the namespace of the array API standard. */
#include "../internal.h"

static int array_api_recognise(PyObject *object, tenon__py_kind *kind)
{
    PyObject *method;
    int found = kind->owner ? 0 : tenon__py_attribute((PyObject *)Py_TYPE(object), "__array_namespace__", &method);
    if (found < 1)
        return found;
    Py_DECREF(method);
    kind->owner = &tenon__py_producer_array_api;
    return 0;
}

/* By the namespace that an array names itself. */
static PyObject *array_api_call_empty(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    PyObject *module = PyObject_CallMethod(like, "__array_namespace__", NULL);
    PyObject *device = module ? PyObject_GetAttrString(like, "device") : NULL;
    PyObject *result = device ? tenon__py_call_empty(module, device, dtype, ndim, shape) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(device);
    return result;
}

static PyObject *array_api_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                 const int64_t *shape, tenon_py_borrowed *out)
{
    (void)device;
    PyObject *made = array_api_call_empty(like, dtype, ndim, shape);
    return tenon__py_result_or_own(made, like, dtype, ndim, shape, out);
}

const tenon__py_producer tenon__py_producer_array_api = {.recognise = array_api_recognise, .empty = array_api_empty};
