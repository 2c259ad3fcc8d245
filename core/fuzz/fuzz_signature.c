/* Compiles the input up to a 0 as a signature, by itself and in a module with classes. The bytes after it become the
 * arguments, the results and `out` of a call. */
#include "fuzz.h"

static const tenon_function entries[] = {{.signature = "class A"},
                                         {.signature = "class KDTree", .flags = TENON_CLASS_CONCURRENT}};
static const tenon_module module = {.magic = TENON_MAGIC,
                                    .major = TENON_ABI_MAJOR,
                                    .size = sizeof(tenon_module),
                                    .function_size = sizeof(tenon_function),
                                    .nfunctions = sizeof entries / sizeof *entries,
                                    .functions = entries,
                                    .name = "fuzz"};

static tenon_status compile(const char *text, bool in_module, tenon_signature **out, tenon_error *err)
{
    return tenon_signature_alloc(text, in_module ? &module : NULL, TENON_HOST_LAYOUT, out, err);
}

/* ------------------------------------------------------------------------------------------------------- the host */

/* A host that keeps the error of a refusal, and whose results have no memory. */
typedef struct fuzz_frame {
    tenon_frame base;
    tenon_error refused;
    int refusals;
    tenon_view view;
    tenon_value results[TENON_MAX_RESULTS];
} fuzz_frame;

static void refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err)
{
    fuzz_frame *f = (fuzz_frame *)(void *)base;
    (void)why;
    (void)index;
    f->refused = *err;
    FUZZ_CHECK(f->refusals++ == 0);
}

static const char *describe(tenon_frame *base, int32_t index)
{
    (void)base;
    return index % 2 ? "an argument" : NULL;
}

static int open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    fuzz_frame *f = (fuzz_frame *)(void *)base;
    (void)shape;
    /* On a device that the spec allows. */
    uint32_t devices = base->signature->results[index].spec->devices;
    int32_t type = TENON_CPU;
    while (devices && !(devices >> type & 1))
        type++;
    f->view = (tenon_view){.dtype = dtype, .ndim = ndim, .device = tenon_device_of(type, 0)};
    tenon_frame_set_result(base, index, &f->view, 0);
    return 0;
}

/* An item of a list of results, on a device that the spec allows. */
static int make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                     const int64_t *shape, tenon_view *view)
{
    uint32_t devices = base->signature->results[index].items->devices;
    int32_t type = TENON_CPU;
    FUZZ_CHECK(item >= 0 && ndim >= 0 && ndim <= TENON_MAX_NDIM && tenon_dtype_known(dtype));
    for (int32_t i = 0; i < ndim; i++)
        FUZZ_CHECK(shape[i] >= 0);
    while (devices && !(devices >> type & 1))
        type++;
    *view = (tenon_view){.dtype = dtype, .ndim = ndim, .device = tenon_device_of(type, 0)};
    return 0;
}

static const tenon_client client = {
    .refuse = refuse, .describe = describe, .open_result = open_result, .make_item = make_item, .open_item = make_item};
static const tenon_host host = {TENON_HOST_SERVICES, .name = "fuzz"};

static void begin(fuzz_frame *f, const tenon_signature *s, tenon_value *args)
{
    tenon_call constant;
    tenon_call_init(&constant, &host, NULL, NULL, s);
    f->refusals = 0;
    f->base.args = args;
    f->base.results = f->results;
    tenon_frame_begin(&f->base, &client, &constant, s);
    for (int32_t i = 0; i < s->nresults; i++)
        tenon_frame_begin_result(&f->base, i);
}

/* Whether a pointer points into the block of the signature. */
static bool inside(const tenon_signature *s, const void *pointer)
{
    return (const char *)pointer > (const char *)s && (const char *)pointer < (const char *)s + s->size;
}

