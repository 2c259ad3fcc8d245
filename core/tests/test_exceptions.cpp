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
    return elements[4] == 50 && tenon_at(&view, const int32_t, 1) == 3 && !tenon_has_arg(call, 0) ? TENON_EBOUNDS : 0;
}

struct out_of_mine : std::out_of_range {
    using std::out_of_range::out_of_range;
};

/* Every class of the standard that has a status of its own, and some that have none. */
static tenon_status throws_by_number(tenon_call *call)
{
    switch (call->nargs) {
    case 0:
        throw std::invalid_argument("invalid");
    case 1:
        throw std::domain_error("domain");
    case 2:
        throw std::length_error("length");
    case 3:
        throw std::range_error("range");
    case 4:
        throw std::out_of_range("bounds");
    case 5:
        throw out_of_mine("derived");
    case 6:
        throw std::overflow_error("overflow");
    case 7:
        throw std::bad_alloc();
    case 8:
        throw std::underflow_error("underflow");
    default:
        throw std::logic_error("logic");
    }
}

static const struct {
    tenon_status status;
    const char *words;
} thrown[] = {{TENON_EINVAL, "invalid"},     {TENON_EINVAL, "domain"},  {TENON_EINVAL, "length"},
              {TENON_EINVAL, "range"},       {TENON_EBOUNDS, "bounds"}, {TENON_EBOUNDS, "derived"},
              {TENON_EOVERFLOW, "overflow"}, {TENON_ENOMEM, nullptr},   {TENON_EFAILED, "underflow"},
              {TENON_EFAILED, "logic"}};

TENON_MODULE(cpp, "In C++.", TENON_FUNCTION("a()", throws, "Throws."),
             TENON_FUNCTION_SHAPED("b() -> f32[?]", throws_a_number, throws, "Throws.", TENON_KEEP_LOCK),
             TENON_FUNCTION("c()", returns, "Returns."), TENON_FUNCTION("d()", throws_by_number, "Throws."))

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
    CHECK(module->nfunctions == 4);
    CHECK(module->functions[0].call(&call) == TENON_EFAILED);
    CHECK(std::strcmp(said, "100% wrong") == 0);
    CHECK(module->functions[1].call(&call) == TENON_EFAILED);
    CHECK(std::strcmp(said, "it threw something that is not a std::exception") == 0);
    CHECK(module->functions[1].shape(&call) == TENON_EFAILED);
    CHECK(std::strcmp(said, "100% wrong") == 0);
    CHECK(call.flags & TENON_CALL_FAILED);
    CHECK(module->functions[2].call(&call) == TENON_EBOUNDS);
    for (call.nargs = 0; call.nargs < (int32_t)(sizeof thrown / sizeof *thrown); call.nargs++) {
        CHECK(module->functions[3].call(&call) == thrown[call.nargs].status);
        CHECK(!thrown[call.nargs].words || std::strcmp(said, thrown[call.nargs].words) == 0);
    }
    return 0;
}
