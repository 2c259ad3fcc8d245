/* Matches the arguments of a call, and its `out`, against a compiled signature. */
#include "spec.h"

#include <inttypes.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------- the fast yes */

_Static_assert(offsetof(tenon__fast_spec, ndim) == offsetof(tenon_view, ndim) - offsetof(tenon_view, device) &&
                   offsetof(tenon__fast_spec, dtype) == offsetof(tenon_view, dtype) - offsetof(tenon_view, device),
               "tenon__plan_take copies them as they are");

tenon__fast_spec tenon__fast_spec_of(const tenon_spec *spec)
{
    tenon__fast_spec fast = {.ndim = -1};
    bool on_cpu = !spec->devices || (spec->devices >> TENON_CPU & 1);
    if (spec->variable >= 0 || spec->dtypes.count != 1 || spec->dtypes.kinds || tenon__code_of(spec)->star >= 0 ||
        !on_cpu || spec->ndims > TENON__FAST_DIMS)
        return fast;
    for (int32_t i = 0; i < spec->ndims; i++) {
        if (tenon__code_of(spec)->dims[i].kind != TENON_DIM_NAME && tenon__code_of(spec)->dims[i].kind != TENON_DIM_ANY)
            return fast;
        fast.slots[i] =
            (int16_t)(tenon__code_of(spec)->dims[i].kind == TENON_DIM_NAME ? tenon__code_of(spec)->dims[i].slot : -1);
    }
    bool written = spec->flags & TENON_SPEC_WRITE; /* a dense view does not overlap itself */
    uint64_t wanted = (spec->flags & TENON_SPEC_C ? TENON_VIEW_C : 0) |
                      (spec->flags & TENON_SPEC_F ? TENON_VIEW_F : 0) |
                      (written || (spec->flags & TENON_SPEC_DENSE) ? TENON_VIEW_DENSE : 0);
    fast.wanted = (uint32_t)wanted;
    fast.looked_at = (uint32_t)(wanted | (written ? TENON_READ_ONLY : 0));
    fast.address_mask = (uint32_t)tenon__address_mask(spec, spec->dtypes.items[0]);
    fast.device = tenon_device_of(TENON_CPU, 0);
    fast.dtype = spec->dtypes.items[0];
    fast.ndim = spec->ndims;
    fast.adds = written ? (uint32_t)TENON_VIEW_WRITTEN : 0;
    return fast;
}

/* The dimensions of a plan are visited in the order of tenon__plan_take: the first one with a name gives it its value. */
static uint32_t bind_by_plan(tenon__fast_spec *fast, uint32_t bound)
{
    for (int32_t i = fast->ndim - 1; i >= 0; i--) {
        int slot = fast->slots[i];
        if (slot >= 0 && !(bound >> slot & 1)) {
            bound |= 1u << slot;
            fast->binds |= 1u << i;
        }
    }
    return bound;
}

static bool is_number(uint32_t kind)
{
    return kind == TENON_KIND_INT || kind == TENON_KIND_FLOAT || kind == TENON_KIND_BOOL;
}

bool tenon__make_plan(const tenon_signature *s, tenon__fast_spec *fast)
{
    uint32_t bound = 0;
    bool planned = s->names.ntypes == 0 && !s->binds_ints && !s->open_results && s->ntensors > 0 &&
                   (s->nwritten == 0 || s->ntensors == 1);
    for (int32_t i = 0; planned && i < s->nparams; i++) {
        bool is_self = s->role == TENON_ROLE_METHOD && i == 0;
        planned = s->params[i].spec ? fast[i].ndim >= 0 : is_self || is_number(s->params[i].kind);
        bound = planned && s->params[i].spec ? bind_by_plan(&fast[i], bound) : bound;
    }
    for (int32_t i = 0; planned && i < s->nresults; i++)
        planned = s->results[i].spec ? fast[s->nparams + i].ndim >= 0 && !s->results[i].spec->devices
                                     : is_number(s->results[i].kind);
    return planned && bound == (uint32_t)((UINT64_C(1) << s->names.ndims) - 1);
}

