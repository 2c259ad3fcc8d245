"""A conformance kit for packages that speak DLPack: cases for producers, consumers and round trips.

    @pytest.mark.parametrize("case", tenon.conformance.cases("producer"), ids=lambda case: case.id)
    def test_dlpack(case):
        case.check(make)        # make(shape, dtype, device, layout=…) returns an array

`python -m tenon conformance` runs them in processes of their own, and writes reports.
"""

from __future__ import annotations

from .case import KINDS, Case, Failure, Leak, NotApplicable, Refused

__all__ = ["Case", "Failure", "KINDS", "Leak", "NotApplicable", "Refused", "cases"]


def cases(kind: str) -> list[Case]:
    """The cases of a kind: "producer" (with the exchange table), "consumer" or "round-trip"."""
    from . import consumer_cases, hostile_cases, producer_cases, request_cases, round_trips, table_cases

    found = {
        "producer": [*producer_cases.case.cases, *request_cases.case.cases, *table_cases.case.cases],
        "consumer": [*consumer_cases.case.cases, *hostile_cases.case.cases],
        "round-trip": round_trips.case.cases,
    }
    if kind not in found:
        raise ValueError(f"tenon.conformance.cases(): expected {', '.join(map(repr, KINDS))}, got {kind!r}")
    return list(found[kind])
