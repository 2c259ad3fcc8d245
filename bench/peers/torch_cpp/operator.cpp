// saxpy as an operator of torch, registered with TORCH_LIBRARY as torch's tutorial on custom operators shows it.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <ATen/ATen.h>

static at::Tensor saxpy(double a, const at::Tensor &x, const at::Tensor &y)
{
    TORCH_CHECK(x.sizes() == y.sizes(), "x and y differ in length");
    TORCH_CHECK(x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat, "expected float32");
    TORCH_CHECK(x.dim() == 1 && x.is_contiguous() && y.is_contiguous(), "expected one dimension without gaps");
    at::Tensor z = at::empty_like(x);
    const float *from_x = x.const_data_ptr<float>(), *from_y = y.const_data_ptr<float>();
    float *to = z.mutable_data_ptr<float>();
    for (int64_t i = 0, n = x.size(0); i < n; i++)
        to[i] = static_cast<float>(a) * from_x[i] + from_y[i];
    return z;
}

static at::Tensor saxpy_meta(double, const at::Tensor &x, const at::Tensor &) { return at::empty_like(x); }

// saxpy with gradients, as torch's tutorial on autograd in C++ shows it.
class Recorded : public torch::autograd::Function<Recorded> {
public:
    static at::Tensor forward(torch::autograd::AutogradContext *ctx, double a, const at::Tensor &x, const at::Tensor &y)
    {
        at::AutoDispatchBelowADInplaceOrView below;
        ctx->saved_data["a"] = a;
        ctx->save_for_backward({x, y});
        static auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("bench_cpp::saxpy_recorded", "")
                             .typed<at::Tensor(double, const at::Tensor &, const at::Tensor &)>();
        return op.call(a, x, y);
    }

    static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                   const torch::autograd::variable_list &grads)
    {
        return {at::Tensor(), ctx->saved_data["a"].toDouble() * grads[0], grads[0]};
    }
};

static at::Tensor saxpy_recorded(double a, const at::Tensor &x, const at::Tensor &y) { return Recorded::apply(a, x, y); }

static void scale(double a, const at::Tensor &x)
{
    TORCH_CHECK(x.scalar_type() == at::kFloat, "expected float32");
    TORCH_CHECK(x.dim() == 1 && x.is_contiguous(), "expected one dimension without gaps");
    float *to = x.mutable_data_ptr<float>();
    for (int64_t i = 0, n = x.size(0); i < n; i++)
        to[i] *= static_cast<float>(a);
}

TORCH_LIBRARY(bench_cpp, m)
{
    m.def("saxpy(float a, Tensor x, Tensor y) -> Tensor");
    m.def("saxpy_recorded(float a, Tensor x, Tensor y) -> Tensor");
    m.def("scale(float a, Tensor(a!) x) -> ()");
}
TORCH_LIBRARY_IMPL(bench_cpp, CPU, m)
{
    m.impl("saxpy", &saxpy);
    m.impl("saxpy_recorded", &saxpy);
    m.impl("scale", &scale);
}
TORCH_LIBRARY_IMPL(bench_cpp, Meta, m) { m.impl("saxpy", &saxpy_meta); }
TORCH_LIBRARY_IMPL(bench_cpp, Autograd, m) { m.impl("saxpy_recorded", &saxpy_recorded); }
