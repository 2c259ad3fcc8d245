"""Sweeps: every operation of the soak again and again, while the n-th allocation or system call of ours fails, for every n.

    faulty.py memory|system|python [NAME]...        with faults.so preloaded

An operation must end as usual or with the exception of the fault, whatever n is, and lose nothing. `python` lets Python's own n-th
allocation fail instead, for n up to TENON_FAULTS. Python's own code may raise anything then, so only that nothing crashes and
that nothing of ours is lost is checked.
"""

import ctypes
import errno
import gc
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "soak"))

import operations
from world import World, tenon

MEMORY, SYSTEM = 0, 1
# They start threads and processes, whose own failures this process does not see.
APART = {"forks", "subinterpreters", "threads_that_end", "torch_operators", "jax_operators"}
ERRORS = (errno.ENOSPC, errno.EMFILE, errno.EINTR, errno.EIO)
SEED = 3


@operations.operation()
def load(world):
    """A library that was never loaded before, and a file that is not one."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tenon-faults-"))
    try:
        copied = shutil.copy(world.path("overloads"), folder / f"copy{world.random.random()}.so")
        assert tenon.load(copied).number(2.0) == 4.0
        (folder / "none.so").write_text("no library", encoding="utf-8")
        with operations.refused(ImportError):
            tenon.load(folder / "none.so")
    finally:
        shutil.rmtree(folder)


def faults():
    library = ctypes.CDLL(None)
    library.faults_arm.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int]
    library.faults_disarm.restype = ctypes.c_int64
    library.faults_watch.argtypes = [ctypes.c_char_p]
    assert library.faults_watch(b"/tenon/_native"), "Tenon's own library was not found"
    return library


def sweep(world, operation, kind, numbers, expected):
    """All failures of one operation; the number of them."""
    library, failed = faults(), 0
    for number in numbers:
        n = 0
        while True:
            n += 1
            world.random.seed(SEED)
            error = None
            library.faults_arm(kind, n, number)
            try:
                operation(world)
            except BaseException as raised:
                error = raised
            calls = library.faults_disarm(kind)
            world.clear()
            if error is not None and not expected(error, number):
                print(f"{operation.__name__}, call {n} fails with {errno.errorcode[number]}: {error!r}", flush=True)
                raise error
            failed += error is not None
            if calls < n:
                break
    return failed


def says_memory(error, number):
    return isinstance(error, MemoryError)


def says_system(error, number):
    """The error of the system, or an error that quotes it; in the loader an ImportError."""
    return isinstance(error, (OSError, ImportError, MemoryError)) and not isinstance(error, FileExistsError)


def sweep_python(world, operation):
    import _testcapi

    failed = 0
    for n in range(int(os.environ.get("TENON_FAULTS", "40"))):
        world.random.seed(SEED)
        error = None
        _testcapi.set_nomemory(n, n + 1)
        try:
            operation(world)
        except Exception as raised:
            error = raised
        finally:
            _testcapi.remove_mem_hooks()
        failed += error is not None
        del error
        world.clear()
    return failed


def main():
    kind, chosen = sys.argv[1], sys.argv[2:]
    world, failed = World(SEED), 0
    found = [function for function, _, _ in operations.OPERATIONS
             if function.__name__ not in APART and (not chosen or function.__name__ in chosen)]
    for operation in found:
        world.random.seed(SEED)
        operation(world)  # once as usual: what is made only once is made now
        world.clear()
        if kind == "memory":
            failed += sweep(world, operation, MEMORY, (errno.ENOMEM,), says_memory)
        elif kind == "system":
            failed += sweep(world, operation, SYSTEM, ERRORS, says_system)
        else:
            failed += sweep_python(world, operation)
        world.random.seed(SEED)
        operation(world)
        world.clear()
    gc.collect()
    print(f"{len(found)} operations, {failed} failures: nothing was lost")


if __name__ == "__main__":
    main()
