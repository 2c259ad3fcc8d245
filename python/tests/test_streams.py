"""The order of streams on every way out: whoever filled the memory is asked to let the consumer's stream wait. Nothing
here needs a GPU: producers, torch and CUDA's driver are stand-ins that write down what they were asked. On a GPU
gpu/streams.py reads the memory."""

import ctypes
import sys
import sysconfig
import types

import pytest
import tenon_hostile as hostile
import tenon_probe as probe

import dlpack
from producers import Producer, through
from stand_ins import TORCH, driver, run  # noqa: F401

CUDA, MANAGED, ROCM = 2, 13, 10

# ---------------------------------------------------------------------------------------------------------- __dlpack__


@pytest.mark.parametrize("device", [CUDA, MANAGED, ROCM])
def test_the_producer_is_asked(device, released):
    producer = Producer(device)
    tensor = through(producer)
    default, others = (0, (0, 4096)) if device == ROCM else (1, (1, 2, 4096))
    tensor.__dlpack__()
    tensor.__dlpack__(stream=None)
    assert producer.since() == [default, default]
    for stream in others:
        capsule = tensor.__dlpack__(stream=stream, max_version=(1, 0))
        assert dlpack.contents(capsule).tensor.data == probe.borrow(tensor, probe.ANY_DEVICE)["data"]
        assert producer.since()[0] == stream
    tensor.__dlpack__(stream=-1)
    assert producer.since() == []
    del tensor, producer, capsule
    assert released() == 1


@pytest.mark.parametrize(
    "device, stream, text",
    [
        (CUDA, 0, "expected 1 (the legacy default stream)"),
        (CUDA, -2, "for memory on cuda:0, got -2"),
        (CUDA, 2**80, "got 1208925819614629174706176"),
        (MANAGED, 0, "for memory on cuda_managed:0, got 0"),
        (3, 0, "for memory on cuda_host:0, got 0"),
        (ROCM, 1, "expected 0 (the default stream), the address of a stream, or -1 (do not wait) for memory on rocm:0"),
        (ROCM, 2, "got 2"),
        (ROCM, -7, "got -7"),
        (1, 1, "expected None or -1 for memory on cpu"),
        (1, 0, "got 0"),
    ],
)
def test_streams_that_do_not_exist(device, stream, text):
    producer = Producer(device)
    tensor = through(producer)
    with pytest.raises(ValueError) as caught:
        tensor.__dlpack__(stream=stream)
    assert "tenon.Tensor.__dlpack__(): argument 'stream': " in str(caught.value) and text in str(caught.value)
    assert producer.since() == []


@pytest.mark.parametrize("device", [1, CUDA, ROCM])
def test_a_stream_is_a_number(device):
    with pytest.raises(TypeError, match="'stream': expected None or an int, got <class 'str'>"):
        through(Producer(device)).__dlpack__(stream="1")


def test_memory_of_the_cpu_has_no_streams():
    for device in (1, 3, 11):
        producer = Producer(device)
        tensor = through(producer)
        for stream in (None, -1):
            tensor.__dlpack__(stream=stream)
        assert producer.since() == []


def test_streams_of_other_devices_are_passed_on():
    producer = Producer(14)  # oneAPI's are objects
    tensor = through(producer)
    tensor.__dlpack__()
    assert producer.since() == []
    queue = object()
    tensor.__dlpack__(stream=queue)
    assert producer.since() == [queue]
    probe.export(probe.new("f32", (2,), None, 0, 0, 14)).__dlpack__(stream=queue)


@pytest.mark.parametrize("kind", [BufferError, KeyboardInterrupt, MemoryError, KeyError])
def test_what_the_producer_raises(kind, released):
    """Its refusal is the cause of ours, and nothing else is replaced."""
    producer = Producer()
    tensor = through(producer)
    producer.error = kind("gone")
    for route in (
        tensor.__dlpack__,
        lambda: probe.through(tensor, probe.CAPSULE),
        lambda: probe.borrow(tensor, probe.ANY_DEVICE, 77),
        lambda: dlpack.table_of(probe.Tensor).borrow(tensor, ctypes.byref(dlpack.DLTensor())),
    ):
        with pytest.raises(kind, match="gone"):
            route()
    del producer, tensor, route
    assert released() == 1


