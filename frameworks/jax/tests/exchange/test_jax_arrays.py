"""JAX arrays on the CPU: immutable, by the buffer protocol where that has the dtype, else by __dlpack__."""

import gc
import sys

import pytest

jax = pytest.importorskip("jax")
np = pytest.importorskip("numpy")

import jax.numpy as jnp  # noqa: E402

import tenon_probe as probe  # noqa: E402
from arrays import NAMES as COMMON  # noqa: E402
from arrays import CPU, READ_ONLY, check_counts, jax_knows_read_only, layout_flags, memory  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def x64():
    """The other suites of JAX run without it."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


NAMES = {
    **COMMON,
    "float8_e3m4": "f8_e3m4",
    "float8_e4m3": "f8_e4m3",
    "float8_e4m3b11fnuz": "f8_e4m3b11fnuz",
    "float8_e4m3fn": "f8_e4m3fn",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2": "f8_e5m2",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
    "float8_e8m0fnu": "f8_e8m0fnu",
}
# An older JAX refuses to export these.
EXPORTED = COMMON if jax.__version_info__ < (0, 6) else NAMES
PRESENT = [name for name in EXPORTED if hasattr(jnp, name)]
PACKED = [name for name in ("int2", "uint2", "int4", "uint4", "float4_e2m1fn") if hasattr(jnp, name)]


def some(name):
    values = [[1, 2, 1], [2, 1, 1]] if name == "float8_e8m0fnu" else [[1, 0, 1], [0, 1, 1]]  # which has no zero
    return jnp.array(values, dtype=name)


def check_jax(view, array, dtype):
    assert view["data"] == array.unsafe_buffer_pointer()
    assert view["shape"] == array.shape
    assert view["dtype"] == dtype
    assert view["device"] == CPU
    assert view["byte_offset"] == 0
    assert view["numel"] == array.size
    assert view["flags"] == READ_ONLY | layout_flags(view["shape"], view["strides"])


@pytest.mark.parametrize("name", PRESENT)
def test_dtype(name):
    array = some(name)
    check_jax(probe.borrow(array), array, NAMES[name])
    # Immutable, whichever way it came: JAX may have given the memory to other arrays too.
    for call in (probe.borrow, probe.import_):
        with pytest.raises(ValueError, match="read-only.*pass a NumPy copy"):
            call(array, probe.WRITE)
    with pytest.raises(ValueError, match="read-only"):
        probe.poke(array, 1)
    out = probe.through(array, probe.NUMPY)
    assert not out.flags.writeable
    assert out.ctypes.data == array.unsafe_buffer_pointer()
    assert str(out.dtype) == name
    assert out.tolist() == np.asarray(array).tolist()


@pytest.mark.parametrize("name", PRESENT)
def test_back_to_jax(name):
    array = some(name)
    if not jax_knows_read_only():
        with pytest.raises(BufferError, match="read-only"):
            probe.through(array, probe.JAX)
        return
    out = probe.through(array, probe.JAX)
    assert out is not array and isinstance(out, jax.Array)
    assert out.unsafe_buffer_pointer() == array.unsafe_buffer_pointer()
    assert out.dtype == array.dtype and out.shape == array.shape
    assert (np.asarray(out) == np.asarray(array)).all()
    check_jax(probe.borrow(out), out, NAMES[name])


@pytest.mark.parametrize("name", PACKED)
def test_packed(name):
    """Sub-byte numbers are packed in JAX's memory: handed out as such where it says so, else refused by JAX."""
    array = jnp.array([1, 1, 2, 2]).astype(name)
    try:
        view = probe.borrow(array)
    except BufferError as refused:
        assert "the producer refused: " in str(refused) and refused.__cause__ is not None
        return
    assert view["data"] == array.unsafe_buffer_pointer() and view["flags"] & READ_ONLY
    assert view["dtype"] == "f4_e2m1fn" and not view["flags"] & 4
    assert memory(view, 2) == b"\x22\x44"


def test_shapes():
    for shape in ((), (1,), (0, 3), (2, 3, 4), (1,) * 9 + (2,), (2, 0, 2)):
        array = jnp.zeros(shape, "float32")
        view = probe.borrow(array)
        assert view["shape"] == shape and view["flags"] & READ_ONLY
        assert probe.through(array, probe.SAME) is array
        if array.size:
            check_jax(view, array, "f32")
            if jax_knows_read_only():
                assert probe.through(array, probe.JAX).shape == shape


def test_read_only_from_then_on():
    array = jnp.arange(6.0)
    with pytest.raises(BufferError, match="torch has no read-only tensors"):
        probe.through(array, probe.TORCH)
    assert probe.through(array, probe.MEMORYVIEW).readonly
    with pytest.raises(BufferError, match="read-only.*max_version"):
        probe.through(array, probe.CAPSULE_LEGACY)
    tensor = probe.through(array, probe.TENSOR)
    with pytest.raises(ValueError, match="read-only"):
        probe.borrow(tensor, probe.WRITE)


