"""What a signature says of tensors, for torch: dtypes, and the shapes of results without any data.

A size may be one of torch's symbols. The messages are the core's (core/src/functions/spec_match.c)."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any


def torch_module() -> Any:
    try:
        return importlib.import_module("torch")  # not before the first call: whoever has no torch can use the rest
    except ModuleNotFoundError as error:
        raise ImportError("tenon.torch_ops() needs torch, which is not installed") from error


# ----------------------------------------------------------------------------------------------------------- dtypes

_SPELLINGS = (("bfloat", "bf"), ("float", "f"), ("complex", "c"), ("uint", "u"), ("int", "i"))


def _short(name: str) -> str:
    """f32 of float32, torch.float32 or f32."""
    name = name.replace("torch.", "")
    for long, short in _SPELLINGS:
        if re.match(long + r"\d", name):
            name = short + name[len(long) :]
    return re.sub(r"_x(\d+)$", r"x\1", name)


def torch_dtype(short: str) -> Any:
    """torch's dtype of such a name, or None."""
    for long, prefix in _SPELLINGS:
        if re.match(prefix + r"\d", short):
            return getattr(torch_module(), long + short[len(prefix) :], None)
    return getattr(torch_module(), short, None) if short == "bool" else None


def _is_among(dtype: str, choices: list[str]) -> bool:
    whole = re.fullmatch(r"[iu]\d+", dtype)
    real = whole or re.fullmatch(r"b?f\d+(_\w+(?<!x\d))?", dtype)
    kinds = {"any", *(["integer"] if whole else []), *(["real"] if real else [])}
    return dtype in choices or not kinds.isdisjoint(choices)


def has_gradients(choices: list[str]) -> bool:
    return any(choice in ("any", "real") or choice[0] in "fbc" and choice != "bool" for choice in choices)


# ---------------------------------------------------------------------------------------------------------- tensors


def _checked(name: str) -> Any:
    plain = getattr(int, name)

    def operator(self: int, other: Any) -> Any:
        value = plain(self, other)  # NotImplemented if the other one is a symbol of torch's
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise OverflowError
        return _Int64(value) if isinstance(value, int) else value

    return operator


class _Int64(int):
    """An int whose arithmetic ends where the core's does: OverflowError beyond 64 bits."""

    __add__, __radd__ = _checked("__add__"), _checked("__radd__")
    __sub__, __rsub__ = _checked("__sub__"), _checked("__rsub__")
    __mul__, __rmul__ = _checked("__mul__"), _checked("__rmul__")
    __floordiv__, __rfloordiv__ = _checked("__floordiv__"), _checked("__rfloordiv__")


class _Dim:
    """One dimension: `kind` is name, number, expression, any, star or unknown."""

    def __init__(self, text: str) -> None:
        self.text = text = text.strip()
        self.name = text.lstrip("* \t\n")
        self.kind = {"_": "any", "?": "unknown"}.get(text, "expression")
        if text.startswith("*"):
            self.kind = "star"
        elif text.isdigit():
            self.kind = "number"
        elif self.kind == "expression" and text.isidentifier():
            self.kind = "name"
        self.names = list(dict.fromkeys(re.findall(r"[a-z]\w*", text)))
        # The core has compiled the signature: nothing else is in here than names, numbers, + - * // and parentheses.
        self.python = re.sub(r"[a-z]\w*", lambda found: f"dims['{found[0]}']", re.sub(r"\b0+(?=\d)", "", text))

    def value(self, dims: Mapping[str, Any]) -> Any:
        """ZeroDivisionError or OverflowError if there is no value in 64 bits."""
        known = {name: _Int64(dims[name]) if isinstance(dims[name], int) else dims[name] for name in self.names}
        value = eval(f"({self.python})", {"dims": known})
        return int(value) if isinstance(value, int) else value


