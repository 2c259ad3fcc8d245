"""The functions of a library as text: the list that other runtimes read, JSON, and a page of reference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Union

from tenon._library import is_class, is_function
from tenon._native import version

if TYPE_CHECKING:
    from tenon._native import Function, Parameter, TensorType

    _Entry = Union["Class", "Constant", Function]


class Constant:
    """A constant of a module or a class."""

    def __init__(self, name: str, owner: Any) -> None:
        self.name = name
        self.value: object = vars(owner)[name]
        self.signature, self.doc = vars(owner)["_tenon_constants"][name]


def constants_of(owner: Any) -> list[Constant]:
    return [Constant(name, owner) for name in vars(owner).get("_tenon_constants", ())]


class Class:
    """What a class of a loaded module has."""

    def __init__(self, made: Any) -> None:
        self.name: str = made.__name__
        function = getattr(made.__new__, "__self__", None)
        self.constructors: list[Function] = list(getattr(function, "overloads", ()))
        members = list(vars(made).values())
        self.constants = constants_of(made)
        self.properties: list[Function] = [value.fget.function for value in members if _is_property(value)]
        statics = [value.__self__ for value in members if is_function(value) and value.__name__ != "__new__"]
        self.static_methods: list[Function] = [entry for function in statics for entry in function.overloads]
        methods = [value.function for value in members if hasattr(value, "function")]
        self.methods: list[Function] = [entry for function in methods for entry in function.overloads]
        self.doc: str = made.__doc__ or ""
        for constructor in reversed(self.constructors):
            self.doc = self.doc.removesuffix(constructor.signature).rstrip()
            self.doc = self.doc.removesuffix((constructor.doc or "").rstrip()).rstrip()

    @property
    def functions(self) -> list[Function]:
        return [*self.constructors, *self.static_methods, *self.properties, *self.methods]


def _is_property(value: object) -> bool:
    return isinstance(value, property) and hasattr(value.fget, "function")


def entries(module: ModuleType) -> Iterator[_Entry]:
    """Yield the constants of a loaded module, then its functions and classes, in the order of its table. The entries of an
    overloaded function follow each other."""
    yield from constants_of(module)
    for value in vars(module).values():
        if is_function(value):
            yield from value.__self__.overloads
        elif is_class(value):
            yield Class(value)


def one_line(signature: str) -> str:
    # Spaces inside strings are kept.
    return re.sub(r"""('[^']*'|"[^"]*")|\s+""", lambda found: found[1] or " ", signature)


# --------------------------------------------------------------------------------------------------------------- plain


def describe(module: ModuleType) -> str:
    """Return the signatures, one on each line. Every other line is a comment or empty."""
    variant = getattr(module, "__variant__", "baseline")
    about = "" if variant == "baseline" else _comment(f"variant: {variant}")
    blocks = [_comment(_title(module)) + _comment(module.__doc__) + about]
    for entry in entries(module):
        if isinstance(entry, Class):
            blocks.append(_comment(entry.doc) + f"class {entry.name}\n")
        members: list[Constant | Function] = [*entry.constants, *entry.functions] if isinstance(entry, Class) else [entry]
        blocks += [_comment(member.doc) + one_line(member.signature) + "\n" for member in members]
    return "\n".join(blocks)


def _title(module: ModuleType) -> str:
    own = getattr(module, "__version__", None)
    return f"{module.__name__} {own}" if own else module.__name__


def _comment(text: str | None) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in (text or "").splitlines())


# ---------------------------------------------------------------------------------------------------------------- JSON

SCHEMA = 1  # of the JSON; docs/types.md describes it


def as_json(modules: Sequence[tuple[str, ModuleType]]) -> str:
    """Return a description of modules, with the files that they were loaded from."""
    libraries = [_library(file, module) for file, module in modules]
    return json.dumps({"schema": SCHEMA, "tenon": version, "libraries": libraries}, indent=2, ensure_ascii=False) + "\n"


def _library(file: str, module: ModuleType) -> dict[str, Any]:
    found = list(entries(module))
    functions = [function for entry in found for function in _functions(entry)]
    items = [item for function in functions for item in (*function.parameters, *function.results)]
    serial = {item["handle"] for item in items if item["serial"]}
    return {
        "file": file,
        "name": module.__name__,
        "version": getattr(module, "__version__", None),
        "variant": getattr(module, "__variant__", None),
        "doc": module.__doc__,
        "entries": [_described(entry, serial) for entry in found],
    }


def _functions(entry: _Entry) -> list[Function]:
    return entry.functions if isinstance(entry, Class) else [] if isinstance(entry, Constant) else [entry]


def _described(entry: _Entry, serial: set[str | None]) -> dict[str, Any]:
    if isinstance(entry, Class):
        return _class(entry, serial)
    return _constant(entry) if isinstance(entry, Constant) else _function(entry)


def _constant(constant: Constant) -> dict[str, Any]:
    signature = one_line(constant.signature)
    return {"entry": "constant", "name": constant.name, "signature": signature, "doc": constant.doc, "value": constant.value}


