#include "nif.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------------- types */

bool tenon_nif_has_type(tenon_dtype dtype)
{
    return tenon_dtype_known(dtype) && dtype.lanes == 1 && dtype.bits % 8 == 0;
}

/* The names of torch and Nx that the core does not know, with the core's name, and the most common names of the core, with
 * NULL. They are looked up by atom. The first BLOB_NAMES are torch's own, which blobs
 * have. */
static const struct {
    const char *name;
    const char *dtype;
} names[] = {{"float", "f32"},
             {"double", "f64"},
             {"half", "f16"},
             {"byte", "u8"},
             {"char", "i8"},
             {"short", "i16"},
             {"int", "i32"},
             {"long", "i64"},
             {"complex_half", "c32"},
             {"complex_float", "c64"},
             {"complex_double", "c128"},
             {"s8", "i8"},
             {"s16", "i16"},
             {"s32", "i32"},
             {"s64", "i64"},
             {"f32", NULL},
             {"f64", NULL},
             {"u8", NULL},
             {"bf16", NULL},
             {"f16", NULL},
             {"i64", NULL},
             {"i32", NULL},
             {"bool", NULL},
             {"int64", NULL},
             {"int32", NULL},
             {"uint8", NULL},
             {"float32", NULL},
             {"c64", NULL},
             {"u32", NULL},
             {"u64", NULL},
             {"float64", NULL},
             {"float16", NULL},
             {"f8", "f8_e5m2"},
             {"chalf", "c32"},
             {"cfloat", "c64"},
             {"cdouble", "c128"}};

enum { NAME_SIZE = 32, BLOB_NAMES = 11, NNAMES = sizeof names / sizeof *names };

static ERL_NIF_TERM name_atoms[NNAMES];
static tenon_dtype name_dtypes[NNAMES];

void tenon_nif_terms_init(ErlNifEnv *env)
{
    for (int i = 0; i < NNAMES; i++) {
        bool known =
            tenon_dtype_parse(names[i].dtype ? names[i].dtype : names[i].name, &name_dtypes[i], NULL) == TENON_OK;
        name_atoms[i] = known ? enif_make_atom(env, names[i].name) : 0;
    }
}

static bool get_name(ErlNifEnv *env, ERL_NIF_TERM term, char name[NAME_SIZE])
{
    return enif_is_atom(env, term) && enif_get_atom(env, term, name, NAME_SIZE, ERL_NIF_LATIN1) > 0;
}

static bool get_named(ErlNifEnv *env, ERL_NIF_TERM term, tenon_dtype *out)
{
    char name[NAME_SIZE];
    for (int i = 0; i < NNAMES; i++) {
        if (name_atoms[i] == term) {
            *out = name_dtypes[i];
            return true;
        }
    }
    return get_name(env, term, name) && tenon_dtype_parse(name, out, NULL) == TENON_OK && tenon_nif_has_type(*out);
}

bool tenon_nif_get_type(ErlNifEnv *env, ERL_NIF_TERM term, tenon_dtype *out)
{
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    const ERL_NIF_TERM *pair;
    int size;
    unsigned bits;
    if (enif_is_atom(env, term))
        return get_named(env, term, out);
    if (!enif_get_tuple(env, term, &size, &pair) || size != 2 || !enif_get_uint(env, pair[1], &bits) || bits > 128)
        return false;
    static const int code_of[] = {TENON_CODE_INT, TENON_CODE_UINT, TENON_CODE_FLOAT, TENON_CODE_BFLOAT,
                                  TENON_CODE_COMPLEX};
    const ERL_NIF_TERM kinds[] = {a->s, a->u, a->f, a->bf, a->c};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (pair[0] != kinds[i])
            continue;
        *out = tenon_dtype_of(code_of[i], (int)bits, 1);
        if (out->code == TENON_CODE_FLOAT && bits == 8) /* Nx has only this float of 8 bits */
            out->code = TENON_CODE_F8_E5M2;
        return tenon_nif_has_type(*out);
    }
    return get_named(env, pair[0], out) && out->bits == bits &&
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

