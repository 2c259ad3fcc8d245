"""tenon.reducers: arrays as buffers in pickles, read-only on arrival."""

import gc
import io
import os
import pickle
import subprocess
import sys

import numpy
import pytest
from building import tenon

PICKLERS = [pickle.Pickler, pickle._Pickler]


def sent(thing, protocol=5, out_of_band=True, pickler=pickle.Pickler):
    """The pickle of a thing, and its buffers."""
    file, buffers = io.BytesIO(), []
    takes = {"buffer_callback": buffers.append} if out_of_band else {}
    tenon.reducers(pickler(file, protocol, **takes)).dump(thing)
    return file.getvalue(), [buffer.raw() for buffer in buffers]


def arrived(thing, **how):
    stored, buffers = sent(thing, **how)
    return pickle.loads(stored, buffers=buffers)


class Own(numpy.ndarray):
    pass


WAYS = [(5, True), (5, False), (4, False), (2, False), (0, False)]
ARRAYS = {
    "c": lambda: numpy.arange(6.0).reshape(2, 3),
    "f": lambda: numpy.arange(6, dtype="i2").reshape(2, 3).T,
    "0-d": lambda: numpy.array(7, dtype="f4"),
    "empty": lambda: numpy.zeros((0, 3), dtype="u1"),
    "strided": lambda: numpy.arange(10)[::2],
    "backwards": lambda: numpy.arange(5)[::-1],
    "bool": lambda: numpy.array([True, False]),
    "complex": lambda: numpy.array([1j, 2]),
    "half": lambda: numpy.ones(3, dtype="f2"),
}


@pytest.mark.parametrize("protocol, out_of_band", WAYS)
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("pickler", PICKLERS)
def test_numpy(pickler, name, protocol, out_of_band):
    array = ARRAYS[name]()
    again = arrived(array, protocol=protocol, out_of_band=out_of_band, pickler=pickler)
    assert type(again) is numpy.ndarray and again.dtype == array.dtype and again.shape == array.shape
    assert numpy.array_equal(again, array) and not again.flags.writeable
    assert array.flags.writeable


def test_numpy_shares_the_memory():
    array = numpy.arange(6.0).reshape(2, 3).T
    again = arrived(array)
    assert again.ctypes.data == array.ctypes.data and again.strides == array.strides
    array[0, 0] = 5
    assert again[0, 0] == 5


@pytest.mark.parametrize("protocol, out_of_band", WAYS)
def test_numpy_pickles_other_arrays_itself(protocol, out_of_band):
    for array in (
        numpy.array([1, "two", None], dtype=object),
        numpy.zeros(2, dtype="i4,f8"),
        numpy.array(["word"]),
        numpy.ones(2, dtype=numpy.dtype("f8").newbyteorder()),
        numpy.ones(2, dtype=numpy.longdouble),
        numpy.array(["2026-01-01"], dtype="M8[D]"),
        numpy.ones(2).view(Own),
        numpy.ma.masked_array([1, 2], [True, False]),
    ):
        again, usual = arrived(array, protocol=protocol, out_of_band=out_of_band), pickle.loads(pickle.dumps(array, protocol))
        assert type(again) is type(array) and again.dtype == usual.dtype and (again == array).all()


@pytest.mark.parametrize("protocol, out_of_band", WAYS)
def test_an_array_that_contains_itself(protocol, out_of_band):
    array = numpy.empty(1, object)
    array[0] = array
    again = arrived(array, protocol=protocol, out_of_band=out_of_band)
    assert again[0] is again


def test_one_array_twice_is_one_array():
    array = numpy.arange(3.0)
    stored, buffers = sent([array, array])
    first, second = pickle.loads(stored, buffers=buffers)
    assert first is second and len(buffers) == 1


def test_a_buffer_that_is_not_aligned_is_copied():
    stored, (buffer,) = sent(numpy.arange(4.0))
    room = bytearray(len(buffer) + 1)
    room[1:] = buffer
    again = pickle.loads(stored, buffers=[memoryview(room)[1:]])
    assert list(again) == [0, 1, 2, 3] and not again.flags.writeable


def test_a_buffer_that_is_too_short_is_an_error():
    stored, _ = sent(numpy.arange(4.0))
    with pytest.raises((ValueError, IndexError)):
        pickle.loads(stored, buffers=[bytes(31)])


def test_the_table_of_a_pickler_is_extended():
    class Word(str):
        pass

    class Table(pickle.Pickler):
        dispatch_table = {Word: lambda word: (str, ("reduced",))}

    file = io.BytesIO()
    pickler = Table(file, 5)
    assert tenon.reducers(pickler) is pickler
    pickler.dump([Word("x"), numpy.ones(2)])
    word, array = pickle.loads(file.getvalue())
    assert word == "reduced" and not array.flags.writeable
    assert Table.dispatch_table.keys() == {Word}


