"""tenon.shared_zeros, share and attach: tensors in memory that several processes share. In one process; see
test_shared_processes.py for several."""

import copy
import ctypes
import errno
import fcntl
import gc
import os
import pickle
import socket
import struct
import sys
import warnings

import numpy
import pytest
from building import tenon
from dlpack import contents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared tensors need Linux")

SEALED = 2 | 4  # F_SEAL_SHRINK, F_SEAL_GROW
HEADER = 4096


def counts():
    """The numbers of descriptors and of mappings of shared tensors in this process."""
    gc.collect()
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        return len(os.listdir("/proc/self/fd")), sum("memfd:tenon" in line for line in maps)


@pytest.fixture(autouse=True)
def nothing_open():
    before = counts()
    yield
    assert counts() == before


def filled(*shape, dtype="f32"):
    tensor = tenon.shared_zeros(shape, dtype)
    array = numpy.asarray(tensor)
    array[...] = numpy.arange(array.size).reshape(array.shape)
    return tensor


# ------------------------------------------------------------------------------------------------------ create, attach


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4), (1,) * 64])
@pytest.mark.parametrize("dtype", ["f32", "float64", "bool", "c64", "bf16", "i8", numpy.float32, numpy.dtype("u2")])
def test_zeros(shape, dtype):
    tensor = tenon.shared_zeros(shape, dtype)
    assert tensor.shape == shape and not tensor.readonly and tensor.shared_name.startswith("tenon-shared:1:")
    assert tensor.dtype == tenon.shared_zeros((), dtype).dtype
    again = tenon.attach(tensor.shared_name)
    assert again.shape == shape and again.dtype == tensor.dtype and not again.readonly
    if tensor.size:
        assert not any(ctypes.string_at(tensor.data_ptr, tensor.nbytes)) and again.data_ptr != tensor.data_ptr


def test_dtypes_of_torch():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int8):
        tensor = tenon.shared_zeros(3, dtype)
        assert torch.from_dlpack(tensor).dtype == dtype


def test_dtypes_of_jax():
    numbers = pytest.importorskip("jax.numpy")
    for dtype in (numbers.float32, numbers.bfloat16, numbers.bool_, numbers.int8, numpy.dtype(numbers.int8)):
        assert tenon.shared_zeros(3, dtype).dtype == numpy.dtype(dtype).name


def test_integers_of_numpy():
    tensor = tenon.shared_zeros((numpy.int64(2), numpy.int8(3)), "f32")
    assert tensor.shape == (2, 3) and tenon.shared_zeros(numpy.uint16(4), "f32").shape == (4,)
    assert tenon.attach(numpy.int64(tensor.shared_fd)).shape == (2, 3)


def test_both_are_the_same_memory():
    tensor = filled(2, 3)
    for again in (tenon.attach(tensor.shared_name), tenon.attach(tensor.shared_fd)):
        numpy.asarray(again)[1, 2] = 77
        assert numpy.asarray(tensor)[1, 2] == 77
        numpy.asarray(tensor)[1, 2] = 5
        assert numpy.asarray(again)[1, 2] == 5
        again_by_its_name = tenon.attach(again.shared_name)
        assert again.shared_name.split(":")[-1] == tensor.shared_name.split(":")[-1]
        assert numpy.asarray(again_by_its_name)[1, 2] == 5


def test_what_attached_outlives_the_tensor():
    tensor = filled(4)
    again, name = tenon.attach(tensor.shared_name), tensor.shared_name
    del tensor
    assert numpy.asarray(again).tolist() == [0, 1, 2, 3]
    with pytest.raises(FileNotFoundError):
        tenon.attach(name)


def test_the_descriptor_remains_the_callers():
    tensor = filled(4)
    own = os.dup(tensor.shared_fd)
    again = tenon.attach(own)
    os.close(own)
    assert numpy.asarray(again).tolist() == [0, 1, 2, 3]
    reader = os.open(f"/proc/self/fd/{tensor.shared_fd}", os.O_RDONLY)
    assert tenon.attach(reader).readonly
    os.close(reader)


def test_the_descriptor():
    tensor = filled(2, 3)
    assert tensor.shared_fd == int(tensor.shared_name.split(":")[3])
    assert tenon.attach(tensor.shared_fd).shared_fd != tensor.shared_fd
    assert tensor[0].shared_fd is None and tenon.from_dlpack(numpy.ones(3)).shared_fd is None
    with pytest.raises(AttributeError):
        tensor.shared_fd = 3


