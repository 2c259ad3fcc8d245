/* A class with every kind of member: a bag of integers. */
#include <tenon/function.h>

#include <stdlib.h>
#include <string.h>

typedef struct bag {
    int64_t count;
    int64_t items[8];
} bag;

typedef struct cursor {
    bag copy;
    int64_t at;
} cursor;

static tenon_status give(tenon_call *call, const void *object, size_t size)
{
    void *copy = malloc(size);
    if (!copy)
        return TENON_ENOMEM;
    memcpy(copy, object, size);
    tenon_status status = tenon_return_handle(call, 0, copy, free);
    if (status)
        free(copy);
    return status;
}

static tenon_status new_bag(tenon_call *call)
{
    int64_t length = 0;
    const int64_t *items = tenon_arg_ints(call, 0, &length);
    bag b = {.count = length};
    if (length > 8)
        return tenon_fail(call, TENON_EINVAL, "a bag has at most 8 items");
    if (length)
        memcpy(b.items, items, (size_t)length * sizeof *items);
    return give(call, &b, sizeof b);
}

static tenon_status make(tenon_call *call)
{
    bag b = {.count = tenon_arg_int(call, 0) % 8};
    for (int64_t i = 0; i < b.count; i++)
        b.items[i] = i;
    return give(call, &b, sizeof b);
}

static tenon_status size(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    return tenon_return_int(call, 0, b->count);
}

static tenon_status sum_plus(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    int64_t sum = tenon_arg_int(call, 1);
    for (int64_t i = 0; i < b->count; i++)
        sum += b->items[i];
    return tenon_return_int(call, 0, sum);
}

static tenon_status contains(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    bool found = false;
    for (int64_t i = 0; i < b->count; i++)
        found |= b->items[i] == tenon_arg_int(call, 1);
    return tenon_return_bool(call, 0, found);
}

static tenon_status equal(tenon_call *call)
{
    const bag *a = tenon_arg_handle(call, 0), *b = tenon_arg_handle(call, 1);
    return tenon_return_bool(call, 0, a->count == b->count && memcmp(a->items, b->items, sizeof a->items) == 0);
}

static tenon_status get(tenon_call *call)
{
    const bag *b = tenon_arg_handle(call, 0);
    int64_t i = tenon_arg_int(call, 1);
    if (i < 0 || i >= b->count)
        return tenon_fail(call, TENON_EBOUNDS, "there is no item %d", (int)i);
    return tenon_return_int(call, 0, b->items[i]);
}

static tenon_status set(tenon_call *call)
{
    bag *b = tenon_arg_handle(call, 0);
    int64_t i = tenon_arg_int(call, 1);
    if (i < 0 || i >= b->count)
        return tenon_fail(call, TENON_EBOUNDS, "there is no item %d", (int)i);
    b->items[i] = tenon_arg_int(call, 2);
    return TENON_OK;
}

static tenon_status iter(tenon_call *call)
{
    cursor c = {.copy = *(const bag *)tenon_arg_handle(call, 0)};
    return give(call, &c, sizeof c);
}

static tenon_status next(tenon_call *call)
{
    cursor *c = tenon_arg_handle(call, 0);
    if (c->at >= c->copy.count)
        return TENON_EBOUNDS;
    return tenon_return_int(call, 0, c->copy.items[c->at++]);
}

static tenon_status state(tenon_call *call)
{
    return tenon_return_bytes(call, 0, tenon_arg_handle(call, 0), sizeof(bag));
}

static tenon_status load(tenon_call *call)
{
    size_t length = 0;
    const void *bytes = tenon_arg_bytes(call, 0, &length);
    if (length != sizeof(bag))
        return tenon_fail(call, TENON_EINVAL, "not the state of a bag");
    return give(call, bytes, sizeof(bag));
}

TENON_MODULE(members, "Members of classes.",
    TENON_CLASS("Bag", "Some integers."),
    TENON_FUNCTION("Bag(items: ints)", new_bag, NULL),
    TENON_FUNCTION("Bag.make(n: int) -> handle('Bag')", make, "The first n integers."),
    TENON_FUNCTION("Bag.count: int", size, "How many there are."),
    TENON_CONSTANT("Bag.MAX_ITEMS = 8", "The most items."),
    TENON_FUNCTION("Bag.__len__(self) -> int", size, NULL),
    TENON_FUNCTION("Bag.__call__(self, more: int = 0) -> int", sum_plus, NULL),
    TENON_FUNCTION("Bag.__contains__(self, x: int) -> bool", contains, NULL),
    TENON_FUNCTION("Bag.__eq__(self, other: handle('Bag')) -> bool", equal, NULL),
    TENON_FUNCTION("Bag.__hash__(self) -> int", size, NULL),
    TENON_FUNCTION("Bag.__getitem__(self, i: int) -> int", get, NULL),
    TENON_FUNCTION("Bag.__setitem__(self, i: int, value: int)", set, NULL),
    TENON_FUNCTION("Bag.__iter__(self) -> handle('Cursor')", iter, NULL),
    TENON_FUNCTION("Bag.__getstate__(self) -> bytes", state, NULL),
    TENON_FUNCTION("Bag.load(state: bytes) -> handle('Bag')", load, NULL),
    TENON_CLASS("Cursor", "A place in a bag."),
    TENON_FUNCTION("Cursor.__next__(self) -> int", next, NULL),
    TENON_CLASS("Row", "Enumerable by its items only."),
    TENON_FUNCTION("Row(items: ints)", new_bag, NULL),
    TENON_FUNCTION("Row.__getitem__(self, i: int) -> int", get, NULL))
