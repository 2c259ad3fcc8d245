// The C++ types of dtypes, and small types for the floats that C++ does not have.
//
//   tenon::f16, tenon::bf16, tenon::f8_e4m3fn, tenon::f8_e5m2
//
// They convert to float implicitly, and from a number by assignment or explicitly, so that the same expression works
// for all of them: z(i) = a * x(i) + y(i). Arithmetic happens in float or double. Conversions round to the nearest
// value, and to the even one of two that are equally near. A number that is too large becomes infinity, or NaN in
// f8_e4m3fn, which has no infinity.
#ifndef TENON_CPP_NUMBERS_HPP
#define TENON_CPP_NUMBERS_HPP

#include <tenon/cpp/tokens.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

template <class To, class From> TENON__DEVICE constexpr To bit_cast(From from)
{
    static_assert(sizeof(To) == sizeof(From), "a value of the same size");
    return __builtin_bit_cast(To, from);
}

template <class Element> const Element &some(); // never defined

template <int Bytes> struct storage;
template <> struct storage<1> {
    using type = uint8_t;
};
template <> struct storage<2> {
    using type = uint16_t;
};

// The type in which a number is calculated with: float for a float, double for all others.
TENON__DEVICE constexpr float widen(float value)
{
    return value;
}

template <class Number> TENON__DEVICE constexpr double widen(Number value)
{
    return static_cast<double>(value);
}

// The bits of a value of IEEE 754, with `Exponent` and `Mantissa` bits in `Word`, rounded to a smaller format without
// its sign. The smaller format has no infinity if `Finite`: the largest pattern is its NaN.
template <int Exponent, int Mantissa, bool Finite, int From, class Word>
TENON__DEVICE constexpr Word round_bits(Word magnitude)
{
    constexpr int width = static_cast<int>(sizeof(Word)) * 8;
    constexpr int from_bias = (1 << (width - 2 - From)) - 1, bias = (1 << (Exponent - 1)) - 1;
    constexpr Word one = 1, infinity = (one << (width - 1)) - (one << From);
    constexpr Word nan = (one << (Exponent + Mantissa)) - 1;             // the largest pattern
    constexpr Word highest = nan - (Finite ? 0 : (one << Mantissa) - 1); // NaN, or infinity
    constexpr Word rebias = static_cast<Word>(from_bias - bias) << From;
    constexpr int shift = From - Mantissa;
    if (magnitude > infinity)
        return Finite ? nan : highest | (one << (Mantissa - 1));
    if (magnitude >= rebias + (one << From) || from_bias == bias) {
        Word value = magnitude - rebias;
        value = (value + ((one << (shift - 1)) - 1) + ((value >> shift) & 1)) >> shift;
        return value < highest ? value : highest;
    }
    // Below the smallest normal number of the smaller format: the mantissa loses more bits the smaller it is.
    int below = static_cast<int>((rebias + (one << From) - magnitude + (one << From) - 1) >> From);
    int lost = shift + below;
    if (lost > From + 1 || magnitude < (one << From))
        return 0;
    Word value = (magnitude & ((one << From) - 1)) | (one << From);
    return (value + ((one << (lost - 1)) - 1) + ((value >> lost) & 1)) >> lost;
}

} // namespace impl

