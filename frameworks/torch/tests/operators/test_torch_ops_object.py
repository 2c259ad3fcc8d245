"""tenon.torch_ops: the object that it returns, sizes beyond 64 bits, and writes that torch counts."""

import copy
import pickle
import warnings

import pytest
from operators import HERE, compiled_library, tenon, torch
from torch._subclasses.fake_tensor import FakeTensorMode


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return tenon.load(compiled_library(tmp_path_factory.mktemp("torch_ops"), HERE / "torch_ops.c"))


@pytest.fixture(scope="module", params=[True, False], ids=["direct", "operators"])
def ops(kernels, request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registered = tenon.torch_ops(kernels, name="tenon_objects", direct=request.param)
    yield registered
    torch._dynamo.reset()
    registered.close()


def test_copies_are_the_object_itself(ops):
    assert copy.copy(ops) is ops and copy.deepcopy([ops])[0] is ops
    with pytest.raises(TypeError, match="TorchOps tenon_objects: .* cannot be pickled: load the library"):
        pickle.dumps(ops)
    with pytest.raises(AttributeError):  # an object whose __init__ has not run yet
        tenon._torch_ops.TorchOps.__new__(tenon._torch_ops.TorchOps).affine


def test_repr_without_operators(tmp_path):
    source = tmp_path / "none.c"
    source.write_text("""#include <tenon/function.h>
    static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
    TENON_MODULE(none, NULL, TENON_FUNCTION("quiet()", none, NULL))""")
    loaded = tenon.load(compiled_library(tmp_path, source))
    with pytest.warns(UserWarning, match=r"quiet\(\) is left out"):
        ops = tenon.torch_ops(loaded, name="tenon_none")
    assert repr(ops) == "<tenon.TorchOps tenon_none: no operators>"
    ops.close()
    assert repr(ops) == "<tenon.TorchOps tenon_none: closed>"


def test_memory_and_objects_that_outlive_a_call_are_left_out(tmp_path):
    source = tmp_path / "lifetimes.c"
    source.write_text("""    #include <tenon/function.h>
    static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
    TENON_MODULE(lifetimes, NULL,
        TENON_FUNCTION("kept(x: f32[n] keep) -> f32[n]", none, NULL),
        TENON_FUNCTION("owned(n: int) -> f32[n] own", none, NULL),
        TENON_FUNCTION("shown(x: f32[n]) -> f32[?] of(x)", none, NULL),
        TENON_CLASS("Tree", NULL),
        TENON_FUNCTION("Tree(x: f32[n] keep)", none, NULL),
        TENON_FUNCTION("Tree.size(self) -> a: int, b: int", none, NULL),
        TENON_FUNCTION("taken(tree: handle('Tree')) -> f32[3]", none, NULL),
        TENON_FUNCTION("made(n: int) -> handle('Tree')", none, NULL))""")
    loaded = tenon.load(compiled_library(tmp_path, source))
    with pytest.warns(UserWarning) as caught:
        ops = tenon.torch_ops(loaded, name="tenon_lifetimes")
    said = [str(warning.message).partition("() is left out: ") for warning in caught]
    assert {name.rpartition(" ")[2]: reason for name, _, reason in said} == {
        "kept": "argument 'x' is 'keep', and torch reuses the memory of arguments after an operator",
        "owned": "a result is of type f32[n] own, and operators return only memory of torch",
        "shown": "a result is of type f32[?] of(x), and operators return only memory of torch",
        "Tree": "it makes an object, which operators do not return",
        "taken": "argument 'tree' is a handle, which operators do not accept",
        "made": "a result is of type handle('Tree'), and operators return only tensors",
    }
    ops.close()
    with pytest.raises(ValueError, match=r"kept\(\) cannot be an operator"):
        tenon.torch_ops(loaded, name="tenon_lifetimes", strict=True)


TOO_LARGE = {
    "argument": lambda ops, t: ops.head(t(4), 2**62),
    "result": lambda ops, t: ops.spread(2**61),
    "division": lambda ops, t: ops.spread(1, 0),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_sizes_beyond_64_bits_say_the_same_without_data(ops, case):
    with pytest.raises((ValueError, OverflowError), match="overflows 64 bits or divides by 0") as real:
        TOO_LARGE[case](ops, torch.ones)
    with FakeTensorMode(), pytest.raises(OverflowError) as fake:
        TOO_LARGE[case](ops, torch.ones)
    assert str(fake.value) == str(real.value)
    with pytest.raises((ValueError, OverflowError)) as meta:
        TOO_LARGE[case](ops, lambda *shape: torch.ones(*shape, device="meta"))
    assert str(meta.value) == str(real.value)


def test_bytes_beyond_64_bits(ops):
    with FakeTensorMode(), pytest.raises(OverflowError) as caught:
        ops.ramp(2**61)
    assert str(caught.value) == "ramp(): result 0: f32[2305843009213693952] has more bytes than 64 bits can count"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_write_is_counted_once(ops, kernels, device):
    x, y = torch.ones(3, dtype=torch.float64, device=device), torch.ones(3, dtype=torch.float64, device=device)
    calls = [lambda: ops.twice(x), lambda: ops.add_to(x, y), lambda: torch.ops.tenon_objects.add_to(x, y, 2.0)]
    if device == "cpu":
        calls += [lambda: kernels.twice(x), lambda: torch.compile(ops.twice, backend="eager")(x)]
    for call in calls:
        before = x._version, y._version
        call()
        assert (x._version, y._version) == (before[0] + 1, before[1])


def test_a_refused_call_counts_nothing(ops):
    x = torch.ones(3, dtype=torch.float64)
    before = x._version
    with pytest.raises(ValueError):
        ops.add_to(x, torch.ones(4, dtype=torch.float64))
    assert x._version == before


def test_sizes_and_devices_without_data(ops):
    with FakeTensorMode():
        y = ops.pool(torch.ones(7, 4))
        assert y.shape == (3, 5, 3) and y.dtype == torch.float32 and y.device.type == "cpu"
        assert ops.batch(torch.ones(2, 5, 3).int(), torch.ones(2, 5, 3).half()).dtype == torch.float16
        assert ops.batch(torch.ones(3).int(), torch.ones(3)).shape == ()
        assert ops.head(torch.ones(4)).shape == (4,)
    if torch.cuda.is_available():
        pytest.skip("the last lines are for a machine without a GPU")
    with FakeTensorMode():
        assert ops.on_gpu(torch.ones(3, device="cuda")).device.type == "cuda"
        with pytest.raises(Exception, match="expected f32"):
            ops.on_gpu(torch.ones(3, 3, device="cuda"))


def test_a_method_has_no_schema(tmp_path):
    boxes = tenon.load(compiled_library(tmp_path, HERE.parents[3] / "python/tests/functions/classes/boxes.c"))
    with pytest.raises(ValueError, match="^it belongs to the class 'Box', and operators do not accept objects$"):
        tenon._torch_native.schema(boxes.Box.dot.function)


def test_a_failed_registration_leaves_nothing(kernels, monkeypatch):
    def fail(operator, direct):
        raise RuntimeError("on purpose")

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr("tenon._torch_ops.make_function", fail)
        before = tenon._torch_native.kernel_count()
        with pytest.raises(RuntimeError, match="on purpose"):
            tenon.torch_ops(kernels, name="left_nothing")
        assert tenon._torch_native.kernel_count() == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tenon.torch_ops(kernels, name="left_nothing").close()
