"""What a signature says of tensors, without any data: dtypes by their short names, and the shapes of results.

A size may be one of a framework's symbols, which only Python can compare. So this is the core's matcher again
(core/src/signature/spec_match.c), with its messages; the names of dtypes are the core's."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from tenon import _native

if TYPE_CHECKING:
    from tenon._native import TensorType

# ----------------------------------------------------------------------------------------------------------- dtypes

_dtype_names = functools.lru_cache(maxsize=None)(_native._dtype_names)


def short_name(dtype: Any) -> str:
    """f32 of torch.float32, or of NumPy's float32."""
    name = str(dtype).rpartition(".")[2]
    known = _dtype_names(name)
    return known[0] if known else name


def long_name(short: str) -> str:
    """float32 of f32; "" if it is not the name of a dtype."""
    known = _dtype_names(short)
    return known[1] if known else ""


def is_among(dtype: str, choices: Sequence[str]) -> bool:
    known = _dtype_names(dtype)
    kinds = known[2] if known else ["any"]  # JAX's keys are not a dtype of the core
    return dtype in choices or not set(choices).isdisjoint(kinds)


def _variable(text: str) -> str:
    """T of dtype(T), or ""."""
    return text.partition("(")[2].partition(")")[0].strip()


def has_gradients(choices: Sequence[str]) -> bool:
    return any(choice in ("any", "real") or choice[0] in "fbc" and choice != "bool" for choice in choices)


# ---------------------------------------------------------------------------------------------------------- tensors


_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv}


class Dim:
    """One dimension: `kind` is name, number, expression, any, star, unknown or batch."""

    def __init__(self, kind: str, text: str, name: Optional[str], code: tuple[Union[int, str], ...]) -> None:
        self.kind, self.text, self.code = kind, text, code
        self.name = name or ""
        self.is_star = kind in ("star", "batch")  # it stands for any number of dimensions
        self.names = [step for step in dict.fromkeys(code) if isinstance(step, str) and step not in _OPERATORS]

    def value(self, dims: Mapping[str, Any]) -> Any:
        """ZeroDivisionError or OverflowError if there is no value in 64 bits."""
        stack: list[Any] = []
        for step in self.code:
            if isinstance(step, int):
                stack.append(step)
            elif step in _OPERATORS:
                right = stack.pop()
                value = _OPERATORS[step](stack.pop(), right)
                if isinstance(value, int) and not -(2**63) <= value < 2**63:  # and not a symbol
                    raise OverflowError
                stack.append(value)
            else:
                stack.append(dims[step])
        return stack.pop()


class Tensor:
    """The type of a tensor, such as "f32[n, k]? c cuda", as the core describes it."""

    def __init__(self, described: TensorType) -> None:
        self.text = described["text"]
        self.variable = described["variable"]
        self.choices = described["dtypes"]
        self.dims = [Dim(*dim) for dim in described["dims"]]
        self.star = next((i for i, dim in enumerate(self.dims) if dim.is_star), None)
        self.has_batch = bool(self.dims) and self.dims[0].kind == "batch"
        self.each = described["each"]  # of a list of results: the list that it follows
        self.attributes = described["attributes"]
        self.said_devices = bool(described["devices"])
        self.devices = described["devices"] or ["anywhere" if "anywhere" in self.attributes else "cpu"]

    def fits(self, ndim: int) -> bool:
        return ndim == len(self.dims) if self.star is None else ndim >= len(self.dims) - 1

    def sizes(self, shape: Any) -> Iterator[tuple[int, Dim, Any]]:
        """Each dimension with its index in the shape and its size; for a star, the list of sizes."""
        more = len(shape) - len(self.dims)
        for i, dim in enumerate(self.dims):
            if dim.is_star:
                yield i, dim, list(shape[i : i + more + 1])
            else:
                at = i if self.star is None or i < self.star else i + more
                yield at, dim, shape[at]


# ---------------------------------------------------------------------------------------------------------- binding


