#include "compiled_spec.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------------- dtypes */

bool tenon_dtypes_has(const tenon_dtypes *set, tenon_dtype dtype)
{
    for (int32_t i = 0; i < set->count; i++)
        if (tenon_dtype_equal(set->items[i], dtype))
            return true;
    if (set->kinds & TENON_DTYPES_ANY)
        return true;
    if (set->kinds == 0 || dtype.lanes != 1)
        return false;
    if (dtype.code == TENON_CODE_INT || dtype.code == TENON_CODE_UINT)
        return true;
    return (set->kinds & TENON_DTYPES_REAL) && dtype.code != TENON_CODE_OPAQUE && dtype.code != TENON_CODE_COMPLEX &&
           dtype.code != TENON_CODE_BOOL;
}

tenon_status tenon__intern_variable(const tenon__parser *p, tenon__word w, int32_t *variable)
{
    tenon_names *names = p->names;
    int32_t before = names->ntypes;
    tenon_status status = tenon__intern(p, w, names->types, &names->ntypes, TENON_MAX_VARIABLES, variable);
    if (!status && names->ntypes > before)
        names->allowed[*variable] = (tenon_dtypes){.kinds = TENON_DTYPES_ANY};
    return status;
}

/* Parse one dtype of a set, or, if `variable` is not NULL, a dtype variable. */
static tenon_status parse_dtype(tenon__parser *p, tenon_dtypes *set, int32_t *variable)
{
    tenon__word w = tenon__parse_word(p);
    tenon_dtype dtype;
    if (w.length == 0)
        return tenon__parse_fail(p, w.at, "expected a dtype such as f32");
    if (isupper((unsigned char)*w.start)) {
        if (!variable || set->count || set->kinds)
            return tenon__parse_fail(
                p, w.at, "a dtype variable cannot be combined with other dtypes; list its dtypes in a where clause");
        return tenon__intern_variable(p, w, variable);
    }
    if (tenon__word_is(w, "real"))
        set->kinds |= TENON_DTYPES_REAL;
    else if (tenon__word_is(w, "integer"))
        set->kinds |= TENON_DTYPES_INTEGER;
    else if (tenon__word_is(w, "any"))
        set->kinds |= TENON_DTYPES_ANY;
    else if (!tenon__dtype_lookup(w.start, w.length, &dtype))
        return tenon__parse_fail(p, w.at, "unknown dtype '%.*s'", (int)(w.length < 60 ? w.length : 60), w.start);
    else if (set->count == TENON_SPEC_TYPES)
        return tenon__parse_fail(p, w.at, "at most %d dtypes are allowed", TENON_SPEC_TYPES);
    else
        set->items[set->count++] = dtype;
    return TENON_OK;
}

static tenon_status parse_dtypes(tenon__parser *p, tenon_dtypes *set, int32_t *variable)
{
    *set = (tenon_dtypes){0};
    do {
        tenon_status status = parse_dtype(p, set, variable);
        if (status)
            return status;
        if (variable && *variable >= 0 && tenon__accept(p, '|'))
            return tenon__parse_fail(
                p, p->at - 1,
                "a dtype variable cannot be combined with other dtypes; list its dtypes in a where clause");
    } while (tenon__accept(p, '|'));
    return TENON_OK;
}

/* Parse "T = f32|f64". */
static tenon_status parse_variable(tenon__parser *p)
{
    tenon__word w = tenon__parse_word(p);
    int32_t slot = 0;
    while (slot < p->names->ntypes && !tenon__word_is(w, p->names->types[slot]))
        slot++;
    if (w.length == 0 || slot == p->names->ntypes)
        return tenon__parse_fail(p, w.at, "expected a dtype variable that appears earlier");
    if (p->names->defined >> slot & 1)
        return tenon__parse_fail(p, w.at, "'%s' is defined twice", p->names->types[slot]);
    p->names->defined |= 1u << slot;
    tenon_status status = tenon__expect(p, '=', "after a dtype variable");
    return status ? status : parse_dtypes(p, &p->names->allowed[slot], NULL);
}

