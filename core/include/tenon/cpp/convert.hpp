// Reads the arguments of a call as C++ values, and returns C++ values as its results.
#ifndef TENON_CPP_CONVERT_HPP
#define TENON_CPP_CONVERT_HPP

#include <tenon/cpp/match.hpp>
#include <tenon/cpp/signature.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

// The signature of an entry of the table. Entry::text() is its text.
template <class Entry> struct parsed {
    static constexpr signature value = parse(Entry::text());
};

// ---------------------------------------------------------------------------------------------------------- arguments

template <class Type, class Item> Type make_sequence(const Item *items, int64_t count)
{
    if constexpr (std::is_same<Type, in<Item, 1>>::value)
        return Type(items, {count});
    else if constexpr (std::is_constructible<Type, const Item *, size_t>::value)
        return Type(items, static_cast<size_t>(count));
    else
        return Type(items, items + count);
}

// An argument that was given, as a Type. The host has checked its kind.
template <class Type, kind Kind, bool Contiguous> Type read_given(tenon_call *call, int index)
{
    const tenon_value &value = call->args[index];
    (void)value;
    if constexpr (Kind == kind::tensor && array_of<Type>::is == role::kept)
        return Type(tenon_arg_keep(call, index), Contiguous);
    else if constexpr (Kind == kind::tensor)
        return Type(*value.as.view, Contiguous);
    else if constexpr (Kind == kind::tensors)
        return Type(static_cast<const tenon_view *>(value.as.list.data), value.as.list.length, Contiguous);
    else if constexpr (Kind == kind::callable)
        return Type(call, index);
    else if constexpr (Kind == kind::number)
        return static_cast<Type>(value.as.number);
    else if constexpr (Kind == kind::boolean)
        return value.as.integer != 0;
    else if constexpr (Kind == kind::integer || Kind == kind::uinteger || Kind == kind::choice)
        return static_cast<Type>(value.as.integer);
    else if constexpr (Kind == kind::text && std::is_pointer<Type>::value)
        return static_cast<const char *>(value.as.list.data);
    else if constexpr (Kind == kind::text || Kind == kind::bytes)
        return Type(static_cast<const item<Type> *>(value.as.list.data), static_cast<size_t>(value.as.list.length));
    else if constexpr (Kind == kind::texts)
        return Type(static_cast<const tenon_text *>(value.as.list.data), static_cast<size_t>(value.as.list.length));
    else if constexpr (Kind == kind::integers)
        return make_sequence<Type>(static_cast<const int64_t *>(value.as.list.data), value.as.list.length);
    else if constexpr (Kind == kind::numbers)
        return make_sequence<Type>(static_cast<const double *>(value.as.list.data), value.as.list.length);
    else if constexpr (Kind == kind::complex)
        return Type(value.as.parts[0], value.as.parts[1]);
    else
        return value.as.dtype;
}

template <class Type, kind Kind, bool Contiguous, bool Optional> Type read_argument(tenon_call *call, int index)
{
    using Value = typename value_of<Type>::type;
    if constexpr (Optional)
        if (call->args[index].kind == TENON_KIND_NONE)
            return Type();
    return Type(read_given<Value, Kind, Contiguous>(call, index));
}

#ifdef TENON_CHECK_INDICES
template <class Type> void set_label(Type &value, const label &label)
{
    if constexpr (is_array<Type> && array_of<Type>::is != role::list && array_of<Type>::is != role::rw_list &&
                  array_of<Type>::is != role::owned)
        value.name(label);
    else if constexpr (is_optional<Type>) {
        if constexpr (is_array<typename value_of<Type>::type>)
            if (value.has_value())
                set_label(*value, label);
    }
}
#endif

// The call fails if the string has a '\0' inside: the C++ function would see only what is before it.
inline void check_string(tenon_call *call, int index, const char *name, int length)
{
    const tenon_value &value = call->args[index];
    const char *data = value.kind == TENON_KIND_NONE ? nullptr : static_cast<const char *>(value.as.list.data);
    const void *end = data ? memchr(data, 0, static_cast<size_t>(value.as.list.length)) : nullptr;
    if (end)
        tenon_fail(call, TENON_EINVAL, "argument '%.*s': expected a string without '\\0', got one with it at byte %lld",
                   length, name, static_cast<long long>(static_cast<const char *>(end) - data));
}

