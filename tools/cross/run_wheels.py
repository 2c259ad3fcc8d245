"""Runs each wheel in dist/ on every interpreter of this machine that can load it (`tools/wheels run`)."""
import json
import os
import pathlib
import platform
import shutil
import zipfile

CACHE = pathlib.Path(os.path.expanduser("~/.cache/tenon"))
TOUR = "python/tests/smoke_package.py"


def compile_kernels(wheels, target):
    """The library of the examples, for the system of this wheel."""
    path = wheels.BUILD / "run" / f"kernels-{target.zig}.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    wheels.run(wheels.zig(), "cc", "-target", target.zig, "-O2", "-shared", "-fPIC", "-Icore/include",
               "examples/functions/kernels.c", "-o", path, env=wheels.zig_environment(path.parent / "zig"))
    return path


def in_environments(wheels, target, wheel):
    """Install it into a clean environment of each interpreter that it is for."""
    for name, python in wheels.pythons().items():
        if wheels.target_of(name) != target:
            continue
        clean = wheels.environment(python, f"run-{name}")
        wheels.run(wheels.UV, "pip", "install", "-q", "--no-index", "--no-deps", "-p", clean, wheel)
        try:
            wheels.run(wheels.UV, "pip", "install", "-q", "--only-binary", ":all:", "-p", clean, "numpy")
        except RuntimeError:
            pass  # the tour leaves NumPy out, and says so
        yield "Linux x86_64", [clean], {}


def in_folder(wheels, wheel, command, where):
    """Unpack it for an interpreter that has no environments."""
    site = wheels.BUILD / "run" / wheel.stem
    shutil.rmtree(site, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    yield where, command, {"PYTHONPATH": str(site)}


def runs(wheels, tool):
    """Whether it does; a tool on the PATH may still refuse."""
    try:
        return bool(wheels.run(tool, "--version"))
    except (OSError, RuntimeError):
        return False


def interpreters(wheels, target, wheel):
    """(where, command, variables) for each interpreter that can load this wheel."""
    arm64, musl = CACHE / "python-arm64", CACHE / "python3.13-musl/bin/python3.13"
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return iter(())
    if target.zig == wheels.NATIVE.zig:
        return in_environments(wheels, target, wheel)
    if target.zig.startswith("aarch64-linux-gnu") and runs(wheels, "qemu-aarch64") and arm64.exists():
        command = ["qemu-aarch64", "-L", arm64, arm64 / "usr/bin/python3.13"]
        return in_folder(wheels, wheel, command, "Linux aarch64 (qemu-user)")
    if target.zig == "x86_64-linux-musl" and musl.exists():
        return in_folder(wheels, wheel, [musl], "Linux x86_64 (musl)")
    return iter(())


def run_wheel(wheels, target, wheel):
    """Where it ran."""
    kernels, ran = None, []
    for where, command, variables in interpreters(wheels, target, wheel):
        kernels = kernels or compile_kernels(wheels, target)
        env = {**os.environ, **variables, "PYTHONDONTWRITEBYTECODE": "1"}
        said = wheels.run(*command, wheels.ROOT / TOUR, kernels, env=env, cwd=wheels.BUILD).strip().splitlines()[-1]
        print(f"ran {wheel.name}: {said}", flush=True)
        version = wheels.run(*command, "-c", "import platform; print(platform.python_version())", env=env).strip()
        ran.append(f"CPython {version}{'t' if target.python.endswith('t') else ''}, {where}")
    return ran


def run_all(wheels):
    """Run every wheel, and note in wheels.json where. Returns the number of failures."""
    failures, ran = 0, {}
    for entry in json.loads((wheels.DIST / "wheels.json").read_text()):
        target = next(target for target in wheels.TARGETS if entry["file"].endswith(f"-{target.tag}.whl"))
        try:
            ran[entry["file"]] = run_wheel(wheels, target, wheels.DIST / entry["file"])
        except RuntimeError as error:
            failures += 1
            print(f"FAILED {entry['file']}: {error}", flush=True)
        if not ran.get(entry["file"]):
            print(f"not run: {entry['file']}", flush=True)
    wheels.write_lists(wheels.DIST, ran)
    return min(failures, 1)
