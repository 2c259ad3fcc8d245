/* The torch bridge: C code holds a torch.Tensor as itself (the same TensorImpl, with its autograd history), calls any
 * operator of torch by name, and makes new tensors. It needs nothing from torch at build time: one binary works with
 * torch 2.4 and newer, and finds torch when it has been imported.
 *
 * Import and export handle Python objects. They need a thread that is attached to the interpreter that imported torch,
 * and set an exception on failure. All other functions may be called from any thread, with or without the interpreter
 * lock, and report by tenon_status and tenon_error. If a version of torch can do something only through Python, a
 * thread without the lock gets an error; it never waits for the lock.
 *
 * One failure rule: on failure nothing was taken, and nothing needs to be undone. A handle belongs to the copy of the
 * library that made it. */
#ifndef TENON_TORCH_H
#define TENON_TORCH_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct _object; /* PyObject */

/* A counted reference to a torch tensor. A use after the last release is detected, unless the slot of the handle has
 * been reused 63 times since. It is an error; a second release ends the program. */
typedef struct tenon_torch tenon_torch;

/* ---------------------------------------------------------------------------------------------- the installed torch */

enum {
    TENON_TORCH_TIER_NONE = 0,    /* torch is not imported, or is too old: `missing` says which */
    TENON_TORCH_TIER_PRIVATE = 1, /* torch 2.4 to 2.13: import and export use private functions of torch */
    TENON_TORCH_TIER_STABLE = 2   /* torch 2.14 and newer: they use functions of torch's stable ABI */
};

typedef struct tenon_torch_report {
    int32_t tier;
    bool calls_unlocked; /* torch 2.13: operators run without Python; tenon_torch_unlocked says which */
    bool blobs_unlocked; /* torch 2.11: tenon_torch_from_blob needs no lock */
    char version[32];    /* torch.__version__, or "" */
    char missing[200];   /* what this torch lacks, or "" */
} tenon_torch_report;

/* Describe the torch of this process. The bridge never imports torch; it looks for it on an attached thread, once torch
 * has been imported. So a thread that is not attached finds nothing if it makes the first call to this bridge.
 *
 * Threads:   any. */
void tenon_torch_info(tenon_torch_report *out);

/* ------------------------------------------------------------------------------------------------------- the object */

/* Import a Python object's tensor.
 *
 * Subclasses, parameters, fake tensors and the tensors inside torch.func and torch.vmap stay what they are: operators
 * work on them as they do in Python.
 *
 * Ownership: *out is a new handle, which holds the object and its TensorImpl, whose use count rises by one.
 * Release:   tenon_torch_release(*out).
 * Threads:   attached to the interpreter that imported torch.
 * Errors:    -1 with TypeError (not a tensor; the message has the real type, whatever __class__ says) or RuntimeError
 *            (this torch lacks something that is needed); 0 otherwise. */
TENON_NODISCARD int tenon_torch_import(struct _object *object, tenon_torch **out);

/* Export the tensor's Python object: the same one as long as it lives, even if only C holds it.
 *
 * Ownership: *out is a new reference; the handle stays the caller's.
 * Threads:   attached to the interpreter that imported torch.
 * Errors:    -1 with an exception, a RuntimeError in another interpreter; 0 otherwise. */
TENON_NODISCARD int tenon_torch_export(tenon_torch *tensor, struct _object **out);

/* Add a count and return `tensor`. Returns NULL for NULL and for a handle that was released. */
tenon_torch *tenon_torch_retain(tenon_torch *tensor);

/* Drop a count; the last one lowers the use count of the TensorImpl by one. NULL does nothing.
 *
 * Threads:   any, at any time. Torch may need the interpreter lock for this, because the Python object may die. A
 *            thread that does not hold the lock never waits: it leaves the release to the next thread that holds it.
 *            After the interpreter's shutdown the reference is leaked. */
void tenon_torch_release(tenon_torch *tensor);

/* The counts on this handle, not those of the TensorImpl. 0 for NULL and for a handle that was released. */
int64_t tenon_torch_refcount(const tenon_torch *tensor);

