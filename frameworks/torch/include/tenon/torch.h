/* The torch bridge: a torch.Tensor in C as itself (one TensorImpl, with its autograd history), every operator of torch by
 * name, and new tensors. Nothing of torch at build time: one binary serves torch 2.4 and newer, found when it is there.
 *
 * Import and export handle Python's objects: they need a thread attached to the interpreter that imported torch, and on
 * failure an exception is set. Everything else may be called from any thread, with or without the interpreter's lock,
 * and reports by tenon_status and tenon_error; where a torch can do something only through Python, that is an error on a
 * thread without the lock, never a wait for it.
 *
 * One failure rule: on failure nothing was taken and nothing needs to be undone. A handle belongs to the copy of the
 * library that made it. */
#ifndef TENON_TORCH_H
#define TENON_TORCH_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct _object; /* PyObject */

/* A counted reference to a tensor of torch's. A use after its last release is caught (unless its place has been used 63
 * times since): an error, or the end of the program where it is released again. */
typedef struct tenon_torch tenon_torch;

/* ---------------------------------------------------------------------------------------------------- what is there */

enum {
    TENON_TORCH_TIER_NONE = 0,    /* torch is not imported, or too old: `missing` says so */
    TENON_TORCH_TIER_PRIVATE = 1, /* 2.4 to 2.13: import and export by functions that torch keeps for itself */
    TENON_TORCH_TIER_STABLE = 2   /* 2.14 and newer: by C functions that torch promises to keep */
};

typedef struct tenon_torch_report {
    int32_t tier;
    bool
        calls_unlocked; /* operators run by torch's C functions (2.13), without Python; some need it still: `unlocked` */
    bool blobs_unlocked; /* tenon_torch_from_blob needs no lock (2.11) */
    char version[32];    /* torch.__version__, or "" */
    char missing[200];   /* what this torch does not have, "" where nothing is missing */
} tenon_torch_report;

/* What is known of the torch in this process. It is looked for once it has been imported, and never imported: on a
 * thread that is not attached, before anything else here was called, nothing is found yet. */
void tenon_torch_info(tenon_torch_report *out);

/* ------------------------------------------------------------------------------------------------------- the object */

/* Take a reference to the tensor behind a Python object: the use count of the TensorImpl goes up by one.
 *
 * Subclasses, parameters, fake tensors and those inside torch.func and torch.vmap are taken as what they are: operators
 * work on them as they do in Python.
 *
 * Release:   tenon_torch_release(*out).
 * Returns:   0, or -1 with a TypeError that names the type that came (by its real type, whatever __class__ says), a
 * RuntimeError where this torch lacks what is needed. */
TENON_NODISCARD int tenon_torch_import(struct _object *object, tenon_torch **out);

/* Give a new reference to the tensor's Python object: the very same while it lives, also where only C holds it.
 *
 * Returns:   0, or -1 with an exception: a RuntimeError in an interpreter that is not torch's. */
TENON_NODISCARD int tenon_torch_export(tenon_torch *tensor, struct _object **out);

/* Add a count and return `tensor`. NULL, and a handle that was released, give NULL. */
tenon_torch *tenon_torch_retain(tenon_torch *tensor);

/* Drop a count; the last one lowers the use count of the TensorImpl by one. NULL does nothing.
 *
 * Threads:   any, at any time. Torch may need the interpreter's lock for this (Python's object may end): a thread that
 * does not hold it leaves it to the next that does, and never waits. After the interpreter's end it is leaked. */
void tenon_torch_release(tenon_torch *tensor);

/* The counts on this handle (not those of the TensorImpl); 0 for NULL and where it was released. */
int64_t tenon_torch_refcount(const tenon_torch *tensor);

/* What could not be given back because the interpreter had ended. */
int64_t tenon_torch_leaked(void);

