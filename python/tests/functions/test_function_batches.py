"""Batches: arguments that begin with **b are broadcast as NumPy does."""

import numpy as np
import pytest
from building import build, tenon
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

f32 = np.float32


@pytest.fixture(scope="session")
def batches():
    return tenon.load(build("batches.c"))


def numbers(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=f32).reshape(shape) % 97


def expected(x, y, t):
    return x + t * (y - x)


# ------------------------------------------------------------------------------------------------------- broadcasting


@pytest.mark.parametrize(
    "shapes",
    [
        [(), (), ()],
        [(5,), (5,), ()],
        [(2, 3), (3,), (2, 1)],
        [(2, 1, 4), (3, 1), ()],
        [(1,), (1, 1), (0, 1)],
        [(7, 300), (300,), (7, 1)],
    ],
)
def test_values(batches, shapes):
    x, y, t = (numbers(*shape) for shape in shapes)
    result = batches.lerp(x, y, t)
    assert result.shape == np.broadcast_shapes(*shapes) and result.dtype == f32
    np.testing.assert_array_equal(result, expected(x, y, t))


@pytest.mark.parametrize("count", [*range(1, 36), 63, 64, 255, 256, 257, 600])
def test_runs_of_each_length(batches, count):
    """Dense, strided, repeated, reversed and transposed: each has a loop of its own."""
    rows = 7
    wide = numbers(rows, 2 * count + 1)
    pairs = [
        (wide[:, :count], numbers(count)),
        (wide[:, :count], numbers(rows, 1)),
        (wide[:, : 2 * count : 2], wide[:, : 2 * count : 2]),
        (wide[:, :count][:, ::-1], numbers(count)[::-1]),
        (numbers(count, rows).T, numbers(rows, 1)),
    ]
    for x, y in pairs:
        np.testing.assert_array_equal(batches.lerp(x, y, f32(0.5)), expected(x, y, f32(0.5)))
        np.testing.assert_array_equal(batches.lerp(y, x, x), expected(y, x, x))
        np.testing.assert_array_equal(batches.halve(x.astype("f8")), x / 2)


@settings(max_examples=200, deadline=None)
@given(mutually_broadcastable_shapes(num_shapes=3, max_dims=5, max_side=4, min_side=0), st.data())
def test_as_numpy(batches, shapes, data):
    def strided(shape):
        axes = data.draw(st.permutations(range(len(shape))))
        steps = [data.draw(st.sampled_from([1, 2, -1])) for _ in shape]
        whole = numbers(*(shape[a] * abs(steps[a]) for a in axes))
        back = np.argsort(axes) if axes else axes
        return whole.transpose(back)[tuple(slice(None, None, step) for step in steps)]

    x, y, t = map(strided, shapes.input_shapes)
    result = batches.lerp(x, y, t)
    assert result.shape == shapes.result_shape
    np.testing.assert_array_equal(result, expected(x, y, t))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=4), st.data())
def test_orders_of_memory(batches, shape, data):
    """The order in which the items are visited follows the strides, and changes no value."""

    def ordered():
        axes = data.draw(st.permutations(range(len(shape))))
        whole = numbers(*(shape[axis] for axis in axes)).transpose(np.argsort(axes))
        return whole[tuple(slice(None, data.draw(st.sampled_from([1, None]))) for _ in shape)]

    x, y, t = ordered(), ordered(), ordered()
    wanted = expected(x, y, t)
    result = batches.lerp(x, y, t)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, wanted)
    out = np.full(wanted.shape, -1, f32)
    np.testing.assert_array_equal(batches.lerp_unlocked(x, y, t, out=out), wanted)
    np.testing.assert_allclose(batches.norm(x), np.linalg.norm(x, axis=-1), rtol=1e-6)


def test_views_without_a_copy(batches):
    x, y = numbers(4, 1), numbers(3)
    sx, sy, ax, ay = batches.strides(x, y)
    assert sx.tolist() == [1, 0] and sy.tolist() == [0, 1]
    assert (ax, ay) == (x.ctypes.data, y.ctypes.data)


def test_items_with_dimensions(batches):
    x = numbers(4, 3, 5)
    np.testing.assert_allclose(batches.norm(x), np.linalg.norm(x, axis=-1), rtol=1e-6)
    assert batches.norm(x[0, 0]).shape == ()
    a, v = numbers(4, 1, 2, 3), numbers(5, 3)
    np.testing.assert_allclose(batches.matvec(a, v), np.einsum("bxnk,xk->bxn", np.broadcast_to(a, (4, 5, 2, 3)), v))


