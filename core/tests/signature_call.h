/* For tests of calls: values, and a signature with its bindings. */
#ifndef TENON_TESTS_SIGNATURE_CALL_H
#define TENON_TESTS_SIGNATURE_CALL_H

#include "check.h"

#define ARGS(...) ((tenon_value[]){__VA_ARGS__})
#define INT(n)    ((tenon_value){.kind = TENON_KIND_INT, .as.integer = (n)})
#define NONE      ((tenon_value){.kind = TENON_KIND_NONE})

static inline tenon_value tensor_value(const tenon_view *view)
{
    return (tenon_value){.kind = TENON_KIND_TENSOR, .as.view = view};
}

static inline const tenon_view *view_in(const tenon_value *value)
{
    return value->kind == TENON_KIND_TENSOR ? value->as.view : NULL;
}

typedef struct call {
    tenon_signature *signature;
    tenon_bindings bindings;
} call;

static inline tenon_signature *compiled(const char *text)
{
    tenon_signature *signature = NULL;
    OK(tenon_signature_alloc(text, &signature, &err));
    return signature;
}

static const char *const object_words[] = {"numpy.ndarray", "torch.Tensor", "list", "bytes"};

/* Expect the arguments to match. */
static inline void fits(call *c, const char *text, const tenon_value *args)
{
    c->signature = compiled(text);
    memset(&c->bindings, 0xa5, sizeof c->bindings); /* nothing may depend on the old contents */
    OK(tenon_signature_match(c->signature, args, object_words, &c->bindings, &err));
}

static inline void done(call *c)
{
    tenon_signature_release(c->signature);
}

/* Expect a mismatch, with and without a tenon_error. */
static inline void misfit(const char *text, const tenon_value *args, tenon_status status, const char *message)
{
    call c = {.signature = compiled(text)};
    FAILS_SAYING(status, message, tenon_signature_match(c.signature, args, object_words, &c.bindings, &err));
    assert_int_equal(tenon_signature_match(c.signature, args, object_words, &c.bindings, NULL), status);
    char told[TENON_NAME_SIZE + 16];
    assert_non_null(c.bindings.argument);
    snprintf(told, sizeof told, "argument '%s'", c.bindings.argument);
    assert_non_null(strstr(err.message, told));
    done(&c);
}

#endif
