/* The functions of tenon/python.h as Python functions, for the tests. */
#define PY_SSIZE_T_CLEAN
#include "describe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- what is borrowed */

static PyObject *probe_borrow(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object;
    unsigned flags = 0;
    Py_ssize_t stream = PY_SSIZE_T_MIN;
    tenon_py_borrowed borrowed;
    if (!PyArg_ParseTuple(arguments, "O|In", &object, &flags, &stream))
        return NULL;
    int status = stream == PY_SSIZE_T_MIN ? tenon_py_borrow(object, flags, &borrowed)
                                          : tenon_py_borrow_on(object, flags, stream, &borrowed);
    if (status < 0)
        return NULL;
    PyObject *result = describe(&borrowed.view);
    tenon_py_unborrow(&borrowed);
    return result;
}

static PyObject *probe_borrow_many(PyObject *module, PyObject *arguments)
{
    (void)module;
    enum { MOST = 16 };
    PyObject *objects[MOST];
    uint32_t flags[MOST];
    tenon_py_borrowed *borrowed = malloc(MOST * sizeof *borrowed);
    Py_ssize_t count = PyTuple_Size(arguments) < MOST ? PyTuple_Size(arguments) : MOST;
    for (Py_ssize_t i = 0; i < count; i++) {
        objects[i] = PyTuple_GetItem(arguments, i);
        flags[i] = 0;
    }
    PyObject *result = NULL;
    if (borrowed && tenon_py_borrow_many((size_t)count, objects, flags, borrowed) == 0) {
        result = PyTuple_New(count);
        for (Py_ssize_t i = 0; result && i < count; i++)
            PyTuple_SetItem(result, i, describe(&borrowed[i].view));
        tenon_py_unborrow_many((size_t)count, borrowed);
    }
    free(borrowed);
    return result;
}

/* Parse two arrays and a number with converters. A wrong number must release the arrays. */
static PyObject *probe_parse(PyObject *module, PyObject *arguments)
{
    (void)module;
    tenon_py_borrowed a, b;
    int number;
    if (!PyArg_ParseTuple(arguments, "O&O&i", tenon_py_converter, &a, tenon_py_converter_rw, &b, &number))
        return NULL;
    tenon_py_unborrow(&a);
    tenon_py_unborrow(&b);
    return PyLong_FromLong(number);
}

/* Write `value` to the first byte of the object's memory. */
static PyObject *probe_poke(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object;
    unsigned char value;
    tenon_py_borrowed borrowed;
    if (!PyArg_ParseTuple(arguments, "Ob", &object, &value) || tenon_py_borrow(object, TENON_PY_WRITE, &borrowed) < 0)
        return NULL;
    *(unsigned char *)borrowed.view.data = value;
    tenon_py_unborrow(&borrowed);
    Py_RETURN_NONE;
}

/* Return only the address, for measuring. */
static PyObject *probe_address(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_py_borrowed borrowed;
    if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &borrowed) < 0)
        return NULL;
    tenon_py_unborrow(&borrowed);
    Py_RETURN_NONE;
}

static PyObject *probe_stream(PyObject *module, PyObject *object)
{
    (void)module;
    void *stream;
    tenon_py_borrowed borrowed;
    if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &borrowed) < 0)
        return NULL;
    int status = tenon_py_stream(&borrowed, &stream);
    tenon_py_unborrow(&borrowed);
    return status < 0 ? NULL : PyLong_FromVoidPtr(stream);
}

/* --------------------------------------------------------------------------------------------------------- handles */

/* A tenon_tensor as a capsule that owns one count. */
#define HANDLE "probe.tensor"

static void handle_destroy(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, HANDLE))
        tenon_tensor_release(PyCapsule_GetPointer(capsule, HANDLE));
}

static PyObject *handle_new(tenon_tensor *tensor)
{
    if (!tensor)
        return NULL;
    PyObject *capsule = PyCapsule_New(tensor, HANDLE, handle_destroy);
    if (!capsule)
        tenon_tensor_release(tensor);
    return capsule;
}

