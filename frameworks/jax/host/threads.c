/* The threads of XLA, for parallel loops of functions. */
#include "frame.h"

int tenon__jax_thread_count(tenon_frame *base)
{
    const jax_frame *f = jax_frame_of(base);
    const xla_api *api = f->xla->api;
    int64_t count = 0;
    xla_thread_count query = {.size = XLA_END(xla_thread_count, count), .context = f->xla->context, .count = &count};
    if (!api || !XLA_HAS(api, xla_api, count_threads))
        return 0;
    jax_drop_error(api, api->count_threads(&query)); /* programs on a GPU may have none */
    return count > 0 && count < INT32_MAX ? (int)count : 0;
}

int tenon__jax_schedule(tenon_frame *base, void (*task)(void *data), void *data)
{
    const jax_frame *f = jax_frame_of(base);
    const xla_api *api = f->xla->api;
    xla_task_schedule wanted = {
        .size = XLA_END(xla_task_schedule, data), .context = f->xla->context, .task = task, .data = data};
    xla_error *failed = api->schedule(&wanted);
    jax_drop_error(api, failed);
    return failed ? -1 : 0;
}
