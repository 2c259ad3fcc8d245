// The parser of tenon/cpp/signature.hpp and that of the core agree: on what is a signature, and on each parameter and
// result of it. Compared are the string literals of the files that are given (the tests of signatures), the files of
// the folders (the corpus of the fuzzer), and random changes of all these.
#include <tenon/cpp/numbers.hpp>
#include <tenon/cpp/signature.hpp>
#include <tenon/tenon.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "random.h"

namespace impl = tenon::impl;
using impl::kind;

static int failures, accepted, refused, same_position, other_position;

static void differ(const std::string &text, const char *what, long core, long ours)
{
    if (failures++ < 20)
        std::printf("%s: %s is %ld in the core, %ld in C++\n", text.c_str(), what, core, ours);
}

// A long signature stays within the compilers' limits for constant expressions.
#define TENSORS(x)                                                                                                     \
#x "1: f32[n, 2 * (k + 1) // 3] c aligned(64), " #x "2: T[*b, n, k] keep, " #x "3: f16|bf16|f8_e4m3fn[_, n] f, "
#define OPTIONS(x) #x "1: 'constant'|'reflect'|'replicate'|'circular' = 'circular', " #x "2: float? = -2.5e-3"
static constexpr impl::signature longest =
    impl::parse("a_function_with_a_long_name(n: int, k: int, " TENSORS(a) TENSORS(b) TENSORS(c) TENSORS(d) TENSORS(e)
                    TENSORS(f) TENSORS(g) TENSORS(h) "*, " OPTIONS(i) ", " OPTIONS(j) ") -> T[*b, n], f32[n // 2 + 1] "
                                                                                      "where T = f32|f64|i32|i64");
static_assert(longest.ok && longest.parameters == 30 && longest.results == 2);

// ------------------------------------------------------------------------------------------------- one signature

static kind kind_of(uint32_t number)
{
    switch (number) {
    case TENON_KIND_TENSOR:
        return kind::tensor;
    case TENON_KIND_INT:
        return kind::integer;
    case TENON_KIND_FLOAT:
        return kind::number;
    case TENON_KIND_BOOL:
        return kind::boolean;
    case TENON_KIND_STR:
        return kind::text;
    case TENON_KIND_ENUM:
        return kind::choice;
    case TENON_KIND_INTS:
        return kind::integers;
    case TENON_KIND_FLOATS:
        return kind::numbers;
    case TENON_KIND_HANDLE:
        return kind::handle;
    case TENON_KIND_TENSORS:
        return kind::tensors;
    case TENON_KIND_CALLABLE:
        return kind::callable;
    case TENON_KIND_UINT:
        return kind::uinteger;
    case TENON_KIND_COMPLEX:
        return kind::complex;
    case TENON_KIND_BYTES:
        return kind::bytes;
    case TENON_KIND_STRS:
        return kind::texts;
    case TENON_KIND_DTYPE:
        return kind::dtype;
    default:
        return kind::none;
    }
}

static bool is(const char *wanted, const char *start, int length)
{
    return wanted ? std::string(wanted) == std::string(start, static_cast<size_t>(length)) : start == nullptr;
}

static bool has_star(const tenon_signature *signature, int32_t item, int32_t ndims)
{
    for (int32_t i = 0; i < ndims; i++) {
        tenon_dimension dim;
        if (tenon_signature_dim(signature, item, i, &dim, nullptr) || dim.kind == TENON_DIM_STAR ||
            dim.kind == TENON_DIM_BATCH)
            return true;
    }
    return false;
}

