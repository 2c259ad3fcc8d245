/* The state of the bridge that lives as long as the process. All its other variables are constant, or of one thread
 * and one call. */
#ifndef TENON_PY_GLOBALS_H
#define TENON_PY_GLOBALS_H

#include "compat.h"
#include "producer.h"

/* ----------------------------------------------------------------------------------------------------- the spin lock */

/* For a few stores. No Python code may run while it is held. */
TENON__PY_INLINE void tenon__py_spin_lock(atomic_flag *lock)
{
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire)) {
    }
}

TENON__PY_INLINE void tenon__py_spin_unlock(atomic_flag *lock)
{
    atomic_flag_clear_explicit(lock, memory_order_release);
}

/* --------------------------------------------------------------------------------------------------------- the state */

enum { TENON__PY_KINDS = 64, TENON__PY_HANDLE_TYPES = 8 };

/* The type whose arrays are read by array_struct.h, and how new ones are made. Its framework fills it in once, `type` last. */
typedef struct tenon__py_array_layout {
    _Atomic(PyTypeObject *) type; /* NULL: no array of it has been borrowed yet */
    size_t head;                  /* the offset of the first field of an array */
    const tenon__py_producer *producer;
    /* A new array and a borrow of it that holds nothing. */
    PyObject *(*empty)(tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_py_borrowed *out);
} tenon__py_array_layout;

/* The objects in it belong to the main interpreter and are never released. The state of a framework is in its own files. */
typedef struct tenon__py_globals {
    atomic_flag lock;        /* guards writes to the tables; they are read without it */
    tenon__py_mutex capsule; /* guards the capsule that is being consumed */

    _Atomic uint32_t fork_count;    /* how often the process has forked: a child has another number than its parent */
    _Atomic unsigned long survivor; /* in a child: the thread that forked, the only one that goes on */
    _Atomic bool watches_forks;

    atomic_flag sleepers_lock; /* guards the list of threads that wait for an object: call/object_lock.c */
    struct tenon__py_sleeper *sleepers;

    _Atomic bool has_subinterpreters; /* one has used the bridge */

    _Atomic int64_t waiting;                         /* releases that wait for an interpreter */
    _Atomic int64_t leaked;                          /* releases that came after its shutdown */
    _Atomic(struct tenon__py_interp *) interpreters; /* every interpreter that has used the bridge */
    _Atomic(struct tenon__py_interp *) main;         /* a cache; the interpreter's dict is authoritative */
    _Atomic(const tenon_py_handle_type *)
        handle_types[TENON__PY_HANDLE_TYPES]; /* filled in order; an entry is never changed */

    tenon__py_kind kinds[TENON__PY_KINDS]; /* a hash table of the known types; an entry's type is stored last */
    int nkinds;

    tenon__py_array_layout array_layout;
    _Atomic(tenon__py_try_call) try_call; /* of the framework that has one, once an array of it has been met */
} tenon__py_globals;

extern tenon__py_globals tenon__py_global;

#endif
