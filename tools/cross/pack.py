"""Writes a wheel. Python's zipfile compresses with zlib only; zopfli finds a form that is 4 % smaller and reads the same."""
import struct
import zlib


def deflate(data):
    import zopfli.zlib
    return zopfli.zlib.compress(data, numiterations=5)[2:-4]  # without what zlib puts around it


def write_zip(path, files, date, compress=deflate):
    """Write `files`, [(name, mode, content)] in this order, all with the same date, (year, month, day, hour, minute, second)."""
    year, month, day, hour, minute, second = date
    packed_date, packed_time = (year - 1980) << 9 | month << 5 | day, hour << 11 | minute << 5 | second // 2
    body, directory = b"", b""
    for name, mode, content in files:
        packed, encoded = compress(content), name.encode("ascii")
        # Readable since version 2.0 of the format, no flags, deflated; no extra fields.
        about = struct.pack("<5H3L2H", 20, 0, 8, packed_time, packed_date, zlib.crc32(content), len(packed), len(content),
                            len(encoded), 0)
        unix = 3 << 8 | 20  # whose modes are in the upper half of the attributes
        directory += b"PK\1\2" + struct.pack("<H", unix) + about + struct.pack("<3H2L", 0, 0, 0, mode << 16, len(body)) + encoded
        body += b"PK\3\4" + about + encoded + packed
    end = struct.pack("<4H2LH", 0, 0, len(files), len(files), len(directory), len(body), 0)
    path.write_bytes(body + directory + b"PK\5\6" + end)
