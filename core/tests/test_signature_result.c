/* Results after a match: their dtype and shape, those that the function makes, and the caller's own (out=). */
#include "random.h"
#include "signature_call.h"

static char memory[4096] __attribute__((aligned(4096)));
static roomy_view rooms[4];

static tenon_value f32(int i, int64_t n)
{
    return tensor_value(view_of(&rooms[i], memory + 1024 * i, TENON_F32, 1, &n, NULL));
}

static tenon_value shaped(int i, int32_t ndim, int64_t *shape)
{
    return tensor_value(view_of(&rooms[i], memory + 1024 * i, TENON_F32, ndim, shape, NULL));
}

/* The shape of the first result. */
static void gives(const char *text, const tenon_value *args, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    call c;
    tenon_dtype got = tenon_dtype_of(0, 0, 0);
    int32_t got_ndim = -1;
    int64_t got_shape[TENON_MAX_NDIM];
    fits(&c, text, args);
    OK(tenon_signature_result(c.signature, 0, &c.bindings, &got, &got_ndim, got_shape, &err));
    assert_true(tenon_dtype_equal(got, dtype));
    assert_int_equal(got_ndim, ndim);
    for (int32_t i = 0; i < ndim; i++)
        assert_int_equal(got_shape[i], shape[i]);
    done(&c);
}

static void gives_none(const char *text, const tenon_value *args, tenon_status status, const char *message)
{
    call c;
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    fits(&c, text, args);
    FAILS_SAYING(status, message, tenon_signature_result(c.signature, 0, &c.bindings, &dtype, &ndim, shape, &err));
    assert_int_equal(tenon_signature_result(c.signature, 0, &c.bindings, &dtype, &ndim, shape, NULL), status);
    done(&c);
}

static void test_shapes(void **state)
{
    (void)state;
    gives("f(x: f32[n]) -> f64[]", ARGS(f32(0, 5)), TENON_F64, 0, NULL);
    gives("f(x: f32[n]) -> u8[n + 1, 2 * n // 3, 7, 0]", ARGS(f32(0, 5)), TENON_U8, 4, DIMS(6, 3, 7, 0));
    gives("f(n: int) -> f32[n]", ARGS(INT(0)), TENON_F32, 1, DIMS(0));
    gives("f(x: f32[n], k: int) -> f32[k, n]", ARGS(f32(0, 5), INT(2)), TENON_F32, 2, DIMS(2, 5));
    gives("f(x: f32[*b, n]) -> f32[n, *b, 2]", ARGS(shaped(0, 3, DIMS(2, 3, 4))), TENON_F32, 4, DIMS(4, 2, 3, 2));
    gives("f(x: f32[*b, n]) -> f32[n, *b]", ARGS(f32(0, 4)), TENON_F32, 1, DIMS(4));
    gives("f(x: f32[*b]) -> f32[*b]", ARGS(shaped(0, 0, NULL)), TENON_F32, 0, NULL);
    gives("f(x: f32[n]) -> f32[?, n]", ARGS(f32(0, 4)), TENON_F32, 2, DIMS(-1, 4));
    gives("f(x: T[n]) -> T[n] where T = any", ARGS(f32(0, 4)), TENON_F32, 1, DIMS(4));
    gives("f(x: f32[n]) -> f32[n]?", ARGS(f32(0, 4)), TENON_F32, 1, DIMS(4));
}

