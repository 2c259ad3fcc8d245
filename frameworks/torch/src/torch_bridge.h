/* What the sources of the torch bridge share. */
#ifndef TENON_TORCH_BRIDGE_H
#define TENON_TORCH_BRIDGE_H

#include "../../../python/src/internal.h"

#include <tenon/torch.h>

#include <stdatomic.h>

/* ------------------------------------------------------------------------------------------------ torch's functions */

/* AtenTensorHandle, StableIValue and StableListHandle of torch's headers, which are not C. */
typedef void *tenon__torch_handle;
typedef uint64_t tenon__torch_stable;
typedef void *tenon__torch_list;

enum { TENON__TORCH_DTYPES = 64 };

/* What was found in one torch. Filled once and never freed: torch stays loaded until the process ends. */
typedef struct tenon__torch_api {
    tenon_torch_report report;
    tenon__py_interp *interp;  /* where torch was imported: it lives in one interpreter only */
    PyObject *module;          /* torch */
    PyTypeObject *tensor_type; /* torch.Tensor */
    PyObject *function_name;   /* "__torch_function__" */
    PyObject *no_function;     /* the one of classes that want none: parameters, fake tensors */
    PyObject *mode_enabled;    /* whether a TorchFunctionMode is active */
    bool clears_ops;           /* what is unloaded is taken from torch.ops, however that happens (2.13) */

    /* Tier 2, or NULL. */
    int32_t (*from_pyobject)(void *object, tenon__torch_handle *out);
    int32_t (*to_pyobject)(tenon__torch_handle handle, void *type, void **out);
    /* Tier 1: torch._C._aoti.unsafe_alloc_void_ptr_from_tensor and alloc_tensor_by_stealing_from_void_ptr, which, its
     * name notwithstanding, leaves the handle to its caller. */
    PyObject *handle_of, *object_of;

    int32_t (*delete_handle)(tenon__torch_handle handle);
    int32_t (*get_dim)(tenon__torch_handle handle, int64_t *out);
    int32_t (*get_sizes)(tenon__torch_handle handle, int64_t **out);
    int32_t (*get_strides)(tenon__torch_handle handle, int64_t **out);
    int32_t (*get_dtype)(tenon__torch_handle handle, int32_t *out);
    int32_t (*get_device_type)(tenon__torch_handle handle, int32_t *out);
    int32_t (*get_device_index)(tenon__torch_handle handle, int32_t *out);
    int32_t (*get_data)(tenon__torch_handle handle, void **out);
    int32_t (*get_storage_size)(tenon__torch_handle handle, int64_t *out);
    int32_t (*empty_strided)(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                             int32_t device_type, int32_t device_index, tenon__torch_handle *out);

    /* 2.11 and newer, or NULL. */
    int32_t (*from_blob)(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                         int32_t dtype, int32_t device_type, int32_t device_index, tenon__torch_handle *out,
                         int32_t layout, const uint8_t *metadata, int64_t metadata_size,
                         void (*deleter)(void *data, void *context), void *context);

    /* 2.13 and newer: all of these, or `call` is NULL. */
    int32_t (*call)(const char *name, const char *overload, tenon__torch_stable *stack, uint64_t version);
    int32_t (*new_handle)(tenon__torch_handle handle, tenon__torch_handle *out);
    int32_t (*is_defined)(tenon__torch_handle handle, bool *out);
    int32_t (*new_optional)(tenon__torch_stable **out);
    int32_t (*delete_optional)(tenon__torch_stable *value);
    int32_t (*new_list)(size_t size, tenon__torch_list *out);
    int32_t (*list_push)(tenon__torch_list list, tenon__torch_stable value);
    int32_t (*list_size)(tenon__torch_list list, size_t *out);
    int32_t (*list_get)(tenon__torch_list list, size_t index, tenon__torch_stable *out);
    int32_t (*delete_list)(tenon__torch_list list);
    int32_t (*new_string)(const char *data, size_t length, void **out);
    uint64_t (*abi_version)(void);
    const char *(*what)(void); /* why the last function failed on this thread; NULL before 2.13 */

    int32_t strided, cpu, cuda;              /* torch's numbers */
    int32_t cuda_device;                     /* what its "cuda" is: TENON_CUDA or TENON_ROCM */
    tenon_dtype dtypes[TENON__TORCH_DTYPES]; /* by torch's number; bits 0: none */
} tenon__torch_api;

/* What was found, or NULL with `err` where torch is not there or too old. Looks on an attached thread only. */
const tenon__torch_api *tenon__torch_get(tenon_error *err);

/* As tenon__torch_get, on the way where it was found already. */
extern _Atomic(const tenon__torch_api *) tenon__torch_found;
static inline const tenon__torch_api *tenon__torch_interp_state(tenon_error *err)
{
    const tenon__torch_api *api = atomic_load_explicit(&tenon__torch_found, memory_order_acquire);
    return api ? api : tenon__torch_get(err);
}

