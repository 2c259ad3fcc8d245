"""The task, the same for each framework: the sizes, the first parameters and the data, as NumPy arrays.

A sequence repeats the same few random tokens, so the model must learn to look back and copy."""
import numpy

TOKENS, WIDTH, HEADS, HIDDEN = 16, 32, 4, 64
LENGTH, PERIOD, BATCH = 16, 4, 32
STEPS, RATE = 200, 3e-3
BACKWARD = {"rms_norm": "rms_norm_grad", "rotary": "rotary_grad", "softmax": "softmax_grad"}


def parameters():
    """By name. x @ p[name] is how a matrix is used."""
    random = numpy.random.default_rng(0)

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns)) / rows**0.5).astype("float32")

    made = {"embedding": matrix(TOKENS, WIDTH) * 4}
    made.update({name: matrix(WIDTH, WIDTH) for name in ("query", "key", "value", "output")})
    made.update(up=matrix(WIDTH, HIDDEN), down=matrix(HIDDEN, WIDTH), logits=matrix(WIDTH, TOKENS))
    made.update({name: numpy.ones(WIDTH, "float32") for name in ("norm_attention", "norm_hidden", "norm_logits")})
    return made


def batches():
    """The tokens of all steps, i64[STEPS, BATCH, LENGTH + 1]: the model sees all but the last, and predicts all but the first."""
    random = numpy.random.default_rng(1)
    patterns = random.integers(0, TOKENS, (STEPS, BATCH, PERIOD))
    return numpy.tile(patterns, (1, 1, LENGTH // PERIOD + 1))[:, :, : LENGTH + 1]
