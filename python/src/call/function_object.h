/* What a host in frameworks/ shares with the function host: the functions of a library. */
#ifndef TENON_PY_FUNCTION_OBJECT_H
#define TENON_PY_FUNCTION_OBJECT_H

#include "../internal.h"

#include <tenon/host.h>

/* A module that was loaded, with its state; held by its functions and handles, and never unmapped. */
typedef struct tenon__py_library {
    _Atomic int64_t count;
    const tenon_module *module;
    void *state;
    void (*unload)(void *state); /* the module's own field is lost if its file is cut off meanwhile */
} tenon__py_library;

tenon__py_library *tenon__py_library_retain(tenon__py_library *library);
void tenon__py_library_release(tenon__py_library *library);

/* What a framework has prepared for calls of one function on its arrays (tenon__py_try_call). */
typedef struct tenon__py_prepared {
    void (*release)(struct tenon__py_prepared *prepared);
} tenon__py_prepared;

struct tenon__py_frame;

/* A function in Python: the `__self__` of the builtin that is called. */
typedef struct tenon__py_function {
    PyObject_VAR_HEAD tenon__py_library *library;
    tenon_function function;
    tenon_signature *signature;
    tenon_call call; /* what is the same in each of its calls */
    PyMethodDef method;
    char *doc; /* of the method: its text signature, the words, the signature */
    PyObject *module_name;
    PyObject *result_type;     /* of named results, or NULL */
    PyTypeObject **classes;    /* the class of each parameter, then of each result, or NULL; NULL: there are none */
    int32_t nobjects;          /* parameters that have a class */
    bool takes_handle;         /* a handle without a class among the parameters */
    bool has_framework_handle; /* and it is a framework's */
    bool enters_self;          /* a method without other objects */
    bool has_of_self;          /* a result is of(self) */
    bool has_lists;            /* a list of tensors among the parameters or results */
    bool needs_clearing;       /* one of the last three but enters_self: calls hold something until their end */
    bool takes_out;            /* one result, a tensor */
    bool takes_like;           /* a tensor, or a list of them, among the results */
    bool is_large;             /* its calls take more room than a frame has */
    bool is_planned;           /* calls may be made by plan */
    bool is_plain;      /* by that of a plain signature: a function without keyword-only parameters and objects */
    bool is_overload;   /* one of several entries of its name */
    int32_t noverloads; /* of the first entry of a name: how many there are; 0: this is the only one */
    struct tenon__py_function **overloads;  /* all of them, the first one too, which is borrowed */
    _Atomic(tenon__py_prepared *) prepared; /* NULL: no such call has come yet */
    /* Makes the results before the function runs. 0; 1: the call is to be checked; -1 with an exception. NULL: there are no
     * results to make. */
    int (*_Atomic before_run)(struct tenon__py_frame *f);
    tenon__py_interp *interp; /* in whose list of functions it is */
    struct tenon__py_function *previous, *next;
    _Atomic(PyObject *) *descrs; /* the array struct's dtype object of each parameter; NULL unless `is_plain` */
    _Atomic(PyObject *)
        ordered_keywords;        /* the latest keywords that named the last parameters in order: a tuple, or NULL */
    _Atomic int64_t conversions; /* how many arguments were converted */
    PyObject *owner;             /* what pickles as its library; NULL: its module is imported by name */
    PyObject *names[];           /* of the parameters, interned, then "out" and "like" */
} tenon__py_function;

#ifndef TENON_NO_SYSTEM
/* As tenon_py_open, but the module is `type(name, owner)`. Functions and classes hold `owner`, whose method reduce(name)
 * returns the reduced value, as __reduce__ does, of the attribute with that dotted name. Both may be NULL. Sets *found if
 * it opened the library. */
PyObject *tenon__py_open_as(const char *path, PyObject *type, PyObject *owner, const tenon_module **found);
#endif

/* Check the calls of all functions of this interpreter, or stop. 1 or 0: whether they were checked before; -1 with an
 * exception. */
int tenon__py_check(bool on);
/* Whether the calls of this interpreter are checked. */
bool tenon__py_is_checked(tenon__py_interp *interp);

/* What users of a framework do about an argument with that mistake: "; try x.to(torch.float32)", ", for example with
 * x.cuda()", or "". For every host whose arguments are the framework's. */
void tenon__py_advice(const tenon_parameter *param, const tenon_error *err, const tenon__py_producer *owner,
                      char *buffer, size_t size);

/* The services of frameworks by name: the host's `extension`. Needs no lock. */
const void *tenon__py_extension(tenon_call *call, const char *name, uint32_t version);

#endif
