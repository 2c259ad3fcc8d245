/* tenon.Tensor: a tenon_tensor as a Python object that every framework can read. */
#include "tensor_object.h"

#include <structmember.h>

#include <string.h>

typedef struct tensor_object {
    PyObject_HEAD tenon_tensor *tensor;
    PyObject *weak_references;
    _Atomic Py_ssize_t writable_buffers; /* buffers hold this object, not the tensor */
} tensor_object;

static tenon_tensor *tensor_inside(PyObject *self)
{
    return ((tensor_object *)self)->tensor;
}

tenon_tensor *tenon__py_alive(PyObject *self)
{
    if (!tensor_inside(self))
        PyErr_SetString(PyExc_ValueError, "tenon.Tensor: its memory has been released");
    return tensor_inside(self);
}

tenon_tensor *tenon__py_retain(PyObject *self)
{
    tenon_tensor *tensor;
    TENON__PY_BEGIN_SECTION(self);
    tensor = tenon_tensor_retain(tenon__py_alive(self));
    TENON__PY_END_SECTION();
    return tensor;
}

/* ---------------------------------------------------------------------------------------------------------- object */

static PyObject *tensor_refuse_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)type;
    (void)arguments;
    (void)keywords;
    PyErr_SetString(PyExc_TypeError,
                    "tenon.Tensor cannot be called; tenon.from_dlpack(x) makes one, and functions return them");
    return NULL;
}

/* An imported tensor keeps a Python object alive. The garbage collector may see that reference only if nothing else
 * holds the tensor. */
static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    tenon_tensor *tensor = tensor_inside(self);
    const tenon__py_holder *holder = tenon__py_holder_of(tensor);
    if (holder && tenon_tensor_refcount(tensor) == 1 && tenon_tensor_refcount(tenon_tensor_root(tensor)) == 1) {
        Py_VISIT(holder->borrowed.private_.object);
        if (holder->borrowed.private_.holds == TENON__PY_HOLDS_BUFFER ||
            holder->borrowed.private_.holds == TENON__PY_HOLDS_QUIET_BUFFER)
            Py_VISIT(holder->borrowed.private_.held.buffer.obj);
        else if (holder->borrowed.private_.holds == TENON__PY_HOLDS_OBJECT)
            Py_VISIT(holder->borrowed.private_.held.object);
    }
    return 0;
}

static int tensor_clear(PyObject *self)
{
    tenon_tensor *tensor = tensor_inside(self);
    ((tensor_object *)self)->tensor = NULL;
    tenon__py_release(tensor);
    return 0;
}

static void tensor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((tensor_object *)self)->weak_references)
        PyObject_ClearWeakRefs(self);
    tenon__py_release(tensor_inside(self));
    PyObject_GC_Del(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *tensor_repr(PyObject *self)
{
    if (!tensor_inside(self))
        return PyUnicode_FromString("<tenon.Tensor, released>");
    tenon_tensor *tensor = tenon__py_retain(self);
    PyObject *text = tenon__py_tensor_repr(tenon_tensor_view(tensor));
    tenon__py_release(tensor);
    return text;
}

/* ---------------------------------------------------------------------------------------------------------- buffer */

static int buffer_refuse(const char *why)
{
    PyErr_Format(PyExc_BufferError, "tenon.Tensor: %s", why);
    return -1;
}

static int fill_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    buffer->obj = NULL;
    if (!tenon__py_alive(self))
        return -1;
    const tenon_view *view = tenon_tensor_view(tensor_inside(self));
    const char *format = tenon__py_format(view->dtype);
    bool c_order = view->flags & TENON_VIEW_C, f_order = view->flags & TENON_VIEW_F;
    if (!tenon_device_on_host(view->device))
        return buffer_refuse("the memory is not on the CPU");
    if (!format)
        return buffer_refuse("the buffer protocol has no format for its dtype; use DLPack");
    if ((flags & PyBUF_WRITABLE) && (view->flags & TENON_READ_ONLY))
        return buffer_refuse("the memory is read-only");
    bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
    bool wants_f = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
    bool wants_any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
    bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    if ((wants_c && !c_order) || (wants_f && !f_order) || (wants_any && !c_order && !f_order) || (!strided && !c_order))
        return buffer_refuse("the elements are not in the requested order");
    Py_ssize_t item = (Py_ssize_t)(view->dtype.bits / 8);
    Py_ssize_t *dims = PyMem_Malloc((2 * (size_t)view->ndim + 1) * sizeof *dims);
    if (!dims)
        return PyErr_NoMemory(), -1;
    for (int32_t i = 0; i < view->ndim; i++) {
        dims[i] = (Py_ssize_t)view->shape[i];
        dims[view->ndim + i] = (Py_ssize_t)((uint64_t)view->strides[i] * (uint64_t)item);
    }
    static char nothing[1];
    bool shaped = (flags & PyBUF_ND) == PyBUF_ND, has_dims = view->ndim > 0; /* PEP 3118: NULL for 0 dimensions */
    buffer->buf = view->data ? view->data : nothing;
    buffer->len = (Py_ssize_t)tenon_view_nbytes(view);
    buffer->readonly = (view->flags & TENON_READ_ONLY) != 0;
    buffer->itemsize = item;
    buffer->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL;
    buffer->ndim = shaped ? view->ndim : 1;
    buffer->shape = shaped && has_dims ? dims : NULL;
    buffer->strides = strided && has_dims ? dims + view->ndim : NULL;
    buffer->suboffsets = NULL;
    buffer->internal = dims;
    Py_INCREF(self);
    buffer->obj = self;
    if (!buffer->readonly)
        atomic_fetch_add(&((tensor_object *)self)->writable_buffers, 1);
    return 0;
}

