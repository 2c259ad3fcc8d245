/* What the NIF's sources share: a client of the core's public headers and of erl_nif.h.
 *
 * Two kinds of resources. A *storage* is somebody's memory: it has the one state that says who may read and write, and
 * is alive as long as a tensor or a binary uses it. A *tensor* is a handle on a storage: what `ref` in a %Tenon.Tensor{}
 * is. Views are further tensors on the same storage.
 *
 * Every function here may be called on any scheduler, dirty or not, and by threads that are none, where it needs no
 * environment. */
#ifndef TENON_NIF_SHARED_H
#define TENON_NIF_SHARED_H

#include <erl_nif.h>
#include <stdatomic.h>

#define TENON_ORIGINS /* reports of TENON_DEBUG name the NIF's line */
#include "tenon.h"
#include "tenon_host_private.h"

/* ---------------------------------------------------------------------------------------------------------- limits */

enum {
    /* From so many bytes of arguments on a function runs on a dirty scheduler, unless it or its module says otherwise. */
    TENON_NIF_DIRTY_CALL = 32 * 1024,
    /* The same for our own copies: 256 KiB take about 0.2 ms cold. */
    TENON_NIF_DIRTY_BYTES = 256 * 1024,
    /* And for elements of lists, at up to 100 ns each. */
    TENON_NIF_DIRTY_ELEMENTS = 4096,
    /* Blocks from this size on are freed by the reaper: 16 MiB took 1.2 ms on a busy machine. */
    TENON_NIF_REAPED_BYTES = 4 * 1024 * 1024,
    /* Memory from this size on is charged to the process that makes it. A smaller tensor's terms, which the process's
     * heap has, take about as much. */
    TENON_NIF_CHARGED_BYTES = 1024,
    /* What is done in a microsecond, roughly: bytes filled or copied in memory that is not in the caches, elements read
     * from lists or put into them, words of terms copied. */
    TENON_NIF_BYTES_PER_MICROSECOND = 2 * 1024,
    TENON_NIF_ELEMENTS_PER_MICROSECOND = 10,
    TENON_NIF_WORDS_PER_MICROSECOND = 200
};

/* Go on as `nif` on a dirty scheduler; use it as the return value of a NIF. */
ERL_NIF_TERM tenon_nif_dirty(ErlNifEnv *env, const char *name,
                             ERL_NIF_TERM (*nif)(ErlNifEnv *, int, const ERL_NIF_TERM[]), int argc,
                             const ERL_NIF_TERM argv[]);

/* Tell a normal scheduler how long it was held, so that the process gives way in time. */
void tenon_nif_report(ErlNifEnv *env, uint64_t micros);

/* ----------------------------------------------------------------------------------------------------------- atoms */

#define TENON_NIF_ATOMS(X)                                                                                             \
    X(ok)                                                                                                              \
    X(error)                                                                                                           \
    X(nil)                                                                                                             \
    X(nan)                                                                                                             \
    X(infinity)                                                                                                        \
    X(neg_infinity)                                                                                                    \
    X(__struct__)                                                                                                      \
    X(__exception__)                                                                                                   \
    X(ref)                                                                                                             \
    X(type)                                                                                                            \
    X(shape)                                                                                                           \
    X(strides)                                                                                                         \
    X(device)                                                                                                          \
    X(byte_size)                                                                                                       \
    X(names)                                                                                                           \
    X(reason)                                                                                                          \
    X(message)                                                                                                         \
    X(function)                                                                                                        \
    X(argument)                                                                                                        \
    X(cpu)                                                                                                             \
    X(s)                                                                                                               \
    X(u)                                                                                                               \
    X(f)                                                                                                               \
    X(bf)                                                                                                              \
    X(c)                                                                                                               \
    X(mismatch)                                                                                                        \
    X(overlap)                                                                                                         \
    X(failed)                                                                                                          \
    X(owner_too_large)                                                                                                 \
    X(overflow)                                                                                                        \
    X(badarg)                                                                                                          \
    X(size_mismatch)                                                                                                   \
    X(unsupported_type)                                                                                                \
    X(misaligned)                                                                                                      \
    X(not_contiguous)                                                                                                  \
    X(device_mismatch)                                                                                                 \
    X(readonly)                                                                                                        \
    X(would_copy)                                                                                                      \
    X(released)                                                                                                        \
    X(busy)                                                                                                            \
    X(not_local)                                                                                                       \
    X(stale)                                                                                                           \
    X(library)                                                                                                         \
    X(never)                                                                                                           \
    X(allow)                                                                                                           \
    X(always)                                                                                                          \
    X(live)                                                                                                            \
    X(bytes)                                                                                                           \
    X(deferred)                                                                                                        \
    X(no_memory)                                                                                                       \
    X(charge)

