"""The machine, in words, without its name."""
import os
import pathlib
import platform
import subprocess
from importlib import metadata

PACKAGES = ("numpy", "torch", "jax", "tensorflow-cpu", "cupy-cuda12x", "cupy-cuda13x", "nanobind", "pybind11",
            "apache-tvm-ffi", "cffi", "cython")


def field(path, key):
    try:
        for line in pathlib.Path(path).read_text().splitlines():
            name, _, value = line.partition(":" if ":" in line else "=")
            if name.strip() == key:
                return value.strip().strip('"')
    except OSError:
        pass
    return ""


def first_line(*command):
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return asked.stdout.splitlines()[0].strip()
    except (OSError, IndexError, subprocess.SubprocessError):
        return ""


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def erlang():
    return first_line("elixir", "--version").partition(" [")[0] or None


def gpu():
    return first_line("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")


def describe(python):
    packages = {name: version(name).partition("+")[0] for name in PACKAGES if version(name)}
    kilobytes = field("/proc/meminfo", "MemTotal").split()
    return {
        "cpu": field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": f"{int(kilobytes[0]) / 2**20:.0f} GiB" if kilobytes else "",
        "gpu": gpu(),
        "system": field("/etc/os-release", "PRETTY_NAME") or platform.system(),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "compiler": first_line("cc", "--version"),
        "rust": first_line("rustc", "--version").partition("(")[0].strip(),
        "erlang": erlang() or "",
        "packages": packages,
    }
