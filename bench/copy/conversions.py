"""Time tenon_copy between two dtypes against NumPy's and torch's astype into the same memory, on one thread.

1,048,576 elements without gaps. NumPy is left out of pairs that need ml_dtypes if that is not installed. Tenon rounds once,
from the exact value, and saturates; the others round some pairs twice, or leave overflow to the processor, so the results
are compared for values that all of them convert alike.
"""

import argparse
import ctypes
import json
import statistics
import sys

import numpy as np
import run

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

PAIRS = [("f64", "f32"), ("f32", "f64"), ("f32", "f16"), ("f16", "f32"), ("f32", "bf16"), ("bf16", "f32"), ("f64", "bf16"),
         ("u8", "f32"), ("i32", "f32"), ("i64", "f32"), ("i64", "f64"), ("bool", "f32"), ("f32", "i32"), ("i64", "i32"),
         ("f32", "f8_e4m3fn")]
COUNT = 1 << 20
# name: code, bits, the dtype of the storage, the name in torch, the name in ml_dtypes
DTYPES = {
    "bool": (6, 8, "?", "bool", None), "u8": (1, 8, "u1", "uint8", None), "i32": (0, 32, "i4", "int32", None),
    "i64": (0, 64, "i8", "int64", None), "f16": (2, 16, "f2", "float16", None), "f32": (2, 32, "f4", "float32", None),
    "f64": (2, 64, "f8", "float64", None), "bf16": (4, 16, "u2", "bfloat16", "bfloat16"),
    "f8_e4m3fn": (10, 8, "u1", "float8_e4m3fn", "float8_e4m3fn")}


class Numbers:
    """Memory with the numbers 0 to 99 as one dtype, for each contender."""

    def __init__(self, tenon, name):
        code, bits, storage, torch_name, other = DTYPES[name]
        self.bytes = np.zeros(COUNT, storage)
        self.view = tenon.view(self.bytes.view(f"u{bits // 8}"))
        self.view.dtype = run.Dtype(code, bits, 1)
        self.numpy = self.bytes.view(getattr(ml_dtypes, other)) if other and ml_dtypes else None if other else self.bytes
        self.torch = run.torch and run.torch.from_numpy(self.bytes).view(getattr(run.torch, torch_name))


def contenders(tenon, target, source):
    start = np.random.default_rng(1).integers(0, 100, COUNT).astype("f4")
    plain = Numbers(tenon, "f32")
    plain.bytes[:] = start
    dst, src = Numbers(tenon, target), Numbers(tenon, source)
    tenon.check(tenon.copy(ctypes.byref(src.view), ctypes.byref(plain.view), ctypes.byref(tenon.error)))
    to, of, err = ctypes.byref(dst.view), ctypes.byref(src.view), ctypes.byref(tenon.error)
    found = {"tenon": lambda: tenon.check(tenon.copy(to, of, err))}
    if dst.numpy is not None and src.numpy is not None:
        found["numpy"] = lambda: np.copyto(dst.numpy, src.numpy, casting="unsafe")
    if run.torch:
        found["torch"] = lambda: dst.torch.copy_(src.torch)
    results = {}
    for who, convert in found.items():
        dst.bytes[:] = 0
        convert()
        results[who] = dst.bytes.copy()
        if not np.array_equal(results[who], results["tenon"]):
            sys.exit(f"{source} to {target}: {who} gives another result")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", required=True, metavar="FILE", help="libtenon.so")
    parser.add_argument("--quick", action="store_true", help="few repeats: does it run, not how fast")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    args = parser.parse_args()
    tenon = run.Tenon(args.lib)
    if run.torch:
        run.torch.set_num_threads(1)
    rows = []
    for source, target in PAIRS:
        times = run.measure(contenders(tenon, target, source), 5 if args.quick else 60)
        best = {who: min(values) for who, values in times.items()}
        rows.append({"layout": f"{source} to {target}", "bytes": COUNT * DTYPES[target][1] // 8, "seconds": best,
                     "spread": {who: statistics.median(values) / best[who] - 1 for who, values in times.items()}})
        print(f"{source + ' to ' + target:20}", *(f"{who} {seconds * 1e6:8.1f} us" for who, seconds in best.items()), flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
