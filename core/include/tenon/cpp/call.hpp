// Compares the parameters of a C++ function with its signature, and calls it.
#ifndef TENON_CPP_CALL_HPP
#define TENON_CPP_CALL_HPP

#include <tenon/cpp/convert.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

template <class... Element> struct types {
};

// The result and the parameters of a function, or of a lambda that is not generic.
template <class Callable> struct function_of {
};
template <class Return, class... Parameter> struct function_of<Return (*)(Parameter...)> {
    using result = Return;
    using parameters = types<Parameter...>;
};
template <class Return, class... Parameter>
struct function_of<Return (*)(Parameter...) noexcept> : function_of<Return (*)(Parameter...)> {
};
template <class Callable, class Return, class... Parameter>
struct function_of<Return (Callable::*)(Parameter...) const> : function_of<Return (*)(Parameter...)> {
};
template <class Callable, class Return, class... Parameter>
struct function_of<Return (Callable::*)(Parameter...) const noexcept> : function_of<Return (*)(Parameter...)> {
};

template <class Callable, class = void> struct is_generic : std::is_class<Callable> {
};
template <class Callable> struct is_generic<Callable, std::void_t<decltype(&Callable::operator())>> : std::false_type {
};

template <class Callable, bool = std::is_class<Callable>::value> struct signature_of : function_of<Callable> {
};
template <class Callable> struct signature_of<Callable, true> : function_of<decltype(&Callable::operator())> {
};

template <class Callable, class = void> struct is_function : std::false_type {
};
template <class Callable>
struct is_function<Callable, std::void_t<typename signature_of<Callable>::result>> : std::true_type {
};

// ------------------------------------------------------------------------------------------------------ the signature

// Whether the host does not allocate it, so that a C++ function may return it.
constexpr bool is_returnable(const slot &result)
{
    return result.kind != kind::tensors && (result.kind != kind::tensor || result.open);
}

constexpr int count_returnable(const signature &s)
{
    int count = 0;
    for (int i = 0; i < s.results; i++)
        count += is_returnable(s.result[i]);
    return count;
}

// The result that is number `n` of those that a function may return, or the number of results if there are fewer.
constexpr int find_returnable(const signature &s, int n)
{
    int i = 0;
    while (i < s.results && (!is_returnable(s.result[i]) || n-- > 0))
        i++;
    return i;
}

// The return type of a generic lambda that returns a tuple, until its own is known.
struct some_tuple {
};

// How many results a function with the result type Return returns: none, all that it may, in a tuple, or the only one.
template <class Return> constexpr int count_returned(const signature &s)
{
    const int count = count_returnable(s);
    if (std::is_same<Return, some_tuple>::value)
        return count;
    if constexpr (std::is_void<Return>::value)
        return 0;
    else if constexpr (tuple_size<bare<Return>>::value > 1)
        return tuple_size<bare<Return>>::value == count ? count : 0;
    else
        return count == 1;
}

// The values of the dtype variables: those that were chosen, or those that have only one.
struct chosen_types {
    tenon_dtype item[max_variables];
};

template <class... Element> constexpr chosen_types choose(const signature &, types<Element...>)
{
    return {{dtype_of<Element>...}};
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
    while (length < 40 && text[length] != '\0' && text[length] != '(' && text[length] != ':')
        length++;
    return length;
}

template <class Entry, size_t... Index> named<Entry::text()[Index]...> spell_name(std::index_sequence<Index...>);

template <class Entry>
using name_in = decltype(spell_name<Entry>(std::make_index_sequence<measure_name(Entry::text())>()));

template <class Function, int Position> struct parse_mistake {
    static_assert(Position < 0, "the signature does not parse: Position counts characters from 0");
};

template <class Function, class Found> struct function_mistake {
    static_assert(is_function<Found>::value,
                  "TENON_CPP takes a function, a method (&C::f) or a lambda, which has no captures and is not mutable");
};