static void test_shapes_that_cannot_be(void **state)
{
    (void)state;
    gives_none("f(x: f32[n]) -> f32[n, n - 5]", ARGS(f32(0, 2)), TENON_ESHAPE,
               "f(): result 0: dimension 1, n - 5, is -3 (n = 2 from argument 'x')");
    /* The axis of the result, whatever "*b" stands for. */
    tenon_value cube = shaped(0, 3, DIMS(2, 3, 4));
    gives_none("f(x: f32[*b, n]) -> f32[*b, 2, n - 5]", &cube, TENON_ESHAPE,
               "f(): result 0: dimension 3, n - 5, is -1 (n = 4 from argument 'x')");
    gives_none("f(x: f32[*b, n, k, m]) -> f32[*b, k - 5]", &cube, TENON_ESHAPE,
               "f(): result 0: dimension 0, k - 5, is -2 (k = 3 from argument 'x')");
    gives_none("f(n: int) -> y: f32[n]", ARGS(INT(-1)), TENON_ESHAPE,
               "f(): result 'y': dimension 0, n, is -1 (n = -1 from argument 'n')");
    gives_none(
        "f(n: int) -> f32[n * n]", ARGS(INT(INT64_MAX)), TENON_EOVERFLOW,
        "f(): result 0: dimension 0, n * n, overflows 64 bits or divides by 0 (n = 9223372036854775807 from argument "
        "'n')");
    gives_none(
        "f(n: int, k: int) -> f32[n // k]", ARGS(INT(4), INT(0)), TENON_EOVERFLOW,
        "f(): result 0: dimension 0, n // k, overflows 64 bits or divides by 0 (n = 4 from argument 'n', k = 0 from "
        "argument 'k')");
    gives_none(
        "f(n: int, k: int) -> f32[n // k]", ARGS(INT(INT64_MIN), INT(-1)), TENON_EOVERFLOW,
        "f(): result 0: dimension 0, n // k, overflows 64 bits or divides by 0 (n = -9223372036854775808 from argument "
        "'n', k = -1 from argument 'k')");
    gives_none("f(x: f32[n]?) -> f32[n + 1]", ARGS(NONE), TENON_EINVAL,
               "f(): result 0: dimension 0, n + 1, has no value: no argument of this call determines n");
    gives_none("f(x: f32[*b]?) -> f32[*b]", ARGS(NONE), TENON_EINVAL,
               "f(): result 0: no argument of this call determines *b");
    gives_none("f(x: T[2]?) -> y: T[2] where T = any", ARGS(NONE), TENON_EINVAL,
               "f(): result 'y': no argument of this call determines T");
    int64_t ones[TENON_MAX_NDIM];
    for (int i = 0; i < TENON_MAX_NDIM; i++)
        ones[i] = 1;
    tenon_value wide = shaped(0, TENON_MAX_NDIM, ones);
    gives("f(x: f32[*b]) -> f32[*b]", &wide, TENON_F32, TENON_MAX_NDIM, ones);
    gives_none("f(x: f32[*b]) -> f32[2, *b]", &wide, TENON_ESHAPE,
               "f(): result 0: more than 64 dimensions, counting those of *b");
    gives_none("f(x: f32[*b]) -> f32[*b, 2]", &wide, TENON_ESHAPE, "f(): result 0 has more than 64 dimensions");
}

static void test_what_is_no_tensor_result(void **state)
{
    (void)state;
    call c;
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
    fits(&c, "f(x: f32[n]) -> int, f32[n]", ARGS(f32(0, 2)));
    static const int32_t wrong[] = {0, 2, -1};
    for (size_t i = 0; i < 3; i++) {
        char message[128];
        snprintf(message, sizeof message, "tenon_signature_result(): argument 'index': f() has no tensor result %d",
                 wrong[i]);
        FAILS_SAYING(TENON_EINVAL, message,
                     tenon_signature_result(c.signature, wrong[i], &c.bindings, &dtype, &ndim, shape, &err));
    }
    const char *null = "tenon_signature_result(): an argument is NULL";
    FAILS_SAYING(TENON_EINVAL, null, tenon_signature_result(NULL, 1, &c.bindings, &dtype, &ndim, shape, &err));
    FAILS_SAYING(TENON_EINVAL, null, tenon_signature_result(c.signature, 1, NULL, &dtype, &ndim, shape, &err));
    FAILS_SAYING(TENON_EINVAL, null, tenon_signature_result(c.signature, 1, &c.bindings, NULL, &ndim, shape, &err));
    FAILS_SAYING(TENON_EINVAL, null, tenon_signature_result(c.signature, 1, &c.bindings, &dtype, NULL, shape, &err));
    FAILS_SAYING(TENON_EINVAL, null, tenon_signature_result(c.signature, 1, &c.bindings, &dtype, &ndim, NULL, &err));
    done(&c);
}

