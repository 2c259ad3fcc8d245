#include "spec.h"

#include <inttypes.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- binding */

/* The dimension of a view that corresponds to dimension i of the spec. The view must have enough dimensions. */
static int32_t position_of(const tenon_spec *spec, int32_t i, int32_t ndim)
{
    return tenon__code_of(spec)->star >= 0 && i > tenon__code_of(spec)->star ? ndim - (spec->ndims - i) : i;
}

static bool ndim_fits(const tenon_spec *spec, int32_t ndim)
{
    return tenon__code_of(spec)->star >= 0 ? ndim >= spec->ndims - 1 : ndim == spec->ndims;
}

void tenon_spec_bind(const tenon_spec *spec, const tenon_view *view, tenon_bindings *bindings)
{
    if (!view)
        return;
    if (spec->variable >= 0 && !(bindings->types_bound >> spec->variable & 1)) {
        bindings->types_bound |= 1u << spec->variable;
        bindings->types[spec->variable] = view->dtype;
        bindings->types_from[spec->variable] = bindings->argument;
    }
    if (!ndim_fits(spec, view->ndim))
        return;
    for (int32_t i = 0; i < spec->ndims; i++) {
        const tenon__spec_dim *dim = &tenon__code_of(spec)->dims[i];
        if (dim->kind == TENON_DIM_NAME && !(bindings->dims_bound >> dim->slot & 1)) {
            bindings->dims_bound |= 1u << dim->slot;
            bindings->dims[dim->slot] = view->shape[position_of(spec, i, view->ndim)];
            bindings->dims_from[dim->slot] = bindings->argument;
        } else if (dim->kind == TENON_DIM_STAR && !(bindings->stars_bound >> dim->slot & 1)) {
            bindings->stars_bound |= 1u << dim->slot;
            bindings->stars[dim->slot] = view->ndim ? view->shape + i : NULL;
            bindings->star_ndims[dim->slot] = view->ndim - (spec->ndims - 1);
            bindings->stars_from[dim->slot] = bindings->argument;
        }
    }
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

/* Begin a message with "…: expected f32[n], got f64[4] (numpy.ndarray)" and a new line for the difference. */
static void message_expected(tenon__message *m, const tenon_spec *spec, int32_t length, const tenon_view *view,
                             const tenon_bindings *b)
{
    tenon__message_begin(m, b);
    message_colon(m, b);
    tenon__text_add(&m->text, "expected %.*s, got ", length, spec->text);
    if (view) {
        tenon__text_add_dtype(&m->text, view->dtype);
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

static tenon_status match_dtype(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
                                tenon_error *err)
{
    const tenon_dtypes *set = spec->variable >= 0 ? &b->names->allowed[spec->variable] : &spec->dtypes;
    bool allowed = tenon__dtypes_has(set, view->dtype);
    bool same = spec->variable < 0 || !(b->types_bound >> spec->variable & 1) ||
                tenon_dtype_equal(b->types[spec->variable], view->dtype);
    if (allowed && same)
        return TENON_OK;
    tenon__message m;
    message_expected(&m, spec, tenon__code_of(spec)->type_length, view, b);
    tenon__text_add(&m.text, "dtype is ");
    tenon__text_add_dtype(&m.text, view->dtype);
    if (spec->variable < 0) {
        tenon__text_add(&m.text, ", not ");
        add_dtypes(&m, set);
    } else if (!allowed) {
        tenon__text_add(&m.text, ", but %s is one of ", b->names->types[spec->variable]);
        add_dtypes(&m, set);
    } else {
        tenon__text_add(&m.text, ", but %s = ", b->names->types[spec->variable]);
        tenon__text_add_dtype(&m.text, b->types[spec->variable]);
        add_from(&m, b->types_from[spec->variable]);
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

bool tenon__spec_evaluate(const tenon_spec *spec, const tenon__spec_dim *dim, const tenon_bindings *b, int64_t *out,
                          const char **unbound)
{
    int64_t stack[TENON_SPEC_CODE];
    int32_t top = 0;
    for (int32_t i = dim->first; i < dim->first + dim->count; i++) {
        const tenon__spec_op *op = &tenon__code_of(spec)->ops[i];
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

static tenon_status match_expression(const tenon_spec *spec, const tenon__spec_dim *dim, int32_t at, int64_t size,
                                     const tenon_bindings *b, tenon_error *err)
{
    int64_t wanted = 0;
    const char *unbound = NULL;
    bool known = tenon__spec_evaluate(spec, dim, b, &wanted, &unbound);
    if (known && wanted == size)
        return TENON_OK;
    tenon__message m;
    tenon__message_begin(&m, b);
    message_colon(&m, b);
    tenon__text_add(&m.text, "dimension %d is %" PRId64 ", but ", at, size);
    if (unbound) {
        tenon__text_add(&m.text, "%s in %.*s has no value: no argument determines it", unbound, dim->length,
                        spec->text + dim->at);
        return tenon__message_end(&m, TENON_EINVAL, err);
    }
    tenon__text_add(&m.text, "%.*s ", dim->length, spec->text + dim->at);
    if (known)
        tenon__text_add(&m.text, "= %" PRId64, wanted);
    else
        tenon__text_add(&m.text, "overflows 64 bits or divides by 0");
    tenon__message_add_values(&m, spec, dim, b);
    return tenon__message_end(&m, known ? TENON_ESHAPE : TENON_EOVERFLOW, err);
}

static tenon_status match_star(const tenon_spec *spec, int32_t i, const tenon_view *view, const tenon_bindings *b,
                               tenon_error *err)
{
    int32_t slot = tenon__code_of(spec)->dims[i].slot, ndim = view->ndim - (spec->ndims - 1);
    if (!(b->stars_bound >> slot & 1))
        return TENON_OK;
    if (ndim == b->star_ndims[slot] &&
        (ndim == 0 || memcmp(view->shape + i, b->stars[slot], (size_t)ndim * sizeof(int64_t)) == 0))
        return TENON_OK;
    tenon__message m;
    tenon__message_begin(&m, b);
    message_colon(&m, b);
    tenon__text_add(&m.text, "*%s is ", b->names->stars[slot]);
    tenon__text_add_list(&m.text, ndim, ndim ? view->shape + i : NULL);
    tenon__text_add(&m.text, ", but *%s = ", b->names->stars[slot]);
    tenon__text_add_list(&m.text, b->star_ndims[slot], b->stars[slot]);
    add_from(&m, b->stars_from[slot]);
    return tenon__message_end(&m, TENON_ESHAPE, err);
}

static tenon_status match_shape(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
                                tenon_error *err)
{
    if (!ndim_fits(spec, view->ndim)) {
        tenon__message m;
        int32_t wanted = spec->ndims - (tenon__code_of(spec)->star >= 0);
        message_expected(&m, spec, tenon__code_of(spec)->type_length, view, b);
        tenon__text_add(&m.text, "%d dimension%s, not %s%d", view->ndim, view->ndim == 1 ? "" : "s",
                        tenon__code_of(spec)->star >= 0 ? "at least " : "", wanted);
        return tenon__message_end(&m, TENON_ESHAPE, err);
    }
    for (int32_t i = 0; i < spec->ndims; i++) {
        const tenon__spec_dim *dim = &tenon__code_of(spec)->dims[i];
        int32_t at = position_of(spec, i, view->ndim);
        tenon_status status = TENON_OK;
        if (dim->kind == TENON_DIM_NAME) {
            if (!(b->dims_bound >> dim->slot & 1) || b->dims[dim->slot] == view->shape[at])
                continue;
            tenon__message m;
            tenon__message_begin(&m, b);
            message_colon(&m, b);
            tenon__text_add(&m.text, "dimension %d is %" PRId64 ", but %s = %" PRId64, at, view->shape[at],
                            b->names->dims[dim->slot], b->dims[dim->slot]);
            add_from(&m, b->dims_from[dim->slot]);
            return tenon__message_end(&m, TENON_ESHAPE, err);
        }
        if (dim->kind == TENON_DIM_NUMBER && view->shape[at] != dim->number) {
            tenon__message m;
            message_expected(&m, spec, tenon__code_of(spec)->type_length, view, b);
            tenon__text_add(&m.text, "dimension %d is %" PRId64 ", not %" PRId64, at, view->shape[at], dim->number);
            return tenon__message_end(&m, TENON_ESHAPE, err);
        }
        if (dim->kind == TENON_DIM_EXPRESSION)
            status = match_expression(spec, dim, at, view->shape[at], b, err);
        else if (dim->kind == TENON_DIM_STAR)
            status = match_star(spec, i, view, b, err);
        if (status)
            return status;
    }
    return TENON_OK;
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

static tenon_status match_alignment(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
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

static tenon_status match_layout(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
                                 tenon_error *err)
{
    if ((spec->flags & TENON_SPEC_C) && !(view->flags & TENON_VIEW_C))
        return bad_layout(spec, view, b, "are not in C order without gaps; pass a copy that is", err);
    if ((spec->flags & TENON_SPEC_F) && !(view->flags & TENON_VIEW_F))
        return bad_layout(spec, view, b, "are not in Fortran order without gaps; pass a copy that is", err);
    if ((spec->flags & TENON_SPEC_DENSE) && !(view->flags & TENON_VIEW_DENSE))
        return bad_layout(spec, view, b, "leave gaps between the elements; pass a copy without gaps", err);
    return view->numel ? match_alignment(spec, view, b, err) : TENON_OK;
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

static tenon_status match_memory(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *b,
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

tenon_status tenon_spec_check(const tenon_spec *spec, const tenon_view *view, const tenon_bindings *bindings,
                              tenon_error *err)
{
    if (!spec || !bindings || !bindings->names)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_spec_check", "argument '%s' is NULL",
                                  !spec      ? "spec"
                                  : bindings ? "bindings->names"
                                             : "bindings");
    if (!view) {
        if (spec->flags & TENON_SPEC_OPTIONAL)
            return TENON_OK;
        tenon__message m;
        message_expected(&m, spec, tenon__code_of(spec)->type_length, view, bindings);
        tenon__text_add(&m.text, "it cannot be left out");
        return tenon__message_end(&m, TENON_EINVAL, err);
    }
    tenon_status status = match_dtype(spec, view, bindings, err);
    if (!status)
        status = match_shape(spec, view, bindings, err);
    if (!status)
        status = match_layout(spec, view, bindings, err);
    if (!status)
        status = match_memory(spec, view, bindings, err);
    return status;
}

tenon_status tenon_spec_match(const tenon_spec *spec, const tenon_view *view, tenon_bindings *bindings,
                              tenon_error *err)
{
    if (!spec || !bindings)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_spec_match", "argument '%s' is NULL",
                                  spec ? "bindings" : "spec");
    tenon_spec_bind(spec, view, bindings);
    return tenon_spec_check(spec, view, bindings, err);
}
