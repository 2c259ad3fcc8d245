"""The public names of the package, and those that are imported when they are first used."""

from __future__ import annotations

from importlib import import_module

import tenon

EAGER = ("Library", "Tensor", "check", "from_dlpack", "load", "to", "__version__")
# The modules of the others.
LAZY = {
    "Array": "_array_types",
    "CompileError": "_compile",
    "FrameworkArray": "_array_types",
    "attach": "_shared",
    "compile": "_compile",
    "conversions": "_conversions",
    "jax_ops": "_jax_ops",
    "ray_ops": "_ray_ops",
    "reducers": "_reduce",
    "release_sent": "_shared",
    "share": "_shared",
    "shared_zeros": "_shared",
    "torch_info": "_torch_native",
    "torch_ops": "_torch_ops",
}

PUBLIC = sorted([*EAGER, *LAZY])


def find(name: str) -> object:
    """Return an attribute of the package that it does not have yet, and add it."""
    if name == "__all__":
        found: object = PUBLIC
    elif name in LAZY:
        found = _import(name)
    else:
        raise AttributeError(f"module 'tenon' has no attribute {name!r}")
    setattr(tenon, name, found)
    return found


def _import(name: str) -> object:
    module = f"tenon.{LAZY[name]}"
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        from tenon._native import frameworks

        raise AttributeError(f"tenon.{name} is not part of this build, which has {', '.join(frameworks)}") from None


def names() -> list[str]:
    return sorted({*vars(tenon), *PUBLIC})
