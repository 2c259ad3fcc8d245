/* The checked mode: a call that looks for writes outside the results, writes to arguments, and results that were not
 * written. */
#include "internal.h"

#include <inttypes.h>
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

struct tenon__checked {
    uint32_t outs; /* bit i: result i is the caller's memory */
    checked_result results[TENON_MAX_RESULTS];
    unsigned char *copies[TENON_MAX_PARAMETERS]; /* of arguments; NULL: not checked */
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

bool tenon__check_result(tenon_frame *f, int32_t index)
{
    struct tenon__checked *checked = f->checked;
    checked_result *result = &checked->results[index];
    const tenon_view *real = f->results[index].as.view;
    if ((checked->outs >> index & 1) || !tenon_device_on_host(real->device) || !(real->flags & TENON_VIEW_C))
        return true;
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
    f->results[index].as.view = &result->view;
    return true;
}

/* Whether the function may change the memory of the argument through another argument or a result of the caller's. */
static bool may_change(const tenon_frame *f, const tenon_view *view)
{
    const tenon_signature *s = f->signature;
    for (int32_t i = 0; i < s->nparams; i++)
        if (f->args[i].kind == TENON_KIND_TENSOR && (f->args[i].as.view->flags & TENON_VIEW_WRITTEN) &&
            tenon_view_overlaps(view, f->args[i].as.view))
            return true;
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

static bool begin_check(tenon_frame *f)
{
    const tenon_signature *s = f->signature;
    for (int32_t i = 0; i < s->nresults; i++) {
        bool placed = s->results[i].kind == TENON_KIND_TENSOR && !(f->results[i].flags & TENON_VALUE_UNSET);
        if (placed && !tenon__check_result(f, i))
            return false;
    }
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_view *view = f->args[i].kind == TENON_KIND_TENSOR ? f->args[i].as.view : NULL;
        if (!view || !view->numel || !tenon_device_on_host(view->device) || may_change(f, view))
            continue;
        if (!(f->checked->copies[i] = copy_elements(f, view)))
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

static bool check_guards(const tenon_frame *f, int32_t index, tenon_error *error)
{
    const checked_result *result = &f->checked->results[index];
    int64_t size = tenon_view_nbytes(result->real);
    int64_t before = changed_guard(result->data - result->guard, result->guard);
    int64_t after = changed_guard(result->data + size, result->guard);
    if (before < 0 && after < 0)
        return true;
    tenon_error_set(error, TENON_EFAILED,
                    "%s: the function wrote %s of its memory: byte %" PRId64 ", but it has %" PRId64 " bytes",
                    tenon__result_label(f, index).text, before >= 0 ? "before the start" : "past the end",
                    before >= 0 ? before - (int64_t)result->guard : size + after, size);
    return false;
}

/* False without a message: there is no memory. */
static bool check_argument(tenon_frame *f, int32_t index, tenon_error *error)
{
    const tenon_view *view = f->args[index].as.view;
    const unsigned char *copy = f->checked->copies[index];
    const unsigned char *now = view->flags & TENON_VIEW_C ? view->data : copy_elements(f, view);
    size_t size = bytes_of_view(view), at = 0;
    if (now && memcmp(now, copy, size) == 0)
        return true;
    while (now && now[at] == copy[at])
        at++;
    if (now)
        tenon_error_set(error, TENON_EFAILED,
                        "argument '%s': byte %zu of %zu changed during the call, but the argument is not 'rw'; the "
                        "function wrote to it, or another thread did",
                        f->signature->params[index].name, at, size);
    return false;
}

/* Refuse a call whose function did not keep to its signature. */
static int refuse_checked(tenon_frame *f, int32_t index, const tenon_error *error)
{
    f->client->refuse(f, TENON_REFUSED_BY_CODE, index, error);
    return -1;
}

/* Copy the elements that the function wrote into the real result. *unwritten: there are none. */
static int end_result(tenon_frame *f, int32_t index, bool *unwritten)
{
    const checked_result *result = &f->checked->results[index];
    size_t size = bytes_of_view(result->real);
    tenon_error error;
    *unwritten = result->real->numel && is_filled(result->data, size, result->real->dtype);
    clear_bools(result->data, size, result->real->dtype);
    return tenon_copy(result->real, &result->view, &error) ? refuse_checked(f, index, &error) : 0;
}

static int warn_unwritten(tenon_frame *f, int32_t index)
{
    tenon_error error;
    if (!f->client->warn)
        return 0;
    tenon_error_set(&error, TENON_EFAILED,
                    "%s: no byte of it changed: the function did not write to it, or wrote exactly the pattern that "
                    "the checked mode fills results with",
                    tenon__result_label(f, index).text);
    return f->client->warn(f, index, error.message);
}

/* Whether the function wrote only to its results and to what is `rw`. If not, `*index` is the result, or -1. */
static bool check_writes(tenon_frame *f, int32_t *index, tenon_error *error)
{
    const tenon_signature *s = f->signature;
    tenon_error_set(error, TENON_ENOMEM, "no memory to check the call");
    for (*index = 0; *index < s->nresults; ++*index)
        if (f->checked->results[*index].real && !check_guards(f, *index, error))
            return false;
    *index = -1;
    for (int32_t i = 0; i < s->nparams; i++)
        if (f->checked->copies[i] && !check_argument(f, i, error))
            return false;
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
        if (f->checked->results[i].real && end_result(f, i, &unwritten[i]))
            return -1;
    /* A warning may run any code, so no memory is used after the first one. */
    for (int32_t i = 0; i < s->nresults; i++)
        if (unwritten[i] && warn_unwritten(f, i))
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
    if (!tenon_device_on_host(f->call.device))
        return tenon_frame_run(f, f->client);
    tenon_error error;
    f->checked = tenon_block_alloc(&f->blocks, sizeof *f->checked, 0);
    if (f->checked) {
        memset(f->checked, 0, sizeof *f->checked);
        f->checked->outs = outs;
    }
    if (!f->checked || !begin_check(f)) {
        tenon_error_set(&error, TENON_ENOMEM, "no memory to check the call");
        return refuse_checked(f, -1, &error);
    }
    f->call.flags |= TENON__CALL_CHECKED;
    int status = tenon_frame_run(f, f->client);
    f->call.flags &= ~TENON__CALL_CHECKED;
    for (int32_t i = 0; i < f->signature->nresults; i++)
        if (f->checked->results[i].real)
            f->results[i].as.view = f->checked->results[i].real;
    return status ? status : end_check(f);
}
