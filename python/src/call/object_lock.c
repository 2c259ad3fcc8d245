/* Calls on an object run one after the other, and none runs while it is closed.
 *
 * Each object knows which threads are in calls on it. That is guarded by a spin lock of its own, so that a call can leave it
 * without the interpreter lock. While no thread uses the object without that lock, the lock itself is the guard of the usual
 * steps (object.h). A thread that must wait counts itself, releases the interpreter lock and sleeps at the object's gate, which is
 * opened for one thread when a call ends. It tries again before it takes the interpreter lock back: if it queued for that lock
 * first, the object would be in use again by the time it had it. */
#include "internal.h"

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
    ENTRY_CIRCLE,    /* the thread that is in a call on it waits for this one */
    ENTRY_NO_MEMORY
} tenon__py_entry;

/* What a thread wants of objects, and how it waits. */
typedef struct tenon__py_wait {
    bool closes;              /* it closes the object; otherwise it calls it */
    bool has_slept;           /* other threads have run meanwhile */
    bool is_counted;          /* as one of the waiters */
    bool has_passed;          /* the gate, which it closed again by that */
    bool was_woken;           /* in its latest sleep */
    int32_t sleeps_at_exit;   /* in which it was not woken */
    tenon__py_object *native; /* what `close` has to release, once it has the interpreter lock */
} tenon__py_wait;

/* A thread that sleeps at the gate of an object, without the interpreter lock. */
typedef struct tenon__py_sleeper {
    struct tenon__py_sleeper *next;
    unsigned long thread;
    tenon__py_instance *object;
    bool is_seen; /* by the search for a circle */
} tenon__py_sleeper;

/* ------------------------------------------------------------------------------------------------------- the guard */

static void note_fork(void)
{
    tenon__py_global.sleepers = NULL;
    atomic_flag_clear(&tenon__py_global.sleepers_lock);
    atomic_store(&tenon__py_global.survivor, PyThread_get_thread_ident());
    atomic_fetch_add(&tenon__py_global.fork_count, 1);
}

void tenon__py_lock_init(tenon__py_lock *lock, bool is_concurrent)
{
    if (!atomic_exchange(&tenon__py_global.watches_forks, true))
        tenon__py_after_fork(note_fork);
    memset(lock, 0, sizeof *lock);
    atomic_init(&lock->guard, 0);
    lock->fork_count = atomic_load_explicit(&tenon__py_global.fork_count, memory_order_relaxed);
    lock->is_concurrent = is_concurrent;
    lock->room = 1;
    lock->inside = &lock->first;
}

void tenon__py_lock_clear(tenon__py_lock *lock)
{
    if (lock->inside != &lock->first)
        free(lock->inside);
    for (int i = 0; i < 2; i++)
        if (lock->gates[i])
            PyThread_free_lock(lock->gates[i]);
}

/* In a child of a fork: forget the threads that do not exist here, and the gates, whose state is unknown. */
static TENON__PY_NOINLINE void forget_parent(tenon__py_lock *lock, uint32_t fork_count)
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
    lock->waiters = lock->closers = 0;
    for (int i = 0; i < 2; i++) {
        lock->gates[i] = NULL;
        lock->is_open[i] = false;
    }
    lock->fork_count = fork_count;
}

/* A thread of the parent that had the guard when the process forked does not exist, so the guard is taken over. */
static inline void guard(tenon__py_lock *lock)
{
    uint32_t fork_count = atomic_load_explicit(&tenon__py_global.fork_count, memory_order_relaxed), seen = 0;
    uint32_t spins = 0;
    while (!atomic_compare_exchange_weak_explicit(&lock->guard, &seen, fork_count + 1, memory_order_acquire,
                                                  memory_order_relaxed))
        if (seen == fork_count + 1) {
            seen = 0;
            if (++spins % SPINS == 0)
                tenon__py_yield();
        }
    if (lock->fork_count != fork_count)
        forget_parent(lock, fork_count);
}

static inline void unguard(tenon__py_lock *lock)
{
    atomic_store_explicit(&lock->guard, 0, memory_order_release);
}

