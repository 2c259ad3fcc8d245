"""Rust: a function in Rust beside the same one in C, and a borrow in a PyO3 extension beside those of other crates.

Six elements of f32. The crossings of pyo3-dlpack and dlpark take their argument as a Python object, and borrow it by hand.
"""
from groups.arrays import make, pick

BESIDE = {"tenon": {"rust saxpy": "saxpy", "rust dot": "dot"}, "pyo3-dlpack": {"rust borrow": "borrow"},
          "dlpark": {"rust borrow": "borrow"}}  # contender: its operation for each row here
ROWS = (("rust saxpy", "call of saxpy", [2.0], 2), ("rust dot", "call of dot", [], 2), ("rust borrow", "borrow in PyO3", [], 1),
        ("rust dot in PyO3", "dot in PyO3", [], 2))


def rust_group(session):
    contenders = session.contenders(only=("tenon", "tenon_rust", "rust_numpy", "pyo3_dlpack", "dlpark"))
    producers = []
    for producer in ("numpy", "torch", "jax"):
        try:
            make(producer, 1)
            producers.append(producer)
        except ImportError as problem:
            session.say(problem={"peer": producer, "reason": str(problem)})
    session.say(total=len(ROWS) * len(producers) + 1)
    empty = next((operations["rust empty"] for _, operations in contenders if "rust empty" in operations), None)
    for producer in producers:
        for key, title, scalars, count in ROWS:
            rows = {}
            for name, operations in contenders:
                function = pick(operations, key, producer) or pick(operations, BESIDE.get(name, {}).get(key, ""), producer)
                if function:
                    rows[name] = (function, [*scalars, *make(producer, count, (6,))])
            if key == "rust borrow" and empty:
                rows["empty PyO3 call"] = (empty, make(producer, 1, (6,)))
            session.compare(title, producer, rows)
    session.compare("Vec to NumPy", "numpy", {name: (function, []) for name, operations in contenders
                                              if (function := pick(operations, "rust make", "numpy"))})