// The call fails if the integer is outside the range of the Type that the C++ function takes.
template <class Type, kind Kind> void check_range(tenon_call *call, int index, const char *name, int length)
{
    constexpr int bits = 8 * static_cast<int>(sizeof(Type)) - std::is_signed<Type>::value;
    constexpr uint64_t highest = UINT64_MAX >> (64 - bits);
    constexpr int64_t lowest = std::is_signed<Type>::value ? -static_cast<int64_t>(highest) - 1 : 0;
    const tenon_value &value = call->args[index];
    const int64_t given = value.as.integer;
    const auto unsigned_given = static_cast<uint64_t>(given);
    const bool negative = Kind == kind::integer && given < 0;
    if (value.kind == TENON_KIND_NONE || (negative ? given >= lowest : unsigned_given <= highest))
        return;
    if (negative)
        tenon_fail(call, TENON_EOVERFLOW, "argument '%.*s': expected an integer from %lld to %llu, got %lld", length,
                   name, static_cast<long long>(lowest), static_cast<unsigned long long>(highest),
                   static_cast<long long>(given));
    else
        tenon_fail(call, TENON_EOVERFLOW, "argument '%.*s': expected an integer from %lld to %llu, got %llu", length,
                   name, static_cast<long long>(lowest), static_cast<unsigned long long>(highest),
                   static_cast<unsigned long long>(unsigned_given));
}

template <class Parameter>
constexpr bool is_c_string = std::is_same<typename value_of<bare<Parameter>>::type, const char *>::value;

// Argument Index of the call, for a Parameter of the C++ function.
template <class Entry, int Index, class Parameter> struct argument {
    using Type = bare<Parameter>;
    static constexpr slot shape = parsed<Entry>::value.parameter[Index];
    Type value;

    explicit argument(tenon_call *call)
        : value(read_argument<Type, shape.kind, shape.contiguous, shape.optional>(call, Index))
    {
        if constexpr (shape.kind == kind::text && is_c_string<Type>)
            check_string(call, Index, shape.name, shape.name_length);
        if constexpr (is_narrow<typename value_of<Type>::type, shape.kind>)
            check_range<typename value_of<Type>::type, shape.kind>(call, Index, shape.name, shape.name_length);
#ifdef TENON_CHECK_INDICES
        set_label(value, {"argument", shape.name, shape.name_length});
#endif
    }
    Parameter &&pass()
    {
        return static_cast<Parameter &&>(value);
    }
    tenon_status finish(tenon_call *)
    {
        return TENON_OK;
    }
};

// An argument that is an object.
template <class Entry, int Index, class Parameter> struct object_argument {
    using Class = typename class_of<Parameter>::type;
    using Holder = holder<Class>;
    void *pointer; // to the object, or to its holder

    explicit object_argument(tenon_call *call)
        : pointer(call->args[Index].kind == TENON_KIND_NONE ? nullptr : call->args[Index].as.handle.object)
    {
    }
    Class *object() const
    {
        if constexpr (std::is_void<Holder>::value)
            return static_cast<Class *>(pointer);
        else
            return pointer ? static_cast<Holder *>(pointer)->get() : nullptr;
    }
    Parameter pass()
    {
        if constexpr (is_shared<bare<Parameter>> && std::is_reference<Parameter>::value)
            return *static_cast<Holder *>(pointer);
        else if constexpr (is_shared<bare<Parameter>>)
            return pointer ? Parameter(*static_cast<Holder *>(pointer)) : Parameter();
        else if constexpr (std::is_reference<Parameter>::value || is_named<Parameter>::value)
            return *object();
        else
            return Parameter(object());
    }
    tenon_status finish(tenon_call *)
    {
        return TENON_OK;
    }
};

// ------------------------------------------------------------------------------------------------------------ results

template <class Value> tenon_status return_integer(tenon_call *call, int index, Value value)
{
    if constexpr (std::is_unsigned<Value>::value && sizeof(Value) == 8)
        if (value > static_cast<Value>(INT64_MAX))
            return tenon_fail(call, TENON_EOVERFLOW, "result %d: %llu does not fit in 64 bits with a sign", index,
                              static_cast<unsigned long long>(value));
    return tenon_return_int(call, index, static_cast<int64_t>(value));
}

