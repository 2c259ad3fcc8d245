/* What the files of this folder share. */
#ifndef TENON_JAX_ARRAY_H
#define TENON_JAX_ARRAY_H

#include "../../../python/src/internal.h"

/* The state of the process. The type is never deallocated. */
typedef struct tenon__py_jax_state {
    _Atomic(PyTypeObject *) array; /* set by the first one */
    _Atomic bool last_was_on_gpu;  /* the last array was on a GPU */
} tenon__py_jax_state;

extern tenon__py_jax_state tenon__py_jax;

/* Run a call by a program that JAX has compiled (eager.c). */
bool tenon__py_jax_try_call(struct tenon__py_frame *f, PyObject **result);

#endif
