"""The groups of rows. Each is a function of a worker.Session and runs in a process of its own."""
from groups.arguments import arguments_group
from groups.compiled import compiled_group
from groups.crossings import crossing_group
from groups.functions import functions_group, loops_group
from groups.gpu_functions import gpu_functions_group, gpu_operators_group
from groups.jax_operators import jax_operators_group
from groups.objects import objects_group
from groups.other import start_group
from groups.rust import rust_group
from groups.same_object import same_object_group
from groups.shared import shared_group
from groups.sizes import memory_group, sizes_group
from groups.threads import threads_group

GROUPS = {
    "numpy": crossing_group("numpy"),
    "torch": crossing_group("torch"),
    "jax": crossing_group("jax"),
    "tensorflow": crossing_group("tensorflow"),
    "tensor": crossing_group("tensor"),
    "gpu torch": crossing_group("torch on cuda"),
    "gpu cupy": crossing_group("cupy on cuda"),
    "gpu jax": crossing_group("jax on cuda"),
    "gpu functions": gpu_functions_group,
    "gpu operators": gpu_operators_group,
    "same object": same_object_group,
    "functions": functions_group,
    "arguments": arguments_group,
    "objects": objects_group,
    "rust": rust_group,
    "compiled": compiled_group,
    "jax operators": jax_operators_group,
    "loops": loops_group,
    "sizes": sizes_group,
    "memory": memory_group,
    "shared": shared_group,
    "start": start_group,
    "threads": threads_group,
}
