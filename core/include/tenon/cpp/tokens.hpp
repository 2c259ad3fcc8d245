// Reads the words of a signature at compile time: names, numbers, strings and dtypes. signature.hpp has the grammar.
#ifndef TENON_CPP_WORDS_HPP
#define TENON_CPP_WORDS_HPP

#include <tenon/cpp/visibility.hpp>
#include <tenon/function.h>

namespace tenon
{
namespace impl TENON__HIDDEN
{

constexpr tenon_dtype make_dtype(int code, int bits, int lanes = 1)
{
    return {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)};
}

constexpr bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

constexpr bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

constexpr bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

constexpr bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

constexpr bool is_quote(char c)
{
    return c == '\'' || c == '"';
}

// A sequence of letters, digits and underscores.
struct word {
    const char *start;
    int length;
    int at; // its position in the signature

    constexpr bool is(const char *text) const
    {
        for (int i = 0; i < length; i++)
            if (start[i] != text[i])
                return false;
        return text[length] == '\0';
    }

    constexpr bool is(const char *other, int other_length) const
    {
        if (length != other_length)
            return false;
        for (int i = 0; i < length; i++)
            if (start[i] != other[i])
                return false;
        return true;
    }

    // Whether it is one of the words of its length in a list without separators, all of which have that length.
    constexpr bool is_in(const char *list) const
    {
        for (; *list; list += length)
            if (is(list, length))
                return true;
        return false;
    }
};

// A keyword of Python, or an argument that hosts add.
constexpr bool is_reserved(const word &w)
{
    switch (w.length) {
    case 2:
        return w.is_in("asifinisor");
    case 3:
        return w.is_in("anddeldefforoutnottry");
    case 4:
        return w.is_in("NoneTrueelifelsefromlikepasswith");
    case 5:
        return w.is_in("Falseasyncawaitbreakclassraisewhileyield");
    case 6:
        return w.is_in("assertexceptglobalimportlambdareturn");
    case 7:
        return w.is("finally");
    case 8:
        return w.is_in("continuenonlocal");
    default:
        return false;
    }
}

constexpr bool is_device(const word &w)
{
    switch (w.length) {
    case 3:
        return w.is_in("cpuvpi");
    case 4:
        return w.is_in("cudarocmmaia");
    case 5:
        return w.is("metal");
    case 6:
        return w.is_in("openclvulkanoneapiwebgpu");
    case 7:
        return w.is_in("ext_devhexagon");
    case 8:
        return w.is("trainium");
    case 9:
        return w.is_in("cuda_hostrocm_host");
    default:
        return w.is("cuda_managed");
    }
}

// The code of a small float from what follows its number of bits, such as "_e4m3fn"; -1 if it is not known.
constexpr int find_small_float(const word &rest, int bits)
{
    if (bits == 8)
        return rest.is("_e3m4")          ? TENON_CODE_F8_E3M4
               : rest.is("_e4m3")        ? TENON_CODE_F8_E4M3
               : rest.is("_e4m3b11fnuz") ? TENON_CODE_F8_E4M3B11FNUZ
               : rest.is("_e4m3fn")      ? TENON_CODE_F8_E4M3FN
               : rest.is("_e4m3fnuz")    ? TENON_CODE_F8_E4M3FNUZ
               : rest.is("_e5m2")        ? TENON_CODE_F8_E5M2
               : rest.is("_e5m2fnuz")    ? TENON_CODE_F8_E5M2FNUZ
               : rest.is("_e8m0fnu")     ? TENON_CODE_F8_E8M0FNU
                                         : -1;
    if (bits == 6)
        return rest.is("_e2m3fn") ? TENON_CODE_F6_E2M3FN : rest.is("_e3m2fn") ? TENON_CODE_F6_E3M2FN : -1;
    return bits == 4 && rest.is("_e2m1fn") ? TENON_CODE_F4_E2M1FN : -1;
}

// The dtype of one lane with this name.
constexpr bool find_lane(const word &w, tenon_dtype &out)
{
    if (w.is("bool")) {
        out = make_dtype(TENON_CODE_BOOL, 8);
        return true;
    }
    int letters = 0, bits = 0, end = 0;
    while (letters < w.length && is_lower(w.start[letters]))
        letters++;
    for (end = letters; end < w.length && end < letters + 3 && is_digit(w.start[end]); end++)
        bits = bits * 10 + (w.start[end] - '0');
    word prefix{w.start, letters, w.at}, rest{w.start + end, w.length - end, w.at};
    bool power = bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128;
    if (bits == 0 || w.start[letters] == '0')
        return false;
    int code = -1;
    if (prefix.is("f") || prefix.is("float"))
        code = rest.length ? find_small_float(rest, bits) : power && bits > 8 ? TENON_CODE_FLOAT : -1;
    else if (rest.length)
        return false;
    else if (prefix.is("i") || prefix.is("int"))
        code = power || bits == 1 || bits == 2 || bits == 4 ? TENON_CODE_INT : -1;
    else if (prefix.is("u") || prefix.is("uint"))
        code = power || bits == 1 || bits == 2 || bits == 4 ? TENON_CODE_UINT : -1;
    else if (prefix.is("bf") || prefix.is("bfloat"))
        code = bits == 16 ? TENON_CODE_BFLOAT : -1;
    else if (prefix.is("c") || prefix.is("complex"))
        code = power && bits > 16 ? TENON_CODE_COMPLEX : -1;
    else if (prefix.is("opaque"))
        code = power ? TENON_CODE_OPAQUE : -1;
    if (code < 0)
        return false;
    out = make_dtype(code, bits);
    return true;
}

// The dtype with this name, which may end in its number of lanes: "f32x4", "f4_e2m1fn_x2".
constexpr bool find_dtype(const word &w, tenon_dtype &out)
{
    if (find_lane(w, out))
        return true;
    int digits = w.length, lanes = 0;
    while (digits > 0 && is_digit(w.start[digits - 1]))
        digits--;
    if (digits == w.length || digits == 0 || w.start[digits - 1] != 'x' || w.length - digits > 5 ||
        w.start[digits] == '0')
        return false;
    for (int i = digits; i < w.length; i++)
        lanes = lanes * 10 + (w.start[i] - '0');
    word lane{w.start, digits - 1, w.at};
    if (lane.length > 0 && lane.start[lane.length - 1] == '_')
        lane.length--;
    if (lanes > 65535 || !find_lane(lane, out))
        return false;
    out.lanes = static_cast<uint16_t>(lanes);
    return true;
}

// A position in the text of a signature. Functions that return bool return false after a mistake.
struct reader {
    const char *text;
    int at = 0;
    int mistake = -1; // the position of the first one

