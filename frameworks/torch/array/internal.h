/* Tensors of torch as the bridge reads them: for the files of this folder, and for the other folders of torch. */
#ifndef TENON_TORCH_ARRAY_H
#define TENON_TORCH_ARRAY_H

#include "../../../python/src/internal.h"

#include <string.h>

/* -------------------------------------------------------------------------------------------------------- the state */

/* The layout of torch's structs, which probe.c finds. */
enum { TENON__PY_TORCH_DTYPES = 64, TENON__PY_TORCH_DIMS = 5 };
typedef struct tenon__py_torch_layout {
    uint64_t keys, inference_keys;                           /* of a plain tensor on the CPU */
    _Atomic uint64_t cuda_keys, cuda_inference_keys;         /* of one on CUDA; 0: not known */
    _Atomic uint64_t cuda_devices;                           /* bit i: tensors on device i have been verified */
    uint32_t impl;                                           /* in the object: the pointer to the TensorImpl */
    uint32_t storage, autograd, sizes, offset, numel, dtype; /* in the TensorImpl */
    uint32_t key_set;
    uint32_t data, check; /* in the StorageImpl: the memory, and the byte that says not to use it as it is */
    tenon_dtype dtypes[TENON__PY_TORCH_DTYPES]; /* by torch's number; bits 0: none that is read */
} tenon__py_torch_layout;

/* A C function of torch that returns a flag of this thread. */
typedef bool (*tenon__py_torch_flag)(void);
typedef int64_t (*tenon__py_torch_count)(void);
/* A C++ method of a TensorImpl that returns a flag. */
typedef bool (*tenon__py_torch_impl_flag)(const void *impl);

/* The states of the search for the layout. */
enum {
    TENON__PY_TORCH_UNREAD,
    TENON__PY_TORCH_WANTED,
    TENON__PY_TORCH_PROBING,
    TENON__PY_TORCH_OFF,
    TENON__PY_TORCH_ON,     /* from here on the layout is known */
    TENON__PY_TORCH_GUARDED /* likewise, and some tensors are read-only: see read_only.c */
};

/* The state of the process. The objects in it belong to the main interpreter, the only one that torch loads in, and are never
 * released: torch is never unloaded. */
typedef struct tenon__py_torch_state {
    _Atomic(PyTypeObject *) tensor;    /* set by the first tensor of any class */
    _Atomic(PyTypeObject *) parameter; /* likewise, if its objects are read by the layout */
    _Atomic(const tenon_dl_exchange *) table;
    _Atomic int state;             /* of the layout: TENON__PY_TORCH_UNREAD: the switch has not been read */
    _Atomic int tries, cuda_tries; /* how often the layout was looked for in vain */
    char why[160];                 /* why it is not used */
    tenon__py_torch_layout layout;
    _Atomic(struct tenon__py_torch_sample *) sample; /* the last one of tenon__py_torch_probe */
    _Atomic(const struct torch_functions *) functions;
    _Atomic bool searched;                         /* whether the functions have been looked for */
    _Atomic(tenon__py_torch_flag) records;         /* torch's C function for grad mode, if it has been found */
    _Atomic(tenon__py_torch_count) function_modes; /* torch's C++ function for their number, likewise */
    /* torch's C++ method for requires_grad, if it has been found and verified with the layout. */
    _Atomic(tenon__py_torch_impl_flag) requires_grad;
    _Atomic(PyObject *) requires_grad_getter;                      /* the descriptor of the attribute requires_grad */
    _Atomic(PyObject *) dtype;                                     /* that of the attribute dtype */
    _Atomic(PyObject *) is_conj, is_neg, data_ptr, storage_offset; /* methods of torch.Tensor */
    _Atomic(PyObject *) forward_ad;                                /* the dict of torch.autograd.forward_ad */
    _Atomic(PyObject *) grad_name;                                 /* "requires_grad" */
    _Atomic(PyObject *) level_name;                                /* "_current_level" */
    atomic_flag ranges_lock; /* guards the next three; a release may come on any thread */
    _Atomic int64_t nranges;
    size_t ranges_room;
    struct tenon__py_range *ranges; /* the memory of read-only tensors, by address */
    _Atomic bool watches_forks;
} tenon__py_torch_state;

