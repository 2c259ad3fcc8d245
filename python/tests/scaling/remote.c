/* Functions that are called in other processes. */
#define _GNU_SOURCE
#include <tenon/function.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tenon_status saxpy(tenon_call *call)
{
    float a = (float)tenon_arg_double(call, 0);
    const float *x = tenon_data(call, 1, float);
    const float *y = tenon_data(call, 2, float);
    float *z = tenon_result_data(call, 0, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        z[i] = a * x[i] + y[i];
    return TENON_OK;
}

static tenon_status split(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    float *y = tenon_result_data(call, 0, float), *z = tenon_result_data(call, 1, float);
    for (int64_t i = 0; i < tenon_dim(call, 0); i++) {
        y[i] = x[i];
        z[i] = -x[i];
    }
    tenon_return_int(call, 2, tenon_dim(call, 0));
    return TENON_OK;
}

static tenon_status total(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    double sum = 0;
    for (int64_t i = 0; i < tenon_dim(call, 0); i++)
        sum += x[i];
    tenon_return_double(call, 0, sum);
    return TENON_OK;
}

static tenon_status nothing(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}

static tenon_status scale(tenon_call *call)
{
    float *x = call->nargs > 0 && tenon_arg(call, 0) ? tenon_rw_data(call, 0, float) : NULL;
    for (int64_t i = 0; x && i < tenon_dim(call, 0); i++)
        x[i] *= 2;
    return TENON_OK;
}

static tenon_status fail(tenon_call *call)
{
    return tenon_fail(call, (tenon_status)tenon_arg_int(call, 0), "%s", tenon_arg_str(call, 1, NULL));
}

static tenon_status crash(tenon_call *call)
{
    (void)call;
    abort();
}

static tenon_status process(tenon_call *call)
{
    tenon_return_int(call, 0, getpid());
    return TENON_OK;
}

/* The address of the elements, and the file that is mapped there. */
static tenon_status place(tenon_call *call)
{
    uintptr_t address = (uintptr_t)tenon_data(call, 0, float), from, to;
    char line[512], name[400] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps)
        return tenon_fail(call, TENON_EFAILED, "no maps");
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %399[^\n]", &from, &to, name) >= 2 &&
            address >= from && address < to)
            break;
        else
            name[0] = 0;
    fclose(maps);
    tenon_return_int(call, 0, (int64_t)address);
    tenon_return_str(call, 1, name, strlen(name));
    return TENON_OK;
}

/* Make a file, then wait until there is another one. */
static tenon_status wait_for(tenon_call *call)
{
    FILE *started = fopen(tenon_arg_str(call, 0, NULL), "w");
    if (started)
        fclose(started);
    for (int i = 0; i < 120 * 100 && access(tenon_arg_str(call, 1, NULL), F_OK); i++)
        usleep(10 * 1000);
    return TENON_OK;
}

static tenon_status make_handle(tenon_call *call)
{
    return tenon_return_handle(call, 0, calloc(1, 1), free);
}

TENON_MODULE(remote, "For the tests of Ray and MPI.",
             TENON_FUNCTION("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
             TENON_FUNCTION("split(x: f32[n] c) -> same: f32[n], negative: f32[n], count: int", split, NULL),
             TENON_FUNCTION("total(x: f32[n] c) -> sum: float", total, NULL),
             TENON_FUNCTION("nothing()", nothing, NULL), TENON_FUNCTION("scale(x: f32[n] rw c)", scale, NULL),
             TENON_FUNCTION("scale_maybe(x: f32[n]? rw c = None)", scale, NULL),
             TENON_FUNCTION("fail(status: int, text: str)", fail, NULL), TENON_FUNCTION("crash()", crash, NULL),
             TENON_FUNCTION("process() -> int", process, NULL),
             TENON_FUNCTION("place(x: f32[n] c) -> int, str", place, NULL),
             TENON_FUNCTION_FLAGS("wait_for(started: str, end: str)", wait_for, NULL, TENON_RELEASE_LOCK),
             TENON_FUNCTION("make_handle() -> handle('Thing')", make_handle, NULL),
             TENON_FUNCTION("use_handle(thing: handle('Thing')? = None)", nothing, NULL),
             TENON_FUNCTION("close()", nothing, NULL), TENON_FUNCTION("_pool()", nothing, NULL),
             TENON_FUNCTION("_actor_id() -> int", process, NULL), TENON_CLASS("Item", NULL),
             TENON_FUNCTION("Item()", make_handle, NULL))
