"""tenon.from_dlpack(x, /, *, device=None, copy=None), as the array API standard describes it."""

import gc
import inspect
import weakref

import dlpack
import pytest
from building import tenon

import tenon_probe as probe  # noqa: E402

CPU, CUDA, CUDA_HOST = 1, 2, 3
IS_COPIED = 2


class Array:
    """A producer that records what it was asked for. `copies` says what it does with copy=True."""

    def __init__(self, device_type=CPU, copies="really", shares=True, device_id=0):
        self.device, self.copies, self.shares, self.asked = (device_type, device_id), copies, shares, []
        self.memory = probe.export(probe.new("f32", (4, 2), None, 0, 0, device_type, device_id))

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append({"stream": stream, "dl_device": dl_device, "copy": copy})
        if copy is False and not self.shares:
            raise BufferError("only copies")
        if dl_device not in (None, self.device) and self.copies == "never":
            raise BufferError("cannot move")
        if (copy or dl_device not in (None, self.device) or not self.shares) and self.copies == "really":
            made = probe.new("f32", (4, 2), None, 0, 0, *(dl_device or self.device))
            return probe.export(made).__dlpack__(stream=-1, max_version=max_version)
        return self.memory.__dlpack__(stream=-1, max_version=max_version)


class Old(Array):
    """A producer from before the keywords copy and dl_device."""

    def __dlpack__(self, stream=None):
        return self.memory.__dlpack__(max_version=(1, 0), stream=-1)


class WithoutDevices(Array):
    """A producer from before the keyword dl_device."""

    def __dlpack__(self, *, stream=None, max_version=None, copy=None):
        return super().__dlpack__(stream=stream, max_version=max_version, copy=copy)


def pointer(x):
    return x.memory.data_ptr


def refused(x, words, exception=BufferError, **options):
    with pytest.raises(exception) as caught:
        tenon.from_dlpack(x, **options)
    assert str(caught.value).startswith("tenon.from_dlpack(): argument ") and words in str(caught.value), caught.value


def test_signature():
    assert str(inspect.signature(tenon.from_dlpack)) == "(x, /, *, device=None, copy=None)"
    for arguments, options in (((), {}), ((), {"x": b""}), ((b"", "cpu"), {}), ((b"",), {"stream": 1})):
        with pytest.raises(TypeError):
            tenon.from_dlpack(*arguments, **options)


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", (1, 0)])
def test_memory_is_shared(device, copy):
    buffer = bytearray(8)
    probed = Array()
    assert tenon.from_dlpack(probed, device=device, copy=copy).data_ptr == pointer(probed)
    given = tenon.from_dlpack(buffer, device=device, copy=copy)
    buffer[3] = 7
    assert memoryview(given)[3] == 7 and not given.readonly
    again = tenon.from_dlpack(given[2:], device=device, copy=copy)
    assert again.data_ptr == given.data_ptr + 2


@pytest.mark.parametrize("device", [None, "cpu", (1, 0)])
@pytest.mark.parametrize("copies", ["really", "ignored"])
def test_copy_is_a_copy(device, copies):
    """Whatever the producer does with copy=True."""
    for x in (Array(copies=copies), Old()):
        assert tenon.from_dlpack(x, device=device, copy=True).data_ptr != pointer(x)
    for x in (bytearray(b"abcd"), b"abcd", memoryview(b"abcd")[::-1], tenon.from_dlpack(bytearray(b"abcd"))):
        given = tenon.from_dlpack(x, device=device, copy=True)
        assert given.device == "cpu" and not given.readonly and memoryview(given).tolist() == memoryview(x).tolist()
        memoryview(given)[0] = 0
        assert memoryview(x)[0] != 0


def test_copies_of_frameworks():
    np = pytest.importorskip("numpy")
    array = np.arange(6.0)
    array.flags.writeable = False
    for x in (array, array[::-2], array.reshape(2, 3).T):
        given = tenon.from_dlpack(x, copy=True)
        assert np.array_equal(np.asarray(given), x) and not given.readonly and not np.shares_memory(np.asarray(given), x)


@pytest.mark.parametrize("shares", [True, False])
def test_a_copy_does_not_hold_the_array(shares):
    x = Array(shares=shares)
    given, gone = tenon.from_dlpack(x, copy=True), weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None and given.shape == (4, 2)


def test_the_copied_flag_is_only_for_the_copy():
    """DLPack's flag says that only the consumer has the memory, which is not so after a second export."""
    copied = tenon.from_dlpack(bytearray(8), copy=True)
    assert dlpack.contents(copied.__dlpack__(max_version=(1, 0))).flags == 0
    assert dlpack.contents(copied.__dlpack__(max_version=(1, 0), copy=True)).flags == IS_COPIED
    assert tenon.from_dlpack(copied, copy=False).data_ptr == copied.data_ptr
    wrapped = type("Wrapped", (), {"__dlpack__": lambda self, **options: copied.__dlpack__(**options)})()
    assert tenon.from_dlpack(wrapped, copy=False).data_ptr == copied.data_ptr


def test_copy_false_refuses_a_copy():
    refused(Array(shares=False), "only copies", copy=False)
    liar = type("Liar", (), {"__dlpack__": lambda self, **_: tenon.from_dlpack(b"1").__dlpack__(max_version=(1, 0), copy=True)})()
    refused(liar, "its producer made a copy, and copy=False does not allow it", copy=False)
    assert tenon.from_dlpack(liar).size == 1


