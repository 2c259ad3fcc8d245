"""Arguments that are converted for the call, because their parameter is "convert"."""

import array
import gc
import threading
import warnings

import numpy as np
import pytest
from building import build, run_python, same_counts, tenon
from handmade import entry, load, module

f32 = np.float32


@pytest.fixture(scope="session")
def kernels():
    return tenon.load(build("conversions.c"))


def address(x):
    return x.__array_interface__["data"][0]


def aligned(count, dtype, offset=0):
    memory = np.zeros(count * np.dtype(dtype).itemsize + 128, np.uint8)
    start = -address(memory) % 64 + offset
    return memory[start : start + count * np.dtype(dtype).itemsize].view(dtype)


def test_what_fits_is_not_copied(kernels):
    before = tenon.conversions(kernels.total)
    for x in (aligned(6, f32), aligned(6, f32).reshape(2, 3), np.zeros((), f32), np.zeros(0, f32)):
        total, where = kernels.total(x)
        assert x.size == 0 or where == address(x)
    assert tenon.conversions(kernels.total) == before


@pytest.mark.parametrize("dtype", ["f8", "f2", "i1", "i8", "u8", "u1", "?"])
def test_other_dtypes(kernels, dtype):
    x = np.array([0, 1, 1, 0, 1]).astype(dtype)
    before = tenon.conversions(kernels.total)
    total, where = kernels.total(x)
    assert total == 3 and where % 64 == 0 and where != address(x)
    assert tenon.conversions(kernels.total) == before + 1


def test_other_orders_and_addresses(kernels):
    base = np.arange(12, dtype=f32).reshape(3, 4)
    for x in (base.T, base[:, ::2], base[::-1], aligned(12, f32, 1), np.broadcast_to(f32(2), (3, 3))):
        total, where = kernels.total(x)
        assert total == x.sum() and where % 64 == 0
        low, high = np.lib.array_utils.byte_bounds(x) if hasattr(np.lib, "array_utils") else np.byte_bounds(x)
        assert not low <= where < high
    x = np.arange(6.0).reshape(2, 3)
    assert kernels.columns(x).reshape(-1).tolist() == x.reshape(-1, order="F").tolist()
    assert kernels.columns(x.astype("i2")).reshape(-1).tolist() == x.reshape(-1, order="F").tolist()


def test_rounding(kernels):
    """Once, from the exact value, to nearest even."""
    out = kernels.twice(np.array([2**53 + 1, 2**24 + 1, 2**24 + 3]))
    assert out.tolist() == [2.0**54, 2.0**25, 2 * (2.0**24 + 4)]
    assert kernels.twice(np.array([1e300, np.nan]))[0] == np.inf


def test_results_belong_to_the_framework_of_the_argument(kernels):
    torch = pytest.importorskip("torch")
    x = torch.arange(3, dtype=torch.float64)
    out = kernels.twice(x, k=np.array([1, 2, 3], np.int8))
    assert type(out) is torch.Tensor and out.dtype == torch.float32 and out.tolist() == [1, 4, 7]
    assert kernels.twice(x.bfloat16()).tolist() == [0, 2, 4]


def test_jax_arrays(kernels):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(3)
    out = kernels.twice(x)
    assert isinstance(out, jax.Array) and out.tolist() == [0, 2, 4]
    assert kernels.twice(x.astype("float32")).tolist() == [0, 2, 4]


def test_out_and_several_arguments(kernels):
    x, out = np.arange(3.0), np.zeros(3, f32)
    assert kernels.twice(x, np.ones(3, np.uint8), out=out) is out
    assert out.tolist() == [1, 3, 5]
    # The function reads a copy of x, so out= may be its memory.
    x = np.arange(3, dtype=f32)[::-1]
    out = x[::-1]
    assert kernels.twice(x, out=out).tolist() == [4, 2, 0]


@pytest.mark.parametrize(
    ("name", "x", "reason"),
    [
        ("whole", np.zeros(2), "dtype is f64, not i32, and it is not converted, because values could be lost; try x.astype('int32')"),
        ("whole", np.zeros(2, "i8"), "dtype is i64, not i32, and it is not converted, because values could be lost"),
        ("whole", np.zeros(2, "u4"), "dtype is u32, not i32, and it is not converted"),
        ("truth", np.zeros(2, "u1"), "dtype is u8, not bool, and it is not converted"),
        ("turn", np.zeros(2), "dtype is f64, not c64, and it is not converted"),
        ("twice", np.zeros(2, "c8"), "dtype is c64, not f32, and it is not converted"),
    ],
)
def test_values_are_not_lost(kernels, name, x, reason):
    with pytest.raises(TypeError) as raised:
        getattr(kernels, name)(x)
    assert reason in str(raised.value) and str(raised.value).startswith(f"{name}(): argument 'x': expected ")


def test_every_value_fits(kernels):
    kernels.whole(np.zeros(2, "u2"))
    kernels.whole(np.zeros(2, "?"))
    kernels.turn(np.zeros(2, "c16"))
    kernels.turn(np.zeros(2, "?"))
    kernels.truth(np.zeros(4, "?")[::2])
    assert [tenon.conversions(f) for f in (kernels.whole, kernels.turn)] == [2, 2]


def test_lists_and_numbers_are_not_arrays(kernels):
    for x in ([1.0, 2.0], (1, 2), 3.0, "ab", None):
        with pytest.raises(TypeError, match=r"^twice\(\): argument 'x'"):
            kernels.twice(x)
    assert kernels.twice(array.array("d", [1, 2])).tolist() == [2, 4]
    assert kernels.twice(memoryview(array.array("h", [1, 2]))).tolist() == [2, 4]


