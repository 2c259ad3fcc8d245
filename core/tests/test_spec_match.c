/* What a view must be to match a spec, and the message where it is not. The grammar is in test_spec.c. */
#include "check.h"

static char memory[4096] __attribute__((aligned(4096)));

/* One spec against one view. `said` NULL: it fits; else the status and the message. */
static void match(const char *text, const tenon_view *view, tenon_status status, const char *said)
{
    tenon_names names = {0};
    tenon_spec spec = parsed(text, &names);
    tenon_bindings b;
    memset(&b, 0x5a, sizeof b); /* a look at what is not bound shows */
    tenon_bindings_reset(&b, &names);
    if (said)
        FAILS_SAYING(status, said, tenon_spec_match(&spec, view, &b, &err));
    else
        OK(tenon_spec_match(&spec, view, &b, &err));
    assert_int_equal(tenon_spec_check(&spec, view, &b, NULL), said ? status : TENON_OK);
}

static void fits(const char *text, const tenon_view *view)
{
    match(text, view, TENON_OK, NULL);
}

static void test_match_dtypes(void **state)
{
    (void)state;
    roomy_view room;
    const tenon_view *v = view_of(&room, memory, TENON_F64, 1, DIMS(4), NULL);
    fits("f64[n]", v);
    fits("f32|f64[n]", v);
    fits("real[n]", v);
    fits("any[n]", v);
    fits("T[n] where T = any", v);
    fits("T[n] where T = integer|f64", v);
    match("f32[n]", v, TENON_EDTYPE, "expected f32[n], got f64[4]\n  dtype is f64, not f32");
    match("f32|i8|integer[n]", v, TENON_EDTYPE,
          "expected f32|i8|integer[n], got f64[4]\n  dtype is f64, not f32|i8|integer");
    match("f32[n] c", v, TENON_EDTYPE, "expected f32[n], got f64[4]\n  dtype is f64, not f32");
    match("f32[n]? rw", v, TENON_EDTYPE, "expected f32[n]?, got f64[4]\n  dtype is f64, not f32");
    match("T[n] where T = f32|bf16", v, TENON_EDTYPE,
          "expected T[n], got f64[4]\n  dtype is f64, but T is one of f32|bf16");
}

