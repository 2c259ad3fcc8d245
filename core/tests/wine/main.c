/* A tour through what the core asks of the operating system, for systems without cmocka: tools/check-wine runs it.
 *
 *   main LIBRARY FOLDER      LIBRARY is examples/functions/kernels.c; FOLDER has plain.dll, a library without a module, and
 *                            files are written to it */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, err.message);                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static tenon_error err;
static char *content;
static size_t length;

static void read_library(const char *path)
{
    FILE *file = fopen(path, "rb");
    CHECK(file && fseek(file, 0, SEEK_END) == 0);
    length = (size_t)ftell(file);
    rewind(file);
    content = malloc(length);
    CHECK(content && fread(content, 1, length, file) == length);
    fclose(file);
}

static void write_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size);
    CHECK(fclose(file) == 0);
}

/* The message of a failure. */
static const char *refusal(const char *path, tenon_status status)
{
    const tenon_module *module = NULL;
    errno = 0;
    CHECK(tenon_library_open(path, &module, &err) == status && !module);
    return err.message;
}

int main(int argc, char **argv)
{
    const tenon_module *module, *again;
    char path[512], hash[TENON_HASH_SIZE], other[TENON_HASH_SIZE];
    CHECK(argc == 3);

    CHECK(tenon_library_open(argv[1], &module, &err) == TENON_OK);
    CHECK(tenon_library_open(argv[1], &again, &err) == TENON_OK && again == module);
    tenon_function function;
    tenon_module_function(module, 0, &function);
    CHECK(strncmp(function.signature, "saxpy(", 6) == 0);
    CHECK(tenon_module_hash(module, hash, &err) == TENON_OK && strlen(hash) == 32);

    read_library(argv[1]);
    CHECK(tenon_library_check(content, length, &err) == TENON_OK);
    CHECK(tenon_library_check(content, 100, &err) == TENON_EINVAL);
    snprintf(path, sizeof path, "%s/copy.dll", argv[2]);
    write_file(path, content, length);
    CHECK(tenon_library_open(path, &again, &err) == TENON_OK);
    CHECK(tenon_module_hash(again, other, &err) == TENON_OK && strcmp(hash, other) == 0);

    /* A library that is refused is closed, so that a new build can have its name. */
    snprintf(path, sizeof path, "%s/plain.dll", argv[2]);
    for (int i = 0; i < 2; i++)
        CHECK(strstr(refusal(path, TENON_EINVAL), TENON_MODULE_SYMBOL));
    write_file(path, content, length);
    CHECK(tenon_library_open(path, &again, &err) == TENON_OK);
    CHECK(!fopen(path, "wb")); /* this one is open */

    snprintf(path, sizeof path, "%s/short.dll", argv[2]);
    write_file(path, content, length / 2);
    CHECK(strstr(refusal(path, TENON_EINVAL), "the file is truncated; build it again"));
    write_file(path, "\xcf\xfa\xed\xfe", 4);
    CHECK(strstr(refusal(path, TENON_EINVAL), "it is a macOS library (Mach-O)"));
    write_file(path, "text", 4);
    CHECK(strstr(refusal(path, TENON_EINVAL), "it is not a"));
    snprintf(path, sizeof path, "%s/absent.dll", argv[2]);
    CHECK(strstr(refusal(path, TENON_EFAILED), "tenon_library_open(): ") && errno == ENOENT);
    refusal(argv[2], TENON_EFAILED);
    CHECK(errno == EISDIR);

    tenon_library_lock *lock = tenon_library_lock_retain(module);
    CHECK(lock && tenon_library_lock_retain(module) == lock);
    tenon_library_lock_enter(lock);
    tenon_library_lock_enter(lock);
    tenon_library_lock_leave(lock);
    tenon_library_lock_leave(lock);
    tenon_library_lock_release(lock);
    tenon_library_lock_release(lock);
    free(content);
    printf("libraries, hashes and turns: ok\n");
    return 0;
}