@pytest.mark.parametrize("copy", [None, True])
def test_a_producer_that_cannot_share_is_asked_for_a_copy(copy):
    x = Array(shares=False)
    given = tenon.from_dlpack(x, copy=copy)
    assert given.shape == (4, 2) and [call["copy"] for call in x.asked] == [False, copy]
    refused(Array(CUDA, shares=False, copies="never"), "only copies", device="cpu", copy=copy)


@pytest.mark.parametrize("copy", [None, True, False])
def test_a_negated_view_is_not_copied_as_it_is(copy):
    """torch's __dlpack__ exports the memory of such a view, whose numbers are not negated yet."""
    torch = pytest.importorskip("torch")
    x = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    assert x.is_neg()
    refused(x, "resolve_neg()", copy=copy)


def test_another_device():
    x = Array(CUDA)
    given = tenon.from_dlpack(x)
    assert given.device == "cuda:0" and given.data_ptr == pointer(x)
    for device, copy in (("cpu", None), ((1, 0), True)):
        x.asked.clear()
        given = tenon.from_dlpack(x, device=device, copy=copy)
        assert given.device == "cpu" and given.data_ptr != pointer(x)
        assert x.asked[-1] == {"stream": None, "dl_device": (1, 0), "copy": copy}
    refused(x, "the memory is on cuda:0, and copy=False does not allow a copy on another device", device="cpu", copy=False)
    refused(Array(), "the memory is on cpu, and copy=False", device="cuda:0", copy=False)
    assert tenon.from_dlpack(Array(), device="cuda:1").device == "cuda:1"
    refused(Array(CUDA, copies="never"), "cannot move", device="cpu")
    refused(Array(CUDA, copies="ignored"), "was asked for another device, and returned memory on cuda:0", device="cpu")
    refused(bytearray(8), "the memory is on cpu, where Tenon cannot copy it", device="cuda")
    refused(bytearray(8), "the memory is on cpu, where Tenon cannot copy it", device="cpu:1")
    refused(WithoutDevices(CUDA), "unexpected keyword argument 'dl_device'", device="cpu")
    refused(Old(CUDA), "unexpected keyword argument", device="cpu")


def test_copies_on_a_device():
    x = Array(CUDA, device_id=1)
    given = tenon.from_dlpack(x, copy=True)
    assert given.device == "cuda:1" and given.data_ptr != pointer(x)
    assert x.asked[-1] == {"stream": 1, "dl_device": None, "copy": True}
    refused(Array(CUDA, copies="ignored"), "was asked for a copy, and returned the same memory on cuda:0", copy=True)
    refused(tenon.from_dlpack(x), "cannot", copy=True)


def test_memory_that_the_cpu_can_read():
    pinned = Array(CUDA_HOST)
    assert tenon.from_dlpack(pinned).device == "cuda_host:0"
    for copy in (None, False):
        given = tenon.from_dlpack(pinned, device="cpu", copy=copy)
        assert given.device == "cpu" and given.data_ptr == pointer(pinned)
    given = tenon.from_dlpack(pinned, device="cpu", copy=True)
    assert given.device == "cpu" and given.data_ptr != pointer(pinned)


def test_a_capsule_that_is_refused_stays_good():
    x = Array(CUDA)
    capsule = x.memory.__dlpack__(max_version=(1, 0), stream=-1)
    for options in ({"device": "cpu"}, {"device": "cpu", "copy": False}, {"copy": True}, {"device": "cuda:1"}):
        refused(capsule, "the memory of this capsule is on cuda:0", **options)
    assert tenon.from_dlpack(capsule, device="cuda:0", copy=False).data_ptr == pointer(x)
    refused(capsule, "already been consumed", copy=True)
    source = tenon.from_dlpack(bytearray(b"abc"))
    assert memoryview(tenon.from_dlpack(source.__dlpack__(), copy=True)).tolist() == [97, 98, 99]


def test_wrong_arguments():
    refused(b"", "'device': expected the name of a device, such as 'cpu' or 'cuda:0', got 'gpu'", ValueError, device="gpu")
    refused(b"", "'device': expected the name of a device", ValueError, device="cpu\0")
    refused(b"", "'device': expected the name of a device", ValueError, device="\udcff")
    refused(b"", "'device': expected a device of DLPack, got (99, 0)", ValueError, device=(99, 0))
    for device in (0, b"cpu", [1, 0], (1,), (1, 2, 3), ("cpu", 0), (1, 1 << 40), object()):
        refused(b"", "'device': expected None, a str such as 'cpu' or 'cuda:0', or a tuple of two ints", TypeError, device=device)
    for copy in (0, 1, "no", object()):
        refused(b"", "'copy': expected None, True or False, got ", TypeError, copy=copy)
    for copy in (None, True, False):
        refused(7, "int: expected an array", AttributeError, copy=copy)
        refused(7, "int: expected an array", AttributeError, copy=copy, device="cpu")


def test_errors_of_the_producer_pass():
    class Broken(Array):
        def __dlpack__(self, **options):
            if options.get("dl_device"):
                raise KeyboardInterrupt
            return super().__dlpack__(**options)

    with pytest.raises(KeyboardInterrupt):
        tenon.from_dlpack(Broken(CUDA), device="cpu")
