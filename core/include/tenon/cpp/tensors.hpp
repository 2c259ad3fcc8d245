// Parses the tensors of a signature at compile time: dtypes, dimensions and attributes.
#ifndef TENON_CPP_TENSORS_HPP
#define TENON_CPP_TENSORS_HPP

#include <tenon/cpp/parsed.hpp>

namespace tenon
{
namespace impl TENON__HIDDEN
{

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

// Parses tensors, and remembers their names. Functions that return bool return false after a mistake.
struct tensor_parser : reader {
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
    int inplace[max_parameters + max_results]{}; // the position of the name in "inplace(...)", of each tensor
    word of{};                                   // the name in the last "of(...)"
    int any_place[32]{}, any_at[32]{};           // the dimensions "_" and "*_" of the last tensor, and their positions
    int anys = 0;
    int unknown_at = -1; // the position of its first "?"
    bool in_result = false, in_condition = false, in_list = false;
    bool on_cpu = true;  // the last tensor may be in memory of the CPU
    int start = 0;       // the position of the tensor or condition that is being parsed
    int operations = 0;  // of all its expressions
    bool single = false; // the last expression is one number or name
    bool zero = false;   // it is the number 0, at this position:
    int zero_at = 0;
    int named = -1; // it is this name of a dimension

    constexpr tensor_parser(const char *all, signature &result) : reader(all), out(result)
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
        bool is_uint = i >= 0 && in_condition && out.parameter[i].kind == kind::uinteger;
        return is_uint || (i >= 0 && out.parameter[i].kind == kind::integer);
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
            zero_at = w.at;
        } else if (is_lower(first) || (in_condition && first)) {
            next_word();
            if (in_condition)
                return ((find(w, dims) >= 0 || is_integer_parameter(w)) && step(w.at)) || fail(w.at);
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
                return fail(zero_at);
            if (!step(position))
                return false;
            single = false;
            named = -1;
        }
    }

    // A dimension of any size. Of the results only lists may have one.
    constexpr bool any_dimension(int place, int position)
    {
        any_place[anys] = place;
        any_at[anys++] = position;
        return !in_result || in_list || fail(position);
    }

    constexpr bool dimension(slot &item, int count)
    {
        skip_spaces();
        int position = at;
        if (count == 32)
            return fail(at);
        if (accept('*')) {
            bool batch = accept('*');
            word w = next_word();
            int index = 0;
            bool anonymous = w.is("_");
            if (!anonymous && (w.length == 0 || !is_lower(*w.start)))
                return fail(w.at);
            if (item.rank < 0 || (batch && (anonymous || count > 0)))
                return fail(position);
            item.batch = batch;
            item.star = count;
            if (anonymous) {
                item.rank = -1;
                return any_dimension(count, position);
            }
            w.at = position; // mistakes are shown at the '*'
            if (!intern(w, stars, max_variables, index))
                return false;
            stars.bound[index] |= !in_result;
            item.star_name = index;
            item.rank = -1;
            return true;
        }
        item.rank += item.rank >= 0;
        if (in_result && accept('?')) {
            item.open = true;
            unknown_at = unknown_at < 0 ? position : unknown_at;
            return true;
        }
        if (peek_word().is("_")) {
            next_word();
            return any_dimension(count, position);
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
                on_cpu |= w.is("cpu");
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
            if (attribute == at_device)
                on_cpu = w.is("cpu");
            if (((flags & at_c) && (flags & at_f)) || ((flags & at_anywhere) && (flags & at_device)) ||
                ((flags & at_aligned) && (flags & at_unaligned)))
                return fail(w.at);
            if (!attribute_details(attribute))
                return false;
        }
    }

    // A batch is a view whose strides may be 0, of the host's memory.
    constexpr bool check_batch(const slot &item, unsigned flags)
    {
        unsigned refused = in_result ? at_own | at_of : at_c | at_f | at_dense | at_rw | at_keep;
        return !item.batch || (!in_list && !(flags & refused)) || fail(item.position);
    }

    // Attributes of a parameter.
    constexpr bool check_parameter(const slot &item, unsigned flags)
    {
        bool sharing = flags & (at_alias | at_inplace);
        bool converted = flags & at_convert;
        bool wrong = (flags & (at_own | at_of)) || ((flags & (at_keep | at_convert)) && (flags & at_rw)) ||
                     (converted && ((flags & at_keep) || item.type >= 0 || item.dtype.bits == 0 || !on_cpu)) ||
                     (sharing && !(flags & at_rw)) ||
                     (item.kind == kind::tensors && (flags & (at_keep | at_convert | at_inplace)));
        return !wrong || fail(item.position);
    }

    // Attributes of a result.
    constexpr bool check_result(slot &item, unsigned flags)
    {
        unsigned lifetime = flags & (at_keep | at_own | at_of);
        if (in_list && (lifetime || (flags & (at_alias | at_inplace))))
            return fail(item.position);
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
            if (owner < 0 || !(of_self || out.parameter[owner].kind == kind::tensor) ||
                out.parameter[owner].converted || out.parameter[owner].batch)
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
        operations = anys = 0;
        unknown_at = item.star = item.star_name = -1;
        item.rank = 0;
        if (!element(item) || !expect('['))
            return false;
        if (!accept(']')) {
            int count = 0;
            do {
                if (!dimension(item, count++))
                    return false;
                item.dims = count;
            } while (accept(','));
            if (!expect(']'))
                return false;
        }
        item.optional = accept('?');
        unsigned flags = 0;
        on_cpu = true;
        if (!attributes(flags))
            return false;
        if (end() - start >= 256)
            return fail(start);
        item.written = flags & at_rw;
        item.kept = flags & at_keep;
        item.converted = flags & at_convert;
        item.owned = flags & at_own;
        item.shown = flags & at_of;
        item.contiguous = flags & at_c;
        item.unaligned = flags & at_unaligned;
        return check_batch(item, flags) && (in_result ? check_result(item, flags) : check_parameter(item, flags));
    }
};

} // namespace impl
} // namespace tenon

#endif
