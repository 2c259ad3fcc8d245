/* Assertions on statuses, messages and views, for all unit tests. */
#ifndef TENON_TESTS_CHECK_H
#define TENON_TESTS_CHECK_H

#include <tenon/tenon.h> /* before cmocka.h, which makes a macro of the word "fail" */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every test passes &err. */
static tenon_error err;

static inline void check_ok(tenon_status status, const char *call, const char *file, int line)
{
    if (status == TENON_OK)
        return;
    print_error("%s gave %s: %s\n", call, tenon_status_name(status), err.message);
    _fail(file, line);
}

/* Expect a failure with this status, both returned and stored, and this message; NULL accepts any message. */
static inline void check_fails(tenon_status status, tenon_status wanted, const char *message, const char *call,
                               const char *file, int line)
{
    bool as_wanted = status == wanted && err.status == wanted && err.message[0];
    if (as_wanted && (!message || strcmp(message, err.message) == 0))
        return;
    print_error("%s gave %s: %s\n", call, tenon_status_name(status), err.message);
    print_error("wanted %s: %s\n", tenon_status_name(wanted), message ? message : "(any message)");
    _fail(file, line);
}

/* Clear the last failure, so that no later assertion can see it. */
static inline void check_forget(void)
{
    err.status = -1;
    strcpy(err.message, "nothing was written");
}

#define OK(call)            (check_forget(), check_ok((call), #call, __FILE__, __LINE__))
#define FAILS(wanted, call) FAILS_SAYING(wanted, NULL, call)
#define FAILS_SAYING(wanted, message, call)                                                                            \
    (check_forget(), check_fails((call), (wanted), (message), #call, __FILE__, __LINE__))

/* The values of a shape, strides or axes. */
#define DIMS(...) ((int64_t[]){__VA_ARGS__})
#define AXES(...) ((int32_t[]){__VA_ARGS__})

/* A view with storage for its dims. Do not copy it: the view points into it. */
typedef struct roomy_view {
    tenon_view view;
    int64_t dims[2 * TENON_MAX_NDIM];
} roomy_view;

static inline tenon_dl_tensor source_of(void *data, tenon_dtype dtype, int32_t ndim, int64_t *shape, int64_t *strides)
{
    tenon_dl_tensor source = {
        .data = data,
        .device = {TENON_CPU, 0},
        .ndim = ndim,
        .dtype = dtype,
        .shape = shape,
        .strides = strides,
    };
    return source;
}

/* Create a view, which must be valid. */
static inline const tenon_view *view_on(roomy_view *room, int device, void *data, tenon_dtype dtype, int32_t ndim,
                                        int64_t *shape, int64_t *strides, uint64_t flags)
{
    tenon_dl_tensor source = source_of(data, dtype, ndim, shape, strides);
    source.device.device_type = device;
    OK(tenon_view_init(&room->view, &source, flags, room->dims, &err));
    return &room->view;
}

static inline const tenon_view *view_of(roomy_view *room, void *data, tenon_dtype dtype, int32_t ndim, int64_t *shape,
                                        int64_t *strides)
{
    return view_on(room, TENON_CPU, data, dtype, ndim, shape, strides, 0);
}

static inline void check_dims(const tenon_view *view, int32_t ndim, const int64_t *shape, const int64_t *strides,
                              const char *file, int line)
{
    _assert_int_equal((LargestIntegralType)view->ndim, (LargestIntegralType)ndim, file, line);
    for (int32_t i = 0; i < ndim; i++) {
        if (view->shape[i] == shape[i] && view->strides[i] == strides[i])
            continue;
        print_error("dimension %d: size %" PRId64 " and stride %" PRId64 ", wanted %" PRId64 " and %" PRId64 "\n", i,
                    view->shape[i], view->strides[i], shape[i], strides[i]);
        _fail(file, line);
    }
}

#define assert_dims(view, ndim, shape, strides) check_dims(view, ndim, shape, strides, __FILE__, __LINE__)

/* Parse a spec, which must be valid. */
static inline tenon_spec parsed(const char *text, tenon_names *names)
{
    tenon_spec spec;
    OK(tenon_spec_parse(text, names, &spec, &err));
    return spec;
}

/* The layout flags of a view as a string of C, F and D (dense). */
static inline const char *orders_of(const tenon_view *view)
{
    static const char *const names[] = {"", "C", "F", "CF", "D", "CD", "FD", "CFD"};
    return names[(view->flags & TENON_VIEW_C ? 1 : 0) | (view->flags & TENON_VIEW_F ? 2 : 0) |
                 (view->flags & TENON_VIEW_DENSE ? 4 : 0)];
}

/* The blocks of memory that Tenon has allocated and not freed. A program in which some are left fails at its end, unless it
 * defines CHECK_KEEPS_BLOCKS. */
static _Atomic int64_t check_blocks;

static inline void *check_alloc(void *context, size_t size, bool zeroed)
{
    (void)context;
    void *memory = zeroed ? calloc(1, size) : malloc(size);
    check_blocks += memory != NULL;
    return memory;
}

static inline void check_free(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    check_blocks -= memory != NULL;
    free(memory);
}

__attribute__((constructor)) static void check_begin(void)
{
    const tenon_allocator check_allocator = {check_alloc, check_free, NULL};
    OK(tenon_set_allocator(&check_allocator, &err));
}

#ifndef CHECK_KEEPS_BLOCKS
__attribute__((destructor)) static void check_end(void)
{
    if (check_blocks) {
        fprintf(stderr, "blocks of memory that were not freed: %lld\n", (long long)check_blocks);
        _Exit(1);
    }
}
#endif

/* The last test of every program. It is not a group teardown, because cmocka ignores failures there. */
static inline void test_nothing_is_alive(void **state)
{
    (void)state;
    tenon_stats counts = tenon_stats_read();
    assert_int_equal(counts.tensors, 0);
    assert_int_equal(counts.exports, 0);
    assert_int_equal(counts.bytes, 0);
    assert_int_equal(counts.deferred, 0);
}

#endif
