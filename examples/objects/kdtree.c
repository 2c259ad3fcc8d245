/* A class: a k-d tree over points that it shares with the caller. docs/tutorial.md explains each part.
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) kdtree.c -o kdtree.so -lm */
#include <math.h>
#include <stdlib.h>
#include <tenon/function.h>

typedef struct tree {
    tenon_kept *kept;    /* a share of the caller's array */
    const float *points; /* n rows of d numbers, in that array */
    int64_t n, d, leaf;
    int64_t rows[]; /* the middle row of a range splits the range, unless it is a leaf */
} tree;

static float at(const tree *t, int64_t place, int64_t axis)
{
    return t->points[t->rows[place] * t->d + axis];
}

/* Move the smaller rows of [begin, end) to the left of its middle, and the larger ones to the right; then both halves. */
static void build(tree *t, int64_t begin, int64_t end, int64_t axis)
{
    int64_t middle = (begin + end) / 2, low = begin, high = end - 1;
    if (end - begin <= t->leaf)
        return;
    while (low < high) {
        float pivot = at(t, middle, axis);
        int64_t i = low, j = high;
        while (i <= j) {
            while (at(t, i, axis) < pivot)
                i++;
            while (pivot < at(t, j, axis))
                j--;
            if (i <= j) {
                int64_t row = t->rows[i];
                t->rows[i++] = t->rows[j];
                t->rows[j--] = row;
            }
        }
        low = j < middle ? i : low;
        high = middle < i ? j : high;
    }
    build(t, begin, middle, (axis + 1) % t->d);
    build(t, middle + 1, end, (axis + 1) % t->d);
}

typedef struct nearest { /* the k rows that are nearest to x so far, in order */
    const float *x;
    int64_t k, *rows;
    float *distance; /* squared, until the end */
} nearest;

static void offer(const tree *t, nearest *best, int64_t row)
{
    float distance = 0;
    int64_t place = best->k - 1;
    for (int64_t i = 0; i < t->d; i++)
        distance += powf(best->x[i] - t->points[row * t->d + i], 2);
    if (!(distance < best->distance[place]))
        return;
    for (; place > 0 && distance < best->distance[place - 1]; place--) {
        best->distance[place] = best->distance[place - 1];
        best->rows[place] = best->rows[place - 1];
    }
    best->distance[place] = distance;
    best->rows[place] = row;
}

static void search(const tree *t, nearest *best, int64_t begin, int64_t end, int64_t axis)
{
    int64_t middle = (begin + end) / 2, next = (axis + 1) % t->d;
    if (end - begin <= t->leaf) {
        for (int64_t i = begin; i < end; i++)
            offer(t, best, t->rows[i]);
        return;
    }
    float beyond = best->x[axis] - at(t, middle, axis);
    offer(t, best, t->rows[middle]);
    search(t, best, beyond < 0 ? begin : middle + 1, beyond < 0 ? middle : end, next);
    if (beyond * beyond < best->distance[best->k - 1]) /* the other half may have a nearer one */
        search(t, best, beyond < 0 ? middle + 1 : begin, beyond < 0 ? end : middle, next);
}

static void tree_free(void *object)
{
    tenon_kept_release(((tree *)object)->kept);
    free(object);
}

static tenon_status tree_new(tenon_call *call)
{
    int64_t n = tenon_dim_named(call, "n"), d = tenon_dim_named(call, "d"), leaf = tenon_arg_int(call, 1);
    if (d == 0 || leaf < 1)
        return tenon_fail(call, TENON_EINVAL, d == 0 ? "points have no columns" : "leaf must be at least 1");
    tenon_kept *kept = tenon_arg_keep(call, 0);
    tree *t = kept ? malloc(sizeof *t + (size_t)n * sizeof *t->rows) : NULL;
    if (!t)
        return tenon_kept_release(kept), TENON_ENOMEM;
    *t = (tree){kept, kept->view->data, n, d, leaf};
    if (tenon_return_handle(call, 0, t, tree_free)) /* on success, the host owns the tree */
        return tree_free(t), TENON_EFAILED;
    for (int64_t row = 0; row < n; row++)
        t->rows[row] = row;
    build(t, 0, n, 0);
    return TENON_OK;
}

static tenon_status tree_query(tenon_call *call)
{
    const tree *t = tenon_arg_handle(call, 0);
    int64_t m = tenon_dim_named(call, "m"), d = tenon_dim_named(call, "d"), k = tenon_arg_int(call, 2);
    nearest best = {tenon_data(call, 1, float), k, tenon_result_data(call, 0, int64_t),
                    tenon_result_data(call, 1, float)};
    if (d != t->d)
        return tenon_fail(call, TENON_ESHAPE, "x has %d columns, but the points have %d", (int)d, (int)t->d);
    if (k < 1 || k > t->n)
        return tenon_fail(call, TENON_EINVAL, "k must be from 1 to %d, the number of points", (int)t->n);
    for (int64_t i = 0; i < m; i++, best.x += d, best.rows += k, best.distance += k) {
        for (int64_t j = 0; j < k; j++)
            best.rows[j] = -1, best.distance[j] = INFINITY; /* these stay if x is not a number */
        search(t, &best, 0, t->n, 0);
        for (int64_t j = 0; j < k; j++)
            best.distance[j] = sqrtf(best.distance[j]);
    }
    return TENON_OK;
}

static tenon_status tree_points(tenon_call *call)
{
    const tree *t = tenon_arg_handle(call, 0);
    return tenon_result_of(call, 0, t->kept->view->data, 2, (int64_t[]){t->n, t->d}, NULL);
}

TENON_MODULE(kdtree, "Nearest neighbours.",
             TENON_CLASS("KDTree", "A k-d tree over points that it shares with the caller."),
             TENON_FUNCTION("KDTree(points: f32[n, d] c keep, leaf: int = 16)", tree_new, "Builds the tree."),
             TENON_FUNCTION("KDTree.query(self, x: f32[m, d] c, k: int = 1) -> rows: i64[m, k], distance: f32[m, k]",
                            tree_query, "Finds the k nearest points of each row of x, the nearest first."),
             TENON_FUNCTION("KDTree.points(self) -> f32[?, ?] of(self)", tree_points, "The points, without a copy."))
