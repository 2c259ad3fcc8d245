// A torch C++ extension, as torch's tutorial on custom C++ extensions shows it.
#include <torch/extension.h>

#include <ATen/DeviceAccelerator.h>

static void look(const at::Tensor &a)
{
    const void *volatile data = a.const_data_ptr();
    (void)data;
}

// The memory and the stream on which it is ready.
static void look_with_stream(const at::Tensor &a)
{
    look(a);
    void *volatile stream = at::accelerator::getCurrentStream(a.device().index()).native_handle();
    (void)stream;
}

// The sum of the first elements.
static double firsts(at::TensorList xs)
{
    double sum = 0;
    for (const at::Tensor &x : xs)
        sum += *x.const_data_ptr<float>();
    return sum;
}

static at::Tensor make()
{
    float *data = new float[6];
    return torch::from_blob(data, {2, 3}, [](void *p) { delete[] (float *)p; }, torch::kFloat32);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("borrow", [](const at::Tensor &a) { look(a); });
    m.def("borrow2", [](const at::Tensor &a, const at::Tensor &b) { look(a), look(b); });
    m.def("borrow3", [](const at::Tensor &a, const at::Tensor &b, const at::Tensor &c) { look(a), look(b), look(c); });
    m.def("firsts", [](const std::vector<at::Tensor> &xs) { return firsts(xs); });
    m.def("owned", [](at::Tensor a) { look(a); });
    m.def("stream", &look_with_stream);
    m.def("through", [](at::Tensor a) { return a; });
    m.def("make_torch", &make);
}
