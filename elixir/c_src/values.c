/* Converts terms to the values of a signature's kinds, and back. */
#include "library.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- strings */

void tenon_nif_mend_utf8(char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t step = tenon_utf8_length(text + at, length - at);
        if (step == 0)
            text[at] = '?';
        at += step ? step : 1;
    }
}

ERL_NIF_TERM tenon_nif_make_string(ErlNifEnv *env, const char *text, size_t length)
{
    ERL_NIF_TERM term;
    unsigned char *bytes = enif_make_new_binary(env, length, &term);
    if (length)
        memcpy(bytes, text, length);
    return term;
}

ERL_NIF_TERM tenon_nif_make_text(ErlNifEnv *env, const char *text)
{
    return text ? tenon_nif_make_string(env, text, strlen(text)) : tenon_nif_atoms.nil;
}

/* ---------------------------------------------------------------------------------------------------------- errors */

/* The name of a struct's module without "Elixir."; false if the term is not a struct. */
static bool struct_name(ErlNifEnv *env, ERL_NIF_TERM term, char *buffer, size_t size)
{
    char name[256];
    ERL_NIF_TERM module;
    if (!enif_get_map_value(env, term, tenon_nif_atoms.__struct__, &module) ||
        !enif_get_atom(env, module, name, sizeof name, ERL_NIF_LATIN1))
        return false;
    snprintf(buffer, size, "%s", strncmp(name, "Elixir.", 7) == 0 ? name + 7 : name);
    tenon_nif_mend_utf8(buffer, strlen(buffer));
    return true;
}

void tenon_nif_describe(ErlNifEnv *env, ERL_NIF_TERM term, char *buffer, size_t size)
{
    static const char *const phrases[] = {
        [ERL_NIF_TERM_TYPE_ATOM] = "an atom",       [ERL_NIF_TERM_TYPE_BITSTRING] = "a bitstring",
        [ERL_NIF_TERM_TYPE_FLOAT] = "a float",      [ERL_NIF_TERM_TYPE_FUN] = "a function",
        [ERL_NIF_TERM_TYPE_INTEGER] = "an integer", [ERL_NIF_TERM_TYPE_LIST] = "a list",
        [ERL_NIF_TERM_TYPE_MAP] = "a map",          [ERL_NIF_TERM_TYPE_PID] = "a pid",
        [ERL_NIF_TERM_TYPE_PORT] = "a port",        [ERL_NIF_TERM_TYPE_REFERENCE] = "a reference",
        [ERL_NIF_TERM_TYPE_TUPLE] = "a tuple",
    };
    unsigned type = (unsigned)enif_term_type(env, term);
    const ERL_NIF_TERM *parts;
    char name[256];
    int arity;
    /* Tenon.Library has replaced an Nx tensor by its bytes; messages name what the caller passed. */
    if (enif_get_tuple(env, term, &arity, &parts) && arity == 4 &&
        enif_get_atom(env, parts[3], name, sizeof name, ERL_NIF_LATIN1) && strcmp(name, "Elixir.Nx.Tensor") == 0) {
        snprintf(buffer, size, "%s", "Nx.Tensor");
        return;
    }
    if (struct_name(env, term, buffer, size))
        return;
    if (enif_get_atom(env, term, name, sizeof name, ERL_NIF_LATIN1)) {
        bool is_nil = enif_is_identical(term, tenon_nif_atoms.nil);
        snprintf(buffer, size, "%s%s", is_nil ? "" : ":", name);
        tenon_nif_mend_utf8(buffer, strlen(buffer));
        return;
    }
    const char *phrase = type < sizeof phrases / sizeof *phrases ? phrases[type] : NULL;
    snprintf(buffer, size, "%s", enif_is_binary(env, term) ? "a binary" : phrase ? phrase : "something else");
}

ERL_NIF_TERM tenon_nif_wrong_kind(ErlNifEnv *env, const tenon_signature *s, const tenon_parameter *param,
                                  ERL_NIF_TERM term)
{
    char what[300];
    tenon_nif_describe(env, term, what, sizeof what);
    ERL_NIF_TERM reason = enif_make_tuple2(env, tenon_nif_atoms.badarg, tenon_nif_argument(env, param->name));
    return tenon_nif_error(env, reason, s->name, param->name, "%s(): argument '%s': expected %s, got %s", s->name,
                           param->name, param->type, what);
}

