"""Loops of functions inside programs of JAX run on XLA's threads."""

import os
import re
import sys

import pytest

jax = pytest.importorskip("jax")
from building import HERE, build, run_python, tenon  # noqa: E402

if sys.platform == "win32":
    pytest.skip("loops run on one thread", allow_module_level=True)
LIBRARY = build(HERE / "loops/parallel.c", "-pthread")

BEGIN = """
import sys
import jax, jax.numpy as jnp, tenon
jax.config.update("jax_enable_x64", True)
kernels = tenon.load(sys.argv[1])
ops = tenon.jax_ops(kernels)
x = jnp.ones(64, jnp.float32)
"""


def test_xla_s_threads():
    """More than one, which no OpenMP runtime has: none is loaded. JAX 0.5 offers no threads."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 2
    code = BEGIN + """
kernels.expect(int(sys.argv[2]))
for call in (jax.jit(ops.threads_of), kernels.threads_of):
    print(len(set(call(x).tolist())))
print(any("libgomp" in line or "libomp" in line for line in open("/proc/self/maps")))
"""
    *counts, openmp = run_python(code, LIBRARY, min(processors, 2)).split()
    if processors == 1:
        assert counts == ["1", "1"]
    else:
        assert all(1 < int(count) <= processors for count in counts)
        assert openmp == "False" or jax.__version_info__ < (0, 6)


def test_the_limit():
    code = "import os; os.environ['TENON_NUM_THREADS'] = '1'\n" + BEGIN + "print(len(set(jax.jit(ops.threads_of)(x).tolist())))"
    assert run_python(code, LIBRARY).split() == ["1"]


@pytest.mark.filterwarnings("ignore:.*is left out:UserWarning")
def test_failures():
    ops = tenon.jax_ops(tenon.load(LIBRARY))
    with pytest.raises(Exception, match=re.escape("fails_of(): item 3 is bad")):
        jax.block_until_ready(jax.jit(ops.fails_of)(jax.numpy.ones(64, "float32")))


def test_programs_at_the_same_time():
    """Each gives its result, whichever of them has the threads."""
    code = BEGIN + """
import threading
program = jax.jit(lambda x: (ops.threads_of(x), ops.threads_of(x[:32])))
program(x)
failed = []
def work():
    for _ in range(20):
        first, second = program(x)
        if not (all(first.tolist()) and all(second.tolist())):
            failed.append(1)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(failed))
"""
    assert run_python(code, LIBRARY).split() == ["0"]
