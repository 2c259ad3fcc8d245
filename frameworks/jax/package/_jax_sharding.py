"""Arrays that are split over several devices: what a call of jax_ops does with them.

_jax_ops composes the parts like this:

    @custom_vjp
    @custom_vmap        # its rule calls keep_whole() before a loop
    def call(*operands):
        return vary(partition(ffi_call, ...)(*operands), operands)

    jit(lambda *operands: call(*unify(operands, ...)))

and calls check_eager() before an eager call, and name_refusal() if it failed. That order is the only one that works:
JAX's custom_partitioning can be neither mapped nor differentiated. It leaves nothing in the program of one device,
which also keeps its key in JAX's persistent cache of programs. A program of several devices gets a new key in each
process, unless an option of JAX says otherwise (see partition()), and cannot be exported; one with shard_map can.

`mode` is the `sharding` of jax_ops(): "raise" or "replicate". `batch` is the number of leading dimensions that `*b`
stands for in this call if every tensor of the signature, results included, begins with the same `*b`, and 0 otherwise.
`names` has the parameter's name for each operand, and None for the packed numbers of an eager call. Operands without
dimensions or without a name are never split.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, cast

from tenon._jax_trace import jax_module

jax = jax_module()
partitioning: Any = importlib.import_module("jax.experimental.custom_partitioning")
Call = Callable[..., "Sequence[Any]"]
_HAS_RULES = hasattr(partitioning, "SdyShardingRule")  # JAX 0.5.3; without them Shardy gathers the results of a batch
_SINGLE = jax.sharding.SingleDeviceSharding
_ADVICE = "call it inside jax.shard_map, or pass sharding='replicate' to tenon.jax_ops()"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a deprecated name; newer versions do not have it, nor XLA's form of it
    _PMAP = getattr(jax.sharding, "PmapSharding", ())


@functools.cache
def _hlo_sharding() -> Any:
    """The type of XLA's shardings, which JAX does not export."""
    return type(_SINGLE(jax.devices()[0])._to_xla_hlo_sharding(0))


@functools.cache
def _is_array_type(kind: type) -> bool:
    """Whether it is the type of arrays that are not traced."""
    return issubclass(kind, jax.Array) and not issubclass(kind, jax.core.Tracer)


class _Tiles(NamedTuple):
    """How an array is split: the number of parts of each dimension, and the devices of each part.

    The devices that hold copies of one part are side by side and in ascending order, so that equal splits are equal.
    """

    parts: tuple[int, ...]
    devices: tuple[int, ...]

    @classmethod
    def read(cls, sharding: Any, ndim: int) -> _Tiles:
        """Read one of JAX's shardings, or None: not known yet. XLA's form is the only one that most of them have."""
        hlo = None if sharding is None else sharding._to_xla_hlo_sharding(ndim)
        if hlo is None or not hlo.is_tiled():
            return cls((1,) * ndim, ())
        parts = tuple(hlo.tile_assignment_dimensions())
        return cls(parts, tuple(hlo.tile_assignment_devices())).leading(ndim)

    def leading(self, count: int) -> _Tiles:
        """Return how the array is split if only its first dimensions are, and each part is copied to the others."""
        parts = self.parts[:count]
        copies = len(self.devices) // math.prod(parts)
        if copies <= 1:
            return _Tiles(parts, self.devices)
        groups = (sorted(self.devices[i : i + copies]) for i in range(0, len(self.devices), copies))
        return _Tiles(parts, tuple(device for group in groups for device in group))

    def is_split(self) -> bool:
        return any(parts > 1 for parts in self.parts)

    def divides(self, shape: Sequence[int]) -> bool:
        """Whether the parts have equal sizes. If not, XLA pads the last one, and a function would read the padding."""
        return all(size % parts == 0 for size, parts in zip(shape, self.parts))


class _Split(jax.sharding.Sharding):  # type: ignore[name-defined,misc]
    """What a partitioning callback returns: arrays whose leading dimensions are split, of any number of dimensions.

    JAX asks it only for XLA's form.
    """

    def __init__(self, tiles: _Tiles) -> None:
        self.tiles = tiles

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        parts, devices = self.tiles
        if not self.tiles.is_split() or num_dimensions < len(parts):
            return _hlo_sharding().replicate()
        copies = len(devices) // math.prod(parts)
        tiles = [*parts, *[1] * (num_dimensions - len(parts)), copies]
        dims, numbers = (",".join(map(str, values)) for values in (tiles, devices))
        return _hlo_sharding().from_string(f"{{devices=[{dims}]{numbers} last_tile_dim_replicate}}")


