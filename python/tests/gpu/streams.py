"""The order of streams on every way out of Tenon: a plain script, since nothing can be installed where there is a GPU.

    python3 python/tests/gpu/streams.py       prints "route, wrong, of" for each; skips without a GPU

Memory is filled late on a side stream, and read at once by another framework on a stream of its own: directly, through
Tenon, and, as the counter-proof, without waiting. A route through Tenon that reads anything wrong fails the script, and
so does a counter-proof that reads everything right: then nothing was shown. torch, CuPy and nvcc are needed; JAX is used
if it is there and sees the GPU.
"""
import concurrent.futures
import contextlib
import importlib.util
import os
import pathlib
import sys
import tempfile
import time
import traceback

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from compiling import build_cuda, build_package, build_probe  # noqa: E402

SLEEP = 200_000_000  # cycles: about a tenth of a second
READINGS = 8
SIZE = 1 << 16


def build():
    """tenon and tenon_probe by cc, the library of functions by nvcc; its path."""
    folder = pathlib.Path(tempfile.mkdtemp())
    with concurrent.futures.ThreadPoolExecutor() as pool:
        jobs = [pool.submit(build_package, folder), pool.submit(build_probe, folder),
                pool.submit(build_cuda, folder / "kernels.so", HERE / "kernels.cu")]
        for job in jobs:
            job.result()
    sys.path.insert(0, str(folder))
    return folder / "kernels.so"


def optional(name):
    return __import__(name) if importlib.util.find_spec(name) else None


# ----------------------------------------------------------------------------------------------------------- producers
#
# Each is a context manager: inside it the memory is being filled with 7, and the producer's framework says so of itself.


def fill_late(t, stream):
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SLEEP)
        t.fill_(7)


@contextlib.contextmanager
def by_torch():
    """A torch tensor, filled on torch's current stream."""
    t = torch.zeros(SIZE, device="cuda")
    torch.cuda.synchronize()
    fill_late(t, torch_side)
    with torch.cuda.stream(torch_side):
        yield t
    torch.cuda.synchronize()


@contextlib.contextmanager
def by_cupy():
    """A CuPy array, filled on CuPy's current stream."""
    a = cupy.zeros(SIZE, "f4")
    cupy.cuda.Device().synchronize()
    fill_late(torch.from_dlpack(a), torch.cuda.ExternalStream(cupy_side.ptr))
    with cupy_side:
        yield a
    torch.cuda.synchronize()


@contextlib.contextmanager
def by_c():
    """Memory that C code has filled on a stream of its own: no framework knows of it."""
    t = torch.zeros(SIZE, device="cuda")
    torch.cuda.synchronize()
    fill_late(t, torch_side)
    handle = probe.blob(t.data_ptr(), SIZE, 2, 0, torch_side.cuda_stream)
    yield handle
    torch.cuda.synchronize()
    del handle
    del t


class NoWait:
    """The producer, but nobody is let wait."""

    def __init__(self, producer):
        self.producer = producer

    def __dlpack__(self, *, stream=None, **keywords):
        return self.producer.__dlpack__(stream=-1, **keywords)

    def __dlpack_device__(self):
        return self.producer.__dlpack_device__()


# ----------------------------------------------------------------------------------------------------------- consumers
#
# Each takes what gives it an array of its framework, reads that on a stream of its own, and gives what it has read.


def read_cupy(give):
    with cupy_reader:
        return cupy.multiply(give(), 1)


def read_jax(give):
    return double(give()) / 2


def read_torch(give):
    """By a stream that is torch's current one when the array is made and read."""
    with torch.cuda.stream(torch_reader):
        return give().clone()


def read_torch_default(give):
    """The array is made where the producer is current, and read on the default stream, as a capsule's consumer does."""
    array = give()
    with torch.cuda.stream(torch.cuda.default_stream()):
        return array.clone()


def read_function(give):
    return give()


def double(x):
    import jax

    if not hasattr(double, "jitted"):
        double.jitted = jax.jit(lambda y: y * 2)
    return double.jitted(x)


def copied(x, out):
    """By a function of ours: it runs where the memory is ready, and reads it there."""
    return gpu.saxpy(1.0, x, zeros_like(x), out=out)


def zeros_like(x):
    return torch_zeros if not isinstance(x, cupy.ndarray) else cupy_zeros


