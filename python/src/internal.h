/* Declarations that the sources of the bridge share. */
#ifndef TENON_PY_INTERNAL_H
#define TENON_PY_INTERNAL_H

#include "exchange/array_struct.h"
#include "exchange/globals.h"
#include "exchange/producer_view.h"

/* TENON__PY_NOINLINE: not inlined, so that the fast path of its caller stays short.
 * TENON__PY_ALWAYS_INLINE: for a function of two paths, of which one counts nanoseconds. */
#ifdef __GNUC__
#define TENON__PY_NOINLINE      __attribute__((noinline))
#define TENON__PY_ALWAYS_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define TENON__PY_NOINLINE      __declspec(noinline)
#define TENON__PY_ALWAYS_INLINE __forceinline
#else
#define TENON__PY_NOINLINE
#define TENON__PY_ALWAYS_INLINE inline
#endif

/* --------------------------------------------------------------------------------------------------------- system */

/* A shared library that the process has loaded, or NULL. It is borrowed from whoever loaded it. */
void *tenon__py_loaded_library(const char *name);
/* Store the address of a function in a library at `place`. False if the library has no such function. */
bool tenon__py_symbol(void *library, const char *name, void *place);
/* How many libraries have been loaded so far; 0 if the system does not say. */
uint64_t tenon__py_load_count(void);
/* Call it in the child after every later fork. Does nothing on systems without fork. */
void tenon__py_after_fork(void (*in_child)(void));
/* The time since some event in the past. */
int64_t tenon__py_microseconds(void);
/* Call run(context), which may want the interpreter lock, from code of a library. CPython before 3.14 ends a thread that wants
 * the lock of an interpreter that has ended, by unwinding its stack; C++ and Rust would abort the process. Such a thread
 * sleeps permanently instead, as in CPython 3.14. */
void tenon__py_run_at_exit_too(void (*run)(void *context), void *context);
/* Let another thread run. */
void tenon__py_yield(void);
/* Memory that is never freed. */
void *tenon__py_aligned_alloc(size_t alignment, size_t size);

/* --------------------------------------------------------------------------------------------------- interpreters */

/* The state of one interpreter. Never freed, so that a release may come at any time: about a hundred bytes for each
 * interpreter that has used the bridge. */
/* A dtype object of a framework. Printing one may take 10 microseconds, because frameworks do it in Python. */
typedef struct tenon__py_known_dtype {
    PyObject *object; /* a reference, or NULL */
    tenon_dtype dtype;
} tenon__py_known_dtype;

enum { TENON__PY_KNOWN_DTYPES = 64 };

typedef struct tenon__py_interp {
    struct tenon__py_interp *next;
    _Atomic bool dead;       /* its atexit hook has run: later releases from other threads leak */
    _Atomic bool gone;       /* it has ended: another interpreter may have its address */
    _Atomic int64_t pushing; /* threads that have read `dead` and not yet finished their push */
    bool is_main;
    PyInterpreterState *state;
    tenon_deferred pending;
    _Atomic bool hooked;                 /* its atexit hook is registered */
    _Atomic(PyTypeObject *) tensor_type; /* the types are made on first use */
    _Atomic(PyTypeObject *) function_type;
    _Atomic(PyTypeObject *) handle_type;
    _Atomic(PyTypeObject *) method_type;
    _Atomic(PyTypeObject *) meta_type;    /* of classes, if Python has no other way to keep attributes from being set */
    _Atomic(PyObject *) dlpack_constants; /* names and values for calls of __dlpack__ */
    struct tenon__py_holder *spare;       /* the last holder that was freed, for the next import */
    _Atomic int checked;                  /* whether calls are checked; 0: TENON_CHECK has not been read */
    tenon__py_mutex functions_lock;       /* guards the list of functions */
    struct tenon__py_function *functions;
    atomic_flag dtypes_lock;
    tenon__py_known_dtype dtypes[TENON__PY_KNOWN_DTYPES]; /* a hash table by address; a new one replaces an old one */
} tenon__py_interp;

/* The type that PyType_FromSpec has made. In 3.11 it may fail for lack of memory without an exception. */
TENON__PY_INLINE PyObject *tenon__py_type_of(PyObject *type)
{
    return type || PyErr_Occurred() ? type : PyErr_NoMemory();
}