// A float of 8 or 16 bits: one for the sign, then its exponent and its mantissa. It has no constructor without
// arguments of its own, so that arrays of it are plain memory.
template <int Exponent, int Mantissa, bool Finite> class small_float
{
  public:
    using bits_type = typename impl::storage<(1 + Exponent + Mantissa) / 8>::type;

    small_float() = default;

    TENON__DEVICE TENON__HIDDEN constexpr explicit small_float(float value)
        : bits_(round(impl::bit_cast<uint32_t>(value)))
    {
    }

    TENON__DEVICE TENON__HIDDEN constexpr explicit small_float(double value)
        : bits_(round(impl::bit_cast<uint64_t>(value)))
    {
    }

    // Any other number, such as an integer.
    template <class Number, class = decltype(static_cast<double>(Number()))>
    TENON__DEVICE TENON__HIDDEN constexpr explicit small_float(Number value) : small_float(static_cast<double>(value))
    {
    }

    template <class Number, class = decltype(static_cast<double>(Number()))>
    TENON__DEVICE TENON__HIDDEN constexpr small_float &operator=(Number value)
    {
        return *this = small_float(value);
    }

    template <class Number> TENON__DEVICE TENON__HIDDEN constexpr small_float &operator+=(Number value)
    {
        return *this = static_cast<float>(*this) + impl::widen(value);
    }

    template <class Number> TENON__DEVICE TENON__HIDDEN constexpr small_float &operator-=(Number value)
    {
        return *this = static_cast<float>(*this) - impl::widen(value);
    }

    template <class Number> TENON__DEVICE TENON__HIDDEN constexpr small_float &operator*=(Number value)
    {
        return *this = static_cast<float>(*this) * impl::widen(value);
    }

    template <class Number> TENON__DEVICE TENON__HIDDEN constexpr small_float &operator/=(Number value)
    {
        return *this = static_cast<float>(*this) / impl::widen(value);
    }

    TENON__DEVICE TENON__HIDDEN constexpr operator float() const
    {
        uint32_t sign = static_cast<uint32_t>(bits_ >> (Exponent + Mantissa)) << 31;
        uint32_t value = bits_ & mask;
        if (Exponent == 8) // the same exponents as float
            return impl::bit_cast<float>(sign | value << (23 - Mantissa));
        uint32_t fraction = value & ((1u << Mantissa) - 1);
        if (value >> Mantissa == 0) { // exact: the mantissa has few bits
            float small = static_cast<float>(fraction) * impl::bit_cast<float>(uint32_t{128 - bias - Mantissa} << 23);
            return impl::bit_cast<float>(sign | impl::bit_cast<uint32_t>(small));
        }
        uint32_t wide = (value << (23 - Mantissa)) + (uint32_t{127 - bias} << 23);
        if (Finite ? value == mask : value >> Mantissa == (1u << Exponent) - 1)
            wide = 0x7f800000 | (Finite ? 1u << 22 : fraction << (23 - Mantissa));
        return impl::bit_cast<float>(sign | wide);
    }

    // The value with these bits, and its bits.
    TENON__DEVICE TENON__HIDDEN static constexpr small_float from_bits(bits_type bits)
    {
        small_float value(0.0f);
        value.bits_ = bits;
        return value;
    }

    TENON__DEVICE TENON__HIDDEN constexpr bits_type bits() const
    {
        return bits_;
    }

  private:
    static constexpr uint32_t mask = (1u << (Exponent + Mantissa)) - 1;
    static constexpr uint32_t bias = (1u << (Exponent - 1)) - 1;
    bits_type bits_;

    TENON__DEVICE TENON__HIDDEN static constexpr bits_type round(uint32_t value)
    {
        return join(value >> 31, impl::round_bits<Exponent, Mantissa, Finite, 23>(value & 0x7fffffff));
    }

    TENON__DEVICE TENON__HIDDEN static constexpr bits_type round(uint64_t value)
    {
        return join(
            static_cast<uint32_t>(value >> 63),
            static_cast<uint32_t>(impl::round_bits<Exponent, Mantissa, Finite, 52>(value & 0x7fffffffffffffff)));
    }

    TENON__DEVICE TENON__HIDDEN static constexpr bits_type join(uint32_t sign, uint32_t magnitude)
    {
        return static_cast<bits_type>(sign << (Exponent + Mantissa) | magnitude);
    }
};

// A complex number that needs no other header, for functions that are instantiated for c64 and c128. It converts to
// and from every type with real() and imag(), such as std::complex.
template <class Part> class complex
{
  public:
    using value_type = Part;

    complex() = default;

    TENON__DEVICE TENON__HIDDEN constexpr complex(Part real, Part imag = 0) : real_(real), imag_(imag)
    {
    }

    template <class Other, class = decltype(impl::some<Other>().imag())>
    TENON__DEVICE TENON__HIDDEN constexpr complex(const Other &other)
        : real_(static_cast<Part>(other.real())), imag_(static_cast<Part>(other.imag()))
    {
    }

    template <class Other, class = decltype(Other(Part(), Part()).imag())>
    TENON__DEVICE TENON__HIDDEN constexpr explicit operator Other() const
    {
        return Other(real_, imag_);
    }

    TENON__DEVICE TENON__HIDDEN constexpr Part real() const
    {
        return real_;
    }

    TENON__DEVICE TENON__HIDDEN constexpr Part imag() const
    {
        return imag_;
    }

    TENON__DEVICE TENON__HIDDEN friend constexpr complex operator+(complex a, complex b)
    {
        return {a.real_ + b.real_, a.imag_ + b.imag_};
    }

    TENON__DEVICE TENON__HIDDEN friend constexpr complex operator-(complex a, complex b)
    {
        return {a.real_ - b.real_, a.imag_ - b.imag_};
    }

    TENON__DEVICE TENON__HIDDEN friend constexpr complex operator*(complex a, complex b)
    {
        return {a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_};
    }

    TENON__DEVICE TENON__HIDDEN friend constexpr complex operator/(complex a, complex b)
    {
        Part square = b.real_ * b.real_ + b.imag_ * b.imag_;
        complex product = a * complex(b.real_, -b.imag_);
        return {product.real_ / square, product.imag_ / square};
    }

    TENON__DEVICE TENON__HIDDEN friend constexpr bool operator==(complex a, complex b)
    {
        return a.real_ == b.real_ && a.imag_ == b.imag_;
    }

    TENON__DEVICE TENON__HIDDEN friend constexpr bool operator!=(complex a, complex b)
    {
        return !(a == b);
    }

  private:
    Part real_, imag_;
};

using f16 = small_float<5, 10, false>;
using bf16 = small_float<8, 7, false>;
using f8_e4m3fn = small_float<4, 3, true>;
using f8_e5m2 = small_float<5, 2, false>;

