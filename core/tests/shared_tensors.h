/* What the tests of shared tensors have in common. Included after _GNU_SOURCE is defined. */
#ifndef TENON_TESTS_SHARED_TENSORS_H
#define TENON_TESTS_SHARED_TENSORS_H

#include "check.h"

enum { HEADER = 4096, SEALS = 2 | 4, FUTURE_WRITE = 16 };

static const tenon_dtype f32 = {TENON_CODE_FLOAT, 32, 1};

static inline tenon_tensor *shared(int32_t ndim, const int64_t *shape)
{
    tenon_tensor *tensor = NULL;
    OK(tenon_shared_zeros(f32, ndim, shape, &tensor, &err));
    return tensor;
}

static inline float *data_of(const tenon_tensor *tensor)
{
    return tenon_tensor_view(tensor)->data;
}

static inline int descriptor(const tenon_tensor *tensor)
{
    int fd = -1;
    OK(tenon_shared_fd(tensor, &fd, &err));
    return fd;
}

static inline tenon_tensor *attached(int fd)
{
    tenon_tensor *tensor = NULL;
    OK(tenon_shared_attach(fd, &tensor, &err));
    return tensor;
}

static inline bool read_only(const tenon_tensor *tensor)
{
    return tenon_tensor_view(tensor)->flags & TENON_READ_ONLY;
}

#endif
