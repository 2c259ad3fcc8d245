/* The schema of an operator, as it follows from a signature. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text that is counted if there is no room for it. */
typedef struct schema_text {
    char *buffer;
    size_t size, length;
} schema_text;

static void add_bytes(schema_text *text, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++, text->length++)
        if (text->length + 1 < text->size)
            text->buffer[text->length] = bytes[i];
    if (text->size)
        text->buffer[text->length < text->size ? text->length : text->size - 1] = '\0';
}

static void add(schema_text *text, const char *text_object)
{
    add_bytes(text, text_object, strlen(text_object));
}

/* The shortest digits that are the same number, as Python writes them. torch reads an int unless there is a point or an
 * exponent. */
static void format_number(double value, char *out, size_t size)
{
    int digits = 0;
    do
        snprintf(out, size, "%.*e", digits, value);
    while (strtod(out, NULL) != value && ++digits < 17);
    const char *exponent = strchr(out, 'e');
    long power = exponent ? strtol(exponent + 1, NULL, 10) : 16;
    if (power >= -4 && power < 16) {
        long decimals = digits > power ? digits - power : 0;
        snprintf(out, size, "%.*f%s", (int)decimals, value, decimals ? "" : ".0");
    }
}

/* torch's number for a dtype, which its schemas have as the default of a ScalarType, or -1. */
static int schema_dtype(tenon_dtype dtype)
{
    const struct {
        tenon_dtype dtype;
        int number;
    } all[] = {{TENON_U8, 0},  {TENON_I8, 1},  {TENON_I16, 2}, {TENON_I32, 3},   {TENON_I64, 4},   {TENON_F16, 5},
               {TENON_F32, 6}, {TENON_F64, 7}, {TENON_C64, 9}, {TENON_C128, 10}, {TENON_BOOL, 11}, {TENON_BF16, 15}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (tenon_dtype_equal(all[i].dtype, dtype))
            return all[i].number;
    return -1;
}

/* Whether torch's schemas can have the default. They read complex ones wrongly, and have no lists of strings. */
static bool has_default(const tenon_parameter *param)
{
    const tenon_value *value = &param->value;
    return value->kind == TENON_KIND_UINT    ? value->as.integer >= 0
           : value->kind == TENON_KIND_DTYPE ? schema_dtype(value->as.dtype) >= 0
                                             : value->kind != TENON_KIND_COMPLEX && value->kind != TENON_KIND_STRS;
}

/* A default in the syntax of torch. */
static void add_default(schema_text *text, const tenon_parameter *param)
{
    const char *literal = param->literal ? param->literal : "None";
    size_t length = strlen(literal);
    char number[40];
    add(text, "=");
    if (strcmp(literal, "None") == 0) {
        add(text, literal);
        return;
    }
    switch (param->kind) {
    case TENON_KIND_STR:
    case TENON_KIND_ENUM: {
        const char *quote = memchr(literal + 1, '"', length - 2) ? "'" : "\"";
        add(text, quote);
        add_bytes(text, literal + 1, length - 2);
        add(text, quote);
        break;
    }
    case TENON_KIND_INTS:
    case TENON_KIND_FLOATS: { /* "(1, 2)", or "(1,)" */
        const char *from = literal + 1, *to = literal + length - 1;
        while (from < to && *from == ' ')
            from++;
        while (from < to && (to[-1] == ' ' || to[-1] == ','))
            to--;
        add(text, "[");
        add_bytes(text, from, (size_t)(to - from));
        add(text, "]");
        break;
    }
    case TENON_KIND_FLOAT:
        format_number(param->value.as.number, number, sizeof number);
        add(text, number);
        break;
    case TENON_KIND_DTYPE:
        snprintf(number, sizeof number, "%d", schema_dtype(param->value.as.dtype));
        add(text, number);
        break;
    default:
        add(text, literal);
    }
}

static const char *schema_type(const tenon_parameter *param)
{
    switch (param->kind) {
    case TENON_KIND_TENSOR:
    case TENON_KIND_TENSORS: /* "[]" comes after the name of what is written */
        return "Tensor";
    case TENON_KIND_INT:
        return param->integers ? "int" : "SymInt"; /* a choice is never a symbol */
    case TENON_KIND_UINT:
        return "int";
    case TENON_KIND_COMPLEX:
        return "complex";
    case TENON_KIND_DTYPE:
        return "ScalarType";
    case TENON_KIND_STRS:
        return "str[]";
    case TENON_KIND_FLOAT:
        return "float";
    case TENON_KIND_BOOL:
        return "bool";
    case TENON_KIND_STR:
    case TENON_KIND_ENUM:
        return "str";
    case TENON_KIND_INTS:
        return "SymInt[]";
    case TENON_KIND_FLOATS:
        return "float[]";
    default:
        return NULL;
    }
}

/* `written`: how many of the parameters before it are written to. Each of those has its own alias name, because no two
 * of them share memory. */
static bool add_parameter(schema_text *text, const tenon_parameter *param, int *written, tenon_error *err)
{
    const char *type = schema_type(param);
    char alias[24] = "";
    if (!type) {
        tenon_error_set(err, TENON_EINVAL, "argument '%s' is %s, which operators do not accept", param->name,
                        tenon__kind_name(param->kind));
        return false;
    }
    if (!has_default(param)) {
        tenon_error_set(err, TENON_EINVAL, "argument '%s' has the default %s, which torch's schemas cannot have",
                        param->name, param->literal);
        return false;
    }
    if (param->flags & TENON_PARAMETER_KEEP) {
        tenon_error_set(err, TENON_EINVAL,
                        "argument '%s' is 'keep', and torch reuses the memory of arguments after an operator",
                        param->name);
        return false;
    }
    const tenon_spec *spec = param->items ? param->items : param->spec;
    if (spec && (spec->flags & TENON_SPEC_WRITE))
        snprintf(alias, sizeof alias, "(a%d!)", (*written)++);
    add(text, type);
    add(text, alias);
    add(text, param->items ? "[]" : "");
    add(text, param->flags & TENON_PARAMETER_OPTIONAL ? "? " : " ");
    add(text, param->name);
    if (param->flags & TENON_PARAMETER_DEFAULT)
        add_default(text, param);
    return true;
}

/* Why this cannot be a result of an operator. */
static bool check_result(const tenon_parameter *result, tenon_error *err)
{
    bool number = result->kind == TENON_KIND_INT || result->kind == TENON_KIND_FLOAT ||
                  result->kind == TENON_KIND_BOOL || result->kind == TENON_KIND_UINT ||
                  result->kind == TENON_KIND_COMPLEX;
    bool tensors = result->kind == TENON_KIND_TENSOR || result->kind == TENON_KIND_TENSORS;
    if (result->items && (result->flags & TENON_PARAMETER_OPEN))
        tenon_error_set(err, TENON_EINVAL, "a result is of type %s, and torch has to know its length before the call",
                        result->type);
    else if (result->flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF))
        tenon_error_set(err, TENON_EINVAL, "a result is of type %s, and operators return only memory of torch",
                        result->type);
    else if (result->flags & TENON_PARAMETER_OPTIONAL)
        tenon_error_set(err, TENON_EINVAL, "a result may be None, and torch has to know that before the call");
    else if (!number && !tensors)
        tenon_error_set(err, TENON_EINVAL, "a result is of type %s, and operators return only tensors", result->type);
    else
        return true;
    return false;
}

