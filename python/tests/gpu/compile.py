"""tenon.compile with CUDA source: a plain script, since nothing can be installed where there is a GPU.

    python3 python/tests/gpu/compile.py        builds the package with cc; skips without a GPU, torch or nvcc
"""
import importlib.util
import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from compiling import Skip, build_package, run_tests  # noqa: E402

SOURCE = """
#include <tenon/function.h>

__global__ void saxpy_kernel(int64_t n, float a, const float *x, const float *y, float *z)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = a * x[i] + y[i] + MORE;
}

static tenon_status saxpy(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0);
    saxpy_kernel<<<(unsigned)((n + 255) / 256), 256, 0, (cudaStream_t)tenon_stream(call)>>>(
        n, (float)tenon_arg_double(call, 0), tenon_data(call, 1, float), tenon_data(call, 2, float),
        tenon_result_data(call, 0, float));
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? TENON_OK : tenon_fail(call, TENON_EFAILED, "CUDA: %s", cudaGetErrorString(error));
}

__global__ void architecture_kernel(int32_t *result)
{
#ifdef __CUDA_ARCH__
    *result = __CUDA_ARCH__;
#endif
}

static tenon_status architecture(tenon_call *call)
{
    architecture_kernel<<<1, 1, 0, (cudaStream_t)tenon_stream(call)>>>(tenon_rw_data(call, 0, int32_t));
    return TENON_OK;
}

TENON_MODULE(gpu, "Functions on the GPU.",
    TENON_FUNCTION("saxpy(a: float, x: f32[n] c cuda, y: f32[n] c cuda) -> f32[n]", saxpy, "a*x + y"),
    TENON_FUNCTION("architecture(x: i32[1] c rw cuda)", architecture, "The architecture that the code was compiled for."))
"""
CPP_SOURCE = """
#include <tenon/function.hpp>

template <typename T> __global__ void scale_kernel(int64_t n, float a, const T *x, T *z)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = T(a * float(x[i]));
}

TENON_CPP_MODULE(gpu_cpp, "C++ on the GPU.",
    TENON_CPP("scale(a: float, x: T[n] c cuda) -> T[n] where T = f32|f16|bf16", [](double a, auto x, auto z) {
        auto blocks = (unsigned)((x.size() + 255) / 256);
        auto stream = (cudaStream_t)tenon_stream(tenon::call());
        scale_kernel<<<blocks, 256, 0, stream>>>(x.size(), (float)a, x.data(), z.data());
        if (cudaError_t error = cudaGetLastError())
            throw tenon::error(TENON_EFAILED, cudaGetErrorString(error));
    }, "a*x"))
"""
OPTIONS = {"language": "cuda", "flags": ["-DMORE=0"]}


def raises(kind, function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def test_torch():
    x, y = torch.arange(1000.0, device="cuda"), torch.ones(1000, device="cuda")
    z = tenon.compile(SOURCE, **OPTIONS).saxpy(2.0, x, y)
    assert type(z) is torch.Tensor and z.device == x.device and torch.equal(z, 2 * x + y)


def test_cupy():
    if not importlib.util.find_spec("cupy"):
        raise Skip("no CuPy")
    import cupy
    x, y = cupy.arange(1000, dtype="f4"), cupy.ones(1000, "f4")
    z = tenon.compile(SOURCE, **OPTIONS).saxpy(2.0, x, y)
    assert type(z) is cupy.ndarray and bool((z == 2 * x + y).all())


def test_compiled_for_this_gpu():
    found = torch.zeros(1, dtype=torch.int32, device="cuda")
    tenon.compile(SOURCE, **OPTIONS).architecture(found)
    major, minor = torch.cuda.get_device_capability()
    assert int(found) == 100 * major + 10 * minor


def test_found_in_the_cache():
    first = tenon.compile(SOURCE, **OPTIONS)
    start = time.perf_counter()
    second = tenon.compile(SOURCE, **OPTIONS)
    print(f"        a cached call took {1e3 * (time.perf_counter() - start):.2f} ms")
    assert second.__file__ == first.__file__ and second is not first


def test_file_and_a_changed_header():
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "kernels.cu").write_text('#include "more.h"\n' + SOURCE)
    one = torch.ones(3, device="cuda")
    for more in (10, 20):
        (folder / "more.h").write_text(f"#define MORE {more}\n")
        os.utime(folder / "more.h", ns=(more, more))
        assert tenon.compile(folder / "kernels.cu").saxpy(2.0, one, one).tolist() == [3.0 + more] * 3


def test_cpp():
    kernels = tenon.compile(CPP_SOURCE, language="cuda")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.arange(1000.0, device="cuda").to(dtype)
        z = kernels.scale(2.0, x)
        assert z.dtype == dtype and torch.equal(z, 2 * x)


def test_errors():
    error = raises(tenon.CompileError, tenon.compile, SOURCE, language="cuda")
    assert "gpu.cu(8)" in error.output and "MORE" in error.output and error.command[0].endswith("nvcc")
    error = raises(tenon.CompileError, tenon.compile, SOURCE, flags=["-DMORE=0"])  # it is C without `language`
    assert "language='c++' or 'cuda'" in str(error)
    error = raises(tenon.CompileError, tenon.compile, SOURCE, language="cuda", flags=["-DMORE=0", "-arch=sm_1"])
    assert "sm_1" in error.output


def main():
    global torch, tenon
    torch = importlib.util.find_spec("torch") and __import__("torch")
    if not torch or not torch.cuda.is_available():
        print("skipped: no GPU, or no torch that sees it")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp())
    build_package(folder)
    sys.path.insert(0, str(folder))
    os.environ["TENON_CACHE"] = str(folder / "cache")
    import tenon
    failed = run_tests(globals())
    print(f"torch {torch.__version__}: {failed} failed")
    return 1 if failed else 0


sys.exit(main())
