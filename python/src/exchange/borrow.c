/* Borrowing: the way is chosen by type; every way ends in the core's one validation and the checks of the flags. */
#include "../producers/ndarray.h"

#include <string.h>

/* ----------------------------------------------------------------------------------------------- for every way in */

int tenon__py_dims(tenon_py_borrowed *out, int32_t ndim)
{
    out->dims = out->inline_dims;
    if (ndim > TENON_PY_INLINE_DIMS && ndim <= TENON_MAX_NDIM) {
        out->dims = PyMem_Malloc(2 * (size_t)ndim * sizeof *out->dims);
        if (!out->dims)
            return PyErr_NoMemory(), -1;
    }
    return 0;
}

void tenon__py_free_dims(tenon_py_borrowed *out)
{
    if (out->dims != out->inline_dims)
        PyMem_Free(out->dims);
    out->dims = out->inline_dims;
}

int tenon__py_describe(tenon_py_borrowed *out, const tenon_dl_tensor *source, uint64_t flags, PyObject *object)
{
    tenon_error err;
    if (tenon_view_init(&out->view, source, flags, out->dims, &err) == TENON_OK)
        return 0;
    tenon__py_free_dims(out);
    tenon__py_raise_for(object, &err);
    return -1;
}

/* ------------------------------------------------------------------------------------------------------- the flags */

