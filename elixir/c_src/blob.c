#include "nif.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What copying an owner may cost: so many words at once, and so many on a dirty scheduler. */
enum { OWNER_WORDS_INLINE = 10 * 1000, OWNER_WORDS = 1000 * 1000 };

/* -------------------------------------------------------------------------------------------------- size of a term */

/* Most owners need no more than what is inside. */
typedef struct term_stack {
    ERL_NIF_TERM *terms;
    size_t count;
    size_t room;
    ERL_NIF_TERM inside[64];
} term_stack;

static bool push(term_stack *stack, ERL_NIF_TERM term)
{
    if (stack->count == stack->room) {
        size_t room = 2 * stack->room;
        bool is_inside = stack->terms == stack->inside;
        ERL_NIF_TERM *terms = enif_realloc(is_inside ? NULL : stack->terms, room * sizeof *terms);
        if (!terms)
            return false;
        if (is_inside)
            memcpy(terms, stack->inside, sizeof stack->inside);
        stack->terms = terms;
        stack->room = room;
    }
    stack->terms[stack->count++] = term;
    return true;
}

/* The words of a term that has no others inside. */
static int64_t flat_words(ErlNifEnv *env, ERL_NIF_TERM term, ErlNifTermType type)
{
    ErlNifSInt64 integer;
    ErlNifBinary bytes;
    int64_t words = 12; /* bits that are no whole bytes, references, remote process ids */
    if (type == ERL_NIF_TERM_TYPE_ATOM || (type == ERL_NIF_TERM_TYPE_INTEGER && enif_get_int64(env, term, &integer)))
        return 1;
    if (type == ERL_NIF_TERM_TYPE_INTEGER && enif_term_to_binary(env, term, &bytes)) {
        words = (int64_t)bytes.size / 8 + 2;
        enif_release_binary(&bytes);
    } else if (type == ERL_NIF_TERM_TYPE_BITSTRING && enif_inspect_binary(env, term, &bytes) && bytes.size <= 64) {
        words = (int64_t)bytes.size / 8 + 3;
    }
    return words;
}

/* The words that a copy of the term takes, which shares nothing: what occurs twice counts twice. More than `budget`
 * where it is larger, without looking further; -1 for what holds a function, whose size cannot be known. */
static int64_t copied_words(ErlNifEnv *env, ERL_NIF_TERM term, int64_t budget)
{
    term_stack stack;
    stack.terms = stack.inside;
    stack.count = 0;
    stack.room = sizeof stack.inside / sizeof *stack.inside;
    int64_t words = 0;
    bool more = push(&stack, term);
    while (more && stack.count && words <= budget) {
        term = stack.terms[--stack.count];
        ErlNifTermType type = enif_term_type(env, term);
        if (type == ERL_NIF_TERM_TYPE_LIST) {
            ERL_NIF_TERM head;
            /* The tail goes under the head, so that a long list does not pile up. */
            if (enif_get_list_cell(env, term, &head, &term)) {
                words += 2;
                more = push(&stack, term) && push(&stack, head);
            }
        } else if (type == ERL_NIF_TERM_TYPE_TUPLE) {
            const ERL_NIF_TERM *items;
            int arity;
            enif_get_tuple(env, term, &arity, &items);
            words += arity + 1;
            for (int i = 0; more && i < arity && words <= budget; i++)
                more = push(&stack, items[i]);
        } else if (type == ERL_NIF_TERM_TYPE_MAP) {
            size_t size;
            enif_get_map_size(env, term, &size);
            words += 3 * (int64_t)size + 3;
            ErlNifMapIterator iterator;
            if (words > budget || !enif_map_iterator_create(env, term, &iterator, ERL_NIF_MAP_ITERATOR_FIRST))
                continue;
            ERL_NIF_TERM key, value;
            while (more && enif_map_iterator_get_pair(env, &iterator, &key, &value)) {
                more = push(&stack, key) && push(&stack, value);
                enif_map_iterator_next(env, &iterator);
            }
            enif_map_iterator_destroy(env, &iterator);
        } else if (type == ERL_NIF_TERM_TYPE_FUN) {
            words = -1;
            break;
        } else {
            words += flat_words(env, term, type);
        }
    }
    if (stack.terms != stack.inside)
        enif_free(stack.terms);
    return more ? words : budget + 1;
}

/* --------------------------------------------------------------------------------------------------------- to_blob */

/* torch's own names, as the seed answers them. */
static ERL_NIF_TERM make_dtype_name(ErlNifEnv *env, tenon_dtype dtype)
{
    static const struct {
        const char *from;
        const char *to;
    } names[] = {{"f32", "float"}, {"f64", "double"}, {"f16", "half"}, {"u8", "byte"},      {"i8", "char"},
                 {"i16", "short"}, {"i32", "int"},    {"i64", "long"}, {"bf16", "bfloat16"}},
      prefixes[] = {{"f", "float"}, {"u", "uint"}, {"c", "complex"}};
    char name[32], full[40];
    tenon_dtype_format(dtype, name, sizeof name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].from) == 0)
            return enif_make_atom(env, names[i].to);
    }
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (name[0] == prefixes[i].from[0] && name[1] >= '0' && name[1] <= '9') {
            snprintf(full, sizeof full, "%s%s", prefixes[i].to, name + 1);
            return enif_make_atom(env, full);
        }
    }
    return enif_make_atom(env, name);
}

