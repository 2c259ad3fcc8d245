/* DLPack's exchange table: C functions that a framework hangs on its type. */
#include "../internal.h"

#include <string.h>

/* After a function of the table failed, or succeeded with an exception set. */
static int exchange_table_failed(PyObject *object, const tenon__py_kind *kind)
{
    if (!PyErr_Occurred())
        return tenon__py_set_error(PyExc_BufferError, object, "its exchange table failed without an exception");
    if (tenon__py_is_refusal())
        tenon__py_refused(object, kind->owner && kind->owner->advice ? kind->owner->advice(object) : NULL);
    return -1;
}

/* The table's borrow: fast, but without flags. Right for a framework that has no read-only memory. */
static int exchange_table_borrow(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out)
{
    tenon_dl_tensor source = {.ndim = -1};
    if (kind->table->dltensor_from_py_object_no_sync(object, &source) != 0 || PyErr_Occurred())
        return exchange_table_failed(object, kind);
    if (source.ndim == -1)
        return tenon__py_set_error(PyExc_BufferError, object, "its exchange table reported success but wrote nothing");
    tenon_error err;
    if (tenon__py_try_make_view(&source, TENON__PY_ELEMENTS, 0, out, &err)) {
        if (err.status == TENON_EINVAL && !source.data && (source.shape || source.ndim == 0))
            return tenon__py_set_error(PyExc_BufferError, object, TENON__PY_NO_MEMORY);
        tenon__py_raise_for(object, &err);
        return -1;
    }
    int ready = tenon__py_table_is_on(kind->table, out->view.device, stream);
    if (ready != 1) {
        tenon__py_free_dims(out);
        return ready < 0 ? -1 : 1;
    }
    out->private_.table = kind->table;
    return 0;
}

static int exchange_table_import(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out)
{
    tenon_dl_managed *managed = NULL;
    if (!kind->table->managed_tensor_from_py_object_no_sync)
        return tenon__py_set_error(PyExc_BufferError, object, "its exchange table has no function to take a tensor");
    if (kind->table->managed_tensor_from_py_object_no_sync(object, &managed) != 0 || (!managed && PyErr_Occurred()))
        return exchange_table_failed(object, kind);
    if (!managed)
        return tenon__py_set_error(PyExc_BufferError, object, "its exchange table reported success but wrote nothing");
    int result = -1;
    if (PyErr_Occurred())
        result = exchange_table_failed(object, kind);
    else if (managed->version.major != TENON_DL_MAJOR)
        result =
            tenon__py_set_error(PyExc_BufferError, object, "its exchange table of DLPack 1 gave a struct of DLPack %u",
                                (unsigned)managed->version.major);
    else
        result = tenon__py_make_view(object, &managed->dl_tensor, TENON__PY_ELEMENTS, managed->flags, out);
    int ready = result == 0 ? tenon__py_table_is_on(kind->table, out->view.device, stream) : 1;
    if (ready != 1) {
        tenon__py_free_dims(out);
        result = ready < 0 ? -1 : 1;
    }
    out->private_.holds = TENON__PY_HOLDS_MANAGED;
    out->private_.table = kind->table;
    out->private_.held.managed = managed;
    if (result != 0)
        tenon__py_give_back(out, object);
    return result;
}

static int exchange_table_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request,
                               tenon_py_borrowed *out)
{
    if (kind->owner && kind->owner->is_writable && kind->table->dltensor_from_py_object_no_sync)
        return exchange_table_borrow(object, kind, request->stream, out);
    return exchange_table_import(object, kind, request->stream, out);
}

bool tenon__py_table_describes(PyObject *object, const tenon_view *view)
{
    const tenon__py_kind *kind = tenon__py_known_kind(Py_TYPE(object));
    tenon_py_borrowed now;
    if (!kind || !kind->table || !kind->table->dltensor_from_py_object_no_sync || (view->flags & TENON_READ_ONLY))
        return false;
    if (exchange_table_borrow(object, kind, TENON__PY_NO_STREAM, &now) < 0) {
        tenon__py_clear_ignorable_error();
        return false;
    }
    bool same = tenon_view_equal(&now.view, view);
    tenon__py_free_dims(&now);
    return same;
}

/* ------------------------------------------------------------------------------------------------------------ types */

/* The table of our major version, through `prev_api` if it is not the first. */
static const tenon_dl_exchange *exchange_table_usable(const tenon_dl_exchange_header *header)
{
    for (int hops = 0; header && hops < 16; hops++) { /* a list that long is a circle */
        if (header->version.major == TENON_DL_MAJOR)
            return (const tenon_dl_exchange *)header;
        header = header->prev_api;
    }
    return NULL;
}

