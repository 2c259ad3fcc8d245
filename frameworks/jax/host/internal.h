/* The host of functions inside programs that XLA has compiled: one handler for all functions, a client of the call driver.
 *
 * It knows no Python. XLA calls the handlers on its own threads, without an interpreter and without a lock; several
 * threads may call them at the same time.
 *
 * A compiled program names its function by attributes, never by an address, because programs are stored and exported.
 * The target is called "tenon1". Attributes, which XLA sorts by name:
 *
 *   args     one letter for each parameter:
 *              t  a tensor: the next operand
 *              l  a list of tensors: the next operands, as many as its attribute v00 … says
 *              s  a number: the next operand, without dimensions, of any integer or floating dtype
 *              p  a number in the packed operand, which is the last one: u32[2k], for each number its 64 bits, low word
 *                 first (an integer, a double, or 0 and 1)
 *              v  a value in an attribute
 *              d  left out: the default is used
 *              n  None
 *   fn       "module.function"
 *   hash     the hash of the library, 32 hexadecimal digits
 *   v00 …    for each letter v the value, under the index of its parameter: scalars for numbers, strings for str and
 *            enum, arrays of s64 for ints, and of f64, or of s64 with the same bits, for floats
 *
 * Results: those of the function, of a list each tensor by itself, a number as a buffer without dimensions (s64 or s32, f64 or f32, pred); then each tensor
 * that was given and is written to, in the memory of its operand. Tensors are in C order; operands whose spec has `f` and
 * not `c` are in Fortran order. On a GPU the host reads no memory, so there are neither `s`, `p` nor results that are
 * numbers. */
#ifndef TENON_JAX_HOST_H
#define TENON_JAX_HOST_H

#include <tenon/function.h>
#include <tenon/host.h>

#include "xla_ffi.h"

/* For the functions of each call; compilers think that they are too long. */
#ifdef __GNUC__
#define JAX_INLINE static inline __attribute__((__always_inline__))
#else
#define JAX_INLINE static inline
#endif

/* A function that compiled programs may call. It is never removed. */
typedef struct tenon__jax_function {
    struct tenon__jax_function *next;
    tenon_signature *signature;
    tenon_function function;
    tenon_call call;                  /* what is the same in each of its calls */
    tenon_library_lock *library_lock; /* NULL if calls may overlap */
    bool planned;                     /* calls may be taken by plan, on the CPU */
    bool returns_numbers;
    char hash[TENON_HASH_SIZE];
    size_t length; /* of fn */
    char fn[];
} tenon__jax_function;

/* Add a function under its name and the hash of its library. If there is one already, it stays, and *added is false.
 * `state` is from the module's `load`, and `library` stands for the library (see tenon_library_lock_retain).
 *
 * Ownership: the caller keeps the library and its state alive until the process ends if *added is true.
 * Threads:   any.
 * Errors:    TENON_EINVAL if XLA cannot call such a function, TENON_ENOMEM, and those of a signature. `err` is required. */
tenon_status tenon__jax_register(const char *fn, const char *hash, const tenon_function *function, void *state,
                                 const void *library, bool *added, tenon_error *err);

/* The function of this name and hash, or NULL. Without a hash (its text is NULL): one of this name. */
const tenon__jax_function *tenon__jax_find(xla_span fn, xla_span hash);

/* The same function of the same library under another module's name, or NULL. Looks at all functions. */
const tenon__jax_function *tenon__jax_find_renamed(xla_span fn, xla_span hash);

/* The constant part of its calls. */
void tenon__jax_call_init(tenon__jax_function *function, void *state);

/* Run one call. `on_gpu`: the buffers are in memory of a CUDA device. The error says what kernels.f would. */
tenon_status tenon__jax_call(const tenon__jax_function *function, const xla_frame *xla, bool on_gpu, tenon_error *err);

/* The type of JAX's arrays in messages: a constant string. */
extern _Atomic(const char *) tenon__jax_array_name;

/* Whether calls on the CPU are checked (tenon_frame_run_checked), in the whole process. Warnings go to stderr. */
extern _Atomic bool tenon__jax_checked;

/* What XLA calls: for the CPU, for CUDA, and for CUDA with functions that may become part of a CUDA graph. */
typedef xla_error *(*tenon__jax_handler)(xla_frame *frame);
xla_error *tenon__jax_handle_cpu(xla_frame *frame);
xla_error *tenon__jax_handle_cuda(xla_frame *frame);
xla_error *tenon__jax_handle_capturable(xla_frame *frame);

#endif
