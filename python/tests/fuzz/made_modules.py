"""Modules of random tables, signatures and classes, made from bytes, and random calls of what they have.

A signature comes from the grammar of docs/signatures.md, and sometimes one of its characters is changed. The code of each
function is the echo of handmade.py: it reads every argument, and sets every result."""

import ctypes
import gc
import inspect
import pickle
import re

import handmade
from choices import ALLOWED

try:
    import numpy
except ImportError:  # then arrays are of no framework
    numpy = None

DTYPES = ["f32", "f64", "i64", "u8", "bool", "c64", "T", "f32|f64", "real", "any", "integer", "bf16", "i4", "T", "f16", "x"]
DIMS = ["n", "n", "m", "3", "_", "n + 1", "2 * n", "*b", "**b", "*_", "?", "n // 0", "(n - m) // 2", "k", "0", "4611686018427387904"]
SIZES = {"n": 2, "m": 3, "3": 3, "_": 1, "n + 1": 3, "2 * n": 4, "k": 1, "0": 0, "*b": 2, "**b": 2, "*_": 2}
ATTRIBUTES = ["rw", "c", "f", "dense", "aligned(64)", "unaligned", "cuda", "cpu|cuda", "anywhere", "alias", "inplace(a)", "keep",
              "convert", "own", "of(a)", "of(self)"]
NAMES = ["a", "b", "x", "n", "k", "keep", "self", "out", "lambda", "größe"]
CLASSES = ["A", "Bag"]
METHODS = ["run", "__call__", "__getitem__", "__setitem__", "__eq__", "__hash__", "__len__", "__iter__", "__next__", "__contains__",
           "__getstate__", "__repr__", "__add__", "__init__", "close", "size"]
# Sizes that fit into little memory, or into none.
INTEGERS = [0, 1, 2, 3, 4, -1, -2, 7, 2**61, 2**63 - 1, -(2**63), 2**64 - 1, -(2**70)]
CONSTANTS = ["1", "-2.5e3", "True", "'text'", "None", "(1, 2)", "1+2j", "01", "'"]
WHERE = ["T = f32|f64", "T = any", "n >= 1", "k <= n", "n + m < 2 * n", "T = f32, n > 0", "k > 0.5", "0 < k"]


class Parameter:
    """Its text in a signature, and a value that fits, or nearly."""

    def __init__(self, text, value):
        self.text, self.value = text, value


def dims_of(source, is_result):
    return [source.one_of(DIMS[:11] if is_result or source.byte() > 240 else DIMS[:10]) if source.byte() < 240
            else source.one_of(DIMS) for _ in range(source.below(4))]


def array(dtype, dims):
    """An array of the dtype that the word names, with the shape of these dimensions."""
    if numpy is None:
        return bytearray(8)
    name = {"f32": "f4", "f64": "f8", "i64": "i8", "u8": "u1", "bool": "?", "c64": "c8", "f16": "f2"}.get(dtype, "f4")
    return numpy.zeros([SIZES.get(dim, 1) for dim in dims], name)


def tensor(source, is_result):
    dtype, dims = source.one_of(DTYPES), dims_of(source, is_result)
    attributes = [source.one_of(ATTRIBUTES) for _ in range(source.below(3))] if source.byte() < 100 else []
    text = " ".join([f"{dtype}[{', '.join(dims)}]" + "?" * (source.byte() > 220), *attributes])
    if source.byte() > 220:
        return Parameter(f"[{text}]", [array(dtype, dims)] * source.below(4))
    return Parameter(text, array(dtype, dims))


def scalar(source, is_result):
    kinds = [("int", 2), ("uint", 2), ("float", 1.5), ("complex", 1j), ("bool", True), ("str", "text"), ("bytes", b"bytes"),
             ("'mean'|'max'", "max"), ("handle('A')", None), ("handle('Other')", None), ("1|2|4", 4), ("strs", ["a", "b"]),
             ("ints", [1, 2]), ("ints[2]", (1, 2)), ("floats", [0.5]), ("dtype", "f32"), ("dtype(T)", "f64"),
             ("callable('(x: f32[n]) -> float')", lambda x: 1.0), ("callable('()')", lambda: None)]
    text, value = source.one_of(kinds[:11] if is_result else kinds)
    return Parameter(text + "?" * (source.byte() > 230), value)


def item(source, is_result):
    return (tensor if source.byte() < 150 else scalar)(source, is_result)


def parameters(source, known, function):
    """The text between the parentheses; what fits them goes into `known`, by the name of the function."""
    parts, known[function] = [], []
    for i in range(source.below(5)):
        name = NAMES[i] if source.byte() < 240 else source.one_of(NAMES)
        made = item(source, False)
        if source.byte() > 245:
            parts.append("*")
        default = f" = {source.one_of(CONSTANTS)}" if source.byte() > 230 else ""
        parts.append(f"{name}: {made.text}{default}")
        known[function].append((name, made.value))
    return parts


