/* New arrays, by the allocator of the framework that the caller uses. */
#include "../internal.h"

#include <string.h>

void tenon__py_framework_dtype(tenon_dtype dtype, char *buffer, size_t size)
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

PyObject *tenon__py_dims_tuple(int32_t count, const int64_t *values)
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

/* module.empty(shape, dtype=module.float32, device=…), as torch and the array API standard have it; without a device
 * where that is NULL. */
static PyObject *call_empty(PyObject *module, PyObject *device, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    char name[64];
    tenon__py_framework_dtype(dtype, name, sizeof name);
    PyObject *kind = PyObject_GetAttrString(module, name);
    if (!kind && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        PyObject *whose = PyObject_GetAttrString(module, "__name__");
        if (whose)
            PyErr_Format(PyExc_ValueError, "%S has no dtype %S.%s", whose, whose, name);
        Py_XDECREF(whose);
    }
    PyObject *sizes = kind ? tenon__py_dims_tuple(ndim, shape) : NULL;
    PyObject *arguments = sizes ? PyTuple_Pack(1, sizes) : NULL;
    PyObject *keywords = arguments ? Py_BuildValue("{sO}", "dtype", kind) : NULL;
    int status = keywords && device ? PyDict_SetItemString(keywords, "device", device) : 0;
    PyObject *function = keywords && status == 0 ? PyObject_GetAttrString(module, "empty") : NULL;
    PyObject *result = function ? PyObject_Call(function, arguments, keywords) : NULL;
    Py_XDECREF(kind);
    Py_XDECREF(sizes);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    Py_XDECREF(function);
    return result;
}

/* torch.empty on that device; `like`, or NULL, is a tensor there. */
static PyObject *empty_torch(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    PyObject *where = NULL;
    if (device.device_type == TENON_CUDA || device.device_type == TENON_ROCM) /* torch has one name for both */
        where = PyUnicode_FromFormat("cuda:%d", (int)device.device_id);
    else if (like && !tenon_device_on_host(device))
        where = PyObject_GetAttrString(like, "device");
    else
        where = PyUnicode_FromString("cpu");
    PyObject *torch = where ? PyImport_ImportModule("torch") : NULL;
    PyObject *result = torch ? call_empty(torch, where, dtype, ndim, shape) : NULL;
    Py_XDECREF(where);
    Py_XDECREF(torch);
    return result;
}

/* By the namespace that an array of the array API standard names itself. */
static PyObject *empty_namespace(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    PyObject *module = PyObject_CallMethod(like, "__array_namespace__", NULL);
    PyObject *device = module ? PyObject_GetAttrString(like, "device") : NULL;
    PyObject *result = device ? call_empty(module, device, dtype, ndim, shape) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(device);
    return result;
}

/* Where the memory of `like` is; -1 with an exception where it is no array. */
static int device_of_like(PyObject *like, tenon_device *out)
{
    tenon_py_borrowed borrowed;
    *out = tenon_device_of(TENON_CPU, 0);
    if (!like)
        return 0;
    if (PyCapsule_CheckExact(like)) /* looking into it would use it up */
        return tenon__py_complain(PyExc_ValueError, like,
                                  "a DLPack capsule does not say which framework makes new arrays; pass out=, or like= "
                                  "with an array");
    if (tenon_py_borrow(like, TENON_PY_ANY_DEVICE, &borrowed) < 0)
        return -1;
    *out = borrowed.view.device;
    tenon_py_unborrow(&borrowed);
    return 0;
}

/* What an exchange table's allocator says of its failure, to be raised when it has returned. */
static void keep_words(void *context, const char *kind, const char *message)
{
    tenon_status status = kind && strcmp(kind, "MemoryError") == 0 ? TENON_ENOMEM : TENON_EINVAL;
    tenon_error_set(context, status, "%s", message ? message : "its exchange table did not say why");
}

/* By the exchange table of the type of `like`, on its device. */
static PyObject *empty_table(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    int64_t sizes[TENON_MAX_NDIM];
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(like, &room);
    tenon_dl_tensor prototype = {.dtype = dtype, .ndim = ndim, .shape = sizes};
    if (!kind || device_of_like(like, &prototype.device) < 0)
        return NULL;
    for (int32_t i = 0; i < ndim; i++)
        sizes[i] = shape[i];
    tenon_error err = {.status = TENON_OK};
    void *object = NULL;
    tenon_dl_managed *managed = NULL;
    int status = kind->table->managed_tensor_allocator(&prototype, &managed, &err, keep_words);
    if (status == 0 && managed) /* who owns it where this fails is not specified: better lost than freed twice */
        status = kind->table->managed_tensor_to_py_object_no_sync(managed, &object);
    if (status == 0 && object && !PyErr_Occurred())
        return object;
    Py_XDECREF((PyObject *)object);
    if (PyErr_Occurred())
        return NULL;
    if (err.status)
        return tenon_py_raise(&err);
    tenon__py_complain(PyExc_BufferError, like, "its exchange table made no tensor and did not say why");
    return NULL;
}

