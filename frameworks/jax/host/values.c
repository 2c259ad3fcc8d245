/* The arguments and results of a call that are not tensors. */
#include "frame.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- dtypes */

/* clang-format off */
#define JAX_DTYPE(letter, size) {.code = TENON_CODE_##letter, .bits = (size), .lanes = 1}
const tenon_dtype tenon__jax_dtypes[xla_dtype_end] = {
    [xla_pred] = JAX_DTYPE(BOOL, 8),
    [xla_s8] = JAX_DTYPE(INT, 8),       [xla_s16] = JAX_DTYPE(INT, 16),
    [xla_s32] = JAX_DTYPE(INT, 32),     [xla_s64] = JAX_DTYPE(INT, 64),
    [xla_u8] = JAX_DTYPE(UINT, 8),      [xla_u16] = JAX_DTYPE(UINT, 16),
    [xla_u32] = JAX_DTYPE(UINT, 32),    [xla_u64] = JAX_DTYPE(UINT, 64),
    [xla_f16] = JAX_DTYPE(FLOAT, 16),   [xla_f32] = JAX_DTYPE(FLOAT, 32),
    [xla_f64] = JAX_DTYPE(FLOAT, 64),   [xla_bf16] = JAX_DTYPE(BFLOAT, 16),
    [xla_c64] = JAX_DTYPE(COMPLEX, 64), [xla_c128] = JAX_DTYPE(COMPLEX, 128),
    [xla_f8e5m2] = JAX_DTYPE(F8_E5M2, 8),
    [xla_f8e4m3fn] = JAX_DTYPE(F8_E4M3FN, 8),
    [xla_f8e4m3b11fnuz] = JAX_DTYPE(F8_E4M3B11FNUZ, 8),
    [xla_f8e5m2fnuz] = JAX_DTYPE(F8_E5M2FNUZ, 8),
    [xla_f8e4m3fnuz] = JAX_DTYPE(F8_E4M3FNUZ, 8),
    [xla_f8e4m3] = JAX_DTYPE(F8_E4M3, 8),
    [xla_f8e3m4] = JAX_DTYPE(F8_E3M4, 8),
    [xla_f8e8m0fnu] = JAX_DTYPE(F8_E8M0FNU, 8),
};
/* clang-format on */

/* ---------------------------------------------------------------------------------------------------------- numbers */

typedef struct jax_number {
    char kind; /* b, i, or f */
    bool fits; /* an integer, in 64 bits with a sign */
    int64_t integer;
    double number;
} jax_number;

static double jax_half(uint16_t bits)
{
    uint64_t mantissa = bits & 0x3ff, exponent = bits >> 10 & 0x1f, unit = 1023 - 25 + (exponent ? exponent : 1);
    double value, scale;
    if (exponent == 0x1f)
        value = mantissa ? (double)NAN : (double)INFINITY;
    else {
        unit <<= 52; /* the exponent of the unit in the last place: a double of its own */
        memcpy(&scale, &unit, sizeof scale);
        value = (double)(mantissa | (exponent ? 0x400u : 0)) * scale;
    }
    return bits & 0x8000 ? -value : value;
}

#define JAX_READ(type)                                                                                                 \
    do {                                                                                                               \
        type value;                                                                                                    \
        memcpy(&value, data, sizeof value);                                                                            \
        out->integer = (int64_t)value;                                                                                 \
        out->number = (double)value;                                                                                   \
    } while (0)
#define JAX_READ_FLOAT(type)                                                                                           \
    do {                                                                                                               \
        type value;                                                                                                    \
        memcpy(&value, data, sizeof value);                                                                            \
        out->number = (double)value;                                                                                   \
    } while (0)

/* Read one number. False if the dtype is not one of numbers. */
static bool jax_read_number(int32_t dtype, const void *data, jax_number *out)
{
    uint16_t half;
    uint32_t word;
    float single;
    *out = (jax_number){.kind = dtype == xla_pred ? 'b' : dtype <= xla_u64 ? 'i' : 'f', .fits = true};
    switch (dtype) {
    case xla_pred:
        out->integer = *(const uint8_t *)data != 0;
        out->number = (double)out->integer;
        return true;
    case xla_s8:
        JAX_READ(int8_t);
        return true;
    case xla_s16:
        JAX_READ(int16_t);
        return true;
    case xla_s32:
        JAX_READ(int32_t);
        return true;
    case xla_s64:
        JAX_READ(int64_t);
        return true;
    case xla_u8:
        JAX_READ(uint8_t);
        return true;
    case xla_u16:
        JAX_READ(uint16_t);
        return true;
    case xla_u32:
        JAX_READ(uint32_t);
        return true;
    case xla_u64:
        JAX_READ(uint64_t);
        out->fits = out->integer >= 0;
        return true;
    case xla_f32:
        JAX_READ_FLOAT(float);
        return true;
    case xla_f64:
        JAX_READ_FLOAT(double);
        return true;
    case xla_f16:
        memcpy(&half, data, sizeof half);
        out->number = jax_half(half);
        return true;
    case xla_bf16:
        memcpy(&half, data, sizeof half);
        word = (uint32_t)half << 16;
        memcpy(&single, &word, sizeof single);
        out->number = (double)single;
        return true;
    default:
        return false;
    }
}

