"""What the processes of test_shared_processes.py run. They start faster without NumPy."""

import os
import socket
import time

import tenon


def values(tensor):
    return memoryview(tensor).tolist()


def fill(tensor, start=0):
    with memoryview(tensor) as memory:
        for i in range(len(memory)):
            memory[i] = start + i


def add_to_all(tensor, number):
    with memoryview(tensor) as memory:
        for i in range(len(memory)):
            memory[i] += number
    return values(tensor)


def describe(tensor):
    return tensor.shape, tensor.dtype, tensor.readonly, values(tensor), tensor.shared_name is not None


def give_back(tensor):
    return tensor


def create(size, start=0):
    tensor = tenon.shared_zeros(size, "f32")
    fill(tensor, start)
    return tensor


def put_and_end(queue, size):
    queue.put(create(size))


def put_and_end_slowly(queue, size):
    send = socket.send_fds

    def send_later(*arguments):
        time.sleep(0.2)
        return send(*arguments)

    socket.send_fds = send_later
    queue.put(create(size))


def put_and_wait(queue, size):
    """Wait for the receiver as long as a busy machine needs."""
    from tenon import _shared_multiprocessing

    _shared_multiprocessing._Sender._SECONDS = 600
    put_and_end(queue, size)


def put_and_die(queue, size):
    queue.put(create(size))
    queue.close()
    queue.join_thread()
    os._exit(0)


def echo(incoming, outgoing):
    for tensor in iter(incoming.get, None):
        add_to_all(tensor, 1)
        outgoing.put(tensor)


def add_to_one(connection):
    add_to_all(connection.recv(), 1)


def return_if_first(tensor):
    if float(tensor[0]) != 0:
        time.sleep(60)
    return tensor.shape


def die_with(tensor):
    os._exit(1)


def add_to_each(*tensors):
    for tensor in tensors:
        add_to_all(tensor, 1)


def expect_nothing(queue):
    try:
        queue.get()
    except FileNotFoundError:
        return
    raise AssertionError("received")


def opened():
    """The numbers of mappings of shared tensors and of descriptors."""
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        return sum("memfd:tenon" in line for line in maps), len(os.listdir("/proc/self/fd"))


def attach_often(name, count, total):
    """Return how many mappings and descriptors are left."""
    before = opened()
    for _ in range(count):
        if sum(values(tenon.attach(name))) != total:
            raise AssertionError("other elements")
    after = opened()
    return after[0] - before[0], after[1] - before[1]


def hold(name, connection):
    tensor = tenon.attach(name)
    connection.send("attached")
    time.sleep(60)
    del tensor


def hold_connection(connection):
    time.sleep(60)
    connection.close()


def proportional_size(pid="self"):
    """The memory of shared tensors in a process in bytes; pages that two processes map count half in each."""
    size, counts = 0, False
    with open(f"/proc/{pid}/smaps", errors="surrogateescape") as file:
        for line in file:
            if "-" in line.split(" ")[0]:
                counts = "memfd:tenon" in line
            elif counts and line.startswith("Pss:"):
                size += int(line.split()[1]) * 1024
    return size


def touch(tensor, barrier):
    with memoryview(tensor) as memory:
        total = sum(memory[::1024])
    barrier.wait(60)  # both have read every page
    size = proportional_size()
    barrier.wait(60)
    return total, size


def touch_into(tensor, barrier, queue):
    queue.put(touch(tensor, barrier))