def test_the_descriptor_over_a_socket():
    tensor = filled(2, 3)
    here, there = socket.socketpair()
    with here, there:
        socket.send_fds(here, [b"."], [tensor.shared_fd])
        _, (fd,), _, _ = socket.recv_fds(there, 1, 1)
    again = tenon.attach(fd)
    os.close(fd)
    numpy.asarray(again)[0, 0] = 7
    assert numpy.asarray(tensor)[0, 0] == 7


def test_share_copies_once_and_freezes():
    array = numpy.arange(6.0).reshape(2, 3).T
    tensor = tenon.share(array)
    assert tensor.readonly and numpy.array_equal(numpy.asarray(tensor), array)
    assert not numpy.asarray(tensor).flags.writeable
    array[0, 0] = 9
    assert numpy.asarray(tensor)[0, 0] == 0
    assert tenon.attach(tensor.shared_name).readonly
    assert tenon.share(tensor).shared_name != tensor.shared_name
    for framework in ("torch", "jax.numpy"):
        module = sys.modules.get(framework)
        if module:
            assert numpy.asarray(tenon.share(module.arange(4))).tolist() == [0, 1, 2, 3]


def test_what_is_not_shared_has_no_name():
    assert tenon.from_dlpack(numpy.ones(3)).shared_name is None
    tensor = filled(2, 3)
    assert tensor[0].shared_name is None
    with pytest.raises(ValueError, match="freeze"):
        tensor[0].freeze()
    with pytest.raises(ValueError, match="freeze"):
        tenon.from_dlpack(numpy.ones(3)).freeze()


def test_ten_thousand_attach_and_leave_nothing():
    tensor = filled(100)
    before = counts()
    name, fd = tensor.shared_name, tensor.shared_fd
    for i in range(10_000 if not os.environ.get("TENON_VALGRIND") else 100):
        tenon.attach(name if i % 2 else fd)
    assert counts() == before


def test_in_functions(kernels):
    tensor = filled(4)
    kernels.add_to(tensor, 1.0)
    assert numpy.asarray(tensor).tolist() == [1, 2, 3, 4]
    assert list(kernels.saxpy(2.0, tensor, tensor, like="numpy")) == [3, 6, 9, 12]
    tensor.freeze()
    with pytest.raises(ValueError, match="read-only"):
        kernels.add_to(tensor, 1.0)
    assert list(kernels.saxpy(2.0, tensor, tensor, like="numpy")) == [3, 6, 9, 12]


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "arguments, exception, words",
    [
        ((2, "word"), ValueError, "tenon.shared_zeros.*'dtype'.*word"),
        ((2, numpy.dtype("O")), ValueError, "'dtype'"),
        ((2, numpy.dtype(">f4" if sys.byteorder == "little" else "<f4")), ValueError, "byte order"),
        ((2, None), TypeError, "'dtype'.*None"),
        ((-1, "f32"), ValueError, "tenon.shared_zeros.*-1"),
        ((2**62, "f32"), ValueError, "tenon.shared_zeros"),
        ((2**70, "f32"), ValueError, "tenon.shared_zeros"),
        ((2**45, "f32"), MemoryError, "tenon.shared_zeros"),
        (((1,) * 65, "f32"), ValueError, "64 dimensions"),
        ((1.5, "f32"), TypeError, "'shape'"),
        (("3", "f32"), TypeError, "'shape'"),
        ((numpy.ones(2), "f32"), TypeError, "tenon.shared_zeros.*'shape'"),
        ((2, int), TypeError, "tenon.shared_zeros.*'dtype'.*int"),
        ((2, "opaque64"), ValueError, "tenon.shared_zeros.*opaque values are addresses"),
    ],
)
def test_what_cannot_be_allocated(arguments, exception, words):
    with pytest.raises(exception, match=words):
        tenon.shared_zeros(*arguments)


class OnGPU:
    """An array whose struct says that it is on a GPU."""

    def __dlpack__(self, **keywords):
        capsule = numpy.ones(3).__dlpack__()
        contents(capsule).tensor.device_type = 2
        return capsule

    def __dlpack_device__(self):
        return (2, 0)


