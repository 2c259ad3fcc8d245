/* Declarations that the sources of the NIF share. They use only the core's public headers and erl_nif.h.
 *
 * There are two kinds of resources. A *storage* is a block of memory: it has the one state that says who may read and
 * write, and lives as long as a tensor or a binary uses it. A *tensor* is a handle on a storage: the `ref` of a
 * %Tenon.Tensor{}. Views are further tensors on the same storage.
 *
 * Every function may be called on any scheduler, dirty or not. Functions that need no environment may be called on any
 * thread. */
#ifndef TENON_NIF_SHARED_H
#define TENON_NIF_SHARED_H

#include <erl_nif.h>
#include <stdatomic.h>

#define TENON_ORIGINS /* reports of TENON_DEBUG name the NIF's line */
#include "tenon.h"

/* ---------------------------------------------------------------------------------------------------------- limits */

enum {
    /* A function with this many bytes of arguments runs on a dirty scheduler, unless it or its module says otherwise. */
    TENON_NIF_DIRTY_CALL = 32 * 1024,
    /* The same for our own copies: 256 KiB take about 0.2 ms if they are not in the caches. */
    TENON_NIF_DIRTY_BYTES = 256 * 1024,
    /* The same for elements of lists, at up to 100 ns each. */
    TENON_NIF_DIRTY_ELEMENTS = 4096,
    /* Blocks from this size on are freed by the reaper: 16 MiB took 1.2 ms on a busy machine. */
    TENON_NIF_REAPED_BYTES = 4 * 1024 * 1024,
    /* Memory from this size on is charged to the process that makes it. The terms of a smaller tensor, on the heap of
     * the process, take about as much. */
    TENON_NIF_CHARGED_BYTES = 1024,
    /* Rough amounts of work per microsecond: bytes filled or copied in memory that is not in the caches, elements read
     * from lists or put into them, words of terms copied. */
    TENON_NIF_BYTES_PER_MICROSECOND = 2 * 1024,
    TENON_NIF_ELEMENTS_PER_MICROSECOND = 10,
    TENON_NIF_WORDS_PER_MICROSECOND = 200
};

/* Continue as `nif` on a dirty scheduler. A NIF returns the result of this function. */
ERL_NIF_TERM tenon_nif_dirty(ErlNifEnv *env, const char *name,
                             ERL_NIF_TERM (*nif)(ErlNifEnv *, int, const ERL_NIF_TERM[]), int argc,
                             const ERL_NIF_TERM argv[]);

/* Report to a normal scheduler how long it was held, so that the process yields in time. */
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
    X(shared)                                                                                                          \
    X(version)                                                                                                         \
    X(invalid)                                                                                                         \
    X(system)                                                                                                          \
    X(charge)                                                                                                          \
    X(waiting)

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

/* {:error, %Tenon.Error{}}. `function` and `argument` become atoms (nil for NULL), so they must come from a finite set.
 * The message is formatted as by printf, in UTF-8. */
ERL_NIF_TERM tenon_nif_error(ErlNifEnv *env, ERL_NIF_TERM reason, const char *function, const char *argument,
                             const char *format, ...) TENON_PRINTF(5, 6);

/* The atom of an argument in an error; nil for NULL. An item of a list, "xs[3]", is the list, :xs: the set of atoms must be
 * finite. The functions here that take the name of an argument use it. */
ERL_NIF_TERM tenon_nif_argument(ErlNifEnv *env, const char *name);

/* Describe a term for messages: "an integer", "nil", "Nx.Tensor". */
void tenon_nif_describe(ErlNifEnv *env, ERL_NIF_TERM term, char *buffer, size_t size);

/* Replace each byte that is not UTF-8 by "?". */
void tenon_nif_mend_utf8(char *text, size_t length);

/* {:error, {:badarg, argument}}: "function(): argument 'x': expected …". */
ERL_NIF_TERM tenon_nif_badarg(ErlNifEnv *env, const char *function, const char *argument, const char *expected);

/* {:failed, :no_memory}, {:failed, :einval}; an unknown status is a number. */
ERL_NIF_TERM tenon_nif_failed(ErlNifEnv *env, tenon_status status);
/* The same, with the message of a function that failed. */
ERL_NIF_TERM tenon_nif_failure(ErlNifEnv *env, const char *function, const tenon_error *err);

