/* Shared by the two files that compile signatures: signature.c, and signature_types.c for types and defaults. */
#ifndef TENON_SIGNATURE_INTERNAL_H
#define TENON_SIGNATURE_INTERNAL_H

#include "spec.h"

/* The unused rest of each part of the block. The largest possible size of a part follows from the characters of the text:
 * each tensor has a "[", each parameter or result a "," or parenthesis next to it, each string two quotes. */
typedef struct tenon__signature_room {
    tenon_signature *signature;
    tenon_parameter *params;
    tenon_parameter *results;
    tenon_spec *specs;
    const char **strings;
    double *numbers; /* lists of doubles or of int64_t */
    tenon__fast_spec *fast;
    char *text; /* copies of parts of the text, each terminated by 0 */
} tenon__signature_room;

typedef struct tenon__compiler {
    tenon__parser p;
    tenon__signature_room room; /* not used yet */
    tenon_signature *out;       /* the signature that is being filled in */
    tenon_parameter *item;      /* the current parameter or result */
    const tenon_names *prior;   /* the names that the first pass found, or NULL during it */
    size_t starts[TENON_MAX_PARAMETERS + TENON_MAX_RESULTS]; /* position of each type in the text */
    bool keyword_only;
} tenon__compiler;

/* Copy a part of the text into the block. */
const char *tenon__keep_text(tenon__compiler *c, size_t from, size_t to);
/* Parse the type of `c->item`. */
tenon_status tenon__take_type(tenon__compiler *c);
/* Parse the default of a parameter, after the "=". */
tenon_status tenon__take_default(tenon__compiler *c);

#endif
