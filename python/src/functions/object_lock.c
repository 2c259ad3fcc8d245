/* Calls on an object run one after the other, and none runs while it is closed.
 *
 * Each object knows which threads are in calls on it. That is guarded by a spin lock of its own, so that it costs two atomic
 * exchanges for a call, and needs no interpreter lock. A thread that must wait puts itself on the object's list and releases the
 * interpreter lock. It is woken when a call ends, and tries again before it takes the interpreter lock back: if it queued for
 * that lock first, the object would be in use again by the time it had it. */
#include "host.h"

#include <stdlib.h>
#include <string.h>

/* How long a waiter sleeps before it looks at signals, and how often it does so after the interpreter's atexit hooks have
 * run: threads that have ended with the interpreter never leave. */
enum { WAIT_MICROSECONDS = 50000, WAITS_AT_EXIT = 20 };

/* How often to look at the guard before its holder gets the processor: it may have been interrupted. */
enum { SPINS = 100 };

typedef enum tenon__py_entry {
    ENTRY_DONE,
    ENTRY_BUSY,   /* another thread is in a call on it, or waits to close it */
    ENTRY_INSIDE, /* this thread is */
    ENTRY_CLOSED,
    ENTRY_ABANDONED, /* a thread that does not exist in this process was in a call on it */
    ENTRY_NO_MEMORY
} tenon__py_entry;

typedef struct tenon__py_waiter {
    struct tenon__py_waiter *next;
    PyThread_type_lock wake;  /* held; released to wake the thread */
    tenon__py_object *native; /* what `close` has to release, once it has the interpreter lock */
    int32_t turns;
    bool is_listed;
    bool is_closer; /* listed by `close`, and counted in `closers` */
    bool overslept; /* it was never woken while it waited */
} tenon__py_waiter;

/* ------------------------------------------------------------------------------------------------------- the guard */

static void note_fork(void)
{
    atomic_store(&tenon__py_global.survivor, PyThread_get_thread_ident());
    atomic_fetch_add(&tenon__py_global.process, 1);
}

void tenon__py_lock_init(tenon__py_lock *lock, bool is_concurrent)
{
    if (!atomic_exchange(&tenon__py_global.watches_forks, true))
        tenon__py_after_fork(note_fork);
    atomic_init(&lock->guard, 0);
    lock->process = atomic_load_explicit(&tenon__py_global.process, memory_order_relaxed);
    lock->is_concurrent = is_concurrent;
    lock->is_abandoned = false;
    lock->closers = 0;
    lock->ninside = 0;
    lock->room = 1;
    lock->inside = &lock->first;
    lock->waiters = NULL;
}

void tenon__py_lock_clear(tenon__py_lock *lock)
{
    if (lock->inside != &lock->first)
        free(lock->inside);
}

/* In a child of a fork: forget the threads that do not exist here. */
static TENON__PY_NOINLINE void forget_parent(tenon__py_lock *lock, uint32_t process)
{
    unsigned long survivor = atomic_load(&tenon__py_global.survivor);
    int32_t kept = 0;
    for (int32_t i = 0; i < lock->ninside; i++) {
        if (lock->inside[i].thread == survivor)
            lock->inside[kept++] = lock->inside[i];
        else
            lock->is_abandoned = true;
    }
    lock->ninside = kept;
    lock->closers = 0;
    lock->waiters = NULL;
    lock->process = process;
}

/* A thread of the parent that had the guard when the process forked does not exist, so the guard is taken over. */
static inline void guard(tenon__py_lock *lock)
{
    uint32_t process = atomic_load_explicit(&tenon__py_global.process, memory_order_relaxed), seen = 0;
    uint32_t spins = 0;
    while (!atomic_compare_exchange_weak_explicit(&lock->guard, &seen, process + 1, memory_order_acquire,
                                                  memory_order_relaxed))
        if (seen == process + 1) {
            seen = 0;
            if (++spins % SPINS == 0)
                tenon__py_yield();
        }
    if (lock->process != process)
        forget_parent(lock, process);
}

