"""Sub-interpreters with a lock of their own: the bridge works in each, and what one imported another may release."""
import json
import os
import subprocess
import sys
import textwrap
import threading

import pytest
import tenon_probe as probe

if sys.version_info < (3, 12):
    pytest.skip("sub-interpreters have their own lock from Python 3.12 on", allow_module_level=True)
try:
    import _interpreters as interpreters
except ImportError:
    interpreters = pytest.importorskip("_xxsubinterpreters")

PROLOGUE = f"""
import sys
sys.path[:0] = {[os.path.dirname(probe.__file__), os.path.dirname(__file__)]!r}
import array, gc, json, os
import tenon_probe as probe

def tell(**values):
    os.write(pipe, json.dumps(values).encode())
"""


class Interpreter:
    """A sub-interpreter with its own lock; its globals stay from one run to the next."""

    def __init__(self):
        self.id = interpreters.create()
        self.read, self.write = os.pipe()
        self.run(f"pipe = {self.write}\n" + PROLOGUE)

    def run(self, code):
        """Runs the code; a failure there is one here. What it said with tell(), if anything."""
        code = textwrap.dedent(code) + "\nos.write(pipe, b'\\n')"
        failure = interpreters.run_string(self.id, "import os\n" + code)
        assert not failure, failure.formatted
        with open(self.read, "rb", buffering=0, closefd=False) as answers:
            text = answers.readline()
        return json.loads(text) if text.strip() else None

    def close(self):
        interpreters.destroy(self.id)
        os.close(self.read)
        os.close(self.write)


@pytest.fixture
def sub():
    interpreter = Interpreter()
    yield interpreter
    interpreter.close()


def test_a_failure_there_is_seen_here(sub):
    with pytest.raises((AssertionError, RuntimeError)):
        sub.run("assert 1 == 2")


def test_it_has_its_own_type(sub):
    assert sub.run("tell(name=probe.Tensor.__name__, id=id(probe.Tensor))") != {"name": "Tensor", "id": id(probe.Tensor)}


def test_ways_in(sub):
    sub.run("""
        before = probe.stats()
        for object in (b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), array.array("i", [1, 2, 3]),
                       memoryview(array.array("d", range(6)))[::2]):
            count, view = sys.getrefcount(object), memoryview(object)
            seen = probe.borrow(object)
            assert seen["shape"] == view.shape and seen["strides"] == tuple(s // view.itemsize for s in view.strides)
            assert bool(seen["flags"] & 1) == view.readonly
            handle = probe.import_(object)
            assert probe.describe(handle)["data"] == seen["data"]
            back = probe.export(handle, probe.SAME)
            assert back is object
            del handle, back, view
            assert sys.getrefcount(object) == count
        assert probe.stats() == before
    """)


def test_a_write_is_seen(sub):
    sub.run("""
        numbers = array.array("B", [1, 2, 3])
        probe.poke(numbers, 9)
        assert numbers[0] == 9
        try:
            probe.poke(b"abc", 9)
        except ValueError as error:
            assert "read-only" in str(error)
        else:
            assert False
    """)


def test_ways_out(sub):
    released = probe.released()
    sub.run("""
        import weakref
        for kind in (probe.TENSOR, probe.MEMORYVIEW, probe.CAPSULE, probe.CAPSULE_LEGACY):
            handle = probe.new("i32", (2, 3))
            made = probe.export(handle, kind)
            del handle
            if kind == probe.TENSOR:
                assert type(made) is probe.Tensor and weakref.ref(made)() is made
                assert memoryview(made).shape == (2, 3) and probe.borrow(made)["dtype"] == "i32"
                cycle = [made]
                cycle.append(cycle)
                del cycle
            del made
            gc.collect()
        array_made, view = probe.empty(None, "f32", (4,), 0)
        assert memoryview(array_made).tolist() == [0.0] * 4
        del array_made
    """)
    assert probe.released() == released + 4


def test_numpy_of_another_interpreter_is_not_used(sub):
    """NumPy's C API belongs to the interpreter that loaded it; it does not load into one with its own lock."""
    numpy = pytest.importorskip("numpy")
    probe.borrow(numpy.zeros(3))
    sub.run("""
        try:
            probe.export(probe.new("i32", (2,)), probe.NUMPY)
        except ImportError:
            pass
        else:
            assert False, "an array of another interpreter's NumPy"
    """)


def test_producers(sub):
    """Python classes with __dlpack__, good and bad, in the sub-interpreter."""
    sub.run("""
        class Producer:
            def __init__(self, answer):
                self.answer = answer

            def __dlpack__(self, **keywords):
                return self.answer(**keywords)

            def __dlpack_device__(self):
                return 1, 0

        tensor = probe.export(probe.new("f32", (3,)))
        assert probe.borrow(Producer(tensor.__dlpack__))["shape"] == (3,)
        once = tensor.__dlpack__(max_version=(1, 0))
        again = Producer(lambda **keywords: once)
        assert probe.borrow(again)["dtype"] == "f32"
        def fails(exception, answer):
            try:
                probe.borrow(Producer(answer))
            except exception:
                return
            assert False, exception
        fails(BufferError, lambda **keywords: once)
        fails(TypeError, lambda **keywords: 3)
        fails(KeyError, lambda **keywords: {}["x"])
        fails(KeyboardInterrupt, lambda **keywords: (_ for _ in ()).throw(KeyboardInterrupt))
        del tensor, once, again
    """)


