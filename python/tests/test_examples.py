"""The examples of functions: each is built by the command in its own first lines, and called.

The package is an installed `tenon`, or the one in the folder that TENON_PACKAGE names."""

import importlib.util
import inspect
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from programs import runs

numpy = pytest.importorskip("numpy")
tenon = pytest.importorskip("tenon", reason="the package is not installed; pip install .")

if "asan" in os.environ.get("LD_PRELOAD", ""):
    pytest.skip("compilers do not run under AddressSanitizer", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/functions"
PACKAGE = pathlib.Path(tenon.__file__).resolve().parent
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
LANGUAGES = ["c", "cpp", "f90"]


def need(compiler):
    if not runs(compiler):
        pytest.skip(f"{compiler} is not installed, or does not run")


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """A function: the file that an example is compiled into."""
    built = {}

    def build(language):
        if language not in built:
            source = EXAMPLES / f"kernels.{language}"
            command = re.search(r"^\W+((?:cc|c\+\+|gfortran) .* -o kernels\.so)$", source.read_text(), re.M)[1]
            need(command.split()[0])
            command = command.replace("$(python -m tenon cflags)", shlex.quote(f"-I{ROOT / 'core/include'}"))
            command = command.replace(source.name, shlex.quote(str(source)))
            folder = tmp_path_factory.mktemp(language)
            subprocess.run(command, shell=True, cwd=folder, check=True)
            built[language] = folder / "kernels.so"
        return built[language]

    return build


@pytest.fixture
def load(library):
    return lambda language: tenon.load(library(language))


class Framework:
    def __init__(self, name, dtype):
        self.name, self.dtype = name, dtype
        self.module = pytest.importorskip(name)
        if name == "jax":
            self.module = pytest.importorskip("jax.numpy")
            if dtype == "float64":
                pytest.skip("JAX has no float64 unless it is told to")

    def array(self, values, dtype=None):
        dtype = dtype or self.dtype
        if self.name == "torch":
            return self.module.tensor(values, dtype=getattr(self.module, dtype))
        return self.module.asarray(numpy.asarray(values, dtype))

    def check(self, result, expected, dtype=None):
        """The result is this framework's, of this dtype and these values."""
        assert isinstance(result, type(self.array([])))
        assert str(result.dtype).replace("torch.", "") == (dtype or self.dtype)
        numpy.testing.assert_allclose(numpy.asarray(result), numpy.asarray(expected), rtol=1e-6)
        assert tuple(result.shape) == numpy.asarray(expected).shape


@pytest.fixture(params=["numpy", "torch", "jax"])
def single(request):
    return Framework(request.param, "float32")


@pytest.fixture(params=["numpy", "torch", "jax"])
def double(request):
    return Framework(request.param, "float64")


# ------------------------------------------------------------------------------------------------------- the libraries


@pytest.mark.parametrize("language", LANGUAGES)
def test_needs_none_of_our_symbols(library, language):
    file = library(language)
    need("nm")

    def symbols(*options):
        done = subprocess.run(["nm", "-D", *options, str(file)], stdout=subprocess.PIPE, text=True, check=True)
        return [line.split()[-1] for line in done.stdout.splitlines()]

    assert [name for name in symbols("--undefined-only") if name.startswith(("tenon", "Py", "_Py"))] == []
    assert [name for name in symbols("--defined-only") if name.startswith("tenon")] == ["tenon_module_v1"]


@pytest.mark.parametrize(
    "compiler, standard, language",
    [(compiler, standard, "c") for compiler in ("gcc", "clang") for standard in ("c99", "c11")]
    + [(compiler, "c++17", "cpp") for compiler in ("g++", "clang++")],
)
def test_compiles_without_a_warning(compiler, standard, language, tmp_path):
    need(compiler)
    command = [compiler, f"-std={standard}", "-O2", *STRICT, "-shared", "-fPIC", f"-I{ROOT / 'core/include'}"]
    file = tmp_path / "kernels.so"
    subprocess.run([*command, str(EXAMPLES / f"kernels.{language}"), "-o", str(file)], check=True)
    assert tenon.load(file).__name__ == "kernels"


def test_fortran_without_a_warning(tmp_path):
    need("gfortran")
    command = ["gfortran", "-std=f2008", "-Wall", "-Wextra", "-pedantic", "-Werror", "-shared", "-fPIC", "-O2"]
    source = str(EXAMPLES / "kernels.f90")
    subprocess.run([*command, source, "-o", str(tmp_path / "kernels.so")], cwd=tmp_path, check=True)
    assert tenon.load(tmp_path / "kernels.so").__name__ == "kernels"


# ------------------------------------------------------------------------------------------------------------- in C


def test_saxpy(load, single):
    kernels = load("c")
    x, y = single.array([1, 2, 3]), single.array([10, 20, 30])
    before = sys.getrefcount(x), sys.getrefcount(y)
    single.check(kernels.saxpy(2.0, x, y), [12, 24, 36])
    single.check(kernels.saxpy(y=y, x=x, a=0), [10, 20, 30])
    single.check(kernels.saxpy(2.0, single.array([]), single.array([])), numpy.empty(0))
    with pytest.raises(TypeError, match=re.escape("saxpy(): argument 'x': expected f32[n], got i32[3]")):
        kernels.saxpy(2.0, single.array([1, 2, 3], "int32"), y)
    with pytest.raises(ValueError, match="argument 'y': dimension 0 is 2, but n = 3 from argument 'x'"):
        kernels.saxpy(2.0, x, single.array([1, 2]))
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


def test_dot(load, single):
    result = load("c").dot(single.array([1, 2, 3]), single.array([4, 5, 6]))
    assert type(result) is float and result == 32


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_scale_writes_in_place(load, name):
    kernels, framework = load("c"), Framework(name, "float32")
    x = framework.array([[1, 2, 3], [4, 5, 6]])
    assert kernels.scale(x, 2.0) is None
    framework.check(x, [[2, 4, 6], [8, 10, 12]])
    kernels.scale(x.T, 0.5)  # of any order, as long as there are no gaps
    framework.check(x, [[1, 2, 3], [4, 5, 6]])
    with pytest.raises(ValueError, match=r"strides \[3, 2\] leave gaps between the elements"):
        kernels.scale(x[:, ::2], 2.0)
    framework.check(x, [[1, 2, 3], [4, 5, 6]])


def test_scale_of_what_may_not_be_written(load):
    fixed = numpy.ones(3, "float32")
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="argument 'x' is read-only"):
        load("c").scale(fixed, 2.0)
    assert fixed.tolist() == [1, 1, 1]


