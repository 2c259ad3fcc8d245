/* All that the bridge keeps for the whole process; every other variable of it is constant. */
#ifndef TENON_PY_PROCESS_H
#define TENON_PY_PROCESS_H

#include "../producers/producer.h"
#include "compat.h"

/* ----------------------------------------------------------------------------------------------------- the spin lock */

/* For a few stores that no code of Python's comes between. */
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

enum { TENON__PY_KINDS = 64, TENON__PY_FOREIGN = 8, TENON__PY_NUMPY_EXTRAS = 32 };

/* The objects in it belong to the main interpreter, and are held until the process ends: types, and what lives as long as
 * torch does, which loads there only, once, and stays loaded. */
typedef struct tenon__py_process {
    atomic_flag lock;        /* of the tables, for writing; they are read without it */
    tenon__py_mutex capsule; /* of the one capsule that is being consumed */

    _Atomic int64_t waiting;                         /* releases that were left to an interpreter */
    _Atomic int64_t leaked;                          /* those that came after its end */
    _Atomic(struct tenon__py_interp *) interpreters; /* all there ever were */
    _Atomic(struct tenon__py_interp *) main;         /* saves a look-up; the interpreter's own dict is the truth */
    _Atomic(const tenon_py_foreign *) foreign[TENON__PY_FOREIGN]; /* filled from the start, each place once */

    tenon__py_kind kinds[TENON__PY_KINDS]; /* the types that are known, a hash table; an entry's type is stored last */
    int nkinds;

    struct {
        _Atomic(PyTypeObject *) ndarray; /* once a borrow has met it */
        _Atomic int found;               /* 0: not looked for yet; 1: usable; 2: one that is not known */
        void **api;                      /* NumPy's C API */
        size_t head;                     /* where the fields of an array begin */
        struct {
            _Atomic(PyTypeObject *) type;
            tenon_dtype dtype;
        } extras[TENON__PY_NUMPY_EXTRAS]; /* number types of ml_dtypes, which have no fixed numbers */
        int nextras;
    } numpy;

    struct {
        _Atomic(PyTypeObject *) tensor; /* once an object of it has been met, if torch has an exchange table */
        _Atomic(const tenon_dl_exchange *) table;
        _Atomic(const struct torch_functions *) functions;
        _Atomic bool searched;          /* for the functions */
        _Atomic(PyObject *) question;   /* the descriptor behind the attribute requires_grad */
        _Atomic(PyObject *) forward_ad; /* the dict of torch.autograd.forward_ad */
        _Atomic(PyObject *) grad_name;  /* "requires_grad" */
        _Atomic(PyObject *) level_name; /* "_current_level" */
    } torch;

    struct {
        _Atomic bool is_far; /* the last array was on a GPU */
    } jax;
} tenon__py_process;

extern tenon__py_process tenon__py_global;

#endif
