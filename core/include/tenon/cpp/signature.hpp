// Parses signatures at compile time, so that function.hpp can compare them with C++ functions.
//
// It accepts what the core accepts in a module of version 1.1 (core/src/functions/signature.c and its neighbours), and
// the later parts of that version, which no host has yet. The module is not known here: every class exists, and a function
// with the name of a class is not known to be a constructor.
#ifndef TENON_CPP_SIGNATURE_HPP
#define TENON_CPP_SIGNATURE_HPP

#include <tenon/cpp/words.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

enum class kind : unsigned char {
    none,
    tensor,
    integer,
    number,
    boolean,
    text,
    choice,
    integers,
    numbers,
    handle,
    uinteger,
    complex,
    bytes,
    texts,
    dtype,
    tensors
};

// A parameter or a result.
struct slot {
    impl::kind kind;
    bool optional;     // "?": None is allowed
    bool written;      // "rw", of a parameter, or of a result "of(self)"
    bool kept;         // "keep"
    bool owned;        // "own"
    bool shown;        // "of(...)"
    bool contiguous;   // "c", and every result that the host allocates
    bool open;         // a tensor result that the host does not allocate
    bool unaligned;    // "unaligned"
    bool defaulted;    // has a default, which may be None
    int rank;          // of a tensor: the number of dimensions, or -1 for any (a "*b")
    int type;          // the index of the dtype variable, or -1
    tenon_dtype dtype; // if `type` is -1: the only dtype; its bits are 0 if there are several
    const char *name;  // NULL for a result without a name
    int name_length;
    const char *class_name; // of a handle
    int class_length;
    int choices;  // the number of alternatives of an enum, or of a choice of integers
    int length;   // of ints[N] and floats[N]: N; otherwise 0
    int position; // of the type in the signature
};

// A dtype variable, with the dtypes of its where clause in their order, each once. "real", "integer" and "any" stand for
// the dtypes that have a C++ type (numbers.hpp).
struct variable {
    const char *name;
    int length;
    int count;
    bool whole; // "real", "integer" or "any" is among them: a call may have a dtype that has no C++ type
    tenon_dtype dtypes[40];
};

enum { max_parameters = 64, max_results = 16, max_variables = 8, max_dims = 32 };

struct signature {
    bool ok;
    int position;               // of the first mistake, if it is not ok
    bool is_class;              // "class Name", which has no parameters and no results
    bool method;                // parameter 0 is self, a handle of the class
    bool constructor_candidate; // a function without results: a constructor if a class has its name
    const char *name;           // of the function, method or class
    int name_length;
    const char *class_name; // of a method
    int class_length;
    int parameters, results, variables;
    slot parameter[max_parameters];
    slot result[max_results];
    impl::variable variable[max_variables];
};

// Attributes of a tensor.
enum attribute : unsigned {
    at_rw = 1,
    at_c = 2,
    at_f = 4,
    at_dense = 8,
    at_alias = 16,
    at_anywhere = 32,
    at_unaligned = 64,
    at_aligned = 128,
    at_device = 256,
    at_inplace = 512,
    at_keep = 1024,
    at_own = 2048,
    at_of = 4096,
    at_convert = 8192
};

constexpr unsigned find_attribute(const word &w)
{
    return w.is("rw")          ? at_rw
           : w.is("c")         ? at_c
           : w.is("f")         ? at_f
           : w.is("dense")     ? at_dense
           : w.is("alias")     ? at_alias
           : w.is("anywhere")  ? at_anywhere
           : w.is("unaligned") ? at_unaligned
           : w.is("aligned")   ? at_aligned
           : w.is("inplace")   ? at_inplace
           : w.is("keep")      ? at_keep
           : w.is("own")       ? at_own
           : w.is("of")        ? at_of
           : w.is("convert")   ? at_convert
           : is_device(w)      ? at_device
                               : 0u;
}

constexpr kind find_kind(const word &w)
{
    return w.is("int")      ? kind::integer
           : w.is("float")  ? kind::number
           : w.is("bool")   ? kind::boolean
           : w.is("str")    ? kind::text
           : w.is("ints")   ? kind::integers
           : w.is("floats") ? kind::numbers
           : w.is("handle") ? kind::handle
                            : kind::none;
}

