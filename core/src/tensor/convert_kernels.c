/* The kernels of tenon_copy between two dtypes.
 *
 * A kernel converts exactly TENON__CHUNK contiguous values. The count is a constant, so that -O2 turns the loops into vector
 * code, and each memcpy of a value is one load or store that needs no alignment.
 *
 * Conversions have several steps. Integers become 64-bit integers, floats of at most 16 bits become f32, and others f64, which
 * is exact. Only the last step rounds. If a step before it has to drop bits, the number keeps a trace of them: its last bit
 * becomes 1 ("rounding to odd"). As long as it has two bits more than the result, the last step rounds it as it would
 * have rounded the exact value. */
#include "internal.h"

#include <string.h>

/* A kernel whose body computes `To y` of `From x`. */
#define CONVERT_KERNEL(name, From, To, ...)                                                                            \
    static void name(char *restrict to, const char *restrict from, const tenon__number *type)                          \
    {                                                                                                                  \
        (void)type;                                                                                                    \
        for (size_t i = 0; i < TENON__CHUNK; i++) {                                                                    \
            From x;                                                                                                    \
            To y;                                                                                                      \
            memcpy(&x, from + i * sizeof x, sizeof x);                                                                 \
            __VA_ARGS__                                                                                                \
            memcpy(to + i * sizeof y, &y, sizeof y);                                                                   \
        }                                                                                                              \
    }

#if defined(__GNUC__)
#define CONVERT_INLINE static inline __attribute__((__always_inline__))
#else
#define CONVERT_INLINE static inline
#endif

CONVERT_INLINE uint64_t convert_bits_of_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

CONVERT_INLINE double convert_f64_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

CONVERT_INLINE uint32_t convert_bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

CONVERT_INLINE float convert_f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* condition ? a : b. Branches in these loops would keep the compiler from using vectors. */
CONVERT_INLINE uint32_t convert_select(bool condition, uint32_t a, uint32_t b)
{
    uint32_t mask = -(uint32_t)condition;
    return (a & mask) | (b & ~mask);
}

/* ------------------------------------------------------------------------------------------------- hardware types */

/* Every one of these conversions is exact, or rounds once. */
CONVERT_KERNEL(convert_f64_f32, double, float, y = (float)x;)
CONVERT_KERNEL(convert_f32_f64, float, double, y = (double)x;)
CONVERT_KERNEL(convert_bool_f32, uint8_t, float, y = (float)(x != 0);)
CONVERT_KERNEL(convert_bool_f64, uint8_t, double, y = (double)(x != 0);)
CONVERT_KERNEL(convert_i8_f32, int8_t, float, y = (float)x;)
CONVERT_KERNEL(convert_i8_f64, int8_t, double, y = (double)x;)
CONVERT_KERNEL(convert_i16_f32, int16_t, float, y = (float)x;)
CONVERT_KERNEL(convert_i16_f64, int16_t, double, y = (double)x;)
CONVERT_KERNEL(convert_i32_f32, int32_t, float, y = (float)x;)
CONVERT_KERNEL(convert_i32_f64, int32_t, double, y = (double)x;)
CONVERT_KERNEL(convert_i64_f32, int64_t, float, y = (float)x;)
CONVERT_KERNEL(convert_i64_f64, int64_t, double, y = (double)x;)
CONVERT_KERNEL(convert_u8_f32, uint8_t, float, y = (float)x;)
CONVERT_KERNEL(convert_u8_f64, uint8_t, double, y = (double)x;)
CONVERT_KERNEL(convert_u16_f32, uint16_t, float, y = (float)x;)
CONVERT_KERNEL(convert_u16_f64, uint16_t, double, y = (double)x;)
CONVERT_KERNEL(convert_u32_f32, uint32_t, float, y = (float)x;)
CONVERT_KERNEL(convert_u32_f64, uint32_t, double, y = (double)x;)
CONVERT_KERNEL(convert_u64_f32, uint64_t, float, y = (float)x;)
CONVERT_KERNEL(convert_u64_f64, uint64_t, double, y = (double)x;)

