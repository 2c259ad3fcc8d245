/* The UTF-8 functions that hosts need. */
#include "../internal.h"
#include "host_private.h"

#include <string.h>

size_t tenon_utf8_length(const char *text, size_t left)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char first = bytes[0];
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    bool wrong = (first == 0xe0 && bytes[1] < 0xa0) || (first == 0xed && bytes[1] > 0x9f) ||
                 (first == 0xf0 && bytes[1] < 0x90) || (first == 0xf4 && bytes[1] > 0x8f);
    return wrong ? 0 : length;
}

bool tenon_utf8_is_valid(const char *text, size_t length)
{
    for (size_t at = 0, step; at < length; at += step) {
        step = tenon_utf8_length(text + at, length - at);
        if (step == 0)
            return false;
    }
    return true;
}

size_t tenon_utf8_cut(const char *text, size_t length, size_t most)
{
    return length <= most ? length : tenon__whole_characters(text, most);
}

void tenon_utf8_replace_invalid(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t step = tenon_utf8_length(text, left);
        if (!step)
            *text = '?';
        text += step ? step : 1;
        left -= step ? step : 1;
    }
}