class Tensor:
    """The type of a tensor, such as "f32[n, k]? c cuda"."""

    def __init__(self, text: str, variables: Mapping[str, list[str]]) -> None:
        parts = re.fullmatch(r"([^\[]*)\[([^\]]*)\](\s*\?)?(.*)", text, re.S)
        assert parts
        self.text = text[: parts.start(4)].strip()
        names = [_short(name.strip()) for name in parts[1].split("|")]
        self.variable = names[0] if names[0][0].isupper() else None
        self.choices = variables.get(names[0], ["any"]) if self.variable else names
        self.dims = [_Dim(dim) for dim in parts[2].split(",")] if parts[2].strip() else []
        self.star = next((i for i, dim in enumerate(self.dims) if dim.kind == "star"), None)
        self.attributes = re.findall(r"\w+(?:\s*\([^)]*\))?", parts[4])
        others = ("rw", "c", "f", "dense", "alias", "unaligned")
        self.devices = [word for word in self.attributes if word not in others and "(" not in word] or ["cpu"]

    def fits(self, ndim: int) -> bool:
        return ndim == len(self.dims) if self.star is None else ndim >= len(self.dims) - 1

    def sizes(self, shape: Any) -> Iterator[tuple[int, _Dim, Any]]:
        """Each dimension with where it stands in the shape, and its size; of a star, the list of them."""
        more = len(shape) - len(self.dims)
        for i, dim in enumerate(self.dims):
            if dim.kind == "star":
                yield i, dim, list(shape[i : i + more + 1])
            else:
                at = i if self.star is None or i < self.star else i + more
                yield at, dim, shape[at]


def variables_of(signature: str) -> dict[str, list[str]]:
    """What the where clause says."""
    plain = re.sub(r"""'[^']*'|"[^"]*\"""", "", signature)
    clause = re.search(r"\bwhere\b([^()\[\]:]*)$", plain)
    pairs = [pair.split("=") for pair in clause[1].split(",")] if clause else []
    return {name.strip(): [_short(choice.strip()) for choice in choices.split("|")] for name, choices in pairs}


# ---------------------------------------------------------------------------------------------------------- binding


