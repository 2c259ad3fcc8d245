/* Compiles a signature into one block of memory, which contains no pointers to anything outside it. */
#include "signature.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------ parameters and results */

static bool starts_name(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

tenon_status tenon__parse_name(tenon__compiler *c, const char *of_what, tenon__word *out)
{
    tenon__word w = tenon__parse_word(&c->p);
    if (w.length == 0 || !starts_name(*w.start))
        return tenon__parse_fail(&c->p, w.at, "expected the name of a %s", of_what);
    if (w.length >= TENON_NAME_SIZE)
        return tenon__parse_fail(&c->p, w.at, "a name has at most %d characters", TENON_NAME_SIZE - 1);
    if (strcmp(of_what, "function") == 0 && w.length > 1 && w.start[0] == '_' && w.start[1] == '_')
        return tenon__parse_fail(&c->p, w.at, "function names that start with '__' are reserved for the runtime");
    if (tenon__is_reserved(w))
        return tenon__parse_fail(&c->p, w.at, "'%.*s' is a reserved word", (int)w.length, w.start);
    *out = w;
    return TENON_OK;
}

static tenon_status check_new_name(tenon__compiler *c, tenon__word w, const tenon_parameter *items, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (items[i].name && tenon__word_is(w, items[i].name))
            return tenon__parse_fail(&c->p, w.at, "duplicate name '%s'", items[i].name);
    return TENON_OK;
}

static tenon_status parse_parameter(tenon__compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_signature *out = c->out;
    tenon__word w = tenon__peek_word(p);
    size_t after = w.at + w.length + strspn(p->text + w.at + w.length, " \t\n");
    if (tenon__word_is(w, "self") && p->text[after] != ':')
        return tenon__parse_fail(p, w.at,
                                 "self is the first parameter of a method, which is written Name.method(self)");
    tenon_status status = tenon__parse_name(c, "parameter", &w);
    if (!status)
        status = check_new_name(c, w, out->params, out->nparams);
    if (!status && out->nparams == TENON_MAX_PARAMETERS)
        status = tenon__parse_fail(p, w.at, "at most %d parameters are allowed", TENON_MAX_PARAMETERS);
    if (!status)
        status = tenon__expect(p, ':', "after the name of a parameter");
    if (status)
        return status;
    tenon_parameter *item = c->item = &c->room.params[out->nparams];
    *item = (tenon_parameter){.name = tenon__copy_text(c, w.at, w.at + w.length), .dim = -1, .count = -1, .owner = -1};
    item->flags = c->keyword_only ? TENON_PARAMETER_KEYWORD_ONLY : 0;
    /* The name of an int parameter that is used as a dimension counts from here, unless it appeared earlier. */
    for (int32_t i = 0; c->prior && i < c->prior->ndims; i++)
        if (tenon__word_is(w, c->prior->dims[i]) && tenon__word_is(tenon__peek_word(p), "int"))
            status = tenon__intern(p, w, p->names->dims, &p->names->ndims, TENON_MAX_NAMES, &item->dim);
    tenon__skip_spaces(p);
    c->starts[out->nparams] = p->at;
    if (!status)
        status = tenon__parse_type(c);
    if (!status && item->spec)
        status = tenon__check_kept(c, c->starts[out->nparams]);
    if (!status && tenon__accept(p, '='))
        status = tenon__parse_default(c);
    if (status)
        return status;
    if (item->flags & TENON_PARAMETER_OPTIONAL)
        item->flags |= TENON_PARAMETER_DEFAULT; /* None, unless there is another default */
    item->value.flags = TENON_VALUE_DEFAULT;
    bool required = !(item->flags & TENON_PARAMETER_DEFAULT);
    if (!c->keyword_only) {
        if (required && out->nrequired < out->npositional)
            return tenon__parse_fail(p, w.at, "'%s' needs a default, because a parameter before it has one",
                                     item->name);
        out->nrequired += required;
        out->npositional++;
    }
    out->ntensors += item->kind == TENON_KIND_TENSOR;
    out->nwritten += item->spec && (item->spec->flags & TENON_SPEC_WRITE);
    out->nserial += (item->flags & TENON_PARAMETER_SERIAL) != 0;
    out->binds_ints |= item->dim >= 0;
    out->nparams++;
    return TENON_OK;
}

static tenon_status parse_parameters(tenon__compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_status status = tenon__expect(p, '(', "after the name of a function");
    if (!status && c->out->role == TENON_ROLE_METHOD) {
        status = tenon__parse_self(c);
        if (!status && !tenon__accept(p, ','))
            return tenon__expect(p, ')', "or ',' after self");
    }
    if (status || tenon__accept(p, ')'))
        return status;
    do {
        tenon__skip_spaces(p);
        size_t at = p->at;
        if (tenon__accept(p, '*')) {
            if (c->keyword_only)
                return tenon__parse_fail(p, at, "only one '*' is allowed");
            c->keyword_only = true;
            status = tenon__expect(p, ',', "and a parameter after '*'");
        }
        if (!status)
            status = parse_parameter(c);
    } while (!status && tenon__accept(p, ','));
    return status ? status : tenon__expect(p, ')', "or ',' after a parameter");
}

/* Refuse types that a result cannot have. */
static tenon_status check_result(tenon__compiler *c, size_t at)
{
    const tenon_parameter *item = c->item;
    const tenon_spec *spec = item->spec;
    if (item->kind == TENON_KIND_INTS || item->kind == TENON_KIND_FLOATS)
        return c->p.minor >= 1 ? tenon__parse_later(&c->p, at, "a result that is a list")
                               : tenon__parse_fail(&c->p, at, "a result cannot be a list; return a tensor");
    if (!spec)
        return TENON_OK;
    if (spec->variable < 0 && (spec->dtypes.count != 1 || spec->dtypes.kinds))
        return tenon__parse_fail(&c->p, at, "a result needs one dtype, or a dtype variable that an argument binds");
    if (!c->p.extra && ((spec->flags & (TENON_SPEC_WRITE | TENON_SPEC_F | TENON_SPEC_ANYWHERE)) || spec->alignment))
        return tenon__parse_fail(&c->p, at,
                                 "a result is always writable, in C order, and on the device of the call: "
                                 "'rw', 'f', 'aligned' and 'anywhere' do not apply to it");
    for (int32_t i = 0; i < spec->ndims; i++)
        if (tenon__code_of(spec)->dims[i].kind == TENON_DIM_ANY)
            return tenon__parse_fail(&c->p, at + (size_t)tenon__code_of(spec)->dims[i].at,
                                     "write '?' for a size that only the function knows");
    return TENON_OK;
}

static tenon_status parse_result(tenon__compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_signature *out = c->out;
    tenon__word w = tenon__peek_word(p);
    size_t after = w.at + w.length + strspn(p->text + w.at + w.length, " \t\n");
    bool named = w.length && p->text[after] == ':';
    if (!named && tenon__word_is(w, "None"))
        return tenon__parse_fail(p, w.at, "a function without results is written without '->'");
    tenon_status status = TENON_OK;
    if (out->nresults == TENON_MAX_RESULTS)
        return tenon__parse_fail(p, w.at, "at most %d results are allowed", TENON_MAX_RESULTS);
    if (out->nresults && named != out->named_results)
        return tenon__parse_fail(p, w.at, "either name all results, or none of them");
    tenon_parameter *item = c->item = &c->room.results[out->nresults];
    *item = (tenon_parameter){.dim = -1, .count = -1, .owner = -1};
    if (named) {
        status = tenon__parse_name(c, "result", &w);
        if (!status && *w.start == '_')
            status = tenon__parse_fail(p, w.at, "the name of a result must start with a letter");
        if (!status)
            status = check_new_name(c, w, out->results, out->nresults);
        if (!status)
            status = tenon__expect(p, ':', "after the name of a result");
        item->name = status ? NULL : tenon__copy_text(c, w.at, w.at + w.length);
    }
    tenon__skip_spaces(p);
    size_t at = c->starts[TENON_MAX_PARAMETERS + out->nresults] = p->at;
    if (!status)
        status = tenon__parse_type(c);
    if (!status)
        status = check_result(c, at);
    bool given = !status && item->spec && p->extra;
    if (given)
        status = tenon__check_given(c, at);
    if (status)
        return status;
    tenon_spec *spec = item->spec ? c->room.specs - 1 : NULL;
    if (spec && !given) {
        bool open = spec->flags & TENON_SPEC_OPTIONAL;
        for (int32_t i = 0; i < spec->ndims; i++)
            open |= tenon__code_of(spec)->dims[i].kind == TENON_DIM_UNKNOWN;
        /* These constrain a tensor that the caller passes as `out`. Its device is checked separately. */
        spec->flags |= TENON_SPEC_WRITE | TENON_SPEC_C | (spec->devices ? 0 : TENON_SPEC_ANYWHERE);
        item->flags |= open ? TENON_PARAMETER_OPEN : 0;
        out->open_results |= open;
    }
    out->named_results = named;
    out->nresults++;
    return TENON_OK;
}

static tenon_status parse_results(tenon__compiler *c)
{
    tenon__parser *p = &c->p;
    tenon__skip_spaces(p);
    if (p->text[p->at] != '-' || p->text[p->at + 1] != '>')
        return TENON_OK;
    p->at += 2;
    p->in_result = true;
    tenon_status status;
    do {
        status = parse_result(c);
    } while (!status && tenon__accept(p, ','));
    p->in_result = false;
    return status;
}

/* ------------------------------------------------------------------------------------- what holds for all together */

/* The names that are a whole dimension of an argument, and so get a value. One bit for each name. */
typedef struct bound_names {
    uint32_t dims, stars, types;
} bound_names;

static bound_names find_bound_names(const tenon_signature *s)
{
    bound_names bound = {0};
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_spec *spec = s->params[i].spec;
        if (s->params[i].dim >= 0)
            bound.dims |= 1u << s->params[i].dim;
        if (spec && spec->variable >= 0)
            bound.types |= 1u << spec->variable;
        for (int32_t k = 0; spec && k < spec->ndims; k++) {
            if (tenon__code_of(spec)->dims[k].kind == TENON_DIM_NAME)
                bound.dims |= 1u << tenon__code_of(spec)->dims[k].slot;
            else if (tenon__code_of(spec)->dims[k].kind == TENON_DIM_STAR)
                bound.stars |= 1u << tenon__code_of(spec)->dims[k].slot;
        }
    }
    return bound;
}

