"""How many of the true nearest neighbours the index finds."""

import pathlib

import numpy as np
import tenon

hnsw = tenon.compile(pathlib.Path(__file__).with_name("hnsw.cpp"))
random = np.random.default_rng(0)
points, x = random.random((2000, 8), "float32"), random.random((100, 8), "float32")
found = hnsw.HNSW(points).query(x, k=10)
exact = ((points[None] - x[:, None]) ** 2).sum(-1).argsort(1)[:, :10]
recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist())])
print("rows:", found.shape, found.dtype)
print("more than 95 % of the nearest neighbours found:", bool(recall > 0.95))
