"""Static methods, properties, constants and special methods of classes."""

import collections.abc
import copy
import gc
import inspect
import pickle
import pydoc

import pytest
from building import build, run_python, same_counts, tenon
from type_checkers import check_lines, mypy

numpy = pytest.importorskip("numpy")


def floats(*values):
    return numpy.array(values, dtype="float32")


@pytest.fixture
def bag(bags):
    return bags.Bag(floats(1, 2, 3))


def library(*entries):
    """A library with these signatures, whose code does nothing."""
    lines = [
        f'TENON_CLASS("{text[6:]}", NULL)' if text.startswith("class ") else f'TENON_FUNCTION("{text}", none, NULL)'
        for text in entries
    ]
    return build(
        "#include <tenon/function.h>\nstatic tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }\n"
        f"TENON_MODULE(members, NULL, {', '.join(lines)})\n"
    )


# ---------------------------------------------------------------------------------------------------- static methods


def test_static_methods(bags, bag):
    made = bags.Bag.make(4)
    assert type(made) is bags.Bag and list(made.values) == [0, 1, 2, 3]
    assert len(bag.make()) == 3 and len(bag.make(n=2)) == 2
    assert bags.Bag.make is bag.make
    assert list(bags.Bag.merge(made, b=bag).values) == [0, 1, 2, 3, 1, 2, 3]
    assert len(bags.Bag.merge(bag, bag)) == 6


def test_static_methods_have_messages_of_their_own(bags, bag):
    with pytest.raises(TypeError, match=r"^Bag\.make\(\): argument 'n': expected int, got str$"):
        bags.Bag.make("x")
    with pytest.raises(ValueError, match=r"^Bag\.make\(\): a bag has 0 to 16 values$"):
        bag.make(17)
    with pytest.raises(TypeError, match=r"^Bag\.merge\(\): argument 'a': expected bags\.Bag, got int$"):
        bags.Bag.merge(1, bag)
    with pytest.raises(TypeError):
        bags.Bag.merge(bag)
    closed = bags.Bag.make()
    closed.close()
    with pytest.raises(ValueError, match=r"^Bag\.merge\(\): argument 'a': this Bag is closed$"):
        bags.Bag.merge(closed, bag)


def test_static_methods_describe_themselves(bags):
    assert str(inspect.signature(bags.Bag.make)) == "(n=3)"
    assert bags.Bag.make.__doc__ == "A bag of 0 to n - 1.\n\nBag.make(n: int = 3) -> handle('Bag')"
    assert bags.Bag.make.__self__.name == "Bag.make"
    found = bags.Bag.split(5)
    assert found == (2, 3) and type(found) is bags.Bag_split_result
    assert "make(n=3)" in pydoc.render_doc(bags.Bag, renderer=pydoc.plaintext)


def test_a_static_result_of_an_argument(bags):
    x = floats(1, 2)
    with same_counts(x):
        seen = bags.Bag.view(x)
        assert seen.ctypes.data == x.ctypes.data
        del seen


@pytest.mark.parametrize("name", ["make", "split", "signature"])
def test_static_methods_can_be_pickled(bags, name):
    method = getattr(bags.Bag, name)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(method, protocol)) == method
    assert pickle.loads(pickle.dumps(method.__self__)) is (method.__self__ if name != "signature" else bags.Bag)
    assert copy.deepcopy(method) == method


# --------------------------------------------------------------------------------------------------------- properties


def test_properties(bags, bag):
    assert bag.size == 3 and bag.label == "bag of 3"
    assert bags.Bag(floats()).label is None
    assert isinstance(bag.range, numpy.ndarray) and list(bag.range) == [1, 3]
    with pytest.raises(ValueError, match=r"^Bag\.wrong\(\): it is never right$"):
        bag.wrong
    with pytest.raises(AttributeError):
        bag.size = 4
    with pytest.raises(AttributeError):
        del bag.size


def test_properties_of_closed_objects(bag):
    bag.close()
    with pytest.raises(ValueError, match=r"^Bag\.size\(\): this Bag is closed$"):
        bag.size
    assert bag.LEAF == 16


