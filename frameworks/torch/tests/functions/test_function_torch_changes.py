"""Python code of a subclass or a mode runs while a call reads its tensors, and replaces their memory.

The function tells which addresses it was given. They must be those that the tensors have at that time."""

import ctypes
import itertools

import pytest
from building import build, run_python, tenon

torch = pytest.importorskip("torch")

SOURCE = """
    #include <tenon/function.h>
    #include <pthread.h>

    static int64_t seen[3];
    static tenon_kept *kept;

    static tenon_status note(tenon_call *call)
    {
        for (int i = 0; i < 2; i++)
            seen[i] = (int64_t)(intptr_t)tenon_arg(call, i)->data;
        seen[2] = (int64_t)(intptr_t)tenon_result(call, 0)->data;
        return TENON_OK;
    }
    static tenon_status address(tenon_call *call)
    {
        tenon_return_int(call, 0, seen[tenon_arg_int(call, 0)]);
        return TENON_OK;
    }
    static tenon_status hold(tenon_call *call)
    {
        kept = tenon_arg_keep(call, 0);
        return TENON_OK;
    }
    static void *release(void *share)
    {
        tenon_kept_release(share);
        return NULL;
    }
    static tenon_status drop(tenon_call *call)
    {
        pthread_t thread;
        if (pthread_create(&thread, NULL, release, kept))
            return TENON_EFAILED;
        pthread_join(thread, NULL);
        if (tenon_cancelled(call))
            return TENON_EFAILED;
        if (*(volatile int *)(intptr_t)tenon_arg_int(call, 1))
            return tenon_fail(call, TENON_EFAILED, "the memory changed, and the function was not stopped");
        return TENON_OK;
    }

    TENON_MODULE(notes, "", TENON_FUNCTION("note(x: f32[n], y: f32[n]) -> f32[n]", note, ""),
                 TENON_FUNCTION("address(i: int) -> int", address, ""),
                 TENON_FUNCTION("hold(x: f32[n] keep)", hold, ""),
                 TENON_FUNCTION("drop(x: f32[n], flag: int)", drop, ""))
"""
CHANGES = {
    "set_": lambda x: x.set_(torch.zeros(1000)),
    "data": lambda x: setattr(x, "data", torch.zeros(1000)),
    "storage": lambda x: x.untyped_storage().resize_(0),
    "resize_": lambda x: x.resize_(100_000),
}


@pytest.fixture(scope="module")
def library():
    return tenon.load(build(SOURCE, "-pthread"))


@pytest.fixture(params=CHANGES)
def change(request):
    return CHANGES[request.param]


class Clock:
    """Make the change when an attribute or a method of tensors is used for the n-th time."""

    def __init__(self, name, turn, action):
        own = getattr(torch.Tensor, name)
        self.functions, self.turn, self.action, self.count = (own, getattr(own, "__get__", None)), turn, action, 0

    def tick(self, function):
        if function in self.functions:
            self.count += 1
            if self.count == self.turn:
                self.action()