static void test_kinds_of_dtypes(void **state)
{
    (void)state;
    static const struct {
        int code, bits, lanes;
        bool real, integer;
    } cases[] = {
        {TENON_CODE_INT, 8, 1, true, true},        {TENON_CODE_UINT, 4, 1, true, true},
        {TENON_CODE_FLOAT, 16, 1, true, false},    {TENON_CODE_BFLOAT, 16, 1, true, false},
        {TENON_CODE_F8_E5M2, 8, 1, true, false},   {TENON_CODE_F4_E2M1FN, 4, 1, true, false},
        {TENON_CODE_COMPLEX, 64, 1, false, false}, {TENON_CODE_BOOL, 8, 1, false, false},
        {TENON_CODE_OPAQUE, 64, 1, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        roomy_view room;
        tenon_names names = {0};
        tenon_bindings b;
        tenon_spec real = parsed("real[n]", &names), integer = parsed("integer[n]", &names),
                   any = parsed("any[n]", &names);
        view_of(&room, memory, tenon_dtype_of(cases[i].code, cases[i].bits, cases[i].lanes), 1, DIMS(4), NULL);
        tenon_bindings_reset(&b, &names);
        assert_int_equal(tenon_spec_match(&real, &room.view, &b, NULL), cases[i].real ? TENON_OK : TENON_EDTYPE);
        assert_int_equal(tenon_spec_match(&integer, &room.view, &b, NULL), cases[i].integer ? TENON_OK : TENON_EDTYPE);
        assert_int_equal(tenon_spec_match(&any, &room.view, &b, NULL), TENON_OK);
    }
}

static void test_match_shapes(void **state)
{
    (void)state;
    roomy_view room;
    const tenon_view *v = view_of(&room, memory, TENON_F32, 2, DIMS(4, 3), NULL);
    fits("f32[n, k]", v);
    fits("f32[4, 3]", v);
    fits("f32[_, _]", v);
    fits("f32[*b]", v);
    fits("f32[*b, 4, 3]", v);
    fits("f32[4, *b, 3]", v);
    fits("f32[n, n - 1]", v);
    fits("f32[n, n // 3 * 3]", v);
    fits("f32[2 * (1 + 1), 7 // 2]", v);
    fits("f32[n, (0 - 5) // 2 + 6]", v); /* rounds down: -3 */
    match("f32[n]", v, TENON_ESHAPE, "expected f32[n], got f32[4, 3]\n  2 dimensions, not 1");
    match("f32[n, k, m] c", v, TENON_ESHAPE, "expected f32[n, k, m], got f32[4, 3]\n  2 dimensions, not 3");
    match("f32[*b, n, k, m]", v, TENON_ESHAPE,
          "expected f32[*b, n, k, m], got f32[4, 3]\n  2 dimensions, not at least 3");
    match("f32[n, 5]", v, TENON_ESHAPE, "expected f32[n, 5], got f32[4, 3]\n  dimension 1 is 3, not 5");
    match("f32[*b, 5, _]", v, TENON_ESHAPE, "expected f32[*b, 5, _], got f32[4, 3]\n  dimension 0 is 4, not 5");
    match("f32[n, n]", v, TENON_ESHAPE, "dimension 1 is 3, but n = 4");
    match("f32[n, n + 1]", v, TENON_ESHAPE, "dimension 1 is 3, but n + 1 = 5 (n = 4)");
    match("f32[ n , n + 1 ] c", v, TENON_ESHAPE, "dimension 1 is 3, but n + 1 = 5 (n = 4)");
    match("f32[n, 2 * 2]", v, TENON_ESHAPE, "dimension 1 is 3, but 2 * 2 = 4");
    match("f32[n, n * n // n + n]", v, TENON_ESHAPE, "dimension 1 is 3, but n * n // n + n = 8 (n = 4)");
    match("f32[n, k + 1]", v, TENON_EINVAL, "dimension 1 is 3, but k in k + 1 has no value: no argument determines it");
    match("f32[n, n // (n - 4)]", v, TENON_EOVERFLOW,
          "dimension 1 is 3, but n // (n - 4) overflows 64 bits or divides by 0 (n = 4)");
    match("f32[n, n // (n - 4) + k]", v, TENON_EOVERFLOW,
          "dimension 1 is 3, but n // (n - 4) + k overflows 64 bits or divides by 0 (n = 4)");
    match("f32[n, n * 9223372036854775807]", v, TENON_EOVERFLOW,
          "dimension 1 is 3, but n * 9223372036854775807 overflows 64 bits or divides by 0 (n = 4)");
    match("f32[n, n + 9223372036854775807]", v, TENON_EOVERFLOW,
          "dimension 1 is 3, but n + 9223372036854775807 overflows 64 bits or divides by 0 (n = 4)");
    match("f32[n, 0 - 9223372036854775807 - n]", v, TENON_EOVERFLOW,
          "dimension 1 is 3, but 0 - 9223372036854775807 - n overflows 64 bits or divides by 0 (n = 4)");
    v = view_of(&room, memory, TENON_F32, 0, NULL, NULL);
    fits("f32[]", v);
    fits("f32[*b]", v);
    match("f32[n]", v, TENON_ESHAPE, "expected f32[n], got f32[]\n  0 dimensions, not 1");
    v = view_of(&room, memory, TENON_F32, 1, DIMS(0), NULL);
    fits("f32[n]", v);
    fits("f32[0]", v);
    match("f32[]", v, TENON_ESHAPE, "expected f32[], got f32[0]\n  1 dimension, not 0");
}

static void test_match_layouts(void **state)
{
    (void)state;
    roomy_view room;
    const tenon_view *v = view_of(&room, memory, TENON_F32, 2, DIMS(2, 3), NULL);
    fits("f32[n, k] c", v);
    fits("f32[n, k] dense", v);
    match(
        "f32[n, k] f", v, TENON_ELAYOUT,
        "expected f32[n, k] f, got f32[2, 3]\n  strides [3, 1] are not in Fortran order without gaps; pass a copy that "
        "is");
    v = view_of(&room, memory, TENON_F32, 2, DIMS(2, 3), DIMS(1, 2));
    fits("f32[n, k] f", v);
    fits("f32[n, k] dense", v);
    match("f32[n, k] c", v, TENON_ELAYOUT,
          "expected f32[n, k] c, got f32[2, 3]\n  strides [1, 2] are not in C order without gaps; pass a copy that is");
    match("T[n, k] c where T = f32", v, TENON_ELAYOUT,
          "expected T[n, k] c, got f32[2, 3]\n  strides [1, 2] are not in C order without gaps; pass a copy that is");
    v = view_of(&room, memory, TENON_F32, 2, DIMS(2, 3), DIMS(4, 1));
    fits("f32[n, k]", v);
    match("f32[n, k] dense", v, TENON_ELAYOUT,
          "expected f32[n, k] dense, got f32[2, 3]\n  strides [4, 1] leave gaps between the elements; pass a copy "
          "without gaps");
    v = view_of(&room, memory + 32, TENON_F32, 1, DIMS(3), NULL);
    fits("f32[n] aligned(32)", v);
    fits("f32[n] aligned(1)", v);
    match("f32[n] aligned(64)", v, TENON_ELAYOUT,
          "expected f32[n] aligned(64), got f32[3]\n  the memory is aligned to 32 bytes, not 64");
    fits("f32[n] aligned(4096)", view_of(&room, memory, TENON_F32, 1, DIMS(3), NULL));
    fits("f32[n] aligned(64)", view_of(&room, memory + 1, TENON_F32, 1, DIMS(0), NULL)); /* nothing to align */
}

static void misaligned(const char *spec, const tenon_view *view, int bytes)
{
    char message[100];
    snprintf(message, sizeof message, "its memory is not aligned to %d bytes; pass a copy", bytes);
    match(spec, view, TENON_ELAYOUT, message);
}

static void test_match_alignment(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int alignment;
    } natural[] = {{"bool", 1}, {"u8", 1},        {"i16", 2},   {"f16", 2},   {"bf16", 2},    {"f32", 4},
                   {"f64", 8},  {"i64", 8},       {"i128", 16}, {"c64", 4},   {"c128", 8},    {"u4", 1},
                   {"i4x8", 1}, {"f8_e4m3fn", 1}, {"f32x2", 8}, {"f32x3", 4}, {"f32x4", 16},  {"f64x4", 16},
                   {"u8x4", 4}, {"f6_e2m3fn", 1}, {"c64x2", 8}, {"c32", 2},   {"opaque64", 8}};
    for (size_t i = 0; i < sizeof natural / sizeof *natural; i++) {
        char plain[64], free[64], strict[64];
        roomy_view room;
        tenon_dtype dtype;
        int wanted = natural[i].alignment;
        OK(tenon_dtype_parse(natural[i].name, &dtype, &err));
        assert_int_equal(tenon_dtype_alignment(dtype), wanted);
        snprintf(plain, sizeof plain, "%s[n]", natural[i].name);
        snprintf(free, sizeof free, "%s[n] unaligned", natural[i].name);
        snprintf(strict, sizeof strict, "%s[n] aligned(1)", natural[i].name);
        for (int offset = 0; offset < 17; offset++) {
            const tenon_view *v = view_of(&room, memory + offset, dtype, 1, DIMS(3), NULL);
            fits(free, v);
            if (offset % wanted == 0) {
                fits(plain, v);
                fits(strict, v);
            } else { /* aligned(N) never allows less */
                misaligned(plain, v, wanted);
                misaligned(strict, v, wanted);
                misaligned("any[n]", v, wanted);
                misaligned("T[n] where T = any", v, wanted);
            }
            fits(plain, view_of(&room, memory + offset, dtype, 1, DIMS(0), NULL));
        }
    }
    assert_int_equal(tenon_dtype_alignment(tenon_dtype_of(99, 64, 1)), 1);
    assert_int_equal(tenon_dtype_alignment(tenon_dtype_of(TENON_CODE_FLOAT, 32, 0)), 1);
}

