"""The functions of a library as operators of JAX, for jit, vmap, grad and shard_map, through XLA's FFI."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import Any, Callable, NoReturn, Optional, Union, cast

from tenon import _jax_native
from tenon._jax_derivatives import Derivatives
from tenon._jax_trace import PARSING, Signature, jax_module
from tenon._library import Refused, functions_of, make_operators
from tenon._results import named_type

Backward = Union[str, Callable[..., Any]]

TARGET = "tenon1"
CAPTURABLE_TARGET = "tenon1_capturable"
_PROGRAMS = 256  # that one operator keeps: one for each tuple of static values
_OWN_NAMES = ("custom_calls",)  # attributes of JaxOps
_lock = threading.Lock()
_registered: set[tuple[str, str]] = set()  # targets and platforms
# The operators that are in use, by library and arguments: making them again takes milliseconds.
_operators_of: weakref.WeakKeyDictionary[ModuleType, weakref.WeakValueDictionary[Any, JaxOps]]
_operators_of = weakref.WeakKeyDictionary()


def jax_ops(
    kernels: ModuleType,
    *,
    name: Optional[str] = None,
    backward: Optional[Mapping[str, Backward]] = None,
    forward: Optional[Mapping[str, Backward]] = None,
    sharding: str = "raise",
    strict: bool = False,
) -> JaxOps:
    """Make the functions of a loaded library operators of JAX, and return them.

    `backward` maps names of functions to their backward, which is one of these:
    - a function of the same library, or its name. It takes the gradients of the results that are floats, then the
      arguments, and returns the gradients of the arguments that are tensors of floats.
    - a function (residuals, *grads), where residuals has all arguments by name. It returns a tuple with a gradient, or
      None, for each argument that is a tensor of floats.

    `forward` maps names of functions to their derivative in forward mode, a function of the same library, or its name. It
    takes the arguments, then the tangents of those that are tensors of floats, and returns the tangents of the results that
    are floats.

    `sharding` says what a call does with arrays that are sharded, unless their batch can stay where it is: "raise", or
    "replicate", which lets XLA gather them.

    A function that cannot be an operator is left out with a warning, or raises ValueError if `strict` is true.

    Compiled programs refer to a function as "module.function"; `name` replaces the name of the module there.

    Another call with the same arguments returns the same object, as long as it is used.
    """
    jax_module()
    _check_arguments(kernels, backward, forward, sharding, strict, name)
    known = _operators_of.setdefault(kernels, weakref.WeakValueDictionary())
    # The operators hold the functions, so an address stays that of the same function as long as they are used.
    chosen = (
        tuple((key, value if isinstance(value, str) else id(value)) for key, value in (given or {}).items())
        for given in (backward, forward)
    )
    key = (name, sharding, strict, *chosen, *map(id, functions_of(kernels)))
    made = known.get(key)
    if made is None:
        made = known[key] = _make_ops(kernels, backward or {}, forward or {}, sharding, strict, name)
    for left_out, why in vars(made)["_JaxOps__left_out"].items():
        warnings.warn(f"tenon.jax_ops(): {left_out}() is left out: {why}", stacklevel=2)
    return made


def _make_ops(
    kernels: ModuleType,
    backward: Mapping[str, Backward],
    forward: Mapping[str, Backward],
    sharding: str,
    strict: bool,
    name: Optional[str],
) -> JaxOps:
    def make(function: BuiltinFunctionType) -> Operator:
        return Operator(function, kernels, name, sharding)

    operators, left_out = make_operators("tenon.jax_ops()", kernels, make, backward, strict, forward)
    # Nothing is registered with XLA before everything has been checked.
    for target, platform in {pair for operator in operators.values() for pair in operator.targets()}:
        _register_target(target, platform)
    return JaxOps(name or kernels.__name__, operators, left_out)


def _check_arguments(kernels: Any, backward: Any, forward: Any, sharding: Any, strict: Any, name: Any) -> None:
    begin = "tenon.jax_ops(): argument"
    if not isinstance(kernels, ModuleType):
        raise TypeError(f"{begin} 'kernels': expected a module from tenon.load(), got {type(kernels).__name__}")
    for title, given in (("backward", backward), ("forward", forward)):
        if not isinstance(given, (Mapping, type(None))):
            raise TypeError(f"{begin} '{title}': expected a dict, got {type(given).__name__}")
        for key in given or ():
            if not isinstance(key, str):
                raise TypeError(f"{begin} '{title}': expected names of functions as keys, got {key!r}")
    if not isinstance(sharding, str):
        raise TypeError(f"{begin} 'sharding': expected str, got {type(sharding).__name__}")
    if not isinstance(strict, bool):
        raise TypeError(f"{begin} 'strict': expected bool, got {type(strict).__name__}")
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"{begin} 'name': expected str, got {type(name).__name__}")
    if sharding not in ("raise", "replicate"):
        raise ValueError(f"{begin} 'sharding': expected 'raise' or 'replicate', got {sharding!r}")
    if name is not None and not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{begin} 'name': expected a name such as 'package.kernels', got {name!r}")
    if not functions_of(kernels):
        raise ValueError(f"{begin} 'kernels': {kernels!r} has no functions that Tenon loaded")


class JaxOps:
    """The operators of a library, by name. Compiled programs call them by name and content, so there is no close()."""

    custom_calls: tuple[str, ...]  # the targets of XLA, for jax.export.DisabledSafetyCheck.custom_call()
    __name: str
    __names: list[str]
    __left_out: Mapping[str, str]

    def __init__(self, name: str, operators: Mapping[str, Operator], left_out: Mapping[str, str]) -> None:
        own = vars(self)
        own.update({key: operator.callable for key, operator in operators.items()})
        own.update(_JaxOps__name=name, _JaxOps__names=list(operators), _JaxOps__left_out=left_out)
        own["custom_calls"] = tuple(sorted({operator.target for operator in operators.values()}))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self!r} has no operator '{name}'")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} cannot be changed: '{name}' was not set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self!r} cannot be changed: '{name}' was not deleted")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: load the library and call tenon.jax_ops() there")

    # The operators belong to the process, so a copy is the object itself.
    def __copy__(self) -> JaxOps:
        return self

    def __deepcopy__(self, memo: object) -> JaxOps:
        return self

    def __dir__(self) -> list[str]:
        return [*self.__names, "custom_calls"]

    def __repr__(self) -> str:
        if "_JaxOps__names" not in vars(self):
            return "<tenon.JaxOps>"
        return f"<tenon.JaxOps {self.__name}: {', '.join(self.__names) or 'no operators'}>"


# ------------------------------------------------------------------------------------------------------ registration


def _ffi() -> Any:
    """JAX's functions for foreign functions, which were in jax.extend before 0.5."""
    jax = jax_module()
    return importlib.import_module("jax.ffi" if jax.__version_info__ >= (0, 5) else "jax.extend.ffi")


