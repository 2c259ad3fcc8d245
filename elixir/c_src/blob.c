#include "nif.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Size limits, in words, for searching an owner on the caller's scheduler and on a dirty one, and the number of parts that
 * the caller's scheduler may release. */
enum { OWNER_WORDS_INLINE = 10 * 1000, OWNER_WORDS = 20 * 1000 * 1000, OWNER_PARTS_INLINE = 1000 };

/* ------------------------------------------------------------------------------------------------- search of a term
 *
 * Of all terms only references and binaries of more than 64 bytes keep memory alive outside of a process's heap, and
 * functions that have captured such terms. So only these parts of an owner are kept, not the owner itself, which may be
 * large. The NIF API cannot look into functions: Tenon.Blob does, and passes what they have captured. */

/* A list of terms. `inside` is enough for most owners. */
typedef struct term_stack {
    ERL_NIF_TERM *terms;
    size_t count;
    size_t room;
    ERL_NIF_TERM inside[64];
} term_stack;

static void init_stack(term_stack *stack)
{
    stack->terms = stack->inside;
    stack->count = 0;
    stack->room = sizeof stack->inside / sizeof *stack->inside;
}

static void free_stack(term_stack *stack)
{
    if (stack->terms != stack->inside)
        enif_free(stack->terms);
}

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
    int64_t words;       /* the size of what was searched; terms that occur twice count twice */
    bool is_known;       /* the functions in this part have been looked into */
    bool has_function;
    bool has_binary;        /* it may be large, so releasing it takes time */
    bool in_binary;         /* all of the memory is inside a binary, which never changes */
    ERL_NIF_TERM functions; /* a list of the others */
    term_stack parts;       /* that keep memory alive */
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
        tenon_nif_storage_release(w->storage);
    tenon_nif_storage_keep(storage);
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

/* The runtime copies binaries of up to 64 bytes with their term, so these keep nothing alive. */
static bool visit_bits(owner_walk *w, ERL_NIF_TERM bits)
{
    enum { HEAP_BINARY = 64 };
    ErlNifBinary bytes;
    if (enif_is_binary(w->env, bits) && !tenon_nif_starts_inside_byte(w->env, bits) &&
        enif_inspect_binary(w->env, bits, &bytes)) {
        w->in_binary |=
            is_inside(w, tenon_device_of(TENON_CPU, 0), (uintptr_t)bytes.data, (uintptr_t)bytes.data + bytes.size);
        if (bytes.size <= HEAP_BINARY)
            return true;
    }
    w->has_binary = true;
    return push(&w->parts, bits);
}

/* Visit a term without parts. False: no memory. */
static bool visit_flat(owner_walk *w, ERL_NIF_TERM term, ErlNifTermType type)
{
    enum { PART_WORDS = 12 }; /* at most */
    if (type == ERL_NIF_TERM_TYPE_REFERENCE) {
        w->words += PART_WORDS;
        visit_reference(w, term);
        return push(&w->parts, term);
    }
    if (type == ERL_NIF_TERM_TYPE_BITSTRING) {
        w->words += PART_WORDS;
        return visit_bits(w, term);
    }
    if (type == ERL_NIF_TERM_TYPE_FUN && !w->is_known) {
        w->words += PART_WORDS;
        w->has_function = true;
        w->functions = enif_make_list_cell(w->env, term, w->functions);
    }
    return true;
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
    init_stack(&stack);
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
            more = visit_flat(w, term, type);
        }
    }
    free_stack(&stack);
    if (!more)
        w->words = budget + 1;
}

/* --------------------------------------------------------------------------------------------------------- to_blob */

