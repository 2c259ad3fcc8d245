/* What the sources of the torch bridge share. */
#ifndef TENON_TORCH_BRIDGE_H
#define TENON_TORCH_BRIDGE_H

#include "../array/internal.h"

#include <tenon/torch.h>

#include <stdatomic.h>

/* ------------------------------------------------------------------------------------------------ torch's functions */

/* AtenTensorHandle, StableIValue and StableListHandle. torch's own headers are C++. */
typedef void *tenon__torch_handle;
typedef uint64_t tenon__torch_stable;
typedef void *tenon__torch_list;

/* A kernel: it takes the arguments on the stack, and leaves the results there. */
typedef void (*tenon__torch_boxed)(tenon__torch_stable *stack, uint64_t nargs, uint64_t nresults);

enum { TENON__TORCH_DTYPES = 64 };

/* The functions and objects of torch. Filled once and never freed: torch is never unloaded. */
typedef struct tenon__torch_api {
    tenon_torch_report report;
    tenon__py_interp *interp;  /* the interpreter that imported torch; there can be only one */
    PyObject *module;          /* torch */
    PyTypeObject *tensor_type; /* torch.Tensor */
    PyObject *function_name;   /* "__torch_function__" */
    PyObject *no_function;     /* the __torch_function__ of classes that opt out: parameters, fake tensors */
    PyObject *mode_enabled;    /* whether a TorchFunctionMode is active */
    bool clears_ops;           /* torch removes every unloaded operator from torch.ops (2.13) */

    /* Tier 2, or NULL. */
    int32_t (*from_pyobject)(void *object, tenon__torch_handle *out);
    int32_t (*to_pyobject)(tenon__torch_handle handle, void *type, void **out);
    /* Tier 1: torch._C._aoti.unsafe_alloc_void_ptr_from_tensor and alloc_tensor_by_stealing_from_void_ptr. In spite of
     * its name, the second one leaves the handle to the caller. */
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

    int32_t (*new_handle)(tenon__torch_handle handle, tenon__torch_handle *out); /* or NULL */

    /* 2.13 and newer: all of these, or `call` is NULL. */
    int32_t (*call)(const char *name, const char *overload, tenon__torch_stable *stack, uint64_t version);
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

    /* For operators whose kernels are in C (kernels.h). */
    struct {
        bool usable; /* all of these but the last were found: 2.10 and newer, with GNU's C++ library */
        int32_t (*init_library)(const char *name_space, const char *key, const char *file, uint32_t line, void **out);
        int32_t (*implement)(void *library, const char *name, tenon__torch_boxed kernel, uint64_t version);
        int32_t (*delete_library)(void *library);
        uint64_t (*abi_version)(void);
        int32_t (*get_const_data)(tenon__torch_handle handle, void **out);
        int32_t (*list_size)(tenon__torch_list list, size_t *out);
        int32_t (*list_get)(tenon__torch_list list, size_t index, tenon__torch_stable *out);
        int32_t (*delete_list)(tenon__torch_list list);
        int32_t (*string_length)(void *string, size_t *out);
        int32_t (*string_data)(void *string, const char **out);
        int32_t (*delete_string)(void *string);
        const void *(*find_unwind_table)(void *address, void *bases);
        void (*throw_runtime_error)(const char *message);
        void (*operator_delete)(void *memory);
        int32_t (*current_cuda_stream)(int32_t device, void **out); /* NULL if this torch is for the CPU */
    } kernels;

    int32_t strided, cpu, cuda;              /* torch's numbers */
    int32_t cuda_device;                     /* the device that torch calls "cuda": TENON_CUDA or TENON_ROCM */
    tenon_dtype dtypes[TENON__TORCH_DTYPES]; /* by torch's number; bits is 0 if it is not a dtype */
} tenon__torch_api;

/* The functions of torch, or NULL with `err` if torch is not imported or too old. Looks for it only on an attached
 * thread. */
const tenon__torch_api *tenon__torch_search_api(tenon_error *err);

/* As tenon__torch_search_api, with a fast path if torch has been found before. */
extern _Atomic(const tenon__torch_api *) tenon__torch_known_api;
static inline const tenon__torch_api *tenon__torch_find_api(tenon_error *err)
{
    const tenon__torch_api *api = atomic_load_explicit(&tenon__torch_known_api, memory_order_acquire);
    return api ? api : tenon__torch_search_api(err);
}

/* torch's number for a dtype or a device. False if it has none. */
bool tenon__torch_dtype_number(const tenon__torch_api *api, tenon_dtype dtype, int32_t *out);
bool tenon__torch_device_number(const tenon__torch_api *api, tenon_device device, int32_t *type, int32_t *index);

/* Whether the tensor's struct shows that it is neither conjugated nor negated on reading. False means "unknown". */
bool tenon__torch_is_plain(tenon__torch_handle handle);

/* Describe the memory of a tensor, which may be NULL although the tensor is not empty: the device is the CPU unless it
 * is torch's "cuda". `get_data` is one of torch's functions for the address. The shape and strides are torch's, valid
 * as long as the tensor. False if it has no plain memory. *dtype and *device_type are torch's numbers. */
bool tenon__torch_describe(const tenon__torch_api *api, tenon__torch_handle handle,
                           int32_t (*get_data)(tenon__torch_handle, void **), tenon_dl_tensor *out, int32_t *dtype,
                           int32_t *device_type);

/* ------------------------------------------------------------------------------------------------------------ handles */

