/* The module tenon._torch_native: what the Python files of this folder call. */
#include "../../../python/tenon/internal.h"
#include "../ops/internal.h"

#include <limits.h>

static PyObject *torch_info(PyObject *self, PyObject *unused)
{
    static const char *const tiers[] = {"none", "private", "stable"};
    (void)self;
    (void)unused;
    tenon_torch_report report;
    tenon_torch_info(&report);
    const char *tensors, *direct, *direct_why, *watch;
    char why[160];
    if (tenon__py_torch_tensors(&tensors, why, sizeof why) < 0)
        return NULL;
    tenon__torch_direct_info(&direct, &direct_why, &watch);
    return Py_BuildValue("{ssssssssssssssss}", "tier", tiers[report.tier], "version", report.version, "missing",
                         report.missing, "tensors", tensors, "tensors_why", why, "direct", direct, "direct_why",
                         direct_why, "watch", watch);
}

static PyObject *torch_probe(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char words_name[] = "words";
    static char *names[] = {words_name, NULL};
    (void)self;
    PyObject *words = Py_None;
    return PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:probe", names, &words) ? tenon__py_torch_probe(words)
                                                                                       : NULL;
}

static PyObject *torch_schema(PyObject *self, PyObject *function)
{
    (void)self;
    tenon_error err;
    size_t length = 0;
    if (!tenon__native_is_function(function))
        return NULL;
    const tenon_signature *signature = ((const tenon__py_function *)function)->signature;
    if (tenon__torch_schema(signature, NULL, 0, &length, &err))
        return tenon_py_raise(&err);
    char *buffer = PyMem_Malloc(length + 1);
    if (!buffer)
        return PyErr_NoMemory();
    PyObject *schema = tenon__torch_schema(signature, buffer, length + 1, &length, &err)
                           ? tenon_py_raise(&err)
                           : PyUnicode_FromStringAndSize(buffer, (Py_ssize_t)length);
    PyMem_Free(buffer);
    return schema;
}

static PyObject *torch_kernel_add(PyObject *self, PyObject *arguments)
{
    (void)self;
    static const char *const all[TENON__TORCH_KEYS] = {"CPU", "CUDA"};
    const char *name_space, *keys[TENON__TORCH_KEYS];
    bool done[TENON__TORCH_KEYS] = {false};
    PyObject *function;
    int wanted[TENON__TORCH_KEYS];
    if (!PyArg_ParseTuple(arguments, "Ospp", &function, &name_space, &wanted[0], &wanted[1]) ||
        !tenon__native_is_function(function))
        return NULL;
    for (int i = 0; i < TENON__TORCH_KEYS; i++)
        keys[i] = wanted[i] ? all[i] : NULL;
    int place = tenon__torch_kernel_add(function, name_space, keys, done);
    return Py_BuildValue("(iNN)", place, PyBool_FromLong(done[0]), PyBool_FromLong(done[1]));
}

static PyObject *torch_kernel_remove(PyObject *self, PyObject *place)
{
    (void)self;
    long index = PyLong_AsLong(place);
    if (index == -1 && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(index >= 0 && index <= INT_MAX && tenon__torch_kernel_remove((int)index));
}

static PyObject *torch_kernel_count(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(tenon__torch_kernel_count());
}

static PyObject *torch_kernel_failure(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    const tenon__torch_failure *last = tenon__torch_last_failure();
    PyObject *exception = last->status >= TENON_EFAILED || last->status <= TENON_OK || last->status == TENON_EVERSION
                              ? PyExc_RuntimeError
                              : tenon__py_exception_for(last->status);
    return Py_BuildValue("(sOOO)", last->message, exception, last->matched ? Py_True : Py_False,
                         last->ran ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"torch_info", torch_info, METH_NOARGS,
     "torch_info()\n--\n\nReturn a dict that says how torch tensors can be exchanged."},
    {"probe", (PyCFunction)(void (*)(void))torch_probe, METH_VARARGS | METH_KEYWORDS,
     "probe(words=None)\n--\n\nFind the fields of a torch tensor in its bytes. Return a dict with their offsets "
     "and "
     "the bytes."},
    {"schema", torch_schema, METH_O,
     "schema(function, /)\n--\n\nReturn the schema of a function as an operator. A ValueError says why it "
     "cannot "
     "be one."},
    {"kernel_add", torch_kernel_add, METH_VARARGS,
     "kernel_add(function, namespace, cpu, cuda, /)\n--\n\nRegister kernels in C for an operator. Return the "
     "place "
     "in the table, or -1, and for which devices they are registered."},
    {"kernel_remove", torch_kernel_remove, METH_O,
     "kernel_remove(place, /)\n--\n\nRemove the kernels in C of an operator."},
    {"kernel_count", torch_kernel_count, METH_NOARGS,
     "kernel_count()\n--\n\nReturn the number of operators that have kernels in C."},
    {"kernel_failure", torch_kernel_failure, METH_NOARGS,
     "kernel_failure()\n--\n\nReturn the message of the last kernel in C that failed on this thread, the "
     "exception "
     "that the function itself would raise, whether its arguments were good, and whether the function had begun to "
     "run."},
    {NULL, NULL, 0, NULL},
};

static int init(PyObject *module)
{
    tenon__py_torch_configure();
    tenon__torch_read_switch();
    return tenon_torch_register() < 0 ? -1 : PyModule_AddFunctions(module, tenon__torch_methods);
}

const tenon__native_framework tenon__native_torch = {
    .module = "tenon._torch_native",
    .methods = methods,
    .init = init,
};
