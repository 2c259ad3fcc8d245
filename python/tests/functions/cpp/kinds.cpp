// C++ functions for the tests: every kind of argument and result that hosts have, with types of the standard library.
#include <tenon/stl.hpp>

#include <array>
#include <complex>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

static int64_t made, released; // of `counted`

// A vector that counts.
struct counted : std::vector<float> {
    explicit counted(size_t n) : std::vector<float>(n)
    {
        made++;
    }
    counted(counted &&other) noexcept : std::vector<float>(std::move(other))
    {
        made++;
    }
    ~counted()
    {
        released++;
    }
};

static void saxpy(double a, tenon::in<float, 1> x, tenon::in<float, 1> y, tenon::out<float, 1> z)
{
    for (int64_t i = 0; i < x.size(); i++)
        z(i) = static_cast<float>(a) * x(i) + y(i);
}

static double dot(tenon::in<float, 1> x, tenon::in<float, 1> y)
{
    double sum = 0;
    for (int64_t i = 0; i < x.size(); i++)
        sum += static_cast<double>(x(i)) * static_cast<double>(y(i));
    return sum;
}

static void transpose(tenon::in<double, 2> x, tenon::out<double, 2> y)
{
    for (int64_t i = 0; i < x.size(0); i++)
        for (int64_t j = 0; j < x.size(1); j++)
            y(j, i) = x(i, j);
}

static void clear(tenon::rw<int32_t, tenon::any> x)
{
    if (x.ndim() == 1)
        for (int64_t i = 0; i < x.size(); i++)
            x(i) = 0;
    else
        throw std::domain_error("expected one dimension, got " + std::to_string(x.ndim()));
}

enum class how { sum, max };

static std::string describe(int64_t i, bool b, const std::string &s, std::string_view v, const char *c, how h,
                            std::vector<int64_t> list, tenon::in<double, 1> numbers, std::optional<double> o,
                            std::optional<std::string> t)
{
    double total = 0;
    for (int64_t k = 0; k < numbers.size(); k++)
        total += numbers(k);
    return std::to_string(i) + (b ? " yes " : " no ") + s + "/" + std::string(v) + "/" + c +
           (h == how::sum ? " sum " : " max ") + std::to_string(list.size()) + " " + std::to_string(total) + " " +
           (o ? std::to_string(*o) : "none") + " " + t.value_or("none");
}

static void several(tenon::in<float, 1> x, tenon::out<float, 1> doubled, double &sum, std::string &text,
                    std::vector<int64_t> &rows, bool &any)
{
    for (int64_t i = 0; i < x.size(); i++) {
        doubled(i) = 2 * x(i);
        sum += static_cast<double>(x(i));
        rows.push_back(i);
    }
    text = "of " + std::to_string(x.size());
    any = x.size() > 0;
}

static void fail(int64_t how)
{
    switch (how) {
    case 0:
        throw tenon::error(TENON_EDTYPE, "100%s of it");
    case 1:
        throw tenon::error(TENON_ESHAPE, "%d of %s", 3, "it");
    case 2:
        throw tenon::error(TENON_EBOUNDS, std::string("a std::string"));
    case 3:
        throw std::invalid_argument("invalid");
    case 4:
        throw std::out_of_range("out of range");
    case 5:
        throw std::overflow_error("overflow");
    case 6:
        throw std::bad_alloc();
    case 7:
        throw std::runtime_error("runtime");
    case 8:
        throw 8;
    case 9:
        throw std::length_error("length");
    default:
        tenon_fail(tenon::call(), TENON_EINVAL, "by tenon_fail");
    }
}

struct Table {
    static int64_t alive;
    tenon::kept<float, 2> rows;
    std::vector<float> sums;

    explicit Table(tenon::kept<float, 2> all) : rows(std::move(all))
    {
        if (rows.size(0) == 0)
            throw std::invalid_argument("a table has rows");
        for (int64_t i = 0; i < rows.size(0); i++) {
            sums.push_back(0);
            for (int64_t j = 0; j < rows.size(1); j++)
                sums.back() += rows(i, j);
        }
        alive++;
    }
    ~Table()
    {
        alive--;
    }
    double at(int64_t row, int64_t column) const
    {
        return static_cast<double>(rows(row, column));
    }
    void scale(double factor) noexcept
    {
        for (float &sum : sums)
            sum *= static_cast<float>(factor);
    }
};
int64_t Table::alive = 0;
TENON_CPP_TYPE(Table)

namespace elsewhere
{
struct thing {
    int64_t value;
};
} // namespace elsewhere
TENON_CPP_TYPE_AS(elsewhere::thing, "Thing")

static tenon_status in_c(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_arg_int(call, 0) + 1);
    if (tenon_arg_int(call, 0) < 0)
        throw std::out_of_range("below 0");
    return TENON_OK;
}

