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

// A type that no parameter has and that nothing can be made of. Only a parameter that is `auto` takes it.
struct stranger {
    stranger(const stranger &) = delete;
};

// The C++ type of a value that is not a tensor, a string or a list.
template <kind Kind> struct number_of {
    using type = stranger; // none: a parameter that is `auto` cannot be one
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

// The type in which argument Index is passed to a generic lambda whose parameter is `auto`. An object has none: its class is
// known only from the parameter.
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
    else if constexpr (s.kind == kind::tensors && s.written)
        return types<rw_list<Element, s.rank>>();
    else if constexpr (s.kind == kind::tensors)
        return types<list<Element, s.rank>>();
    else if constexpr (s.kind == kind::handle)
        return types<stranger>();
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

// The type in which result Index is passed to a generic lambda whose parameter is `auto`. A string, a list and an object
// have none.
template <class Entry, int Index, class Chosen> constexpr auto find_canonical_out()
{
    constexpr slot s = parsed<Entry>::value.result[Index];
    using Element = typename element_of<s.type, s.dtype.code, s.dtype.bits, Chosen>::type;
    if constexpr (s.kind == kind::tensor)
        return types<out<Element, s.rank>>();
    else if constexpr (s.kind == kind::tensors)
        return types<out_list<Element, s.rank>>();
    else
        return types<typename number_of<s.kind>::type &>();
}

// Returned is int if a value is returned, some_tuple if several are, and void otherwise: result_of only asks for that.
template <class Entry, class Returned, int Position, class Chosen> constexpr auto find_canonical_parameter()
{
    if constexpr (Position < parsed<Entry>::value.parameters)
        return find_canonical<Entry, Position, Chosen>();
    else
        return find_canonical_out<Entry, result_of<Entry, Returned>(Position), Chosen>();
}

template <class Entry, class Returned, int Position, class Chosen>
using canonical = decltype(only(find_canonical_parameter<Entry, Returned, Position, Chosen>()));

// ------------------------------------------------------------------------------- parameters of a generic lambda
//
// The compiler does not say which parameters a generic lambda has. It says only whether it can be called with arguments of
// some types, and most conversions would go unnoticed: an int64_t becomes an int8_t. Therefore each parameter is tried with
// types that only some parameters take.

// The lambda, and a function that takes anything. If the lambda can be called, neither is better: the arguments fit the
// lambda better, and the object fits the function better. The ambiguity is the answer, and the body of the lambda is not
// compiled for types that it is not meant for.
template <class Callable> struct with_rival : Callable {
    using Callable::operator();
    int operator()(...);
};

template <class Callable, class Arguments, class = void> struct is_callable : std::true_type {
};
template <class Callable, class... Argument>
struct is_callable<Callable, types<Argument...>,
                   std::void_t<decltype(std::declval<with_rival<Callable> &>()(std::declval<Argument>()...))>>
    : std::false_type {
};
template <class Callable> struct is_callable<Callable, types<>, void> : std::is_invocable<const Callable> {
};

// An argument that every parameter takes. The base is for one such as in<Element, 1>, whose Element is deduced.
template <class Base> struct anything_like : Base {
    template <class Type> operator Type() const;
    template <class Type> operator Type &() const;
};
struct anything {
    template <class Type> operator Type() const;
    template <class Type> operator Type &() const;
};
template <class Canonical>
using stand_in = typename std::conditional<
    std::is_lvalue_reference<Canonical>::value, anything &,
    typename std::conditional<
        std::is_class<Canonical>::value && !std::is_same<Canonical, stranger>::value,
        anything_like<typename std::conditional<std::is_class<Canonical>::value, Canonical, stranger>::type>,
        anything>::type>::type;

// An argument that only a parameter takes which is of this type, or a reference to one.
template <class Type> struct exactly {
    operator Type() const;
};

// A result in a parameter that is a reference to a type of the lambda's choice.
struct chosen_result {
    void *made = nullptr;
    tenon_status (*finish)(tenon_call *call, void *made) = nullptr;
    void (*destroy)(void *made) = nullptr;
};

// An argument for a parameter that is not `auto`, and that compares with the signature as Fault. It becomes the argument of
// a function that is not generic and has the same parameter. Optional is for those that are a std::optional or similar,
// which can also be made from what is inside them.
template <class Entry, class Returned, class Chosen, int Position, fault Fault, bool Optional> struct converted {
    static constexpr bool is_result = Position >= parsed<Entry>::value.parameters;
    static constexpr bool is_object =
        !is_result && parsed<Entry>::value.parameter[is_result ? 0 : Position].kind == kind::handle;
    tenon_call *call;
    chosen_result *result;

    template <class Parameter> static constexpr bool takes()
    {
        return is_optional<bare<Parameter>> == Optional &&
               find_parameter_fault<Entry, Returned, Chosen, Parameter>(Position) == Fault;
    }

    // A copy of an object is made from the reference to it.
    template <class Type, class = typename std::enable_if<takes<Type>() && !(is_object && is_named<Type>::value)>::type>
    operator Type() const
    {
        if constexpr (Fault != fault::none) {
            (void)parameter_mistake<name_in<Entry>, Position, Type, Fault>();
            return lvalue<Type (*)()>()();
        } else {
            argument_of<Entry, Returned, Position, Type> value(call);
            if constexpr (can_fail<Entry, Position, Type>())
                if (call->flags & TENON_CALL_FAILED)
                    raise_failed();
            return value.pass();
        }
    }

    template <class Type, class = typename std::enable_if<takes<Type &>()>::type,
              class = typename std::enable_if<is_result || (is_object && !is_shared<bare<Type>>), Type>::type>
    operator Type &() const
    {
        using Argument = argument_of<Entry, Returned, Position, Type &>;
        if constexpr (Fault != fault::none) {
            (void)parameter_mistake<name_in<Entry>, Position, Type &, Fault>();
            return lvalue<Type>();
        } else if constexpr (is_result) {
            Argument *made = new Argument(call);
            result->made = made;
            result->finish = [](tenon_call *c, void *m) { return static_cast<Argument *>(m)->finish(c); };
            result->destroy = [](void *m) { delete static_cast<Argument *>(m); };
            return made->value;
        } else {
            return Argument(call).pass();
        }
    }

    struct argument {
        tenon_call *call;
        chosen_result result;

        explicit argument(tenon_call *c) : call(c)
        {
        }
        argument(const argument &) = delete;
        ~argument()
        {
            if (result.made)
                result.destroy(result.made);
        }
        converted pass()
        {
            return {call, &result};
        }
        tenon_status finish(tenon_call *c)
        {
            return result.made ? result.finish(c, result.made) : TENON_OK;
        }
    };
};

// The fault of a parameter, if it is known from the type in which its argument is passed.
template <class Parameter> struct fault_of {
    static constexpr fault value = std::is_void<Parameter>::value ? fault::kind : fault::none;
};
template <class Entry, class Returned, class Chosen, int Position, fault Fault, bool Optional>
struct fault_of<converted<Entry, Returned, Chosen, Position, Fault, Optional>> {
    static constexpr fault value = Fault;
};

template <class Entry, class Returned, class Chosen, class Positions> struct generic_parameters;
template <class Entry, class Returned, class Chosen, size_t... Position>
struct generic_parameters<Entry, Returned, Chosen, std::index_sequence<Position...>> {
    using Callable = decltype(Entry::function());

    using positions = std::index_sequence<Position...>;
    using canonicals = types<canonical<Entry, Returned, static_cast<int>(Position), Chosen>...>;
    template <int At> using canonical_at = canonical<Entry, Returned, At, Chosen>;
    template <int At, fault Fault, bool Optional>
    using converted_at = converted<Entry, Returned, Chosen, At, Fault, Optional>;

#ifdef __CUDACC__
    // nvcc compiles the body of a generic lambda for every type that is tried, so its parameters cannot be compared. An
    // object, whose canonical type is not known, takes what its parameter asks for.
    template <int At>
    using parameter = typename std::conditional<std::is_same<canonical_at<At>, stranger>::value,
                                                converted_at<At, fault::none, false>, canonical_at<At>>::type;

    static constexpr bool fit = std::is_invocable<const Callable, parameter<static_cast<int>(Position)>...>::value;
#else
    static constexpr bool fit =
        is_callable<Callable, types<stand_in<canonical_at<static_cast<int>(Position)>>...>>::value;

    // Whether parameter At takes the Argument, whatever the others are.
    template <int At, class Argument>
    static constexpr bool takes = is_callable<
        Callable, types<typename std::conditional<static_cast<int>(Position) == At, Argument,
                                                  stand_in<canonical_at<static_cast<int>(Position)>>>::type...>>::value;

    // The first of these faults for which parameter At takes the argument. void if it takes none of them.
    template <int At, bool Optional, fault First, fault... Fault> static constexpr auto find_converted()
    {
        if constexpr (takes<At, converted_at<At, First, Optional>>)
            return types<converted_at<At, First, Optional>>();
        else if constexpr (sizeof...(Fault) > 0)
            return find_converted<At, Optional, Fault...>();
        else
            return types<void>();
    }

    // A value could be made from the reference that a result needs, and a class that has no name from the reference to an
    // object. So these come last.
    template <int At, bool Optional> static constexpr auto find_first()
    {
        if constexpr (std::is_lvalue_reference<canonical_at<At>>::value)
            return find_converted<At, Optional, fault::kind, fault::none, fault::dtype, fault::rank, fault::deleter,
                                  fault::name>();
        else
            return find_converted<At, Optional, fault::none, fault::kind, fault::dtype, fault::rank, fault::alignment,
                                  fault::name>();
    }

    template <int At, bool Optional> using first = decltype(only(find_first<At, Optional>()));

    // The type in which argument At is passed. It is void if the parameter cannot be compared with the signature.
    template <int At> static constexpr auto find()
    {
        using Canonical = canonical_at<At>;
        constexpr bool is_reference = std::is_lvalue_reference<Canonical>::value;
        constexpr bool has_canonical = !std::is_same<bare<Canonical>, stranger>::value;
        constexpr bool is_value = takes<At, stranger>; // `auto` or `auto &&`
        if constexpr (is_value || (is_reference && takes<At, stranger &>)) {
            if constexpr (has_canonical && is_value != is_reference)
                return types<Canonical>();
            else
                return types<void>();
        } else if constexpr (!std::is_void<first<At, true>>::value) {
            return types<first<At, true>>();
        } else if constexpr (!std::is_void<first<At, false>>::value) {
            using Converted = first<At, false>;
            constexpr bool right = fault_of<Converted>::value == fault::none;
            if constexpr (right && has_canonical && (is_reference || std::is_class<Canonical>::value) &&
                          takes<At, exactly<Canonical>>)
                return types<Canonical>();
            else if constexpr (right && std::is_same<Canonical, text>::value && takes<At, exactly<const char *>>)
                return types<const char *>();
            else
                return types<Converted>();
        } else if constexpr (has_canonical && takes<At, Canonical>) { // such as in<Element, 1>
            return types<Canonical>();
        } else {
            return types<void>();
        }
    }

    template <int At> using parameter = decltype(only(find<At>()));
#endif
};

template <class Entry, class Returned, class Chosen>
using generic_parameters_of =
    generic_parameters<Entry, Returned, Chosen,
                       std::make_index_sequence<static_cast<size_t>(expected_parameters<Entry, Returned>)>>;

// A type that an assertion shows if the compiler cannot tell which type the parameter has.
struct parameter_of_generic_lambda {
};

template <class Entry, int Index, fault Fault>
struct unknown_mistake : parameter_mistake<name_in<Entry>, Index, parameter_of_generic_lambda, Fault> {
};
template <class Entry, int Index> struct unknown_mistake<Entry, Index, fault::none> {
};

template <class Entry, class Chosen, class... Parameter, size_t... Position>
tenon_status run_compared(tenon_call *call, types<Parameter...>, std::index_sequence<Position...>)
{
    using Callable = decltype(Entry::function());
    if constexpr (std::is_invocable<const Callable, Parameter...>::value) {
        using Return = std::invoke_result_t<const Callable, Parameter...>;
        constexpr int found = static_cast<int>(sizeof...(Parameter));
        if constexpr (expected_parameters<Entry, Return> != found)
            (void)count_mistake<name_in<Entry>, expected_parameters<Entry, Return>, found>();
        else if constexpr (find_return_fault<Entry, Return, Chosen>() != fault::none)
            (void)result_mistake<name_in<Entry>, Return, find_return_fault<Entry, Return, Chosen>()>();
        else
            return runner<Entry, Return, types<Parameter...>>::run(call);
    } else {
        ((void)unknown_mistake<Entry, static_cast<int>(Position), fault_of<Parameter>::value>(), ...);
    }
    return TENON_EFAILED;
}

template <class Entry, class Returned, class Chosen, size_t... Position>
tenon_status run_positions(tenon_call *call, std::index_sequence<Position...> positions)
{
    using Parameters = generic_parameters<Entry, Returned, Chosen, std::index_sequence<Position...>>;
    return run_compared<Entry, Chosen>(
        call, types<typename Parameters::template parameter<static_cast<int>(Position)>...>(), positions);
}

enum { max_counted = 24 };

// How many parameters the lambda has, or -1.
template <class Callable, size_t... Position> constexpr bool has_parameters(std::index_sequence<Position...>)
{
    return is_callable<Callable, types<typename std::conditional<Position + 1 != 0, anything, void>::type...>>::value;
}
template <class Callable, size_t... Count> constexpr int count_parameters(std::index_sequence<Count...>)
{
    int found = -1;
    ((found < 0 && has_parameters<Callable>(std::make_index_sequence<Count>()) ? found = static_cast<int>(Count) : 0),
     ...);
    return found;
}

template <class Callable, class Parameters> struct is_mutable;
template <class Callable, class... Parameter>
struct is_mutable<Callable, types<Parameter...>>
    : std::bool_constant<std::is_invocable<Callable &, Parameter...>::value &&
                         !std::is_invocable<const Callable &, Parameter...>::value> {
};

template <class Entry, class Chosen> tenon_status run_chosen(tenon_call *call)
{
    using Callable = decltype(Entry::function());
    using Returned = typename std::conditional<(count_returnable(parsed<Entry>::value) > 1), some_tuple, int>::type;
    using Returning = generic_parameters_of<Entry, Returned, Chosen>;
    using Complete = generic_parameters_of<Entry, void, Chosen>;
    if constexpr (std::is_final<Callable>::value || is_mutable<Callable, typename Returning::canonicals>::value)
        (void)function_mistake<name_in<Entry>, Callable *>();
    else if constexpr (count_returnable(parsed<Entry>::value) > 0 && Returning::fit)
        return run_positions<Entry, Returned, Chosen>(call, typename Returning::positions());
    else if constexpr (is_mutable<Callable, typename Complete::canonicals>::value)
        (void)function_mistake<name_in<Entry>, Callable *>();
    else if constexpr (Complete::fit)
        return run_positions<Entry, void, Chosen>(call, typename Complete::positions());
    else {
        constexpr int found = count_parameters<Callable>(std::make_index_sequence<max_counted>());
        (void)count_mistake<name_in<Entry>, expected_parameters<Entry, void>, found>();
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