namespace impl TENON__HIDDEN
{

// ------------------------------------------------------------------------------------------------- dtypes and types

// The dtype of a C++ type. Its bits are 0 if the type has none.
template <class Element, class = void> struct dtype_code {
    static constexpr tenon_dtype value()
    {
        return make_dtype(0, 0, 0);
    }
};

template <int Code, int Bits> struct known_dtype {
    static constexpr tenon_dtype value()
    {
        return make_dtype(Code, Bits);
    }
};

template <class Element> struct signed_dtype : known_dtype<TENON_CODE_INT, static_cast<int>(sizeof(Element)) * 8> {
};
template <class Element> struct unsigned_dtype : known_dtype<TENON_CODE_UINT, static_cast<int>(sizeof(Element)) * 8> {
};

template <> struct dtype_code<bool> : known_dtype<TENON_CODE_BOOL, 8> {
};
template <> struct dtype_code<signed char> : signed_dtype<signed char> {
};
template <> struct dtype_code<short> : signed_dtype<short> {
};
template <> struct dtype_code<int> : signed_dtype<int> {
};
template <> struct dtype_code<long> : signed_dtype<long> {
};
template <> struct dtype_code<long long> : signed_dtype<long long> {
};
template <> struct dtype_code<unsigned char> : unsigned_dtype<unsigned char> {
};
template <> struct dtype_code<unsigned short> : unsigned_dtype<unsigned short> {
};
template <> struct dtype_code<unsigned int> : unsigned_dtype<unsigned int> {
};
template <> struct dtype_code<unsigned long> : unsigned_dtype<unsigned long> {
};
template <> struct dtype_code<unsigned long long> : unsigned_dtype<unsigned long long> {
};
template <> struct dtype_code<float> : known_dtype<TENON_CODE_FLOAT, 32> {
};
template <> struct dtype_code<double> : known_dtype<TENON_CODE_FLOAT, 64> {
};
template <> struct dtype_code<f16> : known_dtype<TENON_CODE_FLOAT, 16> {
};
template <> struct dtype_code<bf16> : known_dtype<TENON_CODE_BFLOAT, 16> {
};
template <> struct dtype_code<f8_e4m3fn> : known_dtype<TENON_CODE_F8_E4M3FN, 8> {
};
template <> struct dtype_code<f8_e5m2> : known_dtype<TENON_CODE_F8_E5M2, 8> {
};

// A complex number of any library: two parts of its value_type, and nothing else.
template <class Part> struct complex_part;
template <> struct complex_part<float> {
    using type = void;
};
template <> struct complex_part<double> {
    using type = void;
};

template <class Element>
struct dtype_code<Element,
                  decltype(static_cast<void>(some<Element>().real()), static_cast<void>(some<Element>().imag()),
                           static_cast<typename complex_part<typename Element::value_type>::type>(0))> {
    static constexpr tenon_dtype value()
    {
        static_assert(sizeof(Element) == 2 * sizeof(typename Element::value_type),
                      "a complex number consists of its two parts");
        return make_dtype(TENON_CODE_COMPLEX, static_cast<int>(sizeof(Element)) * 8);
    }
};

// The C++ type of a dtype, or void if it has none.
template <int Code, int Bits> struct type_of {
    using type = void;
};
template <> struct type_of<TENON_CODE_BOOL, 8> {
    using type = bool;
};
template <> struct type_of<TENON_CODE_INT, 8> {
    using type = int8_t;
};
template <> struct type_of<TENON_CODE_INT, 16> {
    using type = int16_t;
};
template <> struct type_of<TENON_CODE_INT, 32> {
    using type = int32_t;
};
template <> struct type_of<TENON_CODE_INT, 64> {
    using type = int64_t;
};
template <> struct type_of<TENON_CODE_UINT, 8> {
    using type = uint8_t;
};
template <> struct type_of<TENON_CODE_UINT, 16> {
    using type = uint16_t;
};
template <> struct type_of<TENON_CODE_UINT, 32> {
    using type = uint32_t;
};
template <> struct type_of<TENON_CODE_UINT, 64> {
    using type = uint64_t;
};
template <> struct type_of<TENON_CODE_FLOAT, 16> {
    using type = f16;
};
template <> struct type_of<TENON_CODE_FLOAT, 32> {
    using type = float;
};
template <> struct type_of<TENON_CODE_FLOAT, 64> {
    using type = double;
};
template <> struct type_of<TENON_CODE_BFLOAT, 16> {
    using type = bf16;
};
template <> struct type_of<TENON_CODE_COMPLEX, 64> {
    using type = complex<float>;
};
template <> struct type_of<TENON_CODE_COMPLEX, 128> {
    using type = complex<double>;
};
template <> struct type_of<TENON_CODE_F8_E4M3FN, 8> {
    using type = f8_e4m3fn;
};
template <> struct type_of<TENON_CODE_F8_E5M2, 8> {
    using type = f8_e5m2;
};

} // namespace impl

// The dtype of a C++ type; its bits are 0 if the type has no dtype.
template <class Element> static constexpr tenon_dtype dtype_of = impl::dtype_code<Element>::value();

} // namespace tenon

#endif
