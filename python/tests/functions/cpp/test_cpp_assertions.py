"""A C++ function that does not fit its signature does not compile, and the compiler says what is wrong."""

import pathlib
import re
import string
import subprocess

import pytest
from building import ROOT
from programs import runs

COMPILERS = [
    pytest.param(name, marks=[pytest.mark.slow] if name == "clang++" else [])
    for name in ("g++", "clang++")
    if runs(name)
]
pytestmark = pytest.mark.skipif(not COMPILERS, reason="there is neither g++ nor clang++")

PARSE = "the signature does not parse"
COUNT = "another number of parameters"
KIND = "of another kind"
DTYPE = "another dtype"
RANK = "another number of dimensions"
UNALIGNED = "is 'unaligned': take an array of void"
FUNCTION = "TENON_CPP takes a function"
HOLDER = "needs TENON_CPP_TYPE_SHARED(Type)"
DELETER = "the deleter of the smart pointer has state"

START = """#include <tenon/function.hpp>

struct Tree { int64_t size; void move() &&; };
struct Base { int64_t count() const; };
struct Other : Base { int64_t size; };
template <class Class> struct shared { // std::shared_ptr
    using element_type = Class;
    Class *get() const;
    long use_count() const;
};
TENON_CPP_TYPE(Tree)
TENON_CPP_TYPE(Other)
enum class mode { mean, sum };
template <class Deleter> struct pointer { // std::unique_ptr, without the time of <memory>
    using deleter_type = Deleter;
    Tree *release();
};
struct Pool {
    void *memory;
    void operator()(Tree *) const;
};
struct Free {
    void operator()(Tree *) const;
};
struct constant {
    double factor;
    double operator()(double x) const { return factor * x; }
};
using namespace tenon;
"""

# Only what a case needs is included: the headers of the standard library take longer than the rest.
HEADERS = {
    "std::complex": "complex",
    "std::make_unique": "memory",
    "std::optional": "optional",
    "std::string": "string",
    "std::tuple": "tuple",
    "std::vector": "vector",
}

