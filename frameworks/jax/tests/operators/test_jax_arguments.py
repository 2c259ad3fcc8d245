"""The arguments of operators of JAX: what is taken, what is static, and the words of errors at trace time."""

import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_operators import RunTimeError, f32, kernels, ops, same_message, tenon, x64

X = f32(6)
WIDE = {"wide", "wide_complex"}


def traced(function, *args, **kwargs):
    """Call it with a tracer for each JAX array, and run nothing."""
    arrays = {i: x for i, x in enumerate(args) if isinstance(x, jax.Array)}
    named = {key: x for key, x in kwargs.items() if isinstance(x, jax.Array)}

    def call(arrays, named):
        return function(*(arrays.get(i, x) for i, x in enumerate(args)), **{**kwargs, **named})

    return jax.eval_shape(call, arrays, named)


def same_errors(name, *args, **kwargs):
    function, operator = getattr(kernels, name), getattr(ops, name)
    same_message(
        Exception,
        lambda: function(*args, **kwargs),
        lambda: operator(*args, **kwargs),
        lambda: traced(operator, *args, **kwargs),
    )


# -------------------------------------------------------------------------------------------------------- words of errors


@pytest.mark.parametrize(
    "call",
    {
        "missing": lambda f: f("affine"),
        "missing two": lambda f: f("dot"),
        "missing keyword": lambda f: f("by_keyword", 1.0),
        "too many": lambda f: f("affine", X, 1.0, 2.0),
        "twice": lambda f: f("affine", X, x=X),
        "unknown": lambda f: f("affine", X, b=1),
        "dtype": lambda f: f("same", X.astype(jnp.int32)),
        "dtypes": lambda f: f("either", X.astype(bool)),
        "dtypes of 4 bits": lambda f: f("either", X, X),
        "variable": lambda f: f("affine", X.astype(jnp.int32)),
        "rank": lambda f: f("dot", X, f32(2, 3)),
        "size": lambda f: f("dot", X, f32(5)),
        "star": lambda f: f("matmul", f32(2, 3, 4), f32(3, 4, 5)),
        "star and dim": lambda f: f("matmul", f32(2, 3, 4), f32(2, 5, 4)),
        "at least": lambda f: f("matmul", X, X),
        "expression": lambda f: f("head", f32(5)),
        "expression of a size": lambda f: f("head", f32(6), 2),
        "negative result": lambda f: f("shrink", f32(3, 2), f32(3)),
        "number of a dimension": lambda f: f("shrink", f32(7, 2), f32(3), f32(5, 2)),
        "overflow": lambda f: f("head", f32(4), 2**62),
        "division by 0": lambda f: f("spread", 1, 0),
        "result overflow": lambda f: f("spread", 2**62),
        "list for a tensor": lambda f: f("same", [1.0, 2.0]),
        "number for a tensor": lambda f: f("same", 2.0),
        "None for a tensor": lambda f: f("same", None),
        "text for a number": lambda f: f("affine", X, "2"),
        "float for an int": lambda f: f("power", 2.0),
        "complex for a float": lambda f: f("affine", X, 2j),
        "None for a number": lambda f: f("affine", X, None),
        "choice": lambda f: f("pool", f32(2, 2), "max"),
        "text for a list": lambda f: f("pool", f32(2, 2), "mean", "12"),
        "length of a list": lambda f: f("pool", f32(2, 2), "mean", [1, 2, 3]),
        "int for a bool": lambda f: f("pool", f32(2, 2), keep=1),
        "large int": lambda f: f("power", 2**64),
        "earlier tensor first": lambda f: f("kinds", f32(2), "1", 2.0, True, "", "a", [], []),
        "earlier value first": lambda f: f("kinds", f32(1), 1, "2", True, "", "c", [], []),
        "no tensor after a mismatch": lambda f: f("dot", X.astype(jnp.int32), 3),
        "NumPy": lambda f: f("same", np.zeros(3)),
        "NumPy size": lambda f: f("dot", X, np.zeros(3, np.float32)),
        "NumPy objects": lambda f: f("same", np.zeros(3, object)),
        "NumPy bytes": lambda f: f("same", np.zeros(3, ">f4")),
        "NumPy scalar": lambda f: f("dot", np.float32(1), X),
    }.items(),
    ids=lambda pair: pair[0],
)
def test_words_of_the_function(call):
    call[1](same_errors)


