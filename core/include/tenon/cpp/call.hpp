// Compares the parameters of a C++ function with its signature, and calls it.
#ifndef TENON_CPP_CALL_HPP
#define TENON_CPP_CALL_HPP

#include <tenon/cpp/convert.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

template <class... T> struct types {
};

// The result and the parameters of a function, or of a lambda that is not generic.
template <class F> struct function_of {
};
template <class R, class... P> struct function_of<R (*)(P...)> {
    using result = R;
    using parameters = types<P...>;
};
template <class R, class... P> struct function_of<R (*)(P...) noexcept> : function_of<R (*)(P...)> {
};
template <class F, class R, class... P> struct function_of<R (F::*)(P...) const> : function_of<R (*)(P...)> {
};
template <class F, class R, class... P> struct function_of<R (F::*)(P...) const noexcept> : function_of<R (*)(P...)> {
};

template <class F, class = void> struct is_generic : std::true_type {
};
template <class R, class... P> struct is_generic<R (*)(P...)> : std::false_type {
};
template <class R, class... P> struct is_generic<R (*)(P...) noexcept> : std::false_type {
};
template <class F> struct is_generic<F, std::void_t<decltype(&F::operator())>> : std::false_type {
};

template <class F, bool = std::is_class<F>::value> struct signature_of : function_of<F> {
};
template <class F> struct signature_of<F, true> : function_of<decltype(&F::operator())> {
};

// ------------------------------------------------------------------------------------------------------ the signature

// Whether the host does not allocate it, so that a C++ function may return it.
constexpr bool is_returnable(const slot &result)
{
    return result.kind != kind::tensor || result.open;
}

