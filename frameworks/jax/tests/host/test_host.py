"""The host of XLA's programs, by calls that are written by hand. test_handler.c has calls that XLA does not make."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build, run_python, tenon
from hand_written import HASH, call, ffi, host, refused, register_target, struct

from tenon import _jax_native

X = jnp.arange(6, dtype=jnp.float32)
TWO = {0: np.float64(2)}
FLOAT8 = [name for name in dir(jnp) if name.startswith("float8_")]
DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "complex64",
          *FLOAT8]


def test_a_call_inside_jit():
    saxpy = jax.jit(lambda x, y: call("saxpy", "vtt", struct(*x.shape), x, y, values=TWO))
    assert saxpy(X, X).tolist() == [0, 3, 6, 9, 12, 15]
    assert jnp.array_equal(saxpy(X, X), host.saxpy(2.0, X, X))


def test_it_can_be_registered_twice():
    register_target()
    assert _jax_native.register(host.saxpy.__self__, "host.saxpy") == HASH
    assert len(HASH) == 32 and set(HASH) <= set("0123456789abcdef")


def test_the_version_is_that_of_xla():
    assert _jax_native.probe(0, 1, False) == (0, 1, 0)
    assert [_jax_native.probe(0, minor, True)[1] for minor in range(1, 9)] == list(range(1, 9))
    assert _jax_native.probe(0, 3, True, "CUDA") == (0, 3, 0)
    assert _jax_native.probe(0, 3, True, "CUDA", True) == (0, 3, 1)
    for wrong in [("tpu", False), ("cpu", True)]:
        with pytest.raises(ValueError, match="expected the platform 'cpu' or 'CUDA'"):
            _jax_native.handler(*wrong)


def test_what_cannot_be_registered_says_why():
    for name, reason in [("open", "the size of a result is known only to the function"), ("handle", "handle"),
                         ("text", "neither a tensor nor a number"), ("optional", "optional"),
                         ("nothing", "neither returns nor writes"), ("callable", "a parameter is a callable"),
                         ("bytes", "a parameter is bytes"), ("strs", "a list of strings"), ("keeps", "keeps an argument")]:
        with pytest.raises(ValueError, match=rf"{name}\(\): XLA cannot call it: .*{reason}"):
            _jax_native.register(getattr(host, name).__self__, f"host.{name}")
    with pytest.raises(TypeError, match="expected tenon.Function"):
        _jax_native.register(host.saxpy, "host.saxpy")


def test_a_capturable_function():
    assert _jax_native.capturable(host.capturable.__self__)
    assert not _jax_native.capturable(host.saxpy.__self__)
    with pytest.raises(TypeError, match="expected tenon.Function"):
        _jax_native.capturable(host)


# ------------------------------------------------------------------------------------------------------------ values

def test_numbers_come_in_every_way():
    for letters, operands, values in [
        ("vtt", (X, X), TWO),
        ("stt", (jnp.float32(2), X, X), {}),
        ("stt", (jnp.int32(2), X, X), {}),
        ("stt", (jnp.uint8(2), X, X), {}),
        ("stt", (jnp.float16(2), X, X), {}),
        ("stt", (jnp.bfloat16(2), X, X), {}),
        ("ptt", (X, X, np.array([2.0]).view(np.uint32)), {}),
    ]:
        assert call("saxpy", letters, struct(6), *operands, values=values).tolist() == [0, 3, 6, 9, 12, 15]


def values_call(letters="vvvvvvvdd", **replaced):
    values = {0: np.int64(-7), 1: np.float64(2.5), 2: np.bool_(True), 3: "häß", 4: "mean",
              5: np.array([1, 2, 3], np.int64), 6: np.array([0.5], np.float64), **replaced.pop("values", {})}
    values = {index: value for index, value in values.items() if letters[index] == "v"}
    return call("values", letters, struct(8, dtype=np.int64), values=values, **replaced)


def test_values_are_attributes():
    assert np.asarray(values_call()).tolist() == [-7, 2500, 1, 5005, 1, 3006, 1005, -1]
    assert np.asarray(values_call("vvvvvvvnd")).tolist()[7] == -1
    assert np.asarray(values_call("vvvvvvvvv", values={7: np.int64(9), 8: np.int64(1)})).tolist()[7] == 9
    assert np.asarray(values_call(values={3: ""})).tolist()[3] == 0
    assert np.asarray(values_call(values={6: np.array([0.5]).view(np.int64)})).tolist()[6] == 1005


def test_empty_lists():
    empty = values_call(values={5: np.array([], np.int64), 6: np.array([], np.float64)})
    assert np.asarray(empty).tolist()[5:7] == [0, 0]


def test_numbers_are_results():
    wide = call("numbers", "vvv", [struct(dtype=np.int64), struct(dtype=np.float64), struct(dtype=bool)],
                values={0: np.int64(1 << 40), 1: np.float64(0.1), 2: np.bool_(True)})
    assert [np.asarray(result).item() for result in wide] == [1 << 40, 0.1, True]
    narrow = [struct(dtype=np.int32), struct(dtype=np.float32), struct(dtype=bool)]
    values = {0: np.int64(-3), 1: np.float64(0.5), 2: np.bool_(False)}
    assert [result.item() for result in call("numbers", "vvv", narrow, values=values)] == [-3, 0.5, False]
    refused("numbers(): result 0 is 1099511627776, which does not fit in int32", "numbers", "vvv", narrow,
            values={**values, 0: np.int64(1 << 40)})


# ----------------------------------------------------------------------------------------------------------- tensors

@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    x = jnp.asarray(np.arange(24).reshape(2, 3, 4) % 2, dtype=dtype)
    got = jax.jit(lambda x: call("copy", "t", struct(*x.shape, dtype=x.dtype), x))(x)
    assert got.dtype == x.dtype and np.asarray(got).tobytes() == np.asarray(x).tobytes()


def test_small_dtypes_are_refused():
    refused("copy(): argument 'x': Tenon does not take XLA's dtype", "copy", "t", struct(4, dtype=jnp.int4),
            jnp.zeros(4, jnp.int4))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 12, (2, 1, 3)])
def test_every_shape(shape):
    x = jnp.arange(int(np.prod(shape)), dtype=jnp.float32).reshape(shape)
    got = call("copy", "t", struct(*shape), x)
    assert got.shape == shape and jnp.array_equal(got, x)


def test_optional_tensors():
    assert call("maybe", "t", struct(1), X[2:]).tolist() == [2]
    assert call("maybe", "d", struct(1)).tolist() == [-1]
    assert call("maybe", "n", struct(1)).tolist() == [-1]


def test_fortran_order_is_a_layout():
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    assert call("first_column", "t", struct(2), x, input_layouts=[(1, 0)]).tolist() == [0, 3]


def test_written_arguments_are_results():
    scale = jax.jit(lambda x: call("scale", "tv", struct(6), x, values={1: np.float64(3)},
                                   input_output_aliases={0: 0}))
    assert scale(X).tolist() == [0, 3, 6, 9, 12, 15]
    assert X.tolist() == [0, 1, 2, 3, 4, 5]
    donating = jax.jit(scale, donate_argnums=0)
    mine = jnp.arange(6, dtype=jnp.float32)
    address = mine.unsafe_buffer_pointer()
    assert donating(mine).unsafe_buffer_pointer() == address
    refused("scale(): the program was not made by tenon.jax_ops(): an operand that is written to", "scale", "tv", struct(6),
            X, values={1: np.float64(3)})


def test_alignment_is_checked_at_run_time():
    either = np.zeros(8, np.float32)  # at most one of its first two elements is at the beginning of a page
    with pytest.raises(ValueError) as eager:
        host.aligned(either[either.ctypes.data % 4096 == 0:])
    words = str(eager.value).split("\n")[0].split(" at ")[0]
    aligned = jax.jit(lambda x: call("aligned", "t", struct(1), x[1:]))
    for _ in range(64):  # the memory of a small array is rarely at the beginning of a page
        try:
            assert aligned(X).tolist() == [1]
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            assert words[:20] in str(error)
            return
    pytest.skip("every array was at the beginning of a page")


# ------------------------------------------------------------------------------------------------------------ errors

def test_errors_have_the_words_of_the_function():
    with pytest.raises(ValueError) as eager:
        host.saxpy(2.0, X, X[:3])
    text = refused(str(eager.value), "saxpy", "vtt", struct(6), X, X[:3], values=TWO)
    assert text == f"INVALID_ARGUMENT: {eager.value}"


def test_the_kind_of_array_has_the_words_of_the_function():
    with pytest.raises(ValueError) as eager:
        host.saxpy(2.0, X.reshape(2, 3), X)
    assert str(eager.value) in refused("2 dimensions", "saxpy", "vtt", struct(6), X.reshape(2, 3), X, values=TWO)


def test_an_item_of_a_list_has_the_words_of_the_function():
    with pytest.raises(ValueError) as eager:
        host.several([X, X[:3]])
    refused(str(eager.value), "several", "l", struct(1), X, X[:3], values={0: np.int64(2)})
    refused("argument 'xs[1]': Tenon does not take XLA's dtype", "several", "l", struct(1), X, X.astype(jnp.int4), values={0: np.int64(2)})
    refused("a list has more items than there are operands", "several", "l", struct(1), X, values={0: np.int64(2)})


@pytest.mark.parametrize("status, code", [(1, "INVALID_ARGUMENT"), (2, "RESOURCE_EXHAUSTED"), (3, "OUT_OF_RANGE"),
                                          (13, "INTERNAL")])
def test_a_function_fails(status, code):
    text = refused("fail(): the reason is ä?.", "fail", "tv", struct(6), X, values={1: np.int64(status)})
    assert text.startswith(code)


def test_an_unknown_hash_names_both():
    other = "0" * 32
    text = refused("hash", "saxpy", "vtt", struct(6), X, X, values=TWO, hash=other)
    assert other in text and HASH in text and "compile the program again" in text
    text = refused("not loaded", "saxpy", "vtt", struct(6), X, X, values=TWO, fn="other.saxpi")
    assert "other.saxpi" in text and HASH in text and "tenon.jax_ops()" in text
    for fn in ("saxpy", ".saxpy", "other.axpy"):
        refused("not loaded", "saxpy", "vtt", struct(6), X, X, values=TWO, fn=fn)
    text = refused("is loaded under another name", "saxpy", "vtt", struct(6), X, X, values=TWO, fn="other.saxpy")
    assert HASH in text and "call tenon.jax_ops(..., name='other')" in text


def test_scratch_memory():
    assert call("scratch", "tv", struct(1), X, values={1: np.int64(100_000)}).tolist() == [1]
    refused("scratch(): ", "scratch", "tv", struct(1), X, values={1: np.int64(1 << 60)})


# -------------------------------------------------------------------------------------------------------- programs

SOURCE = """
#include <tenon/function.h>
static tenon_status number(tenon_call *call)
{
    tenon_result_data(call, 0, float)[0] = NUMBER;
    return TENON_OK;
}
TENON_MODULE(rebuilt, NULL, TENON_FUNCTION("number(x: f32[n]) -> f32[1]", number, NULL))
"""


def test_an_old_program_calls_the_old_library():
    programs = []
    for number in (1, 2):
        library = tenon.load(build(SOURCE, f"-DNUMBER={number}"))
        fn_hash = _jax_native.register(library.number.__self__, "rebuilt.number")
        del library
        programs.append(jax.jit(lambda x, h=fn_hash: call("number", "t", struct(1), x, fn="rebuilt.number", hash=h)))
    assert [program(X).item() for program in [*programs, *programs]] == [1, 2, 1, 2]


def test_symbolic_sizes_are_checked_at_run_time():
    export = pytest.importorskip("jax.export")
    m, k, l, n = export.symbolic_shape("m, k, l, n")
    check = export.DisabledSafetyCheck.custom_call("tenon1")
    program = jax.jit(lambda a, b: call("matmul", "tt", struct(a.shape[0], b.shape[1]), a, b))
    exported = export.export(program, disabled_checks=[check])(struct(m, k), struct(l, n))
    a = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    assert exported.call(a, a.T).tolist() == (np.asarray(a) @ np.asarray(a).T).tolist()
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match=r"matmul\(\): argument 'b': dimension 0 is 2, but"):
        jax.block_until_ready(exported.call(a, a))


def test_a_process_without_the_function():
    """A program that is loaded where nothing is registered fails with a sentence."""
    code = f"""
        import jax, numpy as np, {ffi.__name__} as ffi
        from tenon import _jax_native
        ffi.register_ffi_target("tenon1", _jax_native.handler(), platform="cpu", api_version=1)
        x = np.zeros(3, np.float32)
        try:
            ffi.ffi_call("tenon1", jax.ShapeDtypeStruct((3,), np.float32))(x, args="t", fn="a.b", hash="{HASH}")
        except Exception as error:
            print(error)
        """
    assert "a.b of the library with hash" in run_python(code)
