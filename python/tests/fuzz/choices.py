"""The bytes of an input as choices, and what every part of the structured fuzzer allows."""

import ctypes
import struct

# ImportError: NumPy needs ml_dtypes for some dtypes.
ALLOWED = (TypeError, ValueError, BufferError, OverflowError, IndexError, MemoryError, AttributeError, RuntimeError, OSError,
           ImportError)
NUMBERS = [0, 1, 2, 3, 4, -1, -2, 5, 7, 63, 64, 65, 127, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**61, 2**63 - 1, -(2**63)]
SIZE = 1 << 16
memory = ctypes.create_string_buffer(SIZE)  # of the producers


class Bytes:
    """The fuzzer's bytes, one choice after the other; zeros at their end."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def below(self, count):
        return self.byte() % count

    def one_of(self, choices):
        return choices[self.below(len(choices))]

    def number(self):
        """Small numbers and limits often, any other number sometimes."""
        choice = self.byte()
        if choice < 200:
            return NUMBERS[choice % len(NUMBERS)]
        return struct.unpack("<q", bytes(self.byte() for _ in range(8)))[0]

    def done(self):
        return self.at >= len(self.data)


def fits(value, bits, signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return value if low <= value <= high else value % (high + 1)
