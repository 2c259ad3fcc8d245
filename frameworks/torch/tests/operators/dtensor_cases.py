"""One process of test_torch_dtensor.py: RANK, SIZE, a folder for the store, and the library."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

import tenon

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
DERIVATIVES = {"backward": {"wave": "wave_grad", "wave_grad": "wave_grad_grad"}}
ADVICE = "and a call would gather it; pass {0}.redistribute(placements=[Replicate()]), or sharding='replicate' to tenon.torch_ops()"


def wave(x, w):
    return x.sin() * w


def doubles(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def refusal(call, *args):
    try:
        call(*args)
    except Exception as error:
        chain = [str(error), str(error.__cause__)]
        return next(text for text in chain if "argument" in text)
    raise AssertionError("it was not refused")


def compiled(f):
    torch._dynamo.reset()
    return torch.compile(f, fullgraph=True, backend="aot_eager")


def check_batch(ops, mesh, placements, wrap=lambda f: f, rows=8):
    """x is sharded along its batch, the weight is whole; the gradient of the weight is a sum over the devices."""
    x, w = doubles(rows, 4, 3), doubles(3)
    everywhere = [Replicate()] * mesh.ndim
    shared = distribute_tensor(x, mesh, placements).requires_grad_()
    weight = distribute_tensor(w, mesh, everywhere).requires_grad_()
    y = wrap(ops.wave)(shared, weight)
    assert list(y.placements) == placements, y.placements
    torch.testing.assert_close(y.full_tensor(), wave(x, w))
    dx, dw = torch.autograd.grad(y.square().sum(), (shared, weight))
    assert list(dx.placements) == placements, dx.placements
    assert [one.is_partial() for one in dw.placements] == [one.is_shard() for one in placements], dw.placements
    x.requires_grad_(), w.requires_grad_()
    wanted = torch.autograd.grad(wave(x, w).square().sum(), (x, w))
    torch.testing.assert_close((dx.full_tensor(), dw.full_tensor()), wanted)


def check_refusals(ops, mesh):
    x, w, v = doubles(8, 4, 4), doubles(4), doubles(8, 4, 4, seed=1)
    size, whole = mesh.size(), distribute_tensor(w, mesh, [Replicate()])
    columns = distribute_tensor(x, mesh, [Shard(2)])
    assert refusal(ops.wave, columns, whole).startswith(
        f"wave(): argument 'x' is a DTensor that is sharded in dimension 2, which does not belong to the batch, over {size} processes, {ADVICE.format('x')}"
    )
    rows = distribute_tensor(x, mesh, [Shard(0)])
    assert "argument 'w' is a DTensor that is sharded in dimension 0, which does not" in refusal(ops.wave, rows, distribute_tensor(w, mesh, [Shard(0)]))
    other = distribute_tensor(v, mesh, [Shard(1)])
    assert "argument 'x' is a DTensor that is sharded in another way than 'dy'" in refusal(ops.wave_grad, other, rows, whole)
    partial = DTensor.from_local(x, mesh, [Partial()])
    assert "placed as P" in refusal(ops.wave, partial, whole)
    few = DTensor.from_local(x[:1] if dist.get_rank() == 0 else x[:0], mesh, [Shard(0)], shape=(1, 4, 4), stride=(16, 4, 1))
    assert "which has fewer items than there are processes" in refusal(ops.wave, few, whole)


def check_replicate(ops, mesh):
    x, w = doubles(8, 4, 4), doubles(4)
    columns, shared = distribute_tensor(x, mesh, [Shard(2)]), distribute_tensor(w, mesh, [Shard(0)])
    torch.testing.assert_close(ops.wave(columns, shared).full_tensor(), wave(x, w))


def check_lists(ops, mesh):
    x, y = doubles(8, 4, 3), doubles(8, 4, 3, seed=1)
    rows, others = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(y, mesh, [Shard(0)])
    if VERSION < (2, 10):
        said = refusal(ops.blend, [rows, others])
        assert said.startswith("blend(): argument 'xs[0]' is a DTensor that is in a list, which needs torch 2.10, but"), said
        return
    made = ops.blend([rows, others, rows])
    assert list(made.placements) == [Shard(0)]
    torch.testing.assert_close(made.full_tensor(), y + 2 * x)
    said = refusal(ops.blend, [rows, distribute_tensor(y, mesh, [Shard(1)])])
    assert "argument 'xs[1]' is a DTensor that is sharded in another way than 'xs[0]'" in said, said


def check_written(ops, lenient, mesh, wrap=lambda f: f):
    """The function writes to the tensor itself, never to a copy that DTensor made."""
    x, y = doubles(8, 4, 3), doubles(8, 4, 3, seed=1)
    put = lambda x, placement: distribute_tensor(x.clone(), mesh, [placement])  # noqa: E731
    if VERSION < (2, 13):
        said = refusal(ops.scale, put(x, Shard(0)), put(y, Shard(0)))
        assert said.startswith("scale(): argument 'x' is a DTensor that is written by an operator without results, which needs torch 2.13, but"), said
        return
    for mine, other in ((Shard(0), Shard(0)), (Shard(1), Replicate()), (Replicate(), Replicate())):
        written = put(x, mine)
        wrap(lambda x, y: (ops.scale(x, y), x + 1)[1])(written, put(y, other))
        assert list(written.placements) == [mine]
        torch.testing.assert_close(written.full_tensor(), x * y)
    written = put(x, Replicate())
    lenient.scale(written, put(y, Shard(0)))
    torch.testing.assert_close(written.full_tensor(), x * y)
    before = put(x, Replicate())
    said = refusal(ops.scale, before, put(y, Shard(0)))
    assert said.startswith(
        f"scale(): argument 'y' is a DTensor that is placed in another way than 'x', which is written, over {mesh.size()} "
        f"processes, {ADVICE.format('y')}"
    ), said
    for one in (ops, lenient):
        said = refusal(one.scale, put(x, Shard(2)), put(y, Shard(2)))
        assert "argument 'x' is a DTensor that is written and placed as S(2), which does not fit" in said.replace("Shard(dim=2)", "S(2)"), said
    torch.testing.assert_close(before.full_tensor(), x)


def check_written_on_a_square(ops, mesh):
    x, y = doubles(8, 4, 3), doubles(8, 4, 3, seed=1)
    for placements in ([Shard(0), Shard(0)], [Replicate(), Replicate()]):
        written = distribute_tensor(x.clone(), mesh, placements)
        ops.scale(written, distribute_tensor(y, mesh, placements))
        torch.testing.assert_close(written.full_tensor(), x * y)
    written = distribute_tensor(x.clone(), mesh, [Shard(0), Replicate()])
    said = refusal(ops.scale, written, distribute_tensor(y, mesh, [Shard(0), Replicate()]))
    assert "written and placed in different ways over the axes of its mesh, so that" in said, said


def check_fsdp(ops, mesh):
    """A layer under FSDP2: its weight is sharded, and gathered for the step."""
    from torch.distributed.fsdp import fully_shard

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(doubles(4))

        def forward(self, x):
            return ops.wave(x, self.weight)

    layer, size, rank = Layer(), mesh.size(), dist.get_rank()
    fully_shard(layer, mesh=mesh)
    x, w = doubles(8, 4), doubles(4).requires_grad_()
    layer(x.chunk(size)[rank]).square().sum().backward()
    wanted = torch.autograd.grad(wave(x, w).square().sum() / size, w)[0]
    torch.testing.assert_close(layer.weight.grad.full_tensor(), wanted)


def check_tensor_parallel(ops, mesh):
    """Sequence parallel: the norm sees a part of the sequence, and the linear layer after it is sharded by columns."""
    x, w, matrix = doubles(2, 8, 4), doubles(4), doubles(4, 8, seed=2)
    sequence, weight = distribute_tensor(x, mesh, [Shard(1)]), distribute_tensor(w, mesh, [Replicate()])
    hidden = ops.wave(sequence, weight).redistribute(placements=[Replicate()]) @ distribute_tensor(matrix, mesh, [Shard(1)])
    torch.testing.assert_close(hidden.full_tensor(), wave(x, w) @ matrix)


def main(rank, size, folder, library):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    kernels = tenon.load(library)
    ops = tenon.torch_ops(kernels, name="strict", **DERIVATIVES)
    lenient = tenon.torch_ops(kernels, name="lenient", sharding="replicate", **DERIVATIVES)
    mesh = init_device_mesh("cpu", (size,))
    for placement in (Shard(0), Shard(1), Replicate()):
        check_batch(ops, mesh, [placement])
    check_batch(ops, mesh, [Shard(0)], rows=5)  # 2, 2, 1 and none in four processes
    if size == 2:
        check_batch(ops, mesh, [Shard(0)], compiled)
        check_written(ops, lenient, mesh, compiled)
    else:
        check_batch(ops, init_device_mesh("cpu", (2, 2)), [Shard(0), Shard(1)])
        check_batch(ops, init_device_mesh("cpu", (2, 2)), [Shard(0), Replicate()])
        if VERSION >= (2, 13):
            check_written_on_a_square(ops, init_device_mesh("cpu", (2, 2)))
    check_refusals(ops, mesh)
    check_replicate(lenient, mesh)
    check_lists(ops, mesh)
    check_written(ops, lenient, mesh)
    if VERSION >= (2, 8):  # FSDP2 on CPUs
        check_fsdp(ops, mesh)
    check_tensor_parallel(ops, mesh)
    dist.destroy_process_group()
    print("done", rank)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
