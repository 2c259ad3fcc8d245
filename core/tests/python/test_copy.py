"""tenon_copy between random layouts, compared bit by bit with a model; what lies between the elements stays."""

import model
import numpy as np
import pytest
import tenon_ctypes as T
from harness import run_cases

NAMES = ["u8", "i8", "bool", "bf16", "i16", "f32", "u32", "f64", "c64", "c128", "u8x3", "f32x3"]


class Side:
    """A layout somewhere in a buffer of its own, or in one given."""

    def __init__(self, rng, name, shape, strides, flags, buffer=None):
        dt = T.dtype(name)
        self.item_bits = 8 * dt.lanes if flags & T.SUBBYTE_PADDED else dt.bits * dt.lanes
        index = model.bit_index(shape, strides, 0, self.item_bits)
        low, high = (int(index.min()) // 8, int(index.max()) // 8 + 1) if index.size else (0, 0)
        before = rng.randrange(20) if rng.random() < 0.8 else 0
        if buffer is None:
            self.buffer = np.frombuffer(bytearray(rng.randbytes(before + high - low + rng.randrange(20))), np.uint8)
        else:
            self.buffer = buffer
            before = rng.randrange(max(len(buffer) - (high - low), 0) + 1)
            if before + high - low > len(buffer):
                raise OverflowError
        self.first = before - low
        self.bits = index + 8 * self.first
        self.view = T.view_init(model.address(self.buffer) + self.first, shape, strides, dt, flags=flags)
        self.strides = strides

    def unpacked(self):
        return np.unpackbits(self.buffer, bitorder="little")


def copied(dst, src):
    """The destination's buffer after the copy, by the model."""
    bits = dst.unpacked()
    bits[dst.bits] = src.unpacked()[src.bits]
    return np.packbits(bits, bitorder="little")


def names(rng):
    """A dtype, and the flags of a destination and a source."""
    if rng.random() < 0.25:
        flags = T.SUBBYTE_PADDED if rng.random() < 0.2 else 0
        return rng.choice(model.SUBBYTE), flags
    return rng.choice(NAMES), 0


def shape_of(rng):
    if rng.random() < 0.85:
        return model.random_shape(rng)
    # Large enough for blocks and their remainders.
    return rng.choice([(rng.randrange(1, 90), rng.randrange(1, 90)), (rng.randrange(300, 900),),
                       (rng.randrange(1, 5), rng.randrange(1, 40), rng.randrange(1, 40)),
                       (2, rng.randrange(1, 9), rng.randrange(1, 20), rng.randrange(1, 20))])


def copy_case(rng):
    name, flags = names(rng)
    shape = shape_of(rng)
    dst = Side(rng, name, shape, model.random_strides(rng, shape, overlapping=False), flags)
    src = Side(rng, name, shape, model.random_strides(rng, shape), flags | rng.choice((0, T.READ_ONLY)))
    label = f"{name}{list(shape)} {list(dst.strides)} +{dst.first} from {list(src.strides)} +{src.first} flags {flags}"
    expected, source = copied(dst, src), src.buffer.copy()
    try:
        T.call("copy", dst.view, src.view)
    except T.Error as error:
        raise AssertionError(f"{label}: {error}") from error
    wrong = np.flatnonzero(dst.buffer != expected)
    assert not wrong.size, f"{label}: bytes {wrong[:8]} of the destination's {len(expected)} differ"
    assert (src.buffer == source).all(), f"{label}: the source has changed"


def shared_case(rng):
    """Both in one buffer: refused exactly where some bit is in both, and nothing is written then."""
    name, flags = names(rng)
    shape = model.random_shape(rng, 3, 40)
    buffer = np.frombuffer(bytearray(rng.randbytes(rng.choice((60, 200, 600)))), np.uint8)
    try:
        dst = Side(rng, name, shape, model.random_strides(rng, shape), flags, buffer)
        src = Side(rng, name, shape, model.random_strides(rng, shape), flags, buffer)
    except OverflowError:  # does not fit
        return
    label = f"{name}{list(shape)} {list(dst.strides)} +{dst.first} from {list(src.strides)} +{src.first} flags {flags}"
    before = buffer.copy()
    folds = np.unique(dst.bits).size < dst.bits.size
    meets = np.intersect1d(dst.bits, src.bits).size > 0
    expected = copied(dst, src) if not (folds or meets) else before
    try:
        T.call("copy", dst.view, src.view)
        status = T.OK
    except T.Error as error:
        status = error.status
    assert (buffer == expected).all(), label
    if np.array_equal(dst.bits, src.bits) and dst.bits.size:
        assert status == T.OK or folds, label
    else:
        assert status == (T.EOVERLAP if folds or meets else T.OK), f"{label}: status {status}"


def big_strides(rng, shape):
    """Dimensions in any order and direction; rows often start where cache lines do."""
    strides, step = [0] * len(shape), rng.choice((1, 1, 1, 1, 2))
    order = rng.sample(range(len(shape)), len(shape))
    for dim in order:
        strides[dim] = -step if rng.random() < 0.15 else step
        step *= shape[dim]
        if dim == order[0] and rng.random() < 0.5:
            step += -step % 64 if rng.random() < 0.7 else rng.randrange(9)
    return strides


def big_side(rng, name, shape, strides):
    """A view and NumPy's array over the same bytes, with room around it."""
    dt = model.numpy_dtype(name)
    low = sum(min(0, s * (n - 1)) for n, s in zip(shape, strides)) * dt.itemsize
    high = (sum(max(0, s * (n - 1)) for n, s in zip(shape, strides)) + 1) * dt.itemsize
    before = rng.choice((0, 64, rng.randrange(64)))
    buffer = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 256, before + high - low + 70, np.uint8)
    array = np.ndarray(shape, dt, buffer.data, before - low, [s * dt.itemsize for s in strides])
    return buffer, array, T.view_init(model.address(array), shape, strides, T.dtype(name))