/* ------------------------------------------------------------------------------------ those that the function makes */

static void test_open_results(void **state)
{
    (void)state;
    call c;
    tenon_dtype dtype = tenon_dtype_of(0, 0, 0);
    fits(&c, "f(x: T[n]) -> T[?, n], f32[n], f32[?]?, int where T = any", ARGS(f32(0, 3)));
    OK(open_result(c.signature, 0, &c.bindings, 2, DIMS(0, 3), &dtype, &err));
    assert_true(tenon_dtype_equal(dtype, TENON_F32));
    FAILS_SAYING(TENON_EOVERFLOW, "the shape of result 0 is too large for any memory",
                 open_result(c.signature, 0, &c.bindings, 2, DIMS(INT64_MAX, 3), &dtype, &err));
    OK(open_result(c.signature, 2, &c.bindings, 1, DIMS(9), &dtype, &err));
    FAILS_SAYING(TENON_EFAILED, "result 0: expected T[?, n], but the function asked for shape [4, 2]",
                 open_result(c.signature, 0, &c.bindings, 2, DIMS(4, 2), &dtype, &err));
    FAILS_SAYING(TENON_EFAILED, "result 0: expected T[?, n], but the function asked for shape [-1, 3]",
                 open_result(c.signature, 0, &c.bindings, 2, DIMS(-1, 3), &dtype, &err));
    FAILS_SAYING(TENON_EFAILED, "result 0: expected T[?, n], but the function asked for shape [3]",
                 open_result(c.signature, 0, &c.bindings, 1, DIMS(3), &dtype, &err));
    FAILS_SAYING(TENON_EFAILED, "result 0: expected T[?, n], but the function asked for 2 dimensions with shape NULL",
                 open_result(c.signature, 0, &c.bindings, 2, NULL, &dtype, &err));
    FAILS_SAYING(TENON_EFAILED, "result 2: expected f32[?]?, but the function asked for 1 dimension with shape NULL",
                 open_result(c.signature, 2, &c.bindings, 1, NULL, &dtype, &err));
    FAILS_SAYING(TENON_EFAILED, "result 2: expected f32[?]?, but the function asked for -1 dimensions",
                 open_result(c.signature, 2, &c.bindings, -1, DIMS(3), &dtype, &err));
    FAILS_SAYING(TENON_EFAILED, "result 2: expected f32[?]?, but the function asked for 65 dimensions",
                 open_result(c.signature, 2, &c.bindings, 65, DIMS(3), &dtype, &err));
    FAILS_SAYING(TENON_EFAILED, "result 1 has a known size and was already allocated",
                 open_result(c.signature, 1, &c.bindings, 1, DIMS(3), &dtype, &err));
    for (int32_t index = -1; index < 5; index += index < 0 ? 4 : 1) {
        char message[80];
        snprintf(message, sizeof message, "result %d is not a tensor, or was already allocated", (int)index);
        FAILS_SAYING(TENON_EFAILED, message, open_result(c.signature, index, &c.bindings, 1, DIMS(3), &dtype, &err));
    }
    done(&c);
    fits(&c, "f() -> f32[]?", NULL);
    OK(open_result(c.signature, 0, &c.bindings, 0, NULL, &dtype, &err));
    done(&c);
}

/* ---------------------------------------------------------------------------------------------- the caller's tensor */

static roomy_view out_room;
static const tenon_device cpu = {TENON_CPU, 0};

