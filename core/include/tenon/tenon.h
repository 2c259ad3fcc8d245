/* Tenon's core: tensors that are owned, described and exchanged without copying.
 *
 *   types.h    status, error, dtype, device, view
 *   dlpack.h   the DLPack 1.3 structs
 *   view.h     checks, layout, overlap and copy of views
 *   tensor.h   owned tensors, DLPack in and out, views that share memory
 *   spec.h     constraints such as "f32[n, k] c"
 *   memory.h   counters, allocator, deferred release */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <tenon/dlpack.h>
#include <tenon/memory.h>
#include <tenon/spec.h>
#include <tenon/tensor.h>
#include <tenon/types.h>
#include <tenon/view.h>

#define TENON_VERSION "0.1.0"

/* The version of the library that was linked, as TENON_VERSION is of the header. */
#ifdef __cplusplus
extern "C"
#endif
    TENON_API const char *
    tenon_version(void);

#endif
