/* Handles: the objects that functions return. An object of a class can also be closed, and its calls run one after the
 * other. */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The object itself. It outlives the resource, because results of(self) share it, and because the reaper destroys it,
 * which may take long. */
struct tenon_nif_held {
    tenon_deferred_node node;
    _Atomic int64_t shares;
    _Atomic uint64_t access; /* who reads and writes the memory of results of(self) */
    void *object;
    void (*destroy)(void *);
};

struct tenon_nif_handle {
    const tenon_nif_opened *code;
    const char *type; /* the name in the signature */
    bool is_class;
    bool serial;
    _Atomic uint64_t state; /* of an object of a class: CLOSED, and the number of running calls above it */
    void *object;
    tenon_nif_held *held; /* one share, which goes when the object is closed and no call runs */
};

#define CLOSED   ((uint64_t)1)
#define ONE_CALL ((uint64_t)2)

static ErlNifResourceType *handle_type;

/* --------------------------------------------------------------------------------------------------------- lifetime */

static void destroy_held(void *owner)
{
    tenon_nif_held *held = owner;
    held->destroy(held->object);
    free(held);
}

void tenon_nif_held_release(void *share)
{
    tenon_nif_held *held = share;
    if (atomic_fetch_sub_explicit(&held->shares, 1, memory_order_acq_rel) != 1)
        return;
    if (held->destroy)
        tenon_nif_reap(&held->node, destroy_held, held);
    else
        free(held);
}

tenon_nif_held *tenon_nif_handle_share(const tenon_nif_handle *handle)
{
    atomic_fetch_add_explicit(&handle->held->shares, 1, memory_order_relaxed);
    return handle->held;
}

_Atomic uint64_t *tenon_nif_held_access(tenon_nif_held *held)
{
    return &held->access;
}

/* No call runs: a call's arguments keep the resource alive. */
static void handle_destructor(ErlNifEnv *env, void *object)
{
    (void)env;
    tenon_nif_handle *handle = object;
    if (!(atomic_load_explicit(&handle->state, memory_order_acquire) & CLOSED))
        tenon_nif_held_release(handle->held);
}

tenon_nif_handle *tenon_nif_handle_new(const tenon_nif_library *library, const tenon_parameter *item, void *object,
                                       void (*destroy)(void *))
{
    tenon_nif_held *held = malloc(sizeof *held);
    tenon_nif_handle *handle = held ? enif_alloc_resource(handle_type, sizeof *handle) : NULL;
    if (!handle) {
        free(held);
        return NULL;
    }
    atomic_init(&held->shares, 1);
    atomic_init(&held->access, 0);
    held->object = object;
    held->destroy = destroy;
    handle->code = library->opened;
    handle->type = item->handle;
    handle->is_class = item->flags & TENON_PARAMETER_CLASS;
    handle->serial = item->flags & TENON_PARAMETER_SERIAL;
    atomic_init(&handle->state, 0);
    handle->object = object;
    handle->held = held;
    return handle;
}

void *tenon_nif_handle_object(const tenon_nif_handle *handle)
{
    return handle->object;
}

/* ------------------------------------------------------------------------------------------------------------ calls */

tenon_nif_entry tenon_nif_handle_enter(tenon_nif_handle *handle)
{
    uint64_t state = atomic_load_explicit(&handle->state, memory_order_relaxed);
    do {
        if (state & CLOSED)
            return TENON_NIF_CLOSED;
        if (handle->serial && state)
            return TENON_NIF_OCCUPIED;
    } while (!atomic_compare_exchange_weak_explicit(&handle->state, &state, state + ONE_CALL, memory_order_acquire,
                                                    memory_order_relaxed));
    return TENON_NIF_ENTERED;
}

void tenon_nif_handle_leave(tenon_nif_handle *handle)
{
    uint64_t before = atomic_fetch_sub_explicit(&handle->state, ONE_CALL, memory_order_acq_rel);
    if (before == (CLOSED | ONE_CALL))
        tenon_nif_held_release(handle->held);
}

/* The handle that a reference is, or NULL. */
static tenon_nif_handle *handle_of_reference(ErlNifEnv *env, ERL_NIF_TERM reference)
{
    void *object;
    return enif_get_resource(env, reference, handle_type, &object) ? object : NULL;
}

/* The handle in a %Module.Class{}, or NULL. */
static tenon_nif_handle *handle_of(ErlNifEnv *env, ERL_NIF_TERM term)
{
    ERL_NIF_TERM reference;
    bool has_ref = enif_get_map_value(env, term, tenon_nif_atoms.ref, &reference);
    return has_ref ? handle_of_reference(env, reference) : NULL;
}

bool tenon_nif_is_occupied(ErlNifEnv *env, ERL_NIF_TERM term)
{
    const tenon_nif_handle *handle = handle_of(env, term);
    uint64_t state = handle ? atomic_load_explicit(&handle->state, memory_order_relaxed) : 0;
    return state && !(state & CLOSED);
}

/* Close it. New calls are refused from now on; the running ones end first. False: some still run. */
static bool close_handle(tenon_nif_handle *handle)
{
    uint64_t before = atomic_fetch_or_explicit(&handle->state, CLOSED, memory_order_acq_rel);
    if (before == 0)
        tenon_nif_held_release(handle->held);
    return before < ONE_CALL;
}

/* ------------------------------------------------------------------------------------------------------------ terms */

static bool is_of(const tenon_nif_handle *handle, const tenon_nif_library *library, const char *type)
{
    return handle->code == library->opened && strcmp(handle->type, type) == 0;
}

