"""Operators under torch.autocast: which arguments are converted, and what a refusal says."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

from tenon._signature_shapes import is_among, short_name
from tenon._torch_shapes import torch_dtype, torch_module

if TYPE_CHECKING:
    from tenon._torch_ops import _Operator

_EVERYWHERE = "CompositeExplicitAutograd"
_DTYPES = ("f16", "bf16", "f32")


def check_autocast(autocast: Any) -> None:
    begin = "tenon.torch_ops(): argument 'autocast':"
    if not isinstance(autocast, (str, type(None))):
        raise TypeError(f"{begin} expected str, got {type(autocast).__name__}")
    if autocast not in (None, "signature", *_DTYPES):
        raise ValueError(f"{begin} expected 'f32', 'bf16', 'f16' or 'signature', got {autocast!r}")


def register_autocast(operator: _Operator, library: Any, autocast: Optional[str], own_error: Callable[..., Exception]) -> None:
    """Convert the arguments under autocast. Without `autocast` they stay as they are, and a refusal names it."""
    torch = torch_module()
    for device in ("CPU", "CUDA"):
        if not operator.keys & {device, _EVERYWHERE} or not operator.tensors:
            continue
        key = f"Autocast{device}"
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

        def kernel(keyset: Any, *args: Any, keys: Any = keys, device: str = device.lower(), **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(keys):
                if autocast:
                    given = dict(zip(operator.positional, args))
                    cast = _converted(operator, autocast, {**given, **kwargs}, device)
                    args = tuple(cast.get(name, value) for name, value in given.items())
                    return operator.op(*args, **{name: cast.get(name, value) for name, value in kwargs.items()})
                try:
                    return operator.op(*args, **kwargs)
                except (RuntimeError, TypeError) as error:
                    if isinstance(error, RuntimeError):
                        error = own_error(error, operator.function, args, kwargs)  # type: ignore[assignment]
                    raise _advised(operator, error, device) from None

        library.impl(operator.name, kernel, key, with_keyset=True)


def _converted(operator: _Operator, autocast: str, given: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The arguments that have another dtype under autocast, by name. As in torch, f64 stays, and so does what is written."""
    torch = torch_module()

    def eligible(name: str, value: Any) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and name not in operator.written
            and value.is_floating_point()
            and value.dtype != torch.float64
            and value.device.type == device
        )

    present = {name: given[name] for name in operator.tensors if given.get(name) is not None}
    lists = {name: value if isinstance(value, (list, tuple)) else [value] for name, value in present.items()}
    found = {name: values for name, values in lists.items() if values and all(eligible(name, one) for one in values)}
    groups: dict[tuple[str, str], list[Any]] = {}  # the dtypes of arguments that have a dtype variable in common
    for name, values in found.items():
        groups.setdefault(_group(operator, name), []).extend(one.dtype for one in values)
    made = {}
    for name, values in found.items():
        common = functools.reduce(torch.promote_types, groups[_group(operator, name)])
        wanted = _wanted(autocast, operator.tensors[name].choices, common)
        if wanted is not None:
            cast = [one.to(wanted) for one in values]
            made[name] = cast if isinstance(given[name], (list, tuple)) else cast[0]
    return made


def _group(operator: _Operator, name: str) -> tuple[str, str]:
    variable = operator.tensors[name].variable
    return ("variable", variable) if variable else ("argument", name)


def _wanted(autocast: str, choices: Sequence[str], dtype: Any) -> Any:
    """The dtype that a parameter with these choices gets instead of `dtype`; None if it has no such dtype."""
    if autocast != "signature":
        return torch_dtype(autocast) if is_among(autocast, choices) else None
    if is_among(short_name(dtype), choices):
        return dtype
    return next((torch_dtype(one) for one in ("f32", "bf16", "f16", "f64") if is_among(one, choices)), None)


def _advised(operator: _Operator, error: Exception, device: str) -> Exception:
    """The error, with the option that helps if the tensor has the dtype that autocast makes."""
    dtype = torch_module().get_autocast_dtype(device)
    if not isinstance(error, TypeError) or f"dtype is {short_name(dtype)}," not in str(error) or "pass autocast=" in str(error):
        return error  # inside torch.vmap, the operator of a level has advised already
    choices = {one for tensor in operator.tensors.values() for one in tensor.choices}
    value = next((one for one in ("f32", "bf16", "f16") if choices == {one}), "signature")
    name = str(dtype).rpartition(".")[2]
    return TypeError(f"{error}, or pass autocast='{value}' to tenon.torch_ops(): torch.autocast makes tensors {name}")
