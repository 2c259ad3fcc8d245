"""The functions of a library as text: a stub for type checkers, and the list that other runtimes read."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tenon._native import Function, Parameter

# The words that annotations are made of, and where they are from.
_SOURCES = {
    "Any": "typing",
    "Literal": "typing",
    "NamedTuple": "typing",
    "Optional": "typing",
    "Protocol": "typing",
    "SupportsFloat": "typing",
    "SupportsIndex": "typing",
    "Union": "typing",
    "type_check_only": "typing",
    "Iterable": "collections.abc",
    "bool": "builtins",
    "float": "builtins",
    "int": "builtins",
    "str": "builtins",
    "tuple": "builtins",
}


def functions(module: ModuleType) -> Iterator[Function]:
    """What stands behind the functions of a module of load()'s, in the order of its table."""
    for value in vars(module).values():
        if isinstance(value, BuiltinFunctionType):
            yield cast("Function", value.__self__)


def describe(module: ModuleType) -> str:
    """Each signature in a line of its own; every other line is a comment or empty."""
    version = getattr(module, "__version__", None)
    blocks = [_comment(f"{module.__name__} {version}" if version else module.__name__) + _comment(module.__doc__)]
    blocks += [_comment(function.doc) + _one_line(function.signature) + "\n" for function in functions(module)]
    return "\n".join(blocks)


def _comment(text: str | None) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in (text or "").splitlines())


def _one_line(signature: str) -> str:
    # Spaces inside of strings belong to them.
    return re.sub(r"""('[^']*'|"[^"]*")|\s+""", lambda found: found[1] or " ", signature)


def stub(module: ModuleType, source: str) -> str:
    """The text of a .pyi; its first line says that it was made from `source`."""
    return _Stub(module).text(source)


def _alias(source: str) -> str:
    """The name of a whole module, which is not that of a function."""
    return f"_tenon_{source.replace('.', '_')}"