/* Whether `out` can be the first result of a call with these arguments; `message` NULL: it can. */
static void out_is(const char *text, const tenon_value *args, tenon_device device, tenon_status status,
                   const char *message)
{
    call c;
    fits(&c, text, args);
    if (message)
        FAILS_SAYING(status, message,
                     tenon_signature_match_out(c.signature, 0, &out_room.view, args, device, &c.bindings, &err));
    else
        OK(tenon_signature_match_out(c.signature, 0, &out_room.view, args, device, &c.bindings, &err));
    assert_null(c.bindings.argument);
    assert_int_equal(tenon_signature_match_out(c.signature, 0, &out_room.view, args, device, &c.bindings, NULL),
                     status);
    done(&c);
}

static void out_f32(void *data, int32_t ndim, int64_t *shape, int64_t *strides)
{
    view_of(&out_room, data, TENON_F32, ndim, shape, strides);
}

static void test_out_fits(void **state)
{
    (void)state;
    out_f32(memory + 2048, 1, DIMS(4), NULL);
    out_is("f(x: f32[n]) -> f32[n]", ARGS(f32(0, 4)), cpu, TENON_OK, NULL);
    out_is("f(x: f32[n]) -> f32[n + 1]", ARGS(f32(0, 3)), cpu, TENON_OK, NULL);
    out_is("f(x: T[*b]) -> T[*b] where T = any", ARGS(f32(0, 4)), cpu, TENON_OK, NULL);
    out_is("f() -> f32[?]", NULL, cpu, TENON_OK, NULL);
    view_on(&out_room, TENON_CUDA_HOST, memory + 2048, TENON_F32, 1, DIMS(4), NULL, 0);
    out_is("f(x: f32[n]) -> f32[n]", ARGS(f32(0, 4)), cpu, TENON_OK, NULL); /* what the CPU can write */
}

static void test_out_does_not_fit(void **state)
{
    (void)state;
    const char *text = "f(x: f32[n]) -> f32[n]";
    tenon_value x = f32(0, 4);
    view_of(&out_room, memory + 2048, TENON_F64, 1, DIMS(4), NULL);
    out_is(text, &x, cpu, TENON_EDTYPE, "f(): argument 'out': expected f32[n], got f64[4]\n  dtype is f64, not f32");
    out_is("f(x: T[n]) -> T[n] where T = any", &x, cpu, TENON_EDTYPE,
           "f(): argument 'out': expected T[n], got f64[4]\n  dtype is f64, but T = f32 from argument 'x'");
    out_f32(memory + 2048, 1, DIMS(5), NULL);
    out_is(text, &x, cpu, TENON_ESHAPE, "f(): argument 'out': dimension 0 is 5, but n = 4 from argument 'x'");
    out_is("f(x: f32[n]) -> f32[n, ?]", &x, cpu, TENON_ESHAPE,
           "f(): argument 'out': expected f32[n, ?], got f32[5]\n  1 dimension, not 2");
    out_f32(memory + 2048, 1, DIMS(4), DIMS(2));
    out_is(text, &x, cpu, TENON_ELAYOUT,
           "f(): argument 'out': expected f32[n], got f32[4]\n  strides [2] are not in C order without gaps; pass a "
           "copy that is");
    out_f32(memory + 2050, 1, DIMS(4), NULL);
    out_is(text, &x, cpu, TENON_ELAYOUT, "f(): argument 'out': its memory is not aligned to 4 bytes; pass a copy");
    out_is("f(x: f32[n]) -> f32[n] unaligned", &x, cpu, TENON_OK, NULL);
    out_f32(memory + 2048, 2, DIMS(4, 2), DIMS(1, 4));
    out_is("f(x: f32[n]) -> f32[n, 2]", &x, cpu, TENON_ELAYOUT,
           "f(): argument 'out': expected f32[n, 2], got f32[4, 2]\n  strides [1, 4] are not in C order without gaps; "
           "pass a copy that is");
    view_on(&out_room, TENON_CPU, memory + 2048, TENON_F32, 1, DIMS(4), NULL, TENON_READ_ONLY);
    out_is(text, &x, cpu, TENON_EREADONLY, "f(): argument 'out' is read-only, but must be writable; pass a copy");
}

