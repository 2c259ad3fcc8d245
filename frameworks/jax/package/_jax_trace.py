"""A signature for JAX: the arguments of a call become operands and static values, and results are shapes without data.

Mistakes are raised here, while JAX traces, with the words of the function itself. Sizes may be JAX's symbols: what cannot
be decided about them is left to the handler (frameworks/jax/host), which looks at each call again."""

from __future__ import annotations

import ast
import functools
import importlib
import sys
import threading
from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, NoReturn, Optional, Union, cast

from tenon import _native
from tenon._library import Refused
from tenon._signature_shapes import Bindings, Dim, Tensor, has_gradients, long_name, result_title, short_name, size_list

if TYPE_CHECKING:
    from tenon._native import Function, Parameter

OLDEST = (0, 4, 38)
_NUMBERS = {"int": ("i64", "i32"), "float": ("f64", "f32"), "bool": ("bool", "bool")}  # with x64, without
_LISTS = ("ints", "floats")
_KINDS = ("tensor", "tensors", *_NUMBERS, *_LISTS, "str", "enum", "uint", "complex", "dtype")
_PLATFORMS = {"cpu": "cpu", "cuda": "cuda", "cuda_managed": "cuda"}
PARSING = threading.Lock()  # CPython 3.11 and older fail if two threads build a syntax tree, as `ast` and `inspect` do
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "left out"})()


def jax_module() -> Any:
    try:
        jax = importlib.import_module("jax")  # not before the first call: whoever has no JAX can use the rest
    except ModuleNotFoundError as error:
        raise ImportError("tenon.jax_ops() needs jax, which is not installed") from error
    if jax.__version_info__[:3] < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(f"tenon.jax_ops() needs JAX {oldest} or newer, but {jax.__version__} is installed; upgrade jax")
    return jax


class Exact(float):
    """A number that is equal only to the same bits: 0.0 and -0.0 are two programs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and self.hex() == other.hex()

    def __hash__(self) -> int:
        return hash(self.hex())


# ------------------------------------------------------------------------------------------------------------ dtypes


def jax_dtype(short: str) -> Any:
    """JAX's dtype of such a name, or None."""
    numpy, jnp, long = importlib.import_module("numpy"), importlib.import_module("jax.numpy"), long_name(short)
    found = numpy.bool_ if long == "bool" else getattr(jnp, long, None) if long else None
    return None if found is None else numpy.dtype(found)


def bits_of(short: str) -> int:
    """The size of one number in bits; 0 if the name does not say."""
    digits = short.lstrip("abcdefghijklmnopqrstuvwxyz").partition("_")[0]
    return int(digits) if digits.isdigit() else 0


def is_wide(short: str) -> bool:
    """Whether JAX has the dtype only with jax_enable_x64."""
    return bits_of(short) == (128 if short.startswith("c") else 64)


def is_packed(short: str) -> bool:
    return 0 < bits_of(short) < 8


def _obstacle(choice: str) -> str:
    """Why no array of JAX can have a dtype of a signature; "" if one can."""
    if is_packed(choice):
        return "which JAX stores in another way on each platform"
    return "" if choice in ("any", "integer", "real") or jax_dtype(choice) is not None else "which JAX does not have"


def x64_enabled() -> bool:
    return bool(jax_module().config.jax_enable_x64)


@functools.lru_cache(maxsize=None)
def _array_type() -> str:
    """What messages call a JAX array, a tracer too: the type of an array with data."""
    jax = jax_module()
    with jax.ensure_compile_time_eval():
        made = type(jax.numpy.zeros(()))
    return f"{made.__module__}.{made.__qualname__}"


class View(NamedTuple):
    """A tensor argument without its data."""

    dtype: Any
    shape: tuple[Any, ...]
    type_name: str  # "": a JAX array


Views = Union[View, "list[View]", None]  # of an argument; None: it is not a tensor, or was left out