def test_a_property_shows_the_memory_of_the_object(bags, bag):
    values = bag.values
    values[0] = 9
    assert bag[0] == 9 and bag.values.ctypes.data == values.ctypes.data
    before = bags.count_alive()
    bag.close()
    assert bags.count_alive() == before and list(values) == [9, 2, 3]
    del values, bag
    gc.collect()


def test_properties_describe_themselves(bags):
    assert isinstance(bags.Bag.size, property)
    assert bags.Bag.size.__doc__ == "How many values it has.\n\nBag.size: int"
    assert bags.Bag.size.fget.function.signature == "Bag.size: int"
    function = bags.Bag.size.fget.function
    assert pickle.loads(pickle.dumps(function)) is function
    with pytest.raises(TypeError, match="it is the method of a property"):
        pickle.dumps(bags.Bag.size.fget)


# ---------------------------------------------------------------------------------------------------------- constants


def test_constants(bags, bag):
    assert (bags.LIMIT, bags.NAME) == (100, "bags")
    assert (bags.Bag.LEAF, bags.Bag.EPS, bags.Bag.FAST, bags.Bag.KIND) == (16, 1e-5, True, "float")
    assert type(bags.Bag.FAST) is bool and type(bags.Bag.EPS) is float
    assert bag.LEAF == 16
    with pytest.raises(AttributeError):
        bag.LEAF = 3
    with pytest.raises(TypeError, match="immutable type"):
        bags.Bag.LEAF = 3
    assert pickle.loads(pickle.dumps(bags)) is bags


# ---------------------------------------------------------------------------------------------------- special methods


def test_call(bags, bag):
    assert callable(bag) and not callable(bags.Plain(floats()))
    assert bag() == 6 and bag(2) == 12 and bag(scale=0.5) == 3
    with pytest.raises(TypeError, match=r"^Bag\.__call__\(\): argument 'scale': expected float, got str$"):
        bag("x")


def test_contains(bag):
    assert 2 in bag and 2.5 not in bag
    with pytest.raises(TypeError, match=r"^Bag\.__contains__\(\): argument 'x': expected float, got str$"):
        "x" in bag


def test_equality(bags, bag):
    other = bags.Bag(floats(1, 2, 3))
    assert bag == other and not bag != other and bag == bag
    assert bag != bags.Bag.make() and not bag == bags.Bag.make()
    assert bag != 3 and not bag == "text" and bag != bags.Plain(floats(1, 2, 3))
    assert bags.Bag.__eq__(bag, 3) is NotImplemented
    with pytest.raises(TypeError):
        bags.Bag.__eq__(3, bag)
    with pytest.raises(TypeError):
        bag < other

    class Reflected:
        def __eq__(self, other):
            return "reflected"

    assert (bag == Reflected()) == "reflected"


def test_hashes(bags, bag):
    assert hash(bag) == 3
    assert len({bag, bags.Bag(floats(1, 2, 3)), bags.Bag.make(1)}) == 2
    plain = bags.Plain(floats(1))
    assert plain == bags.Plain(floats(1)) and bags.Plain.__hash__ is None
    with pytest.raises(TypeError, match="unhashable type"):
        hash(plain)
    assert not isinstance(plain, collections.abc.Hashable)


def test_comparison_with_a_closed_object(bags, bag):
    closed = bags.Bag.make()
    closed.close()
    with pytest.raises(ValueError, match=r"^Bag\.__eq__\(\): argument 'other': this Bag is closed$"):
        bag == closed


def test_items(bag):
    bag[1] = 7
    assert bag[1] == 7 and bag(1) == 11
    with pytest.raises(IndexError, match=r"^Bag\.__setitem__\(\): there is no item 5$"):
        bag[5] = 1
    with pytest.raises(TypeError, match=r"^Bag\.__setitem__\(\): argument 'value': expected float, got str$"):
        bag[0] = "x"
    with pytest.raises((AttributeError, TypeError)):
        del bag[0]


