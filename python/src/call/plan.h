/* Calls by plan (tenon/host/plan.h): the arguments of a planned signature, if all of them are as usual. No Python code runs
 * here. */
#ifndef TENON_PY_PLAN_H
#define TENON_PY_PLAN_H

#include "internal.h"

/* The dtype of an array, by its dtype object; NULL if it has none of the usual ones. */
TENON__PY_INLINE const tenon_dtype *tenon__py_array_dtype(const tenon__py_array *array)
{
    const tenon__py_descr *descr = tenon__py_descr_of(array);
    unsigned number = (unsigned)descr->type_num;
    bool known = number < TENON__PY_NUMBERS && descr->byteorder == tenon__py_numbers[number].order;
    return known ? &tenon__py_numbers[number].dtype : NULL;
}

/* Whether an array with another dtype object than the last one has the same dtype. The first such object is kept. */
static TENON__PY_NOINLINE bool tenon__py_has_planned_dtype(const tenon__py_function *function, int32_t i,
                                                           const tenon__py_array *array)
{
    const tenon_dtype *dtype = tenon__py_array_dtype(array);
    if (!dtype || !tenon_dtype_equal(*dtype, function->signature->fast[i].dtype))
        return false;
    PyObject *none = NULL;
    Py_INCREF(array->descr);
    if (!atomic_compare_exchange_strong(&function->descrs[i], &none, array->descr))
        Py_DECREF(array->descr);
    return true;
}

/* An array without the array struct, whose framework has one of its own. `kind` is that of the last such array. */
TENON__PY_INLINE bool tenon__py_read_c_tensor(PyObject *object, const tenon__py_kind **kind, tenon__py_c_tensor *tensor)
{
    if (!*kind || Py_TYPE(object) != atomic_load_explicit(&(*kind)->type, memory_order_relaxed))
        *kind = tenon__py_known_kind(Py_TYPE(object));
    return *kind && (*kind)->read_c_tensor && (*kind)->read_c_tensor(object, tensor);
}

/* The borrow of a tensor that a plan has set: there is nothing to hold, because the caller does. */
TENON__PY_INLINE void tenon__py_plan_borrow(tenon_py_borrowed *borrowed)
{
    borrowed->private_.holds = TENON__PY_HOLDS_NOTHING;
    borrowed->private_.object = NULL;
    borrowed->private_.table = NULL;
}

/* Take all arguments by the plan of a plain signature, which checks them too. False: nothing has happened, and one is unusual. */
static TENON__PY_ALWAYS_INLINE bool tenon__py_match_plain(tenon__py_frame *f, PyObject *const *given)
{
    const tenon__py_function *function = f->function;
    const tenon_signature *s = function->signature;
    const tenon_plan_spec *fast = s->fast;
    const PyTypeObject *array_type = atomic_load_explicit(&tenon__py_global.array_layout.type, memory_order_acquire);
    const tenon__py_kind *kind = NULL;
    PyObject *like = NULL;
    tenon_value *args = f->inline_args;
    tenon_py_borrowed *borrowed = f->inline_borrowed;
    int64_t *bound = f->base.bindings.dims, elements = 0;
    tenon__py_c_tensor tensor;
    tensor.no_forward_ad = false;
    for (int32_t i = 0, count = s->nparams; i < count; i++, fast++, args++) {
        PyObject *object = given[i];
        uint64_t flags = 0;
        if (fast->ndim < 0) {
            if (!tenon__py_take_number(s->params[i].kind, object, args) &&
                !tenon__py_take_simply(function, i, object, args))
                return false;
            continue;
        }
        if (Py_TYPE(object) == array_type) {
            const tenon__py_array *array = tenon__py_array_of(object);
            if (array->nd != fast->ndim || !(array->flags & TENON__PY_ARRAY_C) ||
                (array->descr != atomic_load_explicit(&function->descrs[i], memory_order_relaxed) &&
                 !tenon__py_has_planned_dtype(function, i, array)))
                return false;
            tensor.data = array->data;
            tensor.shape = tenon__py_numbers_of(array->dimensions);
            flags = tenon__py_array_flags(array);
        } else if (!tenon__py_read_c_tensor(object, &kind, &tensor) || tensor.ndim != fast->ndim ||
                   !tenon_dtype_equal(*tensor.dtype, fast->dtype)) {
            return false;
        }
        if (!tenon_plan_set_view(fast, bound, args, tensor.data, tensor.shape, flags, &borrowed->view,
                                 borrowed->private_.inline_dims))
            return false;
        tenon__py_plan_borrow(borrowed);
        elements |= borrowed->view.numel;
        like = like ? like : object;
        borrowed++;
    }
    f->elements = elements;
    f->like = like;
    return true;
}

