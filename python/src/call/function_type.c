/* A function of a library as a Python object: a builtin whose __self__ has the signature. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ the text signature */

/* "x='mean'": a new reference. inspect.signature accepts only ASCII. */
static PyObject *with_default(const tenon_parameter *param)
{
    const char *literal = param->literal ? param->literal : "None";
    /* inspect.signature() loses the comma of a tuple with one element. */
    size_t length = strlen(literal), comma = length < 3 ? 0 : length - 2;
    while (comma > 0 && literal[comma] == ' ')
        comma--;
    if (*literal == '(' && literal[comma] == ',') {
        PyObject *number = PyUnicode_FromStringAndSize(literal + 1, (Py_ssize_t)comma - 1);
        PyObject *list = number ? PyUnicode_FromFormat("%s=[%U]", param->name, number) : NULL;
        Py_XDECREF(number);
        return list;
    }
    if (*literal != '\'' && *literal != '"')
        return PyUnicode_FromFormat("%s=%s", param->name, literal);
    PyObject *value = PyUnicode_DecodeUTF8(literal + 1, (Py_ssize_t)strlen(literal) - 2, "replace");
    PyObject *text = value ? PyUnicode_FromFormat("%s=%A", param->name, value) : NULL;
    Py_XDECREF(value);
    return text;
}

PyObject *tenon__py_text_signature(const tenon_signature *s, const char *first, bool takes_out, bool takes_like)
{
    PyObject *parts = PyList_New(0);
    int status = parts ? 0 : -1;
    bool star = false;
    int32_t self = s->has_self;
    for (int32_t i = self - 1; status == 0 && i < s->nparams + 2; i++) {
        if (i >= s->nparams ? !(i == s->nparams ? takes_out : takes_like) : i < self && !*first)
            continue;
        PyObject *part = NULL;
        if (!star && i >= s->npositional) {
            star = true;
            part = PyUnicode_FromString("*");
            status = part ? PyList_Append(parts, part) : -1;
            Py_XDECREF(part);
        }
        if (i >= s->nparams) {
            part = PyUnicode_FromString(i == s->nparams ? "out=None" : "like=None");
        } else if (i < self) {
            part = PyUnicode_FromString(first);
        } else {
            const tenon_parameter *param = &s->params[i];
            part = param->flags & TENON_PARAMETER_DEFAULT ? with_default(param) : PyUnicode_FromString(param->name);
        }
        if (status == 0)
            status = part ? PyList_Append(parts, part) : -1;
        Py_XDECREF(part);
    }
    PyObject *comma = status == 0 ? PyUnicode_FromString(", ") : NULL;
    PyObject *joined = comma ? PyUnicode_Join(comma, parts) : NULL;
    Py_XDECREF(comma);
    Py_XDECREF(parts);
    return joined;
}

/* Set the doc of the builtin. Takes `doc`, which may be NULL with an exception. */
static int set_doc(tenon__py_function *self, PyObject *doc)
{
    Py_ssize_t length;
    const char *text = doc ? PyUnicode_AsUTF8AndSize(doc, &length) : NULL;
    char *copy = text ? PyMem_Malloc((size_t)length + 1) : NULL;
    if (copy) {
        memcpy(copy, text, (size_t)length + 1);
        PyMem_Free(self->doc);
        self->doc = copy;
    } else if (text) {
        PyErr_NoMemory();
    }
    Py_XDECREF(doc);
    return copy ? 0 : -1;
}

/* The doc of the builtin. Python removes the text signature from it. */
static int fill_doc(tenon__py_function *self)
{
    const tenon_signature *s = self->signature;
    const char *doc_text = self->function.doc ? self->function.doc : "";
    const char *first = s->has_self ? "$self" : s->role == TENON_ROLE_CONSTRUCTOR ? "cls" : "";
    PyObject *parameters = tenon__py_text_signature(s, first, self->takes_out, self->takes_like);
    PyObject *doc = parameters ? PyUnicode_FromFormat("%s(%U)\n--\n\n%s%s%s", self->method.ml_name, parameters,
                                                      doc_text, *doc_text ? "\n\n" : "", s->text)
                               : NULL;
    Py_XDECREF(parameters);
    return set_doc(self, doc);
}

