"""Compress the memory of a NumPy array, which is not copied on the way in."""

import pathlib

import numpy as np
import tenon

zstd = tenon.compile(pathlib.Path(__file__).with_name("compress.c"), flags=["-lzstd"])
numbers = np.arange(100_000, dtype="int32") // 100
small = zstd.compress(numbers)
print(numbers.nbytes, "bytes; less than 1 % after compression:", len(small) < numbers.nbytes // 100)
print("the same after decompression:", zstd.decompress(small) == numbers.tobytes())
try:
    zstd.decompress(b"no frame")
except ValueError as error:
    print(error)
