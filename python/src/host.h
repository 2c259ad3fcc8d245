/* What the sources of the function host share. */
#ifndef TENON_PY_HOST_H
#define TENON_PY_HOST_H

#include "bridge.h"

#include <tenon/host.h>

/* A module that was loaded, with its state; held by its functions and handles, and never unmapped. */
typedef struct tenon__py_library {
    _Atomic int64_t count;
    const tenon_module *module;
    void *state;
    void (*unload)(void *state);    /* the module's own field is lost if its file is cut off meanwhile */
    _Atomic(PyObject *) forward_ad; /* the names of torch.autograd.forward_ad, once a tensor of torch's has come */
} tenon__py_library;

tenon__py_library *tenon__py_library_retain(tenon__py_library *library);
void tenon__py_library_release(tenon__py_library *library);

/* What stands behind a function in Python: the `__self__` of the builtin that is called. */
typedef struct tenon__py_function {
    PyObject_VAR_HEAD tenon__py_library *library;
    tenon_function function;
    tenon_signature *signature;
    tenon_call call; /* what is the same in each of its calls */
    PyMethodDef method;
    char *doc; /* of the method: its text signature, the words, the signature */
    PyObject *module_name;
    PyObject *result_type;   /* of named results, or NULL */
    PyObject *requires_grad; /* names, interned: they are asked for with every torch tensor */
    PyObject *current_level;
    bool has_foreign;  /* a handle of a framework's among the parameters */
    bool takes_out;    /* one result, a tensor */
    bool takes_like;   /* a tensor among the results */
    PyObject *names[]; /* of the parameters, interned, then "out" and "like" */
} tenon__py_function;

/* Whether the function checks the gradients of what it is given. */
static inline bool tenon__py_checks_gradients(const tenon__py_function *function)
{
    return !(function->function.flags & TENON_NO_GRAD_CHECK);
}

/* A builtin function object of a module's entry. */
PyObject *tenon__py_function_new(tenon__py_library *library, int64_t index, PyObject *module_name);

/* The call itself: a METH_FASTCALL | METH_KEYWORDS function. */
PyObject *tenon__py_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* Call a module's `load`. 0, or -1 with an exception. */
int tenon__py_call_load(const tenon_module *module, void **state);

/* ------------------------------------------------------------------------------------------------------- arguments */

/* Sort the arguments into `given` (NULL: left out), then out and like. As Python does, or -1 with its TypeError. */
int tenon__py_distribute(const tenon__py_function *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                         PyObject **given);

/* Turn an object into a value of the parameter's kind, which is no tensor. -1 with an exception. */
int tenon__py_to_value(const tenon__py_function *function, const tenon_parameter *param, PyObject *object,
                       tenon_block **blocks, tenon_value *value);

/* Raise "saxpy(): argument 'x': …". Returns -1. */
int tenon__py_argument_error(const tenon__py_function *function, const char *argument, PyObject *exception,
                             const char *format, ...);
/* Raise "saxpy(): argument 'x': expected float, got str". Returns -1. */
int tenon__py_wrong_type(const tenon__py_function *function, const tenon_parameter *param, PyObject *object);
/* Note which argument the pending exception is about, unless its message says so. */
void tenon__py_note_argument(const tenon__py_function *function, const char *argument);
/* Say what the pending exception is about, "argument 'x'" or "result 0": in its message where that is ours (those begin
 * with the type of `object`; without one all plain exceptions are taken for ours), else in a note. */
void tenon__py_name_part(const tenon__py_function *function, const char *part, PyObject *object);
void tenon__py_name_argument(const tenon__py_function *function, const char *argument, PyObject *object);

/* Refuse a tensor whose gradients would end here. *flat: it is known that no forward-mode differentiation goes on, which
 * is asked once in a call. 0, or -1 with an exception. */
int tenon__py_check_gradient(const tenon__py_function *function, const char *argument, PyObject *object, bool *flat);

/* ------------------------------------------------------------------------------------------------------- the frame */

enum { TENON__PY_INLINE_BORROWS = 6 };

/* Everything of one call, on the stack; nobody fills it with zeros. */
typedef struct tenon__py_frame {
    tenon_call call;
    const tenon__py_function *function;
    tenon_device device; /* of the first device tensor, else the CPU */
    int32_t nborrowed;
    bool fits;             /* all tensors so far plainly fit */
    bool held;             /* some borrow holds something */
    bool flat;             /* see tenon__py_check_gradient */
    PyObject *like;        /* whose framework the results follow, or NULL */
    PyObject *exception;   /* one of Python's that came up during the call */
    PyObject *kept;        /* a list of what must live until the end, or NULL */
    PyThreadState *thread; /* where the lock was let go */
    int64_t elements;      /* of all tensors, or-ed: as large as the largest, or up to twice that */
    int64_t looked;        /* when `cancelled` last looked, in nanoseconds; 0: never */
    tenon_block *blocks;
    tenon_py_borrowed *borrowed;
    PyObject *const *given; /* the arguments by parameter; NULL: left out */
    PyObject *out;          /* these two are NULL where they are not given, or None */
    PyObject *wanted_like;
    PyObject *sorted[TENON_MAX_PARAMETERS + 2]; /* what `given` points to where the caller's order will not do */
    tenon_value args[TENON_MAX_PARAMETERS];
    tenon_value results[TENON_MAX_RESULTS];
    PyObject *made[TENON_MAX_RESULTS];
    tenon_bindings bindings;
    tenon_error error;
    tenon_py_borrowed room[TENON__PY_INLINE_BORROWS];
} tenon__py_frame;

/* What the host does for the function. */
extern const tenon_host tenon__py_host;
/* Make a tensor result in the caller's framework. -1 with an exception. */
int tenon__py_make_result(tenon__py_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
/* Put it, or the caller's own, in its place; takes `object`. */
void tenon__py_place_result(tenon__py_frame *f, int32_t index, PyObject *object, tenon_py_borrowed *borrowed,
                            uint64_t flags);
/* Raise what the function `name` said, or what its status means. */
void tenon__py_raise_failure(tenon__py_frame *f, const char *name, tenon_status status);

/* --------------------------------------------------------------------------------------------------------- handles */

/* An object of a library's, destroyed once. Takes `object` on success. */
PyObject *tenon__py_handle_new(tenon__py_library *library, const char *type, void *object, void (*destroy)(void *));
/* The object inside, or NULL with a TypeError where it is no handle of this library and type. */
void *tenon__py_handle_object(const tenon__py_function *function, const tenon_parameter *param, PyObject *handle);

/* What stands behind the name of a framework's handles, or NULL; the host's `extension`. */
const tenon_py_foreign *tenon__py_foreign(const char *type);
const void *tenon__py_extension(tenon_call *call, const char *name, uint32_t version);
/* An argument's handle, to be released with all of the call's; NULL with an exception. */
void *tenon__py_foreign_object(const tenon__py_function *function, const tenon_parameter *param, PyObject *object);
void tenon__py_foreign_release(const tenon__py_frame *f);
/* A result: takes `handle` on success. */
PyObject *tenon__py_foreign_result(const tenon_py_foreign *foreign, void *handle, void (*destroy)(void *));

#endif
