"""View operations on packed sub-byte values. The model is an array of element numbers that goes through the same
operations: each element of the result says where in the bits it must be."""

import model
import numpy as np
import tenon_ctypes as T
import test_views
from harness import run_cases

OPERATIONS = ["slice", "select", "permute", "transpose", "reshape", "flatten", "squeeze", "expand_dims",
              "broadcast_to"]


def packed_case(rng):
    name = rng.choice(model.SUBBYTE)
    dt = T.dtype(name)
    padded = rng.random() < 0.2
    item_bits = 8 * dt.lanes if padded else dt.bits * dt.lanes
    numbers = np.arange(4 * 8 * 8).reshape(rng.choice([(4, 8, 8), (4, 64), (256,), (2, 2, 2, 32)]))
    data = np.zeros(numbers.size * item_bits // 8, np.uint8)
    flags = (T.SUBBYTE_PADDED if padded else 0) | rng.choice((0, T.READ_ONLY))
    tensor = T.Tensor.from_blob(model.address(data), numbers.shape, None, dt, flags=flags)
    tensors = [tensor]
    try:
        packed_chain(rng, test_views.State(tensor, numbers, name), tensors, item_bits, flags)
    finally:
        for tensor in tensors:
            tensor.release()


def packed_chain(rng, state, tensors, item_bits, flags):
    base, trail = state.tensor.view.data, f"{state.name}{list(state.array.shape)}"
    for _ in range(rng.randrange(1, 6)):
        operation = rng.choice(OPERATIONS)
        arguments, numpy, statuses = test_views.OPERATIONS[operation](rng, state, None)
        step = f"{trail}.{operation}{arguments}"
        try:
            expected = numpy()
        except (ValueError, IndexError):
            expected = None
        try:
            tensors.append(state.tensor.op(operation, *arguments))
        except T.Error as error:
            inside = expected is not None and expected.size and expected.flat[0] * item_bits % 8
            assert error.status == T.ELAYOUT if inside else expected is None and error.status in statuses, \
                f"{step}: {error}"
            continue
        assert expected is not None, f"{step} succeeds"
        view = tensors[-1].view
        shape, strides = view.dims()
        assert shape == expected.shape, step
        assert view.flags & 7 == flags, step
        if expected.size:
            places = (view.data - base) * 8 + np.array(model.offsets(shape, strides)) * item_bits
            assert (places == expected.reshape(-1) * item_bits).all(), step
        if expected.size > 2000 or expected.ndim > 10:
            break
        state, trail = test_views.State(tensors[-1], expected, state.name), step


def test_packed():
    run_cases(packed_case, 3000)
