#include "nif.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The most words of an owner that are copied on the caller's scheduler, and on a dirty one. */
enum { OWNER_WORDS_INLINE = 10 * 1000, OWNER_WORDS = 1000 * 1000 };

/* -------------------------------------------------------------------------------------------------- size of a term */

/* `inside` is enough for most owners. */
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

/* What it means that a tensor contains all of the memory. If several do, the greatest value counts. */
typedef enum owner_rank {
    OWNER_NONE,
    OWNER_FOREIGN, /* foreign memory: all owners are kept alive, and its state is shared */
    OWNER_CLOSED,  /* the same, and it must not be written */
    OWNER_WHOLE    /* memory of Tenon or of a binary: only its storage has to be kept alive */
} owner_rank;

/* The memory to be held, and what was found in its owner. */
typedef struct owner_walk {
    ErlNifEnv *env;
    tenon_device device; /* of the memory */
    uintptr_t low;       /* where it begins */
    uintptr_t high;      /* and ends */
    int64_t words;       /* the size of a copy of the owner; terms that occur twice count twice, as in a copy */
    bool has_function;   /* its size is unknown */
    bool has_binary;     /* it may be large, so releasing it takes time */
    bool in_binary;      /* all of the memory is inside a binary, which never changes */
    owner_rank rank;
    tenon_nif_storage *storage; /* of that rank; one reference */
    ERL_NIF_TERM gone;          /* {:error, …} if an owner was released, or 0 */
    ERL_NIF_TERM misfit;        /* {:error, …} if an owner has only a part of the memory, or another device; or 0 */
} owner_walk;

static ERL_NIF_TERM device_mismatch(ErlNifEnv *env, tenon_device want, tenon_device got)
{
    ERL_NIF_TERM reason = enif_make_tuple3(env, tenon_nif_atoms.device_mismatch, tenon_nif_make_device(env, want),
                                           tenon_nif_make_device(env, got));
    return tenon_nif_error(env, reason, "from_blob", "device",
                           "from_blob(): argument 'device': an owner has this memory on another device");
}

/* Whether this range contains all of the memory. All memory that the CPU can read has one address space, whatever the
 * names of the devices. */
static bool is_inside(owner_walk *w, tenon_device device, uintptr_t low, uintptr_t high)
{
    bool here = tenon_device_on_host(w->device), there = tenon_device_on_host(device);
    bool same = tenon_device_equal(w->device, device) || (here && there);
    if (!tenon_device_has_addresses(w->device) || !tenon_device_has_addresses(device) || !(same || here || there))
        return false;
    if (same && w->low >= low && w->high <= high)
        return true;
    if (!w->misfit && w->low < high && w->high > low)
        w->misfit =
            same ? tenon_nif_badarg(w->env, "from_blob", "shape", "memory that is completely inside its owner's memory")
                 : device_mismatch(w->env, device, w->device);
    return false;
}

/* All tensors on a block of memory share one state, so that none can write to memory that is frozen or in use. */
static void visit_tensor(owner_walk *w, tenon_nif_tensor *pinned)
{
    tenon_nif_storage *storage = pinned->storage;
    const tenon_view *view = tenon_tensor_view(storage->root);
    tenon_extent extent = tenon_view_extent(view);
    uintptr_t data = (uintptr_t)view->data;
    if (!is_inside(w, view->device, data + (uintptr_t)extent.low, data + (uintptr_t)extent.high))
        return;
    owner_rank rank = storage->origin != TENON_NIF_FOREIGN ? OWNER_WHOLE
                      : tenon_nif_may_write(storage)       ? OWNER_FOREIGN
                                                           : OWNER_CLOSED;
    if (rank <= w->rank)
        return;
    if (w->storage)
        enif_release_resource(w->storage);
    enif_keep_resource(storage);
    w->storage = storage;
    w->rank = rank;
}

