#include "compiled_spec.h"

#include <inttypes.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- binding
 *
 * Here names get their values. Each function binds what has no value yet and compares the rest, so it both binds and checks:
 * when all tensors of a call have been bound, a second round only compares. Only the plan of host/plan.h repeats this. */

bool tenon__bind_variable(int32_t variable, tenon_dtype dtype, tenon_bindings *b)
{
    if (!(b->types_bound >> variable & 1)) {
        b->types_bound |= 1u << variable;
        b->types[variable] = dtype;
        b->types_from[variable] = b->argument;
    }
    return tenon_dtype_equal(b->types[variable], dtype) && tenon_dtypes_has(&b->names->allowed[variable], dtype);
}

static bool bind_dtype(const tenon_spec *spec, tenon_dtype dtype, tenon_bindings *b)
{
    if (spec->variable >= 0)
        return tenon__bind_variable(spec->variable, dtype, b);
    return tenon_dtype_equal(spec->dtypes.items[0], dtype) || tenon_dtypes_has(&spec->dtypes, dtype);
}

static bool bind_star(int32_t slot, int32_t count, const int64_t *sizes, tenon_bindings *b)
{
    if (b->stars_bound >> slot & 1)
        return count == b->star_ndims[slot] &&
               (count == 0 || (sizes && memcmp(sizes, b->stars[slot], (size_t)count * sizeof *sizes) == 0));
    b->stars_bound |= 1u << slot;
    b->stars[slot] = sizes;
    b->star_ndims[slot] = count;
    b->stars_from[slot] = b->argument;
    return true;
}

/* The first dimension of the spec that does not fit, with its position in the shape; spec->ndims if all fit, and -1 if the
 * view has too few or too many. An expression does not fit if one of its names has no value. */
typedef struct misfit {
    int32_t dim;
    int32_t at;
} misfit;

static misfit bind_shape(const tenon_spec *spec, const tenon_view *view, tenon_bindings *b)
{
    const tenon__spec_code *code = tenon__code_of(spec);
    int32_t more = view->ndim - spec->ndims; /* of a "*": the number of its dimensions, less one */
    misfit first = {spec->ndims, 0};
    if (code->star < 0 ? more != 0 : more < -1)
        return (misfit){-1, 0};
    for (int32_t i = 0, at = 0; i < spec->ndims; i++, at++) {
        const tenon__spec_dim *dim = &code->dims[i];
        const char *unbound;
        int64_t value;
        bool fits = true;
        if (dim->kind == TENON_DIM_NAME) {
            fits = tenon_plan_bind_size(dim->slot, view->shape[at], b->argument, b);
        } else if (dim->kind == TENON_DIM_NUMBER) {
            fits = view->shape[at] == dim->number;
        } else if (dim->kind == TENON_DIM_EXPRESSION) {
            fits = tenon__spec_evaluate(spec, dim, b, &value, &unbound) && value == view->shape[at];
        } else if (dim->kind == TENON_DIM_BATCH) { /* of an argument it is broadcast later; `out` has its shape */
            fits = !(b->stars_bound >> dim->slot & 1) ||
                   bind_star(dim->slot, more + 1, view->ndim ? view->shape + at : NULL, b);
            at += more;
        } else if (dim->kind == TENON_DIM_STAR) {
            fits = dim->slot < 0 || bind_star(dim->slot, more + 1, view->ndim ? view->shape + at : NULL, b);
            at += more;
        }
        if (!fits && first.dim == spec->ndims)
            first = (misfit){i, at};
    }
    return first;
}

bool tenon__spec_fits(const tenon_spec *spec, const tenon_view *view, tenon_bindings *b)
{
    bool fits = bind_dtype(spec, view->dtype, b);
    fits &= bind_shape(spec, view, b).dim == spec->ndims; /* always both: later tensors need the names */
    const tenon__spec_code *code = tenon__code_of(spec);
    return fits && ((uint32_t)view->flags & code->flags_checked) == code->flags_wanted && code->on_cpu &&
           view->device.device_type == TENON_CPU &&
           ((uintptr_t)view->data & tenon__address_mask(spec, view->dtype)) == 0;
}

void tenon_spec_bind(const tenon_spec *spec, const tenon_view *view, tenon_bindings *bindings)
{
    if (spec && view && bindings && bindings->names)
        (void)tenon__spec_fits(spec, view, bindings);
}

