"""Libraries, functions, classes and named results in pickles and copies. No import finds them."""

import copy
import gc
import multiprocessing
import os
import pickle
import shutil
import sys
import weakref

import pytest
from building import build, needs_mortal_modules, run_python, same_counts, tenon
from handmade import load, module

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
HASH = "0123456789abcdef" * 2
ROW = 'TENON_FUNCTION("answer() -> int", answer, "")'
ANSWER = f"""
#include <tenon/function.h>
static tenon_status answer(tenon_call *call)
{{
    tenon_return_int(call, 0, ANSWER);
    return TENON_OK;
}}
TENON_MODULE(answering, "", {ROW})
"""


@pytest.fixture(scope="module")
def boxes():
    return tenon.load(build("classes/boxes.c"))


def round_trips(thing, protocol):
    """What the picklers and unpicklers in C and in Python make of it."""
    for stored in (pickle.dumps(thing, protocol), pickle._dumps(thing, protocol)):
        yield pickle.loads(stored)
        yield pickle._loads(stored)


# --------------------------------------------------------------------------------------------- libraries and their parts


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parts_are_the_same_objects(kernels, boxes, protocol):
    method, new = boxes.Box.dot, boxes.Box.__new__
    of_kernels = [kernels, kernels.saxpy, kernels.saxpy.__self__]
    for part in [*of_kernels, boxes.Box, boxes.Empty, method, method.function, new, new.__self__]:
        assert all(again is part for again in round_trips(part, protocol))
    for again in round_trips(of_kernels, protocol):
        assert [id(part) for part in again] == [id(part) for part in of_kernels]


def test_what_is_stored(kernels):
    call, (owner, name) = kernels.saxpy.__reduce__()
    assert (call, name) == (getattr, "saxpy") and owner is kernels.saxpy.__self__ and getattr(owner, name) is kernels.saxpy
    path, hash, _, _ = kernels.__reduce__()[1]
    assert path == kernels.__file__ and len(hash) == 32
    with pytest.raises(AttributeError):
        owner.copy


def test_copies_are_the_same_objects(kernels, boxes):
    for part in (kernels, kernels.saxpy, kernels.saxpy.__self__, boxes.Box):
        assert copy.copy(part) is part and copy.deepcopy([part])[0] is part


def test_a_library_that_was_not_loaded():
    with pytest.raises(TypeError, match="did not return cannot be pickled"):
        pickle.dumps(tenon.Library.__new__(tenon.Library))


def test_each_load_is_found():
    """Several loads of one file have states of their own."""
    first, second = tenon.load(build("kernels.c")), tenon.load(build("kernels.c"))
    parts = [first, second, first.saxpy, second.saxpy]
    assert [id(part) for part in pickle.loads(pickle.dumps(parts))] == [id(part) for part in parts]
    assert first.saxpy is not second.saxpy


def test_a_function_alone_is_found():
    """The module is gone, but not the function."""
    function, made = tenon.load(build("kernels.c")).counts, tenon.load(build("classes/boxes.c")).Box
    gc.collect()
    calls = function().calls
    assert pickle.loads(pickle.dumps(function)) is function and pickle.loads(pickle.dumps(made)) is made
    assert pickle.loads(pickle.dumps(function.__self__)) is function.__self__
    assert function().calls == calls + 1


@needs_mortal_modules
def test_a_library_that_died_is_loaded_again():
    function = tenon.load(build("kernels.c")).counts
    stored = pickle.dumps([function, tenon.load(build("kernels.c"))])
    gc.collect()
    again, library = pickle.loads(stored)
    assert again is function and library.saxpy is not None and pickle.loads(stored)[1] is library


def test_a_changed_module_is_left_alone():
    loaded = tenon.load(build("kernels.c"))
    function, loaded.saxpy = loaded.saxpy, None
    assert pickle.loads(pickle.dumps(function)) is function


def test_functions_with_the_names_of_attributes():
    names = ["signature", "name", "module", "path", "reduce", "find", "unpickle", "hash", "Library", "_hash"]
    rows = ", ".join(ROW.replace("answer()", f"{name}()") for name in names)
    loaded = tenon.load(build(ANSWER.replace(ROW, rows), "-DANSWER=7"))
    for protocol in PROTOCOLS:
        for name in names:
            function = vars(loaded)[name]
            assert function() == 7 and all(again is function for again in round_trips(function, protocol))
    assert loaded.signature.__self__.signature == "signature() -> int"


