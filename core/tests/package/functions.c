/* A module of functions, built by tenon_add_module of the installed CMake package. */
#include <tenon/function.h>

static tenon_status answer(tenon_call *call)
{
    tenon_return_int(call, 0, 42);
    return TENON_OK;
}

TENON_MODULE(functions, NULL, TENON_FUNCTION("answer() -> int", answer, NULL))
