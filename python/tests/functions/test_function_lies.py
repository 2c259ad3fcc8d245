"""Functions that ask for the wrong thing, give the wrong thing, or return rubbish: the call fails, and nothing else."""

import array
import os

import pytest
from building import run_python, same_counts

X = array.array("f", [1, 2, 3])


@pytest.fixture(autouse=True)
def no_surprises(lies):
    """No function got what it should not have got."""
    before = lies.number_of_surprises()
    yield
    assert lies.number_of_surprises() == before


ASKED = {
    0: "its code calls tenon_arg() or tenon_data() for index 99, but there are only 3 arguments",
    1: "its code calls tenon_arg() or tenon_data() for index -1, but there are only 3 arguments",
    2: "its code calls tenon_arg() or tenon_data() for index 0, which is an int",
    3: "its code calls tenon_data() for index 1 with a type of 8 bytes, and the elements have 32 bits",
    4: "its code calls tenon_rw_data() for index 1, which is not 'rw' in its signature",
    5: "its code calls tenon_result() or tenon_result_data() for index 5, but there is only 1 result",
    6: "its code calls tenon_result_data() for index 0 with a type of 8 bytes, and the elements have 32 bits",
    7: "its code calls tenon_arg_int() for index 1, which is a tensor",
    8: "its code calls tenon_arg_double() for index 0, which is an int",
    9: "its code calls tenon_arg_bool() for index 0, which is an int",
    10: "its code calls tenon_arg_enum() for index 0, which is an int",
    11: "its code calls tenon_arg_str() for index 0, which is an int",
    12: "its code calls tenon_arg_ints() for index 1, which is a tensor",
    13: "its code calls tenon_arg_floats() for index -5, but there are only 3 arguments",
    14: "its code calls tenon_arg_handle() for index 0, which is an int",
    15: "its code calls tenon_dim() for index 3, but its signature has only 1 name",
    16: "its code calls tenon_type() for index 0, but its signature has only 0 variables",
    17: "its code calls tenon_return_int() for index 0, which is a tensor",
    18: "its code calls tenon_return_str() for index 9, but there is only 1 result",
    19: "its code calls tenon_return_handle() for index 0, which is a tensor",
    20: "result 0 is not a tensor, or was already allocated",
    21: "its code calls tenon_result_alloc() for index -3, but there is only 1 result",
}

SLOTS = {
    0: (RuntimeError, "result 9 is not a tensor, or was already allocated"),
    1: (RuntimeError, "result 1 is not a tensor, or was already allocated"),
    2: (RuntimeError, "result 0: expected f32[?], but the function asked for shape [3, 3]"),
    3: (RuntimeError, "result 0: expected f32[?], but the function asked for shape [-1]"),
    4: (RuntimeError, "result 0: expected f32[?], but the function asked for 1 dimension with shape NULL"),
    5: (RuntimeError, "result 0: expected f32[?], but the function asked for -1 dimensions"),
    6: (RuntimeError, "result 0: expected f32[?], but the function asked for 2147483647 dimensions"),
    7: (RuntimeError, "the dtype of result 0 is not the one in the signature"),
    8: (RuntimeError, "result 0 is not a tensor, or was already allocated"),
    9: (MemoryError, "no memory for 18446744073709551615 bytes of scratch memory aligned to 64"),
    10: (ValueError, "the alignment of scratch memory must be a power of two up to 4096, got 3"),
    11: (ValueError, "the alignment of scratch memory must be a power of two up to 4096, got 1099511627776"),
    12: (RuntimeError, "there is scratch memory on the device of the call only"),
    13: (RuntimeError, "result 0 is not a str, or its string is NULL or too long"),
    14: (RuntimeError, "result 2 is not a str, or its string is NULL or too long"),
    15: (RuntimeError, "result 2 is not a str, or its string is NULL or too long"),
    16: (RuntimeError, "result 1 is not a handle, or the handle is NULL"),
    17: (RuntimeError, "result 77 is not a handle, or the handle is NULL"),
}


def fails(function, exception, *args):
    with same_counts(*args):
        with pytest.raises(exception) as caught:
            function(*args)
        assert type(caught.value) is exception
        message = str(caught.value)
        del caught
    return message


def test_the_truth(lies):
    assert memoryview(lies.ask(-1, X)).shape == (3,)
    values, number, text = lies.slots(-1)
    assert (memoryview(values).tolist(), number, text) == ([0, 0, 0], 1, "")


