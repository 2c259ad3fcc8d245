/* Whether torch would do more with an operator than run it: a mode, a transform, a tracer or the profiler is active. And the
 * dispatch keys that a thread excludes. */
#include "internal.h"

/* c10's thread-local sets of dispatch keys: what this thread includes and excludes, XOR the defaults. Any dispatch mode,
 * functorch transform, autocast and torch.jit.trace change them. They are plain old data, and zero in a new thread. */
static const char dispatch_keys_symbol[] = "_ZN3c104impl26raw_local_dispatch_key_setE";

/* Found once. Their absence is found once too: torch's library does not change. */
static struct {
    _Atomic int found; /* 0: not looked for yet; 1: all of them; 2: at least one is missing */
    void *library;
    int64_t (*stack_len)(void);  /* at::impl::PythonTorchFunctionTLS::stack_len: function modes */
    bool (*has_callbacks)(void); /* at::hasCallbacks: the profiler */
} dispatch_symbols;

static _Thread_local tenon__torch_dispatch_keys *thread_dispatch_keys; /* those of this thread, looked up once */

static TENON__PY_NOINLINE const tenon__torch_dispatch_keys *find_dispatch_keys(void)
{
    if (!thread_dispatch_keys)
        tenon__py_symbol(dispatch_symbols.library, dispatch_keys_symbol,
                         &thread_dispatch_keys); /* the dynamic linker returns this thread's copy */
    return thread_dispatch_keys;
}

/* Several threads may look at the same time; the first one writes down what all of them find. */
static TENON__PY_NOINLINE int find_dispatch_symbols(void *library)
{
    int64_t (*stack_len)(void) = NULL;
    bool (*has_callbacks)(void) = NULL;
    bool all = tenon__py_symbol(library, dispatch_keys_symbol, &thread_dispatch_keys) &&
               tenon__py_symbol(library, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", &stack_len) &&
               tenon__py_symbol(library, "_ZN2at12hasCallbacksEv", &has_callbacks);
    tenon__py_spin_lock(&tenon__py_global.lock);
    if (!atomic_load_explicit(&dispatch_symbols.found, memory_order_relaxed)) {
        dispatch_symbols.library = library;
        dispatch_symbols.stack_len = stack_len;
        dispatch_symbols.has_callbacks = has_callbacks;
        atomic_store_explicit(&dispatch_symbols.found, all ? 1 : 2, memory_order_release);
    }
    tenon__py_spin_unlock(&tenon__py_global.lock);
    return all ? 1 : 2;
}

bool tenon__torch_can_read_dispatch_keys(void)
{
#ifndef __ELF__ /* the loaders of other systems return another address for a variable of a thread */
    return false;
#endif
    int found = atomic_load_explicit(&dispatch_symbols.found, memory_order_acquire);
    void *library = found ? NULL : tenon__py_torch_library();
    if (library)
        found = find_dispatch_symbols(library);
    return found == 1;
}

bool tenon__torch_read_dispatch_keys(tenon__torch_dispatch_keys *out)
{
    if (!tenon__torch_can_read_dispatch_keys() || !find_dispatch_keys())
        return false;
    *out = *thread_dispatch_keys;
    return true;
}

bool tenon__torch_has_active_mode(const tenon__torch_dispatch_keys *harmless, size_t count)
{
    const tenon__torch_dispatch_keys *now = thread_dispatch_keys ? thread_dispatch_keys : find_dispatch_keys();
    if (!now || dispatch_symbols.stack_len() != 0 || dispatch_symbols.has_callbacks())
        return true;
    for (size_t i = 0; i < count; i++)
        if (now->included == harmless[i].included && now->excluded == harmless[i].excluded)
            return false;
    return true;
}

/* As torch's guards do: autograd's keys are not among those that are excluded by default. */
uint64_t tenon__torch_exclude_keys(uint64_t keys)
{
    uint64_t before = thread_dispatch_keys->excluded;
    thread_dispatch_keys->excluded = before | keys;
    return before;
}

void tenon__torch_restore_keys(uint64_t excluded)
{
    thread_dispatch_keys->excluded = excluded;
}
