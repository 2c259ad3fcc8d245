"""Instruction counts by callgrind: what one warm call spends inside the C function, on ours and on the limit.

callgrind collects only while one of ENTRIES is running, so that neither Python's loop nor its call of the function is
in the count; what our code calls (NumPy, torch, CPython) is. The counts repeat exactly.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import building

CALLS = 1000
# (operation, producer, contender): (the C function that is entered, the Python call)
PATHS = {
    ("borrow", "numpy", "tenon"): ("bench_borrow", "crossing.borrow(n)"),
    ("borrow three", "numpy", "tenon"): ("bench_borrow_many", "crossing.borrow_many(n, n2, n3)"),
    ("import and release", "numpy", "tenon"): ("bench_import", "crossing.owned(n)"),
    ("in and out", "numpy", "tenon"): ("bench_through", "crossing.through(n)"),
    ("new memory as numpy", "numpy", "tenon"): ("bench_make_numpy", "crossing.make_numpy()"),
    ("saxpy", "numpy", "tenon"): ("tenon__py_call", "kernels.saxpy(2.0, v, w)"),
    ("dot", "numpy", "tenon"): ("tenon__py_call", "kernels.dot(v, w)"),
    ("borrow", "numpy", "limit"): ("struct_read", "limit.struct_read(n)"),
    ("new memory as numpy", "numpy", "limit"): ("make_numpy", "limit.make_numpy()"),
    ("saxpy", "numpy", "C by hand"): ("saxpy", "hand.saxpy(2.0, v, w)"),
    ("dot", "numpy", "C by hand"): ("dot", "hand.dot(v, w)"),
    ("borrow", "torch", "tenon"): ("bench_borrow", "crossing.borrow(t)"),
    ("import and release", "torch", "tenon"): ("bench_import", "crossing.owned(t)"),
    ("in and out", "torch", "tenon"): ("bench_through", "crossing.through(t)"),
    ("new memory as torch", "torch", "tenon"): ("bench_make_torch", "crossing.make_torch()"),
    ("saxpy", "torch", "tenon"): ("tenon__py_call", "kernels.saxpy(2.0, tv, tw)"),
    ("dot", "torch", "tenon"): ("tenon__py_call", "kernels.dot(tv, tw)"),
    ("borrow", "torch", "limit"): ("table_borrow", "limit.table_borrow(t)"),
    ("import and release", "torch", "limit"): ("table_owned", "limit.table_owned(t)"),
}
# Calls before the counting: the caches of types, of torch's functions and of Python's own are filled.
CODE = """
import sys
sys.dont_write_bytecode = True
sys.path[:0] = [{bench!r}, {own!r}]
import building, numpy, tenon
if {torch}:
    import torch
crossing = building.load_file({own!r} + "/crossing.so")
limit = building.load_file({c!r} + "/limit.so")
hand = building.load_file({c!r} + "/kernels.so", "kernels")
kernels = tenon.load({kernels!r})
n, n2, n3 = (numpy.arange(6, dtype="float32").reshape(2, 3) for _ in range(3))
v, w = (numpy.arange(6, dtype="float32") for _ in range(2))
if {torch}:
    t, tv, tw = torch.arange(6.0).reshape(2, 3), torch.arange(6.0), torch.arange(6.0)
for _ in range({calls}):
    {call}
"""


def collect(python, folder, key, calls, out):
    """Instructions of `calls` calls, the warm-up included."""
    entry, call = PATHS[key]
    code = CODE.format(bench=str(building.BENCH), own=str(folder / "tenon/own"), c=str(folder / "c"), calls=calls,
                       kernels=str(folder / "tenon/kernels.so"), call=call, torch=key[1] == "torch")
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect={entry}",
               f"--callgrind-out-file={out}", str(python), "-c", code]
    # Python's hashes, and with them the paths through its dicts, are the same in every run.
    result = subprocess.run(command, capture_output=True, text=True, timeout=300,
                            env={**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"})
    found = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode or not found:
        raise building.NotHere((result.stderr.strip().splitlines() or ["callgrind failed"])[-1])
    return int(found.group(1))


def by_function(path):
    """{(function, object): own instructions} of a callgrind file."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", str(path)], capture_output=True,
                          text=True).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*([\d,]+)\s+\([\d. ]+%\)\s+(?:\S+:)(\S.*?)(?:'\d+)?(?: \[(.*)\])?$", line)
        if match and "PROGRAM" not in line:
            key = match.group(2), pathlib.Path(match.group(3) or "").name
            found[key] = found.get(key, 0) + int(match.group(1).replace(",", ""))
    return found


def count(python, folder):
    """({path: instructions a call}, {path: [[function, library, instructions]]}, a reason or None)."""
    if not shutil.which("valgrind"):
        return {}, {}, "valgrind is not here"
    counted, layers, reason = {}, {}, None
    with tempfile.TemporaryDirectory() as temporary:
        few, many = (pathlib.Path(temporary) / name for name in ("few", "many"))
        for key in PATHS:
            try:
                less = collect(python, folder, key, CALLS, few)
                more = collect(python, folder, key, 2 * CALLS, many)
            except (building.NotHere, subprocess.TimeoutExpired) as problem:
                reason = f"{', '.join(key)}: {problem}"[:200]
                continue
            counted[key] = round((more - less) / CALLS, 1)
            if key[2] == "tenon":
                before, after = by_function(few), by_function(many)
                parts = [[*name, round((value - before.get(name, 0)) / CALLS, 1)] for name, value in after.items()]
                layers[", ".join(key[:2])] = sorted((part for part in parts if part[2] >= 1), key=lambda part: -part[2])
    return counted, layers, reason
