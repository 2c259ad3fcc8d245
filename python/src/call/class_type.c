/* The types of a library's classes, and their objects. */
#include "internal.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

static tenon__py_instance *instance_of(PyObject *object)
{
    return (tenon__py_instance *)object;
}

/* --------------------------------------------------------------------------------------------------------- objects */

PyObject *tenon__py_instance_new(PyTypeObject *type, tenon__py_library *library, bool is_concurrent, void *object,
                                 void (*destroy)(void *))
{
    tenon__py_instance *self = PyObject_New(tenon__py_instance, type);
    if (!self)
        return NULL;
    self->weak_references = NULL;
    atomic_init(&self->native, NULL);
    tenon__py_lock_init(&self->lock, is_concurrent);
    tenon__py_object *native = tenon__py_object_new(library, object, destroy);
    if (!native) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    atomic_store_explicit(&self->native, native, memory_order_release);
    return (PyObject *)self;
}

/* Every call holds a reference, so none is running. */
static void instance_dealloc(PyObject *object)
{
    tenon__py_instance *self = instance_of(object);
    PyTypeObject *type = Py_TYPE(object);
    if (self->weak_references)
        PyObject_ClearWeakRefs(object);
    tenon__py_object *native = atomic_load_explicit(&self->native, memory_order_acquire);
    if (native)
        tenon__py_object_drop(native);
    tenon__py_lock_clear(&self->lock);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

PyObject *tenon__py_closed_repr(PyObject *object)
{
    PyObject *name = tenon__py_type_name(object);
    PyObject *text = name ? PyUnicode_FromFormat("<closed %U>", name) : NULL;
    Py_XDECREF(name);
    return text;
}

static PyObject *instance_repr(PyObject *object)
{
    if (tenon__py_is_closed(instance_of(object)))
        return tenon__py_closed_repr(object);
    PyObject *name = tenon__py_type_name(object);
    PyObject *text = name ? PyUnicode_FromFormat("<%U at %p>", name, (void *)object) : NULL;
    Py_XDECREF(name);
    return text;
}

static PyObject *instance_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (tenon__py_instance_close(instance_of(self)) < 0)
        return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *instance_exit(PyObject *self, PyObject *unused)
{
    return instance_close(self, unused);
}

static PyObject *instance_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!tenon__py_is_closed(instance_of(self))) {
        Py_INCREF(self);
        return self;
    }
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "__name__");
    if (name)
        PyErr_Format(PyExc_ValueError, "%U.__enter__(): this %U is closed", name, name);
    Py_XDECREF(name);
    return NULL;
}

static PyObject *instance_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(tenon__py_is_closed(instance_of(self)));
}

static PyObject *instance_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    tenon__py_set_error(PyExc_TypeError, self, "an object of a library cannot be pickled or copied");
    return NULL;
}

