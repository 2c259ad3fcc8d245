"""What the operations of the soak work with: libraries, arrays of every installed framework, and a pool of objects that live on.

An operation takes what it needs from the pool and puts what it made into it, so that arrays, views, objects and functions of one
operation are the arguments of another, and end in any order."""

import ctypes
import gc
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "functions")]

from building import build, tenon  # noqa: E402
from waiting import together  # noqa: E402, F401

FUNCTIONS = HERE.parent / "functions"
SOURCES = {
    "kernels": "kernels.c",
    "kinds": "kinds.c",
    "lists": "lists.c",
    "callbacks": "callbacks.c",
    "conversions": "conversions.c",
    "batches": "batches.c",
    "overloads": "overloads.c",
    "bags": "classes/bags.c",
    "boxes": "classes/boxes.c",
    "memory": "memory/memory.c",
    "store": "memory/store.c",
    "parallel": "loops/parallel.c",
}
POOL = 200  # objects that are alive at a time, at most
SLOTS = 6  # kept arguments


def optional(name):
    """The module, or None if it is not installed or this run does without it."""
    try:
        return __import__(name)
    except ImportError:
        return None


class World:
    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.numpy, self.torch, self.jax = map(optional, ("numpy", "torch", "jax"))
        self.pool, self.slots = [], []
        self.torch_ops = self.jax_ops = None

    def __getattr__(self, name):
        """A library, which is built when it is first used."""
        if name not in SOURCES:
            raise AttributeError(name)
        setattr(self, name, tenon.load(str(self.path(name))))
        return getattr(self, name)

    @staticmethod
    def path(name):
        return build(FUNCTIONS / SOURCES[name], "-fopenmp")

    def keep(self, obj):
        """Put an object into the pool, where it replaces another one if the pool is full."""
        if len(self.pool) < POOL:
            self.pool.append(obj)
        else:
            self.pool[self.random.randrange(POOL)] = obj
        return obj

    def some(self, type_):
        """An object of the pool, or None."""
        found = [obj for obj in self.pool if isinstance(obj, type_)]
        return self.random.choice(found) if found else None

    def clear(self):
        """End everything that lives on, so that what is alive afterwards was lost."""
        for slot in self.slots:
            self.memory.drop(slot)
        self.pool, self.slots = [], []
        gc.collect()

    def floats(self, *shape):
        """A list of numbers as deep as the shape."""
        if not shape:
            return self.random.randrange(100) / 4
        return [self.floats(*shape[1:]) for _ in range(shape[0])]

    def array(self, *shape, dtype="float32", writable=False):
        """A new array of some framework, contiguous, with random small numbers."""
        values = self.floats(*shape)
        makers = [self.as_tensor]
        makers += [self.as_numpy] * 2 * (self.numpy is not None)
        makers += [self.as_torch] * 2 * (self.torch is not None)
        # JAX compiles programs for each shape, and keeps them.
        few = dtype == "float32" and shape in ((2,), (3,), (5,))
        makers += [self.as_jax] * (self.jax is not None and not writable and few)
        return self.random.choice(makers)(values, dtype)

    def as_numpy(self, values, dtype="float32"):
        return self.numpy.array(values, dtype)

    def as_torch(self, values, dtype="float32"):
        return self.torch.tensor(values, dtype=getattr(self.torch, dtype))

    def as_jax(self, values, dtype="float32"):
        return self.jax.numpy.array(values, dtype)

    def as_tensor(self, values, dtype="float32"):
        if self.numpy:
            return tenon.from_dlpack(self.numpy.array(values, dtype))
        shape = []
        while isinstance(values, list):
            shape.append(len(values))
            values = [item for value in values for item in value] if values and isinstance(values[0], list) else len(values)
        return tenon.shared_zeros(shape, dtype)


def resident():
    """The bytes of this process that are in memory, after the allocator gave back what it could."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:  # musl, macOS
        pass
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096
