"""The Python functions that call torch operators, and their direct path around torch's dispatcher."""

from __future__ import annotations

import collections
import inspect
import struct
import threading
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, cast

from tenon import _torch_native
from tenon._torch_shapes import torch_module
from tenon._torch_vmap import fit_layout

if TYPE_CHECKING:
    from tenon._torch_ops import _Operator

# The letters of frameworks/torch/ops/direct_call.c; a capital letter stands for an optional parameter.
_LETTERS = {"tensor": "t", "float": "f", "int": "i", "bool": "b", "str": "s", "enum": "s", "floats": "m", "ints": "n"}
_LETTERS.update(dict.fromkeys(("uint", "complex", "dtype", "strs"), "o"))  # torch looks at these itself
# What torch makes of such an argument before a kernel or a backward sees it.
_STORED = {"float": float, "floats": list, "ints": list}
_DEVICES = ("CPU", "CUDA")
_EVERYWHERE = "CompositeExplicitAutograd"
_lock = threading.Lock()
_watch: Optional[_Watch] = None


# ------------------------------------------------------------------------------------------------- the generated function


def make_function(operator: _Operator, direct: bool) -> Callable[..., Any]:
    """Return a function with the parameters of the C function, which calls the operator or takes the direct path."""
    parameters = _parameters(operator)
    names = [p.name for p in parameters]
    single = len(operator.results) == 1
    named = bool(operator.results) and operator.results[0]["name"] is not None
    made = _make_direct(operator, parameters) if direct else None
    if made and cast(_Watch, _watch).autograd_keys:
        operator.undo_skip = _skip_autograd(operator, made, parameters)
    given = {
        "operator": operator.op,
        "checked": operator.with_own_errors(),
        # torch.compiler.is_compiling() takes longer. It is also true in torch.export, which is seen in another way.
        "is_compiling": torch_module().compiler.is_dynamo_compiling,
        "direct": made,
        "result": _result_type(operator) if named else None,
    }
    prefix = "_"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    begin, end = ("", "") if not named else (f"{prefix}result(" + ("" if single else "*"), ")")
    arguments = _by_name(parameters)
    lines = [f"if {prefix}is_compiling():", f"    return {begin}{prefix}operator({arguments}){end}"]
    if direct:
        lines.append(f"return {begin}{prefix}direct({', '.join(names)}){end}")
    else:
        lines.append(f"return {begin}{prefix}checked({arguments}){end}")
    function = _compile(operator.name, parameters, {prefix + name: value for name, value in given.items()}, lines)
    function.__module__, function.__doc__ = operator.function.__module__ or "", operator.function.__doc__
    cast(Any, function).op = operator.op
    return function


def _parameters(operator: _Operator) -> list[inspect.Parameter]:
    own = inspect.signature(operator.function).parameters.values()
    given = [p for p in own if p.name not in ("out", "like")]  # reserved: no parameter has these names
    return [p.replace(default=operator.dtypes[p.name]) if p.name in operator.dtypes else p for p in given]


def _by_name(parameters: Sequence[inspect.Parameter]) -> str:
    return ", ".join(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in parameters)


def _compile(
    name: str, parameters: Sequence[inspect.Parameter], given: dict[str, Any], lines: Sequence[str]
) -> FunctionType:
    """Compile a function of that name. Only names become source code; values come from `given` and the parameters."""
    taken: list[str] = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and "*" not in taken:
            taken.append("*")
        taken.append(p.name if p.default is p.empty else f"{p.name}=None")
    assert all(word.isidentifier() for word in (name, *given, *(p.name for p in parameters)))
    function = cast(Any, _define(name, taken, given, lines))
    defaults = [(p, p.default) for p in parameters if p.default is not p.empty]
    function.__defaults__ = tuple(value for p, value in defaults if p.kind is not p.KEYWORD_ONLY) or None
    function.__kwdefaults__ = {p.name: value for p, value in defaults if p.kind is p.KEYWORD_ONLY} or None
    function.__qualname__ = name
    return cast(FunctionType, function)


def _result_type(operator: _Operator) -> Any:
    """The type of named results, which torch does not keep."""
    return cast(Any, collections.namedtuple)(f"{operator.name}_result", [r["name"] for r in operator.results])


# ---------------------------------------------------------------------------------------------------------- direct calls


class _Watch(NamedTuple):
    harmless: Any  # the dispatch keys of a thread without any mode, or a function that direct_call.c calls instead
    key_of: Callable[[Any], Any]  # the key set of a tensor
    plain: tuple[Any, ...]  # the key sets of plain tensors: of each device, then of inference tensors there
    autograd_keys: int  # what torch excludes below autograd; 0: not known


