/* Memory that outlives a call: arguments that a function keeps, and results that are "own" or "of(...)". */
#include "library.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------- kept arguments */

/* The operand of tensor argument `index`, which was passed. The value may have another view: one that is broadcast. */
static const tenon_nif_operand *operand_of(const tenon_nif_frame *f, int32_t index)
{
    const tenon_nif_operand *operand = f->operands;
    for (int32_t i = 0; i < index; i++)
        operand += f->base.args[i].kind == TENON_KIND_TENSOR;
    return operand;
}

/* A share of tensor argument `index`: a tensor on a storage, one reference each. A binary that the runtime would move is
 * copied; storage->copied says so. False: no memory. */
static bool share_argument(tenon_nif_frame *f, int32_t index, tenon_tensor **tensor, tenon_nif_storage **storage)
{
    const tenon_nif_operand *o = operand_of(f, index);
    const ERL_NIF_TERM *parts;
    ERL_NIF_TERM ignored;
    int arity;
    if (!o->pinned)
        return enif_get_tuple(f->reader.env, f->given[index], &arity, &parts) &&
               tenon_nif_share_binary(f->reader.env, parts[0], &o->view, tensor, storage, &ignored);
    *tensor = tenon_tensor_retain(o->pinned->tensor);
    *storage = o->pinned->storage;
    tenon_nif_storage_keep(*storage);
    return true;
}

typedef struct kept {
    tenon_kept base; /* first */
    tenon_tensor *tensor;
    tenon_nif_storage *storage; /* one reference, and access as a reader */
} kept;

/* Any thread, at any time. */
static void release_kept(tenon_kept *base)
{
    kept *k = (kept *)(void *)base;
    tenon_nif_read_end(k->storage);
    tenon_tensor_release(k->tensor);
    tenon_nif_storage_release(k->storage);
    free(k);
}

tenon_kept *tenon_nif_keep_argument(tenon_frame *base, int32_t index)
{
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    const char *name = base->signature->params[index].name;
    kept *k = malloc(sizeof *k);
    if (!k || !share_argument(f, index, &k->tensor, &k->storage)) {
        free(k);
        tenon_fail(&base->call, TENON_ENOMEM, "no memory to keep argument '%s'", name);
        return NULL;
    }
    if (tenon_nif_read_begin(k->storage) != TENON_NIF_GRANTED) {
        tenon_tensor_release(k->tensor);
        tenon_nif_storage_release(k->storage);
        free(k);
        tenon_fail(
            &base->call, TENON_EINVAL,
            "cannot keep argument '%s': another argument of this call is written to and belongs to the same block "
            "of memory",
            name);
        return NULL;
    }
    k->base = (tenon_kept){.size = sizeof k->base, .view = tenon_tensor_view(k->tensor), .release = release_kept};
    return &k->base;
}

/* --------------------------------------------------------------------------------------------------- given results */

static bool no_memory(tenon_nif_frame *f)
{
    const char *name = f->function->signature->name;
    f->reader.error = tenon_nif_error(f->reader.env, tenon_nif_failed(f->reader.env, TENON_ENOMEM), name, NULL,
                                      "%s(): no memory for its results", name);
    return false;
}

/* A tensor in memory that has a storage of its own. `held` is a share of the object for of(self), otherwise NULL. */
static bool make_library_result(tenon_nif_frame *f, int32_t index, tenon_nif_held *held, ERL_NIF_TERM *out)
{
    tenon_tensor *tensor;
    if (tenon_frame_take_memory(&f->base, index, held, tenon_nif_held_release, &tensor, NULL)) {
        if (held)
            tenon_nif_held_release(held);
        return no_memory(f);
    }
    /* Memory of an object may change. "own" memory belongs to the tensor, and binaries may refer to it. */
    tenon_nif_origin origin = held ? TENON_NIF_FOREIGN : TENON_NIF_OURS;
    tenon_nif_storage *storage = tenon_nif_storage_alloc(tensor, origin, true, NULL, 0);
    if (!storage) {
        tenon_tensor_release(tensor);
        return no_memory(f);
    }
    if (held)
        storage->state = tenon_nif_held_access(held);
    else
        f->returned_bytes += (uint64_t)tenon_view_nbytes(tenon_tensor_view(tensor));
    *out = tenon_nif_make_tensor(f->reader.env, tenon_tensor_retain(tensor), storage);
    tenon_nif_storage_release(storage);
    return true;
}

static void release_tensor(void *owner)
{
    tenon_tensor_release(owner);
}

/* A copy of result `index`, which cannot be written to, as the binary that it shows. */
static bool copy_shown(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM *out)
{
    const tenon_view *view = f->base.results[index].as.view;
    tenon_tensor *tensor;
    if (tenon_nif_alloc(view->dtype, view->ndim, view->shape, 0, &tensor, NULL))
        return no_memory(f);
    tenon_nif_storage *storage = NULL;
    if (!tenon_copy(tenon_tensor_view(tensor), view, NULL) && tenon_nif_publish(f->reader.env, tensor))
        storage = tenon_nif_storage_alloc(tensor, TENON_NIF_OURS, false, NULL, 0);
    if (!storage) {
        tenon_tensor_release(tensor);
        return no_memory(f);
    }
    (void)tenon_nif_freeze(storage);
    storage->copied = true;
    *out = tenon_nif_make_tensor(f->reader.env, tenon_tensor_retain(tensor), storage);
    tenon_nif_storage_release(storage);
    return true;
}

/* A result "of(x)": another tensor on the storage of x. */
static bool make_shown(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM *out)
{
    int32_t owner = f->base.signature->results[index].owner;
    const tenon_nif_operand *o = operand_of(f, owner);
    tenon_tensor *argument, *tensor;
    tenon_nif_storage *storage;
    if (!share_argument(f, owner, &argument, &storage))
        return no_memory(f);
    bool done;
    if (!o->pinned && tenon_tensor_view(argument)->data != o->view.data) { /* the runtime moved the binary */
        tenon_tensor_release(argument);
        done = copy_shown(f, index, out);
    } else if (tenon_frame_take_memory(&f->base, index, argument, release_tensor, &tensor, NULL)) {
        tenon_tensor_release(argument);
        done = no_memory(f);
    } else {
        *out = tenon_nif_make_tensor(f->reader.env, tensor, storage);
        done = true;
    }
    tenon_nif_storage_release(storage);
    return done;
}

bool tenon_nif_library_result_term(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM *out)
{
    const tenon_signature *s = f->base.signature;
    const tenon_parameter *result = &s->results[index];
    if (result->flags & TENON_PARAMETER_OWN)
        return make_library_result(f, index, NULL, out);
    if (s->params[result->owner].spec)
        return make_shown(f, index, out);
    return make_library_result(f, index, tenon_nif_handle_share(f->self), out);
}
