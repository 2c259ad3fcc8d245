/* Variants of a library for newer CPUs. answer_1 is the baseline, and answer_2 a variant. */
#define _GNU_SOURCE
#ifdef TENON_TEST_LIBRARIES

#include "library_files.h"

#if defined(__x86_64__)
#define HERE      "x86-64-v2"
#define ELSEWHERE "sve"
#else
#define HERE      "armv8.2-a"
#define ELSEWHERE "x86-64-v2"
#endif

static void beside(const char *path, const char *variant, char out[NAME])
{
    size_t stem = strlen(path) - strlen(".so");
    snprintf(out, NAME, "%.*s.%s.so", (int)stem, path, variant);
}

static void refused(const char *path, const char *message)
{
    const tenon_module *module = NULL;
    assert_int_equal(tenon_library_open(path, &module, &err), TENON_EINVAL);
    assert_null(module);
    assert_string_equal(tenon_error_reason(&err), message);
    assert_int_equal(tenon_library_open(path, &module, NULL), TENON_EINVAL);
}

static void test_the_variant_is_used(void **state)
{
    (void)state;
    char path[NAME], variant[NAME], other[NAME];
    char name[TENON_HASH_SIZE], plain[TENON_HASH_SIZE];
    replace(built("answer_1.so"), fresh(path));
    beside(path, HERE, variant);
    beside(path, ELSEWHERE, other);
    const tenon_module *baseline = open_ok(path);
    assert_int_equal(answer(baseline), 1);
    assert_string_equal(tenon_library_variant(baseline), "baseline");
    assert_int_equal(tenon_module_hash(baseline, plain, NULL), TENON_OK);
    replace(built("answer_2.so"), variant);
    replace(built("no_module.so"), other); /* it is for another CPU, so nobody opens it */
    const tenon_module *module = open_ok(path);
    assert_int_equal(answer(module), 2);
    assert_true(module == open_ok(path));
    assert_string_equal(tenon_library_variant(module), HERE);
    assert_int_equal(tenon_module_hash(module, name, NULL), TENON_OK);
    assert_string_equal(name, plain); /* that of the baseline */
    refused(variant, "it is the " HERE " variant of kernels.so; load that instead, which chooses the variant");
    unlink(path);
    assert_int_equal(answer(open_ok(variant)), 2); /* without a baseline it is a library like any other */
}

static void test_a_new_build(void **state)
{
    (void)state;
    char path[NAME], variant[NAME], before[TENON_HASH_SIZE], after[TENON_HASH_SIZE];
    replace(built("answer_1.so"), fresh(path));
    beside(path, HERE, variant);
    replace(built("answer_1.so"), variant);
    const tenon_module *first = open_ok(path);
    assert_int_equal(answer(first), 1);
    assert_int_equal(tenon_module_hash(first, before, NULL), TENON_OK);
    replace(built("answer_2.so"), variant);
    const tenon_module *second = open_ok(path);
    assert_int_equal(answer(second), 2);
    assert_int_equal(answer(first), 1);  /* the old functions still work */
    replace(built("answer_2.so"), path); /* only the baseline is new */
    assert_true(open_ok(path) == second);
    assert_int_equal(tenon_module_hash(second, after, NULL), TENON_OK);
    assert_string_not_equal(before, after);
}

static void test_the_environment(void **state)
{
    (void)state;
    char path[NAME], variant[NAME], other[NAME];
    replace(built("answer_1.so"), fresh(path));
    beside(path, HERE, variant);
    beside(path, ELSEWHERE, other);
    replace(built("answer_2.so"), variant);
    setenv("TENON_VARIANT", "baseline", 1);
    assert_int_equal(answer(open_ok(path)), 1);
    setenv("TENON_VARIANT", HERE, 1);
    assert_int_equal(answer(open_ok(path)), 2);
    setenv("TENON_VARIANT", ELSEWHERE, 1); /* the library does not have it */
    assert_int_equal(answer(open_ok(path)), 1);
    replace(built("answer_2.so"), other);
    refused(path,
            "TENON_VARIANT is '" ELSEWHERE "', but this CPU does not have its instructions; unset it, or set it to "
            "baseline");
    setenv("TENON_VARIANT", "x86-64-v9", 1);
    refused(path, "TENON_VARIANT is 'x86-64-v9', which is not a variant; set it to baseline, x86-64-v2, x86-64-v3, "
                  "x86-64-v4, armv8.2-a or sve, or unset it");
    setenv("TENON_VARIANT", "", 1);
    assert_int_equal(answer(open_ok(path)), 2);
    unsetenv("TENON_VARIANT");
}

/* Linked with --wrap: the CPU has these variants, whatever the machine has. */
bool __real_tenon__cpu_has(const char *name);
bool __wrap_tenon__cpu_has(const char *name);
static const char *injected; /* NULL: those of the machine */

bool __wrap_tenon__cpu_has(const char *name)
{
    return injected ? strstr(injected, name) != NULL : __real_tenon__cpu_has(name);
}

static void test_a_variant_newer_than_the_cpu(void **state)
{
    (void)state;
    char path[NAME], newer[NAME], older[NAME];
    replace(built("answer_1.so"), fresh(path));
    beside(path, "x86-64-v4", newer);
    beside(path, "x86-64-v3", older);
    replace(built("no_module.so"), newer); /* it is not opened: its instructions would end the process */
    injected = "x86-64-v2 x86-64-v3";
    assert_int_equal(answer(open_ok(path)), 1);
    setenv("TENON_VARIANT", "x86-64-v4", 1);
    refused(path, "TENON_VARIANT is 'x86-64-v4', but this CPU does not have its instructions; unset it, or set it to "
                  "baseline");
    setenv("TENON_VARIANT", "baseline", 1);
    assert_int_equal(answer(open_ok(path)), 1);
    unsetenv("TENON_VARIANT");
    replace(built("answer_2.so"), older); /* the newest one that the CPU has */
    const tenon_module *module = open_ok(path);
    assert_int_equal(answer(module), 2);
    assert_string_equal(tenon_library_variant(module), "x86-64-v3");
    injected = NULL;
}

static void test_bad_variants(void **state)
{
    (void)state;
    char path[NAME], variant[NAME];
    replace(built("answer_1.so"), fresh(path));
    beside(path, HERE, variant);
    replace(built("no_module.so"), variant);
    refused(path,
            "its variant kernels." HERE
            ".so: it has no tenon_module_v1(): it is not a library of Tenon functions; define them with TENON_MODULE");
    replace(built("answer_2.so"), variant);
    assert_int_equal(truncate(variant, 1000), 0);
    const tenon_module *module = NULL;
    assert_int_equal(tenon_library_open(path, &module, &err), TENON_EINVAL);
    assert_non_null(strstr(err.message, "its variant kernels." HERE ".so: "));
    replace(built("constructor.so"), variant);
    assert_int_equal(tenon_library_open(path, &module, &err), TENON_EINVAL);
    assert_non_null(strstr(err.message, "build both from one source"));
    unlink(variant);
    assert_int_equal(mkdir(variant, 0755), 0);
    assert_int_equal(tenon_library_open(path, &module, &err), TENON_EFAILED);
    assert_int_equal(errno, EISDIR);
    assert_int_equal(err.os_error, EISDIR);
    assert_null(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_variant_is_used), cmocka_unit_test(test_a_new_build),
        cmocka_unit_test(test_the_environment),     cmocka_unit_test(test_a_variant_newer_than_the_cpu),
        cmocka_unit_test(test_bad_variants),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#else
int main(void)
{
    return 0;
}
#endif
