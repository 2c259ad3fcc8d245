/* Calls of operators, and the checks before them. */
#include "internal.h"

#include <stdlib.h>

/* -------------------------------------------------------------------------------------------------------- the checks */

static const char *kind_name(int32_t kind)
{
    static const char *const names[] = {
        "a default",       "None",     "a tensor", "an int",         "a float",          "a bool",
        "a str",           "a dtype",  "a device", "a list of ints", "a list of floats", "a list of tensors",
        "a list of bools", "a complex"};
    return kind >= 0 && kind <= TENON_TORCH_COMPLEX ? names[kind] : "an unknown kind";
}

static bool fits_base(tenon__torch_base base, int32_t kind)
{
    switch (base) {
    case TENON__TORCH_TENSOR:
        return kind == TENON_TORCH_TENSOR;
    case TENON__TORCH_INT:
        return kind == TENON_TORCH_INT;
    case TENON__TORCH_FLOAT:
        return kind == TENON_TORCH_FLOAT || kind == TENON_TORCH_INT;
    case TENON__TORCH_BOOL:
        return kind == TENON_TORCH_BOOL;
    case TENON__TORCH_DTYPE:
        return kind == TENON_TORCH_DTYPE;
    case TENON__TORCH_DEVICE:
        return kind == TENON_TORCH_DEVICE;
    case TENON__TORCH_SCALAR:
        return kind == TENON_TORCH_FLOAT || kind == TENON_TORCH_INT || kind == TENON_TORCH_BOOL ||
               kind == TENON_TORCH_COMPLEX;
    case TENON__TORCH_COMPLEX:
        return kind == TENON_TORCH_COMPLEX;
    case TENON__TORCH_STR:
    case TENON__TORCH_LAYOUT:
        return kind == TENON_TORCH_STR;
    default:
        return false;
    }
}

static bool fits(const tenon__torch_type *type, int32_t kind)
{
    if (kind == TENON_TORCH_NONE)
        return type->optional;
    if (!type->list)
        return fits_base(type->base, kind);
    bool of_scalars = type->base == TENON__TORCH_SCALAR;
    return (type->base == TENON__TORCH_TENSOR && kind == TENON_TORCH_TENSORS) ||
           ((type->base == TENON__TORCH_INT || of_scalars) && kind == TENON_TORCH_INTS) ||
           ((type->base == TENON__TORCH_BOOL || of_scalars) && kind == TENON_TORCH_BOOLS) ||
           ((type->base == TENON__TORCH_FLOAT || of_scalars) && kind == TENON_TORCH_FLOATS);
}

static bool is_list(int32_t kind)
{
    return kind >= TENON_TORCH_INTS && kind <= TENON_TORCH_BOOLS;
}

/* The error in an argument of the right kind, or NULL. */
static const char *find_flaw(const tenon__torch_api *api, const tenon__torch_type *type, const tenon_torch_value *value)
{
    static const char *const gone = ": a handle or list is NULL, or was released";
    int32_t number, index;
    if (value->kind == TENON_TORCH_DTYPE)
        return tenon__torch_dtype_number(api, value->as.dtype, &number) ? NULL : ": torch has no such dtype";
    if (value->kind == TENON_TORCH_DEVICE)
        return tenon__torch_device_number(api, value->as.device, &number, &index) ? NULL : ": torch has no such device";
    if (value->kind == TENON_TORCH_TENSOR)
        return tenon__torch_block_of(value->as.tensor) ? NULL : gone;
    if (value->kind == TENON_TORCH_STR)
        return value->as.list.data ? NULL : gone;
    if (!is_list(value->kind))
        return NULL;
    if (value->as.list.length < 0 || value->as.list.length > INT32_MAX)
        return ": the length of the list is out of range";
    if (value->as.list.length && !value->as.list.data)
        return gone;
    tenon_torch *const *items = value->as.list.data;
    for (int64_t i = 0; value->kind == TENON_TORCH_TENSORS && i < value->as.list.length; i++) {
        if (!tenon__torch_block_of(items[i]) && (items[i] || !type->optional_items))
            return gone;
    }
    return NULL;
}

/* Whether an argument's class has a __torch_function__, which only a call through Python respects. */
static bool is_overridden(const tenon_torch_value *value)
{
    if (value->kind == TENON_TORCH_TENSOR)
        return tenon__torch_block_of(value->as.tensor)->overrides;
    tenon_torch *const *items = value->as.list.data;
    for (int64_t i = 0; value->kind == TENON_TORCH_TENSORS && i < value->as.list.length; i++) {
        if (items[i] && tenon__torch_block_of(items[i])->overrides)
            return true;
    }
    return false;
}

/* Whether a TorchFunctionMode is active on this thread. A thread without the lock cannot tell, and gets false. */
static bool is_in_mode(const tenon__torch_api *api)
{
    if (!tenon__py_attached_to(api->interp))
        return false;
    tenon__py_scope scope = tenon__py_enter_scope();
    PyObject *answer = PyObject_CallNoArgs(api->mode_enabled);
    bool found = answer != Py_False;
    Py_XDECREF(answer);
    tenon__py_leave_scope(scope);
    return found;
}

