// Functions of function.hpp, called by a host that is made by hand: it has the kinds and services that no host has yet.
#include "headers/use_cpp.cpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, said);                    \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

static char said[900];
static char returned[900]; // what the host copied
static size_t returned_size;
static int64_t parts, kept_alive;
static bool refuses; // the next object or share

static tenon_status host_fail(tenon_call *call, tenon_status status, const char *message, size_t length)
{
    call->flags |= TENON_CALL_FAILED;
    std::memcpy(said, message, length);
    said[length] = '\0';
    return status;
}

// One tensor of any call, with its own sizes.
struct tensor {
    tenon_view view = {};
    int64_t shape[4] = {}, strides[4] = {};

    tensor(void *data, tenon_dtype dtype, std::initializer_list<int64_t> sizes)
    {
        view.data = data;
        view.dtype = dtype;
        view.ndim = static_cast<int32_t>(sizes.size());
        view.shape = shape;
        view.strides = strides;
        view.numel = 1;
        int i = 0;
        for (int64_t size : sizes)
            shape[i++] = size;
        for (i = view.ndim - 1; i >= 0; i--) {
            strides[i] = view.numel;
            view.numel *= shape[i];
        }
    }
    tensor(const tensor &) = delete;
};

static float allocated[100];
static tensor *fresh;

static const tenon_view *host_alloc(tenon_call *call, int32_t index, tenon_dtype, int32_t ndim, const int64_t *shape)
{
    delete fresh;
    fresh = ndim == 2 ? new tensor(allocated, TENON_F32, {shape[0], shape[1]})
                      : new tensor(allocated, TENON_F32, {shape[0]});
    call->results[index].as.view = &fresh->view;
    return &fresh->view;
}

static void *object;
static void (*destroy_object)(void *);

static tenon_status host_handle(tenon_call *call, int32_t, void *made, void (*destroy)(void *))
{
    if (refuses)
        return host_fail(call, TENON_ENOMEM, "no", 2);
    object = made;
    destroy_object = destroy;
    return TENON_OK;
}

static void release_kept(tenon_kept *)
{
    kept_alive--;
}

static tenon_kept share = {sizeof share, 0, nullptr, release_kept};

static tenon_kept *host_keep(tenon_call *call, int32_t index)
{
    if (refuses) {
        host_fail(call, TENON_ENOMEM, "no", 2);
        return nullptr;
    }
    kept_alive++;
    share.view = call->args[index].as.view;
    return &share;
}

static tenon_status host_bytes(tenon_call *, int32_t, const void *data, size_t length)
{
    std::memcpy(returned, data, returned_size = length);
    return TENON_OK;
}

static tenon_status host_list(tenon_call *, int32_t, const void *items, int64_t count)
{
    std::memcpy(returned, items, returned_size = static_cast<size_t>(count) * sizeof(int64_t));
    return TENON_OK;
}

static tenon_status host_texts(tenon_call *, int32_t, const void *items, int64_t count)
{
    const tenon_text *texts = static_cast<const tenon_text *>(items);
    returned_size = 0;
    for (int64_t i = 0; i < count; returned_size += static_cast<size_t>(texts[i++].length))
        std::memcpy(returned + returned_size, texts[i].data, static_cast<size_t>(texts[i].length));
    return TENON_OK;
}

static void *host_scratch(tenon_call *, size_t bytes, size_t, tenon_device)
{
    alignas(64) static char memory[1000];
    return bytes <= sizeof memory ? memory : nullptr;
}

static tenon_status host_parallel(tenon_call *, int64_t count, int64_t grain,
                                  tenon_status (*body)(void *context, int64_t begin, int64_t end), void *context)
{
    tenon_status status = TENON_OK;
    for (int64_t begin = 0; begin < count && status == TENON_OK; begin += grain, parts++)
        status = body(context, begin, begin + grain < count ? begin + grain : count);
    return status;
}

static tenon_host host;

// The values of one call of a function of the module.
struct call_of {
    tenon_value args[8] = {}, results[8] = {};
    tenon_dtype types[2] = {};
    tenon_call call = {};

