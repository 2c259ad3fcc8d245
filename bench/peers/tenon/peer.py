"""Tenon: the package for functions, the bundle for crossings; each for this Python's own ABI and for abi3."""
import concurrent.futures
import os
import pathlib
import shutil
import sys
import types

import peer_builds

NAME = "tenon"
KERNELS = "kernels.c"
HERE = pathlib.Path(__file__).resolve().parent
ABI3 = "-DPy_LIMITED_API=0x030c0000"
INCLUDES = [f"-I{peer_builds.ROOT / name}" for name in ("core/include", "python/include",
                                                 "frameworks/torch/include")]


def bridges(folder):
    """The sources of the package, as its CMakeLists.txt compiles them: the CPython bridge is one unit."""
    frameworks = peer_builds.ROOT / "frameworks"
    bridge = [*sorted((peer_builds.ROOT / "python/src").rglob("*.c")), frameworks / "list.c", *sorted(frameworks.glob("*/array/*.c"))]
    unit = folder / "python.c"
    unit.write_text("".join(f'#include "{path}"\n' for path in bridge))
    others = [path for name in ("object", "ops", "host") for path in sorted(frameworks.glob(f"*/{name}/*.c"))]
    return [unit, *sorted((peer_builds.ROOT / "core/src").rglob("*.c")), *others]


def build(python, folder):
    bundle = folder / "bundle"
    peer_builds.run([python, peer_builds.ROOT / "tools/bundle", "--output", bundle])
    bundled = [bundle / "tenon.c", bundle / "tenon_python.c", f"-I{bundle}"]
    package = [*bridges(folder), *INCLUDES, "-ldl"]
    frameworks = peer_builds.ROOT / "frameworks"
    native = [*sorted((peer_builds.ROOT / "python/tenon").glob("*.c")), frameworks / "native_list.c", *sorted(frameworks.glob("*/package/*.c"))]
    parts = ((native, "tenon/_native.so", package), ([HERE / "same_object.c"], "same_object.so", package),
             ([HERE / "crossing.c"], "crossing.so", bundled))
    flags = ["-O2", "-g", "-DTENON_HIDDEN", "-pthread"]
    has_abi3 = sys.version_info >= (3, 12) and not (hasattr(sys, "abiflags") and "t" in sys.abiflags)
    kinds = {"own": [], "abi3": [ABI3]} if has_abi3 else {"own": []}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = []
        for kind, more in kinds.items():
            target = folder / kind
            shutil.rmtree(target, ignore_errors=True)
            (target / "tenon").mkdir(parents=True)
            for file in [*(peer_builds.ROOT / "python/tenon").glob("*.py"), *frameworks.glob("*/package/*.py")]:
                shutil.copy(file, target / "tenon")
            shutil.copytree(peer_builds.ROOT / "core/include", target / "tenon/include")
            jobs += [pool.submit(peer_builds.extension, python, ["cc", "-std=c11"], target / name, [*own, *library], *flags, *more)
                     for own, name, library in parts]
            jobs.append(pool.submit(peer_builds.run, [python, "-m", "compileall", "-q", target / "tenon"]))  # as an installer does
        for job in jobs:
            job.result()
    for name in ("kernels", "more", "objects", "arguments"):
        peer_builds.run(["cc", "-std=c11", "-O3", "-shared", "-fPIC", f"-I{peer_builds.ROOT}/core/include",
                      HERE / f"{name}.c", "-o", folder / f"{name}.so"])
    peer_builds.run(["c++", "-std=c++17", "-O3", "-shared", "-fPIC", f"-I{peer_builds.ROOT}/core/include", HERE / "kernels.cpp",
                  "-o", folder / "kernels_cpp.so"])
    peer_builds.run(["cc", "-std=c11", "-O3", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-DTENON_BUILDING",
                  f"-I{peer_builds.ROOT}/core/include", *sorted((peer_builds.ROOT / "core/src").rglob("*.c")), "-pthread",
                  "-o", folder / "libtenon.so"])
    return folder


