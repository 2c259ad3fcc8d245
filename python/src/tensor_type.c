/* tenon.Tensor: a tenon_tensor as a Python object that every framework can read. */
#include "bridge.h"

#include <structmember.h>

#include <string.h>

typedef struct tensor_object {
    PyObject_HEAD tenon_tensor *tensor;
    PyObject *weak_references;
} tensor_object;

static tenon_tensor *inside(PyObject *self)
{
    return ((tensor_object *)self)->tensor;
}

/* After a cycle was cleared nothing is left to show. */
static int check_alive(PyObject *self)
{
    if (inside(self))
        return 0;
    PyErr_SetString(PyExc_ValueError, "tenon.Tensor: its memory has been given back");
    return -1;
}

/* ---------------------------------------------------------------------------------------------------------- object */

static PyObject *tensor_refuse_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)type;
    (void)arguments;
    (void)keywords;
    PyErr_SetString(PyExc_TypeError, "tenon.Tensor is not made by calling it; it comes from functions that return one");
    return NULL;
}

/* A tensor of a Python object's memory keeps that object alive; where nobody else holds the tensor, the collector may
 * know. */
static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
#if PY_VERSION_HEX >= 0x03090000
    Py_VISIT(Py_TYPE(self));
#endif
    tenon_tensor *tensor = inside(self);
    const tenon__py_holder *holder = tenon_tensor_owner(tensor, tenon__py_holder_release);
    if (holder && tenon_tensor_refcount(tensor) == 1) {
        Py_VISIT(holder->borrowed.object);
        if (holder->borrowed.way == TENON__PY_BUFFER || holder->borrowed.way == TENON__PY_JAX)
            Py_VISIT(holder->borrowed.held.buffer.obj);
        else if (holder->borrowed.way == TENON__PY_INTERFACE)
            Py_VISIT(holder->borrowed.held.object);
    }
    return 0;
}

static int tensor_clear(PyObject *self)
{
    tenon_tensor *tensor = inside(self);
    ((tensor_object *)self)->tensor = NULL;
    tenon_tensor_release(tensor);
    return 0;
}

static void tensor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((tensor_object *)self)->weak_references)
        PyObject_ClearWeakRefs(self);
    tenon__py_release(inside(self));
    PyObject_GC_Del(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *tensor_repr(PyObject *self)
{
    if (!inside(self))
        return PyUnicode_FromString("<tenon.Tensor, given back>");
    char text[1500];
    tenon_view_format(tenon_tensor_view(inside(self)), text, sizeof text);
    return PyUnicode_FromFormat("<tenon.Tensor %s>", text);
}

/* ---------------------------------------------------------------------------------------------------------- buffer */

static int buffer_refuse(const char *why)
{
    PyErr_Format(PyExc_BufferError, "tenon.Tensor: %s", why);
    return -1;
}

static int tensor_getbuffer(PyObject *self, Py_buffer *buffer, int flags)
{
    buffer->obj = NULL;
    if (check_alive(self) < 0)
        return -1;
    const tenon_view *view = tenon_tensor_view(inside(self));
    const char *format = tenon__py_format(view->dtype);
    bool c_order = view->flags & TENON_VIEW_C, f_order = view->flags & TENON_VIEW_F;
    if (!tenon_device_on_host(view->device))
        return buffer_refuse("the memory is not the CPU's");
    if (!format)
        return buffer_refuse("the buffer protocol has no format for its dtype; use DLPack");
    if ((flags & PyBUF_WRITABLE) && (view->flags & TENON_READ_ONLY))
        return buffer_refuse("the memory is read-only");
    bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
    bool wants_f = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
    bool wants_any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
    bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    if ((wants_c && !c_order) || (wants_f && !f_order) || (wants_any && !c_order && !f_order) || (!strided && !c_order))
        return buffer_refuse("the elements are not in the order that was asked for");
    Py_ssize_t item = (Py_ssize_t)(view->dtype.bits / 8);
    Py_ssize_t *dims = PyMem_Malloc((2 * (size_t)view->ndim + 1) * sizeof *dims);
    if (!dims)
        return PyErr_NoMemory(), -1;
    for (int32_t i = 0; i < view->ndim; i++) {
        dims[i] = (Py_ssize_t)view->shape[i];
        dims[view->ndim + i] = (Py_ssize_t)((uint64_t)view->strides[i] * (uint64_t)item);
    }
    static char nothing[1];
    bool shaped = (flags & PyBUF_ND) == PyBUF_ND;
    buffer->buf = view->data ? view->data : nothing;
    buffer->len = (Py_ssize_t)tenon_view_nbytes(view);
    buffer->readonly = (view->flags & TENON_READ_ONLY) != 0;
    buffer->itemsize = item;
    buffer->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL;
    buffer->ndim = shaped ? view->ndim : 1;
    buffer->shape = shaped ? dims : NULL;
    buffer->strides = strided ? dims + view->ndim : NULL;
    buffer->suboffsets = NULL;
    buffer->internal = dims;
    Py_INCREF(self);
    buffer->obj = self;
    return 0;
}

static void tensor_releasebuffer(PyObject *self, Py_buffer *buffer)
{
    (void)self;
    PyMem_Free(buffer->internal);
}

/* ---------------------------------------------------------------------------------------------------------- DLPack */

/* Nobody consumed it: what it holds goes with it. */
static void capsule_destroy(PyObject *capsule)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyCapsule_IsValid(capsule, TENON_DL_CAPSULE)) {
        tenon_dl_managed *managed = PyCapsule_GetPointer(capsule, TENON_DL_CAPSULE);
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, TENON_DL_CAPSULE_LEGACY)) {
        tenon_dl_managed_legacy *managed = PyCapsule_GetPointer(capsule, TENON_DL_CAPSULE_LEGACY);
        managed->deleter(managed);
    }
    PyErr_Restore(type, value, traceback);
}