int tenon__py_check_flags(PyObject *object, uint32_t flags, const tenon_view *view)
{
    if ((flags & TENON_PY_WRITE) && (view->flags & TENON_READ_ONLY)) {
        const char *advice = tenon__py_writable_advice(object);
        return PyErr_Occurred() ? -1
                                : tenon__py_complain(PyExc_ValueError, object,
                                                     "the memory is read-only, and it is to be written; %s", advice);
    }
    if ((flags & TENON_PY_C_CONTIGUOUS) && !(view->flags & TENON_VIEW_C))
        return tenon__py_complain(PyExc_ValueError, object,
                                  "the elements are not in C order without gaps; pass a contiguous copy");
    if ((flags & TENON_PY_F_CONTIGUOUS) && !(view->flags & TENON_VIEW_F))
        return tenon__py_complain(PyExc_ValueError, object,
                                  "the elements are not in Fortran order without gaps; pass such a copy");
    if (!(flags & TENON_PY_ANY_DEVICE) && view->device.device_type != TENON_CPU &&
        !tenon_device_on_host(view->device)) {
        char name[64];
        tenon_device_format(view->device, name, sizeof name);
        return tenon__py_complain(PyExc_ValueError, object,
                                  "the memory is on %s, which the CPU cannot read; pass a copy on the CPU", name);
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ borrowing */

static int no_array(PyObject *object)
{
    return tenon__py_complain(PyExc_TypeError, object,
                              "expected an array: NumPy, PyTorch, JAX, CuPy, anything with __dlpack__ or the buffer "
                              "protocol (of a table, file or lazy array pass what it holds: x.to_numpy(), x[...])");
}

/* JAX's arrays on a GPU have a buffer function, which takes its time to refuse. So the way of the last one is taken; the
 * other one works too. */
static _Atomic bool jax_is_far;

static bool is_near_jax(PyObject *object)
{
    return Py_TYPE(object) == tenon__py_jax_array && !atomic_load_explicit(&jax_is_far, memory_order_relaxed);
}

/* `why_no_buffer` is what the buffer function said where it was asked already, else NULL. */
static int try_ways(PyObject *object, const tenon__py_kind *kind, intptr_t stream, PyObject *why_no_buffer,
                    tenon_py_borrowed *out)
{
    int result = 1;
    uint32_t ways = kind->ways;
    if (ways & TENON__PY_TABLE)
        result = tenon__py_borrow_table(object, kind, stream, out);
    bool asked = why_no_buffer;
    bool is_jax = Py_TYPE(object) == tenon__py_jax_array;
    if (result == 1 && (ways & TENON__PY_BUFFER) && !asked && (!is_jax || is_near_jax(object)))
        result = tenon__py_borrow_buffer(object, ways & TENON__PY_DLPACK ? &why_no_buffer : NULL, out);
    if (result == 1 && (ways & TENON__PY_DLPACK))
        result = tenon__py_borrow_dlpack(object, kind, stream, out);
    if (result == 0 && is_jax)
        jax_is_far = !tenon_device_on_host(out->view.device);
    if (result < 0 && why_no_buffer)
        tenon__py_add_context(why_no_buffer);
    if (!asked)
        Py_XDECREF(why_no_buffer);
    if (result == 1 && PyType_Check(object)) /* it has the attributes of its instances */
        result = tenon__py_complain(PyExc_TypeError, object, "this is a class, not an array; pass an instance");
    if (result == 1)
        result = tenon__py_borrow_interface(object, stream, out);
    return result == 1 ? no_array(object) : result;
}

static TENON__PY_APART int borrow(PyObject *object, uint32_t flags, intptr_t stream, PyObject *why_no_buffer,
                                  tenon_py_borrowed *out)
{
    enum { KNOWN_FLAGS = TENON_PY_WRITE | TENON_PY_C_CONTIGUOUS | TENON_PY_F_CONTIGUOUS | TENON_PY_ANY_DEVICE };
    out->object = NULL;
    if (!object || (flags & ~(uint32_t)KNOWN_FLAGS)) {
        PyErr_Format(PyExc_ValueError,
                     object ? "tenon_py_borrow(): argument 'flags': 0x%x has bits without a meaning here"
                            : "tenon_py_borrow(): argument 'object' is NULL",
                     (unsigned)flags);
        return -1;
    }
    tenon__py_drain_soon();
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    if (!kind)
        return -1;
    out->flags = flags;
    out->table = NULL;
    out->way = TENON__PY_NOTHING;
    int result;
    if (kind->ways & TENON__PY_NUMPY) {
        result = tenon__py_borrow_numpy(object, out);
    } else if (kind->ways & TENON__PY_REFUSED) {
        result = tenon__py_complain(PyExc_TypeError, object, "%s", kind->reason);
    } else if (kind->ways & TENON__PY_CAPSULE) {
        result = tenon__py_borrow_capsule(object, flags, stream, out);
    } else {
        result = kind->ways & TENON__PY_OURS ? tenon__py_borrow_tensor(object, stream, out)
                                             : try_ways(object, kind, stream, why_no_buffer, out);
        if (result == 0 && (kind->ways & TENON__PY_IMMUTABLE))
            out->view.flags |= TENON_READ_ONLY;
    }
    if (result < 0)
        return -1;
    out->object = object;
    Py_INCREF(object);
    if (tenon__py_check_flags(object, flags, &out->view) < 0 ||
        ((kind->ways & TENON__PY_TORCH) && tenon__py_torch_check(object, out) < 0)) {
        tenon_py_unborrow(out);
        return -1;
    }
    return 0;
}

/* Whether the quick ways know all that the flags ask for: what they take is in C order. */
static inline bool is_plain(uint32_t flags)
{
    return !(flags & ~(TENON_PY_C_CONTIGUOUS | TENON_PY_ANY_DEVICE));
}

/* What a quick way has described is borrowed. */
static inline int hold(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    out->flags = flags;
    out->dims = out->inline_dims;
    out->object = object;
    Py_INCREF(object);
    tenon__py_drain_soon();
    return 0;
}

/* What the two most common types usually look like, without a look-up. Both types live as long as the process. */
bool tenon__py_peek(PyObject *object, tenon_py_borrowed *out)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type == tenon__py_ndarray)
        return tenon__py_borrow_ndarray(object, out);
    return type == tenon__py_torch_tensor && tenon__py_borrow_torch_quick(object, out);
}

/* torch's tensors by their table, where that is all there is to it. */
static TENON__PY_APART int borrow_torch(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    if (tenon__py_borrow_torch_quick(object, out) &&
        (out->view.device.device_type == TENON_CPU || (flags & TENON_PY_ANY_DEVICE)))
        return hold(object, flags, out);
    return borrow(object, flags, TENON__PY_NO_STREAM, NULL, out);
}

/* JAX's arrays by their buffer, which may have been asked for already where that does not do. */
static TENON__PY_APART int borrow_jax(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    PyObject *why_no_buffer = NULL;
    int result = tenon__py_borrow_jax_quick(object, &why_no_buffer, out);
    if (result == 0)
        return hold(object, flags, out);
    out->object = NULL;
    if (result == 1)
        result = borrow(object, flags, TENON__PY_NO_STREAM, why_no_buffer, out);
    Py_XDECREF(why_no_buffer);
    return result;
}