def _api_version() -> tuple[int, int]:
    """The version of XLA's FFI, from the header that comes with jaxlib."""
    found = {"MAJOR": 0, "MINOR": 1}
    header = os.path.join(_ffi().include_dir(), "xla", "ffi", "api", "c_api.h")
    try:
        with open(header, encoding="utf-8") as lines:
            for line in lines:
                words = line.split()
                if len(words) == 3 and words[0] == "#define" and words[1].startswith("XLA_FFI_API_M"):
                    found[words[1].rpartition("_")[2]] = int(words[2])
    except (OSError, ValueError):
        pass  # the oldest one
    return found["MAJOR"], found["MINOR"]


def _probe(platform: str, capturable: bool) -> None:
    """Ask the handler for its version as XLA does. A wrong answer would keep JAX from starting at all."""
    for wanted, with_api in ((_api_version(), True), ((0, 1), False)):
        answer = _jax_native.probe(*wanted, with_api, platform, capturable)[:2]
        if answer != wanted:
            raise RuntimeError(
                f"tenon.jax_ops(): Tenon's handler has version {answer} of XLA's FFI, but JAX {jax_module().__version__} "
                f"needs {wanted}; nothing was registered"
            )


def _register_target(target: str, platform: str) -> None:
    with _lock:
        if (target, platform) in _registered:
            return
        name = "CUDA" if platform == "cuda" else platform
        capturable = target == CAPTURABLE_TARGET and platform == "cuda"
        _probe(name, capturable)
        capsule = _jax_native.handler(name, capturable)
        _ffi().register_ffi_target(target, capsule, platform=name, api_version=1)
        _registered.add((target, platform))


