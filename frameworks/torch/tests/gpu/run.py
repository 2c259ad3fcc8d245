"""The torch bridge on a GPU: a plain script, since nothing can be installed where there is one.

    python3 frameworks/torch/tests/gpu/run.py      builds the probe with cc; skips without a GPU
"""
import gc
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[4] / "python/tests"))
from compiling import build_torch_probe  # noqa: E402


def test_the_same_object():
    x = torch.arange(6.0, device="cuda").requires_grad_()
    handle = probe.take(x)
    assert probe.give(handle) is x
    probe.release(handle)
    probe.round_trips(x, 10_000)


def test_view_is_where_the_tensor_is():
    x = torch.arange(24.0, device="cuda", dtype=torch.bfloat16).reshape(2, 3, 4).transpose(0, 2)
    handle = probe.take(x)
    seen = probe.view(handle)
    probe.release(handle)
    assert (seen["data"], seen["shape"], seen["strides"]) == (x.data_ptr(), (4, 3, 2), x.stride())
    assert (seen["dtype"], seen["device"]) == ("bf16", (2, torch.cuda.current_device()))


def test_operators_and_their_gradients():
    x = torch.ones(4, device="cuda", requires_grad=True)
    (y,) = probe.call("aten::mul", "Tensor", (x, torch.full((4,), 3.0, device="cuda")))
    assert y.is_cuda and y.requires_grad
    y.sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 3.0, device="cuda"))


def test_operators_run_on_the_current_stream():
    stream = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x += 1
        (y,) = probe.call("aten::mul", "Tensor", (x, x))
    stream.synchronize()
    assert float(y.min()) == 1.0


def test_released_by_another_thread():
    before = torch.cuda.memory_allocated()
    for _ in range(20):
        probe.release_elsewhere(probe.take(torch.empty(1 << 20, device="cuda")), 1, 1)
    probe.round_trips(torch.ones(1), 1)  # whatever waited is given up at the next call
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_new_memory():
    x = probe.empty("f32", (2, 3), 2, 0)
    assert x.is_cuda and tuple(x.shape) == (2, 3)


def test_errors_of_the_device():
    x = torch.ones(4, device="cuda")
    try:
        probe.call("aten::mul", "Tensor", (x, torch.ones(4)))
    except RuntimeError as error:
        assert "same device" in str(error), error
    else:
        raise AssertionError("two devices were taken")


def main():
    global torch, probe
    import torch
    if not torch.cuda.is_available():
        print("skipped: no GPU that torch can use")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp())
    build_torch_probe(folder)
    sys.path.insert(0, str(folder))
    import tenon_torch_probe as probe
    print("torch", torch.__version__, "on", torch.cuda.get_device_name(), "tier", probe.info())
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("ok", name)
    assert probe.leaked() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
