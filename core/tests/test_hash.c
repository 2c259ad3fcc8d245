/* The hash of a file's content. */
#include "check.h"

#include "../src/library/internal.h"

static void test_hash(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t a, b;
    } known[] = {{"", 0, 0},
                 {"hello", 0xcbd8a7b341bd9b02u, 0x5b1e906a48ae1d19u},
                 {"The quick brown fox jumps over the lazy dog", 0xe34bbc7bbc071b6cu, 0x7a433ca9c49a9347u}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t length = strlen(known[i].text);
        for (size_t first = 0; first <= length; first += 16) { /* in pieces too */
            tenon__hash hash = {0, 0, 0};
            tenon__hash_add(&hash, known[i].text, first);
            tenon__hash_add(&hash, known[i].text + first, length - first);
            tenon__hash_end(&hash);
            assert_true(hash.a == known[i].a && hash.b == known[i].b && hash.length == length);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
