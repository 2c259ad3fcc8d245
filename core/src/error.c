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
        "TENON_EVERSION", "TENON_EPARSE",  "TENON_EOVERLAP", "TENON_EFAILED",
    };
    if (status < 0 || (size_t)status >= sizeof names / sizeof *names)
        return "unknown status";
    return names[status];
}

tenon_status tenon_error_set(tenon_error *err, tenon_status status, const char *format, ...)
{
    if (tenon__debug())
        tenon__debug_forget_origin();
    if (!err)
        return status;
    char text[sizeof err->message] = ""; /* the arguments may point into the message that is there */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text) {
        size_t end = sizeof text - 4;
        while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) /* not inside a character of UTF-8 */
            end--;
        memcpy(text + end, "...", 4);
    }
    err->status = status;
    memcpy(err->message, text, sizeof text);
    return status;
}
