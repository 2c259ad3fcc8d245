/* For tests of calls: values, a signature with its bindings, and the steps of the driver that match arguments and check the
 * shape of a result. */
#ifndef TENON_TESTS_SIGNATURE_CALL_H
#define TENON_TESTS_SIGNATURE_CALL_H

#include "check.h"

#define ARGS(...) ((tenon_value[]){__VA_ARGS__})
#define INT(n)    ((tenon_value){.kind = TENON_KIND_INT, .as.integer = (n)})
#define NONE      ((tenon_value){.kind = TENON_KIND_NONE})

static inline tenon_value tensor_value(const tenon_view *view)
{
    return (tenon_value){.kind = TENON_KIND_TENSOR, .as.view = view};
}

static inline const tenon_view *view_in(const tenon_value *value)
{
    return value->kind == TENON_KIND_TENSOR ? value->as.view : NULL;
}

typedef struct call {
    tenon_signature *signature;
    tenon_bindings bindings;
} call;

static inline tenon_signature *compiled(const char *text)
{
    tenon_signature *signature = NULL;
    OK(tenon_signature_alloc(text, NULL, TENON_HOST_LAYOUT, &signature, &err));
    return signature;
}

static const char *const object_words[] = {"numpy.ndarray", "torch.Tensor", "list", "bytes"};

/* ----------------------------------------------------------------------------------- single steps of the driver */

/* A host that keeps the error of a refusal. */
typedef struct step_frame {
    tenon_frame base;
    const char *const *objects;
    tenon_error refused;
    int refusals;
    tenon_value results[TENON_MAX_RESULTS];
    tenon_view view;
} step_frame;

static inline void step_refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *error)
{
    step_frame *f = (step_frame *)(void *)base;
    (void)why;
    (void)index;
    f->refused = *error;
    f->refusals++;
}

static inline const char *step_describe(tenon_frame *base, int32_t index)
{
    const step_frame *f = (const step_frame *)(const void *)base;
    return f->objects ? f->objects[index] : NULL;
}

static inline int step_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim,
                                   const int64_t *shape)
{
    step_frame *f = (step_frame *)(void *)base;
    (void)shape;
    f->view = (tenon_view){.dtype = dtype, .ndim = ndim, .device = tenon_device_of(TENON_CPU, 0)};
    tenon_frame_set_result(base, index, &f->view, 0);
    return 0;
}

static const tenon_client step_client = {
    .refuse = step_refuse, .describe = step_describe, .open_result = step_open_result};
static const tenon_host step_host = {TENON_HOST_SERVICES, .name = "steps"};

static inline void step_begin(step_frame *f, const tenon_signature *s, const tenon_value *args,
                              const char *const *objects)
{
    tenon_call constant;
    memset(f, 0xa5, sizeof *f); /* nothing may depend on the old contents */
    tenon_call_init(&constant, &step_host, NULL, NULL, s);
    f->base.args = (tenon_value *)(uintptr_t)args; /* the steps only read it */
    f->base.results = f->results;
    f->objects = objects;
    f->refusals = 0;
    tenon_frame_begin(&f->base, &step_client, &constant, s);
    for (int32_t i = 0; i < s->nresults; i++)
        tenon_frame_begin_result(&f->base, i);
}

/* The status of a step that may have refused the call, at most once. */
static inline tenon_status step_end(step_frame *f, bool refused, tenon_bindings *bindings, tenon_error *error)
{
    tenon_frame_end(&f->base);
    assert_int_equal(f->refusals, refused);
    *bindings = f->base.bindings;
    if (bindings->argument == f->base.bindings.label) /* of an item of a list */
        bindings->argument = bindings->label;
    if (refused && error)
        *error = f->refused;
    return refused ? f->refused.status : TENON_OK;
}

/* tenon_frame_match. `bindings` gets the values of the names, or the name of the argument that does not match. */
static inline tenon_status match(const tenon_signature *s, const tenon_value *args, const char *const *objects,
                                 tenon_bindings *bindings, tenon_error *error)
{
    step_frame f;
    step_begin(&f, s, args, objects);
    return step_end(&f, tenon_frame_match(&f.base) < 0, bindings, error);
}

/* tenon_frame_refuse_earlier: argument `count` cannot be read. */
static inline tenon_status match_before(const tenon_signature *s, int32_t count, const tenon_value *args,
                                        const char *const *objects, tenon_bindings *bindings, tenon_error *error)
{
    step_frame f;
    step_begin(&f, s, args, objects);
    return step_end(&f, tenon_frame_refuse_earlier(&f.base, count), bindings, error);
}

/* A running function allocates result `index`. `bindings` are from match. The driver adds no name to the message. */
static inline tenon_status open_result(const tenon_signature *s, int32_t index, const tenon_bindings *bindings,
                                       int32_t ndim, const int64_t *shape, tenon_dtype *dtype, tenon_error *error)
{
    step_frame f;
    step_begin(&f, s, NULL, NULL);
    f.base.bindings = *bindings;
    f.base.call.results = f.results;
    const tenon_view *view = f.base.call.host->result_alloc(&f.base.call, index, tenon_dtype_of(0, 0, 0), ndim, shape);
    if (view)
        *dtype = view->dtype;
    else
        tenon_frame_refuse_failure(&f.base, TENON_OK);
    tenon_bindings unused;
    return step_end(&f, !view, &unused, error);
}

/* ---------------------------------------------------------------------------------------------------- whole matches */

/* Expect the arguments to match. */
static inline void fits(call *c, const char *text, const tenon_value *args)
{
    c->signature = compiled(text);
    memset(&c->bindings, 0xa5, sizeof c->bindings); /* nothing may depend on the old contents */
    OK(match(c->signature, args, object_words, &c->bindings, &err));
}

static inline void done(call *c)
{
    tenon_signature_release(c->signature);
}

/* Expect a mismatch, with and without a tenon_error. */
static inline void misfit(const char *text, const tenon_value *args, tenon_status status, const char *message)
{
    call c = {.signature = compiled(text)};
    FAILS_SAYING(status, message, match(c.signature, args, object_words, &c.bindings, &err));
    assert_int_equal(match(c.signature, args, object_words, &c.bindings, NULL), status);
    char told[TENON_NAME_SIZE + 16];
    assert_non_null(c.bindings.argument);
    snprintf(told, sizeof told, "argument '%s'", c.bindings.argument);
    assert_non_null(strstr(err.message, told));
    done(&c);
}

#endif
