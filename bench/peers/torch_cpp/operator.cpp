// saxpy as an operator of torch, registered with TORCH_LIBRARY as torch's tutorial on custom operators shows it.
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

TORCH_LIBRARY(bench_cpp, m) { m.def("saxpy(float a, Tensor x, Tensor y) -> Tensor"); }
TORCH_LIBRARY_IMPL(bench_cpp, CPU, m) { m.impl("saxpy", &saxpy); }
TORCH_LIBRARY_IMPL(bench_cpp, Meta, m) { m.impl("saxpy", &saxpy_meta); }
