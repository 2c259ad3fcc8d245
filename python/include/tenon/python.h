/* The CPython bridge: C code inside an extension takes anybody's arrays and gives arrays back.
 *
 * Every function needs an attached thread (the interpreter lock, where there is one), but for what releases a tensor:
 * tenon_tensor_release on an imported tensor may be called from any thread, with or without it, also during and after
 * the interpreter's end; it never takes the lock and never waits.
 *
 * One failure rule: on failure an exception is set, nothing was taken and nothing needs to be undone. */
#ifndef TENON_PYTHON_H
#define TENON_PYTHON_H

#include <Python.h>

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------------------------- borrow */

#define TENON_PY_WRITE        (1u << 0) /* to be written: read-only is refused, and, in grad mode, what requires grad */
#define TENON_PY_C_CONTIGUOUS (1u << 1) /* C order without gaps, or ValueError */
#define TENON_PY_F_CONTIGUOUS (1u << 2)
#define TENON_PY_ANY_DEVICE   (1u << 3) /* memory that the CPU cannot read is taken too */
#define TENON_PY_PIN          (1u << 4) /* tenon_py_import: hold a torch tensor by an alias that `.data =` spares */

enum { TENON_PY_INLINE_DIMS = 8 };

/* An object's memory for the length of a call. The caller's storage; it may not be moved between borrow and unborrow.
 * `view` is for reading; the rest is private. */
typedef struct tenon_py_borrowed {
    tenon_view view; /* its shape and strides are in `dims` */
    PyObject *object;
    int64_t *dims;
    int32_t holds;
    uint32_t flags;
    const void *table; /* the exchange table it came through, if one */
    union {
        Py_buffer buffer;
        tenon_dl_managed *managed;
        tenon_dl_managed_legacy *legacy;
        tenon_tensor *tensor;
        PyObject *object;
    } held;
    int64_t inline_dims[2 * TENON_PY_INLINE_DIMS];
} tenon_py_borrowed;

/* Borrow any array-like object: tenon.Tensor, NumPy, DLPack's exchange table, the buffer protocol, __dlpack__,
 * __cuda_array_interface__, __array_interface__, __array_struct__, __arrow_c_array__ or __arrow_c_stream__, in this order;
 * or a DLPack capsule by itself. A
 * borrow that succeeds uses the capsule up, even if what the caller does next fails: its memory goes with
 * tenon_py_unborrow, and a second borrow is refused. 0, or -1 with an exception: TypeError (no array, or a dtype
 * without a DLPack name), ValueError (layout, device, read-only), BufferError (the producer refused, or gave what cannot
 * be), or the producer's own.
 *
 * What comes in a legacy capsule (DLPack before 1.0, which has no flag for it) counts as writable, unless its framework
 * is known to be immutable. torch's conjugated and negated views are refused; one that is negated and in C order is not
 * noticed: only torch's private `_neg_view` makes it.
 *
 * Ownership: holds a reference to `object` until tenon_py_unborrow.
 * Threads:   what other threads do to the object's shape and strides does not reach the view; what they do to its
 * memory (resizing it, torch's `.data =`) while this one is detached is a race of the caller's. */
int tenon_py_borrow(PyObject *object, uint32_t flags, tenon_py_borrowed *out);

/* As tenon_py_borrow; device memory is ready on `stream` (by DLPack's rules for the device: CUDA 1 is the legacy
 * default stream, 2 the per-thread one; -1 does not wait), instead of the producer's current stream. The producer of the
 * memory is asked to order that, also for a tenon.Tensor; for memory that came from C the driver is. */
int tenon_py_borrow_on(PyObject *object, uint32_t flags, intptr_t stream, tenon_py_borrowed *out);

/* Give it back. Keeps a pending exception. */
void tenon_py_unborrow(tenon_py_borrowed *borrowed);

/* Borrow `count` objects, or none. `flags` has one entry for each. A producer's __dlpack__ is Python code, which may
 * change an array that was borrowed before it: a RuntimeError says so. Code that borrows one object after the other
 * must look out for that itself. */
int tenon_py_borrow_many(size_t count, PyObject *const *objects, const uint32_t *flags, tenon_py_borrowed *out);
void tenon_py_unborrow_many(size_t count, tenon_py_borrowed *borrowed);

/* For PyArg_Parse's "O&" with a tenon_py_borrowed as its target, read-only or to be written; clean-up is supported:
 * where a later argument fails, the borrow is given back. The caller gives it back in the end. */
int tenon_py_converter(PyObject *object, void *borrowed);
int tenon_py_converter_rw(PyObject *object, void *borrowed);

/* The stream on which the borrowed device memory is ready, for kernel launches: the producer's current stream, also for a
 * tenon.Tensor on its memory; tenon_blob's `stream` for memory that came from C; NULL, the default stream, for producers
 * that cannot tell theirs, and on the CPU. 0, or -1 with an exception. */
int tenon_py_stream(const tenon_py_borrowed *borrowed, void **stream);

/* --------------------------------------------------------------------------------------------------------- import */

/* Import the object's memory without copying: a tensor that outlives the references to `object` (it holds one of its
 * own). A torch tensor is held as the tensor, not its storage: `t.data = …`, `t.set_()` and `t.resize_()` still replace
 * the memory under it, as they do under __dlpack__. With TENON_PY_PIN it is held by an alias (x.detach()), which
 * `t.data = …` and `t.set_()` leave alone; `t.resize_()` changes the storage that both share.
 *
 * Release:   tenon_tensor_release, on any thread.
 * Returns:   NULL with an exception, as tenon_py_borrow. */
