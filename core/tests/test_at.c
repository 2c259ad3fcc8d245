/* tenon_at in a file that is compiled with -DTENON_CHECK_INDICES: it prints and aborts. */
#define TENON_CHECK_INDICES
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static float data[6] = {0, 1, 2, 3, 4, 5};

static double read_at(const tenon_view *view, int mistake)
{
    switch (mistake) {
    case 1:
        return tenon_at(view, float, 1);
    case 2:
        return tenon_at(view, double, 1, 2);
    case 3:
        return tenon_at(view, float, 2, 0);
    case 4:
        return tenon_at(view, float, 0, -1);
    default:
        return tenon_at(view, float, 1, 2);
    }
}

/* What the mistake prints before it aborts, in another process. */
static void dies_saying(const tenon_view *view, int mistake, const char *message)
{
    int ends[2], status = 0;
    char said[256];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka's handler would end the test, not the process */
        dup2(ends[1], 2);
        volatile double value = read_at(view, mistake);
        _exit(value > 1e9);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], said, sizeof said - 1);
    close(ends[0]);
    said[length > 0 ? length : 0] = '\0';
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_string_equal(said, message);
}

static void test_at(void **state)
{
    (void)state;
    roomy_view room;
    const tenon_view *view = view_of(&room, data, TENON_F32, 2, DIMS(2, 3), NULL);
    assert_true(read_at(view, 0) == 5);
    dies_saying(view, 1, "tenon_at(): 1 indices for a tensor with 2 dimensions\n");
    dies_saying(view, 2, "tenon_at(): a type of 8 bytes for elements of 32 bits\n");
    dies_saying(view, 3, "tenon_at(): index 2 is outside dimension 0, which has 2 elements\n");
    dies_saying(view, 4, "tenon_at(): index -1 is outside dimension 1, which has 3 elements\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_at)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
