"""A quantised layer, called with torch tensors of bf16 and int8."""

import pathlib

import tenon
import torch

quantised = tenon.compile(pathlib.Path(__file__).with_name("quantised.cpp"))
torch.manual_seed(0)
weights, x = torch.randn(32, 64), torch.randn(8, 64, dtype=torch.bfloat16)
q, scale = quantised.quantise(weights)
y = quantised.matmul(x, q, scale)
exact = x.float() @ weights.T
print(y.dtype, tuple(y.shape), "from", q.dtype)
print("bytes of the weights:", weights.nbytes, "->", q.nbytes + scale.nbytes)
print("relative error below 1 %:", bool((y.float() - exact).norm() / exact.norm() < 0.01))
