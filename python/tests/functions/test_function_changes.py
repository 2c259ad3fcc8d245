"""Python code that runs during a call changes an argument that was read already: an error, never freed memory."""

import pytest
from building import build, tenon
from handmade import Echo

CHANGES = {
    "set_": lambda torch, x: x.set_(torch.zeros(1)),
    "data": lambda torch, x: setattr(x, "data", torch.zeros(1)),
    "storage": lambda torch, x: x.untyped_storage().resize_(0),
    "shape": lambda torch, x: x.resize_(10, 10),
}


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(params=CHANGES)
def change(request, torch):
    if request.param == "shape" and not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("before 2.10 torch's tensors come in capsules, which have a shape of their own")
    return CHANGES[request.param]


class Producer:
    """A producer that does something else before it hands its array out."""

    def __init__(self, array, action):
        self.array = array
        self.action = action

    def __dlpack__(self, **options):
        self.action()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def refused(name="x"):
    return pytest.raises(RuntimeError, match=rf"\(\): argument '{name}': its memory, shape, dtype or flags changed while")


def test_a_later_argument(kernels, torch, change):
    x, y = torch.ones(1000), torch.ones(1000)
    with refused():
        kernels.saxpy(2.0, x, Producer(y, lambda: change(torch, x)))
    assert kernels.saxpy(2.0, y, Producer(y, lambda: None)).tolist() == [3.0] * 1000


@pytest.mark.parametrize("keyword", ["out", "like"])
def test_out_and_like(kernels, torch, change, keyword):
    x, y = torch.ones(1000), torch.ones(1000)
    with refused():
        kernels.saxpy(2.0, x, y, **{keyword: Producer(torch.ones(1000), lambda: change(torch, x))})


def test_an_earlier_argument_sees_the_change_first(kernels, torch, change):
    x = torch.ones(1000)
    with pytest.raises((ValueError, BufferError), match="argument 'y'"):
        kernels.saxpy(2.0, Producer(torch.ones(1000), lambda: change(torch, x)), x)


def test_an_unusual_tensor(kernels, torch, change):
    """Borrowed by the general path: a subclass, and a view that is not in C order."""
    y = torch.ones(1000)
    for x in (torch.nn.Parameter(torch.ones(1000), requires_grad=False), torch.ones(2000)[::2]):
        with refused():
            Echo("f(x: f32[n], y: f32[n])")(x, Producer(y, lambda x=x: change(torch, x)))


def test_a_written_argument(torch, change):
    x = torch.ones(1000)
    with refused():
        Echo("f(x: f32[n] rw, y: f32[n])")(x, Producer(torch.ones(1000), lambda: change(torch, x)))


def test_gradients_that_are_wanted_meanwhile(kernels, torch):
    x, y = torch.ones(3), torch.ones(3)
    with pytest.raises(RuntimeError, match=r"saxpy\(\): argument 'x': it requires grad"):
        kernels.saxpy(2.0, x, Producer(y, lambda: x.requires_grad_()))


def test_numpy(kernels):
    numpy = pytest.importorskip("numpy")
    x, y = numpy.ones(1000, "float32"), numpy.ones(1000, "float32")
    with refused():
        kernels.saxpy(2.0, x, Producer(y, lambda: x.resize(0, refcheck=False)))
    x = numpy.ones(1000, "float32")
    with refused():
        Echo("f(x: f32[n] rw, y: f32[n])")(x, Producer(y, lambda: x.setflags(write=False)))


class Standard(Producer):
    """An array of the array API standard, whose namespace makes the results."""

    device = "cpu"

    def __array_namespace__(self):
        return self

    def empty(self, shape, **options):
        self.action()
        raise RuntimeError("no memory of mine")

    float32 = "float32"

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_what_makes_the_results(kernels, torch, change):
    y = torch.ones(1000)
    with refused("y"):
        kernels.saxpy(2.0, Standard(torch.ones(1000), lambda: change(torch, y)), y)
    y = torch.ones(1000)
    with refused("y"):
        opened().twice(Standard(torch.ones(1000), lambda: change(torch, y)), y)


