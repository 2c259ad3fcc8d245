/* Conditions of a where clause, such as "k <= n": compiled with the signature, checked when all arguments match. */
#include "compiled_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bits of tenon__condition.wanted. */
enum { LESS = 1, EQUAL = 2, GREATER = 4 };

/* --------------------------------------------------------------------------------------------------------- parsing */

bool tenon__starts_condition(tenon__parser *p)
{
    tenon__skip_spaces(p);
    const char *clause = p->text + p->at;
    size_t length = strcspn(clause, "<>,=!");
    return strchr("<>!", clause[length]) ? clause[length] != '\0' : clause[length] == '=' && clause[length + 1] == '=';
}

static int32_t find_parameter(const tenon_signature *s, tenon__word w)
{
    for (int32_t i = 0; i < s->nparams; i++)
        if (tenon__word_is(w, s->params[i].name))
            return i;
    return -1;
}

tenon_status tenon__find_operand(tenon__expression *e, tenon__word w, int32_t *kind, int64_t *value)
{
    tenon__parser *p = e->p;
    const tenon_signature *s = e->signature;
    int shown = (int)(w.length < 60 ? w.length : 60);
    if (w.length == 0)
        return tenon__parse_fail(p, w.at, "expected a number, the name of a dimension, or an int parameter");
    tenon__parse_word(p);
    for (int32_t i = 0; i < p->names->ndims; i++) {
        if (!tenon__word_is(w, p->names->dims[i]))
            continue;
        *kind = TENON_OP_NAME;
        *value = i;
        return TENON_OK;
    }
    int32_t index = find_parameter(s, w);
    if (index < 0)
        return tenon__parse_fail(p, w.at, "'%.*s' is neither a dimension nor a parameter", shown, w.start);
    if (s->params[index].kind == TENON_KIND_FLOAT)
        return tenon__parse_fail(p, w.at, "a float parameter is compared with a number only, as in \"%.*s > 0\"", shown,
                                 w.start);
    if (s->params[index].kind != TENON_KIND_INT && s->params[index].kind != TENON_KIND_UINT)
        return tenon__parse_fail(p, w.at, "a condition compares numbers and dimensions, but '%.*s' is %s", shown,
                                 w.start, s->params[index].type);
    *kind = TENON__OP_PARAMETER;
    *value = index;
    return TENON_OK;
}

/* One side of a condition: a float parameter, a number by itself, which may be negative or have a fraction, or an
 * expression. */
typedef struct condition_side {
    size_t at;
    int32_t parameter; /* the float parameter, or -1 */
    bool is_number, is_whole;
    double number;
    int32_t nops;
} condition_side;

/* Parse a number by itself: what follows it is the comparison or the end of the clause. */
static bool parse_limit(tenon__parser *p, int64_t *whole, condition_side *side)
{
    tenon__parser ahead = *p;
    double number;
    ahead.err = NULL;
    if (tenon__parse_literal(&ahead, false, whole, &side->number))
        return false;
    tenon__skip_spaces(&ahead);
    if (!strchr("<>,!=", ahead.text[ahead.at])) /* the final 0 is found too */
        return false;
    side->is_number = true;
    side->is_whole = !tenon__parse_literal(&(tenon__parser){.text = p->text, .at = p->at}, true, whole, &number);
    p->at = ahead.at;
    return true;
}

static tenon_status parse_side(tenon__parser *p, const tenon_signature *s, tenon__spec_op *ops, condition_side *side)
{
    tenon__word w = tenon__peek_word(p);
    int64_t whole = 0;
    int32_t index = find_parameter(s, w);
    *side = (condition_side){.at = p->at, .parameter = -1};
    if (index >= 0 && s->params[index].kind == TENON_KIND_FLOAT) {
        tenon__parse_word(p);
        side->parameter = index;
        return TENON_OK;
    }
    if (parse_limit(p, &whole, side)) {
        *ops = (tenon__spec_op){whole, TENON_OP_NUMBER, (int32_t)side->at};
        side->nops = 1;
        return TENON_OK;
    }
    tenon__expression e = {p, ops, 0, side->at, "condition", s};
    tenon_status status = tenon__parse_sum(&e);
    side->nops = e.nops;
    return status;
}

static tenon_status parse_comparison(tenon__parser *p, uint32_t *wanted)
{
    tenon__skip_spaces(p);
    char c = p->text[p->at];
    if (c != '<' && c != '>')
        return tenon__parse_fail(p, p->at,
                                 "expected <, <=, > or >=; sizes that must be equal have the same name, or an "
                                 "expression as their dimension");
    p->at++;
    *wanted = c == '<' ? LESS : GREATER;
    if (p->text[p->at] == '=') {
        p->at++;
        *wanted |= EQUAL;
    }
    return TENON_OK;
}

