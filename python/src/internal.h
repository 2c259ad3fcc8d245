/* What the bridge's sources share. */
#ifndef TENON_PY_INTERNAL_H
#define TENON_PY_INTERNAL_H

#include "exchange/process.h"

/* Kept out of line, so that the usual way through its caller stays short. */
#define TENON__PY_NOINLINE __attribute__((noinline))

/* --------------------------------------------------------------------------------------------------- interpreters */

/* What one interpreter owns. Never freed, so that a release may come at any time: about a hundred bytes for each
 * interpreter that ever used the bridge. */
typedef struct tenon__py_interp {
    struct tenon__py_interp *next;
    _Atomic bool dead;       /* its atexit hook has run: what only a push could give back is leaked */
    _Atomic bool gone;       /* it has ended: another one may have its address */
    _Atomic int64_t pushing; /* threads between the look at `dead` and the end of their push */
    bool is_main;
    PyInterpreterState *state;
    tenon_deferred pending;
    _Atomic bool hooked;                 /* its atexit hook is registered */
    _Atomic(PyTypeObject *) tensor_type; /* these are made when first wanted */
    _Atomic(PyTypeObject *) function_type;
    _Atomic(PyTypeObject *) handle_type;
    _Atomic(PyObject *) words;      /* what calls of __dlpack__ need */
    struct tenon__py_holder *spare; /* the last holder that was given back, for the next import */
} tenon__py_interp;

/* The type in one of those places, made where it is new; borrowed. NULL with an exception. */
PyTypeObject *tenon__py_make_type(_Atomic(PyTypeObject *) *place, PyType_Spec *spec);

/* The record of this thread's interpreter, made where it is new; NULL with an exception. */
tenon__py_interp *tenon__py_interp_state(void);

/* Whether this thread is attached to any interpreter. */
bool tenon__py_is_attached(void);

/* Whether this thread may touch objects of the interpreter now; it may be attached to another one, or to none. */
bool tenon__py_attached_to(const tenon__py_interp *interp);

/* Leave work to the next call in that interpreter, from any thread, without waiting; the job begins by taking one off
 * tenon__py_global.waiting. False: the interpreter has ended, and it never runs. */
bool tenon__py_defer(tenon__py_interp *interp, tenon_deferred_node *node, void (*job)(void *), void *pointer);

/* Give back what other threads could not, where there is anything. Keeps a pending exception. */
void tenon__py_drain(void);
TENON__PY_INLINE void tenon__py_drain_soon(void)
{
    if (atomic_load_explicit(&tenon__py_global.waiting, memory_order_relaxed))
        tenon__py_drain();
}

/* A borrow that lives on the heap, as the owner of an imported tensor. */
typedef struct tenon__py_holder {
    tenon_deferred_node node;
    tenon__py_interp *interp;
    bool is_alias; /* of TENON_PY_PIN: not the object that was given */
    tenon_py_borrowed borrowed;
} tenon__py_holder;

/* Drop a count where an exception may be pending: what runs now must not meet it. */
void tenon__py_release(tenon_tensor *tensor);

/* A holder of this interpreter's with nothing in it, or NULL with an exception; and its end, where it has nothing any
 * more. */
tenon__py_holder *tenon__py_holder_new(void);
void tenon__py_holder_free(tenon__py_holder *holder);

/* Unborrow and free, at once on a thread that may, else when the interpreter has time. The release function of imports.
 */
void tenon__py_holder_release(void *holder);

/* ---------------------------------------------------------------------------------------------------------- types */

/* Whether anything says that the object is an array: its type, or an attribute of its own. 1, 0, or -1 with an
 * exception. */
int tenon__py_is_arraylike(PyObject *object);

/* What to pass instead of an array that may not be written: a copy of an immutable one is immutable too. */
const char *tenon__py_writable_advice(PyObject *object);

/* The top-level package of a type: "numpy", "torch", …; written to `buffer`. */
const char *tenon__py_package(PyTypeObject *type, char *buffer, size_t size);

/* A module if it has been imported: a new reference. NULL without an exception where not; with one, as
 * tenon__py_clear_ignorable_error. */
PyObject *tenon__py_loaded(const char *module);

/* -------------------------------------------------------------------------------------------------------- borrowing */

/* The view of an ordinary array of NumPy's own type or one whose kind has a `peek`, as described there. *kind: NULL for the first. */
bool tenon__py_peek(PyObject *object, const tenon__py_kind **kind, tenon_py_borrowed *out);
/* Whether objects of this type are read by C code alone: no Python code of the user's can run meanwhile. */
bool tenon__py_is_plain(PyObject *object);
/* Read an object by the producers of its kind. */
int tenon__py_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out);
/* Read it by a protocol, whatever its kind says. */
int tenon__py_read_buffer(PyObject *object, tenon__py_request *request, tenon_py_borrowed *out);
int tenon__py_read_dlpack(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out);
/* After PyObject_GetBuffer said no: 1 if another reader may know the object, else -1 with an exception. */
int tenon__py_buffer_refused(PyObject *object, tenon__py_request *request);
/* The fast case of tenon__py_read_buffer, for a buffer that is held already. */
bool tenon__py_read_buffer_fast(const Py_buffer *buffer, uint64_t flags, tenon_py_borrowed *out);
/* The exchange table of a type, or NULL in *out. 0, or -1 with an exception. */
int tenon__py_exchange_table(PyTypeObject *type, const tenon_dl_exchange **out);
/* What the object's __dlpack_device__ says, TENON_CPU if it has none; -1 with an exception. */
int tenon__py_device_type(PyObject *object);