/* The tensor's memory. `dims` is room for 2 * TENON_MAX_NDIM values, to which the view's shape and strides point. Valid
 * while a count is held and nobody resizes the tensor or replaces its memory; autograd does not see what is written.
 *
 * Errors:    TENON_EINVAL (released), TENON_EDTYPE, TENON_EDEVICE, TENON_ELAYOUT: it has no plain memory (meta, fake,
 * sparse, oneDNN's, inside torch.vmap, conjugated, freed, …; with the lock, the message says which), and those of
 * tenon_view_init. A negated view is known by its even strides, which only torch's private _neg_view does not give. */
TENON_NODISCARD tenon_status tenon_torch_view(tenon_torch *tensor, tenon_view *out, int64_t *dims, tenon_error *err);

/* ------------------------------------------------------------------------------------------------------- new tensors */

/* Make a tensor in torch's own memory, in C order, not filled.
 *
 * Release:   tenon_torch_release(*out).
 * Errors:    TENON_EINVAL, TENON_ESHAPE, TENON_EOVERFLOW, TENON_EDTYPE, TENON_EDEVICE (a device type that this torch
 * does not have), TENON_EFAILED (torch's own: out of memory, no GPU). */
TENON_NODISCARD tenon_status tenon_torch_empty(tenon_dtype dtype, tenon_device device, int32_t ndim,
                                               const int64_t *shape, tenon_torch **out, tenon_error *err);

/* Make a tensor on memory that exists: shape and strides not negative, and to be written.
 *
 * Ownership: takes `owner` on TENON_OK; torch calls release(owner) once, on any thread, when the last tensor on this
 * memory goes.
 * Release:   tenon_torch_release(*out).
 * Errors:    those of tenon_tensor_from_blob and tenon_torch_empty, TENON_EREADONLY, TENON_ELAYOUT. */
TENON_NODISCARD tenon_status tenon_torch_from_blob(const tenon_blob *blob, tenon_torch **out, tenon_error *err);

/* ------------------------------------------------------------------------------------------------------- operators */

/* The kinds of arguments and results. Zeros are what the schema says, so that trailing arguments may be left out. Among
 * several results a tensor that torch leaves undefined is TENON_TORCH_NONE. */
enum {
    TENON_TORCH_DEFAULT = 0,
    TENON_TORCH_NONE = 1,
    TENON_TORCH_TENSOR = 2,
    TENON_TORCH_INT = 3,
    TENON_TORCH_FLOAT = 4, /* for a float or a Scalar; an int will do too */
    TENON_TORCH_BOOL = 5,
    TENON_TORCH_STR = 6, /* also a layout or memory format: "channels_last" */
    TENON_TORCH_DTYPE = 7,
    TENON_TORCH_DEVICE = 8,
    TENON_TORCH_INTS = 9, /* this, FLOATS and BOOLS also for a list of Scalars */
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
            const void *data; /* int64_t, double, bool, tenon_torch *, or the text, ended by 0 */
            int64_t length;
        } list;
    } as;
} tenon_torch_value;

/* An operator of this process; never freed. */
typedef struct tenon_torch_op tenon_torch_op;

/* Find an operator by name and overload ("aten::mul", "Tensor"; "" is an overload too) and remember it. The first time
 * it needs the interpreter's lock.
 *
 * Ownership: *out lives as long as the process. Where the operator was defined from Python, and is unloaded or defined
 * anew with another schema, calling it is TENON_EINVAL: find it again.
 * Errors:    TENON_EINVAL (there is none such: the message names it), TENON_EFAILED (torch is missing; the lock). */
TENON_NODISCARD tenon_status tenon_torch_find(const char *name, const char *overload, const tenon_torch_op **out,
                                              tenon_error *err);

/* Whether it can be called without the lock here. Torch's C functions carry neither Scalar (aten::add's alpha), complex
 * nor layout, nor lists of numbers or several types as results, nor operators that only TorchScript has: such go
 * through Python. So does a call with a tensor whose class has a __torch_function__, whatever the operator. One that
 * was defined from Python needs the lock too: it may have changed. */
bool tenon_torch_unlocked(const tenon_torch_op *op);

