"""The operations of the soak. Each takes a World, uses its random numbers only, and checks what it can check.

An operation that expects a refusal asks for the exception; any other exception ends the run. OPERATIONS has each with its
weight: cheap ones come often, those that start processes seldom."""

import contextlib
import copy
import gc
import os
import pickle
import threading
import weakref

from world import SLOTS, tenon, together

OPERATIONS = []


def operation(weight=10, needs=()):
    def add(function):
        OPERATIONS.append((function, weight, (needs,) if isinstance(needs, str) else needs))
        return function

    return add


def close(a, b):
    return abs(a - b) <= 1e-3 * (1 + abs(a) + abs(b))


def numbers(x):
    """The elements of any one-dimensional array as Python numbers."""
    return memoryview(tenon.from_dlpack(x)).tolist()


@contextlib.contextmanager
def refused(*types):
    try:
        yield
    except types:
        return
    raise AssertionError(f"expected one of {types}")


# ------------------------------------------------------------------------------------------------------- arrays and views


@operation(30)
def import_and_export(world):
    x = world.keep(world.array(world.random.randrange(1, 9)))
    framework = world.random.choice([name for name in ("numpy", "torch", "jax") if getattr(world, name)] or ["tenon"])
    with contextlib.suppress(BufferError):  # torch takes nothing that is read-only, JAX nothing that is not aligned
        world.keep(tenon.to(x, framework))
    world.keep(tenon.from_dlpack(x))


@operation(20)
def views(world):
    tensor = world.some(tenon.Tensor)
    if tensor is None or tensor.ndim == 0 or tensor.shape[0] == 0:
        return
    step = world.random.choice([1, 2, -1, -3])
    world.keep(tensor[:: step])
    world.keep(tensor[world.random.randrange(tensor.shape[0])])
    world.keep(tensor.T)
    with refused(IndexError):
        tensor[tensor.shape[0]]


@operation(10)
def copies(world):
    tensor = world.some(tenon.Tensor)
    if tensor is not None:
        assert copy.deepcopy(tensor).tolist() == tensor.tolist()
        world.keep(copy.copy(tensor))


@operation(10)
def capsules(world):
    x = world.array(3)
    tensor = tenon.from_dlpack(x)
    capsule = tensor.__dlpack__(max_version=world.random.choice([None, (1, 0), (1, 3)]) if not tensor.readonly else (1, 0))
    if world.random.random() < 0.5:
        world.keep(capsule)  # perhaps never consumed


@operation(15)
def short_lived_types(world):
    """A producer's type that ends with its objects; the first 64 types stay, because the bridge remembers them."""
    inner = world.array(4)

    class Producer:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            return tenon.from_dlpack(self.array).__dlpack__(**keywords)

        def __dlpack_device__(self):
            return (1, 0)

    class Failing(Producer):
        def __dlpack__(self, **keywords):
            raise KeyError("no")

    producer = Producer(inner)
    assert close(sum(numbers(producer)), sum(numbers(inner)))
    with refused(KeyError, BufferError, TypeError):
        world.kernels.saxpy(1.0, Failing(inner), inner)
    world.keep(world.kernels.copy(producer))


# ---------------------------------------------------------------------------------------------------------------- functions


@operation(40)
def saxpy(world):
    n = world.random.randrange(0, 40)
    x, y = world.array(n), world.array(n)
    z = world.kernels.saxpy(2.0, x, y)
    assert all(close(2 * a + b, c) for a, b, c in zip(numbers(x), numbers(y), numbers(z)))
    world.keep(z)


@operation(20)
def wrong_arguments(world):
    n = world.random.randrange(1, 9)
    x = world.array(n)
    wrong = world.random.choice([None, "x", 3, [1.0], object(), world.array(n + 1), world.array(n, 2), world.array(n, dtype="float64")])
    with refused(TypeError, ValueError):
        world.kernels.saxpy(1.0, x, wrong)
    with refused(TypeError, ValueError):
        world.kernels.saxpy(x, 1.0, wrong, surplus=1)


@operation(15)
def several_results(world):
    x = world.array(world.random.randrange(2, 9))
    found = world.kernels.moments(x, like="numpy" if world.numpy else "tenon")  # JAX has no f64
    assert close(found.mean, sum(numbers(x)) / found.count)
    world.keep(found)
    for part in world.kernels.split(x):
        world.keep(part)
    world.keep(world.kernels.positive(x, like="numpy" if world.numpy else "tenon"))
    world.kernels.maybe(x, world.random.random() < 0.5)
    world.keep(world.kernels.counter_new(3))


@operation(15)
def written(world):
    x = world.array(world.random.randrange(1, 9), writable=True)
    before = sum(numbers(x))
    world.kernels.add_to(x, 1.0)
    assert close(sum(numbers(x)), before + len(numbers(x)))
    with refused(ValueError):
        world.kernels.swap(x, x)


