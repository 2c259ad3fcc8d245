"""tenon_parallel_for in Python: which threads it uses, and what happens to failures, interrupts, forks and the exit."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading

import pytest
from building import build, build_cpp, run_python, tenon

numpy = pytest.importorskip("numpy")

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = build(HERE / "parallel.c", "-pthread")
if sys.platform == "win32":
    pytest.skip("loops run on one thread", allow_module_level=True)

# The beginning of a program: four threads of OpenMP, and only NumPy.
BEGIN = """
import os, sys, threading, time
os.environ["OMP_NUM_THREADS"] = "4"
import numpy, tenon
kernels = tenon.load(sys.argv[1])

def loaded():
    return any("libgomp" in line or "libomp" in line for line in open("/proc/self/maps"))

def wait_for_bodies():
    while not kernels.busy():
        time.sleep(0.001)

def threads(expected, grain=1):
    # How many there are, and whether the caller is one of them. The loop waits for those that are expected.
    kernels.expect(expected)
    ids = kernels.threads(64, grain).tolist()
    return len(set(ids[:-1])), ids[-1] in ids[:-1]
"""


def run(code, *arguments):
    return run_python(BEGIN + textwrap.dedent(code), LIBRARY, *arguments).split()


needs_openmp = pytest.mark.skipif(
    run("kernels.total(2, 1); print(loaded())") == ["False"], reason="no OpenMP runtime is installed"
)


@pytest.fixture(scope="module")
def kernels():
    return tenon.load(LIBRARY)


@needs_openmp
def test_the_system_s_runtime_is_opened_at_the_first_large_loop():
    code = """
    print(loaded())
    print(*threads(1, 64), loaded())
    print(*threads(4), loaded())
    """
    assert run(code) == ["False", "1", "True", "False", "4", "True", "True"]


@needs_openmp
def test_the_runtime_that_is_loaded_is_used():
    code = """
    import ctypes, glob, shutil
    shutil.copy(glob.glob("/usr/lib/*/libgomp.so.1")[0], sys.argv[2] + "/libgomp-a34b3233.so.1")
    ctypes.CDLL(sys.argv[2] + "/libgomp-a34b3233.so.1")
    print(*threads(4))
    names = {line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if "libgomp" in line}
    print(*names)
    """
    with tempfile.TemporaryDirectory() as folder:
        assert run(code, folder) == ["4", "True", "libgomp-a34b3233.so.1"]


@needs_openmp
@pytest.mark.parametrize("limit,count", [("2", 2), ("1", 1), ("9", 4), ("", 4), ("two", 4), ("2x", 4), ("0", 4), ("-1", 4),
                                         ("2.5", 4), ("99999999999999999999", 4), (" 3", 3)])
def test_tenon_num_threads(limit, count):
    assert run(f"os.environ['TENON_NUM_THREADS'] = {limit!r}; print(*threads({count}))") == [str(count), "True"]


def test_counts_and_grains(kernels):
    for n, grain in [(0, 1), (-1, 1), (1, 0), (1000, -7), (1000, 1), (1000, 999), (2**63 - 1, 1), (2**63 - 1, 2**63 - 1)]:
        assert kernels.total(n, grain) == max(n, 0)


def test_failures(kernels):
    for bad in (0, 3, 63):
        with pytest.raises(IndexError, match=rf"^fails\(\): item {bad} is bad$"):
            kernels.fails(64, bad)
    kernels.fails(64, 64)


def test_a_body_that_calls_the_same_function(kernels):
    kernels.again()


def test_exceptions():
    source = """
    #include <tenon/function.hpp>
    #include <tenon/stl.hpp>
    #include <stdexcept>

    TENON_CPP_MODULE(
        parallel, nullptr,
        TENON_CPP(
            "throws(n: int, bad: int)",
            [](int64_t n, int64_t bad) {
                tenon::parallel_for(n, 1, [&](int64_t i) {
                    if (i >= bad)
                        throw std::out_of_range("a bad item");
                });
            },
            nullptr),
        TENON_CPP(
            "catches(n: int) -> int",
            [](int64_t n) -> int64_t {
                try {
                    tenon::parallel_for(n, 1, [&](int64_t begin, int64_t) { throw begin; });
                } catch (int64_t begin) {
                    return begin;
                }
                return -1;
            },
            nullptr),
        TENON_CPP(
            "says(n: int)",
            [](int64_t n) {
                tenon::parallel_for(n, 1, [&](int64_t) {
                    tenon_fail(tenon::call(), TENON_EINVAL, "said on any thread");
                });
            },
            nullptr))
    """
    kernels = tenon.load(build_cpp(source, "-pthread", name="parallel.so"))
    for n in (1, 2, 1000):
        for bad in (0, n - 1):
            with pytest.raises(IndexError, match=r"^throws\(\): a bad item$"):
                kernels.throws(n, bad)
        kernels.throws(n, n)
        assert 0 <= kernels.catches(n) < n
        with pytest.raises(ValueError, match=r"^says\(\): said on any thread$"):
            kernels.says(n)


@needs_openmp
def test_loops_of_other_python_threads_are_inline():
    code = """
    other = threading.Thread(target=kernels.rests)
    other.start()
    wait_for_bodies()
    print(*threads(1), other.is_alive())
    kernels.wake()
    other.join()
    print(threads(4)[0])
    """
    assert run(code) == ["1", "True", "True", "4"]


@needs_openmp
def test_a_forked_child_is_inline():
    code = """
    print(threads(4)[0], flush=True)
    child = os.fork()
    if child == 0:
        print(*threads(1), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(threads(4)[0])
    """
    assert run(code) == ["4", "1", "True", "4"]


@needs_openmp
def test_a_child_forked_before_the_first_loop_is_inline():
    code = """
    child = os.fork()
    if child == 0:
        print(*threads(1), loaded(), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """
    assert run(code) == ["1", "True", "False"]


@needs_openmp
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says that a process was forked")
@pytest.mark.parametrize("imported", [False, True])
def test_a_child_that_loads_the_first_library_is_inline(imported):
    """The parent has imported Tenon or not; in both cases it knows no signature."""
    code = f"""
import os
{"import tenon" if imported else ""}
child = os.fork()
if child == 0:
    exec({BEGIN + "print(*threads(1), loaded(), flush=True)"!r})
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
exec({BEGIN + "print(threads(4)[0])"!r})
"""
    assert run_python(code, LIBRARY).split() == ["1", "True", "False", "4"]


@needs_openmp
def test_a_program_that_a_forked_child_starts_has_threads():
    code = f"""
import os, sys
child = os.fork()
if child == 0:
    os.execv(sys.executable, [sys.executable, "-c", {BEGIN + "print(threads(4)[0], flush=True)"!r}, sys.argv[1]])
assert os.waitpid(child, 0)[1] == 0
"""
    assert run_python(code, LIBRARY).split() == ["4"]


@needs_openmp
def test_a_fork_while_threads_run():
    code = """
    other = threading.Thread(target=kernels.rests)
    other.start()
    wait_for_bodies()
    child = os.fork()
    if child == 0:
        print(*threads(1), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    kernels.wake()
    other.join()
    """
    assert run(code) == ["1", "True"]


def test_longjmp_is_documented():
    root = HERE.parents[3]
    for file in ("docs/loops.md", "core/include/tenon/function.h"):
        assert "longjmp" in (root / file).read_text(encoding="utf-8")


@needs_openmp
def test_the_exit_of_the_interpreter():
    """A daemon thread is in a loop then, and a loop runs in an atexit hook."""
    code = """
    import atexit
    threading.Thread(target=kernels.waits, daemon=True).start()
    wait_for_bodies()
    atexit.register(lambda: print(threads(1)[0]))
    """
    assert run(code) == ["1"]


@needs_openmp
def test_interrupts():
    code = """
    def say():
        wait_for_bodies()
        print("ready", flush=True)
    threading.Thread(target=say).start()
    try:
        kernels.waits()
    except KeyboardInterrupt:
        print("interrupted", threads(4)[0])
    """
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(tenon.__file__).parents[1])}
    program = [sys.executable, "-c", BEGIN + textwrap.dedent(code), str(LIBRARY)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted 4\n"
    assert process.returncode == 0


def test_many_threads_at_once(kernels):
    """Whoever has the threads, each call gives what it should."""
    results = []

    def work():
        for _ in range(200):
            results.append(kernels.total(1000, 1))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [1000] * 800
