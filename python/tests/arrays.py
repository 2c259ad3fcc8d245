"""Helpers for the tests of frameworks: the flags that a view should have, and objects with a single protocol."""

import ctypes
import sys

import tenon_probe as probe

READ_ONLY, IS_COPIED, PADDED = 1, 2, 4
VIEW_C, VIEW_F, VIEW_DENSE = 1 << 8, 1 << 9, 1 << 10
CPU = (1, 0)

# Our names for the dtypes that have the same name in every framework.
NAMES = {
    "bool": "bool",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}


def layout_flags(shape, strides):
    """The flags of a layout by their definitions: sizes of 1 do not count, and an empty array is contiguous in every
    order."""
    if 0 in shape:
        return VIEW_C | VIEW_F | VIEW_DENSE
    dims = [(size, stride) for size, stride in zip(shape, strides) if size != 1]

    def compact(order):
        expected = 1
        for size, stride in order:
            if stride != expected:
                return False
            expected *= size
        return True

    flags = VIEW_C if compact(reversed(dims)) else 0
    flags |= VIEW_F if compact(dims) else 0
    return flags | (VIEW_DENSE if compact(sorted(dims, key=lambda dim: dim[1])) else 0)


def jax_knows_read_only():
    """Whether this JAX asks for versioned capsules. Older ones have no flag for read-only memory, so they do not get
    any."""
    import jax.dlpack

    asked = {}

    class Curious:
        def __dlpack__(self, **keywords):
            asked.update(keywords)
            raise BufferError("only asking")

        def __dlpack_device__(self):
            return CPU

    try:
        jax.dlpack.from_dlpack(Curious())
    except BufferError:
        pass
    return "max_version" in asked


def numpy_name(dtype):
    """Our name for a plain NumPy dtype."""
    return "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"


def element_strides(array):
    return tuple(stride // array.itemsize for stride in array.strides)


def check_numpy(view, array, dtype=None, extra=0):
    """Assert that a borrowed view matches the NumPy array."""
    assert view["data"] == array.ctypes.data
    assert view["shape"] == array.shape
    assert view["strides"] == element_strides(array)
    assert view["dtype"] == (dtype or numpy_name(array.dtype))
    assert view["device"] == CPU
    assert view["byte_offset"] == 0
    assert view["numel"] == array.size
    read_only = 0 if array.flags.writeable else READ_ONLY
    assert view["flags"] == read_only | extra | layout_flags(array.shape, element_strides(array))


def check_torch(view, tensor, dtype):
    """Assert that a borrowed view matches the torch tensor, which has no flags."""
    assert view["data"] == tensor.data_ptr()
    assert view["shape"] == tuple(tensor.shape)
    if hasattr(type(tensor), "__dlpack_c_exchange_api__"):
        assert view["strides"] == tuple(tensor.stride())
    else:  # before 2.10, torch's capsules have a stride of 1 for dimensions of size 1
        pairs = zip(view["shape"], view["strides"], tensor.stride())
        assert tensor.numel() == 0 or all(ours == theirs for size, ours, theirs in pairs if size > 1)
    assert view["dtype"] == dtype
    assert view["device"] == CPU
    assert view["byte_offset"] == 0
    assert view["numel"] == tensor.numel()
    assert view["flags"] == layout_flags(view["shape"], view["strides"])


def check_counts(make, holds=1):
    """Assert that borrow and import release every reference. An import holds one, plus those of its buffer."""
    array = make()
    before = sys.getrefcount(array)
    probe.borrow(array)
    assert sys.getrefcount(array) == before
    handle = probe.import_(array)
    assert sys.getrefcount(array) == before + holds
    assert probe.count(handle) == 1
    del handle
    assert sys.getrefcount(array) == before


def memory(view, size):
    """The first bytes of the memory of a view."""
    return ctypes.string_at(view["data"], size)


class DLPack:
    """An object with only __dlpack__, which another object implements."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def __dlpack__(self):  # the method itself, because its signature says which keywords it has
        return self.inner.__dlpack__

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


class Interface:
    """An object with only __array_interface__."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def __array_interface__(self):
        return self.inner.__array_interface__


class Struct:
    """An object with only __array_struct__."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def __array_struct__(self):
        return self.inner.__array_struct__
