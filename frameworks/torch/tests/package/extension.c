/* An extension that is compiled with the bundle, or with its headers alone. It returns the same tensor. */
#ifdef USE_BUNDLE
#include "tenon_python.h"

#include "tenon_torch.h"
#else
#include <tenon/python.h>

#include <tenon/torch.h>
#endif

static PyObject *same(PyObject *self, PyObject *object)
{
    (void)self;
    tenon_torch *tensor;
    PyObject *result = NULL;
    if (tenon_torch_import(object, &tensor) < 0)
        return NULL;
    if (tenon_torch_export(tensor, &result) < 0)
        result = NULL;
    tenon_torch_release(tensor);
    return result;
}

static PyObject *tier(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    tenon_torch_report report;
    tenon_torch_info(&report);
    return PyLong_FromLong((long)report.tier);
}

static PyMethodDef methods[] = {{"same", same, METH_O, NULL}, {"tier", tier, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "same_tensor", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_same_tensor(void)
{
    return PyModuleDef_Init(&definition);
}
