/* The attributes of tenon.Tensor, and its views by tensor[...]. */
#include "tensor_object.h"

/* ------------------------------------------------------------------------------------------------------ attributes */

static const tenon_view *view_of(PyObject *self)
{
    return tenon_tensor_view(tenon__py_alive(self));
}

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view = view_of(self);
    return view ? tenon__py_dims_tuple(view->ndim, view->shape) : NULL;
}

static PyObject *get_strides(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view = view_of(self);
    return view ? tenon__py_dims_tuple(view->ndim, view->strides) : NULL;
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view = view_of(self);
    if (!view)
        return NULL;
    char name[64];
    tenon_dtype_format_long(view->dtype, name, sizeof name);
    return PyUnicode_FromString(name);
}

static PyObject *get_device(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view = view_of(self);
    if (!view)
        return NULL;
    char name[64];
    tenon__py_device_name(view->device, name, sizeof name);
    return PyUnicode_FromString(name);
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view = view_of(self);
    return view ? PyLong_FromLong(view->ndim) : NULL;
}

static PyObject *get_size(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view = view_of(self);
    return view ? PyLong_FromLongLong(view->numel) : NULL;
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view = view_of(self);
    return view ? PyLong_FromLongLong(tenon_view_nbytes(view)) : NULL;
}

static PyObject *get_readonly(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view;
    bool readonly;
    TENON__PY_BEGIN_SECTION(self);
    view = view_of(self);
    readonly = view && (view->flags & TENON_READ_ONLY);
    TENON__PY_END_SECTION();
    return view ? PyBool_FromLong(readonly) : NULL;
}

static PyObject *get_data_ptr(PyObject *self, void *unused)
{
    (void)unused;
    const tenon_view *view = view_of(self);
    return view ? PyLong_FromVoidPtr(view->data) : NULL;
}

/* Wrap the result of a function of the core in a tenon.Tensor. Takes `made`. NULL with an exception if it failed. */
static PyObject *wrap_result(tenon_status status, tenon_tensor *made, const tenon_error *err)
{
    if (status)
        return tenon__py_raise_in("tenon.Tensor", err);
    PyObject *object = tenon__py_tensor_new(made);
    tenon_tensor_release(made);
    return object;
}

static PyObject *get_transposed(PyObject *self, void *unused)
{
    (void)unused;
    tenon_tensor *tensor = tenon__py_retain(self), *turned = NULL;
    if (!tensor)
        return NULL;
    int32_t axes[TENON_MAX_NDIM], ndim = tenon_tensor_view(tensor)->ndim;
    for (int32_t i = 0; i < ndim; i++)
        axes[i] = ndim - 1 - i;
    tenon_error err;
    tenon_status status = tenon_tensor_permute(tensor, axes, &turned, &err);
    tenon__py_release(tensor);
    return wrap_result(status, turned, &err);
}

