"""Our declarations of XLA's structs against the header of the installed jaxlib."""

import pathlib
import subprocess

import jax
from building import COMPILER
from hand_written import ffi

HERE = pathlib.Path(__file__).resolve().parent
HEADER = pathlib.Path(ffi.include_dir()) / "xla/ffi/api/c_api.h"


def compile_layout(*options):
    text = HEADER.read_text()
    names = {"HAS_ORDINAL": "XLA_FFI_DeviceOrdinal_Get", "HAS_F8E8M0FNU": "XLA_FFI_DataType_F8E8M0FNU"}
    macros = [f"-D{macro}" for macro, name in names.items() if name in text]
    if "XLA_FFI_InternalExtension" in text:  # its name from JAX 0.11 on
        macros.append("-DXLA_FFI_Extension_Base=XLA_FFI_InternalExtension")
    is_c = jax.__version_info__ >= (0, 5)
    language = ["-x", "c", "-std=c11"] if is_c else ["-x", "c++", "-std=c++17", "-Wno-invalid-offsetof"]
    return subprocess.run([*COMPILER, *language, "-fsyntax-only", f"-I{HERE.parents[1] / 'host'}",
                           f"-I{ffi.include_dir()}", *macros, *options, str(HERE / "layout.c")],
                          stderr=subprocess.PIPE, encoding="utf-8")


def test_the_layout_is_that_of_the_header():
    done = compile_layout()
    assert done.returncode == 0, done.stderr


def test_another_layout_does_not_compile():
    for wrong in ["XLA_FFI_DataType_F16=XLA_FFI_DataType_F32", "XLA_FFI_ExecutionStage_EXECUTE=2"]:
        done = compile_layout("-include", str(HEADER), f"-D{wrong}")
        assert done.returncode != 0 and "static" in done.stderr
