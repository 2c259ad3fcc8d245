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

template <class X, class E> X make_sequence(const E *items, int64_t count)
{
    if constexpr (std::is_same<X, in<E, 1>>::value)
        return X(items, {count});
    else if constexpr (std::is_constructible<X, const E *, size_t>::value)
        return X(items, static_cast<size_t>(count));
    else
        return X(items, items + count);
}

// An argument that was given, as a value of type X. The host has checked its kind.
template <class X, kind Kind, bool Contiguous> X read_given(tenon_call *call, int index)
{
    const tenon_value &value = call->args[index];
    (void)value;
    if constexpr (Kind == kind::tensor && array_of<X>::is == role::kept)
        return X(tenon_arg_keep(call, index), Contiguous);
    else if constexpr (Kind == kind::tensor)
        return X(*value.as.view, Contiguous);
    else if constexpr (Kind == kind::tensors)
        return X(static_cast<const tenon_view *>(value.as.list.data), value.as.list.length, Contiguous);
    else if constexpr (Kind == kind::number)
        return static_cast<X>(value.as.number);
    else if constexpr (Kind == kind::boolean)
        return value.as.integer != 0;
    else if constexpr (Kind == kind::integer || Kind == kind::uinteger || Kind == kind::choice)
        return static_cast<X>(value.as.integer);
    else if constexpr (Kind == kind::text && std::is_pointer<X>::value)
        return static_cast<const char *>(value.as.list.data);
    else if constexpr (Kind == kind::text || Kind == kind::bytes)
        return X(static_cast<const item<X> *>(value.as.list.data), static_cast<size_t>(value.as.list.length));
    else if constexpr (Kind == kind::texts)
        return X(static_cast<const tenon_text *>(value.as.list.data), static_cast<size_t>(value.as.list.length));
    else if constexpr (Kind == kind::integers)
        return make_sequence<X>(static_cast<const int64_t *>(value.as.list.data), value.as.list.length);
    else if constexpr (Kind == kind::numbers)
        return make_sequence<X>(static_cast<const double *>(value.as.list.data), value.as.list.length);
    else if constexpr (Kind == kind::complex)
        return X(value.as.parts[0], value.as.parts[1]);
    else
        return value.as.dtype;
}

template <class X, kind Kind, bool Contiguous, bool Optional> X read_argument(tenon_call *call, int index)
{
    using V = typename value_of<X>::type;
    if constexpr (Optional)
        if (call->args[index].kind == TENON_KIND_NONE)
            return X();
    return X(read_given<V, Kind, Contiguous>(call, index));
}

#ifdef TENON_CHECKED
template <class X> void set_label(X &value, const label &label)
{
    if constexpr (is_array<X> && array_of<X>::is != role::list && array_of<X>::is != role::owned)
        value.name(label);
    else if constexpr (is_optional<X>) {
        if constexpr (is_array<typename value_of<X>::type>)
            if (value.has_value())
                set_label(*value, label);
    }
}
#endif

// Argument I of the call for parameter P of the C++ function.
template <class Entry, int I, class P> struct argument {
    using X = bare<P>;
    static constexpr slot shape = parsed<Entry>::value.parameter[I];
    X value;

    explicit argument(tenon_call *call) : value(read_argument<X, shape.kind, shape.contiguous, shape.optional>(call, I))
    {
#ifdef TENON_CHECKED
        set_label(value, {"argument", shape.name, shape.name_length});
#endif
    }
    P &&pass()
    {
        return static_cast<P &&>(value);
    }
    tenon_status finish(tenon_call *)
    {
        return TENON_OK;
    }
};

// An argument that is an object.
template <class Entry, int I, class P> struct object_argument {
    using C = typename class_of<P>::type;
    void *pointer;

    explicit object_argument(tenon_call *call)
        : pointer(call->args[I].kind == TENON_KIND_NONE ? nullptr : call->args[I].as.handle.object)
    {
    }
    P pass()
    {
        if constexpr (std::is_void<C>::value) // of a generic lambda: any_object
            return P{pointer};
        else if constexpr (std::is_reference<P>::value)
            return *static_cast<C *>(pointer);
        else
            return P(static_cast<C *>(pointer));
    }
    tenon_status finish(tenon_call *)
    {
        return TENON_OK;
    }
};

// ------------------------------------------------------------------------------------------------------------ results

template <class V> tenon_status return_integer(tenon_call *call, int index, V value)
{
    if constexpr (std::is_unsigned<V>::value && sizeof(V) == 8)
        if (value > static_cast<V>(INT64_MAX))
            return tenon_fail(call, TENON_EOVERFLOW, "result %d: %llu does not fit in 64 bits with a sign", index,
                              static_cast<unsigned long long>(value));
    tenon_return_int(call, index, static_cast<int64_t>(value));
    return TENON_OK;
}

// A copy of a container, as a result that the host allocates now.
template <class V> tenon_status return_copy(tenon_call *call, int index, const V &value)
{
    const int64_t count = static_cast<int64_t>(value.size());
    const tenon_view *view = tenon_result_alloc(call, index, 1, &count);
    if (!view)
        return TENON_EFAILED;
    if (count)
        memcpy(view->data, value.data(), static_cast<size_t>(count) * sizeof *value.data());
    return TENON_OK;
}

template <class V> tenon_status return_texts(tenon_call *call, int index, const V &value)
{
    const size_t count = value.size();
    tenon_text *items = static_cast<tenon_text *>(tenon_scratch(call, (count + 1) * sizeof(tenon_text)));
    if (!items)
        return TENON_EFAILED;
    for (size_t i = 0; i < count; i++)
        items[i] = {value.data()[i].data(), static_cast<int64_t>(value.data()[i].size())};
    tenon_return_strs(call, index, items, static_cast<int64_t>(count));
    return TENON_OK;
}

