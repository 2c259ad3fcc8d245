/* torch's tensors by its exchange table, and new ones. */
#include "internal.h"

const tenon_dl_exchange *tenon__py_torch_table(void)
{
    return atomic_load_explicit(&tenon__py_torch.tensor, memory_order_acquire)
               ? atomic_load_explicit(&tenon__py_torch.table, memory_order_relaxed)
               : NULL;
}

/* --------------------------------------------------------------------------------------------------------- reading */

/* The table does not say everything, so that the tensor is asked. */
bool tenon__py_torch_peek_table(PyObject *object, const tenon__py_kind *kind, tenon_py_borrowed *out)
{
    tenon_dl_tensor source = {.ndim = -1};
    if (kind->table->dltensor_from_py_object_no_sync(object, &source) != 0) {
        PyErr_Clear(); /* the reader asks again, and reports why */
        return false;
    }
    bool cpu = source.device.device_type == TENON_CPU && source.device.device_id == 0;
    if (source.byte_offset || (!cpu && source.device.device_type != TENON_CUDA) ||
        source.dtype.code == TENON_CODE_COMPLEX || source.dtype.bits % 8 || !tenon_dtype_known(source.dtype) ||
        !tenon__py_make_view_fast(source.data, &source.dtype, source.ndim, source.shape, source.strides, 0, 0, out) ||
        out->view.numel == 0)
        return false;
    if (tenon__py_torch_check_memory(object, &out->view) < 0) {
        PyErr_Clear(); /* as above */
        return false;
    }
    out->view.device = source.device;
    out->view.flags |= tenon__py_torch_is_read_only(&out->view) ? TENON_READ_ONLY : 0;
    out->private_.holds = TENON__PY_HOLDS_NOTHING;
    out->private_.table = kind->table;
    return true;
}

int tenon__py_torch_learn_type(tenon__py_kind *kind)
{
    if (kind->table && kind->table->dltensor_from_py_object_no_sync)
        kind->peek = tenon__py_torch_peek_table;
    atomic_store_explicit(&tenon__py_torch.table, kind->table, memory_order_release);
    atomic_store_explicit(&tenon__py_torch.tensor, atomic_load_explicit(&kind->type, memory_order_relaxed),
                          memory_order_release);
    return tenon__py_torch_learn_struct(kind);
}

/* -------------------------------------------------------------------------------------------------------- wrapping */

static bool torch_has_negative_stride(const tenon_view *view)
{
    for (int32_t i = 0; i < view->ndim; i++)
        if (view->shape[i] > 1 && view->strides[i] < 0)
            return true;
    return false;
}

/* Whether torch may be asked: of a device that it knows by name, but has no tensors on (OpenCL), it calls the deleter
 * although it fails, and so would we. */
static bool torch_may_know(tenon_device device)
{
    switch (device.device_type) {
    case TENON_CPU:
    case TENON_CUDA:
    case TENON_CUDA_HOST:
    case TENON_CUDA_MANAGED:
    case TENON_ROCM:
    case TENON_ROCM_HOST:
    case TENON_METAL:
    case TENON_ONEAPI:
    case TENON_EXT_DEV:
    case TENON_MAIA:
        return true;
    default:
        return false;
    }
}

/* torch's table, importing torch if need be: 1; 0: this torch has none; -1 with an exception. */
static int torch_wanted(const tenon_dl_exchange **out)
{
    const tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp)
        return -1;
    *out = interp->is_main ? atomic_load_explicit(&tenon__py_torch.table, memory_order_acquire) : NULL;
    PyObject *torch = *out ? NULL : PyImport_ImportModule("torch");
    PyObject *type = torch ? PyObject_GetAttrString(torch, "Tensor") : NULL;
    if (type && PyType_Check(type) && tenon__py_exchange_table((PyTypeObject *)type, out) == 0 && *out &&
        interp->is_main)
        atomic_store_explicit(&tenon__py_torch.table, *out, memory_order_release);
    bool missing = !*out && !torch;
    Py_XDECREF(torch);
    Py_XDECREF(type);
    if (missing)
        return -1;
    tenon__py_clear_ignorable_error();
    return PyErr_Occurred() ? -1 : *out && (*out)->managed_tensor_to_py_object_no_sync;
}

