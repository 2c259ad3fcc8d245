"""Derivatives of JAX operators, in both modes.

An operator is a primitive, `tenon_call`. It is not a jax.custom_jvp, whose rule JAX drops from the parts of a `scan` that it
evaluates first, so that the second derivative would be lost. Its rule returns tangents as another primitive,
`tenon_tangents`, which is linear in the tangents of the arguments. Evaluated, in forward mode, it is the function that `forward=` gives. Transposed, in reverse
mode, it is the one that `backward=` gives. So both can be used with the same operator, and either can be missing.

If a batch is one call, so is the tangent of a vmap: the mapped dimension joins the batch before anything is transposed. The
gradient of an argument without the batch, such as a weight, is then summed by that one call.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Optional

from tenon._jax_trace import Operand, jax_module
from tenon._library import is_function
from tenon._signature_shapes import has_gradients, short_name, size_list

if TYPE_CHECKING:
    from tenon._jax_ops import Operator

Arrays = Sequence[Any]


# ------------------------------------------------------------------------------------------------------ the primitives


class _Call:
    """What an operator computes, and its derivative."""

    def __init__(
        self, call: Callable[..., Arrays], derive: Callable[[Arrays, Sequence[int], Arrays], tuple[Arrays, Arrays]]
    ) -> None:
        self.call = call
        self.derive = derive  # (operands, which have tangents, tangents) -> results, and the tangents of those that are floats

    def bind(self, operands: Arrays) -> list[Any]:
        """Return its results, as one operation of the program."""
        operands = _arrays(operands)
        made = jax_module().make_jaxpr(lambda *args: tuple(self.call(*args)))(*operands)
        bound: list[Any] = _calls().bind(*operands, program=made, call=self)
        return bound

    def mapped(self, size: int, batched: Sequence[bool]) -> _Call:
        """The same for each item of a vmap."""
        vmap, axes = jax_module().vmap, [0 if one else None for one in batched]

        def call(*operands: Any) -> Arrays:
            made: Arrays = vmap(lambda *args: tuple(self.call(*args)), in_axes=axes, axis_size=size)(*operands)
            return made

        def derive(operands: Arrays, moving: Sequence[int], tangents: Arrays) -> tuple[Arrays, Arrays]:
            def one(operands: Arrays, tangents: Arrays) -> Any:
                results, moved = self.derive(operands, moving, tangents)
                return tuple(results), tuple(moved)

            made: tuple[Arrays, Arrays] = vmap(one, in_axes=(axes, [axes[i] for i in moving]), axis_size=size)(
                list(operands), list(tangents)
            )
            return made

        return _Call(call, derive)


@functools.lru_cache(maxsize=None)
def _calls() -> Any:
    core, ad, batching, mlir = _jax_internals()
    primitive = core.Primitive("tenon_call")
    primitive.multiple_results = True

    def evaluate(*operands: Any, program: Any, call: _Call) -> Any:
        return core.jaxpr_as_fun(program)(*operands)

    def differentiate(primals: Arrays, tangents: Arrays, *, program: Any, call: _Call) -> Any:
        moving = [i for i, one in enumerate(tangents) if type(one) is not ad.Zero and _is_inexact(one)]
        if not moving:
            results = primitive.bind(*primals, program=program, call=call)
            return results, [ad.Zero(_tangent_type(x)) for x in results]
        results, moved = call.derive(primals, moving, [tangents[i] for i in moving])
        left = iter(moved)
        return list(results), [next(left) if _is_inexact(x) else ad.Zero(_tangent_type(x)) for x in results]

    def batch(operands: Arrays, dims: Sequence[Any], *, program: Any, call: _Call) -> Any:
        jnp, operands = jax_module().numpy, _arrays(operands)
        batched = [type(dim) is int for dim in dims]
        size = next(x.shape[dim] for x, dim in zip(operands, dims) if type(dim) is int)
        moved = [jnp.moveaxis(x, dim, 0) if one else x for x, dim, one in zip(operands, dims, batched)]
        made = call.mapped(size, batched).bind(moved)
        return made, [0] * len(made)

    primitive.def_impl(evaluate)
    primitive.def_abstract_eval(lambda *operands, program, call: program.out_avals)
    mlir.register_lowering(primitive, mlir.lower_fun(evaluate, multiple_results=True))
    ad.primitive_jvps[primitive] = differentiate
    batching.primitive_batchers[primitive] = batch
    return primitive


def _jax_internals() -> list[Any]:
    names = ("jax.extend.core", "jax.interpreters.ad", "jax.interpreters.batching", "jax.interpreters.mlir")
    return list(map(importlib.import_module, names))


class _Linear(NamedTuple):
    """A linear function of tangents, for given residuals, and its transpose."""

    evaluate: Callable[[Arrays, Arrays], Arrays]  # (residuals, tangents)
    # (residuals, cotangents or None, which are wanted) -> cotangents or None
    transpose: Callable[[Arrays, Arrays, Sequence[bool]], Arrays]
    # (size, batched, residuals, batched tangents, tangents) -> residuals and tangents of a larger batch; None if it cannot be one
    enlarge: Callable[[int, Sequence[bool], Arrays, Sequence[bool], Arrays], Optional[tuple[Arrays, Arrays]]]
    refusal: str  # why it cannot be evaluated, or ""

    def bind(self, residuals: Arrays, tangents: Arrays) -> list[Any]:
        """Return its value, as one operation of the program."""
        operands, count = _arrays((*residuals, *tangents)), len(residuals)
        made = jax_module().make_jaxpr(lambda *args: tuple(self.evaluate(args[:count], args[count:])))(*operands)
        bound: list[Any] = _tangents().bind(*operands, program=made, linear=self, count=count)
        return bound

    def refuse(self) -> None:
        if self.refusal:
            raise TypeError(self.refusal)


@functools.lru_cache(maxsize=None)
def _tangents() -> Any:
    core, ad, batching, mlir = _jax_internals()
    primitive = core.Primitive("tenon_tangents")
    primitive.multiple_results = True

    def evaluate(*operands: Any, program: Any, linear: _Linear, count: int) -> Any:
        linear.refuse()
        return core.jaxpr_as_fun(program)(*operands)

    def transpose(cotangents: Arrays, *operands: Any, program: Any, linear: _Linear, count: int) -> list[Any]:
        wanted = [ad.is_undefined_primal(one) for one in operands[count:]]
        given = [None if type(one) is ad.Zero else one for one in cotangents]
        made = linear.transpose(_arrays(operands[:count]), given, wanted)
        return [None] * count + [one if is_wanted else None for one, is_wanted in zip(made, wanted)]

    def differentiate(primals: Arrays, moved: Arrays, *, program: Any, linear: _Linear, count: int) -> Any:
        made = primitive.bind(*primals, program=program, linear=linear, count=count)
        whole = [ad.instantiate_zeros(one) for one in moved]
        if all(type(one) is ad.Zero for one in moved[:count]):
            return made, linear.bind(primals[:count], whole[count:])
        linear.refuse()
        second = jax_module().jvp(lambda *args: linear.evaluate(args[:count], args[count:]), tuple(primals), tuple(whole))[1]
        return made, list(second)

    def batch(operands: Arrays, dims: Sequence[Any], *, program: Any, linear: _Linear, count: int) -> Any:
        jnp, operands = jax_module().numpy, _arrays(operands)
        batched = [type(dim) is int for dim in dims]
        size = next(x.shape[dim] for x, dim in zip(operands, dims) if type(dim) is int)
        moved = [jnp.moveaxis(x, dim, 0) if one else x for x, dim, one in zip(operands, dims, batched)]
        residuals, tangents = moved[:count], moved[count:]
        larger = linear.enlarge(size, batched[:count], residuals, batched[count:], tangents)
        made = linear.bind(*larger) if larger else _mapped(linear, size, batched, count).bind(residuals, tangents)
        return made, [0] * len(made)

    primitive.def_impl(evaluate)
    primitive.def_abstract_eval(lambda *operands, program, linear, count: program.out_avals)
    mlir.register_lowering(primitive, mlir.lower_fun(evaluate, multiple_results=True))
    ad.primitive_jvps[primitive] = differentiate
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    return primitive


def _mapped(linear: _Linear, size: int, batched: Sequence[bool], count: int) -> _Linear:
    """The same function for each item of a vmap. The cotangent of a tangent that all items share is a sum."""
    vmap = jax_module().vmap
    axes = [0 if one else None for one in batched]

    def evaluate(residuals: Arrays, tangents: Arrays) -> Arrays:
        one = lambda *args: tuple(linear.evaluate(args[:count], args[count:]))  # noqa: E731
        made: Arrays = vmap(one, in_axes=axes, axis_size=size)(*residuals, *tangents)
        return made

    def transpose(residuals: Arrays, cotangents: Arrays, wanted: Sequence[bool]) -> Arrays:
        def one(residuals: Arrays, cotangents: Arrays) -> Any:
            return tuple(linear.transpose(residuals, cotangents, wanted))

        made = vmap(one, in_axes=(axes[:count], 0), axis_size=size)(list(residuals), list(cotangents))
        return [x if x is None or own else x.sum(0) for x, own in zip(made, batched[count:])]

    return _Linear(evaluate, transpose, lambda *_: None, linear.refusal)


# ---------------------------------------------------------------------------------------------------------- an operator


class Derivatives:
    """Those of one operator."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.signature, self.name = operator, operator.signature, operator.name
        self.backward: Optional[Callable[[dict[str, Any], Arrays, bool], Any]] = None
        self.forward: Optional[Callable[[dict[str, Any], Arrays, bool], Any]] = None
        self.keeps_batch = False  # the backward takes a larger batch than the one that the caller sees
        signature = self.signature
        self.float_results = [
            i
            for i, (r, output) in enumerate(zip(signature.results, signature.outputs))
            if (has_gradients(output.choices) if output else r["kind"] == "float")
        ]

    def differentiable(
        self, call: Callable[..., Arrays], letters: str, statics: tuple[Any, ...], sums: bool
    ) -> Callable[..., Arrays]:
        """Return a function that does what `call` does, and has its derivatives."""

        def derive(primals: Arrays, moving: Sequence[int], tangents: Arrays) -> tuple[Arrays, Arrays]:
            results = made.bind(primals)  # itself, so that it can be differentiated again
            return results, self.linear(call, letters, statics, sums, moving).bind(primals, tangents)

        made = _Call(call, derive)
        return lambda *operands: made.bind(operands)

    def linear(
        self, call: Callable[..., Arrays], letters: str, statics: tuple[Any, ...], sums: bool, moving: Sequence[int]
    ) -> _Linear:
        """The derivative with respect to the operands whose indexes are in `moving`."""
        places = self.signature.operands(letters, statics)
        in_batch = self.operator.in_batch(letters, statics)

        def evaluate(residuals: Arrays, tangents: Arrays) -> Arrays:
            if self.forward is None:  # only the types of the results matter
                return [one for one in call(*residuals) if _is_inexact(one)]
            self.refuse_numbers(places[i] for i in moving)
            return self.tangents(letters, statics, sums, residuals, dict(zip(moving, tangents)))

        def transpose(residuals: Arrays, cotangents: Arrays, wanted: Sequence[bool]) -> Arrays:
            made = self.gradients(letters, statics, sums, residuals, cotangents)
            self.refuse_numbers(places[i] for i, one in zip(moving, wanted) if one)
            return [made[i] for i in moving]

        def enlarge(
            size: int, batched: Sequence[bool], residuals: Arrays, moved: Sequence[bool], tangents: Arrays
        ) -> Optional[tuple[Arrays, Arrays]]:
            both = list(batched)
            for i, one in zip(moving, moved):
                both[i] |= one
            outside = any(one and not inside for one, inside in zip(both, in_batch))
            if sums or outside or not self.signature.is_batched or (self.backward and not self.keeps_batch):
                return None
            whole = _stretched(size, batched, both, residuals)
            moves = list(whole)
            for i, x in zip(moving, _stretched(size, moved, [both[i] for i in moving], tangents)):
                moves[i] = x
            larger = functools.partial(self.operator.enlarge, letters, statics, size, both)
            grown = larger(moves)
            return larger(whole), [grown[i] for i in moving]

        return _Linear(evaluate, transpose, enlarge, self.refusal())

    def refusal(self) -> str:
        if self.forward is not None:
            return ""
        begin = f"`{self.name}` has no forward"
        if self.signature.written:
            return f"{begin}, and cannot have one, because it writes to its arguments"
        return f"{begin}: give one to tenon.jax_ops(), for forward-mode differentiation (jvp, jacfwd, linearize, hessian)"

    def refuse_numbers(self, moving: Iterator[Operand]) -> None:
        """A function has no derivative with respect to a number, and 0 would be wrong."""
        for one in moving:
            if one.letter == "s":
                name = self.signature.names[one.parameter]
                raise RuntimeError(
                    f"{self.name}(): argument '{name}' is a number, which has no gradient; pass jax.lax.stop_gradient({name}), or "
                    "make it a tensor f32[] in the signature"
                )

    def arguments(self, letters: str, statics: Sequence[Any], operands: Arrays) -> dict[str, Any]:
        """All arguments of a call by name, with None for those that were not given."""
        left, values = iter(operands), iter(statics)
        given: dict[str, Any] = {}
        for i, letter in enumerate(letters):
            value: Any = self.signature.defaults[i] if letter == "d" else next(values) if letter in "vl" else None
            if letter == "l":
                given[self.signature.names[i]] = [next(left) for _ in range(value)]
            else:
                given[self.signature.names[i]] = next(left) if letter in "ts" else _uncached(value)
        return given

    # -------------------------------------------------------------------------------------------------------- forward

    def tangents(
        self, letters: str, statics: Sequence[Any], sums: bool, operands: Arrays, moved: Mapping[int, Any]
    ) -> list[Any]:
        """The tangents of the results that are floats. `moved` has those of the operands that have one."""
        jnp, places = jax_module().numpy, self.signature.operands(letters, statics)
        given = self.arguments(letters, statics, operands)
        whole = [moved[i] if i in moved else jnp.zeros_like(x) for i, x in enumerate(operands)]
        followed: list[Any] = []
        for i in self.signature.floats:
            own = [x for x, one in zip(whole, places) if one.parameter == i]
            followed.append(own if letters[i] == "l" else own[0] if own else None)
        made = self.forward(given, followed, sums) if self.forward else ()
        types = self.signature.result_types(self.signature.match_operands(letters, statics, operands))
        grouped = self.operator.group_results(letters, statics, iter(types))
        wanted = [one for i in self.float_results for one in _flat(grouped[i])]
        found = [one for group in made for one in _flat(group)]
        for one, own in zip(found, wanted):
            if one.shape != own.shape or one.dtype != own.dtype:
                expected, got = (f"{short_name(x.dtype)}{size_list(x.shape)}" for x in (own, one))
                raise ValueError(f"{self.name}(): its forward returned a tangent that is {got}, not {expected}")
        return [one for one in found if _is_inexact(one)]

    def set_forward(self, forward: Any, others: Mapping[str, Derivatives]) -> None:
        begin = f"tenon.jax_ops(): argument 'forward': {self.name}()"
        signature = self.signature
        if signature.written:
            raise ValueError(f"{begin} writes to its arguments; such a function cannot have a forward")
        if is_function(forward):
            raise ValueError(f"{begin}: {forward.__name__}() is not a function of this library")
        if not isinstance(forward, str):
            raise TypeError(f"{begin}: expected a function of the library, or its name, got {forward!r}")
        if forward not in others:
            raise ValueError(f"{begin}: the library has no operator {forward}()")
        other = others[forward]
        kinds = [p["kind"] for p in signature.parameters] + [signature.parameters[i]["kind"] for i in signature.floats]
        if [p["kind"] for p in other.signature.parameters] != kinds:
            takes = f"its arguments, then the tangents of those that are floats: {', '.join(kinds)}"
            raise ValueError(f"{begin}: {forward}() must take {takes}")
        if other.signature.written or len(other.signature.results) != len(self.float_results):
            count = len(self.float_results)
            raise ValueError(f"{begin}: {forward}() must return {count} tangent{'s' * (count != 1)}, one for each float result")
        inputs = [self.signature.in_batch[i] for i in (*range(len(signature.parameters)), *signature.floats)]
        can_sum = _has_sums(other, inputs)
        self.forward = lambda given, moved, sums: other.call([*given.values(), *moved], sums and can_sum)

    def call(self, values: Sequence[Any], sums: bool) -> tuple[Any, ...]:
        """Call the operator with a value for each parameter; those of keywords, too, are in order."""
        pairs = list(zip(self.signature.parameters, values))
        args = tuple(value for p, value in pairs if not p["keyword_only"])
        made = self.operator.call(args, {str(p["name"]): value for p, value in pairs if p["keyword_only"]}, sums)
        return made if isinstance(made, tuple) else (made,)

    # ------------------------------------------------------------------------------------------------------- backward

    def gradients(self, letters: str, statics: Sequence[Any], sums: bool, saved: Arrays, grads: Arrays) -> list[Any]:
        """The gradients of all operands; None is 0. `grads` has those of the results that are floats in this call."""
        signature = self.signature
        if self.backward is None:
            if signature.written:
                raise RuntimeError(f"`{self.name}` has no backward, and cannot have one, because it writes to its arguments")
            raise RuntimeError(f"`{self.name}` has no backward: give one to tenon.jax_ops()")
        given = self.arguments(letters, statics, saved)
        types = signature.result_types(signature.match_operands(letters, statics, saved))
        left, jnp = iter(grads), jax_module().numpy
        every = [next(left) if _is_inexact(one) else None for one in types]
        every = [jnp.zeros(one.shape, one.dtype) if grad is None else grad for grad, one in zip(every, types)]
        grouped = self.operator.group_results(letters, statics, iter(every))
        made = self.backward(given, [grouped[i] for i in self.float_results], sums)
        followed = ", ".join(signature.names[i] for i in signature.floats) or "no arguments"
        if not isinstance(made, tuple):
            raise TypeError(
                f"{self.name}(): its backward returned {_kind_of(made)}, but it must return a tuple with one gradient or None "
                f"per float tensor, for {followed}"
            )
        if len(made) != len(signature.floats):
            raise ValueError(
                f"{self.name}(): its backward returned {len(made)} gradient{'s' * (len(made) != 1)}, but it must return a "
                f"tuple with one gradient or None per float tensor, for {followed}"
            )
        found = dict(zip(signature.floats, made))
        return [
            self.check_gradient(one, operand, self.batch_gradient(one, operand, self.item_gradient(one, found, given)))
            for one, operand in zip(signature.operands(letters, statics), saved)
        ]

    def item_gradient(self, operand: Operand, found: Mapping[int, Any], given: Mapping[str, Any]) -> Any:
        """The gradient of an operand. That of a list is a list."""
        gradient, name = found.get(operand.parameter), self.signature.names[operand.parameter]
        if operand.item < 0 or gradient is None:
            return gradient
        if not isinstance(gradient, (list, tuple)) or len(gradient) != len(given[name]):
            count = len(given[name])
            raise TypeError(
                f"{self.name}(): its backward must return a list of {count} gradient{'s' * (count != 1)} for argument '{name}'"
            )
        return gradient[operand.item]

    def batch_gradient(self, operand: Operand, argument: Any, gradient: Any) -> Any:
        """The gradient of an argument that was repeated over the batch: the sum of those that have the shape of the batch."""
        if gradient is None or not self.signature.is_batched or operand.letter != "t":
            return gradient
        gradient = jax_module().numpy.asarray(gradient)
        more = len(gradient.shape) - len(argument.shape)
        if more < 0:
            return gradient
        gradient = gradient.sum(axis=tuple(range(more))) if more else gradient
        if not self.signature.in_batch[operand.parameter]:
            return gradient
        repeated = tuple(i for i, size in enumerate(argument.shape) if size == 1 and gradient.shape[i] != 1)
        return gradient.sum(axis=repeated, keepdims=True) if repeated else gradient

    def check_gradient(self, operand: Operand, argument: Any, gradient: Any) -> Any:
        """The gradient of an operand; None means 0, as for whole numbers."""
        jnp = jax_module().numpy
        if gradient is None or not _is_inexact(argument):
            return None
        gradient = jnp.asarray(gradient)
        if gradient.shape != argument.shape or gradient.dtype != argument.dtype:
            expected = f"{short_name(argument.dtype)}{size_list(argument.shape)}"
            got = f"{short_name(gradient.dtype)}{size_list(gradient.shape)}"
            wrong = ValueError if gradient.dtype == argument.dtype else TypeError
            name = self.signature.operand_name(operand)
            raise wrong(
                f"{self.name}(): its backward returned a gradient of argument '{name}' that is {got}, not {expected}"
            )
        return self.operator.partitioning.vary([gradient], [argument])[0]

    def set_backward(self, backward: Any, others: Mapping[str, Derivatives]) -> None:
        begin = f"tenon.jax_ops(): argument 'backward': {self.name}()"
        if self.signature.written:
            raise ValueError(f"{begin} writes to its arguments; such a function cannot have a backward")
        if isinstance(backward, str):
            self.set_library_backward(backward, others)
        elif is_function(backward):
            raise ValueError(f"{begin}: {backward.__name__}() is not a function of this library; wrap it in a Python function")
        elif callable(backward) and not isinstance(backward, type):
            function = backward
            self.backward = lambda residuals, grads, sums: function(residuals, *grads)
        else:
            raise TypeError(f"{begin}: expected a function, or the name of a function of the library, got {backward!r}")

    def set_library_backward(self, name: str, others: Mapping[str, Derivatives]) -> None:
        """Go backward by another function of the library."""
        begin, signature = f"tenon.jax_ops(): argument 'backward': {self.name}(): ", self.signature
        if name not in others:
            raise ValueError(f"{begin}the library has no operator {name}()")
        other = others[name]
        kinds = ["tensors" if signature.each[i] >= 0 else "tensor" for i in self.float_results]
        kinds += [p["kind"] for p in signature.parameters]
        if [p["kind"] for p in other.signature.parameters] != kinds:
            takes = f"the gradients of its results, then its arguments: {', '.join(kinds)}"
            raise ValueError(f"{begin}{name}() must take {takes}")
        outputs = other.signature.outputs
        if other.signature.written or not all(outputs) or len(outputs) != len(signature.floats):
            followed = ", ".join(signature.names[i] for i in signature.floats)
            raise ValueError(f"{begin}{name}() must return the gradients of {followed}, one result each")
        inputs = [signature.begins_with_batch(signature.outputs[i]) for i in self.float_results] + signature.in_batch
        can_sum = _has_sums(other, inputs)
        self.keeps_batch = can_sum

        def backward(residuals: dict[str, Any], grads: Arrays, sums: bool) -> Any:
            made = other.call([*_conjugate(grads), *residuals.values()], can_sum and (sums or signature.is_batched))
            return tuple(_conjugate(made))

        self.backward = backward


