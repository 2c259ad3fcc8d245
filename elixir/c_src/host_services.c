/* The client's side of a function that runs: what the host does for it, and its `load`. */
#include "library.h"

#include <string.h>

bool tenon_nif_alloc_result(tenon_frame *base, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                            tenon_tensor **out)
{
    tenon_error err;
    *out = NULL;
    if (!tenon_device_on_host(base->call.device))
        tenon_fail(&base->call, TENON_EDEVICE, "this host makes results on the CPU only");
    else if (tenon_nif_alloc(dtype, ndim, shape, 0, out, &err))
        tenon_fail(&base->call, err.status, "%s", tenon_error_reason(&err));
    else
        return true;
    return false;
}

int tenon_nif_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    if (!tenon_nif_alloc_result(base, dtype, ndim, shape, &f->made[index]))
        return -1;
    f->views[index] = *tenon_tensor_view(f->made[index]);
    tenon_frame_set_result(base, index, &f->views[index], TENON_VIEW_WRITTEN | TENON_VIEW_FRESH);
    return 0;
}

int tenon_nif_take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *))
{
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    f->handles[index] = tenon_nif_handle_new(f->function->library, &base->signature->results[index], object, destroy);
    if (f->handles[index])
        return 0;
    tenon_fail(&base->call, TENON_ENOMEM, "no memory for a handle");
    return -1;
}

/* The binary is made at once, so that the bytes are copied once. Its term is in the value of the result. */
int tenon_nif_take_bytes(tenon_frame *base, int32_t index, const void *data, size_t length)
{
    ERL_NIF_TERM term;
    unsigned char *bytes = enif_make_new_binary(tenon_nif_frame_of(base)->reader.env, length, &term);
    if (!bytes && length) {
        tenon_fail(&base->call, TENON_ENOMEM, "no memory for %zu bytes", length);
        return -1;
    }
    if (length)
        memcpy(bytes, data, length);
    base->results[index].as.integer = (int64_t)term;
    return 0;
}

bool tenon_nif_is_checked(void)
{
    static _Atomic int known; /* 0: not yet; 1: off; 2: on */
    int state = atomic_load_explicit(&known, memory_order_relaxed);
    if (!state) {
        state = tenon_frame_check_wanted() ? 2 : 1;
        atomic_store_explicit(&known, state, memory_order_relaxed);
    }
    return state == 2;
}

const tenon_host tenon_nif_host = {TENON_HOST_SERVICES, .name = "elixir"};

/* ------------------------------------------------------------------------------------------------------------ load */

/* A call of `load`: it has no arguments and no results. */
typedef struct load_frame {
    tenon_frame base;
    tenon_error *err;
} load_frame;

static void refuse_load(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err)
{
    (void)why;
    (void)index;
    tenon_error *out = ((load_frame *)(void *)base)->err;
    tenon_error_set_in(out, err->status, "load", "%s", err->message);
    tenon_nif_mend_utf8(out->message, strlen(out->message));
}

bool tenon_nif_call_load(tenon_nif_opened *code, tenon_error *err)
{
    static const tenon_client client = {.refuse = refuse_load};
    load_frame f = {.err = err};
    return tenon_frame_load(&f.base, &client, &tenon_nif_host, code->module, &code->state) == 0;
}
