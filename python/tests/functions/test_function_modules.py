"""Modules made by hand: older, newer, broken; what `load` and `unload` may do, and when."""

import ctypes
import gc
import inspect
import weakref

import pytest
from building import build, needs_mortal_modules, run_python, same_counts, tenon
from handmade import ECHO, LOAD, UNLOAD, Call, EchoData, Function, Module, entry, host_fail, load, load_one, module

GOOD = "f(a: int = 3) -> int"


def refused(made, *words):
    """An ImportError that says what is wrong, about which file."""
    with pytest.raises(ImportError) as caught:
        load(made)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert str(caught.value).startswith(caught.value.path)
    return str(caught.value)


def test_a_good_one():
    data = EchoData()
    loaded = load(module([entry(GOOD, data=data), entry("g()")], doc=b"Words.", version=b"7.1"))
    assert (loaded.__name__, loaded.__doc__, loaded.__version__) == ("handmade", "Words.", "7.1")
    assert [name for name in vars(loaded) if not name.startswith("__")] == ["f", "g"]
    assert loaded.f(1) == 7 and loaded.g() is None


def test_without_functions():
    loaded = load(module())
    assert [name for name in vars(loaded) if not name.startswith("__")] == []
    assert loaded.__doc__ is None and not hasattr(loaded, "__version__")
    load(module(functions=(Function * 1)(), nfunctions=0))


# ------------------------------------------------------------------------------------------------------------- broken


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"magic": 0}, "did not return a Tenon module"),
        ({"major": 2}, "compiled for version 2 of the function ABI, but this host has version 1"),
        ({"major": 0}, "compiled for version 0 of the function ABI"),
        ({"minor_needed": 1000}, "it needs version 1.1000 of the function ABI, but this host has 1."),
        ({"minor_needed": 2**32 - 1}, "it needs version 1.4294967295"),
        ({"size": 0}, "its size is too small for a module"),
        ({"size": 80}, "its size is too small for a module"),
        ({"function_size": 0}, "its function_size is invalid"),
        ({"function_size": 16}, "its function_size is invalid"),
        ({"function_size": 65}, "its function_size is invalid"),
        ({"function_size": 2**31}, "its function_size is invalid"),
        ({"nfunctions": -1}, "its table of functions is invalid"),
        ({"nfunctions": 2**62}, "its table of functions is invalid"),
        ({"nfunctions": -(2**63)}, "its table of functions is invalid"),
        ({"name": None}, "it has no name"),
    ],
)
def test_broken(changes, words):
    made = module([entry(GOOD)], **changes)
    refused(made, words)
    refused(made, words)  # and again: nothing of it was kept


def test_no_table():
    made = module([entry(GOOD)])
    made.functions = None
    refused(made, "its table of functions is invalid")


def test_no_module():
    refused(0, "tenon_module_v1() returned NULL")


@pytest.mark.parametrize("field", ["signature", "call"])
def test_entry_without(field):
    row = entry("g()")
    setattr(row, field, None)
    refused(module([entry(GOOD), row]), f"function 1 has no {'code' if field == 'call' else 'signature'}")


def test_two_of_one_name():
    refused(module([entry(GOOD), entry("g()"), entry("f(b: int)")]), "functions 0 and 2 take the same arguments")


@pytest.mark.parametrize("name", [b"caf\xc3\xa9", b"with space", b"", b"\xff\xfe"])
def test_odd_names(name):
    """What is no UTF-8 is an ImportError, or is shown somehow; never another exception."""
    try:
        assert load(module([entry(GOOD)], name=name)).f(1) is None
    except ImportError:
        assert name == b"\xff\xfe"
    except RuntimeError as error:
        assert "result" in str(error)


def test_words_that_are_no_utf8():
    loaded = load(module([entry("f()", doc=b"caf\xe9")], doc=b"caf\xe9", version=b"\xff"))
    assert "caf" in loaded.f.__doc__ and "caf" in loaded.__doc__ and loaded.__version__