def version(folder):
    header = (peer_builds.ROOT / "core/include/tenon/tenon.h").read_text()
    return header.split('#define TENON_VERSION "')[1].split('"')[0]


def compile_saxpy(python, target):
    """The command that compiles saxpy.cpp."""
    return ["c++", "-std=c++17", "-O2", "-fPIC", f"-I{peer_builds.ROOT}/core/include", "-c", HERE / "saxpy.cpp", "-o", target]


def binaries(folder):
    """The file that a user ships besides the package; the package itself has a row of its own."""
    return {"tenon": folder / "kernels.so", "tenon, the package": folder / "own/tenon/_native.so"}


def package(folder):
    """The package, importable; the same in every group."""
    sys.path.insert(0, str(folder / "own"))
    import tenon
    return tenon


def by_device(crossing, name):
    """The form that accepts only CPU memory, except for arrays on a device."""
    own, device = getattr(crossing, name), getattr(crossing, f"device_{name}")
    return {**dict.fromkeys(("numpy", "torch", "jax", "tensorflow", "tensor"), own),
            **dict.fromkeys(("torch on cuda", "cupy on cuda", "jax on cuda"), device)}


def operations(folder):
    tenon = package(folder)
    crossing = peer_builds.load_file(folder / "own/crossing.so")
    functions, more, arguments = (tenon.load(folder / f"{name}.so") for name in ("kernels", "more", "arguments"))
    yield "tenon", {
        "borrow": by_device(crossing, "borrow"), "borrow2": by_device(crossing, "borrow_many"),
        "borrow3": by_device(crossing, "borrow_many"), "import": by_device(crossing, "owned"),
        "through": by_device(crossing, "through"), "stream": crossing.stream,
        "make numpy": crossing.make_numpy, "make torch": crossing.make_torch, "saxpy": functions.saxpy,
        "dot": functions.dot, "echo": arguments.echo, "firsts": arguments.firsts, "alone": arguments.alone,
        "overloaded": arguments.overloaded, "borrow list": crossing.borrow_list, "take0": more.take0, "take2": more.take2, "take6": more.take6,
        **{f"{way} {dtype}": getattr(more, f"{way}_{dtype}") for way in ("dense", "strided")
           for dtype in ("f32", "i64", "u8")}}
    in_cpp = tenon.load(folder / "kernels_cpp.so")
    yield "tenon, C++", {"saxpy": in_cpp.saxpy, "dot": in_cpp.dot}
    yield "tenon, no gradient check", {
        name: {"torch": getattr(more, f"{name}_no_grad")} for name in ("saxpy", "dot", "take2", "take6")}
    same = peer_builds.load_file(folder / "own/same_object.so")
    yield "tenon, same object", {"import": {"torch": same.owned}, "through": {"torch": same.through}}
    # The Tensor of another extension is read through the exchange table, like torch's; its own is recognised by type.
    yield "tenon, its own Tensor", {
        "prepare": crossing.to_tensor, "borrow": {"tensor": crossing.borrow},
        "borrow3": {"tensor": crossing.borrow_many}, "import": {"tensor": crossing.owned},
        "through": {"tensor": crossing.through}}
    if not (folder / "abi3").exists():
        return
    # Its extension is loaded beside the other one, and without the package's Python files. Calls on JAX arrays need those, and
    # would measure a mixture of both builds, so they are left out.
    crossing = peer_builds.load_file(folder / "abi3/crossing.so")
    native = peer_builds.load_file(folder / "abi3/tenon/_native.so", "tenon_abi3._native")
    functions = native.open_library(folder / "kernels.so", lambda name, _: types.ModuleType(name), None)[0]
    yield "tenon, abi3", {
        "borrow": by_device(crossing, "borrow"), "borrow3": by_device(crossing, "borrow_many"),
        "import": by_device(crossing, "owned"), "through": by_device(crossing, "through"),
        "make numpy": crossing.make_numpy, "make torch": crossing.make_torch,
        **{name: dict.fromkeys(("numpy", "torch"), getattr(functions, name)) for name in ("saxpy", "dot")}}