def test_an_old_producer_has_no_keywords():
    class Old:
        def __init__(self):
            self.inner, self.calls = Producer(), 0

        def __dlpack__(self):
            self.calls += 1
            return self.inner.__dlpack__()

        def __dlpack_device__(self):
            return (CUDA, 0)

    old = Old()
    tensor = probe.through(old, probe.TENSOR)
    tensor.__dlpack__(stream=5)
    assert old.calls == 2


# ------------------------------------------------------------------------------------------------------ other ways out


@pytest.mark.parametrize("kind", [probe.CAPSULE, probe.CAPSULE_LEGACY])
def test_a_capsule_is_ready_on_the_default_stream(kind):
    producer = Producer()
    through_once = through(producer)
    probe.through(through_once, kind)
    assert producer.since()[-1] == 1


@pytest.mark.parametrize("name, kind", [("cupy", probe.CUPY), ("jax.dlpack", probe.JAX)])
def test_frameworks_that_ask(name, kind, monkeypatch):
    """CuPy and JAX name their stream when they take the tensor."""

    def from_dlpack(x, **keywords):
        x.__dlpack__(stream=4096, max_version=(1, 0))
        return x

    for part in (name.partition(".")[0], name):
        monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
    sys.modules[name].from_dlpack = from_dlpack
    producer = Producer()
    handle = probe.import_(producer, probe.ANY_DEVICE)
    producer.since()
    assert type(probe.export(handle, kind)) is probe.Tensor
    assert 4096 in producer.since()


def test_the_table_makes_it_ready_on_its_stream():
    table = dlpack.table_of(probe.Tensor)
    producer = Producer()
    tensor = through(producer)
    stream = ctypes.c_void_p(7)
    assert table.stream(CUDA, 0, ctypes.byref(stream)) == 0 and stream.value is None
    assert table.borrow(tensor, ctypes.byref(dlpack.DLTensor())) == 0
    assert producer.since() == [1]
    managed = ctypes.POINTER(dlpack.Versioned)()
    assert table.from_object(tensor, ctypes.byref(managed)) == 0
    dlpack.DELETER(managed.contents.deleter)(managed)
    assert producer.since() == [1]


# ----------------------------------------------------------------------------------------------------- calls from C


def test_a_borrow_waits():
    """Without a stream the memory is ready on the default one, since a producer without a table cannot tell its own."""
    producer = Producer()
    tensor = through(producer)
    assert probe.stream(tensor) == 0 and producer.since() == [1]
    probe.borrow(tensor, probe.ANY_DEVICE, 4096)
    assert producer.since() == [4096]
    probe.borrow(tensor, probe.ANY_DEVICE, -1)
    assert producer.since() == []


def test_managed_memory_is_asked_for_the_callers_stream():
    producer = Producer(MANAGED)
    probe.borrow(producer, probe.ANY_DEVICE, 4096)
    assert producer.since() == [4096]


def test_a_framework_that_tells_its_stream():
    """By its table: the work goes there, and no code of the producer's runs."""
    hostile.plan(stream=77, device_type=CUDA, data=4096, shape=(4,))
    asked = []

    def method(self, **keywords):
        asked.append(keywords["stream"])
        return hostile.capsule(device_type=CUDA, data=4096, shape=(4,), stream=77)

    attributes = {"__dlpack_c_exchange_api__": hostile.table(), "__dlpack__": method}
    thing = type("Tabled", (), attributes)()
    tensor = probe.through(thing, probe.TENSOR)
    assert probe.stream(tensor) == 77
    tensor.__dlpack__(stream=77)
    probe.borrow(tensor, probe.ANY_DEVICE, 77)
    assert asked == []
    tensor.__dlpack__(stream=5)
    probe.borrow(tensor, probe.ANY_DEVICE, 6)
    assert asked == [5, 6]
    hostile.plan()


