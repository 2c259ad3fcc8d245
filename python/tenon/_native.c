/* The extension module of the package, which its Python files call. */
#include "../src/internal.h"

#include <tenon/torch.h>

#include <string.h>

static PyObject *open_library(PyObject *self, PyObject *object)
{
    (void)self;
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(object, &path))
        return NULL;
    PyObject *module = tenon_py_open(PyBytes_AsString(path));
    Py_DECREF(path);
    return module;
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

static PyObject *from_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    (void)self;
    PyObject *object;
    if (!check_no_keywords("tenon.from_dlpack", keywords) ||
        !PyArg_ParseTuple(arguments, "O:tenon.from_dlpack", &object))
        return NULL;
    tenon_tensor *tensor = tenon_py_import(object, TENON_PY_ANY_DEVICE);
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
    tenon_tensor *tensor = producer ? tenon_py_import(object, TENON_PY_ANY_DEVICE) : NULL;
    PyObject *array = tensor ? producer->wrap(tensor) : NULL;
    tenon_tensor_release(tensor);
    return array;
}

static PyObject *torch_info(PyObject *self, PyObject *unused)
{
    static const char *const tiers[] = {"none", "private", "stable"};
    (void)self;
    (void)unused;
    tenon_torch_report report;
    tenon_torch_info(&report);
    const char *tensors;
    char why[160];
    if (tenon__py_torch_tensors(&tensors, why, sizeof why) < 0)
        return NULL;
    return Py_BuildValue("{ssssssssss}", "tier", tiers[report.tier], "version", report.version, "missing",
                         report.missing, "tensors", tensors, "tensors_why", why);
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

static PyMethodDef methods[] = {
    {"open_library", open_library, METH_O, "open_library(path, /)\n--\n\nOpen a shared library and return its module."},
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
    return tenon_torch_register() < 0 ? -1 : PyModule_AddStringConstant(module, "version", tenon_version());
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, TENON__PY_SLOT(add_contents)}, TENON__PY_FREE_SLOTS{0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tenon._native", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