def _class(made: Class, serial: set[str | None]) -> dict[str, Any]:
    return {
        "entry": "class",
        "name": made.name,
        "doc": made.doc or None,
        "serial": made.name in serial,
        "constructors": [_function(constructor) for constructor in made.constructors],
        "constants": [_constant(constant) for constant in made.constants],
        "static_methods": [_function(method) for method in made.static_methods],
        "properties": [_function(method) for method in made.properties],
        "methods": [_function(method) for method in made.methods],
    }


def _function(function: Function) -> dict[str, Any]:
    count = len(function.parameters)
    return {
        "entry": "function",
        "name": function.name,
        "signature": one_line(function.signature),
        "doc": function.doc,
        "flags": function.flags,
        "parameters": list(map(_item, function.parameters, function.tensors[:count])),
        "results": list(map(_item, function.results, function.tensors[count:])),
        "conditions": function.conditions,
    }


def _item(item: Parameter, tensor: TensorType | None) -> dict[str, Any]:
    names = ("kind", "text", "name", "code")
    described = tensor and {**tensor, "dims": [dict(zip(names, dim)) for dim in tensor["dims"]]}
    return {**item, "tensor": described}


# ------------------------------------------------------------------------------------------------------------ Markdown

_KINDS = {
    "tensor": "an array",
    "tensors": "a list of arrays",
    "int": "an integer",
    "uint": "an integer from 0 to 2**64 - 1",
    "float": "a number",
    "complex": "a complex number",
    "bool": "True or False",
    "str": "a string",
    "bytes": "bytes, or a buffer",
    "strs": "strings",
    "dtype": "a dtype",
    "enum": "one of these strings",
    "ints": "integers",
    "floats": "numbers",
    "callable": "a function that is called",
}


def as_markdown(module: ModuleType) -> str:
    """Return a page that describes a module. Its documentation is Markdown already."""
    blocks = [f"# {_title(module)}", (module.__doc__ or "").strip(), _constants(constants_of(module))]
    for entry in entries(module):
        if isinstance(entry, Class):
            blocks += [f"## class `{entry.name}`", entry.doc.strip(), _constants(entry.constants)]
            for function in entry.functions:
                blocks += [_heading("###", function, blocks), *_section(function)]
        elif isinstance(entry, Constant):
            continue
        else:
            blocks += [_heading("##", entry, blocks), *_section(entry)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _heading(mark: str, function: Function, before: Sequence[str]) -> str:
    """The heading of a function. The entries of an overloaded function have one."""
    heading = f"{mark} `{function.name}`"
    return "" if heading in before else heading


def _constants(constants: list[Constant]) -> str:
    rows = [f"| {_code(item.name)} | {_code(repr(item.value))} | {one_line(item.doc or '')} |" for item in constants]
    return "\n".join(["| constant | value | |", "|---|---|---|", *rows]) if rows else ""


def _section(function: Function) -> Iterator[str]:
    count = len(function.parameters)
    parameters = list(zip(function.parameters, function.tensors[:count]))
    results = list(zip(function.results, function.tensors[count:]))
    yield f"```text\n{one_line(function.signature)}\n```"
    yield (function.doc or "").strip()
    has_self = "." in function.name and bool(parameters) and parameters[0][0]["name"] == "self"
    yield _table("argument", parameters[has_self:])
    yield _table("result", results)
    if function.conditions:
        yield f"Conditions: {', '.join(map(_code, function.conditions))}."
    if function.flags:
        yield f"Flags: {', '.join(map(_code, function.flags))}."


def _table(title: str, items: list[tuple[Parameter, TensorType | None]]) -> str:
    rows = []
    for i, (item, tensor) in enumerate(items):
        name = _code(item["name"]) if item["name"] else str(i) if len(items) > 1 else ""
        rows.append(f"| {name} | {_code(one_line(item['type']))} | {'; '.join(_notes(item, tensor))} |")
    return "\n".join([f"| {title} | type | |", "|---|---|---|", *rows]) if rows else ""


def _notes(item: Parameter, tensor: TensorType | None) -> Iterator[str]:
    if item["kind"] == "handle":
        yield f"an object: {_code(item['handle'] or '')}"
    else:
        what = "one of these integers" if item["kind"] == "int" and item["choices"] else _KINDS[item["kind"]]
        yield f"{item['count']} {what}" if item["count"] is not None else what
    if item["written"]:
        yield "written to"
    if tensor and "keep" in tensor["attributes"]:
        yield "kept after the call"
    if tensor and "convert" in tensor["attributes"]:
        yield "converted if it has another dtype or layout"
    if tensor and "own" in tensor["attributes"]:
        yield "memory of the library"
    if tensor and tensor["of"]:
        yield f"memory of {_code(tensor['of'])}"
    if tensor and tensor["each"]:
        yield f"one for each item of {_code(tensor['each'])}"
    if item["keyword_only"]:
        yield "by keyword only"
    if item["optional"]:
        yield "may be None"
    if item["default"] is not None:
        yield f"default {_code(item['default'])}"


def _code(text: str) -> str:
    """Code in a cell of a table."""
    mark = "``" if "`" in text else "`"
    return f"{mark}{text}{mark}".replace("|", r"\|")
