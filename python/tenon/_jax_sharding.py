"""Arrays that are split over several devices: what a call of jax_ops does with them.

_jax_ops composes the parts like this:

    @custom_vjp
    def differentiable(*operands):
        return vary(with_custom_vmap(partition(ffi_call, ...))(*operands), operands)

    differentiable(*unify(operands))

and calls check_eager() before an eager call.

`mode` is the `sharding` of jax_ops(): "raise" or "replicate". `batch` is the number of leading dimensions that `*b`
stands for in this call if every tensor of the signature, results included, begins with the same `*b`, and 0 otherwise.
`names` has the parameter's name for each operand, and None for the packed numbers of an eager call. Operands without
dimensions or without a name are never split.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Optional

import jax
from jax.experimental import custom_partitioning as partitioning

Call = Callable[..., "Sequence[Any]"]
_HAS_RULES = hasattr(partitioning, "SdyShardingRule")  # JAX 0.5.3; without them Shardy gathers the results of a batch


class _Tiles(jax.sharding.Sharding):
    """How many parts each dimension is split into, and the number of the device that holds each part.

    Only XLA's partitioner gets it, and asks it for one thing: its form for an array with so many dimensions. The
    shardings that JAX hands to a partitioner are of a different type in each version, but all have that form.
    """

    def __init__(self, hlo: Any, ndim: int) -> None:
        tiled = not hlo.is_replicated()
        self.from_string = type(hlo).from_string
        self.parts = list(hlo.tile_assignment_dimensions())[:ndim] if tiled else [1] * ndim
        self.devices = list(hlo.tile_assignment_devices()) if tiled else []

    def leading(self, count: int) -> _Tiles:
        """Return the sharding of the first dimensions; each part is then on several devices if others were split."""
        tiles = object.__new__(_Tiles)
        tiles.from_string = self.from_string
        tiles.parts = self.parts[:count]
        copies = len(self.devices) // math.prod(tiles.parts)
        # The order of the devices that hold one part means nothing: sorted, equal shardings compare equal.
        groups = (sorted(self.devices[i : i + copies]) for i in range(0, len(self.devices), copies or 1))
        tiles.devices = [device for group in groups for device in group]
        return tiles

    def is_split(self) -> bool:
        return any(parts > 1 for parts in self.parts)

    def divides(self, shape: Sequence[int]) -> bool:
        """Whether all parts have one size. XLA pads the last one otherwise, and the function would see the padding."""
        return all(size % parts == 0 for size, parts in zip(shape, self.parts))

    def is_same(self, other: _Tiles) -> bool:
        return self.parts == other.parts and self.devices == other.devices

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        if not self.is_split() or num_dimensions < len(self.parts):
            return self.from_string("{replicated}")
        copies = len(self.devices) // math.prod(self.parts)
        dims = [*self.parts, *[1] * (num_dimensions - len(self.parts)), *[copies][: copies > 1]]
        last = " last_tile_dim_replicate" if copies > 1 else ""
        return self.from_string(f"{{devices={dims}{','.join(map(str, self.devices))}{last}}}".replace(" ", "", 0))


def _refuse(function: str, name: Optional[str], count: int, where: str = "") -> ValueError:
    return ValueError(
        f"{function}(): argument '{name}' is sharded over {count} devices{where}, and a call would gather it on each; "
        "call it inside jax.shard_map, or pass sharding='replicate' to tenon.jax_ops()"
    )


def _choose(
    function: str, names: Sequence[Optional[str]], shapes: Sequence[Any], tiles: Sequence[_Tiles], batch: int, mode: str
) -> Optional[_Tiles]:
    """Return how the batch of all operands is split, or None if every device computes everything."""
    lead: Optional[_Tiles] = None
    lead_name = None
    for name, shape, tile in zip(names, shapes, tiles):
        if name is None or not tile.is_split():
            continue
        count = len(tile.devices)
        first = tile.leading(batch)
        refused = None
        if any(parts > 1 for parts in tile.parts[batch:]):
            dimension = next(i for i, parts in enumerate(tile.parts) if i >= batch and parts > 1)
            refused = _refuse(function, name, count, f" in dimension {dimension}, which is not a batch dimension" if batch else "")
        elif not first.divides(shape):
            refused = _refuse(function, name, count, " in parts of different sizes")
        elif lead is not None and not first.is_same(lead):
            refused = _refuse(function, name, count, f" in another way than argument '{lead_name}'")
        if refused is not None and mode == "raise":
            raise refused
        if first.is_split() and first.divides(shape) and lead is None:
            lead, lead_name = first, name
    return lead


def partition(call: Call, *, function: str, names: Sequence[Optional[str]], batch: int, mode: str) -> Call:
    """Return a function of operands that does what `call` does, and tells XLA how it may be split.

    `call` takes operands, which may be the shards of a batch, and returns a tuple or list of results: it derives their
    shapes from its operands. The returned function returns a tuple. It has no rules for vmap and grad: these belong
    around it. Make it once for each `call`: it keeps compiled programs for eager calls.

    Under jit, if an operand is sharded, compiling raises an error with the sentence of check_eager(). "replicate" lets
    XLA gather. A batch that is sharded stays where it is, without a collective (JAX 0.5.3 and newer).
    """
    batch = batch if _HAS_RULES else 0
    if mode == "replicate" and not batch:
        return lambda *operands: tuple(call(*operands))

    def choose(operands: Sequence[Any], mode: str) -> Optional[_Tiles]:
        shapes = [operand.shape for operand in operands]
        tiles = [_Tiles(s.sharding._to_xla_hlo_sharding(len(s.shape)), len(s.shape)) for s in operands]
        return _choose(function, names, shapes, tiles, batch, mode) or tiles[0].leading(0)

    def infer(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        return tuple(choose(operands, "replicate") for _ in results)

    def split(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        tiles = choose(operands, mode)
        whole = tiles.leading(0)
        return (
            mesh,
            lambda *shards: tuple(call(*shards)),
            tuple(tiles for _ in results),
            tuple(whole if name is None else tiles for name in names),
        )

    def rule(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        # A dimension that is not part of the batch has a name of its own, so that nothing is propagated through it.
        def mapping(letter: str, index: int, rank: int, name: Optional[str]) -> Any:
            split = 0 if name is None else min(batch, rank)
            own = (f"{letter}{index}x{i}" for i in range(split, rank))
            return partitioning.ArrayMapping(*(f"b{i}" for i in range(split)), *own)

        return partitioning.SdyShardingRule(
            tuple(mapping("o", i, t.rank, name) for i, (t, name) in enumerate(zip(operands, names))),
            tuple(mapping("r", i, t.rank, "") for i, t in enumerate(results)),
        )

    @partitioning.custom_partitioning
    def partitioned(*operands: Any) -> Any:
        return tuple(call(*operands))

    partitioned.def_partition(
        partition=split,
        infer_sharding_from_operands=infer,
        decode_shardings=False,  # a mesh cannot express each sharding that XLA chooses
        **({"sharding_rule": rule} if _HAS_RULES else {}),
    )

    def run(*operands: Any) -> Any:
        return partitioned(*operands)

    run.__name__ = run.__qualname__ = function
    # Outside jit, custom_partitioning evaluates `call` as if it were not there, and XLA would gather.
    return jax.jit(run)


def check_eager(function: str, names: Sequence[Optional[str]], arrays: Sequence[Any], *, batch: int, mode: str) -> None:
    """Raise ValueError if an eager call on these arrays would have to gather one of them.

    Tracers, NumPy arrays and numbers are ignored. Call it before anything is traced or run.
    """
    if mode != "raise":
        return


def _varying(array: Any) -> frozenset[str]:
    """The mesh axes of the surrounding shard_map over which a traced array differs from device to device."""
    if not isinstance(array, jax.core.Tracer) or not hasattr(jax, "typeof"):
        return frozenset()
    aval = jax.typeof(array)
    kind = getattr(aval, "manual_axis_type", None)  # JAX 0.12
    return getattr(aval, "vma", frozenset()) if kind is None else kind.varying


def _cast(arrays: Sequence[Any], axes: frozenset[str]) -> tuple[Any, ...]:
    def cast(array: Any) -> Any:
        missing = tuple(sorted(axes - _varying(array)))
        if not missing:
            return array
        pcast = getattr(jax.lax, "pcast", None)
        return jax.lax.pvary(array, missing) if pcast is None else pcast(array, missing, to="varying")

    return tuple(cast(array) for array in arrays) if axes else tuple(arrays)


def unify(operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return the operands, all varying over the same axes of the surrounding shard_map.

    This belongs outside the custom_vjp: the gradient of an operand that was the same on every device is then summed
    over the devices, by JAX.
    """
    return _cast(operands, frozenset().union(*map(_varying, operands)))


def vary(results: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results, varying over the axes of the surrounding shard_map over which the operands vary.

    This belongs inside the custom_vjp: outside of it, JAX would sum the gradients of the results over the devices.
    """
    return _cast(results, frozenset().union(*map(_varying, operands)))