class JaxBindings(Bindings):
    """The bindings of one call with JAX's arrays."""

    items: dict[int, list[View]]  # of the arguments that are lists

    def check_equal(self, one: Any, other: Any, message: Callable[[], str]) -> None:
        if isinstance(one, int) and isinstance(other, int):
            differ = one != other
        else:
            differ = _is_certain(lambda: one > other) or _is_certain(lambda: one < other)
        if differ:
            raise ValueError(message())

    def check_natural(self, size: Any, message: Callable[[], str]) -> None:
        if _is_certain(lambda: size < 0):
            raise ValueError(message())

    def type_name(self, value: View) -> str:
        return value.type_name or _array_type()

    def cast_advice(self, argument: str, dtype: str, value: View) -> str:
        long = long_name(dtype)
        return f"; try {argument}.astype('{long}')" if long else ""


def _is_certain(compare: Callable[[], bool]) -> bool:
    """Whether a comparison of sizes is true for all values of their symbols."""
    try:
        return bool(compare())
    except Exception as error:
        if type(error).__name__ != "InconclusiveDimensionOperation":  # its place depends on the version
            raise
        return False


# ----------------------------------------------------------------------------------------------------------- signature


class Operand(NamedTuple):
    """What an operand of a program is."""

    parameter: int  # its index
    item: int  # of a list, or -1
    letter: str  # t or s


class Result(NamedTuple):
    """The dtype and shape of a result."""

    dtype: Any
    shape: tuple[Any, ...]


