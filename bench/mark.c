/* Tells callgrind where a measurement begins and ends. Elsewhere it runs at the speed of plain valgrind; importing torch
 * under callgrind would take many minutes. */
#include <Python.h>

#include <valgrind/callgrind.h>

static PyObject *begin(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *module, PyObject *label)
{
    (void)module;
    CALLGRIND_DUMP_STATS_AT(PyUnicode_AsUTF8(label));
    CALLGRIND_STOP_INSTRUMENTATION;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"begin", begin, METH_NOARGS, NULL}, {"end", end, METH_O, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "mark", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_mark(void)
{
    return PyModuleDef_Init(&definition);
}
