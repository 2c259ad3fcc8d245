"""tenon.torch_ops: kernels in C do what the Python kernels do, without Python, its lock, or a leak."""

import gc
import os
import random
import resource
import subprocess
import sys
import threading
import warnings

import pytest
from operators import HERE, VERSION, compiled_library, tenon, torch
from random_calls import copied, random_arguments, same
from waiting import until_asleep, wait_until

from tenon import _torch_native, _torch_ops

if VERSION < (2, 10):
    pytest.skip("torch has no kernels in C before 2.10", allow_module_level=True)

# Their results are not written.
EMPTY = ("weighted_grad", "spread", "batch", "by_keyword", "shrink", "trim", "plain_words")
PLACES = 256


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    make = tmp_path_factory.mktemp
    return [
        tenon.load(compiled_library(make("ops"), HERE / "torch_ops.c")),
        tenon.load(compiled_library(make("kernels"), HERE / "torch_kernels.c", "-ldl")),
    ]


@pytest.fixture(scope="module")
def both(libraries):
    """The names of all operators, with kernels in C as torch.ops.tenon_in_c, and in Python as torch.ops.tenon_in_py."""
    made, names = [], []
    before = _torch_native.kernel_count()
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        for library in libraries:
            made.append(tenon.torch_ops(library, name="tenon_in_c"))
            names += [name for name in dir(made[-1]) if name != "close"]
        in_c = _torch_native.kernel_count() - before
        patch.setattr(_torch_ops, "kernels_in_c", False)
        made += [tenon.torch_ops(library, name="tenon_in_py") for library in libraries]
    assert _torch_native.kernel_count() - before == in_c > 20
    yield names
    for ops in made:
        ops.close()
    assert _torch_native.kernel_count() == before


@pytest.fixture
def kernels(both):
    return torch.ops.tenon_in_c


# ------------------------------------------------------------------------------------------------------------ the same


def outcome(namespace, name, args, kwargs):
    args = [copied(value) for value in args]
    kwargs = {key: copied(value) for key, value in kwargs.items()}
    tensors = [value for value in [*args, *kwargs.values()] if isinstance(value, torch.Tensor)]
    versions = [None if value.is_inference() else value._version for value in tensors]
    try:
        made = getattr(getattr(torch.ops, namespace), name)(*args, **kwargs)
        made = made if isinstance(made, (tuple, list)) else [] if made is None else [made]
    except (RuntimeError, TypeError, ValueError, OverflowError, IndexError, BufferError) as error:
        made = str(error).replace(namespace, "NAMESPACE")
    counted = [before is not None and value._version - before for value, before in zip(tensors, versions)]
    return made, counted, [value.tolist() for value in tensors]


def test_random_calls_do_the_same(both):
    chance = random.Random(18)
    names = [name for name in both if name not in ("alone", "alone_too", "together", "gate", "has_lock", "on_gpu", "huge")]
    refused = done = 0
    for _ in range(2000):
        name = chance.choice(names)
        args, kwargs = random_arguments(chance, getattr(torch.ops.tenon_in_c, name).default._schema)
        with torch.inference_mode(chance.random() < 0.3), torch.set_grad_enabled(chance.random() < 0.8):
            found, expected = (outcome(space, name, args, kwargs) for space in ("tenon_in_c", "tenon_in_py"))
        assert found[1] == expected[1], (name, args)
        assert name in EMPTY or str(found[2]) == str(expected[2])  # NaN is not equal to itself
        if isinstance(expected[0], str):
            assert found[0] == expected[0]
            refused += 1
            continue
        assert len(found[0]) == len(expected[0]) and all(map(same, found[0], expected[0])), (name, args, found[0])
        assert name in EMPTY or str([x.tolist() for x in found[0]]) == str([x.tolist() for x in expected[0]])
        done += 1
    assert refused > 300 and done > 300


@pytest.mark.parametrize("how", range(-1, 7))
def test_a_failing_function(both, how):
    x = torch.ones(3, dtype=torch.float64)
    found = outcome("tenon_in_c", "fail", [x, how], {})
    assert found == outcome("tenon_in_py", "fail", [x, how], {})
    assert found[1:] == ([1], [[2.0, 1.0, 1.0]])
    assert found[0] == [] if how < 0 else found[0].startswith("fail(): ")


