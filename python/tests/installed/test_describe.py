"""python -m tenon describe: what another runtime's reader of signatures gets."""

import json

import pytest
from libraries import TYPED, WIDE, build, run, tenon

EXPECTED = r"""# wide 1.2
# Wide \ and "quoted".
#
# With \"\"\" in it, ends "so"

# Returns a*x + y.
saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]

# Two
#   lines.
pool(x: T[n, k], mode: 'mean'|'s  um' = 'mean', *, size: ints[2] = (1, 2), w: floats?, m: f32[n]?, b: bool = True, s: str = 'x', i: int) -> y: T[n], count: int, int: float, kind: 'a'|'b'? where T = f32|f64

# Opens.
open(path: str, like_this: handle('my index')?) -> handle('my index')

close(index: handle('my index'), other: handle('Any'), third: handle('2d'))

int(x: int) -> int, float, bool, str

Literal(x: f32[n] rw, __y: int)

typing(x: int? = None)

# Café.
nonzero(x: f32[n]) -> i64[?]

grad(t: handle('torch.Tensor'), sizes: ints) -> handle('torch.Tensor')

mode() -> 'a'|"b"

total(x: f32[n]) -> total: float
""".replace(r"\"", '"')  # noqa: E501


def test_describe(tmp_path):
    done = run("describe", build(tmp_path / "wide.so", WIDE))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == EXPECTED


def test_signatures_survive(tmp_path):
    """Who compiles the signatures of the text has the same library again."""
    signatures = [line for line in EXPECTED.splitlines() if line and not line.startswith("#")]
    table = ",".join(f"TENON_FUNCTION({json.dumps(signature)}, none, NULL)" for signature in signatures)
    code = f"""
    #include <tenon/function.h>
    static tenon_status none(tenon_call *call) {{ (void)call; return TENON_OK; }}
    TENON_MODULE(again, NULL, {table})"""
    done = run("describe", build(tmp_path / "again.so", code))
    assert done.stdout == "# again\n\n" + "\n\n".join(signatures) + "\n"


def test_version_and_documentation_may_be_missing(tmp_path):
    code = """
    #include <tenon/function.h>
    static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
    TENON_MODULE(plain, NULL, TENON_FUNCTION("f()", none, NULL))"""
    assert run("describe", build(tmp_path / "plain.so", code)).stdout == "# plain\n\nf()\n"


# ------------------------------------------------------------------------------------------------------- several files

PLAIN = """
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(plain, NULL, TENON_FUNCTION("f()", none, NULL))"""


def test_several_files(tmp_path):
    plain, wide = build(tmp_path / "plain.so", PLAIN), build(tmp_path / "wide.so", WIDE)
    done = run("describe", plain, wide)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == "# plain\n\nf()\n\n" + EXPECTED


@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]], ids=str)
def test_one_bad_file_among_several(tmp_path, form):
    plain, wide = build(tmp_path / "plain.so", PLAIN), build(tmp_path / "wide.so", WIDE)
    (tmp_path / "text.so").write_text("text")
    done = run("describe", *form, plain, tmp_path / "missing.so", tmp_path / "text.so", wide)
    assert done.returncode == 1
    assert done.stdout == run("describe", *form, plain, wide).stdout != ""
    missing, text = done.stderr.splitlines()
    assert missing.startswith("python -m tenon: ") and "missing.so" in missing
    assert text.startswith("python -m tenon: ") and "it is not a shared library" in text


@pytest.mark.parametrize("form", ["--json", "--markdown"])
def test_no_good_file(tmp_path, form):
    done = run("describe", form, tmp_path / "missing.so")
    assert (done.returncode, done.stdout) == (1, "") and "missing.so" in done.stderr


def test_one_form_only(tmp_path):
    done = run("describe", "--json", "--markdown", build(tmp_path / "plain.so", PLAIN))
    assert (done.returncode, done.stdout) == (2, "") and "not allowed with argument" in done.stderr


# ---------------------------------------------------------------------------------------------------------------- JSON

