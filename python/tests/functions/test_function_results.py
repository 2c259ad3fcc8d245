"""What comes back: arrays of the caller's framework, several results, open ones, optional ones, other kinds."""

import array
import contextlib
import copy
import gc
import importlib
import pickle
import sys

import pytest
from building import build, run_python, same_counts, tenon
from handmade import DTYPES, Echo

numpy = pytest.importorskip("numpy")

FLOATS = [1.0, 2.0, 3.0]
NAMES = {
    "bool": "bool",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}


def listed(result):
    """The numbers of an array of any framework."""
    for name in ("tolist", "numpy"):
        if hasattr(result, name):
            numbers = getattr(result, name)()
            return numbers.tolist() if name == "numpy" else numbers
    return memoryview(result).tolist() if isinstance(result, tenon.Tensor) else numpy.asarray(result).tolist()


# --------------------------------------------------------------------------------------------------------- frameworks


@pytest.fixture(params=["numpy", "torch", "jax"])
def framework(request):
    """(name, make a f32 array, type of the results)"""
    module = pytest.importorskip(request.param)
    if request.param == "numpy":
        return "numpy", lambda values: numpy.array(values, "float32"), numpy.ndarray
    if request.param == "torch":
        return "torch", lambda values: module.tensor(values, dtype=module.float32), module.Tensor
    return "jax", lambda values: module.numpy.array(values, "float32"), module.Array


def test_the_caller_s_framework(kernels, framework):
    _, make, kind = framework
    x, y = make(FLOATS), make([10, 20, 30])
    with same_counts(x, y):
        z = kernels.saxpy(2.0, x, y)
        assert isinstance(z, kind) and listed(z) == [12, 24, 36]
        del z
    assert listed(x) == FLOATS and listed(y) == [10, 20, 30]


def test_results_are_plain(kernels, framework):
    """In C order, aligned, owned by nobody else, and writable where the framework's arrays are."""
    name, make, _ = framework
    z = kernels.saxpy(2, make(FLOATS), make(FLOATS))
    if name == "numpy":
        assert z.flags.c_contiguous and z.flags.owndata and z.flags.writeable and z.flags.aligned and z.base is None
        z.resize(5)  # only NumPy's own memory can
    elif name == "torch":
        assert z.is_contiguous() and z.is_leaf and not z.requires_grad and z.layout is sys.modules["torch"].strided
        z.add_(1)
        z.resize_(100)
        assert listed(z)[:3] == [4, 7, 10]
    else:
        assert listed(z + 1) == [4, 7, 10]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3), (2, 1, 3, 1)])
def test_shapes(kernels, framework, shape):
    _, make, kind = framework
    x = make(numpy.arange(numpy.prod(shape), dtype="float32").reshape(shape).tolist())
    if tuple(x.shape) != shape:  # no list says what (3, 0, 2) is
        x = x.reshape(shape)
    y = kernels.copy(x)
    assert isinstance(y, kind) and tuple(y.shape) == shape and listed(y) == listed(x)


def test_every_dtype_of_numpy(kernels):
    for ours, name in NAMES.items():
        if name == "bfloat16":
            continue
        x = numpy.array([0, 1, 1], name)
        y = kernels.copy(x)
        assert type(y) is numpy.ndarray and y.dtype == x.dtype and y.tolist() == x.tolist() and y is not x
        assert Echo(f"f(x: {ours}[n]) -> {ours}[n]")(x).dtype == x.dtype


def test_every_dtype_of_ml_dtypes(kernels):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        x = numpy.array([1, 2, 4], getattr(ml_dtypes, name))
        y = kernels.copy(x)
        assert y.dtype == x.dtype and y.astype("float32").tolist() == [1, 2, 4]


