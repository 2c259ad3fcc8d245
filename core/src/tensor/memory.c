/* The allocator, the counters, and releases that are deferred to another thread. */
#include "internal.h"

#include <stdlib.h>

tenon__counters tenon__live;

static void *default_alloc(void *context, size_t size, bool zeroed)
{
    (void)context;
    return zeroed ? calloc(1, size) : malloc(size);
}

static void default_free(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

static const tenon_allocator default_allocator = {default_alloc, default_free, NULL};
static tenon_allocator allocator = {default_alloc, default_free, NULL};

void *tenon__alloc(size_t size, bool zeroed)
{
    return allocator.alloc(allocator.context, size, zeroed);
}

void tenon__free(void *memory, size_t size)
{
    allocator.free(allocator.context, memory, size);
}

static int64_t read_counter(const tenon__counter *counter)
{
    return atomic_load_explicit(&counter->first, memory_order_relaxed) +
           atomic_load_explicit(&counter->others, memory_order_relaxed);
}

tenon_stats tenon_stats_read(void)
{
    tenon_stats counts;
    counts.tensors = read_counter(&tenon__live.tensors);
    counts.exports = read_counter(&tenon__live.exports);
    counts.bytes = read_counter(&tenon__live.bytes);
    counts.deferred = read_counter(&tenon__live.deferred);
    return counts;
}

tenon_status tenon_set_allocator(const tenon_allocator *replacement, tenon_error *err)
{
    if (replacement && (!replacement->alloc || !replacement->free))
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_set_allocator", "argument 'allocator': its '%s' is NULL",
                                  replacement->alloc ? "free" : "alloc");
    tenon_stats counts = tenon_stats_read();
    if (counts.tensors || counts.exports)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_set_allocator",
                                  "%lld tensors and %lld exports are alive; set the allocator before the first tensor",
                                  (long long)counts.tensors, (long long)counts.exports);
    tenon__debug_flush();
    allocator = replacement ? *replacement : default_allocator;
    return TENON_OK;
}

/* ---------------------------------------------------------------------------------------------- deferred releases */

/* The public struct has an ordinary pointer, so that C++ can include the header. Here it is always accessed as an atomic. */
typedef _Atomic(void *) atomic_head;
_Static_assert(sizeof(atomic_head) == sizeof(void *) && _Alignof(atomic_head) == _Alignof(void *),
               "an atomic pointer must look like a pointer");

bool tenon_deferred_push(tenon_deferred *list, tenon_deferred_node *node, void (*release)(void *owner), void *owner)
{
    if (!list || !node)
        return false;
    atomic_head *head = (atomic_head *)&list->head;
    node->release = release;
    node->owner = owner;
    tenon__count(&tenon__live.deferred, 1);
    void *first = atomic_load_explicit(head, memory_order_relaxed);
    do {
        node->next = first;
    } while (!atomic_compare_exchange_weak_explicit(head, &first, node, memory_order_release, memory_order_relaxed));
    return first == NULL;
}

int64_t tenon_deferred_drain(tenon_deferred *list)
{
    if (!list)
        return 0;
    /* Taking the whole list at once avoids the ABA problem: no other thread can remove a node and push it again. */
    tenon_deferred_node *node = atomic_exchange_explicit((atomic_head *)&list->head, NULL, memory_order_acquire);
    tenon_deferred_node *in_order = NULL;
    while (node) {
        tenon_deferred_node *next = node->next;
        node->next = in_order;
        in_order = node;
        node = next;
    }
    int64_t count = 0;
    while (in_order) {
        tenon_deferred_node *next = in_order->next;
        tenon__count(&tenon__live.deferred, -1);
        if (in_order->release)
            in_order->release(in_order->owner);
        in_order = next;
        count++;
    }
    return count;
}
