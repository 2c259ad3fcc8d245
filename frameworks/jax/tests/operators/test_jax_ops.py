"""tenon.jax_ops: its arguments, the object that it returns, and what cannot be an operator."""

import copy
import gc
import inspect
import pickle
import re
import types
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build
from jax_operators import BACKWARD, FILE, f32, kernels, ops, own_process, quiet_ops, tenon

LEFT_OUT = {
    "positive": "the size of result 0 is not known before the call",
    "open": "result 0 is of type handle('Index'); a result must be a tensor, an int, a float or a bool",
    "close": "parameter 'index' is of type handle('Index'), which XLA cannot pass",
    "label": "result 0 is of type str; a result must be a tensor, an int, a float or a bool",
    "choice": "result 0 is of type 'a'|'b'; a result must be a tensor, an int, a float or a bool",
    "perhaps": "result 0 is of type f32[n]?; a result must be a tensor, an int, a float or a bool",
    "quiet": "it neither returns nor writes anything",
    "huge": "result 0 is of dtype f128, which JAX does not have",
    "packed": "result 0 is of dtype i4, which JAX stores in another way on each platform",
    "packed_argument": "parameter 'x' is of dtype i4, which JAX stores in another way on each platform",
    "packed_arguments": "parameter 'x' is of dtype u4|i4, which JAX stores in another way on each platform",
    "huge_argument": "parameter 'x' is of dtype f128, which JAX does not have",
    "clash": "'x' is both a result and an argument that is written",
    "gpu_number": "a function on a GPU cannot return a number; return a tensor without dimensions",
    "nowhere": "its tensors are on devices that no platform of JAX has together",
    "custom_calls": "tenon.JaxOps reserves this name",
    "far": "its tensors are on devices that no platform of JAX has together",
}
X = f32(6)


# ----------------------------------------------------------------------------------------------------------- left out


def test_what_cannot_be_expressed_is_left_out():
    with pytest.warns(UserWarning) as caught:
        made = tenon.jax_ops(kernels)
    said = {str(one.message) for one in caught}
    assert said == {f"tenon.jax_ops(): {name}() is left out: {why}" for name, why in LEFT_OUT.items()}
    assert all(one.filename == __file__ for one in caught)
    names = {name for name, value in vars(kernels).items() if isinstance(value, types.BuiltinFunctionType)}
    assert set(dir(made)) == names - set(LEFT_OUT) | {"custom_calls"}
    for name in set(LEFT_OUT) - {"custom_calls"}:
        with pytest.raises(AttributeError, match=f"JaxOps jax_kernels: .* has no operator '{name}'"):
            getattr(made, name)


def test_a_function_that_cannot_be_registered(monkeypatch):
    def refuse(function, name):
        raise ValueError("the library has no hash")

    monkeypatch.setattr(tenon._jax_native, "register", refuse)
    with pytest.warns(UserWarning) as caught:
        assert dir(tenon.jax_ops(kernels)) == ["custom_calls"]
    assert "tenon.jax_ops(): affine() is left out: the library has no hash" in {str(one.message) for one in caught}
    with pytest.raises(ValueError, match=r"affine\(\) cannot be an operator: the library has no hash"):
        quiet_ops(kernels, backward={"affine": "affine_grad"})


def test_functions_of_1_1_are_left_out():
    loaded = tenon.load(build("""
        #include <tenon/function.h>
        static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
        TENON_MODULE(newer, NULL, TENON_CLASS("Thing", NULL), TENON_FUNCTION("Thing(n: int)", none, NULL),
            TENON_FUNCTION("Thing.add(self, x: f32[n]) -> f32[n]", none, NULL),
            TENON_FUNCTION("plain(x: f32[n]) -> f32[n]", none, NULL),
            TENON_FUNCTION("kept(x: f32[n] keep) -> f32[n]", none, NULL),
            TENON_FUNCTION("owned(x: f32[n]) -> f32[n] own", none, NULL))
    """))
    with pytest.warns(UserWarning) as caught:
        assert set(dir(tenon.jax_ops(loaded))) == {"plain", "custom_calls"}
    assert {str(one.message).partition(": it ")[0].partition(": the ")[0] for one in caught} == {
        f"tenon.jax_ops(): {name}() is left out" for name in ("kept", "owned", "Thing")}


def test_strict_makes_it_an_error():
    with pytest.raises(ValueError) as caught:
        tenon.jax_ops(kernels, strict=True)
    assert str(caught.value) == f"tenon.jax_ops(): positive() cannot be an operator: {LEFT_OUT['positive']}"


