"""k nearest neighbours over rows that are sharded to actors of Ray.

    cc -O3 -shared -fPIC $(python3 -m tenon cflags) examples/ray_knn/kernels.c -o knn.so -lm
    python3 examples/ray_knn/run.py knn.so           needs ray and numpy

Each shard is in Ray's object store, in shared memory, and the kernel reads it there. Only the k best rows of each shard
travel back. The merge is a task of Ray, too.
"""

import sys

import numpy
import ray

import tenon

ROWS, COLUMNS, QUERIES, K, SHARDS = 40_000, 16, 50, 5, 4


@ray.remote(num_cpus=0)
def merge(k, *found):
    """The best k of the results of all shards: their indices, then their distances. It needs no CPU of its own, because the
    actors may have them all."""
    index = numpy.concatenate(found[: len(found) // 2], axis=1)
    distance = numpy.concatenate(found[len(found) // 2 :], axis=1)
    best = numpy.argsort(distance, axis=1, kind="stable")[:, :k]
    return numpy.take_along_axis(index, best, axis=1), numpy.take_along_axis(distance, best, axis=1)


def search(ops, shards, queries, k):
    """Start a search, and return the reference to its result."""
    queries = ray.put(queries)
    found = [ops.nearest.remote(rows, queries, first, k=k) for first, rows in shards]
    return merge.remote(k, *(index for index, _ in found), *(distance for _, distance in found))


def main(library):
    kernels = tenon.load(library)
    random = numpy.random.default_rng(1)
    rows = random.random((ROWS, COLUMNS), dtype="float32")
    queries = random.random((QUERIES, COLUMNS), dtype="float32")
    size = ROWS // SHARDS
    shards = [(first, ray.put(rows[first : first + size])) for first in range(0, ROWS, size)]
    with tenon.ray_ops(kernels, actors=SHARDS, num_cpus=1 / SHARDS) as ops:
        index, distance = ray.get(search(ops, shards, queries, K))
    expected = kernels.nearest(rows, queries, k=K)
    same = (index == expected.index).all() and (distance == expected.distance).all()
    print(f"{SHARDS} shards, {QUERIES} queries, same neighbours as in one process: {bool(same)}")


if __name__ == "__main__":
    main(sys.argv[1])
