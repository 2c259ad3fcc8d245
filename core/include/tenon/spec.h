/* Specs: constraints on views, written as strings and compiled once.
 *
 *   f32[n, k] c             two dimensions in C order; n and k are bound by the first view that has them
 *   f32|f64[n, 3] rw        either dtype, exactly 3 columns, will be written to
 *   T[*b, n + 1]? where T = real
 *
 *   spec      = tensor ["where" Var "=" dtypes {"," Var "=" dtypes}]
 *   tensor    = dtypes "[" [dim {"," dim}] "]" ["?"] {attribute}
 *   dtypes    = name {"|" name}
 *   dim       = expression | "_" | "*" name | "*_"
 *   attribute = "rw" | "c" | "f" | "dense" | "aligned(N)" | "unaligned" | device {"|" device} | "anywhere" | "alias"
 *             | "inplace(" name ")"
 *
 * With "?" the view may be omitted (NULL). A name in `dtypes` is that of a dtype, or real, integer or any, or a variable,
 * which starts with a capital. An expression has + - * // ( ), numbers and names. "_" is any size, "*b" any number of
 * dimensions, and "*_" any number of dimensions of any size.
 *
 * `real` means every integer and float dtype (not bool, complex or opaque), and `integer` every i and u dtype, both with
 * one lane. A variable is defined by exactly one where clause: that of the spec itself, or that of an earlier spec that
 * was parsed with the same names. "where T = any" allows every dtype.
 *
 * A device includes all its ids. Without a device, or with "cpu", the CPU must be able to read the memory; that includes
 * pinned and managed memory. "cuda" also accepts managed memory.
 *
 * The memory must have at least the natural alignment of its dtype (tenon_dtype_alignment). "aligned(N)" requires more,
 * and "unaligned" allows less. Alignment is not checked for empty views, nor for memory that is a handle
 * (tenon_device_has_addresses). */
#ifndef TENON_SPEC_H
#define TENON_SPEC_H

#if defined(__GNUC__) && !defined(TENON_DEVELOPER)
#pragma GCC system_header /* the warnings of a user's project do not apply to this file */
#endif

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TENON_SPEC_TEXT = 256,  /* bytes of the string, including the final 0 */
    TENON_SPEC_DIMS = 32,   /* dimensions in a spec; "*b" counts as one */
    TENON_SPEC_CODE = 64,   /* operations in all expressions of a spec */
    TENON_SPEC_TYPES = 16,  /* dtypes in one set */
    TENON_NAME_SIZE = 32,   /* bytes of a name, including the final 0 */
    TENON_MAX_NAMES = 32,   /* dimension names that the specs of one signature share */
    TENON_MAX_VARIABLES = 8 /* dtype variables, and "*" names */
};

/* Bits of tenon_dtypes.kinds. */
enum { TENON_DTYPES_REAL = 1, TENON_DTYPES_INTEGER = 2, TENON_DTYPES_ANY = 4 };

/* A set of dtypes: single dtypes, and kinds of dtypes. */
typedef struct tenon_dtypes {
    uint32_t kinds;
    int32_t count;
    tenon_dtype items[TENON_SPEC_TYPES];
} tenon_dtypes;

/* The names that the specs of one signature share, in the order in which they first appear. All zeros is empty. */
typedef struct tenon_names {
    int32_t ndims;
    int32_t nstars;
    int32_t ntypes;
    uint32_t defined; /* bit i: a where clause has defined types[i] */
    char dims[TENON_MAX_NAMES][TENON_NAME_SIZE];
    char stars[TENON_MAX_VARIABLES][TENON_NAME_SIZE];
    char types[TENON_MAX_VARIABLES][TENON_NAME_SIZE];
    tenon_dtypes allowed[TENON_MAX_VARIABLES]; /* the dtypes of each variable; `any` if not defined */
} tenon_names;

/* Bits of tenon_spec.flags. */
#define TENON_SPEC_OPTIONAL  (1u << 0)
#define TENON_SPEC_WRITE     (1u << 1)
#define TENON_SPEC_C         (1u << 2)
#define TENON_SPEC_F         (1u << 3)
#define TENON_SPEC_DENSE     (1u << 4)
#define TENON_SPEC_ANYWHERE  (1u << 5)
#define TENON_SPEC_ALIAS     (1u << 6)
#define TENON_SPEC_INPLACE   (1u << 7)
#define TENON_SPEC_UNALIGNED (1u << 8)

