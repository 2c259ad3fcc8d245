/* A producer is a framework, or a protocol that several frameworks speak. All that the bridge knows of one is a constant
 * struct: of a protocol in ../protocols, of a framework in its folder in frameworks/. No other file asks which framework it
 * has. */
#ifndef TENON_PY_PRODUCER_H
#define TENON_PY_PRODUCER_H

#define TENON_ORIGINS /* reports of TENON_DEBUG name the bridge's line */
#include <tenon/python.h>

#include <stdatomic.h>

/* What a borrow holds beside a reference to its object. */
enum {
    TENON__PY_HOLDS_NOTHING, /* only C code ran, no user code */
    TENON__PY_HOLDS_BUFFER,
    TENON__PY_HOLDS_QUIET_BUFFER, /* whose release neither raises an exception nor minds a pending one */
    TENON__PY_HOLDS_MANAGED,
    TENON__PY_HOLDS_LEGACY,
    TENON__PY_HOLDS_OBJECT,
    TENON__PY_HOLDS_TENSOR,
};

typedef struct tenon__py_producer tenon__py_producer;

/* An expression of the user's in x: <before>x<after>. */
typedef struct tenon__py_expression {
    const char *before, *after;
} tenon__py_expression;

/* A writable tensor in memory of the CPU, in C order without gaps. The shape stays where it is. */
typedef struct tenon__py_c_tensor {
    void *data;
    const tenon_dtype *dtype;
    int32_t ndim;
    const int64_t *shape;
    bool no_forward_ad; /* as in tenon__py_checks; the caller keeps it for the next tensor of the same call */
} tenon__py_c_tensor;

/* A type, and how its objects are read. A producer's `recognise` writes all but `type`, `readers` and `guesses`. */
typedef struct tenon__py_kind {
    _Atomic(PyTypeObject *) type;
    const tenon__py_producer
        *owner;         /* whose arrays these are, which makes more of them; NULL: bytes, a memoryview, … */
    uint32_t readers;   /* bit i: producer i of the list reads them, asked in this order */
    uint32_t guesses;   /* those of them that look at each object, since its type says nothing */
    bool is_immutable;  /* even if what is read does not say read-only */
    bool is_abstract;   /* refused, and not a number either */
    bool is_of_object;  /* found out for this object: not remembered for its type */
    bool has_dlpack;    /* the method __dlpack__ */
    bool keeps_buffer;  /* the buffer protocol is not asked: another reader knows better */
    int device_type;    /* where all instances are; TENON_CPU: each is asked */
    const char *reason; /* why such objects are refused, or NULL */
    const tenon_dl_exchange *table;
    /* Describe an ordinary object in C order, holding nothing, while the caller holds the object; runs C code only. Sets
     * out->view (by tenon__py_make_view_fast), out->private_.holds and out->private_.table, and nothing else of `out`. False:
     * the readers find out. NULL: they always do. */
    bool (*peek)(PyObject *object, const struct tenon__py_kind *kind, tenon_py_borrowed *out);
    /* For a call by plan: the same without a view, for a tensor on the CPU that autograd has never recorded. The caller checks
     * the sizes. False: `peek` is called. NULL: it always is. */
    bool (*read_c_tensor)(PyObject *object, tenon__py_c_tensor *out);
} tenon__py_kind;

/* What the checks of one call have found out. */
typedef struct tenon__py_checks {
    bool no_forward_ad;    /* no forward-mode differentiation goes on, which is asked once */
    bool may_have_changed; /* the user's Python code may have run since the first tensor was borrowed */
} tenon__py_checks;

/* How an object is to be read. */
typedef struct tenon__py_request {
    uint32_t flags;    /* of tenon_py_borrow */
    intptr_t stream;   /* of tenon_py_borrow_on; TENON__PY_NO_STREAM: the producer's own */
    bool is_last;      /* no other reader is left: a refusal is the answer */
    PyObject *refusal; /* what an earlier reader refused with, or NULL */
} tenon__py_request;

/* A function that is NULL has nothing to do for this producer. Unless said otherwise, the functions return 0, or -1 with
 * an exception. */