static void test_match_alignment_elsewhere(void **state)
{
    (void)state;
    roomy_view room;
    tenon_dl_tensor source = source_of(memory + 2, TENON_F32, 1, DIMS(3), NULL);
    source.device = tenon_device_of(TENON_CUDA, 0);
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    misaligned("f32[n] cuda", &room.view, 4);
    fits("f32[n] cuda unaligned", &room.view);
    source.device = tenon_device_of(TENON_METAL, 0); /* a handle is not an address */
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    fits("f32[n] metal", &room.view);
    source.byte_offset = 2;
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    fits("f32[n] metal", &room.view);
    source = source_of(NULL, TENON_F64, 1, DIMS(0), NULL);
    OK(tenon_view_init(&room.view, &source, 0, room.dims, &err));
    fits("f64[n]", &room.view);
}

static const tenon_view *on(roomy_view *room, int type, int id)
{
    tenon_dl_tensor source = source_of(memory, TENON_F32, 1, DIMS(3), NULL);
    source.device = tenon_device_of(type, id);
    OK(tenon_view_init(&room->view, &source, 0, room->dims, &err));
    return &room->view;
}

static void test_match_devices(void **state)
{
    (void)state;
    static const int host[] = {TENON_CPU, TENON_CUDA_HOST, TENON_ROCM_HOST, TENON_CUDA_MANAGED};
    roomy_view room;
    for (size_t i = 0; i < 4; i++) {
        fits("f32[n]", on(&room, host[i], 0));
        fits("f32[n] cpu", on(&room, host[i], 0));
        fits("f32[n] rocm|cpu", on(&room, host[i], 0));
        fits("f32[n] anywhere", on(&room, host[i], 0));
    }
    for (int type = 1; type < 20; type++) {
        if (tenon_device_known(tenon_device_of(type, 0)))
            fits("f32[n] anywhere", on(&room, type, 0));
    }
    fits("f32[n] cuda", on(&room, TENON_CUDA, 0));
    fits("f32[n] cuda", on(&room, TENON_CUDA, 7));
    fits("f32[n] cuda", on(&room, TENON_CUDA_MANAGED, 0)); /* which a kernel can read too */
    fits("f32[n] rocm", on(&room, TENON_ROCM, 3));
    fits("f32[n] cpu|cuda", on(&room, TENON_CUDA, 1));
    fits("f32[n] metal", on(&room, TENON_METAL, 0));
    match("f32[n]", on(&room, TENON_CUDA, 1), TENON_EDEVICE,
          "expected f32[n], got f32[3]\n  the memory is on cuda:1, which the CPU cannot read; move it to the CPU");
    match("f32[n] c", on(&room, TENON_METAL, 0), TENON_EDEVICE,
          "expected f32[n] c, got f32[3]\n  the memory is on metal:0, which the CPU cannot read; move it to the CPU");
    match("f32[n] cpu", on(&room, TENON_CUDA, 0), TENON_EDEVICE,
          "expected f32[n] cpu, got f32[3]\n  the memory is on cuda:0; move it to the CPU");
    match("f32[n] cuda", on(&room, TENON_CPU, 0), TENON_EDEVICE,
          "expected f32[n] cuda, got f32[3]\n  the memory is on cpu; move it to cuda");
    match("f32[n] cuda", on(&room, TENON_CUDA_HOST, 0), TENON_EDEVICE,
          "expected f32[n] cuda, got f32[3]\n  the memory is on cuda_host:0; move it to cuda");
    match("f32[n] cuda|rocm c", on(&room, TENON_CPU, 0), TENON_EDEVICE,
          "expected f32[n] cuda|rocm c, got f32[3]\n  the memory is on cpu; move it to cuda");
    match("f32[n] rocm|metal", on(&room, TENON_CPU, 0), TENON_EDEVICE,
          "expected f32[n] rocm|metal, got f32[3]\n  the memory is on cpu; move it to metal");
    match("f32[n] cpu|cuda", on(&room, TENON_METAL, 0), TENON_EDEVICE,
          "expected f32[n] cpu|cuda, got f32[3]\n  the memory is on metal:0; move it to the CPU");
    match("T[n] cuda where T = any", on(&room, TENON_CPU, 0), TENON_EDEVICE,
          "expected T[n] cuda, got f32[3]\n  the memory is on cpu; move it to cuda");
}