# Every attribute, kind of dimension, flag and kind of entry.
RICH = r"""
#define TENON_MODULE_VERSION "2.0"
#include <tenon/function.h>
static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
TENON_MODULE(rich, "Rich.",
    TENON_FUNCTION("first(x: f32|i8[n, 3, _, *b] c, *, y: T[n + 1, 2 * (n - 1) // 3]? f cuda|cpu aligned(64),"
        " m: real[n] rw alias unaligned, k: integer[] anywhere dense) -> T[n]? where T = f32|f64", none, "One | two."),
    TENON_FUNCTION_FLAGS("second(x: f32[n] rw inplace(y), y: f32[n]) -> f32[n] inplace(y) cuda where n > 0, n<10", none, NULL,
        TENON_RELEASE_LOCK | TENON_NO_GRAD_CHECK | TENON_CAPTURABLE),
    TENON_CLASS("Box", "A box."),
    TENON_FUNCTION("Box(x: f32[n] keep, e: 'a'|'b|c'? = 'b|c', i: ints[2] = (1, 2), o: floats = (1.5,), s: str = 'x')",
        none, "Makes it."),
    TENON_FUNCTION_FLAGS("Box.view(self, q: f32[k]) -> a: f32[?, ?] of(self) rw, b: f32[?] of(q), c: i64[4] own f",
        none, NULL, TENON_KEEP_LOCK),
    TENON_CONSTANT("LIMIT = 100", "The most."),
    TENON_CONSTANT("Box.NAME = 'box'", NULL),
    TENON_FUNCTION("Box.make(n: int) -> handle('Box')", none, "Makes one."),
    TENON_FUNCTION("Box.data: f32[?] of(self)", none, "Its data."),
    TENON_CLASS_FLAGS("Free", NULL, TENON_CLASS_CONCURRENT),
    TENON_FUNCTION("Free.join(self, index: handle('Index'), other: handle('Box')?) -> handle('Free'), bool, str?",
        none, NULL))
"""


def described(file, code):
    done = run("describe", "--json", build(file, code))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def comment(text):
    return "".join(f"# {line}".rstrip() + "\n" for line in (text or "").splitlines())


def text_of(library):
    """What `describe` prints, made from the JSON."""
    blocks = [comment(" ".join(filter(None, [library["name"], library["version"]]))) + comment(library["doc"])]
    for entry in library["entries"]:
        functions = [entry]
        if entry["entry"] == "class":
            blocks.append(comment(entry["doc"]) + f"class {entry['name']}\n")
            members = [*entry["static_methods"], *entry["properties"], *entry["methods"]]
            functions = [function for function in [*entry["constants"], *entry["constructors"], *members] if function]
        blocks += [comment(function["doc"]) + function["signature"] + "\n" for function in functions]
    return "\n".join(blocks)


@pytest.mark.parametrize("code", [WIDE, TYPED, RICH], ids=["wide", "typed", "rich"])
def test_json_has_the_text(tmp_path, code):
    found = described(tmp_path / "one.so", code)
    assert (found["schema"], found["tenon"]) == (1, tenon.__version__)
    (library,) = found["libraries"]
    assert library["file"] == str(tmp_path / "one.so")
    assert text_of(library) == run("describe", tmp_path / "one.so").stdout


def type_of(item):
    """The type in a signature, made from its parts."""
    mark = "?" if item["optional"] else ""
    if item["kind"] == "enum":
        return "|".join(f"'{choice}'" for choice in item["choices"]) + mark
    if item["kind"] == "handle":
        return f"handle('{item['handle']}'){mark}"
    tensor = item["tensor"]
    if not tensor:
        return item["kind"] + (f"[{item['count']}]" if item["count"] is not None else "") + mark
    dims = ", ".join(dim["text"] for dim in tensor["dims"])
    words = list(tensor["attributes"])
    if item["is_result"] and not tensor["of"] and "own" not in words:
        words = [word for word in words if word not in ("rw", "c", "anywhere")]  # what an `out` has to be
    words += [f"{word}({tensor[word]})" for word in ("inplace", "of") if tensor[word]]
    words += ["|".join(tensor["devices"])] if tensor["devices"] else []
    words += [f"aligned({tensor['alignment']})"] if tensor["alignment"] else []
    return " ".join([f"{tensor['variable'] or '|'.join(tensor['dtypes'])}[{dims}]{mark}", *words])