def _make_direct(operator: _Operator, parameters: Sequence[inspect.Parameter]) -> Callable[..., Any]:
    """The direct path, after start_watch()."""
    watch, torch = cast(_Watch, _watch), torch_module()
    letters = [_LETTERS[p["kind"]].upper() if p["optional"] else _LETTERS[p["kind"]] for p in operator.parameters]
    keywords = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    plain = [
        key if key and operator.keys & {device, _EVERYWHERE} else 0
        for device, pair in zip(_DEVICES, zip(watch.plain[::2], watch.plain[1::2]))
        for key in pair
    ]
    index = {key: i for i, key in enumerate(plain) if key}
    words = struct.pack(f"={len(plain)}Q", *plain) if all(isinstance(key, int) for key in plain) else b""
    made = _torch_native.direct(
        operator.kernel(),
        operator.with_own_errors(),
        None if operator.undifferentiable() else make_recorder(operator, parameters, operator.kernel()),
        "".join(letters).encode(),
        keywords or None,
        words,
        watch.harmless,
        vars(torch.autograd.forward_ad),
        "_current_level",
        "requires_grad",
        torch.Tensor,
        torch.nn.Parameter,
        lambda tensor: index.get(watch.key_of(tensor), -1),
    )
    return cast(Callable[..., Any], made)


