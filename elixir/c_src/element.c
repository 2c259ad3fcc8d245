#include "nif.h"

#include <math.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- doubles */

/* Read an integer of any size. The NIF API has no function for that, but the external format has its sign and bytes. */
static bool get_big(ErlNifEnv *env, ERL_NIF_TERM term, double *out)
{
    enum { SMALL_BIG_EXT = 110, LARGE_BIG_EXT = 111 };
    ErlNifBinary bytes;
    if (!enif_is_number(env, term) || !enif_term_to_binary(env, term, &bytes))
        return false;
    bool is_small = bytes.size > 4 && bytes.data[1] == SMALL_BIG_EXT;
    bool is_large = bytes.size > 7 && bytes.data[1] == LARGE_BIG_EXT;
    size_t start = is_small ? 4 : 7;
    double value = 0;
    if (is_small || is_large) {
        /* Of the bytes below the highest eight only matters whether they are all 0, which decides how ties are rounded. */
        uint64_t top = 0;
        size_t end = bytes.size, low = end - start > 8 ? end - 8 : start;
        for (size_t i = end; i > low; i--)
            top = top << 8 | bytes.data[i - 1];
        for (size_t i = start; i < low; i++)
            top |= bytes.data[i] != 0;
        size_t shift = 8 * (low - start);
        value = ldexp((double)top, shift > 2000 ? 2000 : (int)shift);
        value = bytes.data[start - 1] ? -value : value;
    }
    enif_release_binary(&bytes);
    *out = value;
    return (is_small || is_large) && !isinf(value);
}

bool tenon_nif_get_double(ErlNifEnv *env, ERL_NIF_TERM term, double *out)
{
    ErlNifSInt64 integer;
    if (enif_get_double(env, term, out))
        return true;
    if (enif_get_int64(env, term, &integer)) {
        *out = (double)integer;
        return true;
    }
    if (enif_is_atom(env, term)) {
        const tenon_nif_atom_table *a = &tenon_nif_atoms;
        if (enif_is_identical(term, a->nan))
            *out = (double)NAN;
        else if (enif_is_identical(term, a->infinity))
            *out = (double)INFINITY;
        else if (enif_is_identical(term, a->neg_infinity))
            *out = -(double)INFINITY;
        else
            return false;
        return true;
    }
    return get_big(env, term, out);
}

ERL_NIF_TERM tenon_nif_make_double(ErlNifEnv *env, double value)
{
    if (isnan(value))
        return tenon_nif_atoms.nan;
    if (isinf(value))
        return value > 0 ? tenon_nif_atoms.infinity : tenon_nif_atoms.neg_infinity;
    return enif_make_double(env, value);
}

/* ---------------------------------------------------------------------------------------------------- small floats */

/* IEEE: the highest exponent is for infinities and NaNs. FN: no infinity, NaN is all ones. FNUZ: NaN has the bits
 * of -0. */
typedef enum family { IEEE, FN, FNUZ } family;

typedef struct small_float {
    int exponent_bits;
    int fraction_bits;
    int bias;
    family family;
} small_float;

static const small_float *small_float_of(tenon_dtype dtype)
{
    static const small_float half = {5, 10, 15, IEEE}, brain = {8, 7, 127, IEEE};
    static const small_float eights[] = {
        [TENON_CODE_F8_E3M4] = {3, 4, 3, IEEE},         [TENON_CODE_F8_E4M3] = {4, 3, 7, IEEE},
        [TENON_CODE_F8_E4M3B11FNUZ] = {4, 3, 11, FNUZ}, [TENON_CODE_F8_E4M3FN] = {4, 3, 7, FN},
        [TENON_CODE_F8_E4M3FNUZ] = {4, 3, 8, FNUZ},     [TENON_CODE_F8_E5M2] = {5, 2, 15, IEEE},
        [TENON_CODE_F8_E5M2FNUZ] = {5, 2, 16, FNUZ},
    };
    if (dtype.code == TENON_CODE_FLOAT && dtype.bits == 16)
        return &half;
    if (dtype.code == TENON_CODE_BFLOAT)
        return &brain;
    return dtype.code >= TENON_CODE_F8_E3M4 && dtype.code <= TENON_CODE_F8_E5M2FNUZ ? &eights[dtype.code] : NULL;
}

