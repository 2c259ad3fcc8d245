/* Building messages, and UTF-8. */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tenon__text_add_va(tenon__text *text, const char *format, va_list arguments)
{
    size_t left = text->buffer && text->length < text->size ? text->size - text->length : 0;
    int length = vsnprintf(left ? text->buffer + text->length : NULL, left, format, arguments);
    if (length > 0)
        text->length += (size_t)length;
}

void tenon__text_add(tenon__text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tenon__text_add_va(text, format, arguments);
    va_end(arguments);
}

void tenon__text_add_list(tenon__text *text, int32_t count, const int64_t *values)
{
    tenon__text_add(text, "[");
    for (int32_t i = 0; i < count; i++)
        tenon__text_add(text, "%s%" PRId64, i ? ", " : "", values[i]);
    tenon__text_add(text, "]");
}

tenon__phrase tenon__type_phrase(tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon__phrase phrase;
    tenon__text text = {phrase.text, sizeof phrase.text, 0};
    tenon__text_add_dtype(&text, dtype);
    tenon__text_add_list(&text, ndim, shape);
    return phrase;
}

tenon__phrase tenon__list_phrase(int32_t count, const int64_t *values)
{
    tenon__phrase phrase;
    tenon__text text = {phrase.text, sizeof phrase.text, 0};
    tenon__text_add_list(&text, count, values);
    return phrase;
}

tenon__phrase tenon__dtype_phrase(tenon_dtype dtype)
{
    tenon__phrase phrase;
    tenon__text text = {phrase.text, sizeof phrase.text, 0};
    tenon__text_add_dtype(&text, dtype);
    return phrase;
}

tenon__phrase tenon__device_phrase(tenon_device device)
{
    tenon__phrase phrase;
    tenon__text text = {phrase.text, sizeof phrase.text, 0};
    tenon__text_add_device(&text, device);
    return phrase;
}

size_t tenon_dtype_format(tenon_dtype dtype, char *buffer, size_t size)
{
    tenon__text text = {buffer, size, 0};
    tenon__text_add_dtype(&text, dtype);
    return text.length;
}

size_t tenon_device_format(tenon_device device, char *buffer, size_t size)
{
    tenon__text text = {buffer, size, 0};
    tenon__text_add_device(&text, device);
    return text.length;
}

size_t tenon_view_format(const tenon_view *view, char *buffer, size_t size)
{
    tenon__text text = {buffer, size, 0};
    if (!view) {
        tenon__text_add(&text, "no view");
        return text.length;
    }
    tenon__text_add_dtype(&text, view->dtype);
    tenon__text_add_list(&text, view->ndim, view->shape);
    tenon__text_add(&text, " strides ");
    tenon__text_add_list(&text, view->ndim, view->strides);
    tenon__text_add(&text, " on ");
    tenon__text_add_device(&text, view->device);
    if (view->flags & TENON_READ_ONLY)
        tenon__text_add(&text, ", read-only");
    if (view->flags & TENON_IS_COPIED)
        tenon__text_add(&text, ", a copy");
    if (view->flags & TENON_SUBBYTE_PADDED)
        tenon__text_add(&text, ", padded");
    tenon__text_add(&text, ", at 0x%" PRIxPTR, (uintptr_t)view->data);
    if (view->byte_offset)
        tenon__text_add(&text, " + %" PRIu64, view->byte_offset);
    return text.length;
}

/* The UTF-8 functions that hosts need. */

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
