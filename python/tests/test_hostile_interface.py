"""__array_interface__, __array_struct__ and __cuda_array_interface__, from objects that are hostile or merely odd."""

import sys

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from hostility import Surprise, refused, taken

READ_ONLY = 1
BIG = ">" if sys.byteorder == "little" else "<"
MEMORY = bytearray(256)
ADDRESS = probe.borrow(MEMORY)["data"]


def having(name, value):
    return lambda: type("Having", (), {name: value})()


def interface(**changes):
    """A maker of objects with an __array_interface__; a field that is Ellipsis is left out."""
    fields = {"version": 3, "shape": (2, 3), "typestr": "<f4" if sys.byteorder == "little" else ">f4",
              "data": (ADDRESS, False), **changes}
    return having("__array_interface__", {key: value for key, value in fields.items() if value is not ...})


def cuda(**changes):
    return having("__cuda_array_interface__", {"version": 3, "shape": (2, 3), "typestr": "<f4", "data": (4096, False),
                                               "strides": None, **changes})


def array_struct(**plan):
    class Having:
        @property
        def __array_struct__(self):
            return hostile.array_struct(**plan)

    return Having


# ------------------------------------------------------------------------------------------------------------- taken


def test_the_plain_interface():
    view = taken(interface())
    assert (view["data"], view["shape"], view["strides"], view["dtype"]) == (ADDRESS, (2, 3), (3, 1), "f32")
    assert not view["flags"] & READ_ONLY


def test_read_only_and_strides():
    assert taken(interface(data=(ADDRESS, True)))["flags"] & READ_ONLY
    refused(interface(data=(ADDRESS, True)), ValueError, "read-only", probe.WRITE)
    assert taken(interface(strides=None))["strides"] == (3, 1)
    assert taken(interface(strides=(4, 8)))["strides"] == (1, 2)
    assert taken(interface(strides=(-12, 0)))["strides"] == (-3, 0)
    assert taken(interface(shape=(1, 3), strides=(5, 4)))["shape"] == (1, 3)


def test_bytes_that_are_made_again():
    """Compressed arrays unpack into new bytes each time: what is written there would be lost."""
    class Compressed:
        def __init__(self, kept=None, forgets=False):
            self.kept, self.asked, self.forgets = kept, 0, forgets

        @property
        def __array_interface__(self):
            self.asked += 1
            if self.forgets and self.asked == 2:
                raise Surprise
            data = self.kept if self.kept is not None else bytearray(24)
            return {"version": 3, "shape": (2, 3), "typestr": "=f4", "data": data}

    assert taken(Compressed)["flags"] & READ_ONLY
    refused(Compressed, ValueError, "read-only", probe.WRITE)
    kept = bytearray(24)
    assert not taken(lambda: Compressed(kept))["flags"] & READ_ONLY
    assert not taken(lambda: Compressed(memoryview(kept)))["flags"] & READ_ONLY  # another view of the same bytes
    assert taken(lambda: Compressed(bytes(24)))["flags"] & READ_ONLY
    empty = interface(shape=(0, 3), data=bytearray(0))
    assert not taken(empty)["flags"] & READ_ONLY  # there is nothing to lose
    assert taken(lambda: Compressed(kept, forgets=True))["flags"] & READ_ONLY  # it has a mind of its own


@pytest.mark.parametrize("typestr,dtype", [
    ("|b1", "bool"), ("|i1", "i8"), ("|u1", "u8"), ("=i2", "i16"), ("=u4", "u32"), ("=i8", "i64"), ("=f2", "f16"),
    ("=f8", "f64"), ("=c8", "c64"), ("=c16", "c128"), (BIG + "u1", "u8"),
])
def test_typestr(typestr, dtype):
    assert taken(interface(typestr=typestr, shape=(2,)))["dtype"] == dtype


