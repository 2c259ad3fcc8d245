"""The parameters of a generic lambda that are not `auto`: they are the same types as those of other functions."""

import sys

import pytest
from building import build_cpp, refused, tenon

numpy = pytest.importorskip("numpy")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]

SOURCE = r"""
    #include <memory>
    #include <optional>
    #include <string>
    #include <string_view>
    #include <tenon/stl.hpp>
    #include <vector>

    enum class mode { mean, sum };
    static int64_t alive;
    struct Tree {
        int64_t size;
        explicit Tree(int64_t n) : size(n) { alive++; }
        ~Tree() { alive--; }
        Tree(const Tree &) = delete;
    };
    struct tracked : std::vector<int64_t> { // a result whose life is counted
        tracked() { alive++; }
        ~tracked() { alive--; }
        tracked(const tracked &) = delete;
    };
    TENON_CPP_TYPE(Tree)
    using namespace tenon;

    #define T " where T = f32|f64"
    TENON_CPP_MODULE(g, nullptr, TENON_CPP_CLASS(Tree, ""),
        TENON_CPP("narrow(x: T[n], a: float) -> float" T,
            [](auto x, float a) { return static_cast<double>(a) * static_cast<double>(x.size()); }, ""),
        TENON_CPP("doubled(x: T[n], a: float) -> float" T, [](const auto &, auto a, double &z) { z = 2 * a; }, ""),
        TENON_CPP("halved(x: T[n], a: float) -> float" T, [](auto, auto a, float &z) { z = static_cast<float>(a / 2); }, ""),
        TENON_CPP("tripled(x: T[n], a: float) -> float" T, [](auto, auto a, auto &z) { z = 3 * a; }, ""),
        TENON_CPP("other(x: T[n], how: 'mean'|'sum') -> 'mean'|'sum'" T,
            [](auto, mode how, mode &z) { z = how == mode::sum ? mode::mean : mode::sum; }, ""),
        TENON_CPP("lists(x: T[n], i: ints, f: floats) -> float" T,
            [](auto, std::vector<int64_t> i, const std::vector<double> &f) { return static_cast<double>(i.at(1)) + f.at(0); }, ""),
        TENON_CPP("texts_(x: T[n], a: str, b: str, c: str, d: str) -> str" T,
            [](auto, const char *a, text b, std::string_view c, const std::string &d) {
                return std::string(a) + std::string(b) + std::string(c) + d;
            }, ""),
        TENON_CPP("maybe(x: T[n], a: float?, s: str?, y: f32[n]?) -> str" T,
            [](auto, std::optional<double> a, std::optional<std::string> s, std::optional<in<float, 1>> y) {
                return std::to_string(a.value_or(-1)) + s.value_or("none") + (y ? std::to_string((*y)(0)) : "none");
            }, ""),
        TENON_CPP("same(x: T[n] rw, y: f32[n] keep) -> T[n]" T,
            [](auto x, kept<float, 1> y, auto z) {
                x(0) += static_cast<typename decltype(z)::value_type>(y(0));
                z(0) = x(0);
            }, ""),
        TENON_CPP("addresses(x: T[n], y: f32[n]) -> a: int, b: int" T,
            [](in<void, any> x, in<float, 1> y, int64_t &a, auto &b) {
                a = reinterpret_cast<int64_t>(x.data());
                b = reinterpret_cast<int64_t>(y.data());
            }, ""),
        TENON_CPP("Tree(x: T[n])" T, [](auto x) { return std::make_unique<Tree>(x.size()); }, ""),
        TENON_CPP("Tree.join(self, x: T[n], t: handle('Tree'), u: handle('Tree')?) -> int" T,
            [](Tree &self, auto, const Tree &t, object<Tree> u) { return self.size + t.size + (u ? u->size : 0); }, ""),
        TENON_CPP("count(x: T[n], fails: bool) -> a: i64[?], b: handle('Tree')" T,
            [](auto x, bool fails, tracked &a, std::unique_ptr<Tree> &b) {
                a.assign(static_cast<size_t>(x.size()), 7);
                b = std::make_unique<Tree>(3);
                if (fails)
                    throw error(TENON_EINVAL, "too late");
            }, ""),
        TENON_CPP("alive() -> int", [] { return alive; }, ""))
"""


@pytest.fixture(scope="module", params=["plain", "checked"])
def g(request):
    options = ["-DTENON_CHECK_INDICES"] if request.param == "checked" else []
    return tenon.load(build_cpp(SOURCE, *WARNINGS, *options, name="g.so"))


@pytest.fixture(params=["f4", "f8"])
def x(request):
    return numpy.arange(1, 4, dtype=request.param)


def test_numbers(g, x):
    assert g.narrow(x, 0.1) == 3 * float(numpy.float32(0.1))
    assert (g.doubled(x, 0.5), g.halved(x, 0.5), g.tripled(x, 0.5)) == (1, 0.25, 1.5)
    assert (g.other(x, "mean"), g.other(x, "sum")) == ("sum", "mean")


def test_lists_and_strings(g, x):
    assert g.lists(x, [1, 2], (0.5, 1)) == 2.5
    assert g.texts_(x, "ä", "", "b\0c", "d") == "äb\0cd"


def test_optional_arguments(g, x):
    assert g.maybe(x) == "-1.000000nonenone"
    assert g.maybe(x, 2, "s", numpy.arange(3, dtype="f4")) == "2.000000s0.000000"
    assert g.maybe(x, 2, None, None) == "2.000000nonenone"


def test_arrays(g, x):
    y = numpy.full(3, 5, "f4")
    before = sys.getrefcount(y)
    assert g.same(x, y)[0] == x[0] == 6
    assert sys.getrefcount(y) == before
    assert g.addresses(x, y) == (x.ctypes.data, y.ctypes.data)


def test_objects(g, x):
    before = g.alive()
    tree = g.Tree(x)
    assert tree.join(x, tree) == 6 and tree.join(x, tree, tree) == 9
    assert g.alive() == before + 1
    del tree
    assert g.alive() == before


def test_results_of_other_types(g, x):
    """They live until the call ends, even if the function throws."""
    before = g.alive()
    a, b = g.count(x, False)
    assert list(a) == [7, 7, 7] and g.alive() == before + 1
    del b
    refused(g.count, ValueError, "count(): too late", x, True)
    assert g.alive() == before
