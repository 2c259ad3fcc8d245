"""Functions on a GPU: a plain script, since nothing can be installed where there is one.

    python3 python/tests/gpu/functions.py      builds the package with cc and kernels.cu with nvcc; skips without a GPU
"""
import importlib.util
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from compiling import Skip, build_cuda, build_package, run_tests  # noqa: E402

SLEEP = 500_000_000  # cycles


def build():
    folder = pathlib.Path(tempfile.mkdtemp())
    build_package(folder)
    build_cuda(folder / "kernels.so", HERE / "kernels.cu")
    sys.path.insert(0, str(folder))
    return folder / "kernels.so"


def optional(name):
    return __import__(name) if importlib.util.find_spec(name) else None


def raises(kind, function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")


def test_torch_in_torch_out():
    x, y = torch.arange(1000.0, device="cuda"), torch.ones(1000, device="cuda")
    z = gpu.saxpy(2.0, x, y)
    assert type(z) is torch.Tensor and z.device == x.device and torch.equal(z, 2 * x + y)
    out = torch.empty_like(x)
    assert gpu.saxpy(2.0, x, y, out=out) is out and torch.equal(out, z)


def test_writes_in_place():
    x = torch.arange(100, dtype=torch.bfloat16, device="cuda")
    assert gpu.twice(x) is None
    assert torch.equal(x, 2 * torch.arange(100, dtype=torch.bfloat16, device="cuda"))


def test_from_dlpack():
    arrays = [torch.arange(6.0, device="cuda")]
    if cupy:
        arrays.append(cupy.arange(6, dtype="float32"))
    for x in arrays:
        shared = tenon.from_dlpack(x, copy=False)
        assert shared.device == "cuda:0" and tenon.from_dlpack(x, device="cuda:0").data_ptr == shared.data_ptr
        for copy in (None, True):
            host = tenon.from_dlpack(x, device="cpu", copy=copy)
            assert host.device == "cpu" and memoryview(host).tolist() == [0, 1, 2, 3, 4, 5]
        if x is arrays[0]:
            copied = tenon.from_dlpack(x, copy=True)
            assert copied.device == "cuda:0" and copied.data_ptr != shared.data_ptr
            assert torch.equal(torch.from_dlpack(copied), arrays[0])
        else:  # CuPy 14 copies to the CPU only
            assert "cupy.ndarray: the producer refused" in raises(BufferError, tenon.from_dlpack, x, copy=True)
        assert "copy=False" in raises(BufferError, tenon.from_dlpack, x, device="cpu", copy=False)
    assert tenon.from_dlpack(torch.arange(6.0), device="cuda:0").device == "cuda:0"
    pinned = torch.arange(6.0).pin_memory()
    assert tenon.from_dlpack(pinned, device="cpu", copy=False).data_ptr == pinned.data_ptr()


def test_the_current_stream_is_the_calls():
    x = torch.ones(3, device="cuda")
    assert gpu.where(x) == (2, 0, torch.cuda.current_stream().cuda_stream)
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        assert gpu.where(x).stream == torch.cuda.current_stream().cuda_stream != 0
    assert gpu.where(torch.ones(3)) == (1, 0, 0)


def test_work_is_in_order_on_another_stream():
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.zeros(1 << 20, device="cuda")
        torch.cuda._sleep(SLEEP)
        x += 1
        y = gpu.slow_copy(x, SLEEP)
        x += 1
        assert float(y.sum()) == 1 << 20


def test_scratch_is_not_used_again_too_early():
    x = torch.ones(1 << 20, device="cuda")
    results = [gpu.slow_copy(x * i, SLEEP // 10) for i in range(5)]
    noise = [torch.full((1 << 20,), -1.0, device="cuda") for _ in range(5)]
    assert [float(r[0]) for r in results] == [0, 1, 2, 3, 4] and len(noise) == 5


def test_device_memory_never_reaches_a_cpu_function():
    message = raises(ValueError, gpu.first, torch.ones(3, device="cuda"))
    assert "first(): argument 'x'" in message and "cuda:0" in message
    assert gpu.first(torch.ones(3)) == 1
    assert gpu.first(torch.ones(3).pin_memory()) == 1
    message = raises(ValueError, gpu.saxpy, 2.0, torch.ones(3), torch.ones(3))
    assert "saxpy(): argument 'x'" in message and "cpu" in message
    message = raises(ValueError, gpu.saxpy, 2.0, torch.ones(3, device="cuda"), torch.ones(3, device="cuda"),
                     out=torch.empty(3))
    assert "'out'" in message


def test_numbers_are_not_fetched_from_the_device():
    message = raises(TypeError, gpu.saxpy, torch.tensor(2.0, device="cuda"), torch.ones(3, device="cuda"),
                     torch.ones(3, device="cuda"))
    assert "x.item()" in message


def test_gradients_are_not_lost():
    x = torch.ones(3, device="cuda", requires_grad=True)
    assert "requires grad" in raises(RuntimeError, gpu.saxpy, 2.0, x, x)


def test_graph_capture():
    x, y, out = (torch.ones(1000, device="cuda") for _ in range(3))
    gpu.saxpy(2.0, x, y, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpu.saxpy(3.0, x, y, out=out)
    x.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert float(out[0]) == 16


def test_cupy_in_cupy_out():
    if not cupy:
        raise Skip("no CuPy")
    x, y = cupy.arange(1000, dtype="f4"), cupy.ones(1000, "f4")
    z = gpu.saxpy(2.0, x, y)
    assert type(z) is cupy.ndarray and bool((z == 2 * x + y).all())
    mixed = gpu.saxpy(2.0, torch.ones(1000, device="cuda"), y)
    assert type(mixed) is torch.Tensor and float(mixed.sum()) == 3000


def test_jax_in_jax_out():
    if not jax:
        raise Skip("no JAX")
    import jax.numpy as jnp
    x = jnp.ones(1000, "f4")
    if x.devices().pop().platform == "cpu":
        raise Skip("JAX sees no GPU")
    y = gpu.saxpy(2.0, x, x)
    assert isinstance(y, jax.Array) and y.devices() == x.devices() and float(y.sum()) == 3000
    z = gpu.saxpy(2.0, x, x, like=torch.ones(1, device="cuda"))
    assert float(z.sum()) == 3000
    assert "immutable" in raises(ValueError, gpu.twice, jnp.ones(3, "bfloat16"))


def main():
    global torch, cupy, jax, gpu, tenon
    torch = optional("torch")
    if not torch or not torch.cuda.is_available():
        print("skipped: no GPU, or no torch that sees it")
        return 0
    library = build()
    import tenon
    cupy, jax = optional("cupy"), optional("jax")
    gpu = tenon.load(library)
    failed = run_tests(globals())
    print(f"torch {torch.__version__}: {failed} failed")
    return 1 if failed else 0


sys.exit(main())