/* The type in `place`, made on first use; borrowed. NULL with an exception. */
PyTypeObject *tenon__py_make_type(_Atomic(PyTypeObject *) *place, PyType_Spec *spec);

/* The record of this thread's interpreter, made on first use. NULL with an exception. */
tenon__py_interp *tenon__py_interp_state(void);

/* Whether this thread is attached to any interpreter. */
bool tenon__py_is_attached(void);

/* Whether this thread may use objects of the interpreter. It may be attached to another one, or to none. */
TENON__PY_INLINE bool tenon__py_attached_to(const tenon__py_interp *interp)
{
    return !atomic_load_explicit(&interp->gone, memory_order_acquire) && tenon__py_attached_state() == interp->state;
}
/* The same of a thread that is attached. */
TENON__PY_INLINE bool tenon__py_is_current(const tenon__py_interp *interp)
{
    return !atomic_load_explicit(&interp->gone, memory_order_acquire) && PyInterpreterState_Get() == interp->state;
}

/* Leave a job to the next call in that interpreter, from any thread, without waiting. The job must begin by
 * subtracting one from tenon__py_global.waiting. False if the interpreter has ended; the job never runs then. */
bool tenon__py_defer(tenon__py_interp *interp, tenon_deferred_node *node, void (*job)(void *), void *pointer);

/* Run the jobs that other threads have left, if there are any. Keeps a pending exception. */
void tenon__py_drain(void);
TENON__PY_INLINE bool tenon__py_has_deferred(void)
{
    return atomic_load_explicit(&tenon__py_global.waiting, memory_order_relaxed);
}
TENON__PY_INLINE void tenon__py_drain_soon(void)
{
    if (tenon__py_has_deferred())
        tenon__py_drain();
}

/* A borrow that lives on the heap, as the owner of an imported tensor. */
typedef struct tenon__py_holder {
    tenon_deferred_node node;
    tenon__py_interp *interp;
    bool is_alias;   /* by TENON_PY_PIN: it holds an alias, not the object that was imported */
    tenon_kept kept; /* of an argument that a function keeps: its share is the holder */
    tenon_py_borrowed borrowed;
    tenon_tensor_room room; /* of the imported tensor */
} tenon__py_holder;

/* Drop a count while an exception may be pending. Code that runs because of it does not see the exception. */
void tenon__py_release(tenon_tensor *tensor);

/* A new holder of this interpreter without a borrow, or NULL with an exception; and free it, without a borrow. */
tenon__py_holder *tenon__py_holder_new(void);
void tenon__py_holder_free(tenon__py_holder *holder);

/* Unborrow and free a holder: at once if this thread is attached to its interpreter, otherwise by a deferred job. This
 * is the release function of imported tensors. */
void tenon__py_holder_release(void *holder);

/* Hold the memory of `object`, which `borrowed` is a borrow of, beyond that borrow, as an import with TENON_PY_PIN does. A
 * DLPack struct is not asked for again, but shared with the borrow. A new holder, or NULL with an exception. */
tenon__py_holder *tenon__py_hold_borrowed(PyObject *object, tenon_py_borrowed *borrowed);

/* ---------------------------------------------------------------------------------------------------------- types */

/* Whether the type of the object or one of its attributes marks it as an array: 1, 0, or -1 with an exception. */
int tenon__py_is_arraylike(PyObject *object);

/* Advice what to pass instead of a read-only array. A copy of an immutable array is immutable too. */
const char *tenon__py_writable_advice(PyObject *object);

/* The top-level package of a type: "numpy", "torch", …; written to `buffer`. */
const char *tenon__py_package(PyTypeObject *type, char *buffer, size_t size);

/* A module if it has been imported: a new reference. Otherwise NULL, with an exception only if it must not be
 * cleared. */
PyObject *tenon__py_loaded(const char *module);

/* -------------------------------------------------------------------------------------------------------- borrowing */

/* A private flag of a borrow: the memory must stay where it is if it is written, by the borrower or by its owner. Memory that
 * is copied on the next write is copied now. */
