"""Nearest neighbours of torch tensors and NumPy arrays, in Rust: cargo build --release && python run.py"""

import pathlib
import sys

import numpy
import tenon

default = pathlib.Path(__file__).parent / "target/release/libspatial.so"
spatial = tenon.load(sys.argv[1] if len(sys.argv) > 1 else default)
points = numpy.random.default_rng(1).random((1000, 3), "float32")
queries = points[:5] + numpy.float32(0.001)
exact = ((points[None] - queries[:, None]) ** 2).sum(-1).argsort(1)[:, :3]
for index in spatial.KDTree, spatial.Kiddo:
    assert (index(points).query(queries, k=3).rows == exact).all()
    print(index.__name__, "agrees with NumPy")
try:
    import torch
except ImportError:
    sys.exit()
found = spatial.Kiddo(torch.from_numpy(points)).query(torch.from_numpy(queries), k=3)
print(type(found.rows).__name__, tuple(found.distance.shape))