def test_no_descriptor_is_left():
    import resource

    limits, tensors = resource.getrlimit(resource.RLIMIT_NOFILE), []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match=r"^.Errno 24. tenon.shared_zeros\(\): .* raise the limit of this process .ulimit -n.") as caught:
            while True:
                tensors.append(tenon.shared_zeros(2, "f32"))
        assert caught.value.errno == errno.EMFILE
        with pytest.raises(OSError, match=r"^.Errno 24. tenon.attach\(\): .* raise the limit"):
            tenon.attach(tensors[0].shared_fd)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_freeze_that_the_system_refuses():
    import resource

    tensor, limits = tenon.shared_zeros(2, "f32"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match=r"^.Errno 27. tenon.Tensor.freeze\(\): sealing the memory: .*ulimit -f") as caught:
            tensor.freeze()
        assert caught.value.errno == errno.EFBIG and not tensor.readonly
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("dtype, shape", [("f32", (3,)), ("f32", (2**62,)), ("f32", (2**64,)), ("f32", (1,) * 65), ("word", (1,))])
def test_a_pickle_that_is_damaged(dtype, shape):
    from tenon import _reduce

    with pytest.raises((ValueError, OverflowError, IndexError), match=r"^tenon.Tensor: ") as caught:
        _reduce._from_bytes(bytearray(8), dtype, shape)
    assert "tenon_" not in str(caught.value)


@pytest.mark.parametrize("strides", [(), (1, 1), (1,) * 65, (2**64,), ("a",)])
def test_a_pickle_with_damaged_strides(strides):
    from tenon import _native

    with pytest.raises((TypeError, ValueError), match=r"^tenon.Tensor: "):
        _native._tensor_on(bytearray(8), 0, "f32", (2,), strides)


def test_what_cannot_be_shared():
    with pytest.raises(ValueError, match=r"tenon.share\(\): argument 'array': .* on cuda:0, which the CPU cannot read; pass a copy on the CPU"):
        tenon.share(OnGPU())
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(TypeError, match=r"tenon.share\(\): argument 'array': each i4 value takes a whole byte.*astype\('int8'\)"):
        tenon.share(numpy.ones(3, ml_dtypes.int4))
    packed = tenon.shared_zeros(3, "i4")
    assert tenon.share(packed).dtype == "int4"
    with pytest.raises(TypeError):
        tenon.share("word")


def test_a_dtype_that_is_not_text():
    for wrong in ("\ud800", "f32\0"):
        with pytest.raises(ValueError, match=r"^tenon.shared_zeros\(\): argument 'dtype': expected a dtype such as f32") as caught:
            tenon.shared_zeros(3, wrong)
        assert type(caught.value) is ValueError and repr(wrong) in str(caught.value)


def test_what_cannot_be_attached(tmp_path):
    name = tenon.shared_zeros(3, "f32").shared_name
    for wrong in ("", "word", name + "0", name.upper(), name[:-1] + "g", "tenon-shared:1:0:3:" + "0" * 32, name + "\0"):
        with pytest.raises(ValueError, match=r"^tenon.attach\(\): argument 'name_or_fd'"):
            tenon.attach(wrong)
    with pytest.raises(OSError, match=r"^.Errno 9. tenon.attach\(\): argument 'name_or_fd': Bad") as caught:
        tenon.attach(2**31 - 1)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(ValueError, match=r"^tenon.attach\(\): argument 'name_or_fd': expected a shared_name, got '.ud800'$") as caught:
        tenon.attach("\ud800")
    assert type(caught.value) is ValueError
    with pytest.raises(ValueError, match="tenon.attach.*argument 'name_or_fd' has version 2; update"):
        tenon.attach(name.replace(":1:", ":2:", 1))
    with pytest.raises(FileNotFoundError, match="tenon.attach.*process"):
        tenon.attach(name)  # the tensor was released
    with pytest.raises(FileNotFoundError):
        tenon.attach("tenon-shared:1:2147483647:3:" + "0" * 32)
    for wrong in (-1, 2**31, 2**70):
        with pytest.raises(ValueError, match="descriptor"):
            tenon.attach(wrong)
    for wrong in (None, 1.5, True, b"word", numpy.ones(2)):
        with pytest.raises(TypeError, match="'name_or_fd'"):
            tenon.attach(wrong)
    with pytest.raises(OSError) as caught:
        tenon.attach(10_000)
    assert caught.value.errno == errno.EBADF
    reader, writer = os.pipe()
    folder, file = os.open(tmp_path, os.O_RDONLY), os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(8192))
    for fd in (reader, folder, file):
        with pytest.raises(ValueError, match="not a shared tensor"):
            tenon.attach(fd)
    for fd in (reader, writer, folder, file):
        os.close(fd)


