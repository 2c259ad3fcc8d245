#include "nif.h"

#include <tenon/nif.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>

bool tenon_nif_storage_init(ErlNifEnv *env);

static ErlNifResourceType *storage_type;
static ErlNifResourceType *tensor_type;

/* ---------------------------------------------------------------------------------------------------------- reaper */

static tenon_deferred reap_list;
static bool reaper_runs;

/* Wakes the reaper. (macOS has no unnamed semaphores.) The lock is only held to read or set the flag, so schedulers do
 * not wait for it. */
static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static bool has_work;

static void *reaper(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&wake_lock);
        while (!has_work)
            pthread_cond_wait(&wake, &wake_lock);
        has_work = false;
        pthread_mutex_unlock(&wake_lock);
        tenon_deferred_drain(&reap_list);
    }
    return NULL;
}

/* Signals are for the threads of the VM, so the reaper blocks all of them. */
static bool start_reaper(void)
{
    if (reaper_runs)
        return true;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before))
        return false;
    reaper_runs = pthread_create(&thread, NULL, reaper, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (reaper_runs)
        pthread_detach(thread);
    return reaper_runs;
}

void tenon_nif_reap(tenon_deferred_node *node, void (*release)(void *owner), void *owner)
{
    if (!tenon_deferred_push(&reap_list, node, release, owner))
        return;
    pthread_mutex_lock(&wake_lock);
    has_work = true;
    pthread_mutex_unlock(&wake_lock);
    pthread_cond_signal(&wake);
}

/* -------------------------------------------------------------------------------------------------------- storages */

/* Allocated together with the storage, so that releasing it cannot fail. */
struct tenon_nif_reaped {
    tenon_deferred_node node;
    tenon_tensor *root;
    ErlNifEnv *env;
};

static void release_root(tenon_tensor *root, ErlNifEnv *env)
{
    tenon_tensor_release(root);
    if (env)
        enif_free_env(env);
}

static void reap_storage(void *owner)
{
    tenon_nif_reaped *reaped = owner;
    release_root(reaped->root, reaped->env);
    enif_free(reaped);
}

/* Its last user is gone. */
static void end_storage(tenon_nif_storage *storage)
{
    if (storage->reaped)
        tenon_nif_reap(&storage->reaped->node, reap_storage, storage->reaped);
    else
        release_root(storage->root, storage->env);
    if (storage->within)
        tenon_nif_storage_release(storage->within);
}

static void storage_destroy(ErlNifEnv *env, void *object)
{
    (void)env;
    end_storage(object);
}

void tenon_nif_storage_keep(tenon_nif_storage *storage)
{
    if (storage->home)
        atomic_fetch_add_explicit(&storage->users, 1, memory_order_relaxed);
    enif_keep_resource(storage->home ? (void *)storage->home : storage);
}

/* The end of a share that does not keep the resource: that of its home. The last holder can be seen without an atomic
 * subtraction, because only a holder makes further shares. */
static void drop_share(tenon_nif_storage *storage)
{
    if (atomic_load_explicit(&storage->users, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&storage->users, 1, memory_order_acq_rel) == 1)
        end_storage(storage);
}

void tenon_nif_storage_release(tenon_nif_storage *storage)
{
    tenon_nif_tensor *home = storage->home;
    if (home)
        drop_share(storage);
    enif_release_resource(home ? (void *)home : storage);
}

/* Makes the job for the reaper, if there will be one. False: no memory. */
static bool plan_release(tenon_tensor *root, tenon_nif_origin origin, bool slow, ErlNifEnv *env, tenon_nif_reaped **out)
{
    *out = NULL;
    if (!slow && (origin != TENON_NIF_OURS || tenon_view_nbytes(tenon_tensor_view(root)) < TENON_NIF_REAPED_BYTES))
        return true;
    tenon_nif_reaped *reaped = *out = enif_alloc(sizeof *reaped);
    if (reaped) {
        reaped->root = root;
        reaped->env = env;
    }
    return reaped != NULL;
}

