/* The native objects of handles and of objects of classes. */
#ifndef TENON_PY_OBJECT_H
#define TENON_PY_OBJECT_H

#include "function_object.h"

/* An object of a library, and how to destroy it. */
typedef struct tenon__py_native {
    tenon__py_library *library;
    void *object;
    void (*destroy)(void *object); /* or NULL */
} tenon__py_native;

/* Destroy the object and release its library. Needs the interpreter lock. Keeps a pending exception. */
void tenon__py_native_destroy(const tenon__py_native *native);

/* A native object that is shared: by the Python object until that is closed or gone, by calls that are to show its memory,
 * and by the arrays that do. It is destroyed with the last share, exactly once. */
typedef struct tenon__py_object {
    tenon_deferred_node node;
    _Atomic int64_t count;
    tenon__py_interp *interp;
    tenon__py_native native;
} tenon__py_object;

/* A new record with one share. Takes `object` on success. NULL with an exception. */
tenon__py_object *tenon__py_object_new(tenon__py_library *library, void *object, void (*destroy)(void *));

/* Add a share, and drop one: on any thread, with or without the interpreter lock, at any time. The last one destroys the
 * object: at once if this thread is attached to its interpreter, otherwise by a deferred job, so that the library's destroy
 * function always has the interpreter lock. After the interpreter's end the object is counted as leaked.
 * tenon__py_object_release is a tenon_release_fn. */
tenon__py_object *tenon__py_object_retain(tenon__py_object *object);
void tenon__py_object_release(void *object);

/* Drop the share of the Python object, on a thread that is attached to its interpreter. The last share destroys the native
 * object at once, even while the interpreter ends. */
void tenon__py_object_drop(tenon__py_object *object);

/* ------------------------------------------------------------------------------------------------ objects of classes */

/* A thread that is in calls on an object. */
typedef struct tenon__py_inside {
    unsigned long thread;
    int32_t calls;
} tenon__py_inside;

/* Who uses an object: see object_lock.c. */
typedef struct tenon__py_lock {
    _Atomic uint32_t guard; /* guards the rest, for a few stores. 0: free; otherwise 1 + the process that has it */
    uint32_t fork_count;    /* tenon__py_global.fork_count of the process that the rest is about */
    bool is_concurrent;     /* calls may overlap: TENON_CLASS_CONCURRENT */
    bool is_abandoned;      /* it was in a call of another thread when the process forked */
    int32_t nunlocked; /* threads that may use this without the interpreter lock; changed only by those that have it */
    int32_t waiters;   /* threads that sleep until they can call or close it */
    int32_t closers;   /* those of them that close it; no new call begins meanwhile */
    int32_t ninside, room;
    tenon__py_inside *inside; /* points to `first` unless calls overlap */
    tenon__py_inside first;
    PyThread_type_lock gates[2]; /* where waiters sleep: to call, and to close. Released to wake one; NULL until then */
    bool is_open[2];             /* it was released, and the thread that wakes has not yet looked */
} tenon__py_lock;

/* An object of a class. */
typedef struct tenon__py_instance {
    PyObject_HEAD PyObject *weak_references;
    _Atomic(tenon__py_object *) native; /* NULL: closed */
    tenon__py_lock lock;
} tenon__py_instance;

void tenon__py_lock_init(tenon__py_lock *lock, bool is_concurrent);
void tenon__py_lock_clear(tenon__py_lock *lock);

/* Begin a step under the guard, on a thread that has the interpreter lock. That lock is enough while no thread uses the object
 * without it, and saves an atomic exchange. False: this would have to wait. */
static inline bool tenon__py_begin_step(tenon__py_lock *lock, uint32_t fork_count)
{
    uint32_t seen = 0;
    if (TENON__PY_HAS_LOCK)
        return !lock->nunlocked;
    return atomic_compare_exchange_strong_explicit(&lock->guard, &seen, fork_count + 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void tenon__py_end_step(tenon__py_lock *lock)
{
    if (!TENON__PY_HAS_LOCK)
        atomic_store_explicit(&lock->guard, 0, memory_order_release);
}

/* Enter an object that is used by no other call, which is the usual case: the native object. NULL: object_lock.c finds out
 * why not. */
static inline tenon__py_object *tenon__py_enter_fast(tenon__py_instance *self, unsigned long thread)
{
    tenon__py_lock *lock = &self->lock;
    uint32_t fork_count = atomic_load_explicit(&tenon__py_global.fork_count, memory_order_relaxed);
    if (!tenon__py_begin_step(lock, fork_count))
        return NULL;
    tenon__py_object *native = NULL;
    if (!((uint32_t)lock->ninside | (uint32_t)lock->closers | lock->is_concurrent | lock->is_abandoned |
          (lock->fork_count ^ fork_count))) {
        native = atomic_load_explicit(&self->native, memory_order_relaxed);
        lock->ninside = native != NULL;
        lock->first = (tenon__py_inside){thread, 1};
    }
    tenon__py_end_step(lock);
    return native;
}

/* Leave an object that was entered so, if no thread waits for it. */
static inline bool tenon__py_leave_fast(tenon__py_instance *self)
{
    tenon__py_lock *lock = &self->lock;
    uint32_t fork_count = atomic_load_explicit(&tenon__py_global.fork_count, memory_order_relaxed);
    if (!tenon__py_begin_step(lock, fork_count))
        return false;
    bool alone = !lock->waiters && !lock->is_concurrent && lock->fork_count == fork_count;
    lock->ninside -= alone;
    tenon__py_end_step(lock);
    return alone;
}

static inline bool tenon__py_is_closed(const tenon__py_instance *self)
{
    return !atomic_load_explicit(&self->native, memory_order_acquire);
}

/* Close an object: wait for running calls, and drop its share of the native object. 0, or -1 with an exception. */
int tenon__py_instance_close(tenon__py_instance *self);

/* A new object of a class. Takes `object` on success. NULL with an exception. */
PyObject *tenon__py_instance_new(PyTypeObject *type, tenon__py_library *library, bool is_concurrent, void *object,
                                 void (*destroy)(void *));

#endif
