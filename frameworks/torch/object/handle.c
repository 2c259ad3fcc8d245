/* Handles of torch tensors, and releases that never wait for the interpreter lock. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

static _Atomic int64_t leaked;

int64_t tenon_torch_leaked(void)
{
    return atomic_load_explicit(&leaked, memory_order_relaxed);
}

/* ----------------------------------------------------------------------------------------------------------- blocks */

_Static_assert(sizeof(tenon__torch_block) <= TENON__TORCH_BLOCK, "a block has room for its tag");

/* One spare block saves most imports the lock of the pool. The lock of torch's interpreter guards it. */
static tenon__torch_block *spare;

static tenon__torch_block *pool;
static atomic_flag pool_busy = ATOMIC_FLAG_INIT;

static void pool_lock(void)
{
    tenon__py_spin_lock(&pool_busy);
}

static void pool_unlock(void)
{
    tenon__py_spin_unlock(&pool_busy);
}

static void pool_put(tenon__torch_block *block)
{
    pool_lock();
    block->next = pool;
    pool = block;
    pool_unlock();
}

static tenon__torch_block *pool_take(void)
{
    enum { CHUNK = 64 };
    pool_lock();
    tenon__torch_block *block = pool;
    if (block)
        pool = block->next;
    pool_unlock();
    if (block)
        return block;
    char *chunk = tenon__py_aligned_alloc(TENON__TORCH_BLOCK, (size_t)CHUNK * TENON__TORCH_BLOCK);
    for (int i = 0; chunk && i < CHUNK; i++) {
        block = (tenon__torch_block *)(void *)(chunk + (ptrdiff_t)i * TENON__TORCH_BLOCK);
        block->tag = 0;
        if (i < CHUNK - 1)
            pool_put(block);
    }
    return block;
}

/* `attached`: whether this thread holds the lock of torch's interpreter. */
static inline tenon__torch_block *block_new(bool attached)
{
    tenon__torch_block *block = TENON__PY_HAS_LOCK && attached ? spare : NULL;
    if (!block)
        return pool_take();
    spare = NULL;
    return block;
}

static inline void block_free(tenon__torch_block *block, bool attached)
{
    if (TENON__PY_HAS_LOCK && attached && !spare)
        spare = block;
    else
        pool_put(block);
}

static inline tenon_torch *block_start(tenon__torch_block *block, const tenon__torch_api *api,
                                       tenon__torch_handle handle)
{
    block->object = NULL;
    block->handle = handle;
    block->api = api;
    block->is_subclass = block->overrides = false;
    atomic_store_explicit(&block->count, 1, memory_order_relaxed);
    return (tenon_torch *)((uintptr_t)block + block->tag);
}

tenon_torch *tenon__torch_wrap(const tenon__torch_api *api, tenon__torch_handle handle)
{
    tenon__torch_block *block = block_new(tenon__py_attached_to(api->interp));
    return block ? block_start(block, api, handle) : NULL;
}

/* ------------------------------------------------------------------------------------------------- import and export */

/* Raise the error of torch's function, unless it has set an exception itself. */
static void raise_failed(const tenon__torch_api *api, const char *who)
{
    tenon_error err;
    if (PyErr_Occurred())
        return;
    tenon__torch_failed(api, who, &err);
    PyErr_SetString(PyExc_RuntimeError, err.message);
}

static int raise_not_tensor(PyObject *object, const char *more)
{
    PyObject *name = object ? tenon__py_type_name(object) : PyUnicode_FromString("NULL");
    if (name)
        PyErr_Format(PyExc_TypeError, "expected torch.Tensor, got %U%s", name, more);
    Py_XDECREF(name);
    return -1;
}

/* Whether Python code runs before operators see the tensor. */
static bool overrides(const tenon__torch_api *api, PyObject *object)
{
    PyObject *function = PyObject_GetAttr((PyObject *)Py_TYPE(object), api->function_name);
    bool has_one = function != api->no_function;
    Py_XDECREF(function);
    PyErr_Clear();
    return has_one;
}

