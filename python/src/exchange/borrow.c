/* Borrowing: the producers that read an object are chosen by its type; each ends in the core's one validation, and then come
 * the checks of the flags. */
#include "../internal.h"

#include <string.h>

/* ----------------------------------------------------------------------------------------------- for every producer */

bool tenon__py_alloc_dims(tenon_py_borrowed *out, int32_t ndim)
{
    out->private_.dims = out->private_.inline_dims;
    if (ndim > TENON_PY_INLINE_DIMS && ndim <= TENON_MAX_NDIM)
        out->private_.dims = PyMem_Malloc(2 * (size_t)ndim * sizeof *out->private_.dims);
    return out->private_.dims;
}

void tenon__py_free_dims(tenon_py_borrowed *out)
{
    if (out->private_.dims != out->private_.inline_dims)
        PyMem_Free(out->private_.dims);
    out->private_.dims = out->private_.inline_dims;
}

tenon_status tenon__py_try_make_view(const tenon_dl_tensor *source, tenon__py_unit unit, uint64_t flags,
                                     tenon_py_borrowed *out, tenon_error *err)
{
    if (!tenon__py_alloc_dims(out, source->ndim))
        return tenon_error_set(err, TENON_ENOMEM, "no memory for %d dimensions", source->ndim);
    tenon_status status = unit == TENON__PY_BYTES
                              ? tenon_view_init_bytes(&out->view, source, flags, out->private_.dims, err)
                              : tenon_view_init(&out->view, source, flags, out->private_.dims, err);
    if (status)
        tenon__py_free_dims(out);
    return status;
}

int tenon__py_make_view(PyObject *object, const tenon_dl_tensor *source, tenon__py_unit unit, uint64_t flags,
                        tenon_py_borrowed *out)
{
    tenon_error err;
    if (tenon__py_try_make_view(source, unit, flags, out, &err) == TENON_OK)
        return 0;
    tenon__py_raise_for(object, &err);
    return -1;
}

/* ------------------------------------------------------------------------------------------------------- the flags */

