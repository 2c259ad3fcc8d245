/* The parts that the parsers of specs and of signatures share. */
#ifndef TENON_SIGNATURE_PARSER_H
#define TENON_SIGNATURE_PARSER_H

#include "internal.h"

/* A sequence of letters, digits and underscores. */
typedef struct tenon__word {
    const char *start;
    size_t length;
    size_t at;
} tenon__word;

typedef struct tenon__parser {
    const char *function; /* named in errors */
    const char *text;
    size_t at;
    tenon_names *names;
    tenon_error *err;
    bool in_result;    /* parsing a result of a signature, where dimensions may be "?" */
    bool in_signature; /* not a spec by itself */
    uint32_t extra;    /* "keep", "convert", "own" and "of" among the last tensor's attributes: TENON_PARAMETER_… */
    tenon__word of;    /* the name in "of(...)" */
} tenon__parser;

/* Report an error, with a caret under text[at]. */
tenon_status tenon__parse_fail(const tenon__parser *p, size_t at, const char *format, ...) TENON_PRINTF(3, 4);

void tenon__skip_spaces(tenon__parser *p);
/* The position after the last character that was parsed, not counting spaces. */
size_t tenon__end_of_text(const tenon__parser *p);
/* If the next character is `wanted`, move past it and return true. */
bool tenon__accept(tenon__parser *p, char wanted);
tenon_status tenon__expect(tenon__parser *p, char wanted, const char *where);
tenon__word tenon__peek_word(tenon__parser *p);
tenon__word tenon__parse_word(tenon__parser *p);
bool tenon__word_is(tenon__word w, const char *text);
/* Whether the word is a keyword of Python, or an argument that hosts add to every function. */
bool tenon__is_reserved(tenon__word w);
tenon_status tenon__parse_number(tenon__parser *p, int64_t *out);
/* A number with an optional sign. `number` receives its value; if `integer` is true, `whole` does too. */
tenon_status tenon__parse_literal(tenon__parser *p, bool integer, int64_t *whole, double *number);
/* An integer from 0 to 2^64 - 1. */
tenon_status tenon__parse_unsigned(tenon__parser *p, uint64_t *out);
/* A number, an imaginary number such as 2j, or a sum or difference of both. */
tenon_status tenon__parse_complex(tenon__parser *p, double parts[2]);
/* The slot of a name in one of the tables of names. Adds the name if it is new. */
tenon_status tenon__intern(const tenon__parser *p, tenon__word w, char (*table)[TENON_NAME_SIZE], int32_t *count,
                           int32_t most, int32_t *slot);

/* Whether the module has a class of this name; sets *flags, if it is not NULL, to the class's. */
bool tenon__module_class(const tenon_module *module, const char *name, size_t length, uint64_t *flags);
/* Whether the module has an entry "Name.member", of whatever kind. */
bool tenon__module_member(const tenon_module *module, const char *class_name, const char *member);

/* The names of methods that hosts know what to do with, and whether a name is one of them. */
extern const char tenon__special_methods[];
bool tenon__is_special(tenon__word w);
/* Whether the entry, if it is such a method or belongs to one, is as hosts expect. If not, writes what it should be. */
bool tenon__special_fits(const tenon_signature *s, const tenon_module *module, char *wanted, size_t size);

#endif
