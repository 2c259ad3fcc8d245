/* Private declarations for specs, which signatures use too. */
#ifndef TENON_SPEC_INTERNAL_H
#define TENON_SPEC_INTERNAL_H

#include "host_private.h"
#include "parser.h"

/* Bits of tenon_dtypes.kinds. */
enum { TENON__KIND_REAL = 1, TENON__KIND_INTEGER = 2, TENON__KIND_ANY = 4 };

/* Whether the set has the dtype. */
bool tenon__dtypes_has(const tenon_dtypes *set, tenon_dtype dtype);

/* Parse the type of a tensor with its attributes. */
tenon_status tenon__parse_tensor(tenon__parser *p, tenon_spec *out);
/* Parse an optional where clause. */
tenon_status tenon__parse_where(tenon__parser *p);

/* The bits of an address that must be 0. */
static inline uint64_t tenon__address_mask(const tenon_spec *spec, tenon_dtype dtype)
{
    uint64_t natural = spec->flags & TENON_SPEC_UNALIGNED ? 1 : tenon__dtype_alignment(dtype);
    uint64_t wanted = spec->alignment ? (uint64_t)spec->alignment : 1;
    return (natural - 1) | (wanted - 1); /* both are powers of two */
}

/* The compiled part of a spec, for writing. */
static inline tenon__spec_code *tenon__code_in(tenon_spec *spec)
{
    return (tenon__spec_code *)(void *)spec->private_;
}

tenon__fast_spec tenon__fast_spec_of(const tenon_spec *spec);
/* Whether the spec allows memory on the device. */
bool tenon__device_fits(const tenon_spec *spec, tenon_device device);
/* Whether calls of the signature may be taken by plan; fills in `binds` of its parameters. */
bool tenon__make_plan(const tenon_signature *signature, tenon__fast_spec *fast);
/* Evaluate the expression of a dimension. False if it overflows, divides by 0, or uses a name without a value, which
 * *unbound then is. */
bool tenon__spec_evaluate(const tenon_spec *spec, const tenon__spec_dim *dim, const tenon_bindings *b, int64_t *out,
                          const char **unbound);
/* An error message. It begins with "saxpy(): argument 'x'", if the bindings have these labels. */
typedef struct tenon__message {
    char buffer[sizeof((tenon_error){0}.message) +
                1]; /* one more, so that tenon_error_set can see that it is truncated */
    tenon__text text;
    const char *function;
} tenon__message;
void tenon__message_begin(tenon__message *m, const tenon_bindings *b);
tenon_status tenon__message_end(const tenon__message *m, tenon_status status, tenon_error *err);
/* Add the values of the names that an expression uses: " (n = 3 from argument 'a', k = 4)". */
void tenon__message_add_values(tenon__message *m, const tenon_spec *spec, const tenon__spec_dim *dim,
                               const tenon_bindings *b);

#endif