def test_an_object_is_not_pickled(boxes):
    box = boxes.Box(memoryview(bytearray(8)).cast("f"))
    for thing in (box, box.dot):
        with pytest.raises(TypeError, match="^boxes.Box: an object of a library cannot be pickled or copied$"):
            pickle.dumps(thing)


def test_a_library_without_functions():
    loaded = load(module())
    assert pickle.loads(pickle.dumps(loaded)) is loaded


# --------------------------------------------------------------------------------------------------- another process

READ = """
import pickle, sys
import tenon
with open(sys.argv[1], "rb") as file:
    stored = file.read()
"""


def read_elsewhere(folder, stored, code):
    """What the code prints in another process. `stored` is the pickle there."""
    (folder / "pickle").write_bytes(stored)
    return run_python(READ + code, folder / "pickle")


def test_another_process(kernels, boxes, tmp_path):
    code = """
counts, kernels, Box, dot, saxpy = pickle.loads(stored)
assert counts is kernels.counts and dot is Box.dot and saxpy is kernels.saxpy.__self__
print(type(kernels).__name__, kernels.__file__, counts().calls, Box.__module__, "kernels" in sys.modules)
del counts, kernels
print(pickle.loads(stored)[0]().calls)  # it stays loaded, with its state
print(pickle.loads(stored)[2] is Box)
"""
    stored = pickle.dumps([kernels.counts, kernels, boxes.Box, boxes.Box.dot, kernels.saxpy.__self__])
    assert read_elsewhere(tmp_path, stored, code) == f"Library {kernels.__file__} 1 boxes False\n2\nTrue\n"


def test_a_library_that_is_loaded_already(kernels, tmp_path):
    code = f"print(tenon.load({kernels.__file__!r}).saxpy is pickle.loads(stored))"
    assert read_elsewhere(tmp_path, pickle.dumps(kernels.saxpy), code) == "True\n"


def test_a_relative_path(tmp_path, monkeypatch):
    shutil.copy(build(ANSWER, "-DANSWER=1"), tmp_path / "here.so")
    monkeypatch.chdir(tmp_path)
    for path in ("here.so", b"here.so", f"../{tmp_path.name}/here.so"):
        loaded = tenon.load(path)
        monkeypatch.chdir("/")
        stored = pickle.dumps(loaded.answer)
        monkeypatch.chdir(tmp_path)
        assert os.fsencode(tmp_path / "here.so") in stored
    monkeypatch.chdir("/")
    assert read_elsewhere(tmp_path, stored, "print(pickle.loads(stored)())") == "1\n"