/* ------------------------------------------------------------------------------------------------------ attributes */

static PyObject *text_or_none(const char *text)
{
    if (text)
        return PyUnicode_FromFormat("%s", text); /* replaces bytes that are not UTF-8 */
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *choices_tuple(const tenon_parameter *item)
{
    int32_t count = item->choices || item->integers ? item->count : 0;
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple && i < count; i++) {
        PyObject *choice =
            item->choices ? PyUnicode_FromString(item->choices[i]) : PyLong_FromLongLong(item->integers[i]);
        if (!choice) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SetItem(tuple, i, choice);
    }
    return tuple;
}

static PyObject *item_dicts(const tenon_parameter *items, int32_t count, bool are_results);

/* (parameters, results) of a callable, or None. */
static PyObject *callback_tuple(const tenon_parameter *item)
{
    const tenon_signature *s = item->callback;
    if (!s)
        return text_or_none(NULL);
    return Py_BuildValue("(NN)", item_dicts(s->params, s->nparams, false), item_dicts(s->results, s->nresults, true));
}

static PyObject *item_dict(const tenon_parameter *item, bool is_result)
{
    static const char *const kinds[] = {"none", "tensor", "int",    "float",   "bool",    "str",
                                        "enum", "ints",   "floats", "tensors", "handle",  "complex",
                                        "uint", "bytes",  "strs",   "dtype",   "callable"};
    const char *fallback = item->flags & TENON_PARAMETER_DEFAULT ? "None" : NULL;
    PyObject *count = (item->kind == TENON_KIND_INTS || item->kind == TENON_KIND_FLOATS) && item->count >= 0
                          ? PyLong_FromLong(item->count)
                          : text_or_none(NULL);
    const tenon_spec *spec = item->items ? item->items : item->spec;
    PyObject *written = PyBool_FromLong(!is_result && spec && (spec->flags & TENON_SPEC_WRITE) ? 1 : 0);
    PyObject *serial = PyBool_FromLong(item->flags & TENON_PARAMETER_SERIAL ? 1 : 0);
    return Py_BuildValue("{sNsssssNsNsNsNsNsNsNsNsN}", "name", text_or_none(item->name), "kind", kinds[item->kind],
                         "type", item->type, "optional", PyBool_FromLong(item->flags & TENON_PARAMETER_OPTIONAL),
                         "keyword_only", PyBool_FromLong(item->flags & TENON_PARAMETER_KEYWORD_ONLY), "default",
                         text_or_none(is_result       ? NULL
                                      : item->literal ? item->literal
                                                      : fallback),
                         "choices", choices_tuple(item), "handle", text_or_none(item->handle), "count", count,
                         "written", written, "serial", serial, "callback", callback_tuple(item));
}

static PyObject *item_dicts(const tenon_parameter *items, int32_t count, bool are_results)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple && i < count; i++) {
        PyObject *dict = item_dict(&items[i], are_results);
        if (!dict) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SetItem(tuple, i, dict);
    }
    return tuple;
}

static PyObject *get_parameters(PyObject *self, void *unused)
{
    const tenon_signature *s = ((tenon__py_function *)self)->signature;
    (void)unused;
    return item_dicts(s->params, s->nparams, false);
}

static PyObject *get_results(PyObject *self, void *unused)
{
    const tenon_signature *s = ((tenon__py_function *)self)->signature;
    (void)unused;
    return item_dicts(s->results, s->nresults, true);
}

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((tenon__py_function *)self)->signature->name);
}

static PyObject *get_signature(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((tenon__py_function *)self)->signature->text);
}

static PyObject *get_doc(PyObject *self, void *unused)
{
    (void)unused;
    return text_or_none(((tenon__py_function *)self)->function.doc);
}

static PyObject *get_module(PyObject *self, void *unused)
{
    PyObject *name = ((tenon__py_function *)self)->module_name;
    (void)unused;
    Py_INCREF(name);
    return name;
}

