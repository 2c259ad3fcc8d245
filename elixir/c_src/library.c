/* Opening libraries, and binding modules to them. */
#include "library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Guards everything in this file that changes, except what calls look up. Opening a file may take long, and the VM has few
 * schedulers for that, so no NIF waits for the lock: the process tries again later. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tenon_nif_library *libraries;
static _Atomic(tenon_nif_opened *) opened; /* only grows, at its front; read without the lock by upgrades */

/* A failure while a library is opened: its reason is {:library, why}. */
typedef struct trouble {
    const char *why; /* unreadable, invalid, signature, load */
    tenon_error error;
} trouble;

static bool fail(trouble *t, const char *why, const char *format, ...) TENON_PRINTF(3, 4);

static bool fail(trouble *t, const char *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->error.message, sizeof t->error.message, format, arguments);
    va_end(arguments);
    t->error.function = NULL;
    t->why = why;
    return false;
}

static ERL_NIF_TERM trouble_term(ErlNifEnv *env, trouble *t, const char *path)
{
    char message[sizeof t->error.message];
    int path_length = (int)tenon_utf8_cut(path, strlen(path), 400);
    int length = (int)tenon_utf8_cut(t->error.message, strlen(t->error.message), 600);
    snprintf(message, sizeof message, "%.*s: %.*s", path_length, path, length, t->error.message);
    tenon_nif_mend_utf8(message, strlen(message));
    ERL_NIF_TERM reason = enif_make_tuple2(env, tenon_nif_atoms.library, enif_make_atom(env, t->why));
    return tenon_nif_error(env, reason, NULL, NULL, "%s", message);
}

/* --------------------------------------------------------------------------------------------------- its functions */

/* An atom from any string, or 0. The NIF API has no function that makes atoms from UTF-8, but decoding a term does. */
static ERL_NIF_TERM atom_of(ErlNifEnv *env, const char *text)
{
    size_t length = strlen(text);
    unsigned char encoded[4 + 1020] = {131, 118, (unsigned char)(length >> 8), (unsigned char)length};
    ERL_NIF_TERM atom;
    if (length > sizeof encoded - 4)
        return 0;
    memcpy(encoded + 4, text, length); /* NOLINT(bugprone-not-null-terminated-result): the length is in front */
    return enif_binary_to_term(env, encoded, length + 4, &atom, 0) ? atom : 0;
}

static bool fill_choices(ErlNifEnv *env, const tenon_parameter *item, ERL_NIF_TERM **out)
{
    if (item->kind != TENON_KIND_ENUM)
        return true;
    *out = calloc((size_t)item->count, sizeof **out);
    for (int32_t i = 0; *out && i < item->count; i++)
        (*out)[i] = atom_of(env, item->choices[i]);
    return *out != NULL;
}

/* Whether the entry has no code: it is a class or a constant. */
static bool has_no_code(const tenon_nif_function *f)
{
    return f->signature->role == TENON_ROLE_CLASS || f->signature->role == TENON_ROLE_CONSTANT;
}

static bool fill_function(ErlNifEnv *env, tenon_nif_library *library, int64_t index, trouble *t)
{
    tenon_nif_function *f = &library->functions[index];
    f->library = library;
    tenon_module_function(library->opened->module, index, &f->function);
    if (tenon_signature_alloc(f->function.signature, library->opened->module, TENON_HOST_LAYOUT, &f->signature,
                              &t->error)) {
        tenon_error err = t->error;
        return fail(t, "invalid", "the signature of function %lld: %.900s", (long long)index, tenon_error_reason(&err));
    }
    const tenon_signature *s = f->signature;
    if (s->ncallables)
        return fail(
            t, "invalid",
            "the signature of function %lld: a callable is not possible here, because a NIF cannot call functions "
            "of Elixir while it runs; return to Elixir between the steps instead",
            (long long)index);
    tenon_call_init(&f->call, &tenon_nif_host, &f->function, NULL, s);
    f->names = calloc((size_t)s->nparams + 1, sizeof *f->names);
    f->choices = calloc((size_t)(s->nparams + s->nresults) + 1, sizeof *f->choices);
    bool done = f->names && f->choices;
    for (int32_t i = 0; done && i < s->nparams; i++) {
        f->names[i] = enif_make_atom(env, s->params[i].name);
        done = fill_choices(env, &s->params[i], &f->choices[i]);
    }
    for (int32_t i = 0; done && i < s->nresults; i++)
        done = fill_choices(env, &s->results[i], &f->choices[s->nparams + i]);
    if (!done)
        return fail(t, "invalid", "no memory");
    return true;
}

