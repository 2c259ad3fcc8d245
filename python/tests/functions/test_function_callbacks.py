"""Callbacks: Python callables that a function calls while it runs."""

import gc
import sys
import threading
import time
import types
import weakref

import numpy as np
import pytest
from building import build, build_cpp, run_python, tenon

f32 = np.float32


@pytest.fixture(scope="session")
def callbacks():
    return tenon.load(build("callbacks.c"))


@pytest.fixture(params=["minimum", "minimum_unlocked"])
def minimum(request, callbacks):
    return getattr(callbacks, request.param)


# ------------------------------------------------------------------------------------------------------- the call


def test_arguments_and_results(minimum):
    assert minimum(lambda x: float(x.sum()), np.arange(4.0)) == 6
    assert minimum(lambda x: -x.sum(), np.arange(4.0), steps=3) == -14  # a NumPy scalar is a number


def test_progress(callbacks):
    seen = []
    x = np.ones(3, f32)
    result = callbacks.solve(x, lambda *args: seen.append(args) or True)
    assert seen == [(0, 1 / 3, "double ä", False), (1, 2 / 3, "double ä", False), (2, 1.0, "double ä", True)]
    assert result.tolist() == [2, 2, 2]
    assert callbacks.solve(x).tolist() == callbacks.solve(x, None).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match=r"solve\(\): stopped at step 1"):
        callbacks.solve(x, progress=lambda step, *_: step < 1)


def test_several_results(callbacks):
    assert callbacks.several(lambda: ("ä\0b", -3, 2)) == ("ä\0b", -3, 2.0)


def test_a_callback_without_results_may_return_anything(callbacks):
    assert callbacks.fill(lambda out: "ignored", 0).shape == (0,)


@pytest.mark.parametrize("wrong", [3, "f", [len], np.ones(2)])
def test_what_is_not_callable(minimum, wrong):
    name = minimum.__name__
    message = rf"{name}\(\): argument 'f': expected callable\('\(x: f64\[n\]\) -> float'\), got "
    with pytest.raises(TypeError, match=message):
        minimum(wrong, np.ones(2))


def test_none_is_not_a_callable(minimum):
    with pytest.raises(TypeError, match="got NoneType"):
        minimum(None, np.ones(2))


def test_results_of_other_types(callbacks):
    x = np.ones(2)
    with pytest.raises(TypeError, match=r"minimum\(\): argument 'f': expected a callable that returns float, got str"):
        callbacks.minimum(lambda x: "a", x)
    with pytest.raises(TypeError, match="expected a callable that returns float, got NoneType"):
        callbacks.minimum(lambda x: None, x)
    with pytest.raises(TypeError, match="expected a callable that returns a tuple of 3 results, got int"):
        callbacks.several(lambda: 3)
    with pytest.raises(TypeError, match="a tuple of 3 results, got tuple"):
        callbacks.several(lambda: ("a", 1))
    with pytest.raises(OverflowError, match="expected an integer from"):
        callbacks.several(lambda: ("a", 2**63, 0.0))
    with pytest.raises(ValueError, match="UTF-8"):
        callbacks.several(lambda: ("\ud800", 1, 0.0))


# -------------------------------------------------------------------------------------------------------- memory


def test_tensors_are_views(callbacks):
    x, seen = np.arange(4.0), []
    callbacks.minimum(lambda a: seen.append(a) or 0.0, x)
    assert [type(a) for a in seen] == [np.ndarray] * 3
    assert seen[0].ctypes.data == x.ctypes.data
    assert not any(a.flags.writeable for a in seen)
    with pytest.raises(ValueError):
        seen[0][0] = 1


def test_kept_views_keep_their_memory(minimum):
    kept = []
    minimum(lambda x: kept.append(x) or 0.0, np.arange(1000.0), steps=4)
    gc.collect()
    noise = [np.full(1000, 7.0) for _ in range(50)]
    assert (kept[0] == np.arange(1000.0)).all()  # the argument itself is gone
    for a in kept[1:]:  # scratch memory is one block, which has its last contents
        assert (a == np.arange(1000.0) + 3).all()
    del noise


def test_a_kept_view_of_the_argument_holds_it(callbacks):
    class Array(np.ndarray):
        pass

    x = np.arange(4.0).view(Array)
    gone, kept = weakref.ref(x), []
    callbacks.minimum(lambda a: kept.append(a) or 0.0, x, steps=1)
    del x
    gc.collect()
    assert gone() is not None
    kept.clear()
    gc.collect()
    assert gone() is None


