"""The checked mode: writes outside the results, writes to arguments, and results that were not written."""

import os
import re
import threading
import warnings

import pytest
from building import build, run_python, same_counts, tenon

numpy = pytest.importorskip("numpy")


@pytest.fixture(scope="session")
def library():
    return tenon.load(build("checked/checked.c"))


@pytest.fixture
def checked(library):
    """The functions of checked.c, while the mode is on; an unexpected warning is an error."""
    before = tenon.check(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield library
    tenon.check(before)


def numbers(count=6):
    return numpy.arange(count, dtype="float32")


@pytest.fixture(params=["numpy", "torch", "jax", "tensorflow", "tenon"])
def make(request):
    if request.param in ("numpy", "tenon"):
        return numbers if request.param == "numpy" else lambda: tenon.from_dlpack(numbers())
    module = pytest.importorskip(request.param)
    return {
        "torch": lambda: module.arange(6, dtype=module.float32),
        "jax": lambda: module.numpy.arange(6, dtype="float32"),
        "tensorflow": lambda: module.range(6, dtype="float32"),
    }[request.param]


def listed(x):
    return numpy.asarray(memoryview(x) if isinstance(x, tenon.Tensor) else x).tolist()


# ---------------------------------------------------------------------------------------------------------- the switch


def test_the_switch():
    before = tenon.check(True)
    assert tenon.check(True) is True
    assert tenon.check(False) is True
    assert tenon.check(before) is False


@pytest.mark.parametrize("value", [1, 0, None, "1"])
def test_only_true_and_false(value):
    with pytest.raises(TypeError, match=r"tenon.check\(\): argument 'on': expected True or False, got "):
        tenon.check(value)


def test_one_argument():
    for arguments in [(), (True, True)]:
        with pytest.raises(TypeError, match=rf"^tenon.check\(\) takes exactly 1 argument \({len(arguments)} given\)$"):
            tenon.check(*arguments)


@pytest.mark.parametrize(
    "value, on",
    [(text, True) for text in ["1", "true", "True", "yes", "ON"]]
    + [(text, False) for text in ["0", "no", "off", "false", "", "10", "o", "yes!", None]],
)
def test_the_environment(library, value, on):
    code = """
    import sys, numpy, tenon
    checked = tenon.load(sys.argv[1])
    try:
        checked.scribble(numpy.zeros(3, "float32"), 1)
        print("unchecked")
    except RuntimeError:
        print("checked")
    print(tenon.check(False))
    """
    environment = {name: text for name, text in os.environ.items() if name != "TENON_CHECK"}
    if value is not None:
        environment["TENON_CHECK"] = value
    environment["PYTHONPATH"] = os.pathsep.join([str(tenon.__path__[0]).rpartition(os.sep)[0]])
    assert run_python(code, library.__file__, env=environment) == ("checked\nTrue\n" if on else "unchecked\nFalse\n")


def test_functions_that_are_loaded_later(checked):
    later = tenon.load(build("checked/checked.c", name="later.so"))
    with pytest.raises(RuntimeError, match="is not 'rw'"):
        later.scribble(numbers(), 0)
    tenon.check(False)
    later.scribble(numbers(), 0)
    checked.scribble(numbers(), 0)


def test_functions_that_are_gone(checked):
    for gone in range(3):
        functions = [tenon.load(build("checked/checked.c", name=f"gone{i}.so")).sum for i in range(3)]
        del functions[gone]
        tenon.check(False)
        tenon.check(True)
        assert [function(numbers()) for function in functions] == [15, 15]
    assert checked.sum(numbers()) == 15


# -------------------------------------------------------------------------------------------------------- no mistake


def test_good_functions(checked, make):
    x = make()
    with same_counts(x):
        z = checked.fill(x)
        assert type(z) is type(x) and listed(z) == [1] * 6
        assert listed(checked.fill_named(x).filled) == [1] * 6
        assert listed(checked.fill_unlocked(x=x)) == [1] * 6
        assert checked.sum(x) == 15
        assert listed(checked.view(x, like="numpy")) == [0, 1, 2, 3, 4, 5]
        del z
    assert listed(checked.fill_open(3, 0)) == [1] * 3
    assert listed(checked.make()) == [0, 0, 0]


def test_empty(checked):
    assert checked.fill(numbers(0)).tolist() == []
    assert checked.fill_open(0, 0).tolist() == []


def test_written_arguments(checked):
    x = numbers()
    checked.scale(x)
    assert x.tolist() == [0, 2, 4, 6, 8, 10]


def test_out_is_not_checked(checked):
    x, out = numbers(), numpy.zeros(8, "float32")
    assert checked.fill(x, out=out[:6]).tolist() == [1] * 6
    checked.fill(x, 6, out=out[:6])
    assert out[6] == 2


def test_its_own_failure(checked):
    with pytest.raises(ValueError, match=r"^fail\(\): its own message$"):
        checked.fail(numbers())


def test_its_own_failure_and_a_mistake(checked):
    message = r"^fail\(\): its own message; also, result 0: the function wrote past the end of its memory: byte "
    with pytest.raises(ValueError, match=message):
        checked.fail(numbers(), 6)


# ----------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("name", ["fill", "fill_unlocked"])
@pytest.mark.parametrize("at", [6, 7, 60, -1, -3])
def test_outside_of_a_result(checked, name, at, make):
    x = make()
    label = "past the end" if at > 0 else "before the start"
    function = getattr(checked, name)
    with same_counts(x), pytest.raises(RuntimeError) as caught:
        function(x, at)
    expected = rf"{name}\(\): result 0: the function wrote {label} of its memory: byte (-?\d+), but it has 24 bytes"
    byte = int(re.fullmatch(expected, str(caught.value))[1])
    assert 4 * at <= byte < 4 * at + 4
    del caught


@pytest.mark.parametrize("count", [3000, 20000])
@pytest.mark.parametrize("past", [True, False])
def test_far_outside_of_a_large_result(checked, count, past):
    """The guards are as large as the result, up to 64 KiB."""
    guard = min(4 * count, 65536) // 4
    with pytest.raises(RuntimeError, match="past the end" if past else "before the start"):
        checked.fill(numbers(count), count + guard - 1 if past else -guard)


def test_a_result_s_name(checked):
    with pytest.raises(RuntimeError, match=r"^fill_named\(\): result 'filled': the function wrote past the end"):
        checked.fill_named(numbers(), 6)


def test_outside_of_an_open_result(checked):
    with pytest.raises(RuntimeError, match=r"^fill_open\(\): result 0: .* past the end of its memory: byte 2[4-9]"):
        checked.fill_open(3, 1)


def test_a_changed_argument(checked, make):
    x = make()
    with pytest.raises(RuntimeError) as caught:
        checked.scribble(x, 2)
    message = (
        r"scribble\(\): argument 'x': byte (8|9|10|11) of 24 changed during the call, but the argument is not 'rw'; "
        "the function wrote to it, or another thread did"
    )
    assert re.fullmatch(message, str(caught.value))


def test_a_changed_argument_with_strides(checked):
    x = numbers(12)[::-2]
    with pytest.raises(RuntimeError, match=r"argument 'x': byte (4|5|6|7) of 24 changed"):
        checked.scribble(x, 1)
    checked.scribble(x, -1)


def test_another_thread(checked):
    """The message does not blame the function alone: the mode sees what anybody writes."""
    x, stop = numbers(1 << 20), threading.Event()

    def work():
        while not stop.is_set():
            x[-1] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="or another thread did"):
            for _ in range(10000):
                checked.fill_unlocked(x)
    finally:
        stop.set()
        thread.join()