/* Whether the object still has the memory that was borrowed. Python code that ran since may have replaced or resized it
 * under a borrow that holds the object but not its memory. */
bool tenon__py_is_unchanged(PyObject *object, const tenon_py_borrowed *borrowed);

/* Refuse what the flags of a borrow do not allow: 0, or -1 with an exception. */
int tenon__py_check_flags(PyObject *object, uint32_t flags, const tenon_view *view);

/* Give back what `out` holds beside the object. Keeps a pending exception. */
void tenon__py_give_back(tenon_py_borrowed *out, PyObject *object);

/* --------------------------------------------------------------------------------------------------------- streams
 *
 * A stream is given by DLPack's number for it (CUDA: 1 and 2 are default streams, ROCm: 0 is; -1: do not wait), or as
 * one of these. */

#define TENON__PY_NO_STREAM INTPTR_MIN       /* the device's default stream */
#define TENON__PY_HOST      (INTPTR_MIN + 1) /* tenon__py_order: the CPU waits */

/* The number to pass to a producer; TENON__PY_NO_STREAM: none, on a device without streams or default stream. */
intptr_t tenon__py_stream_number(tenon_device device, intptr_t stream);
/* Whether the framework of that table works on the stream now: 1, 0, or -1 with an exception. */
int tenon__py_table_is_on(const tenon_dl_exchange *table, tenon_device device, intptr_t stream);
/* What the memory under the tensor, which may be a view, was imported from; NULL: it did not come from Python. */
const tenon__py_holder *tenon__py_holder_of(const tenon_tensor *tensor);
/* Make the stream wait for the work that fills the tensor's memory. 0, or -1 with an exception. */
int tenon__py_order(tenon_tensor *tensor, intptr_t stream);
/* Make the stream wait for the device's default stream, where memory without a producer is ready. */
int tenon__py_order_default(tenon_device device, intptr_t stream);
/* tenon__py_order for the argument `stream` of __dlpack__, which is checked; NULL stands for None. */
int tenon__py_order_argument(tenon_tensor *tensor, PyObject *stream);
/* Make one CUDA stream wait for another, or for TENON__PY_HOST the CPU. Does nothing if no code in the process has loaded
 * CUDA's driver. 0, or -1 with an exception. */
int tenon__py_cuda_order(int device_id, intptr_t first, intptr_t second);
/* Have the producer of an array order `stream`, by its __dlpack__; the capsule is dropped. 0; 1: it has no __dlpack__; -1
 * with an exception. */
int tenon__py_ask_to_order(PyObject *object, PyObject *stream);

/* ---------------------------------------------------------------------------------------------------------- NumPy */

/* Whether it is an array of NumPy's own type, and not the first that is met. */
TENON__PY_INLINE bool tenon__py_is_ndarray(PyObject *object)
{
    return Py_TYPE(object) == tenon__py_global.numpy.ndarray;
}

/* Whether an array that was borrowed as NumPy's still looks like that; false: it has changed, or is not so ordinary. */
bool tenon__py_numpy_still_is(PyObject *object, const tenon_view *view);
/* Whether it is NumPy's True or False, whose class has no __index__: 1, 0, or -1 with an exception. */
int tenon__py_is_numpy_bool(PyObject *object);
/* NumPy's dtype object for ours, importing NumPy if that has not been done: a new reference, or NULL with an exception. */
PyObject *tenon__py_numpy_dtype(tenon_dtype dtype, uint64_t flags);
/* A new array where an array of NumPy's own type has been borrowed before, and a borrow of it that holds nothing. */
PyObject *tenon__py_empty_ndarray(tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_py_borrowed *out);

/* ----------------------------------------------------------------------------------------------------------- torch */

/* Whether the autograd of a framework, torch or one that has its words, records now: 1, even if it cannot be asked; 0; or
 * -1 with an exception. */
int tenon__py_autograd_records(const char *framework);
/* torch's table if an object of torch.Tensor has been met and it has one, else NULL. */
const tenon_dl_exchange *tenon__py_torch_table(void);
/* What to do about a tensor that torch refuses to hand out, or NULL. Keeps the pending exception. */
const char *tenon__py_torch_advice(PyObject *object);
/* Whether the view may be one whose numbers are to be negated, so that torch must be asked. */
bool tenon__py_torch_may_be_negated(const tenon_view *view);
/* The library that torch has loaded, or NULL; a function of it (`place` is where its address goes); one of those that only
 * return a number; and torch's numbers for dtypes, each told to `found`. */
