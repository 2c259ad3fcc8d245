// Keeps C++ exceptions out of C code: TENON_FUNCTION and TENON_MODULE wrap each function in a guard that fails the call.
// tenon/function.h includes it after tenon_fail.
#ifndef TENON_CPP_GUARD_HPP
#define TENON_CPP_GUARD_HPP

#include <exception>
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#define TENON__EXCEPTIONS
#include <new>
#ifndef TENON__CPP // function.hpp leaves it to stl.hpp: it takes longer to compile than everything else together
#include <stdexcept>
#endif
#endif

/* Handlers that fail the call with an exception. Some standard classes have a status of their own; those of the first
 * list need <stdexcept>. */
#define TENON__CATCH(type, status)                                                                                     \
    catch (const type &error)                                                                                          \
    {                                                                                                                  \
        return tenon_fail(call, status, "%s", error.what());                                                           \
    }
#define TENON__CATCH_STANDARD                                                                                          \
    TENON__CATCH(std::out_of_range, TENON_EBOUNDS)                                                                     \
    TENON__CATCH(std::overflow_error, TENON_EOVERFLOW)                                                                 \
    TENON__CATCH(std::invalid_argument, TENON_EINVAL)                                                                  \
    TENON__CATCH(std::domain_error, TENON_EINVAL)                                                                      \
    TENON__CATCH(std::length_error, TENON_EINVAL)                                                                      \
    TENON__CATCH(std::range_error, TENON_EINVAL)
#define TENON__CATCH_OTHERS                                                                                            \
    TENON__CATCH(std::bad_alloc, TENON_ENOMEM)                                                                         \
    catch (const std::exception &error)                                                                                \
    {                                                                                                                  \
        return tenon_fail(call, TENON_EFAILED, "%s", error.what() ? error.what() : "no reason given");                 \
    }                                                                                                                  \
    catch (...)                                                                                                        \
    {                                                                                                                  \
        return tenon_fail(call, TENON_EFAILED, "it threw something that is not a std::exception");                     \
    }

// The function that fails the call with the exception that is being handled.
#ifndef TENON__CPP /* function.hpp has its own */
#ifdef TENON__EXCEPTIONS
static inline tenon_status tenon__caught(tenon_call *call)
{
    try {
        throw;
    }
    TENON__CATCH_STANDARD
    TENON__CATCH_OTHERS
}
#define TENON__CAUGHT tenon__caught
#else
#define TENON__CAUGHT nullptr
#endif
#endif

// Exceptions must not propagate into C code.
template <tenon_call_fn function, tenon_call_fn caught> static tenon_status tenon__guarded(tenon_call *call)
{
#ifdef TENON__EXCEPTIONS
    try {
        return function(call);
    } catch (...) {
        return caught(call);
    }
#else
    return function(call);
#endif
}
// The same for `load` and `unload`, either of which may be NULL. Exceptions of `unload` are ignored.
typedef tenon_status (*tenon__load_fn)(tenon_call *, void **);
typedef void (*tenon__unload_fn)(void *);

template <tenon__load_fn function, tenon_call_fn caught>
static tenon_status tenon__guarded_load(tenon_call *call, void **state)
{
#ifdef TENON__EXCEPTIONS
    try {
        return function(call, state);
    } catch (...) {
        return caught(call);
    }
#else
    return function(call, state);
#endif
}

template <tenon__unload_fn function> static void tenon__guarded_unload(void *state)
{
#ifdef TENON__EXCEPTIONS
    try {
        function(state);
    } catch (...) {
    }
#else
    function(state);
#endif
}

static constexpr tenon__load_fn tenon__load_of(tenon__load_fn function)
{
    return function;
}

static constexpr tenon__unload_fn tenon__unload_of(tenon__unload_fn function)
{
    return function;
}

#define TENON__GUARDED(function) tenon__guarded<function, TENON__CAUGHT>
#define TENON__GUARDED_LOAD(function)                                                                                  \
    (tenon__load_of(function) ? tenon__guarded_load<tenon__load_of(function), TENON__CAUGHT> : tenon__load_of(nullptr))
#define TENON__GUARDED_UNLOAD(function)                                                                                \
    (tenon__unload_of(function) ? tenon__guarded_unload<tenon__unload_of(function)> : tenon__unload_of(nullptr))

#endif
