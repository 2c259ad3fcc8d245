// Parses signatures at compile time, so that function.hpp can compare them with C++ functions.
//
// It accepts what the core accepts (core/src/signature/signature.c and its neighbours), and the parts that no host has
// yet. The module is not known here: every class exists, and a
// function with the name of a class is not known to be a constructor.
#ifndef TENON_CPP_SIGNATURE_HPP
#define TENON_CPP_SIGNATURE_HPP

#include <tenon/cpp/tensors.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

constexpr kind find_kind(const word &w)
{
    return w.is("int")        ? kind::integer
           : w.is("float")    ? kind::number
           : w.is("bool")     ? kind::boolean
           : w.is("str")      ? kind::text
           : w.is("ints")     ? kind::integers
           : w.is("floats")   ? kind::numbers
           : w.is("handle")   ? kind::handle
           : w.is("callable") ? kind::callable
           : w.is("uint")     ? kind::uinteger
           : w.is("complex")  ? kind::complex
           : w.is("bytes")    ? kind::bytes
           : w.is("strs")     ? kind::texts
           : w.is("dtype")    ? kind::dtype
                              : kind::none;
}

// The signature of an argument that is a callable, as that of a function. Its names are not valid.
constexpr signature parse_callable(const slot &item);

// Parses a signature from left to right.
struct parser : tensor_parser {
    bool keyword_only = false;
    int positional = 0, required = 0;

    using tensor_parser::tensor_parser;

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