class _Rules(NamedTuple):
    """What one function does with operands that are split."""

    function: str
    names: Sequence[Optional[str]]
    batch: int
    mode: str
    in_program: bool = False  # XLA may have chosen how an operand is split

    def choose(self, shapes: Sequence[Any], tiles: Sequence[_Tiles]) -> _Tiles:
        """Return how the batch of all operands and results is split.

        ValueError if the mode is "raise" and an operand would have to be moved between devices.
        """
        chosen: Optional[_Tiles] = None
        by: Optional[str] = None
        for name, shape, tile in zip(self.names, shapes, tiles):
            if name is None or not tile.is_split():
                continue
            batch = tile.leading(self.batch)
            other = [i for i, parts in enumerate(tile.parts) if i >= self.batch and parts > 1]
            if other:
                which = f" in dimension {other[0]}, which does not belong to the batch"
                self.refuse(name, len(tile.devices), which if self.batch else "")
            elif not batch.divides(shape):
                self.refuse(name, len(tile.devices), " in parts of different sizes")
            elif chosen is not None and chosen != batch:
                self.refuse(name, len(tile.devices), f" in a different way from argument '{by}'")
            if chosen is None and batch.is_split() and batch.divides(shape):
                chosen, by = batch, name
        return chosen or _Tiles((), ())

    def refuse(self, name: Optional[str], devices: int, how: str) -> None:
        if self.mode != "raise":
            return
        said = f"{self.function}(): argument '{name}' is sharded over {devices} devices{how}, and a call would gather it"
        said += f" on each; {_ADVICE}"
        if self.in_program:
            said += (
                f". If XLA chose this sharding, not you, pass jax.lax.with_sharding_constraint({name}, "
                "NamedSharding(mesh, PartitionSpec())), which copies it to each device"
            )
        raise ValueError(said)


