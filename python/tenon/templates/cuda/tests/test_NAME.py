from array import array

import NAME
import pytest


def test_saxpy() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    x = torch.arange(3.0, device="cuda")
    z = NAME.saxpy(2.0, x, x)
    assert z.device == x.device and z.tolist() == [0, 3, 6]


def test_saxpy_refuses_the_memory_of_the_cpu() -> None:
    with pytest.raises(ValueError, match="cuda"):
        NAME.saxpy(2.0, array("f", [1, 2, 3]), array("f", [1, 2, 3]))
