// Chooses the instance of a generic lambda by the dtypes of the call.
#ifndef TENON_CPP_GENERIC_HPP
#define TENON_CPP_GENERIC_HPP

#include <tenon/cpp/call.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

template <int Index, class First, class... Element> struct nth {
    using type = typename nth<Index - 1, Element...>::type;
};
template <class First, class... Element> struct nth<0, First, Element...> {
    using type = First;
};

// The C++ type of an element of a slot, if the dtype variables are `Chosen`. void if it is known only at run time.
template <int Type, int Code, int Bits, class Chosen> struct element_of {
    using type = typename type_of<Code, Bits>::type;
};
template <int Code, int Bits> struct element_of<-1, Code, Bits, types<>> {
    using type = typename type_of<Code, Bits>::type;
};
template <int Code, int Bits, class... Element> struct element_of<-1, Code, Bits, types<Element...>> {
    using type = typename type_of<Code, Bits>::type;
};
template <int Type, int Code, int Bits, class... Element> struct element_of<Type, Code, Bits, types<Element...>> {
    using type = typename nth<Type, Element...>::type;
};

// An object as an argument of a generic lambda, whose parameter `C &`, `C *` or `object<C>` says which class it is.
template <class Entry, int Index> struct any_object {
    void *pointer;

    template <class Class> Class *get() const
    {
        constexpr fault found = find_class_fault<Class>(parsed<Entry>::value.parameter[Index]);
        report_parameter<Entry, Index, Class, found>();
        return static_cast<Class *>(pointer);
    }
    template <class Class, class = typename std::enable_if<std::is_void<typename class_of<Class>::type>::value>::type>
    operator Class &() const
    {
        return *get<Class>();
    }
    template <class Class> operator Class *() const
    {
        return get<Class>();
    }
    template <class Class> operator object<Class>() const
    {
        return object<Class>(get<Class>());
    }
};

// The C++ type of a value that is not a tensor, a string or a list.
template <kind Kind> struct number_of {
    using type = const text; // a generic lambda cannot receive it, only return it
};
template <> struct number_of<kind::integer> {
    using type = int64_t;
};
template <> struct number_of<kind::uinteger> {
    using type = uint64_t;
};
template <> struct number_of<kind::number> {
    using type = double;
};
template <> struct number_of<kind::boolean> {
    using type = bool;
};
template <> struct number_of<kind::choice> {
    using type = int;
};
template <> struct number_of<kind::complex> {
    using type = complex<double>;
};
template <> struct number_of<kind::dtype> {
    using type = tenon_dtype;
};

// The type in which argument Index is passed to a generic lambda.
template <class Entry, int Index, class Chosen> constexpr auto find_canonical()
{
    constexpr slot s = parsed<Entry>::value.parameter[Index];
    using Element = typename element_of<s.type, s.dtype.code, s.dtype.bits, Chosen>::type;
    if constexpr (s.kind == kind::tensor && s.kept)
        return types<kept<Element, s.rank>>();
    else if constexpr (s.kind == kind::tensor && s.written)
        return types<rw<Element, s.rank>>();
    else if constexpr (s.kind == kind::tensor)
        return types<in<Element, s.rank>>();
    else if constexpr (s.kind == kind::tensors)
        return types<list<Element, s.rank>>();
    else if constexpr (s.kind == kind::handle)
        return types<any_object<Entry, Index>>();
    else if constexpr (s.kind == kind::text)
        return types<text>();
    else if constexpr (s.kind == kind::bytes)
        return types<bytes>();
    else if constexpr (s.kind == kind::texts)
        return types<texts>();
    else if constexpr (s.kind == kind::integers)
        return types<in<int64_t, 1>>();
    else if constexpr (s.kind == kind::numbers)
        return types<in<double, 1>>();
    else if constexpr (s.optional)
        return types<optional<typename number_of<s.kind>::type>>();
    else
        return types<typename number_of<s.kind>::type>();
}

// The type in which result Index is passed to a generic lambda. Only a returned value can be a string or a list.
template <class Entry, int Index, class Chosen> constexpr auto find_canonical_out()
{
    constexpr slot s = parsed<Entry>::value.result[Index];
    using Element = typename element_of<s.type, s.dtype.code, s.dtype.bits, Chosen>::type;
    if constexpr (s.kind == kind::tensor)
        return types<out<Element, s.rank>>();
    else
        return types<typename number_of<s.kind>::type &>();
}

