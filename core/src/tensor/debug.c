/* Debug mode (TENON_DEBUG=1): a list of all live tensors with their origins, and released blocks that are kept to detect
 * further releases. */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The limits of the released blocks that are kept. */
enum { MAX_KEPT = 256, MAX_KEPT_BYTES = 64 << 20 };

_Atomic int tenon__debug_mode;
static atomic_flag list_lock = ATOMIC_FLAG_INIT;
static tenon_tensor *alive;
static tenon_tensor *kept_ring[MAX_KEPT];
static size_t kept_first, kept_count, kept_bytes;
static bool reporting;

static _Thread_local const char *next_origin;

static void lock_list(void)
{
    tenon__spin_lock(&list_lock);
}

static void unlock_list(void)
{
    tenon__spin_unlock(&list_lock);
}

bool tenon__debug_read_mode(void)
{
    int now = atomic_load_explicit(&tenon__debug_mode, memory_order_relaxed);
    if (now == TENON__DEBUG_UNKNOWN) {
        const char *value = getenv("TENON_DEBUG");
#ifdef TENON_DEBUG_BUILD
        bool on = !value || strcmp(value, "0") != 0;
#else
        bool on = value && *value && strcmp(value, "0") != 0;
#endif
        now = on ? TENON__DEBUG_ON : TENON__DEBUG_OFF;
        atomic_store_explicit(&tenon__debug_mode, now, memory_order_relaxed);
    }
    return now == TENON__DEBUG_ON;
}

void tenon_origin(const char *place)
{
    if (tenon__debug())
        next_origin = place;
}

void tenon__debug_forget_origin(void)
{
    next_origin = NULL;
}

static const char *origin_of(const tenon_tensor *tensor)
{
    return tensor->origin ? tensor->origin : "an unknown place";
}

static void report(void)
{
    lock_list();
    int64_t count = 0;
    for (const tenon_tensor *tensor = alive; tensor; tensor = tensor->next)
        count++;
    if (count)
        fprintf(stderr, "tenon: %" PRId64 " tensor%s still alive at exit\n", count, count == 1 ? "" : "s");
    for (const tenon_tensor *tensor = alive; tensor; tensor = tensor->next)
        fprintf(stderr, "  %s, %" PRId64 " bytes, count %" PRId64 ", created at %s\n",
                tenon__type_phrase(tensor->view.dtype, tensor->view.ndim, tensor->view.shape).text,
                tenon_view_nbytes(&tensor->view), tenon_tensor_refcount(tensor), origin_of(tensor));
    unlock_list();
    tenon__debug_flush();
}

void tenon__debug_add(tenon_tensor *tensor)
{
    /* Copy the origin, because the library that contains the string may be unloaded before the report. */
    size_t size = next_origin ? strlen(next_origin) + 1 : 0;
    tensor->origin = size ? malloc(size) : NULL;
    if (tensor->origin)
        memcpy(tensor->origin, next_origin, size);
    next_origin = NULL;
    lock_list();
    bool first = !reporting;
    reporting = true;
    tensor->previous = NULL;
    tensor->next = alive;
    if (alive)
        alive->previous = tensor;
    alive = tensor;
    unlock_list();
    if (first) {
        atexit(report);
        /* Otherwise a forked child could inherit the lock from a thread that does not exist in it. */
        tenon__at_fork(lock_list, unlock_list);
    }
}

static void free_kept(tenon_tensor *block)
{
    free(block->origin);
    tenon__free(block, block->block_size);
}

/* Remove the oldest kept block. The caller holds the lock. */
static tenon_tensor *evict(void)
{
    tenon_tensor *oldest = kept_ring[kept_first];
    kept_first = (kept_first + 1) % MAX_KEPT;
    kept_count--;
    kept_bytes -= oldest->block_size;
    return oldest;
}

void tenon__debug_retire(tenon_tensor *tensor)
{
    lock_list();
    if (tensor->previous)
        tensor->previous->next = tensor->next;
    else
        alive = tensor->next;
    if (tensor->next)
        tensor->next->previous = tensor->previous;
    /* Evicted blocks are freed after the lock is released, because the allocator is the user's code. */
    tenon_tensor *evicted = NULL;
    while (kept_count == MAX_KEPT || (kept_count > 0 && kept_bytes + tensor->block_size > MAX_KEPT_BYTES)) {
        tenon_tensor *oldest = evict();
        oldest->next = evicted;
        evicted = oldest;
    }
    kept_ring[(kept_first + kept_count) % MAX_KEPT] = tensor;
    kept_count++;
    kept_bytes += tensor->block_size;
    unlock_list();
    while (evicted) {
        tenon_tensor *next = evicted->next;
        free_kept(evicted);
        evicted = next;
    }
}

void tenon__debug_flush(void)
{
    for (;;) {
        lock_list();
        tenon_tensor *oldest = kept_count ? evict() : NULL;
        unlock_list();
        if (!oldest)
            return;
        free_kept(oldest);
    }
}

void tenon__debug_check(const tenon_tensor *tensor, int64_t count, const char *function)
{
    if (count > 0)
        return;
    fprintf(stderr, "tenon: %s(): %s created at %s was released too many times\n", function,
            tenon__type_phrase(tensor->view.dtype, tensor->view.ndim, tensor->view.shape).text, origin_of(tensor));
    abort();
}
