/* Classes for the tests: boxes of numbers, which count what is alive and notice calls that overlap. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <tenon/function.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct box {
    int64_t count;
    float *values;
    _Atomic int inside, most; /* calls that are running now, and at most so far */
    int64_t calls;            /* not atomic: two calls at a time lose one */
} box;

static _Atomic int64_t made, destroyed;

static void box_free(void *pointer)
{
    box *b = pointer;
    if (atomic_load(&b->inside))
        abort();
    free(b->values);
    free(b);
    destroyed++;
}

static tenon_status give_box(tenon_call *call, const float *values, int64_t count, float scale)
{
    box *b = calloc(1, sizeof *b);
    if (b)
        b->values = malloc((size_t)count * sizeof *b->values + 1);
    if (!b || !b->values) {
        free(b);
        return tenon_fail(call, TENON_ENOMEM, "no memory for a box");
    }
    b->count = count;
    for (int64_t i = 0; i < count; i++)
        b->values[i] = scale * values[i];
    made++;
    tenon_status status = tenon_return_handle(call, 0, b, box_free);
    if (status)
        box_free(b);
    return status;
}

static tenon_status box_new(tenon_call *call)
{
    float scale = (float)tenon_arg_double(call, 1);
    if (scale < 0)
        return tenon_fail(call, TENON_EINVAL, "the scale is negative");
    return give_box(call, tenon_data(call, 0, float), tenon_dim(call, 0), scale);
}

static tenon_status bare_new(tenon_call *call)
{
    float one = 1;
    return give_box(call, &one, 1, 1);
}

static void enter(box *b)
{
    int inside = ++b->inside;
    if (inside > b->most)
        b->most = inside;
}

