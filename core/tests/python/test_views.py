"""Random chains of view operations, applied to a tensor and to a NumPy array over the same bytes."""


import model
import numpy as np
import tenon_ctypes as T
from harness import run_cases

FAR = (1 << 62) + 1
NAMES = list(model.NUMPY) + list(model.BYTES)


class State:
    """One tensor and the array that it must be the same as."""

    def __init__(self, tensor, array, name):
        self.tensor, self.array, self.name = tensor, array, name


def base_array(rng, buffer_room=64):
    """An array somewhere in a buffer, cut and turned at random."""
    name = rng.choice(NAMES)
    dt = model.numpy_dtype(name)
    shape = model.random_shape(rng)
    start = rng.randrange(buffer_room)
    size = start + int(np.prod(shape)) * dt.itemsize + rng.randrange(buffer_room)
    buffer = ((np.arange(size) * 151 + rng.randrange(251)) % 251).astype(np.uint8)
    array = np.ndarray(shape, dt, buffer=buffer.data, offset=start)
    if shape and rng.random() < 0.5:
        array = array[tuple(slice(index(rng, n), index(rng, n), rng.choice((1, 1, 2, 3, -1, -2))) for n in shape)]
    if rng.random() < 0.3:
        array = array.transpose(rng.sample(range(array.ndim), array.ndim))
    return name, buffer, array


def index(rng, size):
    """A start or stop of a slice: inside, outside, far away, or left out."""
    kind = rng.random()
    if kind < 0.3:
        return None
    if kind < 0.9:
        return rng.randrange(-size - 2, size + 3)
    return rng.choice((FAR, -FAR, (1 << 63) - 1, -(1 << 63) + 1))


def place(rng, ndim):
    """A dimension, sometimes one that is not there."""
    if rng.random() < 0.05:
        return rng.choice((ndim, -ndim - 1, ndim + 1, FAR, -FAR))
    return rng.randrange(-ndim, ndim) if ndim else 0


def axis(dim, ndim):
    if not -ndim <= dim < ndim:
        raise IndexError(f"no dimension {dim}")
    return dim % ndim


def omit(value):
    return T.OMIT if value is None else value


def same_bytes(array, dt, offset=0):
    """The bytes of `array` from `offset` in each element on, as `dt`."""
    if array.size == 0:
        return np.empty(array.shape, dt)
    low = sum(min(0, s * (n - 1)) for n, s in zip(array.shape, array.strides))
    high = sum(max(0, s * (n - 1)) for n, s in zip(array.shape, array.strides)) + array.itemsize
    return np.ndarray(array.shape, dt, buffer=raw(array, low, high).data, offset=offset - low, strides=array.strides)


def raw(array, low, high):
    """The bytes from `low` to `high` around the first element."""
    class Memory:
        __array_interface__ = {"data": (model.address(array) + low, False), "shape": (high - low,), "typestr": "|u1",
                               "version": 3}
        keep = array
    return np.asarray(Memory())


def reshape(array, shape):
    """NumPy's own answer; ValueError where it would copy."""
    if min(shape, default=0) < -1:
        raise ValueError
    try:
        return np.reshape(array, shape, copy=False)
    except TypeError:  # NumPy before 2.1
        result = array.reshape(shape)
        if result.size and not np.shares_memory(result, array):
            raise ValueError("needs a copy") from None
        return result


def factors(rng, numel):
    """A shape with so many elements."""
    shape = []
    while numel > 1 and len(shape) < 5:
        choices = [d for d in range(1, numel + 1) if numel % d == 0]
        shape.append(rng.choice(choices))
        numel //= shape[-1]
    if numel != 1:
        shape.append(numel)
    for _ in range(rng.randrange(3)):
        shape.insert(rng.randrange(len(shape) + 1), 1)
    return shape


# Each operation: a function that chooses arguments for the tensor and says what NumPy does with them, and the
# statuses that it may fail with.