/* The number of references that were leaked because the interpreter had ended. */
int64_t tenon_torch_leaked(void);

/* Describe the tensor's memory. The view's shape and strides go to `dims`, which has room for 2 * TENON_MAX_NDIM values.
 * Autograd does not notice writes to it.
 *
 * Ownership: takes nothing. The view is valid while a count is held and the tensor is neither resized nor given other
 *            memory.
 * Threads:   any; only with the interpreter lock if the struct of torch's tensors is not read (torch 2.4 and 2.5,
 *            TENON_TORCH_STRUCT=0) and torch cannot be asked without it (`calls_unlocked`).
 * Errors:    TENON_EINVAL (released), TENON_EDTYPE, TENON_EDEVICE, TENON_ELAYOUT (it has no plain memory: meta, fake,
 *            sparse, oneDNN, inside torch.vmap, conjugated, negated, freed, …; with the lock held, the message says
 *            which), TENON_EFAILED (this thread cannot ask torch), and those of tenon_view_init. */
TENON_NODISCARD tenon_status tenon_torch_view(tenon_torch *tensor, tenon_view *out, int64_t *dims, tenon_error *err);

/* The at::Tensor of the handle, for C++ code that was compiled with the torch of this process (in Rust: tch's C_tensor).
 * NULL for NULL and for a handle that was released.
 *
 * Ownership: it belongs to the handle, and is valid as long as a count is held.
 * Threads:   any. */
void *tenon_torch_pointer(tenon_torch *tensor);

/* Make a handle of an at::Tensor that such code made: the same TensorImpl, so that its Python object is the same too.
 *
 * Ownership: *out is a new handle; `pointer` stays the caller's.
 * Release:   tenon_torch_release(*out).
 * Threads:   any.
 * Errors:    TENON_EINVAL (NULL, or an undefined tensor), TENON_EFAILED (torch 2.12 and older cannot do it),
 *            TENON_ENOMEM. */
TENON_NODISCARD tenon_status tenon_torch_from_pointer(void *pointer, tenon_torch **out, tenon_error *err);

/* ------------------------------------------------------------------------------------------------------- new tensors */

/* Make a tensor in torch's own memory, in C order, not filled.
 *
 * Ownership: *out is a new handle.
 * Release:   tenon_torch_release(*out).
 * Threads:   any.
 * Errors:    TENON_EINVAL, TENON_ESHAPE, TENON_EOVERFLOW, TENON_EDTYPE, TENON_EDEVICE (this torch does not have the
 *            device type), TENON_EFAILED (torch's own error, such as out of memory or no GPU). */
TENON_NODISCARD tenon_status tenon_torch_empty(tenon_dtype dtype, tenon_device device, int32_t ndim,
                                               const int64_t *shape, tenon_torch **out, tenon_error *err);

/* Make a tensor on existing memory. The memory must be writable, and no stride may be negative.
 *
 * Ownership: takes `owner` on TENON_OK; torch calls release(owner) once, on any thread, when the last tensor on this
 *            memory dies.
 * Release:   tenon_torch_release(*out).
 * Threads:   any; before torch 2.11, only with the interpreter lock (`blobs_unlocked`).
 * Errors:    those of tenon_tensor_from_blob and tenon_torch_empty, TENON_EREADONLY, TENON_ELAYOUT. */
TENON_NODISCARD tenon_status tenon_torch_from_blob(const tenon_blob *blob, tenon_torch **out, tenon_error *err);

/* ------------------------------------------------------------------------------------------------------- operators */

/* The kinds of arguments and results. A value of zeros means the schema's default, so trailing arguments may be
 * left out. If an operator with several results leaves a tensor undefined, that result is TENON_TORCH_NONE. */