def test_a_path_that_is_not_utf8(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.so")
    shutil.copy(build(ANSWER, "-DANSWER=2"), path)
    function = tenon.load(path).answer
    for protocol in PROTOCOLS:
        assert all(again is function for again in round_trips(function, protocol))
    assert read_elsewhere(tmp_path, pickle.dumps(function), "print(pickle.loads(stored)())") == "2\n"


def test_a_library_that_is_gone(tmp_path):
    path = tmp_path / "gone.so"
    shutil.copy(build(ANSWER, "-DANSWER=3"), path)
    loaded = tenon.load(path)
    stored = pickle.dumps(loaded.answer)
    path.unlink()
    assert pickle.loads(stored) is loaded.answer and pickle.dumps(loaded.answer) == stored
    code = "try: pickle.loads(stored)\nexcept FileNotFoundError as error: print(error, error.filename, sep='\\n')"
    message = "the library was at this path when it was pickled; build or copy it to there, or pickle again"
    assert read_elsewhere(tmp_path, stored, code) == f"[Errno 2] {message}: '{path}'\n{path}\n"


def test_a_library_that_was_rebuilt(tmp_path):
    path = tmp_path / "built.so"
    libraries, stored = [], []
    for number in (4, 5):
        shutil.copy(build(ANSWER, f"-DANSWER={number}"), tmp_path / "new")
        (tmp_path / "new").replace(path)
        libraries.append(tenon.load(path))
        stored.append(pickle.dumps(libraries[-1].answer))
    for library, text in zip(libraries, stored):
        assert pickle.loads(text) is library.answer
    expected, found = (library.__reduce__()[1][1] for library in libraries)
    message = (
        f"{path}: the library was changed after it was pickled: the hash of its content was {expected}, and is {found} now; "
        "restore that build, or load the library and pickle again"
    )
    code = "try: pickle.loads(stored)\nexcept ImportError as error: print(error, error.path, error.name, sep='\\n')"
    assert read_elsewhere(tmp_path, stored[0], code) == f"{message}\n{path}\nanswering\n"
    code = f"new = tenon.load({str(path)!r})\n{code}\nprint(new.answer())"
    assert read_elsewhere(tmp_path, stored[0], code) == f"{message}\n{path}\nanswering\n5\n"


def test_a_file_that_is_not_a_library(tmp_path):
    shutil.copy(build(ANSWER, "-DANSWER=6"), tmp_path / "cut.so")
    stored = pickle.dumps(tenon.load(tmp_path / "cut.so").answer)
    (tmp_path / "cut.so").unlink()
    (tmp_path / "cut.so").write_bytes(b"not a library")
    code = "try: pickle.loads(stored)\nexcept ImportError as error: print(error.path)"
    assert read_elsewhere(tmp_path, stored, code) == f"{tmp_path / 'cut.so'}\n"


# ------------------------------------------------------------------------------------------------------- made by hand


@pytest.mark.parametrize(
    "state",
    [
        (b"/x.so", HASH, 0, "f"),
        ("x.so", HASH, 0, "f"),
        ("", HASH, 0, "f"),
        ("/x\0.so", HASH, 0, "f"),
        (None, HASH, 0, "f"),
        ("/x.so", HASH[1:], 0, "f"),
        ("/x.so", HASH.upper(), 0, "f"),
        ("/x.so", 5, 0, "f"),
        ("/x.so", HASH, "0", "f"),
        ("/x.so", HASH, 0, None),
        ([], [], [], []),
    ],
    ids=ascii,
)
def test_damaged_state(kernels, state):
    with pytest.raises(ValueError, match="^the pickle of a library is damaged: expected an absolute path"):
        kernels.__reduce__()[0](*state)


def test_names_that_do_not_exist(kernels):
    unpickle, (path, hash, number, _) = kernels.__reduce__()
    for name in ("nothing", "nothing.more", "saxpy.nothing", ".", "saxpy..", "__file__.x"):
        with pytest.raises(AttributeError, match="has no attribute"):
            unpickle(path, hash, number, name)
    assert unpickle(path, hash, -5, "saxpy") is unpickle(path, hash, 2**70, "saxpy")
    with pytest.raises(TypeError):
        unpickle(path, hash)


@pytest.mark.parametrize("path", ["/", "/dev/zero", "/nowhere/x.so"])
def test_paths_that_are_not_libraries(path, kernels):
    with pytest.raises((OSError, ImportError), match=path):
        kernels.__reduce__()[0](path, HASH, 0, "f")


def test_a_library_made_by_hand():
    with pytest.raises(TypeError):
        tenon.Library("kernels")
    assert pickle.loads(pickle.dumps(tenon.Library)) is tenon.Library


# --------------------------------------------------------------------------------------------------------- processes


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_multiprocessing(kernels, boxes, method):
    printed = run_python(
        """
        import concurrent.futures, multiprocessing, multiprocessing.pool, sys
        import tenon

        kernels, boxes = tenon.load(sys.argv[1]), tenon.load(sys.argv[2])
        context = multiprocessing.get_context(sys.argv[3])
        with context.Pool(1) as pool:
            print(pool.map(kernels.unlocked, [b"12345678"] * 20) == [kernels.unlocked(b"12345678")] * 20)
            print([pool.apply(kernels.counts).calls for _ in range(3)])
            print(pool.apply(getattr, (boxes.Box, "__name__")), pool.apply(getattr, (kernels, "__name__")))
            try:
                pool.apply(boxes.Box, (bytearray(8),))
            except TypeError as error:
                print(error)
            try:
                pool.apply(boxes.bare)
            except multiprocessing.pool.MaybeEncodingError as error:
                print("boxes.Bare: an object of a library cannot be pickled" in str(error))
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            print(type(pool.submit(kernels.counts).result()) is kernels.counts_result)
        """,
        kernels.__file__,
        boxes.__file__,
        method,
    )
    expected = "Box(): argument 'x': expected f32[n], got u8[8] (bytearray)"
    assert printed.startswith(f"True\n[1, 2, 3]\nBox kernels\n{expected}") and printed.endswith("\nTrue\nTrue\n")


@pytest.mark.parametrize("name", ["cloudpickle", "dill"])
def test_other_picklers(kernels, name):
    other = pytest.importorskip(name)
    for part in (kernels, kernels.saxpy):
        assert other.loads(other.dumps(part)) is part


def test_a_class_by_value(boxes):
    cloudpickle = pytest.importorskip("cloudpickle")
    with pytest.raises(TypeError, match="boxes.so cannot be pickled by value, as cloudpickle does; pass the library instead$"):
        cloudpickle.dumps(boxes.Box)


def test_joblib(kernels):
    joblib = pytest.importorskip("joblib")
    found = joblib.Parallel(2)(joblib.delayed(kernels.unlocked)(b"12345678") for _ in range(4))
    assert found == [kernels.unlocked(b"12345678")] * 4


SUB = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
counts = pickle.loads(stored)[0]
code = f'''
import sys, pickle
sys.path[:] = {sys.path!r}
counts, function = pickle.loads({stored!r})
assert [counts().calls, counts().calls] == [1, 2]
assert pickle.loads(pickle.dumps(function)) is function
'''
for _ in range(2):
    interpreter = interpreters.create()
    failure = interpreters.run_string(interpreter, code)
    assert not failure, failure.formatted
    interpreters.destroy(interpreter)
print(counts().calls)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sub-interpreters have their own lock from Python 3.12 on")
def test_subinterpreters(kernels, tmp_path):
    """Each loads the library for itself."""
    assert read_elsewhere(tmp_path, pickle.dumps([kernels.counts, kernels.saxpy]), SUB) == "1\n"


def test_threads(kernels, tmp_path):
    """All get the same library, whichever thread loads it."""
    code = """
import threading
found, start = [], threading.Barrier(8)
def work():
    start.wait()
    found.append(pickle.loads(stored))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(map(id, found))))
"""
    assert read_elsewhere(tmp_path, pickle.dumps(kernels.saxpy), code) == "8 1\n"


# ------------------------------------------------------------------------------------------------------------- leaks


def test_nothing_leaks(kernels, boxes):
    parts = [kernels, kernels.saxpy, kernels.saxpy.__self__, boxes.Box, boxes.Box.dot, boxes.Box.dot.function]
    unpickle, state = kernels.__reduce__()

    def turn():
        for part in parts:
            pickle.loads(pickle.dumps(part))
        for name in ("nothing", "saxpy.nothing"):
            try:
                unpickle(*state[:3], name)
            except AttributeError:
                pass

    turn()
    gc.collect()  # what other tests left behind
    with same_counts(*parts):
        for _ in range(10):
            turn()
    growth = []
    for _ in range(5):
        before = sys.getallocatedblocks()
        for _ in range(200):
            turn()
        gc.collect()
        growth.append(sys.getallocatedblocks() - before)
    assert min(growth) < 100, growth  # caches of Python grow too, but not always


@needs_mortal_modules
def test_libraries_still_die():
    gone = []
    for _ in range(20):
        loaded = tenon.load(build(ANSWER, "-DANSWER=8"))
        assert loaded.__reduce__()[1][2] == 0  # no other load of it is alive
        gone.append(weakref.ref(loaded))
        del loaded
        gc.collect()
    assert [reference() for reference in gone] == [None] * 20


# ----------------------------------------------------------------------------------------------------- named results


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_round_trip(protocol):
    loaded = tenon.load(build("kernels.c"))
    named = loaded.counts()
    again = pickle.loads(pickle.dumps(named, protocol))
    assert again == named and type(again) is type(named) is loaded.counts_result
    assert again._fields == named._fields


def test_round_trip_of_an_older_load():
    old, new = tenon.load(build("kernels.c")), tenon.load(build("kernels.c"))
    again = pickle.loads(pickle.dumps(old.counts()))
    assert type(again) is new.counts_result


def test_another_process_needs_no_library(tmp_path):
    named = tenon.load(build("kernels.c")).counts()
    (tmp_path / "pickle").write_bytes(pickle.dumps([named, named]))
    printed = run_python(
        """
        import pickle, sys
        with open(sys.argv[1], "rb") as file:
            one, two = pickle.load(file)
        assert type(one) is type(two) and one is two
        assert type(one).__module__ == "kernels" and "kernels" not in sys.modules
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one)
        print(one, again == one)
        """,
        tmp_path / "pickle",
    )
    assert printed == f"{named!r} True\n"


def test_copies_have_the_same_type():
    old, _ = tenon.load(build("kernels.c")), tenon.load(build("kernels.c"))
    named = old.counts()
    assert copy.copy(named) == named and type(copy.copy(named)) is type(named)
    assert copy.deepcopy(named) == named and type(copy.deepcopy([named])[0]) is type(named)


def test_pickles_of_an_older_version():
    from tenon._results import rebuild

    named = tenon.load(build("kernels.c")).counts()
    made = type(named)
    again = rebuild(made.__module__, made.__name__, made._fields, tuple(named))
    assert again == named and type(again) is made
