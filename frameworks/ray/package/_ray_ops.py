"""The functions of a library on the nodes of Ray, as tasks or in actors."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Union, cast

from tenon import _ray_worker
from tenon._library import functions_of, is_class
from tenon._load import Library
from tenon._native import _sort_arguments
from tenon._pickle import _load_again, hash_of

if TYPE_CHECKING:
    from tenon._native import Function

_OWN_NAMES = ("close", "_pool")  # attributes of RayOps
_SET_HERE = ("num_returns",)


def ray_ops(kernels: ModuleType, *, name: Optional[str] = None, actors: int = 0, **ray_options: Any) -> RayOps:
    """Return the functions of a loaded library as functions of Ray.

    `ops.f.remote(*args, **kwargs)` starts a call and returns an ObjectRef, or a list of them if f has several results.
    Arguments are references and arrays. Results stay in the object store until ray.get().

    Each call is a task of Ray. With actors=N there are N processes that have loaded the library, which take turns.
    `ray_options` are the options of Ray for these tasks or actors, such as num_cpus. Ray shows a task as "module.function";
    `name` replaces the name of the module there. It is also the name of the actor for ray.get_actor(), or with a number
    ("name-0", "name-1", …) of each actor if there are several.

    The library itself travels to the nodes, which need Tenon but not the file. Call close() at the end, or use `with`.
    """
    ray = _ray_module()
    if not isinstance(kernels, Library):
        got = type(kernels).__name__
        raise TypeError(f"tenon.ray_ops(): argument 'kernels': expected a library from tenon.load(), got {got}")
    if not isinstance(name, (str, type(None))):
        raise TypeError(f"tenon.ray_ops(): argument 'name': expected str, got {type(name).__name__}")
    if isinstance(actors, bool) or not isinstance(actors, int):
        raise TypeError(f"tenon.ray_ops(): argument 'actors': expected int, got {type(actors).__name__}")
    if actors < 0:
        raise ValueError(f"tenon.ray_ops(): argument 'actors': expected 0 (for tasks) or more, got {actors}")
    for option in ray_options:
        if option in _SET_HERE:
            raise TypeError(f"tenon.ray_ops(): the option {option!r} is set by Tenon, from the results of each function")
    members: dict[str, Optional[Function]]  # None for a class
    members = {function.__name__: cast("Function", function.__self__) for function in functions_of(kernels)}
    members.update({name: None for name, value in vars(kernels).items() if is_class(value)})
    for own in _OWN_NAMES:
        if own in members:
            del members[own]
            warnings.warn(f"tenon.ray_ops(): {own}() is left out: tenon.RayOps reserves this name", stacklevel=2)
    content = _content_of(kernels)
    source = _ray_worker.Source(sha256(content).hexdigest(), ray.put(content))
    counts = {name: max(len(function.results), 1) for name, function in members.items() if function}
    pool: _Pool
    if actors:
        names: list[Optional[str]] = [None if name is None else f"{name}-{i}" for i in range(actors)]
        if actors == 1:
            names = [name]
        pool = _Actors(ray, _ray_worker.make_actor(name or kernels.__name__, counts), source, names, ray_options)
    else:
        pool = _Tasks(ray, name or kernels.__name__, counts, source, ray_options)
    return RayOps(pool, members)


def _ray_module() -> Any:
    try:
        return import_module("ray")  # not before the first call: whoever has no Ray can use the rest
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ImportError("tenon.ray_ops() needs Ray, which is not installed; run: pip install ray") from error


def _content_of(kernels: Library) -> bytes:
    """Return the bytes of the file that was loaded. Raise an exception if there is another build in its place."""
    _, (path, digest, *_) = kernels.__reduce__()
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, "the library was loaded from this path; build it again, and load it", path) from None
    origin, _ = _load_again(path)
    if hash_of(origin) != digest:
        raise ImportError(
            f"tenon.ray_ops(): {path} was changed after it was loaded; load it again, and pass the new library",
            name=kernels.__name__,
            path=path,
        )
    return content


class RayOps:
    """The functions of a library on the nodes of Ray, by name."""

    def __init__(self, pool: _Pool, members: Mapping[str, Optional[Function]]) -> None:
        self._pool = pool
        vars(self).update({name: RayFunction(pool, name, function) for name, function in members.items()})

    if TYPE_CHECKING:  # each function is an attribute

        def __getattr__(self, name: str) -> RayFunction: ...

    def close(self) -> None:
        """End the actors after the calls that were started, and release the library in the object store.

        Results stay in the object store. Another close() does nothing."""
        self._pool.close()

    def __enter__(self) -> RayOps:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("the result of tenon.ray_ops() cannot be pickled; call tenon.ray_ops() in the process that uses it")


class RayFunction:
    """One function; remote() calls it. A class has no function here, and its remote() says why."""

    def __init__(self, pool: _Pool, name: str, function: Optional[Function]) -> None:
        self._pool = pool
        self._function = function
        self._parameters = function.parameters if function else ()
        self._refused = [i for i, p in enumerate(self._parameters) if p["written"] or p["kind"] == "handle"]  # if given
        results = function.results if function else ()
        self._makes_handle = function is None or any(r["kind"] == "handle" for r in results)
        self.__name__ = name
        self.__doc__ = function.doc if function else None

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Start a call. Return an ObjectRef, or a list of them for several results."""
        self._check(args, kwargs)
        return self._pool.submit(self.__name__, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"{self.__name__}() runs on Ray; call {self.__name__}.remote(), and ray.get() for the result")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a function of tenon.ray_ops() cannot be pickled; call tenon.ray_ops() in the process that uses it")

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise an exception for arguments that no other process can use."""
        if self._function is None or self._makes_handle:
            raise TypeError(
                f"{self.__name__}() returns a handle or an object, which cannot leave its process; "
                "load the library in an actor of your own, and keep the object there"
            )
        if kwargs.get("out") is not None:
            raise ValueError(f"{self.__name__}(): argument 'out': results are made in Ray's object store; leave it out")
        keywords = {name: value for name, value in kwargs.items() if name not in ("out", "like")}
        given = _sort_arguments(self._function, args, keywords, None)
        for i in self._refused:
            parameter = self._parameters[i]
            if given[i] is None:
                continue
            begin = f"{self.__name__}(): argument '{parameter['name']}': "
            if parameter["written"]:
                raise ValueError(
                    f"{begin}expected nothing on Ray, because the function writes to it ({parameter['type']}) and arrays in "
                    "Ray's object store are read-only; use a function that returns a result"
                )
            raise TypeError(
                f"{begin}expected nothing on Ray, because a handle or an object cannot leave its process; "
                "load the library in an actor of your own"
            )


# ------------------------------------------------------------------------------------------------- where the calls run


class _Tasks:
    """Any process of Ray."""

    def __init__(
        self, ray: Any, library: str, counts: Mapping[str, int], source: _ray_worker.Source, options: dict[str, Any]
    ) -> None:
        self._source: Optional[_ray_worker.Source] = source
        task = ray.remote(_ray_worker.call)
        self._tasks = {
            name: task.options(**{"num_returns": count, "name": f"{library}.{name}", **options}) for name, count in counts.items()
        }

    def submit(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._source is None:
            raise _closed(name)
        return self._tasks[name].remote(self._source, name, *args, **kwargs)

    def close(self) -> None:
        self._source = None


class _Actors:
    """Processes that have loaded the library. They take turns."""

    def __init__(
        self, ray: Any, kind: type[_ray_worker.Actor], source: _ray_worker.Source, names: list[Optional[str]], options: dict[str, Any]
    ) -> None:
        self._ray = ray
        self._source: Optional[_ray_worker.Source] = source  # Ray may start an actor again
        self._turn = itertools.count()
        self._detached = options.get("lifetime") == "detached"
        self._actors: list[Any] = []
        actor = ray.remote(kind)
        try:
            for name in names:
                self._actors.append(actor.options(name=name, **options).remote(source))
        except BaseException:
            self.close()
            raise

    def submit(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        actors = self._actors
        if not actors:
            raise _closed(name)
        actor = actors[next(self._turn) % len(actors)]
        return getattr(actor, _ray_worker.method_name(name)).remote(*args, **kwargs)

    def close(self) -> None:
        # Ray ends an actor that has no handle after its calls, also one that it could not start yet. A detached actor lives
        # without a handle, so it is asked to end.
        actors, self._actors, self._source = self._actors, [], None
        if self._detached and self._ray.is_initialized():
            for actor in actors:
                actor.__ray_terminate__.remote()


_Pool = Union[_Tasks, _Actors]


def _closed(name: str) -> RuntimeError:
    return RuntimeError(f"{name}(): the functions were closed; call tenon.ray_ops() again")