# ------------------------------------------------------------------------------------------------- unwritten results


def test_not_written(checked):
    with pytest.warns(RuntimeWarning) as caught:
        checked.forget(numbers(), 0)
    assert [str(warning.message) for warning in caught] == [
        f"forget(): result {i}: no byte of it changed: the function did not write to it, or wrote exactly the pattern "
        "that the checked mode fills results with"
        for i in range(2)
    ]
    assert caught[0].filename == __file__


def test_a_nan_that_was_written(checked):
    first, second = checked.forget(numbers(), 1)
    assert numpy.isnan(first).all() and second[0] == 0


def test_a_warning_that_changes_the_other_result(checked, monkeypatch):
    """A warning may run any code. Both results have been copied by then."""
    import gc

    torch = pytest.importorskip("torch")
    x = torch.ones(1237)
    freed = []

    def show(*args, **options):
        for made in gc.get_objects():
            if type(made) is torch.Tensor and made.shape == x.shape and made is not x:
                made.untyped_storage().resize_(0)
                freed.append(made.dtype)

    warnings.simplefilter("always")
    monkeypatch.setattr(warnings, "showwarning", show)
    checked.forget(x, 0)
    assert freed[:2] == [torch.float32, torch.int32] or freed[:2] == [torch.int32, torch.float32]


def test_a_warning_that_is_an_error(checked):
    x = numbers()
    with same_counts(x), pytest.raises(RuntimeWarning, match="no byte of it changed"):
        checked.forget(x, 0)


def test_off(library):
    before = tenon.check(False)
    x = numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library.forget(x, 0)
        library.scribble(x, 0)
    assert x[0] == 99
    tenon.check(before)


# ------------------------------------------------------------------------------------------------------------- memory


def test_no_memory_for_it(library):
    code = """
    import sys, _testcapi, numpy, tenon
    checked = tenon.load(sys.argv[1])
    tenon.check(True)
    x = numpy.arange(3, dtype="float32")
    checked.fill(x)
    for n in range(30):
        count = sys.getrefcount(x)
        _testcapi.set_nomemory(n, n + 1)
        try:
            z = checked.fill(x)
        except MemoryError:
            pass
        finally:
            _testcapi.remove_mem_hooks()
        assert sys.getrefcount(x) == count
    print("done")
    """
    pytest.importorskip("_testcapi")
    assert run_python(code, library.__file__) == "done\n"


def test_from_threads_while_it_is_switched(library):
    before = tenon.check(False)
    mistakes = []

    def work():
        try:
            for _ in range(300):
                assert library.fill(numbers()).tolist() == [1] * 6
        except BaseException as error:
            mistakes.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(200):
        tenon.check(i % 2 == 0)
    for thread in threads:
        thread.join()
    tenon.check(before)
    assert not mistakes


def test_each_interpreter_has_its_own(library):
    interpreters = pytest.importorskip("_xxsubinterpreters")
    before = tenon.check(True)
    other = interpreters.create()
    folder = os.path.dirname(tenon.__path__[0])
    code = f"""
import sys, array
sys.path.insert(0, {folder!r})
import tenon
checked = tenon.load({library.__file__!r})
tenon.check(False)
checked.scribble(array.array("f", [1, 2]), 0)
"""
    interpreters.run_string(other, code)
    interpreters.destroy(other)
    assert tenon.check(before) is True
