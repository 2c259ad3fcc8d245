/* Overloaded functions: which entries of a module may have the same name, and how a host tries them. */
#include "signature_call.h"

#include <stdlib.h>

static char memory[4096] __attribute__((aligned(4096)));
static roomy_view room;

static tenon_status nothing(tenon_call *c)
{
    (void)c;
    return TENON_OK;
}

static tenon_status check(const char *const *signatures, size_t count)
{
    tenon_function functions[100] = {{0}};
    for (size_t i = 0; i < count; i++) {
        functions[i].signature = signatures[i];
        functions[i].call = strncmp(signatures[i], "class", 5) ? nothing : NULL;
    }
    tenon_module module = {.magic = TENON_MAGIC,
                           .major = TENON_ABI_MAJOR,
                           .size = sizeof module,
                           .function_size = sizeof *functions,
                           .nfunctions = (int64_t)count,
                           .functions = functions,
                           .name = "m"};
    return tenon_module_check(&module, &err);
}

#define CHECK(...)                                                                                                     \
    check((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void test_different_arguments(void **state)
{
    (void)state;
    OK(CHECK("f()", "f(x: int)", "f(x: float)", "g()", "f(x: int, y: int)"));
    OK(CHECK("class A", "A()", "A(n: int)", "A.f(self)", "A.f(self, x: int)", "f()", "A . f ( self, x: float)"));
    static const char *const pairs[][2] = {
        {"f(x: f32[n])", "f(x: f64[n])"},
        {"f(x: f32[n])", "f(x: f32|f64[n])"},
        {"f(x: f32[n])", "f(x: f32[n, m])"},
        {"f(x: f32[n, n])", "f(x: f32[n, m])"},
        {"f(x: f32[2 * n], y: f32[n])", "f(x: f32[3 * n], y: f32[n])"},
        {"f(x: f32[3])", "f(x: f32[4])"},
        {"f(x: f32[n])", "f(x: f32[*n])"},
        {"f(x: f32[n])", "f(x: f32[n] c)"},
        {"f(x: f32[n])", "f(x: f32[n] rw)"},
        {"f(x: f32[n])", "f(x: f32[n] cuda)"},
        {"f(x: f32[n])", "f(x: f32[n]?)"},
        {"f(x: f32[n])", "f(x: [f32[n]])"},
        {"f(x: [f32[n]])", "f(x: [f64[n]])"},
        {"f(x: T[n]) where T = f32|f64", "f(x: T[n]) where T = f32|i8"},
        {"f(x: int)", "f(x: int?)"},
        {"f(x: 'a'|'b')", "f(x: 'a'|'c')"},
        {"f(x: 'a'|'b')", "f(x: 'a'|'b'|'c')"},
        {"f(x: 1|2)", "f(x: 1|3)"},
        {"f(x: 1|2)", "f(x: int)"},
        {"f(x: int)", "f(x: uint)"},
        {"f(x: ints[2])", "f(x: ints[3])"},
        {"f(x: handle('A'))", "f(x: handle('B'))"},
        {"f(x: int)", "f(*, x: int)"},
        {"f(*, x: int)", "f(*, y: int)"},
        {"f(x: int) where x > 0", "f(x: int)"},
        {"f(x: int) where x > 0", "f(x: int) where x <= 0"},
        {"f(n: int) -> f32[n]", "f(n: int, x: f32[n])"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        OK(check(pairs[i], 2));
}

static void test_the_same_arguments(void **state)
{
    (void)state;
    FAILS_SAYING(TENON_EINVAL,
                 "tenon_module_check(): functions 1 and 3 take the same arguments, so the second one would never be "
                 "called:\n  f(x: f32[n])\n  f(y: f32[m]) -> int",
                 CHECK("g()", "f(x: f32[n])", "f(x: f64[n])", "f(y: f32[m]) -> int"));
    static const char *const pairs[][2] = {
        {"f()", "f()"},
        {"f ( )", "f() -> int"},
        {"f(x: int = 3)", "f(y: int)"},
        {"f(x: f32[n, m], y: f32[m])", "f(a: f32[b, c], b: f32[c])"},
        {"f(x: float32[2 * (n - 1)], y: f32[n])", "f(x: f32[2*(k - 1)], y: f32[k])"},
        {"f(x: T[n]) where T = f32|f64", "f(x: U[n]) where U = f64|f32"},
        {"f(x: f32[n] c keep)", "f(x: f32[n] c)"},
        {"f(x: 1|2)", "f(y: 1|2 = 2)"},
        {"f(g: callable('() -> int'))", "f(h: callable('(x: int)'))"},
        {"f(x: 'a'|\"b\"?)", "f(x: 'a'|'b'? = 'a')"},
        {"f(x: int, *, y: int)", "f(z: int, *, y: int = 3)"},
        {"f(x: int) where x > 0", "f(x: int) -> int where x > 0"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        FAILS(TENON_EINVAL, check(pairs[i], 2));
    FAILS(TENON_EINVAL, CHECK("class A", "A()", "A.f(self)", "A()"));
    FAILS(TENON_EINVAL, CHECK("class A", "A.f(self, x: int)", "A.g(self, x: int)", "A . f(self, y: int)"));
    OK(CHECK("class A", "A.f(self, x: int)", "f(self: handle('A'), x: int)"));
}

/* What is wrong with a signature is reported by those who compile it. */
static void test_broken_entries(void **state)
{
    (void)state;
    OK(CHECK("f(", "f()", "f(x: )"));
    OK(CHECK("", "(", "()", "f", "f", "class"));
    FAILS(TENON_EINVAL, CHECK("f(", "f()", "f()"));
}

static void test_many(void **state)
{
    (void)state;
    static char texts[100][64];
    const char *signatures[100];
    for (int i = 0; i < 100; i++) {
        snprintf(texts[i], sizeof texts[i], "f(x: f32[%d])", i);
        signatures[i] = texts[i];
    }
    OK(check(signatures, TENON_MAX_OVERLOADS));
    FAILS_SAYING(TENON_EINVAL, "tenon_module_check(): 65 entries are called 'f'; at most 64 may have the same name",
                 check(signatures, TENON_MAX_OVERLOADS + 1));
}

/* Allocations until one fails, and blocks that are alive. */
static int left, alive;

static void *limited_alloc(void *context, size_t size, bool zeroed)
{
    (void)context;
    (void)zeroed;
    alive += left > 0;
    return left-- > 0 ? calloc(1, size) : NULL;
}

static void limited_free(void *context, void *block, size_t size)
{
    (void)context;
    (void)size;
    alive--;
    free(block);
}

static void test_no_memory(void **state)
{
    (void)state;
    tenon_allocator limited = {limited_alloc, limited_free, NULL};
    for (int i = 0; i < 3; i++) { /* for the list, and for each signature */
        left = i;
        OK(tenon_set_allocator(&limited, &err));
        tenon_status status = CHECK("f()", "f(x: int)");
        OK(tenon_set_allocator(NULL, &err));
        assert_int_equal(status, TENON_ENOMEM);
        assert_int_equal(alive, 0);
    }
}

/* A host tries an entry without a refusal. */
static void test_try_match(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool fits;
    } all[] = {
        {"f(x: f32[n], k: int)", true},
        {"f(x: f64[n], k: int)", false},
        {"f(x: f32[n, m], k: int)", false},
        {"f(x: f32[k], k: int)", false},
        {"f(x: f32[n], k: int) where k < n", true},
        {"f(x: f32[n], k: int) where k > n", false},
    };
    int64_t four = 4;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tenon_signature *s = compiled(all[i].text);
        step_frame f;
        step_begin(&f, s, ARGS(tensor_value(view_of(&room, memory, TENON_F32, 1, &four, NULL)), INT(2)), NULL);
        assert_int_equal(tenon_frame_try_match(&f.base), all[i].fits);
        assert_int_equal(f.refusals, 0);
        if (all[i].fits) {
            assert_ptr_equal(f.base.call.results, f.results);
            assert_int_equal(f.base.call.dims[0], 4);
        }
        tenon_frame_end(&f.base);
        tenon_signature_release(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_different_arguments), cmocka_unit_test(test_the_same_arguments),
        cmocka_unit_test(test_broken_entries),      cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_memory),           cmocka_unit_test(test_try_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