@functools.lru_cache(maxsize=None)
def _platform_check() -> Any:
    """A primitive that returns its operands, and raises when it is lowered for a platform that is not allowed."""
    core = importlib.import_module("jax.extend.core")
    mlir = importlib.import_module("jax.interpreters.mlir")
    primitive = core.Primitive("tenon_platform")
    primitive.multiple_results = True
    primitive.def_impl(lambda *values, refuse: list(values))
    primitive.def_abstract_eval(lambda *avals, refuse: list(avals))

    def lower(context: Any, *values: Any, refuse: Callable[[Sequence[str]], None]) -> Any:
        refuse(context.module_context.platforms)
        return values

    mlir.register_lowering(primitive, lower)
    return primitive


# ------------------------------------------------------------------------------------------------------ one operator


class Operator:
    """One function of a library in JAX."""

    def __init__(self, function: BuiltinFunctionType, kernels: ModuleType, name: Optional[str], sharding: str) -> None:
        self.signature = signature = Signature(function)
        self.name, self.sharding = signature.name, sharding
        self.failure = jax_module().errors.JaxRuntimeError
        self.partitioning = importlib.import_module("tenon._jax_sharding")  # which imports JAX
        if self.name in _OWN_NAMES or self.name.startswith("__"):
            raise Refused("tenon.JaxOps reserves this name")
        capturable = "cuda" in signature.platforms and _jax_native.capturable(signature.function)
        self.target = CAPTURABLE_TARGET if capturable else TARGET
        self.attributes = self.find_attributes(name or signature.function.module)
        self.derivatives = Derivatives(self)
        self.result_type = _result_type(signature, kernels)
        self.program = functools.lru_cache(maxsize=_PROGRAMS)(self.make_program)
        self.callable = self.make_callable(function)

    def find_attributes(self, module: str) -> dict[str, Any]:
        """The attributes by which programs find the function, from now on."""
        full_name = f"{module}.{self.name}"
        try:
            return {"fn": full_name, "hash": _jax_native.register(self.signature.function, full_name)}
        except ValueError as reason:
            raise Refused(str(reason).removeprefix(f"{self.name}(): XLA cannot call it: ")) from None

    def targets(self) -> set[tuple[str, str]]:
        """The targets of XLA that its programs call, each with a platform."""
        return {(self.target, platform) for platform in self.signature.platforms}

    def make_callable(self, function: BuiltinFunctionType) -> Callable[..., Any]:
        """What `ops.f` is: a function with the parameters of the C function."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.call(args, kwargs)

        with PARSING:
            own = inspect.signature(function)
        kept = [p for p in own.parameters.values() if p.name not in ("out", "like")]  # no parameter has these names
        call.__name__ = call.__qualname__ = self.name
        call.__module__, call.__doc__ = function.__module__ or "", function.__doc__
        cast(Any, call).__signature__ = own.replace(parameters=kept)
        return call

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], sums: bool = False) -> Any:
        """Call it. `sums`: it is a derivative, whose results without the batch are sums over it."""
        letters, statics, operands = self.signature.read(args, kwargs)
        self.partitioning.check_eager(operands, **self.sharding_options(letters, statics, operands, sums))
        try:
            return self.program(letters, statics, sums)(*operands)
        except self.failure as error:
            self.partitioning.name_refusal(error, function=self.name)
            raise

    def find_batch(self, letters: str, statics: Sequence[Any], operands: Sequence[Any], sums: bool) -> Any:
        """Which dimensions of the operands and results belong to the batch."""
        signature, places = self.signature, self.signature.operands(letters, statics)
        if not (signature.is_batched or sums):
            return self.partitioning.Batch(0, ((),) * len(places))
        sizes = signature.batch_sizes(letters, [operand.shape for operand in operands])
        known = [one for one in sizes if one is not None]
        rank = max(map(len, known), default=0)
        repeated = [all(_is_one(one[dim - rank]) for one in known if len(one) >= rank - dim) for dim in range(rank)]

        def dims(own: Sequence[Any]) -> tuple[Optional[int], ...]:
            first = rank - len(own)
            return tuple(None if _is_one(x) and not repeated[first + i] else first + i for i, x in enumerate(own))

        found = [dims(one or ()) for one in sizes]
        results: list[Any] = [tuple(range(rank)) if signature.begins_with_batch(one) else None for one in signature.outputs]
        results += [found[k] for k, one in enumerate(places) if one.parameter in signature.written]
        return self.partitioning.Batch(rank, tuple(found), tuple(results))

    def sharding_options(
        self, letters: str, statics: Sequence[Any], operands: Sequence[Any], sums: bool
    ) -> dict[str, Any]:
        batch = self.find_batch(letters, statics, operands, sums)
        names = [self.signature.operand_name(one) for one in self.signature.operands(letters, statics)]
        return {"function": self.name, "names": names, "batch": batch, "mode": self.sharding}

    # --------------------------------------------------------------------------------------------------- composition

    def make_program(self, letters: str, statics: tuple[Any, ...], sums: bool) -> Callable[..., Any]:
        """Return a jitted function of the operands. Under jit, vmap and the like it is traced into the caller."""
        jax = jax_module()
        places = self.signature.operands(letters, statics)
        writes = any(one.parameter in self.signature.written for one in places)
        fixed = [i for i, each in enumerate(self.signature.each) if each < 0 or any(one.parameter == each for one in places)]
        if not fixed and not writes:
            return lambda *operands: self.wrap(letters, statics, ())  # nothing that it could return
        mapped = self.mapped(letters, statics, sums)
        call = self.derivatives.differentiable(mapped, letters, statics, sums) if places else mapped

        def run(*operands: Any) -> Any:
            bindings = self.signature.match_operands(letters, statics, operands)  # with the words of the function
            self.signature.result_types(bindings)
            options = self.sharding_options(letters, statics, operands, sums)
            return self.wrap(letters, statics, call(*self.partitioning.unify(operands, **options)))

        run.__name__ = run.__qualname__ = self.name
        return cast(Callable[..., Any], jax.jit(run, inline=True))

    def list_lengths(self, letters: str, statics: Sequence[Any]) -> dict[int, int]:
        """How many items the lists among the arguments have, by the index of the parameter."""
        values = iter(statics)
        given: list[Any] = [next(values) if letter in "vl" else None for letter in letters]
        return {i: value for i, (letter, value) in enumerate(zip(letters, given)) if letter == "l"}

    def group_results(self, letters: str, statics: Sequence[Any], results: Iterator[Any]) -> list[Any]:
        """The results of the function, with lists."""
        lengths = self.list_lengths(letters, statics)
        return [
            next(results) if each < 0 else [next(results) for _ in range(lengths.get(each, 0))]
            for each in self.signature.each
        ]

    def wrap(self, letters: str, statics: Sequence[Any], results: Sequence[Any]) -> Any:
        """The results in the form that the caller sees. A written argument that was not given is None."""
        left, lengths = iter(results), self.list_lengths(letters, statics)
        made = self.group_results(letters, statics, left)
        for i in self.signature.written:
            if letters[i] == "l":
                made.append([next(left) for _ in range(lengths[i])])
            else:
                made.append(next(left) if letters[i] == "t" else None)
        if self.result_type:
            return self.result_type(*made)
        return made[0] if len(made) == 1 else tuple(made)

    def bare(self, letters: str, statics: tuple[Any, ...]) -> Callable[..., Sequence[Any]]:
        """A function of operands that calls the handler, once."""
        jax, ffi, signature = jax_module(), _ffi(), self.signature
        attributes = {**self.attributes, "args": letters, **self.static_attributes(letters, statics)}
        places = signature.operands(letters, statics)
        column_major = [one.letter == "t" and _is_column_major(signature.inputs[one.parameter]) for one in places]
        written = [k for k, one in enumerate(places) if one.parameter in signature.written]
        lengths = self.list_lengths(letters, statics)
        count = sum(1 if each < 0 else lengths.get(each, 0) for each in signature.each)
        aliases = {k: count + n for n, k in enumerate(written)}
        check = _platform_check()
        refuse = self.platform_refusal(letters)

        def call(*operands: Any) -> Sequence[Any]:
            types = signature.result_types(signature.match_operands(letters, statics, operands))
            made = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in types]
            made += [jax.ShapeDtypeStruct(operands[k].shape, operands[k].dtype) for k in written]
            layouts: dict[str, Any] = {}
            if any(column_major):
                orders = [_column_major_order(x.shape) if f else None for x, f in zip(operands, column_major)]
                layouts = {"input_layouts": orders, "output_layouts": [None] * len(types) + [orders[k] for k in written]}
            call_handler = ffi.ffi_call(self.target, made, input_output_aliases=aliases, **layouts)
            return tuple(check.bind(*call_handler(*operands, **attributes), refuse=refuse))

        return call

    def static_attributes(self, letters: str, statics: Sequence[Any]) -> dict[str, Any]:
        """The static values as XLA takes them, under names that are in the order of the parameters."""
        numpy, values = importlib.import_module("numpy"), iter(statics)
        made: dict[str, Any] = {}
        for i, (p, letter) in enumerate(zip(self.signature.parameters, letters)):
            if letter in "vl":
                value = next(values)
                if letter == "l":
                    value = numpy.int64(value)
                elif p["kind"] == "ints":
                    value = numpy.array(value, numpy.int64)
                elif p["kind"] == "uint":  # by its bits, as the floats below
                    value = numpy.array(value, numpy.uint64).view(numpy.int64)[()]
                elif p["kind"] in ("floats", "complex"):  # by their bits: JAX 0.5 cannot serialise arrays of floats
                    value = numpy.array(value, numpy.float64).view(numpy.int64)
                made[f"v{i:02}"] = value
        return made

    def platform_refusal(self, letters: str) -> Callable[[Sequence[str]], None]:
        """Return a function that raises if the call cannot be compiled for one of several platforms."""
        name, allowed = self.name, self.signature.platforms
        traced = [name for name, letter in zip(self.signature.names, letters) if letter == "s"]

        def refuse(platforms: Sequence[str]) -> None:
            wrong = [platform for platform in platforms if platform not in allowed]
            if wrong:
                only = " and ".join("CUDA" if one == "cuda" else "the CPU" for one in sorted(allowed))
                if len(platforms) > 1:
                    raise ValueError(
                        f"{name}() runs on {only} only, but the program is compiled for {' and '.join(platforms)}; compile it "
                        f"for {' and '.join(sorted(allowed))} only"
                    )
                raise ValueError(
                    f"{name}() runs on {only} only, but it is called on {wrong[0]}; move its arguments there with "
                    f"jax.device_put(), or compile the program for {' or '.join(sorted(allowed))}"
                )
            if traced and any(platform != "cpu" for platform in platforms):
                raise ValueError(
                    f"{name}(): argument '{traced[0]}' is a traced number, which the function cannot read on a GPU; pass a "
                    "Python number"
                )

        return refuse

    def mapped(self, letters: str, statics: tuple[Any, ...], sums: bool) -> Callable[..., Sequence[Any]]:
        """The same for vmap: one call if the mapped arguments begin with the batch, otherwise one call after the other."""
        jax, bare, signature = jax_module(), self.bare(letters, statics), self.signature
        in_batch = self.in_batch(letters, statics)
        digest = hashlib.sha256(repr((self.attributes, letters, statics, sums)).encode()).hexdigest()
        program = f"{self.name}_{digest[:32]}"

        def spread(*operands: Any) -> Sequence[Any]:
            options = self.sharding_options(letters, statics, operands, sums)
            call = self.partitioning.partition(bare, program=program, **options)
            return cast(Sequence[Any], self.partitioning.vary(call(*operands), operands))

        if not in_batch:
            return spread
        call = jax.custom_batching.custom_vmap(spread)

        def rule(size: int, batched: Sequence[bool], *operands: Any) -> Any:
            operands = tuple(map(jax.numpy.asarray, operands))  # one may be a literal of JAX
            if signature.is_batched and all(inside for inside, one in zip(in_batch, batched) if one):
                made = call(*self.enlarge(letters, statics, size, batched, operands))
            else:
                whole = self.partitioning.keep_whole(operands, **self.sharding_options(letters, statics, operands, sums))
                made = _one_after_the_other(call, batched, whole)
            return made, tuple(True for _ in made)

        call.def_vmap(rule)
        return cast(Callable[..., Sequence[Any]], call)

    def in_batch(self, letters: str, statics: Sequence[Any]) -> list[bool]:
        """Whether each operand begins with the batch."""
        places = self.signature.operands(letters, statics)
        return [one.letter == "t" and self.signature.in_batch[one.parameter] for one in places]

    def enlarge(
        self, letters: str, statics: Sequence[Any], size: int, batched: Sequence[bool], operands: Sequence[Any]
    ) -> list[Any]:
        """The operands of one call for a whole vmap: the mapped dimension is the first of the batch.

        The other operands in the batch are repeated, those of `**b` without a copy.
        """
        jnp, copies = jax_module().numpy, cast(Any, self.signature.batch_dim).kind == "star"
        shapes = [x.shape[1:] if one else x.shape for x, one in zip(operands, batched)]
        ranks = [None if one is None else len(one) for one in self.signature.batch_sizes(letters, shapes)]
        most = max((rank for rank in ranks if rank is not None), default=0)

        def enlarged(x: Any, rank: Optional[int], one: bool) -> Any:
            if rank is None or not (one or copies):
                return x
            own = x.shape[1:] if one else x.shape
            return x.reshape(size, *[1] * (most - rank), *own) if one else jnp.broadcast_to(x, (size, *own))

        return [enlarged(*each) for each in zip(operands, ranks, batched)]

    # --------------------------------------------------------------------------------------------------- derivatives

    def set_backward(self, backward: Any, others: Mapping[str, Operator]) -> None:
        self.derivatives.set_backward(backward, {name: other.derivatives for name, other in others.items()})

    def set_forward(self, forward: Any, others: Mapping[str, Operator]) -> None:
        self.derivatives.set_forward(forward, {name: other.derivatives for name, other in others.items()})


# --------------------------------------------------------------------------------------------------------------- helpers


def _result_type(signature: Signature, kernels: ModuleType) -> Any:
    """The type of named results, or None: the library's own if the function writes to no argument."""
    if not signature.results or signature.results[0]["name"] is None:
        return None
    fields = (*(str(r["name"]) for r in signature.results), *(signature.names[i] for i in signature.written))
    name, module = f"{signature.name}_result", signature.function.module
    own = getattr(kernels, name, None)
    return own if getattr(own, "_fields", None) == fields else named_type(module, name, fields)


def _is_column_major(tensor: Any) -> bool:
    return "f" in tensor.attributes and "c" not in tensor.attributes


def _column_major_order(shape: Sequence[Any]) -> Optional[tuple[int, ...]]:
    """The layout as JAX takes it. An empty array has no order, and XLA's compiler may divide by its size."""
    empty = any(isinstance(size, int) and size == 0 for size in shape)
    return None if empty else tuple(range(len(shape)))[::-1]


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _one_after_the_other(call: Callable[..., Any], batched: Sequence[bool], operands: Sequence[Any]) -> Any:
    def one(items: Sequence[Any]) -> Any:
        left = iter(items)
        return call(*(next(left) if b else x for b, x in zip(batched, operands)))

    return jax_module().lax.map(one, tuple(x for b, x in zip(batched, operands) if b))
