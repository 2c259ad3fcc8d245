/* What a spec compiles to, and the pieces that signatures are made of. */
#ifndef TENON_SPEC_INTERNAL_H
#define TENON_SPEC_INTERNAL_H

#include "host_private.h"
#include "parser.h"

/* Bits of tenon_dtypes.kinds. */
enum { TENON__KIND_REAL = 1, TENON__KIND_INTEGER = 2, TENON__KIND_ANY = 4 };

/* Whether the set has the dtype. */
bool tenon__dtypes_has(const tenon_dtypes *set, tenon_dtype dtype);

/* Parse a tensor's type with its attributes; the parser stops behind it. */
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

/* The compiled part of a spec that is being filled. */
static inline tenon__spec_code *tenon__code_in(tenon_spec *spec)
{
    return (tenon__spec_code *)(void *)spec->private_;
}

tenon__fast_spec tenon__fast_spec_of(const tenon_spec *spec);
/* The value of a dimension's expression; false where it overflows, divides by 0 or needs a name without a value
 * (*unbound). */
bool tenon__spec_value(const tenon_spec *spec, const tenon__spec_dim *dim, const tenon_bindings *b, int64_t *out,
                       const char **unbound);
/* "saxpy(): argument 'x'", as far as there are labels. */
typedef struct tenon__message {
    char buffer[sizeof((tenon_error){0}.message) + 1]; /* one more, so that the error sees that it is cut */
    tenon__text text;
    const char *function;
} tenon__message;
void tenon__message_begin(tenon__message *m, const tenon_bindings *b);
tenon_status tenon__message_end(const tenon__message *m, tenon_status status, tenon_error *err);
/* " (n = 3 from argument 'a', k = 4)": the names that the expression uses. */
void tenon__message_add_values(tenon__message *m, const tenon_spec *spec, const tenon__spec_dim *dim,
                               const tenon_bindings *b);

#endif
