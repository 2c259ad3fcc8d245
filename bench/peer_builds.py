"""Helpers for the recipes of the peers. `peer_builds.py PEER FOLDER`, run in the target interpreter, builds one peer.

A recipe raises NotHere with a reason if it cannot be built; the benchmark then runs without it.
"""
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import files

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
PEERS = BENCH / "peers"
SECONDS = 300  # the limit for building one peer, unless its recipe has another
ROUGHLY = 15  # seconds, for a peer that was never built on this machine
APART = ("pyo3_tch",)  # peers that need an environment of their own


class NotHere(Exception):
    """Why a peer cannot be built or run."""


def need(*programs):
    """Raise NotHere unless each program runs. A version manager's shim can be on the PATH and refuse to run."""
    for program in programs:
        try:
            asked = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        except OSError:
            raise NotHere(f"{program} is not installed") from None
        if asked.returncode:
            said = (asked.stderr.strip() or asked.stdout.strip() or "no output").splitlines()[0]
            raise NotHere(f"{program} is on the PATH, but does not run: {said}")


def run(command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if result.returncode:
        lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
        error = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no output")
        raise NotHere(f"{pathlib.Path(str(command[0])).name}: {error.strip()}"[:300])
    return result.stdout.strip()


def ask(python, code):
    """The output of an interpreter; if an import fails, that is the reason of NotHere."""
    result = subprocess.run([str(python), "-c", code], capture_output=True, text=True)
    if result.returncode:
        raise NotHere(result.stderr.strip().splitlines()[-1])
    return result.stdout.strip()


def include(python):
    return "-I" + ask(python, "import sysconfig; print(sysconfig.get_path('include'))")


def package(python, name):
    return ask(python, f"from importlib.metadata import version; print(version({name!r}))")


def extension(python, compiler, target, sources, *options):
    """Compile a CPython extension. `compiler`: cc or c++ with its standard."""
    need(compiler[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    run([*compiler, "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", include(python), *options, *sources,
         "-o", target])
    return target


def cargo(python, peer, folder, **environment):
    """Build a crate in a copy of its folder, so that nothing is written beside the sources."""
    need("cargo")
    crate = folder / "crate"
    # Without their dates, because cargo does not rebuild for a file that is older than its last build.
    shutil.copytree(PEERS / peer, crate, copy_function=shutil.copy, dirs_exist_ok=True)
    run(["cargo", "build", "--quiet", "--release", "--manifest-path", crate / "Cargo.toml"],
        env={**os.environ, "PYO3_PYTHON": str(python), "CARGO_TARGET_DIR": str(folder / "target"),
             **environment})
    shutil.copy(folder / "target/release/libcrossing.so", folder / "crossing.so")


def crate_version(folder, crate):
    """The version that cargo chose."""
    lock = (folder / "crate/Cargo.lock").read_text()
    return lock.split(f'name = "{crate}"\nversion = "')[1].split('"')[0]


def load_file(path, name=None):
    """Import an extension module from a file of any name."""
    name = name or pathlib.Path(path).name.partition(".")[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def peer(name):
    return load_file(PEERS / name / "peer.py", f"peer_{name}")


def title(name):
    """The name of a peer in the tables, from the name of its folder; any other name is returned unchanged."""
    return peer(name).NAME if (PEERS / name / "peer.py").exists() else name


def names():
    """The peers of the environment that the benchmark runs in."""
    return sorted(path.parent.name for path in PEERS.glob("*/peer.py") if path.parent.name not in APART)


def environment(python, folder, requirements):
    """The interpreter of a virtual environment, which is made if it does not exist."""
    need("bash")
    run(["bash", ROOT / "tools/setup", python, "venv", os.path.relpath(folder, ROOT), requirements])
    return folder / "bin/python"


@functools.lru_cache(maxsize=None)
def packages(python):
    return ask(python, "import sys; from importlib.metadata import distributions as d; print(sys.version, "
                       "sorted((x.name, x.version) for x in d()))")


def stamp(name, python):
    """A hash of everything that a build depends on: files of the peer, recipes, interpreter, packages; our own sources."""
    digest = hashlib.sha256()
    files = [path for path in (PEERS / name).rglob("*") if path.is_file() and path.suffix not in (".md", ".pyc")]
    if name == "tenon":
        files += [*(ROOT / "core").glob("*/**/*.[ch]"), *(ROOT / "core").glob("*/**/*.hpp"), *(ROOT / "python").glob("**/*.[ch]"),
                  *(ROOT / "frameworks").glob("**/*.[ch]"), *(ROOT / "python/tenon").glob("*.py"),
                  *(ROOT / "frameworks").glob("*/package/*.py")]
    for path in sorted(files):
        digest.update(path.read_bytes())
    digest.update(pathlib.Path(__file__).read_bytes())
    digest.update(packages(python).encode())
    return digest.hexdigest()


def seconds_for(name, python, folder):
    """The seconds that building a peer will take, judging by the last time; 0 if it is built."""
    known = files.known(pathlib.Path(folder) / name / "built.json")
    try:
        return 0 if known.get("stamp") == stamp(name, python) else known.get("seconds", ROUGHLY)
    except NotHere:
        return 0


def build(name, python, folder):
    """Build a peer in its folder unless it is built: {"version": …} or {"reason": …}."""
    folder = pathlib.Path(folder) / name
    try:
        mark = stamp(name, python)
    except NotHere as problem:
        return {"reason": str(problem)}
    record = folder / "built.json"
    known = files.known(record)
    if known.get("stamp") == mark and "version" in known:
        return known
    # From here on there is no version, until the peer is complete.
    files.replace(record, json.dumps({"seconds": known.get("seconds", ROUGHLY)}))
    # ninja relies on dates too, so everything that was compiled is removed, except cargo's crates.
    for path in folder.rglob("*"):
        if path.suffix in (".o", ".so") and "target" not in path.relative_to(folder).parts:
            path.unlink()
    command = [python, __file__, name, folder]
    limit, began = getattr(peer(name), "SECONDS", SECONDS), time.time()
    try:
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"reason": f"takes more than {limit} seconds to build"}
    try:
        answer = json.loads(result.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"reason": (result.stderr.strip().splitlines() or ["the recipe failed"])[-1]}
    if "version" in answer:
        files.replace(record, json.dumps({**answer, "stamp": mark, "seconds": round(time.time() - began, 1)}))
    return answer


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    built = peer(name).build(sys.executable, folder)
    print(json.dumps({"reason": built} if isinstance(built, str) else {"version": peer(name).version(folder)}))


if __name__ == "__main__":
    sys.path.insert(0, str(BENCH))
    import peer_builds  # the peers raise that module's NotHere
    try:
        main()
    except peer_builds.NotHere as problem:
        print(json.dumps({"reason": str(problem)}))
