/* Room for a tensor in the memory of its owner, which saves an allocation for each import. */
#ifndef TENON_HOST_ROOM_H
#define TENON_HOST_ROOM_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor with at most this many dimensions fits. */
enum { TENON_ROOM_DIMS = 4 };

/* A part of the owner's struct. */
typedef struct tenon_tensor_room {
    int64_t words[20 + 2 * TENON_ROOM_DIMS];
} tenon_tensor_room;

/* As tenon_tensor_from_view, but the tensor is in `room`, which belongs to it until `release` is called. A tensor that does not
 * fit, and every tensor of TENON_DEBUG, has memory of its own.
 *
 * Ownership: takes `owner` on success. `release` may free the room.
 * Threads:   any.
 * Errors:    those of tenon_tensor_from_view. */
TENON_API TENON_NODISCARD tenon_status tenon_tensor_place(tenon_tensor_room *room, const tenon_view *view, void *owner,
                                                          tenon_release_fn release, tenon_tensor **out,
                                                          tenon_error *err);
#ifdef TENON_ORIGINS
#define tenon_tensor_place(...) TENON__ON_LINE(tenon_tensor_place(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif

#endif
