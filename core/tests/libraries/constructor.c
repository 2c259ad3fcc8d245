/* A library that, while it is opened, calls what the test asks for: the function at the address in TENON_TEST_FUNCTION. */
#include <tenon/function.h>

#include <stdlib.h>
#include <string.h>

static void __attribute__((constructor)) start(void)
{
    const char *address = getenv("TENON_TEST_FUNCTION");
    void (*function)(void) = NULL;
    if (address) {
        uintptr_t number = (uintptr_t)strtoull(address, NULL, 16);
        memcpy(&function, &number, sizeof function);
        function();
    }
}

static tenon_status answer(tenon_call *call)
{
    tenon_return_int(call, 0, 3);
    return TENON_OK;
}

TENON_MODULE(constructor, "Calls the test.", TENON_FUNCTION("answer() -> int", answer, NULL))