static void compare_tensor(const std::string &text, const tenon_signature *signature, int32_t index,
                           const tenon_spec *spec, const impl::slot &ours, bool is_result)
{
    int32_t rank = has_star(signature, index, spec->ndims) ? -1 : spec->ndims;
    bool given = ours.owned || ours.shown;
    bool one = spec->variable < 0 && spec->dtypes.count == 1 && !spec->dtypes.kinds;
    const std::pair<const char *, std::pair<long, long>> all[] = {
        {"rank", {rank, ours.rank}},
        {"variable", {spec->variable, ours.type}},
        {"contiguous", {(spec->flags & TENON_SPEC_C) != 0, ours.contiguous}},
        {"written", {(spec->flags & TENON_SPEC_WRITE) != 0, is_result && !given ? 1 : ours.written}},
        {"unaligned", {(spec->flags & TENON_SPEC_UNALIGNED) != 0, ours.unaligned}},
        {"code", {one ? spec->dtypes.items[0].code : 0, ours.dtype.code}},
        {"bits", {one ? spec->dtypes.items[0].bits : 0, ours.dtype.bits}},
        {"lanes", {one ? spec->dtypes.items[0].lanes : 0, ours.dtype.lanes}},
    };
    for (const auto &[what, values] : all)
        if (values.first != values.second)
            differ(text, what, values.first, values.second);
}

static void compare_item(const std::string &text, const tenon_signature *signature, int32_t index,
                         const tenon_parameter *core, const impl::slot &ours, bool is_result)
{
    bool listed = core->kind == TENON_KIND_INTS || core->kind == TENON_KIND_FLOATS;
    bool self = index == 0 && signature->has_self;
    const std::pair<const char *, std::pair<long, long>> all[] = {
        {"kind", {static_cast<long>(kind_of(core->kind)), static_cast<long>(ours.kind)}},
        {"name", {1, is(core->name, ours.name, ours.name_length)}},
        {"handle", {1, core->kind == TENON_KIND_CALLABLE || is(core->handle, ours.class_name, ours.class_length)}},
        {"optional", {(core->flags & TENON_PARAMETER_OPTIONAL) != 0, ours.optional}},
        {"default", {(core->flags & TENON_PARAMETER_DEFAULT) != 0, ours.defaulted}},
        {"kept", {(core->flags & TENON_PARAMETER_KEEP) != 0, ours.kept}},
        {"owned", {(core->flags & TENON_PARAMETER_OWN) != 0, ours.owned}},
        {"shown", {(core->flags & TENON_PARAMETER_OF) != 0, ours.shown}},
        {"open", {(core->flags & TENON_PARAMETER_OPEN) != 0, ours.open}},
        {"choices", {core->choices || core->integers ? core->count : 0, ours.choices}},
        {"length", {listed && core->count > 0 ? core->count : 0, ours.length}},
        {"position", {0, self ? 0 : std::strncmp(text.c_str() + ours.position, core->type, 1)}},
    };
    for (const auto &[what, values] : all)
        if (values.first != values.second)
            differ(text, what, values.first, values.second);
    if (core->kind == TENON_KIND_DTYPE && core->variable != ours.type)
        differ(text, "the variable of a dtype", core->variable, ours.type);
    if (core->spec || core->items)
        compare_tensor(text, signature, index, core->spec ? core->spec : core->items, ours, is_result);
}

static void compare_variables(const std::string &text, const tenon_names *names, const impl::signature &ours)
{
    if (names->ntypes != ours.variables)
        return differ(text, "the number of dtype variables", names->ntypes, ours.variables);
    for (int32_t i = 0; i < names->ntypes; i++) {
        const tenon_dtypes &core = names->allowed[i];
        const impl::variable &variable = ours.variable[i];
        if (!is(names->types[i], variable.name, variable.length))
            differ(text, "the name of a dtype variable", 1, 0);
        if (variable.whole != (core.kinds != 0))
            differ(text, "a kind of dtypes", core.kinds != 0, variable.whole);
        std::vector<tenon_dtype> once; // those that are listed, without the second of two that are the same
        for (int32_t k = 0; k < core.count; k++) {
            bool known = false;
            for (tenon_dtype dtype : once)
                known |= tenon_dtype_equal(dtype, core.items[k]);
            if (!known)
                once.push_back(core.items[k]);
        }
        if (core.kinds == 0 && static_cast<int>(once.size()) != variable.count)
            differ(text, "the number of dtypes", static_cast<long>(once.size()), variable.count);
        for (size_t k = 0; core.kinds == 0 && k < once.size(); k++)
            if (!tenon_dtype_equal(once[k], variable.dtypes[k]))
                differ(text, "a dtype", once[k].bits, variable.dtypes[k].bits);
    }
}