static void visit_reference(owner_walk *w, ERL_NIF_TERM reference)
{
    tenon_nif_tensor *tensor = tenon_nif_tensor_of_reference(w->env, reference);
    if (!tensor)
        return;
    if (tenon_nif_tensor_try_pin(tensor)) {
        visit_tensor(w, tensor);
        tenon_nif_tensor_unpin(tensor);
    } else if (!w->gone) {
        w->gone = tenon_nif_error(w->env, tenon_nif_atoms.released, "from_blob", "owner",
                                  "from_blob(): argument 'owner' was released");
    }
}

static void visit_bits(owner_walk *w, ERL_NIF_TERM bits)
{
    ErlNifBinary bytes;
    w->has_binary = true;
    if (enif_is_binary(w->env, bits) && !tenon_nif_starts_inside_byte(w->env, bits) &&
        enif_inspect_binary(w->env, bits, &bytes) &&
        is_inside(w, tenon_device_of(TENON_CPU, 0), (uintptr_t)bytes.data, (uintptr_t)bytes.data + bytes.size))
        w->in_binary = true;
}

/* Visit a term without parts. Small ones are stored inside their container. */
static void visit_flat(owner_walk *w, ERL_NIF_TERM term, ErlNifTermType type)
{
    ErlNifSInt64 integer;
    ErlNifBinary bytes;
    ErlNifPid local;
    if (type == ERL_NIF_TERM_TYPE_ATOM || (type == ERL_NIF_TERM_TYPE_PID && enif_get_local_pid(w->env, term, &local)))
        return;
    if (type == ERL_NIF_TERM_TYPE_INTEGER && enif_get_int64(w->env, term, &integer)) {
        w->words += integer >> 59 == 0 || integer >> 59 == -1 ? 0 : 2;
    } else if (type == ERL_NIF_TERM_TYPE_INTEGER && enif_term_to_binary(w->env, term, &bytes)) {
        w->words += (int64_t)bytes.size / 8 + 2;
        enif_release_binary(&bytes);
    } else {
        w->words += 12; /* at most */
        w->has_function |= type == ERL_NIF_TERM_TYPE_FUN;
        if (type == ERL_NIF_TERM_TYPE_REFERENCE)
            visit_reference(w, term);
        else if (type == ERL_NIF_TERM_TYPE_BITSTRING)
            visit_bits(w, term);
    }
}

/* False: no memory. */
static bool visit_map(owner_walk *w, ERL_NIF_TERM map, int64_t budget, term_stack *stack)
{
    size_t size;
    ErlNifMapIterator iterator;
    ERL_NIF_TERM key, value;
    bool more = true;
    enif_get_map_size(w->env, map, &size);
    w->words += 3 * (int64_t)size + 3;
    if (tenon_nif_is_tensor(w->env, map)) {
        tenon_nif_tensor *tensor = tenon_nif_tensor_pin(w->env, map, "from_blob", "owner", &w->gone);
        if (tensor) {
            visit_tensor(w, tensor);
            tenon_nif_tensor_unpin(tensor);
        }
    }
    if (w->rank == OWNER_WHOLE || w->words > budget ||
        !enif_map_iterator_create(w->env, map, &iterator, ERL_NIF_MAP_ITERATOR_FIRST))
        return true;
    while (more && enif_map_iterator_get_pair(w->env, &iterator, &key, &value)) {
        more = push(stack, key) && push(stack, value);
        enif_map_iterator_next(w->env, &iterator);
    }
    enif_map_iterator_destroy(w->env, &iterator);
    return more;
}

