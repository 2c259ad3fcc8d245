/* Compiles the input up to a 0 as a signature, with the grammar of version 1.0 and with that of 1.1, in a module with
 * classes. The bytes after it become the arguments, the results and `out` of a call. */
#include "fuzz.h"

static const tenon_function entries[] = {{.signature = "class A"},
                                         {.signature = "class KDTree", .flags = TENON_CLASS_CONCURRENT}};
static const tenon_module module = {.magic = TENON_MAGIC,
                                    .major = TENON_ABI_MAJOR,
                                    .minor_needed = 1,
                                    .size = sizeof(tenon_module),
                                    .function_size = sizeof(tenon_function),
                                    .nfunctions = sizeof entries / sizeof *entries,
                                    .functions = entries,
                                    .name = "fuzz"};

static tenon_status compile(const char *text, bool in_module, tenon_signature **out, tenon_error *err)
{
    return in_module ? tenon_signature_alloc_in(text, &module, out, err) : tenon_signature_alloc(text, out, err);
}

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

/* "keep", "own", "of" and classes. */
static void check_lifetime(const tenon_signature *s, const tenon_parameter *item, bool is_result)
{
    const uint32_t given = TENON_PARAMETER_OWN | TENON_PARAMETER_OF;
    bool is_handle = item->kind == TENON_KIND_HANDLE;
    FUZZ_CHECK(!(item->flags & TENON_PARAMETER_KEEP) ||
               (item->spec && !is_result && !(item->spec->flags & TENON_SPEC_WRITE)));
    FUZZ_CHECK((item->flags & given) != given);
    FUZZ_CHECK(!(item->flags & given) || (item->spec && is_result && (item->flags & TENON_PARAMETER_OPEN)));
    FUZZ_CHECK(!(item->flags & TENON_PARAMETER_CLASS) || is_handle);
    FUZZ_CHECK(!(item->flags & TENON_PARAMETER_SERIAL) || (item->flags & TENON_PARAMETER_CLASS));
    if (!(item->flags & TENON_PARAMETER_OF)) {
        FUZZ_CHECK(item->owner == -1);
        return;
    }
    FUZZ_CHECK(item->owner >= 0 && item->owner < s->nparams);
    FUZZ_CHECK(s->params[item->owner].spec || (s->role == TENON_ROLE_METHOD && item->owner == 0));
}

static void check_item(const tenon_signature *s, const tenon_parameter *item, bool is_result)
{
    check_lifetime(s, item, is_result);
    FUZZ_CHECK(item->kind > TENON_KIND_NONE && item->kind <= TENON_KIND_HANDLE && item->kind != TENON_KIND_TENSORS);
    FUZZ_CHECK(item->flags < 512 && inside(s, item->type) && *item->type);
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
    if (is_result || (s->role == TENON_ROLE_METHOD && item == s->params))
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

static void check_role(const tenon_signature *s)
{
    int32_t serial = 0;
    for (int32_t i = 0; i < s->nparams; i++)
        serial += (s->params[i].flags & TENON_PARAMETER_SERIAL) != 0;
    FUZZ_CHECK(s->nserial == serial && s->role >= TENON_ROLE_FUNCTION && s->role <= TENON_ROLE_METHOD);
    FUZZ_CHECK((s->class_name != NULL) == (s->role != TENON_ROLE_FUNCTION));
    FUZZ_CHECK((s->method != NULL) == (s->role == TENON_ROLE_METHOD));
    FUZZ_CHECK(inside(s, s->name) && (!s->class_name || inside(s, s->class_name)) &&
               (!s->method || inside(s, s->method)));
    if (s->role == TENON_ROLE_CLASS)
        FUZZ_CHECK(s->nparams == 0 && s->nresults == 0);
    if (s->role == TENON_ROLE_CONSTRUCTOR)
        FUZZ_CHECK(s->nresults == 1 && strcmp(s->results[0].handle, s->class_name) == 0);
    if (s->role == TENON_ROLE_METHOD)
        FUZZ_CHECK(strcmp(s->params[0].name, "self") == 0 && strcmp(s->params[0].handle, s->class_name) == 0);
}

static void check_signature(const tenon_signature *s, bool in_module)
{
    check_role(s);
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
    FUZZ_CHECK(compile(s->text, in_module, &twin, NULL) == TENON_OK);
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

/* A signature of version 1.0 means the same in 1.1, unless a class has its name. */
static void check_same(const tenon_signature *old, const tenon_signature *current)
{
    FUZZ_CHECK(old->nparams == current->nparams && old->nresults == current->nresults &&
               old->planned == current->planned);
    FUZZ_CHECK(strcmp(old->name, current->name) == 0 && memcmp(&old->names, &current->names, sizeof old->names) == 0);
    const uint32_t classes = TENON_PARAMETER_CLASS | TENON_PARAMETER_SERIAL;
    for (int32_t i = 0; i < old->nparams; i++)
        FUZZ_CHECK(old->params[i].kind == current->params[i].kind &&
                   old->params[i].flags == (current->params[i].flags & ~classes));
    for (int32_t i = 0; i < old->nresults; i++)
        FUZZ_CHECK(old->results[i].kind == current->results[i].kind &&
                   old->results[i].flags == (current->results[i].flags & ~classes));
}

static bool has_class_name(const tenon_signature *s)
{
    return strcmp(s->name, "A") == 0 || strcmp(s->name, "KDTree") == 0;
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
    tenon_signature *signatures[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        tenon_error err = {0};
        tenon_status status = compile(text, i == 1, &signatures[i], &err);
        fuzz_check_error(status, &err);
        FUZZ_CHECK((status == TENON_OK) == (signatures[i] != NULL));
        FUZZ_CHECK(status == TENON_OK || status == TENON_EPARSE);
        FUZZ_CHECK(!status || length > 8191 || err.message[strlen(err.message) - 1] == '^');
    }
    memset(text, 0, length);
    free(text); /* the signatures must not point into it */
    for (int i = 0; i < 2; i++) {
        fuzz_input arguments = in;
        if (!signatures[i])
            continue;
        check_signature(signatures[i], i == 1);
        call_it(&arguments, signatures[i]);
    }
    if (signatures[0] && !has_class_name(signatures[0])) {
        FUZZ_CHECK(signatures[1]);
        check_same(signatures[0], signatures[1]);
    }
    tenon_signature_release(signatures[0]);
    tenon_signature_release(signatures[1]);
    fuzz_nothing_left();
    return 0;
}
