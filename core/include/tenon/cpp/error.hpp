// The current call, and how it fails.
#ifndef TENON_CPP_ERROR_HPP
#define TENON_CPP_ERROR_HPP

#include <tenon/cpp/visibility.hpp>
#include <tenon/function.h>

#ifndef TENON__EXCEPTIONS
#include <stdlib.h>
#endif

namespace tenon
{
namespace impl TENON__HIDDEN
{

inline thread_local tenon_call *current_call = nullptr;

// Makes a call the current one of this thread. A function may call another one through the runtime, so calls are nested.
class call_scope
{
  public:
    explicit call_scope(tenon_call *call) : outer(current_call)
    {
        current_call = call;
    }
    ~call_scope()
    {
        current_call = outer;
    }
    call_scope(const call_scope &) = delete;
    call_scope &operator=(const call_scope &) = delete;

  private:
    tenon_call *outer;
};

} // namespace impl

// The call that this thread is running, for the functions of function.h: `tenon_scratch(tenon::call(), 1000)`. NULL on a
// thread that the function started.
TENON__HIDDEN inline tenon_call *call()
{
    return impl::current_call;
}

namespace impl TENON__HIDDEN
{
// A status as the first argument of a constructor that is not the best match for two arguments.
struct formatted_status {
    tenon_status value;

    formatted_status(tenon_status status) : value(status)
    {
    }
};
} // namespace impl

// Fails the call with a status and a message, if it is thrown. With more arguments, the message is formatted as by printf.
class TENON__HIDDEN error : public std::exception
{
  public:
    error(tenon_status status, const char *text) noexcept : status_(status)
    {
        snprintf(text_, sizeof text_, "%s", text ? text : "");
    }
    // Any string that has data() and size(), such as a std::string.
    template <class String, class = decltype(String(static_cast<const char *>(nullptr)))>
    error(tenon_status status, const String &text) noexcept : status_(status)
    {
        snprintf(text_, sizeof text_, "%.*s", static_cast<int>(text.size()), text.data());
    }
    error(impl::formatted_status status, const char *format, ...) noexcept TENON_PRINTF(3, 4) : status_(status.value)
    {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text_, sizeof text_, format, arguments);
        va_end(arguments);
    }

    tenon_status status() const noexcept
    {
        return status_;
    }
    const char *what() const noexcept override
    {
        return text_;
    }

  private:
    tenon_status status_;
    char text_[802]; // more than tenon_fail sends, so that it sees where a character ends
};

namespace impl TENON__HIDDEN
{

// Thrown after a service of the host has failed the call, which has its message already.
struct call_failed {
    tenon_status status;
};

// Ends a function that cannot go on. Without exceptions, the message is printed, and the process aborts.
[[noreturn]] inline void raise(const error &reason)
{
#ifdef TENON__EXCEPTIONS
    throw reason;
#else
    fprintf(stderr, "%s\n", reason.what());
    abort();
#endif
}

// Does nothing without exceptions: the function goes on with an empty array.
inline void raise_failed(tenon_status status = TENON_EFAILED)
{
#ifdef TENON__EXCEPTIONS
    throw call_failed{status};
#else
    (void)status;
#endif
}

#ifdef TENON__EXCEPTIONS
#define TENON__CATCH_OWN                                                                                               \
    catch (const tenon::error &error)                                                                                  \
    {                                                                                                                  \
        return tenon_fail(call, error.status(), "%s", error.what());                                                   \
    }                                                                                                                  \
    catch (const tenon::impl::call_failed &failed)                                                                     \
    {                                                                                                                  \
        return failed.status;                                                                                          \
    }

// Fails the call with the exception that is being handled. stl.hpp has another one, which knows <stdexcept>.
inline tenon_status caught(tenon_call *call)
{
    try {
        throw;
    }
    TENON__CATCH_OWN
    TENON__CATCH_OTHERS
}
#endif

} // namespace impl
} // namespace tenon

#endif
