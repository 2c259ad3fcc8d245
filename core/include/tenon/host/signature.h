/* Signatures: compile them, and read what they say.
 *
 * entry     = "class" Name | property | constant | signature
 * property  = Name "." name ":" result
 * constant  = [Name "."] name "=" literal
 * signature = [Name "."] name "(" ["self" [","]] [params] ")" ["->" results]
 *             ["where" clause {"," clause}]      "self" only after a "Name."; without it, a static method
 * clause    = Var "=" dtypes | sum ("<" | "<=" | ">" | ">=") sum      a condition, which the arguments must meet
 *             sum: an expression as in a dimension, of dimensions and of int and uint parameters; or a float parameter,
 *             compared with a number
 * params    = param {"," param}     after a bare "*", parameters are keyword-only
 * param     = name ":" type ["=" literal]
 * type      = (value | enum | choices | list | "dtype" ["(" Var ")"] | handle | callable) ["?"] | tensor
 *           | "[" tensor "]" ["?"]      a list of tensors; the attributes are those of each
 * value     = "int" | "uint" | "float" | "complex" | "bool" | "str" | "bytes" | "strs"
 * callable  = "callable(" string ")"     the string is "(" [params] ")" ["->" results], of tensors, numbers, bools and strs
 * enum      = string {"|" string}   'mean'|'sum', in either kind of quote
 * choices   = integer "|" integer {"|" integer}      1|2|4; neither these nor "dtype" can be results
 * list      = ("ints" | "floats") ["[" number "]"]
 * handle    = "handle(" string ")"
 * results   = [name ":"] result {"," [name ":"] result}
 * result    = type | "[" tensor "]" ["for" name]      "for": one for each item of that list, made by the host
 * tensor    as in spec.h; in a result, a dimension may be "?": only the function knows it. More attributes:
 *             "keep" and "convert" of a parameter, "own" and "of(" ("self" | name) ")" of a result; none of them in a list
 *
 * A function with the name of a class of the module is its constructor, and has no "->".
 *
 * Literals are written as in Python: 1, -2.5e3, 1+2j, True, None, 'text', and (1, 2) for lists; a dtype is 'f32'. docs/signatures.md
 * describes the meaning. */
#ifndef TENON_HOST_SIGNATURE_H
#define TENON_HOST_SIGNATURE_H

#include <tenon/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A host may leave functions out. In the bundle, these headers are part of a source, where a compiler warns of that. */
#ifdef __GNUC__
#define TENON__INLINE static inline __attribute__((__unused__))
#else
#define TENON__INLINE static inline
#endif

/* Increase it when a struct or an inline function of the headers in host/ changes. */
#define TENON_HOST_LAYOUT 13u

enum { TENON_MAX_PARAMETERS = 64, TENON_MAX_RESULTS = 16, TENON_MAX_OVERLOADS = 64 };

/* Bits of tenon_parameter.flags. */
#define TENON_PARAMETER_OPTIONAL     (1u << 0) /* None is allowed */
#define TENON_PARAMETER_DEFAULT      (1u << 1) /* may be omitted: `value` is used then */
#define TENON_PARAMETER_KEYWORD_ONLY (1u << 2)
#define TENON_PARAMETER_OPEN         (1u << 3) /* a tensor result that only the function can allocate */
#define TENON_PARAMETER_KEEP         (1u << 4) /* "keep": a tensor argument that the function may keep after the call */
#define TENON_PARAMETER_OWN          (1u << 5) /* "own": a tensor result in memory of the library; TENON_PARAMETER_OPEN too */
#define TENON_PARAMETER_OF           (1u << 6) /* "of(...)": a tensor result in the memory of parameter `owner`; OPEN too */
#define TENON_PARAMETER_CLASS        (1u << 7) /* a handle whose name is a class of the module */
#define TENON_PARAMETER_SERIAL       (1u << 8) /* of these, one whose calls the host runs one after the other */
#define TENON_PARAMETER_EACH         (1u << 9) /* "for xs": a list result with an item for each one of parameter `owner` */
#define TENON_PARAMETER_CONVERT                                                                                        \
    (1u << 10) /* "convert": a tensor argument of another dtype, order or alignment is converted */

