"""Rows of results as Markdown: makes the tables of docs/benchmarks.md and the README from one file."""
FLOOR = ("empty call", "limit", "limit, exchange table", "limit, torch's C functions", "C by hand", "raw C", "empty NIF",
         "idle")
ORDER = (*FLOOR, "tenon", "tenon, torch.ops", "tenon, the function", "tenon, same object", "tenon, its own Tensor",
         "tenon, no gradient check", "tenon, C++", "tenon, abi3", "tenon, pure_callback", "jax.numpy", "jax.jit", "jax-tvm-ffi",
         "nanobind", "pybind11", "tvm-ffi", "torch C++ extension",
         "TORCH_LIBRARY in C++", "pyo3-tch", "pyo3-dlpack", "dlpark", "Cython", "cffi", "ctypes")
TITLES = {"numpy": "NumPy", "torch": "PyTorch", "torch 2.13": "PyTorch 2.13", "jax": "JAX", "tensorflow": "TensorFlow",
          "tensor": "tenon.Tensor"}
NOTES = {
    "torch": "The Python object is the only holder of its tensor, as in most programs. A contender that holds the tensor "
             "during the call, as torch's exchange table does, then makes torch add a reference to the Python object and "
             "remove it again.",
    "torch 2.13": "In an environment of its own, because pyo3-tch works only with this version. The tensor object itself "
                  "crosses.",
    "tensor": "A tensor of another copy of the bridge, as an extension would receive it. Tenon takes the managed struct from "
              "the exchange table; dlpark takes the plain borrow, which has no read-only flag.",
}
GPU = ("torch on cuda", "cupy on cuda", "jax on cuda")


def key(row):
    return row["operation"], row["producer"], row["contender"]


def grid(results):
    """{(operation, producer): {contender: row}}"""
    found = {}
    for row in results["rows"]:
        found.setdefault((row["operation"], row["producer"]), {})[row["contender"]] = row
    return found


def about(results, *sentences):
    """The sentences about operations that were measured: (operation, sentence)."""
    measured = {row["operation"] for row in results["rows"]}
    return "".join(f" {sentence}" for operation, sentence in sentences if operation in measured)


def is_peer(name):
    return not name.startswith("tenon") and name not in FLOOR


def rank(name):
    return (ORDER.index(name), name) if name in ORDER else (len(ORDER), name)


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"


def bold(name, text):
    return f"**{text}**" if name == "tenon" and text else text


def cell(row, spread=True):
    if not row:
        return ""
    if row.get("refused"):
        return "wrong" if row["refused"].startswith("wrong answer") else "refuses"
    text = number(row["ns"])
    return text + (f" +{row['spread']:.0f} %" if spread and row.get("spread") is not None else "")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def by_contender(results, columns, spread=True):
    """A table with a line for each contender; columns: [(title, operation, producer)]."""
    found = grid(results)
    columns = [column for column in columns if column[1:] in found]
    names = sorted({name for _, *place in columns for name in found[tuple(place)]}, key=rank)
    lines = []
    for name in names:
        cells = [cell(found[operation, producer].get(name), spread) for _, operation, producer in columns]
        if any(cells):
            lines.append([bold(name, name), *(bold(name, text) for text in cells)])
    return table(["", *(title for title, *_ in columns)], lines) if lines else ""


def crossings(results, producer, spread=True):
    return by_contender(results, [
        ("borrow", "borrow", producer), ("borrow, second holder", "borrow, second holder", producer),
        ("borrow three", "borrow three", producer),
        ("import and release", "import and release", producer), ("in and out", "in and out", producer),
        ("new memory", f"new memory as {producer}", producer), ("with its stream", "borrow with its stream", producer),
    ], spread)


def functions(results, spread=True):
    return by_contender(results, [
        (f"{operation}, {TITLES[producer]}", operation, producer)
        for operation in ("saxpy", "dot", "dot of two rows") for producer in ("numpy", "torch", "jax")], spread)


