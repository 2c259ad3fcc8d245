"""Costs that are paid once: import time, compile time, compiled source that is in a cache, bytes, lines."""
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

import peer_builds

# Loaded before the clock starts, the same for every contender: their users have these anyway, and some contenders need them
# (a torch extension) or import them if they are installed (tvm-ffi).
BEFORE = ("numpy", "torch")
# Loaded before a call that compiles source.
BEFORE_COMPILING = (*BEFORE, "torch.utils.cpp_extension", "tvm_ffi.cpp", "tenon._compile")
# One process loads these; each sample is taken in a fork of it, which has loaded nothing else.
SAMPLES = """
import gc, json, os, sys, time
sys.dont_write_bytecode = True
sys.path[:0] = [sys.argv[1]]
import peer_builds
for name in json.loads(sys.argv[3]):
    __import__(name)
codes = {name: compile(code, name, "exec") for name, code in json.loads(sys.argv[2]).items()}
names, rounds = list(codes), int(sys.argv[4])
for turn in range(rounds):
    for name in names[turn % len(names):] + names[:turn % len(names)]:
        reader, writer = os.pipe()
        if not os.fork():
            os.close(reader)
            for thing in gc.get_objects():  # adds a reference, so that the pages are copied before the clock starts
                pass
            start = time.perf_counter()
            exec(codes[name], {"peer_builds": peer_builds, "sys": sys})
            os.write(writer, str(time.perf_counter() - start).encode())
            os._exit(0)
        os.close(writer)
        print(name, os.read(reader, 100).decode(), sep="\\t", flush=True)
        os.close(reader)
        os.wait()
"""


def imports(folder):
    """{contender: the code that makes its saxpy and dot callable}."""
    def file(path, name):
        return f"peer_builds.load_file({str(path)!r}, {name!r})"

    def python(peer):
        """A Python file that imports the compiled module."""
        return f"sys.path.insert(0, {str(folder / peer)!r}); {file(peer_builds.PEERS / peer / 'kernels.py', peer)}"

    return {
        "tenon": f"sys.path.insert(0, {str(folder / 'tenon/own')!r}); import tenon; "
                 f"tenon.load({str(folder / 'tenon/kernels.so')!r})",
        "C by hand": file(folder / "c/kernels.so", "kernels"),
        "nanobind": file(folder / "nanobind/kernels.so", "kernels"),
        "pybind11": file(folder / "pybind11/kernels.so", "kernels"),
        "Cython": file(folder / "cython/kernels.so", "kernels"),
        "torch C++ extension": file(folder / "torch_cpp/kernels/torch_kernels.so", "torch_kernels"),
        "tvm-ffi": f"{python('tvm_ffi')}.load({str(folder / 'tvm_ffi/kernels.so')!r})",
        "pyo3-dlpack": python("pyo3_dlpack"), "dlpark": python("dlpark"), "cffi": python("cffi"),
        "ctypes": f"{python('ctypes')}.load({str(folder / 'ctypes/kernels.so')!r})",
    }


def compilers(folder):
    """{contender: the code that compiles its saxpy and dot, or finds them in a cache}."""
    def source(peer, name):
        return f"open({str(peer_builds.PEERS / peer / name)!r}).read()"

    os.makedirs(folder / "torch_cpp/inline", exist_ok=True)
    return {
        "tenon": f"import tenon; tenon.compile({source('tenon', 'kernels.c')})",
        "torch C++ extension": "from torch.utils import cpp_extension; cpp_extension.load_inline('torch_inline', "
                               f"{source('torch_cpp', 'kernels.cpp')}, extra_cflags=['-O3'], "
                               f"build_directory={str(folder / 'torch_cpp/inline')!r})",
        "tvm-ffi": "import tvm_ffi.cpp; "
                   f"tvm_ffi.cpp.load_inline('tvm_inline', cpp_sources={source('tvm_ffi', 'kernels.cc')}, extra_cflags=['-O3'])",
    }


