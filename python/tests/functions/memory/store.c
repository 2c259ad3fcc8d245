/* Objects whose memory is shown. */
#include <tenon/function.h>

#include <stdlib.h>

typedef struct Store {
    int64_t count;
    float *memory;
} Store;

static int64_t stores;

static void store_destroy(void *object)
{
    Store *store = object;
    __atomic_sub_fetch(&stores, 1, __ATOMIC_SEQ_CST);
    for (int64_t i = 0; i < store->count; i++)
        store->memory[i] = -1;
    free(store->memory);
    free(store);
}

static tenon_status store_new(tenon_call *call)
{
    Store *store = malloc(sizeof *store);
    store->count = tenon_arg_int(call, 0);
    store->memory = malloc((size_t)store->count * sizeof(float) + 1);
    for (int64_t i = 0; i < store->count; i++)
        store->memory[i] = (float)i;
    __atomic_add_fetch(&stores, 1, __ATOMIC_SEQ_CST);
    tenon_return_handle(call, 0, store, store_destroy);
    return TENON_OK;
}

static tenon_status store_show(tenon_call *call)
{
    const Store *store = tenon_arg_handle(call, 0);
    return tenon_result_of(call, 0, store->memory, 1, &store->count, NULL);
}

static tenon_status store_count(tenon_call *call)
{
    tenon_return_int(call, 0, stores);
    return TENON_OK;
}

TENON_MODULE(store, "Floats of a library.", TENON_CLASS("Store", "Floats of the library."),
             TENON_FUNCTION("Store(n: int)", store_new, ""),
             TENON_FUNCTION("Store.show(self) -> f32[?] of(self)", store_show, ""),
             TENON_FUNCTION("Store.show_rw(self) -> f32[?] rw of(self)", store_show, ""),
             TENON_FUNCTION("stores() -> int", store_count, ""))