/* tenon_nif_atoms.ok and so on; valid in every environment. */
typedef struct tenon_nif_atom_table {
#define TENON_NIF_ATOM(name) ERL_NIF_TERM name;
    TENON_NIF_ATOMS(TENON_NIF_ATOM)
#undef TENON_NIF_ATOM
    ERL_NIF_TERM yes;           /* true; the C names are macros */
    ERL_NIF_TERM no;            /* false */
    ERL_NIF_TERM boolean;       /* :bool */
    ERL_NIF_TERM tensor_module; /* Tenon.Tensor */
    ERL_NIF_TERM error_module;  /* Tenon.Error */
} tenon_nif_atom_table;

extern tenon_nif_atom_table tenon_nif_atoms;

/* ---------------------------------------------------------------------------------------------------------- errors */

/* {:error, %Tenon.Error{}}. `function` and `argument` (each may be NULL: nil) become atoms, so they come from a finite
 * set; the message is as printf would make it, in UTF-8. */
ERL_NIF_TERM tenon_nif_error(ErlNifEnv *env, ERL_NIF_TERM reason, const char *function, const char *argument,
                             const char *format, ...) TENON_PRINTF(5, 6);

/* "an integer", "nil", "Nx.Tensor": what a term is, for messages. */
void tenon_nif_describe(ErlNifEnv *env, ERL_NIF_TERM term, char *buffer, size_t size);

/* Put a "?" in place of each byte that is not UTF-8. */
void tenon_nif_mend_utf8(char *text, size_t length);

/* {:error, {:badarg, argument}}: "function(): argument 'x': expected …". */
ERL_NIF_TERM tenon_nif_badarg(ErlNifEnv *env, const char *function, const char *argument, const char *expected);

/* {:failed, :no_memory}, {:failed, :einval}; a status that means nothing as a number. */
ERL_NIF_TERM tenon_nif_failed(ErlNifEnv *env, tenon_status status);
/* The same, with the message of a function that failed. */
ERL_NIF_TERM tenon_nif_failure(ErlNifEnv *env, const char *function, const tenon_error *err);

/* The reason that stands for a status of the core. */
ERL_NIF_TERM tenon_nif_reason(ErlNifEnv *env, tenon_status status, const char *argument);

/* {:error, …} for a failure of the core, with its message. */
ERL_NIF_TERM tenon_nif_core_error(ErlNifEnv *env, const tenon_error *err, const char *function, const char *argument);

/* {:ok, term}. */
ERL_NIF_TERM tenon_nif_ok(ErlNifEnv *env, ERL_NIF_TERM term);

/* --------------------------------------------------------------------------------------------------- terms and back */

/* Called at load and at each upgrade. */
void tenon_nif_terms_init(ErlNifEnv *env);

/* Whether the bridge has tensors of this type: whole bytes and one lane. */
bool tenon_nif_has_type(tenon_dtype dtype);
/* {:f, 32}, :f32, :float32, :double … to a dtype that the bridge has. */
bool tenon_nif_get_type(ErlNifEnv *env, ERL_NIF_TERM term, tenon_dtype *out);
/* The Nx name where there is one ({:s, 64}, {:bf, 16}), else {:bool, 8}, {:f8_e4m3fn, 8}. */
ERL_NIF_TERM tenon_nif_make_type(ErlNifEnv *env, tenon_dtype dtype);
/* The error for a term that is no such type. */
ERL_NIF_TERM tenon_nif_bad_type(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument);
/* Whether values of this type can be told as terms: all but f128, opaque and 128-bit integers. */
bool tenon_nif_type_has_terms(tenon_dtype dtype);

/* "f32", "s64", "f8_e4m3fn": the type's name here, for messages. */
void tenon_nif_type_name(tenon_dtype dtype, char *buffer, size_t size);

