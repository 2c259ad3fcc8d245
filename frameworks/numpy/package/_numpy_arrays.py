"""NumPy's arrays for the rest of the package (see tenon._frameworks)."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

from tenon._reduce import Reduced, reduce_array, reduce_as_before


def reducer() -> tuple[type, Callable[..., Reduced]]:
    return sys.modules["numpy"].ndarray, _reduce


def _reduce(own: Callable[[Any], Reduced], array: Any) -> Reduced:
    if own is reduce_as_before and array.dtype.hasobject:
        reduced: Reduced = array.__reduce__()  # the same for every protocol; the array may contain itself
        return reduced
    return reduce_array(own, array, "numpy")


def dtype_name(dtype: Any) -> Optional[str]:
    numpy: Any = sys.modules["numpy"]
    if isinstance(dtype, type):
        dtype = numpy.dtype(dtype) if issubclass(dtype, numpy.generic) else getattr(dtype, "dtype", dtype)  # jnp.float32
    if not isinstance(dtype, numpy.dtype):
        return None
    if not dtype.isnative:
        raise ValueError(f"{dtype!r} does not have the byte order of this machine")
    return str(dtype.name)
