/* Module objects for libraries. */
#include "internal.h"

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

/* ---------------------------------------------------------------------------------------------------------- entries */

/* A module that is being made. */
typedef struct library_loader {
    PyObject *module;
    tenon__py_origin origin;
    tenon_signature **signatures; /* of the entries; NULL once a function has taken it */
    PyObject *methods;            /* a set: the names of the members of classes so far */
    PyObject *callables;          /* a dict: the callables by the names of their signatures */
} library_loader;

/* Put the type of named results into the module, so that results of an importable module can be pickled. */
static int add_result_type(const library_loader *l, PyObject *function)
{
    PyObject *type = ((tenon__py_function *)function)->result_type;
    PyObject *name = type ? PyObject_GetAttrString(type, "__name__") : NULL;
    int status = !type || name ? 0 : -1;
    if (name && !PyObject_HasAttr(l->module, name))
        status = PyObject_SetAttr(l->module, name, type);
    Py_XDECREF(name);
    return status;
}

/* Raise what a module or its file is refused with. */
static void raise_load_error(const char *prefix, const tenon_error *err)
{
    if (err->status == TENON_ENOMEM)
        PyErr_NoMemory();
    else
        PyErr_Format(PyExc_ImportError, "%s%s", prefix, tenon_error_reason(err));
}

static int compile_signatures(library_loader *l)
{
    const tenon_module *module = l->origin.library->module;
    l->signatures = PyMem_Calloc(module->nfunctions ? (size_t)module->nfunctions : 1, sizeof(tenon_signature *));
    if (!l->signatures)
        return PyErr_NoMemory(), -1;
    for (int64_t i = 0; i < module->nfunctions; i++) {
        tenon_error err;
        tenon_function function;
        tenon_module_function(module, i, &function);
        if (!tenon_signature_alloc(function.signature, module, TENON_HOST_LAYOUT, &l->signatures[i], &err))
            continue;
        char text[64];
        snprintf(text, sizeof text, "the signature of function %lld: ", (long long)i);
        raise_load_error(text, &err);
        return -1;
    }
    return 0;
}

/* The constructors of a class; returns how many there are. */
static int32_t find_constructors(const library_loader *l, const char *name, tenon__py_constructor *found)
{
    int32_t count = 0;
    for (int64_t i = 0; i < l->origin.library->module->nfunctions && count < TENON_MAX_OVERLOADS; i++) {
        tenon_function entry;
        if (l->signatures[i]->role != TENON_ROLE_CONSTRUCTOR || strcmp(l->signatures[i]->name, name) != 0)
            continue;
        tenon_module_function(l->origin.library->module, i, &entry);
        found[count++] = (tenon__py_constructor){l->signatures[i], entry.doc};
    }
    return count;
}

/* Make the types, which functions refer to. */
static int make_classes(library_loader *l)
{
    for (int64_t i = 0; i < l->origin.library->module->nfunctions; i++) {
        tenon_function entry;
        tenon__py_constructor constructors[TENON_MAX_OVERLOADS];
        const char *name = l->signatures[i]->name;
        if (l->signatures[i]->role != TENON_ROLE_CLASS)
            continue;
        tenon_module_function(l->origin.library->module, i, &entry);
        int32_t count = find_constructors(l, name, constructors);
        PyObject *type = tenon__py_class_new(&l->origin, name, entry.doc, constructors, count);
        int status = type ? PyDict_SetItemString(l->origin.classes, name, type) : -1;
        Py_XDECREF(type);
        if (status < 0)
            return -1;
    }
    return 0;
}

static int add_attribute(const library_loader *l, const char *name, PyObject *value)
{
    PyObject *text = PyUnicode_FromString(name);
    int status = -1;
    if (text && PyObject_HasAttr(l->module, text))
        PyErr_Format(PyExc_ImportError, "there are two functions '%U'", text);
    else if (text)
        status = PyObject_SetAttr(l->module, text, value);
    Py_XDECREF(text);
    return status;
}