class _Stub:
    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.functions = {function.name: function for function in functions(module)}
        self.taken = {*self.functions, *_SOURCES, "builtins", "collections", "typing"}
        self.used: set[str] = set()
        self.handles: dict[str, str] = {}
        self.integers = ""
        self.classes: list[str] = []
        self.array = self.new_name("_Array")

    def text(self, source: str) -> str:
        values = [f"{self.array} = {self.word('Any')}  # an array of any framework"]
        if hasattr(self.module, "__version__"):
            values.append(f"__version__: {self.word('str')}")
        body = [self.function(function) for function in self.functions.values()]
        head = f"# Written by `python -m tenon stubs {source}`, not to be edited.\n"
        doc = (self.module.__doc__ or "").strip()
        if doc:
            head += _docstring(doc, "")
        return "\n".join([head, self.imports(), *values, "", *self.classes, *body])

    def imports(self) -> str:
        words = sorted(self.used)
        whole = {_SOURCES[word] for word in words if word in self.functions}
        lines = [f"import {source} as {_alias(source)}\n" for source in sorted(whole)]
        if "torch.Tensor" in self.handles:  # without torch it is Any
            lines.append(f"import torch as {_alias('torch')}  # type: ignore[import, unused-ignore]\n")
        for source in ("collections.abc", "typing"):
            names = [word for word in words if _SOURCES[word] == source and word not in self.functions]
            if names:
                lines.append(f"from {source} import {', '.join(names)}\n")
        return "".join(lines)

    def word(self, word: str) -> str:
        """A word of _SOURCES as it has to be written where a function may have the same name."""
        self.used.add(word)
        return f"{_alias(_SOURCES[word])}.{word}" if word in self.functions else word

    def new_name(self, wanted: str) -> str:
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        name = f"_{name}" if name[0].isdigit() else name
        while name in self.taken or keyword.iskeyword(name):
            name += "_"
        self.taken.add(name)
        return name

    def function(self, function: Function) -> str:
        arguments = self.parameters(function)
        doc = _one_line(function.signature) + (f"\n\n{function.doc}" if function.doc else "")
        return f"def {function.name}({arguments}) -> {self.result(function)}:\n" + _docstring(doc, "    ")

    def parameters(self, function: Function) -> str:
        # In a stub such a name means that an argument has no name.
        if any(parameter["name"].startswith("__") for parameter in function.parameters if parameter["name"]):
            return f"*args: {self.word('Any')}, **kwargs: {self.word('Any')}"
        positional: list[str] = []
        keywords: list[str] = []
        for parameter in function.parameters:
            text = f"{parameter['name']}: {self.optional(parameter, self.taken_type(parameter))}"
            if parameter["optional"] or parameter["default"] is not None:
                text += " = ..."
            (keywords if parameter["keyword_only"] else positional).append(text)
        kinds = [result["kind"] for result in function.results]
        if kinds == ["tensor"] and not _is_open(function):
            keywords.append(f"out: {self.word('Optional')}[{self.array}] = ...")
        if "tensor" in kinds:
            keywords.append(f"like: {self.word('Any')} = ...")
        return ", ".join(positional + (["*", *keywords] if keywords else []))

    def result(self, function: Function) -> str:
        types = [self.optional(result, self.given_type(result)) for result in function.results]
        if not types:
            return "None"
        if function.results[0]["name"] is None:
            return types[0] if len(types) == 1 else f"{self.word('tuple')}[{', '.join(types)}]"
        name = self.new_name(function.name.title().replace("_", "") + "Result")
        # Not as a class: its fields may be called `count`, as a method of tuple is, or `int`.
        fields = ", ".join(f'("{result["name"]}", {kind})' for result, kind in zip(function.results, types))
        self.classes.append(f'{name} = {self.word("NamedTuple")}("{name}", [{fields}])\n')
        return name

    def optional(self, parameter: Parameter, kind: str) -> str:
        return f"{self.word('Optional')}[{kind}]" if parameter["optional"] else kind

    def taken_type(self, parameter: Parameter) -> str:
        kind = parameter["kind"]
        if kind == "tensor":
            return self.array
        if kind in ("int", "ints"):
            number = self.integer()
        elif kind in ("float", "floats"):
            number = self.word("SupportsFloat")
        else:
            return self.given_type(parameter)
        # Not a Sequence: arrays are none to type checkers.
        return f"{self.word('Iterable')}[{number}]" if kind in ("ints", "floats") else number

    def integer(self) -> str:
        """What an `int` takes: NumPy's bool has no __index__, but bits, which no float has."""
        if not self.integers:
            bits = self.new_name("_Bits")
            self.classes.append(
                f"@{self.word('type_check_only')}\nclass {bits}({self.word('Protocol')}):\n"
                f"    def __int__(self) -> {self.word('int')}: ...\n"
                f"    def __invert__(self) -> {self.word('Any')}: ...\n"
            )
            self.integers = f"{self.word('Union')}[{self.word('SupportsIndex')}, {bits}]"
        return self.integers

    def given_type(self, parameter: Parameter) -> str:
        kind = parameter["kind"]
        if kind == "tensor":
            return self.word("Any")
        if kind == "enum":
            return f"{self.word('Literal')}[{', '.join(map(repr, parameter['choices']))}]"
        if kind == "handle":
            return self.handle(parameter["handle"] or "")
        return self.word(kind)

    def handle(self, handle: str) -> str:
        if handle == "torch.Tensor":
            self.handles[handle] = f"{_alias('torch')}.Tensor"
        elif handle not in self.handles:
            self.handles[handle] = self.new_name(handle)
            self.classes.append(f"@{self.word('type_check_only')}\nclass {self.handles[handle]}: ...\n")
        return self.handles[handle]


def _is_open(function: Function) -> bool:
    """Whether only the function itself can make its first result, a tensor."""
    tensor = function.tensors[len(function.parameters)]
    sizes = [dim[0] for dim in tensor["dims"]] if tensor else []
    return function.results[0]["optional"] or "unknown" in sizes


def _docstring(text: str, indent: str) -> str:
    text = text.strip().replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if text.endswith('"'):
        text = text[:-1] + '\\"'
    first, *others = text.splitlines()
    lines = [f'{indent}"""{first}', *(f"{indent}{line}".rstrip() for line in others)]
    return "\n".join(lines) + (f'\n{indent}"""\n' if others else '"""\n')