def test_imported_there_released_here(sub):
    """The count goes to the interpreter that owns the object, and is given back by its next call of the bridge."""
    told = sub.run("""
        owner = bytearray(b"abcdef")
        tell(number=probe.detach(probe.import_(owner)), data=probe.borrow(owner)["data"])
    """)
    handle = probe.adopt(told["number"])
    assert probe.describe(handle)["data"] == told["data"]
    del handle
    assert probe.stats()[3] == 1
    sub.run("""
        try:
            owner.append(1)
        except BufferError:
            pass
        else:
            assert False, "released by a thread of another interpreter"
        probe.borrow(b"")
        owner.append(1)
    """)
    assert probe.stats()[3] == 0


def test_imported_here_released_there(sub):
    owner = bytearray(b"abcdef")
    handle = probe.import_(owner)
    sub.run(f"handle = probe.adopt({probe.detach(handle)})\ndel handle")
    probe.borrow(b"")
    owner.append(1)
    assert probe.stats()[3] == 0


def test_released_on_a_thread_of_the_other(sub):
    """A Python thread of this interpreter drops what the other one imported, while that one is at work."""
    told = sub.run("""
        owners = [bytearray(8) for _ in range(100)]
        tell(numbers=[probe.detach(probe.import_(owner)) for owner in owners])
    """)

    def release():
        for number in told["numbers"]:
            probe.adopt(number)

    thread = threading.Thread(target=release)
    thread.start()
    sub.run("""
        for _ in range(2000):
            probe.import_release(b"abc")
    """)
    thread.join()
    sub.run("""
        probe.borrow(b"")
        for owner in owners:
            owner.append(1)
    """)


def test_own_memory_is_shared(sub):
    """One tensor, an array on it in each interpreter; the memory goes with the last, whichever that is."""
    released = probe.released()
    for last_here in (True, False):
        handle = probe.new("u8", (8,))
        mine = memoryview(probe.export(handle))
        sub.run(f"""
            handle = probe.adopt({probe.detach(handle)})
            yours = memoryview(probe.export(handle))
            yours[3] = 99
            del handle
        """)
        assert mine[3] == 99
        if last_here:
            sub.run("del yours")
            assert mine[3] == 99
            del mine
        else:
            del mine
            sub.run("assert yours[3] == 99; del yours")
    assert probe.released() == released + 2


def test_several_at_once():
    """Interpreters that really run in parallel borrow, import, export and release."""
    subs = [Interpreter() for _ in range(3)]
    failures = []

    def work(interpreter):
        try:
            interpreter.run("""
                numbers = array.array("f", range(12))
                for i in range(3000):
                    assert probe.borrow(numbers)["shape"] == (12,)
                    assert probe.through(numbers) is numbers
                    view = probe.through(numbers, probe.MEMORYVIEW)
                    assert view[5] == 5
                    tensor = probe.export(probe.new("i32", (4,)))
                    assert probe.borrow(tensor)["dtype"] == "i32"
                del view, tensor
                numbers.append(1)
            """)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(interpreter,)) for interpreter in subs]
    for thread in threads:
        thread.start()
    numbers = bytearray(12)
    for _ in range(3000):
        probe.import_release(numbers)
    for thread in threads:
        thread.join()
    for interpreter in subs:
        interpreter.close()
    assert not failures


def in_a_process(code):
    """The code in a process of its own, since it leaves something behind."""
    environment = dict(os.environ, TENON_PROBE=os.path.dirname(probe.__file__))
    script = "import bridge_suite, gc\nfrom test_subinterpreters import *\n" + textwrap.dedent(code)
    result = subprocess.run([sys.executable, "-c", script], cwd=os.path.dirname(__file__), env=environment,
                            capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_released_after_its_interpreter_has_ended():
    """Nobody is left to give it back to: leaked, counted, and no crash."""
    in_a_process("""
        sub = Interpreter()
        told = sub.run("tell(numbers=[probe.detach(probe.import_(bytearray(8))) for _ in range(3)])")
        sub.close()
        before = probe.stats()[4]
        for number in told["numbers"]:
            probe.adopt(number)
        gc.collect()
        assert probe.stats() == (0, 0, 0, 0, before + 3), probe.stats()
    """)


def test_released_here_before_it_ends():
    """What waits when the interpreter ends is given back by its end."""
    in_a_process("""
        sub = Interpreter()
        told = sub.run('''
            import weakref
            class Owner(bytearray):
                def __del__(self, write=os.write, pipe=pipe):
                    write(pipe, b"gone")
            tell(number=probe.detach(probe.import_(Owner(8))))
        ''')
        probe.adopt(told["number"])
        assert probe.stats()[3] == 1
        interpreters.destroy(sub.id)
        assert os.read(sub.read, 100) == b"gone"
        assert probe.stats() == (0, 0, 0, 0, 0), probe.stats()
    """)


def test_many_come_and_go():
    before = probe.stats()
    for _ in range(20):
        sub = Interpreter()
        sub.run("kept = probe.export(probe.new('f32', (3,)))\nprobe.borrow(array.array('i', [1]))\ndel kept")
        sub.close()
    assert probe.stats() == before
