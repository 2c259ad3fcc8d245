"""A project to begin with: one C file that becomes a Python package. NAME stands for its name."""

import builtins
import keyword
import os
import pkgutil
import re
import shutil
import sys
import sysconfig

_KERNELS = """\
/* The functions of NAME. docs/signatures.md of Tenon has the grammar of their signatures. */
#define TENON_MODULE_VERSION "0.1.0"
#include <tenon/function.h>

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float);
    const float *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float); /* already made, in the caller's framework */
    int64_t n = tenon_dim(call, 0);

    for (int64_t i = 0; i < n; i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

TENON_MODULE(NAME, "Functions written once.",
    TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."))
"""

_CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(NAME LANGUAGES C)

# The library links nothing, not even Python: one build serves every version. With another suffix than ".so" Python does
# not take it for a submodule.
add_library(kernels MODULE kernels.c)
target_include_directories(kernels PRIVATE include)
set_target_properties(kernels PROPERTIES PREFIX "" SUFFIX ".tenon" C_STANDARD 99 C_EXTENSIONS OFF
                                         C_VISIBILITY_PRESET hidden)
install(TARGETS kernels DESTINATION NAME)
"""

_PYPROJECT = """\
[build-system]
requires = ["scikit-build-core>=1.0"]
build-backend = "scikit_build_core.build"

[project]
name = "NAME"
dynamic = ["version"]
requires-python = ">=3.9"
dependencies = ["libtenon"]

[tool.scikit-build]
wheel.packages = ["src/NAME"]
wheel.py-api = "py3"

[tool.scikit-build.metadata.version]
provider = "scikit_build_core.metadata.regex"
input = "kernels.c"
regex = '#define TENON_MODULE_VERSION "(?P<value>[^"]+)"'
"""

_INIT = """\
from importlib.resources import as_file, files

import tenon

# Not beside this file if the package is installed with `pip install -e`.
with as_file(files(__name__) / "kernels.tenon") as _file:
    _kernels = tenon.load(_file)
__doc__ = _kernels.__doc__
__version__ = _kernels.__version__
globals().update((name, value) for name, value in vars(_kernels).items() if not name.startswith("_"))
"""

_TEST = """\
from array import array

import NAME
import pytest


def test_saxpy():
    z = NAME.saxpy(2.0, array("f", [1, 2, 3]), array("f", [10, 20, 30]))
    assert memoryview(z).tolist() == [12, 24, 36]


def test_saxpy_refuses_other_lengths():
    with pytest.raises(ValueError, match="saxpy"):
        NAME.saxpy(2.0, array("f", [1, 2, 3]), array("f", [1, 2]))
"""

# What `stubs` makes of the library above.
_STUB = '''\
# Written by `python -m tenon stubs kernels.tenon`, not to be edited.
"""Functions written once."""

from typing import Any, Optional, SupportsFloat

_Array = Any  # an array of any framework
__version__: str

def saxpy(a: SupportsFloat, x: _Array, y: _Array, *, out: Optional[_Array] = ..., like: Any = ...) -> Any:
    """saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]

    Returns a*x + y.
    """
'''

_NEXT = """\
NAME: kernels.c, its package and a test. Now:
  cd NAME
  pip install .
  pytest
After a new function, for type checkers:
  cc -shared -fPIC -Iinclude kernels.c -o kernels.tenon
  python -m tenon stubs kernels.tenon -o src/NAME/__init__.pyi
"""


# pytest, what it imports, and what would be shadowed for Tenon and for the build.
_PYTEST = {"pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli", "colorama", "conftest"}
_INSTALLERS = {"pip", "setuptools", "wheel"}
# Names that sys.stdlib_module_names leaves out; Python imports the last two when it starts.
_OF_PYTHON = {"test", "sitecustomize", "usercustomize"}
_TENON = {"tenon", "libtenon", "numpy", "torch", "jax", "jaxlib", "cupy", "tensorflow", "ml_dtypes", "scikit_build_core"}


def _standard_modules() -> set[str]:
    names = getattr(sys, "stdlib_module_names", None)
    if names is None:  # Python 3.9
        folders = [sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED") or ""]
        names = {*sys.builtin_module_names, *(module.name for module in pkgutil.iter_modules(folders))}
    return set(names)


def _check_name(name: str) -> None:
    """Raise ValueError if no package, or no package that is to be tested, can have this name."""
    # A name that Python, C and a package index all take.
    if not re.fullmatch("[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?", name) or keyword.iskeyword(name):
        raise ValueError(
            f"'{name}' cannot be the name of a package: use letters, digits and '_', begin with a letter, do not end "
            "with '_', and use no keyword"
        )
    owners = {
        "Python's standard library": _standard_modules() | _OF_PYTHON,
        "Python's builtins": set(dir(builtins)),
        "pytest or a package that it needs": _PYTEST,
        "a package that installs packages": _INSTALLERS,
        "Tenon or a package that it works with": _TENON,
    }
    for owner, names in owners.items():
        # A file system or a package index may not tell upper case from lower case.
        if name.lower() in map(str.lower, names):
            raise ValueError(f"'{name}' is a name of {owner}, which the new package would hide; choose another name")


def new(name: str, include: str) -> str:
    """Make the folder `name`; `include` has the headers. Returns what to do next."""
    _check_name(name)
    try:
        os.mkdir(name)
    except FileExistsError:
        raise ValueError(f"'{name}' already exists in this folder; choose another name, or remove it first") from None
    files = {
        "kernels.c": _KERNELS,
        "CMakeLists.txt": _CMAKE,
        "pyproject.toml": _PYPROJECT,
        f"src/{name}/__init__.py": _INIT,
        f"src/{name}/__init__.pyi": _STUB,
        f"src/{name}/py.typed": "",
        f"tests/test_{name}.py": _TEST,
    }
    for path, text in files.items():
        file = os.path.join(name, path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w", encoding="utf-8", newline="\n") as output:
            output.write(text.replace("NAME", name))
    # Copied, so that the build needs nothing from here: the file is made for it.
    os.makedirs(os.path.join(name, "include", "tenon"))
    shutil.copy(os.path.join(include, "tenon", "function.h"), os.path.join(name, "include", "tenon"))
    return _NEXT.replace("NAME", name)
