/* Modules by hand: what a host takes, whatever header they were compiled with, and what it refuses. */
#include "check.h"

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

static tenon_status other(tenon_call *call)
{
    (void)call;
    return TENON_EFAILED;
}

static const tenon_function functions[] = {
    TENON_FUNCTION("f()", nothing, "First."),
    TENON_FUNCTION_SHAPED("g() -> f32[?]", nothing, other, NULL, TENON_KEEP_LOCK)};

static tenon_module good(void)
{
    tenon_module module = {.magic = TENON_MAGIC,
                           .major = 1,
                           .minor_needed = 0,
                           .size = sizeof(tenon_module),
                           .function_size = sizeof(tenon_function),
                           .nfunctions = 2,
                           .functions = functions,
                           .name = "m"};
    return module;
}

#define BROKEN(what)                                                                                                   \
    FAILS_SAYING(TENON_EINVAL, "tenon_module_check(): the module is broken: " what, tenon_module_check(&module, &err))

static void test_a_good_module(void **state)
{
    (void)state;
    tenon_module module = good();
    tenon_function f;
    OK(tenon_module_check(&module, &err));
    tenon_module_function(&module, 0, &f);
    assert_string_equal(f.signature, "f()");
    assert_string_equal(f.doc, "First.");
    assert_ptr_equal(f.call, nothing);
    assert_null(f.shape);
    assert_int_equal(f.flags, 0);
    tenon_module_function(&module, 1, &f);
    assert_string_equal(f.signature, "g() -> f32[?]");
    assert_null(f.doc);
    assert_ptr_equal(f.shape, other);
    assert_int_equal(f.flags, TENON_KEEP_LOCK);
    assert_int_equal(f.reserved[0] + f.reserved[1], 0);
    module.nfunctions = 0;
    module.functions = NULL;
    OK(tenon_module_check(&module, &err));
}

static void test_magic(void **state)
{
    (void)state;
    tenon_module module = good();
    assert_memory_equal(&module.magic, "TENONMOD", 8);
    module.magic ^= 1;
    BROKEN("tenon_module_v1() did not return a Tenon module");
    FAILS_SAYING(TENON_EINVAL, "tenon_module_check(): the module is broken: tenon_module_v1() returned NULL",
                 tenon_module_check(NULL, &err));
    assert_int_equal(tenon_module_check(&module, NULL), TENON_EINVAL);
}

static void test_versions(void **state)
{
    (void)state;
    tenon_module module = good();
    static const uint32_t majors[] = {0, 2, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        char message[256];
        module.major = majors[i];
        snprintf(message, sizeof message,
                 "tenon_module_check(): it was compiled for version %u of the function ABI, but this host has version "
                 "1; compile it with "
                 "this host's tenon/function.h",
                 majors[i]);
        FAILS_SAYING(TENON_EVERSION, message, tenon_module_check(&module, &err));
    }
    module = good();
    module.minor_needed = TENON_ABI_MINOR;
    OK(tenon_module_check(&module, &err));
    module.minor_needed = 7;
    FAILS_SAYING(TENON_EVERSION,
                 "tenon_module_check(): it needs version 1.7 of the function ABI, but this host has 1.0; use a newer "
                 "host, or compile it with this host's tenon/function.h",
                 tenon_module_check(&module, &err));
    module.minor_needed = UINT32_MAX;
    FAILS(TENON_EVERSION, tenon_module_check(&module, &err));
    /* Of a newer major nothing but the version is understood. */
    module.major = 2;
    module.size = 0;
    module.functions = NULL;
    FAILS(TENON_EVERSION, tenon_module_check(&module, &err));
}

static void test_sizes(void **state)
{
    (void)state;
    /* A module of a newer header is longer; what stands behind is not looked at. */
    struct {
        tenon_module module;
        uint64_t more[4];
    } newer = {good(), {1, 2, 3, 4}};
    newer.module.size = sizeof newer;
    OK(tenon_module_check(&newer.module, &err));
    tenon_module module = good();
    static const uint32_t wrong[] = {0, 8, 87};
    for (size_t i = 0; i < 3; i++) {
        module.size = wrong[i];
        BROKEN("its size is too small for a module");
    }
    module = good();
    static const uint32_t odd[] = {0, 16, 23, 25, 60, 4104, UINT32_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        module.function_size = odd[i];
        BROKEN("its function_size is invalid");
    }
}