extern tenon__py_torch_state tenon__py_torch;

/* ------------------------------------------------------------------------------------------- for the other folders */

extern const tenon__py_producer tenon__py_torch_producer;
/* Read the switch TENON_TORCH_STRUCT, unless that has been done. */
void tenon__py_torch_configure(void);
/* How plain tensors are read, "struct", "table" or "dlpack", and why not by their struct. 0, or -1 with an exception. */
int tenon__py_torch_tensors(const char **how, char *why, size_t size);
/* For the tests: look for the layout of torch's structs in `words`, an object with a buffer, or if it is None in a new
 * tensor. A new dict with the offsets by name and the words, or NULL with an exception. */
PyObject *tenon__py_torch_probe(PyObject *words);
/* The i-th dtype that torch may have. False: there are fewer. */
bool tenon__py_torch_candidate(size_t i, tenon_dtype *out);
/* The key set of a tensor by its struct, and whether autograd has never had to do with it. False: its struct is not read. */
bool tenon__py_torch_peek_keys(PyObject *object, uint64_t *keys, bool *unrecorded);
/* Whether autograd records now, by torch's C function if it has one: 1, also if it cannot be asked; 0; or -1 with an
 * exception. */
int tenon__py_torch_records(void);
/* torch's exchange table, or NULL if it does not have one or no tensor has been borrowed yet. */
const tenon_dl_exchange *tenon__py_torch_table(void);
/* Advice about a tensor that torch refuses to export, or NULL. Keeps the pending exception. */
const char *tenon__py_torch_advice(PyObject *object);
/* Whether the struct of a tensor, torch's TensorImpl, shows that it is neither conjugated nor negated on reading. False means
 * "unknown". */
bool tenon__py_torch_impl_is_plain(const void *impl);
/* The struct of a tensor, or NULL if it is not read. */
const void *tenon__py_torch_impl_of(PyObject *object);
/* The shared library of torch, or NULL; the result of a function in it that only returns a number; and torch's numbers for
 * dtypes, one call of `found` for each. */
void *tenon__py_torch_library(void);
/* The number of threads that torch's loops use on this thread, or 0 if torch is not loaded. Needs no lock. */
int tenon__py_torch_thread_count(void);
bool tenon__py_torch_number(void *library, const char *name, int32_t *out);
void tenon__py_torch_dtypes(void *library, void (*found)(void *context, tenon_dtype dtype, int32_t number),
                            void *context);

/* ---------------------------------------------------------------------------------------------- parts of the producer */
/* An object of torch.Tensor itself is met for the first time. As tenon__py_torch_learn_struct. */
int tenon__py_torch_learn_type(tenon__py_kind *kind);

/* Parts of the producer. */
int tenon__py_torch_gradient(PyObject *object, tenon__py_checks *checks, const char **why);
PyObject *tenon__py_torch_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim,
                                const int64_t *shape, tenon_py_borrowed *out);
PyObject *tenon__py_torch_wrap(tenon_tensor *tensor);

/* A new tensor on the CPU or a CUDA device by torch's C functions, borrowed: a new reference, or NULL without an exception
 * if this torch has none, or they failed: torch.empty knows why. */
PyObject *tenon__py_torch_empty_in_c(tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                     tenon_py_borrowed *out);
/* What the checks need is found once and kept. Takes the reference, which may be NULL, and returns a borrowed reference to the
 * object that is kept. */
PyObject *tenon__py_torch_keep(_Atomic(PyObject *) *place, PyObject *made);
/* Whether a function mode is active, which sees even the attributes of plain tensors; also if that is not known. */
bool tenon__py_torch_has_function_mode(void);
/* Refuse a tensor that torch itself has described, if its memory has another meaning, or the tensor has none: 0, or -1 with an
 * exception. */
