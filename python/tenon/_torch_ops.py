"""The functions of a library as operators of torch: for torch.compile, torch.export and autograd."""

from __future__ import annotations

import collections
import importlib
import re
import warnings
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional, Union, cast

if TYPE_CHECKING:
    from tenon._native import Function, Parameter

Backward = Union[str, Callable[..., Any], "tuple[Callable[..., Any], Callable[..., Any]]"]

_SCALARS = {"int": "SymInt", "float": "float", "bool": "bool", "str": "str", "enum": "str"}
_LISTS = {"ints": "SymInt[]", "floats": "float[]"}
_NUMBERS = {"int": "int64", "float": "float64", "bool": "bool"}  # results without dimensions
_KEYS = {
    "cpu": "CPU",
    "cuda_host": "CPU",
    "rocm_host": "CPU",
    "cuda": "CUDA",
    "cuda_managed": "CUDA",
    "rocm": "CUDA",  # torch calls both so
    "metal": "MPS",
    "oneapi": "XPU",
}
_EVERYWHERE = "CompositeExplicitAutograd"
_OWN_NAMESPACES = ("aten", "prim", "prims")
_registered: set[TorchOps] = set()


def torch_ops(
    kernels: ModuleType, namespace: str, *, backward: Optional[Mapping[str, Backward]] = None, strict: bool = False
) -> TorchOps:
    """Register the functions of a loaded library as torch.ops.<namespace>.<name>, and return them.

    What torch.compile, torch.export and torch.library.opcheck need to know of them follows from the signatures. Each
    value of `backward` is a function (ctx, *grads) that returns a gradient for each positional argument, where
    ctx.saved_tensors are the tensors that were given and ctx.arguments the rest by name; or a pair of such a function
    and torch's setup_context(ctx, inputs, output); or the name of a function of the same library, which takes the
    gradients of the results, then the arguments, and returns the gradients of the tensors.

    A function that cannot be an operator is left out with a warning; with `strict` that is a ValueError.
    """
    torch = _torch()
    if not namespace.isidentifier() or namespace in _OWN_NAMESPACES:
        raise ValueError(f"tenon.torch_ops(): argument 'namespace': '{namespace}' is no name for one, or torch's own")
    found = [value for value in vars(kernels).values() if _is_function(value)]
    if not found:
        raise ValueError("tenon.torch_ops(): argument 'kernels': expected what tenon.load() gives, with functions in it")
    operators: dict[str, _Operator] = {}
    for function in found:
        try:
            operators[function.__name__] = _Operator(function, namespace)
        except _Refused as reason:
            if strict or function.__name__ in (backward or {}):
                raise ValueError(f"tenon.torch_ops(): {function.__name__}() cannot be an operator: {reason}") from None
            warnings.warn(f"tenon.torch_ops(): {function.__name__}() is left out: {reason}", stacklevel=2)
    for name, wanted in (backward or {}).items():
        if name not in operators:
            raise ValueError(f"tenon.torch_ops(): argument 'backward': the library has no function {name}()")
        operators[name].set_backward(wanted, operators)
    # Nothing is registered before all is known to be right.
    library = torch.library.Library(namespace, "FRAGMENT")
    for operator in operators.values():
        operator.register(library)
    return TorchOps(namespace, library, {name: operator.callable() for name, operator in operators.items()})