PyObject *tenon__py_capsule(tenon_tensor *tensor, bool legacy)
{
    tenon_error err;
    tenon_dl_managed *managed = NULL;
    tenon_dl_managed_legacy *old = NULL;
    if (legacy && (tenon_tensor_view(tensor)->flags & TENON_READ_ONLY)) {
        PyErr_SetString(PyExc_BufferError,
                        "the memory is read-only, which a DLPack capsule from before 1.0 cannot say; "
                        "ask with max_version=(1, 0), or pass a copy");
        return NULL;
    }
    tenon_status status =
        legacy ? tenon_tensor_export_legacy(tensor, &old, &err) : tenon_tensor_export(tensor, &managed, &err);
    if (status) {
        const char *message = strstr(err.message, "(): ");
        PyErr_SetString(status == TENON_ENOMEM ? PyExc_MemoryError : PyExc_BufferError,
                        message ? message + 4 : err.message);
        return NULL;
    }
    PyObject *capsule = legacy ? PyCapsule_New(old, TENON_DL_CAPSULE_LEGACY, capsule_destroy)
                               : PyCapsule_New(managed, TENON_DL_CAPSULE, capsule_destroy);
    if (!capsule && legacy)
        old->deleter(old);
    else if (!capsule)
        managed->deleter(managed);
    return capsule;
}

/* The major version that the consumer can read; 0 for one older than 1.0; -1 with an exception. */
static long wanted_major(PyObject *max_version)
{
    if (!max_version || max_version == Py_None)
        return 0;
    if (!PyTuple_Check(max_version) || PyTuple_Size(max_version) != 2) {
        PyErr_SetString(PyExc_TypeError, "__dlpack__(): argument 'max_version': expected None or (major, minor)");
        return -1;
    }
    return PyLong_AsLong(PyTuple_GetItem(max_version, 0));
}

