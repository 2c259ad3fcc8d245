"""Compiled programs that call operators: failures, threads, rebuilt libraries, and programs that are stored."""

import concurrent.futures
import gc
import os
import shutil
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import build
from jax_operators import FILE, SOURCE, RunTimeError, f32, kernels, ops, own_process, quiet_ops, tenon

X = f32(6)


def test_a_function_that_fails_inside_jit():
    run = jax.jit(lambda x: ops.fail(x) + 1)
    with pytest.raises(ValueError) as eager:
        kernels.fail(np.asarray(X - 3))
    for _ in range(5):  # repeatedly, since JAX has two ways to report it
        with pytest.raises(RunTimeError) as caught:
            jax.block_until_ready(run(X - 3))
        assert str(eager.value) in str(caught.value) and "fail(): the number -3 is negative" in str(caught.value)
        assert np.array_equal(run(X), X + 1)  # the next call is fine


def test_a_failure_inside_scan_and_vmap():
    with pytest.raises(RunTimeError, match=r"fail\(\): the number -1 is negative"):
        jax.block_until_ready(jax.lax.scan(lambda carry, x: (ops.fail(carry) - 1, x), X, f32(3)))
    with pytest.raises(RunTimeError, match=r"fail\(\): the number -2 is negative"):
        jax.block_until_ready(jax.vmap(ops.fail)(f32(3, 4) - 2))
    assert np.array_equal(ops.fail(X), X)


def test_threads():
    run = jax.jit(lambda x: ops.affine(ops.square(x), 3))
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        for i in range(50):
            x = X + number * 100 + i
            assert np.array_equal(run(x), 3 * x * x)
            assert np.array_equal(ops.affine(x, i % 5), i % 5 * x)
            if i % 10 == 0:
                with pytest.raises(RunTimeError):
                    jax.block_until_ready(ops.fail(-1 - x))
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


@pytest.mark.filterwarnings("ignore:.* is left out")
def test_jax_ops_from_several_threads():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: tenon.jax_ops(kernels), range(8)))
    assert all(np.array_equal(one.square(X), X * X) for one in made)


def test_a_program_outlives_the_library_object():
    own = tenon.load(build(SOURCE, "-DFACTOR=7", name="short_lived.so"))
    run = jax.jit(quiet_ops(own).same)
    assert float(run(X)[1]) == 7
    del own
    gc.collect()
    assert float(run(X)[1]) == 7
    assert float(run(f32(9))[1]) == 7  # compiled again


def test_a_library_that_is_rebuilt(tmp_path):
    file = tmp_path / "kernels.so"
    shutil.copy(build(SOURCE, "-DFACTOR=2", name="first.so"), file)
    first = quiet_ops(tenon.load(file))
    run = jax.jit(first.same)
    assert float(run(X)[1]) == 2
    new = tmp_path / "new.so"
    shutil.copy(build(SOURCE, "-DFACTOR=3", name="second.so"), new)
    os.replace(new, file)
    second = quiet_ops(tenon.load(file))
    assert float(jax.jit(second.same)(X)[1]) == 3 and float(second.same(X)[1]) == 3
    assert float(run(X)[1]) == 2 and float(run(f32(5))[1]) == 2  # the compiled program calls the old one, as does its function
    assert [float(one[1]) for one in jax.jit(lambda x: (first.same(x), second.same(x)))(X)] == [2, 3]


STORE = """
from jax import export
ops = tenon.jax_ops(kernels)
checks = [export.DisabledSafetyCheck.custom_call(name) for name in ops.custom_calls]
exported = export.export(jax.jit(ops.same), disabled_checks=checks)(jnp.zeros(3, jnp.float32))
open(sys.argv[1], "wb").write(exported.serialize())
"""
LOAD = """
from jax import export
other = tenon.load(sys.argv[2])
ops = tenon.jax_ops(other)
loaded = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
try:
    jax.block_until_ready(loaded.call(jnp.zeros(3, jnp.float32)))
except Exception as error:
    print(error)
"""


def test_a_program_of_another_build_names_both_hashes(tmp_path):
    pytest.importorskip("flatbuffers")
    own_process(STORE, tmp_path / "program")
    said = own_process(LOAD, tmp_path / "program", build(SOURCE, "-DFACTOR=2", name="first.so"))
    text = jax.jit(ops.same).lower(X).as_text()
    own = text.partition('hash = "')[2][:32]
    assert own in said and "jax_kernels.same" in said
    other = jax.jit(quiet_ops(tenon.load(build(SOURCE, "-DFACTOR=2", name="first.so"))).same).lower(X).as_text()
    assert other.partition('hash = "')[2][:32] in said


def test_a_program_with_another_name(tmp_path):
    pytest.importorskip("flatbuffers")
    own_process(STORE.replace("(kernels)", "(kernels, name='package.kern')"), tmp_path / "program")
    said = own_process(LOAD, tmp_path / "program", FILE)
    assert "is loaded under another name, as jax_kernels.same; call tenon.jax_ops(..., name='package.kern')" in said
    assert own_process(LOAD.replace("(other)", "(other, name='package.kern')"), tmp_path / "program", FILE) == ""


CACHED = """
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
try:
    from jax import monitoring
    monitoring.register_event_listener(lambda event, **options: hits.append(event))
except ImportError:
    pass
ops = tenon.jax_ops(kernels)
x = jnp.asarray(np.arange(6, dtype=np.float32))
hits.clear()
def model(x):
    return ops.affine(ops.square(x), 3, shift=0.5)
assert jax.jit(model)(x).tolist() == [3.0 * i * i + 0.5 for i in range(6)]
print(hits.count("/jax/compilation_cache/cache_hits") > 0)
"""


def test_the_persistent_compilation_cache(tmp_path):
    own_process(CACHED, tmp_path)
    stored = {file.name for file in tmp_path.glob("jit_model-*-cache")}
    assert len(stored) == 1
    assert own_process(CACHED, tmp_path).split() == ["True"]
    assert {file.name for file in tmp_path.glob("jit_model-*-cache")} == stored


FRESH = """
x = jnp.zeros(3, jnp.float32)
ops = tenon.jax_ops(kernels)
for _ in range(3):
    assert tenon.jax_ops(kernels).same(x).tolist() == [0, 0, 0]
"""


def test_after_the_backend_has_started():
    own_process(FRESH)


def test_programs_hold_no_arrays():
    """Neither an operator nor its cache keeps the arguments of a call."""
    import weakref

    x = jnp.asarray(np.arange(6, dtype=np.float32))
    alive = weakref.ref(x)
    ops.weighted(x, x)
    jax.grad(lambda x: ops.square(x).sum())(x)
    with pytest.raises(ValueError):
        ops.dot(x, f32(4))
    del x
    gc.collect()
    assert alive() is None and FILE.exists()