int tenon__py_torch_check_memory(PyObject *object, const tenon_view *view);
/* Whether the tensor itself requires grad, whatever its class says: 1, 0, or -1 with an exception. */
int tenon__py_torch_requires_grad(PyObject *object);
/* Whether the tensor carries a tangent of forward-mode differentiation: 1, 0, or -1 with an exception. */
int tenon__py_torch_tangent(PyObject *object);

/* ------------------------------------------------------------------------------------------------- the layout, probed
 *
 * Reading a tensor's struct is an order of magnitude faster than asking torch. Its layout is found when torch is first met
 * (probe.c), verified (verify.c), and then used (struct.c). */

enum { TENON__PY_TORCH_WHY = 160 };

/* The fields that are searched for: first those of the TensorImpl, then those of the StorageImpl and of the object. */
enum {
    TENON__PY_TORCH_STORAGE_PTR,
    TENON__PY_TORCH_AUTOGRAD,
    TENON__PY_TORCH_SIZES, /* ndim, then room for 5 sizes, then for 5 strides */
    TENON__PY_TORCH_OFFSET,
    TENON__PY_TORCH_NUMEL,
    TENON__PY_TORCH_DTYPE, /* 2 bytes, then the type and the index of the device */
    TENON__PY_TORCH_KEYS,
    TENON__PY_TORCH_DATA,
    TENON__PY_TORCH_CHECK,
    TENON__PY_TORCH_IMPL,
    TENON__PY_TORCH_FIELDS
};

/* A value that only one field has. */
typedef struct tenon__py_torch_field {
    const char *name;
    size_t size, step; /* of the value, and between possible offsets */
    size_t inside;     /* the field begins here in the value */
    uint8_t value[88];
} tenon__py_torch_field;

/* The bytes of a tensor whose fields have such values: its TensorImpl up to the key set, then the beginning of its
 * StorageImpl, then of its object. */
enum { TENON__PY_TORCH_STORAGE = 64, TENON__PY_TORCH_OBJECT = 64 };
typedef struct tenon__py_torch_sample {
    size_t impl_length, object_length;
    tenon__py_torch_field fields[TENON__PY_TORCH_FIELDS];
    uint8_t bytes[192 + TENON__PY_TORCH_STORAGE + TENON__PY_TORCH_OBJECT];
} tenon__py_torch_sample;

size_t tenon__py_torch_sample_length(const tenon__py_torch_sample *sample);

/* Find every field in the bytes. NULL, or the name of one that is missing or occurs more than once. */
const char *tenon__py_torch_locate(const uint8_t *bytes, size_t length, const tenon__py_torch_field *fields,
                                   size_t *offsets, bool *is_missing);

/* torch is asked only between these two, whether or not the first one returns true. Neither the user's modes nor the garbage
 * collector run meanwhile, and inference mode is as given. `why` has room for TENON__PY_TORCH_WHY characters. What fails
 * inside returns false or NULL, perhaps with an exception, which leaving keeps. */
enum { TENON__PY_TORCH_GUARDS = 3 };
typedef struct tenon__py_torch_quiet {
    PyObject *torch, *native; /* the modules torch and torch._C */
    PyObject *guards[TENON__PY_TORCH_GUARDS];
    int gc;
} tenon__py_torch_quiet;
bool tenon__py_torch_enter_quiet(bool inference, tenon__py_torch_quiet *quiet, char *why);
void tenon__py_torch_leave_quiet(tenon__py_torch_quiet *quiet);

/* The value of an int. Takes the reference, which may be NULL. */
bool tenon__py_torch_number_of(PyObject *number, uint64_t *out);
/* The key set of a tensor. */
bool tenon__py_torch_keys(const tenon__py_torch_quiet *quiet, PyObject *tensor, uint64_t *out);
/* A new tensor with one dimension on a device; NULL: the CPU. */
PyObject *tenon__py_torch_fresh(const tenon__py_torch_quiet *quiet, Py_ssize_t count, const char *dtype_name,
                                PyObject *device);
/* A new tensor that is not a view, on a storage. `dims` are sizes, then strides. */
PyObject *tenon__py_torch_place(const tenon__py_torch_quiet *quiet, PyObject *storage, const char *dtype_name,
                                int64_t offset, int32_t ndim, const int64_t *dims);
