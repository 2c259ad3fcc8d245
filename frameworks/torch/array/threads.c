/* The number of threads that torch's own loops use, so that loops of functions use the same threads. */
#include "internal.h"

typedef int (*torch_threads)(void);

#ifdef __APPLE__
static const char torch_library_name[] = "@rpath/libtorch_cpu.dylib";
#else
static const char torch_library_name[] = "libtorch_cpu.so";
#endif

int tenon__py_torch_thread_count(void)
{
    static _Atomic(torch_threads) found;
    static _Atomic uint64_t searched; /* how many libraries were loaded then */
    torch_threads threads = atomic_load_explicit(&found, memory_order_acquire);
    if (!threads) {
        uint64_t loaded = tenon__py_load_count();
        if (atomic_exchange_explicit(&searched, loaded, memory_order_relaxed) == loaded)
            return 0;
        void *library = tenon__py_loaded_library(torch_library_name);
        if (!library || !tenon__py_symbol(library, "_ZN2at15get_num_threadsEv", &threads)) /* at::get_num_threads() */
            return 0;
        atomic_store_explicit(&found, threads, memory_order_release);
    }
    return threads();
}