#define TENON__PY_STABLE_MEMORY (1u << 31)

/* Describe an ordinary array that has the array struct, or one whose kind has a `peek` (see there). *kind is NULL for the
 * former. */
bool tenon__py_peek(PyObject *object, const tenon__py_kind **kind, tenon_py_borrowed *out);
/* Whether objects of this type are read by C code alone, so that no Python code of the user can run meanwhile. */
bool tenon__py_is_read_in_c(PyObject *object);
/* Read an object by the producers of its kind. */
int tenon__py_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out);
/* Read an object by one protocol, whatever its kind is. */
int tenon__py_read_buffer(PyObject *object, tenon__py_request *request, tenon_py_borrowed *out);
int tenon__py_read_dlpack(PyObject *object, const tenon__py_kind *kind, intptr_t stream, tenon_py_borrowed *out);
/* Have the producer's __dlpack__ copy the array, to another device if `device` is not NULL. `own` is where it is now. If `copy`
 * is false, the producer decides whether it copies. 0, or -1 with an exception. */
int tenon__py_read_dlpack_copy(PyObject *object, const tenon__py_kind *kind, tenon_device own,
                               const tenon_device *device, bool copy, tenon_py_borrowed *out);
/* The device of a DLPack capsule, which stays as it is. 0, or -1 with an exception. */
int tenon__py_capsule_device(PyObject *capsule, tenon_device *out);
/* As tenon_py_import with TENON_PY_ANY_DEVICE, for memory that __dlpack__ has copied. */
tenon_tensor *tenon__py_import_copy(PyObject *object, const tenon__py_kind *kind, tenon_device own,
                                    const tenon_device *device, bool copy);
/* After PyObject_GetBuffer failed: 1 if another reader may know the object, otherwise -1 with an exception. */
int tenon__py_buffer_refused(PyObject *object, tenon__py_request *request);
/* The fast case of tenon__py_read_buffer, for a buffer that is held already. */
bool tenon__py_read_buffer_fast(const Py_buffer *buffer, uint64_t flags, tenon_py_borrowed *out);
/* Whether the autograd of torch, or of a framework with the same functions, records now: 1, also if it cannot be
 * asked; 0; or -1 with an exception. */
int tenon__py_autograd_records(const char *framework);
/* The exchange table of a type, or NULL in *out. 0, or -1 with an exception. */
int tenon__py_exchange_table(PyTypeObject *type, const tenon_dl_exchange **out);
/* Whether the table of a known type says that the object has these elements now. It does not tell flags. False means "unknown",
 * not "different"; there may be an exception that must not be replaced. */
bool tenon__py_table_describes(PyObject *object, const tenon_view *view);
/* The device type that the object's __dlpack_device__ returns; TENON_CPU if it does not have one; -1 with an
 * exception. */
int tenon__py_device_type(PyObject *object);

/* Whether the object still has the memory that was borrowed. Python code that ran since then may have replaced or
 * resized it, if the borrow holds the object but not its memory. */
bool tenon__py_is_unchanged(PyObject *object, const tenon_py_borrowed *borrowed);
/* Borrow an object again whose first borrow, `before`, holds nothing. Only C code runs, so that what was compared before
 * stays as it was. */
int tenon__py_borrow_in_c(PyObject *object, const tenon_py_borrowed *before, tenon_py_borrowed *out);

/* The message about a tensor whose memory is gone. */
#define TENON__PY_NO_MEMORY "the tensor has elements but no memory (a fake, wrapped or freed one); pass a real tensor"

/* Check a view against the flags of a borrow: 0, or -1 with an exception. */
int tenon__py_check_flags(PyObject *object, uint32_t flags, const tenon_view *view);

/* Release what `out` holds besides the object. Keeps a pending exception. */
void tenon__py_give_back(tenon_py_borrowed *out, PyObject *object);

/* --------------------------------------------------------------------------------------------------------- streams
 *
 * A stream is given by DLPack's number for it (CUDA: 1 and 2 are default streams, ROCm: 0 is; -1: do not wait), or as
 * one of these. */

#define TENON__PY_NO_STREAM INTPTR_MIN       /* the device's default stream */
#define TENON__PY_HOST      (INTPTR_MIN + 1) /* tenon__py_order: the CPU waits */

