"""Lists of tensors in C++: list, rw_list and out_list."""

import pytest
from building import build_cpp, refused, tenon

numpy = pytest.importorskip("numpy")

SOURCE = r"""
    #include <tenon/stl.hpp>

    static double total(tenon::list<float, 1> xs)
    {
        double sum = 0;
        for (auto x : xs)
            for (int64_t i = 0; i < x.size(); i++)
                sum += static_cast<double>(x(i));
        return sum;
    }

    static void scale(double a, tenon::rw_list<float, tenon::any> xs)
    {
        for (int64_t i = 0; i < xs.size(); i++)
            for (int64_t k = 0; k < xs[i].size(); k++)
                xs[i].data()[k] *= static_cast<float>(a);
    }

    static void halves(tenon::list<float, 1> xs, tenon::out_list<double, 1> ys)
    {
        for (int64_t i = 0; i < xs.size(); i++)
            for (int64_t k = 0; k < xs[i].size(); k++)
                ys[i](k) = static_cast<double>(xs[i](k)) / 2;
    }

    static void split(tenon::in<float, 1> x, tenon::out_list<float, 1> ones)
    {
        for (int64_t i = 0; i < x.size(); i++)
            ones.push({1})(0) = x(i);
    }

    TENON_CPP_MODULE(lists, nullptr,
        TENON_CPP("total(xs: [f32[n]]) -> float", total, "The sum."),
        TENON_CPP("scale(a: float, xs: [f32[*_] rw c])", scale, "In place."),
        TENON_CPP("halves(xs: [f32[_] c]) -> [f64[_]] for xs", halves, "Of each."),
        TENON_CPP("split(x: f32[n]) -> [f32[?]]", split, "One by one."),
        TENON_CPP("wrong(x: f32[n]) -> [f32[n]]", [](tenon::in<float, 1>, tenon::out_list<float, 1> ys) { ys.push({1}); },
                  "Fails."),
        TENON_CPP("count(xs: [f32[n]]?) -> int",
                  [](tenon::list<float, 1> xs) { return xs ? xs.size() : int64_t{-1}; }, "How many."),
        TENON_CPP("at(xs: [f32[n]], i: int) -> float",
                  [](tenon::list<float, 1> xs, int64_t i) { return static_cast<double>(xs[i](0)); }, "One."),
        TENON_CPP("doubled(xs: [T[_] c]) -> [T[_]] for xs where T = f32|f64",
                  [](auto xs, auto ys) {
                      for (int64_t i = 0; i < xs.size(); i++)
                          for (int64_t k = 0; k < xs[i].size(); k++)
                              ys[i](k) = 2 * xs[i](k);
                  }, "Twice."))
"""
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


@pytest.fixture(scope="module", params=[[], ["-DTENON_CHECK_INDICES"]], ids=["plain", "checked"])
def lists(request):
    return tenon.load(build_cpp(SOURCE, *WARNINGS, *request.param, name=f"cpp_lists{len(request.param)}.so"))


def ones(n):
    return numpy.ones(n, "f4")


def test_arguments(lists):
    assert lists.total([ones(3), ones(6)[::2]]) == 6
    assert lists.total(()) == 0
    assert lists.count() == lists.count(None) == -1
    assert lists.count([]) == 0 and lists.count([ones(2)] * 3) == 3
    xs = [ones(2), numpy.ones((2, 2), "f4")]
    lists.scale(3, xs)
    assert xs[0].tolist() == [3, 3] and xs[1].tolist() == [[3, 3], [3, 3]]


def test_results(lists):
    assert [y.tolist() for y in lists.halves([ones(2), ones(1)])] == [[0.5, 0.5], [0.5]]
    assert [y.tolist() for y in lists.split(numpy.arange(3, dtype="f4"))] == [[0], [1], [2]]
    assert lists.halves([]) == [] and lists.split(ones(0)) == []
    refused(lists.wrong, RuntimeError, "wrong(): result 0: expected f32[n], but the function asked for shape [1]", ones(2))


def test_generic_lambdas(lists):
    for dtype in ("f4", "f8"):
        (result,) = lists.doubled([numpy.ones(2, dtype)])
        assert result.dtype == dtype and result.tolist() == [2, 2]


def test_indices_are_checked(lists):
    if "1" in lists.__file__.rsplit("/", 1)[-1]:
        refused(lists.at, IndexError, "at(): a list of 1 tensors has no item 1", [ones(1)], 1)
    assert lists.at([ones(1)], 0) == 1
