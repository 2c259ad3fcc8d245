"""Functions of function.hpp: memory of the library, objects, kept arguments, and failures."""

import gc
import sys

import pytest
from building import build_cpp, refused, run_python, tenon

numpy = pytest.importorskip("numpy")


def released(kinds):
    gc.collect()
    return kinds.counts().released


def test_own_results_are_not_copied(kinds):
    made = kinds.own(4)
    assert made.tolist() == [0, 1, 2, 3] and made.flags.writeable
    before = released(kinds)
    part = made[1:]
    del made
    assert released(kinds) == before and part.tolist() == [1, 2, 3]
    del part
    assert released(kinds) == before + 1
    assert kinds.own(0).shape == (0,)
    result = kinds.own_pointer(3)
    assert result.data.ctypes.data == result.address and result.data.tolist() == [0, 0, 0]


def test_own_tables(kinds):
    assert kinds.own_table(2, 3).shape == (2, 3)
    refused(kinds.own_table, RuntimeError, "own_table(): its code returns 6 elements with a shape that has 8", 2, 4)


def test_own_memory_of_a_call_that_fails(kinds):
    refused(kinds.own_and_fail, RuntimeError, "own_and_fail(): too late", 3)


def test_copies(kinds):
    copy = kinds.copied(3)
    before = kinds.counts()
    assert copy.shape == (3,) and before.made == before.released


def test_of_an_argument(kinds):
    x = numpy.arange(5, dtype="f4")
    tail = kinds.tail(x, 2)
    assert tail.tolist() == [2, 3, 4] and tail.ctypes.data == x[2:].ctypes.data
    with pytest.raises(RuntimeError, match="tail"):
        kinds.tail(x, -1)


def test_objects(kinds):
    rows = numpy.arange(6, dtype="f4").reshape(2, 3)
    before = sys.getrefcount(rows)
    table = kinds.Table(rows)
    assert kinds.counts().tables == 1 and sys.getrefcount(rows) > before
    assert len(table) == 2 and list(table) == [3, 12] and table[1] == 12
    shown = table.rows()
    assert shown.ctypes.data == rows.ctypes.data and not shown.flags.writeable
    table.sums()[0] = 7
    assert table[0] == 7 and table.at(1, 2) == 5
    table.scale(2)
    assert table[0] == 14
    for name in "f4 f8".split():
        added = table.add(numpy.ones(3, name), table)
        assert added.dtype == name and added.tolist() == [1, 3, 5]
    assert kinds.same(table, table) and not kinds.same(table)
    del table
    gc.collect()
    assert kinds.counts().tables == 1
    del shown
    gc.collect()
    assert kinds.counts().tables == 0 and sys.getrefcount(rows) == before


def test_a_constructor_that_throws(kinds):
    rows = numpy.zeros((0, 3), "f4")
    refused(kinds.Table, ValueError, "Table(): a table has rows", rows)
    assert kinds.counts().tables == 0


def test_objects_of_another_name(kinds):
    assert kinds.thing(3).value() == 3
    assert kinds.thing(-1) is None
    assert kinds.Thing.__doc__.startswith("Another class.")
    with pytest.raises(TypeError):
        kinds.same(kinds.thing(3))


@pytest.mark.parametrize("how, exception, message", [
    (0, TypeError, "100%s of it"), (1, ValueError, "3 of it"), (2, IndexError, "a std::string"),
    (3, ValueError, "invalid"), (4, IndexError, "out of range"), (5, OverflowError, "overflow"),
    (7, RuntimeError, "runtime"), (8, RuntimeError, "it threw something that is not a std::exception"),
    (9, ValueError, "length"), (10, ValueError, "by tenon_fail")])
def test_exceptions(kinds, how, exception, message):
    refused(kinds.fail, exception, f"fail(): {message}", how)


def test_memory_error(kinds):
    with pytest.raises(MemoryError):
        kinds.fail(6)


def test_a_function_in_the_way_of_c(kinds):
    assert kinds.in_c(1) == 2
    refused(kinds.in_c, IndexError, "in_c(): below 0", -1)


def test_without_stl_hpp():
    """std::out_of_range is any std::exception then; the exceptions that function.hpp knows are the same."""
    file = build_cpp("""
        #include <tenon/function.hpp>
        #include <stdexcept>
        static void fail(int64_t how)
        {
            if (how == 0)
                throw std::out_of_range("out of range");
            if (how == 1)
                throw std::bad_alloc();
            throw tenon::error(TENON_EBOUNDS, "bounds");
        }
        TENON_CPP_MODULE(light, "", TENON_CPP("fail(how: int)", fail, ""))
    """)
    light = tenon.load(file)
    refused(light.fail, RuntimeError, "fail(): out of range", 0)
    refused(light.fail, IndexError, "fail(): bounds", 2)
    with pytest.raises(MemoryError):
        light.fail(1)


def test_checked_indices(checked, kinds):
    x, rows = numpy.ones(3, "f4"), numpy.zeros((2, 3))
    assert checked.outside(x, 2, rows).z[0] == 1
    refused(checked.outside, IndexError,
            "outside(): argument 'x': index 3 is outside dimension 0, which has 3 elements", x, 3, rows)
    refused(checked.outside, IndexError,
            "outside(): argument 'x': index -1 is outside dimension 0, which has 3 elements", x, -1, rows)
    refused(checked.outside, IndexError,
            "outside(): argument 'rows': index 3 is outside dimension 1, which has 3 elements", x, 103, rows)
    refused(checked.outside, IndexError,
            "outside(): result 'z': index 200 is outside dimension 0, which has 3 elements", x, 200, rows)
    table = checked.Table(numpy.ones((1, 2), "f4"))
    refused(table.add, IndexError,
            "Table.add(): argument 'rows': index 2 is outside dimension 1, which has 2 elements", numpy.ones(3, "f4"))


def test_checked_indices_without_exceptions():
    """The message is printed, and the process aborts."""
    file = build_cpp("""
        #include <tenon/function.hpp>
        TENON_CPP_MODULE(strict, "",
            TENON_CPP("at(x: f32[n], i: int) -> float", [](tenon::in<float, 1> x, int64_t i) { return x(i); }, ""))
    """, "-DTENON_CHECK_INDICES", "-fno-exceptions", "-fno-rtti")
    code = f"""
        import array, sys, tenon
        library = tenon.load({str(file)!r})
        x = array.array("f", [1, 2])
        assert library.at(x, 1) == 2
        print("reached", flush=True)
        library.at(x, 2)
    """
    assert run_python(code, check=False) == "reached\n"
    with pytest.raises(AssertionError) as caught:
        run_python(code)
    assert "argument 'x': index 2 is outside dimension 0, which has 2 elements" in str(caught.value)
