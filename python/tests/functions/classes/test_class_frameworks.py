"""Methods take the arrays of every framework; operators of frameworks leave classes out."""

import warnings

import pytest
from building import build, tenon


@pytest.fixture
def ones():
    numpy = pytest.importorskip("numpy")
    return numpy.ones(3, "float32")


def test_torch(boxes, ones):
    torch = pytest.importorskip("torch")
    box = boxes.Box(torch.ones(3))
    assert box.dot(ones) == box.dot(torch.ones(3)) == 3
    assert type(box.scaled(torch.ones(3))) is type(box.nearest(torch.ones(3)).rows) is torch.Tensor
    with pytest.raises(RuntimeError, match=r"^Box\.dot\(\): argument 'x'.*grad"):
        box.dot(torch.ones(3, requires_grad=True))


def test_jax(boxes, ones):
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(ones)
    box = boxes.Box(x)
    assert box.dot(x) == boxes.sum_of(box) == 3
    assert isinstance(box.scaled(x), jax.Array)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_operators_leave_classes_out(framework):
    pytest.importorskip(framework)
    module = tenon.load(build("classes/boxes.c"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        operators = tenon.torch_ops(module, name="tenon_boxes") if framework == "torch" else tenon.jax_ops(module)
    assert hasattr(operators, "first") and not hasattr(operators, "Box") and not hasattr(operators, "sum_of")
    messages = [str(warning.message) for warning in caught]
    assert any("sum_of() is left out" in message for message in messages)
    assert any("Box() is left out: it makes an object" in message for message in messages)
    if framework == "torch":
        operators.close()
