#include "internal.h"

#include <string.h>

/* Every dtype of one lane, by its short name. */
static const struct {
    const char *name;
    uint8_t code;
    uint8_t bits;
} dtypes[] = {
    {"bool", TENON_CODE_BOOL, 8},
    {"i1", TENON_CODE_INT, 1},
    {"i2", TENON_CODE_INT, 2},
    {"i4", TENON_CODE_INT, 4},
    {"i8", TENON_CODE_INT, 8},
    {"i16", TENON_CODE_INT, 16},
    {"i32", TENON_CODE_INT, 32},
    {"i64", TENON_CODE_INT, 64},
    {"i128", TENON_CODE_INT, 128},
    {"u1", TENON_CODE_UINT, 1},
    {"u2", TENON_CODE_UINT, 2},
    {"u4", TENON_CODE_UINT, 4},
    {"u8", TENON_CODE_UINT, 8},
    {"u16", TENON_CODE_UINT, 16},
    {"u32", TENON_CODE_UINT, 32},
    {"u64", TENON_CODE_UINT, 64},
    {"u128", TENON_CODE_UINT, 128},
    {"f16", TENON_CODE_FLOAT, 16},
    {"f32", TENON_CODE_FLOAT, 32},
    {"f64", TENON_CODE_FLOAT, 64},
    {"f128", TENON_CODE_FLOAT, 128},
    {"bf16", TENON_CODE_BFLOAT, 16},
    {"c32", TENON_CODE_COMPLEX, 32},
    {"c64", TENON_CODE_COMPLEX, 64},
    {"c128", TENON_CODE_COMPLEX, 128},
    {"f8_e3m4", TENON_CODE_F8_E3M4, 8},
    {"f8_e4m3", TENON_CODE_F8_E4M3, 8},
    {"f8_e4m3b11fnuz", TENON_CODE_F8_E4M3B11FNUZ, 8},
    {"f8_e4m3fn", TENON_CODE_F8_E4M3FN, 8},
    {"f8_e4m3fnuz", TENON_CODE_F8_E4M3FNUZ, 8},
    {"f8_e5m2", TENON_CODE_F8_E5M2, 8},
    {"f8_e5m2fnuz", TENON_CODE_F8_E5M2FNUZ, 8},
    {"f8_e8m0fnu", TENON_CODE_F8_E8M0FNU, 8},
    {"f6_e2m3fn", TENON_CODE_F6_E2M3FN, 6},
    {"f6_e3m2fn", TENON_CODE_F6_E3M2FN, 6},
    {"f4_e2m1fn", TENON_CODE_F4_E2M1FN, 4},
    {"opaque8", TENON_CODE_OPAQUE, 8},
    {"opaque16", TENON_CODE_OPAQUE, 16},
    {"opaque32", TENON_CODE_OPAQUE, 32},
    {"opaque64", TENON_CODE_OPAQUE, 64},
    {"opaque128", TENON_CODE_OPAQUE, 128},
};

/* The long names of NumPy and torch begin differently, if a digit follows: float32, bfloat16, float8_e4m3fn. */
static const struct {
    const char *from;
    const char *to;
} prefixes[] = {{"f", "float"}, {"i", "int"}, {"u", "uint"}, {"bf", "bfloat"}, {"c", "complex"}};

enum { NDTYPES = sizeof dtypes / sizeof *dtypes, NPREFIXES = sizeof prefixes / sizeof *prefixes };

/* The rest of the short name after prefix `k`, or NULL if it has another one. */
static const char *after_prefix(const char *name, int k)
{
    size_t length = strlen(prefixes[k].from);
    bool digit_follows = strncmp(name, prefixes[k].from, length) == 0 && name[length] >= '0' && name[length] <= '9';
    return digit_follows ? name + length : NULL;
}

bool tenon_dtype_known(tenon_dtype dtype)
{
    return tenon__dtype_known(dtype);
}

size_t tenon_dtype_alignment(tenon_dtype dtype)
{
    return tenon__dtype_known(dtype) ? (size_t)tenon__dtype_alignment(dtype) : 1;
}

