"""A framework that Tenon was not built with: docs/adding-a-framework.md. This runs in a build of the package that has this folder
as frameworks/tinyarray, with tinyarray.c compiled to the module tinyarray (`tools/check-frameworks --example` does all of it)."""

import sys

import tenon
import tinyarray

kernels = tenon.compile("""
#include <tenon/function.h>

static tenon_status fill(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        x[i] = (float)tenon_arg_double(call, 1);
    return TENON_OK;
}

static tenon_status twice(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    float *y = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        y[i] = 2 * x[i];
    return TENON_OK;
}

static tenon_status address(tenon_call *call)
{
    return tenon_return_int(call, 0, (int64_t)(uintptr_t)tenon_data(call, 0, float));
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(kernels, "For arrays of tinyarray.",
    TENON_FUNCTION("fill(x: f32[n] c rw, value: float)", fill, NULL),
    TENON_FUNCTION("twice(x: f32[n] c) -> f32[n]", twice, NULL),
    TENON_FUNCTION("address(x: f32[n] c) -> int", address, NULL),
    TENON_FUNCTION("integers(x: i32[n])", nothing, NULL),
    TENON_FUNCTION("to_integers(x: f32[n]) -> i32[n]", nothing, NULL))
""")


def message(function, *arguments):
    try:
        function(*arguments)
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError("there is no exception")


if "full" in sys.argv:  # the table of types has no room left for TinyArray
    for i in range(60):
        tenon.from_dlpack(type(f"Bytes{i}", (bytearray,), {})(4))

x = tinyarray.zeros(3)
kernels.fill(x, 1.5)
assert list(x) == [1.5, 1.5, 1.5]

y = kernels.twice(x)
assert type(y) is tinyarray.TinyArray and list(y) == [3.0, 3.0, 3.0]
assert list(kernels.twice(tinyarray.zeros(0))) == []
assert type(kernels.twice(tenon.from_dlpack(x), like="tinyarray")) is tinyarray.TinyArray

assert not hasattr(x, "__dlpack__") and not hasattr(x, "__array_interface__")
assert kernels.address(x) == x.address
assert tenon.from_dlpack(x).data_ptr == x.address

assert message(kernels.integers, x) == ("integers(): argument 'x': expected i32[n], got f32[3] (tinyarray.TinyArray)\n"
                                        "  dtype is f32, not i32")
assert message(kernels.to_integers, x) == "to_integers(): result 0: tinyarray has only arrays of f32 with one dimension"

tensor = tenon.from_dlpack(x)
assert sys.getrefcount(x) == 3  # the name, the tensor and the argument
del tensor
before = sys.getrefcount(x)
for _ in range(1000):
    y = kernels.twice(x)
    message(kernels.integers, x)
    message(kernels.to_integers, x)
assert sys.getrefcount(x) == before == 2 and sys.getrefcount(y) == 2
print("tinyarray: ok")