template <class X, class C, class = void> struct destroyer {
    static void run(void *object)
    {
        delete static_cast<C *>(object);
    }
};
// A smart pointer that deletes in a way of its own.
template <class X, class C> struct destroyer<X, C, std::void_t<typename X::deleter_type>> {
    static void run(void *object)
    {
        typename X::deleter_type()(static_cast<C *>(object));
    }
};

template <class V, bool Optional> tenon_status return_object(tenon_call *call, int index, V &&value)
{
    using X = bare<V>;
    using C = typename pointee<X>::type;
    C *object = nullptr;
    if constexpr (std::is_pointer<X>::value)
        object = value;
    else
        object = value.release();
    if (!object && Optional)
        return TENON_OK;
    if (!object)
        return tenon_fail(call, TENON_EFAILED, "its code returned a null pointer instead of an object");
    tenon_status status = tenon_return_handle(call, index, object, destroyer<X, C>::run);
    if (status != TENON_OK) // the host has not taken it
        destroyer<X, C>::run(object);
    return status;
}

template <bool Owned, class V> tenon_status return_tensor(tenon_call *call, int index, V &&value)
{
    using X = bare<V>;
    if constexpr (array_of<X>::is == role::owned)
        return value.give(call, index);
    else if constexpr (is_array<X>)
        return tenon_result_show(call, index, const_cast<typename X::value_type *>(value.data()), value.ndim(),
                                 value.shape(), value.strides());
    else if constexpr (Owned)
        return owned<item<X>, 1>(X(static_cast<V &&>(value))).give(call, index);
    else
        return return_copy(call, index, value);
}

// Returns a value that is not None as a result.
template <kind Kind, bool Owned, bool Optional, class V>
tenon_status return_given(tenon_call *call, int index, V &&value)
{
    if constexpr (Kind == kind::tensor)
        return return_tensor<Owned>(call, index, static_cast<V &&>(value));
    else if constexpr (Kind == kind::handle)
        return return_object<V, Optional>(call, index, static_cast<V &&>(value));
    else if constexpr (Kind == kind::integer)
        return return_integer(call, index, value);
    else if constexpr (Kind == kind::texts)
        return return_texts(call, index, value);
    else {
        if constexpr (Kind == kind::choice)
            tenon_return_int(call, index, static_cast<int64_t>(value));
        else if constexpr (Kind == kind::number)
            tenon_return_double(call, index, static_cast<double>(value));
        else if constexpr (Kind == kind::boolean)
            tenon_return_bool(call, index, value);
        else if constexpr (Kind == kind::uinteger)
            tenon_return_uint(call, index, static_cast<uint64_t>(value));
        else if constexpr (Kind == kind::complex)
            tenon_return_complex(call, index, value.real(), value.imag());
        else if constexpr (Kind == kind::text && std::is_pointer<bare<V>>::value)
            tenon_return_str(call, index, value ? value : "", value ? strlen(value) : 0);
        else if constexpr (Kind == kind::text)
            tenon_return_str(call, index, value.data(), value.size());
        else if constexpr (Kind == kind::bytes)
            tenon_return_bytes(call, index, value.data(), value.size());
        else if constexpr (Kind == kind::integers)
            tenon_return_ints(call, index, value.data(), static_cast<int64_t>(value.size()));
        else if constexpr (Kind == kind::numbers)
            tenon_return_floats(call, index, value.data(), static_cast<int64_t>(value.size()));
        return TENON_OK;
    }
}

template <kind Kind, bool Owned, bool Optional, class V>
tenon_status return_value(tenon_call *call, int index, V &&value)
{
    if constexpr (is_optional<bare<V>>)
        return value.has_value() ? return_given<Kind, Owned, Optional>(call, index, *static_cast<V &&>(value))
                                 : TENON_OK;
    else
        return return_given<Kind, Owned, Optional>(call, index, static_cast<V &&>(value));
}

// Result I of the call for parameter P of the C++ function.
template <class Entry, int I, class P> struct out_argument {
    static constexpr slot shape = parsed<Entry>::value.result[I];
    bare<P> value;

    static bare<P> make(tenon_call *call)
    {
        const tenon_view *view = call->results[I].as.view;
        if constexpr (shape.open) // unless the shape function has allocated it
            return view ? bare<P>(call, I, *view) : bare<P>(call, I);
        else
            return bare<P>(call, I, *view);
    }
    explicit out_argument(tenon_call *call) : value(make(call))
    {
#ifdef TENON_CHECKED
        value.name({"result", shape.name, shape.name_length ? shape.name_length : I});
#endif
    }
    P &&pass()
    {
        return static_cast<P &&>(value);
    }
    tenon_status finish(tenon_call *)
    {
        return TENON_OK;
    }
};

// A result that is not a tensor, or that the function makes: the parameter is a reference.
template <class Entry, int I, class P> struct value_argument {
    static constexpr slot shape = parsed<Entry>::value.result[I];
    bare<P> value{};

    explicit value_argument(tenon_call *)
    {
    }
    P pass()
    {
        return value;
    }
    tenon_status finish(tenon_call *call)
    {
        return return_value<shape.kind, shape.owned, shape.optional>(call, I, static_cast<bare<P> &&>(value));
    }
};

} // namespace impl
} // namespace tenon

#endif
