// An index for approximate nearest neighbours: a hierarchy of graphs (HNSW), on the caller's points. hnsw.py uses it.
#include <algorithm>
#include <cmath>
#include <queue>
#include <random>
#include <tenon/function.hpp>
#include <vector>

using near = std::pair<float, int64_t>; // a squared distance and a row
using layer = std::vector<std::vector<int64_t>>;

struct HNSW {
    tenon::kept<float, 2> points;
    int64_t links, start = 0;
    std::vector<layer> layers; // layers[0] has every row; a row of layers[i] is also in the layers below

    HNSW(tenon::kept<float, 2> kept, int64_t most) : points(std::move(kept)), links(most)
    {
        std::mt19937 random(1);
        for (int64_t row = 0; row < points.size(0); row++) {
            size_t height = 1;
            while (random() % 16 == 0)
                height++;
            insert(row, height);
        }
    }

    float distance(const float *x, int64_t row) const
    {
        float sum = 0;
        for (int64_t i = 0; i < points.size(1); i++)
            sum += (x[i] - points(row, i)) * (x[i] - points(row, i));
        return sum;
    }

    // The nearest rows of one layer that a walk along its links from `from` finds, the nearest first.
    std::vector<near> search(const float *x, int64_t from, size_t width, const layer &graph) const
    {
        std::vector<bool> seen(size_t(points.size(0)));
        std::priority_queue<near, std::vector<near>, std::greater<near>> next;
        std::vector<near> best{{distance(x, from), from}};
        next.push(best[0]);
        seen[size_t(from)] = true;
        while (!next.empty() && (best.size() < width || next.top().first <= best.back().first)) {
            int64_t row = next.top().second;
            next.pop();
            for (int64_t other : graph[size_t(row)]) {
                if (seen[size_t(other)])
                    continue;
                seen[size_t(other)] = true;
                near found{distance(x, other), other};
                next.push(found);
                best.insert(std::upper_bound(best.begin(), best.end(), found), found);
                best.resize(std::min(best.size(), width));
            }
        }
        return best;
    }

    void insert(int64_t row, size_t height)
    {
        const float *x = points.data() + row * points.size(1);
        size_t before = layers.size();
        int64_t from = start;
        while (layers.size() < height) {
            layers.emplace_back(size_t(points.size(0)));
            start = row;
        }
        for (size_t i = before; i-- > 0;) {
            std::vector<near> found = search(x, from, i < height ? 64 : 1, layers[i]);
            from = found[0].second;
            for (size_t k = 0; i < height && k < std::min(found.size(), size_t(links)); k++) {
                layers[i][size_t(row)].push_back(found[k].second);
                layers[i][size_t(found[k].second)].push_back(row);
            }
        }
    }
};

static void query(HNSW &index, tenon::in<float, 2> x, int64_t k, tenon::out<int32_t, 2> rows)
{
    if (x.size(1) != index.points.size(1) || k < 1 || k > index.points.size(0))
        throw tenon::error(TENON_EINVAL, "x must have %d columns, and k must be from 1 to the number of points",
                           int(index.points.size(1)));
    for (int64_t i = 0; i < x.size(0); i++) {
        const float *at = x.data() + i * x.size(1);
        int64_t from = index.start;
        for (size_t height = index.layers.size(); height-- > 1;)
            from = index.search(at, from, 1, index.layers[height])[0].second;
        std::vector<near> best = index.search(at, from, size_t(std::max<int64_t>(k, 64)), index.layers[0]);
        for (int64_t j = 0; j < k; j++)
            rows(i, j) = j < int64_t(best.size()) ? int32_t(best[size_t(j)].second) : -1;
    }
}

TENON_CPP_TYPE(HNSW)
TENON_CPP_MODULE(hnsw, "Approximate nearest neighbours.",
                 TENON_CPP_CLASS(HNSW, "An index over points that it shares with the caller."),
                 TENON_CPP(
                     "HNSW(points: f32[n, d] c keep, links: int = 16) where n >= 1, links >= 1",
                     [](tenon::kept<float, 2> points, int64_t links) { return new HNSW(std::move(points), links); },
                     "Builds the index."),
                 TENON_CPP("HNSW.query(self, x: f32[m, d] c, k: int = 1) -> i32[m, k]", query,
                           "Finds about the k nearest rows of each row of x."))