def test_a_dispatch_mode(kernels, torch, change):
    """It is Python code, and may see the allocation of a result."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        seen = False

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if not self.seen:
                self.seen = True
                change(torch, x)
            return function(*args, **(kwargs or {}))

    x, y = torch.ones(1000), torch.ones(1000)
    with Mode() as mode:
        try:
            result = kernels.saxpy(2.0, x, y)
        except (RuntimeError, ValueError, BufferError) as error:
            assert mode.seen and "argument 'x'" in str(error) or "argument 'y'" in str(error)
        else:
            assert not mode.seen and result.tolist() == [3.0] * 1000


def opened():
    """A function that makes its result itself, and has the pointer of its argument by then."""
    return tenon.load(build(
        """
        #include <tenon/function.h>

        static tenon_status twice(tenon_call *call)
        {
            const float *x = tenon_data(call, 1, float);
            const tenon_view *view = tenon_arg(call, 1);
            const tenon_view *result = tenon_result_alloc(call, 0, view->ndim, view->shape);
            if (!result)
                return TENON_EFAILED;
            for (int64_t i = 0; i < view->numel; i++)
                tenon_result_data(call, 0, float)[i] = 2 * x[i];
            return TENON_OK;
        }

        TENON_MODULE(opened, "", TENON_FUNCTION("twice(x: f32[n], y: f32[n]) -> f32[?]", twice, ""))
        """))


@pytest.mark.parametrize("opens", [False, True])
def test_the_garbage_collector(kernels, torch, change, opens):
    """It may run when a result is made, and run any code."""
    import gc

    x, y = torch.ones(1000), torch.ones(1000)
    call = (lambda: opened().twice(y, x)) if opens else (lambda: kernels.saxpy(2.0, x, y))
    for _ in range(100):  # the paths of a warm function
        call()
    runs = []

    def during(phase, info):
        if phase == "start":
            runs.append(change(torch, x))

    thresholds = gc.get_threshold()
    gc.callbacks.append(during)
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(20):
            if not runs:
                expected = call()
    except (RuntimeError, ValueError, BufferError) as error:
        assert runs and ("argument 'x'" in str(error) or "argument 'y'" in str(error))
    else:
        assert expected[0] in (2, 3)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(during)


def signalled(change, call):
    """Make a call whose function raises a signal and asks tenon_cancelled, while the handler makes the change."""
    import signal

    library = tenon.load(build("""
        #include <tenon/function.h>
        #include <signal.h>

        static tenon_status wait(tenon_call *call)
        {
            raise(SIGUSR1);
            return tenon_cancelled(call) ? TENON_EFAILED : TENON_OK;
        }

        static tenon_status push(tenon_call *call)
        {
            int64_t n = tenon_dim(call, 0);
            return tenon_result_push(call, 0, 1, &n) ? wait(call) : TENON_EFAILED;
        }

        TENON_MODULE(waits, "", TENON_FUNCTION("wait(x: f32[n])", wait, ""),
                     TENON_FUNCTION("fill(x: f32[n]) -> f32[n]", wait, ""),
                     TENON_FUNCTION("both(x: f32[n]) -> f32[n], f32[n]", wait, ""),
                     TENON_FUNCTION("push(x: f32[n]) -> [f32[?]]", push, ""))
    """))
    before = signal.signal(signal.SIGUSR1, lambda number, frame: change())
    try:
        call(library)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal(torch, change):
    """Its handler runs inside of tenon_cancelled, at most every 20 ms."""
    x = torch.ones(1000)
    with refused():
        signalled(lambda: change(torch, x), lambda library: library.wait(x))
    x, out = torch.ones(1000), torch.ones(1000)
    with refused("out"):
        signalled(lambda: change(torch, out), lambda library: library.fill(x, out=out))
    x, out = torch.ones(1000), torch.ones(1000)
    with pytest.raises(RuntimeError, match=r"fill\(\): argument 'out': it requires grad"):
        signalled(out.requires_grad_, lambda library: library.fill(x, out=out))


@pytest.mark.parametrize("checked", [False, True])
def test_a_signal_with_numpy(checked):
    """Memory that large is unmapped when it is freed, so that a look at it would end the process."""
    numpy = pytest.importorskip("numpy")
    x, y, out = (numpy.zeros(10_000_000, "float32") for _ in range(3))
    before = tenon.check(checked)
    try:
        with refused():
            signalled(lambda: x.resize(1, refcheck=False), lambda library: library.wait(x))
        with refused("out"):
            signalled(lambda: out.resize(1, refcheck=False), lambda library: library.fill(y, out=out))
    finally:
        tenon.check(before)


def test_a_result_that_other_code_finds(torch, change):
    import gc

    x = torch.ones(1237)

    def found():
        return [made for made in gc.get_objects() if type(made) is torch.Tensor and made.shape == x.shape and made is not x]

    assert not found()
    for name, result in (("fill", "0"), ("both", "1"), ("push", r"0\[0\]")):
        with pytest.raises(RuntimeError, match=rf"{name}\(\): result {result}: its memory, shape, dtype or flags changed while"):
            signalled(lambda: change(torch, found()[-1]), lambda library: getattr(library, name)(x))


def test_a_tensor_of_ours(torch, change):
    """It has the memory of the tensor that it was made of."""
    x = torch.ones(1000)
    ours = tenon.to(x, "tenon")
    with refused():
        Echo("f(x: f32[n], y: f32[n])")(ours, Producer(torch.ones(1000), lambda: change(torch, x)))
