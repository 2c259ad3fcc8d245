"""Arrays of each producer, on the CPU unless its name says otherwise."""


def make(producer, count, shape=(2, 3)):
    """`count` arrays of f32."""
    framework, _, device = producer.partition(" on ")
    if framework == "torch":
        import torch
        # A copy is not a view, even if reshape returns one: every view has metadata of autograd.
        return [torch.arange(float(size(shape)), device=device or "cpu").reshape(shape).clone() for _ in range(count)]
    if framework == "jax":
        import jax.numpy
        with jax.default_device(jax.devices(device or "cpu")[0]):
            return [jax.numpy.arange(float(size(shape))).reshape(shape) for _ in range(count)]
    if framework == "tensorflow":
        import tensorflow
        return [tensorflow.reshape(tensorflow.range(float(size(shape))), shape) for _ in range(count)]
    if framework == "cupy":
        import cupy
        return [cupy.arange(size(shape), dtype="float32").reshape(shape) for _ in range(count)]
    import numpy
    arrays = [numpy.arange(size(shape), dtype="float32").reshape(shape) for _ in range(count)]
    if framework == "tensor":
        import tenon
        return [tenon.to(array, "tenon") for array in arrays]
    return arrays


def size(shape):
    total = 1
    for length in shape:
        total *= length
    return total


def memory(array):
    """(address, values) of an array, by a framework that looks at it without a copy."""
    if array.__dlpack_device__()[0] == 1:
        import numpy
        seen = numpy.from_dlpack(array)
        return seen.ctypes.data, seen.tolist()
    import torch
    seen = torch.from_dlpack(array)
    return seen.data_ptr(), seen.tolist()


def pick(operations, operation, producer):
    """A contender's function for an operation on arrays of a producer, or None if it does not claim to have one."""
    found = operations.get(operation)
    if isinstance(found, dict):
        return found.get(producer) or found.get(producer.partition(" on ")[0])
    return found