WRONG = [
    (PARSE, "f(", "[] {}"),
    (PARSE, "f(x: f23[n])", "[](in<float, 1>) {}"),
    (PARSE, "f(x: f32[n]) -> f32[m]", "[](in<float, 1>, out<float, 1>) {}"),
    (PARSE, "f(x: T[n])", "[](in<float, 1>) {}"),
    (PARSE, "lambda(x: f32[n])", "[](in<float, 1>) {}"),
    (PARSE, "f(x: f32[n, **b])", "[](in<float, any>) {}"),
    (PARSE, "f(x: f32[**b] c)", "[](in<float, any>) {}"),
    (PARSE, "f(a: callable('x: int'))", "[](callback<void(int)>) {}"),
    (PARSE, "f(a: callable('(x: bytes)'))", "[](callback<void(int)>) {}"),
    (PARSE, "Tree.get(self: int)", "[](Tree &, int64_t) {}"),
    (PARSE, "Tree.__len__: int", "[](Tree &) { return int64_t(1); }"),
    (PARSE, "Tree.__hash__() -> int", "[] { return int64_t(1); }"),
    (PARSE, "", "[] {}"),
    (COUNT, "f()", "[](double) {}"),
    (COUNT, "f(a: float)", "[] {}"),
    (COUNT, "f(x: f32[n]) -> f32[n]", "[](in<float, 1>) {}"),
    (COUNT, "f(x: f32[n])", "[](in<float, 1>, out<float, 1>) {}"),
    (COUNT, "f(x: f32[n]) -> f32[n], f32[n]", "[](in<float, 1>, out<float, 1>) {}"),
    (COUNT, "Tree.get(self, i: int) -> int", "[](int64_t i) { return i; }"),
    (COUNT, "Tree.get(x: int)", "[](Tree &, int64_t) {}"),
    (COUNT, "f(x: T[n]) -> T[n] where T = f32|f64", "[](auto) {}"),
    (FUNCTION, "f(a: float) -> float", "[](double a) mutable { return a; }"),
    (FUNCTION, "Tree.size(self) -> int", "&Tree::size"),
    (FUNCTION, "Tree.move(self)", "&Tree::move"),
    (FUNCTION, "f(a: float)", "1"),
    (FUNCTION, "f(a: float)", "nullptr"),
    (KIND, "f(a: int)", "[](double) {}"),
    (KIND, "f(a: uint)", "[](int64_t) {}"),
    (KIND, "f(a: int)", "[](bool) {}"),
    (KIND, "f(a: int)", "[](char) {}"),
    (KIND, "f(a: int)", "[](mode) {}"),
    (KIND, "f(a: uint)", "[](int) {}"),
    (KIND, "f(a: 1|2)", "[](std::string) {}"),
    (HOLDER, "f(a: handle('Tree'))", "[](shared<Tree>) {}"),
    (HOLDER, "f() -> handle('Tree')", "[]() -> shared<Tree> { return {}; }"),
    (KIND, "f(a: handle('Tree')?)", "[](Tree) {}"),
    (KIND, "f(a: handle('Tree'))", "[](Other) {}"),
    (KIND, "f() -> int, float", "[] { return std::pair<std::string, double>(); }"),
    (COUNT, "f() -> int, float", "[] { return std::tuple<int, double, int>(); }"),
    (COUNT, "f() -> int, float", "[] { return 1; }"),
    (KIND, "f() -> handle('Tree')", "[] { return Other(); }"),
    (KIND, "f(a: callable('(x: int)'))", "[](callback<void(double)>) {}"),
    (KIND, "f(a: callable('(x: int)'))", "[](callback<double(int)>) {}"),
    (KIND, "f(a: callable('(x: int) -> str'))", "[](callback<double(int)>) {}"),
    (KIND, "f(a: callable('(x: f32[n] rw)'))", "[](callback<void(in<float, 1>)>) {}"),
    (DTYPE, "f(a: callable('(x: f32[n])'))", "[](callback<void(in<double, 1>)>) {}"),
    (RANK, "f(a: callable('(x: f32[n])'))", "[](callback<void(in<float, 2>)>) {}"),
    (KIND, "f(a: callable('()'))", "[](double) {}"),
    (KIND, "f(a: float)", "[](int64_t) {}"),
    (KIND, "f(a: bool)", "[](int) {}"),
    (KIND, "f(a: str)", "[](double) {}"),
    (KIND, "f(a: 'mean'|'sum')", "[](std::string) {}"),
    (KIND, "f(a: ints)", "[](std::vector<int>) {}"),
    (KIND, "f(a: floats)", "[](in<float, 1>) {}"),
    (KIND, "f(a: bytes)", "[](double) {}"),
    (KIND, "f(a: strs)", "[](text) {}"),
    (KIND, "f(a: dtype)", "[](int) {}"),
    (KIND, "f(a: complex)", "[](double) {}"),
    (KIND, "f(a: float?)", "[](double) {}"),
    (KIND, "f(a: float)", "[](std::optional<double>) {}"),
    (KIND, "f(x: f32[n])", "[](double) {}"),
    (KIND, "f(x: f32[n])", "[](rw<float, 1>) {}"),
    (KIND, "f(x: f32[n])", "[](out<float, 1>) {}"),
    (KIND, "f(x: f32[n])", "[](kept<float, 1>) {}"),
    (KIND, "f(x: f32[n])", "[](const float *) {}"),
    (KIND, "f(x: f32[n] rw)", "[](in<float, 1>) {}"),
    (KIND, "f(x: [f32[n]])", "[](in<float, 1>) {}"),
    (KIND, "f(x: [f32[n] rw])", "[](list<float, 1>) {}"),
    (KIND, "f(x: [f32[n]])", "[](rw_list<float, 1>) {}"),
    (KIND, "f(x: [f32[n]]) -> [f32[_]] for x", "[](list<float, 1>, out<float, 1>) {}"),
    (DTYPE, "f(x: [f32[n]]) -> [f32[_]] for x", "[](list<float, 1>, out_list<double, 1>) {}"),
    (RANK, "f(x: [f32[n]])", "[](list<float, 2>) {}"),
    (KIND, "f(x: f32[n]) -> f32[n]", "[](in<float, 1>, in<float, 1>) {}"),
    (KIND, "f(x: f32[n]) -> f32[n]", "[](in<float, 1>, rw<float, 1>) {}"),
    (KIND, "f(x: f32[n]) -> a: f32[n], b: int", "[](in<float, 1>, out<float, 1>, int64_t) {}"),
    (KIND, "f() -> int", "[] { return std::string(); }"),
    (KIND, "f() -> str", "[] { return 1.5; }"),
    (KIND, "f() -> f32[?]", "[] { return 1.5; }"),
    (KIND, "Tree.get(self)", "[](Other &) {}"),
    (KIND, "Tree.get(self)", "[](double) {}"),
    (KIND, "f(t: handle('Tree'))", "[](object<Other>) {}"),
    (KIND, "f() -> handle('Tree')", "[] { return std::make_unique<Other>(); }"),
    (DTYPE, "f(x: f32[n])", "[](in<double, 1>) {}"),
    (DTYPE, "f(x: i64[n])", "[](in<uint64_t, 1>) {}"),
    (DTYPE, "f(x: f16[n])", "[](in<bf16, 1>) {}"),
    (DTYPE, "f(x: c64[n])", "[](in<tenon::complex<double>, 1>) {}"),
    (DTYPE, "f(x: f32|f64[n])", "[](in<float, 1>) {}"),
    (DTYPE, "f(x: T[n]) where T = f32|f64", "[](in<float, 1>) {}"),
    (DTYPE, "f(x: f32[n] rw)", "[](rw<double, 1>) {}"),
    (DTYPE, "f(x: f32[n] keep)", "[](kept<double, 1>) {}"),
    (DTYPE, "f(x: f32[n]) -> f32[n]", "[](in<float, 1>, out<double, 1>) {}"),
    (DTYPE, "f() -> f32[?] own", "[] { return std::vector<double>(); }"),
    (RANK, "f(x: f32[n])", "[](in<float, 2>) {}"),
    (RANK, "f(x: f32[n, k])", "[](in<float, 1>) {}"),
    (RANK, "f(x: f32[*b, n])", "[](in<float, 2>) {}"),
    (RANK, "f(x: f32[**b])", "[](in<float, 1>) {}"),
    (RANK, "f(x: f32[n] rw)", "[](rw<float, 0>) {}"),
    (RANK, "f(x: f32[n]) -> f32[n, n]", "[](in<float, 1>, out<float, 1>) {}"),
    (RANK, "f() -> f32[?, ?] own", "[] { return std::vector<float>(); }"),
    (UNALIGNED, "f(x: f32[n] unaligned)", "[](in<float, 1>) {}"),
    (DELETER, "f() -> handle('Tree')", "[]() -> pointer<void (*)(Tree *)> { return {}; }"),
    (DELETER, "f() -> a: int, b: handle('Tree')", "[](int64_t &, pointer<Pool> &) {}"),
    (DELETER, "Tree(n: int)", "[](int64_t) -> pointer<Pool> { return {}; }"),
    (UNALIGNED, "f(x: f32[n] rw unaligned)", "[](rw<float, 1>) {}"),
]

