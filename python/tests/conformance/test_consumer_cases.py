"""Every case for consumers and round trips fails for a consumer that breaks its rule, and passes for tenon.from_dlpack."""

import unittest

import model_consumer as model
import pytest
from tenon.conformance import Failure, Leak, cases
from tenon.conformance.targets import TARGETS

CASES = {case.id: case for case in cases("consumer")}
ROUND_TRIPS = {case.id: case for case in cases("round-trip")}
TENON = TARGETS["tenon"]


def starting(*beginnings):
    return [id for id in CASES if id.startswith(beginnings)]


BROKEN = {
    **dict.fromkeys(starting("consumer.shape.", "consumer.dtype.", "consumer.layout.", "consumer.strides."), model.other),
    **dict.fromkeys(starting("consumer.byte-offset.", "consumer.flags."), model.other),
    **dict.fromkeys(starting("consumer.hostile."), model.vague),
    **dict.fromkeys(starting("consumer.raises.", "consumer.missing."), model.vague),
    "consumer.capsule.versioned": model.copying,
    "consumer.capsule.legacy": model.copying,
    "consumer.capsule.negotiated": model.copying,
    "consumer.flags.writable": model.refusing,
    "consumer.flags.unknown": model.blind,
    "consumer.asks.once": model.asking(max_version=(1, 0)),
    "consumer.asks.max-version": model.asking(max_version="1.0"),
    "consumer.asks.keywords": model.asking(order="C"),
    "consumer.asks.stream": model.asking(stream=5),
    "consumer.capsule.renamed-versioned": model.looking,
    "consumer.capsule.renamed-legacy": model.looking,
    "consumer.release.versioned": model.leaking,
    "consumer.release.legacy": model.releasing_twice,
    "consumer.release.null-deleter-versioned": model.refusing_changed,
    "consumer.release.null-deleter-legacy": model.refusing_changed,
    "consumer.release.empty": model.leaking,
    "consumer.release.readonly": model.leaking,
    "consumer.release.other-thread": model.leaking,
    "consumer.release.producer-gone": model.other,
    "consumer.many.alive": model.leaking,
    "consumer.many.threads": model.leaking,
    "consumer.many.no-growth": model.leaking_memory,
    "consumer.re-export": model.copying,
    "consumer.re-import": model.refusing_own,
    "consumer.unusual.later-minor": model.refusing,
    "consumer.unusual.old-signature": model.refusing,
    "consumer.unusual.no-parameters": model.other,
    "consumer.unusual.no-context": model.refusing,
    "consumer.unusual.lanes": model.other,
    "consumer.hostile.wrong-name": model.accepting,
    "consumer.hostile.consumed-versioned": model.accepting,
    "consumer.hostile.unknown-device": model.accepting,
    "consumer.hostile.false-device": model.other,
    "consumer.hostile.extension-device": model.other,
    "consumer.hostile.false-extension-device": model.other,
    **dict.fromkeys(starting("consumer.hostile.device-none", "consumer.hostile.device-single"), model.blind),
    "consumer.hostile.device-text": model.blind,
    "consumer.missing.device": model.refusing,
    "consumer.copy.none": model.copying,
    "consumer.copy.false": model.copying,
    "consumer.copy.true": model.sharing,
    "consumer.copy.true-shared": model.other,
    "consumer.copy.true-old": model.sharing,
    "consumer.copy.true-legacy": model.sharing,
    "consumer.copy.false-old": model.other,
    "consumer.copy.released": model.leaking_source,
    "consumer.copy.readonly": model.sharing,
}
BROKEN_ROUND_TRIPS = {
    "round-trip.values": model.other,
    "round-trip.pointer": model.copying,
    "round-trip.copy": model.sharing,
    "round-trip.dtype": model.other,
    "round-trip.layout": model.other,
    "round-trip.readonly": model.other,
    "round-trip.released": model.leaking,
    "round-trip.no-growth": model.leaking,
    "round-trip.producer-gone": model.other,
}


@pytest.fixture(autouse=True)
def forget():
    yield
    model.kept.clear()


def test_each_case_has_a_broken_consumer():
    assert set(BROKEN) == set(CASES) and set(BROKEN_ROUND_TRIPS) == set(ROUND_TRIPS)


@pytest.mark.parametrize("id", CASES)
def test_a_broken_consumer_fails(id):
    with pytest.raises((Failure, unittest.SkipTest)) as caught:
        CASES[id].check(BROKEN[id])
    assert isinstance(caught.value, Failure), caught.value


@pytest.mark.parametrize("id", ROUND_TRIPS)
def test_a_broken_round_trip_fails(id):
    with pytest.raises((Failure, unittest.SkipTest)) as caught:
        ROUND_TRIPS[id].check(TENON.make, BROKEN_ROUND_TRIPS[id])
    assert isinstance(caught.value, Failure), caught.value


@pytest.mark.parametrize("consume", [model.good, TENON.consume], ids=["with-copy", "tenon"])
@pytest.mark.parametrize("id", CASES)
def test_tenon_passes(id, consume):
    try:
        CASES[id].check(consume)
    except unittest.SkipTest as reason:
        assert id == "consumer.missing.device" or "no keyword 'copy'" in str(reason), reason


@pytest.mark.parametrize("id", ROUND_TRIPS)
def test_tenon_to_tenon_passes(id):
    ROUND_TRIPS[id].check(TENON.make, model.good)


def test_a_leak_is_named():
    with pytest.raises(Leak, match="each export is released once; got 1 of 1 not released"):
        CASES["consumer.release.versioned"].check(model.leaking)


def test_a_result_without_an_address():
    with pytest.raises(Failure, match="--pointer"):
        CASES["consumer.capsule.versioned"].check(lambda x: "text")
    tensors = []
    CASES["consumer.capsule.versioned"].check(
        lambda x: tensors.append(model.good(x)) or "text", pointer=lambda text: tensors[-1].data_ptr
    )


def test_a_round_trip_needs_both():
    with pytest.raises(TypeError, match="round-trip.values"):
        ROUND_TRIPS["round-trip.values"].check(TENON.make)
