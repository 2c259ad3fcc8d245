"""__dlpack__ and its capsules, from producers that are hostile or merely odd."""

import gc
import sys
import threading

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from hostility import EXCEPTIONS, REFUSALS, Surprise, answering, outstanding, producer, refused, taken

READ_ONLY = 1
KINDS = ["versioned", "legacy"]

# ------------------------------------------------------------------------------------------------------------ taken


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("destructor", ["polite", "rude", "none"])
def test_each_capsule_is_deleted_once(kind, destructor):
    # "rude" does not look at the capsule's name, as pybind11-made ones do not.
    view = taken(answering(kind=kind, destructor=destructor))
    assert (view["dtype"], view["shape"], view["strides"]) == ("f32", (3,), (1,))


@pytest.mark.parametrize("kind", KINDS)
def test_a_null_deleter_is_legal(kind):
    before = outstanding()
    for way in (probe.borrow, probe.import_):
        way(answering(kind=kind, deleter="null")())
    assert outstanding() == before + 2  # nobody can delete those


@pytest.mark.parametrize("kind", KINDS)
def test_empty_without_memory(kind):
    view = taken(answering(kind=kind, data=0, shape=(0, 4)))
    assert (view["data"], view["numel"]) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_zero_dimensions_without_shape(kind):
    assert taken(answering(kind=kind, shape=None, ndim=0))["numel"] == 1


def test_strides_are_kept_and_byte_offset_is_added():
    plain = taken(answering(data=4096, shape=(2, 3), strides=(-8, 0), byte_offset=0))
    moved = taken(answering(data=4096, shape=(2, 3), strides=(-8, 0), byte_offset=64))
    assert moved["strides"] == (-8, 0)
    assert moved["data"] == plain["data"] + 64


@pytest.mark.parametrize("ndim", [8, 9, 64])
def test_many_dimensions(ndim):
    assert taken(answering(shape=(1,) * ndim))["shape"] == (1,) * ndim


def test_flags_survive():
    assert taken(answering(flags=READ_ONLY | 2))["flags"] & 0xFF == READ_ONLY | 2


def test_a_newer_minor_version_is_taken():
    taken(answering(minor=99))


# ------------------------------------------------------------------------------------------------------- not taken

WRONG = {
    "memory": (BufferError, {"data": 0}),
    "negative ndim": (BufferError, {"ndim": -1}),
    "65 dimensions": (BufferError, {"shape": (1,) * 65}),
    "huge ndim": (BufferError, {"ndim": 2**31 - 1}),
    "no shape": (BufferError, {"shape": None, "ndim": 1}),
    "negative size": (BufferError, {"shape": (3, -1)}),
    "overflow": (BufferError, {"shape": (2**62, 2**62)}),
    "overflow in bytes": (BufferError, {"shape": (2**62,)}),
    "stride overflow": (BufferError, {"shape": (3, 3), "strides": (2**62, 1)}),
    "offset overflow": (BufferError, {"byte_offset": 2**64 - 1}),
    "dtype code": (BufferError, {"code": 99}),
    "dtype bits": (BufferError, {"bits": 33}),
    "no lanes": (BufferError, {"lanes": 0}),
    "flags of ours": (BufferError, {"flags": 1 << 11}),
    "device type": (BufferError, {"device_type": 99}),
    "device id": (BufferError, {"device_id": -1}),
}


@pytest.mark.parametrize("kind,field", [(kind, field) for kind in KINDS for field in WRONG
                                        if kind == "versioned" or field != "flags of ours"])
def test_a_wrong_field_is_refused_and_the_capsule_stays_the_producers(kind, field):
    error, plan = WRONG[field]
    capsule = hostile.capsule(kind=kind, **plan)
    name = hostile.capsule_name(capsule)
    before = outstanding()
    thing = producer(lambda self, **keywords: capsule)
    for way in (probe.borrow, probe.import_):
        with pytest.raises(error) as caught:
            way(thing)
        assert type(caught.value) is error
        assert outstanding() == before  # not deleted: nothing was taken
        assert hostile.capsule_name(capsule) == name
    del thing, capsule, caught
    gc.collect()
    assert outstanding() == before - 1  # by the capsule's own destructor


@pytest.mark.parametrize("major", [0, 2, 2**32 - 1])
def test_another_major_version(major):
    refused(answering(major=major), BufferError, f"DLPack {major}.")


def test_of_a_version_2_struct_only_24_bytes_are_read():
    # A page that nobody may read follows: one byte more is the end of this process.
    refused(answering(kind="edge"), BufferError, "DLPack 2.0")


