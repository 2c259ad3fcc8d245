"""DTensor: how an operator is sharded, which its signature says.

The dimensions of a batch (`*b`, `**b`) may be sharded, because the function treats its items one by one. All other dimensions are
whole on each device. `sharding` is the argument of torch_ops(): "raise", or "replicate", which lets DTensor gather."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from tenon._signature_shapes import has_gradients
from tenon._torch_shapes import torch_module

if TYPE_CHECKING:
    from tenon._torch_ops import _Operator

_MODULE = "torch.distributed.tensor"
MODES = ("raise", "replicate")


class _Batch(NamedTuple):
    names: set[str]  # the arguments that begin with the batch
    sums: set[int]  # the results that are sums over it


class Sharding:
    """The rules of the operators of one library. They are registered when torch.distributed.tensor has been imported, which
    takes seconds and which most programs never do."""

    def __init__(self, operators: Mapping[str, _Operator], mode: str) -> None:
        self.operators, self.mode, self.is_registered = operators, mode, False

    def update(self) -> bool:
        """Register the rules if DTensor is there by now. True if this call did it."""
        if self.is_registered or _MODULE not in sys.modules or not hasattr(sys.modules[_MODULE], "DTensor"):
            return False
        self.is_registered = True
        register_sharding: Any = getattr(importlib.import_module(f"{_MODULE}.experimental"), "register_sharding", None)
        for operator in self.operators.values() if register_sharding else ():  # without it DTensor says that it has no rule
            if operator.tensors and not operator.lists and not operator.written:
                register_sharding(operator.op)(_make_rule(operator, self))
        return True

    def close(self) -> None:
        if self.is_registered:
            propagator = sys.modules[_MODULE].DTensor._op_dispatcher.sharding_propagator
            for operator in self.operators.values():
                propagator.op_strategy_funcs.pop(operator.op, None)
                propagator.op_to_schema_info.pop(operator.op, None)

    def batch_of(self, operator: _Operator, seen: tuple[_Operator, ...] = ()) -> Optional[_Batch]:
        """The batch of a function, or of the backward of one that has a batch.

        A backward returns sums over the batch, for the arguments that belong to all of its items."""
        if operator.batch:
            return _Batch(operator.batch.names, set())
        for other in self.operators.values():
            known = self.batch_of(other, (*seen, operator)) if other.backward_name == operator.name and other not in seen else None
            if not known:
                continue
            followed = [name for name, tensor in other.tensors.items() if has_gradients(tensor.choices)]
            names = {name for name, tensor in operator.tensors.items() if _begins(tensor)}
            sums = {i for i, output in enumerate(operator.outputs) if not _begins(output)}
            if names and sums == {i for i, name in enumerate(followed) if name not in known.names}:
                return _Batch(names, sums)
        return None


def _begins(tensor: Any) -> bool:
    return bool(tensor and tensor.dims and tensor.dims[0].is_star)


def _make_rule(operator: _Operator, sharding: Sharding) -> Any:
    """The function that DTensor asks: which placements of the results and the arguments fit together, for one axis of a mesh."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        dtensor = sys.modules[_MODULE]
        Partial, Replicate, Shard = dtensor.Partial, dtensor.Replicate, dtensor.Shard
        given = {name: spec for name, spec in zip(operator.positional, args) if hasattr(spec, "placements")}
        batch = sharding.batch_of(operator)
        leading = batch.names if batch else set()
        ranks = {name: len(spec.shape) - len(operator.tensors[name].dims) + 1 for name, spec in given.items() if name in leading}
        rank = max(ranks.values(), default=0)

        def placed(name: str, dim: int) -> Any:
            own = dim - rank + ranks.get(name, 0)  # `**b` is aligned at its end, and a dimension of size 1 is repeated
            whole = name not in ranks or own < 0 or (given[name].shape[own] == 1 and operator.tensors[name].has_batch)
            return Replicate() if whole else Shard(own)

        everywhere = [Replicate()] * len(operator.results)
        allowed = [(everywhere, [Replicate()] * len(given))]
        for dim in range(rank):
            results = [Partial() if batch and i in batch.sums else Shard(dim) for i in range(len(operator.results))]
            allowed.append((results, [placed(name, dim) for name in given]))
        if sharding.mode == "raise":
            _check(operator, given, [inputs for _, inputs in allowed])
        return allowed

    return rule


def _check(operator: _Operator, given: Mapping[str, Any], allowed: Sequence[Sequence[Any]]) -> None:
    """Raise ValueError if DTensor would have to communicate. Cutting what is whole on each device needs none."""
    specs = list(given.values())
    for axis in range(specs[0].mesh.ndim if specs else 0):
        size = specs[0].mesh.size(axis)
        found = [spec.placements[axis] for spec in specs]
        # DTensor does not use a rule that leaves a process without items.
        able = [
            inputs
            for inputs in allowed
            if not any(one.is_shard() and spec.shape[one.dim] < size for one, spec in zip(inputs, specs))
        ]
        if any(all(one == wanted or one.is_replicate() for one, wanted in zip(found, inputs)) for inputs in able):
            continue
        first = ""
        for at, (name, placement) in enumerate(zip(given, found)):
            if any(placement == inputs[at] for inputs in able) and not placement.is_replicate():
                if first:
                    raise _refusal(operator, name, f"sharded in another way than '{first}'", size)
                first = name
            elif not placement.is_replicate():
                few = any(placement == inputs[at] for inputs in allowed)
                raise _refusal(operator, name, _how(placement, few), size)


def _refusal(operator: _Operator, name: str, how: str, size: int) -> ValueError:
    return ValueError(
        f"{operator.name}(): argument '{name}' is a DTensor that is {how} over {size} processes, and a call would gather it; pass "
        f"{name}.redistribute(placements=[Replicate()]), or sharding='replicate' to tenon.torch_ops()"
    )


def _how(placement: Any, few: bool) -> str:
    if not placement.is_shard():
        return f"placed as {placement}"
    why = "has fewer items than there are processes" if few else "does not belong to the batch"
    return f"sharded in dimension {placement.dim}, which {why},"
