/* The extension module of the package, which its Python files call. */
#include "_native.h"

#include "../src/functions/call_frame.h"

#include "../../frameworks/jax/src/jax_host.h"
#include "../../frameworks/torch/src/kernels.h"

#include <string.h>

#define MODULE_CAPSULE "tenon.module"

static PyObject *open_library(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *path = NULL, *type, *owner;
    if (!PyArg_ParseTuple(arguments, "O&OO:open_library", PyUnicode_FSConverter, &path, &type, &owner)) {
        tenon__py_name_part("tenon.load", "argument 'path'", NULL);
        return NULL;
    }
    const tenon_module *found = NULL;
    PyObject *module = tenon__py_open_as(PyBytes_AsString(path), type, owner, &found);
    Py_DECREF(path);
    /* The library is never closed. */
    return module ? Py_BuildValue("(NN)", module, PyCapsule_New((void *)(uintptr_t)found, MODULE_CAPSULE, NULL)) : NULL;
}

static PyObject *library_hash(PyObject *self, PyObject *capsule)
{
    (void)self;
    const tenon_module *module = PyCapsule_GetPointer(capsule, MODULE_CAPSULE);
    char hash[TENON_HASH_SIZE];
    tenon_error err;
    if (!module)
        return NULL;
    return tenon_module_hash(module, hash, &err) ? PyErr_Format(PyExc_ValueError, "%s", tenon_error_reason(&err))
                                                 : PyUnicode_FromString(hash);
}

/* Whether a function got no keyword arguments; false with a TypeError if it did. */
static bool check_no_keywords(const char *function, PyObject *keywords)
{
    if (!keywords || PyDict_Size(keywords) == 0)
        return true;
    PyObject *names = PyDict_Keys(keywords);
    if (names)
        PyErr_Format(PyExc_TypeError, "%s(): expected no keyword arguments, got %R; it neither copies nor moves memory",
                     function, names);
    Py_XDECREF(names);
    return false;
}

/* Import the argument of a function: a new reference, or NULL with an exception that names both. */
static tenon_tensor *import_argument(const char *function, const char *argument, PyObject *object, uint32_t flags)
{
    tenon_tensor *tensor = tenon_py_import(object, flags);
    if (!tensor)
        tenon__py_name_part(function, argument, object);
    return tensor;
}

static PyObject *from_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    (void)self;
    PyObject *object;
    if (!check_no_keywords("tenon.from_dlpack", keywords) ||
        !PyArg_ParseTuple(arguments, "O:tenon.from_dlpack", &object))
        return NULL;
    tenon_tensor *tensor = import_argument("tenon.from_dlpack", "argument 'x'", object, TENON_PY_ANY_DEVICE);
    PyObject *array = tensor ? tenon_py_export(tensor, TENON_PY_AS_TENSOR) : NULL;
    tenon_tensor_release(tensor);
    return array;
}

/* The same for functions of the package that read memory of the CPU. */
static PyObject *from_argument(PyObject *self, PyObject *arguments)
{
    (void)self;
    const char *function, *argument;
    PyObject *object;
    if (!PyArg_ParseTuple(arguments, "ssO:_from_argument", &function, &argument, &object))
        return NULL;
    tenon_tensor *tensor = import_argument(function, argument, object, 0);
    PyObject *array = tensor ? tenon_py_export(tensor, TENON_PY_AS_TENSOR) : NULL;
    tenon_tensor_release(tensor);
    return array;
}

static PyObject *to(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    (void)self;
    PyObject *object, *framework;
    if (!check_no_keywords("tenon.to", keywords) || !PyArg_ParseTuple(arguments, "OO:tenon.to", &object, &framework))
        return NULL;
    if (!PyUnicode_Check(framework) && !PyModule_Check(framework))
        return PyErr_Format(PyExc_TypeError,
                            "tenon.to(): argument 'framework': expected the name of a framework or its module, got %R",
                            (PyObject *)Py_TYPE(framework));
    const tenon__py_producer *producer =
        tenon__py_producer_named(framework, false, "tenon.to(): argument 'framework': expected");
    tenon_tensor *tensor = producer ? import_argument("tenon.to", "argument 'x'", object, TENON_PY_ANY_DEVICE) : NULL;
    PyObject *array = tensor ? producer->wrap(tensor) : NULL;
    if (tensor && !array && !tenon__py_raise_missing(producer->name, "tenon.to()"))
        tenon__py_name_part("tenon.to", "argument 'x'", NULL);
    tenon_tensor_release(tensor);
    return array;
}

