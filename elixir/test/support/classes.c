/* Classes and memory that outlives a call, for the tests of Tenon.Library. */
#include <tenon/function.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic int64_t made, destroyed, given, released, resting;

static void rest(int64_t milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* made, destroyed, given, released */
static tenon_status counts(tenon_call *call)
{
    tenon_return_int(call, 0, made);
    tenon_return_int(call, 1, destroyed);
    tenon_return_int(call, 2, given);
    tenon_return_int(call, 3, released);
    return TENON_OK;
}

static tenon_status count_resting(tenon_call *call)
{
    tenon_return_int(call, 0, resting);
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------------------------- counters */

typedef struct counter {
    int64_t value;      /* not atomic: calls on one object run one after the other */
    _Atomic int inside; /* calls at the moment */
    _Atomic int most;   /* the most so far */
} counter;

static void counter_free(void *object)
{
    counter *c = object;
    if (c->inside)
        abort();
    memset(c, 0xdd, sizeof *c);
    free(c);
    destroyed++;
}

static tenon_status counter_return(tenon_call *call, int64_t value)
{
    counter *c = calloc(1, sizeof *c);
    if (!c)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    c->value = value;
    made++;
    tenon_status status = tenon_return_handle(call, 0, c, counter_free);
    if (status)
        counter_free(c);
    return status;
}

static tenon_status counter_new(tenon_call *call)
{
    int64_t start = tenon_arg_int(call, 0);
    return start < 0 ? tenon_fail(call, TENON_EINVAL, "start is negative") : counter_return(call, start);
}

static void enter(counter *c)
{
    int now = ++c->inside;
    if (now > c->most)
        c->most = now;
}

static tenon_status counter_next(tenon_call *call)
{
    counter *c = tenon_arg_handle(call, 0);
    enter(c);
    int64_t value = c->value;
    for (volatile int i = 0; i < 1000; i++)
        ;
    c->value = value + 1;
    c->inside--;
    tenon_return_int(call, 0, value);
    return TENON_OK;
}

static tenon_status counter_rest(tenon_call *call)
{
    counter *c = tenon_arg_handle(call, 0);
    enter(c);
    resting++;
    rest(tenon_arg_int(call, 1));
    resting--;
    c->inside--;
    tenon_return_int(call, 0, c->value);
    return TENON_OK;
}

static _Atomic int64_t waits, waits_ended;

/* Rest until end_waits is called. */
static tenon_status counter_wait(tenon_call *call)
{
    const int64_t ended = waits_ended;
    counter *c = tenon_arg_handle(call, 0);
    enter(c);
    waits++;
    while (waits_ended == ended)
        rest(1);
    waits--;
    c->inside--;
    tenon_return_int(call, 0, c->value);
    return TENON_OK;
}

static tenon_status count_waits(tenon_call *call)
{
    tenon_return_int(call, 0, waits);
    return TENON_OK;
}

static tenon_status end_waits(tenon_call *call)
{
    (void)call;
    waits_ended++;
    return TENON_OK;
}

static tenon_status counter_most(tenon_call *call)
{
    counter *c = tenon_arg_handle(call, 0);
    tenon_return_int(call, 0, c->most);
    return TENON_OK;
}

static tenon_status counter_length(tenon_call *call)
{
    tenon_return_int(call, 0, ((counter *)tenon_arg_handle(call, 0))->value);
    return TENON_OK;
}

static tenon_status counter_repr(tenon_call *call)
{
    char text[40];
    int length = snprintf(text, sizeof text, "at %d", (int)((counter *)tenon_arg_handle(call, 0))->value);
    tenon_return_str(call, 0, text, (size_t)length);
    return TENON_OK;
}

static tenon_status counter_item(tenon_call *call)
{
    int64_t i = tenon_arg_int(call, 1);
    if (i < 0 || i >= ((counter *)tenon_arg_handle(call, 0))->value)
        return tenon_fail(call, TENON_EBOUNDS, "index %d is out of range", (int)i);
    tenon_return_int(call, 0, i * i);
    return TENON_OK;
}

/* Adds b to a; both may be the same. */
static tenon_status counter_add(tenon_call *call)
{
    counter *a = tenon_arg_handle(call, 0), *b = tenon_arg_handle(call, 1);
    enter(a);
    if (a != b)
        enter(b);
    for (volatile int i = 0; i < 1000; i++)
        ;
    a->value += b->value;
    if (a != b)
        b->inside--;
    a->inside--;
    return TENON_OK;
}

static tenon_status twin(tenon_call *call)
{
    counter *c = tenon_has_arg(call, 0) ? tenon_arg_handle(call, 0) : NULL;
    return c ? counter_return(call, c->value) : TENON_OK;
}

static tenon_status plain_get(tenon_call *call)
{
    tenon_return_int(call, 0, ((counter *)tenon_arg_handle(call, 0))->value);
    return TENON_OK;
}

/* ---------------------------------------------------------------------------------------------------------- stores */

typedef struct store {
    tenon_kept *kept;
    float own[16];
} store;

static void store_free(void *object)
{
    store *s = object;
    tenon_kept_release(s->kept);
    memset(s->own, 0xdd, sizeof s->own);
    free(s);
    destroyed++;
}

static tenon_status store_new(tenon_call *call)
{
    store *s = calloc(1, sizeof *s);
    if (!s)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    made++;
    s->kept = tenon_arg_keep(call, tenon_index(call, "x"));
    for (int i = 0; i < 16; i++)
        s->own[i] = (float)i;
    if ((call->flags & TENON_CALL_FAILED) || tenon_return_handle(call, 0, s, store_free)) {
        store_free(s);
        return TENON_EFAILED;
    }
    return TENON_OK;
}

static tenon_status store_sum(tenon_call *call)
{
    const store *s = tenon_arg_handle(call, 0);
    double sum = 0;
    for (int64_t i = 0; s->kept && i < s->kept->view->numel; i++)
        sum += ((const float *)s->kept->view->data)[i];
    tenon_return_double(call, 0, sum);
    return TENON_OK;
}

static tenon_status store_address(tenon_call *call)
{
    const store *s = tenon_arg_handle(call, 0);
    tenon_return_int(call, 0, s->kept ? (int64_t)(intptr_t)s->kept->view->data : 0);
    return TENON_OK;
}

static tenon_status store_own(tenon_call *call)
{
    int64_t shape = 16;
    return tenon_result_of(call, 0, ((store *)tenon_arg_handle(call, 0))->own, 1, &shape, NULL);
}

static void *release_later(void *kept)
{
    rest(20);
    tenon_kept_release(kept);
    released++;
    return NULL;
}

/* Releases the argument on a thread that the VM does not know. */
static tenon_status store_drop(tenon_call *call)
{
    store *s = tenon_arg_handle(call, 0);
    pthread_t thread;
    if (s->kept && pthread_create(&thread, NULL, release_later, s->kept) == 0) {
        pthread_detach(thread);
        s->kept = NULL;
    }
    return TENON_OK;
}

static tenon_status keep_other(tenon_call *call)
{
    tenon_kept *kept = tenon_arg_keep(call, 0);
    tenon_kept_release(kept);
    return TENON_OK;
}

/* The sum of the second argument as it is kept. */
static tenon_status keep_second(tenon_call *call)
{
    tenon_kept *kept = tenon_arg_keep(call, 1);
    double sum = 0;
    for (int64_t i = 0; kept && i < kept->view->numel; i++)
        sum += ((const float *)kept->view->data)[i];
    tenon_kept_release(kept);
    return tenon_return_double(call, 0, sum);
}

/* ---------------------------------------------------------------------------------------------------- given memory */

static void release(void *owner)
{
    free(owner);
    released++;
}

static float *numbers(int64_t count)
{
    float *data = malloc((size_t)(count > 0 ? count : 1) * sizeof *data);
    for (int64_t i = 0; data && i < count; i++)
        data[i] = (float)i;
    given++;
    return data;
}

static tenon_status load(tenon_call *call)
{
    int64_t n = tenon_arg_int(call, 0);
    float *data = numbers(n);
    tenon_status status = tenon_result_own(call, 0, data, 1, &n, NULL, data, release);
    if (status)
        release(data);
    else if (tenon_arg_bool(call, 1))
        return tenon_fail(call, TENON_EINVAL, "it failed later");
    return status;
}

static tenon_status load_badly(tenon_call *call)
{
    static float data[4];
    int64_t shape[2] = {4, 1};
    switch (tenon_arg_int(call, 0)) {
    case 0: /* no release */
        return tenon_result_own(call, 0, data, 1, shape, NULL, NULL, NULL);
    case 1: /* overflows */
        shape[0] = INT64_MAX;
        return tenon_result_own(call, 0, data, 1, shape, NULL, data, release);
    case 2: /* another rank */
        return tenon_result_own(call, 0, data, 2, shape, NULL, data, release);
    default: /* never given */
        return TENON_OK;
    }
}

static tenon_status columns(tenon_call *call)
{
    float *data = numbers(6);
    int64_t shape[2] = {3, 2}, strides[2] = {1, 3};
    tenon_status status = tenon_result_own(call, 0, data, 2, shape, strides, data, release);
    if (status)
        release(data);
    return status;
}

static tenon_status tail(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    int64_t n = x->numel - tenon_arg_int(call, 1);
    return tenon_result_of(call, 0, (float *)x->data + tenon_arg_int(call, 1), 1, &n, NULL);
}

static tenon_status scale(tenon_call *call)
{
    float *x = tenon_arg(call, 0)->data;
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        x[i] *= 2;
    return TENON_OK;
}

static tenon_status by_name(tenon_call *call)
{
    tenon_return_int(call, tenon_result_index(call, "rows"), tenon_dim_named(call, "n"));
    tenon_return_int(call, tenon_result_index(call, "columns"), tenon_dim_named(call, "d"));
    tenon_return_int(call, tenon_result_index(call, "bits"), tenon_type_named(call, "T").bits);
    return TENON_OK;
}

static tenon_status no_name(tenon_call *call)
{
    tenon_return_int(call, 0, tenon_dim_named(call, "m"));
    return TENON_OK;
}

/* ----------------------------------------------------------------------------------------------- the checked mode */

static tenon_status past_the_end(tenon_call *call)
{
    float *y = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i <= tenon_dim(call, 0); i++)
        y[i] = 1;
    return TENON_OK;
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

TENON_MODULE(classes, "Objects.", TENON_CLASS("Counter", "Counts."),
             TENON_CLASS_FLAGS("Free", "Not alone.", TENON_CLASS_CONCURRENT), TENON_CLASS("Store", NULL),
             TENON_CLASS("bare_class", NULL),
             TENON_FUNCTION("counts() -> made: int, destroyed: int, given: int, released: int", counts, NULL),
             TENON_FUNCTION("resting() -> int", count_resting, "The number of calls that rest."),
             TENON_FUNCTION("Counter(start: int = 0)", counter_new, "Makes a counter."),
             TENON_FUNCTION("Counter.next(self) -> int", counter_next, "Its value, and counts."),
             TENON_FUNCTION_FLAGS("Counter.rest(self, milliseconds: int) -> int", counter_rest, NULL,
                                  TENON_RELEASE_LOCK),
             TENON_FUNCTION_FLAGS("Counter.wait(self) -> int", counter_wait, NULL, TENON_RELEASE_LOCK),
             TENON_FUNCTION("end_waits()", end_waits, NULL),
             TENON_FUNCTION("waits() -> int", count_waits, "The number of calls that wait."),
             TENON_FUNCTION("Counter.most(self) -> int", counter_most, NULL),
             TENON_FUNCTION("Counter.__len__(self) -> int", counter_length, "Its value."),
             TENON_FUNCTION("Counter.__repr__(self) -> str", counter_repr, NULL),
             TENON_FUNCTION("Counter.__getitem__(self, i: int) -> int", counter_item, "The square."),
             TENON_FUNCTION("add(a: handle('Counter'), b: handle('Counter'))", counter_add, NULL),
             TENON_FUNCTION_FLAGS("add_slowly(*, a: handle('Counter'), b: handle('Counter'))", counter_add, NULL,
                                  TENON_RELEASE_LOCK),
             TENON_FUNCTION("twin(of: handle('Counter')?) -> handle('Counter')?", twin, "Another one like it."),
             TENON_FUNCTION("Free(start: int = 0)", counter_new, NULL),
             TENON_FUNCTION_FLAGS("Free.rest(self, milliseconds: int) -> int", counter_rest, NULL, TENON_RELEASE_LOCK),
             TENON_FUNCTION_FLAGS("Free.wait(self) -> int", counter_wait, NULL, TENON_RELEASE_LOCK),
             TENON_FUNCTION("Free.most(self) -> int", counter_most, NULL),
             TENON_FUNCTION("Store(x: f32[n]? c keep)", store_new, NULL),
             TENON_FUNCTION("Store.sum(self) -> float", store_sum, NULL),
             TENON_FUNCTION("Store.address(self) -> int", store_address, NULL),
             TENON_FUNCTION("Store.own(self) -> f32[?] of(self)", store_own, NULL),
             TENON_FUNCTION("Store.own_rw(self) -> f32[?] of(self) rw", store_own, NULL),
             TENON_FUNCTION("Store.drop(self)", store_drop, NULL),
             TENON_FUNCTION("plain_new(start: int = 0) -> handle('Plain')", counter_new, NULL),
             TENON_FUNCTION("plain_get(plain: handle('Plain')) -> int", plain_get, NULL),
             TENON_FUNCTION("keep_other(x: f32[n] keep, y: f32[n] rw)", keep_other, NULL),
             TENON_FUNCTION("keep_second(x: f32[n]?, y: f32[m]? c keep) -> float", keep_second, NULL),
             TENON_FUNCTION("load(n: int, fail: bool = False) -> f32[?] own", load, NULL),
             TENON_FUNCTION("load_badly(how: int) -> f32[?] own", load_badly, NULL),
             TENON_FUNCTION("columns() -> f32[?, ?] own", columns, NULL),
             TENON_FUNCTION("tail(x: f32[n] c, start: int) -> f32[?] of(x)", tail, NULL),
             TENON_FUNCTION("scale(x: f32[n] c rw)", scale, NULL),
             TENON_FUNCTION("by_name(x: T[n, d]) -> rows: int, columns: int, bits: int where T = f32|f64", by_name,
                            NULL),
             TENON_FUNCTION("no_name(x: f32[n]) -> int", no_name, NULL),
             TENON_FUNCTION("past_the_end(x: f32[n] c) -> f32[n]", past_the_end, NULL),
             TENON_FUNCTION("nothing(x: f32[n] c) -> f32[n]", nothing, NULL),
             TENON_FUNCTION("converted(x: f64[n] c convert)", nothing, NULL))