def test_scale_of_jax(load):
    framework = Framework("jax", "float32")
    x = framework.array([1, 2])
    with pytest.raises(ValueError, match="a JAX array is immutable"):
        load("c").scale(x, 2.0)
    framework.check(x, [1, 2])


def test_normalize(load, single):
    kernels = load("c")
    x = single.array([1, 4, 5])
    result = kernels.normalize(x)
    assert result._fields == ("y", "divisor") and result.divisor == 10
    single.check(result.y, [0.1, 0.4, 0.5])
    y, divisor = kernels.normalize(x, by="max")
    assert divisor == 5
    single.check(y, [0.2, 0.8, 1])
    y, divisor = kernels.normalize(single.array([-2, -1]), "max")
    assert divisor == -1
    single.check(y, [2, 1])
    with pytest.raises(ValueError, match=re.escape("normalize(): argument 'by': expected 'sum'|'max', got 'mean'")):
        kernels.normalize(x, "mean")
    for by, reason in [("sum", "the sum of x is 0"), ("max", "the maximum of x is 0")]:
        with pytest.raises(ValueError, match=re.escape(f"normalize(): {reason}")):
            kernels.normalize(single.array([0, 0]), by)
        with pytest.raises(ValueError, match=re.escape(f"normalize(): {reason}")):
            kernels.normalize(single.array([]), by)


def check_matmul(kernels, framework):
    a, b = numpy.arange(6).reshape(2, 3), numpy.arange(12).reshape(3, 4) - 5
    framework.check(kernels.matmul(framework.array(a), framework.array(b)), a @ b)
    framework.check(kernels.matmul(framework.array(a.T).T, framework.array(b.T).T), a @ b)
    framework.check(kernels.matmul(framework.array(a)[:, ::2], framework.array(b)[::2, ::3]), a[:, ::2] @ b[::2, ::3])
    framework.check(kernels.matmul(framework.array(a)[:, :0], framework.array(b)[:0]), numpy.zeros((2, 4)))
    with pytest.raises(ValueError, match="argument 'b': dimension 0 is 2, but k = 3 from argument 'a'"):
        kernels.matmul(framework.array(a), framework.array(a))