def test_immutable_although_the_capsule_cannot_say(monkeypatch):
    """JAX before 0.5 answers with a legacy capsule, which has no flags."""
    array = jnp.ones(3, jnp.bfloat16)  # no buffer-protocol format: __dlpack__ is asked
    inner = probe.new("bf16", (3,))
    legacy = probe.export(inner, probe.CAPSULE_LEGACY)
    try:
        monkeypatch.setattr(type(array), "__dlpack__", lambda self, **keywords: legacy)
    except TypeError:
        pytest.skip("this JAX's class cannot be changed")
    view = probe.borrow(array)
    assert view["data"] == probe.describe(inner)["data"]
    assert view["flags"] & READ_ONLY


def test_counts():
    check_counts(lambda: jnp.arange(6.0), holds=2)  # the buffer protocol holds the array too
    check_counts(lambda: jnp.ones(6, jnp.bfloat16))


def test_import_outlives_the_array():
    array = jnp.arange(1000.0)
    handle = probe.import_(array)
    del array
    gc.collect()
    out = probe.export(handle, probe.NUMPY)
    del handle
    gc.collect()
    assert out.sum() == 499500


def test_donated():
    """A donated array is gone: JAX's own error (which one depends on its version), not its old memory."""
    array = jnp.arange(4.0) + 1
    array.delete()
    with pytest.raises((BufferError, RuntimeError, TypeError, ValueError)):
        probe.borrow(array)


def test_held_memory_is_not_taken_by_delete():
    array = jnp.arange(1000.0)
    handle = probe.import_(array)
    array.delete()
    gc.collect()
    assert probe.export(handle, probe.NUMPY)[:3].tolist() == [0, 1, 2]
    assert type(probe.export(handle, probe.SAME)) is probe.Tensor


def test_tracer():
    seen = []

    @jax.jit
    def function(x):
        try:
            seen.append(probe.borrow(x))
        except Exception as error:
            seen.append(error)
        return x + 1

    function(jnp.arange(3.0))
    assert isinstance(seen[0], TypeError) and "it is a JAX tracer, which has no memory" in str(seen[0]), seen
    seen.clear()


def test_release_on_another_thread():
    array = jnp.arange(6.0)
    before = sys.getrefcount(array)
    probe.release_elsewhere(probe.import_(array))
    probe.borrow(b"")
    assert sys.getrefcount(array) == before


def test_seen_from_jax():
    """Memory of ours in a JAX array: a write on our side is seen there at once, which JAX does not expect."""
    handle = probe.new("f32", (2, 3))
    out = probe.export(handle, probe.JAX)
    assert out.unsafe_buffer_pointer() == probe.describe(handle)["data"]
    mine = probe.export(handle, probe.NUMPY)
    mine[0, 0] = 4.5
    assert float(np.asarray(out)[0, 0]) == 4.5


def test_nothing_is_narrowed():
    """Without x64 JAX would take 64-bit numbers and show a copy of 32 bits."""
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(BufferError, match="jax_enable_x64"):
            probe.export(probe.new("i64", (8,)), probe.JAX)
        with pytest.raises(BufferError, match="jax_enable_x64"):
            probe.empty(jnp.ones(1), "f64", (2,))
        assert probe.empty(jnp.ones(1), "f32", (2,))[0].dtype == "float32"
    finally:
        jax.config.update("jax_enable_x64", True)


def test_a_deleted_array_says_so():
    array = jnp.arange(1000.0)
    handle = probe.import_(array)
    array.delete()
    assert probe.export(handle, probe.NUMPY).tolist() == list(range(1000))  # what is held stays
    with pytest.raises(Exception) as caught:
        probe.borrow(array)
    assert isinstance(caught.value, BufferError) or isinstance(caught.value.__context__, BufferError)
    del caught


def test_giving_back_with_an_exception_on_its_way():
    """JAX's buffers are given back without a look at what is pending: it stays."""
    given = jnp.arange(6.0).reshape(2, 3)
    before = sys.getrefcount(given)
    for _ in range(3):
        with pytest.raises(TypeError, match="integer"):
            probe.parse(given, bytearray(8), "x")
        with pytest.raises(ValueError, match="read-only"):
            probe.borrow(given, probe.WRITE)
    assert sys.getrefcount(given) == before


def test_a_copy_that_can_be_written():
    """A copy of a JAX array is a JAX array: the message says which one helps."""
    array = jnp.arange(4, dtype="float32")
    with pytest.raises(ValueError, match=r"read-only, and it is to be written; pass a NumPy copy, numpy\.array\(x\)$"):
        probe.borrow(array, probe.WRITE)
    probe.borrow(np.array(array), probe.WRITE)
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="to be written; pass a copy$"):
        probe.borrow(frozen, probe.WRITE)