void *tenon__py_torch_library(void);
bool tenon__py_symbol(void *library, const char *name, void *place);
bool tenon__py_torch_number(void *library, const char *name, int32_t *out);
void tenon__py_torch_dtypes(void *library, void (*found)(void *context, tenon_dtype dtype, int32_t number),
                            void *context);

/* ------------------------------------------------------------------------------------------------------ new arrays */

/* Numbers as a tuple of ints: a new reference, or NULL with an exception. */
PyObject *tenon__py_dims_tuple(int32_t count, const int64_t *values);
/* The name that torch, CuPy and the array API standard have for a dtype: "float32", "bfloat16", "float4_e2m1fn_x2". */
void tenon__py_framework_dtype(tenon_dtype dtype, char *buffer, size_t size);
/* module.empty(shape, dtype=module.float32, device=…), as torch and the array API standard have it; without a device if that
 * is NULL. */
PyObject *tenon__py_call_empty(PyObject *module, PyObject *device, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape);
/* Borrow what a framework made, to be written, and see that it made what was asked for; takes the reference, and gives it
 * back. */
PyObject *tenon__py_borrow_made(PyObject *array, tenon_dtype dtype, tenon_py_borrowed *out);
/* The same of a framework that nothing is known of: an array of ours if it made none, or if its own cannot be written. */
PyObject *tenon__py_result_or_own(PyObject *made, PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                  tenon_py_borrowed *out);
/* An array of that producer on memory of ours, borrowed to be written: what is immutable there can be filled only so. */
PyObject *tenon__py_empty_ours(const tenon__py_producer *producer, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, tenon_py_borrowed *out);
/* A tenon.Tensor on memory of ours, borrowed to be written, if the memory of `like`, or NULL, is on the CPU too. */
PyObject *tenon__py_empty_beside(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                 tenon_py_borrowed *out);
/* Where the memory of `like` is; -1 with an exception if it is not an array. */
int tenon__py_device_of(PyObject *like, tenon_device *out);
/* module.function(argument), or with copy=False; takes the argument. */
PyObject *tenon__py_call_import(const char *module, const char *function, PyObject *argument, bool no_copy);
/* As tenon_py_empty, for the result of a function that runs on `device`: `like` may also be the name of a framework, or
 * its module; NULL stands for NumPy where it has been imported, else for tenon.Tensor. */
PyObject *tenon__py_empty_like(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, tenon_py_borrowed *out);

/* ---------------------------------------------------------------------------------------------------- tenon.Tensor */

/* A new tenon.Tensor, which holds a count of its own. */
PyObject *tenon__py_tensor_new(tenon_tensor *tensor);
/* Whether the object is a tenon.Tensor of this interpreter. */
bool tenon__py_is_tensor(PyObject *object);
/* The tensor inside, borrowed, or NULL where the object is none of this interpreter's. */
tenon_tensor *tenon__py_tensor_of(PyObject *object);
/* The tensor inside a tenon.Tensor, borrowed; NULL with an exception after a cycle was cleared. */
tenon_tensor *tenon__py_alive(PyObject *self);
/* A DLPack capsule that holds a count. Orders no stream. */
PyObject *tenon__py_capsule(tenon_tensor *tensor, bool legacy);
/* The struct-module format of a dtype for the buffer protocol, or NULL. */
const char *tenon__py_format(tenon_dtype dtype);

/* ---------------------------------------------------------------------------------------------------------- errors */

/* "numpy.ndarray": module and name of the object's type, a new reference; NULL with an exception. */
PyObject *tenon__py_type_name(PyObject *object);
/* The exception of a status of the core's. */
PyObject *tenon__py_exception_for(tenon_status status);
/* Whether the pending exception may be replaced or cleared: not MemoryError or RecursionError, nor what is not an
 * Exception, such as KeyboardInterrupt. */
bool tenon__py_may_replace(void);
/* Clear the pending exception if it may be. The caller looks at PyErr_Occurred afterwards. */
void tenon__py_clear_ignorable_error(void);
/* An attribute: 1 and a new reference; 0 where there is none; -1 with an exception. */
int tenon__py_attribute(PyObject *object, const char *name, PyObject **out);
/* Raise it again; takes the reference. If what ran meanwhile raised something that may not be replaced, that stays. */
void tenon__py_raise_again(PyObject *error);
/* Say that the pending exception came while `earlier` was being handled. */
void tenon__py_add_context(PyObject *earlier);
/* Raise "numpy.ndarray: …". Returns -1. */
int tenon__py_set_error(PyObject *exception, PyObject *object, const char *format, ...);
/* Raise for `object` what the core's validation said, without the name of its function, which a user of Python does not
 * know. */
void tenon__py_raise_for(PyObject *object, const tenon_error *err);
/* Whether the pending exception is a producer's way to say no, rather than a bug of its own or an interrupt. */
bool tenon__py_is_refusal(void);
/* Put BufferError in the place of the pending exception, whose first line it keeps and which becomes its cause. */
void tenon__py_refused(PyObject *object, const char *advice);
/* The same for a framework that could not take a tensor. */
void tenon__py_raise_not_exported(const char *framework);

#endif