def test_every_dtype_of_torch(kernels):
    torch = pytest.importorskip("torch")
    names = [*NAMES.values(), "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
    for name in names:
        if not hasattr(torch, name):
            continue
        x = torch.tensor([0, 1, 1], dtype=torch.uint8).to(getattr(torch, name))
        y = kernels.copy(x)
        assert type(y) is torch.Tensor and y.dtype == x.dtype and torch.equal(y.view(torch.uint8), x.view(torch.uint8))


def test_every_dtype_of_jax(kernels):
    jax = pytest.importorskip("jax")
    for name in [*NAMES.values(), "float8_e4m3fn", "float8_e5m2"]:
        if name in ("int64", "uint64", "float64", "complex128"):
            continue  # without jax_enable_x64 there are none
        x = jax.numpy.array([0, 1, 1], name)
        y = kernels.copy(x)
        assert isinstance(y, jax.Array) and y.dtype == x.dtype and (y == x).all()


def test_dtype_that_a_framework_has_not(kernels):
    """JAX without jax_enable_x64 has no 64 bits; NumPy no float8 of its own."""
    jax = pytest.importorskip("jax")
    x = jax.numpy.array(FLOATS, "float32")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(BufferError, match=r"^positive\(\): result 0: JAX narrows 64-bit numbers") as caught:
            kernels.positive(x)
        assert str(caught.value).endswith('set jax_enable_x64, use numbers of 32 bits, or ask for a NumPy array (like="numpy")')
    finally:
        jax.config.update("jax_enable_x64", before)
    assert kernels.positive(x, like="numpy").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: array.array("f", FLOATS),
        lambda: memoryview(array.array("f", FLOATS)),
        lambda: tenon.to(array.array("f", FLOATS), "tenon"),
        lambda: memoryview(array.array("f", FLOATS).tobytes()).cast("f"),
    ],
    ids=["array", "memoryview", "tenon.Tensor", "bytes"],
)
def test_without_a_framework(kernels, make):
    """NumPy where the process has it; what is ours stays ours."""
    x = make()
    with same_counts(x):
        z = kernels.saxpy(2, x, x)
        assert type(z) is (tenon.Tensor if isinstance(x, tenon.Tensor) else numpy.ndarray)
        assert listed(z) == [3, 6, 9]
        del z


WITHOUT_NUMPY = """
import array, gc, sys
sys.modules["numpy"] = None
import tenon
kernels = tenon.load(sys.argv[1])
numbers = array.array("f", [1, 2, 3])
for x in (numbers, memoryview(numbers), memoryview(numbers.tobytes()).cast("f")):
    z = kernels.saxpy(2, x, x)
    assert type(z) is tenon.Tensor and memoryview(z).tolist() == [3, 6, 9] and not memoryview(z).readonly
    again = kernels.saxpy(2, z, x)
    assert type(again) is tenon.Tensor and memoryview(again).tolist() == [7, 14, 21]
assert memoryview(kernels.count_up(3)).tolist() == [0, 1, 2]
assert memoryview(kernels.positive(x)).tolist() == [0, 1, 2]
mean, centred, count = kernels.moments(x)
assert (mean, memoryview(centred).tolist(), count) == (2.0, [-1, 0, 1], 3)
view = memoryview(centred)
del centred, kernels
gc.collect()
assert view.tolist() == [-1, 0, 1]
try:
    tenon.load(sys.argv[1]).count_up(3, like="numpy")
except ImportError:
    print("no numpy")
assert not {"torch", "jax", "ml_dtypes"} & set(sys.modules)
"""


def test_without_numpy():
    assert run_python(WITHOUT_NUMPY, build("kernels.c")) == "no numpy\n"


def test_nothing_is_imported_unasked():
    code = """
    import array, sys
    import tenon
    kernels = tenon.load(sys.argv[1])
    x = array.array("f", [1, 2, 3])
    kernels.saxpy(2, x, x), kernels.count_up(3), kernels.positive(x)
    print(*{"numpy", "torch", "jax", "tensorflow", "cupy"} & set(sys.modules))
    kernels.count_up(3, like="numpy")
    print(*{"numpy", "torch", "jax", "tensorflow", "cupy"} & set(sys.modules))
    """
    assert run_python(code, build("kernels.c")) == "\nnumpy\n"


def test_mixes_follow_the_first_tensor(kernels):
    torch = pytest.importorskip("torch")
    ours, theirs = numpy.array(FLOATS, "float32"), torch.tensor(FLOATS)
    plain = array.array("f", FLOATS)
    assert type(kernels.saxpy(2, ours, theirs)) is numpy.ndarray
    assert type(kernels.saxpy(2, theirs, ours)) is torch.Tensor
    assert type(kernels.saxpy(2, plain, theirs)) is torch.Tensor  # a buffer has no framework
    assert type(kernels.saxpy(y=theirs, x=ours, a=2)) is numpy.ndarray  # by parameter, not by keyword


