"""What `python -m tenon doctor` does in processes of its own: import frameworks, hand arrays over, load a library.

Any of this may crash, hang, print or end the process. So each result is a line of JSON in a file, written as soon as it is
known; the standard output and all other files belong to the code that is tried out.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from importlib import import_module
from types import ModuleType
from typing import Any, Callable, NoReturn, Optional

import tenon
from tenon import _frameworks, _native
from tenon._doctor_frameworks import FRAMEWORKS, Framework

_BY_NAME = {framework.name: framework for framework in FRAMEWORKS}
_BATCHES, _BATCH_SECONDS = 5, 0.002  # for the time of a hand-over: the best of so many


def main() -> NoReturn:
    """Run the job that the command line names, with the path of the results, the parent's import path and a limit."""
    import_path, results, limit, kind, argument = map(json.loads, sys.argv[1:])
    sys.path[:] = import_path
    process = os.getpid()

    def set_alarm() -> None:
        if hasattr(signal, "alarm"):  # in case the parent is gone
            signal.alarm(int(limit) + 10)

    def report(**result: Any) -> None:
        if os.getpid() != process:  # a framework has forked, and this is the copy
            os._exit(0)
        set_alarm()
        with open(results, "ab") as file:
            file.write(json.dumps(result).encode() + b"\n")

    set_alarm()
    jobs: dict[str, Callable[..., None]] = {"framework": framework, "matrix": matrix, "library": library, "cuda": cuda}
    jobs[kind](argument, report)
    report(done=True)
    os._exit(0)  # without the frameworks' code for the end of a process


def reason(error: BaseException) -> str:
    """The first line of an exception: with its type, or if Tenon raised it without the name of our function."""
    try:
        text = str(error).strip().split("\n")[0]
    except Exception:
        text = ""
    name = type(error).__name__
    if isinstance(error, SystemExit):
        return f"it ended the process with status {text or 0}"
    begin, mark, rest = text.partition("argument 'x': ")
    if mark and begin.startswith("tenon."):
        return rest
    return f"{name}: {text}" if text else name


# ------------------------------------------------------------------------------------------------------ one framework


def framework(name: str, report: Callable[..., None]) -> None:
    known = _BY_NAME[name]
    started = time.perf_counter()
    try:
        module = import_module(known.module)
    except BaseException as error:
        return report(failed=f"its import failed: {reason(error)}")
    report(version=_version(known, module), seconds=round(time.perf_counter() - started, 3))
    try:
        array = _make(known, module)
        report(type=f"{type(array).__module__}.{type(array).__qualname__}")
    except BaseException as error:
        return report(failed=f"it did not make an array: {reason(error)}")
    try:
        reader = _native._reader_of(array)
        report(reader=reader, device=tenon.from_dlpack(array).device, why=_why_no_faster_reader(name, array, reader))
    except BaseException as error:
        return report(failed=f"Tenon cannot read its arrays: {reason(error)}")
    operators = _frameworks.part_of(name, "operators")
    if operators:
        try:
            report(operators=operators())
        except BaseException as error:
            report(operators=f"off: {reason(error)}")


def _version(known: Framework, module: Any) -> str:
    try:
        return str(module.__version__)
    except BaseException:
        pass
    try:
        from importlib.metadata import version

        return version(known.distribution.split("[")[0])
    except Exception:
        return "?"


def _make(known: Framework, module: Any) -> Any:
    return eval(known.make, {"m": module})


def _why_no_faster_reader(name: str, array: object, reader: str) -> str:
    """Why a faster way into the array is not used, or ""."""
    own = _frameworks.part_of(name, "why_no_struct")
    if own and reader != "struct":
        return str(own())
    if reader in ("struct", "table"):
        return ""
    missing = ["exchange table"] if not hasattr(type(array), "__dlpack_c_exchange_api__") else []
    if reader != "buffer":
        missing.append("buffer")
    if reader == "interface" and not hasattr(type(array), "__dlpack__"):
        missing.append("__dlpack__")
    return f"its arrays have no {' and no '.join(missing)}" if missing else ""


# --------------------------------------------------------------------------------------------------------- hand-overs


