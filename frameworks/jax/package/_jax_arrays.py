"""JAX's arrays for the rest of the package (see tenon._frameworks)."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

from tenon._reduce import Reduced, reduce_array

_CANNOT_RECEIVE = {"float4_e2m1fn", "int4", "uint4", "int2", "uint2"}  # less than a byte for each element


def reducer() -> Optional[tuple[type, Callable[..., Reduced]]]:
    found = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
    return found and (found, _reduce)


def _reduce(own: Callable[[Any], Reduced], array: Any) -> Reduced:
    is_plain = not array.is_deleted() and not array.weak_type and {d.platform for d in array.devices()} == {"cpu"}
    is_plain = is_plain and len(array.devices()) == 1 and array.dtype.name not in _CANNOT_RECEIVE
    return reduce_array(own, array, "jax") if is_plain else own(array)


def operators() -> str:
    from tenon import _jax_ops  # which a pickle does not need
    from tenon._jax_trace import jax_module

    platforms = ["cpu", "cuda"] if jax_module().default_backend() == "gpu" else ["cpu"]
    for platform in platforms:
        _jax_ops._register_target(_jax_ops.TARGET, platform)
    return "on (XLA's FFI {}.{}, {})".format(*_jax_ops._api_version(), " and ".join(platforms))
