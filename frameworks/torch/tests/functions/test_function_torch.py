"""Functions that are called with torch's tensors: gradients, writes, tensors that are not plain memory, numbers."""

import random

import pytest
import tenon
from building import build, refused, same_counts
from handmade import Echo

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

GRAD = (
    "{}(): argument 'x': it requires grad, and autograd does not see what this function does; pass x.detach(), "
    "use torch.no_grad(), or register a backward with tenon.torch_ops()"
)


# ------------------------------------------------------------------------------------------------- gradients and writes


def test_gradients_are_not_lost(kernels):
    x = torch.ones(3, requires_grad=True)
    refused(kernels.copy, RuntimeError, GRAD.format("copy"), x)
    refused(kernels.copy, RuntimeError, GRAD.format("copy"), x * 2)  # no leaf
    refused(kernels.add_to, RuntimeError, GRAD.format("add_to"), x, 1.0)
    refused(kernels.copy, RuntimeError, GRAD.format("copy"), torch.nn.Parameter(torch.ones(2)))
    refused(kernels.copy, RuntimeError, GRAD.format("copy"), torch.ones(2, dtype=torch.complex64, requires_grad=True))
    with pytest.raises(RuntimeError, match="argument 'y': it requires grad"):
        kernels.saxpy(2, numpy.zeros(3, "float32"), x)


def test_gradients_that_are_given_up(kernels):
    x = torch.ones(3, requires_grad=True)
    assert kernels.copy(x.detach()).tolist() == [1, 1, 1]
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert kernels.copy(x).tolist() == [1, 1, 1]
            with torch.enable_grad():
                if mode is torch.no_grad:
                    refused(kernels.copy, RuntimeError, GRAD.format("copy"), x)
    assert kernels.copy_no_grad(x).tolist() == [1, 1, 1]
    assert not kernels.copy_no_grad(x).requires_grad
    assert kernels.copy(torch.nn.Parameter(torch.ones(2), requires_grad=False)).tolist() == [1, 1]
    assert kernels.copy(torch.arange(3)).tolist() == [0, 1, 2]


def change_or_view(rng, x):
    """A view of x, x without its history, or None after something was written to x."""
    how = rng.choice(["row", "view", "detach", "write", "write_with_grad", "no_grad", "parameter"])
    if how == "row":
        return x[rng.randrange(len(x))] if x.ndim == 2 else x[:]
    if how == "view":
        return x.view(x.shape)
    if how == "detach":
        return x.detach()
    if how == "parameter":
        return torch.nn.Parameter(x.detach(), requires_grad=rng.random() < 0.5)
    if how == "no_grad":
        with torch.no_grad():
            return x.view(x.shape)
    x.mul_(torch.ones((), requires_grad=how == "write_with_grad"))


def random_views(rng):
    """A base and views of views of it, some of which require grad only because something was written to the others."""
    tensors = [torch.zeros(4, 6, requires_grad=rng.random() < 0.2)]
    for _ in range(rng.randrange(1, 6)):
        try:
            tensors.append(change_or_view(rng, rng.choice(tensors)))
        except RuntimeError:  # torch refuses to write to it, or to view it after others have written
            pass
        tensors = [x for x in tensors if x is not None]
    return tensors


def test_views_require_grad_as_torch_says(kernels):
    rng, seen = random.Random(34), {True: 0, False: 0}
    for _ in range(500):
        for x in random_views(rng):
            enabled = rng.random() < 0.8
            with torch.set_grad_enabled(enabled):
                expected = x.requires_grad and enabled
                refused = False
                try:
                    kernels.copy(x)
                except RuntimeError as error:
                    refused = "requires grad" in str(error)
                assert refused == expected
                seen[expected] += 1
    assert min(seen.values()) > 150


def test_tangents_are_not_lost(kernels):
    forward = torch.autograd.forward_ad
    x = torch.ones(3)
    with forward.dual_level():
        dual = forward.make_dual(x, x)
        with pytest.raises(RuntimeError, match=r"copy\(\): argument 'x': it carries a tangent"):
            kernels.copy(dual)
        with pytest.raises(RuntimeError, match="tangent"):
            Echo("f(a: float)")(forward.make_dual(torch.tensor(1.0), torch.tensor(1.0)))
        assert kernels.copy(x).tolist() == [1, 1, 1]
    assert kernels.copy(x).tolist() == [1, 1, 1]


@pytest.mark.skipif(tenon.torch_info()["tensors"] != "struct", reason="tensors are not read by their struct")
def test_copy_on_write(kernels):
    """Memory that is copied on the next write is not copied by a function that reads, and is by one that writes."""
    is_cow = torch._C._is_cow_tensor
    first = torch.ones(3)
    second, third = first._lazy_clone(), first._lazy_clone()
    assert kernels.copy(first).tolist() == kernels.copy(second).tolist() == [1, 1, 1]
    assert is_cow(first) and is_cow(second)
    kernels.add_to(second, 1.0)
    assert not is_cow(second) and is_cow(first) and is_cow(third)
    assert (first.tolist(), second.tolist(), third.tolist()) == ([1, 1, 1], [2, 2, 2], [1, 1, 1])
    kernels.copy(second, out=third)
    assert not is_cow(third) and third.tolist() == [2, 2, 2] and first.tolist() == [1, 1, 1]


def test_writes_are_counted(kernels):
    """Autograd notices that what it saved has been written."""
    a, w = torch.ones(3), torch.ones(3, requires_grad=True)
    z = (a * w).sum()
    before = a._version
    kernels.add_to(a, 1.0)
    assert a._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    out = torch.empty(3)
    before = out._version
    kernels.saxpy(2.0, torch.ones(3), torch.ones(3), out=out)
    assert out._version == before + 1
    with torch.inference_mode():
        kernels.add_to(torch.ones(3), 1.0)


