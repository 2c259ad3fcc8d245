/* Matches the arguments of a call, and its `out`, against a compiled signature. */
#include "compiled_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Compilers think that these are too long for two callers; every call that is not by plan goes through one of them. */
#if defined(__GNUC__) && !defined(TENON__COVERAGE)
#define MATCH_INLINE static inline __attribute__((__always_inline__))
#else
#define MATCH_INLINE static inline
#endif

/* The phrases of a host for messages about the arguments of a call. */
typedef struct argument_phrases {
    const char *const *objects; /* "numpy.ndarray" for each; may be NULL */
    tenon_dtype_format_fn format_dtype;
    tenon_frame *frame; /* for the items of lists, which are described one at a time */
    bool converts;      /* arguments that can be converted count as a match */
} argument_phrases;

/* --------------------------------------------------------------------------------------------------------- the plan */

_Static_assert(offsetof(tenon_plan_spec, ndim) == offsetof(tenon_view, ndim) - offsetof(tenon_view, device) &&
                   offsetof(tenon_plan_spec, dtype) == offsetof(tenon_view, dtype) - offsetof(tenon_view, device),
               "tenon_plan_set_view copies them as they are");

tenon_plan_spec tenon__plan_spec_of(const tenon_spec *spec)
{
    tenon_plan_spec fast = {.ndim = -1, .spec = spec};
    const tenon__spec_code *code = tenon__code_of(spec);
    bool has_one_dtype = spec->variable < 0 && spec->dtypes.count == 1 && !spec->dtypes.kinds;
    if (code->star >= 0 || !code->on_cpu || spec->ndims > TENON_PLAN_DIMS)
        return fast;
    for (int32_t i = 0; i < spec->ndims; i++) {
        bool named = code->dims[i].kind == TENON_DIM_NAME, numbered = code->dims[i].kind == TENON_DIM_NUMBER;
        if (!named && !numbered && code->dims[i].kind != TENON_DIM_ANY)
            return fast;
        fast.slots[i] = (int16_t)(named ? code->dims[i].slot : -1);
        fast.sizes[i] = numbered ? code->dims[i].number : -1;
    }
    fast.flags_wanted = code->flags_wanted;
    fast.flags_checked = code->flags_checked;
    fast.flags_added = spec->flags & TENON_SPEC_WRITE ? (uint32_t)TENON_VIEW_WRITTEN : 0;
    fast.device = tenon_device_of(TENON_CPU, 0);
    if (has_one_dtype) {
        fast.address_mask = (uint32_t)tenon__address_mask(spec, spec->dtypes.items[0]);
        fast.dtype = spec->dtypes.items[0];
    }
    fast.ndim = spec->ndims;
    return fast;
}

/* The dimensions of a plan are visited in the order of tenon_plan_set_view: the first one with a name gives it its value. */
static uint32_t bind_by_plan(tenon_plan_spec *fast, uint32_t bound)
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

static bool is_plain_spec(const tenon_plan_spec *fast)
{
    bool plain = fast->ndim >= 0 && fast->dtype.bits && !(fast->spec->flags & TENON_SPEC_OPTIONAL);
    for (int32_t i = 0; i < fast->ndim; i++)
        plain = plain && fast->sizes[i] < 0;
    return plain;
}

static bool has_wide_plan(const tenon_signature *s, const tenon_plan_spec *fast)
{
    bool planned = !s->nlists && !s->ncallables && !s->nbatched;
    for (int32_t i = 0; planned && i < s->nparams; i++)
        planned = s->params[i].spec
                      ? fast[i].ndim >= 0
                      : s->params[i].kind != TENON_KIND_HANDLE || (s->params[i].flags & TENON_PARAMETER_CLASS);
    for (int32_t i = 0; planned && i < s->nresults; i++)
        planned = !s->results[i].items;
    return planned;
}

int32_t tenon__make_plan(const tenon_signature *s, tenon_plan_spec *fast)
{
    uint32_t bound = 0;
    bool plain = s->names.ntypes == 0 && !s->binds_ints && !s->open_results && s->ntensors > 0 && s->nconditions == 0 &&
                 (s->nwritten == 0 || s->ntensors == 1);
    for (int32_t i = 0; plain && i < s->nparams; i++) {
        bool is_self = s->has_self && i == 0;
        plain = s->params[i].spec ? is_plain_spec(&fast[i])
                                  : is_self || (is_number(s->params[i].kind) && !s->params[i].integers);
        bound = plain && s->params[i].spec ? bind_by_plan(&fast[i], bound) : bound;
    }
    for (int32_t i = 0; plain && i < s->nresults; i++)
        plain = s->results[i].spec ? is_plain_spec(&fast[s->nparams + i]) && !s->results[i].spec->devices
                                   : is_number(s->results[i].kind);
    plain = plain && bound == (uint32_t)((UINT64_C(1) << s->names.ndims) - 1);
    return plain ? TENON_PLAN_PLAIN : has_wide_plan(s, fast) ? TENON_PLAN_WIDE : TENON_PLAN_NONE;
}

