/* What a signature says of its tensors, as plain Python objects: for code that works out shapes by itself. */
#include "internal.h"

#include <string.h>

/* A tuple of what `make` gives for each index. */
static PyObject *described_tuple(int32_t count, PyObject *(*make)(const void *from, int32_t index), const void *from)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple && i < count; i++) {
        PyObject *item = make(from, i);
        if (!item) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SetItem(tuple, i, item);
    }
    return tuple;
}

/* ----------------------------------------------------------------------------------------------------- dimensions */

typedef struct described_tensor {
    const tenon_signature *signature;
    const tenon_names *names;
    int32_t item;
} described_tensor;

typedef struct described_dim {
    const tenon_names *names;
    tenon_dimension dim;
} described_dim;

/* One step of the code: a number, a name, or an operator. */
static PyObject *described_step(const void *from, int32_t index)
{
    static const char *const operators[] = {"+", "-", "*", "//"};
    const described_dim *d = from;
    const tenon_dimension_op *op = &d->dim.code[index];
    if (op->kind == TENON_OP_NUMBER)
        return PyLong_FromLongLong(op->number);
    return PyUnicode_FromString(op->kind == TENON_OP_NAME ? d->names->dims[op->slot]
                                                          : operators[op->kind - TENON_OP_ADD]);
}

/* (kind, text, name, code) */
static PyObject *described_dimension(const void *from, int32_t index)
{
    static const char *const kinds[] = {"any", "number", "name", "star", "expression", "unknown", "batch"};
    const described_tensor *t = from;
    described_dim d = {.names = t->names};
    tenon_error err;
    if (tenon_signature_dim(t->signature, t->item, index, &d.dim, &err))
        return tenon_py_raise(&err);
    const char *name = d.dim.slot < 0                 ? NULL
                       : d.dim.kind == TENON_DIM_NAME ? t->names->dims[d.dim.slot]
                                                      : t->names->stars[d.dim.slot];
    return Py_BuildValue("(sNzN)", kinds[d.dim.kind], PyUnicode_FromStringAndSize(d.dim.text, d.dim.length), name,
                         described_tuple(d.dim.ncode, described_step, &d));
}

/* -------------------------------------------------------------------------------------------------------- tensors */

static const char *const described_kinds[] = {"real", "integer", "any"}; /* the bits of tenon_dtypes.kinds */

static int32_t described_kind_count(const tenon_dtypes *dtypes)
{
    int32_t count = 0;
    for (int i = 0; i < 3; i++)
        count += (int32_t)(dtypes->kinds >> i & 1);
    return count;
}

/* The dtypes first, then the kinds, as messages list them. */
static PyObject *described_dtype(const void *from, int32_t index)
{
    const tenon_dtypes *dtypes = from;
    char name[64];
    if (index < dtypes->count) {
        tenon_dtype_format(dtypes->items[index], name, sizeof name);
        return PyUnicode_FromString(name);
    }
    int bit = 0;
    for (int32_t left = index - dtypes->count; !(dtypes->kinds >> bit & 1) || left-- > 0;)
        bit++;
    return PyUnicode_FromString(described_kinds[bit]);
}

/* A list with the labels whose bits are set. */
static PyObject *described_names(uint32_t bits, const char *(*word)(int bit, char *room, size_t size))
{
    PyObject *list = PyList_New(0);
    for (int bit = 0; list && bit < 32; bit++) {
        char room[64];
        const char *text = bits >> bit & 1 ? word(bit, room, sizeof room) : NULL;
        PyObject *item = text ? PyUnicode_FromString(text) : NULL;
        if (text && (!item || PyList_Append(list, item) < 0)) {
            Py_DECREF(list);
            list = NULL;
        }
        Py_XDECREF(item);
    }
    return list;
}

static const char *described_device(int bit, char *room, size_t size)
{
    tenon_device_format(tenon_device_of(bit, 0), room, size);
    room[strcspn(room, ":")] = '\0'; /* a device stands for all its ids */
    return room;
}

