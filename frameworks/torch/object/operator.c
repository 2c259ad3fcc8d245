/* Find operators by name, read their schemas, and remember them as long as the process lives. */
#include "internal.h"

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
static bool write_str(PyObject *object, char *buffer, size_t size)
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
    } kinds[] = {{"TensorType", TENON__TORCH_TENSOR},    {"IntType", TENON__TORCH_INT},
                 {"SymIntType", TENON__TORCH_INT},       {"FloatType", TENON__TORCH_FLOAT},
                 {"BoolType", TENON__TORCH_BOOL},        {"StringType", TENON__TORCH_STR},
                 {"ScalarTypeType", TENON__TORCH_DTYPE}, {"DeviceObjType", TENON__TORCH_DEVICE},
                 {"NumberType", TENON__TORCH_SCALAR},    {"ComplexType", TENON__TORCH_COMPLEX},
                 {"LayoutType", TENON__TORCH_LAYOUT},    {"MemoryFormatType", TENON__TORCH_LAYOUT}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].kind, kind) == 0)
            return kinds[i].base;
    }
    return TENON__TORCH_OTHER;
}

/* Read T, T?, T[], T[]? or T?[]. Types that are nested deeper are left to Python. False with an exception. */
static bool read_type(PyObject *argument, tenon__torch_type *out)
{
    PyObject *type = PyObject_GetAttrString(argument, "real_type");
    char kind[40] = "";
    bool good = type && write_str(PyObject_GetAttrString(argument, "real_type"), out->text, sizeof out->text);
    for (int depth = 0; good; depth++) {
        good = write_str(PyObject_CallMethod(type, "kind", NULL), kind, sizeof kind);
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

/* Read the default of a parameter. If C cannot represent it, Python fills it in. Never fails. */
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
    if (!write_str(PyObject_GetAttrString(argument, "name"), name, sizeof name) || !read_type(argument, &out->type))
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

/* Whether torch's C functions can pass this parameter: one of an unknown type can only be None. */
static bool is_carried(const tenon__torch_type *type)
{
    return type->base < TENON__TORCH_SCALAR;
}

static bool is_carried_back(const tenon__torch_type *type)
{
    bool number = type->base == TENON__TORCH_INT || type->base == TENON__TORCH_FLOAT || type->base == TENON__TORCH_BOOL;
    return type->base == TENON__TORCH_TENSOR ? !type->optional && !type->optional_items
                                             : number && !type->optional && !type->list;
}

/* torch's C functions read the results in reverse: each by the type of the one at the mirrored position. */
static bool is_same_type(const tenon__torch_type *a, const tenon__torch_type *b)
{
    return a->base == b->base && a->list == b->list;
}

/* Read the parameters and results. False with an exception. */
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
    for (size_t i = 0; good && i < op->nparams; i++) {
        tenon__torch_param *param = &op->params[i];
        good = read_param(PyList_GetItem(arguments, (Py_ssize_t)i), param);
        op->carried &= is_carried(&param->type) || param->type.optional;
    }
    for (size_t i = 0; good && i < op->nresults; i++) {
        good = read_type(PyList_GetItem(returns, (Py_ssize_t)i), &op->results[i]);
        op->carried &= is_carried_back(&op->results[i]) && is_same_type(&op->results[i], &op->results[0]);
    }
    if (!good && !PyErr_Occurred())
        PyErr_NoMemory();
    Py_XDECREF(arguments);
    Py_XDECREF(returns);
    return good;
}

/* ------------------------------------------------------------------------------------------------------ looking it up */

static void free_op(tenon_torch_op *op)
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
    Py_XDECREF(op->schema);
    Py_XDECREF(op->attributes);
    Py_XDECREF(op->short_name);
    Py_XDECREF(op->packet);
    free(op);
}

/* Call a function of torch._C for an operator: a new reference. NULL if it returned None or failed; an exception is
 * cleared. */
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

/* Whether it was registered by C++, which never unregisters it. torch names the place: "registered at
 * aten/src/ATen/RegisterSchema.cpp:6". */
static bool is_defined_in_cpp(PyObject *entry)
{
    PyObject *text_object = PyObject_CallMethod(entry, "debug", NULL);
    const char *text = text_object ? PyUnicode_AsUTF8AndSize(text_object, NULL) : NULL;
    const char *ending = text ? strrchr(text, '.') : NULL;
    bool is_source = ending && (ending[1] == 'c' || ending[1] == 'h') && !strchr(ending, '/');
    Py_XDECREF(text_object);
    PyErr_Clear();
    return is_source;
}

/* The schema in torch's dispatcher, which does not have TorchScript's own operators: a new reference, or NULL without
 * an exception. *fixed becomes true if the operator can never change. */
static PyObject *ask_dispatcher(const tenon_torch_op *op, bool *fixed)
{
    PyObject *entry = ask_torch(op->api, "_dispatch_find_schema_or_throw", op->name, op->overload);
    PyObject *schema = entry ? PyObject_CallMethod(entry, "schema", NULL) : NULL;
    *fixed = !entry || is_defined_in_cpp(entry);
    PyErr_Clear();
    Py_XDECREF(entry);
    return schema;
}

PyObject *tenon__torch_function(const tenon_torch_op *op)
{
    if (op->fixed) {
        Py_INCREF(op->function);
        return op->function;
    }
    PyObject *functions = ask_torch(op->api, "_get_operation_overload", op->name, op->overload);
    PyObject *function = functions ? PySequence_GetItem(functions, 0) : NULL;
    if (!functions)
        PyErr_SetString(PyExc_RuntimeError, "torch no longer has this operator");
    Py_XDECREF(functions);
    return function;
}