bool tenon_plan_bind_dtype(const tenon_plan_spec *fast, tenon_dtype dtype, const void *data, const char *name,
                           tenon_bindings *bindings)
{
    const tenon_spec *spec = fast->spec;
    bindings->argument = name;
    bool fits = spec->variable >= 0 ? tenon__bind_variable(spec->variable, dtype, bindings)
                                    : tenon_dtypes_has(&spec->dtypes, dtype);
    return fits && !((uintptr_t)data & tenon__address_mask(spec, dtype));
}

/* ----------------------------------------------------------------------------------------------------- two rounds */

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

/* A mistake of the host: the function would read the value as another kind than it is. */
static tenon_status other_kind(const tenon_parameter *param, const tenon_value *arg, const tenon_bindings *b,
                               tenon_error *err)
{
    tenon__message m;
    tenon__message_begin(&m, b);
    tenon__text_add(&m.text, ": expected %s, but the host has set a value that is %s", param->type,
                    tenon__kind_name(arg->kind));
    return tenon__message_end(&m, TENON_EFAILED, err);
}

/* tenon__spec_fits for a spec that is simple enough for a plan, in a quarter of the instructions: most specs are. The number of
 * dimensions is right. */
static inline bool fits_simply(const tenon_plan_spec *simple, const tenon_view *view, const char *name,
                               tenon_bindings *b)
{
    bool fits = memcmp(&view->dtype, &simple->dtype, sizeof view->dtype) == 0 ||
                (!simple->dtype.bits && tenon_plan_bind_dtype(simple, view->dtype, view->data, name, b));
    for (int32_t i = 0; i < simple->ndim; i++) {
        if (simple->slots[i] >= 0 ? !tenon_plan_bind_size(simple->slots[i], view->shape[i], name, b)
                                  : simple->sizes[i] >= 0 && simple->sizes[i] != view->shape[i])
            fits = false;
    }
    return fits && ((uint32_t)view->flags & simple->flags_checked) == simple->flags_wanted &&
           !((uint32_t)(uintptr_t)view->data & simple->address_mask) && view->device.device_type == TENON_CPU;
}

static bool bind_tensor(const tenon_parameter *param, const tenon_view *view, tenon_bindings *b)
{
    b->argument = param->name;
    return view && param->spec && tenon__spec_fits(param->spec, view, b);
}

/* Whether items of any shape fit: "[f32[*_]]". */
static bool has_any_shape(const tenon_spec *spec)
{
    const tenon__spec_dim *dim = tenon__code_of(spec)->dims;
    return spec->ndims == 1 && dim->kind == TENON_DIM_STAR && dim->slot < 0;
}

/* Whether two views differ in nothing but their shape, strides and address. */
static bool is_alike(const tenon_view *a, const tenon_view *b)
{
    return a->flags == b->flags && memcmp(&a->dtype, &b->dtype, sizeof a->dtype) == 0 &&
           memcmp(&a->device, &b->device, sizeof a->device) == 0; /* without padding: one comparison each */
}

/* The names of a list's items: the first item binds them, because all have the same ones. */
static bool bind_list(const tenon_signature *s, int32_t index, const tenon_value *list, tenon_bindings *b)
{
    const tenon_parameter *param = &s->params[index];
    const tenon_plan_spec *simple = &s->fast_items[index];
    const tenon_view *views = list->as.list.data;
    bool any_shape = list->as.list.length && has_any_shape(param->items), fit = true;
    uint64_t mask = any_shape ? tenon__address_mask(param->items, views->dtype) : 0;
    b->argument = param->first;
    for (int64_t i = 0; i < list->as.list.length; i++) {
        if (any_shape && i > 0 && fit && is_alike(views, &views[i]) && !((uintptr_t)views[i].data & mask))
            continue; /* as the first one */
        if (views[i].ndim == simple->ndim ? !fits_simply(simple, &views[i], param->first, b)
                                          : !tenon__spec_fits(param->items, &views[i], b))
            fit = false;
    }
    return fit;
}

static bool is_choice(const tenon_parameter *param, int64_t integer)
{
    for (int32_t i = 0; i < param->count; i++)
        if (param->integers[i] == integer)
            return true;
    return false;
}

bool tenon_plan_bind_value(const tenon_parameter *param, const tenon_value *value, tenon_bindings *b)
{
    bool fits = param->dim < 0 || tenon_plan_bind_size(param->dim, value->as.integer, param->name, b);
    if (param->variable >= 0) {
        b->argument = param->name;
        return tenon__bind_variable(param->variable, value->as.dtype, b);
    }
    return fits && (!param->integers || is_choice(param, value->as.integer));
}

/* The same without dimensions, with a message. */
static tenon_status check_value(const tenon_parameter *param, const tenon_value *value, tenon_bindings *b,
                                tenon_error *err)
{
    if (param->variable >= 0)
        return tenon__check_variable(param->variable, value->as.dtype, param->type, b, err);
    if (!param->integers || is_choice(param, value->as.integer))
        return TENON_OK;
    tenon__message m;
    tenon__message_begin(&m, b);
    tenon__text_add(&m.text, ": expected %s, got %" PRId64, param->type, value->as.integer);
    return tenon__message_end(&m, TENON_EINVAL, err);
}

