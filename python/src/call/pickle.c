/* Pickling of functions and classes: by the library that they came from, or by the name that their module is imported by. */
#include "internal.h"

#include <string.h>

/* What __reduce__ returns for the attribute of a module that has this dotted name; "" is the module itself. A new reference.
 * Takes `name`, which may be NULL with an exception. */
static PyObject *reduce_attribute(PyObject *owner, PyObject *module_name, PyObject *name)
{
    PyObject *reduced = NULL;
    if (name && owner) {
        reduced = PyObject_CallMethod(owner, "reduce", "O", name);
    } else if (name) {
        PyObject *pkgutil = PyImport_ImportModule("pkgutil");
        PyObject *resolve = pkgutil ? PyObject_GetAttrString(pkgutil, "resolve_name") : NULL;
        PyObject *place = resolve ? PyUnicode_FromFormat("%U:%U", module_name, name) : NULL;
        reduced = place ? Py_BuildValue("O(O)", resolve, place) : NULL;
        Py_XDECREF(pkgutil);
        Py_XDECREF(resolve);
        Py_XDECREF(place);
    }
    Py_XDECREF(name);
    return reduced;
}

/* The object that a reduced value stands for. Takes `reduced`, which may be NULL with an exception. */
static PyObject *rebuild(PyObject *reduced)
{
    PyObject *call, *arguments;
    PyObject *object = reduced && PyArg_ParseTuple(reduced, "OO!", &call, &PyTuple_Type, &arguments)
                           ? PyObject_CallObject(call, arguments)
                           : NULL;
    Py_XDECREF(reduced);
    return object;
}

/* ------------------------------------------------------------------------------------------------------- functions */

/* "KDTree.__new__", or what the signature says. */
static PyObject *callable_name(const tenon__py_function *self, const char *end)
{
    bool is_constructor = self->signature->role == TENON_ROLE_CONSTRUCTOR;
    return PyUnicode_FromFormat("%s%s%s", self->signature->name, is_constructor ? ".__new__" : "", end);
}

/* Whether the function has the name of an attribute of its description, as a function `signature` has. Pickle asks the object
 * that was made of the description for that attribute. So such a description is pickled as its module or class. */
static bool is_hidden(const tenon__py_function *self)
{
    return self->signature->role != TENON_ROLE_CONSTRUCTOR &&
           PyObject_HasAttrString((PyObject *)Py_TYPE((PyObject *)(uintptr_t)self), self->method.ml_name);
}

PyObject *tenon__py_function_getattr(PyObject *object, PyObject *name)
{
    const tenon__py_function *self = (const tenon__py_function *)object;
    if (self->signature->has_self || PyUnicode_CompareWithASCIIString(name, self->method.ml_name) != 0 ||
        is_hidden(self))
        return PyObject_GenericGetAttr(object, name);
    return rebuild(reduce_attribute(self->owner, self->module_name, callable_name(self, "")));
}

PyObject *tenon__py_function_reduce(PyObject *object, PyObject *unused)
{
    const tenon__py_function *self = (const tenon__py_function *)object;
    bool is_method = self->signature->has_self;
    (void)unused;
    if (self->is_overload && !self->noverloads)
        return PyErr_Format(PyExc_TypeError,
                            "%s cannot be pickled: pickle %s(), which is overloaded, and choose from its "
                            "description's `overloads`",
                            self->signature->text, self->signature->name);
    if (!is_method && is_hidden(self))
        return reduce_attribute(self->owner, self->module_name,
                                PyUnicode_FromString(self->signature->class_name ? self->signature->class_name : ""));
    PyObject *name = callable_name(self, self->signature->role == TENON_ROLE_PROPERTY ? ".fget.function"
                                         : is_method                                  ? ".function"
                                                                                      : ".__self__");
    PyObject *reduced = reduce_attribute(self->owner, self->module_name, name);
    if (self->owner || !reduced)
        return reduced;
    /* A module that is not imported by its name would be missed only when the pickle is read. */
    Py_INCREF(reduced);
    PyObject *found = rebuild(reduced);
    if (found && found != object)
        PyErr_Format(PyExc_TypeError, "%s() cannot be pickled: another object is found as %U.%s", self->signature->name,
                     self->module_name, self->signature->name);
    if (found != object)
        Py_CLEAR(reduced);
    Py_XDECREF(found);
    return reduced;
}

/* --------------------------------------------------------------------------------------------------------- classes */

/* The name, which pickle imports, if the class has no owner. */
static PyObject *reduce_class(PyObject *self, PyObject *type)
{
    (void)self;
    PyObject *name = PyObject_GetAttrString(type, "__name__");
    PyObject *owner = name ? PyObject_GetAttrString(type, TENON__PY_OWNER) : NULL;
    if (owner) {
        PyObject *reduced = reduce_attribute(owner, NULL, name);
        Py_DECREF(owner);
        return reduced;
    }
    if (name && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    else
        Py_CLEAR(name);
    return name;
}

static PyMethodDef reduce_class_method = {"tenon_reduce_class", reduce_class, METH_O, NULL};

/* pickle asks a class for nothing but its name, unless its metaclass is registered. */
int tenon__py_register_reduce(PyObject *meta)
{
    PyObject *reduce = PyCFunction_New(&reduce_class_method, NULL);
    PyObject *registry = reduce ? PyImport_ImportModule("copyreg") : NULL;
    PyObject *done = registry ? PyObject_CallMethod(registry, "pickle", "OO", meta, reduce) : NULL;
    Py_XDECREF(reduce);
    Py_XDECREF(registry);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
