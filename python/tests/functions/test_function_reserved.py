"""Names that Python has for anything, and that another language reserves: they are names like any other."""

import inspect
import keyword

import pytest
from building import build, tenon
from handmade import entry, load, module

WORDS = ["after", "case", "catch", "do", "end", "false", "fn", "match", "nil", "rescue", "true", "type", "when"]


@pytest.fixture(scope="module")
def digits():
    """Functions that give their arguments as the digits of a number."""
    params = ", ".join(f"{word}: int = {i % 10}" for i, word in enumerate(WORDS[:9]))
    signatures = [
        f"all({params}) -> int",
        "both(end: int, end_: int, *, fn: int, fn_: int) -> int",
        "named(end: int) -> end: int, fn: int",
        *(f"{word}({word}: int) -> int" for word in WORDS),
    ]
    entries = ", ".join(f'TENON_FUNCTION("{signature}", digits, NULL)' for signature in signatures)
    source = f"""
        #include <tenon/function.h>
        static tenon_status digits(tenon_call *call)
        {{
            int64_t number = 0;
            for (int i = 0; i < call->nargs; i++)
                number = number * 10 + tenon_arg_int(call, i);
            for (int i = 0; i < call->nresults; i++)
                tenon_return_int(call, i, number);
            return TENON_OK;
        }}
        TENON_MODULE(digits, NULL, {entries})
        """
    return tenon.load(build(source))


def test_parameters(digits):
    assert digits.all() == 12345678
    assert digits.all(9, 8) == 982345678
    assert digits.all(end=9, fn=0) == 12395078
    assert digits.both(1, 2, fn=3, fn_=4) == digits.both(end_=2, end=1, fn_=4, fn=3) == 1234
    assert list(inspect.signature(digits.all).parameters) == WORDS[:9]
    with pytest.raises(TypeError, match="^all\\(\\): argument 'end': expected int, got str"):
        digits.all(end="x")


def test_functions_and_results(digits):
    for word in WORDS:
        function = getattr(digits, word)
        assert function(3) == function(**{word: 3}) == 3
    result = digits.named(4)
    assert (result.end, result.fn) == (4, 4)


def test_every_keyword_of_python_is_refused():
    # 3.9 lists `__peg_parser__`, which was never one.
    for word in [*filter(str.isalpha, keyword.kwlist), "out", "like"]:
        for signature in (f"f({word}: int)", f"{word}()", f"f() -> {word}: int"):
            with pytest.raises(ImportError, match=f"'{word}' is a reserved word"):
                load(module([entry(signature)]))
