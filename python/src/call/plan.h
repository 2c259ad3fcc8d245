/* Calls by plan: the arguments of a planned signature, if all of them are as usual. No Python code runs here. */
#ifndef TENON_PY_PLAN_H
#define TENON_PY_PLAN_H

#include "internal.h"

/* Whether an array with another dtype object than the last one has the same dtype. The first such object is kept. */
static TENON__PY_NOINLINE bool tenon__py_has_planned_dtype(const tenon__py_function *function, int32_t i,
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

/* An array without the array struct. */
TENON__PY_INLINE bool tenon__py_plan_other(PyObject *object, const tenon_plan_spec *fast, const tenon__py_kind **kind,
                                           tenon__py_c_tensor *tensor)
{
    if (!*kind || Py_TYPE(object) != atomic_load_explicit(&(*kind)->type, memory_order_relaxed))
        *kind = tenon__py_known_kind(Py_TYPE(object));
    return *kind && (*kind)->read_c_tensor && (*kind)->read_c_tensor(object, tensor) && tensor->ndim == fast->ndim &&
           tenon_dtype_equal(*tensor->dtype, fast->dtype);
}

/* Take all arguments by the signature's plan, which checks them too. False: nothing has happened, and one is unusual.
 * `has_self`: the first one is the object of a method. */
static TENON__PY_ALWAYS_INLINE bool tenon__py_match_planned(tenon__py_frame *f, PyObject *const *given, bool has_self)
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
    int32_t i = 0;
    tensor.no_forward_ad = false;
    if (has_self) {
        if (Py_TYPE(given[0]) != function->classes[0])
            return false;
        args->kind = TENON_KIND_HANDLE;
        args->flags = 0;
        args->as.handle.type = s->params[0].handle;
        i++, fast++, args++;
    }
    for (int32_t count = s->nparams; i < count; i++, fast++, args++) {
        PyObject *object = given[i];
        uint64_t flags = 0;
        if (fast->ndim < 0) {
            if (!tenon__py_take_number(s->params[i].kind, object, args))
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
        } else if (!tenon__py_plan_other(object, fast, &kind, &tensor)) {
            return false;
        }
        if (!tenon_plan_set_view(fast, bound, args, tensor.data, tensor.shape, flags, &borrowed->view,
                                 borrowed->private_.inline_dims))
            return false;
        borrowed->private_.holds = TENON__PY_HOLDS_NOTHING;
        borrowed->private_.object = NULL; /* nothing to hold: the caller does */
        borrowed->private_.table = NULL;
        elements |= borrowed->view.numel;
        like = like ? like : object;
        borrowed++;
    }
    f->elements = elements;
    f->like = like;
    return true;
}

#endif
