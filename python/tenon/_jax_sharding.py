"""Arrays that are spread over several devices: what a call of jax_ops does with them.

The parts, in the order in which _jax_ops composes them:

    custom_vjp(custom_vmap(lambda *operands: vary(partition(ffi_call, ...)(*operands), operands)))

and check_eager() before an eager call. `mode` is the `sharding` of jax_ops(): "raise" or "replicate". `batch` is the
number of leading dimensions that `*b` stands for in this call if every tensor of the signature, results included,
begins with the same `*b`, and 0 otherwise. `names` has the parameter's name for each operand; the packed numbers of
an eager call are None. Operands without dimensions and None are never split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

Call = Callable[..., "Sequence[Any]"]


def partition(call: Call, *, function: str, names: Sequence[Optional[str]], batch: int, mode: str) -> Call:
    """Return a function of operands that does what `call` does, and says to XLA how it may be split.

    `call` takes operands, which may be the shards of a batch, and returns a tuple or list of results: it derives their
    shapes from its operands. The returned function returns a tuple. It has no rules for vmap and grad: these belong
    around it. Under jit, if an operand is sharded, compiling raises an error with the sentence of check_eager();
    `replicate` lets XLA gather; a sharded batch stays where it is, without a collective (JAX 0.5.3 and newer).
    """
    return lambda *operands: tuple(call(*operands))


def check_eager(function: str, names: Sequence[Optional[str]], arrays: Sequence[Any], *, batch: int, mode: str) -> None:
    """Raise ValueError if an eager call on these arrays would have to gather one of them.

    Tracers, NumPy arrays and numbers are ignored. Call it before anything is traced or run.
    """


def vary(results: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results with the manual mesh axes over which the operands vary (inside shard_map).

    This belongs inside the custom_vjp: outside of it, the gradient would be summed over the devices once too often.
    """
    return tuple(results)
