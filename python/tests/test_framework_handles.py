"""tenon_py_add_handle_type: several kinds of handles that are a framework's own objects."""
import pickle
import sys

import pytest
import tenon_handles


def test_two_kinds():
    """Both are known whoever adds them, and what a call took is given back once, whatever fails."""
    library = tenon_handles.load()
    assert library.both(3, 4) == 304 and tenon_handles.held() == (0, 0)
    with pytest.raises(ValueError, match=r"both\(\): argument 'b': it is not positive"):
        library.both(3, -1)
    with pytest.raises(ValueError, match=r"both\(\): argument 'a': it is not positive"):
        library.both(-1, -1)
    with pytest.raises(TypeError):
        library.both(3, "text")
    assert tenon_handles.held() == (0, 0)


def test_pickle_by_the_name_of_the_module(monkeypatch):
    """The functions of an extension have no library that tenon.load could open again."""
    library = tenon_handles.load()
    with pytest.raises(ModuleNotFoundError, match="library"):
        pickle.dumps(library.both)
    monkeypatch.setitem(sys.modules, "library", library)
    for part in (library.both, library.both.__self__):
        assert pickle.loads(pickle.dumps(part)) is part
    monkeypatch.setitem(sys.modules, "library", tenon_handles.load())
    with pytest.raises(TypeError, match=r"^both\(\) cannot be pickled: another object is found as library.both$"):
        pickle.dumps(library.both.__self__)


def test_what_cannot_be_added():
    with pytest.raises(ValueError, match=r"tenon_py_add_handle_type\(\): argument 'handle_type': a field is NULL"):
        tenon_handles.add_nothing()
    with pytest.raises(RuntimeError, match=r"cannot add '.*'; there are already 8 types"):
        tenon_handles.fill()
    assert tenon_handles.load().both(1, 2) == 102