tenon_status tenon__parse_where(tenon__parser *p, tenon_signature *signature, tenon__conditions_room *conditions)
{
    if (!tenon__word_is(tenon__peek_word(p), "where"))
        return TENON_OK;
    tenon__parse_word(p);
    tenon_status status;
    do {
        status = signature && tenon__starts_condition(p) ? tenon__parse_condition(p, signature, conditions)
                                                         : parse_variable(p);
    } while (!status && tenon__accept(p, ','));
    return status;
}

/* ------------------------------------------------------------------------------------------------------- dimensions */

typedef struct tensor_parser {
    tenon__parser *p;
    tenon_spec *spec;
    size_t start; /* position of the spec in the text */
} tensor_parser;

static tenon_status emit(tenon__expression *e, int32_t kind, int64_t value, size_t at)
{
    if (e->nops == TENON_SPEC_CODE)
        return tenon__parse_fail(e->p, at, "the expressions of a %s have at most %d operations", e->of_what,
                                 TENON_SPEC_CODE);
    e->ops[e->nops++] = (tenon__spec_op){value, kind, (int32_t)(at - e->start)};
    return TENON_OK;
}

static tenon_status parse_atom(tenon__expression *e)
{
    tenon__parser *p = e->p;
    if (p->at - e->start >= TENON_SPEC_TEXT) /* checked here to limit how deep parentheses nest */
        return tenon__parse_fail(p, e->start, "a %s has at most %d characters", e->of_what, TENON_SPEC_TEXT - 1);
    if (tenon__accept(p, '(')) {
        tenon_status status = tenon__parse_sum(e);
        return status ? status : tenon__expect(p, ')', "to close the parenthesis");
    }
    tenon__word w = tenon__peek_word(p);
    char first = w.length ? *w.start : '\0';
    if (first >= '0' && first <= '9') {
        int64_t number;
        tenon_status status = tenon__parse_number(p, &number);
        return status ? status : emit(e, TENON_OP_NUMBER, number, w.at);
    }
    if (e->signature) {
        int32_t kind = TENON_OP_NAME;
        int64_t value = 0;
        tenon_status status = tenon__find_operand(e, w, &kind, &value);
        return status ? status : emit(e, kind, value, w.at);
    }
    if (first >= 'a' && first <= 'z') {
        int32_t slot = 0;
        tenon__parse_word(p);
        tenon_status status = tenon__intern(p, w, p->names->dims, &p->names->ndims, TENON_MAX_NAMES, &slot);
        return status ? status : emit(e, TENON_OP_NAME, slot, w.at);
    }
    if (first >= 'A' && first <= 'Z')
        return tenon__parse_fail(p, w.at, "the name of a dimension must start with a lowercase letter");
    return tenon__parse_fail(p, w.at, "expected a dimension: a number, a name, an expression, '_' or '*name'");
}

static tenon_status parse_product(tenon__expression *e)
{
    tenon__parser *p = e->p;
    tenon_status status = parse_atom(e);
    while (!status) {
        tenon__skip_spaces(p);
        size_t at = p->at;
        bool times = p->text[at] == '*', divided = p->text[at] == '/';
        if (!times && !divided)
            break;
        if (divided && p->text[at + 1] != '/')
            return tenon__parse_fail(p, at, "expected '//', which is the division that rounds down");
        p->at += divided ? 2 : 1;
        status = parse_atom(e);
        const tenon__spec_op *divisor = &e->ops[e->nops - 1];
        if (!status && divided && divisor->kind == TENON_OP_NUMBER && divisor->value == 0)
            return tenon__parse_fail(p, e->start + (size_t)divisor->at, "division by 0");
        if (!status)
            status = emit(e, times ? TENON_OP_MUL : TENON_OP_FLOOR_DIV, 0, at);
    }
    return status;
}

tenon_status tenon__parse_sum(tenon__expression *e)
{
    tenon__parser *p = e->p;
    tenon_status status = parse_product(e);
    while (!status) {
        tenon__skip_spaces(p);
        size_t at = p->at;
        bool plus = p->text[at] == '+';
        if (!plus &&
            !(p->text[at] == '-' && p->text[at + 1] != '>')) /* "->" ends the spec: it belongs to the signature */
            break;
        p->at++;
        status = parse_product(e);
        if (!status)
            status = emit(e, plus ? TENON_OP_ADD : TENON_OP_SUB, 0, at);
    }
    return status;
}

