/* tenon.Tensor across processes: shared memory, and pickles. */
#include "tensor_object.h"

#include <tenon/shared.h>

PyObject *tenon__py_tensor_shared_name(PyObject *self, void *unused)
{
    (void)unused;
    tenon_tensor *tensor = tenon__py_alive(self);
    char name[TENON_SHARED_NAME_SIZE];
    if (!tensor)
        return NULL;
    if (tenon_shared_name(tensor, name, NULL) == TENON_OK)
        return PyUnicode_FromString(name);
    Py_RETURN_NONE;
}

PyObject *tenon__py_tensor_shared_fd(PyObject *self, void *unused)
{
    (void)unused;
    tenon_tensor *tensor = tenon__py_alive(self);
    int fd;
    if (!tensor)
        return NULL;
    if (tenon_shared_fd(tensor, &fd, NULL) == TENON_OK)
        return PyLong_FromLong(fd);
    Py_RETURN_NONE;
}

PyObject *tenon__py_tensor_freeze(PyObject *self, PyObject *unused)
{
    (void)unused;
    tenon_tensor *tensor = tenon__py_alive(self);
    tenon_error err;
    if (!tensor)
        return NULL;
    bool has_buffer;
    tenon_status status = TENON_OK;
    TENON__PY_BEGIN_SECTION(self);
    has_buffer = tenon__py_tensor_has_writable_buffer(self);
    if (!has_buffer)
        status = tenon_shared_freeze(tensor, &err);
    TENON__PY_END_SECTION();
    if (has_buffer) {
        PyErr_SetString(PyExc_BufferError,
                        "tenon.Tensor.freeze(): an array on this memory exists, which could still be "
                        "written to; delete it first, as in `del array`");
        return NULL;
    }
    if (status == TENON_EFAILED) {
        PyErr_SetString(PyExc_BufferError,
                        "tenon.Tensor.freeze(): an array or a view on this memory exists, which could "
                        "still be written to; delete it first, as in `del array`");
        return NULL;
    }
    if (status == TENON_EINVAL) {
        PyErr_SetString(
            PyExc_ValueError,
            "tenon.Tensor.freeze(): expected a whole tensor that tenon.shared_zeros() or tenon.attach() returned");
        return NULL;
    }
    if (status)
        return tenon__py_raise_in("tenon.Tensor.freeze()", &err);
    if (tenon__py_guard(tensor) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* For copy.copy and copy.deepcopy. */
PyObject *tenon__py_tensor_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    tenon_tensor *tensor = tenon__py_retain(self), *copy = NULL;
    tenon_error err;
    if (!tensor)
        return NULL;
    tenon_status status = tenon_tensor_copy(tensor, &copy, &err);
    tenon__py_release(tensor);
    if (status)
        return tenon__py_raise_in("tenon.Tensor", &err);
    PyObject *object = tenon__py_tensor_new(copy);
    tenon_tensor_release(copy);
    return object;
}

/* The package knows how: tenon._reduce.reduce. */
PyObject *tenon__py_tensor_reduce(PyObject *self, PyObject *protocol)
{
    PyObject *module = PyImport_ImportModule("tenon._reduce");
    if (!module && PyErr_ExceptionMatches(PyExc_ImportError))
        PyErr_SetString(PyExc_TypeError, "cannot pickle a tenon.Tensor without the Python package of Tenon; install "
                                         "libtenon, or pickle a copy, as in numpy.array(tensor)");
    PyObject *result = module ? PyObject_CallMethod(module, "reduce", "OO", self, protocol) : NULL;
    Py_XDECREF(module);
    return result;
}
