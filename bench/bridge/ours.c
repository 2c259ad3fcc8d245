/* What is measured of Tenon: the safe functions, as an extension's author calls them. */
#include "tenon_python.h"

#include <stdlib.h>

static PyObject *nothing(PyObject *module, PyObject *object)
{
    (void)module;
    (void)object;
    Py_RETURN_NONE;
}

static PyObject *borrow(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_py_borrowed array;
    if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &array) < 0)
        return NULL;
    volatile void *data = array.view.data;
    (void)data;
    tenon_py_unborrow(&array);
    Py_RETURN_NONE;
}

static PyObject *borrow3(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    static const uint32_t flags[3] = {TENON_PY_ANY_DEVICE, TENON_PY_ANY_DEVICE, TENON_PY_ANY_DEVICE};
    tenon_py_borrowed arrays[3];
    if (count != 3 || tenon_py_borrow_many(3, arguments, flags, arrays) < 0)
        return NULL;
    tenon_py_unborrow_many(3, arrays);
    Py_RETURN_NONE;
}

static PyObject *owned(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_tensor *tensor = tenon_py_import(object, TENON_PY_ANY_DEVICE);
    if (!tensor)
        return NULL;
    tenon_tensor_release(tensor);
    Py_RETURN_NONE;
}

static PyObject *through(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_tensor *tensor = tenon_py_import(object, TENON_PY_ANY_DEVICE);
    if (!tensor)
        return NULL;
    PyObject *same = tenon_py_export(tensor, TENON_PY_AS_SAME);
    tenon_tensor_release(tensor);
    return same;
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

static PyObject *make_numpy(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return make(TENON_PY_AS_NUMPY);
}

static PyObject *make_torch(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return make(TENON_PY_AS_TORCH);
}

static PyMethodDef methods[] = {
    {"nothing", nothing, METH_O, NULL},
    {"borrow", borrow, METH_O, NULL},
    {"borrow3", (PyCFunction)(void (*)(void))borrow3, METH_FASTCALL, NULL},
    {"owned", owned, METH_O, NULL},
    {"through", through, METH_O, NULL},
    {"make_numpy", make_numpy, METH_NOARGS, NULL},
    {"make_torch", make_torch, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#ifndef MODULE
#define MODULE ours
#endif
#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "ours", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC JOIN(PyInit_, MODULE)(void);
PyMODINIT_FUNC JOIN(PyInit_, MODULE)(void)
{
    return PyModule_Create(&definition);
}
