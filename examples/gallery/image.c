/* An image: its file as bytes, decoded to u8[h, w, 3], and made smaller. The format is PPM (P6). image.py uses it. */
#include <stdio.h>
#include <tenon/function.h>

static tenon_status decode(tenon_call *call)
{
    size_t length = 0;
    const unsigned char *data = tenon_arg_bytes(call, 0, &length);
    char head[32] = {0};
    int width = 0, height = 0, most = 0, begin = 0;
    for (size_t i = 0; i + 1 < sizeof head && i < length; i++)
        head[i] = (char)data[i];
    if (sscanf(head, "P6 %d %d %d%n", &width, &height, &most, &begin) != 3 || most != 255 || width < 1 || height < 1)
        return tenon_fail(call, TENON_EINVAL, "this is not a PPM file with 8 bits");
    size_t count = 3 * (size_t)width * (size_t)height, first = (size_t)begin + 1; /* after one white space */
    if (length < first || length - first < count)
        return tenon_fail(call, TENON_EINVAL, "the file is truncated: it has %zu bytes", length);
    const tenon_view *image = tenon_result_alloc(call, 0, 3, (int64_t[]){height, width, 3});
    if (!image)
        return TENON_EFAILED;
    unsigned char *pixels = image->data;
    for (size_t i = 0; i < count; i++)
        pixels[i] = data[first + i];
    return TENON_OK;
}

/* Each pixel of the result is the mean of the pixels that it covers. */
static tenon_status shrink(tenon_call *call)
{
    const tenon_view *in = tenon_arg(call, 0), *out = tenon_result(call, 0);
    const unsigned char *x = tenon_data(call, 0, uint8_t);
    unsigned char *y = tenon_result_data(call, 0, uint8_t);
    int64_t by = tenon_arg_int(call, 1), width = in->shape[1], channels = in->shape[2];
    for (int64_t i = 0; i < out->shape[0]; i++)
        for (int64_t j = 0; j < out->shape[1]; j++)
            for (int64_t c = 0; c < channels; c++) {
                int64_t sum = 0;
                for (int64_t k = 0; k < by * by; k++)
                    sum += x[((i * by + k / by) * width + j * by + k % by) * channels + c];
                *y++ = (unsigned char)(sum / (by * by));
            }
    return TENON_OK;
}

TENON_MODULE(image, "Images.",
             TENON_FUNCTION("decode(file: bytes) -> u8[?, ?, ?]", decode,
                            "Decodes a PPM file to rows, columns and colours."),
             TENON_FUNCTION("shrink(x: u8[h, w, c] c, by: int) -> u8[h // by, w // by, c] where by >= 1", shrink,
                            "Makes an image smaller."))
