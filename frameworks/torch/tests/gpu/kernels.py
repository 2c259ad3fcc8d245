"""Operators with kernels in C on a GPU: a plain script, since nothing can be installed where there is one.

    python3 frameworks/torch/tests/gpu/kernels.py      builds the package with cc and the library with nvcc; skips without
                                                       a GPU, or before torch 2.10
"""
import pathlib
import sys
import tempfile
import threading
import warnings

TESTS = pathlib.Path(__file__).resolve().parents[4] / "python/tests"
sys.path.append(str(TESTS))
from compiling import build_cuda, build_package  # noqa: E402

CYCLES = 500_000_000


def raises(function, *arguments):
    try:
        function(*arguments)
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error), str(error)
    raise AssertionError("nothing was raised")


def test_the_operators_have_kernels_in_c():
    assert places == len(IN_C), (places, "operators have kernels in C")


def test_results():
    x, y = torch.arange(1000.0, device="cuda"), torch.ones(1000, device="cuda")
    for mode in (torch.inference_mode(), torch.enable_grad()):
        with mode:
            z = ops_in_c.saxpy(2.0, x, y)
            assert z.device == x.device and torch.equal(z, 2 * x + y)
            assert torch.equal(z, ops_in_python.saxpy(2.0, x, y))


def test_writes_are_counted_once():
    for ops in (ops_in_c, ops_in_python):
        x = torch.arange(100, dtype=torch.bfloat16, device="cuda")
        before = x._version
        ops.twice(x)
        assert x._version == before + 1
        assert torch.equal(x, 2 * torch.arange(100, dtype=torch.bfloat16, device="cuda"))


def test_a_side_stream():
    """What is written late on this stream is there when the operator reads it, and another stream does not wait."""
    stream = torch.cuda.Stream()
    for ops in (ops_in_c, ops_in_python):
        x, y = torch.zeros(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            x += 1
            z = ops.saxpy(2.0, x, y)
            w = ops.slow_copy(z, CYCLES)
            assert not stream.query()
        assert torch.cuda.current_stream().query()
        stream.synchronize()
        assert float(z.min()) == float(z.max()) == float(w.min()) == float(w.max()) == 3.0


def test_scratch_memory_is_used_again_in_order():
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    made = [ops_in_c.slow_copy(x + i, 1_000_000) for i in range(20)]
    assert all(torch.equal(y, x + i) for i, y in enumerate(made))


def test_memory_is_given_back():
    x = torch.ones(1 << 20, device="cuda")
    for _ in range(3):
        ops_in_c.slow_copy(x, 0)
        raises(ops_in_c.saxpy, 1.0, x, x[:5])
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(500):
        ops_in_c.slow_copy(x, 0)
        raises(ops_in_c.saxpy, 1.0, x, x[:5])
    assert torch.cuda.memory_allocated() == before


def test_errors_have_the_words_of_the_function():
    x = torch.ones(5, device="cuda")
    cases = [(2.0, x, x[:3]), (2.0, x, x.double()), (2.0, x, torch.ones(5)), (2.0, x, x[:, None])]
    for arguments in cases:
        kind, words = raises(kernels.saxpy, *arguments)
        with torch.inference_mode():
            assert raises(ops_in_c.saxpy, *arguments) == (RuntimeError, words)
            assert raises(operators.saxpy, *arguments) == (kind, words)
        assert raises(ops_in_python.saxpy, *arguments)[1] == words


def test_threads():
    failed = []

    def work(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.inference_mode():
            for i in range(200):
                x = torch.full((1000,), float(number + i), device="cuda")
                if float(ops_in_c.saxpy(2.0, x, x).sum()) != 3000.0 * (number + i):
                    failed.append((number, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def test_other_devices():
    if torch.cuda.device_count() < 2:
        return
    x = torch.ones(5, device="cuda:1")
    with torch.cuda.device(1):
        assert torch.equal(ops_in_c.saxpy(2.0, x, x), 3 * x)
    assert "cuda:1" in raises(ops_in_c.saxpy, 2.0, torch.ones(5, device="cuda:0"), x)[1]


def main():
    global torch, kernels, operators, ops_in_c, ops_in_python, places, IN_C
    import torch

    if not torch.cuda.is_available() or tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10):
        print("skipped: no GPU that torch can use, or torch", torch.__version__, "is too old")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp())
    build_package(folder)
    build_cuda(folder / "kernels.so", TESTS / "gpu/kernels.cu")
    sys.path.insert(0, str(folder))
    import tenon
    from tenon import _torch_native, _torch_ops

    IN_C = ("saxpy", "twice", "slow_copy", "first")  # `where` runs anywhere
    kernels = tenon.load(folder / "kernels.so")
    warnings.simplefilter("ignore")
    before = _torch_native.kernel_count()
    operators = tenon.torch_ops(kernels, name="gpu_in_c")
    places = _torch_native.kernel_count() - before
    _torch_ops.kernels_in_c = False
    tenon.torch_ops(kernels, name="gpu_in_python")
    ops_in_c, ops_in_python = torch.ops.gpu_in_c, torch.ops.gpu_in_python
    print("torch", torch.__version__, "on", torch.cuda.get_device_name())
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("ok", name)
    operators.close()
    assert _torch_native.kernel_count() == before
    return 0


if __name__ == "__main__":
    sys.exit(main())
