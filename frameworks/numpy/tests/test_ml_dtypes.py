"""NumPy arrays of ml_dtypes: bfloat16, float8, float6, float4, and integers of less than a byte."""

import pytest

np = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")

import tenon_probe as probe  # noqa: E402
from arrays import PADDED, DLPack, check_counts, check_numpy  # noqa: E402

NAMES = {
    "bfloat16": "bf16",
    "complex32": "c32",
    "float8_e3m4": "f8_e3m4",
    "float8_e4m3": "f8_e4m3",
    "float8_e4m3b11fnuz": "f8_e4m3b11fnuz",
    "float8_e4m3fn": "f8_e4m3fn",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2": "f8_e5m2",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e8m0fnu": "f8_e8m0fnu",
    "float6_e2m3fn": "f6_e2m3fn",
    "float6_e3m2fn": "f6_e3m2fn",
    "float4_e2m1fn": "f4_e2m1fn",
    "int1": "i1",
    "uint1": "u1",
    "int2": "i2",
    "uint2": "u2",
    "int4": "i4",
    "uint4": "u4",
}
PRESENT = [name for name in NAMES if hasattr(ml_dtypes, name)]
# ml_dtypes gives each number of less than a byte a byte of its own.
SMALL = [name for name in PRESENT if NAMES[name][:2] in ("i1", "i2", "i4", "u1", "u2", "u4", "f4", "f6")]


def some(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    return (np.arange(6) % 2).astype(f"u{dtype.itemsize}").view(dtype).reshape(2, 3)


def test_every_type_is_here():
    """A type that ml_dtypes gains must be looked at: these are all that it has."""
    known = {name for name in dir(ml_dtypes) if isinstance(getattr(ml_dtypes, name), type)} - {"finfo", "iinfo"}
    known.discard("bcomplex32")  # which DLPack has no code for
    assert known <= set(NAMES), known - set(NAMES)


def test_type_without_a_code():
    if not hasattr(ml_dtypes, "bcomplex32"):
        pytest.skip("this ml_dtypes has no bcomplex32")
    with pytest.raises(TypeError, match="dtype has no DLPack name"):
        probe.borrow(np.zeros(2, ml_dtypes.bcomplex32))


@pytest.mark.parametrize("name", PRESENT)
def test_in_and_out(name):
    extra = PADDED if name in SMALL else 0
    for array in (some(name), some(name).T, some(name)[:, ::-2], some(name)[0, :1].reshape(()), some(name)[:0]):
        check_numpy(probe.borrow(array), array, NAMES[name], extra)
        check_numpy(probe.borrow(array, probe.WRITE), array, NAMES[name], extra)
        out = probe.through(array, probe.NUMPY)
        assert out.dtype == array.dtype
        assert (out.ctypes.data, out.strides, out.shape) == (array.ctypes.data, array.strides, array.shape)
        assert out.tobytes() == array.tobytes()
        assert probe.through(array, probe.SAME) is array


@pytest.mark.parametrize("name", PRESENT)
def test_seen_from_both_sides(name):
    array = some(name)
    out = probe.through(array, probe.NUMPY)
    probe.poke(array, 3)
    assert out.view("u1").flat[0] == 3
    out.view("u1").flat[0] = 1
    assert array.view("u1").flat[0] == 1


@pytest.mark.parametrize("name", PRESENT)
def test_counts_and_read_only(name):
    check_counts(lambda: some(name))
    array = some(name)
    array.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        probe.borrow(array, probe.WRITE)
    assert not probe.through(array, probe.NUMPY).flags.writeable


@pytest.mark.parametrize("name", PRESENT)
def test_no_buffer_protocol(name):
    """The protocol has no format for them, and says so with a word about what has."""
    with pytest.raises(BufferError, match="no format for its dtype; use DLPack"):
        probe.through(some(name), probe.MEMORYVIEW)


def test_swapped_bfloat16():
    try:
        swapped = some("bfloat16").astype(np.dtype(ml_dtypes.bfloat16).newbyteorder(">"))
    except (TypeError, ValueError):
        pytest.skip("this ml_dtypes has no swapped bfloat16")
    if swapped.dtype.byteorder != ">":
        pytest.skip("this ml_dtypes has no swapped bfloat16")
    with pytest.raises(TypeError, match="swapped"):
        probe.borrow(swapped)


@pytest.mark.parametrize("name", PRESENT)
def test_to_torch(name):
    torch = pytest.importorskip("torch")
    array = some(name)
    has_table = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")  # older ones have no float8 in DLPack, nor flags
    if name in SMALL or not hasattr(torch, name) or (not has_table and name.startswith("float8")):
        with pytest.raises(BufferError, match="torch did not accept the tensor|a legacy struct cannot express"):
            probe.through(array, probe.TORCH)
    else:
        out = probe.through(array, probe.TORCH)
        assert out.dtype == getattr(torch, name) and out.data_ptr() == array.ctypes.data


def test_through_dlpack_of_ours():
    """tenon.Tensor's __dlpack__ carries what NumPy's own cannot."""
    array = some("float8_e5m2")
    tensor = probe.through(array, probe.TENSOR)
    check_numpy(probe.borrow(DLPack(tensor)), array, "f8_e5m2")
    small = some("int4")
    check_numpy(probe.borrow(DLPack(probe.through(small, probe.TENSOR))), small, "i4", PADDED)
