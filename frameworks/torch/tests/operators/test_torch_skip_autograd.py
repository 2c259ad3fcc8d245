"""Calls of torch.ops.ns.f from Python that skip the Autograd kernel: the same as the calls that do not."""

import contextlib
import random
import threading
import warnings

import pytest
from direct_ops import kernels, nothing_seen, off, on  # noqa: F401
from direct_ops import registered, seen
from operators import VERSION, tenon, torch
from random_calls import copied, random_arguments, same
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tenon import _torch_direct, _torch_native

UNWRITTEN = ("weighted_grad", "spread", "batch", "by_keyword", "shrink", "trim")  # their results have any elements
ERRORS = (RuntimeError, TypeError, ValueError, OverflowError, IndexError, BufferError, NotImplementedError)


class Subclass(torch.Tensor):
    pass


class SeesOperators(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.append(function._schema.name.partition("::")[2])
        return function(*args, **(kwargs or {}))


class SeesFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(function.__name__)
        return function(*args, **(kwargs or {}))


def varied(chance, value):
    """Sometimes a tensor that requires grad, a view of one, a parameter, or one of a subclass."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or chance.random() < 0.4:
        return value
    how = chance.randrange(6)
    if how == 0 and not value.is_neg():
        return torch.nn.Parameter(value.detach(), requires_grad=chance.random() < 0.5)
    if how == 1:
        return value.as_subclass(Subclass)
    if how == 2 and value.dim():
        return value.detach().requires_grad_()[:]
    return value.requires_grad_() if value.is_leaf else value


def by_name(chance, schema, args, kwargs):
    """Pass the last of the positional arguments by name."""
    count = chance.randrange(len(args) + 1)
    return args[:count], {**{a.name: value for a, value in zip(schema.arguments[count:], args[count:])}, **kwargs}


def call(namespace, name, args, kwargs, backward):
    """What a call returns, raises, writes and records, in a form that can be compared."""
    given = [value for value in [*args, *kwargs.values()] if isinstance(value, torch.Tensor)]
    versions = [None if value.is_inference() else value._version for value in given]
    del seen[:]
    made, gradients = [], None
    try:
        made = getattr(getattr(torch.ops, namespace), name)(*args, **kwargs)
        kind = type(made).__name__
        made = made if isinstance(made, (tuple, list)) else [] if made is None else [made]
        followed = [x for x in made if x.requires_grad]
        if followed and backward and name != "head":  # its backward is wrong on purpose, which torch 2.10 does not notice
            wanted = [x for x in given if x.requires_grad]
            gradients = torch.autograd.grad([x.sum() for x in followed], wanted, allow_unused=True)
            gradients = [None if x is None else x.tolist() for x in gradients]
    except ERRORS as error:
        kind = f"{type(error).__name__}: {error}".replace(namespace, "NAMESPACE")
    counted = [before is not None and value._version - before for value, before in zip(given, versions)]
    about = [(x.requires_grad, x.is_leaf, x.is_inference(), type(x)) for x in made]
    return made, (kind, gradients, counted, about, str(seen)), [x.tolist() for x in given]


MODES = [contextlib.nullcontext, contextlib.nullcontext, contextlib.nullcontext, torch.no_grad, torch.inference_mode,
         SeesOperators, SeesFunctions, lambda: torch.autocast("cpu")]


@pytest.mark.parametrize("seed", range(5))
def test_random_calls_do_the_same(on, off, seed):
    chance = random.Random(seed)
    names = [name for name in dir(on) if name not in ("close", "on_gpu")]
    refused = done = recorded = 0
    for _ in range(2000):
        name = chance.choice(names)
        schema = getattr(torch.ops.tenon_on, name).default._schema
        args, kwargs = random_arguments(chance, schema)
        if chance.random() < 0.3:
            args, kwargs = by_name(chance, schema, args, kwargs)
        mode, backward, state = chance.choice(MODES), chance.random() < 0.7, chance.getstate()
        found = []
        for namespace in ("tenon_on", "tenon_off"):
            chance.setstate(state)
            own = [varied(chance, copied(value)) for value in args]
            named = {key: varied(chance, copied(value)) for key, value in kwargs.items()}
            with mode():
                found.append(call(namespace, name, own, named, backward))
        (made, about, written), (expected, *rest) = found
        assert about == rest[0], (name, args, kwargs)
        assert len(made) == len(expected) and all(map(same, made, expected))
        if name not in UNWRITTEN:
            assert str(written) == str(rest[1])  # NaN is not equal to itself
            assert str([x.tolist() for x in made]) == str([x.tolist() for x in expected])
        refused += "Error" in about[0]
        done += "Error" not in about[0]
        recorded += any(x.requires_grad for x in made)
    assert refused > 300 and done > 300 and recorded > 50


# -------------------------------------------------------------------------------------------------- what it skips


@pytest.fixture
def python_kernels(kernels, monkeypatch):
    """Operators whose Autograd kernels say that they were called."""
    called = []
    register = tenon._torch_ops._Operator.register_gradients

    def watched(self, library):
        def implement(name, function, *rest, **options):
            def counting(*args, **kwargs):
                called.append(name)
                return function(*args, **kwargs)

            library.impl(name, counting, *rest, **options)

        register(self, type("Library", (), {"impl": staticmethod(implement)}))

    monkeypatch.setattr(tenon._torch_ops._Operator, "register_gradients", watched)
    ops = registered(kernels, "tenon_watched")
    yield called
    ops.close()


def test_the_autograd_kernel_is_called_only_if_it_is_needed(python_kernels):
    affine = torch.ops.tenon_watched.affine
    for op in (affine, affine.default):
        for x in (torch.ones(3), torch.ones(2, 3)[1], torch.ones(3, requires_grad=True)):
            op(x)
            op(x, a=3, shift=1.0)
    with torch.no_grad():
        affine(torch.ones(3, requires_grad=True))
    assert python_kernels == []
    affine(torch.ones(3).as_subclass(Subclass))
    with SeesOperators():
        affine(torch.ones(3))
    assert python_kernels == ["affine"] * 2


@pytest.mark.skipif(VERSION < (2, 8), reason="this torch does not let other code replace a kernel in Python")
def test_the_operator_is_still_dispatched(on):
    """Other code may register a kernel later; `ops.f` does not see it."""
    library = torch.library.Library("tenon_on", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("plain", lambda x: x + 40, "CPU")
    assert torch.ops.tenon_on.plain(torch.ones(1).double()).item() == 41
    assert on.plain(torch.ones(1).double()).item() == 1
    library._destroy()


def test_no_key_stays_excluded(on):
    before = _torch_native.dispatch_keys()
    for arguments in ((torch.ones(3),), (torch.ones(3, dtype=torch.int32),), (torch.ones(3), "wrong")):
        with contextlib.suppress(*ERRORS):
            torch.ops.tenon_on.affine(*arguments)
        assert _torch_native.dispatch_keys() == before
    x = torch.ones(3, requires_grad=True)
    assert (torch.ops.tenon_on.affine(x) * 2).grad_fn is not None


def test_gradients_that_do_not_exist_are_refused(on):
    y = torch.ops.tenon_on.plain(torch.ones(3, requires_grad=True, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="has no backward"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="supports no gradients"):
        torch.ops.tenon_on.twice(torch.ones(3, dtype=torch.float64, requires_grad=True))


def test_threads_do_not_see_each_other(on):
    """One thread goes without the Autograd keys while another one records."""
    wrong, stop = [], threading.Event()

    def record():
        while not stop.is_set():
            if torch.ops.tenon_on.affine(torch.ones(3, requires_grad=True)).grad_fn is None:
                wrong.append("lost")

    threads = [threading.Thread(target=record) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3000):
        torch.ops.tenon_on.affine(torch.ones(3))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


# ------------------------------------------------------------------------------------------- the function behind it


def test_torch_finds_the_function_that_it_expects(on, off):
    op = torch.ops.tenon_on.affine
    assert type(op.default._op).__name__ == type(op._op).__name__ == "SkipAutograd"
    assert type(torch.ops.tenon_off.affine._op).__name__ == "builtin_function_or_method"
    assert op._op.__name__ == torch.ops.tenon_off.affine._op.__name__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(script)
    assert scripted(torch.ones(2)).tolist() == [3, 3]


def script(x):
    return torch.ops.tenon_on.affine(x, 3.0)


def test_close_restores_it(kernels):
    ops = registered(kernels, "tenon_restored")
    packet = torch.ops.tenon_restored.affine
    overload, number, ours = packet.default, hash(packet.default), id(packet._op)
    ops.close()
    assert type(packet._op) is type(overload._op) is type(len) and hash(overload) == number
    assert ours not in torch.jit._builtins._get_builtin_table()


def test_a_torch_whose_state_cannot_be_read(kernels, monkeypatch):
    monkeypatch.setattr(_torch_direct, "_watch", _torch_direct._watch._replace(autograd_keys=0))
    ops = registered(kernels, "tenon_unread")
    assert type(torch.ops.tenon_unread.affine._op) is type(len) and ops.affine(torch.ones(1)).item() == 2
    ops.close()


def test_its_arguments_are_checked(on):
    for wrong in ((len, len, None, (), (), 1), (len, None, None, ("x",), (1,), 1)):
        with pytest.raises(TypeError, match="expected a direct path"):
            _torch_native.skip_autograd(*wrong)