/* Search an owner, until a tensor decides everything or the owner has more words than `budget`. */
static void walk_owner(owner_walk *w, ERL_NIF_TERM term, int64_t budget)
{
    term_stack stack;
    stack.terms = stack.inside;
    stack.count = 0;
    stack.room = sizeof stack.inside / sizeof *stack.inside;
    bool more = push(&stack, term);
    while (more && stack.count && w->words <= budget && w->rank != OWNER_WHOLE) {
        term = stack.terms[--stack.count];
        ErlNifTermType type = enif_term_type(w->env, term);
        const ERL_NIF_TERM *items;
        ERL_NIF_TERM head;
        int arity;
        if (type == ERL_NIF_TERM_TYPE_LIST) {
            /* The tail goes below the head, so that the stack does not grow with the list. */
            if (enif_get_list_cell(w->env, term, &head, &term)) {
                w->words += 2;
                more = push(&stack, term) && push(&stack, head);
            }
        } else if (type == ERL_NIF_TERM_TYPE_TUPLE) {
            enif_get_tuple(w->env, term, &arity, &items);
            w->words += arity + 1;
            for (int i = 0; more && i < arity && w->words <= budget; i++)
                more = push(&stack, items[i]);
        } else if (type == ERL_NIF_TERM_TYPE_MAP) {
            more = visit_map(w, term, budget, &stack);
        } else {
            visit_flat(w, term, type);
        }
    }
    if (stack.terms != stack.inside)
        enif_free(stack.terms);
    if (!more)
        w->words = budget + 1;
}

/* --------------------------------------------------------------------------------------------------------- to_blob */

/* torch's own names, as in ExTorch. */
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