static tenon_status parse_dim(tensor_parser *t)
{
    tenon__parser *p = t->p;
    tenon_spec *spec = t->spec;
    tenon__skip_spaces(p);
    size_t at = p->at;
    if (spec->ndims == TENON_SPEC_DIMS)
        return tenon__parse_fail(p, at, "at most %d dimensions are allowed", TENON_SPEC_DIMS);
    tenon__spec_dim dim = {.at = (int32_t)(at - t->start), .first = tenon__code_in(spec)->nops};
    tenon_status status = TENON_OK;
    if (tenon__accept(p, '*')) {
        bool batch = tenon__accept(p, '*');
        tenon__word w = tenon__parse_word(p);
        bool anonymous = tenon__word_is(w, "_");
        if (!anonymous && (w.length == 0 || *w.start < 'a' || *w.start > 'z'))
            return tenon__parse_fail(p, w.at, "expected a name after '*'");
        if (batch && (anonymous || !p->in_signature))
            return tenon__parse_fail(p, at, anonymous ? "a batch needs a name: '**b'" : "only a signature has batches");
        if (batch && spec->ndims)
            return tenon__parse_fail(p, at, "a batch is at the beginning of a shape: f32[**b, n]");
        if (tenon__code_in(spec)->star >= 0)
            return tenon__parse_fail(p, at, "a shape has at most one '*'");
        tenon__code_in(spec)->star = spec->ndims;
        dim.kind = batch ? TENON_DIM_BATCH : TENON_DIM_STAR;
        dim.slot = -1;
        if (!anonymous)
            status = tenon__intern(p, w, p->names->stars, &p->names->nstars, TENON_MAX_VARIABLES, &dim.slot);
    } else if (p->in_result && tenon__accept(p, '?')) {
        dim.kind = TENON_DIM_UNKNOWN;
    } else if (tenon__word_is(tenon__peek_word(p), "_")) {
        tenon__parse_word(p);
        dim.kind = TENON_DIM_ANY;
    } else {
        tenon__expression e = {p, tenon__code_in(spec)->ops, tenon__code_in(spec)->nops, t->start, "spec", NULL};
        status = tenon__parse_sum(&e);
        tenon__code_in(spec)->nops = e.nops;
        dim.count = e.nops - dim.first;
        const tenon__spec_op *op = &tenon__code_in(spec)->ops[dim.first];
        dim.kind = TENON_DIM_EXPRESSION;
        if (!status && dim.count == 1 && op->kind == TENON_OP_NAME) {
            dim.kind = TENON_DIM_NAME;
            dim.slot = (int32_t)op->value;
        } else if (!status && dim.count == 1) {
            dim.kind = TENON_DIM_NUMBER;
            dim.number = op->value;
        }
    }
    dim.length = (int32_t)(tenon__end_of_text(p) - at);
    tenon__code_in(spec)->dims[spec->ndims++] = dim;
    return status;
}

/* ------------------------------------------------------------------------------------------------------- attributes */

static tenon_status add_flag(tenon__parser *p, tenon_spec *spec, tenon__word w, uint32_t flag)
{
    if (spec->flags & flag)
        return tenon__parse_fail(p, w.at, "duplicate attribute '%.*s'", (int)w.length, w.start);
    spec->flags |= flag;
    if ((spec->flags & TENON_SPEC_C) && (spec->flags & TENON_SPEC_F))
        return tenon__parse_fail(p, w.at, "'c' and 'f' cannot be combined");
    if ((spec->flags & TENON_SPEC_ANYWHERE) && spec->devices)
        return tenon__parse_fail(p, w.at, "'anywhere' cannot be combined with a device");
    if ((spec->flags & TENON_SPEC_UNALIGNED) && spec->alignment)
        return tenon__parse_fail(p, w.at, "'aligned' and 'unaligned' cannot be combined");
    return TENON_OK;
}