TENON_CPP_MODULE(
    kinds, "Every kind.",
    TENON_CPP(
        "counts() -> made: int, released: int, tables: int",
        [](int64_t &m, int64_t &r, int64_t &tables) { m = made, r = released, tables = Table::alive; }, "Counts."),
    // Tensors.
    TENON_CPP("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
    TENON_CPP("dot(x: f32[n], y: f32[n]) -> float", dot, "Returns the dot product."),
    TENON_CPP("transpose(x: f64[n, m]) -> f64[m, n]", transpose, "Swaps the dimensions."),
    TENON_CPP("clear(x: i32[*b] rw)", clear, "Writes zeros."),
    TENON_CPP(
        "sum(x: c128[n]) -> f64[2]",
        [](tenon::in<std::complex<double>, 1> x, tenon::out<double, 1> parts) {
            std::complex<double> total = 0;
            for (int64_t i = 0; i < x.size(); i++)
                total += x(i);
            parts(0) = total.real(), parts(1) = total.imag();
        },
        "Of complex numbers."),
    TENON_CPP(
        "scalar(x: f32[]) -> float", [](tenon::in<float, 0> x) { return x() + static_cast<float>(x.size()); },
        "Without dimensions."),
    TENON_CPP(
        "bytes_of(x: any[*b]) -> int",
        [](tenon::in<void, tenon::any> x) { return x.size() * x.view()->dtype.bits / 8; }, "Its size."),
    TENON_CPP(
        "first(x: f32[n]?, y: i64[n]?) -> float?",
        [](tenon::in<float, 1> x, std::optional<tenon::in<int64_t, 1>> y) -> std::optional<double> {
            if (y)
                return static_cast<double>((*y)(0));
            return x ? std::optional<double>(x(0)) : std::nullopt;
        },
        "An element of the first that is given."),
    TENON_CPP(
        "address(x: f32[n, m]) -> pointer: int, rows: int, columns: int",
        [](tenon::in<float, 2> x, int64_t &pointer, int64_t &rows, int64_t &columns) {
            pointer = reinterpret_cast<int64_t>(x.data()), rows = x.stride(0), columns = x.stride(1);
        },
        "Where it is."),
    // Values.
    TENON_CPP("describe(i: int, b: bool, s: str, v: str, c: str, h: 'sum'|'max', list: ints, numbers: floats[2], "
              "o: float?, t: str?) -> str",
              describe, "All of them."),
    TENON_CPP("several(x: f32[n]) -> doubled: f32[n], sum: float, text: str, rows: i64[?], any: bool", several, "All."),
    TENON_CPP(
        "how(h: 'sum'|'max') -> 'sum'|'max'", [](how h) { return h == how::sum ? how::max : how::sum; }, "Swaps."),
    TENON_CPP(
        "is_empty(s: str?) -> bool", [](tenon::text s) { return s == ""; }, "Not if it is None."),
    TENON_CPP(
        "half(x: float) -> int?",
        [](float x) -> std::optional<int32_t> {
            if (x < 0)
                return {};
            return static_cast<int32_t>(x / 2);
        },
        "Halves."),
    TENON_CPP(
        "large(n: int) -> int", [](int64_t n) { return static_cast<uint64_t>(n); }, "Returns n."),
    TENON_CPP(
        "small(n: int) -> uint", [](int64_t n) { return n; }, "Returns n."),
    // dtype variables.
    TENON_CPP(
        "scale(a: float, x: T[*b]) -> T[*b] where T = real",
        [](double a, auto x, auto z) {
            using T = typename decltype(z)::value_type;
            for (int64_t i = 0; i < x.size(); i++)
                z.data()[i] = static_cast<T>(a * static_cast<double>(x.data()[i]));
        },
        "Returns a*x."),
    TENON_CPP(
        "gather(x: T[n], rows: I[m], fill: float = 0) -> T[m] where T = f32|f64|c64, I = i32|i64",
        [](auto x, auto rows, auto fill, auto z) {
            for (int64_t i = 0; i < rows.size(); i++)
                if (rows(i) >= 0 && rows(i) < x.size())
                    z(i) = x(rows(i));
                else
                    z(i) = static_cast<typename decltype(z)::value_type>(static_cast<float>(fill));
        },
        "Returns x[rows]."),
    TENON_CPP(
        "optional_type(y: f32[n], x: T[n]?) -> float where T = f64|f32",
        [](auto y, auto x) { return static_cast<double>(y(0)) + (x ? static_cast<double>(x(0)) : sizeof(x)); },
        "An optional dtype variable."),
    // Memory of the library.
    TENON_CPP(
        "own(n: int) -> f32[?] own",
        [](int64_t n) {
            counted all(static_cast<size_t>(n));
            for (size_t i = 0; i < all.size(); i++)
                all[i] = static_cast<float>(i);
            return all;
        },
        "A moved vector."),
    TENON_CPP(
        "own_table(n: int, m: int) -> f32[?, ?] own",
        [](int64_t n, int64_t m) {
            return tenon::owned<float, 2>{counted(static_cast<size_t>(6)), {n, m}};
        },
        "Six elements."),
    TENON_CPP(
        "own_pointer(n: int) -> data: i32[?] own, address: int",
        [](int64_t n, tenon::out<int32_t, 1> data, int64_t &address) {
            auto memory = std::make_unique<int32_t[]>(static_cast<size_t>(n));
            address = reinterpret_cast<int64_t>(memory.get());
            data.own(tenon::owned<int32_t, 1>{std::move(memory), {n}});
        },
        "An array."),
    TENON_CPP(
        "own_and_fail(n: int) -> f32[?] own",
        [](int64_t n, tenon::out<float, 1> z) {
            z.own(tenon::owned<float, 1>(counted(static_cast<size_t>(n))));
            throw std::runtime_error("too late");
        },
        "Fails after it gave its memory."),
    TENON_CPP(
        "copied(n: int) -> f32[?]", [](int64_t n) { return counted(static_cast<size_t>(n)); }, "A copy."),
    TENON_CPP(
        "tail(x: f32[n], k: int) -> f32[?] of(x)",
        [](tenon::in<float, 1> x, int64_t k) { return tenon::in<float, 1>(x.data() + k, {x.size() - k}); },
        "Without the first."),
    // Objects.
    TENON_CPP_CLASS(Table, "A table of numbers."), TENON_CPP_CLASS(elsewhere::thing, "Another class."),
    TENON_CPP(
        "Table(rows: f32[n, m] c keep)",
        [](tenon::kept<float, 2> rows) { return std::make_unique<Table>(std::move(rows)); }, "Keeps the rows."),
    TENON_CPP(
        "Table.rows(self) -> f32[?, ?] of(self)", [](const Table &self) -> tenon::in<float, 2> { return self.rows; },
        "Shows the rows."),
    TENON_CPP(
        "Table.sums(self) -> f32[?] of(self) rw",
        [](Table &self) { return tenon::in<float, 1>(self.sums.data(), {static_cast<int64_t>(self.sums.size())}); },
        "Shows the sums."),
    TENON_CPP("Table.at(self, row: int, column: int) -> float", &Table::at, "An element."),
    TENON_CPP("Table.scale(self, factor: float)", &Table::scale, "Scales the sums."),
    TENON_CPP(
        "Table.__len__(self) -> int", [](Table &self) { return self.sums.size(); }, "Its rows."),
    TENON_CPP(
        "Table.__getitem__(self, i: int) -> float",
        [](Table &self, int64_t i) { return self.sums.at(static_cast<size_t>(i)); }, "A sum."),
    TENON_CPP(
        "Table.add(self, x: T[m], other: handle('Table')?) -> T[m] where T = f32|f64",
        [](Table &self, auto x, tenon::object<Table> other, auto z) {
            for (int64_t i = 0; i < x.size(); i++)
                z(i) = x(i) + self.rows(0, i) + (other ? other->rows(0, i) : 0);
        },
        "Adds the first row."),
    TENON_CPP(
        "same(a: handle('Table'), b: handle('Table')?) -> bool", [](Table *a, Table *b) { return a == b; },
        "Whether they are one."),
    TENON_CPP(
        "thing(value: int) -> handle('Thing')?",
        [](int64_t value) { return value < 0 ? nullptr : new elsewhere::thing{value}; }, "Makes one."),
    TENON_CPP(
        "Thing.value(self) -> int", [](elsewhere::thing &self) { return self.value; }, "Its value."),
    // Failures and services.
    TENON_CPP("fail(how: int)", fail, "Throws."),
    TENON_CPP(
        "outside(x: f32[n], i: int, rows: f64[2, 3]) -> z: f32[n]",
        [](tenon::in<float, 1> x, int64_t i, tenon::in<double, 2> rows, tenon::out<float, 1> z) {
            if (i < 100)
                z(0) = x(i);
            else if (i < 200)
                z(0) = static_cast<float>(rows(1, i - 100));
            else
                z(i) = 0;
        },
        "Uses an index."),
    TENON_CPP(
        "parallel(x: f64[n] rw, bad: int = -1)",
        [](tenon::rw<double, 1> x, int64_t bad) {
            tenon::parallel_for(x.size(), 2, [&](int64_t i) {
                if (i == bad)
                    throw std::out_of_range("a bad index");
                x(i) += 1;
            });
        },
        "Adds 1."),
    TENON_CPP(
        "scratch(n: int) -> int",
        [](int64_t n) {
            char *memory = static_cast<char *>(tenon_scratch(tenon::call(), static_cast<size_t>(n)));
            return memory ? reinterpret_cast<int64_t>(memory) % 64 : -1;
        },
        "The alignment of scratch memory."),
    TENON_CPP_SHAPED(
        "repeat(x: f32[n], times: int) -> f32[?]",
        [](tenon::in<float, 1> x, int64_t times, tenon::out<float, 1> y) {
            for (int64_t i = 0; i < y.size(); i++)
                y(i) = x(i / times);
        },
        [](tenon::in<float, 1> x, int64_t times, tenon::out<float, 1> y) {
            if (times < 0)
                throw std::invalid_argument("times is negative");
            y.alloc(x.size() * times);
        },
        "Repeats each element.", TENON_NO_GRAD_CHECK),
    TENON_FUNCTION("in_c(n: int) -> int", in_c, "A function in the way of C."))
