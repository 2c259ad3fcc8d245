/* Whether torch would do more with an operator than run it: a mode, a transform, a tracer or the profiler is active. */
#include "torch_bridge.h"

#include <string.h>

/* c10's thread-local sets of dispatch keys: what this thread includes and excludes, XOR the defaults. Any dispatch mode,
 * functorch transform, autocast and torch.jit.trace change them. They are plain old data, and zero in a new thread. */
static const char words_name[] = "_ZN3c104impl26raw_local_dispatch_key_setE";

/* Found once. Their absence is found once too: torch's library does not change. */
static struct {
    _Atomic int found; /* 0: not looked for yet; 1: all of them; 2: at least one is missing */
    void *library;
    int64_t (*stack_len)(void);  /* at::impl::PythonTorchFunctionTLS::stack_len: function modes */
    bool (*has_callbacks)(void); /* at::hasCallbacks: the profiler */
    bool (*records)(void);       /* grad mode */
} watch;

static _Thread_local const tenon__torch_words *watch_words; /* those of this thread, looked up once */

static TENON__PY_NOINLINE const tenon__torch_words *find_words(void)
{
    if (!watch_words)
        tenon__py_symbol(watch.library, words_name, &watch_words); /* the dynamic linker returns this thread's copy */
    return watch_words;
}

bool tenon__torch_can_watch(void)
{
    int found = atomic_load_explicit(&watch.found, memory_order_acquire);
    void *library = found ? NULL : tenon__py_torch_library();
    if (library) { /* several threads may store the same addresses */
        watch.library = library;
        bool all = find_words() &&
                   tenon__py_symbol(library, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", &watch.stack_len) &&
                   tenon__py_symbol(library, "_ZN2at12hasCallbacksEv", &watch.has_callbacks) &&
                   tenon__py_symbol(library, "aoti_torch_grad_mode_is_enabled", &watch.records);
        found = all ? 1 : 2;
        atomic_store_explicit(&watch.found, found, memory_order_release);
    }
    return found == 1;
}

bool tenon__torch_read_words(tenon__torch_words *out)
{
    if (!tenon__torch_can_watch() || !find_words())
        return false;
    *out = *watch_words;
    return true;
}

bool tenon__torch_is_watched(const tenon__torch_words *harmless, size_t count)
{
    const tenon__torch_words *now = watch_words ? watch_words : find_words();
    if (!now || watch.stack_len() != 0 || watch.has_callbacks())
        return true;
    for (size_t i = 0; i < count; i++)
        if (now->included == harmless[i].included && now->excluded == harmless[i].excluded)
            return false;
    return true;
}

bool tenon__torch_records(void)
{
    return watch.records();
}

/* ---------------------------------------------------------------------------------------------------------- key sets */

/* Where a tensor's own key set is, found by values that only it can have. 0: not found. */
static struct {
    _Atomic size_t impl; /* from the Python object to the pointer to torch's object; set last */
    size_t keys;         /* from there to the key set */
} key_place;

static uint64_t word_at(const void *address, size_t offset)
{
    uint64_t word;
    memcpy(&word, (const char *)address + offset, sizeof word);
    return word;
}

bool tenon__torch_read_keys(PyObject *tensor, uint64_t *out)
{
    size_t impl = atomic_load_explicit(&key_place.impl, memory_order_acquire);
    if (!impl)
        return false;
    *out = word_at((const void *)(uintptr_t)word_at(tensor, impl), key_place.keys);
    return true;
}

bool tenon__torch_find_keys(size_t object_size, size_t count, const tenon__torch_key_sample *samples)
{
    enum { LEAST_IMPL = 184 }; /* no torch has a smaller object, and the scan ends at the key set */
    size_t impl = 0, keys = 0;
    for (size_t at = sizeof(PyObject); at + sizeof(uint64_t) <= object_size; at += sizeof(uint64_t)) {
        size_t same = 0;
        while (same < count && word_at(samples[same].tensor, at) == (uint64_t)(uintptr_t)samples[same].impl)
            same++;
        if (same == count && impl)
            return false; /* ambiguous */
        impl = same == count ? at : impl;
    }
    while (keys < LEAST_IMPL && word_at(samples[0].impl, keys) != samples[0].keys)
        keys += sizeof(uint64_t);
    for (size_t i = 0; i < count && keys < LEAST_IMPL; i++)
        if (word_at(samples[i].impl, keys) != samples[i].keys)
            return false;
    if (!count || !impl || keys >= LEAST_IMPL)
        return false;
    key_place.keys = keys;
    atomic_store_explicit(&key_place.impl, impl, memory_order_release);
    return true;
}