# Generic lambdas have the same rules, with the parameter of the dtype variable first.
WRONG += [
    (message, f"f(x: T[n], {signature} where T = f32|f64", f"[](auto, {function}")
    for message, signature, function in [
        (COUNT, "a: float)", "double, double) {}"),
        (COUNT, "a: float) -> T[n]", "double) {}"),
        (COUNT, "a: float) -> float", "double) {}"),
        (COUNT, "a: float) -> float", "double, double &) { return 1.0; }"),
        (FUNCTION, "a: float)", "double) mutable {}"),
        (KIND, "a: float)", "int64_t) {}"),
        (KIND, "a: float)", "int) {}"),
        (KIND, "a: float)", "mode) {}"),
        (KIND, "a: int)", "double) {}"),
        (KIND, "a: int)", "const double &) {}"),
        (KIND, "a: uint)", "int64_t) {}"),
        (KIND, "a: bool)", "int) {}"),
        (KIND, "a: bool)", "double) {}"),
        (KIND, "a: 'mean'|'sum')", "bool) {}"),
        (KIND, "a: 'mean'|'sum')", "double) {}"),
        (KIND, "a: 'mean'|'sum')", "int64_t) {}"),
        (KIND, "a: str)", "bool) {}"),
        (KIND, "a: ints)", "std::vector<int>) {}"),
        (KIND, "a: floats)", "in<float, 1>) {}"),
        (KIND, "a: bytes)", "double) {}"),
        (KIND, "a: str)", "std::optional<std::string>) {}"),
        (KIND, "a: dtype)", "int) {}"),
        (KIND, "a: complex)", "double) {}"),
        (KIND, "a: float?)", "double) {}"),
        (KIND, "a: float?)", "std::optional<int64_t>) {}"),
        (KIND, "a: float)", "std::optional<double>) {}"),
        (KIND, "y: f32[n])", "double) {}"),
        (KIND, "y: f32[n])", "rw<float, 1>) {}"),
        (KIND, "y: f32[n] rw)", "in<float, 1>) {}"),
        (KIND, "y: T[n]) -> T[n]", "auto, in<float, 1>) {}"),
        (KIND, "y: T[n]) -> f32[n]", "auto, in<float, 1>) {}"),
        (KIND, "y: T[n]) -> a: T[n], b: int", "auto, auto, int64_t) {}"),
        (KIND, "y: T[n]) -> a: T[n], b: int", "auto, auto, double &) {}"),
        (KIND, "y: T[n]) -> a: T[n], b: int", "auto, auto, auto) {}"),
        (KIND, "y: T[n]) -> int", "auto) { return std::string(); }"),
        (KIND, "t: handle('Tree'))", "auto) {}"),
        (KIND, "t: handle('Tree'))", "Other &) {}"),
        (KIND, "t: handle('Tree'))", "const Other &) {}"),
        (KIND, "t: handle('Tree'))", "object<Other>) {}"),
        (KIND, "t: handle('Tree')?)", "Tree &) {}"),
        (DTYPE, "y: f32[n])", "in<double, 1>) {}"),
        (DTYPE, "y: T[n])", "in<float, 1>) {}"),
        (DTYPE, "y: T[n]) -> T[n]", "auto, out<float, 1>) {}"),
        (RANK, "y: f32[n])", "in<float, 2>) {}"),
        (RANK, "y: f32[n] rw)", "rw<void, 0>) {}"),
        (UNALIGNED, "y: f32[n] unaligned)", "in<float, 1>) {}"),
        (DELETER, "y: T[n]) -> a: int, b: handle('Tree')", "auto, int64_t &, pointer<Pool> &) {}"),
    ]
]

