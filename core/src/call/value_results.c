/* Results that are bytes or lists of numbers and strings: the host makes bytes at once if it can, and everything else is
 * copied into blocks of the call. */
#include "internal.h"

#include <string.h>

static void set_list(tenon_value *result, const void *data, int64_t length)
{
    result->as.list.data = data;
    result->as.list.length = length;
    result->flags &= ~TENON_VALUE_UNSET;
}

tenon_status tenon_frame_host_result_bytes(tenon_call *call, int32_t index, const void *data, size_t length)
{
    tenon_frame *f = tenon__frame_of(call);
    if (!tenon__is_result(call, index, TENON_KIND_BYTES) || (!data && length) || length > PTRDIFF_MAX)
        return tenon_fail(call, TENON_EFAILED, "result %d is not bytes, or its data is NULL or too long", (int)index);
    if (f->client->take_bytes) {
        if (f->client->take_bytes(f, index, data, length)) {
            tenon__note_failure(call);
            return TENON_ENOMEM;
        }
        call->results[index].flags &= ~TENON_VALUE_UNSET;
        return TENON_OK;
    }
    void *copy = tenon_block_alloc(&f->blocks, length, 0);
    if (!copy)
        return tenon_fail(call, TENON_ENOMEM, "no memory for %zu bytes", length);
    if (length)
        memcpy(copy, data, length);
    set_list(&call->results[index], copy, (int64_t)length);
    return TENON_OK;
}

/* The bytes of all strings, each with a 0 after it; SIZE_MAX if a string is NULL, or if they are too long. */
static size_t size_of_texts(const tenon_text *texts, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        if ((!texts[i].data && texts[i].length) || texts[i].length >= PTRDIFF_MAX - size)
            return SIZE_MAX;
        size += texts[i].length + 1;
    }
    return size;
}

/* Copy the strings into the memory after the array of the copies. */
static void copy_texts(tenon_text *copies, const tenon_text *texts, size_t count)
{
    char *next = (char *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        size_t length = texts[i].length;
        if (length)
            memcpy(next, texts[i].data, length);
        next[length] = '\0';
        copies[i] = (tenon_text){next, length};
        next += length + 1;
    }
}

tenon_status tenon_frame_host_result_list(tenon_call *call, int32_t index, const void *items, int64_t count)
{
    tenon_frame *f = tenon__frame_of(call);
    bool texts = tenon__is_result(call, index, TENON_KIND_STRS);
    bool numbers = tenon__is_result(call, index, TENON_KIND_INTS) || tenon__is_result(call, index, TENON_KIND_FLOATS);
    if (!(texts || numbers) || count < 0 || (!items && count))
        return tenon_fail(call, TENON_EFAILED, "result %d is not a list of numbers or strings, or its items are NULL",
                          (int)index);
    size_t item = texts ? sizeof(tenon_text) : sizeof(int64_t); /* a double has as many bytes */
    bool fits = (uint64_t)count <= PTRDIFF_MAX / item;
    size_t more = fits && texts ? size_of_texts(items, (size_t)count) : 0;
    if (more == SIZE_MAX)
        return tenon_fail(call, TENON_EFAILED, "a string of result %d is NULL or too long", (int)index);
    void *copy = fits ? tenon_block_alloc(&f->blocks, (size_t)count * item + more, 0) : NULL;
    if (!copy)
        return tenon_fail(call, TENON_ENOMEM, "no memory for a list of %lld items", (long long)count);
    if (texts)
        copy_texts(copy, items, (size_t)count);
    else if (count)
        memcpy(copy, items, (size_t)count * item);
    set_list(&call->results[index], copy, count);
    return TENON_OK;
}