static inline void unguard(tenon__py_lock *lock)
{
    atomic_store_explicit(&lock->guard, 0, memory_order_release);
}

/* ------------------------------------------------------------------------------------------- steps under the guard */

/* `close` comes before the calls, which cannot begin while it waits. */
static void list_waiter(tenon__py_lock *lock, tenon__py_waiter *waiter)
{
    tenon__py_waiter **place = &lock->waiters;
    while (*place && !waiter->is_closer)
        place = &(*place)->next;
    waiter->next = *place;
    *place = waiter;
    waiter->is_listed = true;
}

/* False if the thread is being woken. */
static bool unlist_waiter(tenon__py_lock *lock, tenon__py_waiter *waiter)
{
    tenon__py_waiter **place = &lock->waiters;
    if (!waiter->is_listed)
        return false;
    while (*place && *place != waiter)
        place = &(*place)->next;
    if (*place)
        *place = waiter->next;
    waiter->is_listed = false;
    return true;
}

static void uncount_closer(tenon__py_lock *lock, tenon__py_waiter *waiter)
{
    lock->closers -= waiter->is_closer;
    waiter->is_closer = false;
}

/* Remove the first waiter, or all: a list for wake_waiters. */
static TENON__PY_NOINLINE tenon__py_waiter *take_waiters(tenon__py_lock *lock, bool all)
{
    tenon__py_waiter *first = lock->waiters, *last = first;
    last->is_listed = false;
    while (all && last->next) {
        last = last->next;
        last->is_listed = false;
    }
    lock->waiters = last->next;
    last->next = NULL;
    return first;
}

/* Without the guard, which a thread that is woken wants at once. A waiter that is neither listed nor woken waits for this, so
 * it exists until then. */
static inline void wake_waiters(tenon__py_waiter *waiter)
{
    while (waiter) {
        tenon__py_waiter *next = waiter->next;
        PyThread_release_lock(waiter->wake);
        waiter = next;
    }
}

static int32_t find_inside(const tenon__py_lock *lock, unsigned long thread)
{
    int32_t i = lock->ninside - 1;
    while (i >= 0 && lock->inside[i].thread != thread)
        i--;
    return i;
}

/* One more thread in calls of a concurrent class. Not by PyMem_Realloc, which needs the interpreter lock. */
static TENON__PY_NOINLINE bool make_room(tenon__py_lock *lock)
{
    bool is_first = lock->inside == &lock->first;
    int32_t room = lock->room > 0 ? 2 * lock->room : 2;
    tenon__py_inside *more = realloc(is_first ? NULL : lock->inside, (size_t)room * sizeof *lock->inside);
    if (!more)
        return false;
    if (is_first)
        more[0] = lock->first;
    lock->inside = more;
    lock->room = room;
    return true;
}

/* --------------------------------------------------------------------------------------------------------- attempts */

/* Each may be called without the interpreter lock, and puts a waiter that can be woken on the list of a busy object. */

static inline tenon__py_entry try_enter(tenon__py_instance *self, unsigned long thread, tenon__py_waiter *waiter)
{
    tenon__py_lock *lock = &self->lock;
    tenon__py_entry entry = ENTRY_DONE;
    guard(lock);
    int32_t at = lock->ninside ? find_inside(lock, thread) : -1;
    if (at >= 0 && !lock->is_concurrent) {
        entry = ENTRY_INSIDE;
    } else if (lock->is_abandoned) {
        entry = ENTRY_ABANDONED;
    } else if (tenon__py_is_closed(self)) {
        entry = ENTRY_CLOSED;
    } else if (at >= 0) {
        lock->inside[at].calls++;
    } else if (lock->closers || (lock->ninside && !lock->is_concurrent)) {
        entry = ENTRY_BUSY;
        if (waiter)
            list_waiter(lock, waiter);
    } else if (lock->ninside == lock->room && !make_room(lock)) {
        entry = ENTRY_NO_MEMORY;
    } else {
        lock->inside[lock->ninside++] = (tenon__py_inside){thread, 1};
    }
    unguard(lock);
    return entry;
}