bool tenon__py_torch_take_sample(const tenon__py_torch_quiet *quiet, tenon__py_torch_sample *sample, char *why);

/* Find the layout and verify it: true, or false and why, perhaps with an exception. */
bool tenon__py_torch_find_layout(tenon__py_torch_layout *layout, char *why);
/* Find the key sets of CUDA tensors by a tensor that is on such a device; likewise. */
bool tenon__py_torch_find_cuda(PyObject *tensor, tenon__py_torch_layout *layout);

/* ---------------------------------------------------------------------------------------------- the layout, in use */

/* Read a field of a struct. */
TENON__PY_INLINE uint64_t tenon__py_torch_word(const void *base, size_t offset)
{
    uint64_t word;
    memcpy(&word, (const char *)base + offset, sizeof word);
    return word;
}

TENON__PY_INLINE const char *tenon__py_torch_pointer(const void *base, size_t offset)
{
    return (const char *)(uintptr_t)tenon__py_torch_word(base, offset);
}

/* The layout, if it is known and tensors of this type are read by it; otherwise NULL. */
TENON__PY_INLINE const tenon__py_torch_layout *tenon__py_torch_layout_for(PyObject *object)
{
    const PyTypeObject *type = Py_TYPE(object);
    bool is_read = type == atomic_load_explicit(&tenon__py_torch.tensor, memory_order_relaxed) ||
                   type == atomic_load_explicit(&tenon__py_torch.parameter, memory_order_relaxed);
    return is_read && atomic_load_explicit(&tenon__py_torch.state, memory_order_acquire) >= TENON__PY_TORCH_ON
               ? &tenon__py_torch.layout
               : NULL;
}

/* Whether autograd has never had to do with the tensor, so that it has neither a gradient nor a tangent. */
TENON__PY_INLINE bool tenon__py_torch_is_unrecorded(PyObject *object)
{
    const tenon__py_torch_layout *layout = tenon__py_torch_layout_for(object);
    const char *impl = layout ? tenon__py_torch_pointer(object, layout->impl) : NULL;
    return impl && !tenon__py_torch_word(impl, layout->autograd);
}

/* Whether autograd records nothing of a tensor, although it has had to do with it: most views. Runs C code only. False means
 * "unknown". *no_forward_ad: it is known that no forward-mode differentiation goes on. */
bool tenon__py_torch_is_untracked(const void *impl, bool *no_forward_ad);

/* Whether the tensor has a plain key set: its memory is dense, and neither conjugated nor negated on reading. */
bool tenon__py_torch_has_dense_keys(PyObject *object);

/* Whether the struct of the tensor, which torch itself has described, has this dtype, and memory if there are elements. False
 * means "unknown". */
bool tenon__py_torch_struct_agrees(PyObject *object, const tenon_view *view);

/* A type whose objects may be read by their struct is met: find the layout unless that is known, and set kind->peek: 1.
 * 0: they are not read by it. -1 with an exception. */
int tenon__py_torch_learn_struct(tenon__py_kind *kind);
/* The reader of the producer. */
int tenon__py_torch_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request,
                         tenon_py_borrowed *out);
/* The layout has been found: set the state. */
void tenon__py_torch_use_layout(void);

/* -------------------------------------------------------------------------------------------------------- read-only */

/* A tensor on memory of the CPU that our functions do not write to, whatever the tensor is read as. */
PyObject *tenon__py_torch_receive(tenon_tensor *tensor);
/* The memory of a shared tensor is read-only: do not write to any torch tensor on it either, until it is unmapped. 0, or -1
 * with an exception; it may be called again. */
int tenon__py_torch_guard(tenon_tensor *tensor);
/* Whether the memory is that of such a tensor. */
bool tenon__py_torch_is_read_only(const tenon_view *view);

/* The peek by the exchange table. */
bool tenon__py_torch_peek_table(PyObject *object, const tenon__py_kind *kind, tenon_py_borrowed *out);

#endif