/* Add a member or a constructor to its class. */
static int add_to_class(const library_loader *l, const tenon_signature *s, PyObject *value)
{
    PyObject *name = PyUnicode_FromString(s->name);
    int known = name ? PySet_Contains(l->methods, name) : -1;
    int status = -1;
    PyObject *type = known == 0 ? PyDict_GetItemString(l->origin.classes, s->class_name) : NULL;
    if (known > 0)
        PyErr_Format(PyExc_ImportError, "there are two members '%U'", name);
    else if (type && PySet_Add(l->methods, name) == 0)
        status = tenon__py_class_add(type, s->method ? s->method : "__new__", value);
    else if (known == 0 && !PyErr_Occurred())
        PyErr_NoMemory(); /* PyDict_GetItemString hides what went wrong */
    Py_XDECREF(name);
    return status;
}

static PyObject *constant_value(const tenon_parameter *constant)
{
    const tenon_value *value = &constant->value;
    switch (constant->kind) {
    case TENON_KIND_INT:
        return PyLong_FromLongLong(value->as.integer);
    case TENON_KIND_FLOAT:
        return PyFloat_FromDouble(value->as.number);
    case TENON_KIND_BOOL:
        return PyBool_FromLong(value->as.integer != 0);
    default:
        return PyUnicode_DecodeUTF8(value->as.list.data, (Py_ssize_t)value->as.list.length, "replace");
    }
}

/* Note the text of a constant and its doc, which the value does not have: a dict of the class or the module. */
static int note_constant(PyObject *owner, bool is_class, const tenon_signature *s, const char *doc)
{
    PyObject *notes = PyObject_GetAttrString(owner, TENON__PY_CONSTANTS);
    int status = 0;
    if (!notes) {
        PyErr_Clear();
        notes = PyDict_New();
        status = !notes     ? -1
                 : is_class ? tenon__py_class_add(owner, TENON__PY_CONSTANTS, notes)
                            : PyObject_SetAttrString(owner, TENON__PY_CONSTANTS, notes);
    }
    PyObject *note = status == 0 ? Py_BuildValue("(sz)", s->text, doc) : NULL;
    status = note ? PyDict_SetItemString(notes, s->constant->name, note) : -1;
    Py_XDECREF(note);
    Py_XDECREF(notes);
    return status;
}

static int add_constant(const library_loader *l, const tenon_signature *s, const char *doc)
{
    PyObject *value = constant_value(s->constant);
    int status = !value ? -1 : s->class_name ? add_to_class(l, s, value) : add_attribute(l, s->name, value);
    Py_XDECREF(value);
    PyObject *type = s->class_name ? PyDict_GetItemString(l->origin.classes, s->class_name) : NULL;
    return status < 0 ? -1 : note_constant(type ? type : l->module, type, s, doc);
}

/* The attribute of a module or a class that a function becomes. */
static PyObject *attribute_of(PyObject *function)
{
    int32_t role = ((tenon__py_function *)function)->signature->role;
    if (role != TENON_ROLE_METHOD && role != TENON_ROLE_PROPERTY)
        return tenon__py_callable_new(function);
    PyObject *method = tenon__py_method_new(function);
    if (!method || role == TENON_ROLE_METHOD)
        return method;
    PyObject *property = PyObject_CallFunctionObjArgs((PyObject *)&PyProperty_Type, method, NULL);
    Py_DECREF(method);
    return property;
}

/* Make the callable of a function, and add it to the module or the class. If there is one of that name, the function becomes
 * another entry of it. */
static int add_function(const library_loader *l, const tenon_signature *s, PyObject *function)
{
    bool is_property = s->role == TENON_ROLE_PROPERTY;
    PyObject *first = is_property ? NULL : PyDict_GetItemString(l->callables, s->name);
    if (first)
        return tenon__py_add_overload(first, function);
    PyObject *value = attribute_of(function);
    int status = !value                           ? -1
                 : s->role == TENON_ROLE_FUNCTION ? add_attribute(l, s->name, value)
                                                  : add_to_class(l, s, value);
    if (status == 0 && !is_property)
        status = PyDict_SetItemString(l->callables, s->name, value);
    Py_XDECREF(value);
    return status;
}