def code_lines(path):
    """The number of lines that are neither blank nor a comment."""
    text = path.read_text()
    if path.suffix in (".py", ".pyx"):
        text, comment = re.sub(r'^"""[^"]*"""', "", text), "#"
    else:
        text, comment = re.sub(r"/\*.*?\*/", "", text, flags=re.S), "//"
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(comment))


def shown(peer):
    return "C by hand" if peer.NAME == "C" else peer.NAME


def times(session, title, codes, before, rounds, **environment):
    """{contender: [nanoseconds]}, without those that cannot be loaded. `before` is loaded before the clock starts."""
    codes = {name: code for name, code in codes.items() if name in session.versions}
    before = [name for name in before if importlib.util.find_spec(name.partition(".")[0])]
    command = [sys.executable, "-c", SAMPLES, peer_builds.BENCH, json.dumps(codes), json.dumps(before), rounds]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, env={**os.environ, **environment})
    samples = {name: [] for name in codes}
    for count, line in enumerate(process.stdout, 1):
        name, _, seconds = line.rstrip("\n").partition("\t")
        if seconds:
            samples[name].append(float(seconds) * 1e9)
        if count % len(codes) == 0:
            session.step(f"{title}, round {count // len(codes)}")
    process.wait()
    return samples


def compile_times(session, peers, rounds):
    """{contender: [nanoseconds]}: the processor time of the compiler for an object file of saxpy alone, at -O2."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "saxpy.o"
        commands = {shown(peer): peer.compile_saxpy(sys.executable, target) for peer in peers if hasattr(peer, "compile_saxpy")}
        samples = {name: [] for name in commands}
        for turn in range(rounds):
            for name, command in commands.items():
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                peer_builds.run(command)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                samples[name].append((after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e9)
            session.step(f"compile time, round {turn + 1}")
    return samples


def start_group(session):
    peers = {name: peer_builds.peer(name) for name in session.built}
    session.versions = {shown(peer): session.built[name] for name, peer in peers.items()}
    rounds = 3 if session.plan.quick else 11
    session.say(total=3 * rounds + 2)
    found = {"import and load": times(session, "import and load", imports(session.folder), BEFORE, rounds)}
    sys.path.insert(0, str(session.folder / "tenon/own"))
    caches = {"PYTHONPATH": str(session.folder / "tenon/own"), "TENON_CACHE": str(session.folder / "tenon/cache"),
              "TVM_FFI_CACHE_DIR": str(session.folder / "tvm_ffi/cache")}
    for operation, count in (("compile", 1), ("compile, cached", rounds)):  # the first fills the caches
        found[operation] = times(session, operation, compilers(session.folder), BEFORE_COMPILING, count, **caches)
    del found["compile"]
    found["compile time of the saxpy module"] = compile_times(session, peers.values(), rounds)
    for operation, samples in found.items():
        for name, values in samples.items():
            if values:
                session.row(operation, "start", name, ns=min(values), median=statistics.median(values),
                            spread=round(100 * (statistics.median(values) / min(values) - 1), 1))
    for folder, peer in peers.items():
        if hasattr(peer, "binaries"):
            for name, path in peer.binaries(session.folder / folder).items():
                session.row("bytes of the extension, stripped", "start", name, bytes=stripped(path), ns=None,
                            spread=None)
        if peer.KERNELS:
            files = (peer.KERNELS,) if isinstance(peer.KERNELS, str) else peer.KERNELS
            lines = sum(code_lines(peer_builds.PEERS / folder / name) for name in files)
            session.row("lines of user code", "start", shown(peer), lines=lines, ns=None, spread=None)
    session.step("bytes and lines")


def stripped(path):
    import shutil
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.so"
        shutil.copy(path, copy)
        with contextlib.suppress(OSError):  # if there is no strip
            subprocess.run(["strip", str(copy)], check=False)
        return copy.stat().st_size
