"""Gradients of operators of JAX: grad, vjp, and what has no backward."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build
import jax_layers
from jax_operators import f32, kernels, ops, quiet_ops, tenon, x64

X = f32(6)


def test_a_function_of_the_library_by_name():
    assert np.array_equal(jax.grad(lambda x: ops.square(x).sum())(X), 2 * X)
    assert np.array_equal(jax.jit(jax.grad(lambda x: (ops.square(x) * X).sum()))(X), 2 * X * X)
    made, pull = jax.vjp(ops.square, X)
    assert np.array_equal(made, X * X) and np.array_equal(pull(jnp.ones(6))[0], 2 * X)


def test_a_function_of_the_library_itself():
    own = quiet_ops(kernels, backward={"square": kernels.square_grad})
    assert np.array_equal(jax.grad(lambda x: own.square(x).sum())(X), 2 * X)
    with pytest.raises(RuntimeError, match=r"`square_grad` has no backward: give one to tenon.jax_ops\(\)"):
        jax.grad(jax.grad(own.square))(3.0)


def test_gradients_of_gradients():
    assert float(jax.grad(jax.grad(ops.square))(3.0)) == 2
    assert np.array_equal(jax.vmap(jax.grad(jax.grad(ops.square)))(X), np.full(6, 2))
    assert np.array_equal(jax.jit(jax.vmap(jax.grad(jax.grad(lambda x: ops.square(x) * x))))(X), 6 * X)
    loss = lambda x: (jax.grad(lambda y: ops.square(y).sum())(x) ** 2).sum()  # noqa: E731
    assert np.array_equal(jax.grad(loss)(X), 8 * X)


def test_numpy_arrays_that_jax_hands_on():
    """Outside of jit, newer versions of JAX hand NumPy arrays on in a class of their own."""
    x = np.arange(6, dtype="f4")
    stop = jax.lax.stop_gradient
    assert np.array_equal(jax.grad(lambda w: (ops.square(stop(w)) * w).sum())(x), x * x)
    own_class = jax.__version_info__[:2] == (0, 8)  # which is no NumPy array, and has neither a buffer nor __dlpack__
    if not own_class:
        assert np.array_equal(jax.grad(lambda w: (kernels.square(stop(w)) * w).sum())(x), x * x)
    made, moved = jax.jvp(lambda w: ops.square(stop(w)) * w, (x,), (x,))
    assert np.array_equal(made, x**3) and np.array_equal(moved, x**3)
    seen = []

    @jax.custom_vjp
    def cube(w):
        return w**3

    def forward(w):
        seen.append(type(w))
        return ops.square(w) * w, ops.square(w)

    cube.defvjp(forward, lambda saved, g: (3 * saved * g,))
    made, pull = jax.vjp(cube, x)
    assert np.array_equal(made, x**3) and np.array_equal(pull(jnp.ones(6))[0], 3 * x * x)
    assert len(seen) == 1 and (own_class or issubclass(seen[0], (np.ndarray, jax.Array)))


def test_vmap_and_grad_in_any_order():
    a = f32(3, 6)
    assert np.array_equal(jax.vmap(jax.grad(lambda x: ops.square(x).sum()))(a), 2 * a)
    assert np.array_equal(jax.grad(lambda a: jax.vmap(ops.square)(a).sum())(a), 2 * a)
    gradients = jax.vmap(jax.grad(ops.dot, argnums=(0, 1)))(a, a + 1)
    assert np.array_equal(gradients[0], a + 1) and np.array_equal(gradients[1], a)
    assert np.array_equal(jax.jacrev(ops.square)(X), np.diag(2 * X))


def test_numbers_of_a_library_backward():
    """The backward gets static numbers and those that are traced."""
    assert np.array_equal(jax.grad(lambda x: ops.affine(x, 3).sum())(X), np.full(6, 3))
    assert np.array_equal(jax.grad(lambda x: ops.affine(x, shift=1.0).sum())(X), np.full(6, 2))
    gradients = jax.grad(lambda x, a: ops.affine(x, a).sum(), argnums=(0, 1), allow_int=True)(X, 3)
    assert np.array_equal(gradients[0], np.full(6, 3)) and gradients[1].dtype == jax.dtypes.float0


def test_the_gradient_of_a_number():
    assert np.array_equal(jax.grad(ops.dot)(X, X + 1), X + 1)
    assert np.array_equal(jax.grad(ops.dot, argnums=1)(X, X + 1), X)
    with x64():
        x = jnp.arange(3, dtype=jnp.float32)
        assert np.array_equal(jax.grad(ops.dot)(x, x + 1), x + 1)


def test_a_traced_number_has_no_gradient():
    """0 would be wrong."""
    words = "affine\\(\\): argument 'a' is a number, which has no gradient"
    for grad in (jax.grad, lambda f, *places: jax.jit(jax.grad(f, *places))):
        with pytest.raises(RuntimeError, match=words):
            grad(lambda a: ops.affine(X, a).sum())(2.0)
        with pytest.raises(RuntimeError, match=words):
            grad(lambda x, a: ops.affine(x, a).sum(), (0, 1))(X, 2.0)
        with pytest.raises(RuntimeError, match=words):
            grad(lambda x: ops.affine(x, x[1]).sum())(X)
        assert np.array_equal(grad(lambda x, a: ops.affine(x, a).sum())(X, 3.0), np.full(6, 3))
        assert np.array_equal(grad(lambda x: ops.affine(x, jax.lax.stop_gradient(x[2])).sum())(X), np.full(6, X[2]))


def test_a_number_that_a_loop_carries():
    def program(x):
        def body(carry, _):
            y, a = carry
            return (y + ops.affine(x, a), a / 2), None

        return jax.lax.scan(body, (jnp.zeros(6, jnp.float32), 1.0), None, length=3)[0][0].sum()

    assert np.array_equal(jax.grad(program)(X), np.full(6, 1.75))


def test_complex_numbers():
    """The function gets and returns torch's gradients, whose conjugates JAX's are (docs/gradients.md)."""
    own = tenon.jax_ops(jax_layers.kernels, backward={"turn": "turn_grad"})
    x, w = (np.arange(8, dtype=np.float32).view(np.complex64) + one for one in (0, 2j - 1))
    for wrap in (lambda f: f, jax.jit, lambda f: lambda *both: jax.vmap(f)(*(one[None] for one in both))):
        for loss in (lambda y: jnp.abs(y).sum(), lambda y: (y * (3 - 1j)).imag.sum()):
            found, wanted = (wrap(jax.grad(lambda x, w, f=f: loss(f(x, w)), (0, 1)))(x, w) for f in (own.turn, jnp.multiply))
            for one, other in zip(found, wanted):
                np.testing.assert_allclose(one, other, rtol=1e-5)


def test_static_values_have_programs_of_their_own(monkeypatch):
    monkeypatch.setattr(tenon._jax_ops, "_PROGRAMS", 2)
    own = quiet_ops(kernels, backward={"affine": "affine_grad"})
    for a in (1, 2, 3, 4, 1, -0.0, 0.0):  # more than are kept
        assert np.array_equal(jax.grad(lambda x: own.affine(x, a).sum())(X), np.full(6, a))


# ------------------------------------------------------------------------------------------------------ Python functions


def test_a_python_function():
    seen = []

    def backward(residuals, *grads):
        seen.append((residuals, grads))
        return (grads[0] * residuals["w"], grads[0] * residuals["x"])

    own = quiet_ops(kernels, backward={"weighted": backward})
    w = X + 1
    gradients = jax.grad(lambda x, w: own.weighted(x, w).sum(), argnums=(0, 1))(X, w)
    assert np.array_equal(gradients[0], w) and np.array_equal(gradients[1], X)
    (residuals, grads) = seen[-1]
    assert list(residuals) == ["x", "w"] and len(grads) == 1
    # Differentiable again, since it is made of JAX's functions.
    assert float(jax.grad(lambda w: jax.grad(lambda x: own.weighted(x, w).sum())(X).sum())(w)[0]) == 1


def test_residuals_are_all_arguments():
    seen = {}

    def backward(residuals, g):
        seen.update(residuals)
        return (g * residuals["a"],)

    own = quiet_ops(kernels, backward={"affine": backward})
    assert np.array_equal(jax.grad(lambda x: own.affine(x).sum())(X), np.full(6, 2))
    assert list(seen) == ["x", "a", "shift"] and seen["a"] == 2 and type(seen["a"]) is float and seen["shift"] is None
    jax.grad(lambda x: own.affine(x, 3, shift=0.5).sum())(X)
    assert (seen["a"], seen["shift"]) == (3, 0.5) and type(seen["shift"]) is float

    def pool_backward(residuals, g):
        seen.update(residuals)
        return (None,)

    own = quiet_ops(kernels, backward={"pool": pool_backward})
    assert np.array_equal(jax.grad(lambda x: own.pool(x).sum())(f32(2, 2)), np.zeros((2, 2)))
    assert (seen["mode"], seen["size"], seen["keep"]) == ('a "sum"', (1, 2), True)


def test_only_results_that_are_floats_have_gradients():
    seen = []

    def backward(residuals, *grads):
        seen.append(grads)
        return (grads[0] * 3,)

    own = quiet_ops(kernels, backward={"stats": backward})
    assert np.array_equal(jax.grad(lambda x: own.stats(x).relu.sum())(X), np.full(6, 3))
    assert len(seen[-1]) == 1
    # A result that is not used has a gradient of zeros.
    own = quiet_ops(kernels, backward={"square_grad_grad": lambda residuals, g, h: (g, h, g + h)})
    gradients = jax.grad(lambda *x: own.square_grad_grad(*x)[1].sum(), argnums=(0, 1, 2))(X, X, X)
    assert [float(one[0]) for one in gradients] == [0, 1, 1]


def test_none_is_zero():
    own = quiet_ops(kernels, backward={"dot": lambda residuals, g: (None, g * residuals["x"])})
    gradients = jax.grad(own.dot, argnums=(0, 1))(X, X)
    assert np.array_equal(gradients[0], np.zeros(6)) and np.array_equal(gradients[1], X)


def test_an_optional_tensor_that_is_not_given():
    own = quiet_ops(kernels, backward={"weighted": lambda residuals, g: (g, None)})
    assert np.array_equal(jax.grad(lambda x: own.weighted(x).sum())(X), np.ones(6))
    assert np.array_equal(jax.grad(lambda x: own.weighted(x, None).sum())(X), np.ones(6))


def test_tensors_of_whole_numbers():
    own = quiet_ops(kernels, backward={"copy": lambda residuals, g: (g,)})
    assert np.array_equal(jax.grad(lambda x: own.copy(x).sum())(X), np.ones(6))
    assert jax.vjp(own.copy, jnp.arange(3))[1](np.zeros(3, jax.dtypes.float0))[0].dtype == jax.dtypes.float0
    own = quiet_ops(kernels, backward={"batch": lambda residuals, g: (jnp.full(residuals["y"].shape, 3.0),)})
    gradients = jax.grad(lambda x, y: own.batch(x, y).sum(), argnums=(0, 1), allow_int=True)(jnp.ones((2, 3), int), f32(2, 3))
    assert gradients[0].dtype == jax.dtypes.float0 and np.array_equal(gradients[1], np.full((2, 3), 3))


def test_whole_numbers_for_any_dtype():
    loaded = tenon.load(build("""
        #include <tenon/function.h>
        static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
        TENON_MODULE(any_dtype, NULL, TENON_FUNCTION("f(x: T[n], y: f32[n]) -> f32[n] where T = any", none, NULL))
    """))
    own = tenon.jax_ops(loaded, backward={"f": lambda residuals, g: (g, g)})
    gradient = jax.grad(lambda x, y: own.f(x, y).sum(), argnums=(0, 1), allow_int=True)
    assert gradient(jnp.arange(6), X)[0].dtype == jax.dtypes.float0
    assert np.array_equal(gradient(X, X)[0], np.ones(6))


MUST = "it must return a tuple with one gradient or None per float tensor, for x"


@pytest.mark.parametrize(
    "gradient, exception, message",
    [
        (lambda g: (g[:2],), ValueError, "a gradient of argument 'x' that is f32[2], not f32[6]"),
        (lambda g: (g.astype(jnp.float16),), TypeError, "a gradient of argument 'x' that is f16[6], not f32[6]"),
        (lambda g: (g, g), ValueError, f"its backward returned 2 gradients, but {MUST}"),
        (lambda g: (), ValueError, f"its backward returned 0 gradients, but {MUST}"),
        (lambda g: None, TypeError, f"its backward returned None, but {MUST}"),  # without a return statement
        (lambda g: g, TypeError, f"its backward returned an array, but {MUST}"),
        (lambda g: [g], TypeError, f"its backward returned a list, but {MUST}"),
        (lambda g: {"x": g}, TypeError, f"its backward returned a dict, but {MUST}"),
    ],
)
def test_wrong_gradients(gradient, exception, message):
    own = quiet_ops(kernels, backward={"same": lambda residuals, g: gradient(g)})
    with pytest.raises(exception) as caught:
        jax.grad(lambda x: own.same(x).sum())(X)
    assert str(caught.value).startswith("same(): ") and message in str(caught.value)


# ------------------------------------------------------------------------------------------------------------ no gradients


def test_without_a_backward():
    for run in (jax.grad(lambda x: ops.same(x).sum()), jax.jit(jax.grad(lambda x: ops.same(x).sum()))):
        with pytest.raises(RuntimeError) as caught:
            run(X)
        assert str(caught.value) == "`same` has no backward: give one to tenon.jax_ops()"
    _, pull = jax.vjp(ops.same, X)
    with pytest.raises(RuntimeError, match="has no backward: give one to tenon.jax_ops"):
        pull(X)
    with pytest.raises(RuntimeError, match="`scale` has no backward, and cannot have one, because it writes to its arguments"):
        jax.grad(lambda x: ops.scale(x, 2.0).sum())(X)
    # It is not needed where no gradient flows.
    assert np.array_equal(jax.grad(lambda x: (x * jax.lax.stop_gradient(ops.same(x))).sum())(X), X)


@pytest.mark.parametrize("name", ["same", "square"])
def test_forward_mode_is_refused_by_jax(name):
    function = getattr(ops, name)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(function, (X,), (X,))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jacfwd(function)(X)
    with pytest.raises(TypeError):
        jax.linearize(function, X)[1](X)


def test_a_backward_with_keywords_only():
    loaded = tenon.load(build("""
        #include <tenon/function.h>
        static tenon_status copy(tenon_call *call)
        {
            for (int64_t i = 0; i < tenon_dim(call, 0); i++)
                tenon_result_data(call, 0, float)[i] = (float)tenon_arg_double(call, tenon_has_arg(call, 0) ? 1 : 0);
            return TENON_OK;
        }
        TENON_MODULE(keywords, NULL,
            TENON_FUNCTION("f(x: f32[n], *, a: float = 3) -> f32[n]", copy, NULL),
            TENON_FUNCTION("f_grad(g: f32[n], x: f32[n], *, a: float) -> f32[n]", copy_grad, NULL))
    """.replace("TENON_MODULE", """
        static tenon_status copy_grad(tenon_call *call)
        {
            for (int64_t i = 0; i < tenon_dim(call, 0); i++)
                tenon_result_data(call, 0, float)[i] = (float)tenon_arg_double(call, 2) * tenon_data(call, 0, float)[i];
            return TENON_OK;
        }
        TENON_MODULE""")))
    own = tenon.jax_ops(loaded, backward={"f": "f_grad"})
    assert np.array_equal(jax.grad(lambda x: own.f(x, a=4).sum())(X), np.full(6, 4))
    assert np.array_equal(jax.grad(lambda x: own.f(x).sum())(X), np.full(6, 3))
