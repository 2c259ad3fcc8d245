"""tools/check-frameworks finds what names a framework outside of its folder."""

import subprocess

import pytest
from programs import runs
from scripts import ROOT, load

checker = load("tools/check-frameworks")


@pytest.fixture
def tree(tmp_path):
    """A tree with the folders of the frameworks, and nothing in them."""
    for name in checker.frameworks(ROOT):
        (tmp_path / "frameworks" / name).mkdir(parents=True)
    return tmp_path


def plant(tree, path, line):
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{line}\n{(ROOT / path).read_text()}")
    return checker.misplaced_names(tree, [file])


def test_this_tree_is_clean():
    assert checker.misplaced_names(ROOT) == []


@pytest.mark.parametrize("path, line, token, framework", [
    ("core/src/tensor/views.c", "static int has_numpy;", "has_numpy", "numpy"),
    ("core/src/tensor/views.c", "static int HasNumPy;", "HasNumPy", "numpy"),
    ("python/src/exchange/borrow.c", 'static const char *m = "torch.nn";', '"torch.nn"', "torch"),
    ("python/src/internal.h", "int tenon__py_jax_array(void);", "tenon__py_jax_array", "jax"),
    ("python/tenon/_load.py", "import cupy", "cupy", "cupy"),
    ("python/tenon/_load.py", "M = 'jaxlib.xla'", "'jaxlib.xla'", "jax"),
    ("python/tenon/__init__.py", "TORCH = 1", "TORCH", "torch"),
    ("elixir/c_src/terms.c", "static int torch_names;", "torch_names", "torch"),
    ("frameworks/torch/ops/schema.c", "static int jax_names;", "jax_names", "jax"),
    ("frameworks/torch/package/_torch_ops.py", "import ray", "ray", "ray"),
])
def test_a_planted_name_is_found(tree, path, line, token, framework):
    found = plant(tree, path, line)
    assert found == [f"{path}:1: {token} names {framework}, which belongs in frameworks/{framework}"]


@pytest.mark.parametrize("path, line", [
    ("core/src/tensor/views.c", "/* NumPy, torch and JAX */"),
    ("core/src/tensor/views.c", 'static const char *m = "pass it to torch";'),
    ("core/src/tensor/views.c", "static int array, pytorches, raysum;"),
    ("python/tenon/_load.py", "# torch"),
    ("frameworks/jax/package/_jax_ops.py", "import numpy"),
    ("frameworks/torch/ops/schema.c", "static int torch_names;"),
])
def test_messages_comments_and_own_names_are_allowed(tree, path, line):
    assert plant(tree, path, line) == []


def test_a_framework_is_left_out_of_a_copy(tmp_path):
    checker.copy_without("cupy", tmp_path)  # the last line of the list
    text = (tmp_path / "frameworks/list.h").read_text()
    assert "cupy" not in text and "ARRAY(tensorflow)\n#endif" in text
    assert not (tmp_path / "frameworks/cupy").exists() and (tmp_path / "frameworks/torch/array/torch.c").exists()


def test_an_unknown_framework(capsys):
    assert checker.main(["nampy"]) == 2
    assert "there is no framework nampy; choose from: cupy, " in capsys.readouterr().out


def configure(tmp_path, chosen):
    """What frameworks.cmake makes of TENON_FRAMEWORKS."""
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.16)\nproject(chosen NONE)\nset(PROJECT_SOURCE_DIR {ROOT})\n"
        f'include({ROOT}/frameworks/frameworks.cmake)\nmessage("list: ${{TENON_LIST_DEFINITION}}")\n'
        'message("files: ${TENON_ARRAY_FILES}")\n')
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DTENON_FRAMEWORKS={chosen}"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


@pytest.mark.skipif(not runs("cmake"), reason="cmake is not installed")
def test_a_build_with_some_frameworks(tmp_path):
    status, text = configure(tmp_path, "numpy,torch")
    assert status == 0, text
    assert "list: -DTENON__FRAMEWORKS(ARRAY,NATIVE)=ARRAY(numpy) ARRAY(torch) NATIVE(torch) \n" in text
    files = text.split("files: ")[1].splitlines()[0]
    assert "numpy/array/numpy.c" in files and "torch/array/torch.c" in files and "jax" not in files and "cupy" not in files


@pytest.mark.skipif(not runs("cmake"), reason="cmake is not installed")
def test_a_build_with_an_unknown_framework(tmp_path):
    status, text = configure(tmp_path, "numpy,nampy")
    assert status != 0 and "TENON_FRAMEWORKS: there is no framework 'nampy'; choose from:" in " ".join(text.split())
