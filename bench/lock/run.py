"""When does it pay to release the interpreter lock around a function? Two curves: alone, and beside a busy thread.

    .venv/bin/python bench/lock/run.py        (needs the package: pip install .)
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import tenon

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = [1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 23, 1 << 24, 1 << 25, 1 << 26]


def build():
    library = pathlib.Path(tempfile.mkdtemp()) / "work.so"
    subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", f"-I{ROOT}/core/include",
                    str(ROOT / "bench/lock/work.c"), "-o", str(library)], check=True)
    return tenon.load(library)


def median_us(function, x, seconds=0.25):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main():
    work = build()
    stop = threading.Event()

    def busy():
        count = 0
        while not stop.is_set():
            for _ in range(10000):
                count += 1

    rows = {}
    for contended in (False, True):
        thread = threading.Thread(target=busy)
        if contended:
            thread.start()
        for size in SIZES:
            x = np.ones(size // 4, "f4")
            rows.setdefault(size, []).extend((median_us(work.kept, x), median_us(work.released, x)))
        if contended:
            stop.set()
            thread.join()
    print(f"Python {sys.version.split()[0]}, median microseconds per call")
    print("| bytes | alone, lock kept | alone, lock released | beside a busy thread, lock kept | beside a busy thread, lock released |")
    print("|---|---|---|---|---|")
    for size, values in rows.items():
        name = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in values) + " |")


main()
