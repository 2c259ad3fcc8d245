/* Tensors in memory that several processes share, and tensors from the bytes of a pickle. */
#include "internal.h"

#include <tenon/shared.h>

#include <limits.h>
#include <string.h>

/* Read a sequence of dimensions or strides. Returns their number, or -1 with an exception that begins with `where`. */
static int32_t read_dims(PyObject *sequence, const char *where, int64_t dims[TENON_MAX_NDIM])
{
    PyObject *items = PySequence_Tuple(sequence);
    Py_ssize_t count = items ? PyTuple_Size(items) : -1;
    if (count > TENON_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "%s: expected at most %d dimensions, got %zd", where, TENON_MAX_NDIM, count);
        count = -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        dims[i] = PyNumber_AsSsize_t(item, PyExc_OverflowError);
        if (dims[i] != -1 || !PyErr_Occurred())
            continue;
        count = -1;
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Format(PyExc_ValueError, "%s: %S has more bytes than 64 bits can count", where, sequence);
        else if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s: expected integers, got %R", where, item);
    }
    Py_XDECREF(items);
    return (int32_t)count;
}

/* The object of a tensor, whose reference it takes. Errors begin with `where`. */
static PyObject *as_object(tenon_tensor *tensor, tenon_status status, const char *where, const tenon_error *err)
{
    if (status)
        return tenon__py_raise_in(where, err);
    PyObject *object = tenon_py_export(tensor, TENON_PY_AS_TENSOR);
    tenon__py_release(tensor);
    return object;
}

/* The same for the functions of the package, which raise ValueError, MemoryError, or OSError. */
static PyObject *as_shared(tenon_tensor *tensor, tenon_status status, const char *where, tenon_error *err)
{
    if (status && status != TENON_ENOMEM && status != TENON_ESYSTEM)
        err->status = TENON_EINVAL;
    return as_object(tensor, status, where, err);
}

static PyObject *shared_zeros(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *shape, *text;
    tenon_dtype dtype;
    tenon_error err;
    int64_t dims[TENON_MAX_NDIM];
    tenon_tensor *tensor = NULL;
    if (!PyArg_ParseTuple(arguments, "OU:_shared_zeros", &shape, &text))
        return NULL;
    Py_ssize_t length;
    const char *name = PyUnicode_AsUTF8AndSize(text, &length);
    if (!name && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return NULL;
    if (!name || strlen(name) != (size_t)length || tenon_dtype_parse(name, &dtype, &err))
        return PyErr_Format(PyExc_ValueError,
                            "tenon.shared_zeros(): argument 'dtype': expected a dtype such as f32, i64 or bf16, got %A",
                            text);
    int32_t ndim = read_dims(shape, "tenon.shared_zeros(): argument 'shape'", dims);
    if (ndim < 0)
        return NULL;
    PyThreadState *thread = PyEval_SaveThread(); /* it fills the memory with zeros */
    tenon_status status = tenon_shared_zeros(dtype, ndim, dims, &tensor, &err);
    PyEval_RestoreThread(thread);
    return as_shared(tensor, status, "tenon.shared_zeros()", &err);
}

/* The core has a function for names and one for descriptors, each with its own argument. */
static void rename_argument(tenon_error *err)
{
    static const char *const names[] = {"argument 'name'", "argument 'fd'"};
    const tenon_error from = *err;
    const char *reason = tenon_error_reason(&from);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(reason, names[i], length) == 0) {
            tenon_error_set_in(err, from.status, "attach", "argument 'name_or_fd'%s", reason + length);
            err->os_error = from.os_error;
        }
    }
}

static PyObject *as_attached(tenon_tensor *tensor, tenon_status status, tenon_error *err)
{
    bool read_only = !status && (tenon_tensor_view(tensor)->flags & TENON_READ_ONLY);
    if (read_only && tenon__py_guard(tensor) < 0) {
        tenon__py_release(tensor);
        return NULL;
    }
    if (status)
        rename_argument(err);
    return as_shared(tensor, status, "tenon.attach()", err);
}

