/* The services to a running function that are the same in every host. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- blocks */

struct tenon_block {
    tenon_block *next;
    void (*finish)(void *memory); /* or NULL */
};

enum { LEAST_ALIGNMENT = 16, MOST_ALIGNMENT = 4096 };

static bool is_alignment(size_t align)
{
    return (align & (align - 1)) == 0 && align <= MOST_ALIGNMENT;
}

static void *memory_of(tenon_block *block, size_t align)
{
    uintptr_t start = (uintptr_t)(block + 1);
    return (void *)((start + align - 1) & ~(uintptr_t)(align - 1));
}

void *tenon_block_alloc(tenon_block **list, size_t size, size_t align)
{
    if (!is_alignment(align) || size > PTRDIFF_MAX - MOST_ALIGNMENT - sizeof(tenon_block))
        return NULL;
    align = align < LEAST_ALIGNMENT ? LEAST_ALIGNMENT : align;
    tenon_block *block = malloc(sizeof *block + align + size);
    if (!block)
        return NULL;
    block->next = *list;
    block->finish = NULL;
    *list = block;
    return memory_of(block, align);
}

void *tenon__block_alloc_finished(tenon_block **list, size_t size, void (*finish)(void *memory))
{
    void *memory = tenon_block_alloc(list, size, LEAST_ALIGNMENT);
    if (memory)
        (*list)->finish = finish;
    return memory;
}

void *tenon__block_find(tenon_block **at, const tenon_block *end, void (*finish)(void *memory))
{
    tenon_block *block = *at;
    while (block != end && block->finish != finish)
        block = block->next;
    *at = block != end ? block->next : block;
    return block != end ? memory_of(block, LEAST_ALIGNMENT) : NULL;
}

void tenon_blocks_release(tenon_block *list)
{
    while (list) {
        tenon_block *next = list->next;
        if (list->finish)
            list->finish(memory_of(list, LEAST_ALIGNMENT));
        free(list);
        list = next;
    }
}

/* -------------------------------------------------------------------------------------------------------- failures */

void tenon__call_fail(tenon_error *error, tenon_status status, const char *message, size_t length)
{
    error->status = status;
    error->function = NULL;
    size_t room = sizeof error->message - 1;
    size_t shown = message ? length < room ? length : room : 0;
    if (shown)
        memcpy(error->message, message, shown);
    /* A library that does not use tenon_fail may split the last character of a message. */
    error->message[tenon__whole_characters(error->message, shown)] = '\0';
    if (shown < length && message)
        tenon__truncate(error->message, sizeof error->message);
}

void tenon__call_failure(const tenon_call *call, tenon_status status, tenon_error *error)
{
    if (call->flags & TENON_CALL_FAILED) {
        if (*error->message)
            return;
        status = error->status;
    }
    if (status > TENON_OK && status <= TENON_EFAILED)
        tenon_error_set(error, status, "it failed with %s and gave no reason", tenon_status_name(status));
    else
        tenon_error_set(error, status, "it returned %d, which is not a valid status", (int)status);
}

/* --------------------------------------------------------------------------------------------------------- results */

bool tenon__call_open_result(tenon_call *call, const tenon_signature *signature, const tenon_bindings *bindings,
                             int32_t index, int32_t ndim, const int64_t *shape, tenon_dtype *dtype)
{
    const tenon_parameter *result = index >= 0 && index < signature->nresults ? &signature->results[index] : NULL;
    if (result && (result->flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF))) {
        tenon_fail(call, TENON_EFAILED, "result %d is '%s': its code must call %s() instead of tenon_result_alloc()",
                   (int)index, result->flags & TENON_PARAMETER_OWN ? "own" : "of(...)",
                   result->flags & TENON_PARAMETER_OWN ? "tenon_result_own" : "tenon_result_of");
        return false;
    }
    if (result && result->items) {
        tenon_fail(call, TENON_EFAILED,
                   "result %d is a list of tensors: its code must call %s() instead of tenon_result_alloc()",
                   (int)index, result->flags & TENON_PARAMETER_EACH ? "tenon_result_tensors" : "tenon_result_push");
        return false;
    }
    return tenon__call_check_shape(call, signature, bindings, index, ndim, shape, dtype);
}

bool tenon__call_check_shape(tenon_call *call, const tenon_signature *signature, const tenon_bindings *bindings,
                             int32_t index, int32_t ndim, const int64_t *shape, tenon_dtype *dtype)
{
    tenon_error err;
    tenon_dtype known;
    int64_t numel;
    if (call->flags & TENON_CALL_FAILED)
        return false;
    bool in_list = tenon__is_result(call, index, TENON_KIND_TENSORS);
    if (!in_list &&
        !(tenon__is_result(call, index, TENON_KIND_TENSOR) && call->results[index].flags & TENON_VALUE_UNSET)) {
        tenon_fail(call, TENON_EFAILED, "result %d is not a tensor, or was already allocated", index);
    } else if (tenon__signature_open_result(signature, index, bindings, ndim, shape, &known, &err)) {
        tenon_fail(call, TENON_EFAILED, "%s", tenon_error_reason(&err)); /* the host adds the name of the function */
    } else if (tenon_shape_numel(ndim, shape, &numel, NULL) ||
               numel > INT64_MAX / 128) { /* no element has more bytes */
        tenon_fail(call, TENON_EOVERFLOW, "the shape of result %d is too large for any memory", index);
    } else if (dtype->bits && !tenon_dtype_equal(*dtype, known)) {
        tenon_fail(call, TENON_EFAILED, "the dtype of result %d is not the one in the signature", index);
    } else {
        *dtype = known;
        return true;
    }
    return false;
}

tenon_status tenon__call_result_str(tenon_call *call, tenon_block **list, int32_t index, const char *text,
                                    size_t length)
{
    if (!tenon__is_result(call, index, TENON_KIND_STR) || (!text && length) || length > PTRDIFF_MAX)
        return tenon_fail(call, TENON_EFAILED, "result %d is not a str, or its string is NULL or too long", index);
    char *copy = tenon_block_alloc(list, length + 1, 0);
    if (!copy)
        return tenon_fail(call, TENON_ENOMEM, "no memory for a string of %zu bytes", length);
    if (length)
        memcpy(copy, text, length);
    copy[length] = '\0';
    call->results[index].as.list.data = copy;
    call->results[index].as.list.length = (int64_t)length;
    call->results[index].flags &= ~TENON_VALUE_UNSET;
    return TENON_OK;
}

void *tenon__call_scratch(tenon_call *call, tenon_block **list, size_t bytes, size_t align)
{
    void *memory = tenon_block_alloc(list, bytes, align);
    if (!memory && !is_alignment(align))
        tenon_fail(call, TENON_EINVAL, "the alignment of scratch memory must be a power of two up to %d, got %zu",
                   MOST_ALIGNMENT, align);
    else if (!memory)
        tenon_fail(call, TENON_ENOMEM, "no memory for %zu bytes of scratch memory aligned to %zu", bytes, align);
    return memory;
}
