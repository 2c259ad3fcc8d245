/* Classes with static methods, properties, constants and all special methods. */
#include <tenon/function.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bag {
    int64_t count;
    float values[16];
} bag;

typedef struct bag_iterator {
    bag copy;
    int64_t next;
} bag_iterator;

static int64_t alive;

static void bag_free(void *object)
{
    free(object);
    alive--;
}

static tenon_status give(tenon_call *call, const void *object, size_t size)
{
    void *made = malloc(size);
    if (!made)
        return tenon_fail(call, TENON_ENOMEM, "no memory");
    memcpy(made, object, size);
    tenon_status status = tenon_return_handle(call, 0, made, bag_free);
    if (status)
        free(made);
    else
        alive++;
    return status;
}

static tenon_status bag_new(tenon_call *call)
{
    bag b = {.count = tenon_dim(call, 0)};
    if (b.count > 16)
        return tenon_fail(call, TENON_EINVAL, "a bag has at most 16 values");
    for (int64_t i = 0; i < b.count; i++)
        b.values[i] = tenon_data(call, 0, float)[i];
    return give(call, &b, sizeof b);
}

static tenon_status bag_make(tenon_call *call)
{
    bag b = {.count = tenon_arg_int(call, 0)};
    if (b.count < 0 || b.count > 16)
        return tenon_fail(call, TENON_EINVAL, "a bag has 0 to 16 values");
    for (int64_t i = 0; i < b.count; i++)
        b.values[i] = (float)i;
    return give(call, &b, sizeof b);
}

static tenon_status bag_merge(tenon_call *call)
{
    const bag *a = tenon_arg_handle(call, 0), *b = tenon_arg_handle(call, 1);
    bag both = *a;
    for (int64_t i = 0; i < b->count && both.count < 16; i++)
        both.values[both.count++] = b->values[i];
    return give(call, &both, sizeof both);
}

static tenon_status bag_split(tenon_call *call)
{
    int64_t n = tenon_arg_int(call, 0);
    tenon_return_int(call, 0, n / 2);
    tenon_return_int(call, 1, n - n / 2);
    return TENON_OK;
}

static tenon_status bag_first(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    return tenon_result_of(call, 0, (void *)(uintptr_t)tenon_data(call, 0, float), 1, x->shape, NULL);
}

static tenon_status bag_size(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    tenon_return_int(call, 0, b->count);
    return TENON_OK;
}

static tenon_status bag_label(tenon_call *call)
{
    char text[32];
    const bag *b = tenon_arg_handle(call, 0);
    if (b->count)
        tenon_return_str(call, 0, text, (size_t)snprintf(text, sizeof text, "bag of %lld", (long long)b->count));
    return TENON_OK;
}

static tenon_status bag_values(tenon_call *call)
{
    bag *b = tenon_arg_handle(call, 0);
    return tenon_result_of(call, 0, b->values, 1, &b->count, NULL);
}

static tenon_status bag_range(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    float *out = tenon_result_data(call, 0, float);
    out[0] = b->count ? b->values[0] : 0;
    out[1] = b->count ? b->values[b->count - 1] : 0;
    return TENON_OK;
}

static tenon_status bag_wrong(tenon_call *call)
{
    return tenon_fail(call, TENON_EINVAL, "it is never right");
}

static tenon_status bag_call(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    double sum = 0;
    for (int64_t i = 0; i < b->count; i++)
        sum += (double)b->values[i];
    tenon_return_double(call, 0, sum * tenon_arg_double(call, 1));
    return TENON_OK;
}

static tenon_status bag_contains(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    bool found = false;
    for (int64_t i = 0; i < b->count; i++)
        found |= (double)b->values[i] == tenon_arg_double(call, 1);
    tenon_return_bool(call, 0, found);
    return TENON_OK;
}

static tenon_status bag_equal(tenon_call *call)
{
    const bag *a = tenon_arg_handle(call, 0), *b = tenon_arg_handle(call, 1);
    tenon_return_bool(call, 0,
                      a->count == b->count && memcmp(a->values, b->values, (size_t)a->count * sizeof(float)) == 0);
    return TENON_OK;
}

static tenon_status check_index(tenon_call *call, const bag *b, int64_t i)
{
    return i >= 0 && i < b->count ? TENON_OK : tenon_fail(call, TENON_EBOUNDS, "there is no item %lld", (long long)i);
}

static tenon_status bag_get(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    int64_t i = tenon_arg_int(call, 1);
    tenon_status status = check_index(call, b, i);
    if (!status)
        tenon_return_double(call, 0, (double)b->values[i]);
    return status;
}

static tenon_status bag_set(tenon_call *call)
{
    bag *b = tenon_arg_handle(call, 0);
    int64_t i = tenon_arg_int(call, 1);
    tenon_status status = check_index(call, b, i);
    if (!status)
        b->values[i] = (float)tenon_arg_double(call, 2);
    return status;
}

static tenon_status bag_iter(tenon_call *call)
{
    bag_iterator made = {*(const bag *)tenon_arg_handle(call, 0), 0};
    return give(call, &made, sizeof made);
}

