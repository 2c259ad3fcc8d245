/* The overlap of arguments that are lists of tensors, of which there may be many: comparing each with each would take too
 * long. The tensors are sorted by their addresses, and only those whose extents meet are compared. Parts of one larger tensor,
 * such as its columns, meet all of each other: these are sorted a second time, by their place in a row. */
#include "compiled_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A tensor of the call, and where its memory is. */
typedef struct span {
    uint64_t low, high; /* addresses, or places in a row */
    const tenon_view *view;
    int32_t param;
    int64_t item;   /* -1: the parameter is not a list */
    uint64_t order; /* in which they are reported */
    bool written;
} span;

typedef struct overlap_check {
    const tenon_signature *signature;
    span *spans;
    const span **reads; /* those of the current sweep that are still open */
    const span **writes;
    const span *first, *second; /* the overlap that was found, or NULL */
} overlap_check;

static const tenon_spec *spec_of(const overlap_check *c, const span *s)
{
    const tenon_parameter *param = &c->signature->params[s->param];
    return param->items ? param->items : param->spec;
}

static bool shares_wrongly(const overlap_check *c, const span *one, const span *other)
{
    const tenon_parameter *params = c->signature->params;
    if ((one->written && tenon__may_share(spec_of(c, one), one->view, params[other->param].name, other->view)) ||
        (other->written && tenon__may_share(spec_of(c, other), other->view, params[one->param].name, one->view)))
        return false;
    return tenon_view_overlaps(one->view, other->view);
}