// The kinds that no host has yet.
constexpr kind find_later_kind(const word &w)
{
    return w.is("uint")      ? kind::uinteger
           : w.is("complex") ? kind::complex
           : w.is("bytes")   ? kind::bytes
           : w.is("strs")    ? kind::texts
           : w.is("dtype")   ? kind::dtype
                             : kind::none;
}

// Parses a signature from left to right. Functions that return bool return false after a mistake.
struct parser : reader {
    // Names that the shapes use.
    struct names {
        int count;
        word item[max_dims];
        bool bound[max_dims]; // an argument determines it
    };

    signature &out;
    names dims{}, stars{};
    bool defined[max_variables]{};               // by a where clause
    bool typed[max_variables]{};                 // by an argument
    int inplace[max_parameters + max_results]{}; // the position of the name in "inplace(...)"
    bool in_result = false, keyword_only = false;
    int positional = 0, required = 0;

    // The tensor or condition that is being parsed.
    int start = 0, operations = 0;
    bool single = false; // its last expression is one number or name
    bool zero = false;   // the last operand is the number 0
    int named = -1;      // the last operand is this name of a dimension
    bool in_condition = false;
    word of{};

    constexpr parser(const char *all, signature &result) : reader(all), out(result)
    {
    }

    // ------------------------------------------------------------------------------------------------------- names

    constexpr bool name(word &w)
    {
        w = next_word();
        return (w.length > 0 && w.length < 32 && !is_digit(*w.start) && !is_reserved(w)) || fail(w.at);
    }

    static constexpr int find(const word &w, const slot *items, int count)
    {
        for (int i = 0; i < count; i++)
            if (items[i].name && w.is(items[i].name, items[i].name_length))
                return i;
        return -1;
    }

    static constexpr int find(const word &w, const names &table)
    {
        for (int i = 0; i < table.count; i++)
            if (w.is(table.item[i].start, table.item[i].length))
                return i;
        return -1;
    }

    // Find the name, or add it; `slot` is its index.
    constexpr bool intern(const word &w, names &table, int most, int &slot)
    {
        slot = find(w, table);
        if (slot >= 0)
            return true;
        if (w.length > 31 || table.count == most)
            return fail(w.at);
        slot = table.count++;
        table.item[slot] = w;
        return true;
    }

    constexpr int find_type(const word &w) const
    {
        for (int i = 0; i < out.variables; i++)
            if (w.is(out.variable[i].name, out.variable[i].length))
                return i;
        return -1;
    }

    constexpr bool intern_type(const word &w, int &slot)
    {
        slot = find_type(w);
        if (slot >= 0)
            return true;
        if (w.length > 31 || out.variables == max_variables)
            return fail(w.at);
        slot = out.variables++;
        out.variable[slot].name = w.start;
        out.variable[slot].length = w.length;
        return true;
    }

    // ------------------------------------------------------------------------------------------------------ dtypes

    static constexpr void add_dtype(impl::variable &set, tenon_dtype dtype)
    {
        for (int i = 0; i < set.count; i++)
            if (set.dtypes[i].code == dtype.code && set.dtypes[i].bits == dtype.bits &&
                set.dtypes[i].lanes == dtype.lanes)
                return;
        set.dtypes[set.count++] = dtype;
    }

    static constexpr void add_kind(impl::variable &set, bool floats, bool others)
    {
        set.whole = true;
        for (int bits = 8; bits <= 64; bits *= 2) {
            add_dtype(set, make_dtype(TENON_CODE_INT, bits));
            add_dtype(set, make_dtype(TENON_CODE_UINT, bits));
        }
        for (int bits = 16; floats && bits <= 64; bits *= 2)
            add_dtype(set, make_dtype(TENON_CODE_FLOAT, bits));
        if (floats) {
            add_dtype(set, make_dtype(TENON_CODE_BFLOAT, 16));
            add_dtype(set, make_dtype(TENON_CODE_F8_E4M3FN, 8));
            add_dtype(set, make_dtype(TENON_CODE_F8_E5M2, 8));
        }
        if (others) {
            add_dtype(set, make_dtype(TENON_CODE_BOOL, 8));
            add_dtype(set, make_dtype(TENON_CODE_COMPLEX, 64));
            add_dtype(set, make_dtype(TENON_CODE_COMPLEX, 128));
        }
    }

