// Makes the entry of a module's table from a signature and a C++ function.
#ifndef TENON_CPP_BIND_HPP
#define TENON_CPP_BIND_HPP

#include <tenon/cpp/generic.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

// The function for the table of the module. `Caught` fails the call with the exception that is being handled.
template <class Entry, tenon_call_fn Caught> constexpr tenon_call_fn bind()
{
    using Callable = decltype(Entry::function());
    if constexpr (is_generic<Callable>::value) {
        return tenon__guarded<run_generic<Entry>, Caught>;
    } else if constexpr (!is_function<Callable>::value) {
        (void)function_mistake<name_in<Entry>, Callable>();
    } else {
        using Return = typename signature_of<Callable>::result;
        using Parameter = typename signature_of<Callable>::parameters;
        if constexpr (compare<Entry, Return, Parameter>::fits())
            return tenon__guarded<runner<Entry, Return, Parameter>::run, Caught>;
        else
            compare<Entry, Return, Parameter>::report();
    }
    return nullptr;
}

// What follows the signature in an entry.
template <class Function, class Shape> struct entry_parts {
    Function function;
    Shape shape;
    const char *doc;
    uint64_t flags;
};

// A method of a C++ class as a function whose first parameter is the object.
template <class Method, class Self, class Return, class... Parameter> struct method {
    Method pointer;

    constexpr Return operator()(Self &self, Parameter... parameter) const
    {
        return (self.*pointer)(static_cast<Parameter &&>(parameter)...);
    }
};

template <class Function> constexpr Function as_function(Function function)
{
    return function;
}
template <class Return, class Class, class... Parameter, bool Noexcept>
constexpr auto as_function(Return (Class::*pointer)(Parameter...) noexcept(Noexcept))
{
    return method<decltype(pointer), Class, Return, Parameter...>{pointer};
}
template <class Return, class Class, class... Parameter, bool Noexcept>
constexpr auto as_function(Return (Class::*pointer)(Parameter...) const noexcept(Noexcept))
{
    return method<decltype(pointer), const Class, Return, Parameter...>{pointer};
}

template <class Function> constexpr entry_parts<Function, std::nullptr_t> make_parts(Function function)
{
    static_assert(std::is_void<Function>::value,
                  "TENON_CPP needs a documentation string after the function, or nullptr");
    return {function, nullptr, nullptr, 0};
}

template <class Function>
constexpr entry_parts<Function, std::nullptr_t> make_parts(Function function, const char *doc, uint64_t flags = 0)
{
    return {function, nullptr, doc, flags};
}

template <class Function, class Shape>
constexpr entry_parts<Function, Shape> make_parts(Function function, Shape shape, const char *doc, uint64_t flags)
{
    return {function, shape, doc, flags};
}

template <class Source, bool Shape> struct entry {
    static constexpr bool shapes = Shape;
    static constexpr const char *text()
    {
        return Source::tenon__text();
    }
    static constexpr auto function()
    {
        if constexpr (Shape)
            return as_function(Source::tenon__parts().shape);
        else
            return as_function(Source::tenon__parts().function);
    }
};

// The entry of the table.
template <class Source, tenon_call_fn Caught> constexpr tenon_function make_function()
{
    constexpr signature s = parse(Source::tenon__text());
    constexpr auto parts = Source::tenon__parts();
    static_assert(!s.is_class && !s.is_constant, "a class is TENON_CPP_CLASS, and a constant TENON_CONSTANT");
    if constexpr (!s.ok)
        return (void)parse_mistake<name_in<entry<Source, false>>, s.position>(), tenon_function();
    else if constexpr (std::is_same<decltype(parts.shape), std::nullptr_t>::value)
        return {Source::tenon__text(), parts.doc, bind<entry<Source, false>, Caught>(), nullptr, nullptr,
                parts.flags,           {0, 0}};
    else
        return {Source::tenon__text(),
                parts.doc,
                bind<entry<Source, false>, Caught>(),
                bind<entry<Source, true>, Caught>(),
                nullptr,
                parts.flags,
                {0, 0}};
}

// "class Name" for the table.
template <class Class> struct class_text {
    struct buffer {
        char text[64];
    };
    static constexpr buffer make()
    {
        buffer b{};
        static_assert(name_of<Class>::get() != nullptr,
                      "this C++ type has no class name: write TENON_CPP_TYPE(Type) before the module");
        const char *prefix = "class ", *name = name_of<Class>::get() ? name_of<Class>::get() : "";
        int at = 0;
        for (; prefix[at]; at++)
            b.text[at] = prefix[at];
        for (int i = 0; name[i] && at < 63; i++)
            b.text[at++] = name[i];
        return b;
    }
    static constexpr buffer value = make();
};

} // namespace impl
} // namespace tenon

#endif