static double decode(const small_float *format, unsigned bits)
{
    int magnitude_bits = format->exponent_bits + format->fraction_bits;
    unsigned sign = bits >> magnitude_bits & 1, magnitude = bits & ((1u << magnitude_bits) - 1);
    unsigned exponent = magnitude >> format->fraction_bits, fraction = magnitude & ((1u << format->fraction_bits) - 1);
    unsigned top = (1u << format->exponent_bits) - 1;
    if (format->family == IEEE && exponent == top)
        return fraction ? (double)NAN : sign ? -(double)INFINITY : (double)INFINITY;
    if ((format->family == FN && magnitude == (1u << magnitude_bits) - 1) ||
        (format->family == FNUZ && sign && magnitude == 0))
        return (double)NAN;
    unsigned whole = exponent ? fraction + (1u << format->fraction_bits) : fraction;
    double value = ldexp(whole, (exponent ? (int)exponent : 1) - format->bias - format->fraction_bits);
    return sign ? -value : value;
}

/* Round to nearest, ties to even. False: outside the range of the format. */
static bool encode(const small_float *format, double value, unsigned *out)
{
    int magnitude_bits = format->exponent_bits + format->fraction_bits;
    unsigned sign = 1u << magnitude_bits, all = sign - 1;
    unsigned infinity = ((1u << format->exponent_bits) - 1) << format->fraction_bits;
    if (isnan(value)) {
        *out = format->family == FNUZ ? sign
               : format->family == FN ? all
                                      : infinity | 1u << (format->fraction_bits - 1);
        return true;
    }
    if (!signbit(value))
        sign = 0;
    if (isinf(value)) {
        *out = sign | infinity;
        return format->family == IEEE;
    }
    if (value == 0) {
        *out = format->family == FNUZ ? 0 : sign;
        return true;
    }
    int exponent;
    frexp(value, &exponent);
    exponent = exponent - 1 < 1 - format->bias ? 1 - format->bias : exponent - 1;
    double scaled = rint(ldexp(fabs(value), format->fraction_bits - exponent));
    int shifted = exponent + format->bias - 1;
    if (shifted > 1 << format->exponent_bits)
        return false;
    unsigned magnitude = (unsigned)scaled + ((unsigned)shifted << format->fraction_bits);
    unsigned largest = format->family == IEEE ? infinity - 1 : format->family == FN ? all - 1 : all;
    *out = format->family == FNUZ && magnitude == 0 ? 0 : sign | magnitude;
    return magnitude <= largest;
}

/* -------------------------------------------------------------------------------------------------------- elements */

bool tenon_nif_type_has_terms(tenon_dtype dtype)
{
    switch (dtype.code) {
    case TENON_CODE_INT:
    case TENON_CODE_UINT:
    case TENON_CODE_FLOAT:
        return dtype.bits <= 64;
    case TENON_CODE_COMPLEX:
    case TENON_CODE_BOOL:
        return true;
    default:
        return small_float_of(dtype) != NULL;
    }
}

static bool put_real(double value, tenon_dtype dtype, void *data)
{
    const small_float *small = small_float_of(dtype);
    unsigned bits;
    if (small && !encode(small, value, &bits))
        return false;
    if (small && dtype.bits == 8) {
        *(uint8_t *)data = (uint8_t)bits;
    } else if (small) {
        uint16_t half = (uint16_t)bits;
        memcpy(data, &half, sizeof half);
    } else if (dtype.bits == 32) {
        float single = (float)value;
        memcpy(data, &single, sizeof single);
        return !isinf(single) || isinf(value);
    } else {
        memcpy(data, &value, sizeof value);
    }
    return true;
}

