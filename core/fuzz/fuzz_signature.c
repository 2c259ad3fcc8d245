/* Compiles the input up to a 0 as a signature. The bytes after it become the arguments, the results and `out` of a
 * call. */
#include "fuzz.h"

/* Whether a pointer points into the block of the signature. */
static bool inside(const tenon_signature *s, const void *pointer)
{
    return (const char *)pointer > (const char *)s && (const char *)pointer < (const char *)s + s->size;
}

/* The code of every dimension can be evaluated: each step finds its operands, and one value is left. */
static void check_dims(const tenon_signature *s, int32_t item, const tenon_spec *spec)
{
    const tenon_names *names = tenon_signature_names(s);
    for (int32_t i = 0; spec && i < spec->ndims; i++) {
        tenon_dimension dim;
        FUZZ_CHECK(tenon_signature_dim(s, item, i, &dim, NULL) == TENON_OK);
        FUZZ_CHECK(inside(s, dim.text) && dim.length > 0 && dim.ncode <= TENON_SPEC_CODE);
        FUZZ_CHECK(dim.slot < (dim.kind == TENON_DIM_STAR ? names->nstars : names->ndims));
        int32_t depth = 0;
        for (int32_t k = 0; k < dim.ncode; k++) {
            bool pushes = dim.code[k].kind == TENON_OP_NUMBER || dim.code[k].kind == TENON_OP_NAME;
            FUZZ_CHECK((pushes || depth >= 2) && dim.code[k].slot < names->ndims);
            depth += pushes ? 1 : -1;
        }
        bool has_value = dim.kind == TENON_DIM_NUMBER || dim.kind == TENON_DIM_NAME || dim.kind == TENON_DIM_EXPRESSION;
        FUZZ_CHECK(depth == has_value);
    }
}

static void check_item(const tenon_signature *s, const tenon_parameter *item, bool is_result)
{
    FUZZ_CHECK(item->kind > TENON_KIND_NONE && item->kind <= TENON_KIND_HANDLE && item->kind != TENON_KIND_TENSORS);
    FUZZ_CHECK(item->flags < 16 && inside(s, item->type) && *item->type);
    FUZZ_CHECK(item->name ? inside(s, item->name) && *item->name : is_result && !s->named_results);
    FUZZ_CHECK((item->spec != NULL) == (item->kind == TENON_KIND_TENSOR));
    FUZZ_CHECK((item->handle != NULL) == (item->kind == TENON_KIND_HANDLE));
    FUZZ_CHECK((item->choices != NULL) == (item->kind == TENON_KIND_ENUM));
    FUZZ_CHECK(item->dim >= -1 && item->dim < s->names.ndims && (item->dim < 0 || item->kind == TENON_KIND_INT));
    for (int32_t i = 0; item->choices && i < item->count; i++)
        FUZZ_CHECK(inside(s, item->choices[i]));
    if (item->spec) {
        FUZZ_CHECK(inside(s, item->spec) && item->spec->ndims <= TENON_SPEC_DIMS);
        FUZZ_CHECK(!(item->spec->flags & TENON_SPEC_OPTIONAL) == !(item->flags & TENON_PARAMETER_OPTIONAL));
    }
    const tenon_value *value = &item->value;
    if (is_result)
        return;
    FUZZ_CHECK(value->flags == TENON_VALUE_DEFAULT && !(item->flags & TENON_PARAMETER_OPEN));
    FUZZ_CHECK(value->kind == item->kind || value->kind == TENON_KIND_NONE);
    FUZZ_CHECK(value->kind != TENON_KIND_NONE || !(item->flags & TENON_PARAMETER_DEFAULT) ||
               (item->flags & TENON_PARAMETER_OPTIONAL));
    FUZZ_CHECK(!item->literal || inside(s, item->literal));
    if (value->kind == TENON_KIND_ENUM)
        FUZZ_CHECK(value->as.integer >= 0 && value->as.integer < item->count);
    if (value->kind == TENON_KIND_STR)
        FUZZ_CHECK((int64_t)strlen(value->as.list.data) == value->as.list.length);
    if (value->kind == TENON_KIND_INTS || value->kind == TENON_KIND_FLOATS)
        FUZZ_CHECK(item->count < 0 || value->as.list.length == item->count);
}

