"""Who keeps memory alive: counts, the one call of the release function, and tenon_stats_read."""


import numpy as np
import pytest
import tenon_ctypes as T
from harness import run_cases
from model import address


# Operations that always succeed on a tensor of 2 x 3 x 4 complex numbers and on views of it.
STEPS = [lambda t, d: t.op("slice", -1, 0, T.OMIT, 1) if d else t.op("expand_dims", 0),
         lambda t, d: t.op("permute", list(range(d))[::-1]),
         lambda t, d: t.op("expand_dims", 0),
         lambda t, d: t.op("squeeze", T.OMIT),
         lambda t, d: t.op("view_as", t.view.dtype),
         lambda t, d: t.op("broadcast_to", [2] + t.view.shape[:d]),
         lambda t, d: t.op("as_strided", [1], [1], 0)]


def step(rng, alive, flags):
    """One more tensor, view, count or struct, or one less."""
    source = rng.choice(alive)
    kind = rng.random()
    if isinstance(source, T.Tensor) and source.view.ndim < 20 and kind < 0.5:
        alive.append(rng.choice(STEPS)(source, source.view.ndim))
        assert bool(alive[-1].view.flags & T.READ_ONLY) == bool(flags), "read-only is lost"
    elif isinstance(source, T.Tensor) and kind < 0.6:
        alive.append(T.Tensor(T.lib.tenon_tensor_retain(source.handle)))
    elif isinstance(source, T.Tensor) and kind < 0.8:
        legacy = not flags and rng.random() < 0.5
        alive.append((source.export(legacy), legacy, source.handle))
    elif not isinstance(source, T.Tensor) and kind < 0.5:
        # What was exported comes back as the tensor it was made from.
        pointer, legacy, origin = source
        back = T.Tensor.made("tensor_import_legacy" if legacy else "tensor_import", pointer)
        alive[alive.index(source)] = back
        assert back.handle == origin
    elif len(alive) > 1:
        alive.remove(source)
        drop(source)


def release_case(rng):
    """Tensors, views, more counts and DLPack structs on one owner, made and dropped in any order."""
    owner = next(T.owners)
    data = np.zeros((2, 3, 4), np.complex64)
    flags = rng.choice((0, T.READ_ONLY))
    before = T.stats()
    alive = [T.Tensor.from_blob(address(data), data.shape, None, T.dtype("c64"), flags=flags, owner=owner)]
    root = alive[0].handle
    try:
        for _ in range(rng.randrange(2, 14)):
            step(rng, alive, flags)
            assert T.released[owner] == 0, "released while something is alive"
            handles = [thing.handle if isinstance(thing, T.Tensor) else thing[2] for thing in alive]
            now = T.stats()
            assert now[1] - before[1] == sum(isinstance(thing, tuple) for thing in alive), "exports are miscounted"
            # The first tensor lives on behind its views, whether or not its own counts are dropped.
            assert now[0] - before[0] == len({root, *handles}), "tensors are miscounted"
            assert T.lib.tenon_tensor_refcount(root) == handles.count(root) + len({*handles} - {root}), "wrong count"
        rng.shuffle(alive)
        while len(alive) > 1:
            drop(alive.pop())
            assert T.released[owner] == 0, "released too early"
    finally:
        while alive:
            drop(alive.pop())
    assert T.released.pop(owner) == 1, "released more than once, or never"


def drop(thing):
    if isinstance(thing, T.Tensor):
        thing.release()
    else:
        pointer = thing[0]
        pointer.contents.deleter(T.C.cast(pointer, T.C.c_void_p))


def test_releases():
    run_cases(release_case, 1500)


def test_failure_takes_nothing():
    """A tensor that could not be made leaves its owner alone."""
    owner = next(T.owners)
    data = np.zeros(8, np.float32)
    for shape, strides, options in (([9], [1], {"data_size": 32}), ([-1], None, {}), ([2, 1 << 62, 4], None, {}),
                                    ([2], [-1], {"data_size": 32}), ([8], None, {"data_size": 32, "byte_offset": 4}),
                                    ([8], None, {"flags": 8}), ([8], None, {"device": (5, 0)})):
        with pytest.raises(T.Error):
            T.Tensor.from_blob(address(data), shape, strides, T.dtype("f32"), owner=owner, **options)
    with pytest.raises(T.Error):
        T.Tensor.from_blob(None, [8], None, T.dtype("f32"), owner=owner)
    assert T.released[owner] == 0


def test_empty_needs_no_data_and_is_released():
    owner = next(T.owners)
    tensor = T.Tensor.from_blob(None, [0, 3], None, T.dtype("f32"), owner=owner)
    assert tensor.view.numel == 0
    tensor.release()
    assert T.released.pop(owner) == 1


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0, 2), (7, 11)])
def test_alloc(shape):
    before = T.stats()
    tensor = T.Tensor.made("tensor_alloc", T.dtype("f64"), len(shape), T.i64(shape), T.ZEROED)
    view = tensor.view
    assert view.dims()[0] == shape and view.flags & T.VIEW_C
    if view.numel:
        assert T.lib.tenon_view_alignment(view) >= 64
        assert not any(bytes((T.C.c_char * (8 * view.numel)).from_address(view.data)))
        assert T.stats()[2] - before[2] >= 8 * view.numel
    part = tensor.op("expand_dims", 0)
    tensor.release()
    assert T.stats()[0] > before[0]
    part.release()
    assert T.stats() == before