/* Match a view without an error message, and bind its names. False means "unknown": bind_and_check decides. */
static bool tensor_fits(const tenon_spec *spec, const tenon_view *view, const char *name, tenon_bindings *b)
{
    int32_t variable = spec->variable;
    if (variable < 0) {
        if (!tenon_dtype_equal(spec->dtypes.items[0], view->dtype) && !tenon__dtypes_has(&spec->dtypes, view->dtype))
            return false;
    } else if (b->types_bound >> variable & 1) {
        if (!tenon_dtype_equal(b->types[variable], view->dtype))
            return false;
    } else {
        if (!tenon__dtypes_has(&b->names->allowed[variable], view->dtype))
            return false;
        b->types_bound |= 1u << variable;
        b->types[variable] = view->dtype;
        b->types_from[variable] = name;
    }
    if (tenon__code_of(spec)->star >= 0 || view->ndim != spec->ndims)
        return false;
    for (int32_t i = 0; i < spec->ndims; i++) {
        const tenon__spec_dim *dim = &tenon__code_of(spec)->dims[i];
        int64_t size = view->shape[i], value;
        const char *unbound;
        if (dim->kind == TENON_DIM_NAME) {
            if (b->dims_bound >> dim->slot & 1) {
                if (b->dims[dim->slot] != size)
                    return false;
            } else {
                b->dims_bound |= 1u << dim->slot;
                b->dims[dim->slot] = size;
                b->dims_from[dim->slot] = name;
            }
        } else if (dim->kind == TENON_DIM_NUMBER) {
            if (dim->number != size)
                return false;
        } else if (dim->kind != TENON_DIM_ANY &&
                   (!tenon__spec_evaluate(spec, dim, b, &value, &unbound) || value != size)) {
            return false;
        }
    }
    uint64_t layout = (spec->flags & TENON_SPEC_C ? TENON_VIEW_C : 0) |
                      (spec->flags & TENON_SPEC_F ? TENON_VIEW_F : 0) |
                      (spec->flags & (TENON_SPEC_DENSE | TENON_SPEC_WRITE) ? TENON_VIEW_DENSE : 0);
    if ((view->flags & layout) != layout || ((spec->flags & TENON_SPEC_WRITE) && (view->flags & TENON_READ_ONLY)))
        return false;
    return view->device.device_type == TENON_CPU && (!spec->devices || (spec->devices >> TENON_CPU & 1)) &&
           ((uintptr_t)view->data & tenon__address_mask(spec, view->dtype)) == 0;
}