static void rest(int64_t microseconds)
{
    struct timespec time = {microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
    nanosleep(&time, NULL);
}

/* Every call goes through here. */
static box *use(tenon_call *call, int i)
{
    box *b = tenon_arg_handle(call, i);
    if (b)
        b->calls++;
    return b;
}

static tenon_status box_dot(tenon_call *call)
{
    const box *b = use(call, 0);
    const float *x = tenon_data(call, 1, float);
    double sum = 0;
    for (int64_t i = 0; i < tenon_dim(call, 0) && i < b->count; i++)
        sum += (double)x[i] * (double)b->values[i];
    tenon_return_double(call, 0, sum);
    return TENON_OK;
}

static tenon_status box_nearest(tenon_call *call)
{
    const box *b = use(call, 0);
    const float *x = tenon_data(call, 1, float);
    int64_t k = tenon_arg_int(call, 2), *rows = tenon_result_data(call, 0, int64_t);
    float *distance = tenon_result_data(call, 1, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++) {
        rows[i] = k % (b->count ? b->count : 1);
        distance[i] = x[i] - (b->count ? b->values[rows[i]] : 0);
    }
    return TENON_OK;
}

static tenon_status box_scaled(tenon_call *call)
{
    const box *b = use(call, 0);
    float *out = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        out[i] = tenon_data(call, 1, float)[i] * (b->count ? b->values[0] : 1);
    return TENON_OK;
}

static tenon_status box_mix(tenon_call *call)
{
    use(call, 0);
    tenon_return_double(call, 0,
                        tenon_arg_double(call, 1) * 100 + tenon_arg_double(call, 2) * 10 + tenon_arg_double(call, 3));
    return TENON_OK;
}

static tenon_status box_len(tenon_call *call)
{
    tenon_return_int(call, 0, use(call, 0)->count);
    return TENON_OK;
}

static tenon_status box_repr(tenon_call *call)
{
    char text[64];
    int length = snprintf(text, sizeof text, "Box(%lld)", (long long)use(call, 0)->count);
    tenon_return_str(call, 0, text, (size_t)length);
    return TENON_OK;
}

static tenon_status box_item(tenon_call *call)
{
    const box *b = use(call, 0);
    int64_t i = tenon_arg_int(call, 1);
    if (i < 0 || i >= b->count)
        return tenon_fail(call, TENON_EBOUNDS, "there is no item %lld", (long long)i);
    tenon_return_double(call, 0, (double)b->values[i]);
    return TENON_OK;
}

/* Waits until end_waits is called. */
static _Atomic int64_t waits_now, waits_ended;

static tenon_status box_wait(tenon_call *call)
{
    const int64_t ended = waits_ended;
    box *b = use(call, 0);
    b->inside++;
    waits_now++;
    while (waits_ended == ended)
        rest(500);
    waits_now--;
    b->inside--;
    return TENON_OK;
}

static tenon_status count_waits(tenon_call *call)
{
    return tenon_return_int(call, 0, waits_now);
}

static tenon_status end_waits(tenon_call *call)
{
    (void)call;
    waits_ended++;
    return TENON_OK;
}

/* The same, after which this thread has the interpreter lock for a while. */
static tenon_status end_waits_locked(tenon_call *call)
{
    waits_ended++;
    rest(tenon_arg_int(call, 0));
    return TENON_OK;
}

/* Sleeps without the interpreter lock, and returns how many calls ran at the same time, at most. */
static tenon_status box_work(tenon_call *call)
{
    box *b = use(call, 0);
    enter(b);
    rest(tenon_arg_int(call, 1));
    b->inside--;
    tenon_return_int(call, 0, b->most);
    return TENON_OK;
}

static tenon_status work_both(tenon_call *call)
{
    box *a = use(call, 0), *b = use(call, 1);
    enter(a);
    if (a != b)
        enter(b);
    rest(tenon_arg_int(call, 2));
    a->inside--;
    if (a != b)
        b->inside--;
    tenon_return_int(call, 0, a->most > b->most ? a->most : b->most);
    return TENON_OK;
}

/* Call a function of Python's whose address was given. */
static tenon_status box_call(tenon_call *call)
{
    box *b = use(call, 0);
    union {
        intptr_t number;
        void (*function)(void);
    } callback = {.number = (intptr_t)tenon_arg_int(call, 1)};
    enter(b);
    callback.function();
    b->inside--;
    return TENON_OK;
}

static tenon_status count_calls(tenon_call *call)
{
    tenon_return_int(call, 0, use(call, 0)->calls);
    return TENON_OK;
}

static tenon_status sum_of(tenon_call *call)
{
    const box *b = tenon_has_arg(call, 0) ? use(call, 0) : NULL;
    double sum = 0;
    for (int64_t i = 0; b && i < b->count; i++)
        sum += (double)b->values[i];
    tenon_return_double(call, 0, sum);
    return TENON_OK;
}

static tenon_status join(tenon_call *call)
{
    const box *all[4] = {use(call, 0), use(call, 1), use(call, 2), use(call, 3)};
    float values[4];
    for (int i = 0; i < 4; i++)
        values[i] = (float)all[i]->count;
    return give_box(call, values, 4, 1);
}

/* The numbers of nine boxes: more than have room on the stack. */
static tenon_status count_nine(tenon_call *call)
{
    int64_t count = 0;
    for (int i = 0; i < 9; i++)
        count = 10 * count + use(call, i)->count;
    tenon_return_int(call, 0, count);
    return TENON_OK;
}

static tenon_status counts(tenon_call *call)
{
    tenon_return_int(call, 0, made);
    tenon_return_int(call, 1, destroyed);
    return TENON_OK;
}

static tenon_status forget(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

/* A handle that is not an object of a class. */
static tenon_status index_new(tenon_call *call)
{
    static int number;
    return tenon_return_handle(call, 0, &number, NULL);
}

static tenon_status index_use(tenon_call *call)
{
    tenon_return_bool(call, 0, tenon_arg_handle(call, 0) != NULL);
    return TENON_OK;
}

static tenon_status pass(tenon_call *call)
{
    tenon_return_double(call, 0, (double)tenon_data(call, 0, float)[0]);
    return TENON_OK;
}

/* clang-format off */
TENON_MODULE(boxes, "Boxes.",
    TENON_FUNCTION("counts() -> made: int, destroyed: int", counts, NULL),
    TENON_CLASS("Box", "A box of numbers."),
    TENON_FUNCTION("Box(x: f32[n] c, scale: float = 1.0)", box_new, "Copies the numbers."),
    TENON_FUNCTION("Box.dot(self, x: f32[n] c) -> float", box_dot, "The product with x."),
    TENON_FUNCTION("Box.nearest(self, x: f32[m] c, k: int = 1) -> rows: i64[m], distance: f32[m]", box_nearest, "Two results."),
    TENON_FUNCTION("Box.scaled(self, x: f32[n] c) -> f32[n]", box_scaled, NULL),
    TENON_FUNCTION("Box.mix(self, a: float = 1, b: float = 2, c: float = 3) -> float", box_mix, NULL),
    TENON_FUNCTION("Box.__len__(self) -> int", box_len, NULL),
    TENON_FUNCTION("Box.__repr__(self) -> str", box_repr, NULL),
    TENON_FUNCTION("Box.__getitem__(self, i: int) -> float", box_item, NULL),
    TENON_FUNCTION_FLAGS("Box.work(self, microseconds: int) -> int", box_work, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("Box.wait(self)", box_wait, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION("Box.call(self, address: int)", box_call, NULL),
    TENON_FUNCTION_FLAGS("Box.call_unlocked(self, address: int)", box_call, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION("Box.calls(self) -> int", count_calls, NULL),
    TENON_FUNCTION("waits() -> int", count_waits, NULL),
    TENON_FUNCTION("end_waits()", end_waits, NULL),
    TENON_FUNCTION_FLAGS("end_waits_locked(microseconds: int)", end_waits_locked, NULL, TENON_KEEP_LOCK),
    TENON_FUNCTION("sum_of(box: handle('Box')?) -> float", sum_of, "Of a box, or of nothing."),
    TENON_FUNCTION("join(a: handle('Box'), b: handle('Box'), c: handle('Box'), d: handle('Box')) -> handle('Box')", join, NULL),
    TENON_FUNCTION("count_nine(a: handle('Box'), b: handle('Box'), c: handle('Box'), d: handle('Box'), e: handle('Box'), "
        "f: handle('Box'), g: handle('Box'), h: handle('Box'), i: handle('Box')) -> int", count_nine, NULL),
    TENON_FUNCTION_FLAGS("work_both(a: handle('Box'), b: handle('Box'), microseconds: int) -> int", work_both, NULL, TENON_RELEASE_LOCK),
    TENON_CLASS("Bare", "Without a constructor."),
    TENON_FUNCTION("bare() -> handle('Bare')", bare_new, NULL),
    TENON_FUNCTION("Bare.dot(self, x: f32[n] c) -> float", box_dot, NULL),
    TENON_CLASS_FLAGS("Free", "Its calls may overlap.", TENON_CLASS_CONCURRENT),
    TENON_FUNCTION("Free(x: f32[n] c, scale: float = 1.0)", box_new, NULL),
    TENON_FUNCTION_FLAGS("Free.work(self, microseconds: int) -> int", box_work, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION_FLAGS("Free.wait(self)", box_wait, NULL, TENON_RELEASE_LOCK),
    TENON_FUNCTION("Free.call(self, address: int)", box_call, NULL),
    TENON_FUNCTION("Free.sum(self) -> float", sum_of, NULL),
    TENON_CLASS("Empty", NULL),
    TENON_FUNCTION("forget(box: handle('Box'))", forget, NULL),
    TENON_FUNCTION("index() -> handle('Index')", index_new, "Not an object of a class."),
    TENON_FUNCTION("use(index: handle('Index')) -> bool", index_use, NULL),
    TENON_FUNCTION("first(x: f32[n] c) -> float", pass, NULL))