/* The first round: bind the names, and compare what can be compared without an error message. False means "unknown", not
 * "mismatch": check_arguments decides. */
MATCH_INLINE bool bind_arguments(const tenon_signature *s, int32_t count, const tenon_value *args, tenon_bindings *b)
{
    bool fit = true;
    for (int32_t i = 0; i < count; i++) {
        const tenon_parameter *param = &s->params[i];
        const tenon_view *view = args[i].as.view;
        if (args[i].kind == TENON_KIND_TENSOR) {
            if (view && view->ndim == s->fast[i].ndim ? !fits_simply(&s->fast[i], view, param->name, b)
                                                      : !bind_tensor(param, view, b))
                fit = false;
        } else if (args[i].kind != param->kind) {
            if (args[i].kind != TENON_KIND_NONE || !(param->flags & TENON_PARAMETER_OPTIONAL))
                fit = false;
        } else if (param->checked) {
            if (!tenon_plan_bind_value(param, &args[i], b))
                fit = false;
        } else if (args[i].kind == TENON_KIND_TENSORS) {
            if (!bind_list(s, i, &args[i], b))
                fit = false;
        }
    }
    return fit;
}

/* Name an item of a list in messages. */
static void label_item(const tenon_signature *s, int32_t index, int64_t item, tenon_bindings *b)
{
    b->list = index;
    b->item = item;
    snprintf(b->label, sizeof b->label, "%s[%" PRId64 "]", s->params[index].name, item);
    b->argument = b->label;
}

/* Find the first item that does not match. Its label and its phrase are made only then. */
static tenon_status check_list(const tenon_signature *s, int32_t index, const tenon_value *list,
                               const argument_phrases *phrases, tenon_bindings *b, tenon_error *err)
{
    const tenon_spec *spec = s->params[index].items;
    const tenon_view *views = list->as.list.data;
    b->argument = s->params[index].first;
    b->object = NULL;
    for (int64_t i = 0; i < list->as.list.length; i++) {
        if (!tenon__spec_check(spec, &views[i], b, NULL))
            continue;
        label_item(s, index, i, b);
        tenon_frame *frame = phrases ? phrases->frame : NULL;
        if (frame && frame->client->describe_item)
            b->object = frame->client->describe_item(frame, index, i);
        return tenon__spec_check(spec, &views[i], b, err);
    }
    return TENON_OK;
}

/* Whether the argument only has to be converted: then it is compared with a spec that has any dtype and any layout. */
static bool needs_conversion(const tenon_parameter *param, const tenon_view *view, tenon_bindings *b)
{
    return view && (param->flags & TENON_PARAMETER_CONVERT) && tenon_device_on_host(view->device) &&
           tenon__dtype_converts(view->dtype, param->spec->dtypes.items[0]) &&
           tenon__spec_check(param->spec, view, b, NULL);
}

static tenon__noinline tenon_status check_shape_only(const tenon_spec *spec, const tenon_view *view, tenon_bindings *b,
                                                     tenon_error *err)
{
    tenon_spec any = *spec;
    any.dtypes = (tenon_dtypes){.kinds = TENON_DTYPES_ANY};
    any.flags = (any.flags & ~(TENON_SPEC_C | TENON_SPEC_F | TENON_SPEC_DENSE)) | TENON_SPEC_UNALIGNED;
    any.alignment = 0;
    tenon__spec_finish(&any);
    return tenon__spec_check(&any, view, b, err);
}

/* Say why an argument that is "convert" was not converted. */
static void explain_dtype(const tenon_parameter *param, const tenon_view *view, tenon_error *err)
{
    if (!err || !tenon_device_on_host(view->device) || tenon__dtype_converts(view->dtype, param->spec->dtypes.items[0]))
        return;
    char message[sizeof err->message];
    memcpy(message, tenon_error_reason(err), strlen(tenon_error_reason(err)) + 1);
    tenon_error_set_in(err, err->status, err->function, "%s, and it is not converted, because values could be lost",
                       message);
}

static tenon_status check_one_tensor(const tenon_parameter *param, const tenon_view *view,
                                     const argument_phrases *phrases, tenon_bindings *b, tenon_error *err)
{
    bool converts = phrases && phrases->converts;
    if (converts && needs_conversion(param, view, b))
        return check_shape_only(param->spec, view, b, err);
    tenon_status status = tenon__spec_check(param->spec, view, b, err);
    if (converts && status == TENON_EDTYPE && view && (param->flags & TENON_PARAMETER_CONVERT))
        explain_dtype(param, view, err);
    return status;
}

