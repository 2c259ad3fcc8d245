"""JAX operators on a GPU: a plain script, since nothing can be installed where there is one.

    python3 frameworks/jax/tests/gpu/run.py      builds the package with cc, and kernels.cu and twin.cu with nvcc; skips
                                                 without a GPU that JAX can use

It prints a line for each check and goes on after a failure. The status is 1 if a check failed.
"""
import ctypes
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time
import traceback
import warnings

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.append(str(ROOT / "python/tests"))
from compiling import build_cuda, build_package  # noqa: E402

CYCLES = 300_000_000
CHAIN = 64


class Skip(Exception):
    pass


def raises(kinds, function, *arguments, **keywords):
    """The type and the message of the exception, even if it comes only when the result is used."""
    try:
        jax.block_until_ready(function(*arguments, **keywords))
    except kinds as error:
        return type(error), str(error)
    raise AssertionError("nothing was raised")


def same(found, expected, tolerance=0.0):
    assert found.shape == expected.shape and found.dtype == expected.dtype, (found, expected)
    difference = jnp.abs(found.astype("f4") - expected.astype("f4"))
    assert float(jnp.max(difference, initial=0)) <= tolerance, float(jnp.max(difference, initial=0))


def on_gpu(x):
    return {device.platform for device in x.devices()} == {"gpu"}


def vector(count=1000):
    return jnp.arange(count, dtype="f4")


def reference(x, weight=None, eps=1e-6):
    y = x.astype("f4")
    y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + eps)
    return (y if weight is None else y * weight.astype("f4")).astype(x.dtype)


def matrix(rows, columns, seed=0):
    keys = jax.random.split(jax.random.key(seed))
    return jax.random.normal(keys[0], (rows, columns), "bfloat16"), jax.random.normal(keys[1], (columns,), "bfloat16")


# ---------------------------------------------------------------------------------------------------------- operators


def test_saxpy():
    x, y = vector(), jnp.ones(1000)
    for z in (ops.saxpy(2.0, x, y), jax.jit(lambda x, y: ops.saxpy(2.0, x, y))(x, y)):
        assert on_gpu(z)
        same(z, 2 * x + y)
    same(ops.saxpy(2.0, vector(0), vector(0)), vector(0))


def test_inside_a_larger_program():
    x, y = vector(), jnp.ones(1000)
    program = jax.jit(lambda x, y: jnp.sum(ops.saxpy(2.0, jnp.sin(x), y) * 3))
    expected = jnp.sum((2 * jnp.sin(x) + y) * 3)
    assert abs(float(program(x, y)) - float(expected)) < 1e-2 * abs(float(expected))


def test_rms_norm():
    for rows, columns in ((1, 64), (17, 1000), (300, 4096)):
        x, weight = matrix(rows, columns)
        same(ops.rms_norm(x, weight), reference(x, weight), 0.1)
        same(jax.jit(ops.rms_norm)(x), reference(x), 0.1)


def test_gradients_with_scratch_memory():
    """rms_norm_grad takes scratch memory on the device."""
    x, weight = matrix(33, 512)
    factor = jnp.linspace(-1, 1, x.size, dtype="f4").reshape(x.shape)

    def loss(function):
        return lambda x, weight: jnp.sum(function(x, weight).astype("f4") * factor)

    expected = jax.grad(loss(reference), (0, 1))(x, weight)
    for gradients in (jax.grad(loss(ops.rms_norm), (0, 1)), jax.jit(jax.grad(loss(ops.rms_norm), (0, 1)))):
        for found, wanted in zip(gradients(x, weight), expected):
            same(found, wanted, 0.02 * float(jnp.max(jnp.abs(wanted.astype("f4")))))


def test_vmap_of_a_batch_is_one_call():
    x, y = vector(60).reshape(3, 4, 5), jnp.ones((3, 4, 5))
    mapped = jax.jit(jax.vmap(ops.add))
    same(mapped(x, y), x + y)
    same(jax.vmap(jax.vmap(ops.add))(x, y), x + y)
    assert mapped.lower(x, y).compile().as_text().count('custom_call_target="tenon1') == 1


def test_vmap_without_a_batch_is_sequential():
    x, y = vector(60).reshape(12, 5), jnp.ones((12, 5))
    same(jax.vmap(lambda x, y: ops.saxpy(2.0, x, y))(x, y), 2 * x + y)
    same(jax.vmap(lambda x: ops.saxpy(2.0, x, y[0]))(x), 2 * x + y)