class TorchOps:
    """The operators of a library, by name. They stay registered until unload().

    Not just as long as this object: torch, and the graphs that it has compiled, call them by an address."""

    def __init__(self, namespace: str, library: Any, operators: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._library = library
        self._operators = dict(operators)
        _registered.add(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_operators"][name]
        except KeyError:
            raise AttributeError(f"{self!r} has no operator '{name}'") from None

    def __dir__(self) -> list[str]:
        return [*self._operators, "unload"]

    def __repr__(self) -> str:
        return f"<tenon.TorchOps {self._namespace}: {', '.join(self._operators) or 'unloaded'}>"

    def unload(self) -> None:
        """Take the operators from torch. Whoever still calls one, as a compiled graph would, ends the process."""
        self._operators.clear()
        self._library = None
        _registered.discard(self)


class _Refused(Exception):
    """Why a function cannot be an operator."""


def _torch() -> Any:
    try:
        return importlib.import_module("torch")  # not before the first call: whoever has no torch can use the rest
    except ModuleNotFoundError as error:
        raise ImportError("tenon.torch_ops() needs torch, which is not installed") from error


def _is_function(value: object) -> bool:
    return isinstance(value, BuiltinFunctionType) and hasattr(value.__self__, "signature")


# ----------------------------------------------------------------------------------------------------------- dtypes

_SPELLINGS = (("bfloat", "bf"), ("float", "f"), ("complex", "c"), ("uint", "u"), ("int", "i"))


def _short(name: str) -> str:
    """f32 of float32, torch.float32 or f32."""
    name = name.replace("torch.", "")
    for long, short in _SPELLINGS:
        if re.match(long + r"\d", name):
            name = short + name[len(long) :]
    return re.sub(r"_x(\d+)$", r"x\1", name)


def _dtype(short: str) -> Any:
    """torch's dtype of such a name, or None."""
    for long, prefix in _SPELLINGS:
        if re.match(prefix + r"\d", short):
            return getattr(_torch(), long + short[len(prefix) :], None)
    return getattr(_torch(), short, None) if short == "bool" else None


def _is_among(dtype: str, choices: list[str]) -> bool:
    whole = re.fullmatch(r"[iu]\d+", dtype)
    real = whole or re.fullmatch(r"b?f\d+(_\w+(?<!x\d))?", dtype)
    return dtype in choices or "any" in choices or bool("integer" in choices and whole) or bool("real" in choices and real)


def _has_gradients(choices: list[str]) -> bool:
    return any(choice in ("any", "real") or choice[0] in "fbc" and choice != "bool" for choice in choices)


# ---------------------------------------------------------------------------------------------------------- tensors


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
        looked_up = re.sub(r"[a-z]\w*", lambda found: f"dims['{found[0]}']", re.sub(r"\b0+(?=\d)", "", text))
        self.code = compile(f"({looked_up})", "<dimension>", "eval") if self.kind in ("number", "expression", "name") else None

    def value(self, dims: Mapping[str, Any]) -> Any:
        return eval(self.code, {"dims": dims})  # type: ignore[arg-type]


class _Tensor:
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


def _variables(signature: str) -> dict[str, list[str]]:
    """What the where clause says."""
    plain = re.sub(r"""'[^']*'|"[^"]*\"""", "", signature)
    clause = re.search(r"\bwhere\b([^()\[\]:]*)$", plain)
    pairs = [pair.split("=") for pair in clause[1].split(",")] if clause else []
    return {name.strip(): [_short(choice.strip()) for choice in choices.split("|")] for name, choices in pairs}


# ---------------------------------------------------------------------------------------------------------- binding


class _Bindings:
    """What one call's tensors and ints make of the names. The messages are the core's."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.dims: dict[str, Any] = {}
        self.stars: dict[str, list[Any]] = {}
        self.types: dict[str, str] = {}
        self.origin: dict[str, str] = {}  # which argument said so
        self.check = _torch()._check_value  # a size may be a symbol: torch keeps the condition as a guard

    def bind(self, argument: str, tensor: _Tensor, value: Any) -> None:
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

    def fit(self, argument: str, tensor: _Tensor, value: Any) -> None:
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

    def other_dtype(self, argument: str, tensor: _Tensor, dtype: str) -> str:
        choices = "|".join(tensor.choices)
        if not tensor.variable:
            advice = f"; try {argument}.to({_dtype(choices)})" if _dtype(choices) else ""
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
            raise ValueError(f"{said}{missing[0]} of {dim.text} has no value; no argument binds it")
        try:
            wanted = dim.value(self.dims)
        except ZeroDivisionError:
            raise ValueError(f"{said}{dim.text} has no value in 64 bits{self.values(dim)}") from None
        self.check(size == wanted, lambda: f"{said}{dim.text} = {wanted}{self.values(dim)}")

    def fit_int(self, argument: str, value: Any) -> None:
        known = self.dims[argument]
        self.check(
            value == known,
            lambda: f"{self.function}(): argument '{argument}' is {value}, but {argument} = {known}{self.source(argument)}",
        )

    def source(self, name: str, kind: str = "") -> str:
        return f" from argument '{self.origin[kind + name]}'"

    def values(self, dim: _Dim) -> str:
        known = ", ".join(f"{name} = {self.dims[name]}{self.source(name)}" for name in dim.names)
        return f" ({known})" if known else ""

    def empty(self, result: str, tensor: _Tensor, device: Any) -> Any:
        """The result, without its values."""
        torch, begin = _torch(), f"{self.function}(): {result}: "
        shape: list[Any] = []
        if tensor.variable and tensor.variable not in self.types:
            raise ValueError(f"{begin}no argument that was given says what {tensor.variable} is")
        dtype = _dtype(self.types[tensor.variable] if tensor.variable else tensor.choices[0])
        for at, dim in enumerate(tensor.dims):
            if dim.kind == "unknown":
                shape.append(torch.library.get_ctx().new_dynamic_size())
            elif dim.kind == "star":
                if dim.name not in self.stars:
                    raise ValueError(f"{begin}no argument that was given says what *{dim.name} is")
                shape += self.stars[dim.name]
            else:
                shape.append(self.result_size(f"{begin}dimension {at}, {dim.text}, ", dim))
        return torch.empty(shape, dtype=dtype, device=device)

    def result_size(self, said: str, dim: _Dim) -> Any:
        missing = [name for name in dim.names if name not in self.dims]
        if missing:
            raise ValueError(f"{said}has no value: no argument that was given says what {missing[0]} is")
        try:
            size = dim.value(self.dims)
        except ZeroDivisionError:
            raise ValueError(f"{said}has no value in 64 bits{self.values(dim)}") from None
        self.check(size >= 0, lambda: f"{said}is {size}{self.values(dim)}")
        return size


def _list(sizes: Any) -> str:
    return f"[{', '.join(map(str, sizes))}]"


# --------------------------------------------------------------------------------------------------------- operators


class _Operator:
    def __init__(self, function: BuiltinFunctionType, namespace: str) -> None:
        self.function = function
        described = cast("Function", function.__self__)
        self.name = described.name
        self.path = f"{namespace}::{self.name}"
        self.parameters, self.results = described.parameters, described.results
        self.variables = _variables(described.signature)
        self.tensors = {_name(p): _Tensor(p["type"], self.variables) for p in self.parameters if p["kind"] == "tensor"}
        self.outputs = [_Tensor(r["type"], self.variables) if r["kind"] == "tensor" else None for r in self.results]
        used = [*self.tensors.values(), *(output for output in self.outputs if output)]
        names = {name for tensor in used for dim in tensor.dims for name in dim.names if dim.kind != "star"}
        self.sizes = [_name(p) for p in self.parameters if p["kind"] == "int" and p["name"] in names]
        self.written = [_name(p) for p in self.parameters if p["written"]]
        self.backward: Any = self.no_backward
        self.setup: Any = None
        self.check_name(getattr(_torch().ops, namespace))
        self.schema, self.keys = self.make_schema(), self.find_keys()
        self.op: Any = None  # once it is registered

    def check_name(self, namespace: Any) -> None:
        taken = getattr(namespace, self.name, None)
        if isinstance(taken, _torch()._ops.OpOverloadPacket):
            raise ValueError(f"tenon.torch_ops(): torch has an operator {self.path} already; unload() that one first")
        if taken is not None or self.name.startswith("__"):
            raise _Refused("torch keeps this name for itself")

    # ------------------------------------------------------------------------------------------------------- schema

    def make_schema(self) -> str:
        parameters: list[str] = []
        for p in self.parameters:
            if p["keyword_only"] and "*" not in parameters:
                parameters.append("*")
            default = "" if p["default"] is None else f"={_literal(p)}"
            parameters.append(f"{self.schema_type(p)}{'?' if p['optional'] else ''} {p['name']}{default}")
        results = ", ".join(self.result_type(r, output) for r, output in zip(self.results, self.outputs))
        if not self.results and not self.written:
            raise _Refused("it returns nothing and writes nothing, and torch removes such operators from graphs")
        schema = f"{self.name}({', '.join(parameters)}) -> {results if len(self.results) == 1 else f'({results})'}"
        try:
            _torch()._C.parse_schema(schema)
        except RuntimeError as error:
            raise _Refused(f"torch does not take {schema}: {str(error).splitlines()[0]}") from None
        return schema

    def schema_type(self, p: Parameter) -> str:
        if p["kind"] == "tensor":
            # Each has a letter of its own: none is the memory of another.
            return f"Tensor(a{self.written.index(_name(p))}!)" if p["written"] else "Tensor"
        found = _SCALARS.get(p["kind"]) or _LISTS.get(p["kind"])
        if not found:
            raise _Refused(f"argument '{p['name']}' is a {p['kind']}, which operators do not take")
        return found

    def result_type(self, r: Parameter, output: Optional[_Tensor]) -> str:
        if r["optional"]:
            raise _Refused("a result may be None, and torch has to know before the call whether it is")
        if r["kind"] not in _NUMBERS and not output:
            raise _Refused(f"a result is of the type {r['type']}, and operators give tensors")
        if output and not output.variable and _dtype(output.choices[0]) is None:
            raise _Refused(f"a result is of the dtype {output.choices[0]}, which torch does not have")
        return "Tensor"

    def find_keys(self) -> set[str]:
        """Where it is registered: what torch calls the devices that its arguments may lie on."""
        devices: dict[str, list[str]] = {}
        for name, tensor in self.tensors.items():
            words = [word for word in tensor.attributes if word not in ("rw", "c", "f", "dense", "alias") and "(" not in word]
            devices[name] = words or ["cpu"]
        required = [_name(p) for p in self.parameters if p["kind"] == "tensor" and not p["optional"]]
        if not required or any("anywhere" in words for words in devices.values()):
            return {_EVERYWHERE}
        known = {_KEYS[word] for words in devices.values() for word in words if word in _KEYS}
        # torch goes by the first argument that is not on the CPU.
        if any("CPU" not in map(_KEYS.get, devices[name]) for name in required):
            known.discard("CPU")
        if not known:
            raise _Refused(f"it runs on {', '.join(sorted({w for words in devices.values() for w in words}))}, torch does not")
        return known

    # ------------------------------------------------------------------------------------------------ implementations

    def register(self, library: Any) -> None:
        torch = _torch()
        # The function was promised the strides that it sees without a compiler.
        strides = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
        library.define(self.schema, tags=(torch.Tag.pt2_compliant_tag, strides))
        self.op = getattr(getattr(torch.ops, library.ns), self.name).default
        for key in self.keys:
            library.impl(self.name, self.kernel(), key)
        torch.library.register_fake(self.path, self.fake, lib=library)
        if self.undifferentiable():
            self.refuse_gradients(library)
        elif self.tensors:
            torch.library.register_autograd(self.path, self.backward, setup_context=self.setup, lib=library)

    def kernel(self) -> Callable[..., Any]:
        """The function itself, where torch can call it as it is: no Python in between."""
        function = self.function
        torch = _torch()
        numbers = {i: getattr(torch, _NUMBERS[r["kind"]]) for i, r in enumerate(self.results) if r["kind"] in _NUMBERS}
        needs_like = any(self.outputs) and all(p["optional"] for p in self.parameters if p["kind"] == "tensor")
        single = len(self.results) == 1
        named = bool(self.results) and self.results[0]["name"] is not None
        if not (numbers or needs_like or (single and named)):
            return function
        more = {"like": "torch"} if needs_like else {}

        def kernel(*args: Any, **kwargs: Any) -> Any:
            given = function(*args, **kwargs, **more)
            values = given if named or not single else (given,)
            made = tuple(torch.tensor(v, dtype=numbers[i]) if i in numbers else v for i, v in enumerate(values))
            return made[0] if single else made

        return kernel

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        given = self.by_name(args, kwargs)
        bindings = _Bindings(self.name)
        present = {name: given[name] for name in self.tensors if given[name] is not None}
        for p in self.parameters:
            name = _name(p)
            if name in present:
                bindings.bind(name, self.tensors[name], present[name])
            elif name in self.sizes and given[name] is not None:
                bindings.note(bindings.dims, name, given[name], name)
        for p in self.parameters:
            name, value = _name(p), given[_name(p)]
            if name in present:
                bindings.fit(name, self.tensors[name], value)
            elif name in self.sizes and value is not None:
                bindings.fit_int(name, value)
            elif p["kind"] == "enum" and value is not None and value not in p["choices"]:
                raise ValueError(f"{self.name}(): argument '{name}': expected {p['type']}, got {value!r}")
            elif p["count"] is not None and value is not None and len(value) != p["count"]:
                raise ValueError(f"{self.name}(): argument '{name}': expected {p['type']}, got {len(value)} numbers")
        torch = _torch()
        devices = [value.device for value in present.values()]
        device = next((found for found in devices if found.type != "cpu"), torch.device("cpu"))
        made = []
        for i, (r, output) in enumerate(zip(self.results, self.outputs)):
            if output:
                made.append(bindings.empty(f"result '{r['name']}'" if r["name"] else f"result {i}", output, device))
            else:
                made.append(torch.empty((), dtype=getattr(torch, _NUMBERS[r["kind"]])))
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    def by_name(self, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments: torch leaves out those that are equal to their defaults."""
        given = {argument.name: argument.default_value for argument in self.op._schema.arguments}
        given.update(zip(given, args))
        given.update(kwargs)
        return given

    def callable(self) -> Any:
        """The operator; where the results have names, what gives them as the function does."""
        if not self.results or self.results[0]["name"] is None:
            return self.op
        op, single = self.op, len(self.results) == 1
        make: Any = collections.namedtuple(self.name, [_name(r) for r in self.results])  # type: ignore[misc]

        def call(*args: Any, **kwargs: Any) -> Any:
            given = op(*args, **kwargs)
            return make(given) if single else make(*given)

        call.__name__, call.__doc__ = self.name, self.function.__doc__
        return call

    # ----------------------------------------------------------------------------------------------------- gradients

    def undifferentiable(self) -> str:
        """Why torch has no gradients for such an operator; "" where it has."""
        if any(p["keyword_only"] for p in self.parameters if p["kind"] == "tensor"):
            return "takes a tensor by keyword only"
        return "writes to its arguments" if self.written else ""

    def set_backward(self, backward: Backward, others: Mapping[str, _Operator]) -> None:
        why = self.undifferentiable()
        if why:
            raise ValueError(f"tenon.torch_ops(): argument 'backward': {self.name}() {why}: torch has no gradients for it")
        self.backward, self.setup = backward if isinstance(backward, tuple) else (backward, self.save)
        if isinstance(backward, str):
            self.backward = self.library_backward(backward, others)

    def no_backward(self, ctx: Any, *grads: Any) -> Any:
        # Gradients are never lost silently.
        raise RuntimeError(
            f"{self.path} has no backward: give one to tenon.torch_ops(…, backward={{'{self.name}': …}}), or pass x.detach()"
        )

    def save(self, ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Optional[Mapping[str, Any]] = None) -> None:
        given = self.by_name(inputs, keyword_only_inputs or {})
        ctx.save_for_backward(*(given[name] for name in self.tensors))
        ctx.arguments = {name: value for name, value in given.items() if name not in self.tensors}

    def refuse_gradients(self, library: Any) -> None:
        torch, op, name, written, why = _torch(), self.op, self.name, self.written, self.undifferentiable()

        def autograd(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.is_grad_enabled() and torch._C._any_requires_grad(*args, **kwargs):
                raise RuntimeError(
                    f"{name}(): an argument requires grad, and torch has no gradients for a function that {why}; "
                    "pass x.detach() or use torch.no_grad()"
                )
            with torch._C._AutoDispatchBelowAutograd():
                return op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

        def count_writes(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            given = self.by_name(args, kwargs)
            for argument in written:
                if given[argument] is not None:
                    torch.autograd.graph.increment_version(given[argument])
            with torch._C._AutoDispatchBelowADInplaceOrView():
                return op.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *args, **kwargs)

        library.impl(name, autograd, "Autograd", with_keyset=True)
        if written:
            library.impl(name, count_writes, "ADInplaceOrView", with_keyset=True)

    def library_backward(self, name: str, others: Mapping[str, _Operator]) -> Callable[..., Any]:
        """A backward that calls another function of the library."""
        other = others.get(name)
        begin = f"tenon.torch_ops(): argument 'backward': {self.name}(): "
        if not other:
            raise ValueError(f"{begin}the library has no operator {name}()")
        grads = [
            i
            for i, (r, output) in enumerate(zip(self.results, self.outputs))
            if (_has_gradients(output.choices) if output else r["kind"] == "float")
        ]
        followed = [argument for argument, tensor in self.tensors.items() if _has_gradients(tensor.choices)]
        kinds = ["tensor"] * len(grads) + [p["kind"] for p in self.parameters]
        if [p["kind"] for p in other.parameters] != kinds:
            raise ValueError(f"{begin}{name}() has to take the gradients of its results, then its arguments: {', '.join(kinds)}")
        if len(other.results) != len(followed):
            raise ValueError(f"{begin}{name}() has to return the gradients of {', '.join(followed)}, one result each")
        positional = [_name(p) for p in self.parameters if not p["keyword_only"]]
        by_keyword = [p["keyword_only"] for p in other.parameters]
        contiguous = ["c" in other.tensors[_name(p)].attributes for p in other.parameters[: len(grads)]]

        def backward(ctx: Any, *given: Any) -> Any:
            # autograd's own gradients have any strides, such as the zeros of sum()'s: nobody else could copy them.
            values = [given[i].contiguous() if c else given[i] for i, c in zip(grads, contiguous)]
            saved = {**ctx.arguments, **dict(zip(self.tensors, ctx.saved_tensors))}
            values += [saved[_name(p)] for p in self.parameters]
            args = [value for value, keyword in zip(values, by_keyword) if not keyword]
            kwargs = {_name(p): value for p, value in zip(other.parameters, values) if p["keyword_only"]}
            made = other.op(*args, **kwargs)
            found = dict(zip(followed, made if isinstance(made, (tuple, list)) else (made,)))
            return tuple(found.get(argument) if saved[argument] is not None else None for argument in positional)

        return backward


def _name(parameter: Parameter) -> str:
    return parameter["name"] or ""


def _literal(p: Parameter) -> str:
    """A default as torch writes it."""
    text = p["default"] or ""
    if text == "None":
        return text
    if p["kind"] in ("str", "enum"):
        inner = text[1:-1]
        return f"'{inner}'" if '"' in inner else f'"{inner}"'
    if p["kind"] in _LISTS:
        return f"[{text[1:-1].strip().rstrip(',')}]"
    return repr(float(text)) if p["kind"] == "float" else text
