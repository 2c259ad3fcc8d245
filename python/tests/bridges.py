"""Other copies of the bridge in this process, so that a test can compare two settings."""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil

SWITCH = "TENON_TORCH_STRUCT"


def copy_of_bridge(source, folder, switch, *first, kept=None):
    """Load a copy of the extension tenon_paths, with this value of TENON_TORCH_STRUCT; None: not set. It meets the tensors
    `first`, since the switch is read when torch is first met. It is also added to `kept`, since a tensor may be refused."""
    file = pathlib.Path(folder) / pathlib.Path(source).name
    shutil.copy(source, file)  # a file of its own is loaded by itself
    loader = importlib.machinery.ExtensionFileLoader("tenon_paths", str(file))
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("tenon_paths", file, loader=loader))
    loader.exec_module(module)
    if kept is not None:
        kept.append(module)
    before = os.environ.pop(SWITCH, None)
    try:
        if switch is not None:
            os.environ[SWITCH] = switch
        for tensor in first:
            module.read("borrow", tensor)
    finally:
        os.environ.pop(SWITCH, None)
        if before is not None:
            os.environ[SWITCH] = before
    return module