class Bindings:
    """What one call's tensors and ints make of the names. The messages are the core's.

    A framework says how sizes are compared, which may be symbols, and what its arrays are called."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.dims: dict[str, Any] = {}
        self.stars: dict[str, list[Any]] = {}
        self.batch: list[tuple[str, int, Any]] = []  # the dimensions of a batch, the last one first: where each is from, and its size
        self.types: dict[str, str] = {}
        self.origin: dict[str, str] = {}  # which argument said so

    # -------------------------------------------------------------------------------------------- what a framework says

    def check_equal(self, one: Any, other: Any, message: Callable[[], str]) -> None:
        """Raise a ValueError if two sizes differ."""
        raise NotImplementedError

    def check_natural(self, size: Any, message: Callable[[], str]) -> None:
        """Raise a ValueError if a size is negative."""
        raise NotImplementedError

    def type_name(self, value: Any) -> str:
        raise NotImplementedError

    def cast_advice(self, argument: str, dtype: str, value: Any) -> str:
        """How to convert an argument to a dtype, such as "; try x.astype('float32')"."""
        raise NotImplementedError

    def unknown_size(self) -> Any:
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------------- arguments

    def bind(self, argument: str, tensor: Tensor, value: Any) -> None:
        if tensor.variable:
            self.note(self.types, tensor.variable, short_name(value.dtype), argument)
        for _, dim, size in tensor.sizes(value.shape) if tensor.fits(len(value.shape)) else ():
            if dim.kind == "name":
                self.note(self.dims, dim.name, size, argument)
            elif dim.kind == "star" and dim.name:
                self.note(self.stars, dim.name, size, argument, "*")

    def note(self, table: dict[str, Any], name: str, value: Any, argument: str, kind: str = "") -> None:
        if name not in table:
            table[name] = value
            self.origin[kind + name] = argument

    def fit(self, argument: str, tensor: Tensor, value: Any, all_bound: bool = True) -> None:
        """Raise if the argument is not what its type says. If not all arguments are bound yet, a name without a value is
        not an error."""
        begin, ndim = f"{self.function}(): argument '{argument}': ", len(value.shape)
        dtype = short_name(value.dtype)
        got = f"{begin}expected {tensor.text}, got {dtype}{size_list(value.shape)} ({self.type_name(value)})\n  "
        if not is_among(dtype, tensor.choices) or (tensor.variable and self.types[tensor.variable] != dtype):
            raise TypeError(f"{got}dtype is {dtype}, {self.other_dtype(argument, tensor, dtype, value)}")
        if not tensor.fits(ndim):
            wanted = len(tensor.dims) if tensor.star is None else f"at least {len(tensor.dims) - 1}"
            raise ValueError(f"{got}{ndim} dimension{'' if ndim == 1 else 's'}, not {wanted}")
        for at, dim, size in tensor.sizes(value.shape):
            if dim.kind == "batch":
                self.fit_batch(begin, argument, dim, size)
            elif dim.kind == "star":
                if dim.name:
                    self.fit_star(begin, dim, size)
            elif dim.kind == "number":
                number = dim.code[0]
                self.check_equal(size, number, lambda: f"{got}dimension {at} is {size}, not {number}")
            elif dim.kind == "name":
                known = self.dims[dim.name]
                self.check_equal(
                    size,
                    known,
                    lambda: f"{begin}dimension {at} is {size}, but {dim.name} = {known}{self.source(dim.name)}",
                )
            elif dim.kind == "expression":
                if not all_bound and any(name not in self.dims for name in dim.names):
                    return
                self.fit_expression(begin, dim, at, size)

    def other_dtype(self, argument: str, tensor: Tensor, dtype: str, value: Any) -> str:
        choices = "|".join(tensor.choices)
        if not tensor.variable:
            advice = self.cast_advice(argument, choices, value) if len(tensor.choices) == 1 else ""
            return f"not {choices}{advice}"
        if not is_among(dtype, tensor.choices):
            return f"but {tensor.variable} is one of {choices}"
        return f"but {tensor.variable} = {self.types[tensor.variable]}{self.source(tensor.variable)}"

    def fit_star(self, begin: str, dim: Dim, sizes: list[Any]) -> None:
        known = self.stars[dim.name]
        for one, other in zip(sizes, known) if len(sizes) == len(known) else [(0, 1)]:
            self.check_equal(
                one,
                other,
                lambda: f"{begin}*{dim.name} is {size_list(sizes)}, but *{dim.name} = {size_list(known)}"
                + self.source(dim.name, "*"),
            )

    def fit_batch(self, begin: str, argument: str, dim: Dim, sizes: list[Any]) -> None:
        """Broadcast the batch of an argument with those before it."""
        for at, size in enumerate(reversed(sizes)):
            here = len(sizes) - 1 - at
            if at == len(self.batch):
                self.batch.append((argument, here, size))
            elif self.is_one(self.batch[at][2]):
                self.batch[at] = (argument, here, size)
            elif not self.is_one(size):
                other, there, known = self.batch[at]
                message = (
                    f"{begin}dimension {here} is {size}, and dimension {there} of argument '{other}' is {known}: they must be equal, "
                    f"or one of them 1, in **{dim.name}"
                )
                self.check_equal(size, known, lambda message=message: message)  # type: ignore[misc]
        self.stars[dim.name] = [size for _, _, size in reversed(self.batch)]

    def is_one(self, size: Any) -> bool:
        """Whether a dimension of this size is repeated. A symbol is not 1, unless the framework knows that it is."""
        return bool(size == 1)

    def fit_expression(self, begin: str, dim: Dim, at: int, size: Any) -> None:
        said = f"{begin}dimension {at} is {size}, but "
        missing = [name for name in dim.names if name not in self.dims]
        if missing:
            raise ValueError(f"{said}{missing[0]} in {dim.text} has no value: no argument determines it")
        try:
            wanted = dim.value(self.dims)
        except (ZeroDivisionError, OverflowError):
            raise OverflowError(f"{said}{dim.text} overflows 64 bits or divides by 0{self.values(dim)}") from None
        self.check_equal(size, wanted, lambda: f"{said}{dim.text} = {wanted}{self.values(dim)}")

    def fit_int(self, argument: str, value: Any) -> None:
        begin, known = f"{self.function}(): argument '{argument}' is {value}", self.dims[argument]
        self.check_equal(value, known, lambda: f"{begin}, but {argument} = {known}{self.source(argument)}")

    def bind_dtype(self, argument: str, text: str, value: Any) -> None:
        """The value of a parameter that is dtype(T); `text` is its type."""
        variable = _variable(text)
        if variable:
            self.note(self.types, variable, short_name(value), argument)

    def fit_dtype(self, argument: str, text: str, value: Any, choices: Mapping[str, Sequence[str]]) -> None:
        variable, dtype = _variable(text), short_name(value)
        begin = f"{self.function}(): argument '{argument}': expected {text}, got {dtype}, but {variable}"
        if variable in choices and not is_among(dtype, choices[variable]):
            raise TypeError(f"{begin} is one of {'|'.join(choices[variable])}")
        if variable and self.types[variable] != dtype:
            raise TypeError(f"{begin} = {self.types[variable]}{self.source(variable)}")

    def source(self, name: str, kind: str = "") -> str:
        return f" from argument '{self.origin[kind + name]}'"

    def values(self, dim: Dim) -> str:
        known = ", ".join(f"{name} = {self.dims[name]}{self.source(name)}" for name in dim.names)
        return f" ({known})" if known else ""

    # ---------------------------------------------------------------------------------------------------------- results

    def result(
        self, result: str, tensor: Tensor, source: Optional[Tensor] = None, item: Sequence[Any] = ()
    ) -> tuple[str, list[Any]]:
        """The short name of the dtype of a result, and its shape. `result` is its name in messages. In a list "for xs", `source`
        is the type of the items of xs, and `item` the shape of one."""
        begin = f"{self.function}(): {result}: "
        shape: list[Any] = []
        if tensor.variable and tensor.variable not in self.types:
            raise ValueError(f"{begin}no argument of this call determines {tensor.variable}")
        for i, dim in enumerate(tensor.dims):
            if dim.kind == "unknown":
                shape.append(self.unknown_size())
            elif dim.kind == "any":  # counted from the end if it is after the star
                shape.append(item[i if tensor.star is None or i < tensor.star else len(item) - (len(tensor.dims) - i)])
            elif dim.kind == "star" and not dim.name and source:
                shape += next(sizes for _, one, sizes in source.sizes(item) if one.is_star)
            elif dim.is_star:
                if dim.name not in self.stars:
                    raise ValueError(f"{begin}no argument of this call determines {'**' if dim.kind == 'batch' else '*'}{dim.name}")
                shape += self.stars[dim.name]
            else:
                shape.append(self.result_size(f"{begin}dimension {len(shape)}, {dim.text}, ", dim))
        return self.types[tensor.variable] if tensor.variable else tensor.choices[0], shape

    def check_bytes(self, result: str, dtype: str, shape: Sequence[Any], itemsize: int) -> None:
        if all(isinstance(size, int) for size in shape) and math.prod(shape) * itemsize >= 2**63:
            what = f"{self.function}(): {result}: {dtype}{size_list(shape)}"
            raise OverflowError(f"{what} has more bytes than 64 bits can count")

    def result_size(self, said: str, dim: Dim) -> Any:
        missing = [name for name in dim.names if name not in self.dims]
        if missing:
            raise ValueError(f"{said}has no value: no argument of this call determines {missing[0]}")
        try:
            size = dim.value(self.dims)
        except (ZeroDivisionError, OverflowError):
            raise OverflowError(f"{said}overflows 64 bits or divides by 0{self.values(dim)}") from None
        self.check_natural(size, lambda: f"{said}is {size}{self.values(dim)}")
        return size


def result_title(index: int, name: Optional[str]) -> str:
    """What messages call a result."""
    return f"result '{name}'" if name else f"result {index}"


def size_list(sizes: Any) -> str:
    return f"[{', '.join(map(str, sizes))}]"