    // One or more dtypes that are not variables. `listed` counts those that are not kinds.
    constexpr bool dtypes(impl::variable &set, int &listed)
    {
        listed = 0;
        do {
            word w = next_word();
            tenon_dtype dtype{};
            if (w.is("real"))
                add_kind(set, true, false);
            else if (w.is("integer"))
                add_kind(set, false, false);
            else if (w.is("any"))
                add_kind(set, true, true);
            else if (!find_dtype(w, dtype) || listed++ == 16)
                return fail(w.at);
            else
                add_dtype(set, dtype);
        } while (accept('|'));
        return true;
    }

    // The dtypes of a tensor.
    constexpr bool element(slot &item)
    {
        word w = peek_word();
        item.type = -1;
        if (w.length && is_upper(*w.start)) {
            next_word();
            if (!intern_type(w, item.type))
                return false;
            typed[item.type] |= !in_result;
            return !accept('|') || fail(at - 1);
        }
        impl::variable set{};
        int listed = 0;
        int from = w.at;
        if (!dtypes(set, listed))
            return false;
        if (listed == 1 && !set.whole)
            item.dtype = set.dtypes[0];
        return !in_result || (listed == 1 && !set.whole) || fail(from);
    }

    // -------------------------------------------------------------------------------------------------- dimensions

    // Count a step of an expression. A spec has at most 64.
    constexpr bool step(int position)
    {
        return operations++ < 64 || fail(position);
    }

    constexpr bool is_integer_parameter(const word &w) const
    {
        int i = find(w, out.parameter, out.parameters);
        return i >= 0 && (out.parameter[i].kind == kind::integer || out.parameter[i].kind == kind::uinteger);
    }

    constexpr bool operand()
    {
        if (at - start >= 256)
            return fail(start);
        if (accept('('))
            return expression() && expect(')');
        word w = peek_word();
        char first = w.length ? *w.start : '\0';
        named = -1;
        zero = false;
        single = true;
        if (is_digit(first)) {
            int64_t value = 0;
            if (!number(value))
                return false;
            zero = value == 0;
        } else if (is_lower(first) || (in_condition && first)) {
            next_word();
            if (in_condition)
                return find(w, dims) >= 0 || is_integer_parameter(w) || fail(w.at);
            if (!intern(w, dims, max_dims, named))
                return false;
        } else {
            return fail(w.at);
        }
        return step(w.at);
    }

    // Operands with + - * // between them. Precedence does not matter here.
    constexpr bool expression()
    {
        if (!operand())
            return false;
        for (;;) {
            skip_spaces();
            int position = at;
            char c = text[at], next = c ? text[at + 1] : '\0';
            bool divided = c == '/';
            if (c != '+' && c != '*' && !divided && !(c == '-' && next != '>'))
                return true;
            if (divided && next != '/')
                return fail(at);
            at += 1 + divided;
            if (!operand())
                return false;
            if (divided && single && zero)
                return fail(position);
            if (!step(position))
                return false;
            single = false;
            named = -1;
        }
    }

    constexpr bool dimension(slot &item, int count)
    {
        skip_spaces();
        int position = at;
        if (count == 32)
            return fail(at);
        if (accept('*')) {
            word w = next_word();
            int index = 0;
            if (w.length == 0 || !is_lower(*w.start))
                return fail(w.at);
            if (item.rank < 0)
                return fail(position);
            if (!intern(w, stars, max_variables, index))
                return false;
            stars.bound[index] |= !in_result;
            item.rank = -1;
            return true;
        }
        item.rank += item.rank >= 0;
        if (in_result && accept('?')) {
            item.open = true;
            return true;
        }
        if (peek_word().is("_")) {
            next_word();
            return !in_result || fail(position);
        }
        if (!expression())
            return false;
        if (single && named >= 0)
            dims.bound[named] |= !in_result;
        return true;
    }

    // -------------------------------------------------------------------------------------------------- attributes

    constexpr bool attribute_details(unsigned attribute)
    {
        if (attribute == at_device) {
            while (accept('|')) {
                word w = next_word();
                if (!is_device(w))
                    return fail(w.at);
            }
            return true;
        }
        if (attribute != at_aligned && attribute != at_inplace && attribute != at_of)
            return true;
        if (!expect('('))
            return false;
        if (attribute == at_aligned) {
            skip_spaces();
            int position = at;
            int64_t bytes = 0;
            if (!number(bytes))
                return false;
            if (bytes < 1 || bytes > 4096 || (bytes & (bytes - 1)))
                return fail(position);
        } else {
            word w = next_word();
            if (attribute == at_of)
                of = w;
            else if (w.length == 0 || is_digit(*w.start) || w.length > 31)
                return fail(w.at);
            else
                inplace[in_result ? max_parameters + out.results : out.parameters] = w.at;
        }
        return expect(')');
    }

