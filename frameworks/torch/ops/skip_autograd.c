/* Calls of torch.ops.ns.f from Python that skip the operator's Autograd kernel, which is Python.
 *
 * An object of this type replaces the builtin function that an operator calls. If direct_call.c would call the C function itself,
 * it calls the builtin function without the Autograd keys, as torch runs everything below autograd: the dispatcher sees the
 * operator. If autograd has to record the call, a recorder does that, and calls this object again without grad mode. */
#include "internal.h"

typedef struct skip_autograd {
    PyObject_HEAD PyObject *original; /* torch's function; NULL once the garbage collector has cleared it */
    PyObject *direct;                 /* what says whether autograd has anything to do */
    PyObject *record;   /* called with all arguments by position if autograd records; NULL: torch does it */
    PyObject *names;    /* a tuple with the names of the parameters */
    PyObject *defaults; /* a tuple with as many items; Ellipsis: it is required */
    uint64_t autograd_keys;
} skip_autograd;

static int skip_traverse(PyObject *self, visitproc visit, void *arg)
{
    const skip_autograd *s = (const skip_autograd *)self;
    Py_VISIT((PyObject *)Py_TYPE(self));
    Py_VISIT(s->original);
    Py_VISIT(s->direct);
    Py_VISIT(s->record);
    Py_VISIT(s->names);
    Py_VISIT(s->defaults);
    return 0;
}

static int skip_clear(PyObject *self)
{
    skip_autograd *s = (skip_autograd *)self;
    Py_CLEAR(s->original);
    Py_CLEAR(s->direct);
    Py_CLEAR(s->record);
    Py_CLEAR(s->names);
    Py_CLEAR(s->defaults);
    return 0;
}

static void skip_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    skip_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF((PyObject *)type);
}

/* The arguments in the order of the parameters, borrowed. False if they do not fit, which torch reports; perhaps with an
 * exception. */
static bool sort_arguments(const skip_autograd *s, PyObject *args, PyObject *keywords, PyObject **out)
{
    Py_ssize_t given = PyTuple_Size(args), count = PyTuple_Size(s->names);
    Py_ssize_t named = keywords ? PyDict_Size(keywords) : 0;
    if (given + named > count)
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = i < given ? PyTuple_GetItem(args, i) : NULL;
        if (!value && named > 0 && (value = PyDict_GetItemWithError(keywords, PyTuple_GetItem(s->names, i))))
            named--;
        out[i] = value ? value : PyTuple_GetItem(s->defaults, i);
        if (out[i] == Py_Ellipsis)
            return false;
    }
    return named == 0;
}

static PyObject *call_below_autograd(const skip_autograd *s, PyObject *args, PyObject *keywords)
{
    uint64_t excluded = tenon__torch_exclude_keys(s->autograd_keys);
    PyObject *result = PyObject_Call(s->original, args, keywords);
    tenon__torch_restore_keys(excluded);
    return result;
}

static PyObject *skip_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    const skip_autograd *s = (const skip_autograd *)self;
    PyObject *sorted[TENON_MAX_PARAMETERS];
    if (!s->original)
        return PyErr_Format(PyExc_RuntimeError, "the operator was unloaded");
    bool fits = sort_arguments(s, args, keywords, sorted);
    tenon__torch_way way = fits               ? tenon__torch_direct_way(s->direct, sorted)
                           : PyErr_Occurred() ? TENON__TORCH_FAILED
                                              : TENON__TORCH_OPERATOR;
    if (way == TENON__TORCH_FAILED)
        return NULL;
    if (way == TENON__TORCH_FUNCTION)
        return call_below_autograd(s, args, keywords);
    if (way == TENON__TORCH_RECORD && s->record)
        return PyObject_Vectorcall(s->record, sorted, (size_t)PyTuple_Size(s->names), NULL);
    return PyObject_Call(s->original, args, keywords);
}

/* torch looks at the attributes of its function, and before 2.15 an operator's hash is that of its function. */
static PyObject *skip_get_attribute(PyObject *self, PyObject *name)
{
    PyObject *original = ((const skip_autograd *)self)->original;
    return original ? PyObject_GetAttr(original, name) : PyObject_GenericGetAttr(self, name);
}

static Py_hash_t skip_hash(PyObject *self)
{
    PyObject *original = ((const skip_autograd *)self)->original;
    return original ? PyObject_Hash(original) : 0;
}

static PyType_Slot skip_slots[] = {
    {Py_tp_traverse, TENON__PY_SLOT(skip_traverse)},
    {Py_tp_clear, TENON__PY_SLOT(skip_clear)},
    {Py_tp_dealloc, TENON__PY_SLOT(skip_dealloc)},
    {Py_tp_call, TENON__PY_SLOT(skip_call)},
    {Py_tp_getattro, TENON__PY_SLOT(skip_get_attribute)},
    {Py_tp_hash, TENON__PY_SLOT(skip_hash)},
    {0, NULL},
};

static PyType_Spec skip_spec = {
    .name = "tenon.SkipAutograd",
    .basicsize = sizeof(skip_autograd),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = skip_slots,
};

PyObject *tenon__torch_make_skip_autograd(PyObject *module, PyObject *parts)
{
    static _Atomic(PyTypeObject *) skip_type; /* torch loads only in the main interpreter */
    PyObject *original, *direct, *record, *names, *defaults;
    unsigned long long keys;
    (void)module;
    if (!PyArg_ParseTuple(parts, "OOOO!O!K:skip_autograd", &original, &direct, &record, &PyTuple_Type, &names,
                          &PyTuple_Type, &defaults, &keys))
        return NULL;
    Py_ssize_t count = tenon__torch_direct_count(direct);
    if (count < 0 || PyTuple_Size(names) != count || PyTuple_Size(defaults) != count)
        return PyErr_Format(PyExc_TypeError, "skip_autograd(): expected a direct path and its parameters");
    PyTypeObject *type = tenon__py_make_type(&skip_type, &skip_spec);
    skip_autograd *self = type ? PyObject_GC_New(skip_autograd, type) : NULL;
    if (!self)
        return NULL;
    Py_INCREF(self->original = original);
    Py_INCREF(self->direct = direct);
    Py_XINCREF(self->record = record == Py_None ? NULL : record);
    Py_INCREF(self->names = names);
    Py_INCREF(self->defaults = defaults);
    self->autograd_keys = keys;
    PyObject_GC_Track((PyObject *)self);
    return (PyObject *)self;
}