/* The reason for a status of the core, except TENON_ESYSTEM, which is {:system, :enoent} and so on. */
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
/* The name in Nx if it has one ({:s, 64}, {:bf, 16}), otherwise {:bool, 8}, {:f8_e4m3fn, 8}. */
ERL_NIF_TERM tenon_nif_make_type(ErlNifEnv *env, tenon_dtype dtype);
/* torch's own name, as in ExTorch: :float, :long, :bfloat16, :complex64. */
ERL_NIF_TERM tenon_nif_make_blob_type(ErlNifEnv *env, tenon_dtype dtype);
/* The error for a term that is not such a type. */
ERL_NIF_TERM tenon_nif_bad_type(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument);
/* Read the arguments (shape, type) of a new tensor. On failure returns false and sets *error. */
bool tenon_nif_get_layout(ErlNifEnv *env, const ERL_NIF_TERM argv[], const char *function, int32_t *ndim,
                          int64_t shape[TENON_MAX_NDIM], tenon_dtype *dtype, ERL_NIF_TERM *error);
/* Whether the shape is valid and has so many bytes that a dirty scheduler should fill them. */
bool tenon_nif_is_large(int32_t ndim, const int64_t *shape, tenon_dtype dtype);
/* Whether values of this type can be terms: all but f128, opaque and 128-bit integers. */
bool tenon_nif_type_has_terms(tenon_dtype dtype);

/* The name of the type in Nx, for messages: "f32", "s64", "f8_e4m3fn". Truncates and returns as tenon_dtype_format does. */
size_t tenon_nif_type_name(tenon_dtype dtype, char *buffer, size_t size);

/* Whether a binary starts inside a byte; then inspecting it copies all of it. False with OTP 27 and newer: this
 * cannot be detected. */
bool tenon_nif_starts_inside_byte(ErlNifEnv *env, ERL_NIF_TERM binary);
/* The same for a part of more than 64 bytes, or for a small binary. */
bool tenon_nif_is_copied_to_show(ErlNifEnv *env, ERL_NIF_TERM part);

/* {:error, {:misaligned, need, got}}; `hint` is added to the message. */
ERL_NIF_TERM tenon_nif_misaligned(ErlNifEnv *env, tenon_dtype dtype, uint64_t address, const char *function,
                                  const char *argument, const char *hint);

/* Convert an element from and to its term: numbers, :nan | :infinity | :neg_infinity, {re, im}, true and false. `data`
 * may be unaligned. False: the term is not a value of the type, or is outside its range. */
bool tenon_nif_get_element(ErlNifEnv *env, ERL_NIF_TERM term, tenon_dtype dtype, void *data);
ERL_NIF_TERM tenon_nif_make_element(ErlNifEnv *env, tenon_dtype dtype, const void *data);

/* Convert a double from and to its term. Integers and the three atoms are accepted too. */
bool tenon_nif_get_double(ErlNifEnv *env, ERL_NIF_TERM term, double *out);
ERL_NIF_TERM tenon_nif_make_double(ErlNifEnv *env, double value);

/* A tuple or a list of up to TENON_MAX_NDIM integers. */
bool tenon_nif_get_dims(ErlNifEnv *env, ERL_NIF_TERM term, int32_t *ndim, int64_t dims[TENON_MAX_NDIM]);
/* The error for a term that is not what `expected` says. It names the first element that is not an integer of 64 bits. */
ERL_NIF_TERM tenon_nif_bad_dims(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument,
                                const char *expected);
ERL_NIF_TERM tenon_nif_make_tuple(ErlNifEnv *env, int32_t count, const int64_t *values);
ERL_NIF_TERM tenon_nif_make_list(ErlNifEnv *env, int32_t count, const int64_t *values);

/* :cpu, :cuda (id 0), {:cuda, 1}, "cuda:1"; :hip is :rocm. */
bool tenon_nif_get_device(ErlNifEnv *env, ERL_NIF_TERM term, tenon_device *out);
/* The error for a term that is not such a device. */
ERL_NIF_TERM tenon_nif_bad_device(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument);
ERL_NIF_TERM tenon_nif_make_device(ErlNifEnv *env, tenon_device device);

/* -------------------------------------------------------------------------------------------------------- the reaper
 *
 * A thread of the NIF, with all signals blocked, for work that must not run on a scheduler: releasing foreign memory,
 * owner environments that are not small, and large blocks. It lives as long as the VM. */