def signature(source, known):
    """The first line of an entry of a table."""
    kind, owner = source.below(8), source.one_of(CLASSES)
    if kind == 0 and source.byte() > 200:
        return f"class {owner}"
    if kind == 1:
        return f"{owner + '.' if source.byte() < 128 else ''}{source.one_of(['LIMIT', 'EPS', 'run'])} = {source.one_of(CONSTANTS)}"
    if kind == 2:
        return f"{owner}.{source.one_of(METHODS)}: {item(source, True).text}"
    name = source.one_of(["f", "g", "h"])
    first = []
    if kind == 3:
        name = owner
    elif kind in (4, 5):
        name, first = f"{owner}.{source.one_of(METHODS)}", ["self"] if kind == 4 else []
    text = f"{name}({', '.join(first + parameters(source, known, name.rpartition('.')[2]))})"
    results = [item(source, True).text for _ in range(source.below(3))]
    names = "rs" if source.byte() > 200 else ""
    if results and kind != 3:
        text += " -> " + ", ".join(f"{names[i]}: {result}" if names else result for i, result in enumerate(results))
    clauses = ["T = f32|f64"] if "T[" in text and source.byte() < 230 else []
    clauses += [source.one_of(WHERE)] if source.byte() > 200 else []
    return f"{text} where {', '.join(clauses)}" if clauses else text


def broken(source, text):
    """One change of a character."""
    data = bytearray(text.encode())
    at, choice = source.below(len(data)), source.below(3)
    if choice == 0:
        del data[at]
    elif choice == 1:
        data[at] = source.byte() or 1
    else:
        data[at:at] = bytes([source.one_of(b"()[],:|?*->='\"\x80\xff. ")])
    return bytes(data)


def table(source, known):
    rows, echo = [], handmade.EchoData()
    echo.open_ndim = source.below(5)
    echo.open_shape[:4] = [source.one_of([0, 1, 2, 3, -1, 2**61, 2**63 - 1]) for _ in range(4)]
    for name in CLASSES:
        if source.byte() < 200:
            rows.append(handmade.entry(f"class {name}", None, doc=b"A class.", flags=source.below(4)))
    if source.byte() < 160:
        rows.append(handmade.entry(f"A({', '.join(parameters(source, known, 'A'))})", data=echo))
    for _ in range(source.below(6)):
        text = signature(source, known)
        text = broken(source, text) if source.byte() > 230 else text.encode()
        code = handmade.ECHO if source.byte() < 250 and not text.startswith(b"class") else None
        flags = source.below(32) if source.byte() > 200 else 0
        doc = source.one_of([None, b"It does something.", b"", b"\xff\xfe"])
        rows.append(handmade.entry(text, code, doc=doc, data=echo, flags=flags))
    return rows


@handmade.LOAD
def load(host, state):
    return 0


def changed(source):
    """Changes to the fields of a module."""
    name = source.one_of(["magic", "major", "minor_needed", "size", "name", "nfunctions", "flags", "doc", "version", "load"])
    values = {
        "name": [None, b"", b"\xff", b"a.b"],
        "doc": [b"", b"\xff\n"],
        "version": [b"", b"1.0", b"\xff"],
        "nfunctions": [0, -1, 2**62],
        "size": [0, 87, 88, 96, 104],
        "load": [ctypes.cast(load, ctypes.c_void_p).value],
    }
    return {name: source.one_of(values.get(name, [0, 1, 2, 2**32 - 1]))}


def arguments(source, fitting, held, value):
    """Values that fit these parameters, and sometimes others."""
    made, keywords = [], {}
    for name, chosen in fitting if source.byte() < 240 else fitting[: source.below(5)]:
        if source.byte() > 230:
            chosen = source.one_of(held) if source.byte() < 128 else value()
        if source.byte() > 230:
            keywords[name] = chosen
        else:
            made.append(chosen)
    if source.byte() > 245:
        keywords[source.one_of(["out", "like", "self", "\ud800", "a"])] = value()
    return made, keywords


USES = [len, iter, next, hash, repr, str, float, bool, inspect.signature, lambda x: x == x, lambda x: x[0], lambda x: 1 in x,
        lambda x: x + x, lambda x: pickle.loads(pickle.dumps(x)), lambda x: x.close(), lambda x: x.__doc__, dir]


def use(source, known, held, value):
    """Call something, read an attribute of it, or put it to some use of Python's."""
    target, choice = source.one_of(held), source.byte()
    if choice < 60:
        names = [name for name in dir(target) if name[0] != "_" or name in METHODS]
        made = getattr(target, names[source.below(len(names))]) if names else None
    elif choice < 90:
        made = source.one_of(USES)(target)
    else:
        fitting = known.get(getattr(target, "__name__", ""), [])
        positional, keywords = arguments(source, fitting, held, value)
        made = target(*positional, **keywords) if callable(target) else None
    held.extend(made if isinstance(made, tuple) else [made])


def load_without(rows, changes):
    """The module of these rows, without those that it is refused for; None if it is refused for anything else."""
    while True:
        try:
            return handmade.load(handmade.module(rows, **changes))
        except ALLOWED as error:
            named = re.search(r"function (\d+)", str(error))
            if changes or not named:
                return None
            del rows[int(named[1])]


def run(source, any_value):
    """Load a module, and use what is in it. `any_value(number)` is any argument, whose numbers come from number()."""
    known, value = {}, lambda: any_value(lambda: source.one_of(INTEGERS))
    rows = table(source, known)
    module = load_without(rows, changed(source) if source.byte() > 230 else {})
    if module is None:
        return
    held = [part for name, part in vars(module).items() if name in known or (name[0] != "_" and source.byte() > 230)] or [module]
    del module
    for _ in range(source.below(12)):
        try:
            use(source, known, held, value)
        except (*ALLOWED, LookupError, StopIteration, pickle.PicklingError):
            pass
    if len(handmade._kept) > 10_000:  # what tables point to
        held.clear()
        gc.collect()
        handmade._kept.clear()
