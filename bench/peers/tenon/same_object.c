/* The torch bridge, called by hand: the torch.Tensor object itself crosses. */
#include <tenon/python.h>
#include <tenon/torch.h>

static PyObject *bench_same_import(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_torch *tensor;
    if (tenon_torch_import(object, &tensor) < 0)
        return NULL;
    tenon_torch_release(tensor);
    Py_RETURN_NONE;
}

static PyObject *bench_same_through(PyObject *module, PyObject *object)
{
    (void)module;
    tenon_torch *tensor;
    PyObject *same = NULL;
    if (tenon_torch_import(object, &tensor) < 0)
        return NULL;
    if (tenon_torch_export(tensor, &same) < 0)
        same = NULL;
    tenon_torch_release(tensor);
    return same;
}

static PyMethodDef methods[] = {
    {"owned", bench_same_import, METH_O, NULL},
    {"through", bench_same_through, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "same_object", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_same_object(void);
PyMODINIT_FUNC PyInit_same_object(void)
{
    return PyModuleDef_Init(&definition);
}