static void test_match_written(void **state)
{
    (void)state;
    roomy_view room;
    const tenon_view *v = view_on(&room, TENON_CPU, memory, TENON_F32, 1, DIMS(3), NULL, TENON_READ_ONLY);
    fits("f32[n]", v);
    match("f32[n] rw", v, TENON_EREADONLY, "the tensor is read-only, but must be writable; pass a copy");
    match("f32[n] rw alias", v, TENON_EREADONLY, "the tensor is read-only, but must be writable; pass a copy");
    v = view_of(&room, memory, TENON_F32, 2, DIMS(3, 4), DIMS(0, 1));
    fits("f32[n, k]", v);
    fits("f32[n, k] rw alias", v);
    match("f32[n, k] rw", v, TENON_EOVERLAP,
          "the tensor overlaps itself (strides [0, 1]), so it cannot be written to; pass a copy");
    fits("f32[n] rw", view_of(&room, memory, TENON_F32, 1, DIMS(3), NULL));
    fits("f32[n] rw", view_of(&room, memory + 64, TENON_F32, 1, DIMS(3), DIMS(-1)));
}

static void test_left_out(void **state)
{
    (void)state;
    fits("f32[n]?", NULL);
    fits("f32[n]? rw c", NULL);
    match("f32[n] c", NULL, TENON_EINVAL, "expected f32[n], got nothing\n  it cannot be left out");
}

