/* Read, hash and copy an open file. */
#define _POSIX_C_SOURCE 200809L /* pread, O_CLOEXEC */

#include "system.h"

#ifdef TENON__POSIX
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#endif

#ifdef TENON__POSIX

/* Read `size` bytes, or fewer at the end of the file. Returns -1 and sets errno on failure. */
static ssize_t read_at(int file, void *memory, size_t size, off_t at)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file, (char *)memory + done, size - done, at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

tenon_status tenon__system_failure(int code, const char *reason, tenon_error *err)
{
    tenon_status status = code == ENOMEM ? TENON_ENOMEM : TENON_EFAILED;
    tenon_error_set(err, status, "%s", reason ? reason : strerror(code));
    if (err)
        err->os_error = code;
    errno = code;
    return status;
}

tenon_status tenon__file_check(int file, uint64_t size, tenon_error *err)
{
    unsigned char header[TENON__LIBRARY_HEADER];
    uint64_t at, count;
    ssize_t got = read_at(file, header, sizeof header, 0);
    if (got < 0)
        return tenon__system_failure(errno, NULL, err);
    tenon_status status = tenon__library_header(header, (size_t)got, size, &at, &count, err);
    if (status || count == 0)
        return status;
    size_t length = (size_t)count * TENON__LIBRARY_SEGMENT;
    void *segments = tenon__alloc(length, true); /* zeroed, in case the file has become shorter */
    if (!segments)
        return tenon__system_failure(ENOMEM, NULL, err);
    if (read_at(file, segments, length, (off_t)at) < 0)
        status = tenon__system_failure(errno, NULL, err);
    else
        status = tenon__library_segments(segments, count, size, err);
    tenon__free(segments, length);
    return status;
}

enum { PIECE = 1 << 16 };

bool tenon__file_hash(int file, tenon__hash *out)
{
    unsigned char *piece = tenon__alloc(PIECE, false);
    *out = (tenon__hash){0, 0, 0};
    ssize_t got = piece ? PIECE : -1;
    for (off_t at = 0; got == PIECE; at += PIECE) {
        got = read_at(file, piece, PIECE, at);
        if (got > 0)
            tenon__hash_add(out, piece, (size_t)got);
    }
    tenon__hash_end(out);
    if (piece)
        tenon__free(piece, PIECE);
    else
        errno = ENOMEM;
    return got >= 0;
}

static bool write_all(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(file, bytes, size);
        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        }
    }
    return true;
}

static bool copy_bytes(int from, int to)
{
    char *piece = tenon__alloc(PIECE, false);
    ssize_t got = piece ? PIECE : -1;
    for (off_t at = 0; got == PIECE; at += PIECE) {
        got = read_at(from, piece, PIECE, at);
        if (got > 0 && !write_all(to, piece, (size_t)got))
            got = -1;
    }
    int code = piece ? errno : ENOMEM;
    if (piece)
        tenon__free(piece, PIECE);
    errno = code;
    return got >= 0;
}

int tenon__file_copy(int file, const char *name)
{
    int copy = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (copy < 0)
        return -1;
#ifdef __linux__
    if (ioctl(copy, _IOW(0x94, 9, int), file) == 0) /* FICLONE, which not every <linux/fs.h> has */
        return copy;
#endif
    if (copy_bytes(file, copy))
        return copy;
    int code = errno;
    close(copy);
    unlink(name);
    errno = code;
    return -1;
}

#endif
