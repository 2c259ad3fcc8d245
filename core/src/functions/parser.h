/* Reading text: what the parsers of specs and of signatures share. */
#ifndef TENON_PARSER_INTERNAL_H
#define TENON_PARSER_INTERNAL_H

#include "../internal.h"

typedef struct tenon__parser {
    const char *function; /* whom errors name */
    const char *text;
    size_t at;
    tenon_names *names;
    tenon_error *err;
    bool in_result; /* of a signature: dimensions may be "?" */
} tenon__parser;

/* Letters, digits and underscores, as many as there are. */
typedef struct tenon__word {
    const char *start;
    size_t length;
    size_t at;
} tenon__word;

/* An error with a caret under text[at]. */
tenon_status tenon__parse_fail(const tenon__parser *p, size_t at, const char *format, ...) TENON_PRINTF(3, 4);

void tenon__skip_spaces(tenon__parser *p);
/* Where the text before the parser ends, without spaces. */
size_t tenon__end_of_text(const tenon__parser *p);
/* Take the character if it is next. */
bool tenon__take(tenon__parser *p, char wanted);
tenon_status tenon__expect(tenon__parser *p, char wanted, const char *where);
tenon__word tenon__peek_word(tenon__parser *p);
tenon__word tenon__take_word(tenon__parser *p);
bool tenon__word_is(tenon__word w, const char *text);
/* Whether one of the languages that call functions keeps the word for itself, or every function understands it. */
bool tenon__is_reserved(tenon__word w);
tenon_status tenon__take_number(tenon__parser *p, int64_t *out);
/* A literal with its sign: as a double, and where `integer`, as one. */
tenon_status tenon__take_literal(tenon__parser *p, bool integer, int64_t *whole, double *number);
/* The slot of a name in one of the tables of names, added where it is new. */
tenon_status tenon__intern(const tenon__parser *p, tenon__word w, char (*table)[TENON_NAME_SIZE], int32_t *count,
                           int32_t most, int32_t *slot);

#endif
