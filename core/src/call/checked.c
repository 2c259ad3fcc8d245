/* The checked mode: a call that looks for writes outside the results, writes to arguments, and results that were not
 * written. */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes before and after a result: as many as it has, between these. Multiples of 64, the alignment of results. */
enum { GUARD_MIN = 4096, GUARD_MAX = 65536 };

/* A result in a block of the driver, or an argument and its copy. */
typedef struct checked_result {
    const tenon_view *real; /* NULL: not checked */
    tenon_view view;
    unsigned char *data;
    size_t guard; /* bytes before and after `data` */
} checked_result;

/* A tensor in a list of results. */
typedef struct checked_item checked_item;
struct checked_item {
    checked_result result;
    int32_t index;
    int64_t item;
    bool unwritten;
    checked_item *next;
};

struct tenon__checked {
    uint32_t outs; /* bit i: result i is the caller's memory */
    checked_result results[TENON_MAX_RESULTS];
    unsigned char *copies[TENON_MAX_PARAMETERS]; /* of arguments; NULL: not checked */
    unsigned char **lists[TENON_MAX_PARAMETERS]; /* of the items of lists; as above */
    const void *made[TENON_MAX_RESULTS];         /* the tensors of lists "for ...", while the function has others */
    checked_item *items, **end;                  /* in order */
};

/* -------------------------------------------------------------------------------------------------------- patterns */

/* What an element of a result holds before the call: of floats a NaN with a payload of its own, so that no NaN of the
 * function's is mistaken for it. Returns the size of the pattern. */
static size_t pattern_of(tenon_dtype dtype, unsigned char pattern[8])
{
    uint64_t bits = UINT64_C(0xa5a5a5a5a5a5a5a5);
    uint32_t lane = dtype.code == TENON_CODE_COMPLEX ? dtype.bits / 2u : dtype.bits;
    bool is_float = dtype.code == TENON_CODE_FLOAT || dtype.code == TENON_CODE_COMPLEX;
    if (is_float && lane == 64) {
        bits = UINT64_C(0x7ffda5a5a5a5a5a5);
    } else if (is_float && lane == 32) {
        uint32_t nan = 0x7fe5a5a5u;
        return memcpy(pattern, &nan, sizeof nan), sizeof nan;
    } else if ((is_float && lane == 16) || dtype.code == TENON_CODE_BFLOAT) {
        uint16_t nan = is_float ? 0x7ea5 : 0x7fe5;
        return memcpy(pattern, &nan, sizeof nan), sizeof nan;
    }
    return memcpy(pattern, &bits, sizeof bits), sizeof bits;
}

static void fill_result(unsigned char *data, size_t size, tenon_dtype dtype)
{
    unsigned char pattern[8];
    size_t step = pattern_of(dtype, pattern);
    for (size_t i = 0; i < size; i++)
        data[i] = pattern[i % step];
}

static bool is_filled(const unsigned char *data, size_t size, tenon_dtype dtype)
{
    unsigned char pattern[8];
    size_t step = pattern_of(dtype, pattern);
    for (size_t i = 0; i < size; i++)
        if (data[i] != pattern[i % step])
            return false;
    return true;
}

/* Make the elements of a bool result that were not written false: the pattern is not a bool. */
static void clear_bools(unsigned char *data, size_t size, tenon_dtype dtype)
{
    unsigned char pattern[8];
    pattern_of(dtype, pattern);
    for (size_t i = 0; dtype.code == TENON_CODE_BOOL && i < size; i++)
        if (data[i] == pattern[0])
            data[i] = 0;
}

/* No two neighbouring bytes of a guard are equal, so that a shifted copy is seen too. */
static unsigned char guard_byte(size_t at)
{
    return (unsigned char)(0x9e + 37 * at);
}

/* ---------------------------------------------------------------------------------------------------------- before */

static size_t bytes_of_view(const tenon_view *view)
{
    return (size_t)tenon_view_nbytes(view);
}

static size_t guard_size(size_t size)
{
    return size <= GUARD_MIN ? GUARD_MIN : size >= GUARD_MAX ? GUARD_MAX : (size + 63) / 64 * 64;
}

/* Whether a result is checked at all: it is new memory that the CPU can read. */
static bool is_guarded(const tenon_view *real)
{
    return tenon_device_on_host(real->device) && (real->flags & TENON_VIEW_C);
}

