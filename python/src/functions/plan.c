/* Calls by plan: the arguments of a plain signature, if all of them are as usual. No Python code runs here. */
#include "../producers/numpy.h"
#include "host.h"

/* Whether an array with another dtype object than the last one has the same dtype. The first such object is kept. */
static TENON__PY_NOINLINE bool has_planned_dtype(const tenon__py_function *function, int32_t i,
                                                 const tenon__py_array *array)
{
    const tenon__py_descr *descr = tenon__py_descr_of(array);
    unsigned number = (unsigned)descr->type_num;
    if (number >= TENON__PY_NUMBERS || descr->byteorder != tenon__py_numbers[number].order ||
        !tenon_dtype_equal(tenon__py_numbers[number].dtype, function->signature->fast[i].dtype))
        return false;
    PyObject *none = NULL;
    Py_INCREF(array->descr);
    if (!atomic_compare_exchange_strong(&function->descrs[i], &none, array->descr))
        Py_DECREF(array->descr);
    return true;
}

static inline bool take_array(tenon__py_frame *f, int32_t i, PyObject *object)
{
    const tenon__py_function *function = f->function;
    const tenon__py_array *array = tenon__py_array_of(object);
    tenon_py_borrowed *borrowed = &f->borrowed[f->nborrowed];
    if (array->nd != function->signature->fast[i].ndim || !(array->flags & TENON__PY_ARRAY_C))
        return false;
    if (array->descr != atomic_load_explicit(&function->descrs[i], memory_order_relaxed) &&
        !has_planned_dtype(function, i, array))
        return false;
    if (!tenon__plan_take(&f->base, i, array->data, tenon__py_numbers_of(array->dimensions),
                          tenon__py_array_flags(array), &borrowed->view, borrowed->private_.inline_dims))
        return false;
    borrowed->private_.holds = TENON__PY_HOLDS_NOTHING;
    borrowed->private_.object = NULL; /* nothing to hold: the caller does */
    f->nborrowed++;
    f->elements |= borrowed->view.numel;
    f->like = f->like ? f->like : object;
    return true;
}

static inline bool take_number(tenon__py_frame *f, int32_t i, PyObject *object)
{
    tenon_value *value = &f->base.args[i];
    value->kind = f->base.signature->params[i].kind;
    value->flags = 0;
    if (value->kind == TENON_KIND_FLOAT && PyFloat_CheckExact(object)) {
        value->as.number = PyFloat_AsDouble(object);
        return true;
    }
    if (value->kind == TENON_KIND_INT && PyLong_CheckExact(object)) {
        int overflow;
        value->as.integer = PyLong_AsLongLongAndOverflow(object, &overflow);
        return !overflow;
    }
    value->as.integer = object == Py_True;
    return value->kind == TENON_KIND_BOOL && PyBool_Check(object);
}

bool tenon__py_take_planned(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        PyObject *object = f->given[i];
        bool is_tensor = s->fast[i].ndim >= 0;
        if (is_tensor ? !tenon__py_is_ndarray(object) || !take_array(f, i, object) : !take_number(f, i, object)) {
            f->nborrowed = 0;
            f->elements = 0;
            f->like = NULL;
            return false;
        }
    }
    tenon__plan_end(&f->base);
    return true;
}