static int by_low(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Compare a span with those that are open, and leave out the ones that end before it begins. */
static bool compare_open(overlap_check *c, const span *next, const span **open, size_t *count)
{
    size_t left = 0;
    for (size_t i = 0; i < *count; i++) {
        if (open[i]->high <= next->low)
            continue;
        if (shares_wrongly(c, open[i], next)) {
            c->first = open[i];
            c->second = next;
            return false;
        }
        open[left++] = open[i];
    }
    *count = left;
    return true;
}

/* Compare the spans that meet, of which one is written to. */
static bool sweep(overlap_check *c, const span *spans, size_t count)
{
    size_t reads = 0, writes = 0;
    for (size_t i = 0; i < count; i++) {
        if (!compare_open(c, &spans[i], c->writes, &writes) ||
            (spans[i].written && !compare_open(c, &spans[i], c->reads, &reads)))
            return false;
        if (spans[i].written)
            c->writes[writes++] = &spans[i];
        else
            c->reads[reads++] = &spans[i];
    }
    return true;
}

/* The largest stride in bytes, or 0; and the bytes of one step of it, which are all other dimensions. */
static uint64_t row_of(const tenon_view *view, uint64_t *width)
{
    uint64_t size = (uint64_t)tenon_view_item_bits(view) / 8, largest = 0, steps = 0;
    tenon_extent extent = tenon_view_extent(view);
    for (int32_t i = 0; i < view->ndim; i++) {
        uint64_t stride = view->strides[i] < 0 ? 0 - (uint64_t)view->strides[i] : (uint64_t)view->strides[i];
        if (view->shape[i] > 1 && stride > largest) {
            largest = stride;
            steps = (uint64_t)view->shape[i] - 1;
        }
    }
    *width = (uint64_t)(extent.high - extent.low) - largest * size * steps;
    return largest * size;
}

/* Tensors whose extents meet. If all are rows apart by the same distance, their places in a row tell them apart. */
static bool check_cluster(overlap_check *c, span *spans, size_t count)
{
    uint64_t width, row = row_of(spans[0].view, &width), base = spans[0].low;
    bool rows = row > 0;
    for (size_t i = 0; rows && i < count; i++) {
        bool whole_bytes = tenon_view_item_bits(spans[i].view) % 8 == 0;
        rows = whole_bytes && row_of(spans[i].view, &width) == row && (spans[i].low - base) % row + width <= row;
    }
    for (size_t i = 0; rows && i < count; i++) {
        row_of(spans[i].view, &width);
        spans[i].low = (spans[i].low - base) % row;
        spans[i].high = spans[i].low + width;
    }
    if (rows)
        qsort(spans, count, sizeof *spans, by_low);
    return sweep(c, spans, count);
}

/* Divide the sorted spans into groups that do not meet. */
static bool check_clusters(overlap_check *c, size_t count)
{
    for (size_t from = 0, to; from < count; from = to) {
        uint64_t high = c->spans[from].high;
        bool written = c->spans[from].written;
        for (to = from + 1; to < count && c->spans[to].low < high; to++) {
            high = c->spans[to].high > high ? c->spans[to].high : high;
            written |= c->spans[to].written;
        }
        if (written && to - from > 1 && !check_cluster(c, c->spans + from, to - from))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------- the whole */

static size_t add_span(overlap_check *c, size_t count, int32_t param, int64_t item, const tenon_view *view)
{
    if (view->numel == 0)
        return count;
    uint64_t at = tenon__view_position(view);
    tenon_extent extent = tenon_view_extent(view);
    span *s = &c->spans[count];
    *s = (span){.view = view, .param = param, .item = item, .order = count};
    s->low = at + (uint64_t)extent.low;
    s->high = at + (uint64_t)extent.high;
    s->written = spec_of(c, s)->flags & TENON_SPEC_WRITE;
    return count + 1;
}

static size_t add_spans(overlap_check *c, const tenon_value *args)
{
    size_t count = 0;
    for (int32_t i = 0; i < c->signature->nparams; i++) {
        const tenon_view *views = args[i].as.list.data;
        if (args[i].kind == TENON_KIND_TENSOR)
            count = add_span(c, count, i, -1, args[i].as.view);
        for (int64_t k = 0; args[i].kind == TENON_KIND_TENSORS && k < args[i].as.list.length; k++)
            count = add_span(c, count, i, k, &views[k]);
    }
    return count;
}

static const char *name_span(const overlap_check *c, const span *s, char *room, size_t size)
{
    const char *name = c->signature->params[s->param].name;
    if (s->item < 0)
        return name;
    snprintf(room, size, "%s[%" PRId64 "]", name, s->item);
    return room;
}

/* The one that is written to is named first. */
static tenon_status refuse_spans(const overlap_check *c, tenon_bindings *b, tenon_error *err)
{
    bool in_order = c->first->order < c->second->order;
    const span *one = in_order ? c->first : c->second, *other = in_order ? c->second : c->first;
    const span *written = one->written ? one : other, *second = one->written ? other : one;
    char room[sizeof b->label];
    b->list = written->param;
    b->item = written->item;
    b->argument = name_span(c, written, b->label, sizeof b->label);
    return tenon__refuse_overlap(b, b->argument, name_span(c, second, room, sizeof room), err);
}

tenon_status tenon__check_list_overlaps(const tenon_signature *s, const tenon_value *args, tenon_bindings *b,
                                        tenon_error *err)
{
    size_t most = 0;
    for (int32_t i = 0; i < s->nparams; i++)
        most += args[i].kind == TENON_KIND_TENSORS ? (size_t)args[i].as.list.length : args[i].kind == TENON_KIND_TENSOR;
    size_t size = most * (sizeof(span) + 2 * sizeof(span *));
    if (most < 2)
        return TENON_OK;
    overlap_check c = {.signature = s, .spans = tenon__alloc(size, false)};
    if (!c.spans)
        return tenon_error_set_in(err, TENON_ENOMEM, b->function, "no memory to compare %zu tensors", most);
    c.reads = (const span **)(void *)(c.spans + most);
    c.writes = c.reads + most;
    size_t count = add_spans(&c, args);
    qsort(c.spans, count, sizeof *c.spans, by_low);
    tenon_status status = check_clusters(&c, count) ? TENON_OK : refuse_spans(&c, b, err);
    tenon__free(c.spans, size);
    return status;
}
