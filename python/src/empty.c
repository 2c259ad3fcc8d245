/* New arrays, by the allocator of the framework that the caller uses. */
#include "bridge.h"

#include <string.h>

/* The name that torch and CuPy have for a dtype: "float32", "bfloat16", "bool", "float4_e2m1fn_x2". */
static void framework_name(tenon_dtype dtype, char *buffer, size_t size)
{
    char ours[64], lanes[16] = "";
    tenon_dtype_format(tenon_dtype_of(dtype.code, dtype.bits, 1), ours, sizeof ours);
    if (dtype.lanes != 1)
        PyOS_snprintf(lanes, sizeof lanes, "_x%d", dtype.lanes);
    const char *prefix = dtype.code == TENON_CODE_INT       ? "int"
                         : dtype.code == TENON_CODE_UINT    ? "uint"
                         : dtype.code == TENON_CODE_COMPLEX ? "complex"
                         : dtype.code == TENON_CODE_BFLOAT  ? "bfloat"
                         : ours[0] == 'f'                   ? "float"
                                                            : "";
    const char *rest = *prefix ? strpbrk(ours, "0123456789") : ours;
    PyOS_snprintf(buffer, size, "%s%s%s", prefix, rest ? rest : "", lanes);
}

static PyObject *shape_tuple(int32_t ndim, const int64_t *shape)
{
    PyObject *tuple = PyTuple_New(ndim);
    for (int32_t i = 0; tuple && i < ndim; i++) {
        PyObject *size = PyLong_FromLongLong(shape[i]);
        if (!size) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SetItem(tuple, i, size);
    }
    return tuple;
}

/* torch.empty(shape, dtype=…, device=like.device) */
static PyObject *empty_torch(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    char name[64];
    framework_name(dtype, name, sizeof name);
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *kind = torch ? PyObject_GetAttrString(torch, name) : NULL;
    if (torch && !kind && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Format(PyExc_ValueError, "torch has no dtype torch.%s", name);
    PyObject *device = kind ? PyObject_GetAttrString(like, "device") : NULL;
    PyObject *sizes = device ? shape_tuple(ndim, shape) : NULL;
    PyObject *arguments = sizes ? PyTuple_Pack(1, sizes) : NULL;
    PyObject *keywords = arguments ? Py_BuildValue("{sOsO}", "dtype", kind, "device", device) : NULL;
    PyObject *function = keywords ? PyObject_GetAttrString(torch, "empty") : NULL;
    PyObject *result = function ? PyObject_Call(function, arguments, keywords) : NULL;
    Py_XDECREF(torch);
    Py_XDECREF(kind);
    Py_XDECREF(device);
    Py_XDECREF(sizes);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    Py_XDECREF(function);
    return result;
}

/* cupy.empty(shape, dtype) on the device of `like`. */
static PyObject *empty_cupy(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    char name[64];
    framework_name(dtype, name, sizeof name);
    PyObject *cupy = PyImport_ImportModule("cupy");
    PyObject *device = cupy ? PyObject_GetAttrString(like, "device") : NULL;
    PyObject *entered = device ? PyObject_CallMethod(device, "__enter__", NULL) : NULL;
    PyObject *sizes = entered ? shape_tuple(ndim, shape) : NULL;
    PyObject *result = sizes ? PyObject_CallMethod(cupy, "empty", "Os", sizes, name) : NULL;
    if (entered) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_XDECREF(PyObject_CallMethod(device, "__exit__", "OOO", Py_None, Py_None, Py_None));
        PyErr_Clear();
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(cupy);
    Py_XDECREF(device);
    Py_XDECREF(entered);
    Py_XDECREF(sizes);
    return result;
}

/* Memory of ours, borrowed to be written, in an array of `as`. What is immutable there can be filled only through this.
 */
static PyObject *empty_ours(tenon_py_as as, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                            tenon_py_borrowed *out)
{
    tenon_error err;
    tenon_tensor *tensor = NULL;
    if (tenon_tensor_alloc(dtype, ndim, shape, 0, &tensor, &err))
        return tenon_py_raise(&err);
    PyObject *object = tenon__py_tensor_new(tensor);
    PyObject *array = object ? tenon_py_export(tensor, as) : NULL;
    tenon_tensor_release(tensor);
    if (array && tenon_py_borrow(object, TENON_PY_WRITE, out) < 0) {
        Py_DECREF(array);
        array = NULL;
    }
    Py_XDECREF(object);
    return array;
}

static int on_cuda(PyObject *like)
{
    tenon_py_borrowed borrowed;
    if (tenon_py_borrow(like, TENON_PY_ANY_DEVICE, &borrowed) < 0)
        return -1;
    int result = !tenon_device_on_host(borrowed.view.device);
    tenon_py_unborrow(&borrowed);
    return result;
}

PyObject *tenon_py_empty(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_py_borrowed *out)
{
    tenon_error err;
    int64_t numel;
    if (tenon_shape_numel(ndim, shape, &numel, &err))
        return tenon_py_raise(&err);
    char package[32] = "";
    if (like && !tenon__py_tensor_of(like))
        tenon__py_package(Py_TYPE(like), package, sizeof package);
    PyObject *array;
    const tenon__py_numpy *numpy = PyErr_Occurred() ? NULL : tenon__py_numpy_api();
    if (PyErr_Occurred())
        return NULL;
    if (like && numpy && PyType_IsSubtype(Py_TYPE(like), numpy->ndarray))
        strcpy(package, "numpy");
    bool is_jax = strcmp(package, "jaxlib") == 0 || strcmp(package, "jax") == 0;
    if (is_jax || strcmp(package, "tensorflow") == 0) {
        int elsewhere = on_cuda(like);
        if (elsewhere < 0)
            return NULL;
        if (elsewhere)
            return PyErr_Format(PyExc_ValueError,
                                "memory on the GPU cannot be given to %s from outside; use %s instead of a new array",
                                is_jax ? "JAX" : "TensorFlow", is_jax ? "jax.ffi" : "out=");
        return empty_ours(is_jax ? TENON_PY_AS_JAX : TENON_PY_AS_TENSORFLOW, dtype, ndim, shape, out);
    }
    if (strcmp(package, "numpy") == 0)
        array = tenon__py_empty_numpy(dtype, ndim, shape);
    else if (strcmp(package, "torch") == 0)
        array = empty_torch(like, dtype, ndim, shape);
    else if (strcmp(package, "cupy") == 0)
        array = empty_cupy(like, dtype, ndim, shape);
    else
        return empty_ours(TENON_PY_AS_TENSOR, dtype, ndim, shape, out);
    if (array && tenon_py_borrow(array, TENON_PY_WRITE | TENON_PY_ANY_DEVICE, out) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}