def test_iteration(bags, bag):
    iterator = iter(bag)
    assert type(iterator) is bags.BagIterator and iter(iterator) is iterator
    assert isinstance(iterator, collections.abc.Iterator) and isinstance(bag, collections.abc.Iterable)
    assert next(iterator) == 10 and list(iterator) == [20, 30]
    with pytest.raises(StopIteration):
        next(iterator)
    assert next(iterator, None) is None
    assert [*bag] == [10, 20, 30] and sum(bag) == 60
    first, *rest = bag
    assert (first, rest) == (10, [20, 30])
    iterator.damage()
    with pytest.raises(ValueError, match=r"^BagIterator\.__next__\(\): the iterator is broken$"):
        next(iterator)
    iterator.close()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)


def test_iterators_outlive_what_they_iterate_over(bags):
    before = bags.count_alive()
    iterator = iter(bags.Bag.make(2))
    gc.collect()
    assert bags.count_alive() == before + 1 and list(iterator) == [0, 10]
    del iterator
    gc.collect()
    assert bags.count_alive() == before


def test_objects_without_a_state_are_not_pickled(bag):
    for store in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            store(bag)


def test_pickles(bags):
    sack = bags.Sack(floats(1, 2, 3))
    assert sack.__getstate__() == floats(1, 2, 3).tobytes()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(sack, protocol))
        assert type(again) is bags.Sack and again is not sack and list(again.values) == [1, 2, 3]
    for duplicate in (copy.copy(sack), copy.deepcopy(sack), copy.deepcopy([sack, sack])[0]):
        duplicate.values[0] = 9
        assert list(duplicate.values) == [9, 2, 3] and list(sack.values) == [1, 2, 3]
    shared = copy.deepcopy([sack, sack])
    assert shared[0] is shared[1]
    before = bags.count_alive()
    del again, duplicate, shared
    gc.collect()
    assert bags.count_alive() < before
    sack.close()
    for store in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ValueError, match=r"^Sack\.__getstate__\(\): this Sack is closed$"):
            store(sack)
    with pytest.raises(ValueError, match=r"^Sack\.load\(\): the state is damaged$"):
        bags.Sack.load(b"123")


def test_pickles_in_another_process(bags, tmp_path):
    file = tmp_path / "sack"
    file.write_bytes(pickle.dumps([bags.Sack(floats(4, 5)), bags.Sack.load]))
    code = """
        import pickle, sys
        sack, load = pickle.load(open(sys.argv[1], "rb"))
        print(list(map(float, sack.values)), type(sack).__name__, type(load(b"")) is type(sack))
    """
    assert run_python(code, file) == "[4.0, 5.0] Sack True\n"


# ------------------------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    "entries, message",
    [
        (["class A", "A.f()", "A.f: int"], r"there are two members 'A\.f'"),
        (["class A", "A.f(self)", "A.f()"], r"functions 1 and 2 are both called 'A\.f', but are not of the same kind"),
        (["class A", "A.f = 3", "A.f = 4"], r"there are two members 'A\.f'"),
        (["f = 3", "f()"], r"there are two functions 'f'"),
        (["class A", "A.__eq__(self, x: int) -> bool"], r"expected A\.__eq__\(self, other: handle\('A'\)\) -> bool"),
        (["class A", "A.__iter__(self) -> handle('A')"], r"expected A\.__iter__\(self\) with one result"),
        (["class A", "A.__getstate__(self) -> bytes"], r"and a static method A\.load\(state: bytes\)"),
        (["class A", "A.__getstate__(self) -> str", "A.load(state: bytes) -> handle('A')"], r"A\.__getstate__\(self\) -> bytes"),
        (
            ["class A", "A.__getstate__(self) -> bytes", "A.load(state: str) -> handle('A')"],
            r"expected A\.load\(state: bytes\) -> handle\('A'\), because the class has __getstate__",
        ),
        (["class A", "A.__getstate__(self) -> bytes", "A.load(self) -> handle('A')"], r"expected A\.load\(state: bytes\)"),
        (["class A", "A = 3"], "'A' is a class of the module"),
        (["A.f = 3"], "member of 'A', which is not a class"),
    ],
)
def test_mistakes(entries, message):
    with pytest.raises(ImportError, match=message):
        tenon.load(library(*entries))


# ------------------------------------------------------------------------------------------------- stubs, descriptions

_describe_library = pytest.importorskip("tenon._describe_library")
_stubs = pytest.importorskip("tenon._stubs")