@pytest.mark.parametrize(
    "signature, words, under",
    [
        ("f(x: f32[n)", "expected ']'", ")"),
        ("f(x: f33[n])", "unknown dtype 'f33'", "f33"),
        ("f(x: f32[n]) -> f32[m]", "no argument determines 'm'", "m]"),
        ("f(x: int = 2.5)", "expected an integer", "2.5"),
        ("f(out: int)", "'out' is a reserved word", "out"),
        ("f(x: T[n])", "'T' is not a dtype", "T[n]"),
        ("f(x: f32[n] wr)", "unknown attribute 'wr'", "wr"),
        ("f(a: int, a: int)", "duplicate name 'a'", "a: int)"),
        ("f(a: int = 1, b: int)", "'b' needs a default", "b: int"),
        ("f(", "expected the name of a parameter", None),
        ("f(a: 'x'|'x')", "duplicate choice 'x'", None),
        ("", "expected the name of a function", None),
        ("f() -> dtype", "a result cannot be a dtype", "dtype"),
        ("f(a: int) extra", "expected the end of the signature", "extra"),
    ],
)
def test_signature_that_does_not_parse(signature, words, under):
    """Told with a caret under the mistake, and which function it is."""
    message = refused(module([entry("g()"), entry(signature)]), "the signature of function 1: ", words)
    shown, caret = message.splitlines()[-2:]
    assert shown == f"  {signature}" and caret.strip() == "^"
    if under:
        assert shown[caret.index("^") :].startswith(under), message


def test_signature_that_is_no_text():
    refused(module([entry(b"f(\xff: int)")]), "the signature of function 0")
    refused(module([entry("f(" + "x" * 9000)]), "at most 8191 characters")


# --------------------------------------------------------------------------------------------------- older and newer


def test_larger_module_of_a_newer_header():
    class Larger(ctypes.Structure):
        _fields_ = [("first", Module), ("more", ctypes.c_uint64 * 4)]

    made = Larger(module([entry(GOOD, data=EchoData())]), (1, 2, 3, 4))
    made.first.size = ctypes.sizeof(Larger)
    assert load(ctypes.addressof(made)).f() == 7


def test_smaller_module():
    """One without the flags at its end."""
    made = module([entry(GOOD, data=EchoData())], size=88)
    made.flags = 2**64 - 1
    assert load(made).f() == 7


@pytest.mark.parametrize("size", [24, 32, 40, 48, 64, 72, 128, 4096])
def test_functions_of_another_size(size):
    """Entries that are shorter have zeros where they end; what is longer than ours is left alone."""
    rows = [entry(GOOD, data=EchoData(), doc=b"First."), entry("g(a: int)", data=EchoData()), entry("h()")]
    table = ctypes.create_string_buffer(b"".join(bytes(row)[:size].ljust(size, b"\xee") for row in rows), size * 3)
    loaded = load(module(rows, functions=table, function_size=size))
    assert "First." in loaded.f.__doc__
    assert loaded.g(3) is None and loaded.h() is None
    if size >= 40:  # there is room for `data`, so the echo has somewhere to write
        assert loaded.f() == 7
        assert rows[0].data and EchoData.from_address(rows[0].data).length
    else:
        with pytest.raises(RuntimeError, match="the function returned without setting result 0"):
            loaded.f()


def test_unknown_flags_are_ignored():
    data = EchoData()
    row = entry(GOOD, data=data, flags=2**63 | 2**40)
    row.reserved[0] = row.reserved[1] = 2**64 - 1
    assert load(module([row], flags=2**63)).f() == 7


# -------------------------------------------------------------------------------------------------- load and unload


class Life:
    """load and unload that count, with a state of its own for each load."""

    def __init__(self, fails=None):
        self.loads, self.unloads, self.fails = [], [], fails

        def loading(call, state):
            state[0] = 1000 + len(self.loads)
            self.loads.append(1000 + len(self.loads))
            return self.fails(call) if self.fails else 0

        self.hooks = {"load": LOAD(loading), "unload": UNLOAD(lambda state: self.unloads.append(state))}


