"""What threads make and end while other threads use it: types of producers, libraries, objects and tensors."""

import gc
import os
import queue
import sys

import pytest
from building import build, run_python, tenon
from waiting import together

ROUNDS = max(int(os.environ.get("TENON_RACES", "100000")) // 1000, 2)

numpy = pytest.importorskip("numpy")

FIRST = """
import sys
import numpy, tenon
from waiting import together

x = numpy.ones(4, "float32")

def work(number):
    kernels = tenon.load(sys.argv[1])
    assert kernels.saxpy(number, x, memoryview(x))[3] == number + 1
    assert numpy.asarray(tenon.from_dlpack(x)).sum() == 4

together(work)
print("done")
"""


@pytest.mark.parametrize("attempt", range(3))
def test_the_first_calls_of_a_process(attempt):
    """Everything that is looked up once is looked up by eight threads at the same time."""
    assert run_python(f"import sys; sys.path[:0] = {sys.path!r}\n{FIRST}", build("kernels.c")) == "done\n"


def test_types_of_producers_come_and_go(kernels):
    """The bridge remembers some types: one may end while another thread asks for it, and its address be used again."""
    x = numpy.arange(4, dtype="float32")

    def work(number):
        for _ in range(ROUNDS):

            class Producer:
                def __dlpack__(self, **keywords):
                    return x.__dlpack__(**keywords)

                def __dlpack_device__(self):
                    return (1, 0)

            class Silent:
                pass

            assert kernels.saxpy(number, Producer(), x)[3] == 3 * (number + 1)
            with pytest.raises(TypeError, match=r"argument 'x'.*Silent$"):
                kernels.saxpy(number, Silent(), x)
            if number == 0:
                gc.collect()

    together(work)


def test_libraries_come_and_go():
    file = build("kernels.c")
    x = numpy.ones(4, "float32")

    def work(number):
        for i in range(ROUNDS // 4 + 1):
            library = tenon.load(file)
            saxpy, counter = library.saxpy, library.counter_new(i)
            assert library.counter_next(counter) == i
            del library, counter
            assert saxpy(number, x, x)[0] == number + 1
            if number == 0:
                gc.collect()

    together(work)


def test_objects_come_and_go_beside_calls_of_all_threads():
    """An object that another thread closes raises the error that says so; nothing else goes wrong."""
    boxes = tenon.load(build("classes/boxes.c"))
    x = numpy.ones(3, "float32")
    before = boxes.counts()
    shared = [boxes.Box(x)]

    def work(number):
        for i in range(ROUNDS):
            box = shared[0]
            if number == 0:
                shared[0] = boxes.Box(x, scale=float(i))
                box.close()
                continue
            try:
                assert box.dot(x) >= 0 and box.mix(1, b=number) == 100 + 10 * number + 3 and len(box) == 3
                box.work(0)
            except ValueError as error:
                assert "closed" in str(error)

    together(work)
    shared.clear()
    gc.collect()
    after = boxes.counts()
    assert after.made - before.made == after.destroyed - before.destroyed == ROUNDS + 1


def test_tensors_are_released_by_other_threads(kernels):
    made, x = queue.Queue(4), numpy.ones((4, 4), "float32")
    references = sys.getrefcount(x)

    def work(number):
        for _ in range(2 * ROUNDS):
            if number % 2:
                tensor = tenon.from_dlpack(x)
                made.put((tensor, tensor[1:], numpy.asarray(tensor.T), kernels.copy(tensor[0])))
            else:
                tensor, view, array, copied = made.get()
                del tensor
                assert view.shape == (3, 4) and array.sum() == 16 and len(memoryview(copied)) == 4

    together(work)
    gc.collect()
    assert sys.getrefcount(x) == references