static PyObject *check(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *object;
    if (!PyArg_ParseTuple(arguments, "O:tenon.check", &object))
        return NULL;
    if (!PyBool_Check(object))
        return PyErr_Format(PyExc_TypeError, "tenon.check(): argument 'on': expected True or False, got %R",
                            (PyObject *)Py_TYPE(object));
    int before = tenon__py_check(object == Py_True);
    if (before >= 0)
        atomic_store(&tenon__jax_checked, object == Py_True);
    return before < 0 ? NULL : PyBool_FromLong(before);
}

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
    return PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:_torch_probe", names, &words)
               ? tenon__py_torch_probe(words)
               : NULL;
}

/* ------------------------------------------------------------------------------------------------ torch's operators */

bool tenon__native_is_function(PyObject *object)
{
    const tenon__py_interp *interp = tenon__py_interp_state();
    bool is_one = interp && Py_TYPE(object) == atomic_load(&interp->function_type);
    if (interp && !is_one)
        PyErr_Format(PyExc_TypeError, "expected tenon.Function, got %R", (PyObject *)Py_TYPE(object));
    return is_one;
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
    {"open_library", open_library, METH_VARARGS,
     "open_library(path, type, owner, /)\n--\n\nOpen a shared library. Return its module, which type(name, owner) "
     "makes, "
     "and a "
     "capsule that stands for the library."},
    {"library_hash", library_hash, METH_O,
     "library_hash(capsule, /)\n--\n\nReturn 32 hexadecimal digits that identify the content of a library."},
    {"check", check, METH_VARARGS,
     "check(on, /)\n--\n\nCheck the calls of all functions in this interpreter, or stop. Return whether they were "
     "checked before."},
    {"torch_info", torch_info, METH_NOARGS,
     "torch_info()\n--\n\nReturn a dict that says how torch tensors can be exchanged."},
    {"_torch_probe", (PyCFunction)(void (*)(void))torch_probe, METH_VARARGS | METH_KEYWORDS,
     "_torch_probe(words=None)\n--\n\nFind the fields of a torch tensor in its bytes. Return a dict with their offsets "
     "and "
     "the bytes."},
    {"to", (PyCFunction)(void (*)(void))to, METH_VARARGS | METH_KEYWORDS,
     "to(x, framework, /)\n--\n\nReturn an array on the same memory. `framework` is the name of a framework, such as "
     "'numpy', or its module."},
    {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack, METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(x, /)\n--\n\nReturn a tenon.Tensor on the memory of any array or DLPack capsule."},
    {"_from_argument", from_argument, METH_VARARGS,
     "_from_argument(function, argument, x, /)\n--\n\nReturn a tenon.Tensor on the memory of an array on the CPU. "
     "Errors name the function and the argument."},
    {"_torch_schema", torch_schema, METH_O,
     "_torch_schema(function, /)\n--\n\nReturn the schema of a function as an operator. A ValueError says why it "
     "cannot "
     "be one."},
    {"_torch_kernel_add", torch_kernel_add, METH_VARARGS,
     "_torch_kernel_add(function, namespace, cpu, cuda, /)\n--\n\nRegister kernels in C for an operator. Return the "
     "place "
     "in the table, or -1, and for which devices they are registered."},
    {"_torch_kernel_remove", torch_kernel_remove, METH_O,
     "_torch_kernel_remove(place, /)\n--\n\nRemove the kernels in C of an operator."},
    {"_torch_kernel_count", torch_kernel_count, METH_NOARGS,
     "_torch_kernel_count()\n--\n\nReturn the number of operators that have kernels in C."},
    {"_torch_kernel_failure", torch_kernel_failure, METH_NOARGS,
     "_torch_kernel_failure()\n--\n\nReturn the message of the last kernel in C that failed on this thread, the "
     "exception "
     "that the function itself would raise, whether its arguments were good, and whether the function had begun to "
     "run."},
    {NULL, NULL, 0, NULL},
};

static int add_contents(PyObject *module)
{
    tenon__py_torch_configure();
    PyTypeObject *type = tenon_py_type();
    if (!type)
        return -1;
    Py_INCREF((PyObject *)type);
    if (PyModule_AddObject(module, "Tensor", (PyObject *)type) < 0) {
        Py_DECREF((PyObject *)type);
        return -1;
    }
    tenon__torch_read_switch();
    if (tenon_torch_register() < 0 || PyModule_AddFunctions(module, tenon__torch_methods) < 0 ||
        PyModule_AddFunctions(module, tenon__jax_methods) < 0 ||
        PyModule_AddFunctions(module, tenon__shared_methods) < 0 ||
        PyModule_AddFunctions(module, tenon__argument_methods) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", tenon_version());
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, TENON__PY_SLOT(add_contents)}, TENON__PY_FREE_SLOTS{0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tenon._native", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
