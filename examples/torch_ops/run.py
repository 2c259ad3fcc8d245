"""Compares kernels.cu with twin.cu, the same operator registered through torch's C++ API. A plain script:

    python3 examples/torch_ops/run.py       needs a GPU, torch and nvcc; builds everything else, installs nothing

It checks that both agree with torch, alone and under torch.compile(fullgraph=True), then measures: lines of code, time
on the device under a CUDA graph, and time of a call on the host. It is skipped if there is no GPU.
"""
import ctypes
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "python/tests"))

from compiling import build_package  # noqa: E402, for an interpreter that has no package installed

try:
    import torch
except ImportError:
    torch = None

COLUMNS = 4096
ROWS = [1, 64, 1024, 8192]


# ---------------------------------------------------------------------------------------------------------- building


def nvcc(source, output, *options):
    # A version manager's nvcc can be on the PATH and refuse to run.
    installed = shutil.which("nvcc") and subprocess.run(["nvcc", "--version"], capture_output=True).returncode == 0
    command = "nvcc" if installed else "/usr/local/cuda/bin/nvcc"
    major, minor = torch.cuda.get_device_capability()
    flags = ["-O3", f"-arch=sm_{major}{minor}", "-shared", "-Xcompiler", "-fPIC"]
    start = time.perf_counter()
    subprocess.run([command, *flags, *options, str(HERE / source), "-o", str(output)], check=True)
    print(f"{source}: nvcc took {time.perf_counter() - start:.0f} s")
    return output


