"""Wrong arguments of the functions of the package: each error names the function, the argument, and what came."""

import pickle

import pytest
from building import tenon

ARRAYS = {
    "tenon.from_dlpack(): argument 'x'": tenon.from_dlpack,
    "tenon.to(): argument 'x'": lambda x: tenon.to(x, "tenon"),
    "tenon.share(): argument 'array'": tenon.share,
}
OTHERS = {
    "tenon.to(): argument 'framework'": lambda x: tenon.to(b"", x),
    "tenon.check(): argument 'on'": tenon.check,
    "tenon.load(): argument 'path'": tenon.load,
    "tenon.attach(): argument 'name_or_fd'": tenon.attach,
    "tenon.shared_zeros(): argument 'shape'": lambda x: tenon.shared_zeros(x, "f32"),
    "tenon.shared_zeros(): argument 'dtype'": lambda x: tenon.shared_zeros(3, x),
    "tenon.reducers(): argument 'pickler'": tenon.reducers,
    "tenon.compile(): argument 'source_or_path'": tenon.compile,
}


class Refuses:
    def __dlpack__(self, **options):
        raise ValueError("not today")


def refused(start, call, value, exception=TypeError):
    with pytest.raises(exception) as caught:
        call(value)
    text = str(caught.value)
    del caught  # its traceback holds this frame, and so the value
    assert text.startswith(f"{start}: ")
    return text[len(start) + 2 :]


def not_an_array(start):
    """The array API standard has another exception for from_dlpack."""
    return AttributeError if "from_dlpack" in start else TypeError


@pytest.mark.parametrize("value", [None, [1], 7, 1.5, "text", object(), {}], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("start", ARRAYS)
def test_arrays(start, value):
    assert refused(start, ARRAYS[start], value, not_an_array(start)).startswith(f"{type(value).__name__}: expected an array: ")


@pytest.mark.parametrize("start", ARRAYS)
def test_arrays_that_are_refused(start):
    assert refused(start, ARRAYS[start], int, not_an_array(start)) == "type: this is a class, not an array; pass an instance"
    text = refused(start, ARRAYS[start], Refuses(), BufferError)
    assert text == f"{__name__}.Refuses: the producer refused: not today"
    np = pytest.importorskip("numpy")
    assert refused(start, ARRAYS[start], np.array([None])).startswith("numpy.ndarray: an array of Python objects")


@pytest.mark.parametrize("value", [None, [None], 1.5, object(), {}, int], ids=repr)
@pytest.mark.parametrize("start", OTHERS)
def test_others(start, value):
    assert "expected" in refused(start, OTHERS[start], value)


def test_a_class_instead_of_a_pickler():
    assert refused("tenon.reducers(): argument 'pickler'", tenon.reducers, pickle.Pickler) == "expected a pickle.Pickler, got type"


def test_what_a_framework_refuses():
    pytest.importorskip("numpy")
    text = refused("tenon.to(): argument 'x'", lambda x: tenon.to(x, "numpy"), tenon.shared_zeros(3, "f4_e2m1fn"), ValueError)
    assert text.startswith("NumPy has no dtype for f4_e2m1fn")
