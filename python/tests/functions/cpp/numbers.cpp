// Conversions of the small floats of tenon/function.hpp, for test_cpp_numbers.py, which calls them with ctypes.
#include <tenon/function.hpp>

using tenon::bf16;
using tenon::f16;
using tenon::f8_e4m3fn;
using tenon::f8_e5m2;

// They are constant expressions, and plain memory.
static_assert(float(f16(1.5f)) == 1.5f && f16(65520.0).bits() == 0x7c00 && f16(-3).bits() == 0xc200);
static_assert(bf16(1.0).bits() == 0x3f80 && f8_e4m3fn(448).bits() == 0x7e && f8_e5m2(1e9).bits() == 0x7c);
static_assert(bf16(16842753).bits() == bf16(16908288.0).bits()); // not by way of float, which is a tie
static_assert(sizeof(f16) == 2 && sizeof(bf16) == 2 && sizeof(f8_e4m3fn) == 1 && sizeof(f8_e5m2) == 1);
static_assert(std::is_trivial<f16>::value && std::is_trivially_copyable<f8_e5m2>::value);

// The dtype of each C++ type, and the type of each dtype.
constexpr bool is(tenon_dtype dtype, int code, int bits)
{
    return dtype.code == code && dtype.bits == bits && dtype.lanes == (bits ? 1 : 0);
}
static_assert(is(tenon::dtype_of<bool>, TENON_CODE_BOOL, 8) && is(tenon::dtype_of<int8_t>, TENON_CODE_INT, 8));
static_assert(is(tenon::dtype_of<long>, TENON_CODE_INT, 64) && is(tenon::dtype_of<long long>, TENON_CODE_INT, 64));
static_assert(is(tenon::dtype_of<uint16_t>, TENON_CODE_UINT, 16) && is(tenon::dtype_of<float>, TENON_CODE_FLOAT, 32));
static_assert(is(tenon::dtype_of<f16>, TENON_CODE_FLOAT, 16) && is(tenon::dtype_of<bf16>, TENON_CODE_BFLOAT, 16));
static_assert(is(tenon::dtype_of<tenon::complex<double>>, TENON_CODE_COMPLEX, 128));
static_assert(is(tenon::dtype_of<char>, 0, 0) && is(tenon::dtype_of<float *>, 0, 0) && is(tenon::dtype_of<void>, 0, 0));

template <class T> constexpr bool round_trips()
{
    constexpr tenon_dtype dtype = tenon::dtype_of<T>;
    return std::is_same<typename tenon::impl::type_of<dtype.code, dtype.bits>::type, T>::value;
}
static_assert(round_trips<bool>() && round_trips<int8_t>() && round_trips<int64_t>() && round_trips<uint64_t>());
static_assert(round_trips<f16>() && round_trips<float>() && round_trips<double>() && round_trips<bf16>());
static_assert(round_trips<f8_e4m3fn>() && round_trips<f8_e5m2>() && round_trips<tenon::complex<float>>());
static_assert(std::is_same<tenon::impl::type_of<TENON_CODE_F8_E3M4, 8>::type, void>::value);

// Complex numbers.
using complex = tenon::complex<float>;
static_assert(complex(1, 2) * complex(0, 1) == complex(-2, 1) && complex(4, 2) / complex(1, 1) == complex(3, -1));
static_assert(complex(1, 2) + complex(3) - complex(0, 2) == complex(4) && complex(1, 2) != complex(1));
static_assert(complex(tenon::complex<double>(1, 2)) == complex(1, 2));

// The same expression as for float and double, and each operator that assigns.
template <class T> static void calculate(double a, const T *x, const T *y, T *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = a * x[i] + y[i];
        out[i] += x[i];
        out[i] -= 1;
        out[i] *= 2.0f;
        out[i] /= a;
    }
}

#define CONVERSIONS(name)                                                                                              \
    extern "C" void name##_to_float(const name *x, float *out, size_t n)                                               \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            out[i] = x[i];                                                                                             \
    }                                                                                                                  \
    extern "C" void name##_from_float(const float *x, name *out, size_t n)                                             \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            out[i] = x[i];                                                                                             \
    }                                                                                                                  \
    extern "C" void name##_from_double(const double *x, name *out, size_t n)                                           \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            out[i] = x[i];                                                                                             \
    }                                                                                                                  \
    extern "C" void name##_calculate(double a, const name *x, const name *y, name *out, size_t n)                      \
    {                                                                                                                  \
        calculate(a, x, y, out, n);                                                                                    \
    }

CONVERSIONS(f16)
CONVERSIONS(bf16)
CONVERSIONS(f8_e4m3fn)
CONVERSIONS(f8_e5m2)
