/* A library that needs the one in lib1 beside it. */
#include <tenon/function.h>

extern int helper(void);

static tenon_status answer(tenon_call *call)
{
    tenon_return_int(call, 0, helper());
    return TENON_OK;
}

TENON_MODULE(dependent, "Asks its helper.", TENON_FUNCTION("answer() -> int", answer, NULL))
