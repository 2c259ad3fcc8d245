/* The library itself, the module tinyarray. It knows nothing of Tenon, and its arrays speak no protocol. */
#include "array/tinyarray.h"

#include <stdlib.h>
#include <structmember.h>

static PyTypeObject array_type;

static PyObject *make(int64_t length)
{
    tinyarray *self = PyObject_New(tinyarray, &array_type);
    if (!self)
        return NULL;
    self->length = length;
    self->data = calloc((size_t)length + 1, sizeof *self->data); /* even an empty array has an address */
    if (self->data)
        return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static void array_dealloc(PyObject *object)
{
    free(((tinyarray *)object)->data);
    PyObject_Free(object);
}

static PyObject *array_item(PyObject *object, Py_ssize_t i)
{
    const tinyarray *self = (const tinyarray *)object;
    return i >= 0 && i < self->length ? PyFloat_FromDouble((double)self->data[i])
                                      : PyErr_Format(PyExc_IndexError, "TinyArray: index out of range");
}

static PyObject *zeros(PyObject *module, PyObject *argument)
{
    (void)module;
    Py_ssize_t length = PyLong_AsSsize_t(argument);
    return length < 0 ? PyErr_Format(PyExc_ValueError, "tinyarray.zeros(): expected a length") : make(length);
}

static PyMemberDef members[] = {{"address", T_ULONGLONG, offsetof(tinyarray, data), READONLY, NULL}, {0}};
static PySequenceMethods sequence = {.sq_item = array_item};
static PyTypeObject array_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tinyarray.TinyArray",
                                  .tp_basicsize = sizeof(tinyarray),
                                  .tp_flags = Py_TPFLAGS_DEFAULT,
                                  .tp_dealloc = array_dealloc,
                                  .tp_members = members,
                                  .tp_as_sequence = &sequence};
static PyMethodDef functions[] = {{"zeros", zeros, METH_O, NULL}, {0}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tinyarray", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_tinyarray(void)
{
    PyObject *module = PyType_Ready(&array_type) == 0 ? PyModule_Create(&definition) : NULL;
    PyObject *api = module ? PyCapsule_New((void *)(uintptr_t)make, "tinyarray.c_api", NULL) : NULL;
    return api && PyModule_AddObject(module, "c_api", api) == 0 && PyModule_AddType(module, &array_type) == 0 ? module
                                                                                                              : NULL;
}