/* Remember the object in torch.ops, which is faster to compare than the schema. Never fails. */
static void remember_packet(tenon_torch_op *op)
{
    const char *colons = strstr(op->name, "::");
    PyObject *space = colons ? PyUnicode_FromStringAndSize(op->name, colons - op->name) : NULL;
    PyObject *ops = space ? PyObject_GetAttrString(op->api->module, "ops") : NULL;
    PyObject *found = ops ? PyObject_GetAttr(ops, space) : NULL;
    op->short_name = found ? PyUnicode_InternFromString(colons + 2) : NULL;
    op->packet = op->short_name ? PyObject_GetAttr(found, op->short_name) : NULL;
    op->attributes = op->packet ? PyObject_GetAttrString(found, "__dict__") : NULL;
    Py_XDECREF(space);
    Py_XDECREF(ops);
    Py_XDECREF(found);
    PyErr_Clear();
}

/* Whether an operator that is not fixed is unchanged. On an attached thread. */
static bool is_current(const tenon_torch_op *op)
{
    if (op->attributes && PyDict_GetItem(op->attributes, op->short_name) == op->packet)
        return true;
    bool fixed;
    tenon__py_scope scope = tenon__py_enter_scope();
    PyObject *schema = ask_dispatcher(op, &fixed);
    bool same = schema && PyObject_RichCompareBool(schema, op->schema, Py_EQ) == 1;
    Py_XDECREF(schema);
    tenon__py_leave_scope(scope);
    return same;
}

tenon_status tenon__torch_check_op(const tenon_torch_op *op, tenon_error *err)
{
    if (!tenon__py_attached_to(op->api->interp))
        return tenon_error_set(err, TENON_EFAILED,
                               "%s: it was defined from Python, but this thread does not hold the lock of the "
                               "interpreter that imported torch",
                               op->full_name);
    if (!is_current(op))
        return tenon_error_set(err, TENON_EINVAL,
                               "%s: the operator was unloaded, or its schema has changed; find it again",
                               op->full_name);
    return TENON_OK;
}

/* On an attached thread without a pending exception. */
static tenon_torch_op *make_op(const tenon__torch_api *api, const char *name, const char *overload, tenon_error *err)
{
    PyObject *schema = ask_torch(api, "_get_schema", name, overload);
    PyObject *functions = schema ? ask_torch(api, "_get_operation_overload", name, overload) : NULL;
    tenon_torch_op *op = functions ? calloc(1, sizeof *op) : NULL;
    bool good = op;
    if (!functions)
        tenon_error_set_in(err, TENON_EINVAL, "tenon_torch_find", "torch %s has no operator %s%s%s",
                           api->report.version, name, *overload ? "." : "", overload);
    else if (!op)
        tenon_error_set_in(err, TENON_ENOMEM, "tenon_torch_find", "out of memory");
    if (good) {
        op->api = api;
        PyOS_snprintf(op->full_name, sizeof op->full_name, "%s%s%s", name, *overload ? "." : "", overload);
        op->name = copy_text(name);
        op->overload = copy_text(overload);
        op->function = PySequence_GetItem(functions, 0);
        good = op->name && op->overload && op->function;
        if (good) {
            op->schema = ask_dispatcher(op, &op->fixed);
            op->carried = api->call && op->schema;
            good = read_schema(schema, op);
        }
        if (good && !op->fixed && api->clears_ops)
            remember_packet(op);
        if (!good && !PyErr_Occurred())
            PyErr_NoMemory();
        if (!good)
            tenon__torch_take_exception("tenon_torch_find", err);
    }
    Py_XDECREF(schema);
    Py_XDECREF(functions);
    if (op && !good)
        free_op(op);
    return good ? op : NULL;
}

static const tenon_torch_op *find_known(const tenon_torch_op *op, const char *name, const char *overload)
{
    while (op && (strcmp(op->name, name) != 0 || strcmp(op->overload, overload) != 0))
        op = op->next;
    return op;
}

/* False if this thread cannot ask; then it cannot call the operator either. */
static bool is_stale(const tenon_torch_op *op)
{
    return !op->fixed && tenon__py_attached_to(op->api->interp) && !is_current(op);
}

tenon_status tenon_torch_find(const char *name, const char *overload, const tenon_torch_op **out, tenon_error *err)
{
    if (!name || !overload || !out)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_torch_find", "argument '%s' is NULL",
                                  !name       ? "name"
                                  : !overload ? "overload"
                                              : "out");
    _Atomic(tenon_torch_op *) *bucket = &buckets[bucket_of(name, overload)];
    *out = find_known(atomic_load_explicit(bucket, memory_order_acquire), name, overload);
    while (*out && is_stale(*out))
        *out = find_known((*out)->next, name, overload);
    if (*out)
        return TENON_OK;
    tenon_error here = {.status = TENON_EFAILED};
    err = err ? err : &here;
    const tenon__torch_api *api = tenon__torch_find_api(err);
    if (!api)
        return TENON_EFAILED;
    if (!tenon__py_attached_to(api->interp))
        return tenon_error_set_in(err, TENON_EFAILED, "tenon_torch_find",
                                  "%s has not been found before, and this thread does not hold the lock "
                                  "of the interpreter that imported torch; find it once with the lock",
                                  name);
    tenon__py_scope scope = tenon__py_enter_scope();
    tenon_torch_op *op = make_op(api, name, overload, err);
    tenon__py_leave_scope(scope);
    if (!op)
        return err->status;
    /* If two threads find an operator at the same time, it is in the list twice, which does no harm. */
    op->next = atomic_load(bucket);
    while (!atomic_compare_exchange_weak(bucket, &op->next, op)) {
    }
    *out = op;
    return TENON_OK;
}

bool tenon_torch_unlocked(const tenon_torch_op *op)
{
    return op && op->carried && op->fixed;
}
