// Loops over the items of a batch.
#ifndef TENON_CPP_FOR_EACH_HPP
#define TENON_CPP_FOR_EACH_HPP

#include <tenon/cpp/call.hpp>
#include <tenon/cpp/parallel.hpp>

#include <utility>

namespace tenon
{
namespace impl TENON__HIDDEN
{

template <class Body>
constexpr bool takes_runs = std::is_invocable<Body &, void *const *, const int64_t *, int64_t>::value;

// The parameters of a body that takes one item: a pointer for each tensor.
template <class Parameters> struct item_pointers : std::false_type {
};
template <class... Item>
struct item_pointers<types<Item *...>>
    : std::bool_constant<(sizeof...(Item) > 0) && (std::is_object<Item>::value && ...)> {
    using indices = std::index_sequence_for<Item...>;
    struct sizes {
        static constexpr int count = static_cast<int>(sizeof...(Item));
        static constexpr size_t bytes[] = {sizeof(Item)...};
    };

    // Compilers vectorise the first loop, because its steps are known.
    template <class Body, size_t... Index>
    static void run(Body &body, void *const *data, const int64_t *steps, int64_t count, std::index_sequence<Index...>)
    {
        if (((steps[Index] == 1) && ...)) {
            for (int64_t i = 0; i < count; i++)
                body((static_cast<Item *>(data[Index]) + i)...);
        } else {
            for (int64_t i = 0; i < count; i++)
                body((static_cast<Item *>(data[Index]) + i * steps[Index])...);
        }
    }
};

template <class Body, class = void> struct items_of_body : std::false_type {
};
template <class Body>
struct items_of_body<Body, std::void_t<typename signature_of<Body>::parameters>>
    : item_pointers<typename signature_of<Body>::parameters> {
};

template <class Body> struct batch_body : loop_parts {
    Body &body;

    explicit batch_body(Body &b) : body(b)
    {
    }
    static tenon_status part(void *context, void *const *data, const int64_t *steps, int64_t count)
    {
        batch_body &self = *static_cast<batch_body *>(context);
        return self.run([&] {
            if constexpr (takes_runs<Body>)
                self.body(data, steps, count);
            else
                items_of_body<Body>::run(self.body, data, steps, count, typename items_of_body<Body>::indices());
        });
    }
    tenon_status loop(int64_t grain)
    {
        if constexpr (takes_runs<Body>) {
            return tenon_for_each(running, grain, part, this);
        } else {
            using sizes = typename items_of_body<Body>::sizes;
            return tenon__for_each(running, sizes::count, sizes::bytes, grain, part, this);
        }
    }
};

} // namespace impl

// Calls body(data, steps, count) for runs of items of a batch `**b`, or body(const float *x, ..., float *z) for each item, with
// a pointer to it in each tensor that has the batch: the arguments first, and then the results. The second kind is for items
// that are one element; if a shape has more than `**b`, the call fails. More than `grain` items are shared by several threads:
// see tenon_for_each. The first exception that a body throws ends the loop and is thrown again here. The body may
// use tenon::call() for tenon_fail, tenon_cancelled and other loops only.
template <class Body> TENON__HIDDEN void for_each(int64_t grain, Body &&body)
{
    using type = typename std::remove_reference<Body>::type;
    constexpr bool fits = impl::takes_runs<type> || impl::items_of_body<type>::value;
    static_assert(fits,
                  "the body of for_each takes (void *const *data, const int64_t *steps, int64_t count), or a pointer "
                  "to an item of each tensor, and is not mutable");
    if constexpr (fits) {
        impl::batch_body<type> all(body);
        if (!all.running)
            impl::raise(error(TENON_EFAILED, "tenon::for_each() was called on a thread that has no call"));
        all.end(all.loop(grain));
    }
}

} // namespace tenon

#endif
