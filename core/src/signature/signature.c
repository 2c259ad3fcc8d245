/* Compiles a signature into one block of memory. Only the signatures of callables are in blocks of their own. */
#include "compiled_spec.h"

#include <stdio.h>
#include <string.h>

/* The unused rest of each part of the block. The largest possible size of a part follows from the characters of the text:
 * each tensor has a "[" (a list has one of its own), each parameter or result a "," or parenthesis next to it, each string two quotes. */
typedef struct signature_room {
    tenon_signature *signature;
    tenon_parameter *params;
    tenon_parameter *results;
    tenon_spec *specs;
    const char **strings;
    double *numbers; /* lists of doubles or of int64_t, and choices of integers */
    tenon_plan_spec *fast;
    tenon__condition *conditions;
    tenon__spec_op *ops; /* of the conditions */
    char *text;          /* copies of parts of the text, each terminated by 0 */
} signature_room;

typedef struct signature_compiler {
    tenon__parser p;
    signature_room room;      /* not used yet */
    tenon_signature *out;     /* the signature that is being filled in */
    tenon_parameter *item;    /* the current parameter or result */
    const tenon_names *prior; /* the names that the first pass found, or NULL during it */
    size_t starts[TENON_MAX_PARAMETERS + TENON_MAX_RESULTS]; /* position of each type in the text */
    bool keyword_only;
    const tenon_module *module; /* for its classes; may be NULL */
} signature_compiler;

/* Mark a handle whose name is that of a class. */
static void note_class(signature_compiler *c, tenon_parameter *item);
/* Parse the name of a function, class, parameter and so on. */
static tenon_status parse_name(signature_compiler *c, const char *of_what, tenon__word *out);

/* ------------------------------------------------------------------------------------------------- types and defaults */

static const char *copy_text(signature_compiler *c, size_t from, size_t to)
{
    char *copy = c->room.text;
    memcpy(copy, c->p.text + from, to - from);
    copy[to - from] = '\0';
    c->room.text += to - from + 1;
    return copy;
}

/* A string in single or double quotes. There are no escapes, so every character stands for itself. */
static tenon_status parse_string(signature_compiler *c, const char **out)
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
    *out = copy_text(c, at + 1, end);
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------------------------- literals */

/* A string of a list takes the room of two pointers, one for each of its quotes. */
_Static_assert(sizeof(tenon_text) == 2 * sizeof(char *), "texts are stored in the room of the strings");

/* Parse item `index` of a default that is a list. */
static tenon_status parse_list_item(signature_compiler *c, int64_t index)
{
    int64_t whole = 0;
    if (c->item->kind == TENON_KIND_STRS) {
        tenon_text text = {NULL, 0};
        tenon_status status = parse_string(c, &text.data);
        text.length = status ? 0 : strlen(text.data);
        memcpy(c->room.strings + 2 * index, &text, sizeof text);
        return status;
    }
    bool integers = c->item->kind == TENON_KIND_INTS;
    tenon_status status = tenon__parse_literal(&c->p, integers, &whole, &c->room.numbers[index]);
    if (integers)
        memcpy(&c->room.numbers[index], &whole, sizeof whole);
    return status;
}

static tenon_status parse_list(signature_compiler *c, tenon_value *value)
{
    tenon__parser *p = &c->p;
    bool texts = c->item->kind == TENON_KIND_STRS;
    tenon__skip_spaces(p);
    size_t at = p->at;
    char close = p->text[at] == '(' ? ')' : ']';
    if (!tenon__accept(p, '(') && !tenon__accept(p, '['))
        return tenon__parse_fail(p, at, "expected a list such as %s", texts ? "('a', 'b')" : "(1, 2)");
    int64_t length = 0;
    while (!tenon__accept(p, close)) {
        tenon_status status = parse_list_item(c, length);
        if (!status && !tenon__accept(p, ',')) {
            tenon__skip_spaces(p);
            if (p->text[p->at] != close)
                status = tenon__expect(p, close, "to close the list");
            else if (close == ')' && length == 0) /* in Python (1) is a number */
                status =
                    tenon__parse_fail(p, p->at, "a list of one %s",
                                      texts ? "string is written ('a',) or ['a']" : "number is written (1,) or [1]");
        }
        if (status)
            return status;
        length++;
    }
    if (c->item->count >= 0 && length != c->item->count)
        return tenon__parse_fail(p, at, "expected %d number%s", c->item->count, c->item->count == 1 ? "" : "s");
    value->as.list.data = texts ? (const void *)c->room.strings : c->room.numbers;
    value->as.list.length = length;
    c->room.strings += texts ? 2 * length : 0;
    c->room.numbers += texts ? 0 : length;
    return TENON_OK;
}

/* A default of a choice of integers. */
static tenon_status parse_integer_choice(signature_compiler *c, int64_t *out)
{
    double ignored;
    size_t at = (tenon__skip_spaces(&c->p), c->p.at);
    tenon_status status = tenon__parse_literal(&c->p, true, out, &ignored);
    for (int32_t i = 0; !status && i < c->item->count; i++)
        if (c->item->integers[i] == *out)
            return TENON_OK;
    return status ? status : tenon__parse_fail(&c->p, at, "%lld is not one of %s", (long long)*out, c->item->type);
}

static tenon_status parse_dtype_default(signature_compiler *c, tenon_dtype *out)
{
    const char *text = NULL;
    size_t at = (tenon__skip_spaces(&c->p), c->p.at);
    tenon_status status = parse_string(c, &text);
    if (!status && !tenon__dtype_lookup(text, strlen(text), out))
        return tenon__parse_fail(&c->p, at, "unknown dtype '%.60s'", text);
    return status;
}

static tenon_status parse_choice(signature_compiler *c, tenon_value *value)
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

/* The default of a kind that parse_default does not know. */
static tenon_status parse_rare_default(signature_compiler *c, size_t at)
{
    tenon_value *value = &c->item->value;
    uint64_t bits = 0;
    tenon_status status;
    switch (c->item->kind) {
    case TENON_KIND_INTS:
    case TENON_KIND_FLOATS:
    case TENON_KIND_STRS:
        return parse_list(c, value);
    case TENON_KIND_UINT:
        status = tenon__parse_unsigned(&c->p, &bits);
        value->as.integer = (int64_t)bits;
        return status;
    case TENON_KIND_COMPLEX:
        return tenon__parse_complex(&c->p, value->as.parts);
    case TENON_KIND_DTYPE:
        return parse_dtype_default(c, &value->as.dtype);
    default:
        return tenon__parse_fail(&c->p, at, "%s can only have None as its default", tenon__kind_name(c->item->kind));
    }
}

/* Parse the default of a parameter, after the "=". */
static tenon_status parse_default(signature_compiler *c)
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
    } else if (item->kind == TENON_KIND_INT && item->integers) {
        status = parse_integer_choice(c, &value->as.integer);
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
    } else {
        status = parse_rare_default(c, w.at);
    }
    if (status)
        return status;
    item->literal = copy_text(c, w.at, tenon__end_of_text(p));
    item->flags |= TENON_PARAMETER_DEFAULT;
    return TENON_OK;
}