/* A tenon_torch points to a block. Blocks are reused and never freed, so that a stale handle can be recognised: its low
 * bits are the tag that the block had. */
typedef struct tenon__torch_block {
    tenon_deferred_node node;
    union {
        struct tenon__torch_block *next; /* the next free block in the pool */
        PyObject *object;                /* owned: what was imported, which is exported again; NULL: torch makes it */
    };
    tenon__torch_handle handle;
    const tenon__torch_api *api;
    _Atomic int64_t count;
    uint32_t tag;
    bool is_subclass; /* its Python object is of a subclass */
    bool overrides;   /* which has a __torch_function__ */
} tenon__torch_block;

enum { TENON__TORCH_BLOCK = 64 };

/* The block of a handle, or NULL if it was released. */
static inline tenon__torch_block *tenon__torch_block_of(const tenon_torch *tensor)
{
    uintptr_t bits = (uintptr_t)tensor, tag = bits % TENON__TORCH_BLOCK;
    tenon__torch_block *block = (tenon__torch_block *)(bits - tag);
    return block && block->tag == tag ? block : NULL;
}

/* Make a tenon_torch for a handle of torch. Takes `handle` on success; NULL on failure. */
tenon_torch *tenon__torch_wrap(const tenon__torch_api *api, tenon__torch_handle handle);

/* The Python object, on an attached thread: a new reference, or NULL with an exception. */
PyObject *tenon__torch_object(const tenon__torch_block *block);

/* -------------------------------------------------------------------------------------------------------- operators */

/* The types of a schema, as far as they are distinguished. */
typedef enum tenon__torch_base {
    TENON__TORCH_TENSOR,
    TENON__TORCH_INT,
    TENON__TORCH_FLOAT,
    TENON__TORCH_BOOL,
    TENON__TORCH_STR,
    TENON__TORCH_DTYPE,
    TENON__TORCH_DEVICE,
    TENON__TORCH_SCALAR, /* torch's C functions cannot represent this type and the following ones */
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
    tenon_torch_value value; /* the default; TENON_TORCH_DEFAULT if only Python can make it */
} tenon__torch_param;

struct tenon_torch_op {
    tenon_torch_op *next; /* in the same bucket */
    const tenon__torch_api *api;
    char *name, *overload;
    char full_name[200]; /* "aten::mul.Tensor", for messages */
    bool carried;        /* torch's C functions can call it */
    bool fixed;          /* it never changes; an operator that Python defined may */
    PyObject *function;  /* for calls through Python, if it is fixed */
    PyObject *schema;    /* the dispatcher's, or NULL if it has none */
    /* While torch.ops.<namespace>.<short_name> is `packet`, nothing was unloaded. Only if torch has clears_ops. */
    PyObject *attributes, *short_name, *packet;
    size_t nparams, nresults;
    tenon__torch_param *params;
    tenon__torch_type *results;
};

/* Check that the operator has not changed since it was found. TENON_EINVAL if it has; TENON_EFAILED on a thread without
 * the lock. */
tenon_status tenon__torch_check_op(const tenon_torch_op *op, tenon_error *err);

/* The Python function of an operator that was checked: a new reference, or NULL with an exception. */
PyObject *tenon__torch_function(const tenon_torch_op *op);

/* Call through torch's C functions or through Python. The arguments have been checked: `args` has one for each
 * parameter, and `results` has room for all. */
tenon_status tenon__torch_call_stable(const tenon_torch_op *op, const tenon_torch_value *args,
                                      tenon_torch_value *results, tenon_error *err);
tenon_status tenon__torch_call_python(const tenon_torch_op *op, const tenon_torch_value *args,
                                      tenon_torch_value *results, tenon_error *err);

/* Copy a Python list of ints, floats or bools to new memory. False with an exception. */
bool tenon__torch_take_numbers(PyObject *list, tenon__torch_base base, tenon_torch_value *out);

/* ---------------------------------------------------------------------------------------------------- direct calls */

/* The dispatch keys that a thread includes and excludes, XOR the defaults. */
typedef struct tenon__torch_dispatch_keys {
    uint64_t included, excluded;
} tenon__torch_dispatch_keys;

/* Whether torch's library says what is active in a thread. If not, Python must be asked. */
bool tenon__torch_can_read_dispatch_keys(void);
/* The words of this thread. False if torch's library does not have them. */
bool tenon__torch_read_dispatch_keys(tenon__torch_dispatch_keys *out);
/* Whether a mode, a transform, a tracer or the profiler is active in this thread. `harmless` are the words without any of
 * them. Only if tenon__torch_can_read_dispatch_keys. */
bool tenon__torch_has_active_mode(const tenon__torch_dispatch_keys *harmless, size_t count);

/* Read the switch TENON_TORCH_DIRECT, when the package is imported. */
void tenon__torch_read_switch(void);
/* Whether operators may be called directly, in words, and how it is found out what is active: "on" or "off", the reason,
 * "tls" or "python". */
void tenon__torch_direct_info(const char **direct, const char **why, const char **watch);
/* Functions for the package's Python files. */
extern PyMethodDef tenon__torch_methods[];

/* ------------------------------------------------------------------------------------------------------------ errors */

/* Set `err` to the error of torch's last function on this thread. */
tenon_status tenon__torch_failed(const tenon__torch_api *api, const char *who, tenon_error *err);
/* Take the pending exception, and set `err` to its message. */
tenon_status tenon__torch_take_exception(const char *who, tenon_error *err);
tenon_status tenon__torch_released(const char *who, tenon_error *err);

#endif
