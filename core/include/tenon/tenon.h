/* Tenon's core: tensors that are owned, described and exchanged without copying.
 *
 *   function.h status, dtype, device, view; functions that every runtime can call, on its own
 *   types.h    errors, the names of dtypes and devices
 *   dlpack.h   the DLPack 1.3 structs
 *   view.h     checks, layout, overlap and copy of views
 *   tensor.h   owned tensors, DLPack in and out, views that share memory
 *   spec.h     constraints such as "f32[n, k] c"
 *   host.h     signatures, and what else a host of functions needs
 *   memory.h   counters, allocator, deferred release */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <tenon/dlpack.h>
#include <tenon/function.h>
#include <tenon/host.h>
#include <tenon/memory.h>
#include <tenon/spec.h>
#include <tenon/tensor.h>
#include <tenon/types.h>
#include <tenon/view.h>

#define TENON_VERSION "0.2.0"

/* The version of the library that was linked, as TENON_VERSION is of the header. */
#ifdef __cplusplus
extern "C"
#endif
    TENON_API const char *
    tenon_version(void);

#endif