/* One more thread may use the lock without the interpreter lock, or one less. Needs the interpreter lock. */
static inline void allow_unlocked(tenon__py_lock *lock, int32_t change)
{
    if (TENON__PY_HAS_LOCK)
        lock->nunlocked += change;
}

/* ------------------------------------------------------------------------------------------- steps under the guard */

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

static tenon__py_entry enter(tenon__py_instance *self, unsigned long thread)
{
    tenon__py_lock *lock = &self->lock;
    int32_t at = find_inside(lock, thread);
    if (at >= 0 && !lock->is_concurrent)
        return ENTRY_INSIDE;
    if (lock->is_abandoned)
        return ENTRY_ABANDONED;
    if (tenon__py_is_closed(self))
        return ENTRY_CLOSED;
    if (at >= 0) {
        lock->inside[at].calls++;
        return ENTRY_DONE;
    }
    if (lock->closers || (lock->ninside && !lock->is_concurrent))
        return ENTRY_BUSY;
    if (lock->ninside == lock->room && !make_room(lock))
        return ENTRY_NO_MEMORY;
    lock->inside[lock->ninside++] = (tenon__py_inside){thread, 1};
    return ENTRY_DONE;
}

/* Close the object, and return what is to be released afterwards. */
static tenon__py_entry close_object(tenon__py_instance *self, unsigned long thread, tenon__py_object **native)
{
    if (find_inside(&self->lock, thread) >= 0)
        return ENTRY_INSIDE;
    if (self->lock.ninside)
        return ENTRY_BUSY;
    *native = atomic_exchange(&self->native, NULL);
    return ENTRY_DONE;
}

/* Count a thread that is about to sleep. False without memory for its gate. */
static bool count_waiter(tenon__py_lock *lock, tenon__py_wait *wait)
{
    PyThread_type_lock *gate = &lock->gates[wait->closes];
    if (!*gate) {
        *gate = PyThread_allocate_lock();
        if (!*gate)
            return false;
        PyThread_acquire_lock(*gate, NOWAIT_LOCK);
    }
    lock->waiters++;
    lock->closers += wait->closes;
    wait->is_counted = true;
    return true;
}

static void uncount_waiter(tenon__py_lock *lock, tenon__py_wait *wait)
{
    lock->waiters--;
    lock->closers -= wait->closes;
    lock->is_open[wait->closes] &= !wait->has_passed;
    wait->is_counted = wait->has_passed = false;
}

/* The gate to open for a waiter that could go on now, or NULL. `close` comes before the calls, which cannot begin while it
 * waits. A waiter that did go on opens the gate for the next one if that could, too. */
static PyThread_type_lock next_gate(tenon__py_lock *lock)
{
    bool closes = lock->closers > 0;
    if (!lock->waiters || lock->is_open[closes] || (lock->ninside && (closes || !lock->is_concurrent)))
        return NULL;
    lock->is_open[closes] = true;
    return lock->gates[closes];
}

/* Not under the guard, which the thread that is woken wants at once. */
static inline void open_gate(PyThread_type_lock gate)
{
    if (gate)
        PyThread_release_lock(gate);
}

/* ---------------------------------------------------------------------------------------------------------- waiting */

/* Try once, with or without the interpreter lock. If the object is busy, and the thread `may_sleep`, it is counted. */
static tenon__py_entry try_once(tenon__py_instance *self, unsigned long thread, tenon__py_wait *wait, bool may_sleep)
{
    tenon__py_lock *lock = &self->lock;
    guard(lock);
    if (wait->is_counted)
        uncount_waiter(lock, wait);
    tenon__py_entry entry = wait->closes ? close_object(self, thread, &wait->native) : enter(self, thread);
    if (entry == ENTRY_BUSY && may_sleep && !count_waiter(lock, wait))
        entry = ENTRY_NO_MEMORY;
    PyThread_type_lock gate = entry == ENTRY_BUSY ? NULL : next_gate(lock);
    unguard(lock);
    open_gate(gate);
    return entry;
}