// The name before the '.' of a method, which the module must have as a class.
static std::string class_of(const std::string &text)
{
    impl::reader reader(text.c_str());
    impl::word w = reader.next_word();
    return reader.accept('.') ? std::string(w.start, static_cast<size_t>(w.length)) : "";
}

// The position of a mistake is that of the core's caret, or close to it: it is shown in messages of the compiler.
static void compare_position(const std::string &text, const char *message, int position)
{
    if (position < 0 || position > static_cast<int>(text.size()))
        differ(text, "the position of the mistake", 0, position);
    const char *caret = std::strrchr(message, '\n');
    if (text.size() >= 80 || !caret) // a long text is not shown from its beginning
        return;
    if (static_cast<long>(std::strlen(caret)) - 4 == position)
        same_position++;
    else
        other_position++;
}

static void compare(const std::string &all)
{
    std::string text = all.c_str(); // up to a 0
    std::string entry = "class " + class_of(text);
    tenon_function function = {};
    function.signature = entry.c_str();
    tenon_module module = {};
    module.magic = TENON_MAGIC;
    module.major = TENON_ABI_MAJOR;
    module.size = sizeof module;
    module.function_size = sizeof function;
    module.nfunctions = entry.size() > 6;
    module.functions = &function;
    module.name = "test";
    tenon_signature *signature = nullptr;
    tenon_error err = {};
    tenon_status status = tenon_signature_alloc(text.c_str(), &module, TENON_HOST_LAYOUT, &signature, &err);
    static impl::signature ours;
    ours = impl::parse(text.c_str());
    // Whether another class has __next__, and the class `load`, is known only in the module.
    bool other =
        status && (std::strstr(err.message, "a class that has __next__") || std::strstr(err.message, ".load(state"));
    if (other && ours.ok)
        return;
    if (ours.ok != (status == TENON_OK)) {
        if (failures < 20)
            std::printf("%s\n", err.message);
        return differ(text, "whether it parses", status == TENON_OK, ours.ok);
    }
    if (!ours.ok) {
        refused++;
        compare_position(text, err.message, ours.position);
        return;
    }
    accepted++;
    int32_t role = signature->role;
    const char *method = signature->method;
    const std::pair<const char *, std::pair<long, long>> whole[] = {
        {"the number of parameters", {signature->nparams, ours.parameters}},
        {"the number of results", {signature->nresults, ours.results}},
        {"whether it is a method", {signature->has_self, ours.method}},
        {"whether it is a member", {method != nullptr, ours.member}},
        {"whether it is a constant", {role == TENON_ROLE_CONSTANT, ours.is_constant}},
        {"whether it is a class", {role == TENON_ROLE_CLASS, ours.is_class}},
        {"its name", {1, is(method ? method : signature->name, ours.name, ours.name_length)}},
        {"its class", {1, !method || is(signature->class_name, ours.class_name, ours.class_length)}},
        {"whether it may be a constructor",
         {role == TENON_ROLE_FUNCTION && signature->nresults == 0, ours.constructor_candidate}},
    };
    int before = failures;
    for (const auto &[what, values] : whole)
        if (values.first != values.second)
            differ(text, what, values.first, values.second);
    for (int32_t i = 0; failures == before && i < ours.parameters; i++)
        compare_item(text, signature, i, &signature->params[i], ours.parameter[i], false);
    for (int32_t i = 0; failures == before && i < ours.results; i++)
        compare_item(text, signature, ours.parameters + i, &signature->results[i], ours.result[i], true);
    compare_variables(text, &signature->names, ours);
    tenon_signature_release(signature);
}

// ------------------------------------------------------------------------------------------------- at compile time

static void check_constants()
{
    for (const char *text : {"f(xs: [f32[n] rw], n_max: uint) where n < n_max", "f(a: [f32[n])", "f(a: [f32[n]?])",
                             "f(a: [int])", "f(a: [f32[n] keep])"})
        compare(text);
    constexpr impl::signature s = impl::parse("f(a: uint, b: 1|2|4, c: [f16[n, k] c], d: dtype(T)) where T = i8|any");
    static_assert(s.ok && s.parameter[0].kind == kind::uinteger && s.parameter[1].choices == 3);
    static_assert(s.parameter[1].kind == kind::integer && s.parameter[2].kind == kind::tensors);
    static_assert(s.parameter[2].rank == 2 && s.parameter[2].dtype.bits == 16 && s.parameter[2].contiguous);
    static_assert(s.parameter[3].kind == kind::dtype && s.parameter[3].type == 0);
    static_assert(s.variable[0].whole && s.variable[0].count == 17);
}

