/* Shared tensors on systems that have none. */
#include "internal.h"

#if !defined(__linux__) && !defined(TENON_NO_SYSTEM)

#include <tenon/shared.h>

#include <errno.h>
#include <string.h>

static tenon_status no_system(const char *function, tenon_error *err)
{
    tenon_error_set_in(err, TENON_ESYSTEM, function, "shared tensors need Linux: %s", strerror(ENOSYS));
    if (err)
        err->os_error = ENOSYS;
    return TENON_ESYSTEM;
}

tenon_status tenon_shared_zeros(tenon_dtype dtype, int32_t ndim, const int64_t *shape, tenon_tensor **out,
                                tenon_error *err)
{
    (void)dtype, (void)ndim, (void)shape, (void)out;
    return no_system("tenon_shared_zeros", err);
}

tenon_status tenon_shared_freeze(tenon_tensor *tensor, tenon_error *err)
{
    (void)tensor;
    return no_system("tenon_shared_freeze", err);
}

tenon_status tenon_shared_seal(const tenon_tensor *tensor, tenon_error *err)
{
    (void)tensor;
    return no_system("tenon_shared_seal", err);
}

tenon_status tenon_shared_fd(const tenon_tensor *tensor, int *fd, tenon_error *err)
{
    (void)tensor, (void)fd;
    return no_system("tenon_shared_fd", err);
}

tenon_status tenon_shared_name(const tenon_tensor *tensor, char out[TENON_SHARED_NAME_SIZE], tenon_error *err)
{
    (void)tensor, (void)out;
    return no_system("tenon_shared_name", err);
}

tenon_status tenon_shared_watch(tenon_tensor *tensor, void *watcher, tenon_release_fn unmapped, tenon_error *err)
{
    (void)tensor, (void)watcher, (void)unmapped;
    return no_system("tenon_shared_watch", err);
}

tenon_status tenon_shared_attach(int fd, tenon_tensor **out, tenon_error *err)
{
    (void)fd, (void)out;
    return no_system("tenon_shared_attach", err);
}

tenon_status tenon_shared_attach_name(const char *name, tenon_tensor **out, tenon_error *err)
{
    (void)name, (void)out;
    return no_system("tenon_shared_attach_name", err);
}

#endif
