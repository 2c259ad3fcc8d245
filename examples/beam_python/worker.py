"""The functions that BeamPython.Worker calls. Requests and answers are lines; tensors cross by their names."""

import os
import sys

try:
    import numpy as np

    import tenon
except ModuleNotFoundError as error:
    sys.exit(f"{sys.executable} has no {error.name}. Install NumPy and Tenon for it, or name another Python in PYTHON.")


def fill(x):
    x[:] = np.arange(x.size)


def double(x):
    x *= 2


def squares(x):
    result = tenon.shared_zeros(x.shape, x.dtype)
    np.square(x, out=np.from_dlpack(result))
    return result


FUNCTIONS = {function.__name__: function for function in (fill, double, squares)}


def answer(line):
    """Run a request. Returns the line of the answer, and the tensor that it names."""
    name, *tensors = line.split()
    try:
        result = FUNCTIONS[name](*(np.from_dlpack(tenon.attach(tensor)) for tensor in tensors))
    except Exception as error:
        return f"error {type(error).__name__}: {error}".replace("\n", " ")[:1000], None
    return ("ok", None) if result is None else (f"ok {result.shared_name}", result)


def main():
    # Only answers may go to the pipe; other output, also that of C code, goes to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)
    for line in sys.stdin:
        text, held = answer(line)  # holds the result until the next request; by then the BEAM has attached to it
        print(text, file=answers, flush=True)


if __name__ == "__main__":
    main()
