/* The floor: what hand-written C reaches with nothing checked. Not a way to write an extension. */
#include <Python.h>

#include <stdint.h>

/* As in numpy/ndarraytypes.h, behind the object head. */
typedef struct {
    PyObject_HEAD char *data;
    int nd;
} array_struct;

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

static const exchange_table *table_of(PyObject *object)
{
    if (Py_TYPE(object) != table_type) {
        PyObject *capsule = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__dlpack_c_exchange_api__");
        table = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
        table_type = Py_TYPE(object);
        Py_XDECREF(capsule);
    }
    return table;
}

static PyObject *struct_read(PyObject *module, PyObject *object)
{
    (void)module;
    volatile void *data = ((array_struct *)object)->data;
    (void)data;
    Py_RETURN_NONE;
}

static PyObject *buffer(PyObject *module, PyObject *object)
{
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0)
        return NULL;
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject *table_borrow(PyObject *module, PyObject *object)
{
    (void)module;
    dl_tensor tensor;
    if (table_of(object)->borrow(object, &tensor) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *table_borrow3(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    dl_tensor tensor;
    for (Py_ssize_t i = 0; i < count; i++)
        if (table_of(arguments[i])->borrow(arguments[i], &tensor) != 0)
            return NULL;
    Py_RETURN_NONE;
}

static PyObject *struct_read3(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    for (Py_ssize_t i = 0; i < count; i++) {
        volatile void *data = ((array_struct *)arguments[i])->data;
        (void)data;
    }
    Py_RETURN_NONE;
}

static PyObject *table_owned(PyObject *module, PyObject *object)
{
    (void)module;
    dl_managed *managed = NULL;
    if (table_of(object)->from_object(object, &managed) != 0)
        return NULL;
    managed->deleter(managed);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"struct_read", struct_read, METH_O, NULL},
    {"struct_read3", (PyCFunction)(void (*)(void))struct_read3, METH_FASTCALL, NULL},
    {"buffer", buffer, METH_O, NULL},
    {"table_borrow", table_borrow, METH_O, NULL},
    {"table_borrow3", (PyCFunction)(void (*)(void))table_borrow3, METH_FASTCALL, NULL},
    {"table_owned", table_owned, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "limit", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_limit(void);
PyMODINIT_FUNC PyInit_limit(void)
{
    return PyModule_Create(&definition);
}
