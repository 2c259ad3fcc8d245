// C++ functions for the tests: objects by value and in shared pointers, tuples, members of classes, and the kinds that are
// neither tensors nor plain numbers.
#include <tenon/stl.hpp>

#include <complex>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

static int64_t alive; // of `point` and `node`

struct point {
    double x, y;

    point(double a, double b) : x(a), y(b)
    {
        alive++;
    }
    point(const point &other) : x(other.x), y(other.y)
    {
        alive++;
    }
    ~point()
    {
        alive--;
    }
    point &operator=(const point &) = default;
    double norm() const
    {
        return x * x + y * y;
    }
};

struct node {
    int64_t value;
    std::shared_ptr<node> next;

    node(int64_t v, std::shared_ptr<node> n) : value(v), next(std::move(n))
    {
        alive++;
    }
    node(const node &other) : value(other.value), next(other.next)
    {
        alive++;
    }
    ~node()
    {
        alive--;
    }
};

struct walk {
    std::shared_ptr<const node> at;
};

TENON_CPP_TYPE_AS(point, "Point")
TENON_CPP_TYPE_SHARED_AS(node, "Node")
TENON_CPP_TYPE_AS(walk, "Walk")

// ------------------------------------------------------------------------------------------------------------ objects

static point middle(point a, const point &b)
{
    a.x = (a.x + b.x) / 2;
    a.y = (a.y + b.y) / 2;
    return a;
}

static std::optional<point> positive(const point &p)
{
    return p.x > 0 && p.y > 0 ? std::optional<point>(p) : std::nullopt;
}

static std::shared_ptr<node> push(std::shared_ptr<node> list, int value)
{
    return std::make_shared<node>(value, std::move(list));
}

static int64_t next(walk &w)
{
    if (!w.at)
        throw std::out_of_range("the end");
    int64_t value = w.at->value;
    w.at = w.at->next;
    return value;
}

// ------------------------------------------------------------------------------------------------------------- tuples

static std::pair<double, std::string> named(double x)
{
    return {x * 2, "twice"};
}

static std::tuple<int, bool, std::vector<float>> several(size_t n)
{
    return {static_cast<int>(n), n > 2, std::vector<float>(n, 1.5f)};
}

static std::tuple<int64_t, point> mixed(tenon::in<float, 1> x, tenon::out<float, 1> y)
{
    for (int64_t i = 0; i < x.size(); i++)
        y(i) = 2 * x(i);
    return {x.size(), point(1, 2)};
}

static void assigned(int64_t n, tenon::owned<float, 2> &rows, tenon::owned<float, 1> &none)
{
    rows = tenon::owned<float, 2>{std::vector<float>(1), {1, 1}};
    rows = tenon::owned<float, 2>{std::vector<float>(static_cast<size_t>(2 * n), 3), {n, 2}};
    tenon::owned<float, 1> empty;
    none = std::move(empty);
}

// -------------------------------------------------------------------------------------------------------------- kinds

enum class order { one = 1, two = 2, four = 4 };

static std::vector<unsigned char> reversed(tenon::bytes data)
{
    return std::vector<unsigned char>(std::make_reverse_iterator(data.end()), std::make_reverse_iterator(data.begin()));
}

static std::vector<std::string> split(std::string_view text, std::string_view by)
{
    std::vector<std::string> parts;
    for (size_t from = 0; from <= text.size();) {
        size_t end = std::min(text.find(by, from), text.size());
        parts.emplace_back(text.substr(from, end - from));
        from = end + by.size();
    }
    return parts;
}

static std::string join(tenon::texts parts)
{
    std::string all;
    for (size_t i = 0; i < parts.size(); i++)
        all.append(parts[i].data(), parts[i].size()).append(";");
    return all;
}

