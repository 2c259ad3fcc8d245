"""tenon.torch_ops: uint, complex, dtype, strs and choices of integers in schemas, and functions that are left out."""

import warnings

import pytest
from operators import HERE, compiled_library, tenon, torch

LEFT_OUT = {
    "with_bytes": "argument 'data' is bytes, which operators do not accept",
    "to_bytes": "a result is of type bytes, and operators return only tensors",
    "to_ints": "a result is of type ints, and operators return only tensors",
    "to_strs": "a result is of type strs, and operators return only tensors",
    "complex_default": "argument 'z' has the default 1j, which torch's schemas cannot have",
    "strs_default": "argument 'z' has the default ('a',), which torch's schemas cannot have",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    kernels = tenon.load(compiled_library(tmp_path_factory.mktemp("torch_kinds"), HERE / "torch_kinds.c"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ops = tenon.torch_ops(kernels, name="tenon_kind_tests")
    yield ops, [str(warning.message) for warning in caught]
    torch._dynamo.reset()
    ops.close()


@pytest.fixture
def ops(made):
    return made[0]


def test_schemas(ops):
    space = torch.ops.tenon_kind_tests
    schemas = {name: str(getattr(space, name).default._schema).partition("::")[2] for name in ("cast", "mix", "choose")}
    assert schemas == {
        "cast": "cast(Tensor x, ScalarType t=7) -> Tensor",
        "mix": "mix(Tensor x, int k, complex z, str[] names) -> Tensor",
        "choose": "choose(Tensor x, int k=2) -> Tensor",
    }


def test_left_out(made):
    text = "\n".join(made[1])
    for name, reason in LEFT_OUT.items():
        assert f"{name}() is left out: {reason}" in text
        assert not hasattr(made[0], name)


def test_values(ops):
    x = torch.ones(3)
    assert ops.mix(x, 2, 3 + 1j, ["a", "b"]).tolist() == [7, 7, 7]
    assert torch.ops.tenon_kind_tests.mix(x, 2, 3 + 1j, ["a", "b"]).tolist() == [7, 7, 7]
    with pytest.raises(OverflowError, match=r"mix\(\): argument 'k': expected an integer from 0 to 2\*\*64 - 1, got a negative"):
        torch.ops.tenon_kind_tests.mix(x, -1, 0, [])
    a, b = ops.numbers(torch.full((1,), 5.0))
    assert (a.dtype, a.item(), b.dtype, b.item()) == (torch.int64, 5, torch.complex128, 5 - 1j)


def test_choices(ops):
    x = torch.ones(2)
    assert ops.choose(x).tolist() == [2, 2] and ops.choose(x, 4).tolist() == [4, 4]
    assert torch.ops.tenon_kind_tests.choose(x, 1).tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"choose\(\): argument 'k': expected 1\|2\|4, got 3"):
        ops.choose(x, 3)


def test_dtypes(ops):
    x = torch.ones(2, dtype=torch.int8)
    assert ops.cast(x).dtype == torch.float64
    assert ops.cast(x, torch.float32).dtype == torch.float32
    assert torch.ops.tenon_kind_tests.cast(x).dtype == torch.float64
    with pytest.raises(TypeError, match=r"cast\(\): argument 't': expected dtype\(U\), got i8, but U is one of f32\|f64"):
        ops.cast(x, torch.int8)


def test_fake_tensors(ops):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(2)
        assert ops.cast(x).dtype == torch.float64
        assert ops.cast(x, torch.float32).shape == (2,)
        assert [one.dtype for one in ops.numbers(x)] == [torch.int64, torch.complex128]
        assert ops.mix(x, 1, 1j, ["a"]).dtype == torch.float32
        with pytest.raises(TypeError, match="got i8, but U is one of f32|f64"):
            ops.cast(x, torch.int8)
        with pytest.raises(TypeError, match="got f64, but T = f32 from argument 'x'"):
            ops.same(x, torch.float64)
        with pytest.raises(ValueError, match=r"choose\(\): argument 'k': expected 1\|2\|4, got 3"):
            ops.choose(x, 3)
        with pytest.raises(OverflowError, match="got a negative one"):
            ops.mix(x, -1, 1j, ["a"])


def test_compiled(ops):
    def f(x):
        return ops.cast(ops.mix(x, 2, 1j, ["a", "b"]), torch.float32) + ops.choose(x, 4)

    x = torch.ones(3)
    assert torch.equal(torch.compile(f, fullgraph=True, backend="aot_eager")(x), f(x))
