"""The frameworks' own from_dlpack: an array of one becomes an array of another."""
import importlib.util

NAME = "from_dlpack"
KERNELS = None
FRAMEWORKS = ("numpy", "torch", "jax", "tensorflow", "cupy", "tensor")
tensorflow_from_dlpack = None


def build(python, folder):
    return folder


def version(folder):
    return "the frameworks'"


def prepare_tensorflow(array):
    """Import it only for its own rows, because that takes seconds."""
    global tensorflow_from_dlpack
    from tensorflow.experimental.dlpack import from_dlpack as tensorflow_from_dlpack
    return array


def tensorflow(array):
    return tensorflow_from_dlpack(array.__dlpack__())  # it takes a capsule


def operations(folder):
    for name, module in (("numpy", "numpy"), ("torch", "torch"), ("jax", "jax.dlpack"), ("cupy", "cupy")):
        try:
            function = __import__(module, fromlist=["from_dlpack"]).from_dlpack
        except ImportError:
            continue
        yield f"{name}.from_dlpack", {
            "import": {other: function for other in FRAMEWORKS if other != name}}
    if importlib.util.find_spec("tensorflow"):
        yield "tensorflow.from_dlpack", {"prepare": prepare_tensorflow,
                                         "import": dict.fromkeys(("numpy", "torch", "jax", "tensor"), tensorflow)}
