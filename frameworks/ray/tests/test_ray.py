"""tenon.ray_ops on two nodes of Ray: arguments and results, what is refused, errors, and the library on its way."""

import os
import pathlib
import stat
import time
import warnings
from hashlib import sha256

import pytest

ray = pytest.importorskip("ray")
numpy = pytest.importorskip("numpy")

import tenon  # noqa: E402

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.filterwarnings("ignore:.*is left out")]

X = numpy.arange(6, dtype="float32")
LIMIT = 120  # seconds: nothing may hang


def get(reference):
    return ray.get(reference, timeout=LIMIT)


@pytest.fixture(scope="module", params=[0, 2], ids=["tasks", "actors"])
def ops(request, cluster, library_file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # close() is left out
        ops = tenon.ray_ops(tenon.load(library_file), actors=request.param)
    with ops:
        yield ops


def load_unique(folder, content, mark):
    """A library that no other test has loaded."""
    (folder / "unique.so").write_bytes(content + mark.encode())
    return tenon.load(folder / "unique.so")


def has_actor(name):
    try:
        ray.get_actor(name)
    except ValueError:
        return False
    return True


def wait_until(condition):
    for _ in range(LIMIT * 100):
        if condition():
            return True
        time.sleep(0.01)
    return False


# -------------------------------------------------------------------------------------------------- arguments and results


def test_arrays_and_references(ops):
    first = ops.saxpy.remote(2.0, X, y=X)
    assert isinstance(first, ray.ObjectRef)
    second = ops.saxpy.remote(a=ray.put(1.0), x=first, y=ray.put(X))
    assert get(second).tolist() == (4 * X).tolist()


def test_several_results_are_a_list(ops):
    same, negative, count = made = ops.split.remote(X)
    assert isinstance(made, list) and all(isinstance(reference, ray.ObjectRef) for reference in made)
    assert get(same).tolist() == X.tolist() and get(negative).tolist() == (-X).tolist() and get(count) == 6


def test_one_result_and_none(ops):
    assert get(ops.total.remote(X)) == 15.0  # it has a name, but there is only one
    assert get(ops.nothing.remote()) is None


def test_results_are_of_the_framework_of_the_arguments(ops):
    assert type(get(ops.saxpy.remote(1.0, X, X))) is numpy.ndarray
    made = get(ops.saxpy.remote(1.0, tenon.to(X, "tenon"), X))
    assert type(made) is tenon.Tensor and made.readonly and list(map(float, made)) == (2 * X).tolist()
    assert type(get(ops.saxpy.remote(1.0, X, X, like="tenon"))) is tenon.Tensor


@pytest.mark.parametrize("size", [1, 7, 1000, 300_000])
def test_every_size_is_taken(ops, size):
    """Ray sends small arrays with the call, and large ones through the store."""
    x = numpy.ones(size, "float32")
    assert get(ops.total.remote(x)) == get(ops.total.remote(ray.put(x))) == size


def test_no_copy(remote):
    """A kernel sees the memory of the object store, at the same address in each call."""
    large = numpy.ones(1 << 20, "float32")
    reference = ray.put(large)
    with tenon.ray_ops(remote, actors=1, resources={"first": 1}) as ops:
        places = [get(ops.place.remote(reference)) for _ in range(2)]
    assert places[0] == places[1] and "plasma" in places[0][1]


def test_no_copy_of_tensors(remote):
    reference = ray.put(tenon.to(numpy.ones(1 << 20, "float32"), "tenon"))
    with tenon.ray_ops(remote, actors=1, resources={"first": 1}) as ops:
        assert "plasma" in get(ops.place.remote(reference)[1])


def test_results_stay_in_the_store(remote):
    """A large result is made on the other node, and used there, before the driver asks for it."""
    with tenon.ray_ops(remote, resources={"second": 1}) as ops:
        made = ops.saxpy.remote(1.0, *[numpy.ones(1 << 20, "float32")] * 2)
        assert "plasma" in get(ops.place.remote(made)[1])
        assert not get(made).flags.writeable


# ------------------------------------------------------------------------------------------------------ tasks and actors


def test_actors_take_turns(remote):
    with tenon.ray_ops(remote, actors=3) as ops:
        processes = [get(ops.process.remote()) for _ in range(6)]
    assert len(set(processes)) == 3 and processes[:3] == processes[3:] and os.getpid() not in processes


@pytest.mark.parametrize("actors", [0, 1])
def test_options_reach_ray(remote, actors):
    where = set()
    for node in ("first", "second"):
        with tenon.ray_ops(remote, actors=actors, num_cpus=1, resources={node: 1}) as ops:
            where.add(get(ops.process.remote()))
    assert len(where) == 2
    with pytest.raises(ValueError, match="num_cpu_s"):
        tenon.ray_ops(remote, actors=actors, num_cpu_s=1)


def test_close_waits_for_calls_and_ends_the_actors(remote, tmp_path):
    started, end = tmp_path / "started", tmp_path / "end"
    with tenon.ray_ops(remote, actors=1) as ops:
        process = get(ops.process.remote())
        waiting, last = ops.wait_for.remote(str(started), str(end)), ops.total.remote(X)
    end.touch()
    assert get([waiting, last]) == [None, 15.0]
    assert wait_until(lambda: not pathlib.Path(f"/proc/{process}").exists())


@pytest.mark.parametrize("actors", [0, 1])
def test_closed(remote, actors):
    ops = tenon.ray_ops(remote, actors=actors)
    ops.close()
    ops.close()
    with pytest.raises(RuntimeError, match=r"^total\(\): the functions were closed; call tenon.ray_ops\(\) again$"):
        ops.total.remote(X)


def test_actors_that_ray_refuses_leave_none_behind(remote):
    """The second has the name of another actor."""
    with tenon.ray_ops(remote, actors=1, name="both-1"):
        with pytest.raises(ValueError, match="already"):
            tenon.ray_ops(remote, actors=2, name="both")
        assert wait_until(lambda: not has_actor("both-0"))


def test_names_of_actors(remote):
    with tenon.ray_ops(remote, actors=2, name="pair") as ops:
        assert has_actor("pair-0") and has_actor("pair-1") and not has_actor("pair")
        assert get(ops.total.remote(X)) == 15.0


@pytest.mark.parametrize("options", [{"resources": {"of no node": 1}}, {"lifetime": "detached"}], ids=["waits for a node", "detached"])
def test_close_ends_every_actor(remote, options):
    with tenon.ray_ops(remote, actors=1, name="ends", **options) as ops:
        assert has_actor("ends")
        if "lifetime" in options:
            get(ops.process.remote())
    assert wait_until(lambda: not has_actor("ends"))


# ------------------------------------------------------------------------------------------------------ what is refused


def test_written_arguments(ops):
    for args, kwargs in (((X,), {}), ((), {"x": X}), ((ray.put(X),), {})):
        with pytest.raises(ValueError, match=r"^scale\(\): argument 'x': .*writes to it.*read-only"):
            ops.scale.remote(*args, **kwargs)
    with pytest.raises(ValueError, match="argument 'x'"):
        ops.scale_maybe.remote(X)
    assert get(ops.scale_maybe.remote()) is None
    with pytest.raises(ValueError, match=r"^saxpy\(\): argument 'out'"):
        ops.saxpy.remote(1.0, X, X, out=X)


def test_handles_and_objects(ops, remote):
    for name, args in (("make_handle", ()), ("Item", ())):
        with pytest.raises(TypeError, match=rf"^{name}\(\) returns a handle or an object, which cannot leave its process"):
            getattr(ops, name).remote(*args)
    for thing in (remote.make_handle(), ray.put(1)):
        with pytest.raises(TypeError, match=r"^use_handle\(\): argument 'thing': .*cannot leave its process"):
            ops.use_handle.remote(thing)
    assert get(ops.use_handle.remote()) is None
    with pytest.raises(TypeError):
        ops.total.remote(remote.Item())


def test_arguments_that_do_not_fit_are_refused_at_once(ops):
    with pytest.raises(TypeError, match=r"total\(\)"):
        ops.total.remote()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        ops.total.remote(X, z=1)


def test_a_call_without_remote(ops):
    with pytest.raises(TypeError, match=r"^total\(\) runs on Ray; call total.remote\(\)"):
        ops.total(X)


def test_ops_are_not_pickled(ops):
    for thing in (ops, ops.total):
        with pytest.raises(TypeError, match="cannot be pickled"):
            ray.put(thing)


@pytest.mark.parametrize("kernels, options, error, message", [
    (numpy, {}, TypeError, r"argument 'kernels': expected a library from tenon.load\(\), got module"),
    (None, {"actors": True}, TypeError, "argument 'actors': expected int, got bool"),
    (None, {"name": 5}, TypeError, "argument 'name': expected str, got int"),
    (None, {"actors": -1}, ValueError, "argument 'actors': expected 0 .* got -1"),
    (None, {"num_returns": 2}, TypeError, "the option 'num_returns' is set by Tenon"),
])
def test_bad_arguments(remote, kernels, options, error, message):
    with pytest.raises(error, match=rf"^tenon\.ray_ops\(\): {message}"):
        tenon.ray_ops(kernels or remote, **options)


def test_a_name_that_is_taken(remote):
    with pytest.warns(UserWarning) as warned:
        ops = tenon.ray_ops(remote)
    assert [str(warning.message).split(":")[1] for warning in warned] == [" close() is left out", " _pool() is left out"]
    assert {warning.filename for warning in warned} == {__file__}
    assert ops.close() is None


def test_a_name_that_ray_uses(ops):
    assert get(ops._actor_id.remote()) != os.getpid()


# ---------------------------------------------------------------------------------------------------- errors and deaths

STATUS = {1: ValueError, 2: MemoryError, 3: OverflowError, 6: BufferError, 7: IndexError, 13: RuntimeError}


@pytest.mark.parametrize("status", STATUS)
def test_a_kernel_that_fails(ops, remote, status):
    """The exception is of the class that a call in this process raises."""
    with pytest.raises(Exception, match="what the kernel says") as here:
        remote.fail(status, "what the kernel says")
    with pytest.raises(type(here.value), match="what the kernel says"):
        get(ops.fail.remote(status, "what the kernel says"))


def test_an_argument_that_the_kernel_refuses(ops):
    with pytest.raises(TypeError, match="argument 'x'"):
        get(ops.total.remote(ray.put("text")))
    with pytest.raises((TypeError, ValueError), match="expected f32"):
        get(ops.total.remote(X.astype("float64")))


def test_the_error_of_an_argument_is_passed_on(ops):
    with pytest.raises(ValueError, match="the first call"):
        get(ops.total.remote(ops.fail.remote(1, "the first call")))


def test_every_result_of_a_failed_call_raises(ops):
    for reference in ops.split.remote(ray.put("text")):
        with pytest.raises(TypeError, match="argument 'x'"):
            get(reference)


def test_a_kernel_that_crashes(remote):
    with tenon.ray_ops(remote, max_retries=0) as ops:
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            get(ops.crash.remote())
        assert get(ops.total.remote(X)) == 15.0
    with tenon.ray_ops(remote, actors=1) as ops:
        with pytest.raises(ray.exceptions.RayActorError):
            get(ops.crash.remote())
        with pytest.raises(ray.exceptions.RayActorError):
            get(ops.total.remote(X))


def test_an_actor_that_is_killed_in_a_call(remote, tmp_path):
    started = tmp_path / "started"
    with tenon.ray_ops(remote, actors=2) as ops:
        processes = [get(ops.process.remote()) for _ in range(2)]
        waiting = ops.wait_for.remote(str(started), str(tmp_path / "never"))
        assert wait_until(started.exists)
        os.kill(processes[0], 9)
        with pytest.raises(ray.exceptions.RayActorError):
            get(waiting)
        assert get(ops.process.remote()) == processes[1]


def test_an_actor_that_ray_starts_again(library_file, cache, tmp_path):
    """The library still is in the object store for it."""
    kernels = load_unique(tmp_path, library_file.read_bytes(), "again")
    before = set(cache.glob("ray/*"))
    with tenon.ray_ops(kernels, actors=1, max_restarts=-1, max_task_retries=-1) as ops:
        first = get(ops.process.remote())
        for kept in set(cache.glob("ray/*")) - before:
            kept.unlink()
        os.kill(first, 9)
        assert get(ops.process.remote()) != first


@pytest.fixture
def third(cluster):
    """A node that a test removes."""
    node = cluster.add_node(num_cpus=4, object_store_memory=100 * 1024 * 1024, resources={"third": 100})
    cluster.wait_for_nodes()
    yield node
    if node in cluster.worker_nodes:
        cluster.remove_node(node)


def test_a_node_that_is_removed_in_calls(cluster, third, remote, tmp_path):
    """Calls that run on it fail, results that only it had are lost, and the other nodes go on."""
    with tenon.ray_ops(remote, actors=1, resources={"third": 1}) as there, tenon.ray_ops(
        remote, resources={"third": 1}, max_retries=0
    ) as tasks, tenon.ray_ops(remote, actors=1, resources={"second": 1}) as elsewhere:
        made = there.saxpy.remote(1.0, *[numpy.ones(1 << 20, "float32")] * 2)
        ray.wait([made], fetch_local=False, timeout=LIMIT)
        starts = [tmp_path / "actor", tmp_path / "task"]
        waiting = [ops.wait_for.remote(str(file), str(tmp_path / "never")) for ops, file in zip((there, tasks), starts)]
        assert wait_until(lambda: all(file.exists() for file in starts))
        cluster.remove_node(third, allow_graceful=False)
        for reference, error in (
            (waiting[0], ray.exceptions.RayActorError),
            (waiting[1], (ray.exceptions.NodeDiedError, ray.exceptions.WorkerCrashedError)),
            (made, (ray.exceptions.ObjectLostError, ray.exceptions.RayActorError)),
            (there.total.remote(X), ray.exceptions.RayActorError),
        ):
            with pytest.raises(error) as caught:
                get(reference)
            assert not isinstance(caught.value, ray.exceptions.GetTimeoutError)
        assert get(elsewhere.total.remote(X)) == 15.0
    assert wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)  # Ray uses it until it knows


