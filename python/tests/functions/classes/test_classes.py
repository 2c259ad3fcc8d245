"""Classes of a library as Python types: what they are, what they take, and what they refuse."""

import collections.abc
import copy
import gc
import inspect
import os
import pickle
import pydoc
import sys
import types
import weakref

import pytest
from building import build, needs_mortal_modules, refused, run_python, tenon

numpy = pytest.importorskip("numpy")


def floats(*values):
    return numpy.array(values, dtype="float32")


@pytest.fixture
def box(boxes):
    return boxes.Box(floats(1, 2, 3))


# ---------------------------------------------------------------------------------------------------------- the type


def test_is_a_type(boxes):
    assert isinstance(boxes.Box, type)
    assert (boxes.Box.__name__, boxes.Box.__qualname__, boxes.Box.__module__) == ("Box", "Box", "boxes")
    assert boxes.Box.__doc__ == "A box of numbers.\n\nCopies the numbers.\n\nBox(x: f32[n] c, scale: float = 1.0)"
    assert boxes.Box.__text_signature__ == "(x, scale=1.0)"
    assert str(inspect.signature(boxes.Box)) == "(x, scale=1.0)"
    assert boxes.Bare.__doc__ == "Without a constructor."
    assert not boxes.Empty.__doc__


def test_is_final(boxes):
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Larger", (boxes.Box,), {})


def test_is_immutable(boxes):
    with pytest.raises(TypeError, match="immutable type"):
        boxes.Box.more = 1
    with pytest.raises(TypeError, match="immutable type"):
        boxes.Box.dot = None
    with pytest.raises(TypeError, match="immutable type"):
        del boxes.Box.dot


def test_objects_have_no_dict(box):
    assert not hasattr(box, "__dict__")
    with pytest.raises(AttributeError):
        box.more = 1


def test_weak_references(boxes):
    gone = []
    box = boxes.Box(floats(1))
    reference = weakref.ref(box, gone.append)
    assert reference() is box
    del box
    gc.collect()
    assert reference() is None and gone == [reference]


def test_identity(boxes, box):
    other = boxes.Box(floats(1, 2, 3))
    assert box == box and box != other
    assert len({box, other, box}) == 2
    assert isinstance(box, boxes.Box) and not isinstance(box, boxes.Bare)


def test_no_constructor(boxes):
    message = "{} cannot be called: it has no constructor; only functions of its library make one"
    refused(boxes.Bare, TypeError, message.format("Bare"))
    refused(boxes.Empty, TypeError, message.format("Empty"), floats(1))
    assert isinstance(boxes.bare(), boxes.Bare)


def test_new_without_its_class(boxes):
    message = "Box.__new__(): the first argument must be the class boxes.Box"
    refused(boxes.Box.__new__, TypeError, message)
    refused(boxes.Box.__new__, TypeError, message, object, floats(1))
    assert len(boxes.Box.__new__(boxes.Box, floats(1))) == 1
    for made in (boxes.Box, boxes.Bare):
        with pytest.raises(TypeError):
            object.__new__(made)


def test_pickle_and_copy(box):
    for attempt in [copy.copy, copy.deepcopy, *(lambda x, n=n: pickle.dumps(x, n) for n in range(6))]:
        refused(attempt, TypeError, "boxes.Box: an object of a library cannot be pickled or copied", box)
    assert box.dot(floats(1, 1, 1)) == 6


def test_constructor_fails(boxes):
    before = boxes.counts()
    refused(boxes.Box, ValueError, "Box(): the scale is negative", floats(1), -1)
    refused(boxes.Box, TypeError, "Box(): argument 'x': expected f32[n] c, got int", 5)
    with pytest.raises(TypeError, match=r"Box\(\) got an unexpected keyword argument 'size'"):
        boxes.Box(floats(1), size=1)
    assert boxes.counts() == before


# ------------------------------------------------------------------------------------------------------------ methods


def test_methods(box):
    assert box.dot(floats(1, 10, 100)) == 321
    assert box.dot(x=floats(1, 10, 100)) == 321
    assert box.nearest(floats(5)).distance.tolist() == [3]
    assert box.nearest(floats(5), 2).rows.tolist() == [2]
    assert box.nearest(x=floats(5), k=2).rows.tolist() == [2]
    assert box.mix() == 123 and box.mix(c=9) == 129 and box.mix(b=1, a=2, c=3) == 213