class Bindings:
    """What one call's tensors and ints make of the names. The messages are the core's."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.dims: dict[str, Any] = {}
        self.stars: dict[str, list[Any]] = {}
        self.types: dict[str, str] = {}
        self.origin: dict[str, str] = {}  # which argument said so
        self.check = torch_module()._check_value  # a size may be a symbol: torch keeps the condition as a guard

    def bind(self, argument: str, tensor: Tensor, value: Any) -> None:
        if tensor.variable:
            self.note(self.types, tensor.variable, _short(str(value.dtype)), argument)
        for _, dim, size in tensor.sizes(value.shape) if tensor.fits(value.dim()) else ():
            if dim.kind == "name":
                self.note(self.dims, dim.name, size, argument)
            elif dim.kind == "star":
                self.note(self.stars, dim.name, size, argument, "*")

    def note(self, table: dict[str, Any], name: str, value: Any, argument: str, kind: str = "") -> None:
        if name not in table:
            table[name] = value
            self.origin[kind + name] = argument

    def fit(self, argument: str, tensor: Tensor, value: Any) -> None:
        """Raise where the argument is not what its type says."""
        begin = f"{self.function}(): argument '{argument}': "
        dtype = _short(str(value.dtype))
        got = f"{begin}expected {tensor.text}, got {dtype}{_list(value.shape)} (torch.Tensor)\n  "
        if not _is_among(dtype, tensor.choices) or (tensor.variable and self.types[tensor.variable] != dtype):
            raise TypeError(f"{got}dtype is {dtype}, {self.other_dtype(argument, tensor, dtype)}")
        if not tensor.fits(value.dim()):
            wanted = len(tensor.dims) if tensor.star is None else f"at least {len(tensor.dims) - 1}"
            raise ValueError(f"{got}{value.dim()} dimension{'' if value.dim() == 1 else 's'}, not {wanted}")
        for at, dim, size in tensor.sizes(value.shape):
            if dim.kind == "star":
                self.fit_star(begin, dim, size)
            elif dim.kind == "number":
                self.check(size == int(dim.text), lambda: f"{got}dimension {at} is {size}, not {dim.text}")
            elif dim.kind == "name":
                known = self.dims[dim.name]
                self.check(
                    size == known,
                    lambda: f"{begin}dimension {at} is {size}, but {dim.name} = {known}{self.source(dim.name)}",
                )
            elif dim.kind == "expression":
                self.fit_expression(begin, dim, at, size)

    def other_dtype(self, argument: str, tensor: Tensor, dtype: str) -> str:
        choices = "|".join(tensor.choices)
        if not tensor.variable:
            advice = f"; try {argument}.to({torch_dtype(choices)})" if torch_dtype(choices) else ""
            return f"not {choices}{advice}"
        if not _is_among(dtype, tensor.choices):
            return f"but {tensor.variable} is one of {choices}"
        return f"but {tensor.variable} = {self.types[tensor.variable]}{self.source(tensor.variable)}"

    def fit_star(self, begin: str, dim: _Dim, sizes: list[Any]) -> None:
        known = self.stars[dim.name]
        for one, other in zip(sizes, known) if len(sizes) == len(known) else [(0, 1)]:
            self.check(
                one == other,
                lambda: f"{begin}*{dim.name} is {_list(sizes)}, but *{dim.name} = {_list(known)}"
                + self.source(dim.name, "*"),
            )

    def fit_expression(self, begin: str, dim: _Dim, at: int, size: Any) -> None:
        said = f"{begin}dimension {at} is {size}, but "
        missing = [name for name in dim.names if name not in self.dims]
        if missing:
            raise ValueError(f"{said}{missing[0]} in {dim.text} has no value: no argument determines it")
        try:
            wanted = dim.value(self.dims)
        except (ZeroDivisionError, OverflowError):
            raise OverflowError(f"{said}{dim.text} overflows 64 bits or divides by 0{self.values(dim)}") from None
        self.check(size == wanted, lambda: f"{said}{dim.text} = {wanted}{self.values(dim)}")

    def fit_int(self, argument: str, value: Any) -> None:
        begin, known = f"{self.function}(): argument '{argument}' is {value}", self.dims[argument]
        self.check(value == known, lambda: f"{begin}, but {argument} = {known}{self.source(argument)}")

    def source(self, name: str, kind: str = "") -> str:
        return f" from argument '{self.origin[kind + name]}'"

    def values(self, dim: _Dim) -> str:
        known = ", ".join(f"{name} = {self.dims[name]}{self.source(name)}" for name in dim.names)
        return f" ({known})" if known else ""

    def empty(self, result: str, tensor: Tensor, device: Any) -> Any:
        """The result, without its values."""
        torch, begin = torch_module(), f"{self.function}(): {result}: "
        shape: list[Any] = []
        if tensor.variable and tensor.variable not in self.types:
            raise ValueError(f"{begin}no argument of this call determines {tensor.variable}")
        dtype = torch_dtype(self.types[tensor.variable] if tensor.variable else tensor.choices[0])
        for dim in tensor.dims:
            if dim.kind == "unknown":
                shape.append(torch.library.get_ctx().new_dynamic_size())
            elif dim.kind == "star":
                if dim.name not in self.stars:
                    raise ValueError(f"{begin}no argument of this call determines *{dim.name}")
                shape += self.stars[dim.name]
            else:
                shape.append(self.result_size(f"{begin}dimension {len(shape)}, {dim.text}, ", dim))
        if all(isinstance(size, int) for size in shape) and math.prod(shape) * dtype.itemsize >= 2**63:
            raise OverflowError(f"{begin}{_short(str(dtype))}{_list(shape)} has more bytes than 64 bits can count")
        return torch.empty(shape, dtype=dtype, device=device)

    def result_size(self, said: str, dim: _Dim) -> Any:
        missing = [name for name in dim.names if name not in self.dims]
        if missing:
            raise ValueError(f"{said}has no value: no argument of this call determines {missing[0]}")
        try:
            size = dim.value(self.dims)
        except (ZeroDivisionError, OverflowError):
            raise OverflowError(f"{said}overflows 64 bits or divides by 0{self.values(dim)}") from None
        self.check(size >= 0, lambda: f"{said}is {size}{self.values(dim)}")
        return size


def _list(sizes: Any) -> str:
    return f"[{', '.join(map(str, sizes))}]"