/* Before 2.14, the handle comes in a capsule without a name. */
static tenon__torch_handle capsule_handle_of(const tenon__torch_api *api, PyObject *object)
{
    PyObject *capsule = PyObject_Vectorcall(api->handle_of, &object, 1, NULL);
    void *handle = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    Py_XDECREF(capsule);
    return handle;
}

static PyObject *object_of(const tenon__torch_api *api, tenon__torch_handle handle)
{
    PyObject *capsule = PyCapsule_New(handle, NULL, NULL);
    PyObject *object = capsule ? PyObject_Vectorcall(api->object_of, &capsule, 1, NULL) : NULL;
    Py_XDECREF(capsule);
    return object;
}

static int raise_not_imported(PyObject *object)
{
    tenon_error err;
    tenon_torch_report report;
    tenon_torch_info(&report);
    /* If torch has not been imported, the object cannot be a tensor. */
    if (!report.version[0] || !object)
        return raise_not_tensor(object, report.version[0] ? "" : ", and torch has not been imported");
    if (!tenon__torch_search_api(&err))
        PyErr_SetString(PyExc_RuntimeError, err.message);
    return -1;
}

/* A handle is the address of a C++ object that is only a pointer to the tensor's struct. That is used once it has been seen. */
static _Atomic bool handles_point;

/* Since a handle only points to such a pointer, the place in the Python object that points to the struct is as good as one.
 * NULL if it is not read. */
static tenon__torch_handle handle_inside(PyObject *object)
{
    return atomic_load_explicit(&handles_point, memory_order_relaxed) && tenon__py_torch_impl_of(object)
               ? (char *)object + tenon__py_torch.layout.impl
               : NULL;
}

/* A new handle of a tensor object, or NULL, perhaps with an exception. */
static tenon__torch_handle new_handle_of(const tenon__torch_api *api, PyObject *object)
{
    tenon__torch_handle handle = NULL, inside = api->new_handle ? handle_inside(object) : NULL;
    if (!inside && !api->from_pyobject)
        return capsule_handle_of(api, object);
    int32_t failed = inside ? api->new_handle(inside, &handle) : api->from_pyobject(object, &handle);
    return failed ? NULL : handle;
}

static TENON__PY_NOINLINE void learn_handle(PyObject *object, tenon__torch_handle handle)
{
    tenon__py_kind room;
    if (!tenon__py_kind_of(object, &room)) /* which finds the struct's layout when it meets the first tensor */
        PyErr_Clear();
    const void *impl = tenon__py_torch_impl_of(object), *first;
    memcpy(&first, handle, sizeof first);
    if (impl && impl == first)
        atomic_store_explicit(&handles_point, true, memory_order_relaxed);
}

bool tenon__torch_is_plain(tenon__torch_handle handle)
{
    const void *impl = NULL;
    if (atomic_load_explicit(&handles_point, memory_order_relaxed))
        memcpy(&impl, handle, sizeof impl);
    return impl && tenon__py_torch_impl_is_plain(impl);
}

int tenon_torch_import(PyObject *object, tenon_torch **out)
{
    const tenon__torch_api *api = tenon__torch_find_api(NULL);
    if (!api)
        return raise_not_imported(object);
    tenon__py_drain_soon();
    /* The real type, not __class__: torch would read a tensor out of any object. */
    bool is_subclass = object && Py_TYPE(object) != api->tensor_type;
    if (!object || (is_subclass && !PyType_IsSubtype(Py_TYPE(object), api->tensor_type)))
        return raise_not_tensor(object, "");
    tenon__torch_handle handle = new_handle_of(api, object);
    if (!handle) {
        raise_failed(api, "tenon_torch_import");
        return -1;
    }
    if (!atomic_load_explicit(&handles_point, memory_order_relaxed) &&
        atomic_load_explicit(&tenon__py_torch.state, memory_order_relaxed) != TENON__PY_TORCH_OFF)
        learn_handle(object, handle);
    tenon__torch_block *block = block_new(true); /* attached: its type belongs to torch's interpreter */
    if (!block) {
        api->delete_handle(handle);
        PyErr_NoMemory();
        return -1;
    }
    *out = block_start(block, api, handle);
    Py_INCREF(block->object = object);
    block->is_subclass = is_subclass;
    block->overrides = is_subclass && overrides(api, object);
    return 0;
}