def test_an_array_for_a_number():
    for value in (X, X.astype(jnp.complex64)[0], jnp.zeros((2, 2))):
        same_errors("affine", X, value)
    for value in (X, X[0]):
        same_message(TypeError, lambda: kernels.power(value), lambda: ops.power(value), lambda: traced(ops.power, value))
    same_message(TypeError, lambda: kernels.power(jnp.bool_(True)), lambda: ops.power(jnp.bool_(True)))
    for value in (X, jnp.int32(1)):
        same_errors("pool", f32(2, 2), keep=value)


def test_a_python_number_of_another_kind():
    """It keeps its name in messages when it is traced."""
    for value in (2.5, 2j):
        same_message(TypeError, lambda: kernels.power(value), lambda: jax.jit(ops.power)(value))
    same_message(TypeError, lambda: kernels.affine(X, 2j), lambda: jax.jit(ops.affine)(X, 2j))
    for value in (1, 1.5):
        with pytest.raises(TypeError, match=rf"argument 'keep': expected bool, got {type(value).__name__}"):
            jax.jit(lambda keep: ops.pool(f32(2, 2), keep=keep))(value)


def test_an_array_that_was_donated():
    x = X + 1
    x.delete()
    same_message(ValueError, lambda: kernels.same(x), lambda: ops.same(x))


def test_neither_out_nor_like():
    for name in ("out", "like"):
        with pytest.raises(TypeError, match=rf"^affine\(\) got an unexpected keyword argument '{name}'$"):
            ops.affine(X, **{name: X})


def random_value(source, p):
    kind = p["kind"]
    if source.random() < 0.06:
        return source.choice([None, "text", 1.5, 3, True, [1, 2], object, 2**70])
    if kind == "tensor":
        shape = [source.choice([0, 1, 2, 2, 3, 4]) for _ in range(source.choice([0, 1, 1, 1, 2, 2, 3, 4]))]
        dtype = source.choice(["float32"] * 8 + ["int32", "bool", "float16", "bfloat16", "complex64", "uint8"])
        made = np.zeros(shape, jnp.dtype(dtype))
        return made if source.random() < 0.2 else jnp.asarray(made)
    return {
        "int": lambda: source.choice([0, 1, 2, 3, np.int32(2)]),
        "float": lambda: source.choice([0.5, 2, np.float32(2), np.array(1.5)]),
        "bool": lambda: source.choice([True, False, np.bool_(True)]),
        "str": lambda: source.choice(["", "text", "\ud800"]),
        "enum": lambda: source.choice([*p["choices"], "neither"]),
        "ints": lambda: source.choice([[1, 2], (3,), np.array([1, 2]), []]),
        "floats": lambda: source.choice([[1.5, 2], (3,), np.array([1.5, 2]), []]),
    }[kind]()


def outcome(call):
    try:
        call()
    except Exception as error:
        return type(error), str(error)
    return None


def test_random_calls_say_the_same():
    source = random.Random(19)
    compared = failed = 0
    names = [name for name in dir(ops) if name not in {"custom_calls", "on_gpu", "count", "fail", "aligned", *WIDE}]
    for _ in range(400):
        name = source.choice(names)
        parameters = getattr(kernels, name).__self__.parameters
        given = parameters[: source.choice([len(parameters)] * 4 + [len(parameters) - 1, 0])]
        args = [random_value(source, p) for p in given if not p["keyword_only"]]
        kwargs = {p["name"]: random_value(source, p) for p in given if p["keyword_only"]}
        if source.random() < 0.03:
            kwargs["unknown"] = 1
        expected = outcome(lambda: getattr(kernels, name)(*args, **kwargs))
        if expected and any(words in expected[1] for words in ("read-only", "Fortran order", "like=")):
            continue  # XLA makes a copy that can be written, in the order that is needed
        assert outcome(lambda: traced(getattr(ops, name), *args, **kwargs)) == expected, (name, args, kwargs)
        compared += 1
        failed += expected is not None
    assert compared > 300 and 150 < failed < compared - 30


