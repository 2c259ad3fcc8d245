/* The end of every way in: a producer fills a source, and one function makes the view of it.
 *
 * A source is DLPack's description of a tensor, whose strides may count bytes, with DLPack's three flags. */
#ifndef TENON_PY_PRODUCER_VIEW_H
#define TENON_PY_PRODUCER_VIEW_H

#include "compat.h"
#include <tenon/host.h>

#include <tenon/python.h>

/* What the strides of a source count. */
typedef enum tenon__py_unit { TENON__PY_ELEMENTS, TENON__PY_BYTES } tenon__py_unit;

/* The sizes and strides of NumPy and of buffers, for a source, which is only read. */
_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "their sizes and strides have 64 bits");
TENON__PY_INLINE int64_t *tenon__py_numbers_of(const Py_ssize_t *numbers)
{
    return (int64_t *)(void *)(uintptr_t)numbers;
}

/* The fast case of tenon__py_make_view: memory of the CPU with few dimensions in C order. False means "unknown", not "invalid".
 * It does not set out->private_.dims, which borrows that hold nothing do not need. 2^stride_shift units of the strides make
 * an element. The caller guarantees a shape, and a known dtype of whole bytes. */
TENON__PY_INLINE bool tenon__py_make_view_fast(void *data, const tenon_dtype *dtype, int32_t ndim, const int64_t *shape,
                                               const int64_t *strides, int stride_shift, uint64_t flags,
                                               tenon_py_borrowed *out)
{
    return (uint32_t)ndim <= TENON_PY_INLINE_DIMS &&
           tenon_view_init_fast(&out->view, data, dtype, ndim, shape, strides, stride_shift, flags,
                                out->private_.inline_dims);
}

/* Describe `source` in out->view, with its shape and strides in out->private_.dims; the core tries its fast case first. On
 * failure nothing is kept, and no exception is set, so that it may run while a lock is held. */
tenon_status tenon__py_try_make_view(const tenon_dl_tensor *source, tenon__py_unit unit, uint64_t flags,
                                     tenon_py_borrowed *out, tenon_error *err);

/* The same: 0, or -1 with an exception that names the type of `object`. The caller releases what `out` holds. */
int tenon__py_make_view(PyObject *object, const tenon_dl_tensor *source, tenon__py_unit unit, uint64_t flags,
                        tenon_py_borrowed *out);

/* Room for 2 * ndim values in `out`: inline, or on the heap. False: there is no memory. */
bool tenon__py_alloc_dims(tenon_py_borrowed *out, int32_t ndim);
void tenon__py_free_dims(tenon_py_borrowed *out);

#endif
