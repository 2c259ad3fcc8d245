"""The functions of a library as torch operators, for torch.compile, torch.export and autograd."""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from keyword import iskeyword
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Union, cast

from tenon import _torch_native
from tenon._library import Refused, functions_of, make_operators
from tenon._torch_native import torch_info
from tenon._signature_shapes import Tensor, has_gradients, result_title, short_name
from tenon._torch_autocast import check_autocast, register_autocast
from tenon._torch_direct import make_function, start_watch
from tenon._torch_functorch import has_tangent, library_forward, make_transformed
from tenon._torch_sharding import MODES, Sharding
from tenon._torch_shapes import TorchBindings, torch_dtype, torch_module
from tenon._torch_vmap import find_batch, fit_layout, register_vmap

if TYPE_CHECKING:
    from tenon._native import Function, Parameter

Backward = Union[str, Callable[..., Any], "tuple[Callable[..., Any], Callable[..., Any]]"]
Forward = Union[str, BuiltinFunctionType]

# Results without dimensions.
_NUMBERS = {"int": "int64", "float": "float64", "bool": "bool", "uint": "int64", "complex": "complex128"}
_KEYS = {
    "cpu": "CPU",
    "cuda_host": "CPU",
    "rocm_host": "CPU",
    "cuda": "CUDA",
    "cuda_managed": "CUDA",
    "rocm": "CUDA",  # torch uses one name for both
    "metal": "MPS",
    "oneapi": "XPU",
}
_EVERYWHERE = "CompositeExplicitAutograd"
_OWN_NAMES = ("close", "_namespace", "_library", "_operators", "_remove_kernels")  # attributes of TorchOps
_OWN_NAMESPACES = ("aten", "prim", "prims")
_registered: set[TorchOps] = set()
kernels_in_c = True  # where torch and the function allow it; the tests compare them with the others


def torch_ops(
    kernels: ModuleType,
    *,
    name: Optional[str] = None,
    backward: Optional[Mapping[str, Backward]] = None,
    forward: Optional[Mapping[str, Forward]] = None,
    sharding: str = "raise",
    autocast: Optional[str] = None,
    strict: bool = False,
    direct: bool = True,
) -> TorchOps:
    """Register the functions of a loaded library as operators of torch, torch.ops.<name>.<function>, and return them.

    `name` is the namespace of torch; without it, the name of the library.

    Everything that torch.compile, torch.export and torch.library.opcheck need is derived from the signatures.

    `backward` maps names of functions to their backward, which is one of these:
    - a function (ctx, *grads) that returns a gradient for each positional argument. ctx.saved_tensors are the tensor
      arguments, and ctx.arguments has the other arguments by name.
    - a pair of such a function and torch's setup_context(ctx, inputs, output).
    - a function of the same library, or its name. It takes the gradients of the results, then the arguments, and
      returns the gradients of the tensor arguments.
    The gradients of a list of tensors are a list; ctx.saved_tensors has its items one after the other.

    `forward` maps names of functions to the function of the same library, or its name, that computes tangents. It takes the
    arguments, then the tangents of the arguments that are tensors of floats, and returns the tangents of the results.

    `sharding` says what a call does with a DTensor that is sharded, unless its batch can stay where it is: "raise", or
    "replicate", which lets DTensor gather it.

    `autocast` says what torch.autocast does with arguments of f16, bf16 and f32: it converts them to "f32", "bf16" or "f16", or to
    what the "signature" says. By default they stay as they are.

    A function that cannot be an operator is left out with a warning, or raises ValueError if `strict` is true.

    An attribute of the returned object calls the C function itself, without torch's dispatcher, if torch would do nothing
    else. With direct=False it always calls the operator.
    """
    torch = torch_module()
    if not isinstance(kernels, ModuleType):
        got = type(kernels).__name__
        raise TypeError(f"tenon.torch_ops(): argument 'kernels': expected a module from tenon.load(), got {got}")
    if not functions_of(kernels):
        raise ValueError(f"tenon.torch_ops(): argument 'kernels': {kernels!r} has no functions that Tenon loaded")
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"tenon.torch_ops(): argument 'name': expected str, got {type(name).__name__}")
    namespace = kernels.__name__.replace(".", "_") if name is None else name
    if not re.fullmatch(r"[A-Za-z_]\w*", namespace, re.A) or iskeyword(namespace) or namespace in _OWN_NAMESPACES:
        raise ValueError(
            f"tenon.torch_ops(): argument 'name': expected an identifier that torch does not use, got '{namespace}'"
        )
    if not isinstance(backward, (Mapping, type(None))):
        raise TypeError(f"tenon.torch_ops(): argument 'backward': expected a dict, got {type(backward).__name__}")
    if not isinstance(forward, (Mapping, type(None))):
        raise TypeError(f"tenon.torch_ops(): argument 'forward': expected a dict, got {type(forward).__name__}")
    if not isinstance(sharding, str):
        raise TypeError(f"tenon.torch_ops(): argument 'sharding': expected str, got {type(sharding).__name__}")
    if sharding not in MODES:
        raise ValueError(f"tenon.torch_ops(): argument 'sharding': expected 'raise' or 'replicate', got {sharding!r}")
    check_autocast(autocast)
    for argument, given in (("strict", strict), ("direct", direct)):
        if not isinstance(given, bool):
            raise TypeError(f"tenon.torch_ops(): argument '{argument}': expected bool, got {type(given).__name__}")

    def make(function: BuiltinFunctionType) -> _Operator:
        return _Operator(function, namespace)

    operators, left_out = make_operators("tenon.torch_ops()", kernels, make, backward or {}, strict, forward or {})
    for key, why in left_out.items():
        warnings.warn(f"tenon.torch_ops(): {key}() is left out: {why}", stacklevel=2)
    direct = direct and torch_info()["direct"] == "on" and start_watch() is not None
    # Nothing is registered before everything has been checked.
    rules = Sharding(operators, sharding)
    library = torch.library.Library(namespace, "FRAGMENT")
    try:
        for operator in operators.values():
            operator.register(library, rules)
            register_autocast(operator, library, autocast, own_error)
        rules.update()
        made = {key: operator.callable(direct) for key, operator in operators.items()}
    except BaseException:
        for operator in operators.values():
            operator.remove_kernels_in_c()
        library._destroy()
        raise
    registered = TorchOps(namespace, library, made)
    registered._remove_kernels = [rules.close, *(operator.remove_kernels_in_c for operator in operators.values())]
    return registered