/* --------------------------------------------------------------------------------------------------------- messages */

void tenon__message_begin(tenon__message *m, const tenon_bindings *b)
{
    m->text = (tenon__text){m->buffer, sizeof m->buffer, 0};
    m->buffer[0] = '\0';
    m->function = b->function;
    if (b->argument)
        tenon__text_add(&m->text, "argument '%s'", b->argument);
}

tenon_status tenon__message_end(const tenon__message *m, tenon_status status, tenon_error *err)
{
    return tenon_error_set_in(err, status, m->function, "%s", m->buffer);
}

/* Add ": " if the next words do not continue the sentence that begins with the argument. */
static void message_colon(tenon__message *m, const tenon_bindings *b)
{
    if (b->argument)
        tenon__text_add(&m->text, ": ");
}

/* The dtype of an argument, by the name that its runtime has for it. */
static void add_view_dtype(tenon__message *m, tenon_dtype dtype, const tenon_bindings *b)
{
    char name[64];
    (b->format_dtype ? b->format_dtype : tenon_dtype_format)(dtype, name, sizeof name);
    tenon__text_add(&m->text, "%s", name);
}

/* Begin a message with "…: expected f32[n], got f64[4] (numpy.ndarray)" and a new line for the difference. */
static void message_expected(tenon__message *m, const tenon_spec *spec, int32_t length, const tenon_view *view,
                             const tenon_bindings *b)
{
    tenon__message_begin(m, b);
    message_colon(m, b);
    tenon__text_add(&m->text, "expected %.*s, got ", length, spec->text);
    if (view) {
        add_view_dtype(m, view->dtype, b);
        tenon__text_add_list(&m->text, view->ndim, view->shape);
    } else {
        tenon__text_add(&m->text, "nothing");
    }
    if (b->object)
        tenon__text_add(&m->text, " (%s)", b->object);
    tenon__text_add(&m->text, "\n  ");
}

static void add_from(tenon__message *m, const char *argument)
{
    if (argument)
        tenon__text_add(&m->text, " from argument '%s'", argument);
}

static void add_dtypes(tenon__message *m, const tenon_dtypes *set)
{
    static const char *const kinds[] = {"real", "integer", "any"};
    const char *separator = "";
    for (int32_t i = 0; i < set->count; i++) {
        tenon__text_add(&m->text, "%s", separator);
        tenon__text_add_dtype(&m->text, set->items[i]);
        separator = "|";
    }
    for (int i = 0; i < 3; i++) {
        if (set->kinds >> i & 1) {
            tenon__text_add(&m->text, "%s%s", separator, kinds[i]);
            separator = "|";
        }
    }
}

/* ----------------------------------------------------------------------------------------------------------- dtype */

/* What a dtype variable is instead: ", but T is one of f32|f64". */
static void add_variable(tenon__message *m, int32_t variable, tenon_dtype dtype, const tenon_bindings *b)
{
    const char *name = b->names->types[variable];
    if (!tenon_dtypes_has(&b->names->allowed[variable], dtype)) {
        tenon__text_add(&m->text, ", but %s is one of ", name);
        add_dtypes(m, &b->names->allowed[variable]);
    } else {
        tenon__text_add(&m->text, ", but %s = ", name);
        add_view_dtype(m, b->types[variable], b);
        add_from(m, b->types_from[variable]);
    }
}

tenon_status tenon__check_variable(int32_t variable, tenon_dtype dtype, const char *type, tenon_bindings *b,
                                   tenon_error *err)
{
    if (tenon__bind_variable(variable, dtype, b))
        return TENON_OK;
    tenon__message m;
    tenon__message_begin(&m, b);
    message_colon(&m, b);
    tenon__text_add(&m.text, "expected %s, got ", type);
    add_view_dtype(&m, dtype, b);
    add_variable(&m, variable, dtype, b);
    return tenon__message_end(&m, TENON_EDTYPE, err);
}

