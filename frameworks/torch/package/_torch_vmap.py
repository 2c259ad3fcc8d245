"""torch.vmap of operators: one call for the whole batch if the signature has one, otherwise one call for each item."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from tenon._torch_shapes import torch_module

if TYPE_CHECKING:
    from tenon._signature_shapes import Tensor
    from tenon._torch_ops import _Operator


class Batch:
    """The batch of a signature: all results, and all arguments that are written, begin with `*b`, or all with `**b`. So do the
    arguments in `names`.

    The other arguments belong to every item of the batch, such as the weight of a layer."""

    def __init__(self, names: set[str], broadcast: bool) -> None:
        self.names, self.broadcast = names, broadcast


def find_batch(tensors: Mapping[str, Tensor], outputs: Sequence[Optional[Tensor]], written: Sequence[str]) -> Optional[Batch]:
    made = [*outputs, *(tensors[name] for name in written)]
    first = made[0].dims[0] if made and made[0] and made[0].dims else None
    if not first or not first.is_star or not first.name:
        return None

    def begins(tensor: Optional[Tensor]) -> bool:
        return bool(tensor and tensor.dims and tensor.dims[0].is_star and tensor.dims[0].name == first.name)

    # The items of a list may have batches of their own, and a number has no room for one.
    if not all(one and begins(one) and not one.each for one in made):
        return None
    names = {name for name, tensor in tensors.items() if begins(tensor)}
    others = [tensor for name, tensor in tensors.items() if name not in names]
    if not names or any(dim.name == first.name for tensor in others for dim in tensor.dims if dim.is_star):
        return None
    return Batch(names, first.kind == "batch")


def register_vmap(operator: _Operator, library: Any) -> None:
    """Register the rule. torch cannot have one for operators that write, or take a tensor by keyword only, and before 2.5 for
    none."""
    if not operator.tensors or not hasattr(torch_module().library, "register_vmap"):
        return
    why = operator.undifferentiable()

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{operator.name}(): torch.vmap cannot map an operator that {why}; call it for each item")

    if why:
        library.impl(operator.name, refuse, "FuncTorchBatched")
        return

    def rule(info: Any, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        given, dims = dict(zip(operator.positional, args)), dict(zip(operator.positional, in_dims))
        mapped = {name for name, dim in dims.items() if any(one is not None for one in _flat(dim))}
        if operator.batch and mapped <= operator.batch.names:
            made = operator.op(*_whole(operator, operator.batch, given, dims, info.batch_size), **kwargs)
            return made, (0,) * len(made) if isinstance(made, tuple) else 0
        return _each(operator, given, dims, info.batch_size, kwargs)

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        functorch = importlib.import_module("torch._functorch.autograd_function")
        interpreter = importlib.import_module("torch._functorch.pyfunctorch").retrieve_current_functorch_interpreter()
        return functorch.custom_function_call_vmap_helper(interpreter, rule, operator.op, *args, **kwargs)

    library.impl(operator.name, kernel, "FuncTorchBatched", with_keyset=True)


def _whole(operator: _Operator, batch: Batch, given: Mapping[str, Any], dims: Mapping[str, Any], size: int) -> Iterable[Any]:
    """The arguments of one call: the mapped dimension is the first of the batch."""
    tensors = {name: operator.tensors[name] for name in batch.names if given.get(name) is not None}
    mapped = {name: list(_items(given[name], dims[name])) for name in tensors}
    ranks = [x.dim() - (dim is not None) - len(tensors[name].dims) + 1 for name, items in mapped.items() for x, dim in items]
    rank = max(ranks, default=0)

    def whole(tensor: Tensor, value: Any, dim: Optional[int]) -> Any:
        own = value.dim() - (dim is not None) - len(tensor.dims) + 1
        if dim is None:
            return value if batch.broadcast else fit_layout(tensor, value.expand(size, *value.shape))
        if batch.broadcast:
            return value.movedim(dim, 0)[(slice(None), *(None,) * (rank - own))]
        return fit_layout(tensor, value.movedim(dim, 0))

    for name, value in given.items():
        if name not in tensors:
            yield value
            continue
        made = [whole(tensors[name], x, dim) for x, dim in mapped[name]]
        yield made if isinstance(value, (list, tuple)) else made[0]


def _each(operator: _Operator, given: Mapping[str, Any], dims: Mapping[str, Any], size: int, kwargs: Mapping[str, Any]) -> Any:
    """One call after the other."""
    torch = torch_module()

    def items(i: int) -> Iterable[Any]:
        for name, value in given.items():
            tensor, dim = operator.tensors.get(name), dims[name]
            if tensor is None or value is None:
                yield value
            else:
                made = [fit_layout(tensor, x if d is None else x.select(d, i)) for x, d in _items(value, dim)]
                yield made if isinstance(value, (list, tuple)) else made[0]

    if size == 0:
        raise ValueError(f"{operator.name}(): torch.vmap over 0 items: only a signature whose results begin with *b allows that")
    made = [operator.op(*items(i), **kwargs) for i in range(size)]
    if not isinstance(made[0], (list, tuple)):
        return torch.stack(made), 0
    if len(operator.results) == 1:  # a list
        return [torch.stack(same) for same in zip(*made)], [0] * len(made[0])
    stacked = [
        [torch.stack(same) for same in zip(*result)] if isinstance(result[0], (list, tuple)) else torch.stack(result)
        for result in zip(*made)
    ]
    return tuple(stacked), tuple([0] * len(one) if isinstance(one, list) else 0 for one in stacked)


def fit_layout(tensor: Tensor, value: Any) -> Any:
    """The tensor itself, or a copy if the signature does not accept its strides."""
    if "c" in tensor.attributes or "dense" in tensor.attributes:
        return value.contiguous()
    if "f" in tensor.attributes and value.dim() > 1:
        back = tuple(reversed(range(value.dim())))
        return value.permute(back).contiguous().permute(back)
    return value


def _items(value: Any, dim: Any) -> Iterable[tuple[Any, Optional[int]]]:
    """The tensors of an argument, itself or the items of a list, each with its mapped dimension or None."""
    if not isinstance(value, (list, tuple)):
        return [(value, dim)]
    return zip(value, dim if isinstance(dim, (list, tuple)) else [dim] * len(value))


def _flat(dim: Any) -> Iterable[Any]:
    return dim if isinstance(dim, (list, tuple)) else (dim,)