def test_memory_that_is_not_there(both):
    def freed():
        x = torch.ones(4)
        x.untyped_storage().resize_(0)
        return x

    said = []
    for space in ("tenon_in_c", "tenon_in_py"):
        with pytest.raises((RuntimeError, BufferError)) as error:
            getattr(torch.ops, space).layout(freed())
        said.append(str(error.value))
        with pytest.raises(RuntimeError, match=r"huge\(\): result 0: .*allocate") as error:
            getattr(torch.ops, space).huge(freed()[:0].new_ones(1000))
        said.append(str(error.value))
    assert said[0] == said[2] and "no memory" in said[0]
    assert said[1] == said[3] or VERSION < (2, 13)  # torch writes its reason to stderr


def test_results_that_the_function_did_not_set(both):
    x = torch.ones(3, dtype=torch.float64)
    for name in ("forget", "forget_number"):
        found, expected = outcome("tenon_in_c", name, [x], {}), outcome("tenon_in_py", name, [x], {})
        assert found == expected and "without setting result 0" in found[0]


def test_the_object_raises_what_the_function_raises(libraries, both):
    ops = next(ops for ops in _torch_ops._registered if ops._namespace == "tenon_in_c" and hasattr(ops, "saxpy"))
    x, wrong, short = torch.ones(3), torch.ones(3).double(), torch.ones(2)
    cases = [("saxpy", (2.0, x, wrong)), ("saxpy", (2.0, x, short)), ("saxpy", (2.0, x, x[:, None]))]
    cases += [("fail", (wrong.clone(), how)) for how in range(7)]
    for name, args in cases:
        with pytest.raises(Exception) as expected:
            getattr(libraries[1], name)(*args)
        for mode in (torch.inference_mode(), torch.no_grad(), torch.enable_grad()):
            with mode, pytest.raises(Exception) as found:
                getattr(ops, name)(*args)
            assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value))


def test_many_dimensions(kernels):
    x = torch.ones([1, 2] * 10)
    assert kernels.layout(x).tolist() == [*x.shape, *x.stride()]


def test_optional_arguments_are_in_c(libraries):
    before = _torch_native.kernel_count()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ops = tenon.torch_ops(libraries[1], name="tenon_optional")
    places = _torch_native.kernel_count() - before
    assert places == len(dir(ops)) - 1 - 1  # close, and kept_lock
    ops.close()


# --------------------------------------------------------------------------------------------------------------- torch


def test_opcheck(kernels):
    x = torch.ones(4, dtype=torch.float64)
    torch.library.opcheck(kernels.stats.default, (x,))
    torch.library.opcheck(kernels.add_to.default, (x.clone(), x))
    torch.library.opcheck(kernels.saxpy.default, (2.0, torch.ones(3), torch.ones(3)))


def test_compiled(kernels):
    def function(x, y):
        return kernels.saxpy(2.0, x + 1, y) * 2

    x = torch.arange(3.0)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, x), function(x, x))
    torch._dynamo.reset()


def test_inference_mode(kernels):
    with torch.inference_mode():
        x = torch.arange(3.0)
        made = kernels.saxpy(2.0, x, x)
        assert made.is_inference() and made.tolist() == [0, 3, 6]


def test_copy_on_write_is_not_copied_by_a_read(kernels):
    x = torch.arange(4.0)
    if not hasattr(torch._C, "_is_cow_tensor"):
        pytest.skip("this torch cannot tell")
    y = x._lazy_clone()
    kernels.saxpy(1.0, y, y)
    assert torch._C._is_cow_tensor(y) and torch._C._is_cow_tensor(x)


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
def test_backward_in_torchs_thread(libraries):
    ops = tenon.torch_ops(libraries[0], name="tenon_back", backward={"dot": "dot_grad"})
    x = torch.arange(4.0, dtype=torch.float64, requires_grad=True)
    ops.dot(x, x).backward()
    assert torch.equal(x.grad, 2 * x.detach())
    ops.close()


