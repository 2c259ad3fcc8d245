"""Tensors of torch that are no plain memory: each refused with a sentence that says what to call."""

import sys

import pytest

torch = pytest.importorskip("torch")

import tenon_probe as probe  # noqa: E402
from arrays import DLPack, check_torch  # noqa: E402

# Before 2.10 torch has no table: its own __dlpack__ runs, sees subclasses and modes, and refuses in its own words.
needs_table = pytest.mark.skipif(not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch has no table")


def refuse(given, kind, message):
    before = sys.getrefcount(given)
    for call in (probe.borrow, probe.import_):
        with pytest.raises(kind, match=message) as caught:
            call(given)
        text = str(caught.value)
        assert len(text) < 400 and "\n" not in text
        del caught
    assert sys.getrefcount(given) == before


def test_conjugate():
    given = torch.arange(4.0).to(torch.complex64)
    message = r"conjugate view.*x.resolve_conj\(\)"
    for view in (given.conj(), given[:1].conj(), given[::2].conj(), given[0].conj()):
        refuse(view, BufferError, message)
        resolved = view.resolve_conj()
        check_torch(probe.borrow(resolved), resolved, "c64")
    twice = given.conj().conj()
    check_torch(probe.borrow(twice), given, "c64")


def test_negated():
    given = torch.arange(6.0).to(torch.complex64).reshape(2, 3)
    message = r"negated view.*x.resolve_neg\(\)"
    views = [given.conj().imag, given.conj().imag[0, 0], given.conj().imag[:, :1], given.T.conj().imag]
    views += [given.conj().imag.as_strided((2,), (1,)), torch._neg_view(torch.ones(3)), torch._neg_view(torch.ones(3, 3)).T]
    views += [torch._neg_view(torch.ones([1, 2] * 4)), torch.nn.Parameter(torch._neg_view(torch.ones(3)), requires_grad=False)]
    for view in views:
        assert view.is_neg()
        refuse(view, BufferError, message)
        resolved = view.resolve_neg()
        check_torch(probe.borrow(resolved), resolved, "f32")
    check_torch(probe.borrow(given.imag), given.imag, "f32")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse(layout):
    make = {
        "coo": lambda x: x.to_sparse(),
        "csr": lambda x: x.to_sparse_csr(),
        "csc": lambda x: x.to_sparse_csc(),
        "bsr": lambda x: x.to_sparse_bsr((2, 2)),
        "bsc": lambda x: x.to_sparse_bsc((2, 2)),
    }[layout]
    given = make(torch.eye(4))
    refuse(given, BufferError, r"sparse tensor.*x.to_dense\(\)")
    probe.borrow(given.to_dense())


def test_meta():
    refuse(torch.ones(3, device="meta"), BufferError, "meta tensor has no memory")


@needs_table
def test_fake():
    fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
    real = torch.ones(3)
    with fake_tensor.FakeTensorMode() as mode:
        fake = mode.from_tensor(real)
        message = "fake or wrapper tensor.*pass the tensor inside it"
        refuse(fake, TypeError, message)
        refuse(torch.ones(3), TypeError, message)
        view = probe.borrow(real)  # a real one stays real inside the mode
    check_torch(view, real, "f32")
    refuse(fake, TypeError, message)


def test_wrapper_subclass():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("must not be called")

    class Below(Wrapper):
        pass

    for kind in (Wrapper, Below):
        given = kind(torch.ones(3))
        refuse(given, TypeError, "fake or wrapper tensor.*pass the tensor inside it")
        probe.borrow(given.inner)


def seen_inside(transform):
    """What the bridge says of the tensor that a transformed function gets."""
    seen = []

    def function(x):
        try:
            seen.append(probe.borrow(x))
        except Exception as error:
            seen.append((type(error), str(error)))
        return (x * x).sum()

    transform(function)(torch.ones(3, 2))
    return seen[0]


@pytest.mark.parametrize("name", ["vmap", "grad", "jvp", "jacrev"])
def test_functorch(name):
    if name == "jvp":
        kind, text = seen_inside(lambda f: lambda x: torch.func.jvp(f, (x,), (x,)))
    else:
        kind, text = seen_inside(getattr(torch.func, name) if name != "vmap" else torch.vmap)
    assert kind is BufferError
    assert "inside torch.vmap and torch.func" in text and "call it outside" in text


@needs_table
def test_functionalized():
    kind, text = seen_inside(torch.func.functionalize)
    assert kind is BufferError and "no memory" in text and "pass a real tensor" in text


@needs_table
def test_storage_freed():
    given = torch.ones(3)
    given.untyped_storage().resize_(0)
    refuse(given, BufferError, "elements but no memory.*pass a real tensor")
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.untyped_storage().resize_(0)
    refuse(parameter, BufferError, "elements but no memory")


@needs_table
def test_size_of_an_empty_tensor():
    """It has no elements, and no memory either, but its size overflows."""
    given = torch.zeros(1, 0).expand(1 << 61, 0)
    refuse(given, BufferError, r"f32\[2305843009213693952, 0\] has more bytes than 64 bits can count")
    refuse(torch._efficientzerotensor(()), BufferError, "elements but no memory")


def test_uninitialized():
    for kind in (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer):
        given = kind()
        refuse(given, TypeError, r"neither shape nor memory yet.*x.materialize\(shape\)")
        given.materialize((2, 3))
        assert probe.borrow(given)["shape"] == (2, 3)


def test_forward_ad():
    """As requires_grad: a tensor with a tangent may be read, but not written."""
    forward_ad = pytest.importorskip("torch.autograd.forward_ad")
    given, plain = torch.ones(3), torch.ones(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(given, torch.ones(3))
        assert probe.borrow(dual)["data"] == given.data_ptr()
        for borrow in (probe.borrow, probe.import_):
            with pytest.raises(RuntimeError, match=r"carries a tangent.*unpack_dual\(x\).primal"):
                borrow(dual, probe.WRITE)
        probe.borrow(forward_ad.unpack_dual(dual).primal, probe.WRITE)
        probe.borrow(plain, probe.WRITE)
    probe.borrow(given, probe.WRITE)


@needs_table
def test_zero_tensor():
    refuse(torch._efficientzerotensor(3), BufferError, "elements but no memory")


@pytest.mark.filterwarnings("ignore")
def test_quantized():
    if not hasattr(torch, "quantize_per_tensor"):
        pytest.skip("this torch has no quantized tensors")
    given = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    refuse(given, BufferError, r"x.int_repr\(\) or x.dequantize\(\)")
    probe.borrow(given.int_repr())
    probe.borrow(given.dequantize())


def test_mkldnn():
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no mkldnn")
    given = torch.ones(3, 3).to_mkldnn()
    refuse(given, BufferError, r"x.to_dense\(\)")
    probe.borrow(given.to_dense())


@pytest.mark.filterwarnings("ignore")
def test_nested():
    parts = [torch.ones(2), torch.ones(3)]
    given = torch.nested.nested_tensor(parts)
    refuse(given, BufferError, r"nested tensor.*x.unbind\(\)")
    for part in given.unbind():
        probe.borrow(part)
    refuse(torch.nested.nested_tensor(parts, layout=torch.jagged), TypeError, "fake or wrapper tensor")


@pytest.mark.filterwarnings("ignore")
def test_named():
    try:
        given = torch.ones(2, 3, names=("a", "b"))
    except TypeError:
        pytest.skip("this torch has no named tensors")
    check_torch(probe.borrow(given), given, "f32")


def test_no_storage_of_torch():
    with pytest.raises(TypeError, match="expected an array"):
        probe.borrow(torch.ones(3).untyped_storage())


@needs_table
def test_dispatch_modes_see_nothing():
    """Borrowing runs none of torch's operators."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise AssertionError(f"{func} was called")

    given = [torch.ones(4), torch.ones(8)[::2], torch.tensor(1j), torch.nn.Parameter(torch.ones(2))]
    with Recorder():
        for tensor in given:
            probe.borrow(tensor)
            probe.import_release(tensor)


@needs_table
def test_dlpack_of_torch_keeps_its_own_refusal():
    """Through __dlpack__ it is torch that refuses; its words are kept as the cause."""
    with pytest.raises(BufferError, match="the producer refused") as caught:
        probe.borrow(DLPack(torch.ones(3, requires_grad=True)))
    assert isinstance(caught.value.__cause__, BufferError)


class Unwilling(torch.Tensor):
    """A subclass that answers no question of torch's."""

    @classmethod
    def __torch_function__(cls, *arguments, **keywords):
        return NotImplemented


@needs_table
def test_subclasses_cannot_hide_what_they_are():
    numbers = torch.tensor([1 + 2j, 3 + 4j])
    with pytest.raises(BufferError, match="resolve_conj"):
        probe.borrow(numbers.conj().as_subclass(Unwilling))
    with pytest.raises(BufferError, match="resolve_neg"):
        probe.borrow(numbers.conj().imag.as_subclass(Unwilling))
    with pytest.raises(RuntimeError, match="requires grad"):
        probe.borrow(torch.ones(2, requires_grad=True).as_subclass(Unwilling), probe.WRITE)
    assert probe.borrow(numbers.as_subclass(Unwilling), probe.WRITE)["dtype"] == "c64"


@needs_table
def test_modes_cannot_hide_what_a_tensor_is():
    from torch.overrides import TorchFunctionMode

    class Liar(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            return False

    given = torch.tensor([1 + 2j]).conj()
    with Liar(), pytest.raises(BufferError, match="resolve_conj"):
        probe.borrow(given)