def build_twin(folder):
    """Do what torch.utils.cpp_extension does, without ninja."""
    root = pathlib.Path(torch.__file__).parent
    includes = [f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include"]
    libraries = [f"-L{root}/lib", *(f"-l{name}" for name in ("torch", "torch_cpu", "torch_cuda", "c10", "c10_cuda"))]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    standard = "-std=c++20" if version >= (2, 12) else "-std=c++17"
    options = [standard, "--expt-relaxed-constexpr", abi, *includes, *libraries]
    torch.ops.load_library(nvcc("twin.cu", folder / "twin.so", *options))


def lines(name):
    """Lines with code in them."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", (HERE / name).read_text(), flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip())


def tier():
    cpu = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"))
    stable = hasattr(cpu, "torch_tensor_to_pyobject")
    results = "torch's stable C functions (2.14 and newer)" if stable else "THPVariable_Wrap (below 2.14)"
    return f"arguments through {torch_info()['tensors']}, results through {results}"


# ---------------------------------------------------------------------------------------------------------- checking


def reference(x, weight, eps=1e-6):
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype)


def inputs(rows, columns=COLUMNS, grad=False):
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(columns, device="cuda", dtype=torch.bfloat16)
    return x.requires_grad_(grad), weight.requires_grad_(grad)


def gradients(function, x, weight):
    x, weight = x.detach().requires_grad_(), None if weight is None else weight.detach().requires_grad_()
    y = function(x, weight)
    (y.float() * torch.linspace(-1, 1, y.numel(), device="cuda").view_as(y)).sum().backward()
    return [y.detach(), x.grad] + ([] if weight is None else [weight.grad])


def close(found, expected):
    for one, other in zip(found, expected):
        difference = (one.float() - other.float()).abs().max().item()
        assert difference <= 2e-2 * max(1.0, other.float().abs().max().item()), difference


def check(op, name):
    compiled = torch.compile(lambda x, weight: 2 * op(x + 1, weight), fullgraph=True, dynamic=True)
    for rows in (3, 17, 300):
        x, weight = inputs(rows, 1000)
        close(gradients(op, x, weight), gradients(reference, x, weight))
        close(gradients(op, x, None), gradients(reference, x, None))
        close(gradients(compiled, x, weight), gradients(lambda x, w: 2 * reference(x + 1, w), x, weight))
    for arguments in (inputs(8, 64, True), (inputs(8, 64, True)[0], None, 1e-3)):
        torch.library.opcheck(op, arguments)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        close([op(x, weight)], [reference(x, weight)])
    print(f"{name}: agrees with torch, alone, compiled with fullgraph=True, and on another stream; opcheck passes")


def check_mistakes(ours):
    x, weight = inputs(2, 8)
    for arguments in ((x.cpu(), None), (x.float(), None), (x.t(), None), (x, weight, "eps"), (x, weight[1:])):
        try:
            ours(*arguments)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            print("  refused:", str(error).splitlines()[0][:150])
        else:
            raise AssertionError("a wrong call was accepted")


# --------------------------------------------------------------------------------------------------------- measuring


def graph_of(call, count):
    """A CUDA graph with `count` calls in it, and how long one takes on the device, in microseconds."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call() for _ in range(count)]

    def once():
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1000 / count

    once.kept = kept
    return once


def device_times(calls):
    """Medians of runs that take turns, and the spread of the first. A difference must exceed the spread to mean anything."""
    runs = [graph_of(call, 20) for call in calls]
    samples = [[] for _ in calls]
    for turn in range(60):
        for run, sample in zip(runs, samples):
            sample.append(run())
    samples = [sorted(sample[10:]) for sample in samples]
    spread = samples[0][3 * len(samples[0]) // 4] - samples[0][len(samples[0]) // 4]
    return [statistics.median(sample) for sample in samples], spread


def host_times(calls):
    """The time until a call returns, in microseconds, for calls that take turns. Each round waits for the device, so the queue
    never fills."""
    samples = [[] for _ in calls]
    for _ in range(15):
        for call, sample in zip(calls, samples):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(100):
                call()
            sample.append((time.perf_counter() - start) / 100)
    torch.cuda.synchronize()
    return [min(sample) * 1e6 for sample in samples]


def show_host_times(mode, calls, make_arguments):
    """`make_arguments`: rows -> the arguments of each call."""
    columns = []
    for rows in ROWS:
        arguments = make_arguments(rows)
        for call in calls.values():
            call(*arguments)
        columns.append(host_times([lambda call=call: call(*arguments) for call in calls.values()]))
    for name, times in zip(calls, zip(*columns)):
        print(f"  {name:22}" + "".join(f"{value:>11.1f}" for value in times) + f"   {mode}")


def compile_apart(op, name):
    """A compiled call of an operator. torch limits recompilations by code objects, and those that are equal count as one."""
    return torch.compile(eval(f"lambda x, weight: {name}(x, weight)", {name: op}), fullgraph=True, dynamic=True)


def both_passes(op):
    return lambda x, weight, dy: op(x, weight).backward(dy)


def measure(kernels, ops, ours, ours_grad, twin, twin_grad):
    print("\ndevice time under a CUDA graph, microseconds per call (median; spread: between the quartiles)")
    head = f"{'ours':>9} {'twin':>9} {'spread':>7}"
    print(f"  {'rows x ' + str(COLUMNS):>14} {head} | grad: {head}")
    for rows in ROWS:
        x, weight = inputs(rows)
        with torch.no_grad():
            forward, spread = device_times([lambda: ours(x, weight), lambda: twin(x, weight)])
            backward, wide = device_times([lambda: ours_grad(x, x, weight), lambda: twin_grad(x, x, weight)])
        print(f"  {rows:>14} {forward[0]:>9.2f} {forward[1]:>9.2f} {spread:>7.2f} |"
              f"       {backward[0]:>9.2f} {backward[1]:>9.2f} {wide:>7.2f}")

    @torch.library.custom_op("by_hand::rms_norm", mutates_args=())
    def by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return kernels.rms_norm(x, weight)

    by_hand.register_fake(lambda x, weight: torch.empty_like(x))
    calls = {
        "loaded function": kernels.rms_norm,
        "ops.rms_norm": ops.rms_norm,
        "ours": ours,
        "custom_op": by_hand,
        "twin (C++)": twin,
    }
    compiled = {f"{name}, compiled": compile_apart(calls[name], f"op{i}")
                for i, name in enumerate(("ours", "custom_op", "twin (C++)"))}
    print(f"\nhost time per call, microseconds ({tier()})")
    print(f"  {'':22}" + "".join(f"{str(rows) + ' rows':>11}" for rows in ROWS))
    for mode, context in (("no_grad", torch.no_grad), ("inference_mode", torch.inference_mode)):
        with context():
            show_host_times(mode, {**calls, **compiled}, inputs)
    recorded = {"ops": ops.rms_norm, "ours": ours, "twin": twin}
    with_gradients = {f"{name}, with gradients": op for name, op in recorded.items()}
    show_host_times("forward", with_gradients, lambda rows: inputs(rows, grad=True))
    show_host_times("forward and backward", {name: both_passes(op) for name, op in with_gradients.items()},
                    lambda rows: (*inputs(rows, grad=True), torch.ones(rows, COLUMNS, device="cuda", dtype=torch.bfloat16)))


def main():
    global torch_info
    if not torch or not torch.cuda.is_available():
        print("skipped: no GPU that torch can use")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        build_package(folder)
        sys.path.insert(0, str(folder))
        from tenon import load, torch_info, torch_ops

        print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}, Python {sys.version.split()[0]}")
        kernels = load(nvcc("kernels.cu", folder / "kernels.so", "-std=c++17", f"-I{ROOT}/core/include"))
        build_twin(folder)
        ops = torch_ops(kernels, name="example", backward={"rms_norm": "rms_norm_grad"}, strict=True)
        ours, ours_grad = torch.ops.example.rms_norm.default, torch.ops.example.rms_norm_grad.default
        twin, twin_grad = torch.ops.twin.rms_norm.default, torch.ops.twin.rms_norm_grad.default
        print(f"lines of code: {lines('kernels.cu')} + 1 of Python, twin {lines('twin.cu')}; the kernels, which both"
              f" include, {lines('rms_norm.cuh')}")
        check(ours, "ours")
        check(twin, "twin")
        check_mistakes(ours)
        measure(kernels, ops, ours, ours_grad, twin, twin_grad)


if __name__ == "__main__":
    main()
