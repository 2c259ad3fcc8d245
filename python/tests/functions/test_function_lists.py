"""Lists of tensors, as arguments and as results."""

import collections
import gc
import sys
import types
import weakref

import numpy as np
import pytest
from building import build, tenon
from handmade import Echo

f32 = np.float32


@pytest.fixture(scope="session")
def lists():
    return tenon.load(build("lists.c"))


def ones(*shape):
    return np.ones(shape, f32)


class Sequence:
    """What Python calls a sequence: it has a length and items."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Producer:
    """An array that does something else before it is handed out."""

    def __init__(self, array, action):
        self.array = array
        self.action = action

    def __dlpack__(self, **options):
        self.action()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


# ------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("make", [list, tuple, lambda items: Sequence(*items), collections.deque, collections.UserList])
def test_sequences(lists, make):
    assert lists.total(make([ones(3), ones(3)])) == 6
    assert lists.total(make([])) == 0


def test_scalars(lists):
    """They have no sizes and strides, so that none are allocated for the list; UBSan sees an offset to NULL."""
    scalars = [np.array(value, f32) for value in (1, 2, 3)]
    assert lists.numel(scalars) == 3
    assert [float(each) for each in lists.doubled(scalars)] == [2, 4, 6]


def test_named_tuples_and_subclasses(lists):
    pair = collections.namedtuple("pair", "a b")
    assert lists.total(pair(ones(2), ones(2))) == 4

    class Mine(list):
        pass

    assert lists.total(Mine([ones(2)])) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        "text",
        b"bytes",
        bytearray(4),
        memoryview(b"1234"),
        {0: ones(2)},
        collections.UserDict({0: ones(2)}),
        types.MappingProxyType({0: ones(2)}),
        ones(2),
        ones(2, 2),
        (ones(2) for _ in range(2)),
        {1, 2},
        3,
        None,
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_what_is_not_a_list(lists, wrong):
    name = type(wrong).__name__
    with pytest.raises(TypeError, match=rf"^total\(\): argument 'xs': expected \[f32\[n\] c\], got [a-z.]*{name}; pass a list"):
        lists.total(wrong)


@pytest.mark.parametrize("wrong", ["text", [ones(2)], (), None, 3, {}], ids=lambda wrong: type(wrong).__name__)
def test_items_that_are_not_arrays(lists, wrong):
    name = type(wrong).__name__
    with pytest.raises(TypeError, match=rf"^total\(\): argument 'xs\[1\]': expected f32\[n\] c, got {name}$"):
        lists.total([ones(2), wrong])


def test_messages_name_the_item(lists):
    with pytest.raises(ValueError, match=r"^total\(\): argument 'xs\[2\]': dimension 0 is 4, but n = 3 from argument 'xs\[0\]'$"):
        lists.total([ones(3), ones(3), ones(4)])
    with pytest.raises(TypeError) as error:
        lists.total([ones(3), np.ones(3)])
    assert str(error.value) == (
        "total(): argument 'xs[1]': expected f32[n], got f64[3] (numpy.ndarray)\n"
        "  dtype is f64, not f32; try xs[1].astype('float32')"
    )
    with pytest.raises(ValueError, match=r"argument 'xs\[0\]': expected f32\[n\] c, got f32\[2\] \(numpy.ndarray\)\n  strides"):
        lists.total([ones(4)[::2]])
    frozen = ones(2)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match=r"^sgd\(\): argument 'params\[1\]' is read-only"):
        lists.sgd([ones(2), frozen], [ones(2), ones(2)])


def test_the_first_mistake_is_reported(lists):
    with pytest.raises(ValueError, match=r"argument 'xs\[1\]'"):
        lists.after([ones(2), ones(3)], "text", ones(2))
    with pytest.raises(ValueError, match=r"argument 'y': dimension 0 is 3, but n = 2 from argument 'xs\[0\]'"):
        lists.after([ones(2)], 1, ones(3))
    with pytest.raises(TypeError, match=r"argument 'xs\[0\]': expected f32\[n\], got int"):
        lists.after([1], 1, ones(3))


def test_optional_lists(lists):
    assert lists.numel() == lists.numel(None) == lists.numel(xs=None) == -1
    assert lists.numel([]) == 0
    assert lists.numel([ones(2, 3), np.zeros((), np.int64), np.zeros(5, np.uint8)]) == 12


def test_many_items(lists):
    assert lists.numel([ones(2)] * 100_000) == 200_000
    arrays = [ones(1) for _ in range(100_000)]
    lists.sgd(arrays, [ones(1)] * 100_000)
    assert all(a[0] == 0 for a in arrays)


def test_large_lists_release_the_lock():
    """As large arrays do, and by what all items have together."""
    for count, unlocked in ((3, False), (4, True)):
        echo = Echo("f(xs: [f32[_]])")
        echo([np.broadcast_to(np.float32(0), 2 << 20)] * count)
        assert echo.seen["unlocked"] is unlocked


def test_written_items(lists):
    params, grads = [ones(2), ones(2, 2)], [np.full(2, 3, f32), np.full((2, 2), 4, f32)]
    assert lists.sgd(params, grads, rate=2.0) is None
    assert params[0].tolist() == [-5, -5]
    assert params[1].tolist() == [[-7, -7], [-7, -7]]
    with pytest.raises(ValueError, match="2 params, but 1 grads"):
        lists.sgd(params, grads[:1])


def test_written_items_that_overlap(lists):
    x = ones(8)
    with pytest.raises(ValueError, match=r"^sgd\(\): argument 'params\[0\]' shares memory with argument 'params\[1\]' and is"):
        lists.sgd([x[:4], x[3:]], [ones(4), ones(5)])
    with pytest.raises(ValueError, match=r"argument 'params\[1\]' shares memory with argument 'grads\[0\]' and is written"):
        lists.sgd([ones(8), x], [x, ones(8)])
    lists.sgd([x[:4], x[4:]], [ones(4), ones(4)])
    assert x.tolist() == [0] * 8


def test_lists_of_lists_and_rank(lists):
    with pytest.raises(ValueError, match=r"argument 'xs\[1\]': expected f32\[n\], got f32\[1, 2\] \(numpy.ndarray\)\n  2 dimensions"):
        lists.total([ones(2), ones(1, 2)])


def test_a_function_that_reads_a_list_as_a_tensor(lists):
    with pytest.raises(RuntimeError, match="which is a list of tensors"):
        lists.one_of([ones(1)])


def test_frameworks_may_be_mixed(lists):
    torch = pytest.importorskip("torch")
    mixed = [ones(2), torch.ones(2), tenon.from_dlpack(ones(2)), memoryview(ones(2)), Producer(ones(2), int)]
    assert lists.total(mixed) == 10
    jax = pytest.importorskip("jax")
    assert lists.total([jax.numpy.ones(2, "float32"), *mixed]) == 12


# --------------------------------------------------------------------------------------------------------- changes


def test_a_list_that_changes_while_it_is_read(lists):
    items = []
    items += [ones(1000), Producer(ones(1000), items.clear), ones(1000)]
    kept = weakref.ref(items[0])
    assert lists.total(items) == 3000
    assert items == []
    gc.collect()
    assert kept() is None

    items += [ones(2), Producer(ones(2), lambda: items.insert(0, "text")), ones(2)]
    assert lists.total(items) == 6


def test_an_item_that_changes_while_another_is_read(lists):
    torch = pytest.importorskip("torch")
    x = torch.ones(1000)
    with pytest.raises(RuntimeError, match=r"^total\(\): argument 'xs\[0\]': its memory, shape, dtype or flags changed while"):
        lists.total([x, Producer(ones(1000), lambda: x.set_(torch.ones(1)))])


def test_an_item_that_a_later_argument_changes(lists):
    x = ones(1000)

    def change():
        x.shape = (10, 100)

    with pytest.raises(RuntimeError, match=r"^sgd\(\): argument 'params\[0\]': its memory, shape, dtype or flags changed while"):
        lists.sgd([x], [Producer(ones(1000), change)])


def test_exceptions_of_sequences(lists):
    class Broken(Sequence):
        def __getitem__(self, i):
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        lists.total(Broken(1))

    class Endless(Sequence):
        def __len__(self):
            return sys.maxsize

    with pytest.raises((MemoryError, OverflowError)):
        lists.total(Endless())

    class Negative(Sequence):
        def __len__(self):
            return -1

    with pytest.raises(ValueError, match="__len__"):
        lists.total(Negative())

    class Shorter(Sequence):
        def __len__(self):
            return 5

    with pytest.raises(IndexError):
        lists.total(Shorter(ones(1)))


def test_nothing_is_kept(lists):
    array = ones(4)
    before = sys.getrefcount(array)
    for _ in range(10):
        lists.total([array, array])
        lists.doubled([array])
        for wrong in [[array, ones(5)], [array, "x"], [array, Producer(ones(4), lambda: 1 / 0)]]:
            with pytest.raises(Exception):  # noqa: B017
                lists.total(wrong)
    del wrong
    assert sys.getrefcount(array) == before


# ------------------------------------------------------------------------------------------------------- gradients


def test_gradients(lists):
    torch = pytest.importorskip("torch")
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^total\(\): argument 'xs\[1\]': it requires grad"):
        lists.total([torch.ones(2), x])
    with torch.no_grad():
        assert lists.total([torch.ones(2), x]) == 4
    assert lists.total_anyway([torch.ones(2), x]) == 4


def test_version_counters(lists):
    torch = pytest.importorskip("torch")
    params = [torch.ones(2), torch.ones(3)]
    before = [p._version for p in params]
    lists.sgd(params, [ones(2), ones(3)])
    assert all(p._version > version for p, version in zip(params, before))
    assert [p.tolist() for p in params] == [[0, 0], [0, 0, 0]]


# --------------------------------------------------------------------------------------------------------- results


def test_a_result_for_each_item(lists):
    xs = [ones(2), ones(2, 3), ones()]
    results = lists.doubled(xs)
    assert type(results) is list
    assert [r.shape for r in results] == [(2,), (2, 3), ()]
    assert all(type(r) is np.ndarray and r.flags.c_contiguous and (r == 2).all() for r in results)
    assert lists.doubled([]) == []
    assert len(lists.doubled([ones(1)] * 100_000)) == 100_000


def test_named_results(lists):
    norms, count = result = lists.rows([ones(2, 4), ones(3, 4)])
    assert result.norms is norms
    assert count == 5
    assert [n.tolist() for n in norms] == [[2, 2], [2, 2, 2]]
    assert lists.rows([]) == ([], 0)
    with pytest.raises(ValueError, match=r"argument 'xs\[1\]': dimension 1 is 5, but d = 4 from argument 'xs\[0\]'"):
        lists.rows([ones(2, 4), ones(3, 5)])


def test_results_that_are_pushed(lists):
    results = lists.pieces(np.arange(7, dtype=f32), 3)
    assert type(results) is list
    assert [r.tolist() for r in results] == [[0, 1, 2], [3, 4, 5], [6]]
    assert lists.pieces(np.zeros(0, f32), 3) == []
    assert len(lists.pieces(np.zeros(10_000, f32), 1)) == 10_000
    with pytest.raises(ValueError, match="size must be positive"):
        lists.pieces(ones(1), 0)
    with pytest.raises(RuntimeError, match=r"^wrong_rank\(\): result 0: expected f32\[\?\], but the function asked for shape"):
        lists.wrong_rank()


def test_frameworks_of_results(lists):
    torch = pytest.importorskip("torch")
    assert all(isinstance(r, torch.Tensor) for r in lists.doubled([torch.ones(2), ones(2)]))
    assert all(isinstance(r, np.ndarray) for r in lists.doubled([torch.ones(2), ones(2)], like="numpy"))
    assert all(isinstance(r, torch.Tensor) for r in lists.pieces(ones(4), 2, like=torch.ones(1)))
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        lists.doubled([ones(2)], out=[ones(2)])


def test_checked_calls(lists):
    before = tenon.check(True)
    try:
        with pytest.raises(RuntimeError, match=r"^scribble\(\): argument 'xs\[1\]': byte \d of 8 changed during the call"):
            lists.scribble([ones(2), ones(2)])
        assert [r.tolist() for r in lists.doubled([ones(2)])] == [[2, 2]]
        assert [r.tolist() for r in lists.pieces(ones(3), 2)] == [[1, 1], [1]]
    finally:
        tenon.check(before)


def test_description(lists):
    described = lists.rows.__self__
    assert described.parameters[0]["kind"] == "tensors"
    assert described.parameters[0]["type"] == "[f32[_, d] c]"
    assert described.results[0]["kind"] == "tensors"
    assert lists.sgd.__self__.parameters[0]["written"] is True


def test_stubs_and_pages(lists):
    from tenon._describe_library import as_json, as_markdown
    from tenon._stubs import stub

    text = stub(lists, "lists.so")
    assert "def total(xs: Sequence[_Array]) -> float:" in text
    assert "def numel(xs: Optional[Sequence[_Array]] = ...) -> int:" in text
    assert "def doubled(xs: Sequence[_Array], *, like: Any = ...) -> list[Any]:" in text
    assert "norms: list[Any]" in text
    page = as_markdown(lists)
    assert "| `xs` | `[f32[_, d] c]` | a list of arrays |" in page
    assert "a list of arrays; one for each item of `xs`" in page
    assert '"each": "xs"' in as_json([("lists.so", lists)])


@pytest.mark.parametrize("at", [0, 1, 7, 8])
def test_an_item_that_differs_from_the_first(lists, at):
    """Items of any shape that are otherwise as the first one are not compared again."""
    buffer = bytearray(25)
    unlike = {
        "f64": np.zeros(3),
        "strides": np.zeros((4, 4), "f4")[:, ::2],
        "address": np.frombuffer(buffer, "f4", 6, 1),
    }
    for item in unlike.values():
        xs = [np.ones((i % 3, 2), "f4") for i in range(9)]
        xs[at] = item
        with pytest.raises((TypeError, ValueError), match=rf"argument 'xs\[{at}\]'"):
            lists.doubled(xs)
    assert [x.shape for x in lists.doubled([np.ones((2,) * i, "f4") for i in range(5)])] == [(2,) * i for i in range(5)]