def operators(results):
    return by_contender(results, [
        (f"{way}{mode}", f"operator, {way}{mode}", "torch") for mode in ("", ", inference mode")
        for way in ("eager", "eager, with gradients", "eager, rw", "compiled")])


def jax_operators(results):
    return by_contender(results, [
        *((title, f"operator, {title} in jit", "jax") for title in ("one call", "each further call")),
        *((title, title, "jax") for title in ("eager call", "eager call with a number"))])


def versions(results):
    """The versions of Tenon that were measured."""
    return sorted({row["version"] for row in results["rows"]
                   if row["contender"].startswith("tenon") and row.get("version")})


def measured_with(results):
    """What tools/check-figures wants to be said of figures of a GPU."""
    words = results["machine"]
    return f"Tenon {' and '.join(versions(results))}, torch {words['packages']['torch']}, {words['gpu']}"


def on_gpu(results):
    """[(title, text)] of the rows that were measured on a GPU."""
    found = [(f"Crossing: {producer}", crossings(results, producer)) for producer in GPU]
    for group, title, about in (
            ("gpu functions", "A function, called from Python", "saxpy on 1,000 elements, until the call returns: nothing waits for the GPU."),
            ("gpu operators", "An operator of torch", "rms_norm of examples/torch_ops on one row of 4,096 bf16, beside the same in C++.")):
        rows = simple(results, group)
        found.append((title, rows and f"{about}\n\n{rows}"))
    return [part for part in found if part[1]]


def simple(results, group, value="ns", title="", spread=True):
    """A table with a line for each operation and a column for each contender of a group."""
    rows = [row for row in results["rows"] if row["group"] == group
            and (row.get(value) is not None or row.get("refused"))]
    if not rows:
        return ""
    names = sorted({row["contender"] for row in rows}, key=rank)
    places = list(dict.fromkeys((row["operation"], row["producer"]) for row in rows))
    found = {key(row): row for row in rows}
    producers = {producer for _, producer in places}

    def show(row):
        if not row or row.get("refused"):
            return cell(row)
        return cell(row, spread) if value == "ns" else f"{row[value]:+,.1f}" if value == "mib" else f"{row[value]:,}"
    lines = [[operation + (f", {TITLES.get(producer, producer)}" if len(producers) > 1 else ""),
              *(bold(name, show(found.get((operation, producer, name)))) for name in names)]
             for operation, producer in places]
    return table([title, *(bold(name, name) for name in names)], lines)


def arguments(results):
    found = grid(results)
    lines = []
    for producer in ("numpy", "torch", "jax"):
        further = found.get(("each further argument", producer), {})
        dot = found.get(("dot beside two borrows", producer), {})
        one = found.get(("borrow", producer), {}).get("tenon", {}).get("ns")
        if "tenon" in further and "tenon: dot" in dot:
            free = further.get("tenon, no gradient check", {})
            free_dot = dot.get("tenon, no gradient check: dot", {})
            lines.append([TITLES[producer], number(further["tenon"]["ns"]), number(free.get("ns")), number(one),
                          number(dot["tenon: dot"]["ns"]), number(free_dot.get("ns")),
                          number(dot["tenon: two borrows"]["ns"])])
    return table(["", "each further argument", "… no gradient check", "one bare borrow", "dot", "… no gradient check",
                  "its two borrows"], lines) if lines else ""


def once(results):
    found = grid(results)
    columns = (("import and load, ms", "import and load", lambda row: f"{row['ns'] / 1e6:.1f}"),
               ("compile saxpy in C++, ms", "compile time of the saxpy module", lambda row: f"{row['ns'] / 1e6:.0f}"),
               ("compile, cached, ms", "compile, cached", lambda row: f"{row['ns'] / 1e6:.1f}"),
               ("bytes, stripped", "bytes of the extension, stripped", lambda row: f"{row['bytes']:,}"),
               ("lines of user code", "lines of user code", lambda row: str(row["lines"])))
    columns = [column for column in columns if (column[1], "start") in found]
    names = sorted({name for _, operation, _ in columns for name in found.get((operation, "start"), {})}, key=rank)
    lines = [[bold(name, name), *(bold(name, show(found[operation, "start"][name]))
                                  if name in found.get((operation, "start"), {}) else ""
                                  for _, operation, show in columns)] for name in names]
    return table(["", *(title for title, *_ in columns)], lines) if lines else ""


