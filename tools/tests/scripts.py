"""The scripts of this repository, whose names Python cannot import."""

import importlib.machinery
import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).parents[2]


def load(path):
    """A script as a module, by its path in the repository."""
    file = ROOT / path
    loader = importlib.machinery.SourceFileLoader(file.stem.replace("-", "_"), str(file))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