static tenon_status set_argument_error(const tenon_torch_op *op, const tenon__torch_param *param, tenon_error *err,
                                       const char *before, const char *what)
{
    return tenon_error_set(err, TENON_EINVAL, "%s: argument '%s' (%s)%s%s", op->full_name, param->name,
                           param->type.text, before, what);
}

/* Fill `all` with one value for each parameter. *stable becomes true if torch's C functions do the same as Python. */
static tenon_status fill_arguments(const tenon_torch_op *op, size_t nargs, const tenon_torch_value *args,
                                   tenon_torch_value *all, bool *stable, tenon_error *err)
{
    *stable = op->carried;
    if (nargs > op->nparams || (nargs && !args))
        return tenon_error_set(err, TENON_EINVAL, "%s takes %zu arguments, got %zu", op->full_name, op->nparams,
                               args || !nargs ? nargs : 0);
    for (size_t i = 0; i < op->nparams; i++) {
        const tenon__torch_param *param = &op->params[i];
        bool given = i < nargs && args[i].kind != TENON_TORCH_DEFAULT;
        all[i] = given ? args[i] : param->value;
        if (!given && !param->has_default)
            return set_argument_error(op, param, err, " is missing", "");
        if (given && !fits(&param->type, all[i].kind))
            return set_argument_error(op, param, err, ": got ", kind_name(all[i].kind));
        const char *flaw = given ? find_flaw(op->api, &param->type, &all[i]) : NULL;
        if (flaw)
            return set_argument_error(op, param, err, flaw, "");
        /* False for a default that C cannot represent, and for a value of a type that only Python knows. */
        bool carried = fits(&param->type, all[i].kind) &&
                       (all[i].kind == TENON_TORCH_NONE || param->type.base < TENON__TORCH_SCALAR);
        *stable = *stable && carried && !is_overridden(&all[i]);
    }
    *stable = *stable && !is_in_mode(op->api);
    return TENON_OK;
}

/* `just_found`: the operator was looked up in this call, so a thread with the lock need not check it again. */
static tenon_status call(const tenon_torch_op *op, bool just_found, size_t nargs, const tenon_torch_value *args,
                         size_t nresults, tenon_torch_value *results, tenon_error *err)
{
    enum { MOST_ARGUMENTS = 64, MOST_RESULTS = 16 };
    tenon_torch_value all[MOST_ARGUMENTS], got[MOST_RESULTS];
    bool stable;
    if (!op || (nresults && !results))
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_torch_call", "argument '%s' is NULL",
                                  op ? "results" : "op");
    if (op->nparams > MOST_ARGUMENTS || op->nresults > MOST_RESULTS)
        return tenon_error_set(err, TENON_EINVAL, "%s has more than %d arguments or %d results", op->full_name,
                               MOST_ARGUMENTS, MOST_RESULTS);
    if (nresults > op->nresults)
        return tenon_error_set(err, TENON_EINVAL, "%s returns %zu results, but %zu were requested", op->full_name,
                               op->nresults, nresults);
    bool checked = op->fixed || (just_found && tenon__py_attached_to(op->api->interp));
    tenon_status status = checked ? TENON_OK : tenon__torch_check_op(op, err);
    status = status ? status : fill_arguments(op, nargs, args, all, &stable, err);
    if (status)
        return status;
    status = stable ? tenon__torch_call_stable(op, all, got, err) : tenon__torch_call_python(op, all, got, err);
    for (size_t i = 0; !status && i < op->nresults; i++) {
        if (i < nresults)
            results[i] = got[i];
        else
            tenon_torch_value_release(&got[i]);
    }
    return status;
}

tenon_status tenon_torch_call_op(const tenon_torch_op *op, size_t nargs, const tenon_torch_value *args, size_t nresults,
                                 tenon_torch_value *results, tenon_error *err)
{
    return call(op, false, nargs, args, nresults, results, err);
}

tenon_status tenon_torch_call(const char *name, const char *overload, size_t nargs, const tenon_torch_value *args,
                              size_t nresults, tenon_torch_value *results, tenon_error *err)
{
    const tenon_torch_op *op;
    tenon_status status = tenon_torch_find(name, overload, &op, err);
    return status ? status : call(op, true, nargs, args, nresults, results, err);
}

void tenon_torch_value_release(tenon_torch_value *value)
{
    if (!value)
        return;
    if (value->kind == TENON_TORCH_TENSOR)
        tenon_torch_release(value->as.tensor);
    if (value->kind == TENON_TORCH_TENSORS) {
        tenon_torch *const *items = value->as.list.data;
        for (int64_t i = 0; i < value->as.list.length; i++)
            tenon_torch_release(items[i]);
    }
    if (is_list(value->kind) || value->kind == TENON_TORCH_STR)
        free((void *)(uintptr_t)value->as.list.data);
    *value = tenon_torch_value_of(TENON_TORCH_DEFAULT);
}