def memfd(content, seals=SEALED):
    fd = os.memfd_create("foreign", os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


@pytest.mark.parametrize(
    "at, layout, values",
    [
        (0, "<8s", [b"TENONSHN", bytes(8)]),
        (8, "<I", [0, 2, 2**32 - 1]),
        (12, "<I", [0, 64, 4095, 8192]),
        (32, "<B", [99, 255]),
        (33, "<B", [0, 3, 255]),
        (34, "<H", [0, 65535]),
        (36, "<i", [-1, 65, 2**31 - 1, 3]),
        (40, "<Q", [2, 2**63]),
        (48, "<Q", [0, 4095, 4098, 2**63, 2**64 - 1, 8192]),
        (56, "<Q", [0, 23, 25, 2**64 - 1]),
        (64, "<q", [-1, 3, 2**62, -(2**63), 2**63 - 1]),
        (80, "<q", [1]),
        (576, "<q", [4, 2**62, -(2**63), -3]),
        (592, "<q", [1]),
        (1088, "<B", [1]),
        (4095, "<B", [1]),
    ],
)
def test_hostile_headers(at, layout, values):
    tensor = filled(2, 3)
    whole = os.pread(tensor.shared_fd, HEADER + tensor.nbytes, 0)
    for value in values:
        content = bytearray(whole)
        struct.pack_into(layout, content, at, value)
        fd = memfd(content)
        for way in (fd, f"tenon-shared:1:{os.getpid()}:{fd}:{whole[16:32].hex()}"):
            with pytest.raises(ValueError, match="tenon.attach"):
                tenon.attach(way)
        os.close(fd)
    fd = memfd(whole)
    assert numpy.asarray(tenon.attach(fd)).tolist() == [[0, 1, 2], [3, 4, 5]]
    os.close(fd)


def test_files_that_could_become_shorter():
    tensor = filled(2, 3)
    whole = os.pread(tensor.shared_fd, HEADER + tensor.nbytes, 0)
    for content, seals in ((whole, 0), (whole, 2), (whole, 4), (whole[:-1], SEALED), (whole[:4095], SEALED), (b"", SEALED)):
        fd = memfd(content, seals)
        with pytest.raises(ValueError, match="not a shared tensor"):
            tenon.attach(fd)
        os.close(fd)


# -------------------------------------------------------------------------------------------------------------- freeze


def other_references(tensor):
    """Objects through which the memory could be written to."""
    yield "NumPy", numpy.asarray(tensor)
    yield "memoryview", memoryview(tensor)
    yield "view", tensor[1:]
    yield "transposed", tensor.T
    yield "capsule", tensor.__dlpack__(max_version=(1, 0))
    yield "old capsule", tensor.__dlpack__()
    yield "DLPack", numpy.from_dlpack(tensor)
    if "torch" in sys.modules:
        yield "torch", sys.modules["torch"].from_dlpack(tensor)
        yield "torch by name", tenon.to(tensor, "torch")
    if "jax" in sys.modules:
        yield "JAX", tenon.to(tensor, "jax")


def test_freeze_waits_for_other_references():
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    tensor = filled(4)
    names = [name for name, _ in other_references(tensor)]
    for wanted in names:
        tensor = filled(4)
        other = next(other for name, other in other_references(tensor) if name == wanted)
        gc.collect()
        with pytest.raises(BufferError, match="freeze"):
            tensor.freeze()
        assert not tensor.readonly
        numpy.asarray(tensor)[0] = 3
        del other
        gc.collect()
        tensor.freeze()
        assert tensor.readonly, wanted


def test_frozen():
    tensor = filled(4)
    early = tenon.attach(tensor.shared_name)
    tensor.freeze()
    tensor.freeze()
    assert tensor.readonly and not numpy.asarray(tensor).flags.writeable and memoryview(tensor).readonly
    late = tenon.attach(tensor.shared_name)
    assert late.readonly
    numpy.asarray(early)[0] = 8  # it attached while the memory was writable
    assert numpy.asarray(late)[0] == 8
    with pytest.raises(PermissionError):
        os.pwrite(tensor.shared_fd, b"x", HEADER)
    view = tensor[1:]
    assert view.readonly
    late.freeze()


def test_a_flag_without_the_seal_is_not_frozen():
    tensor = filled(4)
    os.pwrite(tensor.shared_fd, b"\1", 40)
    again = tenon.attach(tensor.shared_name)
    assert not again.readonly
    again.freeze()
    assert tenon.attach(tensor.shared_name).readonly


def test_frameworks_without_read_only_arrays():
    pytest.importorskip("torch")
    with pytest.raises(BufferError, match="read-only"):
        tenon.to(tenon.share(numpy.ones(3, "f4")), "torch")


def test_a_frozen_tensor_in_jax():
    """JAX takes the memory itself if it asks for versioned capsules, which say that it is read-only."""
    jax = pytest.importorskip("jax")
    frozen = tenon.share(numpy.ones(64, "f4"))
    taken = []
    for take in (jax.dlpack.from_dlpack, lambda tensor: tenon.to(tensor, "jax")):
        try:
            taken.append(take(frozen).unsafe_buffer_pointer() == frozen.data_ptr)
        except BufferError as error:
            assert "read-only" in str(error)
    assert taken in ([], [True, True])
    assert jax.numpy.asarray(frozen).tolist() == [1.0] * 64


def test_functions_do_not_write_to_frozen_memory_through_torch(kernels):
    torch = pytest.importorskip("torch")
    frozen = tenon.share(numpy.ones(4, "f4"))
    late = tenon.attach(frozen.shared_name)
    early = tenon.shared_zeros(4, "f32")
    reader = os.open(f"/proc/self/fd/{early.shared_fd}", os.O_RDONLY)
    read_only = tenon.attach(reader)
    os.close(reader)

    def from_numpy(tensor):
        return torch.from_numpy(numpy.asarray(tensor))

    for tensor in (frozen, late, read_only):
        for read in (torch.from_dlpack, torch.asarray, from_numpy, lambda x: torch.from_dlpack(x[1:])):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns about read-only arrays
                array = read(tensor)
            for _ in range(3):
                with pytest.raises(ValueError, match="add_to.*read-only"):
                    kernels.add_to(array, 1.0)
            with pytest.raises(ValueError, match="read-only"):
                kernels.swap(torch.zeros(len(array)), array)
    array = torch.from_dlpack(late)
    del frozen, late, tensor
    gc.collect()
    with pytest.raises(ValueError, match="read-only"):
        kernels.add_to(array, 1.0)  # torch keeps the memory
    kernels.add_to(torch.from_dlpack(early), 1.0)
    assert numpy.asarray(early).tolist() == [1, 1, 1, 1]


def test_memory_that_was_frozen_is_forgotten(kernels):
    torch = pytest.importorskip("torch")
    for _ in range(3):  # the next mapping has the same address
        tensor = filled(4)
        array = torch.from_dlpack(tensor)
        kernels.add_to(array, 1.0)
        assert array.tolist() == [1, 2, 3, 4]
        del array
        gc.collect()
        tensor.freeze()
        tensor.freeze()
        with pytest.raises(ValueError, match="read-only"):
            kernels.add_to(torch.from_dlpack(tensor), 1.0)
        del tensor
        gc.collect()


# -------------------------------------------------------------------------------------------------------------- copies


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_copies_are_private(how):
    for tensor in (filled(2, 3), tenon.share(numpy.arange(6.0).reshape(2, 3)), filled(4, 6)[::2, ::3]):
        again = how(tensor)
        assert again.shared_name is None and not again.readonly and again.data_ptr != tensor.data_ptr
        assert numpy.array_equal(numpy.asarray(again), numpy.asarray(tensor))
    both = copy.deepcopy([tensor, tensor])
    assert both[0] is both[1]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_carry_the_elements(protocol):
    tensor = filled(2, 3)
    again = pickle.loads(pickle.dumps(tensor, protocol))
    assert again.shared_name is None and numpy.array_equal(numpy.asarray(again), numpy.asarray(tensor))
    frozen = tenon.share(numpy.ones(3))
    assert numpy.asarray(pickle.loads(pickle.dumps(frozen, protocol))).tolist() == [1, 1, 1]


def test_pickles_out_of_band():
    tensor, buffers = filled(1000), []
    stored = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    assert len(stored) < 200 and len(buffers) == 1
    assert pickle.loads(stored, buffers=buffers).data_ptr == tensor.data_ptr
