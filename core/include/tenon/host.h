/* For hosts of functions: everything that a runtime needs to call functions that were written with function.h.
 *
 *   host/library.h    open a library, check it, hash it, lock it
 *   host/signature.h  compile a signature, and read its parameters, results and dimensions
 *   host/client.h     the table of functions that a host gives the driver, and the services that a function gets from it
 *   host/frame.h      one call, step by step
 *   host/plan.h       the fast path: most calls in few instructions
 *   host/room.h       a tensor in the memory of its owner
 *
 * A host opens a library (tenon_library_open) and compiles each of its signatures once (tenon_signature_alloc). For a call
 * it fills a tenon_frame with the values of its runtime; the driver matches them, works out the shapes of the results, and
 * runs the function. docs/hosts.md is the contract, and has a complete host.
 *
 * This is an API, not an ABI: hosts read the structs, and the steps of a call are inline. The layouts may change in every
 * release. So compile a host with the headers of the core that it is linked to; tenon_signature_alloc refuses any other.
 *
 * The steps that every call takes are inline, and some take the client as an argument: if it is a `static const` table,
 * the compiler calls its functions directly. The steps that only a failing call takes are functions of the core. */
#ifndef TENON_HOST_H
#define TENON_HOST_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/function.h> /* tenon_fail, with which a client's function fails the call */
#include <tenon/host/client.h>
#include <tenon/host/frame.h>
#include <tenon/host/library.h>
#include <tenon/host/plan.h>
#include <tenon/host/room.h>
#include <tenon/host/signature.h>

#endif
