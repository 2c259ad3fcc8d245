"""What the tests of tenon.jax_ops share: JAX, the package, the test library and its operators."""

import pathlib
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build, run_python, tenon

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "jax_ops.c"
FILE = build(SOURCE)
BACKWARD = {"affine": "affine_grad", "square": "square_grad", "square_grad": "square_grad_grad", "dot": "dot_grad"}
# A failure of the function itself; older versions print another name, and a repeated call may raise the latter.
RunTimeError = (jax.errors.JaxRuntimeError, ValueError)

kernels = tenon.load(FILE)


def quiet_ops(loaded, **options):
    """jax_ops() without the warnings about functions that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tenon.jax_ops(loaded, **options)


ops = quiet_ops(kernels, backward=BACKWARD)


def x64():
    """A context with 64-bit numbers."""
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def f32(*shape):
    return jnp.arange(np.prod(shape, dtype=int), dtype=jnp.float32).reshape(shape)


def same_message(exception, eager, *calls):
    """All of them raise what `eager` raises."""
    with pytest.raises(exception) as expected:
        eager()
    for call in calls:
        with pytest.raises(type(expected.value)) as caught:
            call()
        assert str(caught.value) == str(expected.value)


def own_process(code, *arguments, **options):
    """Run code in a process of its own, where `ops` are those of the test library."""
    before = f"""
        import warnings, sys
        import jax, jax.numpy as jnp, numpy as np
        import tenon
        warnings.simplefilter("ignore", UserWarning)
        kernels = tenon.load({str(FILE)!r})
    """
    import textwrap

    return run_python(textwrap.dedent(before) + textwrap.dedent(code), *arguments, **options)
