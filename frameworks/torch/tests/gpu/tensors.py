"""CUDA tensors that are read by torch's own struct, against the same ones read by its exchange table: a plain script, since
nothing can be installed where there is a GPU.

    python3 frameworks/torch/tests/gpu/tensors.py [cpu]     builds what it needs with cc; skips without a GPU, unless `cpu`
                                                            asks for a trial run there
"""
import collections
import pathlib
import random
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[4] / "python/tests"))
from bridges import copy_of_bridge  # noqa: E402
from compiling import build_extension, build_package  # noqa: E402

import torch  # noqa: E402

ANY_DEVICE, WRITE, C_CONTIGUOUS = 8, 1, 2
CASES = 10_000
NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 float8_e4m3fn".split()


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


def random_tensor(rng, memory):
    dtype = getattr(torch, rng.choice(NAMES))
    shape = tuple(rng.choice((0, 1, 2, 3)) if rng.random() < 0.2 else rng.choice((1, 2, 3)) for _ in range(rng.randint(0, 6)))
    offset, kind = rng.randint(0, 7), rng.random()
    if kind < 0.4:
        tensor = torch.empty(shape, dtype=dtype, device=memory.device)
    elif kind < 0.5:
        with torch.inference_mode():
            tensor = torch.empty(shape, dtype=dtype, device=memory.device)
    elif kind < 0.8:
        tensor = memory.view(dtype)[offset:offset + torch.Size(shape).numel()].reshape(shape)
    else:
        tensor = torch.as_strided(memory.view(dtype), shape, [rng.randint(0, 5) for _ in shape], offset)
    if dtype.is_complex and rng.random() < 0.3:
        tensor = tensor.conj()
        tensor = tensor.imag if rng.random() < 0.5 else tensor
    if tensor.is_inference() or tensor.is_neg() or not tensor.is_floating_point() or rng.random() < 0.7:
        return tensor
    return torch.nn.Parameter(tensor.detach()) if rng.random() < 0.5 else tensor.detach().requires_grad_()


def compare(ways, tensor, flags, seen):
    struct, table = ways
    first, second = (outcome(bridge.read, "borrow", tensor, flags) for bridge in ways)
    peeked = outcome(struct.read, "peek", tensor)
    general = outcome(table.read, "general", tensor, ANY_DEVICE)
    about = (tensor.dtype, tensor.shape, tensor.stride(), tensor.device, flags, first, second, peeked)
    assert first == second, about
    assert peeked is None or peeked == general, about
    seen["views" if isinstance(second, dict) else second[0]] += 1
    seen["peeked"] += peeked is not None
    return peeked


def check_device(ways, device):
    rng, seen = random.Random(18), collections.Counter()
    memory = torch.zeros(1 << 14, dtype=torch.uint8, device=device)
    for _ in range(CASES):
        compare(ways, random_tensor(rng, memory), rng.choice((ANY_DEVICE, ANY_DEVICE | WRITE, ANY_DEVICE | C_CONTIGUOUS, 0)), seen)
    assert seen["peeked"] > CASES // 4, seen
    one = torch.ones(1, device=device)
    view = compare(ways, one, ANY_DEVICE, seen)
    assert view and view["data"] == one.data_ptr() and view["shape"] == (1,), view
    if one.is_cuda:
        assert view["device"] == (2, one.get_device()), view
        assert torch.cuda.current_device() == 0
    print(f"ok {device}: {CASES} tensors alike, {dict(seen)}")


def check_special(ways):
    """Memory of the CPU that a GPU knows, and what must go through the table."""
    seen = collections.Counter()
    special = {
        "pinned": torch.zeros(3).pin_memory(),
        "sparse": torch.zeros(3, device="cuda").to_sparse(),
        "conj": torch.zeros(3, device="cuda", dtype=torch.complex64).conj(),
        "six": torch.zeros((1, 2) * 3, device="cuda"),
        "meta": torch.zeros(3, device="meta"),
        "lazy": torch.zeros(3, device="cuda")._lazy_clone(),
        "no memory": torch.zeros(0, device="cuda"),
    }
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        special["another stream"] = torch.zeros(4, device="cuda")
    for name, tensor in special.items():
        for flags in (ANY_DEVICE, ANY_DEVICE | WRITE, 0):
            compare(ways, tensor, flags, seen)
        print("ok", name)


def check_capture(ways):
    """A tensor is read while a CUDA graph is captured."""
    x = torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x + 1
        assert ways[0].read("peek", y)["data"] == y.data_ptr()
    graph.replay()
    assert float(y.sum()) == 8
    print("ok capture")


def main():
    on_cpu = sys.argv[1:] == ["cpu"]
    if not on_cpu and not torch.cuda.is_available():
        print("skipped: no GPU that torch can use")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp())
    build_package(folder)
    build_extension(folder / "tenon_paths.so", "python/tests/extension/paths.c")
    sys.path.insert(0, str(folder))
    import tenon
    info = tenon.torch_info()
    assert not torch.cuda.is_initialized(), "the probe initialised CUDA"
    assert info["tensors"] == "struct", info
    ways = []
    for switch in (None, "0"):
        (folder / f"bridge{switch}").mkdir()
        plain = torch.zeros(3), torch.nn.Parameter(torch.zeros(3))
        ways.append(copy_of_bridge(folder / "tenon_paths.so", folder / f"bridge{switch}", switch, *plain))
    check_device(ways, "cpu")
    if on_cpu:
        return 0
    allocated = torch.cuda.memory_allocated()
    first = torch.ones(4, device="cuda")
    before = torch.cuda.memory_allocated() - allocated
    ways[0].read("borrow", first, ANY_DEVICE)  # the key sets are found here
    assert torch.cuda.memory_allocated() - allocated == before, "the probe kept memory"
    for index in range(torch.cuda.device_count()):
        check_device(ways, f"cuda:{index}")
    check_special(ways)
    check_capture(ways)
    print("tensors by struct: torch", torch.__version__, "on", torch.cuda.device_count(), torch.cuda.get_device_name(), info)
    return 0


if __name__ == "__main__":
    sys.exit(main())
