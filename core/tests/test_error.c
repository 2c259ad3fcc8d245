/* What a tenon_error says: its message, and the function that it is about. */
#include "signature_call.h"

static void test_error_set(void **state)
{
    (void)state;
    assert_int_equal(tenon_error_set(NULL, TENON_EBOUNDS, "%d", 1), TENON_EBOUNDS);
    assert_int_equal(tenon_error_set(&err, TENON_EDTYPE, "%s is %d", "x", 3), TENON_EDTYPE);
    assert_int_equal(err.status, TENON_EDTYPE);
    assert_string_equal(err.message, "x is 3");
    assert_int_equal(tenon_error_set(&err, TENON_OK, "%s", ""), TENON_OK);
    assert_string_equal(err.message, "");
}

static void test_long_messages_are_cut_off(void **state)
{
    (void)state;
    static char text[2000];
    for (int length = 1006; length <= 1009; length++) {
        memset(text, 'x', sizeof text);
        text[length] = '\0';
        assert_int_equal(tenon_error_set(&err, TENON_EINVAL, "%s", text), TENON_EINVAL);
        if (length > 1007)
            memcpy(text + 1004, "...", 4);
        assert_string_equal(err.message, text);
    }
}

/* A message that is cut still ends with a whole character. */
static void test_messages_are_cut_between_characters(void **state)
{
    (void)state;
    tenon_error e;
    char text[2000];
    for (int shift = 0; shift < 3; shift++) {
        memset(text, 'x', sizeof text);
        for (size_t i = (size_t)shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 3);
        text[sizeof text - 1] = '\0';
        tenon_error_set(&e, TENON_EINVAL, "%s", text);
        size_t length = strlen(e.message);
        assert_string_equal(e.message + length - 3, "...");
        assert_int_equal((length - 3 - (size_t)shift) % 3, 0);
    }
}

/* A caller adds a word of its own to the message that is there. */
static void test_messages_can_be_wrapped(void **state)
{
    (void)state;
    tenon_error e;
    assert_int_equal(tenon_error_set(&e, TENON_EINVAL, "no %s", "luck"), TENON_EINVAL);
    assert_int_equal(tenon_error_set(&e, e.status, "loading x: %s", e.message), TENON_EINVAL);
    assert_string_equal(e.message, "loading x: no luck");
}

/* The error is about this function, for this reason; a copy of it says the same. */
static void is_about(const tenon_error *e, const char *function, const char *reason)
{
    tenon_error copy = *e;
    char message[sizeof e->message];
    snprintf(message, sizeof message, "%s(): %s", function, reason);
    assert_string_equal(e->function, function);
    assert_string_equal(e->message, message);
    assert_string_equal(tenon_error_reason(e), reason);
    assert_ptr_equal(tenon_error_reason(e), e->message + strlen(function) + 4);
    assert_ptr_equal(tenon_error_reason(&copy), copy.message + strlen(function) + 4);
}

static void test_errors_have_the_name_of_the_function(void **state)
{
    (void)state;
    static const char saxpy[] = "saxpy";
    tenon_view view;
    tenon_error e;
    tenon_dtype dtype;
    assert_int_equal(tenon_error_set_in(NULL, TENON_EBOUNDS, saxpy, "%d", 1), TENON_EBOUNDS);
    assert_int_equal(tenon_error_set_in(&e, TENON_EBOUNDS, saxpy, "%s(): %d", "no", 1), TENON_EBOUNDS);
    assert_int_equal(e.status, TENON_EBOUNDS);
    assert_ptr_equal(e.function, saxpy);
    is_about(&e, "saxpy", "no(): 1");
    assert_int_equal(tenon_dtype_parse(NULL, &dtype, &e), TENON_EINVAL);
    is_about(&e, "tenon_dtype_parse", "argument 'text' is NULL");
    assert_int_equal(tenon_view_init(&view, NULL, 0, NULL, &e), TENON_EINVAL);
    is_about(&e, "tenon_view_init", "argument 'source' is NULL");
    tenon_signature *signature;
    assert_int_equal(tenon_signature_alloc("f(", NULL, TENON_HOST_LAYOUT, NULL, &e), TENON_EINVAL);
    is_about(&e, "tenon_signature_alloc", "argument 'out' is NULL");
    assert_int_equal(tenon_signature_alloc("f(x: f32[n])", NULL, TENON_HOST_LAYOUT, &signature, &e), TENON_OK);
    tenon_bindings bindings;
    tenon_value none = {0};
    assert_int_equal(match(signature, &none, NULL, &bindings, &e), TENON_EINVAL);
    assert_string_equal(e.function, "f");
    assert_ptr_equal(tenon_error_reason(&e), e.message + strlen("f(): "));
    tenon_signature_release(signature);
}

/* Without a function's name the reason is the whole message, even if it looks like one. */
static void test_errors_without_a_function(void **state)
{
    (void)state;
    tenon_error e;
    tenon_error_set_in(&e, TENON_EINVAL, "f", "no");
    tenon_error_set(&e, TENON_EINVAL, "g(): no");
    assert_null(e.function);
    assert_ptr_equal(tenon_error_reason(&e), e.message);
    tenon_error_set_in(&e, TENON_EINVAL, NULL, "g(): no");
    assert_null(e.function);
    assert_string_equal(e.message, "g(): no");
    assert_ptr_equal(tenon_error_reason(&e), e.message);
}

/* A message that is cut has its reason as long as the name is whole. */
static void test_reasons_of_long_messages(void **state)
{
    (void)state;
    static char text[2000];
    tenon_error e;
    memset(text, 'x', sizeof text - 1);
    tenon_error_set_in(&e, TENON_EINVAL, "f", "%s", text);
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
    assert_string_equal(e.message + strlen(e.message) - 3, "...");
    assert_ptr_equal(tenon_error_reason(&e), e.message + strlen("f(): "));
    for (size_t length = sizeof e.message - 12; length < sizeof e.message + 8; length++) {
        memset(text, 'f', sizeof text - 1);
        text[length] = '\0';
        tenon_error_set_in(&e, TENON_EINVAL, text, "no");
        bool whole = length + strlen("(): no") < sizeof e.message;
        assert_true(tenon_error_reason(&e) == e.message ||
                    tenon_error_reason(&e) == e.message + length + strlen("(): "));
        assert_true(tenon_error_reason(&e) <= e.message + strlen(e.message));
        if (whole)
            assert_string_equal(tenon_error_reason(&e), "no");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_set),
        cmocka_unit_test(test_long_messages_are_cut_off),
        cmocka_unit_test(test_messages_are_cut_between_characters),
        cmocka_unit_test(test_messages_can_be_wrapped),
        cmocka_unit_test(test_errors_have_the_name_of_the_function),
        cmocka_unit_test(test_errors_without_a_function),
        cmocka_unit_test(test_reasons_of_long_messages),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
