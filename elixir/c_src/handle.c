/* Handles: the objects that functions return. */
#include "library.h"

#include <stdlib.h>
#include <string.h>

/* Outlives the resource, because the reaper destroys the object, which may take long. */
typedef struct held {
    tenon_deferred_node node;
    void *object;
    void (*destroy)(void *);
} held;

struct tenon_nif_handle {
    const tenon_nif_opened *code;
    const char *type; /* the name in the signature */
    held *held;
};

static ErlNifResourceType *handle_type;

static void destroy_held(void *owner)
{
    held *h = owner;
    h->destroy(h->object);
    free(h);
}

static void handle_destructor(ErlNifEnv *env, void *object)
{
    (void)env;
    tenon_nif_handle *handle = object;
    if (!handle->held)
        return;
    if (handle->held->destroy)
        tenon_nif_reap(&handle->held->node, destroy_held, handle->held);
    else
        free(handle->held);
}

tenon_nif_handle *tenon_nif_handle_new(const tenon_nif_library *library, const char *type, void *object,
                                       void (*destroy)(void *))
{
    held *h = malloc(sizeof *h);
    tenon_nif_handle *handle = h ? enif_alloc_resource(handle_type, sizeof *handle) : NULL;
    if (!handle) {
        free(h);
        return NULL;
    }
    h->object = object;
    h->destroy = destroy;
    handle->code = library->opened;
    handle->type = type;
    handle->held = h;
    return handle;
}

void *tenon_nif_handle_object(ErlNifEnv *env, const tenon_nif_function *function, int32_t index, ERL_NIF_TERM term,
                              ERL_NIF_TERM *error)
{
    const tenon_signature *s = function->signature;
    const tenon_parameter *param = &s->params[index];
    void *object;
    if (!enif_get_resource(env, term, handle_type, &object)) {
        *error = tenon_nif_not_local(env, term, s->name, param->name);
        if (!*error)
            *error = tenon_nif_wrong_kind(env, function, index, term);
        return NULL;
    }
    const tenon_nif_handle *handle = object;
    bool same = handle->code == function->library->opened;
    if (same && strcmp(handle->type, param->handle) == 0)
        return handle->held->object;
    ERL_NIF_TERM reason = enif_make_tuple2(env, tenon_nif_atoms.badarg, function->names[index]);
    *error = tenon_nif_error(
        env, reason, s->name, param->name, "%s(): argument '%s': expected %s, got a handle '%s' of %s%s", s->name,
        param->name, param->type, handle->type, handle->code->module->name, same ? "" : ", which is another library");
    return NULL;
}

bool tenon_nif_handle_init(ErlNifEnv *env)
{
    ErlNifResourceFlags flags = ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER;
    handle_type = enif_open_resource_type(env, NULL, "tenon_handle_1", handle_destructor, flags, NULL);
    return handle_type != NULL;
}