/* Argument `index` is a number of this dtype: a bool is an integer, and an integer a float, but not the other way. */
static int jax_take_number(jax_frame *f, int32_t index, int32_t dtype, const void *data)
{
    tenon_value *value = &f->args[index];
    uint32_t kind = f->base.signature->params[index].kind;
    jax_number read;
    char got[64] = "something else";
    bool good = data && jax_read_number(dtype, data, &read);
    value->kind = kind;
    value->flags = 0;
    if (good && kind == TENON_KIND_FLOAT) {
        value->as.number = read.number;
        return 0;
    }
    if (good && kind == TENON_KIND_UINT && dtype == xla_s64) { /* its bits */
        value->as.integer = read.integer;
        return 0;
    }
    if (good && (kind == TENON_KIND_INT ? read.kind != 'f' : kind == TENON_KIND_BOOL && read.kind == 'b')) {
        value->as.integer = read.integer;
        return read.fits ? 0
                         : tenon__jax_refuse(f, index, TENON_EOVERFLOW,
                                             "expected an integer from -2**63 to 2**63 - 1, got a larger one");
    }
    if (jax_dtype(dtype))
        tenon_dtype_format(*jax_dtype(dtype), got, sizeof got);
    return tenon__jax_refuse_kind(f, index, got);
}

/* An operand that is a number. */
int tenon__jax_take_scalar(jax_frame *f, int32_t index)
{
    const xla_buffer *buffer = jax_buffer(&f->xla->arguments, f->operands++);
    if (!buffer || buffer->rank != 0)
        return tenon__jax_malformed(f, "the operand of a number is missing or has dimensions");
    if (f->on_gpu)
        return tenon__jax_refuse(f, index, TENON_EDEVICE, "a number cannot be read from the memory of a GPU");
    return jax_take_number(f, index, buffer->dtype, buffer->data);
}

/* A number of the packed operand, which is always the last one. */
int tenon__jax_take_packed(jax_frame *f, int32_t index)
{
    uint32_t kind = f->base.signature->params[index].kind;
    if (!f->packed) {
        int64_t last = f->xla->arguments.count - 1;
        f->packed = last >= 0 ? jax_buffer(&f->xla->arguments, last) : NULL;
        if (f->on_gpu)
            return tenon__jax_refuse(f, index, TENON_EDEVICE, "a number cannot be read from the memory of a GPU");
        if (!f->packed || f->packed->dtype != xla_u32 || f->packed->rank != 1)
            return tenon__jax_malformed(f, "the operand with the packed numbers is missing");
    }
    if (f->packed->dims[0] < 2 * (f->numbers + 1))
        return tenon__jax_malformed(f, "the operand with the packed numbers is too short");
    const char *data = (const char *)f->packed->data + 8 * f->numbers++;
    if (kind == TENON_KIND_FLOAT)
        return jax_take_number(f, index, xla_f64, data);
    if (kind == TENON_KIND_INT || kind == TENON_KIND_BOOL)
        return jax_take_number(f, index, kind == TENON_KIND_INT ? xla_s64 : xla_pred, data);
    return tenon__jax_malformed(f, "a packed number is not a number in the signature");
}

/* ------------------------------------------------------------------------------------------------------- attributes */

static int jax_take_text(jax_frame *f, int32_t index, const xla_span *span)
{
    const tenon_parameter *param = &f->base.signature->params[index];
    tenon_value *value = &f->args[index];
    value->kind = param->kind;
    value->flags = 0;
    for (int32_t i = 0; param->kind == TENON_KIND_ENUM && i < param->count; i++) {
        if (span->length == strlen(param->choices[i]) && memcmp(span->text, param->choices[i], span->length) == 0) {
            value->as.integer = i;
            return 0;
        }
    }
    if (param->kind == TENON_KIND_DTYPE && tenon_utf8_is_valid(span->text, span->length) && span->length < 64) {
        char name[64];
        memcpy(name, span->text, span->length);
        name[span->length] = '\0';
        if (tenon_dtype_parse(name, &value->as.dtype, NULL) == TENON_OK)
            return 0;
    }
    if (param->kind != TENON_KIND_STR)
        return tenon__jax_refuse_kind(f, index, param->kind == TENON_KIND_ENUM ? "another string" : "str");
    char *copy = tenon_block_alloc(&f->base.blocks, span->length + 1, 0); /* functions expect a final 0 */
    if (!copy)
        return tenon__jax_refuse(f, index, TENON_ENOMEM, "out of memory");
    if (span->length)
        memcpy(copy, span->text, span->length);
    copy[span->length] = '\0';
    value->as.list.data = copy;
    value->as.list.length = (int64_t)span->length;
    return 0;
}

