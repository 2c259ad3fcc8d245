from ._kernels import __doc__, __version__, saxpy

__all__ = ["__doc__", "__version__", "saxpy"]
