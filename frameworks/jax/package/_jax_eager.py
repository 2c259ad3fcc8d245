"""Calls of `kernels.f` on JAX arrays, outside of jit: each runs a program that JAX has compiled, so that the result is
JAX's own memory, on a GPU too.

frameworks/jax/array/eager.c calls this module. Unusual calls are left to the other way, by DLPack, which works for all arrays
and has its own errors."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Sequence
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Optional, cast

from tenon import _jax_native, _native
from tenon._jax_ops import Operator, _register_target
from tenon._jax_trace import MISSING, is_wide, jax_module, x64_enabled
from tenon._library import Refused
from tenon._signature_shapes import short_name

if TYPE_CHECKING:
    from tenon._native import Function

_PROGRAMS = 64  # that one function keeps: one for each tuple of static values
_lock = threading.Lock()
_made: dict[tuple[str, str], Eager] = {}  # by name and hash: the functions of a library that is loaded again share one


class Unusual(Exception):
    """The arguments do not fit, or JAX cannot run the call as it is. Raised before the function has run."""


def prepare(function: BuiltinFunctionType) -> Optional[tuple[Any, ...]]:
    """What eager.c needs for the calls of a function, or None if JAX cannot run it."""
    try:
        _jax_native.capturable(cast("Function", function.__self__))
    except TypeError:  # of an extension that has its own copy of Tenon
        return None
    try:
        operator = Operator(function, ModuleType(function.__name__), None, "raise")
        if not _is_suitable(operator):
            return None
        for target, platform in operator.targets():
            _register_target(target, platform)
    except (Refused, ImportError, RuntimeError):
        return None
    with _lock:
        eager = _made.setdefault((operator.attributes["fn"], operator.attributes["hash"]), Eager(operator))
    single = importlib.import_module("jax.sharding").SingleDeviceSharding
    return single, eager.is_packable, _is_alone(), eager.find, eager.call, eager.is_unusual, MISSING, put


def put(operand: Any, device: Any) -> Any:
    """Copy packed numbers to a device. Like an operand of NumPy, the copy does not say where the program runs if there is only
    one device."""
    return jax_module().device_put(operand, None if _is_alone() else device)


def _is_alone() -> bool:
    """Whether there is only one device, so that no array can be anywhere else."""
    jax = jax_module()
    try:
        on_cpu = jax.devices("cpu")
    except RuntimeError:  # JAX is configured without the CPU
        return False
    return len(on_cpu) == 1 and jax.devices() == on_cpu


def _is_suitable(operator: Operator) -> bool:
    """Whether a program does what the function does with JAX arrays otherwise. Numbers are results without an array."""
    signature = operator.signature
    described = signature.function.tensors
    return (
        bool(signature.outputs)
        and all(signature.outputs)
        and any(signature.inputs)
        and not signature.written
        # JAX's arrays are in C order, and their alignment is known only at run time: these have errors of their own.
        and not any(one and ("f" in one["attributes"] or one["alignment"]) for one in described)
    )


class Eager:
    """The programs of one function."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.signature = operator, operator.signature
        # Where numbers travel in one operand. A number that is a size makes a program of its own.
        kinds = [p["kind"] for p in self.signature.parameters]
        self.packs = [kind in ("int", "float", "bool") and i not in self.signature.sizes for i, kind in enumerate(kinds)]
        self.is_packable = all(tensor or packed for tensor, packed in zip(self.signature.inputs, self.packs))
        self.letters = "".join("t" if tensor else "p" for tensor in self.signature.inputs)
        self.program = functools.lru_cache(maxsize=_PROGRAMS)(self.make_program)

    def find(self, device: Any) -> Any:
        """The program for all arguments, each a tensor on this device or a number in the packed operand; or None."""
        if device.platform != "cpu" and "p" in self.letters:
            return None  # the function cannot read numbers there
        return self.program(device, self.letters, ())

    def make_program(self, device: Any, letters: str, statics: tuple[Any, ...]) -> Any:
        """A jitted function of the tensors, and the packed numbers if there are any."""
        jax = jax_module()
        if {"gpu": "cuda"}.get(device.platform, device.platform) not in self.signature.platforms:
            return None
        call = self.operator.bare(letters, statics)
        one = len(self.signature.results) == 1

        def run(*operands: Any) -> Any:
            try:
                if any(is_wide(short_name(x.dtype)) for x in operands) and not x64_enabled():
                    raise Unusual("JAX converts 64-bit numbers")
                made = call(*operands)
            except (TypeError, ValueError, OverflowError) as error:
                raise Unusual(str(error)) from error
            return made[0] if one else tuple(made)

        run.__name__ = run.__qualname__ = self.operator.name
        if _is_alone():
            return jax.jit(run)
        place = jax.sharding.SingleDeviceSharding(device)  # even if the default device is another one
        return jax.jit(run, in_shardings=place, out_shardings=place)

    def call(self, device: Any, given: Sequence[Any]) -> Any:
        """A call with any arguments. The tensors are on this device."""
        try:
            letters, statics, operands = self.read(given, device.platform == "cpu")
        except (MemoryError, RecursionError):
            raise
        except Exception as error:
            raise Unusual(str(error)) from error
        program = self.program(device, letters, statics)
        if program is None:
            raise Unusual("the function does not run on this platform")
        return program(*operands)

    def read(self, given: Sequence[Any], on_cpu: bool) -> tuple[str, tuple[Any, ...], list[Any]]:
        """The letters of the parameters, the static values, and the operands."""
        signature = self.signature
        letters: list[str] = []
        statics: list[Any] = []
        operands: list[Any] = []
        numbers: list[tuple[str, Any]] = []
        for i, value in enumerate(given):
            if value is MISSING:
                letters.append("d")
            elif value is None and signature.optional[i]:
                letters.append("n")
            elif signature.inputs[i]:
                letters.append("t")
                operands.append(value)
            elif self.packs[i] and on_cpu:
                letters.append("p")
                numbers.append((signature.parameters[i]["kind"], _native._read_value(signature.function, i, value)))
            else:
                letters.append("v")
                statics.append(signature.static_value(i, value))
        if numbers:
            operands.append(_pack(numbers))
        return "".join(letters), tuple(statics), operands

    @staticmethod
    def is_unusual(error: BaseException, given: Sequence[Any]) -> bool:
        """Whether a call failed before the function ran, so that it can go the other way."""
        if isinstance(error, Unusual):
            return True
        if not isinstance(error, (RuntimeError, ValueError)):
            return False
        return any(isinstance(x, jax_module().Array) and x.is_deleted() for x in given) or "Disallowed host-to-device transfer" in str(error)


def _pack(numbers: Sequence[tuple[str, Any]]) -> Any:
    """Numbers as JAX does not convert them: the bits of each in two words, the low one first."""
    numpy = importlib.import_module("numpy")
    packed = numpy.empty(len(numbers), "<i8")
    for i, (kind, number) in enumerate(numbers):
        packed[i : i + 1].view("<f8" if kind == "float" else "<i8")[0] = number
    return packed.view("<u4")