/* An argument that is not a tensor, without running Python code. */
static bool tenon__py_plan_value(tenon__py_frame *f, int32_t i, PyObject *object)
{
    const tenon_parameter *param = &f->function->signature->params[i];
    tenon_value *value = &f->base.args[i];
    if (!tenon_frame_set_missing(&f->base, i, object != NULL, object == Py_None) &&
        !tenon__py_take_number(param->kind, object, value) && !tenon__py_take_exact_bytes(param->kind, object, value) &&
        !tenon__py_take_simply(f->function, i, object, value))
        return false;
    return !param->checked || value->kind == TENON_KIND_NONE || tenon_plan_bind_value(param, value, &f->base.bindings);
}

/* The self of a method, which is its first argument. */
TENON__PY_INLINE bool tenon__py_plan_self(const tenon__py_frame *f)
{
    PyObject *object = f->argument_objects[0];
    tenon_value *value = &f->base.args[0];
    value->kind = TENON_KIND_HANDLE;
    value->flags = 0;
    value->as.handle.object = NULL; /* set when the call enters it */
    value->as.handle.type = f->function->signature->params[0].handle;
    return object && Py_TYPE(object) == f->function->classes[0];
}

/* The same for any planned signature, whose call has begun. */
static TENON__PY_ALWAYS_INLINE bool tenon__py_match_wide(tenon__py_frame *f)
{
    const tenon_signature *s = f->function->signature;
    const PyTypeObject *array_type = atomic_load_explicit(&tenon__py_global.array_layout.type, memory_order_acquire);
    const tenon__py_kind *kind = NULL;
    tenon_py_borrowed *borrowed = f->inline_borrowed;
    tenon__py_c_tensor tensor;
    tensor.no_forward_ad = false;
    int32_t first = f->function->enters_self;
    if (first && !tenon__py_plan_self(f))
        return false;
    for (int32_t i = first; i < s->nparams; i++) {
        PyObject *object = f->argument_objects[i];
        uint64_t flags = 0;
        if (s->fast[i].ndim < 0 || !object || object == Py_None) {
            if (!tenon__py_plan_value(f, i, object))
                return false;
            continue;
        }
        if (Py_TYPE(object) == array_type) {
            const tenon__py_array *array = tenon__py_array_of(object);
            tensor.dtype = tenon__py_array_dtype(array);
            if (!tensor.dtype || array->nd != s->fast[i].ndim || !(array->flags & TENON__PY_ARRAY_C))
                return false;
            tensor.data = array->data;
            tensor.shape = tenon__py_numbers_of(array->dimensions);
            flags = tenon__py_array_flags(array);
        } else if (!tenon__py_read_c_tensor(object, &kind, &tensor) || tensor.ndim != s->fast[i].ndim) {
            return false;
        }
        if (!tenon_plan_set_view_wide(&f->base, i, *tensor.dtype, tensor.data, tensor.shape, flags, &borrowed->view,
                                      borrowed->private_.inline_dims))
            return false;
        tenon__py_plan_borrow(borrowed);
        f->elements |= borrowed->view.numel;
        f->like = f->like ? f->like : object;
        borrowed++;
    }
    f->nborrowed = (int32_t)(borrowed - f->inline_borrowed);
    return tenon_plan_match_rest(&f->base);
}

#endif
