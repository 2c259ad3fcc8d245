"""The bridge beside the floor, nanobind and pybind11: one process, turns taken, the least of the repeats.

    run.py [--quick] [--json FILE]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import sysconfig
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BUILD = ROOT / os.environ.get("TENON_BUILD", "build") / "bench"


def compile_extension(name, sources, compiler, *options):
    target = BUILD / f"{name}.so"
    include = sysconfig.get_path("include")
    command = [*compiler, "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{include}", *options,
               *map(str, sources), "-o", str(target)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        return f"{name} could not be built: {result.stderr.strip().splitlines()[-1]}"
    return None


def build():
    BUILD.mkdir(parents=True, exist_ok=True)
    # Tenon as its users compile it: the bundle.
    subprocess.run([sys.executable, ROOT / "tools/bundle", "--output", BUILD / "bundle"], check=True, capture_output=True)
    ours = [HERE / "ours.c", BUILD / "bundle/tenon.c", BUILD / "bundle/tenon_python.c"]
    includes = [f"-I{BUILD}/bundle", "-DTENON_HIDDEN"]
    problems = [
        compile_extension("ours", ours, ["cc", "-std=c11"], *includes),
        compile_extension("limit", [HERE / "limit.c"], ["cc", "-std=c11"]),
    ]
    if sys.version_info >= (3, 12):
        problems.append(compile_extension("ours_abi3", ours, ["cc", "-std=c11"], *includes, "-DMODULE=ours_abi3",
                                          "-DPy_LIMITED_API=0x030c0000"))
    try:
        import nanobind
        problems.append(compile_extension(
            "peer_nanobind", [HERE / "peer_nanobind.cpp", pathlib.Path(nanobind.source_dir()) / "nb_combined.cpp"],
            ["c++", "-std=c++17"], f"-I{nanobind.include_dir()}",
            f"-I{nanobind.include_dir()}/../ext/robin_map/include", "-fno-strict-aliasing", "-DNB_COMPACT_ASSERTIONS"))
    except ImportError:
        problems.append("nanobind is not installed")
    try:
        import pybind11
        problems.append(compile_extension("peer_pybind11", [HERE / "peer_pybind11.cpp"], ["c++", "-std=c++17"],
                                          f"-I{pybind11.get_include()}"))
    except ImportError:
        problems.append("pybind11 is not installed")
    return [problem for problem in problems if problem]


def load(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def time_call(function, arguments, loops):
    clock, turns = time.perf_counter_ns, range(loops)
    if len(arguments) == 0:
        start = clock()
        for _ in turns:
            function()
        return (clock() - start) / loops
    if len(arguments) == 1:
        (a,) = arguments
        start = clock()
        for _ in turns:
            function(a)
        return (clock() - start) / loops
    a, b, c = arguments
    start = clock()
    for _ in turns:
        function(a, b, c)
    return (clock() - start) / loops


def time_loop(loops):
    """The loop alone, which is none of the contenders' business."""
    start, turns = time.perf_counter_ns(), range(loops)
    for _ in turns:
        pass
    return (time.perf_counter_ns() - start) / loops


def measure(cases, repeats, loops):
    """cases: {name: (function, arguments)} -> {name: (least, spread in %)}; all take turns, so that drift hits all."""
    times, empty = {name: [] for name in cases}, []
    for name, (function, arguments) in cases.items():
        time_call(function, arguments, 200)
    for _ in range(repeats):
        empty.append(time_loop(loops))
        for name, (function, arguments) in cases.items():
            times[name].append(time_call(function, arguments, loops))
    times = {name: [value - min(empty) for value in t] for name, t in times.items()}
    return {name: (min(t), 100 * (statistics.median(t) / min(t) - 1)) for name, t in times.items()}


def arrays():
    import numpy
    found = {"numpy": [numpy.arange(6, dtype="float32").reshape(2, 3) for _ in range(3)]}
    torch = load("torch")
    if torch:
        found["torch"] = [torch.arange(6.0).reshape(2, 3) for _ in range(3)]
    jax = load("jax")
    if jax:
        import jax.numpy
        found["jax"] = [jax.numpy.arange(6.0).reshape(2, 3) for _ in range(3)]
    return found


