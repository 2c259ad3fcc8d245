/* For tests of the driver: a host that only records what the driver does. */
#ifndef TENON_TESTS_DRIVER_H
#define TENON_TESTS_DRIVER_H

#include "class_module.h"
#include "signature_call.h"

static float memory[64];

typedef struct host_frame {
    tenon_frame base;
    tenon_refusal why;
    int32_t index;
    int refusals;
    tenon_error refused;
    int made, runs, shapes;
    tenon_device made_on;
    roomy_view views[4];
    tenon_value args[TENON_MAX_PARAMETERS];
    tenon_value results[TENON_MAX_RESULTS];
} host_frame;

static inline host_frame *frame_of(tenon_frame *base)
{
    return (host_frame *)(void *)base;
}

static void refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *error)
{
    host_frame *f = frame_of(base);
    f->why = why;
    f->index = index;
    f->refused = *error;
    f->refusals++;
}

static const char *describe(tenon_frame *base, int32_t index)
{
    (void)base;
    return object_words[index];
}

static int make_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    host_frame *f = frame_of(base);
    tenon_dl_tensor source = {.data = memory, .dtype = dtype, .ndim = ndim, .device = f->made_on};
    source.shape = (int64_t *)(uintptr_t)shape;
    roomy_view *room = &f->views[f->made++];
    OK(tenon_view_init(&room->view, &source, 0, room->dims, &err));
    tenon_frame_set_result(base, index, &room->view, TENON_VIEW_WRITTEN);
    return 0;
}

static int take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *))
{
    (void)base;
    (void)index;
    destroy(object);
    return 0;
}

static tenon_status run(tenon_frame *base)
{
    frame_of(base)->runs++;
    return base->call.function->call(&base->call);
}

/* A share that counts. */
typedef struct counted_share {
    tenon_kept kept;
    int releases;
} counted_share;

static counted_share shares[4];
static int nshares;

static void release_share(tenon_kept *kept)
{
    ((counted_share *)(void *)kept)->releases++;
}

static tenon_kept *keep_argument(tenon_frame *base, int32_t index)
{
    if (nshares == 4) /* an error of the host's own */
        return NULL;
    counted_share *share = &shares[nshares++];
    *share = (counted_share){.kept = {.size = sizeof(tenon_kept), .release = release_share}};
    share->kept.view = base->args[index].as.view;
    return &share->kept;
}

static char warned[256]; /* "" without a warning */
static int warn_status;

static int warn(tenon_frame *base, int32_t index, const char *message)
{
    (void)base;
    snprintf(warned, sizeof warned, "%d: %s", (int)index, message);
    return warn_status;
}

static const tenon_client client = {.refuse = refuse,
                                    .describe = describe,
                                    .make_result = make_result,
                                    .open_result = make_result,
                                    .take_handle = take_handle,
                                    .run = run,
                                    .keep_argument = keep_argument,
                                    .takes_memory = true,
                                    .warn = warn};
static const tenon_host host = {TENON_HOST_SERVICES, .name = "test"};

/* -------------------------------------------------------------------------------------------------------- functions */

static tenon_status (*code)(tenon_call *running);

static inline tenon_status call_code(tenon_call *running)
{
    return code(running);
}

static inline tenon_status count_shapes(tenon_call *running)
{
    host_frame *f = frame_of(running->host_private);
    f->shapes++;
    assert_true(running->flags & TENON_CALL_SHAPE_ONLY);
    return TENON_OK;
}

static inline tenon_status succeed(tenon_call *running)
{
    (void)running;
    return TENON_OK;
}

static const tenon_function function = {.call = call_code, .shape = count_shapes};

/* A frame of a call of `text`, which ends with end(). */
static inline void begin(host_frame *f, const char *text)
{
    static tenon_call constant;
    memset(f, 0xa5, sizeof *f); /* nothing may rely on what was there */
    tenon_signature *signature = NULL;
    tenon_module module = class_module();
    OK(tenon_signature_alloc(text, &module, TENON_HOST_LAYOUT, &signature, &err));
    tenon_call_init(&constant, &host, &function, memory, signature);
    f->base.args = f->args;
    f->base.results = f->results;
    tenon_frame_begin(&f->base, &client, &constant, signature);
    for (int32_t i = 0; i < signature->nresults; i++)
        tenon_frame_begin_result(&f->base, i);
    f->refusals = f->made = f->runs = f->shapes = 0;
    f->made_on = tenon_device_of(TENON_CPU, 0);
    code = succeed;
    nshares = warn_status = 0;
    warned[0] = '\0';
}

static inline void end(host_frame *f)
{
    tenon_frame_end(&f->base);
    tenon_signature_release((tenon_signature *)(uintptr_t)f->base.signature);
}

static inline void refused(const host_frame *f, tenon_refusal why, int32_t index, tenon_status status,
                           const char *message)
{
    assert_int_equal(f->refusals, 1);
    assert_int_equal(f->why, why);
    assert_int_equal(f->index, index);
    assert_int_equal(f->refused.status, status);
    assert_string_equal(f->refused.message, message);
}

/* f32[n] as argument `index`. */
static inline void take(host_frame *f, int32_t index, int64_t n, tenon_device device)
{
    static roomy_view rooms[4];
    tenon_dl_tensor source = {.data = memory, .dtype = TENON_F32, .ndim = 1, .device = device, .shape = &n};
    OK(tenon_view_init(&rooms[index].view, &source, 0, rooms[index].dims, &err));
    tenon_frame_set_view(&f->base, index, &rooms[index].view);
}

static inline tenon_device cpu(void)
{
    return tenon_device_of(TENON_CPU, 0);
}

static inline tenon_device cuda(int32_t id)
{
    return tenon_device_of(TENON_CUDA, id);
}

#endif