def matrix(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Hand an array of one framework over to another, for each pair."""
    modules: dict[str, Any] = {}
    for name in job["names"]:
        report(importing=name)
        try:
            modules[name] = import_module(_BY_NAME[name].module)
        except BaseException as error:
            report(importing=name, failed=reason(error))
            os._exit(1)
    for source, target in job["pairs"]:
        report(trying=[source, target])
        try:
            take = _taker(_BY_NAME[target], modules[target])
            array = _make(_BY_NAME[source], modules[source])
            result = _hand_over(array, take) if take else {"outcome": "refused", "why": f"{target} does not take DLPack"}
        except BaseException as error:
            result = {"outcome": "refused", "why": reason(error)}
        report(pair=[source, target], **result)


def _taker(target: Framework, module: Any) -> Optional[Callable[[Any], Any]]:
    if target.take is None:
        return None
    if not target.take:
        return lambda x: tenon.to(x, target.name)
    take: Callable[[Any], Any] = eval(f"lambda x: {target.take}", {"m": module})
    return lambda x: take(tenon.from_dlpack(x))


def _hand_over(array: Any, take: Callable[[Any], Any]) -> dict[str, Any]:
    ways: list[tuple[str, Callable[[], Any]]] = [
        ("zero-copy", lambda: take(array)),
        ("copy", lambda: take(tenon.from_dlpack(array, copy=True))),
        ("copy", lambda: take(tenon.from_dlpack(array, device="cpu", copy=True))),
    ]
    why = ""
    for outcome, way in ways:
        try:
            made = way()
        except Exception as error:
            why = why or reason(error)
            continue
        if outcome == "zero-copy" and tenon.from_dlpack(made).data_ptr != tenon.from_dlpack(array).data_ptr:
            outcome, why = "copy", "the framework that takes the array copies it"
        return {"outcome": outcome, "why": why, "ns": _nanoseconds(way)}
    return {"outcome": "refused", "why": why}


def _nanoseconds(call: Callable[[], Any]) -> int:
    now = time.perf_counter
    count, best = 1, float("inf")
    for _ in range(_BATCHES):
        started = now()
        for _ in range(count):
            call()
        each = (now() - started) / count
        best = min(best, each)
        count = max(1, min(10_000, int(_BATCH_SECONDS / max(each, 1e-9))))
    return round(best * 1e9)


# ---------------------------------------------------------------------------------------------------------- a library


def library(path: str, report: Callable[..., None]) -> None:
    import mmap

    from tenon import _describe_library

    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        _native._check_library(content)
    except (OSError, ImportError, ValueError) as error:
        return report(failed=str(error))
    report(checked=True)
    try:
        module, capsule = _native.open_library(path, lambda name, _: ModuleType(name), None)
    except Exception as error:  # those of the library's own `load` too
        return report(failed=str(error).replace(f"{path}: ", "", 1).replace("tenon.load(): ", "", 1) or type(error).__name__)
    functions = []
    for entry in _describe_library.entries(module):
        if isinstance(entry, _describe_library.Class):
            functions.append(f"class {entry.name}")
            signatures = [member.signature for member in entry.constants] + [member.signature for member in entry.functions]
            functions += map(_describe_library.one_line, signatures)
        else:
            functions.append(_describe_library.one_line(entry.signature))
    report(
        abi="{}.{}".format(*_native._library_abi(capsule)),
        name=module.__name__,
        version=getattr(module, "__version__", None),
        variant=getattr(module, "__variant__", "baseline"),
        doc=module.__doc__,
        functions=functions,
    )


# --------------------------------------------------------------------------------------------------------------- CUDA


def cuda(_: object, report: Callable[..., None]) -> None:
    """Ask the driver, which may take its time or crash."""
    import ctypes

    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return report(failed=f"there is no driver: {name} is not installed")
    number, count = ctypes.c_int(), ctypes.c_int()
    status = driver.cuInit(0)
    if status:
        return report(failed=f"the driver refused to start: error {status}")
    driver.cuDriverGetVersion(ctypes.byref(number))
    driver.cuDeviceGetCount(ctypes.byref(count))
    devices = []
    for index in range(count.value):
        device, text = ctypes.c_int(), ctypes.create_string_buffer(100)
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDeviceGetName(text, len(text), device)
        devices.append(text.value.decode("utf-8", "replace"))
    report(version=f"{number.value // 1000}.{number.value % 1000 // 10}", devices=devices)
