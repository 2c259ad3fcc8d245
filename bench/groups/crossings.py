"""Small arrays in and out: the cost of a crossing.

Every contender gets arrays of its own in every row: who keeps a count on a torch tensor makes the next one's crossing
cheaper, since torch then need not tell the Python object.
"""
from groups.arrays import make, memory, pick

TITLES = {"borrow": ("borrow", 1), "borrow2": ("borrow two", 2), "borrow3": ("borrow three", 3),
          "held": ("borrow, second holder", 1), "import": ("import and release", 1), "through": ("in and out", 1), "stream": ("borrow with its stream", 1)}


def same(array):
    return array


def hold(tensor):
    """A torch tensor that holds the given one from C++, as its gradient."""
    import torch
    holder = torch.zeros_like(tensor, requires_grad=True)
    holder.grad = tensor
    return holder


def checker(key, candidates):
    """The check of a result before it is timed. A crossing that only reads returns nothing, so it must only not raise."""
    given = [array for _, arrays in candidates.values() for array in arrays]

    def in_and_out(answer):
        """The same object, or another one on the same memory with the same values."""
        return any(answer is array for array in given) or memory(answer) in map(memory, given)

    def imported(answer):
        """The frameworks' from_dlpack returns an array, which may be a copy."""
        return answer is None or memory(answer)[1] == memory(given[0])[1]

    return {"through": in_and_out, "import": imported}.get(key)


def new(array):
    return tuple(array.shape) == (2, 3) and str(array.dtype).endswith("float32")


def crossing_group(producer):
    def run(session):
        contenders = session.contenders()
        try:
            make(producer, 1)  # a tenon.Tensor is made by the package that the contenders have loaded
        except (ImportError, RuntimeError, AssertionError) as problem:
            session.say(problem={"peer": producer, "reason": str(problem).splitlines()[0]})
            return
        titles = {key: value for key, value in TITLES.items() if (key != "stream" or " on " in producer)
                  and (key != "held" or producer == "torch")}
        makes = ["make " + producer] if producer in ("numpy", "torch") else []
        session.say(total=len(titles) + len(makes))
        for key, (title, count) in titles.items():
            candidates = {
                name: (function, [operations.get("prepare", same)(array) for array in make(producer, count)])
                for name, operations in contenders
                if (function := pick(operations, "borrow" if key == "held" else key, producer))}
            holders = [hold(array) for _, arrays in candidates.values() for array in arrays if key == "held"]
            session.compare(title, producer, candidates, check=checker(key, candidates))
            del holders
        for key in makes:
            session.compare(f"new memory as {producer}", producer, {
                name: (function, []) for name, operations in contenders
                if (function := pick(operations, key, producer))}, check=new)
    return run
