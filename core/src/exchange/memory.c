#include "../internal.h"

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

tenon_stats tenon_stats_read(void)
{
    tenon_stats counts;
    counts.tensors = atomic_load_explicit(&tenon__live.tensors, memory_order_relaxed);
    counts.exports = atomic_load_explicit(&tenon__live.exports, memory_order_relaxed);
    counts.bytes = atomic_load_explicit(&tenon__live.bytes, memory_order_relaxed);
    counts.deferred = atomic_load_explicit(&tenon__live.deferred, memory_order_relaxed);
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
