"""torch operators: tenon.torch_ops beside torch's own two ways to write one, called eagerly and by graphs of torch.compile.

The operators compute a * x + y on six elements of f32, or multiply x by a in place. The Python object is the only holder
of each tensor.
"""
import os
import warnings


def gradients(ctx, grad):
    return None, ctx.arguments["a"] * grad, grad


def tenon_operators(session):
    """{contender: {operation: function}}; the others return {operation: function}."""
    import peer_builds
    tenon = peer_builds.peer("tenon").package(session.folder / "tenon")
    kernels, more = (tenon.load(session.folder / f"tenon/{name}.so") for name in ("kernels", "more"))
    ops = tenon.torch_ops(kernels, name="bench_tenon", backward={"saxpy": gradients})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the other functions are left out: they do nothing that torch would keep
        scale = tenon.torch_ops(more, name="bench_tenon_more").scale
    return {"tenon": {"saxpy": ops.saxpy, "recorded": ops.saxpy, "scale": scale},
            "tenon, torch.ops": {"saxpy": ops.saxpy.op, "recorded": ops.saxpy.op, "scale": scale.op},
            "tenon, the function": {"saxpy": kernels.saxpy, "scale": more.scale}}


def python_operators(session):
    import torch

    @torch.library.custom_op("bench_python::saxpy", mutates_args=())
    def saxpy(a: float, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(y, x, alpha=a)

    @torch.library.custom_op("bench_python::scale", mutates_args=("x",))
    def scale(a: float, x: torch.Tensor) -> None:
        x.mul_(a)

    def keep(ctx, inputs, output):
        ctx.arguments = {"a": inputs[0]}

    saxpy.register_fake(lambda a, x, y: torch.empty_like(x))
    saxpy.register_autograd(gradients, setup_context=keep)
    return {"custom_op in Python": {"saxpy": saxpy, "recorded": saxpy, "scale": scale}}


def cpp_operators(session):
    import torch
    torch.ops.load_library(session.folder / "torch_cpp/operator/torch_operator.so")
    ops = torch.ops.bench_cpp
    return {"TORCH_LIBRARY in C++": {"saxpy": ops.saxpy.default, "recorded": ops.saxpy_recorded.default,
                                     "scale": ops.scale.default}}


MAKERS = {"tenon": tenon_operators, None: python_operators, "torch_cpp": cpp_operators}  # by their folder in peers/
COMPILED = ("tenon", "custom_op in Python", "TORCH_LIBRARY in C++")


def compiled_group(session):
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(session.folder / "inductor"))
    try:
        import torch
    except ImportError as problem:
        session.say(problem={"peer": "group compiled", "reason": str(problem)})
        return
    operators = {}
    for peer, maker in MAKERS.items():
        if peer is None or peer in session.built:
            made = maker(session)
            operators.update(made)
            session.versions.update(dict.fromkeys(made, session.built.get(peer, torch.__version__)))
    # Each has a code object of its own: on each call torch searches all graphs that were compiled for one.
    compiled = {name: torch.compile(eval("lambda x, y: op(2.0, x, y)", {"op": operators[name]["saxpy"]}), fullgraph=True)
                for name in COMPILED if name in operators}

    def eager(title, operation, count, check, **options):
        session.compare(f"operator, eager{title}", "torch", {
            name: (ops[operation], [2.0, *(torch.arange(6.0, **options) for _ in range(count))])
            for name, ops in operators.items() if operation in ops}, check=check)

    def right(answer):
        return torch.equal(answer, 3 * torch.arange(6.0))

    modes = {"": torch.enable_grad, ", inference mode": torch.inference_mode}
    session.say(total=6 - session.plan.quick)
    eager(", with gradients", "recorded", 2, lambda z: right(z) and z.grad_fn is not None, requires_grad=True)
    eager(", rw", "scale", 1, lambda nothing: nothing is None)
    for title, mode in modes.items():
        with mode():
            eager(title, "saxpy", 2, right)
            if title and session.plan.quick:  # compiling takes longer than measuring
                continue
            session.compare(f"operator, compiled{title}", "torch", {
                name: (graph, [torch.arange(6.0), torch.arange(6.0)]) for name, graph in compiled.items()}, check=right)