@pytest.mark.parametrize("name", ["dltensor_versioned2", "", "dltensor_", "DLTENSOR"])
def test_a_capsule_of_another_name(name):
    refused(answering(name=name), TypeError, "did not return a DLPack capsule")


@pytest.mark.parametrize("name", ["used_dltensor", "used_dltensor_versioned"])
def test_a_used_capsule(name):
    before = outstanding()
    for way in (probe.borrow, probe.import_):
        with pytest.raises(BufferError, match="already been consumed"):
            way(answering(name=name)())
    assert outstanding() == before + 2  # not ours to delete


@pytest.mark.parametrize("answer", [None, 0, "dltensor", (), object(), Ellipsis])
def test_no_capsule_at_all(answer):
    refused(lambda: producer(lambda self, **keywords: answer), TypeError, "did not return a DLPack capsule")


@pytest.mark.parametrize("kind", KINDS)
def test_two_plain_calls_with_one_capsule(kind):
    before = outstanding()
    capsule = hostile.capsule(kind=kind)
    thing = producer(lambda self, **keywords: capsule)
    handle = probe.import_(thing)
    assert hostile.capsule_name(capsule).startswith("used_")
    with pytest.raises(BufferError, match="already been consumed"):
        probe.borrow(thing)
    with pytest.raises(BufferError, match="already been consumed"):
        probe.import_(thing)
    assert outstanding() == before + 1  # the first caller still has it
    del handle
    assert outstanding() == before
    del thing, capsule
    gc.collect()
    assert outstanding() == before


@pytest.mark.parametrize("kind", KINDS)
def test_eight_threads_and_one_capsule(kind):
    before = outstanding()
    for _ in range(50):
        capsule = hostile.capsule(kind=kind)
        thing = producer(lambda self, **keywords: capsule)
        barrier, won, lost = threading.Barrier(8), [], []

        def consume():
            barrier.wait()
            try:
                won.append(probe.import_(thing))
            except BufferError as error:
                lost.append(error)

        threads = [threading.Thread(target=consume) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(won), len(lost)) == (1, 7)
        won.clear()
        assert outstanding() == before


# -------------------------------------------------------------------------------------------- exceptions of __dlpack__


@pytest.mark.parametrize("kind", EXCEPTIONS)
def test_an_exception_from_inside_is_unchanged(kind):
    raised = kind("from inside: keyword 'copy'")

    def method(self, **keywords):
        raise raised

    error = refused(lambda: producer(method), kind, "from inside")
    assert error is raised


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_is_a_buffer_error_with_its_cause(kind):
    raised = kind("not today\nand a page of advice")

    def method(self, **keywords):
        raise raised

    error = refused(lambda: producer(method), BufferError, "not today", cause=kind)
    assert error.__cause__ is raised
    assert "advice" not in str(error)


def test_endless_recursion_is_no_refusal():
    def method(self, **keywords):
        raise RecursionError("too deep")

    refused(lambda: producer(method), RecursionError, "too deep")


def test_a_refusal_that_cannot_be_printed():
    class Mute(BufferError):
        def __str__(self):
            raise Surprise("no words")

    def method(self, **keywords):
        raise Mute

    refused(lambda: producer(method), BufferError, "no reason given", cause=Mute)


# ------------------------------------------------------------------------------------------------------- signatures