def signature_of(function, is_constructor):
    parameters, variables = [], {}
    for item in function["parameters"] + function["results"]:
        item["is_result"] = item in function["results"]
        if item["tensor"] and item["tensor"]["variable"]:
            variables[item["tensor"]["variable"]] = "|".join(item["tensor"]["dtypes"])
    for i, item in enumerate(function["parameters"]):
        if item["keyword_only"] and "*" not in parameters:
            parameters.append("*")
        text = "self" if i == 0 and item["name"] == "self" and "." in function["name"] else f"{item['name']}: {type_of(item)}"
        is_plain = item["default"] is None or (item["optional"] and item["default"] == "None")
        parameters.append(text if is_plain else f"{text} = {item['default']}")
    results = [f"{item['name']}: {type_of(item)}" if item["name"] else type_of(item) for item in function["results"]]
    text = f"{function['name']}({', '.join(parameters)})"
    if results and not is_constructor:
        text += f" -> {', '.join(results)}"
    clauses = [f"{name} = {dtypes}" for name, dtypes in variables.items()] + function["conditions"]
    if clauses:
        text += " where " + ", ".join(clauses)
    return text


def constant_of(constant, owner):
    definition = json.dumps(f"{owner}{constant['name']} = {constant['value']!r}")
    return f"TENON_CONSTANT({definition}, {json.dumps(constant['doc'] or '')})"


FLAGS = {"release_lock": 1, "keep_lock": 2, "no_grad_check": 4, "capturable": 8}


def code_of(library):
    """A module with the same signatures, made from the parts of the JSON without the texts of the signatures."""
    entries = []

    def add(function, is_constructor=False):
        flags = sum(FLAGS[name] for name in function["flags"])
        signature = json.dumps(signature_of(function, is_constructor))
        entries.append(f"TENON_FUNCTION_FLAGS({signature}, none, {json.dumps(function['doc'] or '')}, {flags})")

    for entry in library["entries"]:
        if entry["entry"] == "function":
            add(entry)
            continue
        if entry["entry"] == "constant":
            entries.append(constant_of(entry, ""))
            continue
        flag = 0 if entry["serial"] else "TENON_CLASS_CONCURRENT"
        entries.append(f"TENON_CLASS_FLAGS({json.dumps(entry['name'])}, {json.dumps(entry['doc'] or '')}, {flag})")
        entries += [constant_of(constant, f"{entry['name']}.") for constant in entry["constants"]]
        for function in (*entry["static_methods"], *entry["methods"]):
            add(function)
        for function in entry["properties"]:
            (result,) = function["results"]
            result["is_result"] = True
            text = json.dumps(f"{function['name']}: {type_of(result)}")
            entries.append(f"TENON_FUNCTION({text}, none, {json.dumps(function['doc'] or '')})")
        for function in entry["constructors"]:
            add(function, True)
    version = f"#define TENON_MODULE_VERSION {json.dumps(library['version'])}\n" if library["version"] else ""
    doc = json.dumps(library["doc"] or "", ensure_ascii=False)
    return f"""{version}
    #include <tenon/function.h>
    static tenon_status none(tenon_call *call) {{ (void)call; return TENON_OK; }}
    TENON_MODULE({library['name']}, {doc}, {', '.join(entries)})"""


