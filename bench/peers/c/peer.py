"""Hand-written C: `limit` checks nothing and is the floor; `C by hand` is the extension of a careful author."""
import ctypes
import pathlib

import peer_builds

NAME = "C"
KERNELS = "kernels.c"
HERE = pathlib.Path(__file__).resolve().parent


def build(python, folder):
    numpy = peer_builds.ask(python, "import numpy; print(numpy.get_include())")
    for name, level in (("limit", "-O2"), ("kernels", "-O3"), ("released", "-O3")):
        peer_builds.extension(python, ["cc", "-std=c11"], folder / f"{name}.so", [HERE / f"{name}.c"], level, f"-I{numpy}")
    peer_builds.run(["cc", "-std=c11", "-O3", "-shared", "-fPIC", HERE / "loops.c", "-o", folder / "loops.so"])
    return folder


def version(folder):
    return peer_builds.run(["cc", "-dumpfullversion"])


def binaries(folder):
    return {"C by hand": folder / "kernels.so"}


def raw_loops(folder):
    """{operation: function of an array}: the address is read before, so that only the loop is timed."""
    library = ctypes.CDLL(str(folder / "loops.so"))

    def prepare(way, dtype):
        function = getattr(library, f"{way}_{dtype}")
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_void_p, ctypes.c_int64] + ([ctypes.c_int64] if way == "strided" else [])
        return function

    return {f"{way} {dtype}": prepare(way, dtype) for way in ("dense", "strided") for dtype in ("f32", "i64", "u8")}


def torch_dispatch_keys(torch):
    """The places where a tensor without an offset keeps what the limit reads, in words."""
    tensor = torch.ones(6)
    storage = tensor.untyped_storage()

    def place(address, count, value):
        return list((ctypes.c_uint64 * count).from_address(address)).index(value)

    return (place(id(tensor), 8, tensor._cdata), place(tensor._cdata, 8, storage._cdata),
            place(storage._cdata, 6, tensor.data_ptr()))


def operations(folder):
    limit, kernels, released = (peer_builds.load_file(folder / f"{name}.so") for name in ("limit", "kernels", "released"))
    yield "empty call", {"borrow": limit.nothing, "borrow2": limit.nothing_many, "borrow3": limit.nothing_many}
    one = {"numpy": limit.struct_read, "torch": limit.torch_read, "jax": limit.buffer,
           "tensorflow": limit.buffer, "tensor": limit.table_borrow}
    many = {"numpy": limit.struct_read_many, "torch": limit.torch_read_many, "jax": limit.buffer_many,
            "tensorflow": limit.buffer_many, "tensor": limit.table_borrow_many}
    owned, through = {"torch": limit.table_owned, "tensor": limit.table_owned}, {}
    try:
        import torch
        import os
        limit.set_torch_words(*torch_dispatch_keys(torch))
        yield "limit, exchange table", {
            key: {"torch": function} for key, function in (
                ("borrow", limit.table_borrow), ("borrow2", limit.table_borrow_many),
                ("borrow3", limit.table_borrow_many))}
        if limit.find_torch(os.path.join(os.path.dirname(torch.__file__), "lib/libtorch_cpu.so")):
            through["torch"] = limit.shim_through
            yield "limit, torch's C functions", {"import": {"torch": limit.shim_owned}}
    except ImportError:
        pass
    yield "limit", {"borrow": one, "borrow2": many, "borrow3": many, "import": owned, "through": through,
                    "make numpy": {"numpy": limit.make_numpy}}
    yield "C by hand", {"saxpy": {"numpy": kernels.saxpy}, "dot": {"numpy": kernels.dot},
                        "dot, lock released": {"numpy": released.dot}}
