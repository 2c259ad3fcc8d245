"""The checked mode inside XLA's programs, on threads without an interpreter."""

import os
import warnings

import jax
import jax.numpy as jnp
import pytest
from building import build, run_python, tenon

X = jnp.arange(6, dtype=jnp.float32)
FAILED = (jax.errors.JaxRuntimeError, ValueError)


def operators(library):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the functions that are left out
        return tenon.jax_ops(library)


@pytest.fixture(scope="module")
def library():
    return tenon.load(build("checked/checked.c"))


@pytest.fixture
def checked(library):
    before = tenon.check(True)
    yield operators(library)
    tenon.check(before)


def test_good_functions(checked, capfd):
    assert jax.jit(checked.fill)(X).tolist() == [1] * 6
    assert checked.sum(X) == 15
    assert "tenon" not in capfd.readouterr().err


@pytest.mark.parametrize("at, where", [(6, "past the end"), (-1, "before the start")])
def test_outside_of_a_result(checked, at, where):
    with pytest.raises(FAILED, match=rf"fill\(\): result 0: the function wrote {where} of its memory"):
        jax.block_until_ready(jax.jit(checked.fill, static_argnums=1)(X, at))


def test_a_changed_argument(checked):
    with pytest.raises(FAILED, match=r"fill_and_scribble\(\): argument 'x': byte .* is not 'rw'"):
        jax.block_until_ready(checked.fill_and_scribble(jnp.arange(6, dtype=jnp.float32), 2))


def test_not_written(checked, capfd):
    jax.block_until_ready(checked.forget(X, 0))
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tenon: RuntimeWarning: ")]
    assert [line.split(": ")[2:4] for line in lines] == [["forget()", f"result {i}"] for i in range(2)]


def test_off_again(library, checked, capfd):
    forget = jax.jit(checked.forget, static_argnums=1)
    tenon.check(False)
    jax.block_until_ready(forget(X, 0))
    assert "RuntimeWarning" not in capfd.readouterr().err
    tenon.check(True)
    jax.block_until_ready(forget(X, 0))  # the same program
    assert "RuntimeWarning: forget()" in capfd.readouterr().err


def test_the_environment(library):
    code = """
    import sys, warnings, jax, jax.numpy as jnp, tenon
    warnings.simplefilter("ignore")
    ops = tenon.jax_ops(tenon.load(sys.argv[1]))
    try:
        jax.block_until_ready(ops.fill(jnp.zeros(3, "float32"), 3))
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        print("past the end" in str(error))
    """
    environment = {**os.environ, "TENON_CHECK": "1"}
    environment["PYTHONPATH"] = os.path.dirname(tenon.__path__[0])
    assert run_python(code, library.__file__, env=environment) == "True\n"