static void init_storage(tenon_nif_storage *storage, tenon_tensor *root, tenon_nif_origin origin,
                         tenon_nif_reaped *reaped)
{
    storage->home = NULL;
    storage->origin = origin;
    storage->readonly = (tenon_tensor_view(root)->flags & TENON_READ_ONLY) != 0;
    storage->copied = false;
    storage->unowned = false;
    storage->root = root;
    storage->env = NULL;
    storage->owner = 0;
    storage->reaped = reaped;
    storage->within = NULL;
    storage->shared = NULL;
    storage->state = &storage->own_state;
    atomic_init(&storage->own_state, 0);
}

tenon_nif_storage *tenon_nif_storage_alloc(tenon_tensor *root, tenon_nif_origin origin, bool slow, ErlNifEnv *env,
                                           ERL_NIF_TERM owner)
{
    tenon_nif_reaped *reaped;
    if (!plan_release(root, origin, slow, env, &reaped))
        return NULL;
    tenon_nif_storage *storage = enif_alloc_resource(storage_type, sizeof *storage);
    init_storage(storage, root, origin, reaped);
    storage->env = env;
    storage->owner = owner;
    if (origin == TENON_NIF_BINARY)
        (void)tenon_nif_freeze(storage);
    return storage;
}

void tenon_nif_storage_share(tenon_nif_storage *storage, tenon_nif_storage *within)
{
    tenon_nif_storage_keep(within);
    storage->within = within;
    storage->state = within->state;
    storage->readonly |= within->readonly;
    storage->unowned |= within->unowned;
}

ERL_NIF_TERM tenon_nif_storage_binary(ErlNifEnv *env, tenon_nif_storage *storage, const void *data, size_t size)
{
    if (!storage->home)
        return enif_make_resource_binary(env, storage, data, size);
    /* A binary keeps a resource alive. That must not be the tensor, which can be released. */
    tenon_nif_storage *part = enif_alloc_resource(storage_type, sizeof *part);
    init_storage(part, tenon_tensor_retain(storage->root), storage->origin, NULL);
    tenon_nif_storage_share(part, storage);
    ERL_NIF_TERM binary = enif_make_resource_binary(env, part, data, size);
    enif_release_resource(part);
    return binary;
}

/* The state: three flags, and the number of readers above them. */
#define FROZEN     ((uint64_t)1)
#define WRITER     ((uint64_t)2)
#define SEALED     ((uint64_t)4)
#define ONE_READER ((uint64_t)8)

tenon_nif_access tenon_nif_read_begin(tenon_nif_storage *storage)
{
    uint64_t state = atomic_load_explicit(storage->state, memory_order_relaxed);
    do {
        if (state & WRITER)
            return TENON_NIF_BUSY;
    } while (!atomic_compare_exchange_weak_explicit(storage->state, &state, state + ONE_READER, memory_order_acquire,
                                                    memory_order_relaxed));
    return TENON_NIF_GRANTED;
}

void tenon_nif_read_end(tenon_nif_storage *storage)
{
    atomic_fetch_sub_explicit(storage->state, ONE_READER, memory_order_release);
}

tenon_nif_access tenon_nif_write_begin(tenon_nif_storage *storage)
{
    if (storage->readonly)
        return TENON_NIF_READONLY;
    uint64_t state = 0;
    if (atomic_compare_exchange_strong_explicit(storage->state, &state, WRITER, memory_order_acquire,
                                                memory_order_relaxed))
        return TENON_NIF_GRANTED;
    return state & (FROZEN | SEALED) ? TENON_NIF_READONLY : TENON_NIF_BUSY;
}

void tenon_nif_write_end(tenon_nif_storage *storage)
{
    atomic_fetch_and_explicit(storage->state, ~WRITER, memory_order_release);
}

void tenon_nif_seal(tenon_nif_storage *storage)
{
    atomic_fetch_or_explicit(storage->state, SEALED, memory_order_relaxed);
    tenon_nif_write_end(storage);
}