static tenon__py_sleeper *find_sleeper(unsigned long thread)
{
    tenon__py_sleeper *sleeper = tenon__py_global.sleepers;
    while (sleeper && sleeper->thread != thread)
        sleeper = sleeper->next;
    return sleeper;
}

/* Whether a thread that is in a call on the object waits for an object that `thread` uses, or for a thread that does. */
static bool waits_for(tenon__py_instance *object, unsigned long thread)
{
    enum {
        MOST_INSIDE = 16
    }; /* threads that are in calls of a concurrent class, which wait for nothing in most programs */
    unsigned long inside[MOST_INSIDE];
    int32_t count = 0;
    guard(&object->lock);
    for (; count < object->lock.ninside && count < MOST_INSIDE; count++)
        inside[count] = object->lock.inside[count].thread;
    unguard(&object->lock);
    for (int32_t i = 0; i < count; i++) {
        tenon__py_sleeper *sleeper = find_sleeper(inside[i]);
        if (inside[i] == thread)
            return true;
        if (!sleeper || sleeper->is_seen)
            continue;
        sleeper->is_seen = true;
        if (waits_for(sleeper->object, thread))
            return true;
    }
    return false;
}

/* The thread is about to sleep until the object is free. */
static void add_sleeper(tenon__py_sleeper *self)
{
    tenon__py_spin_lock(&tenon__py_global.sleepers_lock);
    self->next = tenon__py_global.sleepers;
    tenon__py_global.sleepers = self;
    tenon__py_spin_unlock(&tenon__py_global.sleepers_lock);
}

/* The thread is awake. Whether the object will never be free, because of threads that wait for each other: callbacks that use
 * objects in opposite orders. The call of one thread fails, and the others go on. */
static bool remove_sleeper(tenon__py_sleeper *self, bool is_busy)
{
    tenon__py_spin_lock(&tenon__py_global.sleepers_lock);
    for (tenon__py_sleeper *one = tenon__py_global.sleepers; one; one = one->next)
        one->is_seen = false;
    bool is_circle = is_busy && waits_for(self->object, self->thread);
    for (tenon__py_sleeper **at = &tenon__py_global.sleepers; *at; at = &(*at)->next) {
        if (*at == self) {
            *at = self->next;
            break;
        }
    }
    tenon__py_spin_unlock(&tenon__py_global.sleepers_lock);
    return is_circle;
}

/* Try, and if the object is busy, whenever it may no longer be, for a while. The interpreter lock is released meanwhile. The
 * thread is not counted at the end, because it may never get the interpreter lock back when the interpreter ends, and Python
 * code that runs next may call the object. */
static tenon__py_entry try_or_sleep(tenon__py_instance *self, unsigned long thread, tenon__py_wait *wait)
{
    tenon__py_entry entry = try_once(self, thread, wait, true);
    if (entry != ENTRY_BUSY)
        return entry;
    allow_unlocked(&self->lock, 1);
    PyThreadState *state = PyEval_SaveThread();
    int64_t left = WAIT_MICROSECONDS, end = tenon__py_microseconds() + left;
    tenon__py_sleeper sleeper = {.thread = thread, .object = self};
    add_sleeper(&sleeper);
    wait->has_slept = true;
    wait->was_woken = false;
    while (entry == ENTRY_BUSY && left > 0) {
        wait->has_passed = PyThread_acquire_lock_timed(self->lock.gates[wait->closes], left, 0) == PY_LOCK_ACQUIRED;
        wait->was_woken |= wait->has_passed;
        left = end - tenon__py_microseconds();
        entry = try_once(self, thread, wait, left > 0);
    }
    if (remove_sleeper(&sleeper, entry == ENTRY_BUSY))
        entry = ENTRY_CIRCLE;
    PyEval_RestoreThread(state);
    allow_unlocked(&self->lock, -1);
    return entry;
}

