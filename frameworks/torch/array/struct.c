/* Reading a tensor by the layout of its struct. Only what is plain is read: other tensors are left to the exchange table and
 * to __dlpack__, which know more. */
#include "internal.h"

#include <stdlib.h>

enum { TORCH_TRIES = 4, TORCH_CUDA = 1 /* torch's number for it */, TORCH_DEVICES = 64 };

static int torch_state(void)
{
    return atomic_load_explicit(&tenon__py_torch.state, memory_order_acquire);
}

static void torch_set_why(const char *why)
{
    tenon__py_spin_lock(&tenon__py_global.lock);
    PyOS_snprintf(tenon__py_torch.why, sizeof tenon__py_torch.why, "%s", why);
    tenon__py_spin_unlock(&tenon__py_global.lock);
}

static void torch_set_state(int state, const char *why)
{
    torch_set_why(why);
    atomic_store_explicit(&tenon__py_torch.state, state, memory_order_release);
}

void tenon__py_torch_configure(void)
{
    if (torch_state() != TENON__PY_TORCH_UNREAD)
        return;
    const char *value = getenv("TENON_TORCH_STRUCT");
    if (value && strcmp(value, "0") == 0)
        torch_set_state(TENON__PY_TORCH_OFF, "TENON_TORCH_STRUCT=0 was set");
    else
        torch_set_state(TENON__PY_TORCH_WANTED, "no tensor has been used yet");
}

/* Whether torch.func or torch.jit.trace is active. Its tensors are not plain, so the search for the layout waits. */
static bool torch_is_transforming(void)
{
    PyObject *native = tenon__py_loaded("torch._C");
    PyObject *active = native ? PyObject_CallMethod(native, "_are_functorch_transforms_active", NULL) : NULL;
    PyObject *tracing = active ? PyObject_CallMethod(native, "_get_tracing_state", NULL) : NULL;
    bool is_active = active == Py_True || (tracing && tracing != Py_None);
    Py_XDECREF(native);
    Py_XDECREF(active);
    Py_XDECREF(tracing);
    tenon__py_clear_ignorable_error();
    return is_active;
}

/* Look for the layout, unless the state says that it was found or cannot be found. Because a failure may be due to the
 * caller, who may be inside torch.func.grad, it is tried again a few times. 0, or -1 with an exception. */
static int torch_look(void)
{
    tenon__py_torch_configure();
    const tenon__py_interp *interp = tenon__py_interp_state();
    int wanted = TENON__PY_TORCH_WANTED;
    if (!interp)
        return -1;
    if (torch_state() != TENON__PY_TORCH_WANTED || !interp->is_main)
        return 0;
    bool waits = torch_is_transforming();
    if (PyErr_Occurred())
        return -1;
    if (waits)
        torch_set_why("a tensor has been used only inside torch.func or torch.jit.trace");
    if (waits || !atomic_compare_exchange_strong(&tenon__py_torch.state, &wanted, TENON__PY_TORCH_PROBING))
        return 0;
    char why[TENON__PY_TORCH_WHY] = "";
    tenon__py_torch_layout *layout = &tenon__py_torch.layout;
    memset(layout->dtypes, 0, sizeof layout->dtypes);
    bool found = tenon__py_torch_find_layout(layout, why);
    tenon__py_clear_ignorable_error();
    bool raised = PyErr_Occurred();
    found = found && !raised;
    if (!raised)
        tenon__py_torch.tries++;
    if (found) {
        torch_set_why("");
        tenon__py_torch_use_layout();
    } else {
        bool may_try_again = tenon__py_torch.tries < TORCH_TRIES;
        torch_set_state(may_try_again ? TENON__PY_TORCH_WANTED : TENON__PY_TORCH_OFF, why);
    }
    return raised ? -1 : 0;
}

/* --------------------------------------------------------------------------------------------------------- reading */

