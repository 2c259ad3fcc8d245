/* A small extension that is built against each form of delivery. It adds the bytes of any array, and makes an array. */
#ifdef USE_BUNDLE
#include "tenon_python.h"
#else
#include <tenon/python.h>
#endif

static PyObject *total(PyObject *module, PyObject *object)
{
    tenon_py_borrowed borrowed;
    long sum = 0;

    (void)module;
    if (tenon_py_borrow(object, TENON_PY_C_CONTIGUOUS, &borrowed) < 0)
        return NULL;
    for (int64_t i = 0; i < tenon_view_nbytes(&borrowed.view); i++)
        sum += ((const unsigned char *)borrowed.view.data)[i];
    tenon_py_unborrow(&borrowed);
    return PyLong_FromLong(sum);
}

static PyObject *zeros(PyObject *module, PyObject *unused)
{
    int64_t shape[1] = {8};
    tenon_tensor *tensor = NULL;
    tenon_error err;
    PyObject *result;

    (void)module;
    (void)unused;
    if (tenon_tensor_alloc(TENON_U8, 1, shape, TENON_ZEROED, &tensor, &err) != TENON_OK)
        return (PyObject *)tenon_py_raise(&err);
    result = tenon_py_export(tensor, TENON_PY_AS_TENSOR);
    tenon_tensor_release(tensor);
    return result;
}

static PyObject *alive(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(tenon_stats_read().tensors);
}

static PyMethodDef methods[] = {
    {"total", total, METH_O, NULL},
    {"zeros", zeros, METH_NOARGS, NULL},
    {"alive", alive, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "total", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_total(void)
{
    return PyModule_Create(&definition);
}
