"""DLPack's exchange table, from types that are hostile or merely odd."""

import gc
import os
import sys
import sysconfig
from unittest import mock

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from hostility import EXCEPTIONS, REFUSALS, Surprise, outstanding, refused, taken

ATTRIBUTE = "__dlpack_c_exchange_api__"
ELSEWHERE = {"device_type": 2, "data": 4096}  # CUDA: nobody reads it
READ_ONLY = 1


@pytest.fixture(scope="module", autouse=True)
def quick_collections():
    """torch's hundred thousand objects would be looked at after each test."""
    try:
        import torch  # noqa: F401
    except ImportError:
        pass
    gc.freeze()
    yield
    gc.unfreeze()


def typed(table, **attributes):
    """An object whose type has this table."""
    return type("Tabled", (), {ATTRIBUTE: table, **attributes})()


def torch_typed(table):
    """An object that counts as torch's: through its table goes the quicker borrow, without a managed struct."""
    torch = pytest.importorskip("torch")
    return torch.zeros(3).as_subclass(type("Tensor", (torch.Tensor,), {ATTRIBUTE: table}))


MAKERS = {"managed": typed, "plain": torch_typed}
both = pytest.mark.parametrize("maker", MAKERS)


@both
def test_the_table_is_used(maker):
    hostile.plan(shape=(2, 3), strides=(3, 1), data=1)
    view = taken(lambda: MAKERS[maker](hostile.table()))
    assert (view["shape"], view["strides"], view["dtype"]) == ((2, 3), (3, 1), "f32")


def test_the_managed_struct_brings_flags():
    hostile.plan(flags=READ_ONLY)
    assert taken(lambda: typed(hostile.table()))["flags"] & READ_ONLY
    refused(lambda: typed(hostile.table()), ValueError, "read-only", probe.WRITE)


def test_a_null_deleter_is_legal():
    hostile.plan(deleter="null")
    before = outstanding()
    probe.borrow(typed(hostile.table()))
    probe.import_(typed(hostile.table()))
    assert outstanding() == before + 2


@pytest.mark.parametrize("deleter", ["raise", "clobber"])
def test_a_deleter_cannot_change_how_a_call_ends(deleter):
    heard = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: heard.append(str(unraisable.exc_value))
    try:
        hostile.plan(deleter=deleter, flags=READ_ONLY)
        taken(lambda: typed(hostile.table()))
        refused(lambda: typed(hostile.table()), ValueError, "read-only", probe.WRITE)
        hostile.plan(deleter=deleter, code=99)
        refused(lambda: typed(hostile.table()), TypeError)
    finally:
        sys.unraisablehook = hook
    assert heard == (["the deleter raised"] * 6 if deleter == "raise" else [])


def test_the_same_object_goes_out_if_the_table_describes_the_same_elements():
    plain = {"shape": (2, 3), "strides": (3, 1), **ELSEWHERE}
    hostile.plan(**plain)
    given = typed(hostile.table())
    handle = probe.import_(given, probe.ANY_DEVICE)
    assert probe.export(handle, probe.SAME) is given
    for change in ({"shape": (6,), "strides": (1,)}, {"code": 1}, {"strides": (1, 2)}, {"answer": "fail"}, {"data": 8192},
                   {"answer": "nothing"}, {"answer": "fail", "error": ValueError("no more")}, {"ndim": 65}, {"device_id": 1}):
        hostile.plan(**{**plain, **change})
        assert type(probe.export(handle, probe.SAME)).__name__ == "Tensor", change
    for answer in ("fail", "ok"):
        interrupt = KeyboardInterrupt("now")
        hostile.plan(**plain, answer=answer, error=interrupt)
        with pytest.raises(KeyboardInterrupt) as raised:
            probe.export(handle, probe.SAME)
        assert raised.value is interrupt
    hostile.plan(**{**plain, "strides": None})
    assert probe.export(handle, probe.SAME) is given
    hostile.plan()
    before = outstanding()
    del handle, given
    assert outstanding() == before - 1


# --------------------------------------------------------------------------------------------------------- functions


@both
def test_failure_without_an_exception(maker):
    hostile.plan(answer="fail")
    refused(lambda: MAKERS[maker](hostile.table()), BufferError, "without an exception")


@both
@pytest.mark.parametrize("answer", ["fail", "ok", "nothing"])
@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_an_exception_is_unchanged_whatever_the_function_returns(maker, answer, kind):
    raised = kind("from the table")
    hostile.plan(answer=answer, error=raised)
    assert refused(lambda: MAKERS[maker](hostile.table()), kind, "from the table") is raised
    hostile.plan()