/* Integers to the wide integer and back, which wraps. */
CONVERT_KERNEL(convert_i8_wide, int8_t, int64_t, y = (int64_t)x;)
CONVERT_KERNEL(convert_i16_wide, int16_t, int64_t, y = x;)
CONVERT_KERNEL(convert_i32_wide, int32_t, int64_t, y = x;)
CONVERT_KERNEL(convert_u8_wide, uint8_t, uint64_t, y = x;)
CONVERT_KERNEL(convert_u16_wide, uint16_t, uint64_t, y = x;)
CONVERT_KERNEL(convert_u32_wide, uint32_t, uint64_t, y = x;)
CONVERT_KERNEL(convert_bool_wide, uint8_t, uint64_t, y = x != 0;)
CONVERT_KERNEL(convert_wide_8, uint64_t, uint8_t, y = (uint8_t)x;)
CONVERT_KERNEL(convert_wide_16, uint64_t, uint16_t, y = (uint16_t)x;)
CONVERT_KERNEL(convert_wide_32, uint64_t, uint32_t, y = (uint32_t)x;)
CONVERT_KERNEL(convert_wide_bool, uint64_t, uint8_t, y = x != 0;)
CONVERT_KERNEL(convert_f64_bool, double, uint8_t, y = x != 0;)

/* Integers of less than 8 bits, each in a byte: the other bits of the byte are undefined when it is read, and 0 when it is
 * written. */
CONVERT_KERNEL(convert_bits_wide, uint8_t, uint64_t, {
    uint64_t value = x & ((1u << type->bits) - 1), sign = type->is_signed ? 1u << (type->bits - 1) : 0;
    y = (value ^ sign) - sign;
})
CONVERT_KERNEL(convert_wide_bits, uint64_t, uint8_t, y = (uint8_t)(x & ((1u << type->bits) - 1));)

/* Floats to integers: toward zero, to the nearest end of the range, and NaN to 0. The ends of 64 bits are powers of two,
 * which f64 has, but the largest integers are not. */
CONVERT_KERNEL(convert_f64_signed, double, int64_t, {
    double end = convert_f64_of_bits((uint64_t)(1022 + type->bits) << 52);
    int64_t largest = (int64_t)(UINT64_MAX >> (65 - type->bits));
    double inside = x == x ? x : 0;
    y = inside >= end ? largest : inside <= -end ? -largest - 1 : (int64_t)inside;
})
CONVERT_KERNEL(convert_f64_unsigned, double, uint64_t, {
    double end = convert_f64_of_bits((uint64_t)(1023 + type->bits) << 52);
    y = x >= end ? UINT64_MAX >> (64 - type->bits) : x > 0 ? (uint64_t)x : 0;
})

/* ------------------------------------------------------------------------------------------------------ f16, bf16 */

/* Adding `c` to a number rounds it to a multiple of the last bit of c. If c is chosen so that this is the last bit that the
 * target has for the number, the mantissa of the sum is the mantissa of the result, rounded to nearest even. Below the
 * smallest exponent of the target, c is constant: subnormal numbers are not a special case. */
CONVERT_KERNEL(convert_f32_f16, float, uint16_t, {
    const uint32_t smallest = (127u - 14) << 23, largest = (127u + 16) << 23; /* powers of two, as bits */
    const uint32_t bits = convert_bits_of_f32(x), size = bits & 0x7fffffff;
    int32_t power = (int32_t)(size & 0x7f800000);
    power = power > (int32_t)smallest ? power : (int32_t)smallest;
    power = power < (int32_t)largest ? power : (int32_t)largest;
    float sum = convert_f32_of_bits(size) + convert_f32_of_bits((uint32_t)power + (13u << 23));
    uint32_t code = (((uint32_t)power - smallest) >> 13) + (convert_bits_of_f32(sum) & 0x7fffff);
    code = convert_select((int32_t)size >= 0x477ff000, 0x7c00, code); /* 65520: infinity */
    code = convert_select((int32_t)size > 0x7f800000, 0x7e00, code);
    y = (uint16_t)(code | (bits >> 16 & 0x8000));
})

CONVERT_KERNEL(convert_f16_f32, uint16_t, float, {
    const int32_t code = x & 0x7fff;
    const uint32_t shifted = (uint32_t)code << 13;
    float small = convert_f32_of_bits(shifted + (113u << 23)) - 0x1p-14f;
    uint32_t bits = convert_select(code < 0x400, convert_bits_of_f32(small), shifted + (112u << 23));
    bits = convert_select(code >= 0x7c00, shifted | 0x7f800000, bits);
    y = convert_f32_of_bits(bits | (uint32_t)(x & 0x8000) << 16);
})