enum {
    TENON_TORCH_DEFAULT = 0,
    TENON_TORCH_NONE = 1,
    TENON_TORCH_TENSOR = 2,
    TENON_TORCH_INT = 3,
    TENON_TORCH_FLOAT = 4, /* for a float or a Scalar; an int is accepted too */
    TENON_TORCH_BOOL = 5,
    TENON_TORCH_STR = 6, /* also for a layout or memory format: "channels_last" */
    TENON_TORCH_DTYPE = 7,
    TENON_TORCH_DEVICE = 8,
    TENON_TORCH_INTS = 9, /* INTS, FLOATS and BOOLS are also for a list of Scalars */
    TENON_TORCH_FLOATS = 10,
    TENON_TORCH_TENSORS = 11, /* a NULL among them is None */
    TENON_TORCH_BOOLS = 12,
    TENON_TORCH_COMPLEX = 13 /* for a complex or a Scalar */
};

typedef struct tenon_torch_value {
    int32_t kind;
    int32_t reserved;
    union {
        tenon_torch *tensor;
        int64_t integer; /* int, bool */
        double number;
        double pair[2]; /* a complex number: real part, imaginary part */
        tenon_dtype dtype;
        tenon_device device;
        struct {
            const void *data; /* int64_t, double, bool, tenon_torch *, or a string that ends with 0 */
            int64_t length;
        } list;
    } as;
} tenon_torch_value;

/* An operator of torch. Never freed. */
typedef struct tenon_torch_op tenon_torch_op;

/* Find an operator by name and overload, such as "aten::mul" and "Tensor", and remember it. "" is an overload too.
 *
 * Ownership: *out lives as long as the process. If an operator that was defined from Python is unloaded, or defined
 *            again with another schema, calling *out is TENON_EINVAL: find it again.
 * Threads:   any; the first time for each operator, only with the interpreter lock.
 * Errors:    TENON_EINVAL (there is no such operator), TENON_EFAILED (torch is missing, or the lock is needed). */
TENON_NODISCARD tenon_status tenon_torch_find(const char *name, const char *overload, const tenon_torch_op **out,
                                              tenon_error *err);

/* Whether the operator can be called without the interpreter lock.
 *
 * It cannot if torch's C functions cannot represent its schema: they have no Scalar (aten::add's alpha), complex or
 * layout, no results that are lists of numbers or of several types, and no operators that only TorchScript has. It
 * cannot if it was defined from Python, because its definition may have changed. In a call with a tensor whose class
 * has a __torch_function__, every operator goes through Python.
 *
 * Threads:   any. */
bool tenon_torch_unlocked(const tenon_torch_op *op);

/* Call an operator, as a call in Python would: autograd records it, and modes and subclasses take part. A
 * thread without the lock ignores TorchFunctionModes.
 *
 * `args` are in the order of the schema, keyword-only ones included; missing ones take their default. An argument that
 * has no kind here (a Generator) must be left out, or be None. `results` may have room for fewer results than the
 * operator returns: the others are dropped.
 *
 * Ownership: takes no argument. Each result is the caller's.
 * Release:   tenon_torch_value_release(&results[i]), or tenon_torch_release of a tensor.
 * Threads:   any. Torch itself may wait for the lock if Python code is part of the work (hooks, subclasses).
 * Errors:    TENON_EINVAL (an argument is released, missing, or of the wrong kind; the operator no longer exists),
 *            TENON_EFAILED (torch's own error, with its message; any Python exception, SystemExit included; a result
 *            that does not match the schema; or the lock is needed). */
TENON_NODISCARD tenon_status tenon_torch_call_op(const tenon_torch_op *op, size_t nargs, const tenon_torch_value *args,
                                                 size_t nresults, tenon_torch_value *results, tenon_error *err);

/* tenon_torch_find and tenon_torch_call_op in one. */
TENON_NODISCARD tenon_status tenon_torch_call(const char *name, const char *overload, size_t nargs,
                                              const tenon_torch_value *args, size_t nresults,
                                              tenon_torch_value *results, tenon_error *err);

/* Release what a result holds, and set it to TENON_TORCH_DEFAULT. */
void tenon_torch_value_release(tenon_torch_value *value);

