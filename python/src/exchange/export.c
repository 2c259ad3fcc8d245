#include "../internal.h"

/* ------------------------------------------------------------------------------------------------------------- same */

bool tenon__py_same_view(const tenon_view *a, const tenon_view *b)
{
    bool same = a->data == b->data && a->ndim == b->ndim && tenon_dtype_equal(a->dtype, b->dtype) &&
                tenon_device_equal(a->device, b->device) && a->byte_offset == b->byte_offset;
    for (int32_t i = 0; same && i < a->ndim; i++)
        same = a->shape[i] == b->shape[i] && a->strides[i] == b->strides[i];
    return same;
}

/* Whether the object is immutable, so that no second look is needed: 1, 0, or -1 with an exception. JAX's arrays can be
 * deleted all the same. */
static int never_changes(PyObject *object)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    if (!kind) {
        tenon__py_forgive();
        return PyErr_Occurred() ? -1 : 0;
    }
    return (kind->ways & TENON__PY_IMMUTABLE) && !tenon__py_framework_is_deleted_jax(object);
}

/* The object that the tensor was imported from, while it still is that tensor; else a tenon.Tensor. */
static PyObject *export_same(tenon_tensor *tensor)
{
    const tenon__py_holder *holder = tenon_tensor_owner(tensor, tenon__py_holder_release);
    if (!holder || holder->is_alias || !tenon__py_attached_to(holder->interp))
        return tenon__py_tensor_new(tensor);
    tenon_py_borrowed now;
    const tenon_view *view = tenon_tensor_view(tensor);
    PyObject *object = holder->borrowed.object;
    bool same = false;
    int fixed = 0;
    if (holder->borrowed.way == TENON__PY_NUMPY && tenon__py_numpy_still_is(object, view)) {
        same = true;
    } else if (tenon__py_peek(object, &now)) {
        same = tenon__py_same_view(&now.view, view);
    } else if ((fixed = never_changes(object)) != 0) {
        if (fixed < 0)
            return NULL;
        same = tenon__py_same_view(&holder->borrowed.view, view);
    } else if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &now) == 0) {
        same = tenon__py_same_view(&now.view, view);
        tenon_py_unborrow(&now);
    } else {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) /* an interrupt is not ours to swallow */
            return NULL;
        PyErr_Clear();
    }
    if (!same)
        return tenon__py_tensor_new(tensor);
    Py_INCREF(object);
    return object;
}

/* ------------------------------------------------------------------------------------------------------- frameworks */

/* module.function(argument), or with copy=False. */
static PyObject *call_with(const char *module, const char *function, PyObject *argument, bool no_copy)
{
    PyObject *found = argument ? PyImport_ImportModule(module) : NULL;
    PyObject *callable = found ? PyObject_GetAttrString(found, function) : NULL;
    PyObject *arguments = callable ? PyTuple_Pack(1, argument) : NULL;
    PyObject *keywords = arguments && no_copy ? Py_BuildValue("{sO}", "copy", Py_False) : NULL;
    bool ready = arguments && (keywords || !no_copy);
    PyObject *result = ready ? PyObject_Call(callable, arguments, keywords) : NULL;
    if (ready && !result)
        tenon__py_not_taken(module);
    Py_XDECREF(found);
    Py_XDECREF(callable);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    Py_XDECREF(argument);
    return result;
}

static bool has_negative_stride(const tenon_view *view)
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

/* torch's table, importing torch where need be: 1; 0: this torch has none; -1 with an exception. */
static int wanted_torch(const tenon_dl_exchange **out)
{
    /* torch loads in the main interpreter only, once. */
    static _Atomic(const tenon_dl_exchange *) known;
    const tenon__py_interp *interp = tenon__py_here();
    if (!interp)
        return -1;
    *out = interp->is_main ? atomic_load_explicit(&known, memory_order_acquire) : NULL;
    if (*out)
        return 1;
    PyObject *torch = tenon__py_loaded("torch");
    if (!torch && !PyErr_Occurred())
        torch = PyImport_ImportModule("torch");
    if (!torch)
        return -1;
    const tenon_dl_exchange *table = NULL;
    PyObject *type = PyObject_GetAttrString(torch, "Tensor");
    PyObject *capsule = type ? PyObject_GetAttrString(type, TENON_DL_EXCHANGE_ATTRIBUTE) : NULL;
    if (capsule && PyCapsule_IsValid(capsule, TENON_DL_EXCHANGE_CAPSULE)) {
        table = PyCapsule_GetPointer(capsule, TENON_DL_EXCHANGE_CAPSULE);
        if (table->header.version.major != TENON_DL_MAJOR || !table->managed_tensor_to_py_object_no_sync)
            table = NULL;
    }
    Py_DECREF(torch);
    Py_XDECREF(type);
    Py_XDECREF(capsule);
    tenon__py_forgive();
    if (PyErr_Occurred())
        return -1;
    if (interp->is_main)
        atomic_store_explicit(&known, table, memory_order_release);
    *out = table;
    return table != NULL;
}