    call_of()
    {
        call.size = sizeof call;
        call.host = &host;
        call.args = args;
        call.results = results;
        call.types = types;
        call.nargs = call.nresults = 8;
        said[0] = '\0';
    }
    call_of(const call_of &) = delete;
    void set_kind(std::initializer_list<uint32_t> kinds) // of the results
    {
        int i = 0;
        for (uint32_t kind : kinds)
            results[i++].kind = kind;
    }
    void set_tensor(int i, const tensor &t)
    {
        args[i].kind = TENON_KIND_TENSOR;
        args[i].as.view = &t.view;
    }
    void set_list(int i, uint32_t kind, const void *data, int64_t length)
    {
        args[i].kind = kind;
        args[i].as.list.data = data;
        args[i].as.list.length = length;
    }
    void set_int(int i, uint32_t kind, int64_t value)
    {
        args[i].kind = kind;
        args[i].as.integer = value;
    }
    tenon_status run(const char *name, bool shapes = false)
    {
        const tenon_module *module = tenon_module_v1();
        for (int64_t i = 0; i < module->nfunctions; i++) {
            const tenon_function &f = module->functions[i];
            if (std::strncmp(f.signature, name, std::strlen(name)) == 0 && f.signature[std::strlen(name)] == '(')
                return (shapes ? f.shape : f.call)(&call);
        }
        std::fprintf(stderr, "there is no %s\n", name);
        std::exit(1);
    }
};

static void test_table()
{
    const tenon_module *module = tenon_module_v1();
    CHECK(module->minor_needed == 0 && std::strcmp(module->name, "use_cpp") == 0);
    int classes = 0;
    for (int64_t i = 0; i < module->nfunctions; i++) {
        const tenon_function &f = module->functions[i];
        bool is_class = std::strncmp(f.signature, "class ", 6) == 0;
        CHECK(is_class == !f.call);
        classes += is_class;
        if (std::strncmp(f.signature, "use_many", 8) == 0)
            CHECK(f.flags == TENON_KEEP_LOCK && std::strcmp(f.doc, "Numbers.") == 0);
        if (std::strcmp(f.signature, "class Other") == 0)
            CHECK(f.flags == TENON_CLASS_CONCURRENT && std::strcmp(f.doc, "Another.") == 0);
        CHECK((std::strncmp(f.signature, "repeat", 6) == 0) == (f.shape != nullptr));
    }
    CHECK(classes == 2);
}

static void test_later_kinds()
{
    const unsigned char bytes[] = {1, 2, 3};
    const tenon_text texts[] = {{"ab", 2}, {"abc", 3}};
    call_of a;
    a.set_int(0, TENON_KIND_UINT, -1);
    a.set_kind({TENON_KIND_UINT});
    CHECK(a.run("use_uint") == TENON_OK && a.results[0].as.integer == 0);
    call_of b;
    b.args[0].as.parts[0] = 1, b.args[0].as.parts[1] = 2, b.args[1].as.parts[0] = 10, b.args[1].as.parts[1] = 20;
    b.set_kind({TENON_KIND_COMPLEX});
    CHECK(b.run("use_complex") == TENON_OK && b.results[0].as.parts[0] == 11 && b.results[0].as.parts[1] == -18);
    call_of c;
    c.set_list(0, TENON_KIND_BYTES, bytes, 3);
    c.set_list(1, TENON_KIND_BYTES, bytes, 3);
    c.set_kind({TENON_KIND_BYTES});
    CHECK(c.run("use_bytes") == TENON_OK && returned_size == 2 && std::memcmp(returned, bytes, 2) == 0);
    call_of d;
    d.set_list(0, TENON_KIND_STRS, texts, 2);
    d.set_kind({TENON_KIND_INT});
    CHECK(d.run("use_texts") == TENON_OK && d.results[0].as.integer == 103);
    call_of e;
    e.args[0].as.dtype = TENON_F16;
    e.set_kind({TENON_KIND_INT});
    CHECK(e.run("use_dtype") == TENON_OK && e.results[0].as.integer == 16);
    float one[] = {1, 2}, two[] = {10};
    tensor items[] = {{one, TENON_F32, {2}}, {two, TENON_F32, {1}}};
    const tenon_view views[] = {items[0].view, items[1].view};
    call_of f;
    f.set_list(0, TENON_KIND_TENSORS, views, 2);
    f.set_kind({TENON_KIND_FLOAT});
    CHECK(f.run("use_list") == TENON_OK && f.results[0].as.number == 13);
}