def test_cloudpickle():
    cloudpickle = pytest.importorskip("cloudpickle")
    again, function = arrived([numpy.ones(2), lambda: 5], pickler=cloudpickle.Pickler)
    assert not again.flags.writeable and function() == 5


def test_forking_pickler():
    from multiprocessing.reduction import ForkingPickler

    file = io.BytesIO()
    tenon.reducers(ForkingPickler(file, 5)).dump(numpy.ones(2))
    assert not pickle.loads(file.getvalue()).flags.writeable


def test_functions_do_not_write_to_what_arrived(kernels):
    array = arrived(numpy.ones(3, dtype="f4"))
    with pytest.raises(ValueError, match="read-only"):
        kernels.add_to(array, 1.0)
    assert list(array) == [1, 1, 1]


# ------------------------------------------------------------------------------------------------------------- torch

try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

TENSORS = {
    "c": lambda: torch.arange(6.0).reshape(2, 3),
    "f": lambda: torch.arange(6.0).reshape(2, 3).T,
    "channels last": lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "0-d": lambda: torch.tensor(7.0),
    "empty": lambda: torch.zeros(0, 3),
    "strided": lambda: torch.arange(10)[::2],
    "expanded": lambda: torch.ones(1).expand(3),
    "bool": lambda: torch.tensor([True, False]),
    "bf16": lambda: torch.ones(3, dtype=torch.bfloat16),
    "complex": lambda: torch.ones(3, dtype=torch.complex64),
    "requires grad": lambda: torch.ones(3, requires_grad=True),
}


@needs_torch
@pytest.mark.parametrize("protocol, out_of_band", WAYS)
@pytest.mark.parametrize("name", TENSORS)
def test_torch(name, protocol, out_of_band):
    tensor = TENSORS[name]()
    again = arrived(tensor, protocol=protocol, out_of_band=out_of_band)
    assert type(again) is torch.Tensor and again.dtype == tensor.dtype and again.shape == tensor.shape
    assert torch.equal(again, tensor) and again.requires_grad == tensor.requires_grad
    if tensor.is_contiguous() or name in ("f", "channels last"):
        assert again.stride() == tensor.stride()
    if tensor.numel():
        assert tenon.from_dlpack(again.detach()).readonly
    if not out_of_band:  # otherwise it is the same memory, in this process
        assert not tenon.from_dlpack(tensor.detach()).readonly


@needs_torch
@pytest.mark.parametrize("protocol, out_of_band", WAYS)
def test_torch_pickles_other_tensors_itself(protocol, out_of_band):
    graph = torch.ones(3, requires_grad=True) * 2
    named = torch.ones(3)
    named.label = "label"
    for tensor in (
        torch.ones(3, dtype=torch.complex64).conj(),
        torch.ones(3, dtype=torch.complex64).conj().imag,
        torch.ones(3).to_sparse(),
        torch.ones(3, device="meta"),
        torch.nn.Parameter(torch.ones(3)),
        graph,
        named,
    ):
        again = arrived(tensor, protocol=protocol, out_of_band=out_of_band)
        assert type(again) is type(tensor) and again.dtype == tensor.dtype and again.shape == tensor.shape
        assert again.requires_grad == tensor.requires_grad and again.layout == tensor.layout
    assert again.label == "label"


@needs_torch
def test_the_tensor_of_a_parameter_is_a_buffer():
    parameter = torch.nn.Parameter(torch.ones(3))
    assert arrived(parameter).data_ptr() == parameter.data_ptr()


@needs_torch
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[1:], lambda x: x.view(3, 1)[:, 0], lambda x: x.detach()])
def test_functions_do_not_write_to_a_tensor_that_arrived(kernels, view):
    tensor = torch.ones(3)
    again = arrived(tensor)
    assert again.data_ptr() == tensor.data_ptr()
    for _ in range(3):  # the second call takes the fast path
        with pytest.raises(ValueError, match="add_to.*'x'.*read-only"):
            kernels.add_to(view(again), 1.0)
        with pytest.raises(ValueError, match="read-only"):
            kernels.swap(torch.zeros(3), again)
    assert tensor.tolist() == [1, 1, 1]
    copied = view(again).clone()
    kernels.add_to(copied, 1.0)
    assert copied.tolist() == [2] * len(copied)
    kernels.add_to(tensor.clone(), 1.0)
    result = kernels.saxpy(2.0, again, again)
    kernels.add_to(result, 1.0)
    assert result.tolist() == [4, 4, 4]


@needs_torch
def test_a_tensor_is_writable_again_when_what_arrived_is_gone(kernels):
    tensor = torch.ones(4)
    both = [arrived(tensor), arrived(tensor[1:3]), arrived(tensor)]
    views = [both[0][2:]]
    for expected in (True, True, True):
        assert tenon.from_dlpack(tensor).readonly is expected  # it is the same memory
        del both[-1]
    assert tenon.from_dlpack(views[0]).readonly and tenon.from_dlpack(tensor[:1]).readonly
    views.clear()
    gc.collect()
    assert not tenon.from_dlpack(tensor).readonly
    kernels.add_to(tensor, 1.0)
    assert tensor.tolist() == [2, 2, 2, 2]