/* Which kinds of sides can be compared. */
static tenon_status check_sides(const tenon__parser *p, const condition_side *left, const condition_side *right)
{
    const condition_side *number = left->is_number ? left : right;
    bool floats = left->parameter >= 0 || right->parameter >= 0;
    if (left->is_number && right->is_number)
        return tenon__parse_fail(p, left->at, "a condition needs the name of a dimension or of a parameter");
    if (floats && !number->is_number)
        return tenon__parse_fail(p, left->at, "a float parameter is compared with a number only");
    if (!floats && number->is_number && !number->is_whole)
        return tenon__parse_fail(p, number->at, "expected an integer, because the other side has integers only");
    return TENON_OK;
}

tenon_status tenon__parse_condition(tenon__parser *p, tenon_signature *s, tenon__conditions_room *room)
{
    condition_side left, right;
    tenon__condition *out = &room->conditions[s->nconditions];
    *out = (tenon__condition){.number = -1, .ops = room->ops};
    tenon__skip_spaces(p);
    size_t at = p->at;
    tenon_status status = parse_side(p, s, room->ops, &left);
    if (!status)
        status = parse_comparison(p, &out->wanted);
    if (!status)
        status = parse_side(p, s, room->ops + left.nops, &right);
    if (!status)
        status = check_sides(p, &left, &right);
    tenon__skip_spaces(p);
    if (!status && (p->text[p->at] == '<' || p->text[p->at] == '>' || p->text[p->at] == '='))
        status = tenon__parse_fail(p, p->at, "a condition has one comparison; write \"a < b, b < c\"");
    if (status)
        return status;
    out->nleft = left.nops;
    out->nright = right.nops;
    out->number = left.parameter >= 0 ? left.parameter : right.parameter;
    out->limit = left.is_number ? left.number : right.number;
    if (out->number >= 0 && left.is_number) /* compiled as if the parameter were on the left */
        out->wanted = (out->wanted & EQUAL) | (out->wanted & LESS ? GREATER : LESS);
    room->ops += left.nops + right.nops;
    size_t length = tenon__end_of_text(p) - at;
    memcpy(*room->text, p->text + at, length);
    (*room->text)[length] = '\0';
    room->texts[s->nconditions++] = *room->text;
    *room->text += length + 1;
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------------------------- messages */

/* The value of a name in a condition, with the argument that it comes from. */
typedef struct operand {
    const char *name, *from;
    const tenon_value *value; /* of a parameter that is not a dimension; otherwise NULL: */
    int64_t size;
} operand;

static operand operand_of(const tenon_signature *s, const tenon__spec_op *op, const tenon_value *args,
                          const tenon_bindings *b)
{
    if (op->kind == TENON_OP_NAME)
        return (operand){b->names->dims[op->value], b->dims_from[op->value], NULL, b->dims[op->value]};
    return (operand){s->params[op->value].name, s->params[op->value].name, &args[op->value], 0};
}

/* The shortest decimal that is this number, with a "." in every locale. */
static void add_number(tenon__text *text, double number)
{
    char buffer[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buffer, sizeof buffer, "%.*g", digits, number);
        double again = strtod(buffer, NULL);
        if (number != number || (!(again < number) && !(again > number)))
            break;
    }
    for (char *c = buffer; *c; c++)
        if (*c == ',')
            *c = '.';
    tenon__text_add(text, "%s", buffer);
}

/* "k = 5" */
static void add_operand(tenon__text *text, const operand *o)
{
    tenon__text_add(text, "%s = ", o->name);
    if (!o->value)
        tenon__text_add(text, "%" PRId64, o->size);
    else if (o->value->kind == TENON_KIND_FLOAT)
        add_number(text, o->value->as.number);
    else if (o->value->kind == TENON_KIND_UINT)
        tenon__text_add(text, "%" PRIu64, (uint64_t)o->value->as.integer);
    else
        tenon__text_add(text, "%" PRId64, o->value->as.integer);
}

/* The operands of a condition, each once. The first one is that which the message is about: a parameter, or else the first
 * dimension. */
