/* The CPython bridge: lets the C code of an extension take arrays of any framework and return arrays.
 *
 * Every function needs an attached thread (one that holds the interpreter lock, if the interpreter has one). The only
 * exception is the release of a tensor: tenon_tensor_release may be called on an imported tensor from any thread, with
 * or without the lock, even during and after the interpreter's shutdown. It never takes the lock and never waits.
 *
 * One failure rule: on failure an exception is set, nothing was taken, and nothing needs to be undone. */
#ifndef TENON_PYTHON_H
#define TENON_PYTHON_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <Python.h>

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------------------------- borrow */

#define TENON_PY_WRITE        (1u << 0) /* refuse read-only memory and, in grad mode, a tensor that requires grad */
#define TENON_PY_C_CONTIGUOUS (1u << 1) /* require C order without gaps */
#define TENON_PY_F_CONTIGUOUS (1u << 2) /* require Fortran order without gaps */
#define TENON_PY_ANY_DEVICE   (1u << 3) /* accept memory that the CPU cannot read */
#define TENON_PY_PIN          (1u << 4) /* tenon_py_import only: hold a torch tensor by an alias of its own */

enum { TENON_PY_INLINE_DIMS = 8 };

/* An object's memory for the length of a call. The storage is the caller's. It must not be moved between borrow and
 * unborrow. */
typedef struct tenon_py_borrowed {
    tenon_view view; /* read this */
    struct {
        PyObject *object;
        int64_t *dims; /* the shape and strides of `view` */
        int32_t holds;
        uint32_t flags;
        const void *table; /* the exchange table that the object was read through, or NULL */
        union {
            Py_buffer buffer;
            tenon_dl_managed *managed;
            tenon_dl_managed_legacy *legacy;
            tenon_tensor *tensor;
            PyObject *object;
        } held;
        int64_t inline_dims[2 * TENON_PY_INLINE_DIMS];
    } private_; /* the bridge's; do not read or write it */
} tenon_py_borrowed;

/* Borrow the memory of any array-like object. The ways to read it are tried in this order: tenon.Tensor, NumPy,
 * DLPack's exchange table, the buffer protocol, __dlpack__, __cuda_array_interface__, __array_interface__,
 * __array_struct__, __arrow_c_array__ and __arrow_c_stream__. A DLPack capsule is accepted too. A successful borrow
 * consumes it, even if the caller fails afterwards: tenon_py_unborrow releases its memory, and a second borrow is
 * refused.
 *
 * Memory in a legacy capsule (DLPack before 1.0, which has no flag for read-only memory) counts as writable, unless the
 * arrays of its framework are known to be immutable. Conjugated and negated views of torch are refused.
 *
 * Ownership: holds a reference to `object` until tenon_py_unborrow.
 * Release:   tenon_py_unborrow(out).
 * Threads:   attached. If other threads change the object's shape or strides, the view keeps the old ones. If they
 *            replace or resize its memory (torch's `.data =`, say) while this thread is detached, that is a data race
 *            in the caller.
 * Errors:    -1 with TypeError (not an array, or a dtype without a DLPack name), ValueError (layout, device, read-only
 *            memory), BufferError (the producer refused, or described an impossible array), or the producer's own
 *            exception. 0 otherwise. */
TENON_NODISCARD int tenon_py_borrow(PyObject *object, uint32_t flags, tenon_py_borrowed *out);

/* As tenon_py_borrow, but device memory is ready on `stream` instead of the producer's current stream. `stream` is a
 * number by DLPack's rules for the device: for CUDA, 1 is the legacy default stream and 2 the per-thread one; -1 does
 * not wait. The producer of the memory is asked to order the streams, even if `object` is a tenon.Tensor on
 * its memory; for memory that came from C, the CUDA driver is. */
TENON_NODISCARD int tenon_py_borrow_on(PyObject *object, uint32_t flags, intptr_t stream, tenon_py_borrowed *out);

/* End a borrow. Does nothing after a failed borrow or an earlier unborrow.
 *
 * Errors:    none. Keeps a pending exception. */
void tenon_py_unborrow(tenon_py_borrowed *borrowed);

/* Borrow `count` objects, or none of them. `flags` has one entry for each.
 *
 * A producer's __dlpack__ is Python code, which may change an array that was borrowed before it. That is noticed here,
 * and is an error. Code that borrows one object after the other has to watch for it.
 *
 * Ownership: as tenon_py_borrow, for each object.
 * Release:   tenon_py_unborrow_many(count, out).
 * Errors:    as tenon_py_borrow, and RuntimeError (an array changed meanwhile). */
TENON_NODISCARD int tenon_py_borrow_many(size_t count, PyObject *const *objects, const uint32_t *flags,
                                         tenon_py_borrowed *out);
