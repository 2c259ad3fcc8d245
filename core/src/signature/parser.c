#include "parser.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* Whether the byte continues a UTF-8 character. */
static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

tenon_status tenon__parse_fail(const tenon__parser *p, size_t at, const char *format, ...)
{
    char what[200];
    tenon__text text = {what, sizeof what, 0};
    va_list arguments;
    va_start(arguments, format);
    tenon__text_add_va(&text, format, arguments);
    va_end(arguments);
    if (text.length >= sizeof what)
        tenon__truncate(what, sizeof what);
    /* Show the part of a long text around the mistake, in one line. A character of several bytes is not split, and takes
     * one column. */
    char shown[121];
    size_t first = at > 80 ? at - 60 : 0, length = 0, column = first ? 3 : 0;
    while (is_inside(p->text[first]))
        first++;
    for (; p->text[first + length] && length < sizeof shown - 1; length++) {
        char c = p->text[first + length];
        shown[length] = (unsigned char)c < ' ' ? ' ' : c;
        column += first + length < at && !is_inside(c);
    }
    while (length > 0 && is_inside(p->text[first + length]))
        length--;
    shown[length] = '\0';
    return tenon_error_set_in(p->err, TENON_EPARSE, p->function, "%s\n  %s%s%s\n  %*s^", what, first ? "..." : "",
                              shown, p->text[first + length] ? "..." : "", (int)column, "");
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

void tenon__skip_spaces(tenon__parser *p)
{
    while (is_space(p->text[p->at]))
        p->at++;
}

size_t tenon__end_of_text(const tenon__parser *p)
{
    size_t at = p->at;
    while (at > 0 && is_space(p->text[at - 1]))
        at--;
    return at;
}

bool tenon__accept(tenon__parser *p, char wanted)
{
    tenon__skip_spaces(p);
    if (p->text[p->at] != wanted)
        return false;
    p->at++;
    return true;
}

tenon_status tenon__expect(tenon__parser *p, char wanted, const char *where)
{
    return tenon__accept(p, wanted) ? TENON_OK : tenon__parse_fail(p, p->at, "expected '%c' %s", wanted, where);
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

tenon__word tenon__peek_word(tenon__parser *p)
{
    tenon__skip_spaces(p);
    tenon__word w = {p->text + p->at, 0, p->at};
    while (is_word(w.start[w.length]))
        w.length++;
    return w;
}

tenon__word tenon__parse_word(tenon__parser *p)
{
    tenon__word w = tenon__peek_word(p);
    p->at += w.length;
    return w;
}

bool tenon__word_is(tenon__word w, const char *text)
{
    return strlen(text) == w.length && memcmp(w.start, text, w.length) == 0;
}

tenon_status tenon__intern(const tenon__parser *p, tenon__word w, char (*table)[TENON_NAME_SIZE], int32_t *count,
                           int32_t most, int32_t *slot)
{
    if (w.length >= TENON_NAME_SIZE)
        return tenon__parse_fail(p, w.at, "a name has at most %d characters", TENON_NAME_SIZE - 1);
    for (int32_t i = 0; i < *count; i++) {
        if (tenon__word_is(w, table[i])) {
            *slot = i;
            return TENON_OK;
        }
    }
    if (*count == most)
        return tenon__parse_fail(p, w.at, "at most %d names are allowed", most);
    memcpy(table[*count], w.start, w.length);
    table[*count][w.length] = '\0';
    *slot = (*count)++;
    return TENON_OK;
}

bool tenon__is_reserved(tenon__word w)
{
    /* The keywords of Python, whose syntax signatures follow, and the names of the arguments that hosts add. A host for a
     * language with other reserved words renames the parameters itself. */
    static const char *const reserved_names[] = {
        "False",    "None",   "True",   "and",  "as",     "assert", "async",    "await", "break", "class",
        "continue", "def",    "del",    "elif", "else",   "except", "finally",  "for",   "from",  "global",
        "if",       "import", "in",     "is",   "lambda", "like",   "nonlocal", "not",   "or",    "out",
        "pass",     "raise",  "return", "try",  "while",  "with",   "yield"};
    for (size_t i = 0; i < sizeof reserved_names / sizeof *reserved_names; i++)
        if (tenon__word_is(w, reserved_names[i]))
            return true;
    return false;
}

tenon_status tenon__parse_number(tenon__parser *p, int64_t *out)
{
    tenon__word w = tenon__parse_word(p);
    int64_t number = 0;
    for (size_t i = 0; i < w.length; i++) {
        if (w.start[i] < '0' || w.start[i] > '9')
            return tenon__parse_fail(p, w.at + i, "a number consists of digits only, and a name starts with a letter");
        if (tenon__mul_overflows(number, 10, &number) || tenon__add_overflows(number, w.start[i] - '0', &number))
            return tenon__parse_fail(p, w.at, "this number does not fit in 64 bits");
    }
    if (w.length == 0)
        return tenon__parse_fail(p, w.at, "expected a number");
    *out = number;
    return TENON_OK;
}

/* strtod, independent of the decimal point of the locale. */
static bool read_double(const char *text, size_t length, double *out)
{
    char buffer[128];
    const char *point = localeconv()->decimal_point;
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        const char *piece = text[i] == '.' ? point : text + i;
        size_t size = text[i] == '.' ? strlen(point) : 1;
        if (used + size >= sizeof buffer)
            return false;
        memcpy(buffer + used, piece, size);
        used += size;
    }
    buffer[used] = '\0';
    char *end;
    *out = strtod(buffer, &end);
    return end == buffer + used;
}

/* The characters of a number, with its sign if it has one. */
typedef struct number_text {
    size_t first; /* the first digit, or the point */
    size_t end;
    bool is_whole; /* only digits, without a zero before them */
} number_text;

/* Find the end of the number at the current position. False without a digit; `out->end` is valid anyway. */
static bool scan_number(const tenon__parser *p, number_text *out)
{
    size_t end = p->at + (p->text[p->at] == '-'), digits = 0;
    bool is_whole = true;
    out->first = end;
    for (; p->text[end] >= '0' && p->text[end] <= '9'; end++)
        digits++;
    if (p->text[end] == '.') {
        is_whole = false;
        for (end++; p->text[end] >= '0' && p->text[end] <= '9'; end++)
            digits++;
    }
    if (digits && (p->text[end] == 'e' || p->text[end] == 'E')) {
        is_whole = false;
        end += 1u + (p->text[end + 1] == '-' || p->text[end + 1] == '+');
        while (p->text[end] >= '0' && p->text[end] <= '9')
            end++;
    }
    out->end = end;
    out->is_whole = is_whole && (digits == 1 || p->text[out->first] != '0');
    return digits > 0;
}

tenon_status tenon__parse_literal(tenon__parser *p, bool integer, int64_t *whole, double *number)
{
    tenon__skip_spaces(p);
    size_t at = p->at;
    number_text n;
    bool found = scan_number(p, &n);
    p->at = n.end;
    if (!found || is_word(p->text[n.end]) || !read_double(p->text + at, n.end - at, number))
        return tenon__parse_fail(p, at, integer ? "expected an integer" : "expected a number");
    if (!integer)
        return TENON_OK;
    if (!n.is_whole)
        return tenon__parse_fail(p, at, "expected an integer");
    *whole = 0;
    for (size_t i = n.first; i < n.end; i++) /* negative, because INT64_MIN has no positive counterpart */
        if (tenon__mul_overflows(*whole, 10, whole) || tenon__add_overflows(*whole, -(p->text[i] - '0'), whole))
            return tenon__parse_fail(p, at, "this integer does not fit in 64 bits");
    if (n.first == at && (*whole == INT64_MIN || (*whole = -*whole, false)))
        return tenon__parse_fail(p, at, "this integer does not fit in 64 bits");
    return TENON_OK;
}

tenon_status tenon__parse_unsigned(tenon__parser *p, uint64_t *out)
{
    tenon__skip_spaces(p);
    size_t at = p->at;
    number_text n;
    bool found = scan_number(p, &n);
    p->at = n.end;
    if (!found || is_word(p->text[n.end]) || !n.is_whole)
        return tenon__parse_fail(p, at, "expected an integer");
    if (n.first > at)
        return tenon__parse_fail(p, at, "a uint cannot be negative");
    *out = 0;
    for (size_t i = n.first; i < n.end; i++) {
        uint64_t digit = (uint64_t)(p->text[i] - '0');
        if (*out > (UINT64_MAX - digit) / 10)
            return tenon__parse_fail(p, at, "this integer does not fit in 64 bits");
        *out = *out * 10 + digit;
    }
    return TENON_OK;
}

/* A part of a complex number, and whether a "j" follows, which is parsed too. */
static bool parse_part(tenon__parser *p, double *part, bool *imaginary)
{
    size_t at = p->at;
    number_text n;
    bool found = scan_number(p, &n) && read_double(p->text + at, n.end - at, part);
    p->at = n.end;
    *imaginary = found && p->text[p->at] == 'j';
    p->at += *imaginary;
    return found && !is_word(p->text[p->at]);
}

tenon_status tenon__parse_complex(tenon__parser *p, double parts[2])
{
    tenon__skip_spaces(p);
    size_t at = p->at;
    bool imaginary = false;
    double first, second = 0;
    bool good = parse_part(p, &first, &imaginary);
    parts[0] = imaginary ? 0 : first;
    parts[1] = imaginary ? first : 0;
    if (good && !imaginary) {
        size_t after = p->at + strspn(p->text + p->at, " \t\n");
        char sign = p->text[after];
        if (sign == '+' || sign == '-') {
            p->at = after + 1;
            tenon__skip_spaces(p);
            good = p->text[p->at] != '-' && parse_part(p, &second, &imaginary) && imaginary;
            parts[1] = sign == '-' ? -second : second;
        }
    }
    return good ? TENON_OK : tenon__parse_fail(p, at, "expected a complex number such as 1, 2j or 1+2j");
}