/* The same for a value of the right kind that cannot be used. */
static bool bad_value(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM reason, const char *what)
{
    const tenon_signature *s = r->function->signature;
    const tenon_parameter *param = &s->params[index];
    r->error = tenon_nif_error(r->env, enif_make_tuple2(r->env, reason, r->function->names[index]), s->name,
                               param->name, "%s(): argument '%s': %s", s->name, param->name, what);
    return false;
}

static bool wrong_kind(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term)
{
    const tenon_signature *s = r->function->signature;
    r->error = tenon_nif_wrong_kind(r->env, s, &s->params[index], term);
    return false;
}

bool tenon_nif_no_memory(tenon_nif_reader *r)
{
    const char *name = r->function->signature->name;
    r->error = tenon_nif_error(r->env, tenon_nif_failed(r->env, TENON_ENOMEM), name, NULL,
                               "%s(): no memory for its arguments", name);
    return false;
}

bool tenon_nif_may_read(tenon_nif_reader *r, size_t bytes)
{
    if (r->unlimited)
        return true;
    r->go_dirty = bytes >= TENON_NIF_DIRTY_CALL || (r->bytes += bytes) >= TENON_NIF_DIRTY_CALL;
    return !r->go_dirty;
}

bool tenon_nif_read_bytes(tenon_nif_reader *r, ERL_NIF_TERM binary, ErlNifBinary *bytes)
{
    r->go_dirty = !r->unlimited && tenon_nif_starts_inside_byte(r->env, binary);
    return !r->go_dirty && enif_inspect_binary(r->env, binary, bytes);
}

size_t tenon_nif_bytes_of(int64_t numel, tenon_dtype dtype)
{
    size_t items = numel < TENON_NIF_DIRTY_CALL ? (size_t)numel : TENON_NIF_DIRTY_CALL;
    return (items * dtype.bits * dtype.lanes + 7) / 8;
}

/* --------------------------------------------------------------------------------------------------------- numbers */

static bool is_integer(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return enif_term_type(env, term) == ERL_NIF_TERM_TYPE_INTEGER;
}

/* An element of a list that is not what is expected. */
static bool wrong_element(tenon_nif_reader *r, int32_t index, unsigned element, ERL_NIF_TERM term, const char *expected)
{
    char what[300], message[500];
    tenon_nif_describe(r->env, term, what, sizeof what);
    snprintf(message, sizeof message, "element %u: expected %s, got %s", element, expected, what);
    return bad_value(r, index, tenon_nif_atoms.badarg, message);
}

/* The range of an argument of kind `kind`, or of its elements. */
static const char *range_of(uint32_t kind)
{
    switch (kind) {
    case TENON_KIND_INT:
    case TENON_KIND_INTS:
        return "-9223372036854775808 to 9223372036854775807 (64 bits)";
    case TENON_KIND_UINT:
        return "0 to 18446744073709551615 (64 bits)";
    default:
        return "-1.7976931348623157e308 to 1.7976931348623157e308";
    }
}

/* A number that is out of range. `place` is "" or "element 3: ". */
static bool out_of_range(tenon_nif_reader *r, int32_t index, const char *place)
{
    char message[500];
    snprintf(message, sizeof message, "%sthe integer is out of range: expected %s", place,
             range_of(r->function->signature->params[index].kind));
    return bad_value(r, index, tenon_nif_atoms.overflow, message);
}

/* An argument that is not a number of its kind. */
static bool bad_number(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term)
{
    return is_integer(r->env, term) ? out_of_range(r, index, "") : wrong_kind(r, index, term);
}

static bool get_int(ErlNifEnv *env, ERL_NIF_TERM term, int64_t *out)
{
    ErlNifSInt64 value;
    bool taken = enif_get_int64(env, term, &value);
    if (taken)
        *out = value;
    return taken;
}

static bool get_uint(ErlNifEnv *env, ERL_NIF_TERM term, int64_t *out)
{
    ErlNifUInt64 value;
    bool taken = enif_get_uint64(env, term, &value);
    if (taken)
        *out = (int64_t)value;
    return taken;
}

