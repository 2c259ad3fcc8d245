/* The extension module of the package, which its Python files call. */
#include "internal.h"

#include "../src/call/internal.h"

#include <string.h>

#define MODULE_CAPSULE "tenon.module"

static PyObject *open_library(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *path = NULL, *type, *owner;
    if (!PyArg_ParseTuple(arguments, "O&OO:open_library", PyUnicode_FSConverter, &path, &type, &owner)) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return PyErr_Format(PyExc_ValueError,
                                "tenon.load(): argument 'path': expected a name that a file can have, got %A",
                                PyTuple_GetItem(arguments, 0));
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

static PyObject *library_abi(PyObject *self, PyObject *capsule)
{
    (void)self;
    const tenon_module *module = PyCapsule_GetPointer(capsule, MODULE_CAPSULE);
    return module ? Py_BuildValue("(II)", module->major, module->minor_needed) : NULL;
}

static PyObject *check_library(PyObject *self, PyObject *content)
{
    (void)self;
    Py_buffer bytes;
    tenon_error err;
    if (PyObject_GetBuffer(content, &bytes, PyBUF_SIMPLE) < 0)
        return NULL;
    tenon_status status = tenon_library_check(bytes.buf, (size_t)bytes.len, &err);
    PyBuffer_Release(&bytes);
    if (status)
        return PyErr_Format(PyExc_ImportError, "%s", tenon_error_reason(&err));
    Py_RETURN_NONE;
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

/* The argument `device`: a name, or DLPack's pair of type and id. 0, or -1 with an exception. */
static int read_device(PyObject *given, tenon_device *out)
{
    static const char where[] = "tenon.from_dlpack(): argument 'device': expected";
    int type, id;
    tenon_error err;
    if (PyUnicode_Check(given)) {
        Py_ssize_t length = 0;
        const char *name = PyUnicode_AsUTF8AndSize(given, &length);
        if (name && strlen(name) == (size_t)length && tenon_device_parse(name, out, &err) == TENON_OK)
            return 0;
        if (name || tenon__py_may_replace())
            PyErr_Format(PyExc_ValueError, "%s the name of a device, such as 'cpu' or 'cuda:0', got %R", where, given);
        return -1;
    }
    if (!PyTuple_Check(given) || !PyArg_ParseTuple(given, "ii", &type, &id)) {
        if (!PyErr_Occurred() || tenon__py_may_replace())
            PyErr_Format(PyExc_TypeError,
                         "%s None, a str such as 'cpu' or 'cuda:0', or a tuple of two ints, (type, id), "
                         "got %R",
                         where, given);
        return -1;
    }
    *out = tenon_device_of(type, id);
    if (tenon_device_known(*out))
        return 0;
    PyErr_Format(PyExc_ValueError, "%s a device of DLPack, got %R", where, given);
    return -1;
}

/* The array API standard has AttributeError for an object that is not an array; other functions raise TypeError. */
static void raise_missing_method(PyObject *object)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError) || PyCapsule_CheckExact(object) || PyObject_CheckBuffer(object))
        return;
    PyObject *error = tenon__py_take_exception(), *method;
    int found = tenon__py_attribute(object, "__dlpack__", &method);
    Py_XDECREF(found == 1 ? method : NULL);
    PyObject *message = found == 0 ? PyObject_Str(error) : NULL;
    if (!message) {
        tenon__py_raise_again(error);
        return;
    }
    Py_DECREF(error);
    PyErr_SetObject(PyExc_AttributeError, message);
    Py_DECREF(message);
}

static PyObject *from_dlpack(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char x_name[] = "", device_name[] = "device", copy_name[] = "copy";
    static char *names[] = {x_name, device_name, copy_name, NULL};
    (void)self;
    PyObject *object, *device = Py_None, *copy = Py_None;
    tenon_device wanted;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$OO:tenon.from_dlpack", names, &object, &device, &copy) ||
        (device != Py_None && read_device(device, &wanted) < 0))
        return NULL;
    if (copy != Py_None && !PyBool_Check(copy))
        return PyErr_Format(PyExc_TypeError,
                            "tenon.from_dlpack(): argument 'copy': expected None, True or False, got %R", copy);
    tenon_tensor *tensor = tenon__py_from_dlpack(object, device == Py_None ? NULL : &wanted, copy);
    if (!tensor) {
        tenon__py_name_part("tenon.from_dlpack", "argument 'x'", object);
        raise_missing_method(object);
    }
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

/* How a borrow reads the array, by what it holds. */
static const char *reader_name(const tenon_py_borrowed *borrowed)
{
    switch (borrowed->private_.holds) {
    case TENON__PY_HOLDS_NOTHING:
    case TENON__PY_HOLDS_MANAGED:
        if (borrowed->private_.table)
            return "table";
        return borrowed->private_.holds == TENON__PY_HOLDS_NOTHING ? "struct" : "DLPack";
    case TENON__PY_HOLDS_LEGACY:
        return "legacy DLPack";
    case TENON__PY_HOLDS_OBJECT:
        return "interface";
    case TENON__PY_HOLDS_TENSOR:
        return "tenon.Tensor";
    default:
        return "buffer";
    }
}

