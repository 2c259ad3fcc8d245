"""Results in memory of the library ("own"): the caller's kind of array, and a release that runs exactly once."""

import array
import gc
import threading

import pytest
from building import run_python, tenon

numpy = pytest.importorskip("numpy")


def released(memory):
    gc.collect()
    return memory.counts().released


@pytest.fixture(params=["numpy", "torch", "jax", "tensorflow", "tenon"])
def framework(request):
    """(the module or its name, the type of its arrays, the address of one)"""
    if request.param == "tenon":
        return "tenon", tenon.Tensor, lambda x: memoryview(x).obj and numpy.from_dlpack(x).ctypes.data
    module = pytest.importorskip(request.param)
    return {
        "numpy": (module, numpy.ndarray, lambda x: x.ctypes.data),
        "torch": (module, getattr(module, "Tensor", None), lambda x: x.data_ptr()),
        "jax": (module, getattr(module, "Array", None), lambda x: x.unsafe_buffer_pointer()),
        "tensorflow": (module, getattr(module, "Tensor", None), lambda x: None),
    }[request.param]


def listed(x):
    return numpy.asarray(memoryview(x) if isinstance(x, tenon.Tensor) else x).tolist()


def test_frameworks(memory, framework):
    like, kind, _ = framework
    before = released(memory)
    made = memory.make(5, like=like)
    assert isinstance(made, kind)
    assert listed(made) == [0, 1, 2, 3, 4]
    assert released(memory) == before
    del made
    assert released(memory) == before + 1


def test_the_first_tensor_decides(memory):
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    assert type(memory.make_beside(numpy.zeros(3))) is numpy.ndarray
    assert type(memory.make_beside(torch.zeros(3))) is torch.Tensor
    assert isinstance(memory.make_beside(jax.numpy.zeros(3)), jax.Array)
    assert type(memory.make_beside(tenon.from_dlpack(numpy.zeros(3)))) is tenon.Tensor
    assert type(memory.make_beside(array.array("d", [1]))) is numpy.ndarray
    assert type(memory.make_beside(torch.zeros(3), like="numpy")) is numpy.ndarray
    assert type(memory.make_beside(numpy.zeros(3), like=torch.zeros(1))) is torch.Tensor
    assert type(memory.make(2)) is numpy.ndarray


def test_without_numpy(library):
    code = """
    import sys
    sys.modules["numpy"] = None
    import tenon
    memory = tenon.load(sys.argv[1])
    made = memory.make(3)
    assert type(made) is tenon.Tensor and memoryview(made).tolist() == [0, 1, 2]
    del made
    assert memory.counts() == (1, 1)
    print("done")
    """
    assert run_python(code, library.__file__) == "done\n"


def test_the_library_s_own_memory(memory):
    made = memory.make(4)
    assert made.flags.writeable and not made.flags.owndata
    made[0] = 7
    assert made.ctypes.data % 64 == 0 and made.tolist() == [7, 1, 2, 3]


@pytest.mark.parametrize("shift", [0, 4, 32])
def test_jax_copies_what_is_not_aligned(memory, shift):
    jax = pytest.importorskip("jax")
    before = released(memory)
    made = memory.make(100, shift, like=jax)
    assert numpy.asarray(made).tolist() == list(range(100))
    assert released(memory) == before + (shift != 0)  # the copy needs the library's memory no more


def test_the_last_array_releases(memory):
    before = released(memory)
    made = memory.make(6)
    parts = [made[1:], made.reshape(2, 3), tenon.from_dlpack(made), memoryview(made)]
    del made
    while parts:
        assert released(memory) == before
        parts.pop()
    assert released(memory) == before + 1


def test_through_another_framework(memory):
    torch = pytest.importorskip("torch")
    before = released(memory)
    made = torch.from_dlpack(memory.make(6))
    view = made[2:].numpy()
    del made
    assert released(memory) == before and view.tolist() == [2, 3, 4, 5]
    del view
    assert released(memory) == before + 1


def test_released_by_another_thread(memory):
    before = released(memory)
    arrays = [memory.make(3) for _ in range(100)]

    def work():
        while True:
            try:
                arrays.pop()
            except IndexError:
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert released(memory) == before + 100


# ----------------------------------------------------------------------------------------------------------- shapes


def test_strides(memory):
    rows, columns = memory.make_grid(False), memory.make_grid(True)
    assert rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert columns.tolist() == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    assert columns.strides == (4, 12)
    assert memory.make_reversed().tolist() == [3, 2, 1, 0]


def test_strides_elsewhere(memory):
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    assert memory.make_grid(True, like=torch).stride() == (1, 3)
    before = released(memory)
    with pytest.raises(BufferError, match=r"make_reversed\(\): argument 'like': torch has no negative strides"):
        memory.make_reversed(like=torch)
    assert released(memory) == before + 1
    message = 'make_reversed(): argument \'like\': torch has no negative strides; pass like="numpy", and copy the result'
    with pytest.raises(BufferError) as caught:
        memory.make_reversed(like=torch.ones(1))
    assert str(caught.value) == message and released(memory) == before + 2
    assert memory.make_grid(True, like=jax).tolist() == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    assert memory.make_reversed(like=jax).tolist() == [3, 2, 1, 0]


