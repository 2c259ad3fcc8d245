/* Functions that write where they must not, by number, or not where they should. */
#include <tenon/function.h>

#include <math.h>
#include <stdlib.h>

/* Fills the result, and then writes `at` elements after its start. */
static tenon_status fill(tenon_call *call)
{
    float *z = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = 1;
    int64_t at = tenon_arg_int(call, 1);
    if (at)
        z[at] = 2;
    return TENON_OK;
}

/* An open result, filled with as many elements more. */
static tenon_status fill_open(tenon_call *call)
{
    int64_t n = tenon_arg_int(call, 0);
    const tenon_view *view = tenon_result_alloc(call, 0, 1, &n);
    double *z = view ? view->data : NULL;
    for (int64_t i = 0; z && i < n + tenon_arg_int(call, 1); i++)
        z[i] = 1;
    return TENON_OK;
}

/* Writes to the element of an argument. */
static tenon_status scribble(tenon_call *call)
{
    int64_t at = tenon_arg_int(call, 1);
    const tenon_view *view = tenon_arg(call, 0);
    if (at >= 0)
        tenon_at(view, float, at) = 99;
    return TENON_OK;
}

static tenon_status fill_and_scribble(tenon_call *call)
{
    tenon_result_data(call, 0, float)[0] = 1;
    return scribble(call);
}

static tenon_status scale(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        x[i] *= 2;
    return TENON_OK;
}

/* The first `count` elements of each result. */
static tenon_status forget(tenon_call *call)
{
    float *a = tenon_result_data(call, 0, float);
    int32_t *b = tenon_result_data(call, 1, int32_t);
    for (int64_t i = 0; i < tenon_arg_int(call, 1); i++) {
        a[i] = NAN;
        b[i] = 0;
    }
    return TENON_OK;
}

static tenon_status sum(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    double total = 0;
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        total += x[i];
    tenon_return_double(call, 0, total);
    return TENON_OK;
}

static tenon_status fail(tenon_call *call)
{
    tenon_result_data(call, 0, float)[tenon_arg_int(call, 1)] = 1;
    return tenon_fail(call, TENON_EINVAL, "its own message");
}

static tenon_status make(tenon_call *call)
{
    int64_t n = 3;
    float *memory = calloc(3, sizeof *memory);
    return tenon_result_own(call, 0, memory, 1, &n, NULL, memory, free);
}

static tenon_status view(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    return tenon_result_of(call, 0, x->data, 1, x->shape, x->strides);
}

TENON_MODULE(checked, "Functions that write where they must not.",
             TENON_FUNCTION("fill(x: f32[n], at: int = 0) -> f32[n]", fill, ""),
             TENON_FUNCTION_FLAGS("fill_unlocked(x: f32[n], at: int = 0) -> f32[n]", fill, "", TENON_RELEASE_LOCK),
             TENON_FUNCTION("fill_named(x: f32[n], at: int = 0) -> filled: f32[n]", fill, ""),
             TENON_FUNCTION("fill_open(n: int, more: int) -> f64[?]", fill_open, ""),
             TENON_FUNCTION("scribble(x: f32[n], at: int)", scribble, ""),
             TENON_FUNCTION("fill_and_scribble(x: f32[n], at: int) -> f32[n]", fill_and_scribble, ""),
             TENON_FUNCTION("scale(x: f32[n] c rw)", scale, ""),
             TENON_FUNCTION("forget(x: f32[n], count: int) -> f32[n], i32[n]", forget, ""),
             TENON_FUNCTION("sum(x: f32[n] c) -> float", sum, ""),
             TENON_FUNCTION("fail(x: f32[n], at: int = 0) -> f32[n]", fail, ""),
             TENON_FUNCTION("make() -> f32[?] own", make, ""),
             TENON_FUNCTION("view(x: f32[n]) -> f32[n] of(x)", view, ""))
