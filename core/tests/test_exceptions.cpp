// No exception crosses C: what a C++ function throws becomes a failed call.
#include <tenon/function.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

static char said[900];

static tenon_status host_fail(tenon_call *call, tenon_status status, const char *message, size_t length)
{
    call->flags |= TENON_CALL_FAILED;
    std::memcpy(said, message, length);
    said[length] = '\0';
    return status;
}

static tenon_status throws(tenon_call *)
{
    throw std::runtime_error("100% wrong");
}

static tenon_status throws_a_number(tenon_call *)
{
    throw 7;
}

static tenon_status returns(tenon_call *call)
{
    int64_t shape[] = {3}, strides[] = {2};
    int32_t elements[] = {1, 2, 3, 4, 5};
    tenon_view view = {};
    view.data = elements;
    view.shape = shape;
    view.strides = strides;
    tenon_at(&view, int32_t, 2) = 50;
    return elements[4] == 50 && tenon_at(&view, const int32_t, 1) == 3 && !tenon_given(call, 0) ? TENON_EBOUNDS : 0;
}

TENON_MODULE(cpp, "In C++.", TENON_FUNCTION("a()", throws, "Throws."),
             TENON_FUNCTION_SHAPED("b() -> f32[?]", throws_a_number, throws, "Throws.", TENON_KEEP_LOCK),
             TENON_FUNCTION("c()", returns, "Returns."))

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                               \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

int main()
{
    tenon_host host = {};
    host.size = sizeof host;
    host.fail = host_fail;
    tenon_call call = {};
    call.host = &host;
    const tenon_module *module = tenon_module_v1();
    CHECK(module->nfunctions == 3);
    CHECK(module->functions[0].call(&call) == TENON_EFAILED);
    CHECK(std::strcmp(said, "100% wrong") == 0);
    CHECK(module->functions[1].call(&call) == TENON_EFAILED);
    CHECK(std::strcmp(said, "it threw what is no std::exception") == 0);
    CHECK(module->functions[1].shape(&call) == TENON_EFAILED);
    CHECK(std::strcmp(said, "100% wrong") == 0);
    CHECK(call.flags & TENON_CALL_FAILED);
    CHECK(module->functions[2].call(&call) == TENON_EBOUNDS);
    return 0;
}