TENON_NIF(unowned)
{
    (void)argc;
    ERL_NIF_TERM result;
    tenon_nif_tensor *tensor = tenon_nif_tensor_pin(env, argv[0], "inspect", "tensor", &result);
    if (!tensor)
        return result;
    uintptr_t address = (uintptr_t)tenon_tensor_view(tensor->tensor)->data;
    result = tensor->storage->unowned ? enif_make_uint64(env, address) : tenon_nif_atoms.no;
    tenon_nif_tensor_unpin(tensor);
    return result;
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
    out->blob = (tenon_blob){0};
    out->immutable = enif_is_identical(field[6], tenon_nif_atoms.yes);
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
    else if (!out->immutable && !enif_is_identical(field[6], tenon_nif_atoms.no))
        argument = "immutable", expected = "true or false";
    if (argument) {
        *error = tenon_nif_badarg(env, function, argument, expected);
        return false;
    }
    if (tenon_device_has_addresses(out->blob.device) && address % tenon_dtype_alignment(out->blob.dtype)) {
        *error = tenon_nif_misaligned(env, out->blob.dtype, address, function, "ptr", "");
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

static ERL_NIF_TERM too_large(ErlNifEnv *env, int64_t words)
{
    ERL_NIF_TERM reason = enif_make_tuple2(env, tenon_nif_atoms.owner_too_large, enif_make_int64(env, words));
    return tenon_nif_error(env, reason, "from_blob", "owner",
                           "from_blob(): argument 'owner': keeping it alive means copying %" PRId64
                           " words or more; pass the reference that owns the memory",
                           words);
}

/* Make a storage for `tensor` that keeps the owner alive and shares the state of w->storage, if there is one. NULL: no
 * memory. */
static tenon_nif_storage *foreign_storage(tenon_tensor *tensor, const owner_walk *w, bool has_owner, ERL_NIF_TERM owner)
{
    ErlNifEnv *own = has_owner ? enif_alloc_env() : NULL;
    if (has_owner && !own)
        return NULL;
    ERL_NIF_TERM held = own ? enif_make_copy(own, owner) : 0;
    /* Releasing a few words is faster than waking the reaper. */
    bool slow = w->has_binary || w->words > OWNER_WORDS_INLINE;
    tenon_nif_storage *storage =
        tenon_nif_storage_alloc(tenon_tensor_retain(tensor), TENON_NIF_FOREIGN, slow, own, held);
    if (!storage) {
        if (own)
            enif_free_env(own);
        tenon_tensor_release(tensor);
    } else {
        storage->unowned = !has_owner;
        if (w->storage)
            tenon_nif_storage_share(storage, w->storage);
    }
    return storage;
}

/* Why the owner cannot be kept alive, or 0. */
static ERL_NIF_TERM refused(const owner_walk *w)
{
    if (w->has_function)
        return tenon_nif_badarg(w->env, "from_blob", "owner",
                                "a term without functions; pass the reference that owns the memory");
    if (w->gone)
        return w->gone;
    return w->storage || w->in_binary ? 0 : w->misfit;
}

/* The storage of `tensor`, as a new reference. NULL: *error, or w->words is more than `budget`. */
static tenon_nif_storage *find_storage(tenon_tensor *tensor, owner_walk *w, bool has_owner, ERL_NIF_TERM owner,
                                       int64_t budget, ERL_NIF_TERM *error)
{
    if (has_owner)
        walk_owner(w, owner, budget);
    /* If a tensor is the only owner, its storage keeps everything alive. */
    bool alone = w->storage && (tenon_nif_is_tensor(w->env, owner) || enif_is_ref(w->env, owner));
    if (w->rank == OWNER_WHOLE || alone) {
        enif_keep_resource(w->storage);
        return w->storage;
    }
    *error = refused(w);
    if (*error || w->words > budget)
        return NULL;
    tenon_nif_storage *storage = foreign_storage(tensor, w, has_owner, owner);
    if (!storage)
        *error = tenon_nif_error(w->env, tenon_nif_reason(w->env, TENON_ENOMEM, NULL), "from_blob", NULL,
                                 "from_blob(): no memory");
    return storage;
}

/* If the owner is too large, *words is more than `budget`, and the result means nothing. */
static ERL_NIF_TERM from_blob(ErlNifEnv *env, const ERL_NIF_TERM argv[], int64_t budget, int64_t *words)
{
    blob_request request;
    ERL_NIF_TERM error = 0;
    tenon_error err;
    tenon_tensor *tensor;
    *words = 0;
    if (!get_request(env, argv[0], &request, &error))
        return error;
    if (tenon_tensor_from_blob(&request.blob, &tensor, &err))
        return tenon_nif_core_error(env, &err, "from_blob", err.status == TENON_EBOUNDS ? "data_size" : "shape");
    const tenon_view *view = tenon_tensor_view(tensor);
    tenon_extent extent = tenon_view_extent(view);
    owner_walk w = {.env = env,
                    .device = view->device,
                    .low = (uintptr_t)view->data + (uintptr_t)extent.low,
                    .high = (uintptr_t)view->data + (uintptr_t)extent.high};
    bool has_owner = enif_is_identical(argv[1], tenon_nif_atoms.yes);
    tenon_nif_storage *storage = find_storage(tensor, &w, has_owner, argv[2], budget, &error);
    tenon_nif_report(env, (uint64_t)w.words / TENON_NIF_WORDS_PER_MICROSECOND);
    *words = storage ? 0 : w.words;
    bool frozen = request.immutable || w.in_binary;
    tenon_nif_access access = storage && frozen ? tenon_nif_freeze(storage) : TENON_NIF_GRANTED;
    ERL_NIF_TERM result = error;
    if (access != TENON_NIF_GRANTED)
        result = tenon_nif_access_error(env, access, "from_blob", "owner");
    else if (storage)
        result =
            tenon_nif_charged(env, tenon_nif_ok(env, tenon_nif_make_tensor(env, tenon_tensor_retain(tensor), storage)),
                              has_owner && storage != w.storage ? (uint64_t)(extent.high - extent.low) : 0);
    tenon_tensor_release(tensor);
    if (storage)
        enif_release_resource(storage);
    if (w.storage)
        enif_release_resource(w.storage);
    return result;
}

static ERL_NIF_TERM from_blob_dirty(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    int64_t words;
    ERL_NIF_TERM result = from_blob(env, argv, OWNER_WORDS, &words);
    return words > OWNER_WORDS ? too_large(env, words) : result;
}

TENON_NIF(from_blob)
{
    int64_t words;
    ERL_NIF_TERM result = from_blob(env, argv, OWNER_WORDS_INLINE, &words);
    return words > OWNER_WORDS_INLINE ? tenon_nif_dirty(env, "from_blob", from_blob_dirty, argc, argv) : result;
}
