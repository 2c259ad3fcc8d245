/* Compression with zstd: bytes, or the memory of any array, in; bytes out. It needs libzstd. compress.py uses it. */
#include <stdlib.h>
#include <tenon/function.h>
#include <zstd.h>

static tenon_status give(tenon_call *call, void *memory, size_t size)
{
    tenon_status status = ZSTD_isError(size) ? tenon_fail(call, TENON_EINVAL, "zstd: %s", ZSTD_getErrorName(size))
                                             : tenon_return_bytes(call, 0, memory, size);
    free(memory);
    return status;
}

static tenon_status compress(tenon_call *call)
{
    size_t length = 0;
    const void *data = tenon_arg_bytes(call, 0, &length);
    size_t most = ZSTD_compressBound(length);
    void *memory = malloc(most);
    if (!memory)
        return TENON_ENOMEM;
    return give(call, memory, ZSTD_compress(memory, most, data, length, (int)tenon_arg_int(call, 1)));
}

static tenon_status decompress(tenon_call *call)
{
    size_t length = 0;
    const void *data = tenon_arg_bytes(call, 0, &length);
    unsigned long long size = ZSTD_getFrameContentSize(data, length);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > SIZE_MAX - 1)
        return tenon_fail(call, TENON_EINVAL, "this was not compressed by compress()");
    void *memory = malloc((size_t)size + 1);
    if (!memory)
        return TENON_ENOMEM;
    return give(call, memory, ZSTD_decompress(memory, (size_t)size, data, length));
}

TENON_MODULE(compress, "Compression.",
             TENON_FUNCTION("compress(data: bytes, level: int = 3) -> bytes", compress, "Compresses bytes."),
             TENON_FUNCTION("decompress(data: bytes) -> bytes", decompress, "Returns what compress() was given."))
