"""python -m tenon: answers for compilers and type checkers, new projects, and the conformance kit."""

import argparse
import io
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Optional

import tenon
from tenon import _new_project, _stubs, _describe_library
from tenon._folders import folder as _folder
from tenon.conformance import command as _conformance

# The commands that print a folder of the package.
_FOLDERS = {"include": "include", "cmakedir": "cmake", "pkgconfigdir": "pkgconfig", "docs": "docs"}
_ERRORS = (OSError, ImportError, ValueError, RuntimeError)  # a library's `load` may raise the last two
_KINDS = {
    "cpp": "functions in C++ (default: C)",
    "cuda": "functions in CUDA",
    "rust": "functions in Rust",
    "extension": "an extension module, which works without the package of Tenon",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tenon", description="Tools for libraries of functions.")
    parser.add_argument("--version", action="version", version=f"tenon {tenon.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("cflags", help="print the options that a C compiler needs to find the headers")
    commands.add_parser("include", help="print the folder of the headers")
    commands.add_parser("cmakedir", help="print the folder for CMake's find_package(Tenon): -DTenon_DIR=FOLDER")
    commands.add_parser("pkgconfigdir", help="print the folder of tenon.pc, for PKG_CONFIG_PATH")
    commands.add_parser("docs", help="print the folder of signatures.md, which describes the grammar of signatures")
    commands.add_parser("sources", help="print the C files to compile into an extension that uses TENON_PY_MODULE")
    stubs = commands.add_parser("stubs", help="write a .pyi with the types of a library's functions")
    stubs.add_argument("library", help="the shared library")
    stubs.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")
    describe = commands.add_parser("describe", help="print the signatures of the functions of libraries")
    describe.add_argument("libraries", nargs="+", metavar="library", help="a shared library")
    form = describe.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything that is known about each function, as JSON")
    form.add_argument("--markdown", action="store_true", help="print a page of reference")
    compile_ = commands.add_parser("compile", help="compile a C, C++ or CUDA file into a shared library")
    compile_.add_argument("file", metavar="FILE", help="the source: .c, .cc, .cpp, .cxx or .cu")
    compile_.add_argument("-o", "--output", metavar="OUT", required=True, help="the library to write")
    compile_.add_argument("--compiler", help="the compiler (default: CC, CXX or the system's, or nvcc)")
    compile_.add_argument("--language", choices=["c", "c++", "cuda"], help="the language (default: that of FILE's suffix)")
    compile_.add_argument("--variants", nargs="+", default=[], choices=["x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8.2-a", "sve"],
                          metavar="CPU", help="also compile for newer CPUs, such as x86-64-v3, into files beside OUT; without it, "
                          "variants of an earlier build are deleted")
    compile_.add_argument("--verbose", action="store_true", help="print the command")
    compile_.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="the compiler's flags: everything that follows")
    doctor = commands.add_parser("doctor", help="report what is installed and what works on this machine, or explain a library")
    doctor.add_argument("library", nargs="?", metavar="LIBRARY", help="a shared library: explain it instead of the machine")
    doctor.add_argument("--json", action="store_true", help="print everything that was found, as JSON")
    doctor.add_argument("--html", metavar="FILE", help="also write a page of HTML")
    doctor.add_argument("--timeout", metavar="SECONDS", type=float, default=60.0, help="the limit for each step (default: 60)")
    new = commands.add_parser("new", help="create a folder with a small project that is ready to build and test")
    new.add_argument("name", metavar="NAME", help="the name of the folder and of its Python package")
    kind = new.add_mutually_exclusive_group()
    for name, text in _KINDS.items():
        kind.add_argument(f"--{name}", dest="kind", action="store_const", const=name, default="c", help=text)
    _conformance.add_parser(commands)
    return parser


def _describe(options: argparse.Namespace, errors: list[Exception]) -> str:
    found = []
    for file in options.libraries:
        try:
            found.append((file, tenon.load(file)))
        except _ERRORS as error:
            errors.append(error)
    if options.json:
        return _describe_library.as_json(found) if found else ""
    return "\n".join((_describe_library.as_markdown if options.markdown else _describe_library.describe)(module) for _, module in found)


def _answer(options: argparse.Namespace, errors: list[Exception]) -> str:
    """The text to print. Errors that do not keep the rest of it from being printed are added to `errors`."""
    if options.command == "cflags":
        return shlex.quote("-I" + _folder("include")) + "\n"
    if options.command in _FOLDERS:
        return _folder(_FOLDERS[options.command]) + "\n"
    if options.command == "sources":
        source = _folder("src")
        return " ".join(shlex.quote(os.path.join(source, name)) for name in ("tenon.c", "tenon_python.c")) + "\n"
    if options.command == "compile":
        from tenon import _compile

        _compile.compile_to(options.file, options.output, options.flags, options.compiler, options.language, options.verbose,
                            options.variants)
        return ""
    if options.command == "describe":
        return _describe(options, errors)
    if options.command == "new":
        return _new_project.new(options.name, options.kind)
    text = _stubs.stub(tenon.load(options.library), os.path.basename(options.library))
    if not options.output:
        return text
    with open(options.output, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return ""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as a stub is when it is written to a file
    if options.command == "doctor":
        from tenon import _doctor

        return _doctor.main(options.library, options.json, options.html, options.timeout)
    errors: list[Exception] = []
    try:
        if options.command == "conformance":
            return _conformance.main(options)
        sys.stdout.write(_answer(options, errors))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Without this, Python would try to flush it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _ERRORS as error:
        errors.append(error)
    for reason in errors:
        print(f"python -m tenon: {reason}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