/* Run release(owner) on the reaper. `node` is part of the owner, so this cannot fail. It never waits. */
void tenon_nif_reap(tenon_deferred_node *node, void (*release)(void *owner), void *owner);

/* ----------------------------------------------------------------------------------------------------------- memory
 *
 * Memory that a process drops is released when its garbage is collected. That happens sooner if the process is charged
 * for more memory, so memory that Tenon allocates is a binary of the runtime, made in the process's environment. But
 * making a binary starts only collections of young garbage, and foreign memory cannot be charged at all. Therefore
 * Tenon.Memory counts the memory that each process makes, and collects all garbage when it exceeds a budget.
 *
 * A process that receives the tensor is not charged. OTP 25 charges for the bytes that a binary in a message refers to,
 * and no term may refer to memory that can still be written. */

/* Like tenon_tensor_alloc, but from TENON_NIF_CHARGED_BYTES on the memory is a binary. Any thread. */
TENON_NODISCARD tenon_status tenon_nif_alloc(tenon_dtype dtype, int32_t ndim, const int64_t *shape, uint32_t options,
                                             tenon_tensor **out, tenon_error *err);

/* Charge the caller's process for such a tensor, once, when it becomes a term. False: no memory. */
TENON_NODISCARD bool tenon_nif_publish(ErlNifEnv *env, tenon_tensor *tensor);

/* The binary that contains the elements of a published tensor. False: its memory is not a binary. */
TENON_NODISCARD bool tenon_nif_binary_of(ErlNifEnv *env, const tenon_tensor *root, ERL_NIF_TERM *out);

/* {:charge, bytes, result}, for Tenon.Memory, with a report to the scheduler; `result` itself for a few bytes. */
ERL_NIF_TERM tenon_nif_charged(ErlNifEnv *env, ERL_NIF_TERM result, uint64_t bytes);

/* Bytes of all tensors in binaries. */
int64_t tenon_nif_held_bytes(void);

/* --------------------------------------------------------------------------------------------------------- storages */

typedef enum tenon_nif_origin {
    TENON_NIF_OURS,    /* tenon_nif_alloc made it */
    TENON_NIF_BINARY,  /* `owner` in `env` is the binary; frozen from the start */
    TENON_NIF_FOREIGN, /* foreign memory: `env` (or NULL) holds the owner */
} tenon_nif_origin;

typedef struct tenon_nif_reaped tenon_nif_reaped;

/* Functions of the core that made a shared tensor. After an upgrade that is not the core of the newest copy, which would
 * not know the tensor. */
typedef struct tenon_nif_shared {
    tenon_status (*seal)(const tenon_tensor *tensor, tenon_error *err);
    tenon_status (*name)(const tenon_tensor *tensor, char out[TENON_SHARED_NAME_SIZE], tenon_error *err);
} tenon_nif_shared;

typedef struct tenon_nif_tensor tenon_nif_tensor;

/* A resource, or a part of the first tensor on it: a second resource would double the time that a small result takes.
 * Tensors and binaries keep it alive (tenon_nif_storage_keep); the memory is released with the last of them. Only the state
 * and the count ever change. */
typedef struct tenon_nif_storage {
    tenon_nif_tensor *home;  /* the tensor that it is a part of; NULL: it is a resource by itself */
    _Atomic int64_t users;   /* with a home: the shares, of which the home has one as long as it is not released */
    _Atomic uint64_t *state; /* only for the functions below; each block of memory has one state */
    _Atomic uint64_t own_state;
    tenon_nif_origin origin;
    bool readonly;      /* must not be written here, but may change nevertheless */
    bool copied;        /* from_binary had to copy */
    bool unowned;       /* an address without an owner: it is unknown whether it may be read */
    tenon_tensor *root; /* the tensor of the core that holds the memory */
    ErlNifEnv *env;     /* the environment of `owner`, or NULL */
    ERL_NIF_TERM owner;
    struct tenon_nif_storage *within; /* the storage whose state it shares, or NULL; one reference */
    const tenon_nif_shared *shared;   /* the functions for memory that other processes share; otherwise NULL */
    tenon_nif_reaped *reaped;         /* the job for the reaper; NULL if the destructor releases the memory itself */
} tenon_nif_storage;

