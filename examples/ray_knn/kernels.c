/* The k nearest rows of a shard. run.py merges those of all shards.
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) kernels.c -o kernels.so */
#include <tenon/function.h>

#include <math.h>

/* Insert a candidate into a list of k that is sorted by distance. */
static void insert(int64_t *index, float *distance, int64_t k, int64_t row, float d)
{
    int64_t i = k - 1;
    if (!(d < distance[i])) /* also if it is not a number */
        return;
    for (; i > 0 && d < distance[i - 1]; i--) {
        distance[i] = distance[i - 1];
        index[i] = index[i - 1];
    }
    distance[i] = d;
    index[i] = row;
}

static tenon_status nearest(tenon_call *call)
{
    const float *rows = tenon_data(call, 0, float), *queries = tenon_data(call, 1, float);
    int64_t first = tenon_arg_int(call, 2), k = tenon_arg_int(call, 3);
    int64_t *index = tenon_result_data(call, 0, int64_t);
    float *distance = tenon_result_data(call, 1, float);
    int64_t n = tenon_arg(call, 0)->shape[0], d = tenon_arg(call, 0)->shape[1], m = tenon_arg(call, 1)->shape[0];
    if (k < 1 || k > n)
        return tenon_fail(call, TENON_EINVAL, "k is %lld, but the shard has %lld rows", (long long)k, (long long)n);
    for (int64_t q = 0; q < m; q++, index += k, distance += k) {
        for (int64_t i = 0; i < k; i++) {
            index[i] = -1;
            distance[i] = INFINITY;
        }
        for (int64_t i = 0; i < n; i++) {
            float sum = 0;
            for (int64_t j = 0; j < d; j++)
                sum += (rows[i * d + j] - queries[q * d + j]) * (rows[i * d + j] - queries[q * d + j]);
            insert(index, distance, k, first + i, sum);
        }
    }
    return TENON_OK;
}

TENON_MODULE(
    knn, "Nearest neighbours.",
    TENON_FUNCTION(
        "nearest(rows: f32[n, d] c, queries: f32[m, d] c, first: int = 0, *, k: int)"
        " -> index: i64[m, k], distance: f32[m, k]",
        nearest,
        "The k nearest rows of each query; the index of the first row is `first`. It is -1 if fewer than k rows "
        "have a distance that is a finite number."))
