/* What the files of the folder share. It gives nothing to the others: their functions are in tenon/host/library.h. */
#ifndef TENON_LIBRARY_INTERNAL_H
#define TENON_LIBRARY_INTERNAL_H

#include "../tensor/internal.h"

/* --------------------------------------------------------------------------------------------------------- formats */

enum { TENON__LIBRARY_HEADER = 64 };

typedef enum tenon__library_format { TENON__UNKNOWN_FORMAT, TENON__ELF, TENON__PE, TENON__MACHO } tenon__library_format;

/* The format that the loader of this system takes. */
#if defined(_WIN32)
#define TENON__OWN_FORMAT TENON__PE
#elif defined(__APPLE__)
#define TENON__OWN_FORMAT TENON__MACHO
#else
#define TENON__OWN_FORMAT TENON__ELF
#endif

/* Where in the file its header says that the rest is described. `length` is 0 if there is nothing to check. */
typedef struct tenon__library_table {
    uint64_t at, length;
} tenon__library_table;

/* tenon_library_check for any format. */
tenon_status tenon__library_check(tenon__library_format format, const void *memory, size_t size, tenon_error *err);
/* The same in two steps, for a file of `size` bytes that is not in memory. The first step checks the header, of which
 * `length` bytes are passed: 64, unless the file is shorter. It finds the table, which the second step checks. */
tenon_status tenon__library_header(tenon__library_format format, const void *header, size_t length, uint64_t size,
                                   tenon__library_table *table, tenon_error *err);
tenon_status tenon__library_table_check(tenon__library_format format, const void *bytes,
                                        const tenon__library_table *table, uint64_t size, tenon_error *err);

#ifndef TENON_NO_SYSTEM

/* ---------------------------------------------------------------------------------------------------------- hashes */

/* A hash of the content of a file: 128 bits and the length. It is not cryptographic: two files can be made to have the
 * same hash on purpose. Start with zeros, add pieces (all but the last a multiple of 16 bytes), and end. */
typedef struct tenon__hash {
    uint64_t a, b, length;
} tenon__hash;

void tenon__hash_add(tenon__hash *hash, const void *bytes, size_t size);
void tenon__hash_end(tenon__hash *hash);
/* Hash the content of an open file. Returns false and sets errno on failure. */
bool tenon__file_hash(tenon__file file, tenon__hash *out);

/* The hash of the library that tenon_library_open opened and that has this module: 1, 0 if it opened none, or -1 if the
 * hash is unknown because the file has changed since. */
int tenon__library_hash(const tenon_module *module, tenon__hash *out);

/* --------------------------------------------------------------------------------------------------------- opening */

/* Report the failure of a system call: TENON_EFAILED with errno set, or TENON_ENOMEM. If `reason` is NULL, the message is
 * strerror(code). */
tenon_status tenon__system_failure(int code, const char *reason, tenon_error *err);
/* Check an open file as tenon_library_check does. Reads only its headers. */
tenon_status tenon__file_check(tenon__file file, uint64_t size, tenon_error *err);
/* tenon_library_open for this file alone: its variants are not looked for. The message names no function. */
tenon_status tenon__library_open_file(const char *path, const tenon_module **out, tenon_error *err);
/* The module of the library whose variant this is, or the module itself. */
const tenon_module *tenon__library_baseline(const tenon_module *module);
/* The module of an open library, checked. */
tenon_status tenon__library_module(void *library, const tenon_module **out, tenon_error *err);

#endif /* TENON_NO_SYSTEM */

#endif
