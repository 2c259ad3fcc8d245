"""`python -m tenon new --cuda`, built by CMake: a plain script, since nothing can be installed where there is a GPU.

    python3 python/tests/gpu/new_project.py        builds the package with cc; skips without a GPU, torch, CMake or nvcc
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(HERE.parent))
from compiling import build_package  # noqa: E402
from programs import runs  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

CALL = """
import array, torch, demo
x = torch.arange(3.0, device="cuda")
z = demo.saxpy(2.0, x, x)
assert type(z) is torch.Tensor and z.device == x.device and z.tolist() == [0, 3, 6]
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    big = torch.full((1 << 24,), 3.0, device="cuda")
    z = demo.saxpy(2.0, big, big)
    assert z.sum(dtype=torch.float64).item() == 9.0 * big.numel()
assert demo.saxpy(2.0, x[:0], x[:0]).shape == (0,)
out = torch.empty_like(x)
assert demo.saxpy(2.0, x, x, out=out) is out
try:
    demo.saxpy(2.0, array.array("f", [1]), array.array("f", [1]))
except ValueError as error:
    assert "cuda" in str(error)
else:
    raise AssertionError("memory of the CPU was accepted")
try:
    import cupy
except ImportError:
    print("left out: cupy is not installed")
else:
    c = cupy.arange(3, dtype="f4")
    assert demo.saxpy(2.0, c, c).tolist() == [0, 3, 6]
print("demo", demo.__version__, torch.cuda.get_device_name())
"""


def find_nvcc():
    found = [name for name in (os.environ.get("CUDACXX"), "nvcc", "/usr/local/cuda/bin/nvcc") if name and runs(name)]
    return found[0] if found else None


def main():
    nvcc = find_nvcc()
    if not torch or not torch.cuda.is_available() or not runs("cmake") or not nvcc:
        print("skipped: this needs a GPU, torch, CMake and nvcc")
        return 77
    with tempfile.TemporaryDirectory() as work:
        site = pathlib.Path(work, "site")
        build_package(site)
        (site / "tenon/cmake").mkdir()
        for file in ("python/TenonConfig.cmake", "core/TenonModule.cmake"):
            shutil.copy(ROOT / file, site / "tenon/cmake")
        project = pathlib.Path(work, "demo")
        env = {**os.environ, "PYTHONPATH": f"{site}:{project}/src", "CUDACXX": nvcc}

        def run(*command):
            subprocess.run([*map(str, command)], cwd=work, env=env, check=True)

        run(sys.executable, "-m", "tenon", "new", "demo", "--cuda")
        run("cmake", "-S", project, "-B", project / "build", f"-DTenon_DIR={site}/tenon/cmake", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", project / "build")
        shutil.copy(project / "build/kernels.tenon", project / "src/demo")
        run(sys.executable, "-c", CALL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
