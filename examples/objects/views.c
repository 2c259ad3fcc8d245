/* A result that is part of an argument (`of(x)`): nothing is copied, and the result keeps the argument's memory alive.
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) views.c -o views.so */
#include <tenon/function.h>

/* Strides count elements, and x may have any. The caller may write to the result if x is writable. */
static tenon_status diagonal(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    return tenon_result_of(call, 0, x->data, 1, x->shape, (int64_t[]){x->strides[0] + x->strides[1]});
}

/* The part of x between the first and the last element that is not 0. */
static tenon_status trim(tenon_call *call)
{
    const tenon_view *x = tenon_arg(call, 0);
    int64_t begin = 0, end = x->shape[0];
    while (begin < end && tenon_at(x, const float, begin) == 0)
        begin++;
    while (end > begin && tenon_at(x, const float, end - 1) == 0)
        end--;
    float *first = begin < end ? &tenon_at(x, float, begin) : x->data;
    return tenon_result_of(call, 0, first, 1, (int64_t[]){end - begin}, x->strides);
}

TENON_MODULE(views, "Parts of arrays.",
             TENON_FUNCTION("diagonal(x: T[n, n]) -> T[n] of(x) where T = any", diagonal,
                            "The diagonal of a matrix of any dtype."),
             TENON_FUNCTION("trim(x: f32[n]) -> f32[?] of(x)", trim, "x without the zeros at both ends."))