template <class Function, int Expected, int Found> struct count_mistake {
    static_assert(Expected == Found, "the C++ function has another number of parameters than its signature");
};

// Of an object as a parameter or a result.
template <class Function, fault Fault> struct object_mistake {
    static_assert(
        Fault != fault::name,
        "this C++ type has no class name: write TENON_CPP_TYPE(Type) before the module, or, for a method of a base "
        "class, a lambda");
    static_assert(
        Fault != fault::holder,
        "a shared pointer to this C++ type needs TENON_CPP_TYPE_SHARED(Type), instead of TENON_CPP_TYPE(Type)");
    static_assert(Fault != fault::deleter,
                  "the deleter of the smart pointer has state, which would be lost: use a class without members");
};

template <class Function, int Index, class Parameter, fault Fault>
struct parameter_mistake : object_mistake<Function, Fault> {
    static_assert(Fault != fault::kind, "parameter Index of the C++ function is of another kind than in its signature");
    static_assert(Fault != fault::dtype, "parameter Index of the C++ function has another dtype than in its signature");
    static_assert(Fault != fault::rank,
                  "parameter Index of the C++ function has another number of dimensions than in its signature");
    static_assert(Fault != fault::alignment,
                  "parameter Index of the C++ function is 'unaligned': take an array of void, and use memcpy");
};