def big_case(rng):
    """Sizes for which copies go by tiles; one in forty is too large for the caches. NumPy is the judge."""
    name = rng.choice(("u8", "u8", "u16", "f32", "f32", "f64", "c128", "u8x3"))
    item = model.numpy_dtype(name).itemsize
    total = (rng.choice((1 << 16, 1 << 18)) if rng.random() < 0.975 else 9 << 20) // item
    first = rng.choice((3, 16, rng.randrange(1, 200), rng.randrange(100, 1000)))
    shape = [first, max(total // first, 1)]
    if rng.random() < 0.4:
        middle = rng.randrange(2, 9)
        shape = [first, middle, max(total // first // middle, 1)]
    rng.shuffle(shape)
    source_strides = big_strides(rng, shape)
    if rng.random() < 0.15:
        source_strides[rng.randrange(len(shape))] = 0
    target_strides = source_strides if rng.random() < 0.1 and 0 not in source_strides else big_strides(rng, shape)
    target, array, dst = big_side(rng, name, shape, target_strides)
    _, values, src = big_side(rng, name, shape, source_strides)
    before = target.copy()
    T.call("copy", dst, src)
    ours = target.copy()
    target[:] = before
    np.copyto(array, values)
    wrong = np.flatnonzero(ours != target)
    assert not wrong.size, f"{name}{shape} {target_strides} from {source_strides}: byte {wrong[0]} of {len(ours)}"


@pytest.mark.parametrize("case, count", [(copy_case, 4000), (shared_case, 3000), (big_case, 600)])
def test_copy(case, count):
    run_cases(case, count)


@pytest.mark.parametrize("shape, strides", [([9 << 20], [1]), ([3 << 20, 3], [1, 3 << 20]), ([9 << 20], [-1])])
@pytest.mark.parametrize("at", [0, 5])
def test_larger_than_the_caches(shape, strides, at):
    """Into memory without gaps, which has ways of its own."""
    target = np.full((9 << 20) + 64, 7, np.uint8)
    values = (np.arange(9 << 20, dtype=np.uint32) * 2654435761 >> 24).astype(np.uint8)
    start = 0 if min(strides) > 0 else values.size - 1
    T.call("copy", T.view_init(model.address(target) + at, shape, None, T.dtype("u8")),
           T.view_init(model.address(values) + start, shape, strides, T.dtype("u8")))
    expected = np.full_like(target, 7)
    expected[at:at + values.size] = np.lib.stride_tricks.as_strided(values[start:], shape, strides).reshape(-1)
    assert (target == expected).all()


def refused(status, dst, src):
    with pytest.raises(T.Error) as caught:
        T.call("copy", dst, src)
    assert caught.value.status == status


def test_refusals():
    data = np.zeros(64, np.uint8)

    def view(shape, name="u8", at=0, **options):
        return T.view_init(model.address(data) + at, shape, None, T.dtype(name), **options)
    refused(T.EDTYPE, view([4]), view([4], "u8x2", 8))
    refused(T.ESHAPE, view([4]), view([5], at=8))
    refused(T.ESHAPE, view([4]), view([4, 1], at=8))
    refused(T.ESHAPE, view([0]), view([0, 2], at=8))
    refused(T.EREADONLY, view([4], flags=T.READ_ONLY), view([4], at=8))
    refused(T.EDEVICE, view([4], device=(T.CUDA, 0)), view([4], at=8))
    refused(T.EDEVICE, view([4]), view([4], at=8, device=(T.CUDA, 0)))
    refused(T.EINVAL, None, view([4]))
    refused(T.EINVAL, view([4]), None)
    assert not data.any()