/* The bits of tenon_spec.flags, then those of described_extra. */
static const char *described_attribute(int bit, char *room, size_t size)
{
    static const char *const labels[] = {NULL,    "rw", "c",         "f",    "dense", "anywhere",
                                         "alias", NULL, "unaligned", "keep", "own",   "convert"};
    (void)room;
    (void)size;
    return bit < (int)(sizeof labels / sizeof *labels) ? labels[bit] : NULL;
}

/* The attributes that are not part of a spec. */
static uint32_t described_extra(const tenon_parameter *item)
{
    return (item->flags & TENON_PARAMETER_KEEP ? 1u << 9 : 0) | (item->flags & TENON_PARAMETER_OWN ? 1u << 10 : 0) |
           (item->flags & TENON_PARAMETER_CONVERT ? 1u << 11 : 0);
}

/* A dict, or None if the item is neither a tensor nor a list of tensors, whose dict describes each of them. */
static PyObject *described_item(const void *from, int32_t index)
{
    const tenon_signature *s = from;
    int32_t nparams = s->nparams;
    const tenon_parameter *item = index < nparams ? &s->params[index] : &s->results[index - nparams];
    const tenon_spec *spec = item->items ? item->items : item->spec;
    if (!spec) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    described_tensor t = {s, &s->names, index};
    bool varies = spec->variable >= 0;
    const tenon_dtypes *dtypes = varies ? &t.names->allowed[spec->variable] : &spec->dtypes;
    /* Messages show the type without its attributes: up to the bracket, or to the "?" after it. */
    const char *end = strchr(spec->text, ']') + 1;
    if (spec->flags & TENON_SPEC_OPTIONAL)
        end = strchr(end, '?') + 1;
    int32_t count = dtypes->count + described_kind_count(dtypes);
    const char *owner = item->flags & TENON_PARAMETER_OF ? s->params[item->owner].name : NULL;
    const char *each = item->flags & TENON_PARAMETER_EACH ? s->params[item->owner].name : NULL;
    return Py_BuildValue("{sNszsNsNsNsNsLszszsz}", "text", PyUnicode_FromStringAndSize(spec->text, end - spec->text),
                         "variable", varies ? t.names->types[spec->variable] : NULL, "dtypes",
                         described_tuple(count, described_dtype, dtypes), "dims",
                         described_tuple(spec->ndims, described_dimension, &t), "devices",
                         described_names(spec->devices, described_device), "attributes",
                         described_names(spec->flags | described_extra(item), described_attribute), "alignment",
                         (long long)spec->alignment, "inplace", spec->flags & TENON_SPEC_INPLACE ? spec->inplace : NULL,
                         "of", owner, "each", each);
}

static const char *described_flag(int bit, char *room, size_t size)
{
    static const char *const labels[] = {"release_lock", "keep_lock", "no_grad_check", "capturable"};
    (void)room;
    (void)size;
    return bit < (int)(sizeof labels / sizeof *labels) ? labels[bit] : NULL;
}

PyObject *tenon__py_describe_flags(PyObject *self, void *unused)
{
    (void)unused;
    return described_names((uint32_t)((tenon__py_function *)self)->function.flags, described_flag);
}

static PyObject *described_condition(const void *from, int32_t index)
{
    return PyUnicode_FromString(((const tenon_signature *)from)->conditions[index]);
}

PyObject *tenon__py_describe_conditions(PyObject *self, void *unused)
{
    const tenon_signature *s = ((tenon__py_function *)self)->signature;
    (void)unused;
    return described_tuple(s->nconditions, described_condition, s);
}

PyObject *tenon__py_describe_tensors(PyObject *self, void *unused)
{
    const tenon_signature *s = ((tenon__py_function *)self)->signature;
    (void)unused;
    return described_tuple(s->nparams + s->nresults, described_item, s);
}
