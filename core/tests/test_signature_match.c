/* The arguments of a call against a signature: what is bound, what fits, and what is said where it does not. Results
 * are in test_signature_result.c. */
#include "random.h"
#include "signature_call.h"

#include <stdlib.h>

static char memory[4096] __attribute__((aligned(4096)));
static roomy_view rooms[4];

/* A view in rooms[i]. */
static tenon_value tensor(int i, void *data, tenon_dtype dtype, int32_t ndim, int64_t *shape, int64_t *strides)
{
    return tensor_value(view_of(&rooms[i], data, dtype, ndim, shape, strides));
}

/* f32 in C order, each in a memory of its own. */
#define F32(i, ...)                                                                                                    \
    tensor(i, memory + 1024 * (i), TENON_F32, (int32_t)(sizeof DIMS(__VA_ARGS__) / 8), DIMS(__VA_ARGS__), NULL)

/* A NULL view counts as left out. */
static void test_null_views(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(x: f32[n], y: f32[n]?)");
    tenon_bindings bindings;
    tenon_value none = {.kind = TENON_KIND_TENSOR};
    FAILS(TENON_EINVAL, match(s, ARGS(none, none), NULL, &bindings, &err));
    assert_int_equal(match(s, ARGS(none, none), NULL, &bindings, NULL), TENON_EINVAL);
    OK(match(s, ARGS(F32(0, 3), none), NULL, &bindings, &err));
    tenon_signature_release(s);
}

static void test_binds_and_fits(void **state)
{
    (void)state;
    call c;
    fits(&c, "f(x: f32[n, k], y: f32[k, m]) -> f32[n, m]", ARGS(F32(0, 2, 3), F32(1, 3, 4)));
    assert_int_equal(c.bindings.dims_bound, 7);
    assert_int_equal(c.bindings.dims[0], 2);
    assert_int_equal(c.bindings.dims[1], 3);
    assert_int_equal(c.bindings.dims[2], 4);
    assert_string_equal(c.bindings.dims_from[1], "x");
    assert_string_equal(c.bindings.dims_from[2], "y");
    assert_null(c.bindings.argument);
    assert_null(c.bindings.object);
    done(&c);
    fits(&c, "f()", NULL);
    done(&c);
}

static void test_a_name_before_what_binds_it(void **state)
{
    (void)state;
    call c;
    fits(&c, "f(x: f32[n + 1], y: f32[n])", ARGS(F32(0, 4), F32(1, 3)));
    assert_int_equal(c.bindings.dims[0], 3);
    assert_string_equal(c.bindings.dims_from[0], "y");
    done(&c);
    fits(&c, "f(x: f32[n + 1, n])", ARGS(F32(0, 4, 3)));
    done(&c);
    misfit("f(x: f32[n + 1], y: f32[n])", ARGS(F32(0, 5), F32(1, 3)), TENON_ESHAPE,
           "f(): argument 'x': dimension 0 is 5, but n + 1 = 4 (n = 3 from argument 'y')");
    fits(&c, "f(x: f32[n * k], n: int, k: int)", ARGS(F32(0, 6), INT(2), INT(3)));
    done(&c);
}

static void test_ints_bind(void **state)
{
    (void)state;
    call c;
    fits(&c, "f(n: int, x: f32[n])", ARGS(INT(3), F32(0, 3)));
    assert_string_equal(c.bindings.dims_from[0], "n");
    done(&c);
    misfit("f(n: int, x: f32[n])", ARGS(INT(4), F32(0, 3)), TENON_ESHAPE,
           "f(): argument 'x': dimension 0 is 3, but n = 4 from argument 'n'");
    misfit("f(x: f32[n], n: int)", ARGS(F32(0, 3), INT(4)), TENON_ESHAPE,
           "f(): argument 'n' is 4, but n = 3 from argument 'x'");
    misfit("f(x: f32[n], n: int)", ARGS(F32(0, 3), INT(-1)), TENON_ESHAPE,
           "f(): argument 'n' is -1, but n = 3 from argument 'x'");
    fits(&c, "f(n: int, a: int) -> f32[n]", ARGS(INT(INT64_MIN), INT(7)));
    assert_true(c.bindings.dims[0] == INT64_MIN); /* the result complains */
    done(&c);
}

