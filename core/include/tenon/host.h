/* For hosts of functions: open libraries, compile signatures, and match the arguments of calls.
 *
 * A host opens a library (tenon_library_open) and compiles each signature once (tenon_signature_alloc). For each call it
 * converts the values of its runtime to `tenon_value`s, matches them (tenon_signature_match), allocates the results
 * (tenon_signature_result), and calls the function.
 *
 * entry     = "class" Name | signature
 * signature = [Name "."] name "(" ["self" [","]] [params] ")" ["->" results]
 *             ["where" Var "=" dtypes {"," Var "=" dtypes}]      "self" exactly if there is a "Name."
 * params    = param {"," param}     after a bare "*", parameters are keyword-only
 * param     = name ":" type ["=" literal]
 * type      = ("int" | "float" | "bool" | "str" | enum | "ints" | "floats" | "ints[" number "]" | handle) ["?"] | tensor
 * enum      = string {"|" string}   'mean'|'sum', in either kind of quote
 * handle    = "handle(" string ")"
 * results   = [name ":"] type {"," [name ":"] type}
 * tensor    as in spec.h; in a result, a dimension may be "?": only the function knows it. More attributes:
 *             "keep" of a parameter, "own" and "of(" ("self" | name) ")" of a result
 *
 * A function with the name of a class of the module is its constructor, and has no "->".
 *
 * Literals are written as in Python: 1, -2.5e3, True, None, 'text', and (1, 2) for ints and floats. docs/signatures.md
 * describes the meaning. */
#ifndef TENON_HOST_H
#define TENON_HOST_H

#include <tenon/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TENON_MAX_PARAMETERS = 64, TENON_MAX_RESULTS = 16 };

/* Bits of tenon_parameter.flags. */
#define TENON_PARAMETER_OPTIONAL     (1u << 0) /* None is allowed */
#define TENON_PARAMETER_DEFAULT      (1u << 1) /* may be omitted: `value` is used then */
#define TENON_PARAMETER_KEYWORD_ONLY (1u << 2)
#define TENON_PARAMETER_OPEN         (1u << 3) /* a tensor result that only the function can allocate */
/* Since version 1.1 of the function ABI. */
#define TENON_PARAMETER_KEEP   (1u << 4) /* "keep": a tensor argument that the function may keep after the call */
#define TENON_PARAMETER_OWN    (1u << 5) /* "own": a tensor result in memory of the library; TENON_PARAMETER_OPEN too */
#define TENON_PARAMETER_OF     (1u << 6) /* "of(...)": a tensor result in the memory of parameter `owner`; OPEN too */
#define TENON_PARAMETER_CLASS  (1u << 7) /* a handle whose name is a class of the module */
#define TENON_PARAMETER_SERIAL (1u << 8) /* of these, one whose calls the host runs one after the other */

/* A parameter or a result. */
typedef struct tenon_parameter {
    const char *name; /* NULL for a result without a name */
    uint32_t kind;    /* TENON_KIND_… */
    uint32_t flags;
    int32_t dim;                /* of an int: the slot of the dimension that it binds, or -1 */
    int32_t count;              /* of ints[N] and floats[N]: N, or -1; of an enum: the number of choices */
    const char *const *choices; /* of an enum */
    const char *handle;         /* the type of a handle */
    const tenon_spec *spec;     /* of a tensor */
    const char *type;           /* as written in the signature: "f32[n] c", "'mean'|'sum'" */
    const char *literal;        /* the default as written, or NULL; then the default of an optional parameter is None */
    tenon_value value;          /* the default */
    int32_t owner; /* of a result "of(...)": the index of the parameter, which is self or a tensor; or -1 */
} tenon_parameter;

/* What an entry of a module's table is. */
enum {
    TENON_ROLE_FUNCTION,
    TENON_ROLE_CLASS,       /* "class Name", which has no parameters, no results and no code */
    TENON_ROLE_CONSTRUCTOR, /* "Name(...)" of a class; its hidden result 0 is the handle of the object */
    TENON_ROLE_METHOD       /* "Name.method(self, ...)"; parameter 0 is the handle of the object */
};

/* A compiled signature. It is immutable, so any number of threads may use it. */
typedef struct tenon_signature tenon_signature;

