/* Functions with arguments that are converted. */
#include <tenon/function.h>

/* total(x: f32[*_] c convert) -> float, int: the sum, and where the elements are */
static tenon_status total(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    const float *data = tenon_data(call, 0, float);
    double sum = 0;
    for (int64_t i = 0; data && i < x->numel; i++)
        sum += data[i];
    tenon_return_double(call, 0, sum);
    return tenon_return_int(call, 1, (int64_t)(intptr_t)data);
}

/* twice(x: f32[n] c convert, k: i64[n]? convert) -> f32[n] */
static tenon_status twice(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    const int64_t *k = tenon_has_arg(call, 1) ? tenon_data(call, 1, int64_t) : NULL;
    float *out = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        out[i] = 2 * x[i] + (k ? (float)k[i] : 0);
    return TENON_OK;
}

/* columns(x: f64[n, k] f convert) -> f64[n, k]: the elements in memory order */
static tenon_status columns(tenon_call *call)
{
    const double *x = tenon_data(call, 0, double);
    double *out = tenon_result_data(call, 0, double);
    for (int64_t i = 0; i < tenon_arg(call, 0)->numel; i++)
        out[i] = x[i];
    return TENON_OK;
}

/* whole(x: i32[n] convert), truth(x: bool[n] convert), turn(x: c64[n] convert) */
static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

/* each(x: f64[n] c convert, f: callable('(x: f64[_])')): calls f with the elements */
static tenon_status each(tenon_call *call)
{
    tenon_value arg;
    memset(&arg, 0, sizeof arg);
    arg.kind = TENON_KIND_TENSOR;
    arg.as.view = tenon_arg(call, 0);
    return tenon_callback(call, 1, &arg, NULL);
}

/* Bag(x: f64[n] c convert); Bag.add(self, x: f64[n] c convert) -> float */
static int the_bag;

static void leave(void *bag)
{
    (void)bag;
}

static tenon_status make_bag(tenon_call *call)
{
    return tenon_return_handle(call, 0, &the_bag, leave);
}

static tenon_status add(tenon_call *call)
{
    const double *x = tenon_data(call, 1, double);
    return tenon_return_double(call, 0, x && tenon_dim(call, 0) > 0 ? x[0] : 0);
}

TENON_MODULE(conversions, "Arguments that are converted.",
             TENON_FUNCTION("total(x: f32[*_] c convert) -> float, int", total, "The sum."),
             TENON_FUNCTION("twice(x: f32[n] c convert, k: i64[n]? convert) -> f32[n]", twice, "2 x + k."),
             TENON_FUNCTION("columns(x: f64[n, k] f convert) -> f64[n, k]", columns, ""),
             TENON_FUNCTION("whole(x: i32[n] convert)", nothing, ""),
             TENON_FUNCTION("truth(x: bool[n] convert)", nothing, ""),
             TENON_FUNCTION("turn(x: c64[n] convert)", nothing, ""),
             TENON_FUNCTION("each(x: f64[n] c convert, f: callable('(x: f64[_])'))", each, ""), TENON_CLASS("Bag", ""),
             TENON_FUNCTION("Bag(x: f64[n] c convert)", make_bag, ""),
             TENON_FUNCTION("Bag.add(self, x: f64[n] c convert) -> float", add, ""))