/* Put a result between guards. False: there is no memory. */
static bool guard_result(tenon_frame *f, const tenon_view *real, checked_result *result)
{
    size_t size = bytes_of_view(real), guard = guard_size(size);
    unsigned char *block = size < PTRDIFF_MAX - 2 * guard ? tenon_block_alloc(&f->blocks, size + 2 * guard, 64) : NULL;
    if (!block)
        return false;
    for (size_t i = 0; i < guard; i++) {
        block[i] = guard_byte(i);
        block[guard + size + i] = guard_byte(i);
    }
    result->guard = guard;
    result->real = real;
    result->view = *real;
    result->view.data = result->data = block + guard;
    fill_result(result->data, size, real->dtype);
    return true;
}

bool tenon__check_result(tenon_frame *f, int32_t index)
{
    struct tenon__checked *checked = f->checked;
    const tenon_view *real = f->results[index].as.view;
    if ((checked->outs >> index & 1) || !is_guarded(real))
        return true;
    if (!guard_result(f, real, &checked->results[index]))
        return false;
    f->results[index].as.view = &checked->results[index].view;
    return true;
}

const tenon_view *tenon__check_item(tenon_frame *f, int32_t index, int64_t item, const tenon_view *real)
{
    if (!is_guarded(real))
        return real;
    checked_item *made = tenon_block_alloc(&f->blocks, sizeof *made, 0);
    if (!made || !guard_result(f, real, &made->result))
        return NULL;
    made->index = index;
    made->item = item;
    made->next = NULL;
    *f->checked->end = made;
    f->checked->end = &made->next;
    return &made->result.view;
}

/* The function gets a list "for ..." of tensors between guards. */
static bool check_list_result(tenon_frame *f, int32_t index)
{
    tenon_value *list = &f->results[index];
    size_t count = (size_t)list->as.list.length;
    const tenon_view *real = list->as.list.data;
    tenon_view *views = count ? tenon_block_alloc(&f->blocks, count * sizeof *views, 0) : NULL;
    if (!count)
        return true;
    for (size_t i = 0; views && i < count; i++) {
        const tenon_view *view = tenon__check_item(f, index, (int64_t)i, &real[i]);
        if (!view)
            return false;
        views[i] = *view;
    }
    f->checked->made[index] = real;
    list->as.list.data = views;
    return views != NULL;
}

/* Whether the function may change the memory of the argument through another argument or a result of the caller's. */
static bool may_change(const tenon_frame *f, const tenon_view *view)
{
    const tenon_signature *s = f->signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_spec *items = s->params[i].items;
        if (f->args[i].kind == TENON_KIND_TENSOR && (f->args[i].as.view->flags & TENON_VIEW_WRITTEN) &&
            tenon_view_overlaps(view, f->args[i].as.view))
            return true;
        /* Without 'alias' the match has found that they do not overlap. */
        bool may_overlap = items && (items->flags & TENON_SPEC_WRITE) && (items->flags & TENON_SPEC_ALIAS);
        const tenon_view *views = f->args[i].as.list.data;
        for (int64_t k = 0; may_overlap && f->args[i].kind == TENON_KIND_TENSORS && k < f->args[i].as.list.length; k++)
            if (tenon_view_overlaps(view, &views[k]))
                return true;
    }
    for (int32_t i = 0; i < s->nresults; i++)
        if (s->results[i].spec && (f->checked->outs >> i & 1) && f->results[i].as.view &&
            tenon_view_overlaps(view, f->results[i].as.view))
            return true;
    return false;
}

/* A copy of the elements in C order, in a block; NULL if there is no memory. */
static unsigned char *copy_elements(tenon_frame *f, const tenon_view *view)
{
    unsigned char *copy = tenon_block_alloc(&f->blocks, bytes_of_view(view) + 1, 64);
    int64_t dims[2 * TENON_MAX_NDIM];
    tenon_view target;
    tenon_dl_tensor source = {.data = copy, .dtype = view->dtype, .ndim = view->ndim, .device = {TENON_CPU, 0}};
    source.shape = view->shape;
    if (!copy || tenon_view_init(&target, &source, view->flags & TENON_SUBBYTE_PADDED, dims, NULL) ||
        tenon_copy(&target, view, NULL))
        return NULL;
    return copy;
}

static bool is_compared(const tenon_frame *f, const tenon_view *view)
{
    return view->numel && tenon_device_on_host(view->device) && !(view->flags & TENON_VIEW_WRITTEN) &&
           !may_change(f, view);
}

