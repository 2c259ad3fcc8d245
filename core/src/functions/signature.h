/* What the two files of the signature compiler share: signature.c, and signature_types.c for types and defaults. */
#ifndef TENON_SIGNATURE_INTERNAL_H
#define TENON_SIGNATURE_INTERNAL_H

#include "spec.h"

/* The block of a signature, filled from the front. What the parts can need at most follows from the text's characters:
 * a tensor has a "[", a parameter or result a "," or parenthesis before or after it, a string has two quotes. */
typedef struct tenon__signature_room {
    tenon_signature *signature;
    tenon_parameter *params;
    tenon_parameter *results;
    tenon_spec *specs;
    const char **strings;
    double *numbers; /* lists of doubles or of int64_t */
    tenon__fast_spec *fast;
    char *text; /* pieces of the text, each ended by 0 */
} tenon__signature_room;

typedef struct tenon__compiler {
    tenon__parser p;
    tenon__signature_room room;                              /* what is left of it */
    tenon_signature *out;                                    /* being filled */
    tenon_parameter *item;                                   /* the parameter or result at hand */
    const tenon_names *prior;                                /* the names of the first reading, or NULL */
    size_t starts[TENON_MAX_PARAMETERS + TENON_MAX_RESULTS]; /* where each type begins in the text */
    bool keyword_only;
} tenon__compiler;

/* A copy of part of the text. */
const char *tenon__keep_text(tenon__compiler *c, size_t from, size_t to);
/* Parse the type of `c->item`. */
tenon_status tenon__take_type(tenon__compiler *c);
/* Parse what follows the "=" of a parameter. */
tenon_status tenon__take_default(tenon__compiler *c);

#endif
