/* Attaches to a file whose header the input has changed: a header is refused, or all its elements are in the file. */
#define _GNU_SOURCE
#include "fuzz.h"

#ifdef __linux__

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEADER = 4096, ELEMENTS = 160, ADD_SEALS = 1033, ALLOW_SEALING = 2, SIZE_SEALS = 2 | 4 };

/* A sealed file with room for a header and some elements, and the header of f32[2,3]. */
static int fuzz_file(unsigned char header[HEADER])
{
    tenon_tensor *tensor = NULL;
    int own = -1;
    FUZZ_CHECK(tenon_shared_zeros((tenon_dtype){TENON_CODE_FLOAT, 32, 1}, 2, (int64_t[]){2, 3}, &tensor, NULL) ==
               TENON_OK);
    FUZZ_CHECK(tenon_shared_fd(tensor, &own, NULL) == TENON_OK);
    FUZZ_CHECK(pread(own, header, HEADER, 0) == HEADER);
    tenon_tensor_release(tensor);
    int file = (int)syscall(SYS_memfd_create, "fuzz", ALLOW_SEALING);
    FUZZ_CHECK(file >= 0 && ftruncate(file, HEADER + ELEMENTS) == 0 && fcntl(file, ADD_SEALS, SIZE_SEALS) == 0);
    return file;
}

/* Each change is an offset, a number of bytes, and the bytes. Small offsets are fields; 255 is any byte of the rest. */
static void fuzz_change(fuzz_input *in, unsigned char header[HEADER])
{
    while (in->size > 0) {
        static const int fields[] = {0,  8,  12, 16, 32,  33,  34,  36,  40,   48,
                                     56, 64, 72, 80, 568, 576, 584, 592, 1080, 1088};
        int choice = fuzz_byte(in), length = 1 + fuzz_byte(in) % 8;
        int at = choice < 255 ? fields[(size_t)choice % (sizeof fields / sizeof *fields)]
                              : (int)(fuzz_bytes(in, 2) % HEADER);
        for (int i = 0; i < length && at + i < HEADER; i++)
            header[at + i] = (unsigned char)fuzz_byte(in);
    }
}

/* Read the elements with the lowest and the highest address. */
static void fuzz_read_ends(const tenon_view *view)
{
    int64_t low = 0, high = 0, bytes = (view->dtype.bits * view->dtype.lanes + 7) / 8;
    for (int32_t i = 0; i < view->ndim; i++) {
        int64_t span = view->numel ? (view->shape[i] - 1) * view->strides[i] : 0;
        low += span < 0 ? span : 0;
        high += span > 0 ? span : 0;
    }
    if (view->numel == 0)
        return;
    FUZZ_CHECK((high - low + 1) * view->dtype.bits * view->dtype.lanes <= 8 * ELEMENTS);
    const volatile unsigned char *first = view->data;
    (void)first[low * bytes];
    (void)first[high * (view->dtype.bits * view->dtype.lanes) / 8];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char valid[HEADER];
    static int file = -1;
    unsigned char header[HEADER];
    if (file < 0)
        file = fuzz_file(valid);
    memcpy(header, valid, HEADER);
    fuzz_change(&(fuzz_input){data, size}, header);
    FUZZ_CHECK(pwrite(file, header, HEADER, 0) == HEADER);

    tenon_tensor *tensor = NULL;
    tenon_error err = {0};
    tenon_status status = tenon_shared_attach(file, &tensor, &err);
    fuzz_check_error(status, &err);
    if (status) {
        FUZZ_CHECK(!tensor && (status == TENON_EINVAL || status == TENON_EVERSION));
        return 0;
    }
    FUZZ_CHECK(!(tenon_tensor_view(tensor)->flags & TENON_READ_ONLY)); /* a seal freezes, the flag alone does not */
    fuzz_read_ends(tenon_tensor_view(tensor));
    tenon_tensor_release(tensor);
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
    return 0;
}

#endif