static PyObject *probe_import(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object;
    unsigned flags = 0;
    if (!PyArg_ParseTuple(arguments, "O|I", &object, &flags))
        return NULL;
    return handle_new(tenon_py_import(object, flags));
}

static PyObject *probe_describe(PyObject *module, PyObject *handle)
{
    (void)module;
    const tenon_tensor *tensor = PyCapsule_GetPointer(handle, HANDLE);
    return tensor ? describe(tenon_tensor_view(tensor)) : NULL;
}

static PyObject *probe_count(PyObject *module, PyObject *handle)
{
    (void)module;
    const tenon_tensor *tensor = PyCapsule_GetPointer(handle, HANDLE);
    return tensor ? PyLong_FromLongLong(tenon_tensor_refcount(tensor)) : NULL;
}

static PyObject *probe_export(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *handle;
    int as = TENON_PY_AS_TENSOR;
    if (!PyArg_ParseTuple(arguments, "O|i", &handle, &as))
        return NULL;
    tenon_tensor *tensor = PyCapsule_GetPointer(handle, HANDLE);
    return tensor ? tenon_py_export(tensor, (tenon_py_as)as) : NULL;
}

/* Import and export at once. */
static PyObject *probe_through(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object;
    int as = TENON_PY_AS_SAME;
    if (!PyArg_ParseTuple(arguments, "O|i", &object, &as))
        return NULL;
    tenon_tensor *tensor = tenon_py_import(object, TENON_PY_ANY_DEVICE);
    if (!tensor)
        return NULL;
    PyObject *result = tenon_py_export(tensor, (tenon_py_as)as);
    tenon_tensor_release(tensor);
    return result;
}

static PyObject *probe_import_release(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_tensor *tensor = tenon_py_import(object, TENON_PY_ANY_DEVICE);
    if (!tensor)
        return NULL;
    tenon_tensor_release(tensor);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------------------------------------------- own memory */

static atomic_llong released;

typedef struct block {
    _Alignas(64) char bytes[4096];
} block;

static void block_release(void *owner)
{
    atomic_fetch_add(&released, 1);
    free(owner);
}

/* new(dtype, shape, strides or None, offset, flags, device type, device id, stream): a handle on 4096 bytes counting
 * 0, 1, 2, … */
static PyObject *probe_new(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *shape_given, *strides_given = Py_None;
    unsigned long long offset = 0, flags = 0, stream = 0;
    int device_type = TENON_CPU, device_id = 0;
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM];
    tenon_error err;
    tenon_blob blob = {.flags = 0};
    if (!PyArg_ParseTuple(arguments, "sO!|OKKiiK", &name, &PyTuple_Type, &shape_given, &strides_given, &offset, &flags,
                          &device_type, &device_id, &stream))
        return NULL;
    if (tenon_dtype_parse(name, &blob.dtype, &err))
        return tenon_py_raise(&err);
    blob.ndim = (int32_t)PyTuple_Size(shape_given);
    for (int32_t i = 0; i < blob.ndim; i++) {
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape_given, i));
        strides[i] = strides_given == Py_None ? 0 : PyLong_AsLongLong(PyTuple_GetItem(strides_given, i));
    }
    block *memory = NULL;
    if (posix_memalign((void **)&memory, 64, sizeof *memory) != 0)
        return PyErr_NoMemory();
    for (size_t i = 0; i < sizeof memory->bytes; i++)
        memory->bytes[i] = (char)i;
    blob.data = memory;
    blob.byte_offset = offset;
    blob.device = tenon_device_of(device_type, device_id);
    blob.shape = shape;
    blob.strides = strides_given == Py_None ? NULL : strides;
    blob.flags = flags;
    blob.owner = memory;
    blob.release = block_release;
    blob.stream = (void *)(uintptr_t)stream;
    tenon_tensor *tensor = NULL;
    if (PyErr_Occurred() || tenon_tensor_from_blob(&blob, &tensor, &err)) {
        free(memory);
        return PyErr_Occurred() ? NULL : tenon_py_raise(&err);
    }
    return handle_new(tensor);
}

