"""Shared tensors: attach to memory of another process, view it and release it, at two sizes; and a call on shared and on private
memory."""
import mmap
from multiprocessing import shared_memory

import peer_builds

# The system calls of an attach and a release, in C.
SYSTEM_CALLS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <tenon/function.h>

static tenon_status attach(tenon_call *call)
{
    char header[4096];
    struct stat info;
    size_t size = (size_t)tenon_arg_int(call, 1);
    int file = fcntl((int)tenon_arg_int(call, 0), F_DUPFD_CLOEXEC, 0);
    if (fstat(file, &info) < 0 || fcntl(file, F_GET_SEALS) < 0 || pread(file, header, sizeof header, 0) < 0 ||
        fcntl(file, F_GETFL) < 0)
        return tenon_fail(call, TENON_EINVAL, "not a shared tensor");
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        return tenon_fail(call, TENON_EINVAL, "mmap failed");
    munmap(map, size);
    close(file);
    return TENON_OK;
}

TENON_MODULE(bare, "", TENON_FUNCTION("attach(fd: int, size: int)", attach, ""))
"""


def by_shared_memory(name):
    shared_memory.SharedMemory(name).close()


def by_mmap(fd, size):
    mmap.mmap(fd, size).close()


def torch_storage(torch):
    def by_torch(fd, size):
        torch.UntypedStorage._new_shared_fd_cpu(fd, size)  # it duplicates the descriptor itself
    return by_torch


def shared_group(session):
    tenon = peer_builds.peer("tenon").package(session.folder / "tenon")
    try:
        import torch
    except ImportError:
        torch = None
    bare = tenon.compile(SYSTEM_CALLS)
    kernels = tenon.load(session.folder / "tenon/kernels.so")
    session.say(total=5)

    def attach_and_view(fd):
        tenon.attach(fd)[1:]

    for megabytes in (1, 400):
        tensor = tenon.shared_zeros(megabytes * 1_000_000, "u8")
        fd, size = tensor.shared_fd, tensor.nbytes + 4096
        block = shared_memory.SharedMemory(create=True, size=megabytes * 1_000_000)
        contenders = {"tenon": (tenon.attach, [fd]), "tenon, by name": (tenon.attach, [tensor.shared_name]),
                      "system calls in C": (bare.attach, [fd, size]), "mmap in Python": (by_mmap, [fd, size]),
                      "multiprocessing.shared_memory": (by_shared_memory, [block.name])}
        if torch:
            contenders["torch.multiprocessing, the storage"] = (torch_storage(torch), [fd, size])
        session.compare("attach and release", f"{megabytes} MB", contenders)
        session.compare("attach, view and release", f"{megabytes} MB", {
            "tenon": (attach_and_view, [fd]), "system calls in C": (bare.attach, [fd, size])})
        block.close()
        block.unlink()
    private, shared = tenon.to(tenon.shared_zeros(6, "f32"), "numpy").copy(), tenon.shared_zeros(6, "f32")
    session.compare("saxpy", "shared tensor", {
        "tenon": (kernels.saxpy, [2.0, shared, shared]),
        "tenon, private memory": (kernels.saxpy, [2.0, *[tenon.from_dlpack(private)] * 2])})
