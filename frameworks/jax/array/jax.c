/* JAX. Its arrays are immutable, and may be deleted while they are referenced. */
#include "internal.h"

#include <string.h>

static const tenon__py_producer jax_producer;

/* ------------------------------------------------------------------------------------------------------------ types */

tenon__py_jax_state tenon__py_jax;

/* From now on calls on its arrays are run by JAX. */
static void jax_note_type(PyTypeObject *type)
{
    PyTypeObject *none = NULL;
    if (atomic_compare_exchange_strong(&tenon__py_jax.array, &none, type)) {
        Py_INCREF((PyObject *)type);
        atomic_store_explicit(&tenon__py_global.try_call, tenon__py_jax_try_call, memory_order_release);
    }
}

static int jax_recognise(PyObject *object, tenon__py_kind *kind)
{
    char package[32];
    tenon__py_package(Py_TYPE(object), package, sizeof package);
    if (PyErr_Occurred())
        return -1;
    bool is_array = strcmp(package, "jaxlib") == 0;
    if (!is_array && strcmp(package, "jax") != 0)
        return 0;
    kind->owner = &jax_producer;
    kind->is_immutable = true;
    kind->keeps_buffer = is_array && PyObject_CheckBuffer(object);
    PyTypeObject *tracer = is_array ? NULL : tenon__py_loaded_class("jax.core", "Tracer");
    if (tracer && PyType_IsSubtype(Py_TYPE(object), tracer)) {
        kind->is_abstract = true;
        kind->reason =
            "it is a JAX tracer, which has no memory: make operators of the library with tenon.jax_ops(), or "
            "call the function outside of jax.jit, jax.grad and jax.vmap";
    }
    Py_XDECREF((PyObject *)tracer);
    if (kind->keeps_buffer)
        jax_note_type(Py_TYPE(object));
    return PyErr_Occurred() ? -1 : kind->keeps_buffer;
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* JAX's functions set no exception and ignore a pending one: hence the quiet buffer. */
static int jax_read_buffer(PyObject *object, tenon__py_request *request, tenon_py_borrowed *out)
{
    if (PyObject_GetBuffer(object, &out->private_.held.buffer, PyBUF_FULL_RO) < 0)
        return tenon__py_buffer_refused(object, request);
    out->private_.holds = TENON__PY_HOLDS_QUIET_BUFFER;
    if (tenon__py_read_buffer_fast(&out->private_.held.buffer, TENON_READ_ONLY, out))
        return 0;
    PyBuffer_Release(&out->private_.held.buffer);
    return tenon__py_read_buffer(object, request, out);
}

/* An array on a GPU has a buffer function too, which takes its time to refuse. So the array is read as the last one was;
 * the other protocol works too. */
static int jax_read(PyObject *object, const tenon__py_kind *kind, tenon__py_request *request, tenon_py_borrowed *out)
{
    int result = 1;
    if (!atomic_load_explicit(&tenon__py_jax.last_was_on_gpu, memory_order_relaxed))
        result = jax_read_buffer(object, request, out);
    if (result != 1)
        return result;
    result = tenon__py_read_dlpack(object, kind, request->stream, out);
    if (result == 0)
        tenon__py_jax.last_was_on_gpu = !tenon_device_on_host(out->view.device);
    return result;
}

static bool jax_is_deleted(PyObject *object)
{
    PyObject *answer = PyObject_CallMethod(object, "is_deleted", NULL);
    bool deleted = answer && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(answer);
    return deleted;
}

/* JAX's message is about __dlpack__, which the caller never used. */
static const char *jax_advice(PyObject *object)
{
    PyObject *error = tenon__py_take_exception();
    PyObject *devices = PyObject_CallMethod(object, "devices", NULL);
    bool on_several = devices && PyObject_Size(devices) > 1;
    Py_XDECREF(devices);
    tenon__py_clear_ignorable_error();
    tenon__py_raise_again(error);
    if (!on_several)
        return NULL;
    return "it is on several devices: pass the part on one of them, x.addressable_data(0), or make operators of the "
           "library with tenon.jax_ops()";
}

/* ----------------------------------------------------------------------------------------------------------- making */

/* Without jax_enable_x64 it takes 64-bit numbers and hands out a narrowed copy: what comes back is looked at. */
static PyObject *jax_wrap(tenon_tensor *tensor)
{
    PyObject *array = tenon__py_call_import("jax.dlpack", "from_dlpack", tenon__py_tensor_new(tensor), true);
    const tenon_view *view = tenon_tensor_view(tensor);
    tenon_py_borrowed borrowed;
    if (!array || tenon_py_borrow(array, TENON_PY_ANY_DEVICE, &borrowed) < 0) {
        Py_XDECREF(array);
        return NULL;
    }
    bool same_dtype = tenon_dtype_equal(borrowed.view.dtype, view->dtype);
    bool same = same_dtype && (borrowed.view.data == view->data || view->numel == 0);
    tenon_py_unborrow(&borrowed);
    if (same)
        return array;
    Py_DECREF(array);
    return PyErr_Format(PyExc_BufferError, same_dtype ? "JAX made a copy instead of taking the memory"
                                                      : "JAX narrows 64-bit numbers, which takes a copy; set "
                                                        "jax_enable_x64, use numbers of 32 bits, or ask for a NumPy "
                                                        "array (like=\"numpy\")");
}

static void jax_release_shared(void *tensor)
{
    tenon_tensor_release(tensor);
}

/* The same memory as writable: JAX asks for it in a way that cannot say read-only, and never writes to it. */
static tenon_tensor *jax_share(tenon_tensor *tensor, tenon_error *err)
{
    tenon_tensor *shared = NULL;
    tenon_view view = *tenon_tensor_view(tensor);
    view.flags &= ~(uint64_t)TENON_READ_ONLY;
    if (tenon_tensor_from_view(&view, tensor, jax_release_shared, &shared, err))
        return NULL;
    tenon_tensor_retain(tensor);
    return shared;
}

/* JAX takes memory that is aligned to 64 bytes and has no gaps. Anything else on the CPU is copied. */
static PyObject *jax_adopt(tenon_tensor *tensor)
{
    enum { ALIGNMENT = 64 };
    const tenon_view *view = tenon_tensor_view(tensor);
    tenon_error err;
    tenon_tensor *taken = NULL;
    bool fits = (view->flags & TENON_VIEW_DENSE) && (uintptr_t)view->data % ALIGNMENT == 0;
    if (tenon_device_on_host(view->device) && !fits) {
        if (tenon_tensor_copy(tensor, &taken, &err))
            return tenon__py_raise_in("jax", &err);
    } else if (!(taken = view->flags & TENON_READ_ONLY ? jax_share(tensor, &err) : tenon_tensor_retain(tensor))) {
        return tenon__py_raise_in("jax", &err);
    }
    PyObject *array = jax_wrap(taken);
    tenon__py_release(taken);
    return array;
}

static PyObject *jax_empty(PyObject *like, tenon_device device, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                           tenon_py_borrowed *out)
{
    (void)like;
    if (!tenon_device_on_host(device))
        return PyErr_Format(PyExc_ValueError, "memory on the GPU cannot be given to JAX from outside; use jax.ffi "
                                              "instead of a new array");
    return tenon__py_empty_ours(&jax_producer, dtype, ndim, shape, out);
}

static const tenon__py_producer jax_producer = {
    .name = "jax",
    .title = "JAX",
    .cast = "astype('",
    .cast_end = "')",
    .to_cpu = {"jax.device_put(", ", jax.devices('cpu')[0])"},
    .to_cuda = {"jax.device_put(", ", jax.devices('gpu')[0])"},
    .recognise = jax_recognise,
    .read = jax_read,
    .advice = jax_advice,
    .is_deleted = jax_is_deleted,
    .empty = jax_empty,
    .wrap = jax_wrap,
    .adopt = jax_adopt,
};

const tenon__py_framework tenon__py_framework_jax = {.producer = &jax_producer, .as = TENON_PY_AS_JAX};