/* ----------------------------------------------------------------------------------------------- labels, bindings */

static void test_labels(void **state)
{
    (void)state;
    tenon_names names = {0};
    tenon_spec x = parsed("T[n, *b] rw where T = any", &names), y = parsed("T[n + 1, *b] rw", &names);
    tenon_bindings b;
    roomy_view first, second;
    view_of(&first, memory, TENON_F32, 3, DIMS(3, 2, 5), NULL);
    tenon_bindings_reset(&b, &names);
    b.function = "saxpy";
    b.argument = "x";
    b.object = "numpy.ndarray";
    OK(tenon_spec_match(&x, &first.view, &b, &err));
    b.argument = "y";
    view_of(&second, memory, TENON_F32, 3, DIMS(3, 2, 5), NULL);
    FAILS_SAYING(TENON_ESHAPE, "saxpy(): argument 'y': dimension 0 is 3, but n + 1 = 4 (n = 3 from argument 'x')",
                 tenon_spec_match(&y, &second.view, &b, &err));
    view_of(&second, memory, TENON_F32, 3, DIMS(4, 2, 6), NULL);
    FAILS_SAYING(TENON_ESHAPE, "saxpy(): argument 'y': *b is [2, 6], but *b = [2, 5] from argument 'x'",
                 tenon_spec_match(&y, &second.view, &b, &err));
    view_of(&second, memory, TENON_F32, 1, DIMS(4), NULL);
    FAILS_SAYING(TENON_ESHAPE, "saxpy(): argument 'y': *b is [], but *b = [2, 5] from argument 'x'",
                 tenon_spec_match(&y, &second.view, &b, &err));
    view_of(&second, memory, TENON_F64, 3, DIMS(4, 2, 5), NULL);
    FAILS_SAYING(
        TENON_EDTYPE,
        "saxpy(): argument 'y': expected T[n + 1, *b], got f64[4, 2, 5] (numpy.ndarray)\n  dtype is f64, but T "
        "= f32 from argument 'x'",
        tenon_spec_match(&y, &second.view, &b, &err));
    view_on(&second, TENON_CPU, memory, TENON_F32, 3, DIMS(4, 2, 5), NULL, TENON_READ_ONLY);
    FAILS_SAYING(TENON_EREADONLY, "saxpy(): argument 'y' is read-only, but must be writable; pass a copy",
                 tenon_spec_match(&y, &second.view, &b, &err));
    view_of(&second, memory, TENON_F32, 3, DIMS(4, 2, 5), DIMS(0, 5, 1));
    FAILS_SAYING(TENON_EOVERLAP,
                 "saxpy(): argument 'y' overlaps itself (strides [0, 5, 1]), so it cannot be written to; pass a copy",
                 tenon_spec_match(&y, &second.view, &b, &err));
    FAILS_SAYING(TENON_EINVAL,
                 "saxpy(): argument 'y': expected T[n + 1, *b], got nothing (numpy.ndarray)\n  it cannot be left out",
                 tenon_spec_match(&y, NULL, &b, &err));
    view_of(&second, memory, TENON_F32, 3, DIMS(4, 2, 5), NULL);
    OK(tenon_spec_match(&y, &second.view, &b, &err));

    b.function = NULL;
    view_of(&second, memory, TENON_F32, 0, NULL, NULL);
    FAILS_SAYING(TENON_ESHAPE,
                 "argument 'y': expected T[n + 1, *b], got f32[] (numpy.ndarray)\n  0 dimensions, not at least 1",
                 tenon_spec_match(&y, &second.view, &b, &err));
    b.argument = b.object = NULL;
    b.function = "saxpy";
    FAILS_SAYING(TENON_ESHAPE, "saxpy(): expected T[n + 1, *b], got f32[]\n  0 dimensions, not at least 1",
                 tenon_spec_match(&y, &second.view, &b, &err));
}

