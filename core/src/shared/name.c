/* The names of shared tensors: "tenon-shared:<version>:<pid>:<fd>:<id>". */
#include "internal.h"

#if defined(__linux__) && !defined(TENON_NO_SYSTEM)

#include <tenon/shared.h>

#include <stdio.h>
#include <string.h>

enum { NAME_VERSION = 1 };
static const char shared_prefix[] = "tenon-shared:";

/* Read a number from 0 to INT32_MAX without leading zeros, and the colon after it. */
static bool read_number(const char **at, int *out)
{
    const char *text = *at;
    int64_t value = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 11; digits++)
        value = 10 * value + (text[digits] - '0');
    if (digits == 0 || (digits > 1 && text[0] == '0') || value > INT32_MAX || text[digits] != ':')
        return false;
    *out = (int)value;
    *at = text + digits + 1;
    return true;
}

static bool read_id(const char *text, unsigned char id[TENON__SHARED_ID_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    if (strspn(text, digits) != 2 * TENON__SHARED_ID_SIZE || text[2 * TENON__SHARED_ID_SIZE])
        return false;
    for (size_t i = 0; i < TENON__SHARED_ID_SIZE; i++)
        id[i] =
            (unsigned char)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
    return true;
}

tenon_status tenon__shared_name_read(const char *text, tenon__shared_name *out, const char *function, tenon_error *err)
{
    int version = 0;
    const char *at = text + strlen(shared_prefix);
    bool is_name = strncmp(text, shared_prefix, strlen(shared_prefix)) == 0 && read_number(&at, &version);
    if (is_name && version > NAME_VERSION)
        return tenon_error_set_in(err, TENON_EVERSION, function,
                                  "argument 'name' has version %d; update Tenon in this process", version);
    if (!is_name || version != NAME_VERSION || !read_number(&at, &out->process) || out->process == 0 ||
        !read_number(&at, &out->file) || !read_id(at, out->id))
        return tenon_error_set_in(err, TENON_EINVAL, function,
                                  "argument 'name': expected \"tenon-shared:1:<pid>:<fd>:<32 hexadecimal digits>\", "
                                  "got \"%.100s\"",
                                  text);
    return TENON_OK;
}

void tenon__shared_name_write(const tenon__shared_name *name, char *out)
{
    int end =
        snprintf(out, TENON_SHARED_NAME_SIZE, "%s%d:%d:%d:", shared_prefix, NAME_VERSION, name->process, name->file);
    for (size_t i = 0; i < sizeof name->id; i++)
        snprintf(out + (size_t)end + 2 * i, 3, "%02x", name->id[i]);
}

#endif
