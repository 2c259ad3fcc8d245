/* Operators by name: what their schema says, remembered for the life of the process. */
#include "torch_bridge.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256 };
static _Atomic(tenon_torch_op *) buckets[BUCKETS];

static size_t bucket_of(const char *name, const char *overload)
{
    size_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    for (; *overload; overload++)
        hash = hash * 33 + (unsigned char)*overload;
    return hash % BUCKETS;
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

/* ------------------------------------------------------------------------------------------------------- the schema */

/* Write str(object); takes `object`, which may be NULL. False with an exception. */
static bool read_word(PyObject *object, char *buffer, size_t size)
{
    PyObject *text = object ? PyObject_Str(object) : NULL;
    const char *utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (utf8)
        PyOS_snprintf(buffer, size, "%s", utf8);
    Py_XDECREF(object);
    Py_XDECREF(text);
    return utf8;
}

static tenon__torch_base base_of(const char *kind)
{
    static const struct {
        const char *kind;
        tenon__torch_base base;
    } kinds[] = {{"TensorType", TENON__TORCH_TENSOR},      {"IntType", TENON__TORCH_INT},
                 {"SymIntType", TENON__TORCH_INT},         {"FloatType", TENON__TORCH_FLOAT},
                 {"BoolType", TENON__TORCH_BOOL},          {"StringType", TENON__TORCH_STR},
                 {"ScalarTypeType", TENON__TORCH_DTYPE},   {"DeviceObjType", TENON__TORCH_DEVICE},
                 {"NumberType", TENON__TORCH_SCALAR},      {"LayoutType", TENON__TORCH_LAYOUT},
                 {"MemoryFormatType", TENON__TORCH_LAYOUT}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].kind, kind) == 0)
            return kinds[i].base;
    }
    return TENON__TORCH_OTHER;
}

/* T, T?, T[], T[]? or T?[]; what is nested deeper is left to Python. False with an exception. */
static bool read_type(PyObject *argument, tenon__torch_type *out)
{
    PyObject *type = PyObject_GetAttrString(argument, "real_type");
    char kind[40] = "";
    bool good = type && read_word(PyObject_GetAttrString(argument, "real_type"), out->text, sizeof out->text);
    for (int depth = 0; good; depth++) {
        good = read_word(PyObject_CallMethod(type, "kind", NULL), kind, sizeof kind);
        bool optional = strcmp(kind, "OptionalType") == 0, list = strcmp(kind, "ListType") == 0;
        bool known = (optional && !out->optional_items) || (list && !out->list);
        if (!good || !known || depth == 3)
            break;
        out->optional |= optional && !out->list;
        out->optional_items |= optional && out->list;
        out->list |= list;
        PyObject *element = PyObject_CallMethod(type, "getElementType", NULL);
        Py_DECREF(type);
        type = element;
        good = type;
    }
    out->base = base_of(kind);
    Py_XDECREF(type);
    return good;
}

/* The default of a parameter, in C; where that cannot be, Python will fill it in. Never fails. */
static void read_default(PyObject *object, const tenon__torch_type *type, tenon_torch_value *out)
{
    const char *text = object && PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;
    char *copy = text ? copy_text(text) : NULL;
    if (object == Py_None)
        *out = tenon_torch_value_of(TENON_TORCH_NONE);
    else if (copy)
        *out = tenon_torch_str(copy);
    else if (object && PyBool_Check(object))
        *out = tenon_torch_bool(object == Py_True);
    else if (object && PyFloat_Check(object))
        *out = tenon_torch_float(PyFloat_AsDouble(object));
    else if (object && PyLong_Check(object) && type->base != TENON__TORCH_DTYPE && type->base != TENON__TORCH_LAYOUT)
        *out = tenon_torch_int(PyLong_AsLongLong(object));
    else if (object && PyList_Check(object) && type->base != TENON__TORCH_TENSOR && type->base < TENON__TORCH_STR)
        tenon__torch_take_numbers(object, type->base, out);
    if (PyErr_Occurred()) {
        tenon_torch_value_release(out);
        PyErr_Clear();
    }
}

static bool read_param(PyObject *argument, tenon__torch_param *out)
{
    char name[200];
    if (!read_word(PyObject_GetAttrString(argument, "name"), name, sizeof name) || !read_type(argument, &out->type))
        return false;
    out->name = copy_text(name);
    if (!out->name)
        return PyErr_NoMemory(), false;
    PyObject *has = PyObject_CallMethod(argument, "has_default_value", NULL);
    int truth = has ? PyObject_IsTrue(has) : -1;
    Py_XDECREF(has);
    out->has_default = truth > 0;
    if (truth > 0) {
        PyObject *value = PyObject_GetAttrString(argument, "default_value");
        read_default(value, &out->type, &out->value);
        Py_XDECREF(value);
    }
    return truth >= 0;
}

/* Whether torch's C functions carry it: a type that they do not know may only be None. */
static bool is_carried(const tenon__torch_type *type)
{
    return type->base != TENON__TORCH_SCALAR && type->base != TENON__TORCH_LAYOUT && type->base != TENON__TORCH_OTHER;
}

static bool is_carried_back(const tenon__torch_type *type)
{
    bool number = type->base == TENON__TORCH_INT || type->base == TENON__TORCH_FLOAT || type->base == TENON__TORCH_BOOL;
    return type->base == TENON__TORCH_TENSOR ? !type->optional && !type->optional_items
                                             : number && !type->optional && !type->list;
}

