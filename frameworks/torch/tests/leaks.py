"""Run everything TIMES times, for a leak checker: the number of leaks must not depend on TIMES.

    leaks.py FOLDER TIMES
"""

import sys

sys.path.insert(0, sys.argv[1])

import tenon_torch_probe as probe  # noqa: E402
import torch  # noqa: E402

x = torch.arange(6.0).reshape(2, 3)
calls = [
    ("aten::split", "Tensor", (x, 1)),
    ("aten::cat", "", (("tensors", x, x), 1)),
    ("aten::clamp", "Tensor", (x, x)),
    ("aten::add", "Tensor", (x, x)),
    ("aten::gelu", "", (x, "tanh")),
    ("aten::sum", "dim_IntList", (x, ("ints", 1))),
    ("aten::index", "Tensor", (x, ("tensors", None, torch.tensor([0])))),
    ("aten::mul", "Tensor", (x, torch.ones(7))),
    ("aten::size", "", (x,)),
    ("aten::item", "", (torch.tensor(3j),)),
    ("aten::mul", "Tensor", (x.as_subclass(type("Tagged", (torch.Tensor,), {})), x)),
    ("aten::nonsense", "", ()),
]
for _ in range(int(sys.argv[2])):
    for call in calls:
        try:
            probe.call(*call)
        except (RuntimeError, ValueError):
            pass
    for shape in ((2, 3), (0,)):
        probe.blob(shape, None)
        probe.empty("f32", shape)
    probe.round_trips(x, 3)
    handle = probe.take(x)
    probe.view(handle)
    probe.release_elsewhere(handle, 4, 10)
