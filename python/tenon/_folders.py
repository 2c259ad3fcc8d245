"""The folders of the package that are not Python: the headers and the C sources."""

import os

import tenon


def folder(name: str) -> str:
    # An editable install has the .py files in one folder and the others in another.
    for parent in tenon.__path__:
        found = os.path.join(parent, name)
        if os.path.isdir(found):
            return found
    raise FileNotFoundError(f"this installation of tenon has no folder '{name}'")