def test_functions_that_read_arguments():
    """Those of tenon._native, which only the package calls."""
    native, described = tenon._native, kernels.affine.__self__
    assert native._sort_arguments(described, (X,), {"shift": 1}, None) == (X, None, 1)
    assert native._read_tensor(described, 0, X) == ("f32", (6,)) and native._read_value(described, 1, 3) == 3.0
    for wrong in (lambda: native._sort_arguments(kernels, (), {}, None), lambda: native._sort_arguments(described, [], {}, 0),
                  lambda: native._read_value(described, 0, X), lambda: native._read_tensor(described, "0", X)):
        with pytest.raises(TypeError):
            wrong()
    for index in (-1, 3):
        with pytest.raises(IndexError, match=rf"affine\(\) has no parameter {index}"):
            native._read_value(described, index, 1)


# --------------------------------------------------------------------------------------------------------- what is taken


class Subclass(np.ndarray):
    pass


def test_arrays_of_numpy():
    x = np.arange(6, dtype=np.float32)
    for made in (ops.affine(x), jax.jit(lambda: ops.affine(x))(), ops.affine(x[::-1])[::-1], ops.affine(x.reshape(2, 3)[:, :]).ravel()):
        assert np.array_equal(made, 2 * x)
    assert np.array_equal(ops.dot(x, X), np.dot(x, x))
    assert np.array_equal(ops.affine(np.float32(3)), 6)
    assert np.array_equal(ops.affine(x.view(Subclass)), 2 * x)
    assert isinstance(ops.affine(x), jax.Array)


def test_numbers():
    class Index:
        def __index__(self):
            return 3

    class Float:
        def __float__(self):
            return 2.5

    assert ops.affine(X, Float())[1] == 2.5 and ops.affine(X, Index())[1] == 3
    assert ops.affine(X, np.float64(0.1))[1] == np.float32(0.1) and ops.affine(X, np.int8(4))[1] == 4
    assert ops.ramp(Index()).shape == (3,) and ops.ramp(np.int64(2)).shape == (2,) and ops.ramp(jnp.int32(2)).shape == (2,)
    made = ops.kinds(X[1:2], 2**24, 0.5, np.bool_(True), "äb", "bb", np.array([1, 2]), iter_list([1.5, 2]))
    assert np.array_equal(made, kernels.kinds(X[1:2], 2**24, 0.5, True, "äb", "bb", [1, 2], [1.5, 2]))
    assert np.array_equal(ops.kinds(X[:1], 0, 0.0, False, "", "a", [], []), np.zeros(9))


def iter_list(items):
    class Sequence:
        def __len__(self):
            return len(items)

        def __getitem__(self, index):
            return items[index]

    return Sequence()


def test_zeros_of_both_signs_are_two_programs():
    run = jax.jit(lambda x: [ops.kinds(x, 0, value, False, "", "a", [], [])[8] for value in (0.0, -0.0, 0.0)])
    assert [float(sign) for sign in run(X[:1])] == [0, 1, 0]


def test_none_and_defaults():
    assert np.array_equal(ops.weighted(X), X) and np.array_equal(ops.weighted(X, None), X)
    assert np.array_equal(ops.weighted(X, X), X * X)
    assert np.array_equal(ops.affine(X, shift=None), 2 * X)
    assert np.array_equal(jax.jit(ops.weighted)(X, None), X)