static inline void leave(tenon__py_instance *self, unsigned long thread)
{
    tenon__py_lock *lock = &self->lock;
    guard(lock);
    int32_t at = find_inside(lock, thread);
    if (at >= 0 && --lock->inside[at].calls == 0)
        lock->inside[at] = lock->inside[--lock->ninside];
    tenon__py_waiter *woken = lock->waiters && !lock->ninside ? take_waiters(lock, lock->is_concurrent) : NULL;
    unguard(lock);
    wake_waiters(woken);
}

/* Close the object. What it has to release afterwards is in the waiter. */
static tenon__py_entry try_close(tenon__py_instance *self, unsigned long thread, tenon__py_waiter *waiter)
{
    tenon__py_lock *lock = &self->lock;
    tenon__py_entry entry = ENTRY_DONE;
    tenon__py_waiter *woken = NULL;
    guard(lock);
    if (lock->ninside && find_inside(lock, thread) >= 0) {
        entry = ENTRY_INSIDE;
    } else if (lock->ninside) {
        entry = ENTRY_BUSY;
        if (waiter->wake) {
            lock->closers += !waiter->is_closer;
            waiter->is_closer = true;
            list_waiter(lock, waiter);
        }
    } else {
        waiter->native = atomic_exchange(&self->native, NULL);
        if (lock->waiters)
            woken = take_waiters(lock, true);
    }
    unguard(lock);
    wake_waiters(woken);
    return entry;
}

/* ---------------------------------------------------------------------------------------------------------- waiting */

typedef tenon__py_entry attempt(tenon__py_instance *self, unsigned long thread, tenon__py_waiter *waiter);

/* Sleep until woken, or until the time: then the waiter is neither on the list nor counted, because Python code that runs next
 * may call the object. */
static bool sleep_until(tenon__py_instance *self, tenon__py_waiter *waiter, int64_t end)
{
    int64_t left = end - tenon__py_microseconds();
    if (PyThread_acquire_lock_timed(waiter->wake, left > 0 ? left : 0, 0) == PY_LOCK_ACQUIRED)
        return true;
    guard(&self->lock);
    bool overslept = unlist_waiter(&self->lock, waiter);
    if (overslept)
        uncount_closer(&self->lock, waiter);
    unguard(&self->lock);
    if (!overslept)
        PyThread_acquire_lock(waiter->wake, WAIT_LOCK); /* which takes a moment */
    return !overslept;
}

/* Try, and if the object is busy, whenever it may no longer be, for a while. The interpreter lock is released meanwhile; at the
 * interpreter's end this thread may never get it back, so it must not be on the list by then. */
static tenon__py_entry try_or_sleep(tenon__py_instance *self, unsigned long thread, attempt *try,
                                    tenon__py_waiter *waiter)
{
    tenon__py_entry entry = try(self, thread, waiter);
    if (entry != ENTRY_BUSY)
        return entry;
    PyThreadState *state = PyEval_SaveThread();
    int64_t end = tenon__py_microseconds() + WAIT_MICROSECONDS;
    waiter->overslept = true;
    while (entry == ENTRY_BUSY && sleep_until(self, waiter, end)) {
        waiter->overslept = false;
        entry = try(self, thread, waiter);
    }
    PyEval_RestoreThread(state);
    return entry;
}

static int waiter_init(tenon__py_waiter *waiter)
{
    *waiter = (tenon__py_waiter){.wake = PyThread_allocate_lock()};
    if (!waiter->wake)
        return PyErr_NoMemory(), -1;
    PyThread_acquire_lock(waiter->wake, NOWAIT_LOCK);
    return 0;
}

/* Whether to go on waiting: 0, or -1 with an exception. Python code may run here, so that no object may be entered. */
static int look_around(tenon__py_waiter *waiter)
{
    const tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp || PyErr_CheckSignals() < 0)
        return -1;
    if (!waiter->overslept || !atomic_load(&interp->dead) || ++waiter->turns < WAITS_AT_EXIT)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the thread that uses this object has ended with the interpreter");
    return -1;
}

