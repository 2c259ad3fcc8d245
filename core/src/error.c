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
        "TENON_EVERSION", "TENON_EPARSE",  "TENON_EOVERLAP",
    };
    if (status < 0 || (size_t)status >= sizeof names / sizeof *names)
        return "unknown status";
    return names[status];
}

tenon_status tenon_error_set(tenon_error *err, tenon_status status, const char *format, ...)
{
    if (!err)
        return status;
    err->status = status;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    if (length < 0)
        err->message[0] = '\0';
    else if ((size_t)length >= sizeof err->message)
        strcpy(err->message + sizeof err->message - 4, "...");
    return status;
}