def values(result):
    """What was read, once everything has run."""
    if isinstance(result, torch.Tensor):
        return result.cpu().numpy()
    if isinstance(result, cupy.ndarray):
        return cupy.asnumpy(result)
    import numpy

    return numpy.asarray(result)


# -------------------------------------------------------------------------------------------------------------- routes


def routes():
    """(route, what is expected of it, producer, consumer, the producer's memory -> an array of the consumer's)."""
    from_jax = jax and jax.dlpack.from_dlpack
    right, wrong, told = "right", "wrong", "told"
    tensor = lambda x: tenon.to(x, "tenon")
    yield "torch to CuPy, directly", told, by_torch, read_cupy, lambda x: cupy.from_dlpack(x)
    yield "torch to CuPy, tenon.to(x, 'cupy')", right, by_torch, read_cupy, lambda x: tenon.to(x, "cupy")
    yield "torch to CuPy, cupy.from_dlpack(tenon.Tensor)", right, by_torch, read_cupy, lambda x: cupy.from_dlpack(tensor(x))
    yield "torch to CuPy, tenon_py_export from C", right, by_torch, read_cupy, lambda x: probe.through(x, probe.CUPY)
    yield "torch to CuPy, directly, not waiting", wrong, by_torch, read_cupy, lambda x: cupy.from_dlpack(NoWait(x))
    yield "torch to CuPy, tenon.Tensor, not waiting", wrong, by_torch, read_cupy, lambda x: cupy.from_dlpack(NoWait(tensor(x)))
    if from_jax:
        yield "torch to JAX, directly", told, by_torch, read_jax, lambda x: from_jax(x)
        yield "torch to JAX, tenon.to(x, 'jax')", right, by_torch, read_jax, lambda x: tenon.to(x, "jax")
        yield "torch to JAX, from_dlpack(tenon.Tensor)", right, by_torch, read_jax, lambda x: from_jax(tensor(x))
        yield "torch to JAX, directly, not waiting", wrong, by_torch, read_jax, lambda x: from_jax(NoWait(x))
        yield "torch to JAX, tenon.Tensor, not waiting", wrong, by_torch, read_jax, lambda x: from_jax(NoWait(tensor(x)))
    default = read_torch_default
    yield "torch to a capsule, directly", told, by_torch, default, lambda x: torch.from_dlpack(x.__dlpack__(stream=None))
    yield "torch to a capsule, tenon.Tensor", right, by_torch, default, lambda x: torch.from_dlpack(tensor(x).__dlpack__())
    yield "torch to a capsule, tenon_py_export from C", right, by_torch, default, (
        lambda x: torch.from_dlpack(probe.through(x, probe.CAPSULE)))
    yield "torch to a capsule, tenon.Tensor, not waiting", wrong, by_torch, default, (
        lambda x: torch.from_dlpack(tensor(x).__dlpack__(stream=-1)))
    yield "torch to torch, tenon.to(x, 'torch')", right, by_torch, lambda give: give().clone(), lambda x: tenon.to(x, "torch")
    yield "torch to a function, directly", told, by_torch, read_function, lambda x: copied(x, torch.empty_like(x))
    yield "torch to a function, tenon.Tensor", right, by_torch, read_function, lambda x: copied(tensor(x), torch.empty_like(x))
    yield "torch to a function, another copy's tenon.Tensor", right, by_torch, read_function, (
        lambda x: copied(probe.through(x, probe.TENSOR), torch.empty_like(x)))
    yield "torch to a function on another stream", wrong, by_torch, read_torch, lambda x: copied(x, torch.empty_like(x))
    yield "CuPy to torch, directly", told, by_cupy, read_torch, lambda x: torch.from_dlpack(x)
    yield "CuPy to torch, tenon.to(x, 'torch')", right, by_cupy, read_torch, lambda x: tenon.to(x, "torch")
    yield "CuPy to torch, torch.from_dlpack(tenon.Tensor)", right, by_cupy, read_torch, lambda x: torch.from_dlpack(tensor(x))
    yield "CuPy to torch, directly, not waiting", wrong, by_cupy, read_torch, lambda x: torch.from_dlpack(NoWait(x))
    if from_jax:
        yield "CuPy to JAX, directly", told, by_cupy, read_jax, lambda x: from_jax(x)
        yield "CuPy to JAX, tenon.to(x, 'jax')", right, by_cupy, read_jax, lambda x: tenon.to(x, "jax")
    yield "CuPy to a function, directly", told, by_cupy, read_function, lambda x: copied(x, cupy.empty_like(x))
    # Not into an array of CuPy's: that would be asked to let the function's stream wait, too.
    yield "CuPy to a function, tenon.Tensor", right, by_cupy, read_function, lambda x: copied(tensor(x), torch.empty_like(torch_zeros))
    # A function runs on the stream of its first array's framework; the result is another's, which reads it on its own.
    yield "CuPy to a function, result in CuPy", right, by_cupy, read_function, lambda x: cupy.multiply(copied(x, None), 1)
    yield "CuPy to a function, like=torch", right, by_cupy, read_torch, lambda x: gpu.saxpy(1.0, x, cupy_zeros, like=torch)
    yield "CuPy to a function, out= of torch's", right, by_cupy, read_torch, lambda x: copied(x, torch.empty_like(torch_zeros))
    yield "torch to a function, like=cupy", right, by_torch, read_cupy, lambda x: gpu.saxpy(1.0, x, torch_zeros, like=cupy)
    yield "torch to a function, out= of CuPy's", right, by_torch, read_cupy, lambda x: copied(x, cupy.empty_like(cupy_zeros))
    yield "C to CuPy, tenon_py_export", right, by_c, read_cupy, lambda h: probe.export(h, probe.CUPY)
    yield "C to torch, tenon_py_export", right, by_c, read_torch, lambda h: probe.export(h, probe.TORCH)
    yield "C to torch, torch.from_dlpack(tenon.Tensor)", right, by_c, read_torch, lambda h: torch.from_dlpack(probe.export(h))
    yield "C to a capsule, tenon_py_export", right, by_c, default, lambda h: torch.from_dlpack(probe.export(h, probe.CAPSULE))
    if from_jax:
        yield "C to JAX, tenon_py_export", right, by_c, read_jax, lambda h: probe.export(h, probe.JAX)
    yield "C to a function, tenon.Tensor", right, by_c, read_function, (
        lambda h: copied(probe.export(h), torch.empty(SIZE, device="cuda")))
    yield "C to CuPy, tenon.Tensor, not waiting", wrong, by_c, read_cupy, lambda h: cupy.from_dlpack(NoWait(probe.export(h)))