tenon_status tenon__torch_schema(const tenon_signature *signature, char *buffer, size_t size, size_t *length,
                                 tenon_error *err)
{
    schema_text text = {buffer, size, 0};
    int written = 0;
    if (signature->role != TENON_ROLE_FUNCTION)
        return tenon_error_set(err, TENON_EINVAL, "it belongs to the class '%s', and operators do not accept objects",
                               signature->class_name);
    add(&text, signature->name);
    add(&text, "(");
    for (int32_t i = 0; i < signature->nparams; i++) {
        add(&text, i > 0 ? ", " : "");
        add(&text, i == signature->npositional ? "*, " : "");
        if (!add_parameter(&text, &signature->params[i], &written, err))
            return TENON_EINVAL;
    }
    add(&text, signature->nresults == 1 ? ") -> " : ") -> (");
    for (int32_t i = 0; i < signature->nresults; i++) {
        if (!check_result(&signature->results[i], err))
            return TENON_EINVAL;
        add(&text, i > 0 ? ", Tensor" : "Tensor");
        add(&text, signature->results[i].items ? "[]" : "");
    }
    add(&text, signature->nresults == 1 ? "" : ")");
    if (!signature->nresults && !written)
        return tenon_error_set(err, TENON_EINVAL,
                               "it neither returns nor writes anything, and torch removes such operators from graphs");
    *length = text.length;
    return TENON_OK;
}
