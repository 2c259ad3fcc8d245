"""Conditions of a where clause: what a call must meet, and what it says."""

import math

import numpy as np
import pytest
from handmade import Echo, entry, load, module

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


@pytest.fixture(scope="module")
def top():
    return Echo("top(x: f32[n] c, k: int = 1, eps: float? = None) where k >= 1, k <= n, eps > 0").function


def test_a_call_that_meets_them(top):
    top(ones(4))
    top(ones(4), 4)
    top(ones(4), 2, 1e-300)
    top(ones(4), eps=math.inf, k=1)
    top(ones(1), 1, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 5), r"top(): argument 'k': expected k <= n, got k = 5 (n = 4 from argument 'x')"),
        ((4, 0), r"top(): argument 'k': expected k >= 1, got k = 0"),
        ((0,), r"top(): argument 'k': expected k <= n, got k = 1 (n = 0 from argument 'x')"),
        ((4, 5, -1.0), r"top(): argument 'k': expected k <= n, got k = 5 (n = 4 from argument 'x')"),
        ((4, 4, -1.5), r"top(): argument 'eps': expected eps > 0, got eps = -1.5"),
        ((4, 4, math.nan), r"top(): argument 'eps': expected eps > 0, got eps = nan"),
        ((4, 4, 0.0), r"top(): argument 'eps': expected eps > 0, got eps = 0"),
    ],
)
def test_a_call_that_does_not(top, arguments, message):
    with pytest.raises(ValueError) as raised:
        top(ones(arguments[0]), *arguments[1:])
    assert str(raised.value) == message
    assert type(raised.value) is ValueError


def test_other_mistakes_come_first(top):
    with pytest.raises(TypeError, match="dtype is f64, not f32"):
        top(np.ones(4), 9)
    with pytest.raises(TypeError, match="argument 'eps': expected float\\?, got str"):
        top(ones(4), 9, "x")


def test_overflow():
    product = Echo("product(x: f32[n], k: int) where k * n < 100").function
    product(ones(4), 24)
    product(ones(4), -(2**61))
    with pytest.raises(OverflowError, match=r"^product\(\): argument 'k': expected k \* n < 100, which overflows 64 bits"):
        product(ones(4), 2**62)


def test_the_code_does_not_run():
    ran = []
    library = load(module([entry("f(k: int) where k > 0", lambda call: ran.append(call) or 0)]))
    with pytest.raises(ValueError, match="expected k > 0, got k = 0"):
        library.f(0)
    assert not ran
    library.f(1)
    assert len(ran) == 1


def test_numbers_of_dimensions_stay():
    """An int that only conditions use is not a dimension, but one that a shape uses is."""
    echo = Echo("f(k: int, j: int, x: f32[n], y: f32[m]) -> f32[j] where k < n + m, j > 0")
    echo.function(3, 2, ones(3), ones(5))
    assert echo.function.__self__.conditions == ("k < n + m", "j > 0")
    with pytest.raises(ValueError, match=r"argument 'k': expected k < n \+ m, got k = 8 \(n = 3 from argument 'x', m = 5 from"):
        echo.function(8, 2, ones(3), ones(5))


def test_out_and_lists():
    f = Echo("f(x: f32[n], k: int) -> f32[n] where k <= n").function
    out = ones(3)
    assert f(ones(3), 3, out=out) is out
    with pytest.raises(ValueError, match="expected k <= n"):
        f(ones(3), 4, out=out)
    with pytest.raises(ValueError, match=r"^f\(\): argument 'xs\[0\]': expected n > 2, got n = 2$"):
        Echo("f(xs: [f32[n]]) where n > 2").function([ones(2), ones(2)])
    Echo("f(xs: [f32[n]]) where n > 2").function([])


def test_a_mistake_is_an_import_error():
    with pytest.raises(ImportError, match="'m' is neither a dimension nor a parameter"):
        load(module([entry("f(x: f32[n]) where m > 0")]))
