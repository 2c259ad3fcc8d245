"""Batches in C++: signatures with **b, and tenon::for_each."""

import pytest
from building import build_cpp, tenon

numpy = pytest.importorskip("numpy")

SOURCE = r"""
    #include <cmath>
    #include <stdexcept>
    #include <tenon/stl.hpp>
    #include <vector>

    using array = tenon::in<float, tenon::any>;
    using result = tenon::out<float, tenon::any>;

    static void lerp(array, array, array, result)
    {
        tenon::for_each(64, [](const float *x, const float *y, const float *t, float *z) { *z = *x + *t * (*y - *x); });
    }

    static void norm(array x, tenon::out<double, tenon::any>)
    {
        const tenon_view &view = *x.view();
        const int64_t n = view.shape[view.ndim - 1], stride = view.strides[view.ndim - 1];
        tenon::for_each(INT64_MAX, [&](void *const *data, const int64_t *steps, int64_t count) {
            for (int64_t i = 0; i < count; i++) {
                const float *row = static_cast<const float *>(data[0]) + i * steps[0];
                double sum = 0;
                for (int64_t k = 0; k < n; k++)
                    sum += static_cast<double>(row[k * stride]) * static_cast<double>(row[k * stride]);
                static_cast<double *>(data[1])[i * steps[1]] = std::sqrt(sum);
            }
        });
    }

    // The shape and the strides that the function sees.
    static void layout(array x, array, std::vector<int64_t> &shape, std::vector<int64_t> &strides)
    {
        shape.assign(x.view()->shape, x.view()->shape + x.view()->ndim);
        strides.assign(x.view()->strides, x.view()->strides + x.view()->ndim);
    }

    static void refuse(array, int64_t bad, int64_t grain, result)
    {
        tenon::for_each(grain, [&](const float *x, float *z) {
            if (*x == static_cast<float>(bad))
                throw std::out_of_range("a bad item");
            *z = *x;
        });
    }

    static void say(array, result)
    {
        tenon::for_each(1, [](const float *, float *) { tenon_fail(tenon::call(), TENON_EINVAL, "said on any thread"); });
    }

    static void widen(array, result)
    {
        tenon::for_each(1, [](const float *, double *) {});
    }

    static double total(array)
    {
        double sum = 0;
        tenon::for_each(INT64_MAX, [&](const float *x) { sum += static_cast<double>(*x); });
        return sum;
    }

    static int64_t not_a_batch(array x)
    {
        tenon::for_each(1, [](const float *) {});
        return x.size();
    }

    static auto negate = [](auto x, auto) {
        using item = std::remove_cv_t<std::remove_reference_t<decltype(*x.data())>>;
        tenon::for_each(1000, [](const item *from, item *to) { *to = -*from; });
    };

    TENON_CPP_MODULE(batches, nullptr,
        TENON_CPP("lerp(x: f32[**b], y: f32[**b], t: f32[**b]) -> f32[**b]", lerp, nullptr),
        TENON_CPP("norm(x: f32[**b, n]) -> f64[**b]", norm, nullptr),
        TENON_CPP("layout(x: f32[**b], y: f32[**b]) -> ints, ints", layout, nullptr),
        TENON_CPP("refuse(x: f32[**b], bad: int, grain: int) -> f32[**b]", refuse, nullptr),
        TENON_CPP("say(x: f32[**b]) -> f32[**b]", say, nullptr),
        TENON_CPP("widen(x: f32[**b]) -> f32[**b]", widen, nullptr),
        TENON_CPP("total(x: f32[**b]) -> float", total, nullptr),
        TENON_CPP("total_of_rows(x: f32[**b, n]) -> float", total, nullptr),
        TENON_CPP("not_a_batch(x: f32[*b]) -> int", not_a_batch, nullptr),
        TENON_CPP("negate(x: T[**b]) -> T[**b] where T = f32|f64|i32", negate, nullptr))
"""


@pytest.fixture(scope="module")
def batches():
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-pthread"]
    return tenon.load(build_cpp(SOURCE, *flags, name="cpp_batches.so"))


def numbers(*shape):
    return numpy.arange(numpy.prod(shape, dtype=int), dtype=numpy.float32).reshape(shape) % 97


@pytest.mark.parametrize("shapes", [[(), (), ()], [(500,), (500,), (500,)], [(2, 3), (3,), (2, 1)], [(7, 300), (300,), ()]])
def test_items(batches, shapes):
    x, y, t = (numbers(*shape) for shape in shapes)
    result = batches.lerp(x, y, t)
    assert result.shape == numpy.broadcast_shapes(*shapes)
    numpy.testing.assert_array_equal(result, x + t * (y - x))


def test_runs(batches):
    x = numbers(4, 3, 5)
    numpy.testing.assert_allclose(batches.norm(x), numpy.linalg.norm(x, axis=-1))
    numpy.testing.assert_allclose(batches.norm(x.T), numpy.linalg.norm(x.T, axis=-1))


def test_views_without_a_copy(batches):
    assert batches.layout(numbers(4, 1), numbers(3)) == ([4, 3], [1, 0])


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_generic_lambdas(batches, dtype):
    x = numbers(5, 6).astype(dtype)
    result = batches.negate(x.T)
    assert result.dtype == x.dtype
    numpy.testing.assert_array_equal(result, -x.T)


def test_a_body_that_adds_up(batches):
    assert batches.total(numbers(40, 50)) == numbers(40, 50).sum(dtype=float)


@pytest.mark.parametrize("grain", [1, 7, 2**63 - 1])
def test_exceptions(batches, grain):
    x = numbers(97)
    for bad in (0, 96):
        with pytest.raises(IndexError, match=r"^refuse\(\): a bad item$"):
            batches.refuse(x, bad, grain)
    numpy.testing.assert_array_equal(batches.refuse(x, 97, grain), x)


def test_the_call_inside_of_a_body(batches):
    with pytest.raises(ValueError, match=r"^say\(\): said on any thread$"):
        batches.say(numbers(100))


def test_bodies_that_do_not_fit(batches):
    with pytest.raises(RuntimeError, match="a type of 8 bytes for tensor 1 of the batch, whose elements have 4"):
        batches.widen(numbers(3))
    with pytest.raises(RuntimeError, match=r"its code is elementwise, but tensor 0 of the batch has dimensions after '\*\*'"):
        batches.total_of_rows(numbers(3, 2))
    with pytest.raises(RuntimeError, match=r"its signature has no batch '\*\*b'"):
        batches.not_a_batch(numbers(3))


@pytest.mark.parametrize("body", ["[](float) {}", "[](void *) {}", "[] {}", "[](const float *) mutable {}"])
def test_bodies_that_do_not_compile(body):
    source = f"#include <tenon/function.hpp>\nvoid loop() {{ tenon::for_each(1, {body}); }}\n"
    with pytest.raises(tenon.CompileError, match="the body of for_each takes"):
        tenon.compile(source, language="c++")
