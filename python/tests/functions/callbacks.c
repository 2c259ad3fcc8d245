/* Functions that call back. */
#define TENON_MODULE_VERSION "1.0"
#include <tenon/function.h>

#include <stdlib.h>

#ifndef _WIN32
#include <pthread.h>
#endif

/* minimum(f: callable('(x: f64[n]) -> float'), x: f64[n] c, steps: int = 3) -> float: f of x, and of x in scratch memory */
static tenon_status minimum(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0), steps = tenon_arg_int(call, 2);
    const double *x = tenon_data(call, 1, double);
    double *at = (double *)tenon_scratch(call, (size_t)n * sizeof *at);
    tenon_value result, first = tenon_value_of_view(tenon_arg(call, 1));
    if (!at || tenon_callback(call, 0, &first, &result))
        return TENON_EFAILED;
    double least = result.as.number;
    for (int64_t k = 1; k < steps; k++) {
        for (int64_t i = 0; i < n; i++)
            at[i] = x[i] + (double)k;
        tenon_view view = tenon_view_of(at, TENON_F64, 1, &n);
        tenon_value value = tenon_value_of_view(&view);
        if (tenon_callback(call, 0, &value, &result))
            return TENON_EFAILED;
        least = result.as.number < least ? result.as.number : least;
    }
    return tenon_return_double(call, 0, least);
}

/* solve(x: f32[n] c, progress: callable('(step: int, done: float, name: str, last: bool) -> bool')? = None) -> f32[n] */
static tenon_status solve(tenon_call *call)
{
    int64_t n = tenon_dim(call, 0);
    const float *x = tenon_data(call, 0, float);
    float *z = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < n; i++) {
        z[i] = 2 * x[i];
        if (!tenon_has_arg(call, 1))
            continue;
        tenon_value go_on, args[4];
        args[0] = tenon_value_of_int(i);
        args[1] = tenon_value_of_double((double)(i + 1) / (double)n);
        args[2] = tenon_value_of_str("double \xc3\xa4", 9);
        args[3] = tenon_value_of_bool(i + 1 == n);
        if (tenon_callback(call, 1, args, &go_on))
            return TENON_EFAILED;
        if (!go_on.as.integer)
            return tenon_fail(call, TENON_EFAILED, "stopped at step %d", (int)i);
    }
    return TENON_OK;
}

/* fill(f: callable('(to: f32[n] rw)'), n: int) -> f32[n]: the callback fills the result */
static tenon_status fill(tenon_call *call)
{
    tenon_value value = tenon_value_of_view(tenon_result(call, 0));
    return tenon_callback(call, 0, &value, NULL);
}

/* each(xs: [f32[n] c], f: callable('(x: f32[n], z: f32[n] rw)')) -> [f32[_]] for xs */
static tenon_status each(tenon_call *call)
{
    int64_t count;
    const tenon_view *xs = tenon_arg_tensors(call, 0, &count), *zs = tenon_result_tensors(call, 0, NULL);
    for (int64_t i = 0; i < count; i++) {
        tenon_value args[2];
        args[0] = tenon_value_of_view(&xs[i]);
        args[1] = tenon_value_of_view(&zs[i]);
        if (tenon_callback(call, 1, args, NULL))
            return TENON_EFAILED;
    }
    return TENON_OK;
}

/* grow(f: callable('(z: f32[n] rw)'), count: int) -> [f32[?]]: the callback fills each tensor, and then the first one again */
static tenon_status grow(tenon_call *call)
{
    int64_t two = 2;
    tenon_value first = tenon_value_of_view(NULL);
    for (int64_t i = 0; i < tenon_arg_int(call, 1); i++) {
        const tenon_view *view = tenon_result_push(call, 0, 1, &two);
        if (!view)
            return TENON_EFAILED;
        tenon_value value = tenon_value_of_view(view);
        first = i ? first : value;
        if (tenon_callback(call, 0, &value, NULL))
            return TENON_EFAILED;
    }
    return tenon_callback(call, 0, &first, NULL);
}

/* several(f: callable('() -> str, int, float')) -> str, int, float */
static tenon_status several(tenon_call *call)
{
    tenon_value results[3];
    if (tenon_callback(call, 0, NULL, results))
        return TENON_EFAILED;
    tenon_return_str(call, 0, (const char *)results[0].as.list.data, (size_t)results[0].as.list.length);
    tenon_return_int(call, 1, results[1].as.integer);
    return tenon_return_double(call, 2, results[2].as.number);
}

static bool was_cancelled;

/* cancelled() -> bool: whether tenon_cancelled said so at the end of stubborn() */
static tenon_status cancelled(tenon_call *call)
{
    return tenon_return_bool(call, 0, was_cancelled);
}