@operation(5)
def failures(world):
    with refused(Exception):
        world.kernels.fail(world.random.randrange(1, 12), world.random.choice([None, "a reason", "\u00e9\u4e2d" * 300]))


@operation(25)
def kinds(world):
    kinds, number = world.kinds, world.random.randrange(2**64)
    data = bytes(world.random.randrange(256) for _ in range(world.random.randrange(100)))
    assert kinds.uint_(number) == number
    assert kinds.bytes_(memoryview(data)) == data and kinds.bytes_unlocked(bytearray(data)) == data
    assert kinds.complex_(1 - 2j) == 1 - 2j
    names = [chr(world.random.choice([65, 233, 0x4E2D, 0x1F600])) * world.random.randrange(5) for _ in range(5)]
    assert list(kinds.strs_(names).names) == names
    assert kinds.ints_(range(5)) == [0, 1, 2, 3, 4] and kinds.floats_((1, 2.5)) == [1.0, 2.5]
    world.keep(kinds.zeros(4, "f64"))
    with refused(OverflowError):
        kinds.uint_(2**64)
    with refused(TypeError):
        kinds.dtype_("no dtype")
    with refused(ValueError):
        kinds.choice(3)


@operation(15)
def lists(world):
    sizes = [world.random.randrange(1, 5)] * world.random.randrange(0, 40)
    arrays = [world.array(size) for size in sizes]
    assert close(world.lists.total(arrays), sum(sum(numbers(x)) for x in arrays))
    world.keep(world.lists.doubled(tuple(arrays)))
    world.keep(world.lists.pieces(world.array(12), 5))
    with refused(TypeError, ValueError):
        world.lists.total([*arrays, world.array(9, 9)])


@operation(15)
def callbacks(world):
    held = []

    def mean(x):
        held.append(x)
        return sum(numbers(x))

    world.callbacks.minimum(mean, world.array(5, dtype="float64"))
    world.keep(held)  # views that outlive their call

    def fails(x):
        raise KeyError("from a callback")

    with refused(KeyError):
        world.callbacks.minimum(fails, world.array(5, dtype="float64"))
    world.keep(world.callbacks.fill(lambda to: world.kernels.add_to(to, 0.0), 3))


@operation(10)
def conversions(world):
    x = world.array(4, dtype=world.random.choice(["float64", "int32", "int64", "bool"]) if world.numpy else "float32")
    world.conversions.total(x)
    with refused(TypeError):
        world.conversions.whole(world.array(4, dtype="float64"))


@operation(10)
def batches(world):
    rows, columns = world.random.randrange(1, 5), world.random.randrange(1, 20)
    world.keep(world.batches.lerp(world.array(rows, columns), world.array(columns), world.array(rows, 1)))
    with refused(ValueError):
        world.batches.lerp(world.array(2), world.array(3), world.array(3))


@operation(10)
def overloads(world):
    x = world.random.choice([1, 2.5, "a", "text", world.array(3), world.array(2, 2), [world.array(2)]])
    world.overloads.chosen(x)
    with refused(TypeError):
        world.overloads.chosen(object())


@operation(3)
def loops(world):
    count = world.random.randrange(2000)
    assert world.parallel.total(count, 7) == count
    with refused(IndexError):
        world.parallel.fails(100, world.random.randrange(100))


# ----------------------------------------------------------------------------------------------------- objects and memory


@operation(20)
def bags(world):
    bag = world.keep(world.bags.Bag(world.array(world.random.randrange(1, 9))))
    assert len(list(bag)) == bag.size == len(bag)
    world.keep(bag.values)
    other = world.keep(world.bags.Bag.make(4))
    world.keep(world.bags.Bag.merge(bag, other))
    sack = world.bags.Sack(world.array(3))
    again = pickle.loads(pickle.dumps(sack))
    assert numbers(again.values) == numbers(sack.values)
    if world.random.random() < 0.3:
        sack.close()
        with refused(ValueError):
            sack.values


@operation(10)
def boxes(world):
    with world.boxes.Box(world.array(4)) as box:
        world.keep(box.scaled(world.array(4)))
        repr(box), box[0], box.mix(c=1.0, a=2)
    with refused(ValueError):
        box.dot(world.array(4))
    reference = weakref.ref(world.boxes.Box(world.array(2)))
    assert reference() is None


@operation(15)
def kept(world):
    if len(world.slots) >= SLOTS:
        world.memory.drop(world.slots.pop(world.random.randrange(SLOTS)), world.random.random() < 0.3)
    x = world.array(world.random.randrange(1, 9))
    world.slots.append(world.memory.keep(x))
    assert close(world.memory.kept_sum(world.slots[-1]), sum(numbers(x)))


