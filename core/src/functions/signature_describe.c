/* The dimensions of a signature's tensors, as structs that a host can read. */
#include "spec.h"

/* The numbers that hosts know are those that the compiler of specs uses. */
_Static_assert(TENON_DIM_ANY == (int)TENON__DIM_ANY && TENON_DIM_NUMBER == (int)TENON__DIM_NUMBER &&
                   TENON_DIM_NAME == (int)TENON__DIM_NAME && TENON_DIM_STAR == (int)TENON__DIM_STAR &&
                   TENON_DIM_EXPRESSION == (int)TENON__DIM_EXPRESSION && TENON_DIM_UNKNOWN == (int)TENON__DIM_UNKNOWN,
               "kinds of dimensions");
_Static_assert(TENON_OP_NUMBER == (int)TENON__OP_NUMBER && TENON_OP_NAME == (int)TENON__OP_NAME &&
                   TENON_OP_ADD == (int)TENON__OP_ADD && TENON_OP_SUB == (int)TENON__OP_SUB &&
                   TENON_OP_MUL == (int)TENON__OP_MUL && TENON_OP_FLOOR_DIV == (int)TENON__OP_DIV,
               "operations");

static const tenon_spec *spec_of(const tenon_signature *signature, int32_t item)
{
    int32_t result = item - signature->nparams;
    if (item < 0 || result >= signature->nresults)
        return NULL;
    return result < 0 ? signature->params[item].spec : signature->results[result].spec;
}

tenon_status tenon_signature_dim(const tenon_signature *signature, int32_t item, int32_t index, tenon_dimension *out,
                                 tenon_error *err)
{
    const char *function = "tenon_signature_dim";
    if (!signature || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL",
                                  signature ? "out" : "signature");
    const tenon_spec *spec = spec_of(signature, item);
    if (!spec)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'item': item %d of %s() is not a tensor", item,
                                  signature->name);
    if (index < 0 || index >= spec->ndims)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'index': expected 0 to %d, got %d",
                                  spec->ndims - 1, index);
    const tenon_spec_dim *dim = &spec->dims[index];
    out->kind = dim->kind;
    out->slot = dim->kind == TENON__DIM_NAME || dim->kind == TENON__DIM_STAR ? dim->slot : -1;
    out->number = dim->kind == TENON__DIM_NUMBER ? dim->number : 0;
    out->text = spec->text + dim->at;
    out->length = dim->length;
    out->ncode = dim->count;
    for (int32_t i = 0; i < dim->count; i++) {
        const tenon_spec_op *op = &spec->code[dim->first + i];
        out->code[i] = (tenon_dimension_op){.kind = op->kind, .slot = -1};
        if (op->kind == TENON__OP_NAME)
            out->code[i].slot = (int32_t)op->value;
        else if (op->kind == TENON__OP_NUMBER)
            out->code[i].number = op->value;
    }
    return TENON_OK;
}