    constexpr bool attributes(unsigned &flags)
    {
        for (;;) {
            word w = peek_word();
            if (w.length == 0 || w.is("where"))
                return true;
            next_word();
            unsigned attribute = find_attribute(w);
            if (attribute == 0 || (flags & attribute))
                return fail(w.at);
            flags |= attribute;
            if (((flags & at_c) && (flags & at_f)) || ((flags & at_anywhere) && (flags & at_device)) ||
                ((flags & at_aligned) && (flags & at_unaligned)))
                return fail(w.at);
            if (!attribute_details(attribute))
                return false;
        }
    }

    // Attributes of a parameter.
    constexpr bool check_parameter(const slot &item, unsigned flags)
    {
        bool sharing = flags & (at_alias | at_inplace);
        bool wrong = (flags & (at_own | at_of)) || ((flags & (at_keep | at_convert)) && (flags & at_rw)) ||
                     (sharing && !(flags & at_rw)) || (item.kind == kind::tensors && (flags & (at_keep | at_convert)));
        return !wrong || fail(item.position);
    }

    // Attributes of a result.
    constexpr bool check_result(slot &item, unsigned flags)
    {
        unsigned lifetime = flags & (at_keep | at_own | at_of);
        if (lifetime == 0) {
            item.open |= item.optional;
            item.contiguous = true;
            return !(flags & (at_rw | at_f | at_aligned | at_anywhere | at_convert)) || fail(item.position);
        }
        item.open = true;
        bool of_self = false;
        if (lifetime == at_of) {
            int owner = find(of, out.parameter, out.parameters);
            of_self = owner == 0 && out.method;
            if (owner < 0 || !(of_self || out.parameter[owner].kind == kind::tensor))
                return fail(of.at);
        } else if (lifetime != at_own) {
            return fail(item.position);
        }
        bool wrong = (flags & (at_alias | at_inplace | at_anywhere | at_convert)) || ((flags & at_rw) && !of_self);
        return !wrong || fail(item.position);
    }

    constexpr bool tensor(slot &item)
    {
        start = at;
        operations = 0;
        item.rank = 0;
        if (!element(item) || !expect('['))
            return false;
        if (!accept(']')) {
            int count = 0;
            do {
                if (!dimension(item, count++))
                    return false;
            } while (accept(','));
            if (!expect(']'))
                return false;
        }
        item.optional = accept('?');
        unsigned flags = 0;
        if (!attributes(flags))
            return false;
        if (end() - start >= 256)
            return fail(start);
        item.written = flags & at_rw;
        item.kept = flags & at_keep;
        item.owned = flags & at_own;
        item.shown = flags & at_of;
        item.contiguous = flags & at_c;
        item.unaligned = flags & at_unaligned;
        return in_result ? check_result(item, flags) : check_parameter(item, flags);
    }

    // ------------------------------------------------------------------------------------------------------- types

    // Whether the string or integer is one of the first `count` choices of the item's type.
    constexpr bool is_choice(const slot &item, int count, const word &wanted, uint64_t whole, bool negative)
    {
        int back = at;
        bool found = false;
        at = item.position;
        for (int i = 0; i < count && !found; i++) {
            word w{};
            uint64_t other = 0;
            bool minus = false;
            if (item.kind == kind::choice)
                found = quoted(w) && w.is(wanted.start, wanted.length);
            else
                found = integer(other, minus) && other == whole && (minus == negative || whole == 0);
            accept('|');
        }
        at = back;
        return found;
    }

    constexpr bool choice_type(slot &item)
    {
        skip_spaces();
        item.kind = is_quote(text[at]) ? kind::choice : kind::integer;
        do {
            word w{};
            uint64_t whole = 0;
            bool negative = false;
            skip_spaces();
            int position = at;
            if (!(item.kind == kind::choice ? quoted(w) : integer(whole, negative)))
                return false;
            if (is_choice(item, item.choices, w, whole, negative))
                return fail(position);
            item.choices++;
        } while (accept('|'));
        return item.kind == kind::choice || item.choices > 1 || fail(at);
    }