tenon_nif_access tenon_nif_freeze(tenon_nif_storage *storage)
{
    uint64_t state = atomic_load_explicit(storage->state, memory_order_relaxed);
    do {
        if (state & WRITER)
            return TENON_NIF_BUSY;
    } while (!atomic_compare_exchange_weak_explicit(storage->state, &state, state | FROZEN, memory_order_acquire,
                                                    memory_order_relaxed));
    return TENON_NIF_GRANTED;
}

bool tenon_nif_frozen(tenon_nif_storage *storage)
{
    return atomic_load_explicit(storage->state, memory_order_relaxed) & FROZEN;
}

bool tenon_nif_may_write(tenon_nif_storage *storage)
{
    return !storage->readonly && !(atomic_load_explicit(storage->state, memory_order_relaxed) & (FROZEN | SEALED));
}

ERL_NIF_TERM tenon_nif_access_error(ErlNifEnv *env, tenon_nif_access access, const char *function, const char *argument)
{
    bool busy = access == TENON_NIF_BUSY;
    return tenon_nif_error(env, busy ? tenon_nif_atoms.busy : tenon_nif_atoms.readonly, function, argument,
                           "%s(): argument '%s' %s", function, argument,
                           busy ? "is in use: either one process may write or several may read"
                                : "is not writable: its memory belongs to a binary, is frozen, or is read-only");
}

/* --------------------------------------------------------------------------------------------------------- tensors */

/* Its last pin is gone. */
static void end_tensor(tenon_nif_tensor *tensor)
{
    if (tensor->storage->home == tensor) {
        drop_share(tensor->storage);
        return;
    }
    /* The storage is last, because it decides which thread releases the memory. */
    tenon_tensor_release(tensor->tensor);
    tenon_nif_storage_release(tensor->storage);
}

void tenon_nif_tensor_unpin(tenon_nif_tensor *tensor)
{
    if (atomic_fetch_sub_explicit(&tensor->pins, 1, memory_order_acq_rel) == 1)
        end_tensor(tensor);
}

static void tensor_destroy(ErlNifEnv *env, void *object)
{
    (void)env;
    tenon_nif_tensor *tensor = object;
    if (atomic_load_explicit(&tensor->released, memory_order_relaxed))
        return;
    /* No term refers to it, so no other thread can pin it. */
    if (atomic_load_explicit(&tensor->pins, memory_order_acquire) == 1)
        end_tensor(tensor);
    else
        tenon_nif_tensor_unpin(tensor);
}

bool tenon_nif_tensor_try_pin(tenon_nif_tensor *tensor)
{
    if (atomic_load_explicit(&tensor->released, memory_order_relaxed))
        return false;
    int64_t pins = atomic_load_explicit(&tensor->pins, memory_order_relaxed);
    do {
        if (pins == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&tensor->pins, &pins, pins + 1, memory_order_acquire,
                                                    memory_order_relaxed));
    return true;
}

enum { VERSION_MAGIC = 131 }; /* the first byte of a term in the external format */

/* Find the node of a reference. The NIF API has no function for that; in the external format it is an atom after the
 * version, the tag and the number of words. `name` is NULL if the term is not a reference. */
static void node_of(ErlNifEnv *env, ERL_NIF_TERM reference, ErlNifBinary *bytes, const char **name, size_t *length)
{
    enum { NEWER_REFERENCE_EXT = 90, ATOM_EXT = 100, ATOM_UTF8_EXT = 118, SMALL_ATOM_UTF8_EXT = 119 };
    *name = NULL;
    if (!enif_is_ref(env, reference) || !enif_term_to_binary(env, reference, bytes))
        return;
    const unsigned char *data = bytes->data;
    if (bytes->size < 7 || data[0] != VERSION_MAGIC || data[1] != NEWER_REFERENCE_EXT)
        return;
    bool is_long = data[4] == ATOM_EXT || data[4] == ATOM_UTF8_EXT;
    if (!is_long && data[4] != SMALL_ATOM_UTF8_EXT)
        return;
    size_t start = is_long ? 7 : 6, size = is_long ? (size_t)data[5] << 8 | data[6] : data[5];
    if (start + size > bytes->size)
        return;
    *name = (const char *)data + start;
    *length = size;
}