PyObject *tenon__torch_object(const tenon__torch_block *block)
{
    const tenon__torch_api *api = block->api;
    void *object = block->object;
    if (object) {
        Py_INCREF((PyObject *)object);
        return object;
    }
    if (!api->to_pyobject)
        object = object_of(api, block->handle);
    else if (api->to_pyobject(block->handle, NULL, &object) != 0)
        object = NULL;
    if (!object)
        raise_failed(api, "tenon_torch_export");
    return object;
}

int tenon_torch_export(tenon_torch *tensor, PyObject **out)
{
    tenon__torch_block *block = tenon__torch_block_of(tensor);
    if (!block) {
        PyErr_SetString(PyExc_ValueError, "tenon_torch_export(): the handle is NULL or was released");
        return -1;
    }
    /* torch's objects belong to one interpreter, and no other may use them. */
    if (PyInterpreterState_Get() != block->api->interp->state) {
        PyErr_SetString(PyExc_RuntimeError,
                        "tenon_torch_export(): torch was imported in another interpreter of this process");
        return -1;
    }
    PyObject *object = tenon__torch_object(block);
    if (!object)
        return -1;
    *out = object;
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- counts */

tenon_torch *tenon_torch_retain(tenon_torch *tensor)
{
    tenon__torch_block *block = tenon__torch_block_of(tensor);
    if (!block)
        return NULL;
    atomic_fetch_add_explicit(&block->count, 1, memory_order_relaxed);
    return tensor;
}

int64_t tenon_torch_refcount(const tenon_torch *tensor)
{
    tenon__torch_block *block = tenon__torch_block_of(tensor);
    return block ? atomic_load_explicit(&block->count, memory_order_relaxed) : 0;
}

/* Destroying a tensor may run Python code. That keeps a pending exception, as it does for any object. */
static void release_block(tenon__torch_block *block)
{
    PyObject *object = block->object;
    block->api->delete_handle(block->handle);
    block_free(block, true);
    Py_XDECREF(object);
}

static void run_deferred_release(void *pointer)
{
    atomic_fetch_sub_explicit(&tenon__py_global.waiting, 1, memory_order_relaxed);
    release_block(pointer);
}

void tenon_torch_release(tenon_torch *tensor)
{
    tenon__torch_block *block = tenon__torch_block_of(tensor);
    if (!block) {
        if (!tensor)
            return;
        fputs("tenon_torch_release(): the handle was already released\n", stderr);
        abort();
    }
    /* A thread that holds the only count does not need an atomic subtraction. */
    if (atomic_load_explicit(&block->count, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&block->count, 1, memory_order_acq_rel) != 1)
        return;
    block->tag = (block->tag + 1) % TENON__TORCH_BLOCK;
    /* Even if Python holds the tensor too: since 2.10, the last count besides Python's own keeps the Python object
     * alive. */
    if (tenon__py_attached_to(block->api->interp))
        release_block(block);
    else if (!tenon__py_defer(block->api->interp, &block->node, run_deferred_release, block))
        atomic_fetch_add_explicit(&leaked, 1, memory_order_relaxed);
}

/* handle("torch.Tensor") in functions that Python hosts. */

static int take_handle(PyObject *object, void **out)
{
    tenon_torch *tensor;
    if (tenon_torch_import(object, &tensor) < 0)
        return -1;
    *out = tensor;
    return 0;
}

static int give(void *handle, PyObject **out)
{
    return tenon_torch_export(handle, out);
}

static void release(void *handle)
{
    tenon_torch_release(handle);
}

int tenon_torch_register(void)
{
    static const tenon_py_handle_type foreign = {.type = "torch.Tensor",
                                                 .extension = TENON_TORCH_EXTENSION,
                                                 .services = &tenon_torch_services,
                                                 .take = take_handle,
                                                 .give = give,
                                                 .release = release};
    return tenon_py_add_handle_type(&foreign);
}
