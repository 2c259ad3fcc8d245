"""An independent model of memory: which bits each element of a view takes, counted one by one."""

import itertools

import numpy as np

# Tenon's name -> the NumPy dtype with the same bytes.
NUMPY = {
    "bool": "?", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8",
    "f16": "f2", "f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16",
}
# Dtypes that NumPy lacks, as plain bytes.
BYTES = {
    "bf16": "u2", "f8_e4m3fn": "u1", "c32": "V4", "i128": "V16", "f128": "V16", "f32x4": "V16",
    "u8x3": "V3", "opaque32": "V4", "f64x2": "V16", "i4x2": "u1",
}
SUBBYTE = ["i1", "u2", "i4", "u4", "f4_e2m1fn", "f6_e2m3fn", "f6_e3m2fn", "u1x3", "i4x3"]
HALF = {"c32": "f16", "c64": "f32", "c128": "f64"}


def numpy_dtype(name):
    return np.dtype(NUMPY.get(name) or BYTES[name])


def address(array):
    return array.__array_interface__["data"][0]


def offsets(shape, strides):
    """The place of every element, in elements, in C order."""
    return [sum(i * s for i, s in zip(index, strides)) for index in itertools.product(*map(range, shape))]


def bit_sets(first_bit, shape, strides, item_bits):
    """The bits of each element: a list of ranges."""
    return [range(first_bit + o * item_bits, first_bit + (o + 1) * item_bits) for o in offsets(shape, strides)]


def union(ranges):
    return set(itertools.chain.from_iterable(ranges))


def self_overlaps(ranges):
    return len(union(ranges)) < sum(map(len, ranges))


def extent(ranges):
    """The lowest byte and the one after the highest."""
    if not ranges:
        return 0, 0
    return min(r.start for r in ranges) // 8, -(-max(r.stop for r in ranges) // 8)


def bit_index(shape, strides, first_bit, item_bits):
    """bit_sets as one NumPy array of numel x item_bits, for memory that is really read."""
    place = np.zeros((), np.int64)
    for size, stride in zip(shape, strides):
        place = place[..., None] + np.arange(size, dtype=np.int64) * stride
    return first_bit + place.reshape(-1, 1) * item_bits + np.arange(item_bits)


def element_strides(array):
    return tuple(s // array.itemsize for s in array.strides)


def random_shape(rng, max_ndim=6, max_numel=600):
    while True:
        shape = tuple(rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5)) if rng.random() < 0.9 else rng.randrange(8)
                      for _ in range(rng.randrange(max_ndim + 1)))
        if 0 in shape and rng.random() < 0.6:
            shape = tuple(max(size, 1) for size in shape)
        if np.prod(shape, dtype=object) <= max_numel:
            return shape


def random_strides(rng, shape, overlapping=True):
    """Strides of any sign over memory with gaps; with zeros and folds where `overlapping`."""
    if overlapping and rng.random() < 0.4:
        return tuple(rng.randrange(-6, 7) for _ in shape)
    strides, step = [0] * len(shape), rng.choice((1, 1, 1, 2, 3))
    order = list(range(len(shape)))
    if rng.random() < 0.6:
        rng.shuffle(order)
    else:
        order.reverse()
    for dim in order:
        strides[dim] = -step if rng.random() < 0.25 else step
        step = step * max(shape[dim], 1) + (rng.randrange(3) if rng.random() < 0.3 else 0)
        if overlapping and rng.random() < 0.1:
            strides[dim] = 0
    return tuple(strides)