static int jax_take_list(jax_frame *f, int32_t index, const xla_array *array)
{
    static const int64_t nothing = 0;
    const tenon_parameter *param = &f->base.signature->params[index];
    tenon_value *value = &f->args[index];
    bool good = (param->kind == TENON_KIND_INTS && array->dtype == xla_s64) ||
                (param->kind == TENON_KIND_FLOATS && (array->dtype == xla_f64 || array->dtype == xla_s64));
    char got[64] = "an array";
    if (param->kind == TENON_KIND_COMPLEX && array->dtype == xla_s64 &&
        array->length == 2) { /* the bits of the parts */
        value->kind = param->kind;
        value->flags = 0;
        memcpy(value->as.parts, array->data, sizeof value->as.parts);
        return 0;
    }
    if (good && param->count >= 0 && array->length != (size_t)param->count) {
        snprintf(got, sizeof got, "%zu number%s", array->length, array->length == 1 ? "" : "s");
        good = false;
    }
    if (!good)
        return tenon__jax_refuse_kind(f, index, got);
    value->kind = param->kind;
    value->flags = 0;
    value->as.list.data = array->length ? array->data : &nothing;
    value->as.list.length = (int64_t)array->length;
    return 0;
}

/* The attributes of the values follow those that the handler has read, in the order of the parameters. */
int tenon__jax_take_attribute(jax_frame *f, int32_t index)
{
    const xla_attributes *all = &f->xla->attributes;
    int64_t at = f->attributes++;
    char name[3] = {'v', (char)('0' + index / 10), (char)('0' + index % 10)};
    if (at >= all->count || all->names[at]->length != sizeof name ||
        memcmp(all->names[at]->text, name, sizeof name) != 0)
        return tenon__jax_malformed(f, "the attribute of a value is missing");
    switch (all->types[at]) {
    case xla_attr_scalar: {
        const xla_scalar *scalar = all->items[at];
        return jax_take_number(f, index, scalar->dtype, scalar->value);
    }
    case xla_attr_string:
        return jax_take_text(f, index, all->items[at]);
    case xla_attr_array:
        return jax_take_list(f, index, all->items[at]);
    default:
        return tenon__jax_malformed(f, "the attribute of a value is a dictionary");
    }
}

int tenon__jax_take_count(jax_frame *f, int32_t index, int64_t *count)
{
    const xla_attributes *all = &f->xla->attributes;
    int64_t at = f->attributes++;
    char name[3] = {'v', (char)('0' + index / 10), (char)('0' + index % 10)};
    if (at >= all->count || all->names[at]->length != sizeof name ||
        memcmp(all->names[at]->text, name, sizeof name) != 0 || all->types[at] != xla_attr_scalar)
        return -1;
    const xla_scalar *scalar = all->items[at];
    if (scalar->dtype != xla_s64 || !scalar->value)
        return -1;
    memcpy(count, scalar->value, sizeof *count);
    return *count >= 0 ? 0 : -1;
}

/* ----------------------------------------------------------------------------------------------------------- results */

/* Store a number in its buffer. */
static int jax_give_number(jax_frame *f, int32_t index)
{
    const tenon_value *value = &f->results[index];
    const xla_buffer *buffer = jax_buffer(&f->xla->results, tenon__jax_result_place(f, index));
    int32_t dtype = buffer ? buffer->dtype : 0;
    if (tenon_frame_has_result(&f->base, index) <= 0)
        return -1;
    if (!buffer || buffer->rank != 0)
        return tenon__jax_malformed(f, "a result that is a number is missing or has dimensions");
    if (value->kind == TENON_KIND_INT && dtype == xla_s32) {
        int32_t narrow = (int32_t)value->as.integer;
        if (narrow != value->as.integer) {
            tenon_error_set_in(f->err, TENON_EOVERFLOW, f->base.signature->name,
                               "result %d is %lld, which does not fit in int32; set jax_enable_x64", (int)index,
                               (long long)value->as.integer);
            return -1;
        }
        memcpy(buffer->data, &narrow, sizeof narrow);
    } else if (value->kind == TENON_KIND_INT && dtype == xla_s64) {
        memcpy(buffer->data, &value->as.integer, sizeof value->as.integer);
    } else if (value->kind == TENON_KIND_FLOAT && dtype == xla_f32) {
        float narrow = (float)value->as.number;
        memcpy(buffer->data, &narrow, sizeof narrow);
    } else if (value->kind == TENON_KIND_FLOAT && dtype == xla_f64) {
        memcpy(buffer->data, &value->as.number, sizeof value->as.number);
    } else if (value->kind == TENON_KIND_BOOL && dtype == xla_pred) {
        *(uint8_t *)buffer->data = value->as.integer != 0;
    } else {
        return tenon__jax_malformed(f, "the dtype of a result that is a number is wrong");
    }
    return 0;
}

int tenon__jax_give_numbers(jax_frame *f)
{
    const tenon_signature *s = f->base.signature;
    for (int32_t i = 0; i < s->nresults; i++)
        if (!s->results[i].spec && !s->results[i].items && jax_give_number(f, i) < 0)
            return -1;
    return 0;
}