    constexpr bool callable_type(slot &item)
    {
        word w{};
        if (in_result)
            return fail(at);
        if (!expect('(') || !quoted(w))
            return false;
        item.class_name = w.start;
        item.class_length = w.length;
        return (parse_callable(item).ok || fail(w.at)) && expect(')');
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

    // Whether the tensors of the list have a dimension in this place of the result: as many places from the start, or from
    // the end if it is after the "*".
    static constexpr bool has_place(const slot &item, int place, const slot &list)
    {
        if (place == item.star)
            return list.star >= 0;
        if (item.star < 0 || place < item.star)
            return place < (list.star >= 0 ? list.star : list.dims);
        return item.dims - place < list.dims - list.star;
    }

    // "for xs" after a list of results.
    constexpr bool for_each(slot &item)
    {
        next_word();
        word w = next_word();
        int index = find(w, out.parameter, out.parameters);
        if (index < 0 || out.parameter[index].kind != kind::tensors)
            return fail(w.at);
        for (int i = 0; i < anys; i++)
            if (!has_place(item, any_place[i], out.parameter[index]))
                return fail(any_at[i]);
        item.open = false;
        return unknown_at < 0 || fail(unknown_at);
    }

    constexpr bool tensors_type(slot &item)
    {
        accept('[');
        skip_spaces();
        int position = at;
        in_list = true;
        if (!tensor(item) || (item.optional && !fail(position)) || !expect(']'))
            return false;
        in_list = false;
        if (!in_result) {
            item.optional = accept('?');
            return true;
        }
        if (peek_word().is("for"))
            return for_each(item);
        item.open = true;
        return anys == 0 || fail(any_at[0]);
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
        if (item.kind == kind::none && first != '[' && !is_digit(first) && first != '-' && !is_quote(first)) {
            item.kind = kind::tensor;
            return tensor(item);
        }
        bool ok = true;
        if (item.kind != kind::none)
            next_word();
        if (item.kind == kind::handle) {
            ok = handle_type(item);
        } else if (item.kind == kind::callable) {
            ok = callable_type(item);
        } else if (item.kind == kind::dtype) {
            ok = !accept('(') || dtype_variable(item);
        } else if (listed) {
            ok = !accept('[') || list_length(item);
        } else if (first == '[') {
            item.kind = kind::tensors;
            return tensors_type(item);
        } else if (item.kind == kind::none) {
            ok = choice_type(item);
        }
        if (!ok)
            return false;
        item.optional = accept('?');
        bool is_integer_choice = item.kind == kind::integer && item.choices > 0;
        return !in_result || (item.kind != kind::dtype && !is_integer_choice) || fail(item.position);
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

    constexpr bool default_value(slot &item)
    {
        word w = peek_word();
        uint64_t whole = 0;
        bool negative = false;
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
            return quoted(w) && (find_dtype(w, item.dtype) || fail(w.at));
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

    constexpr void self(int position)
    {
        slot &item = out.parameter[0];
        item.kind = kind::handle;
        item.type = -1;
        item.name = "self";
        item.name_length = 4;
        item.class_name = out.class_name;
        item.class_length = out.class_length;
        item.position = position;
        out.parameters = positional = required = 1;
        out.method = true;
    }

    constexpr bool parameters()
    {
        if (!expect('('))
            return false;
        word w = peek_word();
        if (out.member && w.is("self")) { // without it, a static method
            next_word();
            if (after(w) == ':')
                return fail(w.at);
            self(w.at);
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
        out.constructor_candidate = !out.member;
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

    // ------------------------------------------------------------------------------------ properties and constants

    // The type after the ":".
    constexpr bool property()
    {
        self(at);
        in_result = true;
        if (!result())
            return false;
        in_result = false;
        return !out.result[0].name || fail(out.result[0].position);
    }

    // The value after the "=".
    constexpr bool constant()
    {
        word w = peek_word();
        uint64_t whole = 0;
        bool negative = false;
        out.is_constant = true;
        if (w.is("True") || w.is("False")) {
            next_word();
            return true;
        }
        if (is_quote(text[at]))
            return quoted(w);
        int end = at + (text[at] == '-');
        while (is_digit(text[end]))
            end++;
        bool is_float = text[end] == '.' || text[end] == 'e' || text[end] == 'E';
        return is_float ? literal(false, whole, negative) : integer(whole, negative);
    }

    // ------------------------------------------------------------------------------------------------ where clauses

    constexpr bool is_condition() const
    {
        int end = at;
        while (text[end] && text[end] != '<' && text[end] != '>' && text[end] != ',' && text[end] != '=')
            end++;
        return text[end] == '<' || text[end] == '>';
    }

    // One side of a condition.
    struct condition_side {
        int position;
        bool floats;  // a float parameter
        bool literal; // a number by itself
        bool whole;   // which is an integer
    };

    constexpr bool side(condition_side &out_side)
    {
        word w = peek_word();
        int index = find(w, out.parameter, out.parameters);
        out_side = condition_side{at, index >= 0 && out.parameter[index].kind == kind::number, false, false};
        if (out_side.floats) {
            next_word();
            return true;
        }
        uint64_t whole = 0;
        bool negative = false;
        reader ahead(text), again(text);
        ahead.at = again.at = at;
        if (ahead.literal(false, whole, negative)) {
            ahead.skip_spaces();
            char c = text[ahead.at];
            out_side.literal = c == '<' || c == '>' || c == ',' || c == '\0';
        }
        if (out_side.literal) {
            out_side.whole = again.integer(whole, negative);
            at = ahead.at;
            return true;
        }
        start = at;
        operations = 0;
        return expression();
    }

    constexpr bool condition()
    {
        condition_side left{}, right{};
        in_condition = true;
        if (!side(left))
            return false;
        if (!accept('<') && !accept('>'))
            return fail(at);
        at += text[at] == '=';
        if (!side(right))
            return false;
        in_condition = false;
        if ((left.literal && right.literal) || (left.floats && !right.literal) || (right.floats && !left.literal))
            return fail(left.position);
        const condition_side &number = left.literal ? left : right;
        return left.floats || right.floats || !number.literal || number.whole || fail(number.position);
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
        bool known = w.is("__call__") || w.is("__contains__") || w.is("__eq__") || w.is("__getitem__") ||
                     w.is("__getstate__") || w.is("__hash__") || w.is("__iter__") || w.is("__len__") ||
                     w.is("__next__") || w.is("__repr__") || w.is("__setitem__");
        return (known && after(w) == '(') || fail(w.at);
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
            out.member = true;
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

    // Whether it has exactly self and `count` parameters without defaults.
    constexpr bool takes(int count) const
    {
        return out.method && out.parameters == count + 1 && required == count + 1;
    }

    constexpr bool takes_index(int count) const
    {
        return takes(count) && out.parameter[1].kind == kind::integer && out.parameter[1].choices == 0;
    }

    // Special methods have parameters and results that hosts expect.
    constexpr bool fits_special(const word &w) const
    {
        const slot &other = out.parameter[1];
        if (w.is("__len__") || w.is("__hash__"))
            return takes(0) && returns(kind::integer);
        if (w.is("__repr__"))
            return takes(0) && returns(kind::text);
        if (w.is("__getstate__"))
            return takes(0) && returns(kind::bytes);
        if (w.is("__next__"))
            return takes(0) && out.results == 1;
        if (w.is("__iter__"))
            return takes(0) && returns(kind::handle);
        if (w.is("__getitem__"))
            return takes_index(1) && out.results == 1;
        if (w.is("__setitem__"))
            return takes_index(2) && out.results == 0;
        if (w.is("__contains__"))
            return takes(1) && returns(kind::boolean);
        if (w.is("__eq__"))
            return takes(1) && returns(kind::boolean) && other.kind == kind::handle &&
                   word{other.class_name, other.class_length, 0}.is(out.class_name, out.class_length);
        return out.method; // __call__
    }

    constexpr bool check_member()
    {
        word w{out.name, out.name_length, 0};
        bool special = w.length > 1 && w.start[0] == '_' && w.start[1] == '_';
        return !special || fits_special(w) || fail(0);
    }

    // Whether the default of dtype(T), if it has one, is one of the dtypes that are listed for T.
    constexpr bool is_possible_dtype(const slot &item) const
    {
        if (item.kind != kind::dtype || item.type < 0 || item.dtype.bits == 0 || out.variable[item.type].whole)
            return true;
        bool found = false;
        for (int i = 0; i < out.variable[item.type].count; i++)
            found |= tenon_dtype_equal(out.variable[item.type].dtypes[i], item.dtype);
        return found;
    }

    // Whether the name of the item's "*b" or "**b" is used for one of the two only, and for one batch.
    constexpr bool check_star(const slot &item, int batch)
    {
        bool tensors = item.kind == kind::tensor || item.kind == kind::tensors;
        bool used = tensors && item.star_name >= 0;
        return !used || item.batch == (item.star_name == batch) || fail(item.position);
    }

    constexpr bool check_batches()
    {
        int batch = -1;
        for (int i = out.parameters - 1; i >= 0; i--)
            batch = out.parameter[i].batch ? out.parameter[i].star_name : batch;
        for (int i = 0; i < out.parameters; i++)
            if (!check_star(out.parameter[i], batch))
                return false;
        for (int i = 0; i < out.results; i++)
            if (!check_star(out.result[i], batch))
                return false;
        return true;
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
        for (int i = 0; i < out.parameters; i++)
            if (!is_possible_dtype(out.parameter[i]))
                return fail(out.parameter[i].position);
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

    constexpr bool rest()
    {
        if (accept('='))
            return constant();
        if (out.member && accept(':'))
            return property();
        return parameters() && results() && where();
    }

    constexpr bool all()
    {
        if (!head())
            return false;
        if (!out.is_class && !rest())
            return false;
        skip_spaces();
        if (text[at] != '\0')
            return fail(at);
        return (at < 8192 || fail(0)) && (!out.member || check_member()) && check_names() && check_batches();
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

// Whether a callback may have this argument or result.
constexpr bool fits_callback(const slot &item, bool is_result)
{
    bool simple = item.kind == kind::integer || item.kind == kind::number || item.kind == kind::boolean ||
                  item.kind == kind::text || (item.kind == kind::tensor && !is_result);
    return simple && !item.optional && !item.defaulted && !item.kept && !item.batch;
}

constexpr signature parse_callable(const slot &item)
{
    enum { longest = 1023 };
    char named[longest + 1]{}; // a function needs a name
    signature out{};
    int from = 0;
    while (from < item.class_length && is_space(item.class_name[from]))
        from++;
    if (from == item.class_length || item.class_name[from] != '(' || item.class_length > longest - 1)
        return out;
    named[0] = 'f';
    for (int i = from; i < item.class_length; i++)
        named[i - from + 1] = item.class_name[i];
    parser p(named, out);
    out.ok = p.all() && !p.keyword_only;
    for (int i = 0; i < out.parameters; i++)
        out.ok = out.ok && fits_callback(out.parameter[i], false);
    for (int i = 0; i < out.results; i++)
        out.ok = out.ok && fits_callback(out.result[i], true);
    return out;
}

} // namespace impl
} // namespace tenon

#endif
