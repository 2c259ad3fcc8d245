"""Frameworks that are asked for by name, and are not installed."""

import io
import os
import pathlib
import pickle
import subprocess
import sys

import pytest
from building import tenon

# Hide a framework, or a module that it imports, and say what each way to ask for an array of it raises.
CODE = """
import array, pickle, sys
name, library, pickled, hidden = sys.argv[1:]

class Hide:
    def find_spec(module, path=None, target=None):
        if module == hidden:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)

sys.meta_path.insert(0, Hide)
import tenon
kernels = tenon.load(library)
x = array.array("f", [1, 2])
ways = {
    "to": lambda: tenon.to(x, name),
    "like": lambda: kernels.saxpy(2.0, x, x, like=name),
    "pickle": lambda: pickle.loads(bytes.fromhex(pickled)),
    "__array__": lambda: tenon.to(x, "tenon").__array__(),
}
for way, call in ways.items():
    try:
        call()
    except ImportError as error:
        print(way, type(error).__name__, error.name, error, error.__cause__, sep="|")
    except Exception:
        print(way, "other", sep="|")
"""


def said(kernels, name, hidden, pickled=b""):
    """What each way raises: the class, its `name`, its message and its cause."""
    paths = [str(pathlib.Path(tenon.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", CODE, name, kernels.__file__, pickled.hex(), hidden]
    done = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, env=environment, check=True)
    return {line.split("|")[0]: line.split("|")[1:] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "tensorflow", "cupy"])
def test_missing(kernels, name):
    answers = said(kernels, name, hidden=name)
    advice = f"needs {name}, which is not installed; install it, or use another framework"
    cause = f"No module named {name!r}"
    assert answers["to"] == ["ModuleNotFoundError", name, f"tenon.to() {advice}", cause]
    assert answers["like"] == ["ModuleNotFoundError", name, f"saxpy(): argument 'like' {advice}", cause]
    if name == "numpy":
        assert answers["__array__"][2] == f"tenon.Tensor.__array__() {advice}"


def test_pickled(kernels):
    np = pytest.importorskip("numpy")
    file = io.BytesIO()
    tenon.reducers(pickle.Pickler(file)).dump(np.ones(2, "f4"))
    answer = said(kernels, "numpy", hidden="numpy", pickled=file.getvalue())["pickle"]
    assert answer[2] == "a pickled array needs numpy, which is not installed; install it, or use another framework"


def test_a_part_is_missing(kernels):
    """The framework is there, but cannot be imported: its own message stays."""
    np = pytest.importorskip("numpy")
    part = "numpy.linalg"
    assert np.linalg
    assert said(kernels, "numpy", hidden=part)["to"] == ["ModuleNotFoundError", part, f"No module named {part!r}", "None"]
