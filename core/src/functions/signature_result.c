/* Computes the dtype and shape of results from the names that the arguments of a call have bound. */
#include "spec.h"

#include <inttypes.h>

/* Begin a message with "saxpy(): result 0: ", or "saxpy(): result 'z': ". */
static void begin_result_message(tenon__message *m, const tenon_signature *s, int32_t index, const tenon_bindings *b)
{
    tenon__message_begin(m, b);
    if (s->results[index].name)
        tenon__text_add(&m->text, "result '%s': ", s->results[index].name);
    else
        tenon__text_add(&m->text, "result %d: ", index);
}

static tenon_status result_size(const tenon_signature *s, int32_t index, const tenon__spec_dim *dim, int32_t at,
                                const tenon_bindings *b, int64_t *size, tenon_error *err)
{
    const tenon_spec *spec = s->results[index].spec;
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

/* The general case, for any spec. */
static tenon_status compute_result(const tenon_signature *s, int32_t index, const tenon_bindings *b, tenon_dtype *dtype,
                                   int32_t *ndim, int64_t *shape, tenon_error *err)
{
    const tenon_spec *spec = s->results[index].spec;
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
        if (dim->kind == TENON_DIM_STAR)
            status = result_star(s, index, dim->slot, b, ndim, shape, err);
        else if (*ndim == TENON_MAX_NDIM)
            status = tenon_error_set_in(err, TENON_ESHAPE, s->name, "result %d has more than 64 dimensions", index);
        else if (dim->kind == TENON_DIM_UNKNOWN)
            shape[(*ndim)++] = -1;
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
    const tenon__fast_spec *fast = &signature->fast[signature->nparams + index];
    bool known = fast->ndim >= 0;
    for (int32_t i = 0; i < fast->ndim; i++) {
        int slot = fast->slots[i];
        shape[i] = bindings->dims[slot];
        known &= (bindings->dims_bound >> slot & 1) && shape[i] >= 0;
    }
    if (!known)
        return compute_result(signature, index, bindings, dtype, ndim, shape, err);
    *dtype = fast->dtype;
    *ndim = fast->ndim;
    return TENON_OK;
}

tenon_status tenon_signature_open_result(const tenon_signature *signature, int32_t index,
                                         const tenon_bindings *bindings, int32_t ndim, const int64_t *shape,
                                         tenon_dtype *dtype, tenon_error *err)
{
    int32_t wanted_ndim;
    int64_t wanted[TENON_MAX_NDIM];
    tenon_status status = check_result_index(signature, index, bindings && dtype, "tenon_signature_open_result", err);
    if (!status)
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
    bool given = signature->results[index].flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF);
    tenon__text_add(&m.text, "expected %.*s, but the function %s ",
                    tenon__code_of(signature->results[index].spec)->type_length, signature->results[index].spec->text,
                    given ? "gave" : "asked for");
    if (ndim >= 0 && ndim <= TENON_MAX_NDIM && (ndim == 0 || shape)) {
        tenon__text_add(&m.text, "shape ");
        tenon__text_add_list(&m.text, ndim, shape);
    } else {
        bool no_shape = ndim > 0 && ndim <= TENON_MAX_NDIM;
        tenon__text_add(&m.text, "%d dimension%s%s", ndim, ndim == 1 ? "" : "s", no_shape ? " with shape NULL" : "");
    }
    return tenon__message_end(&m, TENON_ESHAPE, err);
}