static tenon_status check_tensor(tenon__compiler *c, const tenon_parameter *item, size_t at, bound_names bound)
{
    const tenon_spec *spec = item->spec;
    const tenon_names *names = &c->out->names;
    const char *sharing =
        strstr(spec->text + tenon__code_of(spec)->type_length, spec->flags & TENON_SPEC_INPLACE ? "inplace" : "alias");
    if (spec->variable >= 0 && !(names->defined >> spec->variable & 1))
        return tenon__parse_fail(
            &c->p, at, "'%s' is not a dtype; a dtype variable needs a where clause, such as \"where %s = f32|f64\"",
            names->types[spec->variable], names->types[spec->variable]);
    if (spec->variable >= 0 && !(bound.types >> spec->variable & 1))
        return tenon__parse_fail(&c->p, at, "no argument determines '%s'", names->types[spec->variable]);
    for (int32_t i = 0; i < tenon__code_of(spec)->nops; i++)
        if (tenon__code_of(spec)->ops[i].kind == TENON_OP_NAME &&
            !(bound.dims >> tenon__code_of(spec)->ops[i].value & 1))
            return tenon__parse_fail(
                &c->p, at + (size_t)tenon__code_of(spec)->ops[i].at,
                "no argument determines '%s': it must be a whole dimension of an argument, or an int parameter",
                names->dims[tenon__code_of(spec)->ops[i].value]);
    for (int32_t i = 0; i < spec->ndims; i++)
        if (tenon__code_of(spec)->dims[i].kind == TENON_DIM_STAR &&
            !(bound.stars >> tenon__code_of(spec)->dims[i].slot & 1))
            return tenon__parse_fail(&c->p, at + (size_t)tenon__code_of(spec)->dims[i].at,
                                     "no argument determines '*%s'", names->stars[tenon__code_of(spec)->dims[i].slot]);
    at += sharing ? (size_t)(sharing - spec->text) : 0; /* the remaining errors are about these attributes */
    if ((spec->flags & (TENON_SPEC_ALIAS | TENON_SPEC_INPLACE)) && !(spec->flags & TENON_SPEC_WRITE))
        return tenon__parse_fail(&c->p, at, "'alias' and 'inplace' apply only to results and to arguments with 'rw'");
    if (!(spec->flags & TENON_SPEC_INPLACE))
        return TENON_OK;
    for (int32_t i = 0; i < c->out->nparams; i++) {
        const tenon_parameter *other = &c->out->params[i];
        if (other != item && other->spec && strcmp(other->name, spec->inplace) == 0)
            return TENON_OK;
    }
    return tenon__parse_fail(&c->p, at, "inplace(%s) does not name another tensor argument", spec->inplace);
}