def _skip_autograd(operator: _Operator, direct: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Callable[[], None]:
    """Let calls of torch.ops from Python skip the Autograd kernel, which is Python. Returns a function that ends this.

    torch 2.15 replaces `_op` itself for operators that are written in Python."""
    torch, op = torch_module(), operator.op
    packet, keys = op._overloadpacket, cast(_Watch, _watch).autograd_keys
    names = tuple(p.name for p in parameters)
    defaults = tuple(... if p.default is p.empty else p.default for p in parameters)
    record = None if operator.undifferentiable() else make_recorder(operator, parameters, op)
    originals = [(holder, holder._op) for holder in (op, packet)]
    table = torch.jit._builtins._get_builtin_table()  # torch.jit.script finds an operator by the id of this function
    for holder, original in originals:
        holder._op = _torch_native.skip_autograd(original, direct, record, names, defaults, keys)
    table[id(packet._op)] = operator.path

    def undo() -> None:
        for holder, original in originals:
            table.pop(id(holder._op), None)
            holder._op = original
        table[id(packet._op)] = operator.path

    return undo


def make_recorder(
    operator: _Operator, parameters: Sequence[inspect.Parameter], kernel: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that calls the kernel and has autograd record it, as the operator's Autograd kernel does.

    It takes all arguments by position."""
    if operator.setup == operator.save:
        return _make_saving_recorder(operator, parameters, kernel)
    name = operator.name
    names = [p.name for p in parameters]
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    count = len(names) - len(keywords)
    stored = [(i, _STORED[p["kind"]]) for i, p in enumerate(operator.parameters) if p["kind"] in _STORED]
    several = len(operator.results) > 1

    def store(args: tuple[Any, ...]) -> tuple[Any, ...]:
        for i, kind in stored:
            if args[i] is not None and type(args[i]) is not kind:
                args = (*args[:i], kind(args[i]), *args[i + 1 :])
        return args

    defaults = store(tuple(None if p.default is p.empty else p.default for p in parameters))[:count]
    needed = sum(p.default is p.empty for p in parameters[:count])

    def forward(ctx: Any, *given: Any) -> Any:
        args = given[-1]
        by_keyword = dict(zip(keywords, args[count:])) if keywords else {}
        output = kernel(*args[:count], **by_keyword) if keywords else kernel(*args)
        if several:
            output = tuple(output)  # torch does not keep the names
        if operator.setup:
            more = {"keyword_only_inputs": by_keyword} if keywords else {}
            operator.setup(ctx=ctx, inputs=args[:count], output=output, **more)
        return output

    def backward(ctx: Any, *grads: Any) -> Any:
        needs = ctx.needs_input_grad
        ctx.needs_input_grad = needs[:-1]
        try:
            made = operator.backward(ctx, *grads)
        finally:
            ctx.needs_input_grad = needs
        return (*_all_gradients(name, made, len(needs) - 1, count), None)

    apply = _make_apply(name, forward, backward)

    def record(*args: Any) -> Any:
        args = store(args)
        end = count
        # torch leaves out arguments that are equal to their defaults, so a backward does not see them.
        while end > needed and type(args[end - 1]) is type(defaults[end - 1]) and args[end - 1] == defaults[end - 1]:
            end -= 1
        return apply(*args[:end], args)

    return record


def _make_apply(name: str, forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    torch = torch_module()
    function = type(name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
    # torch.autograd.Function.apply only adds what functorch needs, which takes longer than the rest.
    return cast(Callable[..., Any], torch._C._FunctionBase.__dict__["apply"].__get__(None, function))


def _all_gradients(name: str, made: Any, passed: int, count: int) -> tuple[Any, ...]:
    """What a backward returned as a tuple, of one gradient for each of the `passed` or of all `count` arguments."""
    gradients: tuple[Any, ...] = made if isinstance(made, tuple) else (made,)
    if len(gradients) not in (passed, count):
        raise RuntimeError(
            f"{name}(): its backward returned an incorrect number of gradients: expected {count}, one for each "
            f"positional argument, got {len(gradients)}"
        )
    return gradients


def _make_saving_recorder(
    operator: _Operator, parameters: Sequence[inspect.Parameter], kernel: Callable[..., Any]
) -> Callable[..., Any]:
    """The same for a backward that gets all arguments. The code is made for the parameters: loops over them would take as
    long as the rest, so the forward pass only saves them, and the backward pass sorts them."""
    name, kinds = operator.name, [p["kind"] for p in operator.parameters]
    values = [f"v{i}" for i in range(len(parameters))]
    passed = [f"{p.name}={v}" if p.kind is p.KEYWORD_ONLY else v for p, v in zip(parameters, values)]
    tensors = [v for v, kind in zip(values, kinds) if kind == "tensor"]
    others = [i for i, kind in enumerate(kinds) if kind != "tensor"]
    positional = [i for i, p in enumerate(parameters) if p.kind is not p.KEYWORD_ONLY]
    # torch leaves out arguments that are equal to their defaults, so a backward does not see them.
    last = [i for i in positional if parameters[i].default is parameters[i].empty]
    omittable = positional[last[-1] + 1 if last else 0 :]
    defaults = {i: _store(kinds[i], parameters[i].default) for i in omittable}
    kept = [values[i] if kinds[i] != "tensor" else f"{values[i]} is None" for i in omittable]
    forward_lines = [
        f"output = kernel({', '.join(passed)})",
        f"ctx.save_for_backward({', '.join(tensors)})",
        f"ctx.others = [{', '.join(values[i] for i in others)}]",
        *([f"ctx.omittable = [{', '.join(kept)}]"] if kept else []),
        "return tuple(output)" if len(operator.results) > 1 else "return output",  # torch does not keep the names
    ]
    forward = _define("forward", ["ctx", *values], {"kernel": kernel}, forward_lines)
    names = [parameters[i].name for i in others]

    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.arguments = dict(zip(names, ctx.others))
        end = len(positional)
        for i, value in zip(reversed(omittable), reversed(ctx.omittable if omittable else ())):
            same = value is True if kinds[i] == "tensor" else type(value) is type(defaults[i]) and value == defaults[i]
            if not same:
                break
            end -= 1
        needs = ctx.needs_input_grad
        ctx.needs_input_grad = needs[:end]
        try:
            made = operator.backward(ctx, *grads)
        finally:
            ctx.needs_input_grad = needs
        made = _all_gradients(name, made, end, len(positional))
        return made + (None,) * (len(needs) - len(made))

    lines = [
        f"if {v}.__class__ is not {_STORED[kind].__name__} and {v} is not None: {v} = {_STORED[kind].__name__}({v})"
        for v, kind in zip(values, kinds)
        if kind in _STORED
    ]
    known = _make_library_backward(operator, parameters, values) if operator.library_backward_call else None
    apply = _make_apply(name, forward, known or backward)
    return _define("record", values, {"apply": apply}, [*lines, f"return apply({', '.join(values)})"])


def _make_library_backward(
    operator: _Operator, parameters: Sequence[inspect.Parameter], values: Sequence[str]
) -> Callable[..., Any]:
    """The backward of a saving recorder if it is a function of the library, whose arguments are known."""
    other, grads, followed = operator.library_backward_call
    given = [f"g{i}" for i in range(len(operator.results))]
    kinds = [p["kind"] for p in operator.parameters]
    tensors = [v for v, kind in zip(values, kinds) if kind == "tensor"]
    others = [v for v, kind in zip(values, kinds) if kind != "tensor"]
    passed = [f"fit(types[{i}], {given[i]})" for i in grads] + list(values)
    by_name = [f"{p['name']}={value}" if p["keyword_only"] else value for p, value in zip(other.parameters, passed)]
    index = {argument: i for i, argument in enumerate(followed)}
    single = len(other.results) == 1 and other.results[0]["name"] is None
    returned = [
        "None" if p.name not in index else f"{'made' if single else f'made[{index[p.name]}]'} if {v} is not None else None"
        for p, v in zip(parameters, values)
    ]
    lines = [
        f"{', '.join(tensors)}, = ctx.saved_tensors",
        *([f"{', '.join(others)}, = ctx.others"] if others else []),
        f"made = other.call({', '.join(by_name)})",
        f"return {', '.join(returned)},",
    ]
    return _define("backward", ["ctx", *given], {"other": other, "fit": fit_layout, "types": grads}, lines)


def _store(kind: str, value: Any) -> Any:
    return value if value is None or kind not in _STORED else _STORED[kind](value)


def _define(name: str, parameters: Sequence[str], given: dict[str, Any], lines: Sequence[str]) -> Callable[..., Any]:
    """A function with this body. Only names of parameters become source code."""
    body = "".join(f"\n        {line}" for line in lines)
    source = f"def make({', '.join(given)}):\n    def {name}({', '.join(parameters)}):{body}\n    return {name}"
    made: dict[str, Any] = {}
    exec(compile(source, f"<tenon.torch_ops {name}>", "exec"), {"__name__": __name__}, made)
    return cast(Callable[..., Any], made["make"](**given))


# ------------------------------------------------------------------------------------------------- is anything watching?


def start_watch() -> Optional[_Watch]:
    """Find out once what this version of torch looks like if nothing is active; None if it has changed too much."""
    global _watch
    with _lock:
        if _watch is None:
            # A new thread has none of the modes that may be active in this one.
            thread = threading.Thread(target=_try_to_look, name="tenon.torch_ops")
            thread.start()
            thread.join()
        return _watch


def _try_to_look() -> None:
    global _watch
    try:
        _watch = _look()
    except Exception as error:
        version, reason = torch_module().__version__, str(error).partition("\n")[0]
        _torch_native.direct_off(f"torch {version}: {type(error).__name__}: {reason}")


def _look() -> _Watch:
    torch = torch_module()
    key_of = _key_reader()
    words = _harmless(_torch_native.dispatch_keys)
    with torch.autocast("cpu"):
        shown = _torch_native.dispatch_keys() not in words
    if None in words or not shown:
        _torch_native.watch_by_python()
        harmless: Any = _python_watch(key_of)
    else:
        harmless = b"".join(words)

    def tensor_key(tensor: Any) -> Any:
        return key_of(torch._C._dispatch_keys(tensor))

    plain = tuple(key_of(_key_set(device, inference)) for device in _DEVICES for inference in (False, True))
    with torch.inference_mode():
        inference = torch.ones(1)
    if plain[:2] != (tensor_key(torch.ones(1)), tensor_key(inference)):
        raise RuntimeError("its tensors have other key sets")
    torch._C._FunctionBase.__dict__["apply"]  # which make_recorder uses
    return _Watch(harmless, tensor_key, plain, _autograd_keys() if isinstance(harmless, bytes) else 0)


def _autograd_keys() -> int:
    """The dispatch keys that torch excludes below autograd, if they are the only change of the thread's state."""
    before = _torch_native.dispatch_keys()
    with torch_module()._C._AutoDispatchBelowAutograd():
        included, excluded = struct.unpack("=2Q", cast(bytes, _torch_native.dispatch_keys()))
    quiet = before == bytes(16) and _torch_native.dispatch_keys() == before
    return excluded if quiet and included == 0 else 0


def _key_reader() -> Callable[[Any], Any]:
    """A function that makes something comparable of a DispatchKeySet; 2.4 has only its text."""
    return (lambda keys: keys.raw_repr()) if hasattr(torch_module()._C.DispatchKeySet, "raw_repr") else str


def _key_set(device: str, inference: bool) -> Any:
    """The key set of a plain tensor. Making a tensor on that device would initialise it."""
    torch = torch_module()
    names = [device, f"Autocast{device}", *([] if inference else ["ADInplaceOrView", f"Autograd{device}"])]
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, names[0]))
    for name in names[1:]:
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return keys


def _harmless(state: Callable[[], Any]) -> set[Any]:
    """What `state` returns without any mode, in inference mode and in a backward pass."""
    torch = torch_module()
    found = {state()}
    with torch.inference_mode():
        found.add(state())

    def backward(ctx: Any, grad: Any) -> Any:
        found.add(state())
        return grad

    parts = {"forward": staticmethod(lambda ctx, x: x.clone()), "backward": staticmethod(backward)}
    function: Any = type("look", (torch.autograd.Function,), parts)
    function.apply(torch.ones(1, requires_grad=True)).backward()
    return found


def _python_watch(key_of: Callable[[Any], Any]) -> Callable[[], bool]:
    """The same questions by torch's Python functions."""
    _C = torch_module()._C
    included, excluded = _C._dispatch_tls_local_include_set, _C._dispatch_tls_local_exclude_set
    function_modes, profiler = _C._len_torch_function_stack, _C._autograd._profiler_enabled

    def state() -> Any:
        return key_of(included()), key_of(excluded())

    harmless = _harmless(state)
    return lambda: state() not in harmless or function_modes() > 0 or profiler()