/* {re, im}, %Complex{re: re, im: im} as in Nx, or a real number. */
static bool to_complex(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, double parts[2])
{
    const ERL_NIF_TERM *pair;
    ERL_NIF_TERM fields[2] = {term, 0};
    int arity;
    if (enif_get_tuple(r->env, term, &arity, &pair) && arity == 2) {
        fields[0] = pair[0];
        fields[1] = pair[1];
    } else if (enif_is_map(r->env, term) &&
               (!enif_get_map_value(r->env, term, enif_make_atom(r->env, "re"), &fields[0]) ||
                !enif_get_map_value(r->env, term, enif_make_atom(r->env, "im"), &fields[1]))) {
        return wrong_kind(r, index, term);
    }
    parts[1] = 0;
    for (int i = 0; i < 2 && fields[i]; i++)
        if (!tenon_nif_get_double(r->env, fields[i], &parts[i]))
            return is_integer(r->env, fields[i]) ? out_of_range(r, index, "") : wrong_kind(r, index, term);
    return true;
}

/* A type as in Nx: {:f, 32}, :f32. */
static bool to_dtype(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, tenon_dtype *out)
{
    const tenon_signature *s = r->function->signature;
    if (tenon_nif_get_type(r->env, term, out))
        return true;
    r->error = tenon_nif_bad_type(r->env, term, s->name, s->params[index].name);
    return false;
}

static bool to_bool(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, int64_t *out)
{
    *out = enif_is_identical(term, tenon_nif_atoms.yes);
    return *out || enif_is_identical(term, tenon_nif_atoms.no) || wrong_kind(r, index, term);
}

/* ----------------------------------------------------------------------------------------------- strings and lists */

static bool to_choice(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, int64_t *out)
{
    const tenon_parameter *param = &r->function->signature->params[index];
    const ERL_NIF_TERM *atoms = r->function->choices[index];
    ErlNifBinary text;
    bool is_text = enif_is_binary(r->env, term);
    if (is_text && !tenon_nif_read_bytes(r, term, &text))
        return false;
    for (int32_t i = 0; i < param->count; i++) {
        const char *choice = param->choices[i];
        if (is_text ? text.size == strlen(choice) && memcmp(text.data, choice, text.size) == 0
                    : atoms[i] && enif_is_identical(term, atoms[i])) {
            *out = i;
            return true;
        }
    }
    if (!is_text)
        return wrong_kind(r, index, term);
    char shown[100], message[1000];
    size_t length = tenon_utf8_cut((const char *)text.data, text.size, sizeof shown - 1);
    int type_length = (int)tenon_utf8_cut(param->type, strlen(param->type), 800);
    memcpy(shown, text.data, length);
    shown[length] = '\0';
    tenon_nif_mend_utf8(shown, length);
    snprintf(message, sizeof message, "expected %.*s, got \"%s\"", type_length, param->type, shown);
    return bad_value(r, index, tenon_nif_atoms.badarg, message);
}

/* A copy of the text, with a 0 after it. */
static bool copy_text(tenon_nif_reader *r, const ErlNifBinary *text, tenon_value *value)
{
    char *copy = tenon_block_alloc(r->blocks, text->size + 1, 0);
    if (!copy)
        return tenon_nif_no_memory(r);
    memcpy(copy, text->data, text->size);
    copy[text->size] = '\0';
    value->as.list.data = copy;
    value->as.list.length = (int64_t)text->size;
    return true;
}

static bool to_text(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, tenon_value *value)
{
    ErlNifBinary text;
    if (!enif_is_binary(r->env, term))
        return wrong_kind(r, index, term);
    if (!tenon_nif_read_bytes(r, term, &text) || !tenon_nif_may_read(r, text.size))
        return false;
    if (!tenon_utf8_is_valid((const char *)text.data, text.size))
        return bad_value(r, index, tenon_nif_atoms.badarg, "expected str, got a binary that is not UTF-8");
    return copy_text(r, &text, value);
}