class TorchOps:
    """The operators of a library, by name. They stay registered until close().

    They outlive this object, because torch and the graphs that it has compiled call them by address."""

    def __init__(self, namespace: str, library: Any, operators: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._library = library
        self._operators = dict(operators)
        vars(self).update(self._operators)
        self._remove_kernels: list[Callable[[], None]] = []  # those in C
        _registered.add(self)

    if TYPE_CHECKING:  # a real __getattr__ would make each use of an operator slower

        def __getattr__(self, name: str) -> Any: ...

    # torch has one copy of the operators, so there is one object for them.
    def __copy__(self) -> TorchOps:
        return self

    def __deepcopy__(self, memo: object) -> TorchOps:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: load the library and call tenon.torch_ops() there")

    def __dir__(self) -> list[str]:
        return [*self._operators, "close"]

    def __repr__(self) -> str:
        empty = "closed" if self._library is None else "no operators"
        return f"<tenon.TorchOps {self._namespace}: {', '.join(self._operators) or empty}>"

    def __enter__(self) -> TorchOps:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the operators from torch. Calling one afterwards, as a compiled graph may, ends the process."""
        for name in self._operators:
            vars(self).pop(name, None)
        self._operators.clear()
        library, self._library = self._library, None
        for remove in self._remove_kernels:
            remove()
        if library is not None:
            library._destroy()  # before 2.15, a library that is only dropped leaves its names in torch.ops
        _registered.discard(self)
        self.__class__ = _ClosedOps


class _ClosedOps(TorchOps):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self!r} has no operator '{name}'")


def own_error(error: RuntimeError, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Exception:
    """What the function itself raises. A kernel in C can only raise a RuntimeError."""
    message, own, matched, _ = _torch_native.kernel_failure()
    if message != str(error):
        return error
    if not matched:  # it has not run, and refuses the arguments again; gradients are the operator's concern
        torch = torch_module()
        try:
            with torch.no_grad():
                function(*args, **kwargs)
        except Exception as raised:
            # Tensors of a subclass or of a transform are refused for what they are: torch has unwrapped them for the kernel.
            if str(raised) == message or all(map(_is_plain, (x for value in (*args, *kwargs.values()) for x in _flat(value)))):
                return raised.with_traceback(None)
    return error if own is RuntimeError else own(message)


# ------------------------------------------------------------------------------------------------------ one operator


class _Operator:
    def __init__(self, function: BuiltinFunctionType, namespace: str) -> None:
        self.function = function
        described = cast("Function", function.__self__)
        self.name = described.name
        self.path = f"{namespace}::{self.name}"
        self.parameters, self.results = described.parameters, described.results
        tensors = [Tensor(one) if one else None for one in described.tensors]
        self.tensors = {_name(p): tensor for p, tensor in zip(self.parameters, tensors) if tensor}
        self.lists = {_name(p) for p in self.parameters if p["kind"] == "tensors"}
        self.outputs = tensors[len(self.parameters) :]
        used = [*self.tensors.values(), *(output for output in self.outputs if output)]
        names = {name for tensor in used for dim in tensor.dims for name in dim.names}
        self.sizes = [_name(p) for p in self.parameters if p["kind"] == "int" and p["name"] in names]
        defaults = {_name(p): ast.literal_eval(p["default"] or "None") for p in self.parameters if p["kind"] == "dtype"}
        self.dtypes = {name: torch_dtype(short_name(value)) for name, value in defaults.items() if value}
        self.variables = {tensor.variable: tensor.choices for tensor in used if tensor.variable}
        self.converts = any("convert" in tensor.attributes for tensor in self.tensors.values())
        self.written = [_name(p) for p in self.parameters if p["written"]]
        self.batched = {name for name, tensor in self.tensors.items() if tensor.has_batch}
        self.positional = [_name(p) for p in self.parameters if not p["keyword_only"]]
        self.batch = find_batch(self.tensors, self.outputs, self.written)
        self.backward: Any = self.no_backward
        self.forward: Any = None  # a function (arguments, tangents), both by name
        self.setup: Any = None
        self.check_name(getattr(torch_module().ops, namespace))
        self.schema, self.keys = self.make_schema(), self.find_keys()
        self.backward_name = ""  # if it is a function of the library
        self.rules: Any = None  # for DTensor
        self.op: Any = None  # once it is registered
        self.call: Any = None
        self.place = -1  # of its kernels in C
        self.library_backward_call: Any = None  # (operator, its parameters for the gradients, arguments that have gradients)
        self.undo_skip: Optional[Callable[[], None]] = None  # restores the function that torch.ops calls

    def check_name(self, namespace: Any) -> None:
        taken = getattr(namespace, self.name, None)
        if isinstance(taken, torch_module()._ops.OpOverloadPacket):
            raise ValueError(f"tenon.torch_ops(): torch already has an operator {self.path}; close() that one first")
        if taken is not None or self.name.startswith("__"):
            raise Refused("torch reserves this name")
        if self.name in _OWN_NAMES:
            raise Refused("tenon.TorchOps reserves this name")

    # ------------------------------------------------------------------------------------------------------- schema

    def make_schema(self) -> str:
        try:
            schema = _torch_native.schema(cast("Function", self.function.__self__))
        except ValueError as reason:
            raise Refused(str(reason)) from None
        for output in self.outputs:
            if output and not output.variable and torch_dtype(output.choices[0]) is None:
                raise Refused(f"a result is of dtype {output.choices[0]}, which torch does not have")
        try:
            torch_module()._C.parse_schema(schema)
        except RuntimeError as error:
            raise Refused(f"torch does not accept {schema}: {str(error).splitlines()[0]}") from None
        return schema

    def find_keys(self) -> set[str]:
        """The dispatch keys to register it for: torch's names for the devices that its arguments may be on."""
        devices = {name: tensor.devices for name, tensor in self.tensors.items()}
        required = [_name(p) for p in self.parameters if p["kind"] == "tensor" and not p["optional"]]
        if not required or any("anywhere" in words for words in devices.values()):
            return {_EVERYWHERE}
        known = {_KEYS[word] for words in devices.values() for word in words if word in _KEYS}
        # torch dispatches on the first argument that is not on the CPU.
        if any("CPU" not in map(_KEYS.get, devices[name]) for name in required):
            known.discard("CPU")
        if not known:
            raise Refused(f"an argument is on {'|'.join(devices[required[0]])}, where torch has no tensors")
        return known

    # ------------------------------------------------------------------------------------------------ implementations

    def register(self, library: Any, rules: Sharding) -> None:
        torch, self.rules = torch_module(), rules
        # The function expects the strides that it would see without a compiler.
        strides = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
        library.define(self.schema, tags=(torch.Tag.pt2_compliant_tag, strides))
        self.op = getattr(getattr(torch.ops, library.ns), self.name).default
        for key in self.keys - self.add_kernels_in_c(library.ns):
            library.impl(self.name, self.kernel(), key)
        torch.library.register_fake(self.path, self.fake, lib=library)
        register_vmap(self, library)
        if self.tensors:
            self.resolve_views(library)
        if self.undifferentiable():
            self.refuse_gradients(library)
        elif self.tensors:
            self.register_gradients(library)

    def add_kernels_in_c(self, namespace: str) -> set[str]:
        """Register kernels that run without Python, and return the keys that have one."""
        wanted = self.keys & {"CPU", "CUDA"} if kernels_in_c else set()
        if not wanted:
            return wanted
        function = cast("Function", self.function.__self__)
        self.place, *done = _torch_native.kernel_add(function, namespace, "CPU" in wanted, "CUDA" in wanted)
        return {key for key, there in zip(("CPU", "CUDA"), done) if there}

    def remove_kernels_in_c(self) -> None:
        undo, self.undo_skip = self.undo_skip, None
        if undo:
            undo()
        if self.place >= 0:
            _torch_native.kernel_remove(self.place)
        self.place = -1

    def kernel(self) -> Callable[..., Any]:
        """The function itself if torch can call it directly, without Python code in between. Operators do not convert."""
        function = cast("Function", self.function.__self__).exact if self.converts else self.function
        torch = torch_module()
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

    def resolve_views(self, library: Any) -> None:
        """Resolve ZeroTensors, and for an operator that writes conjugate and negated views, too.

        torch's own kernel makes a tensor with strides of 0 of a ZeroTensor, which a signature with `c` refuses. Those for views
        are for operators that return the tensor that they wrote to: after any other operator they write to memory that is not
        theirs."""
        torch, op, run = torch_module(), self.op, self.kernel()

        def register(key: str, what: str, has_bit: Callable[[Any], bool], resolve: Callable[[Any], Any]) -> None:
            after = torch._C._dispatch_keyset_full_after(torch._C._dispatch_key_parse(key))

            def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
                given = self.by_name(args, kwargs)
                found = {name for name in self.tensors if any(map(has_bit, _flat(given[name])))}
                for name in found.intersection(self.written):
                    if all(type(tensor) is torch.Tensor for tensor in _flat(given[name])):
                        return run(*args, **kwargs)  # the function refuses it
                    raise BufferError(
                        f"{self.name}(): argument '{name}': the function cannot write to {what}; pass x.{resolve.__name__}()"
                    )
                fits = {name: functools.partial(fit_layout, self.tensors[name]) for name in found}
                resolved = {name: _map(fit, _map(resolve, given[name])) for name, fit in fits.items()}
                args = tuple(resolved.get(name, value) for name, value in zip(given, args))
                kwargs = {name: resolved.get(name, value) for name, value in kwargs.items()}
                return op.redispatch(keyset & after, *args, **kwargs)

            library.impl(self.name, kernel, key, with_keyset=True)

        if self.written:
            register("Conjugate", "a conjugate view", torch.Tensor.is_conj, torch.Tensor.resolve_conj)
            register("Negative", "a negated view", torch.Tensor.is_neg, torch.Tensor.resolve_neg)
        register("ZeroTensor", "a ZeroTensor", torch.Tensor._is_zerotensor, torch.Tensor.clone)

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        given = self.by_name(args, kwargs)
        bindings = TorchBindings(self.name)
        present = {name: given[name] for name in self.tensors if given[name] is not None}
        for p in self.parameters:
            name = _name(p)
            if name in present:
                for label, value in _items(name, present[name]):
                    bindings.bind(label, self.tensors[name], value)
            elif name in self.sizes and given[name] is not None:
                bindings.note(bindings.dims, name, given[name], name)
            elif p["kind"] == "dtype" and given[name] is not None:
                bindings.bind_dtype(name, p["type"], given[name])
        for p in self.parameters:
            name, value = _name(p), given[_name(p)]
            if name in present:
                for label, item in _items(name, value):
                    bindings.fit(label, self.tensors[name], item)
            elif name in self.sizes and value is not None:
                bindings.fit_int(name, value)
            elif p["kind"] == "dtype" and value is not None:
                bindings.fit_dtype(name, p["type"], value, self.variables)
            elif p["kind"] == "uint" and value is not None and value < 0:
                message = "expected an integer from 0 to 2**64 - 1, got a negative one"
                raise OverflowError(f"{self.name}(): argument '{name}': {message}")
            if p["choices"] and value is not None and value not in p["choices"]:
                raise ValueError(f"{self.name}(): argument '{name}': expected {p['type']}, got {value!r}")
            elif p["count"] is not None and value is not None and len(value) != p["count"]:
                raise ValueError(f"{self.name}(): argument '{name}': expected {p['type']}, got {len(value)} "
                                 f"number{'s' * (len(value) != 1)}")
        torch = torch_module()
        devices = [tensor.device for value in present.values() for tensor in _flat(value)]
        device = next((found for found in devices if found.type != "cpu"), torch.device("cpu"))
        made: list[Any] = []
        for i, (r, output) in enumerate(zip(self.results, self.outputs)):
            title = result_title(i, r["name"])
            if output and output.each:
                source, items = self.tensors[output.each], present.get(output.each, ())
                made.append([bindings.empty(title, output, device, source, item.shape) for item in items])
            elif output:
                made.append(bindings.empty(title, output, device))
            else:
                made.append(torch.empty((), dtype=getattr(torch, _NUMBERS[r["kind"]])))
        return None if not made else made[0] if len(made) == 1 else tuple(made)

    def by_name(self, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by name. torch leaves out those that are equal to their defaults."""
        given = {argument.name: argument.default_value for argument in self.op._schema.arguments}
        given.update(self.dtypes)
        given.update(zip(given, args))
        given.update(kwargs)
        return given

    def with_own_errors(self) -> Any:
        """The operator, wrapped if it has kernels in C, so that it raises what the function does."""
        if self.place < 0:
            return self.op
        op, function, is_compiling = self.op, self.function, torch_module().compiler.is_compiling

        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return op(*args, **kwargs)
            self.rules.update()  # inference mode does not call the Autograd kernel, which does it too
            try:
                return op(*args, **kwargs)
            except RuntimeError as error:
                raise own_error(error, function, args, kwargs) from None

        call.__name__, call.__doc__ = self.name, self.function.__doc__
        return call

    def callable(self, direct: bool) -> Callable[..., Any]:
        """What `ops.f` is: a function with the parameters of the C function."""
        self.call = function = make_function(self, direct and not self.lists)
        return function

    # ----------------------------------------------------------------------------------------------------- gradients

    def undifferentiable(self) -> str:
        """Why torch does not support gradients for such an operator, or ""."""
        if any(p["keyword_only"] for p in self.parameters if p["kind"] in ("tensor", "tensors")):
            return "takes a tensor by keyword only"
        return "writes to its arguments" if self.written else ""

    def set_backward(self, backward: Backward, others: Mapping[str, _Operator]) -> None:
        why = self.undifferentiable()
        if why:
            raise ValueError(f"tenon.torch_ops(): argument 'backward': torch does not support a backward for {self.name}(), which {why}")
        if isinstance(backward, str):
            self.backward_name = backward
            backward = self.library_backward(backward, others)
        pair = backward if isinstance(backward, tuple) else (backward, self.save)
        if len(pair) != 2 or not all(callable(part) and not isinstance(part, type) for part in pair):
            raise TypeError(
                f"tenon.torch_ops(): argument 'backward': {self.name}(): expected a function, the name of a function "
                f"of the library, or a pair of functions, got {backward!r}"
            )
        self.backward, self.setup = pair if not self.batched else self.summed(*pair)

    def summed(self, backward: Callable[..., Any], setup: Callable[..., None]) -> tuple[Callable[..., Any], Callable[..., None]]:
        """A backward whose gradients have the shape of the batch, for arguments that were broadcast."""
        positional = [_name(p) for p in self.parameters if not p["keyword_only"]]

        def remember(ctx: Any, inputs: Any, output: Any, **more: Any) -> None:
            ctx.batched_shapes = [
                value.shape if name in self.batched and value is not None else None for name, value in zip(positional, inputs)
            ]
            setup(ctx, inputs, output, **more)

        def call(ctx: Any, *grads: Any) -> Any:
            made = backward(ctx, *grads)
            given = made if isinstance(made, tuple) else (made,)
            if len(given) != len(ctx.batched_shapes):
                return made  # torch says what is wrong
            return tuple(
                grad if grad is None or shape is None else grad.sum_to_size(shape) for grad, shape in zip(given, ctx.batched_shapes)
            )

        return call, remember

    def no_backward(self, ctx: Any, *grads: Any) -> Any:
        # Gradients are never lost silently.
        raise RuntimeError(f"{self.path} has no backward; pass one to tenon.torch_ops(), or pass x.detach()")

    def save(self, ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Optional[Mapping[str, Any]] = None) -> None:
        given = self.by_name(inputs, keyword_only_inputs or {})
        values = [given[name] for name in self.tensors]
        ctx.save_for_backward(*(tensor for value in values for tensor in (value if _is_list(value) else (value,))))
        ctx.arguments = {name: value for name, value in given.items() if name not in self.tensors}
        if self.lists:
            ctx.lengths = [len(value) if _is_list(value) else -1 for value in values]

    def saved(self, ctx: Any) -> dict[str, Any]:
        """All arguments of the forward pass by name."""
        values: list[Any] = list(ctx.saved_tensors)
        if self.lists:
            flat, values = iter(values), []
            for length in ctx.lengths:
                values.append(next(flat) if length < 0 else [next(flat) for _ in range(length)])
        return {**ctx.arguments, **dict(zip(self.tensors, values))}

    def register_gradients(self, library: Any) -> None:
        """As torch.library.register_autograd does, but report what that would silently lose."""
        torch, forward_ad = torch_module(), torch_module().autograd.forward_ad
        try:
            info = torch._library.autograd.Info(self.backward, self.setup)
            record = torch._library.autograd.make_autograd_impl(self.op, info)
            in_functorch = torch._C._are_functorch_transforms_active
        except AttributeError:  # this torch has moved them
            torch.library.register_autograd(self.path, self.backward, setup_context=self.setup, lib=library)
            return

        transformed = make_transformed(self)

        def autograd(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            self.rules.update()
            transforms = in_functorch()
            if (transforms or forward_ad._current_level >= 0) and has_tangent(one for value in args for one in _flat(value)):
                if not self.forward:
                    self.refuse_tangents()
                return transformed(keyset, *args, **kwargs)
            if not transforms:
                return record(keyset, *args, **kwargs)
            followed = (getattr(tensor, "requires_grad", False) for value in args for tensor in _flat(value))
            if torch.is_grad_enabled() and any(followed):
                return transformed(keyset, *args, **kwargs)
            return self.below_autograd(keyset, args, kwargs)

        library.impl(self.name, autograd, "Autograd", with_keyset=True)

    def below_autograd(self, keyset: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        torch = torch_module()
        with torch._C._AutoDispatchBelowAutograd():
            return self.op.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    def refuse_tangents(self) -> NoReturn:
        advice = "pass unpack_dual(x).primal"
        if not self.undifferentiable():
            advice = f"pass forward={{'{self.name}': ...}} to tenon.torch_ops(), or {advice}"
        raise RuntimeError(
            f"{self.name}(): an argument carries a tangent (torch.func.jvp, torch.autograd.forward_ad), but the operator has no "
            f"forward mode; {advice}"
        )

    def set_forward(self, forward: Forward, others: Mapping[str, _Operator]) -> None:
        why = self.undifferentiable()
        if why:
            raise ValueError(f"tenon.torch_ops(): argument 'forward': torch does not support it for {self.name}(), which {why}")
        if not isinstance(forward, str):  # make_operators() replaces functions of the library by their names
            raise TypeError(
                f"tenon.torch_ops(): argument 'forward': {self.name}(): expected a function of the library or its name, got {forward!r}"
            )
        self.forward = library_forward(self, forward, others)

    def refuse_gradients(self, library: Any) -> None:
        torch, op, name, written, why = torch_module(), self.op, self.name, self.written, self.undifferentiable()
        forward_ad, in_functorch = torch.autograd.forward_ad, torch._C._are_functorch_transforms_active

        def autograd(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            self.rules.update()
            given = self.by_name(args, kwargs)
            if forward_ad._current_level >= 0 or in_functorch():
                if has_tangent(tensor for value in given.values() for tensor in _flat(value)):
                    self.refuse_tangents()
            followed = any(tensor.requires_grad for argument in self.tensors for tensor in _flat(given[argument]))
            if followed and torch.is_grad_enabled():
                raise RuntimeError(
                    f"{name}(): an argument requires grad, but torch supports no gradients for a function that {why}; "
                    "pass x.detach() or use torch.no_grad()"
                )
            return self.below_autograd(keyset, args, kwargs)

        def count_writes(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            given = self.by_name(args, kwargs)
            present = [tensor for argument in written for tensor in _flat(given[argument])]
            tensors = [tensor for tensor in present if not tensor.is_inference()]  # those have no version
            versions = [tensor._version for tensor in tensors]
            try:
                with torch._C._AutoDispatchBelowADInplaceOrView():
                    made = op.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *args, **kwargs)
            except Exception as error:
                message, _, _, ran = _torch_native.kernel_failure()
                if ran and message == str(error):  # what a kernel in C has written counts, even if it failed
                    count(tensors, versions)
                raise
            count(tensors, versions)
            return made

        def count(tensors: list[Any], versions: list[int]) -> None:
            for tensor, version in zip(tensors, versions):
                if tensor._version == version:  # a Python kernel counts its own writes, if it runs
                    torch.autograd.graph.increment_version(tensor)

        library.impl(name, autograd, "Autograd", with_keyset=True)
        if written:
            library.impl(name, count_writes, "ADInplaceOrView", with_keyset=True)

    def library_backward(self, name: str, others: Mapping[str, _Operator]) -> Callable[..., Any]:
        """Return a backward that calls another function of the library."""
        other = others.get(name)
        begin = f"tenon.torch_ops(): argument 'backward': {self.name}(): "
        if not other:
            raise ValueError(f"{begin}the library has no operator {name}()")
        grads = [
            i
            for i, (r, output) in enumerate(zip(self.results, self.outputs))
            if (has_gradients(output.choices) if output else r["kind"] == "float")
        ]
        followed = [argument for argument, tensor in self.tensors.items() if has_gradients(tensor.choices)]
        kinds = [self.results[i]["kind"] if self.outputs[i] else "tensor" for i in grads]
        kinds += [p["kind"] for p in self.parameters]
        if [p["kind"] for p in other.parameters] != kinds:
            takes = f"the gradients of its results, then its arguments: {', '.join(kinds)}"
            raise ValueError(f"{begin}{name}() must take {takes}")
        if len(other.results) != len(followed):
            raise ValueError(f"{begin}{name}() must return the gradients of {', '.join(followed)}, one result each")
        positional = [_name(p) for p in self.parameters if not p["keyword_only"]]
        by_keyword = [p["keyword_only"] for p in other.parameters]
        types = [other.tensors[_name(p)] for p in other.parameters[: len(grads)]]
        self.library_backward_call = None if self.batched else (other, dict(zip(grads, types)), followed)

        def backward(ctx: Any, *given: Any) -> Any:
            # autograd's gradients may have any strides (sum() expands one number), and only this code can copy them.
            values = [_map(functools.partial(fit_layout, tensor), given[i]) for i, tensor in zip(grads, types)]
            saved = self.saved(ctx)
            values += [saved[_name(p)] for p in self.parameters]
            args = [value for value, keyword in zip(values, by_keyword) if not keyword]
            kwargs = {_name(p): value for p, value in zip(other.parameters, values) if p["keyword_only"]}
            made = other.call(*args, **kwargs)
            found = dict(zip(followed, made if len(followed) > 1 or isinstance(made, tuple) else (made,)))
            return tuple(found.get(argument) if saved[argument] is not None else None for argument in positional)

        return backward


def _name(parameter: Parameter) -> str:
    return parameter["name"] or ""


# --------------------------------------------------------------------------------------------------------------- lists


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _flat(value: Any) -> Iterable[Any]:
    """The tensors of an argument: itself, or the items of a list; none of None."""
    return () if value is None else value if _is_list(value) else (value,)


def _is_plain(value: Any) -> bool:
    torch = torch_module()
    wrapped = isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value)
    return not wrapped and (not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter))


def _map(change: Callable[[Any], Any], value: Any) -> Any:
    return [change(item) for item in value] if _is_list(value) else change(value)


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors of an argument with their names in messages."""
    if not _is_list(value):
        yield name, value
        return
    for i, item in enumerate(value):
        yield f"{name}[{i}]", item
