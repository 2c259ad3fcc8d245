"""The layer of torch_transforms.c: how tests load it, and the same in pure torch."""

import pytest
from operators import HERE, VERSION, compiled_library, tenon, torch

if VERSION < (2, 6):
    pytest.skip("the transforms of operators need torch 2.6", allow_module_level=True)
DERIVATIVES = {
    "backward": {
        "wave": "wave_grad",
        "wave_grad": "wave_grad_grad",
        "wave_jvp": "wave_jvp_grad",
        "blend": "blend_grad",
        "turn": "turn_grad",
    },
    "forward": {"wave": "wave_jvp", "wave_grad": "wave_grad_jvp", "wave_jvp": "wave_jvp_jvp"},
}


def load_transforms(tmp_path_factory):
    return tenon.load(compiled_library(tmp_path_factory.mktemp("transforms"), HERE / "torch_transforms.c", "-lm"))


def wave(x, w):
    return x.sin() * w


def doubles(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