# ----------------------------------------------------------------------------------------------------- lock and threads


def test_no_interpreter_lock(kernels):
    x = torch.ones(2)
    assert not kernels.has_lock(x).item()
    assert kernels.kept_lock(x).item()  # a function may ask for it: its kernel is Python's
    assert torch.ops.tenon_in_py.has_lock(x).item()


def started(count, function):
    """Threads that call the function, and the list in which its results will be."""
    made = []
    threads = [threading.Thread(target=lambda: made.append(function())) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, made


def in_threads(count, function):
    threads, made = started(count, function)
    for thread in threads:
        thread.join()
    assert len(made) == count
    return made


def inside(kernels, count):
    """Wait until so many calls are inside."""
    x = torch.ones(2)
    wait_until(lambda: kernels.gate(x, False).item() == count, f"there are not {count} calls inside")


def test_a_tensor_whose_memory_is_replaced_while_the_call_waits(kernels):
    x, waiting, raised = torch.ones(3), torch.ones(1000), []

    def wait():
        try:
            kernels.alone_too(waiting)
        except RuntimeError as error:
            raised.append(str(error))

    kernels.gate(x, False)
    (first,), _ = started(1, lambda: kernels.alone(x))
    inside(kernels, 1)
    (second,), _ = started(1, wait)
    until_asleep(second)
    waiting.untyped_storage().resize_(0)
    kernels.gate(x, True)
    first.join()
    second.join()
    assert raised and raised[0].startswith("alone_too(): argument 'x': ")


@pytest.mark.parametrize("name", ["together", "alone"])
def test_other_python_threads_go_on(kernels, name):
    """The call ends because another thread opens the gate."""
    x = torch.ones(2)

    def open_gate():
        inside(kernels, 1)
        kernels.gate(x, True)

    kernels.gate(x, False)
    (thread,), _ = started(1, open_gate)
    assert getattr(kernels, name)(x).item() == 1
    thread.join()


def test_one_function_of_a_library_runs_at_a_time(kernels):
    x = torch.ones(2)
    kernels.gate(x, False)
    kernels.gate(x, True)
    names = iter(["alone", "alone_too"] * 6)
    found = in_threads(12, lambda: getattr(kernels, next(names))(x).item())
    assert set(found) == {1}


def test_functions_that_release_the_lock_run_together(kernels):
    x = torch.ones(2)
    kernels.gate(x, False)
    threads, found = started(4, lambda: kernels.together(x).item())
    inside(kernels, 4)
    kernels.gate(x, True)
    for thread in threads:
        thread.join()
    assert found == [4] * 4


def test_threads_get_their_own_results(kernels):
    def work():
        chance = random.Random(threading.get_ident())
        for _ in range(500):
            a, x = chance.random(), torch.full((5,), chance.random())
            with torch.inference_mode():
                torch.testing.assert_close(kernels.saxpy(a, x, x), a * x + x)
            with pytest.raises(RuntimeError, match="n = 5 from argument 'x'"):
                kernels.saxpy(a, x, x[:4])
        return True

    in_threads(4, work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_of_a_process_that_holds_the_lock(libraries):
    code = """
import os, signal, sys, threading, time, warnings
import torch, tenon
warnings.simplefilter("ignore")
ops = tenon.torch_ops(tenon.load(sys.argv[1]), name="forked")
x = torch.ones(2)
thread = threading.Thread(target=lambda: torch.ops.forked.alone(x))
thread.start()
while not torch.ops.forked.gate(x, False).item():
    time.sleep(0.001)
child = os.fork()
if child == 0:
    signal.alarm(60)  # do not wait for ever
    torch.ops.forked.gate(x, True)
    os._exit(3 if torch.ops.forked.alone(x).item() == 2 else 4)  # with the one that was inside
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
torch.ops.forked.gate(x, True)
thread.join()
"""
    run_python(code, libraries[1].__file__)


def run_python(code, *arguments):
    folder = os.path.dirname(os.path.dirname(tenon.__file__))
    paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=True, timeout=120)


# --------------------------------------------------------------------------------------------------------------- leaks


def leaky_calls(kernels):
    x, y, d = torch.ones(600), torch.ones(600), torch.ones(600, dtype=torch.float64)
    given = (x, "s" * 100, [1.0] * 50, "t" * 100, "u", [1.0, 2.0], [1, 2, 3], [4] * 50, True, 1, 2.0)
    calls = [
        lambda: kernels.saxpy(2.0, x, y),
        lambda: kernels.saxpy(2.0, x, y[:5]),
        lambda: kernels.saxpy(2.0, x, d),
        lambda: kernels.squares(d),
        lambda: kernels.layout(x),
        lambda: kernels.fail(d, 0),
        lambda: kernels.fail_late(d),
        lambda: kernels.forget(d),
        lambda: kernels.plain_words(x, "s" * 100, [1.0] * 50, [1, 2, 3], True, 1),
        lambda: kernels.plain_words(x, "s" * 100, [1.0] * 50, [1, 2], True, 1),
        lambda: kernels.plain_words(x, "s" * 100, [1.0] * 50, [1, 2, 3], True, 1, 1.0, "c" * 100),
        lambda: kernels.words(*given, "a"),
        lambda: kernels.words(*given, "c"),
        lambda: kernels.weighted(d, d),
        lambda: kernels.weighted(d, d[:5]),
    ]
    return calls, (x, y, d)


def holders(tensor):
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


def test_nothing_leaks(kernels):
    calls, tensors = leaky_calls(kernels)

    def repeat(times):
        with torch.inference_mode():
            for _ in range(times):
                for call in calls:
                    try:
                        call()
                    except RuntimeError:
                        pass

    repeat(300)
    gc.collect()
    counts = [holders(tensor) for tensor in tensors]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    repeat(20000 // len(calls))
    gc.collect()
    assert [holders(tensor) for tensor in tensors] == counts
    # A lost result of 600 floats in each call would be tens of MiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 3000


# -------------------------------------------------------------------------------------------------------- registration


def many_functions(folder, count):
    source = folder / "many.c"
    functions = ",\n".join(f'TENON_FUNCTION("f{i}(x: f64[n] c) -> f64[n]", f{i}, NULL)' for i in range(count))
    bodies = "\n".join(f"BODY({i})" for i in range(count))
    source.write_text(f"""#include <tenon/function.h>
#define BODY(k) static tenon_status f##k(tenon_call *call) {{ \\
    for (int64_t i = 0; i < tenon_dim(call, 0); i++) \\
        tenon_result_data(call, 0, double)[i] = tenon_data(call, 0, double)[i] + k; \\
    return TENON_OK; }}
{bodies}
TENON_MODULE(many, NULL, {functions})""")
    return tenon.load(compiled_library(folder, source))


def test_more_functions_than_places(tmp_path):
    ops = tenon.torch_ops(many_functions(tmp_path, 300), name="tenon_many")
    assert _torch_native.kernel_count() == PLACES
    x = torch.arange(3.0, dtype=torch.float64)
    with torch.inference_mode():
        for i in range(300):
            assert torch.equal(getattr(torch.ops.tenon_many, f"f{i}")(x), x + i)
    ops.close()


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
def test_register_and_close_many_times(libraries):
    before = _torch_native.kernel_count()
    x = torch.ones(3)
    for i in range(40):  # more functions in all than there are places
        ops = tenon.torch_ops(libraries[1], name="tenon_repeated")
        assert torch.equal(torch.ops.tenon_repeated.saxpy(float(i), x, x), x * i + 1)
        ops.close()
        ops.close()
        assert _torch_native.kernel_count() == before
    assert not hasattr(torch.ops.tenon_repeated, "saxpy")


@pytest.mark.filterwarnings("ignore:tenon.torch_ops")
def test_a_registration_that_fails_leaves_nothing(libraries, monkeypatch):
    before = _torch_native.kernel_count()

    def broken(self, library):
        raise KeyboardInterrupt

    monkeypatch.setattr(_torch_ops._Operator, "refuse_gradients", broken)
    with pytest.raises(KeyboardInterrupt):
        tenon.torch_ops(libraries[0], name="tenon_broken")
    assert _torch_native.kernel_count() == before
    monkeypatch.undo()
    tenon.torch_ops(libraries[0], name="tenon_broken").close()


def test_private_functions_check_their_arguments(libraries):
    for function in (_torch_native.schema, lambda x: _torch_native.kernel_add(x, "n", True, True)):
        with pytest.raises(TypeError, match="expected tenon.Function, got <class 'int'>"):
            function(5)
    for place in (-1, PLACES, 2**40):
        assert not _torch_native.kernel_remove(place)


# -------------------------------------------------------------------------------------------------------------- schema


def schema_of(tmp_path, signature):
    source = tmp_path / "schema.c"
    text = signature.replace("\\", "\\\\").replace('"', '\\"')
    source.write_text(f"""#include <tenon/function.h>
    static tenon_status none(tenon_call *call) {{ (void)call; return TENON_OK; }}
    TENON_MODULE(schemas, NULL, TENON_FUNCTION("{text}", none, NULL))""")
    loaded = tenon.load(compiled_library(tmp_path, source))
    return _torch_native.schema(loaded.f.__self__)


@pytest.mark.parametrize(
    "signature, schema",
    [
        ("f(x: f32[n])  -> f32[n]", "f(Tensor x) -> Tensor"),
        ("f(x: f32[n] rw, y: f32[n]? rw)", "f(Tensor(a0!) x, Tensor(a1!)? y=None) -> ()"),
        ("f(n: int = -3, *, a: float = 2) -> f32[n], int", "f(SymInt n=-3, *, float a=2.0) -> (Tensor, Tensor)"),
        ("f(a: float = 1e-6, b: float = 100000) -> int", "f(float a=1e-06, float b=100000.0) -> Tensor"),
        ("f(a: float = 1e16, b: float = -1.5e300) -> int", "f(float a=1e+16, float b=-1.5e+300) -> Tensor"),
        ("f(a: float = 123456.789, b: float = -0.0) -> int", "f(float a=123456.789, float b=-0.0) -> Tensor"),
        ("f(s: str = 'a', t: 'x'|'y' = 'y', u: str?) -> int", 'f(str s="a", str t="y", str? u=None) -> Tensor'),
        ("f(i: ints[2] = (1, 2), g: floats = (1.5,)) -> int", "f(SymInt[] i=[1, 2], float[] g=[1.5]) -> Tensor"),
        ("f(j: ints?, b: bool = True, c: bool?) -> bool", "f(SymInt[]? j=None, bool b=True, bool? c=None) -> Tensor"),
    ],
)
def test_schemas(tmp_path, signature, schema):
    assert schema_of(tmp_path, signature) == schema
    torch._C.parse_schema(schema)


def test_floats_are_written_as_python_writes_them(tmp_path):
    chance = random.Random(3)
    values = [chance.uniform(-1, 1) * 10.0 ** chance.randrange(-20, 25) for _ in range(60)]
    values += [float(f"1e{e}") for e in range(-7, 20)]
    for start in range(0, len(values), 50):
        part = values[start : start + 50]
        parameters = ", ".join(f"a{i}: float = {value!r}" for i, value in enumerate(part))
        expected = ", ".join(f"float a{i}={value!r}" for i, value in enumerate(part))
        assert schema_of(tmp_path, f"f({parameters}) -> int") == f"f({expected}) -> Tensor"


@pytest.mark.parametrize(
    "signature, reason",
    [
        ("f(h: handle('Index')) -> int", "argument 'h' is a handle, which operators do not accept"),
        ("f(x: f32[n]) -> f32[n]?", "a result may be None, and torch has to know that before the call"),
        ("f(x: f32[n]) -> str", "a result is of type str, and operators return only tensors"),
        ("f(x: f32[n])", "it neither returns nor writes anything, and torch removes such operators from graphs"),
    ],
)
def test_refused_schemas(tmp_path, signature, reason):
    with pytest.raises(ValueError) as error:
        schema_of(tmp_path, signature)
    assert str(error.value) == reason
