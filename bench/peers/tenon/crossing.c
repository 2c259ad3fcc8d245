/* Tenon's bridge, called by hand as the author of an extension would, with every check on. */
#include "tenon_python.h"

#include <stdlib.h>

static inline PyObject *borrow(PyObject *object, uint32_t flags)
{
    tenon_py_borrowed array;
    if (tenon_py_borrow(object, flags, &array) < 0)
        return NULL;
    void *volatile data = array.view.data;
    (void)data;
    tenon_py_unborrow(&array);
    Py_RETURN_NONE;
}

static inline PyObject *borrow_many(PyObject *const *arguments, Py_ssize_t count, const uint32_t *flags)
{
    tenon_py_borrowed arrays[3];
    if (count < 1 || count > 3)
        return PyErr_Format(PyExc_TypeError, "one to three arrays");
    if (tenon_py_borrow_many((size_t)count, arguments, flags, arrays) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        void *volatile data = arrays[i].view.data;
        (void)data;
    }
    tenon_py_unborrow_many((size_t)count, arrays);
    Py_RETURN_NONE;
}

static inline PyObject *import(PyObject *object, uint32_t flags)
{
    tenon_tensor *tensor = tenon_py_import(object, flags);
    if (!tensor)
        return NULL;
    void *volatile data = tenon_tensor_view(tensor)->data;
    (void)data;
    tenon_tensor_release(tensor);
    Py_RETURN_NONE;
}

static inline PyObject *through(PyObject *object, uint32_t flags)
{
    tenon_tensor *tensor = tenon_py_import(object, flags);
    if (!tensor)
        return NULL;
    PyObject *same = tenon_py_export(tensor, TENON_PY_AS_SAME);
    tenon_tensor_release(tensor);
    return same;
}

/* For a function that reads the memory on the CPU. */
static PyObject *bench_borrow(PyObject *module, PyObject *object)
{
    (void)module;
    return borrow(object, 0);
}

static PyObject *bench_borrow_many(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    static const uint32_t flags[3] = {0};
    return borrow_many(arguments, count, flags);
}

/* Borrow each item of a list, and sum the first elements. */
static PyObject *bench_borrow_list(PyObject *module, PyObject *list)
{
    (void)module;
    double sum = 0;
    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "a list");
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        tenon_py_borrowed array;
        if (tenon_py_borrow(PyList_GetItem(list, i), 0, &array) < 0)
            return NULL;
        sum += *(const float *)array.view.data;
        tenon_py_unborrow(&array);
    }
    return PyFloat_FromDouble(sum);
}

static PyObject *bench_import(PyObject *module, PyObject *object)
{
    (void)module;
    return import(object, 0);
}

static PyObject *bench_through(PyObject *module, PyObject *object)
{
    (void)module;
    return through(object, 0);
}

/* For a function that passes the address on to a device. */
static PyObject *device_borrow(PyObject *module, PyObject *object)
{
    (void)module;
    return borrow(object, TENON_PY_ANY_DEVICE);
}

static PyObject *device_borrow_many(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    static const uint32_t flags[3] = {TENON_PY_ANY_DEVICE, TENON_PY_ANY_DEVICE, TENON_PY_ANY_DEVICE};
    return borrow_many(arguments, count, flags);
}

static PyObject *device_import(PyObject *module, PyObject *object)
{
    (void)module;
    return import(object, TENON_PY_ANY_DEVICE);
}

static PyObject *device_through(PyObject *module, PyObject *object)
{
    (void)module;
    return through(object, TENON_PY_ANY_DEVICE);
}

/* The object's memory as a Tensor of this copy of the bridge. */
static PyObject *to_tensor(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_tensor *tensor = tenon_py_import(object, 0);
    PyObject *array = tensor ? tenon_py_export(tensor, TENON_PY_AS_TENSOR) : NULL;
    tenon_tensor_release(tensor);
    return array;
}

/* The memory and the stream on which it is ready. */
static PyObject *bench_stream(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_py_borrowed array;
    void *stream = NULL;
    if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &array) < 0)
        return NULL;
    int status = tenon_py_stream(&array, &stream);
    tenon_py_unborrow(&array);
    if (status < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* A new 2x3 array of this extension's own memory. */
static PyObject *make(tenon_py_as as)
{
    static const int64_t shape[] = {2, 3};
    tenon_error err;
    tenon_tensor *tensor = NULL;
    float *memory = malloc(6 * sizeof *memory);
    tenon_blob blob = {.data = memory, .dtype = TENON_F32, .ndim = 2, .shape = shape, .owner = memory, .release = free};
    if (tenon_tensor_from_blob(&blob, &tensor, &err)) {
        free(memory);
        return tenon_py_raise(&err);
    }
    PyObject *array = tenon_py_export(tensor, as);
    tenon_tensor_release(tensor);
    return array;
}

static PyObject *bench_make_numpy(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return make(TENON_PY_AS_NUMPY);
}

static PyObject *bench_make_torch(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return make(TENON_PY_AS_TORCH);
}

static PyMethodDef methods[] = {
    {"borrow", bench_borrow, METH_O, NULL},
    {"borrow_many", (PyCFunction)(void (*)(void))bench_borrow_many, METH_FASTCALL, NULL},
    {"borrow_list", bench_borrow_list, METH_O, NULL},
    {"owned", bench_import, METH_O, NULL},
    {"through", bench_through, METH_O, NULL},
    {"device_borrow", device_borrow, METH_O, NULL},
    {"device_borrow_many", (PyCFunction)(void (*)(void))device_borrow_many, METH_FASTCALL, NULL},
    {"device_owned", device_import, METH_O, NULL},
    {"device_through", device_through, METH_O, NULL},
    {"to_tensor", to_tensor, METH_O, NULL},
    {"stream", bench_stream, METH_O, NULL},
    {"make_numpy", bench_make_numpy, METH_NOARGS, NULL},
    {"make_torch", bench_make_torch, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "crossing", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_crossing(void);
PyMODINIT_FUNC PyInit_crossing(void)
{
    return PyModuleDef_Init(&definition);
}
