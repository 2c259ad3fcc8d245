"""Uses the extension `total` of each folder that is named, all of them in one process: each has its own copy."""
import array
import importlib.util
import pathlib
import sys


def load(folder):
    file = next(pathlib.Path(folder).glob("total*.so"))
    spec = importlib.util.spec_from_file_location("total", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


modules = [load(folder) for folder in sys.argv[1:]]
for module in modules:
    made = module.zeros()
    assert [other.alive() for other in modules] == [int(other is module) for other in modules]
    memoryview(made)[2] = 7
    assert all(other.total(made) == 7 for other in modules)
    del made
    assert module.total(array.array("B", [1, 2, 250])) == 253
    try:
        module.total(memoryview(b"abcdef")[::2])
    except ValueError as error:
        assert "C order" in str(error)
    else:
        raise AssertionError("a gap was not seen")
    assert module.alive() == 0
print(f"Tenon's bridge in {len(modules)} extensions")