static bool copy_list(tenon_frame *f, int32_t index)
{
    const tenon_view *views = f->args[index].as.list.data;
    size_t count = (size_t)f->args[index].as.list.length;
    unsigned char **copies = tenon_block_alloc(&f->blocks, count * sizeof *copies + 1, 0);
    if (!copies)
        return false;
    for (size_t i = 0; i < count; i++) {
        copies[i] = NULL;
        if (is_compared(f, &views[i]) && !(copies[i] = copy_elements(f, &views[i])))
            return false;
    }
    f->checked->lists[index] = copies;
    return true;
}

static bool begin_check(tenon_frame *f)
{
    const tenon_signature *s = f->signature;
    for (int32_t i = 0; i < s->nresults; i++) {
        bool placed = s->results[i].kind == TENON_KIND_TENSOR && !(f->results[i].flags & TENON_VALUE_UNSET);
        if (placed && !tenon__check_result(f, i))
            return false;
        if (s->results[i].kind == TENON_KIND_TENSORS && !check_list_result(f, i))
            return false;
    }
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_view *view = f->args[i].kind == TENON_KIND_TENSOR ? f->args[i].as.view : NULL;
        if (f->args[i].kind == TENON_KIND_TENSORS && !copy_list(f, i))
            return false;
        if (view && is_compared(f, view) && !(f->checked->copies[i] = copy_elements(f, view)))
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- after */

/* The first byte of a guard that changed, or -1. */
static int64_t changed_guard(const unsigned char *bytes, size_t guard)
{
    for (size_t i = 0; i < guard; i++)
        if (bytes[i] != guard_byte(i))
            return (int64_t)i;
    return -1;
}

/* "result 0", or "result 'z'[3]" for a tensor in a list. */
static tenon__label item_label(const tenon_frame *f, int32_t index, int64_t item)
{
    tenon__label label = tenon__result_label(f, index);
    size_t length = strlen(label.text);
    if (item >= 0)
        snprintf(label.text + length, sizeof label.text - length, "[%" PRId64 "]", item);
    return label;
}

static bool check_guards(const tenon_frame *f, const checked_result *result, int32_t index, int64_t item,
                         tenon_error *error)
{
    int64_t size = tenon_view_nbytes(result->real);
    int64_t before = changed_guard(result->data - result->guard, result->guard);
    int64_t after = changed_guard(result->data + size, result->guard);
    if (before < 0 && after < 0)
        return true;
    tenon_error_set(error, TENON_EFAILED,
                    "%s: the function wrote %s of its memory: byte %" PRId64 ", but it has %" PRId64 " bytes",
                    item_label(f, index, item).text, before >= 0 ? "before the start" : "past the end",
                    before >= 0 ? before - (int64_t)result->guard : size + after, size);
    return false;
}

/* False without a message: there is no memory. `item` is -1, or the index in a list. */
static bool check_argument(tenon_frame *f, int32_t index, int64_t item, tenon_error *error)
{
    const tenon_view *views = item < 0 ? NULL : f->args[index].as.list.data;
    const tenon_view *view = item < 0 ? f->args[index].as.view : &views[item];
    const unsigned char *copy = item < 0 ? f->checked->copies[index] : f->checked->lists[index][item];
    char name[TENON_NAME_SIZE + 24];
    const unsigned char *now = view->flags & TENON_VIEW_C ? view->data : copy_elements(f, view);
    size_t size = bytes_of_view(view), at = 0;
    if (now && memcmp(now, copy, size) == 0)
        return true;
    while (now && now[at] == copy[at])
        at++;
    snprintf(name, sizeof name, "%s", f->signature->params[index].name);
    if (item >= 0)
        snprintf(name, sizeof name, "%s[%" PRId64 "]", f->signature->params[index].name, item);
    if (now)
        tenon_error_set(error, TENON_EFAILED,
                        "argument '%s': byte %zu of %zu changed during the call, but the argument is not 'rw'; the "
                        "function wrote to it, or another thread did",
                        name, at, size);
    return false;
}

/* Refuse a call whose function did not keep to its signature. */
static int refuse_checked(tenon_frame *f, int32_t index, const tenon_error *error)
{
    f->client->refuse(f, TENON_REFUSED_BY_CODE, index, error);
    return -1;
}

/* Copy the elements that the function wrote into the real result. *unwritten: there are none. */
static int end_result(tenon_frame *f, int32_t index, const checked_result *result, bool *unwritten)
{
    size_t size = bytes_of_view(result->real);
    tenon_error error;
    *unwritten = result->real->numel && is_filled(result->data, size, result->real->dtype);
    clear_bools(result->data, size, result->real->dtype);
    return tenon_copy(result->real, &result->view, &error) ? refuse_checked(f, index, &error) : 0;
}

static int warn_unwritten(tenon_frame *f, int32_t index, int64_t item)
{
    tenon_error error;
    if (!f->client->warn)
        return 0;
    tenon_error_set(&error, TENON_EFAILED,
                    "%s: no byte of it changed: the function did not write to it, or wrote exactly the pattern that "
                    "the checked mode fills results with",
                    item_label(f, index, item).text);
    return f->client->warn(f, index, error.message);
}

/* Whether the function wrote only to its results and to what is `rw`. If not, `*index` is the result, or -1. */
static bool check_writes(tenon_frame *f, int32_t *index, tenon_error *error)
{
    const tenon_signature *s = f->signature;
    tenon_error_set(error, TENON_ENOMEM, "no memory to check the call");
    for (*index = 0; *index < s->nresults; ++*index)
        if (f->checked->results[*index].real && !check_guards(f, &f->checked->results[*index], *index, -1, error))
            return false;
    for (const checked_item *i = f->checked->items; i; i = i->next) {
        *index = i->index;
        if (!check_guards(f, &i->result, i->index, i->item, error))
            return false;
    }
    *index = -1;
    for (int32_t i = 0; i < s->nparams; i++) {
        if (f->checked->copies[i] && !check_argument(f, i, -1, error))
            return false;
        for (int64_t k = 0; f->checked->lists[i] && k < f->args[i].as.list.length; k++)
            if (f->checked->lists[i][k] && !check_argument(f, i, k, error))
                return false;
    }
    return true;
}

void tenon__check_failure(tenon_frame *f, tenon_error *failure)
{
    tenon_error error;
    int32_t index;
    if (!check_writes(f, &index, &error))
        tenon_error_set(failure, failure->status, "%s; also, %s", failure->message, error.message);
}

static int end_check(tenon_frame *f)
{
    const tenon_signature *s = f->signature;
    tenon_error error;
    int32_t index;
    if (!check_writes(f, &index, &error))
        return refuse_checked(f, index, &error);
    bool unwritten[TENON_MAX_RESULTS] = {false};
    for (int32_t i = 0; i < s->nresults; i++)
        if (f->checked->results[i].real && end_result(f, i, &f->checked->results[i], &unwritten[i]))
            return -1;
    for (checked_item *i = f->checked->items; i; i = i->next)
        if (end_result(f, i->index, &i->result, &i->unwritten))
            return -1;
    /* A warning may run any code, so no memory is used after the first one. */
    for (int32_t i = 0; i < s->nresults; i++)
        if (unwritten[i] && warn_unwritten(f, i, -1))
            return -1;
    for (const checked_item *i = f->checked->items; i; i = i->next)
        if (i->unwritten && warn_unwritten(f, i->index, i->item))
            return -1;
    return 0;
}

static bool matches_word(const char *text, const char *word)
{
    while (*word && (*text | 0x20) == *word) /* lower case */
        text++, word++;
    return !*word && !*text;
}

bool tenon_frame_check_wanted(void)
{
    const char *value = getenv("TENON_CHECK");
    return value && (matches_word(value, "1") || matches_word(value, "true") || matches_word(value, "yes") ||
                     matches_word(value, "on"));
}

int tenon_frame_run_checked(tenon_frame *f, uint32_t outs)
{
    /* A callback may keep the memory of a result, and may write to an argument. */
    if (!tenon_device_on_host(f->call.device) || f->signature->ncallables)
        return tenon_frame_run(f, f->client);
    tenon_error error;
    f->checked = tenon_block_alloc(&f->blocks, sizeof *f->checked, 0);
    if (f->checked) {
        memset(f->checked, 0, sizeof *f->checked);
        f->checked->outs = outs;
        f->checked->end = &f->checked->items;
    }
    if (!f->checked || !begin_check(f)) {
        tenon_error_set(&error, TENON_ENOMEM, "no memory to check the call");
        return refuse_checked(f, -1, &error);
    }
    f->call.flags |= TENON__CALL_CHECKED;
    int status = tenon_frame_run(f, f->client);
    f->call.flags &= ~TENON__CALL_CHECKED;
    for (int32_t i = 0; i < f->signature->nresults; i++) {
        if (f->checked->results[i].real)
            f->results[i].as.view = f->checked->results[i].real;
        if (f->checked->made[i])
            f->results[i].as.list.data = f->checked->made[i];
    }
    return status ? status : end_check(f);
}