def test_results_in_caller_memory(box):
    out = floats(0, 0)
    assert box.scaled(floats(3, 4), out=out) is out
    assert out.tolist() == [3, 4]
    assert isinstance(box.scaled(floats(3, 4), like="tenon"), tenon.Tensor)


def test_bound_and_unbound(boxes, box):
    bound = box.dot
    assert isinstance(bound, types.MethodType) and bound.__self__ is box and bound.__func__ is boxes.Box.dot
    assert bound(floats(1, 1, 1)) == boxes.Box.dot(box, floats(1, 1, 1)) == 6
    assert boxes.Box.dot.__get__(None, boxes.Box) is boxes.Box.dot


def test_a_bound_method_keeps_its_object(boxes):
    dot = boxes.Box(floats(1, 2)).dot
    gc.collect()
    assert dot(floats(1, 1)) == 3


def test_introspection(boxes, box):
    method = boxes.Box.nearest
    assert (method.__name__, method.__qualname__) == ("nearest", "Box.nearest")
    assert method.__objclass__ is boxes.Box
    signature = "Box.nearest(self, x: f32[m] c, k: int = 1) -> rows: i64[m], distance: f32[m]"
    assert method.__doc__ == f"Two results.\n\n{signature}"
    assert method.__text_signature__ == "($self, x, k=1, *, like=None)"
    assert str(inspect.signature(method)) == "(self, /, x, k=1, *, like=None)"
    assert str(inspect.signature(box.nearest)) == "(x, k=1, *, like=None)"
    assert inspect.isroutine(method) and inspect.ismethoddescriptor(method)
    assert repr(method) == "<method 'nearest' of 'boxes.Box' objects>"
    assert method.function.signature == signature and method.function.name == "Box.nearest"
    assert [item["name"] for item in method.function.parameters] == ["self", "x", "k"]
    assert boxes.Box.__new__.__self__.signature == "Box(x: f32[n] c, scale: float = 1.0)"
    with pytest.raises(TypeError, match="only a library makes one"):
        type(method)()


def test_help(boxes):
    text = pydoc.plain(pydoc.render_doc(boxes.Box))
    assert "Box(x, scale=1.0)" in text and "nearest(self, /, x, k=1, *, like=None)" in text
    assert "close(self, /)" in text and "closed" in text
    assert "class Box" in pydoc.plain(pydoc.render_doc(boxes))


def test_pickle_of_a_method(boxes, monkeypatch):
    monkeypatch.setitem(sys.modules, "boxes", boxes)
    assert pickle.loads(pickle.dumps(boxes.Box.dot)) is boxes.Box.dot
    assert pickle.loads(pickle.dumps(boxes.Box)) is boxes.Box


def test_named_results(boxes, box):
    result = box.nearest(floats(5))
    assert type(result) is boxes.Box_nearest_result and type(result).__module__ == "boxes"
    assert result._fields == ("rows", "distance")
    assert pickle.loads(pickle.dumps(result)).rows.tolist() == result.rows.tolist()


def test_self_of_another_type(boxes):
    message = "Box.dot(): argument 'self': expected boxes.Box, got {}"
    x = floats(1)
    refused(boxes.Box.dot, TypeError, message.format("int"), 5, x)
    refused(boxes.Box.dot, TypeError, message.format("boxes.Bare"), boxes.bare(), x)
    refused(boxes.Box.dot, TypeError, message.format("tenon.Handle"), boxes.index(), x)
    refused(boxes.Box.dot, TypeError, message.format("NoneType"), None, x)
    refused(boxes.Box.dot, TypeError, "Box.dot() missing 2 required positional arguments: 'self' and 'x'")


def test_wrong_arguments(box):
    with pytest.raises(TypeError, match=r"^Box\.dot\(\): argument 'x': expected f32\[n\], got f64\[3\]"):
        box.dot(numpy.zeros(3))
    with pytest.raises(TypeError, match=r"Box\.dot\(\): argument 'x'"):
        box.dot("text")
    with pytest.raises(TypeError, match=r"Box\.mix\(\): argument 'a': expected float, got str"):
        box.mix("text")
    with pytest.raises(TypeError, match=r"Box\.dot\(\) takes"):
        box.dot(floats(1), 2)
    assert box.dot(floats(1, 1, 1)) == 6


