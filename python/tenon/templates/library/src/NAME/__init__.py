from importlib.resources import as_file, files

import tenon

# With `pip install -e` the library is not next to this file.
with as_file(files(__name__) / "kernels.tenon") as _file:
    _kernels = tenon.load(_file)
__doc__ = _kernels.__doc__
__version__ = _kernels.__version__
globals().update((name, value) for name, value in vars(_kernels).items() if not name.startswith("_"))
