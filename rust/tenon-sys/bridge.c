/* The CPython bridge, and the borrows of `tenon::python`, which use its private parts. Both come from the same release. */
#include "tenon_python.c"

_Static_assert(sizeof(tenon_py_borrowed) == 304, "tenon_py_borrowed in src/lib.rs");

void *tenon_rs_peek(PyObject *object, uint32_t flags, tenon_dtype dtype, int32_t ndim, int64_t *shape);

/* Whether threads may run Python code at the same time. */
#ifdef Py_GIL_DISABLED
const bool tenon_rs_free_threaded = true;
#else
const bool tenon_rs_free_threaded = false;
#endif

static bool is_dtype(const tenon_dtype *dtype, tenon_dtype wanted)
{
    return memcmp(dtype, &wanted, sizeof wanted) == 0;
}

/* An array without the array struct. Only that says whether the memory may be written to. */
static TENON__PY_NOINLINE void *peek_other(PyObject *object, uint32_t flags, tenon_dtype dtype, int32_t ndim,
                                           int64_t *shape)
{
    tenon_py_borrowed borrowed;
    const tenon_view *view = &borrowed.view;
    const tenon__py_kind *kind = tenon__py_known_kind(Py_TYPE(object));
    if ((flags & TENON_PY_WRITE) || !kind || !kind->peek || !kind->peek(object, kind, &borrowed) ||
        view->device.device_type != TENON_CPU || view->ndim != ndim || !is_dtype(&view->dtype, dtype))
        return NULL;
    for (int32_t i = 0; i < ndim; i++)
        shape[i] = view->shape[i];
    return view->data;
}

static TENON__PY_NOINLINE void *drain_and_peek(PyObject *object, uint32_t flags, tenon_dtype dtype, int32_t ndim,
                                               int64_t *shape)
{
    tenon__py_drain();
    return tenon_rs_peek(object, flags, dtype, ndim, shape);
}

/* The memory of an array of the CPU with this dtype and number of dimensions, in C order, if it is read in place; `shape` receives
 * its sizes. NULL means "unknown": call tenon_py_borrow. The caller has a reference to the object, and nothing else is held. */
void *tenon_rs_peek(PyObject *object, uint32_t flags, tenon_dtype dtype, int32_t ndim, int64_t *shape)
{
    if (tenon__py_has_deferred())
        return drain_and_peek(object, flags, dtype, ndim, shape);
    if (!tenon__py_has_array_struct(object))
        return peek_other(object, flags, dtype, ndim, shape);
    const tenon__py_array *array = tenon__py_array_of(object);
    const tenon__py_descr *descr = tenon__py_descr_of(array);
    unsigned number = (unsigned)descr->type_num;
    if (number >= TENON__PY_NUMBERS || descr->byteorder != tenon__py_numbers[number].order ||
        !is_dtype(&tenon__py_numbers[number].dtype, dtype) || !(array->flags & TENON__PY_ARRAY_C) || array->nd != ndim ||
        ((flags & TENON_PY_WRITE) && tenon__py_array_flags(array)))
        return NULL;
    for (int32_t i = 0; i < ndim; i++)
        shape[i] = array->dimensions[i];
    return array->data;
}

static void release_owner(PyObject *capsule)
{
    tenon_release_fn release = (tenon_release_fn)(uintptr_t)PyCapsule_GetContext(capsule);
    release(PyCapsule_GetPointer(capsule, NULL));
}

/* A NumPy array on the blob's memory, which a capsule holds instead of a tensor. NULL without an exception means "unknown". */
static PyObject *own_by_array(const tenon_blob *blob)
{
    tenon_view view;
    int64_t dims[2 * TENON_PY_INLINE_DIMS];
    if (!numpy_state.api || blob->ndim > TENON_PY_INLINE_DIMS ||
        !tenon_view_init_fast(&view, blob->data, &blob->dtype, blob->ndim, blob->shape, NULL, 0, 0, dims))
        return NULL;
    PyObject *descr = numpy_dtype(view.dtype, view.flags);
    if (!descr) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *base = PyCapsule_New(blob->owner, NULL, NULL);
    if (base)
        PyCapsule_SetContext(base, (void *)(uintptr_t)blob->release);
    Py_XINCREF(base);
    PyObject *array = numpy_wrap_view(&view, descr, base);
    if (array)
        PyCapsule_SetDestructor(base, release_owner); /* now the array owns the memory */
    Py_XDECREF(base);
    return array;
}

/* An array of a framework on the blob's memory. Takes its owner, even if it fails: the caller has no other use for it. */
PyObject *tenon_rs_own(const tenon_blob *blob, int to)
{
    PyObject *array = to == TENON_PY_AS_NUMPY ? own_by_array(blob) : NULL;
    if (array)
        return array;
    tenon_tensor *tensor = NULL;
    tenon_error err;
    if (PyErr_Occurred() || tenon_tensor_from_blob(blob, &tensor, &err) != TENON_OK) {
        blob->release(blob->owner);
        return PyErr_Occurred() ? NULL : tenon_py_raise(&err);
    }
    array = tenon_py_export(tensor, to);
    tenon_tensor_release(tensor);
    return array;
}
