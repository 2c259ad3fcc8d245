"""The walks of docs/architecture.md: the files and functions exist, each is reached from above, and no walk goes back to a file."""

import re

import pytest
from scripts import ROOT

PAGE = ROOT / "docs/architecture.md"
LINE = re.compile(r"^- `([\w./]+)`(?: \((callback|by|from) `?(\w+)`?\))?: (`\w+`(?:, `\w+`)*)(?:, and from here on the walk of `.*`)?$")


def walks():
    """(the title, its lines as (path, mark, name, functions)) for each list under "Walks"."""
    text = PAGE.read_text().partition("\n## Walks\n")[2]
    found, title = [], ""
    for block in text.split("\n\n"):
        if block.startswith("### "):
            title = block[4:]
        elif block.startswith("- "):
            matches = [(line, LINE.match(line)) for line in block.splitlines()]
            wrong = [line for line, match in matches if not match]
            assert not wrong, f"not a line of a walk: {wrong}"
            found.append((title, [(m[1], m[2], m[3], re.findall(r"\w+", m[4])) for _, m in matches]))
    return found


def text_of(path):
    return (ROOT / path).read_text()


def defines(path, name):
    text = text_of(path)
    if path.endswith(".py"):
        return re.search(rf"^ *def {name}\(", text, re.M)
    if path.endswith(".ex"):
        return re.search(rf"^ *defp? {name}\(", text, re.M)
    nif = rf"TENON_NIF\({name.removeprefix('tenon_nif_')}\)"
    return re.search(rf"^(?:\w[\w *]*\b{name}\((?:[^()]|\([^()]*\))*\)|{nif})\n?\s*\{{", text, re.M)


def names(text, name):
    return re.search(rf"\b{name}\b", text)


def mistakes(lines):
    """What is wrong with a walk, as sentences."""
    client = re.search(r"typedef struct tenon_client \{.*?\n\}", text_of("core/include/tenon/host/client.h"), re.S)[0]
    found, above = [], []
    for path, mark, name, functions in lines:
        if not (ROOT / path).is_file():
            found.append(f"{path} does not exist")
            continue
        found += [f"{path} does not define {function}" for function in functions if not defines(path, function)]
        if path in above and mark != "callback":
            found.append(f"goes back to {path}")
        if mark == "callback" and not re.search(rf"\(\*{name}\)", client):
            found.append(f"{path}: {name} is not in the client table")
        if mark == "by" and not any(names(text_of(other), name) for other in above):
            found.append(f"{path}: no file above has {name}")
        if not mark and above and not any(names(text_of(other), functions[0]) for other in above):
            found.append(f"{path}: no file above names {functions[0]}")
        others = [line[0] for line in lines if line[0] != path]
        found += [f"{path}: nothing in the walk calls {function}" for function in functions[1:]
                  if len(re.findall(rf"\b{function}\b", text_of(path))) < 2
                  and not any(names(text_of(other), function) for other in others if (ROOT / other).is_file())]
        above.append(path)
    return found


@pytest.mark.parametrize("title, lines", walks(), ids=lambda value: value if isinstance(value, str) else "")
def test_walk(title, lines):
    assert mistakes(lines) == []


def test_every_walk_is_there():
    titles = " ".join(title for title, _ in walks())
    for wanted in ("kernels.dot", "kernels.saxpy", "kernels.f", "ops.f", "torch.ops", "jax.jit", "Elixir", "shared tensor"):
        assert wanted in titles
    assert len(walks()) == 10


CALL = "python/src/call/call.c"


@pytest.mark.parametrize("lines, mistake", [
    ([("python/src/call/none.c", None, None, ["f"])], "python/src/call/none.c does not exist"),
    ([(CALL, None, None, ["tenon__py_distribute"])], f"{CALL} does not define tenon__py_distribute"),
    ([(CALL, None, None, ["end_call"]), ("python/src/call/plan.h", None, None, ["tenon__py_match_planned"]),
      (CALL, None, None, ["run_in"])], f"goes back to {CALL}"),
    ([(CALL, None, None, ["end_call"]), (CALL, "callback", "begin_call", ["run_code"])],
     f"{CALL}: begin_call is not in the client table"),
    ([(CALL, None, None, ["end_call"]), ("elixir/c_src/library.c", None, None, ["tenon_nif_lookup"])],
     "elixir/c_src/library.c: no file above names tenon_nif_lookup"),
    ([(CALL, None, None, ["end_call"]), ("frameworks/torch/array/struct.c", "by", "unheard", ["torch_read_c_tensor"])],
     "frameworks/torch/array/struct.c: no file above has unheard"),
    ([("python/src/exchange/types.c", None, None, ["tenon__py_known_kind", "tenon__py_is_arraylike"])],
     "python/src/exchange/types.c: nothing in the walk calls tenon__py_is_arraylike"),
])
def test_a_mistake_is_found(lines, mistake):
    assert mistake in mistakes(lines)