/* blob(address, count, device type, device id, stream): a handle on so many f32 of memory that the caller keeps. */
static PyObject *probe_blob(PyObject *module, PyObject *arguments)
{
    (void)module;
    unsigned long long address, stream;
    long long count;
    int device_type, device_id;
    if (!PyArg_ParseTuple(arguments, "KLiiK", &address, &count, &device_type, &device_id, &stream))
        return NULL;
    int64_t shape[] = {count};
    tenon_blob blob = {.data = (void *)(uintptr_t)address,
                       .dtype = TENON_F32,
                       .device = tenon_device_of(device_type, device_id),
                       .ndim = 1,
                       .shape = shape,
                       .stream = (void *)(uintptr_t)stream};
    tenon_tensor *tensor = NULL;
    tenon_error err;
    if (tenon_tensor_from_blob(&blob, &tensor, &err))
        return tenon_py_raise(&err);
    return handle_new(tensor);
}

static PyObject *probe_released(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(atomic_load(&released));
}

static PyObject *probe_stats(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    tenon_stats counts = tenon_stats_read();
    return Py_BuildValue("(LLLLL)", (long long)counts.tensors, (long long)counts.exports, (long long)counts.bytes,
                         (long long)counts.deferred, (long long)tenon_py_leaked());
}

static PyObject *probe_empty(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *like, *shape_given;
    const char *name;
    int fill = 0;
    int64_t shape[TENON_MAX_NDIM];
    tenon_dtype dtype;
    tenon_error err;
    tenon_py_borrowed borrowed;
    if (!PyArg_ParseTuple(arguments, "OsO!|i", &like, &name, &PyTuple_Type, &shape_given, &fill))
        return NULL;
    if (tenon_dtype_parse(name, &dtype, &err))
        return tenon_py_raise(&err);
    int32_t ndim = (int32_t)PyTuple_Size(shape_given);
    for (int32_t i = 0; i < ndim; i++)
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape_given, i));
    PyObject *array = tenon_py_empty(like == Py_None ? NULL : like, dtype, ndim, shape, &borrowed);
    if (!array)
        return NULL;
    if (tenon_device_on_host(borrowed.view.device) && borrowed.view.numel)
        memset(borrowed.view.data, fill, (size_t)tenon_view_nbytes(&borrowed.view));
    PyObject *result = Py_BuildValue("(NN)", array, describe(&borrowed.view));
    tenon_py_unborrow(&borrowed);
    return result;
}

/* --------------------------------------------------------------------------------------------------------- threads */

static void *release_body(void *tensor)
{
    tenon_tensor_release(tensor);
    return NULL;
}

/* Release the handle's count on another thread, and wait for that thread with the lock held. */
static PyObject *probe_release_elsewhere(PyObject *module, PyObject *handle)
{
    (void)module;
    tenon_tensor *tensor = PyCapsule_GetPointer(handle, HANDLE);
    pthread_t thread;
    if (!tensor || PyCapsule_SetName(handle, "probe.gone") < 0)
        return NULL;
    if (pthread_create(&thread, NULL, release_body, tensor) != 0)
        return PyErr_NoMemory();
    pthread_join(thread, NULL);
    Py_RETURN_NONE;
}

static tenon_tensor *kept_for_exit;

static void release_at_exit(void)
{
    tenon_tensor_release(kept_for_exit);
}

/* Release the handle's count when the process exits, after the interpreter has ended. */
static PyObject *probe_release_at_exit(PyObject *module, PyObject *handle)
{
    (void)module;
    kept_for_exit = PyCapsule_GetPointer(handle, HANDLE);
    if (!kept_for_exit || PyCapsule_SetName(handle, "probe.gone") < 0)
        return NULL;
    atexit(release_at_exit);
    Py_RETURN_NONE;
}

/* The handle's count as an integer, which adopt() turns into a handle in another interpreter of this process. */
static PyObject *probe_detach(PyObject *module, PyObject *handle)
{
    (void)module;
    tenon_tensor *tensor = PyCapsule_GetPointer(handle, HANDLE);
    if (!tensor || PyCapsule_SetName(handle, "probe.gone") < 0)
        return NULL;
    return PyLong_FromVoidPtr(tensor);
}

