#include "internal.h"

#include <stdio.h>
#include <string.h>

const char *tenon_version(void)
{
    return TENON_VERSION;
}

const char *tenon_status_name(tenon_status status)
{
    static const char *const names[] = {
        "TENON_OK",       "TENON_EINVAL",  "TENON_ENOMEM",   "TENON_EOVERFLOW", "TENON_EDTYPE",
        "TENON_ESHAPE",   "TENON_ELAYOUT", "TENON_EBOUNDS",  "TENON_EDEVICE",   "TENON_EREADONLY",
        "TENON_EVERSION", "TENON_EPARSE",  "TENON_EOVERLAP", "TENON_EFAILED",   "TENON_ESYSTEM",
    };
    if (status < 0 || (size_t)status >= sizeof names / sizeof *names)
        return "unknown status";
    return names[status];
}

size_t tenon__whole_characters(const char *text, size_t length)
{
    size_t last = length; /* the start of the last character */
    while (last > 0 && length - last < 4) {
        unsigned char byte = (unsigned char)text[--last];
        if ((byte & 0xc0) != 0x80) {
            size_t needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
            return length - last < needed ? last : length;
        }
    }
    return length;
}

void tenon__truncate(char *text, size_t size)
{
    memcpy(text + tenon__whole_characters(text, size - 4), "...", 4);
}

static void fill_error(tenon_error *err, tenon_status status, const char *function, const char *format,
                       va_list arguments) TENON_PRINTF(4, 0);

static void fill_error(tenon_error *err, tenon_status status, const char *function, const char *format,
                       va_list arguments)
{
    if (tenon__debug())
        tenon__debug_forget_origin();
    if (!err)
        return;
    char message[sizeof err->message] = ""; /* the arguments may point into the current message */
    tenon__text text = {message, sizeof message, 0};
    if (function)
        tenon__text_add(&text, "%s(): ", function);
    tenon__text_add_va(&text, format, arguments);
    if (text.length >= sizeof message)
        tenon__truncate(message, sizeof message);
    err->status = status;
    err->os_error = 0;
    memcpy(err->message, message, sizeof message);
    err->function = function;
}

tenon_status tenon_error_set(tenon_error *err, tenon_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill_error(err, status, NULL, format, arguments);
    va_end(arguments);
    return status;
}

tenon_status tenon_error_set_in(tenon_error *err, tenon_status status, const char *function, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill_error(err, status, function, format, arguments);
    va_end(arguments);
    return status;
}

tenon_status tenon__error_rename(tenon_error *err, tenon_status status, const char *function)
{
    if (!status || !err)
        return status;
    int32_t os_error = err->os_error;
    tenon_error_set_in(err, status, function, "%s", tenon_error_reason(err));
    err->os_error = os_error;
    return status;
}
