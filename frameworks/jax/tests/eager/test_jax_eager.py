"""`kernels.f` on JAX arrays: by a compiled program of JAX if nothing is unusual, and otherwise as on any other array."""

import gc
import pathlib
import random
import struct
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build, run_python, same_counts, tenon

SOURCE = pathlib.Path(__file__).with_name("eager_kernels.c")
LIBRARY = build(SOURCE)
eager = tenon.load(LIBRARY)
X = jnp.arange(6, dtype=jnp.float32)
Array = type(X)
JaxRuntimeError = jax.errors.JaxRuntimeError


def by_xla(result):
    """Whether XLA's host called the function, as it says."""
    assert type(result) is Array
    return bool(np.asarray(result).reshape(-1)[0])


def same_error(function, *args, **kwargs):
    """The call raises what it raises without a program of JAX: `like` says that the result shall be made in the other way."""
    with pytest.raises(Exception) as wanted:
        function(*args, **kwargs, like="jax")
    with pytest.raises(type(wanted.value)) as got:
        function(*args, **kwargs)
    assert type(got.value) is type(wanted.value) and str(got.value) == str(wanted.value)
    return str(got.value)


# ------------------------------------------------------------------------------------------------- what goes this way


def test_the_first_array_of_a_process():
    code = f"""
        import sys
        import tenon
        eager = tenon.load(sys.argv[1])
        import jax.numpy as jnp
        print([eager.who(jnp.zeros(3)).tolist(), eager.who(x=jnp.zeros(3)).tolist()])
        """
    assert run_python(code, LIBRARY).split() == ["[[1.0],", "[1.0]]"]


def test_the_first_array_of_a_process_beside_a_capsule():
    """A capsule can be taken once, and a number is asked once, even if the call meets the first array of JAX."""
    code = """
        import sys
        import numpy, tenon
        import jax.numpy as jnp

        class Number:
            asked = 0
            def __float__(self):
                Number.asked += 1
                return 2.0

        eager = tenon.load(sys.argv[1])
        y = jnp.arange(3, dtype=jnp.float32)
        z = eager.saxpy(2.0, numpy.ones(3, "float32").__dlpack__(), y).z
        print(numpy.asarray(z).tolist())
        print(numpy.asarray(eager.saxpy(Number(), y, y).z).tolist(), Number.asked)
    """
    assert run_python(code, LIBRARY).splitlines() == ["[2.0, 3.0, 4.0]", "[0.0, 3.0, 6.0] 1"]


def test_tensors_only():
    assert by_xla(eager.who(X))
    assert by_xla(eager.who(x=X))
    assert by_xla(eager.who_two(X, y=X))
    assert by_xla(eager.who(jnp.zeros(())))
    assert by_xla(eager.who(jnp.zeros((2, 0, 3))))
    assert by_xla(eager.who_many(*[X] * 9))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64", "float8_e4m3fn"])
def test_dtypes(dtype):
    assert by_xla(eager.who(jnp.zeros(3, getattr(jnp, dtype, bool))))


def test_named_results_keep_their_type():
    made = eager.saxpy(2.0, X, X)
    assert type(made) is eager.saxpy_result and made.z.tolist() == [0, 3, 6, 9, 12, 15] and by_xla(made.host)
    one = eager.who_named(X)
    assert type(one) is eager.who_named_result and by_xla(one.host)
    other = tenon.load(LIBRARY)
    assert type(other.saxpy(2.0, X, X)) is other.saxpy_result
    several = eager.saxpy_tuple(2.0, X, X)
    assert type(several) is tuple and several[0].tolist() == made.z.tolist() and by_xla(several[1])


def unpack(words):
    data = np.asarray(words).tobytes()
    return (*struct.unpack("<qd", data[:16]), *struct.unpack("<II", data[16:24]))


@pytest.mark.parametrize("i", [0, -1, 2**63 - 1, -(2**63), True, np.int8(-3), np.uint64(7), jnp.int32(5)])
def test_integers_are_exact(i):
    assert unpack(eager.bits(X, i, 1.0, False)) == (int(i), 1.0, 0, 1)


@pytest.mark.parametrize("f", [0.1, -0.0, 1e308, float("inf"), 3, True, np.float32(0.1), np.float64(0.1), jnp.float32(2)])
def test_floats_are_exact(f):
    got = unpack(eager.bits(X, 1, f, np.bool_(True)))
    assert got[0] == 1 and struct.pack("<d", got[1]) == struct.pack("<d", float(f)) and got[2:] == (1, 1)


