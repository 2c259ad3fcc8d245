/* For those who host functions: signatures, what matches them, and the checks before a library is trusted.
 *
 * A host opens a library (tenon_library_open), compiles each signature once (tenon_signature_alloc), and for each call
 * turns its runtime's values into `tenon_value`s, matches them (tenon_signature_match), makes the results
 * (tenon_signature_result), and calls.
 *
 * signature = name "(" [params] ")" ["->" results] ["where" Var "=" dtypes {"," Var "=" dtypes}]
 * params    = param {"," param}     a bare "*": what follows is keyword-only
 * param     = name ":" type ["=" literal]
 * type      = ("int" | "float" | "bool" | "str" | enum | "ints" | "floats" | "ints[" number "]" | handle) ["?"] | tensor
 * enum      = string {"|" string}   'mean'|'sum', in either kind of quote
 * handle    = "handle(" string ")"
 * results   = [name ":"] type {"," [name ":"] type}
 * tensor    as in spec.h; in a result a dimension may be "?": the function says
 *
 * The literals are Python's: 1, -2.5e3, True, None, 'text', and (1, 2) for ints and floats. docs/signatures.md says what
 * it all means. */
#ifndef TENON_HOST_H
#define TENON_HOST_H

#include <tenon/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TENON_MAX_PARAMETERS = 64, TENON_MAX_RESULTS = 16 };

/* Bits of tenon_parameter.flags. */
#define TENON_PARAMETER_OPTIONAL     (1u << 0) /* None is allowed */
#define TENON_PARAMETER_DEFAULT      (1u << 1) /* may be left out: `value` is used */
#define TENON_PARAMETER_KEYWORD_ONLY (1u << 2)
#define TENON_PARAMETER_OPEN         (1u << 3) /* a tensor result that only the function can make */

/* A parameter or a result. */
typedef struct tenon_parameter {
    const char *name; /* NULL: a result without one */
    uint32_t kind;    /* TENON_KIND_… */
    uint32_t flags;
    int32_t dim;                /* an int: the slot of the dimension that it binds, or -1 */
    int32_t count;              /* ints[N], floats[N]: N, or -1; an enum: how many choices */
    const char *const *choices; /* of an enum */
    const char *handle;         /* its type */
    const tenon_spec *spec;     /* a tensor's */
    const char *type;           /* as it is written: "f32[n] c", "'mean'|'sum'" */
    const char *literal;        /* the default as it is written, or NULL: None for what is optional */
    tenon_value value;          /* the default */
} tenon_parameter;

/* A compiled signature. Never changed after it is made, so any number of threads may use it. */
typedef struct tenon_signature tenon_signature;

/* Compile a signature.
 *
 * Release:   tenon_signature_release(*out).
 * Errors:    TENON_EPARSE, with a caret under the mistake; TENON_EINVAL (NULL), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_alloc(const char *text, tenon_signature **out, tenon_error *err);

/* NULL does nothing. */
TENON_API void tenon_signature_release(tenon_signature *signature);

/* What a signature says. Strings and parameters live as long as the signature. A NULL signature has no name and no
 * parameters. */
TENON_API const char *tenon_signature_text(const tenon_signature *signature);
TENON_API const char *tenon_signature_name(const tenon_signature *signature);
TENON_API int32_t tenon_signature_nparams(const tenon_signature *signature);
/* The parameters before the "*". */
TENON_API int32_t tenon_signature_npositional(const tenon_signature *signature);
/* Those of them without a default. */
TENON_API int32_t tenon_signature_nrequired(const tenon_signature *signature);
TENON_API int32_t tenon_signature_nresults(const tenon_signature *signature);
/* Whether the results have names: all of them do, or none. */
TENON_API bool tenon_signature_has_named_results(const tenon_signature *signature);
/* A parameter or a result; NULL if there is no such index. */
TENON_API const tenon_parameter *tenon_signature_param(const tenon_signature *signature, int32_t index);
TENON_API const tenon_parameter *tenon_signature_result_item(const tenon_signature *signature, int32_t index);
/* The names of dimensions and dtype variables; NULL for a NULL signature. */
TENON_API const tenon_names *tenon_signature_names(const tenon_signature *signature);

/* Match the arguments of a call, whose kinds are those of the parameters or TENON_KIND_NONE: bind all names, then check
 * all arguments in their order, then that nothing written is used twice. On TENON_OK `bindings` has the values of
 * tenon_call.dims and .types; what only arguments that were not given would bind is -1.
 *
 * `objects` (or NULL) has a word for messages for each argument, such as "numpy.ndarray". Without `err` a mismatch costs
 * little more than a match: a host may ask again for the message. The views' shapes must live as long as the bindings.
 * After a mismatch `bindings->argument` is the name of the argument that it is about.
 *
 * Errors: those of tenon_spec_check; TENON_EOVERLAP (two arguments share memory, and one is written). */
TENON_API TENON_NODISCARD tenon_status tenon_signature_match(const tenon_signature *signature, const tenon_value *args,
                                                             const char *const *objects, tenon_bindings *bindings,
                                                             tenon_error *err);

/* Match the first `count` arguments only: for a host that found argument `count` wrong, and reports the first mistake.
 * The other arguments are not looked at, and what only they would bind is not a mistake.
 *
 * Errors: those of tenon_spec_check but TENON_EINVAL. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_match_before(const tenon_signature *signature, int32_t count,
                                                                    const tenon_value *args, const char *const *objects,
                                                                    tenon_bindings *bindings, tenon_error *err);

/* The dtype and shape of a tensor result after a match. A dimension that only the function knows is -1.
 *
 * Errors: TENON_ESHAPE (a negative size, too many dimensions), TENON_EOVERFLOW, TENON_EINVAL (a name without a value). */
