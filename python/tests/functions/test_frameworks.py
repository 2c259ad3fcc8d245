"""Arrays of each framework of this build, in and out of a function, and what is left without one.

tools/check-frameworks runs this file with TENON_WITHOUT=NAME in a build that does not have NAME."""

import array
import importlib
import importlib.util
import os
import subprocess
import sys

import pytest
from building import HERE, build

import tenon
from tenon._native import frameworks

WITHOUT = os.environ.get("TENON_WITHOUT", "").split()
KERNELS = tenon.load(build(HERE / "kernels.c"))
MAKE = {
    "numpy": lambda module: module.array([1.0, 2.0], "float32"),
    "torch": lambda module: module.tensor([1.0, 2.0]),
    "jax": lambda module: module.numpy.array([1.0, 2.0], "float32"),
}


def has(name):
    return name in frameworks and name not in WITHOUT and importlib.util.find_spec(name) is not None


@pytest.fixture(params=MAKE)
def made(request):
    """(the name of a framework that this build has, one of its arrays)"""
    if not has(request.param):
        pytest.skip(f"there is no {request.param} here")
    return request.param, MAKE[request.param](importlib.import_module(request.param))


def test_results_are_of_the_arguments_framework(made):
    _, x = made
    found = KERNELS.saxpy(2.0, x, x)
    assert type(found) is type(x) and [float(value) for value in found] == [3.0, 6.0]


def test_arrays_are_made_on_the_same_memory(made):
    name, x = made
    tensor = tenon.shared_zeros((2,), "f32")
    back = tenon.to(tensor, name)
    assert type(back) is type(x) and tenon.from_dlpack(back).data_ptr == tensor.data_ptr


def test_results_without_an_array_argument():
    """NumPy makes them if this build knows it, otherwise they are tenon.Tensor."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import tenon; k = tenon.load({KERNELS.__file__!r}); " \
        "{}import array; print(type(k.saxpy(2.0, array.array('f', [1]), array.array('f', [1]))).__name__)"
    def run(first):
        return subprocess.run([sys.executable, "-c", code.format(first)], capture_output=True, text=True, check=True).stdout.strip()
    assert run("") == "Tensor"
    if importlib.util.find_spec("numpy"):
        assert run("import numpy; ") == ("ndarray" if "numpy" in frameworks else "Tensor")


def test_a_framework_that_is_not_in_the_build():
    x = tenon.from_dlpack(array.array("f", [1, 2]))
    for name in {"numpy", "torch", "jax", "cupy", "tensorflow"} - set(frameworks):
        with pytest.raises(ValueError, match=f"expected one of .*, got '{name}'"):
            tenon.to(x, name)
        for public in (f"{name}_ops", f"{name}_info"):
            if public in tenon.__all__:
                with pytest.raises(AttributeError, match=f"tenon.{public} is not part of this build, which has "):
                    getattr(tenon, public)
