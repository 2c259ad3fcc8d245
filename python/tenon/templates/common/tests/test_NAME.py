from array import array

import NAME
import pytest


def test_saxpy() -> None:
    z = NAME.saxpy(2.0, array("f", [1, 2, 3]), array("f", [10, 20, 30]))
    assert memoryview(z).tolist() == [12, 24, 36]


def test_saxpy_refuses_other_lengths() -> None:
    with pytest.raises(ValueError, match="saxpy"):
        NAME.saxpy(2.0, array("f", [1, 2, 3]), array("f", [1, 2]))
