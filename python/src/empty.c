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

/* Where the memory of `like` is; -1 with an exception where it is no array. */
static int device_of_like(PyObject *like, tenon_device *out)
{
    tenon_py_borrowed borrowed;
    if (tenon_py_borrow(like, TENON_PY_ANY_DEVICE, &borrowed) < 0)
        return -1;
    *out = borrowed.view.device;
    tenon_py_unborrow(&borrowed);
    return 0;
}

/* JAX and TensorFlow arrays are immutable: they are put on memory of ours that is written before they are seen. */
static PyObject *empty_immutable(PyObject *like, bool is_jax, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                 tenon_py_borrowed *out)
{
    tenon_device device;
    if (device_of_like(like, &device) < 0)
        return NULL;
    if (!tenon_device_on_host(device))
        return PyErr_Format(PyExc_ValueError,
                            "memory on the GPU cannot be given to %s from outside; use %s instead of a new array",
                            is_jax ? "JAX" : "TensorFlow", is_jax ? "jax.ffi" : "out=");
    return empty_ours(is_jax ? TENON_PY_AS_JAX : TENON_PY_AS_TENSORFLOW, dtype, ndim, shape, out);
}

/* Other producers: memory of ours, where the CPU is where they are. */
static PyObject *empty_other(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                             tenon_py_borrowed *out)
{
    tenon_device device = tenon_device_of(TENON_CPU, 0);
    if (like && device_of_like(like, &device) < 0)
        return NULL;
    if (!tenon_device_on_host(device)) {
        tenon__py_complain(PyExc_ValueError, like, "tenon does not know how to allocate on its device");
        return NULL;
    }
    return empty_ours(TENON_PY_AS_TENSOR, dtype, ndim, shape, out);
}

PyObject *tenon_py_empty(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_py_borrowed *out)
{
    tenon_error err;
    int64_t numel;
    if (!out)
        return PyErr_Format(PyExc_ValueError, "tenon_py_empty(): argument 'out' is NULL");
    if (tenon_shape_numel(ndim, shape, &numel, &err))
        return tenon_py_raise(&err);
    tenon__py_kind room;
    const tenon__py_kind *kind = like ? tenon__py_kind_of(like, &room) : NULL;
    char package[32] = "";
    if (like && (!kind || (tenon__py_package(Py_TYPE(like), package, sizeof package), PyErr_Occurred())))
        return NULL;
    uint32_t ways = kind ? kind->ways : 0;
    bool is_jax = strcmp(package, "jaxlib") == 0 || strcmp(package, "jax") == 0;
    PyObject *array;
    if (ways & TENON__PY_NUMPY)
        array = tenon__py_empty_numpy(dtype, ndim, shape);
    else if (ways & TENON__PY_TORCH)
        array = empty_torch(like, dtype, ndim, shape);
    else if (is_jax || strcmp(package, "tensorflow") == 0)
        return empty_immutable(like, is_jax, dtype, ndim, shape, out);
    else if (strcmp(package, "cupy") == 0 && (ways & TENON__PY_DLPACK))
        array = empty_cupy(like, dtype, ndim, shape);
    else
        return empty_other(like, dtype, ndim, shape, out);
    if (array && tenon_py_borrow(array, TENON_PY_WRITE | TENON_PY_ANY_DEVICE, out) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    if (array && !tenon_dtype_equal(out->view.dtype, dtype)) { /* torch.int4 is a name without numbers behind it */
        char asked[64], got[64];
        tenon_dtype_format(dtype, asked, sizeof asked);
        tenon_dtype_format(out->view.dtype, got, sizeof got);
        tenon_py_unborrow(out);
        Py_DECREF(array);
        return PyErr_Format(PyExc_ValueError, "%s has no memory of dtype %s; it made %s", package, asked, got);
    }
    return array;
}
