/* Check and hash an open file. */
#include "system.h"

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

bool tenon__file_hash(tenon__file file, tenon__hash *out)
{
    enum { HASH_PIECE = 1 << 16 };
    unsigned char *piece = tenon__alloc(HASH_PIECE, false);
    *out = (tenon__hash){0, 0, 0};
    int64_t got = piece ? HASH_PIECE : -1;
    for (int64_t at = 0; got == HASH_PIECE; at += HASH_PIECE) {
        got = tenon__file_read(file, piece, HASH_PIECE, at);
        if (got > 0)
            tenon__hash_add(out, piece, (size_t)got);
    }
    tenon__hash_end(out);
    if (piece)
        tenon__free(piece, HASH_PIECE);
    else
        errno = ENOMEM;
    return got >= 0;
}

#endif
