/* The state of the bridge that lives as long as the process. All its other variables are constant, or of one thread
 * and one call. */
#ifndef TENON_PY_GLOBALS_H
#define TENON_PY_GLOBALS_H

#include "../producers/producer.h"
#include "compat.h"

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

enum { TENON__PY_KINDS = 64, TENON__PY_HANDLE_TYPES = 8, TENON__PY_NUMPY_EXTRAS = 32 };

/* The layout of torch's structs, which probe.c in producers/torch finds. */
enum { TENON__PY_TORCH_DTYPES = 64, TENON__PY_TORCH_DIMS = 5 };
typedef struct tenon__py_torch_layout {
    uint64_t keys, inference_keys;                           /* of a plain tensor on the CPU */
    _Atomic uint64_t cuda_keys, cuda_inference_keys;         /* of one on CUDA; 0: not known */
    _Atomic uint64_t cuda_devices;                           /* bit i: tensors on device i have been verified */
    uint32_t impl;                                           /* in the object: the pointer to the TensorImpl */
    uint32_t storage, autograd, sizes, offset, numel, dtype; /* in the TensorImpl */
    uint32_t key_set;
    uint32_t data, check; /* in the StorageImpl: the memory, and the byte that says not to use it as it is */
    tenon_dtype dtypes[TENON__PY_TORCH_DTYPES]; /* by torch's number; bits 0: none that is read */
} tenon__py_torch_layout;

/* A C function of torch that returns a flag of this thread. */
typedef bool (*tenon__py_torch_flag)(void);
typedef int64_t (*tenon__py_torch_count)(void);

/* The states of the search for the layout. */
enum {
    TENON__PY_TORCH_UNREAD,
    TENON__PY_TORCH_WANTED,
    TENON__PY_TORCH_PROBING,
    TENON__PY_TORCH_OFF,
    TENON__PY_TORCH_ON,     /* from here on the layout is known */
    TENON__PY_TORCH_GUARDED /* likewise, and some tensors are read-only: see torch/read_only.c */
};

/* The objects in it belong to the main interpreter and are never released: types, and objects of torch, which loads
 * only in the main interpreter and is never unloaded. */
typedef struct tenon__py_globals {
    atomic_flag lock;        /* guards writes to the tables; they are read without it */
    tenon__py_mutex capsule; /* guards the capsule that is being consumed */

    _Atomic uint32_t fork_count;    /* how often the process has forked: a child has another number than its parent */
    _Atomic unsigned long survivor; /* in a child: the thread that forked, the only one that goes on */
    _Atomic bool watches_forks;

    _Atomic bool has_subinterpreters; /* one has used the bridge */

    _Atomic int64_t waiting;                         /* releases that wait for an interpreter */
    _Atomic int64_t leaked;                          /* releases that came after its shutdown */
    _Atomic(struct tenon__py_interp *) interpreters; /* every interpreter that has used the bridge */
    _Atomic(struct tenon__py_interp *) main;         /* a cache; the interpreter's dict is authoritative */
    _Atomic(const tenon_py_handle_type *)
        handle_types[TENON__PY_HANDLE_TYPES]; /* filled in order; an entry is never changed */

    tenon__py_kind kinds[TENON__PY_KINDS]; /* a hash table of the known types; an entry's type is stored last */
    int nkinds;

    struct {
        _Atomic(PyTypeObject *) ndarray; /* set by the first borrow of one */
        _Atomic int found;               /* 0: not looked for yet; 1: usable; 2: an unknown version */
        void **api;                      /* NumPy's C API */
        size_t head;                     /* the offset of the first field of an array */
        struct {
            _Atomic(PyTypeObject *) type;
            tenon_dtype dtype;
        } extras[TENON__PY_NUMPY_EXTRAS]; /* types of ml_dtypes, which have no fixed numbers */
        int nextras;
    } numpy;

    struct {
        _Atomic(PyTypeObject *) tensor;    /* set by the first tensor */
        _Atomic(PyTypeObject *) parameter; /* likewise, if its objects are read by the layout */
        _Atomic(const tenon_dl_exchange *) table;
        _Atomic int state;             /* of the layout: TENON__PY_TORCH_UNREAD: the switch has not been read */
        _Atomic int tries, cuda_tries; /* how often the layout was looked for in vain */
        char why[160];                 /* why it is not used */
        tenon__py_torch_layout layout;
        _Atomic(struct tenon__py_torch_sample *) sample; /* the last one of tenon__py_torch_probe */
        _Atomic(const struct torch_functions *) functions;
        _Atomic bool searched;                         /* whether the functions have been looked for */
        _Atomic(tenon__py_torch_flag) records;         /* torch's C function for grad mode, if it has been found */
        _Atomic(tenon__py_torch_count) function_modes; /* torch's C++ function for their number, likewise */
        _Atomic(PyObject *) requires_grad_getter;      /* the descriptor of the attribute requires_grad */
        _Atomic(PyObject *) dtype;                     /* that of the attribute dtype */
        _Atomic(PyObject *) is_conj, is_neg, data_ptr, storage_offset; /* methods of torch.Tensor */
        _Atomic(PyObject *) forward_ad;                                /* the dict of torch.autograd.forward_ad */
        _Atomic(PyObject *) grad_name;                                 /* "requires_grad" */
        _Atomic(PyObject *) level_name;                                /* "_current_level" */
        atomic_flag ranges_lock; /* guards the next three; a release may come on any thread */
        _Atomic int64_t nranges;
        size_t ranges_room;
        struct tenon__py_range *ranges; /* the memory of read-only tensors, by address */
        _Atomic bool watches_forks;
    } torch;

    struct {
        _Atomic(PyTypeObject *) array; /* set by the first one */
        _Atomic bool last_was_on_gpu;  /* the last array was on a GPU */
    } jax;
} tenon__py_globals;

extern tenon__py_globals tenon__py_global;

#endif
