// Functions in C++17, with containers and exceptions as usual. The caller gets what they throw as its own exception.
//
//   c++ -std=c++17 -O3 -shared -fPIC $(python -m tenon cflags) kernels.cpp -o kernels.so
#include <tenon/function.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace
{

template <typename T> double median_of(const tenon_view *x)
{
    std::vector<T> sorted(static_cast<std::size_t>(x->numel));
    for (int64_t i = 0; i < x->numel; i++)
        sorted[static_cast<std::size_t>(i)] = tenon_at(x, const T, i);
    auto middle = sorted.begin() + x->numel / 2;
    std::nth_element(sorted.begin(), middle, sorted.end());
    return static_cast<double>(*middle);
}

tenon_status median(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    if (x->numel == 0)
        throw std::invalid_argument("an empty array has no median");
    bool single = tenon_dtype_equal(tenon_type(call, 0), TENON_F32);
    return tenon_return_double(call, 0, single ? median_of<float>(x) : median_of<double>(x));
}

tenon_status argsort(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t *order = tenon_result_data(call, 0, int64_t);
    int64_t n = tenon_dim(call, 0);
    std::iota(order, order + n, int64_t{0});
    std::stable_sort(order, order + n, [x](int64_t a, int64_t b) { return x[a] < x[b]; });
    return TENON_OK;
}

} // namespace

TENON_MODULE(kernels, "Kernels in C++.",
             TENON_FUNCTION("median(x: T[n]) -> float where T = f32|f64", median, "Returns the upper median."),
             TENON_FUNCTION("argsort(x: f32[n] c) -> i64[n]", argsort,
                            "Returns the indices that sort x. The sort is stable."))
