"""The bridge on a GPU: a plain script, since nothing can be installed where there is one.

    python3 python/tests/gpu/run.py        builds tenon_probe with cc, then runs every test below; skips without a GPU

torch is needed; CuPy and JAX are used where they are there.
"""
import gc
import importlib.util
import os
import pathlib
import sys
import tempfile
import traceback

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from compiling import build_probe  # noqa: E402

CUDA, CUDA_MANAGED, CPU = 2, 13, 1
SLEEP = 2_000_000_000  # cycles: about a second


def build():
    folder = pathlib.Path(tempfile.mkdtemp())
    build_probe(folder)
    sys.path.insert(0, str(folder))


def optional(name):
    return __import__(name) if importlib.util.find_spec(name) else None


def raises(kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")


class Skip(Exception):
    pass


# ------------------------------------------------------------------------------------------------------------- torch

def test_torch_is_borrowed_where_it_is():
    t = torch.arange(12.0, device="cuda").reshape(3, 4)[:, ::2]
    view = p.borrow(t, p.ANY_DEVICE)
    assert view["data"] == t.data_ptr() and view["device"] == (CUDA, t.device.index)
    assert view["shape"] == (3, 2) and view["strides"] == (4, 2)
    assert "cuda:0" in raises(ValueError, p.borrow, t)


def test_torch_comes_back_as_itself():
    t = torch.nn.Parameter(torch.ones(3, device="cuda"))
    handle = p.import_(t, p.ANY_DEVICE)
    assert p.export(handle, p.SAME) is t
    other = p.export(p.import_(t.detach(), p.ANY_DEVICE), p.TORCH)
    assert other.data_ptr() == t.data_ptr() and other.device == t.device


def test_memory_outlives_the_tensor():
    t = torch.full((1 << 20,), 7, dtype=torch.int32, device="cuda")
    handle = p.import_(t, p.ANY_DEVICE)
    del t
    torch.cuda.empty_cache()
    torch.zeros(1 << 22, dtype=torch.int32, device="cuda")
    again = p.export(handle, p.TORCH)
    assert int(again.sum()) == 7 << 20


def test_new_arrays_are_on_the_device_of_like():
    like = torch.zeros(2, device="cuda")
    array, view = p.empty(like, "bf16", (4, 5))
    assert array.dtype == torch.bfloat16 and array.device == like.device and view["device"] == (CUDA, like.device.index)
    assert view["data"] == array.data_ptr()


def test_pinned_memory_is_the_cpus():
    t = torch.zeros(4).pin_memory()
    assert p.borrow(t)["data"] == t.data_ptr()


def test_stream_is_the_current_one():
    t = torch.zeros(4, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert p.stream(t) == side.cuda_stream
    assert p.stream(t) == torch.cuda.current_stream().cuda_stream


# --------------------------------------------------------------------------------------------------- order of streams

def filled_late(t, stream):
    """On `stream` the tensor becomes 7, but only after a long while."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SLEEP)
        t.fill_(7)


def seen_on(stream, t):
    """What work on `stream` reads now."""
    with torch.cuda.stream(stream):
        return t.clone()


def test_torch_waits_for_the_producers_stream():
    t = torch.zeros(4, device="cuda")
    producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    filled_late(t, producer)
    with torch.cuda.stream(producer):
        p.borrow(t, p.ANY_DEVICE, consumer.cuda_stream)
    result = seen_on(consumer, t)
    torch.cuda.synchronize()
    assert result.tolist() == [7] * 4


def test_without_waiting_the_old_values_are_seen():
    t = torch.zeros(4, device="cuda")
    producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    seen_on(consumer, t)
    torch.cuda.synchronize()
    filled_late(t, producer)
    with torch.cuda.stream(producer):
        p.borrow(t, p.ANY_DEVICE, -1)
    result = seen_on(consumer, t)
    torch.cuda.synchronize()
    assert result.tolist() == [0] * 4  # or the test above would show nothing


def test_cupy_waits_for_the_producers_stream():
    if not cupy:
        raise Skip("no CuPy")
    a = cupy.zeros(4, "float32")
    t = torch.from_dlpack(a)
    producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    filled_late(t, producer)
    with cupy.cuda.ExternalStream(producer.cuda_stream):
        p.borrow(a, p.ANY_DEVICE, consumer.cuda_stream)
    result = seen_on(consumer, t)
    torch.cuda.synchronize()
    assert result.tolist() == [7] * 4


# -------------------------------------------------------------------------------------------------------- CuPy and JAX

def test_cupy_both_ways():
    if not cupy:
        raise Skip("no CuPy")
    a = cupy.arange(12, dtype="float64").reshape(3, 4).T
    view = p.borrow(a, p.ANY_DEVICE)
    assert view["data"] == a.data.ptr and view["strides"] == (1, 4) and view["device"] == (CUDA, 0)
    handle = p.import_(a, p.ANY_DEVICE)
    assert p.export(handle, p.SAME) is a
    out = p.export(handle, p.CUPY)
    assert out.data.ptr == a.data.ptr and out.strides == a.strides
    t = p.export(handle, p.TORCH)
    assert t.data_ptr() == a.data.ptr
    t[0, 0] = 99
    torch.cuda.synchronize()
    assert float(a[0, 0]) == 99
    back = p.export(p.import_(torch.ones(3, device="cuda"), p.ANY_DEVICE), p.CUPY)
    assert back.tolist() == [1, 1, 1]
    array, view = p.empty(a, "f32", (2, 2))
    assert isinstance(array, cupy.ndarray) and view["data"] == array.data.ptr


def test_managed_memory_is_read_by_both():
    if not cupy:
        raise Skip("no CuPy")
    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        a = cupy.arange(6, dtype="float32")
    cupy.cuda.Device().synchronize()
    view = p.borrow(a, p.ANY_DEVICE)
    assert view["data"] == a.data.ptr and view["device"][0] in (CUDA, CUDA_MANAGED)
    if view["device"][0] == CUDA_MANAGED:
        assert p.export(p.import_(a), p.NUMPY).tolist() == [0, 1, 2, 3, 4, 5]


def test_jax_on_the_gpu():
    if not jax or jax.default_backend() != "gpu":
        raise Skip("no JAX on a GPU")
    a = jax.numpy.arange(6.0).reshape(2, 3)
    view = p.borrow(a, p.ANY_DEVICE)
    assert view["data"] == a.unsafe_buffer_pointer() and view["shape"] == (2, 3) and view["device"] == (CUDA, 0)
    t = p.export(p.import_(a, p.ANY_DEVICE), p.TORCH) if not view["flags"] & 1 else None
    assert t is None or t.data_ptr() == view["data"]
    assert "jax.ffi" in raises(ValueError, p.empty, a, "f32", (2,))
    back = p.export(p.import_(torch.ones(64, device="cuda"), p.ANY_DEVICE), p.JAX)
    assert back.tolist() == [1.0] * 64


# ------------------------------------------------------------------------------------------------- array interfaces

class Interface:
    def __init__(self, t, **more):
        self.owner = t
        self.__cuda_array_interface__ = {"shape": tuple(t.shape), "typestr": "<f4", "data": (t.data_ptr(), False),
                                         "version": 3, **more}


def test_cuda_array_interface():
    t = torch.ones(4, device="cuda")
    view = p.borrow(Interface(t), p.ANY_DEVICE)
    assert view["data"] == t.data_ptr() and view["device"] == (CUDA, 0)
    side = torch.cuda.Stream()
    assert p.borrow(Interface(t, stream=side.cuda_stream), p.ANY_DEVICE, side.cuda_stream)["data"] == t.data_ptr()
    assert "stream" in raises(BufferError, p.borrow, Interface(t, stream=side.cuda_stream), p.ANY_DEVICE)
    assert p.borrow(Interface(t, stream=1), p.ANY_DEVICE)["data"] == t.data_ptr()


def test_our_cuda_array_interface():
    t = torch.arange(12.0, device="cuda").reshape(3, 4)
    side = torch.cuda.Stream()
    x = p.through(t, p.TENSOR)
    for given, expected in ((x, t), (x[:, ::2], t[:, ::2]), (x.T, t.T)):
        read = torch.as_tensor(given)
        assert read.device == t.device and torch.equal(read, expected) and read.data_ptr() == expected.data_ptr()
        if cupy:
            array = cupy.asarray(given)
            assert array.get().tolist() == expected.tolist() and array.data.ptr == expected.data_ptr()
    if cupy:
        array = cupy.asarray(x[::-1])
        assert array.get().tolist() == t.flip(0).tolist() and array.data.ptr == t[2].data_ptr()
    assert x.__cuda_array_interface__["stream"] == 1
    with torch.cuda.stream(side):
        assert x.__cuda_array_interface__["stream"] == side.cuda_stream
        torch.cuda._sleep(SLEEP)
        t += 1
        if cupy:
            assert cupy.asarray(x).get()[0].tolist() == [1, 2, 3, 4]
    side.synchronize()
    assert not hasattr(p.through(t.cpu(), p.TENSOR), "__cuda_array_interface__")
    assert not hasattr(p.through(t.bfloat16(), p.TENSOR), "__cuda_array_interface__")


def test_nothing_is_left():
    gc.collect()
    assert p.stats()[:4] == (0, 0, 0, 0), p.stats()


def main():
    global torch, cupy, jax, p
    torch = optional("torch")
    if not torch or not torch.cuda.is_available():
        print("skipped: no GPU that torch can use")
        return 0
    build()
    import tenon_probe as p
    cupy, jax = optional("cupy"), optional("jax")
    print("torch", torch.__version__, "cupy", cupy and cupy.__version__, "jax", jax and jax.__version__, "on",
          torch.cuda.get_device_name())
    passed = failed = skipped = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            passed += 1
            print("ok     ", name)
        except Skip as reason:
            skipped += 1
            print("skipped", name, reason)
        except Exception:
            failed += 1
            print("FAILED ", name)
            traceback.print_exc()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