static void test_lists()
{
    const int64_t ints[] = {1, 2}, sums[] = {11, 22};
    const double floats[] = {10, 20};
    call_of a;
    a.set_list(0, TENON_KIND_INTS, ints, 2);
    a.set_list(1, TENON_KIND_FLOATS, floats, 2);
    a.set_kind({TENON_KIND_INTS});
    CHECK(a.run("return_ints") == TENON_OK && returned_size == sizeof sums);
    CHECK(std::memcmp(returned, sums, sizeof sums) == 0);
    call_of b;
    b.set_list(0, TENON_KIND_STR, "xyz", 3);
    b.set_kind({TENON_KIND_STRS});
    host.result_list = host_texts;
    CHECK(b.run("return_texts") == TENON_OK && returned_size == 4 && std::memcmp(returned, "xxyz", 4) == 0);
    host.result_list = host_list;
}

static void test_values()
{
    call_of a;
    a.args[0].as.number = 1;
    a.set_list(1, TENON_KIND_STR, "four", 4);
    a.set_int(2, TENON_KIND_BOOL, 1);
    a.set_int(3, TENON_KIND_ENUM, 1);
    a.set_kind({TENON_KIND_FLOAT, TENON_KIND_INT, TENON_KIND_BOOL, TENON_KIND_ENUM});
    CHECK(a.run("use_many") == TENON_OK);
    CHECK(a.results[0].as.number == 8 && a.results[1].as.integer == 4);
    CHECK(a.results[2].as.integer == 0 && a.results[3].as.integer == 1);
    a.args[4].kind = TENON_KIND_FLOAT, a.args[4].as.number = 0.5;
    a.set_int(5, TENON_KIND_INT, 2);
    CHECK(a.run("use_many") == TENON_OK && a.results[0].as.number == 3.5);
}

static void test_tensors()
{
    float x[] = {1, 2, 3};
    tensor rows(x, TENON_F32, {3});
    call_of a;
    a.set_int(0, TENON_KIND_INT, 2);
    a.set_kind({TENON_KIND_FLOAT});
    CHECK(a.run("add") == TENON_OK && a.results[0].as.number == 0); // not given
    a.set_tensor(1, rows);
    CHECK(a.run("add") == TENON_OK && a.results[0].as.number == 3);
    call_of b;
    b.set_kind({TENON_KIND_TENSOR, TENON_KIND_INT});
    CHECK(b.run("fill_rows") == TENON_OK && b.results[1].as.integer == 6 && allocated[5] == 12);
    call_of c;
    tensor deep(x, TENON_F32, {1, 1, 3});
    c.set_tensor(0, deep);
    c.set_kind({TENON_KIND_INT});
    CHECK(c.run("first") == TENON_OK && c.results[0].as.integer == 3);
    call_of d;
    d.set_tensor(0, rows);
    d.set_int(1, TENON_KIND_INT, 2);
    d.set_kind({TENON_KIND_TENSOR});
    CHECK(d.run("repeat", true) == TENON_OK && fresh->shape[0] == 6);
    CHECK(d.run("repeat") == TENON_OK && allocated[0] == 1 && allocated[5] == 3);
}

static void test_dispatch()
{
    double x[] = {1, 2}, z[2];
    int64_t y[] = {10, 20};
    tensor first(x, TENON_F64, {2}), second(y, TENON_I64, {2}), result(z, TENON_F64, {2});
    call_of a;
    a.args[0].as.number = 3;
    a.set_tensor(1, first);
    a.set_tensor(2, second);
    a.results[0].as.view = &result.view;
    a.types[0] = TENON_F64, a.types[1] = TENON_I64;
    CHECK(a.run("scale") == TENON_OK && z[0] == 13 && z[1] == 26);
    a.types[1] = TENON_I8; // no host lets that pass
    CHECK(a.run("scale") == TENON_EDTYPE);
    CHECK(std::strcmp(said, "the function has no C++ type for the dtype of U") == 0);
}