# A line with "# error" is one that a checker must complain about; no other line is.
USE = """\
import bags
from array import array

x = array("f", [1, 2])
limit: int = bags.LIMIT
name: str = bags.NAME
bag: bags.Bag = bags.Bag.make(3)
bags.Bag.make("x")  # error
bag = bag.make()
bag = bags.Bag.merge(bag, b=bag)
bags.Bag.merge(bag)  # error
left: int = bags.Bag.split(5).left
leaf: int = bags.Bag.LEAF
eps: float = bag.EPS
bag.LEAF = 3  # error
size: int = bag.size
bag.size = 3  # error
label: str = bag.label  # error
bag()
total: float = bag(scale=2)
bag("x")  # error
found: bool = 1.5 in bag
equal: bool = bag == 3
key: int = hash(bag)
bag[0] = 1.5
bag[0] = "x"  # error
for value in bag:
    total = value
total = next(iter(bag))
{bag: 1}
plain = bags.Plain(x)
plain == plain
"""


def test_stub(tmp_path):
    source = build("classes/bags.c")
    module = tenon.load(source)
    text = _stubs.stub(module, source.name)
    (tmp_path / "bags.pyi").write_text(text)
    for line in [
        "LIMIT: int\n",
        "    LEAF: ClassVar[int]\n",
        "    @staticmethod\n    def make(n: Union[SupportsIndex, _Bits] = ...) -> Bag:\n",
        "    @property\n    def size(self) -> int:\n",
        "    @property\n    def label(self) -> Optional[str]:\n",
        "    @property\n    def values(self) -> Any:\n",
        "    def __eq__(self, other: object, /) -> bool: ...\n",
        "    def __iter__(self) -> BagIterator:\n",
        "    def __iter__(self) -> BagIterator: ...\n",
    ]:
        assert line in text
    (tmp_path / "use.py").write_text(USE)
    check_lines({"use.py": USE}, mypy(tmp_path, "bags.pyi", "use.py"))


def test_describe(bags):
    text = _describe_library.describe(bags)
    assert text.startswith("# bags\n# Bags of numbers.\n\n# Of the module.\nLIMIT = 100\n\nNAME = 'bags'\n\n# A bag of numbers.\nclass Bag\n\n# The most values.\nBag.LEAF = 16\n")
    for line in ("# How many values it has.\nBag.size: int\n", "Bag.make(n: int = 3) -> handle('Bag')\n", "Bag.__hash__(self) -> int\n"):
        assert line in text
    page = _describe_library.as_markdown(bags)
    assert "| `LIMIT` | `100` | Of the module. |" in page and "| `LEAF` | `16` | The most values. |" in page
    assert "### `Bag.size`\n\n```text\nBag.size: int\n```\n\nHow many values it has.\n" in page
    assert "### `Bag.make`" in page


def test_json(bags):
    import json

    (made,) = json.loads(_describe_library.as_json([("bags.so", bags)]))["libraries"]
    constants = [entry for entry in made["entries"] if entry["entry"] == "constant"]
    assert [(entry["name"], entry["value"], entry["doc"]) for entry in constants] == [
        ("LIMIT", 100, "Of the module."),
        ("NAME", "bags", None),
    ]
    bag = next(entry for entry in made["entries"] if entry["name"] == "Bag")
    assert [entry["value"] for entry in bag["constants"]] == [16, 1e-5, True, "float"]
    assert [entry["name"] for entry in bag["static_methods"]] == ["Bag.make", "Bag.merge", "Bag.split", "Bag.view", "Bag.signature"]
    assert [entry["name"] for entry in bag["properties"]] == ["Bag.size", "Bag.label", "Bag.values", "Bag.range", "Bag.wrong"]
    assert bag["methods"][0]["name"] == "Bag.__call__"


def test_nothing_is_alive_at_the_end():
    run_python(
        """
        import gc, numpy, tenon, sys
        bags = tenon.load(sys.argv[1])
        alive = bags.count_alive
        bag = bags.Bag(numpy.zeros(3, "f"))
        [*bag], bag == bag, bag.values, bag.make(), bag.size
        del bag
        gc.collect()
        assert alive() == 0
        """,
        str(build("classes/bags.c")),
    )
