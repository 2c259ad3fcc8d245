"""The host of XLA's programs, by calls that are written by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hand_written import HASH, call, host, refused, register_target, struct

from tenon import _native

X = jnp.arange(6, dtype=jnp.float32)
TWO = {0: np.float64(2)}


def test_a_call_inside_jit():
    saxpy = jax.jit(lambda x, y: call("saxpy", "vtt", struct(*x.shape), x, y, values=TWO))
    assert saxpy(X, X).tolist() == [0, 3, 6, 9, 12, 15]
    assert jnp.array_equal(saxpy(X, X), host.saxpy(2.0, X, X))


def test_it_can_be_registered_twice():
    register_target()
    assert _native._jax_register(host.saxpy.__self__, "host.saxpy") == HASH
    assert len(HASH) == 32 and set(HASH) <= set("0123456789abcdef")


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


def test_errors_have_the_words_of_the_function():
    with pytest.raises(ValueError) as eager:
        host.saxpy(2.0, X, X[:3])
    text = refused(str(eager.value), "saxpy", "vtt", struct(6), X, X[:3], values=TWO)
    assert text == f"INVALID_ARGUMENT: {eager.value}"


def test_an_unknown_hash_names_both():
    other = "0" * 32
    text = refused("hash", "saxpy", "vtt", struct(6), X, X, values=TWO, hash=other)
    assert other in text and HASH in text and "compile the program again" in text
    text = refused("not loaded", "saxpy", "vtt", struct(6), X, X, values=TWO, fn="other.saxpy")
    assert "other.saxpy" in text and HASH in text and "tenon.jax_ops()" in text