@pytest.mark.parametrize("what", ASKED)
def test_asks_for_the_wrong_thing(lies, what):
    assert fails(lies.ask, RuntimeError, what, X) == f"ask(): {ASKED[what]}"


@pytest.mark.parametrize("what", SLOTS)
def test_uses_the_host_wrongly(lies, what):
    exception, message = SLOTS[what]
    assert fails(lies.slots, exception, what) == f"slots(): {message}"


def test_result_of_more_bytes_than_there_are_addresses(lies):
    """An exception of the bridge's own, from inside the call."""
    assert fails(lies.slots, OverflowError, 18).startswith("slots(): ")


# ------------------------------------------------------------------------------------------------------------- status

STATUS = {
    1: ValueError,
    2: MemoryError,
    3: OverflowError,
    4: TypeError,
    5: ValueError,
    6: ValueError,
    7: IndexError,
    8: ValueError,
    9: ValueError,
    10: RuntimeError,
    11: ValueError,
    12: ValueError,
    13: RuntimeError,
}


@pytest.mark.parametrize("status", STATUS)
def test_status(kernels, lies, status):
    assert fails(kernels.fail, STATUS[status], status, "words of its own") == "fail(): words of its own"
    assert "and gave no reason" in fails(lies.status, STATUS[status], status)


@pytest.mark.parametrize("status", [-1, 14, 4711, 2**31 - 1, -(2**31)])
def test_rubbish_status(kernels, lies, status):
    assert fails(lies.status, RuntimeError, status) == f"status(): it returned {status}, which is not a valid status"
    assert fails(kernels.fail, RuntimeError, status, "words") == "fail(): words"


def test_fine_status(lies):
    assert lies.status(0) is None


def test_ok_after_fail(lies):
    assert fails(lies.ok_after_fail, ValueError) == "ok_after_fail(): the first message stays"


def test_fail_with_ok(lies):
    assert fails(lies.fail_with_ok, RuntimeError) == "fail_with_ok(): it says that it failed"


def test_fail_with_odd_words(lies):
    assert fails(lies.fail_without_text, ValueError) == "fail_without_text(): it failed with TENON_EINVAL and gave no reason"
    long = fails(lies.fail_at_length, ValueError)
    assert long.startswith("fail_at_length(): xxx") and set(long[18:-3]) == {"x"} and long.endswith("x...")
    assert 200 < len(long) < 5000
    odd = fails(lies.fail_in_no_utf8, ValueError)
    assert odd.startswith("fail_in_no_utf8(): before ") and odd.endswith(" after")


def test_message_with_percent_and_unicode(kernels):
    for text in ("100%s %d %n", "caf\u00e9 \U0001f600", "two\nlines"):
        assert fails(kernels.fail, ValueError, 1, text) == f"fail(): {text}"


# ------------------------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize("name", ["no_int", "no_float", "no_bool", "no_str", "no_enum", "no_handle"])
def test_gives_nothing(lies, name):
    assert fails(getattr(lies, name), RuntimeError) == f"{name}(): the function returned without setting result 0"


def test_makes_nothing(lies):
    assert fails(lies.no_open, RuntimeError, 3) == "no_open(): the function returned without setting result 0"
    assert fails(lies.shape_silent, RuntimeError, X) == "shape_silent(): the function returned without setting result 0"
    assert fails(lies.no_second, RuntimeError) == "no_second(): the function returned without setting result 1"


@pytest.mark.parametrize("index", [-1, 2, 2**62, -(2**63)])
def test_choice_that_is_none(lies, index):
    assert fails(lies.choice, RuntimeError, index) == f"choice(): the function set result 0 to choice {index}, but there are only 2"


def test_choice(lies):
    assert [lies.choice(0), lies.choice(1)] == ["a", "b"]


def test_text_that_is_no_utf8(lies):
    with pytest.raises((RuntimeError, UnicodeDecodeError)):
        lies.no_utf8()


def test_shape_function_that_fails(lies):
    """The function itself is not called then."""
    assert fails(lies.shape_fails, ValueError, X) == "shape_fails(): no shape"


def test_fails_after_its_results_were_made(lies):
    assert fails(lies.made_then_fail, IndexError, X) == "made_then_fail(): after its results were made"


def test_handles(lies):
    before = lies.number_destroyed()
    message = fails(lies.two_handles, RuntimeError)
    assert message == "two_handles(): the function sets result 0 twice"
    assert lies.number_destroyed() == before + 1
    assert "the handle is NULL" in fails(lies.null_handle, RuntimeError)
    assert "gave no reason" in fails(lies.handle_then_fail, ValueError)
    assert lies.number_destroyed() == before + 2
    del message
    lies.static_handle()
    assert lies.number_destroyed() == before + 2


