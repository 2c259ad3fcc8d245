"""The packages that the kit knows by name: how to make an array, take one, and find its address. They are what is tested; the
kit itself needs none of them. A module is imported only when one of its functions is called, or by `load`."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any, Callable, Optional

from . import structs

Function = Callable[..., Any]
_PLAIN = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64", "complex64", "complex128")


def _module(name: str) -> Any:
    """A module that is imported when a function of this file needs it, and whose types no checker knows."""
    return importlib.import_module(name)


def _unknown(what: object) -> NotImplementedError:
    return NotImplementedError(f"the factory makes no such array: {what}")


class Target:
    """`modules` are imported by `load`. A function is None if the package has none."""

    def __init__(
        self,
        name: str,
        make: Optional[Function],
        consume: Optional[Function],
        pointer: Optional[Function] = None,
        *,
        modules: tuple[str, ...] = (),
        package: str = "",
        device: str = "cpu",
    ) -> None:
        self.name, self.make, self.consume, self.pointer = name, make, consume, pointer
        self.modules, self.package, self.device = modules or (name,), package or name, device

    def spec(self) -> dict[str, Any]:
        """What another process needs to find it."""
        return {"name": self.name}

    def is_installed(self) -> bool:
        try:
            return all(importlib.util.find_spec(module.split(".")[0]) for module in self.modules)
        except (ImportError, ValueError):
            return False

    def version(self) -> str:
        """Without importing it. An empty text if it is not known."""
        if self.name == "tenon":
            import tenon

            return str(tenon.__version__)
        for name in (self.package, f"{self.package}-cpu", *(f"{self.package}-cuda1{i}x" for i in range(1, 4))):
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                pass
        return ""

    def load(self) -> None:
        """Import the package. No array is made: afterwards the process can still be forked."""
        for module in self.modules:
            importlib.import_module(module)


# ---------------------------------------------------------------------------------------------------------------- NumPy


def _numpy_dtype(np: Any, name: str) -> Any:
    if name in _PLAIN + _FLOATS:
        return np.dtype(name)
    if importlib.util.find_spec("ml_dtypes"):
        found = getattr(importlib.import_module("ml_dtypes"), name, None)
        if found is not None and structs.bits_of(name) >= 8:
            return np.dtype(found)
    raise _unknown(name)


def numpy_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    np = _module("numpy")

    kind = _numpy_dtype(np, dtype)
    plain = np.arange(structs.product(shape)).astype(kind).reshape(shape)
    if layout in (None, "writable"):
        return plain
    if layout == "F":
        return np.asfortranarray(plain)
    if layout == "strided":
        wide = np.zeros([2 * size for size in shape], kind)
        view = wide[tuple(slice(None, None, 2) for _ in shape)]
        view[...] = plain
        return view
    if layout == "reversed":
        steps = tuple(slice(None, None, -1) for _ in shape)
        return np.ascontiguousarray(plain[steps])[steps]
    if layout == "broadcast":
        return np.lib.stride_tricks.as_strided(plain[:1], plain.shape, (0, *plain.strides[1:]))
    if layout == "overlapping":
        line = np.arange(sum(shape)).astype(kind)
        return np.lib.stride_tricks.as_strided(line, shape, [line.itemsize] * len(shape))
    if layout == "offset":
        line = np.zeros(plain.size + 3, kind)
        line[3:] = plain.ravel()
        return line[3:].reshape(shape)
    if layout == "readonly":
        plain.flags.writeable = False
        return plain
    if layout == "byteswapped":
        return plain.astype(kind.newbyteorder())
    raise _unknown(layout)


def _numpy_consume(x: Any, **keywords: Any) -> Any:
    np = _module("numpy")

    return np.from_dlpack(x, **keywords)


# ---------------------------------------------------------------------------------------------------------------- tenon


def _tenon_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    from tenon import _native

    from .made_producers import Made

    if layout in ("requires_grad", "byteswapped"):
        raise _unknown(layout)
    made = Made(tuple(shape), dtype, layout, padding=12 if layout == "offset" else 0)
    block = made.memory.buffer()
    offset = made.address - made.memory.start
    return _native._tensor_on(
        block.toreadonly() if layout == "readonly" else block, offset, dtype, made.shape, made.layout.strides
    )


def _tenon_consume(x: Any, **keywords: Any) -> Any:
    import tenon

    return tenon.from_dlpack(x, **keywords)


# ---------------------------------------------------------------------------------------------------------------- torch


def _torch_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    torch = _module("torch")

    kind = getattr(torch, dtype, None)
    if kind is None or structs.bits_of(dtype) < 8:
        raise _unknown(dtype)
    count = structs.product(shape)
    try:
        line = torch.arange(count, device=device).to(kind)
        plain = line.reshape(tuple(shape))
    except (RuntimeError, NotImplementedError, TypeError) as error:
        raise _unknown(error) from None
    if layout in (None, "writable"):
        return plain
    if layout == "F":
        return plain.T.contiguous().T if plain.ndim == 2 else plain
    if layout == "strided":
        wide = torch.zeros([2 * size for size in shape], dtype=kind, device=device)
        view = wide[tuple(slice(None, None, 2) for _ in shape)]
        view.copy_(plain)
        return view
    if layout == "broadcast":
        return plain[:1].expand(tuple(shape))
    if layout == "overlapping":
        return torch.arange(sum(shape), device=device).to(kind).as_strided(tuple(shape), (1,) * len(shape))
    if layout == "offset":
        return torch.cat([torch.zeros(3, dtype=kind, device=device), line])[3:].reshape(tuple(shape))
    if layout == "requires_grad":
        return plain.requires_grad_()
    raise _unknown(layout)


def _torch_consume(x: Any, **keywords: Any) -> Any:
    torch = _module("torch")

    return torch.from_dlpack(x, **keywords)


# ------------------------------------------------------------------------------------------------------------------ JAX


def _jax_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    jax = _module("jax")
    jnp = _module("jax.numpy")

    if layout not in (None, "readonly"):
        raise _unknown(layout)
    if structs.bits_of(dtype) == 64 and dtype != "complex64" or dtype == "complex128":
        raise NotImplementedError(f"{dtype} needs jax_enable_x64")
    kind = getattr(jnp, "bool_" if dtype == "bool" else dtype, None)
    if kind is None:
        raise _unknown(dtype)
    place = jax.devices(device.split(":")[0])[0]
    try:
        return jax.device_put(jnp.arange(structs.product(shape)).astype(kind).reshape(tuple(shape)), place)
    except (TypeError, ValueError, NotImplementedError, RuntimeError) as error:
        raise _unknown(error) from None


def _jax_consume(x: Any, **keywords: Any) -> Any:
    jax = _module("jax")

    return jax.dlpack.from_dlpack(x, **keywords)


def _jax_pointer(x: Any) -> int:
    return int(x.unsafe_buffer_pointer())


# ----------------------------------------------------------------------------------------------------- other packages


def _tensorflow_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    tf = _module("tensorflow")

    kind = getattr(tf, dtype, None)
    if layout not in (None, "readonly") or kind is None or structs.bits_of(dtype) < 8:
        raise _unknown(layout or dtype)
    try:
        return tf.reshape(tf.cast(tf.range(structs.product(shape)), kind), tuple(shape))
    except (tf.errors.OpError, TypeError, ValueError) as error:
        raise _unknown(error) from None


def _tensorflow_consume(x: Any) -> Any:
    """TensorFlow's function takes a capsule."""
    tf = _module("tensorflow")

    return tf.experimental.dlpack.from_dlpack(x.__dlpack__())


