"""What the tests of functions share: where the package is, and libraries, compiled once for a session.

The package is an installed `tenon`, or the one in the folder that TENON_PACKAGE names."""

import atexit
import contextlib
import gc
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(HERE.parent))  # for what the bridge's tests have
from programs import runs  # noqa: E402

if os.environ.get("TENON_PACKAGE"):
    sys.path.insert(0, os.environ["TENON_PACKAGE"])
for name in os.environ.get("TENON_WITHOUT", "").split():
    sys.modules.setdefault(name, None)  # a program of a test may have a stand-in for it

tenon = pytest.importorskip("tenon", reason="the package is not installed; pip install .")
PACKAGE = pathlib.Path(tenon.__file__).resolve().parents[1]
COMPILER = shlex.split(os.environ.get("CC", "cc"))
CPP_COMPILER = shlex.split(os.environ.get("CXX", "c++"))
if not runs(COMPILER[0]):
    pytest.skip("there is no C compiler that runs", allow_module_level=True)

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="tenon-functions-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
_built = {}


def build(source, *options, name=None, compiler=None, standard="c11"):
    """The library of a source file beside this one, or of a text; the same arguments give the same file."""
    key = (str(source), options, name, standard)
    if key not in _built:
        folder = FOLDER / str(len(_built))
        folder.mkdir()
        if "\n" in str(source):
            text, source = source, folder / ("source.cpp" if standard.startswith("c++") else "source.c")
            source.write_text(textwrap.dedent(text), encoding="utf-8")
        file = folder / (name or f"{pathlib.Path(source).stem}.so")
        flags = [f"-std={standard}", "-O1", "-g", "-shared", "-fPIC", "-I", str(ROOT / "core/include")]
        command = [*(compiler or COMPILER), *flags, *shlex.split(os.environ.get("CFLAGS", "")), *options]
        subprocess.run([*command, str(HERE / source), "-o", str(file)], check=True)
        _built[key] = file
    return _built[key]


def build_cpp(source, *options, **keywords):
    """The same of C++."""
    if not runs(CPP_COMPILER[0]):
        pytest.skip("there is no C++ compiler that runs")
    return build(source, *options, compiler=CPP_COMPILER, standard="c++17", **keywords)


def run_python(code, *arguments, check=True, **options):
    """The code in a process of its own, with the package and this folder to import from: what it printed."""
    paths = [str(PACKAGE), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    options.setdefault("env", {**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", **options)
    if check:
        assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@contextlib.contextmanager
def same_counts(*objects):
    """The reference counts of the objects are afterwards what they were; constants are used by everybody."""
    constants = (int, float, complex, str, bytes, tuple, type, type(None))
    objects = [obj for obj in objects if not isinstance(obj, constants)]
    before = [sys.getrefcount(obj) for obj in objects]
    yield
    gc.collect()
    assert [sys.getrefcount(obj) for obj in objects] == before


def refused(function, exception, message, *args, **kwargs):
    """The call fails with exactly this message and keeps nothing; an Echo is not reached."""
    with same_counts(*args):
        with pytest.raises(exception) as caught:
            function(*args, **kwargs)
        assert type(caught.value) is exception
        assert str(caught.value) == message
        assert getattr(function, "seen", None) is None
        del caught


# CPython's own words on its free-threaded 3.13: modules, their dictionaries and functions are never deallocated there.
needs_mortal_modules = pytest.mark.skipif(
    sys.version_info < (3, 14) and not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="free-threaded 3.13 makes modules immortal",
)
