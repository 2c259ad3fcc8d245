"""The torch.Tensor object itself crosses, with the only version of torch that pyo3-tch supports."""
from groups.arrays import make, pick
from groups.crossings import checker

SHOWN = ("empty call", "limit", "tenon, same object", "torch C++ extension", "pyo3-tch")
TITLES = {"import": "import and release", "through": "in and out"}


def same_object_group(session):
    import torch
    contenders = [(name, operations) for name, operations in session.contenders() if name in SHOWN]
    producer = "torch " + ".".join(torch.__version__.split(".")[:2])
    session.say(total=len(TITLES))
    for key, title in TITLES.items():
        candidates = {name: (function, make("torch", 1)) for name, operations in contenders
                      if (function := pick(operations, key, "torch"))}
        session.compare(title, producer, candidates, check=checker(key, candidates))