@needs_mortal_modules
def test_state_of_each_load():
    life, states = Life(), []

    def tell(call):
        states.append(Call.from_address(call).state)
        return 0

    made = module([entry("f()", tell)], **life.hooks)
    first, second = load(made), load(made)
    first.f(), second.f(), first.f()
    assert states == [1000, 1001, 1000] and life.loads == [1000, 1001]
    del first
    gc.collect()
    assert life.unloads == [1000]
    second.f()
    del second
    gc.collect()
    assert life.unloads == [1000, 1001]


@needs_mortal_modules
def test_unloaded_with_the_last_function():
    life = Life()
    loaded = load(module([entry("f()"), entry("g()")], **life.hooks))
    f, g = loaded.f, loaded.g
    del loaded
    gc.collect()
    assert life.unloads == []
    del f
    assert life.unloads == []
    assert g() is None
    del g
    assert life.unloads == [1000]


@needs_mortal_modules
def test_unloaded_with_the_last_handle():
    life = Life()
    loaded = load(module([entry("f() -> handle('H')", data=EchoData())], **life.hooks))
    handle, other = loaded.f(), loaded.f()
    del loaded
    gc.collect()
    assert life.unloads == []
    del handle
    assert life.unloads == []
    del other
    assert life.unloads == [1000]


@needs_mortal_modules
def test_module_is_collected_in_a_cycle():
    life = Life()
    loaded = load(module([entry("f()")], **life.hooks))
    loaded.itself = loaded
    gone = weakref.ref(loaded)
    del loaded
    gc.collect()
    assert gone() is None and life.unloads == [1000]


@needs_mortal_modules
def test_unload_without_load():
    life = Life()
    load(module([entry("f()")], unload=life.hooks["unload"]))
    gc.collect()
    assert life.unloads == [None]


@pytest.mark.parametrize(
    "status, message, words",
    [
        (1, b"no licence", "no licence"),
        (2, b"no memory here", "no memory here"),
        (13, b"broken", "broken"),
        (1, None, "TENON_EINVAL"),
        (13, None, "TENON_EFAILED"),
        (4711, None, "4711"),
        (-1, None, "-1"),
        (0, b"failed, and says fine", "failed, and says fine"),
    ],
)
def test_load_that_fails(status, message, words):
    """It keeps nothing, so nothing is unloaded."""

    def fails(call):
        if message:
            host_fail(call, status, message)
        return status

    life = Life(fails)
    refused(module([entry("f()")], **life.hooks), "load", words)
    gc.collect()
    assert life.loads == [1000] and life.unloads == []


@needs_mortal_modules
def test_load_that_was_made_for_nothing():
    """Loaded first, then a signature does not parse: what was loaded is unloaded."""
    life = Life()
    refused(module([entry("f()"), entry("g(")], **life.hooks), "expected the name of a parameter")
    gc.collect()
    assert life.loads == life.unloads == [1000]


@needs_mortal_modules
def test_unload_happens_in_an_exception():
    """The last function dies while an exception is on its way: which stays as it is."""
    life = Life()

    def inner():
        function = load(module([entry("f()")], **life.hooks)).f
        function()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        inner()
    gc.collect()
    assert life.unloads == [1000]


# ------------------------------------------------------------------------------------------------------------- handles


def test_handles_are_destroyed_once(kernels):
    counter = kernels.counter_new(5)
    alive = kernels.counts().alive
    assert [kernels.counter_next(counter) for _ in range(3)] == [5, 6, 7]
    copy = counter
    del counter
    assert kernels.counts().alive == alive and kernels.counter_next(copy) == 8
    del copy
    assert kernels.counts().alive == alive - 1


def test_handles_of_others(kernels):
    counter = kernels.counter_new()
    with same_counts(counter):
        with pytest.raises(TypeError) as caught:
            kernels.other_next(counter)
        assert (
            str(caught.value)
            == "other_next(): argument 'counter': expected handle('Other'), got a handle 'Counter' of kernels"
        )
        again = tenon.load(build("kernels.c"))
        with pytest.raises(TypeError, match="got a handle 'Counter' of kernels, which was loaded separately"):
            again.counter_next(counter)
        del again, caught
    for wrong, name in ((3, "int"), ("x", "str"), (object(), "object")):
        with pytest.raises(TypeError) as caught:
            kernels.counter_next(wrong)
        assert str(caught.value) == f"counter_next(): argument 'counter': expected handle('Counter'), got {name}"


