/* New arrays, by the allocator of the framework that the caller uses. */
#include "../internal.h"

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

PyObject *tenon__py_call_empty(PyObject *module, PyObject *device, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape)
{
    char name[64];
    tenon_dtype_format_long(dtype, name, sizeof name);
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

int tenon__py_device_of(PyObject *like, tenon_device *out)
{
    tenon_py_borrowed borrowed;
    *out = tenon_device_of(TENON_CPU, 0);
    if (!like)
        return 0;
    if (PyCapsule_CheckExact(like)) /* looking into it would use it up */
        return tenon__py_set_error(
            PyExc_ValueError, like,
            "a DLPack capsule does not say which framework makes new arrays; pass out=, or like= "
            "with an array");
    if (tenon_py_borrow(like, TENON_PY_ANY_DEVICE, &borrowed) < 0)
        return -1;
    *out = borrowed.view.device;
    tenon_py_unborrow(&borrowed);
    return 0;
}

PyObject *tenon__py_empty_ours(const tenon__py_producer *producer, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, tenon_py_borrowed *out)
{
    tenon_error err;
    tenon_tensor *tensor = NULL;
    if (tenon_tensor_alloc(dtype, ndim, shape, 0, &tensor, &err))
        return tenon__py_raise_in(producer->name, &err);
    PyObject *object = tenon__py_tensor_new(tensor);
    PyObject *array = object ? producer->wrap(tensor) : NULL;
    tenon_tensor_release(tensor);
    if (array && tenon_py_borrow(object, TENON_PY_WRITE, out) < 0) {
        Py_DECREF(array);
        array = NULL;
    }
    Py_XDECREF(object);
    return array;
}

PyObject *tenon__py_empty_beside(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                 tenon_py_borrowed *out)
{
    tenon_device device;
    if (tenon__py_device_of(like, &device) < 0)
        return NULL;
    if (!tenon_device_on_host(device)) {
        tenon__py_set_error(
            PyExc_ValueError, like,
            "Tenon cannot allocate memory on its device; pass out=, or like= with an array of a framework "
            "that can");
        return NULL;
    }
    return tenon__py_empty_ours(&tenon__py_producer_tensor, dtype, ndim, shape, out);
}

PyObject *tenon__py_borrow_made(PyObject *array, tenon_dtype dtype, tenon_py_borrowed *out)
{
    if (array && tenon_py_borrow(array, TENON_PY_WRITE | TENON_PY_ANY_DEVICE, out) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    if (array && !tenon_dtype_equal(out->view.dtype, dtype)) { /* torch.int4 is a name without a dtype of that size */
        char asked[64], got[64];
        tenon_dtype_format(dtype, asked, sizeof asked);
        tenon_dtype_format(out->view.dtype, got, sizeof got);
        tenon_py_unborrow(out);
        tenon__py_set_error(PyExc_ValueError, array, "its framework has no memory of dtype %s; it made %s", asked, got);
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

PyObject *tenon__py_result_or_own(PyObject *made, PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                  tenon_py_borrowed *out)
{
    PyObject *array = tenon__py_borrow_made(made, dtype, out);
    if (array && is_kept(array, out))
        return array;
    if (array) {
        tenon_py_unborrow(out);
        Py_DECREF(array);
    }
    tenon__py_clear_ignorable_error();
    return PyErr_Occurred() ? NULL : tenon__py_empty_beside(like, dtype, ndim, shape, out);
}

/* A new array of a producer, or of none; `like` is one of its own, or NULL. */
static PyObject *empty_in(const tenon__py_producer *owner, PyObject *like, tenon_device device, tenon_dtype dtype,
                          int32_t ndim, const int64_t *shape, tenon_py_borrowed *out)
{
    return owner && owner->empty ? owner->empty(like, device, dtype, ndim, shape, out)
                                 : tenon__py_empty_beside(like, dtype, ndim, shape, out);
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
    if ((like && !kind) || tenon__py_device_of(like, &device) < 0)
        return NULL;
    return empty_in(kind ? kind->owner : NULL, like, device, dtype, ndim, shape, out);
}

/* ------------------------------------------------------------------------------------------- results of functions */

static TENON__PY_NOINLINE PyObject *empty_like_other(PyObject *like, tenon_device device, tenon_dtype dtype,
                                                     int32_t ndim, const int64_t *shape, tenon_py_borrowed *out)
{
    const tenon__py_kind *kind = like ? tenon__py_known_kind(Py_TYPE(like)) : NULL;
    const tenon__py_producer *owner = kind && kind->peek ? kind->owner : NULL;
    PyObject *array = owner && owner->empty_in_c && tenon_device_on_host(device)
                          ? owner->empty_in_c(device, dtype, ndim, shape, out)
                          : NULL;
    if (array)
        return array;
    owner = NULL;
    if (check_shape("", dtype, ndim, shape) < 0)
        return NULL;
    if (like && !PyUnicode_Check(like) && !PyModule_Check(like)) {
        tenon_device where = tenon_device_of(TENON_CPU, 0);
        if (tenon__py_owner(like, &owner) < 0 ||
            (!(owner && owner->takes_device) && tenon__py_device_of(like, &where) < 0))
            return NULL;
        if (owner || !tenon_device_on_host(where))
            return empty_in(owner, like, device, dtype, ndim, shape, out);
        like = NULL; /* a buffer has no owner: as if it were not given */
    }
    if (like) {
        owner = tenon__py_producer_named(like, true, "expected an array, or");
        if (!owner)
            return NULL;
    } else if (tenon__py_default_producer(&owner) < 0) {
        return NULL;
    }
    return empty_in(owner, NULL, device, dtype, ndim, shape, out);
}

bool tenon__py_makes_array_struct(tenon_device device)
{
    if (!tenon__py_global.array_layout.type || !tenon_device_on_host(device))
        return false;
    const tenon__py_interp *main = atomic_load_explicit(&tenon__py_global.main, memory_order_acquire);
    return main && main->state == PyInterpreterState_Get();
}

PyObject *tenon__py_empty_like(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, tenon_py_borrowed *out)
{
    if (like ? tenon__py_has_array_struct(like) : tenon__py_makes_array_struct(device)) {
        PyObject *array = tenon__py_global.array_layout.empty(dtype, ndim, shape, out);
        if (!array && PyErr_ExceptionMatches(PyExc_ValueError))
            check_shape("", dtype, ndim, shape); /* in our words */
        return array;
    }
    return empty_like_other(like, device, dtype, ndim, shape, out);
}

/* The producer of results like `like`, NULL for tenon.Tensor. 0, or -1 with an exception. */
static int find_producer_like(PyObject *like, const tenon__py_producer **out)
{
    tenon_device device;
    *out = NULL;
    if (like && (PyUnicode_Check(like) || PyModule_Check(like)))
        return (*out = tenon__py_producer_named(like, true, "expected an array, or")) ? 0 : -1;
    if (like && tenon__py_owner(like, out) < 0)
        return -1;
    if (*out)
        return 0;
    return tenon__py_device_of(like, &device) < 0 ? -1 : tenon__py_default_producer(out);
}

/* The same, at once for the arrays that most calls have. */
static int find_producer_at_once(PyObject *like, const tenon__py_producer **out)
{
    *out = tenon__py_global.array_layout.producer;
    return like && tenon__py_has_array_struct(like) ? 0 : find_producer_like(like, out);
}

int tenon__py_is_writable_like(PyObject *like)
{
    const tenon__py_producer *producer;
    return find_producer_at_once(like, &producer) < 0 ? -1 : producer && producer->is_writable;
}

PyObject *tenon__py_adopt_like(PyObject *like, tenon_tensor *tensor)
{
    const tenon__py_producer *producer;
    if (find_producer_at_once(like, &producer) < 0)
        return NULL;
    if (producer && producer->adopt)
        return producer->adopt(tensor);
    return producer && producer->wrap ? producer->wrap(tensor) : tenon__py_tensor_new(tensor);
}
