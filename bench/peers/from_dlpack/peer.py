"""The frameworks' own from_dlpack: an array of one becomes an array of another."""
NAME = "from_dlpack"
KERNELS = None


def build(python, folder):
    return folder


def version(folder):
    return "the frameworks'"


def operations(folder):
    for name, module in (("numpy", "numpy"), ("torch", "torch"), ("jax", "jax.dlpack"), ("cupy", "cupy")):
        try:
            function = __import__(module, fromlist=["from_dlpack"]).from_dlpack
        except ImportError:
            continue
        yield f"{name}.from_dlpack", {
            "import": {other: function for other in ("numpy", "torch", "jax", "cupy", "tensor") if other != name}}
