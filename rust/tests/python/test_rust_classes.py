"""Classes in Rust: what they keep, what they show, and the references that are refused."""

import gc
import re
import sys
import threading
import weakref

import numpy
import pytest


def rows():
    return numpy.arange(6, dtype="float32").reshape(2, 3)


def test_a_class(kernels):
    table = kernels.Table(rows())
    assert repr(table) == "Table of 2 rows" and len(table) == 2
    assert [row.tolist() for row in table] == [[0, 1, 2], [3, 4, 5]]
    assert table.total() == 15 and table.width == 3
    assert kernels.Table.largest(numpy.array([1, 5, 2], "float32")) == 5
    with pytest.raises(IndexError, match=re.escape("there are 2 rows, and none is -1")):
        table[-1]


def test_what_it_keeps_is_released(kernels):
    x = rows().copy()
    before = sys.getrefcount(x)
    table = kernels.Table(x.T)
    assert sys.getrefcount(x) > before
    assert table.total() == 15 and len(table) == 3
    del table
    gc.collect()
    assert sys.getrefcount(x) == before


def test_a_finalizer_runs_after_the_function(kernels):
    x, old = numpy.zeros(1, "float32"), rows().copy()
    weakref.finalize(old, x.fill, 100)
    table = kernels.Table(old)
    del old
    table.exchange(rows(), x)
    assert x.tolist() == [100]


def test_the_caller_may_change_what_is_kept(kernels):
    x = rows()
    table = kernels.Table(x)
    x += 1
    assert table.total() == 21


def test_memory_of_the_object(kernels):
    x = rows()
    table = kernels.Table(x)
    shown, sums = table.rows(), table.sums()
    assert numpy.shares_memory(shown, x) and not shown.flags.writeable
    assert sums.tolist() == [3, 12] and not sums.flags.writeable
    # The arrays point to memory that the object no longer uses.
    table.replace(numpy.zeros((1, 1), "float32"))
    assert table.total() == 0
    del x, table
    gc.collect()
    assert sums.tolist() == [3, 12] and shown.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_mutable_memory_that_an_object_keeps(kernels):
    x = rows()
    table = kernels.Table(x)
    message = "Table.add(): argument 'x' shares memory with an array that an object of this library keeps"
    for view in x[0], x[1], x.reshape(-1), x[1][1:2]:
        with pytest.raises(ValueError, match=re.escape(message)):
            table.add(view)
    other = numpy.zeros(3, "float32")
    assert table.add(other) == 15 and other.tolist() == [1, 1, 1]
    out = rows()[:, :2].copy()
    assert table.fill(out=out) is out and out.tolist() == [[15, 15], [15, 15]]
    kept = kernels.Table(out)
    with pytest.raises(ValueError, match="result 0 shares memory with an array that an object of this library keeps"):
        table.fill(out=out)
    table.close(), kept.close()
    assert kernels.Table(numpy.zeros((1, 1), "float32")).add(x[0]) == 0


def test_shown_memory_as_writable(kernels):
    torch = pytest.importorskip("torch")
    table = kernels.Table(rows())
    sums = torch.from_dlpack(table.sums())  # torch has no read-only tensors
    for call in (lambda: table.add(sums), lambda: kernels.increment(sums[1:])):
        with pytest.raises(ValueError, match="argument 'x' shares memory with an array that an object of this library keeps"):
            call()
    assert table.sums().tolist() == [3, 12]
    del table, sums
    gc.collect()
    kernels.increment(torch.zeros(2))


def test_one_object_twice(kernels):
    a, b = kernels.Table(rows()), kernels.Table(rows())
    assert a.merge(b) == 1 and b.merge(a) == 2
    message = "Table.merge(): arguments 'self' and 'other' are the same Table, and the function changes one of them"
    with pytest.raises(ValueError, match=re.escape(message)):
        a.merge(a)


def test_a_concurrent_class(kernels):
    constant = kernels.Constant(2.5)
    found = []
    threads = [threading.Thread(target=lambda: found.append(constant.value())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2.5] * 8
    with pytest.raises(ValueError, match="the value is not a number"):
        kernels.Constant(float("nan"))
    assert isinstance(kernels.constant(1.0), kernels.Constant)


def test_a_panic_in_drop(kernels):
    noisy = kernels.Noisy()
    assert noisy.count() == 1 and noisy.count() == 2
    del noisy
    gc.collect()


def test_an_object_in_its_own_call(kernels):
    table = kernels.Table(numpy.ones((2, 2), "float32"))
    for again in table.total, lambda: table.add(numpy.ones(2, "float32")), lambda: kernels.Table.merge(table, table):
        with pytest.raises(RuntimeError, match="this Table is in use by the call that this code was called from"):
            table.during(lambda: (again(), None)[1])
    assert table.total() == 4
