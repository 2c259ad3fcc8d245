"""Large arrays: neither time nor memory may grow with their size."""
import subprocess
import sys

from groups.arrays import make, pick

SIZES = (1_000, 1_000_000, 10_000_000, 100_000_000)
OWNERS = {"tenon": "tenon", "nanobind": "nanobind", "tvm-ffi": "tvm_ffi", "pyo3-dlpack": "pyo3_dlpack",
          "dlpark": "dlpark"}  # contender: its folder in peers/


def alias(array):
    """Another array on the same memory, so that no contender finds what the one before has cached on it."""
    return array.detach() if hasattr(array, "detach") else array.view()


def sizes_group(session):
    contenders = session.contenders(only=OWNERS.values())
    producers = ("numpy", "torch")
    session.say(total=len(producers) * len(SIZES))
    for count in SIZES:
        for producer in producers:
            try:
                (array,) = make(producer, 1, (count,))
            except ImportError:
                continue
            rows = {name: (function, [alias(array)]) for name, operations in contenders if name in OWNERS
                    if (function := pick(operations, "import", producer) or pick(operations, "borrow", producer))}
            rows[f"{producer} copy"] = (array.copy if producer == "numpy" else array.clone, [])
            session.compare(f"{count:,} elements", producer, rows)


CODE = """
import resource, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from worker import Session
from groups.arrays import pick
from groups.sizes import OWNERS
import numpy
session = Session("memory", sys.argv[2], True)
session.say = lambda **line: None
name, producer = sys.argv[3:5]
array = numpy.ones(100_000_000, "float32")
if producer == "torch":
    import torch
    array = torch.from_numpy(array)
if name == "copy":
    function = (lambda a: a.copy()) if producer == "numpy" else (lambda a: a.clone())
else:
    operations = dict(session.contenders(only=[OWNERS[name]]))[name]
    function = pick(operations, "import", producer) or pick(operations, "borrow", producer)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small = array[:10]
for _ in range(10): function(small)
before = peak()
for _ in range(int(sys.argv[5])): function(array)
print((peak() - before) / 1024)
"""


def memory_group(session):
    """MiB that crossings of 400 MB add to the peak of a fresh process. The copy is the control: a measurement that does
    not show its 381 MiB is not valid, and is thrown away."""
    import pathlib
    bench = pathlib.Path(__file__).resolve().parents[1]
    rows = [(name, producer) for producer in ("numpy", "torch") for name in (*OWNERS, "copy")
            if name == "copy" or OWNERS[name] in session.built]
    if session.plan.quick:
        rows = [row for row in rows if row[1] == "numpy"]
    session.say(total=len(rows))
    control = [row for row in rows if row[0] == "copy"]
    for name, producer in control + [row for row in rows if row not in control]:
        repeats = 3 if name == "copy" else 100
        result = subprocess.run([sys.executable, "-c", CODE, bench, session.folder, name, producer, str(repeats)],
                                capture_output=True, text=True)
        session.versions[name] = session.built.get(OWNERS.get(name))
        contender = f"{producer} copy" if name == "copy" else name
        if name == "copy" and not result.returncode and float(result.stdout) < 300:
            session.say(problem={"peer": "group memory",
                                 "reason": f"a copy of 381 MiB shows as {result.stdout.strip()}"})
            return
        if result.returncode:
            reason = result.stderr.strip().splitlines()[-1][:160]
            session.row("peak memory, 400 MB", producer, contender, refused=reason)
        else:
            session.row("peak memory, 400 MB", producer, contender, mib=float(result.stdout), ns=None, spread=None)
        session.step(f"{contender}, {producer}")