void tenon_py_unborrow_many(size_t count, tenon_py_borrowed *borrowed);

/* Converters for PyArg_Parse's "O&", whose target is a tenon_py_borrowed: read-only, and to be written. They support
 * clean-up: if a later argument fails, PyArg_Parse ends the borrow.
 *
 * Release:   tenon_py_unborrow, after PyArg_Parse succeeded.
 * Errors:    0 with an exception, as tenon_py_borrow. */
int tenon_py_converter(PyObject *object, void *borrowed);
int tenon_py_converter_rw(PyObject *object, void *borrowed);

/* The stream on which borrowed device memory is ready, for kernel launches. It is the current stream of the memory's
 * producer, or tenon_blob's `stream` for memory that came from C. It is NULL, the default stream, on the
 * CPU and for producers that cannot name theirs.
 *
 * Ownership: the stream stays the producer's.
 * Errors:    -1 with an exception; 0 otherwise. */
TENON_NODISCARD int tenon_py_stream(const tenon_py_borrowed *borrowed, void **stream);

/* --------------------------------------------------------------------------------------------------------- import */

/* Import the object's memory without copying. The tensor outlives the caller's references to `object`, because it holds
 * one of its own.
 *
 * For torch it holds the tensor, not the storage: `t.data = …`, `t.set_()` and `t.resize_()` still replace the memory
 * under it, as they do under __dlpack__. With TENON_PY_PIN it holds an alias, x.detach(), which `t.data = …` and
 * `t.set_()` leave alone; `t.resize_()` still changes the storage that both share.
 *
 * Ownership: holds a reference to `object`.
 * Release:   tenon_tensor_release(result), on any thread.
 * Errors:    NULL with an exception, as tenon_py_borrow. */
TENON_NODISCARD tenon_tensor *tenon_py_import(PyObject *object, uint32_t flags);

/* --------------------------------------------------------------------------------------------------------- export */

typedef enum tenon_py_as {
    TENON_PY_AS_TENSOR, /* tenon.Tensor */
    TENON_PY_AS_SAME,   /* the object that it was imported from; a tenon.Tensor if it was made in C, or is pinned */
    TENON_PY_AS_NUMPY,
    TENON_PY_AS_TORCH,
    TENON_PY_AS_JAX,
    TENON_PY_AS_CUPY,
    TENON_PY_AS_TENSORFLOW,
    TENON_PY_AS_MEMORYVIEW,
    TENON_PY_AS_CAPSULE,       /* DLPack, versioned */
    TENON_PY_AS_CAPSULE_LEGACY /* DLPack before 1.0 */
} tenon_py_as;

/* Make a Python object on the tensor's memory. This imports the framework that `as` names, and nothing else.
 *
 * The framework's current stream waits for the work that fills device memory: the work that its producer has started,
 * or the work on tenon_blob's `stream`. The memory of a capsule is ready on the default stream. For TensorFlow, which
 * accepts no stream, the CPU waits.
 *
 * Ownership: takes nothing. The object holds a count of its own, and drops it when the last array on the memory dies.
 *            The result is a new reference.
 * Errors:    NULL with ValueError or BufferError (the framework cannot hold this dtype, negative strides or read-only
 *            memory), or ImportError (the framework is not installed). */
TENON_NODISCARD PyObject *tenon_py_export(tenon_tensor *tensor, tenon_py_as as);

/* The type of TENON_PY_AS_TENSOR in this interpreter, for modules that want to offer it.
 *
 * Ownership: the reference is borrowed.
 * Errors:    NULL with an exception. */
TENON_NODISCARD PyTypeObject *tenon_py_type(void);

/* Make an array in C order, not filled, of the framework and on the device of `like`, and borrow it to be written.
 *
 * NumPy, torch and CuPy (with their subclasses), frameworks with an exchange table (Paddle) and arrays of the array API
 * standard allocate it themselves. For JAX and TensorFlow it is on our own memory, on the default CPU device, and must
 * be written before any code reads the array. For other producers on the CPU, and for NULL, it is a tenon.Tensor.
 *
 * Ownership: the result is a new reference, and `out` is a borrow of it.
 * Release:   tenon_py_unborrow(out), and Py_DECREF of the result.
 * Errors:    NULL with an exception, even if only the dtype is missing in the framework (64-bit dtypes in JAX without
 *            jax_enable_x64). */
TENON_NODISCARD PyObject *tenon_py_empty(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                         tenon_py_borrowed *out);

/* ------------------------------------------------------------------------------------------------------ functions */