static tenon_status bag_next(tenon_call *call)
{
    bag_iterator *at = tenon_arg_handle(call, 0);
    if (at->next < 0)
        return tenon_fail(call, TENON_EINVAL, "the iterator is broken");
    if (at->next >= at->copy.count)
        return TENON_EBOUNDS;
    tenon_return_double(call, 0, 10 * (double)at->copy.values[at->next++]);
    return TENON_OK;
}

static tenon_status bag_break(tenon_call *call)
{
    bag_iterator *at = tenon_arg_handle(call, 0);
    at->next = -1;
    return TENON_OK;
}

static tenon_status sack_state(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    return tenon_return_bytes(call, 0, b->values, (size_t)b->count * sizeof(float));
}

static tenon_status sack_load(tenon_call *call)
{
    size_t length;
    const void *state = tenon_arg_bytes(call, 0, &length);
    bag b = {.count = (int64_t)(length / sizeof(float))};
    if (length % sizeof(float) || b.count > 16)
        return tenon_fail(call, TENON_EINVAL, "the state is damaged");
    memcpy(b.values, state, length);
    return give(call, &b, sizeof b);
}

static tenon_status count_alive(tenon_call *call)
{
    tenon_return_int(call, 0, alive);
    return TENON_OK;
}

/* clang-format off */
TENON_MODULE(bags, "Bags of numbers.",
    TENON_CONSTANT("LIMIT = 100", "Of the module."),
    TENON_CONSTANT("NAME = 'bags'", NULL),
    TENON_CLASS("Bag", "A bag of numbers."),
    TENON_CONSTANT("Bag.LEAF = 16", "The most values."),
    TENON_CONSTANT("Bag.EPS = 1e-5", NULL),
    TENON_CONSTANT("Bag.FAST = True", NULL),
    TENON_CONSTANT("Bag.KIND = 'float'", NULL),
    TENON_FUNCTION("Bag(x: f32[n] c)", bag_new, "Copies the values."),
    TENON_FUNCTION("Bag.make(n: int = 3) -> handle('Bag')", bag_make, "A bag of 0 to n - 1."),
    TENON_FUNCTION("Bag.merge(a: handle('Bag'), b: handle('Bag')) -> handle('Bag')", bag_merge, NULL),
    TENON_FUNCTION("Bag.split(n: int) -> left: int, right: int", bag_split, NULL),
    TENON_FUNCTION("Bag.view(x: f32[n] c) -> f32[n] of(x)", bag_first, NULL),
    TENON_FUNCTION("Bag.signature(n: int) -> left: int, right: int", bag_split, "Has the name of an attribute."),
    TENON_FUNCTION("Bag.size: int", bag_size, "How many values it has."),
    TENON_FUNCTION("Bag.label: str?", bag_label, NULL),
    TENON_FUNCTION("Bag.values: f32[?] of(self) rw", bag_values, NULL),
    TENON_FUNCTION("Bag.range: f32[2]", bag_range, NULL),
    TENON_FUNCTION("Bag.wrong: int", bag_wrong, NULL),
    TENON_FUNCTION("Bag.__call__(self, scale: float = 1) -> float", bag_call, "The sum, scaled."),
    TENON_FUNCTION("Bag.__contains__(self, x: float) -> bool", bag_contains, NULL),
    TENON_FUNCTION("Bag.__eq__(self, other: handle('Bag')) -> bool", bag_equal, NULL),
    TENON_FUNCTION("Bag.__hash__(self) -> int", bag_size, NULL),
    TENON_FUNCTION("Bag.__len__(self) -> int", bag_size, NULL),
    TENON_FUNCTION("Bag.__iter__(self) -> handle('BagIterator')", bag_iter, NULL),
    TENON_FUNCTION("Bag.__getitem__(self, i: int) -> float", bag_get, NULL),
    TENON_FUNCTION("Bag.__setitem__(self, i: int, value: float)", bag_set, NULL),
    TENON_CLASS("BagIterator", "Goes through a bag, ten times as large."),
    TENON_FUNCTION("BagIterator.__next__(self) -> float", bag_next, NULL),
    TENON_FUNCTION("BagIterator.damage(self)", bag_break, NULL),
    TENON_CLASS("Plain", "Compares, without a hash."),
    TENON_FUNCTION("Plain(x: f32[n] c)", bag_new, NULL),
    TENON_FUNCTION("Plain.__eq__(self, other: handle('Plain')) -> bool", bag_equal, NULL),
    TENON_CLASS("Sack", "Can be pickled."),
    TENON_FUNCTION("Sack(x: f32[n] c)", bag_new, NULL),
    TENON_FUNCTION("Sack.values: f32[?] of(self) rw", bag_values, NULL),
    TENON_FUNCTION("Sack.wrong: int", bag_wrong, NULL),
    TENON_FUNCTION("Sack.__getstate__(self) -> bytes", sack_state, NULL),
    TENON_FUNCTION("Sack.load(state: bytes) -> handle('Sack')", sack_load, NULL),
    TENON_FUNCTION("count_alive() -> int", count_alive, NULL))