def test_data_in_a_buffer():
    memory = bytearray(64)
    address = probe.borrow(memory)["data"]
    assert taken(interface(data=memory))["data"] == address
    assert taken(interface(data=memory, offset=40))["data"] == address + 40
    assert taken(interface(data=bytes(64)))["flags"] & READ_ONLY
    handle = probe.import_(interface(data=memory)())
    with pytest.raises(BufferError):
        memory.clear()  # it is held
    del handle
    memory.clear()


def test_extra_fields_are_harmless():
    taken(interface(descr=[("", "<f4")], mask=None, version=4, colour="blue"))


def test_the_array_struct():
    view = taken(array_struct(shape=(2, 3), strides=(4, 8)))
    assert (view["shape"], view["strides"], view["dtype"]) == ((2, 3), (1, 2), "f32")
    assert not view["flags"] & READ_ONLY
    assert taken(array_struct(array_flags=0x300))["flags"] & READ_ONLY
    assert taken(array_struct(shape=(2, 3)))["strides"] == (3, 1)
    assert taken(array_struct(shape=None, ndim=0))["numel"] == 1
    assert taken(array_struct(shape=(1,) * 64))["shape"] == (1,) * 64


# ------------------------------------------------------------------------------------------------------ wrong fields

WRONG = {
    "no shape": (TypeError, "the 'shape' of its array interface is missing", {"shape": ...}),
    "shape of none": (TypeError, "interface must be a tuple of at most 64 integers", {"shape": None}),
    "shape as a list": (TypeError, "'shape'", {"shape": [2, 3]}),
    "65 dimensions": (TypeError, "'shape'", {"shape": (1,) * 65}),
    "negative size": (BufferError, "", {"shape": (2, -3)}),
    "text in the shape": (TypeError, "expected a whole number, got <class 'str'>", {"shape": ("2", 3)}),
    "huge size": (BufferError, "expected a number of 64 bits, got a larger one", {"shape": (2**70,)}),
    "overflow": (BufferError, "", {"shape": (2**62, 2**62)}),
    "no typestr": (TypeError, "'typestr'", {"typestr": ...}),
    "typestr as bytes": (TypeError, "'typestr'", {"typestr": b"<f4"}),
    "empty typestr": (TypeError, "'typestr'", {"typestr": ""}),
    "swapped": (TypeError, "swapped", {"typestr": BIG + "f4"}),
    "unknown order": (TypeError, "dtype", {"typestr": "?f4"}),
    "rubbish behind": (TypeError, "dtype", {"typestr": "=f4!"}),
    "no size": (TypeError, "dtype", {"typestr": "=fx"}),
    "odd size": (TypeError, "dtype", {"typestr": "=f3"}),
    "huge typestr": (TypeError, "dtype", {"typestr": "=f" + "9" * 300}),
    "long double": (TypeError, "dtype", {"typestr": "=f16"}),
    "dates": (TypeError, "dtype", {"typestr": "=M8[ns]"}),
    "structured": (TypeError, "dtype", {"typestr": "|V8", "descr": [("a", "<f4"), ("b", "<f4")]}),
    "objects": (TypeError, "dtype", {"typestr": "|O"}),
    "text": (TypeError, "dtype", {"typestr": "=U4"}),
    "surrogates": (TypeError, "", {"typestr": "=f4\udc80"}),
    "too few strides": (ValueError, "strides", {"strides": (4,)}),
    "strides as a list": (TypeError, "'strides'", {"strides": [12, 4]}),
    "odd strides": (ValueError, "multiples", {"strides": (13, 4)}),
    "huge stride": (BufferError, "expected a number of 64 bits", {"strides": (2**70, 4)}),
    "stride overflow": (BufferError, "", {"strides": (2**63 - 4, 4)}),
    "mask": (ValueError, "mask", {"mask": bytearray(6)}),
    "no memory": (BufferError, "", {"data": (0, False)}),
    "address as text": (TypeError, "expected an address first, got <class 'str'>", {"data": ("0x1000", False)}),
    "huge address": (BufferError, "expected an address, got a number", {"data": (2**70, False)}),
    "data as a number": (TypeError, "or an object with a buffer, got <class 'int'>", {"data": 4096}),
    "no data at all": (TypeError, "expected a pair", {"data": ...}),
    "data of none": (TypeError, "expected a pair", {"data": None}),
    "triple": (TypeError, "or an object with a buffer, got <class 'tuple'>", {"data": (ADDRESS, False, 0)}),
    "a buffer too small": (BufferError, "outside", {"data": bytearray(23)}),
    "strides beyond a buffer": (BufferError, "outside", {"data": bytearray(24), "strides": (16, 4)}),
    "strides before a buffer": (BufferError, "outside", {"data": bytearray(24), "strides": (-12, 4)}),
    "offset beyond a buffer": (BufferError, "outside", {"data": bytearray(24), "offset": 4}),
    "negative offset": (BufferError, "outside", {"data": bytearray(64), "offset": -4}),
    "huge offset": (BufferError, "outside", {"data": bytearray(64), "offset": 2**63 - 8}),
    "offset of many bits": (BufferError, "expected a number of 64 bits", {"data": bytearray(64), "offset": 2**70}),
    "offset as text": (TypeError, "expected a whole number", {"data": bytearray(64), "offset": "4"}),
    "strided buffer": (BufferError, "", {"data": memoryview(bytearray(128))[::2]}),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_field(field):
    error, text, changes = WRONG[field]
    refused(interface(**changes), error, text)


def test_an_empty_array_needs_no_memory():
    assert taken(interface(shape=(0, 3), data=(0, False)))["numel"] == 0
    assert taken(interface(shape=(0, 3), data=b""))["numel"] == 0


WRONG_STRUCT = {
    "no two": (TypeError, {"two": 3}),
    "negative ndim": (TypeError, {"ndim": -1}),
    "65 dimensions": (TypeError, {"shape": (1,) * 65}),
    "no shape": (BufferError, {"shape": None, "ndim": 1}),
    "negative size": (BufferError, {"shape": (-1,)}),
    "memory": (BufferError, {"data": 0}),
    "kind": (TypeError, {"typekind": ord("V")}),
    "kind of 0": (TypeError, {"typekind": 0}),
    "kind beyond ASCII": (TypeError, {"typekind": 0xE9}),
    "item size": (TypeError, {"itemsize": 3}),
    "no item size": (TypeError, {"itemsize": 0}),
    "negative item size": (TypeError, {"itemsize": -(2**31)}),
    "huge item size": (TypeError, {"itemsize": 2**31 - 1}),
    "swapped": (TypeError, {"array_flags": 0x500}),
    "odd strides": (ValueError, {"strides": (5,)}),
    "stride overflow": (BufferError, {"shape": (3, 3), "strides": (2**63 - 4, 4)}),
}


@pytest.mark.parametrize("field", WRONG_STRUCT)
def test_a_wrong_field_of_the_struct(field):
    error, plan = WRONG_STRUCT[field]
    refused(array_struct(**plan), error)


def test_dtypes_of_numpy_in_the_struct():
    """The typestr is the one that NumPy gives; bytes are swapped only if the dtype has an order."""
    numpy = pytest.importorskip("numpy")
    swapped = numpy.dtype("f4").newbyteorder()
    for dtype in ("i4,f4", [("a", swapped)], "U2", "S3", "M8[s]", "V5"):
        given = having("__array_struct__", property(lambda self, dtype=dtype: numpy.zeros(2, dtype).__array_struct__))
        typestr = numpy.zeros(2, dtype).__array_interface__["typestr"].split("[")[0]
        advice = "; pass one field of a structured array" if typestr[1] == "V" else ""
        refused(given, TypeError, f"'{typestr}' has no DLPack dtype{advice}")
    given = having("__array_struct__", property(lambda self: numpy.zeros(2, swapped).__array_struct__))
    refused(given, TypeError, f"its bytes are swapped ('{BIG}f4')")


@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__", "__cuda_array_interface__"])
@pytest.mark.parametrize("value", [None, 3, "text", [], (), object()])
def test_the_wrong_kind_of_attribute(name, value):
    kind = "capsule" if name == "__array_struct__" else "dict"
    wrong = f"its {name} must be a {kind}, got {type(value).__name__}"
    refused(having(name, value), TypeError, "expected an array" if value is None else wrong)


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
def test_an_empty_dict(name):
    refused(having(name, {}), TypeError, "'shape'")


# ---------------------------------------------------------------------------------------------------------- attacks


@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__", "__cuda_array_interface__"])
@pytest.mark.parametrize("kind", [Surprise, KeyboardInterrupt, TypeError, MemoryError])
def test_an_attribute_that_raises_is_unchanged(name, kind):
    def fail(self):
        raise kind("on the way")

    refused(having(name, property(fail)), kind, "on the way")


def test_an_attribute_error_means_the_next_way():
    def fail(self):
        raise AttributeError("not here")

    refused(having("__array_interface__", property(fail)), TypeError, "expected an array")


@pytest.mark.parametrize("field", ["shape", "strides"])
def test_a_number_that_takes_the_dict_apart(field):
    fields = {"shape": (2, 3), "typestr": "=f4", "strides": (12, 4), "data": (ADDRESS, False)}

    class Index:
        def __index__(self):
            fields.clear()
            return 2 if field == "shape" else 12

    def make():
        fields.update(shape=(2, 3), typestr="=f4", strides=(12, 4), data=(ADDRESS, False))
        fields[field] = (Index(),) + fields[field][1:]
        return type("Moving", (), {"__array_interface__": property(lambda self: fields)})()

    view = taken(make)
    assert (view["shape"], view["strides"], view["data"]) == ((2, 3), (3, 1), ADDRESS)


def test_a_number_that_raises():
    class Index:
        def __index__(self):
            raise Surprise("no number")

    class Truth:
        def __bool__(self):
            raise Surprise("no truth")

    refused(interface(shape=(Index(), 3)), Surprise, "no number")
    refused(interface(strides=(Index(), 4)), Surprise, "no number")
    refused(interface(data=(ADDRESS, Truth())), Surprise, "no truth")


def test_a_class_instead_of_an_object():
    refused(lambda: type("Class", (), {"__array_interface__": property(lambda self: {})}), TypeError)


# ------------------------------------------------------------------------------------------------------------- CUDA

ANY = probe.ANY_DEVICE


def test_cuda_versions_and_streams():
    for changes in ({"version": 2}, {}, {"stream": None}, {"stream": 1}):
        view = taken(cuda(**changes), ANY)
        assert (view["data"], view["device"], view["shape"]) == (4096, (2, 0), (2, 3))
    refused(cuda(stream=0), BufferError, "ambiguous", ANY)
    refused(cuda(stream=77), BufferError, "stream 77", ANY)
    refused(cuda(stream="1"), TypeError, "expected a whole number, got <class 'str'>", ANY)
    refused(cuda(stream=2**70), BufferError, "expected a number of 64 bits", ANY)
    assert probe.borrow(cuda(stream=77)(), ANY, 77)["data"] == 4096
    assert probe.borrow(cuda(stream=77)(), ANY, -1)["data"] == 4096


def test_cuda_is_not_the_cpus():
    refused(cuda(), ValueError, "cuda")
    refused(cuda(mask=cuda()()), ValueError, "mask", ANY)
    refused(cuda(data=(0, False)), BufferError, "", ANY)
    assert taken(cuda(data=(4096, True)), ANY)["flags"] & READ_ONLY
    assert taken(cuda(shape=(0,), data=(0, False)), ANY)["numel"] == 0


def test_cuda_memory_is_no_buffer_of_the_cpus():
    refused(cuda(data=bytearray(64)), TypeError, "", ANY)