def _cupy_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    cp = _module("cupy")

    if dtype not in _PLAIN + _FLOATS:
        raise _unknown(dtype)
    plain = cp.arange(structs.product(shape)).astype(dtype).reshape(tuple(shape))
    if layout in (None, "writable"):
        return plain
    if layout == "F":
        return cp.asfortranarray(plain)
    if layout == "strided":
        view = cp.zeros([2 * size for size in shape], dtype)[tuple(slice(None, None, 2) for _ in shape)]
        view[...] = plain
        return view
    if layout == "reversed":
        steps = tuple(slice(None, None, -1) for _ in shape)
        return cp.ascontiguousarray(plain[steps])[steps]
    if layout == "broadcast":
        return cp.broadcast_to(plain[:1], tuple(shape))
    if layout == "offset":
        return cp.concatenate([cp.zeros(3, dtype), plain.ravel()])[3:].reshape(tuple(shape))
    raise _unknown(layout)


def _cupy_consume(x: Any, **keywords: Any) -> Any:
    cp = _module("cupy")

    return cp.from_dlpack(x, **keywords)


def _cupy_pointer(x: Any) -> int:
    return int(x.data.ptr)


def _pyarrow_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    pa = _module("pyarrow")

    if layout not in (None, "F", "strided") or dtype == "bool":  # it would become uint8
        raise _unknown(layout or dtype)
    try:
        return pa.Tensor.from_numpy(numpy_make(shape, dtype, device, layout))
    except (pa.ArrowException, TypeError) as error:
        raise _unknown(error) from None


def _pyarrow_consume(x: Any, **keywords: Any) -> Any:
    pa = _module("pyarrow")

    return pa.Tensor.from_dlpack(x, **keywords)