/* Compile a signature.
 *
 * Release:   tenon_signature_release(*out).
 * Errors:    TENON_EPARSE (the message has a caret under the mistake), TENON_EINVAL (NULL), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_alloc(const char *text, tenon_signature **out, tenon_error *err);

/* As tenon_signature_alloc, for an entry of a checked module: with the grammar of version 1.1 if the module needs that
 * version, and with the module's classes. A NULL module has no classes, and the newest grammar. The module is not used
 * after the call.
 *
 * Release:   tenon_signature_release(*out).
 * Errors:    those of tenon_signature_alloc, whose grammar is that of version 1.0. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_alloc_in(const char *text, const tenon_module *module,
                                                                tenon_signature **out, tenon_error *err);

/* NULL is ignored. */
TENON_API void tenon_signature_release(tenon_signature *signature);

/* The parts of a signature. Strings and parameters are valid as long as the signature is. A NULL signature has no name
 * and no parameters. */
TENON_API const char *tenon_signature_text(const tenon_signature *signature);
TENON_API const char *tenon_signature_name(const tenon_signature *signature);
/* TENON_ROLE_…; the class of a class, constructor or method, otherwise NULL; the name of a method, otherwise NULL. The
 * name of the method `query` of the class `KDTree` is "KDTree.query". */
TENON_API int32_t tenon_signature_role(const tenon_signature *signature);
TENON_API const char *tenon_signature_class(const tenon_signature *signature);
TENON_API const char *tenon_signature_method(const tenon_signature *signature);
TENON_API int32_t tenon_signature_nparams(const tenon_signature *signature);
/* The number of parameters before the "*". */
TENON_API int32_t tenon_signature_npositional(const tenon_signature *signature);
/* The number of those without a default. */
TENON_API int32_t tenon_signature_nrequired(const tenon_signature *signature);
TENON_API int32_t tenon_signature_nresults(const tenon_signature *signature);
/* Whether the results have names. Either all of them do, or none. */
TENON_API bool tenon_signature_has_named_results(const tenon_signature *signature);
/* A parameter or a result, or NULL if the index is out of range. */
TENON_API const tenon_parameter *tenon_signature_param(const tenon_signature *signature, int32_t index);
TENON_API const tenon_parameter *tenon_signature_result_item(const tenon_signature *signature, int32_t index);
/* The names of dimensions and dtype variables; NULL for a NULL signature. */
TENON_API const tenon_names *tenon_signature_names(const tenon_signature *signature);

/* Match the arguments of a call: bind all names, then check the arguments in order, then check that no argument that is
 * written to shares memory with another. The kind of each argument must be the kind of its parameter, or
 * TENON_KIND_NONE. On TENON_OK, `bindings` has the values for tenon_call.dims and .types; a dimension that only omitted
 * arguments have is -1. After a mismatch, `bindings->argument` is the name of the argument that does not match.
 *
 * `objects`, which may be NULL, has a phrase for each argument for use in messages, such as "numpy.ndarray". Without
 * `err` a mismatch is almost as fast as a match: a host can match again to get the message. The shapes of the views must
 * be valid as long as the bindings are used.
 *
 * Errors: those of tenon_spec_check; TENON_EOVERLAP (two arguments share memory, and one is written to). */
TENON_API TENON_NODISCARD tenon_status tenon_signature_match(const tenon_signature *signature, const tenon_value *args,
                                                             const char *const *objects, tenon_bindings *bindings,
                                                             tenon_error *err);

/* Match only the first `count` arguments. A host that cannot convert argument `count` uses this to report an earlier
 * mistake first. The other arguments are not read, and names that only they would bind are not errors.
 *
 * Errors: those of tenon_spec_check except TENON_EINVAL. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_match_before(const tenon_signature *signature, int32_t count,
                                                                    const tenon_value *args, const char *const *objects,
                                                                    tenon_bindings *bindings, tenon_error *err);

/* The dtype and shape of a tensor result after a match. A dimension that only the function knows is -1.
 *
 * Errors: TENON_ESHAPE (a negative size, too many dimensions), TENON_EOVERFLOW, TENON_EINVAL (a name has no value). */
TENON_API TENON_NODISCARD tenon_status tenon_signature_result(const tenon_signature *signature, int32_t index,
                                                              const tenon_bindings *bindings, tenon_dtype *dtype,
                                                              int32_t *ndim, int64_t shape[TENON_MAX_NDIM],
                                                              tenon_error *err);

