/* CuPy. Its arrays are on a GPU, and are read by __dlpack__. */
#include "../../../python/src/internal.h"

#include <string.h>

static const tenon__py_producer cupy_producer;

/* All arrays are on devices of one type, so that only the first is asked. The buffer function of an array has an exception
 * for each. */
static int cupy_recognise(PyObject *object, tenon__py_kind *kind)
{
    char package[32];
    if (strcmp(tenon__py_package(Py_TYPE(object), package, sizeof package), "cupy") != 0)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *method;
    kind->keeps_buffer = true;
    int found = tenon__py_attribute((PyObject *)Py_TYPE(object), "__dlpack__", &method);
    if (found < 1)
        return found;
    Py_DECREF(method);
    kind->owner = &cupy_producer;
    kind->device_type = tenon__py_device_type(object);
    return kind->device_type < 0 ? -1 : 0;
}

/* The module: a new reference. It is imported only if it is not loaded yet, because that takes longer than the rest of a call. */
static PyObject *cupy_module(void)
{
    PyObject *loaded = tenon__py_loaded("cupy");
    return loaded || PyErr_Occurred() ? loaded : PyImport_ImportModule("cupy");
}

/* It has no table, but a current stream of its own: cupy.cuda.get_current_stream().ptr */
static int cupy_stream(void **stream)
{
    PyObject *cupy = cupy_module(), *cuda = cupy ? PyObject_GetAttrString(cupy, "cuda") : NULL;
    PyObject *current = cuda ? PyObject_CallMethod(cuda, "get_current_stream", NULL) : NULL;
    PyObject *address = current ? PyObject_GetAttrString(current, "ptr") : NULL;
    *stream = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(cupy);
    Py_XDECREF(cuda);
    Py_XDECREF(current);
    Py_XDECREF(address);
    return PyErr_Occurred() ? -1 : 0;
}

/* Whether the current device is this one: 1, 0, or -1 with an exception. */
static int cupy_is_current(PyObject *cuda, int32_t device)
{
    PyObject *runtime = PyObject_GetAttrString(cuda, "runtime");
    PyObject *current = runtime ? PyObject_CallMethod(runtime, "getDevice", NULL) : NULL;
    long id = current ? PyLong_AsLong(current) : -1;
    Py_XDECREF(runtime);
    Py_XDECREF(current);
    return PyErr_Occurred() ? -1 : id == device;
}

/* cupy.ndarray(shape, dtype) on that device. */
static PyObject *cupy_call_empty(tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    char name[64];
    tenon_dtype_format_long(dtype, name, sizeof name);
    PyObject *cupy = cupy_module();
    PyObject *cuda = cupy ? PyObject_GetAttrString(cupy, "cuda") : NULL;
    int current = cuda ? cupy_is_current(cuda, device.device_id) : -1;
    PyObject *where = current == 0 ? PyObject_CallMethod(cuda, "Device", "i", (int)device.device_id) : NULL;
    PyObject *entered = where ? PyObject_CallMethod(where, "__enter__", NULL) : NULL;
    PyObject *sizes = current > 0 || entered ? tenon__py_dims_tuple(ndim, shape) : NULL;
    PyObject *result = sizes ? PyObject_CallMethod(cupy, "ndarray", "Os", sizes, name) : NULL;
    if (entered) {
        PyObject *error = tenon__py_take_exception();
        Py_XDECREF(PyObject_CallMethod(where, "__exit__", "OOO", Py_None, Py_None, Py_None));
        tenon__py_raise_again(error);
        if (PyErr_Occurred())
            Py_CLEAR(result);
    }
    Py_XDECREF(cupy);
    Py_XDECREF(cuda);
    Py_XDECREF(where);
    Py_XDECREF(entered);
    Py_XDECREF(sizes);
    return result;
}

static PyObject *cupy_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                            tenon_py_borrowed *out)
{
    (void)like;
    return tenon__py_borrow_made(cupy_call_empty(device, dtype, ndim, shape), dtype, out);
}

static PyObject *cupy_wrap(tenon_tensor *tensor)
{
    return tenon__py_call_import("cupy", "from_dlpack", tenon__py_tensor_new(tensor), false);
}

static const tenon__py_producer cupy_producer = {
    .name = "cupy",
    .title = "CuPy",
    .takes_device = true,
    .waits = true,
    .cast = "astype('",
    .cast_end = "')",
    .to_cpu = {"", ".get()"},
    .recognise = cupy_recognise,
    .stream = cupy_stream,
    .empty = cupy_empty,
    .wrap = cupy_wrap,
};

const tenon__py_framework tenon__py_framework_cupy = {.producer = &cupy_producer, .as = TENON_PY_AS_CUPY};