TENON_API TENON_NODISCARD tenon_status tenon_signature_result(const tenon_signature *signature, int32_t index,
                                                              const tenon_bindings *bindings, tenon_dtype *dtype,
                                                              int32_t *ndim, int64_t shape[TENON_MAX_NDIM],
                                                              tenon_error *err);

/* Whether the function may make the result `index` with this shape; *dtype is what it then has.
 *
 * Errors: TENON_ESHAPE, TENON_EINVAL (a result that is made already, or no tensor), those of tenon_signature_result. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_open_result(const tenon_signature *signature, int32_t index,
                                                                   const tenon_bindings *bindings, int32_t ndim,
                                                                   const int64_t *shape, tenon_dtype *dtype,
                                                                   tenon_error *err);

/* Whether the caller's own tensor can be the result `index`: dtype, shape, C order, writable, where the call runs, and
 * not sharing memory with an argument but as "alias" and "inplace(x)" allow.
 *
 * Errors: as tenon_signature_match. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_match_out(const tenon_signature *signature, int32_t index,
                                                                 const tenon_view *out, const tenon_value *args,
                                                                 tenon_device device, tenon_bindings *bindings,
                                                                 tenon_error *err);

/* -------------------------------------------------------------------------------------- what every host does alike */

/* Memory that lives as long as a call: a list of blocks, NULL at first. */
typedef struct tenon_block tenon_block;

/* `size` bytes; `align` is a power of two up to 4096, and counts as 16 where it is less. NULL: no memory, or no such
 * alignment. */
TENON_API TENON_NODISCARD void *tenon_block_alloc(tenon_block **list, size_t size, size_t align);

/* All of them. NULL does nothing. */
TENON_API void tenon_blocks_release(tenon_block *list);

/* A host's `fail`: the first failure is kept in `error`. */
TENON_API tenon_status tenon_call_fail(tenon_call *call, tenon_error *error, tenon_status status, const char *message,
                                       size_t length);

/* After a function that failed, or returned `status`: `error` says what went wrong, also where the function did not. */
TENON_API void tenon_call_failure(const tenon_call *call, tenon_status status, tenon_error *error);

/* A host's `result_alloc`, up to the memory: whether the function may make this result, with this shape and dtype (all
 * zeros: the signature's, which *dtype then is). False: the call has failed. */
TENON_API TENON_NODISCARD bool tenon_call_open_result(tenon_call *call, const tenon_signature *signature,
                                                      const tenon_bindings *bindings, int32_t index, int32_t ndim,
                                                      const int64_t *shape, tenon_dtype *dtype);

/* A host's `result_str`: the text is copied into a block. */
TENON_API tenon_status tenon_call_result_str(tenon_call *call, tenon_block **list, int32_t index, const char *text,
                                             size_t length);

/* A host's `scratch`, on the CPU. NULL: the call has failed. */
TENON_API TENON_NODISCARD void *tenon_call_scratch(tenon_call *call, tenon_block **list, size_t bytes, size_t align);

/* --------------------------------------------------------------------------------------------------------- modules */

#ifndef TENON_NO_SYSTEM
/* Open a shared library in place and find its module, checked with tenon_module_check. The file is checked first: one
 * that is cut off or not a library is an error, not a crash.
 *
 * A library is the file that it was opened from. The same file gives the same module again, under whichever name. If
 * there is a new build under the path, the new one is opened, unless its content is that of an earlier build (then it may
 * be the earlier one). A build that replaced the file, as linkers, `install` and `mv` do it, is opened in place too, and
 * the old functions work as before. A build that was written into the open file, as `cp` does it, has damaged the old
 * functions, for every user of that file; the new one is then opened through a copy, which is removed at once: beside the
 * file, or in TMPDIR (or /tmp) if that folder cannot be written, where the library's $ORIGIN is another one.
 *
 * `path` is in the system's encoding (UTF-8 on Windows, which is untested). $ORIGIN is the folder in `path`, even if the
 * file there is a symbolic link. Messages do not repeat the path. Older C libraries need -ldl and -pthread at link time;
 * compiling the core with TENON_NO_SYSTEM leaves this function out.
 *
 * Ownership: *out and its library stay open until the process ends.
 * Threads:   any; one opens at a time, and a fork in another thread waits for it.
 * Errors:    TENON_EFAILED if the file cannot be read, with the reason in errno; TENON_EINVAL if it is not a library, if
 *            the loader refuses it, or if it has no valid module; TENON_EVERSION, TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_library_open(const char *path, const tenon_module **out, tenon_error *err);
#endif

/* Check whether the bytes of a file are a complete shared library for this machine, as tenon_library_open does: opening
 * one that is cut off kills the process. Only ELF files are checked; on other systems the answer is always yes.
 *
 * Errors: TENON_EINVAL, with what is wrong. */
TENON_API TENON_NODISCARD tenon_status tenon_library_check(const void *bytes, size_t size, tenon_error *err);

/* Whether this library can host the module: magic, version, sizes, and that what must be there is there.
 *
 * Errors: TENON_EINVAL, TENON_EVERSION. */
TENON_API TENON_NODISCARD tenon_status tenon_module_check(const tenon_module *module, tenon_error *err);

/* An entry of a checked module's table, whatever the size of its entries: what they do not have is 0. */
TENON_API void tenon_module_function(const tenon_module *module, int64_t index, tenon_function *out);

#ifdef __cplusplus
}
#endif

#endif