static bool all_fit(const tenon_signature *s, const tenon_value *args, tenon_bindings *b)
{
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *param = &s->params[i];
        const tenon_value *arg = &args[i];
        if (param->spec) {
            const tenon_view *view = arg->as.view;
            if (arg->kind == TENON_KIND_NONE ? !(param->flags & TENON_PARAMETER_OPTIONAL)
                : !view                      ? true
                : s->fast[i].ndim >= 0       ? !tenon__match_fits(s, i, view, b)
                                             : !tensor_fits(param->spec, view, param->name, b))
                return false;
        } else if (arg->kind == TENON_KIND_NONE && !(param->flags & TENON_PARAMETER_OPTIONAL)) {
            return false;
        } else if (param->dim >= 0 && arg->kind == TENON_KIND_INT) {
            if (b->dims_bound >> param->dim & 1) {
                if (b->dims[param->dim] != arg->as.integer)
                    return false;
            } else {
                b->dims_bound |= 1u << param->dim;
                b->dims[param->dim] = arg->as.integer;
                b->dims_from[param->dim] = param->name;
            }
        }
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------------- two phases */

static const tenon_view *view_of(const tenon_value *arg)
{
    return arg->kind == TENON_KIND_TENSOR ? arg->as.view : NULL;
}

static tenon_status check_int(const tenon_parameter *param, const tenon_value *arg, const tenon_bindings *b,
                              tenon_error *err)
{
    if (b->dims[param->dim] == arg->as.integer)
        return TENON_OK;
    tenon__message m;
    tenon__message_begin(&m, b);
    tenon__text_add(&m.text, " is %" PRId64 ", but %s = %" PRId64, arg->as.integer, b->names->dims[param->dim],
                    b->dims[param->dim]);
    if (b->dims_from[param->dim])
        tenon__text_add(&m.text, " from argument '%s'", b->dims_from[param->dim]);
    return tenon__message_end(&m, TENON_ESHAPE, err);
}

/* A value that is not a tensor was left out, and has no default. */
static tenon_status missing_value(const tenon_parameter *param, const tenon_bindings *b, tenon_error *err)
{
    tenon__message m;
    tenon__message_begin(&m, b);
    tenon__text_add(&m.text, ": expected %s; it cannot be left out", param->type);
    return tenon__message_end(&m, TENON_EINVAL, err);
}

/* Match the first `count` arguments: bind all names, then check each argument. */
static tenon_status bind_and_check(const tenon_signature *s, int32_t count, const tenon_value *args,
                                   const char *const *objects, tenon_bindings *b, tenon_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        const tenon_parameter *param = &s->params[i];
        b->argument = param->name;
        if (param->spec) {
            tenon_spec_bind(param->spec, view_of(&args[i]), b);
        } else if (param->dim >= 0 && args[i].kind == TENON_KIND_INT && !(b->dims_bound >> param->dim & 1)) {
            b->dims_bound |= 1u << param->dim;
            b->dims[param->dim] = args[i].as.integer;
            b->dims_from[param->dim] = param->name;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        const tenon_parameter *param = &s->params[i];
        tenon_status status = TENON_OK;
        b->argument = param->name;
        b->object = objects ? objects[i] : NULL;
        if (param->spec)
            status = tenon_spec_check(param->spec, view_of(&args[i]), b, err);
        else if (args[i].kind == TENON_KIND_NONE && !(param->flags & TENON_PARAMETER_OPTIONAL))
            status = missing_value(param, b, err);
        else if (param->dim >= 0 && args[i].kind == TENON_KIND_INT)
            status = check_int(param, &args[i], b, err);
        if (status == TENON_EINVAL && count < s->nparams) /* a later argument may bind the name */
            status = TENON_OK;
        if (status)
            return status;
    }
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------------- overlap */

/* Whether `view`, which is written to, may share memory with the argument `name`. */
static bool may_share(const tenon_spec *spec, const tenon_view *view, const char *name, const tenon_view *other)
{
    return (spec->flags & TENON_SPEC_ALIAS) ||
           ((spec->flags & TENON_SPEC_INPLACE) && strcmp(spec->inplace, name) == 0 && tenon_view_equal(view, other));
}

static tenon_status refuse_overlap(const tenon_bindings *b, const char *first, const char *second, tenon_error *err)
{
    return tenon_error_set_in(
        err, TENON_EOVERLAP, b->function,
        "argument '%s' shares memory with argument '%s' and is written to; pass a copy of one of them", first, second);
}

static tenon_status check_overlaps(const tenon_signature *s, const tenon_value *args, tenon_bindings *b,
                                   tenon_error *err)
{
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *one = &s->params[i];
        const tenon_view *view = view_of(&args[i]);
        if (!view || !(one->spec->flags & TENON_SPEC_WRITE))
            continue;
        for (int32_t k = 0; k < s->nparams; k++) {
            const tenon_parameter *other = &s->params[k];
            const tenon_view *second = view_of(&args[k]);
            if (k == i || !second || may_share(one->spec, view, other->name, second))
                continue;
            /* If both are written to, it is enough that the other one may share memory with this one. */
            if ((other->spec->flags & TENON_SPEC_WRITE) && may_share(other->spec, second, one->name, view))
                continue;
            if (tenon_view_overlaps(view, second)) {
                b->argument = one->name;
                return refuse_overlap(b, one->name, other->name, err);
            }
        }
    }
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------------- the whole */

tenon_status tenon_signature_match(const tenon_signature *signature, const tenon_value *args,
                                   const char *const *objects, tenon_bindings *bindings, tenon_error *err)
{
    if (!signature || !bindings || (!args && signature->nparams))
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_signature_match", "argument '%s' is NULL",
                                  !signature ? "signature"
                                  : bindings ? "args"
                                             : "bindings");
    tenon__match_begin(signature, bindings);
    if (!all_fit(signature, args, bindings)) {
        tenon__match_begin(signature, bindings);
        tenon_status status = bind_and_check(signature, signature->nparams, args, objects, bindings, err);
        if (status)
            return status;
    }
    return tenon_signature_match_end(signature, args, bindings, err);
}

tenon_status tenon_signature_match_before(const tenon_signature *signature, int32_t count, const tenon_value *args,
                                          const char *const *objects, tenon_bindings *bindings, tenon_error *err)
{
    if (!signature || !bindings || (!args && count > 0) || count < 0 || count > signature->nparams)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_signature_match_before",
                                  "an argument is NULL, or 'count' (%d) is out of range", (int)count);
    tenon__match_begin(signature, bindings);
    return bind_and_check(signature, count, args, objects, bindings, err);
}

