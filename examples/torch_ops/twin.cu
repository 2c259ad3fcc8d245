// The operator of kernels.cu, registered through torch's C++ API, for the comparison in run.py.
#include "rms_norm.cuh"
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using bf16 = __nv_bfloat16;

static const bf16 *data(const Tensor &t)
{
    return reinterpret_cast<const bf16 *>(t.const_data_ptr<at::BFloat16>());
}

static bf16 *mutable_data(const Tensor &t)
{
    return reinterpret_cast<bf16 *>(t.mutable_data_ptr<at::BFloat16>());
}

static void check_matrix(const char *name, const Tensor &t, const Tensor &x)
{
    TORCH_CHECK_TYPE(t.scalar_type() == at::kBFloat16, name, " must be bfloat16, not ", t.scalar_type());
    TORCH_CHECK_VALUE(t.dim() == 2, name, " must have 2 dimensions, not ", t.dim());
    TORCH_CHECK_VALUE(t.sym_sizes() == x.sym_sizes(), name, " has shape ", t.sym_sizes(), ", and x ", x.sym_sizes());
    TORCH_CHECK_VALUE(t.is_contiguous(), name, " must be contiguous");
    TORCH_CHECK_VALUE(t.device() == x.device(), name, " is on ", t.device(), ", and x on ", x.device());
}

static void check_weight(const OptionalTensor &weight, const Tensor &x)
{
    if (!weight.has_value())
        return;
    TORCH_CHECK_TYPE(weight->scalar_type() == at::kBFloat16, "weight must be bfloat16, not ", weight->scalar_type());
    TORCH_CHECK_VALUE(weight->dim() == 1, "weight must have 1 dimension, not ", weight->dim());
    TORCH_CHECK_VALUE(weight->sym_size(0) == x.sym_size(1), "weight has ", weight->sym_size(0), " elements, and x ",
                      x.sym_size(1), " columns");
    TORCH_CHECK_VALUE(weight->is_contiguous(), "weight must be contiguous");
    TORCH_CHECK_VALUE(weight->device() == x.device(), "weight is on ", weight->device(), ", and x on ", x.device());
}

static Tensor rms_norm_cuda(const Tensor &x, const OptionalTensor &weight, double eps)
{
    check_matrix("x", x, x);
    check_weight(weight, x);
    Tensor y = at::empty_like(x);
    int64_t n = x.size(0), k = x.size(1);
    if (n && k)
        rms_norm_kernel<<<n, RMS_THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
            data(x), weight ? data(*weight) : nullptr, (float)eps, mutable_data(y), k);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

static std::tuple<Tensor, Tensor> rms_norm_grad_cuda(const Tensor &dy, const Tensor &x, const OptionalTensor &weight,
                                                     double eps)
{
    check_matrix("x", x, x);
    check_matrix("dy", dy, x);
    check_weight(weight, x);
    int64_t n = x.size(0), k = x.size(1);
    Tensor dx = at::empty_like(x), dweight = at::empty({k}, x.options());
    Tensor sums = at::empty({RMS_BLOCKS, k}, x.options().dtype(at::kFloat));
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    if (k) {
        rms_norm_grad_kernel<<<RMS_BLOCKS, RMS_THREADS, 0, stream>>>(
            data(dy), data(x), weight ? data(*weight) : nullptr, (float)eps, mutable_data(dx),
            sums.mutable_data_ptr<float>(), n, k);
        rms_norm_sum_kernel<<<(k + RMS_THREADS - 1) / RMS_THREADS, RMS_THREADS, 0, stream>>>(
            sums.const_data_ptr<float>(), mutable_data(dweight), k);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dx, dweight};
}

static Tensor rms_norm_meta(const Tensor &x, const OptionalTensor &weight, double)
{
    check_matrix("x", x, x);
    check_weight(weight, x);
    return at::empty_like(x);
}

static std::tuple<Tensor, Tensor> rms_norm_grad_meta(const Tensor &dy, const Tensor &x, const OptionalTensor &weight,
                                                     double)
{
    check_matrix("x", x, x);
    check_matrix("dy", dy, x);
    check_weight(weight, x);
    return {at::empty_like(x), at::empty_symint({x.sym_size(1)}, x.options())};
}

static Tensor rms_norm(const Tensor &x, const OptionalTensor &weight, double eps)
{
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("twin::rms_norm", "")
                         .typed<Tensor(const Tensor &, const OptionalTensor &, double)>();
    return op.call(x, weight, eps);
}

static std::tuple<Tensor, Tensor> rms_norm_grad(const Tensor &dy, const Tensor &x, const OptionalTensor &weight,
                                                double eps)
{
    static auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("twin::rms_norm_grad", "")
            .typed<std::tuple<Tensor, Tensor>(const Tensor &, const Tensor &, const OptionalTensor &, double)>();
    return op.call(dy, x, weight, eps);
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
    static Tensor forward(torch::autograd::AutogradContext *ctx, const Tensor &x, const OptionalTensor &weight,
                          double eps)
    {
        at::AutoDispatchBelowADInplaceOrView guard;
        ctx->save_for_backward({x, weight.value_or(Tensor())});
        ctx->saved_data["eps"] = eps;
        return rms_norm(x, weight, eps);
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                   torch::autograd::variable_list grads)
    {
        auto saved = ctx->get_saved_variables();
        OptionalTensor weight = saved[1].defined() ? OptionalTensor(saved[1]) : std::nullopt;
        auto [dx, dweight] = rms_norm_grad(grads[0].contiguous(), saved[0], weight, ctx->saved_data["eps"].toDouble());
        return {dx, weight ? dweight : Tensor(), Tensor()};
    }
};

static Tensor rms_norm_autograd(const Tensor &x, const OptionalTensor &weight, double eps)
{
    return RmsNorm::apply(x, weight, eps);
}

TORCH_LIBRARY(twin, m)
{
    m.def("rms_norm(Tensor x, Tensor? weight=None, float eps=1e-06) -> Tensor", {at::Tag::pt2_compliant_tag});
    m.def("rms_norm_grad(Tensor dy, Tensor x, Tensor? weight=None, float eps=1e-06) -> (Tensor, Tensor)",
          {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(twin, CUDA, m)
{
    m.impl("rms_norm", &rms_norm_cuda);
    m.impl("rms_norm_grad", &rms_norm_grad_cuda);
}

TORCH_LIBRARY_IMPL(twin, Meta, m)
{
    m.impl("rms_norm", &rms_norm_meta);
    m.impl("rms_norm_grad", &rms_norm_grad_meta);
}

TORCH_LIBRARY_IMPL(twin, Autograd, m)
{
    m.impl("rms_norm", &rms_norm_autograd);
}
