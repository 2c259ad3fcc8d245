"""Random compositions of torch's transforms: the operator against the same layer in pure torch.

The seed is printed when one fails; TENON_SEED=N runs that one again."""

import os
import random

import pytest
from operators import tenon, torch
from torch.func import grad, jacfwd, jacrev, jvp, vjp, vmap
from transforms import DERIVATIVES, doubles, load_transforms, wave

BY_CHANCE = bool(os.environ.get("TENON_CHANCE"))
SEED = int(os.environ.get("TENON_SEED", random.randrange(2**32) if BY_CHANCE else 36))
COUNT = 400 if BY_CHANCE else 100
COMPILED = 20 if BY_CHANCE else 4  # compiling takes a hundred times as long as the rest
LENGTH, ORDER = 3, 2  # the functions of the library are differentiated at most twice


# Each transform makes a function (x, w) -> tensor of another one.


def with_grad(f):
    return lambda x, w: sum(one.sum() for one in grad(lambda *both: f(*both).square().sum(), (0, 1))(x, w)) * x


def with_grad_of_x(f):
    return lambda x, w: grad(lambda y: f(y, w).sin().sum())(x)


def with_vjp(f):
    def made(x, w):
        y, back = vjp(f, x, w)
        dx, dw = back(y.cos())
        return dx * dw.sum()

    return made


def with_jvp(f):
    return lambda x, w: torch.mul(*jvp(f, (x, w), (x.cos(), w + 1)))


def with_jvp_of_w(f):
    return lambda x, w: jvp(lambda v: f(x, v), (w,), (w.sin(),))[1]


def with_jacrev(f):
    return lambda x, w: jacrev(lambda v: f(x, v).sum())(w) * x


def with_jacfwd(f):
    return lambda x, w: jacfwd(lambda v: f(x, v).sum())(w) + x


def with_autograd(f):
    """A backward pass inside of the program, which only the outermost transform can be."""

    def made(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        dx, dw = torch.autograd.grad(f(x, w).square().sum(), (x, w), materialize_grads=True)
        return dx * dw

    return made


def with_vmap(f):
    return lambda x, w: vmap(f, (0, None))(torch.stack([x, x + 1]), w).sum(0)


def with_vmap_at_the_end(f):
    return lambda x, w: vmap(f, (-1, None), out_dims=-1)(torch.stack([x, -x, 2 * x], -1), w).mean(-1)


def with_vmap_of_both(f):
    return lambda x, w: vmap(f, (0, 1))(torch.stack([x, x.sin()]), torch.stack([w, w + 1], 1)).sum(0)


def with_vmap_of_w(f):
    return lambda x, w: vmap(f, (None, 0))(x, torch.stack([w, -w])).square().sum(0)


def with_arithmetic(f):
    return lambda x, w: f(x * w, w.cos()) * 2 - x


DERIVATIVE = [with_grad, with_grad_of_x, with_vjp, with_jvp, with_jvp_of_w, with_jacrev, with_jacfwd]
OTHERS = [with_vmap, with_vmap_at_the_end, with_vmap_of_both, with_vmap_of_w, with_arithmetic]


def compositions():
    chosen = random.Random(SEED)
    for i in range(COUNT):
        length = chosen.randint(2, LENGTH)
        order = chosen.randint(1, min(ORDER, length))
        names = chosen.sample(DERIVATIVE, order) + [chosen.choice(OTHERS) for _ in range(length - order)]
        chosen.shuffle(names)
        if order < ORDER and chosen.random() < 0.3:
            names.append(with_autograd)
        yield i, names


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    return tenon.torch_ops(load_transforms(tmp_path_factory), name="tenon_compositions", **DERIVATIVES)


def compose(f, names):
    for transform in names:
        f = transform(f)
    return f


def test_random_compositions(ops):
    for i, names in compositions():
        title = f"TENON_SEED={SEED}, composition {i}: " + " of ".join(name.__name__[5:] for name in reversed(names))
        x, w = doubles(2, 3, seed=i), doubles(3, seed=i + 1)
        wanted = compose(wave, names)(x, w)
        f = ops.wave if i % 2 else torch.ops.tenon_compositions.wave
        try:
            torch.testing.assert_close(compose(f, names)(x, w), wanted)
        except Exception as error:
            raise AssertionError(title) from error


def test_random_compositions_are_compiled(ops):
    able = [(i, names) for i, names in compositions() if with_autograd not in names]
    for i, names in able[:COMPILED]:
        title = f"TENON_SEED={SEED}, composition {i}, compiled: " + " of ".join(name.__name__[5:] for name in reversed(names))
        x, w = doubles(2, 3, seed=i), doubles(3, seed=i + 1)
        torch._dynamo.reset()
        try:
            found = torch.compile(compose(ops.wave, names), fullgraph=True, backend="aot_eager")(x, w)
            torch.testing.assert_close(found, compose(wave, names)(x, w))
        except Exception as error:
            raise AssertionError(title) from error