def test_a_backward_of_what_is_left_out_is_an_error():
    with pytest.raises(ValueError, match=r"label\(\) cannot be an operator: result 0 is of type str"):
        tenon.jax_ops(kernels, backward={"label": lambda residuals, g: g})
    with pytest.raises(ValueError, match=r"argument 'backward': same\(\): label\(\) cannot be an operator"):
        tenon.jax_ops(kernels, backward={"same": "label"})


def test_a_backward_of_another_library_is_an_error():
    other = tenon.load(kernels.__file__)
    with pytest.raises(ValueError, match=r"affine\(\): affine_grad\(\) is not a function of this library"):
        quiet_ops(kernels, backward={"affine": other.affine_grad})


# ---------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"kernels": "kernels.so"}, "argument 'kernels': expected a module from tenon.load(), got str"),
        ({"backward": ["affine"]}, "argument 'backward': expected a dict, got list"),
        ({"backward": {3: "affine"}}, "argument 'backward': expected names of functions as keys, got 3"),
        ({"backward": {kernels.affine: "affine_grad"}}, "argument 'backward': expected names of functions as keys, got <"),
        ({"backward": {"affine": 3}}, "argument 'backward': affine(): expected a function, or the name of a function"),
        ({"backward": {"affine": dict}}, "argument 'backward': affine(): expected a function, or the name of a function"),
        ({"sharding": None}, "argument 'sharding': expected str, got NoneType"),
        ({"strict": 1}, "argument 'strict': expected bool, got int"),
        ({"name": 3}, "argument 'name': expected str, got int"),
    ],
)
def test_wrong_types(wrong, message):
    with pytest.raises(TypeError) as caught:
        quiet_ops(**{"loaded": wrong.pop("kernels", kernels)}, **wrong)
    assert f"tenon.jax_ops(): {message}" in str(caught.value)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"kernels": types}, "argument 'kernels': <module 'types'"),
        ({"backward": {"nothing": "same"}}, "argument 'backward': the library has no function nothing()"),
        ({"backward": {"same": "nothing"}}, "argument 'backward': same(): the library has no operator nothing()"),
        ({"backward": {"same": "square_grad_grad"}}, "same(): square_grad_grad() must take the gradients of its results, "
                                                     "then its arguments: tensor, tensor"),
        ({"backward": {"same": "dot"}}, "same(): dot() must return the gradients of x, one result each"),
        ({"backward": {"matmul": "affine_grad"}}, "matmul(): affine_grad() must take the gradients"),
        ({"backward": {"columns": "swap"}}, "columns(): swap() must return the gradients of x, one result each"),
        ({"backward": {"scale": lambda residuals: ()}}, "argument 'backward': scale() writes to its arguments; such a "
                                                        "function cannot have a backward"),
        ({"sharding": "gather"}, "argument 'sharding': expected 'raise' or 'replicate', got 'gather'"),
        ({"name": "two words"}, "argument 'name': expected a name such as 'package.kernels', got 'two words'"),
        ({"name": ""}, "argument 'name': expected a name such as 'package.kernels', got ''"),
    ],
)
def test_wrong_values(wrong, message):
    wrong = dict(wrong)
    loaded = wrong.pop("kernels", kernels)
    with pytest.raises(ValueError) as caught:
        quiet_ops(loaded, **wrong)
    assert message in str(caught.value)


def test_number_of_results_of_a_backward():
    with pytest.raises(ValueError, match=r"product\(\): matmul_three\(\) must return the gradients of a, b, one result"):
        loaded = tenon.load(build("""
            #include <tenon/function.h>
            static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
            TENON_MODULE(short_backward, NULL,
                TENON_FUNCTION("product(a: f32[m, k], b: f32[k, n]) -> f32[m, n]", none, NULL),
                TENON_FUNCTION("matmul_three(g: f32[m, n], a: f32[m, k], b: f32[k, n]) -> f32[m, k]", none, NULL))
        """))
        tenon.jax_ops(loaded, backward={"product": "matmul_three"})


def test_twice_for_one_library():
    again = quiet_ops(kernels)
    assert np.array_equal(again.affine(X), ops.affine(X))
    with pytest.raises(RuntimeError, match="has no backward"):  # each has its own
        jax.grad(lambda x: again.square(x).sum())(X)
    assert np.array_equal(jax.grad(lambda x: ops.square(x).sum())(X), 2 * X)


def test_other_versions(monkeypatch):
    monkeypatch.setattr(jax, "__version__", "0.4.37")
    monkeypatch.setattr(jax, "__version_info__", (0, 4, 37))
    with pytest.raises(ImportError) as caught:
        tenon.jax_ops(kernels)
    assert str(caught.value) == "tenon.jax_ops() needs JAX 0.4.38 or newer, but 0.4.37 is installed; upgrade jax"


