/* The signatures of parameters that are callables. The names in them are their own: each call of a callback binds them. */
#include "compiled_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_simple(uint32_t kind)
{
    return kind == TENON_KIND_INT || kind == TENON_KIND_FLOAT || kind == TENON_KIND_BOOL || kind == TENON_KIND_STR;
}

/* Why a callback cannot have this signature, or NULL. */
static const char *find_mistake(const tenon_signature *s)
{
    for (int32_t i = 0; i < s->nparams; i++) {
        if (!is_simple(s->params[i].kind) && s->params[i].kind != TENON_KIND_TENSOR)
            return "the arguments of a callback are tensors, int, float, bool and str";
        if (s->params[i].spec && tenon__has_batch(s->params[i].spec))
            return "an argument of a callback is not a batch: write '*b' instead of '**b'";
        if (s->params[i].flags)
            return "an argument of a callback is always passed, by position: '?', '=', '*' and 'keep' do not apply to "
                   "it";
    }
    for (int32_t i = 0; i < s->nresults; i++) {
        if (s->results[i].kind == TENON_KIND_TENSOR)
            return "a callback cannot return a tensor: pass it one with 'rw', which it writes to";
        if (!is_simple(s->results[i].kind))
            return "the results of a callback are int, float, bool and str";
        if (s->results[i].flags)
            return "a result of a callback cannot be optional";
    }
    return NULL;
}

static tenon_status compile_callable(tenon_parameter *param, tenon_error *err)
{
    const char *function = "tenon_signature_alloc", *text = param->handle + strspn(param->handle, " \t\n");
    if (*text != '(')
        return tenon_error_set_in(
            err, TENON_EPARSE, function,
            "the signature of the callable '%s' begins with '(': callable('(x: f64[n]) -> float')", param->name);
    size_t size = strlen(param->name) + strlen(text) + 1;
    char *named = tenon__alloc(size, false);
    if (!named)
        return tenon_error_set_in(err, TENON_ENOMEM, function, "no memory for %zu bytes", size);
    snprintf(named, size, "%s%s", param->name, text);
    tenon_signature *made = NULL;
    tenon_status status = tenon_signature_alloc(named, NULL, TENON_HOST_LAYOUT, &made, err);
    const char *mistake = status ? NULL : find_mistake(made);
    if (mistake)
        status = tenon_error_set_in(err, TENON_EPARSE, function, "%s\n  %s", mistake, named);
    tenon__free(named, size);
    if (status) {
        tenon_signature_release(made);
        return status;
    }
    param->callback = made;
    param->handle = NULL; /* which the parser used for the string */
    return TENON_OK;
}

tenon_status tenon__compile_callables(const tenon_signature *s, tenon_parameter *params, tenon_error *err)
{
    tenon_status status = TENON_OK;
    for (int32_t i = 0; !status && i < s->nparams; i++)
        if (params[i].kind == TENON_KIND_CALLABLE)
            status = compile_callable(&params[i], err);
    if (status)
        tenon__release_callables(s);
    return status;
}

void tenon__release_callables(const tenon_signature *s)
{
    for (int32_t i = 0; i < s->nparams; i++)
        tenon_signature_release((tenon_signature *)(uintptr_t)s->params[i].callback);
}
