/* Read and copy an open file. */
#define _POSIX_C_SOURCE 200809L /* pread, O_CLOEXEC */

#include "system.h"

#ifdef TENON__POSIX
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#endif

#ifdef TENON__POSIX

int64_t tenon__file_read(tenon__file file, void *memory, size_t size, int64_t at)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file, (char *)memory + done, size - done, (off_t)at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
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
    enum { FILE_PIECE = 1 << 16 };
    char *piece = tenon__alloc(FILE_PIECE, false);
    int64_t got = piece ? FILE_PIECE : -1;
    for (int64_t at = 0; got == FILE_PIECE; at += FILE_PIECE) {
        got = tenon__file_read(from, piece, FILE_PIECE, at);
        if (got > 0 && !write_all(to, piece, (size_t)got))
            got = -1;
    }
    int code = piece ? errno : ENOMEM;
    if (piece)
        tenon__free(piece, FILE_PIECE);
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