def test_mixes_with_jax(kernels):
    jax = pytest.importorskip("jax")
    ours, theirs = numpy.array(FLOATS, "float32"), jax.numpy.array(FLOATS, "float32")
    assert type(kernels.saxpy(2, ours, theirs)) is numpy.ndarray
    assert isinstance(kernels.saxpy(2, theirs, ours), jax.Array)


def test_array_api_strict(kernels):
    strict = pytest.importorskip("array_api_strict")
    x = strict.asarray([1.0, 2.0, 3.0], dtype=strict.float32)
    z = kernels.saxpy(2, x, x)
    assert type(z) is type(x) and [float(value) for value in z] == [3, 6, 9]
    for name in ("bool", "int8", "int64", "uint16", "float64", "complex64"):
        x = strict.asarray([0, 1, 1], dtype=strict.int64)
        x = strict.astype(x, getattr(strict, name))
        y = kernels.copy(x)
        assert type(y) is type(x) and y.dtype == x.dtype and bool(strict.all(y == x))
    assert type(kernels.count_up(3, like=x)) is type(x)


def test_subclasses(kernels):
    class Own(numpy.ndarray):
        pass

    x = numpy.array(FLOATS, "float32").view(Own)
    assert isinstance(kernels.saxpy(2, x, x), numpy.ndarray)
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.tensor(FLOATS), requires_grad=False)
    assert type(kernels.saxpy(2, parameter, parameter)) is torch.Tensor


# --------------------------------------------------------------------------------------------------------------- like=


