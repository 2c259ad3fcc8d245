/* What opening a library has in common on all systems. */
#include "internal.h"

#ifndef TENON_NO_SYSTEM
#include <errno.h>
#include <string.h>
#endif

#ifndef TENON_NO_SYSTEM

tenon_status tenon__system_failure(int code, const char *reason, tenon_error *err)
{
    tenon_status status = code == ENOMEM ? TENON_ENOMEM : TENON_EFAILED;
    tenon_error_set(err, status, "%s", reason ? reason : strerror(code));
    if (err)
        err->os_error = code;
    errno = code;
    return status;
}

tenon_status tenon__file_check(tenon__file file, uint64_t size, tenon_error *err)
{
    unsigned char header[TENON__LIBRARY_HEADER];
    tenon__library_table table;
    int64_t got = tenon__file_read(file, header, sizeof header, 0);
    if (got < 0)
        return tenon__system_failure(errno, NULL, err);
    tenon_status status = tenon__library_header(TENON__OWN_FORMAT, header, (size_t)got, size, &table, err);
    if (status || table.length == 0)
        return status;
    size_t length = (size_t)table.length;
    void *bytes = tenon__alloc(length, true); /* zeroed, in case the file has become shorter */
    if (!bytes)
        return tenon__system_failure(ENOMEM, NULL, err);
    if (tenon__file_read(file, bytes, length, (int64_t)table.at) < 0)
        status = tenon__system_failure(errno, NULL, err);
    else
        status = tenon__library_table_check(TENON__OWN_FORMAT, bytes, &table, size, err);
    tenon__free(bytes, length);
    return status;
}

tenon_status tenon__library_module(void *library, const tenon_module **out, tenon_error *err)
{
    tenon_module_fn get = tenon__loader_find_module(library);
    if (!get)
        return tenon_error_set(err, TENON_EINVAL,
                               "it has no " TENON_MODULE_SYMBOL
                               "(): it is not a library of Tenon functions; define them with TENON_MODULE");
    const tenon_module *module = get();
    tenon_status status = tenon_module_check(module, err);
    if (!status)
        *out = module;
    return status;
}

#endif