/* x uses n before y binds it: first every bind, then every check. */
static void test_two_phases(void **state)
{
    (void)state;
    tenon_names names = {0};
    tenon_spec x = parsed("f32[n+1]", &names), y = parsed("f32[n]", &names);
    tenon_bindings b;
    roomy_view vx, vy;
    view_of(&vx, memory, TENON_F32, 1, DIMS(5), NULL);
    view_of(&vy, memory, TENON_F32, 1, DIMS(4), NULL);
    tenon_bindings_reset(&b, &names);
    FAILS(TENON_EINVAL, tenon_spec_match(&x, &vx.view, &b, &err)); /* not in one phase */
    tenon_bindings_reset(&b, &names);
    b.argument = "x";
    tenon_spec_bind(&x, &vx.view, &b);
    b.argument = "y";
    tenon_spec_bind(&y, &vy.view, &b);
    assert_int_equal(b.dims[0], 4);
    b.argument = "x";
    OK(tenon_spec_check(&x, &vx.view, &b, &err));
    b.argument = "y";
    OK(tenon_spec_check(&y, &vy.view, &b, &err));
    view_of(&vx, memory, TENON_F32, 1, DIMS(6), NULL);
    b.argument = "x";
    FAILS_SAYING(TENON_ESHAPE, "argument 'x': dimension 0 is 6, but n+1 = 5 (n = 4 from argument 'y')",
                 tenon_spec_check(&x, &vx.view, &b, &err));
    tenon_bindings_reset(&b, &names);
    assert_int_equal(b.dims_bound, 0);
    assert_null(b.argument);
}

/* A bind that does not fit, or has nothing to tell, binds nothing, or leaves the first value. */
static void test_bind(void **state)
{
    (void)state;
    tenon_names names = {0};
    tenon_spec spec = parsed("T[n, *b, k] where T = any", &names);
    tenon_bindings b;
    roomy_view one, four, other;
    view_of(&one, memory, TENON_F32, 1, DIMS(9), NULL);
    view_of(&four, memory, TENON_F32, 4, DIMS(2, 3, 4, 5), NULL);
    view_of(&other, memory, TENON_F64, 3, DIMS(1, 1, 1), NULL);
    tenon_bindings_reset(&b, &names);
    tenon_spec_bind(&spec, NULL, &b);
    assert_int_equal(b.dims_bound | b.stars_bound | b.types_bound, 0);
    tenon_spec_bind(&spec, &one.view, &b);
    assert_int_equal(b.dims_bound | b.stars_bound, 0);
    tenon_bindings_reset(&b, &names);
    tenon_spec_bind(&spec, &four.view, &b);
    tenon_spec_bind(&spec, &other.view, &b);
    assert_int_equal(b.dims_bound, 3);
    assert_int_equal(b.dims[0], 2);
    assert_int_equal(b.dims[1], 5);
    assert_int_equal(b.stars_bound, 1);
    assert_int_equal(b.star_ndims[0], 2);
    assert_memory_equal(b.stars[0], DIMS(3, 4), 2 * sizeof(int64_t));
    assert_true(tenon_dtype_equal(b.types[0], TENON_F32));
}