template <class Value> tenon_status return_uinteger(tenon_call *call, int index, Value value)
{
    if constexpr (std::is_signed<Value>::value)
        if (value < 0)
            return tenon_fail(call, TENON_EOVERFLOW, "result %d: %lld is negative, but a uint is not", index,
                              static_cast<long long>(value));
    return tenon_return_uint(call, index, static_cast<uint64_t>(value));
}

// A copy of a container, as a result that the host allocates now.
template <class Value> tenon_status return_copy(tenon_call *call, int index, const Value &value)
{
    const int64_t count = static_cast<int64_t>(value.size());
    const tenon_view *view = tenon_result_alloc(call, index, 1, &count);
    if (!view)
        return TENON_EFAILED;
    if (count)
        memcpy(view->data, value.data(), static_cast<size_t>(count) * sizeof *value.data());
    return TENON_OK;
}

template <class Value> tenon_status return_texts(tenon_call *call, int index, const Value &value)
{
    const size_t count = value.size();
    tenon_text *items = static_cast<tenon_text *>(tenon_scratch(call, (count + 1) * sizeof(tenon_text)));
    if (!items)
        return TENON_EFAILED;
    for (size_t i = 0; i < count; i++)
        items[i] = {value.data()[i].data(), value.data()[i].size()};
    return tenon_return_strs(call, index, items, static_cast<int64_t>(count));
}

template <class Type, class Class, class = void> struct destroyer {
    static void run(void *object)
    {
        delete static_cast<Class *>(object);
    }
};
// A smart pointer that deletes in a way of its own.
template <class Type, class Class> struct destroyer<Type, Class, std::void_t<typename Type::deleter_type>> {
    static void run(void *object)
    {
        typename Type::deleter_type()(static_cast<Class *>(object));
    }
};

template <class Type> struct destroyer<Type, void> { // a holder, or an object that was returned by value
    static void run(void *object)
    {
        delete static_cast<Type *>(object);
    }
};

// The class of an object that a function returns.
template <class Type> constexpr auto find_returned_class()
{
    if constexpr (is_named<Type>::value)
        return static_cast<Type *>(nullptr);
    else if constexpr (is_shared<Type>)
        return static_cast<typename shared_class<Type>::type *>(nullptr);
    else
        return static_cast<typename pointee<Type>::type *>(nullptr);
}

template <class Destroyer> tenon_status give_object(tenon_call *call, int index, void *object)
{
    tenon_status status = tenon_return_handle(call, index, object, Destroyer::run);
    if (status != TENON_OK) // the host has not taken it
        Destroyer::run(object);
    return status;
}

template <bool Optional> tenon_status return_null(tenon_call *call)
{
    return Optional ? TENON_OK
                    : tenon_fail(call, TENON_EFAILED, "its code returned a null pointer instead of an object");
}

template <class Value, bool Optional> tenon_status return_object(tenon_call *call, int index, Value &&value)
{
    using Type = bare<Value>;
    using Class = typename std::remove_pointer<decltype(find_returned_class<Type>())>::type;
    using Holder = holder<Class>;
    constexpr bool is_held = !std::is_void<Holder>::value;
    if constexpr (is_named<Type>::value && is_held) {
        return give_object<destroyer<Holder, void>>(call, index, new Holder(new Class(static_cast<Value &&>(value))));
    } else if constexpr (is_named<Type>::value) {
        return give_object<destroyer<Class, void>>(call, index, new Class(static_cast<Value &&>(value)));
    } else if constexpr (is_held) {
        Holder held(static_cast<Value &&>(value));
        return held.get() ? give_object<destroyer<Holder, void>>(call, index, new Holder(static_cast<Holder &&>(held)))
                          : return_null<Optional>(call);
    } else {
        Class *object = nullptr;
        if constexpr (std::is_pointer<Type>::value)
            object = value;
        else
            object = value.release();
        return object ? give_object<destroyer<Type, Class>>(call, index, object) : return_null<Optional>(call);
    }
}

template <bool Owned, class Value> tenon_status return_tensor(tenon_call *call, int index, Value &&value)
{
    using Type = bare<Value>;
    if constexpr (array_of<Type>::is == role::owned)
        return value.own(call, index);
    else if constexpr (is_array<Type>)
        return tenon_result_of(call, index, const_cast<typename Type::value_type *>(value.data()), value.ndim(),
                               value.shape(), value.strides());
    else if constexpr (Owned)
        return owned<item<Type>, 1>(Type(static_cast<Value &&>(value))).own(call, index);
    else
        return return_copy(call, index, value);
}

