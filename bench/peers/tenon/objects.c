/* A class beside free functions that do the same work. */
#include <stdlib.h>
#include <tenon/function.h>

enum { POINTS = 16, COLUMNS = 3 };
static float points[POINTS][COLUMNS];

static void scatter(void)
{
    for (int i = 0; i < POINTS * COLUMNS; i++)
        points[i / COLUMNS][i % COLUMNS] = (float)(i * 37 % 101);
}

/* The nearest of the points, for each row of argument `x`. */
static tenon_status search(tenon_call *call, int x_index, float (*from)[COLUMNS])
{
    const float *x = tenon_data(call, x_index, float);
    int64_t m = tenon_dim(call, 0), k = tenon_arg_int(call, x_index + 1);
    int64_t *rows = tenon_result_data(call, 0, int64_t);
    float *distance = tenon_result_data(call, 1, float);
    for (int64_t i = 0; i < m * k; i++) {
        distance[i] = 1e30f;
        for (int j = 0; j < POINTS; j++) {
            float square = 0;
            for (int axis = 0; axis < COLUMNS; axis++) {
                float difference = x[i / k * COLUMNS + axis] - from[j][axis];
                square += difference * difference;
            }
            rows[i] = square < distance[i] ? j : rows[i];
            distance[i] = square < distance[i] ? square : distance[i];
        }
    }
    return TENON_OK;
}

static tenon_status query(tenon_call *call)
{
    return search(call, 0, points);
}

static tenon_status tree_new(tenon_call *call)
{
    scatter();
    void *copy = malloc(sizeof points);
    if (!copy)
        return TENON_ENOMEM;
    memcpy(copy, points, sizeof points);
    tenon_status status = tenon_return_handle(call, 0, copy, free);
    if (status)
        free(copy);
    return status;
}

static tenon_status tree_query(tenon_call *call)
{
    return search(call, 1, tenon_arg_handle(call, 0));
}

static tenon_status tree_mix(tenon_call *call)
{
    tenon_return_double(call, 0,
                        tenon_arg_double(call, 1) + 2 * tenon_arg_double(call, 2) + 3 * tenon_arg_double(call, 3));
    return TENON_OK;
}

static tenon_status bounds(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    tenon_return_double(call, 0, n ? x[0] : 0);
    return tenon_return_double(call, 1, n ? x[n - 1] : 0);
}

static tenon_status ones(tenon_call *call)
{
    float *y = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim(call, 0);
    for (int64_t i = 0; i < n; i++)
        y[i] = 1;
    return TENON_OK;
}

static tenon_status look(tenon_call *call)
{
    return tenon_arg(call, 0) ? TENON_OK : TENON_EFAILED;
}

static tenon_status keep(tenon_call *call)
{
    tenon_kept_release(tenon_arg_keep(call, 0));
    return TENON_OK;
}

TENON_MODULE(objects, "A class, and functions that do the same.", TENON_CLASS("Tree", "Sixteen points."),
             TENON_FUNCTION("Tree()", tree_new, "Makes the points."),
             TENON_FUNCTION("Tree.query(self, x: f32[m, 3] c, k: int = 1) -> rows: i64[m, k], distance: f32[m, k]",
                            tree_query, "The nearest point."),
             TENON_FUNCTION("Tree.mix(self, *, a: float, b: float, c: float) -> float", tree_mix, "Three numbers."),
             TENON_FUNCTION("query(x: f32[m, 3] c, k: int = 1) -> rows: i64[m, k], distance: f32[m, k]", query,
                            "The nearest point."),
             TENON_FUNCTION("bounds(x: f32[n] c) -> float, float", bounds, "The first and the last element."),
             TENON_FUNCTION("named_bounds(x: f32[n] c) -> first: float, last: float", bounds, "The same, with names."),
             TENON_FUNCTION("ones(n: int) -> f32[n]", ones, "A new vector."),
             TENON_FUNCTION("ones_like(x: f32[n] c) -> f32[n]", ones, "A new vector."),
             TENON_FUNCTION("look(x: f32[*b])", look, "Does not keep it."),
             TENON_FUNCTION("keep(x: f32[*b] keep)", keep, "Keeps the memory, and releases it."))