tenon_status tenon_signature_match_end(const tenon_signature *signature, const tenon_value *args,
                                       tenon_bindings *bindings, tenon_error *err)
{
    bindings->argument = bindings->object = NULL;
    for (int32_t i = 0; i < signature->names.ndims; i++) {
        if (!(bindings->dims_bound >> i & 1))
            bindings->dims[i] = -1;
    }
    for (int32_t i = 0; i < signature->names.ntypes; i++) {
        if (!(bindings->types_bound >> i & 1))
            bindings->types[i] = tenon_dtype_of(0, 0, 0);
    }
    return signature->nwritten && signature->ntensors > 1 ? check_overlaps(signature, args, bindings, err) : TENON_OK;
}

tenon_status tenon_signature_match_out(const tenon_signature *signature, int32_t index, const tenon_view *out,
                                       const tenon_value *args, tenon_device device, tenon_bindings *bindings,
                                       tenon_error *err)
{
    const tenon_spec *spec =
        signature && index >= 0 && index < signature->nresults ? signature->results[index].spec : NULL;
    if (!spec || !out || !bindings || (!args && signature->nparams))
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_signature_match_out",
                                  "an argument is NULL, or result %d is not a tensor", index);
    if (signature->results[index].flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF))
        return tenon_error_set_in(err, TENON_EINVAL, signature->name,
                                  "argument 'out': result %d is in memory that the function gives", (int)index);
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    tenon_status status = tenon_signature_result(signature, index, bindings, &dtype, &ndim, shape, err);
    if (status) /* otherwise any size would match a name without a value */
        return status;
    bindings->argument = "out";
    status = tenon_spec_check(spec, out, bindings, err);
    bindings->argument = NULL;
    if (status)
        return status;
    bool on_cpu = tenon_device_on_host(device);
    if (on_cpu ? !tenon_device_on_host(out->device) : !tenon_device_equal(out->device, device))
        return tenon_error_set_in(err, TENON_EDEVICE, signature->name,
                                  "argument 'out' is on %s, but the call runs on %s; pass one that is there",
                                  tenon__device_phrase(out->device).text, tenon__device_phrase(device).text);
    for (int32_t i = 0; i < signature->nparams; i++) {
        const tenon_view *view = view_of(&args[i]);
        if (view && !may_share(spec, out, signature->params[i].name, view) && tenon_view_overlaps(out, view))
            return refuse_overlap(bindings, "out", signature->params[i].name, err);
    }
    return TENON_OK;
}