// The result that a function returns which does not return void, or -1 if there is not exactly one.
constexpr int find_returned(const signature &s)
{
    int found = -1;
    for (int i = 0; i < s.results; i++) {
        if (!is_returnable(s.result[i]))
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

// The values of the dtype variables: those that were chosen, or those that have only one.
struct chosen_types {
    tenon_dtype item[max_variables];
};

template <class... T> constexpr chosen_types choose(const signature &, types<T...>)
{
    return {{dtype_of<T>...}};
}

constexpr chosen_types choose(const signature &s, types<>)
{
    chosen_types chosen{};
    for (int i = 0; i < s.variables; i++)
        if (s.variable[i].count == 1 && !s.variable[i].whole)
            chosen.item[i] = s.variable[i].dtypes[0];
    return chosen;
}

// --------------------------------------------------------------------------------------------------------- assertions

// The name of a function as template arguments, because an assertion of C++17 cannot print it: the compiler shows them in
// the note that follows the assertion. They are made only for a function that has a mistake.
template <char... Character> struct named {
};

constexpr size_t measure_name(const char *text)
{
    size_t length = 0;
    while (length < 40 && text[length] != '\0' && text[length] != '(')
        length++;
    return length;
}

template <class Entry, size_t... I> named<Entry::text()[I]...> spell_name(std::index_sequence<I...>);

template <class Entry>
using name_in = decltype(spell_name<Entry>(std::make_index_sequence<measure_name(Entry::text())>()));

template <class Function, int Position> struct parse_mistake {
    static_assert(Position < 0, "the signature does not parse: Position counts characters from 0");
};

template <class Function, int Expected, int Found> struct count_mistake {
    static_assert(Expected == Found, "the C++ function has another number of parameters than its signature");
};

template <class Function, int Index, class Parameter, fault Fault> struct parameter_mistake {
    static_assert(Fault != fault::kind, "parameter Index of the C++ function is of another kind than in its signature");
    static_assert(Fault != fault::dtype, "parameter Index of the C++ function has another dtype than in its signature");
    static_assert(Fault != fault::rank,
                  "parameter Index of the C++ function has another number of dimensions than in its signature");
    static_assert(Fault != fault::name,
                  "this C++ type has no class name: write TENON_CPP_TYPE(Type) before the module");
    static_assert(Fault != fault::alignment,
                  "parameter Index of the C++ function is 'unaligned': take an array of void, and use memcpy");
};

template <class Function, class Result, fault Fault> struct result_mistake {
    static_assert(Fault != fault::kind, "the C++ function returns a value of another kind than its signature");
    static_assert(Fault != fault::dtype, "the C++ function returns another dtype than its signature");
    static_assert(Fault != fault::rank, "the C++ function returns another number of dimensions than its signature");
    static_assert(Fault != fault::name,
                  "this C++ type has no class name: write TENON_CPP_TYPE(Type) before the module");
};

template <class Entry, int Index, class Parameter, fault Fault> constexpr void report_parameter()
{
    if constexpr (Fault != fault::none)
        (void)parameter_mistake<name_in<Entry>, Index, Parameter, Fault>();
}

template <class Entry, class Result, fault Fault> constexpr void report_result()
{
    if constexpr (Fault != fault::none)
        (void)result_mistake<name_in<Entry>, Result, Fault>();
}

// Of a function that returns R.
template <class Entry, class R> constexpr int returned_index()
{
    constexpr int index = find_returned(parsed<Entry>::value);
    return std::is_void<R>::value ? -1 : index;
}

// A constructor has no result in its signature, and returns an object of the class that it is named after.
template <class Entry, class R> constexpr fault find_constructor_fault()
{
    using C = typename pointee<R>::type;
    if constexpr (!std::is_void<C>::value && parsed<Entry>::value.constructor_candidate) {
        slot self{};
        self.class_name = parsed<Entry>::value.name;
        self.class_length = parsed<Entry>::value.name_length;
        return find_class_fault<C>(self);
    }
    return fault::kind;
}

template <class Entry, class R> constexpr bool is_constructor = find_constructor_fault<Entry, R>() == fault::none;

template <class Entry, class R, class Chosen> constexpr fault find_return_fault()
{
    if constexpr (std::is_void<R>::value)
        return fault::none;
    else if constexpr (parsed<Entry>::value.constructor_candidate)
        return find_constructor_fault<Entry, R>();
    else if constexpr (returned_index<Entry, R>() < 0)
        return fault::kind;
    else
        return find_result_fault<bare<R>>(parsed<Entry>::value.result[returned_index<Entry, R>()],
                                          choose(parsed<Entry>::value, Chosen()).item);
}

// The result of parameter J of the C++ function, after its arguments. Returned results have no parameter.
template <class Entry, class R> constexpr int result_of(int j)
{
    int index = j - parsed<Entry>::value.parameters;
    constexpr int returned = returned_index<Entry, R>();
    return returned >= 0 && index >= returned ? index + 1 : index;
}

template <class Entry, class R, class Chosen, class P> constexpr fault find_parameter_fault(int j)
{
    const chosen_types chosen = choose(parsed<Entry>::value, Chosen());
    if (j < parsed<Entry>::value.parameters)
        return find_fault<P>(parsed<Entry>::value.parameter[j], chosen.item);
    return find_out_fault<P>(parsed<Entry>::value.result[result_of<Entry, R>(j)], chosen.item);
}

template <class Entry, class R>
constexpr int expected_parameters = parsed<Entry>::value.parameters + parsed<Entry>::value.results -
                                    (returned_index<Entry, R>() >= 0 ? 1 : 0);

// Compares the parameters P and the result R of a function with its signature: the types only if there are as many as
// expected. Mistakes are reported apart from the comparison, because clang would report each use of it, too.
template <class Entry, class R, class Parameters, class Indices> struct comparison;
template <class Entry, class R, class... P, size_t... J>
struct comparison<Entry, R, types<P...>, std::index_sequence<J...>> {
    static constexpr int found = static_cast<int>(sizeof...(P));

    static constexpr bool fits()
    {
        if constexpr (expected_parameters<Entry, R> == found)
            return ((find_return_fault<Entry, R, types<>>() == fault::none) && ... &&
                    (find_parameter_fault<Entry, R, types<>, P>(J) == fault::none));
        return false;
    }
    static constexpr void report()
    {
        if constexpr (expected_parameters<Entry, R> == found) {
            report_result<Entry, R, find_return_fault<Entry, R, types<>>()>();
            (report_parameter<Entry, static_cast<int>(J), P, find_parameter_fault<Entry, R, types<>, P>(J)>(), ...);
        } else {
            (void)count_mistake<name_in<Entry>, expected_parameters<Entry, R>, found>();
        }
    }
};

template <class Entry, class R, class Parameters> struct compare;
template <class Entry, class R, class... P>
struct compare<Entry, R, types<P...>> : comparison<Entry, R, types<P...>, std::index_sequence_for<P...>> {
};

// -------------------------------------------------------------------------------------------------------------- calls

template <class Entry, class R, int J, class P> constexpr auto find_argument()
{
    constexpr int parameters = parsed<Entry>::value.parameters;
    if constexpr (J < parameters) {
        if constexpr (parsed<Entry>::value.parameter[J].kind == kind::handle)
            return types<object_argument<Entry, J, P>>();
        else
            return types<argument<Entry, J, P>>();
    } else if constexpr (array_of<bare<P>>::is == role::out) {
        return types<out_argument<Entry, result_of<Entry, R>(J), P>>();
    } else {
        return types<value_argument<Entry, result_of<Entry, R>(J), P>>();
    }
}

template <class Only> Only only(types<Only>);

template <class Entry, class R, int J, class P> using argument_of = decltype(only(find_argument<Entry, R, J, P>()));

// All arguments of a call. They are read in order, so that an exception releases those that were read before.
template <class... Argument> struct arguments : Argument... {
    explicit arguments(tenon_call *call) : Argument(call)...
    {
        (void)call;
    }
};

template <class P> constexpr bool is_kept = array_of<typename value_of<bare<P>>::type>::is == role::kept;

// Calls the C++ function. A shape function has the same parameters, but returns no values.
template <class Entry, class R, class... P, size_t... J>
tenon_status run_with(tenon_call *call, types<P...>, std::index_sequence<J...>)
{
    constexpr bool shapes = Entry::shapes;
    constexpr int returned = is_constructor<Entry, R> ? 0 : returned_index<Entry, R>();
    constexpr auto function = Entry::function();
    call_scope scope(call);
    arguments<argument_of<Entry, R, static_cast<int>(J), P>...> all(call);
    if constexpr ((is_kept<P> || ...))
        if (call->flags & TENON_CALL_FAILED)
            return TENON_EFAILED;
    tenon_status status = TENON_OK;
    if constexpr (returned >= 0 && !shapes) {
        constexpr bool constructs = is_constructor<Entry, R>;
        constexpr slot result = parsed<Entry>::value.result[returned];
        status = return_value < constructs ? kind::handle : result.kind, result.owned,
        result.optional >
            (call, returned, function(static_cast<argument_of<Entry, R, static_cast<int>(J), P> &>(all).pass()...));
    } else {
        function(static_cast<argument_of<Entry, R, static_cast<int>(J), P> &>(all).pass()...);
    }
    if constexpr (!shapes)
        (void)((status == TENON_OK &&
                (status = static_cast<argument_of<Entry, R, static_cast<int>(J), P> &>(all).finish(call),
                 status == TENON_OK)) &&
               ...);
    return status;
}

template <class Entry, class R, class Parameters> struct runner;
template <class Entry, class R, class... P> struct runner<Entry, R, types<P...>> {
    static tenon_status run(tenon_call *call)
    {
        return run_with<Entry, R>(call, types<P...>(), std::index_sequence_for<P...>());
    }
};

} // namespace impl
} // namespace tenon

#endif
