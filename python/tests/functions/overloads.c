/* Overloaded functions: entries of one name, which say which of them was called. */
#include <tenon/function.h>

#include <stdlib.h>
#include <string.h>

/* The signature of the entry that was called. */
static tenon_status chosen(tenon_call *call)
{
    const char *signature = call->function->signature;
    return tenon_return_str(call, call->nresults - 1, signature, strlen(signature));
}

static tenon_status twice32(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        tenon_result_data(call, 0, float)[i] = 2 * tenon_data(call, 0, float)[i];
    return TENON_OK;
}

static tenon_status twice64(tenon_call *call)
{
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        tenon_result_data(call, 0, double)[i] = 2 * tenon_data(call, 0, double)[i];
    return TENON_OK;
}

static tenon_status twice_number(tenon_call *call)
{
    return tenon_return_double(call, 0, 2 * tenon_arg_double(call, 0));
}

static tenon_status failing(tenon_call *call)
{
    return tenon_fail(call, TENON_EDTYPE, "the function fails by itself");
}

static tenon_status range(tenon_call *call)
{
    for (int i = 0; i < call->nresults; i++)
        tenon_return_int(call, i, i);
    return TENON_OK;
}

static tenon_status make_box(tenon_call *call)
{
    int64_t *box = malloc(sizeof *box);
    *box = call->nargs == 0                       ? 0
           : call->args[0].kind == TENON_KIND_INT ? tenon_arg_int(call, 0)
                                                  : tenon_arg(call, 0)->numel;
    return tenon_return_handle(call, 0, box, free);
}

static tenon_status box_value(tenon_call *call)
{
    return tenon_return_int(call, 0, *(int64_t *)tenon_arg_handle(call, 0));
}

TENON_MODULE(overloads, "Overloads.", TENON_FUNCTION("chosen(x: f32[n] c) -> str", chosen, "One."),
             TENON_FUNCTION("chosen(x: f64[n]) -> str", chosen, NULL),
             TENON_FUNCTION("twice(x: f32[n]) -> f32[n]", twice32, "Returns 2 * x."),
             TENON_FUNCTION("chosen(x: f32[n, m]) -> str", chosen, NULL),
             TENON_FUNCTION("chosen(n: int) -> str", chosen, NULL),
             TENON_FUNCTION("chosen(n: float) -> str", chosen, NULL),
             TENON_FUNCTION("chosen(mode: 'a'|'b') -> str", chosen, "A mode."),
             TENON_FUNCTION("chosen(text: str) -> str", chosen, NULL),
             TENON_FUNCTION("chosen(x: f32[n], y: f32[n]) -> str", chosen, NULL),
             TENON_FUNCTION("chosen(*, key: int) -> str", chosen, NULL),
             TENON_FUNCTION("chosen(xs: [f32[n]]) -> str", chosen, NULL),
             TENON_FUNCTION("twice(x: f64[n]) -> f64[n]", twice64, NULL),
             TENON_FUNCTION("twice(x: float) -> float", twice_number, NULL),
             TENON_FUNCTION("sized(x: f32[n]) -> str where n < 3", chosen, NULL),
             TENON_FUNCTION("sized(x: f32[n]) -> str where n >= 3", chosen, NULL),
             TENON_FUNCTION("fails(x: f32[n])", failing, NULL), TENON_FUNCTION("fails(x: f32|f64[n])", chosen, NULL),
             TENON_FUNCTION("range(n: int) -> low: int, high: int", range, NULL),
             TENON_FUNCTION("range(n: float) -> low: int, high: int", range, NULL),
             TENON_FUNCTION("range(n: str) -> low: int, high: int, step: int", range, NULL),
             TENON_FUNCTION("strict(x: f32[n]) -> str", chosen, NULL),
             TENON_FUNCTION_FLAGS("strict(x: f32|f64[n]) -> str", chosen, NULL, TENON_NO_GRAD_CHECK),
             TENON_FUNCTION("alone(x: f32[n]) -> str", chosen, "Alone."),
             TENON_FUNCTION("number(x: float) -> float", twice_number, NULL), TENON_CLASS("Box", "A box."),
             TENON_FUNCTION("Box()", make_box, "An empty one."),
             TENON_FUNCTION("Box(value: int)", make_box, "One with a value."),
             TENON_FUNCTION("Box(values: f32[n])", make_box, NULL),
             TENON_FUNCTION("Box.value(self) -> int", box_value, NULL),
             TENON_FUNCTION("Box.put(self, x: f32[n] c) -> str", chosen, "Puts floats."),
             TENON_FUNCTION("Box.put(self, other: handle('Box')) -> str", chosen, NULL),
             TENON_FUNCTION("Box.put(self) -> str", chosen, NULL),
             TENON_FUNCTION("Box.of(n: int) -> str", chosen, NULL),
             TENON_FUNCTION("Box.of(n: str) -> str", chosen, NULL))
