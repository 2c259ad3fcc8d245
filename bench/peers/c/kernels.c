/* The extension that every peer writes: saxpy and dot on f32 vectors of one length. By hand, for NumPy, with checks. */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>

#include <numpy/arrayobject.h>

static PyArrayObject *vector(PyObject *object, const char *name)
{
    PyArrayObject *array = (PyArrayObject *)object;
    if (!PyArray_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected numpy.ndarray, got %s", name, Py_TYPE(object)->tp_name);
        return NULL;
    }
    if (PyArray_TYPE(array) != NPY_FLOAT32 || !PyArray_ISNOTSWAPPED(array)) {
        PyErr_Format(PyExc_TypeError, "%s: expected float32", name);
        return NULL;
    }
    if (PyArray_NDIM(array) != 1 || !PyArray_IS_C_CONTIGUOUS(array)) {
        PyErr_Format(PyExc_ValueError, "%s: expected one dimension without gaps", name);
        return NULL;
    }
    return array;
}

static int same_length(PyArrayObject *x, PyArrayObject *y)
{
    if (PyArray_DIM(x, 0) == PyArray_DIM(y, 0))
        return 1;
    PyErr_SetString(PyExc_ValueError, "x and y differ in length");
    return 0;
}

static PyObject *saxpy(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 3)
        return PyErr_Format(PyExc_TypeError, "saxpy() takes 3 arguments, got %zd", nargs);
    double a = PyFloat_AsDouble(args[0]);
    if (a == -1.0 && PyErr_Occurred())
        return NULL;
    PyArrayObject *x = vector(args[1], "x"), *y = x ? vector(args[2], "y") : NULL;
    if (!y || !same_length(x, y))
        return NULL;
    npy_intp n = PyArray_DIM(x, 0);
    PyObject *z = PyArray_SimpleNew(1, &n, NPY_FLOAT32);
    if (!z)
        return NULL;
    const float *from_x = PyArray_DATA(x), *from_y = PyArray_DATA(y);
    float *to = PyArray_DATA((PyArrayObject *)z);
    for (npy_intp i = 0; i < n; i++)
        to[i] = (float)a * from_x[i] + from_y[i];
    return z;
}

static PyObject *dot(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 2)
        return PyErr_Format(PyExc_TypeError, "dot() takes 2 arguments, got %zd", nargs);
    PyArrayObject *x = vector(args[0], "x"), *y = x ? vector(args[1], "y") : NULL;
    if (!y || !same_length(x, y))
        return NULL;
    const float *from_x = PyArray_DATA(x), *from_y = PyArray_DATA(y);
    double sum = 0;
    for (npy_intp i = 0, n = PyArray_DIM(x, 0); i < n; i++)
        sum += (double)from_x[i] * from_y[i];
    return PyFloat_FromDouble(sum);
}

static PyMethodDef methods[] = {
    {"saxpy", (PyCFunction)(void (*)(void))saxpy, METH_FASTCALL, "Returns a*x + y."},
    {"dot", (PyCFunction)(void (*)(void))dot, METH_FASTCALL, "The inner product."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "kernels", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_kernels(void)
{
    import_array();
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
