/* Compiles the types of parameters and results, and the defaults of parameters. */
#include "signature.h"

#include <string.h>

const char *tenon__copy_text(tenon__compiler *c, size_t from, size_t to)
{
    char *copy = c->room.text;
    memcpy(copy, c->p.text + from, to - from);
    copy[to - from] = '\0';
    c->room.text += to - from + 1;
    return copy;
}

/* A string in single or double quotes. There are no escapes, so every character stands for itself. */
static tenon_status parse_string(tenon__compiler *c, const char **out)
{
    tenon__parser *p = &c->p;
    tenon__skip_spaces(p);
    size_t at = p->at;
    char quote = p->text[at];
    if (quote != '\'' && quote != '"')
        return tenon__parse_fail(p, at, "expected a string in quotes");
    size_t end = at + 1;
    while (p->text[end] && p->text[end] != quote && p->text[end] != '\\' && (unsigned char)p->text[end] >= ' ')
        end++;
    if (p->text[end] == '\\')
        return tenon__parse_fail(p, end, "a string cannot contain escapes");
    if (p->text[end] != quote)
        return tenon__parse_fail(p, at, "unterminated string");
    p->at = end + 1;
    *out = tenon__copy_text(c, at + 1, end);
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------------------------- literals */

static tenon_status parse_list(tenon__compiler *c, bool integers, tenon_value *value)
{
    tenon__parser *p = &c->p;
    tenon__skip_spaces(p);
    size_t at = p->at;
    char close = p->text[at] == '(' ? ')' : ']';
    if (!tenon__accept(p, '(') && !tenon__accept(p, '['))
        return tenon__parse_fail(p, at, "expected a list such as (1, 2)");
    double *list = c->room.numbers;
    int64_t length = 0;
    while (!tenon__accept(p, close)) {
        int64_t whole = 0;
        double number = 0;
        tenon_status status = tenon__parse_literal(p, integers, &whole, &number);
        if (!status && !tenon__accept(p, ',')) {
            tenon__skip_spaces(p);
            if (p->text[p->at] != close)
                status = tenon__expect(p, close, "to close the list");
            else if (close == ')' && length == 0) /* in Python (1) is a number */
                status = tenon__parse_fail(p, p->at, "a list of one number is written (1,) or [1]");
        }
        if (status)
            return status;
        if (integers)
            memcpy(&list[length++], &whole, sizeof whole);
        else
            list[length++] = number;
    }
    if (c->item->count >= 0 && length != c->item->count)
        return tenon__parse_fail(p, at, "expected %d number%s", c->item->count, c->item->count == 1 ? "" : "s");
    c->room.numbers += length;
    value->as.list.data = list;
    value->as.list.length = length;
    return TENON_OK;
}

static tenon_status parse_choice(tenon__compiler *c, tenon_value *value)
{
    const char *text = NULL;
    size_t at = (tenon__skip_spaces(&c->p), c->p.at);
    tenon_status status = parse_string(c, &text);
    for (int32_t i = 0; !status && i < c->item->count; i++) {
        if (strcmp(c->item->choices[i], text) == 0) {
            value->as.integer = i;
            return TENON_OK;
        }
    }
    return status ? status : tenon__parse_fail(&c->p, at, "'%s' is not one of %s", text, c->item->type);
}

tenon_status tenon__parse_default(tenon__compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_parameter *item = c->item;
    tenon_value *value = &item->value;
    tenon__word w = tenon__peek_word(p);
    tenon_status status = TENON_OK;
    value->kind = item->kind;
    if (tenon__word_is(w, "None")) {
        tenon__parse_word(p);
        value->kind = TENON_KIND_NONE;
        if (!(item->flags & TENON_PARAMETER_OPTIONAL))
            return tenon__parse_fail(p, w.at, "None is allowed only if the type has a '?'");
    } else if (item->kind == TENON_KIND_INT) {
        double ignored;
        status = tenon__parse_literal(p, true, &value->as.integer, &ignored);
    } else if (item->kind == TENON_KIND_FLOAT) {
        int64_t ignored;
        status = tenon__parse_literal(p, false, &ignored, &value->as.number);
    } else if (item->kind == TENON_KIND_BOOL) {
        tenon__parse_word(p);
        value->as.integer = tenon__word_is(w, "True");
        if (!value->as.integer && !tenon__word_is(w, "False"))
            return tenon__parse_fail(p, w.at, "expected True or False");
    } else if (item->kind == TENON_KIND_STR) {
        const char *text = NULL;
        status = parse_string(c, &text);
        value->as.list.data = text;
        value->as.list.length = text ? (int64_t)strlen(text) : 0;
    } else if (item->kind == TENON_KIND_ENUM) {
        status = parse_choice(c, value);
    } else if (item->kind == TENON_KIND_INTS || item->kind == TENON_KIND_FLOATS) {
        status = parse_list(c, item->kind == TENON_KIND_INTS, value);
    } else {
        return tenon__parse_fail(p, w.at, "%s can only have None as its default",
                                 item->kind == TENON_KIND_TENSOR ? "a tensor" : "a handle");
    }
    if (status)
        return status;
    item->literal = tenon__copy_text(c, w.at, tenon__end_of_text(p));
    item->flags |= TENON_PARAMETER_DEFAULT;
    return TENON_OK;
}

/* ----------------------------------------------------------------------------------------------------------- types */

static tenon_status parse_enum(tenon__compiler *c)
{
    tenon_parameter *item = c->item;
    item->kind = TENON_KIND_ENUM;
    item->choices = c->room.strings;
    item->count = 0;
    do {
        tenon_status status = parse_string(c, c->room.strings);
        if (status)
            return status;
        for (int32_t i = 0; i < item->count; i++)
            if (strcmp(item->choices[i], *c->room.strings) == 0)
                return tenon__parse_fail(&c->p, c->p.at - 1, "duplicate choice '%s'", item->choices[i]);
        item->count++;
        c->room.strings++;
    } while (tenon__accept(&c->p, '|'));
    return TENON_OK;
}

static tenon_status parse_handle(tenon__compiler *c)
{
    c->item->kind = TENON_KIND_HANDLE;
    tenon_status status = tenon__expect(&c->p, '(', "after 'handle'");
    if (!status)
        status = parse_string(c, &c->item->handle);
    if (!status && !*c->item->handle)
        return tenon__parse_fail(&c->p, c->p.at - 1, "a handle needs a name");
    if (!status)
        tenon__note_class(c, c->item);
    return status ? status : tenon__expect(&c->p, ')', "after the name of a handle");
}

static tenon_status parse_tensor(tenon__compiler *c)
{
    tenon_parameter *item = c->item;
    tenon_spec *spec = c->room.specs;
    item->kind = TENON_KIND_TENSOR;
    item->spec = spec;
    tenon_status status = tenon__parse_tensor(&c->p, spec);
    if (status)
        return status;
    c->room.specs++;
    if (spec->flags & TENON_SPEC_OPTIONAL)
        item->flags |= TENON_PARAMETER_OPTIONAL;
    return TENON_OK;
}

/* Refuse the types that version 1.1 names and that no host has yet. `next` is the character after the word. */
static tenon_status refuse_later_type(const tenon__parser *p, tenon__word w, char next)
{
    static const char *const names[] = {"uint", "complex", "bytes", "strs", "dtype"}, *const quoted[] = {
                                                                                          "'uint'", "'complex'",
                                                                                          "'bytes'", "'strs'",
                                                                                          "'dtype'"};
    char first = p->text[w.at];
    for (size_t i = 0; next != '[' && next != '|' && i < sizeof names / sizeof *names; i++)
        if (tenon__word_is(w, names[i]))
            return tenon__parse_later(p, w.at, quoted[i]);
    if (first == '[')
        return tenon__parse_later(p, w.at, "a list of tensors");
    if ((first >= '0' && first <= '9') || first == '-')
        return tenon__parse_later(p, w.at, "a choice of integers");
    return TENON_OK;
}

tenon_status tenon__parse_type(tenon__compiler *c)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } scalars[] = {{"int", TENON_KIND_INT},      {"float", TENON_KIND_FLOAT}, {"bool", TENON_KIND_BOOL},
                   {"str", TENON_KIND_STR},      {"ints", TENON_KIND_INTS},   {"floats", TENON_KIND_FLOATS},
                   {"handle", TENON_KIND_HANDLE}};
    tenon__parser *p = &c->p;
    tenon_parameter *item = c->item;
    tenon_status status = TENON_OK;
    tenon__word w = tenon__peek_word(p);
    size_t after = w.at + w.length + strspn(p->text + w.at + w.length, " \t\n");
    item->kind = TENON_KIND_NONE;
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        if (tenon__word_is(w, scalars[i].name))
            item->kind = scalars[i].kind;
    /* bool[n] and bool|u8[n] are tensors. */
    bool listed = item->kind == TENON_KIND_INTS || item->kind == TENON_KIND_FLOATS;
    if (!listed && (p->text[after] == '[' || (p->text[after] == '|' && item->kind != TENON_KIND_NONE)))
        item->kind = TENON_KIND_NONE;
    if (item->kind != TENON_KIND_NONE)
        tenon__parse_word(p);
    else
        status = refuse_later_type(p, w, p->text[after]);
    if (status) {
        return status;
    } else if (item->kind == TENON_KIND_HANDLE) {
        status = parse_handle(c);
    } else if (listed && tenon__accept(p, '[')) {
        int64_t count = 0;
        status = tenon__parse_number(p, &count);
        if (!status && (count < 1 || count > 1024))
            return tenon__parse_fail(p, p->at - 1, "expected a number from 1 to 1024");
        item->count = (int32_t)count;
        status = status ? status : tenon__expect(p, ']', "after the number");
    } else if (item->kind == TENON_KIND_NONE && (p->text[w.at] == '\'' || p->text[w.at] == '"')) {
        status = parse_enum(c);
    } else if (item->kind == TENON_KIND_NONE && w.length == 0) {
        status = tenon__parse_fail(p, w.at, "expected a type such as f32[n] or int");
    } else if (item->kind == TENON_KIND_NONE) {
        status = parse_tensor(c);
    }
    if (!status && item->kind != TENON_KIND_TENSOR && tenon__accept(p, '?'))
        item->flags |= TENON_PARAMETER_OPTIONAL;
    if (!status)
        item->type = tenon__copy_text(c, w.at, tenon__end_of_text(p));
    return status;
}
