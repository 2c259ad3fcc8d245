/* tenon.Tensor as a producer of DLPack: capsules, __dlpack__ and the exchange table. */
#include "tensor_object.h"

#include <limits.h>

/* ---------------------------------------------------------------------------------------------------------- DLPack */

/* Release the struct if no consumer has taken it. */
static void capsule_destroy(PyObject *capsule)
{
    tenon__py_scope scope = tenon__py_enter_scope();
    if (PyCapsule_IsValid(capsule, TENON_DL_CAPSULE)) {
        tenon_dl_managed *managed = PyCapsule_GetPointer(capsule, TENON_DL_CAPSULE);
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, TENON_DL_CAPSULE_LEGACY)) {
        tenon_dl_managed_legacy *managed = PyCapsule_GetPointer(capsule, TENON_DL_CAPSULE_LEGACY);
        managed->deleter(managed);
    }
    tenon__py_leave_scope(scope);
}

PyObject *tenon__py_capsule(tenon_tensor *tensor, bool legacy)
{
    tenon_error err;
    tenon_dl_managed *managed = NULL;
    tenon_dl_managed_legacy *old = NULL;
    if (legacy && (tenon_tensor_view(tensor)->flags & TENON_READ_ONLY)) {
        PyErr_SetString(PyExc_BufferError, "the memory is read-only, and DLPack before 1.0 has no flag for that; "
                                           "ask with max_version=(1, 0), or pass a copy");
        return NULL;
    }
    if (legacy && (tenon_tensor_view(tensor)->flags & TENON_SUBBYTE_PADDED) &&
        tenon_tensor_view(tensor)->dtype.bits < 8) {
        PyErr_SetString(PyExc_BufferError,
                        "the values are smaller than a byte and padded to one, and DLPack before 1.0 has no flag for "
                        "that; ask with max_version=(1, 1) or newer");
        return NULL;
    }
    tenon_status status =
        legacy ? tenon_tensor_export_legacy(tensor, &old, &err) : tenon_tensor_export(tensor, &managed, &err);
    if (status) {
        PyErr_SetString(status == TENON_ENOMEM ? PyExc_MemoryError : PyExc_BufferError, tenon_error_reason(&err));
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

static int refuse(const char *why)
{
    PyErr_Format(PyExc_BufferError, "tenon.Tensor: %s", why);
    return -1;
}

/* Raise TypeError for an argument of __dlpack__. Returns -1. */
static int raise_argument_error(const char *name, const char *expected, PyObject *got)
{
    PyErr_Format(PyExc_TypeError, "tenon.Tensor.__dlpack__(): argument '%s': expected %s, got %R", name, expected, got);
    return -1;
}

/* The major version of DLPack that the consumer can read, 0 if it is older than 1.0; -1 with an exception. */
static int wanted_major(PyObject *max_version)
{
    const char *expected = "None or a tuple of two ints, (major, minor)";
    if (!max_version || max_version == Py_None)
        return 0;
    if (!PyTuple_Check(max_version) || PyTuple_Size(max_version) != 2)
        return raise_argument_error("max_version", expected, max_version);
    int numbers[2];
    for (int i = 0; i < 2; i++) {
        PyObject *item = PyTuple_GetItem(max_version, i);
        PyObject *number = PyIndex_Check(item) ? PyNumber_Index(item) : NULL;
        if (!number)
            return PyErr_Occurred() ? -1 : raise_argument_error("max_version", expected, max_version);
        int overflow;
        long value = PyLong_AsLongAndOverflow(number, &overflow);
        Py_DECREF(number);
        if (overflow < 0 || (!overflow && value < 0))
            return raise_argument_error("max_version", "a version without negative numbers", max_version);
        numbers[i] = overflow || value > INT_MAX ? INT_MAX : (int)value;
    }
    return numbers[0];
}

/* Whether a copy is wanted; -1 with an exception. */
static int wanted_copy(PyObject *copy)
{
    if (!copy || copy == Py_None || copy == Py_False)
        return 0;
    return copy == Py_True ? 1 : raise_argument_error("copy", "None, True or False", copy);
}

/* The device that the consumer wants: the one that the memory is on, or the CPU if it can read it. -1 with an
 * exception. */
static int wanted_device(const tenon_view *view, PyObject *dl_device, tenon_device *out)
{
    *out = view->device;
    if (!dl_device || dl_device == Py_None)
        return 0;
    int type, id;
    if (!PyTuple_Check(dl_device) || !PyArg_ParseTuple(dl_device, "ii", &type, &id)) {
        if (PyErr_Occurred() && !tenon__py_may_replace())
            return -1;
        return raise_argument_error("dl_device", "None or a tuple of two ints, (type, id)", dl_device);
    }
    *out = tenon_device_of(type, id);
    if (tenon_device_equal(*out, view->device) || (type == TENON_CPU && tenon_device_on_host(view->device)))
        return 0;
    return refuse("the memory is not on the device that dl_device names, and Tenon does not move it");
}

/* Raise BufferError: Tenon copies only on the CPU. Returns -1. */
static int refuse_copy(tenon_device device)
{
    char name[64];
    tenon_device_format(device, name, sizeof name);
    PyErr_Format(PyExc_BufferError,
                 "tenon.Tensor: Tenon cannot make a copy on %s; copy it with the framework that made it%s", name,
                 tenon_device_on_host(device) ? ", or ask for one on the CPU with dl_device=(1, 0)" : "");
    return -1;
}

static void release_shared(void *tensor)
{
    tenon_tensor_release(tensor);
}

/* The same memory on `device`, which is its own or the CPU: the CPU can read pinned and managed memory too. */
static tenon_status share_on_device(tenon_tensor *tensor, tenon_device device, tenon_tensor **out, tenon_error *err)
{
    tenon_view view = *tenon_tensor_view(tensor);
    view.device = device;
    view.flags &= ~TENON_IS_COPIED;
    tenon_status status = tenon_tensor_from_view(&view, tensor, release_shared, out, err);
    if (!status)
        tenon_tensor_retain(tensor);
    return status;
}

tenon_tensor *tenon__py_tensor_on(tenon_tensor *tensor, tenon_device device, bool copied)
{
    tenon_error err;
    tenon_tensor *out = NULL;
    const tenon_view *view = tenon_tensor_view(tensor);
    bool is_there = tenon_device_equal(device, view->device);
    /* DLPack's flag means that only the consumer has the memory. A tensor that was made by a copy is shared by now. */
    if (!copied && is_there && !(view->flags & TENON_IS_COPIED))
        return tenon_tensor_retain(tensor);
    if (copied && device.device_type != TENON_CPU)
        return refuse_copy(device), NULL;
    if (!(is_there && !copied) && tenon__py_order(tensor, TENON__PY_HOST) < 0)
        return NULL;
    if (!copied)
        return share_on_device(tensor, device, &out, &err) ? tenon__py_raise_in("tenon.Tensor", &err) : out;
    return tenon_tensor_copy(tensor, &out, &err) ? tenon__py_raise_in("tenon.Tensor", &err) : out;
}

/* Hold the tensor, because a producer's code may run while streams are ordered. */
PyObject *tenon__py_tensor_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *max_version = NULL, *dl_device = NULL, *copy = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__", names, &stream, &max_version, &dl_device,
                                     &copy))
        return NULL;
    int major = wanted_major(max_version);
    int wants_copy = major < 0 ? -1 : wanted_copy(copy);
    if (wants_copy < 0)
        return NULL;
    tenon_device device;
    tenon_tensor *tensor = tenon__py_retain(self), *given = NULL;
    if (tensor && wanted_device(tenon_tensor_view(tensor), dl_device, &device) == 0)
        given = tenon__py_tensor_on(tensor, device, wants_copy);
    PyObject *capsule = NULL;
    if (given && tenon__py_order_argument(given, stream) == 0)
        capsule = tenon__py_capsule(given, major < 1);
    tenon__py_release(given);
    tenon__py_release(tensor);
    return capsule;
}