    constexpr bool handle_type(slot &item)
    {
        word w{};
        if (!expect('(') || !quoted(w))
            return false;
        item.class_name = w.start;
        item.class_length = w.length;
        return (w.length > 0 || fail(w.at)) && expect(')');
    }

    constexpr bool list_length(slot &item)
    {
        int64_t count = 0;
        if (!number(count))
            return false;
        if (count < 1 || count > 1024)
            return fail(at - 1);
        item.length = static_cast<int>(count);
        return expect(']');
    }

    // "(T)" after "dtype".
    constexpr bool dtype_variable(slot &item)
    {
        word w = next_word();
        if (w.length == 0 || !is_upper(*w.start))
            return fail(w.at);
        if (!intern_type(w, item.type))
            return false;
        typed[item.type] = true;
        return expect(')');
    }

    constexpr bool tensors_type(slot &item)
    {
        accept('[');
        skip_spaces();
        int position = at;
        return tensor(item) && (!item.optional || fail(position)) && expect(']');
    }

    constexpr bool type(slot &item)
    {
        word w = peek_word();
        char first = text[w.at], next = after(w);
        item.position = w.at;
        item.type = -1;
        item.kind = find_kind(w);
        bool listed = item.kind == kind::integers || item.kind == kind::numbers;
        if (!listed && (next == '[' || next == '|')) // bool[n] and bool|u8[n] are tensors
            item.kind = kind::none;
        else if (item.kind == kind::none)
            item.kind = find_later_kind(w);
        if (item.kind == kind::none && first != '[' && !is_digit(first) && first != '-' && !is_quote(first)) {
            item.kind = kind::tensor;
            return tensor(item);
        }
        bool ok = true;
        if (item.kind != kind::none)
            next_word();
        if (item.kind == kind::handle) {
            ok = handle_type(item);
        } else if (item.kind == kind::dtype) {
            ok = !accept('(') || dtype_variable(item);
        } else if (listed) {
            ok = !accept('[') || list_length(item);
        } else if (first == '[') {
            item.kind = kind::tensors;
            ok = tensors_type(item);
        } else if (item.kind == kind::none) {
            ok = choice_type(item);
        }
        if (!ok)
            return false;
        item.optional = accept('?');
        return !in_result || (item.kind != kind::dtype && item.kind != kind::tensors) || fail(item.position);
    }

    // ---------------------------------------------------------------------------------------------------- defaults

    constexpr bool list_item(const slot &item)
    {
        uint64_t whole = 0;
        bool negative = false;
        word w{};
        return item.kind == kind::integers  ? integer(whole, negative)
               : item.kind == kind::numbers ? literal(false, whole, negative)
                                            : quoted(w);
    }

    constexpr bool list_default(const slot &item)
    {
        skip_spaces();
        int position = at, count = 0;
        char close = text[at] == '(' ? ')' : ']';
        if (!accept('(') && !accept('['))
            return fail(position);
        while (!accept(close)) {
            if (!list_item(item))
                return false;
            if (!accept(',')) {
                skip_spaces();
                if (text[at] != close || (close == ')' && count == 0)) // in Python (1) is a number
                    return fail(at);
            }
            count++;
        }
        return item.length == 0 || count == item.length || fail(position);
    }

    // A number, an imaginary number such as 2j, or a sum of both.
    constexpr bool complex_default()
    {
        uint64_t whole = 0;
        bool negative = false;
        int position = at;
        if (!literal(false, whole, negative, true))
            return false;
        bool imaginary = text[at] == 'j';
        at += imaginary;
        skip_spaces();
        if (!imaginary && (text[at] == '+' || text[at] == '-')) {
            at++;
            skip_spaces();
            if (text[at] == '-' || !literal(false, whole, negative, true) || text[at] != 'j')
                return fail(position);
            at++;
        }
        return !is_inside(text[at]) || fail(position);
    }

