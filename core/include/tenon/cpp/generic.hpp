// Chooses the instance of a generic lambda by the dtypes of the call.
#ifndef TENON_CPP_GENERIC_HPP
#define TENON_CPP_GENERIC_HPP

#include <tenon/cpp/call.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

template <int I, class First, class... T> struct nth {
    using type = typename nth<I - 1, T...>::type;
};
template <class First, class... T> struct nth<0, First, T...> {
    using type = First;
};

// The C++ type of an element of a slot, if the dtype variables are `Chosen`. void if it is known only at run time.
template <int Type, int Code, int Bits, class Chosen> struct element_of {
    using type = typename type_of<Code, Bits>::type;
};
template <int Code, int Bits> struct element_of<-1, Code, Bits, types<>> {
    using type = typename type_of<Code, Bits>::type;
};
template <int Code, int Bits, class... T> struct element_of<-1, Code, Bits, types<T...>> {
    using type = typename type_of<Code, Bits>::type;
};
template <int Type, int Code, int Bits, class... T> struct element_of<Type, Code, Bits, types<T...>> {
    using type = typename nth<Type, T...>::type;
};

// An object as an argument of a generic lambda, whose parameter `C &`, `C *` or `object<C>` says which class it is.
template <class Entry, int I> struct any_object {
    void *pointer;

    template <class C> C *get() const
    {
        constexpr fault found = find_class_fault<C>(parsed<Entry>::value.parameter[I]);
        report_parameter<Entry, I, C, found>();
        return static_cast<C *>(pointer);
    }
    template <class C, class = typename std::enable_if<std::is_void<typename class_of<C>::type>::value>::type>
    operator C &() const
    {
        return *get<C>();
    }
    template <class C> operator C *() const
    {
        return get<C>();
    }
    template <class C> operator object<C>() const
    {
        return object<C>(get<C>());
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

// The type in which argument I is passed to a generic lambda.
template <class Entry, int I, class Chosen> constexpr auto find_canonical()
{
    constexpr slot s = parsed<Entry>::value.parameter[I];
    using T = typename element_of<s.type, s.dtype.code, s.dtype.bits, Chosen>::type;
    if constexpr (s.kind == kind::tensor && s.kept)
        return types<kept<T, s.rank>>();
    else if constexpr (s.kind == kind::tensor && s.written)
        return types<rw<T, s.rank>>();
    else if constexpr (s.kind == kind::tensor)
        return types<in<T, s.rank>>();
    else if constexpr (s.kind == kind::tensors)
        return types<list<T, s.rank>>();
    else if constexpr (s.kind == kind::handle)
        return types<any_object<Entry, I>>();
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

// The type in which result I is passed to a generic lambda. Only a returned value can be a string or a list.
template <class Entry, int I, class Chosen> constexpr auto find_canonical_out()
{
    constexpr slot s = parsed<Entry>::value.result[I];
    using T = typename element_of<s.type, s.dtype.code, s.dtype.bits, Chosen>::type;
    if constexpr (s.kind == kind::tensor)
        return types<out<T, s.rank>>();
    else
        return types<typename number_of<s.kind>::type &>();
}

// Returned is int if a value is returned, and void otherwise: result_of only asks for that.
template <class Entry, class Returned, int J, class Chosen> constexpr auto find_canonical_parameter()
{
    if constexpr (J < parsed<Entry>::value.parameters)
        return find_canonical<Entry, J, Chosen>();
    else
        return find_canonical_out<Entry, result_of<Entry, Returned>(J), Chosen>();
}

template <class... P> types<P...> join(types<P>...);

template <class Entry, class Returned, class Chosen, size_t... J>
auto list_canonical(std::index_sequence<J...>)
    -> decltype(join(find_canonical_parameter<Entry, Returned, static_cast<int>(J), Chosen>()...));

template <class Entry, class Returned, class Chosen>
using canonical = decltype(list_canonical<Entry, Returned, Chosen>(
    std::make_index_sequence<static_cast<size_t>(parsed<Entry>::value.parameters + parsed<Entry>::value.results -
                                                 (returned_index<Entry, Returned>() >= 0 ? 1 : 0))>()));

template <class F, class Parameters> struct applied;
template <class F, class... P> struct applied<F, types<P...>> {
    static constexpr bool ok = std::is_invocable<F, P...>::value;
    using result = std::invoke_result<F, P...>;
};

template <class Function, bool Invocable> struct generic_mistake {
    static_assert(Invocable,
                  "the generic lambda has another number of parameters than its signature, or one of another "
                  "kind");
};

template <class Entry, class Chosen> tenon_status run_chosen(tenon_call *call)
{
    using F = decltype(Entry::function());
    constexpr bool returns = find_returned(parsed<Entry>::value) >= 0 && applied<F, canonical<Entry, int, Chosen>>::ok;
    using Returned = typename std::conditional<returns, int, void>::type;
    using Parameters = canonical<Entry, Returned, Chosen>;
    if constexpr (applied<F, Parameters>::ok) {
        using R = typename applied<F, Parameters>::result::type;
        if constexpr (find_return_fault<Entry, R, Chosen>() == fault::none)
            return runner<Entry, R, Parameters>::run(call);
        else
            (void)result_mistake<name_in<Entry>, R, find_return_fault<Entry, R, Chosen>()>();
    } else {
        (void)generic_mistake<name_in<Entry>, applied<F, Parameters>::ok>();
    }
    return TENON_EFAILED;
}

template <class T> struct check_typed {
    static_assert(!std::is_void<T>::value, "a dtype of the signature has no C++ type");
    using type = T;
};

template <class Entry, class... T> tenon_status dispatch(tenon_call *call, types<T...>);

template <class Entry, class... T, size_t... K>
tenon_status dispatch_over(tenon_call *call, types<T...>, std::index_sequence<K...>)
{
    constexpr variable v = parsed<Entry>::value.variable[sizeof...(T)];
    const tenon_dtype dtype = call->types[sizeof...(T)];
    tenon_status status = TENON_OK;
    // If none of the arguments with this variable was given, any instance is right.
    bool found =
        (((same_dtype(dtype, v.dtypes[K]) || (K == 0 && dtype.bits == 0)) &&
          (status = dispatch<Entry>(
               call,
               types<T..., typename check_typed<typename type_of<v.dtypes[K].code, v.dtypes[K].bits>::type>::type>()),
           true)) ||
         ...);
    return found
               ? status
               : tenon_fail(call, TENON_EDTYPE, "the function has no C++ type for the dtype of %.*s", v.length, v.name);
}

template <class Entry, class... T> tenon_status dispatch(tenon_call *call, types<T...>)
{
    if constexpr (sizeof...(T) == parsed<Entry>::value.variables)
        return run_chosen<Entry, types<T...>>(call);
    else
        return dispatch_over<Entry>(
            call, types<T...>(),
            std::make_index_sequence<static_cast<size_t>(parsed<Entry>::value.variable[sizeof...(T)].count)>());
}

template <class Entry> tenon_status run_generic(tenon_call *call)
{
    return dispatch<Entry>(call, types<>());
}

} // namespace impl
} // namespace tenon

#endif