/* A parameter or a result. */
typedef struct tenon_parameter {
    const char *name; /* NULL for a result without a name */
    uint32_t kind;    /* TENON_KIND_… */
    uint32_t flags;
    int32_t dim;                /* of an int: the slot of the dimension that it binds, or -1 */
    int32_t count;              /* of ints[N] and floats[N]: N, or -1; of choices: their number */
    const char *const *choices; /* of an enum */
    const int64_t *integers;    /* of an int that is a choice of integers, 1|2|4; otherwise NULL */
    const char *handle;         /* the type of a handle */
    const tenon_spec *spec;     /* of a tensor */
    const tenon_spec *items;    /* of a list of tensors: of each of them */
    const char *first;          /* of a parameter that is such a list: its first item in messages, "xs[0]" */
    const struct tenon_signature *callback; /* of a callable: its own signature, whose name is that of the parameter */
    const char *type;                       /* as written in the signature: "f32[n] c", "'mean'|'sum'" */
    const char *literal; /* the default as written, or NULL; then the default of an optional parameter is None */
    tenon_value value;   /* the default */
    int32_t
        owner; /* of a result "of(...)" or "for ...": the index of the parameter, which is self, a tensor or a list; or -1 */
    int32_t variable; /* of dtype(T): the index of the variable in tenon_names; otherwise -1 */
    bool checked;     /* the match looks at the value: it binds a dimension or a variable, or is one of some integers */
} tenon_parameter;

/* The part of a spec that a plan needs: host/plan.h. */
typedef struct tenon_plan_spec tenon_plan_spec;

/* Which plan of host/plan.h a signature has. */
enum { TENON_PLAN_NONE, TENON_PLAN_WIDE, TENON_PLAN_PLAIN };

/* What an entry of a module's table is. */
enum {
    TENON_ROLE_FUNCTION,
    TENON_ROLE_CLASS,       /* "class Name", which has no parameters, no results and no code */
    TENON_ROLE_CONSTRUCTOR, /* "Name(...)" of a class; its hidden result 0 is the handle of the object */
    TENON_ROLE_METHOD,      /* "Name.method(self, ...)"; parameter 0 is the handle of the object */
    TENON_ROLE_STATIC,      /* "Name.method(...)" without self: a static method */
    TENON_ROLE_PROPERTY,    /* "Name.size: int"; parameter 0 is the handle of the object, and there is one result */
    TENON_ROLE_CONSTANT     /* "Name.LEAF = 16" or "LEAF = 16", which has no parameters, no results and no code */
};

/* A compiled signature. It never changes, so any number of threads may use it. Strings, parameters and specs are valid as
 * long as the signature is. */
typedef struct tenon_signature {
    const char *text;
    const char *name;                /* "query", or "KDTree.query" */
    const char *class_name;          /* NULL for a plain function, and for a constant of the module */
    const char *method;              /* the name after the "."; NULL if it has only one name */
    const tenon_parameter *constant; /* of a constant: its name, kind, type, literal and value; else NULL */
    const tenon_parameter *params;
    const tenon_parameter *results;
    int32_t nparams;
    int32_t npositional; /* those before the "*" */
    int32_t nrequired;   /* positional ones without a default */
    int32_t nresults;
    int32_t ntensors;   /* tensor parameters */
    int32_t nlists;     /* parameters that are lists of tensors */
    int32_t nwritten;   /* of both, written */
    int32_t nserial;    /* parameters that are TENON_PARAMETER_SERIAL */
    int32_t ncallables; /* parameters that are callables */
    int32_t nconverted; /* parameters that are TENON_PARAMETER_CONVERT */
    int32_t nbatched;   /* tensor parameters that begin with a batch "**b" */
    int32_t batch;      /* if nbatched is not 0: the slot of the batch in names.stars; a signature has one */
    int32_t role;       /* TENON_ROLE_… */
    int32_t plan;       /* TENON_PLAN_…: how calls may be made by plan */
    bool has_self;      /* parameter 0 is the object of a method or a property */
    bool named_results; /* all have a name, or none */
    bool binds_ints;    /* an int parameter binds a dimension */
    bool open_results;  /* some are TENON_PARAMETER_OPEN */
    bool checks_all;    /* there are conditions, or written arguments: a match ends with checks of both */
    int32_t nconditions;
    const char *const *conditions;     /* as they are written: "k <= n" */
    size_t size;                       /* of the one block of memory that holds it all */
    const tenon_plan_spec *fast;       /* of the parameters, then of the results; for tenon_plan_set_view */
    const tenon_plan_spec *fast_items; /* of the items of the parameters that are lists */
    const struct tenon__condition *condition_code;
    tenon_names names;
} tenon_signature;