/* Parameters and results. False with an exception. */
static bool read_schema(PyObject *schema, tenon_torch_op *op)
{
    PyObject *arguments = PyObject_GetAttrString(schema, "arguments");
    PyObject *returns = PyObject_GetAttrString(schema, "returns");
    bool good = arguments && returns && PyList_Check(arguments) && PyList_Check(returns);
    if (good) {
        op->nparams = (size_t)PyList_Size(arguments);
        op->nresults = (size_t)PyList_Size(returns);
        op->params = calloc(op->nparams + 1, sizeof *op->params);
        op->results = calloc(op->nresults + 1, sizeof *op->results);
        good = op->params && op->results;
    }
    op->unlocked = op->api->call != NULL;
    for (size_t i = 0; good && i < op->nparams; i++) {
        tenon__torch_param *param = &op->params[i];
        good = read_param(PyList_GetItem(arguments, (Py_ssize_t)i), param);
        op->unlocked &= is_carried(&param->type) || param->type.optional;
    }
    for (size_t i = 0; good && i < op->nresults; i++) {
        good = read_type(PyList_GetItem(returns, (Py_ssize_t)i), &op->results[i]);
        op->unlocked &= is_carried_back(&op->results[i]);
    }
    if (!good && !PyErr_Occurred())
        PyErr_NoMemory();
    Py_XDECREF(arguments);
    Py_XDECREF(returns);
    return good;
}

/* ------------------------------------------------------------------------------------------------------ looking it up */

static void forget(tenon_torch_op *op)
{
    for (size_t i = 0; op->params && i < op->nparams; i++) {
        free(op->params[i].name);
        tenon_torch_value_release(&op->params[i].value);
    }
    free(op->params);
    free(op->results);
    free(op->name);
    free(op->overload);
    Py_XDECREF(op->function);
    free(op);
}

/* What torch has under this name: a new reference, or NULL; an exception is no more than that. */
static PyObject *ask_torch(const tenon__torch_api *api, const char *question, const char *name, const char *overload)
{
    PyObject *module = PyObject_GetAttrString(api->module, "_C");
    PyObject *answer = module ? PyObject_CallMethod(module, question, "ss", name, overload) : NULL;
    Py_XDECREF(module);
    if (answer == Py_None) {
        Py_DECREF(answer);
        answer = NULL;
    }
    if (!answer)
        PyErr_Clear();
    return answer;
}

/* On an attached thread without a pending exception. */
static tenon_torch_op *make(const tenon__torch_api *api, const char *name, const char *overload, tenon_error *err)
{
    PyObject *schema = ask_torch(api, "_get_schema", name, overload);
    PyObject *functions = schema ? ask_torch(api, "_get_operation_overload", name, overload) : NULL;
    tenon_torch_op *op = functions ? calloc(1, sizeof *op) : NULL;
    bool good = op;
    if (!functions)
        tenon_error_set(err, TENON_EINVAL, "tenon_torch_find(): torch %s has no operator %s%s%s", api->report.version,
                        name, *overload ? "." : "", overload);
    else if (!op)
        tenon_error_set(err, TENON_ENOMEM, "tenon_torch_find(): no memory");
    if (good) {
        op->api = api;
        PyOS_snprintf(op->full_name, sizeof op->full_name, "%s%s%s", name, *overload ? "." : "", overload);
        op->name = copy_text(name);
        op->overload = copy_text(overload);
        op->function = PySequence_GetItem(functions, 0);
        good = op->name && op->overload && op->function && read_schema(schema, op);
        if (!good && !PyErr_Occurred())
            PyErr_NoMemory();
        if (!good)
            tenon__torch_take_exception("tenon_torch_find", err);
    }
    Py_XDECREF(schema);
    Py_XDECREF(functions);
    if (op && !good)
        forget(op);
    return good ? op : NULL;
}

static const tenon_torch_op *known(const tenon_torch_op *op, const char *name, const char *overload)
{
    while (op && (strcmp(op->name, name) != 0 || strcmp(op->overload, overload) != 0))
        op = op->next;
    return op;
}

tenon_status tenon_torch_find(const char *name, const char *overload, const tenon_torch_op **out, tenon_error *err)
{
    if (!name || !overload || !out)
        return tenon_error_set(err, TENON_EINVAL, "tenon_torch_find(): argument '%s' is NULL",
                               !name       ? "name"
                               : !overload ? "overload"
                                           : "out");
    _Atomic(tenon_torch_op *) *bucket = &buckets[bucket_of(name, overload)];
    *out = known(atomic_load_explicit(bucket, memory_order_acquire), name, overload);
    if (*out)
        return TENON_OK;
    tenon_error here = {.status = TENON_EFAILED};
    err = err ? err : &here;
    const tenon__torch_api *api = tenon__torch_here(err);
    if (!api)
        return TENON_EFAILED;
    if (!tenon__py_attached_to(api->interp))
        return tenon_error_set(err, TENON_EFAILED,
                               "tenon_torch_find(): %s has not been used yet, and this thread does not hold the "
                               "interpreter's lock: find it before",
                               name);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    tenon_torch_op *op = make(api, name, overload, err);
    PyErr_Restore(type, value, traceback);
    if (!op)
        return err->status;
    /* Where two threads found it at once it is there twice, and the second is never asked for again. */
    op->next = atomic_load(bucket);
    while (!atomic_compare_exchange_weak(bucket, &op->next, op)) {
    }
    *out = op;
    return TENON_OK;
}

bool tenon_torch_unlocked(const tenon_torch_op *op)
{
    return op && op->unlocked;
}