PyGetSetDef tenon__py_tensor_attributes[] = {
    {"shape", get_shape, NULL, "The sizes of the dimensions, as a tuple.", NULL},
    {"strides", get_strides, NULL,
     "The step from one element to the next along each dimension, in elements, not bytes.", NULL},
    {"dtype", get_dtype, NULL, "The name of the dtype in NumPy and torch, a str: 'float32', 'bfloat16'.", NULL},
    {"device", get_device, NULL, "Where the memory is, a str: 'cpu', 'cuda:0'.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"nbytes", get_nbytes, NULL, "The size of the elements in bytes, without the gaps between them.", NULL},
    {"readonly", get_readonly, NULL, "Whether the memory is read-only.", NULL},
    {"data_ptr", get_data_ptr, NULL, "The address of the first element, an int. On some devices it is a handle.", NULL},
    {"shared_name", tenon__py_tensor_shared_name, NULL,
     "The name under which another process can attach to the memory, a str; None if the tensor is not shared.", NULL},
    {"shared_fd", tenon__py_tensor_shared_fd, NULL,
     "The file descriptor of the memory, an int, which belongs to the tensor; None if the tensor is not shared.", NULL},
    {"__cuda_array_interface__", tenon__py_tensor_cuda_array_interface, NULL,
     "The memory of a tensor on CUDA as a dict, version 3 of the protocol. Other tensors do not have this attribute.",
     NULL},
    {"T", get_transposed, NULL, "A view with the dimensions in reverse order.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* -------------------------------------------------------------------------------------------------------- indexing */

/* The state while indices are applied: the view so far, and the dimension that the next index applies to. */
typedef struct cut {
    tenon_tensor *tensor;
    int32_t dim;
} cut;

/* Replace the tensor by the result of a function of the core; -1 with an exception if it failed. */
static int replace_tensor(cut *c, tenon_status status, tenon_tensor *made, const tenon_error *err)
{
    if (status)
        return tenon__py_raise_in("tenon.Tensor", err), -1;
    tenon_tensor_release(c->tensor);
    c->tensor = made;
    return 0;
}

static int cut_by_number(cut *c, int64_t index)
{
    int64_t size = tenon_tensor_view(c->tensor)->shape[c->dim];
    if (index < -size || index >= size) {
        PyErr_Format(PyExc_IndexError, "tenon.Tensor: index %lld is out of range for dimension %d of size %lld",
                     (long long)index, (int)c->dim, (long long)size);
        return -1;
    }
    tenon_error err;
    tenon_tensor *made = NULL;
    tenon_status status = tenon_tensor_select(c->tensor, c->dim, index, &made, &err);
    return replace_tensor(c, status, made, &err);
}

static int cut_by_slice(cut *c, PyObject *slice)
{
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
        return -1;
    _Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "every size of a dimension is a Py_ssize_t");
    /* PySlice_Unpack clamps very small bounds to the least number, which the core reads as TENON_OMIT. After
     * PySlice_AdjustIndices only a `stop` before the first element is negative, and only that one is omitted. */
    Py_ssize_t size = (Py_ssize_t)tenon_tensor_view(c->tensor)->shape[c->dim];
    if (PySlice_AdjustIndices(size, &start, &stop, step) == 0)
        start = stop = 0;
    tenon_error err;
    tenon_tensor *made = NULL;
    tenon_status status =
        tenon_tensor_slice(c->tensor, c->dim++, start, stop < 0 ? TENON_OMIT : stop, step, &made, &err);
    return replace_tensor(c, status, made, &err);
}

static int cut_by_none(cut *c)
{
    if (tenon_tensor_view(c->tensor)->ndim == TENON_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "tenon.Tensor: with this None, the view would have more than %d dimensions",
                     TENON_MAX_NDIM);
        return -1;
    }
    tenon_error err;
    tenon_tensor *made = NULL;
    tenon_status status = tenon_tensor_expand_dims(c->tensor, c->dim++, &made, &err);
    return replace_tensor(c, status, made, &err);
}

/* Whether it is an integer: 1, 0, or -1 with an exception. A bool is an int, but other libraries read it as a mask. An
 * array of one element has an __index__, but other libraries select with its elements; unlike a number it has a
 * __len__. */
static int is_number(PyObject *item)
{
    if (!PyIndex_Check(item) || PyBool_Check(item))
        return 0;
    if (PyLong_Check(item))
        return 1;
    PyObject *length;
    int has_length = tenon__py_attribute((PyObject *)Py_TYPE(item), "__len__", &length);
    Py_XDECREF(length);
    return has_length < 0 ? -1 : !has_length;
}

/* The number of dimensions that the items apply to; -1 with an exception. */
static Py_ssize_t count_used(PyObject *items)
{
    Py_ssize_t used = 0, count = PyTuple_Size(items);
    bool rest = false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        if (item == Py_Ellipsis && rest) {
            PyErr_SetString(PyExc_IndexError, "tenon.Tensor: an index can contain only one '...'");
            return -1;
        }
        rest |= item == Py_Ellipsis;
        int number = is_number(item);
        if (number < 0)
            return -1;
        if (number || PySlice_Check(item)) {
            used++;
        } else if (item != Py_None && item != Py_Ellipsis) {
            PyErr_Format(
                PyExc_TypeError,
                "tenon.Tensor: expected ints, slices, '...' and None as indices, got %R; indexing with a list, "
                "an array or a mask would need a copy: convert the tensor with tenon.to(x, 'numpy')",
                (PyObject *)Py_TYPE(item));
            return -1;
        }
    }
    return used;
}