def test_objects_of_another_load(boxes):
    again = tenon.load(build("classes/boxes.c"))
    assert again.Box is not boxes.Box
    other = again.Box(floats(1))
    message = "{}: expected boxes.Box, got boxes.Box of a library that was loaded separately"
    refused(boxes.Box.dot, TypeError, message.format("Box.dot(): argument 'self'"), other, floats(1))
    refused(boxes.sum_of, TypeError, message.format("sum_of(): argument 'box'"), other)


# ---------------------------------------------------------------------------------------------------- special methods


def test_len_repr_and_items(boxes, box):
    assert len(box) == 3 and repr(box) == str(box) == "Box(3)"
    assert box[0] == 1 and box[2] == 3
    assert list(box) == [1, 2, 3] and 2.0 in box
    message = "Box.__getitem__(): there is no item {}"
    refused(lambda i: box[i], IndexError, message.format(3), 3)
    refused(lambda i: box[i], IndexError, message.format(-1), -1)
    with pytest.raises(TypeError, match="argument 'i': expected int, got str"):
        box["text"]
    assert bool(boxes.Box(floats())) is False


def test_a_class_with_items_is_iterable(boxes, box):
    assert isinstance(box, collections.abc.Iterable) and not isinstance(boxes.bare(), collections.abc.Iterable)
    iterator = iter(box)
    assert [next(iterator), *iterator] == [1, 2, 3] == list(boxes.Box.__iter__(box))
    with pytest.raises(TypeError, match="descriptor '__iter__'"):
        boxes.Box.__iter__(3)
    iterator = iter(box)
    box.close()
    refused(next, ValueError, "Box.__getitem__(): this Box is closed", iterator)


def test_an_iterator_keeps_the_object(boxes):
    box = boxes.Box(floats(1, 2))
    iterator, alive = iter(box), weakref.ref(box)
    del box
    assert list(iterator) == [1, 2]
    del iterator
    assert alive() is None


def test_default_repr(boxes):
    bare = boxes.bare()
    assert repr(bare) == f"<boxes.Bare at {id(bare):#x}>"
    bare.close()
    assert repr(bare) == "<closed boxes.Bare>"


# -------------------------------------------------------------------------------------------------- close, closed, with


def test_close(boxes):
    box = boxes.Box(floats(1))
    before = boxes.counts().destroyed
    assert box.closed is False
    assert box.close() is None and box.close() is None
    assert box.closed is True and boxes.counts().destroyed == before + 1
    assert repr(box) == "<closed boxes.Box>"
    for use in [lambda: box.dot(floats(1)), lambda: box.dot(x=floats(1)), lambda: boxes.Box.dot(box, floats(1))]:
        refused(use, ValueError, "Box.dot(): this Box is closed")
    refused(lambda: len(box), ValueError, "Box.__len__(): this Box is closed")
    refused(lambda: box[0], ValueError, "Box.__getitem__(): this Box is closed")
    refused(boxes.sum_of, ValueError, "sum_of(): argument 'box': this Box is closed", box)
    del box
    assert boxes.counts().destroyed == before + 1


def test_closed_is_read_only(box):
    with pytest.raises(AttributeError):
        box.closed = True


def test_with(boxes):
    with boxes.Box(floats(1, 2)) as box:
        assert len(box) == 2
    assert box.closed
    with pytest.raises(ValueError, match=r"^Box\.__enter__\(\): this Box is closed$"):
        with box:
            pass
    with pytest.raises(KeyError):
        with boxes.bare() as bare:
            raise KeyError
    assert bare.closed


def test_closed_by_an_argument(boxes, box):
    class Closes:
        def __index__(self):
            box.close()
            return 1

    refused(box.work, ValueError, "Box.work(): this Box is closed", Closes())


def test_an_argument_may_call_the_object(box):
    class Calls:
        def __index__(self):
            return int(box.dot(floats(1, 0, 0)))

    assert box.work(Calls()) == 1


def test_first_mistake_first(boxes, box):
    box.close()
    with pytest.raises(ValueError, match="closed"):
        box.mix("text")
    with pytest.raises(ValueError, match=r"work_both\(\): argument 'a': this Box is closed"):
        boxes.work_both(box, 5, 1)


# ------------------------------------------------------------------------------------------- as arguments and results


