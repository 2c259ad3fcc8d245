// Every kind of parameter and result in C++; without exceptions, and
// without the standard library. test_cpp.cpp calls these functions with a host of its own.
#include <tenon/function.hpp>

// What the standard library has, as far as these functions need it.
template <class T> struct view_like {
    const T *start;
    size_t count;

    view_like(const T *data, size_t size) : start(data), count(size)
    {
    }
    const T *data() const
    {
        return start;
    }
    size_t size() const
    {
        return count;
    }
};

template <class T, size_t Size> struct vector_like {
    T items[Size] = {};
    size_t count = 0;

    T *data()
    {
        return items;
    }
    const T *data() const
    {
        return items;
    }
    size_t size() const
    {
        return count;
    }
};

template <class T> struct optional_like {
    using value_type = T;
    bool given = false;
    T item{};

    optional_like()
    {
    }
    optional_like(T value) : given(true), item(value)
    {
    }
    bool has_value() const
    {
        return given;
    }
    const T &operator*() const
    {
        return item;
    }
    T &operator*()
    {
        return item;
    }
};

struct complex_like {
    double parts[2];

    complex_like(double real, double imaginary) : parts{real, imaginary}
    {
    }
    double real() const
    {
        return parts[0];
    }
    double imag() const
    {
        return parts[1];
    }
};

enum class mode { mean, max };

struct counter {
    static int alive;
    int64_t value;
    tenon::kept<float, 1> memory;

    explicit counter(int64_t v) : value(v)
    {
        alive++;
    }
    ~counter()
    {
        alive--;
    }
};
int counter::alive = 0;

namespace nested
{
struct other {
    int64_t value;
};
} // namespace nested

template <class T> struct pointer_like { // a smart pointer
    T *pointer;

    T *release()
    {
        return pointer;
    }
};

TENON_CPP_TYPE(counter)
TENON_CPP_TYPE_AS(nested::other, "Other")

static float add(int64_t i, tenon::in<float, 1> x)
{
    return x ? x(i) : 0;
}

static uint64_t use_uint(uint64_t value)
{
    return value + 1;
}

static tenon::complex<double> use_complex(complex_like z, tenon::complex<double> w)
{
    return tenon::complex<double>(z.real() + w.real(), z.imag() - w.imag());
}

static view_like<unsigned char> use_bytes(tenon::bytes all, view_like<unsigned char> same)
{
    return view_like<unsigned char>(same.data(), all.size() - 1);
}

static int64_t use_texts(tenon::texts names)
{
    int64_t total = 0;
    for (size_t i = 0; i < names.size(); i++)
        total += names[i] == "ab" ? 100 : static_cast<int64_t>(names[i].size());
    return total;
}

static int64_t use_dtype(tenon_dtype dtype)
{
    return dtype.bits;
}

static double use_list(tenon::list<float, 1> items)
{
    double total = 0;
    for (int64_t k = 0; k < items.size(); k++)
        for (int64_t i = 0; i < items[k].size(); i++)
            total += static_cast<double>(items[k](i));
    return total;
}

static vector_like<int64_t, 4> return_ints(tenon::in<int64_t, 1> x, view_like<double> y)
{
    vector_like<int64_t, 4> all;
    for (int64_t i = 0; i < x.size(); i++)
        all.items[all.count++] = x(i) + static_cast<int64_t>(y.data()[i]);
    return all;
}

static vector_like<tenon::text, 2> return_texts(const char *text)
{
    vector_like<tenon::text, 2> all;
    all.items[0] = tenon::text(text, 1);
    all.items[1] = tenon::text(text, strlen(text));
    all.count = 2;
    return all;
}

static void use_many(double a, tenon::text b, bool c, mode d, optional_like<double> e, tenon::optional<int64_t> f,
                     double &sum, int64_t &length, bool &flag, int &choice)
{
    sum = a + (e.has_value() ? *e : 0) + static_cast<double>(f.value_or(7));
    length = static_cast<int64_t>(b.size());
    flag = !c;
    choice = static_cast<int>(d);
}

static void fill_rows(tenon::out<float, 2> rows, int64_t &count)
{
    rows.alloc(2, 3);
    for (int64_t i = 0; i < rows.size(0); i++)
        for (int64_t j = 0; j < rows.size(1); j++)
            rows(i, j) = static_cast<float>(10 * i + j);
    count = rows.size();
}