static int cut_by_items(cut *c, PyObject *items)
{
    Py_ssize_t used = count_used(items), count = PyTuple_Size(items);
    int32_t ndim = tenon_tensor_view(c->tensor)->ndim;
    if (used < 0)
        return -1;
    if (used > ndim) {
        PyErr_Format(PyExc_IndexError, "tenon.Tensor: too many indices: %zd for %d dimension%s", used, (int)ndim,
                     ndim == 1 ? "" : "s");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        int status = 0;
        if (item == Py_Ellipsis) {
            c->dim += ndim - (int32_t)used;
        } else if (item == Py_None) {
            status = cut_by_none(c);
        } else if (PySlice_Check(item)) {
            status = cut_by_slice(c, item);
        } else {
            Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);
            status = index == -1 && PyErr_Occurred() ? -1 : cut_by_number(c, index);
        }
        if (status < 0)
            return -1;
    }
    return 0;
}

PyObject *tenon__py_tensor_subscript(PyObject *self, PyObject *key)
{
    PyObject *items = PyTuple_Check(key) ? PyTuple_GetSlice(key, 0, PyTuple_Size(key)) : PyTuple_Pack(1, key);
    if (!items)
        return NULL;
    cut c = {tenon__py_retain(self), 0}; /* a count, because the items' own code runs */
    if (!c.tensor) {
        Py_DECREF(items);
        return NULL;
    }
    PyObject *result = cut_by_items(&c, items) < 0 ? NULL : tenon__py_tensor_new(c.tensor);
    tenon__py_release(c.tensor);
    Py_DECREF(items);
    return result;
}

/* -------------------------------------------------------------------------------------------------------- sequence */

/* The view if it has a first dimension; NULL with an exception. */
static const tenon_view *require_dimensions(PyObject *self, const char *what)
{
    const tenon_view *view = view_of(self);
    if (!view || view->ndim > 0)
        return view;
    PyErr_Format(PyExc_TypeError, "tenon.Tensor: a tensor with 0 dimensions %s", what);
    return NULL;
}

Py_ssize_t tenon__py_tensor_length(PyObject *self)
{
    const tenon_view *view = require_dimensions(self, "has no len()");
    return view ? (Py_ssize_t)view->shape[0] : -1;
}

PyObject *tenon__py_tensor_item(PyObject *self, Py_ssize_t index)
{
    if (!require_dimensions(self, "cannot be indexed with a number"))
        return NULL;
    cut c = {tenon__py_retain(self), 0};
    PyObject *result = cut_by_number(&c, index) < 0 ? NULL : tenon__py_tensor_new(c.tensor);
    tenon__py_release(c.tensor);
    return result;
}

PyObject *tenon__py_tensor_iter(PyObject *self)
{
    return require_dimensions(self, "cannot be iterated over") ? PySeqIter_New(self) : NULL;
}

int tenon__py_tensor_contains(PyObject *self, PyObject *value)
{
    (void)self;
    (void)value;
    PyErr_SetString(PyExc_TypeError, "tenon.Tensor does not compare elements, so it cannot answer `value in x`; use a "
                                     "framework that can, as in `value in tenon.to(x, 'numpy')`");
    return -1;
}