static void test_out_is_elsewhere(void **state)
{
    (void)state;
    tenon_device cuda = tenon_device_of(TENON_CUDA, 0);
    tenon_value x = f32(0, 4);
    view_on(&out_room, TENON_CUDA, memory + 2048, TENON_F32, 1, DIMS(4), NULL, 0);
    out_is("f(x: f32[n]) -> f32[n]", &x, cpu, TENON_EDEVICE,
           "f(): argument 'out' is on cuda:0, but the call runs on cpu; pass one that is there");
    out_is("f(x: f32[n] anywhere) -> f32[n] cuda", &x, cuda, TENON_OK, NULL);
    out_is("f(x: f32[n] anywhere) -> f32[n]", &x, cuda, TENON_OK, NULL);
    out_is("f(x: f32[n] anywhere) -> f32[n] cuda", &x, tenon_device_of(TENON_CUDA, 1), TENON_EDEVICE,
           "f(): argument 'out' is on cuda:0, but the call runs on cuda:1; pass one that is there");
    out_f32(memory + 2048, 1, DIMS(4), NULL);
    out_is("f(x: f32[n] anywhere) -> f32[n]", &x, cuda, TENON_EDEVICE,
           "f(): argument 'out' is on cpu, but the call runs on cuda:0; pass one that is there");
    out_is("f(x: f32[n] anywhere) -> f32[n] cuda", &x, cuda, TENON_EDEVICE,
           "f(): argument 'out': expected f32[n] cuda, got f32[4]\n  the memory is on cpu; move it to cuda");
}

static void test_out_shares_memory(void **state)
{
    (void)state;
    tenon_value x = f32(0, 4), y = f32(1, 4);
    const char *told =
        "f(): argument 'out' shares memory with argument 'x' and is written to; pass a copy of one of them";
    out_f32(memory, 1, DIMS(4), NULL); /* x itself */
    out_is("f(x: f32[n]) -> f32[n]", &x, cpu, TENON_EOVERLAP, told);
    out_is("f(x: f32[n]?) -> f32[4]", ARGS(NONE), cpu, TENON_OK, NULL);
    out_is("f(x: f32[n]) -> f32[n] alias", &x, cpu, TENON_OK, NULL);
    out_is("f(x: f32[n]) -> f32[n] inplace(x)", &x, cpu, TENON_OK, NULL);
    out_is("f(x: f32[n], y: f32[n]) -> f32[n] inplace(y)", ARGS(x, y), cpu, TENON_EOVERLAP, told);
    out_is("f(x: f32[n], y: f32[n]) -> f32[n] inplace(x)", ARGS(x, y), cpu, TENON_OK, NULL);
    out_is("f(x: f32[n], y: f32[n]) -> f32[n] inplace(x)", ARGS(x, x), cpu, TENON_EOVERLAP,
           "f(): argument 'out' shares memory with argument 'y' and is written to; pass a copy of one of them");
    out_f32(memory + 4, 1, DIMS(4), NULL); /* a part of x */
    out_is("f(x: f32[n]) -> f32[n] inplace(x)", &x, cpu, TENON_EOVERLAP, told);
    out_is("f(x: f32[n]) -> f32[n] alias", &x, cpu, TENON_OK, NULL);
    out_f32(memory + 1024 - 16, 1, DIMS(4), NULL); /* up to where y begins */
    out_is("f(x: f32[n], y: f32[n]) -> f32[n]", ARGS(x, y), cpu, TENON_OK, NULL);
}