def subclass(tensor, clock):
    class Ticking(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                clock.tick(function)
                return function(*args, **(kwargs or {}))

    return tensor.as_subclass(Ticking)


def mode(clock):
    from torch.overrides import TorchFunctionMode

    class Ticking(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            clock.tick(function)
            return function(*args, **(kwargs or {}))

    return Ticking()


def check(library, call, given, out=None):
    """The call is refused, or the function got the memory that the tensors have."""
    try:
        made = call()
    except (RuntimeError, ValueError, BufferError) as error:
        assert "note(): argument '" in str(error), error
        return
    with torch._C.DisableTorchFunction():
        expected = [torch.Tensor.data_ptr(x) for x in (*given, made if out is None else out)]
    assert [library.address(i) for i in range(3)] == expected


def test_a_subclass_on_the_nth_read(library, change):
    """As an argument, as out=, and by another argument."""
    for turn, victim, evil in itertools.product(range(1, 6), range(3), range(3)):
        given = [torch.ones(1000) for _ in range(3)]
        clock = Clock("requires_grad", turn, lambda: change(given[victim]))
        given[evil] = subclass(given[evil], clock)
        check(library, lambda: library.note(*given[:2], out=given[2]), given[:2], given[2])
        assert clock.count > 0


def test_a_tensor_of_another_class_during_the_call(library, change):
    """It has the same memory, but its new class describes it by Python code, which changes an argument that was compared."""

    class Described(torch.Tensor):
        __dlpack_c_exchange_api__ = None

        def __dlpack__(self, **options):
            with torch._C.DisableTorchFunctionSubclass():
                change(given[0])
                return torch.Tensor.__dlpack__(self)

    given = [torch.ones(1000) for _ in range(3)]
    clock = Clock("requires_grad", 1, lambda: setattr(given[1], "__class__", Described))
    out = subclass(given[2], clock)
    check(library, lambda: library.note(*given[:2], out=out), given[:2], out)
    assert type(given[1]) is Described


def test_a_mode_that_sees_plain_tensors(library, change):
    """If views are asked by Python whether they require grad, a mode sees that; torch's C++ method runs no mode."""
    for turn, victim in itertools.product(range(1, 6), range(2)):
        given = [torch.ones(2000)[:1000], torch.ones(2000)[1000:]]
        clock = Clock("requires_grad", turn, lambda: change(given[victim]))
        with mode(clock):
            check(library, lambda: library.note(*given), given)
        assert (clock.count == 0) == (tenon.torch_info()["tensors"] == "struct")


@pytest.mark.parametrize("name", ["is_neg", "is_conj", "data_ptr", "numel", "stride"])
def test_what_a_subclass_says_about_its_memory(library, change, name):
    """It is not asked after the memory was read."""
    for evil_first in (False, True):
        plain, calls = torch.ones(1000), []

        def method(self, *args):
            calls.append(name)
            change(plain)
            return getattr(torch.Tensor, name)(self, *args)

        evil = torch.ones(2000)[::2].as_subclass(type("Evil", (torch.Tensor,), {name: method}))
        given = [evil, plain] if evil_first else [plain, evil]
        check(library, lambda: library.note(*given), given)
        with mode(Clock(name, 1, lambda: change(plain))):
            check(library, lambda: library.note(*given), given)
        # Without a table torch's own __dlpack__ asks it, before the memory is read.
        assert not calls or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


def test_a_release_that_another_thread_has_left(library, change):
    """The next call of the bridge runs it, and with it any code."""
    numpy = pytest.importorskip("numpy")
    x, flag = torch.ones(1000), ctypes.c_int(0)

    class Last(numpy.ndarray):
        def __del__(self):
            flag.value = 1
            change(x)

    last = numpy.zeros(3, "float32").view(Last)
    library.hold(last)
    del last
    assert not flag.value
    library.drop(x, ctypes.addressof(flag))
    tenon.to(numpy.zeros(3), "numpy")
    assert flag.value


def test_an_array_that_is_asked_for_a_sum(library, change):
    """Each time an array of NumPy is recognised whose class has its own ufuncs. They may run any code."""
    numpy = pytest.importorskip("numpy")
    ticks = []

    class Plain(numpy.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            ticks.append(ufunc)
            if len(ticks) == turn:
                change(x)
            return getattr(ufunc, method)(*map(numpy.asarray, inputs), **options)

    for turn in range(1, 8):
        x, y = torch.ones(1000), numpy.ones(1000, "float32").view(Plain)
        ticks.clear()
        try:
            library.note(x, y)
        except (RuntimeError, BufferError) as error:
            assert "note(): argument 'x'" in str(error), error
        else:
            assert library.address(0) == x.data_ptr() and len(ticks) < turn
    assert ticks


def test_classes_that_are_not_remembered():
    """The bridge remembers a number of classes. It asks each other one again, and its metaclass may run any code."""
    run_python("""
        import sys, torch, tenon
        library = tenon.load(sys.argv[1])
        for i in range(60):
            library.note(*[torch.ones(3).as_subclass(type(f"Filler{i}", (torch.Tensor,), {}))] * 2)

        class Meta(type(torch.Tensor)):
            count = turn = 0

            def __getattribute__(cls, name):
                Meta.count += 1
                if Meta.count == Meta.turn:
                    x.set_(torch.zeros(1000))
                return super().__getattribute__(name)

        y = torch.ones(1000).as_subclass(Meta("Asked", (torch.Tensor,), {}))
        for Meta.turn in range(1, 200):
            x, Meta.count = torch.ones(1000), 0
            try:
                library.note(x, y)
            except RuntimeError as error:
                assert "argument 'x': its memory" in str(error), error
            else:
                assert library.address(0) == x.data_ptr(), (Meta.turn, Meta.count)
        assert Meta.count > 10
    """, build(SOURCE, "-pthread"))