/* Make a storage from a tensor of the core that owns its memory (not a view). `slow`: releasing it may take long even if
 * the memory is not large, so the reaper does it.
 *
 * Ownership: takes `root` and `env`. NULL: no memory, nothing was taken.
 * Release:   tenon_nif_storage_release. */
tenon_nif_storage *tenon_nif_storage_alloc(tenon_tensor *root, tenon_nif_origin origin, bool slow, ErlNifEnv *env,
                                           ERL_NIF_TERM owner);

/* Another share of the storage, and its end. Any thread. */
void tenon_nif_storage_keep(tenon_nif_storage *storage);
void tenon_nif_storage_release(tenon_nif_storage *storage);

/* Make `storage`, which is new, share the state of `within`, which contains all of its memory. Keeps `within` alive. */
void tenon_nif_storage_share(tenon_nif_storage *storage, tenon_nif_storage *within);

/* A binary that refers to bytes of the storage, which is frozen, and keeps its memory alive. */
ERL_NIF_TERM tenon_nif_storage_binary(ErlNifEnv *env, tenon_nif_storage *storage, const void *data, size_t size);

typedef enum tenon_nif_access { TENON_NIF_GRANTED, TENON_NIF_BUSY, TENON_NIF_READONLY } tenon_nif_access;

/* A storage has either n readers or one writer; a frozen storage only ever has readers. None of these functions waits. A
 * call takes each storage once: as a writer if it writes to any of its arguments on it (the core checks overlap), and as
 * a reader otherwise. Each begin that is granted needs its end. */
tenon_nif_access tenon_nif_read_begin(tenon_nif_storage *storage);
void tenon_nif_read_end(tenon_nif_storage *storage);
tenon_nif_access tenon_nif_write_begin(tenon_nif_storage *storage);
void tenon_nif_write_end(tenon_nif_storage *storage);

/* Ensure that no byte changes from now on, so that binaries may refer to the memory. TENON_NIF_BUSY while it is written. */
tenon_nif_access tenon_nif_freeze(tenon_nif_storage *storage);
bool tenon_nif_frozen(tenon_nif_storage *storage);
/* End the access of a writer, permanently: nothing here writes to the memory again, but other processes may. */
void tenon_nif_seal(tenon_nif_storage *storage);
/* Neither frozen, sealed nor read-only. */
bool tenon_nif_may_write(tenon_nif_storage *storage);

/* {:error, :busy} or {:error, :readonly}. */
ERL_NIF_TERM tenon_nif_access_error(ErlNifEnv *env, tenon_nif_access access, const char *function,
                                    const char *argument);

/* ---------------------------------------------------------------------------------------------------------- tensors */

/* A resource. `tensor` is valid while it is pinned. */
struct tenon_nif_tensor {
    _Atomic int64_t pins; /* one belongs to the handle itself, until it is released */
    _Atomic bool released;
    tenon_tensor *tensor;       /* one share, unless the storage is a part of this resource: then that has it */
    tenon_nif_storage *storage; /* one share */
};

/* The tensor of a %Tenon.Tensor{}, pinned: it is not freed before tenon_nif_tensor_unpin, even if another process
 * releases it. Trusts only the field `ref`. NULL: *error is {:error, …} with :released, :stale, {:not_local, node} or
 * {:badarg, argument}. */
tenon_nif_tensor *tenon_nif_tensor_pin(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument,
                                       ERL_NIF_TERM *error);
/* Pin a known resource. False: it was released. */
bool tenon_nif_tensor_try_pin(tenon_nif_tensor *tensor);
void tenon_nif_tensor_unpin(tenon_nif_tensor *tensor);

/* The tensor of a reference, not pinned; NULL if the reference is not a tensor. */
tenon_nif_tensor *tenon_nif_tensor_of_reference(ErlNifEnv *env, ERL_NIF_TERM reference);

/* {:error, {:not_local, node}} if the term is a reference of another node; otherwise 0. The message ends with `hint`. */
ERL_NIF_TERM tenon_nif_not_local(ErlNifEnv *env, ERL_NIF_TERM term, const char *function, const char *argument,
                                 const char *hint);

/* Whether the term is a %Tenon.Tensor{} with a reference in `ref`, of a tensor or not. */
bool tenon_nif_is_tensor(ErlNifEnv *env, ERL_NIF_TERM term);

