/* The floor: hand-written C without any check. Not a way to write an extension. */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>

#include <numpy/arrayobject.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* As in dlpack.h. */
typedef struct {
    void *data;
    int32_t device[2];
    int32_t ndim;
    uint8_t dtype[4];
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    uint32_t version[2];
    void *context;
    void (*deleter)(struct dl_managed *);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;

typedef struct {
    uint32_t version[2];
    void *previous;
    void *allocate;
    int (*from_object)(void *, dl_managed **);
    int (*to_object)(dl_managed *, void **);
    int (*borrow)(void *, dl_tensor *);
    void *stream;
} exchange_table;

static PyTypeObject *table_type;
static const exchange_table *table;

/* torch's own C functions, 2.14 and newer. */
static int32_t (*from_pyobject)(void *, void **);
static int32_t (*to_pyobject)(void *, void *, void **);
static int32_t (*delete_handle)(void *);

static const exchange_table *table_of(PyObject *object)
{
    if (Py_TYPE(object) != table_type) {
        PyObject *capsule = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__dlpack_c_exchange_api__");
        table = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
        table_type = table ? Py_TYPE(object) : NULL;
        Py_XDECREF(capsule);
    }
    return table;
}

static PyObject *nothing(PyObject *module, PyObject *object)
{
    (void)module;
    (void)object;
    Py_RETURN_NONE;
}

static PyObject *nothing_many(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    (void)arguments;
    (void)count;
    Py_RETURN_NONE;
}

static PyObject *struct_read(PyObject *module, PyObject *object)
{
    (void)module;
    void *volatile data = PyArray_DATA((PyArrayObject *)object);
    (void)data;
    Py_RETURN_NONE;
}

static PyObject *struct_read_many(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    for (Py_ssize_t i = 0; i < count; i++) {
        void *volatile data = PyArray_DATA((PyArrayObject *)arguments[i]);
        (void)data;
    }
    Py_RETURN_NONE;
}

/* The places of a torch tensor's description: words from the start of the Python object, of the tensor, of the storage. */
static struct {
    Py_ssize_t tensor, storage, data;
} torch_dispatch_keys;

static PyObject *set_torch_words(PyObject *module, PyObject *arguments)
{
    (void)module;
    if (!PyArg_ParseTuple(arguments, "nnn", &torch_dispatch_keys.tensor, &torch_dispatch_keys.storage,
                          &torch_dispatch_keys.data))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *torch_read_many(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    for (Py_ssize_t i = 0; i < count; i++) {
        void **tensor = ((void **)arguments[i])[torch_dispatch_keys.tensor];
        void *volatile data = ((void **)tensor[torch_dispatch_keys.storage])[torch_dispatch_keys.data];
        (void)data;
    }
    Py_RETURN_NONE;
}

static PyObject *torch_read(PyObject *module, PyObject *object)
{
    return torch_read_many(module, &object, 1);
}

static PyObject *buffer_many(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_buffer view;
        if (PyObject_GetBuffer(arguments[i], &view, PyBUF_FULL_RO) < 0)
            return NULL;
        PyBuffer_Release(&view);
    }
    Py_RETURN_NONE;
}

static PyObject *buffer(PyObject *module, PyObject *object)
{
    return buffer_many(module, &object, 1);
}

static PyObject *table_borrow_many(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    dl_tensor tensor;
    for (Py_ssize_t i = 0; i < count; i++) {
        const exchange_table *found = table_of(arguments[i]);
        if (!found || found->borrow(arguments[i], &tensor) != 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *table_borrow(PyObject *module, PyObject *object)
{
    return table_borrow_many(module, &object, 1);
}

static PyObject *table_owned(PyObject *module, PyObject *object)
{
    (void)module;
    dl_managed *managed = NULL;
    const exchange_table *found = table_of(object);
    if (!found || found->from_object(object, &managed) != 0)
        return NULL;
    managed->deleter(managed);
    Py_RETURN_NONE;
}

/* The same torch tensor, by torch's own C functions. */
static PyObject *find_torch(PyObject *module, PyObject *path)
{
    (void)module;
    void *library = dlopen(PyUnicode_AsUTF8(path), RTLD_NOW | RTLD_NOLOAD);
    void *found[3] = {NULL};
    if (library) {
        found[0] = dlsym(library, "torch_tensor_from_pyobject");
        found[1] = dlsym(library, "torch_tensor_to_pyobject");
        found[2] = dlsym(library, "aoti_torch_delete_tensor_object");
    }
    memcpy(&from_pyobject, &found[0], sizeof found[0]);
    memcpy(&to_pyobject, &found[1], sizeof found[1]);
    memcpy(&delete_handle, &found[2], sizeof found[2]);
    return PyBool_FromLong(found[0] && found[1] && found[2]);
}

static PyObject *shim_owned(PyObject *module, PyObject *object)
{
    (void)module;
    void *handle = NULL;
    from_pyobject(object, &handle);
    delete_handle(handle);
    Py_RETURN_NONE;
}

static PyObject *shim_through(PyObject *module, PyObject *object)
{
    (void)module;
    void *handle = NULL, *same = NULL;
    from_pyobject(object, &handle);
    to_pyobject(handle, NULL, &same);
    delete_handle(handle);
    return same;
}

static void free_memory(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, NULL));
}

/* A new 2x3 array of C memory, by NumPy's C API. */
static PyObject *make_numpy(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    npy_intp shape[] = {2, 3};
    float *memory = malloc(6 * sizeof *memory);
    PyObject *array = PyArray_SimpleNewFromData(2, shape, NPY_FLOAT32, memory);
    PyArray_SetBaseObject((PyArrayObject *)array, PyCapsule_New(memory, NULL, free_memory));
    return array;
}

#define MANY(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL, NULL
static PyMethodDef methods[] = {
    {"nothing", nothing, METH_O, NULL},
    {"nothing_many", MANY(nothing_many)},
    {"struct_read", struct_read, METH_O, NULL},
    {"struct_read_many", MANY(struct_read_many)},
    {"set_torch_words", set_torch_words, METH_VARARGS, NULL},
    {"torch_read", torch_read, METH_O, NULL},
    {"torch_read_many", MANY(torch_read_many)},
    {"buffer", buffer, METH_O, NULL},
    {"buffer_many", MANY(buffer_many)},
    {"table_borrow", table_borrow, METH_O, NULL},
    {"table_borrow_many", MANY(table_borrow_many)},
    {"table_owned", table_owned, METH_O, NULL},
    {"find_torch", find_torch, METH_O, NULL},
    {"shim_owned", shim_owned, METH_O, NULL},
    {"shim_through", shim_through, METH_O, NULL},
    {"make_numpy", make_numpy, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "limit", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_limit(void)
{
    import_array();
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
