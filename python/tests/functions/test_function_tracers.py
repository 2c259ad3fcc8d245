"""What JAX passes inside its transformations, and what pyarrow refuses: the errors name the function and the argument."""

import pytest
from handmade import Echo

numpy = pytest.importorskip("numpy")


def test_tracers(kernels):
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones(3, "float32")
    advice = "it is a JAX tracer, which has no memory: make operators of the library with tenon.jax_ops(), or call the function "
    transformations = [
        (jax.jit, lambda x: kernels.saxpy(2.0, x, x), "saxpy(): argument 'x': ", x),
        (jax.grad, lambda x: kernels.saxpy(2.0, x, x).sum(), "saxpy(): argument 'x': ", x),
        (jax.vmap, lambda x: Echo("f(y: f32[])")(x), "f(): argument 'y': ", x),
        (jax.jit, lambda x: kernels.saxpy(x[0], x, x), "saxpy(): argument 'a': ", x),
        (jax.jit, lambda x: Echo("f(k: int)")(x), "f(): argument 'k': ", jax.numpy.array(1)),
        (jax.jit, lambda x: Echo("f(k: ints)")(x), "f(): argument 'k[0]': ", jax.numpy.arange(3)),
        (jax.jit, lambda x: kernels.saxpy(2.0, numpy.ones(3, "f4"), numpy.ones(3, "f4"), out=x), "saxpy(): argument 'out': ", x),
        (jax.jit, lambda x: kernels.saxpy(2.0, numpy.ones(3, "f4"), numpy.ones(3, "f4"), like=x), "saxpy(): argument 'like': ", x),
    ]
    for transform, function, start, value in transformations:
        with pytest.raises(TypeError) as caught:
            transform(function)(value)
        assert type(caught.value) is TypeError
        assert str(caught.value).startswith(start) and advice in str(caught.value), caught.value
    # As it says, outside; and by a callback.
    assert kernels.saxpy(2.0, x, x).tolist() == [3, 3, 3]
    shape = jax.ShapeDtypeStruct((3,), "float32")
    inside = jax.jit(lambda x: jax.pure_callback(lambda y: kernels.saxpy(2.0, y, y), shape, x))
    assert inside(x).tolist() == [3, 3, 3]


def test_arrow(kernels):
    pyarrow = pytest.importorskip("pyarrow")
    echo = Echo("f(x: i64[n])")
    for array, error, words in (
        (pyarrow.array([1, None, 3]), ValueError, "pyarrow.lib.Int64Array: it has nulls, which no tensor can hold"),
        (pyarrow.array(["a"]), TypeError, "pyarrow.lib.StringArray: its Arrow format 'u' has no DLPack dtype"),
    ):
        with pytest.raises(error) as caught:
            echo(array)
        assert str(caught.value).startswith(f"f(): argument 'x': {words}")
