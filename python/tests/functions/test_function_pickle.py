"""Named results of a library that was loaded, in a pickle and in a copy. No import finds their types."""

import copy
import pickle

import pytest
from building import build, run_python, tenon


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
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