/* bf16 is the upper half of f32. The largest finite numbers overflow to infinity by the carry. */
CONVERT_KERNEL(convert_f32_bf16, float, uint16_t, {
    const uint32_t bits = convert_bits_of_f32(x);
    uint32_t code = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    code = (bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 | 0x40) : code;
    y = (uint16_t)code;
})
CONVERT_KERNEL(convert_bf16_f32, uint16_t, float, y = convert_f32_of_bits((uint32_t)x << 16);)

/* ------------------------------------------------------------------------------------------------- floats of a byte */

/* As convert_f32_f16, to any format. */
CONVERT_KERNEL(convert_f32_code, float, uint8_t, {
    const tenon__float_format *format = type->format;
    const uint32_t smallest = (uint32_t)(127 + format->exponent) << 23, largest = (127u + 16) << 23;
    const int shift = 23 - format->mantissa;
    const uint32_t bits = convert_bits_of_f32(x), size = bits & 0x7fffffff;
    int32_t power = (int32_t)(size & 0x7f800000);
    power = power > (int32_t)smallest ? power : (int32_t)smallest;
    power = power < (int32_t)largest ? power : (int32_t)largest;
    float sum = convert_f32_of_bits(size) + convert_f32_of_bits((uint32_t)power + ((uint32_t)shift << 23));
    uint32_t code = (((uint32_t)power - smallest) >> shift) + (convert_bits_of_f32(sum) & 0x7fffff);
    code = convert_select((int32_t)size > format->limit, format->overflow, code);
    code = convert_select((int32_t)size > 0x7f800000, format->nan, code);
    uint32_t sign = convert_select((int32_t)bits < 0, format->sign, 0);
    y = (uint8_t)(code | convert_select(code == 0, sign & ~(uint32_t)format->lone_sign, sign));
})

CONVERT_KERNEL(convert_code_f32, uint8_t, float, {
    const tenon__float_format *format = type->format;
    const uint32_t smallest = (uint32_t)(127 + format->exponent) << 23;
    const uint32_t code = x & (format->sign - 1), sign = x & format->sign;
    const uint32_t shifted = code << (23 - format->mantissa);
    float small = convert_f32_of_bits(shifted + smallest) - convert_f32_of_bits(smallest);
    uint32_t bits =
        convert_select(code >> format->mantissa == 0, convert_bits_of_f32(small), shifted + smallest - (1u << 23));
    bits = convert_select((int32_t)code > format->largest, 0x7fc00000, bits);
    bits = convert_select(code == format->infinity, 0x7f800000, bits);
    bits = convert_select(x == format->lone_sign, 0x7fc00000, bits);
    y = convert_f32_of_bits(bits | convert_select(sign != 0, 0x80000000, 0));
})

/* f8_e8m0fnu has only powers of two, from 2^-127 to 2^127, and NaN: it is the exponent of f32. Halfway is rounded up, because
 * 2 is the even mantissa. */
CONVERT_KERNEL(convert_f32_power, float, uint8_t, {
    uint32_t code = (convert_bits_of_f32(x) + (1u << 22)) >> 23;
    y = !(x > 0 && x < 0x1.8p127f) ? 0xff : x < 0x1.8p-127f ? 0 : (uint8_t)code;
})
CONVERT_KERNEL(convert_power_f32, uint8_t, float, {
    uint32_t bits = x == 0xff ? 0x7fc00000 : (uint32_t)x << 23;
    y = convert_f32_of_bits(x == 0 ? 1u << 22 : bits);
})

/* ------------------------------------------------------------------------------------------------ rounding to odd */

/* f64 to f32: rounded to nearest, and then to the neighbour on the other side if that is the odd one. */
CONVERT_KERNEL(convert_f64_odd, double, float, {
    const float nearest = (float)x;
    const uint32_t bits = convert_bits_of_f32(nearest);
    const uint64_t rest = (convert_bits_of_f64(x) & INT64_MAX) - (convert_bits_of_f64((double)nearest) & INT64_MAX);
    const uint32_t inexact = (uint32_t)((rest | -rest) >> 63), down = (uint32_t)(rest >> 63);
    y = convert_f32_of_bits(bits + ((inexact - 2 * down) & ((bits & 1) - 1)));
})

/* 64-bit integers to f64, for floats of at most 16 bits: a bit instead of the lowest 11. */
CONVERT_INLINE uint64_t convert_sticky(uint64_t x)
{
    return x >> 53 ? (x & ~UINT64_C(0x7ff)) | ((x & 0x7ff) ? 0x800 : 0) : x;
}

