/* Tensors in memory that several processes share. Linux only: elsewhere every function fails with TENON_ESYSTEM and
 * err->os_error is ENOSYS.
 *
 * The memory is an anonymous file (memfd_create). Pass its descriptor to another process over a Unix socket or by fork,
 * or pass its name as text; the other process attaches, and both use the same pages. Nothing appears in any file system,
 * and the memory is freed when the last process has released it, even if a process is killed. A thread unmaps memory of
 * 64 MB and more, so that tenon_tensor_release returns at once.
 *
 * The first 4,096 bytes of the file are a header that describes the elements. It is read once, into a copy, and every
 * field is checked against the size of the file, which is sealed: no process can make the file shorter. docs/shared.md
 * says which mistakes of other processes this protects from. */
#ifndef TENON_SHARED_H
#define TENON_SHARED_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for any name, with its final 0. */
#define TENON_SHARED_NAME_SIZE 96

/* Create a tensor of zeros in memory that other processes can attach to, in C order. All its memory is allocated at once,
 * so that a later write cannot fail. Whoever attaches to it may write to it until it is frozen.
 *
 * Release:   tenon_tensor_release(*out).
 * Errors:    those of tenon_view_init (TENON_EDTYPE also for opaque values, which are addresses), TENON_ENOMEM,
 *            TENON_ESYSTEM. */
TENON_API TENON_NODISCARD tenon_status tenon_shared_zeros(tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                                                          tenon_tensor **out, tenon_error *err);

/* Make the memory read-only, here and for everyone who attaches from now on. Whoever attached before, while it was writable,
 * may still write: another process, or another tensor of this one. Freezing a frozen tensor does nothing. Freezing cannot
 * be undone.
 *
 * Threads:   no other thread may use `tensor` during the call.
 * Errors:    TENON_EINVAL (not a shared tensor, or a view of one), TENON_EFAILED (another reference exists: a view or an
 *            export could still be written to), TENON_ESYSTEM. On failure the tensor is writable as before. */
TENON_API TENON_NODISCARD tenon_status tenon_shared_freeze(tenon_tensor *tensor, tenon_error *err);

/* The same for a bridge that decides itself who may write, and whose other threads use the tensor meanwhile. The memory becomes
 * read-only, but the tensor and its views do not change: their flags still allow writing, and whoever writes through them is
 * ended by a fault. So the bridge must not let anyone write from the beginning of the call on, unless it fails.
 *
 * Threads:   others may read the tensor, and make and release views of it, during the call.
 * Errors:    TENON_EINVAL (not a shared tensor, or a view of one), TENON_ESYSTEM. On failure the memory is writable as
 *            before. */
TENON_API TENON_NODISCARD tenon_status tenon_shared_seal(const tenon_tensor *tensor, tenon_error *err);

/* The file descriptor of a shared tensor. It belongs to the tensor and is valid until the tensor is released; it is closed
 * in programs that this process executes.
 *
 * Errors:    TENON_EINVAL (not a shared tensor, or a view of one). */
TENON_API TENON_NODISCARD tenon_status tenon_shared_fd(const tenon_tensor *tensor, int *fd, tenon_error *err);

/* Write the name, "tenon-shared:1:<pid>:<fd>:<32 hexadecimal digits>". Another process of the same user and the same PID
 * namespace can open it as long as this process holds the tensor. The name is valid for this process: after a fork, ask
 * again.
 *
 * Errors:    TENON_EINVAL (not a shared tensor, or a view of one). */
TENON_API TENON_NODISCARD tenon_status tenon_shared_name(const tenon_tensor *tensor, char out[TENON_SHARED_NAME_SIZE],
                                                         tenon_error *err);

/* Call unmapped(watcher) once, when the memory of a shared tensor is about to be unmapped in this process: on any thread, after
 * the last tensor, view and export is released. A bridge learns from this how long an address is memory that must not be
 * written to. A tensor has one watcher at most.
 *
 * Threads:   no other thread may use `tensor` during the call.
 * Errors:    TENON_EINVAL (not a shared tensor, or a view of one, or it has a watcher). */
TENON_API TENON_NODISCARD tenon_status tenon_shared_watch(tenon_tensor *tensor, void *watcher,
                                                          tenon_release_fn unmapped, tenon_error *err);

/* Create a tensor from the descriptor of a shared tensor, which may come from any process. It is read-only if the memory is
 * frozen or if the descriptor is.
 *
 * Ownership: `fd` remains the caller's.
 * Release:   tenon_tensor_release(*out).
 * Errors:    TENON_EINVAL (not a shared tensor, or its header is invalid), TENON_EVERSION, TENON_ENOMEM, TENON_ESYSTEM. */
TENON_API TENON_NODISCARD tenon_status tenon_shared_attach(int fd, tenon_tensor **out, tenon_error *err);

/* The same by name.
 *
 * Release:   tenon_tensor_release(*out).
 * Errors:    those of tenon_shared_attach; TENON_EINVAL (not a name); TENON_EVERSION (the name of a newer Tenon);
 *            TENON_ESYSTEM with os_error ENOENT (the owner has ended or has released the tensor: the process does not have
 *            this descriptor any more, or it is a file that does not have the id of the name) or EACCES (a process of
 *            another user). */
TENON_API TENON_NODISCARD tenon_status tenon_shared_attach_name(const char *name, tenon_tensor **out, tenon_error *err);

#ifdef __cplusplus
}
#endif

#endif