/* What a plain struct says. The sizes and strides stay where they are. */
typedef struct torch_fields {
    char *data;
    const tenon_dtype *dtype;
    uint64_t ndim;
    const int64_t *sizes, *strides;
    bool is_checked; /* the storage wants to be asked before its memory is used */
} torch_fields;

/* Read a struct with a plain key set; false if it has no memory, or another dtype or more dimensions than are read. */
static inline bool torch_read_fields(const tenon__py_torch_layout *layout, const char *impl, torch_fields *out)
{
    const char *storage = tenon__py_torch_pointer(impl, layout->storage);
    const char *sizes = impl + layout->sizes + sizeof(uint64_t);
    uint16_t number;
    memcpy(&number, impl + layout->dtype, sizeof number);
    out->ndim = tenon__py_torch_word(impl, layout->sizes);
    if (!storage || number >= TENON__PY_TORCH_DTYPES || out->ndim > TENON__PY_TORCH_DIMS)
        return false;
    out->dtype = &layout->dtypes[number];
    out->is_checked = storage[layout->check];
    char *memory = (char *)(uintptr_t)tenon__py_torch_word(storage, layout->data);
    if (!memory || !out->dtype->bits)
        return false;
    out->data = memory + (int64_t)tenon__py_torch_word(impl, layout->offset) * (out->dtype->bits >> 3);
    out->sizes = (const int64_t *)(const void *)sizes;
    out->strides = out->sizes + TENON__PY_TORCH_DIMS;
    return true;
}

static inline bool torch_is_dense_keys(const tenon__py_torch_layout *layout, uint64_t keys)
{
    return keys == layout->keys || keys == layout->inference_keys;
}