static int check_dl_device(const tenon_view *view, PyObject *dl_device)
{
    if (!dl_device || dl_device == Py_None)
        return 0;
    int type, id;
    if (!PyTuple_Check(dl_device) || !PyArg_ParseTuple(dl_device, "ii", &type, &id)) {
        PyErr_SetString(PyExc_TypeError, "__dlpack__(): argument 'dl_device': expected None or (type, id)");
        return -1;
    }
    bool same = type == view->device.device_type && id == view->device.device_id;
    if (same || (type == TENON_CPU && tenon_device_on_host(view->device)))
        return 0;
    return buffer_refuse("the memory is on another device than dl_device, and tenon does not move it");
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *max_version = NULL, *dl_device = NULL, *copy = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__", names, &stream, &max_version, &dl_device,
                                     &copy))
        return NULL;
    long major = wanted_major(max_version);
    if ((major == -1 && PyErr_Occurred()) || check_alive(self) < 0 ||
        check_dl_device(tenon_tensor_view(inside(self)), dl_device) < 0)
        return NULL;
    int wants_copy = copy && copy != Py_None ? PyObject_IsTrue(copy) : 0;
    if (wants_copy < 0)
        return NULL;
    if (!wants_copy)
        return tenon__py_capsule(inside(self), major < 1);
    tenon_error err;
    tenon_tensor *copied = NULL;
    if (tenon_tensor_copy(inside(self), &copied, &err))
        return tenon_py_raise(&err);
    PyObject *capsule = tenon__py_capsule(copied, major < 1);
    tenon_tensor_release(copied);
    return capsule;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (check_alive(self) < 0)
        return NULL;
    tenon_device device = tenon_tensor_view(inside(self))->device;
    return Py_BuildValue("(ii)", device.device_type, device.device_id);
}

/* -------------------------------------------------------------------------------------------------- exchange table */

static int table_allocate(tenon_dl_tensor *prototype, tenon_dl_managed **out, void *error_ctx,
                          void (*set_error)(void *error_ctx, const char *kind, const char *message))
{
    tenon_error err;
    tenon_tensor *tensor = NULL;
    tenon_status status;
    if (!tenon_device_on_host(prototype->device))
        status = tenon_error_set(&err, TENON_EDEVICE, "tenon.Tensor: it allocates memory on the CPU only");
    else
        status = tenon_tensor_alloc(prototype->dtype, prototype->ndim, prototype->shape, 0, &tensor, &err);
    if (!status)
        status = tenon_tensor_export(tensor, out, &err);
    tenon_tensor_release(tensor);
    if (status)
        set_error(error_ctx, status == TENON_ENOMEM ? "MemoryError" : "ValueError", err.message);
    return status ? -1 : 0;
}

static tenon_tensor *table_tensor(void *object)
{
    tenon_tensor *tensor = tenon__py_tensor_of(object);
    if (!tensor)
        PyErr_SetString(PyExc_TypeError, "tenon.Tensor's exchange table was given another object");
    return tensor;
}

static int table_from_object(void *object, tenon_dl_managed **out)
{
    tenon_error err;
    tenon_tensor *tensor = table_tensor(object);
    if (!tensor)
        return -1;
    if (tenon_tensor_export(tensor, out, &err) == TENON_OK)
        return 0;
    tenon_py_raise(&err);
    return -1;
}

static int table_to_object(tenon_dl_managed *managed, void **out)
{
    tenon_error err;
    tenon_tensor *tensor = NULL;
    if (tenon_tensor_import(managed, &tensor, &err)) {
        tenon_py_raise(&err);
        return -1;
    }
    /* From here on `managed` is taken: a failure gives it back by the tensor's release. */
    *out = tenon__py_tensor_new(tensor);
    tenon_tensor_release(tensor);
    return *out ? 0 : -1;
}

static int table_borrow(void *object, tenon_dl_tensor *out)
{
    tenon_tensor *tensor = table_tensor(object);
    if (!tensor)
        return -1;
    /* This way has no flags: who came by it would take the memory for writable. */
    if (tenon_tensor_view(tensor)->flags & TENON_READ_ONLY)
        return buffer_refuse("the memory is read-only, which a borrow through the table cannot say; import it");
    *out = *tenon_dltensor(tenon_tensor_view(tensor));
    return 0;
}