static int32_t find_operands(const tenon_signature *s, const tenon__condition *c, const tenon_value *args,
                             const tenon_bindings *b, operand *out)
{
    int32_t count = 0;
    if (c->number >= 0)
        out[count++] = operand_of(s, &(tenon__spec_op){.kind = TENON__OP_PARAMETER, .value = c->number}, args, b);
    for (int32_t i = 0; i < c->nleft + c->nright; i++) {
        if (c->ops[i].kind != TENON_OP_NAME && c->ops[i].kind != TENON__OP_PARAMETER)
            continue;
        operand o = operand_of(s, &c->ops[i], args, b);
        bool known = false;
        for (int32_t k = 0; k < count; k++)
            known |= strcmp(out[k].name, o.name) == 0;
        if (known)
            continue;
        bool leads = strcmp(o.from, o.name) == 0 && count && strcmp(out[0].from, out[0].name) != 0;
        out[count++] = leads ? out[0] : o;
        if (leads)
            out[0] = o;
    }
    return count;
}

/* "f(): argument 'k': expected k <= n, got k = 5 (n = 4 from argument 'x')" */
static tenon_status refuse_condition(const tenon_signature *s, int32_t index, bool has_value, const tenon_value *args,
                                     tenon_bindings *b, tenon_error *err)
{
    const tenon__condition *c = &s->condition_code[index];
    operand operands[2 * TENON_SPEC_CODE] = {{NULL, NULL, NULL, 0}};
    int32_t count = find_operands(s, c, args, b, operands);
    b->argument = operands[0].from;
    tenon__message m;
    tenon__message_begin(&m, b);
    tenon__text_add(&m.text, ": expected %s, %s", s->conditions[index],
                    has_value ? "got " : "which overflows 64 bits or divides by 0 for ");
    add_operand(&m.text, &operands[0]);
    for (int32_t i = 1; i < count; i++) {
        tenon__text_add(&m.text, i == 1 ? " (" : ", ");
        add_operand(&m.text, &operands[i]);
        if (strcmp(operands[i].from, operands[i].name) != 0)
            tenon__text_add(&m.text, " from argument '%s'", operands[i].from);
        tenon__text_add(&m.text, i == count - 1 ? ")" : "");
    }
    return tenon__message_end(&m, has_value ? TENON_EINVAL : TENON_EOVERFLOW, err);
}

/* -------------------------------------------------------------------------------------------------------- checking */

/* Whether all names of the condition have a value in this call. */
static bool is_given(const tenon__condition *c, const tenon_value *args, const tenon_bindings *b)
{
    if (c->number >= 0)
        return args[c->number].kind != TENON_KIND_NONE;
    for (int32_t i = 0; i < c->nleft + c->nright; i++) {
        const tenon__spec_op *op = &c->ops[i];
        if ((op->kind == TENON_OP_NAME && !(b->dims_bound >> op->value & 1)) ||
            (op->kind == TENON__OP_PARAMETER && args[op->value].kind == TENON_KIND_NONE))
            return false;
    }
    return true;
}

/* A value of 65 bits: a uint by itself may be larger than any int. */
typedef struct wide {
    bool large; /* 2^63 or more, and `value` is the difference */
    int64_t value;
} wide;

static bool evaluate_side(const tenon__spec_op *ops, int32_t count, const tenon_value *args, const tenon_bindings *b,
                          wide *out)
{
    const char *unbound;
    const tenon_value *value = count == 1 && ops->kind == TENON__OP_PARAMETER ? &args[ops->value] : NULL;
    out->large = value && value->kind == TENON_KIND_UINT && value->as.integer < 0;
    if (out->large) {
        out->value = value->as.integer - INT64_MIN;
        return true;
    }
    return tenon__evaluate(ops, count, b, args, &out->value, &unbound);
}

static uint32_t compare_wide(wide left, wide right)
{
    if (left.large != right.large)
        return left.large ? GREATER : LESS;
    return left.value < right.value ? LESS : left.value > right.value ? GREATER : EQUAL;
}

/* A NaN is neither less nor equal nor greater. */
static uint32_t compare_numbers(double left, double right)
{
    return left < right ? LESS : left > right ? GREATER : left == left ? EQUAL : 0; /* a literal is not NaN */
}

tenon_status tenon__check_conditions(const tenon_signature *s, const tenon_value *args, tenon_bindings *b,
                                     tenon_error *err)
{
    for (int32_t i = 0; i < s->nconditions; i++) {
        const tenon__condition *c = &s->condition_code[i];
        if (!is_given(c, args, b))
            continue;
        wide left = {0}, right = {0};
        bool has_value = true;
        uint32_t found = 0;
        if (c->number >= 0) {
            found = compare_numbers(args[c->number].as.number, c->limit);
        } else {
            has_value = evaluate_side(c->ops, c->nleft, args, b, &left) &&
                        evaluate_side(c->ops + c->nleft, c->nright, args, b, &right);
            found = compare_wide(left, right);
        }
        if (!has_value || !(found & c->wanted))
            return refuse_condition(s, i, has_value, args, b, err);
    }
    return TENON_OK;
}
