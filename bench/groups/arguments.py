"""Arguments other than one tensor: bytes, lists of tensors, and the entries of an overloaded function."""
from groups.arrays import make, pick


def arguments_group(session):
    contenders = session.contenders(only=("tenon", "nanobind", "tvm_ffi", "torch_cpp"))
    session.say(total=8)
    for title, data in (("16 bytes", bytes(range(16))), ("64 KiB", bytes(1 << 16))):
        session.compare(f"bytes in and out, {title}", "bytes", {
            name: (function, [data]) for name, operations in contenders if (function := operations.get("echo"))},
            check=lambda answer, data=data: answer == data)

    ours = dict(contenders)["tenon"]
    for producer in ("numpy", "torch"):
        arrays = [array + 1 for array in make(producer, 1000, (6,))]
        session.compare("list of 8 tensors", producer, {
            name: (function, [arrays[:8]]) for name, operations in contenders
            if (function := pick(operations, "firsts", producer))}, check=lambda answer: answer == 8)
        session.compare("list of 1,000 tensors", producer, {
            "tenon": (ours["firsts"], [arrays]), "tenon: 1,000 borrows": (ours["borrow list"], [arrays])},
            check=lambda answer: answer == 1000)
        x, y = arrays[:2]
        session.compare("first of two overloads", producer, {
            "tenon": (ours["overloaded"], [x]), "tenon: the function alone": (ours["alone"], [y])},
            check=lambda answer: answer == 1)
