/* Overloaded functions: entries of a module's table with the same name. */
#include "compiled_spec.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------- equal parameters */

static bool equal_dtypes(const tenon_dtypes *a, const tenon_dtypes *b)
{
    if (a->kinds != b->kinds || a->count != b->count)
        return false;
    for (int32_t i = 0; i < a->count; i++)
        if (!tenon_dtypes_has(b, a->items[i]) || !tenon_dtypes_has(a, b->items[i]))
            return false;
    return true;
}

/* Whether the dimensions accept the same sizes. Names are compared by their numbers, which follow from their order. */
static bool equal_dims(const tenon_spec *a, const tenon_spec *b)
{
    for (int32_t i = 0; i < a->ndims; i++) {
        const tenon__spec_dim *one = &tenon__code_of(a)->dims[i], *other = &tenon__code_of(b)->dims[i];
        if (one->kind != other->kind || one->slot != other->slot || one->number != other->number ||
            one->count != other->count)
            return false;
        for (int32_t k = 0; k < one->count; k++) {
            const tenon__spec_op *x = &tenon__code_of(a)->ops[one->first + k];
            const tenon__spec_op *y = &tenon__code_of(b)->ops[other->first + k];
            if (x->kind != y->kind || x->value != y->value)
                return false;
        }
    }
    return true;
}

static bool equal_specs(const tenon_signature *s, const tenon_spec *a, const tenon_signature *t, const tenon_spec *b)
{
    if (!a || !b)
        return a == b;
    if (a->flags != b->flags || a->variable != b->variable || a->ndims != b->ndims || a->devices != b->devices ||
        a->alignment != b->alignment)
        return false;
    bool varies = a->variable >= 0;
    return equal_dtypes(varies ? &s->names.allowed[a->variable] : &a->dtypes,
                        varies ? &t->names.allowed[b->variable] : &b->dtypes) &&
           equal_dims(a, b);
}

/* The name of a parameter matters only if it is passed by keyword. */
static bool equal_parameters(const tenon_signature *s, const tenon_signature *t, int32_t index)
{
    const uint32_t compared = TENON_PARAMETER_OPTIONAL | TENON_PARAMETER_KEYWORD_ONLY;
    const tenon_parameter *a = &s->params[index], *b = &t->params[index];
    if (a->kind != b->kind || (a->flags & compared) != (b->flags & compared) || a->dim != b->dim ||
        a->count != b->count)
        return false;
    if ((a->flags & TENON_PARAMETER_KEYWORD_ONLY) && strcmp(a->name, b->name) != 0)
        return false;
    if (a->handle && strcmp(a->handle, b->handle) != 0)
        return false;
    if (a->variable != b->variable || !a->integers != !b->integers)
        return false;
    for (int32_t i = 0; a->choices && i < a->count; i++)
        if (strcmp(a->choices[i], b->choices[i]) != 0)
            return false;
    for (int32_t i = 0; a->integers && i < a->count; i++)
        if (a->integers[i] != b->integers[i])
            return false;
    return equal_specs(s, a->spec, t, b->spec) && equal_specs(s, a->items, t, b->items);
}