ERL_NIF_TERM tenon_nif_not_local(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument,
                                 const char *hint)
{
    ErlNifBinary theirs = {0}, ours = {0};
    const char *their_name, *our_name = NULL;
    size_t their_length = 0, our_length = 0;
    ERL_NIF_TERM error = 0;
    node_of(env, term, &theirs, &their_name, &their_length);
    if (their_name)
        node_of(env, enif_make_ref(env), &ours, &our_name, &our_length);
    if (our_name && (their_length != our_length || memcmp(their_name, our_name, our_length) != 0)) {
        /* Decoded, because enif_make_atom_len only takes Latin-1. */
        ERL_NIF_TERM node = tenon_nif_atoms.nil;
        theirs.data[3] = VERSION_MAGIC;
        enif_binary_to_term(env, theirs.data + 3, theirs.size - 3, &node, 0);
        error = tenon_nif_error(env, enif_make_tuple2(env, tenon_nif_atoms.not_local, node), function, argument,
                                "%s(): argument '%s' belongs to the node %.*s; %s", function, argument,
                                (int)their_length, their_name, hint);
    }
    if (theirs.data)
        enif_release_binary(&theirs);
    if (ours.data)
        enif_release_binary(&ours);
    return error;
}

/* Why a `ref` is not a tensor: it is of another node, of an earlier run of this node, or was never a tensor. */
static ERL_NIF_TERM not_a_tensor(ErlNifEnv *env, ERL_NIF_TERM reference, const char *function, const char *argument)
{
    if (!enif_is_ref(env, reference))
        return tenon_nif_badarg(env, function, argument, "a tensor");
    ERL_NIF_TERM error =
        tenon_nif_not_local(env, reference, function, argument, "send the binary of to_binary instead");
    return error ? error
                 : tenon_nif_error(
                       env, tenon_nif_atoms.stale, function, argument,
                       "%s(): argument '%s' is not a live tensor: its memory is gone, or it never was a tensor",
                       function, argument);
}

static tenon_nif_tensor *find(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument,
                              ERL_NIF_TERM *error)
{
    ERL_NIF_TERM reference;
    void *object;
    if (!enif_get_map_value(env, term, tenon_nif_atoms.ref, &reference)) {
        *error = tenon_nif_badarg(env, function, argument, "a tensor");
        return NULL;
    }
    if (!enif_get_resource(env, reference, tensor_type, &object)) {
        *error = not_a_tensor(env, reference, function, argument);
        return NULL;
    }
    return object;
}

tenon_nif_tensor *tenon_nif_tensor_pin(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument,
                                       ERL_NIF_TERM *error)
{
    tenon_nif_tensor *tensor = find(env, term, function, argument, error);
    if (!tensor || tenon_nif_tensor_try_pin(tensor))
        return tensor;
    *error = tenon_nif_error(env, tenon_nif_atoms.released, function, argument, "%s(): argument '%s' was released",
                             function, argument);
    return NULL;
}

tenon_nif_tensor *tenon_nif_tensor_of_reference(ErlNifEnv *env, ERL_NIF_TERM reference)
{
    void *object;
    return enif_get_resource(env, reference, tensor_type, &object) ? object : NULL;
}

bool tenon_nif_is_tensor(ErlNifEnv *env, ERL_NIF_TERM term)
{
    ERL_NIF_TERM module, reference;
    return enif_get_map_value(env, term, tenon_nif_atoms.__struct__, &module) &&
           enif_is_identical(module, tenon_nif_atoms.tensor_module) &&
           enif_get_map_value(env, term, tenon_nif_atoms.ref, &reference) && enif_is_ref(env, reference);
}