/* A value of a kind, without content. */
static inline tenon_torch_value tenon_torch_value_of(int32_t kind)
{
    tenon_torch_value value;
    memset(&value, 0, sizeof value);
    value.kind = kind;
    return value;
}

/* A tensor, which stays the caller's. */
static inline tenon_torch_value tenon_torch_tensor(tenon_torch *tensor)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_TENSOR);
    value.as.tensor = tensor;
    return value;
}

/* An int. */
static inline tenon_torch_value tenon_torch_int(int64_t integer)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_INT);
    value.as.integer = integer;
    return value;
}

/* A float. */
static inline tenon_torch_value tenon_torch_float(double number)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_FLOAT);
    value.as.number = number;
    return value;
}

/* A bool. */
static inline tenon_torch_value tenon_torch_bool(bool truth)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_BOOL);
    value.as.integer = truth;
    return value;
}

/* A complex number. */
static inline tenon_torch_value tenon_torch_complex(double real, double imaginary)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_COMPLEX);
    value.as.pair[0] = real;
    value.as.pair[1] = imaginary;
    return value;
}

/* `data` stays the caller's: a string, or int64_t, double, bool or tenon_torch * elements, by the kind. */
static inline tenon_torch_value tenon_torch_list(int32_t kind, const void *data, int64_t length)
{
    tenon_torch_value value = tenon_torch_value_of(kind);
    value.as.list.data = data;
    value.as.list.length = length;
    return value;
}

/* A string, which stays the caller's. */
static inline tenon_torch_value tenon_torch_str(const char *text)
{
    return tenon_torch_list(TENON_TORCH_STR, text, text ? (int64_t)strlen(text) : 0);
}

/* A dtype. */
static inline tenon_torch_value tenon_torch_dtype(tenon_dtype dtype)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_DTYPE);
    value.as.dtype = dtype;
    return value;
}

/* A device. */
static inline tenon_torch_value tenon_torch_device(tenon_device device)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_DEVICE);
    value.as.device = device;
    return value;
}

/* ------------------------------------------------------------------------------------- for the functions of a library */

/* The same functions as a table, for a function of tenon/function.h, which links nothing. It gets the table from its
 * host, which also made the handles that it receives as handle("torch.Tensor"). The struct grows only at the end. */
typedef struct tenon_torch_table {
    uint32_t size;
    uint32_t minor;
    void (*info)(tenon_torch_report *out);
    tenon_torch *(*retain)(tenon_torch *tensor);
    void (*release)(tenon_torch *tensor);
    tenon_status (*view)(tenon_torch *tensor, tenon_view *out, int64_t *dims, tenon_error *err);
    tenon_status (*empty)(tenon_dtype dtype, tenon_device device, int32_t ndim, const int64_t *shape, tenon_torch **out,
                          tenon_error *err);
    tenon_status (*from_blob)(const tenon_blob *blob, tenon_torch **out, tenon_error *err);
    tenon_status (*find)(const char *name, const char *overload, const tenon_torch_op **out, tenon_error *err);
    tenon_status (*call_op)(const tenon_torch_op *op, size_t nargs, const tenon_torch_value *args, size_t nresults,
                            tenon_torch_value *results, tenon_error *err);
    tenon_status (*call)(const char *name, const char *overload, size_t nargs, const tenon_torch_value *args,
                         size_t nresults, tenon_torch_value *results, tenon_error *err);
    void (*value_release)(tenon_torch_value *value);
} tenon_torch_table;

#define TENON_TORCH_EXTENSION "tenon.torch"

/* Let functions that are called from Python accept and return handle("torch.Tensor").
 *
 * Threads:   attached.
 * Errors:    -1 with an exception; 0 otherwise. */
TENON_NODISCARD int tenon_torch_register(void);

extern const tenon_torch_table tenon_torch_services;

/* The host's table, or NULL if it has none. */
static inline const tenon_torch_table *tenon_torch_of(tenon_call *call)
{
    return call->host->extension ? (const tenon_torch_table *)call->host->extension(call, TENON_TORCH_EXTENSION, 1)
                                 : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
