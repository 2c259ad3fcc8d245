"""ctypes with addresses, as many people use it today. saxpy and dot make the checks of the others in Python."""
import ctypes
import pathlib

import peer_builds

NAME = "ctypes"
KERNELS = ("kernels.c", "kernels.py")
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    peer_builds.need("cc")
    for name in ("kernels", "look"):
        peer_builds.run(["cc", "-std=c11", "-O3", "-shared", "-fPIC", HERE / f"{name}.c", "-o", folder / f"{name}.so"])
    return folder


def version(folder):
    return ctypes.__version__


def binaries(folder):
    return {"ctypes": folder / "kernels.so"}


def operations(folder):
    library = ctypes.CDLL(str(folder / "look.so"))
    library.look.argtypes, library.look.restype = [ctypes.c_void_p], None
    library.look3.argtypes, library.look3.restype = [ctypes.c_void_p] * 3, None
    look, look3 = library.look, library.look3
    kernels = peer_builds.load_file(HERE / "kernels.py", "ctypes_kernels").load(str(folder / "kernels.so"))
    yield "ctypes", {
        "borrow": {"numpy": lambda a: look(a.ctypes.data), "torch": lambda a: look(a.data_ptr()),
                   "jax": lambda a: look(a.unsafe_buffer_pointer())},
        "borrow3": {"numpy": lambda a, b, c: look3(a.ctypes.data, b.ctypes.data, c.ctypes.data),
                    "torch": lambda a, b, c: look3(a.data_ptr(), b.data_ptr(), c.data_ptr()),
                    "jax": lambda a, b, c: look3(a.unsafe_buffer_pointer(), b.unsafe_buffer_pointer(),
                                                 c.unsafe_buffer_pointer())},
        "saxpy": {"numpy": kernels.saxpy}, "dot": {"numpy": kernels.dot}}
