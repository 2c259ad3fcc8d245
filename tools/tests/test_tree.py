"""The sentences that the tree makes true (CONTRIBUTING.md, "Where things go")."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PRODUCERS = ROOT / "python/src/producers"


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.[ch]"))]


def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', path.read_text(), re.M)


def test_dependencies_go_one_way():
    """frameworks → python → core."""
    for path in sources("core/src", "core/include"):
        assert not [name for name in includes(path) if re.search(r"Python\.h|python|torch|erl_nif", name)], path
    for path in sources("python/src", "python/include"):
        assert not [name for name in includes(path) if re.search(r"frameworks|tenon/torch", name)], path


def test_bridges_see_no_private_header_of_the_core():
    private = {path.name for path in (ROOT / "core/src").rglob("*.h")} - {"internal.h"}
    for path in sources("python/src", "python/include", "frameworks/torch/src", "frameworks/jax/src", "elixir/c_src"):
        assert not [name for name in includes(path) if "core/" in name or name in private], path


def test_the_host_of_xla_knows_no_python():
    for path in sources("frameworks/jax/src"):
        assert not [name for name in includes(path) if re.search(r"Python\.h|python|torch|internal\.h", name)], path


def test_public_headers_show_nothing_private():
    for path in sources("core/include", "python/include", "frameworks/torch/include"):
        assert not re.findall(r"struct tenon__\w+ \{", path.read_text()), path


def producer_files():
    return {path.stem: path for path in PRODUCERS.glob("*.c") if path.stem != "types"} | {
        path.parent.name: path for path in PRODUCERS.glob("*/*.c") if path.stem == path.parent.name}


def test_each_producer_is_one_constant_in_the_file_of_its_name():
    listed = re.findall(r"EACH\((\w+)\)", (PRODUCERS / "producer.h").read_text())
    assert set(listed) - {"tensor", "capsule"} == set(producer_files())
    for name, path in producer_files().items():
        assert f"const tenon__py_producer tenon__py_producer_{name} = " in path.read_text()


@pytest.mark.parametrize("path", [path for path in PRODUCERS.rglob("*.c") if path.stem != "types"], ids=lambda path: path.stem)
def test_statics_begin_with_the_name_of_their_producer(path):
    name = path.stem if path.parent == PRODUCERS else path.parent.name
    statics = re.findall(r"^static [^;{=]*?(\w+)(?:\(|\[| =|;)", path.read_text(), re.M)
    assert statics and not [static for static in statics if not static.startswith(name + "_")]


def test_differences_between_pythons_are_in_one_file():
    found = {path.name for path in sources("python/src", "frameworks/torch/src")
             if re.search(r"PY_VERSION_HEX|Py_LIMITED_API|Py_GIL_DISABLED|PyErr_Fetch|PyErr_Restore", path.read_text())}
    assert found == {"compat.h"}


def test_functions_can_be_seen_at_once():
    """From the brace that opens a function, at the beginning of a line, to the one that closes it."""
    bodies = [(path, body) for path in sources("core/src", "python/src", "frameworks/torch/src", "frameworks/jax/src", "elixir/c_src")
              if "vendor" not in path.parts for body in re.findall(r"^\{$.*?^\}$", path.read_text(), re.M | re.S)]
    assert len(bodies) > 1000 and not [(path.name, body[:80]) for path, body in bodies if body.count("\n") >= 80]
