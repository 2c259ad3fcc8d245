"""A model that uses one of our own operators, compiled and trained on the CPU.

    cc -O3 -shared -fPIC $(python -m tenon cflags) kernels.c -o kernels.so -lm && python train.py kernels.so
"""
import sys

import torch

import tenon

ops = tenon.torch_ops(tenon.load(sys.argv[1]), name="example", backward={"rms_norm": "rms_norm_grad"})


class RMSNorm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return ops.rms_norm(x, self.weight)


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), RMSNorm(32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    compiled = torch.compile(model, fullgraph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(256, 8)
    wanted = (x[:, :1] * x[:, 1:2]).tanh()
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = (compiled(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    moved = (model[1].weight - 1).abs().max().item()
    print("the weight of the norm was trained too:", moved > 0)


if __name__ == "__main__":
    main()
