/* Finds the OpenMP runtime of the process. Its symbols cannot be found by name alone, because the libraries that use a runtime
 * load it for themselves. */
#define _GNU_SOURCE 1 /* dl_iterate_phdr */

#include "internal.h"

#ifdef TENON__POSIX
#include <dlfcn.h>
#include <string.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <link.h>
#endif
#endif

#ifdef TENON__POSIX

/* ------------------------------------------------------------------------------------------------ loaded libraries */

/* Show the names of all loaded libraries to `look`, until it returns true. */
typedef bool (*look_at_library)(const char *name, void *data);

#ifdef __APPLE__

static uint64_t libraries_loaded(void)
{
    return _dyld_image_count();
}

static void look_at_libraries(look_at_library look, void *data)
{
    for (uint32_t i = 0; i < _dyld_image_count(); i++) {
        const char *name = _dyld_get_image_name(i);
        if (name && look(name, data))
            return;
    }
}

#else

static int read_load_count(struct dl_phdr_info *library, size_t size, void *count)
{
    (void)size;
    *(uint64_t *)count = library->dlpi_adds;
    return 1; /* it is the same in all of them */
}

/* How many libraries have been loaded so far. */
static uint64_t libraries_loaded(void)
{
    uint64_t count = 0;
    dl_iterate_phdr(read_load_count, &count);
    return count;
}

typedef struct library_visit {
    look_at_library look;
    void *data;
} library_visit;

static int visit_library(struct dl_phdr_info *library, size_t size, void *data)
{
    const library_visit *visit = data;
    (void)size;
    return library->dlpi_name && visit->look(library->dlpi_name, visit->data);
}

static void look_at_libraries(look_at_library look, void *data)
{
    library_visit visit = {look, data};
    dl_iterate_phdr(visit_library, &visit);
}

#endif

/* ----------------------------------------------------------------------------------------------------- the runtime */

enum { LONGEST_RUNTIME_NAME = 4096 };

static bool find_symbol(void *library, const char *name, void *place)
{
    void *symbol = dlsym(library, name);
    memcpy(place, &symbol, sizeof symbol);
    return symbol;
}

/* The handle stays open, so that the runtime stays loaded. */
static bool read_runtime(void *library, tenon__openmp *out)
{
    if (!library)
        return false;
    if (find_symbol(library, "GOMP_parallel", &out->parallel) &&
        find_symbol(library, "omp_get_max_threads", &out->max_threads) &&
        find_symbol(library, "omp_in_parallel", &out->in_parallel))
        return true;
    dlclose(library);
    return false;
}

/* Whether the file is a runtime: libgomp.so.1, libgomp-a34b3233.so.1, libomp.so, libiomp5.so. */
static bool is_runtime(const char *path)
{
    static const char *const names[] = {"libgomp", "libomp", "libiomp5"};
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(file, names[i], length) == 0 && (file[length] == '.' || file[length] == '-'))
            return true;
    }
    return false;
}

/* Libraries must not be opened while the list is being read, so the name is copied. */
static bool copy_runtime_name(const char *name, void *out)
{
    if (!is_runtime(name) || strlen(name) >= LONGEST_RUNTIME_NAME)
        return false;
    strcpy(out, name);
    return true;
}

static bool find_loaded_runtime(tenon__openmp *out)
{
    char name[LONGEST_RUNTIME_NAME] = "";
    look_at_libraries(copy_runtime_name, name);
    return *name && read_runtime(dlopen(name, RTLD_NOW | RTLD_NOLOAD), out);
}

static bool open_runtime(tenon__openmp *out)
{
#ifdef __APPLE__
    static const char *const names[] = {"libomp.dylib", "libgomp.1.dylib"};
#else
    static const char *const names[] = {"libgomp.so.1", "libomp.so.5", "libomp.so"};
#endif
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (read_runtime(dlopen(names[i], RTLD_NOW | RTLD_LOCAL), out))
            return true;
    return false;
}

const tenon__openmp *tenon__openmp_find(void)
{
    static tenon__openmp runtime;
    static bool found, searched;
    static uint64_t loaded; /* when none was found */
    if (found || (searched && libraries_loaded() == loaded))
        return found ? &runtime : NULL;
    tenon__loader_lock(); /* a fork waits meanwhile */
    found = find_loaded_runtime(&runtime) || (!searched && open_runtime(&runtime));
    tenon__loader_unlock();
    loaded = libraries_loaded();
    searched = true;
    return found ? &runtime : NULL;
}

#endif
