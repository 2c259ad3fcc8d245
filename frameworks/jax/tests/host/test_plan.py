"""Calls that the host takes by plan do the same as those that it takes in general. Static numbers are taken by plan; if one
of them is an operand, the whole call is taken in general."""

import jax
import numpy as np
import pytest
from building import build, tenon
from hand_written import JaxRuntimeError, ffi, struct

from tenon import _jax_native

SOURCE = """
#include <tenon/function.h>

static tenon_status mix(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    const int *y = tenon_data(call, 4, int);
    double factor = tenon_arg_double(call, 2), total = 0;
    int64_t n = tenon_dim(call, 0), k = tenon_dim(call, 1);
    if (tenon_arg_int(call, 1) == 13)
        return tenon_fail(call, TENON_EBOUNDS, "13 of %d", (int)n);
    for (int64_t j = 0; j < k; j++) {
        float sum = tenon_arg_bool(call, 3) ? 1000 : 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[i * k + j] * (float)factor + (float)tenon_arg_int(call, 1);
        total += tenon_result_data(call, 0, float)[j] = sum * (float)y[j];
    }
    tenon_return_double(call, 1, total);
    tenon_return_int(call, 2, n * k);
    tenon_return_bool(call, 3, tenon_arg_bool(call, 3));
    return TENON_OK;
}

TENON_MODULE(plans, "For plans.",
             TENON_FUNCTION("mix(x: f32[n, k] c, i: int, a: float, b: bool, y: i32[k] c aligned(16)) "
                            "-> f32[k], float, int, bool", mix, NULL))
"""
kernels = tenon.load(build(SOURCE, name="plans.so"))
HASH = _jax_native.register(kernels.mix.__self__, "plans.mix")


def run(letters, x, y, numbers, results=None):
    """The results, or the message, of a call whose three numbers are attributes (v) or operands (s)."""
    attributes, operands = {}, [x]
    kinds = (np.int64, np.float64, np.bool_)
    for index, (letter, number, kind) in enumerate(zip(letters[1:4], numbers, kinds), 1):
        if letter == "v":
            attributes[f"v{index:02}"] = kind(number) if type(number) in (int, float, bool) else number
        else:
            operands.append(number)
    shapes = results or (struct(y.shape[0]), struct(), struct(dtype=np.int32), struct(dtype=np.bool_))
    call = ffi.ffi_call("tenon1", shapes)
    try:
        made = jax.block_until_ready(call(*operands, y, args=letters, fn="plans.mix", hash=HASH, **attributes))
    except (JaxRuntimeError, ValueError) as error:
        return str(error)
    return [np.asarray(one).tolist() for one in made]


def arrays(n, k, rows=None):
    rng = np.random.default_rng(n * 100 + k)
    return rng.integers(-5, 5, (n, k)).astype(np.float32), rng.integers(0, 9, k if rows is None else rows).astype(np.int32)


@pytest.mark.parametrize("n, k", [(1, 1), (3, 4), (1, 7), (64, 2), (0, 3), (3, 0), (0, 0)])
def test_as_the_general_path(n, k):
    x, y = arrays(n, k)
    for numbers in ((2, 0.5, True), (-7, -0.25, False), (0, 0.0, True), (13, 1.0, False)):
        planned = run("tvvvt", x, y, numbers)
        assert planned == run("tsvvt", x, y, numbers) == run("tvvst", x, y, numbers)
        if numbers[0] == 13:
            assert f"mix(): 13 of {n}" in planned
        else:
            expected = (x * numbers[1] + numbers[0]).sum(0) + 1000 * numbers[2]
            assert planned[0] == (expected * y).tolist() and planned[2:] == [n * k, numbers[2]]


def test_mistakes_have_the_words_of_the_general_path():
    for x, y in (arrays(3, 4, rows=5), (arrays(3, 4)[0].astype(np.int32), arrays(3, 4)[1]),
                 (arrays(3, 4)[0][0], arrays(3, 4)[1]), (arrays(3, 4)[0], arrays(3, 4)[1][:, None])):
        planned = run("tvvvt", x, y, (2, 0.5, True))
        assert "mix(): argument " in planned and planned == run("tvvst", x, y, (2, 0.5, True))


def test_a_result_of_another_shape_is_not_written():
    x, y = arrays(3, 4)
    others = (struct(), struct(dtype=np.int32), struct(dtype=np.bool_))
    for wrong in (struct(3), struct(4, 1), struct(4, dtype=np.int32)):
        words = run("tvvvt", x, y, (2, 0.5, True), (wrong, *others))
        assert "compiled for another shape" in words and words == run("tvvst", x, y, (2, 0.5, True), (wrong, *others))


def test_numbers_of_other_types():
    """An integer is a float, too; the plan leaves the conversion to the general path. No value is equal to one above, since
    JAX would take the program of that one."""
    x, y = arrays(3, 4)
    assert run("tvvvt", x, y, (2, np.int64(3), True)) == run("tsvvt", x, y, (2, 3.0, True))
    assert run("tvvvt", x, y, (np.int32(21), np.float32(0.75), True)) == run("tsvvt", x, y, (21, 0.75, True))
    assert "argument 'i': expected int" in run("tvvvt", x, y, (np.float64(2.5), 0.5, True))
    assert "argument 'b': expected bool" in run("tvvvt", x, y, (2, 0.5, np.int64(7)))
