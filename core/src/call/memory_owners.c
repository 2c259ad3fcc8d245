/* Whose memory is a tensor that the function passes to a callback? That of an argument, of a result, or of scratch.
 *
 * A function may have one callback for each of 100,000 tensors, so the tensors of lists and the memory that the function
 * allocates are sorted by address, at the first search. Memory that was
 * allocated since then is added by the next one. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- scratch */

typedef struct shared_scratch {
    tenon_tensor *tensor;
} shared_scratch;

static void release_scratch(void *memory)
{
    shared_scratch *scratch = memory;
    if (scratch->tensor)
        tenon_tensor_release(scratch->tensor);
}

void *tenon__call_shared_scratch(tenon_frame *f, size_t bytes, size_t align)
{
    tenon_call *call = &f->call;
    enum { TENSOR_ALIGNMENT = 64, MOST = 4096 };
    if ((align & (align - 1)) || align > MOST) {
        tenon_fail(call, TENON_EINVAL, "the alignment of scratch memory must be a power of two up to %d, got %zu", MOST,
                   align);
        return NULL;
    }
    size_t more = align > TENSOR_ALIGNMENT ? align : 0;
    int64_t size = bytes <= PTRDIFF_MAX - MOST ? (int64_t)(bytes + more) : INT64_MAX;
    shared_scratch *scratch = tenon__block_alloc_finished(&f->blocks, sizeof *scratch, release_scratch);
    if (scratch)
        scratch->tensor = NULL;
    if (!scratch || tenon_tensor_alloc(TENON_U8, 1, &size, 0, &scratch->tensor, NULL)) {
        tenon_fail(call, TENON_ENOMEM, "no memory for %zu bytes of scratch memory", bytes);
        return NULL;
    }
    uintptr_t start = (uintptr_t)tenon_tensor_view(scratch->tensor)->data;
    return (void *)(more ? (start + align - 1) & ~(uintptr_t)(align - 1) : start);
}

/* ------------------------------------------------------------------------------------------------------- the owners */

typedef struct memory_owner {
    tenon_device device;
    uintptr_t low, high;
    tenon_memory memory;
    size_t widest; /* the number of the owner that ends last, of those of the device up to this one */
} memory_owner;

/* Sorted runs, one for each bit of `count`, the longest first: one more owner changes only the short ones. */
struct tenon__owners {
    memory_owner *items;
    size_t count, room;
    const tenon_block *seen; /* it and those after it are among the owners */
};

static void release_owners(void *memory)
{
    struct tenon__owners *owners = memory;
    if (owners->items)
        tenon__free(owners->items, owners->room * sizeof *owners->items);
}

static bool make_room(struct tenon__owners *owners)
{
    if (owners->count < owners->room)
        return true;
    size_t room = owners->room ? 2 * owners->room : 16;
    memory_owner *items = room <= PTRDIFF_MAX / sizeof *items ? tenon__alloc(room * sizeof *items, false) : NULL;
    if (!items)
        return false;
    if (owners->items) {
        memcpy(items, owners->items, owners->count * sizeof *items);
        tenon__free(owners->items, owners->room * sizeof *items);
    }
    owners->items = items;
    owners->room = room;
    return true;
}

/* Add an owner at the end. False: there is no memory. */
static bool add_owner(struct tenon__owners *owners, const tenon_view *view, tenon_memory memory)
{
    if (view->numel == 0 || !tenon_device_has_addresses(view->device))
        return true;
    if (!make_room(owners))
        return false;
    tenon_extent extent = tenon_view_extent(view);
    uintptr_t data = (uintptr_t)view->data;
    owners->items[owners->count++] = (memory_owner){.device = view->device,
                                                    .low = data + (uintptr_t)extent.low,
                                                    .high = data + (uintptr_t)extent.high,
                                                    .memory = memory};
    return true;
}

static bool add_lists(struct tenon__owners *owners, uint32_t where, const tenon_value *values, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (values[i].kind != TENON_KIND_TENSORS || !values[i].as.list.data)
            continue;
        const tenon_view *views = values[i].as.list.data;
        for (int64_t k = 0; k < values[i].as.list.length; k++)
            if (!add_owner(owners, &views[k], (tenon_memory){.where = where, .index = i, .item = k}))
                return false;
    }
    return true;
}

