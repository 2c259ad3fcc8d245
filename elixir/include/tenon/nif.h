/* Pass tensors between two NIFs that are not linked together: one requests the other's with enif_dynamic_resource_call.
 *
 * To fetch a tensor from the `ref` of a %Tenon.Tensor{}:
 *
 *   tenon_nif_request request = TENON_NIF_REQUEST;
 *   if (enif_dynamic_resource_call(env, enif_make_atom(env, TENON_NIF_MODULE), enif_make_atom(env, TENON_NIF_TYPE), ref,
 *                                  &request) || request.status)
 *       return …; // not a tensor of Tenon, or the reason in request.status
 *   DLManagedTensorVersioned *managed = request.managed; // yours: call its deleter once, on any thread
 *
 * To offer your own tensors, open your resource type by enif_init_resource_type with a `dyncall` that answers such a
 * request. Elixir then calls Tenon.from_resource(ref, {YourModule, :your_type}).
 *
 * This file needs no other, and can be copied alone. */
#ifndef TENON_NIF_H
#define TENON_NIF_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <stdint.h>

#define TENON_NIF_MODULE "Elixir.Tenon.Nif"
#define TENON_NIF_TYPE   "tenon_tensor_1"

/* Bits of `flags`. */
#define TENON_NIF_WRITE 1u /* request exclusive write access, until the deleter is called */

/* Values of request.status. */
enum {
    TENON_NIF_UNANSWERED = -1,
    TENON_NIF_OK = 0,
    TENON_NIF_E_VERSION = 1,  /* the other NIF does not know this version of the request */
    TENON_NIF_E_RELEASED = 2, /* the tensor was released */
    TENON_NIF_E_BUSY = 3,     /* it is being written; or write access was requested, and it is in use */
    TENON_NIF_E_READONLY = 4, /* write access was requested, and the memory is read-only */
    TENON_NIF_E_MEMORY = 5,   /* no memory */
    TENON_NIF_E_OVERLAP = 6   /* write access was requested, and elements share memory */
};

/* The caller sets the first three fields, the other NIF the last two. New fields are only added at the end. */
typedef struct tenon_nif_request {
    uint32_t size;
    uint32_t version;
    uint32_t flags;
    int32_t status;
    /* A DLManagedTensorVersioned (DLPack 1.x), which belongs to the caller. Until its deleter is called it counts as a
     * reader of the memory, so that no other code can write to it; with TENON_NIF_WRITE it counts as the one writer. */
    void *managed;
} tenon_nif_request;

/* A request that no NIF has answered yet. */
#define TENON_NIF_REQUEST                                                                                              \
    {                                                                                                                  \
        sizeof(tenon_nif_request), 1, 0, TENON_NIF_UNANSWERED, 0                                                       \
    }

#endif
