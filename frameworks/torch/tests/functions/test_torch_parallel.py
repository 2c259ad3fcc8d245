"""Loops of functions use as many threads as torch's own loops, and leave torch's settings alone."""

import os
import subprocess
import sys
import textwrap

import building
import pytest

torch = pytest.importorskip("torch")
if sys.platform == "win32":
    pytest.skip("loops run on one thread", allow_module_level=True)
LIBRARY = building.build(building.HERE / "loops/parallel.c", "-pthread")
BEGIN = """
import sys, threading
import {first}
import {second}
kernels = tenon.load(sys.argv[1])

def threads(expected, **keywords):
    # How many there are. The loop waits for those that are expected.
    kernels.expect(expected)
    return len(set(kernels.threads(64, **keywords).tolist()[:-1]))
"""


def run(code, first="torch", second="tenon"):
    return building.run_python(BEGIN.format(first=first, second=second) + textwrap.dedent(code), LIBRARY).split()


def test_as_many_threads_as_torch():
    code = """
    for count in (3, 1, 4):
        torch.set_num_threads(count)
        print(threads(count, like="torch"), threads(count, like="numpy"), torch.get_num_threads())
    """
    assert run(code) == ["3", "3", "3", "1", "1", "1", "4", "4", "4"]


def test_on_a_new_thread():
    """OpenMP has another number there than torch, until torch has been asked."""
    code = """
    torch.set_num_threads(3)
    seen = []
    def work():
        seen.append(threads(3))
        seen.append(torch.get_num_threads())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    print(*seen)
    """
    assert len(set(run(code))) == 1


def test_torch_that_is_imported_later():
    """It uses the runtime that was opened for the first loop."""
    code = """
    import os
    threads(1)
    import torch
    torch.set_num_threads(3)
    torch.ones(1000000).sum()
    print(threads(3, like="torch"), threads(3, like="numpy"))
    runtimes = {line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line or "libomp" in line}
    print(len(runtimes))
    """
    assert run(code, "numpy", "tenon") == ["3", "3", "1"]


def test_settings_of_torch_stay():
    code = """
    torch.set_num_threads(4)
    x = torch.ones(1 << 22)
    x.sum()
    before = torch.get_num_threads(), torch.get_num_interop_threads(), torch.__config__.parallel_info()
    threads(4)
    print(before == (torch.get_num_threads(), torch.get_num_interop_threads(), torch.__config__.parallel_info()))
    print(int(x.sum()) == 1 << 22)
    """
    assert run(code) == ["True", "True"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_a_worker_of_a_data_loader(tmp_path, method):
    (tmp_path / "loader.py").write_text(
        """
import sys
import torch, tenon

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        kernels = tenon.load(sys.argv[1])
        kernels.expect(1)
        ids = kernels.threads(64).tolist()
        return len(set(ids[:-1]))

if __name__ == "__main__":
    torch.set_num_threads(4)
    kernels = tenon.load(sys.argv[1])
    kernels.expect(4)
    kernels.threads(64)
    loader = torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context=sys.argv[2])
    print([int(item) for item in loader], len(set(kernels.threads(64).tolist()[:-1])))
"""
    )
    paths = os.pathsep.join(filter(None, [str(building.PACKAGE), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(tmp_path / "loader.py"), str(LIBRARY), method]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[1,", "1]", "4"]


def test_a_kernel_in_c():
    """An operator that torch's dispatcher calls without the interpreter."""
    code = """
    torch.set_num_threads(3)
    tenon.torch_ops(kernels, name="mine")
    kernels.expect(3)
    print(len(set(torch.ops.mine.threads_of(torch.ones(64)).tolist())))
    """
    assert run(code) == ["3"]
