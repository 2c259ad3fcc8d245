/* Operators whose kernels are written in C: torch calls the function of a library without Python and without the
 * interpreter lock. */
#ifndef TENON_TORCH_KERNELS_H
#define TENON_TORCH_KERNELS_H

#include "../../../python/src/call/internal.h"
#include "../object/internal.h"

enum { TENON__TORCH_KEYS = 2 }; /* "CPU" and "CUDA" */

/* The kernel of one operator. It does not change while torch may call it. */
typedef struct tenon__torch_kernel {
    const tenon__torch_api *api;
    const tenon__py_function *function; /* owned: it holds the signature and the library */
    tenon_library_lock *library_lock;   /* NULL if calls may overlap */
    tenon_call call;                    /* what is the same in each of its calls */
    void *registered[TENON__TORCH_KEYS];
} tenon__torch_kernel;

/* Whether a kernel in C can read the arguments of this function, and run it without the interpreter lock. */
bool tenon__torch_kernel_fits(const tenon__py_function *function);

/* The constant part of its calls. */
void tenon__torch_kernel_init(tenon__torch_kernel *kernel);

/* Call the function with torch's stack. Takes the arguments in any case; on TENON_OK the results are on the stack, and
 * otherwise the error says what kernels.f would. */
tenon_status tenon__torch_kernel_call(const tenon__torch_kernel *kernel, tenon__torch_stable *stack, uint64_t nargs,
                                      uint64_t nresults, tenon_error *err);

/* Register a function as the kernels in C of the operator name_space::name, which torch knows already: for each key
 * (NULL: not wanted), *done says whether it is. Returns its place in the table, or -1 if none of them is: this torch, the
 * function or its arguments need Python, or the table is full. Needs the interpreter lock; so does the removal, which
 * returns false if there is nothing at that place. Calls that are running meanwhile end as they would have. */
int tenon__torch_kernel_add(PyObject *function, const char *name_space, const char *const *keys, bool *done);
bool tenon__torch_kernel_remove(int place);
/* The number of places that are taken. */
int tenon__torch_kernel_count(void);

/* Why the last kernel in C failed on this thread. Its exception in Python may be of another class. */
typedef struct tenon__torch_failure {
    tenon_status status; /* TENON_OK: none has failed */
    bool matched;        /* its arguments were good */
    bool ran;            /* the function had begun: what it wrote counts */
    char message[sizeof(((tenon_error *)0)->message)];
} tenon__torch_failure;
tenon__torch_failure *tenon__torch_last_failure(void);

/* --------------------------------------------------------------------------------------------------------- autograd */

/* The number of parameters of a function that direct() has made; -1 if it is not one. */
Py_ssize_t tenon__torch_direct_count(PyObject *function);

/* What such a function would call with these arguments, one for each parameter: the operator; the C function itself, because
 * torch would do nothing else; or the C function, recorded by autograd. TENON__TORCH_FAILED with an exception. */
typedef enum tenon__torch_way {
    TENON__TORCH_FAILED = -1,
    TENON__TORCH_OPERATOR,
    TENON__TORCH_FUNCTION,
    TENON__TORCH_RECORD
} tenon__torch_way;
tenon__torch_way tenon__torch_direct_way(PyObject *function, PyObject *const *args);

/* Exclude these dispatch keys on this thread until they are restored to the returned ones. Only if
 * tenon__torch_can_read_dispatch_keys. */
uint64_t tenon__torch_exclude_keys(uint64_t keys);
void tenon__torch_restore_keys(uint64_t excluded);

/* For the package: (function of torch, direct function, recorder or None, names, defaults, keys of autograd). */
PyObject *tenon__torch_make_skip_autograd(PyObject *module, PyObject *parts);

/* --------------------------------------------------------------------------------------------------------- schema */

/* Write the schema of the operator that follows from a signature to `buffer`, with a final 0, and its length to
 * *length; a buffer that is too small (or NULL, of size 0) has as much of it as fits. TENON_EINVAL if the function
 * cannot be an operator; the message is the reason. */
tenon_status tenon__torch_schema(const tenon_signature *signature, char *buffer, size_t size, size_t *length,
                                 tenon_error *err);

#endif
