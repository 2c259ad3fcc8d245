/* Overlap of views. Two views overlap if there are index vectors that lead to the same memory, that is, if a sum of terms
 * c * x with 0 <= x <= n reaches a target. In practice the strides of a view nest (each one is larger than the extent of
 * the dimensions below it), and then the search ends immediately. */
#include "internal.h"

#include <stdlib.h>

enum {
    MAX_TERMS = 2 * TENON_MAX_NDIM + 1,
    BUDGET = 20000 /* steps of a search; when they are used up, the answer is yes */
};

typedef struct term {
    int64_t coefficient; /* > 0 */
    int64_t count;       /* > 0 */
} term;

typedef struct problem {
    term terms[MAX_TERMS];
    int64_t reach[MAX_TERMS + 1];   /* the largest sum of the terms from i on */
    int64_t divisor[MAX_TERMS + 1]; /* their greatest common divisor */
    int count;
    int steps;
    bool overflow; /* the numbers are too large to search: the answer is yes */
} problem;

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Add coefficient * x, 0 <= x <= count. A negative coefficient is replaced by a positive one, which moves the target. */
static void add_term(problem *p, int64_t coefficient, int64_t count, int64_t *target)
{
    if (coefficient == 0 || count == 0)
        return;
    int64_t shift;
    if (tenon__mul_overflows(coefficient, count, &shift) || shift == INT64_MIN) {
        p->overflow = true;
        return;
    }
    if (coefficient < 0) {
        p->overflow |= tenon__add_overflows(*target, -shift, target);
        coefficient = -coefficient;
    }
    for (int i = 0; i < p->count; i++) {
        if (p->terms[i].coefficient == coefficient) {
            p->overflow |= tenon__add_overflows(p->terms[i].count, count, &p->terms[i].count);
            return;
        }
    }
    p->terms[p->count++] = (term){coefficient, count};
}

static int by_coefficient_descending(const void *a, const void *b)
{
    int64_t x = ((const term *)a)->coefficient, y = ((const term *)b)->coefficient;
    return (x < y) - (x > y);
}

static bool search(problem *p, int first, int64_t target)
{
    if (++p->steps > BUDGET)
        return true;
    if (target < 0 || target > p->reach[first] || (p->divisor[first] ? target % p->divisor[first] : target) != 0)
        return false;
    if (target == 0)
        return true;
    int64_t coefficient = p->terms[first].coefficient, rest = p->reach[first + 1];
    int64_t most = target / coefficient < p->terms[first].count ? target / coefficient : p->terms[first].count;
    int64_t least = target > rest ? (target - rest - 1) / coefficient + 1 : 0;
    for (int64_t x = most; x >= least; x--)
        if (search(p, first + 1, target - x * coefficient))
            return true;
    return false;
}

/* Whether the terms can sum to the target. */
static bool solvable(problem *p, int64_t target)
{
    qsort(p->terms, (size_t)p->count, sizeof *p->terms, by_coefficient_descending);
    p->reach[p->count] = p->divisor[p->count] = 0;
    for (int i = p->count - 1; i >= 0; i--) {
        int64_t reach;
        p->overflow |= tenon__mul_overflows(p->terms[i].coefficient, p->terms[i].count, &reach) ||
                       tenon__add_overflows(reach, p->reach[i + 1], &p->reach[i]);
        p->divisor[i] = gcd(p->terms[i].coefficient, p->divisor[i + 1]);
    }
    return p->overflow || search(p, 0, target);
}

/* Add the positions of the view's elements, in units of `unit` bits, multiplied by `sign`. */
static void add_view(problem *p, const tenon_view *view, int64_t unit, int64_t sign, int64_t *target)
{
    int64_t item = tenon_view_item_bits(view) / unit;
    for (int32_t i = 0; i < view->ndim; i++) {
        int64_t step;
        if (view->shape[i] == 1)
            continue;
        p->overflow |= tenon__mul_overflows(view->strides[i], sign * item, &step);
        if (!p->overflow)
            add_term(p, step, view->shape[i] - 1, target);
    }
    if (!p->overflow)
        add_term(p, sign, item - 1, target);
}

/* Whether positions in the two views can be compared. */
static bool same_space(const tenon_view *a, const tenon_view *b)
{
    bool handles = !tenon_device_has_addresses(a->device) || !tenon_device_has_addresses(b->device);
    if (handles)
        return tenon_device_equal(a->device, b->device) && a->data == b->data;
    return tenon_device_equal(a->device, b->device) || tenon_device_on_host(a->device) ||
           tenon_device_on_host(b->device);
}

bool tenon_view_overlaps(const tenon_view *a, const tenon_view *b)
{
    if (!a || !b || a->numel == 0 || b->numel == 0 || !same_space(a, b))
        return false;
    uint64_t at_a = tenon__view_position(a), at_b = tenon__view_position(b);
    tenon_extent in_a = tenon_view_extent(a), in_b = tenon_view_extent(b);
    if (at_a + (uint64_t)in_a.high <= at_b + (uint64_t)in_b.low ||
        at_b + (uint64_t)in_b.high <= at_a + (uint64_t)in_a.low)
        return false;
    bool packed = tenon_view_item_bits(a) % 8 || tenon_view_item_bits(b) % 8;
    if (!packed && (a->flags & b->flags & TENON_VIEW_DENSE))
        return true;

    /* at_a + x * stride + byte of the element = at_b + …, so: terms of a - terms of b = at_b - at_a */
    int64_t unit = packed ? 1 : 8;
    int64_t target;
    problem p = {.count = 0};
    if (tenon__mul_overflows((int64_t)(at_b - at_a), 8 / unit, &target))
        return true;
    add_view(&p, a, unit, 1, &target);
    add_view(&p, b, unit, -1, &target);
    return p.overflow || solvable(&p, target);
}

bool tenon_view_self_overlaps(const tenon_view *view)
{
    if (!view || view->numel <= 1 || (view->flags & TENON_VIEW_DENSE))
        return false;
    /* Two index vectors with the same offset differ by z, |z_i| < shape_i, not all 0: sum of stride_i * z_i = 0. Taking
     * the first z_i that is not 0 as positive leaves one search for each dimension. */
    int32_t ndim = 0;
    term dims[TENON_MAX_NDIM];
    for (int32_t i = 0; i < view->ndim; i++) {
        if (view->shape[i] == 1)
            continue;
        int64_t stride = view->strides[i];
        if (stride == 0)
            return true;
        dims[ndim++] = (term){stride < 0 ? -stride : stride, view->shape[i] - 1};
    }
    qsort(dims, (size_t)ndim, sizeof *dims, by_coefficient_descending);
    uint64_t below = 0; /* the extent to both sides together: up to 2^64 */
    bool nested = true;
    for (int32_t i = ndim - 1; i >= 0 && nested; i--) {
        nested = (uint64_t)dims[i].coefficient > below;
        below += (uint64_t)dims[i].coefficient * (uint64_t)dims[i].count;
    }
    if (nested)
        return false;
    for (int32_t i = 0; i < ndim; i++) {
        /* z_i = 1 + x, 0 <= x < count; z_j = x - count, 0 <= x <= 2 * count, for j > i */
        problem p = {.count = 0};
        int64_t target = -dims[i].coefficient;
        add_term(&p, dims[i].coefficient, dims[i].count - 1, &target);
        for (int32_t j = i + 1; j < ndim; j++) {
            add_term(&p, dims[j].coefficient, dims[j].count, &target);
            add_term(&p, -dims[j].coefficient, dims[j].count, &target);
        }
        if (p.overflow || solvable(&p, target))
            return true;
    }
    return false;
}
