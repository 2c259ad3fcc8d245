// The k-d tree of kdtree.c in C++. docs/cpp.md explains the header.
//
//   c++ -std=c++17 -O3 -shared -fPIC -fvisibility=hidden $(python -m tenon cflags) kdtree.cpp -o kdtree_cpp.so
#include <algorithm>
#include <cmath>
#include <numeric>
#include <tenon/function.hpp>
#include <vector>

using nearest = std::vector<std::pair<float, int64_t>>; // the squared distance and the row of the best k, in order

struct KDTree {
    tenon::kept<float, 2> points; // a share of the caller's array
    int64_t leaf, n = points.size(0), d = points.size(1);
    std::vector<int64_t> rows; // the middle row of a range splits the range, unless it is a leaf

    KDTree(tenon::kept<float, 2> share, int64_t most) : points(std::move(share)), leaf(most), rows(size_t(n))
    {
        if (d == 0 || leaf < 1)
            throw tenon::error(TENON_EINVAL, d == 0 ? "points have no columns" : "leaf must be at least 1");
        std::iota(rows.begin(), rows.end(), 0);
        build(rows.data(), rows.data() + n, 0);
    }

    void build(int64_t *begin, int64_t *end, int64_t axis)
    {
        if (end - begin <= leaf)
            return;
        int64_t *middle = begin + (end - begin) / 2;
        std::nth_element(begin, middle, end, [&](auto a, auto b) { return points(a, axis) < points(b, axis); });
        build(begin, middle, (axis + 1) % d);
        build(middle + 1, end, (axis + 1) % d);
    }

    void offer(const float *x, nearest &best, int64_t row) const
    {
        float distance = 0;
        for (int64_t i = 0; i < d; i++)
            distance += (x[i] - points(row, i)) * (x[i] - points(row, i));
        if (!(distance < best.back().first))
            return;
        best.pop_back();
        best.insert(std::upper_bound(best.begin(), best.end(), std::pair(distance, INT64_MAX)), {distance, row});
    }

    void search(const float *x, nearest &best, const int64_t *begin, const int64_t *end, int64_t axis) const
    {
        for (; end - begin <= leaf && begin < end; begin++)
            offer(x, best, *begin);
        if (begin == end)
            return;
        const int64_t *middle = begin + (end - begin) / 2;
        float beyond = x[axis] - points(*middle, axis);
        offer(x, best, *middle);
        search(x, best, beyond < 0 ? begin : middle + 1, beyond < 0 ? middle : end, (axis + 1) % d);
        if (beyond * beyond < best.back().first) // the other half may have a nearer one
            search(x, best, beyond < 0 ? middle + 1 : begin, beyond < 0 ? end : middle, (axis + 1) % d);
    }
};

static void query(KDTree &t, tenon::in<float, 2> x, int64_t k, tenon::out<int64_t, 2> rows, tenon::out<float, 2> away)
{
    if (x.size(1) != t.d)
        throw tenon::error(TENON_ESHAPE, "x has %d columns, but the points have %d", int(x.size(1)), int(t.d));
    if (k < 1 || k > t.n)
        throw tenon::error(TENON_EINVAL, "k must be from 1 to %d, the number of points", int(t.n));
    for (int64_t i = 0; i < x.size(0); i++) {
        nearest best(size_t(k), {INFINITY, -1}); // these stay if x is not a number
        t.search(x.data() + i * t.d, best, t.rows.data(), t.rows.data() + t.n, 0);
        for (int64_t j = 0; j < k; j++) {
            rows(i, j) = best[size_t(j)].second;
            away(i, j) = std::sqrt(best[size_t(j)].first);
        }
    }
}

static KDTree *make_tree(tenon::kept<float, 2> points, int64_t leaf)
{
    return new KDTree(std::move(points), leaf);
}

TENON_CPP_TYPE(KDTree)
TENON_CPP_MODULE(kdtree, "Nearest neighbours.",
                 TENON_CPP_CLASS(KDTree, "A k-d tree over points that it shares with the caller."),
                 TENON_CPP("KDTree(points: f32[n, d] c keep, leaf: int = 16)", make_tree, "Builds the tree."),
                 TENON_CPP("KDTree.query(self, x: f32[m, d] c, k: int = 1) -> rows: i64[m, k], distance: f32[m, k]",
                           query, "Finds the k nearest points of each row of x, the nearest first."),
                 TENON_CPP(
                     "KDTree.points(self) -> f32[?, ?] of(self)",
                     [](KDTree &t) -> tenon::in<float, 2> { return t.points; }, "The points, without a copy."))