def groups(modules, found):
    ours, abi3, limit = modules["ours"], modules["ours_abi3"], modules["limit"]
    nb, pb = modules["peer_nanobind"], modules["peer_pybind11"]
    floor = {"numpy": limit.struct_read, "torch": limit.table_borrow, "jax": limit.buffer}
    floor3 = {"numpy": limit.struct_read3, "torch": limit.table_borrow3}
    for producer, three in found.items():
        one = three[:1]
        torch_table = producer != "torch" or hasattr(type(one[0]), "__dlpack_c_exchange_api__")
        rows = {"nothing": (ours.nothing, one), "tenon": (ours.borrow, one)}
        if torch_table:
            rows["limit"] = (floor[producer], one)
        if abi3:
            rows["tenon abi3"] = (abi3.borrow, one)
        if nb:
            rows["nanobind"] = (nb.borrow, one)
        if pb and producer == "numpy":
            rows["pybind11"] = (pb.borrow, one)
        yield f"borrow, {producer}", rows
        rows = {"tenon": (ours.borrow3, three)}
        if producer in floor3 and torch_table:
            rows["limit"] = (floor3[producer], three)
        if nb:
            rows["nanobind"] = (nb.borrow3, three)
        yield f"borrow three, {producer}", rows
        rows = {"tenon": (ours.owned, one)}
        if producer == "torch" and torch_table:
            rows["limit"] = (limit.table_owned, one)
        if nb:
            rows["nanobind borrow"] = (nb.borrow, one)
        yield f"import and release, {producer}", rows
        rows = {"tenon": (ours.through, one)}
        if nb and producer in ("numpy", "torch"):
            rows["nanobind"] = (getattr(nb, f"through_{producer}"), one)
        if pb and producer == "numpy":
            rows["pybind11"] = (pb.through, one)
        yield f"in and out, {producer}", rows
        if producer in ("numpy", "torch"):
            rows = {"tenon": (getattr(ours, f"make_{producer}"), ())}
            if nb:
                rows["nanobind"] = (getattr(nb, f"make_{producer}"), ())
            yield f"new memory as {producer}", rows


def sizes(ours, repeats, loops):
    import numpy
    cases = {}
    for count in (1_000, 1_000_000, 10_000_000, 100_000_000):
        cases[f"{count:,}"] = (ours.owned, [numpy.zeros(count, "float32")])
    return measure(cases, repeats, loops)


def peak_growth():
    """MiB that borrowing, importing and exporting a 400 MB array adds to the peak of a fresh process."""
    code = ("import resource, sys; sys.path.insert(0, sys.argv[1]); import numpy, ours\n"
            "a = numpy.ones(100_000_000, 'float32')\n"
            "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "before = peak()\n"
            "for _ in range(100): ours.borrow(a); ours.owned(a); ours.through(a)\n"
            "print((peak() - before) / 1024)")
    return float(subprocess.run([sys.executable, "-c", code, str(BUILD)], capture_output=True, text=True,
                                check=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    repeats, loops = (7, 2_000) if options.quick else (15, 10_000)
    for problem in build():
        print(f"left out: {problem}")
    sys.path.insert(0, str(BUILD))
    modules = {name: load(name) for name in ("ours", "ours_abi3", "limit", "peer_nanobind", "peer_pybind11")}
    found = arrays()
    versions = ", ".join(f"{name} {load(name).__version__}" for name in found)
    print(f"ns a call, the least of {repeats} (+ % to the median); Python {sys.version.split()[0]}, {versions}")
    results = []
    for group, rows in groups(modules, found):
        measured = measure(rows, repeats, loops)
        ours = measured["tenon"][0]
        line = [f"{group:28}"]
        for name, (least, spread) in measured.items():
            ratio = "" if name in ("tenon", "nothing") else f" = {ours / least:.2f}"
            line.append(f"{name} {least:.0f} +{spread:.0f} %{ratio}")
            results.append({"group": group, "contender": name, "ns": least, "spread": spread})
        print("; ".join(line), flush=True)
    for count, (least, spread) in sizes(modules["ours"], repeats, loops).items():
        print(f"import and release, numpy, {count} elements: {least:.0f} +{spread:.0f} %")
        results.append({"group": "sizes", "contender": count, "ns": least, "spread": spread})
    growth = peak_growth()
    print(f"peak memory added by 100 crossings of 400 MB: {growth:+.1f} MiB")
    results.append({"group": "peak", "contender": "tenon", "MiB": growth})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
