/* What the process holds, where it comes from, and releases that must wait for a better moment. */
#ifndef TENON_MEMORY_H
#define TENON_MEMORY_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------------------------- accounting */

typedef struct tenon_counts {
    int64_t tensors;  /* alive */
    int64_t exports;  /* DLPack structs given out, whose deleter has not run */
    int64_t bytes;    /* of data that Tenon allocated (alloc, copy, contiguous) and that are still held */
    int64_t deferred; /* pushed and not yet drained */
} tenon_counts;

/* What is alive in this process at this moment, as far as this copy of the library knows. */
TENON_API tenon_counts tenon_stats(void);

/* With TENON_DEBUG=1 (anything but empty and 0) in the environment of the process, every tensor still alive at exit is
 * listed on stderr with its origin, shape and bytes, and a tensor that is released too often stops the program with its
 * origin: the blocks of the last 256 tensors, up to 64 MiB of them, are kept for this after their release. A library
 * built with TENON_DEBUG_BUILD does so unless TENON_DEBUG=0. Making and releasing tensors takes a short lock then. */

/* Where Tenon's own memory comes from. `alloc` returns memory aligned as malloc's, all zero where `zeroed`, or NULL. */
typedef struct tenon_allocator {
    void *(*alloc)(void *context, size_t size, bool zeroed);
    void (*free)(void *context, void *memory, size_t size);
    void *context;
} tenon_allocator;

/* Use `allocator` from now on (its three fields are copied); NULL restores calloc, malloc and free.
 *
 * Threads: no other thread may be making tensors.
 * Errors:  TENON_EINVAL: a function is NULL, or memory of the present allocator is still in use. */
TENON_API TENON_NODISCARD tenon_status tenon_set_allocator(const tenon_allocator *allocator, tenon_error *err);

/* ----------------------------------------------------------------------------------------------- deferred release */

/* One release that waits. Its storage is the caller's, usually inside the owner, so that a push cannot fail. */
typedef struct tenon_deferred_node {
    struct tenon_deferred_node *next;
    void (*release)(void *owner);
    void *owner;
} tenon_deferred_node;

/* A lock-free list of them. All zero is an empty list. The caller's storage; only these functions touch it. */
typedef struct tenon_deferred {
    void *head;
} tenon_deferred;

/* Put release(owner) on the list. `node` belongs to the list until its release is called, which may free it.
 * Returns true where the list was empty: the one who drains wants waking. A NULL list or node is ignored.
 *
 * Threads: any, at any time; never waits. */
TENON_API bool tenon_deferred_push(tenon_deferred *list, tenon_deferred_node *node, void (*release)(void *owner),
                                   void *owner);

/* Run what was on the list when this was called, in the order of the pushes, and return how many there were. What a
 * release pushes waits for the next drain.
 *
 * Threads: any; two drains at once share the work, none runs twice. */
TENON_API size_t tenon_deferred_drain(tenon_deferred *list);

#ifdef __cplusplus
}
#endif

#endif