def test_the_callback_writes_to_a_result(callbacks):
    kept = []

    def write(out):
        out[:] = np.arange(len(out))
        kept.append(out)

    result = callbacks.fill(write, 5)
    assert result.tolist() == [0, 1, 2, 3, 4]
    assert kept[0].ctypes.data == result.ctypes.data
    address = result.ctypes.data
    del result
    gc.collect()
    assert kept[0].ctypes.data == address and kept[0].tolist() == [0, 1, 2, 3, 4]
    out = np.zeros(5, f32)
    assert callbacks.fill(write, 5, out=out) is out and out[4] == 4


def test_lists(callbacks):
    xs, kept = [np.full(2, i, f32) for i in range(3)], []

    def f(x, z):
        z[:] = x * 10
        kept.append((x, z))

    zs = callbacks.each(xs, f)
    assert [z.tolist() for z in zs] == [[0, 0], [10, 10], [20, 20]]
    assert [a.ctypes.data for a, _ in kept] == [x.ctypes.data for x in xs]
    assert [a.ctypes.data for _, a in kept] == [z.ctypes.data for z in zs]


def test_lists_that_the_function_makes(callbacks):
    kept = []

    def f(z):
        z[:] = len(kept)
        kept.append(z)

    zs = callbacks.grow(f, 3)
    assert [z.tolist() for z in zs] == [[3, 3], [1, 1], [2, 2]]
    assert [z.ctypes.data for z in kept] == [z.ctypes.data for z in (*zs, zs[0])]
    zs.clear()
    gc.collect()
    assert [z.tolist() for z in kept] == [[3, 3], [1, 1], [2, 2], [3, 3]]  # they hold the memory
    with pytest.raises(ZeroDivisionError):
        callbacks.grow(lambda z: 1 / 0, 3)


def test_references(callbacks):
    def f(x):
        return 0.0

    x = np.ones(3)
    callbacks.minimum(f, x)
    before = sys.getrefcount(f), sys.getrefcount(x)
    for _ in range(10):
        callbacks.minimum(f, x)
        with pytest.raises(ZeroDivisionError):
            callbacks.minimum(lambda x: 1 / 0, x)
    gc.collect()
    assert (sys.getrefcount(f), sys.getrefcount(x)) == before


@pytest.mark.parametrize(
    "how, message",
    [
        ("memory", "is not in the memory of an argument, of a result or of tenon_scratch"),
        ("beyond", "is not in the memory of an argument"),
        ("shape", "with wrong arguments: argument 'x': expected f32.n., got f32.1, 3."),
        ("dtype", "got i32.3."),
        ("kind", "whose argument 'x' is an int, not a tensor"),
        ("null", "whose argument 'x' is NULL"),
        ("arguments", "whose argument 'x' is NULL, not a tensor"),
    ],
)
def test_mistakes_of_the_function(callbacks, how, message):
    called = []
    with pytest.raises(RuntimeError, match=r"wrong\(\): its code calls 'f'.*" + message):
        callbacks.wrong(called.append, np.ones(3, f32), how)
    assert not called


def test_an_argument_that_is_not_rw_stays_read_only(callbacks):
    with pytest.raises(RuntimeError, match="is 'rw', but is in the memory of an argument that is not"):
        callbacks.sneak(lambda x: None, np.ones(3, f32))


# ------------------------------------------------------------------------------------------------------ exceptions


def test_exceptions_pass_through(minimum):
    class Mine(Exception):
        pass

    error = Mine("here")

    def f(x):
        raise error

    with pytest.raises(Mine) as caught:
        minimum(f, np.ones(2))
    assert caught.value is error
    with pytest.raises(KeyboardInterrupt):
        minimum(lambda x: (_ for _ in ()).throw(KeyboardInterrupt), np.ones(2))


def test_later_callbacks_are_refused(callbacks):
    calls = []

    def f():
        calls.append(1)
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        callbacks.stubborn(f)
    assert len(calls) == 1 and callbacks.cancelled()
    callbacks.stubborn(lambda: None)
    assert not callbacks.cancelled()


