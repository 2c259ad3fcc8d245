"""No exception is lost, replaced or invented; and no allocation that fails ends in anything but MemoryError."""

import array
import gc
import sys
import traceback

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from hostility import EXCEPTIONS, Surprise, outstanding, producer

AS = {"tensor": probe.TENSOR, "same": probe.SAME, "memoryview": probe.MEMORYVIEW, "capsule": probe.CAPSULE,
      "legacy": probe.CAPSULE_LEGACY}


def test_a_refusals_traceback_leads_to_the_producer():
    def method(self, **keywords):
        raise RuntimeError("from here")

    with pytest.raises(BufferError) as caught:
        probe.borrow(producer(method))
    frames = traceback.extract_tb(caught.value.__cause__.__traceback__)
    assert frames[-1].name == "method"
    assert caught.value.__context__ is caught.value.__cause__


def test_a_type_that_hides_its_name():
    class Hides(type):
        def __getattribute__(cls, name):
            if name == "__qualname__":
                raise AttributeError(name)
            return super().__getattribute__(name)

    with pytest.raises(TypeError, match="^an object"):
        probe.borrow(Hides("Hidden", (), {})())


def test_a_long_message_is_cut_between_characters():
    def method(self, **keywords):
        raise RuntimeError(start + "ß" * 200)

    for start in ("", "x"):
        with pytest.raises(BufferError, match=f": {start}ß+") as caught:
            probe.borrow(producer(method))
        assert "\ufffd" not in str(caught.value)


@pytest.mark.parametrize("name, kind, argument", [("raise", RuntimeError, "err"), ("export", ValueError, "tensor"), ("empty", ValueError, "out")])
def test_arguments_that_are_null(name, kind, argument):
    with pytest.raises(kind, match=rf"^tenon_py_{name}\(\): argument '{argument}' is NULL$"):
        probe.null(name)


def test_an_error_keeps_the_context_it_was_raised_in():
    def method(self, **keywords):
        try:
            raise Surprise("first")
        except Surprise:
            raise TypeError("second")

    with pytest.raises(TypeError, match="second") as caught:
        probe.borrow(producer(method))
    assert type(caught.value.__context__) is Surprise


def test_what_is_handled_already_is_left_alone():
    try:
        raise Surprise("handled")
    except Surprise as error:
        probe.borrow(b"abc")
        with pytest.raises(TypeError) as caught:
            probe.borrow(object())
        assert sys.exc_info()[1] is error
        assert caught.value.__context__ is error


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_the_same_object_that_now_raises(kind):
    # Export as the same object asks it again. What is no Exception is never swallowed.
    raised, calls = kind("the second time"), []

    def method(self, **keywords):
        calls.append(1)
        if len(calls) > 1:
            raise raised
        return hostile.capsule()

    before = outstanding()
    thing = producer(method)
    handle = probe.import_(thing)
    if issubclass(kind, Exception):
        assert type(probe.export(handle, probe.SAME)) is probe.Tensor
    else:
        with pytest.raises(kind) as caught:
            probe.export(handle, probe.SAME)
        assert caught.value is raised
        raised.__traceback__ = None
        del caught
    assert len(calls) == 2
    del handle, thing
    gc.collect()
    assert outstanding() == before


@pytest.mark.parametrize("way", ["buffer", "dlpack", "interface", "ours"])
def test_giving_back_with_an_exception_on_its_way(way):
    hostile.plan(deleter="clobber")
    before = outstanding()
    things = {
        "buffer": hostile.Buffer,
        "dlpack": lambda: producer(lambda self, **keywords: hostile.capsule(deleter="clobber")),
        "interface": type("Structured", (), {
            "__array_struct__": property(lambda self: hostile.array_struct(deleter="clobber"))}),
        "ours": lambda: probe.export(probe.new("f32", (3,))),
    }
    with pytest.raises(TypeError, match="integer"):
        probe.parse(things[way](), things[way](), "x")
    kept = [probe.export(probe.import_(things[way]()))]  # the last reference to the memory is in the list
    with pytest.raises(Surprise, match="on its way"):
        hostile.drop_with(kept, Surprise("on its way"))
    hostile.plan()
    gc.collect()
    assert outstanding() == before