/* Check whether the function may allocate the result `index` with this shape, and set *dtype to its dtype.
 *
 * Errors: TENON_ESHAPE, TENON_EINVAL (the result is already allocated, or not a tensor), those of
 *         tenon_signature_result. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_open_result(const tenon_signature *signature, int32_t index,
                                                                   const tenon_bindings *bindings, int32_t ndim,
                                                                   const int64_t *shape, tenon_dtype *dtype,
                                                                   tenon_error *err);

/* Check whether a tensor that the caller passes as `out` can be the result `index`. It must have the right dtype and
 * shape, be writable, in C order and on the device of the call, and share memory with an argument only if "alias" or
 * "inplace(x)" allow it.
 *
 * Errors: those of tenon_signature_match. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_match_out(const tenon_signature *signature, int32_t index,
                                                                 const tenon_view *out, const tenon_value *args,
                                                                 tenon_device device, tenon_bindings *bindings,
                                                                 tenon_error *err);

/* ----------------------------------------------------------------------------------------------------- dimensions
 *
 * The dimensions of a tensor, for hosts that work out shapes by themselves: with symbols instead of numbers, or in
 * another language. The other properties of a tensor are in tenon_parameter and in its tenon_spec. */

enum {
    TENON_DIM_ANY,        /* "_" */
    TENON_DIM_NUMBER,     /* "3" */
    TENON_DIM_NAME,       /* "n", which the first argument that has it binds */
    TENON_DIM_STAR,       /* "*b", any number of dimensions */
    TENON_DIM_EXPRESSION, /* "2 * n + 1" */
    TENON_DIM_UNKNOWN     /* "?" of a result: the function decides */
};

enum {
    TENON_OP_NUMBER, /* push a number */
    TENON_OP_NAME,   /* push the value of a name */
    TENON_OP_ADD,    /* replace the last two values by their sum, and so on; the last value is the right operand */
    TENON_OP_SUB,
    TENON_OP_MUL,
    TENON_OP_FLOOR_DIV /* rounds down, as Python's // does; there is no value if the right operand is 0 */
};

/* One step of an expression in postfix order. */
typedef struct tenon_dimension_op {
    int32_t kind;   /* TENON_OP_… */
    int32_t slot;   /* TENON_OP_NAME: an index of tenon_names.dims; otherwise -1 */
    int64_t number; /* TENON_OP_NUMBER */
} tenon_dimension_op;

typedef struct tenon_dimension {
    int32_t kind;     /* TENON_DIM_… */
    int32_t slot;     /* TENON_DIM_NAME: an index of tenon_names.dims; TENON_DIM_STAR: of its stars; otherwise -1 */
    int64_t number;   /* TENON_DIM_NUMBER */
    const char *text; /* as it is written, `length` bytes without a 0 after them; lives as long as the signature */
    int32_t length;
    int32_t ncode; /* numbers, names and expressions have code: one step, or more */
    tenon_dimension_op code[TENON_SPEC_CODE];
} tenon_dimension;

/* Describe dimension `index` of the tensor `item`. Items are the parameters, then the results; tenon_spec.ndims says how
 * many dimensions there are. An expression has a value if each step of its code has one in 64 bits.
 *
 * Ownership: `out` is the caller's storage; it is written only on TENON_OK.
 * Threads:   any.
 * Errors:    TENON_EINVAL (NULL, an item that is not a tensor, no such dimension). */
TENON_API TENON_NODISCARD tenon_status tenon_signature_dim(const tenon_signature *signature, int32_t item,
                                                           int32_t index, tenon_dimension *out, tenon_error *err);

/* ---------------------------------------------------------------------------------------- services for every host */

/* Memory that is valid as long as a call: a list of blocks. NULL is an empty list. */
typedef struct tenon_block tenon_block;

/* Allocate `size` bytes, aligned to `align` bytes and at least to 16. Returns NULL if there is no memory, or if `align` is
 * not a power of two up to 4096. */
TENON_API TENON_NODISCARD void *tenon_block_alloc(tenon_block **list, size_t size, size_t align);

/* Free all blocks. NULL is ignored. */
TENON_API void tenon_blocks_release(tenon_block *list);

/* Implements `fail` of tenon_host: keeps the first failure in `error`. */
TENON_API tenon_status tenon_call_fail(tenon_call *call, tenon_error *error, tenon_status status, const char *message,
                                       size_t length);

/* Complete `error` after a function that failed, or that returned `status`: it has a message even if the function gave
 * none. */
TENON_API void tenon_call_failure(const tenon_call *call, tenon_status status, tenon_error *error);

/* Implements the checks of `result_alloc`: whether the function may allocate this result with this shape and dtype. A
 * dtype of all zeros is replaced by the one in the signature. Returns false if the call has failed. */
TENON_API TENON_NODISCARD bool tenon_call_open_result(tenon_call *call, const tenon_signature *signature,
                                                      const tenon_bindings *bindings, int32_t index, int32_t ndim,
                                                      const int64_t *shape, tenon_dtype *dtype);

