// Which C++ type takes which argument or result of a signature.
#ifndef TENON_CPP_MATCH_HPP
#define TENON_CPP_MATCH_HPP

#include <tenon/cpp/array.hpp>
#include <tenon/cpp/callback.hpp>
#include <tenon/cpp/numbers.hpp>
#include <tenon/cpp/parsed.hpp>
#include <tenon/cpp/values.hpp>

#include <utility>

namespace tenon
{
namespace impl TENON__HIDDEN
{

template <class Element> using bare = typename std::remove_cv<typename std::remove_reference<Element>::type>::type;

// The name of the class that a C++ type has in signatures: TENON_CPP_TYPE. NULL if it has none.
template <class Class> struct name_of {
    static constexpr const char *get()
    {
        return nullptr;
    }
};

// The smart pointer that holds the objects of a C++ type: TENON_CPP_TYPE_SHARED. void: the host has the objects themselves.
template <class Class> struct holder_of {
    using holder = void;
};

constexpr bool is_class_name(const char *name)
{
    for (int i = 0; name[i]; i++)
        if (!is_upper(name[i]) && !is_lower(name[i]) && name[i] != '_' && (i == 0 || !is_digit(name[i])))
            return false;
    return name[0] != '\0';
}

constexpr bool same_text(const char *text, const char *start, int length)
{
    for (int i = 0; i < length; i++)
        if (text[i] == '\0' || text[i] != start[i])
            return false;
    return text[length] == '\0';
}

// ------------------------------------------------------------------------------------------------------------- arrays

enum class role { none, in, rw, out, kept, list, rw_list, out_list, owned };

template <role Role, class Element, int Rank> struct array_kind {
    static constexpr role is = Role;
    using element = Element;
    static constexpr int rank = Rank;
};
template <class Type> struct array_of : array_kind<role::none, void, 0> {
};
template <class Element, int Rank> struct array_of<in<Element, Rank>> : array_kind<role::in, Element, Rank> {
};
template <class Element, int Rank> struct array_of<rw<Element, Rank>> : array_kind<role::rw, Element, Rank> {
};
template <class Element, int Rank> struct array_of<out<Element, Rank>> : array_kind<role::out, Element, Rank> {
};
template <class Element, int Rank> struct array_of<kept<Element, Rank>> : array_kind<role::kept, Element, Rank> {
};
template <class Element, int Rank> struct array_of<list<Element, Rank>> : array_kind<role::list, Element, Rank> {
};
template <class Element, int Rank> struct array_of<rw_list<Element, Rank>> : array_kind<role::rw_list, Element, Rank> {
};
template <class Element, int Rank>
struct array_of<out_list<Element, Rank>> : array_kind<role::out_list, Element, Rank> {
};
template <class Element, int Rank> struct array_of<owned<Element, Rank>> : array_kind<role::owned, Element, Rank> {
};

template <class Type> constexpr bool is_array = array_of<Type>::is != role::none;

// -------------------------------------------------------------------------------------------------------- duck typing

template <class Type> Type &lvalue(); // declared only

template <class Type, class = void> struct value_of { // of an optional
    using type = Type;
};
template <class Type>
struct value_of<Type, std::void_t<decltype(lvalue<const Type>().has_value()), decltype(*lvalue<const Type>()),
                                  typename Type::value_type>> {
    using type = typename Type::value_type;
};
template <class Type> constexpr bool is_optional = !std::is_same<typename value_of<Type>::type, Type>::value;

// The elements of a container with data() and size(); void if Type is not one.
template <class Type, class = void> struct items_of {
    using type = void;
};
template <class Type>
struct items_of<
    Type, typename std::enable_if<!is_array<Type> && std::is_pointer<decltype(lvalue<const Type>().data())>::value &&
                                  std::is_integral<decltype(lvalue<const Type>().size())>::value>::type> {
    using type = bare<decltype(*lvalue<const Type>().data())>;
};
template <class Type> using item = typename items_of<Type>::type;

template <class Type> constexpr bool is_chars = std::is_same<item<Type>, char>::value;
template <class Type>
constexpr bool is_text = std::is_same<Type, const char *>::value ||
                         (is_chars<Type> && std::is_constructible<Type, const char *, size_t>::value);

template <class Type, class = void> struct sized {
    static constexpr size_t size = 0;
};
template <class Type> struct sized<Type, typename std::enable_if<!std::is_void<Type>::value>::type> {
    static constexpr size_t size = sizeof(Type);
};
template <class Type>
constexpr bool is_bytes =
    sized<item<Type>>::size == 1 && std::is_constructible<Type, const item<Type> *, size_t>::value;

template <class Type, class Item>
constexpr bool is_sequence = std::is_same<Type, in<Item, 1>>::value ||
                             (std::is_same<item<Type>, Item>::value &&
                              (std::is_constructible<Type, const Item *, size_t>::value ||
                               std::is_constructible<Type, const Item *, const Item *>::value));

template <class Type, class = void> struct has_parts : std::false_type {
};
template <class Type>
struct has_parts<
    Type, std::void_t<decltype(double(lvalue<const Type>().real())), decltype(double(lvalue<const Type>().imag()))>>
    : std::true_type {
};
template <class Type>
constexpr bool is_complex = has_parts<Type>::value &&std::is_constructible<Type, double, double>::value;

template <class Type>
constexpr bool is_character = std::is_same<Type, char>::value || std::is_same<Type, wchar_t>::value ||
                              std::is_same<Type, char16_t>::value || std::is_same<Type, char32_t>::value;
template <class Type>
constexpr bool is_number = std::is_integral<Type>::value && !std::is_same<Type, bool>::value && !is_character<Type>;

// Whether an integer of this kind may be outside the range of Type.
template <class Type, kind Kind>
constexpr bool is_narrow = is_number<Type> &&
                           ((Kind == kind::integer && (std::is_unsigned<Type>::value || sizeof(Type) < 8)) ||
                            (Kind == kind::uinteger && sizeof(Type) < 8));

// Whether it is a type that TENON_CPP_TYPE has tied to a class.
template <class Type, class = void> struct is_named : std::false_type {
};
template <class Type>
struct is_named<Type, typename std::enable_if<std::is_class<Type>::value>::type>
    : std::bool_constant<name_of<Type>::get() != nullptr> {
};

// The object of a pointer that shares it, such as a std::shared_ptr. void if Type is not one.
template <class Type, class = void> struct shared_class {
    using type = void;
};
template <class Type>
struct shared_class<Type, std::void_t<typename Type::element_type, decltype(lvalue<const Type>().use_count()),
                                      decltype(lvalue<const Type>().get())>> {
    using type = typename Type::element_type;
};
template <class Type> constexpr bool is_shared = !std::is_void<typename shared_class<Type>::type>::value;

template <class Class> using holder = typename holder_of<typename std::remove_cv<Class>::type>::holder;

// The number of values in a std::pair or std::tuple; 0 if Type is neither.
template <class Type, class = void> struct tuple_size {
    static constexpr int value = 0;
};
template <class Type> struct tuple_size<Type, std::void_t<decltype(std::tuple_size<Type>::value)>> {
    static constexpr bool is_other =
        !std::is_void<item<Type>>::value || has_parts<Type>::value || is_named<Type>::value;
    static constexpr int value = is_other ? 0 : static_cast<int>(std::tuple_size<Type>::value);
};

// The object that a constructor returns: C * or a smart pointer with release(). void if Type is neither.
template <class Type, class = void> struct pointee {
    using type = void;
};
template <class Class> struct pointee<Class *, typename std::enable_if<std::is_class<Class>::value>::type> {
    using type = Class;
};
template <class Type>
struct pointee<Type, typename std::enable_if<std::is_pointer<decltype(lvalue<Type>().release())>::value>::type> {
    using type = typename std::remove_pointer<decltype(lvalue<Type>().release())>::type;
};

// The class of an argument that is an object and not a smart pointer: C &, C *, object<C>, or C, which is a copy. void for any
// other type.
template <class Parameter> struct plain_class_of {
    using type = typename std::conditional<is_named<Parameter>::value, Parameter, void>::type;
};
template <class Class> struct plain_class_of<Class &> {
    using type = typename std::conditional<std::is_class<Class>::value, Class, void>::type;
};
template <class Class> struct plain_class_of<Class *> {
    using type = typename std::conditional<std::is_class<Class>::value, Class, void>::type;
};
template <class Class> struct plain_class_of<object<Class>> {
    using type = Class;
};
// The same, or the class of a smart pointer that shares it.
template <class Parameter>
struct class_of
    : std::conditional<is_shared<bare<Parameter>>, shared_class<bare<Parameter>>, plain_class_of<Parameter>>::type {
};

// Whether the argument may be None. A reference and a copy cannot be.
template <class Parameter> struct is_nullable_object : std::bool_constant<is_shared<Parameter>> {
};
template <class Class> struct is_nullable_object<Class *> : std::true_type {
};
template <class Class> struct is_nullable_object<object<Class>> : std::true_type {
};

// ------------------------------------------------------------------------------------------------------------- faults

enum class fault { none, kind, dtype, rank, name, alignment, deleter, holder };

// Whether Type takes an argument of this kind that is neither a tensor nor an object.
template <class Type> constexpr bool takes(kind k)
{
    switch (k) {
    case kind::integer:
        return is_number<Type>;
    case kind::uinteger:
        return is_number<Type> && std::is_unsigned<Type>::value;
    case kind::number:
        return std::is_same<Type, double>::value || std::is_same<Type, float>::value;
    case kind::boolean:
        return std::is_same<Type, bool>::value;
    case kind::choice:
        return std::is_same<Type, int>::value || std::is_enum<Type>::value;
    case kind::text:
        return is_text<Type>;
    case kind::integers:
        return is_sequence<Type, int64_t>;
    case kind::numbers:
        return is_sequence<Type, double>;
    case kind::complex:
        return is_complex<Type>;
    case kind::bytes:
        return is_bytes<Type>;
    case kind::texts:
        return std::is_same<Type, texts>::value;
    case kind::dtype:
        return std::is_same<Type, tenon_dtype>::value;
    default:
        return false;
    }
}

// Whether Type has a value that means None.
template <class Type>
constexpr bool is_nullable = is_array<Type> || std::is_pointer<Type>::value || std::is_same<Type, text>::value ||
                             std::is_same<Type, bytes>::value || std::is_same<Type, texts>::value;

// The dtype that a slot has if the dtype variables are these; bits are 0 if it is known only at run time.
constexpr tenon_dtype dtype_in(const slot &s, const tenon_dtype *types)
{
    return s.type >= 0 ? types[s.type] : s.dtype;
}

constexpr bool same_dtype(tenon_dtype a, tenon_dtype b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// An array of Element with Rank dimensions for this slot.
template <class Element, int Rank> constexpr fault find_array_fault(const slot &s, const tenon_dtype *types)
{
    if (Rank != any && Rank != s.rank)
        return fault::rank;
    if constexpr (!std::is_void<Element>::value) {
        if (dtype_of<Element>.bits == 0 || !same_dtype(dtype_of<Element>, dtype_in(s, types)))
            return fault::dtype;
        if (s.unaligned && alignof(Element) > 1)
            return fault::alignment;
    }
    return fault::none;
}

// An object of the C++ type Class for this slot.
template <class Class> constexpr fault find_class_fault(const slot &s)
{
    const char *name = name_of<typename std::remove_cv<Class>::type>::get();
    if (!name)
        return fault::name;
    return same_text(name, s.class_name, s.class_length) ? fault::none : fault::kind;
}

// Whether a smart pointer deletes in a way that its type does not say: the host keeps only the address of the object.
template <class Type, class = void> struct has_state : std::false_type {
};
template <class Type>
struct has_state<Type, std::void_t<typename Type::deleter_type>>
    : std::bool_constant<!std::is_empty<typename Type::deleter_type>::value ||
                         !std::is_default_constructible<typename Type::deleter_type>::value> {
};

// Type is an object, a pointer or a smart pointer, for the object that a function returns.
template <class Type> constexpr fault find_object_fault(const slot &s)
{
    if constexpr (is_named<Type>::value) {
        return find_class_fault<Type>(s);
    } else if constexpr (is_shared<Type>) {
        using Class = typename shared_class<Type>::type;
        const fault found = find_class_fault<Class>(s);
        return found == fault::none && !std::is_same<holder<Class>, Type>::value ? fault::holder : found;
    } else {
        using Class = typename pointee<Type>::type;
        if constexpr (std::is_void<Class>::value)
            return fault::kind;
        else if constexpr (has_state<Type>::value && std::is_void<holder<Class>>::value)
            return fault::deleter;
        else
            return find_class_fault<Class>(s);
    }
}

// A Parameter of the C++ function for an argument that is an object of Class.
template <class Parameter, class Class> constexpr fault find_argument_fault(const slot &s)
{
    const fault found = find_class_fault<Class>(s);
    if (s.optional && !is_nullable_object<Parameter>::value)
        return fault::kind;
    if constexpr (is_shared<bare<Parameter>>) {
        using Target = typename std::remove_reference<Parameter>::type;
        if (found == fault::none && std::is_void<holder<Class>>::value)
            return fault::holder;
        if (std::is_reference<Parameter>::value && !std::is_same<Target, const holder<Class>>::value)
            return fault::kind; // the function would change the pointer that the host has
    }
    return found;
}

// The signature of an argument that is a callable: signature.hpp.
constexpr signature parse_callable(const slot &item);

// An argument or a result of a callback.
template <class Type> constexpr fault find_callback_fault(const slot &s, bool is_result)
{
    using Array = array_of<Type>;
    const tenon_dtype unknown[max_variables]{};
    switch (s.kind) {
    case kind::tensor:
        if (Array::is != role::rw && Array::is != role::out && (s.written || Array::is != role::in) &&
            (s.written || Array::is != role::kept))
            return fault::kind;
        if constexpr (std::is_void<typename Array::element>::value)
            return fault::dtype;
        else
            return find_array_fault<typename Array::element, Array::rank>(s, unknown);
    case kind::text:
        return is_chars<Type> || (!is_result && is_text<Type>) ? fault::none : fault::kind;
    default:
        return takes<Type>(s.kind) ? fault::none : fault::kind;
    }
}

template <class Return, size_t... Index>
constexpr fault find_callback_results(const signature &s, std::index_sequence<Index...>)
{
    fault found = fault::none;
    ((found = found != fault::none
                  ? found
                  : find_callback_fault<typename std::tuple_element<Index, Return>::type>(s.result[Index], true)),
     ...);
    return found;
}

// A Type for an argument that is a callable.
template <class Type> struct callback_of : std::false_type {
    static constexpr fault find(const slot &)
    {
        return fault::kind;
    }
};
template <class Return, class... Argument> struct callback_of<callback<Return(Argument...)>> : std::true_type {
    static constexpr fault find(const slot &item)
    {
        const signature s = parse_callable(item);
        constexpr int count = std::is_void<Return>::value     ? 0
                              : tuple_size<Return>::value > 1 ? tuple_size<Return>::value
                                                              : 1;
        if (s.parameters != static_cast<int>(sizeof...(Argument)) || s.results != count)
            return fault::kind;
        fault found = fault::none;
        int i = 0;
        ((found = found != fault::none ? found : find_callback_fault<bare<Argument>>(s.parameter[i], false), i++), ...);
        (void)i;
        if (found != fault::none)
            return found;
        if constexpr (count > 1)
            return find_callback_results<Return>(s, std::make_index_sequence<static_cast<size_t>(count)>());
        else if constexpr (count == 1)
            return find_callback_fault<Return>(s.result[0], true);
        return fault::none;
    }
};

// A Parameter of the C++ function for an argument.
template <class Parameter> constexpr fault find_fault(const slot &s, const tenon_dtype *types)
{
    using Type = bare<Parameter>;
    using Value = typename value_of<Type>::type;
    using Array = array_of<Value>;
    if (is_optional<Type> && !s.optional)
        return fault::kind;
    if (s.kind == kind::tensor || s.kind == kind::tensors) {
        bool fits = s.kind == kind::tensors ? Array::is == (s.written ? role::rw_list : role::list)
                    : s.written             ? Array::is == role::rw
                                            : Array::is == role::in || (Array::is == role::kept && s.kept);
        return fits ? find_array_fault<typename Array::element, Array::rank>(s, types) : fault::kind;
    }
    if (s.kind == kind::handle) {
        using Class = typename class_of<Parameter>::type;
        if constexpr (!std::is_void<Class>::value && !is_array<Type> && !is_optional<Type>)
            return find_argument_fault<Parameter, Class>(s);
        return fault::kind;
    }
    if (s.kind == kind::callable)
        return is_optional<Type> ? fault::kind : callback_of<Type>::find(s);
    if (s.kind == kind::integer && s.choices > 0 && std::is_enum<Value>::value)
        return s.optional && !is_optional<Type> ? fault::kind : fault::none;
    if (s.optional && !is_optional<Type> && !is_nullable<Type>)
        return fault::kind;
    return takes<Value>(s.kind) ? fault::none : fault::kind;
}

// A Return for a result.
template <class Return> constexpr fault find_result_fault(const slot &s, const tenon_dtype *types)
{
    using Value = typename value_of<Return>::type;
    using Array = array_of<Value>;
    switch (s.kind) {
    case kind::tensor:
        if (s.shown)
            return Array::is == role::in || Array::is == role::rw || Array::is == role::kept
                       ? find_array_fault<typename Array::element, Array::rank>(s, types)
                       : fault::kind;
        if (Array::is == role::owned && s.owned)
            return find_array_fault<typename Array::element, Array::rank>(s, types);
        if constexpr (!std::is_void<item<Value>>::value)
            return find_array_fault<item<Value>, 1>(s, types);
        return fault::kind;
    case kind::integer:
        return is_number<Value> || (s.choices > 0 && std::is_enum<Value>::value) ? fault::none : fault::kind;
    case kind::uinteger:
        return is_number<Value> ? fault::none : fault::kind;
    case kind::choice:
        return is_number<Value> || std::is_enum<Value>::value ? fault::none : fault::kind;
    case kind::text:
        return std::is_same<Value, const char *>::value || is_chars<Value> ? fault::none : fault::kind;
    case kind::bytes:
        return sized<item<Value>>::size == 1 ? fault::none : fault::kind;
    case kind::integers:
        return std::is_same<item<Value>, int64_t>::value ? fault::none : fault::kind;
    case kind::numbers:
        return std::is_same<item<Value>, double>::value ? fault::none : fault::kind;
    case kind::texts:
        return is_chars<item<Value>> ? fault::none : fault::kind;
    case kind::complex:
        return has_parts<Value>::value ? fault::none : fault::kind;
    case kind::handle:
        return find_object_fault<Value>(s);
    default:
        return takes<Value>(s.kind) ? fault::none : fault::kind;
    }
}

// A Parameter of the C++ function for a result: an out array, or a reference that receives the value.
template <class Parameter> constexpr fault find_out_fault(const slot &s, const tenon_dtype *types)
{
    using Array = array_of<bare<Parameter>>;
    if (Array::is == role::out && s.kind == kind::tensor)
        return find_array_fault<typename Array::element, Array::rank>(s, types);
    if (s.kind == kind::tensors)
        return Array::is == role::out_list ? find_array_fault<typename Array::element, Array::rank>(s, types)
                                           : fault::kind;
    if (s.kind == kind::tensor && !s.open)
        return fault::kind;
    if (!std::is_lvalue_reference<Parameter>::value ||
        std::is_const<typename std::remove_reference<Parameter>::type>::value)
        return fault::kind;
    return find_result_fault<bare<Parameter>>(s, types);
}

} // namespace impl
} // namespace tenon

#endif