static void free_library(tenon_nif_library *library)
{
    for (int64_t i = 0; i < library->nfunctions; i++) {
        tenon_nif_function *f = &library->functions[i];
        int32_t items = f->signature ? f->signature->nparams + f->signature->nresults : 0;
        for (int32_t k = 0; f->choices && k < items; k++)
            free(f->choices[k]);
        free(f->choices);
        free(f->names);
        tenon_signature_release(f->signature);
    }
    free(library->functions);
    free(library);
}

static bool fill_library(ErlNifEnv *env, tenon_nif_library *library, trouble *t)
{
    const tenon_module *module = library->opened->module;
    library->functions = calloc((size_t)module->nfunctions + 1, sizeof *library->functions);
    if (!library->functions)
        return fail(t, "invalid", "no memory");
    library->nfunctions = module->nfunctions;
    for (int64_t i = 0; i < library->nfunctions; i++)
        if (!fill_function(env, library, i, t))
            return false;
    return true;
}

/* The code and the state of a module, which exist as long as the library is open. Called with the lock held. */
static tenon_nif_opened *code_of(const tenon_module *module)
{
    tenon_nif_opened *first = atomic_load_explicit(&opened, memory_order_relaxed), *code = first;
    while (code && code->module != module)
        code = code->next;
    if (!code && (code = malloc(sizeof *code))) {
        *code = (tenon_nif_opened){.next = first, .module = module};
        atomic_init(&code->load_step, TENON_NIF_NOT_LOADED);
        atomic_store_explicit(&opened, code, memory_order_release);
    }
    return code;
}

/* Open the library in a file and prepare its functions. Called with the lock held. */
static tenon_nif_library *open_library(ErlNifEnv *env, const char *path, trouble *t)
{
    const tenon_module *module;
    tenon_status status = tenon_nif_open_library(path, &module, &t->error);
    if (status) { /* the message begins with the path instead of the name of the loader's function */
        tenon_error_set(&t->error, status, "%s", tenon_error_reason(&t->error));
        t->why = status == TENON_EFAILED ? "unreadable" : "invalid";
        return NULL;
    }
    tenon_nif_opened *code = code_of(module);
    tenon_nif_library *library = libraries;
    while (code && library && library->opened != code)
        library = library->next;
    if (!code || library)
        return code ? library : NULL;
    library = calloc(1, sizeof *library);
    if (!library)
        return NULL;
    library->opened = code;
    if (!fill_library(env, library, t)) {
        free_library(library);
        return NULL;
    }
    library->next = libraries;
    return libraries = library;
}

/* Read a path as a C string. */
static bool get_path(ErlNifEnv *env, ERL_NIF_TERM term, char path[4096])
{
    ErlNifBinary text;
    if (!enif_inspect_binary(env, term, &text) || text.size == 0 || text.size >= 4096 ||
        memchr(text.data, 0, text.size))
        return false;
    memcpy(path, text.data, text.size);
    path[text.size] = '\0';
    return true;
}

/* {:ok, {doc, [{signature, doc, {name, role, class, parameters, results}}]}} */
TENON_NIF(library_describe)
{
    (void)argc;
    char path[4096];
    trouble t = {.why = "invalid", .error.message = "no memory"};
    if (!get_path(env, argv[0], path))
        return enif_make_badarg(env);
    if (pthread_mutex_trylock(&lock))
        return tenon_nif_atoms.waiting;
    tenon_nif_library *library = open_library(env, path, &t);
    pthread_mutex_unlock(&lock);
    if (!library)
        return trouble_term(env, &t, path);
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (int64_t i = library->nfunctions - 1; i >= 0; i--) {
        const tenon_nif_function *f = &library->functions[i];
        ERL_NIF_TERM item = enif_make_tuple3(env, tenon_nif_make_text(env, f->function.signature),
                                             tenon_nif_make_text(env, f->function.doc),
                                             tenon_nif_describe_signature(env, f->signature));
        list = enif_make_list_cell(env, item, list);
    }
    return tenon_nif_ok(env, enif_make_tuple2(env, tenon_nif_make_text(env, library->opened->module->doc), list));
}

/* -------------------------------------------------------------------------------------------------------- bindings
 *
 * A module is bound under its atom and an identifier of the functions that it was compiled with, so that old and new code
 * of a module each find their own binding. Bindings are never removed, so a call needs no lock. */

