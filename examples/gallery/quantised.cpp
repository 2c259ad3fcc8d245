// A matrix of weights in 8 bits, each row with a scale, times activations in bf16. quantised.py uses it from torch.
#include <tenon/function.hpp>

using activations = tenon::in<tenon::bf16, 2>;

static void matmul(activations x, tenon::in<int8_t, 2> w, tenon::in<float, 1> scale, tenon::out<tenon::bf16, 2> y)
{
    int64_t rows = x.size(0), columns = w.size(0), depth = x.size(1);
    tenon::parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            for (int64_t j = 0; j < columns; j++) {
                float sum = 0;
                for (int64_t k = 0; k < depth; k++)
                    sum += float(x(i, k)) * float(w(j, k));
                y(i, j) = sum * scale(j); // rounds to the nearest bf16
            }
    });
}

static void quantise(tenon::in<float, 2> w, tenon::out<int8_t, 2> q, tenon::out<float, 1> scale)
{
    for (int64_t j = 0; j < w.size(0); j++) {
        float largest = 0;
        for (int64_t k = 0; k < w.size(1); k++)
            largest = w(j, k) > largest ? w(j, k) : -w(j, k) > largest ? -w(j, k) : largest;
        scale(j) = largest / 127;
        for (int64_t k = 0; k < w.size(1); k++) {
            float level = largest > 0 ? w(j, k) / scale(j) : 0;
            q(j, k) = int8_t(level < 0 ? level - 0.5f : level + 0.5f);
        }
    }
}

TENON_CPP_MODULE(quantised, "Matrices with weights in 8 bits.",
                 TENON_CPP("quantise(w: f32[n, k] c) -> q: i8[n, k], scale: f32[n]", quantise,
                           "Rounds each row to 8 bits."),
                 TENON_CPP("matmul(x: bf16[m, k] c, w: i8[n, k] c, scale: f32[n] c) -> bf16[m, n]", matmul,
                           "Returns x times the transposed weights."))
