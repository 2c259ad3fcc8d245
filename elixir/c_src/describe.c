/* A compiled signature as terms: what Tenon.Library needs to know to write the head of a function. */
#include "library.h"

/* The default as functions are given it; an enum's is its text. */
static ERL_NIF_TERM make_default(ErlNifEnv *env, const tenon_parameter *item)
{
    const tenon_value *value = &item->value;
    switch (value->kind) {
    case TENON_KIND_INT:
    case TENON_KIND_FLOAT:
    case TENON_KIND_BOOL:
        return tenon_nif_make_number(env, value);
    case TENON_KIND_STR:
        return tenon_nif_make_text(env, value->as.list.data);
    case TENON_KIND_ENUM:
        return tenon_nif_make_text(env, item->choices[value->as.integer]);
    case TENON_KIND_INTS:
        return tenon_nif_make_list(env, (int32_t)value->as.list.length, value->as.list.data);
    case TENON_KIND_FLOATS: {
        const double *numbers = value->as.list.data;
        ERL_NIF_TERM list = enif_make_list(env, 0);
        for (int64_t i = value->as.list.length - 1; i >= 0; i--)
            list = enif_make_list_cell(env, tenon_nif_make_double(env, numbers[i]), list);
        return list;
    }
    default:
        return tenon_nif_atoms.nil;
    }
}

/* %{name: "x", kind: :tensor, optional: false, keyword_only: false, default: nil, choices: [], handle: nil} */
static ERL_NIF_TERM describe_item(ErlNifEnv *env, const tenon_parameter *item, bool is_result)
{
    static const char *const kinds[] = {"none", "tensor", "int",    "float",   "bool",   "str",
                                        "enum", "ints",   "floats", "tensors", "handle", "complex"};
    static const char *const names[] = {"name", "kind", "optional", "keyword_only", "default", "choices", "handle"};
    enum { COUNT = sizeof names / sizeof *names };
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    ERL_NIF_TERM choices = enif_make_list(env, 0), keys[COUNT], map = a->nil;
    for (int32_t i = item->kind == TENON_KIND_ENUM ? item->count - 1 : -1; i >= 0; i--)
        choices = enif_make_list_cell(env, tenon_nif_make_text(env, item->choices[i]), choices);
    bool has_default = !is_result && (item->flags & TENON_PARAMETER_DEFAULT);
    ERL_NIF_TERM values[] = {tenon_nif_make_text(env, item->name),
                             enif_make_atom(env, kinds[item->kind]),
                             item->flags & TENON_PARAMETER_OPTIONAL ? a->yes : a->no,
                             item->flags & TENON_PARAMETER_KEYWORD_ONLY ? a->yes : a->no,
                             has_default ? tenon_nif_ok(env, make_default(env, item)) : a->nil,
                             choices,
                             tenon_nif_make_text(env, item->handle)};
    for (int i = 0; i < COUNT; i++)
        keys[i] = enif_make_atom(env, names[i]);
    enif_make_map_from_arrays(env, keys, values, COUNT, &map); /* cannot fail: no two keys are the same */
    return map;
}

ERL_NIF_TERM tenon_nif_describe_signature(ErlNifEnv *env, const tenon_signature *s)
{
    static const char *const roles[] = {"function", "class", "constructor", "method"};
    ERL_NIF_TERM params = enif_make_list(env, 0), results = params;
    for (int32_t i = tenon_signature_nparams(s) - 1; i >= 0; i--)
        params = enif_make_list_cell(env, describe_item(env, tenon_signature_param(s, i), false), params);
    for (int32_t i = tenon_signature_nresults(s) - 1; i >= 0; i--)
        results = enif_make_list_cell(env, describe_item(env, tenon_signature_result_item(s, i), true), results);
    return enif_make_tuple5(env, tenon_nif_make_text(env, tenon_signature_name(s)),
                            enif_make_atom(env, roles[tenon_signature_role(s)]),
                            tenon_nif_make_text(env, tenon_signature_class(s)), params, results);
}