/* The second round: find the first argument that does not match. */
static tenon_status check_arguments(const tenon_signature *s, int32_t count, const tenon_value *args,
                                    const argument_phrases *phrases, tenon_bindings *b, tenon_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        const tenon_parameter *param = &s->params[i];
        tenon_status status = TENON_OK;
        b->argument = param->name;
        b->object = phrases && phrases->objects ? phrases->objects[i] : NULL;
        if (args[i].kind != param->kind && args[i].kind != TENON_KIND_NONE)
            status = other_kind(param, &args[i], b, err);
        else if (param->spec)
            status = check_one_tensor(param, view_of(&args[i]), phrases, b, err);
        else if (args[i].kind == TENON_KIND_NONE && !(param->flags & TENON_PARAMETER_OPTIONAL))
            status = missing_value(param, b, err);
        else if (param->dim >= 0 && args[i].kind == TENON_KIND_INT)
            status = check_int(param, &args[i], b, err);
        else if (args[i].kind == TENON_KIND_TENSORS)
            status = check_list(s, i, &args[i], phrases, b, err);
        if (status == TENON_EINVAL && count < s->nparams) /* a later argument may bind the name */
            status = TENON_OK;
        if (!status && param->checked && args[i].kind != TENON_KIND_NONE)
            status = check_value(param, &args[i], b, err);
        if (status)
            return status;
    }
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------------- overlap */

bool tenon__may_share(const tenon_spec *spec, const tenon_view *view, const char *name, const tenon_view *other)
{
    return (spec->flags & TENON_SPEC_ALIAS) ||
           ((spec->flags & TENON_SPEC_INPLACE) && strcmp(spec->inplace, name) == 0 && tenon_view_equal(view, other));
}

tenon_status tenon__refuse_overlap(const tenon_bindings *b, const char *first, const char *second, tenon_error *err)
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
            if (k == i || !second || tenon__may_share(one->spec, view, other->name, second))
                continue;
            /* If both are written to, it is enough that the other one may share memory with this one. */
            if ((other->spec->flags & TENON_SPEC_WRITE) && tenon__may_share(other->spec, second, one->name, view))
                continue;
            if (tenon_view_overlaps(view, second)) {
                b->argument = one->name;
                return tenon__refuse_overlap(b, one->name, other->name, err);
            }
        }
    }
    return TENON_OK;
}

/* Whether `bytes` are in memory of the view. */
static bool shares_bytes(const tenon_view *view, const tenon_value *bytes)
{
    int64_t dims[2] = {bytes->as.list.length, 1};
    tenon_view all = {.data = (void *)(uintptr_t)bytes->as.list.data, .ndim = 1, .dtype = TENON_U8, .numel = dims[0]};
    all.device = tenon_device_of(TENON_CPU, 0);
    all.shape = dims;
    all.strides = dims + 1;
    return dims[0] > 0 && tenon_view_overlaps(view, &all);
}

/* No tensor that is written to, nor an item of a list, may be in the memory of `bytes`. */
static tenon_status check_bytes(const tenon_signature *s, const tenon_value *args, int32_t index, tenon_bindings *b,
                                tenon_error *err)
{
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *param = &s->params[i];
        const tenon_spec *spec = param->items ? param->items : param->spec;
        bool is_list = args[i].kind == TENON_KIND_TENSORS;
        const tenon_view *views = is_list ? args[i].as.list.data : view_of(&args[i]);
        int64_t count = is_list ? args[i].as.list.length : views ? 1 : 0;
        if (!spec || !(spec->flags & TENON_SPEC_WRITE) || (spec->flags & TENON_SPEC_ALIAS))
            continue;
        for (int64_t k = 0; k < count; k++) {
            if (!shares_bytes(&views[k], &args[index]))
                continue;
            b->argument = param->name;
            if (is_list)
                label_item(s, i, k, b);
            return tenon__refuse_overlap(b, b->argument, s->params[index].name, err);
        }
    }
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------------- the whole */

/* Names without a value become -1, and a dtype of all zeros. */
static void clear_unbound(const tenon_signature *s, tenon_bindings *b)
{
    for (int32_t i = 0; i < s->names.ndims; i++) {
        if (!(b->dims_bound >> i & 1))
            b->dims[i] = -1;
    }
    for (int32_t i = 0; i < s->names.ntypes; i++) {
        if (!(b->types_bound >> i & 1))
            b->types[i] = tenon_dtype_of(0, 0, 0);
    }
}

/* Check what concerns all arguments together: the conditions, the batch, and memory that is written to. `frame` may be NULL. */
static tenon_status check_together(const tenon_signature *s, const tenon_value *args, tenon_frame *frame,
                                   tenon_bindings *b, tenon_error *err)
{
    tenon_status status = s->nconditions ? tenon__check_conditions(s, args, b, err) : TENON_OK;
    if (!status && s->nbatched)
        status = tenon__broadcast_arguments(s, args, frame, b, err);
    for (int32_t i = 0; !status && s->nwritten && i < s->nparams; i++)
        status = args[i].kind == TENON_KIND_BYTES ? check_bytes(s, args, i, b, err) : TENON_OK;
    if (status || !s->nwritten)
        return status;
    if (s->nlists)
        return tenon__check_list_overlaps(s, args, b, err);
    return s->ntensors > 1 ? check_overlaps(s, args, b, err) : TENON_OK;
}