/* Whether every call that fits one signature fits the other one too, and neither has other conditions. */
static bool take_the_same(const tenon_signature *s, const tenon_signature *t)
{
    if (s->nparams != t->nparams || s->npositional != t->npositional || s->nconditions != t->nconditions)
        return false;
    for (int32_t i = 0; i < s->nparams; i++)
        if (!equal_parameters(s, t, i))
            return false;
    for (int32_t i = 0; i < s->nconditions; i++)
        if (strcmp(s->conditions[i], t->conditions[i]) != 0)
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------------- the module */

/* A callable entry: the name of a function, or of a class and its method. */
typedef struct named_entry {
    tenon__word name, method;
    int64_t index;
} named_entry;

/* False if the entry is not callable. */
static bool read_name(const char *signature, named_entry *out)
{
    tenon__parser p = {.text = signature};
    out->name = tenon__parse_word(&p);
    out->method = (tenon__word){out->name.start, 0, 0};
    if (tenon__accept(&p, '.'))
        out->method = tenon__parse_word(&p);
    return tenon__accept(&p, '(');
}

static int compare_words(tenon__word a, tenon__word b)
{
    int order = memcmp(a.start, b.start, a.length < b.length ? a.length : b.length);
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_names(const named_entry *a, const named_entry *b)
{
    int order = compare_words(a->name, b->name);
    return order ? order : compare_words(a->method, b->method);
}

static int by_name(const void *a, const void *b)
{
    const named_entry *x = a, *y = b;
    int order = compare_names(x, y);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Compile the entries of a set. Those that do not compile stay NULL: the host reports them. */
static tenon_status compile_set(const tenon_module *module, const named_entry *set, int32_t count,
                                tenon_signature **signatures, tenon_error *err)
{
    tenon_status status = TENON_OK;
    for (int32_t i = 0; i < count && status != TENON_ENOMEM; i++) {
        tenon_function function;
        tenon_module_function(module, set[i].index, &function);
        status = tenon_signature_alloc(function.signature, module, TENON_HOST_LAYOUT, &signatures[i], err);
    }
    return status == TENON_ENOMEM ? status : TENON_OK;
}

static tenon_status compare_set(const named_entry *set, int32_t count, tenon_signature *const *signatures,
                                tenon_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        for (int32_t k = 0; k < i; k++) {
            const tenon_signature *first = signatures[k], *second = signatures[i];
            if (!first || !second)
                continue;
            if (first->role != second->role)
                return tenon_error_set_in(err, TENON_EINVAL, "tenon_module_check",
                                          "functions %lld and %lld are both called '%s', but are not of the same kind",
                                          (long long)set[k].index, (long long)set[i].index, first->name);
            if (take_the_same(first, second))
                return tenon_error_set_in(err, TENON_EINVAL, "tenon_module_check",
                                          "functions %lld and %lld take the same arguments, so the second one would "
                                          "never be called:\n  %s\n  %s",
                                          (long long)set[k].index, (long long)set[i].index, first->text, second->text);
        }
    }
    return TENON_OK;
}

static tenon_status check_set(const tenon_module *module, const named_entry *set, int64_t count, tenon_error *err)
{
    tenon_signature *signatures[TENON_MAX_OVERLOADS] = {NULL};
    if (count > TENON_MAX_OVERLOADS)
        return tenon_error_set_in(err, TENON_EINVAL, "tenon_module_check",
                                  "%lld entries are called '%.*s'; at most %d may have the same name", (long long)count,
                                  (int)(set->name.length < 80 ? set->name.length : 80), set->name.start,
                                  TENON_MAX_OVERLOADS);
    tenon_status status = compile_set(module, set, (int32_t)count, signatures, err);
    if (!status)
        status = compare_set(set, (int32_t)count, signatures, err);
    for (int64_t i = 0; i < count; i++)
        tenon_signature_release(signatures[i]);
    return status;
}

tenon_status tenon__check_overloads(const tenon_module *module, tenon_error *err)
{
    if (module->nfunctions < 1)
        return TENON_OK;
    size_t size = (size_t)module->nfunctions * sizeof(named_entry);
    named_entry *entries = tenon__alloc(size, false);
    if (!entries)
        return tenon_error_set_in(err, TENON_ENOMEM, "tenon_module_check", "no memory for %zu bytes", size);
    size_t count = 0;
    for (int64_t i = 0; i < module->nfunctions; i++) {
        tenon_function function;
        tenon_module_function(module, i, &function);
        entries[count].index = i;
        count += read_name(function.signature, &entries[count]);
    }
    if (count)
        qsort(entries, count, sizeof *entries, by_name);
    tenon_status status = TENON_OK;
    for (size_t i = 0, next; !status && i < count; i = next) {
        next = i + 1;
        while (next < count && compare_names(&entries[i], &entries[next]) == 0)
            next++;
        if (next - i > 1)
            status = check_set(module, &entries[i], (int64_t)(next - i), err);
    }
    tenon__free(entries, size);
    return status;
}