static int tensor_getbuffer(PyObject *self, Py_buffer *buffer, int flags)
{
    int status;
    TENON__PY_BEGIN_SECTION(self);
    status = fill_buffer(self, buffer, flags);
    TENON__PY_END_SECTION();
    return status;
}

static void tensor_releasebuffer(PyObject *self, Py_buffer *buffer)
{
    if (!buffer->readonly)
        atomic_fetch_sub(&((tensor_object *)self)->writable_buffers, 1);
    PyMem_Free(buffer->internal);
}

bool tenon__py_tensor_has_writable_buffer(PyObject *self)
{
    return atomic_load(&((tensor_object *)self)->writable_buffers) != 0;
}

/* ------------------------------------------------------------------------------------------------------------ type */

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tenon__py_tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nReturn a DLPack capsule."},
    {"__dlpack_device__", tenon__py_tensor_dlpack_device, METH_NOARGS, "The DLPack device as (type, id)."},
    {"__complex__", tenon__py_tensor_complex, METH_NOARGS,
     "Return the number in a tensor without dimensions as a complex."},
    {"tolist", tenon__py_tensor_tolist, METH_NOARGS,
     "tolist($self, /)\n--\n\nReturn the elements as lists in lists; of a tensor without dimensions, the number."},
    {"item", tenon__py_tensor_only_item, METH_NOARGS,
     "item($self, /)\n--\n\nReturn the only element as a bool, an int, a float or a complex."},
    {"freeze", tenon__py_tensor_freeze, METH_NOARGS,
     "freeze($self, /)\n--\n\nMake the memory of a shared tensor read-only, for this process and for every process "
     "that "
     "attaches to it from now on."},
    {"__copy__", tenon__py_tensor_copy, METH_NOARGS, "Return a copy in private memory that can be written to."},
    {"__deepcopy__", tenon__py_tensor_copy, METH_O,
     "__deepcopy__($self, memo, /)\n--\n\nReturn a copy in private memory that can be written to."},
    {"__reduce_ex__", tenon__py_tensor_reduce, METH_O, "__reduce_ex__($self, protocol, /)\n--\n\nPickle the elements."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tensor_object, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_new, TENON__PY_SLOT(tensor_refuse_new)},
    {Py_tp_dealloc, TENON__PY_SLOT(tensor_dealloc)},
    {Py_tp_traverse, TENON__PY_SLOT(tensor_traverse)},
    {Py_tp_clear, TENON__PY_SLOT(tensor_clear)},
    {Py_tp_repr, TENON__PY_SLOT(tensor_repr)},
    {Py_tp_methods, tensor_methods},
    {Py_tp_members, tensor_members},
    {Py_tp_getset, tenon__py_tensor_attributes},
    {Py_tp_iter, TENON__PY_SLOT(tenon__py_tensor_iter)},
    {Py_mp_length, TENON__PY_SLOT(tenon__py_tensor_length)},
    {Py_mp_subscript, TENON__PY_SLOT(tenon__py_tensor_subscript)},
    {Py_sq_length, TENON__PY_SLOT(tenon__py_tensor_length)},
    {Py_sq_item, TENON__PY_SLOT(tenon__py_tensor_item)},
    {Py_sq_contains, TENON__PY_SLOT(tenon__py_tensor_contains)},
    {Py_nb_bool, TENON__PY_SLOT(tenon__py_tensor_bool)},
    {Py_nb_int, TENON__PY_SLOT(tenon__py_tensor_int)},
    {Py_nb_float, TENON__PY_SLOT(tenon__py_tensor_float)},
    {Py_nb_index, TENON__PY_SLOT(tenon__py_tensor_index_value)},
    {Py_bf_getbuffer, TENON__PY_SLOT(tensor_getbuffer)},
    {Py_bf_releasebuffer, TENON__PY_SLOT(tensor_releasebuffer)},
    {Py_tp_doc,
     "A tensor that keeps its memory alive. Frameworks read it without copying, and tensor[...] is a view.\n\n"
     "It has no arithmetic: pass it to a framework, as in numpy.asarray(tensor) or torch.from_dlpack(tensor)."},
    {0, NULL},
};

