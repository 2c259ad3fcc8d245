"""Releases come from anywhere and wait for nobody."""

import gc
import sys
import threading

import pytest
import tenon_torch_probe as probe
import torch
from apart import run_apart


def settle():
    """The next call of the bridge gives back what other threads left."""
    probe.release(probe.take(torch.ones(1)))
    gc.collect()


def test_a_thread_without_the_lock_does_not_wait():
    """The caller holds the lock and waits for the thread: a release that took the lock would never return."""
    end = run_apart("""
import gc, weakref, torch, tenon_torch_probe as probe
for only_c_holds_it in (False, True):
    x = torch.ones(3).as_subclass(type("Tagged", (torch.Tensor,), {}))
    gone, uses = weakref.ref(x), x._use_count()
    handle = probe.take(x)
    if only_c_holds_it:
        del x
    probe.release_elsewhere(handle)
    assert probe.refcount(handle) == 0
    probe.release(probe.take(torch.ones(1)))  # gives back what the other thread left
    assert only_c_holds_it or x._use_count() == uses
    x = None
    gc.collect()
    assert gone() is None
""")
    assert end.returncode == 0, end


def test_counts_from_many_threads():
    x = torch.ones(3)
    references, uses = sys.getrefcount(x), x._use_count()
    handle = probe.take(x)
    probe.release_elsewhere(handle, 8, 20000)
    settle()
    assert (sys.getrefcount(x), x._use_count()) == (references, uses)


def test_python_threads():
    x = torch.ones(3)
    references, uses = sys.getrefcount(x), x._use_count()
    wrong = []

    def work():
        for _ in range(50):
            handle = probe.take(x)
            if probe.round_trips(x, 20) is not x or probe.give(handle) is not x:
                wrong.append(1)
            probe.release(handle)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert (sys.getrefcount(x), x._use_count()) == (references, uses)


def test_a_thread_of_pythons_gives_back_what_another_took():
    x = torch.ones(3)
    uses = x._use_count()
    handle = probe.take(x)
    thread = threading.Thread(target=probe.release, args=(handle,))
    thread.start()
    thread.join()
    assert x._use_count() == uses


def test_releases_during_and_after_the_interpreters_end():
    """A thread goes on while the interpreter ends, and one handle is dropped when it has: leaked, and counted."""
    end = run_apart("""
import torch, tenon_torch_probe as probe
x = torch.ones(3, requires_grad=True) * 2
probe.release_past_the_end(probe.take(x), [probe.take(torch.ones(1)) for _ in range(4000)])
del x
""")
    assert end.returncode == 0 and end.stdout.startswith("after the end: leaked "), end
    assert 1 <= int(end.stdout.split()[-1]) <= 4001


def test_what_other_threads_left_is_given_back_at_exit():
    end = run_apart("""
import torch, tenon_torch_probe as probe, weakref
x = torch.ones(3)
weakref.finalize(x, print, "gone").atexit = False
handle = probe.take(x)
del x
probe.release_elsewhere(handle)
""")
    assert (end.returncode, end.stdout.strip()) == (0, "gone"), end


@pytest.mark.skipif(sys.version_info < (3, 12), reason="interpreters have locks of their own from 3.12 on")
def test_another_interpreter_may_release_but_not_have_it():
    end = run_apart("""
import sys, torch, tenon_torch_probe as probe
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
x = torch.ones(3)
uses, handle = x._use_count(), probe.take(x)
other = interpreters.create()
interpreters.run_string(other, f'''
import sys; sys.path[:] = {sys.path}
import tenon_torch_probe as probe
try:
    probe.give({handle})
except RuntimeError as error:
    print(error, flush=True)
probe.release({handle})
''')
probe.release(probe.take(x))  # gives back what the other interpreter left
assert x._use_count() == uses
""")
    assert end.returncode == 0 and "torch was imported in another interpreter" in end.stdout, end