static PyObject *get_overloads(PyObject *object, void *unused)
{
    const tenon__py_function *self = (const tenon__py_function *)object;
    int32_t count = self->noverloads ? self->noverloads : 1;
    PyObject *tuple = PyTuple_New(count);
    (void)unused;
    for (int32_t i = 0; tuple && i < count; i++) {
        PyObject *entry = i == 0 ? object : (PyObject *)self->overloads[i];
        Py_INCREF(entry);
        PyTuple_SetItem(tuple, i, entry);
    }
    return tuple;
}

static PyObject *copy_itself(PyObject *self, PyObject *unused)
{
    (void)unused;
    Py_INCREF(self);
    return self;
}

static PyGetSetDef function_attributes[] = {
    {"name", get_name, NULL, "The name in the signature.", NULL},
    {"signature", get_signature, NULL, "The signature as the library wrote it.", NULL},
    {"doc", get_doc, NULL, "The library's documentation of it, or None.", NULL},
    {"module", get_module, NULL, "The name of its module.", NULL},
    {"parameters", get_parameters, NULL, "One dict for each parameter.", NULL},
    {"results", get_results, NULL, "One dict for each result.", NULL},
    {"flags", tenon__py_describe_flags, NULL, "A list of the names of its flags.", NULL},
    {"conditions", tenon__py_describe_conditions, NULL, "The conditions of its where clause, as they are written.",
     NULL},
    {"overloads", get_overloads, NULL,
     "Of the first entry of a name: all entries in their order, this one too. Of another one: itself.", NULL},
    {"tensors", tenon__py_describe_tensors, NULL,
     "One dict for each parameter, then for each result, that is a tensor or a list of them; None for the others.",
     NULL},
    {"conversions", tenon__py_get_conversions, NULL, "How many arguments were converted so far.", NULL},
    {"exact", tenon__py_get_exact, NULL, "A callable like the function, which converts no arguments.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef function_methods[] = {
    {"__reduce__", tenon__py_function_reduce, METH_NOARGS, NULL},
    {"__copy__", copy_itself, METH_NOARGS, NULL},
    {"__deepcopy__", copy_itself, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* ------------------------------------------------------------------------------------------------------------ type */

/* A class has methods, which have it as the type of their self. The class breaks such a cycle. */
static int function_traverse(PyObject *object, visitproc visit, void *arg)
{
    const tenon__py_function *self = (const tenon__py_function *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->result_type);
    Py_VISIT(self->owner);
    for (int32_t i = 0; self->classes && i < self->signature->nparams + self->signature->nresults; i++)
        Py_VISIT(self->classes[i]);
    for (int32_t i = 1; i < self->noverloads; i++)
        Py_VISIT((PyObject *)self->overloads[i]);
    return 0;
}

static void function_dealloc(PyObject *object)
{
    tenon__py_function *self = (tenon__py_function *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    tenon__py_function_leave(self);
    for (int32_t i = 0; self->classes && i < self->signature->nparams + self->signature->nresults; i++)
        Py_XDECREF((PyObject *)self->classes[i]);
    PyMem_Free((void *)self->classes);
    for (int32_t i = 1; i < self->noverloads; i++)
        Py_DECREF((PyObject *)self->overloads[i]);
    PyMem_Free((void *)self->overloads);
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++)
        Py_XDECREF(self->names[i]);
    Py_XDECREF(self->module_name);
    Py_XDECREF(self->owner);
    Py_XDECREF(self->result_type);
    PyMem_Free(self->doc);
    for (int32_t i = 0; self->descrs && i < self->signature->nparams; i++)
        Py_XDECREF(self->descrs[i]);
    PyMem_Free((void *)self->descrs);
    Py_XDECREF(self->ordered_keywords);
    if (self->prepared)
        self->prepared->release(self->prepared);
    tenon_signature_release(self->signature);
    tenon__py_library_release(self->library);
    PyObject_GC_Del(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *function_repr(PyObject *object)
{
    const tenon__py_function *self = (const tenon__py_function *)object;
    return PyUnicode_FromFormat("<function %U.%s>", self->module_name, self->signature->text);
}

static PyObject *function_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "tenon.Function cannot be called; only a library makes one");
    return NULL;
}

static PyType_Slot function_slots[] = {
    {Py_tp_new, TENON__PY_SLOT(function_refuse_new)},
    {Py_tp_dealloc, TENON__PY_SLOT(function_dealloc)},
    {Py_tp_traverse, TENON__PY_SLOT(function_traverse)},
    {Py_tp_repr, TENON__PY_SLOT(function_repr)},
    {Py_tp_getattro, TENON__PY_SLOT(tenon__py_function_getattr)},
    {Py_tp_getset, function_attributes},
    {Py_tp_methods, function_methods},
    {Py_tp_doc, "The description of a function: its __self__."},
    {0, NULL},
};

static PyType_Spec function_spec = {
    .name = "tenon.Function",
    .basicsize = sizeof(tenon__py_function),
    .itemsize = sizeof(PyObject *),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = function_slots,
};

/* collections.namedtuple(name, names of the results) */
static PyObject *named_results(const tenon_signature *s, PyObject *module_name)
{
    PyObject *names = PyTuple_New(s->nresults);
    for (int32_t i = 0; names && i < s->nresults; i++) {
        PyObject *name = PyUnicode_FromString(s->results[i].name);
        if (!name) {
            Py_DECREF(names);
            return NULL;
        }
        PyTuple_SetItem(names, i, name);
    }
    PyObject *collections = names ? PyImport_ImportModule("collections") : NULL;
    PyObject *make = collections ? PyObject_GetAttrString(collections, "namedtuple") : NULL;
    PyObject *own_name = !make       ? NULL
                         : s->method ? PyUnicode_FromFormat("%s_%s_result", s->class_name, s->method)
                                     : PyUnicode_FromFormat("%s_result", s->name);
    PyObject *arguments = own_name ? PyTuple_Pack(2, own_name, names) : NULL;
    PyObject *keywords = arguments ? Py_BuildValue("{sO}", "module", module_name) : NULL;
    PyObject *type = keywords ? PyObject_Call(make, arguments, keywords) : NULL;
    Py_XDECREF(names);
    Py_XDECREF(collections);
    Py_XDECREF(make);
    Py_XDECREF(own_name);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    return type;
}

/* Note the classes of the parameters and results. */
static int fill_classes(tenon__py_function *self, PyObject *classes)
{
    const tenon_signature *s = self->signature;
    for (int32_t i = 0; i < s->nparams + s->nresults; i++) {
        const tenon_parameter *item = i < s->nparams ? &s->params[i] : &s->results[i - s->nparams];
        self->has_of_self |= (item->flags & TENON_PARAMETER_OF) && s->has_self && item->owner == 0;
        if (!(item->flags & TENON_PARAMETER_CLASS))
            continue;
        if (!self->classes)
            self->classes = PyMem_Calloc((size_t)s->nparams + (size_t)s->nresults, sizeof(PyTypeObject *));
        PyObject *type = self->classes ? PyDict_GetItemString(classes, item->handle) : NULL;
        if (!type)
            return PyErr_NoMemory(), -1; /* PyDict_GetItemString hides what went wrong */
        Py_INCREF(type);
        self->classes[i] = (PyTypeObject *)type;
        self->nobjects += i < s->nparams;
    }
    return 0;
}

static int fill_function(tenon__py_function *self, PyObject *classes)
{
    const tenon_signature *s = self->signature;
    int32_t tensors = 0, lists = 0;
    for (int32_t i = 0; i < s->nresults; i++) {
        tensors += s->results[i].kind == TENON_KIND_TENSOR;
        lists += s->results[i].kind == TENON_KIND_TENSORS;
    }
    tenon_call_init(&self->call, &tenon__py_host, &self->function, self->library->state, s);
    if (fill_classes(self, classes) < 0)
        return -1;
    for (int32_t i = 0; i < s->nparams; i++) {
        self->takes_handle |= s->params[i].kind == TENON_KIND_HANDLE && !(s->params[i].flags & TENON_PARAMETER_CLASS);
        self->has_framework_handle |= tenon__py_find_handle_type(s->params[i].handle) != NULL;
    }
    self->has_lists = s->nlists > 0 || lists > 0;
    self->needs_clearing = self->has_framework_handle || self->has_of_self || self->has_lists;
    self->enters_self = s->has_self && self->nobjects == 1 && !self->has_of_self;
    self->is_large = s->nparams > TENON__PY_INLINE_PARAMS || s->nresults > TENON__PY_INLINE_RESULTS ||
                     s->ntensors + s->nresults > TENON__PY_INLINE_BORROWS;
    const char *plans = getenv("TENON_PLAN");
    self->is_planned = s->plan != TENON_PLAN_NONE && !self->is_large && !(plans && strcmp(plans, "0") == 0);
    self->is_plain = s->plan == TENON_PLAN_PLAIN && self->is_planned && s->npositional == s->nparams && !self->nobjects;
    if (self->is_plain && !(self->descrs = PyMem_Calloc((size_t)s->nparams, sizeof *self->descrs)))
        return PyErr_NoMemory(), -1;
    self->takes_like = tensors > 0 || lists > 0;
    self->takes_out = tensors == 1 && s->nresults == 1 && !(s->results[0].flags & TENON_PARAMETER_OPEN);
    tenon__py_function_join(self);
    for (int32_t i = 0; i < s->nparams + 2; i++) {
        const char *name = i < s->nparams ? s->params[i].name : i == s->nparams ? "out" : "like";
        if (!(self->names[i] = PyUnicode_InternFromString(name)))
            return -1;
    }
    if (s->named_results && !(self->result_type = named_results(s, self->module_name)))
        return -1;
    self->method.ml_name = s->role == TENON_ROLE_CONSTRUCTOR ? "__new__" : s->method ? s->method : s->name;
    return fill_doc(self);
}

PyObject *tenon__py_function_new(const tenon__py_origin *origin, const tenon_function *entry,
                                 tenon_signature *signature)
{
    tenon__py_interp *interp = tenon__py_interp_state();
    PyTypeObject *type = interp ? tenon__py_make_type(&interp->function_type, &function_spec) : NULL;
    Py_ssize_t names = (Py_ssize_t)signature->nparams + 2;
    tenon__py_function *self = type ? PyObject_GC_NewVar(tenon__py_function, type, names) : NULL;
    if (!self) {
        tenon_signature_release(signature);
        return NULL;
    }
    self->library = tenon__py_library_retain(origin->library);
    self->function = *entry;
    self->signature = signature;
    self->doc = NULL;
    self->descrs = NULL;
    atomic_init(&self->ordered_keywords, NULL);
    atomic_init(&self->conversions, 0);
    atomic_init(&self->prepared, NULL);
    self->interp = interp;
    self->next = self->previous = NULL;
    self->classes = NULL;
    self->nobjects = 0;
    self->takes_handle = self->has_framework_handle = self->has_of_self = false;
    self->is_overload = false;
    self->noverloads = 0;
    self->overloads = NULL;
    self->result_type = NULL;
    self->module_name = origin->module_name;
    Py_INCREF(self->module_name);
    self->owner = origin->owner;
    Py_XINCREF(self->owner);
    for (Py_ssize_t i = 0; i < names; i++)
        self->names[i] = NULL;
    if (fill_function(self, origin->classes) == 0) {
        PyObject_GC_Track((PyObject *)self);
        return (PyObject *)self;
    }
    Py_DECREF((PyObject *)self);
    return NULL;
}

static bool has_class(const tenon__py_function *function, PyObject *const *args, Py_ssize_t nargs)
{
    const tenon_signature *s = function->signature;
    if (nargs >= 1 && args[0] == (PyObject *)function->classes[s->nparams])
        return true;
    PyErr_Format(PyExc_TypeError, "%s.__new__(): the first argument must be the class %U.%s", s->name,
                 function->module_name, s->name);
    return false;
}

/* The `__new__` of a class. */
static PyObject *call_constructor(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    const tenon__py_function *function = (const tenon__py_function *)self;
    if (!has_class(function, args, nargs))
        return NULL;
    return tenon__py_call(self, args + 1, nargs - 1, kwnames);
}

PyObject *tenon__py_callable_new(PyObject *function)
{
    tenon__py_function *self = (tenon__py_function *)function;
    self->method.ml_meth =
        (PyCFunction)(void (*)(void))(self->signature->role == TENON_ROLE_CONSTRUCTOR ? call_constructor
                                      : self->is_plain                                ? tenon__py_call_plain
                                                                                      : tenon__py_call);
    self->method.ml_flags = METH_FASTCALL | METH_KEYWORDS;
    self->method.ml_doc = self->doc;
    return PyCFunction_NewEx(&self->method, function, self->module_name);
}

/* ------------------------------------------------------------------------------------------------------- overloads */

/* "f(*args, **kwargs)", then the words and the signature of each entry. */
static int fill_overloaded_doc(tenon__py_function *first)
{
    const char *self = first->signature->role == TENON_ROLE_METHOD        ? "$self, "
                       : first->signature->role == TENON_ROLE_CONSTRUCTOR ? "cls, "
                                                                          : "";
    PyObject *doc = PyUnicode_FromFormat("%s(%s*args, **kwargs)\n--\n", first->method.ml_name, self);
    for (int32_t i = 0; doc && i < first->noverloads; i++) {
        const tenon__py_function *entry = first->overloads[i];
        const char *words = entry->function.doc ? entry->function.doc : "";
        PyObject *longer =
            PyUnicode_FromFormat("%U\n%s%s%s\n", doc, words, *words ? "\n\n" : "", entry->signature->text);
        Py_DECREF(doc);
        doc = longer;
    }
    PyObject *stripped = doc ? PyObject_CallMethod(doc, "rstrip", NULL) : NULL;
    Py_XDECREF(doc);
    if (set_doc(first, stripped) < 0)
        return -1;
    first->method.ml_doc = first->doc;
    return 0;
}

/* Entries whose results have the same names return the same type. Other types get a number, so that each has its own name in
 * the module. */
static int name_result_type(const tenon__py_function *first, tenon__py_function *entry)
{
    PyObject *fields = entry->result_type ? PyObject_GetAttrString(entry->result_type, "_fields") : NULL;
    int status = entry->result_type && !fields ? -1 : 0;
    for (int32_t i = 0; fields && i < first->noverloads; i++) {
        PyObject *type = first->overloads[i]->result_type;
        PyObject *others = type ? PyObject_GetAttrString(type, "_fields") : NULL;
        status = others ? PyObject_RichCompareBool(fields, others, Py_EQ) : type ? -1 : 0;
        Py_XDECREF(others);
        if (status > 0) {
            Py_INCREF(type);
            Py_DECREF(entry->result_type);
            entry->result_type = type;
        }
        if (status)
            break;
    }
    if (fields && status == 0) {
        PyObject *old = PyObject_GetAttrString(entry->result_type, "__name__");
        PyObject *name = old ? PyUnicode_FromFormat("%U_%d", old, (int)first->noverloads + 1) : NULL;
        status = name && PyObject_SetAttrString(entry->result_type, "__name__", name) == 0 &&
                         PyObject_SetAttrString(entry->result_type, "__qualname__", name) == 0
                     ? 0
                     : -1;
        Py_XDECREF(old);
        Py_XDECREF(name);
    }
    Py_XDECREF(fields);
    return status < 0 ? -1 : 0;
}

int tenon__py_add_overload(PyObject *callable, PyObject *function)
{
    tenon__py_function *first = tenon__py_described(callable), *entry = (tenon__py_function *)function;
    int32_t count = first->noverloads ? first->noverloads : 1;
    tenon__py_function **all =
        PyMem_Realloc((void *)first->overloads, ((size_t)count + 1) * sizeof(tenon__py_function *));
    if (!all)
        return PyErr_NoMemory(), -1;
    all[0] = first;
    first->overloads = all;
    first->noverloads = count;
    first->is_overload = entry->is_overload = true;
    if (name_result_type(first, entry) < 0)
        return -1;
    Py_INCREF(function);
    all[count] = entry;
    first->noverloads = count + 1;
    return fill_overloaded_doc(first);
}