/* Make a module object that has the functions of `module` (tenon/function.h). `name` becomes its __name__; NULL means
 * the module's own name.
 *
 * Ownership: the result is a new reference. `module` is not copied: it must outlive the result and its functions.
 * Errors:    NULL with an ImportError that says what is wrong, or with the failure of the module's `load`. */
TENON_NODISCARD PyObject *tenon_py_module(const tenon_module *module, const char *name);

#ifndef TENON_NO_SYSTEM
/* Open a shared library with tenon_library_open (tenon/host.h) and make a module object of it. Its __file__ is `path`.
 *
 * Ownership: the result is a new reference.
 * Errors:    as tenon_py_module, and OSError (the file cannot be read). */
TENON_NODISCARD PyObject *tenon_py_open(const char *path);
#endif

/* The module under the name that it is imported by, such as "package.kernels". */
static inline PyObject *tenon__py_module_of(const tenon_module *module, PyObject *spec)
{
    PyObject *name = PyObject_GetAttrString(spec, "name");
    PyObject *bytes = name ? PyUnicode_AsUTF8String(name) : NULL;
    PyObject *object = bytes ? tenon_py_module(module, PyBytes_AsString(bytes)) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(bytes);
    return object;
}

/* Make an extension importable: `import name`, or `import package.name` if the file is in a package. Write it after
 * TENON_MODULE(name, …), in an extension that is compiled with the bridge. */
#define TENON_PY_MODULE(name)                                                                                          \
    static PyObject *tenon__py_create_##name(PyObject *spec, PyModuleDef *def)                                         \
    {                                                                                                                  \
        (void)def;                                                                                                     \
        return tenon__py_module_of(&tenon__module_##name, spec);                                                       \
    }                                                                                                                  \
    static PyModuleDef_Slot tenon__py_slots_##name[] = {{Py_mod_create, TENON__PY_SLOT(tenon__py_create_##name)},      \
                                                        TENON__PY_FREE_SLOTS{0, NULL}};                                \
    static PyModuleDef tenon__py_def_##name = {PyModuleDef_HEAD_INIT,  #name, NULL, 0,   NULL,                         \
                                               tenon__py_slots_##name, NULL,  NULL, NULL};                             \
    PyMODINIT_FUNC PyInit_##name(void)                                                                                 \
    {                                                                                                                  \
        return PyModuleDef_Init(&tenon__py_def_##name);                                                                \
    }

/* CPython stores functions in void pointers, which ISO C does not define. */
#if defined(__GNUC__) && !defined(__cplusplus)
#define TENON__PY_SLOT(function) __extension__((void *)(function))
#else
#define TENON__PY_SLOT(function) ((void *)(function))
#endif
/* The bridge runs in every interpreter, whether it has its own lock, a shared one or none. */
#if defined(Py_mod_gil)
#define TENON__PY_FREE_SLOTS                                                                                           \
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED}, {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#elif defined(Py_mod_multiple_interpreters)
#define TENON__PY_FREE_SLOTS {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#else
#define TENON__PY_FREE_SLOTS
#endif

/* A handle type whose Python objects are a framework's own, instead of tenon.Handle. Functions get the table
 * `services` from their host, by the name `extension`, to work with such handles. The struct must live as long as the
 * process. */
typedef struct tenon_py_handle_type {
    const char *type;      /* the name in handle("…"): "torch.Tensor" */
    const char *extension; /* "tenon.torch" */
    const void *services;
    int (*take)(PyObject *object, void **out); /* a handle for `object`; 0, or -1 with an exception */
    int (*give)(void *handle, PyObject **out); /* a new reference; takes nothing; 0, or -1 with an exception */
    void (*release)(void *handle);
} tenon_py_handle_type;

/* Register a handle type, before the libraries that use it are loaded. If two entries have the same type, the first one
 * stays.
 *
 * Ownership: keeps `handle_type` permanently.
 * Threads:   attached to any interpreter; several threads may register at the same time.
 * Errors:    -1 with ValueError (a field is NULL) or RuntimeError (more than eight types); 0 otherwise. */
TENON_NODISCARD int tenon_py_add_handle_type(const tenon_py_handle_type *handle_type);

/* --------------------------------------------------------------------------------------------------------- errors */

/* Raise `err` as a Python exception: MemoryError (TENON_ENOMEM), TypeError (TENON_EDTYPE), IndexError (TENON_EBOUNDS),
 * OverflowError (TENON_EOVERFLOW), BufferError (TENON_EVERSION), OSError or the subclass for err->os_error
 * (TENON_ESYSTEM), or ValueError. Returns NULL. */
void *tenon_py_raise(const tenon_error *err);

/* The number of references that the bridge leaked on purpose, because their interpreter had ended.
 *
 * Threads:   any. */
int64_t tenon_py_leaked(void);

#ifdef __cplusplus
}
#endif

#endif