/* stubborn(f: callable('()')) -> int: how often it calls although the callback failed; always a failure */
static tenon_status stubborn(tenon_call *call)
{
    int failures = 0;
    for (int i = 0; i < 5; i++)
        failures += tenon_callback(call, 0, NULL, NULL) != TENON_OK;
    was_cancelled = tenon_cancelled(call);
    tenon_return_int(call, 0, failures);
    return TENON_OK;
}

/* wrong(f: callable('(x: f32[n])'), x: f32[n] c, how: str) */
static tenon_status wrong(tenon_call *call)
{
    static const float constant[4] = {0};
    const char *how = tenon_arg_str(call, 2, NULL);
    int64_t n = tenon_dim(call, 0), two[2] = {1, n};
    tenon_view view = *tenon_arg(call, 1);
    tenon_value value = tenon_value_of_view(&view);
    if (strcmp(how, "memory") == 0)
        view.data = (void *)(uintptr_t)constant;
    else if (strcmp(how, "beyond") == 0)
        view.data = (float *)view.data + 1;
    else if (strcmp(how, "shape") == 0)
        view = tenon_view_of(view.data, TENON_F32, 2, two);
    else if (strcmp(how, "dtype") == 0)
        view.dtype = TENON_I32;
    else if (strcmp(how, "kind") == 0)
        value = tenon_value_of_int(3);
    else if (strcmp(how, "null") == 0)
        value = tenon_value_of_view(NULL);
    return tenon_callback(call, 0, strcmp(how, "arguments") ? &value : NULL, NULL);
}

/* sneak(f: callable('(x: f32[n] rw)'), x: f32[n] c): lets the callback write to an argument that is not rw */
static tenon_status sneak(tenon_call *call)
{
    tenon_value value = tenon_value_of_view(tenon_arg(call, 1));
    return tenon_callback(call, 0, &value, NULL);
}

#ifndef _WIN32
static void *call_elsewhere(void *call)
{
    return (void *)(intptr_t)tenon_callback((tenon_call *)call, 0, NULL, NULL);
}

/* elsewhere(f: callable('()')) -> int: what a callback on another thread returns */
static tenon_status elsewhere(tenon_call *call)
{
    pthread_t thread;
    void *status = NULL;
    if (pthread_create(&thread, NULL, call_elsewhere, call) || pthread_join(thread, &status))
        return tenon_fail(call, TENON_EFAILED, "no thread");
    return tenon_return_int(call, 0, (intptr_t)status);
}
#define ELSEWHERE                                                                                                      \
    TENON_FUNCTION_FLAGS("elsewhere(f: callable('()')) -> int", elsewhere, "On another thread.", TENON_RELEASE_LOCK),
#else
#define ELSEWHERE
#endif

/* Solver(), Solver.run(self, f: callable('()')) */
static tenon_status solver_new(tenon_call *call)
{
    return tenon_return_handle(call, 0, malloc(1), free);
}

static tenon_status solver_run(tenon_call *call)
{
    return tenon_callback(call, 1, NULL, NULL);
}

TENON_MODULE(callbacks, "Functions that call back.",
             TENON_FUNCTION("minimum(f: callable('(x: f64[n]) -> float'), x: f64[n] c, steps: int = 3) -> float",
                            minimum, "The least of f."),
             TENON_FUNCTION_FLAGS("minimum_unlocked(f: callable('(x: f64[n]) -> float'), x: f64[n] c, steps: int = 3) "
                                  "-> float",
                                  minimum, "The same without the lock.", TENON_RELEASE_LOCK),
             TENON_FUNCTION("solve(x: f32[n] c, progress: callable('(step: int, done: float, name: str, last: bool) -> "
                            "bool')? = None) -> f32[n]",
                            solve, "With progress."),
             TENON_FUNCTION("fill(f: callable('(to: f32[n] rw)'), n: int) -> f32[n]", fill, "Filled by f."),
             TENON_FUNCTION("each(xs: [f32[n] c], f: callable('(x: f32[n], z: f32[n] rw)')) -> [f32[_]] for xs", each,
                            "f of each."),
             TENON_FUNCTION("grow(f: callable('(z: f32[n] rw)'), count: int) -> [f32[?]]", grow, "Filled by f."),
             TENON_FUNCTION("several(f: callable('() -> str, int, float')) -> str, int, float", several, "All of f."),
             TENON_FUNCTION("stubborn(f: callable('()')) -> int", stubborn, "Calls again."),
             TENON_FUNCTION("cancelled() -> bool", cancelled, "Whether it was to stop."),
             TENON_FUNCTION("wrong(f: callable('(x: f32[n])'), x: f32[n] c, how: str)", wrong, "Mistakes."),
             TENON_FUNCTION("sneak(f: callable('(x: f32[n] rw)'), x: f32[n] c)", sneak, "Not rw."),
             ELSEWHERE TENON_CLASS("Solver", "Calls back."), TENON_FUNCTION("Solver()", solver_new, "A solver."),
             TENON_FUNCTION("Solver.run(self, f: callable('()'))", solver_run, "Calls f."))
