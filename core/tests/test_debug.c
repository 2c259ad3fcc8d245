/* TENON_DEBUG: this program runs itself again under it, and reads what that one says and how it ends. */
#define _DEFAULT_SOURCE
#define TENON_ORIGINS
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *self;

/* --------------------------------------------------------------------------------------------- what the child does */

static void require(bool condition)
{
    if (!condition)
        _exit(99);
}

static tenon_tensor *made_here(void)
{
    tenon_tensor *t = NULL;
    require(tenon_tensor_alloc(TENON_U8, 0, NULL, 0, &t, NULL) == TENON_OK);
    return t;
}

static void *make_and_release(void *unused)
{
    for (;;)
        tenon_tensor_release(made_here());
    return unused;
}

/* Children that are forked while another thread makes tensors: each must be able to make one too. */
static int fork_while_busy(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, make_and_release, NULL) == 0);
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            tenon_tensor_release(made_here());
            _exit(0);
        }
        int status;
        require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    _exit(0);
}

static int act(const char *part)
{
    int64_t shape[] = {2, 3};
    tenon_tensor *t = NULL, *line = NULL;
    enum { MADE_BEFORE = __LINE__ };
    require(tenon_tensor_alloc(TENON_F32, 2, shape, 0, &t, NULL) == TENON_OK);
    require(tenon_tensor_select(t, 0, 1, &line, NULL) == TENON_OK);
    if (strcmp(part, "lines") == 0)
        printf("%d", MADE_BEFORE);
    if (strcmp(part, "leak") == 0) {
        tenon_tensor_retain(t);
        return 0;
    }
    tenon_tensor_release(line);
    tenon_tensor_release(t);
    if (strcmp(part, "release") == 0)
        tenon_tensor_release(t);
    if (strcmp(part, "retain") == 0)
        tenon_tensor_retain(line);
    if (strcmp(part, "many") == 0) /* more than are kept, and larger */
        for (int64_t i = 0; i < 1000; i++) {
            require(tenon_tensor_alloc(TENON_U8, 1, &(int64_t){i * 1000}, 0, &t, NULL) == TENON_OK);
            tenon_tensor_release(t);
        }
    if (strcmp(part, "nested") == 0) /* the inner call makes a tensor of its own */
        require(tenon_tensor_flatten(made_here(), &line, NULL) == TENON_OK);
    if (strcmp(part, "stale") == 0) {
        require(tenon_tensor_alloc(TENON_U8, -1, NULL, 0, &t, NULL) == TENON_ESHAPE);
        part = "untold"; /* is not said to be made by the call that failed */
    }
    if (strcmp(part, "fork") == 0)
        return fork_while_busy();
    if (strcmp(part, "untold") == 0) /* as from code without TENON_ORIGINS */
        require((tenon_tensor_alloc)(TENON_U8, 0, NULL, 0, &t, NULL) == TENON_OK);
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- its parent */

typedef struct outcome {
    int status;
    char text[2000];
} outcome;

static outcome run(const char *debug, const char *part)
{
    char command[1000];
    outcome result = {0, ""};
    /* Leaks are the point of some children, and no news to a sanitizer. */
    snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0 TENON_DEBUG=%s exec '%s' %s 2>&1", debug, self,
             part);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(result.text, 1, sizeof result.text - 1, pipe);
    result.text[length] = '\0';
    result.status = pclose(pipe);
    return result;
}

/* "test_debug.c:N" of the first or second tensor that the child makes. */
static const char *place(int which)
{
    static char text[2][64];
    int before = atoi(run("0", "lines").text);
    snprintf(text[which], sizeof text[which], "test_debug.c:%d", before + 1 + which);
    return text[which];
}

static void assert_says(const outcome *result, const char *text)
{
    if (!strstr(result->text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, result->text);
}

static void report_at_exit(void **state)
{
    (void)state;
    outcome result = run("1", "leak");
    assert_true(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0);
    assert_says(&result, "tenon: 2 tensors still alive at exit\n");
    assert_says(&result, "  f32[3], 12 bytes, count 1, created at ");
    assert_says(&result, place(1));
    assert_says(&result, "  f32[2, 3], 24 bytes, count 3, created at ");
    assert_says(&result, place(0));
}

static void silence(void **state)
{
    (void)state;
    outcome result = run("0", "leak");
    assert_string_equal(result.text, "");
    result = run("1", "nothing");
    assert_string_equal(result.text, "");
    assert_int_equal(result.status, 0);
    result = run("1", "many");
    assert_string_equal(result.text, "");
    assert_int_equal(result.status, 0);
}

/* The child ends by abort, or by a sanitizer that was told of it. */
static void assert_stopped(const outcome *result)
{
    assert_false(WIFEXITED(result->status) && WEXITSTATUS(result->status) == 0);
    assert_false(WIFEXITED(result->status) && WEXITSTATUS(result->status) == 99);
}

static void released_too_often(void **state)
{
    (void)state;
    outcome result = run("1", "release");
    assert_stopped(&result);
    assert_says(&result, "tenon: tenon_tensor_release(): f32[2, 3] created at ");
    assert_says(&result, place(0));
    assert_says(&result, " was released too many times\n");
    result = run("1", "retain");
    assert_stopped(&result);
    assert_says(&result, "tenon: tenon_tensor_retain(): f32[3] created at ");
    assert_says(&result, place(1));
}

static void unknown_origin(void **state)
{
    (void)state;
    outcome result = run("1", "untold");
    assert_says(&result, "  u8[], 1 bytes, count 1, created at an unknown place\n");
}

static void origins_of_nested_calls(void **state)
{
    (void)state;
    outcome result = run("1", "nested");
    assert_says(&result, "tenon: 2 tensors still alive at exit\n");
    assert_null(strstr(result.text, "unknown"));
    result = run("1", "stale");
    assert_says(&result, "created at an unknown place\n");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

static void forks_are_not_held_up(void **state)
{
    (void)state;
    if (SANITIZED) /* their own allocators do not survive such a fork */
        skip();
    outcome result = run("1", "fork");
    assert_string_equal(result.text, "");
    assert_int_equal(result.status, 0);
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1)
        return act(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_at_exit),          cmocka_unit_test(silence),
        cmocka_unit_test(released_too_often),      cmocka_unit_test(unknown_origin),
        cmocka_unit_test(origins_of_nested_calls), cmocka_unit_test(forks_are_not_held_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
