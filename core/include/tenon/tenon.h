/* Tenon's core: describe, own and exchange tensors without copying.
 *
 *   abi.h      status, dtype, device, view, and what libraries of functions and their hosts agree on
 *   function.h write functions for every runtime
 *   types.h    errors; names of dtypes and devices
 *   dlpack.h   the DLPack 1.3 structs
 *   view.h     validate, inspect and copy views
 *   tensor.h   owned tensors, DLPack import and export, views that share memory
 *   shared.h   tensors in memory that several processes share
 *   spec.h     constraints such as "f32[n, k] c"
 *   host.h     what a host needs to call functions: libraries, signatures, and the steps of a call
 *   memory.h   counters, allocator, deferred release */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/dlpack.h>
#include <tenon/function.h>
#include <tenon/host.h>
#include <tenon/memory.h>
#include <tenon/shared.h>
#include <tenon/spec.h>
#include <tenon/tensor.h>
#include <tenon/types.h>
#include <tenon/view.h>

#define TENON_VERSION "0.2.0"

/* The version of the linked library. TENON_VERSION is the version of the header. */
#ifdef __cplusplus
extern "C"
#endif
    TENON_API const char *
    tenon_version(void);

#endif
