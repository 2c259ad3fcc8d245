"""Arrays that are split over several devices: what a call of jax_ops does with them.

_jax_ops composes the parts like this:

    @custom_jvp         # _jax_derivatives has its rule
    @custom_vmap        # its rule calls keep_whole() before a loop
    def call(*operands):
        return vary(partition(ffi_call, ...)(*operands), operands)

    jit(lambda *operands: call(*unify(operands, ...)))

and calls check_eager() before an eager call, and name_refusal() if it failed. That order is the only one that works:
JAX's custom_partitioning can be neither mapped nor differentiated. It leaves nothing in the program of one device,
which also keeps its key in JAX's persistent cache of programs. A program of several devices gets a new key in each
process, unless an option of JAX says otherwise (see partition()), and cannot be exported; one with shard_map can.

`mode` is the `sharding` of jax_ops(): "raise" or "replicate". `batch` says which dimensions of the operands and results are
those of the batch, `*b` or `**b`: only these may be split. `names` has the parameter's name for each operand, and None for the packed numbers of an eager call. Operands without
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
numpy: Any = importlib.import_module("numpy")
partitioning: Any = importlib.import_module("jax.experimental.custom_partitioning")
Call = Callable[..., "Sequence[Any]"]
_HAS_RULES = hasattr(partitioning, "SdyShardingRule")  # JAX 0.5.3; without them Shardy gathers the results of a batch
_SINGLE = jax.sharding.SingleDeviceSharding
_AXIS = "tenon_devices"  # of the mesh in which sums are added up
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


class Batch(NamedTuple):
    """Where the dimensions of the batch are in one call.

    For each operand and result, `operands` and `results` have a number for each of its leading dimensions: which dimension of
    the batch it is, or None if it is 1 and repeated. Operands outside the batch are whole on each device. A result that is
    None is a sum over the batch.
    """

    rank: int
    operands: tuple[tuple[Optional[int], ...], ...]
    results: tuple[Optional[tuple[int, ...]], ...] = ()

    def without(self) -> Batch:
        """The same call, of which nothing may be split."""
        return Batch(0, ((),) * len(self.operands))

    def result(self, index: int) -> tuple[int, ...]:
        """The dimensions of a result; a sum has none."""
        return (self.results[index] or ()) if self.rank else ()

    def sums(self) -> list[int]:
        return [i for i, dims in enumerate(self.results) if dims is None] if self.rank else []


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
        return self.of(range(count))

    def of(self, dims: Sequence[Optional[int]]) -> _Tiles:
        """Return how an array is split that has these dimensions; None is one that is not split."""
        parts = tuple(1 if dim is None else self.parts[dim] if dim < len(self.parts) else 1 for dim in dims)
        if math.prod(parts) == 1:
            return _Tiles(parts, tuple(sorted(self.devices)))
        kept = [dim for dim in dims if dim is not None]
        rest = [dim for dim in range(len(self.parts) + 1) if dim not in kept]
        grid = numpy.array(self.devices).reshape(*self.parts, -1).transpose(*kept, *rest)
        return _Tiles(parts, tuple(numpy.sort(grid.reshape(math.prod(parts), -1)).ravel().tolist()))

    def batch(self, dims: Sequence[Optional[int]], rank: int) -> _Tiles:
        """Return how a batch is split if this is how an array is that has these dimensions of it."""
        own = self.of([None if dim is None else i for i, dim in enumerate(dims)])
        parts = [1] * rank
        for dim, count in zip(dims, own.parts):
            if dim is not None:
                parts[dim] = count
        return _Tiles(tuple(parts), own.devices)

    def groups(self) -> list[list[int]]:
        """The devices that have all parts together, once for each copy."""
        groups = numpy.array(self.devices).reshape(math.prod(self.parts), -1).T
        return cast("list[list[int]]", groups.tolist())

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
    batch: Batch
    mode: str
    in_program: bool = False  # XLA may have chosen how an operand is split

    def choose(self, shapes: Sequence[Any], tiles: Sequence[_Tiles]) -> _Tiles:
        """Return how the batch of all operands and results is split.

        ValueError if the mode is "raise" and an operand would have to be moved between devices.
        """
        found = []
        for name, dims, shape, tile in zip(self.names, self.batch.operands, shapes, tiles):
            if name is None or not tile.is_split():
                continue
            other = [i for i, parts in enumerate(tile.parts) if parts > 1 and (i >= len(dims) or dims[i] is None)]
            batch = tile.batch(dims, self.batch.rank)
            if other:
                which = f" in dimension {other[0]}, which does not belong to the batch"
                self.refuse(name, len(tile.devices), which if self.batch.rank else "")
            if not tile.leading(len(dims)).divides(shape):
                self.refuse(name, len(tile.devices), " in parts of different sizes")
            elif batch.is_split():
                found.append((name, dims, batch))
        if not found:
            return _Tiles((1,) * self.batch.rank, ())
        # The others may have fewer dimensions of the batch than the one with the most parts.
        by, _, chosen = max(found, key=lambda one: math.prod(one[2].parts))
        for name, dims, batch in found:
            if chosen.of(dims) != batch.of(dims):
                self.refuse(name, len(batch.devices), f" in a different way from argument '{by}'")
        return chosen

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


def partition(call: Call, *, program: str, function: str, names: Sequence[Optional[str]], batch: Batch, mode: str) -> Call:
    """Return a function of operands that does what `call` does, and tells XLA how it may be split.

    `call` takes operands, which may be the shards of a batch, and returns a tuple or list of results: it derives their
    shapes from its operands. The returned function returns a tuple. It has no rules for vmap and grad: these belong
    around it. It belongs inside jit: outside of it, it does only what `call` does.

    Under jit, if an operand is sharded, compiling raises an error with the sentence of check_eager(). "replicate" lets
    XLA gather. A batch that is sharded stays where it is, without a collective (JAX 0.5.3 and newer), except that results
    which are sums over the batch are added up over the devices.

    `program` is a name that says what `call` does. The program that JAX hands to XLA has only the address of `call`, and
    an option of JAX removes that from the keys of its persistent cache: then the name tells two functions apart.
    """
    if not _HAS_RULES or (batch.sums() and _is_partly_manual()):
        batch = batch.without()
    rules = _Rules(function, names, batch, mode, in_program=True)

    def choose(rules: _Rules, operands: Sequence[Any]) -> _Tiles:
        shapes = [operand.shape for operand in operands]
        return rules.choose(shapes, [_Tiles.read(x.sharding, len(x.shape)) for x in operands])

    def infer(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        # An exception here ends the process in older versions of XLA. `split` is asked later, and may raise.
        chosen = choose(rules._replace(mode="replicate"), operands)
        return tuple(_Split(chosen.of(batch.result(i))) for i in range(len(results)))

    def split(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        chosen = choose(rules, operands)
        made = tuple(_Split(chosen.of(batch.result(i))) for i in range(len(results)))
        placements = tuple(_Split(chosen.of(() if name is None else dims)) for name, dims in zip(names, batch.operands))
        if not chosen.is_split() or not batch.sums():
            return mesh, lambda *shards: tuple(call(*shards)), made, placements
        return _numbered(len(chosen.devices)), _adding(call, batch.sums(), _AXIS, axis_index_groups=chosen.groups()), made, placements

    def rule(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        # A dimension that is not part of the batch has a name of its own, so that nothing is propagated through it.
        def mapping(own: str, rank: int, dims: Sequence[Optional[int]]) -> Any:
            padded = (*dims[:rank], *[None] * (rank - len(dims)))
            return partitioning.ArrayMapping(*(f"{own}x{i}" if dim is None else f"b{dim}" for i, dim in enumerate(padded)))

        shared = [() if name is None else dims for name, dims in zip(names, batch.operands)]
        return partitioning.SdyShardingRule(
            tuple(mapping(f"o{i}", one.rank, dims) for i, (one, dims) in enumerate(zip(operands, shared))),
            tuple(mapping(f"r{i}", one.rank, batch.result(i)) for i, one in enumerate(results)),
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
        if not operands or (mode == "replicate" and not batch.rank):
            return tuple(call(*operands))
        specs = _explicit_specs(operands)
        if not any(specs):
            return named(*operands)
        # In an explicit mesh, XLA decides nothing unless the axes are given to it; unify() has made the specs agree.
        spec = _batch_spec(specs, batch)
        out = tuple(_spec_of(dims or (), spec) for dims in batch.results) if batch.rank else _spec_of((), spec)
        if not batch.sums():
            return cast("tuple[Any, ...]", jax.sharding.auto_axes(named, out_sharding=out)(*operands))
        # Sums inside a partitioning callback cannot be compiled in such a mesh, and everything is known already.
        axes = tuple(name for axis in spec if axis for name in (axis if isinstance(axis, tuple) else (axis,)))
        given = tuple(_spec_of(dims, spec) for dims in batch.operands)
        added = _adding(call, batch.sums(), axes)
        return cast("tuple[Any, ...]", jax.shard_map(added, in_specs=given, out_specs=out, check_vma=False)(*operands))

    return run


def _numbered(count: int) -> Any:
    """A mesh in which each device of a program has its number. Which devices these are does not matter."""
    return jax.sharding.Mesh(numpy.resize(numpy.array(jax.devices(), object), count), (_AXIS,))


def _adding(call: Call, sums: Sequence[int], axes: Any, **groups: Any) -> Call:
    """Return a function of shards that adds some results of `call` up, over devices."""

    def run(*shards: Any) -> tuple[Any, ...]:
        made = enumerate(call(*shards))
        return tuple(jax.lax.psum(one, axes, **groups) if i in sums else one for i, one in made)

    return run


def keep_whole(
    operands: Sequence[Any], *, function: str, names: Sequence[Optional[str]], batch: Batch, mode: str
) -> tuple[Any, ...]:
    """Return the operands of a loop over a dimension of vmap, which are refused if they are split.

    Each turn of the loop gets a slice, and XLA would gather the operand to make it. `batch` does not matter here.
    """

    def same(*arrays: Any) -> tuple[Any, ...]:
        return arrays

    options: dict[str, Any] = {"function": function, "names": names, "batch": batch.without(), "mode": mode}
    whole = partition(same, program="keep_whole", **options)
    call = jax.custom_batching.custom_vmap(whole)
    call.def_vmap(lambda size, batched, *arrays: (call(*arrays), tuple(batched)))  # for vmap of vmap
    return tuple(call(*unify(operands, **options)))


def check_eager(
    arrays: Sequence[Any], *, function: str, names: Sequence[Optional[str]], batch: Batch, mode: str
) -> None:
    """Raise ValueError if an eager call on these arrays would have to gather one of them.

    Tracers, NumPy arrays and numbers are ignored. Call it before anything is traced or run.
    """
    if mode != "raise" or not any(map(_is_split, arrays)):
        return
    rules = _Rules(function, names, batch if _HAS_RULES else batch.without(), mode)
    found = [array if _is_split(array) else None for array in arrays]
    for name, array in zip(names, found):
        if array is not None and isinstance(array.sharding, _PMAP):
            rules.refuse(name, len(array.sharding.device_set), " by pmap")
    tiles = [_Tiles((), ()) if array is None else _Tiles.read(array.sharding, array.ndim) for array in found]
    rules.choose([() if array is None else array.shape for array in found], tiles)


def _find_refusal(error: BaseException) -> str:
    """The sentence of check_eager() in an error of XLA's compiler, which has the whole traceback of the callback; or ""."""
    found = re.search(rf"\w+\(\): argument '[^']+' is sharded over .*?{re.escape(_ADVICE)}(\. If XLA chose .*)?", str(error))
    return found[0] if found else ""


