"""A kernel on the shards of an array of JAX: four devices call it, each with its own rows, and nothing is gathered."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import tenon
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SOURCE = """
#include <math.h>
#include <tenon/function.h>

static tenon_status softmax(tenon_call *call)
{
    const float *x = tenon_data(call, 0, float);
    float *y = tenon_result_data(call, 0, float);
    int64_t n = tenon_dim_named(call, "n"), rows = n ? tenon_arg(call, 0)->numel / n : 0;
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        float most = x[0], sum = 0;
        for (int64_t i = 1; i < n; i++)
            most = x[i] > most ? x[i] : most;
        for (int64_t i = 0; i < n; i++)
            sum += y[i] = expf(x[i] - most);
        for (int64_t i = 0; i < n; i++)
            y[i] /= sum;
    }
    return TENON_OK;
}

TENON_MODULE(rows, "Rows.", TENON_FUNCTION("softmax(x: f32[*b, n] c) -> f32[*b, n]", softmax, "Softmax of each row."))
"""

ops = tenon.jax_ops(tenon.compile(SOURCE, flags=["-lm"]))
mesh = Mesh(jax.devices(), "rows")
x = jax.device_put(jnp.arange(32.0).reshape(8, 4), NamedSharding(mesh, P("rows")))
program = jax.jit(ops.softmax).lower(x).compile()
y = program(x)
print("devices:", len(jax.devices()), "rows on each:", y.addressable_shards[0].data.shape[0])
print("gathered:", "all-gather" in program.as_text(), "as jax.nn.softmax:", bool(jnp.allclose(y, jax.nn.softmax(x))))
