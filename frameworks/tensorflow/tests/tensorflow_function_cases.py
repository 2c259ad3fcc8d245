"""Functions that are called with TensorFlow's tensors. Run by test_tensorflow.py."""

import pytest
from building import tenon

tf = pytest.importorskip("tensorflow")

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


def test_a_result_is_tensorflows(kernels):
    x = tf.constant([1.0, 2.0, 3.0])
    z = kernels.saxpy(2, x, x)
    assert isinstance(z, tf.Tensor) and z.numpy().tolist() == [3, 6, 9]
    for like in ("tensorflow", tf, x):
        assert isinstance(kernels.count_up(3, like=like), tf.Tensor)


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_of_a_result(kernels, name):
    x = tf.cast(tf.constant([0, 1, 1]), name)
    y = kernels.copy(x)
    assert isinstance(y, tf.Tensor) and y.dtype == x.dtype and bool(tf.reduce_all(y == x))


def test_shapes_of_results(kernels):
    assert kernels.copy(tf.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert kernels.copy(tf.constant(2.5)).numpy() == 2.5


def test_nothing_is_written(kernels):
    with pytest.raises(ValueError) as caught:
        kernels.add_to(tf.constant([1.0, 2.0]), 1)
    assert str(caught.value) == (
        "add_to(): argument 'x' is read-only (a TensorFlow tensor is immutable), but must be writable; "
        "pass a NumPy copy, numpy.array(x)"
    )
    with pytest.raises(ValueError, match="read-only"):
        kernels.count_up(3, out=tf.zeros(3))


def test_tapes_are_not_left_out(kernels):
    x = tf.ones(3)
    with tf.GradientTape() as tape:
        tape.watch(x)
        for argument in (x, x * 2):
            with pytest.raises(RuntimeError, match="a GradientTape watches it"):
                kernels.copy(argument)
        assert kernels.copy(tf.stop_gradient(x)).numpy().tolist() == [1, 1, 1]
    assert kernels.copy(x).numpy().tolist() == [1, 1, 1]


def test_types_of_annotations():
    assert isinstance(tf.constant(2.5), tenon.Array) and isinstance(tf.constant(2.5), tenon.FrameworkArray)