def test_memory_from_c(driver):
    run(
        driver,
        """
        tensor = probe.export(probe.new("f32", (4,), None, 0, 0, 2, 3, 0x7000))
        tensor.__dlpack__(stream=0x7000)
        tensor.__dlpack__(stream=-1)
        assert words() == ""
        tensor.__dlpack__()
        assert words() == ordered(0x7000, 1, 3)
        tensor.__dlpack__(stream=2)
        assert words() == ordered(0x7000, 2, 3)
        probe.through(tensor, probe.CAPSULE)
        assert words() == ordered(0x7000, 1, 3)
        assert probe.stream(tensor) == 0x7000 and words() == ""
        probe.borrow(tensor, probe.ANY_DEVICE, 0x7001)
        assert words() == ordered(0x7000, 0x7001, 3)
        plain = probe.export(probe.new("f32", (4,), None, 0, 0, 2))  # on the default stream
        plain.__dlpack__()
        plain.__dlpack__(stream=1)
        assert words() == "" and probe.stream(plain) == 0
        plain.__dlpack__(stream=0x7000)
        assert words() == ordered(1, 0x7000)
        cpu = probe.export(probe.new("f32", (4,)))
        cpu.__dlpack__()
        assert words() == ""
        """,
    )


def test_the_cpu_waits_for_managed_memory(driver):
    run(
        driver,
        """
        for copy in (True, False):
            producer = Producer(13)
            tensor = through(producer)
            tensor.__dlpack__(copy=copy, dl_device=(1, 0))
            assert producer.since() == [1] and words() == waited(1)
            own = probe.export(probe.new("f32", (4,), None, 0, 0, 13, 0, 0x7000))
            own.__dlpack__(copy=copy, dl_device=(1, 0))
            assert words() == waited(0x7000)
            probe.export(probe.new("f32", (4,), None, 0, 0, 3)).__dlpack__(copy=copy, dl_device=(1, 0))
            assert words() == ""
        """,
    )


def test_the_driver_refuses(driver):
    """A stream of another context cannot be recorded: then the host waits. If that fails too, so does the export."""
    run(
        driver,
        """
        tensor = probe.export(probe.new("f32", (4,), None, 0, 0, 2, 0, 0x7000))
        fail(1)
        tensor.__dlpack__(stream=1)
        assert words() == IN_CONTEXT.format(0, f"record {0x7000};destroy;synchronize {0x7000};")
        fail(2)
        with raises(RuntimeError, "CUDA did not order two streams on cuda:0 (error 700 of the driver)"):
            tensor.__dlpack__(stream=1)
        """,
    )


def test_other_devices_have_no_driver(driver):
    run(
        driver,
        """
        tensor = probe.export(probe.new("f32", (4,), None, 0, 0, 10, 0, 0x7000))
        tensor.__dlpack__(stream=0x7000)
        with raises(BufferError, "orders the streams of CUDA only; synchronise that stream, then pass stream=-1"):
            tensor.__dlpack__()
        tensor.__dlpack__(stream=-1)
        probe.export(probe.new("f32", (4,), None, 0, 0, 10)).__dlpack__(stream=0x7000)
        assert words() == ""
        """,
    )


def test_a_producer_without_dlpack(driver):
    """What only has an array interface is ready on the default stream."""
    run(
        driver,
        """
        class Cuda:
            __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3, "stream": 1}
        tensor = probe.through(Cuda(), probe.TENSOR)
        tensor.__dlpack__()
        assert words() == ""
        tensor.__dlpack__(stream=0x7000)
        assert words() == ordered(1, 0x7000)
        """,
    )


