/* The dimensions of a signature's tensors, as structs that a host can read. */
#include "spec.h"

tenon_status tenon_signature_dim(const tenon_signature *signature, int32_t item, int32_t index, tenon_dimension *out,
                                 tenon_error *err)
{
    const char *function = "tenon_signature_dim";
    if (!signature || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL",
                                  signature ? "out" : "signature");
    const tenon_parameter *found = tenon_signature_param(signature, item);
    if (!found && item >= 0)
        found = tenon_signature_result_item(signature, item - signature->nparams);
    const tenon_spec *spec = found ? found->spec : NULL;
    if (!spec)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'item': item %d of %s() is not a tensor", item,
                                  signature->name);
    if (index < 0 || index >= spec->ndims)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument 'index': expected 0 to %d, got %d",
                                  spec->ndims - 1, index);
    const tenon__spec_dim *dim = &tenon__code_of(spec)->dims[index];
    out->kind = dim->kind;
    out->slot = dim->kind == TENON_DIM_NAME || dim->kind == TENON_DIM_STAR ? dim->slot : -1;
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
