/* What the files of this folder share. */
#ifndef TENON_PY_TORCH_H
#define TENON_PY_TORCH_H

#include "../../exchange/producer_view.h"
#include "../../internal.h"

#include <string.h>

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
    bool is_read = type == atomic_load_explicit(&tenon__py_global.torch.tensor, memory_order_relaxed) ||
                   type == atomic_load_explicit(&tenon__py_global.torch.parameter, memory_order_relaxed);
    return is_read && atomic_load_explicit(&tenon__py_global.torch.state, memory_order_acquire) >= TENON__PY_TORCH_ON
               ? &tenon__py_global.torch.layout
               : NULL;
}

/* Whether autograd has never had to do with the tensor, so that it has neither a gradient nor a tangent. */
TENON__PY_INLINE bool tenon__py_torch_is_unrecorded(PyObject *object)
{
    const tenon__py_torch_layout *layout = tenon__py_torch_layout_for(object);
    const char *impl = layout ? tenon__py_torch_pointer(object, layout->impl) : NULL;
    return impl && !tenon__py_torch_word(impl, layout->autograd);
}

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
