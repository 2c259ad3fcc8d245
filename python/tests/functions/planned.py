"""What the tests of calls by plan share: functions that see their calls."""

import functools

SOURCE = r"""
#include <stdlib.h>
#include <tenon/function.h>

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 0x100000001b3u;
}

/* All that a function can see of its call. */
static int64_t seen(const tenon_call *call)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int32_t i = 0; i < call->nargs; i++) {
        const tenon_value *value = &call->args[i];
        hash = mixed(mixed(hash, value->kind), value->flags);
        if (value->kind == TENON_KIND_NONE)
            continue;
        if (value->kind == TENON_KIND_HANDLE) {
            hash = mixed(hash, (uint64_t) * (const int64_t *)value->as.handle.object);
            continue;
        }
        if (value->kind != TENON_KIND_TENSOR) {
            hash = mixed(hash, (uint64_t)value->as.integer);
            if (value->kind == TENON_KIND_STR || value->kind == TENON_KIND_BYTES)
                hash = mixed(hash, (uint64_t)value->as.list.length);
            continue;
        }
        const tenon_view *view = value->as.view;
        hash = mixed(mixed(hash, (uintptr_t)view->data), view->flags);
        hash = mixed(mixed(hash, (uint64_t)view->numel), view->byte_offset);
        hash = mixed(hash, (uint64_t)view->dtype.code << 32 | (uint64_t)view->dtype.bits << 16 | view->dtype.lanes);
        hash = mixed(mixed(hash, (uint64_t)view->device.device_type), (uint64_t)view->device.device_id);
        hash = mixed(hash, (uint64_t)view->ndim);
        for (int32_t k = 0; k < view->ndim; k++)
            hash = mixed(mixed(hash, (uint64_t)view->shape[k]), (uint64_t)view->strides[k]);
    }
    for (int32_t i = 0; i < call->ndims; i++)
        hash = mixed(hash, (uint64_t)call->dims[i]);
    for (int32_t i = 0; i < call->ntypes; i++)
        hash = mixed(hash, (uint64_t)call->types[i].code << 32 | (uint64_t)call->types[i].bits << 16 | call->types[i].lanes);
    hash = mixed(mixed(hash, (uint64_t)call->nresults), call->flags);
    return (int64_t)(hash >> 1);
}

static tenon_status see(tenon_call *call)
{
    tenon_return_int(call, 0, seen(call));
    return TENON_OK;
}

static tenon_status see_rw(tenon_call *call)
{
    float *x = tenon_rw_data(call, 0, float);
    if (tenon_arg(call, 0)->numel)
        x[0] += 1;
    tenon_return_int(call, 0, seen(call));
    return TENON_OK;
}

static tenon_status make(tenon_call *call)
{
    double *out = tenon_result_data(call, 0, double);
    for (int64_t i = 0, n = tenon_result(call, 0)->numel; i < n; i++)
        out[i] = (double)i;
    tenon_return_int(call, 1, seen(call));
    return TENON_OK;
}

static tenon_status fail(tenon_call *call)
{
    return tenon_fail(call, TENON_EINVAL, "no: %lld", (long long)tenon_dim(call, 0));
}

static tenon_status hold(tenon_call *call)
{
    int64_t *held = malloc(sizeof *held);
    if (!held)
        return TENON_ENOMEM;
    *held = tenon_arg_int(call, 0);
    return tenon_return_handle(call, 0, held, free);
}

TENON_MODULE(planned, "Sees its calls.",
             TENON_FUNCTION("one(x: f32[n]) -> int", see, ""),
             TENON_FUNCTION("in_order(x: f32[n] c, y: f32[n] c) -> int", see, ""),
             TENON_FUNCTION("square(x: f64[n, n], y: i64[n]) -> int", see, ""),
             TENON_FUNCTION("mixed(a: float, x: f32[n, m], k: int, y: i32[m, _], b: bool) -> int", see, ""),
             TENON_FUNCTION("fortran(x: f32[n, m] f) -> int", see, ""),
             TENON_FUNCTION("aligned(x: f32[n] aligned(64)) -> int", see, ""),
             TENON_FUNCTION("written(x: f32[n, m] rw) -> int", see_rw, ""),
             TENON_FUNCTION("scalar(x: f64[]) -> int", see, ""),
             TENON_FUNCTION("make(x: f64[n], y: u8[m]) -> f64[m, n], int", make, ""),
             TENON_FUNCTION("fails(x: f32[n]) -> int", fail, ""),
             TENON_FUNCTION("nothing() -> int", see, ""),
             TENON_CLASS("Held", ""), TENON_CLASS("Other", ""),
             TENON_FUNCTION("Held(k: int)", hold, ""),
             TENON_FUNCTION("Other(k: int)", hold, ""),
             TENON_FUNCTION("Held.numbers(self, *, a: float, b: float = 2.5, k: int = 3) -> int", see, ""),
             TENON_FUNCTION("Held.tensor(self, x: f32[n, 3], k: int = 1) -> int", see, ""),
             TENON_FUNCTION("Held.add(self, other: handle('Held'), k: int = 1) -> int", see, ""),
             TENON_FUNCTION("fixed(x: f32[n, 3], y: f32[2] c) -> int", see, ""),
             TENON_FUNCTION("optional(x: f32[n]?, y: f32[n, m]? = None, k: int = 3, a: float? = None) -> int", see, ""),
             TENON_FUNCTION("variable(x: T[n], y: T[n, _], z: f32|f64[n]) -> int where T = f32 | f64 | i32", see, ""),
             TENON_FUNCTION("aligned_variable(x: T[n] aligned(16)) -> int where T = any", see, ""),
             TENON_FUNCTION("bound(n: int, x: f32[n]?, m: uint = 2) -> int", see, ""),
             TENON_FUNCTION("choice(k: 1|2|4, mode: 'mean'|'sum'|'\u00e9' = 'sum', s: str? = None, b: bytes? = None) -> int", see, ""),
             TENON_FUNCTION("condition(x: f32[n], k: int, eps: float = 0.5) -> int where k <= n, eps > 0", see, ""),
             TENON_FUNCTION("both(x: f32[n] rw, y: f32[n], z: f32[m]? rw) -> int", see_rw, ""),
             TENON_FUNCTION("alias(x: f32[n] rw alias, y: f32[n]) -> int", see_rw, ""),
             TENON_FUNCTION("by_name(x: f32[n], *, k: int, flag: bool = False) -> int", see, ""),
             TENON_FUNCTION("make_more(x: T[n], k: int) -> f64[n + k, 2], int where T = f64", make, ""),
             TENON_FUNCTION("make_less(x: f32|f64[n], k: int) -> f64[n - k], int", make, ""),
             TENON_FUNCTION("many(a: f32[n], b: f32[n], c: f32[n], d: f32[n], e: f32[n], f: f32[n], g: float) -> int", see, ""))
"""