def test_scratch(kernels):
    for blocks in (0, 1, 300):  # it fails where one is missing, misaligned, or the one before
        assert kernels.scratch(blocks) is None


# -------------------------------------------------------------------------------------------------------------- leaks

LEAKS = """
import array, ctypes, gc, sys
sys.modules["numpy"] = None
import tenon
lies, kernels = (tenon.load(path) for path in sys.argv[1:])
x = array.array("f", [1, 2, 3])

class Mine(Exception):
    pass

class Bad:
    def __index__(self):
        raise Mine
    __float__ = __index__

calls = [(lies.ask, what, x) for what in range(22)] + [(lies.slots, what) for what in range(-1, 19)]
calls += [(lies.status, 1), (lies.status, 4711), (lies.ok_after_fail,), (lies.fail_at_length,), (lies.fail_in_no_utf8,),
          (lies.no_int,), (lies.no_str,), (lies.no_open, 2), (lies.choice, 5), (lies.no_utf8,), (lies.two_handles,),
          (lies.null_handle,), (lies.handle_then_fail,), (lies.static_handle,), (lies.made_then_fail, x),
          (lies.shape_fails, x),
          (kernels.saxpy, 2, x, x), (kernels.saxpy, 2, x, array.array("f")), (kernels.saxpy, 2, x, x, x),
          (kernels.saxpy, Bad(), x, x), (kernels.saxpy, 2, x, "text"), (kernels.saxpy, 2, x, array.array("d")),
          (kernels.positive, x), (kernels.positive_shaped, x), (kernels.maybe, x, True), (kernels.maybe, x, False),
          (kernels.moments, x), (kernels.scalars,), (kernels.scratch, 9),
          (kernels.add_to, b"1234", 1), (kernels.swap, x, x), (kernels.counter_new,), (kernels.counter_next, 3),
          (kernels.many, *[array.array("d", [1])] * 7), (kernels.count_up, -1), (kernels.fail, 1, "text")]
keywords = [{}, {"out": x}, {"out": array.array("f", [0, 0, 0])}, {"out": 3}, {"like": "nothing"}, {"like": 3},
            {"unknown": 1}]

class Info(ctypes.Structure):
    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]

def used():
    gc.collect()
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return sys.getallocatedblocks(), 0
    libc.mallinfo2.restype = Info
    return sys.getallocatedblocks(), libc.mallinfo2().field7

def grows(call, keywords, count=100):
    for _ in range(count):
        try:
            call[0](*call[1:], **keywords)
        except Exception:
            pass

wrong = []
for call in calls:
    for words in keywords if call[0] is kernels.saxpy else keywords[:1]:
        growth = []
        while len(growth) < 10 and min(growth, default=100) > 50:  # Python's own free lists fill and empty for a while
            before = used()
            grows(call, words)
            after = used()
            growth.append(max(after[0] - before[0], (after[1] - before[1]) // 16))
        if min(growth) > 50:
            wrong.append((call[0].__name__, call[1:], words, growth))
print(wrong)
"""


def test_nothing_leaks():
    """A hundred of each call, good and bad: neither Python's blocks nor malloc's bytes grow with them."""
    from building import build

    assert run_python(LEAKS, build("lies.c"), build("kernels.c")) == "[]\n"


@pytest.mark.skipif(os.environ.get("PYTHONMALLOC") == "malloc", reason="Python counts its own allocator's blocks only")
def test_the_leak_test_sees_leaks():
    """One object for each call, which is as little as a call can lose. Three of the calls are enough to see it."""
    from building import build

    code = LEAKS.replace("for call in calls:", "kept = []\nfor call in calls[:3]:")
    code = code.replace("grows(call, words)", "grows(call, words); kept += [[i] for i in range(100)]")
    printed = run_python(code, build("lies.c"), build("kernels.c"))
    assert printed.count("'ask'") == 3, printed


def test_arguments_of_a_call_that_fails_later(kernels):
    """The first arguments were taken when a later one is wrong."""
    numpy = pytest.importorskip("numpy")
    x, y = numpy.zeros(3, "float32"), bytearray(12)
    view = memoryview(y).cast("f")
    for args in ((1.0, x, "text"), (1.0, view, "text"), (1.0, view, x[::2]), ("a", view, x)):
        with same_counts(*args, x, y, view):
            with pytest.raises((TypeError, ValueError)):
                kernels.saxpy(*args)
    view.release()
    y.append(1)  # nobody holds its buffer
