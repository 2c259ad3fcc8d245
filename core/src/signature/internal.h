/* What the folder gives to the others: the questions that a call asks about a signature. The rest is in tenon/spec.h and
 * tenon/host/signature.h. */
#ifndef TENON_SIGNATURE_INTERNAL_H
#define TENON_SIGNATURE_INTERNAL_H

#include "../tensor/internal.h"

/* The bits of an address that must be 0. */
static inline uint64_t tenon__address_mask(const tenon_spec *spec, tenon_dtype dtype)
{
    uint64_t natural = spec->flags & TENON_SPEC_UNALIGNED ? 1 : tenon__dtype_alignment(dtype);
    uint64_t wanted = spec->alignment ? (uint64_t)spec->alignment : 1;
    return (natural - 1) | (wanted - 1); /* both are powers of two */
}

/* Whether the spec allows memory on the device. */
bool tenon__device_fits(const tenon_spec *spec, tenon_device device);

/* Convert the arguments that `which` has bits for: copies in memory of the call take their places. 0, or -1: refused. In
 * call/conversions.c, with all that allocates memory of a call. */
int tenon__frame_convert(tenon_frame *f, uint64_t which);
/* Report to the client that they were converted. 0, or -1: refused. */
int tenon__frame_count_conversions(tenon_frame *f, uint64_t which);

/* Whether the shape begins with a batch, "**b". */
bool tenon__has_batch(const tenon_spec *spec);

/* Match the arguments of a call, and bind the names. Errors as tenon_frame_match. */
tenon_status tenon__signature_match(const tenon_signature *signature, const tenon_value *args, tenon_bindings *bindings,
                                    tenon_error *err);

/* The dtype and shape of the tensor in result `index`, a list "for ...", that belongs to this item. Errors as
 * tenon_signature_result. */
tenon_status tenon__signature_item(const tenon_signature *signature, int32_t index, const tenon_bindings *bindings,
                                   const tenon_view *item, tenon_dtype *dtype, int32_t *ndim,
                                   int64_t shape[TENON_MAX_NDIM], tenon_error *err);

/* Whether the function may allocate the result `index`, or the next tensor of that list, with this shape; sets *dtype to its
 * dtype.
 *
 * Errors: TENON_ESHAPE, TENON_EINVAL (the result is already allocated, or not a tensor), those of
 *         tenon_signature_result. */
tenon_status tenon__signature_open_result(const tenon_signature *signature, int32_t index,
                                          const tenon_bindings *bindings, int32_t ndim, const int64_t *shape,
                                          tenon_dtype *dtype, tenon_error *err);

#endif