/* Make the %Tenon.Tensor{} for a tensor of the core on a storage.
 *
 * Ownership: takes `tensor`; keeps the storage alive with a reference of its own. */
ERL_NIF_TERM tenon_nif_make_tensor(ErlNifEnv *env, tenon_tensor *tensor, tenon_nif_storage *storage);

/* The same for a tensor of tenon_nif_alloc: makes its storage, as a part of the tensor, and charges for it. Returns the struct, or {:error, …} if
 * there is no memory.
 *
 * Ownership: takes `tensor`, even on failure. */
ERL_NIF_TERM tenon_nif_make_owned(ErlNifEnv *env, tenon_tensor *tensor, const char *function);

/* Hold a binary that a view describes beyond the call, as from_binary does: a tensor on a frozen storage, one reference
 * each. It is copied if the runtime would move it; storage->copied says so. False: *error is {:error, …}. */
bool tenon_nif_share_binary(ErlNifEnv *env, ERL_NIF_TERM binary, const tenon_view *view, tenon_tensor **tensor,
                            tenon_nif_storage **storage, ERL_NIF_TERM *error);

/* ------------------------------------------------------------------------------------------------------- registration
 *
 * The table of NIFs is in nif.c. */

#define TENON_NIF(name) ERL_NIF_TERM tenon_nif_##name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])

/* tensor.c, view.c, list.c, blob.c. NIFs that make memory may return {:charge, bytes, result} instead of the result. */
TENON_NIF(from_binary); /* binary, its first bytes if it is large | nil, type, shape | nil, copy -> {:ok, t} */
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
TENON_NIF(unowned);     /* t -> false | its address, if it has no owner | {:error, …} */
TENON_NIF(release);     /* t -> :ok | {:error, …} */
TENON_NIF(stats);       /* -> %{live:, bytes:, deferred:} */
TENON_NIF(to_blob);     /* t -> {:ok, {ptr, shape, strides, dtype, device, element_size}} */
/* {ptr, shape, strides | nil, dtype, device, data_size | nil, immutable, element_size | nil}, has_owner, owner, known ->
 * {:ok, t} | {:functions, list}: functions in `owner`. Then `owner` and what they have captured are to be passed as `known`
 * and `owner`; functions in `known` are not reported. */
TENON_NIF(from_blob);

/* exchange.c */
TENON_NIF(from_resource); /* ref, module, type, immutable -> {:ok, t} */

/* Make a storage for foreign memory, after checking that the bridge has its type and that its elements are aligned.
 *
 * Ownership: takes `tensor`, even on failure.
 * Release:   tenon_nif_storage_release(*out). */
bool tenon_nif_adopt(ErlNifEnv *env, tenon_tensor *tensor, const char *function, const char *argument,
                     tenon_nif_storage **out, ERL_NIF_TERM *error);

/* Answers another NIF's request (include/tenon/nif.h) for the tensor `object`. */
void tenon_nif_answer(ErlNifEnv *env, void *object, void *request);

/* shared.c */
TENON_NIF(shared_zeros);  /* shape, type -> {:ok, t} */
TENON_NIF(shared_share);  /* t -> {:ok, t} */
TENON_NIF(shared_freeze); /* t -> {:ok, t} */
TENON_NIF(shared_name);   /* t -> {:ok, name} */
TENON_NIF(shared_attach); /* name, immutable -> {:ok, t} */

/* library.c, call.c, handle.c */
TENON_NIF(library_open); /* module, path; :waiting while another process opens a library, or this one's `load` runs */
TENON_NIF(library_describe); /* path; :waiting likewise */
TENON_NIF(call);             /* module, index, arguments; :waiting if an object is in another call */
TENON_NIF(close);            /* module, index, object, class -> :ok, or :waiting while a call runs */

/* Called at load and at each upgrade, before any of these NIFs: opens their resource types, and takes over the
 * libraries that the earlier copy has opened. */
typedef struct tenon_nif_opened tenon_nif_opened;
bool tenon_nif_library_init(ErlNifEnv *env, tenon_nif_opened *earlier);
tenon_nif_opened *tenon_nif_library_opened(void);
/* tenon_library_open of the first copy of this NIF, which knows the libraries that all copies have opened. */
tenon_status tenon_nif_open_library(const char *path, const tenon_module **out, tenon_error *err);

#endif
