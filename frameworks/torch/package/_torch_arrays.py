"""torch's tensors in pickles, and its dtypes by name."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

from tenon._reduce import Reduced, reduce_array


def reducer() -> tuple[type, Callable[..., Reduced]]:
    return sys.modules["torch"].Tensor, _reduce


def _reduce(own: Callable[[Any], Reduced], tensor: Any) -> Reduced:
    is_plain = tensor.device.type == "cpu" and tensor.is_leaf and not tensor._backward_hooks and not tensor.__dict__
    return reduce_array(own, tensor, "torch", tensor.requires_grad) if is_plain else own(tensor)


def dtype_name(dtype: Any) -> Optional[str]:
    return str(dtype).partition(".")[2] if isinstance(dtype, sys.modules["torch"].dtype) else None
