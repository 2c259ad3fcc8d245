// An argument that the C++ function calls: callable('(x: f64[n], step: int) -> float') in the signature.
#ifndef TENON_CPP_CALLBACK_HPP
#define TENON_CPP_CALLBACK_HPP

#include <tenon/cpp/array.hpp>
#include <tenon/cpp/numbers.hpp>
#include <tenon/cpp/values.hpp>

#include <utility>

namespace tenon
{

template <class Function> class callback;

namespace impl TENON__HIDDEN
{

// Makes the value of an argument; `view` is room for that of an array.
template <class Element, int Rank> tenon_value make_value(const array<Element, Rank> &value, tenon_view &view)
{
    view =
        tenon_view_of(value.data(), dtype_of<typename array<Element, Rank>::value_type>, value.ndim(), value.shape());
    view.strides = const_cast<int64_t *>(value.strides());
    return tenon_value_of_view(&view);
}

// A string.
template <class Value>
auto make_value(const Value &value, tenon_view &) -> decltype(static_cast<const char *>(value.data()), tenon_value())
{
    return tenon_value_of_str(value.data(), value.size());
}

inline tenon_value make_value(const char *value, tenon_view &)
{
    return tenon_value_of_str(value, strlen(value));
}

template <class Value>
auto make_value(Value value, tenon_view &) ->
    typename std::enable_if<std::is_arithmetic<Value>::value, tenon_value>::type
{
    if constexpr (std::is_same<Value, bool>::value)
        return tenon_value_of_bool(value);
    else if constexpr (std::is_floating_point<Value>::value)
        return tenon_value_of_double(static_cast<double>(value));
    else
        return tenon_value_of_int(static_cast<int64_t>(value));
}

// Reads a result.
template <class Value> Value take_value(const tenon_value &value)
{
    if constexpr (std::is_floating_point<Value>::value) {
        return static_cast<Value>(value.as.number);
    } else if constexpr (std::is_same<Value, bool>::value) {
        return value.as.integer != 0;
    } else if constexpr (std::is_integral<Value>::value) {
        auto taken = static_cast<Value>(value.as.integer);
        if (static_cast<int64_t>(taken) != value.as.integer || (taken < 0) != (value.as.integer < 0))
            raise(error(TENON_EOVERFLOW, "a callback returned %lld, which is outside the range of its C++ type",
                        static_cast<long long>(value.as.integer)));
        return taken;
    } else {
        return Value(static_cast<const char *>(value.as.list.data), static_cast<size_t>(value.as.list.length));
    }
}

template <class Tuple, size_t... Index> Tuple take_values(const tenon_value *values, std::index_sequence<Index...>)
{
    return Tuple(take_value<typename std::tuple_element<Index, Tuple>::type>(values[Index])...);
}

} // namespace impl

// The caller's function, as callback<double(tenon::in<double, 1>, int64_t)>. Arrays are views of arguments, results or scratch
// memory. It may only be called on the thread of the call. An exception of the callback ends the C++ function; without
// exceptions, look at `tenon::call()->flags & TENON_CALL_FAILED` after it.
template <class Return, class... Argument> class callback<Return(Argument...)>
{
  public:
    TENON__HIDDEN callback()
    {
    }
    TENON__HIDDEN callback(tenon_call *call, int index) : call_(call), index_(index)
    {
    }
    TENON__HIDDEN explicit operator bool() const // false if an optional argument was not given
    {
        return call_;
    }
    TENON__HIDDEN Return operator()(Argument... argument) const
    {
        tenon_view views[sizeof...(Argument) + 1];
        tenon_value args[sizeof...(Argument) + 1] = {}, results[max_values] = {};
        size_t i = 0;
        ((args[i] = impl::make_value(argument, views[i]), i++), ...);
        (void)views;
        if (tenon_callback(call_, index_, args, results) != TENON_OK)
            impl::raise_failed();
        if constexpr (!std::is_void<Return>::value)
            return take(results);
    }

  private:
    enum { max_values = 16 };

    TENON__HIDDEN static Return take(const tenon_value *results)
    {
        if constexpr (std::is_arithmetic<Return>::value || std::is_constructible<Return, const char *, size_t>::value)
            return impl::take_value<Return>(results[0]);
        else if constexpr (!std::is_void<Return>::value)
            return impl::take_values<Return>(results, std::make_index_sequence<std::tuple_size<Return>::value>());
    }

    tenon_call *call_ = nullptr;
    int index_ = 0;
};

} // namespace tenon

#endif