typedef struct binding {
    const tenon_nif_library *library;
    int64_t count;
    tenon_nif_bound functions[];
} binding;

typedef struct entry {
    struct entry *next;
    ERL_NIF_TERM module;
    uint64_t id;
    _Atomic(binding *) current;
} entry;

enum { BUCKETS = 256, INDEX_BITS = 20 };
static _Atomic(entry *) table[BUCKETS];

static _Atomic(entry *) *bucket_of(ERL_NIF_TERM module, uint64_t id)
{
    return &table[(module >> 6 ^ id) % BUCKETS]; /* the low bits of an atom are its tag */
}

static entry *find_entry(ERL_NIF_TERM module, uint64_t id)
{
    entry *e = atomic_load_explicit(bucket_of(module, id), memory_order_acquire);
    while (e && (e->module != module || e->id != id))
        e = e->next;
    return e;
}

static binding *find_binding(ERL_NIF_TERM module, uint64_t key)
{
    entry *e = find_entry(module, key >> INDEX_BITS);
    return e ? atomic_load_explicit(&e->current, memory_order_acquire) : NULL;
}

const tenon_nif_library *tenon_nif_lookup_library(ERL_NIF_TERM module, uint64_t key)
{
    const binding *b = find_binding(module, key);
    return b ? b->library : NULL;
}

tenon_nif_bound *tenon_nif_lookup(ERL_NIF_TERM module, uint64_t key)
{
    binding *b = find_binding(module, key);
    int64_t index = (int64_t)(key & ((1u << INDEX_BITS) - 1));
    return b && index < b->count ? &b->functions[index] : NULL;
}

/* Called with the lock held. Takes `b`. A module that is loaded again with the same library keeps its binding. False: no
 * memory. */
