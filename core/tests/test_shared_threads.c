/* Threads that attach to one shared tensor, view it, freeze it, seal it and release it. Meant for ThreadSanitizer as well. */
#define _GNU_SOURCE
#include "shared_tensors.h"

#ifdef __linux__

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ELEMENTS = 100 };

static atomic_int failures, unmapped; /* cmocka's assertions may not be used off the main thread */

static void expect(bool condition)
{
    if (!condition)
        atomic_fetch_add(&failures, 1);
}

static void count_unmapped(void *unused)
{
    (void)unused;
    atomic_fetch_add(&unmapped, 1);
}

/* One tensor that all threads use, and one whose memory they attach to. */
typedef struct pair {
    tenon_tensor *used, *attached_to;
} pair;

static float sum_of(const tenon_tensor *tensor)
{
    float sum = 0;
    for (int64_t i = 0; i < tenon_tensor_view(tensor)->numel; i++)
        sum += data_of(tensor)[i];
    return sum;
}

/* Read a view and an export; the last one of all threads to release it unmaps the memory. */
static void use(tenon_tensor *tensor)
{
    tenon_tensor *view;
    tenon_dl_managed *managed;
    char name[TENON_SHARED_NAME_SIZE];
    int fd;
    expect(tenon_shared_fd(tensor, &fd, NULL) == TENON_OK && tenon_shared_name(tensor, name, NULL) == TENON_OK);
    if (tenon_tensor_slice(tensor, 0, 10, 20, 1, &view, NULL) == TENON_OK) {
        expect(sum_of(view) == 0.0f && tenon_shared_fd(view, &fd, NULL) == TENON_EINVAL);
        tenon_tensor_release(view);
    } else {
        expect(false);
    }
    if (tenon_tensor_export(tensor, &managed, NULL) == TENON_OK)
        managed->deleter(managed);
    else
        expect(false);
    tenon_tensor_release(tensor);
}

/* Attach, freeze the attachment, and read it: several threads freeze the same memory at the same time. */
static void attach_and_freeze(const tenon_tensor *tensor)
{
    char name[TENON_SHARED_NAME_SIZE];
    tenon_tensor *by_fd = NULL, *by_name = NULL;
    int fd = -1;
    expect(tenon_shared_fd(tensor, &fd, NULL) == TENON_OK && tenon_shared_name(tensor, name, NULL) == TENON_OK);
    expect(tenon_shared_attach(fd, &by_fd, NULL) == TENON_OK &&
           tenon_shared_attach_name(name, &by_name, NULL) == TENON_OK);
    if (by_fd && by_name) {
        expect(sum_of(by_fd) == 0.0f && sum_of(by_name) == 0.0f);
        tenon_status status = tenon_shared_freeze(by_fd, NULL);
        expect(status == TENON_OK && read_only(by_fd));
        expect(tenon_shared_watch(by_fd, NULL, count_unmapped, NULL) == TENON_OK);
    }
    tenon_tensor_release(by_fd);
    tenon_tensor_release(by_name);
}

static void *run(void *argument)
{
    const pair *tensors = argument;
    attach_and_freeze(tensors->attached_to);
    use(tensors->used);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    int rounds = getenv("TENON_VALGRIND") ? 3 : 200;
    atomic_store(&unmapped, 0);
    for (int round = 0; round < rounds; round++) {
        pair tensors = {shared(1, DIMS(ELEMENTS)), shared(1, DIMS(ELEMENTS))};
        OK(tenon_shared_watch(tensors.used, NULL, count_unmapped, &err));
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            tenon_tensor_retain(tensors.used);
            assert_int_equal(pthread_create(&threads[i], NULL, run, &tensors), 0);
        }
        tenon_tensor_release(tensors.used); /* the threads have the rest */
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(read_only(tensors.attached_to));
        OK(tenon_shared_freeze(tensors.attached_to, &err));
        tenon_tensor_release(tensors.attached_to);
    }
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(atomic_load(&unmapped), rounds * (THREADS + 1));
}

typedef struct sealing {
    tenon_tensor *tensor;
    atomic_bool begun, done;
} sealing;

static void *read_and_view(void *argument)
{
    sealing *s = argument;
    do {
        tenon_tensor *view;
        tenon_view copy = *tenon_tensor_view(s->tensor);
        if (copy.numel != 4 || tenon_tensor_slice(s->tensor, 0, 0, 2, 1, &view, NULL))
            return s;
        tenon_tensor_release(view);
        atomic_store(&s->begun, true);
    } while (!atomic_load(&s->done));
    return NULL;
}