/* Whether a binary's bytes start inside a byte: the runtime shows them by copying all of them. OTP 27 and newer do not
 * let that be seen: false. */
bool tenon_nif_starts_inside_byte(ErlNifEnv *env, ERL_NIF_TERM binary);
/* The same for a part of more than 64 bytes, or a small binary. */
bool tenon_nif_is_copied_to_show(ErlNifEnv *env, ERL_NIF_TERM part);

/* {:error, {:misaligned, need, got}}; `hint` is added to the message. */
ERL_NIF_TERM tenon_nif_misaligned(ErlNifEnv *env, tenon_dtype dtype, uint64_t address, const char *function,
                                  const char *argument, const char *hint);

/* One element and its term: numbers, :nan | :infinity | :neg_infinity, {re, im}, true and false. `data` may be
 * unaligned. False: the term is no value of the type, or beyond it. */
bool tenon_nif_get_element(ErlNifEnv *env, ERL_NIF_TERM term, tenon_dtype dtype, void *data);
ERL_NIF_TERM tenon_nif_make_element(ErlNifEnv *env, tenon_dtype dtype, const void *data);

/* A double and its term: integers are taken too, and the three atoms. */
bool tenon_nif_get_double(ErlNifEnv *env, ERL_NIF_TERM term, double *out);
ERL_NIF_TERM tenon_nif_make_double(ErlNifEnv *env, double value);

/* A tuple or a list of up to TENON_MAX_NDIM integers. */
bool tenon_nif_get_dims(ErlNifEnv *env, ERL_NIF_TERM term, int32_t *ndim, int64_t dims[TENON_MAX_NDIM]);
ERL_NIF_TERM tenon_nif_make_tuple(ErlNifEnv *env, int32_t count, const int64_t *values);
ERL_NIF_TERM tenon_nif_make_list(ErlNifEnv *env, int32_t count, const int64_t *values);

/* :cpu, :cuda (id 0), {:cuda, 1}. */
bool tenon_nif_get_device(ErlNifEnv *env, ERL_NIF_TERM term, tenon_device *out);
ERL_NIF_TERM tenon_nif_make_device(ErlNifEnv *env, tenon_device device);

/* -------------------------------------------------------------------------------------------------------- the reaper
 *
 * A thread of ours, with all signals blocked, for what may not run on a scheduler: releases of others' memory, owner
 * environments that are not small, large blocks. It lives as long as the VM. */

/* Run release(owner) there. `node` is the caller's, inside the owner, so that this cannot fail; never waits. */
void tenon_nif_reap(tenon_deferred_node *node, void (*release)(void *owner), void *owner);

/* ----------------------------------------------------------------------------------------------------------- memory
 *
 * What a process drops is given back when its garbage is collected, which happens the sooner the more memory the
 * process is charged for. So memory that Tenon allocates is a binary of the runtime, made in the process's environment.
 * Making one starts collections of young garbage only, and memory of others cannot be charged at all: Tenon.Memory
 * counts what each process makes, and collects everything above its budget.
 *
 * A process that receives the tensor is not charged: OTP 25 charges a binary that is copied with a message by the bytes
 * that it shows, and no term may show memory that can still be written. */

/* As tenon_tensor_alloc; from TENON_NIF_CHARGED_BYTES on in a binary. Any thread. */
TENON_NODISCARD tenon_status tenon_nif_alloc(tenon_dtype dtype, int32_t ndim, const int64_t *shape, uint32_t options,
                                             tenon_tensor **out, tenon_error *err);

/* Charge the caller's process for such a tensor, once, when it is given out. False: no memory. */
TENON_NODISCARD bool tenon_nif_publish(ErlNifEnv *env, tenon_tensor *tensor);

/* The binary that has the elements of a published tensor somewhere inside. False: it has none. */
TENON_NODISCARD bool tenon_nif_binary_of(ErlNifEnv *env, const tenon_tensor *root, ERL_NIF_TERM *out);

/* {:charge, bytes, result}, for Tenon.Memory, with a report to the scheduler; `result` itself for a few bytes. */
ERL_NIF_TERM tenon_nif_charged(ErlNifEnv *env, ERL_NIF_TERM result, uint64_t bytes);