def test_a_changing_number_does_not_compile_again():
    from tenon import _jax_eager

    for i in range(5):
        assert eager.saxpy(float(i), X, X).z.tolist() == [i * x + x for x in range(6)]
    (made,) = [one for (fn, _), one in _jax_eager._made.items() if fn == "eager.saxpy"]
    assert made.program.cache_info().currsize == 1
    assert made.find(X.sharding._device)._cache_size() == 1


def test_options_and_lists():
    assert eager.options(X).tolist() == [1, -1, 1, 3, 0.5, 3]
    assert eager.options(X, X[3:]).tolist() == [1, 3, 1, 3, 0.5, 3]
    assert eager.options(X, None, "sum", [5, 6, 7], name="").tolist() == [1, -1, 0, 18, 0.5, 0]
    assert eager.options(X, how="sum", scale=0.25).tolist() == [1, -1, 0, 3, 0.25, 3]
    assert eager.options(X, how="sum", scale=np.float32(0.75)).tolist() == [1, -1, 0, 3, 0.75, 3]
    assert eager.options(X, None, "mean", (), 1).tolist() == [1, -1, 1, 0, 1, 3]


def test_sizes_are_static():
    for n in (1, 4, 2):
        made = eager.who_sized(X, n)
        assert made.shape == (n,) and by_xla(made)


def test_the_number_of_programs_is_limited():
    from tenon import _jax_eager

    for i in range(80):
        assert eager.options(X, None, "sum", [i]).tolist()[3] == i
    (made,) = [one for (fn, _), one in _jax_eager._made.items() if fn == "eager.options"]
    assert made.program.cache_info().currsize == _jax_eager._PROGRAMS == 64


# ----------------------------------------------------------------------------------------------- what goes the other way


def test_out_and_like():
    assert eager.who(X, like=np.zeros(1)).tolist() == [0]
    assert not by_xla(eager.who(X, like=X))
    out = np.empty(1, np.float32)
    assert eager.who(X, out=out) is out and out[0] == 0


def test_other_arrays():
    mine = np.arange(6, dtype=np.float32)
    assert eager.who(mine).tolist() == [0] and type(eager.who(mine)) is np.ndarray
    assert not by_xla(eager.who_two(X, mine))
    assert type(eager.who_two(mine, X)) is np.ndarray


def test_functions_that_a_program_cannot_run():
    assert not by_xla(eager.who_locked(X))
    assert not by_xla(eager.who_aligned(X))
    assert eager.count(X) == 6 and type(eager.count(X)) is int
    with pytest.raises(ValueError, match="a JAX array is immutable"):
        eager.set(X)
    with pytest.raises(ValueError, match="who_fortran"):
        eager.who_fortran(X.reshape(2, 3))
    assert not by_xla(eager.who_fortran(X.reshape(6, 1)))


def test_without_the_package():
    code = """
        import sys
        sys.modules["tenon._jax_eager"] = None
        import jax.numpy as jnp, tenon
        eager = tenon.load(sys.argv[1])
        print([eager.who(jnp.zeros(3)).tolist() for _ in range(3)])
        """
    assert run_python(code, LIBRARY) == "[[0.0], [0.0], [0.0]]\n"


def test_arrays_with_data_while_jax_traces():
    """A call inside of jit on an array from outside has data, as before."""
    seen = []

    @jax.jit
    def program(y):
        made = eager.who(X)
        seen.append(type(made))
        return y + made[0]

    assert program(X).tolist() == X.tolist()
    assert seen == [Array]
    assert jax.vmap(lambda y: y + eager.who(X)[0])(X).tolist() == [y + 1 for y in range(6)]


def test_tracers_are_refused():
    for transform in (jax.jit, jax.vmap, jax.grad):
        with pytest.raises(TypeError, match=r"who\(\): argument 'x': .* it is a JAX tracer.* tenon.jax_ops\(\)"):
            transform(lambda x: eager.who(x)[0])(jnp.float32(1) if transform is jax.grad else X)
    with pytest.raises(TypeError, match=r"who_two\(\): argument 'y': .* it is a JAX tracer"):
        jax.jit(lambda y: eager.who_two(X, y))(X)


def test_a_transfer_that_is_not_allowed():
    assert eager.saxpy(1.0, X, X).z.tolist()
    with jax.transfer_guard("disallow"):
        made = eager.saxpy(3.0, X, X)
    assert made.z.tolist() == [4 * x for x in range(6)]


# ---------------------------------------------------------------------------------------------------------------- errors


