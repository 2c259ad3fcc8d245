"""What partitioning leaves in compiled programs: nothing on one device."""

import jax
import numpy as np
import pytest
from building import run_python
from four_devices import LINE, SHARDY, VERSION, NamedSharding, P, f32, ops, partitions_batches, put, shard_map
from jax_operators import FILE

X = f32(8, 4)
EXACT = np.testing.assert_array_equal


def test_one_device_has_one_plain_call():
    lowered = jax.jit(lambda x: ops.square(ops.square(x))).lower(X)
    assert "CustomSPMDPartitioning" not in lowered.as_text()
    text = lowered.compile().as_text()
    assert text.count("custom-call(") == 2 and " call(" not in text


def test_the_cache_of_programs_is_used_by_the_next_process(tmp_path):
    code = f"""
        import jax, numpy as np, tenon, warnings
        from jax._src import monitoring
        warnings.simplefilter("ignore", UserWarning)
        hits = []
        jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        monitoring.register_event_listener(lambda event, **_: hits.append(event.rpartition("/")[2]))
        ops = tenon.jax_ops(tenon.load({str(FILE)!r}))
        jax.jit(lambda x: ops.square(x))(np.ones((8, 4), np.float32)).block_until_ready()
        print(hits.count("cache_hits"), hits.count("cache_misses"))
    """
    said = [run_python(code) for _ in range(2)]
    (_, missed), (hit, missed_again) = (map(int, one.split()) for one in said)
    assert missed >= 1 and hit >= missed and missed_again == 0


@pytest.mark.skipif(not hasattr(jax.config, "jax_remove_custom_partitioning_ptr_from_cache_key"), reason="no such option")
def test_the_cache_of_sharded_programs(tmp_path):
    """With JAX's option the next process finds a sharded program, and never that of another function or number."""
    code = f"""
        import jax, numpy as np, tenon, warnings
        from jax._src import monitoring
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        warnings.simplefilter("ignore", UserWarning)
        hits = []
        jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.config.update("jax_remove_custom_partitioning_ptr_from_cache_key", True)
        x = np.arange(32, dtype=np.float32).reshape(8, 4)
        given = jax.device_put(x, NamedSharding(Mesh(jax.devices(), ("a",)), PartitionSpec("a")))
        ops = tenon.jax_ops(tenon.load({str(FILE)!r}))
        monitoring.register_event_listener(lambda event, **_: hits.append(event.rpartition("/")[2]))
        calls = [(lambda x: ops.square(x), x * x), (lambda x: ops.affine(x, 2.0), 2 * x), (lambda x: ops.affine(x, 3.0), 3 * x)]
        for call, expected in calls:
            hits.clear()
            assert np.array_equal(jax.jit(call)(given), expected)
            print(hits.count("cache_misses"))
    """
    first, second = ([int(count) for count in run_python(code).split()] for _ in range(2))
    assert min(first) >= 1 and second == [0, 0, 0]


def exported(f, *args):
    export = pytest.importorskip("jax.export")
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in ops.custom_calls]
    return export, export.export(jax.jit(f), disabled_checks=checks)(*args)


def test_export_with_symbolic_sizes():
    pytest.importorskip("flatbuffers")
    symbolic = pytest.importorskip("jax.export").symbolic_shape("b, n")
    export, made = exported(ops.square, jax.ShapeDtypeStruct(symbolic, np.float32))
    loaded = export.deserialize(made.serialize())
    EXACT(loaded.call(X), X * X)
    EXACT(loaded.call(X[:3, :2]), X[:3, :2] ** 2)


@pytest.mark.skipif(VERSION >= (0, 9) and not SHARDY, reason="JAX cannot export a shard_map for GSPMD")
def test_export_of_shard_map():
    pytest.importorskip("flatbuffers")
    x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(LINE, P("a")))
    export, made = exported(shard_map(ops.square, P("a"), P("a")), x)
    EXACT(export.deserialize(made.serialize()).call(put(X, "a")), X * X)


@partitions_batches
def test_a_partitioned_batch_cannot_be_exported():
    """JAX cannot serialize a custom partitioning; shard_map is the way."""
    x = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(LINE, P("a")))
    with pytest.raises(NotImplementedError):
        exported(ops.square, x)[1].serialize()