/* cupy.empty(shape, dtype) on that device. */
static PyObject *empty_cupy(tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    char name[64];
    tenon__py_framework_dtype(dtype, name, sizeof name);
    PyObject *cupy = PyImport_ImportModule("cupy");
    PyObject *cuda = cupy ? PyObject_GetAttrString(cupy, "cuda") : NULL;
    PyObject *where = cuda ? PyObject_CallMethod(cuda, "Device", "i", (int)device.device_id) : NULL;
    PyObject *entered = where ? PyObject_CallMethod(where, "__enter__", NULL) : NULL;
    PyObject *sizes = entered ? tenon__py_dims_tuple(ndim, shape) : NULL;
    PyObject *result = sizes ? PyObject_CallMethod(cupy, "empty", "Os", sizes, name) : NULL;
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

/* JAX and TensorFlow arrays are immutable: they are put on memory of ours that is written before they are seen. */
static PyObject *empty_immutable(bool is_jax, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                 const int64_t *shape, tenon_py_borrowed *out)
{
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
    tenon_device device;
    if (device_of_like(like, &device) < 0)
        return NULL;
    if (!tenon_device_on_host(device)) {
        tenon__py_complain(
            PyExc_ValueError, like,
            "Tenon cannot allocate memory on its device; pass out=, or like= with an array of a framework "
            "that can");
        return NULL;
    }
    return empty_ours(TENON_PY_AS_TENSOR, dtype, ndim, shape, out);
}

/* Borrow what a framework made, to be written, and see that it made what was asked for. */
static PyObject *borrow_made(PyObject *array, tenon_dtype dtype, tenon_py_borrowed *out)
{
    if (array && tenon_py_borrow(array, TENON_PY_WRITE | TENON_PY_ANY_DEVICE, out) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    if (array && !tenon_dtype_equal(out->view.dtype, dtype)) { /* torch.int4 is a name without numbers behind it */
        char asked[64], got[64];
        tenon_dtype_format(dtype, asked, sizeof asked);
        tenon_dtype_format(out->view.dtype, got, sizeof got);
        tenon_py_unborrow(out);
        tenon__py_complain(PyExc_ValueError, array, "its framework has no memory of dtype %s; it made %s", asked, got);
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

/* Whether a second look finds the same memory: what a producer hands out a copy of cannot be written through. */
static bool is_kept(PyObject *array, const tenon_py_borrowed *first)
{
    tenon_py_borrowed second;
    if (tenon_py_borrow(array, TENON_PY_ANY_DEVICE, &second) < 0)
        return false;
    bool kept = second.view.data == first->view.data || first->view.numel == 0;
    tenon_py_unborrow(&second);
    return kept;
}

/* What a framework made that nothing is known of: an array of ours where it did not, or where its own cannot be written. */
static PyObject *made_or_other(PyObject *made, PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                               tenon_py_borrowed *out)
{
    PyObject *array = borrow_made(made, dtype, out);
    if (array && is_kept(array, out))
        return array;
    if (array) {
        tenon_py_unborrow(out);
        Py_DECREF(array);
    }
    tenon__py_forgive();
    return PyErr_Occurred() ? NULL : empty_other(like, dtype, ndim, shape, out);
}

/* A new array of a framework, on that device if the framework can be told; `like` is one of its own, or NULL. */
static PyObject *empty_in(int framework, PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                          const int64_t *shape, tenon_py_borrowed *out)
{
    PyObject *array;
    switch (framework) {
    case TENON__PY_IN_NUMPY:
        return borrow_made(tenon__py_empty_numpy(dtype, ndim, shape), dtype, out);
    case TENON__PY_IN_TORCH:
        array = tenon__py_torch_empty(device, dtype, ndim, shape, out);
        return array ? array : borrow_made(empty_torch(like, device, dtype, ndim, shape), dtype, out);
    case TENON__PY_IN_CUPY:
        return borrow_made(empty_cupy(device, dtype, ndim, shape), dtype, out);
    case TENON__PY_IN_JAX:
    case TENON__PY_IN_TENSORFLOW:
        return empty_immutable(framework == TENON__PY_IN_JAX, device, dtype, ndim, shape, out);
    case TENON__PY_IN_TABLE:
        return made_or_other(empty_table(like, dtype, ndim, shape), like, dtype, ndim, shape, out);
    case TENON__PY_IN_NAMESPACE:
        return made_or_other(empty_namespace(like, dtype, ndim, shape), like, dtype, ndim, shape, out);
    default:
        return empty_other(like, dtype, ndim, shape, out);
    }
}

/* Before any framework is asked: each would say it in its own way. */
static int check_shape(const char *where, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon_error err;
    int64_t numel, item = ((int64_t)dtype.bits * dtype.lanes + 7) / 8;
    tenon_status status = tenon_shape_numel(ndim, shape, &numel, &err);
    if (status && status != TENON_EOVERFLOW)
        return tenon_py_raise(&err), -1;
    if (!status && (item == 0 || numel <= INT64_MAX / item))
        return 0;
    char name[64];
    tenon_dtype_format(dtype, name, sizeof name);
    PyObject *sizes = tenon__py_dims_tuple(ndim, shape);
    PyObject *list = sizes ? PySequence_List(sizes) : NULL;
    if (list)
        PyErr_Format(PyExc_OverflowError, "%s%s%R has more bytes than 64 bits can count", where, name, list);
    Py_XDECREF(sizes);
    Py_XDECREF(list);
    return -1;
}

PyObject *tenon_py_empty(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_py_borrowed *out)
{
    if (!out)
        return PyErr_Format(PyExc_ValueError, "tenon_py_empty(): argument 'out' is NULL");
    if (check_shape("tenon_py_empty(): argument 'shape': ", dtype, ndim, shape) < 0)
        return NULL;
    tenon__py_kind room;
    const tenon__py_kind *kind = like ? tenon__py_kind_of(like, &room) : NULL;
    tenon_device device;
    if ((like && !kind) || device_of_like(like, &device) < 0)
        return NULL;
    return empty_in(kind ? kind->framework : TENON__PY_IN_NONE, like, device, dtype, ndim, shape, out);
}

/* ------------------------------------------------------------------------------------------- results of functions */

bool tenon__py_framework_is_deleted_jax(PyObject *object)
{
    PyObject *error = tenon__py_take_exception();
    PyObject *answer =
        tenon__py_framework(object) == TENON__PY_IN_JAX ? PyObject_CallMethod(object, "is_deleted", NULL) : NULL;
    bool deleted = answer && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(answer);
    if (!deleted)
        tenon__py_raise_again(error);
    else
        Py_XDECREF(error);
    return deleted;
}

int tenon__py_framework(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type == tenon__py_ndarray || type == tenon__py_torch_tensor)
        return type == tenon__py_ndarray ? TENON__PY_IN_NUMPY : TENON__PY_IN_TORCH;
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    return kind ? kind->framework : -1;
}

/* The framework that a name or a module stands for, or -1 with an exception. */
static int framework_by_name(PyObject *like)
{
    static const char *const names[] = {"tenon", "numpy", "torch", "jax", "tensorflow", "cupy"};
    static const int frameworks[] = {TENON__PY_IN_OURS, TENON__PY_IN_NUMPY,      TENON__PY_IN_TORCH,
                                     TENON__PY_IN_JAX,  TENON__PY_IN_TENSORFLOW, TENON__PY_IN_CUPY};
    PyObject *name = like;
    if (PyModule_Check(like) && !(name = PyModule_GetNameObject(like)))
        return -1;
    int found = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0)
            found = frameworks[i];
    if (found < 0)
        tenon__py_complain(
            PyExc_ValueError, like,
            "expected an array, or one of 'numpy', 'torch', 'jax', 'tensorflow', 'cupy', 'tenon', got %R", name);
    if (name != like)
        Py_DECREF(name);
    return found;
}

static TENON__PY_APART PyObject *empty_like_other(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                                  const int64_t *shape, tenon_py_borrowed *out)
{
    if (like && Py_TYPE(like) == tenon__py_torch_tensor && tenon_device_on_host(device)) {
        PyObject *array = tenon__py_torch_empty(tenon_device_of(TENON_CPU, 0), dtype, ndim, shape, out);
        if (array)
            return array;
    }
    if (check_shape("", dtype, ndim, shape) < 0)
        return NULL;
    if (like && !PyUnicode_Check(like) && !PyModule_Check(like)) {
        tenon_device where = tenon_device_of(TENON_CPU, 0);
        int owner = tenon__py_framework(like);
        bool is_told_where = owner == TENON__PY_IN_TORCH || owner == TENON__PY_IN_CUPY;
        if (owner < 0 || (!is_told_where && device_of_like(like, &where) < 0))
            return NULL;
        if (owner != TENON__PY_IN_NONE || !tenon_device_on_host(where))
            return empty_in(owner, like, device, dtype, ndim, shape, out);
        like = NULL; /* a buffer is nobody's: as if it were not given */
    }
    int framework = TENON__PY_IN_NONE;
    if (like) {
        framework = framework_by_name(like);
        if (framework < 0)
            return NULL;
    } else {
        PyObject *numpy = tenon__py_loaded("numpy");
        if (numpy)
            framework = TENON__PY_IN_NUMPY;
        else if (PyErr_Occurred())
            return NULL;
        Py_XDECREF(numpy);
    }
    return empty_in(framework, NULL, device, dtype, ndim, shape, out);
}

PyObject *tenon__py_empty_like(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, tenon_py_borrowed *out)
{
    if (like && Py_TYPE(like) == tenon__py_ndarray) {
        PyObject *array = tenon__py_empty_ndarray(dtype, ndim, shape, out);
        if (!array && PyErr_ExceptionMatches(PyExc_ValueError))
            check_shape("", dtype, ndim, shape); /* in our words */
        return array;
    }
    return empty_like_other(like, device, dtype, ndim, shape, out);
}
