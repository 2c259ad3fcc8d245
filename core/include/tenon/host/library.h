/* Libraries of functions: open, check, hash and lock them. */
#ifndef TENON_HOST_LIBRARY_H
#define TENON_HOST_LIBRARY_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TENON_NO_SYSTEM
/* Open a shared library and find its module, which is checked with tenon_module_check. The file is checked first, so a
 * truncated file, or one that is not a library, is an error and not a crash.
 *
 * The same file always gives the same module, whatever name it is opened by. If there is a new build at the path, the
 * new one is opened; if its content is the same as that of an earlier build, the result may be the earlier module.
 *
 * - A build that replaced the file, as linkers, `install` and `mv` do, is opened in place. The old functions still work.
 * - A build that overwrote the open file, as `cp` does, has damaged the old functions for every user of the file. That is
 *   an error, until a new file is at the path.
 *
 * On Windows an open file cannot be overwritten. If it was renamed and a new build is at its path, that is an error.
 *
 * `path` is in the encoding of the system, and in UTF-8 on Windows. $ORIGIN is the folder in `path`, even if
 * the file is a symbolic link. Messages do not repeat the path. Older C libraries need -ldl and -pthread at link time. If
 * the core is compiled with TENON_NO_SYSTEM, this function does not exist.
 *
 * Ownership: the library is never closed, and *out is valid until the process ends.
 * Threads:   any. One thread at a time opens a library, and a fork in another thread waits for it.
 * Errors:    TENON_EFAILED if the file cannot be read, with the reason in errno (EBUSY if it was overwritten);
 *            TENON_EINVAL if it is not a library, if the loader refuses it, or if it has no valid module; TENON_EVERSION,
 *            TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_library_open(const char *path, const tenon_module **out, tenon_error *err);

/* The variant of a library that tenon_library_open chose: "x86-64-v3", or "baseline" if it is the file itself. If the CPU has
 * their instructions, a file kernels.x86-64-v4.so, kernels.x86-64-v3.so or kernels.x86-64-v2.so beside kernels.so is used instead
 * of it; on arm64 kernels.sve.so or kernels.armv8.2-a.so. It must have the same table. The environment variable TENON_VARIANT
 * names the one to use, or "baseline". The hash of the library is that of kernels.so.
 *
 * Threads: any. */
TENON_API const char *tenon_library_variant(const tenon_module *module);

/* Write 32 hexadecimal digits and a final 0 that identify the code of a module: the hash of its file when it was opened
 * with tenon_library_open, or that of its baseline; of the file that it is mapped from now; or of its signatures, if it has no file. The hash is not
 * cryptographic.
 *
 * Threads:   any.
 * Errors:    TENON_EFAILED if it is a large file that has changed since it was opened (the message names no function);
 *            TENON_EINVAL (NULL). */
enum { TENON_HASH_SIZE = 33 };
TENON_API TENON_NODISCARD tenon_status tenon_module_hash(const tenon_module *module, char text[TENON_HASH_SIZE],
                                                         tenon_error *err);

/* The lock of one library, for hosts whose threads have no lock of a runtime: functions without
 * TENON_RELEASE_LOCK run inside of it, one at a time. It is recursive, and free again in a forked child. `library` is any
 * address that stands for the library; hosts that use the same address share the lock.
 *
 * Release:   tenon_library_lock_release, as often as tenon_library_lock_retain, which returns NULL if memory is
 *            exhausted. The other functions ignore NULL.
 * Threads:   any. */
typedef struct tenon_library_lock tenon_library_lock;
TENON_API tenon_library_lock *tenon_library_lock_retain(const void *library);
TENON_API void tenon_library_lock_release(tenon_library_lock *lock);
TENON_API void tenon_library_lock_enter(tenon_library_lock *lock);
TENON_API void tenon_library_lock_leave(tenon_library_lock *lock);
#endif

/* Check whether the content of a file is a complete shared library for this machine, as tenon_library_open does: loading
 * a truncated one would crash the process. Libraries for another system (ELF, PE and Mach-O files) are recognised, and the
 * message says which system it is.
 *
 * Errors: TENON_EINVAL. */
TENON_API TENON_NODISCARD tenon_status tenon_library_check(const void *bytes, size_t size, tenon_error *err);

/* Check whether this library can host the module: its magic number, version and sizes, and that no required field is
 * missing.
 *
 * Errors: TENON_EINVAL, TENON_EVERSION. */
TENON_API TENON_NODISCARD tenon_status tenon_module_check(const tenon_module *module, tenon_error *err);

/* Copy an entry from the table of a checked module, whatever the size of its entries. Fields that they do not have are
 * 0. */
TENON_API void tenon_module_function(const tenon_module *module, int64_t index, tenon_function *out);

#ifdef __cplusplus
}
#endif

#endif
