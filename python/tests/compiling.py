"""What scripts for a GPU machine use, where nothing can be installed: builds the extensions of the tests with only cc and nvcc,
and runs tests without pytest. Everywhere else CMake builds them: the target tenon_probes."""

import pathlib
import shutil
import subprocess
import sysconfig
import traceback

from programs import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRIDGE = ["core/src", "python/src", "frameworks/list.c", "frameworks/*/array"]
TORCH = [*BRIDGE, "frameworks/torch/object"]
PACKAGE = [*TORCH, "frameworks/torch/ops", "frameworks/jax/host", "frameworks/*/package", "frameworks/native_list.c"]
INCLUDES = ["core/include", "python/include", "frameworks/torch/include"]


def build_extension(file, source, parts=BRIDGE):
    """Build and import the module of a source file, together with the sources of these parts of the tree."""
    own = sorted((ROOT / source).parent.glob("_native*.c")) or [ROOT / source]
    places = [place for part in parts for place in ROOT.glob(part)]
    sources = [*own, *(path for place in places for path in ([place] if place.is_file() else place.rglob("*.c")))]
    includes = [*(ROOT / include for include in INCLUDES), sysconfig.get_path("include")]
    subprocess.run(["cc", "-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DTENON_HIDDEN",
                    *(f"-I{include}" for include in includes), *map(str, sources), "-lpthread", "-ldl", "-o", str(file)],
                   check=True)


def build_probe(folder):
    build_extension(folder / "tenon_probe.so", "python/tests/extension/probe.c")


def build_torch_probe(folder):
    build_extension(folder / "tenon_torch_probe.so", "frameworks/torch/tests/extension/torch_probe.c", TORCH)


def build_package(folder):
    shutil.copytree(ROOT / "python/tenon", folder / "tenon")
    for path in (ROOT / "frameworks").glob("*/package/*.py"):
        shutil.copy(path, folder / "tenon")
    shutil.copytree(ROOT / "core/include", folder / "tenon/include")
    build_extension(folder / "tenon/_native.so", "python/tenon/_native.c", PACKAGE)


def build_cuda(file, source, *options):
    """Build a library of functions with nvcc."""
    nvcc = "nvcc" if runs("nvcc") else "/usr/local/cuda/bin/nvcc"
    subprocess.run([nvcc, "-O2", "-std=c++17", "--compiler-options", "-fPIC", "-shared", f"-I{ROOT}/core/include",
                    *options, str(source), "-o", str(file)], check=True)


class Skip(Exception):
    """Raised by a test that cannot run here."""


def run_tests(tests):
    """Run the functions test_… of a script. Returns the number of those that failed."""
    failed = 0
    for name, test in [(name, test) for name, test in tests.items() if name.startswith("test_")]:
        try:
            test()
            print("passed", name)
        except Skip as reason:
            print("skipped", name, reason)
        except Exception:
            failed += 1
            print("FAILED", name)
            traceback.print_exc()
    return failed
