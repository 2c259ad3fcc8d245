"""DLPack capsules by themselves, as torch.from_dlpack takes them and other bindings return them: each is taken once."""

import pytest
import tenon_hostile as hostile
import tenon_probe as probe
from hostility import outstanding, settled

import dlpack
from arrays import READ_ONLY

KINDS = {"versioned": "dltensor_versioned", "legacy": "dltensor"}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.parametrize("way", ["borrow", "import_"])
def test_taken_once(kind, way):
    before = outstanding()
    capsule = hostile.capsule(kind=kind, shape=(2, 3))
    assert dlpack.name_of(capsule) == KINDS[kind]
    taken = getattr(probe, way)(capsule)
    view = taken if way == "borrow" else probe.describe(taken)
    assert (view["shape"], view["strides"], view["dtype"]) == ((2, 3), (3, 1), "f32")
    assert dlpack.name_of(capsule) == f"used_{KINDS[kind]}"
    assert outstanding() == before + (way == "import_")  # a borrow has ended
    for again in (probe.borrow, probe.import_):
        with pytest.raises(BufferError, match="PyCapsule: the DLPack capsule has already been consumed; .* used only once$"):
            again(capsule)
    del capsule
    assert outstanding() == before + (way == "import_")
    del taken
    settled(before)


@kinds
def test_what_is_refused_stays_good(kind):
    """Nothing was taken: the same capsule can be used where it fits."""
    before = outstanding()
    capsule = hostile.capsule(kind=kind, shape=(2, 3), strides=(1, 2), device_type=2, data=4096)
    with pytest.raises(ValueError, match="PyCapsule: the memory is on cuda:0, which the CPU cannot read"):
        probe.borrow(capsule)
    with pytest.raises(ValueError, match="C order"):
        probe.import_(capsule, probe.ANY_DEVICE | probe.C_CONTIGUOUS)
    assert dlpack.name_of(capsule) == KINDS[kind]
    assert probe.borrow(capsule, probe.ANY_DEVICE)["device"] == (2, 0)
    settled(before)
    capsule = hostile.capsule(flags=READ_ONLY)
    with pytest.raises(ValueError, match="read-only"):
        probe.borrow(capsule, probe.WRITE)
    assert probe.borrow(capsule)["flags"] & READ_ONLY
    settled(before)


@kinds
def test_used_up_by_a_call_that_fails_later(kind):
    """It was taken; what is not handed on is deleted."""
    before = outstanding()
    capsule = hostile.capsule(kind=kind, code=4, bits=16)
    with pytest.raises(BufferError, match="the buffer protocol has no format for its dtype"):
        probe.through(capsule, probe.MEMORYVIEW)
    assert dlpack.name_of(capsule) == f"used_{KINDS[kind]}"
    settled(before)
    with pytest.raises(BufferError, match="already been consumed"):
        probe.borrow(capsule)


@pytest.mark.parametrize(
    "plan, error, text",
    [
        ({"ndim": -1}, BufferError, "ndim"),
        ({"code": 99}, BufferError, "dtype"),
        ({"data": 0}, BufferError, "PyCapsule: "),
        ({"major": 2}, BufferError, "DLPack 2.0; expected version 1"),
        ({"kind": "edge"}, BufferError, "DLPack 2.0"),
        ({"name": "other"}, TypeError, "this is not a DLPack capsule"),
    ],
)
def test_bad_capsules(plan, error, text):
    before = outstanding()
    capsule = hostile.capsule(**plan)
    name = dlpack.name_of(capsule)
    for way in (probe.borrow, probe.import_):
        with pytest.raises(error, match=text):
            way(capsule)
    assert dlpack.name_of(capsule) == name
    del capsule
    settled(before)


def test_out_again():
    """It is the tensor that lives on; the capsule is used up, so it is not what comes back."""
    before = outstanding()
    capsule = hostile.capsule(shape=(4,))
    out = probe.through(capsule, probe.SAME)
    assert type(out) is probe.Tensor and probe.borrow(out)["shape"] == (4,)
    del capsule, out
    settled(before)


def test_no_framework_to_make_arrays_like_it():
    before = outstanding()
    capsule = hostile.capsule()
    with pytest.raises(ValueError, match="a DLPack capsule does not say which framework makes new arrays; pass out="):
        probe.empty(capsule, "f32", (2,))
    assert probe.borrow(capsule)["shape"] == (3,)
    settled(before)


def test_numpys_capsule(released):
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6.0)
    view = probe.borrow(array.__dlpack__(max_version=(1, 0)))
    assert view["data"] == array.ctypes.data
    again = probe.through(array.__dlpack__(), probe.NUMPY)
    assert again.ctypes.data == array.ctypes.data and again.tolist() == array.tolist()