def name_refusal(error: BaseException, *, function: str) -> None:
    """Raise the ValueError of check_eager() if an eager call failed because XLA asked what to do with its operands.

    check_eager() does not see the arrays inside the tracers of jax.grad and jax.vmap. JAX compiles the call for them.
    """
    said = _find_refusal(error)
    if said.startswith(f"{function}()"):
        raise ValueError(said.partition(". If XLA chose")[0]) from error


def _shorten(error: BaseException) -> Optional[BaseException]:
    """The same error with only the sentence of a refusal, for programs that users compile."""
    said = _find_refusal(error)
    return type(error)(said) if said else None


def _shorten_errors() -> None:
    """Let JAX ask _shorten() when XLA cannot compile a program; versions without such handlers keep the long message."""
    compiler = importlib.import_module("jax._src.compiler")
    getattr(compiler, "register_xla_runtime_error_handler", lambda handler: None)(_shorten)


_shorten_errors()


def _is_split(array: Any) -> bool:
    kind: Any = type(array)
    if not _is_array_type(kind):  # isinstance() takes microseconds with the types of JAX
        return False
    sharding = array.sharding
    return type(sharding) is not _SINGLE and len(sharding.device_set) > 1 and not sharding.is_fully_replicated


def _is_partly_manual() -> bool:
    """Whether this is inside a shard_map over only some axes of a mesh, where XLA numbers the devices in another way."""
    mesh = getattr(jax.sharding, "get_abstract_mesh", None)  # JAX 0.5
    kinds = set(() if mesh is None else mesh().axis_types)
    return len(kinds) > 1 and jax.sharding.AxisType.Manual in kinds


