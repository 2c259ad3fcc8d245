"""JAX operators: tenon.jax_ops beside jnp, jax-tvm-ffi and a callback, and eager calls of functions beside jax.jit.

The operators compute a * x + y on six elements of f32.
"""
import warnings

from groups.arrays import make
from groups.functions import close

CHAIN = 65  # calls in one program, to find the time of each further one


def tenon_operators(session):
    """(operators for traced code, functions for eager calls)."""
    import peer_builds
    import jax
    import numpy
    tenon = peer_builds.peer("tenon").package(session.folder / "tenon")
    kernels, more = (tenon.load(session.folder / f"tenon/{name}.so") for name in ("kernels", "more"))

    def callback(a, x, y):
        return jax.pure_callback(lambda x, y: kernels.saxpy(a, numpy.asarray(x), numpy.asarray(y)),
                                 jax.ShapeDtypeStruct(x.shape, x.dtype), x, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # functions that return nothing are left out
        operator = tenon.jax_ops(kernels).saxpy
    return {"tenon": operator, "tenon, pure_callback": callback}, {"saxpy": kernels.saxpy, "add": more.add}


def chain(operator, count):
    """A program with `count` calls, each of which needs the result of the one before."""
    import jax

    def calls(x, y):
        for _ in range(count):
            y = operator(0.5, x, y)
        return y

    return jax.jit(calls)


def operators_inside_jit(session, operators):
    import numpy
    base = numpy.arange(6, dtype="float32")

    def compare(title, operators, count):
        return session.compare(title, "jax", {name: (chain(operator, count), make("jax", 2, (6,)))
                                              for name, operator in operators.items()},
                               check=lambda z: close(z, base + count * 0.5 * base))

    one = compare("operator, one call in jit", operators, 1)
    calls = {name: operator for name, operator in operators.items() if name in ("tenon", "jax-tvm-ffi")}
    many = compare(f"operator, {CHAIN} calls in jit", calls, CHAIN)
    for name, values in many.items():
        each = (values["ns"] - one[name]["ns"]) / (CHAIN - 1)
        session.row("operator, each further call in jit", "jax", name, ns=each, spread=None)


def eager_calls(session, functions):
    import jax
    import numpy
    base = numpy.arange(6, dtype="float32")
    for title, name, numbers, jitted, expected in (
            ("eager call with a number", "saxpy", [2.0], jax.jit(lambda a, x, y: a * x + y), 3 * base),
            ("eager call", "add", [], jax.jit(lambda x, y: x + y), 2 * base)):
        candidates = {"tenon, the function": functions[name]} if functions else {}
        session.compare(title, "jax", {
            contender: (function, [*numbers, *make("jax", 2, (6,))])
            for contender, function in {**candidates, "jax.jit": jitted}.items()}, check=lambda z, e=expected: close(z, e))


def jax_operators_group(session):
    import peer_builds
    try:
        import jax
    except ImportError as problem:
        session.say(problem={"peer": "group jax operators", "reason": str(problem)})
        return
    operators, functions = tenon_operators(session) if "tenon" in session.built else ({}, {})
    operators["jax.numpy"] = lambda a, x, y: a * x + y
    if "jax_tvm_ffi" in session.built:
        operators["jax-tvm-ffi"] = peer_builds.peer("jax_tvm_ffi").saxpy(session.folder / "jax_tvm_ffi")
        session.versions["jax-tvm-ffi"] = session.built["jax_tvm_ffi"]
    session.versions.update({name: jax.__version__ for name in ("jax.numpy", "jax.jit")})
    session.say(total=4)
    operators_inside_jit(session, operators)
    eager_calls(session, functions)