int tenon_py_borrow(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    if (object && is_plain(flags)) {
        PyTypeObject *type = Py_TYPE(object);
        if (type == tenon__py_ndarray && tenon__py_borrow_ndarray(object, out))
            return hold(object, flags, out);
        if (type == tenon__py_torch_tensor)
            return borrow_torch(object, flags, out);
        if (is_near_jax(object))
            return borrow_jax(object, flags, out);
    }
    return borrow(object, flags, TENON__PY_NO_STREAM, NULL, out);
}

int tenon_py_borrow_on(PyObject *object, uint32_t flags, intptr_t stream, tenon_py_borrowed *out)
{
    return borrow(object, flags, stream, NULL, out);
}

static void release_held(tenon_py_borrowed *borrowed)
{
    switch (borrowed->way) {
    case TENON__PY_BUFFER:
    case TENON__PY_JAX:
        PyBuffer_Release(&borrowed->held.buffer);
        break;
    case TENON__PY_DLPACK:
        if (borrowed->held.managed->deleter)
            borrowed->held.managed->deleter(borrowed->held.managed);
        break;
    case TENON__PY_DLPACK_LEGACY:
        if (borrowed->held.legacy->deleter)
            borrowed->held.legacy->deleter(borrowed->held.legacy);
        break;
    case TENON__PY_INTERFACE:
        Py_XDECREF(borrowed->held.object);
        break;
    default:
        break;
    }
}

/* Producers' own code runs here: an exception that is on its way must not meet it. */
void tenon__py_give_back(tenon_py_borrowed *borrowed, PyObject *object)
{
    if (PyErr_Occurred()) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        tenon__py_give_back(borrowed, object);
        PyErr_Restore(type, value, traceback);
        return;
    }
    release_held(borrowed);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(object);
}

static TENON__PY_APART void unborrow_other(tenon_py_borrowed *borrowed, PyObject *object)
{
    if (borrowed->way == TENON__PY_JAX)
        PyBuffer_Release(&borrowed->held.buffer);
    else if (borrowed->way == TENON__PY_OURS)
        tenon__py_release(borrowed->held.tensor);
    else
        tenon__py_give_back(borrowed, object);
    tenon__py_free_dims(borrowed);
    Py_DECREF(object);
}

void tenon_py_unborrow(tenon_py_borrowed *borrowed)
{
    PyObject *object = borrowed->object;
    if (!object)
        return;
    borrowed->object = NULL;
    if ((borrowed->way & (TENON__PY_NUMPY | TENON__PY_TABLE)) && borrowed->dims == borrowed->inline_dims)
        Py_DECREF(object); /* it is all that is held */
    else
        unborrow_other(borrowed, object);
}

int tenon_py_borrow_many(size_t count, PyObject *const *objects, const uint32_t *flags, tenon_py_borrowed *out)
{
    bool disturbed = false;
    for (size_t i = 0; i < count; i++) {
        if (tenon_py_borrow(objects[i], flags[i], &out[i]) < 0) {
            tenon_py_unborrow_many(i, out);
            return -1;
        }
        disturbed |= !(out[i].way & (TENON__PY_NUMPY | TENON__PY_TABLE)); /* these run C code only */
    }
    for (size_t i = 0; disturbed && i < count; i++) {
        if (tenon__py_is_unchanged(objects[i], &out[i]))
            continue;
        tenon__py_forgive();
        if (!PyErr_Occurred())
            tenon__py_complain(PyExc_RuntimeError, objects[i],
                               "it was changed while the other arrays were borrowed; its memory, shape, dtype or "
                               "flags are others: pass a copy");
        tenon_py_unborrow_many(count, out);
        return -1;
    }
    return 0;
}

void tenon_py_unborrow_many(size_t count, tenon_py_borrowed *borrowed)
{
    while (count > 0)
        tenon_py_unborrow(&borrowed[--count]);
}

/* ------------------------------------------------------------------------------------------------------ converters */

static int convert(PyObject *object, uint32_t flags, tenon_py_borrowed *borrowed)
{
    if (!object) { /* a later argument failed */
        tenon_py_unborrow(borrowed);
        return 1;
    }
    return tenon_py_borrow(object, flags, borrowed) < 0 ? 0 : Py_CLEANUP_SUPPORTED;
}

int tenon_py_converter(PyObject *object, void *borrowed)
{
    return convert(object, 0, borrowed);
}

int tenon_py_converter_rw(PyObject *object, void *borrowed)
{
    return convert(object, TENON_PY_WRITE, borrowed);
}