NAMED = [number for number, (message, *_) in enumerate(WRONG) if message != PARSE]

RIGHT = [
    ("f()", "[] {}"),
    ("f(a: int, b: float, c: bool, d: str)", "[](int64_t, double, bool, text) {}"),
    ("f(a: 'mean'|'sum', b: 'mean'|'sum')", "[](int, mode) {}"),
    ("f(a: ints, b: floats[3], c: strs, d: bytes)", "[](in<int64_t, 1>, std::vector<double>, texts, bytes) {}"),
    ("f(a: uint, b: complex, c: dtype)", "[](uint64_t, std::complex<double>, tenon_dtype) {}"),
    ("f(a: float?, x: f32[n]?)", "[](std::optional<double>, in<float, 1>) {}"),
    ("f(x: f32[*b, n], y: real[n], z: f32|f64[n])", "[](in<float, any>, in<void, 1>, in<void, 1>) {}"),
    ("f(x: f32[n] rw, y: f32[n] keep, z: [u8[n, k]])", "[](rw<float, 1>, kept<float, 1>, list<uint8_t, 2>) {}"),
    ("f(x: f32[n] unaligned, y: u8[n] unaligned)", "[](in<void, 1>, in<uint8_t, 1>) {}"),
    ("f(x: f32[n]) -> a: f32[n], b: int", "[](in<float, 1>, out<float, 1>, int64_t &) {}"),
    ("f() -> f32[?, ?] own", "[] { return owned<float, 2>{std::vector<float>(6), {2, 3}}; }"),
    ("f() -> f32[?] own", "[] { return owned<float, 1>(std::vector<float>(6)); }"),
    ("f() -> f32[?] own", "[] { return owned<float, 1>{std::make_unique<float[]>(6), {6}}; }"),
    ("f() -> f32[] own", "[] { return owned<float, 0>(std::vector<float>(1), {}); }"),
    ("f(x: T[n], y: U[n]) -> T[n] where T = f32|f16, U = i32|i64", "[](auto, auto, auto) {}"),
    ("f(x: T[n], a: 'mean'|'sum', b: ints, c: str) where T = f32|f16", "[](auto, mode, std::vector<int64_t>, text) {}"),
    ("f(x: T[n], a: float, b: float?) where T = f32|f16", "[](const auto &, float, std::optional<double>) {}"),
    ("f(x: T[n], y: T[n] rw) -> float where T = f32|f16", "[](in<void, 1>, rw<void, any>, auto &z) { z = 1; }"),
    ("f(x: T[n], y: T[n]) -> 'mean'|'sum' where T = f32|f16", "[](auto, auto, mode &z) { z = mode::sum; }"),
    ("f(x: T[n], y: T[n]) -> float where T = f32|f16", "[](auto... x) { return double((x.size() + ...)); }"),
    ("Tree.get(self, x: T[n], t: handle('Other')?) where T = f32|f16", "[](const Tree &, auto, Other *) {}"),
    ("f(x: T[n], y: f32[n]?, s: str?) where T = f32|f16", "[](auto, std::optional<in<float, 1>>, std::optional<text>) {}"),
    ("Tree.join(self, t: handle('Other')) -> int", "[](Tree &, object<Other>) { return int64_t(1); }"),
    ("f(x: float) -> float", "constant{3}"),
    ("Tree(n: int)", "[](int64_t n) { return new Tree{n}; }"),
    ("f(a: int, b: int, c: 1|2, d: int?)", "[](int, unsigned char, mode, std::optional<short>) {}"),
    ("f(a: handle('Tree')) -> handle('Tree')", "[](Tree tree) { return tree; }"),
    ("f() -> int, float, str", "[] { return std::tuple<int, float, const char *>(1, 2.f, nullptr); }"),
    ("f(x: f32[n]) -> f32[n], int, float", "[](in<float, 1>, out<float, 1>) { return std::pair<long, double>(); }"),
    ("f(x: T[n]) -> T[n], int, float where T = f32|f64", "[](auto, auto) { return std::pair<long, double>(); }"),
    ("Tree.make(n: int) -> handle('Tree')", "[](int64_t n) { return new Tree{n}; }"),
    ("Tree.size: int", "[](const Tree &tree) { return tree.size; }"),
    ("Tree.__call__(self, x: float) -> float", "[](Tree &, double x) { return x; }"),
    ("Tree.__eq__(self, other: handle('Tree')) -> bool", "[](Tree &a, const Tree &b) { return a.size == b.size; }"),
    ("Tree(n: int)", "[](int64_t) -> pointer<Free> { return {}; }"),
]