@both
@pytest.mark.parametrize("answer", ["fail", "ok", "nothing"])
@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_is_a_buffer_error_with_its_cause(maker, answer, kind):
    hostile.plan(answer=answer, error=kind("not this one"))
    refused(lambda: MAKERS[maker](hostile.table()), BufferError, "not this one", cause=kind)
    hostile.plan()


@both
def test_success_with_nothing_written(maker):
    hostile.plan(answer="nothing")
    refused(lambda: MAKERS[maker](hostile.table()), BufferError, "wrote nothing")


def test_what_a_failing_function_wrote_is_not_taken():
    hostile.plan(answer="fail_written")
    before = outstanding()
    with pytest.raises(BufferError, match="without an exception"):
        probe.borrow(typed(hostile.table()))
    assert outstanding() == before + 1


def test_the_functions_that_may_be_missing():
    hostile.plan()
    for null in ("plain", "to_object", "stream"):
        taken(lambda null=null: typed(hostile.table(null=null)))
    refused(lambda: typed(hostile.table(null="managed")), BufferError, "no function to take a tensor")
    taken(lambda: torch_typed(hostile.table(null="plain")))
    taken(lambda: torch_typed(hostile.table(null="managed")))


WRONG = {
    "memory": (BufferError, {"data": 0}),
    "negative ndim": (BufferError, {"ndim": -2}),
    "65 dimensions": (BufferError, {"shape": (1,) * 65}),
    "huge ndim": (BufferError, {"ndim": 2**31 - 1}),
    "no shape": (BufferError, {"shape": None, "ndim": 1}),
    "negative size": (BufferError, {"shape": (3, -1)}),
    "overflow": (BufferError, {"shape": (2**62, 2**62)}),
    "stride overflow": (BufferError, {"shape": (3, 3), "strides": (2**62, 1)}),
    "offset overflow": (BufferError, {"byte_offset": 2**64 - 1}),
    "dtype code": (TypeError, {"code": 99}),
    "dtype bits": (TypeError, {"bits": 33}),
    "no lanes": (TypeError, {"lanes": 0}),
    "device type": (BufferError, {"device_type": 99}),
    "device id": (BufferError, {"device_id": -1}),
}


@both
@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_field_of_the_struct(maker, field):
    error, plan = WRONG[field]
    hostile.plan(**plan)
    refused(lambda: MAKERS[maker](hostile.table()), error)


def test_wrong_fields_of_the_managed_struct():
    hostile.plan(major=2)
    refused(lambda: typed(hostile.table()), BufferError, "DLPack 2")
    hostile.plan(flags=1 << 40)
    refused(lambda: typed(hostile.table()), BufferError, "flags")


# ----------------------------------------------------------------------------------------------------------- streams


@both
@pytest.mark.parametrize("answer", ["ok", "fail"])
@pytest.mark.parametrize("kind", [Surprise, KeyboardInterrupt, RuntimeError])
def test_a_stream_function_that_raises(maker, answer, kind):
    hostile.plan(stream_answer=answer, stream_error=kind("no stream"), **ELSEWHERE)
    before = outstanding()
    thing = MAKERS[maker](hostile.table())
    references = sys.getrefcount(thing)
    with pytest.raises(kind, match="no stream"):
        probe.stream(thing)
    with pytest.raises(kind, match="no stream"):
        probe.borrow(thing, probe.ANY_DEVICE, 7)
    hostile.plan()
    assert sys.getrefcount(thing) == references
    assert outstanding() == before


@both
def test_a_stream_function_that_fails_silently_or_writes_nothing(maker):
    hostile.plan(stream_answer="fail", **ELSEWHERE)
    thing = MAKERS[maker](hostile.table())
    with pytest.raises(RuntimeError, match="current stream"):
        probe.stream(thing)
    hostile.plan(stream_answer="nothing", **ELSEWHERE)
    assert probe.stream(thing) == 0
    hostile.plan(stream=77, **ELSEWHERE)
    assert probe.stream(thing) == 77


def test_another_stream_than_the_callers_is_not_taken_without_a_word():
    hostile.plan(stream=77, **ELSEWHERE)
    before = outstanding()
    thing = typed(hostile.table())
    assert probe.borrow(thing, probe.ANY_DEVICE, 77)["device"] == (2, 0)
    with pytest.raises(TypeError, match="expected an array"):  # there is no __dlpack__ that could be asked to wait
        probe.borrow(thing, probe.ANY_DEVICE, 5)
    assert outstanding() == before


