/* The kernels of tenon_copy between two dtypes.
 *
 * A kernel converts chunks of exactly TENON__CHUNK contiguous values. The count is a constant, so that -O2 turns the loops
 * into vector code, and each memcpy of a value is one load or store that needs no alignment. Vectors need code without
 * branches, and SSE2, which every x86-64 has, compares only signed integers of up to 32 bits, and floats.
 *
 * Conversions have several steps. Between integers there is one, and so there is between f32, f64 and all but the smallest
 * integers. Floats of at most 16 bits become f32 first, which is exact. Only the last step rounds. If a step before it has to
 * drop bits, the number keeps a trace of them: its last bit becomes 1 ("rounding to odd"). As long as it has two bits more
 * than the result, the last step rounds it as it would have rounded the exact value. */
#include "internal.h"

#include <string.h>

#if defined(__GNUC__) && !defined(TENON__COVERAGE)
#define CONVERT_INLINE static inline __attribute__((__always_inline__))
#else
#define CONVERT_INLINE static inline
#endif

#if defined(__clang__)
#define CONVERT_ROLLED                                                                                                 \
    _Pragma("clang loop unroll(disable)") /* vectors need no more, and all kernels would be 84 KB larger */
#else
#define CONVERT_ROLLED
#endif

/* A loop whose body computes `To y` of `From x`. */
#define CONVERT_LOOP(attributes, name, From, To, ...)                                                                  \
    attributes static void name(char *restrict to, const char *restrict from, int64_t chunks,                          \
                                const tenon__number *type)                                                             \
    {                                                                                                                  \
        (void)type;                                                                                                    \
        for (; chunks > 0; chunks--, to += TENON__CHUNK * sizeof(To), from += TENON__CHUNK * sizeof(From)) {           \
            CONVERT_ROLLED                                                                                             \
            for (size_t i = 0; i < TENON__CHUNK; i++) {                                                                \
                From x;                                                                                                \
                To y;                                                                                                  \
                memcpy(&x, from + i * sizeof x, sizeof x);                                                             \
                __VA_ARGS__                                                                                            \
                memcpy(to + i * sizeof y, &y, sizeof y);                                                               \
            }                                                                                                          \
        }                                                                                                              \
    }