static void test_what_is_not_given(void **state)
{
    (void)state;
    call c;
    fits(&c, "f(n: int?, x: f32[n, k]?, y: T[m]? rw) where T = any", ARGS(NONE, NONE, NONE));
    assert_int_equal(c.bindings.dims_bound, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(c.bindings.dims[i], -1);
    assert_true(tenon_dtype_equal(c.bindings.types[0], tenon_dtype_of(0, 0, 0)));
    done(&c);
    fits(&c, "f(n: int?, x: f32[n, k]?, y: T[m]? rw) where T = any", ARGS(INT(3), NONE, F32(1, 5)));
    assert_int_equal(c.bindings.dims[0], 3);
    assert_int_equal(c.bindings.dims[1], -1);
    assert_int_equal(c.bindings.dims[2], 5);
    done(&c);
    misfit("f(x: f32[n])", ARGS(NONE), TENON_EINVAL,
           "f(): argument 'x': expected f32[n], got nothing (numpy.ndarray)\n  it cannot be left out");
    misfit("f(y: f32[n + 1], x: f32[n]?)", ARGS(F32(1, 5), NONE), TENON_EINVAL,
           "f(): argument 'y': dimension 0 is 5, but n in n + 1 has no value: no argument determines it");
}

static void test_dtypes(void **state)
{
    (void)state;
    call c;
    tenon_value x = tensor(0, memory, TENON_I8, 1, DIMS(2), NULL);
    static const char *const fitting[] = {"f(x: i8[n])", "f(x: f32|i8[n])", "f(x: f32|integer[n])", "f(x: any[n])"};
    for (size_t i = 0; i < 4; i++) {
        fits(&c, fitting[i], &x);
        done(&c);
    }
    misfit("f(x: f32|u8[n])", &x, TENON_EDTYPE,
           "f(): argument 'x': expected f32|u8[n], got i8[2] (numpy.ndarray)\n  dtype is i8, not f32|u8");
}

static void test_dtype_variables(void **state)
{
    (void)state;
    call c;
    const char *text = "f(x: T[n], y: T[n], z: U[n]) where T = f32|f64, U = integer";
    fits(&c, text, ARGS(F32(0, 2), F32(1, 2), tensor(2, memory + 2048, TENON_U8, 1, DIMS(2), NULL)));
    assert_true(tenon_dtype_equal(c.bindings.types[0], TENON_F32));
    assert_true(tenon_dtype_equal(c.bindings.types[1], TENON_U8));
    assert_string_equal(c.bindings.types_from[1], "z");
    done(&c);
    misfit(text, ARGS(F32(0, 2), tensor(1, memory, TENON_F64, 1, DIMS(2), NULL), F32(2, 2)), TENON_EDTYPE,
           "f(): argument 'y': expected T[n], got f64[2] (torch.Tensor)\n  dtype is f64, but T = f32 from argument "
           "'x'");
    misfit(text, ARGS(F32(0, 2), F32(1, 2), F32(2, 2)), TENON_EDTYPE,
           "f(): argument 'z': expected U[n], got f32[2] (list)\n  dtype is f32, but U is one of integer");
}

static void test_stars(void **state)
{
    (void)state;
    call c;
    fits(&c, "f(x: f32[*b, n], y: f32[*b])", ARGS(F32(0, 2, 3, 4), F32(1, 2, 3)));
    assert_int_equal(c.bindings.star_ndims[0], 2);
    assert_int_equal(c.bindings.stars[0][1], 3);
    assert_int_equal(c.bindings.dims[0], 4);
    done(&c);
    misfit("f(x: f32[*b, n], y: f32[*b])", ARGS(F32(0, 2, 3, 4), F32(1, 2, 4)), TENON_ESHAPE,
           "f(): argument 'y': *b is [2, 4], but *b = [2, 3] from argument 'x'");
    misfit("f(x: f32[*b, n, k], y: f32[*b])", ARGS(F32(0, 2), F32(1, 2)), TENON_ESHAPE,
           "f(): argument 'x': expected f32[*b, n, k], got f32[2] (numpy.ndarray)\n  1 dimension, not at least 2");
}

static void test_attributes(void **state)
{
    (void)state;
    call c;
    tenon_value strided = tensor(0, memory, TENON_F32, 2, DIMS(2, 3), DIMS(8, 2));
    tenon_value fortran = tensor(1, memory, TENON_F32, 2, DIMS(2, 3), DIMS(1, 2));
    fits(&c, "f(x: f32[n, k], y: f32[n, k] f)", ARGS(strided, fortran));
    done(&c);
    fits(&c, "f(x: f32[n, k] rw alias, y: f32[n, k] dense)", ARGS(strided, fortran));
    done(&c);
    misfit("f(x: f32[n, k] c)", ARGS(strided), TENON_ELAYOUT,
           "f(): argument 'x': expected f32[n, k] c, got f32[2, 3] (numpy.ndarray)\n  strides [8, 2] are not in C "
           "order without gaps; pass a copy that is");
    misfit("f(x: f32[n, k] f)", ARGS(strided), TENON_ELAYOUT,
           "f(): argument 'x': expected f32[n, k] f, got f32[2, 3] (numpy.ndarray)\n  strides [8, 2] are not in "
           "Fortran order without gaps; pass a copy that is");
    misfit("f(x: f32[n, k] dense)", ARGS(strided), TENON_ELAYOUT,
           "f(): argument 'x': expected f32[n, k] dense, got f32[2, 3] (numpy.ndarray)\n  strides [8, 2] leave "
           "gaps between the elements; pass a copy without gaps");
    tenon_value odd = tensor(0, memory + 4, TENON_F32, 1, DIMS(3), NULL);
    fits(&c, "f(x: f32[n] aligned(4))", ARGS(odd));
    done(&c);
    misfit("f(x: f32[n] aligned(64))", ARGS(odd), TENON_ELAYOUT,
           "f(): argument 'x': expected f32[n] aligned(64), got f32[3] (numpy.ndarray)\n  the memory is aligned to 4 "
           "bytes, not 64");
    tenon_value askew = tensor(0, memory + 2, TENON_F32, 1, DIMS(3), NULL);
    static const char *const plain[] = {
        "f(x: f32[n])",  "f(x: f32[n] c)",         "f(x: f32[n] rw)", "f(x: f32|f64[n])", "f(x: T[n]) where T = real",
        "f(x: f32[*b])", "f(x: f32[n] aligned(2))"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        misfit(plain[i], ARGS(askew), TENON_ELAYOUT,
               "f(): argument 'x': its memory is not aligned to 4 bytes; pass a copy");
    static const char *const loose[] = {"f(x: f32[n] unaligned)", "f(x: f32[n] c rw unaligned)",
                                        "f(x: f32|f64[n] unaligned)", "f(x: T[n] unaligned) where T = real",
                                        "f(x: f32[*b] unaligned)"};
    for (size_t i = 0; i < sizeof loose / sizeof *loose; i++) {
        fits(&c, loose[i], ARGS(askew));
        done(&c);
    }
    tenon_value empty = tensor(0, memory + 4, TENON_F32, 1, DIMS(0), NULL);
    fits(&c, "f(x: f32[n] aligned(64))", ARGS(empty));
    done(&c);
    tenon_value constant =
        tensor_value(view_on(&rooms[0], TENON_CPU, memory, TENON_F32, 1, DIMS(3), NULL, TENON_READ_ONLY));
    fits(&c, "f(x: f32[n])", ARGS(constant));
    done(&c);
    misfit("f(x: f32[n] rw)", ARGS(constant), TENON_EREADONLY,
           "f(): argument 'x' is read-only, but must be writable; pass a copy");
}

static void test_devices(void **state)
{
    (void)state;
    call c;
    tenon_value cuda = tensor_value(view_on(&rooms[0], TENON_CUDA, memory, TENON_F32, 1, DIMS(3), NULL, 0));
    tenon_value pinned = tensor_value(view_on(&rooms[1], TENON_CUDA_HOST, memory, TENON_F32, 1, DIMS(3), NULL, 0));
    tenon_value plain = F32(2, 3);
    static const struct {
        const char *text;
        bool cuda, pinned, plain;
    } cases[] = {
        {"f(x: f32[n])", false, true, true},         {"f(x: f32[n] cpu)", false, true, true},
        {"f(x: f32[n] cuda)", true, false, false},   {"f(x: f32[n] cpu|cuda)", true, true, true},
        {"f(x: f32[n] anywhere)", true, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tenon_value *given[] = {&cuda, &pinned, &plain};
        const bool wanted[] = {cases[i].cuda, cases[i].pinned, cases[i].plain};
        for (int k = 0; k < 3; k++) {
            c.signature = compiled(cases[i].text);
            assert_int_equal(match(c.signature, given[k], NULL, &c.bindings, NULL),
                             wanted[k] ? TENON_OK : TENON_EDEVICE);
            done(&c);
        }
    }
    misfit("f(x: f32[n])", ARGS(cuda), TENON_EDEVICE,
           "f(): argument 'x': expected f32[n], got f32[3] (numpy.ndarray)\n  the memory is on cuda:0, which the CPU "
           "cannot read; move it to the CPU");
    misfit(
        "f(x: f32[n] cuda)", ARGS(plain), TENON_EDEVICE,
        "f(): argument 'x': expected f32[n] cuda, got f32[3] (numpy.ndarray)\n  the memory is on cpu; move it to cuda");
}

static void test_the_first_mistake_is_told(void **state)
{
    (void)state;
    tenon_value x = F32(0, 2), y = F32(1, 3);
    const char *first = "f(): argument 'x': expected f64[n], got f32[2] (numpy.ndarray)\n  dtype is f32, not f64";
    misfit("f(x: f64[n], y: f64[n])", ARGS(x, y), TENON_EDTYPE, first);
    misfit("f(x: f64[n], y: f32[5])", ARGS(x, y), TENON_EDTYPE, first);
    misfit("f(y: f32[5], x: f64[n])", ARGS(y, x), TENON_ESHAPE,
           "f(): argument 'y': expected f32[5], got f32[3] (numpy.ndarray)\n  dimension 0 is 3, not 5");
    /* Also where what is wrong is an int, and before any overlap. */
    misfit("f(x: f32[n], n: int, y: f64[m])", ARGS(x, INT(9), y), TENON_ESHAPE,
           "f(): argument 'n' is 9, but n = 2 from argument 'x'");
    misfit("f(x: f32[n] rw, y: f32[n], z: f64[n])", ARGS(x, x, x), TENON_EDTYPE,
           "f(): argument 'z': expected f64[n], got f32[2] (list)\n  dtype is f32, not f64");
    misfit("f(x: f32[n], y: f32[n], z: f32[n])", ARGS(x, y, y), TENON_ESHAPE,
           "f(): argument 'y': dimension 0 is 3, but n = 2 from argument 'x'");
}

/* Only the first `count` arguments are there; the rest of the array may not be read. */
static tenon_status before(const char *text, int32_t count, const tenon_value *args, tenon_error *error)
{
    call c = {.signature = compiled(text)};
    tenon_value *some = malloc((size_t)count * sizeof *some + 1);
    memcpy(some, args, (size_t)count * sizeof *some);
    tenon_status status = match_before(c.signature, count, some, object_words, &c.bindings, error);
    free(some);
    done(&c);
    return status;
}

static void test_the_first_arguments_alone(void **state)
{
    (void)state;
    const char *text = "f(x: f32[n + 1], y: f32[k], z: f32[n, k], i: int)";
    OK(before(text, 0, ARGS(NONE), &err));
    OK(before(text, 1, ARGS(F32(0, 4)), &err)); /* z would bind n */
    OK(before(text, 2, ARGS(F32(0, 4), F32(1, 2)), &err));
    FAILS_SAYING(TENON_ESHAPE, "f(): argument 'x': dimension 0 is 4, but n + 1 = 2 (n = 1 from argument 'z')",
                 before(text, 3, ARGS(F32(0, 4), F32(1, 2), F32(2, 1, 2)), &err));
    assert_int_equal(before(text, 3, ARGS(F32(0, 4), F32(1, 2), F32(2, 1, 2)), NULL), TENON_ESHAPE);
    FAILS_SAYING(TENON_EDTYPE, "f(): argument 'y': expected f64[n], got f32[2] (torch.Tensor)\n  dtype is f32, not f64",
                 before("f(x: f32[n], y: f64[n], i: int)", 2, ARGS(F32(0, 2), F32(1, 2)), &err));
}

static void test_without_words_for_objects(void **state)
{
    (void)state;
    tenon_value x = F32(0, 2);
    tenon_signature *s = compiled("f(x: f64[n])");
    tenon_bindings b;
    FAILS_SAYING(TENON_EDTYPE, "f(): argument 'x': expected f64[n], got f32[2]\n  dtype is f32, not f64",
                 match(s, &x, NULL, &b, &err));
    tenon_signature_release(s);
}

/* --------------------------------------------------------------------------------------------------------- overlap */

static void test_written_twice(void **state)
{
    (void)state;
    call c;
    tenon_value x = tensor(0, memory, TENON_F32, 1, DIMS(4), NULL);
    tenon_value behind = tensor(1, memory + 16, TENON_F32, 1, DIMS(4), NULL);
    tenon_value inside = tensor(2, memory + 12, TENON_F32, 1, DIMS(4), NULL);
    fits(&c, "f(x: f32[n], y: f32[n])", ARGS(x, x));
    done(&c);
    fits(&c, "f(x: f32[n] rw, y: f32[n])", ARGS(x, behind));
    done(&c);
    misfit("f(x: f32[n] rw, y: f32[n])", ARGS(x, x), TENON_EOVERLAP,
           "f(): argument 'x' shares memory with argument 'y' and is written to; pass a copy of one of them");
    misfit("f(x: f32[n], y: f32[n] rw)", ARGS(x, inside), TENON_EOVERLAP,
           "f(): argument 'y' shares memory with argument 'x' and is written to; pass a copy of one of them");
    misfit("f(x: f32[n] rw, a: int, y: f32[n]? rw)", ARGS(x, INT(1), inside), TENON_EOVERLAP,
           "f(): argument 'x' shares memory with argument 'y' and is written to; pass a copy of one of them");
    fits(&c, "f(x: f32[n] rw, y: f32[n]?)", ARGS(x, NONE));
    done(&c);
    /* The even and the odd elements do not meet. */
    tenon_value even = tensor(0, memory, TENON_F32, 1, DIMS(4), DIMS(2));
    tenon_value odd = tensor(1, memory + 4, TENON_F32, 1, DIMS(4), DIMS(2));
    fits(&c, "f(x: f32[n] rw, y: f32[n])", ARGS(even, odd));
    done(&c);
    tenon_value empty = tensor(1, memory, TENON_F32, 1, DIMS(0), NULL);
    fits(&c, "f(x: f32[n] rw, y: f32[m])", ARGS(even, empty));
    done(&c);
}

static void test_alias_and_inplace(void **state)
{
    (void)state;
    call c;
    tenon_value x = tensor(0, memory, TENON_F32, 1, DIMS(4), NULL);
    tenon_value same = tensor(1, memory, TENON_F32, 1, DIMS(4), NULL);
    tenon_value inside = tensor(2, memory + 12, TENON_F32, 1, DIMS(4), NULL);
    const char *told =
        "f(): argument 'y' shares memory with argument 'x' and is written to; pass a copy of one of them";
    fits(&c, "f(x: f32[n], y: f32[n] rw alias)", ARGS(x, inside));
    done(&c);
    fits(&c, "f(x: f32[n], y: f32[n] rw inplace(x))", ARGS(x, same));
    done(&c);
    misfit("f(x: f32[n], y: f32[n] rw inplace(x))", ARGS(x, inside), TENON_EOVERLAP, told);
    misfit("f(x: f32[n], y: f32[n] rw inplace(z), z: f32[n])", ARGS(x, same, F32(3, 4)), TENON_EOVERLAP, told);
    /* The same memory, seen otherwise, is not the same view. */
    tenon_value other = tensor(1, memory, TENON_I32, 1, DIMS(4), NULL);
    misfit("f(x: f32[n], y: i32[n] rw inplace(x))", ARGS(x, other), TENON_EOVERLAP, told);
    other = tensor(1, memory, TENON_F32, 2, DIMS(4, 1), NULL);
    misfit("f(x: f32[n], y: f32[n, 1] rw inplace(x))", ARGS(x, other), TENON_EOVERLAP, told);
    other = tensor(1, memory + 12, TENON_F32, 1, DIMS(4), DIMS(-1));
    misfit("f(x: f32[n], y: f32[n] rw inplace(x))", ARGS(x, other), TENON_EOVERLAP, told);
    x = tensor(0, memory, TENON_F32, 2, DIMS(2, 2), NULL);
    other = tensor(1, memory, TENON_F32, 2, DIMS(2, 2), DIMS(1, 2));
    misfit("f(x: f32[n, k], y: f32[n, k] rw inplace(x))", ARGS(x, other), TENON_EOVERLAP, told);
    x = tensor(0, memory, TENON_F32, 2, DIMS(4, 1), NULL);
    other = tensor(1, memory, TENON_F32, 1, DIMS(4), NULL);
    misfit("f(x: f32[n, 1], y: f32[n] rw inplace(x))", ARGS(x, other), TENON_EOVERLAP, told);
    /* The stride of a dimension of size 1 means nothing. */
    x = tensor(0, memory, TENON_F32, 2, DIMS(1, 4), DIMS(999, 1));
    other = tensor(1, memory, TENON_F32, 2, DIMS(1, 4), NULL);
    fits(&c, "f(x: f32[n, k], y: f32[n, k] rw inplace(x))", ARGS(x, other));
    done(&c);
    x = tensor(0, memory, TENON_F32, 1, DIMS(4), NULL);
    /* Of two that are written one may say so. */
    same = tensor(1, memory, TENON_F32, 1, DIMS(4), NULL);
    fits(&c, "f(x: f32[n] rw, y: f32[n] rw inplace(x))", ARGS(x, same));
    done(&c);
    fits(&c, "f(x: f32[n] rw inplace(y), y: f32[n] rw)", ARGS(x, same));
    done(&c);
}

static void test_overlapping_itself(void **state)
{
    (void)state;
    call c;
    tenon_value broadcast = tensor(0, memory, TENON_F32, 2, DIMS(2, 3), DIMS(0, 1));
    fits(&c, "f(x: f32[n, k])", ARGS(broadcast));
    done(&c);
    fits(&c, "f(x: f32[n, k] rw alias)", ARGS(broadcast));
    done(&c);
    misfit("f(x: f32[n, k] rw)", ARGS(broadcast), TENON_EOVERLAP,
           "f(): argument 'x' overlaps itself (strides [0, 1]), so it cannot be written to; pass a copy");
}

/* A client may have its own names of dtypes. Those of the signature stay as they are. */
static size_t nx_name(tenon_dtype dtype, char *buffer, size_t size)
{
    return (size_t)snprintf(buffer, size, "s%d", dtype.bits);
}

static void test_names_of_dtypes(void **state)
{
    (void)state;
    tenon_value args[] = {tensor(0, memory, TENON_I64, 1, DIMS(2), NULL), NONE};
    tenon_signature *s = compiled("f(x: i32|f64[n], y: int)");
    for (int named = 0; named < 2; named++) {
        tenon_client named_client = step_client;
        named_client.format_dtype = named ? nx_name : NULL;
        step_frame f;
        step_begin(&f, s, args, object_words);
        f.base.client = &named_client;
        assert_int_equal(tenon_frame_match(&f.base), -1);
        assert_string_equal(f.refused.message,
                            named ? "f(): argument 'x': expected i32|f64[n], got s64[2] (numpy.ndarray)\n"
                                    "  dtype is s64, not i32|f64"
                                  : "f(): argument 'x': expected i32|f64[n], got i64[2] (numpy.ndarray)\n"
                                    "  dtype is i64, not i32|f64");
        tenon_frame_end(&f.base);
    }
    tenon_signature_release(s);
}

/* ---------------------------------------------------------------------------------------------- a second matcher */

/* Half of them are plain: of one dtype, with names only. */
static void random_text(char *text, size_t room)
{
    static const char *const types[] = {"f32", "f64", "f32|f64", "real", "T", "U", "i8|integer", "f32|integer"};
    static const char *const dims[] = {"n", "k", "_", "n + 1", "n * k", "2", "k // 2", "n - k", "3"};
    static const char *const attributes[] = {"",           " rw",       " c",        " f",   " dense", " aligned(8)",
                                             " unaligned", " rw alias", " anywhere", " cpu", " cuda",  " rw c"};
    size_t used = (size_t)snprintf(text, room, "f(%s", below(2) ? "n: int?, k: int?, " : "");
    int count = 1 + below(3), plain = below(2);
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, room - used, "a%d: %s[", i, types[below(plain ? 1 : 8)]);
        int ndim = below(3);
        for (int k = 0; k < ndim; k++)
            used += (size_t)snprintf(text + used, room - used, "%s%s", k ? ", " : "", dims[below(plain ? 3 : 9)]);
        used += (size_t)snprintf(text + used, room - used, "]?%s, ", attributes[below(12)]);
    }
    /* So that each name is bound by something, and each variable is used. */
    snprintf(text + used, room - used, "*, b: T[]?, c: U[]?, d: f32[n, k]?) where T = f32|i8, U = any");
}

static const tenon_view *random_view(roomy_view *room, int32_t wanted_ndim)
{
    static const uint8_t dtypes[][2] = {{2, 32}, {2, 32}, {2, 32}, {2, 32}, {2, 64}, {0, 8}};
    int64_t shape[2], strides[2];
    int32_t ndim = below(8) ? wanted_ndim : below(3);
    for (int32_t i = 0; i < ndim; i++) {
        shape[i] = 1 + below(3) - (below(8) == 0);
        strides[i] = below(4) - (below(8) == 0 ? 2 : 0);
    }
    int dtype = below(6), device = below(12) == 0 ? TENON_CUDA : below(12) == 0 ? TENON_CUDA_HOST : TENON_CPU;
    return view_on(room, device,
                   memory + 1024 + 8 * below(30) +
                       (below(6) == 0   ? 4
                        : below(8) == 0 ? 1
                                        : 0),
                   tenon_dtype_of(dtypes[dtype][0], dtypes[dtype][1], 1), ndim, shape, below(2) ? NULL : strides,
                   below(8) == 0 ? TENON_READ_ONLY : 0);
}

/* The value of a dimension by the code that tenon_signature_dim describes. False if there is none yet. */
static bool value_of(const tenon_dimension *dim, const tenon_bindings *b, int64_t *out)
{
    int64_t stack[TENON_SPEC_CODE] = {0};
    int top = 0;
    for (int32_t i = 0; i < dim->ncode; i++) {
        const tenon_dimension_op *op = &dim->code[i];
        if (op->kind == TENON_OP_NAME && !(b->dims_bound >> op->slot & 1))
            return false;
        if (op->kind == TENON_OP_NUMBER || op->kind == TENON_OP_NAME) {
            stack[top++] = op->kind == TENON_OP_NAME ? b->dims[op->slot] : op->number;
            continue;
        }
        int64_t right = stack[--top], left = stack[top - 1], half = left >= 0 ? left / 2 : -((1 - left) / 2);
        assert_true(op->kind != TENON_OP_FLOOR_DIV || right == 2);
        stack[top - 1] = op->kind == TENON_OP_ADD   ? left + right
                         : op->kind == TENON_OP_SUB ? left - right
                         : op->kind == TENON_OP_MUL ? left * right
                                                    : half;
    }
    *out = stack[0];
    return true;
}

/* Bind the names of argument `item` that have no value, and nothing else. */
static void bind_by_hand(const tenon_signature *s, int32_t item, const tenon_view *view, tenon_bindings *b)
{
    const tenon_spec *spec = s->params[item].spec;
    if (spec->variable >= 0 && !(b->types_bound >> spec->variable & 1)) {
        b->types_bound |= 1u << spec->variable;
        b->types[spec->variable] = view->dtype;
        b->types_from[spec->variable] = s->params[item].name;
    }
    for (int32_t i = 0; view->ndim == spec->ndims && i < spec->ndims; i++) {
        tenon_dimension dim;
        OK(tenon_signature_dim(s, item, i, &dim, &err));
        if (dim.kind == TENON_DIM_NAME && !(b->dims_bound >> dim.slot & 1)) {
            b->dims_bound |= 1u << dim.slot;
            b->dims[dim.slot] = view->shape[i];
            b->dims_from[dim.slot] = s->params[item].name;
        }
    }
}

static bool shape_fits(const tenon_signature *s, int32_t item, const tenon_view *view, const tenon_bindings *b)
{
    bool fits = view->ndim == s->params[item].spec->ndims;
    for (int32_t i = 0; fits && i < view->ndim; i++) {
        tenon_dimension dim;
        int64_t value;
        OK(tenon_signature_dim(s, item, i, &dim, &err));
        fits = dim.kind == TENON_DIM_ANY || (value_of(&dim, b, &value) && value == view->shape[i]);
    }
    return fits;
}

static bool is_of_shape(tenon_status status)
{
    return status == TENON_ESHAPE || status == TENON_EINVAL || status == TENON_EOVERFLOW;
}

/* Bind all, then check all. Names and shapes are worked out here; the rest is by tenon_spec_check. */
static tenon_status by_hand(const tenon_signature *s, const tenon_value *args, tenon_bindings *b)
{
    tenon_status status = TENON_OK;
    tenon_bindings_reset(b, &s->names);
    b->function = s->name;
    for (int32_t i = 0; i < s->nparams; i++) {
        int32_t dim = s->params[i].dim;
        b->argument = s->params[i].name;
        if (view_in(&args[i])) {
            bind_by_hand(s, i, view_in(&args[i]), b);
        } else if (dim >= 0 && args[i].kind == TENON_KIND_INT && !(b->dims_bound >> dim & 1)) {
            b->dims_bound |= 1u << dim;
            b->dims[dim] = args[i].as.integer;
            b->dims_from[dim] = b->argument;
        }
    }
    for (int32_t i = 0; !status && i < s->nparams; i++) {
        b->argument = s->params[i].name;
        const tenon_view *view = view_in(&args[i]);
        bool fits = !view || shape_fits(s, i, view, b);
        if (s->params[i].spec) {
            status = tenon_spec_check(s->params[i].spec, view, b, &err);
            if (status != TENON_EDTYPE)
                assert_int_equal(fits, !is_of_shape(status));
        } else if (s->params[i].dim >= 0 && args[i].kind == TENON_KIND_INT &&
                   b->dims[s->params[i].dim] != args[i].as.integer) {
            status = tenon_error_set(&err, TENON_ESHAPE, "%s", ""); /* the words are tested above */
        }
    }
    for (int32_t i = 0; !status && i < s->nparams; i++) {
        for (int32_t k = 0; !status && k < s->nparams; k++) {
            const tenon_spec *spec = s->params[i].spec;
            if (i != k && spec && s->params[k].spec && (spec->flags & TENON_SPEC_WRITE) &&
                !(spec->flags & TENON_SPEC_ALIAS) &&
                !(s->params[k].spec->flags & TENON_SPEC_WRITE && s->params[k].spec->flags & TENON_SPEC_ALIAS) &&
                tenon_view_overlaps(view_in(&args[i]), view_in(&args[k])))
                status = tenon_error_set(&err, TENON_EOVERLAP, "%s", "");
        }
    }
    return status;
}

static void same_bindings(const tenon_signature *s, const tenon_bindings *got, const tenon_bindings *wanted)
{
    assert_int_equal(got->dims_bound, wanted->dims_bound);
    assert_int_equal(got->types_bound, wanted->types_bound);
    for (int32_t i = 0; i < s->names.ndims; i++) {
        bool bound = wanted->dims_bound >> i & 1;
        assert_int_equal(got->dims[i], bound ? wanted->dims[i] : -1);
        if (bound)
            assert_ptr_equal(got->dims_from[i], wanted->dims_from[i]);
    }
    for (int32_t i = 0; i < s->names.ntypes; i++) {
        bool bound = wanted->types_bound >> i & 1;
        assert_true(tenon_dtype_equal(got->types[i], bound ? wanted->types[i] : tenon_dtype_of(0, 0, 0)));
        if (bound)
            assert_ptr_equal(got->types_from[i], wanted->types_from[i]);
    }
}

static void test_as_the_two_phases_by_hand(void **state)
{
    (void)state;
    int counts[TENON_EFAILED + 1] = {0};
    for (int round = 0; round < 3000; round++) {
        char text[512];
        random_text(text, sizeof text);
        tenon_signature *s = compiled(text);
        for (int again = 0; again < 20; again++) {
            tenon_value args[TENON_MAX_PARAMETERS];
            roomy_view views[8];
            for (int32_t i = 0; i < s->nparams; i++) {
                if (below(4) < (s->params[i].flags & TENON_PARAMETER_KEYWORD_ONLY ? 3 : 1))
                    args[i] = NONE;
                else
                    args[i] = s->params[i].spec ? tensor_value(random_view(&views[i], s->params[i].spec->ndims))
                                                : INT(below(4));
            }
            tenon_bindings fast, slow;
            tenon_status wanted = by_hand(s, args, &slow), got;
            counts[wanted]++;
            got = match(s, args, NULL, &fast, NULL);
            if (got != wanted)
                fail_msg("%s: %s, by hand %s: %s", text, tenon_status_name(got), tenon_status_name(wanted),
                         err.message);
            if (wanted) {
                tenon_error told;
                assert_int_equal(match(s, args, NULL, &fast, &told), wanted);
                if (err.message[0])
                    assert_string_equal(told.message, err.message);
            } else {
                same_bindings(s, &fast, &slow);
            }
        }
        tenon_signature_release(s);
    }
    /* The cases are not all of one kind. */
    static const tenon_status seen[] = {TENON_OK,      TENON_EINVAL,  TENON_EDTYPE,    TENON_ESHAPE,
                                        TENON_ELAYOUT, TENON_EDEVICE, TENON_EREADONLY, TENON_EOVERLAP};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        if (counts[seen[i]] < 20)
            fail_msg("%s came %d times", tenon_status_name(seen[i]), counts[seen[i]]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_views),
        cmocka_unit_test(test_binds_and_fits),
        cmocka_unit_test(test_a_name_before_what_binds_it),
        cmocka_unit_test(test_ints_bind),
        cmocka_unit_test(test_what_is_not_given),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_dtype_variables),
        cmocka_unit_test(test_stars),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_the_first_mistake_is_told),
        cmocka_unit_test(test_the_first_arguments_alone),
        cmocka_unit_test(test_without_words_for_objects),
        cmocka_unit_test(test_written_twice),
        cmocka_unit_test(test_alias_and_inplace),
        cmocka_unit_test(test_overlapping_itself),
        cmocka_unit_test(test_names_of_dtypes),
        cmocka_unit_test(test_as_the_two_phases_by_hand),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
