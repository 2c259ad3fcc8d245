/* What the files of this folder share. */
#ifndef TENON_SYSTEM_H
#define TENON_SYSTEM_H

#include "../internal.h"

#ifndef TENON_NO_SYSTEM

/* A hash of some content: 128 bits and the length. It finds equal files; it does not resist people who want two files to
 * look equal. Start with zeros, add pieces (all but the last a multiple of 16 bytes), and end. */
typedef struct tenon__hash {
    uint64_t a, b, length;
} tenon__hash;

void tenon__hash_add(tenon__hash *hash, const void *bytes, size_t size);
void tenon__hash_end(tenon__hash *hash);

#ifdef TENON__POSIX

/* The failure of a system call: TENON_EFAILED with errno, or TENON_ENOMEM. `reason` NULL: what the system says. */
tenon_status tenon__system_failure(int code, const char *reason, tenon_error *err);

/* Check an open file as tenon_library_check does, without reading more than its headers. */
tenon_status tenon__file_check(int file, uint64_t size, tenon_error *err);
/* Hash its content. False with errno. */
bool tenon__file_hash(int file, tenon__hash *out);
/* Make a file with this name and the content of `file`, sharing its blocks if the file system can. Returns a descriptor;
 * -1 with errno, and there is no such file. */
int tenon__file_copy(int file, const char *name);

#endif /* TENON__POSIX */

#endif /* TENON_NO_SYSTEM */

#endif