def test_a_capsule_by_itself(driver):
    """No one can be asked: it is ready on the default stream."""
    run(
        driver,
        """
        tensor = probe.export(probe.new("f32", (4,), None, 0, 0, 2))
        probe.borrow(tensor.__dlpack__(), probe.ANY_DEVICE)
        probe.borrow(tensor.__dlpack__(), probe.ANY_DEVICE, 1)
        assert words() == ""
        probe.borrow(tensor.__dlpack__(), probe.ANY_DEVICE, 0x7000)
        assert words() == ordered(1, 0x7000)
        again = probe.through(tensor.__dlpack__(), probe.TENSOR)
        again.__dlpack__(stream=0x7000)
        assert words() == ordered(1, 0x7000)
        fail(2)
        capsule = tensor.__dlpack__()
        with raises(RuntimeError, "CUDA did not order"):
            probe.borrow(capsule, probe.ANY_DEVICE, 0x7000)
        probe.borrow(capsule, probe.ANY_DEVICE)
        """,
    )


def test_tensorflow_takes_no_stream(driver):
    run(
        driver,
        """
        names = ["tensorflow", "tensorflow.experimental", "tensorflow.experimental.dlpack"]
        for name in names:
            sys.modules[name] = types.ModuleType(name)
        sys.modules[names[-1]].from_dlpack = lambda capsule: capsule
        producer = Producer()
        handle = probe.import_(producer, probe.ANY_DEVICE)
        producer.since()
        probe.export(handle, probe.TENSORFLOW)
        assert producer.since() == [1] and words() == waited(1)
        probe.export(probe.new("f32", (4,), None, 0, 0, 2, 0, 0x7000), probe.TENSORFLOW)
        assert words() == waited(0x7000)
        probe.export(probe.new("f32", (4,)), probe.TENSORFLOW)
        assert words() == ""
        """,
    )


def test_torch_works_on_its_current_stream(driver):
    run(
        driver,
        TORCH
        + """
producer = Producer()
handle = probe.import_(producer, probe.ANY_DEVICE)
producer.since()
assert probe.export(handle, probe.TORCH) == ["torch"]
assert producer.since() == [0x5000] and words() == ""
streams["now"] = 0
probe.export(handle, probe.TORCH)
assert producer.since() == [1]
streams["now"] = 0x5000
probe.export(probe.new("f32", (4,), None, 0, 0, 2, 0, 0x7000), probe.TORCH)
assert words() == ordered(0x7000, 0x5000)
cpu = Producer(1)
probe.through(cpu, probe.TORCH)
assert cpu.since() == ["nothing"]
""",
    )


def test_torchs_own_memory_needs_no_order(driver):
    """It is ready on torch's current stream, on which our table says that our tensors are, and functions run."""
    run(
        driver,
        TORCH
        + """
its = Tensor()
handle = probe.import_(its, probe.ANY_DEVICE)
words()
tensor = probe.export(handle)
assert probe.export(handle, probe.TORCH) == ["torch"] and words() == ""
assert probe.stream(its) == probe.stream(tensor) == 0x5000
ours, where = dlpack.table_of(probe.Tensor), ctypes.c_void_p()
assert ours.stream(2, 0, ctypes.byref(where)) == 0 and where.value == 0x5000
words()
assert ours.borrow(tensor, ctypes.byref(dlpack.DLTensor())) == 0
assert words() == ""
producer = Producer()
other = through(producer)
assert ours.borrow(other, ctypes.byref(dlpack.DLTensor())) == 0
assert producer.since() == [0x5000]
tensor.__dlpack__(stream=0x5000)
assert words() == ""
tensor.__dlpack__(stream=0x6000)  # this torch has no __dlpack__ to be asked
assert words() == ordered(0x5000, 0x6000)
streams["now"] = 0x5001
assert probe.stream(tensor) == 0x5001
""",
    )


def test_without_a_driver_there_is_nothing_to_order():
    if sysconfig.get_platform().startswith("win"):
        pytest.skip("no libcuda.so.1")
    tensor = probe.export(probe.new("f32", (4,), None, 0, 0, 2, 0, 0x7000))
    assert dlpack.name_of(tensor.__dlpack__(stream=1)) == "dltensor"
