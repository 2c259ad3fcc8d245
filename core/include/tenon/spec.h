/* Constraints on views, written as text, compiled once, matched in nanoseconds.
 *
 *   f32[n, k] c             two dimensions in C order; n and k are bound by the first view that has them
 *   f32|f64[n, 3] rw        either dtype, exactly 3 columns, written to
 *   T[*b, n + 1]? where T = real
 *
 * spec      = tensor ["where" Var "=" dtypes {"," Var "=" dtypes}]
 * tensor    = dtypes "[" [dim {"," dim}] "]" ["?"] {attribute}        "?": may be left out (a NULL view)
 * dtypes    = name {"|" name}     a dtype's name; real, integer, any; or a variable, which starts with a capital
 * dim       = expression of + - * // ( ) over numbers and names | "_" anything | "*name" any number of dimensions
 * attribute = "rw" | "c" | "f" | "dense" | "aligned(N)" | "unaligned" | device {"|" device} | "anywhere" | "alias"
 *           | "inplace(name)"
 *
 * `real` is every integer and float (not bool, complex or opaque), `integer` every i and u, both of one lane. Without a
 * device the memory must be readable by the CPU, which "cpu" says too: pinned and managed memory are. "cuda" takes
 * managed memory too; a device stands for all its ids. A variable is defined by one where clause: the spec's own, or
 * that of a spec parsed before with the same names ("where T = any" allows all).
 *
 * The memory has at least the natural alignment of its dtype (tenon_dtype_alignment); "aligned(N)" asks for more, and
 * "unaligned" allows less. Empty views and memory behind a handle (tenon_device_has_addresses) always pass. */
#ifndef TENON_SPEC_H
#define TENON_SPEC_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TENON_SPEC_TEXT = 256,  /* bytes of a spec's text, its end included */
    TENON_SPEC_DIMS = 32,   /* dimensions that a spec can write out; "*b" stands for any number */
    TENON_SPEC_CODE = 64,   /* operations of all its expressions */
    TENON_SPEC_TYPES = 16,  /* dtypes named one by one */
    TENON_NAME_SIZE = 32,   /* bytes of a name, its end included */
    TENON_MAX_NAMES = 32,   /* dimension names that the specs of one signature share */
    TENON_MAX_VARIABLES = 8 /* dtype variables, and "*" names */
};

/* A set of dtypes: some by name, some by kind. */
typedef struct tenon_dtypes {
    uint32_t kinds; /* bits: 0 real, 1 integer, 2 any */
    int32_t count;
    tenon_dtype items[TENON_SPEC_TYPES];
} tenon_dtypes;

/* The names shared by the specs of one signature, each in the order of its first appearance. All zero is empty. */
typedef struct tenon_names {
    int32_t ndims;
    int32_t nstars;
    int32_t ntypes;
    uint32_t defined; /* bit i: a where clause has said what types[i] may be */
    char dims[TENON_MAX_NAMES][TENON_NAME_SIZE];
    char stars[TENON_MAX_VARIABLES][TENON_NAME_SIZE];
    char types[TENON_MAX_VARIABLES][TENON_NAME_SIZE];
    tenon_dtypes allowed[TENON_MAX_VARIABLES]; /* what a where clause allows each; `any` without one */
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

/* A compiled spec: the caller's storage, holds no pointer, may be copied. */
typedef struct tenon_spec {
    uint32_t flags;
    int32_t variable; /* slot of the dtype variable, or -1 */
    tenon_dtypes dtypes;
    int32_t ndims;
    uint32_t devices;              /* bit per device type; 0: memory that the CPU can read */
    int64_t alignment;             /* N of aligned(N), or 0 */
    char inplace[TENON_NAME_SIZE]; /* the argument that it may be the same as */
    char text[TENON_SPEC_TEXT];
    uint64_t private_[258]; /* the compiled dimensions; tenon_signature_dim describes them */
} tenon_spec;

/* What the names stand for in one call. The caller's storage; tenon_bindings_reset before the first match. */
typedef struct tenon_bindings {
    const tenon_names *names;
    const char *function; /* labels for messages, each may be NULL: "saxpy" */
    const char *argument; /* "x" */
    const char *object;   /* "numpy.ndarray" */
    uint32_t dims_bound;  /* bit i: dims[i] has a value */
    uint32_t stars_bound;
    uint32_t types_bound;
    int64_t dims[TENON_MAX_NAMES];
    const int64_t *stars[TENON_MAX_VARIABLES]; /* the shape of the view that bound it, from the "*" on */
    int32_t star_ndims[TENON_MAX_VARIABLES];
    tenon_dtype types[TENON_MAX_VARIABLES];
    const char *dims_from[TENON_MAX_NAMES]; /* the argument that bound it */
    const char *stars_from[TENON_MAX_VARIABLES];
    const char *types_from[TENON_MAX_VARIABLES];
} tenon_bindings;

/* Compile `text`. Names it uses are looked up in `names` and added there; specs that share names are parsed with the
 * same `names`. On failure neither `out` nor `names` has changed.
 *
 * Errors: TENON_EPARSE, with a caret under the mistake; TENON_EINVAL (NULL). */
TENON_API TENON_NODISCARD tenon_status tenon_spec_parse(const char *text, tenon_names *names, tenon_spec *out,
                                                        tenon_error *err);

/* Forget all values and labels. */
static inline void tenon_bindings_reset(tenon_bindings *bindings, const tenon_names *names)
{
    bindings->names = names;
    bindings->function = bindings->argument = bindings->object = NULL;
    bindings->dims_bound = bindings->stars_bound = bindings->types_bound = 0;
}

/* Bind what the view tells of names that have no value yet. Cannot fail: what does not fit is left for the check. The
 * view's shape and the label `argument` must live as long as the bindings are used. */
TENON_API void tenon_spec_bind(const tenon_spec *spec, const tenon_view *view, tenon_bindings *bindings);

/* Check the view against the spec and the values bound. NULL stands for an argument left out.
 *
 * Errors: TENON_EDTYPE, TENON_ESHAPE, TENON_ELAYOUT, TENON_EDEVICE, TENON_EREADONLY, TENON_EOVERLAP (written and
 *         overlapping itself), TENON_EINVAL (left out and not optional, or an expression uses a name that nothing has
 * bound), TENON_EOVERFLOW (an expression without a value: too large, or divided by 0). The message says which
 * constraint failed, what was expected and what came. */
TENON_API TENON_NODISCARD tenon_status tenon_spec_check(const tenon_spec *spec, const tenon_view *view,
                                                        const tenon_bindings *bindings, tenon_error *err);

/* Bind, then check: for one view, or several whose names do not look ahead. After a failure the bindings hold what the
 * failing view told: reset them. */
TENON_API TENON_NODISCARD tenon_status tenon_spec_match(const tenon_spec *spec, const tenon_view *view,
                                                        tenon_bindings *bindings, tenon_error *err);

#ifdef __cplusplus
}
#endif

#endif