# --------------------------------------------------------------------------------------------- the library on its way


@pytest.mark.parametrize("actors", [0, 1])
def test_the_nodes_do_not_need_the_file(library_file, cache, tmp_path, actors):
    """They get the content, and the processes of a node share one file of it."""
    kernels = load_unique(tmp_path, library_file.read_bytes(), f"unique {actors}")
    before = set(cache.glob("ray/*"))
    with tenon.ray_ops(kernels, actors=actors) as ops:
        content = pathlib.Path(kernels.__file__).read_bytes()
        os.unlink(kernels.__file__)
        assert get([ops.total.remote(X) for _ in range(4)]) == [15.0] * 4
    (kept,) = set(cache.glob("ray/*")) - before
    assert kept.read_bytes() == content and kept.name == f"{sha256(content).hexdigest()}.so"
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["changed", "shortened", "replaced by a folder", "replaced by a pipe"])
def test_a_damaged_file_on_the_node_is_not_loaded(library_file, cache, tmp_path, damage):
    """Each process compares it with the hash before it loads it."""
    kernels = load_unique(tmp_path, library_file.read_bytes(), damage)
    before = set(cache.glob("ray/*"))
    with tenon.ray_ops(kernels, actors=1) as ops:
        assert get(ops.total.remote(X)) == 15.0
    (kept,) = set(cache.glob("ray/*")) - before
    content = kept.read_bytes()
    kept.unlink()  # the process that has mapped it keeps it
    if damage == "replaced by a folder":
        kept.mkdir()
    elif damage == "replaced by a pipe":
        os.mkfifo(kept)
    else:
        kept.write_bytes(content[:100] if damage == "shortened" else b"\0" * len(content))
    with tenon.ray_ops(kernels, actors=1) as ops:
        assert get(ops.total.remote(X)) == 15.0
    if kept.is_dir():
        kept.rmdir()
    else:
        assert kept.read_bytes() == content


def test_a_library_that_was_replaced(remote, tmp_path):
    """It is not the code that the caller has."""
    file = pathlib.Path(remote.__file__)
    (tmp_path / "new.so").write_bytes(file.read_bytes() + b"new")
    (tmp_path / "new.so").replace(file)
    with pytest.raises(ImportError, match="was changed after it was loaded; load it again"):
        tenon.ray_ops(remote)
    file.unlink()
    with pytest.raises(FileNotFoundError, match="the library was loaded from this path"):
        tenon.ray_ops(remote)