static PyMethodDef instance_methods[] = {
    {"close", instance_close, METH_NOARGS,
     "close($self)\n--\n\nWait for running calls, and close the object. Arrays that show its memory stay valid. A "
     "closed object "
     "can only be closed again."},
    {"__enter__", instance_enter, METH_NOARGS, NULL},
    {"__exit__", instance_exit, METH_VARARGS, NULL},
    {"__reduce__", instance_reduce, METH_NOARGS, NULL},
    {"__reduce_ex__", instance_reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef instance_attributes[] = {
    {"closed", instance_closed, NULL, "Whether the object is closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef instance_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tenon__py_instance, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static void refuse_instance(PyTypeObject *type, const char *why)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)type, "__name__");
    if (name)
        PyErr_Format(PyExc_TypeError, "%U cannot be %s make one", name, why);
    Py_XDECREF(name);
}

static PyObject *instance_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    refuse_instance(type, "called: it has no constructor; only functions of its library");
    return NULL;
}

/* object.__new__ would make an object without a native one. */
static PyObject *instance_refuse_alloc(PyTypeObject *type, Py_ssize_t count)
{
    (void)count;
    refuse_instance(type, "made by object.__new__(); only its constructor and functions of its library");
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------ types */

static int meta_setattr(PyObject *type, PyObject *name, PyObject *value)
{
    (void)value;
    PyErr_Format(PyExc_TypeError, "cannot set '%S' attribute of immutable type '%S'", name, type);
    return -1;
}

static PyObject *make_class(PyType_Spec *spec)
{
    /* Not static: on Windows the address of a type of Python is not a constant. */
    PyType_Slot meta_slots[] = {
        {Py_tp_base, &PyType_Type},
        {Py_tp_setattro, TENON__PY_SLOT(meta_setattr)},
        {0, NULL},
    };
    PyType_Spec meta_spec = {
        .name = "tenon.ClassType",
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = meta_slots,
    };
    tenon__py_interp *interp = tenon__py_interp_state();
    PyTypeObject *meta = interp ? tenon__py_make_type(&interp->meta_type, &meta_spec) : NULL;
    if (!meta || tenon__py_register_reduce((PyObject *)meta) < 0)
        return NULL;
    return tenon__py_type_of(tenon__py_open_type(meta, spec));
}

static int set_in_class(PyObject *type, const char *name, PyObject *value)
{
    PyObject *text = PyUnicode_InternFromString(name);
    int status = text ? tenon__py_set_in_type(type, text, value) : -1;
    Py_XDECREF(text);
    return status;
}

/* Calls __getitem__ with 0, 1, … until it raises IndexError. */
static PyObject *instance_iterate(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PySeqIter_New(self);
}

/* Python iterates without this method too, but then the class is not an Iterable to type checkers and isinstance(). */
static PyMethodDef iterate_method = {"__iter__", instance_iterate, METH_NOARGS,
                                     "__iter__($self, /)\n--\n\nReturn an iterator over the items."};

/* An iterator is its own iterator. */
static PyObject *instance_itself(PyObject *self, PyObject *unused)
{
    (void)unused;
    Py_INCREF(self);
    return self;
}

static PyMethodDef itself_method = {"__iter__", instance_itself, METH_NOARGS,
                                    "__iter__($self, /)\n--\n\nReturn the iterator itself."};

/* (Bag.load, (state,)) */
static PyObject *instance_reduce_state(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *load = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "load");
    PyObject *state = load ? PyObject_CallMethod(self, "__getstate__", NULL) : NULL;
    PyObject *reduced = state ? Py_BuildValue("(O(O))", load, state) : NULL;
    Py_XDECREF(load);
    Py_XDECREF(state);
    return reduced;
}

static PyMethodDef reduce_methods[] = {{"__reduce__", instance_reduce_state, METH_NOARGS, NULL},
                                       {"__reduce_ex__", instance_reduce_state, METH_O, NULL}};

int tenon__py_class_add(PyObject *type, const char *name, PyObject *value)
{
    return set_in_class(type, name, value);
}

static int add_method(PyObject *type, PyMethodDef *definition)
{
    PyObject *method = PyDescr_NewMethod((PyTypeObject *)type, definition);
    int status = method ? set_in_class(type, definition->ml_name, method) : -1;
    Py_XDECREF(method);
    return status;
}

int tenon__py_class_finish(PyObject *type)
{
    PyObject *members = PyObject_GetAttrString(type, "__dict__");
    if (!members)
        return -1;
    bool iterates = PyMapping_HasKeyString(members, "__iter__");
    bool compares = PyMapping_HasKeyString(members, "__eq__"), hashes = PyMapping_HasKeyString(members, "__hash__");
    bool is_iterator = PyMapping_HasKeyString(members, "__next__");
    bool has_items = PyMapping_HasKeyString(members, "__getitem__");
    bool has_state = PyMapping_HasKeyString(members, "__getstate__");
    Py_DECREF(members);
    int status = 0;
    if (!iterates && (is_iterator || has_items))
        status = add_method(type, is_iterator ? &itself_method : &iterate_method);
    if (status == 0 && compares && !hashes) /* as in a class of Python: equal objects need equal hashes */
        status = set_in_class(type, "__hash__", Py_None);
    for (size_t i = 0; status == 0 && has_state && i < sizeof reduce_methods / sizeof *reduce_methods; i++)
        status = add_method(type, &reduce_methods[i]);
    return status;
}

/* The text signature, which Python removes from the doc, and the words of the class and of its constructors. */
static PyObject *class_doc(const char *name, const char *doc, const tenon__py_constructor *constructors, int32_t count)
{
    if (!count)
        return PyUnicode_FromFormat("%s", doc);
    PyObject *parameters = count > 1 ? PyUnicode_FromString("*args, **kwargs")
                                     : tenon__py_text_signature(constructors->signature, "", false, false);
    PyObject *text = parameters ? PyUnicode_FromFormat("%s(%U)\n--\n\n%s", name, parameters, doc) : NULL;
    for (int32_t i = 0; text && i < count; i++) {
        const char *words = constructors[i].doc ? constructors[i].doc : "";
        PyObject *longer = PyUnicode_FromFormat("%U%s%s%s%s", text, i || *doc ? "\n\n" : "", words,
                                                *words ? "\n\n" : "", constructors[i].signature->text);
        Py_DECREF(text);
        text = longer;
    }
    Py_XDECREF(parameters);
    return text;
}

PyObject *tenon__py_class_new(const tenon__py_origin *origin, const char *name, const char *doc,
                              const tenon__py_constructor *constructors, int32_t count)
{
    PyObject *full_doc = class_doc(name, doc ? doc : "", constructors, count);
    PyObject *full_name = full_doc ? PyUnicode_FromFormat("%U.%s", origin->module_name, name) : NULL;
    const char *name_text = full_name ? PyUnicode_AsUTF8AndSize(full_name, NULL) : NULL;
    const char *doc_text = name_text ? PyUnicode_AsUTF8AndSize(full_doc, NULL) : NULL;
    PyType_Slot slots[] = {
        {Py_tp_new, TENON__PY_SLOT(instance_refuse_new)},
        {Py_tp_alloc, TENON__PY_SLOT(instance_refuse_alloc)},
        {Py_tp_dealloc, TENON__PY_SLOT(instance_dealloc)},
        {Py_tp_repr, TENON__PY_SLOT(instance_repr)},
        {Py_tp_methods, instance_methods},
        {Py_tp_getset, instance_attributes},
        {Py_tp_members, instance_members},
        {Py_tp_doc, (void *)(uintptr_t)doc_text},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = name_text,
        .basicsize = sizeof(tenon__py_instance),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };
    PyObject *type = doc_text ? make_class(&spec) : NULL;
    if (type && origin->owner && tenon__py_class_add(type, TENON__PY_OWNER, origin->owner) < 0)
        Py_CLEAR(type);
    Py_XDECREF(full_doc);
    Py_XDECREF(full_name);
    return type;
}