static tenon_status check_tensors(tenon__compiler *c)
{
    const tenon_signature *s = c->out;
    bound_names bound = find_bound_names(s);
    tenon_status status = TENON_OK;
    for (int32_t i = 0; !status && i < s->nparams; i++)
        if (s->params[i].spec)
            status = check_tensor(c, &s->params[i], c->starts[i], bound);
    for (int32_t i = 0; !status && i < s->nresults; i++)
        if (s->results[i].spec)
            status = check_tensor(c, &s->results[i], c->starts[TENON_MAX_PARAMETERS + i], bound);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- the whole */

/* Which signatures are allowed. */
typedef struct entry_grammar {
    const char *function; /* named in errors */
    const tenon_module *module;
    int32_t minor;
} entry_grammar;

static tenon_status compile_text(const char *text, const entry_grammar *in, tenon__signature_room room,
                                 const tenon_names *prior, tenon_error *err)
{
    tenon_signature *out = room.signature;
    tenon__compiler c = {.room = room, .out = out, .prior = prior, .module = in->module};
    c.p = (tenon__parser){.function = in->function, .text = text, .names = &out->names, .err = err, .minor = in->minor};
    memset(out, 0, sizeof *out);
    out->params = room.params;
    out->results = room.results;
    tenon__skip_spaces(&c.p);
    size_t start = c.p.at;
    tenon_status status = tenon__parse_head(&c);
    bool is_class = out->role == TENON_ROLE_CLASS;
    if (!status && !is_class)
        status = parse_parameters(&c);
    if (!status && !is_class)
        status = parse_results(&c);
    if (!status && out->role == TENON_ROLE_CONSTRUCTOR)
        status = tenon__add_object(&c);
    if (!status && !is_class)
        status = tenon__parse_where(&c.p);
    tenon__skip_spaces(&c.p);
    if (!status && text[c.p.at])
        status = tenon__parse_fail(&c.p, c.p.at, "expected the end of the signature%s",
                                   out->nresults || is_class ? "" : " or '->'");
    if (!status)
        status = tenon__check_method(&c);
    if (status)
        return status;
    out->text = tenon__copy_text(&c, start, tenon__end_of_text(&c.p));
    /* An int parameter is a dimension only if it is used as one, which is known after the first pass. */
    return prior ? check_tensors(&c) : TENON_OK;
}

static size_t count_of(const char *text, const char *characters)
{
    size_t count = 0;
    for (; *text; text++)
        count += strchr(characters, *text) != NULL;
    return count;
}

static tenon_status compile_entry(const char *text, const entry_grammar *in, tenon_signature **out, tenon_error *err)
{
    const char *function = in->function;
    enum { LONGEST = 8191 };
    if (!text || !out)
        return tenon_error_set_in(err, TENON_EINVAL, function, "argument '%s' is NULL", text ? "out" : "text");
    size_t length = strlen(text);
    if (length > LONGEST)
        return tenon_error_set_in(err, TENON_EPARSE, function,
                                  "a signature has at most %d characters; this one has %zu", LONGEST, length);
    size_t nitems = count_of(text, ",(>") + 1, nspecs = count_of(text, "[") + 1, nstrings = count_of(text, "'\"") + 1;
    size_t nnumbers = count_of(text, ",)]") + 1;
    size_t specs = sizeof(tenon_signature), params = specs + nspecs * sizeof(tenon_spec);
    size_t results = params + nitems * sizeof(tenon_parameter), strings = results + nitems * sizeof(tenon_parameter);
    size_t numbers = strings + nstrings * sizeof(char *), fast = numbers + nnumbers * sizeof(double);
    size_t pieces = fast + 2 * nitems * sizeof(tenon__fast_spec);
    /* Each character is copied at most four times (a type, a string in it, a default, the whole text), each copy with its
     * final 0; and the names of a class and its method a few times more. */
    size_t size = pieces + 4 * (length + nitems + nstrings) + 64 + 4 * (TENON_NAME_SIZE + 16);
    char *memory = tenon__alloc(size, false);
    if (!memory)
        return tenon_error_set_in(err, TENON_ENOMEM, function, "no memory for %zu bytes", size);
    tenon__signature_room room = {.signature = (void *)memory,
                                  .params = (void *)(memory + params),
                                  .results = (void *)(memory + results),
                                  .specs = (void *)(memory + specs),
                                  .strings = (void *)(memory + strings),
                                  .numbers = (void *)(memory + numbers),
                                  .fast = (void *)(memory + fast),
                                  .text = memory + pieces};
    tenon_status status = compile_text(text, in, room, NULL, err);
    if (!status) {
        tenon_names names = room.signature->names;
        status = compile_text(text, in, room, &names, err);
    }
    if (status) {
        tenon__free(memory, size);
        return status;
    }
    tenon_signature *made = room.signature;
    for (int32_t i = 0; i < made->nparams + made->nresults; i++) {
        const tenon_spec *spec = i < made->nparams ? made->params[i].spec : made->results[i - made->nparams].spec;
        room.fast[i] = spec ? tenon__fast_spec_of(spec) : (tenon__fast_spec){.ndim = -1};
    }
    made->fast = room.fast;
    made->planned = tenon__make_plan(made, room.fast);
    made->plain = made->names.ntypes == 0 && made->nwritten == 0;
    made->size = size;
    *out = made;
    return TENON_OK;
}

tenon_status tenon_signature_alloc(const char *text, tenon_signature **out, tenon_error *err)
{
    return compile_entry(text, &(entry_grammar){"tenon_signature_alloc", NULL, 0}, out, err);
}

tenon_status tenon_signature_alloc_in(const char *text, const tenon_module *module, tenon_signature **out,
                                      tenon_error *err)
{
    entry_grammar known = {"tenon_signature_alloc_in", module,
                           module ? (int32_t)module->minor_needed : TENON_ABI_MINOR};
    return compile_entry(text, &known, out, err);
}

tenon_status tenon_signature_alloc_private(const char *text, const tenon_module *module, uint32_t layout,
                                           tenon_signature **out, tenon_error *err)
{
    const char *function = "tenon_signature_alloc_private";
    if (layout != TENON__HOST_LAYOUT)
        return tenon_error_set_in(err, TENON_EVERSION, function,
                                  "the host was compiled with layout %u of host_private.h, but the core with %u; "
                                  "compile both from the same release of Tenon",
                                  (unsigned)layout, TENON__HOST_LAYOUT);
    return tenon__error_rename(err, tenon_signature_alloc_in(text, module, out, err), function);
}

void tenon_signature_release(tenon_signature *signature)
{
    if (signature)
        tenon__free(signature, signature->size);
}

/* ------------------------------------------------------------------------------------------------------- accessors */

const char *tenon_signature_text(const tenon_signature *signature)
{
    return signature ? signature->text : NULL;
}

const char *tenon_signature_name(const tenon_signature *signature)
{
    return signature ? signature->name : NULL;
}

int32_t tenon_signature_nparams(const tenon_signature *signature)
{
    return signature ? signature->nparams : 0;
}

int32_t tenon_signature_npositional(const tenon_signature *signature)
{
    return signature ? signature->npositional : 0;
}

int32_t tenon_signature_nrequired(const tenon_signature *signature)
{
    return signature ? signature->nrequired : 0;
}

int32_t tenon_signature_nresults(const tenon_signature *signature)
{
    return signature ? signature->nresults : 0;
}

bool tenon_signature_has_named_results(const tenon_signature *signature)
{
    return signature && signature->named_results;
}

const tenon_parameter *tenon_signature_param(const tenon_signature *signature, int32_t index)
{
    return signature && index >= 0 && index < signature->nparams ? &signature->params[index] : NULL;
}

const tenon_parameter *tenon_signature_result_item(const tenon_signature *signature, int32_t index)
{
    return signature && index >= 0 && index < signature->nresults ? &signature->results[index] : NULL;
}

const tenon_names *tenon_signature_names(const tenon_signature *signature)
{
    return signature ? &signature->names : NULL;
}