/* torch works on its current stream, unless the memory is its own: then that is the stream it is ready on. */
static int torch_order(tenon_tensor *tensor, const tenon_dl_exchange *table)
{
    tenon_device device = tenon_tensor_view(tensor)->device;
    const tenon__py_holder *producer = tenon__py_holder_of(tensor);
    if (tenon_device_on_host(device) || !table->current_work_stream ||
        (producer && producer->borrowed.private_.table == table))
        return 0;
    void *stream = NULL;
    if (table->current_work_stream(device.device_type, device.device_id, &stream) == 0 && !PyErr_Occurred())
        return tenon__py_order(tensor, stream ? (intptr_t)stream : TENON__PY_NO_STREAM);
    tenon__py_clear_ignorable_error(); /* torch says why when it is given a tensor of a device that it does not have */
    return PyErr_Occurred() ? -1 : 0;
}

static void torch_delete_nothing(tenon_dl_managed *managed)
{
    (void)managed;
}

/* Make a torch tensor of a struct, which torch takes on success. On failure torch may have called the deleter (no memory
 * for the Python object) or not (a dtype that it does not know), so that the deleter does nothing until it returns. If it
 * reports success, it has taken the struct, whatever it made of it. */
static PyObject *torch_from_managed(const tenon_dl_exchange *table, tenon_dl_managed *managed)
{
    void (*deleter)(tenon_dl_managed *) = managed->deleter;
    void *object = NULL;
    managed->deleter = torch_delete_nothing;
    int status = table->managed_tensor_to_py_object_no_sync(managed, &object);
    managed->deleter = deleter;
    if (status == 0)
        return object;
    deleter(managed);
    return NULL;
}

PyObject *tenon__py_torch_wrap(tenon_tensor *tensor)
{
    const tenon_view *view = tenon_tensor_view(tensor);
    if (view->flags & TENON_READ_ONLY)
        return PyErr_Format(PyExc_BufferError, "torch has no read-only tensors; pass a copy");
    if (torch_has_negative_stride(view))
        return PyErr_Format(PyExc_BufferError, "torch has no negative strides; pass a copy");
    if (!torch_may_know(view->device)) {
        char device[64];
        tenon_device_format(view->device, device, sizeof device);
        return PyErr_Format(PyExc_BufferError, "torch has no tensors on %s; copy the memory to a device that it has",
                            device);
    }
    const tenon_dl_exchange *table;
    int found = torch_wanted(&table);
    if (found < 0)
        return NULL;
    if (!found)
        return tenon__py_call_import("torch", "from_dlpack", tenon__py_tensor_new(tensor), false);
    tenon_error err;
    tenon_dl_managed *managed = NULL;
    if (torch_order(tensor, table) < 0)
        return NULL;
    if (tenon_tensor_export(tensor, &managed, &err))
        return tenon__py_raise_in("torch", &err);
    PyObject *object = torch_from_managed(table, managed);
    if (object)
        return object;
    if (PyErr_Occurred())
        tenon__py_raise_not_exported("torch");
    else
        PyErr_SetString(PyExc_BufferError, "torch did not accept the tensor and gave no reason");
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------- new */

/* torch.empty on that device; `like`, or NULL, is a tensor there. */
static PyObject *torch_call_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                  const int64_t *shape)
{
    PyObject *where = NULL;
    if (device.device_type == TENON_CUDA || device.device_type == TENON_ROCM) /* torch has one name for both */
        where = PyUnicode_FromFormat("cuda:%d", (int)device.device_id);
    else if (like && !tenon_device_on_host(device))
        where = PyObject_GetAttrString(like, "device");
    else
        where = PyUnicode_FromString("cpu");
    PyObject *torch = where ? PyImport_ImportModule("torch") : NULL;
    PyObject *result = torch ? tenon__py_call_empty(torch, where, dtype, ndim, shape) : NULL;
    Py_XDECREF(where);
    Py_XDECREF(torch);
    return result;
}

PyObject *tenon__py_torch_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                const int64_t *shape, tenon_py_borrowed *out)
{
    PyObject *array = tenon__py_torch_empty_in_c(device, dtype, ndim, shape, out);
    if (array)
        return array;
    return tenon__py_borrow_made(torch_call_empty(like, device, dtype, ndim, shape), dtype, out);
}