/* A kernel is an array of the same loop, by tenon__convert_level. Without FMA: a contraction would round otherwise. */
#if defined(__GNUC__) && defined(__x86_64__) && !defined(__AVX2__) && !defined(TENON_NO_SYSTEM)
#define CONVERT_KERNEL(name, From, To, ...)                                                                            \
    CONVERT_LOOP(, name##_baseline, From, To, __VA_ARGS__)                                                             \
    CONVERT_LOOP(__attribute__((__target__("avx2"))), name##_avx2, From, To, __VA_ARGS__)                              \
    static tenon__kernel *const name[] = {name##_baseline, name##_avx2};
#define CONVERT_HAS_LEVELS 1
#else
#define CONVERT_KERNEL(name, From, To, ...)                                                                            \
    CONVERT_LOOP(, name##_baseline, From, To, __VA_ARGS__)                                                             \
    static tenon__kernel *const name[] = {name##_baseline};
#define CONVERT_HAS_LEVELS 0
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
CONVERT_KERNEL(convert_u8_f32, uint8_t, float, y = (float)x;)
CONVERT_KERNEL(convert_u8_f64, uint8_t, double, y = (double)x;)
CONVERT_KERNEL(convert_u16_f32, uint16_t, float, y = (float)x;)
CONVERT_KERNEL(convert_u16_f64, uint16_t, double, y = (double)x;)
CONVERT_KERNEL(convert_u32_f32, uint32_t, float, y = (float)x;)
CONVERT_KERNEL(convert_u32_f64, uint32_t, double, y = (double)x;)
CONVERT_KERNEL(convert_u64_f32, uint64_t, float, y = (float)x;)

/* The halves of an integer become the mantissas of 2^84 + upper * 2^32 and of 2^52 + lower. Without these powers of two both
 * are exact, and their sum rounds once. */
CONVERT_INLINE double convert_f64_of_halves(uint64_t upper, uint64_t lower, double power)
{
    return convert_f64_of_bits(upper | UINT64_C(0x4530000000000000)) - power +
           convert_f64_of_bits(lower | UINT64_C(0x4330000000000000));
}

CONVERT_KERNEL(convert_i64_f64, uint64_t, double, {
    y = convert_f64_of_halves((x >> 32) ^ 0x80000000, x & UINT32_MAX, 0x1p84 + 0x1p63 + 0x1p52); /* the sign is 2^63 */
})
CONVERT_KERNEL(convert_u64_f64, uint64_t, double, y = convert_f64_of_halves(x >> 32, x &UINT32_MAX, 0x1p84 + 0x1p52);)

/* Integers to wider ones, which keep their values, and to narrower ones, which wrap. */
CONVERT_KERNEL(convert_i8_16, int8_t, int16_t, y = (int16_t)x;)
CONVERT_KERNEL(convert_i8_32, int8_t, int32_t, y = (int32_t)x;)
CONVERT_KERNEL(convert_i8_64, int8_t, int64_t, y = (int64_t)x;)
CONVERT_KERNEL(convert_u8_16, uint8_t, uint16_t, y = x;)
CONVERT_KERNEL(convert_u8_32, uint8_t, uint32_t, y = x;)
CONVERT_KERNEL(convert_u8_64, uint8_t, uint64_t, y = x;)
CONVERT_KERNEL(convert_i16_32, int16_t, int32_t, y = x;)
CONVERT_KERNEL(convert_i16_64, int16_t, int64_t, y = x;)
CONVERT_KERNEL(convert_u16_32, uint16_t, uint32_t, y = x;)
CONVERT_KERNEL(convert_u16_64, uint16_t, uint64_t, y = x;)
CONVERT_KERNEL(convert_i32_64, int32_t, int64_t, y = x;)
CONVERT_KERNEL(convert_u32_64, uint32_t, uint64_t, y = x;)
CONVERT_KERNEL(convert_16_8, uint16_t, uint8_t, y = (uint8_t)x;)
CONVERT_KERNEL(convert_32_8, uint32_t, uint8_t, y = (uint8_t)x;)
CONVERT_KERNEL(convert_64_8, uint64_t, uint8_t, y = (uint8_t)x;)
CONVERT_KERNEL(convert_32_16, uint32_t, uint16_t, y = (uint16_t)x;)
CONVERT_KERNEL(convert_64_16, uint64_t, uint16_t, y = (uint16_t)x;)
CONVERT_KERNEL(convert_64_32, uint64_t, uint32_t, y = (uint32_t)x;)

CONVERT_KERNEL(convert_8_bool, uint8_t, uint8_t, y = x != 0;)
CONVERT_KERNEL(convert_16_bool, uint16_t, uint8_t, y = x != 0;)
CONVERT_KERNEL(convert_32_bool, uint32_t, uint8_t, y = x != 0;)
CONVERT_KERNEL(convert_64_bool, uint64_t, uint8_t, y = x != 0;)
CONVERT_KERNEL(convert_f32_bool, float, uint8_t, y = x != 0;)
CONVERT_KERNEL(convert_f64_bool, double, uint8_t, y = x != 0;)

/* Integers of less than 8 bits, each in a byte, to those of 8 and back: the other bits of the byte are undefined when it is
 * read, and 0 when it is written. */
CONVERT_KERNEL(convert_bits_8, uint8_t, uint8_t, {
    const unsigned sign = (unsigned)type->is_signed << (type->bits - 1);
    y = (uint8_t)(((x & ((1u << type->bits) - 1)) ^ sign) - sign);
})
CONVERT_KERNEL(convert_8_bits, uint8_t, uint8_t, y = (uint8_t)(x & ((1u << type->bits) - 1));)

/* ---------------------------------------------------------------------------------------------- floats to integers
 * Toward zero, to the nearest end of the range, and NaN to 0. */

/* The largest number below 2^31 is 127 less than the largest integer. */
CONVERT_KERNEL(convert_f32_i32, float, int32_t, {
    const uint32_t too_large = -(uint32_t)(x >= 0x1p31f);
    float value = convert_f32_of_bits(convert_bits_of_f32(x) & -(uint32_t)(x == x));
    value = value > -0x1p31f ? value : -0x1p31f;
    value = value < 0x1.fffffep30f ? value : 0x1.fffffep30f;
    y = (int32_t)value | (int32_t)(too_large & 127);
})

/* Integers of at most 16 bits, for which one loop more makes them narrower. */
CONVERT_KERNEL(convert_f32_small, float, int32_t, {
    const float range = (float)(1 << (type->bits - type->is_signed));
    const float first = convert_f32_of_bits(convert_bits_of_f32(-range) & -(uint32_t)type->is_signed); /* or 0 */
    float value = convert_f32_of_bits(convert_bits_of_f32(x) & -(uint32_t)(x == x));
    value = value > first ? value : first;
    value = value < range - 1 ? value : range - 1;
    y = (int32_t)value;
})

/* All of these ranges have ends that f64 has. */
CONVERT_KERNEL(convert_f64_i32, double, int32_t, {
    const double range = convert_f64_of_bits((uint64_t)(1023 + type->bits - type->is_signed) << 52);
    const double first = convert_f64_of_bits(convert_bits_of_f64(-range) & -(uint64_t)type->is_signed); /* or 0 */
    double value = x == x ? x : 0;
    value = value > first ? value : first;
    value = value < range - 1 ? value : range - 1;
    y = (int32_t)value;
})
CONVERT_KERNEL(convert_f64_u32, double, uint32_t, {
    const uint64_t upper = -(uint64_t)(x >= 0x1p31);
    double value = x > 0 ? x : 0;
    value = value < 0x1p32 - 1 ? value : 0x1p32 - 1;
    const double lower = value - convert_f64_of_bits(upper & convert_bits_of_f64(0x1p31));
    y = (uint32_t)(int32_t)lower | ((uint32_t)upper & 0x80000000);
})

/* These have not: the ends are powers of two, and the largest integers are not. */
CONVERT_KERNEL(convert_f64_i64, double, int64_t, {
    const uint64_t bits = convert_bits_of_f64(x), size = bits & INT64_MAX;
    const uint64_t inside = -(uint64_t)(size < UINT64_C(0x43e0000000000000)); /* 2^63 */
    const uint64_t end = (INT64_MAX + (bits >> 63)) & -(uint64_t)(size <= UINT64_C(0x7ff0000000000000));
    y = (int64_t)((uint64_t)(int64_t)convert_f64_of_bits(bits & inside) | (end & ~inside));
})
CONVERT_KERNEL(convert_f64_u64, double, uint64_t, y = x >= 0x1p64 ? UINT64_MAX : x > 0 ? (uint64_t)x : 0;)

/* ------------------------------------------------------------------------------------------------------ f16, bf16 */

/* Adding `c` to a number rounds it to a multiple of the last bit of c. If c is chosen so that this is the last bit that the
 * target has for the number, the mantissa of the sum is the mantissa of the result, rounded to nearest even. Below the
 * smallest exponent of the target, c is constant: subnormal numbers are not a special case. Neither are numbers of 2^16 and
 * more, which become 2^16, whose code is that of infinity. */
CONVERT_KERNEL(convert_f32_f16, float, uint16_t, {
    const int32_t smallest = (127 - 14) << 23, largest = (127 + 16) << 23; /* powers of two, as bits */
    const uint32_t bits = convert_bits_of_f32(x);
    int32_t size = (int32_t)(bits & 0x7fffffff);
    size = size < largest ? size : largest; /* NaN too */
    int32_t power = size & 0x7f800000;
    power = power > smallest ? power : smallest;
    const float sum = convert_f32_of_bits((uint32_t)size) + convert_f32_of_bits((uint32_t)power + (13u << 23));
    const uint32_t code = ((uint32_t)(power - smallest) >> 13) + (convert_bits_of_f32(sum) & 0x7fffff);
    y = (uint16_t)(code | (-(uint32_t)(x != x) & 0x200) | (bits >> 16 & 0x8000));
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
    const uint32_t code = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    y = (uint16_t)convert_select((int32_t)(bits & 0x7fffffff) > 0x7f800000, bits >> 16 | 0x40, code);
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
CONVERT_KERNEL(convert_f64_power, double, uint8_t, {
    uint64_t code = ((convert_bits_of_f64(x) + (UINT64_C(1) << 51)) >> 52) - (1023 - 127);
    y = !(x > 0 && x < 0x1.8p127) ? 0xff : x < 0x1.8p-127 ? 0 : (uint8_t)code;
})
CONVERT_KERNEL(convert_power_f32, uint8_t, float, {
    uint32_t bits = x == 0xff ? 0x7fc00000 : (uint32_t)x << 23;
    y = convert_f32_of_bits(x == 0 ? 1u << 22 : bits);
})

/* ------------------------------------------------------------------------------------------------ rounding to odd */

/* f64 to f32, for floats of at most 16 bits: a bit instead of the lowest 40, so that 13 are left, two more than f16 has. A
 * number that f32 has not after that is below half of what is rounded to 0 by all of them but f8_e8m0fnu. */
CONVERT_KERNEL(convert_f64_odd, double, float, {
    const uint64_t rest = (UINT64_C(1) << 40) - 1, bits = convert_bits_of_f64(x);
    y = (float)convert_f64_of_bits((((bits & rest) + rest) | bits) & ~rest);
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
    tenon__kernel *const *to_f32;
    tenon__kernel *const *to_f64;
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

/* Integers to integers of another size, by the logarithms of both sizes. */
static tenon__kernel *const *const convert_widening[2][3][4] = {
    {{NULL, convert_u8_16, convert_u8_32, convert_u8_64},
     {NULL, NULL, convert_u16_32, convert_u16_64},
     {NULL, NULL, NULL, convert_u32_64}},
    {{NULL, convert_i8_16, convert_i8_32, convert_i8_64},
     {NULL, NULL, convert_i16_32, convert_i16_64},
     {NULL, NULL, NULL, convert_i32_64}},
};
static tenon__kernel *const *const convert_narrowing[4][3] = {
    {NULL, NULL, NULL},
    {convert_16_8, NULL, NULL},
    {convert_32_8, convert_32_16, NULL},
    {convert_64_8, convert_64_16, convert_64_32},
};
static tenon__kernel *const *const convert_to_bool[4] = {convert_8_bool, convert_16_bool, convert_32_bool,
                                                         convert_64_bool};

static int convert_log2(int bytes)
{
    return bytes == 8 ? 3 : bytes / 2;
}

/* Between f32 and a float of at most 16 bits. */
static tenon__kernel *const *convert_to_f32(const tenon__number *from)
{
    if (from->bytes == 2)
        return from->dtype.code == TENON_CODE_BFLOAT ? convert_bf16_f32 : convert_f16_f32;
    return from->format ? convert_code_f32 : convert_power_f32;
}

static tenon__kernel *const *convert_from_f32(const tenon__number *to)
{
    if (to->bytes == 2)
        return to->dtype.code == TENON_CODE_BFLOAT ? convert_f32_bf16 : convert_f32_f16;
    return to->format ? convert_f32_code : convert_f32_power;
}

typedef struct convert_plan {
    tenon__step *steps;
    int count;
    int level;
} convert_plan;

static void convert_add(convert_plan *plan, tenon__kernel *const *kernel, const tenon__number *number)
{
    if (kernel)
        plan->steps[plan->count++] = (tenon__step){kernel[plan->level], number};
}

/* The steps from an integer of at least 8 bits, whose sign matters if it becomes wider, to an integer. */
static void convert_plan_resize(convert_plan *plan, const tenon__number *to, int bytes, bool is_signed)
{
    const int from_log2 = convert_log2(bytes), to_log2 = convert_log2(to->bytes);
    if (to->dtype.code == TENON_CODE_BOOL)
        convert_add(plan, convert_to_bool[from_log2], to);
    else if (to_log2 > from_log2)
        convert_add(plan, convert_widening[is_signed][from_log2][to_log2], to);
    else if (to_log2 < from_log2)
        convert_add(plan, convert_narrowing[from_log2][to_log2], to);
    if (to->bits < 8)
        convert_add(plan, convert_8_bits, to);
}

/* The steps from f32 or f64 to a float. */
static void convert_plan_float(convert_plan *plan, const tenon__number *to, bool is_f32)
{
    if (to->bits == 64) {
        convert_add(plan, is_f32 ? convert_f32_f64 : NULL, to);
    } else if (to->bits == 32) {
        convert_add(plan, is_f32 ? NULL : convert_f64_f32, to);
    } else if (!is_f32 && to->dtype.code == TENON_CODE_F8_E8M0FNU) {
        convert_add(plan, convert_f64_power, to);
    } else {
        convert_add(plan, is_f32 ? NULL : convert_f64_odd, to);
        convert_add(plan, convert_from_f32(to), to);
    }
}

/* The steps from an integer to a float: by f32 if that has all of the source's values, or is the target. */
static void convert_plan_integer(convert_plan *plan, const tenon__number *to, const tenon__number *from)
{
    if (to->bits < 32 && from->bits == 64) {
        convert_add(plan, from->is_signed ? convert_signed_odd : convert_unsigned_odd, from);
        convert_plan_float(plan, to, false);
        return;
    }
    const bool is_f32 = to->bits == 32 || (to->bits < 32 && from->bits <= 16);
    const int bits = from->bits < 8 ? 8 : from->bits;
    for (size_t i = 0; i < sizeof convert_direct / sizeof *convert_direct; i++) {
        if (convert_direct[i].code == from->dtype.code && convert_direct[i].bits == bits)
            convert_add(plan, is_f32 ? convert_direct[i].to_f32 : convert_direct[i].to_f64, to);
    }
    convert_plan_float(plan, to, is_f32);
}

/* The steps from f32 or f64 to an integer. */
static void convert_plan_truncate(convert_plan *plan, const tenon__number *to, bool is_f32)
{
    if (to->dtype.code == TENON_CODE_BOOL) { /* 0.5 is true: it is not made an integer first */
        convert_add(plan, is_f32 ? convert_f32_bool : convert_f64_bool, to);
    } else if (is_f32 && to->is_signed && to->bits == 32) {
        convert_add(plan, convert_f32_i32, to);
    } else if (is_f32 && to->bits <= 16) {
        convert_add(plan, convert_f32_small, to);
        convert_plan_resize(plan, to, 4, true);
    } else {
        convert_add(plan, is_f32 ? convert_f32_f64 : NULL, to);
        if (to->bits == 64) {
            convert_add(plan, to->is_signed ? convert_f64_i64 : convert_f64_u64, to);
        } else if (to->bits == 32 && !to->is_signed) {
            convert_add(plan, convert_f64_u32, to);
        } else {
            convert_add(plan, convert_f64_i32, to);
            convert_plan_resize(plan, to, 4, true);
        }
    }
}

int tenon__convert_level(void)
{
#if CONVERT_HAS_LEVELS
    static _Atomic int known; /* the level and 1: asking the CPU takes long on virtual machines */
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level == 0) {
        level = tenon__cpu_has("x86-64-v3") ? 2 : 1;
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return level - 1;
#else
    return 0;
#endif
}

int tenon__convert_plan(const tenon__number *to, const tenon__number *from, int level,
                        tenon__step steps[TENON__MAX_STEPS])
{
    convert_plan plan = {steps, 0, level};
    if (tenon_dtype_equal(from->dtype, to->dtype))
        return 0;
    if (from->is_integer) {
        if (from->bits < 8)
            convert_add(&plan, convert_bits_8, from);
        else if (from->dtype.code == TENON_CODE_BOOL && to->is_integer)
            convert_add(&plan, convert_8_bool, from);
        if (to->is_integer)
            convert_plan_resize(&plan, to, from->bytes, from->is_signed);
        else
            convert_plan_integer(&plan, to, from);
        return plan.count;
    }
    const bool is_f32 = from->bits <= 32; /* otherwise f64 */
    if (from->bits < 32)
        convert_add(&plan, convert_to_f32(from), from);
    if (to->is_integer)
        convert_plan_truncate(&plan, to, is_f32);
    else
        convert_plan_float(&plan, to, is_f32);
    return plan.count;
}
