/* Private declarations that the files in system/ share. */
#ifndef TENON_SYSTEM_H
#define TENON_SYSTEM_H

#include "../internal.h"

#ifndef TENON_NO_SYSTEM

/* A hash of the content of a file: 128 bits and the length. It is not cryptographic: two files can be made to have the
 * same hash on purpose. Start with zeros, add pieces (all but the last a multiple of 16 bytes), and end. */
typedef struct tenon__hash {
    uint64_t a, b, length;
} tenon__hash;

void tenon__hash_add(tenon__hash *hash, const void *bytes, size_t size);
void tenon__hash_end(tenon__hash *hash);

/* An open file. */
#ifdef TENON__WINDOWS
typedef void *tenon__file; /* a HANDLE */
#else
typedef int tenon__file;
#endif

/* Report the failure of a system call: TENON_EFAILED with errno set, or TENON_ENOMEM. If `reason` is NULL, the message is
 * strerror(code). */
tenon_status tenon__system_failure(int code, const char *reason, tenon_error *err);

/* Read `size` bytes, or fewer at the end of the file. Returns how many, or -1 with errno. */
int64_t tenon__file_read(tenon__file file, void *memory, size_t size, int64_t at);
/* Check an open file as tenon_library_check does. Reads only its headers. */
tenon_status tenon__file_check(tenon__file file, uint64_t size, tenon_error *err);
/* Hash the content of an open file. Returns false and sets errno on failure. */
bool tenon__file_hash(tenon__file file, tenon__hash *out);

/* The hash of the library that tenon_library_open opened and that has this module: 1, 0 if it opened none, or -1 if the
 * hash is unknown because the file has changed since. */
int tenon__library_hash(const tenon_module *module, tenon__hash *out);
/* Hash the file that the loader has mapped where the module is: an extension that Python imported. False if there is no
 * such file any more. */
bool tenon__module_file_hash(const tenon_module *module, tenon__hash *out);

#ifdef __linux__
enum { TENON__SHARED_ID_SIZE = 16 };

/* What the name of a shared tensor says: the process that holds it, its descriptor there, and the id of the memory. */
typedef struct tenon__shared_name {
    int process, file;
    unsigned char id[TENON__SHARED_ID_SIZE];
} tenon__shared_name;

/* TENON_EINVAL if it is not a name, TENON_EVERSION if a newer Tenon wrote it. */
tenon_status tenon__shared_name_read(const char *text, tenon__shared_name *out, const char *function, tenon_error *err);
/* Write at most TENON_SHARED_NAME_SIZE bytes. */
void tenon__shared_name_write(const tenon__shared_name *name, char *out);

/* Unmap memory. If it is large, a thread does it, and this function returns at once. */
void tenon__shared_unmap(void *map, size_t size);
/* Before this much memory is allocated, wait until what was released is free: both may be more than the machine has. */
void tenon__shared_await_unmap(size_t size);
#endif

#endif /* TENON_NO_SYSTEM */

#endif
