/* Each way of the bridge by itself, fast and general, so that the tests can compare them. */
#define PY_SSIZE_T_CLEAN
#include "../../src/internal.h"
#include "describe.h"

#include <string.h>

/* A way to read an object: 0, 1 if it declines, or -1 with an exception. */
typedef int (*way)(PyObject *object, uint32_t flags, tenon_py_borrowed *out);

static int read_by(const tenon__py_producer *producer, PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    tenon__py_request request = {.flags = flags, .stream = TENON__PY_NO_STREAM, .is_last = true};
    if (kind && !kind->table && producer == &tenon__py_producer_exchange_table)
        return 1;
    return kind ? producer->read(object, kind, &request, out) : -1;
}

/* The fast path of borrows and calls. */
static int by_peek(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    (void)flags;
    const tenon__py_kind *kind;
    out->private_.dims = out->private_.inline_dims;
    return !tenon__py_peek(object, &kind, out);
}

static int by_borrow(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    return tenon_py_borrow(object, flags, out);
}

/* A borrow that takes no fast path. */
static int by_general(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    return tenon_py_borrow_on(object, flags, TENON__PY_NO_STREAM, out);
}

static int by_numpy(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    return read_by(tenon__py_producer_as(TENON_PY_AS_NUMPY), object, flags, out);
}

static int by_table(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    return read_by(&tenon__py_producer_exchange_table, object, flags, out);
}

static int by_interface(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    return read_by(&tenon__py_producer_array_interface, object, flags, out);
}

static int by_buffer(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    return read_by(&tenon__py_producer_buffer, object, flags, out);
}

/* The fast case that JAX's arrays are read by. */
static int by_buffer_fast(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    (void)flags;
    Py_buffer *buffer = &out->private_.held.buffer;
    if (PyObject_GetBuffer(object, buffer, PyBUF_FULL_RO) < 0)
        return -1;
    out->private_.holds = TENON__PY_HOLDS_QUIET_BUFFER;
    if (tenon__py_read_buffer_fast(buffer, buffer->readonly ? TENON_READ_ONLY : 0, out))
        return 0;
    PyBuffer_Release(buffer);
    return 1;
}

static int by_dlpack(PyObject *object, uint32_t flags, tenon_py_borrowed *out)
{
    (void)flags;
    tenon__py_kind room;
    const tenon__py_kind *kind = tenon__py_kind_of(object, &room);
    return kind ? tenon__py_read_dlpack(object, kind, TENON__PY_NO_STREAM, out) : -1;
}

static const struct {
    const char *name;
    way read;
    bool is_borrow; /* it holds the object */
} ways[] = {
    {"peek", by_peek, false},      {"borrow", by_borrow, true},
    {"general", by_general, true}, {"numpy", by_numpy, false},
    {"table", by_table, false},    {"interface", by_interface, false},
    {"buffer", by_buffer, false},  {"buffer fast", by_buffer_fast, false},
    {"dlpack", by_dlpack, false},
};

/* read(way, object, flags=0): the view, or None if the way declines the object. */
static PyObject *paths_read(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *object;
    unsigned flags = 0;
    tenon_py_borrowed out;
    if (!PyArg_ParseTuple(arguments, "sO|I", &name, &object, &flags))
        return NULL;
    size_t i = 0;
    while (i < sizeof ways / sizeof *ways && strcmp(ways[i].name, name) != 0)
        i++;
    if (i == sizeof ways / sizeof *ways)
        return PyErr_Format(PyExc_ValueError, "there is no way '%s'", name);
    memset(&out, 0, sizeof out); /* as tenon_py_borrow leaves it for a producer */
    int status = ways[i].read(object, flags, &out);
    if (status < 0)
        return NULL;
    if (status == 1)
        Py_RETURN_NONE;
    if (!ways[i].is_borrow) {
        out.private_.object = object;
        Py_INCREF(object);
    }
    PyObject *result = describe(&out.view);
    tenon_py_unborrow(&out);
    return result;
}

/* A new array by the framework's own function, as for a result that no fast path makes. */
static PyObject *empty_general(const tenon__py_producer *owner, PyObject *like, tenon_dtype dtype, int32_t ndim,
                               const int64_t *shape, tenon_py_borrowed *out)
{
    if (owner != tenon__py_producer_as(TENON_PY_AS_TORCH)) /* which begins with its fast path */
        return owner->empty(like, tenon_device_of(TENON_CPU, 0), dtype, ndim, shape, out);
    PyObject *torch = PyImport_ImportModule("torch"), *cpu = torch ? PyUnicode_FromString("cpu") : NULL;
    PyObject *made = cpu ? tenon__py_call_empty(torch, cpu, dtype, ndim, shape) : NULL;
    Py_XDECREF(torch);
    Py_XDECREF(cpu);
    return tenon__py_borrow_made(made, dtype, out);
}

/* empty(fast, like, dtype, shape): (a new array like that one, its view). */
static PyObject *paths_empty(PyObject *module, PyObject *arguments)
{
    (void)module;
    int fast;
    PyObject *like, *sizes;
    const char *name;
    int64_t shape[TENON_MAX_NDIM];
    tenon_dtype dtype;
    tenon_error err;
    tenon_py_borrowed out;
    const tenon__py_producer *owner;
    if (!PyArg_ParseTuple(arguments, "pOsO!", &fast, &like, &name, &PyTuple_Type, &sizes))
        return NULL;
    if (tenon_dtype_parse(name, &dtype, &err))
        return tenon_py_raise(&err);
    int32_t ndim = (int32_t)PyTuple_Size(sizes);
    for (int32_t i = 0; i < ndim; i++)
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(sizes, i));
    if (tenon__py_owner(like, &owner) < 0)
        return NULL;
    memset(&out, 0, sizeof out);
    PyObject *array = fast ? tenon__py_empty_like(like, tenon_device_of(TENON_CPU, 0), dtype, ndim, shape, &out)
                           : empty_general(owner, like, dtype, ndim, shape, &out);
    if (!array)
        return NULL;
    PyObject *result = Py_BuildValue("(NN)", array, describe(&out.view));
    tenon_py_unborrow(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"read", paths_read, METH_VARARGS, NULL},
    {"empty", paths_empty, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tenon_paths", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_tenon_paths(void);
PyMODINIT_FUNC PyInit_tenon_paths(void)
{
    return PyModuleDef_Init(&definition);
}
