/* For tests of opening libraries: replace and overwrite files, and call the functions of an open library. CMakeLists.txt
 * builds the libraries in TENON_TEST_LIBRARIES. */
#ifndef TENON_TESTS_LIBRARY_FILES_H
#define TENON_TESTS_LIBRARY_FILES_H

#define CHECK_KEEPS_BLOCKS /* libraries stay open */
#include "check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAME = 512 };

/* ------------------------------------------------------------------------------------------------------------- files */

static char root[NAME], temporary[NAME];

static inline const char *built(const char *name)
{
    static char path[NAME];
    snprintf(path, sizeof path, "%s/%s", TENON_TEST_LIBRARIES, name);
    return path;
}

/* A path in a new folder for this test. */
static inline const char *fresh(char path[NAME])
{
    static int count;
    char folder[NAME / 2];
    snprintf(folder, sizeof folder, "%.200s/%d", root, ++count);
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(path, NAME, "%s/kernels.so", folder);
    return path;
}

static inline void copy_into(const char *from, const char *to, int how)
{
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | how, 0755);
    assert_true(in >= 0 && out >= 0);
    char piece[1 << 12];
    for (ssize_t got; (got = read(in, piece, sizeof piece)) > 0;)
        assert_int_equal(write(out, piece, (size_t)got), got);
    close(in);
    close(out);
}

/* Replace the file as a linker does: the path gets another inode. */
static inline void replace(const char *from, const char *to)
{
    unlink(to);
    copy_into(from, to, O_CREAT | O_EXCL);
}

/* Overwrite the file: the path keeps its inode. All builds have the same size. */
static inline void overwrite(const char *from, const char *to)
{
    copy_into(from, to, 0);
}

static inline int entries(const char *folder)
{
    DIR *opened = opendir(folder);
    int count = 0;
    assert_non_null(opened);
    while (readdir(opened))
        count++;
    closedir(opened);
    return count - 2;
}

static inline int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/tenon_open_XXXXXX");
    if (!mkdtemp(root))
        return 1;
    snprintf(temporary, sizeof temporary, "%.100s/temporary", root);
    return mkdir(temporary, 0755) || setenv("TMPDIR", temporary, 1);
}

static inline int tear_down(void **state)
{
    (void)state;
    char command[NAME + 20];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

/* ------------------------------------------------------------------------------------------------------------ calling */

static inline const tenon_module *open_ok(const char *path)
{
    const tenon_module *module = NULL;
    OK(tenon_library_open(path, &module, &err));
    assert_non_null(module);
    return module;
}

static inline int64_t call_function(const tenon_module *module, int index)
{
    tenon_function function;
    tenon_value result = {.kind = TENON_KIND_INT};
    tenon_call call = {.size = sizeof call, .results = &result, .nresults = 1};
    tenon_module_function(module, index, &function);
    assert_int_equal(function.call(&call), TENON_OK);
    return result.as.integer;
}

static inline int64_t answer(const tenon_module *module)
{
    return call_function(module, 0);
}

static inline int64_t next(const tenon_module *module)
{
    return call_function(module, 1);
}

/* The file that contains the code of the library, as the kernel reports it. */
static inline bool is_mapped_from(const tenon_module *module, const char *path)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[2 * NAME];
    bool found = false;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long low, high, address = (unsigned long)(uintptr_t)module;
        if (sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= address && address < high) {
            const char *name = strchr(line, '/');
            found = name && strncmp(name, path, strlen(path)) == 0 && name[strlen(path)] == '\n';
        }
    }
    fclose(maps);
    return found;
}

#endif