static PyType_Spec tensor_spec = {
    .name = "tenon.Tensor",
    .basicsize = sizeof(tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = tensor_slots,
};

/* Set an attribute of the type. Takes `descriptor`, which may be NULL. */
static int set_descriptor(PyObject *type, const char *name, PyObject *descriptor)
{
    int status = descriptor ? PyObject_SetAttrString(type, name, descriptor) : -1;
    Py_XDECREF(descriptor);
    return status;
}

/* Add what the frameworks look for in an array. */
static int add_for_frameworks(PyObject *type)
{
    int status = 0;
    for (int i = 0; i < tenon__py_nframeworks && status == 0; i++) {
        PyMethodDef *method = tenon__py_frameworks[i]->tensor_methods;
        PyGetSetDef *attribute = tenon__py_frameworks[i]->tensor_attributes;
        for (; method && method->ml_name && status == 0; method++)
            status = set_descriptor(type, method->ml_name, PyDescr_NewMethod((PyTypeObject *)type, method));
        for (; attribute && attribute->name && status == 0; attribute++)
            status = set_descriptor(type, attribute->name, PyDescr_NewGetSet((PyTypeObject *)type, attribute));
    }
    return status;
}

PyTypeObject *tenon_py_type(void)
{
    tenon__py_interp *interp = tenon__py_interp_state();
    PyTypeObject *made = interp ? atomic_load_explicit(&interp->tensor_type, memory_order_acquire) : NULL;
    if (!interp || made)
        return made;
    PyObject *type = PyType_FromSpec(&tensor_spec);
    PyObject *capsule = type ? PyCapsule_New(&tenon__py_tensor_table, TENON_DL_EXCHANGE_CAPSULE, NULL) : NULL;
    if (set_descriptor(type, TENON_DL_EXCHANGE_ATTRIBUTE, capsule) < 0 || add_for_frameworks(type) < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    /* Another thread may have been faster. */
    if (!atomic_compare_exchange_strong(&interp->tensor_type, &made, (PyTypeObject *)type)) {
        Py_DECREF(type);
        return made;
    }
    return (PyTypeObject *)type;
}

PyObject *tenon__py_tensor_new(tenon_tensor *tensor)
{
    PyTypeObject *type = tenon_py_type();
    tensor_object *self = type ? PyObject_GC_New(tensor_object, type) : NULL;
    if (!self)
        return NULL;
    self->tensor = tenon_tensor_retain(tensor);
    self->weak_references = NULL;
    atomic_init(&self->writable_buffers, 0);
    PyObject_GC_Track((PyObject *)self);
    return (PyObject *)self;
}

bool tenon__py_is_tensor(PyObject *object)
{
    tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp)
        PyErr_Clear();
    return interp && Py_TYPE(object) == atomic_load_explicit(&interp->tensor_type, memory_order_acquire);
}

tenon_tensor *tenon__py_tensor_of(PyObject *object)
{
    return tenon__py_is_tensor(object) ? tensor_inside(object) : NULL;
}

/* -------------------------------------------------------------------------------------------------------------- in */

/* Make device memory ready on the requested stream; without a request, on the stream that tenon_py_stream returns. */
static TENON__PY_NOINLINE int borrow_from_device(tenon_tensor *tensor, intptr_t stream, tenon_py_borrowed *out)
{
    const tenon__py_holder *producer = tenon__py_holder_of(tensor);
    out->private_.table = producer ? producer->borrowed.private_.table : NULL;
    if (stream == TENON__PY_NO_STREAM && (out->private_.table || !producer))
        return 0; /* the caller works on the stream that fills the memory */
    return tenon__py_order(tensor, stream);
}

static int tensor_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out)
{
    (void)kind;
    tenon_tensor *tensor = tenon__py_retain(object);
    if (!tensor)
        return -1;
    const tenon_view *view = tenon_tensor_view(tensor);
    if (!tenon__py_alloc_dims(out, view->ndim)) {
        tenon__py_release(tensor);
        return PyErr_NoMemory(), -1;
    }
    out->view = *view;
    if (view->ndim > 0) {
        memcpy(out->private_.dims, view->shape, (size_t)view->ndim * sizeof *out->private_.dims);
        memcpy(out->private_.dims + view->ndim, view->strides, (size_t)view->ndim * sizeof *out->private_.dims);
    }
    out->view.shape = out->private_.dims;
    out->view.strides = out->private_.dims + view->ndim;
    out->private_.holds = TENON__PY_HOLDS_TENSOR;
    out->private_.held.tensor = tensor;
    if (view->device.device_type == TENON_CPU || borrow_from_device(tensor, request->stream, out) == 0)
        return 0;
    tenon__py_release(tensor);
    tenon__py_free_dims(out);
    return -1;
}

static int tensor_recognise(PyObject *object, tenon__py_kind *kind)
{
    if (!tenon__py_is_tensor(object))
        return 0;
    kind->owner = &tenon__py_producer_tensor;
    return TENON__PY_ALONE;
}

static PyObject *tensor_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                              const int64_t *shape, tenon_py_borrowed *out)
{
    (void)device;
    return tenon__py_empty_beside(like, dtype, ndim, shape, out);
}

const tenon__py_producer tenon__py_producer_tensor = {
    .name = "tenon",
    .title = "tenon",
    .recognise = tensor_recognise,
    .read = tensor_read,
    .empty = tensor_empty,
    .wrap = tenon__py_tensor_new,
};