# ---------------------------------------------------------------------------------------------------- where it is found


def fallback(self, **keywords):
    return hostile.capsule(shape=(5,))


@pytest.mark.parametrize("attribute", [None, 0, 12345, "dlpack_exchange_api", object(), {}, property(lambda self: 1)])
def test_a_wrong_kind_of_attribute_means_the_next_way(attribute):
    assert taken(lambda: typed(attribute, __dlpack__=fallback))["shape"] == (5,)
    refused(lambda: typed(attribute), TypeError, "expected an array")


@pytest.mark.parametrize("name", ["dlpack_exchange", "dltensor", ""])
def test_a_capsule_of_another_name_means_the_next_way(name):
    assert taken(lambda: typed(hostile.table(name=name), __dlpack__=fallback))["shape"] == (5,)


@pytest.mark.parametrize("major", [0, 2, 2**32 - 1])
def test_another_major_version_means_the_next_way(major):
    assert taken(lambda: typed(hostile.table(major=major), __dlpack__=fallback))["shape"] == (5,)
    refused(lambda: typed(hostile.table(major=major)), TypeError, "expected an array")


def test_a_table_of_version_2_that_leads_to_version_1():
    hostile.plan(shape=(6,))
    older = hostile.table()
    middle = hostile.table(major=2, prev=older)
    assert taken(lambda: typed(hostile.table(major=3, prev=middle)))["shape"] == (6,)


def test_a_circle_of_tables_is_survived():
    assert taken(lambda: typed(hostile.table(major=2, prev="self"), __dlpack__=fallback))["shape"] == (5,)


def test_a_table_on_the_instance_is_ignored():
    class Plain:
        pass

    def make():
        thing = Plain()
        setattr(thing, ATTRIBUTE, hostile.table())
        return thing

    refused(make, TypeError, "expected an array")


def test_a_subclass_inherits_the_table():
    hostile.plan(shape=(4,))
    base = type("Base", (), {ATTRIBUTE: hostile.table()})
    assert taken(type("Derived", (base,), {}))["shape"] == (4,)
    refused(type("Without", (base,), {ATTRIBUTE: None}), TypeError, "expected an array")


def test_an_attribute_that_raises():
    for kind in (Surprise, KeyboardInterrupt, RuntimeError):
        def fail(cls, kind=kind):
            raise kind("on the type")

        meta = type("Meta", (type,), {ATTRIBUTE: property(fail)})
        refused(meta("Made", (), {}), kind, "on the type")


def test_types_die_and_their_addresses_are_reused():
    hostile.plan(shape=(4,))
    before = outstanding()
    table = hostile.table()
    for number in range(400):
        attributes = {ATTRIBUTE: table} if number % 3 == 0 else {"__dlpack__": fallback} if number % 3 == 1 else {}
        cls = type("Passing", (), attributes)
        hostile.plan(shape=(4,))
        if attributes:
            assert probe.borrow(cls())["shape"] == ((4,) if number % 3 == 0 else (5,))
        else:
            with pytest.raises(TypeError, match="expected an array"):
                probe.borrow(cls())
        del cls
        gc.collect(0)
    assert outstanding() == before


# ------------------------------------------------------------------------------------------------- types that lie


def test_a_mock_of_a_torch_tensor_is_no_tensor():
    torch = pytest.importorskip("torch")
    for kind in (mock.Mock, mock.MagicMock):
        pretender = kind(spec=torch.Tensor)
        assert isinstance(pretender, torch.Tensor)
        for way in (probe.borrow, probe.import_):
            with pytest.raises(TypeError):
                way(pretender)


def test_a_class_that_lies_about_its_class():
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    for pretended in (torch.Tensor, numpy.ndarray, probe.Tensor):
        refused(type("Liar", (), {"__class__": property(lambda self, cls=pretended: cls)}), TypeError,
                "expected an array")


def test_torchs_table_on_a_type_that_is_not_torchs():
    torch = pytest.importorskip("torch")
    table = getattr(torch.Tensor, ATTRIBUTE, None)
    if table is None:
        pytest.skip("this torch has no table")
    refused(lambda: typed(table), BufferError, "Tabled", cause=RuntimeError)


def test_our_table_on_a_type_that_is_not_ours():
    refused(lambda: typed(getattr(probe.Tensor, ATTRIBUTE)), TypeError)
