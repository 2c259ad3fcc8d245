/* The description of a signature's dimensions: every kind, and code that means what the signature means. */
#include "random.h"
#include "signature_call.h"

/* The dimension in one line, its code in postfix order: "expression `n + 1`: n 1 +". */
static void describe(const tenon_signature *s, int32_t item, int32_t index, char *text, size_t size)
{
    static const char *const kinds[] = {"any", "number", "name", "star", "expression", "unknown"};
    static const char *const signs[] = {"+", "-", "*", "//"};
    tenon_dimension dim;
    memset(&dim, 0xa5, sizeof dim); /* nothing may rely on what was there */
    OK(tenon_signature_dim(s, item, index, &dim, &err));
    size_t used = (size_t)snprintf(text, size, "%s `%.*s`", kinds[dim.kind], dim.length, dim.text);
    for (int32_t i = 0; i < dim.ncode; i++) {
        const tenon_dimension_op *op = &dim.code[i];
        assert_int_equal(op->kind == TENON_OP_NAME, op->slot >= 0);
        used += (size_t)snprintf(text + used, size - used, "%s", i ? " " : ": ");
        if (op->kind == TENON_OP_NUMBER)
            used += (size_t)snprintf(text + used, size - used, "%lld", (long long)op->number);
        else if (op->kind == TENON_OP_NAME)
            used += (size_t)snprintf(text + used, size - used, "%s", s->names.dims[op->slot]);
        else
            used += (size_t)snprintf(text + used, size - used, "%s", signs[op->kind - TENON_OP_ADD]);
    }
    if (dim.kind == TENON_DIM_NUMBER)
        assert_int_equal(dim.number, dim.code[0].number);
    if (dim.kind == TENON_DIM_NAME)
        assert_int_equal(dim.slot, dim.code[0].slot);
    if (dim.kind == TENON_DIM_STAR)
        snprintf(text + used, size - used, ": *%s", s->names.stars[dim.slot]);
    assert_int_equal(dim.kind == TENON_DIM_NAME || dim.kind == TENON_DIM_STAR, dim.slot >= 0);
}

static void is(const tenon_signature *s, int32_t item, int32_t index, const char *expected)
{
    char text[1024];
    describe(s, item, index, text, sizeof text);
    assert_string_equal(text, expected);
}

static void test_kinds(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(m: int, x: f32[_, 007, n , *b, n+1], y: T[(k), (3)]) -> f32[], T[*b, ?, m]"
                                  " where T = real");
    is(s, 1, 0, "any `_`");
    is(s, 1, 1, "number `007`: 7");
    is(s, 1, 2, "name `n`: n");
    is(s, 1, 3, "star `*b`: *b");
    is(s, 1, 4, "expression `n+1`: n 1 +");
    is(s, 2, 0, "name `(k)`: k");
    is(s, 2, 1, "number `(3)`: 3");
    is(s, 4, 0, "star `*b`: *b");
    is(s, 4, 1, "unknown `?`");
    is(s, 4, 2, "name `m`: m");
    done(&(call){.signature = s});
}

/* The text of an expression, and its code. */
static void compiles_to(const char *expression, const char *code)
{
    char text[512], expected[512];
    snprintf(text, sizeof text, "f(n: int, k: int, m: int) -> f32[%s, n, k, m]", expression);
    snprintf(expected, sizeof expected, "expression `%s`: %s", expression, code);
    tenon_signature *s = compiled(text);
    is(s, 3, 0, expected);
    done(&(call){.signature = s});
}

static void test_precedence(void **state)
{
    (void)state;
    compiles_to("n + k * m", "n k m * +");
    compiles_to("n * k + m", "n k * m +");
    compiles_to("(n + k) * m", "n k + m *");
    compiles_to("n - k - m", "n k - m -");
    compiles_to("n - (k - m)", "n k m - -");
    compiles_to("n // k // m", "n k // m //");
    compiles_to("n * k // m", "n k * m //");
    compiles_to("n // (k * m)", "n k m * //");
    compiles_to("2 * (n - 1) // 3 + 9223372036854775807", "2 n 1 - * 3 // 9223372036854775807 +");
    compiles_to("((n) + ((k)))", "n k +");
}