static PyObject *reader_of(PyObject *self, PyObject *object)
{
    (void)self;
    tenon_py_borrowed borrowed;
    if (tenon_py_borrow(object, TENON_PY_ANY_DEVICE, &borrowed) < 0)
        return NULL;
    const char *name = reader_name(&borrowed);
    tenon_py_unborrow(&borrowed);
    /* A tensor whose struct is read may have a table too, for its stream. */
    const tenon__py_kind *kind = tenon__py_known_kind(Py_TYPE(object));
    return PyUnicode_FromString(strcmp(name, "table") == 0 && kind && kind->read_c_tensor ? "struct" : name);
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
    for (int i = 0; before >= 0 && tenon__native_frameworks[i]; i++)
        if (tenon__native_frameworks[i]->set_checked)
            tenon__native_frameworks[i]->set_checked(object == Py_True);
    return before < 0 ? NULL : PyBool_FromLong(before);
}

bool tenon__native_is_function(PyObject *object)
{
    const tenon__py_interp *interp = tenon__py_interp_state();
    bool is_one = interp && Py_TYPE(object) == atomic_load(&interp->function_type);
    if (interp && !is_one)
        PyErr_Format(PyExc_TypeError, "expected tenon.Function, got %R", (PyObject *)Py_TYPE(object));
    return is_one;
}

static PyMethodDef methods[] = {
    {"open_library", open_library, METH_VARARGS,
     "open_library(path, type, owner, /)\n--\n\nOpen a shared library. Return its module, which type(name, owner) "
     "makes, "
     "and a "
     "capsule that stands for the library."},
    {"library_hash", library_hash, METH_O,
     "library_hash(capsule, /)\n--\n\nReturn 32 hexadecimal digits that identify the content of a library."},
    {"_library_abi", library_abi, METH_O,
     "_library_abi(capsule, /)\n--\n\nReturn the version of the function ABI that a library needs."},
    {"_check_library", check_library, METH_O,
     "_check_library(content, /)\n--\n\nRaise ImportError unless the content of a file is a library for this machine."},
    {"_reader_of", reader_of, METH_O,
     "_reader_of(x, /)\n--\n\nReturn how an array is read: 'struct', 'table', 'buffer', 'DLPack', 'legacy DLPack', "
     "'interface' or 'tenon.Tensor'."},
    {"check", check, METH_VARARGS,
     "check(on, /)\n--\n\nCheck the calls of all functions in this interpreter, or stop. Return whether they were "
     "checked before."},
    {"to", (PyCFunction)(void (*)(void))to, METH_VARARGS | METH_KEYWORDS,
     "to(x, framework, /)\n--\n\nReturn an array on the same memory. `framework` is the name of a framework, such as "
     "'numpy', or its module."},
    {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack, METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\nReturn a tenon.Tensor on the memory of any array or DLPack "
     "capsule, as the array API standard describes it. `device` is where the memory is to be, such as 'cpu'. copy=True "
     "always copies, copy=False never does, and None copies only if there is no other way."},
    {"_from_argument", from_argument, METH_VARARGS,
     "_from_argument(function, argument, x, /)\n--\n\nReturn a tenon.Tensor on the memory of an array on the CPU. "
     "Errors name the function and the argument."},
    {NULL, NULL, 0, NULL},
};

/* Make the module of a framework. It is a module of its own, so that this one names no framework. */
static int add_framework(const tenon__native_framework *framework)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *module = PyModule_New(framework->module);
    int status = module && PyModule_AddFunctions(module, framework->methods) == 0 ? 0 : -1;
    if (status == 0 && framework->init)
        status = framework->init(module);
    if (status == 0)
        status = PyDict_SetItemString(modules, framework->module, module);
    PyObject *package = PyDict_GetItemString(modules, "tenon"); /* as importing a file would */
    if (status == 0 && package)
        status = PyObject_SetAttrString(package, strchr(framework->module, '.') + 1, module);
    Py_XDECREF(module);
    return status;
}

/* The names of the frameworks of this build, as a tuple. */
static PyObject *framework_names(void)
{
    PyObject *names = PyTuple_New(tenon__py_nframeworks);
    for (int i = 0; names && i < tenon__py_nframeworks; i++) {
        PyObject *name = PyUnicode_FromString(tenon__py_frameworks[i]->producer->name);
        if (!name)
            Py_CLEAR(names);
        else
            PyTuple_SetItem(names, i, name);
    }
    return names;
}

/* Takes `object`, which may be NULL. */
static int add_object(PyObject *module, const char *name, PyObject *object)
{
    int status = object ? PyModule_AddObject(module, name, object) : -1;
    if (status < 0)
        Py_XDECREF(object);
    return status;
}

static int add_contents(PyObject *module)
{
    PyObject *type = (PyObject *)tenon_py_type();
    Py_XINCREF(type);
    if (add_object(module, "Tensor", type) < 0 || add_object(module, "frameworks", framework_names()) < 0 ||
        PyModule_AddFunctions(module, tenon__shared_methods) < 0 ||
        PyModule_AddFunctions(module, tenon__argument_methods) < 0 ||
        PyModule_AddFunctions(module, tenon__conformance_methods) < 0)
        return -1;
    for (int i = 0; tenon__native_frameworks[i]; i++)
        if (add_framework(tenon__native_frameworks[i]) < 0)
            return -1;
    return PyModule_AddStringConstant(module, "version", tenon_version());
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, TENON__PY_SLOT(add_contents)}, TENON__PY_FREE_SLOTS{0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tenon._native", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
