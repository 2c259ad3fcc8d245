"""Measures the steps of softmax.c beside NumPy, torch and numba, and draws them: python steps.py [ROWS] [PICTURE.svg]"""
import pathlib
import platform
import subprocess
import sys
import tempfile
import timeit

import numpy as np
import tenon

SOURCE = pathlib.Path(__file__).with_name("softmax.c")
# Sums in any order; -ffast-math as a whole would need the library of vectorised functions.
FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-ffinite-math-only", "-lm"]


def by_numpy(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def others(x):
    yield "NumPy", lambda: by_numpy(x)
    try:
        import torch
    except ImportError:
        pass
    else:
        tensor = torch.from_numpy(x)
        yield "torch", lambda: torch.softmax(tensor, -1).numpy()
    try:
        import numba
    except ImportError:
        return

    @numba.njit(parallel=True, fastmath=True)
    def softmax(x):
        y = np.empty_like(x)
        for row in numba.prange(x.shape[0]):
            largest, total = x[row].max(), np.float32(0)
            for i in range(x.shape[1]):
                y[row, i] = np.exp(x[row, i] - largest)
                total += y[row, i]
            for i in range(x.shape[1]):
                y[row, i] /= total
        return y

    yield "numba", lambda: softmax(x)


def steps(x, folder):
    command = [sys.executable, "-m", "tenon", "compile", str(SOURCE), "-o", f"{folder}/softmax.so"]
    variants = ["--variants", "x86-64-v3", "x86-64-v4"] if platform.machine() == "x86_64" else []
    subprocess.run([*command, *variants, "--flags", *FLAGS], check=True)
    kernels = tenon.load(f"{folder}/softmax.so")
    plain = tenon.compile(SOURCE, flags=FLAGS)
    yield "1: a plain loop", lambda: plain.naive(x)
    yield "2: batch", lambda: plain.batch(x)
    yield "3: parallel", lambda: plain.parallel(x)
    yield f"4: {kernels.__variant__}", lambda: kernels.parallel(x)


def draw(figures, path):
    """Bars in SVG, by name and milliseconds."""
    longest = max(figures.values())
    # Narrow enough to be read on a phone, in the light and in the dark.
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 420 {26 * len(figures) + 10}" width="420">',
             "<title>Milliseconds of each step, beside NumPy, torch and numba</title>",
             "<style>text { font: 14px system-ui, sans-serif; fill: #1f2937; } "
             "@media (prefers-color-scheme: dark) { text { fill: #e5e7eb; } }</style>"]
    for row, (name, ms) in enumerate(figures.items()):
        y, width, colour = 26 * row + 6, max(1, 230 * ms / longest), "#d9601a" if name[0].isdigit() else "#8794a8"
        lines += [f'<text x="106" y="{y + 15}" text-anchor="end">{name}</text>',
                  f'<rect x="114" y="{y}" width="{width:.0f}" height="20" fill="{colour}"/>',
                  f'<text x="{122 + width:.0f}" y="{y + 15}">{ms:.3g} ms</text>']
    pathlib.Path(path).write_text("\n".join([*lines, "</svg>"]) + "\n")


def main(rows=4096, picture=None):
    x = np.random.default_rng(0).normal(size=(rows, 1024)).astype(np.float32)
    wanted, figures = by_numpy(x), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, function in [*others(x), *steps(x, folder)]:
            assert np.allclose(function(), wanted, rtol=1e-4, atol=1e-7), name
            figures[name] = min(timeit.repeat(function, number=3, repeat=5)) / 3 * 1000
    if picture:
        draw(figures, picture)
    return figures


if __name__ == "__main__":
    for name, ms in main(int(sys.argv[1]) if sys.argv[1:] else 4096, sys.argv[2] if sys.argv[2:] else None).items():
        print(f"{name:16} {ms:8.2f} ms")