def test_errors_about_arguments_stay():
    for _ in range(2):
        assert "dimension 0 is 3, but n = 6" in same_error(eager.saxpy, 2.0, X, X[:3])
        assert "2 dimensions, not 1" in same_error(eager.saxpy, 2.0, X.reshape(2, 3), X)
        assert "try x.astype('float32')" in same_error(eager.saxpy, 2.0, X.astype("int32"), X)
        assert "expected float, got str" in same_error(eager.saxpy, "a", X, X)
        assert "argument 'x'" in same_error(eager.options, X.reshape(2, 3), None, "max")
        assert "expected an integer from -2**63 to 2**63 - 1, got a larger one" in same_error(eager.bits, X, 2**63, 1.0, False)
        assert "expected bool, got int" in same_error(eager.bits, X, 1, 1.0, 1)
        assert "expected 'sum'|'mean', got 'max'" in same_error(eager.options, X, None, "max")
        assert "expected ints" in same_error(eager.options, X, None, "sum", "abc")
        assert "argument 'y'" in same_error(eager.who_two, X, 3)
        assert "is -1" in same_error(eager.who_sized, X, -1)


def test_wrong_arguments_of_python():
    for args, kwargs in (((), {}), ((X, X), {}), ((), {"y": X}), ((X,), {"x": X})):
        with pytest.raises(TypeError, match=r"who\(\)"):
            eager.who(*args, **kwargs)


def test_64_bits_without_x64():
    with pytest.raises(BufferError, match=r"who_wide\(\): result 0: JAX narrows 64-bit numbers.* set jax_enable_x64"):
        eager.who_wide(X)


def test_deleted_arrays():
    mine = jnp.arange(6, dtype=jnp.float32)
    mine.delete()
    assert "this JAX array was deleted or donated" in same_error(eager.who_two, X, mine)
    assert "this JAX array was deleted or donated" in same_error(eager.saxpy, 2.0, mine, X)


@pytest.mark.parametrize("status, code", [(1, "INVALID_ARGUMENT"), (13, "INTERNAL")])
def test_a_function_that_fails(status, code):
    for _ in range(3):
        with pytest.raises((JaxRuntimeError, ValueError), match=rf"{code}: fail\(\): the reason"):
            jax.block_until_ready(eager.fail(X, status))
    assert by_xla(eager.fail(X, 0))


def test_exceptions_are_not_lost():
    class Stops:
        def __float__(self):
            raise KeyboardInterrupt

    class Breaks:
        calls = 0

        def __float__(self):
            Breaks.calls += 1
            raise LookupError("mine")

    with pytest.raises(KeyboardInterrupt):
        eager.saxpy(Stops(), X, X)
    with pytest.raises(LookupError, match="mine"):
        eager.saxpy(Breaks(), X, X)
    assert Breaks.calls <= 2


# -------------------------------------------------------------------------------------------------- memory, threads


def test_nothing_is_kept():
    y = jnp.arange(6, dtype=jnp.float32) + 1
    number = float("1234.5")
    eager.saxpy(number, X, y)
    with same_counts(X, y, eager.saxpy.__self__):
        for _ in range(50):
            eager.saxpy(number, X, y)
            eager.options(X, y, "sum", [1])
            with pytest.raises(ValueError):
                eager.saxpy(number, X, y[:3])
    before = sys.getrefcount(number)
    for _ in range(50):
        eager.saxpy(number, X, y)
    assert sys.getrefcount(number) == before


def test_a_library_that_is_loaded_again():
    """Each load has functions of its own, and they go as they came; the programs are shared."""
    import weakref

    from tenon import _jax_eager

    eager.who(X)
    count = len(_jax_eager._made)
    for _ in range(5):
        again = tenon.load(LIBRARY)
        assert by_xla(again.who(X))
        gone = weakref.ref(again)
        del again
        gc.collect()
        assert gone() is None or sys.version_info >= (3, 13)
    assert len(_jax_eager._made) == count


def test_threads_that_come_first():
    code = """
        import sys, threading
        import jax.numpy as jnp, tenon
        eager = tenon.load(sys.argv[1])
        x = jnp.arange(6, dtype=jnp.float32)
        barrier, found = threading.Barrier(6), []
        def run():
            barrier.wait()
            for i in range(50):
                found.append(eager.saxpy(float(i), x, x).z.tolist() == [(i + 1) * k for k in range(6)])
        threads = [threading.Thread(target=run) for _ in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(found), all(found))
        """
    assert run_python(code, LIBRARY) == "300 True\n"