/* The code of every dimension can be evaluated: each step finds its operands, and one value is left. */
static void check_dims(const tenon_signature *s, int32_t item, const tenon_spec *spec)
{
    const tenon_names *names = &s->names;
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

static void check_conditions(const tenon_signature *s)
{
    FUZZ_CHECK(s->nconditions == 0 || s->plan != TENON_PLAN_PLAIN);
    for (int32_t i = 0; i < s->nconditions; i++)
        FUZZ_CHECK(inside(s, s->conditions[i]) && strpbrk(s->conditions[i], "<>"));
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
    if (!(item->flags & (TENON_PARAMETER_OF | TENON_PARAMETER_EACH))) {
        FUZZ_CHECK(item->owner == -1);
        return;
    }
    FUZZ_CHECK(item->owner >= 0 && item->owner < s->nparams);
    if (item->flags & TENON_PARAMETER_EACH) {
        FUZZ_CHECK(is_result && item->items && s->params[item->owner].items && !(item->flags & TENON_PARAMETER_OPEN));
        return;
    }
    FUZZ_CHECK(s->params[item->owner].spec || (s->has_self && item->owner == 0));
}

/* Choices of integers, and dtypes. */
static void check_value_kind(const tenon_signature *s, const tenon_parameter *item, bool is_result)
{
    bool is_int = item->kind == TENON_KIND_INT, is_dtype = item->kind == TENON_KIND_DTYPE;
    FUZZ_CHECK(!is_result || (!item->integers && !is_dtype));
    FUZZ_CHECK(!item->integers || (is_int && item->count > 1 && inside(s, item->integers + item->count - 1)));
    FUZZ_CHECK(item->variable >= -1 && item->variable < s->names.ntypes && (item->variable < 0 || is_dtype));
    FUZZ_CHECK(item->checked == (!is_result && (item->dim >= 0 || item->integers || item->variable >= 0)));
    FUZZ_CHECK(item->value.kind != TENON_KIND_DTYPE || tenon_dtype_known(item->value.as.dtype));
    const tenon_text *texts = item->value.kind == TENON_KIND_STRS ? item->value.as.list.data : NULL;
    for (int64_t i = 0; texts && i < item->value.as.list.length; i++)
        FUZZ_CHECK(inside(s, texts[i].data) && strlen(texts[i].data) == texts[i].length);
}

static void check_item(const tenon_signature *s, const tenon_parameter *item, bool is_result)
{
    check_lifetime(s, item, is_result);
    FUZZ_CHECK(item->kind > TENON_KIND_NONE && item->kind <= TENON_KIND_CALLABLE);
    FUZZ_CHECK(item->flags < 1024 && inside(s, item->type) && *item->type);
    FUZZ_CHECK(item->name ? inside(s, item->name) && *item->name : is_result && !s->named_results);
    FUZZ_CHECK((item->spec != NULL) == (item->kind == TENON_KIND_TENSOR));
    FUZZ_CHECK((item->items != NULL) == (item->kind == TENON_KIND_TENSORS));
    FUZZ_CHECK(!item->items || (inside(s, item->items) && !(item->items->flags & TENON_SPEC_OPTIONAL) &&
                                (is_result || (inside(s, item->first) && strstr(item->first, "[0]")))));
    FUZZ_CHECK((item->handle != NULL) == (item->kind == TENON_KIND_HANDLE));
    FUZZ_CHECK((item->choices != NULL) == (item->kind == TENON_KIND_ENUM));
    check_value_kind(s, item, is_result);
    FUZZ_CHECK(item->dim >= -1 && item->dim < s->names.ndims && (item->dim < 0 || item->kind == TENON_KIND_INT));
    for (int32_t i = 0; item->choices && i < item->count; i++)
        FUZZ_CHECK(inside(s, item->choices[i]));
    if (item->spec) {
        FUZZ_CHECK(inside(s, item->spec) && item->spec->ndims <= TENON_SPEC_DIMS);
        FUZZ_CHECK(!(item->spec->flags & TENON_SPEC_OPTIONAL) == !(item->flags & TENON_PARAMETER_OPTIONAL));
    }
    const tenon_value *value = &item->value;
    if (is_result || (s->has_self && item == s->params))
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
    FUZZ_CHECK(s->nserial == serial && s->role >= TENON_ROLE_FUNCTION && s->role <= TENON_ROLE_CONSTANT);
    bool is_constant = s->role == TENON_ROLE_CONSTANT;
    FUZZ_CHECK(is_constant ? !s->method == !s->class_name
                           : (s->class_name != NULL) == (s->role != TENON_ROLE_FUNCTION));
    FUZZ_CHECK(is_constant || (s->method != NULL) == (s->role >= TENON_ROLE_METHOD));
    FUZZ_CHECK(s->has_self == (s->role == TENON_ROLE_METHOD || s->role == TENON_ROLE_PROPERTY));
    FUZZ_CHECK((s->constant != NULL) == is_constant);
    if (is_constant)
        FUZZ_CHECK(inside(s, s->constant->type) && inside(s, s->constant->literal) && inside(s, s->constant->name) &&
                   s->constant->kind == s->constant->value.kind);
    FUZZ_CHECK(inside(s, s->name) && (!s->class_name || inside(s, s->class_name)) &&
               (!s->method || inside(s, s->method)));
    if (s->role == TENON_ROLE_CLASS || is_constant)
        FUZZ_CHECK(s->nparams == 0 && s->nresults == 0);
    if (s->role == TENON_ROLE_CONSTRUCTOR)
        FUZZ_CHECK(s->nresults == 1 && strcmp(s->results[0].handle, s->class_name) == 0);
    if (s->has_self)
        FUZZ_CHECK(strcmp(s->params[0].name, "self") == 0 && strcmp(s->params[0].handle, s->class_name) == 0);
}

static void check_signature(const tenon_signature *s, bool in_module)
{
    check_role(s);
    check_conditions(s);
    int32_t positional = 0, required = 0, tensors = 0, lists = 0, written = 0;
    bool open = false, binds = false;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *item = &s->params[i];
        check_item(s, item, false);
        const tenon_spec *spec = item->items ? item->items : item->spec;
        check_dims(s, i, spec);
        positional += !(item->flags & TENON_PARAMETER_KEYWORD_ONLY);
        required += !(item->flags & (TENON_PARAMETER_KEYWORD_ONLY | TENON_PARAMETER_DEFAULT));
        tensors += item->spec != NULL;
        lists += item->items != NULL;
        written += spec && (spec->flags & TENON_SPEC_WRITE);
        binds |= item->dim >= 0;
    }
    for (int32_t i = 0; i < s->nresults; i++) {
        check_item(s, &s->results[i], true);
        check_dims(s, s->nparams + i, s->results[i].items ? s->results[i].items : s->results[i].spec);
        open |= (s->results[i].flags & TENON_PARAMETER_OPEN) != 0;
    }
    FUZZ_CHECK(s->nparams <= TENON_MAX_PARAMETERS && s->nresults <= TENON_MAX_RESULTS);
    FUZZ_CHECK(s->npositional == positional && s->nrequired == required);
    FUZZ_CHECK(s->ntensors == tensors && s->nlists == lists && s->nwritten == written && s->open_results == open &&
               s->binds_ints == binds);
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

/* The function allocates a result of this shape, which fits. */
static void check_open_result(const tenon_signature *s, int32_t index, const tenon_bindings *bindings, int32_t ndim,
                              const int64_t *shape, bool open)
{
    fuzz_frame f;
    begin(&f, s, NULL);
    f.base.bindings = *bindings;
    f.base.call.results = f.results;
    int64_t numel;
    bool given = s->results[index].flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF);
    bool fits = tenon_shape_numel(ndim, shape, &numel, NULL) == TENON_OK && numel <= INT64_MAX / 128;
    const tenon_view *view = host.result_alloc(&f.base.call, index, tenon_dtype_of(0, 0, 0), ndim, shape);
    FUZZ_CHECK((view != NULL) == (open && !given && fits));
    FUZZ_CHECK((view == NULL) == ((f.base.call.flags & TENON_CALL_FAILED) != 0));
    tenon_frame_end(&f.base);
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
            check_open_result(s, i, bindings, ndim, shape, open);
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

enum { LONGEST_LIST = 3 };

/* A list of tensors, from the next bytes of the input. */
static tenon_value make_list(fuzz_input *in, tenon_view *views, int64_t (*dims)[16])
{
    int64_t wanted = fuzz_byte(in) % (LONGEST_LIST + 1), count = 0;
    while (count < wanted && fuzz_view(in, &views[count], dims[count]))
        count++;
    return (tenon_value){.kind = TENON_KIND_TENSORS, .as.list = {views, count}};
}

static void call_it(fuzz_input *in, const tenon_signature *s)
{
    static tenon_view views[TENON_MAX_PARAMETERS], items[TENON_MAX_PARAMETERS][LONGEST_LIST];
    static int64_t dims[TENON_MAX_PARAMETERS][16], item_dims[TENON_MAX_PARAMETERS][LONGEST_LIST][16];
    tenon_value args[TENON_MAX_PARAMETERS] = {{0}};
    for (int32_t i = 0; i < s->nparams; i++) {
        if (s->params[i].items) {
            args[i] = make_list(in, items[i], item_dims[i]);
            continue;
        }
        if (s->params[i].spec ? !fuzz_view(in, &views[i], dims[i]) : fuzz_byte(in) < 32)
            continue;
        args[i].kind = s->params[i].kind;
        if (s->params[i].spec)
            args[i].as.view = &views[i];
        else if (s->params[i].kind == TENON_KIND_DTYPE)
            args[i].as.dtype = fuzz_number(in) % 2 ? TENON_F32 : TENON_I8;
        else
            args[i].as.integer = fuzz_number(in);
    }
    fuzz_frame f;
    begin(&f, s, args);
    int refused = tenon_frame_match(&f.base);
    FUZZ_CHECK(f.refusals == (refused ? 1 : 0));
    if (refused) {
        fuzz_check_error(f.refused.status, &f.refused);
        FUZZ_CHECK(f.refused.status != TENON_EFAILED); /* a second match, with a message, gives the same */
    }
    for (int32_t i = 0; !refused && i < s->names.ndims; i++)
        FUZZ_CHECK((f.base.bindings.dims_bound >> i & 1) || f.base.bindings.dims[i] == -1);
    for (int32_t i = 0; !refused && i < s->nresults; i++)
        if (s->results[i].items && tenon_frame_make_list(&f.base, i))
            fuzz_check_error(f.refused.status, &f.refused);
    if (!refused)
        check_results(in, s, args, &f.base.bindings);
    tenon_frame_end(&f.base);
}

/* A signature means the same in a module with classes, unless a class has its name. */
static void check_same(const tenon_signature *alone, const tenon_signature *in_module)
{
    FUZZ_CHECK(alone->nparams == in_module->nparams && alone->nresults == in_module->nresults &&
               alone->plan == in_module->plan);
    FUZZ_CHECK(strcmp(alone->name, in_module->name) == 0 &&
               memcmp(&alone->names, &in_module->names, sizeof alone->names) == 0);
    const uint32_t classes = TENON_PARAMETER_CLASS | TENON_PARAMETER_SERIAL;
    for (int32_t i = 0; i < alone->nparams; i++)
        FUZZ_CHECK(alone->params[i].kind == in_module->params[i].kind &&
                   alone->params[i].flags == (in_module->params[i].flags & ~classes));
    for (int32_t i = 0; i < alone->nresults; i++)
        FUZZ_CHECK(alone->results[i].kind == in_module->results[i].kind &&
                   alone->results[i].flags == (in_module->results[i].flags & ~classes));
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