/* ------------------------------------------------------------------------------------------------------------ calls */

/* Why an object cannot be used, or NULL if that is a lack of memory. */
static const char *refusal_of(tenon__py_entry entry)
{
    switch (entry) {
    case ENTRY_INSIDE:
        return "is in use by the call that this code was called from; use or close it after that call";
    case ENTRY_CLOSED:
        return "is closed";
    case ENTRY_ABANDONED:
        return "was in use by another thread when the process forked; make a new one in this process";
    default:
        return NULL;
    }
}

static PyObject *exception_of(tenon__py_entry entry)
{
    return entry == ENTRY_CLOSED ? PyExc_ValueError : PyExc_RuntimeError;
}

static TENON__PY_NOINLINE int refuse_object(const tenon__py_function *function, const tenon_parameter *param,
                                            tenon__py_entry entry)
{
    const char *why = refusal_of(entry);
    if (!why)
        PyErr_NoMemory();
    else if (param == function->signature->params && function->signature->method)
        PyErr_Format(exception_of(entry), "%s(): this %s %s", function->signature->name, param->handle, why);
    else
        tenon__py_argument_error(function, param->name, exception_of(entry), "this %s %s", param->handle, why);
    return -1;
}

int tenon__py_check_object(const tenon__py_function *function, const tenon_parameter *param, PyObject *object)
{
    PyTypeObject *type = function->classes[param - function->signature->params];
    if (Py_TYPE(object) == type)
        return tenon__py_is_closed((tenon__py_instance *)object) ? refuse_object(function, param, ENTRY_CLOSED) : 0;
    PyObject *name = tenon__py_type_name(object);
    PyObject *module = name ? PyObject_GetAttrString((PyObject *)type, "__module__") : NULL;
    PyObject *wanted = module ? PyUnicode_FromFormat("%U.%s", module, param->handle) : NULL;
    if (wanted) {
        /* Two loads of one library make two classes with the same name. */
        bool same = PyUnicode_Compare(wanted, name) == 0;
        tenon__py_argument_error(function, param->name, PyExc_TypeError, "expected %U, got %U%s", wanted, name,
                                 same ? " of a library that was loaded separately" : "");
    }
    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(wanted);
    return -1;
}

static int refuse_entered(tenon__py_frame *f, const tenon__py_instance *self, tenon__py_entry entry)
{
    int32_t i = 0;
    tenon__py_leave_all(f);
    while (f->given[i] != (const PyObject *)self)
        i++;
    return refuse_object(f->function, &f->function->signature->params[i], entry);
}

/* Enter objects of which one is busy. */
static TENON__PY_NOINLINE int enter_later(tenon__py_frame *f, int32_t count)
{
    tenon__py_waiter waiter;
    tenon__py_entry entry = ENTRY_DONE;
    int status = waiter_init(&waiter);
    f->disturbed = true; /* other threads may have changed an argument meanwhile */
    while (status == 0 && f->nentered < count) {
        entry = try_or_sleep(f->entered[f->nentered], f->ident, try_enter, &waiter);
        if (entry == ENTRY_DONE) {
            f->nentered++;
        } else if (entry != ENTRY_BUSY) {
            status = refuse_entered(f, f->entered[f->nentered], entry);
        } else {
            tenon__py_leave_all(f); /* the thread that has the object may wait for one of these */
            status = look_around(&waiter);
        }
    }
    if (waiter.wake)
        PyThread_free_lock(waiter.wake);
    if (status < 0)
        tenon__py_leave_all(f);
    return status;
}