static int add_entry(library_loader *l, int64_t index)
{
    tenon_function entry;
    tenon_signature *s = l->signatures[index];
    tenon_module_function(l->origin.library->module, index, &entry);
    if (s->role == TENON_ROLE_CLASS) {
        PyObject *type = PyDict_GetItemString(l->origin.classes, s->name);
        return type ? add_attribute(l, s->name, type) : (PyErr_NoMemory(), -1);
    }
    if (s->role == TENON_ROLE_CONSTANT)
        return add_constant(l, s, entry.doc);
    l->signatures[index] = NULL;
    PyObject *function = tenon__py_function_new(&l->origin, &entry, s);
    int status = function ? add_function(l, s, function) : -1;
    if (status == 0)
        status = add_result_type(l, function);
    Py_XDECREF(function);
    return status;
}

static int add_entries(PyObject *module, tenon__py_library *library, PyObject *name, PyObject *owner)
{
    library_loader l = {.module = module, .origin = {.library = library, .module_name = name, .owner = owner}};
    l.origin.classes = PyDict_New();
    l.callables = PyDict_New();
    l.methods = l.origin.classes && l.callables ? PySet_New(NULL) : NULL;
    int status = l.methods ? compile_signatures(&l) : -1;
    if (status == 0)
        status = make_classes(&l);
    for (int64_t i = 0; status == 0 && i < library->module->nfunctions; i++)
        status = add_entry(&l, i);
    PyObject *key, *type;
    for (Py_ssize_t at = 0; status == 0 && PyDict_Next(l.origin.classes, &at, &key, &type);) {
        status = tenon__py_class_finish(type);
        tenon__py_seal_type(type);
    }
    for (int64_t i = 0; l.signatures && i < library->module->nfunctions; i++)
        tenon_signature_release(l.signatures[i]);
    PyMem_Free((void *)l.signatures);
    Py_XDECREF(l.origin.classes);
    Py_XDECREF(l.callables);
    Py_XDECREF(l.methods);
    return status;
}

/* ----------------------------------------------------------------------------------------------------------- modules */

/* As tenon_py_module; `type` and `owner` as in tenon__py_open_as. */
static PyObject *make_module(const tenon_module *module, const char *name, PyObject *type, PyObject *owner)
{
    tenon_error err;
    if (tenon_module_check(module, &err)) {
        raise_load_error("", &err);
        return NULL;
    }
    PyObject *own_name = PyUnicode_FromFormat("%s", name ? name : module->name);
    PyObject *object = !own_name ? NULL
                       : type    ? PyObject_CallFunctionObjArgs(type, own_name, owner, NULL)
                                 : PyModule_NewObject(own_name);
    tenon__py_library *library = object ? library_new(module) : NULL;
    int status = library ? add_text(object, "__doc__", module->doc) : -1;
    if (status == 0)
        status = add_text(object, "__version__", module->version);
    if (status == 0)
        status = add_entries(object, library, own_name, owner);
    if (library)
        tenon__py_library_release(library);
    Py_XDECREF(own_name);
    if (status < 0) {
        Py_XDECREF(object);
        return NULL;
    }
    return object;
}

PyObject *tenon_py_module(const tenon_module *module, const char *name)
{
    return make_module(module, name, NULL, NULL);
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

PyObject *tenon__py_open_as(const char *path, PyObject *type, PyObject *owner, const tenon_module **found)
{
    tenon_error err;
    PyObject *file = PyUnicode_DecodeFSDefault(path);
    if (!file)
        return NULL;
    tenon_status status = tenon_library_open(path, found, &err);
    if (status == TENON_EFAILED)
        raise_os_error(errno, tenon_error_reason(&err), file);
    else if (status)
        raise_load_error("", &err);
    PyObject *module = status ? NULL : make_module(*found, NULL, type, owner);
    if (module && add_text(module, "__variant__", tenon_library_variant(*found)) < 0)
        Py_CLEAR(module);
    if (module && PyObject_SetAttrString(module, "__file__", file) < 0)
        Py_CLEAR(module);
    if (!module)
        add_file_name(path, file);
    Py_DECREF(file);
    return module;
}

PyObject *tenon_py_open(const char *path)
{
    const tenon_module *found = NULL;
    return tenon__py_open_as(path, NULL, NULL, &found);
}

#endif