static tenon_status parse_devices(tenon__parser *p, tenon_spec *spec, tenon__word w, int32_t type)
{
    if (spec->devices)
        return tenon__parse_fail(p, w.at, "separate several devices with '|'");
    if (spec->flags & TENON_SPEC_ANYWHERE)
        return tenon__parse_fail(p, w.at, "'anywhere' cannot be combined with a device");
    spec->devices |= 1u << type;
    while (tenon__accept(p, '|')) {
        w = tenon__parse_word(p);
        if (!tenon__device_lookup(w.start, w.length, &type))
            return tenon__parse_fail(p, w.at, "expected a device such as cuda");
        spec->devices |= 1u << type;
    }
    return TENON_OK;
}

static tenon_status parse_aligned(tenon__parser *p, tenon_spec *spec, tenon__word w)
{
    if (spec->alignment)
        return tenon__parse_fail(p, w.at, "duplicate attribute 'aligned'");
    if (spec->flags & TENON_SPEC_UNALIGNED)
        return tenon__parse_fail(p, w.at, "'aligned' and 'unaligned' cannot be combined");
    tenon_status status = tenon__expect(p, '(', "after 'aligned'");
    if (status)
        return status;
    tenon__skip_spaces(p);
    size_t at = p->at;
    status = tenon__parse_number(p, &spec->alignment);
    if (!status && (spec->alignment < 1 || spec->alignment > 4096 || (spec->alignment & (spec->alignment - 1))))
        return tenon__parse_fail(p, at, "expected a power of two from 1 to 4096");
    return status ? status : tenon__expect(p, ')', "after the number of bytes");
}

static tenon_status parse_inplace(tenon__parser *p, tenon_spec *spec, tenon__word w)
{
    tenon_status status = add_flag(p, spec, w, TENON_SPEC_INPLACE);
    if (!status)
        status = tenon__expect(p, '(', "after 'inplace'");
    if (status)
        return status;
    w = tenon__parse_word(p);
    if (w.length == 0 || (*w.start >= '0' && *w.start <= '9'))
        return tenon__parse_fail(p, w.at, "expected the name of an argument");
    if (w.length >= TENON_NAME_SIZE)
        return tenon__parse_fail(p, w.at, "a name has at most %d characters", TENON_NAME_SIZE - 1);
    memcpy(spec->inplace, w.start, w.length);
    return tenon__expect(p, ')', "after the name");
}

/* "keep", "convert", "own" or "of(name)", which only the signature understands. */
static tenon_status parse_lifetime(tenon__parser *p, tenon__word w, uint32_t flag)
{
    char what[16];
    snprintf(what, sizeof what, "'%.*s'", (int)w.length, w.start);
    if (p->extra & flag)
        return tenon__parse_fail(p, w.at, "duplicate attribute %s", what);
    p->extra |= flag;
    if (flag != TENON_PARAMETER_OF)
        return TENON_OK;
    tenon_status status = tenon__expect(p, '(', "after 'of'");
    p->of = tenon__parse_word(p);
    return status ? status : tenon__expect(p, ')', "after the name of an argument");
}

/* Parse an attribute, if there is one (*found). */
static tenon_status parse_attribute(tenon__parser *p, tenon_spec *spec, bool *found)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } flags[] = {{"rw", TENON_SPEC_WRITE},           {"c", TENON_SPEC_C},         {"f", TENON_SPEC_F},
                 {"dense", TENON_SPEC_DENSE},        {"alias", TENON_SPEC_ALIAS}, {"anywhere", TENON_SPEC_ANYWHERE},
                 {"unaligned", TENON_SPEC_UNALIGNED}},
      lifetimes[] = {{"keep", TENON_PARAMETER_KEEP},
                     {"own", TENON_PARAMETER_OWN},
                     {"of", TENON_PARAMETER_OF},
                     {"convert", TENON_PARAMETER_CONVERT}};
    tenon__word w = tenon__peek_word(p);
    int32_t type = 0;
    *found = w.length > 0 && !tenon__word_is(w, "where");
    if (!*found)
        return TENON_OK;
    tenon__parse_word(p);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (tenon__word_is(w, flags[i].name))
            return add_flag(p, spec, w, flags[i].flag);
    if (tenon__word_is(w, "aligned"))
        return parse_aligned(p, spec, w);
    if (tenon__word_is(w, "inplace"))
        return parse_inplace(p, spec, w);
    if (tenon__device_lookup(w.start, w.length, &type))
        return parse_devices(p, spec, w, type);
    for (size_t i = 0; p->in_signature && i < sizeof lifetimes / sizeof *lifetimes; i++)
        if (tenon__word_is(w, lifetimes[i].name))
            return parse_lifetime(p, w, lifetimes[i].flag);
    return tenon__parse_fail(p, w.at, "unknown attribute '%.*s'", (int)(w.length < 60 ? w.length : 60), w.start);
}

