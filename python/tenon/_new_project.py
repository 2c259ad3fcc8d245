"""python -m tenon new: a project to start from. Its files are in templates/."""

import builtins
import keyword
import os
import pkgutil
import re
import shutil
import sys
import sysconfig

from tenon._folders import folder
from tenon._native import frameworks

# The folders of templates for each kind of project; a file of a later folder replaces that of an earlier one. Then the file of
# its functions, and that of their stubs.
KINDS = {
    "c": (("common", "library", "c"), "kernels.c", "__init__.pyi"),
    "cpp": (("common", "library", "cpp"), "kernels.cpp", "__init__.pyi"),
    "cuda": (("common", "library", "cuda"), "kernels.cu", "__init__.pyi"),
    "rust": (("common", "library", "rust"), "kernels.rs", "__init__.pyi"),
    "extension": (("common", "extension"), "kernels.c", "_kernels.pyi"),
}
# No tool should take a template for its own settings or for a module of this package: names of templates have no leading dot,
# and those of Python files end in ".in".
_HIDDEN = {"gitignore", "github"}

_NEXT = """\
Created NAME with SOURCE_FILE, its package and tests. Next:
  cd NAME
  pip install -e ".[test]"
  pytest
README.md says how to continue. If pip does not find libtenon, set PIP_FIND_LINKS to the folder of its wheel.
"""

# pytest and the packages that it imports; the others are packages that Tenon or the build imports.
_PYTEST = {"pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli", "colorama", "conftest"}
_INSTALLERS = {"pip", "setuptools", "wheel"}
# Tools that the project's README and its workflow run, and the packages that mypy imports.
_TOOLS = {"build", "twine", "auditwheel", "cibuildwheel", "cmake", "ninja", "mypy", "mypyc", "mypy_extensions", "typing_extensions"}
# Names that sys.stdlib_module_names leaves out; Python imports the last two when it starts.
_OF_PYTHON = {"test", "sitecustomize", "usercustomize"}
# A framework may bring a package of its name and "lib", or be there under it.
_TENON = {"tenon", "libtenon", "scikit_build_core", "ml_dtypes", *frameworks, *(f"{name}lib" for name in frameworks)}


def _standard_modules() -> set[str]:
    names = getattr(sys, "stdlib_module_names", None)
    if names is None:  # Python 3.9
        folders = [sysconfig.get_path("stdlib"), sysconfig.get_config_var("DESTSHARED") or ""]
        names = {*sys.builtin_module_names, *(module.name for module in pkgutil.iter_modules(folders))}
    return set(names)


def _check_name(name: str) -> None:
    """Raise ValueError if the package could not be built, imported or tested under this name."""
    # A name that Python, C and package indexes all accept.
    if not re.fullmatch("[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?", name) or keyword.iskeyword(name):
        raise ValueError(
            f"'{name}' cannot be the name of a package: use letters, digits and '_', begin with a letter, do not end "
            "with '_', and do not use a keyword"
        )
    owners = {
        "Python's standard library": _standard_modules() | _OF_PYTHON,
        "Python's builtins": set(dir(builtins)),
        "pytest or a package that it needs": _PYTEST,
        "a package that installs packages": _INSTALLERS,
        "a tool that builds or checks packages": _TOOLS,
        "Tenon or a package that it works with": _TENON,
    }
    for owner, names in owners.items():
        # File systems and package indexes may ignore case.
        if name.lower() in map(str.lower, names):
            raise ValueError(f"'{name}' is a name of {owner}, which the new package would hide; choose another name")


def _files(kind: str) -> dict[str, str]:
    """The templates of a kind of project: where each belongs, and its file."""
    files = {}
    for layer in KINDS[kind][0]:
        root = os.path.join(folder("templates"), layer)
        for parent, _, names in os.walk(root):
            for name in names:
                template = os.path.join(parent, name)
                path = re.sub(r"\.in$", "", os.path.relpath(template, root))
                top = path.split(os.sep)[0]
                files["." + path if top in _HIDDEN else path] = template
    return files


def new(name: str, kind: str = "c") -> str:
    """Create the folder `name` with a project of this kind. Return a message that says what to do next."""
    _check_name(name)
    _, source, stub = KINDS[kind]

    def fill(text: str) -> str:
        return text.replace("NAME", name).replace("SOURCE_FILE", source).replace("STUB_FILE", stub)

    try:
        os.mkdir(name)
    except FileExistsError:
        raise ValueError(f"'{name}' already exists in this folder; choose another name, or remove it first") from None
    try:
        for path, template in _files(kind).items():
            file = os.path.join(name, fill(path))
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(template, encoding="utf-8") as text, open(file, "w", encoding="utf-8", newline="\n") as output:
                output.write(fill(text.read()))
    except BaseException:
        shutil.rmtree(name, ignore_errors=True)
        raise
    return fill(_NEXT)
