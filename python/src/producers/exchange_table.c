/* DLPack's exchange table: C functions that a framework hangs on its type. */
#include "../internal.h"

/* After a function of the table said no, or yes with an exception. */
static int table_failed(PyObject *object, const tenon__py_kind *kind)
{
    if (!PyErr_Occurred())
        return tenon__py_complain(PyExc_BufferError, object, "its exchange table failed without saying why");
    if (tenon__py_is_refusal())
        tenon__py_refused(object, kind->ways & TENON__PY_TORCH ? tenon__py_torch_advice(object) : NULL);
    return -1;
}

/* The table's borrow: quick, but without flags. Right for torch, which has no read-only memory. */
static int borrow_plain(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out)
{
    tenon_dl_tensor source = {.ndim = -1};
    if (kind->table->dltensor_from_py_object_no_sync(object, &source) != 0 || PyErr_Occurred())
        return table_failed(object, kind);
    if (source.ndim == -1)
        return tenon__py_complain(PyExc_BufferError, object, "its exchange table said yes and wrote nothing");
    if (tenon__py_dims(out, source.ndim) < 0)
        return -1;
    if (tenon__py_describe(out, &source, 0, object) < 0) {
        if (!source.data && PyErr_ExceptionMatches(PyExc_BufferError)) {
            PyErr_Clear();
            tenon__py_complain(
                PyExc_BufferError, object,
                "the tensor has elements but no memory (a fake, wrapped or freed one); pass a real tensor");
        }
        return -1;
    }
    int ready = tenon__py_table_is_on(kind->table, out->view.device, stream);
    if (ready != 1) {
        tenon__py_free_dims(out);
        return ready < 0 ? -1 : 1;
    }
    out->way = TENON__PY_TABLE;
    out->table = kind->table;
    return 0;
}

static int borrow_managed(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out)
{
    tenon_dl_managed *managed = NULL;
    if (!kind->table->managed_tensor_from_py_object_no_sync)
        return tenon__py_complain(PyExc_BufferError, object, "its exchange table has no function to take a tensor");
    if (kind->table->managed_tensor_from_py_object_no_sync(object, &managed) != 0 || (!managed && PyErr_Occurred()))
        return table_failed(object, kind);
    if (!managed)
        return tenon__py_complain(PyExc_BufferError, object, "its exchange table said yes and wrote nothing");
    int result = -1;
    if (PyErr_Occurred())
        result = table_failed(object, kind);
    else if (managed->version.major != TENON_DL_MAJOR)
        result =
            tenon__py_complain(PyExc_BufferError, object, "its exchange table of DLPack 1 gave a struct of DLPack %u",
                               (unsigned)managed->version.major);
    else if (tenon__py_dims(out, managed->dl_tensor.ndim) == 0)
        result = tenon__py_describe(out, &managed->dl_tensor, managed->flags, object);
    int ready = result == 0 ? tenon__py_table_is_on(kind->table, out->view.device, stream) : 1;
    if (ready != 1) {
        tenon__py_free_dims(out);
        result = ready < 0 ? -1 : 1;
    }
    out->way = TENON__PY_DLPACK;
    out->table = kind->table;
    out->held.managed = managed;
    if (result != 0)
        tenon__py_give_back(out, object);
    return result;
}

_Atomic(PyTypeObject *) tenon__py_torch_tensor;
static const tenon_dl_exchange *torch_table; /* set before the type, and never again */

void tenon__py_remember_torch(const tenon__py_kind *kind)
{
    torch_table = kind->table;
    atomic_store_explicit(&tenon__py_torch_tensor, atomic_load_explicit(&kind->type, memory_order_relaxed),
                          memory_order_release);
}

const tenon_dl_exchange *tenon__py_torch_table(void)
{
    return atomic_load_explicit(&tenon__py_torch_tensor, memory_order_acquire) ? torch_table : NULL;
}

/* An ordinary tensor is in C order with more than one element, so that its last stride is 1: it cannot be a neg
 * view. */
bool tenon__py_borrow_torch_quick(PyObject *object, tenon_py_borrowed *out)
{
    tenon_dl_tensor source = {.ndim = -1};
    if (torch_table->dltensor_from_py_object_no_sync(object, &source) != 0) {
        PyErr_Clear(); /* the longer way asks again, and says why */
        return false;
    }
    bool cpu = source.device.device_type == TENON_CPU && source.device.device_id == 0;
    if ((uint32_t)source.ndim > TENON_PY_INLINE_DIMS || source.byte_offset ||
        (!cpu && source.device.device_type != TENON_CUDA) || source.dtype.code == TENON_CODE_COMPLEX ||
        source.dtype.bits % 8 || !tenon_dtype_known(source.dtype) ||
        !tenon_view_init_quick(&out->view, source.data, &source.dtype, source.ndim, source.shape, source.strides, 0, 0,
                               out->inline_dims) ||
        out->view.numel < 2)
        return false;
    out->view.device = source.device;
    out->way = TENON__PY_TABLE;
    out->table = torch_table;
    return true;
}

int tenon__py_borrow_table(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out)
{
    if ((kind->ways & TENON__PY_TORCH) && kind->table->dltensor_from_py_object_no_sync)
        return borrow_plain(object, kind, stream, out);
    return borrow_managed(object, kind, stream, out);
}
