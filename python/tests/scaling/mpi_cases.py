"""A program of two ranks: mpiexec -n 2 python -m mpi4py mpi_cases.py LIBRARY CASE"""

import os
import sys

import numpy
from mpi4py import MPI

import tenon

COMM = MPI.COMM_WORLD
N = 1 << 16


def address(buffer):
    """The address that MPI uses."""
    return MPI.memory(buffer).address


def messages(kernels):
    """Tensors are sent from, and received into, their own memory, which kernels then read."""
    ones = numpy.ones(N, "float32")
    if COMM.rank == 0:
        made = kernels.saxpy(2.0, ones, ones, like="tenon")
        assert type(made) is tenon.Tensor and address(made) == made.data_ptr
        COMM.Send(made, dest=1)
    else:
        into = kernels.saxpy(0.0, ones, ones, like="tenon")
        before = into.data_ptr
        COMM.Recv(into, source=0)
        assert into.data_ptr == address(into) == kernels.place(into)[0] == before
        assert kernels.total(into).sum == 3.0 * N


def reductions(kernels):
    ones = numpy.ones(N, "float32")
    part = kernels.saxpy(float(COMM.rank + 1), ones, ones, like="tenon")
    COMM.Allreduce(MPI.IN_PLACE, part)
    assert kernels.total(part).sum == 5.0 * N


def read_only(kernels):
    """What must not be written is not received into."""
    frozen = numpy.ones(N, "float32")
    frozen.flags.writeable = False
    tensor = tenon.from_dlpack(frozen)
    try:
        COMM.Recv(tensor, source=COMM.rank)
    except (BufferError, TypeError, ValueError) as error:
        assert "read-only" in str(error) or "writable" in str(error) or "readonly" in str(error), error
    else:
        raise AssertionError("a read-only tensor was received into")


def refuses(call, *words):
    try:
        call()
    except BufferError as error:
        assert any(word in str(error) for word in words), error
    else:
        raise AssertionError("there was no BufferError")


def frozen(kernels):
    """Frozen memory is sent from its place, and nothing is received into it, which would end the process."""
    tensor = tenon.share(numpy.full(N, COMM.rank + 1, "float32"))
    assert address(numpy.asarray(tensor)) == tensor.data_ptr
    total = tenon.shared_zeros(N, "f32")
    COMM.Allreduce(tensor, total)
    assert kernels.total(total).sum == 3.0 * N
    refuses(lambda: COMM.Allreduce(MPI.IN_PLACE, tensor), "read-only", "writable")
    refuses(lambda: COMM.Recv(tensor, source=COMM.rank), "read-only", "writable")
    refuses(lambda: MPI.Win.Create(tensor, comm=COMM), "read-only", "writable")
    assert kernels.total(tensor).sum == (COMM.rank + 1.0) * N


def layouts(kernels):
    """Elements go in the order of their memory, as those of NumPy arrays do; gaps are refused."""
    array = numpy.arange(6, dtype="float32").reshape(2, 3)
    into = numpy.empty((3, 2), "float32")
    COMM.Allreduce(tenon.from_dlpack(array.T), into)
    assert (into == 2 * array.reshape(3, 2)).all()
    gaps = tenon.from_dlpack(numpy.zeros(6, "float32")[::2])
    refuses(lambda: COMM.Allreduce(gaps, numpy.empty(3, "float32")), "contiguous")
    refuses(lambda: COMM.Allreduce(numpy.empty(3, "float32"), gaps), "contiguous")


def windows(kernels):
    """All ranks of a machine see one memory: the kernel of one rank writes, that of the other reads."""
    window = MPI.Win.Allocate_shared(4 * N if COMM.rank == 0 else 0, 4, comm=COMM)
    memory, _ = window.Shared_query(0)
    x = numpy.frombuffer(memory, "float32")
    assert kernels.place(x)[0] == address(memory)
    if COMM.rank == 0:
        x[:] = 1
    window.Fence()
    if COMM.rank == 1:
        kernels.scale(x)
    window.Fence()
    assert kernels.total(x).sum == 2.0 * N
    del x, memory
    window.Free()


def names(kernels):
    """Or shared memory by its name, which is a short string."""
    tensor = tenon.shared_zeros(N, "f32") if COMM.rank == 0 else None
    name = COMM.bcast(tensor.shared_name if tensor is not None else None)
    if COMM.rank == 1:
        tensor = tenon.attach(name)
        numpy.from_dlpack(tensor)[:] = 3
    COMM.Barrier()
    assert kernels.total(tensor).sum == 3.0 * N
    COMM.Barrier()


def failure(kernels):
    """One rank fails while the other waits for it."""
    if COMM.rank == 1:
        kernels.fail(1, "what the kernel says")
    COMM.Recv(numpy.empty(1), source=1)


def death(kernels):
    if COMM.rank == 1:
        os.kill(os.getpid(), 9)
    COMM.Recv(numpy.empty(1), source=1)


if __name__ == "__main__":
    globals()[sys.argv[2]](tenon.load(sys.argv[1]))
    if COMM.rank == 0:
        print("done")
