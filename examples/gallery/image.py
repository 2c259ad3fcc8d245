"""The bytes of a file become a torch tensor; nothing is copied between the two libraries."""

import pathlib

import tenon
import torch

image = tenon.compile(pathlib.Path(__file__).with_name("image.c"))
pixels = bytes(value for y in range(48) for x in range(64) for value in (4 * x, 5 * y, 128))
file = b"P6\n64 48\n255\n" + pixels
decoded = image.decode(file, like="torch")
small = image.shrink(decoded, 8)
print(type(decoded).__name__, tuple(decoded.shape), "->", tuple(small.shape))
print(bool((decoded.flatten() == torch.frombuffer(bytearray(pixels), dtype=torch.uint8)).all()))
for row in small[..., 0].tolist():
    print("".join(" .:-=+*#%@"[value * 10 // 256] for value in row))
try:
    image.decode(file[:1000])
except ValueError as error:
    print(error)