/* The %Tenon.Tensor{} of a new resource, which the term keeps alive from then on. */
static ERL_NIF_TERM make_struct(ErlNifEnv *env, tenon_nif_tensor *handle, tenon_tensor *tensor,
                                tenon_nif_storage *storage)
{
    atomic_init(&handle->pins, 1);
    atomic_init(&handle->released, false);
    handle->tensor = tensor;
    handle->storage = storage;
    ERL_NIF_TERM reference = enif_make_resource(env, handle), term;
    enif_release_resource(handle);
    const tenon_view *view = tenon_tensor_view(tensor);
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    /* Sorted by name, as the runtime would do it. */
    ERL_NIF_TERM keys[] = {a->__struct__, a->byte_size, a->device, a->names, a->ref, a->shape, a->strides, a->type};
    ERL_NIF_TERM values[] = {
        a->tensor_module,
        enif_make_int64(env, tenon_view_nbytes(view)),
        tenon_nif_make_device(env, view->device),
        a->nil,
        reference,
        tenon_nif_make_tuple(env, view->ndim, view->shape),
        tenon_nif_make_list(env, view->ndim, view->strides),
        tenon_nif_make_type(env, view->dtype),
    };
    enif_make_map_from_arrays(env, keys, values, sizeof keys / sizeof *keys, &term);
    return term;
}

ERL_NIF_TERM tenon_nif_make_tensor(ErlNifEnv *env, tenon_tensor *tensor, tenon_nif_storage *storage)
{
    tenon_nif_storage_keep(storage);
    return make_struct(env, enif_alloc_resource(tensor_type, sizeof(tenon_nif_tensor)), tensor, storage);
}

/* A tensor and its storage: one resource. */
typedef struct owned_tensor {
    tenon_nif_tensor handle; /* first */
    tenon_nif_storage storage;
} owned_tensor;

ERL_NIF_TERM tenon_nif_make_owned(ErlNifEnv *env, tenon_tensor *tensor, const char *function)
{
    tenon_nif_reaped *reaped;
    if (!tenon_nif_publish(env, tensor) || !plan_release(tensor, TENON_NIF_OURS, false, NULL, &reaped)) {
        tenon_tensor_release(tensor);
        return tenon_nif_error(env, tenon_nif_reason(env, TENON_ENOMEM, NULL), function, NULL, "%s(): no memory",
                               function);
    }
    owned_tensor *owned = enif_alloc_resource(tensor_type, sizeof *owned);
    init_storage(&owned->storage, tensor, TENON_NIF_OURS, reaped);
    owned->storage.home = &owned->handle;
    atomic_init(&owned->storage.users, 1);
    return make_struct(env, &owned->handle, tensor, &owned->storage);
}

TENON_NIF(release)
{
    (void)argc;
    ERL_NIF_TERM error;
    tenon_nif_tensor *tensor = find(env, argv[0], "release", "tensor", &error);
    if (!tensor)
        return error;
    if (!atomic_exchange_explicit(&tensor->released, true, memory_order_acq_rel))
        tenon_nif_tensor_unpin(tensor);
    return tenon_nif_atoms.ok;
}

/* ------------------------------------------------------------------------------------------------------------ start */

bool tenon_nif_storage_init(ErlNifEnv *env)
{
    /* Another copy of this library takes them over, unless it has another layout (nif.c). */
    ErlNifResourceFlags flags = ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER;
    ErlNifResourceTypeInit storages = {.dtor = storage_destroy, .members = 1};
    ErlNifResourceTypeInit tensors = {.dtor = tensor_destroy, .dyncall = tenon_nif_answer, .members = 4};
    storage_type = enif_init_resource_type(env, "tenon_storage", &storages, flags, NULL);
    tensor_type = enif_init_resource_type(env, TENON_NIF_TYPE, &tensors, flags, NULL);
    return storage_type && tensor_type && start_reaper();
}