def copies(results):
    """The time of tenon_copy, and its ratio to the time of the others."""
    found = grid(results)
    layouts = list(dict.fromkeys(row["operation"] for row in results["rows"] if row["group"] == "copies"))
    dtypes = [name for name in ("f32", "u8", "f64") if any((layout, name) in found for layout in layouts)]
    others = [name for name in ("numpy", "torch") if any(name in found.get((layout, dtype), {})
                                                         for layout in layouts for dtype in dtypes)]
    if not layouts:
        return ""
    lines = []
    for layout in layouts:
        lines.append([layout])
        for dtype in dtypes:
            row = found[layout, dtype]
            lines[-1] += [f"{row['tenon']['ns'] / 1e6:.1f} +{row['tenon']['spread']:.0f} %",
                          *(f"{row['tenon']['ns'] / row[other]['ns']:.2f}" for other in others)]
    return table(["layout", *(title for dtype in dtypes for title in (
        f"{dtype}: ms", *(f"/ {TITLES[other]}" for other in others)))], lines)


def instructions(results):
    rows = [row for row in results["rows"] if row.get("instructions")]
    return table(["path", "instructions", "ns"], [
        [f"{row['operation']}, {TITLES.get(row['producer'], row['producer'])}, {row['contender']}",
         f"{row['instructions']:,.0f}", number(row["ns"])] for row in rows]) if rows else ""


OWNERS = ("Tenon", "the function", "CPython", "NumPy", "torch", "C library", "others")
SHOWN = ("borrow, numpy", "saxpy, numpy", "borrow, torch", "saxpy, torch")  # paths whose functions are named


def layers(results):
    """The instructions of a call by owner of the code; for some paths, function by function."""
    found = results.get("layers", {})
    if not found:
        return ""
    owners = [name for name in OWNERS if any(name in parts["by"] for parts in found.values())]
    tables = [table(["instructions per call", "all", *owners], [
        [path, f"{sum(parts['by'].values()):,.0f}",
         *(f"{parts['by'][name]:,.0f}" if name in parts["by"] else "" for name in owners)]
        for path, parts in found.items()])]
    for path in SHOWN:
        if path in found:
            tables.append(table([f"{path}: the most expensive functions", "owner", "instructions"], [
                [f"`{name}`", whose, f"{count:,.0f}"] for name, whose, count in found[path]["top"]]))
    return "\n\n".join(tables)