class Signature:
    """What JAX needs to know of a function. Refused says why it cannot be an operator."""

    def __init__(self, function: BuiltinFunctionType) -> None:
        self.jax, self.numpy = jax_module(), importlib.import_module("numpy")
        self.function = cast("Function", function.__self__)
        self.name = self.function.name
        self.parameters, self.results = self.function.parameters, self.function.results
        described = [Tensor(one) if one else None for one in self.function.tensors]
        self.names = [p["name"] or "" for p in self.parameters]
        self.inputs, self.outputs = described[: len(self.names)], described[len(self.names) :]
        used = [tensor for tensor in described if tensor]
        bound = {name for tensor in used for dim in tensor.dims for name in dim.names}
        self.sizes = {i for i, p in enumerate(self.parameters) if p["kind"] == "int" and p["name"] in bound}
        self.sizes |= {i for i, p in enumerate(self.parameters) if p["kind"] == "dtype"}  # they bind names, too
        self.variables = {tensor.variable: tensor.choices for tensor in used if tensor.variable}
        self.optional = [p["optional"] for p in self.parameters]
        self.written = [i for i, p in enumerate(self.parameters) if p["written"]]
        self.lists = {i for i, p in enumerate(self.parameters) if p["kind"] == "tensors"}
        self.each = [self.names.index(output.each) if output and output.each else -1 for output in self.outputs]
        self.check_expressible()
        self.platforms = self.find_platforms()
        self.defaults = [_default(p) for p in self.parameters]
        self.floats = [i for i, tensor in enumerate(self.inputs) if tensor and has_gradients(tensor.choices)]
        self.batch_dim = self.find_batch()
        self.in_batch = [self.begins_with_batch(tensor) for tensor in self.inputs]  # by parameter
        # Whether a whole batch is one call: then each result has a row for each row of the arguments. Some results of the
        # others may be sums over the batch, if the function is a derivative (_jax_derivatives).
        self.is_batched = self.batch_dim is not None and all(map(self.begins_with_batch, self.outputs))

    def find_batch(self) -> Optional[Dim]:
        """The `*b` or `**b` at the beginning of tensors, or None. No tensor may have it elsewhere.

        An argument without it is the same for each row of the batch, unless the function writes to it. A number as a result has
        no room for a batch, and the items of a list may have others.
        """
        used = [tensor for tensor in (*self.inputs, *self.outputs) if tensor]
        first = next((t.dims[0] for t in self.inputs if t and t.dims and t.dims[0].is_star and t.dims[0].name), None)
        if first is None or self.lists or not all(self.outputs):
            return None
        for tensor in used:
            elsewhere = tensor.dims[1:] if _is_same_batch(tensor, first) else tensor.dims
            if any(dim.is_star and dim.name == first.name for dim in elsewhere):
                return None
        return first if all(_is_same_batch(self.inputs[i], first) for i in self.written) else None

    def begins_with_batch(self, tensor: Optional[Tensor]) -> bool:
        return self.batch_dim is not None and _is_same_batch(tensor, self.batch_dim)

    def check_expressible(self) -> None:
        for p in self.parameters:
            if p["kind"] not in _KINDS:
                raise Refused(f"parameter '{p['name']}' is of type {p['type']}, which XLA cannot pass")
        for p, tensor in zip(self.parameters, self.inputs):
            reasons = [_obstacle(dtype) for dtype in tensor.choices] if tensor else [""]
            if all(reasons):
                raise Refused(f"parameter '{p['name']}' is of dtype {'|'.join(cast(Tensor, tensor).choices)}, {reasons[0]}")
        for i, (r, output) in enumerate(zip(self.results, self.outputs)):
            title = result_title(i, r["name"])
            if r["optional"] or (not output and r["kind"] not in _NUMBERS):
                raise Refused(f"{title} is of type {r['type']}; a result must be a tensor, an int, a float or a bool")
            if r["kind"] == "tensors" and output and not output.each:
                raise Refused(f"{title} is of type {r['type']}, whose length is not known before the call")
            if output and any(dim.kind == "unknown" for dim in output.dims):
                raise Refused(f"the size of {title} is not known before the call")
            if output and not output.variable:
                dtype = output.choices[0]
                if _obstacle(dtype):
                    raise Refused(f"{title} is of dtype {dtype}, {_obstacle(dtype)}")
        if not self.results and not self.written:
            raise Refused("it neither returns nor writes anything")
        clash = {r["name"] for r in self.results} & {self.names[i] for i in self.written}
        if clash:
            raise Refused(f"'{min(map(str, clash))}' is both a result and an argument that is written")

    def find_platforms(self) -> frozenset[str]:
        """The platforms of JAX where all its tensors can be."""
        found = {"cpu", "cuda"}
        for tensor in (*self.inputs, *(output for output in self.outputs if output and output.said_devices)):
            if tensor and "anywhere" not in tensor.devices:
                found &= {_PLATFORMS[word] for word in tensor.devices if word in _PLATFORMS}
        if not any(self.inputs) and not any(output and output.said_devices for output in self.outputs):
            found = {"cpu"}
        if not found:
            raise Refused("its tensors are on devices that no platform of JAX has together")
        if not all(self.outputs):
            found.discard("cuda")
        if not found:
            raise Refused("a function on a GPU cannot return a number; return a tensor without dimensions")
        return frozenset(found)

    # ------------------------------------------------------------------------------------------------------- arguments

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, tuple[Any, ...], list[Any]]:
        """Return a letter for each parameter (frameworks/jax/host/internal.h), the static values, and the operands.

        The shapes of JAX arrays are not checked here, but once for each program, while it is traced."""
        given = list(_native._sort_arguments(self.function, args, kwargs, MISSING))
        letters: list[str] = []
        statics: list[Any] = []
        sizes: dict[int, Any] = {}
        for i, value in enumerate(given):
            letter = "d" if value is MISSING else "n" if value is None and self.optional[i] else "t"
            if letter == "t" and i in self.lists:
                try:
                    given[i] = self.read_list(i, value)
                except Exception as error:
                    self.raise_first(given, sizes, i, error)
                letter = "l"
                statics.append(len(given[i]))
            if letter == "t" and not self.inputs[i]:
                try:
                    letter, value = self.read_value(i, value)
                except Exception as error:
                    self.raise_first(given, sizes, i, error)
                if letter == "v":
                    statics.append(value)
                else:
                    given[i] = value
            if i in self.sizes and letter in "vd":
                value = self.defaults[i] if letter == "d" else value
                sizes.update({} if value is None else {i: value})
            letters.append(letter)
        operands = [one for letter, value in zip(letters, given) if letter in "tsl" for one in _flat(value)]
        tensors = (one for letter, value in zip(letters, given) if letter in "tl" for one in _flat(value))
        if not all(map(self.is_jax_array, tensors)):
            views = self.views(given, sizes, len(given))
            self.match(views, sizes)
            self.check_width(views)
            operands = [value if isinstance(value, self.jax.Array) else self.numpy.asarray(value) for value in operands]
        return "".join(letters), tuple(statics), operands

    def read_list(self, index: int, value: Any) -> list[Any]:
        """The items of a list of tensors."""
        array = isinstance(value, self.jax.Array) or hasattr(value, "__array__") or hasattr(value, "__dlpack__")
        sequence = hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__")
        if array or not sequence or hasattr(value, "keys") or isinstance(value, (str, bytes, bytearray, memoryview)):
            name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            raise TypeError(
                f"{self.name}(): argument '{self.names[index]}': expected {self.parameters[index]['type']}, got {name}; pass a "
                "list or a tuple of arrays"
            )
        return [value[i] for i in range(len(value))]

    def operands(self, letters: str, statics: Sequence[Any]) -> list[Operand]:
        """What each operand of a call is."""
        values, found = iter(statics), []
        for i, letter in enumerate(letters):
            value = next(values) if letter in "vl" else None
            if letter == "l":
                found += [Operand(i, item, "t") for item in range(cast(int, value))]
            elif letter in "ts":
                found.append(Operand(i, -1, letter))
        return found

    def operand_name(self, operand: Operand) -> str:
        return self.item_name(operand.parameter, operand.item)

    def item_name(self, index: int, item: int) -> str:
        """What messages call a tensor."""
        return self.names[index] if item < 0 else f"{self.names[index]}[{item}]"

    def is_jax_array(self, value: Any) -> bool:
        """Whether it is a tracer, or an array of JAX that has data."""
        return isinstance(value, self.jax.Array) and (isinstance(value, self.jax.core.Tracer) or not value.is_deleted())

    def views(self, given: Sequence[Any], sizes: dict[int, Any], count: int) -> list[Views]:
        """The tensors among the first `count` arguments. Raises the first mistake."""
        views: list[Views] = []
        for i, value in enumerate(given[:count]):
            try:
                absent = not self.inputs[i] or value is MISSING or (value is None and self.optional[i])
                if not absent and i in self.lists:
                    views.append([self.view(i, one, item) for item, one in enumerate(value)])
                else:
                    views.append(None if absent else self.view(i, value))
            except Exception as error:
                self.raise_first(given, sizes, i, error)
        return views

    def view(self, index: int, value: Any, item: int = -1) -> View:
        if self.is_jax_array(value):
            return View(value.dtype, value.shape, "")
        if type(value).__name__ == "TypedNdArray":  # what JAX makes of a NumPy array; in JAX 0.8 it is not an array
            value = self.numpy.asarray(value)
        if item < 0:
            _native._read_tensor(self.function, index, value)
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        if not isinstance(value, (self.numpy.ndarray, self.numpy.generic)):
            raise TypeError(
                f"{self.name}(): argument '{self.item_name(index, item)}': expected an array of JAX or NumPy, got {name}; convert "
                "it with jax.dlpack.from_dlpack(x)"
            )
        return View(value.dtype, value.shape, name)

    def raise_first(self, given: Sequence[Any], sizes: dict[int, Any], index: int, error: Exception) -> NoReturn:
        """Raise the error of argument `index`, or that of an earlier one."""
        if not isinstance(error, (MemoryError, RecursionError)):
            self.match(self.views(given, sizes, index), sizes)
        raise error

    def check_width(self, views: Sequence[Views]) -> None:
        """Refuse arrays of NumPy that JAX would convert silently."""
        for i, item, view in _each(views):
            if view.type_name and is_wide(short_name(view.dtype)) and not x64_enabled():
                raise ValueError(
                    f"{self.name}(): argument '{self.item_name(i, item)}': JAX would convert {short_name(view.dtype)} to fewer bits; "
                    "set jax_enable_x64, or convert the array yourself"
                )

    def read_value(self, index: int, value: Any) -> tuple[str, Any]:
        """A letter and the value of an argument that is not a tensor: `v` static, `s` an array without dimensions."""
        jax, kind = self.jax, self.parameters[index]["kind"]
        if isinstance(value, jax.core.Tracer) and (kind not in _NUMBERS or index in self.sizes):
            why = ", because it is a size" if index in self.sizes and kind == "int" else ""
            self.refuse_traced(index, f"{why}; pass a Python value, or use static_argnums")
        if kind in _LISTS and _has_tracers(value):
            self.refuse_traced(index, "; pass Python numbers or a NumPy array, or use static_argnums")
        if isinstance(value, jax.Array) and kind in _NUMBERS and index not in self.sizes:
            return "s", self.scalar(index, value, kind)
        try:
            return "v", self.static_value(index, value)
        except Exception:
            symbol = _first_symbol(value)
            if symbol is None:
                raise
        why = ", because it is a size" if index in self.sizes else ""
        self.refuse_traced(index, f"{why}, and {symbol} is a symbolic dimension; export the program with a known size")

    def static_value(self, index: int, value: Any) -> Any:
        """A value as part of a program: the function's own, or the error that the function raises."""
        kind, value = self.parameters[index]["kind"], _native._read_value(self.function, index, value)
        p = self.parameters[index]
        if kind == "int" and p["choices"] and value not in p["choices"]:
            raise ValueError(f"{self.name}(): argument '{self.names[index]}': expected {p['type']}, got {value}")
        if kind == "float":
            return Exact(value)
        if kind == "complex":
            return Exact(value.real), Exact(value.imag)
        return tuple(map(Exact, value)) if kind == "floats" else value

    def refuse_traced(self, index: int, more: str) -> NoReturn:
        raise TypeError(f"{self.name}(): argument '{self.names[index]}' must be static{more}")

    def scalar(self, index: int, value: Any, kind: str) -> Any:
        """An array as a number that the handler reads. Raises what the function says of an array that is not one."""
        jax, numpy, dtypes = self.jax, self.numpy, importlib.import_module("jax.dtypes")
        kinds = {"bool": [numpy.bool_], "int": [numpy.integer], "float": [numpy.integer, numpy.floating, numpy.bool_]}[kind]
        is_traced, short = isinstance(value, jax.core.Tracer), short_name(value.dtype)
        if value.shape == () and kind == "int" and short == "bool" and is_traced:  # True is an int in Python
            return jax.lax.convert_element_type(value, numpy.int32)
        if value.shape == () and not is_packed(short) and any(dtypes.issubdtype(value.dtype, one) for one in kinds):
            is_small = bits_of(short) == 8 and dtypes.issubdtype(value.dtype, numpy.floating)
            return jax.lax.convert_element_type(value, numpy.float32) if is_small else value
        stand_in: Any
        if is_traced and value.shape == () and value.weak_type:  # a Python number before it was traced
            stand_in = value.dtype.type(0).item()
        else:
            with jax.ensure_compile_time_eval():
                stand_in = jax.numpy.zeros(tuple(min(size, 2) for size in value.shape), value.dtype)
        _native._read_value(self.function, index, stand_in)
        raise TypeError(
            f"{self.name}(): argument '{self.names[index]}': expected {self.parameters[index]['type']}, got "
            f"{short_name(value.dtype)}{size_list(value.shape)} ({_array_type()})"
        )

    # -------------------------------------------------------------------------------------------------------- matching

    def match(self, views: Sequence[Views], sizes: dict[int, Any]) -> JaxBindings:
        """Bind the names, then check each argument. There are fewer views than parameters if a mistake is known already."""
        bindings, names = JaxBindings(self.name), self.names
        whole = len(views) == len(names)
        for i, given in enumerate(views):
            for _, item, view in _each([given]):
                bindings.bind(self.item_name(i, item), cast(Tensor, self.inputs[i]), view)
            if not given and i in sizes:
                if self.parameters[i]["kind"] == "dtype":
                    bindings.bind_dtype(names[i], self.parameters[i]["type"], sizes[i])
                else:
                    bindings.note(bindings.dims, names[i], sizes[i], names[i])
        for i, given in enumerate(views):
            for _, item, view in _each([given]):
                bindings.fit(self.item_name(i, item), cast(Tensor, self.inputs[i]), view, whole)
                self.check_dtype(self.item_name(i, item), view)
            if not given and i in sizes:
                if self.parameters[i]["kind"] == "dtype":
                    bindings.fit_dtype(names[i], self.parameters[i]["type"], sizes[i], self.variables)
                else:
                    bindings.fit_int(names[i], sizes[i])
        bindings.items = {i: given for i, given in enumerate(views) if isinstance(given, list)}
        return bindings

    def check_dtype(self, name: str, view: View) -> None:
        dtype = short_name(view.dtype)
        if is_packed(dtype):
            raise TypeError(
                f"{self.name}(): argument '{name}': JAX stores {dtype} in another way on each platform; "
                "convert it to int8 or float32"
            )
        if jax_dtype(dtype) is None:
            raise TypeError(f"{self.name}(): argument '{name}': expected an array of numbers, got {dtype}")

    def match_operands(self, letters: str, statics: Sequence[Any], operands: Sequence[Any]) -> JaxBindings:
        """The bindings of a call that was read."""
        left, values = iter(operands), iter(statics)
        views: list[Views] = []
        sizes: dict[int, Any] = {}
        for i, letter in enumerate(letters):
            value = next(values) if letter in "vl" else self.defaults[i] if letter == "d" else None
            if letter == "l":
                items = [next(left) for _ in range(cast(int, value))]
                views.append([View(one.dtype, one.shape, "") for one in items])
                continue
            operand: Any = next(left) if letter in "ts" else None
            views.append(View(operand.dtype, operand.shape, "") if letter == "t" else None)
            if i in self.sizes and value is not None:
                sizes[i] = value
        return self.match(views, sizes)

    def batch_sizes(self, letters: str, shapes: Sequence[Sequence[Any]]) -> list[Optional[tuple[Any, ...]]]:
        """The sizes of each operand's dimensions that belong to the batch; None if it has none."""
        places = [(i, letter) for i, letter in enumerate(letters) if letter in "ts"]
        return [
            tuple(shape[: max(0, len(shape) - len(cast(Tensor, self.inputs[i]).dims) + 1)])
            if letter == "t" and self.in_batch[i]
            else None
            for (i, letter), shape in zip(places, shapes)
        ]

    def item_shapes(self, bindings: JaxBindings) -> list[list[Any]]:
        """For each result the shapes of the items that it has a tensor for; one of nothing if it is not a list."""
        return [[()] if each < 0 else [view.shape for view in bindings.items.get(each, ())] for each in self.each]

    def result_types(self, bindings: JaxBindings) -> list[Result]:
        """What the call returns, each item of a list by itself, without the arguments that it writes."""
        wide, made = x64_enabled(), []
        for i, (r, output, shapes) in enumerate(zip(self.results, self.outputs, self.item_shapes(bindings))):
            title = result_title(i, r["name"])
            for item in shapes if output else ():
                short, shape = bindings.result(title, cast(Tensor, output), self.inputs[self.each[i]], item)
                dtype = jax_dtype(short)
                if is_wide(short) and not wide:
                    raise ValueError(f"{self.name}(): {title} is of dtype {short}, which JAX has only with jax_enable_x64; "
                                     "set it, or use a function that returns fewer bits")
                bindings.check_bytes(title, short, shape, dtype.itemsize)
                made.append(Result(dtype, tuple(shape)))
            if not output:
                made.append(Result(jax_dtype(_NUMBERS[r["kind"]][0 if wide else 1]), ()))
        return made