/* The objects of a call, by address and each once. */
static TENON__PY_NOINLINE int32_t sort_objects(tenon__py_frame *f)
{
    const tenon__py_function *function = f->function;
    void *few[TENON__PY_INLINE_PARAMS], **all = few;
    int32_t count = 0;
    if (function->nobjects > TENON__PY_INLINE_OBJECTS) {
        f->entered = tenon_block_alloc(&f->base.blocks, (size_t)function->nobjects * sizeof(tenon__py_instance *), 0);
        if (!f->entered)
            return PyErr_NoMemory(), -1;
    }
    if (function->nobjects > TENON__PY_INLINE_PARAMS) {
        all = tenon_block_alloc(&f->base.blocks, (size_t)function->nobjects * sizeof *all, 0);
        if (!all)
            return PyErr_NoMemory(), -1;
    }
    for (int32_t i = 0; i < function->signature->nparams; i++)
        if (function->classes[i] && f->base.args[i].kind == TENON_KIND_HANDLE)
            all[count++] = f->given[i];
    count = tenon_frame_sort_objects(all, count);
    for (int32_t i = 0; i < count; i++)
        f->entered[i] = all[i];
    return count;
}

/* Give the function its native objects. They live at least until the call leaves the objects. */
static inline void take_objects(tenon__py_frame *f)
{
    const tenon__py_function *function = f->function;
    for (int32_t i = 0; i < function->signature->nparams; i++) {
        if (!function->classes[i] || f->base.args[i].kind != TENON_KIND_HANDLE)
            continue;
        tenon__py_object *native =
            atomic_load_explicit(&((tenon__py_instance *)f->given[i])->native, memory_order_relaxed);
        f->base.args[i].as.handle.object = native->native.object;
        if (i == 0 && function->shows_self)
            f->self = tenon__py_object_retain(native);
        if (function->nobjects == 1)
            return;
    }
}

int tenon__py_enter_all(tenon__py_frame *f)
{
    int32_t count = sort_objects(f);
    while (f->nentered < count) {
        tenon__py_entry entry = try_enter(f->entered[f->nentered], f->ident, NULL);
        if (entry == ENTRY_BUSY) {
            if (enter_later(f, count) < 0)
                return -1;
        } else if (entry != ENTRY_DONE) {
            return refuse_entered(f, f->entered[f->nentered], entry);
        } else {
            f->nentered++;
        }
    }
    if (count < 0)
        return -1;
    take_objects(f);
    return 0;
}

void tenon__py_leave_all(tenon__py_frame *f)
{
    while (f->nentered > 0)
        leave(f->entered[--f->nentered], f->ident);
}

/* ------------------------------------------------------------------------------------------------------------ close */

/* Drop the share of a native object that was closed. */
static void release_closed(const tenon__py_instance *self, tenon__py_object *native)
{
    if (native && self->lock.is_abandoned) /* the other thread may have left it in any state */
        atomic_fetch_add_explicit(&tenon__py_global.leaked, 1, memory_order_relaxed);
    else if (native)
        tenon__py_object_drop(native);
}

int tenon__py_instance_close(tenon__py_instance *self)
{
    unsigned long thread = PyThread_get_thread_ident();
    tenon__py_waiter waiter = {0};
    tenon__py_entry entry = try_close(self, thread, &waiter);
    int status = entry == ENTRY_BUSY ? waiter_init(&waiter) : 0;
    if (entry == ENTRY_BUSY && status == 0) {
        while (status == 0 && (entry = try_or_sleep(self, thread, try_close, &waiter)) == ENTRY_BUSY)
            status = look_around(&waiter);
        guard(&self->lock);
        uncount_closer(&self->lock, &waiter);
        tenon__py_waiter *woken = status < 0 && self->lock.waiters ? take_waiters(&self->lock, true) : NULL;
        unguard(&self->lock);
        wake_waiters(woken); /* calls that this one kept from beginning */
        PyThread_free_lock(waiter.wake);
    }
    release_closed(self, waiter.native);
    if (entry == ENTRY_INSIDE) {
        PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE((PyObject *)self), "__name__");
        if (name)
            PyErr_Format(exception_of(entry), "%U.close(): this %U %s", name, name, refusal_of(entry));
        Py_XDECREF(name);
        status = -1;
    }
    return status;
}
