/* torch tensors on memory that must not be written to. torch itself has no such tensors, so the addresses are listed here
 * until the storage is freed. Every view of the storage is found by its address. They are sorted, because each tensor argument
 * of a call is looked up, and a program may have received thousands of tensors: searching all of them takes microseconds. */
#include "internal.h"

#include <tenon/shared.h>

#include <stdlib.h>

struct tenon__py_range {
    uintptr_t start, end;
    uintptr_t reach; /* the largest `end` up to here: the same memory may be listed twice, or a part of it */
};

/* The owner of the memory as torch sees it. */
typedef struct torch_guard {
    tenon_tensor *tensor;
    uintptr_t start, end;
} torch_guard;

/* ------------------------------------------------------------------------------------------------------- the ranges */

/* The number of ranges that start at or before `address`. The lock is held. */
static size_t torch_ranges_until(uintptr_t address)
{
    size_t low = 0, high = (size_t)atomic_load_explicit(&tenon__py_torch.nranges, memory_order_relaxed);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tenon__py_torch.ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void torch_update_reach(size_t from, size_t count)
{
    struct tenon__py_range *ranges = tenon__py_torch.ranges;
    for (size_t i = from; i < count; i++)
        ranges[i].reach = i > 0 && ranges[i - 1].reach > ranges[i].end ? ranges[i - 1].reach : ranges[i].end;
}

/* The lock is held. */
static bool torch_add_range(const torch_guard *guard)
{
    struct tenon__py_range *ranges = tenon__py_torch.ranges;
    size_t count = (size_t)atomic_load_explicit(&tenon__py_torch.nranges, memory_order_relaxed);
    if (count == tenon__py_torch.ranges_room) {
        size_t room = count ? 2 * count : 16;
        struct tenon__py_range *larger = realloc(ranges, room * sizeof *ranges);
        if (!larger)
            return false;
        tenon__py_torch.ranges = ranges = larger;
        tenon__py_torch.ranges_room = room;
    }
    size_t at = torch_ranges_until(guard->start);
    memmove(ranges + at + 1, ranges + at, (count - at) * sizeof *ranges);
    ranges[at] = (struct tenon__py_range){guard->start, guard->end, guard->end};
    torch_update_reach(at, count + 1);
    atomic_store_explicit(&tenon__py_torch.nranges, (int64_t)count + 1, memory_order_relaxed);
    int on = TENON__PY_TORCH_ON;
    atomic_compare_exchange_strong(&tenon__py_torch.state, &on, TENON__PY_TORCH_GUARDED);
    return true;
}

/* The lock is held. */
static void torch_remove_range(const torch_guard *guard)
{
    struct tenon__py_range *ranges = tenon__py_torch.ranges;
    size_t count = (size_t)atomic_load_explicit(&tenon__py_torch.nranges, memory_order_relaxed);
    size_t at = torch_ranges_until(guard->start);
    while (at > 0 && ranges[at - 1].end != guard->end) /* those that start at the same address */
        at--;
    if (at == 0)
        return;
    memmove(ranges + at - 1, ranges + at, (count - at) * sizeof *ranges);
    torch_update_reach(at - 1, count - 1);
    atomic_store_explicit(&tenon__py_torch.nranges, (int64_t)count - 1, memory_order_relaxed);
    int guarded = TENON__PY_TORCH_GUARDED;
    if (count == 1)
        atomic_compare_exchange_strong(&tenon__py_torch.state, &guarded, TENON__PY_TORCH_ON);
}

void tenon__py_torch_use_layout(void)
{
    tenon__py_spin_lock(&tenon__py_torch.ranges_lock);
    bool guarded = atomic_load_explicit(&tenon__py_torch.nranges, memory_order_relaxed) != 0;
    atomic_store_explicit(&tenon__py_torch.state, guarded ? TENON__PY_TORCH_GUARDED : TENON__PY_TORCH_ON,
                          memory_order_release);
    tenon__py_spin_unlock(&tenon__py_torch.ranges_lock);
}

static TENON__PY_NOINLINE bool torch_is_listed(const tenon_view *view)
{
    if (view->numel == 0 || !tenon_device_on_host(view->device))
        return false;
    uintptr_t address = (uintptr_t)view->data;
    tenon__py_spin_lock(&tenon__py_torch.ranges_lock);
    size_t before = torch_ranges_until(address);
    bool found = before > 0 && address < tenon__py_torch.ranges[before - 1].reach;
    tenon__py_spin_unlock(&tenon__py_torch.ranges_lock);
    return found;
}

bool tenon__py_torch_is_read_only(const tenon_view *view)
{
    return atomic_load_explicit(&tenon__py_torch.nranges, memory_order_relaxed) && torch_is_listed(view);
}

/* The thread that held the lock does not exist in the child. */
static void torch_unlock_ranges(void)
{
    tenon__py_spin_unlock(&tenon__py_torch.ranges_lock);
}

/* ------------------------------------------------------------------------------------------------------- receiving */

/* On any thread. */
static void torch_release_guard(void *owner)
{
    torch_guard *guard = owner;
    tenon__py_spin_lock(&tenon__py_torch.ranges_lock);
    torch_remove_range(guard);
    tenon__py_spin_unlock(&tenon__py_torch.ranges_lock);
    tenon_tensor_release(guard->tensor);
    free(guard);
}

/* List the memory of a view. The guard holds `tensor`, which may be NULL. NULL with an exception. */
static torch_guard *torch_new_guard(const tenon_view *view, tenon_tensor *tensor)
{
    torch_guard *guard = malloc(sizeof *guard);
    if (!guard)
        return (void *)PyErr_NoMemory();
    *guard = (torch_guard){tensor, (uintptr_t)view->data, (uintptr_t)view->data + (uintptr_t)tenon_view_nbytes(view)};
    if (!atomic_exchange(&tenon__py_torch.watches_forks, true))
        tenon__py_after_fork(torch_unlock_ranges);
    tenon__py_spin_lock(&tenon__py_torch.ranges_lock);
    bool added = torch_add_range(guard);
    tenon__py_spin_unlock(&tenon__py_torch.ranges_lock);
    if (!added) {
        free(guard);
        return (void *)PyErr_NoMemory();
    }
    tenon_tensor_retain(tensor);
    return guard;
}

PyObject *tenon__py_torch_receive(tenon_tensor *tensor)
{
    tenon_view view = *tenon_tensor_view(tensor);
    tenon_tensor *guarded = NULL;
    tenon_error err;
    if (!(view.flags & TENON_VIEW_DENSE) || !tenon_device_on_host(view.device))
        return PyErr_Format(PyExc_BufferError, "torch: only memory of the CPU without gaps can be received");
    torch_guard *guard = torch_new_guard(&view, tensor);
    if (!guard)
        return NULL;
    view.flags &= ~(uint64_t)TENON_READ_ONLY; /* torch takes no other; its owner keeps it in the list */
    if (tenon_tensor_from_view(&view, guard, torch_release_guard, &guarded, &err)) {
        torch_release_guard(guard);
        return tenon__py_raise_in("torch", &err);
    }
    PyObject *object = tenon__py_torch_wrap(guarded);
    tenon__py_release(guarded);
    return object;
}

/* --------------------------------------------------------------------------------------------------- shared memory */

int tenon__py_torch_guard(tenon_tensor *tensor)
{
    torch_guard *guard = torch_new_guard(tenon_tensor_view(tensor), NULL);
    if (!guard)
        return -1;
    if (tenon_shared_watch(tensor, guard, torch_release_guard, NULL)) /* it is in the list already */
        torch_release_guard(guard);
    return 0;
}