int tenon__py_exchange_table(PyTypeObject *type, const tenon_dl_exchange **out)
{
    PyObject *capsule;
    *out = NULL;
    int found = tenon__py_attribute((PyObject *)type, TENON_DL_EXCHANGE_ATTRIBUTE, &capsule);
    if (found < 1)
        return found;
    if (PyCapsule_IsValid(capsule, TENON_DL_EXCHANGE_CAPSULE))
        *out = exchange_table_usable(PyCapsule_GetPointer(capsule, TENON_DL_EXCHANGE_CAPSULE));
    Py_DECREF(capsule);
    return 0;
}

/* Its framework is the owner if no other producer knows better. */
static int exchange_table_recognise(PyObject *object, tenon__py_kind *kind)
{
    if (tenon__py_exchange_table(Py_TYPE(object), &kind->table) < 0)
        return -1;
    if (!kind->owner && kind->table && kind->table->managed_tensor_allocator &&
        kind->table->managed_tensor_to_py_object_no_sync)
        kind->owner = &tenon__py_producer_exchange_table;
    return kind->table != NULL;
}

int tenon__py_autograd_records(const char *framework)
{
    PyObject *module = tenon__py_loaded(framework);
    PyObject *enabled = module ? PyObject_CallMethod(module, "is_grad_enabled", NULL) : NULL;
    if (!enabled && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    int truth = enabled ? PyObject_IsTrue(enabled) : PyErr_Occurred() ? -1 : 1;
    Py_XDECREF(module);
    Py_XDECREF(enabled);
    return truth;
}

/* A tensor of another framework that has torch's names for it, as Paddle has. */
static int exchange_table_gradient(PyObject *object, tenon__py_checks *checks, const char **why)
{
    (void)checks;
    PyObject *answer;
    char package[32];
    int followed = tenon__py_attribute(object, "requires_grad", &answer);
    if (followed > 0) {
        followed = answer == Py_True; /* in another framework it may be a method */
        Py_DECREF(answer);
    }
    if (followed > 0)
        followed = tenon__py_autograd_records(tenon__py_package(Py_TYPE(object), package, sizeof package));
    *why = "it requires grad, and autograd does not see what this function does; pass x.detach(), or call it within "
           "no_grad()";
    return followed;
}

/* ----------------------------------------------------------------------------------------------------------- making */

/* What the allocator reports, to be raised after it returns. */
static void exchange_table_keep_error(void *context, const char *kind, const char *message)
{
    tenon_status status = kind && strcmp(kind, "MemoryError") == 0 ? TENON_ENOMEM : TENON_EINVAL;
    tenon_error_set(context, status, "%s", message ? message : "its exchange table gave no reason");
}

/* By the exchange table of the type of `like`, on its device. */
static PyObject *exchange_table_allocate(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    int64_t sizes[TENON_MAX_NDIM];
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(like, &room);
    tenon_dl_tensor prototype = {.dtype = dtype, .ndim = ndim, .shape = sizes};
    if (!kind || tenon__py_device_of(like, &prototype.device) < 0)
        return NULL;
    for (int32_t i = 0; i < ndim; i++)
        sizes[i] = shape[i];
    tenon_error err = {.status = TENON_OK};
    void *object = NULL;
    tenon_dl_managed *managed = NULL;
    int status = kind->table->managed_tensor_allocator(&prototype, &managed, &err, exchange_table_keep_error);
    if (status == 0 && managed) /* it is not specified who owns it if this fails: a leak is better than a double free */
        status = kind->table->managed_tensor_to_py_object_no_sync(managed, &object);
    if (status == 0 && object && !PyErr_Occurred())
        return object;
    Py_XDECREF((PyObject *)object);
    if (PyErr_Occurred())
        return NULL;
    if (err.status)
        return tenon_py_raise(&err);
    tenon__py_set_error(PyExc_BufferError, like, "its exchange table made no tensor and gave no reason");
    return NULL;
}

static PyObject *exchange_table_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                      const int64_t *shape, tenon_py_borrowed *out)
{
    (void)device;
    PyObject *made = exchange_table_allocate(like, dtype, ndim, shape);
    return tenon__py_result_or_own(made, like, dtype, ndim, shape, out);
}

const tenon__py_producer tenon__py_producer_exchange_table = {
    .recognise = exchange_table_recognise,
    .read = exchange_table_read,
    .gradient = exchange_table_gradient,
    .empty = exchange_table_empty,
};
