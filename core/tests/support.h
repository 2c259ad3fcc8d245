/* For tests of ownership: owners that count their releases, and an allocator that counts and can fail. */
#ifndef TENON_TESTS_SUPPORT_H
#define TENON_TESTS_SUPPORT_H

#include <tenon/tenon.h> /* before cmocka.h, which makes a macro of the word "fail" */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---------------------------------------------------------------------------------------------------------- owners */

typedef struct owner {
    int released;
    float data[24];
} owner;

static inline void owner_release(void *pointer)
{
    ((owner *)pointer)->released++;
}

/* A blob f32[2, 3, 4] of the owner's data. */
static inline tenon_status owner_tensor(owner *o, uint64_t flags, tenon_tensor **out, tenon_error *err)
{
    static const int64_t shape[] = {2, 3, 4};
    tenon_blob blob = {.data = o->data,
                       .dtype = TENON_F32,
                       .ndim = 3,
                       .shape = shape,
                       .flags = flags,
                       .owner = o,
                       .release = owner_release};
    return tenon_tensor_from_blob(&blob, out, err);
}

/* -------------------------------------------------------------------------------------------------------- producers */

/* A DLPack producer with its own storage. It counts how often its structs are deleted. */
typedef struct producer {
    int deleted;
    float data[6];
    int64_t shape[2];
    int64_t strides[2];
    tenon_dl_managed managed;
    tenon_dl_managed_legacy legacy;
} producer;

static inline void producer_delete(tenon_dl_managed *self)
{
    ((producer *)self->manager_ctx)->deleted++;
}

static inline void producer_delete_legacy(tenon_dl_managed_legacy *self)
{
    ((producer *)self->manager_ctx)->deleted++;
}

static inline void producer_init(producer *p)
{
    memset(p, 0, sizeof *p);
    p->shape[0] = 2;
    p->shape[1] = 3;
    p->strides[0] = 3;
    p->strides[1] = 1;
    p->legacy.dl_tensor = (tenon_dl_tensor){.data = p->data,
                                            .device = tenon_device_of(TENON_CPU, 0),
                                            .ndim = 2,
                                            .dtype = TENON_F32,
                                            .shape = p->shape,
                                            .strides = p->strides};
    p->legacy.manager_ctx = p;
    p->legacy.deleter = producer_delete_legacy;
    p->managed.version = (tenon_dl_version){TENON_DL_MAJOR, TENON_DL_MINOR};
    p->managed.manager_ctx = p;
    p->managed.deleter = producer_delete;
    p->managed.dl_tensor = p->legacy.dl_tensor;
}

/* -------------------------------------------------------------------------------------------------------- allocator */

typedef struct counting {
    int64_t live; /* blocks */
    int64_t made;
    int64_t fail_at; /* the allocation that fails, counted from 1; 0: none */
} counting;

static inline void *counting_alloc(void *context, size_t size, bool zeroed)
{
    counting *c = context;
    if (++c->made == c->fail_at)
        return NULL;
    c->live++;
    void *memory = zeroed ? calloc(1, size) : malloc(size);
    if (!zeroed)
        memset(memory, 0xa5, size); /* nothing may rely on zeros */
    return memory;
}

static inline void counting_free(void *context, void *memory, size_t size)
{
    counting *c = context;
    c->live--;
    memset(memory, 0x5a, size);
    free(memory);
}

static inline void counting_use(counting *c)
{
    memset(c, 0, sizeof *c);
    tenon_allocator allocator = {counting_alloc, counting_free, c};
    assert_int_equal(tenon_set_allocator(&allocator, NULL), TENON_OK);
}

static inline void counting_end(counting *c)
{
    assert_int_equal(tenon_set_allocator(NULL, NULL), TENON_OK);
    assert_int_equal(c->live, 0);
}

/* ----------------------------------------------------------------------------------------------------------- checks */

/* Check at the end of a test that nothing is alive; cmocka ignores failures in a group teardown. */
static inline int nothing_alive(void **state)
{
    (void)state;
    tenon_stats counts = tenon_stats_read();
    return counts.tensors || counts.exports || counts.bytes || counts.deferred;
}

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        tenon_error assert_error = {0};                                                                                \
        tenon_error *err = &assert_error;                                                                              \
        if ((call) != TENON_OK)                                                                                        \
            fail_msg("%s", assert_error.message);                                                                      \
    } while (0)

/* Expect the call to fail with this status and a message that contains the text. The call must pass `err`. */
#define assert_fails(expected, text, call)                                                                             \
    do {                                                                                                               \
        tenon_error assert_error = {0};                                                                                \
        tenon_error *err = &assert_error;                                                                              \
        assert_int_equal((call), (expected));                                                                          \
        assert_int_equal(assert_error.status, (expected));                                                             \
        if (!strstr(assert_error.message, text))                                                                       \
            fail_msg("\"%s\" is not in \"%s\"", text, assert_error.message);                                           \
        err = NULL;                                                                                                    \
        assert_int_equal((call), (expected));                                                                          \
    } while (0)

#endif
