/* A program with the static library that exports its symbols (-rdynamic), and has an allocator of its own: the shared library
 * that its plugin brings must not notice. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { SHIFT = 64 };

static void *shifted_alloc(void *context, size_t size, bool zeroed)
{
    (void)context;
    (void)zeroed;
    char *memory = calloc(1, size + SHIFT);
    return memory ? memory + SHIFT : NULL;
}

static void shifted_free(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free((char *)memory - SHIFT);
}

int main(int argc, char **argv)
{
    tenon_allocator allocator = {shifted_alloc, shifted_free, NULL};
    tenon_tensor *tensor = NULL;
    int64_t shape[] = {4};
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*work)(void) = plugin ? (int (*)(void))(uintptr_t)dlsym(plugin, "work") : NULL;
    if (!work || tenon_set_allocator(&allocator, NULL) || tenon_tensor_alloc(TENON_F32, 1, shape, 0, &tensor, NULL))
        return 1;
    int status = work();
    int64_t here = tenon_stats_read().tensors;
    tenon_tensor_release(tensor);
    if (here == 1)
        puts("two copies, static and shared");
    return status || here != 1;
}