def test_a_finalizer_that_raises_does_not_change_how_a_call_ends():
    heard = []

    class Last(bytearray):
        def __del__(self):
            raise Surprise("in the end")

    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: heard.append(str(unraisable.exc_value))
    try:
        kept = [probe.export(probe.import_(Last(8)))]
        with pytest.raises(KeyError):
            hostile.drop_with(kept, KeyError("on its way"))
        with pytest.raises(TypeError, match="integer"):
            probe.parse(Last(8), Last(8), "x")
    finally:
        sys.unraisablehook = hook
    assert heard == ["in the end"] * 3


def test_errors_of_export():
    handle = probe.new("f32", (2,))
    with pytest.raises(ValueError, match="'as'"):
        probe.export(handle, 99)
    with pytest.raises(BufferError, match="no format"):
        probe.export(probe.new("bf16", (2,)), probe.MEMORYVIEW)
    with pytest.raises(BufferError, match="read-only"):
        probe.export(probe.new("f32", (2,), None, 0, 1), probe.CAPSULE_LEGACY)
    with pytest.raises(BufferError):
        probe.export(probe.new("f32", (2,), None, 0, 0, 2), probe.MEMORYVIEW)


@pytest.mark.parametrize("keywords", [
    {"max_version": 1}, {"max_version": (1,)}, {"max_version": ("1", 0)}, {"dl_device": 1}, {"dl_device": (1,)},
    {"dl_device": ("cpu", 0)}, {"unknown": 1},
])
def test_wrong_arguments_to_our_own_dlpack(keywords):
    ours = probe.export(probe.new("f32", (2,)))
    with pytest.raises(TypeError):
        ours.__dlpack__(**keywords)


def test_our_own_dlpack_refuses_with_buffer_errors():
    ours = probe.export(probe.new("f32", (2,)))
    with pytest.raises(BufferError):
        ours.__dlpack__(dl_device=(2, 0))
    read_only = probe.export(probe.new("f32", (2,), None, 0, 1))
    with pytest.raises(BufferError):
        read_only.__dlpack__()
    with pytest.raises(Surprise):
        ours.__dlpack__(max_version=(type("Index", (), {"__index__": lambda self: (_ for _ in ()).throw(Surprise())})(), 0))


# ------------------------------------------------------------------------------------------- allocations that fail


def sweep(function, *arguments, most=400):
    """Call it with its 1st, 2nd, … allocation failing, once and from there on, until none is left to fail."""
    function(*arguments)
    references = sys.getrefcount(arguments[0])
    for count in (1, 1 << 60):
        for first in range(most):
            reached, result, error = hostile.starve(first, count, function, *arguments)
            del result
            # Before 3.12 CPython itself puts an exception without a message in the place of one it cannot format.
            silent = sys.version_info < (3, 12) and error is not None and not error.args
            assert error is None or (reached and (isinstance(error, MemoryError) or silent)), repr(error)
            del error
            if not reached:
                break
        else:
            pytest.fail(f"{most} allocations were not enough")
    after = sys.getrefcount(arguments[0])
    assert after == references or arguments[0] is None