/* Implements `result_str`: copies the string into a block. */
TENON_API tenon_status tenon_call_result_str(tenon_call *call, tenon_block **list, int32_t index, const char *text,
                                             size_t length);

/* Implements `scratch` on the CPU. Returns NULL if the call has failed. */
TENON_API TENON_NODISCARD void *tenon_call_scratch(tenon_call *call, tenon_block **list, size_t bytes, size_t align);

/* --------------------------------------------------------------------------------------------------------- modules */

#ifndef TENON_NO_SYSTEM
/* Open a shared library and find its module, which is checked with tenon_module_check. The file is checked first, so a
 * truncated file, or one that is not a library, is an error and not a crash.
 *
 * The same file always gives the same module, whatever name it is opened by. If there is a new build at the path, the
 * new one is opened; if its content is the same as that of an earlier build, the result may be the earlier module.
 *
 * - A build that replaced the file, as linkers, `install` and `mv` do, is opened in place. The old functions still work.
 * - A build that overwrote the open file, as `cp` does, has damaged the old functions for every user of the file. The new
 *   build is opened through a copy, which is removed immediately. The copy is in the same folder, or in TMPDIR (or /tmp)
 *   if that folder is not writable; then $ORIGIN is another folder.
 *
 * On Windows an open file cannot be overwritten. If it was renamed and a new build is at its path, that is an error.
 *
 * `path` is in the encoding of the system, and in UTF-8 on Windows. $ORIGIN is the folder in `path`, even if
 * the file is a symbolic link. Messages do not repeat the path. Older C libraries need -ldl and -pthread at link time. If
 * the core is compiled with TENON_NO_SYSTEM, this function does not exist.
 *
 * Ownership: the library is never closed, and *out is valid until the process ends.
 * Threads:   any. One thread at a time opens a library, and a fork in another thread waits for it.
 * Errors:    TENON_EFAILED if the file cannot be read, with the reason in errno; TENON_EINVAL if it is not a library, if
 *            the loader refuses it, or if it has no valid module; TENON_EVERSION, TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_library_open(const char *path, const tenon_module **out, tenon_error *err);

/* Write 32 hexadecimal digits and a final 0 that identify the code of a module: the hash of its file when it was opened
 * with tenon_library_open; of the file that it is mapped from now; or of its signatures, if it has no file. The hash is not
 * cryptographic.
 *
 * Threads:   any.
 * Errors:    TENON_EFAILED if it is a large file that has changed since it was opened. The message names no function. */
enum { TENON_HASH_SIZE = 33 };
TENON_API TENON_NODISCARD tenon_status tenon_module_hash(const tenon_module *module, char text[TENON_HASH_SIZE],
                                                         tenon_error *err);

/* A turn is the lock of one library, for hosts whose threads have no lock of a runtime: functions without
 * TENON_RELEASE_LOCK run inside of it, one at a time. It is recursive, and free again in a forked child. `library` is any
 * address that stands for the library; hosts that use the same address share the turn.
 *
 * Release:   tenon_turn_release, as often as tenon_turn_retain, which returns NULL if memory is exhausted. The other
 *            functions ignore NULL.
 * Threads:   any. */
typedef struct tenon_turn tenon_turn;
TENON_API tenon_turn *tenon_turn_retain(const void *library);
TENON_API void tenon_turn_release(tenon_turn *turn);
TENON_API void tenon_turn_enter(tenon_turn *turn);
TENON_API void tenon_turn_leave(tenon_turn *turn);
#endif

/* Check whether the content of a file is a complete shared library for this machine, as tenon_library_open does: loading
 * a truncated one would crash the process. Libraries for another system (ELF, PE and Mach-O files) are recognised, and the
 * message says which system it is.
 *
 * Errors: TENON_EINVAL. */
TENON_API TENON_NODISCARD tenon_status tenon_library_check(const void *bytes, size_t size, tenon_error *err);

/* Check whether this library can host the module: its magic number, version and sizes, and that no required field is
 * missing.
 *
 * Errors: TENON_EINVAL, TENON_EVERSION. */
TENON_API TENON_NODISCARD tenon_status tenon_module_check(const tenon_module *module, tenon_error *err);

/* Copy an entry from the table of a checked module, whatever the size of its entries. Fields that they do not have are
 * 0. */
TENON_API void tenon_module_function(const tenon_module *module, int64_t index, tenon_function *out);

#ifdef __cplusplus
}
#endif

#endif