def op_slice(rng, state, bounds):
    a = state.array
    dim = place(rng, a.ndim)
    size = a.shape[dim] if -a.ndim <= dim < a.ndim else 3
    start, stop = index(rng, size), index(rng, size)
    step = rng.choice((1, 1, 1, 2, 3, -1, -1, -2, 0, FAR, -FAR, (1 << 63) - 1, -(1 << 63) + 1))

    def numpy():
        axis(dim, a.ndim)
        cut = [slice(None)] * a.ndim
        cut[dim] = slice(start, stop, step)
        return a[tuple(cut)] if a.ndim else a
    return (dim, omit(start), omit(stop), step), numpy, {T.EBOUNDS, T.EINVAL}


def op_select(rng, state, bounds):
    a = state.array
    dim = place(rng, a.ndim)
    size = a.shape[dim] if -a.ndim <= dim < a.ndim else 3
    at = rng.randrange(-size, size) if size and rng.random() < 0.95 else rng.choice((size, -size - 1, FAR, -FAR))

    def numpy():
        return a[(slice(None),) * axis(dim, a.ndim) + (at, Ellipsis)]
    return (dim, at), numpy, {T.EBOUNDS}


def op_permute(rng, state, bounds):
    a = state.array
    axes = [d - a.ndim if rng.random() < 0.3 else d for d in rng.sample(range(a.ndim), a.ndim)]
    if axes and rng.random() < 0.1:
        axes[rng.randrange(a.ndim)] = rng.choice((0, a.ndim - 1, -1, a.ndim, -a.ndim - 1, -(1 << 31), (1 << 31) - 1))
    return (axes,), lambda: a.transpose(axes), {T.EBOUNDS, T.EINVAL}


def op_transpose(rng, state, bounds):
    a, dims = state.array, (place(rng, state.array.ndim), place(rng, state.array.ndim))
    return dims, lambda: a.swapaxes(*[axis(d, a.ndim) for d in dims]), {T.EBOUNDS}


def op_reshape(rng, state, bounds):
    a = state.array
    if rng.random() < 0.5 and a.ndim:  # mostly merges of neighbours, which strides often allow
        shape, at = list(a.shape), rng.randrange(a.ndim)
        shape[at:at + 2] = [int(np.prod(shape[at:at + 2]))]
        if rng.random() < 0.5:
            shape[at:at + 1] = factors(rng, shape[at]) if shape[at] else [shape[at]]
    else:
        shape = factors(rng, a.size) if a.size else [0, rng.randrange(4)]
    if shape and rng.random() < 0.3:
        shape[rng.randrange(len(shape))] = -1
    if rng.random() < 0.07:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((2, 0, -1, -2)))
    return (shape,), lambda: reshape(a, shape), {T.ESHAPE, T.ELAYOUT}


def op_flatten(rng, state, bounds):
    a = state.array
    return (), lambda: reshape(a, [-1] if a.size else [0]), {T.ELAYOUT}


def op_squeeze(rng, state, bounds):
    a = state.array
    ones = [d for d in range(a.ndim) if a.shape[d] == 1]
    kind = rng.random()
    dim = None if kind < 0.2 else rng.choice(ones) if ones and kind < 0.8 else place(rng, a.ndim)

    def numpy():
        return a.squeeze(None if dim is None else (axis(dim, a.ndim),))
    return (omit(dim),), numpy, {T.EBOUNDS, T.ESHAPE}


def op_expand_dims(rng, state, bounds):
    a = state.array
    dim = rng.randrange(-a.ndim - 1, a.ndim + 1) if rng.random() < 0.95 else place(rng, a.ndim + 1)
    return (dim,), lambda: np.expand_dims(a, axis(dim, a.ndim + 1)), {T.EBOUNDS}