def test_recursion(callbacks):
    def f(x):
        return callbacks.minimum(f, x)

    with pytest.raises(RecursionError):
        callbacks.minimum(f, np.ones(2))


def test_an_argument_that_the_callback_changes(callbacks):
    x = np.arange(4.0)
    kept = [x]

    def f(a):
        x.resize(2000, refcheck=False)
        return 0.0

    with pytest.raises(RuntimeError, match="changed"):
        callbacks.minimum(f, x)
    del kept


def test_a_callback_that_resizes_an_item(callbacks):
    """Of a short list it is noticed at once, of a long one at the latest when the function returns."""
    for count in (3, 256, 257, 2000):
        xs, calls = [np.ones(5, "f4") for _ in range(count)], []

        def f(x, z):
            calls.append(x)
            if len(calls) == 1:
                xs[-1].resize(2000, refcheck=False)

        with pytest.raises(RuntimeError, match=rf"argument 'xs\[{count - 1}\]': its memory, shape, dtype or flags changed"):
            callbacks.each(xs, f)
        assert (len(calls) == 1) == (count <= 256 // 2)


def test_a_callback_for_each_of_many_items(callbacks):
    """In a time that grows with their number: at most 256 of the items and results are compared after each."""
    seen = []

    def f(x, z):
        z[:] = x + 1
        seen.append(x)

    xs = list(np.arange(60000, dtype="f4").reshape(30000, 2))
    results = callbacks.each(xs, f)
    assert np.array_equal(np.array(results), np.array(xs) + 1) and len(seen) == 30000
    assert len(callbacks.grow(lambda z: z.fill(1), 5000)) == 5000


# ---------------------------------------------------------------------------------------------------------- threads


def test_the_lock_is_held(callbacks):
    """Other threads run while the function does without the lock, and the callback has it."""
    done, counts = threading.Event(), []

    def count():
        total = 0
        while not done.is_set():
            total += 1
        counts.append(total)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        assert callbacks.minimum_unlocked(lambda x: float(x.sum()), np.ones(4), steps=5) == 4
    done.set()
    for thread in threads:
        thread.join()
    assert len(counts) == 2


def test_another_thread_may_not_call(callbacks):
    called = []
    with pytest.raises(RuntimeError, match="only the thread that runs the function may call 'f'"):
        callbacks.elsewhere(lambda: called.append(1))
    assert not called


# ---------------------------------------------------------------------------------------------------------- objects


@pytest.mark.parametrize("count", [2, 3])
def test_objects_in_a_circle(callbacks, count):
    """Each thread uses an object whose callback uses the next one: one of them is refused, and the others go on."""
    solvers, barrier, outcomes = [callbacks.Solver() for _ in range(count)], threading.Barrier(count), []

    def run(i):
        def again():
            barrier.wait(60)
            solvers[(i + 1) % count].run(lambda: None)
        try:
            outcomes.append(solvers[i].run(again))
        except RuntimeError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    refused = [outcome for outcome in outcomes if outcome]
    assert len(outcomes) == count and len(refused) == 1
    assert refused[0] == ("Solver.run(): this Solver is in use by a thread that waits for this one; use objects in the same order "
                          "in all threads")


def test_waiting_without_a_circle(callbacks):
    """A thread that waits for an object that is used for long is not refused, even if it uses another one itself."""
    first, second, ready, go_on, outcomes = callbacks.Solver(), callbacks.Solver(), threading.Event(), threading.Event(), []

    def hold():
        ready.set()
        go_on.wait(60)

    holder = threading.Thread(target=lambda: second.run(hold))
    waiter = threading.Thread(target=lambda: outcomes.append(first.run(lambda: second.run(lambda: outcomes.append("inside")))))
    holder.start()
    ready.wait(60)
    waiter.start()
    time.sleep(0.2)  # several of the waiter's looks around
    assert not outcomes
    go_on.set()
    holder.join(60)
    waiter.join(60)
    assert outcomes == ["inside", None]


def test_the_same_object_again(callbacks):
    solver = callbacks.Solver()
    with pytest.raises(RuntimeError, match="Solver.run"):
        solver.run(lambda: solver.run(lambda: None))
    with pytest.raises(RuntimeError):
        solver.run(solver.close)
    other = callbacks.Solver()
    solver.run(lambda: other.run(lambda: None))


def test_the_last_reference_to_the_library():
    library = types.SimpleNamespace(module=tenon.load(build("callbacks.c")))
    minimum = [library.module.minimum]

    def f(x):
        del library.module
        minimum.clear()
        gc.collect()
        return 1.5

    assert minimum.pop()(f, np.ones(2), 1) == 1.5


# ------------------------------------------------------------------------------------------------ other frameworks


def test_torch(callbacks):
    torch = pytest.importorskip("torch")
    kept = []
    x = torch.arange(4, dtype=torch.float64)
    assert callbacks.minimum(lambda a: kept.append(a) or a.sum(), x, steps=2) == 6
    assert all(type(a) is torch.Tensor for a in kept) and kept[0].data_ptr() == x.data_ptr()
    del x
    gc.collect()
    assert kept[0].tolist() == [0, 1, 2, 3]


def test_torch_and_read_only_memory(callbacks):
    torch = pytest.importorskip("torch")
    x = np.arange(2, dtype=f32)
    x.flags.writeable = False
    kept = []
    with pytest.raises(BufferError):
        callbacks.each([torch.ones(2), x], lambda a, z: kept.append(a))
    assert len(kept) == 1


def test_jax(callbacks):
    jnp = pytest.importorskip("jax.numpy")
    import jax

    seen = []
    x = jnp.arange(64, dtype=f32)
    result = callbacks.solve(x, lambda *args: seen.append(args) or True)
    assert isinstance(result, jax.Array) and len(seen) == 64
    with pytest.raises(TypeError, match="it has to write to 'z', and the arrays of this framework are immutable"):
        callbacks.each([x], lambda a, z: None)


def test_operators_leave_them_out(callbacks):
    pytest.importorskip("torch")
    with pytest.warns(UserWarning, match="minimum.. is left out: argument 'f' is a callable"):
        tenon.torch_ops(callbacks, name="callbacks_without")


def test_jax_operators_leave_them_out(callbacks):
    pytest.importorskip("jax")
    with pytest.warns(UserWarning, match="minimum.. is left out: parameter .f. is of type callable.*, which XLA cannot pass"):
        tenon.jax_ops(callbacks)


# ------------------------------------------------------------------------------------------------------- describing


def test_documentation(callbacks):
    assert "callable('(x: f64[n]) -> float')" in callbacks.minimum.__doc__


def test_stubs(callbacks):
    from tenon._stubs import stub

    text = stub(callbacks, "callbacks.so")
    assert "from collections.abc import Callable" in text
    assert "f: Callable[[Any], float]" in text
    assert "progress: Optional[Callable[[int, float, str, bool], bool]] = ..." in text
    assert "def fill(f: Callable[[Any], object], n:" in text
    assert "def several(f: Callable[[], tuple[str, int, float]])" in text


def test_parameters(callbacks):
    from tenon._describe_library import entries

    function = next(entry for entry in entries(callbacks) if entry.name == "minimum")
    parameter = function.parameters[0]
    assert (parameter["kind"], parameter["handle"]) == ("callable", None)
    ((x,), (result,)) = parameter["callback"]
    assert (x["name"], x["kind"], x["type"], result["kind"]) == ("x", "tensor", "f64[n]", "float")


ENDLESS = """
    #include <tenon/function.hpp>

    static double endless(tenon::callback<double(int64_t)> f)
    {
        double sum = 0;
        for (int64_t i = 0; sum >= 0; i++)
            sum += f(i);
        return sum;
    }

    TENON_CPP_MODULE(endless, nullptr,
        TENON_CPP("locked(f: callable('(i: int) -> float')) -> float", endless, ""),
        TENON_CPP_FLAGS("unlocked(f: callable('(i: int) -> float')) -> float", endless, "", TENON_RELEASE_LOCK))
"""


@pytest.mark.parametrize("name", ["locked", "unlocked"])
def test_exit_while_daemon_threads_call_back(name):
    """The threads end with the interpreter, inside C++ code that must not be unwound."""
    for _ in range(5):
        run_python(
            """
            import sys, threading, time
            import tenon
            function = getattr(tenon.load(sys.argv[1]), sys.argv[2])
            for _ in range(4):
                threading.Thread(target=function, args=(lambda i: 1.0,), daemon=True).start()
            time.sleep(0.1)
            """,
            build_cpp(ENDLESS),
            name,
            timeout=60,
        )