TENON_NIF(to_blob)
{
    (void)argc;
    ERL_NIF_TERM error;
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, argv[0], "to_blob", "tensor", &error);
    if (!tensor)
        return error;
    const tenon_view *view = tenon_tensor_view(tensor->tensor);
    ERL_NIF_TERM fields = enif_make_tuple6(
        env, enif_make_uint64(env, (uintptr_t)view->data), tenon_nif_make_tuple(env, view->ndim, view->shape),
        tenon_nif_make_list(env, view->ndim, view->strides), make_dtype_name(env, view->dtype),
        tenon_nif_make_device(env, view->device), enif_make_int(env, view->dtype.bits / 8));
    tenon_nif_tensor_unpin(tensor);
    return tenon_nif_ok(env, fields);
}

/* ------------------------------------------------------------------------------------------------------- from_blob */

typedef struct blob_request {
    tenon_blob blob;
    int64_t shape[TENON_MAX_NDIM];
    int64_t strides[TENON_MAX_NDIM];
    bool immutable;
} blob_request;

/* False: *error is {:error, …}. */
static bool get_request(ErlNifEnv *env, ERL_NIF_TERM term, blob_request *out, ERL_NIF_TERM *error)
{
    const char *function = "from_blob", *expected = NULL, *argument = NULL;
    const ERL_NIF_TERM *field;
    int size;
    ErlNifUInt64 address, data_size = 0;
    int32_t ndim = 0, nstrides;
    bool has_strides = false;
    if (!enif_get_tuple(env, term, &size, &field) || size != 8) {
        *error = tenon_nif_badarg(env, function, "blob", "a map with :ptr, :shape and :dtype");
        return false;
    }
    *out = (blob_request){.immutable = enif_is_identical(field[6], tenon_nif_atoms.yes)};
    if (!tenon_nif_get_type(env, field[3], &out->blob.dtype)) {
        *error = tenon_nif_bad_type(env, field[3], function, "dtype");
        return false;
    }
    if (!enif_get_uint64(env, field[0], &address))
        argument = "ptr", expected = "an address";
    else if (!tenon_nif_get_dims(env, field[1], &ndim, out->shape))
        argument = "shape", expected = "a tuple or list of up to 64 integers";
    else if ((has_strides = !enif_is_identical(field[2], tenon_nif_atoms.nil)) &&
             (!tenon_nif_get_dims(env, field[2], &nstrides, out->strides) || nstrides != ndim))
        argument = "strides", expected = "as many integers as the shape has, or nil";
    else if (!tenon_nif_get_device(env, field[4], &out->blob.device))
        argument = "device", expected = "a device such as :cpu or {:cuda, 0}";
    else if (!enif_is_identical(field[5], tenon_nif_atoms.nil) &&
             (!enif_get_uint64(env, field[5], &data_size) || data_size == 0))
        argument = "data_size", expected = "a number of bytes, or nil";
    else if (!enif_is_identical(field[7], tenon_nif_atoms.nil) &&
             (!enif_get_int(env, field[7], &size) || size != out->blob.dtype.bits / 8))
        argument = "element_size", expected = "the bytes of the dtype, or nil";
    if (argument) {
        *error = tenon_nif_badarg(env, function, argument, expected);
        return false;
    }
    /* As wide as one number: complex ones are two. */
    tenon_dtype dtype = out->blob.dtype;
    uint64_t need = dtype.code == TENON_CODE_COMPLEX ? dtype.bits / 16u : dtype.bits / 8u, rest = address % need;
    if (tenon_device_has_addresses(out->blob.device) && rest) {
        ERL_NIF_TERM reason = enif_make_tuple3(env, tenon_nif_atoms.misaligned, enif_make_uint64(env, need),
                                               enif_make_uint64(env, rest & (~rest + 1)));
        *error = tenon_nif_error(env, reason, function, "ptr",
                                 "from_blob(): argument 'ptr' must be a multiple of %" PRIu64, need);
        return false;
    }
    out->blob.data = (void *)(uintptr_t)address;
    out->blob.data_size = data_size;
    out->blob.ndim = ndim;
    out->blob.shape = out->shape;
    out->blob.strides = has_strides ? out->strides : NULL;
    out->blob.flags = out->immutable ? TENON_READ_ONLY : 0;
    return true;
}

static bool lies_inside(const tenon_view *inner, const tenon_view *outer)
{
    if (!tenon_device_equal(inner->device, outer->device) || !tenon_device_has_addresses(inner->device))
        return false;
    tenon_extent in = tenon_view_extent(inner), out = tenon_view_extent(outer);
    uintptr_t in_base = (uintptr_t)inner->data, out_base = (uintptr_t)outer->data;
    return in_base + (uintptr_t)in.low >= out_base + (uintptr_t)out.low &&
           in_base + (uintptr_t)in.high <= out_base + (uintptr_t)out.high;
}

