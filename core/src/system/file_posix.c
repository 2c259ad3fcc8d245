/* Read an open file. */
#define _POSIX_C_SOURCE 200809L /* pread */

#include "system.h"

#ifdef TENON__POSIX
#include <errno.h>
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

#endif