def test_scan_and_cond():
    y = vector(100)

    def step(carry, _):
        return ops.saxpy(0.5, y, carry), None

    found, _ = jax.jit(lambda x: jax.lax.scan(step, x, None, length=10))(jnp.zeros(100))
    same(found, 5 * y)
    chosen = jax.jit(lambda flag, x: jax.lax.cond(flag, lambda x: ops.saxpy(1.0, x, x), lambda x: x, x))
    same(chosen(True, y), 2 * y)
    same(chosen(False, y), y)


def test_written_argument_with_donation():
    x = jax.block_until_ready(vector() + 0)
    before = x.unsafe_buffer_pointer()
    y = jax.jit(lambda x: ops.scale(x, 3.0), donate_argnums=0)(x)
    same(y, 3 * vector())
    assert y.unsafe_buffer_pointer() == before, "the memory is another one"
    assert x.is_deleted()


def test_written_argument_without_donation():
    x = vector()
    same(jax.jit(lambda x: ops.scale(x, 3.0))(x), 3 * vector())
    same(x, vector())
    same(ops.scale(x, 2.0), 2 * vector())
    same(x, vector())


def test_scratch_memory_is_reused_in_order():
    x = vector(1 << 20)
    program = jax.jit(lambda x: [ops.slow_copy(x + i, 1_000_000) for i in range(20)])
    for i, y in enumerate(program(x)):
        same(y, x + i)


def test_scratch_memory_is_freed():
    if not jax.devices()[0].memory_stats():
        raise Skip("JAX does not tell how much memory is in use")

    def in_use():
        jax.block_until_ready(program(x))
        return jax.devices()[0].memory_stats()["bytes_in_use"]

    x = jnp.ones(1 << 22)
    program = jax.jit(ops.slow_copy)
    before = in_use()
    for _ in range(300):
        program(x)
    after = in_use()
    assert after <= before + (1 << 24), (before, after)


# ------------------------------------------------------------------------------------------------------------ streams


def place(x):
    kind, device, low, high = (int(n) for n in jax.jit(ops.where)(x))
    return kind, device, low | high << 32


def test_the_stream_is_that_of_xla():
    kind, device, stream = place(vector(3))
    assert (kind, device) == (2, 0), (kind, device)
    assert stream, "the call got the default stream"
    print(f"   stream {stream:#x}")


def test_work_is_in_order_on_the_stream_of_xla():
    x = jnp.zeros(1 << 20)
    program = jax.jit(lambda x: ops.slow_copy(ops.slow_copy(x + 1, CYCLES) + 1, CYCLES) + 1)
    y = program(x)
    assert float(y.min()) == float(y.max()) == 3.0


def test_the_caller_does_not_wait():
    x = jnp.zeros(1 << 10)
    program = jax.jit(lambda x: ops.slow_copy(x, 2_000_000_000))
    jax.block_until_ready(jax.jit(lambda x: ops.slow_copy(x, 0))(x))
    compiled = program.lower(x).compile()
    start = time.perf_counter()
    y = compiled(x)
    returned = time.perf_counter() - start
    jax.block_until_ready(y)
    done = time.perf_counter() - start
    print(f"   the call returned after {returned * 1e3:.2f} ms, its work was done after {done * 1e3:.0f} ms")


def test_two_streams():
    """torch writes late on a stream of its own, our functions read on XLA's, and torch reads on another one."""
    try:
        import torch
    except ImportError:
        raise Skip("no torch") from None
    if not torch.cuda.is_available():
        raise Skip("torch sees no GPU")
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(one):
        x = torch.zeros(1 << 20, device="cuda")
        torch.cuda._sleep(CYCLES)
        x += 1
        borrowed = jax.dlpack.from_dlpack(x)
    y = jax.jit(lambda x: ops.slow_copy(x, CYCLES))(borrowed)
    with torch.cuda.stream(other):
        z = torch.from_dlpack(y) * 2
        assert float(z.min()) == float(z.max()) == 2.0
    assert place(vector(3))[2] not in (one.cuda_stream, other.cuda_stream)


def test_threads():
    failed = []

    def work(number):
        try:
            x = jnp.full(1000, float(number))
            program = jax.jit(lambda x: ops.saxpy(float(number), x, ops.slow_copy(x, 1000)))
            for _ in range(100):
                same(program(x), number * x + x)
        except BaseException as problem:  # noqa: BLE001 - reported by the main thread
            failed.append(repr(problem))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


# ------------------------------------------------------------------------------------------------------------- errors


def test_shapes_and_dtypes():
    x = vector(5)
    for arguments in ((2.0, x, x[:3]), (2.0, x, x.astype("i4")), (2.0, x, x[:, None])):
        kind, words = raises((TypeError, ValueError), jax.jit(lambda x, y: ops.saxpy(2.0, x, y)), *arguments[1:])
        assert words.startswith("saxpy(): argument 'y'"), words
        print(f"   {kind.__name__}: {words}")