// Returns a value that is not None as a result.
template <kind Kind, bool Owned, bool Optional, class Value>
tenon_status return_given(tenon_call *call, int index, Value &&value)
{
    if constexpr (Kind == kind::tensor)
        return return_tensor<Owned>(call, index, static_cast<Value &&>(value));
    else if constexpr (Kind == kind::handle)
        return return_object<Value, Optional>(call, index, static_cast<Value &&>(value));
    else if constexpr (Kind == kind::integer)
        return return_integer(call, index, value);
    else if constexpr (Kind == kind::texts)
        return return_texts(call, index, value);
    else if constexpr (Kind == kind::choice)
        return tenon_return_int(call, index, static_cast<int64_t>(value));
    else if constexpr (Kind == kind::number)
        return tenon_return_double(call, index, static_cast<double>(value));
    else if constexpr (Kind == kind::boolean)
        return tenon_return_bool(call, index, value);
    else if constexpr (Kind == kind::uinteger)
        return return_uinteger(call, index, value);
    else if constexpr (Kind == kind::complex)
        return tenon_return_complex(call, index, value.real(), value.imag());
    else if constexpr (Kind == kind::text && std::is_pointer<bare<Value>>::value)
        return tenon_return_str(call, index, value ? value : "", value ? strlen(value) : 0);
    else if constexpr (Kind == kind::text)
        return tenon_return_str(call, index, value.data(), value.size());
    else if constexpr (Kind == kind::bytes)
        return tenon_return_bytes(call, index, value.data(), value.size());
    else if constexpr (Kind == kind::integers)
        return tenon_return_ints(call, index, value.data(), static_cast<int64_t>(value.size()));
    else if constexpr (Kind == kind::numbers)
        return tenon_return_floats(call, index, value.data(), static_cast<int64_t>(value.size()));
    else
        return TENON_OK;
}

template <kind Kind, bool Owned, bool Optional, class Value>
tenon_status return_value(tenon_call *call, int index, Value &&value)
{
    if constexpr (is_optional<bare<Value>>)
        return value.has_value() ? return_given<Kind, Owned, Optional>(call, index, *static_cast<Value &&>(value))
                                 : TENON_OK;
    else
        return return_given<Kind, Owned, Optional>(call, index, static_cast<Value &&>(value));
}

// Result Index of the call, for a Parameter of the C++ function.
template <class Entry, int Index, class Parameter> struct out_argument {
    static constexpr slot shape = parsed<Entry>::value.result[Index];
    bare<Parameter> value;

    static bare<Parameter> make(tenon_call *call)
    {
        const tenon_view *view = call->results[Index].as.view;
        if constexpr (shape.open) // unless the shape function has allocated it
            return view ? bare<Parameter>(call, Index, *view) : bare<Parameter>(call, Index);
        else
            return bare<Parameter>(call, Index, *view);
    }
    explicit out_argument(tenon_call *call) : value(make(call))
    {
#ifdef TENON_CHECK_INDICES
        value.name({"result", shape.name, shape.name_length ? shape.name_length : Index});
#endif
    }
    Parameter &&pass()
    {
        return static_cast<Parameter &&>(value);
    }
    tenon_status finish(tenon_call *)
    {
        return TENON_OK;
    }
};

// Result Index of the call, a list, for a Parameter of the C++ function.
template <class Entry, int Index, class Parameter> struct out_list_argument {
    bare<Parameter> value;

    explicit out_list_argument(tenon_call *call) : value(call, Index)
    {
    }
    Parameter &&pass()
    {
        return static_cast<Parameter &&>(value);
    }
    tenon_status finish(tenon_call *)
    {
        return TENON_OK;
    }
};

// A result that is not a tensor, or that the function makes: the parameter is a reference.
template <class Entry, int Index, class Parameter> struct value_argument {
    static constexpr slot shape = parsed<Entry>::value.result[Index];
    bare<Parameter> value{};

    explicit value_argument(tenon_call *)
    {
    }
    Parameter pass()
    {
        return value;
    }
    tenon_status finish(tenon_call *call)
    {
        return return_value<shape.kind, shape.owned, shape.optional>(call, Index,
                                                                     static_cast<bare<Parameter> &&>(value));
    }
};

} // namespace impl
} // namespace tenon

#endif
