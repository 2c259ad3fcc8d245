"""Small arrays in and out: what the way across costs.

Every contender gets arrays of its own in every row: who keeps a count on a torch tensor makes the next one's crossing
cheaper, since torch then need not tell the Python object.
"""
from groups.arrays import make, pick

TITLES = {"borrow": ("borrow", 1), "borrow2": ("borrow two", 2), "borrow3": ("borrow three", 3),
          "import": ("import and release", 1), "through": ("in and out", 1), "stream": ("borrow with its stream", 1)}


def same(array):
    return array


def crossing_group(producer):
    def run(session):
        contenders = session.contenders()
        try:
            make(producer, 1)  # a tenon.Tensor is made by the package that the contenders have loaded
        except (ImportError, RuntimeError, AssertionError) as problem:
            session.say(problem={"peer": producer, "reason": str(problem).splitlines()[0]})
            return
        titles = {key: value for key, value in TITLES.items() if key != "stream" or " on " in producer}
        makes = ["make " + producer] if producer in ("numpy", "torch") else []
        session.say(total=len(titles) + len(makes))
        for key, (title, count) in titles.items():
            session.compare(title, producer, {
                name: (function, [operations.get("prepare", same)(array) for array in make(producer, count)])
                for name, operations in contenders if (function := pick(operations, key, producer))})
        for key in makes:
            session.compare(f"new memory as {producer}", producer, {
                name: (function, []) for name, operations in contenders
                if (function := pick(operations, key, producer))}, check=lambda a: tuple(a.shape) == (2, 3))
    return run