/* Call it: autograd records, modes and subclasses are honoured, as for a call in Python; but a thread without the lock
 * cannot ask a TorchFunctionMode. `args` are in the order of the schema, keyword-only ones too; what is missing takes
 * its default. An argument for which there is no kind (a Generator) can only do that, or be None. `results` has room
 * for as many as the operator returns, or for fewer: the others are dropped.
 *
 * Ownership: takes no argument; each result for tenon_torch_value_release, or for tenon_torch_release where a tensor.
 * Threads:   any; torch itself may wait for the lock where Python's code is part of the work (hooks, subclasses).
 * Errors:    TENON_EINVAL (an argument that is released, of a wrong kind, or missing; an operator that is gone),
 * TENON_EFAILED (torch's own, with its message, or any exception of Python's, SystemExit too; a result that is not what
 * the schema says; or it needs the lock here). */
TENON_NODISCARD tenon_status tenon_torch_call_op(const tenon_torch_op *op, size_t nargs, const tenon_torch_value *args,
                                                 size_t nresults, tenon_torch_value *results, tenon_error *err);

/* Both in one. */
TENON_NODISCARD tenon_status tenon_torch_call(const char *name, const char *overload, size_t nargs,
                                              const tenon_torch_value *args, size_t nresults,
                                              tenon_torch_value *results, tenon_error *err);

/* Give back what a result holds, and make it TENON_TORCH_DEFAULT. */
void tenon_torch_value_release(tenon_torch_value *value);

static inline tenon_torch_value tenon_torch_value_of(int32_t kind)
{
    tenon_torch_value value;
    memset(&value, 0, sizeof value);
    value.kind = kind;
    return value;
}

static inline tenon_torch_value tenon_torch_tensor(tenon_torch *tensor)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_TENSOR);
    value.as.tensor = tensor;
    return value;
}

static inline tenon_torch_value tenon_torch_int(int64_t integer)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_INT);
    value.as.integer = integer;
    return value;
}

static inline tenon_torch_value tenon_torch_float(double number)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_FLOAT);
    value.as.number = number;
    return value;
}

static inline tenon_torch_value tenon_torch_bool(bool truth)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_BOOL);
    value.as.integer = truth;
    return value;
}

static inline tenon_torch_value tenon_torch_complex(double real, double imaginary)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_COMPLEX);
    value.as.pair[0] = real;
    value.as.pair[1] = imaginary;
    return value;
}

/* `data` stays the caller's: a text, int64_t, double, bool or tenon_torch *, as the kind says. */
static inline tenon_torch_value tenon_torch_list(int32_t kind, const void *data, int64_t length)
{
    tenon_torch_value value = tenon_torch_value_of(kind);
    value.as.list.data = data;
    value.as.list.length = length;
    return value;
}

static inline tenon_torch_value tenon_torch_str(const char *text)
{
    return tenon_torch_list(TENON_TORCH_STR, text, text ? (int64_t)strlen(text) : 0);
}

static inline tenon_torch_value tenon_torch_dtype(tenon_dtype dtype)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_DTYPE);
    value.as.dtype = dtype;
    return value;
}

static inline tenon_torch_value tenon_torch_device(tenon_device device)
{
    tenon_torch_value value = tenon_torch_value_of(TENON_TORCH_DEVICE);
    value.as.device = device;
    return value;
}

/* ------------------------------------------------------------------------------------- for the functions of a library */

/* The same functions as a table: a function of function.h gets it from its host, which made the handles that it is
 * given as handle("torch.Tensor"), and links nothing. Grows at its end. */
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

/* Let the Python host take and give handle("torch.Tensor"). 0, or -1 with an exception. */
int tenon_torch_register(void);

extern const tenon_torch_table tenon_torch_services;

/* The host's table, or NULL where it has none. */
static inline const tenon_torch_table *tenon_torch_of(tenon_call *call)
{
    return call->host->extension ? (const tenon_torch_table *)call->host->extension(call, TENON_TORCH_EXTENSION, 1)
                                 : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