bool tenon_plan_check_rest(tenon_frame *f)
{
    clear_unbound(f->signature, &f->bindings);
    f->bindings.argument = NULL;
    return !f->signature->checks_all || !check_together(f->signature, f->args, f, &f->bindings, NULL);
}

/* Match the first `count` arguments of a call: bind all names, then check the arguments in order. If these are all of them,
 * check the conditions, check that no argument that is written to shares memory with another, and give dimensions without
 * a value -1. If not, a name that only the others would bind is not an error. `phrases` may be NULL.
 *
 * Errors: those of tenon_spec_check and tenon__check_conditions, and TENON_EOVERLAP. */
MATCH_INLINE tenon_status match_arguments(const tenon_signature *s, int32_t count, const tenon_value *args,
                                          const argument_phrases *phrases, tenon_frame *frame, tenon_bindings *b,
                                          tenon_error *err)
{
    tenon_bindings_reset(b, &s->names);
    b->function = s->name;
    b->format_dtype = phrases ? phrases->format_dtype : NULL;
    if (!bind_arguments(s, count, args, b)) {
        tenon_status status = check_arguments(s, count, args, phrases, b, err);
        if (status || count < s->nparams)
            return status;
    }
    if (b->dims_bound != (uint32_t)((UINT64_C(1) << s->names.ndims) - 1) || s->names.ntypes)
        clear_unbound(s, b);
    b->argument = b->object = NULL;
    if (!s->checks_all || count < s->nparams)
        return TENON_OK;
    return check_together(s, args, frame, b, err);
}

/* The same, not inline. */
static tenon_status match_some_arguments(const tenon_signature *s, int32_t count, const tenon_value *args,
                                         const argument_phrases *phrases, tenon_frame *frame, tenon_bindings *b,
                                         tenon_error *err)
{
    return match_arguments(s, count, args, phrases, frame, b, err);
}

tenon_status tenon__signature_match(const tenon_signature *signature, const tenon_value *args, tenon_bindings *bindings,
                                    tenon_error *err)
{
    return match_some_arguments(signature, signature->nparams, args, NULL, NULL, bindings, err);
}

static bool may_convert(const tenon_frame *f)
{
    return f->signature->nconverted && f->client->convert && !(f->call.flags & TENON_FRAME_EXACT);
}

/* Match the first `count` arguments again, this time with an error message and with phrases for them, and refuse the call.
 * `status` is what the first match returned: without memory for the batch's views a second match could succeed. Always -1. */
static int refuse_arguments(tenon_frame *f, int32_t count, tenon_status status)
{
    const tenon_signature *s = f->signature;
    const char *objects[TENON_MAX_PARAMETERS];
    tenon_error err;
    for (int32_t i = 0; i < count; i++) /* the host may not have set the others */
        objects[i] = f->client->describe(f, i);
    argument_phrases phrases = {objects, f->client->format_dtype, f, may_convert(f)};
    if (status == TENON_ENOMEM)
        tenon_error_set_in(&err, status, s->name, "no memory to match the arguments");
    else if (!match_some_arguments(s, count, f->args, &phrases, NULL, &f->bindings,
                                   &err)) /* `describe` ran code that changed an argument */
        tenon_error_set_in(&err, TENON_EFAILED, s->name, "the arguments changed while they were matched");
    f->client->refuse(f, TENON_REFUSED_ARGUMENT, -1, &err);
    return -1;
}

/* Arguments do not match. Convert those that can be converted, if that is all, and match again. */
static tenon__noinline int match_converted(tenon_frame *f, tenon_status status)
{
    const tenon_signature *s = f->signature;
    const argument_phrases converting = {.converts = true};
    uint64_t which = 0;
    if (!may_convert(f) || check_arguments(s, s->nparams, f->args, &converting, &f->bindings, NULL))
        return refuse_arguments(f, s->nparams, status);
    for (int32_t i = 0; i < s->nparams; i++)
        if (needs_conversion(&s->params[i], view_of(&f->args[i]), &f->bindings))
            which |= UINT64_C(1) << i;
    if (tenon__frame_convert(f, which))
        return -1;
    status = match_some_arguments(s, s->nparams, f->args, NULL, f, &f->bindings, NULL);
    if (status)
        return refuse_arguments(f, s->nparams, status);
    f->call.results = f->results;
    f->call.types = f->bindings.types;
    return tenon__frame_count_conversions(f, which);
}

/* Here, and not in call/, so that the compiler leaves out what only messages need. */
int tenon_frame_match(tenon_frame *f)
{
    const tenon_signature *s = f->signature;
    tenon_status status = match_arguments(s, s->nparams, f->args, NULL, f, &f->bindings, NULL);
    if (status)
        return match_converted(f, status);
    f->call.results = f->results;
    f->call.types = f->bindings.types;
    return 0;
}

/* Whether a tensor has another dtype or number of dimensions, which is what overloads usually differ in. The match finds that
 * out too, but writes a message first. */