def compile_module(compiler, folder, entries):
    """The compiler's return code and messages for a module with these entries."""
    file = pathlib.Path(folder, "module.cpp")
    lines = ",\n".join(f'TENON_CPP("{signature}", {function}, "")' for signature, function in entries)
    headers = "".join(f"#include <{header}>\n" for name, header in HEADERS.items() if name in lines)
    file.write_text(f"{headers}{START}TENON_CPP_MODULE(wrong, nullptr,\n{lines})\n", encoding="utf-8")
    return compile_file(compiler, file)


def compile_file(compiler, file, standard="c++17"):
    words = [compiler, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", f"-I{ROOT / 'core/include'}", str(file)]
    if compiler == "clang++":
        words.append("-ferror-limit=0")
    done = subprocess.run(words, stderr=subprocess.PIPE, encoding="utf-8")
    return done.returncode, done.stderr


def errors(messages):
    return [line for line in messages.splitlines() if " error: " in line]


def mistakes(messages):
    """{function: [message]}. The name of the function is a template argument that the compiler shows: named<'f', '1'>. g++
    shows it before the message, and clang++ after it."""
    found, name, waiting = {}, None, None
    for line in messages.splitlines():
        shown = re.search(r"_mistake<tenon::impl::named<([^>]*)>", line)
        name = "".join(re.findall(r"'(.)'", shown[1])) if shown else name
        failed = re.search(r'error: static assertion failed: (.*)|error: static_assert failed.* "(.*)"', line)
        if failed and failed[1]:
            found.setdefault(name, []).append(failed[1])
        elif failed:
            waiting = failed[2]
        elif shown and waiting:
            found.setdefault(name, []).append(waiting)
            waiting = None
    return found


@pytest.fixture(scope="module", params=COMPILERS)
def compiled(request, tmp_path_factory):
    """The mistakes of all functions of WRONG that have a name, each with a name of its own, and the number of errors."""
    entries = [(WRONG[number][1].replace("(", f"{number}(", 1), WRONG[number][2]) for number in NAMED]
    code, messages = compile_module(request.param, tmp_path_factory.mktemp("wrong"), entries)
    assert code != 0
    return mistakes(messages), len(errors(messages))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_functions_that_fit(compiler, tmp_path):
    assert compile_module(compiler, tmp_path, RIGHT) == (0, "")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_macros_of_one_letter(compiler, tmp_path):
    """-DN=256 is how a constant is passed to a kernel, and <complex.h> of C defines I."""
    file = tmp_path / "module.cpp"
    entries = [(signature, function) for signature, function in RIGHT if " where " not in signature]
    macros = "".join(f"#define {letter} 1\n" for letter in string.ascii_uppercase if letter != "I")
    compile_module(compiler, tmp_path, entries)
    file.write_text(f"#include <complex.h>\n{macros}" + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert compile_file(compiler, file, "gnu++17") == (0, "")


@pytest.mark.parametrize("number", NAMED, ids=lambda number: "{0}: {1} {2}".format(*WRONG[number]))
def test_functions_that_do_not_fit(compiled, number):
    message, signature, _ = WRONG[number]
    name = signature.partition("(")[0]
    found = compiled[0][f"{name}{number}"]
    assert len(found) == 1 and message in found[0]


def test_there_are_no_other_errors(compiled):
    found, count = compiled
    assert sum(map(len, found.values())) == count == len(NAMED)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("signature", "function"), [case[1:] for case in WRONG if case[0] == PARSE])
def test_signatures_that_do_not_parse(compiler, signature, function, tmp_path):
    code, messages = compile_module(compiler, tmp_path, [(signature, function)])
    assert code != 0 and len(errors(messages)) == 1 and PARSE in errors(messages)[0], messages


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_position_of_a_mistake(compiler, tmp_path):
    """It is an argument of the template that the compiler shows, as the name of the function is."""
    _, messages = compile_module(compiler, tmp_path, [("f(x: f32[n] wr)", "[](in<float, 1>) {}")])
    assert "parse_mistake<tenon::impl::named<'f'>, 12>" in messages


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_parameter_of_a_generic_lambda(compiler, tmp_path):
    """The assertion shows its index and its type, as for other functions."""
    signature = "f(x: T[n], a: int) where T = f32|f64"
    _, messages = compile_module(compiler, tmp_path, [(signature, "[](auto, double) {}")])
    assert "parameter_mistake<tenon::impl::named<'f'>, 1, double, tenon::impl::fault::kind>" in messages


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_generic_lambda_with_a_list_of_template_parameters(compiler, tmp_path):
    file = tmp_path / "module.cpp"
    right = "[]<class E>(in<E, 1> x, double a) { return a * double(x.size()); }"
    wrong = right.replace("double a", "int8_t a")
    entry = 'TENON_CPP("f(x: T[n], a: float) -> float where T = f32|f64", {}, "")'
    file.write_text(f"{START}TENON_CPP_MODULE(wrong, nullptr, {entry.format(right)})\n", encoding="utf-8")
    assert compile_file(compiler, file, "c++20") == (0, "")
    file.write_text(f"{START}TENON_CPP_MODULE(wrong, nullptr, {entry.format(wrong)})\n", encoding="utf-8")
    code, messages = compile_file(compiler, file, "c++20")
    assert code != 0 and [KIND in line for line in errors(messages)] == [True]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_type_without_a_name(compiler, tmp_path):
    code, messages = compile_module(compiler, tmp_path, [("Tree.get(self)", "[](std::string &) {}")])
    assert code != 0 and "TENON_CPP_TYPE" in errors(messages)[0]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_method_of_a_base_class(compiler, tmp_path):
    """C++ forgets the class that it was named with."""
    code, messages = compile_module(compiler, tmp_path, [("Other.count(self) -> int", "&Other::count")])
    assert code != 0 and len(errors(messages)) == 1 and "for a method of a base class, a lambda" in errors(messages)[0]
    function = "[](Other &other) { return other.count(); }"
    assert compile_module(compiler, tmp_path, [("Other.count(self) -> int", function)]) == (0, "")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("message", "signature", "made"),
    [
        ("needs a shape", "f() -> f32[?, ?] own", "owned<float, 2>(std::vector<float>(6))"),
        ("needs a shape", "f() -> f32[] own", "owned<float, 0>(std::vector<float>(1))"),
        ("does not know its size", "f() -> f32[?] own", "owned<float, 1>(std::make_unique<float[]>(6))"),
    ],
)
def test_owned_arrays_without_a_shape(compiler, message, signature, made, tmp_path):
    code, messages = compile_module(compiler, tmp_path, [(signature, f"[] {{ return {made}; }}")])
    assert code != 0 and message in errors(messages)[0]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_entry_without_documentation(compiler, tmp_path):
    file = tmp_path / "module.cpp"
    file.write_text(f'{START}TENON_CPP_MODULE(wrong, nullptr, TENON_CPP("f()", [] {{}}))\n', encoding="utf-8")
    code, messages = compile_file(compiler, file)
    assert code != 0 and len(errors(messages)) == 1 and "needs a documentation string" in messages


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("line", ["TENON_CPP_TYPE(space::Node)", 'TENON_CPP_TYPE_AS(space::Node, "")'])
def test_types_whose_name_is_not_that_of_a_class(compiler, line, tmp_path):
    file = tmp_path / "module.cpp"
    file.write_text(f"{START}namespace space {{ struct Node {{}}; }}\n{line}\n", encoding="utf-8")
    code, messages = compile_file(compiler, file)
    assert code != 0 and len(errors(messages)) == 1 and "TENON_CPP_TYPE_AS(space::Type" in messages
    file.write_text(file.read_text().replace(line, 'TENON_CPP_TYPE_AS(space::Node, "Node_2")'), encoding="utf-8")
    assert compile_file(compiler, file) == (0, "")