tenon_tensor *tenon_py_import(PyObject *object, uint32_t flags);

/* --------------------------------------------------------------------------------------------------------- export */

typedef enum tenon_py_as {
    TENON_PY_AS_TENSOR, /* tenon.Tensor */
    TENON_PY_AS_SAME,   /* the very object it was imported from; a tenon.Tensor where there is none, or it is pinned */
    TENON_PY_AS_NUMPY,
    TENON_PY_AS_TORCH,
    TENON_PY_AS_JAX,
    TENON_PY_AS_CUPY,
    TENON_PY_AS_TENSORFLOW,
    TENON_PY_AS_MEMORYVIEW,
    TENON_PY_AS_CAPSULE,       /* DLPack, versioned */
    TENON_PY_AS_CAPSULE_LEGACY /* DLPack before 1.0 */
} tenon_py_as;

/* Make a Python object on the tensor's memory. The framework that is named is imported; nothing else ever is.
 *
 * The framework's current stream waits for the work that fills device memory: what its producer has started, or what is
 * on tenon_blob's `stream`. A capsule's memory is ready on the default stream. For TensorFlow, which takes no stream, the
 * CPU waits.
 *
 * Ownership: takes nothing; the object holds a count of its own and drops it once, when the last array on it goes.
 * Returns:   a new reference, or NULL with an exception: ValueError or BufferError where that framework cannot hold it
 * (a dtype, negative strides, read-only memory), ImportError where it is not installed. */
PyObject *tenon_py_export(tenon_tensor *tensor, tenon_py_as as);

/* The type of TENON_PY_AS_TENSOR in this interpreter, borrowed; for modules that want to offer it. */
PyTypeObject *tenon_py_type(void);

/* Make an array of the framework and on the device of `like`, by its own allocator, and borrow it to be written: NumPy,
 * torch and CuPy with their subclasses, any other framework's by its exchange table (Paddle), arrays of the array API
 * standard by their own namespace; JAX and TensorFlow on memory of ours (on the CPU's default device), which must be
 * written before the array is looked at. For other producers on the CPU, and for NULL, it is a tenon.Tensor. In C order,
 * not filled.
 *
 * Ownership: gives a new reference, and a borrow for tenon_py_unborrow.
 * Returns:   NULL with an exception: also where the framework has no such dtype (JAX without jax_enable_x64: 64 bits). */
PyObject *tenon_py_empty(PyObject *like, tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_py_borrowed *out);

/* ------------------------------------------------------------------------------------------------------ functions */

/* A module object with the functions of a module of function.h; `name` is its __name__, or NULL for the module's own.
 *
 * Returns:   a new reference, or NULL with an ImportError that says what is wrong, or what its `load` failed with. */
PyObject *tenon_py_module(const tenon_module *module, const char *name);

#ifndef TENON_NO_SYSTEM
/* Open a shared library with tenon_library_open (tenon/host.h) and make a module object of it, whose __file__ is `path`.
 *
 * Returns:   as tenon_py_module, or NULL with an OSError if the file cannot be read. */
PyObject *tenon_py_open(const char *path);
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

/* After TENON_MODULE(name, …), in an extension that is compiled with the bridge: makes `import name` work, and
 * `import package.name` if the file is in a package. */
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

/* CPython keeps functions in void pointers, which ISO C knows nothing of. */
#if defined(__GNUC__) && !defined(__cplusplus)
#define TENON__PY_SLOT(function) __extension__((void *)(function))
#else
#define TENON__PY_SLOT(function) ((void *)(function))
#endif
/* The bridge runs in every interpreter, with a lock of its own or without any. */
#if defined(Py_mod_gil)
#define TENON__PY_FREE_SLOTS                                                                                           \
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED}, {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#elif defined(Py_mod_multiple_interpreters)
#define TENON__PY_FREE_SLOTS {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#else
#define TENON__PY_FREE_SLOTS
#endif

/* A handle type whose objects are a framework's own in Python, not tenon.Handle: what handle("type") stands for, and the
 * table that functions get from their host as `extension` to work with it. Lives as long as the process. */
typedef struct tenon_py_foreign {
    const char *type;      /* "torch.Tensor" */
    const char *extension; /* "tenon.torch" */
    const void *services;
    int (*take)(PyObject *object, void **out); /* 0, or -1 with an exception */
    int (*give)(void *handle, PyObject **out); /* a new reference; takes nothing */
    void (*release)(void *handle);
} tenon_py_foreign;

/* Make it known, before libraries that use it are loaded. Of two entries for one type the first stays.
 *
 * Threads:   attached to any interpreter; several may add at the same time.
 * Returns:   0, or -1 with an exception: ValueError (a field is NULL), RuntimeError (more than eight types). */
int tenon_py_add_foreign(const tenon_py_foreign *foreign);

/* --------------------------------------------------------------------------------------------------------- errors */

/* Raise what `err` says: MemoryError (TENON_ENOMEM), TypeError (TENON_EDTYPE), IndexError (TENON_EBOUNDS), OverflowError
 * (TENON_EOVERFLOW), BufferError (TENON_EVERSION), else ValueError. Returns NULL. */
void *tenon_py_raise(const tenon_error *err);

/* What the bridge could not give back because its interpreter had ended: references, leaked on purpose. */
int64_t tenon_py_leaked(void);

#ifdef __cplusplus
}
#endif

#endif