/* The number to pass to a producer; TENON__PY_NO_STREAM if the device has no streams or no default stream. */
intptr_t tenon__py_stream_number(tenon_device device, intptr_t stream);
/* Whether the stream is the current one of the framework with that table: 1, 0, or -1 with an exception. */
int tenon__py_table_is_on(const tenon_dl_exchange *table, tenon_device device, intptr_t stream);
/* The holder of the tensor's memory (the tensor may be a view), or NULL if the memory did not come from Python. */
const tenon__py_holder *tenon__py_holder_of(const tenon_tensor *tensor);
/* Make the stream wait for the work that fills the tensor's memory. 0, or -1 with an exception. */
int tenon__py_order(tenon_tensor *tensor, intptr_t stream);
/* Make the stream wait for the device's default stream, where memory without a producer is ready. */
int tenon__py_order_default(tenon_device device, intptr_t stream);
/* tenon__py_order for the argument `stream` of __dlpack__, which is checked here; NULL stands for None. */
int tenon__py_order_argument(tenon_tensor *tensor, PyObject *stream);
/* Make the second CUDA stream wait for the first; if it is TENON__PY_HOST, the CPU waits. Does nothing if the CUDA
 * driver is not loaded in this process. 0, or -1 with an exception. */
int tenon__py_cuda_order(int device_id, intptr_t first, intptr_t second);
/* Have an array's producer order `stream`, by calling its __dlpack__ and dropping the capsule. 0; 1 if it does not
 * have a __dlpack__; -1 with an exception. */
int tenon__py_ask_to_order(PyObject *object, PyObject *stream);

/* ------------------------------------------------------------------------------------------------------ new arrays */

/* A tuple of ints: a new reference, or NULL with an exception. */
PyObject *tenon__py_dims_tuple(int32_t count, const int64_t *values);
/* Call module.empty(shape, dtype=module.float32, device=…), as in torch and the array API standard; without `device`
 * if that is NULL. */
PyObject *tenon__py_call_empty(PyObject *module, PyObject *device, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape);
/* Check that a framework made the array that was asked for, and borrow it to be written. Takes the reference, and
 * returns it on success. */
PyObject *tenon__py_borrow_made(PyObject *array, tenon_dtype dtype, tenon_py_borrowed *out);
/* The same for an unknown framework. If it made no array, or one that cannot be written, the result is a
 * tenon.Tensor. */
PyObject *tenon__py_result_or_own(PyObject *made, PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                  tenon_py_borrowed *out);
/* An array of that producer on our own memory, borrowed to be written: the only way to fill immutable arrays. */
PyObject *tenon__py_empty_ours(const tenon__py_producer *producer, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, tenon_py_borrowed *out);
/* A tenon.Tensor on our own memory, borrowed to be written. The memory of `like` must be on the CPU too; it may be
 * NULL. */
PyObject *tenon__py_empty_beside(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                 tenon_py_borrowed *out);
/* The device of the memory of `like`; -1 with an exception if it is not an array. */
int tenon__py_device_of(PyObject *like, tenon_device *out);
/* Whether the object still has this view, of which `before` is how it was read first: 1, 0, or -1 with an exception. */
int tenon__py_has_view(PyObject *object, const tenon_view *before, const tenon_view *view);
/* Call module.function(argument), with copy=False if `no_copy`. Takes the argument. */
PyObject *tenon__py_call_import(const char *module, const char *function, PyObject *argument, bool no_copy);
/* Whether results on this device have the array struct if no argument says otherwise, and can be made without asking further.
 * The framework of that struct belongs to the main interpreter. */
bool tenon__py_makes_array_struct(tenon_device device);
/* As tenon_py_empty, for the result of a function that runs on `device`. `like` may also be the name or the module of
 * a framework. NULL stands for the first framework of the list that makes such results and has been imported, otherwise for
 * tenon.Tensor. */
PyObject *tenon__py_empty_like(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, tenon_py_borrowed *out);
/* An array on the tensor's memory, as the result of a function. `like` is as above; a framework that cannot wrap memory gets
 * a tenon.Tensor. */
