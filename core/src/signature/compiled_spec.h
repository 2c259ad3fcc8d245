/* Compiled specs, which signatures use too. */
#ifndef TENON_SIGNATURE_COMPILED_SPEC_H
#define TENON_SIGNATURE_COMPILED_SPEC_H

#include "internal.h"
#include "parser.h"

/* The compiled part of a spec may be anywhere in the caller's storage. */
#ifdef __GNUC__
#define TENON__MAY_ALIAS __attribute__((__may_alias__))
#else
#define TENON__MAY_ALIAS
#endif

/* One operation of an expression, in postfix order. */
typedef struct TENON__MAY_ALIAS tenon__spec_op {
    int64_t value; /* a number, or the slot of a name */
    int32_t kind;  /* TENON_OP_… */
    int32_t at;    /* its position in the text */
} tenon__spec_op;

typedef struct TENON__MAY_ALIAS tenon__spec_dim {
    int32_t kind; /* TENON_DIM_… */
    int32_t at;   /* its position in the text, and its length */
    int32_t length;
    int32_t first; /* its first operation, and the number of them */
    int32_t count;
    int32_t slot; /* of a name or "*" name */
    int64_t number;
} tenon__spec_dim;

/* What `private_` of a tenon_spec holds. */
typedef struct TENON__MAY_ALIAS tenon__spec_code {
    int32_t star; /* index of the "*" dimension, or -1 */
    int32_t nops;
    int32_t type_length;   /* of the text, up to "]" or "?" */
    int32_t text_length;   /* of the text, up to the where clause */
    uint32_t flags_wanted; /* bits of a view's flags that must be set, of those in flags_checked */
    uint32_t flags_checked;
    int32_t on_cpu; /* whether memory of the CPU is allowed */
    int32_t reserved;
    tenon__spec_dim dims[TENON_SPEC_DIMS];
    tenon__spec_op ops[TENON_SPEC_CODE];
} tenon__spec_code;

static inline const tenon__spec_code *tenon__code_of(const tenon_spec *spec)
{
    return (const tenon__spec_code *)(const void *)spec->private_;
}

/* Parse the type of a tensor with its attributes. */
tenon_status tenon__parse_tensor(tenon__parser *p, tenon_spec *out);
/* The slot of a dtype variable. Adds the variable if it is new. */
tenon_status tenon__intern_variable(const tenon__parser *p, tenon__word w, int32_t *variable);

/* An expression while it is parsed. */
typedef struct tenon__expression {
    tenon__parser *p;
    tenon__spec_op *ops; /* room for TENON_SPEC_CODE */
    int32_t nops;
    size_t start;        /* the position in the text that positions of operations count from */
    const char *of_what; /* named in errors: a "spec" or a "condition" */
    const tenon_signature
        *signature; /* of a condition: names are its dimensions and its int parameters; otherwise NULL */
} tenon__expression;

/* Parse terms with "+" and "-" between them. */
tenon_status tenon__parse_sum(tenon__expression *e);

/* -------------------------------------------------------------------------------------------------------- conditions */

/* The kind of an operation of a condition: push the value of int or uint parameter `value`. Follows TENON_OP_…. */
enum { TENON__OP_PARAMETER = TENON_OP_FLOOR_DIV + 1 };

/* A condition compares two expressions, or a float parameter with a number. */
typedef struct tenon__condition {
    uint32_t wanted; /* the results of the comparison that meet it; with the parameter on the left */
    int32_t number;  /* the index of the float parameter, or -1 */
    double limit;    /* what it is compared with */
    int32_t nleft;
    int32_t nright;
    const tenon__spec_op *ops; /* of the left side, then of the right side */
} tenon__condition;

/* The unused rest of the memory for conditions. */
typedef struct tenon__conditions_room {
    tenon__condition *conditions;
    tenon__spec_op *ops;
    const char **texts;
    char **text;
} tenon__conditions_room;

/* Whether the next clause compares something, as "k <= n" does. */
bool tenon__starts_condition(tenon__parser *p);
/* Parse a condition, and add it to the signature. */
tenon_status tenon__parse_condition(tenon__parser *p, tenon_signature *s, tenon__conditions_room *room);
/* Parse a name in a condition. */
tenon_status tenon__find_operand(tenon__expression *e, tenon__word w, int32_t *kind, int64_t *value);
/* That the arguments of a call, which match otherwise, meet the conditions. One whose names do not all have a value is
 * skipped.
 *
 * Errors: TENON_EINVAL, TENON_EOVERFLOW (an expression overflows or divides by 0). */
tenon_status tenon__check_conditions(const tenon_signature *s, const tenon_value *args, tenon_bindings *b,
                                     tenon_error *err);