NAMES = ["one", "in_order", "square", "mixed", "fortran", "aligned", "written", "scalar", "make", "fails", "nothing", "fixed",
         "optional", "variable", "aligned_variable", "bound", "choice", "condition", "both", "alias", "by_name", "make_more",
         "make_less", "many"]
METHODS = ["numbers", "tensor", "add"]


def load(building, monkeypatch):
    """The library by plan, and in general."""
    path = building.build(SOURCE)
    planned = building.tenon.load(path)
    with monkeypatch.context() as patched:
        patched.setenv("TENON_PLAN", "0")
        return planned, building.tenon.load(path)


def random_call(rng, arguments):
    """The arguments, given by their positions or by keywords, and some of them left out."""
    names, positional = list(arguments), rng.randrange(len(arguments) + 1) if rng.random() < 0.5 else len(arguments)
    keywords = names[positional:]
    if keywords and rng.random() < 0.3:
        keywords.remove(rng.choice(keywords))
    if rng.random() < 0.3:
        rng.shuffle(keywords)
    keywords += [rng.choice([*names, "other", "out", "like"])] if rng.random() < 0.02 else []
    return [arguments[name] for name in names[:positional]], {name: arguments.get(name) for name in keywords}


@functools.lru_cache(maxsize=None)
def call_site(count, keywords):
    """A function that calls another one. The names of the keywords are the same tuple in each call, as in most programs."""
    given = [f"args[{i}]" for i in range(count)] + [f"{keyword}=kwargs['{keyword}']" for keyword in keywords]
    return eval(f"lambda function, args, kwargs: function({', '.join(given)})")


def outcome(call, *args, **kwargs):
    try:
        return call_site(len(args), tuple(kwargs))(call, args, kwargs)
    except Exception as error:
        return type(error), str(error)
