"""examples/objects: built without a warning, and run by its script; the k-d trees in C and C++ are compared with a search of
all points, and with one another."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from programs import runs

numpy = pytest.importorskip("numpy")
tenon = pytest.importorskip("tenon", reason="the package is not installed; pip install .")

if "asan" in os.environ.get("LD_PRELOAD", ""):
    pytest.skip("compilers do not run under AddressSanitizer", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/objects"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
NAMES = ["kdtree.c", "kdtree.cpp", "mapped.c", "resample.c", "views.c", "words.c"]
COMPILERS = {"gcc": "g++", "clang": "clang++"}

TREES = """\
nearest rows: [0 1 2 3 4] at most 0.03 away
the tree has the memory of the points: True
KDTree.query(): this KDTree is closed
an array of the tree's memory outlives the tree: (10000, 3)
"""
SHOWN = f"""\
{TREES}{TREES}\
Words(6 of them) 6 not be ['to', 'be', 'or', 'not', 'to', 'be']
mapped: [[7.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
load(): …/numbers: No such file or directory
written through the diagonal: True
trimmed: [1. 0. 2.]
resampled: [0.  0.5 1.  2.5 4.  4. ]
"""


def build(compiler, name, folder):
    in_cpp = name.endswith(".cpp")
    compiler = COMPILERS[compiler] if in_cpp else compiler
    if not runs(compiler):
        pytest.skip(f"{compiler} is not installed, or does not run")
    file = folder / f"{name}.so"
    flags = ["-std=c++17" if in_cpp else "-std=c11", *STRICT, "-O2", "-shared", "-fPIC", f"-I{ROOT / 'core/include'}"]
    subprocess.run([compiler, *flags, str(EXAMPLES / name), "-o", str(file), "-lm"], check=True)
    return file


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compile_without_a_warning(compiler, tmp_path):
    assert sorted(file.name for file in EXAMPLES.glob("*.c*")) == NAMES
    for name in NAMES:
        build(compiler, name, tmp_path)


def test_the_script_prints_what_it_says(tmp_path, capfd):
    if not (runs(os.environ.get("CC", "cc")) and runs(os.environ.get("CXX", "c++"))):
        pytest.skip("there is no C compiler that runs, or no C++ compiler")
    if not (pathlib.Path(tenon.__file__).parent / "include").is_dir():
        pytest.skip("this package was not made by pip install: it has no headers")
    spec = importlib.util.spec_from_file_location("run_objects", EXAMPLES / "run.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(tmp_path)
    assert capfd.readouterr() == (SHOWN, "")


@pytest.fixture(scope="module", params=["kdtree.c", "kdtree.cpp"])
def kdtree(request, tmp_path_factory):
    return tenon.load(build("gcc", request.param, tmp_path_factory.mktemp("kdtree")))


@pytest.mark.parametrize("size, columns, leaf", [(1, 1, 1), (2, 1, 1), (300, 3, 1), (300, 2, 16)])
@pytest.mark.parametrize("grid", [False, True], ids=["scattered", "with equal points"])
def test_the_tree_finds_what_a_search_of_all_points_finds(kdtree, size, columns, leaf, grid):
    generator = numpy.random.default_rng(size)
    points, x = generator.random((size, columns), "float32"), generator.random((40, columns), "float32")
    if grid:
        points = numpy.round(points * 4) / 4
    tree = kdtree.KDTree(points, leaf)
    distances = numpy.sqrt(((x[:, None] - points) ** 2).sum(-1))
    for k in (1, min(size, 7)):
        found = tree.query(x, k)
        numpy.testing.assert_allclose(found.distance, numpy.sort(distances, 1)[:, :k], rtol=1e-4, atol=1e-6)
        numpy.testing.assert_allclose(numpy.take_along_axis(distances, found.rows, 1), found.distance, rtol=1e-4, atol=1e-6)


def test_the_tree_shares_the_points(kdtree):
    points = numpy.random.default_rng(1).random((100, 2), "float32")
    before = sys.getrefcount(points)
    tree = kdtree.KDTree(points)
    shown = tree.points()
    assert shown.ctypes.data == points.ctypes.data and not shown.flags.writeable
    del tree
    assert shown.tolist() == points.tolist()
    del shown
    assert sys.getrefcount(points) == before or not getattr(sys, "_is_gil_enabled", lambda: True)()


def test_the_tree_refuses(kdtree):
    points = numpy.zeros((5, 2), "float32")
    for wrong in ([points, 0], [points[:, :0].copy()]):
        with pytest.raises(ValueError, match=r"^KDTree\(\): "):
            kdtree.KDTree(*wrong)
    tree = kdtree.KDTree(points)
    for wrong in ([points, 0], [points, 6], [points[:, :1].copy()]):
        with pytest.raises(ValueError, match=r"^KDTree\.query\(\): "):
            tree.query(*wrong)
    nothing = tree.query(numpy.full((1, 2), numpy.nan, "float32"))
    assert nothing.rows.tolist() == [[-1]] and nothing.distance.tolist() == [[numpy.inf]]


def test_the_tree_in_cpp_is_the_one_in_c(tmp_path):
    trees = [tenon.load(build("gcc", name, tmp_path)) for name in ("kdtree.c", "kdtree.cpp")]
    assert len((EXAMPLES / "kdtree.cpp").read_text(encoding="utf-8").splitlines()) <= 90
    generator = numpy.random.default_rng(2)
    points, x = generator.random((2000, 3), "float32"), generator.random((200, 3), "float32")
    first, second = (module.KDTree(points, leaf=8).query(x, k=5) for module in trees)
    assert first.rows.tolist() == second.rows.tolist()
    numpy.testing.assert_allclose(first.distance, second.distance, rtol=1e-6)
    for wrong in ([points, 0], [points[:, :0].copy()], [points, "8"]):
        messages = []
        for module in trees:
            with pytest.raises((TypeError, ValueError)) as caught:
                module.KDTree(*wrong)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
