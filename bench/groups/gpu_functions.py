"""Functions on a GPU: what a call takes on the host.

saxpy on 1,000 elements beside what the frameworks' own users would write, and the operator of examples/torch_ops, rms_norm on
one row of 4,096, beside the same operator in C++.
"""
import os
import pathlib

import peer_builds

ROOT = peer_builds.ROOT
KERNELS = ROOT / "python/tests/gpu/kernels.cu"


def example():
    """The module of examples/torch_ops/run.py, which builds both operators."""
    return peer_builds.load_file(ROOT / "examples/torch_ops/run.py", "torch_ops_example")


def compiled(session, name, source):
    """A library of functions, by nvcc."""
    folder = session.folder / "gpu"
    folder.mkdir(exist_ok=True)
    return example().nvcc(pathlib.Path(source), folder / name, "-std=c++17", f"-I{ROOT}/core/include")


def loaded(session, name, source):
    return peer_builds.peer("tenon").package(session.folder / "tenon").load(compiled(session, name, source))


def skip(session, problem):
    session.say(problem={"peer": f"group {session.group}", "reason": str(problem).splitlines()[0]})


# ------------------------------------------------------------------------------------------------------------ functions


def on_torch(kernels):
    import torch
    x, y = torch.arange(1000.0, device="cuda"), torch.ones(1000, device="cuda")
    calls = {"tenon": (kernels.saxpy, [2.0, x, y]), "torch.add": (lambda x, y: torch.add(y, x, alpha=2.0), [x, y])}
    return calls, lambda z: torch.equal(z, 2 * x + y), torch.cuda.synchronize


def on_cupy(kernels):
    import cupy
    import numpy
    x, y = cupy.arange(1000, dtype="f4"), cupy.ones(1000, "f4")
    arguments, body = "float a, const float *x, const float *y, float *z", "z[i] = a * x[i] + y[i];"
    raw = cupy.RawKernel(f'extern "C" __global__ void saxpy(long long n, {arguments}) '
                         f'{{ long long i = blockIdx.x * 256 + threadIdx.x; if (i < n) {body} }}', "saxpy")
    elementwise = cupy.ElementwiseKernel("float32 a, float32 x, float32 y", "float32 z", "z = a * x + y", "saxpy")

    def by_raw_kernel(a, x, y):
        z = cupy.empty_like(x)
        raw((4,), (256,), (1000, a, x, y, z))
        return z

    calls = {"tenon": (kernels.saxpy, [2.0, x, y]), "cupy.RawKernel": (by_raw_kernel, [numpy.float32(2), x, y]),
             "cupy.ElementwiseKernel": (elementwise, [numpy.float32(2), x, y])}
    return calls, lambda z: bool((z == 2 * x + y).all()), cupy.cuda.Device().synchronize


def on_jax(kernels):
    import jax
    x, y = jax.numpy.arange(1000.0), jax.numpy.ones(1000)
    calls = {"tenon": (kernels.saxpy, [2.0, x, y]), "jax.jit": (jax.jit(lambda a, x, y: a * x + y), [2.0, x, y])}
    return calls, lambda z: bool((z == 2 * x + y).all()), lambda: (x + y).block_until_ready()


def gpu_functions_group(session):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        kernels = loaded(session, "functions.so", KERNELS)
    except Exception as problem:  # noqa: BLE001 - no torch, no nvcc
        skip(session, problem)
        return
    session.say(total=3)
    for producer, prepare in (("torch on cuda", on_torch), ("cupy on cuda", on_cupy), ("jax on cuda", on_jax)):
        try:
            calls, check, wait = prepare(kernels)
        except ImportError as problem:
            skip(session, problem)
            continue
        session.compare("saxpy of 1,000", producer, calls, check=check, before=wait)


# ------------------------------------------------------------------------------------------------------------ operators


def recorded(op):
    def forward_and_backward(x, weight, dy):
        x.grad = weight.grad = None
        op(x, weight).backward(dy)
        return x.grad
    return forward_and_backward


def gpu_operators_group(session):
    try:
        import torch
        run = example()
        kernels = loaded(session, "operator.so", ROOT / "examples/torch_ops/kernels.cu")
        run.build_twin(session.folder / "gpu")
    except Exception as problem:  # noqa: BLE001
        skip(session, problem)
        return
    ops = peer_builds.peer("tenon").package(session.folder / "tenon").torch_ops(
        kernels, name="bench_gpu", backward={"rms_norm": "rms_norm_grad"})
    operators = {"tenon": ops.rms_norm, "tenon, torch.ops": ops.rms_norm.op,
                 "TORCH_LIBRARY in C++": torch.ops.twin.rms_norm.default}
    functions = {**operators, "tenon, the function": kernels.rms_norm}
    graphs = {name: run.compile_apart(op, f"op{i}") for i, (name, op) in enumerate(operators.items()) if name != "tenon, torch.ops"}
    wait = torch.cuda.synchronize

    def compare(title, calls, arguments, expected):
        def right(answer):
            run.close([answer], [expected])
            return True
        session.compare(f"rms_norm, {title}", "torch on cuda", {name: (call, arguments) for name, call in calls.items()},
                        check=right, before=wait)

    session.say(total=5)
    for title, mode in (("no_grad", torch.no_grad), ("inference mode", torch.inference_mode)):
        with mode():
            given = run.inputs(1)
            compare(title, functions, given, run.reference(*given))
    with torch.no_grad():
        given = run.inputs(1)
        compare("compiled, no_grad", graphs, given, run.reference(*given))
    x, weight = run.inputs(1, grad=True)
    expected = run.reference(x, weight)
    dy = torch.ones_like(expected)
    expected.backward(dy)
    compare("forward with gradients", operators, [x, weight], expected.detach())
    compare("forward and backward", {name: recorded(op) for name, op in operators.items()}, [x, weight, dy], x.grad)