/* torch works on its current stream, unless the memory is its own: then that is the stream it is ready on. */
static int order_for_torch(tenon_tensor *tensor, const tenon_dl_exchange *table)
{
    tenon_device device = tenon_tensor_view(tensor)->device;
    const tenon__py_holder *producer = tenon__py_producer(tensor);
    if (tenon_device_on_host(device) || !table->current_work_stream || (producer && producer->borrowed.table == table))
        return 0;
    void *stream = NULL;
    if (table->current_work_stream(device.device_type, device.device_id, &stream) == 0 && !PyErr_Occurred())
        return tenon__py_order(tensor, stream ? (intptr_t)stream : TENON__PY_NO_STREAM);
    tenon__py_forgive(); /* torch says why when it is given a tensor of a device that it does not have */
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *export_torch(tenon_tensor *tensor)
{
    const tenon_view *view = tenon_tensor_view(tensor);
    if (view->flags & TENON_READ_ONLY)
        return PyErr_Format(PyExc_BufferError, "torch has no read-only tensors; pass a copy");
    if (has_negative_stride(view))
        return PyErr_Format(PyExc_BufferError, "torch has no negative strides; pass a copy");
    if (!torch_may_know(view->device)) {
        char device[64];
        tenon_device_format(view->device, device, sizeof device);
        return PyErr_Format(PyExc_BufferError, "torch has no tensors on %s; copy the memory to a device that it has",
                            device);
    }
    const tenon_dl_exchange *table;
    int found = wanted_torch(&table);
    if (found < 0)
        return NULL;
    if (!found)
        return call_with("torch", "from_dlpack", tenon__py_tensor_new(tensor), false);
    tenon_error err;
    tenon_dl_managed *managed = NULL;
    void *object = NULL;
    if (order_for_torch(tensor, table) < 0)
        return NULL;
    if (tenon_tensor_export(tensor, &managed, &err))
        return tenon_py_raise(&err);
    int status = table->managed_tensor_to_py_object_no_sync(managed, &object);
    if (status == 0 && object)
        return object;
    /* torch takes the struct only when it has made the tensor (tested with a dtype that it does not know); who says
     * yes has taken it, whatever came of it. */
    if (status != 0)
        managed->deleter(managed);
    if (PyErr_Occurred())
        tenon__py_not_taken("torch");
    else
        PyErr_SetString(PyExc_BufferError, "torch did not take the tensor and did not say why");
    return NULL;
}

/* JAX without jax_enable_x64 takes 64-bit numbers and hands out a narrowed copy: what comes back is looked at. */
static PyObject *export_jax(tenon_tensor *tensor)
{
    PyObject *array = call_with("jax.dlpack", "from_dlpack", tenon__py_tensor_new(tensor), true);
    const tenon_view *view = tenon_tensor_view(tensor);
    tenon_py_borrowed borrowed;
    if (!array || tenon_py_borrow(array, TENON_PY_ANY_DEVICE, &borrowed) < 0) {
        Py_XDECREF(array);
        return NULL;
    }
    bool same_dtype = tenon_dtype_equal(borrowed.view.dtype, view->dtype);
    bool same = same_dtype && (borrowed.view.data == view->data || view->numel == 0);
    tenon_py_unborrow(&borrowed);
    if (same)
        return array;
    Py_DECREF(array);
    return PyErr_Format(PyExc_BufferError, same_dtype ? "JAX made a copy instead of taking the memory"
                                                      : "JAX narrows 64-bit numbers, which takes a copy; set "
                                                        "jax_enable_x64, use numbers of 32 bits, or ask for a NumPy "
                                                        "array (like=\"numpy\")");
}

PyObject *tenon_py_export(tenon_tensor *tensor, tenon_py_as as)
{
    tenon__py_drain_soon();
    if (!tensor)
        return PyErr_Format(PyExc_ValueError, "tenon_py_export(): argument 'tensor' is NULL");
    switch (as) {
    case TENON_PY_AS_TENSOR:
        return tenon__py_tensor_new(tensor);
    case TENON_PY_AS_SAME:
        return export_same(tensor);
    case TENON_PY_AS_NUMPY:
        return tenon__py_export_numpy(tensor);
    case TENON_PY_AS_TORCH:
        return export_torch(tensor);
    case TENON_PY_AS_JAX:
        return export_jax(tensor);
    case TENON_PY_AS_CUPY:
        return call_with("cupy", "from_dlpack", tenon__py_tensor_new(tensor), false);
    case TENON_PY_AS_TENSORFLOW:
        if (tenon_tensor_view(tensor)->flags & TENON_READ_ONLY)
            return PyErr_Format(PyExc_BufferError,
                                "tensorflow takes legacy capsules only, which cannot say read-only; pass a copy");
        if (tenon_tensor_view(tensor)->dtype.lanes != 1) /* it would not look at them, and show the first of each */
            return PyErr_Format(PyExc_BufferError,
                                "tensorflow has no dtypes of several lanes; it did not take the tensor");
        if (tenon__py_order(tensor, TENON__PY_HOST) < 0) /* its function has no stream */
            return NULL;
        return call_with("tensorflow.experimental.dlpack", "from_dlpack", tenon__py_capsule(tensor, true), false);
    case TENON_PY_AS_MEMORYVIEW: {
        PyObject *object = tenon__py_tensor_new(tensor);
        PyObject *view = object ? PyMemoryView_FromObject(object) : NULL;
        Py_XDECREF(object);
        return view;
    }
    case TENON_PY_AS_CAPSULE:
    case TENON_PY_AS_CAPSULE_LEGACY:
        if (tenon__py_order(tensor, TENON__PY_NO_STREAM) < 0)
            return NULL;
        return tenon__py_capsule(tensor, as == TENON_PY_AS_CAPSULE_LEGACY);
    }
    return PyErr_Format(PyExc_ValueError, "tenon_py_export(): argument 'as': %d is none of tenon_py_as", (int)as);
}