EIGHT_BITS = [getattr(jnp, name)(0.5) for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu") if hasattr(jnp, name)]


@pytest.mark.parametrize("number", [2, 2.5, np.float32(2), jnp.float32(2), jnp.int8(2), jnp.bfloat16(2), jnp.bool_(True), *EIGHT_BITS])
def test_a_number_may_be_traced(number):
    expected = float(number) * np.asarray(X)
    assert np.array_equal(jax.jit(ops.affine)(X, number), expected)
    assert np.array_equal(ops.affine(X, number), expected)
    assert np.array_equal(jax.jit(lambda a: ops.affine(X, 1, shift=a))(number), X + float(number))


def test_a_traced_bool_and_int():
    run = jax.jit(lambda i, b: ops.kinds(X[:1], i, 0.0, b, "", "a", [], []))
    assert run(7, True).tolist()[1:4] == [7, 0, 1] and run(jnp.uint8(200), False).tolist()[1:4] == [200, 0, 0]
    assert int(jax.jit(ops.power)(5)) == 32
    assert [int(jax.jit(ops.power)(value)) for value in (True, False)] == [2, 1] == [int(ops.power(True)), int(ops.power(False))]
    assert jax.vmap(ops.power)(jnp.array([True, False])).tolist() == [2, 1]


def test_a_changing_traced_number_compiles_once():
    traces = []

    @jax.jit
    def step(x, rate):
        traces.append(rate)
        return ops.affine(x, rate)

    assert [float(step(X, rate)[1]) for rate in (0.5, 1.5, 2.5)] == [0.5, 1.5, 2.5] and len(traces) == 1


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda t: ops.ramp(t), "n"),
        (lambda t: ops.head(X, t), "n"),
        (lambda t: ops.pool(f32(2, 2), t), "mode"),
        (lambda t: ops.pool(f32(2, 2), "mean", t), "size"),
        (lambda t: ops.pool(f32(2, 2), "mean", [t, 1]), "size"),
        (lambda t: ops.pool(f32(2, 2), "mean", (1, t)), "size"),
        (lambda t: ops.kinds(X[:1], 1, 1.0, True, t, "a", [], []), "s"),
        (lambda t: ops.kinds(X[:1], 1, 1.0, True, "", "a", [], [t]), "m"),
    ],
)
def test_what_must_be_static(call, name):
    with pytest.raises(TypeError) as caught:
        jax.jit(call)(2)
    assert re.fullmatch(rf"\w+\(\): argument '{name}' must be static[,;].* pass .*, or use static_argnums", str(caught.value))


def test_an_array_of_the_closure_must_be_static():
    size = jnp.array([1, 2])
    assert ops.pool(f32(2, 2), "mean", size)[0, 0, 0] == 3
    with pytest.raises(TypeError, match=r"^pool\(\): argument 'size' must be static; pass Python numbers or a NumPy array"):
        jax.jit(lambda x: ops.pool(x, "mean", size))(f32(2, 2))
    assert jax.jit(lambda x: ops.pool(x, "mean", np.asarray(size)))(f32(2, 2))[0, 0, 0] == 3
    same_message(TypeError, lambda: kernels.pool(f32(2, 2), "mean", size[0]), lambda: ops.pool(f32(2, 2), "mean", size[0]))


def test_a_symbolic_dimension_must_be_static():
    export = pytest.importorskip("jax.export")
    vector = jax.ShapeDtypeStruct(export.symbolic_shape("m"), jnp.float32)
    for call, name in (
        (lambda x: ops.ramp(x.shape[0]), "n"),
        (lambda x: ops.ramp(2 * x.shape[0]), "n"),
        (lambda x: ops.pool(f32(2, 2), "mean", [1, x.shape[0]]), "size"),
        (lambda x: ops.kinds(X[:1], x.shape[0], 0.0, True, "", "a", [], []), "i"),
    ):
        with pytest.raises(TypeError, match=rf"argument '{name}' must be static, .*is a symbolic dimension; export"):
            jax.eval_shape(call, vector)


def test_static_arguments_of_jit():
    ramp = jax.jit(ops.ramp, static_argnums=0)
    assert ramp(3).tolist() == [0, 1, 2] and ramp(2).tolist() == [0, 1]
    pool = jax.jit(ops.pool, static_argnames=("mode", "size", "keep"))
    assert pool(f32(2, 2), mode="mean", size=(3, 4), keep=False)[0, 0, 0] == 7


class ForeignArray:
    """An array of a framework that JAX does not know."""

    def __init__(self):
        self.array = np.zeros(3, np.float32)

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


def test_other_tensors_are_refused():
    with pytest.raises(TypeError) as caught:
        ops.same(ForeignArray())
    assert "same(): argument 'x': expected an array of JAX or NumPy, got " in str(caught.value)
    assert str(caught.value).endswith("ForeignArray; convert it with jax.dlpack.from_dlpack(x)")
    # An earlier mistake comes first.
    with pytest.raises(TypeError, match="dtype is i32, not f32"):
        ops.dot(X.astype(jnp.int32), ForeignArray())


def test_interrupts_are_kept():
    class Interrupting:
        def __float__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ops.affine(X.astype(jnp.int32), Interrupting())

    class Failing:
        def __float__(self):
            raise MemoryError

    with pytest.raises(MemoryError):
        ops.affine(X.astype(jnp.int32), Failing())