static PyObject *shared_attach(PyObject *self, PyObject *object)
{
    (void)self;
    tenon_tensor *tensor = NULL;
    tenon_error err;
    if (PyUnicode_Check(object)) {
        Py_ssize_t length;
        const char *name = PyUnicode_AsUTF8AndSize(object, &length);
        if (!name && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return PyErr_Format(PyExc_ValueError,
                                "tenon.attach(): argument 'name_or_fd': expected a shared_name, got %A", object);
        if (!name)
            return NULL;
        if (strlen(name) != (size_t)length)
            return PyErr_Format(PyExc_ValueError, "tenon.attach(): argument 'name_or_fd' has a NUL character");
        tenon_status status = tenon_shared_attach_name(name, &tensor, &err);
        return as_attached(tensor, status, &err);
    }
    int overflow;
    long fd = PyLong_AsLongAndOverflow(object, &overflow);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    if (fd < 0 || fd > INT_MAX)
        return PyErr_Format(PyExc_ValueError,
                            "tenon.attach(): argument 'name_or_fd': expected a file descriptor, got %R", object);
    tenon_status status = tenon_shared_attach((int)fd, &tensor, &err);
    return as_attached(tensor, status, &err);
}

/* The tensor of an object, with one more count; NULL with an exception. */
static tenon_tensor *require_tensor(PyObject *object)
{
    if (tenon__py_is_tensor(object))
        return tenon__py_retain(object);
    PyErr_Format(PyExc_TypeError, "expected a tenon.Tensor, got %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

/* Copy a tensor on the CPU into shared memory, which has no padded values. */
static PyObject *shared_copy(PyObject *self, PyObject *object)
{
    (void)self;
    tenon_tensor *source = require_tensor(object), *tensor = NULL;
    tenon_error err;
    if (!source)
        return NULL;
    const tenon_view *view = tenon_tensor_view(source);
    if (view->flags & TENON_SUBBYTE_PADDED) {
        char name[64];
        tenon_dtype_format(view->dtype, name, sizeof name);
        PyErr_Format(
            PyExc_TypeError,
            "tenon.share(): argument 'array': each %s value takes a whole byte, as in NumPy, but shared memory has "
            "packed values; pass an array of 8-bit values, as in array.astype('int8')",
            name);
        tenon__py_release(source);
        return NULL;
    }
    PyThreadState *thread = PyEval_SaveThread();
    tenon_status status = tenon_shared_zeros(view->dtype, view->ndim, view->shape, &tensor, &err);
    if (!status)
        status = tenon_copy(tenon_tensor_view(tensor), view, &err);
    PyEval_RestoreThread(thread);
    tenon__py_release(source);
    if (status)
        tenon_tensor_release(tensor);
    return as_shared(tensor, status, "tenon.share()", &err);
}

static void release_tensor(void *owner)
{
    tenon_tensor_release(owner);
}

/* Return (root, offset in bytes) of a view of a shared tensor, or None. */
static PyObject *shared_root(PyObject *self, PyObject *object)
{
    (void)self;
    tenon_tensor *tensor = require_tensor(object);
    int fd;
    if (!tensor)
        return NULL;
    tenon_tensor *root = tenon_tensor_root(tensor), *inner;
    while ((inner = tenon_tensor_owner(root, release_tensor))) /* of a view that came from another process */
        root = tenon_tensor_root(inner);
    const char *start = tenon_tensor_view(root)->data, *first = tenon_tensor_view(tensor)->data;
    bool is_shared = tenon_shared_fd(root, &fd, NULL) == TENON_OK;
    PyObject *place =
        is_shared ? Py_BuildValue("(NL)", tenon_py_export(root, TENON_PY_AS_TENSOR), (long long)(first - start)) : NULL;
    tenon__py_release(tensor);
    if (is_shared)
        return place;
    Py_RETURN_NONE;
}

/* Create a tensor on the memory of another, which it keeps alive. */
static tenon_status tensor_inside(tenon_tensor *source, int64_t offset, tenon_dtype dtype, int32_t ndim,
                                  const int64_t *shape, const int64_t *strides, tenon_tensor **out, tenon_error *err)
{
    const tenon_view *view = tenon_tensor_view(source);
    bool is_empty = false;
    for (int32_t i = 0; i < ndim; i++)
        is_empty |= shape[i] == 0;
    /* A block of 0 bytes would mean that its size is unknown. */
    if (!(view->flags & TENON_VIEW_DENSE) || offset < 0 || (view->numel == 0 && !is_empty))
        return tenon_error_set(err, TENON_EINVAL, "the elements are not in the memory that was given");
    if (is_empty)
        strides = NULL;
    tenon_blob blob = {
        .data = view->data,
        .byte_offset = (uint64_t)offset,
        .data_size = (uint64_t)tenon_view_nbytes(view),
        .dtype = dtype,
        .ndim = ndim,
        .shape = shape,
        .strides = strides,
        .flags = view->flags & TENON_READ_ONLY,
        .owner = tenon_tensor_retain(source),
        .release = release_tensor,
    };
    tenon_status status = tenon_tensor_from_blob(&blob, out, err);
    if (status)
        tenon_tensor_release(source);
    return status;
}

static PyObject *tensor_on(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *object, *shape, *strides;
    long long offset;
    const char *name;
    int64_t dims[TENON_MAX_NDIM], steps[TENON_MAX_NDIM];
    tenon_dtype dtype;
    tenon_error err;
    tenon_tensor *made = NULL;
    if (!PyArg_ParseTuple(arguments, "OLsOO:_tensor_on", &object, &offset, &name, &shape, &strides))
        return NULL;
    if (tenon_dtype_parse(name, &dtype, &err))
        return tenon__py_raise_in("tenon.Tensor", &err);
    int32_t ndim = read_dims(shape, "tenon.Tensor: the shape", dims);
    if (ndim < 0)
        return NULL;
    if (strides != Py_None && read_dims(strides, "tenon.Tensor: the strides", steps) != ndim)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_ValueError, "tenon.Tensor: the strides: expected one for each dimension");
    tenon_tensor *source = tenon_py_import(object, 0);
    if (!source)
        return NULL;
    tenon_status status =
        tensor_inside(source, offset, dtype, ndim, dims, strides == Py_None ? NULL : steps, &made, &err);
    tenon_tensor_release(source);
    return as_object(made, status, "tenon.Tensor", &err);
}

/* The elements of a tensor as bytes, and their strides, or None for C order: on the same memory, unless there are gaps. */
static PyObject *bytes_of_tensor(PyObject *object, tenon_tensor *tensor)
{
    tenon_tensor *dense = NULL, *made = NULL;
    tenon_error err;
    const tenon_view *view = tenon_tensor_view(tensor);
    if (view->flags & TENON_SUBBYTE_PADDED)
        return PyErr_Format(PyExc_TypeError, "tenon.Tensor: elements that are padded to whole bytes cannot be pickled");
    if (!tenon_device_on_host(view->device))
        return PyErr_Format(
            PyExc_TypeError,
            "tenon.Tensor: memory that is not on the CPU cannot be pickled; copy the tensor to the CPU");
    bool permuted = (view->flags & (TENON_VIEW_C | TENON_VIEW_DENSE)) == TENON_VIEW_DENSE;
    tenon_status status = TENON_OK;
    if (permuted)
        dense = tenon_tensor_retain(tensor);
    else
        status = tenon_tensor_contiguous(tensor, &dense, &err);
    if (status)
        return tenon__py_raise_in("tenon.Tensor", &err);
    int64_t size = tenon_view_nbytes(view);
    status = tensor_inside(dense, 0, TENON_U8, 1, &size, NULL, &made, &err);
    tenon_tensor_release(dense);
    PyObject *bytes = as_object(made, status, "tenon.Tensor", &err), *strides = Py_None;
    if (bytes && permuted)
        strides = PyObject_GetAttrString(object, "strides");
    else
        Py_INCREF(strides);
    PyObject *result = bytes && strides ? PyTuple_Pack(2, bytes, strides) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(strides);
    return result;
}

static PyObject *bytes_of(PyObject *self, PyObject *object)
{
    (void)self;
    tenon_tensor *tensor = require_tensor(object);
    PyObject *result = tensor ? bytes_of_tensor(object, tensor) : NULL;
    tenon__py_release(tensor);
    return result;
}

/* A read-only array of a framework on the memory of a tensor, or on a copy if the framework cannot use that memory. */
static PyObject *receive(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *object, *name;
    tenon_error err;
    if (!PyArg_ParseTuple(arguments, "OO:_receive", &object, &name))
        return NULL;
    const tenon__py_producer *producer = tenon__py_producer_named(name, false, "expected");
    tenon_tensor *tensor = producer ? require_tensor(object) : NULL, *shown = NULL;
    if (!tensor)
        return NULL;
    tenon_view view = *tenon_tensor_view(tensor);
    view.flags |= TENON_READ_ONLY;
    if (tenon_tensor_from_view(&view, tensor, release_tensor, &shown, &err)) {
        tenon_tensor_release(tensor);
        return tenon__py_raise_in("tenon.Tensor", &err);
    }
    PyObject *(*make)(tenon_tensor *) = producer->receive ? producer->receive
                                        : producer->adopt ? producer->adopt
                                                          : producer->wrap;
    PyObject *array = make(shown);
    if (!array)
        tenon__py_raise_missing(producer->name, "a pickled array");
    tenon_tensor_release(shown);
    return array;
}

PyMethodDef tenon__shared_methods[] = {
    {"_shared_zeros", shared_zeros, METH_VARARGS,
     "_shared_zeros(shape, dtype, /)\n--\n\nReturn a tensor of zeros in shared memory."},
    {"_shared_copy", shared_copy, METH_O, "_shared_copy(tensor, /)\n--\n\nReturn a copy of a tensor in shared memory."},
    {"_shared_attach", shared_attach, METH_O,
     "_shared_attach(name_or_fd, /)\n--\n\nReturn a tensor on the shared memory of another process."},
    {"_shared_root", shared_root, METH_O,
     "_shared_root(tensor, /)\n--\n\nReturn the shared tensor whose memory this is, and the offset in bytes; or "
     "None."},
    {"_tensor_on", tensor_on, METH_VARARGS,
     "_tensor_on(memory, offset, dtype, shape, strides, /)\n--\n\nReturn a tensor on the memory of a buffer or of "
     "another tensor."},
    {"_bytes_of", bytes_of, METH_O,
     "_bytes_of(tensor, /)\n--\n\nReturn the elements as a tensor of bytes, and their strides, or None for C order."},
    {"_receive", receive, METH_VARARGS,
     "_receive(tensor, framework, /)\n--\n\nReturn a read-only array of a framework on the memory of a tensor."},
    {NULL, NULL, 0, NULL},
};