def _is_same_batch(tensor: Optional[Tensor], batch: Dim) -> bool:
    first = tensor.dims[0] if tensor and tensor.dims else None
    return first is not None and first.kind == batch.kind and first.name == batch.name


def _flat(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else (value,)


def _each(views: Sequence[Views]) -> Iterator[tuple[int, int, View]]:
    """All tensors: the index of the parameter, that of the item or -1, and the tensor."""
    for i, given in enumerate(views):
        if isinstance(given, list):
            yield from ((i, item, view) for item, view in enumerate(given))
        elif given:
            yield i, -1, given


def _has_tracers(value: Any) -> bool:
    """Whether an item of a list is a tracer. Those of any JAX array are, while JAX traces."""
    jax = jax_module()
    items = value if isinstance(value, (list, tuple)) or isinstance(value, jax.Array) and value.ndim else ()
    return any(isinstance(item, jax.core.Tracer) for item in items)


def _first_symbol(value: Any) -> Any:
    """The value, or its first item, that is a symbolic dimension of jax.export; or None."""
    export = sys.modules.get("jax.export")  # there are no symbols without it
    items = value if isinstance(value, (list, tuple)) else (value,)
    return next(filter(export.is_symbolic_dim, items), None) if export else None


def _default(p: Parameter) -> Any:
    """The default as a Python value, or None."""
    if p["kind"] in ("str", "enum") and p["default"] and p["default"][0] in "'\"":
        return p["default"][1:-1]  # without escapes
    if p["default"] is None:
        value = None
    else:
        with PARSING:
            value = ast.literal_eval(p["default"])
    if value is None:
        return None
    if p["kind"] == "float":
        return float(value)
    return tuple(value) if p["kind"] in _LISTS else value