/* Whether to go on waiting: 0, or -1 with an exception. Python code may run here, so that no object may be entered. */
static int look_around(tenon__py_wait *wait)
{
    const tenon__py_interp *interp = tenon__py_interp_state();
    if (!interp || PyErr_CheckSignals() < 0)
        return -1;
    if (wait->was_woken || !atomic_load(&interp->dead) || ++wait->sleeps_at_exit < WAITS_AT_EXIT)
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
    case ENTRY_CIRCLE:
        return "is in use by a thread that waits for this one; use objects in the same order in all threads";
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
    else if (param == function->signature->params && function->signature->has_self)
        PyErr_Format(exception_of(entry), "%s(): this %s %s", function->signature->name, param->handle, why);
    else
        tenon__py_argument_failure(function, param->name, exception_of(entry), "this %s %s", param->handle, why);
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
    while (f->argument_objects[i] != (const PyObject *)self)
        i++;
    return refuse_object(f->function, &f->function->signature->params[i], entry);
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
            all[count++] = f->argument_objects[i];
    count = tenon_frame_sort_objects(all, count);
    for (int32_t i = 0; i < count; i++)
        f->entered[i] = all[i];
    return count;
}

/* Give the function its native objects. They live at least until the call leaves the objects. */
static inline void read_objects(tenon__py_frame *f)
{
    const tenon__py_function *function = f->function;
    for (int32_t i = 0; i < function->signature->nparams; i++) {
        if (!function->classes[i] || f->base.args[i].kind != TENON_KIND_HANDLE)
            continue;
        tenon__py_object *native =
            atomic_load_explicit(&((tenon__py_instance *)f->argument_objects[i])->native, memory_order_relaxed);
        f->base.args[i].as.handle.object = native->native.object;
        if (i == 0 && function->has_of_self)
            f->self = tenon__py_object_retain(native);
        if (function->nobjects == 1)
            return;
    }
}

int tenon__py_enter_all(tenon__py_frame *f)
{
    tenon__py_wait wait = {0};
    int32_t count = sort_objects(f);
    while (f->nentered < count) {
        bool is_free = tenon__py_enter_fast(f->entered[f->nentered], f->ident);
        tenon__py_entry entry = is_free ? ENTRY_DONE : try_or_sleep(f->entered[f->nentered], f->ident, &wait);
        f->checks.may_have_changed |= wait.has_slept; /* other threads may have changed an argument */
        if (entry == ENTRY_DONE) {
            f->nentered++;
        } else if (entry != ENTRY_BUSY) {
            return refuse_entered(f, f->entered[f->nentered], entry);
        } else {
            tenon__py_leave_all(f); /* the thread that has the object may wait for one of these */
            if (look_around(&wait) < 0)
                return -1;
        }
    }
    if (count < 0)
        return -1;
    read_objects(f);
    return 0;
}

static inline void leave(tenon__py_lock *lock, unsigned long thread)
{
    guard(lock);
    int32_t at = find_inside(lock, thread);
    if (at >= 0 && --lock->inside[at].calls == 0)
        lock->inside[at] = lock->inside[--lock->ninside];
    PyThread_type_lock gate = next_gate(lock);
    unguard(lock);
    open_gate(gate);
}

void tenon__py_leave_all(tenon__py_frame *f)
{
    while (f->nentered > 0)
        leave(&f->entered[--f->nentered]->lock, f->ident);
}

void tenon__py_allow_unlocked(tenon__py_frame *f, int32_t nentered, int32_t change)
{
    for (int32_t i = 0; i < nentered; i++)
        allow_unlocked(&f->entered[i]->lock, change);
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
    tenon__py_wait wait = {.closes = true};
    tenon__py_entry entry;
    while ((entry = try_or_sleep(self, PyThread_get_thread_ident(), &wait)) == ENTRY_BUSY)
        if (look_around(&wait) < 0)
            return -1;
    release_closed(self, wait.native);
    if (entry == ENTRY_NO_MEMORY)
        return PyErr_NoMemory(), -1;
    if (entry == ENTRY_DONE)
        return 0;
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE((PyObject *)self), "__name__");
    if (name)
        PyErr_Format(exception_of(entry), "%U.close(): this %U %s", name, name, refusal_of(entry));
    Py_XDECREF(name);
    return -1;
}
