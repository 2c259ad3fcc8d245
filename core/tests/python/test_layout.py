"""Extent, bytes, alignment, contiguity and overlap against a model that counts every bit."""

import ctypes as C
import itertools
import math

import model
import pytest
import tenon_ctypes as T
from harness import run_cases

TOP = (1 << 63) - 1
WIDTHS = ["u8", "u8", "u16", "i32", "f64", "u8x3", "c128"] + model.SUBBYTE


class Sample:
    """A view of addresses that nobody reads, and its bits."""

    def __init__(self, rng, center=1 << 20, max_ndim=4, max_numel=48):
        self.name = rng.choice(WIDTHS)
        self.flags = T.SUBBYTE_PADDED if self.name in model.SUBBYTE and rng.random() < 0.3 else 0
        dt = T.dtype(self.name)
        self.item_bits = 8 * dt.lanes if self.flags else dt.bits * dt.lanes
        self.shape = model.random_shape(rng, max_ndim, max_numel)
        self.strides = model.random_strides(rng, self.shape)
        self.data = center + rng.randrange(-40, 41)
        self.bits = model.bit_sets(8 * self.data, self.shape, self.strides, self.item_bits)
        self.view = T.view_init(self.data, self.shape, self.strides, dt, flags=self.flags)

    def __repr__(self):
        return (f"{self.name}{list(self.shape)} strides {list(self.strides)} at {self.data:#x}"
                f"{' padded' if self.flags else ''}")


def orders(sample):
    """Whether it is C, F and dense. Dense is F under some order of its dimensions, all of them tried."""
    if not sample.bits:
        return True, True, True
    dims = [(size, stride) for size, stride in zip(sample.shape, sample.strides) if size != 1]

    def packed(dims):
        step = 1
        for size, stride in dims:
            if stride != step:
                return False
            step *= size
        return True
    return packed(dims[::-1]), packed(dims), any(packed(order) for order in itertools.permutations(dims))


