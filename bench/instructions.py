"""Instruction counts by callgrind: those of one call inside the C function, after a warm-up, for Tenon and the limit.

callgrind collects only while the C function is running, so that neither Python's loop nor its call of the function is
in the count; what our code calls (NumPy, torch, CPython) is. The counts repeat exactly.
"""
import os
import pathlib
import re
import subprocess
import tempfile

import peer_builds

CALLS = 1000
TOP = 8  # functions that are named
SECONDS = 900  # for one process under callgrind
# (operation, producer, contender): (the C function that is entered, the Python call)
PATHS = {
    ("borrow", "numpy", "tenon"): ("bench_borrow", "crossing.borrow(n)"),
    ("borrow three", "numpy", "tenon"): ("bench_borrow_many", "crossing.borrow_many(n, n2, n3)"),
    ("import and release", "numpy", "tenon"): ("bench_import", "crossing.owned(n)"),
    ("in and out", "numpy", "tenon"): ("bench_through", "crossing.through(n)"),
    ("new memory as numpy", "numpy", "tenon"): ("bench_make_numpy", "crossing.make_numpy()"),
    ("saxpy", "numpy", "tenon"): ("tenon__py_call_plain", "kernels.saxpy(2.0, v, w)"),
    ("dot", "numpy", "tenon"): ("tenon__py_call_plain", "kernels.dot(v, w)"),
    ("saxpy", "numpy", "tenon, C++"): ("tenon__py_call_plain", "in_cpp.saxpy(2.0, v, w)"),
    ("dot", "numpy", "tenon, C++"): ("tenon__py_call_plain", "in_cpp.dot(v, w)"),
    ("six arguments", "numpy", "tenon"): ("tenon__py_call_plain", "more.take6(v, w, v, w, v, w)"),
    ("method with three keywords", "numpy", "tenon"): ("tenon__py_call", "tree.mix(a=1.0, b=2.0, c=3.0)"),
    ("query of one point", "numpy", "tenon"): ("tenon__py_call", "tree.query(point)"),
    ("new vector from a number", "numpy", "tenon"): ("tenon__py_call", "objects.ones(6)"),
    ("bytes in and out", "numpy", "tenon"): ("tenon__py_call", "arguments.echo(data)"),
    ("list of 8 tensors", "numpy", "tenon"): ("tenon__py_call", "arguments.firsts(few)"),
    ("borrow", "numpy", "limit"): ("struct_read", "limit.struct_read(n)"),
    ("new memory as numpy", "numpy", "limit"): ("make_numpy", "limit.make_numpy()"),
    ("saxpy", "numpy", "C by hand"): ("saxpy", "hand.saxpy(2.0, v, w)"),
    ("dot", "numpy", "C by hand"): ("dot", "hand.dot(v, w)"),
    ("borrow", "torch", "tenon"): ("bench_borrow", "crossing.borrow(t)"),
    ("import and release", "torch", "tenon"): ("bench_import", "crossing.owned(t)"),
    ("in and out", "torch", "tenon"): ("bench_through", "crossing.through(t)"),
    ("new memory as torch", "torch", "tenon"): ("bench_make_torch", "crossing.make_torch()"),
    ("saxpy", "torch", "tenon"): ("tenon__py_call_plain", "kernels.saxpy(2.0, tv, tw)"),
    ("dot", "torch", "tenon"): ("tenon__py_call_plain", "kernels.dot(tv, tw)"),
    ("borrow", "torch", "limit, exchange table"): ("table_borrow", "limit.table_borrow(t)"),
    ("import and release", "torch", "limit"): ("table_owned", "limit.table_owned(t)"),
    ("import and release", "torch", "tenon, same object"): ("bench_same_import", "same.owned(t)"),
    ("in and out", "torch", "tenon, same object"): ("bench_same_through", "same.through(t)"),
}
# The owner of the code in a file, by its name.
OWNERS = {
    "Tenon": r"(crossing|same_object|_native)\.so", "the function": r"kernels(_cpp)?\.so", "CPython": r"(lib)?python3.*",
    "NumPy": r"_multiarray_umath.*", "torch": r"(libtorch|libc10|_C\.).*",
    "C library": r"(libc|ld-linux.*|libpthread)\.so.*"}
# One process for each set, because the name of an entry may be the name of a kernel in another set.
SETS = [[key for key in PATHS if key[1] == "numpy" and key[2] != "C by hand"],
        [key for key in PATHS if key[2] == "C by hand"],
        [key for key in PATHS if key[1] == "torch"]]
