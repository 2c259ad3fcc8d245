"""What is paid once: import time, bytes, lines."""
import pathlib
import re
import statistics
import subprocess
import sys

import building

IMPORT = """
import sys, time
sys.dont_write_bytecode = True
sys.path[:0] = sys.argv[1:2]
{before}
start = time.perf_counter()
{code}
print(time.perf_counter() - start)
"""


def imports(folder):
    """{contender: (before, code)}; what is loaded before is what every user of it has loaded anyway."""
    file = "from building import load_file; load_file({!r}, {!r})"
    found = {
        "tenon": (f"sys.path.insert(0, {str(folder / 'tenon/own')!r})",
                  f"import tenon; tenon.load({str(folder / 'tenon/kernels.so')!r})"),
        "C by hand": ("import building, numpy", file.format(str(folder / "c/kernels.so"), "kernels")),
        "nanobind": ("import building", file.format(str(folder / "nanobind/kernels.so"), "kernels")),
        "pybind11": ("import building", file.format(str(folder / "pybind11/kernels.so"), "kernels")),
        "Cython": ("import building, numpy", file.format(str(folder / "cython/kernels.so"), "kernels")),
        "tvm-ffi": ("import torch", f"import tvm_ffi; tvm_ffi.load_module({str(folder / 'tvm_ffi/kernels.so')!r})"),
        "torch C++ extension": ("import building, torch",
                                file.format(str(folder / "torch_cpp/kernels/torch_kernels.so"), "torch_kernels")),
    }
    return found


def code_lines(path):
    """Lines that say something: no comment, nothing blank."""
    text = path.read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S) if path.suffix in (".c", ".cc", ".cpp") else text
    text = re.sub(r'^"""[^"]*"""', "", text)
    comment = re.compile(r"\s*(//|#(?!include|define|undef))")
    return sum(1 for line in text.splitlines() if line.strip() and not comment.match(line))


def start_group(session):
    peers = {name: building.peer(name) for name in session.built}
    times = {name: entry for name, entry in imports(session.folder).items()
             if any(peer.NAME == name or name == "C by hand" and peer.NAME == "C" for peer in peers.values())}
    session.versions = {peer.NAME: session.built[name] for name, peer in peers.items()}
    rounds = 2 if session.plan.quick else 11
    session.say(total=rounds + 1)
    samples = {name: [] for name in times}
    for turn in range(rounds):
        for name, (before, code) in times.items():
            script = IMPORT.format(before=before, code=code)
            result = subprocess.run([sys.executable, "-c", script, str(building.BENCH)], capture_output=True, text=True)
            if not result.returncode:
                samples[name].append(float(result.stdout.split()[-1]) * 1e9)
        session.step(f"import time, round {turn + 1}")
    for name, values in samples.items():
        if values:
            session.row("import and load", "start", name, ns=min(values), median=statistics.median(values),
                        spread=round(100 * (statistics.median(values) / min(values) - 1), 1))
    for folder, peer in peers.items():
        if hasattr(peer, "binaries"):
            for name, path in peer.binaries(session.folder / folder).items():
                session.row("bytes of the extension, stripped", "start", name, bytes=stripped(path), ns=None,
                            spread=None)
        if peer.KERNELS:
            files = (peer.KERNELS,) if isinstance(peer.KERNELS, str) else peer.KERNELS
            lines = sum(code_lines(building.PEERS / folder / name) for name in files)
            name = "C by hand" if peer.NAME == "C" else peer.NAME
            session.row("lines of user code", "start", name, lines=lines, ns=None, spread=None)
    session.step("bytes and lines")


def stripped(path):
    import shutil
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.so"
        shutil.copy(path, copy)
        if shutil.which("strip"):
            subprocess.run(["strip", str(copy)], check=False)
        return copy.stat().st_size