static void check_signature(const tenon_signature *s)
{
    int32_t positional = 0, required = 0, tensors = 0, written = 0;
    bool open = false, binds = false;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *item = &s->params[i];
        check_item(s, item, false);
        check_dims(s, i, item->spec);
        positional += !(item->flags & TENON_PARAMETER_KEYWORD_ONLY);
        required += !(item->flags & (TENON_PARAMETER_KEYWORD_ONLY | TENON_PARAMETER_DEFAULT));
        tensors += item->spec != NULL;
        written += item->spec && (item->spec->flags & TENON_SPEC_WRITE);
        binds |= item->dim >= 0;
    }
    for (int32_t i = 0; i < s->nresults; i++) {
        check_item(s, &s->results[i], true);
        check_dims(s, s->nparams + i, s->results[i].spec);
        open |= (s->results[i].flags & TENON_PARAMETER_OPEN) != 0;
    }
    FUZZ_CHECK(s->nparams <= TENON_MAX_PARAMETERS && s->nresults <= TENON_MAX_RESULTS);
    FUZZ_CHECK(s->npositional == positional && s->nrequired == required);
    FUZZ_CHECK(s->ntensors == tensors && s->nwritten == written && s->open_results == open && s->binds_ints == binds);
    FUZZ_CHECK(s->names.ndims <= TENON_MAX_NAMES && s->names.nstars <= TENON_MAX_VARIABLES &&
               s->names.ntypes <= TENON_MAX_VARIABLES);
    /* Its own text must compile to the same signature. */
    tenon_signature *twin = NULL;
    FUZZ_CHECK(tenon_signature_alloc(s->text, &twin, NULL) == TENON_OK);
    FUZZ_CHECK(strcmp(twin->text, s->text) == 0 && strcmp(twin->name, s->name) == 0);
    FUZZ_CHECK(twin->nparams == s->nparams && twin->nresults == s->nresults && twin->nrequired == s->nrequired);
    FUZZ_CHECK(memcmp(&twin->names, &s->names, sizeof s->names) == 0);
    tenon_signature_release(twin);
}

static void check_results(fuzz_input *in, const tenon_signature *s, const tenon_value *args, tenon_bindings *bindings)
{
    for (int32_t i = 0; i < s->nresults; i++) {
        tenon_dtype dtype;
        int32_t ndim = 0;
        int64_t shape[TENON_MAX_NDIM], dims[16];
        tenon_error err = {0};
        tenon_status status = tenon_signature_result(s, i, bindings, &dtype, &ndim, shape, &err);
        fuzz_check_error(status, &err);
        FUZZ_CHECK(s->results[i].spec || status == TENON_EINVAL);
        if (status == TENON_OK) {
            bool open = s->results[i].flags & TENON_PARAMETER_OPEN;
            FUZZ_CHECK(tenon_dtype_known(dtype) && ndim >= 0 && ndim <= TENON_MAX_NDIM);
            for (int32_t k = 0; k < ndim; k++) {
                FUZZ_CHECK(shape[k] >= 0 || (open && shape[k] == -1));
                shape[k] = shape[k] < 0 ? fuzz_byte(in) : shape[k];
            }
            status = tenon_signature_open_result(s, i, bindings, ndim, shape, &dtype, &err);
            FUZZ_CHECK(status == (open ? TENON_OK : TENON_EINVAL));
        }
        tenon_view out;
        if (!s->results[i].spec || !fuzz_view(in, &out, dims))
            continue;
        tenon_device device = tenon_device_of(fuzz_byte(in) < 200 ? TENON_CPU : TENON_CUDA, 0);
        status = tenon_signature_match_out(s, i, &out, args, device, bindings, &err);
        fuzz_check_error(status, &err);
        FUZZ_CHECK(tenon_signature_match_out(s, i, &out, args, device, bindings, NULL) == status);
    }
}

static void call_it(fuzz_input *in, const tenon_signature *s)
{
    static tenon_view views[TENON_MAX_PARAMETERS];
    static int64_t dims[TENON_MAX_PARAMETERS][16];
    tenon_value args[TENON_MAX_PARAMETERS] = {{0}};
    for (int32_t i = 0; i < s->nparams; i++) {
        if (s->params[i].spec ? !fuzz_view(in, &views[i], dims[i]) : fuzz_byte(in) < 32)
            continue;
        args[i].kind = s->params[i].kind;
        if (s->params[i].spec)
            args[i].as.view = &views[i];
        else
            args[i].as.integer = fuzz_number(in);
    }
    tenon_bindings bindings;
    tenon_error err = {0};
    tenon_status quiet = tenon_signature_match(s, args, NULL, &bindings, NULL);
    tenon_status status = tenon_signature_match(s, args, NULL, &bindings, &err);
    fuzz_check_error(status, &err);
    FUZZ_CHECK(quiet == status);
    if (status)
        return;
    for (int32_t i = 0; i < s->names.ndims; i++)
        FUZZ_CHECK((bindings.dims_bound >> i & 1) || bindings.dims[i] == -1);
    check_results(in, s, args, &bindings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length = 0;
    while (length < size && data[length])
        length++;
    char *text = malloc(length + 1);
    FUZZ_CHECK(text);
    if (length > 0)
        memcpy(text, data, length);
    text[length] = 0;
    fuzz_input in = {data + length, size - length};
    fuzz_bytes(&in, 1);
    tenon_signature *signature = NULL;
    tenon_error err = {0};
    tenon_status status = tenon_signature_alloc(text, &signature, &err);
    fuzz_check_error(status, &err);
    FUZZ_CHECK((status == TENON_OK) == (signature != NULL));
    free(text); /* the signature must not point into it */
    if (signature) {
        check_signature(signature);
        call_it(&in, signature);
    } else {
        FUZZ_CHECK(status == TENON_EPARSE);
        FUZZ_CHECK(length > 8191 || err.message[strlen(err.message) - 1] == '^');
    }
    tenon_signature_release(signature);
    fuzz_nothing_left();
    return 0;
}