CONVERT_KERNEL(convert_signed_odd, int64_t, double, {
    double size = (double)convert_sticky(x < 0 ? -(uint64_t)x : (uint64_t)x);
    y = x < 0 ? -size : size;
})
CONVERT_KERNEL(convert_unsigned_odd, uint64_t, double, y = (double)convert_sticky(x);)

/* --------------------------------------------------------------------------------------------------------- choice */

/* By code of DLPack. `limit` is the largest number that does not overflow, as the bits of f32: the last one that rounds to the
 * largest finite value, or that value itself if the format has neither infinity nor NaN. */
static const tenon__float_format convert_formats[] = {
    [TENON_CODE_F8_E3M4] = {4, -2, 0x417bffff, 0x80, 0x6f, 0x70, 0x78, 0x70, 0x100},        /* 15.75 is too large */
    [TENON_CODE_F8_E4M3] = {3, -6, 0x4377ffff, 0x80, 0x77, 0x78, 0x7c, 0x78, 0x100},        /* 248 */
    [TENON_CODE_F8_E4M3B11FNUZ] = {3, -10, 0x41f7ffff, 0x80, 0x7f, 0x80, 0x80, 0xff, 0x80}, /* 31 */
    [TENON_CODE_F8_E4M3FN] = {3, -6, 0x43e80000, 0x80, 0x7e, 0x7f, 0x7f, 0xff, 0x100},      /* 464 becomes 448 */
    [TENON_CODE_F8_E4M3FNUZ] = {3, -7, 0x4377ffff, 0x80, 0x7f, 0x80, 0x80, 0xff, 0x80},     /* 248 */
    [TENON_CODE_F8_E5M2] = {2, -14, 0x476fffff, 0x80, 0x7b, 0x7c, 0x7e, 0x7c, 0x100},       /* 61440 */
    [TENON_CODE_F8_E5M2FNUZ] = {2, -15, 0x476fffff, 0x80, 0x7f, 0x80, 0x80, 0xff, 0x80},    /* 61440 */
    [TENON_CODE_F6_E2M3FN] = {3, 0, 0x40f00000, 0x20, 0x1f, 0x1f, 0, 0xff, 0x100},          /* 7.5 */
    [TENON_CODE_F6_E3M2FN] = {2, -2, 0x41e00000, 0x20, 0x1f, 0x1f, 0, 0xff, 0x100},         /* 28 */
    [TENON_CODE_F4_E2M1FN] = {1, 0, 0x40c00000, 0x8, 0x7, 0x7, 0, 0xff, 0x100},             /* 6 */
};

/* Integers that become f32 or f64 in one step. */
static const struct {
    uint8_t code;
    uint8_t bits;
    tenon__kernel *to_f32;
    tenon__kernel *to_f64;
} convert_direct[] = {
    {TENON_CODE_BOOL, 8, convert_bool_f32, convert_bool_f64}, {TENON_CODE_INT, 8, convert_i8_f32, convert_i8_f64},
    {TENON_CODE_INT, 16, convert_i16_f32, convert_i16_f64},   {TENON_CODE_INT, 32, convert_i32_f32, convert_i32_f64},
    {TENON_CODE_INT, 64, convert_i64_f32, convert_i64_f64},   {TENON_CODE_UINT, 8, convert_u8_f32, convert_u8_f64},
    {TENON_CODE_UINT, 16, convert_u16_f32, convert_u16_f64},  {TENON_CODE_UINT, 32, convert_u32_f32, convert_u32_f64},
    {TENON_CODE_UINT, 64, convert_u64_f32, convert_u64_f64},
};

bool tenon__number_init(tenon__number *number, tenon_dtype dtype)
{
    bool is_complex = dtype.code == TENON_CODE_COMPLEX;
    unsigned bits = is_complex ? dtype.bits / 2u : dtype.bits;
    unsigned code = is_complex ? TENON_CODE_FLOAT : dtype.code;
    if (!tenon__dtype_known(dtype) || code == TENON_CODE_OPAQUE || bits > 64)
        return false;
    *number = (tenon__number){.dtype = tenon_dtype_of((uint8_t)code, (uint8_t)bits, 1),
                              .bits = (int)bits,
                              .bytes = bits < 8 ? 1 : (int)bits / 8,
                              .is_signed = code == TENON_CODE_INT,
                              .is_integer = code <= TENON_CODE_UINT || code == TENON_CODE_BOOL};
    if (!number->is_integer && bits <= 8 && code != TENON_CODE_F8_E8M0FNU)
        number->format = &convert_formats[code];
    return true;
}