// Returned is int if a value is returned, and void otherwise: result_of only asks for that.
template <class Entry, class Returned, int Position, class Chosen> constexpr auto find_canonical_parameter()
{
    if constexpr (Position < parsed<Entry>::value.parameters)
        return find_canonical<Entry, Position, Chosen>();
    else
        return find_canonical_out<Entry, result_of<Entry, Returned>(Position), Chosen>();
}

template <class... Parameter> types<Parameter...> join(types<Parameter>...);

template <class Entry, class Returned, class Chosen, size_t... Position>
auto list_canonical(std::index_sequence<Position...>)
    -> decltype(join(find_canonical_parameter<Entry, Returned, static_cast<int>(Position), Chosen>()...));

template <class Entry, class Returned, class Chosen>
using canonical = decltype(list_canonical<Entry, Returned, Chosen>(
    std::make_index_sequence<static_cast<size_t>(parsed<Entry>::value.parameters + parsed<Entry>::value.results -
                                                 (returned_index<Entry, Returned>() >= 0 ? 1 : 0))>()));

template <class Callable, class Parameters> struct applied;
template <class Callable, class... Parameter> struct applied<Callable, types<Parameter...>> {
    static constexpr bool ok = std::is_invocable<const Callable, Parameter...>::value;
    using result = std::invoke_result<const Callable, Parameter...>;
};

template <class Function, bool Invocable> struct generic_mistake {
    static_assert(
        Invocable,
        "the generic lambda has another number of parameters than its signature, or one of another kind, or is "
        "mutable");
};

template <class Entry, class Chosen> tenon_status run_chosen(tenon_call *call)
{
    using Callable = decltype(Entry::function());
    constexpr bool returns =
        find_returned(parsed<Entry>::value) >= 0 && applied<Callable, canonical<Entry, int, Chosen>>::ok;
    using Returned = typename std::conditional<returns, int, void>::type;
    using Parameters = canonical<Entry, Returned, Chosen>;
    if constexpr (applied<Callable, Parameters>::ok) {
        using Return = typename applied<Callable, Parameters>::result::type;
        if constexpr (find_return_fault<Entry, Return, Chosen>() == fault::none)
            return runner<Entry, Return, Parameters>::run(call);
        else
            (void)result_mistake<name_in<Entry>, Return, find_return_fault<Entry, Return, Chosen>()>();
    } else {
        (void)generic_mistake<name_in<Entry>, applied<Callable, Parameters>::ok>();
    }
    return TENON_EFAILED;
}

template <class Element> struct check_typed {
    static_assert(!std::is_void<Element>::value, "a dtype of the signature has no C++ type");
    using type = Element;
};

template <class Entry, class... Element> tenon_status dispatch(tenon_call *call, types<Element...>);

template <class Entry, class... Element, size_t... Choice>
tenon_status dispatch_over(tenon_call *call, types<Element...>, std::index_sequence<Choice...>)
{
    constexpr variable v = parsed<Entry>::value.variable[sizeof...(Element)];
    const tenon_dtype dtype = call->types[sizeof...(Element)];
    tenon_status status = TENON_OK;
    // If none of the arguments with this variable was given, any instance is right.
    bool found =
        (((same_dtype(dtype, v.dtypes[Choice]) || (Choice == 0 && dtype.bits == 0)) &&
          (status = dispatch<Entry>(
               call,
               types<Element..., typename check_typed<
                                     typename type_of<v.dtypes[Choice].code, v.dtypes[Choice].bits>::type>::type>()),
           true)) ||
         ...);
    return found
               ? status
               : tenon_fail(call, TENON_EDTYPE, "the function has no C++ type for the dtype of %.*s", v.length, v.name);
}

template <class Entry, class... Element> tenon_status dispatch(tenon_call *call, types<Element...>)
{
    if constexpr (sizeof...(Element) == parsed<Entry>::value.variables)
        return run_chosen<Entry, types<Element...>>(call);
    else
        return dispatch_over<Entry>(
            call, types<Element...>(),
            std::make_index_sequence<static_cast<size_t>(parsed<Entry>::value.variable[sizeof...(Element)].count)>());
}

template <class Entry> tenon_status run_generic(tenon_call *call)
{
    return dispatch<Entry>(call, types<>());
}

} // namespace impl
} // namespace tenon

#endif