# ----------------------------------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]
)
def test_dtypes(dtype):
    x = jnp.asarray(np.arange(6), dtype)
    for made in (ops.copy(x), jax.jit(ops.copy)(x), ops.copy(np.asarray(x))):
        assert made.dtype == x.dtype and np.array_equal(np.asarray(made), np.asarray(x))


def test_packed_dtypes_are_refused():
    names = [name for name in ("int4", "uint4", "int2", "float4_e2m1fn") if hasattr(jnp, name)]
    for name in names:
        x = jax.ShapeDtypeStruct((4,), getattr(jnp, name))
        with pytest.raises(TypeError, match=r"argument 'x': JAX stores \w+ in another way on each platform; convert it"):
            jax.eval_shape(ops.copy, x)
    assert "int4" in names


def test_keys_are_refused():
    with pytest.raises(TypeError, match=r"copy\(\): argument 'x': expected an array of numbers, got key<fry>"):
        ops.copy(jax.random.key(0))
    with pytest.raises(TypeError, match=r"dtype is key<fry>, not f32"):
        ops.same(jax.random.key(0))


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "complex128"])
def test_numpy_of_64_bits_needs_x64(dtype):
    x = np.arange(3).astype(dtype)
    for call in (lambda: ops.copy(x), lambda: jax.jit(lambda: ops.copy(x))()):
        with pytest.raises(ValueError) as caught:
            call()
        assert "copy(): argument 'x': JAX would convert " in str(caught.value)
        assert "set jax_enable_x64, or convert the array yourself" in str(caught.value)
    with x64():
        assert ops.copy(x).dtype == dtype and np.array_equal(ops.copy(x), x)


def test_results_of_64_bits_need_x64():
    for name, short in (("wide", "i64"), ("wide_complex", "c128")):
        for call in (lambda: getattr(ops, name)(X), lambda: jax.eval_shape(getattr(ops, name), X)):
            with pytest.raises(ValueError) as caught:
                call()
            assert str(caught.value) == (f"{name}(): result 0 is of dtype {short}, which JAX has only with jax_enable_x64; "
                                         "set it, or use a function that returns fewer bits")
        with x64():
            assert getattr(ops, name)(jnp.ones(3, jnp.float32)).dtype.itemsize == (8 if short == "i64" else 16)
        with pytest.raises(ValueError):  # a trace with x64 is not used without it
            getattr(ops, name)(X)


def test_numbers_with_x64():
    with x64():
        x = jnp.ones(3, jnp.float32)
        assert ops.dot(x, x).dtype == jnp.float64 and ops.power(40).dtype == jnp.int64
        assert int(ops.power(40)) == 2**40
        assert ops.affine(jnp.ones(2), 0.1)[0] == 0.1
    assert ops.dot(X, X).dtype == jnp.float32


def test_an_int_that_does_not_fit():
    with pytest.raises(RunTimeError, match="power.*1099511627776|power.*32 bits"):
        jax.block_until_ready(ops.power(40))
    assert int(ops.power(4)) == 16


def test_an_array_of_64_bits_without_x64():
    with x64():
        x = jnp.ones(3)
    with pytest.raises(ValueError, match="result 0 is of dtype f64, which JAX has only with jax_enable_x64"):
        ops.affine(x)


def test_alignment_is_checked_at_run_time():
    messages = set()
    for size in (5, 6, 7, 8):
        x = f32(size)
        expected = outcome(lambda: kernels.aligned(x))
        try:
            jax.block_until_ready(jax.jit(ops.aligned)(x))
        except RunTimeError as error:
            messages.add(str(error))
            if expected and not x.unsafe_buffer_pointer() % 4096 == 0:
                assert "expected f32[n] aligned(4096)" in str(error) and expected[1].splitlines()[0] in str(error)
        else:
            assert x.unsafe_buffer_pointer() % 4096 == 0
    assert messages


def test_a_wrong_item_of_a_list():
    x = f32(1)
    for error, lists in ((TypeError, ([1, "2"], [])), (OverflowError, ([2**63], [])), (TypeError, ([], [0.5, None]))):
        rest = (3, 2.5, True, "s", "bb", *lists)
        same_message(error, lambda: kernels.kinds(x, *rest), lambda: ops.kinds(x, *rest))
        with pytest.raises(error, match=r"^kinds\(\): argument '[lm]\[\d\]': expected "):
            jax.jit(lambda x: ops.kinds(x, *rest))(x)
