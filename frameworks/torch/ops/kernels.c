/* The table of the kernels in C, and what torch calls.
 *
 * A kernel of torch's C functions has no user data. So there is one C function for each place in the table. A kernel
 * fails by a C++ exception, which passes through the frames of this file only: they hold nothing at that time, and
 * C kernels are used only if the unwinder knows these frames. */
#include "internal.h"

#include <stdlib.h>

enum { MOST_KERNELS = 256 };

/* A place is taken while it has a kernel or a call is running. */
typedef struct kernel_place {
    _Atomic(tenon__torch_kernel *) kernel;
    _Atomic int64_t running;
    tenon__torch_kernel *removed; /* freed once no call is running any more */
} kernel_place;

static kernel_place places[MOST_KERNELS];
static int next_place; /* where to look first, so that a place is used again as late as possible */

/* ---------------------------------------------------------------------------------------------------- trampolines */

static void call_place(int index, tenon__torch_stable *stack, uint64_t nargs, uint64_t nresults)
{
    kernel_place *place = &places[index];
    tenon_error err;
    atomic_fetch_add(&place->running, 1);
    const tenon__torch_kernel *kernel = atomic_load(&place->kernel);
    tenon_status status = kernel ? tenon__torch_kernel_call(kernel, stack, nargs, nresults, &err)
                                 : tenon_error_set(&err, TENON_EFAILED, "the operator was unloaded");
    atomic_fetch_sub(&place->running, 1);
    if (status) /* torch turns any C++ exception into a RuntimeError */
        atomic_load_explicit(&tenon__torch_known_api, memory_order_acquire)->kernels.throw_runtime_error(err.message);
}

/* clang-format off */
#define EACH_16(M, high)                                                                                               \
    M(high, 0) M(high, 1) M(high, 2) M(high, 3) M(high, 4) M(high, 5) M(high, 6) M(high, 7)                            \
    M(high, 8) M(high, 9) M(high, a) M(high, b) M(high, c) M(high, d) M(high, e) M(high, f)
#define EACH_256(M)                                                                                                    \
    EACH_16(M, 0) EACH_16(M, 1) EACH_16(M, 2) EACH_16(M, 3) EACH_16(M, 4) EACH_16(M, 5) EACH_16(M, 6) EACH_16(M, 7)    \
    EACH_16(M, 8) EACH_16(M, 9) EACH_16(M, a) EACH_16(M, b) EACH_16(M, c) EACH_16(M, d) EACH_16(M, e) EACH_16(M, f)