    constexpr bool default_value(const slot &item)
    {
        word w = peek_word();
        uint64_t whole = 0;
        bool negative = false;
        tenon_dtype dtype{};
        if (w.is("None")) {
            next_word();
            return item.optional || fail(w.at);
        }
        switch (item.kind) {
        case kind::integer:
            return integer(whole, negative) &&
                   (item.choices == 0 || is_choice(item, item.choices, w, whole, negative) || fail(w.at));
        case kind::uinteger:
            return literal(true, whole, negative) && (!negative || fail(w.at));
        case kind::number:
            return literal(false, whole, negative);
        case kind::complex:
            return complex_default();
        case kind::boolean:
            next_word();
            return w.is("True") || w.is("False") || fail(w.at);
        case kind::text:
            return quoted(w);
        case kind::choice:
            return quoted(w) && (is_choice(item, item.choices, w, 0, false) || fail(w.at));
        case kind::dtype:
            return quoted(w) && (find_dtype(w, dtype) || fail(w.at));
        case kind::integers:
        case kind::numbers:
        case kind::texts:
            return list_default(item);
        default:
            return fail(w.at);
        }
    }

    // -------------------------------------------------------------------------------------- parameters and results

    constexpr bool parameter()
    {
        word w = peek_word();
        if (w.is("self") && after(w) != ':')
            return fail(w.at);
        if (!name(w))
            return false;
        if (find(w, out.parameter, out.parameters) >= 0 || out.parameters == max_parameters)
            return fail(w.at);
        slot &item = out.parameter[out.parameters];
        item.name = w.start;
        item.name_length = w.length;
        if (!expect(':') || !type(item))
            return false;
        if (accept('=')) {
            item.defaulted = true;
            if (!default_value(item))
                return false;
        }
        item.defaulted |= item.optional;
        if (!keyword_only) {
            if (!item.defaulted && required < positional)
                return fail(w.at);
            required += !item.defaulted;
            positional++;
        }
        out.parameters++;
        return true;
    }

    constexpr bool self()
    {
        word w = next_word();
        if (!w.is("self") || after(w) == ':')
            return fail(w.at);
        slot &item = out.parameter[0];
        item.kind = kind::handle;
        item.type = -1;
        item.name = w.start;
        item.name_length = w.length;
        item.class_name = out.class_name;
        item.class_length = out.class_length;
        item.position = w.at;
        out.parameters = positional = required = 1;
        return true;
    }

    constexpr bool parameters()
    {
        if (!expect('('))
            return false;
        if (out.method) {
            if (!self())
                return false;
            if (!accept(','))
                return expect(')');
        }
        if (accept(')'))
            return true;
        do {
            skip_spaces();
            int position = at;
            if (accept('*')) {
                if (keyword_only)
                    return fail(position);
                keyword_only = true;
                if (!expect(','))
                    return false;
            }
            if (!parameter())
                return false;
        } while (accept(','));
        return expect(')');
    }

    constexpr bool result()
    {
        word w = peek_word();
        bool has_name = w.length && after(w) == ':';
        if (out.results == max_results || (!has_name && w.is("None")) ||
            (out.results && has_name != (out.result[0].name != nullptr)))
            return fail(w.at);
        slot &item = out.result[out.results];
        if (has_name) {
            if (!name(w))
                return false;
            if (*w.start == '_' || find(w, out.result, out.results) >= 0)
                return fail(w.at);
            item.name = w.start;
            item.name_length = w.length;
            expect(':');
        }
        if (!type(item))
            return false;
        out.results++;
        return true;
    }

    constexpr bool results()
    {
        skip_spaces();
        out.constructor_candidate = !out.method;
        if (text[at] != '-' || text[at + 1] != '>')
            return true;
        at += 2;
        out.constructor_candidate = false;
        in_result = true;
        do {
            if (!result())
                return false;
        } while (accept(','));
        in_result = false;
        return true;
    }

    // ------------------------------------------------------------------------------------------------ where clauses

    constexpr bool is_condition() const
    {
        int end = at;
        while (text[end] && text[end] != '<' && text[end] != '>' && text[end] != ',' && text[end] != '=')
            end++;
        return text[end] == '<' || text[end] == '>';
    }

    // One side of a condition. `floats` says whether it is a float parameter, and `literals` whether it may be compared
    // with one.
    constexpr bool side(bool &floats, bool &literals)
    {
        word w = peek_word();
        int index = find(w, out.parameter, out.parameters);
        floats = index >= 0 && out.parameter[index].kind == kind::number;
        literals = false;
        if (floats) {
            next_word();
            return true;
        }
        uint64_t whole = 0;
        bool negative = false;
        reader ahead(text);
        ahead.at = at;
        if (ahead.literal(false, whole, negative)) {
            ahead.skip_spaces();
            char c = text[ahead.at];
            literals = c == '<' || c == '>' || c == ',' || c == '\0';
        }
        if (literals) {
            at = ahead.at;
            return true;
        }
        start = at;
        operations = 0;
        return expression();
    }

