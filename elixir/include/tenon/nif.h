/* Tensors between two NIFs that do not link each other: one asks for the other's by enif_dynamic_resource_call.
 *
 * To fetch a tensor from the `ref` of a %Tenon.Tensor{}:
 *
 *   tenon_nif_request request = TENON_NIF_REQUEST;
 *   if (enif_dynamic_resource_call(env, enif_make_atom(env, TENON_NIF_MODULE), enif_make_atom(env, TENON_NIF_TYPE), ref,
 *                                  &request) || request.status)
 *       return …; // no tensor of Tenon's, or what request.status says
 *   DLManagedTensorVersioned *managed = request.managed; // yours: call its deleter once, on any thread
 *
 * To be asked, open your resource type by enif_init_resource_type with a `dyncall` that answers such a request, and let
 * Elixir call Tenon.from_resource(ref, {YourModule, :your_type}).
 *
 * This file can be copied alone, and needs no other. */
#ifndef TENON_NIF_H
#define TENON_NIF_H

#include <stdint.h>

#define TENON_NIF_MODULE "Elixir.Tenon.Nif"
#define TENON_NIF_TYPE   "tenon_tensor_1"

/* Bits of `flags`. */
#define TENON_NIF_WRITE 1u /* the asker wants to write: alone, until it calls the deleter */

/* What request.status says. */
enum {
    TENON_NIF_UNANSWERED = -1,
    TENON_NIF_OK = 0,
    TENON_NIF_E_VERSION = 1,  /* a request that the other side cannot read */
    TENON_NIF_E_RELEASED = 2, /* the tensor was released */
    TENON_NIF_E_BUSY = 3,     /* it is being written; or used, and the asker wants to write */
    TENON_NIF_E_READONLY = 4, /* the asker wants to write, and may not */
    TENON_NIF_E_MEMORY = 5,   /* no memory */
    TENON_NIF_E_OVERLAP = 6   /* the asker wants to write, and elements share memory */
};

/* The asker fills in the first three, the other side the last two. Grows only at its end. */
typedef struct tenon_nif_request {
    uint32_t size;
    uint32_t version;
    uint32_t flags;
    int32_t status;
    /* A DLManagedTensorVersioned (DLPack 1.x) of the asker's from now on. Until its deleter is called it counts as a
     * reader of the memory, which nobody can write meanwhile; with TENON_NIF_WRITE as the one writer. */
    void *managed;
} tenon_nif_request;

#define TENON_NIF_REQUEST                                                                                              \
    {                                                                                                                  \
        sizeof(tenon_nif_request), 1, 0, TENON_NIF_UNANSWERED, 0                                                       \
    }

#endif