/* Describe a tensor in C order. The memory of the view is the CPU's. */
static inline bool torch_describe_dense(const tenon__py_torch_layout *layout, const char *impl,
                                        const tenon__py_kind *kind, tenon_py_borrowed *out)
{
    torch_fields fields;
    if (!torch_read_fields(layout, impl, &fields) || fields.is_checked ||
        !tenon__py_make_view_fast(fields.data, fields.dtype, (int32_t)fields.ndim, fields.sizes, fields.strides, 0, 0,
                                  out))
        return false;
    out->private_.holds = TENON__PY_HOLDS_NOTHING;
    out->private_.table = kind->table;
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- CUDA */

/* The index of the device of a tensor with the key set of a plain one on CUDA; -1 if it has another key set. */
static int torch_cuda_index(const tenon__py_torch_layout *layout, const char *impl, uint64_t keys)
{
    uint64_t read_c_tensor = atomic_load_explicit(&layout->cuda_keys, memory_order_acquire);
    uint64_t inference = atomic_load_explicit(&layout->cuda_inference_keys, memory_order_relaxed);
    int index = (unsigned char)impl[layout->dtype + 3]; /* -1, which only a CPU tensor has, is too large */
    return read_c_tensor && (keys == read_c_tensor || keys == inference) && index < TORCH_DEVICES ? index : -1;
}

static bool torch_cuda_is_verified(const tenon__py_torch_layout *layout, int index)
{
    return index >= 0 && (atomic_load_explicit(&layout->cuda_devices, memory_order_acquire) >> index & 1);
}

static bool torch_may_learn_cuda(const char *impl, const tenon__py_torch_layout *layout)
{
    return impl[layout->dtype + 2] == TORCH_CUDA &&
           atomic_load_explicit(&tenon__py_torch.cuda_tries, memory_order_relaxed) < TORCH_TRIES;
}

/* Whether the struct and the exchange table say the same of a tensor on that device. */
static bool torch_cuda_agrees(PyObject *object, const tenon__py_kind *kind, const tenon__py_torch_layout *layout,
                              const char *impl, int index)
{
    tenon_py_borrowed ours;
    tenon_dl_tensor theirs = {.ndim = -1};
    if (!torch_describe_dense(layout, impl, kind, &ours) ||
        kind->table->dltensor_from_py_object_no_sync(object, &theirs) != 0)
        return false;
    const tenon_view *view = &ours.view;
    bool same = theirs.data == view->data && theirs.byte_offset == 0 && theirs.ndim == view->ndim &&
                tenon_dtype_equal(theirs.dtype, view->dtype) && theirs.device.device_type == TENON_CUDA &&
                theirs.device.device_id == index;
    for (int32_t i = 0; same && i < view->ndim; i++)
        same = theirs.shape[i] == view->shape[i];
    return same;
}

/* Find the key sets of CUDA tensors, or verify a device of which no tensor has been read yet. An exception may be left. */
static TENON__PY_NOINLINE void torch_learn_cuda(PyObject *object, const tenon__py_kind *kind, const char *impl,
                                                uint64_t keys)
{
    tenon__py_torch_layout *layout = &tenon__py_torch.layout;
    bool found =
        atomic_load_explicit(&layout->cuda_keys, memory_order_acquire) || tenon__py_torch_find_cuda(object, layout);
    int index = found ? torch_cuda_index(layout, impl, keys) : -1;
    if (index >= 0 && torch_cuda_agrees(object, kind, layout, impl, index))
        atomic_fetch_or_explicit(&layout->cuda_devices, UINT64_C(1) << index, memory_order_release);
    else
        atomic_fetch_add_explicit(&tenon__py_torch.cuda_tries, 1, memory_order_relaxed);
    tenon__py_clear_ignorable_error();
}

static TENON__PY_NOINLINE bool torch_peek_device(PyObject *object, const tenon__py_kind *kind, const char *impl,
                                                 uint64_t keys, tenon_py_borrowed *out)
{
    const tenon__py_torch_layout *layout = &tenon__py_torch.layout;
    if (impl[layout->dtype + 2] != TORCH_CUDA || !kind->table)
        return false;
    int index = torch_cuda_index(layout, impl, keys);
    if (torch_cuda_is_verified(layout, index)) {
        bool described = torch_describe_dense(layout, impl, kind, out);
        out->view.device = tenon_device_of(TENON_CUDA, index);
        return described;
    }
    return !torch_may_learn_cuda(impl, layout) && tenon__py_torch_peek_table(object, kind, out);
}

/* ------------------------------------------------------------------------------------------------------ the producer */

static inline bool torch_peek_by_layout(PyObject *object, const tenon__py_kind *kind, tenon_py_borrowed *out)
{
    const tenon__py_torch_layout *layout = &tenon__py_torch.layout;
    const char *impl = tenon__py_torch_pointer(object, layout->impl);
    if (!impl)
        return false;
    uint64_t keys = tenon__py_torch_word(impl, layout->key_set);
    return torch_is_dense_keys(layout, keys) ? torch_describe_dense(layout, impl, kind, out)
                                             : torch_peek_device(object, kind, impl, keys, out);
}

/* Some tensors are read-only, or there is no layout. If it is still looked for, the reader does that. */
static TENON__PY_NOINLINE bool torch_peek_rare(PyObject *object, const tenon__py_kind *kind, tenon_py_borrowed *out)
{
    int state = torch_state();
    if (state == TENON__PY_TORCH_GUARDED) {
        if (!torch_peek_by_layout(object, kind, out))
            return false;
        out->view.flags |= tenon__py_torch_is_read_only(&out->view) ? TENON_READ_ONLY : 0;
        return true;
    }
    return state != TENON__PY_TORCH_WANTED && kind->table && tenon__py_torch_peek_table(object, kind, out);
}

static bool torch_peek_struct(PyObject *object, const tenon__py_kind *kind, tenon_py_borrowed *out)
{
    return torch_state() == TENON__PY_TORCH_ON ? torch_peek_by_layout(object, kind, out)
                                               : torch_peek_rare(object, kind, out);
}

/* Whether the strides are those of C order, even of dimensions of size 1. */
static inline bool torch_is_in_c_order(const torch_fields *fields)
{
    int64_t product = 1;
    for (uint64_t i = fields->ndim; i-- > 0; product *= fields->sizes[i])
        if (fields->strides[i] != product || (uint64_t)fields->sizes[i] - 1 >= INT32_MAX || product > INT32_MAX)
            return false;
    return true;
}

static bool torch_read_c_tensor(PyObject *object, tenon__py_c_tensor *out)
{
    const tenon__py_torch_layout *layout = &tenon__py_torch.layout;
    if (torch_state() != TENON__PY_TORCH_ON)
        return false;
    const char *impl = tenon__py_torch_pointer(object, layout->impl);
    torch_fields fields;
    if (!impl || !torch_is_dense_keys(layout, tenon__py_torch_word(impl, layout->key_set)) ||
        !torch_read_fields(layout, impl, &fields) || fields.is_checked || !torch_is_in_c_order(&fields) ||
        (tenon__py_torch_word(impl, layout->autograd) && !tenon__py_torch_is_untracked(impl, &out->no_forward_ad)))
        return false;
    out->data = fields.data;
    out->dtype = fields.dtype;
    out->ndim = (int32_t)fields.ndim;
    out->shape = fields.sizes;
    return true;
}

bool tenon__py_torch_peek_keys(PyObject *object, uint64_t *keys, bool *unrecorded)
{
    const tenon__py_torch_layout *layout = tenon__py_torch_layout_for(object);
    const char *impl = layout ? tenon__py_torch_pointer(object, layout->impl) : NULL;
    if (!impl)
        return false;
    *keys = tenon__py_torch_word(impl, layout->key_set);
    *unrecorded = !tenon__py_torch_word(impl, layout->autograd);
    return true;
}

/* Whether the key set is that of a plain tensor on the CPU or on a CUDA device. */
static bool torch_is_plain_impl(const tenon__py_torch_layout *layout, const char *impl)
{
    uint64_t keys = tenon__py_torch_word(impl, layout->key_set);
    return torch_is_dense_keys(layout, keys) || torch_cuda_index(layout, impl, keys) >= 0;
}

const void *tenon__py_torch_impl_of(PyObject *object)
{
    const tenon__py_torch_layout *layout = tenon__py_torch_layout_for(object);
    return layout ? tenon__py_torch_pointer(object, layout->impl) : NULL;
}

bool tenon__py_torch_has_dense_keys(PyObject *object)
{
    const char *impl = tenon__py_torch_impl_of(object);
    return impl && torch_is_plain_impl(&tenon__py_torch.layout, impl);
}

bool tenon__py_torch_struct_agrees(PyObject *object, const tenon_view *view)
{
    const tenon__py_torch_layout *layout = tenon__py_torch_layout_for(object);
    const char *impl = layout ? tenon__py_torch_pointer(object, layout->impl) : NULL;
    const char *storage = impl ? tenon__py_torch_pointer(impl, layout->storage) : NULL;
    uint16_t number;
    if (!storage || (view->numel && !tenon__py_torch_word(storage, layout->data)))
        return false;
    memcpy(&number, impl + layout->dtype, sizeof number);
    return number < TENON__PY_TORCH_DTYPES && tenon_dtype_equal(layout->dtypes[number], view->dtype);
}

bool tenon__py_torch_impl_is_plain(const void *impl)
{
    return torch_state() >= TENON__PY_TORCH_ON && torch_is_plain_impl(&tenon__py_torch.layout, impl);
}

/* Whether the storage's memory may be read as it is although it wants to be asked: it is copied on the next write. -1 with an
 * exception. */
static TENON__PY_NOINLINE int torch_is_copied_on_write(PyObject *object)
{
    PyObject *native = tenon__py_loaded("torch._C");
    PyObject *answer = native ? PyObject_CallMethod(native, "_is_cow_tensor", "O", object) : NULL;
    int is_cow = answer == Py_True;
    Py_XDECREF(native);
    Py_XDECREF(answer);
    tenon__py_clear_ignorable_error();
    return PyErr_Occurred() ? -1 : is_cow;
}

/* The storage of a tensor with elements may have been resized to 0. torch itself then computes an address from NULL and the
 * offset. 1, or -1 with an exception. */
static TENON__PY_NOINLINE int torch_check_freed(PyObject *object, const tenon__py_torch_layout *layout,
                                                const char *impl)
{
    const char *storage = tenon__py_torch_pointer(impl, layout->storage);
    if (!storage || tenon__py_torch_word(storage, layout->data))
        return 1;
    return tenon__py_set_error(PyExc_BufferError, object, TENON__PY_NO_MEMORY);
}

int tenon__py_torch_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request,
                         tenon_py_borrowed *out)
{
    if (torch_state() == TENON__PY_TORCH_WANTED && torch_look() < 0)
        return -1;
    const tenon__py_torch_layout *layout = tenon__py_torch_layout_for(object);
    const char *impl = layout ? tenon__py_torch_pointer(object, layout->impl) : NULL;
    if (!impl)
        return 1;
    uint64_t keys = tenon__py_torch_word(impl, layout->key_set);
    if (!torch_is_dense_keys(layout, keys)) {
        bool is_new = kind->table && torch_may_learn_cuda(impl, layout) &&
                      !torch_cuda_is_verified(layout, torch_cuda_index(layout, impl, keys));
        if (is_new)
            torch_learn_cuda(object, kind, impl, keys);
        return PyErr_Occurred() ? -1 : 1;
    }
    if (tenon__py_torch_word(impl, layout->numel) == 0)
        return 1;
    torch_fields fields;
    if (!torch_read_fields(layout, impl, &fields))
        return torch_check_freed(object, layout, impl);
    if (fields.is_checked) {
        bool stays = request->flags & (TENON_PY_WRITE | TENON__PY_STABLE_MEMORY);
        int readable = stays ? 0 : torch_is_copied_on_write(object);
        if (readable < 1)
            return readable < 0 ? -1 : 1;
    }
    const tenon_dl_tensor source = {.data = fields.data,
                                    .device = tenon_device_of(TENON_CPU, 0),
                                    .ndim = (int32_t)fields.ndim,
                                    .dtype = *fields.dtype,
                                    .shape = (int64_t *)(uintptr_t)fields.sizes,
                                    .strides = (int64_t *)(uintptr_t)fields.strides};
    if (tenon__py_try_make_view(&source, TENON__PY_ELEMENTS, 0, out, NULL))
        return 1;
    out->private_.table = kind->table;
    return 0;
}

