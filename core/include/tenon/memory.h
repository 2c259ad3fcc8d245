/* Memory: counters of what is alive, the allocator, and deferred release. */
#ifndef TENON_MEMORY_H
#define TENON_MEMORY_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------------------------- accounting */

typedef struct tenon_stats {
    int64_t tensors;  /* alive */
    int64_t exports;  /* exported DLPack structs whose deleter has not run yet */
    int64_t bytes;    /* of live data that Tenon allocated (alloc, copy, contiguous) */
    int64_t deferred; /* deferred releases that have not been drained yet */
} tenon_stats;

/* The objects that are alive in this process at the moment. Each copy of the library counts only what it created. */
TENON_API tenon_stats tenon_stats_read(void);

/* Debug mode. It is on if the environment variable TENON_DEBUG is set to anything but an empty string or 0; in a library
 * built with TENON_DEBUG_BUILD it is on unless TENON_DEBUG is 0.
 *
 * At exit, every tensor that is still alive is listed on stderr with its shape, its size and the source line that
 * created it. A tensor that is released too many times aborts the program with that line. To detect this, the last 256
 * released tensors, up to 64 MiB in total, are kept. Creating and releasing a tensor takes a lock for a short time. */

/* Allocates Tenon's own memory. `alloc` returns memory with the alignment of malloc, filled with zeros if `zeroed` is
 * true, or NULL. */
typedef struct tenon_allocator {
    void *(*alloc)(void *context, size_t size, bool zeroed);
    void (*free)(void *context, void *memory, size_t size);
    void *context;
} tenon_allocator;

/* Use `allocator` from now on. Its fields are copied. NULL restores calloc, malloc and free.
 *
 * Threads: no other thread may be creating tensors.
 * Errors:  TENON_EINVAL (a function is NULL, or memory of the current allocator is still in use). */
TENON_API TENON_NODISCARD tenon_status tenon_set_allocator(const tenon_allocator *allocator, tenon_error *err);

/* ----------------------------------------------------------------------------------------------- deferred release */

/* One release that waits. The caller provides the storage, usually inside the owner, so that a push cannot fail. */
typedef struct tenon_deferred_node {
    struct tenon_deferred_node *next;
    void (*release)(void *owner);
    void *owner;
} tenon_deferred_node;

/* A lock-free list of such nodes, in the caller's storage. A list of all zeros is empty. Only the functions below may
 * access it. */
typedef struct tenon_deferred {
    void *head;
} tenon_deferred;

/* Add release(owner) to the list. Returns true if the list was empty: wake the thread that drains it. A NULL list or
 * node is ignored.
 *
 * Ownership: `node` belongs to the list until its release function is called, which may free it.
 * Threads:   any, at any time; never blocks. */
TENON_API bool tenon_deferred_push(tenon_deferred *list, tenon_deferred_node *node, void (*release)(void *owner),
                                   void *owner);

/* Run the releases that are on the list at the time of the call, in the order in which they were added, and return their
 * number. A release that is added by another release waits for the next drain.
 *
 * Threads: any. If two threads drain at the same time, each release runs exactly once. */
TENON_API int64_t tenon_deferred_drain(tenon_deferred *list);

#ifdef __cplusplus
}
#endif

#endif