/* torch's number for a dtype or a device. False where it has none. */
bool tenon__torch_dtype_number(const tenon__torch_api *api, tenon_dtype dtype, int32_t *out);
bool tenon__torch_device_number(const tenon__torch_api *api, tenon_device device, int32_t *type, int32_t *index);

/* ------------------------------------------------------------------------------------------------------------ handles */

/* What a tenon_torch points to. Blocks are reused and never given back to the system, so that a stale handle can be
 * looked at: its low bits are the tag that the block had. */
typedef struct tenon__torch_block {
    tenon_deferred_node node;
    struct tenon__torch_block *next; /* in the pool */
    tenon__torch_handle handle;
    const tenon__torch_api *api;
    _Atomic int64_t count;
    uint32_t tag;
    bool is_subclass; /* it came as an object of one */
    bool overrides;   /* and that has a __torch_function__ */
} tenon__torch_block;

enum { TENON__TORCH_BLOCK = 64 };

/* The block of a handle that is alive, else NULL. */
static inline tenon__torch_block *tenon__torch_block_of(const tenon_torch *tensor)
{
    uintptr_t bits = (uintptr_t)tensor, tag = bits % TENON__TORCH_BLOCK;
    tenon__torch_block *block = (tenon__torch_block *)(bits - tag);
    return block && block->tag == tag ? block : NULL;
}

/* Make a handle of torch's own. Takes `handle` on success; else NULL. */
tenon_torch *tenon__torch_wrap(const tenon__torch_api *api, tenon__torch_handle handle);

/* The Python object, on an attached thread: a new reference, or NULL with an exception. */
PyObject *tenon__torch_object(const tenon__torch_block *block);

/* -------------------------------------------------------------------------------------------------------- operators */

/* The types of a schema, as far as they matter here. */
typedef enum tenon__torch_base {
    TENON__TORCH_TENSOR,
    TENON__TORCH_INT,
    TENON__TORCH_FLOAT,
    TENON__TORCH_BOOL,
    TENON__TORCH_STR,
    TENON__TORCH_DTYPE,
    TENON__TORCH_DEVICE,
    TENON__TORCH_SCALAR, /* from here on: not carried by torch's C functions */
    TENON__TORCH_COMPLEX,
    TENON__TORCH_LAYOUT, /* and a memory format: an attribute of the module torch */
    TENON__TORCH_OTHER
} tenon__torch_base;

typedef struct tenon__torch_type {
    tenon__torch_base base;
    bool optional, list, optional_items; /* T?, T[], T?[] */
    char text[40];                       /* "Optional[int]" */
} tenon__torch_type;

typedef struct tenon__torch_param {
    char *name;
    tenon__torch_type type;
    bool has_default;
    tenon_torch_value value; /* the default; TENON_TORCH_DEFAULT where only Python can make it */
} tenon__torch_param;

struct tenon_torch_op {
    tenon_torch_op *next; /* in its bucket */
    const tenon__torch_api *api;
    char *name, *overload;
    char full_name[200]; /* "aten::mul.Tensor", for messages */
    bool carried;        /* torch's C functions can call it */
    bool fixed;          /* it stays as it is until the process ends, which what Python has defined may not */
    PyObject *function;  /* for a call through Python, where it is fixed */
    PyObject *schema;    /* the dispatcher's, or NULL where it has none */
    /* torch.ops.<namespace>.<short_name> is `packet` while nothing was unloaded, where this torch sees to that. */
    PyObject *attributes, *short_name, *packet;
    size_t nparams, nresults;
    tenon__torch_param *params;
    tenon__torch_type *results;
};

/* Whether the operator is still what it was when it was found: TENON_OK, or TENON_EINVAL; TENON_EFAILED on a thread
 * without the lock. */
tenon_status tenon__torch_check_op(const tenon_torch_op *op, tenon_error *err);

/* What to call through Python, of an operator that was checked: a new reference, or NULL with an exception. */
PyObject *tenon__torch_function(const tenon_torch_op *op);

/* Call through torch's C functions or through Python: the arguments were checked, `args` has one for each parameter, and
 * `results` has room for all. */
tenon_status tenon__torch_call_stable(const tenon_torch_op *op, const tenon_torch_value *args,
                                      tenon_torch_value *results, tenon_error *err);
tenon_status tenon__torch_call_python(const tenon_torch_op *op, const tenon_torch_value *args,
                                      tenon_torch_value *results, tenon_error *err);

/* A list of ints, floats or bools of Python's in memory of its own. False with an exception. */
bool tenon__torch_take_numbers(PyObject *list, tenon__torch_base base, tenon_torch_value *out);

/* ------------------------------------------------------------------------------------------------------------ errors */

/* Say what torch's last function failed with on this thread. */
tenon_status tenon__torch_failed(const tenon__torch_api *api, const char *who, tenon_error *err);
/* The pending exception, taken, in words. */
tenon_status tenon__torch_take_exception(const char *who, tenon_error *err);
tenon_status tenon__torch_released(const char *who, tenon_error *err);

#endif