#define TRAMPOLINE(high, low)                                                                                          \
    static void trampoline_##high##low(tenon__torch_stable *stack, uint64_t nargs, uint64_t nresults)                  \
    {                                                                                                                  \
        call_place(0x##high##low, stack, nargs, nresults);                                                             \
    }
#define TRAMPOLINE_NAME(high, low) trampoline_##high##low,
/* clang-format on */

EACH_256(TRAMPOLINE)

static const tenon__torch_boxed trampolines[] = {EACH_256(TRAMPOLINE_NAME)};
_Static_assert(sizeof trampolines / sizeof *trampolines == MOST_KERNELS, "there is one for each place");

/* Whether an exception can pass through the functions above: the compiler has written unwind tables for them. */
static bool can_throw(const tenon__torch_api *api)
{
    void (*inner)(int, tenon__torch_stable *, uint64_t, uint64_t) = call_place;
    void *bases[3];
    return api->kernels.find_unwind_table((char *)(uintptr_t)inner + 1, bases) &&
           api->kernels.find_unwind_table((char *)(uintptr_t)trampolines[0] + 1, bases);
}

/* ---------------------------------------------------------------------------------------------------------- forks */

/* The threads that ran a kernel do not exist in a child process. */
static void reset_child(void)
{
    for (int i = 0; i < MOST_KERNELS; i++)
        atomic_store(&places[i].running, 0);
}

static void watch_forks(void)
{
    static _Atomic bool watched;
    if (!atomic_exchange(&watched, true))
        tenon__py_after_fork(reset_child);
}

/* ------------------------------------------------------------------------------------------------------ the table */

/* The table has a lock as a library has, which is free again in a forked child. NULL if memory is exhausted; not after a
 * place was taken. */
static tenon_library_lock *lock_table(void)
{
    tenon_library_lock *lock = tenon_library_lock_retain(places);
    tenon_library_lock_enter(lock);
    return lock;
}

static void unlock_table(tenon_library_lock *lock)
{
    tenon_library_lock_leave(lock);
    tenon_library_lock_release(lock);
}

/* Free it, and return its function, which the caller releases after the lock of the table. */
static const tenon__py_function *kernel_free(tenon__torch_kernel *kernel)
{
    const tenon__py_function *function = kernel->function;
    tenon_library_lock_release(kernel->library_lock);
    free(kernel);
    return function;
}

static void unregister_all(tenon__torch_kernel *kernel)
{
    for (int i = 0; i < TENON__TORCH_KEYS; i++)
        if (kernel->registered[i])
            kernel->api->kernels.delete_library(kernel->registered[i]);
}

/* Register the function at this place for one of torch's keys. */
static bool register_key(tenon__torch_kernel *kernel, const char *name_space, const char *key, int place, void **out)
{
    const tenon__torch_api *api = kernel->api;
    if (api->kernels.init_library(name_space, key, "tenon/kernels.c", 0, out) != 0) {
        *out = NULL;
        return false;
    }
    return api->kernels.implement(*out, kernel->function->signature->name, trampolines[place],
                                  api->kernels.abi_version()) == 0;
}

/* Free the kernels that were removed while calls were running. Returns a function to be released, or NULL. */
static const tenon__py_function *sweep(void)
{
    for (int i = 0; i < MOST_KERNELS; i++) {
        tenon__torch_kernel *removed = places[i].removed;
        if (removed && atomic_load(&places[i].running) == 0) {
            places[i].removed = NULL;
            return kernel_free(removed);
        }
    }
    return NULL;
}

static void sweep_all(void)
{
    const tenon__py_function *function;
    do {
        tenon_library_lock *lock = lock_table();
        function = sweep();
        unlock_table(lock);
        Py_XDECREF((PyObject *)(uintptr_t)function);
    } while (function);
}

/* Put the kernel in a free place. -1 if all are taken, or memory is exhausted. */
static int place_take(tenon__torch_kernel *kernel)
{
    int found = -1;
    watch_forks();
    tenon_library_lock *lock = lock_table();
    if (!lock)
        return -1;
    for (int i = 0; i < MOST_KERNELS && found < 0; i++) {
        kernel_place *place = &places[(next_place + i) % MOST_KERNELS];
        if (!atomic_load(&place->kernel) && !place->removed && atomic_load(&place->running) == 0)
            found = (next_place + i) % MOST_KERNELS;
    }
    bool alone = !(kernel->function->function.flags & TENON_RELEASE_LOCK);
    if (found >= 0 && alone && !(kernel->library_lock = tenon_library_lock_retain(kernel->function->library)))
        found = -1;
    if (found >= 0) {
        atomic_store(&places[found].kernel, kernel);
        next_place = (found + 1) % MOST_KERNELS;
        tenon_library_lock_leave(lock); /* it stays retained, so that a removal never fails */
    } else {
        unlock_table(lock);
    }
    return found;
}

bool tenon__torch_kernel_remove(int index)
{
    tenon__torch_kernel *kernel = NULL;
    tenon_library_lock *lock = lock_table();
    if (index >= 0 && index < MOST_KERNELS)
        kernel = atomic_load(&places[index].kernel);
    if (kernel) {
        unregister_all(kernel);
        places[index].removed = kernel;
        atomic_store(&places[index].kernel, NULL);
    }
    unlock_table(lock);
    sweep_all();
    return kernel;
}

int tenon__torch_kernel_add(PyObject *object, const char *name_space, const char *const *keys, bool *done)
{
    const tenon__py_function *function = (const tenon__py_function *)object;
    const tenon__torch_api *api = tenon__torch_find_api(NULL);
    if (!api || !api->kernels.usable || !can_throw(api) || !tenon__torch_kernel_fits(function))
        return -1;
    tenon__torch_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return -1;
    kernel->api = api;
    kernel->function = function;
    tenon__torch_kernel_init(kernel);
    sweep_all();
    int place = place_take(kernel);
    if (place < 0) {
        free(kernel);
        return -1;
    }
    Py_INCREF(object);
    bool any = false;
    for (int i = 0; i < TENON__TORCH_KEYS; i++) {
        done[i] = keys[i] && register_key(kernel, name_space, keys[i], place, &kernel->registered[i]);
        any |= done[i];
    }
    if (!any)
        tenon__torch_kernel_remove(place);
    return any ? place : -1;
}

int tenon__torch_kernel_count(void)
{
    int count = 0;
    for (int i = 0; i < MOST_KERNELS; i++)
        count += atomic_load(&places[i].kernel) != NULL;
    return count;
}