# The calls before the counting fill the caches of types, of torch's functions and of Python.
CODE = """
import sys
sys.dont_write_bytecode = True
sys.path[:0] = [{bench!r}, {own!r}]
import peer_builds, numpy, tenon
mark = peer_builds.load_file({mark!r})
crossing = peer_builds.load_file({own!r} + "/crossing.so")
same = peer_builds.load_file({own!r} + "/same_object.so")
limit = peer_builds.load_file({c!r} + "/limit.so")
hand = peer_builds.load_file({c!r} + "/kernels.so", "kernels")
kernels, in_cpp, more, objects, arguments = (
    tenon.load({functions!r} + f"/{{name}}.so") for name in ("kernels", "kernels_cpp", "more", "objects", "arguments"))
tree, point, data = objects.Tree(), numpy.array([[3, 1, 4]], "float32"), bytes(range(16))
n, n2, n3 = (numpy.arange(6, dtype="float32").reshape(2, 3) for _ in range(3))
v, w, *few = (numpy.arange(6, dtype="float32") for _ in range(10))
if {torch}:
    import torch
    t, tv, tw = torch.arange(6.0).reshape(2, 3), torch.arange(6.0), torch.arange(6.0)
for number, call in enumerate({calls!r}):
    run = eval(f"lambda: {{call}}")
    for _ in range({count}):
        run()
    mark.begin()
    for _ in range({count}):
        run()
    mark.end(f"path {{number}}")
"""


def collect(python, folder, keys, out):
    """Run the calls under callgrind, which writes a file for each."""
    code = CODE.format(bench=str(peer_builds.BENCH), own=str(folder / "tenon/own"), c=str(folder / "c"), count=CALLS,
                       functions=str(folder / "tenon"), mark=str(folder / "mark.so"),
                       calls=[PATHS[key][1] for key in keys], torch=keys[0][1] == "torch")
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
               f"--callgrind-out-file={out}/callgrind",
               *sorted({f"--toggle-collect={PATHS[key][0]}" for key in keys}), str(python), "-c", code]
    # Python's hashes, and with them the paths through its dicts, are the same in every run.
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS,
                            env={**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"})
    if result.returncode:
        raise peer_builds.NotHere((result.stderr.strip().splitlines() or ["callgrind failed"])[-1])


def owner(library):
    return next((name for name, pattern in OWNERS.items() if re.fullmatch(pattern, library)), "others")


def layers_of(path):
    """A callgrind file as {"by": {whose code: instructions per call}, "top": [[function, owner, instructions]]}."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", str(path)], capture_output=True,
                          text=True).stdout
    counts, libraries = {}, {}
    for line in text.splitlines():
        match = re.match(r"\s*([\d,]+)\s+\([\d. ]+%\)\s+\S+?:(\S.*?)(?: \[(.*)\])?$", line)
        if match and "PROGRAM" not in line:
            # Without the number of a recursion, the version of a symbol, and the arguments of C++.
            name = re.sub(r"'\d+$|@@.*|(?<=\w)\([^()]*\)( const)?$", "", match.group(2))
            counts[name] = counts.get(name, 0) + int(match.group(1).replace(",", "")) / CALLS
            if match.group(3):  # not repeated for lines that were inlined from another file
                libraries[name] = pathlib.Path(match.group(3)).name
    whose, by = {name: owner(libraries.get(name, "")) for name in counts}, {}
    for name, count in counts.items():
        by[whose[name]] = by.get(whose[name], 0) + count
    top = sorted(counts, key=lambda name: -counts[name])[:TOP]
    return {"by": {name: round(count, 1) for name, count in by.items()},
            "top": [[name, whose[name], round(counts[name], 1)] for name in top]}


def title(operation, producer, contender):
    return operation + (f", {producer}" if not operation.endswith(producer) else "") + contender.removeprefix("tenon")


def total(path):
    return int(re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.M).group(1))


def count(python, folder, step):
    """({path: instructions per call}, {path: its layers}, a reason or None); calls `step` after each part."""
    counted, layers, reasons = {}, {}, []
    try:
        peer_builds.need("valgrind")
        peer_builds.extension(python, ["cc"], folder / "mark.so", [peer_builds.BENCH / "mark.c"], "-O2")
    except peer_builds.NotHere as problem:
        return {}, {}, str(problem)
    for keys in SETS:
        with tempfile.TemporaryDirectory() as out:
            try:
                collect(python, folder, keys, out)
            except (peer_builds.NotHere, subprocess.TimeoutExpired) as problem:
                reasons.append(f"{keys[0][1]}: {problem}"[:200])
                step(f"not on {keys[0][1]}")
                continue
            dumps = {}
            for path in pathlib.Path(out).iterdir():
                label = re.search(r"^desc: Trigger: .*path (\d+)", path.read_text(), re.M)
                if label:
                    dumps[int(label.group(1))] = path
            for number, path in sorted(dumps.items()):
                key = keys[number]
                counted[key] = round(total(path) / CALLS, 1)
                if key[2].startswith("tenon"):
                    layers[title(*key)] = layers_of(path)
        step(f"{keys[0][1]}, {keys[0][2]}")
    return counted, layers, "; ".join(reasons) or None