static bool publish(ERL_NIF_TERM module, uint64_t id, binding *b)
{
    entry *e = find_entry(module, id);
    if (!e) {
        e = malloc(sizeof *e);
        if (!e) {
            free(b);
            return false;
        }
        _Atomic(entry *) *bucket = bucket_of(module, id);
        e->module = module;
        e->id = id;
        atomic_init(&e->current, b);
        e->next = atomic_load_explicit(bucket, memory_order_relaxed);
        atomic_store_explicit(bucket, e, memory_order_release);
        return true;
    }
    binding *old = atomic_load_explicit(&e->current, memory_order_relaxed);
    bool same = old->count == b->count && old->library == b->library;
    for (int64_t i = 0; same && i < b->count; i++)
        same =
            old->functions[i].function == b->functions[i].function && old->functions[i].where == b->functions[i].where;
    if (same)
        free(b);
    else /* the old one may be in use, so it is not freed */
        atomic_store_explicit(&e->current, b, memory_order_release);
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether two signatures are the same but for white space outside of their strings. */
static bool same_signature(const char *a, const char *b)
{
    static const char spaces[] = " \t\r\n\v\f";
    char quote = 0, before = 0;
    for (;; before = *a, a++, b++) {
        if (!quote) {
            size_t space_a = strspn(a, spaces), space_b = strspn(b, spaces);
            a += space_a;
            b += space_b;
            /* A space is only significant between two words. */
            if (!space_a != !space_b && is_word(before) && is_word(*a) && is_word(*b))
                return false;
        }
        if (*a != *b)
            return false;
        if (!*a)
            return true;
        if (quote ? *a == quote : *a == '\'' || *a == '"')
            quote = quote ? 0 : *a;
    }
}

/* Find the function of a signature, which the module was compiled with. */
static bool bind_one(const tenon_nif_library *library, const char *signature, tenon_nif_bound *out, trouble *t)
{
    size_t length = strcspn(signature, "( ");
    const tenon_nif_function *changed = NULL;
    for (int64_t i = 0; i < library->nfunctions; i++) {
        const tenon_nif_function *f = &library->functions[i];
        out->function = f;
        if (has_no_code(f))
            continue;
        if (same_signature(f->function.signature, signature))
            return true;
        if (strlen(f->signature->name) == length && strncmp(f->signature->name, signature, length) == 0)
            changed = f;
    }
    if (changed)
        return fail(t, "signature",
                    "the signature of the function '%s' is not the one that the module was compiled with; compile it "
                    "again\n  the module: %.300s\n  the library: %.300s",
                    changed->signature->name, signature, changed->function.signature);
    return fail(
        t, "signature",
        "the library has no function '%.*s', which the module was compiled with; compile it again\n  the module: "
        "%.300s",
        (int)length, signature, signature);
}

/* An atom for each result: the module if it is an object, otherwise nil. */
static bool get_structs(ErlNifEnv *env, ERL_NIF_TERM list, ERL_NIF_TERM structs[TENON_MAX_RESULTS])
{
    ERL_NIF_TERM item;
    for (int i = 0; i < TENON_MAX_RESULTS && enif_get_list_cell(env, list, &item, &list); i++) {
        if (!enif_is_atom(env, item))
            return false;
        if (!enif_is_identical(item, tenon_nif_atoms.nil))
            structs[i] = item;
    }
    return enif_is_empty_list(env, list);
}

/* [{signature, :auto | :normal | :dirty}], with a list [module | nil] if there are objects among the results. NULL: badarg,
 * or `t` says why. */
static binding *bind_all(ErlNifEnv *env, const tenon_nif_library *library, ERL_NIF_TERM list, trouble *t)
{
    unsigned count;
    if (!enif_get_list_length(env, list, &count))
        return NULL;
    binding *b = calloc(1, sizeof *b + count * sizeof *b->functions);
    ERL_NIF_TERM item;
    if (b)
        b->library = library;
    for (unsigned i = 0; b && enif_get_list_cell(env, list, &item, &list); i++) {
        char signature[8192], where[8];
        const ERL_NIF_TERM *parts;
        ErlNifBinary text;
        int arity;
        bool read = enif_get_tuple(env, item, &arity, &parts) && (arity == 2 || arity == 3) &&
                    enif_inspect_binary(env, parts[0], &text) && text.size < sizeof signature &&
                    enif_get_atom(env, parts[1], where, sizeof where, ERL_NIF_LATIN1) &&
                    (arity == 2 || get_structs(env, parts[2], b->functions[i].structs));
        if (read) {
            memcpy(signature, text.data, text.size);
            signature[text.size] = '\0';
            b->functions[i].where = strcmp(where, "dirty") == 0    ? TENON_NIF_DIRTY
                                    : strcmp(where, "normal") == 0 ? TENON_NIF_NORMAL
                                                                   : TENON_NIF_AUTO;
        }
        if (!read || !bind_one(library, signature, &b->functions[i], t)) {
            free(b);
            return NULL;
        }
        b->count++;
    }
    return b;
}

static tenon_nif_load_step load_step(const tenon_nif_library *library)
{
    return (tenon_nif_load_step)atomic_load_explicit(&library->opened->load_step, memory_order_acquire);
}

/* Call `load`, unless it was called. Returns the step that was reached: TENON_NIF_NOT_LOADED if it failed, and
 * TENON_NIF_LOADING if another thread is calling it. Called without the lock. */
static tenon_nif_load_step load_library(const tenon_nif_library *library, trouble *t)
{
    tenon_nif_opened *code = library->opened;
    int step = TENON_NIF_NOT_LOADED;
    if (!atomic_compare_exchange_strong_explicit(&code->load_step, &step, TENON_NIF_LOADING, memory_order_acquire,
                                                 memory_order_acquire))
        return (tenon_nif_load_step)step;
    t->why = "load";
    bool done = !code->module->load || tenon_nif_call_load(code, &t->error);
    step = done ? TENON_NIF_LOADED : TENON_NIF_NOT_LOADED;
    atomic_store_explicit(&code->load_step, step, memory_order_release);
    return (tenon_nif_load_step)step;
}

/* module, {id, path, [{signature, scheduler} | {signature, scheduler, structs}]} -> :ok */
TENON_NIF(library_open)
{
    (void)argc;
    char path[4096];
    trouble t = {.why = "invalid", .error.message = "no memory"};
    const ERL_NIF_TERM *parts;
    ErlNifUInt64 id;
    int arity;
    if (!enif_is_atom(env, argv[0]) || !enif_get_tuple(env, argv[1], &arity, &parts) || arity != 3 ||
        !enif_get_uint64(env, parts[0], &id) || !get_path(env, parts[1], path) || !enif_is_list(env, parts[2]))
        return enif_make_badarg(env);
    for (;;) {
        if (pthread_mutex_trylock(&lock))
            return tenon_nif_atoms.waiting;
        tenon_nif_library *library = open_library(env, path, &t);
        binding *b = library ? bind_all(env, library, parts[2], &t) : NULL;
        bool loaded = b && load_step(library) == TENON_NIF_LOADED;
        /* If anything fails, the module keeps its binding. */
        bool bound = loaded && publish(argv[0], id, b);
        pthread_mutex_unlock(&lock);
        if (!b || loaded)
            return bound ? tenon_nif_atoms.ok : trouble_term(env, &t, path);
        free(b);
        tenon_nif_load_step step = load_library(library, &t);
        if (step != TENON_NIF_LOADED)
            return step == TENON_NIF_LOADING ? tenon_nif_atoms.waiting : trouble_term(env, &t, path);
        /* Meanwhile another process may have bound the module to a newer file, so begin again. */
    }
}

/* -------------------------------------------------------------------------------------------------------- upgrades */

tenon_nif_opened *tenon_nif_library_opened(void)
{
    return atomic_load_explicit(&opened, memory_order_acquire);
}

bool tenon_nif_library_init(ErlNifEnv *env, tenon_nif_opened *earlier)
{
    if (earlier)
        atomic_store_explicit(&opened, earlier, memory_order_release);
    return tenon_nif_handle_init(env);
}

/* A compiled signature as terms: what Tenon.Library needs to know to write the head of a function. */

/* The default as functions are given it; an enum's is its text. */
static ERL_NIF_TERM make_default(ErlNifEnv *env, const tenon_parameter *item)
{
    const tenon_value *value = &item->value;
    return value->kind == TENON_KIND_ENUM ? tenon_nif_make_text(env, item->choices[value->as.integer])
                                          : tenon_nif_make_value(env, value);
}

/* The strings of an enum, or the integers of a choice. */
static ERL_NIF_TERM make_choices(ErlNifEnv *env, const tenon_parameter *item)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    bool is_enum = item->kind == TENON_KIND_ENUM;
    for (int32_t i = is_enum || item->integers ? item->count - 1 : -1; i >= 0; i--) {
        ERL_NIF_TERM choice =
            is_enum ? tenon_nif_make_text(env, item->choices[i]) : enif_make_int64(env, item->integers[i]);
        list = enif_make_list_cell(env, choice, list);
    }
    return list;
}