ERL_NIF_TERM tenon_nif_make_blob_type(ErlNifEnv *env, tenon_dtype dtype)
{
    char name[40];
    for (int i = 0; i < BLOB_NAMES; i++) {
        if (tenon_dtype_equal(name_dtypes[i], dtype))
            return name_atoms[i];
    }
    tenon_dtype_format_long(dtype, name, sizeof name);
    return enif_make_atom(env, name);
}

/* What the elements of torch's quantized types are stored as. */
static const struct {
    const char *name;
    const char *stored;
} quantized[] = {{"qint8", ":int8"},
                 {"quint8", ":uint8"},
                 {"qint32", ":int32"},
                 {"quint4x2", ":uint8, two elements in each byte"},
                 {"quint2x4", ":uint8, four elements in each byte"}};

ERL_NIF_TERM tenon_nif_bad_type(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument)
{
    char name[NAME_SIZE];
    ERL_NIF_TERM reason = enif_make_tuple2(env, tenon_nif_atoms.unsupported_type, term);
    for (size_t i = 0; get_name(env, term, name) && i < sizeof quantized / sizeof *quantized; i++)
        if (strcmp(name, quantized[i].name) == 0)
            return tenon_nif_error(
                env, reason, function, argument,
                "%s(): argument '%s': :%s is a quantized type, whose numbers mean nothing without "
                "their scale and zero point; dequantize the tensor first, or pass its integers as %s",
                function, argument, name, quantized[i].stored);
    return tenon_nif_error(
        env, reason, function, argument,
        "%s(): argument '%s': expected a type of whole bytes, such as {:f, 32}, :f32, :s64, :bf16 or "
        ":float32",
        function, argument);
}

bool tenon_nif_get_layout(ErlNifEnv *env, const ERL_NIF_TERM argv[], const char *function, int32_t *ndim,
                          int64_t shape[TENON_MAX_NDIM], tenon_dtype *dtype, ERL_NIF_TERM *error)
{
    if (!tenon_nif_get_dims(env, argv[0], ndim, shape))
        *error = tenon_nif_bad_dims(env, argv[0], function, "shape", "a tuple or list of up to 64 integers");
    else if (!tenon_nif_get_type(env, argv[1], dtype))
        *error = tenon_nif_bad_type(env, argv[1], function, "type");
    else
        return true;
    return false;
}

bool tenon_nif_is_large(int32_t ndim, const int64_t *shape, tenon_dtype dtype)
{
    int64_t numel;
    return !tenon_shape_numel(ndim, shape, &numel, NULL) && numel > TENON_NIF_DIRTY_BYTES / (dtype.bits / 8);
}

size_t tenon_nif_type_name(tenon_dtype dtype, char *buffer, size_t size)
{
    size_t length = tenon_dtype_format(dtype, buffer, size);
    if (dtype.code == TENON_CODE_INT && buffer[0] == 'i')
        buffer[0] = 's'; /* the core's i64 */
    return length;
}

bool tenon_nif_is_copied_to_show(ErlNifEnv *env, ERL_NIF_TERM part)
{
    ErlNifBinary one, two;
    return enif_inspect_binary(env, part, &one) && enif_inspect_binary(env, part, &two) && one.data != two.data;
}

bool tenon_nif_starts_inside_byte(ErlNifEnv *env, ERL_NIF_TERM binary)
{
    ERL_NIF_TERM empty;
    enif_make_new_binary(env, 0, &empty);
    return !enif_is_identical(binary, empty) &&
           tenon_nif_is_copied_to_show(env, enif_make_sub_binary(env, binary, 0, 1));
}