/* An integer to 64 bits; NULL if it has them. */
static tenon__kernel *convert_widening(const tenon__number *from)
{
    static tenon__kernel *const unsigned_kernels[] = {convert_u8_wide, convert_u16_wide, convert_u32_wide};
    static tenon__kernel *const signed_kernels[] = {convert_i8_wide, convert_i16_wide, convert_i32_wide};
    if (from->bits == 64)
        return NULL;
    if (from->dtype.code == TENON_CODE_BOOL)
        return convert_bool_wide;
    if (from->bits < 8)
        return convert_bits_wide;
    return (from->is_signed ? signed_kernels : unsigned_kernels)[from->bytes / 2];
}

/* 64 bits to an integer; NULL if it has them. */
static tenon__kernel *convert_narrowing(const tenon__number *to)
{
    static tenon__kernel *const kernels[] = {convert_wide_8, convert_wide_16, convert_wide_32};
    if (to->bits == 64)
        return NULL;
    if (to->dtype.code == TENON_CODE_BOOL)
        return convert_wide_bool;
    return to->bits < 8 ? convert_wide_bits : kernels[to->bytes / 2];
}

/* Between f32 and a float of at most 16 bits. */
static tenon__kernel *convert_to_f32(const tenon__number *from)
{
    if (from->bytes == 2)
        return from->dtype.code == TENON_CODE_BFLOAT ? convert_bf16_f32 : convert_f16_f32;
    return from->format ? convert_code_f32 : convert_power_f32;
}

static tenon__kernel *convert_from_f32(const tenon__number *to)
{
    if (to->bytes == 2)
        return to->dtype.code == TENON_CODE_BFLOAT ? convert_f32_bf16 : convert_f32_f16;
    return to->format ? convert_f32_code : convert_f32_power;
}

typedef struct convert_plan {
    tenon__step *steps;
    int count;
} convert_plan;

static void convert_add(convert_plan *plan, tenon__kernel *kernel, const tenon__number *number)
{
    if (kernel)
        plan->steps[plan->count++] = (tenon__step){kernel, number};
}

/* The steps from an integer. Returns false if the number is f64 now, and has to be converted from there. */
static bool convert_plan_integer(convert_plan *plan, const tenon__number *to, const tenon__number *from)
{
    for (size_t i = 0; !to->is_integer && to->bits >= 32 && i < sizeof convert_direct / sizeof *convert_direct; i++) {
        if (convert_direct[i].code == from->dtype.code && convert_direct[i].bits == from->bits) {
            convert_add(plan, to->bits == 32 ? convert_direct[i].to_f32 : convert_direct[i].to_f64, to);
            return true;
        }
    }
    convert_add(plan, convert_widening(from), from);
    if (to->is_integer)
        convert_add(plan, convert_narrowing(to), to);
    else
        convert_add(plan, from->is_signed ? convert_signed_odd : convert_unsigned_odd, from);
    return to->is_integer;
}

int tenon__convert_plan(const tenon__number *to, const tenon__number *from, tenon__step steps[TENON__MAX_STEPS])
{
    convert_plan plan = {steps, 0};
    if (tenon_dtype_equal(from->dtype, to->dtype) || (from->is_integer && convert_plan_integer(&plan, to, from)))
        return plan.count;
    bool is_f32 = !from->is_integer && from->bits <= 32; /* otherwise f64 */
    if (is_f32 && from->bits < 32)
        convert_add(&plan, convert_to_f32(from), from);
    if (!to->is_integer && to->bits < 32) {
        convert_add(&plan, is_f32 ? NULL : convert_f64_odd, to);
        convert_add(&plan, convert_from_f32(to), to);
    } else if (to->is_integer || to->bits == 64) {
        convert_add(&plan, is_f32 ? convert_f32_f64 : NULL, to);
    } else {
        convert_add(&plan, is_f32 ? NULL : convert_f64_f32, to);
    }
    if (to->dtype.code == TENON_CODE_BOOL) {
        convert_add(&plan, convert_f64_bool, to); /* 0.5 is true: it is not made an integer first */
    } else if (to->is_integer) {
        convert_add(&plan, to->is_signed ? convert_f64_signed : convert_f64_unsigned, to);
        convert_add(&plan, convert_narrowing(to), to);
    }
    return plan.count;
}
