"""torch's tensors for the rest of the package (see tenon._frameworks)."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

from tenon._reduce import Reduced, reduce_array
from tenon._torch_native import torch_info


def reducer() -> tuple[type, Callable[..., Reduced]]:
    return sys.modules["torch"].Tensor, _reduce


def _reduce(own: Callable[[Any], Reduced], tensor: Any) -> Reduced:
    is_plain = tensor.device.type == "cpu" and tensor.is_leaf and not tensor._backward_hooks and not tensor.__dict__
    return reduce_array(own, tensor, "torch", tensor.requires_grad) if is_plain else own(tensor)


def dtype_name(dtype: Any) -> Optional[str]:
    return str(dtype).partition(".")[2] if isinstance(dtype, sys.modules["torch"].dtype) else None


def why_no_struct() -> str:
    return torch_info()["tensors_why"] or "this version of torch does not show its struct"


def operators() -> str:
    info = torch_info()
    if info["tier"] == "none":
        return f"off: this version of torch lacks {info['missing'] or 'its C functions'}"
    direct = "direct calls are on" if info["direct"] == "on" else f"direct calls are off: {info['direct_why']}"
    return f"on ({info['tier']} ABI); {direct}"