def op_broadcast_to(rng, state, bounds):
    a = state.array
    shape = [rng.choice((0, 1, 2, 3)) if n == 1 and rng.random() < 0.7 else n for n in a.shape]
    shape = [rng.randrange(1, 4) for _ in range(rng.randrange(3))] + shape
    if shape and rng.random() < 0.1:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 5, -1))
    if shape and rng.random() < 0.05:
        del shape[rng.randrange(len(shape))]
    return (shape,), lambda: np.broadcast_to(a, shape), {T.ESHAPE}


def op_as_strided(rng, state, bounds):
    a = state.array
    shape = model.random_shape(rng, 3, 60)
    strides = model.random_strides(rng, shape)
    low, high = (edge - model.address(a) for edge in bounds)
    offset = rng.randrange(low // a.itemsize - 1, max(high, low + 1) // a.itemsize + 2) if rng.random() < 0.7 else 0
    if 0 in shape:
        offset = 0
    places = model.offsets(shape, strides)

    def numpy():
        if places and not (low <= (offset + min(places)) * a.itemsize
                           and (offset + max(places) + 1) * a.itemsize <= high):
            raise IndexError("outside the owner's bytes")
        if not places:
            return np.empty(shape, a.dtype)
        memory = raw(a, low, high)
        return np.ndarray(shape, a.dtype, buffer=memory.data, offset=offset * a.itemsize - low,
                          strides=[s * a.itemsize for s in strides])
    return (shape, strides, offset), numpy, {T.EBOUNDS}


def op_view_as(rng, state, bounds):
    name = rng.choice([n for n in NAMES if model.numpy_dtype(n).itemsize == state.array.itemsize]
                      if rng.random() < 0.9 else NAMES)

    def numpy():
        if model.numpy_dtype(name).itemsize != state.array.itemsize:
            raise ValueError
        return name, same_bytes(state.array, model.numpy_dtype(name))
    return (T.dtype(name),), numpy, {T.EDTYPE}


def part(which):
    def choose(rng, state, bounds):
        def numpy():
            half = model.HALF[state.name]  # KeyError: not complex
            dt = model.numpy_dtype(half)
            return half, same_bytes(state.array, dt, which * dt.itemsize)
        return (), numpy, {T.EDTYPE}
    return choose


OPERATIONS = {
    "slice": op_slice, "select": op_select, "permute": op_permute, "transpose": op_transpose, "reshape": op_reshape,
    "flatten": op_flatten, "squeeze": op_squeeze, "expand_dims": op_expand_dims, "broadcast_to": op_broadcast_to,
    "as_strided": op_as_strided, "view_as": op_view_as, "real": part(0), "imag": part(1),
}
PLAIN = [n for n in OPERATIONS if n not in ("real", "imag")]


def choose_operation(rng, state):
    if state.name in model.HALF and rng.random() < 0.3:
        return rng.choice(("real", "imag"))
    return rng.choice(PLAIN) if rng.random() < 0.97 else "real"


def check(state, bounds, read_only):
    """The tensor is what the array is."""
    view, a = state.tensor.view, state.array
    shape, strides = view.dims()
    assert shape == a.shape
    assert view.numel == a.size
    assert view.byte_offset == 0
    assert view.dtype.key() == T.dtype(state.name).key()
    assert bool(view.flags & T.READ_ONLY) == read_only
    assert bool(view.flags & T.VIEW_C) == a.flags.c_contiguous
    assert bool(view.flags & T.VIEW_F) == a.flags.f_contiguous
    assert T.lib.tenon_view_nbytes(view) == a.nbytes
    if a.size:
        assert view.data == model.address(a)
        for size, ours, numpys in zip(shape, strides, model.element_strides(a)):
            assert size == 1 or ours == numpys
    elif bounds[1] > bounds[0]:
        assert bounds[0] <= view.data <= bounds[1], "an empty view points outside the memory"


def touched(array):
    """The addresses from the first byte to the one after the last."""
    if not array.size:
        return model.address(array), model.address(array)
    low = sum(min(0, s * (n - 1)) for n, s in zip(array.shape, array.strides))
    high = sum(max(0, s * (n - 1)) for n, s in zip(array.shape, array.strides)) + array.itemsize
    return model.address(array) + low, model.address(array) + high


def make(rng, owner):
    """A tensor over a NumPy buffer, and the addresses that its views may use."""
    name, buffer, array = base_array(rng)
    strides = model.element_strides(array)
    flags = rng.choice((0, 0, T.READ_ONLY, T.READ_ONLY | T.IS_COPIED))
    options = {"flags": flags, "owner": owner}
    if rng.random() < 0.5 and (array.size or model.address(buffer) <= model.address(array)):
        bounds = (model.address(buffer), model.address(buffer) + buffer.nbytes)
        data, options["data_size"] = bounds[0], buffer.nbytes
        options["byte_offset"] = model.address(array) - data
        if not array.size and options["byte_offset"] > buffer.nbytes:
            options["byte_offset"] = 0
    else:
        data, bounds = model.address(array), touched(array)
    if array.flags.c_contiguous and rng.random() < 0.5:
        strides = None
    tensor = T.Tensor.from_blob(data, array.shape, strides, T.dtype(name), **options)
    return State(tensor, array, name), bounds, bool(flags & T.READ_ONLY), buffer


def chain_case(rng):
    owner = next(T.owners)
    state, bounds, read_only, buffer = make(rng, owner)
    tensors, trail = [state.tensor], [f"{state.name}{list(state.array.shape)}"]
    try:
        chain(rng, state, bounds, read_only, tensors, trail)
        rng.shuffle(tensors)
        while len(tensors) > 1:
            tensors.pop().release()
            assert T.released[owner] == 0, "released too early"
    except Exception as error:
        raise AssertionError("".join(trail) + f"\n{type(error).__name__}: {error}") from error
    finally:
        while tensors:
            tensors.pop().release()
    assert T.released.pop(owner) == 1, "released more than once, or never"


def chain(rng, state, bounds, read_only, tensors, trail):
    check(state, bounds, read_only)
    for _ in range(rng.randrange(1, 8)):
        name = choose_operation(rng, state)
        if not state.array.size and name == "as_strided" or state.array.ndim > 12:
            continue
        arguments, numpy, statuses = OPERATIONS[name](rng, state, bounds)
        trail.append(f".{name}{tuple(a.key() if isinstance(a, T.Dtype) else a for a in arguments)}")
        try:
            expected = numpy()
        except (ValueError, IndexError, KeyError) as error:
            try:
                state.tensor.op(name, *arguments).release()
            except T.Error as ours:
                assert ours.status in statuses, f"{ours}, where NumPy says: {error}"
            else:
                raise AssertionError(f"succeeds, where NumPy says: {error}") from error
            trail.pop()
            continue
        new_name, array = expected if isinstance(expected, tuple) else (state.name, expected)
        state = State(state.tensor.op(name, *arguments), array, new_name)
        tensors.append(state.tensor)
        assert state.tensor.refcount == 1
        check(state, bounds, read_only)
        assert tensors[0].refcount == len(tensors)
    for way in ("tensor_contiguous", "tensor_copy"):
        dense = T.Tensor.made(way, state.tensor.handle)
        try:
            check_dense(state, dense, way == "tensor_contiguous" and state.array.flags.c_contiguous)
        finally:
            dense.release()


def check_dense(state, dense, itself):
    """It has the same elements without gaps: the tensor itself, or a copy that may be written."""
    assert (dense.handle == state.tensor.handle) == itself
    assert dense.view.flags & T.VIEW_C
    assert itself or dense.view.flags & (T.IS_COPIED | T.READ_ONLY) == T.IS_COPIED
    if state.array.size:
        assert bytes((T.C.c_char * state.array.nbytes).from_address(dense.view.data)) == state.array.tobytes()


def test_chains():
    run_cases(chain_case, 6000)
