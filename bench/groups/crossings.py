"""Small arrays in and out: what the way across costs.

Every contender gets arrays of its own in every row: who keeps a count on a torch tensor makes the next one's crossing
cheaper, since torch then need not tell the Python object.
"""
from groups.arrays import make, pick

TITLES = {"borrow": ("borrow", 1), "borrow2": ("borrow two", 2), "borrow3": ("borrow three", 3),
          "import": ("import and release", 1), "through": ("in and out", 1), "stream": ("borrow with its stream", 1)}


def crossing_group(producer):
    def run(session):
        try:
            make(producer, 1)
        except (ImportError, RuntimeError, AssertionError) as problem:
            session.say(problem={"peer": producer, "reason": str(problem).splitlines()[0]})
            return
        contenders = session.contenders()
        on_device = " on " in producer
        titles = {key: value for key, value in TITLES.items() if (key == "stream") <= on_device}
        makes = ["make " + producer] if producer in ("numpy", "torch") else []
        session.say(total=len(titles) + len(makes))
        for key, (title, count) in titles.items():
            session.compare(title, producer, {
                name: (function, make(producer, count)) for name, operations in contenders
                if (function := pick(operations, key, producer))})
        for key in makes:
            session.compare(f"new memory as {producer}", producer, {
                name: (function, []) for name, operations in contenders
                if (function := pick(operations, key, producer))}, check=lambda a: tuple(a.shape) == (2, 3))
    # `tenon.Tensor` needs the package on the path before its arrays are made.
    def with_package(session):
        if producer == "tensor":
            import building
            if "tenon" not in session.built:
                return
            building.peer("tenon").package(session.folder / "tenon")
        run(session)
    return with_package