def _paddle_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    paddle = _module("paddle")

    if not hasattr(paddle, dtype) or structs.bits_of(dtype) < 8:
        raise _unknown(dtype)
    paddle.set_device("cpu" if device == "cpu" else "gpu")
    try:
        plain = paddle.arange(structs.product(shape)).astype(dtype).reshape(list(shape))
        if layout in (None, "writable"):
            return plain
        if layout == "strided":
            return paddle.as_strided(
                paddle.repeat_interleave(plain.flatten(), 2), list(shape), [2 * stride for stride in structs.c_strides(shape)]
            )
        if layout == "broadcast":
            return paddle.as_strided(plain, list(shape), [0, *structs.c_strides(shape)[1:]])
        if layout == "overlapping":
            return paddle.as_strided(paddle.arange(sum(shape)).astype(dtype), list(shape), [1] * len(shape))
        if layout == "requires_grad":
            plain.stop_gradient = False
            return plain
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        raise _unknown(error) from None
    raise _unknown(layout)


def _paddle_consume(x: Any, **keywords: Any) -> Any:
    paddle = _module("paddle")

    return paddle.from_dlpack(x, **keywords)


def _mlx_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    mx = _module("mlx.core")

    kind = getattr(mx, "bool_" if dtype == "bool" else dtype, None)
    if layout is not None or kind is None:
        raise _unknown(layout or dtype)
    mx.set_default_device(mx.cpu)
    made = mx.arange(structs.product(shape)).astype(kind).reshape(tuple(shape))
    mx.eval(made)
    return made


def _mlx_consume(x: Any, **keywords: Any) -> Any:
    mx = _module("mlx.core")

    return mx.from_dlpack(x, **keywords)


def _strict_make(shape: Any, dtype: str, device: str, layout: Optional[str] = None) -> Any:
    xp = _module("array_api_strict")

    if dtype not in _PLAIN + _FLOATS or dtype == "float16":
        raise _unknown(dtype)
    if layout in ("byteswapped", "readonly", "writable"):
        raise _unknown(layout)
    return xp.asarray(numpy_make(shape, dtype, device, layout), copy=False)


def _strict_consume(x: Any, **keywords: Any) -> Any:
    xp = _module("array_api_strict")

    return xp.from_dlpack(x, **keywords)


TARGETS = {
    target.name: target
    for target in (
        Target("numpy", numpy_make, _numpy_consume),
        Target("torch", _torch_make, _torch_consume),
        Target("jax", _jax_make, _jax_consume, _jax_pointer, modules=("jax", "jax.numpy", "jax.dlpack")),
        Target("tensorflow", _tensorflow_make, _tensorflow_consume),
        Target("cupy", _cupy_make, _cupy_consume, _cupy_pointer, device="cuda:0"),
        Target("pyarrow", _pyarrow_make, _pyarrow_consume),
        Target("paddle", _paddle_make, _paddle_consume, package="paddlepaddle"),
        Target("mlx", _mlx_make, _mlx_consume, modules=("mlx.core",)),
        Target("array-api-strict", _strict_make, _strict_consume, modules=("array_api_strict",)),
        Target("tinygrad", None, None),
        Target("ndonnx", None, None),
        Target("dpnp", None, None),
        Target("tenon", _tenon_make, _tenon_consume),
    )
}
# What these packages lack is said in the report.
WITHOUT_EXCHANGE = {
    "tinygrad": "its tensors have no __dlpack__",
    "ndonnx": "its arrays describe a graph and have no memory to export",
    "dpnp": "its arrays need a SYCL device",
}


def find_function(text: str) -> Function:
    """The function that "package.module:name" means. ImportError or AttributeError if it does not exist."""
    module, _, name = text.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise AttributeError(f"{text} is not callable")
    return found  # type: ignore[no-any-return]


class OwnTarget(Target):
    """A user's target. Its functions are found by `load`."""

    def __init__(self, producer: str, consumer: str, pointer: str, device: str) -> None:
        self.texts = {"producer": producer, "consumer": consumer, "pointer": pointer}
        modules = tuple(text.partition(":")[0] for text in self.texts.values() if text)
        super().__init__((producer or consumer).partition(":")[0], None, None, modules=modules, device=device)

    def spec(self) -> dict[str, Any]:
        return {**self.texts, "device": self.device}

    def load(self) -> None:
        self.make, self.consume, self.pointer = (find_function(text) if text else None for text in self.texts.values())


def from_spec(spec: dict[str, Any]) -> Target:
    return TARGETS[spec["name"]] if "name" in spec else OwnTarget(**spec)


def has_role(target: Target, role: str) -> bool:
    """Whether it can be checked as a "producer" or "consumer", without importing it."""
    if isinstance(target, OwnTarget):
        return bool(target.texts[role])
    return (target.make if role == "producer" else target.consume) is not None