static void test_objects()
{
    float x[] = {1, 2};
    tensor memory(x, TENON_F32, {2});
    call_of a;
    a.set_int(0, TENON_KIND_INT, 5);
    a.set_tensor(1, memory);
    a.set_kind({TENON_KIND_HANDLE});
    CHECK(a.run("counter") == TENON_OK && counter::alive == 1 && kept_alive == 1);
    CHECK(static_cast<counter *>(object)->memory.data() == x);
    call_of b;
    b.args[0].kind = TENON_KIND_HANDLE, b.args[0].as.handle.object = object;
    b.set_kind({TENON_KIND_INT});
    CHECK(b.run("counter.sum") == TENON_OK && b.results[0].as.integer == 5);
    nested::other third = {30};
    b.args[1] = b.args[0];
    b.args[2].kind = TENON_KIND_HANDLE, b.args[2].as.handle.object = &third;
    CHECK(b.run("counter.sum") == TENON_OK && b.results[0].as.integer == 40);
    destroy_object(object);
    CHECK(counter::alive == 0 && kept_alive == 0);
    call_of c;
    c.set_int(0, TENON_KIND_INT, 7);
    c.set_kind({TENON_KIND_HANDLE});
    CHECK(c.run("make") == TENON_OK && static_cast<nested::other *>(object)->value == 7);
    destroy_object(object);
    // An object that the host does not take, and a share that it does not give.
    refuses = true;
    host.arg_keep = [](tenon_call *call, int32_t index) {
        refuses = false;
        tenon_kept *kept = host_keep(call, index);
        refuses = true;
        return kept;
    };
    CHECK(a.run("counter") == TENON_ENOMEM && counter::alive == 0 && kept_alive == 0);
    host.arg_keep = host_keep;
    CHECK(a.run("counter") == TENON_EFAILED && counter::alive == 0 && kept_alive == 0);
    refuses = false;
}

static void test_parallel()
{
    double x[] = {1, 2, 3, 4, 5};
    tensor all(x, TENON_F64, {5});
    call_of a;
    a.set_tensor(0, all);
    parts = 0;
    CHECK(a.run("square_in_parallel") == TENON_OK && parts == 3 + 5 && x[4] == 26 && x[0] == 2);
    host.parallel = nullptr; // all at once
    CHECK(a.run("square_in_parallel") == TENON_OK && parts == 3 + 5 && x[0] == 5);
    tenon::parallel_for(3, 1, [&](int64_t i) { x[i] = 7; }); // outside of any call
    CHECK(x[0] == 7 && x[2] == 7 && parts == 3 + 5);
}

static void test_current_call()
{
    call_of outer, inner;
    CHECK(!tenon::call());
    {
        tenon::impl::call_scope first(&outer.call);
        inner.set_int(0, TENON_KIND_UINT, 1);
        inner.set_kind({TENON_KIND_UINT});
        CHECK(inner.run("use_uint") == TENON_OK && tenon::call() == &outer.call);
    }
    CHECK(!tenon::call());
}

#ifdef TENON__EXCEPTIONS
static void test_errors()
{
    call_of a;
    char text[1200] = "x";
    for (int i = 0; i < 500; i++)
        std::strcat(text, "\u00e4"); // two bytes
    for (const char *start : {text, text + 1}) {
        try {
            throw tenon::error(TENON_ESHAPE, start);
        } catch (...) {
            CHECK(tenon::impl::caught(&a.call) == TENON_ESHAPE);
        }
        size_t length = std::strlen(said); // cut between two characters
        CHECK(length > 700 && length % 2 == (start == text) && std::strncmp(said, start, length) == 0);
    }
    try {
        throw tenon::error(TENON_EINVAL, nullptr);
    } catch (const tenon::error &reason) {
        CHECK(reason.status() == TENON_EINVAL && reason.what()[0] == '\0');
    }
}
#endif

int main()
{
    host.size = sizeof host;
    host.minor = TENON_ABI_MINOR;
    host.name = "made by hand";
    host.fail = host_fail;
    host.result_alloc = host_alloc;
    host.result_handle = host_handle;
    host.scratch = host_scratch;
    host.arg_keep = host_keep;
    host.result_bytes = host_bytes;
    host.result_list = host_list;
    host.parallel = host_parallel;
    test_table();
    test_later_kinds();
    test_lists();
    test_values();
    test_tensors();
    test_dispatch();
    test_objects();
    test_parallel();
    test_current_call();
#ifdef TENON__EXCEPTIONS
    test_errors();
#endif
    delete fresh;
    return 0;
}
