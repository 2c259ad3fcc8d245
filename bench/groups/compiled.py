"""An operator that graphs of torch.compile call: tenon.torch_ops beside torch's own two ways to write one.

Every operator computes a * x + y on six elements of f32 without gradients to follow.
"""
import os


def torch_ops_saxpy(session):
    import building
    tenon = building.peer("tenon").package(session.folder / "tenon")
    kernels = tenon.load(session.folder / "tenon/kernels.so")
    return tenon.torch_ops(kernels, "bench_tenon").saxpy


def python_saxpy(session):
    import torch

    @torch.library.custom_op("bench_python::saxpy", mutates_args=())
    def saxpy(a: float, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(y, x, alpha=a)

    saxpy.register_fake(lambda a, x, y: torch.empty_like(x))
    return saxpy


def cpp_saxpy(session):
    import torch
    torch.ops.load_library(session.folder / "torch_cpp/operator/torch_operator.so")
    return torch.ops.bench_cpp.saxpy.default


OPERATORS = {"tenon": torch_ops_saxpy, "custom_op in Python": python_saxpy, "TORCH_LIBRARY in C++": cpp_saxpy}
PEERS = {"tenon": "tenon", "TORCH_LIBRARY in C++": "torch_cpp"}  # contender: its folder in peers/


def compiled_group(session):
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(session.folder / "inductor"))
    try:
        import torch
    except ImportError as problem:
        session.say(problem={"peer": "group compiled", "reason": str(problem)})
        return
    operators = {name: make(session) for name, make in OPERATORS.items()
                 if name not in PEERS or PEERS[name] in session.built}
    session.versions = {name: session.built.get(PEERS.get(name), torch.__version__) for name in operators}
    # Each has a code object of its own: on each call torch searches all graphs that were compiled for one.
    graphs = {name: eval("lambda x, y: op(2.0, x, y)", {"op": op}) for name, op in operators.items()}
    compiled = {name: torch.compile(graph, fullgraph=True) for name, graph in graphs.items()}
    modes = {"": torch.enable_grad, ", inference mode": torch.inference_mode}
    if session.plan.quick:  # compiling takes longer than measuring
        del modes[", inference mode"]
    session.say(total=2 * len(modes))
    for title, mode in modes.items():
        with mode():
            def arguments():
                return [torch.arange(6.0), torch.arange(6.0)]
            expected = 3 * torch.arange(6.0)
            session.compare(f"operator, eager{title}", "torch", {
                name: (op, [2.0, *arguments()]) for name, op in operators.items()},
                check=lambda z: torch.equal(z, expected))
            session.compare(f"operator, compiled{title}", "torch", {
                name: (graph, arguments()) for name, graph in compiled.items()},
                check=lambda z: torch.equal(z, expected))