/* --------------------------------------------------------------------------------------------------------- tensors */

void tenon__spec_finish(tenon_spec *spec)
{
    tenon__spec_code *code = tenon__code_in(spec);
    bool written = spec->flags & TENON_SPEC_WRITE; /* a dense view does not overlap itself */
    uint64_t wanted = (spec->flags & TENON_SPEC_C ? TENON_VIEW_C : 0) |
                      (spec->flags & TENON_SPEC_F ? TENON_VIEW_F : 0) |
                      (written || (spec->flags & TENON_SPEC_DENSE) ? TENON_VIEW_DENSE : 0);
    code->flags_wanted = (uint32_t)wanted;
    code->flags_checked = (uint32_t)(wanted | (written ? TENON_READ_ONLY : 0));
    code->on_cpu = !spec->devices || (spec->devices >> TENON_CPU & 1);
}

tenon_status tenon__parse_tensor(tenon__parser *p, tenon_spec *out)
{
    tenon__skip_spaces(p);
    tensor_parser t = {p, out, p->at};
    memset(out, 0, sizeof *out);
    out->variable = -1;
    p->extra = 0;
    tenon__code_in(out)->star = -1;
    tenon_status status = parse_dtypes(p, &out->dtypes, &out->variable);
    if (!status)
        status = tenon__expect(p, '[', "after the dtype");
    if (status)
        return status;
    if (!tenon__accept(p, ']')) {
        do {
            status = parse_dim(&t);
        } while (!status && tenon__accept(p, ','));
        if (!status)
            status = tenon__expect(p, ']', "or ',' after a dimension");
        if (status)
            return status;
    }
    if (tenon__accept(p, '?'))
        out->flags |= TENON_SPEC_OPTIONAL;
    size_t type_end = tenon__end_of_text(p), end = type_end;
    for (bool found = true; found; end = found ? tenon__end_of_text(p) : end) {
        status = parse_attribute(p, out, &found);
        if (status)
            return status;
    }
    if (end - t.start >= TENON_SPEC_TEXT)
        return tenon__parse_fail(p, t.start, "a spec has at most %d characters", TENON_SPEC_TEXT - 1);
    tenon__code_in(out)->type_length = (int32_t)(type_end - t.start);
    tenon__code_in(out)->text_length = (int32_t)(end - t.start);
    memcpy(out->text, p->text + t.start, end - t.start);
    tenon__spec_finish(out);
    return TENON_OK;
}

tenon_status tenon_spec_parse(const char *text, tenon_names *names, tenon_spec *out, tenon_error *err)
{
    const char *function = "tenon_spec_parse";
    if (!text || !names || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL",
                                  !text   ? "text"
                                  : names ? "out"
                                          : "names");
    tenon_names known = *names;
    tenon_spec spec;
    tenon__parser p = {.function = function, .text = text, .names = &known, .err = err};
    tenon_status status = tenon__parse_tensor(&p, &spec);
    if (!status)
        status = tenon__parse_where(&p, NULL, NULL);
    if (status)
        return status;
    if (spec.variable >= 0 && !(known.defined >> spec.variable & 1)) {
        const char *name = known.types[spec.variable];
        return tenon__parse_fail(&p, strspn(text, " \t\n"),
                                 "'%s' is not a dtype; a dtype variable needs a where clause, such as "
                                 "\"where %s = f32|f64\"",
                                 name, name);
    }
    tenon__skip_spaces(&p);
    if (text[p.at])
        return tenon__parse_fail(&p, p.at, "expected the end of the spec");
    *names = known;
    *out = spec;
    return TENON_OK;
}