struct tenon__py_producer {
    const char *name;            /* its module's, for tenon.to() and like=; NULL: it cannot be asked for by name */
    const char *title;           /* its name in messages */
    const char *noun;            /* what its users call one of its arrays; NULL: "array" */
    bool takes_device;           /* `empty` gets the device, instead of looking at `like` */
    bool waits;                  /* `wrap` makes its stream wait for the stream of the memory */
    bool is_writable;            /* it has no read-only arrays */
    const char *cast, *cast_end; /* how its users convert x to a dtype: x.<cast>float32<cast_end> */
    tenon__py_expression to_cpu; /* how they move x to the CPU, and to CUDA or ROCm */
    tenon__py_expression to_cuda;
    tenon__py_expression to_c_order; /* how they copy x to C order without gaps */

    /* Whether this producer has to do with the object's type: writes what it knows to `kind`, as those before it in
     * the list have done. The answer is remembered: a type is shown once, unless `is_of_object`. 0: it does not read such
     * objects; 1: it does, with others; TENON__PY_ALONE: it is the only one; TENON__PY_PERHAPS: it depends on the object. */
    int (*recognise)(PyObject *object, tenon__py_kind *kind);
    /* Whether a type that it has recognised before is that of its arrays. If so, it writes their table to `kind`. Runs C code
     * only. NULL: none of its borrows needs to be compared, because each of them holds something. Without it, calls on arrays
     * whose borrows hold nothing fail when the table of types is full. */
    bool (*recognise_again)(PyTypeObject *type, tenon__py_kind *kind);
    /* Fill `out`: the view, and what is held, if that is not TENON__PY_HOLDS_NOTHING. 1 without an exception: this object is
     * not one for this producer. */
    int (*read)(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out);

    /* For the owner of an array. */

    /* Whether an array that its readers report as writable must not be written to. */
    bool (*is_read_only)(const tenon_view *view);
    /* Refuse what the readers let through although it is not plain memory. */
    int (*check)(PyObject *object, const tenon_py_borrowed *borrowed);
    /* Why a reader could not read it and what to do, or NULL. Keeps the pending exception. */
    const char *(*advice)(PyObject *object);
    /* What to read by __dlpack__ instead of the array, and what to hold so that replacing its memory does not matter: a new
     * reference, or NULL with an exception. */
    PyObject *(*alias)(PyObject *object);
    PyObject *(*pin)(PyObject *object);
    /* Whether a capsule's memory still is the array's. An exception may be left. */
    bool (*has_data)(PyObject *object, const void *data);
    /* Whether the array is gone. Keeps the pending exception, unless it is. */
    bool (*is_deleted)(PyObject *object);
    /* The stream that it works on now. */
    int (*stream)(void **stream);
    /* Whether gradients would be lost in a function that is given the array: 1 and why. Sets `may_have_changed` if it may
     * have run the user's code although the type is one that `peek` reads. */
    int (*gradient)(PyObject *object, tenon__py_checks *checks, const char **why);
    /* A function has written to the array. No exception is pending, and what cannot be done is not an error. */
    void (*after_write)(PyObject *object);

    /* A new array on the CPU or a CUDA device by C functions of the framework alone, borrowed; it can be written, unless the
     * borrow says read-only. NULL, always without an exception: `empty` is called, and reports what is wrong. For types that
     * have a `peek`. */
    PyObject *(*empty_in_c)(tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                            tenon_py_borrowed *out);
    /* A new array, borrowed to be written, on that device if it `takes_device`; `like` is one of its own, or NULL. */
    PyObject *(*empty)(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                       tenon_py_borrowed *out);
    /* A new array on the tensor's memory. */
    PyObject *(*wrap)(tenon_tensor *tensor);
    /* The same of memory that a function gave as a result, if more is accepted then. */
    PyObject *(*adopt)(tenon_tensor *tensor);
    /* The same of read-only memory that came from another process, if it has no read-only arrays. */
    PyObject *(*receive)(tenon_tensor *tensor);
    /* The memory of a shared tensor is read-only: write to no array on it that is made in another way, until it is unmapped.
     * It may be called again. A shared tensor has one watcher, so that one producer at most can have this. */
    int (*guard)(tenon_tensor *tensor);
};

enum { TENON__PY_ALONE = 2, TENON__PY_PERHAPS = 3 };

/* The protocols; the first two come before the frameworks when a type is shown to them and an object is read, the others
 * after them. */
