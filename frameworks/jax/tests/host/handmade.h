/* Calls of the handler that are made by hand: what XLA brings, and its frames. */
#ifndef TENON_TESTS_HANDMADE_H
#define TENON_TESTS_HANDMADE_H

#include "internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------------------------------------------- XLA */

static struct {
    int32_t code;
    char message[1100];
    int created, destroyed, allocated, freed;
    bool fails; /* the services of a GPU do */
} xla;

static inline xla_error *create_error(xla_error_create *args)
{
    assert_true(args->size >= XLA_END(xla_error_create, code));
    xla.code = args->code;
    snprintf(xla.message, sizeof xla.message, "%s", args->message);
    xla.created++;
    return (xla_error *)(void *)&xla;
}

static inline void destroy_error(xla_error_destroy *args)
{
    assert_ptr_equal(args->error, &xla);
    xla.destroyed++;
}

static inline xla_error *service_error(void)
{
    return xla.fails ? (xla_error *)(void *)&xla : NULL;
}

static inline xla_error *get_stream(xla_stream_get *args)
{
    args->stream = &xla.code;
    return service_error();
}

static inline xla_error *get_ordinal(xla_ordinal_get *args)
{
    args->ordinal = 3;
    return NULL;
}

static inline xla_error *allocate(xla_memory_allocate *args)
{
    args->data = xla.fails ? NULL : malloc(args->bytes);
    xla.allocated++;
    return service_error();
}

static inline xla_error *free_memory(xla_memory_free *args)
{
    free(args->data);
    xla.freed++;
    return NULL;
}

static const xla_api full_api = {.size = sizeof full_api,
                                 .version = {.size = sizeof(xla_version), .minor = 4},
                                 .create_error = create_error,
                                 .destroy_error = destroy_error,
                                 .get_stream = get_stream,
                                 .allocate = allocate,
                                 .free = free_memory,
                                 .get_ordinal = get_ordinal};

/* ------------------------------------------------------------------------------------------------- functions */

static const char digits[] = "0123456789abcdef0123456789abcdef";
static int library;

static inline void add(const char *signature, tenon_call_fn function, uint64_t flags)
{
    tenon_function entry = {.signature = signature, .call = function, .flags = flags};
    char name[64];
    tenon_error err;
    bool added;
    snprintf(name, sizeof name, "test.%.*s", (int)strcspn(signature, "("), signature);
    assert_int_equal(tenon__jax_register(name, digits, &entry, NULL, &library, &added, &err), TENON_OK);
}

/* ----------------------------------------------------------------------------------------------------------- frames */

enum { MOST = 8 };

typedef struct xla_call {
    xla_frame frame;
    xla_buffer operands[MOST], results[MOST];
    void *operand_items[MOST], *result_items[MOST], *attribute_items[MOST];
    int32_t operand_types[MOST], result_types[MOST], attribute_types[MOST];
    xla_span names[MOST], strings[MOST];
    xla_span *name_items[MOST];
    xla_scalar scalars[MOST];
    xla_array arrays[MOST];
} xla_call;

static inline void add_attribute(xla_call *c, const char *name, int32_t type, void *item)
{
    int64_t at = c->frame.attributes.count++;
    c->names[at] = (xla_span){name, strlen(name)};
    c->name_items[at] = &c->names[at];
    c->attribute_types[at] = type;
    c->attribute_items[at] = item;
}

static inline void add_string(xla_call *c, const char *name, const char *text)
{
    xla_span *string = &c->strings[c->frame.attributes.count];
    *string = (xla_span){text, strlen(text)};
    add_attribute(c, name, xla_attr_string, string);
}

static inline void add_scalar(xla_call *c, const char *name, int32_t dtype, void *value)
{
    xla_scalar *scalar = &c->scalars[c->frame.attributes.count];
    *scalar = (xla_scalar){dtype, value};
    add_attribute(c, name, xla_attr_scalar, scalar);
}

static inline void add_array(xla_call *c, const char *name, int32_t dtype, size_t length, void *data)
{
    xla_array *array = &c->arrays[c->frame.attributes.count];
    *array = (xla_array){dtype, length, data};
    add_attribute(c, name, xla_attr_array, array);
}

static inline xla_buffer *add_buffer(xla_buffers *all, xla_buffer *buffers, int32_t dtype, void *data, int64_t rank,
                                     int64_t *dims)
{
    int64_t at = all->count++;
    buffers[at] = (xla_buffer){.size = sizeof *buffers, .dtype = dtype, .data = data, .rank = rank, .dims = dims};
    all->types[at] = xla_argument_buffer;
    all->items[at] = &buffers[at];
    return &buffers[at];
}

static inline xla_buffer *add_operand(xla_call *c, int32_t dtype, void *data, int64_t rank, int64_t *dims)
{
    return add_buffer(&c->frame.arguments, c->operands, dtype, data, rank, dims);
}

static inline xla_buffer *add_result(xla_call *c, int32_t dtype, void *data, int64_t rank, int64_t *dims)
{
    return add_buffer(&c->frame.results, c->results, dtype, data, rank, dims);
}

static inline xla_call *begin(xla_call *c, const char *args, const char *fn)
{
    memset(c, 0, sizeof *c);
    c->frame = (xla_frame){
        .size = sizeof c->frame,
        .api = &full_api,
        .stage = xla_stage_execute,
        .arguments = {.size = sizeof(xla_buffers), .types = c->operand_types, .items = c->operand_items},
        .results = {.size = sizeof(xla_buffers), .types = c->result_types, .items = c->result_items},
        .attributes = {.size = sizeof(xla_attributes),
                       .types = c->attribute_types,
                       .names = c->name_items,
                       .items = c->attribute_items},
    };
    add_string(c, "args", args);
    add_string(c, "fn", fn);
    add_string(c, "hash", digits);
    return c;
}

#endif
