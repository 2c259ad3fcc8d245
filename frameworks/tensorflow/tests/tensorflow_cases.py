"""TensorFlow's tensors on the CPU, which are immutable. Run by test_tensorflow.py."""

import gc

import pytest

tf = pytest.importorskip("tensorflow")
np = pytest.importorskip("numpy")

import tenon_probe as probe  # noqa: E402
from arrays import NAMES as COMMON  # noqa: E402
from arrays import CPU, READ_ONLY, DLPack, check_counts, layout_flags, memory  # noqa: E402

NAMES = {
    **COMMON,
    "qint8": "i8",
    "quint8": "u8",
    "qint16": "i16",
    "quint16": "u16",
    "qint32": "i32",
}


def some(name):
    if name.startswith("q"):
        return tf.zeros((2, 3), getattr(tf, name))
    return tf.cast(tf.constant([[1, 0, 1], [0, 1, 1]]), getattr(tf, name))


def check_tensorflow(view, tensor, dtype):
    assert view["shape"] == tuple(tensor.shape)
    assert view["dtype"] == dtype and view["device"] == CPU and view["byte_offset"] == 0
    assert view["flags"] == READ_ONLY | layout_flags(view["shape"], view["strides"])
    assert memory(view, tensor.numpy().nbytes) == tensor.numpy().tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_dtype(name):
    given = some(name)
    view = probe.borrow(given)
    check_tensorflow(view, given, NAMES[name])
    assert view["data"] == probe.borrow(given)["data"]  # the tensor's own memory, not a copy each time
    for call in (probe.borrow, probe.import_):
        with pytest.raises(ValueError, match="read-only.*pass a NumPy copy"):
            call(given, probe.WRITE)
    assert probe.through(given, probe.SAME) is given


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("q")])
def test_both_ways_give_one_memory(name):
    """The buffer protocol and __dlpack__ give the same memory."""
    given = some(name)
    assert probe.borrow(given)["data"] == probe.borrow(DLPack(given))["data"]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("q")])
def test_out(name, released):
    handle = probe.new(NAMES[name], (2, 3))
    out = probe.export(handle, probe.TENSORFLOW)
    assert out.dtype == getattr(tf, name) and tuple(out.shape) == (2, 3)
    assert probe.borrow(out)["data"] == probe.describe(handle)["data"]
    assert probe.borrow(out)["flags"] & READ_ONLY
    del handle
    assert released() == 0
    del out
    assert released() == 1


@pytest.mark.parametrize("name", ["f8_e4m3fn", "f8_e5m2", "f4_e2m1fn", "i4", "c32", "f32x4", "opaque64"])
def test_out_refused(name, released):
    handle = probe.new(name, (4,))
    with pytest.raises(BufferError, match="tensorflow.* did not accept the tensor"):
        probe.export(handle, probe.TENSORFLOW)
    del handle
    assert released() == 1


@pytest.mark.parametrize("layout", [((2, 2), (1, 2)), ((2, 2), (4, 2)), ((2, 2), (0, 1)), ((3,), (-1,), 64)])
def test_only_c_order(layout, released):
    handle = probe.new("f32", *layout)
    with pytest.raises(BufferError, match="did not accept the tensor: .*strides"):
        probe.export(handle, probe.TENSORFLOW)
    del handle
    assert released() == 1


def test_read_only_refused():
    handle = probe.new("f32", (2,), None, 0, READ_ONLY)
    with pytest.raises(BufferError, match="read-only.*pass a copy"):
        probe.export(handle, probe.TENSORFLOW)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3, 4), (1,) * 9])
def test_shapes(shape):
    given = tf.zeros(shape)
    view = probe.borrow(given)
    assert view["shape"] == shape and view["flags"] & READ_ONLY
    handle = probe.new("f32", shape) if len(shape) < 9 else probe.new("f32", (1, 1))
    out = probe.export(handle, probe.TENSORFLOW)
    assert tuple(out.shape) == probe.describe(handle)["shape"]


def test_not_even_aligned():
    """4 bytes after a multiple of 64: TensorFlow accepts it without copying."""
    handle = probe.new("f32", (2, 2), None, 4)
    assert probe.borrow(probe.export(handle, probe.TENSORFLOW))["data"] == probe.describe(handle)["data"]


def test_values_from_both_sides():
    handle = probe.new("f32", (2, 3))
    out, mine = probe.export(handle, probe.TENSORFLOW), probe.export(handle, probe.NUMPY)
    mine[0, 0] = 4.5
    assert float(out[0, 0]) == 4.5


def test_text_has_no_numbers():
    with pytest.raises(TypeError, match="no DLPack dtype"):
        probe.borrow(tf.constant("text"))


def test_variables_and_ragged_are_no_arrays():
    for given in (tf.Variable([1.0, 2.0]), tf.ragged.constant([[1], [2, 3]]), tf.sparse.from_dense([[0, 1]])):
        with pytest.raises(TypeError, match="expected an array"):
            probe.borrow(given)
    probe.borrow(tf.Variable([1.0, 2.0]).value())


def test_symbolic():
    seen = []

    @tf.function
    def function(x):
        try:
            seen.append(probe.borrow(x))
        except Exception as error:
            seen.append(type(error))
        return x + 1

    function(tf.constant([1.0]))
    assert seen and all(isinstance(kind, type) for kind in seen)


def test_counts():
    check_counts(lambda: tf.zeros((2, 3)))


def test_import_outlives_the_tensor():
    given = tf.range(1000.0)
    handle = probe.import_(given)
    del given
    gc.collect()
    out = probe.export(handle, probe.NUMPY)
    del handle
    gc.collect()
    assert out.sum() == 499500 and not out.flags.writeable


def test_empty():
    out, view = probe.empty(tf.zeros(1), "f32", (2, 3), 1)
    assert tuple(out.shape) == (2, 3) and out.dtype == tf.float32
    assert view["data"] % 64 == 0 and not view["flags"] & READ_ONLY
    assert out.numpy().tobytes() == b"\1" * 24
    assert probe.borrow(out)["data"] == view["data"]
