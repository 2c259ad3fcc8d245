/* Module objects for libraries. */
#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

tenon__py_library *tenon__py_library_retain(tenon__py_library *library)
{
    atomic_fetch_add_explicit(&library->count, 1, memory_order_relaxed);
    return library;
}

void tenon__py_library_release(tenon__py_library *library)
{
    if (atomic_fetch_sub_explicit(&library->count, 1, memory_order_acq_rel) != 1)
        return;
    if (library->unload) {
        tenon__py_scope scope = tenon__py_enter_scope();
        library->unload(library->state);
        tenon__py_leave_scope(scope);
    }
    free(library);
}

/* Make the record of a library and call its `load`. NULL with an exception. */
static tenon__py_library *library_new(const tenon_module *module)
{
    tenon__py_library *library = malloc(sizeof *library);
    if (!library)
        return (void *)PyErr_NoMemory();
    atomic_init(&library->count, 1);
    library->module = module;
    library->state = NULL;
    library->unload = module->unload;
    if (!module->load || tenon__py_call_load(module, &library->state) == 0)
        return library;
    free(library);
    return NULL;
}

static int add_text(PyObject *object, const char *name, const char *text)
{
    PyObject *value = text ? PyUnicode_FromFormat("%s", text) : NULL; /* replaces bytes that are not UTF-8 */
    int status = !text ? 0 : value ? PyObject_SetAttrString(object, name, value) : -1;
    Py_XDECREF(value);
    return status;
}

/* Put the type of named results into the module, so that results of an importable module can be pickled. */
static int add_result_type(PyObject *object, PyObject *builtin)
{
    PyObject *info = PyObject_GetAttrString(builtin, "__self__");
    PyObject *type = info ? ((tenon__py_function *)info)->result_type : NULL;
    PyObject *name = type ? PyObject_GetAttrString(type, "__name__") : NULL;
    int status = info && (!type || name) ? 0 : -1;
    if (name && !PyObject_HasAttr(object, name))
        status = PyObject_SetAttr(object, name, type);
    Py_XDECREF(info);
    Py_XDECREF(name);
    return status;
}

static int add_functions(PyObject *object, tenon__py_library *library, PyObject *name)
{
    for (int64_t i = 0; i < library->module->nfunctions; i++) {
        PyObject *function = tenon__py_function_new(library, i, name);
        PyObject *function_name = function ? PyObject_GetAttrString(function, "__name__") : NULL;
        int status = -1;
        if (function_name && PyObject_HasAttr(object, function_name))
            PyErr_Format(PyExc_ImportError, "there are two functions '%U'", function_name);
        else if (function_name)
            status = PyObject_SetAttr(object, function_name, function);
        if (status == 0)
            status = add_result_type(object, function);
        Py_XDECREF(function);
        Py_XDECREF(function_name);
        if (status < 0)
            return -1;
    }
    return 0;
}

PyObject *tenon_py_module(const tenon_module *module, const char *name)
{
    tenon_error err;
    if (tenon_module_check(module, &err))
        return PyErr_Format(PyExc_ImportError, "%s", tenon_error_reason(&err));
    PyObject *own_name = PyUnicode_FromFormat("%s", name ? name : module->name);
    PyObject *object = own_name ? PyModule_NewObject(own_name) : NULL;
    tenon__py_library *library = object ? library_new(module) : NULL;
    int status = library ? add_text(object, "__doc__", module->doc) : -1;
    if (status == 0)
        status = add_text(object, "__version__", module->version);
    if (status == 0)
        status = add_functions(object, library, own_name);
    if (library)
        tenon__py_library_release(library);
    Py_XDECREF(own_name);
    if (status < 0) {
        Py_XDECREF(object);
        return NULL;
    }
    return object;
}

/* -------------------------------------------------------------------------------------------------------- opening */

#ifndef TENON_NO_SYSTEM

/* The module name that Python would look for in this file: "kernels" for "lib/kernels.so". */
static PyObject *module_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *start = slash ? slash + 1 : path;
    return PyUnicode_DecodeFSDefaultAndSize(start, (Py_ssize_t)strcspn(start, "."));
}

/* Name the file in the pending ImportError: put "kernels.so: " before its message. This changes the exception instead
 * of raising a second one, so that it is printed once. */
static void add_file_name(const char *path, PyObject *file)
{
    if (!PyErr_ExceptionMatches(PyExc_ImportError))
        return;
    PyObject *error = tenon__py_take_exception();
    PyObject *name = module_name(path), *message = PyUnicode_FromFormat("%U: %S", file, error);
    PyObject *args = message ? PyTuple_Pack(1, message) : NULL;
    if (name && args && PyObject_SetAttrString(error, "args", args) == 0 &&
        PyObject_SetAttrString(error, "msg", message) == 0 && PyObject_SetAttrString(error, "name", name) == 0)
        (void)PyObject_SetAttrString(error, "path", file);
    Py_XDECREF(name);
    Py_XDECREF(message);
    Py_XDECREF(args);
    tenon__py_raise_again(error);
}

/* Raise the subclass of OSError that belongs to the number. */
static void raise_os_error(int code, const char *reason, PyObject *file)
{
    PyObject *text = PyUnicode_FromFormat("%s", reason); /* replaces bytes that are not UTF-8 */
    PyObject *error = text ? PyObject_CallFunction(PyExc_OSError, "iOO", code, text, file) : NULL;
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(text);
    Py_XDECREF(error);
}

PyObject *tenon_py_open(const char *path)
{
    const tenon_module *found = NULL;
    tenon_error err;
    PyObject *file = PyUnicode_DecodeFSDefault(path);
    if (!file)
        return NULL;
    tenon_status status = tenon_library_open(path, &found, &err);
    if (status == TENON_EFAILED)
        raise_os_error(errno, tenon_error_reason(&err), file);
    else if (status == TENON_ENOMEM)
        PyErr_NoMemory();
    else if (status)
        PyErr_Format(PyExc_ImportError, "%s", tenon_error_reason(&err));
    PyObject *module = status ? NULL : tenon_py_module(found, NULL);
    if (module && PyObject_SetAttrString(module, "__file__", file) < 0)
        Py_CLEAR(module);
    if (!module)
        add_file_name(path, file);
    Py_DECREF(file);
    return module;
}

#endif