/* The storage of an owner that is a tensor whose memory this is: with one storage there is one state, so that nobody
 * can write by one name what is frozen by the other. One count, or NULL; *error where the owner is no good. */
static tenon_nif_storage *storage_of_owner(ErlNifEnv *env, ERL_NIF_TERM owner, const tenon_view *view,
                                           ERL_NIF_TERM *error)
{
    *error = 0;
    if (!tenon_nif_is_tensor(env, owner))
        return NULL;
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, owner, "from_blob", "owner", error);
    if (!tensor)
        return NULL;
    tenon_nif_storage *storage = NULL;
    if (lies_inside(view, tenon_tensor_view(tensor->storage->root))) {
        storage = tensor->storage;
        enif_keep_resource(storage);
    }
    tenon_nif_tensor_unpin(tensor);
    return storage;
}

static ERL_NIF_TERM too_large(ErlNifEnv *env, int64_t words)
{
    if (words < 0)
        return tenon_nif_badarg(env, "from_blob", "owner",
                                "a term without functions; pass the reference that owns the memory");
    ERL_NIF_TERM reason = enif_make_tuple2(env, tenon_nif_atoms.owner_too_large, enif_make_int64(env, words));
    return tenon_nif_error(env, reason, "from_blob", "owner",
                           "from_blob(): argument 'owner': holding it copies %" PRId64
                           " words or more; pass the reference that owns the memory",
                           words);
}

/* `tensor` with a storage of its own, which holds the owner. Takes `tensor`. */
static tenon_nif_storage *foreign_storage(tenon_tensor *tensor, bool has_owner, ERL_NIF_TERM owner, bool immutable)
{
    ErlNifEnv *own = has_owner ? enif_alloc_env() : NULL;
    ERL_NIF_TERM held = own ? enif_make_copy(own, owner) : 0;
    tenon_nif_storage *storage =
        has_owner && !own ? NULL : tenon_nif_storage_alloc(tensor, TENON_NIF_FOREIGN, own, held);
    if (!storage) {
        if (own)
            enif_free_env(own);
        tenon_tensor_release(tensor);
        return NULL;
    }
    if (immutable)
        (void)tenon_nif_freeze(storage);
    return storage;
}

static ERL_NIF_TERM from_blob(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    blob_request request;
    ERL_NIF_TERM error;
    tenon_error err;
    tenon_tensor *tensor;
    bool has_owner = enif_is_identical(argv[1], tenon_nif_atoms.yes);
    if (!get_request(env, argv[0], &request, &error))
        return error;
    if (tenon_tensor_from_blob(&request.blob, &tensor, &err))
        return tenon_nif_core_error(env, &err, "from_blob", err.status == TENON_EBOUNDS ? "data_size" : "shape");
    tenon_nif_storage *storage = NULL;
    if (has_owner) {
        storage = storage_of_owner(env, argv[2], tenon_tensor_view(tensor), &error);
        tenon_nif_access access = storage && request.immutable ? tenon_nif_freeze(storage) : TENON_NIF_GRANTED;
        if (access != TENON_NIF_GRANTED) {
            error = tenon_nif_access_error(env, access, "from_blob", "owner");
            enif_release_resource(storage);
        }
        if (error) {
            tenon_tensor_release(tensor);
            return error;
        }
    }
    if (!storage) {
        ERL_NIF_TERM owner = argv[2];
        if (has_owner && tenon_nif_is_tensor(env, owner))
            enif_get_map_value(env, owner, tenon_nif_atoms.ref, &owner);
        storage = foreign_storage(tenon_tensor_retain(tensor), has_owner, owner, request.immutable);
        if (!storage) {
            tenon_tensor_release(tensor);
            return tenon_nif_error(env, tenon_nif_reason(env, TENON_ENOMEM, NULL), "from_blob", NULL,
                                   "from_blob(): no memory");
        }
    }
    ERL_NIF_TERM term = tenon_nif_make_tensor(env, tensor, storage);
    enif_release_resource(storage);
    return tenon_nif_ok(env, term);
}

static ERL_NIF_TERM from_blob_dirty(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int64_t words = copied_words(env, argv[2], OWNER_WORDS);
    return words < 0 || words > OWNER_WORDS ? too_large(env, words) : from_blob(env, argc, argv);
}

TENON_NIF(from_blob)
{
    /* Of a tensor only the reference is held. */
    if (!enif_is_identical(argv[1], tenon_nif_atoms.yes) || tenon_nif_is_tensor(env, argv[2]))
        return from_blob(env, argc, argv);
    int64_t words = copied_words(env, argv[2], OWNER_WORDS_INLINE);
    if (words > OWNER_WORDS_INLINE)
        return tenon_nif_dirty(env, "from_blob", from_blob_dirty, argc, argv);
    return words < 0 ? too_large(env, words) : from_blob(env, argc, argv);
}
