"""python -m tenon: answers for compilers and type checkers, and new projects."""

import argparse
import io
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Optional

import tenon
from tenon import _new, _text
from tenon._folders import folder as _folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tenon", description="Tools for libraries of functions.")
    parser.add_argument("--version", action="version", version=f"tenon {tenon.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("cflags", help="print the options that a C compiler needs to find the headers")
    commands.add_parser("include", help="print the folder of the headers")
    commands.add_parser("sources", help="print the C files to compile into an extension that uses TENON_PY_MODULE")
    stubs = commands.add_parser("stubs", help="write a .pyi with the types of a library's functions")
    stubs.add_argument("library", help="the shared library")
    stubs.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")
    describe = commands.add_parser("describe", help="print the signatures of a library's functions")
    describe.add_argument("library", help="the shared library")
    build = commands.add_parser("build", help="compile a C, C++ or CUDA file into a shared library")
    build.add_argument("file", metavar="FILE", help="the source: .c, .cc, .cpp, .cxx or .cu")
    build.add_argument("-o", "--output", metavar="OUT", required=True, help="the library to write")
    build.add_argument("--compiler", help="the compiler (default: CC, CXX or the system's, or nvcc)")
    build.add_argument("--language", choices=["c", "c++", "cuda"], help="the language (default: that of FILE's suffix)")
    build.add_argument("--verbose", action="store_true", help="print the command")
    build.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="the compiler's flags: everything that follows")
    new = commands.add_parser("new", help="create a folder with a small project that is ready to build and test")
    new.add_argument("name", metavar="NAME", help="the name of the folder and of its Python package")
    return parser


def _answer(options: argparse.Namespace) -> str:
    if options.command == "cflags":
        return shlex.quote("-I" + _folder("include")) + "\n"
    if options.command == "include":
        return _folder("include") + "\n"
    if options.command == "sources":
        source = _folder("src")
        return " ".join(shlex.quote(os.path.join(source, name)) for name in ("tenon.c", "tenon_python.c")) + "\n"
    if options.command == "build":
        from tenon import _compile

        _compile.build(options.file, options.output, options.flags, options.compiler, options.language, options.verbose)
        return ""
    if options.command == "describe":
        return _text.describe(tenon.load(options.library))
    if options.command == "new":
        return _new.new(options.name, _folder("include"))
    text = _text.stub(tenon.load(options.library), os.path.basename(options.library))
    if not options.output:
        return text
    with open(options.output, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return ""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as a stub is when it is written to a file
    try:
        sys.stdout.write(_answer(options))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Without this, Python would try to flush it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ImportError, ValueError, RuntimeError) as error:  # a library's `load` may raise the last two
        print(f"python -m tenon: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