/* Compile an entry of a checked module's table. With a NULL module there are no classes. The module is not used after the
 * call. `layout` is TENON_HOST_LAYOUT.
 *
 * Release:   tenon_signature_release(*out).
 * Errors:    TENON_EVERSION (the core was compiled with another layout), TENON_EPARSE (the message has a caret under the
 *            mistake), TENON_EINVAL (NULL), TENON_ENOMEM. */
TENON_API TENON_NODISCARD tenon_status tenon_signature_alloc(const char *text, const tenon_module *module,
                                                             uint32_t layout, tenon_signature **out, tenon_error *err);

/* NULL is ignored. */
TENON_API void tenon_signature_release(tenon_signature *signature);

/* The dtype and shape of a tensor result after a match. A dimension that only the function knows is -1.
 *
 * Errors: TENON_ESHAPE (a negative size, too many dimensions), TENON_EOVERFLOW, TENON_EINVAL (a name has no value). */
TENON_API TENON_NODISCARD tenon_status tenon_signature_result(const tenon_signature *signature, int32_t index,
                                                              const tenon_bindings *bindings, tenon_dtype *dtype,
                                                              int32_t *ndim, int64_t shape[TENON_MAX_NDIM],
                                                              tenon_error *err);

/* Check whether a tensor that the caller passes as `out` can be the result `index`. It must have the right dtype and
 * shape, be writable, in C order and on the device of the call, and share memory with an argument only if "alias" or
 * "inplace(x)" allow it.
 *
 * Errors: those of tenon_spec_check, and TENON_EOVERLAP. */
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
    TENON_DIM_STAR,       /* "*b", any number of dimensions; "*_", whose slot is -1 */
    TENON_DIM_EXPRESSION, /* "2 * n + 1" */
    TENON_DIM_UNKNOWN,    /* "?" of a result: the function decides */
    TENON_DIM_BATCH       /* "**b", any number of dimensions, which are broadcast; the first of its shape */
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
    int32_t kind; /* TENON_DIM_… */
    int32_t
        slot; /* TENON_DIM_NAME: an index of tenon_names.dims; TENON_DIM_STAR and TENON_DIM_BATCH: of its stars; otherwise -1 */
    int64_t number;   /* TENON_DIM_NUMBER */
    const char *text; /* as it is written, `length` bytes without a 0 after them; lives as long as the signature */
    int32_t length;
    int32_t ncode; /* numbers, names and expressions have code: one step, or more */
    tenon_dimension_op code[TENON_SPEC_CODE];
} tenon_dimension;

/* Describe dimension `index` of the tensor `item`, or of the tensors in the list `item`. Items are the parameters, then the
 * results; tenon_spec.ndims says how many dimensions there are. An expression has a value if each step of its code has one in 64 bits.
 *
 * Ownership: `out` is the caller's storage; it is written only on TENON_OK.
 * Threads:   any.
 * Errors:    TENON_EINVAL (NULL, an item that is not a tensor, no such dimension). */
TENON_API TENON_NODISCARD tenon_status tenon_signature_dim(const tenon_signature *signature, int32_t item,
                                                           int32_t index, tenon_dimension *out, tenon_error *err);

#ifdef __cplusplus
}
#endif

#endif