static int table_stream(int32_t device_type, int32_t device_id, void **out)
{
    (void)device_type;
    (void)device_id;
    *out = NULL; /* tenon launches nothing: the default stream */
    return 0;
}

/* Static: its address may be remembered by others for as long as the process lives. */
static tenon_dl_exchange exchange_table = {
    .header = {{TENON_DL_MAJOR, TENON_DL_MINOR}, NULL},
    .managed_tensor_allocator = table_allocate,
    .managed_tensor_from_py_object_no_sync = table_from_object,
    .managed_tensor_to_py_object_no_sync = table_to_object,
    .dltensor_from_py_object_no_sync = table_borrow,
    .current_work_stream = table_stream,
};

/* ------------------------------------------------------------------------------------------------------------ type */

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)"},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "The DLPack device as (type, id)."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tensor_object, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* CPython keeps functions in void pointers, which ISO C knows nothing of. */
#define SLOT(function) __extension__((void *)(function))

static PyType_Slot tensor_slots[] = {
    {Py_tp_new, SLOT(tensor_refuse_new)},
    {Py_tp_dealloc, SLOT(tensor_dealloc)},
    {Py_tp_traverse, SLOT(tensor_traverse)},
    {Py_tp_clear, SLOT(tensor_clear)},
    {Py_tp_repr, SLOT(tensor_repr)},
    {Py_tp_methods, tensor_methods},
    {Py_tp_members, tensor_members},
    {Py_bf_getbuffer, SLOT(tensor_getbuffer)},
    {Py_bf_releasebuffer, SLOT(tensor_releasebuffer)},
    {Py_tp_doc, "A tensor of somebody's memory, kept alive by it. Any framework can read it without a copy."},
    {0, NULL},
};

static PyType_Spec tensor_spec = {
    .name = "tenon.Tensor",
    .basicsize = sizeof(tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = tensor_slots,
};

PyTypeObject *tenon_py_type(void)
{
    tenon__py_interp *interp = tenon__py_here();
    PyTypeObject *made = interp ? atomic_load_explicit(&interp->tensor_type, memory_order_acquire) : NULL;
    if (!interp || made)
        return made;
    PyObject *type = PyType_FromSpec(&tensor_spec);
    PyObject *capsule = type ? PyCapsule_New(&exchange_table, TENON_DL_EXCHANGE_CAPSULE, NULL) : NULL;
    int status = capsule ? PyObject_SetAttrString(type, TENON_DL_EXCHANGE_ATTRIBUTE, capsule) : -1;
    Py_XDECREF(capsule);
    if (status < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    /* Another thread may have been quicker. */
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
    PyObject_GC_Track((PyObject *)self);
    return (PyObject *)self;
}

bool tenon__py_is_tensor(PyObject *object)
{
    tenon__py_interp *interp = tenon__py_here();
    if (!interp)
        PyErr_Clear();
    return interp && Py_TYPE(object) == atomic_load_explicit(&interp->tensor_type, memory_order_acquire);
}

tenon_tensor *tenon__py_tensor_of(PyObject *object)
{
    return tenon__py_is_tensor(object) ? inside(object) : NULL;
}

/* -------------------------------------------------------------------------------------------------------------- in */

int tenon__py_borrow_tensor(PyObject *object, tenon_py_borrowed *out)
{
    tenon_tensor *tensor = inside(object);
    if (!tensor)
        return check_alive(object);
    const tenon_view *view = tenon_tensor_view(tensor);
    if (tenon__py_dims(out, view->ndim) < 0)
        return -1;
    out->view = *view;
    if (view->ndim > 0) {
        memcpy(out->dims, view->shape, (size_t)view->ndim * sizeof *out->dims);
        memcpy(out->dims + view->ndim, view->strides, (size_t)view->ndim * sizeof *out->dims);
    }
    out->view.shape = out->dims;
    out->view.strides = out->dims + view->ndim;
    out->way = TENON__PY_OURS;
    out->held.tensor = tenon_tensor_retain(tensor);
    return 0;
}