int tenon__py_check_flags(PyObject *object, uint32_t flags, const tenon_view *view)
{
    if ((flags & TENON_PY_WRITE) && (view->flags & TENON_READ_ONLY)) {
        const char *advice = tenon__py_writable_advice(object);
        return PyErr_Occurred() ? -1
                                : tenon__py_set_error(PyExc_ValueError, object,
                                                      "the memory is read-only, and it is to be written; %s", advice);
    }
    if ((flags & TENON_PY_C_CONTIGUOUS) && !(view->flags & TENON_VIEW_C))
        return tenon__py_set_error(PyExc_ValueError, object,
                                   "the elements are not in C order without gaps; pass a contiguous copy");
    if ((flags & TENON_PY_F_CONTIGUOUS) && !(view->flags & TENON_VIEW_F))
        return tenon__py_set_error(PyExc_ValueError, object,
                                   "the elements are not in Fortran order without gaps; pass such a copy");
    if (!(flags & TENON_PY_ANY_DEVICE) && view->device.device_type != TENON_CPU &&
        !tenon_device_on_host(view->device)) {
        char name[64];
        tenon_device_format(view->device, name, sizeof name);
        return tenon__py_set_error(PyExc_ValueError, object,
                                   "the memory is on %s, which the CPU cannot read; pass a copy on the CPU", name);
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ borrowing */

static int no_array(PyObject *object)
{
    return tenon__py_set_error(PyExc_TypeError, object,
                               "expected an array: NumPy, PyTorch, JAX, CuPy, anything with __dlpack__ or the buffer "
                               "protocol (for a table, a file or a lazy array, pass its data: x.to_numpy(), x[...])");
}

/* Ask one producer after the other. */
static int read_by_kind(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request,
                        tenon_py_borrowed *out)
{
    int result = tenon__py_read(object, kind, request, out);
    if (result == 1)
        result = no_array(object);
    if (result < 0 && request->refusal)
        tenon__py_add_context(request->refusal);
    Py_XDECREF(request->refusal);
    bool is_guarded = kind->owner && kind->owner->is_read_only;
    if (result == 0 && (kind->is_immutable || (is_guarded && kind->owner->is_read_only(&out->view))))
        out->view.flags |= TENON_READ_ONLY;
    return result;
}

/* Borrow an object whose kind is known. */
static int borrow_by_kind(PyObject *object, const tenon__py_kind *kind, uint32_t flags, intptr_t stream,
                          tenon_py_borrowed *out)
{
    if (kind->reason)
        return tenon__py_set_error(PyExc_TypeError, object, "%s", kind->reason);
    tenon__py_request request = {.flags = flags, .stream = stream};
    out->private_.flags = flags;
    out->private_.table = NULL;
    out->private_.holds = TENON__PY_HOLDS_NOTHING;
    if (read_by_kind(object, kind, &request, out) < 0)
        return -1;
    out->private_.object = object;
    Py_INCREF(object);
    if (tenon__py_check_flags(object, flags, &out->view) < 0 ||
        (kind->owner && kind->owner->check && kind->owner->check(object, out) < 0)) {
        tenon_py_unborrow(out);
        return -1;
    }
    return 0;
}

static TENON__PY_NOINLINE int borrow(PyObject *object, uint32_t flags, intptr_t stream, tenon_py_borrowed *out)
{
    const uint32_t known =
        TENON_PY_WRITE | TENON_PY_C_CONTIGUOUS | TENON_PY_F_CONTIGUOUS | TENON_PY_ANY_DEVICE | TENON__PY_STABLE_MEMORY;
    out->private_.object = NULL;
    if (!object || (flags & ~known)) {
        PyErr_Format(PyExc_ValueError,
                     object ? "tenon_py_borrow(): argument 'flags': 0x%x has bits without a meaning here"
                            : "tenon_py_borrow(): argument 'object' is NULL",
                     (unsigned)flags);
        return -1;
    }
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    return kind ? borrow_by_kind(object, kind, flags, stream, out) : -1;
}

/* Whether a peek knows all that the flags ask for: what it takes is in C order. */
static inline bool peek_is_enough(uint32_t flags)
{
    return !(flags & ~(TENON_PY_C_CONTIGUOUS | TENON_PY_ANY_DEVICE | TENON__PY_STABLE_MEMORY));
}

/* Borrow an object that a peek has described. */
static inline int hold(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    out->private_.flags = flags;
    out->private_.dims = out->private_.inline_dims;
    out->private_.object = object;
    Py_INCREF(object);
    return 0;
}

/* Arrays with the array struct are recognised by their type, which saves the most common array a look-up. */
bool tenon__py_peek(PyObject *object, const tenon__py_kind **kind, tenon_py_borrowed *out)
{
    *kind = NULL;
    if (tenon__py_has_array_struct(object))
        return tenon__py_borrow_array_struct(object, out);
    *kind = tenon__py_known_kind(Py_TYPE(object));
    return *kind && (*kind)->peek && (*kind)->peek(object, *kind, out);
}

bool tenon__py_is_read_in_c(PyObject *object)
{
    const tenon__py_kind *kind = tenon__py_has_array_struct(object) ? NULL : tenon__py_known_kind(Py_TYPE(object));
    return tenon__py_has_array_struct(object) || (kind && kind->peek && kind->table);
}

/* An object without the array struct, by its peek if that is all there is to it. */
static TENON__PY_NOINLINE int borrow_peeked(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    const tenon__py_kind *kind = tenon__py_known_kind(Py_TYPE(object));
    if (kind && kind->peek && kind->peek(object, kind, out) &&
        (out->view.device.device_type == TENON_CPU || (flags & TENON_PY_ANY_DEVICE)))
        return hold(object, flags, out);
    return borrow(object, flags, TENON__PY_NO_STREAM, out);
}

/* Releases of other threads are drained before anything is read: they may run any code. */
static inline int borrow_drained(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    if (!object || !peek_is_enough(flags))
        return borrow(object, flags, TENON__PY_NO_STREAM, out);
    if (!tenon__py_has_array_struct(object))
        return borrow_peeked(object, flags, out);
    if (tenon__py_borrow_array_struct(object, out))
        return hold(object, flags, out);
    return borrow(object, flags, TENON__PY_NO_STREAM, out);
}

int tenon_py_borrow(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    tenon__py_drain_soon();
    return borrow_drained(object, flags, out);
}

int tenon__py_borrow_in_c(PyObject *object, const tenon_py_borrowed *before, tenon_py_borrowed *out)
{
    tenon__py_kind room;
    if (tenon__py_has_array_struct(object) || tenon__py_known_kind(Py_TYPE(object)))
        return borrow_drained(object, TENON_PY_ANY_DEVICE, out);
    const tenon__py_kind *kind = tenon__py_kind_again(object, before->private_.table, &room);
    return borrow_by_kind(object, kind, TENON_PY_ANY_DEVICE, TENON__PY_NO_STREAM, out);
}

int tenon_py_borrow_on(PyObject *object, uint32_t flags, intptr_t stream, tenon_py_borrowed *out)
{
    tenon__py_drain_soon();
    return borrow(object, flags, stream, out);
}

static void release_held(tenon_py_borrowed *borrowed)
{
    switch (borrowed->private_.holds) {
    case TENON__PY_HOLDS_BUFFER:
    case TENON__PY_HOLDS_QUIET_BUFFER:
        PyBuffer_Release(&borrowed->private_.held.buffer);
        break;
    case TENON__PY_HOLDS_MANAGED:
        if (borrowed->private_.held.managed->deleter)
            borrowed->private_.held.managed->deleter(borrowed->private_.held.managed);
        break;
    case TENON__PY_HOLDS_LEGACY:
        if (borrowed->private_.held.legacy->deleter)
            borrowed->private_.held.legacy->deleter(borrowed->private_.held.legacy);
        break;
    case TENON__PY_HOLDS_OBJECT:
        Py_XDECREF(borrowed->private_.held.object);
        break;
    default:
        break;
    }
}

/* Producers' own code runs here: an exception that is on its way must not meet it. */
void tenon__py_give_back(tenon_py_borrowed *borrowed, PyObject *object)
{
    if (PyErr_Occurred()) {
        tenon__py_scope scope = tenon__py_enter_scope();
        tenon__py_give_back(borrowed, object);
        tenon__py_leave_scope(scope);
        return;
    }
    release_held(borrowed);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(object);
}

static TENON__PY_NOINLINE void unborrow_other(tenon_py_borrowed *borrowed, PyObject *object)
{
    if (borrowed->private_.holds == TENON__PY_HOLDS_QUIET_BUFFER)
        PyBuffer_Release(&borrowed->private_.held.buffer);
    else if (borrowed->private_.holds == TENON__PY_HOLDS_TENSOR)
        tenon__py_release(borrowed->private_.held.tensor);
    else
        tenon__py_give_back(borrowed, object);
    tenon__py_free_dims(borrowed);
    Py_DECREF(object);
}

void tenon_py_unborrow(tenon_py_borrowed *borrowed)
{
    PyObject *object = borrowed->private_.object;
    if (!object)
        return;
    borrowed->private_.object = NULL;
    if (borrowed->private_.holds == TENON__PY_HOLDS_NOTHING &&
        borrowed->private_.dims == borrowed->private_.inline_dims)
        Py_DECREF(object); /* it is all that is held */
    else
        unborrow_other(borrowed, object);
}

int tenon_py_borrow_many(size_t count, PyObject *const *objects, const uint32_t *flags, tenon_py_borrowed *out)
{
    bool may_have_changed = false;
    tenon__py_drain_soon();
    for (size_t i = 0; i < count; i++) {
        if (borrow_drained(objects[i], flags[i], &out[i]) < 0) {
            tenon_py_unborrow_many(i, out);
            return -1;
        }
        may_have_changed |= out[i].private_.holds != TENON__PY_HOLDS_NOTHING ||
                            (!tenon__py_has_array_struct(objects[i]) && !tenon__py_is_read_in_c(objects[i]));
    }
    int enabled = may_have_changed ? tenon__py_pause_gc() : 0;
    size_t same = 0;
    while (may_have_changed && same < count && tenon__py_is_unchanged(objects[same], &out[same]))
        same++;
    tenon__py_resume_gc(enabled);
    if (may_have_changed && same < count) {
        tenon__py_clear_ignorable_error();
        if (!PyErr_Occurred())
            tenon__py_set_error(PyExc_RuntimeError, objects[same],
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
