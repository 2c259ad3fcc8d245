// Loops on several threads.
#ifndef TENON_CPP_PARALLEL_HPP
#define TENON_CPP_PARALLEL_HPP

#include <tenon/cpp/error.hpp>

#include <type_traits>
#ifndef __GNUC__
#include <intrin.h>
#endif

namespace tenon
{
namespace impl TENON__HIDDEN
{

// The parts of a loop on any threads, and the first exception of them.
struct loop_parts {
    tenon_call *running = call();
#ifdef TENON__EXCEPTIONS
    std::exception_ptr first; // that any thread caught
    unsigned char taken = 0;
#endif

    template <class Part> tenon_status run(Part &&part)
    {
        call_scope scope(running);
#ifdef TENON__EXCEPTIONS
        try {
            part();
        } catch (...) {
            if (take())
                first = std::current_exception();
            return TENON_EFAILED;
        }
#else
        part();
#endif
        return TENON_OK;
    }
    // Throws what a part threw.
    void end(tenon_status status)
    {
#ifdef TENON__EXCEPTIONS
        if (first)
            std::rethrow_exception(first);
#endif
        if (status != TENON_OK)
            raise_failed(status);
    }
#ifdef TENON__EXCEPTIONS
    // Whether this thread is the first that failed.
    bool take()
    {
#ifdef __GNUC__
        return !__atomic_exchange_n(&taken, static_cast<unsigned char>(1), __ATOMIC_ACQ_REL);
#else
        return !_InterlockedExchange8(reinterpret_cast<char *>(&taken), 1);
#endif
    }
#endif
};

template <class Body> struct parallel_body : loop_parts {
    Body &body;

    explicit parallel_body(Body &b) : body(b)
    {
    }
    static tenon_status part(void *context, int64_t begin, int64_t end)
    {
        parallel_body &self = *static_cast<parallel_body *>(context);
        return self.run([&] {
            if constexpr (std::is_invocable<Body &, int64_t, int64_t>::value)
                self.body(begin, end);
            else
                for (int64_t i = begin; i < end; i++)
                    self.body(i);
        });
    }
};

} // namespace impl

// Calls body(begin, end), or body(i), for parts of 0 to count - 1, each of at least `grain` except the last, on several
// threads if the process has them: see tenon_parallel_for. The first exception that a body throws ends the loop and is
// thrown again here. The body may use tenon::call() for tenon_fail, tenon_cancelled and other loops only.
template <class Body> TENON__HIDDEN void parallel_for(int64_t count, int64_t grain, Body &&body)
{
    using type = typename std::remove_reference<Body>::type;
    static_assert(std::is_invocable<type &, int64_t, int64_t>::value || std::is_invocable<type &, int64_t>::value,
                  "the body of parallel_for takes (int64_t begin, int64_t end), or one int64_t");
    impl::parallel_body<type> all(body);
    // A thread that the function started has no call: it runs the loop alone.
    tenon_status status = all.running ? tenon_parallel_for(all.running, count, grain, all.part, &all)
                          : count > 0 ? all.part(&all, 0, count)
                                      : TENON_OK;
    all.end(status);
}

} // namespace tenon

#endif
