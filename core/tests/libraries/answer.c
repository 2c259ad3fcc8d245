/* A library whose builds differ in one number. */
#include <tenon/function.h>

static int64_t calls;

static tenon_status answer(tenon_call *call)
{
    tenon_return_int(call, 0, ANSWER);
    return TENON_OK;
}

static tenon_status next(tenon_call *call)
{
    tenon_return_int(call, 0, ++calls);
    return TENON_OK;
}

TENON_MODULE(answers, "Answers.", TENON_FUNCTION("answer() -> int", answer, NULL),
             TENON_FUNCTION("next() -> int", next, NULL))