bool tenon_nif_list_length(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, size_t item_bytes, unsigned *length)
{
    const tenon_parameter *param = &r->function->signature->params[index];
    unsigned count = 0;
    ERL_NIF_TERM item, rest = term;
    /* Counting a long list takes time too, so count only as far as this scheduler may read. */
    while (count <= TENON_NIF_DIRTY_CALL / item_bytes && enif_get_list_cell(r->env, rest, &item, &rest))
        count++;
    if (!tenon_nif_may_read(r, count * item_bytes))
        return false;
    if (enif_get_list_length(r->env, term, length))
        return true;
    char message[200];
    snprintf(message, sizeof message, "expected %.100s, got an improper list", param->type);
    return enif_is_list(r->env, term) ? bad_value(r, index, tenon_nif_atoms.badarg, message)
                                      : wrong_kind(r, index, term);
}

static bool to_list(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, tenon_value *value)
{
    const tenon_parameter *param = &r->function->signature->params[index];
    unsigned length;
    ERL_NIF_TERM item;
    if (!tenon_nif_list_length(r, index, term, sizeof(int64_t), &length))
        return false;
    if (param->count >= 0 && length != (unsigned)param->count) {
        char message[200];
        snprintf(message, sizeof message, "expected %s, got %u number%s", param->type, length, length == 1 ? "" : "s");
        return bad_value(r, index, tenon_nif_atoms.badarg, message);
    }
    void *list = tenon_block_alloc(r->blocks, length * sizeof(int64_t), 0);
    if (!list)
        return tenon_nif_no_memory(r);
    for (unsigned i = 0; enif_get_list_cell(r->env, term, &item, &term); i++) {
        bool is_float = param->kind == TENON_KIND_FLOATS;
        if (is_float ? tenon_nif_get_double(r->env, item, (double *)list + i)
                     : get_int(r->env, item, (int64_t *)list + i))
            continue;
        char place[32];
        snprintf(place, sizeof place, "element %u: ", i);
        return is_integer(r->env, item) ? out_of_range(r, index, place)
                                        : wrong_element(r, index, i, item, is_float ? "a number" : "an integer");
    }
    value->as.list.data = list;
    value->as.list.length = length;
    return true;
}

/* The bytes stay in the binary: it is not moved as long as the NIF runs. */
static bool to_bytes(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, tenon_value *value)
{
    static const char nothing; /* an empty binary may have no address */
    ErlNifBinary bytes;
    if (!enif_is_binary(r->env, term))
        return wrong_kind(r, index, term);
    if (!tenon_nif_read_bytes(r, term, &bytes) || !tenon_nif_may_read(r, bytes.size))
        return false;
    value->as.list.data = bytes.size ? (const void *)bytes.data : &nothing;
    value->as.list.length = (int64_t)bytes.size;
    return true;
}

static bool to_texts(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, tenon_value *value)
{
    unsigned length;
    ERL_NIF_TERM item;
    if (!tenon_nif_list_length(r, index, term, sizeof(tenon_text), &length))
        return false;
    tenon_text *texts = tenon_block_alloc(r->blocks, length * sizeof *texts, 0);
    if (!texts)
        return tenon_nif_no_memory(r);
    for (unsigned i = 0; enif_get_list_cell(r->env, term, &item, &term); i++) {
        tenon_value text = {0};
        ErlNifBinary bytes;
        if (!enif_is_binary(r->env, item))
            return wrong_element(r, index, i, item, "a string");
        if (!tenon_nif_read_bytes(r, item, &bytes) || !tenon_nif_may_read(r, bytes.size))
            return false;
        if (!tenon_utf8_is_valid((const char *)bytes.data, bytes.size))
            return wrong_element(r, index, i, item, "a string in UTF-8");
        if (!copy_text(r, &bytes, &text))
            return false;
        texts[i] = (tenon_text){text.as.list.data, bytes.size};
    }
    value->as.list.data = texts;
    value->as.list.length = length;
    return true;
}