ERL_NIF_TERM tenon_nif_misaligned(ErlNifEnv *env, tenon_dtype dtype, uint64_t address, const char *function,
                                  const char *argument, const char *hint)
{
    uint64_t need = tenon_dtype_alignment(dtype), got = address & (~address + 1);
    ERL_NIF_TERM reason =
        enif_make_tuple3(env, tenon_nif_atoms.misaligned, enif_make_uint64(env, need), enif_make_uint64(env, got));
    return tenon_nif_error(env, reason, function, argument,
                           "%s(): argument '%s': its address must be a multiple of %" PRIu64 ", but is one of %" PRIu64
                           "%s",
                           function, argument, need, got, hint);
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

ERL_NIF_TERM tenon_nif_bad_dims(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument,
                                const char *expected)
{
    const ERL_NIF_TERM *items;
    ERL_NIF_TERM head;
    ErlNifSInt64 value;
    char what[100] = "", message[400];
    int count = 0;
    if (enif_get_tuple(env, term, &count, &items))
        term = enif_make_list_from_array(env, items, count > TENON_MAX_NDIM ? TENON_MAX_NDIM : (unsigned)count);
    for (count = 0; count < TENON_MAX_NDIM && enif_get_list_cell(env, term, &head, &term); count++) {
        if (enif_get_int64(env, head, &value))
            continue;
        tenon_nif_describe(env, head, what, sizeof what);
        if (enif_term_type(env, head) == ERL_NIF_TERM_TYPE_INTEGER)
            snprintf(what, sizeof what, "out of range (-9223372036854775808 to 9223372036854775807)");
        break;
    }
    snprintf(message, sizeof message, *what ? "%s; element %d is %s" : "%s", expected, count, what);
    return tenon_nif_badarg(env, function, argument, message);
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

/* torch's name of TENON_ROCM. */
static const char hip[] = "hip";

/* A name without an id, or with one if `has_id` ("cuda:1"). */
static bool parse_device(const char *name, bool has_id, tenon_device *out)
{
    char other[NAME_SIZE + 1];
    size_t length = strcspn(name, ":");
    if (name[length] && !has_id)
        return false;
    if (length == sizeof hip - 1 && memcmp(name, hip, length) == 0) {
        snprintf(other, sizeof other, "rocm%s", name + length);
        name = other;
    }
    return tenon_device_parse(name, out, NULL) == TENON_OK;
}

bool tenon_nif_get_device(ErlNifEnv *env, ERL_NIF_TERM term, tenon_device *out)
{
    if (enif_is_identical(term, tenon_nif_atoms.cpu)) {
        *out = tenon_device_of(TENON_CPU, 0);
        return true;
    }
    const ERL_NIF_TERM *pair;
    ErlNifBinary text;
    char name[NAME_SIZE];
    int size, id = 0;
    if (enif_inspect_binary(env, term, &text)) {
        if (text.size >= sizeof name || memchr(text.data, 0, text.size))
            return false;
        memcpy(name, text.data, text.size);
        name[text.size] = '\0';
        return parse_device(name, true, out);
    }
    if (enif_get_tuple(env, term, &size, &pair)) {
        if (size != 2 || !enif_get_int(env, pair[1], &id) || id < 0)
            return false;
        term = pair[0];
    }
    if (!get_name(env, term, name) || !parse_device(name, false, out))
        return false;
    out->device_id = id;
    return true;
}

ERL_NIF_TERM tenon_nif_bad_device(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument)
{
    static const char *const without_addresses[] = {"xla", "fpga", "msnpu"};
    const ERL_NIF_TERM *pair;
    ErlNifBinary text;
    char name[NAME_SIZE] = "";
    int size;
    if (enif_get_tuple(env, term, &size, &pair) && size == 2)
        term = pair[0];
    if (enif_inspect_binary(env, term, &text) && text.size < sizeof name)
        memcpy(name, text.data, text.size);
    else
        (void)get_name(env, term, name);
    name[strcspn(name, ":")] = '\0';
    for (size_t i = 0; i < sizeof without_addresses / sizeof *without_addresses; i++)
        if (strcmp(name, without_addresses[i]) == 0)
            return tenon_nif_error(
                env, enif_make_tuple2(env, tenon_nif_atoms.badarg, enif_make_atom(env, argument)), function, argument,
                "%s(): argument '%s': memory on %s has no address that other libraries can use; copy the tensor "
                "to the CPU or to a GPU first",
                function, argument, name);
    return tenon_nif_badarg(env, function, argument, "a device such as :cpu, :cuda, {:cuda, 0} or \"cuda:0\"");
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
