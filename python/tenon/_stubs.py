"""The functions of a library as a stub for type checkers."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Optional

from tenon._describe_library import Class, Constant, constants_of, entries, one_line

if TYPE_CHECKING:
    from tenon._native import Function, Parameter, TensorType

# The names that annotations use, and the modules that they come from.
_SOURCES = {
    "Any": "typing",
    "Generic": "typing",
    "Literal": "typing",
    "NamedTuple": "typing",
    "NoReturn": "typing",
    "Optional": "typing",
    "Protocol": "typing",
    "SupportsFloat": "typing",
    "SupportsIndex": "typing",
    "TypeVar": "typing",
    "Union": "typing",
    "final": "typing",
    "overload": "typing",
    "type_check_only": "typing",
    "ClassVar": "typing",
    "Callable": "collections.abc",
    "Iterator": "collections.abc",
    "Sequence": "collections.abc",
    "bool": "builtins",
    "Buffer": "typing_extensions",
    "PathLike": "os",
    "SupportsComplex": "typing",
    "bytes": "builtins",
    "complex": "builtins",
    "float": "builtins",
    "int": "builtins",
    "list": "builtins",
    "object": "builtins",
    "property": "builtins",
    "slice": "builtins",
    "staticmethod": "builtins",
    "str": "builtins",
    "tuple": "builtins",
    "type": "builtins",
}
# Without such a package, its types are Any.
_MAY_BE_MISSING = "  # type: ignore[import, unused-ignore]\n"
# The entries of an overloaded function may differ in dtypes, shapes or conditions only, which types do not show.
_MAY_OVERLAP = "  # type: ignore[overload-overlap, overload-cannot-match, misc, unused-ignore]"


def stub(module: ModuleType, source: str) -> str:
    """Return the text of a .pyi. Its first line says that it was generated from `source`."""
    return _Stub(module).text(source)


def _by_name(functions: Iterable[Function]) -> dict[str, list[Function]]:
    """The entries of each name, in their order."""
    found: dict[str, list[Function]] = {}
    for function in functions:
        found.setdefault(function.name, []).append(function)
    return found


def _alias(source: str) -> str:
    """A name to import a whole module under that is not the name of a function."""
    return f"_tenon_{source.replace('.', '_')}"


class _Form(NamedTuple):
    """One definition of a function: its only one, or one of its overloads."""

    first: str  # the type of its first tensor
    given: str  # the type of the results that have the type of the first tensor
    out: Optional[str]  # the parameters `out` and `like`, if it takes them
    like: Optional[str]


class _Stub:
    def __init__(self, module: ModuleType) -> None:
        self.module = module
        found = list(entries(module))
        self.constants = constants_of(module)
        self.functions = _by_name(entry for entry in found if not isinstance(entry, (Class, Constant)))
        self.objects = {entry.name: entry for entry in found if isinstance(entry, Class)}
        methods = [method for made in self.objects.values() for method in made.functions if method not in made.constructors]
        # In the body of a class, the names of its methods and fields hide those of the module.
        self.members = {method.name.split(".")[1] for method in methods}
        self.members.update(constant.name for made in self.objects.values() for constant in made.constants)
        for function in [*(entry for entries in self.functions.values() for entry in entries), *methods]:
            self.members.update(result["name"] for result in function.results if result["name"])
        self.hidden = {*self.functions, *self.objects, *self.members, *(constant.name for constant in self.constants)}
        self.taken = {*self.hidden, *_SOURCES, "builtins", "collections", "tenon", "typing"}
        self.numbers = {entry: i + 1 for entries in [*self.functions.values(), *_by_name(methods).values()] for i, entry in enumerate(entries)}
        self.used: set[str] = set()
        self.handles: dict[str, str] = {}
        self.result_types: dict[tuple[str, ...], str] = {}
        self.integers = ""
        self.lists: dict[str, str] = {}  # by kind
        self.definitions: list[str] = []  # before the classes and functions of the library
        self.arrays = {name: self.new_name(f"_{name}") for name in ("Array", "FrameworkArray", "ArrayT", "OutT")}
        self.used_arrays: set[str] = set()

    def text(self, source: str) -> str:
        body = [self.constant(constant, "", False) for constant in self.constants]
        body += [self.object(made) for made in self.objects.values()]
        body += [self.definition(overloads, name, [], "") for name, overloads in self.functions.items()]
        values = self.type_variables()
        if hasattr(self.module, "__variant__"):
            values.append(f"__variant__: {self.word('str')}")
        if hasattr(self.module, "__version__"):
            values.append(f"__version__: {self.word('str')}")
        head = f"# Generated by `python -m tenon stubs {source}`; do not edit.\n"
        doc = (self.module.__doc__ or "").strip()
        if doc:
            head += _docstring(doc, "")
        return "\n".join([head, self.imports(), *values, *([""] if values else []), *self.definitions, *body])

    def type_variables(self) -> list[str]:
        lines = []
        for name, bound in (("ArrayT", "FrameworkArray"), ("OutT", "Array")):
            if name in self.used_arrays:
                own = self.arrays[name]
                lines.append(f'{own} = {self.word("TypeVar")}("{own}", bound={self.array(bound)})')
        return lines

    def imports(self) -> str:
        words = sorted(self.used)
        whole = {_SOURCES[word] for word in words if word in self.hidden}
        lines = [f"import {source} as {_alias(source)}\n" for source in sorted(whole)]
        for module in sorted({handle.rpartition(".")[0] for handle in self.handles} - {""}):
            lines.append(f"import {module} as {_alias(module)}{_MAY_BE_MISSING}")
        for source in ("collections.abc", "os", "typing", "typing_extensions"):
            names = [word for word in words if _SOURCES[word] == source and word not in self.hidden]
            if names:
                lines.append(f"from {source} import {', '.join(names)}\n")
        arrays = [f"{name} as {self.arrays[name]}" for name in ("Array", "FrameworkArray") if name in self.used_arrays]
        if arrays:
            lines.append(f"from tenon import {', '.join(arrays)}{_MAY_BE_MISSING}")
        return "".join(lines)

    # ---------------------------------------------------------------------------------------------------------- names

    def word(self, word: str) -> str:
        """How to write a name of _SOURCES here. A function of the library may have the same name."""
        self.used.add(word)
        return f"{_alias(_SOURCES[word])}.{word}" if word in self.hidden else word

    def array(self, name: str) -> str:
        """How to write tenon.Array, tenon.FrameworkArray, or a variable for the type of one."""
        self.used_arrays.add(name)
        return self.arrays[name]

    def new_name(self, wanted: str) -> str:
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        name = f"_{name}" if name[0].isdigit() else name
        while name in self.taken or keyword.iskeyword(name):
            name += "_"
        self.taken.add(name)
        return name

    def object_name(self, name: str) -> str:
        """How to write a class of the library. A method or field of the same name would hide it."""
        return self.word("Any") if name in self.members else name

    # ---------------------------------------------------------------------------------------------------- definitions

    def object(self, made: Class) -> str:
        """A class of the library."""
        own = self.object_name(made.name)
        # The metaclass is a detail, but mypy.stubtest compares it.
        lines = [f"@{self.word('final')}\nclass {made.name}(metaclass={self.word('type')}):\n"]
        if made.doc.strip():
            lines.append(_docstring(made.doc, "    "))
        if made.constructors:
            lines.append(self.definition(made.constructors, "__new__", ["cls"], "    "))
        else:  # no call is right
            lines.append(f"    def __new__(cls, _: {self.word('NoReturn')}, /) -> {own}: ...\n")
        lines += [self.constant(constant, "    ", True) for constant in made.constants]
        for name, overloads in _by_name(made.static_methods).items():
            lines.append(self.definition(overloads, name.split(".")[1], [], "    ", "staticmethod"))
        for method in made.properties:
            lines.append(self.property(method))
        for overloads in _by_name(made.methods).values():
            lines.append(self.method(overloads))
        lines.append(self.missing_methods(made))
        lines.append(
            f"    @{self.word('property')}\n    def closed(self) -> {self.word('bool')}: ...\n"
            f"    def close(self) -> None: ...\n    def __enter__(self) -> {own}: ...\n"
            f"    def __exit__(self, *error: {self.word('object')}) -> None: ...\n"
        )
        return "".join(lines)

    def constant(self, constant: Constant, indent: str, in_class: bool) -> str:
        kind = self.word(type(constant.value).__name__)
        annotation = f"{self.word('ClassVar')}[{kind}]" if in_class else kind
        doc = _docstring(constant.doc, indent) if (constant.doc or "").strip() else ""
        return f"{indent}{constant.name}: {annotation}\n{doc}"

    def property(self, function: Function) -> str:
        head = f"    @{self.word('property')}\n    def {function.name.split('.')[1]}(self) -> {self.result(function, self.word('Any'))}:\n"
        return head + _doc_of("        ", function)

    def method(self, overloads: list[Function]) -> str:
        name = overloads[0].name.split(".")[1]
        if name == "__eq__":  # of `object`, and NotImplemented for those of other types
            return f"    def __eq__(self, other: {self.word('object')}, /) -> {self.word('bool')}: ...\n"
        return self.definition(overloads, name, ["self"], "    ")

    def missing_methods(self, made: Class) -> str:
        """What the host adds to the special methods of a class."""
        methods = {method.name.split(".")[1]: method for method in made.methods}
        lines = []
        if "__next__" in methods and "__iter__" not in methods:
            lines.append(f"    def __iter__(self) -> {self.object_name(made.name)}: ...\n")
        elif "__getitem__" in methods and "__iter__" not in methods:
            item = self.result(methods["__getitem__"], self.word("Any"))
            lines.append(f"    def __iter__(self) -> {self.word('Iterator')}[{item}]: ...\n")
        if "__eq__" in methods and "__hash__" not in methods:
            lines.append(f"    __hash__: {self.word('ClassVar')}[None]  # type: ignore[assignment]\n")
        return "".join(lines)

    def definition(self, overloads: list[Function], name: str, first: list[str], indent: str, decorator: str = "") -> str:
        """A function or method, with the documentation of each of its entries at the first form of it."""
        heads: dict[str, list[Function]] = {}  # entries that differ in dtypes or shapes have the same types
        for function in overloads:
            for i, form in enumerate(self.forms(function)):
                head = f"def {name}({self.parameters(function, first, form)}) -> {self.result(function, form.given)}:"
                heads.setdefault(head, []).extend([] if i else [function])
        ignored = _MAY_OVERLAP if len(overloads) > 1 and len(heads) > 1 else ""
        lines = []
        for head, documented in heads.items():
            if len(heads) > 1:
                lines.append(f"{indent}@{self.word('overload')}\n")
            if decorator:
                lines.append(f"{indent}@{self.word(decorator)}\n")
            doc = f"{ignored}\n" + _doc_of(indent + "    ", *documented) if documented else f" ...{ignored}\n"
            lines.append(f"{indent}{head}{doc}")
        return "".join(lines)

    def forms(self, function: Function) -> list[_Form]:
        anything = self.word("Any")
        array = self.array("Array") if any(function.tensors[: len(function.parameters)]) else ""
        takes_like = any(result["kind"] in ("tensor", "tensors") for result in function.results)
        takes_out = takes_like and len(function.results) == 1 and not _is_open(function)
        no_out, no_like = "out: None = ..." if takes_out else None, "like: None = ..."
        any_like = f"like: {anything} = ..." if takes_like else None
        forms = []
        if _following(function):
            forms.append(_Form(self.array("ArrayT"), self.arrays["ArrayT"], no_out, no_like))
            if takes_out and not function.results[0]["name"]:
                out = self.array("OutT")
                forms.append(_Form(array, out, f"out: {out}", no_like))
                return [*forms, _Form(array, anything, no_out, any_like)]
        any_out = f"out: {self.word('Optional')}[{self.array('Array')}] = ..." if takes_out else None
        return [*forms, _Form(array, anything, any_out, any_like)]

    def parameters(self, function: Function, first: list[str], form: _Form) -> str:
        # In a stub, a name that begins with `__` marks a positional-only parameter.
        if any(parameter["name"].startswith("__") for parameter in function.parameters if parameter["name"]):
            return ", ".join([*first, f"*args: {self.word('Any')}, **kwargs: {self.word('Any')}"])
        positional = list(first)
        keywords: list[str] = []
        first_tensor = _first_tensor(function)
        for i, parameter in enumerate(function.parameters):
            if i == 0 and first == ["self"]:
                continue
            kind = form.first if i == first_tensor else self.taken_type(parameter)
            text = f"{parameter['name']}: {self.optional(parameter, kind)}"
            if parameter["optional"] or parameter["default"] is not None:
                text += " = ..."
            (keywords if parameter["keyword_only"] else positional).append(text)
        keywords += filter(None, [form.out, form.like])
        return ", ".join(positional + (["*", *keywords] if keywords else []))

    # ---------------------------------------------------------------------------------------------------------- types

    def result(self, function: Function, given: str) -> str:
        """The type of what it returns. `given` is that of the results that have the type of the first tensor."""
        if not function.results:
            return "None"
        if function.results[0]["name"] is not None:
            return self.result_type(function) + (f"[{given}]" if _following(function) else "")
        types = self.result_fields(function, given)
        return types[0] if len(types) == 1 else f"{self.word('tuple')}[{', '.join(types)}]"

    def result_fields(self, function: Function, given: str) -> list[str]:
        following = _following(function)
        types = [given if i in following else self.given_type(result) for i, result in enumerate(function.results)]
        return [self.optional(result, kind) for result, kind in zip(function.results, types)]

    def result_type(self, function: Function) -> str:
        """The named tuple of a function's results."""
        fields = [str(result["name"]) for result in function.results]
        key = (function.name, *fields, *(result["type"] for result in function.results))
        if key not in self.result_types:
            name = function.name.replace(".", "_") + "_result"
            same_name = [known for known in self.result_types if known[0] == function.name]
            if same_name and not any(list(known[1 : len(fields) + 1]) == fields for known in same_name):
                name += f"_{self.numbers[function]}"  # as the module calls it
            # The module has it under this name, unless something else has the name already.
            name = self.new_name(name if name not in self.taken else f"_{name}")
            self.result_types[key] = name
            variable = self.arrays["ArrayT"]
            types = self.result_fields(function, variable)
            bases = self.word("NamedTuple")
            if _following(function):
                bases += f", {self.word('Generic')}[{variable}]"
            lines = [f"class {name}({bases}):\n"]
            for result, kind in zip(function.results, types):
                # The field hides a method of tuple.
                ignored = "  # type: ignore[assignment, unused-ignore]" if result["name"] in ("count", "index") else ""
                lines.append(f"    {result['name']}: {kind}{ignored}\n")
            self.definitions.append("".join(lines))
        return self.result_types[key]

    def optional(self, parameter: Parameter, kind: str) -> str:
        return f"{self.word('Optional')}[{kind}]" if parameter["optional"] else kind

    def taken_type(self, parameter: Parameter) -> str:
        kind = parameter["kind"]
        if kind == "tensor":
            return self.array("Array")
        if kind == "tensors":
            return f"{self.word('Sequence')}[{self.array('Array')}]"
        if kind == "int" and parameter["choices"]:
            return f"{self.word('Literal')}[{', '.join(map(str, parameter['choices']))}]"
        if kind == "complex":
            return f"{self.word('Union')}[{self.word('SupportsComplex')}, {self.word('SupportsFloat')}, {self.word('SupportsIndex')}]"
        if kind == "bytes":
            return f"{self.word('Union')}[{self.word('Buffer')}, {self.array('Array')}]"
        if kind == "str":
            return f"{self.word('Union')}[{self.word('str')}, {self.word('PathLike')}[{self.word('str')}]]"
        if kind == "strs":
            return f"{self.word('Sequence')}[{self.word('str')}]"
        if kind == "dtype":  # the types of the frameworks' dtypes have nothing in common
            return self.word("Any")
        if kind in ("int", "ints", "uint"):
            number = self.integer()
        elif kind in ("float", "floats"):
            number = self.word("SupportsFloat")
        else:
            return self.given_type(parameter)
        return number if kind in ("int", "uint", "float") else self.list(kind, number)

    def list(self, kind: str, number: str) -> str:
        """The type that a list of numbers accepts. It is not Sequence, because to type checkers arrays are not sequences;
        but it has slices as they do, which sets, dicts and iterators have not."""
        if kind not in self.lists:
            name = self.lists[kind] = self.new_name(f"_{kind.capitalize()}")
            self.definitions.append(
                f"@{self.word('type_check_only')}\nclass {name}({self.word('Protocol')}):\n"
                f"    def __len__(self) -> {self.word('int')}: ...\n"
                f"    def __iter__(self) -> {self.word('Iterator')}[{number}]: ...\n"
                f"    def __getitem__(self, index: {self.word('slice')}, /) -> {self.word('Any')}: ...\n"
            )
        return self.lists[kind]

    def integer(self) -> str:
        """The type that an `int` accepts. NumPy's bool has no __index__, but it has `~`, which floats do not."""
        if not self.integers:
            bits = self.new_name("_Bits")
            self.definitions.append(
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
        if kind == "tensors":
            return f"{self.word('list')}[{self.word('Any')}]"
        if kind in ("ints", "floats", "strs"):
            return f"{self.word('list')}[{self.word(kind[:-1])}]"
        if kind == "uint":
            return self.word("int")
        if kind == "enum":
            return f"{self.word('Literal')}[{', '.join(map(repr, parameter['choices']))}]"
        if kind == "handle":
            return self.handle(parameter["handle"] or "")
        if parameter["callback"]:
            return self.callable(*parameter["callback"])
        return self.word(kind)

    def callable(self, parameters: tuple[Parameter, ...], results: tuple[Parameter, ...]) -> str:
        """What the caller passes: it may return anything if the function takes no result."""
        taken = ", ".join(map(self.given_type, parameters))
        types = [self.given_type(result) for result in results]
        result = f"{self.word('tuple')}[{', '.join(types)}]" if len(types) > 1 else types[0] if types else self.word("object")
        return f"{self.word('Callable')}[[{taken}], {result}]"

    def handle(self, handle: str) -> str:
        if handle in self.objects:
            return self.object_name(handle)
        module, _, name = handle.rpartition(".")
        if module:  # a class of a framework, "torch.Tensor"
            self.handles[handle] = f"{_alias(module)}.{name}"
        elif handle not in self.handles:
            self.handles[handle] = self.new_name(handle)
            self.definitions.append(f"@{self.word('type_check_only')}\nclass {self.handles[handle]}: ...\n")
        return self.handles[handle]


# ------------------------------------------------------------------------------------------- what follows from a signature


def _first_tensor(function: Function) -> int:
    """The index of the first parameter that is a tensor, or -1."""
    return next((i for i, parameter in enumerate(function.parameters) if parameter["kind"] == "tensor"), -1)


def _following(function: Function) -> set[int]:
    """The results that always have the dtype and the rank of the first tensor, and therefore its type in Python."""
    index = _first_tensor(function)
    first = None if index < 0 or function.parameters[index]["optional"] else function.tensors[index]
    if not first or _dtype(first) is None:
        return set()
    results = enumerate(function.tensors[len(function.parameters) :])
    lists = {i for i, result in enumerate(function.results) if result["kind"] == "tensors"}
    return {i for i, tensor in results if tensor and i not in lists and (_dtype(tensor), _rank(tensor)) == (_dtype(first), _rank(first))}


def _dtype(tensor: TensorType) -> str | None:
    """The dtype or its variable; None if it may be one of several."""
    if tensor["variable"]:
        return tensor["variable"]
    several = len(tensor["dtypes"]) > 1 or tensor["dtypes"][0] in ("real", "integer", "any")
    return None if several else tensor["dtypes"][0]


def _rank(tensor: TensorType) -> tuple[int, list[str | None]]:
    """The number of dimensions, and the names that stand for any number of them."""
    stars = [name for kind, _, name, _ in tensor["dims"] if kind == "star"]
    return len(tensor["dims"]), stars


def _is_open(function: Function) -> bool:
    """Whether only the function itself can make its first result, a tensor."""
    tensor = function.tensors[len(function.parameters)]
    if not tensor or function.results[0]["kind"] == "tensors" or function.results[0]["optional"] or "own" in tensor["attributes"] or tensor["of"]:
        return True
    return any(kind == "unknown" for kind, _, _, _ in tensor["dims"])


def _doc_of(indent: str, *functions: Function) -> str:
    docs = [one_line(function.signature) + (f"\n\n{function.doc}" if function.doc else "") for function in functions]
    return _docstring("\n\n".join(docs), indent)


def _docstring(text: str, indent: str) -> str:
    text = re.sub(r'"(?="|\Z)', r'\\"', text.strip().replace("\\", "\\\\"))  # no """ but the last one
    first, *others = text.splitlines()
    lines = [f'{indent}"""{first}', *(f"{indent}{line}".rstrip() for line in others)]
    return "\n".join(lines) + (f'\n{indent}"""\n' if others else '"""\n')