/* %{name: "x", kind: :tensor, optional: false, keyword_only: false, default: nil, choices: [], handle: nil} */
static ERL_NIF_TERM describe_item(ErlNifEnv *env, const tenon_parameter *item, bool has_default)
{
    static const char *const kinds[] = {"none", "tensor", "int",    "float",   "bool",    "str",
                                        "enum", "ints",   "floats", "tensors", "handle",  "complex",
                                        "uint", "bytes",  "strs",   "dtype",   "callable"};
    static const char *const names[] = {"name", "kind", "optional", "keyword_only", "default", "choices", "handle"};
    enum { COUNT = sizeof names / sizeof *names };
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    ERL_NIF_TERM keys[COUNT], map = a->nil;
    ERL_NIF_TERM values[] = {tenon_nif_make_text(env, item->name),
                             enif_make_atom(env, kinds[item->kind]),
                             item->flags & TENON_PARAMETER_OPTIONAL ? a->yes : a->no,
                             item->flags & TENON_PARAMETER_KEYWORD_ONLY ? a->yes : a->no,
                             has_default ? tenon_nif_ok(env, make_default(env, item)) : a->nil,
                             make_choices(env, item),
                             tenon_nif_make_text(env, item->handle)};
    for (int i = 0; i < COUNT; i++)
        keys[i] = enif_make_atom(env, names[i]);
    enif_make_map_from_arrays(env, keys, values, COUNT, &map); /* cannot fail: no two keys are the same */
    return map;
}

/* A constant is described as a result whose default is its value. */
ERL_NIF_TERM tenon_nif_describe_signature(ErlNifEnv *env, const tenon_signature *s)
{
    static const char *const roles[] = {"function", "class", "constructor", "method", "static", "property", "constant"};
    ERL_NIF_TERM params = enif_make_list(env, 0), results = params;
    for (int32_t i = s->nparams - 1; i >= 0; i--)
        params = enif_make_list_cell(
            env, describe_item(env, &s->params[i], s->params[i].flags & TENON_PARAMETER_DEFAULT), params);
    for (int32_t i = s->nresults - 1; i >= 0; i--)
        results = enif_make_list_cell(env, describe_item(env, &s->results[i], false), results);
    if (s->constant)
        results = enif_make_list1(env, describe_item(env, s->constant, true));
    return enif_make_tuple5(env, tenon_nif_make_text(env, s->name), enif_make_atom(env, roles[s->role]),
                            tenon_nif_make_text(env, s->class_name), params, results);
}
