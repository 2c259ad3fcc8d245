/* Room for a tensor in the memory of its owner, which saves an allocation for each import. */
#ifndef TENON_HOST_ROOM_H
#define TENON_HOST_ROOM_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A part of the owner's struct. */
typedef struct tenon_tensor_room {
    int64_t words[20];
} tenon_tensor_room;

/* As tenon_tensor_from_view, but the tensor is in `room`, and its shape and strides are those of `view`. All of them belong to it
 * until `release` is called. A tensor of TENON_DEBUG has memory of its own.
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
