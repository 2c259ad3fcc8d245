"""Threads: of Python's, and such as never heard of it."""

import array
import gc
import random
import sys
import threading
import time

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from hostility import outstanding, producer
from waiting import together

THREADS, STEPS = 16, 400


def shared_sources():
    hostile.plan()
    sources = [
        bytearray(b"x" * 64),
        array.array("d", range(16)),
        memoryview(bytearray(256)).cast("B", (1,) * 12 + (256,)),
        probe.export(probe.new("f32", (4, 4))),
        producer(lambda self, **keywords: hostile.dlpack_noargs()),  # capsule() would set the plan anew
        producer(staticmethod(hostile.dlpack_noargs)),
        hostile.Buffer(),
        type("Tabled", (), {"__dlpack_c_exchange_api__": hostile.table()})(),
    ]
    try:
        import numpy

        sources.append(numpy.arange(12.0).reshape(3, 4))
    except ImportError:
        pass
    return sources


def test_sixteen_threads_borrow_import_and_release_at_random():
    sources = shared_sources()
    references = [sys.getrefcount(source) for source in sources]
    before, released = outstanding(), probe.released()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    made = [0] * THREADS

    def work(number):
        choose = random.Random(number)
        held = []
        for _ in range(STEPS):
            what = choose.randrange(8)
            source = choose.choice(sources)
            if what == 0:
                probe.borrow(source)
            elif what == 1:
                held.append(probe.import_(source))
            elif what == 2:
                probe.import_release(source)
            elif what == 3 and held:
                held.pop(choose.randrange(len(held)))
            elif what == 4 and held:
                probe.release_elsewhere(held.pop())
            elif what == 5 and held:
                kind = choose.choice([probe.TENSOR, probe.SAME, probe.CAPSULE, probe.CAPSULE_LEGACY])
                try:
                    probe.export(choose.choice(held), kind)
                except BufferError:
                    pass  # read-only, to a legacy capsule
            elif what == 6:
                held.append(probe.new("f32", (8,)))
                made[number] += 1
            elif what == 7:
                probe.borrow_many(*sources[:3])

    try:
        together(work, THREADS)
    finally:
        sys.setswitchinterval(interval)
    gc.collect()
    probe.borrow(b"")
    assert [sys.getrefcount(source) for source in sources] == references
    assert outstanding() == before
    assert probe.released() == released + sum(made)


def test_a_release_elsewhere_does_not_wait_for_the_lock():
    # release_elsewhere joins the releasing thread with the lock held: waiting for it there would be for ever.
    memory = bytearray(16)
    references = sys.getrefcount(memory)
    for _ in range(200):
        probe.release_elsewhere(probe.import_(memory))
    probe.borrow(b"")
    assert sys.getrefcount(memory) == references
    memory.append(1)  # no buffer is held


def test_a_release_elsewhere_is_given_back_without_another_call():
    # By a pending call of the main interpreter's, when its main thread next takes the lock.
    deferred = probe.stats()[3]
    memory = bytearray(16)
    references = sys.getrefcount(memory)
    probe.release_elsewhere(probe.import_(memory))
    for _ in range(10_000):
        if sys.getrefcount(memory) == references:
            break
        time.sleep(0)
    assert sys.getrefcount(memory) == references
    assert probe.stats()[3] == deferred


def test_a_deleter_never_runs_on_a_thread_without_the_lock():
    # This one raises, which needs a thread of Python's.
    heard = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: heard.append(threading.current_thread())
    before = outstanding()
    try:
        for _ in range(20):
            probe.release_elsewhere(probe.import_(producer(lambda self, **keywords: hostile.capsule(deleter="raise"))))
        probe.borrow(b"")
    finally:
        sys.unraisablehook = hook
    assert outstanding() == before
    assert heard == [threading.main_thread()] * 20


def test_releases_from_many_threads_keep_an_exception_on_its_way():
    class Odd(bytearray):
        def __del__(self):
            raise ValueError("in the end")

    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    try:
        for _ in range(50):
            probe.release_elsewhere(probe.import_(Odd(8)))
            try:
                probe.borrow(object())  # drains, then fails
            except TypeError as error:
                assert error.__context__ is None
    finally:
        sys.unraisablehook = hook


def test_first_use_of_a_type_by_many_threads():
    before, lock = outstanding(), threading.Lock()

    def capsule(self, **keywords):
        with lock:  # the extension has one plan for all threads
            return hostile.capsule()

    for _ in range(30):
        thing = type("New", (), {"__dlpack__": capsule})()
        together(lambda number: probe.borrow(thing))
    assert outstanding() == before


@pytest.mark.skipif(sys.platform != "linux", reason="shared tensors need Linux")
def test_a_tensor_is_frozen_beside_threads_that_take_it():
    """As long as an array exists that can be written to, the tensor is not frozen."""
    tenon, numpy = pytest.importorskip("tenon"), pytest.importorskip("numpy")
    ways = [
        (numpy.asarray, lambda array: array.flags.writeable),
        (numpy.from_dlpack, lambda array: array.flags.writeable),
        (memoryview, lambda view: not view.readonly),
        (lambda tensor: tensor[1:], lambda view: not view.readonly),
        (lambda tensor: tensor.T, lambda view: repr(view) and not view.readonly),
    ]
    for take, is_writable in ways:
        for _ in range(40):
            tensor, frozen = tenon.shared_zeros((4,), "f32"), threading.Event()

            def work(number, tensor=tensor, frozen=frozen, take=take, is_writable=is_writable):
                for _ in range(50 if number else 0):
                    taken = take(tensor)
                    assert not (is_writable(taken) and frozen.is_set())
                    del taken
                while number == 0 and not frozen.is_set():
                    try:
                        tensor.freeze()
                        frozen.set()
                    except BufferError:
                        pass

            together(work, 3)
            assert tensor.readonly