template <class Function, class Result, fault Fault> struct result_mistake : object_mistake<Function, Fault> {
    static_assert(Fault != fault::kind, "the C++ function returns a value of another kind than its signature");
    static_assert(Fault != fault::dtype, "the C++ function returns another dtype than its signature");
    static_assert(Fault != fault::rank, "the C++ function returns another number of dimensions than its signature");
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

// Of a function whose result is Return.
template <class Entry, class Return> constexpr int returned = count_returned<Return>(parsed<Entry>::value);

// A constructor has no result in its signature, and returns an object of the class that it is named after.
template <class Entry, class Return> constexpr fault find_constructor_fault()
{
    slot self{};
    self.class_name = parsed<Entry>::value.name;
    self.class_length = parsed<Entry>::value.name_length;
    return parsed<Entry>::value.constructor_candidate ? find_object_fault<Return>(self) : fault::kind;
}

template <class Entry, class Return>
constexpr bool is_constructor = find_constructor_fault<Entry, Return>() == fault::none;

template <class Entry, class Chosen, class Value> constexpr fault find_value_fault(int number)
{
    return find_result_fault<bare<Value>>(parsed<Entry>::value.result[find_returnable(parsed<Entry>::value, number)],
                                          choose(parsed<Entry>::value, Chosen()).item);
}

template <class Entry, class Tuple, class Chosen, size_t... Number>
constexpr fault find_tuple_fault(std::index_sequence<Number...>)
{
    fault found = fault::none;
    ((found = found != fault::none ? found
                                   : find_value_fault<Entry, Chosen, typename std::tuple_element<Number, Tuple>::type>(
                                         static_cast<int>(Number))),
     ...);
    return found;
}

template <class Entry, class Return, class Chosen> constexpr fault find_return_fault()
{
    if constexpr (std::is_void<Return>::value)
        return fault::none;
    else if constexpr (parsed<Entry>::value.constructor_candidate)
        return find_constructor_fault<Entry, bare<Return>>();
    else if constexpr (returned<Entry, Return> == 0)
        return fault::kind;
    else if constexpr (returned<Entry, Return> > 1)
        return find_tuple_fault<Entry, bare<Return>, Chosen>(
            std::make_index_sequence<static_cast<size_t>(returned<Entry, Return>)>());
    else
        return find_value_fault<Entry, Chosen, Return>(0);
}

// The result of the parameter at Position of the C++ function, after its arguments. Returned results have no parameter.
template <class Entry, class Return> constexpr int result_of(int j)
{
    int left = j - parsed<Entry>::value.parameters;
    if (returned<Entry, Return> == 0)
        return left;
    int i = 0;
    while (i < parsed<Entry>::value.results && (is_returnable(parsed<Entry>::value.result[i]) || left-- > 0))
        i++;
    return i;
}

template <class Entry, class Return, class Chosen, class Parameter> constexpr fault find_parameter_fault(int j)
{
    const chosen_types chosen = choose(parsed<Entry>::value, Chosen());
    if (j < parsed<Entry>::value.parameters)
        return find_fault<Parameter>(parsed<Entry>::value.parameter[j], chosen.item);
    return find_out_fault<Parameter>(parsed<Entry>::value.result[result_of<Entry, Return>(j)], chosen.item);
}

template <class Entry, class Return>
constexpr int expected_parameters =
    parsed<Entry>::value.parameters + parsed<Entry>::value.results - returned<Entry, Return>;

// Compares the parameters and the result of a function with its signature: the types only if there are as many as expected.
// Mistakes are reported apart from the comparison, because clang would report each use of it, too.
template <class Entry, class Return, class Parameters, class Indices> struct comparison;
template <class Entry, class Return, class... Parameter, size_t... Position>
struct comparison<Entry, Return, types<Parameter...>, std::index_sequence<Position...>> {
    static constexpr int found = static_cast<int>(sizeof...(Parameter));

    static constexpr bool fits()
    {
        if constexpr (expected_parameters<Entry, Return> == found)
            return ((find_return_fault<Entry, Return, types<>>() == fault::none) && ... &&
                    (find_parameter_fault<Entry, Return, types<>, Parameter>(Position) == fault::none));
        return false;
    }
    static constexpr void report()
    {
        if constexpr (expected_parameters<Entry, Return> == found) {
            report_result<Entry, Return, find_return_fault<Entry, Return, types<>>()>();
            (report_parameter<Entry, static_cast<int>(Position), Parameter,
                              find_parameter_fault<Entry, Return, types<>, Parameter>(Position)>(),
             ...);
        } else {
            (void)count_mistake<name_in<Entry>, expected_parameters<Entry, Return>, found>();
        }
    }
};

template <class Entry, class Return, class Parameters> struct compare;
template <class Entry, class Return, class... Parameter>
struct compare<Entry, Return, types<Parameter...>>
    : comparison<Entry, Return, types<Parameter...>, std::index_sequence_for<Parameter...>> {
};

// -------------------------------------------------------------------------------------------------------------- calls

// An argument of a generic lambda that is converted to the type of its parameter: generic.hpp.
template <class Entry, class Returned, class Chosen, int Position, fault Fault, bool Optional> struct converted;
template <class Parameter> struct is_converted : std::false_type {
};
template <class Entry, class Returned, class Chosen, int Position, fault Fault, bool Optional>
struct is_converted<converted<Entry, Returned, Chosen, Position, Fault, Optional>> : std::true_type {
};

template <class Entry, class Return, int Position, class Parameter> constexpr auto find_argument()
{
    constexpr int parameters = parsed<Entry>::value.parameters;
    if constexpr (is_converted<Parameter>::value) {
        return types<typename Parameter::argument>();
    } else if constexpr (Position < parameters) {
        if constexpr (parsed<Entry>::value.parameter[Position].kind == kind::handle)
            return types<object_argument<Entry, Position, Parameter>>();
        else
            return types<argument<Entry, Position, Parameter>>();
    } else if constexpr (array_of<bare<Parameter>>::is == role::out) {
        return types<out_argument<Entry, result_of<Entry, Return>(Position), Parameter>>();
    } else if constexpr (array_of<bare<Parameter>>::is == role::out_list) {
        return types<out_list_argument<Entry, result_of<Entry, Return>(Position), Parameter>>();
    } else {
        return types<value_argument<Entry, result_of<Entry, Return>(Position), Parameter>>();
    }
}

template <class Only> Only only(types<Only>);

template <class Entry, class Return, int Position, class Parameter>
using argument_of = decltype(only(find_argument<Entry, Return, Position, Parameter>()));

// All arguments of a call. They are read in order, so that an exception releases those that were read before.
template <class... Argument> struct arguments : Argument... {
    explicit arguments(tenon_call *call) : Argument(call)...
    {
        (void)call;
    }
};

// Whether the call can fail when the argument is read.
template <class Entry, int Position, class Parameter> constexpr bool can_fail()
{
    using Value = typename value_of<bare<Parameter>>::type;
    if constexpr (Position < parsed<Entry>::value.parameters)
        return array_of<Value>::is == role::kept || is_c_string<Parameter> ||
               is_narrow<Value, parsed<Entry>::value.parameter[Position].kind>;
    return false;
}

template <class Entry, class Tuple, size_t... Number>
tenon_status return_tuple(tenon_call *call, Tuple &&values, std::index_sequence<Number...>)
{
    using std::get; // and that of a std::tuple, whose header may be missing here
    tenon_status status = TENON_OK;
    (void)((status = return_value<parsed<Entry>::value.result[find_returnable(parsed<Entry>::value, Number)].kind,
                                  parsed<Entry>::value.result[find_returnable(parsed<Entry>::value, Number)].owned,
                                  parsed<Entry>::value.result[find_returnable(parsed<Entry>::value, Number)].optional>(
                call, find_returnable(parsed<Entry>::value, Number), get<Number>(static_cast<Tuple &&>(values))),
            status == TENON_OK) &&
           ...);
    return status;
}

// Calls the C++ function. A shape function has the same parameters, but returns no values.
template <class Entry, class Return, class... Parameter, size_t... Position>
tenon_status run_with(tenon_call *call, types<Parameter...>, std::index_sequence<Position...>)
{
    constexpr bool shapes = Entry::shapes;
    constexpr bool constructs = is_constructor<Entry, bare<Return>>;
    constexpr int count = constructs ? 1 : returned<Entry, Return>;
    constexpr auto function = Entry::function();
    call_scope scope(call);
    arguments<argument_of<Entry, Return, static_cast<int>(Position), Parameter>...> all(call);
    if constexpr ((can_fail<Entry, static_cast<int>(Position), Parameter>() || ...))
        if (call->flags & TENON_CALL_FAILED)
            return TENON_EFAILED;
    tenon_status status = TENON_OK;
    if constexpr (count > 1 && !shapes) {
        status = return_tuple<Entry>(
            call,
            function(static_cast<argument_of<Entry, Return, static_cast<int>(Position), Parameter> &>(all).pass()...),
            std::make_index_sequence<static_cast<size_t>(count)>());
    } else if constexpr (count == 1 && !shapes) {
        constexpr int index = constructs ? 0 : find_returnable(parsed<Entry>::value, 0);
        constexpr slot result = parsed<Entry>::value.result[index];
        status = return_value < constructs ? kind::handle : result.kind, result.owned,
        result.optional >
            (call, index,
             function(static_cast<argument_of<Entry, Return, static_cast<int>(Position), Parameter> &>(all).pass()...));
    } else {
        function(static_cast<argument_of<Entry, Return, static_cast<int>(Position), Parameter> &>(all).pass()...);
    }
    if constexpr (!shapes)
        (void)((status == TENON_OK &&
                (status =
                     static_cast<argument_of<Entry, Return, static_cast<int>(Position), Parameter> &>(all).finish(call),
                 status == TENON_OK)) &&
               ...);
    return status;
}

template <class Entry, class Return, class Parameters> struct runner;
template <class Entry, class Return, class... Parameter> struct runner<Entry, Return, types<Parameter...>> {
    static tenon_status run(tenon_call *call)
    {
        return run_with<Entry, Return>(call, types<Parameter...>(), std::index_sequence_for<Parameter...>());
    }
};

} // namespace impl
} // namespace tenon

#endif