/* The short name of one lane, or NULL if the dtype is unknown. */
static const char *name_of_lane(tenon_dtype dtype)
{
    for (int i = 0; i < NDTYPES; i++) {
        if (dtypes[i].code == dtype.code && dtypes[i].bits == dtype.bits && dtype.lanes > 0)
            return dtypes[i].name;
    }
    return NULL;
}

static void add_unknown_dtype(tenon__text *text, tenon_dtype dtype)
{
    tenon__text_add(text, "dtype(%d, %d, %d)", dtype.code, dtype.bits, dtype.lanes);
}

void tenon__text_add_dtype(tenon__text *text, tenon_dtype dtype)
{
    const char *name = name_of_lane(dtype);
    if (!name) {
        add_unknown_dtype(text, dtype);
        return;
    }
    tenon__text_add(text, "%s", name);
    if (dtype.lanes > 1)
        tenon__text_add(text, "x%d", dtype.lanes);
}

size_t tenon_dtype_format_long(tenon_dtype dtype, char *buffer, size_t size)
{
    tenon__text text = {buffer, size, 0};
    const char *name = name_of_lane(dtype), *prefix = "";
    if (!name) {
        add_unknown_dtype(&text, dtype);
        return text.length;
    }
    for (int k = 0; k < NPREFIXES; k++) {
        const char *rest = after_prefix(name, k);
        if (rest) {
            prefix = prefixes[k].to;
            name = rest;
            break;
        }
    }
    tenon__text_add(&text, "%s%s", prefix, name);
    if (dtype.lanes > 1)
        tenon__text_add(&text, "_x%d", dtype.lanes); /* as torch spells float4_e2m1fn_x2 */
    return text.length;
}

/* Whether text is `prefix` followed by `rest`. */
static bool is_joined(const char *text, size_t length, const char *prefix, const char *rest)
{
    size_t size = strlen(prefix);
    return length == size + strlen(rest) && memcmp(text, prefix, size) == 0 &&
           memcmp(text + size, rest, length - size) == 0;
}

static bool lookup_lane(const char *text, size_t length, tenon_dtype *out)
{
    for (int i = 0; i < NDTYPES; i++) {
        bool found = is_joined(text, length, "", dtypes[i].name);
        for (int k = 0; !found && k < NPREFIXES; k++) {
            const char *rest = after_prefix(dtypes[i].name, k);
            found = rest && is_joined(text, length, prefixes[k].to, rest);
        }
        if (found) {
            *out = tenon_dtype_of(dtypes[i].code, dtypes[i].bits, 1);
            return true;
        }
    }
    return false;
}

bool tenon__dtype_lookup(const char *text, size_t length, tenon_dtype *out)
{
    if (lookup_lane(text, length, out))
        return true;
    size_t digits = length;
    while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
        digits--;
    size_t count = length - digits;
    if (count == 0 || count > 5 || text[digits] == '0' || digits == 0 || text[digits - 1] != 'x')
        return false;
    int lanes = 0;
    for (size_t i = digits; i < length; i++)
        lanes = lanes * 10 + (text[i] - '0');
    size_t lane = digits - 1;
    if (lane > 0 && text[lane - 1] == '_') /* as torch spells float4_e2m1fn_x2 */
        lane--;
    if (lanes > UINT16_MAX || !lookup_lane(text, lane, out))
        return false;
    out->lanes = (uint16_t)lanes;
    return true;
}

tenon_status tenon_dtype_parse(const char *text, tenon_dtype *out, tenon_error *err)
{
    if (!text || !out)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_dtype_parse", "argument '%s' is NULL",
                                  text ? "out" : "text");
    tenon_dtype dtype;
    if (!tenon__dtype_lookup(text, strlen(text), &dtype))
        return tenon_error_set_in(err, TENON_EPARSE, "tenon_dtype_parse",
                                  "argument 'text': expected a dtype such as f32, i64, bf16, "
                                  "f8_e4m3fn or f32x4, got \"%.60s\"",
                                  text);
    *out = dtype;
    return TENON_OK;
}