// -------------------------------------------------------------------------------------------------- words and limits

// A word in every place where some words are special.
static void compare_word(const std::string &word)
{
    compare(word + "()");
    compare("f(" + word + ": int)");
    compare("f() -> " + word + ": int");
    compare("A." + word + "(self)");
    compare("A." + word + "(self) -> int");
    compare("A." + word + "(x: int)");
    compare("A." + word + ": int");
    compare("A." + word + " = 3");
    compare("A.f = " + word);
    compare(word + " = 3");
    compare("f(x: " + word + "[n])");
    compare("f(x: " + word + ")");
    compare("f(x: f32[n] " + word + ")");
    compare("f(x: f32[n] " + word + "(x))");
    compare("f(x: T[n]) where T = " + word + "|f32");
    compare("f(a: int = " + word + ")");
    compare("f(a: float = " + word + ")");
}

static std::string repeat(int count, const std::string &text, const std::string &between = "")
{
    std::string all;
    for (int i = 0; i < count; i++)
        all += (i ? between : "") + text;
    return all;
}

// `text` with each '#' replaced by a number, repeated with another number each time.
static std::string number(int count, const std::string &text)
{
    std::string all;
    for (int i = 0; i < count; i++) {
        std::string item = text;
        for (size_t at; (at = item.find('#')) != std::string::npos;)
            item.replace(at, 1, std::to_string(i));
        all += (i ? ", " : "") + item;
    }
    return all;
}

// Numbers of things around each limit.
static void compare_limits()
{
    for (int i = 0; i < 300; i++) {
        compare("f(" + std::string(static_cast<size_t>(i), 'a') + ": int)");
        compare("f(" + number(i, "a#: int") + ")");
        compare("f() -> " + number(i, "a#: int"));
        compare("f(x: f32[" + number(i, "_") + "])");
        compare("f(" + number(i, "x#: f32[n#]") + ")");
        compare("f(" + number(i, "x#: f32[*n#]") + ")");
        compare("f(" + number(i, "x#: T#[]") + ") where " + number(i, "T# = f32"));
        compare("f(x: f32[n], y: f32[" + repeat(i, "n", "+") + "])");
        compare("f(x: f32[n], y: f32[" + repeat(i, "(") + "n" + repeat(i, ")") + "])");
        compare("f(x: f32[n], y: f32[1 // " + repeat(i, "(") + "0" + repeat(i, ")") + "])");
        compare("f(x: f32[n]" + repeat(i, " ") + " c)");
        compare("f(x: " + repeat(i, "f32", "|") + "[n])");
        compare("f(x: T[n]) where T = " + repeat(i, "u8", "|"));
        compare("f(a: float = " + repeat(i, "1") + ")");
        compare("f(a: int = " + repeat(i, "9") + ")");
        compare("f(a: int = -" + repeat(i, "9") + ")");
        compare("f(x: f32[" + repeat(i, "9") + "])");
        compare("f(a: ints[" + std::to_string(900 + i) + "])");
        compare("f(a: ints[3] = (" + repeat(i, "1, ") + "))");
        compare("f(x: f32[n] aligned(" + std::to_string(i * 64) + "))");
        compare("f(x: f32x" + std::to_string(65400 + i) + "[n])");
        compare("f()" + repeat(8000 + i, " "));
    }
}

// ------------------------------------------------------------------------------------------------------- the texts