static void square_in_parallel(tenon::rw<double, 1> x)
{
    tenon::parallel_for(x.size(), 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            x(i) *= x(i);
    });
    tenon::parallel_for(x.size(), 1, [&](int64_t i) { x(i) += 1; });
}

static void add_batches(tenon::in<double, tenon::any>, tenon::in<double, tenon::any>, tenon::out<double, tenon::any>)
{
    tenon::for_each(64, [](const double *x, const double *y, double *z) { *z = *x + *y; });
    tenon::for_each(INT64_MAX, [](void *const *data, const int64_t *steps, int64_t count) {
        for (int64_t i = 0; i < count; i++)
            static_cast<double *>(data[2])[i * steps[2]] += 1;
    });
}

static counter *make_counter(int64_t start, tenon::kept<float, 1> memory)
{
    counter *made = new counter(start);
    made->memory = static_cast<tenon::kept<float, 1> &&>(memory);
    return made;
}

static int64_t sum_counters(const counter &self, tenon::object<counter> other, nested::other *third)
{
    return self.value + (other ? other->value : 0) + (third ? third->value : 0);
}

TENON_CPP_MODULE(
    use_cpp, "Every kind.", TENON_CPP("add(i: int, x: f32[n]?) -> float", add, "An element."),
    TENON_CPP("use_uint(value: uint) -> uint", use_uint, "A number and one."),
    TENON_CPP("use_complex(z: complex, w: complex) -> complex", use_complex, "A sum."),
    TENON_CPP("use_bytes(all: bytes, same: bytes) -> bytes", use_bytes, "All but one."),
    TENON_CPP("use_texts(names: strs) -> int", use_texts, "Lengths."),
    TENON_CPP("use_dtype(dtype: dtype) -> int", use_dtype, "Bits."),
    TENON_CPP("use_list(items: [f32[_]]) -> float", use_list, "A sum."),
    TENON_CPP("return_ints(x: ints, y: floats) -> ints", return_ints, "Sums."),
    TENON_CPP("return_texts(text: str) -> strs", return_texts, "The first character, and all."),
    TENON_CPP_FLAGS("use_many(a: float, b: str, c: bool, d: 'mean'|'max', e: float?, f: int?) -> "
                    "sum: float, length: int, flag: bool, choice: 'mean'|'max'",
                    use_many, "Numbers.", TENON_KEEP_LOCK),
    TENON_CPP("fill_rows() -> rows: f32[?, ?], count: int", fill_rows, "A table."),
    TENON_CPP("square_in_parallel(x: f64[n] rw)", square_in_parallel, "Squares."),
    TENON_CPP("add_batches(x: f64[**b], y: f64[**b]) -> f64[**b]", add_batches, "Adds."),
    TENON_CPP_CLASS(counter, "A number."), TENON_CPP_CLASS_FLAGS(nested::other, "Another.", TENON_CLASS_CONCURRENT),
    TENON_CPP("counter(start: int, memory: f32[n] keep)", make_counter, "Starts."),
    TENON_CPP("counter.sum(self, other: handle('counter')?, third: handle('Other')?) -> int", sum_counters, "A sum."),
    TENON_CPP(
        "make(value: int) -> handle('Other')",
        [](int64_t value) { return pointer_like<nested::other>{new nested::other{value}}; }, "An object."),
    TENON_CPP(
        "scale(a: float, x: T[n], y: U[n]) -> T[n] where T = f32|f64, U = i32|i64",
        [](double a, auto x, auto y, auto z) {
            using T = typename decltype(z)::value_type;
            for (int64_t i = 0, n = x.size(); i < n; i++)
                z(i) = static_cast<T>(a * static_cast<double>(x(i)) + static_cast<double>(y(i)));
        },
        "Returns a*x + y."),
    TENON_CPP(
        "first(x: any[*b]) -> int", [](tenon::in<void, tenon::any> x) { return x.ndim(); }, "Dimensions."),
    TENON_CPP_SHAPED(
        "repeat(x: f32[n], times: int) -> f32[?]",
        [](tenon::in<float, 1> x, int64_t times, tenon::out<float, 1> y) {
            for (int64_t i = 0; i < y.size(); i++)
                y(i) = x(i / times);
        },
        [](tenon::in<float, 1> x, int64_t times, tenon::out<float, 1> y) { y.alloc(x.size() * times); }, "Repeats.", 0))
