#include "nif.h"

#include <string.h>

/* ----------------------------------------------------------------------------------------------------------- types */

/* What terms can say and the bridge serves: one lane of whole bytes. */
static bool served(tenon_dtype dtype)
{
    return tenon_dtype_known(dtype) && dtype.lanes == 1 && dtype.bits % 8 == 0;
}

/* The names of torch and Nx that the core does not know. */
static const struct {
    const char *name;
    const char *dtype;
} aliases[] = {
    {"float", "f32"}, {"double", "f64"}, {"half", "f16"}, {"byte", "u8"}, {"char", "i8"}, {"short", "i16"},
    {"int", "i32"},   {"long", "i64"},   {"s8", "i8"},    {"s16", "i16"}, {"s32", "i32"}, {"s64", "i64"},
};

enum { NAME_SIZE = 32, NALIASES = sizeof aliases / sizeof *aliases };

static bool get_name(ErlNifEnv *env, ERL_NIF_TERM term, char name[NAME_SIZE])
{
    return enif_is_atom(env, term) && enif_get_atom(env, term, name, NAME_SIZE, ERL_NIF_LATIN1) > 0;
}

static bool parse_type(const char *name, tenon_dtype *out)
{
    for (int i = 0; i < NALIASES; i++) {
        if (strcmp(name, aliases[i].name) == 0)
            name = aliases[i].dtype;
    }
    return tenon_dtype_parse(name, out, NULL) == TENON_OK && served(*out);
}

bool tenon_nif_get_type(ErlNifEnv *env, ERL_NIF_TERM term, tenon_dtype *out)
{
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    const ERL_NIF_TERM *pair;
    char name[NAME_SIZE];
    int size;
    unsigned bits;
    if (get_name(env, term, name))
        return parse_type(name, out);
    if (!enif_get_tuple(env, term, &size, &pair) || size != 2 || !enif_get_uint(env, pair[1], &bits) || bits > 128)
        return false;
    static const int code_of[] = {TENON_CODE_INT, TENON_CODE_UINT, TENON_CODE_FLOAT, TENON_CODE_BFLOAT,
                                  TENON_CODE_COMPLEX};
    const ERL_NIF_TERM kinds[] = {a->s, a->u, a->f, a->bf, a->c};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!enif_is_identical(pair[0], kinds[i]))
            continue;
        *out = tenon_dtype_of(code_of[i], (int)bits, 1);
        if (out->code == TENON_CODE_FLOAT && bits == 8) /* Nx's only float of 8 bits */
            out->code = TENON_CODE_F8_E5M2;
        return served(*out);
    }
    return get_name(env, pair[0], name) && parse_type(name, out) && out->bits == bits &&
           (out->code >= TENON_CODE_BOOL || out->code == TENON_CODE_OPAQUE);
}

ERL_NIF_TERM tenon_nif_make_type(ErlNifEnv *env, tenon_dtype dtype)
{
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    char name[NAME_SIZE];
    ERL_NIF_TERM kind;
    switch (dtype.code) {
    case TENON_CODE_INT:
        kind = a->s;
        break;
    case TENON_CODE_UINT:
        kind = a->u;
        break;
    case TENON_CODE_FLOAT:
    case TENON_CODE_F8_E5M2:
        kind = a->f;
        break;
    case TENON_CODE_BFLOAT:
        kind = a->bf;
        break;
    case TENON_CODE_COMPLEX:
        kind = a->c;
        break;
    case TENON_CODE_BOOL:
        kind = a->boolean;
        break;
    default:
        tenon_dtype_format(dtype, name, sizeof name);
        kind = enif_make_atom(env, name);
    }
    return enif_make_tuple2(env, kind, enif_make_int(env, dtype.bits));
}

ERL_NIF_TERM tenon_nif_bad_type(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument)
{
    return tenon_nif_error(env, enif_make_tuple2(env, tenon_nif_atoms.unsupported_type, term), function, argument,
                           "%s(): argument '%s': expected a type such as {:f, 32}, :f32, :s64, :bf16 or :float32, of "
                           "whole bytes",
                           function, argument);
}

/* ------------------------------------------------------------------------------------------------------------ dims */

bool tenon_nif_get_dims(ErlNifEnv *env, ERL_NIF_TERM term, int32_t *ndim, int64_t dims[TENON_MAX_NDIM])
{
    const ERL_NIF_TERM *items;
    ERL_NIF_TERM head;
    ErlNifSInt64 value;
    int count = 0;
    if (enif_get_tuple(env, term, &count, &items)) {
        if (count > TENON_MAX_NDIM)
            return false;
        for (int i = 0; i < count; i++) {
            if (!enif_get_int64(env, items[i], &value))
                return false;
            dims[i] = value;
        }
        *ndim = count;
        return true;
    }
    while (enif_get_list_cell(env, term, &head, &term)) {
        if (count == TENON_MAX_NDIM || !enif_get_int64(env, head, &value))
            return false;
        dims[count++] = value;
    }
    *ndim = count;
    return enif_is_empty_list(env, term);
}

static void make_ints(ErlNifEnv *env, int32_t count, const int64_t *values, ERL_NIF_TERM terms[TENON_MAX_NDIM])
{
    for (int32_t i = 0; i < count; i++)
        terms[i] = enif_make_int64(env, values[i]);
}

ERL_NIF_TERM tenon_nif_make_tuple(ErlNifEnv *env, int32_t count, const int64_t *values)
{
    ERL_NIF_TERM terms[TENON_MAX_NDIM];
    make_ints(env, count, values, terms);
    return enif_make_tuple_from_array(env, terms, (unsigned)count);
}

ERL_NIF_TERM tenon_nif_make_list(ErlNifEnv *env, int32_t count, const int64_t *values)
{
    ERL_NIF_TERM terms[TENON_MAX_NDIM];
    make_ints(env, count, values, terms);
    return enif_make_list_from_array(env, terms, (unsigned)count);
}

/* --------------------------------------------------------------------------------------------------------- devices */

bool tenon_nif_get_device(ErlNifEnv *env, ERL_NIF_TERM term, tenon_device *out)
{
    const ERL_NIF_TERM *pair;
    char name[NAME_SIZE];
    int size, id = 0;
    if (enif_get_tuple(env, term, &size, &pair)) {
        if (size != 2 || !enif_get_int(env, pair[1], &id) || id < 0)
            return false;
        term = pair[0];
    }
    if (!get_name(env, term, name) || tenon_device_parse(name, out, NULL) || strchr(name, ':'))
        return false;
    out->device_id = id;
    return true;
}

ERL_NIF_TERM tenon_nif_make_device(ErlNifEnv *env, tenon_device device)
{
    if (device.device_type == TENON_CPU && device.device_id == 0)
        return tenon_nif_atoms.cpu;
    char name[NAME_SIZE];
    tenon_device_format(device, name, sizeof name);
    name[strcspn(name, ":")] = 0;
    return enif_make_tuple2(env, enif_make_atom(env, name), enif_make_int(env, device.device_id));
}