static tenon_status check_dtype(const tenon_spec *spec, const tenon_view *view, tenon_bindings *b, tenon_error *err)
{
    if (bind_dtype(spec, view->dtype, b))
        return TENON_OK;
    tenon__message m;
    message_expected(&m, spec, tenon__code_of(spec)->type_length, view, b);
    tenon__text_add(&m.text, "dtype is ");
    add_view_dtype(&m, view->dtype, b);
    if (spec->variable < 0) {
        tenon__text_add(&m.text, ", not ");
        add_dtypes(&m, &spec->dtypes);
    } else {
        add_variable(&m, spec->variable, view->dtype, b);
    }
    return tenon__message_end(&m, TENON_EDTYPE, err);
}

/* ----------------------------------------------------------------------------------------------------------- shape */

/* Rounds down, as Python's // does. */
static bool floor_divide(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    *out = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return true;
}

bool tenon__evaluate(const tenon__spec_op *ops, int32_t count, const tenon_bindings *b, const tenon_value *args,
                     int64_t *out, const char **unbound)
{
    int64_t stack[TENON_SPEC_CODE];
    int32_t top = 0;
    for (int32_t i = 0; i < count; i++) {
        const tenon__spec_op *op = &ops[i];
        bool fine = true;
        if (op->kind == TENON_OP_NUMBER) {
            stack[top++] = op->value;
            continue;
        }
        if (op->kind == TENON_OP_NAME) {
            if (!(b->dims_bound >> op->value & 1)) {
                *unbound = b->names->dims[op->value];
                return false;
            }
            stack[top++] = b->dims[op->value];
            continue;
        }
        if (op->kind == TENON__OP_PARAMETER) {
            if (!args) /* the code of a spec has none */
                return false;
            stack[top++] = args[op->value].as.integer;
            if (args[op->value].kind == TENON_KIND_UINT && args[op->value].as.integer < 0)
                return false;
            continue;
        }
        int64_t right = stack[--top], *left = &stack[top - 1];
        if (op->kind == TENON_OP_ADD)
            fine = !tenon__add_overflows(*left, right, left);
        else if (op->kind == TENON_OP_SUB)
            fine = !tenon__sub_overflows(*left, right, left);
        else if (op->kind == TENON_OP_MUL)
            fine = !tenon__mul_overflows(*left, right, left);
        else
            fine = floor_divide(*left, right, left);
        if (!fine)
            return false;
    }
    *out = stack[0];
    return true;
}

void tenon__message_add_values(tenon__message *m, const tenon_spec *spec, const tenon__spec_dim *dim,
                               const tenon_bindings *b)
{
    const char *separator = " (";
    uint32_t added = 0;
    for (int32_t i = dim->first; i < dim->first + dim->count; i++) {
        const tenon__spec_op *op = &tenon__code_of(spec)->ops[i];
        bool bound = op->kind == TENON_OP_NAME && (b->dims_bound >> op->value & 1);
        if (!bound || added >> op->value & 1) /* names after a division by 0 may have no value */
            continue;
        added |= 1u << op->value;
        tenon__text_add(&m->text, "%s%s = %" PRId64, separator, b->names->dims[op->value], b->dims[op->value]);
        add_from(m, b->dims_from[op->value]);
        separator = ", ";
    }
    if (added)
        tenon__text_add(&m->text, ")");
}

static void refuse_expression(tenon__message *m, const tenon_spec *spec, const tenon__spec_dim *dim,
                              const tenon_bindings *b, tenon_status *status)
{
    int64_t wanted = 0;
    const char *unbound = NULL;
    bool known = tenon__spec_evaluate(spec, dim, b, &wanted, &unbound);
    if (unbound) {
        tenon__text_add(&m->text, "%s in %.*s has no value: no argument determines it", unbound, dim->length,
                        spec->text + dim->at);
        *status = TENON_EINVAL;
        return;
    }
    tenon__text_add(&m->text, "%.*s ", dim->length, spec->text + dim->at);
    if (known)
        tenon__text_add(&m->text, "= %" PRId64, wanted);
    else
        tenon__text_add(&m->text, "overflows 64 bits or divides by 0");
    tenon__message_add_values(m, spec, dim, b);
    *status = known ? TENON_ESHAPE : TENON_EOVERFLOW;
}

static void refuse_star(tenon__message *m, const char *star, int32_t slot, int32_t count, const int64_t *sizes,
                        const tenon_bindings *b)
{
    tenon__text_add(&m->text, "%s%s is ", star, b->names->stars[slot]);
    tenon__text_add_list(&m->text, count, count ? sizes : NULL);
    tenon__text_add(&m->text, ", but %s%s = ", star, b->names->stars[slot]);
    tenon__text_add_list(&m->text, b->star_ndims[slot], b->stars[slot]);
    add_from(m, b->stars_from[slot]);
}

