"""The sentences that the tree makes true (CONTRIBUTING.md, "Where things go")."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
ARRAYS = sorted((ROOT / "frameworks").glob("*/array/*.c"))
PROTOCOLS = sorted((ROOT / "python/src/protocols").glob("*.c"))
PRODUCT = ("core/src", "python/src", "python/tenon", "frameworks", "elixir/c_src")


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.[ch]")) if "tests" not in path.parts]


def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', path.read_text(), re.M)


def test_public_headers_go_one_way():
    """frameworks → python → core; tools/check-includes knows the private ones."""
    for path in sources("core/src", "core/include"):
        assert not [name for name in includes(path) if re.search(r"Python\.h|python|torch|erl_nif", name)], path
    for path in sources("python/src", "python/include"):
        assert not [name for name in includes(path) if re.search(r"frameworks|tenon/torch", name)], path


def test_the_beam_bridge_sees_no_private_header_of_the_core():
    for path in sources("elixir/c_src"):
        assert "vendor" in path.parts or not [name for name in includes(path) if "core/" in name], path


def test_the_host_of_xla_knows_no_python():
    for path in sources("frameworks/jax/host"):
        assert not [name for name in includes(path) if re.search(r"Python\.h|python|torch", name)], path


def test_public_headers_show_nothing_private():
    for path in sources("core/include", "python/include", "frameworks/torch/include"):
        assert not re.findall(r"struct tenon__\w+ \{", path.read_text()), path


def test_each_framework_with_arrays_has_a_line_and_a_constant():
    listed = re.findall(r"ARRAY\((\w+)\)", (ROOT / "frameworks/list.h").read_text())
    assert set(listed) == {path.parts[-3] for path in ARRAYS}
    for name in listed:
        text = "".join(path.read_text() for path in (ROOT / "frameworks" / name / "array").glob("*.c"))
        assert f"const tenon__py_framework tenon__py_framework_{name} = " in text


@pytest.mark.parametrize("path", PROTOCOLS, ids=lambda path: path.stem)
def test_each_protocol_is_one_constant_in_the_file_of_its_name(path):
    assert f"const tenon__py_producer tenon__py_producer_{path.stem} = " in path.read_text()


@pytest.mark.parametrize("path", ARRAYS + PROTOCOLS, ids=lambda path: "/".join(path.parts[-3:]))
def test_statics_begin_with_the_name_of_their_producer(path):
    name = path.stem if path in PROTOCOLS else path.parts[-3]
    statics = re.findall(r"^static [^;{=]*?(\w+)(?:\(|\[| =|;)", path.read_text(), re.M)
    own = (f"{name}_", "eager_") if path.stem == "eager" else (f"{name}_",)
    assert statics and not [static for static in statics if not static.startswith(own)]


def test_differences_between_pythons_are_in_one_file():
    found = {path.name for path in sources("python/src", "frameworks")
             if re.search(r"PY_VERSION_HEX|Py_LIMITED_API|Py_GIL_DISABLED|PyErr_Fetch|PyErr_Restore", path.read_text())}
    assert found == {"compat.h"}


def test_functions_can_be_seen_at_once():
    """From the brace that opens a function, at the beginning of a line, to the one that closes it."""
    bodies = [(path, body) for path in sources(*PRODUCT)
              if "vendor" not in path.parts for body in re.findall(r"^\{$.*?^\}$", path.read_text(), re.M | re.S)]
    assert len(bodies) > 1000 and not [(path.name, body[:80]) for path, body in bodies if body.count("\n") >= 80]
