"""The contents of a loaded library, and which of its functions can be operators of a framework."""

from __future__ import annotations

from collections.abc import Mapping
from types import BuiltinFunctionType, ModuleType
from typing import Any, Callable, Protocol, TypeVar, cast


class Refused(Exception):
    """Why a function cannot be an operator."""


class _Operator(Protocol):
    def set_backward(self, backward: Any, others: Mapping[str, Any]) -> None: ...


_AnyOperator = TypeVar("_AnyOperator", bound=_Operator)


def is_function(value: object) -> bool:
    return isinstance(value, BuiltinFunctionType) and hasattr(value.__self__, "signature")


def functions_of(library: ModuleType) -> list[BuiltinFunctionType]:
    return [value for value in vars(library).values() if is_function(value)]


def is_class(value: object) -> bool:
    """Whether it is a class of a library. Named results are types too, but cannot be closed."""
    return isinstance(value, type) and hasattr(value, "closed") and not issubclass(value, tuple)


def make_operators(
    caller: str,
    library: ModuleType,
    make: Callable[[BuiltinFunctionType], _AnyOperator],
    backward: Mapping[str, Any],
    strict: bool,
    forward: Mapping[str, Any] = {},
) -> tuple[dict[str, _AnyOperator], dict[str, str]]:
    """The operators by name, each with its backward and forward; and why the other functions are left out. `make` may raise Refused."""
    found = functions_of(library)
    operators: dict[str, _AnyOperator] = {}
    left_out: dict[str, str] = {}
    for function in found:
        try:
            if len(cast(Any, function.__self__).overloads) > 1:
                raise Refused("it is overloaded, and an operator has one signature")
            operators[function.__name__] = make(function)
        except Refused as reason:
            left_out[function.__name__] = str(reason)
    kinds = filter(is_class, vars(library).values())
    left_out.update({kind.__name__: "it makes an object, which operators do not return" for kind in kinds})
    for name, why in left_out.items():
        if strict or name in backward or name in forward:
            raise ValueError(f"{caller}: {name}() cannot be an operator: {why}")
    given = [("backward", *pair) for pair in backward.items()] + [("forward", *pair) for pair in forward.items()]
    for kind, name, wanted in given:
        begin = f"{caller}: argument '{kind}':"
        if name not in operators:
            raise ValueError(f"{begin} the library has no function {name}()")
        wanted = next((function.__name__ for function in found if function is wanted), wanted)
        if isinstance(wanted, str) and wanted in left_out:
            raise ValueError(f"{begin} {name}(): {wanted}() cannot be an operator: {left_out[wanted]}")
        if kind == "backward":
            operators[name].set_backward(wanted, operators)
        else:
            cast(Any, operators[name]).set_forward(wanted, operators)
    return operators, left_out