def test_messages_are_about_what_conversion_does_not_help_with(kernels):
    with pytest.raises(ValueError, match=r"argument 'x': expected f32\[n\], got f64\[2, 2\] \(numpy.ndarray\)\n  2 dimensions, not 1"):
        kernels.twice(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"argument 'k': dimension 0 is 3, but n = 2 from argument 'x'"):
        kernels.twice(np.zeros(2), np.zeros(3, "i1"))
    with pytest.raises(TypeError, match=r"argument 'k': expected i64\[n\]\? convert, got str"):
        kernels.twice(np.zeros(2), "x")


def test_methods_and_constructors(kernels):
    bag = kernels.Bag(np.zeros(3, f32))
    assert bag.add(np.array([7, 8], np.int8)) == 7
    assert tenon.conversions(kernels.Bag) == 1
    assert tenon.conversions(kernels.Bag.add) == tenon.conversions(bag.add) == 1
    for wrong in (len, 3, kernels, type):
        with pytest.raises(TypeError, match=r"^tenon.conversions\(\): expected a function of a library"):
            tenon.conversions(wrong)


def test_a_callback_may_keep_the_copy(kernels):
    kept = []
    kernels.each(np.arange(50_000, dtype=f32), kept.append)
    gc.collect()
    noise = [np.ones(50_000) for _ in range(4)]
    assert np.asarray(kept[0]).tolist() == list(range(50_000)) and noise


def test_the_checked_mode_warns(kernels):
    before = tenon.check(True)
    try:
        with pytest.warns(RuntimeWarning, match=r"^total\(\): argument 'x' was converted to f32\[\*_\] c convert, a copy of 24 bytes$"):
            kernels.total(np.zeros(6))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kernels.total(np.zeros(6, f32))
            with pytest.raises(RuntimeWarning, match="24 bytes"):
                kernels.total(np.zeros(6))
    finally:
        tenon.check(before)


def test_nothing_is_left(kernels):
    with same_counts():
        for _ in range(20):
            kernels.total(np.zeros(1000))
            with pytest.raises(TypeError):
                kernels.twice(np.zeros(2), "x")


def test_an_argument_that_changes_before_it_is_converted(kernels):
    x = np.zeros(100)

    class Changes:
        """Its memory is asked for after that of x was."""

        def __init__(self):
            self.values = np.zeros(100, np.int8)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

        def __dlpack__(self, **options):
            x.resize(200_000, refcheck=False)
            return self.values.__dlpack__(**options)

    with pytest.raises(RuntimeError, match="argument 'x': its memory, shape, dtype or flags changed"):
        kernels.twice(x, Changes())


def test_no_memory(kernels):
    x = np.broadcast_to(np.float64(1), (1 << 58,))
    with pytest.raises(MemoryError, match=r"argument 'x': no memory for the \d+ bytes that it is converted to"):
        kernels.total(x)


def test_the_count_is_exact_with_threads(kernels):
    before, x = tenon.conversions(kernels.total), np.zeros(3)
    threads = [threading.Thread(target=lambda: [kernels.total(x) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tenon.conversions(kernels.total) == before + 800


def test_exact(kernels):
    exact = kernels.twice.__self__.exact
    before = tenon.conversions(kernels.twice)
    assert exact(np.ones(2, f32)).tolist() == [2, 2]
    for x, error in ((np.ones(2), TypeError), (np.ones(4, f32)[::2], ValueError)):
        with pytest.raises(error, match=r"^twice\(\): argument 'x': expected f32\[n\]"):
            exact(x)
    assert tenon.conversions(kernels.twice) == before


def test_exact_methods(kernels):
    """They take the objects of the same class."""
    bag, exact = kernels.Bag(np.zeros(3)), kernels.Bag.add.function.exact
    assert exact(bag, np.array([7.0, 8.0])) == 7
    with pytest.raises(TypeError, match=r"^Bag\.add\(\): argument 'x': expected f64\[n\]"):
        exact(bag, np.ones(2, f32))
    with pytest.raises(TypeError, match=r"^Bag\.add\(\): argument 'self': expected conversions\.Bag, got int"):
        exact(3, np.ones(2))


def test_exact_functions_that_convert_nothing():
    function = tenon.load(build("kernels.c")).saxpy
    assert function.__self__.exact(2.0, np.ones(2, f32), np.ones(2, f32)).tolist() == [3, 3]


def test_described(kernels):
    function = kernels.twice.__self__
    assert function.tensors[0]["attributes"] == ["c", "convert"]
    assert "converted if it has another dtype or layout" in run_python(
        f"import sys; from tenon.__main__ import main; sys.argv = ['tenon', 'describe', '--markdown', {str(build('conversions.c'))!r}]; main()"
    )


def test_refused_at_load():
    for signature, reason in {
        "f(x: f32[n] convert rw)": "'convert' and 'rw' cannot be combined",
        "f(x: f32|f64[n] convert)": "'convert' needs one dtype",
        "f(x: f32[n] convert) -> f32[n] of(x)": "needs the memory of the argument itself",
    }.items():
        with pytest.raises(ImportError, match=reason):
            load(module([entry(signature)]))


def test_overloads_are_tried_without_conversion_first():
    source = """
        #include <tenon/function.h>
        static tenon_status one(tenon_call *call) { return tenon_return_int(call, 0, 1); }
        static tenon_status two(tenon_call *call) { return tenon_return_int(call, 0, 2); }
        TENON_MODULE(overloads, "",
                     TENON_FUNCTION("f(x: f32[n] convert) -> int", one, ""),
                     TENON_FUNCTION("f(x: f64[n] convert) -> int", two, ""))
        """
    f = tenon.load(build(source, name="converting_overloads")).f
    assert [f(np.ones(2, dtype)) for dtype in ("f4", "f8", "i4")] == [1, 2, 1]
