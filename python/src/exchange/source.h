/* The end of every way in: a producer fills a source, and one function makes the view of it.
 *
 * A source is DLPack's description of a tensor, whose strides may count bytes, with DLPack's three flags. */
#ifndef TENON_PY_SOURCE_H
#define TENON_PY_SOURCE_H

#include "compat.h"
#include "host_private.h"

#include <tenon/python.h>

/* What the strides of a source count. */
typedef enum tenon__py_unit { TENON__PY_ELEMENTS, TENON__PY_BYTES } tenon__py_unit;

/* The sizes and strides of NumPy and of buffers, for a source, which is only read. */
_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "their sizes and strides have 64 bits");
TENON__PY_INLINE int64_t *tenon__py_numbers_of(const Py_ssize_t *numbers)
{
    return (int64_t *)(void *)(uintptr_t)numbers;
}

/* The fast case of tenon__py_finish: few dimensions in C order. False means "unknown", not "invalid". It does not set
 * out->private_.dims, which borrows that hold nothing do not need. The caller guarantees what tenon__view_init_fast asks for: a
 * known dtype of whole bytes, memory with addresses, byte_offset 0, and a shape. */
TENON__PY_INLINE bool tenon__py_finish_fast(const tenon_dl_tensor *source, tenon__py_unit unit, uint64_t flags,
                                            tenon_py_borrowed *out)
{
    int shift = 0;
    if ((uint32_t)source->ndim > TENON_PY_INLINE_DIMS)
        return false;
    if (unit == TENON__PY_BYTES) {
        if (source->dtype.lanes != 1)
            return false;
        shift = __builtin_ctz(source->dtype.bits) - 3; /* whole bytes are powers of two */
    }
    return tenon__view_init_fast(&out->view, source, shift, flags, out->private_.inline_dims);
}

/* Describe `source` in out->view, with its shape and strides in out->private_.dims; the core tries its fast case first. On failure
 * nothing is kept, and no exception is set, so that it may run while a lock is held. */
tenon_status tenon__py_describe(const tenon_dl_tensor *source, tenon__py_unit unit, uint64_t flags,
                                tenon_py_borrowed *out, tenon_error *err);

/* The same: 0, or -1 with an exception that names the type of `object`. The caller releases what `out` holds. */
int tenon__py_finish(PyObject *object, const tenon_dl_tensor *source, tenon__py_unit unit, uint64_t flags,
                     tenon_py_borrowed *out);

/* Room for 2 * ndim values in `out`: inline, or on the heap. False: there is no memory. */
bool tenon__py_alloc_dims(tenon_py_borrowed *out, int32_t ndim);
void tenon__py_free_dims(tenon_py_borrowed *out);

#endif