def _check_mesh(function: str) -> None:
    """Raise NotImplementedError if GSPMD would end the process, as it does on any foreign call."""
    if _is_partly_manual() and not jax.config.jax_use_shardy_partitioner:
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


def _batch_spec(specs: Sequence[Sequence[Any]], batch: Batch) -> list[Any]:
    """The axes of the mesh along which each dimension of the batch is split, from the specs of the operands."""
    found: list[Any] = [None] * batch.rank
    for spec, dims in zip(specs, batch.operands):
        for axis, dim in zip(spec, dims):
            if dim is not None and found[dim] is None:
                found[dim] = axis
    return found


def _spec_of(dims: Sequence[Optional[int]], spec: Sequence[Any]) -> Any:
    """How an array is split that has these dimensions of the batch."""
    return jax.sharding.PartitionSpec(*(None if dim is None else spec[dim] for dim in dims))


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
    operands: Sequence[Any], *, function: str, names: Sequence[Optional[str]], batch: Batch, mode: str
) -> tuple[Any, ...]:
    """Return the operands with types that agree: inside shard_map, and in a mesh with explicit axes.

    This belongs outside the custom_jvp: JAX then converts the gradients back, and sums those of an operand that was
    the same on every device.
    """
    operands = _cast(operands, operands)
    if not any(_explicit_specs(operands)):
        return operands
    types = [jax.typeof(operand) for operand in operands]
    tiles = [_Tiles.read(one.sharding, one.ndim) for one in types]
    chosen = _Rules(function, names, batch, mode).choose([one.shape for one in types], tiles)
    same = [
        tuple(one.sharding.spec) if tile.batch(dims, batch.rank) == chosen else ()
        for one, tile, dims in zip(types, tiles, batch.operands)
    ]
    spec = _batch_spec(same, batch)
    return tuple(
        jax.sharding.reshard(operand, _spec_of(() if name is None else dims, spec))
        for operand, name, dims in zip(operands, names, batch.operands)
    )


def vary(results: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results, varying over the axes of the surrounding shard_map over which the operands vary.

    This belongs inside the custom_jvp: outside of it, JAX would sum the gradients of the results over the devices.
    """
    return _cast(results, operands)