def test_threads_with_several_functions():
    failed = []

    def run(function, wanted):
        for i in range(100):
            if function(i) != wanted(i):
                failed.append(i)

    pairs = [(lambda i: eager.saxpy(float(i), X, X).z.tolist(), lambda i: [(i + 1) * x for x in range(6)]),
             (lambda i: eager.bits(X, i, 0.0, True).tolist()[0], lambda i: i),
             (lambda i: eager.options(X, None, "sum", [i % 3]).tolist()[3], lambda i: i % 3)]
    threads = [threading.Thread(target=run, args=pair) for pair in pairs * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# --------------------------------------------------------------------------------------------------- several devices

DEVICES = """
    import os, sys
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    import jax, jax.numpy as jnp, numpy as np, tenon
    eager = tenon.load(sys.argv[1])
    devices = jax.devices()
    x = np.arange(8, dtype=np.float32)
    on = [jax.device_put(x, device) for device in devices]
    """


def test_the_result_is_where_the_arguments_are():
    code = DEVICES + """
    for array, device in list(zip(on, devices)) * 2:
        made = eager.saxpy(2.0, array, array)
        assert made.z.devices() == {device} and made.host.tolist() == [1], made
    free = jnp.arange(8, dtype=jnp.float32)
    with jax.default_device(devices[2]):
        made = eager.saxpy(2.0, free, free)
        assert made.z.devices() == {devices[0]} and made.host.tolist() == [1]
    try:
        eager.saxpy(2.0, on[0], on[1])
        print("taken")
    except ValueError as error:
        print(error)
    """
    assert run_python(code, LIBRARY).strip() == "taken"


def test_a_sharded_array_is_never_gathered():
    code = DEVICES + """
    mesh = jax.sharding.Mesh(np.array(devices), ("a",))
    spread = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a")))
    assert eager.who(on[0]).tolist() == [1]
    for args in ((spread, spread), (on[0], spread), (jnp.asarray(x), spread), (spread, on[0])):
        try:
            print(eager.who_two(*args).tolist())
        except Exception as error:
            print(type(error).__name__, error)
    """
    lines = run_python(code, LIBRARY).splitlines()
    assert len(lines) >= 4 and "[1.0]" not in lines, lines


def test_an_array_on_several_devices_is_refused_with_advice():
    code = DEVICES + """
    mesh = jax.sharding.Mesh(np.array(devices), ("a",))
    for spec in (jax.sharding.PartitionSpec("a"), jax.sharding.PartitionSpec()):
        spread = jax.device_put(x, jax.sharding.NamedSharding(mesh, spec))
        assert eager.who(spread.addressable_data(0)).tolist() == [1]
        for options in ({}, {"like": "numpy"}):
            try:
                eager.who(spread, **options)
            except BufferError as error:
                print(type(error.__cause__).__name__, error)
    spread.delete()
    try:
        eager.who(spread)
    except ValueError as error:
        print(error)
    """
    *refused, deleted = run_python(code, LIBRARY).splitlines()
    assert len(refused) == 4 and deleted == "who(): argument 'x': this JAX array was deleted or donated"
    for line in refused:
        assert line.startswith("BufferError who(): argument 'x': jaxlib.")
        assert line.endswith(
            "; it is on several devices: pass the part on one of them, x.addressable_data(0), or make operators of the "
            "library with tenon.jax_ops()"
        )


# ---------------------------------------------------------------------------------------- numbers that stay on the device


def test_numbers_that_come_again():
    """10,000 calls with numbers of which most come again: the function sees the bits of each."""
    rng = random.Random(23)
    integers = [0, 1, -1, 2**63 - 1, -(2**63), 2**32]
    floats = [0.0, -0.0, 1.5, float("inf"), struct.unpack("d", struct.pack("Q", 0x7FF8000000000123))[0]]
    for k in range(10_000):
        i = rng.choice(integers) if rng.random() < 0.8 else rng.randrange(2**40)
        f = rng.choice(floats[: 1 + k % 5])
        b = rng.random() < 0.3
        words = np.asarray(eager.bits(X, i, f, b))
        assert words.tobytes()[:16] == struct.pack("<qd", i, f) and words[4:].tolist() == [b, 1], (i, f, b)


def test_few_operands_are_kept():
    eager.bits(X, 1, 2.0, True)
    gc.collect()
    before = len(jax.live_arrays())
    for i in range(50):
        for _ in range(3):
            eager.bits(X, i, 2.0, True)
    gc.collect()
    assert 1 <= len(jax.live_arrays()) - before <= 4


def test_kept_operands_while_jax_traces():
    """What JAX makes while it traces a program is not kept."""
    for _ in range(2):
        jax.jit(lambda x: x + eager.bits(X, 77, 0.25, False)[0])(X)
    with jax.transfer_guard("disallow"):
        expected = np.asarray(eager.bits(X, 77, 0.25, False))[:5].tolist()
    assert np.asarray(eager.bits(X, 77, 0.25, False))[:5].tolist() == expected