# --------------------------------------------------------------------------------------------------------------- helpers


def _has_sums(derivative: Derivatives, inputs: Sequence[bool]) -> bool:
    """Whether a derivative has the same batch as its function: `inputs` says which of its parameters begin with it."""
    return derivative.signature.batch_dim is not None and derivative.signature.in_batch == list(inputs)


def _stretched(size: int, batched: Sequence[bool], wanted: Sequence[bool], arrays: Arrays) -> list[Any]:
    """The arrays, of which those that are wanted have a first dimension of that size."""
    jnp = jax_module().numpy
    return [
        jnp.broadcast_to(x, (size, *x.shape)) if want and not one else x for x, one, want in zip(arrays, batched, wanted)
    ]


def _arrays(values: Arrays) -> list[Any]:
    """The operands as arrays; one may be a literal of JAX."""
    return list(map(jax_module().numpy.asarray, values))


def _is_inexact(value: Any) -> bool:
    jnp = jax_module().numpy
    return bool(jnp.issubdtype(value.dtype, jnp.inexact))


def _tangent_type(value: Any) -> Any:
    jax = jax_module()
    aval = jax.typeof(value) if hasattr(jax, "typeof") else jax.core.get_aval(value)
    return aval.to_tangent_aval()


def _flat(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else (value,)


def _conjugate(values: Arrays) -> list[Any]:
    """Gradients between JAX and a function of a library: complex gradients in JAX are the conjugates of those in torch."""
    jnp = jax_module().numpy

    def one(value: Any) -> Any:
        if isinstance(value, list):
            return _conjugate(value)
        return jnp.conj(value) if jnp.issubdtype(value.dtype, jnp.complexfloating) else value

    return list(map(one, values))


def _uncached(value: Any) -> Any:
    """A static value without the class of the cache."""
    if isinstance(value, tuple):
        return tuple(map(_uncached, value))
    return float(value) if isinstance(value, float) else value


def _kind_of(value: Any) -> str:
    """What messages call a value that is not a tuple."""
    if value is None:
        return "None"
    return "an array" if isinstance(value, jax_module().Array) else f"a {type(value).__name__}"