def test_writes_of_a_function_that_fails_are_counted():
    """Whatever kind the first written argument is, and with the function's exception on its way."""
    code = """
    #include <tenon/function.h>
    static tenon_status f(tenon_call *call)
    {
        tenon_rw_data(call, 0, float)[0] = tenon_rw_data(call, 1, float)[0] = 2;
        return tenon_fail(call, TENON_EINVAL, "half done");
    }
    TENON_MODULE(half, NULL, TENON_FUNCTION("f(x: f32[n] rw, y: f32[n] rw)", f, NULL))
    """
    x, y = numpy.ones(3, "float32"), torch.ones(3)
    before = y._version
    with pytest.raises(ValueError, match=r"f\(\): half done"):
        tenon.load(build(code, name="half.so")).f(x, y)
    assert x[0] == y[0] == 2 and y._version == before + 1


# -------------------------------------------------------------------------------------------------------------- tensors


def test_inference_tensors(kernels):
    with torch.inference_mode():
        x = torch.ones(3)
    assert kernels.copy(x).tolist() == [1, 1, 1]


def test_lazy_views(kernels):
    """conj and neg are promises that the memory does not keep."""
    x = torch.tensor([1 + 2j, 3 - 1j])
    for view in (x.conj(), x.conj().imag):
        with pytest.raises((ValueError, BufferError), match=r"^copy\(\): argument 'x': torch\.Tensor: "):
            kernels.copy(view)
    assert kernels.copy(x.conj().resolve_conj()).tolist() == [1 - 2j, 3 + 1j]
    assert Echo("f(x: c64[n]) -> c64[n]")(x).shape == (2,)


def test_special_tensors(kernels):
    x = torch.ones(3)
    for special in (x.to_sparse(), torch.ones(3, device="meta")):
        with same_counts(special):
            with pytest.raises((ValueError, BufferError, TypeError), match=r"argument 'x'"):
                kernels.copy(special)
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    with pytest.raises((ValueError, BufferError, TypeError), match=r"argument 'x'"):
        kernels.copy(fake)


def test_torch_layouts(kernels):
    grid = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    with pytest.raises(ValueError, match=r"in C order without gaps; pass a copy that is, for example with x\.contiguous\(\)$"):
        kernels.copy(grid.t())
    echo = Echo("f(x: f32[n, m])")
    echo(grid.t())
    view = echo.seen["args"][0]["value"]
    assert (view["shape"], view["strides"], view["data"]) == ([3, 2], [1, 3], grid.data_ptr())
    with pytest.raises(ValueError, match="overlaps itself"):
        Echo("f(x: f32[n, m] rw)")(torch.ones(3, 1).expand(3, 4))


def test_torch_advice(kernels):
    message = (
        "saxpy(): argument 'x': expected f32[n], got f64[2] (torch.Tensor)\n"
        "  dtype is f64, not f32; try x.to(torch.float32)"
    )
    x = torch.zeros(2, dtype=torch.float64)
    refused(kernels.saxpy, TypeError, message, 2, x, x)


def test_torch_on_another_device(kernels):
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    with pytest.raises(ValueError, match="the memory is on cuda:0, which the CPU cannot read"):
        kernels.copy(torch.ones(3, device="cuda"))


# -------------------------------------------------------------------------------------------------------------- numbers


def test_lists_in_a_tensor_of_torch():
    assert Echo("f(a: ints)").value(torch.arange(4)) == [0, 1, 2, 3]
    assert Echo("f(a: floats)").value(torch.arange(4) / 2) == [0, 0.5, 1, 1.5]
    assert Echo("f(a: ints[3])").value(torch.tensor([3, 2, 1], dtype=torch.uint8)) == [3, 2, 1]
    refused(Echo("f(a: ints[3])"), ValueError, "f(): argument 'a': expected ints[3], got 9 numbers", torch.arange(9))
    for wrong in (torch.ones(2), torch.arange(4).reshape(2, 2), torch.tensor(3)):
        with pytest.raises(TypeError):
            Echo("f(a: ints)")(wrong)
    with pytest.raises(RuntimeError, match=r"^f\(\): argument 'a(\[0\])?': it requires grad"):
        Echo("f(a: floats)")(torch.ones(2, requires_grad=True))


def test_torch_numbers():
    assert Echo("f(a: int)").value(torch.tensor(7)) == 7
    assert Echo("f(a: float)").value(torch.tensor(0.5)) == 0.5
    assert Echo("f(a: float)").value(torch.tensor(2, dtype=torch.int8)) == 2.0
    assert Echo("f(a: ints)").value(torch.Size([2, 3])) == [2, 3]
    meta = torch.zeros((), device="meta")
    for signature in ("f(a: float)", "f(a: int)"):
        with pytest.raises((TypeError, RuntimeError, ValueError), match="meta"):
            Echo(signature)(meta)


def test_torch_number_that_requires_grad():
    number = torch.tensor(0.5, requires_grad=True)
    for signature, value in (("f(a: float)", number), ("f(a: floats)", [number])):
        with pytest.raises(RuntimeError, match=r"f\(\): argument 'a(\[0\])?': it requires grad"):
            Echo(signature)(value)
        with torch.no_grad():
            Echo(signature)(value)
        Echo(signature, flags=4)(value)
    assert Echo("f(a: float)").value(number.detach()) == 0.5
