"""Names of dtypes and devices: what is written can be read, and nothing crashes."""

import ctypes as C

import pytest
import tenon_ctypes as T
from harness import run_cases

KNOWN = {0: (1, 2, 4, 8, 16, 32, 64, 128), 1: (1, 2, 4, 8, 16, 32, 64, 128), 2: (16, 32, 64, 128),
         3: (8, 16, 32, 64, 128), 4: (16,), 5: (32, 64, 128), 6: (8,), 15: (6,), 16: (6,), 17: (4,)}
KNOWN.update({code: (8,) for code in range(7, 15)})
DEVICES = {"cpu": 1, "cuda": 2, "cuda_host": 3, "opencl": 4, "vulkan": 7, "metal": 8, "vpi": 9, "rocm": 10,
           "rocm_host": 11, "ext_dev": 12, "cuda_managed": 13, "oneapi": 14, "webgpu": 15, "hexagon": 16, "maia": 17,
           "trainium": 18}
LONG = {"float32": "f32", "float16": "f16", "float64": "f64", "int8": "i8", "int64": "i64", "uint64": "u64",
        "uint8": "u8", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128", "float8_e4m3fn": "f8_e4m3fn",
        "float8_e5m2": "f8_e5m2", "bool": "bool"}


def parse_device(name):
    out = T.Device()
    T.call("device_parse", name.encode(), C.byref(out))
    return out


def test_every_dtype():
    """All codes and sizes that the fields can hold."""
    known = 0
    for code in range(256):
        for bits in range(256):
            expected = bits in KNOWN.get(code, ())
            assert T.lib.tenon_dtype_known(T.Dtype(code, bits, 1)) == expected, (code, bits)
            assert not T.lib.tenon_dtype_known(T.Dtype(code, bits, 0))
            if not expected:
                continue
            for lanes in (1, 2, 4, 65535):
                known += 1
                dt = T.Dtype(code, bits, lanes)
                for write in (T.lib.tenon_dtype_format, T.lib.tenon_dtype_format_long):
                    name = T.text(write, dt)
                    assert T.dtype(name).key() == dt.key(), name
    assert known == 4 * sum(len(bits) for bits in KNOWN.values())


def test_unknown_dtypes_have_a_name():
    for write in (T.lib.tenon_dtype_format, T.lib.tenon_dtype_format_long):
        assert T.text(write, T.Dtype(99, 7, 3)) == "dtype(99, 7, 3)"
    with pytest.raises(T.Error):
        T.dtype("dtype(99, 7, 3)")


@pytest.mark.parametrize("long, short", LONG.items())
def test_long_names(long, short):
    assert T.dtype(long).key() == T.dtype(short).key()
    assert T.text(T.lib.tenon_dtype_format, T.dtype(long)) == short
    assert T.text(T.lib.tenon_dtype_format_long, T.dtype(short)) == long


@pytest.mark.parametrize("name, kind", DEVICES.items())
def test_every_device(name, kind):
    assert parse_device(name).key() == (kind, 0)
    for number in (0, 1, 7, (1 << 31) - 1):
        device = T.Device(kind, number)
        assert T.lib.tenon_device_known(device)
        written = T.text(T.lib.tenon_device_format, device)
        assert written == ("cpu" if (name, number) == ("cpu", 0) else f"{name}:{number}")
        assert parse_device(written).key() == device.key()
    assert not T.lib.tenon_device_known(T.Device(kind, -1))


def test_unknown_devices():
    for kind in list(range(-3, 40)) + [(1 << 31) - 1, -(1 << 31)]:
        assert T.lib.tenon_device_known(T.Device(kind, 0)) == (kind in DEVICES.values()), kind
    assert T.text(T.lib.tenon_device_format, T.Device(5, 2)) == "device(5, 2)"


def test_short_buffers():
    """The result is cut and ended, and the length of the whole is returned, as snprintf does."""
    view = T.view_init(4096, [2, 3], None, T.dtype("f32"))
    for function, value in ((T.lib.tenon_dtype_format, T.dtype("f8_e4m3fn")), (T.lib.tenon_view_format, view),
                            (T.lib.tenon_device_format, T.Device(13, 44))):
        whole = T.text(function, value).encode()
        for size in range(len(whole) + 3):
            buffer = C.create_string_buffer(b"~" * 200)
            assert function(value, buffer, size) == len(whole)
            if size:
                assert buffer.value == whole[:size - 1]
            assert buffer.raw[size:200] == b"~" * (200 - size)


PIECES = ["f", "i", "u", "bf", "c", "bool", "opaque", "float", "int", "8", "32", "64", "0", "x", "x4", "_e4m3fn", "-",
          "99999999999999999999", "65536", "cuda", ":", "cpu", "rocm_host", " ", "%s", "\x01", "é", "_", "+1", "00"]


def name_text_case(rng):
    """A text is refused, or is a name: what it means can be written and read again."""
    text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(6)))
    for parse, write in ((T.dtype, T.lib.tenon_dtype_format), (parse_device, T.lib.tenon_device_format)):
        try:
            value = parse(text)
        except T.Error as error:
            assert error.status == T.EPARSE, text
        else:
            assert parse(T.text(write, value)).key() == value.key(), text


def test_garbage():
    run_cases(name_text_case, 5000)