int tenon__py_torch_learn_struct(tenon__py_kind *kind)
{
    if (torch_look() < 0)
        return -1;
    if (torch_state() == TENON__PY_TORCH_OFF)
        return 0;
    kind->peek = torch_peek_struct;
    kind->read_c_tensor = torch_read_c_tensor;
    return 1;
}

int tenon__py_torch_tensors(const char **how, char *why, size_t size)
{
    PyTypeObject *tensor = tenon__py_loaded_class("torch", "Tensor");
    const tenon_dl_exchange *table = NULL;
    int status = PyErr_Occurred() ? -1 : 0;
    if (tensor && (torch_look() < 0 || tenon__py_exchange_table(tensor, &table) < 0))
        status = -1;
    Py_XDECREF((PyObject *)tensor);
    tenon__py_torch_configure();
    *how = torch_state() >= TENON__PY_TORCH_ON ? "struct" : table ? "table" : "dlpack";
    tenon__py_spin_lock(&tenon__py_global.lock);
    PyOS_snprintf(why, size, "%s", tenon__py_torch.why);
    tenon__py_spin_unlock(&tenon__py_global.lock);
    if (!tensor && torch_state() != TENON__PY_TORCH_OFF)
        PyOS_snprintf(why, size, "torch has not been imported");
    return status;
}