/* A compiled spec, in the caller's storage. It contains no pointers and may be copied. */
typedef struct tenon_spec {
    uint32_t flags;
    int32_t variable; /* slot of the dtype variable, or -1 */
    tenon_dtypes dtypes;
    int32_t ndims;
    uint32_t devices;              /* one bit per device type; 0: any memory that the CPU can read */
    int64_t alignment;             /* N of aligned(N), or 0 */
    char inplace[TENON_NAME_SIZE]; /* the argument that may be the same tensor */
    char text[TENON_SPEC_TEXT];
    uint64_t private_[260]; /* the compiled dimensions; tenon_signature_dim describes them */
} tenon_spec;

/* The values of the names in one call, in the caller's storage. Call tenon_bindings_reset before the first match. */
typedef struct tenon_bindings {
    const tenon_names *names;
    const char *function;               /* labels for error messages, each may be NULL: "saxpy" */
    const char *argument;               /* "x" */
    const char *object;                 /* "numpy.ndarray" */
    tenon_dtype_format_fn format_dtype; /* writes the dtype of a view in messages; NULL: tenon_dtype_format */
    uint32_t dims_bound;                /* bit i: dims[i] has a value */
    uint32_t stars_bound;
    uint32_t types_bound;
    int64_t dims[TENON_MAX_NAMES];
    const int64_t *stars[TENON_MAX_VARIABLES]; /* into the shape of the view that bound it */
    int32_t star_ndims[TENON_MAX_VARIABLES];
    tenon_dtype types[TENON_MAX_VARIABLES];
    const char *dims_from[TENON_MAX_NAMES]; /* the argument that bound it */
    const char *stars_from[TENON_MAX_VARIABLES];
    const char *types_from[TENON_MAX_VARIABLES];
    int32_t list; /* these three are set if `argument` is `label`: the parameter, the item of it that does not match */
    int64_t item;
    char label[TENON_NAME_SIZE + 24]; /* "xs[3]" */
} tenon_bindings;

/* Compile `text`. The names that it uses are looked up in `names`, and added if they are new. To share names between
 * specs, parse them with the same `names`. On failure `out` and `names` are unchanged.
 *
 * Errors: TENON_EPARSE (the message has a caret under the mistake), TENON_EINVAL (NULL). */
TENON_API TENON_NODISCARD tenon_status tenon_spec_parse(const char *text, tenon_names *names, tenon_spec *out,
                                                        tenon_error *err);

/* Clear all values and labels. */
static inline void tenon_bindings_reset(tenon_bindings *bindings, const tenon_names *names)
{
    bindings->names = names;
    bindings->function = bindings->argument = bindings->object = NULL;
    bindings->format_dtype = NULL;
    bindings->dims_bound = bindings->stars_bound = bindings->types_bound = 0;
}

/* Whether the set has the dtype. */
TENON_API bool tenon_dtypes_has(const tenon_dtypes *set, tenon_dtype dtype);

/* Bind the names of the spec that have no value yet to the sizes and the dtype of the view. This cannot fail: mismatches
 * are reported by tenon_spec_check, and NULL is ignored. The shape of the view and the label `argument` must be valid as long as the bindings
 * are used. */
TENON_API void tenon_spec_bind(const tenon_spec *spec, const tenon_view *view, tenon_bindings *bindings);

/* Check the view against the spec and the bound values. A NULL view means that the argument was not passed. The error
 * message says which constraint failed, what was expected and what was passed.
 *
 * Errors: TENON_EDTYPE, TENON_ESHAPE, TENON_ELAYOUT, TENON_EDEVICE, TENON_EREADONLY, TENON_EOVERLAP (the view will be
 *         written to, but overlaps itself), TENON_EINVAL (a NULL view that is not optional, or an expression with a name
 *         that has no value), TENON_EOVERFLOW (an expression overflows or divides by 0). */
TENON_API TENON_NODISCARD tenon_status tenon_spec_check(const tenon_spec *spec, const tenon_view *view,
                                                        const tenon_bindings *bindings, tenon_error *err);

/* Bind, then check. Use it for a single view, or for several if no expression uses a name that only a later view binds.
 * After a failure, reset the bindings: they contain values of the view that did not match. */
TENON_API TENON_NODISCARD tenon_status tenon_spec_match(const tenon_spec *spec, const tenon_view *view,
                                                        tenon_bindings *bindings, tenon_error *err);

#ifdef __cplusplus
}
#endif

#endif