def test_a_promised_order(memory):
    assert memory.make_ordered(False).flags.c_contiguous
    with pytest.raises(RuntimeError, match=r"result 0: expected f32\[\?, \?\] c own, but the strides"):
        memory.make_ordered(True)


@pytest.mark.parametrize("like", ["numpy", "torch", "jax", "tenon"])
def test_empty(memory, like):
    if like != "tenon":
        pytest.importorskip(like)
    made = memory.make_nothing(like=like)
    assert tuple(made.shape) == (0, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_dtype_variables(memory, dtype):
    x = numpy.arange(4).astype(dtype)
    made = memory.make_typed(x)
    assert made.dtype == x.dtype and made.tolist() == x.tolist()


def test_jax_narrows(memory):
    jax = pytest.importorskip("jax")
    if jax.config.jax_enable_x64:
        pytest.skip("64-bit numbers are allowed")
    before = released(memory)
    with pytest.raises(BufferError, match=r"make_typed\(\): argument 'like': .*JAX narrows 64-bit numbers"):
        memory.make_typed(numpy.arange(3.0), like=jax)
    assert released(memory) == before + 1


def test_among_other_results(memory):
    x = numpy.arange(3, dtype="float32")
    result = memory.make_three(x)
    assert [array.tolist() for array in result] == [[0, 1, 2]] * 3
    assert result.view.ctypes.data == x.ctypes.data != result.copy.ctypes.data
    assert result._fields == ("numbers", "copy", "view")


def test_optional(memory):
    assert memory.make_optional(False) is None
    assert memory.make_optional(True).tolist() == [0, 1]


def test_there_is_no_out(memory):
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        memory.make(3, out=numpy.zeros(3, "float32"))


# --------------------------------------------------------------------------------------------------------- mistakes

WRONG = {
    0: (RuntimeError, "its code calls tenon_result_own() for index 0 without a release function"),
    1: (OverflowError, "the shape of result 0 is too large for any memory"),
    2: (RuntimeError, "result 0: expected f32[?], but the function gave shape [-1]"),
    3: (RuntimeError, "result 0: data is NULL, but f32[4] has elements"),
    4: (RuntimeError, "result 0 is not a tensor, or was already allocated"),
    5: (RuntimeError, "its code calls tenon_result_own() for index 7, but there is only 1 result"),
    6: (
        RuntimeError,
        "result 0 is 'own': its code must call tenon_result_own() instead of tenon_result_alloc()",
    ),
    7: (RuntimeError, "result 0 is 'own': tenon_result_own() needs a release function"),
    8: (RuntimeError, "result 0: expected f32[?] own, but the memory is aligned to 1 bytes only"),
    9: (RuntimeError, "the function returned without setting result 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_given_wrongly(memory, what):
    exception, message = WRONG[what]
    with pytest.raises(exception) as caught:
        memory.give_wrongly(what)
    assert str(caught.value) == f"give_wrongly(): {message}"


def test_results_overlap(memory):
    with pytest.raises(RuntimeError, match=r"give_overlapping\(\): result 0 and result 1 share memory"):
        memory.give_overlapping(2)
    assert [x.tolist() for x in memory.give_overlapping(4)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_fails_after_giving(memory):
    before = released(memory)
    with pytest.raises(ValueError, match="after giving"):
        memory.make_and_fail()
    assert released(memory) == before + 1


@pytest.mark.parametrize("like", ["nampy", 3, object()])
def test_an_unknown_framework(memory, like):
    before = released(memory)
    with pytest.raises((ValueError, TypeError), match=r"make\(\): argument 'like': "):
        memory.make(3, like=like)
    assert released(memory) == before + 1


def test_no_memory_for_it(library):
    """The n-th allocation fails, for every n: a MemoryError, and what was given is released."""
    pytest.importorskip("_testcapi")
    code = """
    import sys, _testcapi, numpy, tenon
    memory = tenon.load(sys.argv[1])
    x = numpy.arange(3, dtype="float32")
    def sweep(function, *args, **keywords):
        failed = 0
        function(*args, **keywords)
        for n in range(40):
            counts, references = memory.counts(), sys.getrefcount(x)
            _testcapi.set_nomemory(n, n + 1)
            try:
                made = function(*args, **keywords)
            except MemoryError:
                failed += 1
            finally:
                _testcapi.remove_mem_hooks()
            made = None
            after = memory.counts()
            assert after[0] - counts[0] == after[1] - counts[1], (function, n)
            assert sys.getrefcount(x) == references, (function, n)
        assert failed, function
    sweep(memory.make, 3)
    sweep(memory.make, 3, like="tenon")
    sweep(memory.make_three, x)
    sweep(memory.part, x, 0, 2)
    print("done")
    """
    assert run_python(code, library.__file__) == "done\n"


def test_alive_when_the_interpreter_ends(library):
    code = """
    import sys, numpy, tenon
    memory = tenon.load(sys.argv[1])
    x = numpy.arange(3, dtype="float32")
    arrays = [memory.make(3), memory.make_three(x), memory.part(x, 0, 2)]
    arrays.append(arrays)
    print("done")
    """
    assert run_python(code, library.__file__) == "done\n"
