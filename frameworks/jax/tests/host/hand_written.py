"""Calls of the target tenon1 that are written by hand, as frameworks/jax/host/internal.h describes them."""

import importlib

import jax
import numpy as np
import pytest
from building import build, tenon

from tenon import _jax_native

# Before JAX 0.5 it was there.
ffi = importlib.import_module("jax.ffi" if jax.__version_info__ >= (0, 5) else "jax.extend.ffi")
JaxRuntimeError = jax.errors.JaxRuntimeError
host = tenon.load(build(__file__.replace("hand_written.py", "host_kernels.c")))


def register_target():
    ffi.register_ffi_target("tenon1", _jax_native.handler("cpu"), platform="cpu", api_version=1)


register_target()
HASH = _jax_native.register(host.saxpy.__self__, "host.saxpy")


def struct(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def call(function, letters, results, *operands, fn=None, hash=None, values=None, **options):
    """Call a function of the test library. `values`: the attributes of the parameters with a letter v, by index."""
    name = fn or f"host.{function}"
    if fn is None:
        _jax_native.register(getattr(host, function).__self__, name)
    attributes = {f"v{index:02}": value for index, value in (values or {}).items()}
    return ffi.ffi_call("tenon1", results, **options)(
        *operands, args=letters, fn=name, hash=hash or HASH, **attributes)


def refused(message, *args, **kwargs):
    """The call fails with this message, and the process goes on."""
    with pytest.raises((JaxRuntimeError, ValueError)) as caught:
        jax.block_until_ready(call(*args, **kwargs))
    assert message in str(caught.value)
    x = np.arange(3, dtype=np.float32)
    assert call("saxpy", "vtt", struct(3), x, x, values={0: np.float64(2)}).tolist() == [0, 3, 6]
    return str(caught.value)
