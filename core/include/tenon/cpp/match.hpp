// Which C++ type takes which argument or result of a signature.
#ifndef TENON_CPP_MATCH_HPP
#define TENON_CPP_MATCH_HPP

#include <tenon/cpp/array.hpp>
#include <tenon/cpp/numbers.hpp>
#include <tenon/cpp/parsed.hpp>
#include <tenon/cpp/values.hpp>

#include <utility>

namespace tenon
{
namespace impl TENON__HIDDEN
{

template <class T> using bare = typename std::remove_cv<typename std::remove_reference<T>::type>::type;

// The name of the class that a C++ type has in signatures: TENON_CPP_TYPE. NULL if it has none.
template <class C> struct name_of {
    static constexpr const char *get()
    {
        return nullptr;
    }
};

constexpr bool same_text(const char *text, const char *start, int length)
{
    for (int i = 0; i < length; i++)
        if (text[i] == '\0' || text[i] != start[i])
            return false;
    return text[length] == '\0';
}

// ------------------------------------------------------------------------------------------------------------- arrays

enum class role { none, in, rw, out, kept, list, owned };

template <role Role, class T, int N> struct array_kind {
    static constexpr role is = Role;
    using element = T;
    static constexpr int rank = N;
};
template <class X> struct array_of : array_kind<role::none, void, 0> {
};
template <class T, int N> struct array_of<in<T, N>> : array_kind<role::in, T, N> {
};
template <class T, int N> struct array_of<rw<T, N>> : array_kind<role::rw, T, N> {
};
template <class T, int N> struct array_of<out<T, N>> : array_kind<role::out, T, N> {
};
template <class T, int N> struct array_of<kept<T, N>> : array_kind<role::kept, T, N> {
};
template <class T, int N> struct array_of<list<T, N>> : array_kind<role::list, T, N> {
};
template <class T, int N> struct array_of<owned<T, N>> : array_kind<role::owned, T, N> {
};

template <class X> constexpr bool is_array = array_of<X>::is != role::none;

// -------------------------------------------------------------------------------------------------------- duck typing

template <class X> X &lvalue(); // declared only

template <class X, class = void> struct value_of { // of an optional
    using type = X;
};
template <class X>
struct value_of<
    X, std::void_t<decltype(lvalue<const X>().has_value()), decltype(*lvalue<const X>()), typename X::value_type>> {
    using type = typename X::value_type;
};
template <class X> constexpr bool is_optional = !std::is_same<typename value_of<X>::type, X>::value;

// The elements of a container with data() and size(); void if X is not one.
template <class X, class = void> struct items_of {
    using type = void;
};
template <class X>
struct items_of<X, typename std::enable_if<!is_array<X> && std::is_pointer<decltype(lvalue<const X>().data())>::value &&
                                           std::is_integral<decltype(lvalue<const X>().size())>::value>::type> {
    using type = bare<decltype(*lvalue<const X>().data())>;
};
template <class X> using item = typename items_of<X>::type;

template <class X> constexpr bool is_chars = std::is_same<item<X>, char>::value;
template <class X>
constexpr bool is_text = std::is_same<X, const char *>::value ||
                         (is_chars<X> && std::is_constructible<X, const char *, size_t>::value);

template <class X, class = void> struct sized {
    static constexpr size_t size = 0;
};
template <class X> struct sized<X, typename std::enable_if<!std::is_void<X>::value>::type> {
    static constexpr size_t size = sizeof(X);
};
template <class X>
constexpr bool is_bytes = sized<item<X>>::size == 1 && std::is_constructible<X, const item<X> *, size_t>::value;

template <class X, class E>
constexpr bool is_sequence = std::is_same<X, in<E, 1>>::value ||
                             (std::is_same<item<X>, E>::value &&
                              (std::is_constructible<X, const E *, size_t>::value ||
                               std::is_constructible<X, const E *, const E *>::value));

template <class X, class = void> struct has_parts : std::false_type {
};
template <class X>
struct has_parts<X, std::void_t<decltype(double(lvalue<const X>().real())), decltype(double(lvalue<const X>().imag()))>>
    : std::true_type {
};
template <class X> constexpr bool is_complex = has_parts<X>::value &&std::is_constructible<X, double, double>::value;

template <class X> constexpr bool is_number = std::is_integral<X>::value && !std::is_same<X, bool>::value;

// The object that a constructor returns: C * or a smart pointer with release(). void if X is neither.
template <class X, class = void> struct pointee {
    using type = void;
};
template <class C> struct pointee<C *, typename std::enable_if<std::is_class<C>::value>::type> {
    using type = C;
};
template <class X>
struct pointee<X, typename std::enable_if<std::is_pointer<decltype(lvalue<X>().release())>::value>::type> {
    using type = typename std::remove_pointer<decltype(lvalue<X>().release())>::type;
};

// The class of an argument that is an object: C &, C * or object<C>. void for any other type.
template <class P> struct class_of {
    using type = void;
};
template <class C> struct class_of<C &> {
    using type = typename std::conditional<std::is_class<C>::value, C, void>::type;
};
template <class C> struct class_of<C *> {
    using type = typename std::conditional<std::is_class<C>::value, C, void>::type;
};
template <class C> struct class_of<object<C>> {
    using type = C;
};

// ------------------------------------------------------------------------------------------------------------- faults

enum class fault { none, kind, dtype, rank, name, alignment };

// Whether X takes an argument of this kind that is neither a tensor nor an object.
template <class X> constexpr bool takes(kind k)
{
    switch (k) {
    case kind::integer:
        return is_number<X> && std::is_signed<X>::value && sizeof(X) == 8;
    case kind::uinteger:
        return is_number<X> && std::is_unsigned<X>::value && sizeof(X) == 8;
    case kind::number:
        return std::is_same<X, double>::value || std::is_same<X, float>::value;
    case kind::boolean:
        return std::is_same<X, bool>::value;
    case kind::choice:
        return std::is_same<X, int>::value || std::is_enum<X>::value;
    case kind::text:
        return is_text<X>;
    case kind::integers:
        return is_sequence<X, int64_t>;
    case kind::numbers:
        return is_sequence<X, double>;
    case kind::complex:
        return is_complex<X>;
    case kind::bytes:
        return is_bytes<X>;
    case kind::texts:
        return std::is_same<X, texts>::value;
    case kind::dtype:
        return std::is_same<X, tenon_dtype>::value;
    default:
        return false;
    }
}

// Whether X has a value that means None.
template <class X>
constexpr bool is_nullable = is_array<X> || std::is_pointer<X>::value || std::is_same<X, text>::value ||
                             std::is_same<X, bytes>::value || std::is_same<X, texts>::value;

// The dtype that a slot has if the dtype variables are these; bits are 0 if it is known only at run time.
constexpr tenon_dtype dtype_in(const slot &s, const tenon_dtype *types)
{
    return s.type >= 0 ? types[s.type] : s.dtype;
}

constexpr bool same_dtype(tenon_dtype a, tenon_dtype b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// An array of T with N dimensions for this slot.
template <class T, int N> constexpr fault find_array_fault(const slot &s, const tenon_dtype *types)
{
    if (N != any && N != s.rank)
        return fault::rank;
    if constexpr (!std::is_void<T>::value) {
        if (dtype_of<T>.bits == 0 || !same_dtype(dtype_of<T>, dtype_in(s, types)))
            return fault::dtype;
        if (s.unaligned && alignof(T) > 1)
            return fault::alignment;
    }
    return fault::none;
}

// An object of C++ type C for this slot.
template <class C> constexpr fault find_class_fault(const slot &s)
{
    const char *name = name_of<typename std::remove_cv<C>::type>::get();
    if (!name)
        return fault::name;
    return same_text(name, s.class_name, s.class_length) ? fault::none : fault::kind;
}

// Parameter P for an argument.
template <class P> constexpr fault find_fault(const slot &s, const tenon_dtype *types)
{
    using X = bare<P>;
    using V = typename value_of<X>::type;
    using A = array_of<V>;
    if (is_optional<X> && !s.optional)
        return fault::kind;
    if (s.kind == kind::tensor || s.kind == kind::tensors) {
        bool fits = s.kind == kind::tensors ? A::is == role::list
                    : s.written             ? A::is == role::rw
                                            : A::is == role::in || (A::is == role::kept && s.kept);
        return fits ? find_array_fault<typename A::element, A::rank>(s, types) : fault::kind;
    }
    if (s.kind == kind::handle) {
        using C = typename class_of<P>::type;
        if constexpr (!std::is_void<C>::value && !is_array<X> && !is_optional<X>)
            if (!s.optional || !std::is_reference<P>::value)
                return find_class_fault<C>(s);
        return fault::kind;
    }
    if (s.optional && !is_optional<X> && !is_nullable<X>)
        return fault::kind;
    return takes<V>(s.kind) ? fault::none : fault::kind;
}

// A value of type R for a result.
template <class R> constexpr fault find_result_fault(const slot &s, const tenon_dtype *types)
{
    using V = typename value_of<R>::type;
    using A = array_of<V>;
    switch (s.kind) {
    case kind::tensor:
        if (s.shown)
            return A::is == role::in || A::is == role::rw || A::is == role::kept
                       ? find_array_fault<typename A::element, A::rank>(s, types)
                       : fault::kind;
        if (A::is == role::owned && s.owned)
            return find_array_fault<typename A::element, A::rank>(s, types);
        if constexpr (!std::is_void<item<V>>::value)
            return find_array_fault<item<V>, 1>(s, types);
        return fault::kind;
    case kind::integer:
    case kind::uinteger:
        return is_number<V> ? fault::none : fault::kind;
    case kind::choice:
        return is_number<V> || std::is_enum<V>::value ? fault::none : fault::kind;
    case kind::text:
        return std::is_same<V, const char *>::value || is_chars<V> ? fault::none : fault::kind;
    case kind::bytes:
        return sized<item<V>>::size == 1 ? fault::none : fault::kind;
    case kind::integers:
        return std::is_same<item<V>, int64_t>::value ? fault::none : fault::kind;
    case kind::numbers:
        return std::is_same<item<V>, double>::value ? fault::none : fault::kind;
    case kind::texts:
        return is_chars<item<V>> ? fault::none : fault::kind;
    case kind::complex:
        return has_parts<V>::value ? fault::none : fault::kind;
    case kind::handle:
        if constexpr (!std::is_void<typename pointee<V>::type>::value)
            return find_class_fault<typename pointee<V>::type>(s);
        return fault::kind;
    default:
        return takes<V>(s.kind) ? fault::none : fault::kind;
    }
}

// Parameter P for a result: an out array, or a reference that receives the value.
template <class P> constexpr fault find_out_fault(const slot &s, const tenon_dtype *types)
{
    using A = array_of<bare<P>>;
    if (A::is == role::out && s.kind == kind::tensor)
        return find_array_fault<typename A::element, A::rank>(s, types);
    if (s.kind == kind::tensor && !s.open)
        return fault::kind;
    if (!std::is_lvalue_reference<P>::value || std::is_const<typename std::remove_reference<P>::type>::value)
        return fault::kind;
    return find_result_fault<bare<P>>(s, types);
}

} // namespace impl
} // namespace tenon

#endif
