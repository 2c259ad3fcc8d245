"""Random cases that can be run again one by one.

A case is a function of a random.Random; it raises where something is wrong. TENON_SEED chooses other cases,
TENON_CASE=<number> runs one of them alone, TENON_CASES=<factor> multiplies their number."""

import os
import random
from collections import Counter

import tenon_ctypes as T

SEED = int(os.environ.get("TENON_SEED", "20261115"))
ONLY = os.environ.get("TENON_CASE")
FACTOR = float(os.environ.get("TENON_CASES", "1"))
done = Counter()


def run_cases(case, count):
    baseline = T.stats()
    for number in [int(ONLY)] if ONLY else range(int(count * FACTOR)):
        try:
            case(random.Random(f"{SEED}:{case.__name__}:{number}"))
            assert T.stats() == baseline, f"the case leaks: {baseline} before, {T.stats()} after"
        except Exception as error:
            hint = f"case {case.__name__} number {number}; to run it alone: TENON_SEED={SEED} TENON_CASE={number}"
            raise AssertionError(f"{hint}\n{type(error).__name__}: {error}") from error
        done[case.__name__] += 1
