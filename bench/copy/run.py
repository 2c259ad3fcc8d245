"""Time tenon_copy against numpy.copyto and torch.Tensor.copy_, on one thread, in one process.

All three copy between the same two arrays. Every buffer is written once before anything is timed, every result is
compared with NumPy's, and the three take turns, so that a slow moment of the machine hits them all. The time of a row
is the least of its repeats; the spread says how much longer the median one took.
"""

import argparse
import ctypes
import json
import os
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

try:
    import torch
except ImportError:
    torch = None


class Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", Dtype),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class View(DLTensor):
    _fields_ = [("flags", ctypes.c_uint64), ("numel", ctypes.c_int64)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("message", ctypes.c_char * 1020)]


CPU = 1
CODES = {"i": 0, "u": 1, "f": 2}


class Tenon:
    """The two functions of libtenon that this script needs."""

    def __init__(self, path):
        lib = ctypes.CDLL(os.path.abspath(path))
        self.error = Error()
        self._init = lib.tenon_view_init
        self._init.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_uint64] + [ctypes.c_void_p] * 2
        self.copy = lib.tenon_copy
        self.copy.argtypes = [ctypes.c_void_p] * 3

    def check(self, status):
        if status:
            raise RuntimeError(self.error.message.decode())

    def view(self, array):
        """A tenon_view of a NumPy array, which must outlive it."""
        dims = (ctypes.c_int64 * (2 * array.ndim))(*array.shape, *(s // array.itemsize for s in array.strides))
        shape = ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64))
        strides = ctypes.cast(ctypes.byref(dims, 8 * array.ndim), ctypes.POINTER(ctypes.c_int64))
        dtype = Dtype(CODES[array.dtype.kind], 8 * array.itemsize, 1)
        source = DLTensor(array.ctypes.data, Device(CPU, 0), array.ndim, dtype, shape, strides, 0)
        view = View()
        view.dims = dims
        self.check(self._init(ctypes.byref(view), ctypes.byref(source), 0, dims, ctypes.byref(self.error)))
        return view

    def copier(self, dst, src):
        dst, src = self.view(dst), self.view(src)
        to, of, err = ctypes.byref(dst), ctypes.byref(src), ctypes.byref(self.error)
        return lambda: self.check(self.copy(to, of, err))


def filled(shape, dtype):
    """An array whose every page has been written."""
    array = np.empty(shape, dtype)
    flat = array.reshape(-1)
    flat[:] = np.random.default_rng(1).integers(0, 250, 1 << 16).astype(dtype).repeat(flat.size >> 16)[: flat.size]
    flat[: 1 << 16] += np.arange(1 << 16).astype(dtype)
    return array