def reading(producer, consumer, take):
    """Whether one reading is wrong."""
    with producer() as memory:
        result = consumer(lambda: take(memory))
    torch.cuda.synchronize()
    return not (values(result) == 7).all()


def try_route(route, expected, producer, consumer, take):
    """False: it is not as expected."""
    try:
        reading(producer, consumer, take)  # kernels are loaded and compiled here, which takes longer than the sleep
        wrong = sum(reading(producer, consumer, take) for _ in range(READINGS))
    except Exception:
        torch.cuda.synchronize()
        print(f"{route}, error, {READINGS}", flush=True)
        traceback.print_exc()
        return expected == "told"
    good = {"right": wrong == 0, "wrong": wrong > 0, "told": True}[expected]
    print(f"{route}, {wrong}, {READINGS}{'' if good else f'   FAILED: expected {expected}'}", flush=True)
    return good


def main():
    global torch, cupy, jax, tenon, probe, gpu, torch_side, torch_reader, cupy_side, cupy_reader, torch_zeros, cupy_zeros
    torch, cupy, jax = optional("torch"), optional("cupy"), optional("jax")
    if not torch or not torch.cuda.is_available() or not cupy:
        print("skipped: no GPU, or no torch and CuPy that see it")
        return 0
    library = build()
    import tenon
    import tenon_probe as probe

    gpu = tenon.load(library)
    if jax:
        import jax.dlpack

        if jax.default_backend() != "gpu":
            print("JAX is left out: it sees no GPU")
            jax = None
    torch_side, torch_reader = torch.cuda.Stream(), torch.cuda.Stream()
    cupy_side, cupy_reader = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    torch_zeros, cupy_zeros = torch.zeros(SIZE, device="cuda"), cupy.zeros(SIZE, "f4")
    torch.cuda.synchronize()
    print("torch", torch.__version__, "cupy", cupy.__version__, "jax", jax and jax.__version__, "on",
          torch.cuda.get_device_name())
    started = time.monotonic()
    failed = [route[0] for route in routes() if not try_route(*route)]
    print(f"{len(failed)} failed in {time.monotonic() - started:.0f} s", *failed, sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