@needs_torch
def test_ranges_in_any_order():
    tensors = [torch.ones(n + 1) for n in range(40)]
    others = [torch.ones(3) for _ in range(40)]
    received = {n: arrived(tensors[n]) for n in (*range(0, 40, 3), *range(39, 0, -3))}
    while received:
        for n, tensor in enumerate(tensors):
            assert tenon.from_dlpack(tensor).readonly is (n in received)
            assert tenon.from_dlpack(tensor[n:]).readonly is (n in received)
        assert not any(tenon.from_dlpack(other).readonly for other in others)
        for n in list(received)[::2]:
            del received[n]


@needs_torch
@pytest.mark.parametrize("struct", ["0", "1"])
def test_without_the_struct_of_torch(kernels, struct):
    """The tensor arrives before this process has seen any other; and torch is read by its table or by its struct."""
    program = f"""
import pickle, sys
sys.path[:0] = {sys.path!r}
import torch, tenon
kernels = tenon.load({kernels.__file__!r})
tensor = pickle.loads(sys.stdin.buffer.read())
for _ in range(3):
    for view in (tensor, tensor[1:], tensor[::2]):
        try:
            kernels.add_to(view, 1.0)
        except ValueError as error:
            assert "read-only" in str(error), error
        else:
            raise AssertionError("written")
print(tenon.torch_info()["tensors"])
del view, tensor
made = torch.ones(3)
kernels.add_to(made, 1.0)
assert made.tolist() == [2, 2, 2]
"""
    stored, _ = sent(torch.ones(4), out_of_band=False)
    done = subprocess.run(
        [sys.executable, "-c", program], input=stored, capture_output=True, env={**os.environ, "TENON_TORCH_STRUCT": struct}
    )
    assert done.returncode == 0, done.stderr.decode()
    assert (done.stdout.strip() == b"struct") <= (struct == "1")


# --------------------------------------------------------------------------------------------------------------- JAX


@pytest.fixture(scope="module")
def jnp():
    return pytest.importorskip("jax.numpy")


@pytest.mark.parametrize("protocol, out_of_band", WAYS)
@pytest.mark.parametrize("shape, dtype", [((2, 3), "f4"), ((), "i4"), ((0, 2), "f4"), ((5,), "bfloat16"), ((3,), "c8")])
def test_jax(jnp, shape, dtype, protocol, out_of_band):
    array = jnp.ones(shape, dtype)
    again = arrived(array, protocol=protocol, out_of_band=out_of_band)
    assert type(again) is type(array) and again.dtype == array.dtype and again.shape == shape
    assert (again == array).all()


def test_jax_shares_the_memory(jnp):
    array = jnp.ones(1000, "f4")
    assert arrived(array).unsafe_buffer_pointer() == array.unsafe_buffer_pointer()


def test_jax_pickles_other_arrays_itself(jnp):
    weak = jnp.asarray(1.0)
    assert weak.weak_type and arrived(weak).weak_type
    for name in ("float4_e2m1fn", "int4", "uint4"):
        small = jnp.ones(3, getattr(jnp, name, "f4"))
        again = arrived(small)
        assert again.dtype == small.dtype and again.astype("f4").tolist() == [1, 1, 1]
    gone = jnp.ones(3)
    gone.delete()
    with pytest.raises(RuntimeError):
        sent(gone)


# ------------------------------------------------------------------------------------------------------ tenon.Tensor


@pytest.mark.parametrize("protocol, out_of_band", WAYS)
def test_tensors_keep_their_order(protocol, out_of_band):
    for array in (numpy.arange(6.0).reshape(2, 3), numpy.arange(24).reshape(2, 3, 4).transpose(1, 0, 2), numpy.arange(9)[::3]):
        tensor = tenon.from_dlpack(array)
        stored = pickle.dumps(tensor, protocol)
        again = pickle.loads(stored)
        assert numpy.array_equal(numpy.asarray(again), array) and not again.readonly
        assert again.strides == (tensor.strides if array.size != 3 else (1,))


def test_a_tensor_out_of_band_is_the_same_memory():
    tensor = tenon.from_dlpack(numpy.arange(6.0).reshape(2, 3).T)
    buffers = []
    stored = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    again = pickle.loads(stored, buffers=buffers)
    assert again.data_ptr == tensor.data_ptr and again.strides == tensor.strides and len(stored) < 200


@pytest.mark.parametrize("shape", [(), (1,), (100_000_000,)])
def test_an_empty_buffer_has_no_elements(shape):
    tensor = tenon.shared_zeros((2,), "f32")
    rebuild, (_, dtype, _, *more) = tensor.__reduce_ex__(4)
    with pytest.raises(ValueError):
        rebuild(b"", dtype, shape, *more)
    assert rebuild(b"", dtype, (0, 3), *more).shape == (0, 3)