static bool clearly_differs(const tenon_signature *s, const tenon_parameter *param, const tenon_value *arg)
{
    const tenon_view *view = view_of(arg);
    const tenon_spec *spec = param->spec;
    if (!view || !spec)
        return false;
    const tenon_dtypes *allowed = spec->variable >= 0 ? &s->names.allowed[spec->variable] : &spec->dtypes;
    bool has_star = tenon__code_of(spec)->star >= 0;
    return (has_star ? view->ndim < spec->ndims - 1 : view->ndim != spec->ndims) ||
           !tenon_dtypes_has(allowed, view->dtype);
}

bool tenon_frame_try_match(tenon_frame *f)
{
    const tenon_signature *s = f->signature;
    for (int32_t i = 0; i < s->nparams; i++)
        if (clearly_differs(s, &s->params[i], &f->args[i]))
            return false;
    if (match_some_arguments(s, s->nparams, f->args, NULL, f, &f->bindings, NULL))
        return false;
    f->call.results = f->results;
    f->call.types = f->bindings.types;
    return true;
}

bool tenon_frame_refuse_earlier(tenon_frame *f, int32_t index)
{
    const argument_phrases converting = {.converts = may_convert(f)};
    if (!match_some_arguments(f->signature, index, f->args, &converting, NULL, &f->bindings, NULL))
        return false;
    refuse_arguments(f, index, TENON_OK);
    return true;
}

/* `out` must not share memory with an item of a list. */
static tenon_status check_out_list(const tenon_signature *s, int32_t index, const tenon_value *list,
                                   const tenon_view *out, tenon_bindings *b, tenon_error *err)
{
    const tenon_view *views = list->as.list.data;
    for (int64_t i = 0; i < list->as.list.length; i++) {
        if (!tenon_view_overlaps(out, &views[i]))
            continue;
        label_item(s, index, i, b);
        return tenon__refuse_overlap(b, "out", b->label, err);
    }
    return TENON_OK;
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
    status = tenon__spec_check(spec, out, bindings, err);
    bindings->argument = NULL;
    if (status)
        return status;
    bool on_cpu = tenon_device_on_host(device);
    if (on_cpu ? !tenon_device_on_host(out->device) : !tenon_device_equal(out->device, device))
        return tenon_error_set_in(err, TENON_EDEVICE, signature->name,
                                  "argument 'out' is on %s, but the call runs on %s; pass one that is there",
                                  tenon__device_phrase(out->device).text, tenon__device_phrase(device).text);
    for (int32_t i = 0; args && i < signature->nparams; i++) {
        const tenon_view *view = view_of(&args[i]);
        if (view && !tenon__may_share(spec, out, signature->params[i].name, view) && tenon_view_overlaps(out, view))
            return tenon__refuse_overlap(bindings, "out", signature->params[i].name, err);
        if (args[i].kind == TENON_KIND_BYTES && !(spec->flags & TENON_SPEC_ALIAS) && shares_bytes(out, &args[i]))
            return tenon__refuse_overlap(bindings, "out", signature->params[i].name, err);
        if (args[i].kind == TENON_KIND_TENSORS && !(spec->flags & TENON_SPEC_ALIAS)) {
            status = check_out_list(signature, i, &args[i], out, bindings, err);
            if (status)
                return status;
        }
    }
    return TENON_OK;
}

/* Computes the dtype and shape of results from the names that the arguments of a call have bound. */

/* The spec of a tensor result, or of the items of a list. */
static const tenon_spec *result_spec(const tenon_signature *s, int32_t index)
{
    return s->results[index].items ? s->results[index].items : s->results[index].spec;
}

/* Begin a message with "saxpy(): result 0: ", or "saxpy(): result 'z': ". */
static void begin_result_message(tenon__message *m, const tenon_signature *s, int32_t index, const tenon_bindings *b)
{
    tenon__message_begin(m, b);
    m->text.length = 0; /* without the argument that was matched last */
    if (s->results[index].name)
        tenon__text_add(&m->text, "result '%s': ", s->results[index].name);
    else
        tenon__text_add(&m->text, "result %d: ", index);
}

static tenon_status result_size(const tenon_signature *s, int32_t index, const tenon__spec_dim *dim, int32_t at,
                                const tenon_bindings *b, int64_t *size, tenon_error *err)
{
    const tenon_spec *spec = result_spec(s, index);
    const char *unbound = NULL;
    bool known = tenon__spec_evaluate(spec, dim, b, size, &unbound);
    if (known && *size >= 0)
        return TENON_OK;
    tenon__message m;
    begin_result_message(&m, s, index, b);
    tenon__text_add(&m.text, "dimension %d, %.*s, ", at, dim->length, spec->text + dim->at);
    if (unbound) {
        tenon__text_add(&m.text, "has no value: no argument of this call determines %s", unbound);
        return tenon__message_end(&m, TENON_EINVAL, err);
    }
    if (known)
        tenon__text_add(&m.text, "is %" PRId64, *size);
    else
        tenon__text_add(&m.text, "overflows 64 bits or divides by 0");
    tenon__message_add_values(&m, spec, dim, b);
    return tenon__message_end(&m, known ? TENON_ESHAPE : TENON_EOVERFLOW, err);
}

