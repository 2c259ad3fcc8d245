/* The methods of classes: descriptors that Python calls without making a bound method. */
#include "internal.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

typedef struct method_object {
    PyObject_HEAD vectorcallfunc call;
    tenon__py_function *function;
} method_object;

static const tenon_signature *method_signature(PyObject *self)
{
    return ((method_object *)self)->function->signature;
}

/* ----------------------------------------------------------------------------------------------------------- calls */

static PyObject *method_call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    PyObject *function = (PyObject *)((method_object *)self)->function;
    return tenon__py_call(function, args, PyVectorcall_NARGS(nargs), kwnames);
}

tenon__py_function *tenon__py_described(PyObject *callable)
{
    return (tenon__py_function *)(PyCFunction_Check(callable) ? PyCFunction_GetSelf(callable)
                                                              : (PyObject *)((method_object *)callable)->function);
}

/* __repr__ works on a closed object too. */
static PyObject *method_call_repr(PyObject *self, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    const tenon__py_function *function = ((method_object *)self)->function;
    if (PyVectorcall_NARGS(nargs) == 1 && Py_TYPE(args[0]) == function->classes[0] &&
        tenon__py_is_closed((tenon__py_instance *)args[0]))
        return tenon__py_closed_repr(args[0]);
    return method_call(self, args, nargs, kwnames);
}

/* The end of an iteration. */
static PyObject *method_call_next(PyObject *self, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    PyObject *item = method_call(self, args, nargs, kwnames);
    if (!item && PyErr_ExceptionMatches(PyExc_IndexError)) {
        PyErr_Clear();
        PyErr_SetNone(PyExc_StopIteration);
    }
    return item;
}

/* An object of another type may know how to compare itself with this one. */
static PyObject *method_call_eq(PyObject *self, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    const tenon__py_function *function = ((method_object *)self)->function;
    if (PyVectorcall_NARGS(nargs) == 2 && Py_TYPE(args[0]) == function->classes[0] &&
        Py_TYPE(args[1]) != function->classes[0]) {
        Py_INCREF(Py_NotImplemented);
        return Py_NotImplemented;
    }
    return method_call(self, args, nargs, kwnames);
}

static vectorcallfunc call_of(const char *name)
{
    return strcmp(name, "__repr__") == 0   ? method_call_repr
           : strcmp(name, "__next__") == 0 ? method_call_next
           : strcmp(name, "__eq__") == 0   ? method_call_eq
                                           : method_call;
}

/* Make a bound method, for code that does not call it at once. */
static PyObject *method_bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    if (!object || object == Py_None) {
        Py_INCREF(self);
        return self;
    }
    return tenon__py_bind(self, object);
}

/* ------------------------------------------------------------------------------------------------------ attributes */

static PyObject *method_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(method_signature(self)->method);
}

static PyObject *method_qualname(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(method_signature(self)->name);
}

/* The doc is "query($self, x)\n--\n\nwords". */
static const char doc_mark[] = ")\n--\n\n";

static PyObject *method_text_signature(PyObject *self, void *unused)
{
    const char *doc = ((method_object *)self)->function->doc, *start = strchr(doc, '('), *end = strstr(doc, doc_mark);
    (void)unused;
    return PyUnicode_FromStringAndSize(start, end - start + 1);
}

static PyObject *method_doc(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(strstr(((method_object *)self)->function->doc, doc_mark) + strlen(doc_mark));
}

static PyObject *method_class(PyObject *self, void *unused)
{
    PyObject *type = (PyObject *)((method_object *)self)->function->classes[0];
    (void)unused;
    Py_INCREF(type);
    return type;
}

static PyObject *method_function(PyObject *self, void *unused)
{
    PyObject *function = (PyObject *)((method_object *)self)->function;
    (void)unused;
    Py_INCREF(function);
    return function;
}

static PyGetSetDef method_attributes[] = {
    {"__name__", method_name, NULL, NULL, NULL},
    {"__qualname__", method_qualname, NULL, NULL, NULL},
    {"__doc__", method_doc, NULL, NULL, NULL},
    {"__text_signature__", method_text_signature, NULL, NULL, NULL},
    {"__objclass__", method_class, NULL, NULL, NULL},
    {"function", method_function, NULL, "Its description, a tenon.Function.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* getattr(KDTree, 'query'). The method of a property is not an attribute of the class. */
static PyObject *method_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (method_signature(self)->role == TENON_ROLE_PROPERTY)
        return PyErr_Format(PyExc_TypeError, "%s cannot be pickled: it is the method of a property",
                            method_signature(self)->name);
    PyObject *builtins = PyImport_ImportModule("builtins");
    PyObject *get = builtins ? PyObject_GetAttrString(builtins, "getattr") : NULL;
    Py_XDECREF(builtins);
    return get ? Py_BuildValue("N(Os)", get, ((method_object *)self)->function->classes[0],
                               method_signature(self)->method)
               : NULL;
}

static PyMethodDef method_methods[] = {
    {"__reduce__", method_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(method_object, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* ------------------------------------------------------------------------------------------------------------ type */

static int method_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)((method_object *)self)->function);
    return 0;
}

static void method_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_DECREF((PyObject *)((method_object *)self)->function);
    PyObject_GC_Del(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *method_repr(PyObject *self)
{
    const tenon_signature *s = method_signature(self);
    return PyUnicode_FromFormat("<method '%s' of '%U.%s' objects>", s->method,
                                ((method_object *)self)->function->module_name, s->class_name);
}

static PyObject *method_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "tenon.Method cannot be called; only a library makes one");
    return NULL;
}

static PyType_Slot method_slots[] = {
    {Py_tp_new, TENON__PY_SLOT(method_refuse_new)},
    {Py_tp_dealloc, TENON__PY_SLOT(method_dealloc)},
    {Py_tp_traverse, TENON__PY_SLOT(method_traverse)},
    {Py_tp_repr, TENON__PY_SLOT(method_repr)},
    {Py_tp_call, TENON__PY_SLOT(PyVectorcall_Call)},
    {Py_tp_descr_get, TENON__PY_SLOT(method_bind)},
    {Py_tp_getset, method_attributes},
    {Py_tp_methods, method_methods},
    {Py_tp_members, method_members},
    {0, NULL},
};

static PyType_Spec method_spec = {
    .name = "tenon.Method",
    .basicsize = sizeof(method_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = method_slots,
};

PyObject *tenon__py_method_new(PyObject *function)
{
    tenon__py_interp *interp = tenon__py_interp_state();
    PyTypeObject *type = interp ? tenon__py_make_type(&interp->method_type, &method_spec) : NULL;
    method_object *self = type ? PyObject_GC_New(method_object, type) : NULL;
    if (!self)
        return NULL;
    self->function = (tenon__py_function *)function;
    Py_INCREF(function);
    self->call = call_of(self->function->signature->method);
    PyObject_GC_Track((PyObject *)self);
    return (PyObject *)self;
}