/* ----------------------------------------------------------------------------------------------------------- types */

static tenon_status parse_enum(signature_compiler *c)
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

/* Choices of integers: 1|2|4. */
static tenon_status parse_integers(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_parameter *item = c->item;
    int64_t *integers = (int64_t *)(void *)c->room.numbers;
    item->kind = TENON_KIND_INT;
    item->integers = integers;
    item->count = 0;
    do {
        double ignored;
        tenon__skip_spaces(p);
        size_t at = p->at;
        tenon_status status = tenon__parse_literal(p, true, &integers[item->count], &ignored);
        if (status)
            return status;
        for (int32_t i = 0; i < item->count; i++)
            if (integers[i] == integers[item->count])
                return tenon__parse_fail(p, at, "duplicate choice %lld", (long long)integers[i]);
        item->count++;
    } while (tenon__accept(p, '|'));
    c->room.numbers += item->count;
    return item->count > 1 ? TENON_OK : tenon__parse_fail(p, p->at, "expected '|' and another integer");
}

/* The variable after "dtype", if the argument binds one. */
static tenon_status parse_dtype_variable(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    if (!tenon__accept(p, '('))
        return TENON_OK;
    tenon__word w = tenon__parse_word(p);
    if (w.length == 0 || *w.start < 'A' || *w.start > 'Z')
        return tenon__parse_fail(p, w.at, "expected a dtype variable, which starts with a capital letter");
    tenon_status status = tenon__intern_variable(p, w, &c->item->variable);
    return status ? status : tenon__expect(p, ')', "after the dtype variable");
}

static tenon_status parse_handle(signature_compiler *c)
{
    c->item->kind = TENON_KIND_HANDLE;
    tenon_status status = tenon__expect(&c->p, '(', "after 'handle'");
    if (!status)
        status = parse_string(c, &c->item->handle);
    if (!status && !*c->item->handle)
        return tenon__parse_fail(&c->p, c->p.at - 1, "a handle needs a name");
    if (!status)
        note_class(c, c->item);
    return status ? status : tenon__expect(&c->p, ')', "after the name of a handle");
}

/* Parse what is after "callable". The string is compiled when all the rest is. */
static tenon_status parse_callable(signature_compiler *c)
{
    if (c->p.in_result)
        return tenon__parse_fail(&c->p, c->p.at, "a callable cannot be a result");
    tenon_status status = tenon__expect(&c->p, '(', "after 'callable'");
    if (!status)
        status = parse_string(c, &c->item->handle);
    return status ? status : tenon__expect(&c->p, ')', "after the signature of a callable");
}

static tenon_status parse_tensor(signature_compiler *c)
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

/* The list that a "for" names: the index of the parameter. */
static tenon_status find_list(signature_compiler *c, tenon__word w, int32_t *owner)
{
    const tenon_signature *s = c->out;
    for (int32_t i = 0; i < s->nparams; i++) {
        if (s->params[i].items && tenon__word_is(w, s->params[i].name)) {
            *owner = i;
            return TENON_OK;
        }
    }
    return tenon__parse_fail(&c->p, w.at, "'for %.*s' does not name a list of tensors among the arguments",
                             (int)(w.length < 60 ? w.length : 60), w.start);
}

/* Parse what is inside the brackets of a list, and the "?" or "for" after them. */
static tenon_status parse_tensors(signature_compiler *c, size_t at)
{
    tenon__parser *p = &c->p;
    tenon_parameter *item = c->item;
    tenon_spec *spec = c->room.specs;
    item->kind = TENON_KIND_TENSORS;
    item->items = spec;
    tenon__skip_spaces(p);
    if (p->text[p->at] == '[')
        return tenon__parse_fail(p, p->at, "a list of lists is not possible");
    tenon_status status = tenon__parse_tensor(p, spec);
    if (!status && (spec->flags & TENON_SPEC_OPTIONAL))
        return tenon__parse_fail(p, at, "a tensor in a list cannot be None; write the '?' after the last ']'");
    if (!status && (p->extra || (spec->flags & TENON_SPEC_INPLACE)))
        return tenon__parse_fail(p, at,
                                 "'keep', 'convert', 'own', 'of' and 'inplace' do not apply to a list of tensors");
    if (!status)
        status = tenon__expect(p, ']', "after the tensor of a list");
    if (status)
        return status;
    c->room.specs++;
    p->extra = 0;
    if (!p->in_result && tenon__accept(p, '?'))
        item->flags |= TENON_PARAMETER_OPTIONAL;
    if (!p->in_result || !tenon__word_is(tenon__peek_word(p), "for"))
        return TENON_OK;
    tenon__parse_word(p);
    item->flags |= TENON_PARAMETER_EACH;
    return find_list(c, tenon__parse_word(p), &item->owner);
}

/* The kind that a name stands for, unless a "[" or a "|" after it makes it the dtype of a tensor: bool[n], bool|u8[n]. */
static uint32_t find_kind(tenon__word w, char next)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } names[] = {{"int", TENON_KIND_INT},         {"float", TENON_KIND_FLOAT},       {"bool", TENON_KIND_BOOL},
                 {"str", TENON_KIND_STR},         {"ints", TENON_KIND_INTS},         {"floats", TENON_KIND_FLOATS},
                 {"handle", TENON_KIND_HANDLE},   {"callable", TENON_KIND_CALLABLE}, {"uint", TENON_KIND_UINT},
                 {"complex", TENON_KIND_COMPLEX}, {"bytes", TENON_KIND_BYTES},       {"strs", TENON_KIND_STRS},
                 {"dtype", TENON_KIND_DTYPE}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool listed = names[i].kind == TENON_KIND_INTS || names[i].kind == TENON_KIND_FLOATS;
        if (tenon__word_is(w, names[i].name))
            return !listed && (next == '[' || next == '|') ? TENON_KIND_NONE : names[i].kind;
    }
    return TENON_KIND_NONE;
}

static tenon_status parse_list_length(signature_compiler *c)
{
    int64_t count = 0;
    tenon_status status = tenon__parse_number(&c->p, &count);
    if (!status && (count < 1 || count > 1024))
        return tenon__parse_fail(&c->p, c->p.at - 1, "expected a number from 1 to 1024");
    c->item->count = (int32_t)count;
    return status ? status : tenon__expect(&c->p, ']', "after the number");
}

