"""Loops of one function, beside torch, NumPy and numba (if it is installed): batches on one thread, saxpy and softmax on all."""
import math
import pathlib

SAXPY = """
#include <tenon/function.h>

typedef struct arrays {
    const float *x, *y;
    float *z, a;
} arrays;

static tenon_status some(void *context, int64_t begin, int64_t end)
{
    const arrays *s = context;
    for (int64_t i = begin; i < end; i++)
        s->z[i] = s->a * s->x[i] + s->y[i];
    return TENON_OK;
}

static tenon_status saxpy(tenon_call *call)
{
    arrays s = {tenon_data(call, 1, float), tenon_data(call, 2, float), tenon_result_data(call, 0, float),
                (float)tenon_arg_double(call, 0)};
    return tenon_parallel_for(call, tenon_dim(call, 0), 20000, some, &s);
}

TENON_MODULE(loops, NULL,
    TENON_FUNCTION_FLAGS("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, NULL, TENON_RELEASE_LOCK))
"""
ADD = """
#include <tenon/function.h>

TENON_ELEMENTWISE(add, z = x + y, float, z, float, x, float, y)

TENON_MODULE(batches, NULL, TENON_FUNCTION("add(x: f32[**b], y: f32[**b]) -> f32[**b]", add, NULL))
"""
SOFTMAX = pathlib.Path(__file__).resolve().parents[2] / "examples/loops/softmax.c"
FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-ffinite-math-only", "-lm"]


def by_numba(numpy):
    try:
        import numba
    except ImportError:
        return None

    @numba.njit(parallel=True)
    def saxpy(a, x, y, z):
        for i in numba.prange(x.size):
            z[i] = a * x[i] + y[i]
        return z

    return saxpy


def rows_of_saxpy(session, kernels, threads, torch, numpy):
    n = 10**6 if session.plan.quick else 10**7
    x, y, z = (torch.full((n,), value) for value in (1.0, 2.0, 0.0))
    arrays = [x.numpy(), y.numpy(), z.numpy()]
    contenders = {"tenon": (lambda: kernels.saxpy(3.0, x, y, out=z), []),
                  "torch": (lambda: torch.add(y, x, alpha=3.0, out=z), []),
                  "numpy": (lambda: numpy.add(numpy.multiply(arrays[0], numpy.float32(3), out=arrays[2]), arrays[1],
                                              out=arrays[2]), [])}
    compiled = by_numba(numpy)
    if compiled:
        import numba
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        contenders["numba"] = (lambda: compiled(numpy.float32(3), *arrays), [])
        compiled(numpy.float32(3), *arrays)  # its runtime sets OpenMP's number of threads when it starts
        torch.set_num_threads(threads)
    session.compare(f"saxpy of {n:,} f32, {threads} threads", "torch", contenders, check=lambda a: math.isclose(float(a[-1]), 5.0))


def rows_of_softmax(session, kernels, threads, torch, numpy):
    rows = 256 if session.plan.quick else 4096
    x = torch.randn(rows, 1024)
    array = x.numpy()

    def by_numpy():
        y = numpy.exp(array - array.max(axis=-1, keepdims=True))
        return y / y.sum(axis=-1, keepdims=True)

    session.compare(f"softmax of {rows:,} rows of 1,024, {threads} threads", "torch", {
        "tenon": (lambda: kernels.parallel(x), []), "torch": (lambda: torch.softmax(x, -1), []), "numpy": (by_numpy, [])},
        check=lambda a: math.isclose(float(a[0].sum()), 1.0, rel_tol=1e-4))


def rows_of_batches(session, kernels, numpy):
    """A million additions, of arrays that are not in C order and of arrays that are repeated."""
    n = 1000

    def ones(*shape):
        return numpy.ones(shape, "float32")

    pairs = {
        "dense": (ones(n, n), ones(n, n)),
        "strided": (ones(n, 2 * n)[:, ::2], ones(n, 2 * n)[:, ::2]),
        "rows of a matrix": (ones(n, n + 8)[:, :n], ones(n, n)),
        "transposed": (ones(n, n).T, ones(n, n).T),
        "one transposed": (ones(n, n).T, ones(n, n)),
        "broadcast row": (ones(n, n), ones(n)),
        "broadcast column": (ones(n, n), ones(n, 1)),
        "outer": (ones(n, 1), ones(1, n)),
        "runs of 3": (ones(n * n // 3, 4)[:, :3], ones(3)),
        "runs of 6": (ones(n * n // 6, 8)[:, :6], ones(6)),
        "runs of 10": (ones(n * n // 10, 16)[:, :10], ones(10)),
        "runs of 15": (ones(n * n // 15, 16)[:, :15], ones(15)),
        "runs of 10, column": (ones(n * n // 10, 16)[:, :10], ones(n * n // 10, 1)),
    }
    for title, (x, y) in pairs.items():
        z = numpy.empty(numpy.broadcast_shapes(x.shape, y.shape), "float32")
        session.compare(f"add, {title}", "numpy", {
            "tenon": (lambda x=x, y=y, z=z: kernels.add(x, y, out=z), []),
            "numpy": (lambda x=x, y=y, z=z: numpy.add(x, y, out=z), [])}, check=lambda a: bool((a == 2).all()))


def parallel_rows(session):
    import os

    import numpy
    import tenon
    import torch
    cores = len(os.sched_getaffinity(0))
    kernels = tenon.compile(SAXPY, native=True)
    softmax = tenon.compile(SOFTMAX, flags=FLAGS, native=True)
    torch.set_num_threads(1)
    rows_of_batches(session, tenon.compile(ADD), numpy)
    for threads in sorted({1, 2, cores} & set(range(1, cores + 1))):
        torch.set_num_threads(threads)
        rows_of_saxpy(session, kernels, threads, torch, numpy)
        rows_of_softmax(session, softmax, threads, torch, numpy)