static void test_what_cannot_be_described(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(a: int, x: f32[n], y: f32[]) -> str, f32[n]");
    tenon_dimension dim, before;
    memset(&before, 0xa5, sizeof before);
    dim = before;
    FAILS_SAYING(TENON_EINVAL, "tenon_signature_dim(): argument 'signature' is NULL",
                 tenon_signature_dim(NULL, 0, 0, &dim, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_signature_dim(): argument 'out' is NULL",
                 tenon_signature_dim(s, 1, 0, NULL, &err));
    static const int32_t not_tensors[] = {-1, 0, 3, 5, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof not_tensors / sizeof *not_tensors; i++) {
        char message[128];
        snprintf(message, sizeof message, "tenon_signature_dim(): argument 'item': item %d of f() is not a tensor",
                 not_tensors[i]);
        FAILS_SAYING(TENON_EINVAL, message, tenon_signature_dim(s, not_tensors[i], 0, &dim, &err));
    }
    FAILS_SAYING(TENON_EINVAL, "tenon_signature_dim(): argument 'index': expected 0 to 0, got 1",
                 tenon_signature_dim(s, 1, 1, &dim, &err));
    FAILS_SAYING(TENON_EINVAL, "tenon_signature_dim(): argument 'index': expected 0 to 0, got -1",
                 tenon_signature_dim(s, 4, -1, &dim, &err));
    assert_int_equal(tenon_signature_dim(s, 2, 0, &dim, NULL), TENON_EINVAL); /* it has no dimensions */
    assert_memory_equal(&dim, &before, sizeof dim);
    done(&(call){.signature = s});
}

/* ------------------------------------------------------------------------------------- code means what it is read as */

/* A random expression; one level of parentheses for each level of `depth`. */
static size_t random_expression(char *text, size_t room, int depth)
{
    static const char *const atoms[] = {"n", "k", "m", "1", "2", "7", "4611686018427387904"};
    static const char *const signs[] = {" + ", "-", " * ", "//", " - ", "*"};
    size_t used = 0;
    int terms = 1 + below(3);
    for (int i = 0; i < terms; i++) {
        if (i)
            used += (size_t)snprintf(text + used, room - used, "%s", signs[below(6)]);
        if (depth && below(2)) {
            used += (size_t)snprintf(text + used, room - used, "(");
            used += random_expression(text + used, room - used, depth - 1);
            used += (size_t)snprintf(text + used, room - used, ")");
        } else {
            used += (size_t)snprintf(text + used, room - used, "%s", atoms[below(7)]);
        }
    }
    return used;
}

__extension__ typedef __int128 wide; /* no sum or product of two numbers of 64 bits overflows it */

/* What a host makes of the code. False: there is no value in 64 bits. */
static bool evaluate(const tenon_dimension *dim, const int64_t *dims, int64_t *value)
{
    wide stack[TENON_SPEC_CODE];
    int top = 0;
    for (int32_t i = 0; i < dim->ncode; i++) {
        const tenon_dimension_op *op = &dim->code[i];
        if (op->kind == TENON_OP_NUMBER || op->kind == TENON_OP_NAME) {
            stack[top++] = op->kind == TENON_OP_NUMBER ? op->number : dims[op->slot];
            continue;
        }
        assert_true(top >= 2);
        wide right = stack[--top], left = stack[--top], made = 0;
        if (op->kind == TENON_OP_ADD)
            made = left + right;
        else if (op->kind == TENON_OP_SUB)
            made = left - right;
        else if (op->kind == TENON_OP_MUL)
            made = left * right;
        else if (right == 0)
            return false;
        else
            made = left / right - (left % right != 0 && (left < 0) != (right < 0));
        if (made < INT64_MIN || made > INT64_MAX)
            return false;
        stack[top++] = made;
    }
    assert_int_equal(top, 1);
    *value = (int64_t)stack[0];
    return true;
}

static void test_code_gives_the_sizes_of_results(void **state)
{
    (void)state;
    int sizes = 0, negative = 0, without = 0;
    for (int round = 0; round < 20000; round++) {
        char expression[256], text[512];
        if (random_expression(expression, sizeof expression, 2) >= 200)
            continue;
        snprintf(text, sizeof text, "f(n: int, k: int, m: int) -> f32[%s, n, k, m]", expression);
        static const int64_t edges[] = {0, -1, 1, INT64_MAX, INT64_MIN, INT64_MAX / 2};
        tenon_value args[3];
        for (int i = 0; i < 3; i++)
            args[i] = INT(below(4) ? below(40) : edges[below(6)]);
        call c;
        fits(&c, text, args);
        tenon_dimension dim;
        OK(tenon_signature_dim(c.signature, 3, 0, &dim, &err));
        int64_t value = 0, shape[TENON_MAX_NDIM];
        bool known = evaluate(&dim, c.bindings.dims, &value);
        sizes += known && value >= 0;
        negative += known && value < 0;
        without += !known;
        tenon_dtype dtype;
        int32_t ndim;
        tenon_status status = tenon_signature_result(c.signature, 0, &c.bindings, &dtype, &ndim, shape, &err);
        if (!known)
            assert_int_equal(status, TENON_EOVERFLOW);
        else if (value < 0 || args[0].as.integer < 0 || args[1].as.integer < 0 || args[2].as.integer < 0)
            assert_int_equal(status, TENON_ESHAPE);
        else
            assert_true(status == TENON_OK && ndim == 4 && shape[0] == value);
        done(&c);
    }
    assert_true(sizes > 1000 && negative > 1000 && without > 1000); /* all of them were tried */
}

static void test_accessors(void **state)
{
    (void)state;
    tenon_signature *s = compiled("f(x: f32[n], k: int = 1, *, z: float) -> a: f32[n], b: int");
    assert_string_equal(s->name, "f");
    assert_string_equal(s->text, "f(x: f32[n], k: int = 1, *, z: float) -> a: f32[n], b: int");
    assert_int_equal(s->nparams, 3);
    assert_int_equal(s->npositional, 2);
    assert_int_equal(s->nrequired, 1);
    assert_int_equal(s->nresults, 2);
    assert_true(s->named_results);
    assert_string_equal(s->params[2].name, "z");
    assert_string_equal(s->results[1].name, "b");
    assert_int_equal(s->names.ndims, 1);
    tenon_signature_release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accessors),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_what_cannot_be_described),
        cmocka_unit_test(test_code_gives_the_sizes_of_results),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