/* Append the dimensions of "*name" to the shape. */
static tenon_status result_star(const tenon_signature *s, int32_t index, int32_t slot, const tenon_bindings *b,
                                int32_t *ndim, int64_t *shape, tenon_error *err)
{
    int32_t more = b->stars_bound >> slot & 1 ? b->star_ndims[slot] : -1;
    if (more >= 0 && *ndim + more <= TENON_MAX_NDIM) {
        for (int32_t i = 0; i < more; i++)
            shape[(*ndim)++] = b->stars[slot][i];
        return TENON_OK;
    }
    tenon__message m;
    begin_result_message(&m, s, index, b);
    tenon__text_add(&m.text,
                    more < 0 ? "no argument of this call determines *%s"
                             : "more than 64 dimensions, counting those of *%s",
                    b->names->stars[slot]);
    return tenon__message_end(&m, more < 0 ? TENON_EINVAL : TENON_ESHAPE, err);
}

/* Append the dimensions of "*_" to the shape: those of the item, which its own "*" has. */
static tenon_status item_star(const tenon_signature *s, int32_t index, const tenon_view *item, int32_t *ndim,
                              int64_t *shape, tenon_error *err)
{
    const tenon_spec *source = s->params[s->results[index].owner].items;
    int32_t from = tenon__code_of(source)->star, more = item->ndim - (source->ndims - 1);
    if (*ndim + more > TENON_MAX_NDIM)
        return tenon_error_set_in(err, TENON_ESHAPE, s->name, "result %d has more than 64 dimensions", index);
    for (int32_t i = 0; i < more; i++)
        shape[(*ndim)++] = item->shape[from + i];
    return TENON_OK;
}

/* The size of the item in the place of dimension `at` of the result: from the end if it is after the "*". */
static int64_t item_size(const tenon_spec *spec, int32_t at, const tenon_view *item)
{
    int32_t star = tenon__code_of(spec)->star;
    return item->shape[star >= 0 && at > star ? item->ndim - (spec->ndims - at) : at];
}

/* The general case, for any spec. `item` is that of the list which the result is "for", or NULL. */
static tenon_status compute_result(const tenon_signature *s, int32_t index, const tenon_bindings *b,
                                   const tenon_view *item, tenon_dtype *dtype, int32_t *ndim, int64_t *shape,
                                   tenon_error *err)
{
    const tenon_spec *spec = result_spec(s, index);
    if (spec->variable >= 0 && !(b->types_bound >> spec->variable & 1)) {
        tenon__message m;
        begin_result_message(&m, s, index, b);
        tenon__text_add(&m.text, "no argument of this call determines %s", b->names->types[spec->variable]);
        return tenon__message_end(&m, TENON_EINVAL, err);
    }
    *dtype = spec->variable >= 0 ? b->types[spec->variable] : spec->dtypes.items[0];
    *ndim = 0;
    for (int32_t i = 0; i < spec->ndims; i++) {
        const tenon__spec_dim *dim = &tenon__code_of(spec)->dims[i];
        tenon_status status = TENON_OK;
        bool of_item = dim->kind == TENON_DIM_ANY || (dim->kind == TENON_DIM_STAR && dim->slot < 0);
        if (of_item && !item) /* only lists have such dimensions */
            status = tenon_error_set_in(err, TENON_EINVAL, s->name, "result %d is not a list", index);
        else if (dim->kind == TENON_DIM_STAR && dim->slot < 0)
            status = item_star(s, index, item, ndim, shape, err);
        else if (dim->kind == TENON_DIM_STAR || dim->kind == TENON_DIM_BATCH)
            status = result_star(s, index, dim->slot, b, ndim, shape, err);
        else if (*ndim == TENON_MAX_NDIM)
            status = tenon_error_set_in(err, TENON_ESHAPE, s->name, "result %d has more than 64 dimensions", index);
        else if (dim->kind == TENON_DIM_UNKNOWN)
            shape[(*ndim)++] = -1;
        else if (dim->kind == TENON_DIM_ANY)
            shape[(*ndim)++] = item_size(spec, i, item);
        else if (!(status = result_size(s, index, dim, *ndim, b, &shape[*ndim], err)))
            (*ndim)++;
        if (status)
            return status;
    }
    return TENON_OK;
}

static tenon_status check_result_index(const tenon_signature *signature, int32_t index, bool whole,
                                       const char *function, tenon_error *err)
{
    if (!signature || !whole)
        return tenon_error_set_in(err, TENON_EINVAL, function, "an argument is NULL");
    if (index < 0 || index >= signature->nresults || !signature->results[index].spec)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'index': %s() has no tensor result %d",
                                  signature->name, index);
    return TENON_OK;
}