def test_a_traced_number_is_refused():
    x = vector(5)
    kind, words = raises(Exception, jax.jit(ops.saxpy), 2.0, x, x)
    assert kind is ValueError and "'a'" in words, (kind, words)
    print(f"   {kind.__name__}: {words}")


def test_an_error_of_the_function():
    x = vector(5)
    program = jax.jit(ops.fails)
    for _ in range(3):
        kind, words = raises((RuntimeError, ValueError), program, x)
        assert "singular at row 7" in words, words
        same(ops.saxpy(2.0, x, x), 3 * x)
    print(f"   {kind.__name__}: {words}")
    kind, words = raises((RuntimeError, ValueError), kernels.fails, x)
    assert "singular at row 7" in words, words
    same(ops.saxpy(2.0, x, x), 3 * x)


def test_a_function_of_the_cpu():
    x = vector(5)
    kind, words = raises(Exception, jax.jit(ops.first), x)
    print(f"   on a GPU: {kind.__name__}: {words.splitlines()[0]}")
    cpu = jax.devices("cpu")[0]
    assert float(jax.jit(ops.first)(jax.device_put(x + 1, cpu))) == 1
    kind, words = raises(Exception, jax.jit(lambda x: ops.saxpy(2.0, x, x)), jax.device_put(x, cpu))
    print(f"   on the CPU: {kind.__name__}: {words.splitlines()[0]}")


# -------------------------------------------------------------------------------------------------------- eager calls


def test_eager_calls_return_arrays_on_the_gpu():
    x, y = vector(), jnp.ones(1000)
    for number in (2.0, 3.0, -0.5):
        z = kernels.saxpy(number, x, y)
        assert isinstance(z, jax.Array) and on_gpu(z)
        same(z, number * x + y)
    a, weight = matrix(5, 64)
    same(kernels.rms_norm(a, weight), reference(a, weight), 0.1)
    dx, dweight = kernels.rms_norm_grad(a, a, weight)
    assert on_gpu(dx) and on_gpu(dweight) and dweight.shape == (64,)


def test_eager_calls_with_many_numbers():
    """Each number is part of a program; only some programs are kept."""
    x = vector(10)
    for number in range(100):
        same(kernels.saxpy(float(number), x, x), (number + 1) * x)


def test_eager_calls_follow_earlier_work():
    x = jnp.zeros(1 << 20)
    y = kernels.saxpy(1.0, ops.slow_copy(x + 1, CYCLES), x + 1)
    assert float(y.min()) == float(y.max()) == 2.0


def test_eager_errors():
    x = vector(5)
    kind, words = raises((TypeError, ValueError), kernels.saxpy, 2.0, x, x[:3])
    assert words.startswith("saxpy(): argument 'y'"), words
    kind, words = raises((TypeError, ValueError), kernels.saxpy, 2.0, x, jax.device_put(x, jax.devices("cpu")[0]))
    print(f"   {kind.__name__}: {words}")
    kind, words = raises(TypeError, jax.jit(kernels.saxpy), 2.0, x, x)
    assert "tenon.jax_ops" in words, words


def test_other_frameworks_still_work():
    tried = []
    try:
        import torch
        if torch.cuda.is_available():
            x = torch.arange(5.0, device="cuda")
            assert torch.equal(kernels.saxpy(2.0, x, x), 3 * x)
            tried.append("torch")
    except ImportError:
        pass
    try:
        import cupy
        x = cupy.arange(5, dtype="f4")
        assert bool((kernels.saxpy(2.0, x, x) == 3 * x).all())
        tried.append("CuPy")
    except ImportError:
        pass
    if not tried:
        raise Skip("neither torch nor CuPy")
    print(f"   {' and '.join(tried)}")


# --------------------------------------------------------------------------------------------------------- CUDA graphs


def chain(operator):
    """CHAIN operators, each of which needs the result of the one before."""
    def calls(x, y):
        for _ in range(CHAIN):
            y = operator(0.5, x, y)
        return y

    return jax.jit(calls)


def load_twin():
    """{target: operator} of twin.cu."""
    library = ctypes.CDLL(str(folder / "twin.so"))
    made = {}
    for name in ("twin_saxpy", "twin_saxpy_captured"):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="CUDA", api_version=1)
        made[name] = lambda a, x, y, name=name: jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y, a=a)
    return made


