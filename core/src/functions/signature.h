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
    const tenon_module *module; /* for its classes; may be NULL */
} tenon__compiler;

/* Copy a part of the text into the block. */
const char *tenon__copy_text(tenon__compiler *c, size_t from, size_t to);
/* Parse the name of a function, class, parameter and so on. */
tenon_status tenon__parse_name(tenon__compiler *c, const char *of_what, tenon__word *out);
/* Parse the type of `c->item`. */
tenon_status tenon__parse_type(tenon__compiler *c);
/* Parse the default of a parameter, after the "=". */
tenon_status tenon__parse_default(tenon__compiler *c);

/* Parse what comes before the "(": the name of a function or a constructor, "Name.method", or all of "class Name". */
tenon_status tenon__parse_head(tenon__compiler *c);
/* Parse the first parameter of a method. */
tenon_status tenon__parse_self(tenon__compiler *c);
/* Add the hidden result of a constructor. */
tenon_status tenon__add_object(tenon__compiler *c);
/* Mark a handle whose name is that of a class. */
void tenon__note_class(tenon__compiler *c, tenon_parameter *item);
/* Check "keep", "own" and "of" of the tensor `c->item`, whose type is at text[at]: of a parameter, and of a result that has
 * one of them. */
tenon_status tenon__check_kept(tenon__compiler *c, size_t at);
tenon_status tenon__check_given(tenon__compiler *c, size_t at);
/* Check that a special method has the parameters and results that hosts expect. */
tenon_status tenon__check_method(tenon__compiler *c);

/* Whether the module has a class of this name; sets *flags, if it is not NULL, to the class's. */
bool tenon__module_class(const tenon_module *module, const char *name, size_t length, uint64_t *flags);

#endif
