"""Whole functions: six elements for the call's own cost, long vectors for the loops."""
from groups.arrays import make, pick
from groups.parallel_loops import parallel_rows


def close(answer, expected):
    import numpy
    if not hasattr(answer, "__array__") and hasattr(answer, "__dlpack__"):
        answer = numpy.from_dlpack(answer)
    return numpy.allclose(numpy.asarray(answer), expected)


def functions_group(session):
    contenders = session.contenders()
    import numpy
    base = numpy.arange(6, dtype="float32")
    producers = []
    for producer in ("numpy", "torch", "jax"):
        try:
            make(producer, 1)
            producers.append(producer)
        except ImportError as problem:
            session.say(problem={"peer": producer, "reason": str(problem)})
    session.say(total=5 * len(producers) + ("torch" in producers))
    for producer in producers:
        for operation, scalars, expected in (("saxpy", [2.0], 3 * base), ("dot", [], 55.0)):
            session.compare(operation, producer, {
                name: (function, [*scalars, *make(producer, 2, (6,))]) for name, operations in contenders
                if (function := pick(operations, operation, producer))}, check=lambda a, e=expected: close(a, e))
        if producer == "torch":  # views, which have metadata of autograd
            session.compare("dot of two rows", producer, {
                name: (function, list(make(producer, 1, (2, 6))[0])) for name, operations in contenders
                if (function := pick(operations, "dot", producer))}, check=lambda a: close(a, 145.0))
        for operation, count in (("take2", 2), ("take6", 6)):
            measured = session.compare(f"checked arguments, {count}", producer, {
                name: (function, make(producer, count, (6,))) for name, operations in contenders
                if (function := pick(operations, operation, producer))})
            if operation == "take2":
                two = measured
        for name, values in measured.items():
            if name in two:
                each = (values["ns"] - two[name]["ns"]) / 4
                session.row("each further argument", producer, name, ns=each, spread=None)
        # dot allocates nothing, so it is compared with the bare borrow of its two arguments, in the same rounds.
        session.compare("dot beside two borrows", producer, {
            f"{name}: {title}": (function, make(producer, 2, (6,))) for name, operations in contenders
            if name.startswith("tenon") for title, key in (("dot", "dot"), ("two borrows", "borrow2"))
            if (function := pick(operations, key, producer))})


def loops_group(session):
    """A sum over 65,536 elements, dense and every second one: Tenon's accessors beside raw pointers. Then parallel loops."""
    import numpy

    import peer_builds
    if not {"tenon", "c"} <= session.built.keys():
        return
    functions = dict(session.contenders(only=("tenon",)))["tenon"]
    raw = peer_builds.peer("c").raw_loops(session.folder / "c")
    session.say(total=6)  # those of parallel_rows come later
    for dtype, code in (("f32", "f4"), ("i64", "i8"), ("u8", "u1")):
        array = numpy.ones(1 << 17, code)
        for way, x in (("dense", array[: 1 << 16]), ("strided", array[::2])):
            operation = f"{way} {dtype}"
            step = [x.strides[0] // x.itemsize] if way == "strided" else []
            session.compare(f"sum of 65,536 {dtype}, {way}", "numpy", {
                "tenon": (functions[operation], [x]),
                "raw C": (raw[operation], [x.ctypes.data, x.size, *step]),
            }, check=lambda a: a == 1 << 16)
    parallel_rows(session)