@operation(15)
def owned_and_of(world):
    world.keep(world.memory.make(world.random.randrange(1, 50)))
    x = world.array(8)
    if not (world.torch and isinstance(x, world.torch.Tensor)) and not (world.jax and isinstance(x, world.jax.Array)):
        world.keep(world.memory.part(x, 1, 7, 2))
    store = world.store.Store(5)
    world.keep(store.show_rw() if world.torch is None else store.show())
    with refused(Exception):
        world.memory.make_and_fail()


@operation(2)
def reload(world):
    """The same file again, and again from a copy: libraries stay open, so the number of copies is limited."""
    assert tenon.load(str(world.path("kinds"))).uint_(3) == 3
    function = pickle.loads(pickle.dumps(world.kernels.saxpy))
    assert function is world.kernels.saxpy or callable(function)


# ------------------------------------------------------------------------------------------------------ threads and processes


@operation(3)
def threads_that_end(world):
    """Threads that import, call and release what others made."""
    shared, kernels, bags = [world.array(16) for _ in range(4)], world.kernels, world.bags

    def work(index):
        for x in shared:
            z = kernels.saxpy(1.0, x, shared[index % 4])
            tenon.from_dlpack(z)
            bags.Bag(x)(2.0)

    together(work, 4)


@operation(5)
def shared_tensors(world):
    tensor = tenon.shared_zeros((3, 4), "f32")
    other = tenon.attach(tensor.shared_fd if world.random.random() < 0.5 else tensor.shared_name)
    with memoryview(tensor) as memory:
        memory[1, 2] = 7.0
    assert other.tolist()[1][2] == 7.0
    world.keep(other)
    frozen = tenon.share(world.array(5))
    with refused(ValueError, BufferError):
        world.kernels.add_to(frozen, 1.0)
    with refused(FileNotFoundError, OSError, ValueError):
        tenon.attach("/tenon-nobody-has-this-name")


@operation(1)
def forks(world):
    """A child that uses and releases what its parent has."""
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return
    kernels = world.kernels  # which a child would build in the parent's folder
    child = os.fork()
    if child == 0:
        code = 1
        try:
            kernels.copy(world.as_tensor([1.0, 2.0]))
            world.clear()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@operation(1)
def subinterpreters(world):
    try:
        import _interpreters as interpreters
    except ImportError:
        return
    number = interpreters.create()
    folder = os.path.dirname(os.path.dirname(tenon.__file__))
    code = f"import sys; sys.path.insert(0, {folder!r}); import array, tenon\n" \
           f"k = tenon.load({str(world.path('kernels'))!r})\n" \
           "assert memoryview(k.saxpy(2, array.array('f', [1]), array.array('f', [1]))).tolist() == [3.0]\n"
    failure = interpreters.run_string(number, code)
    interpreters.destroy(number)
    assert not failure, failure.formatted


@operation(2)
def garbage(world):
    cycle = [world.array(3)]
    cycle.append(cycle)
    world.keep(tenon.from_dlpack(cycle[0]))
    del cycle
    gc.collect(world.random.randrange(3))


# ---------------------------------------------------------------------------------------------------------------- operators


@operation(8, needs="torch")
def torch_operators(world):
    torch = world.torch
    if world.torch_ops is None:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            world.torch_ops = tenon.torch_ops(world.kernels, name="tenon_soak", backward={"saxpy": saxpy_backward})
    n = world.random.randrange(1, 9)
    x, y = torch.rand(n, requires_grad=world.random.random() < 0.5), torch.rand(n)
    z = world.random.choice([world.torch_ops.saxpy, torch.ops.tenon_soak.saxpy])(2.0, x, y)
    assert torch.allclose(z.detach(), 2 * x.detach() + y)
    if x.requires_grad:
        z.sum().backward()
        assert torch.allclose(x.grad, torch.full((n,), 2.0))
        with refused(RuntimeError):
            world.kernels.saxpy(1.0, x, y)
    world.keep(z)


def saxpy_backward(ctx, grad):
    return None, grad * ctx.arguments["a"], grad


@operation(4, needs="jax")
def jax_operators(world):
    if world.jax_ops is None:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            world.jax_ops = tenon.jax_ops(world.kernels)
        world.jax_step = world.jax.jit(lambda x, y: world.jax_ops.saxpy(2.0, x, y))
    n = world.random.choice([2, 3, 5])  # each size is compiled once, and its program stays
    x, y = world.as_jax(world.floats(n)), world.as_jax(world.floats(n))
    z = world.random.choice([world.jax_step, lambda x, y: world.kernels.saxpy(2.0, x, y)])(x, y)
    assert all(close(2 * a + b, c) for a, b, c in zip(x.tolist(), y.tolist(), z.tolist()))
    world.keep(z)