def partition(call: Call, *, program: str, function: str, names: Sequence[Optional[str]], batch: int, mode: str) -> Call:
    """Return a function of operands that does what `call` does, and tells XLA how it may be split.

    `call` takes operands, which may be the shards of a batch, and returns a tuple or list of results: it derives their
    shapes from its operands. The returned function returns a tuple. It has no rules for vmap and grad: these belong
    around it. It belongs inside jit: outside of it, it does only what `call` does.

    Under jit, if an operand is sharded, compiling raises an error with the sentence of check_eager(). "replicate" lets
    XLA gather. A batch that is sharded stays where it is, without a collective (JAX 0.5.3 and newer).

    `program` is a name that says what `call` does. The program that JAX hands to XLA has only the address of `call`, and
    an option of JAX removes that from the keys of its persistent cache: then the name tells two functions apart.
    """
    batch = batch if _HAS_RULES else 0
    rules = _Rules(function, names, batch, mode, in_program=True)

    def choose(rules: _Rules, operands: Sequence[Any]) -> _Split:
        shapes = [operand.shape for operand in operands]
        return _Split(rules.choose(shapes, [_Tiles.read(x.sharding, len(x.shape)) for x in operands]))

    def infer(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        # An exception here ends the process in older versions of XLA. `split` is asked later, and may raise.
        return (choose(rules._replace(mode="replicate"), operands),) * len(results)

    def split(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        chosen = choose(rules, operands)
        whole = _Split(_Tiles((), ()))
        placements = tuple(whole if name is None else chosen for name in names)
        return mesh, lambda *shards: tuple(call(*shards)), (chosen,) * len(results), placements

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

    partitioned = partitioning.custom_partitioning(lambda *operands: tuple(call(*operands)))
    partitioned.def_partition(
        partition=split,
        infer_sharding_from_operands=infer,
        decode_shardings=False,  # a mesh cannot express each sharding that XLA chooses
        **({"sharding_rule": rule} if _HAS_RULES else {}),
    )

    def named(*operands: Any) -> tuple[Any, ...]:
        return cast("tuple[Any, ...]", partitioned(*operands))

    named.__name__ = named.__qualname__ = f"{program}_{mode}"
    named = jax.jit(named)

    def run(*operands: Any) -> tuple[Any, ...]:
        _check_mesh(function)
        if not operands or (mode == "replicate" and not batch):
            return tuple(call(*operands))
        specs = _explicit_specs(operands)
        if not any(specs):
            return named(*operands)
        # In an explicit mesh, XLA decides nothing unless the axes are given to it; unify() has made the specs agree.
        spec = next(spec for spec in specs if spec)
        out = jax.sharding.PartitionSpec(*spec[:batch])
        return cast("tuple[Any, ...]", jax.sharding.auto_axes(named, out_sharding=out)(*operands))

    return run


def keep_whole(
    operands: Sequence[Any], *, function: str, names: Sequence[Optional[str]], batch: int, mode: str
) -> tuple[Any, ...]:
    """Return the operands of a loop over a dimension of vmap, which are refused if they are split.

    Each turn of the loop gets a slice, and XLA would gather the operand to make it. `batch` does not matter here.
    """

    def same(*arrays: Any) -> tuple[Any, ...]:
        return arrays

    whole = partition(same, program="keep_whole", function=function, names=names, batch=0, mode=mode)
    call = jax.custom_batching.custom_vmap(whole)
    call.def_vmap(lambda size, batched, *arrays: (call(*arrays), tuple(batched)))  # for vmap of vmap
    return tuple(call(*unify(operands, function=function, names=names, batch=0, mode=mode)))


def check_eager(
    arrays: Sequence[Any], *, function: str, names: Sequence[Optional[str]], batch: int, mode: str
) -> None:
    """Raise ValueError if an eager call on these arrays would have to gather one of them.

    Tracers, NumPy arrays and numbers are ignored. Call it before anything is traced or run.
    """
    if mode != "raise" or not any(map(_is_split, arrays)):
        return
    rules = _Rules(function, names, batch if _HAS_RULES else 0, mode)
    found = [array if _is_split(array) else None for array in arrays]
    for name, array in zip(names, found):
        if array is not None and isinstance(array.sharding, _PMAP):
            rules.refuse(name, len(array.sharding.device_set), " by pmap")
    tiles = [_Tiles((), ()) if array is None else _Tiles.read(array.sharding, array.ndim) for array in found]
    rules.choose([() if array is None else array.shape for array in found], tiles)


def name_refusal(error: BaseException, *, function: str) -> None:
    """Raise the ValueError of check_eager() if an eager call failed because XLA asked what to do with its operands.

    check_eager() does not see the arrays inside the tracers of jax.grad and jax.vmap. JAX compiles the call for them.
    """
    found = re.search(rf"\b{re.escape(function)}\(\): argument '\w+' is sharded over .*?{re.escape(_ADVICE)}", str(error))
    if found:
        raise ValueError(found[0]) from error


def _is_split(array: Any) -> bool:
    kind: Any = type(array)
    if not _is_array_type(kind):  # isinstance() takes microseconds with the types of JAX
        return False
    sharding = array.sharding
    return type(sharding) is not _SINGLE and len(sharding.device_set) > 1 and not sharding.is_fully_replicated


def _check_mesh(function: str) -> None:
    """Raise NotImplementedError if GSPMD would end the process, as it does on any foreign call."""
    mesh = getattr(jax.sharding, "get_abstract_mesh", None)  # JAX 0.5
    kinds = set(() if mesh is None or jax.config.jax_use_shardy_partitioner else mesh().axis_types)
    if len(kinds) > 1 and jax.sharding.AxisType.Manual in kinds:
        raise NotImplementedError(
            f"{function}(): XLA's partitioner GSPMD cannot compile a call inside a shard_map over only some axes of a "
            "mesh; map all its axes, or use Shardy: jax.config.update('jax_use_shardy_partitioner', True)"
        )


def _explicit_specs(operands: Sequence[Any]) -> list[tuple[Any, ...]]:
    """How the operands are split according to their types, which say it in a mesh with explicit axes."""
    if not hasattr(jax.sharding, "auto_axes"):  # JAX 0.7
        return []
    specs = (tuple(jax.typeof(operand).sharding.spec) for operand in operands)
    return [spec if any(spec) else () for spec in specs]


def _varying(array: Any) -> frozenset[str]:
    """The axes of the surrounding shard_map over which a traced array differs from device to device."""
    if not hasattr(jax, "typeof"):
        return frozenset()
    aval = jax.typeof(array)
    kind = getattr(aval, "manual_axis_type", None)  # JAX 0.12
    return cast("frozenset[str]", getattr(aval, "vma", frozenset()) if kind is None else kind.varying)


def _cast(arrays: Sequence[Any], like: Sequence[Any]) -> tuple[Any, ...]:
    axes: frozenset[str] = frozenset().union(*map(_varying, like))

    def cast(array: Any) -> Any:
        missing = tuple(sorted(axes - _varying(array)))
        if not missing:
            return array
        pcast = getattr(jax.lax, "pcast", None)  # JAX 0.9
        return jax.lax.pvary(array, missing) if pcast is None else pcast(array, missing, to="varying")

    return tuple(cast(array) for array in arrays)


def unify(
    operands: Sequence[Any], *, function: str, names: Sequence[Optional[str]], batch: int, mode: str
) -> tuple[Any, ...]:
    """Return the operands with types that agree: inside shard_map, and in a mesh with explicit axes.

    This belongs outside the custom_vjp: JAX then converts the gradients back, and sums those of an operand that was
    the same on every device.
    """
    operands = _cast(operands, operands)
    if not any(_explicit_specs(operands)):
        return operands
    types = [jax.typeof(operand) for operand in operands]
    tiles = [_Tiles.read(one.sharding, one.ndim) for one in types]
    chosen = _Rules(function, names, batch, mode).choose([one.shape for one in types], tiles)
    specs = (one.sharding.spec for one, tile in zip(types, tiles) if tile.leading(batch) == chosen)
    spec = tuple(next(specs, ()))[:batch]
    return tuple(
        jax.sharding.reshard(operand, jax.sharding.PartitionSpec(*(() if name is None else spec[: one.ndim])))
        for operand, name, one in zip(operands, names, types)
    )


def vary(results: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results, varying over the axes of the surrounding shard_map over which the operands vary.

    This belongs inside the custom_vjp: outside of it, JAX would sum the gradients of the results over the devices.
    """
    return _cast(results, operands)