/* "an object of the class KDTree of spatial", "a handle 'Index' of kernels, which is another library". */
static void describe_handle(const tenon_nif_handle *handle, const tenon_nif_library *library, char buffer[300])
{
    snprintf(buffer, 300, handle->is_class ? "an object of the class %.80s of %.80s%s" : "a handle '%.80s' of %.80s%s",
             handle->type, handle->code->module->name,
             handle->code == library->opened ? "" : ", which is another library");
}

static const char only_there[] = "only that node can call it";

/* {:error, …} for an argument that is not an object of this class. `handle` is what it is instead, or NULL. */
static ERL_NIF_TERM not_an_object(ErlNifEnv *env, ERL_NIF_TERM term, const tenon_nif_handle *handle,
                                  const tenon_nif_library *library, const char *type, const char *function,
                                  const char *argument)
{
    ERL_NIF_TERM reference;
    char what[300];
    bool is_object = !handle && enif_get_map_value(env, term, tenon_nif_atoms.ref, &reference) &&
                     enif_is_ref(env, reference) && !tenon_nif_is_tensor(env, term);
    ERL_NIF_TERM not_local = is_object ? tenon_nif_not_local(env, reference, function, argument, only_there) : 0;
    if (not_local)
        return not_local;
    if (is_object)
        return tenon_nif_error(env, tenon_nif_atoms.stale, function, argument,
                               "%s(): argument '%s' is not a live object: it is gone, or it never was an object",
                               function, argument);
    if (handle)
        describe_handle(handle, library, what);
    else
        tenon_nif_describe(env, term, what, sizeof what);
    return tenon_nif_error(env, enif_make_tuple2(env, tenon_nif_atoms.badarg, enif_make_atom(env, argument)), function,
                           argument, "%s(): argument '%s': expected %s, got %s", function, argument, type, what);
}

static ERL_NIF_TERM not_a_handle(ErlNifEnv *env, ERL_NIF_TERM term, const tenon_nif_handle *handle,
                                 const tenon_nif_function *function, int32_t index)
{
    const tenon_signature *s = function->signature;
    const tenon_parameter *param = &s->params[index];
    char what[300];
    ERL_NIF_TERM not_local = handle ? 0 : tenon_nif_not_local(env, term, s->name, param->name, only_there);
    if (!handle)
        return not_local ? not_local : tenon_nif_wrong_kind(env, s, param, term);
    describe_handle(handle, function->library, what);
    return tenon_nif_error(env, enif_make_tuple2(env, tenon_nif_atoms.badarg, function->names[index]), s->name,
                           param->name, "%s(): argument '%s': expected %s, got %s", s->name, param->name, param->type,
                           what);
}

tenon_nif_handle *tenon_nif_handle_find(ErlNifEnv *env, const tenon_nif_function *function, int32_t index,
                                        ERL_NIF_TERM term, ERL_NIF_TERM *error)
{
    const tenon_signature *s = function->signature;
    const tenon_parameter *param = &s->params[index];
    bool is_class = param->flags & TENON_PARAMETER_CLASS;
    tenon_nif_handle *handle = is_class ? handle_of(env, term) : handle_of_reference(env, term);
    if (handle && is_of(handle, function->library, param->handle))
        return handle;
    *error = is_class ? not_an_object(env, term, handle, function->library, param->handle, s->name, param->name)
                      : not_a_handle(env, term, handle, function, index);
    return NULL;
}

/* The first parameter that was given this object. */
static int32_t parameter_of(ErlNifEnv *env, const tenon_signature *s, const ERL_NIF_TERM *given,
                            const tenon_nif_handle *handle)
{
    int32_t i = 0;
    while (i < s->nparams - 1 &&
           !((s->params[i].flags & TENON_PARAMETER_CLASS) && given[i] && handle_of(env, given[i]) == handle))
        i++;
    return i;
}

ERL_NIF_TERM tenon_nif_closed(ErlNifEnv *env, const tenon_nif_function *function, const ERL_NIF_TERM *given,
                              const tenon_nif_handle *handle)
{
    const tenon_signature *s = function->signature;
    int32_t index = parameter_of(env, s, given, handle);
    if (index > 0 || !s->has_self)
        return tenon_nif_error(env, tenon_nif_atoms.released, s->name, s->params[index].name,
                               "%s(): argument '%s': this %s is closed", s->name, s->params[index].name, handle->type);
    return tenon_nif_error(env, tenon_nif_atoms.released, s->name, NULL, "%s(): this %s is closed", s->name,
                           handle->type);
}

/* module, key, object, class -> :ok | :waiting | {:error, …} */
TENON_NIF(close)
{
    (void)argc;
    char class_name[TENON_NAME_SIZE], function[TENON_NAME_SIZE + 8];
    ErlNifBinary text;
    ErlNifUInt64 key;
    if (!enif_get_uint64(env, argv[1], &key) || !enif_inspect_binary(env, argv[3], &text) ||
        text.size >= sizeof class_name)
        return enif_make_badarg(env);
    memcpy(class_name, text.data, text.size);
    class_name[text.size] = '\0';
    const tenon_nif_library *library = tenon_nif_lookup_library(argv[0], key);
    if (!library)
        return enif_make_atom(env, "unbound");
    tenon_nif_handle *handle = handle_of(env, argv[2]);
    if (handle && is_of(handle, library, class_name))
        return close_handle(handle) ? tenon_nif_atoms.ok : tenon_nif_atoms.waiting;
    snprintf(function, sizeof function, "%s.close", class_name);
    return not_an_object(env, argv[2], handle, library, class_name, function, "self");
}

bool tenon_nif_handle_init(ErlNifEnv *env)
{
    ErlNifResourceFlags flags = ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER;
    handle_type = enif_open_resource_type(env, NULL, "tenon_handle_2", handle_destructor, flags, NULL);
    return handle_type != NULL;
}
