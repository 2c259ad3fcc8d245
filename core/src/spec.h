/* The parser of specs, in pieces that the parser of whole signatures can use, and the codes it compiles to. */
#ifndef TENON_SPEC_INTERNAL_H
#define TENON_SPEC_INTERNAL_H

#include "internal.h"

/* Kinds of dimensions and of operations. */
enum { TENON__DIM_ANY, TENON__DIM_NUMBER, TENON__DIM_NAME, TENON__DIM_STAR, TENON__DIM_EXPRESSION };
enum { TENON__OP_NUMBER, TENON__OP_NAME, TENON__OP_ADD, TENON__OP_SUB, TENON__OP_MUL, TENON__OP_DIV };

/* Bits of tenon_dtypes.kinds. */
enum { TENON__KIND_REAL = 1, TENON__KIND_INTEGER = 2, TENON__KIND_ANY = 4 };

/* Whether the set has the dtype. */
bool tenon__dtypes_has(const tenon_dtypes *set, tenon_dtype dtype);

typedef struct tenon__parser {
    const char *function; /* whom errors name */
    const char *text;
    size_t at;
    tenon_names *names;
    tenon_error *err;
} tenon__parser;

/* An error with a caret under text[at]. */
tenon_status tenon__parse_fail(const tenon__parser *p, size_t at, const char *format, ...) TENON_PRINTF(3, 4);
/* Parse a tensor's type with its attributes; the parser stops behind it. */
tenon_status tenon__parse_tensor(tenon__parser *p, tenon_spec *out);
/* Parse an optional where clause. */
tenon_status tenon__parse_where(tenon__parser *p);

#endif
