/* What the folder gives to the others: the loader, files, clocks, threads, processes and shared memory. Only this folder
 * calls the operating system. All others use only the C library: memory, strings, sorting, the environment, and stderr and
 * atexit for the report of TENON_DEBUG.
 *
 * TENON_NO_SYSTEM leaves this folder out, and with it the parts of library/ and shared/ that need it. */
#ifndef TENON_SYSTEM_INTERNAL_H
#define TENON_SYSTEM_INTERNAL_H

#include <tenon/tenon.h>

#ifndef TENON_NO_SYSTEM
#ifdef _WIN32
#define TENON__WINDOWS
#else
#define TENON__POSIX
#endif
#endif

/* Call `before` before every later fork, and `after` after it in both processes. Does nothing on systems without fork, or
 * without this folder. */
#ifdef TENON__POSIX
void tenon__at_fork(void (*before)(void), void (*after)(void));
#else
static inline void tenon__at_fork(void (*before)(void), void (*after)(void))
{
    (void)before;
    (void)after;
}
#endif

#ifndef TENON_NO_SYSTEM

/* ----------------------------------------------------------------------------------------------------------- files */

/* An open file. Functions that fail set errno. */
#ifdef TENON__WINDOWS
typedef void *tenon__file; /* a HANDLE */
#define TENON__NO_FILE ((tenon__file)(intptr_t)-1)
#else
typedef int tenon__file;
#define TENON__NO_FILE (-1)
#endif

/* Read `size` bytes, or fewer at the end of the file. Returns how many, or -1. */
int64_t tenon__file_read(tenon__file file, void *memory, size_t size, int64_t at);
/* Close the file, unless it is TENON__NO_FILE. Does not change errno. */
void tenon__file_close(tenon__file file);
bool tenon__file_exists(const char *path);
/* Open the file that the loader has mapped at this address, or return TENON__NO_FILE. */
tenon__file tenon__file_of_code(const void *address);

#ifdef TENON__POSIX
typedef struct tenon__file_state {
    uint64_t device, inode, links, mode;
    int64_t size;
    int64_t seconds, nanoseconds;                 /* of the last write */
    int64_t changed_seconds, changed_nanoseconds; /* of the last change */
    bool is_folder, is_regular;
} tenon__file_state;

/* Open a file for reading, without waiting for the other end of a pipe. */
tenon__file tenon__file_open(const char *path);
bool tenon__file_state_read(tenon__file file, tenon__file_state *out);
bool tenon__path_state_read(const char *path, tenon__file_state *out);
bool tenon__current_folder(char *out, size_t size);
#else
/* The absolute path, in the encoding of Windows. Release it with free(). */
wchar_t *tenon__path_absolute(const char *path);
bool tenon__path_is_folder(const wchar_t *path);
tenon__file tenon__file_open(const wchar_t *path);
/* -1 on failure. */
int64_t tenon__file_size(tenon__file file);
#endif

/* ---------------------------------------------------------------------------------------------------------- loader */

/* The lock of the list of open libraries. On POSIX one thread at a time opens libraries and has the lock meanwhile. There it
 * is recursive, because the constructors of a library may open others, and a fork waits for it: otherwise the child could
 * inherit a loader that is in the middle of its work. */
void tenon__loader_lock(void);
void tenon__loader_unlock(void);
/* The function TENON_MODULE_SYMBOL of an open library, or NULL. */
tenon_module_fn tenon__loader_find_module(void *library);
void tenon__loader_close(void *library);

#ifdef TENON__POSIX
/* Load the library, or find it if it is loaded. */
void *tenon__loader_open(const char *name);
/* The same, but NULL if it is not loaded. */
void *tenon__loader_open_loaded(const char *name);
/* Why the last function of the loader failed. May be NULL. */
const char *tenon__loader_error(void);
#else
/* NULL, and the number of an error of Windows, on failure. */
void *tenon__loader_open(const wchar_t *path, unsigned long *code);
#endif

/* ----------------------------------------------------------------------------------------------- clocks, processes */

#ifdef TENON__POSIX
/* The time in seconds, of the clock that the times of files are from. */
int64_t tenon__clock_seconds(void);
int tenon__process_id(void);
/* The number of threads of this process, or 0 if the system does not say. */
int tenon__thread_count(void);
#endif

/* Whether this CPU has the instructions of a variant: "x86-64-v3". */
bool tenon__cpu_has(const char *name);

/* --------------------------------------------------------------------------------------------------------- threads */

#ifdef TENON__POSIX
/* Whether this process was forked from another one, and is the same program: threads of the other one do not exist in it. */
bool tenon__process_is_forked(void);
/* A number that no other thread of the process has now. */
uintptr_t tenon__thread_id(void);

/* The threads that help with a loop. A helper that comes too late does not join. */
typedef struct tenon__crew {
    int members;
    bool closed;
} tenon__crew;

bool tenon__crew_join(tenon__crew *crew);
void tenon__crew_leave(tenon__crew *crew);
/* Wait until all members have left. No thread can join after this. */
void tenon__crew_close(tenon__crew *crew);

/* An OpenMP runtime, by the functions that compilers call. */
typedef struct tenon__openmp {
    /* Call work(data) on that many threads, this one included, and wait for them. */
    void (*parallel)(void (*work)(void *data), void *data, unsigned threads, unsigned flags);
    int (*max_threads)(void);
    int (*in_parallel)(void);
} tenon__openmp;

/* The runtime that is loaded, or else the system's, which is loaded now; NULL if there are none. One thread at a time may
 * call it. */
const tenon__openmp *tenon__openmp_find(void);
#endif

/* --------------------------------------------------------------------------------------------------- shared memory */

#ifdef __linux__

/* Seals of a memory file. They cannot be removed. */
enum {
    TENON__SEAL_SEAL = 1,
    TENON__SEAL_SHRINK = 2,
    TENON__SEAL_GROW = 4,
    TENON__SEAL_WRITE = 8,
    TENON__SEAL_FUTURE_WRITE = 16,
};

/* The limit on the size of files of this process, in bytes. */
uint64_t tenon__file_size_limit(void);
/* One write. Returns the number of bytes, or -1. */
int64_t tenon__file_write(tenon__file file, const void *bytes, size_t size, int64_t at);
/* Another descriptor for the same file. */
tenon__file tenon__file_duplicate(int file);
bool tenon__file_is_writable(tenon__file file);

/* Create an anonymous file in memory. */
tenon__file tenon__memory_file_create(void);
/* Open such a file of another process, read-only if it cannot be written to. */
tenon__file tenon__memory_file_open(const char *path);
/* Allocate its pages now: a page that cannot be allocated later would kill the program with SIGBUS. Returns 0 or an
 * errno. */
int tenon__memory_file_allocate(tenon__file file, uint64_t size);
/* Its seals, or -1. */
int tenon__memory_file_seals(tenon__file file);
bool tenon__memory_file_seal(tenon__file file, int seals);
/* Both return 0 or an errno. */
int tenon__memory_map(tenon__file file, size_t size, bool writable, void **out);
int tenon__memory_protect(void *map, size_t size, bool writable);
/* Unmap memory. If it is large, a thread does it, and this function returns at once. */
void tenon__memory_unmap(void *map, size_t size);
/* Before this much memory is allocated, wait until what was released is free: both may be more than the machine has. */
void tenon__memory_await_unmap(size_t size);

bool tenon__random_bytes(void *out, size_t size);
#endif

#endif /* TENON_NO_SYSTEM */

#endif