    constexpr explicit reader(const char *all) : text(all)
    {
    }

    constexpr bool fail(int position)
    {
        if (mistake < 0)
            mistake = position;
        return false;
    }

    constexpr void skip_spaces()
    {
        while (is_space(text[at]))
            at++;
    }

    constexpr bool accept(char wanted)
    {
        skip_spaces();
        if (text[at] != wanted)
            return false;
        at++;
        return true;
    }

    constexpr bool expect(char wanted)
    {
        return accept(wanted) || fail(at);
    }

    static constexpr bool is_inside(char c)
    {
        return is_lower(c) || is_digit(c) || c == '_' || is_upper(c);
    }

    constexpr word peek_word()
    {
        skip_spaces();
        word w{text + at, 0, at};
        while (is_inside(w.start[w.length]))
            w.length++;
        return w;
    }

    constexpr word next_word()
    {
        word w = peek_word();
        at += w.length;
        return w;
    }

    // The first character after the word that is not a space.
    constexpr char after(const word &w) const
    {
        int end = w.at + w.length;
        while (is_space(text[end]))
            end++;
        return text[end];
    }

    // The position after the last character that was read, not counting spaces.
    constexpr int end() const
    {
        int position = at;
        while (position > 0 && is_space(text[position - 1]))
            position--;
        return position;
    }

    // A number without a sign.
    constexpr bool number(int64_t &value)
    {
        word w = next_word();
        value = 0;
        for (int i = 0; i < w.length; i++) {
            int digit = w.start[i] - '0';
            if (!is_digit(w.start[i]))
                return fail(w.at + i);
            if (value > (INT64_MAX - digit) / 10)
                return fail(w.at);
            value = value * 10 + digit;
        }
        return w.length > 0 || fail(w.at);
    }

    // A number with an optional sign, as a default has it. The value of an integer is -whole if `negative` is set. A
    // "j" may follow if `imaginary` is set.
    constexpr bool literal(bool integer, uint64_t &whole, bool &negative, bool imaginary = false)
    {
        skip_spaces();
        int from = at, end = at + (text[at] == '-'), first = end;
        bool is_whole = true, complete = true;
        negative = first > from;
        while (is_digit(text[end]))
            end++;
        int digits = end - first;
        if (text[end] == '.') {
            is_whole = false;
            for (end++; is_digit(text[end]); end++)
                digits++;
        }
        if (digits && (text[end] == 'e' || text[end] == 'E')) {
            is_whole = false;
            end += 1 + (text[end + 1] == '-' || text[end + 1] == '+');
            complete = is_digit(text[end]);
            while (is_digit(text[end]))
                end++;
        }
        at = end;
        bool runs_on = is_inside(text[end]) && !(imaginary && text[end] == 'j');
        if (!digits || runs_on || !complete || end - from > 127)
            return fail(from);
        if (!integer)
            return true;
        if (!is_whole || (digits > 1 && text[first] == '0'))
            return fail(from);
        whole = 0;
        for (int i = first; i < end; i++) {
            auto digit = static_cast<uint64_t>(text[i] - '0');
            if (whole > (UINT64_MAX - digit) / 10)
                return fail(from);
            whole = whole * 10 + digit;
        }
        return true;
    }

    // A literal of 64 bits with a sign.
    constexpr bool integer(uint64_t &whole, bool &negative)
    {
        skip_spaces();
        int from = at;
        if (!literal(true, whole, negative))
            return false;
        return whole <= static_cast<uint64_t>(INT64_MAX) + negative || fail(from);
    }

    // A string in quotes, without them.
    constexpr bool quoted(word &w)
    {
        skip_spaces();
        char quote = text[at];
        w = word{text + at + 1, 0, at};
        if (quote != '\'' && quote != '"')
            return fail(at);
        int end = at + 1;
        while (text[end] != quote && text[end] != '\\' && static_cast<unsigned char>(text[end]) >= ' ')
            end++;
        if (text[end] != quote)
            return fail(text[end] == '\\' ? end : at);
        w.length = end - at - 1;
        at = end + 1;
        return true;
    }
};

} // namespace impl
} // namespace tenon

#endif