def sections(results):
    """[(title, text)] of all measurements."""
    found = []

    def add(title, text, note=""):
        if text:
            found.append((title, f"{note}\n\n{text}" if note else text))
    for producer, title in TITLES.items():
        more = about(results, (
            "borrow, second holder", "In *borrow, second holder* the tensor is also the `grad` of another one, so torch does "
            "not.")) if producer == "torch" else ""
        add(f"Crossing: {title}", crossings(results, producer), NOTES.get(producer, "") + more)
    found.extend(on_gpu(results))
    add("Whole functions, everything checked", functions(results),
        "`saxpy(a, x, y)` returns a new vector in the caller's framework; `dot(x, y)` allocates nothing. tvm-ffi, "
        "pyo3-dlpack and dlpark cannot allocate NumPy arrays, so `numpy.empty_like` makes their results as part of the call."
        + about(results, ("dot of two rows", "*Two rows* are views of a torch matrix; the other torch tensors are not views.")))
    add("torch operators", operators(results),
        "saxpy as an operator, made by `tenon.torch_ops`, by `torch.library.custom_op` and in C++. It is called directly, and "
        "by a graph of `torch.compile(fullgraph=True)` that calls nothing else. The Python object is the only holder of each "
        "tensor." + about(
            results,
            ("operator, eager, with gradients", "*With gradients* is the forward call if x and y require grad; in C++ it is an "
             "`autograd::Function`."),
            ("operator, eager, rw", "*rw* is an operator that multiplies its argument in place. *tenon, torch.ops* is the "
             "OpOverload (`ops.saxpy.op`), and *tenon, the function* is `kernels.saxpy`, which is not an operator.")))
    add("JAX operators", jax_operators(results),
        "saxpy as an operator, made by `tenon.jax_ops`, by jax-tvm-ffi, and by `jax.pure_callback` around the function; "
        "*jax.numpy* is `a * x + y`. *One call* is a jitted program with nothing else in it. *Each further call* is a 64th of "
        "the time that 64 more calls in the same program add, each of which needs the result of the one before. An *eager "
        "call* is `kernels.f` on JAX arrays, beside a jitted function that does the same.")
    add("The cost of an argument", arguments(results))
    add("Bytes, lists and overloads", simple(results, "arguments", title="ns"),
        "*Bytes in and out* returns a copy of its argument. A *list* is a Python list of vectors, whose first elements are "
        "summed; *1,000 borrows* is a loop in C over the same list. *The function alone* has the first of the two entries only.")
    add("Objects", simple(results, "objects", title="ns"),
        "Each row compares two ways to do the same: a method beside a function, results with names beside results without, a "
        "new vector beside one that has an array to follow, and a kept argument beside `tenon_py_import`.")
    add("Loops inside a function", simple(results, "loops", title="loop"),
        "Tenon's figures include the whole call; raw C is called by ctypes with an address that was read before. A dense "
        "loop follows the data pointer; a strided one reads every second element with `tenon_at`. *Add* is one line of "
        "`TENON_ELEMENTWISE` beside `numpy.add`, on one thread.")
    add("Sizes", simple(results, "sizes", title="owned import and release"),
        "For comparison, a copy with `numpy.ndarray.copy` and `torch.Tensor.clone`, both on one thread.")
    add("Peak memory", simple(results, "memory", "mib", title="MiB added by 100 crossings of 400 MB, fresh process"))
    add("Start-up and size", once(results),
        "Each contender has the same extension, with saxpy and dot. The import is timed in a fork of a process that has "
        "loaded NumPy and torch, the same for all.")
    add("Threads", simple(results, "threads", title="ns of wall-clock time for each call"),
        "On six elements each contender runs its dot with its default settings. On 4,194,304 elements each releases the "
        "interpreter lock, in the way that its documentation shows.")
    add("Copies", copies(results), "`tenon_copy` on one thread: milliseconds for 64 MiB (8 MiB with `--quick`), then the "
        "ratio of its time to that of `numpy.copyto` and of `torch.Tensor.copy_` (less is better). torch has no negative "
        "strides, so its figure for the reversed layout is that of `aten::flip.out`.")
    add("Conversions", simple(results, "conversions", title="ns for 1,048,576 elements"),
        "`tenon_copy` between two dtypes on one thread, beside `numpy.copyto(casting='unsafe')` and `torch.Tensor.copy_`, into "
        "memory that exists, without gaps. Tenon rounds once, from the exact value: NumPy's and torch's `f64` to `bf16` "
        "rounds to `f32` first.")
    add("Elixir", simple(results, "elixir", title="ns"),
        "Each sample is taken in a fresh process; `saxpy` and `dot` are in the library that Python loads. For a "
        "gap, a process on the only scheduler releases a tensor and then reads the clock without pause; the figure is the "
        "longest time between two readings.")
    add("Instructions", instructions(results),
        "Counted by callgrind inside the C function only, after a warm-up; the counts repeat exactly.")
    return found
