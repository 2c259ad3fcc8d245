"""DTensor: how an operator is sharded, which its signature says.

The dimensions of a batch (`*b`, `**b`) may be sharded, because the function treats its items one by one. All other dimensions are
whole on each device. `sharding` is the argument of torch_ops(): "raise", or "replicate", which lets DTensor gather."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
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
            # DTensor has no rules for results that are lists.
            if operator.tensors and not any(output and output.each for output in operator.outputs):
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
        given = list(_arguments(operator, {**dict(zip(operator.positional, args)), **kwargs}))
        _check_version(operator, given)
        batch = sharding.batch_of(operator)
        leading = batch.names if batch else set()
        ranks = [len(one.spec.shape) - len(one.tensor.dims) + 1 if one.name in leading else 0 for one in given]
        rank = max(ranks, default=0)

        def placed(one: _Argument, own_rank: int, dim: int) -> Any:
            own = dim - rank + own_rank  # `**b` is aligned at its end, and a dimension of size 1 is repeated
            whole = own < 0 or one.name not in leading or (one.spec.shape[own] == 1 and one.tensor.has_batch)
            return Replicate() if whole else Shard(own)

        everywhere = [Replicate()] * len(operator.results)
        allowed: Sequence[Any] = [(everywhere, [Replicate()] * len(given))]
        for dim in range(rank):
            results = [Partial() if batch and i in batch.sums else Shard(dim) for i in range(len(operator.results))]
            allowed = [*allowed, (results, [placed(one, own, dim) for one, own in zip(given, ranks)])]
        allowed = _keep_written(operator, given, allowed)
        if sharding.mode == "raise":
            _check(operator, given, [inputs for _, inputs in allowed])
        return allowed

    return rule


class _Argument(NamedTuple):
    """A tensor of a call, or an item of a list."""

    name: str  # of the parameter
    label: str
    tensor: Any  # of the signature
    spec: Any  # of DTensor


def _arguments(operator: _Operator, values: Mapping[str, Any]) -> Iterator[_Argument]:
    for name, tensor in operator.tensors.items():
        value = values.get(name)
        if hasattr(value, "placements"):
            yield _Argument(name, name, tensor, value)
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                yield _Argument(name, f"{name}[{i}]", tensor, item)


def _check_version(operator: _Operator, given: Sequence[_Argument]) -> None:
    """Refuse what this version of DTensor cannot do, and fails at without a reason."""
    version = torch_module().__version__
    listed = next((one for one in given if one.name in operator.lists), None)
    written = next((one for one in given if one.name in operator.written and not operator.results), None)
    found = [(listed, "in a list", (2, 10)), (written, "written by an operator without results", (2, 13))]
    for one, what, oldest in found:
        if one and tuple(map(int, version.split(".")[:2])) < oldest:
            raise RuntimeError(
                f"{operator.name}(): argument '{one.label}' is a DTensor that is {what}, which needs torch {oldest[0]}.{oldest[1]}, "
                f"but this is torch {version}; pass {one.label}.to_local()"
            )


def _keep_written(operator: _Operator, given: Sequence[_Argument], allowed: Sequence[Any]) -> Sequence[Any]:
    """The rules that leave each argument that is written where it is: DTensor would let the function write to a copy."""
    written = [(i, one) for i, one in enumerate(given) if one.name in operator.written]
    for i, one in written:
        first, *others = one.spec.placements
        if any(other != first for other in others):  # DTensor would combine the rules of both
            raise _refuse_copy(operator, one, "in different ways over the axes of its mesh")
        allowed = [rule for rule in allowed if rule[1][i] == first]
        if not allowed:
            raise _refuse_copy(operator, one, f"as {first}, which does not fit the signature or another written argument")
    return allowed


def _check(operator: _Operator, given: Sequence[_Argument], allowed: Sequence[Sequence[Any]]) -> None:
    """Raise ValueError if DTensor would have to communicate. Cutting what is whole on each device needs none."""
    specs = [one.spec for one in given]
    kept = next((one.label for one in given if one.name in operator.written), "")
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
        for at, (argument, placement) in enumerate(zip(given, found)):
            if any(placement == inputs[at] for inputs in able) and not placement.is_replicate():
                if first:
                    raise _refusal(operator, argument.label, f"sharded in another way than '{first}'", size)
                first = argument.label
            elif not placement.is_replicate():
                few = any(placement == inputs[at] for inputs in allowed)
                how = _how(placement, few) if few or not kept else f"placed in another way than '{kept}', which is written,"
                raise _refusal(operator, argument.label, how, size)


def _refuse_copy(operator: _Operator, argument: _Argument, how: str) -> ValueError:
    return ValueError(
        f"{operator.name}(): argument '{argument.label}' is a DTensor that is written and placed {how}, so that the function would "
        "write to a copy; redistribute it before the call"
    )


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