def layout_case(rng):
    sample = Sample(rng)
    view = sample.view
    numel = len(sample.bits)
    assert view.numel == numel, sample
    assert view.dims() == (sample.shape, sample.strides), sample
    assert T.lib.tenon_view_item_bits(view) == sample.item_bits, sample
    assert T.lib.tenon_view_nbytes(view) == -(-numel * sample.item_bits // 8), sample
    extent = T.lib.tenon_view_extent(view)
    low, high = model.extent(sample.bits)
    expected = (low - sample.data, high - sample.data) if sample.bits else (0, 0)
    assert (extent.low, extent.high) == expected, sample
    alignment = next(1 << k for k in range(12, -1, -1) if sample.data % (1 << k) == 0)
    assert T.lib.tenon_view_alignment(view) == alignment, sample
    flags = tuple(bool(view.flags & bit) for bit in (T.VIEW_C, T.VIEW_F, T.VIEW_DENSE))
    assert flags == orders(sample), f"{sample}: C, F, dense are {flags}, not {orders(sample)}"
    assert view.flags & 7 == sample.flags
    assert T.lib.tenon_view_self_overlaps(view) == model.self_overlaps(sample.bits), sample
    line = T.text(T.lib.tenon_view_format, view)
    assert line.startswith(sample.name) and str(list(sample.shape)) in line and f"{sample.data:#x}" in line, line


def overlap_case(rng):
    a = Sample(rng, max_ndim=3, max_numel=32)
    b = Sample(rng, max_ndim=3, max_numel=32)
    expected = not model.union(a.bits).isdisjoint(model.union(b.bits))
    assert T.lib.tenon_view_overlaps(a.view, b.view) == expected, f"{a} and {b}"
    assert T.lib.tenon_view_overlaps(b.view, a.view) == expected, f"{b} and {a}"


def interleaved_case(rng):
    """Views cut from one array by different steps, where extents always meet."""
    name = rng.choice(WIDTHS)
    dt = T.dtype(name)
    item_bits = dt.bits * dt.lanes
    step = rng.randrange(2, 5)
    views, bits = [], []
    for _ in range(2):
        shape = (rng.randrange(1, 5), rng.randrange(1, 5))
        strides = [rng.choice((step, step * 3, step * 7, -step)), rng.choice((step, 1, 12, -2))]
        start = rng.randrange(30) if item_bits % 8 == 0 else rng.randrange(30) * 8
        data = (1 << 20) + start * item_bits // 8
        views.append(T.view_init(data, shape, strides, dt))
        bits.append(model.bit_sets(8 * data, shape, strides, item_bits))
    expected = not model.union(bits[0]).isdisjoint(model.union(bits[1]))
    assert T.lib.tenon_view_overlaps(*views) == expected, [(v.data, v.dims(), name) for v in views]
    same = views[0].dims()[0] == views[1].dims()[0] and bits[0] == bits[1]
    assert T.lib.tenon_view_equal(*views) == same, [(v.data, v.dims(), name) for v in views]


def big_number(rng):
    kind = rng.random()
    if kind < 0.5:
        return rng.randrange(6)
    return rng.choice((1 << rng.randrange(63), (1 << rng.randrange(1, 64)) - 1, rng.randrange(TOP)))


def numel_case(rng):
    """Products of any size, with Python's own integers as the judge."""
    shape = [big_number(rng) for _ in range(rng.randrange(6))]
    product = math.prod(max(n, 1) for n in shape)
    out, strides = T.i64([7]), T.i64([7] * 6)
    statuses = []
    for name, arguments in (("shape_numel", (out,)), ("shape_strides", (b"C", strides))):
        try:
            T.call(name, len(shape), T.i64(shape), *arguments)
            statuses.append(T.OK)
        except T.Error as error:
            statuses.append(error.status)
    expected = T.OK if product <= TOP else T.EOVERFLOW
    assert statuses == [expected, expected], f"{shape}: {statuses}"
    assert out[0] == (math.prod(shape) if expected == T.OK else 7)
    if expected == T.OK:
        assert strides[:len(shape)] == [math.prod(max(n, 1) for n in shape[i + 1:]) for i in range(len(shape))]


def huge_view_case(rng):
    """What tenon_view_init lets pass is exact; what is far from every limit passes."""
    shape = [big_number(rng) for _ in range(rng.randrange(5))]
    strides = [big_number(rng) * rng.choice((1, -1)) for _ in shape]
    name = rng.choice(WIDTHS)
    dt = T.dtype(name)
    data = rng.choice((4096, 1 << 46, (1 << 64) - 4096, rng.randrange(1, 1 << 64)))
    item_bits = dt.bits * dt.lanes
    low = sum(min(0, s * (n - 1)) for n, s in zip(shape, strides)) * item_bits // 8
    high = -(-(sum(max(0, s * (n - 1)) for n, s in zip(shape, strides)) + 1) * item_bits // 8)
    empty = 0 in shape
    try:
        view = T.view_init(data, shape, strides, dt)
    except T.Error as error:
        assert error.status in (T.EOVERFLOW, T.EBOUNDS), error
        product = math.prod(max(n, 1) for n in shape) * item_bits
        far = max(product, 0 if empty else high - low) >= 1 << 59
        assert far or not empty and (data + low < 0 or data + high > (1 << 64) - 1), f"{name}{shape} {strides} {error}"
        return
    assert view.numel == math.prod(shape)
    extent = T.lib.tenon_view_extent(view)
    assert (extent.low, extent.high) == ((0, 0) if empty else (low, high)), f"{name}{shape} {strides}"
    assert empty or data + low >= 0 and data + high <= 1 << 64, f"{name}{shape} {strides} at {data:#x}"
    T.lib.tenon_view_overlaps(view, view)
    T.lib.tenon_view_self_overlaps(view)
    T.text(T.lib.tenon_view_format, view)


@pytest.mark.parametrize("case, count", [(layout_case, 4000), (overlap_case, 4000), (interleaved_case, 3000),
                                         (numel_case, 1500), (huge_view_case, 3000)])
def test_layout(case, count):
    run_cases(case, count)


@pytest.mark.parametrize("ndim", [-1, 65, -(1 << 31)])
def test_ndim_outside(ndim):
    source = T.DLTensor(4096, T.Device(T.CPU, 0), ndim, T.dtype("f32"), T.i64([1] * 65), None, 0)
    room = T.i64([77])
    with pytest.raises(T.Error) as caught:
        T.call("view_init", C.byref(T.View()), C.byref(source), 0, room)
    assert caught.value.status == T.ESHAPE
    assert room[0] == 77


def test_devices_apart():
    """Equal addresses overlap only where they can be the same memory."""
    def on(device):
        return T.view_init(4096, [4], None, T.dtype("f32"), device=device)
    assert not T.lib.tenon_view_overlaps(on((T.CUDA, 0)), on((T.CUDA, 1)))
    assert not T.lib.tenon_view_overlaps(on((T.CUDA, 0)), on((T.ROCM, 0)))
    assert T.lib.tenon_view_overlaps(on((T.CUDA, 0)), on((T.CUDA, 0)))
    assert T.lib.tenon_view_overlaps(on((T.CPU, 0)), on((T.CUDA_HOST, 0)))
    assert T.lib.tenon_view_overlaps(on((T.CPU, 0)), on((T.CUDA_MANAGED, 1)))


@pytest.mark.parametrize("shape, sign", [([4, 3, 2], 1), ([4, 2, 3], -1)])
def test_folds_across_all_addresses(shape, sign):
    """Strides whose sum passes 63 bits: elements (0, 1, 1) and (0, 0, 0) are one."""
    far = sign * ((1 << 62) - 1)
    view = T.view_init(1 << 63, shape, [-1, far, -far], T.dtype("u8"), device=(T.CUDA, 0))
    assert T.lib.tenon_view_self_overlaps(view)
