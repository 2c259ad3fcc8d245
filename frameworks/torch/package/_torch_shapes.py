"""Tensors of a signature for torch: its dtypes, and results without any data, whose sizes may be torch's symbols."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Optional

from tenon._signature_shapes import Bindings, Tensor, long_name


def torch_module() -> Any:
    try:
        return importlib.import_module("torch")  # not before the first call: whoever has no torch can use the rest
    except ModuleNotFoundError as error:
        raise ImportError("tenon.torch_ops() needs torch, which is not installed") from error


def torch_dtype(short: str) -> Any:
    """torch's dtype of such a name, or None."""
    long = long_name(short)
    return getattr(torch_module(), long, None) if long else None


class TorchBindings(Bindings):
    """The bindings of one call with torch's tensors."""

    def check_equal(self, one: Any, other: Any, message: Callable[[], str]) -> None:
        torch_module()._check_value(one == other, message)  # torch keeps a condition on its symbols as a guard

    def check_natural(self, size: Any, message: Callable[[], str]) -> None:
        torch_module()._check_value(size >= 0, message)

    def type_name(self, value: Any) -> str:
        return "torch.Tensor"

    def cast_advice(self, argument: str, dtype: str, value: Any) -> str:
        found = torch_dtype(dtype)
        return f"; try {argument}.to({found})" if found else ""

    def unknown_size(self) -> Any:
        return torch_module().library.get_ctx().new_dynamic_size()

    def empty(self, result: str, tensor: Tensor, device: Any, source: Optional[Tensor] = None, item: Any = ()) -> Any:
        """The result, without its values; or one of a list, which follows an item of another list."""
        short, shape = self.result(result, tensor, source, item)
        dtype = torch_dtype(short)
        self.check_bytes(result, short, shape, dtype.itemsize)
        return torch_module().empty(shape, dtype=dtype, device=device)