static double take_real(tenon_dtype dtype, const void *data)
{
    const small_float *small = small_float_of(dtype);
    uint16_t half;
    float single;
    double value;
    if (small && dtype.bits == 8)
        return decode(small, *(const uint8_t *)data);
    if (small) {
        memcpy(&half, data, sizeof half);
        return decode(small, half);
    }
    if (dtype.bits == 32) {
        memcpy(&single, data, sizeof single);
        return (double)single;
    }
    memcpy(&value, data, sizeof value);
    return value;
}

/* Numbers in the byte order of this machine, which is little-endian on all of Tenon's hosts. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers are cut at their low bytes");

static bool get_integer(ErlNifEnv *env, ERL_NIF_TERM term, tenon_dtype dtype, void *data)
{
    ErlNifSInt64 value;
    ErlNifUInt64 natural;
    if (dtype.code == TENON_CODE_UINT) {
        if (!enif_get_uint64(env, term, &natural) || (dtype.bits < 64 && natural >> dtype.bits))
            return false;
        memcpy(data, &natural, dtype.bits / 8);
        return true;
    }
    if (!enif_get_int64(env, term, &value))
        return false;
    if (dtype.bits < 64 && (value < -((int64_t)1 << (dtype.bits - 1)) || value >= (int64_t)1 << (dtype.bits - 1)))
        return false;
    memcpy(data, &value, dtype.bits / 8);
    return true;
}

static ERL_NIF_TERM make_integer(ErlNifEnv *env, tenon_dtype dtype, const void *data)
{
    uint64_t bits = 0;
    memcpy(&bits, data, dtype.bits / 8);
    if (dtype.code == TENON_CODE_UINT)
        return enif_make_uint64(env, bits);
    uint64_t sign = (uint64_t)1 << (dtype.bits - 1);
    return enif_make_int64(env, (int64_t)((bits ^ sign) - sign));
}

static bool get_bool(ErlNifEnv *env, ERL_NIF_TERM term, uint8_t *data)
{
    int value;
    if (enif_is_identical(term, tenon_nif_atoms.yes) || (enif_get_int(env, term, &value) && value == 1))
        *data = 1;
    else if (enif_is_identical(term, tenon_nif_atoms.no) || (enif_get_int(env, term, &value) && value == 0))
        *data = 0;
    else
        return false;
    return true;
}

static tenon_dtype part_of(tenon_dtype complex)
{
    return tenon_dtype_of(TENON_CODE_FLOAT, complex.bits / 2, 1);
}

bool tenon_nif_get_element(ErlNifEnv *env, ERL_NIF_TERM term, tenon_dtype dtype, void *data)
{
    double value, imaginary = 0;
    const ERL_NIF_TERM *parts;
    int size;
    switch (dtype.code) {
    case TENON_CODE_INT:
    case TENON_CODE_UINT:
        return get_integer(env, term, dtype, data);
    case TENON_CODE_BOOL:
        return get_bool(env, term, data);
    case TENON_CODE_COMPLEX:
        if (enif_get_tuple(env, term, &size, &parts)) {
            if (size != 2 || !tenon_nif_get_double(env, parts[1], &imaginary))
                return false;
            term = parts[0];
        }
        return tenon_nif_get_double(env, term, &value) && put_real(value, part_of(dtype), data) &&
               put_real(imaginary, part_of(dtype), (char *)data + dtype.bits / 16);
    default:
        return tenon_nif_get_double(env, term, &value) && put_real(value, dtype, data);
    }
}

ERL_NIF_TERM tenon_nif_make_element(ErlNifEnv *env, tenon_dtype dtype, const void *data)
{
    switch (dtype.code) {
    case TENON_CODE_INT:
    case TENON_CODE_UINT:
        return make_integer(env, dtype, data);
    case TENON_CODE_BOOL:
        return *(const uint8_t *)data ? tenon_nif_atoms.yes : tenon_nif_atoms.no;
    case TENON_CODE_COMPLEX:
        return enif_make_tuple2(
            env, tenon_nif_make_double(env, take_real(part_of(dtype), data)),
            tenon_nif_make_double(env, take_real(part_of(dtype), (const char *)data + dtype.bits / 16)));
    default:
        return tenon_nif_make_double(env, take_real(dtype, data));
    }
}