static std::string read(const std::filesystem::path &path)
{
    std::ifstream file(path, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
}

// The string literals of a C file; those that follow one another are one. The '^' marks a mistake in some of them.
static void add_literals(const std::string &source, std::vector<std::string> &texts)
{
    bool open = false;
    for (size_t i = 0; i < source.size(); i++) {
        if (source[i] != '"' || (i > 0 && source[i - 1] == '\'')) {
            open = open && std::strchr(" \n", source[i]);
            continue;
        }
        std::string literal;
        for (i++; i < source.size() && source[i] != '"'; i++) {
            if (source[i] == '\\' && ++i < source.size())
                literal += source[i] == 'n' ? '\n' : source[i] == 't' ? '\t' : source[i];
            else if (source[i] != '^')
                literal += source[i];
        }
        if (open)
            texts.back() += literal;
        else
            texts.push_back(literal);
        open = true;
    }
}

static std::string change(const std::vector<std::string> &texts)
{
    static const char *const pieces[] = {"int",
                                         "float",
                                         "bool",
                                         "str",
                                         "uint",
                                         "complex",
                                         "bytes",
                                         "strs",
                                         "dtype",
                                         "dtype(T)",
                                         "1|2|4",
                                         "-1|0",
                                         " = 'f32'",
                                         " = 1+2j",
                                         " = -2j",
                                         " = ('a', \"b\")",
                                         "18446744073709551615",
                                         "j",
                                         "f32[n]",
                                         "[n]",
                                         "[]",
                                         "?",
                                         " = 1",
                                         " = None",
                                         "'a'|'b'",
                                         "handle('A')",
                                         "ints[3]",
                                         "|",
                                         "*b",
                                         "**b",
                                         "_",
                                         " rw",
                                         " c",
                                         " f",
                                         " keep",
                                         " own",
                                         " of(self)",
                                         " of(x)",
                                         " alias",
                                         " inplace(x)",
                                         "aligned(64)",
                                         " where T = f32",
                                         "T[n]",
                                         "f64|f32",
                                         " -> ",
                                         "x: ",
                                         "self",
                                         "self, ",
                                         "A.",
                                         "class ",
                                         ", ",
                                         "(",
                                         ")",
                                         "*, ",
                                         "n + 1",
                                         "n // 0",
                                         "//",
                                         "-",
                                         "real",
                                         "any",
                                         "integer",
                                         "u8x4",
                                         "cuda",
                                         "cpu|cuda",
                                         "anywhere",
                                         "unaligned",
                                         "dense",
                                         "\n",
                                         "= (1, 2)",
                                         "= [1.5]",
                                         "9223372036854775808",
                                         "-9223372036854775808",
                                         "1e",
                                         "e5",
                                         ".",
                                         "0",
                                         "__len__",
                                         "lambda"};
    const int count = static_cast<int>(sizeof pieces / sizeof *pieces);
    std::string text = texts[static_cast<size_t>(below(static_cast<int>(texts.size())))].c_str();
    for (int changes = 1 + below(3); changes > 0; changes--) {
        size_t at = static_cast<size_t>(below(static_cast<int>(text.size()) + 1));
        size_t length = static_cast<size_t>(below(6));
        std::string piece = pieces[below(count)];
        if (below(4) == 0)
            piece = text.substr(at, length);
        if (below(3) == 0)
            text.erase(at, length);
        else if (below(2) == 0)
            text.insert(at, piece);
        else if (at < text.size())
            text.replace(at, length, piece);
    }
    return text;
}

int main(int argc, char **argv)
{
    std::vector<std::string> texts;
    for (int i = 1; i < argc; i++) {
        if (!std::filesystem::is_directory(argv[i])) {
            add_literals(read(argv[i]), texts);
            continue;
        }
        for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
            texts.push_back(read(entry.path()));
    }
    for (const std::string &text : texts)
        compare(text);
    std::vector<std::string> good;
    for (const std::string &text : texts)
        if (impl::parse(text.c_str()).ok)
            good.push_back(text);
    for (int i = 0; i < 100000 && !good.empty(); i++)
        compare(change(good));
    for (const std::string &text : texts)
        if (text.size() < 40)
            compare_word(text);
    compare_limits();
    check_constants();
    std::printf("%zu signatures, and changes of them: %d accepted, %d refused\n", texts.size(), accepted, refused);
    std::printf("%d mistakes at the same position, %d at another\n", same_position, other_position);
    return failures || accepted < 1000 || refused < 1000 || other_position * 100 > same_position;
}