/* That entries of one name do not take the same arguments. The entries have signatures.
 *
 * Errors: TENON_EINVAL, TENON_ENOMEM. */
tenon_status tenon__check_overloads(const tenon_module *module, tenon_error *err);

/* Parse an optional where clause. Only that of a signature has conditions; otherwise these are NULL. */
tenon_status tenon__parse_where(tenon__parser *p, tenon_signature *signature, tenon__conditions_room *conditions);

/* The compiled part of a spec, for writing. */
static inline tenon__spec_code *tenon__code_in(tenon_spec *spec)
{
    return (tenon__spec_code *)(void *)spec->private_;
}

/* Fill in what the compiled part says about layout and memory, after the flags of the spec were set. */
void tenon__spec_finish(tenon_spec *spec);

tenon_plan_spec tenon__plan_spec_of(const tenon_spec *spec);
/* How calls of the signature may be made by plan; fills in `binds` of its parameters. */
int32_t tenon__make_plan(const tenon_signature *signature, tenon_plan_spec *fast);
/* Bind the names of the spec that have no value yet, compare the others, and look at the layout and the memory. False means
 * "unknown", not "mismatch": tenon__spec_check decides. The names are bound either way. */
bool tenon__spec_fits(const tenon_spec *spec, const tenon_view *view, tenon_bindings *b);
/* Give a dtype variable a value, from the bindings' argument, if it has none. Whether it has this value, and may have it. */
bool tenon__bind_variable(int32_t variable, tenon_dtype dtype, tenon_bindings *b);
/* The same, with a message that names the type, "dtype(T)". Errors: TENON_EDTYPE. */
tenon_status tenon__check_variable(int32_t variable, tenon_dtype dtype, const char *type, tenon_bindings *b,
                                   tenon_error *err);
/* tenon_spec_check, which also binds the names that have no value yet. */
tenon_status tenon__spec_check(const tenon_spec *spec, const tenon_view *view, tenon_bindings *b, tenon_error *err);

/* Evaluate an expression. False if it overflows, divides by 0, or uses a name without a value, which *unbound then is.
 * `args` are those of the call if it is part of a condition. */
bool tenon__evaluate(const tenon__spec_op *ops, int32_t count, const tenon_bindings *b, const tenon_value *args,
                     int64_t *out, const char **unbound);

/* Evaluate the expression of a dimension. */
static inline bool tenon__spec_evaluate(const tenon_spec *spec, const tenon__spec_dim *dim, const tenon_bindings *b,
                                        int64_t *out, const char **unbound)
{
    return tenon__evaluate(&tenon__code_of(spec)->ops[dim->first], dim->count, b, NULL, out, unbound);
}
/* Whether `view`, which is written to, may share memory with the argument `name`. */
bool tenon__may_share(const tenon_spec *spec, const tenon_view *view, const char *name, const tenon_view *other);
/* "argument 'x' shares memory with argument 'y' …" */
tenon_status tenon__refuse_overlap(const tenon_bindings *b, const char *first, const char *second, tenon_error *err);
/* That nothing that is written to shares memory with anything else, for a signature with lists of tensors.
 *
 * Errors: TENON_EOVERLAP, TENON_ENOMEM. */
tenon_status tenon__check_list_overlaps(const tenon_signature *s, const tenon_value *args, tenon_bindings *b,
                                        tenon_error *err);

/* Broadcast the tensors that begin with the batch of the signature, and bind its name. If `frame` is not NULL, they become the
 * arguments of its call; otherwise this only finds out whether they can be. The arguments match their specs.
 *
 * Errors: TENON_ESHAPE, TENON_EOVERFLOW, TENON_ENOMEM. */
tenon_status tenon__broadcast_arguments(const tenon_signature *s, const tenon_value *args, tenon_frame *frame,
                                        tenon_bindings *b, tenon_error *err);

/* Compile the signatures of the parameters that are callables, and release them. Nothing is left after a failure. */
tenon_status tenon__compile_callables(const tenon_signature *s, tenon_parameter *params, tenon_error *err);
void tenon__release_callables(const tenon_signature *s);

/* An error message. It begins with "saxpy(): argument 'x'", if the bindings have these labels. */
typedef struct tenon__message {
    char buffer[sizeof((tenon_error){0}.message) +
                1]; /* one more, so that tenon_error_set can see that it is truncated */
    tenon__text text;
    const char *function;
} tenon__message;
void tenon__message_begin(tenon__message *m, const tenon_bindings *b);
tenon_status tenon__message_end(const tenon__message *m, tenon_status status, tenon_error *err);
/* Add the values of the names that an expression uses: " (n = 3 from argument 'a', k = 4)". */
void tenon__message_add_values(tenon__message *m, const tenon_spec *spec, const tenon__spec_dim *dim,
                               const tenon_bindings *b);

#endif