def test_like_a_name_or_module(kernels):
    for name in ("numpy", "torch", "jax", "tenon"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        expected = (
            {"numpy": numpy.ndarray, "tenon": tenon.Tensor}.get(name) or getattr(module, "Tensor", None) or module.Array
        )
        for like in (name, module, kernels.count_up(2, like=name)):
            z = kernels.count_up(3, like=like)
            assert isinstance(z, expected) and listed(z) == [0, 1, 2]


def test_like_decides_over_the_arguments(kernels):
    torch = pytest.importorskip("torch")
    x = numpy.array(FLOATS, "float32")
    assert type(kernels.saxpy(2, x, x, like=torch)) is torch.Tensor
    assert type(kernels.saxpy(2, torch.tensor(FLOATS), x, like="numpy")) is numpy.ndarray
    assert type(kernels.saxpy(2, torch.tensor(FLOATS), x, like=None)) is torch.Tensor
    mean, centred, count = kernels.moments(x, like="torch")
    assert type(centred) is torch.Tensor
    assert type(kernels.positive(x, like="torch")) is torch.Tensor


def test_like_a_buffer(kernels):
    """It is no framework's."""
    for like in (b"", bytearray(3), array.array("f")):
        assert type(kernels.count_up(3, like=like)) in (tenon.Tensor, numpy.ndarray)


@pytest.mark.parametrize(
    "like, exception",
    [
        ("nummpy", ValueError),
        ("", ValueError),
        ("caf\u00e9", ValueError),
        (sys, ValueError),
        (3, TypeError),
        (numpy.ndarray, TypeError),
        (object(), TypeError),
    ],
)
def test_like_nothing(kernels, like, exception):
    with pytest.raises(exception, match=r"count_up\(\): argument 'like': "):
        kernels.count_up(3, like=like)


def test_like_an_odd_array(kernels):
    """Only its framework is asked for."""
    assert type(kernels.count_up(3, like=numpy.array(["text"]))) is numpy.ndarray


# -------------------------------------------------------------------------------------------- several, open, optional


def test_several(kernels, framework):
    _, make, kind = framework
    first, second = got = kernels.split(make([1, 2, 3, 4, 5]))
    assert type(got) is tuple and isinstance(first, kind) and isinstance(second, kind)
    assert (listed(first), listed(second)) == ([1, 2], [3, 4, 5])


def test_named():
    kernels = tenon.load(build("kernels.c"))
    got = kernels.moments(numpy.array(FLOATS, "float32"))
    assert isinstance(got, tuple) and type(got)._fields == ("mean", "centred", "count")
    assert (got.mean, got.centred.tolist(), got.count) == (2.0, [-1, 0, 1], 3)
    assert type(got).__name__ == "moments_result" and type(got).__module__ == "kernels"
    assert type(kernels.moments(numpy.array(FLOATS, "float32"))) is type(got)
    assert got == (2.0, got.centred, 3)


NAMED = """
    #include <tenon/function.h>

    static tenon_status pair(tenon_call *call)
    {
        bool wrong = tenon_arg_bool(call, 0);
        tenon_return_int(call, 0, 1000);
        tenon_return_str(call, 1, wrong ? "\\xff" : "two", wrong ? 1 : 3);
        return TENON_OK;
    }

    TENON_MODULE(named, "", TENON_FUNCTION("pair(wrong: bool) -> number: int, text: str", pair, ""))
    """


def test_named_ones_are_ordinary_tuples():
    """They are made without calling the type, and are what calling it makes."""
    named = tenon.load(build(NAMED))
    got, plain = named.pair(False), (1000, "two")
    called = type(got)(*plain)
    assert got == called == plain and type(got) is type(called) is named.pair_result
    assert hash(got) == hash(called) == hash(plain)
    assert sys.getsizeof(got) == sys.getsizeof(called)
    assert gc.is_tracked([got]) and len({got, called, plain}) == 1
    assert got._asdict() == {"number": 1000, "text": "two"} and got._replace(number=1) == (1, "two")
    assert repr(got) == "pair_result(number=1000, text='two')" == repr(called)
    with pytest.raises(RuntimeError, match="not UTF-8"):  # the tuple is half filled
        named.pair(True)
    counts = []
    for _ in range(100):
        with contextlib.suppress(RuntimeError):
            named.pair(True)
        named.pair(False)
        counts.append(sys.getrefcount(type(got)))
    assert counts[-1] == counts[50]


def test_named_as_methods_of_tuples():
    """A field hides the method; the method of tuple still works."""
    got = Echo("f() -> count: int, index: float, self: bool, cls: str, mro: int")()
    assert got._fields == ("count", "index", "self", "cls", "mro")
    assert (got.count, got.index, got.self, got.cls, got.mro) == tuple(got) == (7, 2.5, True, "echo", 7)
    assert tuple.index(got, 2.5) == 1 and tuple.count(got, 7) == 2
    assert repr(got).endswith("_result(count=7, index=2.5, self=True, cls='echo', mro=7)")
    assert got._replace(index=3) == (7, 3, True, "echo", 7) and got._asdict()["count"] == 7
    assert pickle.loads(pickle.dumps(got)) == copy.deepcopy(got) == got


@pytest.mark.parametrize("name", ["_fields", "_replace", "__class__", "_", "in", "None"])
def test_names_that_no_field_can_have(name):
    with pytest.raises(ImportError, match=rf"(must start with a letter|{name})"):
        Echo(f"f() -> {name}: int")


def test_one_that_is_named():
    """A named tuple of one, as the signature says."""
    got = Echo("f() -> total: int")()
    assert isinstance(got, tuple) and got.total == 7 and len(got) == 1


def test_sixteen():
    got = Echo(f"f() -> {', '.join(['f32[]', 'int'] * 8)}")()
    assert len(got) == 16 and [type(value) for value in got] == [numpy.ndarray, int] * 8


def test_open(kernels, framework):
    name, make, kind = framework
    like = "numpy" if name == "jax" else None  # which has no i64
    for function in (kernels.positive, kernels.positive_shaped):
        for values in ([1, -1, 2], [-1.0], [5.0] * 100):
            got = function(make(values), like=like)
            assert isinstance(got, kind if like is None else numpy.ndarray)
            assert listed(got) == [i for i, value in enumerate(values) if value > 0]


def test_open_among_known_sizes():
    echo = Echo("f(x: f32[n]) -> f32[n, ?], f32[?, n + 1]")
    echo.leave_open(3, 4)
    first, second = echo(numpy.zeros(3, "float32"))
    assert first.shape == second.shape == (3, 4)
    with pytest.raises(RuntimeError) as caught:
        echo(numpy.zeros(2, "float32"))
    assert str(caught.value) == "f(): result 0: expected f32[n, ?], but the function asked for shape [3, 4]"


def test_optional(kernels, framework):
    _, make, kind = framework
    x = make(FLOATS)
    assert kernels.maybe(x, False) == (None,) * 5
    tensor, *others = kernels.maybe(x, True)
    assert isinstance(tensor, kind) and listed(tensor) == FLOATS
    assert others == [3, 0.5, False, "given"]


def test_scalars(kernels):
    got = kernels.scalars()
    assert got == (-(2**63), -0.5, True, "caf\u00e9\0x", "b")
    assert [type(value) for value in got] == [int, float, bool, str, str]


@pytest.mark.parametrize(
    "kind, value", [("int", 7), ("float", 2.5), ("bool", True), ("str", "echo"), ("'x'|'y'", "x"), ("int?", 7)]
)
def test_one_scalar(kind, value):
    got = Echo(f"f() -> {kind}")()
    assert got == value and type(got) is type(value)


def test_none():
    assert Echo("f(a: int)")(3) is None


def test_more_arrays_than_usual(kernels):
    arrays = [numpy.full(1, 2.0**i) for i in range(10)]
    with same_counts(*arrays):
        got = kernels.many(*arrays)
        assert [float(value) for value in got] == [1023 + i for i in range(5)]
        assert [float(value) for value in kernels.many(*arrays[:7])] == [127 + i for i in range(5)]
        with pytest.raises(TypeError, match="argument 'k'"):
            kernels.many(*arrays[:9], k="text")
        del got


# ----------------------------------------------------------------------------------------------------------- lifetimes


def test_results_outlive_the_library(framework):
    _, make, _ = framework
    loaded = tenon.load(build("kernels.c"))
    x = make(FLOATS)
    z, named = loaded.saxpy(2, x, x), loaded.moments(x, like="numpy")
    del loaded, x
    gc.collect()
    assert listed(z) == [3, 6, 9] and named.count == 3 and named.centred.tolist() == [-1, 0, 1]


def test_functions_outlive_the_module():
    saxpy = tenon.load(build("kernels.c")).saxpy
    gc.collect()
    x = numpy.array(FLOATS, "float32")
    assert saxpy(1, x, x).tolist() == [2, 4, 6]


def test_views_of_a_function():
    """Results are fresh and to be written; arguments are as the signature says."""
    written, fresh, read_only = 1 << 11, 1 << 12, 1
    echo = Echo("f(x: f32[n], y: f32[n] rw) -> f32[n]")
    x, y = numpy.zeros(3, "float32"), numpy.zeros(3, "float32")
    x.flags.writeable = False
    z = echo(x, y)
    seen = echo.seen
    assert [view["value"]["data"] for view in seen["args"]] == [x.ctypes.data, y.ctypes.data]
    assert seen["results"][0]["data"] == z.ctypes.data
    flags = [view["value"]["flags"] for view in seen["args"]] + [seen["results"][0]["flags"]]
    assert [bool(f & written) for f in flags] == [False, True, True]
    assert [bool(f & fresh) for f in flags] == [False, False, True]
    assert [bool(f & read_only) for f in flags] == [True, False, False]
    echo(x, y, out=z)
    assert echo.seen["results"][0]["flags"] & (written | fresh) == written
    assert seen["device"] == 1


def test_every_dtype_has_a_result():
    for name in DTYPES:
        if name == "bf16":
            continue
        assert Echo(f"f() -> {name}[2]")(like="numpy").shape == (2,)


@pytest.mark.parametrize("like", [None, "numpy", "tenon", "torch"])
@pytest.mark.parametrize("sizes", [(2**62, 3), (2**62, 2**62)])
def test_a_size_that_no_memory_has(like, sizes):
    """In our words, whatever framework would have to make it."""
    if like == "torch":
        pytest.importorskip("torch")
    echo = Echo("f(n: int, m: int) -> f32[n, m]")
    with pytest.raises(OverflowError, match=rf"^f\(\): result 0: f32\[{sizes[0]}, {sizes[1]}\] has more bytes than 64 bits"):
        echo(*sizes, like=like)


def test_a_framework_that_is_named_and_refuses():
    jax = pytest.importorskip("jax")
    if jax.config.jax_enable_x64:
        pytest.skip("this JAX has 64 bits")
    with pytest.raises(BufferError, match=r"^f\(\): argument 'like': .*like=\"numpy\""):
        Echo("f(n: int) -> i64[n]")(3, like="jax")
