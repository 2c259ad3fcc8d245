"""Operators under torch.func's transforms and in forward mode.

A level of torch.func (grad, vjp, jvp) calls the operator's Autograd kernel with tensors of its own. The kernel records the call on
that level and dispatches to the next one, so that transforms can be nested in any order."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

from tenon._signature_shapes import has_gradients
from tenon._torch_shapes import torch_module
from tenon._torch_vmap import fit_layout

if TYPE_CHECKING:
    from tenon._torch_ops import _Operator


class _Call:
    """One call on one level. An autograd function takes and returns tensors only, so lists are taken apart and made again."""

    def __init__(self, keyset: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], grad_enabled: bool) -> None:
        self.keyset, self.args, self.kwargs, self.grad_enabled = keyset, args, kwargs, grad_enabled
        self.output: Any = None


def make_transformed(operator: _Operator) -> Callable[..., Any]:
    """Return the Autograd kernel for calls that torch.func or forward mode has to see."""
    torch, op, name = torch_module(), operator.op, operator.name
    after, in_functorch = torch._C._after_autograd_keyset, torch._C._are_functorch_transforms_active

    def forward(ctx: Any, call: _Call, *tensors: Any) -> Any:
        args = tuple(_with_tensors(call.args, tensors))
        if in_functorch():
            # torch switches both modes off in here, and the next level may need them.
            with torch._C._AutoDispatchBelowAutograd(), torch.set_grad_enabled(call.grad_enabled), _forward_mode():
                call.output = op.redispatch(call.keyset & after, *args, **call.kwargs)
        else:  # the function itself comes next, and refuses tangents
            primals = tuple(_with_tensors(call.args, [_unpack(tensor).primal for tensor in tensors]))
            with torch._C._AutoDispatchBelowAutograd():
                call.output = op.redispatch(call.keyset & after, *primals, **call.kwargs)
        if operator.setup:
            given = operator.by_name(args, call.kwargs)
            keywords = {key: given.pop(key) for key in list(given) if key not in operator.positional}
            more = {"keyword_only_inputs": keywords} if keywords else {}
            operator.setup(ctx=ctx, inputs=tuple(given.values()), output=call.output, **more)
        if operator.forward:
            ctx.save_for_forward(*tensors)
        ctx.call = call
        return tuple(_tensors(_results(call.output)))

    def backward(ctx: Any, *grads: Any) -> Any:
        call, needs = ctx.call, ctx.needs_input_grad
        ctx.needs_input_grad = tuple(_with_tensors(call.args, needs[1:], False))
        try:
            made = operator.backward(ctx, *_with_tensors(_results(call.output), grads))
        finally:
            ctx.needs_input_grad = needs
        gradients = made if isinstance(made, tuple) else (made,)
        if len(gradients) not in (len(call.args), len(operator.positional)):
            raise RuntimeError(
                f"{name}(): its backward returned an incorrect number of gradients: expected {len(operator.positional)}, one for "
                f"each positional argument, got {len(gradients)}"
            )
        return (None, *_of_tensors(call.args, gradients))

    def jvp(ctx: Any, *tangents: Any) -> Any:
        call = ctx.call
        along = dict(zip(operator.positional, _with_tensors(call.args, tangents[1:], None)))
        with _forward_mode():
            primals = [_unpack(tensor).primal for tensor in ctx.saved_tensors]  # these have no tangent on this level
            made = operator.forward(operator.by_name(tuple(_with_tensors(call.args, primals)), call.kwargs), along)
        return tuple(_of_tensors(_results(call.output), made))

    parts = {"forward": staticmethod(forward), "backward": staticmethod(backward), "jvp": staticmethod(jvp)}
    function: Any = type(name, (torch.autograd.function._SingleLevelFunction,), parts)

    def transformed(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        call = _Call(keyset, args, kwargs, torch.is_grad_enabled())
        with importlib.import_module("torch._functorch.utils").enable_single_level_autograd_function():
            made = function.apply(call, *_tensors(args))
        results = tuple(_with_tensors(_results(call.output), made))
        return results if isinstance(call.output, tuple) else results[0]

    return transformed


def _forward_mode() -> Any:
    return torch_module().autograd.forward_ad._set_fwd_grad_enabled(True)


def has_tangent(tensors: Iterable[Any]) -> bool:
    """Whether one of the tensors has a tangent, on the level that is being differentiated."""
    return torch_module()._C._is_fwd_grad_enabled() and any(_is_tensor(one) and _unpack(one).tangent is not None for one in tensors)


def _unpack(tensor: Any) -> Any:
    # torch has only one level of its own, and while it compiles a graph its Python variable does not have it.
    return torch_module().autograd.forward_ad.unpack_dual(tensor, level=0)


# ------------------------------------------------------------------------------------------------------------- tangents


def library_forward(operator: _Operator, name: str, others: Mapping[str, _Operator]) -> Callable[..., Any]:
    """Return a function (arguments, tangents), both by name, that calls another function of the library.

    That function takes the arguments, then the tangents of those that are tensors of floats, and returns the tangents of the
    results that are. docs/gradients.md describes it, for each framework."""
    begin = f"tenon.torch_ops(): argument 'forward': {operator.name}(): "
    other = others.get(name)
    if not other:
        raise ValueError(f"{begin}the library has no operator {name}()")
    followed = [argument for argument, tensor in operator.tensors.items() if has_gradients(tensor.choices)]
    kinds = [p["kind"] for p in operator.parameters]
    kinds += [p["kind"] for p in operator.parameters if p["name"] in followed]
    if [p["kind"] for p in other.parameters] != kinds:
        raise ValueError(
            f"{begin}{name}() must take its arguments, then the tangents of {', '.join(followed)}: {', '.join(kinds)}"
        )
    results = [
        i
        for i, (r, output) in enumerate(zip(operator.results, operator.outputs))
        if (has_gradients(output.choices) if output else r["kind"] == "float")
    ]
    if len(other.results) != len(results):
        raise ValueError(f"{begin}{name}() must return the tangents of its results that are floats, {len(results)} in all")
    names = [p["name"] or "" for p in operator.parameters]
    taken = [p["name"] or "" for p in other.parameters]
    torch = torch_module()

    def forward(given: Mapping[str, Any], tangents: Mapping[str, Any]) -> tuple[Any, ...]:
        values = [given[one] for one in names]
        for argument in followed:
            tangent = _tangent(given[argument], tangents.get(argument))
            values.append(tangent)
        by_name = dict(zip(taken, values))
        for argument in taken[len(names) :]:
            by_name[argument] = _laid_out(other.tensors[argument], by_name[argument])
        positional = [by_name.pop(one) for one in taken if one in other.positional]
        made = other.call(*positional, **by_name)
        found = dict(zip(results, made if len(results) > 1 or isinstance(made, tuple) else (made,)))
        return tuple(found.get(i) for i in range(len(operator.results)))

    def _tangent(value: Any, tangent: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [_tangent(x, t) for x, t in zip(value, tangent or [None] * len(value))]
        return tangent if tangent is not None or value is None else torch.zeros_like(value)

    return forward


def _laid_out(tensor: Any, value: Any) -> Any:
    """Tangents may have any strides, and only this code can copy them."""
    if value is None:
        return None
    return [fit_layout(tensor, one) for one in value] if isinstance(value, (list, tuple)) else fit_layout(tensor, value)


# ------------------------------------------------------------------------------------------------------ tensors in lists


def _results(output: Any) -> tuple[Any, ...]:
    return output if isinstance(output, tuple) else (output,)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch_module().Tensor)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(map(_is_tensor, value))


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if _is_list(value):
            yield from value
        elif _is_tensor(value):
            yield value


def _with_tensors(values: Iterable[Any], flat: Sequence[Any], *other: Any) -> Iterator[Any]:
    """The values with other things in the place of their tensors; and `other`, if it is given, instead of what is not a tensor."""
    left = iter(flat)
    for value in values:
        if _is_list(value):
            yield [next(left) for _ in value]
        elif _is_tensor(value):
            yield next(left)
        else:
            yield other[0] if other else value


def _of_tensors(values: Iterable[Any], parts: Iterable[Any]) -> Iterator[Any]:
    """Of one part for each value, those of the tensors."""
    for value, part in zip(values, parts):
        if _is_list(value):
            yield from part if part is not None else [None] * len(value)
        elif _is_tensor(value):
            yield part