def test_matmul_f32(load, single):
    check_matmul(load("c"), single)


def test_matmul_f64(load, double):
    check_matmul(load("c"), double)


def test_matmul_of_two_dtypes(load):
    with pytest.raises(TypeError, match="argument 'b'"):
        load("c").matmul(numpy.ones((2, 2), "float32"), numpy.ones((2, 2)))


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_nonzero(load, name):
    kernels, framework = load("c"), Framework(name, "float32")
    framework.check(kernels.nonzero(framework.array([0, 7, 0, -1])), [1, 3], "int64")
    framework.check(kernels.nonzero(framework.array([0, 0])), numpy.empty(0), "int64")


def test_mixes_and_buffers(load):
    torch = pytest.importorskip("torch")
    kernels = load("c")
    x, t = numpy.ones(3, "float32"), torch.ones(3)
    assert isinstance(kernels.saxpy(2.0, x, t), numpy.ndarray)
    assert isinstance(kernels.saxpy(2.0, t, x), torch.Tensor)
    assert memoryview(kernels.saxpy(2.0, memoryview(x), tenon.to(t, "tenon"))).tolist() == [3, 3, 3]


def test_documents_itself(load):
    kernels = load("c")
    assert kernels.__doc__ == "Kernels written once."
    assert "Returns a*x + y." in kernels.saxpy.__doc__
    assert list(inspect.signature(kernels.normalize).parameters)[:2] == ["x", "by"]


# ------------------------------------------------------------------------------------------- in the other languages


def test_cpp(load, single):
    kernels = load("cpp")
    assert kernels.median(single.array([5, 1, 3])) == 3
    assert kernels.median(single.array([9, 0, 8, 0, 7])[::2]) == 8
    with pytest.raises(ValueError, match=re.escape("median(): an empty array has no median")):
        kernels.median(single.array([]))


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_cpp_argsort(load, name):
    kernels, framework = load("cpp"), Framework(name, "float32")
    framework.check(kernels.argsort(framework.array([3, 1, 2, 1])), [1, 3, 2, 0], "int64")
    assert kernels.median(framework.array([5, 1, 3, 9], "float64")) == 5


def test_fortran(load, double):
    kernels = load("f90")
    values = numpy.arange(6.0).reshape(2, 3)
    double.check(kernels.column_means(double.array(values.T.copy()).T), values.mean(0))
    double.check(kernels.column_means(double.array(numpy.zeros((0, 3))).T), numpy.empty(0))
    with pytest.raises(ValueError, match=re.escape("column_means(): there are no rows")):
        kernels.column_means(double.array(numpy.zeros((3, 0))).T)
    with pytest.raises(ValueError, match="not in Fortran order"):
        kernels.column_means(double.array(values))


# --------------------------------------------------------------------------------------------------------- the demo


@pytest.fixture
def demo_of_a_package(monkeypatch):
    if not (PACKAGE / "include").is_dir():
        pytest.skip("this package was not made by pip install: it has no headers")
    need(os.environ.get("CC", "cc"))
    paths = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", paths)
    return EXAMPLES / "demo.py"


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="counts are deferred there")
def test_demo(demo_of_a_package, tmp_path, monkeypatch, capfd):
    """In this process, which has imported the frameworks already, and with 100 MB, of which a copy would be seen too."""
    demo = importlib.util.module_from_spec(importlib.util.spec_from_file_location("demo", demo_of_a_package))
    demo.__spec__.loader.exec_module(demo)
    monkeypatch.setattr(demo, "LARGE", 25_000_000)
    demo.main(tmp_path)
    shown, complaints = capfd.readouterr()
    assert complaints == "" and "\033" not in shown
    assert re.search(r"^  numpy\.ndarray +numpy\.ndarray +the same memory +(\d+) -> \1 ", shown, re.M)
    assert re.search(r"^  memoryview +numpy\.ndarray +the same memory +(\d+) -> \1 ", shown, re.M)
    assert "  TypeError: saxpy(): argument 'x': expected f32[n], got f64[6] (numpy.ndarray)\n" in shown
    assert "  ValueError: matmul(): argument 'b': dimension 0 is 4, but k = 3 from argument 'a'\n" in shown


def test_demo_says_what_is_wrong(demo_of_a_package, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    done = subprocess.run([sys.executable, str(demo_of_a_package), str(tmp_path)], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "no-such-compiler" in done.stderr and "Traceback" not in done.stderr