extern const tenon__py_producer tenon__py_producer_tensor;  /* tenon.Tensor */
extern const tenon__py_producer tenon__py_producer_capsule; /* a DLPack capsule by itself */
extern const tenon__py_producer tenon__py_producer_exchange_table;
extern const tenon__py_producer tenon__py_producer_buffer;
extern const tenon__py_producer tenon__py_producer_dlpack;
extern const tenon__py_producer tenon__py_producer_array_api; /* frameworks that have its namespace */
extern const tenon__py_producer tenon__py_producer_array_interface;
extern const tenon__py_producer tenon__py_producer_arrow;

/* Run a call in the framework's own way, if its first tensor is one of the framework's arrays and nothing is unusual. The
 * arguments are sorted, and nothing else has begun. False: nothing has happened. True: *result is a new reference, or NULL
 * with an exception. */
struct tenon__py_frame;
typedef bool (*tenon__py_try_call)(struct tenon__py_frame *f, PyObject **result);

/* A framework: its arrays, and what else the bridge does for it. Each has a folder in frameworks/, which defines one constant
 * tenon__py_framework_NAME, and a line in frameworks/list.h. A member that is NULL has nothing to do. */
typedef struct tenon__py_framework {
    const tenon__py_producer *producer;
    tenon_py_as as;     /* tenon_py_export's number for it; 0 if it has none */
    bool makes_results; /* once it has been imported, results are its arrays if no argument says otherwise */
    /* Whether it is the framework's True or False, if their class does not have an __index__. 1, 0, or -1 with an exception. */
    int (*is_bool)(PyObject *object);
    /* Its exchange table, whose current stream tenon.Tensor's own table uses; NULL: it has none, or was not met yet. */
    const tenon_dl_exchange *(*table)(void);
    /* How many threads its own loops would use on this thread; 0: it is not loaded, or does not say. Called without the
     * interpreter's lock. */
    int (*thread_count)(void);
    /* What tenon.Tensor has for its sake. */
    PyMethodDef *tensor_methods;
    PyGetSetDef *tensor_attributes;
} tenon__py_framework;

/* All of them, in the order in which types are shown to them: frameworks/list.c. */
extern const tenon__py_framework *const tenon__py_frameworks[];
extern const int tenon__py_nframeworks;

/* Whether it is a framework's True or False (see above). 1, 0, or -1 with an exception. */
int tenon__py_is_framework_bool(PyObject *object);
/* Who makes results if no argument says it; NULL for tenon.Tensor. 0, or -1 with an exception. */
int tenon__py_default_producer(const tenon__py_producer **out);

/* The kind of `object`, from memory or found out now; `room` is used if the memory is full. NULL with an
 * exception. */
const tenon__py_kind *tenon__py_kind_of(PyObject *object, tenon__py_kind *room);
/* The same from memory alone; NULL: it is not there. */
const tenon__py_kind *tenon__py_known_kind(const PyTypeObject *type);

/* The owner of an object's type in *out, NULL if it has none. 0, or -1 with an exception. */
int tenon__py_owner(PyObject *object, const tenon__py_producer **out);
/* The kind of an object that was borrowed before, as far as a comparison needs it: `kind_of` may run the user's code, and this
 * runs C code only. `table` is the one that the object was read through, or NULL. */
const tenon__py_kind *tenon__py_kind_again(PyObject *object, const tenon_dl_exchange *table, tenon__py_kind *room);

/* The producer that makes objects of a tenon_py_as, or NULL. */
const tenon__py_producer *tenon__py_producer_as(tenon_py_as as);
/* The one of that name, a str, or of that module, which can make new arrays or wrap memory; NULL with a ValueError "`what`
 * one of 'numpy', …, got 'nampy'". */
const tenon__py_producer *tenon__py_producer_named(PyObject *name, bool make_new, const char *what);

/* Have the producers guard the read-only memory of a shared tensor. 0, or -1 with an exception. */
int tenon__py_guard(tenon_tensor *tensor);

/* Whether an array is gone; then the pending exception, which would not say so, is cleared. *owner is its owner. */
bool tenon__py_is_deleted(PyObject *object, const tenon__py_producer **owner);

/* The class of `module` if it has been imported, as a new reference. NULL without an exception if not; with one, as
 * tenon__py_clear_ignorable_error. */
PyTypeObject *tenon__py_loaded_class(const char *module, const char *name);
/* Whether the type has another attribute `name` than `base` has; -1 with an exception. */
int tenon__py_overrides(PyTypeObject *type, PyTypeObject *base, const char *name);

#endif