/* A view without dimensions may have no arrays at all. */
static void test_stars_of_scalars(void **state)
{
    (void)state;
    tenon_view scalar;
    tenon_dl_tensor source = source_of(memory, TENON_F32, 0, NULL, NULL);
    OK(tenon_view_init(&scalar, &source, 0, NULL, &err));
    tenon_names names = {0};
    tenon_spec spec = parsed("f32[*b]", &names);
    tenon_bindings b;
    roomy_view room;
    tenon_bindings_reset(&b, &names);
    OK(tenon_spec_match(&spec, &scalar, &b, &err));
    OK(tenon_spec_match(&spec, &scalar, &b, &err));
    view_of(&room, memory, TENON_F32, 1, DIMS(3), NULL);
    FAILS_SAYING(TENON_ESHAPE, "*b is [3], but *b = []", tenon_spec_match(&spec, &room.view, &b, &err));
    tenon_bindings_reset(&b, &names);
    OK(tenon_spec_match(&spec, &room.view, &b, &err));
    FAILS_SAYING(TENON_ESHAPE, "*b is [], but *b = [3]", tenon_spec_match(&spec, &scalar, &b, &err));
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    int64_t shape[TENON_MAX_NDIM], strides[TENON_MAX_NDIM];
    tenon_names names = {0};
    tenon_spec spec = parsed("f32[*b] c", &names);
    tenon_bindings b;
    roomy_view room;
    for (int i = 0; i < TENON_MAX_NDIM; i++) {
        shape[i] = i == 0 ? 2 : 1;
        strides[i] = INT64_MIN / 4 + i;
    }
    strides[0] = 2;
    view_of(&room, memory, TENON_F32, TENON_MAX_NDIM, shape, strides);
    tenon_bindings_reset(&b, &names);
    FAILS(TENON_ELAYOUT, tenon_spec_match(&spec, &room.view, &b, &err));
    assert_int_equal(strlen(err.message), 1007);
    assert_string_equal(err.message + 1004, "...");
}

static void test_null_arguments(void **state)
{
    (void)state;
    tenon_names names = {0};
    tenon_spec spec = parsed("f32[n]", &names);
    tenon_bindings b = {0};
    roomy_view room;
    view_of(&room, memory, TENON_F32, 1, DIMS(3), NULL);
    FAILS_SAYING(TENON_EINVAL, "tenon_spec_match(): argument 'spec' is NULL",
                 tenon_spec_match(NULL, &room.view, &b, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_spec_match(): argument 'bindings' is NULL",
                 tenon_spec_match(&spec, &room.view, NULL, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_spec_check(): argument 'spec' is NULL",
                 tenon_spec_check(NULL, &room.view, &b, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_spec_check(): argument 'bindings' is NULL",
                 tenon_spec_check(&spec, &room.view, NULL, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_spec_check(): argument 'bindings->names' is NULL", /* never reset */
                 tenon_spec_check(&spec, &room.view, &b, &err));
    tenon_spec_bind(&spec, &room.view, &b);
    tenon_bindings_reset(&b, &names);
    tenon_spec_bind(NULL, &room.view, &b);
    tenon_spec_bind(&spec, NULL, &b);
    tenon_spec_bind(&spec, &room.view, NULL);
    assert_int_equal(b.dims_bound, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match_dtypes),     cmocka_unit_test(test_kinds_of_dtypes),
        cmocka_unit_test(test_match_shapes),     cmocka_unit_test(test_match_layouts),
        cmocka_unit_test(test_match_alignment),  cmocka_unit_test(test_match_alignment_elsewhere),
        cmocka_unit_test(test_match_devices),    cmocka_unit_test(test_match_written),
        cmocka_unit_test(test_left_out),         cmocka_unit_test(test_labels),
        cmocka_unit_test(test_two_phases),       cmocka_unit_test(test_bind),
        cmocka_unit_test(test_stars_of_scalars), cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_null_arguments),   cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