PyObject *tenon__py_tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    const tenon_tensor *tensor = tenon__py_alive(self);
    if (!tensor)
        return NULL;
    tenon_device device = tenon_tensor_view(tensor)->device;
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
        status =
            tenon_error_set(&err, TENON_EDEVICE, "tenon.Tensor: its exchange table allocates memory only on the CPU");
    else
        status = tenon_tensor_alloc(prototype->dtype, prototype->ndim, prototype->shape, 0, &tensor, &err);
    if (!status)
        status = tenon_tensor_export(tensor, out, &err);
    tenon_tensor_release(tensor);
    if (status && set_error)
        set_error(error_ctx, status == TENON_ENOMEM ? "MemoryError" : "ValueError", err.message);
    return status ? -1 : 0;
}

/* The table gets no object that it could ask for a stream. It uses the current stream of the first framework that has a table,
 * or the default stream, and makes the memory ready there. */
static int table_stream(int32_t device_type, int32_t device_id, void **out)
{
    const tenon_dl_exchange *table = NULL;
    *out = NULL;
    for (int i = 0; i < tenon__py_nframeworks && !table; i++)
        table = tenon__py_frameworks[i]->table ? tenon__py_frameworks[i]->table() : NULL;
    bool has_streams = device_type == TENON_CUDA || device_type == TENON_ROCM;
    if (!has_streams || !table || !table->current_work_stream)
        return 0;
    if (table->current_work_stream(device_type, device_id, out) != 0 || PyErr_Occurred()) {
        *out = NULL; /* the framework does not have this device, so it does not use its streams */
        tenon__py_clear_ignorable_error();
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* The tensor of `object` with one more count, after its memory is ready on the table's stream. */
static tenon_tensor *table_tensor(void *object)
{
    if (!tenon__py_tensor_of(object)) {
        PyErr_SetString(PyExc_TypeError, "tenon.Tensor: its exchange table was called with an object of another type");
        return NULL;
    }
    tenon_tensor *tensor = tenon__py_retain(object);
    tenon_device device = tenon_tensor_view(tensor)->device;
    void *stream = NULL;
    if (device.device_type != TENON_CPU &&
        (table_stream(device.device_type, device.device_id, &stream) < 0 ||
         tenon__py_order(tensor, stream ? (intptr_t)stream : TENON__PY_NO_STREAM) < 0)) {
        tenon__py_release(tensor);
        return NULL;
    }
    return tensor;
}

static int table_export(tenon_tensor *tensor, tenon_dl_managed **out)
{
    tenon_error err;
    tenon_status status = tenon_tensor_export(tensor, out, &err);
    if (status)
        tenon_py_raise(&err);
    return status ? -1 : 0;
}

static int table_from_object(void *object, tenon_dl_managed **out)
{
    tenon_tensor *tensor = tenon__py_tensor_of(object);
    const tenon_view *view = tenon_tensor_view(tensor);
    int done = 1;
    /* No code runs that could end the tensor meanwhile, so it needs no count. */
    TENON__PY_BEGIN_SECTION(object);
    if (view && view->device.device_type == TENON_CPU && !(view->flags & TENON_IS_COPIED))
        done = table_export(tensor, out);
    TENON__PY_END_SECTION();
    if (done <= 0)
        return done;
    tensor = table_tensor(object);
    tenon_tensor *given = tensor ? tenon__py_tensor_on(tensor, tenon_tensor_view(tensor)->device, false) : NULL;
    int result = given ? table_export(given, out) : -1;
    tenon__py_release(given);
    tenon__py_release(tensor);
    return result;
}

static int table_to_object(tenon_dl_managed *managed, void **out)
{
    tenon_error err;
    tenon_tensor *tensor = NULL;
    if (tenon_tensor_import(managed, &tensor, &err)) {
        tenon_py_raise(&err);
        return -1;
    }
    /* `managed` is taken now: on failure the tensor's release frees it. */
    *out = tenon__py_tensor_new(tensor);
    tenon_tensor_release(tensor);
    return *out ? 0 : -1;
}

static int table_borrow(void *object, tenon_dl_tensor *out)
{
    tenon_tensor *tensor = table_tensor(object);
    if (!tensor)
        return -1;
    const tenon_view *view = tenon_tensor_view(tensor);
    /* This struct has no flags, so the consumer would assume that the memory is writable. */
    bool read_only = view->flags & TENON_READ_ONLY;
    *out = *tenon_dltensor(view);
    tenon__py_release(tensor);
    if (read_only)
        return refuse(
            "the memory is read-only, and a borrow through the exchange table has no flag for that; import it");
    return 0;
}

tenon_dl_exchange tenon__py_tensor_table = {
    .header = {{TENON_DL_MAJOR, TENON_DL_MINOR}, NULL},
    .managed_tensor_allocator = table_allocate,
    .managed_tensor_from_py_object_no_sync = table_from_object,
    .managed_tensor_to_py_object_no_sync = table_to_object,
    .dltensor_from_py_object_no_sync = table_borrow,
    .current_work_stream = table_stream,
};