def test_arguments_and_results(boxes, box):
    assert boxes.sum_of(box) == 6 and boxes.sum_of(box=box) == 6
    assert boxes.sum_of(None) == boxes.sum_of() == 0
    joined = boxes.join(box, box, boxes.Box(floats(1)), box)
    assert type(joined) is boxes.Box and list(joined) == [3, 3, 1, 3]
    nine = [boxes.Box(floats(*range(i))) for i in range(1, 10)]
    assert boxes.count_nine(*nine) == 123456789 and boxes.count_nine(*[nine[1]] * 9) == 222222222
    refused(boxes.sum_of, TypeError, "sum_of(): argument 'box': expected boxes.Box, got boxes.Bare", boxes.bare())
    refused(boxes.sum_of, TypeError, "sum_of(): argument 'box': expected boxes.Box, got int", 5)


def test_handles_of_version_1_0(boxes, box):
    index = boxes.index()
    assert type(index).__name__ == "Handle" and repr(index) == "<handle 'Index' of boxes>"
    assert boxes.use(index) is True
    refused(boxes.use, TypeError, "use(): argument 'index': expected handle('Index'), got boxes.Box", box)


def test_two_methods_of_one_name():
    source = """
    #include <tenon/function.h>
    static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
    TENON_MODULE(twice, NULL, TENON_CLASS("A", NULL), TENON_FUNCTION("A.f(self)", none, NULL),
        TENON_FUNCTION("A.f(self)", none, NULL))
    """
    with pytest.raises(ImportError, match=r"functions 1 and 2 take the same arguments"):
        tenon.load(build(source))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ('TENON_FUNCTION("A.f(self)", none, NULL)', "not a class of the module"),
        ('TENON_CLASS("A", NULL), TENON_CLASS("A", NULL)', "two classes called 'A'"),
        ('TENON_CLASS("A", NULL), TENON_FUNCTION("A.close(self)", none, NULL)', "every object has 'close' already"),
        ('TENON_CLASS("A", NULL), TENON_FUNCTION("A.__add__(self)", none, NULL)', "__next__, __repr__ or __setitem__"),
        ('TENON_CLASS("A", NULL), TENON_FUNCTION("A.__len__(self) -> float", none, NULL)', "expected A.__len__"),
    ],
)
def test_wrong_tables(entries, message):
    source = f"""
    #include <tenon/function.h>
    tenon_status none(tenon_call *call);
    tenon_status none(tenon_call *call) {{ (void)call; return TENON_OK; }}
    TENON_MODULE(wrong, NULL, {entries})
    """
    with pytest.raises(ImportError) as caught:
        tenon.load(build(source))
    assert message in str(caught.value)


# ------------------------------------------------------------------------------------------------------------ lifetime


def test_destroyed_with_the_last_reference(boxes):
    before = boxes.counts()
    box = boxes.Box(floats(1))
    other = box
    del box
    gc.collect()
    assert boxes.counts().destroyed == before.destroyed
    del other
    gc.collect()
    assert boxes.counts() == (before.made + 1, before.destroyed + 1)


@needs_mortal_modules
def test_the_module_is_collected():
    module = tenon.load(build("classes/boxes.c"))
    box, method, made = module.Box(floats(1, 2)), module.Box.dot, module.sum_of
    types_of = [weakref.ref(module.Box), weakref.ref(module.Free)]
    module = weakref.ref(module)
    gc.collect()
    assert module() is None and types_of[0]() is type(box)
    assert method(box, floats(1, 1)) == made(box) == 3
    box = method = made = None
    gc.collect()
    assert [reference() for reference in types_of] == [None, None]


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer keeps memory that was freed")
def test_many_objects():
    """100,000 objects take no memory once they are gone."""
    run_python(
        """
        import gc, sys, weakref
        import numpy, tenon

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        boxes = tenon.load(sys.argv[1])
        x = numpy.ones(16, "float32")
        def make(count):
            for i in range(count):
                box = boxes.Box(x)
                weakref.ref(box)
                box.dot(x)
                if i % 3 == 0:
                    box.close()
        make(10_000)
        gc.collect()
        before = resident()
        make(100_000)
        gc.collect()
        assert resident() - before < 2_000_000, resident() - before
        made, destroyed = boxes.counts()
        assert made == 110_000 and destroyed == 110_000, (made, destroyed)
        """,
        build("classes/boxes.c"),
    )


def test_alive_at_exit():
    run_python(
        """
        import sys
        import numpy, tenon
        boxes = tenon.load(sys.argv[1])
        box = boxes.Box(numpy.ones(3, "float32"))
        sys.keep = box, box.dot, boxes.Free(numpy.ones(3, "float32"))
        """,
        build("classes/boxes.c"),
    )
