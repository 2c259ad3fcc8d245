/* dot again, with the interpreter lock released while it computes. */
#include "kernels.c"

static PyObject *dot_released(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "dot() takes 2 arguments, got %zd", nargs);
    PyArrayObject *x = vector(args[0], "x"), *y = x ? vector(args[1], "y") : NULL;
    if (!y || !same_length(x, y))
        return NULL;
    const float *from_x = PyArray_DATA(x), *from_y = PyArray_DATA(y);
    npy_intp n = PyArray_DIM(x, 0);
    double sum = 0;
    Py_BEGIN_ALLOW_THREADS;
    for (npy_intp i = 0; i < n; i++)
        sum += (double)from_x[i] * from_y[i];
    Py_END_ALLOW_THREADS;
    return PyFloat_FromDouble(sum);
}

static PyMethodDef released_methods[] = {
    {"dot", (PyCFunction)(void (*)(void))dot_released, METH_FASTCALL, "The inner product."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef released = {
    PyModuleDef_HEAD_INIT, "released", NULL, -1, released_methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_released(void)
{
    import_array();
    PyObject *module = PyModule_Create(&released);
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
