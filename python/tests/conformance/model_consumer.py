"""A consumer on top of tenon.from_dlpack that can be told to break a rule."""

import inspect

import tenon
from tenon.conformance import structs
from tenon.conformance.describe import describe
from tenon.conformance.made_producers import Made, MadeArray

kept = []
_HAS_COPY = "copy" in str(inspect.signature(tenon.from_dlpack))


def copy_of(tensor):
    """A tensor of its own with the same elements."""
    found = describe(tensor)
    made = Made(found.shape, found.dtype)
    data = bytearray()
    for element in found.elements:
        data += element.to_bytes(structs.bits_of(found.dtype) // 8, "little")
    made.memory.write(bytes(data))
    return on_memory(made)


def on_memory(made):
    return tenon._native._tensor_on(made.memory.buffer(), made.address - made.memory.start, made.dtype, made.shape, None)


def good(x, /, *, copy=None):
    """Tenon's own, with `copy` even if this version of it has no such argument."""
    if _HAS_COPY:
        return tenon.from_dlpack(x, copy=copy)
    return copy_of(tenon.from_dlpack(x)) if copy else tenon.from_dlpack(x)


def other(x, /, *, copy=None):
    """Takes the array, and returns something else."""
    kept.append(good(x, copy=copy))
    return on_memory(Made((7,), "int8"))


def accepting(x, /, *, copy=None):
    """Takes anything, even what is not an array."""
    try:
        return good(x, copy=copy)
    except Exception:
        return on_memory(Made((7,), "int8"))


def blind(x, /, *, copy=None):
    """Returns something else, whatever it gets."""
    return on_memory(Made((7,), "int8"))


def copying(x, /, *, copy=None):
    return copy_of(good(x))


def sharing(x, /, *, copy=None):
    return good(x)


def leaking(x, /, *, copy=None):
    result = good(x, copy=copy)
    kept.append(result)
    return result


def leaking_source(x, /, *, copy=None):
    kept.append(good(x))
    return copy_of(kept[-1])


def leaking_memory(x, /, *, copy=None):
    """As a copy that is never freed."""
    kept.append(bytearray(b"\1") * (1 << 20))
    return good(x, copy=copy)


def refusing(x, /, *, copy=None):
    raise BufferError("not this one")


def refusing_changed(x, /, *, copy=None):
    """Takes only what is in no way unusual."""
    if x.made.change is not None:
        raise BufferError("not this one")
    return good(x, copy=copy)


def vague(x, /, *, copy=None):
    """Reports everything as a RuntimeError."""
    try:
        return good(x, copy=copy)
    except Exception as error:
        raise RuntimeError(str(error)[:20]) from None


def refusing_own(x, /, *, copy=None):
    if isinstance(x, tenon.Tensor):
        raise BufferError("not a tensor")
    return good(x, copy=copy)


def asking(**keywords):
    """Calls __dlpack__ with these keywords first, and keeps what it gets."""

    def consume(x, /, *, copy=None):
        try:
            kept.append(x.__dlpack__(**keywords))
        except TypeError:
            pass
        return good(x, copy=copy)

    return consume


def looking(x, /, *, copy=None):
    """Uses the capsule's struct without taking it."""
    capsule = x.__dlpack__(max_version=(1, 0))  # a result on the same memory
    kept.append(capsule)
    return tenon._native._tensor_on(x.made.memory.buffer(), x.made.address - x.made.memory.start, "float32", (2, 3), None)


def releasing_twice(x, /, *, copy=None):
    """Calls the deleter at once, and again when the result is gone."""
    capsule = x.__dlpack__(max_version=(1, 0)) if isinstance(x, MadeArray) else x.__dlpack__()
    name = structs.capsule_name(capsule)
    address = structs.capsule_pointer(capsule, name)
    kind = structs.Versioned if name == structs.VERSIONED else structs.Legacy
    structs.DELETER(kind.from_address(address).deleter)(address)
    return good(capsule)