/* The names of devices in ExTorch. */
static ERL_NIF_TERM make_device_name(ErlNifEnv *env, tenon_device device)
{
    if (device.device_type == TENON_ROCM)
        return enif_make_tuple2(env, enif_make_atom(env, "hip"), enif_make_int(env, device.device_id));
    return tenon_nif_make_device(env, device);
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
        tenon_nif_make_list(env, view->ndim, view->strides), tenon_nif_make_blob_type(env, view->dtype),
        make_device_name(env, view->device), enif_make_int(env, view->dtype.bits / 8));
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
    ERL_NIF_TERM dims = 0; /* of the argument that is wrong */
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
    if (!tenon_nif_get_device(env, field[4], &out->blob.device)) {
        *error = tenon_nif_bad_device(env, field[4], function, "device");
        return false;
    }
    if (!enif_get_uint64(env, field[0], &address))
        argument = "ptr", expected = "an address";
    else if (!tenon_nif_get_dims(env, field[1], &ndim, out->shape))
        dims = field[1], argument = "shape", expected = "a tuple or list of up to 64 integers";
    else if ((has_strides = !enif_is_identical(field[2], tenon_nif_atoms.nil)) &&
             (!tenon_nif_get_dims(env, field[2], &nstrides, out->strides) || nstrides != ndim))
        dims = field[2], argument = "strides", expected = "as many integers as the shape has, or nil";
    else if (!enif_is_identical(field[5], tenon_nif_atoms.nil) &&
             (!enif_get_uint64(env, field[5], &data_size) || data_size == 0))
        argument = "data_size", expected = "a number of bytes, or nil";
    else if (!enif_is_identical(field[7], tenon_nif_atoms.nil) &&
             (!enif_get_int(env, field[7], &size) || size != out->blob.dtype.bits / 8))
        argument = "element_size", expected = "the bytes of the dtype, or nil";
    else if (!out->immutable && !enif_is_identical(field[6], tenon_nif_atoms.no))
        argument = "immutable", expected = "true or false";
    if (argument) {
        *error = dims ? tenon_nif_bad_dims(env, dims, function, argument, expected)
                      : tenon_nif_badarg(env, function, argument, expected);
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
                           "from_blob(): argument 'owner': it has more than %d words, which would have to be searched "
                           "for what keeps memory alive; pass the reference that owns the memory",
                           OWNER_WORDS);
}

/* Copy the parts of the owner that keep memory alive into an environment of their own, as a list. */
static ERL_NIF_TERM hold_parts(const owner_walk *w, ErlNifEnv *own)
{
    ERL_NIF_TERM list = enif_make_list(own, 0);
    for (size_t i = 0; i < w->parts.count; i++)
        list = enif_make_list_cell(own, enif_make_copy(own, w->parts.terms[i]), list);
    return list;
}

/* Make a storage for `tensor` that keeps the owner alive and shares the state of w->storage, if there is one. NULL: no
 * memory. */
static tenon_nif_storage *foreign_storage(tenon_tensor *tensor, const owner_walk *w, bool has_owner)
{
    ErlNifEnv *own = w->parts.count ? enif_alloc_env() : NULL;
    if (w->parts.count && !own)
        return NULL;
    ERL_NIF_TERM held = own ? hold_parts(w, own) : 0;
    /* Releasing a few parts is faster than waking the reaper. */
    bool slow = w->has_binary || w->parts.count > OWNER_PARTS_INLINE;
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

/* Why the owner cannot be kept alive, or 0: {:functions, list} if it has functions that were not looked into, otherwise
 * {:error, …}. */
static ERL_NIF_TERM refused(const owner_walk *w)
{
    if (w->has_function)
        return enif_make_tuple2(w->env, enif_make_atom(w->env, "functions"), w->functions);
    if (w->gone)
        return w->gone;
    return w->storage || w->in_binary ? 0 : w->misfit;
}

/* The storage of `tensor`, as a new reference. NULL: *error, or w->words is more than `budget`. `owner` and `known` are
 * arguments of the NIF. */
static tenon_nif_storage *find_storage(tenon_tensor *tensor, owner_walk *w, bool has_owner, ERL_NIF_TERM owner,
                                       ERL_NIF_TERM known, int64_t budget, ERL_NIF_TERM *error)
{
    if (has_owner) {
        walk_owner(w, owner, budget);
        w->is_known = true;
        walk_owner(w, known, budget);
    }
    /* If a tensor is the only owner, its storage keeps everything alive. */
    bool alone = w->storage && (tenon_nif_is_tensor(w->env, owner) || enif_is_ref(w->env, owner));
    if (w->rank == OWNER_WHOLE || alone) {
        tenon_nif_storage_keep(w->storage);
        return w->storage;
    }
    if (w->words > budget)
        return NULL;
    *error = refused(w);
    if (*error)
        return NULL;
    tenon_nif_storage *storage = foreign_storage(tensor, w, has_owner);
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
                    .high = (uintptr_t)view->data + (uintptr_t)extent.high,
                    .functions = enif_make_list(env, 0)};
    init_stack(&w.parts);
    bool has_owner = enif_is_identical(argv[1], tenon_nif_atoms.yes);
    tenon_nif_storage *storage = find_storage(tensor, &w, has_owner, argv[2], argv[3], budget, &error);
    free_stack(&w.parts);
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
        tenon_nif_storage_release(storage);
    if (w.storage)
        tenon_nif_storage_release(w.storage);
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
