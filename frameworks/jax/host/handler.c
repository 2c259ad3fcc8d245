/* What XLA calls: the answer to its question for a version, the function of a call, and errors. */
#include "internal.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- errors */

static int32_t xla_code_of(tenon_status status)
{
    switch (status) {
    case TENON_ENOMEM:
        return xla_resource_exhausted;
    case TENON_EOVERFLOW:
    case TENON_EBOUNDS:
        return xla_out_of_range;
    case TENON_EVERSION:
        return xla_unimplemented;
    default:
        return status > TENON_OK && status < TENON_EFAILED ? xla_invalid_argument : xla_internal;
    }
}

/* JAX turns the message into a string of Python. Without XLA's functions nothing can be reported, and nothing has run. */
static xla_error *xla_fail(const xla_frame *frame, int32_t code, tenon_error *err)
{
    const xla_api *api = frame->api;
    if (!api || !XLA_HAS(api, xla_api, create_error))
        return NULL;
    tenon_utf8_replace_invalid(err->message);
    return api->create_error(
        &(xla_error_create){.size = XLA_END(xla_error_create, code), .message = err->message, .code = code});
}

static xla_error *xla_fail_unknown(const xla_frame *frame, xla_span fn, xla_span hash)
{
    const tenon__jax_function *other = tenon__jax_find(fn, (xla_span){NULL, 0});
    int name = (int)(fn.length < 256 ? fn.length : 256), digits = (int)(hash.length < 64 ? hash.length : 64);
    const tenon__jax_function *renamed = tenon__jax_find_renamed(fn, hash);
    tenon_error err;
    if (renamed) {
        const char *function = strrchr(renamed->fn, '.'); /* ".function", with which both names end */
        int module = (int)(fn.length - strlen(function));
        tenon_error_set(&err, TENON_EINVAL,
                        "the program calls %.*s, but its library, with hash %.*s, is loaded under another name, as %s; "
                        "call tenon.jax_ops(..., name='%.*s')",
                        name, fn.text, digits, hash.text, renamed->fn, module < 256 ? module : 256, fn.text);
    } else if (other)
        tenon_error_set(&err, TENON_EINVAL,
                        "the program was compiled with %.*s of the library with hash %.*s, but the library with hash "
                        "%s is loaded; compile the program again, or load the library that it was compiled with and "
                        "pass it to tenon.jax_ops()",
                        name, fn.text, digits, hash.text, other->hash);
    else
        tenon_error_set(&err, TENON_EINVAL,
                        "the program calls %.*s of the library with hash %.*s, which is not loaded in this process; "
                        "load it and pass it to tenon.jax_ops()",
                        name, fn.text, digits, hash.text);
    return xla_fail(frame, xla_not_found, &err);
}

/* -------------------------------------------------------------------------------------------------------- metadata */

/* XLA asks for the version that the handler was made for. The structs that we use are the same in all minor versions, so
 * the answer is XLA's own; those that pass no functions here accept only 0.1. */
static bool xla_answer_metadata(const xla_frame *frame, uint32_t traits)
{
    const xla_extension *extension = frame->extensions;
    while (extension && extension->type != xla_extension_metadata)
        extension = extension->next;
    if (!extension)
        return false;
    xla_metadata *metadata = extension->size >= XLA_END(xla_metadata_extension, metadata)
                                 ? ((const xla_metadata_extension *)(const void *)extension)->metadata
                                 : NULL;
    if (metadata && XLA_HAS(metadata, xla_metadata, version)) {
        const xla_api *api = frame->api;
        bool known = api && XLA_HAS(api, xla_api, version);
        metadata->version = (xla_version){.size = XLA_END(xla_version, minor), .minor = known ? api->version.minor : 1};
    }
    if (metadata && XLA_HAS(metadata, xla_metadata, traits))
        metadata->traits = traits;
    return true;
}

/* -------------------------------------------------------------------------------------------------------- the call */

static bool xla_is_named(const xla_attributes *attributes, int64_t index, const char *name, size_t length)
{
    const xla_span *span = attributes->names[index];
    return attributes->types[index] == xla_attr_string && span->length == length &&
           memcmp(span->text, name, length) == 0;
}

static inline xla_error *xla_handle(xla_frame *frame, bool on_gpu, uint32_t traits)
{
    tenon_error err;
    if (!XLA_HAS(frame, xla_frame, api))
        return NULL;
    if (frame->extensions && xla_answer_metadata(frame, traits))
        return NULL;
    const xla_attributes *attributes = &frame->attributes;
    bool whole = XLA_HAS(frame, xla_frame, attributes) && XLA_HAS(attributes, xla_attributes, items) &&
                 XLA_HAS(&frame->arguments, xla_buffers, items) && XLA_HAS(&frame->results, xla_buffers, items);
    if (whole && frame->stage >= 0 && frame->stage < xla_stage_execute) /* nothing to prepare */
        return NULL;
    if (!whole || frame->stage != xla_stage_execute) {
        tenon_error_set(&err, TENON_EVERSION, "this version of XLA passes calls that Tenon does not know");
        return xla_fail(frame, xla_unimplemented, &err);
    }
    if (attributes->count < 3 || !xla_is_named(attributes, 0, "args", 4) || !xla_is_named(attributes, 1, "fn", 2) ||
        !xla_is_named(attributes, 2, "hash", 4)) {
        tenon_error_set(&err, TENON_EINVAL,
                        "a call of tenon1 has the attributes 'args', 'fn' and 'hash'; call "
                        "functions by tenon.jax_ops()");
        return xla_fail(frame, xla_invalid_argument, &err);
    }
    xla_span fn = *(const xla_span *)attributes->items[1], hash = *(const xla_span *)attributes->items[2];
    const tenon__jax_function *function = tenon__jax_find(fn, hash);
    if (!function)
        return xla_fail_unknown(frame, fn, hash);
    if (!tenon__jax_call(function, frame, on_gpu, &err))
        return NULL;
    return xla_fail(frame, xla_code_of(err.status), &err);
}

xla_error *tenon__jax_handle_cpu(xla_frame *frame)
{
    return xla_handle(frame, false, 0);
}

xla_error *tenon__jax_handle_cuda(xla_frame *frame)
{
    return xla_handle(frame, true, 0);
}

xla_error *tenon__jax_handle_capturable(xla_frame *frame)
{
    return xla_handle(frame, true, xla_trait_capturable);
}