static PyObject *probe_adopt(PyObject *module, PyObject *number)
{
    (void)module;
    return handle_new(PyLong_AsVoidPtr(number));
}

/* open(path): a module of the library, made without the package. */
static PyObject *probe_open(PyObject *module, PyObject *path)
{
    (void)module;
    const char *name = PyUnicode_AsUTF8AndSize(path, NULL);
    return name ? tenon_py_open(name) : NULL;
}

/* null(name): call the function with NULL for an argument. */
static PyObject *probe_null(PyObject *module, PyObject *name)
{
    (void)module;
    if (PyUnicode_CompareWithASCIIString(name, "raise") == 0)
        return tenon_py_raise(NULL);
    if (PyUnicode_CompareWithASCIIString(name, "export") == 0)
        return tenon_py_export(NULL, TENON_PY_AS_TENSOR);
    return tenon_py_empty(NULL, TENON_F32, 0, NULL, NULL);
}

static PyObject *probe_nothing(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_RETURN_NONE;
}

/* ---------------------------------------------------------------------------------------------------------- module */

static PyMethodDef methods[] = {
    {"borrow", probe_borrow, METH_VARARGS, NULL},
    {"borrow_many", probe_borrow_many, METH_VARARGS, NULL},
    {"parse", probe_parse, METH_VARARGS, NULL},
    {"poke", probe_poke, METH_VARARGS, NULL},
    {"address", probe_address, METH_O, NULL},
    {"stream", probe_stream, METH_O, NULL},
    {"import_", probe_import, METH_VARARGS, NULL},
    {"import_release", probe_import_release, METH_O, NULL},
    {"describe", probe_describe, METH_O, NULL},
    {"count", probe_count, METH_O, NULL},
    {"export", probe_export, METH_VARARGS, NULL},
    {"through", probe_through, METH_VARARGS, NULL},
    {"new", probe_new, METH_VARARGS, NULL},
    {"blob", probe_blob, METH_VARARGS, NULL},
    {"released", probe_released, METH_NOARGS, NULL},
    {"stats", probe_stats, METH_NOARGS, NULL},
    {"empty", probe_empty, METH_VARARGS, NULL},
    {"release_elsewhere", probe_release_elsewhere, METH_O, NULL},
    {"release_at_exit", probe_release_at_exit, METH_O, NULL},
    {"detach", probe_detach, METH_O, NULL},
    {"adopt", probe_adopt, METH_O, NULL},
    {"open", probe_open, METH_O, NULL},
    {"null", probe_null, METH_O, NULL},
    {"nothing", probe_nothing, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    static const struct {
        const char *name;
        int value;
    } constants[] = {
        {"WRITE", TENON_PY_WRITE},
        {"C_CONTIGUOUS", TENON_PY_C_CONTIGUOUS},
        {"F_CONTIGUOUS", TENON_PY_F_CONTIGUOUS},
        {"ANY_DEVICE", TENON_PY_ANY_DEVICE},
        {"PIN", TENON_PY_PIN},
        {"TENSOR", TENON_PY_AS_TENSOR},
        {"SAME", TENON_PY_AS_SAME},
        {"NUMPY", TENON_PY_AS_NUMPY},
        {"TORCH", TENON_PY_AS_TORCH},
        {"JAX", TENON_PY_AS_JAX},
        {"CUPY", TENON_PY_AS_CUPY},
        {"TENSORFLOW", TENON_PY_AS_TENSORFLOW},
        {"MEMORYVIEW", TENON_PY_AS_MEMORYVIEW},
        {"CAPSULE", TENON_PY_AS_CAPSULE},
        {"CAPSULE_LEGACY", TENON_PY_AS_CAPSULE_LEGACY},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            return -1;
    PyTypeObject *type = tenon_py_type();
    if (!type)
        return -1;
    Py_INCREF((PyObject *)type);
    return PyModule_AddObject(module, "Tensor", (PyObject *)type);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, __extension__((void *)fill_module)},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tenon_probe", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tenon_probe(void);
PyMODINIT_FUNC PyInit_tenon_probe(void)
{
    return PyModuleDef_Init(&definition);
}