/* Parse the type of `c->item`. */
static tenon_status parse_type(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_parameter *item = c->item;
    tenon_status status = TENON_OK;
    tenon__word w = tenon__peek_word(p);
    char first = p->text[w.at], next = p->text[w.at + w.length + strspn(p->text + w.at + w.length, " \t\n")];
    item->kind = find_kind(w, next);
    bool listed = item->kind == TENON_KIND_INTS || item->kind == TENON_KIND_FLOATS;
    if (item->kind != TENON_KIND_NONE)
        tenon__parse_word(p);
    if (item->kind == TENON_KIND_HANDLE) {
        status = parse_handle(c);
    } else if (item->kind == TENON_KIND_CALLABLE) {
        status = parse_callable(c);
    } else if (item->kind == TENON_KIND_DTYPE) {
        status = parse_dtype_variable(c);
    } else if (listed) {
        status = tenon__accept(p, '[') ? parse_list_length(c) : TENON_OK;
    } else if (item->kind == TENON_KIND_NONE && (first == '\'' || first == '"')) {
        status = parse_enum(c);
    } else if (item->kind == TENON_KIND_NONE && ((first >= '0' && first <= '9') || first == '-')) {
        status = parse_integers(c);
    } else if (item->kind == TENON_KIND_NONE && tenon__accept(p, '[')) {
        status = parse_tensors(c, w.at);
    } else if (item->kind == TENON_KIND_NONE && w.length == 0) {
        status = tenon__parse_fail(p, w.at, "expected a type such as f32[n] or int");
    } else if (item->kind == TENON_KIND_NONE) {
        status = parse_tensor(c);
    }
    if (!status && item->kind != TENON_KIND_TENSOR && item->kind != TENON_KIND_TENSORS && tenon__accept(p, '?'))
        item->flags |= TENON_PARAMETER_OPTIONAL;
    if (!status)
        item->type = copy_text(c, w.at, tenon__end_of_text(p));
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ heads */

/* Members that every object has. */
static const char *const of_hosts[] = {"close", "closed", "__enter__", "__exit__"};

/* Parse the name of a method, a property or a constant of a class. */
static tenon_status parse_member_name(signature_compiler *c, tenon__word *out)
{
    tenon__parser *p = &c->p;
    tenon__word w = tenon__peek_word(p);
    for (size_t i = 0; i < sizeof of_hosts / sizeof *of_hosts; i++)
        if (tenon__word_is(w, of_hosts[i]))
            return tenon__parse_fail(p, w.at, "every object has '%s' already; give the method another name",
                                     of_hosts[i]);
    if (tenon__is_special(w)) {
        *out = tenon__parse_word(p);
        tenon__skip_spaces(p);
        return p->text[p->at] == '(' ? TENON_OK
                                     : tenon__parse_fail(p, w.at, "'%.*s' is a method; write '%.*s(self'",
                                                         (int)w.length, w.start, (int)w.length, w.start);
    }
    if (w.length > 1 && w.start[0] == '_' && w.start[1] == '_')
        return tenon__parse_fail(p, w.at, "of the names that start with '__' a method can be %s",
                                 tenon__special_methods);
    return parse_name(c, "method", out);
}

/* Names have less than TENON_NAME_SIZE bytes. */
enum { LONGEST_PAIR = 2 * TENON_NAME_SIZE + 16 };

/* Parse the second name of "Name.member". What it is follows from what comes next. */
static tenon_status parse_member(signature_compiler *c, tenon__word class_name)
{
    tenon_signature *out = c->out;
    tenon__word w = {0};
    tenon_status status = TENON_OK;
    if (!tenon__module_class(c->module, class_name.start, class_name.length, NULL))
        status = tenon__parse_fail(&c->p, class_name.at,
                                   "unknown class '%.*s'; add TENON_CLASS(\"%.*s\", ...) to the module",
                                   (int)class_name.length, class_name.start, (int)class_name.length, class_name.start);
    if (!status)
        status = parse_member_name(c, &w);
    if (status)
        return status;
    out->role = TENON_ROLE_METHOD;
    out->class_name = copy_text(c, class_name.at, class_name.at + class_name.length);
    out->method = copy_text(c, w.at, w.at + w.length);
    out->name = c->room.text;
    c->room.text += snprintf(c->room.text, LONGEST_PAIR, "%s.%s", out->class_name, out->method) + 1;
    return TENON_OK;
}

/* Parse the names at the start: of a function or a constructor, "Name.member", or all of "class Name". */
static tenon_status parse_head(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_signature *out = c->out;
    tenon__word w = tenon__peek_word(p);
    tenon_status status = TENON_OK;
    if (tenon__word_is(w, "class") && p->text[w.at + w.length] != '(') {
        tenon__parse_word(p);
        out->role = TENON_ROLE_CLASS;
        status = parse_name(c, "class", &w);
    } else {
        status = parse_name(c, "function", &w);
    }
    if (status)
        return status;
    if (out->role != TENON_ROLE_CLASS && tenon__accept(p, '.'))
        return parse_member(c, w);
    out->name = copy_text(c, w.at, w.at + w.length);
    if (out->role != TENON_ROLE_CLASS && tenon__module_class(c->module, w.start, w.length, NULL))
        out->role = TENON_ROLE_CONSTRUCTOR;
    if (out->role != TENON_ROLE_FUNCTION)
        out->class_name = out->name;
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------------- objects */

static void note_class(signature_compiler *c, tenon_parameter *item)
{
    uint64_t flags = 0;
    if (!tenon__module_class(c->module, item->handle, strlen(item->handle), &flags))
        return;
    item->flags |= TENON_PARAMETER_CLASS;
    if (!(flags & TENON_CLASS_CONCURRENT))
        item->flags |= TENON_PARAMETER_SERIAL;
}

/* A handle of the signature's class, with the type as one would write it. */
static tenon_parameter make_object(signature_compiler *c, const char *name)
{
    tenon_parameter item = {
        .name = name, .kind = TENON_KIND_HANDLE, .dim = -1, .count = -1, .owner = -1, .variable = -1};
    item.type = c->room.text;
    c->room.text += snprintf(c->room.text, LONGEST_PAIR, "handle('%s')", c->out->class_name) + 1;
    item.handle = c->out->class_name;
    note_class(c, &item);
    return item;
}

static const char *copy_string(signature_compiler *c, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(c->room.text, text, size);
    c->room.text += size;
    return copy;
}

/* The object of a method or a property: parameter 0. */
static void add_self(signature_compiler *c)
{
    tenon_signature *out = c->out;
    c->room.params[0] = make_object(c, copy_string(c, "self"));
    out->nparams = out->npositional = out->nrequired = 1;
    out->nserial = (c->room.params[0].flags & TENON_PARAMETER_SERIAL) != 0;
    out->has_self = true;
}

/* Parse the first parameter of a method. A static method has no self. */
static tenon_status parse_self(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon__word w = tenon__peek_word(p);
    if (!tenon__word_is(w, "self")) {
        c->out->role = TENON_ROLE_STATIC;
        return TENON_OK;
    }
    tenon__parse_word(p);
    tenon__skip_spaces(p);
    if (p->text[p->at] == ':')
        return tenon__parse_fail(p, p->at, "self has no type: it is the object");
    add_self(c);
    return TENON_OK;
}

/* Add the hidden result of a constructor. */
static tenon_status add_object(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    if (c->out->nresults)
        return tenon__parse_fail(p, c->starts[TENON_MAX_PARAMETERS],
                                 "a constructor is written without '->': its result is the object");
    c->room.results[0] = make_object(c, NULL);
    c->out->nresults = 1;
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------- memory that outlives a call */

/* The function gets a copy, which ends with the call. */
static tenon_status check_converted(const signature_compiler *c, size_t at)
{
    const tenon_spec *spec = c->item->spec;
    if (c->p.extra & TENON_PARAMETER_KEEP)
        return tenon__parse_fail(&c->p, at,
                                 "'convert' and 'keep' cannot be combined: a converted argument is a copy "
                                 "that ends with the call");
    if (spec->variable >= 0 || spec->dtypes.count != 1 || spec->dtypes.kinds)
        return tenon__parse_fail(&c->p, at, "'convert' needs one dtype, which arguments are converted to");
    if (!tenon__code_of(spec)->on_cpu)
        return tenon__parse_fail(&c->p, at, "'convert' needs memory of the CPU: nothing is converted on a device");
    return TENON_OK;
}

static tenon_status check_kept(signature_compiler *c, size_t at)
{
    tenon_parameter *item = c->item;
    uint32_t extra = c->p.extra;
    if (!extra)
        return TENON_OK;
    if (extra & ~(TENON_PARAMETER_KEEP | TENON_PARAMETER_CONVERT))
        return tenon__parse_fail(&c->p, at, "'own' and 'of' apply only to results");
    if (item->spec->flags & TENON_SPEC_WRITE)
        return tenon__parse_fail(&c->p, at, "'%s' and 'rw' cannot be combined",
                                 extra & TENON_PARAMETER_KEEP ? "keep" : "convert");
    tenon_status status = extra & TENON_PARAMETER_CONVERT ? check_converted(c, at) : TENON_OK;
    item->flags |= extra;
    c->out->nconverted += (extra & TENON_PARAMETER_CONVERT) != 0;
    return status;
}

/* The argument that an "of(...)" names: self, or a tensor. */
static tenon_status find_owner(signature_compiler *c, int32_t *owner)
{
    const tenon_signature *s = c->out;
    tenon__word w = c->p.of;
    for (int32_t i = 0; i < s->nparams; i++) {
        if (!tenon__word_is(w, s->params[i].name) || !(s->params[i].spec || (s->has_self && i == 0)))
            continue;
        if (s->params[i].flags & TENON_PARAMETER_CONVERT)
            return tenon__parse_fail(&c->p, w.at,
                                     "of(%s) needs the memory of the argument itself, and '%s' is 'convert'",
                                     s->params[i].name, s->params[i].name);
        *owner = i;
        return TENON_OK;
    }
    return tenon__parse_fail(&c->p, w.at, "of(%.*s) does not name %sa tensor argument",
                             (int)(w.length < 60 ? w.length : 60), w.start, s->has_self ? "self or " : "");
}

/* Check "keep", "own" and "of" of the tensor `c->item`, whose type is at text[at]: of a parameter, and of a result that has
 * one of them. */
static tenon_status check_owned_result(signature_compiler *c, size_t at)
{
    tenon_parameter *item = c->item;
    uint32_t flags = item->spec->flags;
    bool shown = c->p.extra == TENON_PARAMETER_OF;
    if (c->p.extra == TENON_PARAMETER_KEEP || (c->p.extra & TENON_PARAMETER_CONVERT))
        return tenon__parse_fail(&c->p, at, "'%s' applies only to arguments",
                                 c->p.extra & TENON_PARAMETER_CONVERT ? "convert" : "keep");
    if (!shown && c->p.extra != TENON_PARAMETER_OWN)
        return tenon__parse_fail(&c->p, at, "'own', 'of' and 'keep' cannot be combined");
    if (flags & (TENON_SPEC_ALIAS | TENON_SPEC_INPLACE | TENON_SPEC_ANYWHERE))
        return tenon__parse_fail(&c->p, at, "'alias', 'inplace' and 'anywhere' cannot be combined with 'own' or 'of'");
    tenon_status status = shown ? find_owner(c, &item->owner) : TENON_OK;
    if (status)
        return status;
    bool of_self = shown && !c->out->params[item->owner].spec;
    if ((flags & TENON_SPEC_WRITE) && !of_self)
        return tenon__parse_fail(&c->p, at,
                                 "'rw' applies only to a result of(self); memory that is given with 'own' is always "
                                 "writable, and of(x) allows what x allows");
    item->flags |= c->p.extra | TENON_PARAMETER_OPEN;
    c->out->open_results = true;
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------ parameters and results */

static bool starts_name(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

/* Parse the name of a function, class, parameter and so on. */
static tenon_status parse_name(signature_compiler *c, const char *of_what, tenon__word *out)
{
    tenon__word w = tenon__parse_word(&c->p);
    if (w.length == 0 || !starts_name(*w.start))
        return tenon__parse_fail(&c->p, w.at, "expected the name of a %s", of_what);
    if (w.length >= TENON_NAME_SIZE)
        return tenon__parse_fail(&c->p, w.at, "a name has at most %d characters", TENON_NAME_SIZE - 1);
    if (strcmp(of_what, "function") == 0 && w.length > 1 && w.start[0] == '_' && w.start[1] == '_')
        return tenon__parse_fail(&c->p, w.at, "function names that start with '__' are reserved for the runtime");
    if (tenon__is_reserved(w))
        return tenon__parse_fail(&c->p, w.at, "'%.*s' is a reserved word", (int)w.length, w.start);
    *out = w;
    return TENON_OK;
}

static tenon_status check_new_name(signature_compiler *c, tenon__word w, const tenon_parameter *items, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (items[i].name && tenon__word_is(w, items[i].name))
            return tenon__parse_fail(&c->p, w.at, "duplicate name '%s'", items[i].name);
    return TENON_OK;
}

static tenon_status parse_parameter(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_signature *out = c->out;
    tenon__word w = tenon__peek_word(p);
    size_t after = w.at + w.length + strspn(p->text + w.at + w.length, " \t\n");
    if (tenon__word_is(w, "self") && p->text[after] != ':')
        return tenon__parse_fail(p, w.at,
                                 "self is the first parameter of a method, which is written Name.method(self)");
    tenon_status status = parse_name(c, "parameter", &w);
    if (!status)
        status = check_new_name(c, w, out->params, out->nparams);
    if (!status && out->nparams == TENON_MAX_PARAMETERS)
        status = tenon__parse_fail(p, w.at, "at most %d parameters are allowed", TENON_MAX_PARAMETERS);
    if (!status)
        status = tenon__expect(p, ':', "after the name of a parameter");
    if (status)
        return status;
    tenon_parameter *item = c->item = &c->room.params[out->nparams];
    *item = (tenon_parameter){
        .name = copy_text(c, w.at, w.at + w.length), .dim = -1, .count = -1, .owner = -1, .variable = -1};
    item->flags = c->keyword_only ? TENON_PARAMETER_KEYWORD_ONLY : 0;
    /* The name of an int parameter that is used as a dimension counts from here, unless it appeared earlier. */
    tenon__word type = tenon__peek_word(p);
    char first = p->text[type.at];
    bool is_int = tenon__word_is(type, "int") || (first >= '0' && first <= '9') || first == '-';
    for (int32_t i = 0; c->prior && i < c->prior->ndims; i++)
        if (is_int && tenon__word_is(w, c->prior->dims[i]))
            status = tenon__intern(p, w, p->names->dims, &p->names->ndims, TENON_MAX_NAMES, &item->dim);
    tenon__skip_spaces(p);
    c->starts[out->nparams] = p->at;
    if (!status)
        status = parse_type(c);
    if (!status && item->spec)
        status = check_kept(c, c->starts[out->nparams]);
    if (!status && item->items) {
        item->first = c->room.text;
        c->room.text += snprintf(c->room.text, TENON_NAME_SIZE + 4, "%s[0]", item->name) + 1;
    }
    if (!status && tenon__accept(p, '='))
        status = parse_default(c);
    if (status)
        return status;
    if (item->flags & TENON_PARAMETER_OPTIONAL)
        item->flags |= TENON_PARAMETER_DEFAULT; /* None, unless there is another default */
    item->value.flags = TENON_VALUE_DEFAULT;
    bool required = !(item->flags & TENON_PARAMETER_DEFAULT);
    if (!c->keyword_only) {
        if (required && out->nrequired < out->npositional)
            return tenon__parse_fail(p, w.at, "'%s' needs a default, because a parameter before it has one",
                                     item->name);
        out->nrequired += required;
        out->npositional++;
    }
    out->ntensors += item->kind == TENON_KIND_TENSOR;
    out->nlists += item->kind == TENON_KIND_TENSORS;
    out->nwritten += (item->spec && (item->spec->flags & TENON_SPEC_WRITE)) ||
                     (item->items && (item->items->flags & TENON_SPEC_WRITE));
    out->nserial += (item->flags & TENON_PARAMETER_SERIAL) != 0;
    out->ncallables += item->kind == TENON_KIND_CALLABLE;
    out->binds_ints |= item->dim >= 0;
    item->checked = item->dim >= 0 || item->integers || item->variable >= 0;
    out->nparams++;
    return TENON_OK;
}

static tenon_status parse_parameters(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_status status = tenon__expect(p, '(', "after the name of a function");
    if (!status && c->out->role == TENON_ROLE_METHOD) {
        status = parse_self(c);
        if (!status && c->out->has_self && !tenon__accept(p, ','))
            return tenon__expect(p, ')', "or ',' after self");
    }
    if (status || tenon__accept(p, ')'))
        return status;
    do {
        tenon__skip_spaces(p);
        size_t at = p->at;
        if (tenon__accept(p, '*')) {
            if (c->keyword_only)
                return tenon__parse_fail(p, at, "only one '*' is allowed");
            c->keyword_only = true;
            status = tenon__expect(p, ',', "and a parameter after '*'");
        }
        if (!status)
            status = parse_parameter(c);
    } while (!status && tenon__accept(p, ','));
    return status ? status : tenon__expect(p, ')', "or ',' after a parameter");
}

/* Whether the item of a list that a "for" names has a dimension in the place of dimension `at` of the result: as many places
 * from the start, or from the end if it is after the "*". */
static bool has_place(const tenon_spec *result, int32_t at, const tenon_spec *source)
{
    int32_t star = tenon__code_of(result)->star, source_star = tenon__code_of(source)->star;
    if (star >= 0 && at == star)
        return source_star >= 0;
    if (star < 0 || at < star)
        return at < (source_star >= 0 ? source_star : source->ndims);
    return result->ndims - at < source->ndims - (source_star >= 0 ? source_star : -1);
}

/* Check a dimension of a result that takes its size from elsewhere. */
static tenon_status check_result_place(signature_compiler *c, size_t at, int32_t index)
{
    const tenon_parameter *item = c->item;
    const tenon_spec *spec = item->spec ? item->spec : item->items;
    const tenon__spec_dim *dim = &tenon__code_of(spec)->dims[index];
    bool each = item->flags & TENON_PARAMETER_EACH;
    bool any = dim->kind == TENON_DIM_ANY || (dim->kind == TENON_DIM_STAR && dim->slot < 0);
    at += (size_t)dim->at;
    if (any && !each)
        return tenon__parse_fail(&c->p, at, "write '?' for a size that only the function knows");
    if (any && !has_place(spec, index, c->out->params[item->owner].items))
        return tenon__parse_fail(&c->p, at, "the tensors of '%s' have no dimension in this place",
                                 c->out->params[item->owner].name);
    if (dim->kind == TENON_DIM_UNKNOWN && each)
        return tenon__parse_fail(&c->p, at,
                                 "a list 'for %s' is made before the function runs: write '_' for the size of the "
                                 "item, or leave out 'for %s' and push each tensor",
                                 c->out->params[item->owner].name, c->out->params[item->owner].name);
    return TENON_OK;
}

/* Refuse types that a result cannot have. */
static tenon_status check_result(signature_compiler *c, size_t at)
{
    const tenon_parameter *item = c->item;
    const tenon_spec *spec = item->spec ? item->spec : item->items;
    if (item->kind == TENON_KIND_DTYPE || item->integers)
        return tenon__parse_fail(&c->p, at, "a result cannot be %s",
                                 item->integers ? "a choice of integers; write int" : "a dtype");
    if (!spec)
        return TENON_OK;
    if (spec->variable < 0 && (spec->dtypes.count != 1 || spec->dtypes.kinds))
        return tenon__parse_fail(&c->p, at, "a result needs one dtype, or a dtype variable that an argument binds");
    if (!c->p.extra && ((spec->flags & (TENON_SPEC_WRITE | TENON_SPEC_F | TENON_SPEC_ANYWHERE)) || spec->alignment))
        return tenon__parse_fail(&c->p, at,
                                 "a result is always writable, in C order, and on the device of the call: "
                                 "'rw', 'f', 'aligned' and 'anywhere' do not apply to it");
    if (item->items && (spec->flags & TENON_SPEC_ALIAS))
        return tenon__parse_fail(&c->p, at, "'alias' does not apply to a list of results");
    if (item->items)
        at += (size_t)(strspn(c->p.text + at + 1, " \t\n") + 1); /* the specs begin after the bracket */
    tenon_status status = TENON_OK;
    for (int32_t i = 0; !status && i < spec->ndims; i++)
        status = check_result_place(c, at, i);
    return status;
}

static tenon_status parse_result(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_signature *out = c->out;
    tenon__word w = tenon__peek_word(p);
    size_t after = w.at + w.length + strspn(p->text + w.at + w.length, " \t\n");
    bool named = w.length && p->text[after] == ':';
    if (!named && tenon__word_is(w, "None"))
        return tenon__parse_fail(p, w.at, "a function without results is written without '->'");
    tenon_status status = TENON_OK;
    if (out->nresults == TENON_MAX_RESULTS)
        return tenon__parse_fail(p, w.at, "at most %d results are allowed", TENON_MAX_RESULTS);
    if (out->nresults && named != out->named_results)
        return tenon__parse_fail(p, w.at, "either name all results, or none of them");
    tenon_parameter *item = c->item = &c->room.results[out->nresults];
    *item = (tenon_parameter){.dim = -1, .count = -1, .owner = -1, .variable = -1};
    if (named) {
        status = parse_name(c, "result", &w);
        if (!status && *w.start == '_')
            status = tenon__parse_fail(p, w.at, "the name of a result must start with a letter");
        if (!status)
            status = check_new_name(c, w, out->results, out->nresults);
        if (!status)
            status = tenon__expect(p, ':', "after the name of a result");
        item->name = status ? NULL : copy_text(c, w.at, w.at + w.length);
    }
    tenon__skip_spaces(p);
    size_t at = c->starts[TENON_MAX_PARAMETERS + out->nresults] = p->at;
    if (!status)
        status = parse_type(c);
    if (!status)
        status = check_result(c, at);
    bool in_library_memory = !status && item->spec && p->extra;
    if (in_library_memory)
        status = check_owned_result(c, at);
    if (status)
        return status;
    tenon_spec *spec = item->spec || item->items ? c->room.specs - 1 : NULL;
    if (item->items) {
        spec->flags |= TENON_SPEC_WRITE | TENON_SPEC_C | (spec->devices ? 0 : TENON_SPEC_ANYWHERE);
        tenon__spec_finish(spec);
        item->flags |= item->flags & TENON_PARAMETER_EACH ? 0 : TENON_PARAMETER_OPEN;
        out->open_results |= !(item->flags & TENON_PARAMETER_EACH);
    } else if (spec && !in_library_memory) {
        bool open = spec->flags & TENON_SPEC_OPTIONAL;
        for (int32_t i = 0; i < spec->ndims; i++)
            open |= tenon__code_of(spec)->dims[i].kind == TENON_DIM_UNKNOWN;
        /* These constrain a tensor that the caller passes as `out`. Its device is checked separately. */
        spec->flags |= TENON_SPEC_WRITE | TENON_SPEC_C | (spec->devices ? 0 : TENON_SPEC_ANYWHERE);
        tenon__spec_finish(spec);
        item->flags |= open ? TENON_PARAMETER_OPEN : 0;
        out->open_results |= open;
    }
    out->named_results = named;
    out->nresults++;
    return TENON_OK;
}

static tenon_status parse_results(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon__skip_spaces(p);
    if (p->text[p->at] != '-' || p->text[p->at + 1] != '>')
        return TENON_OK;
    p->at += 2;
    p->in_result = true;
    tenon_status status;
    do {
        status = parse_result(c);
    } while (!status && tenon__accept(p, ','));
    p->in_result = false;
    return status;
}

/* --------------------------------------------------------------------------------------- properties and constants */

/* Parse the type of a property, after its ":". */
static tenon_status parse_property(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    c->out->role = TENON_ROLE_PROPERTY;
    add_self(c);
    p->in_result = true;
    tenon_status status = parse_result(c);
    p->in_result = false;
    if (!status && c->out->named_results)
        return tenon__parse_fail(p, c->starts[TENON_MAX_PARAMETERS], "the result of a property has no name");
    return status;
}

/* Parse the value of a constant, after its "=". */
static tenon_status parse_constant(signature_compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_parameter *item = c->item = &c->room.results[0];
    tenon__word w = tenon__peek_word(p);
    *item = (tenon_parameter){.dim = -1, .count = -1, .owner = -1};
    if (c->out->role == TENON_ROLE_CONSTRUCTOR)
        return tenon__parse_fail(p, strspn(p->text, " \t\n"), "'%s' is a class of the module", c->out->name);
    char first = p->text[w.at];
    const char *end = p->text + w.at + (first == '-');
    end += strspn(end, "0123456789");
    if (tenon__word_is(w, "True") || tenon__word_is(w, "False"))
        item->kind = TENON_KIND_BOOL;
    else if (first == '\'' || first == '"')
        item->kind = TENON_KIND_STR;
    else if (first == '-' || first == '.' || (first >= '0' && first <= '9'))
        item->kind = *end == '.' || *end == 'e' || *end == 'E' ? TENON_KIND_FLOAT : TENON_KIND_INT;
    else
        return tenon__parse_fail(p, w.at, "the value of a constant is a number, a string, True or False");
    c->out->role = TENON_ROLE_CONSTANT;
    tenon_status status = parse_default(c);
    item->flags = 0;
    item->name = c->out->method ? c->out->method : c->out->name;
    item->type = copy_string(c, item->kind == TENON_KIND_BOOL    ? "bool"
                                : item->kind == TENON_KIND_STR   ? "str"
                                : item->kind == TENON_KIND_FLOAT ? "float"
                                                                 : "int");
    c->out->constant = item;
    return status;
}

/* Check that a special method has the parameters and results that hosts expect. */
static tenon_status check_special(signature_compiler *c)
{
    char wanted[160];
    return tenon__special_fits(c->out, c->module, wanted, sizeof wanted)
               ? TENON_OK
               : tenon__parse_fail(&c->p, strspn(c->p.text, " \t\n"), "expected %s", wanted);
}

/* ------------------------------------------------------------------------------------- what holds for all together */

/* The names that are a whole dimension of an argument, and so get a value. One bit for each name. */
typedef struct bound_names {
    uint32_t dims, stars, types;
} bound_names;

static bool is_named_star(const tenon__spec_dim *dim)
{
    return dim->kind == TENON_DIM_BATCH || (dim->kind == TENON_DIM_STAR && dim->slot >= 0);
}

static bound_names find_bound_names(const tenon_signature *s)
{
    bound_names bound = {0};
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_spec *spec = s->params[i].spec ? s->params[i].spec : s->params[i].items;
        if (s->params[i].dim >= 0)
            bound.dims |= 1u << s->params[i].dim;
        if (spec && spec->variable >= 0)
            bound.types |= 1u << spec->variable;
        if (s->params[i].variable >= 0)
            bound.types |= 1u << s->params[i].variable;
        for (int32_t k = 0; spec && k < spec->ndims; k++) {
            if (tenon__code_of(spec)->dims[k].kind == TENON_DIM_NAME)
                bound.dims |= 1u << tenon__code_of(spec)->dims[k].slot;
            else if (is_named_star(&tenon__code_of(spec)->dims[k]))
                bound.stars |= 1u << tenon__code_of(spec)->dims[k].slot;
        }
    }
    return bound;
}

static tenon_status check_tensor(signature_compiler *c, const tenon_parameter *item, size_t at, bound_names bound)
{
    const tenon_spec *spec = item->spec ? item->spec : item->items;
    at += item->items ? strspn(c->p.text + at + 1, " \t\n") + 1 : 0; /* the specs begin after the bracket */
    const tenon_names *names = &c->out->names;
    const char *sharing =
        strstr(spec->text + tenon__code_of(spec)->type_length, spec->flags & TENON_SPEC_INPLACE ? "inplace" : "alias");
    if (spec->variable >= 0 && !(names->defined >> spec->variable & 1))
        return tenon__parse_fail(
            &c->p, at, "'%s' is not a dtype; a dtype variable needs a where clause, such as \"where %s = f32|f64\"",
            names->types[spec->variable], names->types[spec->variable]);
    if (spec->variable >= 0 && !(bound.types >> spec->variable & 1))
        return tenon__parse_fail(&c->p, at, "no argument determines '%s'", names->types[spec->variable]);
    for (int32_t i = 0; i < tenon__code_of(spec)->nops; i++)
        if (tenon__code_of(spec)->ops[i].kind == TENON_OP_NAME &&
            !(bound.dims >> tenon__code_of(spec)->ops[i].value & 1))
            return tenon__parse_fail(
                &c->p, at + (size_t)tenon__code_of(spec)->ops[i].at,
                "no argument determines '%s': it must be a whole dimension of an argument, or an int parameter",
                names->dims[tenon__code_of(spec)->ops[i].value]);
    for (int32_t i = 0; i < spec->ndims; i++)
        if (is_named_star(&tenon__code_of(spec)->dims[i]) && !(bound.stars >> tenon__code_of(spec)->dims[i].slot & 1))
            return tenon__parse_fail(&c->p, at + (size_t)tenon__code_of(spec)->dims[i].at,
                                     "no argument determines '%s%s'", tenon__has_batch(spec) ? "**" : "*",
                                     names->stars[tenon__code_of(spec)->dims[i].slot]);
    at += sharing ? (size_t)(sharing - spec->text) : 0; /* the remaining errors are about these attributes */
    if ((spec->flags & (TENON_SPEC_ALIAS | TENON_SPEC_INPLACE)) && !(spec->flags & TENON_SPEC_WRITE))
        return tenon__parse_fail(&c->p, at, "'alias' and 'inplace' apply only to results and to arguments with 'rw'");
    if (!(spec->flags & TENON_SPEC_INPLACE))
        return TENON_OK;
    for (int32_t i = 0; i < c->out->nparams; i++) {
        const tenon_parameter *other = &c->out->params[i];
        if (other != item && other->spec && strcmp(other->name, spec->inplace) == 0)
            return TENON_OK;
    }
    return tenon__parse_fail(&c->p, at, "inplace(%s) does not name another tensor argument", spec->inplace);
}

/* Check a parameter that is dtype(T), whose type is at text[at]. */
static tenon_status check_dtype_parameter(signature_compiler *c, const tenon_parameter *item, size_t at)
{
    const tenon_names *names = &c->out->names;
    const char *name = names->types[item->variable];
    if (!(names->defined >> item->variable & 1))
        return tenon__parse_fail(&c->p, at, "'%s' needs a where clause, such as \"where %s = f32|f64\"", name, name);
    const tenon_dtypes *allowed = &names->allowed[item->variable];
    if (item->value.kind == TENON_KIND_DTYPE && !allowed->kinds && !tenon_dtypes_has(allowed, item->value.as.dtype))
        return tenon__parse_fail(&c->p, at, "the default %s is not one of the dtypes of '%s'", item->literal, name);
    return TENON_OK;
}

/* Refuse a batch that the views of broadcast tensors do not allow. `slot` is that of the signature's batch, or -1. */
static tenon_status check_batch(signature_compiler *c, const tenon_parameter *item, size_t at, int32_t slot)
{
    const tenon_spec *spec = item->spec ? item->spec : item->items;
    int32_t star = spec ? tenon__code_of(spec)->star : -1;
    const tenon__spec_dim *dim = star >= 0 ? &tenon__code_of(spec)->dims[star] : NULL;
    bool of_argument = item >= c->out->params && item < c->out->params + c->out->nparams;
    uint32_t layout = TENON_SPEC_C | TENON_SPEC_F | TENON_SPEC_DENSE | TENON_SPEC_WRITE;
    if (!dim || (slot < 0 && dim->kind != TENON_DIM_BATCH))
        return TENON_OK;
    if (dim->kind == TENON_DIM_STAR && dim->slot != slot)
        return TENON_OK;
    const char *name = dim->slot < 0 ? "_" : c->out->names.stars[dim->slot];
    if (item->items && dim->kind == TENON_DIM_BATCH)
        return tenon__parse_fail(&c->p, at, "a tensor in a list cannot have a batch '**%s'", name);
    if (slot < 0 || dim->kind == TENON_DIM_STAR) /* without a slot, "*b" of an argument determines the result's "**b" */
        return tenon__parse_fail(&c->p, at, "'*%s' and '**%s' cannot be used together", name, name);
    if (dim->slot != slot)
        return tenon__parse_fail(&c->p, at, "a signature has one batch: '**%s' or '**%s'", c->out->names.stars[slot],
                                 name);
    if (of_argument && ((spec->flags & layout) || (item->flags & TENON_PARAMETER_KEEP)))
        return tenon__parse_fail(
            &c->p, at,
            "a batch '**%s' is a view whose strides may be 0: 'c', 'f', 'dense', 'rw' and 'keep' do "
            "not apply to it",
            name);
    if (!of_argument && (item->flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF)))
        return tenon__parse_fail(&c->p, at,
                                 "a result with a batch '**%s' is made by the host: 'own' and 'of' do not "
                                 "apply to it",
                                 name);
    return TENON_OK;
}

static tenon_status check_batches(signature_compiler *c)
{
    tenon_signature *s = c->out;
    int32_t slot = -1;
    for (int32_t i = s->nparams - 1; i >= 0; i--) {
        const tenon_spec *spec = s->params[i].spec;
        if (!spec || !tenon__has_batch(spec))
            continue;
        s->nbatched++;
        slot = s->batch = tenon__code_of(spec)->dims[0].slot;
    }
    s->checks_all |= s->nbatched > 0;
    tenon_status status = TENON_OK;
    for (int32_t i = 0; !status && i < s->nparams; i++)
        status = check_batch(c, &s->params[i], c->starts[i], slot);
    for (int32_t i = 0; !status && i < s->nresults; i++)
        status = check_batch(c, &s->results[i], c->starts[TENON_MAX_PARAMETERS + i], slot);
    for (int32_t i = 0; !status && i < s->nresults && slot >= 0; i++)
        if ((s->results[i].flags & TENON_PARAMETER_OF) && s->params[s->results[i].owner].spec &&
            tenon__has_batch(s->params[s->results[i].owner].spec))
            status = tenon__parse_fail(&c->p, c->starts[TENON_MAX_PARAMETERS + i],
                                       "'%s' is a batch, so that no result can be of(%s)",
                                       s->params[s->results[i].owner].name, s->params[s->results[i].owner].name);
    return status;
}

static tenon_status check_tensors(signature_compiler *c)
{
    const tenon_signature *s = c->out;
    bound_names bound = find_bound_names(s);
    tenon_status status = TENON_OK;
    for (int32_t i = 0; !status && i < s->nparams; i++)
        if (s->params[i].spec || s->params[i].items)
            status = check_tensor(c, &s->params[i], c->starts[i], bound);
        else if (s->params[i].variable >= 0)
            status = check_dtype_parameter(c, &s->params[i], c->starts[i]);
    for (int32_t i = 0; !status && i < s->nresults; i++)
        if (s->results[i].spec || s->results[i].items)
            status = check_tensor(c, &s->results[i], c->starts[TENON_MAX_PARAMETERS + i], bound);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- the whole */

/* Which signatures are allowed. */
typedef struct entry_grammar {
    const char *function; /* named in errors */
    const tenon_module *module;
} entry_grammar;

static tenon_status parse_where(signature_compiler *c)
{
    tenon__conditions_room room = {c->room.conditions, c->room.ops, c->room.strings, &c->room.text};
    c->out->conditions = c->room.strings;
    c->out->condition_code = c->room.conditions;
    tenon_status status = tenon__parse_where(&c->p, c->out, &room);
    c->out->checks_all = c->out->nconditions || c->out->nwritten;
    return status;
}

/* Parse what follows the names at the start. */
static tenon_status parse_rest(signature_compiler *c)
{
    tenon_signature *out = c->out;
    if (out->role == TENON_ROLE_CLASS)
        return TENON_OK;
    if (tenon__accept(&c->p, '='))
        return parse_constant(c);
    if (out->method && tenon__accept(&c->p, ':'))
        return parse_property(c);
    tenon_status status = parse_parameters(c);
    if (!status)
        status = parse_results(c);
    if (!status && out->role == TENON_ROLE_CONSTRUCTOR)
        status = add_object(c);
    return status ? status : parse_where(c);
}

static tenon_status compile_text(const char *text, const entry_grammar *in, signature_room room,
                                 const tenon_names *prior, tenon_error *err)
{
    tenon_signature *out = room.signature;
    signature_compiler c = {.room = room, .out = out, .prior = prior, .module = in->module};
    c.p =
        (tenon__parser){.function = in->function, .text = text, .names = &out->names, .err = err, .in_signature = true};
    memset(out, 0, sizeof *out);
    out->params = room.params;
    out->results = room.results;
    tenon__skip_spaces(&c.p);
    size_t start = c.p.at;
    tenon_status status = parse_head(&c);
    if (!status)
        status = parse_rest(&c);
    bool has_call = out->role != TENON_ROLE_CLASS && out->role != TENON_ROLE_CONSTANT;
    tenon__skip_spaces(&c.p);
    if (!status && text[c.p.at])
        status = tenon__parse_fail(&c.p, c.p.at, "expected the end of the signature%s",
                                   out->nresults || !has_call ? "" : " or '->'");
    if (!status)
        status = check_special(&c);
    if (status)
        return status;
    out->text = copy_text(&c, start, tenon__end_of_text(&c.p));
    /* An int parameter is a dimension only if it is used as one, which is known after the first pass. */
    status = prior ? check_tensors(&c) : TENON_OK;
    return prior && !status ? check_batches(&c) : status;
}

static size_t count_of(const char *text, const char *characters)
{
    size_t count = 0;
    for (; *text; text++)
        count += strchr(characters, *text) != NULL;
    return count;
}

static tenon_status compile_entry(const char *text, const entry_grammar *in, tenon_signature **out, tenon_error *err)
{
    const char *function = in->function;
    enum { LONGEST = 8191 };
    if (!text || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", text ? "out" : "text");
    size_t length = strlen(text);
    if (length > LONGEST)
        return tenon_error_set_in(err, TENON_EPARSE, function,
                                  "a signature has at most %d characters; this one has %zu", LONGEST, length);
    size_t nitems = count_of(text, ",(>") + 1, nspecs = count_of(text, "[") + 1, nstrings = count_of(text, "'\"<>") + 1;
    size_t nnumbers = count_of(text, ",)]|") + 1;
    /* Each condition has a "<" or ">", and each of its operations a character. */
    size_t nconditions = count_of(text, "<>") - (strstr(text, "->") ? 1 : 0), nops = nconditions ? length : 0;
    size_t specs = sizeof(tenon_signature), params = specs + nspecs * sizeof(tenon_spec);
    size_t results = params + nitems * sizeof(tenon_parameter), strings = results + nitems * sizeof(tenon_parameter);
    size_t numbers = strings + nstrings * sizeof(char *), conditions = numbers + nnumbers * sizeof(double);
    size_t ops = conditions + nconditions * sizeof(tenon__condition), fast = ops + nops * sizeof(tenon__spec_op);
    size_t pieces = fast + 3 * nitems * sizeof(tenon_plan_spec);
    /* Each character is copied at most five times (a type or condition, a string in it, a default, the first item of a
     * list, the whole text), each copy with its final 0; and the names of a class and its method a few times more. */
    size_t size = pieces + 5 * (length + nitems + nstrings) + 4 * nspecs + 64 + 4 * (TENON_NAME_SIZE + 16);
    char *memory = tenon__alloc(size, false);
    if (!memory)
        return tenon_error_set_in(err, TENON_ENOMEM, function, "no memory for %zu bytes", size);
    signature_room room = {.signature = (void *)memory,
                           .params = (void *)(memory + params),
                           .results = (void *)(memory + results),
                           .specs = (void *)(memory + specs),
                           .strings = (void *)(memory + strings),
                           .numbers = (void *)(memory + numbers),
                           .conditions = (void *)(memory + conditions),
                           .ops = (void *)(memory + ops),
                           .fast = (void *)(memory + fast),
                           .text = memory + pieces};
    tenon_status status = compile_text(text, in, room, NULL, err);
    if (!status) {
        tenon_names names = room.signature->names;
        status = compile_text(text, in, room, &names, err);
    }
    if (!status && room.signature->ncallables)
        status = tenon__compile_callables(room.signature, room.params, err);
    if (status) {
        tenon__free(memory, size);
        return status;
    }
    tenon_signature *made = room.signature;
    for (int32_t i = 0; i < made->nparams + made->nresults; i++) {
        const tenon_spec *spec = i < made->nparams ? made->params[i].spec : made->results[i - made->nparams].spec;
        room.fast[i] = spec ? tenon__plan_spec_of(spec) : (tenon_plan_spec){.ndim = -1};
    }
    made->fast = room.fast;
    tenon_plan_spec *of_items = room.fast + made->nparams + made->nresults;
    made->fast_items = of_items;
    for (int32_t i = 0; i < made->nparams; i++)
        of_items[i] =
            made->params[i].items ? tenon__plan_spec_of(made->params[i].items) : (tenon_plan_spec){.ndim = -1};
    made->plan = tenon__make_plan(made, room.fast);
    made->size = size;
    *out = made;
    return TENON_OK;
}

tenon_status tenon_signature_alloc(const char *text, const tenon_module *module, uint32_t layout, tenon_signature **out,
                                   tenon_error *err)
{
    const char *function = "tenon_signature_alloc";
    if (layout != TENON_HOST_LAYOUT)
        return tenon_error_set_in(err, TENON_EVERSION, function,
                                  "the host was compiled with layout %u of tenon/host.h, but the core with %u; "
                                  "compile both from the same release of Tenon",
                                  (unsigned)layout, TENON_HOST_LAYOUT);
    return compile_entry(text, &(entry_grammar){function, module}, out, err);
}

void tenon_signature_release(tenon_signature *signature)
{
    if (!signature)
        return;
    if (signature->ncallables)
        tenon__release_callables(signature);
    tenon__free(signature, signature->size);
}