def layouts(dtype, size):
    """(name, dst, src): dst has `size` bytes, and so has src unless it has gaps or repeats."""
    n = size // np.dtype(dtype).itemsize
    side = 1 << (n.bit_length() // 2)
    batch = n // (64 * 64 * 64)
    # One block for dst and one for src, sliced and reshaped, so that no row can profit from its own pages.
    out = filled(n, dtype)
    block = filled(2 * n, dtype)
    a = block[:n]
    yield "contiguous", out, a
    yield "transposed 2-D", out.reshape(n // side, side), a.reshape(side, n // side).T
    nchw = a.reshape(batch, 64, 64, 64)
    yield "NCHW to NHWC, C = 64", out.reshape(batch, 64, 64, 64), nchw.transpose(0, 2, 3, 1)
    yield "NHWC to NCHW, C = 64", out.reshape(batch, 64, 64, 64), nchw.transpose(0, 3, 1, 2)
    pixels = n // 3 // 4096 * 4096
    chw, hwc = (-1, 3, 64, 64), (-1, 64, 64, 3)
    yield "NCHW to NHWC, C = 3", out[: 3 * pixels].reshape(hwc), a[: 3 * pixels].reshape(chw).transpose(0, 2, 3, 1)
    yield "NHWC to NCHW, C = 3", out[: 3 * pixels].reshape(chw), a[: 3 * pixels].reshape(hwc).transpose(0, 3, 1, 2)
    yield "every second element", out, block[::2]
    yield "to every second element", block[::2], out
    yield "reversed", out, a[::-1]
    yield "broadcast, one row", out.reshape(-1, side), np.broadcast_to(a[:side], (n // side, side))
    yield "broadcast, one column", out.reshape(-1, side), np.broadcast_to(a[: n // side, None], (n // side, side))


def torch_copier(dst, src):
    """torch.Tensor.copy_; it has no negative strides, so a reversed copy is aten::flip.out into the same dst."""
    to = torch.from_numpy(dst)
    if any(stride < 0 for stride in src.strides):
        of = torch.from_numpy(src[::-1])
        return lambda: torch.ops.aten.flip.out(of, [0], out=to)
    of = torch.from_numpy(src) if src.flags.writeable else torch.from_numpy(src.base).as_strided(
        src.shape, [s // src.itemsize for s in src.strides])
    return lambda: to.copy_(of)


def measure(copiers, repeats):
    """Seconds of every repeat of every copier, taking turns."""
    times = {name: [] for name in copiers}
    names = list(copiers)
    for repeat in range(repeats + 1):
        for name in names[repeat % len(names):] + names[: repeat % len(names)]:
            begin = time.perf_counter()
            copiers[name]()
            end = time.perf_counter()
            if repeat:
                times[name].append(end - begin)
    return times


def check(name, dst, src, copiers):
    expected = np.empty(dst.shape, dst.dtype)
    np.copyto(expected, src)
    for who, copier in copiers.items():
        dst[...] = 0
        copier()
        if not np.array_equal(dst, expected):
            sys.exit(f"{name}, {dst.dtype}: {who} gives a wrong result")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", required=True, metavar="FILE", help="libtenon.so")
    parser.add_argument("--quick", action="store_true", help="8 MiB and few repeats: does it run, not how fast")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose name has TEXT")
    parser.add_argument("--dtypes", default="f32,u8,f64", metavar="LIST")
    args = parser.parse_args()

    tenon = Tenon(args.lib)
    size, repeats = (8 << 20, 3) if args.quick else (64 << 20, 15)
    if torch:
        torch.set_num_threads(1)
    print(f"copies of {size >> 20} MiB on one thread, NumPy {np.__version__}, torch {torch and torch.__version__}; "
          f"ms, the least of {repeats} (+ % to the median); ratios of times")
    print(f"{'layout':24} {'dtype':5} {'tenon':>14} {'numpy':>14} {'torch':>14} {'GB/s':>6} {'/numpy':>7} {'/best':>6}")
    rows = []
    for dtype_name in args.dtypes.split(","):
        dtype = {"u8": "u1", "f32": "f4", "f64": "f8", "u16": "u2"}[dtype_name]
        for name, dst, src in layouts(dtype, size):
            if args.only not in name:
                continue
            copiers = {"tenon": tenon.copier(dst, src), "numpy": lambda: np.copyto(dst, src)}
            if torch:
                copiers["torch"] = torch_copier(dst, src)
            check(name, dst, src, copiers)
            times = measure(copiers, repeats)
            best = {who: min(values) for who, values in times.items()}
            spread = {who: statistics.median(values) / best[who] - 1 for who, values in times.items()}
            rows.append({
                "layout": name,
                "dtype": dtype_name,
                "bytes": dst.nbytes,
                "seconds": best,
                "spread": spread,
                "gb_per_s": dst.nbytes / best["tenon"] / 1e9,
                "to_numpy": best["tenon"] / best["numpy"],
                "to_best": best["tenon"] / min(value for who, value in best.items() if who != "tenon"),
            })
            cells = [f"{best[who] * 1e3:7.2f} +{spread[who] * 100:3.0f} %" if who in best else "-"
                     for who in ("tenon", "numpy", "torch")]
            row = rows[-1]
            print(f"{name:24} {dtype_name:5} {cells[0]:>14} {cells[1]:>14} {cells[2]:>14} {row['gb_per_s']:6.1f} "
                  f"{row['to_numpy']:7.2f} {row['to_best']:6.2f}", flush=True)
    print("GB/s: bytes of dst over tenon's time. Reversed: torch has no negative strides, its column is "
          "aten::flip.out.")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
