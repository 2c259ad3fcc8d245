"""Objects with methods, and memory that stays: each beside the plain function or the crossing that does the same."""
from groups.arrays import make
from groups.functions import close


def objects_group(session):
    import peer_builds
    import numpy
    if "tenon" not in session.built:
        return
    functions = dict(session.contenders(only=("tenon",)))
    tenon = peer_builds.peer("tenon").package(session.folder / "tenon")
    ours = tenon.load(session.folder / "tenon/objects.so")
    tree = ours.Tree()
    session.say(total=6)

    point = numpy.array([[3, 1, 4]], "float32")
    expected = tree.query(point).rows
    session.compare("query of one point", "numpy", {
        "tenon: method": (tree.query, [point]), "tenon: function": (ours.query, [point.copy()]),
    }, check=lambda answer: close(answer.rows, expected))

    session.compare("query of one point, k given", "numpy", {
        "tenon: method": (tree.query, [point, 1]), "tenon: function": (ours.query, [point.copy(), 1]),
    }, check=lambda answer: close(answer.rows, expected))

    numbers = {"a": 1.0, "b": 2.0, "c": 3.0}
    methods = {"tenon": tree.mix}
    if "nanobind" in session.built:
        methods["nanobind"] = peer_builds.load_file(session.folder / "nanobind/objects.so").Tree().mix
    session.compare("method with three keywords", "numbers", {
        name: (method, numbers) for name, method in methods.items()}, check=lambda answer: answer == 14)

    session.compare("two results", "numpy", {
        "tenon: named": (ours.named_bounds, make("numpy", 1, (6,))), "tenon: plain": (ours.bounds, make("numpy", 1, (6,))),
    }, check=lambda answer: tuple(answer) == (0, 5))

    session.compare("new vector", "numpy", {
        "tenon: from a number": (ours.ones, [6]), "tenon: from an array": (ours.ones_like, make("numpy", 1, (6,))),
    }, check=lambda answer: close(answer, [1] * 6))

    measured = session.compare("keep and release", "numpy", {
        "tenon: keep": (ours.keep, make("numpy", 1)), "tenon: the call alone": (ours.look, make("numpy", 1)),
        "tenon: tenon_py_import": (functions["tenon"]["import"]["numpy"], make("numpy", 1))})
    more = measured["tenon: keep"]["ns"] - measured["tenon: the call alone"]["ns"]
    session.row("keep and release", "numpy", "tenon: keep, without the call", ns=more, spread=None)