def sources():
    yield "bytearray", bytearray(64)
    yield "array", array.array("d", range(8))
    yield "many dimensions", memoryview(bytearray(512)).cast("B", (1,) * 20 + (512,))
    yield "ours", probe.export(probe.new("f32", (4,)))
    yield "capsule", producer(lambda self, **keywords: hostile.capsule())
    yield "no keywords", producer(staticmethod(hostile.dlpack_noargs))
    yield "few keywords", producer(staticmethod(hostile.dlpack_stream))
    yield "capsule of many dimensions", producer(lambda self, **keywords: hostile.capsule(shape=(1,) * 20))
    yield "table", type("Tabled", (), {"__dlpack_c_exchange_api__": hostile.table()})()
    yield "buffer", hostile.Buffer()
    yield "interface", type("Having", (), {"__array_interface__": {
        "shape": (2, 3), "typestr": "=f4", "data": bytearray(64), "strides": (12, 4)}})()
    yield "struct", type("Having", (), {"__array_struct__": property(lambda self: hostile.array_struct())})()
    try:
        import numpy
    except ImportError:
        return
    yield "numpy", numpy.arange(6.0).reshape(2, 3)
    yield "numpy of many dimensions", numpy.zeros((1,) * 20)


@pytest.mark.parametrize("function", ["borrow", "import_", "import_release"])
@pytest.mark.parametrize("name,source", list(sources()), ids=[name for name, _ in sources()])
def test_every_allocation_of_a_way_in_may_fail(name, source, function):
    hostile.plan()
    before = outstanding()
    sweep(getattr(probe, function), source)
    gc.collect()
    assert outstanding() == before


def test_every_allocation_may_fail_without_a_spare_memory_error():
    spare = [MemoryError() for _ in range(20)]
    before = outstanding()
    for function in (probe.borrow, probe.import_, probe.import_release):
        sweep(function, producer(lambda self, **keywords: hostile.capsule()))
    del spare
    gc.collect()
    assert outstanding() == before


@pytest.mark.parametrize("name", AS)
def test_every_allocation_of_an_export_may_fail(name):
    handle = probe.new("f32", (2, 3))
    sweep(probe.export, handle, AS[name])
    assert probe.count(handle) == 1
    again = probe.import_(bytearray(16))
    sweep(probe.export, again, AS[name])
    assert probe.count(again) == 1


def test_every_allocation_of_an_export_to_numpy_may_fail():
    pytest.importorskip("numpy")
    handle = probe.new("f32", (2, 3))
    sweep(probe.export, handle, probe.NUMPY)
    assert probe.count(handle) == 1


@pytest.mark.parametrize("like", ["ours", "numpy"])
def test_every_allocation_of_a_new_array_may_fail(like):
    if like == "numpy":
        like = pytest.importorskip("numpy").zeros(1)
    else:
        like = None
    sweep(probe.empty, like, "f32", (2, 3), 7)


@pytest.mark.parametrize("thing", [
    object(), b"abc", producer(None), producer(lambda self, **keywords: None),
    producer(lambda self, **keywords: hostile.capsule(code=99)),
])
def test_every_allocation_of_a_failure_may_fail(thing):
    before = outstanding()
    references = sys.getrefcount(thing)
    for first in range(400):
        for count in (1, 1 << 60):
            reached, _, error = hostile.starve(first, count, probe.borrow, thing, probe.WRITE)
            assert isinstance(error, (BufferError, TypeError, ValueError, MemoryError)), repr(error)
            del error
        if not reached:
            break
    else:
        pytest.fail("400 allocations were not enough")
    assert sys.getrefcount(thing) == references
    gc.collect()
    assert outstanding() == before


def test_no_wrong_answer_is_remembered():
    """An allocation that fails while a type is looked at fails the call; the next one finds out the truth."""
    numpy = pytest.importorskip("numpy")
    for first in range(40):

        class Unit(numpy.ndarray):
            def __array_ufunc__(self, *arguments, **keywords):
                return NotImplemented

            def __repr__(self):  # NumPy's calls locals(), in which CPython 3.13 crashes if there is no memory
                return "Unit"

        given = numpy.zeros(3).view(Unit)
        _, result, error = hostile.starve(first, 1, probe.borrow, given)
        assert result is None and isinstance(error, (MemoryError, TypeError)), repr(error)
        with pytest.raises(TypeError, match="__array_ufunc__"):
            probe.borrow(given)