static tenon_status check_shape(const tenon_spec *spec, const tenon_view *view, tenon_bindings *b, tenon_error *err)
{
    misfit found = bind_shape(spec, view, b);
    if (found.dim == spec->ndims)
        return TENON_OK;
    const tenon__spec_code *code = tenon__code_of(spec);
    tenon_status status = TENON_ESHAPE;
    tenon__message m;
    if (found.dim < 0) {
        message_expected(&m, spec, code->type_length, view, b);
        tenon__text_add(&m.text, "%d dimension%s, not %s%d", view->ndim, view->ndim == 1 ? "" : "s",
                        code->star >= 0 ? "at least " : "", spec->ndims - (code->star >= 0));
        return tenon__message_end(&m, status, err);
    }
    const tenon__spec_dim *dim = &code->dims[found.dim];
    if (dim->kind == TENON_DIM_NUMBER) {
        message_expected(&m, spec, code->type_length, view, b);
        tenon__text_add(&m.text, "dimension %d is %" PRId64 ", not %" PRId64, found.at, view->shape[found.at],
                        dim->number);
        return tenon__message_end(&m, status, err);
    }
    tenon__message_begin(&m, b);
    message_colon(&m, b);
    if (dim->kind == TENON_DIM_STAR || dim->kind == TENON_DIM_BATCH) {
        refuse_star(&m, dim->kind == TENON_DIM_BATCH ? "**" : "*", dim->slot, view->ndim - (spec->ndims - 1),
                    view->ndim ? view->shape + found.dim : NULL, b);
        return tenon__message_end(&m, status, err);
    }
    tenon__text_add(&m.text, "dimension %d is %" PRId64 ", but ", found.at, view->shape[found.at]);
    if (dim->kind == TENON_DIM_EXPRESSION) {
        refuse_expression(&m, spec, dim, b, &status);
    } else {
        tenon__text_add(&m.text, "%s = %" PRId64, b->names->dims[dim->slot], b->dims[dim->slot]);
        add_from(&m, b->dims_from[dim->slot]);
    }
    return tenon__message_end(&m, status, err);
}

/* ------------------------------------------------------------------------------------------------ layout and memory */

static tenon_status bad_layout(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
                               const char *what, tenon_error *err)
{
    tenon__message m;
    message_expected(&m, spec, tenon__code_of(spec)->text_length, view, b);
    tenon__text_add(&m.text, "strides ");
    tenon__text_add_list(&m.text, view->ndim, view->strides);
    tenon__text_add(&m.text, " %s", what);
    return tenon__message_end(&m, TENON_ELAYOUT, err);
}

static tenon_status check_alignment(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
                                    tenon_error *err)
{
    size_t alignment = tenon_view_alignment(view);
    tenon__message m;
    if (!(spec->flags & TENON_SPEC_UNALIGNED) && !tenon__device_in(view->device, TENON__HANDLE_DEVICES) &&
        alignment < tenon__dtype_alignment(view->dtype)) {
        tenon__message_begin(&m, b);
        message_colon(&m, b);
        tenon__text_add(&m.text, "its memory is not aligned to %d bytes; pass a copy",
                        (int)tenon__dtype_alignment(view->dtype));
        return tenon__message_end(&m, TENON_ELAYOUT, err);
    }
    if (alignment < (uint64_t)spec->alignment) {
        message_expected(&m, spec, tenon__code_of(spec)->text_length, view, b);
        tenon__text_add(&m.text, "the memory is aligned to %zu bytes, not %" PRId64, alignment, spec->alignment);
        return tenon__message_end(&m, TENON_ELAYOUT, err);
    }
    return TENON_OK;
}

static tenon_status check_layout_of(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
                                    tenon_error *err)
{
    if ((spec->flags & TENON_SPEC_C) && !(view->flags & TENON_VIEW_C))
        return bad_layout(spec, view, b, "are not in C order without gaps; pass a copy that is", err);
    if ((spec->flags & TENON_SPEC_F) && !(view->flags & TENON_VIEW_F))
        return bad_layout(spec, view, b, "are not in Fortran order without gaps; pass a copy that is", err);
    if ((spec->flags & TENON_SPEC_DENSE) && !(view->flags & TENON_VIEW_DENSE))
        return bad_layout(spec, view, b, "leave gaps between the elements; pass a copy without gaps", err);
    return view->numel ? check_alignment(spec, view, b, err) : TENON_OK;
}