def test_handle_that_is_optional(kernels):
    with pytest.raises(ValueError, match=r"counter_maybe\(\): no counter"):
        kernels.counter_maybe()
    assert kernels.counter_maybe(kernels.counter_new(3)) == 3


def test_handle_outlives_everything():
    loaded = tenon.load(build("kernels.c"))
    counter, following = loaded.counter_new(4), loaded.counter_next
    del loaded
    gc.collect()
    assert following(counter) == 4
    del following
    gc.collect()
    assert "Counter" in repr(counter) and "kernels" in repr(counter)
    with pytest.raises(TypeError):
        type(counter)()


@needs_mortal_modules
def test_state_of_a_real_library():
    first, second = tenon.load(build("kernels.c")), tenon.load(build("kernels.c"))
    assert [first.counts().calls, first.counts().calls, second.counts().calls] == [1, 2, 1]
    unloads = first.counts().unloads
    del second
    gc.collect()
    assert first.counts().unloads == unloads + 1


def test_entry_without_data_has_null():
    assert ECHO and load_one(entry("f()"))() is None


def test_a_load_that_throws():
    """No exception of C++ leaves a library: load's becomes an ImportError, and unload's ends there."""
    source = """
    #include <stdexcept>
    #include <tenon/function.h>

    static tenon_status nothing(tenon_call *) { return TENON_OK; }
    static tenon_status load(tenon_call *, void **) noexcept(!THROWS) { if (THROWS) throw std::invalid_argument("no licence"); return TENON_OK; }
    static void unload(void *) { throw 1; }

    TENON_MODULE_STATE(throwing, "", load, unload, TENON_FUNCTION("f()", nothing, ""))
    """
    with pytest.raises(ImportError, match="no licence"):
        tenon.load(build(source, "-DTHROWS=1", standard="c++17", compiler=["c++"]))
    loaded = tenon.load(build(source, "-DTHROWS=0", standard="c++17", compiler=["c++"]))
    loaded.f()
    del loaded
    gc.collect()
    without = source.replace("load, unload,", "NULL, NULL,").replace("static tenon_status load", "tenon_status load").replace(
        "static void unload", "void unload")
    tenon.load(build(without, "-DTHROWS=1", standard="c++17", compiler=["c++"])).f()


def test_a_load_that_makes_a_result():
    """It has none: an error, not a crash."""
    source = """
    #include <tenon/function.h>

    static tenon_status nothing(tenon_call *call) { (void)call; return TENON_OK; }
    static tenon_status load(tenon_call *call, void **state)
    {
        *state = NULL;
        return call->host->result_alloc(call, 0, TENON_F32, 0, NULL) ? TENON_OK : TENON_EFAILED;
    }

    TENON_MODULE_STATE(resulting, "", load, NULL, TENON_FUNCTION("f()", nothing, ""))
    """
    code = "import sys, tenon\ntry: tenon.load(sys.argv[1])\nexcept ImportError as error: print(error)"
    assert "load has no results" in run_python(code, build(source))


def test_defaults_with_one_element():
    """inspect.signature() loses the comma of a tuple with one element."""
    source = """
    #include <tenon/function.h>
    static tenon_status f(tenon_call *call)
    {
        tenon_return_int(call, 0, call->args[1].as.list.length);
        return TENON_OK;
    }
    TENON_MODULE(one, "", TENON_FUNCTION("f(a: floats = (0.5,), b: ints = (3, ), c: ints = (), d: ints = (1, 2)) -> int", f, ""))
    """
    function = tenon.load(build(source)).f
    defaults = [parameter.default for parameter in inspect.signature(function).parameters.values()]
    assert [list(default) for default in defaults if default is not None] == [[0.5], [3], [], [1, 2]]
    assert function() == function(*defaults[:4]) == 1