/* Bytes of all tensors in binaries. */
int64_t tenon_nif_held_bytes(void);

/* --------------------------------------------------------------------------------------------------------- storages */

typedef enum tenon_nif_origin {
    TENON_NIF_OURS,    /* tenon_nif_alloc made it */
    TENON_NIF_BINARY,  /* `owner` in `env` is the binary: born frozen */
    TENON_NIF_FOREIGN, /* somebody else's: `env` (or NULL) holds the owner */
} tenon_nif_origin;

typedef struct tenon_nif_reaped tenon_nif_reaped;

/* A resource: tensors and binaries keep it (enif_keep_resource), its destructor gives the memory back. What is not the
 * state never changes. */
typedef struct tenon_nif_storage {
    _Atomic uint64_t *state; /* only the functions below look at it; one memory has one */
    _Atomic uint64_t own_state;
    tenon_nif_origin origin;
    bool readonly;      /* may not be written; that does not make it immutable */
    bool copied;        /* from_binary had to copy */
    bool unowned;       /* an address that no owner was given for: nobody knows whether it may be read */
    tenon_tensor *root; /* the tensor of the core that holds the memory */
    ErlNifEnv *env;     /* where `owner` lives, or NULL */
    ERL_NIF_TERM owner;
    struct tenon_nif_storage *within; /* whose state it has, or NULL; one count */
    tenon_nif_reaped *reaped;         /* what goes to the reaper; NULL where the destructor does it itself */
} tenon_nif_storage;

/* Make a storage of a tensor of the core that holds its memory (no view). `slow`: giving it back may take long, also
 * where the memory is not large; the reaper does it.
 *
 * Ownership: takes `root` and `env`. Returns one count: enif_release_resource. NULL: no memory, nothing was taken. */
tenon_nif_storage *tenon_nif_storage_alloc(tenon_tensor *root, tenon_nif_origin origin, bool slow, ErlNifEnv *env,
                                           ERL_NIF_TERM owner);

/* Let `storage`, which is new, have the state of `within`, which has all of its memory. Keeps `within`. */
void tenon_nif_storage_share(tenon_nif_storage *storage, tenon_nif_storage *within);

typedef enum tenon_nif_access { TENON_NIF_GRANTED, TENON_NIF_BUSY, TENON_NIF_READONLY } tenon_nif_access;

/* Who may do what: n readers, or one writer; a frozen storage has readers only, for ever. None waits. A call takes each
 * storage once: as a writer where any of its arguments on it is written (overlap is the core's question), else as a
 * reader. Each granted begin needs its end. */
tenon_nif_access tenon_nif_read_begin(tenon_nif_storage *storage);
void tenon_nif_read_end(tenon_nif_storage *storage);
tenon_nif_access tenon_nif_write_begin(tenon_nif_storage *storage);
void tenon_nif_write_end(tenon_nif_storage *storage);

/* No byte changes from now on: binaries may show the memory. TENON_NIF_BUSY while it is written. */
tenon_nif_access tenon_nif_freeze(tenon_nif_storage *storage);
bool tenon_nif_frozen(tenon_nif_storage *storage);
/* Neither frozen nor read-only. */
bool tenon_nif_may_write(tenon_nif_storage *storage);

/* {:error, :busy} or {:error, :readonly}. */
ERL_NIF_TERM tenon_nif_access_error(ErlNifEnv *env, tenon_nif_access access, const char *function,
                                    const char *argument);

/* ---------------------------------------------------------------------------------------------------------- tensors */

/* A resource. `tensor` is there while it is pinned. */
typedef struct tenon_nif_tensor {
    _Atomic int64_t pins; /* one is the handle's own, until it is released */
    _Atomic bool released;
    tenon_tensor *tensor;
    tenon_nif_storage *storage;
} tenon_nif_tensor;

/* The tensor behind a %Tenon.Tensor{}, pinned: nobody frees it before tenon_nif_tensor_unpin, also where another
 * process releases it. Trusts only the field `ref`. NULL: *error is {:error, …}: :released, :stale, {:not_local, node},
 * {:badarg, argument}. */
tenon_nif_tensor *tenon_nif_tensor_pin(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument,
                                       ERL_NIF_TERM *error);