/* Two entries of `size` bytes, filled from `functions` as far as they go, and with rubbish behind. */
static void with_entries(uint32_t size, tenon_function out[2])
{
    uint64_t table[2 * 512];
    tenon_module module = good();
    memset(table, 0xa5, sizeof table);
    for (size_t i = 0; i < 2; i++)
        memcpy((char *)table + i * size, &functions[i], size < sizeof *functions ? size : sizeof *functions);
    module.functions = (const tenon_function *)(const void *)table;
    module.function_size = size;
    OK(tenon_module_check(&module, &err));
    memset(out, 0x5a, 2 * sizeof *out);
    tenon_module_function(&module, 0, &out[0]);
    tenon_module_function(&module, 1, &out[1]);
}

static void test_entries_of_other_headers(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {24, 32, 48, 64, 72, 128, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tenon_function got[2], wanted;
        with_entries(sizes[i], got);
        for (size_t k = 0; k < 2; k++) {
            memset(&wanted, 0, sizeof wanted); /* what an entry does not have is 0 */
            memcpy(&wanted, &functions[k], sizes[i] < sizeof wanted ? sizes[i] : sizeof wanted);
            assert_memory_equal(&got[k], &wanted, sizeof wanted);
        }
    }
}

static void test_what_must_be_there(void **state)
{
    (void)state;
    tenon_module module = good();
    module.name = NULL;
    BROKEN("it has no name");
    module = good();
    module.functions = NULL;
    BROKEN("its table of functions is invalid");
    module = good();
    module.nfunctions = -1;
    BROKEN("its table of functions is invalid");
    module.nfunctions = INT64_MAX;
    BROKEN("its table of functions is invalid");
    tenon_function table[2] = {functions[0], functions[1]};
    module = good();
    module.functions = table;
    table[1].call = NULL;
    BROKEN("function 1 has no code");
    table[0].signature = NULL;
    BROKEN("function 0 has no signature");
    table[0] = functions[0];
    table[1] = functions[1];
    table[0].doc = NULL;
    OK(tenon_module_check(&module, &err));
}

/* The macros, as a library uses them. */
#undef TENON_MODULE_VERSION
#define TENON_MODULE_VERSION "2.3"

static tenon_status load(tenon_call *call, void **state)
{
    (void)call;
    *state = NULL;
    return TENON_OK;
}

static void unload(void *state)
{
    (void)state;
}

TENON_MODULE_STATE(written, "A module.", load, unload, TENON_FUNCTION("f()", nothing, "First."),
                   TENON_FUNCTION_FLAGS("h(a: int)", other, "Third.", TENON_RELEASE_LOCK | TENON_NO_GRAD_CHECK))

static void test_macros(void **state)
{
    (void)state;
    const tenon_module *module = tenon_module_v1();
    tenon_function f;
    OK(tenon_module_check(module, &err));
    assert_int_equal(module->major, TENON_ABI_MAJOR);
    assert_int_equal(module->minor_needed, TENON_ABI_MINOR);
    assert_int_equal(module->size, sizeof *module);
    assert_int_equal(module->function_size, 64);
    assert_int_equal(module->nfunctions, 2);
    assert_string_equal(module->name, "written");
    assert_string_equal(module->doc, "A module.");
    assert_string_equal(module->version, "2.3");
    assert_ptr_equal(module->load, load);
    assert_ptr_equal(module->unload, unload);
    assert_int_equal(module->flags, 0);
    tenon_module_function(module, 1, &f);
    assert_ptr_equal(f.call, other);
    assert_null(f.data);
    assert_int_equal(f.flags, TENON_RELEASE_LOCK | TENON_NO_GRAD_CHECK);
    assert_string_equal(TENON_MODULE_SYMBOL, "tenon_module_v1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_good_module),
        cmocka_unit_test(test_magic),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_entries_of_other_headers),
        cmocka_unit_test(test_what_must_be_there),
        cmocka_unit_test(test_macros),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