static void test_out_for_what_is_no_tensor(void **state)
{
    (void)state;
    call c;
    tenon_value x = f32(0, 4);
    fits(&c, "f(x: f32[n]) -> int, f32[n]", &x);
    out_f32(memory + 2048, 1, DIMS(4), NULL);
    const tenon_view *out = &out_room.view;
    const char *zeroth = "tenon_signature_match_out(): an argument is NULL, or result 0 is not a tensor";
    const char *first = "tenon_signature_match_out(): an argument is NULL, or result 1 is not a tensor";
    FAILS_SAYING(TENON_EINVAL, zeroth, tenon_signature_match_out(c.signature, 0, out, &x, cpu, &c.bindings, &err));
    FAILS_SAYING(TENON_EINVAL, first, tenon_signature_match_out(NULL, 1, out, &x, cpu, &c.bindings, &err));
    FAILS_SAYING(TENON_EINVAL, first, tenon_signature_match_out(c.signature, 1, NULL, &x, cpu, &c.bindings, &err));
    FAILS_SAYING(TENON_EINVAL, first, tenon_signature_match_out(c.signature, 1, out, &x, cpu, NULL, &err));
    FAILS(TENON_EINVAL, tenon_signature_match_out(c.signature, 2, out, &x, cpu, &c.bindings, &err));
    FAILS(TENON_EINVAL, tenon_signature_match_out(c.signature, -1, out, &x, cpu, &c.bindings, &err));
    OK(tenon_signature_match_out(c.signature, 1, out, &x, cpu, &c.bindings, &err));
    done(&c);
}

/* ---------------------------------------------------------------------------------- the fast case as the general one */

enum { CASES = 10000, BINDINGS = 50 };

typedef struct result {
    tenon_status status;
    tenon_error err;
    tenon_dtype dtype;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM];
} result;

static void work_out(const tenon_signature *s, const tenon_value *args, result *out)
{
    tenon_bindings bindings;
    memset(out, 0, sizeof *out);
    OK(match(s, args, NULL, &bindings, &err));
    out->status = tenon_signature_result(s, 0, &bindings, &out->dtype, &out->ndim, out->shape, &out->err);
}

/* A result of a dtype variable is never simple enough for the fast case. */
static void test_fast_as_general(void **state)
{
    (void)state;
    int good = 0, bad = 0;
    for (int round = 0; round < CASES / BINDINGS; round++) {
        char dims[64] = "", text[2][160];
        int ndim = below(5);
        for (int i = 0; i < ndim; i++)
            snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%c", i ? ", " : "", "nkm"[below(3)]);
        for (int i = 0; i < 2; i++)
            snprintf(text[i], sizeof text[i], "f(t: T[], n: int?, k: int?, m: int?) -> %s[%s] where T = f32",
                     i ? "T" : "f32", dims);
        tenon_signature *fast = compiled(text[0]), *general = compiled(text[1]);
        assert_int_equal(fast->fast[4].ndim, ndim);
        assert_int_equal(general->fast[4].dtype.bits, 0);
        for (int i = 0; i < BINDINGS; i++) {
            tenon_value args[4] = {shaped(0, 0, NULL)};
            for (int k = 1; k < 4; k++)
                args[k] = below(8) == 0 ? NONE : INT(below(10) == 0 ? -below(4) : below(1000));
            result got, wanted;
            work_out(fast, args, &got);
            work_out(general, args, &wanted);
            assert_int_equal(got.status, wanted.status);
            *(wanted.status ? &bad : &good) += 1;
            if (wanted.status) {
                assert_string_equal(got.err.message, wanted.err.message);
                continue;
            }
            assert_true(tenon_dtype_equal(got.dtype, wanted.dtype));
            assert_int_equal(got.ndim, wanted.ndim);
            assert_memory_equal(got.shape, wanted.shape, (size_t)wanted.ndim * sizeof *wanted.shape);
        }
        tenon_signature_release(fast);
        tenon_signature_release(general);
    }
    assert_true(good > CASES / 4 && bad > CASES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_shapes_that_cannot_be),
        cmocka_unit_test(test_what_is_no_tensor_result),
        cmocka_unit_test(test_open_results),
        cmocka_unit_test(test_out_fits),
        cmocka_unit_test(test_out_does_not_fit),
        cmocka_unit_test(test_out_is_elsewhere),
        cmocka_unit_test(test_out_shares_memory),
        cmocka_unit_test(test_out_for_what_is_no_tensor),
        cmocka_unit_test(test_fast_as_general),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