/* The same where the resource is known; false: it was released. */
bool tenon_nif_tensor_try_pin(tenon_nif_tensor *tensor);
void tenon_nif_tensor_unpin(tenon_nif_tensor *tensor);

/* The tensor that a reference is, not pinned; NULL where it is none. */
tenon_nif_tensor *tenon_nif_tensor_behind(ErlNifEnv *env, ERL_NIF_TERM reference);

/* {:error, {:not_local, node}} where the term is a reference of another node; else 0. */
ERL_NIF_TERM tenon_nif_not_local(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument);

/* Whether the term is a map with a `ref` that is, or was, a tensor's: what else it has is not looked at. */
bool tenon_nif_is_tensor(ErlNifEnv *env, ERL_NIF_TERM term);

/* Make the %Tenon.Tensor{} for a tensor of the core on a storage.
 *
 * Ownership: takes `tensor`; keeps the storage by itself, the caller's count stays his. */
ERL_NIF_TERM tenon_nif_make_tensor(ErlNifEnv *env, tenon_tensor *tensor, tenon_nif_storage *storage);

/* The same for a tensor of tenon_nif_alloc: with a storage of its own, and charged. {:error, …} where there is no
 * memory, else the bare struct.
 *
 * Ownership: takes `tensor`, also on failure. */
ERL_NIF_TERM tenon_nif_make_owned(ErlNifEnv *env, tenon_tensor *tensor, const char *function);

/* ------------------------------------------------------------------------------------------------------- registration
 *
 * The one table is in nif.c. */

#define TENON_NIF(name) ERL_NIF_TERM tenon_nif_##name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])

/* tensor.c, view.c, list.c, blob.c. What makes memory may give {:charge, bytes, result} instead of its result. */
TENON_NIF(from_binary); /* binary, its first bytes where it is large | nil, type, shape | nil, copy -> {:ok, t} */
TENON_NIF(to_binary);   /* t, copy -> {:ok, binary} */
TENON_NIF(zeros);       /* shape, type -> {:ok, t} */
TENON_NIF(from_list);   /* nested lists, type -> {:ok, t} */
TENON_NIF(to_list);     /* t -> {:ok, list} */
TENON_NIF(slice);       /* t, starts, lengths, strides | nil -> {:ok, t} */
TENON_NIF(transpose);   /* t, axes | nil */
TENON_NIF(reshape);     /* t, shape */
TENON_NIF(broadcast);   /* t, shape */
TENON_NIF(squeeze);     /* t, axes | nil */
TENON_NIF(new_axis);    /* t, axis */
TENON_NIF(writable);    /* t -> true | false | {:error, …} */
TENON_NIF(copied);      /* t -> true | false | {:error, …} */
TENON_NIF(unowned);     /* t -> false, or its address if no owner was given for it | {:error, …} */
TENON_NIF(release);     /* t -> :ok | {:error, …} */
TENON_NIF(stats);       /* -> %{live:, bytes:, deferred:} */
TENON_NIF(to_blob);     /* t -> {:ok, {ptr, shape, strides, dtype, device, element_size}} */
/* {ptr, shape, strides | nil, dtype, device, data_size | nil, immutable, element_size | nil}, has_owner, owner */
TENON_NIF(from_blob); /* -> {:ok, t} */

/* exchange.c */
TENON_NIF(from_resource); /* ref, module, type, immutable -> {:ok, t} */

/* Answers another NIF's request (include/tenon/nif.h) for the tensor `object`. */
void tenon_nif_answer(ErlNifEnv *env, void *object, void *request);

/* library.c, call.c */
TENON_NIF(library_open);     /* module, path */
TENON_NIF(library_describe); /* path */
TENON_NIF(call);             /* module, index, arguments */

/* Called at load and at each upgrade, before any of the three: opens what resource types they need, and takes over the
 * libraries that the copy before has opened. */
typedef struct tenon_nif_opened tenon_nif_opened;
bool tenon_nif_library_init(ErlNifEnv *env, tenon_nif_opened *earlier);
tenon_nif_opened *tenon_nif_library_opened(void);
/* tenon_library_open, of the first copy of this NIF: it knows what all of them have opened. */
tenon_status tenon_nif_open_library(const char *path, const tenon_module **out, tenon_error *err);

#endif