/* Add the tensors that were pushed, and the scratch memory that was allocated, since the last search. */
static bool add_blocks(struct tenon__owners *owners, tenon_block *blocks)
{
    tenon_block *at = blocks;
    for (tenon__pushed *pushed; (pushed = tenon__block_find(&at, owners->seen, tenon__finish_pushed));)
        if (!add_owner(owners, &pushed->view,
                       (tenon_memory){.where = TENON_MEMORY_RESULT, .index = pushed->index, .item = pushed->item}))
            return false;
    at = blocks;
    for (shared_scratch *scratch; (scratch = tenon__block_find(&at, owners->seen, release_scratch));)
        if (scratch->tensor &&
            !add_owner(
                owners, tenon_tensor_view(scratch->tensor),
                (tenon_memory){.where = TENON_MEMORY_SCRATCH, .index = -1, .item = -1, .scratch = scratch->tensor}))
            return false;
    owners->seen = blocks;
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- sorting */

static int compare_places(tenon_device a, uintptr_t a_low, tenon_device b, uintptr_t b_low)
{
    if (a.device_type != b.device_type)
        return a.device_type < b.device_type ? -1 : 1;
    if (a.device_id != b.device_id)
        return a.device_id < b.device_id ? -1 : 1;
    return (a_low > b_low) - (a_low < b_low);
}

static int compare_owners(const void *a, const void *b)
{
    const memory_owner *left = a, *right = b;
    return compare_places(left->device, left->low, right->device, right->low);
}

static void sort_run(memory_owner *run, size_t count)
{
    qsort(run, count, sizeof *run, compare_owners);
    for (size_t i = 0; i < count; i++) {
        size_t before = i && tenon_device_equal(run[i - 1].device, run[i].device) ? run[i - 1].widest : i;
        run[i].widest = run[before].high > run[i].high ? before : i;
    }
}

/* Sort the runs that were not there when there were `before` owners. */
static void sort_runs(struct tenon__owners *owners, size_t before)
{
    size_t at = 0;
    for (size_t size = (SIZE_MAX >> 1) + 1; size; size >>= 1) {
        if (!(owners->count & size))
            continue;
        if ((before & ~(size - 1)) != at + size)
            sort_run(owners->items + at, size);
        at += size;
    }
}

/* ----------------------------------------------------------------------------------------------------------- searching */

/* An owner of this run that has all of the memory, or NULL. */
static const memory_owner *search_run(const memory_owner *run, size_t count, tenon_device device, uintptr_t low,
                                      uintptr_t high)
{
    size_t first = 0, last = count; /* of the owners that begin after `low` */
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (compare_places(run[middle].device, run[middle].low, device, low) <= 0)
            first = middle + 1;
        else
            last = middle;
    }
    if (first == 0 || !tenon_device_equal(run[first - 1].device, device))
        return NULL;
    const memory_owner *widest = &run[run[first - 1].widest];
    return widest->high >= high ? widest : NULL;
}

static const memory_owner *search_owners(const struct tenon__owners *owners, const tenon_view *view)
{
    tenon_extent extent = tenon_view_extent(view);
    uintptr_t low = (uintptr_t)view->data + (uintptr_t)extent.low,
              high = (uintptr_t)view->data + (uintptr_t)extent.high;
    const memory_owner *found = NULL;
    size_t at = 0;
    for (size_t size = (SIZE_MAX >> 1) + 1; size && !found; size >>= 1) {
        if (!(owners->count & size))
            continue;
        found = search_run(owners->items + at, size, view->device, low, high);
        at += size;
    }
    return found;
}

/* The owners of the call, up to date. NULL: there is no memory. */
static const struct tenon__owners *find_owners(tenon_frame *f)
{
    struct tenon__owners *owners = f->call.flags & TENON__CALL_OWNERS ? f->owners : NULL;
    size_t before = owners ? owners->count : 0;
    bool done = true;
    if (!owners) {
        owners = tenon__block_alloc_finished(&f->blocks, sizeof *owners, release_owners);
        if (!owners)
            return NULL;
        memset(owners, 0, sizeof *owners);
        f->owners = owners;
        f->call.flags |= TENON__CALL_OWNERS;
        done = add_lists(owners, TENON_MEMORY_ARGUMENT, f->args, f->signature->nparams) &&
               add_lists(owners, TENON_MEMORY_RESULT, f->results, f->signature->nresults);
    }
    done = done && (owners->seen == f->blocks || add_blocks(owners, f->blocks));
    if (!done)
        return NULL;
    if (owners->count != before)
        sort_runs(owners, before);
    return owners;
}

/* Look among the arguments or results that are not lists. Those in memory of the library are not the host's, and converted
 * arguments are in scratch memory. */
static bool find_single(const tenon_value *values, const tenon_parameter *params, int32_t count, const tenon_view *view,
                        tenon_memory *out)
{
    for (int32_t i = 0; i < count; i++) {
        bool unset = (values[i].flags & (TENON_VALUE_UNSET | TENON__VALUE_CONVERTED)) ||
                     (params[i].flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF));
        if (values[i].kind != TENON_KIND_TENSOR || unset ||
            !tenon_device_equal(values[i].as.view->device, view->device) || !tenon__is_within(view, values[i].as.view))
            continue;
        out->index = i;
        return true;
    }
    return false;
}

tenon_status tenon__find_memory(tenon_frame *f, const tenon_view *view, tenon_memory *out)
{
    const tenon_signature *s = f->signature;
    *out = (tenon_memory){.where = TENON_MEMORY_NONE, .index = -1, .item = -1};
    if (view->numel == 0)
        return TENON_OK;
    out->where = TENON_MEMORY_ARGUMENT;
    if (find_single(f->args, s->params, s->nparams, view, out))
        return TENON_OK;
    out->where = TENON_MEMORY_RESULT;
    if (find_single(f->results, s->results, s->nresults, view, out))
        return TENON_OK;
    const struct tenon__owners *owners = find_owners(f);
    if (!owners)
        return TENON_ENOMEM;
    const memory_owner *found = search_owners(owners, view);
    if (!found)
        return TENON_EFAILED;
    *out = found->memory;
    return TENON_OK;
}