def test_numpy_scalars_are_batches_and_numbers_are_not(batches):
    x = numbers(3)
    np.testing.assert_array_equal(batches.lerp(x, np.array(2, f32), f32(0.5)), expected(x, f32(2), f32(0.5)))
    with pytest.raises(TypeError, match=r"lerp\(\): argument 't': expected f32\[\*\*b\], got float"):
        batches.lerp(x, x, 0.5)


def test_out(batches):
    x, y, t = numbers(2, 1), numbers(3), numbers()
    out = np.zeros((2, 3), f32)
    assert batches.lerp(x, y, t, out=out) is out
    np.testing.assert_array_equal(out, expected(x, y, t))
    with pytest.raises(ValueError, match=r"argument 'out': \*\*b is \[3\], but \*\*b = \[2, 3\]"):
        batches.lerp(x, y, t, out=np.zeros(3, f32))
    with pytest.raises(ValueError, match="'out' shares memory with argument 'y'"):
        batches.lerp(numbers(3), whole := numbers(3), t, out=whole)


def test_shapes_that_do_not_broadcast(batches):
    message = (
        r"lerp\(\): argument 't': dimension 1 is 2, and dimension 0 of argument 'y' is 3: they must be equal, or one of them 1, "
        r"in \*\*b"
    )
    with pytest.raises(ValueError, match=message):
        batches.lerp(numbers(4, 1), numbers(3), numbers(1, 2))
    with pytest.raises(ValueError, match="dimension 0 is 4, but k = 3 from argument 'a'"):
        batches.matvec(numbers(7, 2, 3), numbers(4))
    with pytest.raises(TypeError, match="dtype is f64, not f32"):
        batches.lerp(numbers(2), np.ones(2), numbers(2))
    with pytest.raises(ValueError, match="0 dimensions, not at least 1"):
        batches.norm(numbers())


def test_runs(batches):
    assert batches.runs(numbers(4, 5, 6)).tolist() == [1, 120, 1, 0]
    assert batches.runs(numbers(4, 5, 6), numbers(4, 5, 6)).tolist() == [1, 120, 1, 1]
    assert batches.runs(numbers(4, 5, 6), numbers()).tolist() == [1, 120, 1, 0]
    assert batches.runs(numbers(4, 5, 6), numbers(6)).tolist() == [20, 120, 1, 1]
    assert batches.runs(numbers(4, 5, 6)[:, :, ::2]).tolist() == [1, 60, 2, 0]
    assert batches.runs(numbers(4, 0)).tolist() == [0, 0, 0, 0]
    assert batches.runs(numbers(4, 5, 6).T).tolist() == [1, 120, 1, 0]
    assert batches.runs(numbers(4, 5, 6).transpose(1, 2, 0), numbers(4, 5, 6).transpose(1, 2, 0)).tolist() == [1, 120, 1, 1]
    assert batches.runs(numbers(90, 3), numbers(3)).tolist() == [3, 270, 3, 0]


def test_an_argument_that_changes_while_others_are_read(batches):
    """The borrow of a broadcast argument is compared with the caller's array, not with the view."""

    class Producer:
        def __init__(self, array, action):
            self.array, self.action = array, action

        def __dlpack__(self, **options):
            self.action()
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    x = numbers(4, 1)
    result = batches.lerp(x, Producer(numbers(3), lambda: None), numbers())
    assert result.shape == (4, 3)
    with pytest.raises(RuntimeError, match="argument 'x'.* changed"):
        batches.lerp(x, Producer(numbers(3), lambda: x.resize((8, 100), refcheck=False)), numbers())


def test_large_batches_without_the_lock(batches):
    x, y = numbers(300, 400), numbers(400)
    np.testing.assert_array_equal(batches.lerp_unlocked(x, y, numbers(300, 1)), expected(x, y, numbers(300, 1)))
    x, y = numbers(400, 3, 100).T, numbers(400, 3, 100).T
    np.testing.assert_array_equal(batches.lerp_unlocked(x, y, numbers(3, 1)), expected(x, y, numbers(3, 1)))


def test_conversion_of_types_in_the_code(batches):
    np.testing.assert_array_equal(batches.halve(np.arange(1000.0)[::3]), (np.arange(1000.0)[::3] / 2).astype(f32))


def test_checked(batches):
    before = tenon.check(True)
    try:
        x, y = numbers(3, 1), numbers(4)
        np.testing.assert_array_equal(batches.lerp(x, y, numbers()), expected(x, y, numbers()))
    finally:
        tenon.check(before)