bool tenon__device_fits(const tenon_spec *spec, tenon_device device)
{
    if (spec->flags & TENON_SPEC_ANYWHERE)
        return true;
    uint32_t wanted = spec->devices ? spec->devices : 1u << TENON_CPU;
    if (wanted >> device.device_type & 1)
        return true;
    return ((wanted >> TENON_CPU & 1) && tenon_device_on_host(device)) ||
           ((wanted >> TENON_CUDA & 1) && device.device_type == TENON_CUDA_MANAGED);
}

/* The rest of the message, and what to do: move it to the first device that fits. */
static tenon_status bad_device(const tenon_spec *spec, const tenon_view *view, tenon__message *m, tenon_error *err)
{
    tenon__text_add(&m->text, "the memory is on ");
    tenon__text_add_device(&m->text, view->device);
    if (!spec->devices)
        tenon__text_add(&m->text, ", which the CPU cannot read");
    int32_t type = TENON_CPU;
    while (spec->devices && !(spec->devices >> type & 1))
        type++;
    tenon__text_add(&m->text, "; move it to %s", type == TENON_CPU ? "the CPU" : tenon__device_name(type));
    return tenon__message_end(m, TENON_EDEVICE, err);
}

static tenon_status check_memory(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
                                 tenon_error *err)
{
    tenon__message m;
    if (!tenon__device_fits(spec, view->device)) {
        message_expected(&m, spec, tenon__code_of(spec)->text_length, view, b);
        return bad_device(spec, view, &m, err);
    }
    if (!(spec->flags & TENON_SPEC_WRITE))
        return TENON_OK;
    const char *subject = b->argument ? "" : "the tensor";
    if (view->flags & TENON_READ_ONLY) {
        tenon__message_begin(&m, b);
        tenon__text_add(&m.text, "%s is read-only, but must be writable; pass a copy", subject);
        return tenon__message_end(&m, TENON_EREADONLY, err);
    }
    if (!(spec->flags & TENON_SPEC_ALIAS) && tenon_view_self_overlaps(view)) {
        tenon__message_begin(&m, b);
        tenon__text_add(&m.text, "%s overlaps itself (strides ", subject);
        tenon__text_add_list(&m.text, view->ndim, view->strides);
        tenon__text_add(&m.text, "), so it cannot be written to; pass a copy");
        return tenon__message_end(&m, TENON_EOVERLAP, err);
    }
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------------- the whole */

tenon_status tenon__spec_check(const tenon_spec *spec, const tenon_view *view, tenon_bindings *b, tenon_error *err)
{
    if (!view) {
        if (spec->flags & TENON_SPEC_OPTIONAL)
            return TENON_OK;
        tenon__message m;
        message_expected(&m, spec, tenon__code_of(spec)->type_length, view, b);
        tenon__text_add(&m.text, "it cannot be left out");
        return tenon__message_end(&m, TENON_EINVAL, err);
    }
    tenon_status status = check_dtype(spec, view, b, err);
    if (!status)
        status = check_shape(spec, view, b, err);
    if (!status)
        status = check_layout_of(spec, view, b, err);
    if (!status)
        status = check_memory(spec, view, b, err);
    return status;
}

tenon_status tenon_spec_check(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *bindings,
                              tenon_error *err)
{
    if (!spec || !bindings || !bindings->names)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_spec_check", "argument '%s' is NULL",
                                  !spec      ? "spec"
                                  : bindings ? "bindings->names"
                                             : "bindings");
    tenon_bindings own = *bindings; /* names that have no value yet get one here only */
    return tenon__spec_check(spec, view, &own, err);
}

tenon_status tenon_spec_match(const tenon_spec *spec, const tenon_view *view, tenon_bindings *bindings,
                              tenon_error *err)
{
    if (!spec || !bindings)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_spec_match", "argument '%s' is NULL",
                                  spec ? "bindings" : "spec");
    if (view && bindings->names && tenon__spec_fits(spec, view, bindings))
        return TENON_OK;
    return tenon_spec_check(spec, view, bindings, err);
}