TENON_CPP_MODULE(
    objects, "Objects by value and in shared pointers.", TENON_CONSTANT("LIMIT = 100", "The most."),
    TENON_CPP_CLASS(point, "A point."), TENON_CONSTANT("Point.DIM = 2", NULL),
    TENON_CPP(
        "Point(x: float, y: float)", [](double x, double y) { return point(x, y); }, nullptr),
    TENON_CPP(
        "Point.origin() -> handle('Point')", [] { return point(0, 0); }, nullptr),
    TENON_CPP(
        "Point.x: float", [](const point &p) { return p.x; }, nullptr),
    TENON_CPP(
        "Point.y: float", [](const point &p) { return p.y; }, nullptr),
    TENON_CPP("Point.norm: float", &point::norm, nullptr),
    TENON_CPP(
        "Point.__eq__(self, other: handle('Point')) -> bool",
        [](const point &a, const point &b) { return a.x == b.x && a.y == b.y; }, nullptr),
    TENON_CPP(
        "Point.__hash__(self) -> int", [](const point &p) { return static_cast<int>(p.x); }, nullptr),
    TENON_CPP(
        "Point.__call__(self, t: float) -> handle('Point')",
        [](const point &p, double t) { return point(t * p.x, t * p.y); }, nullptr),
    TENON_CPP(
        "Point.__setitem__(self, i: int, value: float)",
        [](point &p, size_t i, double value) { i == 0 ? p.x = value : p.y = value; }, nullptr),
    TENON_CPP(
        "Point.__contains__(self, x: float) -> bool", [](point &p, double x) { return p.x == x || p.y == x; }, nullptr),
    TENON_CPP(
        "Point.__getstate__(self) -> bytes",
        [](const point &p) {
            double all[] = {p.x, p.y};
            return std::string(reinterpret_cast<const char *>(all), sizeof all);
        },
        nullptr),
    TENON_CPP(
        "Point.load(state: bytes) -> handle('Point')",
        [](tenon::bytes state) {
            double all[2];
            if (state.size() != sizeof all)
                throw tenon::error(TENON_EINVAL, "the state is damaged");
            memcpy(all, state.data(), sizeof all);
            return point(all[0], all[1]);
        },
        nullptr),
    TENON_CPP("middle(a: handle('Point'), b: handle('Point')) -> handle('Point')", middle, nullptr),
    TENON_CPP("positive(p: handle('Point')) -> handle('Point')?", positive, nullptr),
    TENON_CPP(
        "scaled(x: T[n], p: handle('Point')) -> handle('Point') where T = f32|f64",
        [](auto x, point p) { return point(static_cast<double>(x(0)) * p.x, static_cast<double>(x(0)) * p.y); },
        nullptr),
    TENON_CPP_CLASS(node, "A node of a list."),
    TENON_CPP(
        "Node(value: int)", [](int64_t value) { return std::make_shared<node>(value, nullptr); }, nullptr),
    TENON_CPP(
        "Node.value: int", [](node &n) { return n.value; }, nullptr),
    TENON_CPP(
        "Node.uses: int", [](const std::shared_ptr<node> &n) { return n.use_count(); }, nullptr),
    TENON_CPP(
        "Node.next: handle('Node')?", [](const node &n) { return n.next; }, nullptr),
    TENON_CPP(
        "Node.__iter__(self) -> handle('Walk')", [](std::shared_ptr<const node> n) { return walk{n}; }, nullptr),
    TENON_CPP("push(list: handle('Node')?, value: int = 0) -> handle('Node')", push, nullptr),
    TENON_CPP(
        "raw(value: int) -> handle('Node')", [](int64_t value) { return new node(value, nullptr); }, nullptr),
    TENON_CPP(
        "unique(value: int) -> handle('Node')", [](int64_t value) { return std::make_unique<node>(value, nullptr); },
        nullptr),
    TENON_CPP(
        "copy(n: handle('Node')) -> handle('Node')", [](const node &n) { return n; }, nullptr),
    TENON_CPP(
        "null() -> handle('Node')", [] { return std::shared_ptr<node>(); }, nullptr),
    TENON_CPP(
        "shared(x: T[n], n: handle('Node')) -> int where T = f32|f64",
        [](auto, std::shared_ptr<node> n) { return n.use_count(); }, nullptr),
    TENON_CPP_CLASS(walk, "Walks along nodes."), TENON_CPP("Walk.__next__(self) -> int", next, nullptr),
    TENON_CPP(
        "alive() -> int", [] { return alive; }, nullptr),
    TENON_CPP("named(x: float) -> value: float, text: str", named, nullptr),
    TENON_CPP("several(n: int) -> int, bool, f32[?] own", several, nullptr),
    TENON_CPP("mixed(x: f32[n]) -> n: int, y: f32[n], p: handle('Point')", mixed, nullptr),
    TENON_CPP(
        "total(x: T[n]) -> int, float where T = f32|f64",
        [](auto x) { return std::pair<int, double>(static_cast<int>(x.size()), static_cast<double>(x(0))); }, nullptr),
    TENON_CPP("assigned(n: int) -> f32[?, 2] own, f32[?]? own", assigned, nullptr),
    TENON_CPP(
        "i8(k: int) -> int", [](int8_t k) { return k; }, nullptr),
    TENON_CPP(
        "i32(k: int = 7) -> int", [](int k) { return k; }, nullptr),
    TENON_CPP(
        "u32(k: int) -> int", [](uint32_t k) { return k; }, nullptr),
    TENON_CPP(
        "size(k: int) -> int", [](size_t k) { return k; }, nullptr),
    TENON_CPP(
        "maybe(k: int?) -> int", [](std::optional<short> k) { return k.value_or(-1); }, nullptr),
    TENON_CPP(
        "narrow(x: T[n], k: int) -> int where T = f32|f64", [](auto, int k) { return k; }, nullptr),
    TENON_CPP(
        "uint(k: uint) -> uint", [](uint64_t k) { return k; }, nullptr),
    TENON_CPP(
        "u16(k: uint) -> uint", [](uint16_t k) { return k; }, nullptr),
    TENON_CPP(
        "conjugate(z: complex) -> complex", [](std::complex<double> z) { return std::conj(z); }, nullptr),
    TENON_CPP(
        "swap(z: complex) -> complex",
        [](tenon::complex<double> z) { return tenon::complex<double>(z.imag(), z.real()); }, nullptr),
    TENON_CPP(
        "bits(t: dtype) -> int", [](tenon_dtype t) { return t.bits; }, nullptr),
    TENON_CPP(
        "choice(k: 1|2|4 = 2) -> int", [](order k) { return static_cast<int>(k); }, nullptr),
    TENON_CPP(
        "chosen(k: 1|2|4) -> int", [](int8_t k) { return k; }, nullptr),
    TENON_CPP("reversed(data: bytes) -> bytes", reversed, nullptr),
    TENON_CPP(
        "view(data: bytes?) -> int", [](std::optional<std::string_view> data) { return data ? data->size() : 77; },
        nullptr),
    TENON_CPP("split(text: str, by: str = ',') -> strs", split, nullptr),
    TENON_CPP("join(parts: strs) -> str", join, nullptr),
    TENON_CPP(
        "apply(f: callable('(x: f64[n], i: int, s: str, b: bool) -> float'), x: f64[n]) -> float",
        [](tenon::callback<double(tenon::in<double, 1>, int, std::string_view, bool)> f, tenon::in<double, 1> x) {
            return f(x, 3, "text", true) + f(x, -1, "", false);
        },
        nullptr),
    TENON_CPP(
        "fill(f: callable('(y: f32[n] rw)'), n: int) -> f32[n]",
        [](const tenon::callback<void(tenon::out<float, 1>)> &f, int, tenon::out<float, 1> y) { f(y); }, nullptr),
    TENON_CPP(
        "ask(f: callable('() -> int, str')? = None) -> str",
        [](tenon::callback<std::pair<int8_t, std::string>()> f) {
            return f ? f().second + std::to_string(f().first) : "nothing";
        },
        nullptr),
    TENON_CPP(
        "each(x: T[n], f: callable('(x: float) -> float')) -> T[n] where T = f32|f64",
        [](auto x, tenon::callback<double(double)> f, auto y) {
            using element = typename decltype(y)::value_type;
            for (int64_t i = 0; i < x.size(); i++)
                y(i) = static_cast<element>(f(static_cast<double>(x(i))));
        },
        nullptr),
    TENON_CPP(
        "ints(n: int) -> ints", [](int n) { return std::vector<int64_t>(static_cast<size_t>(n), 5); }, nullptr),
    TENON_CPP(
        "floats(n: int) -> floats", [](int n) { return std::vector<double>(static_cast<size_t>(n), 0.5); }, nullptr))