def without_texts(value):
    """The description without what was written in another way, and without the difference of no text and an empty one."""
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if name not in ("file", "signature", "type", "text", "is_result")}
        return {name: without_texts(item) or None for name, item in kept.items()}
    return list(map(without_texts, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("code", [WIDE, TYPED, RICH], ids=["wide", "typed", "rich"])
def test_json_is_complete(tmp_path, code):
    """The same library can be made from it."""
    (library,) = described(tmp_path / "one.so", code)["libraries"]
    (again,) = described(tmp_path / "again.so", code_of(library))["libraries"]
    assert without_texts(again) == without_texts(library)


def test_parts_of_the_json(tmp_path):
    (library,) = described(tmp_path / "rich.so", RICH)["libraries"]
    assert (library["name"], library["version"], library["doc"]) == ("rich", "2.0", "Rich.")
    limit, first, second, box, free = library["entries"]
    kinds = ["constant", "function", "function", "class", "class"]
    assert [entry["entry"] for entry in library["entries"]] == kinds
    assert limit == {"entry": "constant", "name": "LIMIT", "signature": "LIMIT = 100", "doc": "The most.", "value": 100}
    assert list(first) == ["entry", "name", "signature", "doc", "flags", "parameters", "results", "conditions"]
    x, y, m, k = first["parameters"]
    assert x["tensor"]["dims"][3] == {"kind": "star", "text": "*b", "name": "b", "code": []}
    assert y["tensor"]["dims"][0] == {"kind": "expression", "text": "n + 1", "name": None, "code": ["n", 1, "+"]}
    assert (y["keyword_only"], y["optional"], y["default"], y["tensor"]["alignment"]) == (True, True, "None", 64)
    assert m["written"] and m["tensor"]["attributes"] == ["rw", "alias", "unaligned"]
    assert second["conditions"] == ["n > 0", "n<10"] and first["conditions"] == []
    assert second["flags"] == ["release_lock", "no_grad_check", "capturable"] and first["flags"] == []
    assert (box["doc"], box["serial"], free["serial"], free["constructors"]) == ("A box.", True, False, [])
    kept, choice, *_ = box["constructors"][0]["parameters"]
    assert kept["tensor"]["attributes"] == ["keep"] and choice["choices"] == ["a", "b|c"]
    a, b, c = box["methods"][0]["results"]
    assert (a["tensor"]["of"], b["tensor"]["of"], c["tensor"]["of"]) == ("self", "q", None)
    assert c["tensor"]["attributes"] == ["f", "own"] and a["name"] == "a"


# ------------------------------------------------------------------------------------------------------------ Markdown

PAGE = """\
# rich 2.0

Rich.

| constant | value | |
|---|---|---|
| `LIMIT` | `100` | The most. |

## `first`

```text
first(x: f32|i8[n, 3, _, *b] c, *, y: T[n + 1, 2 * (n - 1) // 3]? f cuda|cpu aligned(64), m: real[n] rw alias unaligned, \
k: integer[] anywhere dense) -> T[n]? where T = f32|f64
```

One | two.

| argument | type | |
|---|---|---|
| `x` | `f32\\|i8[n, 3, _, *b] c` | an array |
| `y` | `T[n + 1, 2 * (n - 1) // 3]? f cuda\\|cpu aligned(64)` | an array; by keyword only; may be None; default `None` |
| `m` | `real[n] rw alias unaligned` | an array; written to; by keyword only |
| `k` | `integer[] anywhere dense` | an array; by keyword only |

| result | type | |
|---|---|---|
|  | `T[n]?` | an array; may be None |

## `second`
"""


def test_markdown(tmp_path):
    done = run("describe", "--markdown", build(tmp_path / "rich.so", RICH))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(PAGE)
    assert "Flags: `release_lock`, `no_grad_check`, `capturable`.\n\n## class `Box`\n\nA box.\n\n| constant" in done.stdout
    assert "| `i` | `ints[2]` | 2 integers; default `(1, 2)` |\n" in done.stdout
    assert "| `a` | `f32[?, ?] of(self) rw` | an array; memory of `self` |\n" in done.stdout
    assert "| `c` | `i64[4] own f` | an array; memory of the library |\n" in done.stdout
    assert "| `x` | `f32[n] keep` | an array; kept after the call |\n" in done.stdout
    assert "| 0 | `handle('Free')` | an object: `Free` |\n| 1 | `bool` | True or False |\n" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {4}