bool tenon_nif_to_value(tenon_nif_reader *r, int32_t index, ERL_NIF_TERM term, tenon_value *value)
{
    const tenon_parameter *param = &r->function->signature->params[index];
    value->kind = param->kind;
    value->flags = 0;
    switch (param->kind) {
    case TENON_KIND_INT:
        return get_int(r->env, term, &value->as.integer) || bad_number(r, index, term);
    case TENON_KIND_UINT:
        return get_uint(r->env, term, &value->as.integer) || bad_number(r, index, term);
    case TENON_KIND_FLOAT:
        return tenon_nif_get_double(r->env, term, &value->as.number) || bad_number(r, index, term);
    case TENON_KIND_COMPLEX:
        return to_complex(r, index, term, value->as.parts);
    case TENON_KIND_DTYPE:
        return to_dtype(r, index, term, &value->as.dtype);
    case TENON_KIND_BYTES:
        return to_bytes(r, index, term, value);
    case TENON_KIND_STRS:
        return to_texts(r, index, term, value);
    case TENON_KIND_BOOL:
        return to_bool(r, index, term, &value->as.integer);
    case TENON_KIND_ENUM:
        return to_choice(r, index, term, &value->as.integer);
    case TENON_KIND_STR:
        return to_text(r, index, term, value);
    case TENON_KIND_INTS:
    case TENON_KIND_FLOATS:
        return to_list(r, index, term, value);
    default: {
        const tenon_nif_handle *handle = tenon_nif_handle_find(r->env, r->function, index, term, &r->error);
        value->as.handle.object = handle ? tenon_nif_handle_object(handle) : NULL;
        value->as.handle.type = param->handle;
        return handle != NULL;
    }
    }
}

/* --------------------------------------------------------------------------------------------------------- results */

static ERL_NIF_TERM make_numbers(ErlNifEnv *env, const tenon_value *value)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (int64_t i = value->as.list.length - 1; i >= 0; i--) {
        ERL_NIF_TERM number = value->kind == TENON_KIND_INTS
                                  ? enif_make_int64(env, ((const int64_t *)value->as.list.data)[i])
                                  : tenon_nif_make_double(env, ((const double *)value->as.list.data)[i]);
        list = enif_make_list_cell(env, number, list);
    }
    return list;
}

static ERL_NIF_TERM make_texts(ErlNifEnv *env, const tenon_value *value)
{
    const tenon_text *texts = value->as.list.data;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (int64_t i = value->as.list.length - 1; i >= 0; i--)
        list = enif_make_list_cell(env, tenon_nif_make_string(env, texts[i].data, texts[i].length), list);
    return list;
}

ERL_NIF_TERM tenon_nif_make_value(ErlNifEnv *env, const tenon_value *value)
{
    switch (value->kind) {
    case TENON_KIND_INT:
        return enif_make_int64(env, value->as.integer);
    case TENON_KIND_UINT:
        return enif_make_uint64(env, (uint64_t)value->as.integer);
    case TENON_KIND_FLOAT:
        return tenon_nif_make_double(env, value->as.number);
    case TENON_KIND_COMPLEX:
        return enif_make_tuple2(env, tenon_nif_make_double(env, value->as.parts[0]),
                                tenon_nif_make_double(env, value->as.parts[1]));
    case TENON_KIND_BOOL:
        return value->as.integer ? tenon_nif_atoms.yes : tenon_nif_atoms.no;
    case TENON_KIND_STR:
    case TENON_KIND_BYTES:
        return tenon_nif_make_string(env, value->as.list.data, (size_t)value->as.list.length);
    case TENON_KIND_INTS:
    case TENON_KIND_FLOATS:
        return make_numbers(env, value);
    case TENON_KIND_STRS:
        return make_texts(env, value);
    case TENON_KIND_DTYPE:
        return tenon_nif_make_type(env, value->as.dtype);
    default:
        return tenon_nif_atoms.nil;
    }
}

ERL_NIF_TERM tenon_nif_from_value(ErlNifEnv *env, const tenon_nif_function *function, int32_t index,
                                  const tenon_value *value)
{
    const tenon_parameter *param = &function->signature->results[index];
    if (param->kind == TENON_KIND_BYTES) /* tenon_nif_take_bytes has made the binary */
        return (ERL_NIF_TERM)value->as.integer;
    if (param->kind != TENON_KIND_ENUM)
        return tenon_nif_make_value(env, value);
    ERL_NIF_TERM atom = function->choices[function->signature->nparams + index][value->as.integer];
    return atom ? atom : tenon_nif_make_text(env, param->choices[value->as.integer]);
}