/* Under ThreadSanitizer, which sees that the call writes to nothing that the other thread reads. */
static void test_sealing_while_another_thread_reads(void **state)
{
    (void)state;
    sealing s = {shared(1, DIMS(4)), false, false};
    pthread_t reader;
    void *failed;
    assert_int_equal(pthread_create(&reader, NULL, read_and_view, &s), 0);
    while (!atomic_load(&s.begun))
        ;
    OK(tenon_shared_seal(s.tensor, &err));
    atomic_store(&s.done, true);
    assert_int_equal(pthread_join(reader, &failed), 0);
    assert_null(failed);
    tenon_tensor_release(s.tensor);
}

/* -------------------------------------------------------------------------------------------------- large memory */

enum { LARGE = 64 << 20 };

static atomic_bool is_held;  /* threads that unmap wait until it is false */
static atomic_int admitted;  /* but so many of them go on */
static atomic_int naps;      /* how often another thread than the main one has slept */
static atomic_int elsewhere; /* how often memory was unmapped by another thread than the main one */
static pthread_t main_thread;

/* The core calls this one. */
int munmap(void *map, size_t size)
{
    if (size > LARGE && !pthread_equal(pthread_self(), main_thread)) {
        while (atomic_load(&is_held) && atomic_fetch_sub(&admitted, 1) <= 0) {
            atomic_fetch_add(&admitted, 1);
            sched_yield();
        }
        atomic_fetch_add(&elsewhere, 1);
    }
    return (int)syscall(SYS_munmap, map, size);
}

/* And this one, while a new tensor waits. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&naps, 1);
    return (int)syscall(SYS_nanosleep, time, left);
}

static int count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    while (fgets(line, sizeof line, file))
        count += strstr(line, "memfd:tenon") != NULL;
    fclose(file);
    return count;
}

static void *let_go_later(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&is_held, false);
    return NULL;
}

/* Whoever releases it may have a lock for which all other threads wait. */
static void test_large_memory_is_unmapped_by_another_thread(void **state)
{
    (void)state;
    if (getenv("TENON_VALGRIND")) /* it reports the stack of a detached thread that has not ended yet */
        return;
    atomic_store(&is_held, true);
    tenon_tensor *tensor = shared(2, DIMS(LARGE / 4, 1));
    int fd = descriptor(tensor);
    tenon_tensor_release(tensor);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(count_mappings(), 1);
    pid_t child = fork();
    if (child == 0) { /* has neither the memory nor the thread, and does not wait for it */
        bool clean = count_mappings() == 0;
        tensor = shared(2, DIMS(LARGE / 4, 1));
        _exit(clean && tensor ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    /* Small memory does not wait; large memory does, so that both do not count at once. */
    tensor = shared(1, DIMS(4));
    assert_int_equal(count_mappings(), 2);
    tenon_tensor_release(tensor);
    assert_int_equal(atomic_load(&elsewhere), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, NULL), 0);
    tensor = shared(2, DIMS(LARGE / 4, 1));
    assert_int_equal(atomic_load(&elsewhere), 1);
    assert_int_equal(count_mappings(), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    tenon_tensor_release(tensor);
    while (count_mappings() > 0)
        sched_yield();
}

static void *create_large(void *created)
{
    tenon_tensor *tensor = NULL;
    expect(tenon_shared_zeros(TENON_F32, 1, DIMS(LARGE / 4), &tensor, NULL) == TENON_OK);
    tenon_tensor_release(tensor);
    atomic_store((atomic_bool *)created, true);
    return NULL;
}

/* Memory that is released while it waits does not make it wait longer. */
static void test_a_new_tensor_waits_for_earlier_releases_only(void **state)
{
    (void)state;
    enum { MANY_NAPS = 2000 };
    if (getenv("TENON_VALGRIND"))
        return;
    atomic_store(&naps, 0);
    tenon_tensor *earlier = shared(1, DIMS(LARGE / 4)), *later = shared(1, DIMS(LARGE / 4));
    atomic_store(&is_held, true);
    tenon_tensor_release(earlier);
    atomic_bool created = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, create_large, &created), 0);
    while (atomic_load(&naps) == 0)
        sched_yield();
    tenon_tensor_release(later);
    atomic_store(&admitted, 1);
    while (!atomic_load(&created) && atomic_load(&naps) < MANY_NAPS)
        sched_yield();
    bool waited_for_later = !atomic_load(&created);
    atomic_store(&is_held, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(waited_for_later);
    assert_int_equal(atomic_load(&failures), 0);
    while (count_mappings() > 0)
        sched_yield();
}

int main(void)
{
    main_thread = pthread_self(); /* before any other thread reads it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sealing_while_another_thread_reads),
        cmocka_unit_test(test_large_memory_is_unmapped_by_another_thread),
        cmocka_unit_test(test_a_new_tensor_waits_for_earlier_releases_only),
        cmocka_unit_test(test_nothing_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
