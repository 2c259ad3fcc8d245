/* Python embedded in a C program: tensors that outlive their interpreter. Each scenario returns 0 and prints nothing,
 * or prints what went wrong. */
#define PY_SSIZE_T_CLEAN
#include <tenon/python.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A tensor on a bytearray that nothing else refers to. */
static tenon_tensor *import_new(void)
{
    PyObject *object = PyByteArray_FromStringAndSize("0123456789abcdef", 16);
    CHECK(object);
    tenon_tensor *tensor = tenon_py_import(object, 0);
    CHECK(tensor);
    Py_DECREF(object);
    return tensor;
}

static void *release(void *tensor)
{
    tenon_tensor_release(tensor);
    return NULL;
}

static void release_elsewhere(tenon_tensor *tensor)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, release, tensor) == 0);
    pthread_join(thread, NULL);
}

static void check_memory(const tenon_tensor *tensor)
{
    CHECK(memcmp(tenon_tensor_view(tensor)->data, "0123456789abcdef", 16) == 0);
}

/* Tensors that are released after the interpreter has ended, by this thread, by another one, and by a consumer's
 * deleter: the references are leaked and counted. */
static void after(void)
{
    Py_Initialize();
    tenon_tensor *first = import_new(), *second = import_new(), *third = import_new();
    tenon_dl_managed *managed = NULL;
    CHECK(tenon_tensor_export(third, &managed, NULL) == TENON_OK);
    tenon_tensor_release(third);
    tenon_tensor_release(import_new());
    CHECK(tenon_py_leaked() == 0);
    Py_Finalize();
    check_memory(first);
    tenon_tensor_release(first);
    CHECK(tenon_py_leaked() == 1);
    check_memory(second);
    release_elsewhere(second);
    CHECK(tenon_py_leaked() == 2);
    managed->deleter(managed);
    CHECK(tenon_py_leaked() == 3);
    CHECK(tenon_stats_read().tensors == 0 && tenon_stats_read().exports == 0);
}

/* The interpreter is started again: references of the first one are not released in the second. */
static void again(void)
{
    for (int life = 0; life < 3; life++) {
        Py_Initialize();
        tenon_tensor *tensor = import_new();
        Py_Finalize();
        Py_Initialize();
        tenon_tensor *other = import_new();
        tenon_tensor_release(tensor);
        CHECK(tenon_py_leaked() == life + 1);
        release_elsewhere(other);
        PyObject *object = tenon_py_export(import_new(), TENON_PY_AS_TENSOR);
        CHECK(object && Py_TYPE(object) == tenon_py_type());
        tenon_py_borrowed borrowed;
        CHECK(tenon_py_borrow(object, 0, &borrowed) == 0);
        tenon_tensor_release(borrowed.private_.held.tensor); /* the count from import_new */
        tenon_py_unborrow(&borrowed);
        Py_DECREF(object);
        CHECK(tenon_stats_read().deferred == 0);
        Py_Finalize();
        CHECK(tenon_py_leaked() == life + 1);
    }
    CHECK(tenon_stats_read().tensors == 0);
}

/* Tensors that are released while the interpreter shuts down: by objects that die with it, and by its atexit
 * functions. */
static void during(void)
{
    Py_Initialize();
    PyObject *object = tenon_py_export(import_new(), TENON_PY_AS_TENSOR);
    CHECK(object);
    tenon_py_borrowed borrowed;
    CHECK(tenon_py_borrow(object, 0, &borrowed) == 0);
    tenon_tensor_release(borrowed.private_.held.tensor);
    tenon_py_unborrow(&borrowed);
    CHECK(PySys_SetObject("kept", object) == 0);
    Py_DECREF(object);
    CHECK(PyRun_SimpleString("import sys, atexit\n"
                             "class Last:\n"
                             "    def __del__(self, kept=sys.kept):\n"
                             "        assert bytes(kept) == b'0123456789abcdef'\n"
                             "atexit.register(lambda last: None, Last())\n"
                             "sys.last = Last()\n") == 0);
    Py_Finalize();
    CHECK(tenon_py_leaked() == 0);
    CHECK(tenon_stats_read().tensors == 0);
}

enum { MANY = 20000 };
static tenon_tensor *many[MANY];

static void *release_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < MANY; i++)
        tenon_tensor_release(many[i]);
    return NULL;
}

/* A thread without a Python thread state releases tensors while the interpreter shuts down. */
static void race(void)
{
    Py_Initialize();
    for (int i = 0; i < MANY; i++)
        many[i] = import_new();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, release_many, NULL) == 0);
    Py_Finalize();
    pthread_join(thread, NULL);
    CHECK(tenon_stats_read().tensors == 0);
    CHECK(tenon_py_leaked() >= 0 && tenon_py_leaked() <= MANY);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {{"after", after}, {"again", again}, {"during", during}, {"race", race}};
    for (size_t i = 0; count == 2 && i < sizeof scenarios / sizeof *scenarios; i++) {
        if (strcmp(words[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: tenon_embed after|again|during|race\n");
    return 2;
}
