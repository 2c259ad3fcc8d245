"""A call of tenon.ray_ops beside that of an actor that was written by hand. `tools/nox ray_bench` runs it.

    ray_calls.py LIBRARY [--quick]        LIBRARY: built from examples/functions/kernels.c

The calls alternate, each waits for its result, and the smallest time of each is printed. Exits with 1 if ours takes more than
1.1 times as long.
"""
import sys

import numpy
import ray
import timing

import tenon

LIMIT = 1.1


@ray.remote
class ByHand:
    def __init__(self, library):
        self.kernels = tenon.load(library)

    def saxpy(self, a, x, y):
        return self.kernels.saxpy(a, x, y)


def main():
    library, *words = sys.argv[1:]
    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=200 * 1024 * 1024)
    by_hand = ByHand.remote(library)
    slow = False
    with tenon.ray_ops(tenon.load(library), actors=1) as ops:
        small = numpy.ones(6, "float32")
        large = ray.put(numpy.ones(1 << 20, "float32"))
        for title, x in (("saxpy of 6 elements", small), ("saxpy of 4 MiB in the object store", large)):
            contenders = {
                "tenon.ray_ops": (lambda x=x: ray.get(ops.saxpy.remote(2.0, x, x)), []),
                "actor by hand": (lambda x=x: ray.get(by_hand.saxpy.remote(2.0, x, x)), []),
            }
            plan = timing.Plan("--quick" in words)
            plan.rounds, plan.rounds_slow = plan.rounds * 10, plan.rounds_slow * 50
            measured = timing.compare(contenders, plan)
            ours, theirs = (measured[name]["ns"] / 1000 for name in contenders)
            slow |= ours > LIMIT * theirs
            print(f"{title}: {ours:,.0f} µs beside {theirs:,.0f} µs by hand, {ours / theirs:.2f}x, at most {LIMIT}", flush=True)
    sys.exit(slow)


if __name__ == "__main__":
    main()