    constexpr bool condition()
    {
        bool left = false, right = false, left_literal = false, right_literal = false;
        int position = at;
        in_condition = true;
        if (!side(left, left_literal))
            return false;
        if (!accept('<') && !accept('>'))
            return fail(at);
        at += text[at] == '=';
        if (!side(right, right_literal))
            return false;
        in_condition = false;
        return (left ? right_literal : right ? left_literal : !(left_literal && right_literal)) || fail(position);
    }

    constexpr bool where()
    {
        if (!peek_word().is("where"))
            return true;
        next_word();
        do {
            skip_spaces();
            if (is_condition()) {
                if (!condition())
                    return false;
                continue;
            }
            word w = next_word();
            int index = find_type(w), listed = 0;
            if (w.length == 0 || index < 0 || defined[index])
                return fail(w.at);
            defined[index] = true;
            if (!expect('=') || !dtypes(out.variable[index], listed))
                return false;
        } while (accept(','));
        return true;
    }

    // --------------------------------------------------------------------------------------------------- the whole

    constexpr bool method_name(word &w)
    {
        w = peek_word();
        if (w.is("close") || w.is("closed"))
            return fail(w.at);
        if (w.length < 2 || w.start[0] != '_' || w.start[1] != '_')
            return name(w);
        next_word();
        return w.is("__len__") || w.is("__repr__") || w.is("__getitem__") || fail(w.at);
    }

    constexpr bool head()
    {
        word w = peek_word();
        if (w.is("class") && text[w.at + w.length] != '(') {
            next_word();
            out.is_class = true;
        }
        if (!name(w))
            return false;
        if (!out.is_class && w.length > 1 && w.start[0] == '_' && w.start[1] == '_')
            return fail(w.at);
        if (!out.is_class && accept('.')) {
            out.method = true;
            out.class_name = w.start;
            out.class_length = w.length;
            if (!method_name(w))
                return false;
        }
        out.name = w.start;
        out.name_length = w.length;
        return true;
    }

    constexpr bool returns(impl::kind wanted) const
    {
        return out.results == 1 && out.result[0].kind == wanted && !out.result[0].optional;
    }

    // Special methods have parameters and results that hosts expect.
    constexpr bool check_method()
    {
        word w{out.name, out.name_length, 0};
        bool ok = true;
        if (w.is("__len__"))
            ok = out.parameters == 1 && returns(kind::integer) && out.result[0].choices == 0;
        else if (w.is("__repr__"))
            ok = out.parameters == 1 && returns(kind::text);
        else if (w.is("__getitem__"))
            ok = out.parameters == 2 && required == 2 && out.parameter[1].kind == kind::integer && out.results == 1;
        return ok || fail(0);
    }

    // The names that tensors use.
    constexpr bool check_names()
    {
        for (int i = 0; i < dims.count; i++)
            if (!dims.bound[i] && !is_integer_parameter(dims.item[i]))
                return fail(dims.item[i].at);
        for (int i = 0; i < stars.count; i++)
            if (!stars.bound[i])
                return fail(stars.item[i].at);
        for (int i = 0; i < out.variables; i++)
            if (!defined[i] || !typed[i])
                return fail(static_cast<int>(out.variable[i].name - text));
        for (int i = 0; i < max_parameters + max_results; i++) {
            if (inplace[i] == 0)
                continue;
            at = inplace[i];
            word w = next_word();
            int other = find(w, out.parameter, out.parameters);
            if (other < 0 || other == i || out.parameter[other].kind != kind::tensor)
                return fail(w.at);
        }
        return true;
    }

    constexpr bool all()
    {
        if (!head())
            return false;
        if (!out.is_class && !(parameters() && results() && where()))
            return false;
        skip_spaces();
        if (text[at] != '\0')
            return fail(at);
        return (at < 8192 || fail(0)) && (!out.method || check_method()) && check_names();
    }
};

constexpr signature parse(const char *text)
{
    signature out{};
    parser p(text, out);
    out.ok = p.all();
    out.position = out.ok ? 0 : p.mistake;
    return out;
}

} // namespace TENON__HIDDEN
} // namespace tenon

#endif