def test_every_signature_gets_the_keywords_it_has():
    def none(self):
        return hostile.capsule()

    def old(self, stream=None):
        return hostile.capsule()

    def middle(self, *, stream=None, max_version=None):
        assert max_version == (1, 3)
        return hostile.capsule()

    def new(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert (max_version, copy) == ((1, 3), False)
        return hostile.capsule()

    def anything(self, *arguments, **keywords):
        assert not arguments
        assert keywords["max_version"] == (1, 3)
        return hostile.capsule()

    def only_copy(self, *, copy=None):
        assert copy is False
        return hostile.capsule()

    def positional(self, stream=None, /):
        return hostile.capsule()

    for method in (none, old, middle, new, anything, only_copy, positional):
        taken(lambda method=method: producer(method))


@pytest.mark.parametrize("function", ["dlpack_noargs", "dlpack_stream", "dlpack_all", "dlpack_cython"])
def test_signatures_written_in_c(function):
    hostile.plan()
    taken(lambda: producer(staticmethod(getattr(hostile, function))))


class Old:
    """From before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        return hostile.capsule()


class Older:
    def __dlpack__(self):
        return hostile.capsule()


class Positional:
    def __dlpack__(self, stream=None, /):
        return hostile.capsule()


class InC:
    def __init__(self, function):
        self.__dlpack__ = getattr(hostile, function)


WRAPPED = [Old, Older, Positional, lambda: InC("dlpack_stream"), lambda: InC("dlpack_cython")]


@pytest.mark.parametrize("inner", WRAPPED)
@pytest.mark.parametrize("device", [1, 2])
def test_an_old_producer_behind_a_wrapper(inner, device):
    """The wrapper has every keyword and hands them on: the message comes from inside it, with a traceback."""
    hostile.plan()
    calls = []

    def method(self, **keywords):
        calls.append(keywords)
        return self.inner.__dlpack__(**keywords)

    def make():
        calls.clear()
        return producer(method, inner=inner(), __dlpack_device__=lambda self: (device, 0))

    taken(make)
    if inner in (Old, Older):
        assert calls[-1].keys() == ({"stream"} if (inner, device) == (Old, 2) else set())


def test_two_wrappers():
    class Outer:
        def __init__(self, inner):
            self.inner = inner

        def __dlpack__(self, **keywords):
            return self.inner.__dlpack__(**keywords)

    taken(lambda: Outer(Outer(Old())))


def test_a_mistake_in_a_wrapper_is_not_hidden():
    """It passes a keyword of its own: nothing that is left out changes that."""
    refused(
        lambda: producer(lambda self, **keywords: Old().__dlpack__(copy=True)),
        TypeError,
        "__dlpack__() got an unexpected keyword argument 'copy'",
    )


def test_a_required_keyword_that_is_not_given():
    def method(self, *, stream):
        return hostile.capsule()

    refused(lambda: producer(method), TypeError, "required keyword-only argument: 'stream'")


def test_a_keyword_that_is_always_rejected_inside():
    """It is tried with fewer keywords, down to none; the last message is the user's."""
    calls = []

    def inner():
        pass

    def method(self, copy=None, **keywords):
        calls.append({"copy": copy, **keywords})
        inner(copy=copy)

    refused(lambda: producer(method), TypeError, "inner() got an unexpected keyword argument 'copy'")
    once = [{"copy": False, "max_version": (1, 3)}, {"copy": None, "max_version": (1, 3)}, {"copy": None}]
    assert calls == 2 * once  # for the borrow, and for the import


REJECTIONS = [
    "_to_dlpack() got an unexpected keyword argument 'max_version'",
    "X.__dlpack__() got an unexpected keyword argument 'copy'. Did you mean 'stream'?",
    "__dlpack__() got an unexpected keyword argument 'copy'",
    "'copy' is an invalid keyword argument for this function",
    "to_dlpack() takes no keyword arguments",
    "function takes at most 1 argument (2 given)",
    "__dlpack__(): incompatible function arguments. The following argument types are supported:\n    1. (self: pb.S, "
    "stream: object = None) -> object\n\nInvoked with: <pb.S object>; kwargs: copy=False, max_version=(1, 3)",
]


@pytest.mark.parametrize("message", REJECTIONS)
@pytest.mark.parametrize("known", [("stream",), ()])
@pytest.mark.parametrize("device", [1, 2])
def test_a_producer_that_always_says_the_same(message, known, device):
    """Whatever keyword it blames, it gets those that it knows; the stream is the last to go."""
    calls = []

    def method(self, **keywords):
        calls.append(set(keywords))
        if set(keywords) - set(known):
            raise TypeError(message)
        return hostile.capsule()

    taken(lambda: producer(method, __dlpack_device__=lambda self: (device, 0)))
    assert calls[-1] == (set(known) if device == 2 else set())
    assert len(calls) <= 8 and calls[0] == calls[len(calls) // 2]


@pytest.mark.parametrize("keyword", ["copy", "max_version"])
def test_only_the_keyword_that_is_named_goes(keyword):
    calls = []

    def method(self, **keywords):
        calls.append(set(keywords))
        if keyword in keywords:
            raise TypeError(f"helper() got an unexpected keyword argument '{keyword}'")
        return hostile.capsule()

    taken(lambda: producer(method))
    assert calls[1] == {"copy", "max_version"} - {keyword}


@pytest.mark.parametrize("message", ["inner() got an unexpected keyword argument 'order'", "'copy' must be a bool",
                                     "missing 1 required keyword-only argument: 'copy'", "", "'copy",
                                     "inner() got an unexpected keyword argument 'copyright'",
                                     "inner() got an unexpected keyword argument 'copy"])  # fmt: skip
def test_a_mistake_of_the_producers_own_is_not_retried(message):
    calls = []

    def method(self, **keywords):
        calls.append(keywords)
        raise TypeError(message)

    error = refused(lambda: producer(method), TypeError)
    assert str(error) == message and len(calls) == 2


def test_a_type_error_about_something_else_is_not_retried():
    calls = []

    def method(self, **keywords):
        calls.append(keywords)
        return "copy" + 1

    refused(lambda: producer(method), TypeError, "concatenate")
    assert len(calls) == 2


def test_a_legacy_answer_to_a_versioned_request_and_the_other_way_round():
    def legacy(self, *, max_version):
        return hostile.capsule(kind="legacy")

    def versioned(self):
        return hostile.capsule(flags=READ_ONLY)

    assert taken(lambda: producer(legacy))["flags"] & READ_ONLY == 0
    assert taken(lambda: producer(versioned))["flags"] & READ_ONLY == READ_ONLY


# ------------------------------------------------------------------------------------------------------ lookup, device


@pytest.mark.parametrize("value", [None, 3, "text"])
def test_dlpack_that_cannot_be_called(value):
    refused(lambda: producer(value), TypeError)


def test_dlpack_on_the_instance_is_not_the_types():
    class Plain:
        pass

    def make():
        thing = Plain()
        thing.__dlpack__ = lambda **keywords: pytest.fail("an instance's __dlpack__ was called")
        return thing

    refused(make, TypeError, "expected an array")


@pytest.mark.parametrize("kind", [Surprise, KeyboardInterrupt, MemoryError])
def test_a_look_up_that_raises(kind):
    def fail(self):
        raise kind("on the way")

    refused(lambda: producer(property(fail)), kind, "on the way")
    meta = type("Meta", (type,), {"__dlpack__": property(fail)})
    refused(meta("Made", (), {}), kind, "on the way")


DEVICES = {
    "missing": ((1, 0), None),
    "lies": ((2, 7), None),
    "list": ([1, 0], None),
    "empty": ((), BufferError),
    "triple": ((1, 0, 0), BufferError),
    "number": (1, BufferError),
    "none": (None, BufferError),
    "text": (("cpu", 0), BufferError),
    "floats": ((1.0, 0.0), BufferError),
    "huge": ((2**70, 0), BufferError),
}


@pytest.mark.parametrize("case", DEVICES)
def test_what_dlpack_device_may_say(case):
    device, error = DEVICES[case]
    method = {} if case == "missing" else {"__dlpack_device__": lambda self: device}

    def make():
        return producer(lambda self, **keywords: hostile.capsule(), **method)

    if error:
        refused(make, error, "__dlpack_device__")
    else:
        assert taken(make)["device"] == (1, 0)  # as the struct says


@pytest.mark.parametrize("kind", [Surprise, TypeError, KeyboardInterrupt, RuntimeError])
def test_dlpack_device_that_raises(kind):
    def fail(self):
        raise kind("no device")

    refused(lambda: producer(lambda self, **keywords: pytest.fail("called"), __dlpack_device__=fail), kind, "no device")


# -------------------------------------------------------------------------------------------------------- deleters


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deleter", ["raise", "clobber"])
def test_a_deleter_cannot_change_how_a_call_ends(kind, deleter):
    heard = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: heard.append(str(unraisable.exc_value))
    try:
        taken(answering(kind=kind, deleter=deleter))
        # not in C order: it was taken, is given back, and the error stays
        refused(answering(kind=kind, deleter=deleter, shape=(2, 2), strides=(1, 2)), ValueError, "C order",
                flags=probe.C_CONTIGUOUS)
    finally:
        sys.unraisablehook = hook
    assert heard == (["the deleter raised"] * 4 if deleter == "raise" else [])


@pytest.mark.parametrize("flags,plan,text", [
    (probe.WRITE, {"flags": READ_ONLY}, "read-only"),
    (probe.C_CONTIGUOUS, {"shape": (2, 2), "strides": (1, 2)}, "C order"),
    (probe.F_CONTIGUOUS, {"shape": (2, 2)}, "Fortran order"),
    (0, {"device_type": 2}, "cuda"),
])
def test_what_the_caller_refuses_is_given_back(flags, plan, text):
    refused(answering(**plan), ValueError, text, flags)


def test_an_unconsumed_capsule_of_ours_keeps_the_exception_on_its_way():
    for kind in (probe.CAPSULE, probe.CAPSULE_LEGACY):
        released = probe.released()
        handle = probe.new("f32", (4,))
        capsules = [probe.export(handle, kind)]
        del handle
        with pytest.raises(Surprise, match="on its way"):
            hostile.drop_with(capsules, Surprise("on its way"))
        assert probe.released() == released + 1