def test_capturable_functions():
    x, y = vector(), jnp.zeros(1000)
    program = chain(ops.saxpy_captured)
    for number in range(5):  # XLA makes a graph only after the first runs
        same(program(x + number, y), CHAIN * 0.5 * (x + number))
    assert "tenon1_capturable" in program.lower(x, y).compile().as_text()
    assert "tenon1_capturable" in ops.custom_calls


def test_a_chain_beside_the_same_in_cpp():
    """Nanoseconds for each operator of a chain, in rounds that take turns. No time is asserted."""
    x, y = vector(256), jnp.zeros(256)
    operators = {"ours": ops.saxpy, "ours, captured": ops.saxpy_captured}
    try:
        twin = load_twin()
        operators.update({"C++": twin["twin_saxpy"], "C++, captured": twin["twin_saxpy_captured"]})
    except (OSError, AttributeError) as problem:
        print(f"   no twin: {problem}")
    programs = {name: chain(operator) for name, operator in operators.items()}
    programs["jax.numpy"] = chain(lambda a, x, y: a * x + y)
    for program in programs.values():
        for _ in range(20):
            same(program(x, y), CHAIN * 0.5 * x)
    samples = {name: [] for name in programs}
    for _ in range(15):
        for name, program in programs.items():
            start = time.perf_counter()
            for _ in range(200):
                z = program(x, y)
            jax.block_until_ready(z)
            samples[name].append((time.perf_counter() - start) / 200 / CHAIN * 1e9)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name, values in samples.items():
        print(f"   {name:16} {medians[name]:8.0f} ns per operator (least {min(values):.0f})")
    for kind in ("", ", captured"):
        if "C++" + kind in medians:
            print(f"   ours / C++{kind}: {medians['ours' + kind] / medians['C++' + kind]:.2f} (median), "
                  f"{min(samples['ours' + kind]) / min(samples['C++' + kind]):.2f} (least)")


def test_the_time_of_a_call():
    """Microseconds until a call returns. No time is asserted."""
    x, y = vector(256), jnp.zeros(256)
    calls = {"jitted saxpy": jax.jit(lambda x, y: ops.saxpy(2.0, x, y)), "jitted a*x + y": jax.jit(lambda x, y: 2.0 * x + y),
             "kernels.saxpy, eager": lambda x, y: kernels.saxpy(2.0, x, y),
             "kernels.add, eager": lambda x, y: kernels.add(x, y)}
    for name, call in calls.items():
        jax.block_until_ready(call(x, y))
        best = []
        for _ in range(10):
            start = time.perf_counter()
            for _ in range(200):
                z = call(x, y)
            best.append((time.perf_counter() - start) / 200)
            jax.block_until_ready(z)
        print(f"   {name:22} {min(best) * 1e6:8.1f} µs")


# --------------------------------------------------------------------------------------------------------------- main


def build():
    global folder
    folder = pathlib.Path(tempfile.mkdtemp())
    build_package(folder)
    build_cuda(folder / "kernels.so", HERE / "kernels.cu", f"-I{ROOT}/examples/torch_ops")
    try:
        build_cuda(folder / "twin.so", HERE / "twin.cu", f"-I{jax.ffi.include_dir()}", "-w")
    except Exception as problem:  # noqa: BLE001 - only the comparison needs it
        print(f"twin.cu is not built: {problem}")
    sys.path.insert(0, str(folder))


def run(name, test):
    try:
        test()
    except Skip as reason:
        print("skipped", name + ":", reason, flush=True)
        return True
    except Exception as problem:  # noqa: BLE001 - the next one runs anyway
        place = traceback.extract_tb(problem.__traceback__)[-1]
        words = " ".join(f"{type(problem).__name__}: {problem}".split())[:500]
        print(f"FAILED {name}: {words} ({pathlib.Path(place.filename).name}:{place.lineno})", flush=True)
        return False
    print("ok", name, flush=True)
    return True


def main():
    global jax, jnp, tenon, kernels, ops
    try:
        import jax
        import jax.numpy as jnp
        if jax.default_backend() != "gpu":
            raise RuntimeError("JAX sees no GPU")
    except Exception as problem:  # noqa: BLE001 - a JAX that does not start is the same as none
        print("skipped: no GPU that JAX can use:", problem)
        return 0
    build()
    import tenon
    print("JAX", jax.__version__, "on", jax.devices()[0].device_kind, "Python", sys.version.split()[0], flush=True)
    kernels = tenon.load(folder / "kernels.so")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ops = tenon.jax_ops(kernels, backward={"rms_norm": "rms_norm_grad"}, strict=True)
    print(ops, ops.custom_calls, flush=True)
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    wanted = sys.argv[1:]
    failed = [name for name, test in tests if (not wanted or name in wanted) and not run(name, test)]
    print(f"{len(failed)} failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