PyObject *tenon__py_adopt_like(PyObject *like, tenon_tensor *tensor);
/* Whether that framework has no read-only arrays: 1, 0, or -1 with an exception. */
int tenon__py_is_writable_like(PyObject *like);

/* ---------------------------------------------------------------------------------------------------- tenon.Tensor */

/* tenon.from_dlpack: the memory of an array, on `device` unless that is NULL. The copy is one of None, True and False. A new
 * reference, or NULL with an exception: a BufferError if it cannot be done with that device and that copy. */
tenon_tensor *tenon__py_from_dlpack(PyObject *object, const tenon_device *device, PyObject *copy);

/* A new tenon.Tensor, which adds a count. */
PyObject *tenon__py_tensor_new(tenon_tensor *tensor);
/* Whether the object is a tenon.Tensor of this interpreter. */
bool tenon__py_is_tensor(PyObject *object);
/* The tensor inside, borrowed, or NULL if the object is not a tenon.Tensor of this interpreter. */
tenon_tensor *tenon__py_tensor_of(PyObject *object);
/* The tensor inside a tenon.Tensor, borrowed; NULL with an exception if the garbage collector has cleared it. The flags of its
 * view may change, because another thread freezes it. */
tenon_tensor *tenon__py_alive(PyObject *self);
/* The same with one more count, which keeps other threads from freezing it. */
tenon_tensor *tenon__py_retain(PyObject *self);
/* The tensor on `device`, which is its own, or the CPU if that can read the memory: the tensor itself with one more count, a
 * new one on the same memory, or a copy, which is made only on the CPU. NULL with an exception. */
tenon_tensor *tenon__py_tensor_on(tenon_tensor *tensor, tenon_device device, bool copied);
/* A DLPack capsule that holds a count. Orders no stream. */
PyObject *tenon__py_capsule(tenon_tensor *tensor, bool legacy);
/* The format of a dtype in the buffer protocol, or NULL. */
const char *tenon__py_format(tenon_dtype dtype);

/* ---------------------------------------------------------------------------------------------------------- errors */

/* "numpy.ndarray": module and name of the object's type, a new reference; NULL with an exception. */
PyObject *tenon__py_type_name(PyObject *object);
/* The exception class for a status of the core. */
PyObject *tenon__py_exception_for(tenon_status status);
/* Whether the pending exception may be replaced or cleared. MemoryError, RecursionError and exceptions that do not
 * derive from Exception, such as KeyboardInterrupt, must not be. */
bool tenon__py_may_replace(void);
/* Clear the pending exception if it may be cleared. The caller must check PyErr_Occurred afterwards. */
void tenon__py_clear_ignorable_error(void);
/* Get an attribute: 1 and a new reference; 0 if it does not exist; -1 with an exception. */
int tenon__py_attribute(PyObject *object, const char *name, PyObject **out);
/* Raise an exception again. Takes the reference. A pending exception that must not be replaced stays. */
void tenon__py_raise_again(PyObject *error);
/* Raise an error of the core with a name of Python: `where`, such as "tenon.Tensor", instead of the name of a C function.
 * Returns NULL. */
void *tenon__py_raise_in(const char *where, const tenon_error *err);
/* Set `earlier` as the context of the pending exception. */
void tenon__py_add_context(PyObject *earlier);
/* Raise "numpy.ndarray: …". Returns -1. */
int tenon__py_set_error(PyObject *exception, PyObject *object, const char *format, ...);
/* Raise an error of the core's validation for `object`, without the name of the core's function, which Python users do
 * not know. */
void tenon__py_raise_for(PyObject *object, const tenon_error *err);
/* Whether the pending exception means that a producer refuses, rather than a bug in it or an interrupt. */
bool tenon__py_is_refusal(void);
/* Replace the pending exception by a BufferError with the same first line. The old one becomes its cause. */
void tenon__py_refused(PyObject *object, const char *advice);
/* The same for a framework that did not accept a tensor. */
void tenon__py_raise_not_exported(const char *framework);
/* Whether the pending exception says that this framework is not installed; then it says that `where`, such as "tenon.to()",
 * needs it. */
bool tenon__py_raise_missing(const char *framework, const char *where);

#endif