tenon_status tenon_signature_result(const tenon_signature *signature, int32_t index, const tenon_bindings *bindings,
                                    tenon_dtype *dtype, int32_t *ndim, int64_t shape[TENON_MAX_NDIM], tenon_error *err)
{
    tenon_status status =
        check_result_index(signature, index, bindings && dtype && ndim && shape, "tenon_signature_result", err);
    if (status)
        return status;
    const tenon_plan_spec *fast = &signature->fast[signature->nparams + index];
    bool known = fast->ndim >= 0 && fast->dtype.bits;
    for (int32_t i = 0; i < fast->ndim; i++) {
        int slot = fast->slots[i];
        shape[i] = slot < 0 ? fast->sizes[i] : bindings->dims[slot];
        known &= (slot < 0 || (bindings->dims_bound >> slot & 1)) && shape[i] >= 0;
    }
    if (!known)
        return compute_result(signature, index, bindings, NULL, dtype, ndim, shape, err);
    *dtype = fast->dtype;
    *ndim = fast->ndim;
    return TENON_OK;
}

tenon_status tenon__signature_item(const tenon_signature *signature, int32_t index, const tenon_bindings *bindings,
                                   const tenon_view *item, tenon_dtype *dtype, int32_t *ndim,
                                   int64_t shape[TENON_MAX_NDIM], tenon_error *err)
{
    return compute_result(signature, index, bindings, item, dtype, ndim, shape, err);
}

tenon_status tenon__signature_open_result(const tenon_signature *signature, int32_t index,
                                          const tenon_bindings *bindings, int32_t ndim, const int64_t *shape,
                                          tenon_dtype *dtype, tenon_error *err)
{
    int32_t wanted_ndim;
    int64_t wanted[TENON_MAX_NDIM];
    bool in_list = signature->results[index].items;
    tenon_status status =
        in_list ? TENON_OK
                : check_result_index(signature, index, bindings && dtype, "tenon__signature_open_result", err);
    if (!status && in_list)
        status = compute_result(signature, index, bindings, NULL, dtype, &wanted_ndim, wanted, err);
    else if (!status)
        status = tenon_signature_result(signature, index, bindings, dtype, &wanted_ndim, wanted, err);
    if (status)
        return status;
    if (!(signature->results[index].flags & TENON_PARAMETER_OPEN))
        return tenon_error_set_in(err, TENON_EINVAL, signature->name,
                                  "result %d has a known size and was already allocated", index);
    bool fits = ndim == wanted_ndim && (ndim == 0 || shape);
    for (int32_t i = 0; fits && i < ndim; i++)
        fits = shape[i] >= 0 && (wanted[i] == -1 || wanted[i] == shape[i]);
    if (fits)
        return TENON_OK;
    tenon__message m;
    begin_result_message(&m, signature, index, bindings);
    bool in_library_memory = signature->results[index].flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF);
    tenon__text_add(&m.text, "expected %.*s, but the function %s ",
                    tenon__code_of(result_spec(signature, index))->type_length, result_spec(signature, index)->text,
                    in_library_memory ? "gave" : "asked for");
    if (ndim >= 0 && ndim <= TENON_MAX_NDIM && (ndim == 0 || shape)) {
        tenon__text_add(&m.text, "shape ");
        tenon__text_add_list(&m.text, ndim, shape);
    } else {
        bool no_shape = ndim > 0 && ndim <= TENON_MAX_NDIM;
        tenon__text_add(&m.text, "%d dimension%s%s", ndim, ndim == 1 ? "" : "s", no_shape ? " with shape NULL" : "");
    }
    return tenon__message_end(&m, TENON_ESHAPE, err);
}

/* The dimensions of a signature's tensors, as structs that a host can read. */

tenon_status tenon_signature_dim(const tenon_signature *signature, int32_t item, int32_t index, tenon_dimension *out,
                                 tenon_error *err)
{
    const char *function = "tenon_signature_dim";
    if (!signature || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL",
                                  signature ? "out" : "signature");
    const tenon_parameter *of = NULL;
    if (item >= 0 && item < signature->nparams)
        of = &signature->params[item];
    else if (item >= 0 && item < signature->nparams + signature->nresults)
        of = &signature->results[item - signature->nparams];
    const tenon_spec *spec = of && of->items ? of->items : of ? of->spec : NULL;
    if (!spec)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'item': item %d of %s() is not a tensor", item,
                                  signature->name);
    if (index < 0 || index >= spec->ndims)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'index': expected 0 to %d, got %d",
                                  spec->ndims - 1, index);
    const tenon__spec_dim *dim = &tenon__code_of(spec)->dims[index];
    out->kind = dim->kind;
    bool named = dim->kind == TENON_DIM_NAME || dim->kind == TENON_DIM_STAR || dim->kind == TENON_DIM_BATCH;
    out->slot = named ? dim->slot : -1;
    out->number = dim->kind == TENON_DIM_NUMBER ? dim->number : 0;
    out->text = spec->text + dim->at;
    out->length = dim->length;
    out->ncode = dim->count;
    for (int32_t i = 0; i < dim->count; i++) {
        const tenon__spec_op *op = &tenon__code_of(spec)->ops[dim->first + i];
        out->code[i] = (tenon_dimension_op){.kind = op->kind, .slot = -1};
        if (op->kind == TENON_OP_NAME)
            out->code[i].slot = (int32_t)op->value;
        else if (op->kind == TENON_OP_NUMBER)
            out->code[i].number = op->value;
    }
    return TENON_OK;
}