def test_without_jax(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(ImportError, match=r"^tenon.jax_ops\(\) needs jax, which is not installed$"):
        tenon.jax_ops(kernels)


WRONG_VERSION = """
from tenon import _jax_native
asked, registered = [], []
def answer(major, minor, with_api, *rest):
    asked.append((major, minor, with_api))
    return (major, minor + 7, 0)
_jax_native.probe = answer
import tenon._jax_ops
tenon._jax_ops._ffi().register_ffi_target = lambda *args, **options: registered.append(args)
try:
    tenon.jax_ops(kernels)
except RuntimeError as error:
    assert "nothing was registered" in str(error) and jax.__version__ in str(error), error
else:
    raise SystemExit("it was taken")
assert asked and not registered
assert "jax" in sys.modules and jnp.arange(3).sum() == 3  # the backend still starts
"""


def test_a_wrong_version_never_reaches_xla():
    own_process(WRONG_VERSION)


LAZY = """
from tenon import _jax_native
asked = []
real = _jax_native.probe
_jax_native.probe = lambda *args: asked.append(args) or real(*args)
assert "tenon._jax_ops" not in sys.modules
ops = tenon.jax_ops(kernels)
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
assert {platform for *_, platform, _ in asked} == {"cpu", "CUDA"}, asked
before = len(asked)
tenon.jax_ops(kernels)
assert len(asked) == before
assert ops.affine(jnp.ones(2)).tolist() == [2, 2]
"""


def test_registration_is_lazy_and_starts_no_backend():
    own_process(LAZY)


# ---------------------------------------------------------------------------------------------------------- the object


def test_the_same_object():
    loaded = tenon.load(FILE)
    with pytest.warns(UserWarning, match="is left out"):
        first = tenon.jax_ops(loaded)
    with pytest.warns(UserWarning, match="is left out"):
        assert tenon.jax_ops(loaded) is first
    assert quiet_ops(loaded, name="other") is not first and quiet_ops(loaded, sharding="replicate") is not first

    def backward(residuals, grad):
        return (grad,)

    with_backward = quiet_ops(loaded, backward={"affine": backward})
    assert with_backward is not first and quiet_ops(loaded, backward={"affine": backward}) is with_backward
    assert quiet_ops(loaded, backward={"affine": "affine_grad"}) is not with_backward
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None


def test_object():
    assert repr(ops).startswith("<tenon.JaxOps jax_kernels: affine, affine_grad, weighted")
    assert repr(quiet_ops(kernels, name="some.name")).startswith("<tenon.JaxOps some.name: ")
    assert ops.custom_calls == ("tenon1",)
    assert not hasattr(ops, "close")
    assert copy.copy(ops) is ops and copy.deepcopy([ops])[0] is ops
    with pytest.raises(TypeError, match="cannot be pickled: load the library and call tenon.jax_ops"):
        pickle.dumps(ops)
    before = ops.affine
    with pytest.raises(AttributeError, match="cannot be changed: 'affine' was not set"):
        ops.affine = 3
    with pytest.raises(AttributeError, match="cannot be changed: 'affine' was not deleted"):
        del ops.affine
    assert ops.affine is before
    with pytest.raises(AttributeError):  # an object whose __init__ has not run yet
        type(ops).__new__(type(ops)).affine


def test_nothing_but_what_is_left_out():
    loaded = tenon.load(build("""
        #include <tenon/function.h>
        static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
        TENON_MODULE(no_operators, NULL, TENON_FUNCTION("quiet()", none, NULL))
    """))
    empty = quiet_ops(loaded)
    assert repr(empty) == "<tenon.JaxOps no_operators: no operators>" and empty.custom_calls == ()


def test_functions_look_like_those_of_the_library():
    assert ops.affine.__name__ == ops.affine.__qualname__ == "affine"
    assert ops.affine.__doc__ == kernels.affine.__doc__ and ops.affine.__doc__.startswith("Returns a*x + shift.")
    assert ops.affine.__module__ == kernels.affine.__module__
    assert str(inspect.signature(ops.affine)) == "(x, a=2, *, shift=None)"
    assert str(inspect.signature(ops.pool)) == "(x, mode='a \"sum\"', size=(1, 2), *, keep=True)"


def test_parameters_may_have_any_name():
    assert np.array_equal(ops.method(X, X), X)
    assert np.array_equal(ops.method(self=X, args=X, kwargs=3), X)
    assert np.array_equal(jax.jit(lambda x: ops.method(args=x, self=x))(X), X)


# ------------------------------------------------------------------------------------------------------------- results


def test_one_result_is_an_array_and_several_are_a_tuple():
    assert isinstance(ops.affine(X), jax.Array)
    made = ops.square_grad_grad(X, X, X)
    assert type(made) is tuple and len(made) == 2


def test_named_results_are_a_pytree():
    made = ops.stats(X - 2)
    assert made._fields == ("relu", "mask", "count", "all") and type(made).__name__ == "stats_result"
    for other in (ops.stats(X), jax.jit(ops.stats)(X), quiet_ops(kernels).stats(X), kernels.stats(X)):
        assert type(other) is type(made)  # one type for each function
    assert type(ops.twice(X)) is type(quiet_ops(kernels).twice(X))
    eager = kernels.stats(X - 2)
    assert np.array_equal(made.relu, eager.relu) and np.array_equal(made.mask, eager.mask)
    assert (int(made.count), bool(made.all)) == (eager.count, eager.all) == (3, False)
    doubled = jax.tree_util.tree_map(lambda leaf: leaf * 2, made)
    assert type(doubled) is type(made) and np.array_equal(doubled.relu, 2 * made.relu)
    one = ops.total(X, X)
    assert one._fields == ("total",) and float(one.total) == kernels.total(X, X).total


def test_named_results_can_be_pickled():
    for made in (ops.stats(X), ops.twice(X)):
        loaded = pickle.loads(pickle.dumps(made))
        assert loaded._fields == made._fields and all(map(np.array_equal, loaded, made))
        assert type(copy.copy(made)) is type(copy.deepcopy(made)) is type(made)
        assert all(a is b for a, b in zip(copy.copy(made), made))
    assert type(pickle.loads(pickle.dumps(ops.twice(X)))) is type(ops.twice(X))
    stored = pickle.dumps(ops.twice(X)).hex()
    said = own_process(f"import pickle; made = pickle.loads(bytes.fromhex('{stored}')); print(*made._fields, made.x[1])")
    assert said.split() == ["old", "x", "2.0"]  # without jax_ops in that process


def test_numbers_are_arrays_without_dimensions():
    made = ops.stats(X)
    assert (made.count.shape, made.count.dtype, made.all.dtype) == ((), jnp.int32, jnp.bool_)
    assert ops.dot(X, X).shape == () and ops.dot(X, X).dtype == jnp.float32
    assert ops.power(30).dtype == jnp.int32 and int(ops.power(30)) == 2**30


def test_written_arguments_follow_the_results():
    assert np.array_equal(ops.scale(X, 3), 3 * X)
    y = X + 1
    made = ops.swap(X, y)
    assert type(made) is tuple and np.array_equal(made[0], y) and np.array_equal(made[1], X)
    made = ops.twice(X)
    assert made._fields == ("old", "x") and np.array_equal(made.old, X) and np.array_equal(made.x, 2 * X)
    assert X.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_written_argument_that_is_not_given():
    made = ops.swap(X)
    assert np.array_equal(made[0], X) and made[1] is None
    assert ops.perhaps_scale() is None and ops.perhaps_scale(None) is None
    assert np.array_equal(ops.perhaps_scale(X), X)


def test_donation_gives_the_same_memory_back():
    scale = jax.jit(ops.scale, static_argnums=1, donate_argnums=0)
    x = f32(1024) + 1
    expected, before = 3 * np.asarray(x), x.unsafe_buffer_pointer()
    made = scale(x, 3.0)
    assert made.unsafe_buffer_pointer() == before and x.is_deleted()
    assert np.array_equal(made, expected)
    # Without donation the caller's array is untouched.
    x = f32(1024) + 1
    made = jax.jit(ops.scale, static_argnums=1)(x, 3.0)
    assert made.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    assert np.array_equal(made, 3 * x) and np.array_equal(x, f32(1024) + 1)


def test_fortran_order():
    x = f32(3, 4)
    assert np.array_equal(ops.columns(x), np.asarray(x).ravel("F"))
    assert np.array_equal(jax.jit(lambda x: ops.columns(x.T))(x), np.asarray(x).ravel())
    assert np.array_equal(ops.scale_columns(x, 2), 2 * x)
    assert np.array_equal(jax.vmap(ops.columns)(f32(2, 3, 4))[1], np.asarray(f32(2, 3, 4)[1]).ravel("F"))


def test_an_empty_array_in_fortran_order():
    """In a process of its own: XLA's compiler divides by the size of an array that has a layout."""
    own_process("""
        ops = tenon.jax_ops(kernels)
        for shape in (0, 2), (2, 0), (0, 0):
            x = jnp.zeros(shape, jnp.float32)
            for call in ops.twice_columns, jax.jit(ops.twice_columns), jax.jit(ops.twice_columns, donate_argnums=0):
                small, made = call(x + 1)
                assert small.shape == (2,) and made.shape == shape
            assert ops.columns(x).shape == (0,) and ops.scale_columns(x, 2).shape == shape
    """)


# --------------------------------------------------------------------------------------------------------- the programs


def test_attributes_of_a_program():
    text = jax.jit(ops.affine).lower(X).as_text()
    assert "@tenon1" in text and 'fn = "jax_kernels.affine"' in text and 'args = "tdd"' in text
    other = jax.jit(quiet_ops(kernels, name="package.other").affine).lower(X, 3).as_text()
    assert 'fn = "package.other.affine"' in other


def test_a_program_is_one_call():
    text = jax.jit(ops.affine).lower(X).compile().as_text()
    instructions = re.findall(r"^ *(?:ROOT )?%[\w.-]+ = \S+ ([\w-]+)\(", text[text.index("ENTRY") :], re.M)
    assert instructions == ["parameter", "custom-call"]


def test_functions_of_the_gpu_are_there():
    with pytest.raises(ValueError) as caught:
        ops.on_gpu(X)
    assert str(caught.value) == ("on_gpu() runs on CUDA only, but it is called on cpu; move its arguments there with "
                                 "jax.device_put(), or compile the program for cuda")
    assert jax.eval_shape(ops.on_gpu, X).shape == (6,)
    lowered = jax.jit(ops.on_gpu).trace(X).lower(lowering_platforms=("cuda",))
    assert "@tenon1" in lowered.as_text()


def test_functions_that_may_become_part_of_a_cuda_graph():
    captured = tenon.jax_ops(tenon.load(build("""
        #include <tenon/function.h>
        static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
        TENON_MODULE(captured, NULL,
            TENON_FUNCTION_FLAGS("both(x: f32[n] cpu|cuda) -> f32[n]", none, NULL, TENON_CAPTURABLE),
            TENON_FUNCTION_FLAGS("gpu(x: f32[n] cuda) -> f32[n]", none, NULL, TENON_CAPTURABLE),
            TENON_FUNCTION_FLAGS("cpu(x: f32[n]) -> f32[n]", none, NULL, TENON_CAPTURABLE))
    """)))
    assert captured.custom_calls == ("tenon1", "tenon1_capturable")
    for name, platform, target in [("both", "cuda", "tenon1_capturable"), ("gpu", "cuda", "tenon1_capturable"),
                                   ("cpu", "cpu", "tenon1")]:
        lowered = jax.jit(getattr(captured, name)).trace(X).lower(lowering_platforms=(platform,))
        assert f"@{target}(" in lowered.as_text()
    assert captured.both(X).shape == captured.cpu(X).shape == (6,)


def test_functions_of_the_cpu_are_not_lowered_for_others():
    traced = jax.jit(ops.affine).trace(X)
    with pytest.raises(ValueError, match=r"^affine\(\) runs on the CPU only, but it is called on cuda; move its arguments"):
        traced.lower(lowering_platforms=("cuda",))
    with pytest.raises(ValueError) as caught:
        traced.lower(lowering_platforms=("cpu", "cuda"))
    assert str(caught.value) == ("affine() runs on the CPU only, but the program is compiled for cpu and cuda; compile it for "
                                 "cpu only")
    traced = jax.jit(ops.on_both).trace(X)
    assert traced.lower(lowering_platforms=("cpu", "cuda"))
    with pytest.raises(ValueError, match=r"^on_both\(\) runs on the CPU and CUDA only, but it is called on tpu; move"):
        traced.lower(lowering_platforms=("tpu",))


def test_a_traced_number_is_an_error_on_a_gpu():
    traced = jax.jit(ops.on_both).trace(X, 2.0)
    assert np.array_equal(traced.lower().compile()(X, 2.0), X)
    with pytest.raises(ValueError) as caught:
        traced.lower(lowering_platforms=("cuda",))
    assert str(caught.value) == ("on_both(): argument 'a' is a traced number, which the function cannot read on a GPU; pass "
                                 "a Python number")


def test_the_package_exports_it():
    assert "jax_ops" in tenon.__all__ and "jax_ops" in dir(tenon) and FILE.exists() and BACKWARD
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tenon.jax_ops  # noqa: B018
