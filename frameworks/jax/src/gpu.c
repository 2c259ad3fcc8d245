/* A call on a GPU: its device, its stream, and scratch memory. */
#include "frame.h"

static void jax_drop_error(const xla_api *api, xla_error *error)
{
    if (error && XLA_HAS(api, xla_api, destroy_error))
        api->destroy_error(&(xla_error_destroy){.size = XLA_END(xla_error_destroy, error), .error = error});
}

/* The device and the stream of the call. XLA of JAX 0.6 and newer tells the device; in older ones it is
 * device 0. */
int tenon__jax_meet_gpu(jax_frame *f)
{
    const tenon_signature *s = f->base.signature;
    const xla_api *api = f->xla->api;
    xla_stream_get stream = {.size = XLA_END(xla_stream_get, stream), .context = f->xla->context};
    xla_ordinal_get ordinal = {.size = XLA_END(xla_ordinal_get, ordinal), .context = f->xla->context};
    for (int32_t i = 0; i < s->nresults; i++) {
        if (s->results[i].kind != TENON_KIND_TENSOR) {
            tenon_error_set_in(f->err, TENON_EDEVICE, s->name,
                               "result %d is a number, which cannot be stored in the memory of a GPU", (int)i);
            return -1;
        }
    }
    xla_error *failed = api && XLA_HAS(api, xla_api, get_stream) ? api->get_stream(&stream) : NULL;
    if (!api || failed || !XLA_HAS(api, xla_api, get_stream)) {
        jax_drop_error(api, failed);
        tenon_error_set_in(f->err, TENON_EFAILED, s->name, "XLA did not tell its stream");
        return -1;
    }
    if (XLA_HAS(api, xla_api, get_ordinal))
        jax_drop_error(api, api->get_ordinal(&ordinal));
    f->base.call.device = tenon_device_of(TENON_CUDA, ordinal.ordinal);
    f->base.call.stream = stream.stream;
    return 0;
}

void *tenon__jax_device_scratch(tenon__frame *base, size_t bytes, tenon_device device)
{
    jax_frame *f = jax_frame_of(base);
    const xla_api *api = f->xla->api;
    jax_scratch *scratch = tenon_block_alloc(&base->blocks, sizeof *scratch, 0);
    xla_memory_allocate wanted = {.size = XLA_END(xla_memory_allocate, data),
                                  .context = f->xla->context,
                                  .bytes = bytes ? bytes : 1,
                                  .alignment = 16};
    if (!scratch || !f->on_gpu || !XLA_HAS(api, xla_api, free) || !tenon_device_equal(device, base->call.device)) {
        tenon_fail(&base->call, TENON_EFAILED, "there is scratch memory on the device of the call only");
        return NULL;
    }
    if (base->call.function->flags & TENON_CAPTURABLE) { /* XLA would have freed the memory when the graph runs */
        tenon_fail(&base->call, TENON_EFAILED,
                   "a function with TENON_CAPTURABLE cannot use scratch memory on a GPU; pass "
                   "the memory as an argument, or remove the flag");
        return NULL;
    }
    xla_error *failed = api->allocate(&wanted);
    if (failed || !wanted.data) {
        jax_drop_error(api, failed);
        tenon_fail(&base->call, TENON_ENOMEM, "XLA cannot allocate %zu bytes of scratch memory", bytes);
        return NULL;
    }
    *scratch = (jax_scratch){.next = f->scratch, .data = wanted.data, .bytes = wanted.bytes};
    f->scratch = scratch;
    return wanted.data;
}

void tenon__jax_free_scratch(const jax_frame *f)
{
    const xla_api *api = f->xla->api;
    for (const jax_scratch *scratch = f->scratch; scratch; scratch = scratch->next) {
        xla_memory_free unwanted = {.size = XLA_END(xla_memory_free, data),
                                    .context = f->xla->context,
                                    .bytes = scratch->bytes,
                                    .data = scratch->data};
        jax_drop_error(api, api->free(&unwanted));
    }
}
