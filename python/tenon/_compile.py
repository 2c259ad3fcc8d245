"""tenon.compile(): source in C, C++ or CUDA becomes a loaded module. _cache.py keeps the libraries."""

from __future__ import annotations

import os
import re
import sys
import time

import tenon
from tenon import _cache
from tenon._folders import folder
from tenon._load import Library, load

TYPE_CHECKING = False  # importing typing would take longer than a call that finds its library
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from os import PathLike
    from typing import Literal, Optional, Union

    Path = Union[PathLike[str], PathLike[bytes]]
    Language = Literal["c", "c++", "cuda"]

_LANGUAGES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".cu": "cuda"}
_SUFFIXES = {"c": ".c", "c++": ".cpp", "cuda": ".cu"}
_NAMES = {"c": "C", "c++": "C++", "cuda": "CUDA"}
_STANDARDS = {"c": "gnu11", "c++": "gnu++17", "cuda": "c++17"}
_COMPILERS = {"c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++"), "cuda": ("nvcc",)}
_VARIABLES = {"c": ("CC", "CPPFLAGS", "CFLAGS", "LDFLAGS"), "c++": ("CXX", "CPPFLAGS", "CXXFLAGS", "LDFLAGS")}
_CPP_DRIVERS = {"gcc": "g++", "clang": "clang++", "cc": "c++"}
# Patterns are compiled when they are first used, because a call that finds its library needs none of them.
_CPP = rb'^[ \t]*#[ \t]*include[ \t]*[<"]tenon/[\w/]+\.hpp[>"]'
_MODULE = rb"^[ \t]*TENON_\w*MODULE\w*\(\s*(\w+)"
_C_DRIVER = r"((?:.*[/\\-])?)(gcc|clang|cc)(-[\d.]+)?(\.exe)?"
# Flags that do not depend on the current folder: they name no file, or name it by an absolute path.
_SAME_EVERYWHERE = r"-(?:[DUOglmp]|std=).*|-[Wf][\w+-]*(?:[,=](?:[\w+-]*|/[^,=]*))*|(?:-[ILB]|-isystem|-iquote)?/.*"
# Headers that belong to the system or to a toolkit, which change with the compiler. -MMD would leave out those of -isystem too.
_SYSTEM = ("/usr/include/", "/usr/lib/", "/usr/local/cuda", "/Library/Developer/", "/Applications/Xcode")
# The compilers read these themselves. The first ones are lists of folders.
_FOLDERS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")
_ENVIRONMENT = (
    *_FOLDERS,
    *("SDKROOT", "MACOSX_DEPLOYMENT_TARGET", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"),
)


class CompileError(ImportError):
    """The source was not compiled, or the library that was built from it cannot be loaded.

    `command` is the command of the compiler, and `output` what it printed; both are empty if no compiler was found.
    """

    command: list[str]
    output: str

    def __init__(self, message: str, command: Sequence[str] = (), output: str = "") -> None:
        if command:
            import shlex

            message = "\n".join([message, *filter(None, [output.rstrip()]), "command: " + shlex.join(command)])
        super().__init__(message)
        self.command, self.output = list(command), output


def compile(
    source_or_path: Union[str, Path],
    *,
    flags: Sequence[str] = (),
    compiler: Union[str, Path, Sequence[str], None] = None,
    language: Optional[Language] = None,
    native: bool = False,
    verbose: bool = False,
) -> Library:
    """Compile source in C, C++ or CUDA that has a TENON_MODULE, and return its functions as a module, as load() does.

    A path, or a string without a newline that ends in .c, .cc, .cpp, .cxx or .cu, names a file; any other string is the
    source itself. The language is that of the file's suffix. Text that includes one of our .hpp headers is C++, and other
    text is C, unless `language` says "c", "c++" or "cuda".

    `flags` are added at the end of the command. `compiler` is a program, with options if you like, either as one string
    or as a list; the default is CC, CXX or the system's compiler, or nvcc. `verbose` prints the command to stderr.

    `native` allows all instructions of this CPU (-march=native): the library is for this machine only.

    Libraries are cached by the source, the files that it includes, the flags and the compiler. docs/compile.md has the
    rules. A second call makes a new module of the same library, with its own state.

    Raises CompileError, an ImportError, if there is no compiler, if it fails (the message is what it printed, and its
    command), or if the library cannot be loaded; OSError if the file cannot be read; and whatever the library's `load`
    raises.
    """
    started = time.time_ns()
    job = _Job("tenon.compile()", source_or_path, flags, compiler, language)
    if native:
        job.add_machine("native")
    key, folders, problem = job.key(), [], ""
    try:
        folders.append(_cache.user_folder())
    except _cache.Unusable as error:
        problem = str(error)
    for parent in filter(None, [*folders, _cache.private_folder()]):
        library = _cache.find(parent, key)
        if library:
            try:
                module = load(library)
            except (OSError, ImportError):
                continue  # the library is damaged: build it again
            if verbose:
                _print(f"tenon.compile(): cached: {library}\n")
            return module
    if not problem:
        try:
            return _build(job, key, folders[0], verbose, started)
        except _cache.Unusable as error:
            problem = str(error)
    import warnings

    advice = "so each process compiles the source again; set TENON_CACHE to a folder that only you can write to"
    warnings.warn(f"tenon.compile(): {problem}: using a temporary folder, {advice}", RuntimeWarning, stacklevel=2)
    return _build(job, key, _cache.make_private_folder(), verbose, started)


# The value of -march for each variant.
_MACHINES = {name: name for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8.2-a")}
_MACHINES["sve"] = "armv8.2-a+sve"


def compile_to(
    file: str,
    output: str,
    flags: Sequence[str],
    compiler: Optional[str],
    language: Optional[str],
    verbose: bool,
    variants: Sequence[str] = (),
) -> None:
    """Compile a file into a shared library, without the cache. A library of that name is replaced only on success.

    `variants` are compiled beside it, for CPUs that have more instructions. Other variants beside it are deleted: they are of
    an earlier build.
    """
    import pathlib

    job = _Job("compile", pathlib.Path(file), flags, compiler, language)
    parent = os.path.dirname(_absolute(output, "compile"))
    os.stat(parent)  # an error names this folder, not the temporary one
    if os.path.isdir(output):
        raise ValueError(f"compile: the output {output} is a folder; name a file in it")
    if variants and not os.path.splitext(output)[1]:
        raise ValueError(f"compile: the output {output} needs a suffix, such as .so, to have variants")
    if os.path.exists(output) and os.path.samefile(file, output):
        raise ValueError(f"compile: the output {output} is the source")
    with _WorkFolder(".tenon-", parent) as work:
        built = {}
        for variant in ("", *variants):
            each = _Job("compile", pathlib.Path(file), flags, compiler, language) if variant else job
            if variant:
                each.add_machine(_MACHINES[variant])
            built[variant] = os.path.join(work, f"built{variant}{_cache.SUFFIX}")
            _run(each, each.command(each.path, built[variant], os.path.join(work, "used")), work, built[variant], verbose)
        for variant in _MACHINES:
            if variant not in built and os.path.exists(_variant_file(output, variant)):
                os.unlink(_variant_file(output, variant))
        for variant, library in built.items():
            os.replace(library, _variant_file(output, variant) if variant else output)


def _variant_file(output: str, variant: str) -> str:
    stem, suffix = os.path.splitext(output)
    return f"{stem}.{variant}{suffix}"


# ------------------------------------------------------------------------------------------------------------ the job


class _Job:
    """What to compile, and how."""

    def __init__(self, caller: str, given: object, flags: object, compiler: object, language: Optional[str]) -> None:
        self.caller = caller
        if language not in (None, *_NAMES):
            raise ValueError(f"{caller}: argument 'language': expected 'c', 'c++' or 'cuda', got {language!r}")
        self.path = self._path(given)  # that of the user's file, or ""
        if self.path:
            with open(self.path, "rb") as file:
                self.source = file.read()
            self.language = language or _LANGUAGES.get(os.path.splitext(self.path)[1]) or self._unknown_suffix()
        else:
            self.source = self._encoded(str(given))
            is_cpp = b".hpp" in self.source and re.search(_CPP, self.source, re.M)
            self.language = language or ("c++" if is_cpp else "c")
        self.guessed = not self.path and not language
        self.flags = self._words("flags", flags)
        for flag in self.flags:
            if not flag.startswith("-") and os.path.splitext(flag)[1] in _LANGUAGES:
                raise ValueError(
                    f"{caller}: argument 'flags': {flag!r} is a second source; only one is compiled: use #include"
                )
        self.compiler = self._find_compiler(compiler)
        self.is_nvcc = any(os.path.basename(word).startswith("nvcc") for word in self.compiler)

    def _path(self, given: object) -> str:
        if isinstance(given, str):
            if "\n" not in given and os.path.splitext(given)[1] in _LANGUAGES:
                return _absolute(self._checked("source_or_path", given), self.caller)
            if "\n" in given or "#" in given:
                return ""
            raise ValueError(
                f"{self.caller}: argument 'source_or_path': {given!r} is neither source, which has more than one line, nor "
                "the name of a .c, .cc, .cpp, .cxx or .cu file; tenon.load() opens a library that is already built"
            )
        if not isinstance(given, os.PathLike):
            raise TypeError(f"{self.caller}: argument 'source_or_path': expected a str or a path, got {type(given).__name__}")
        return _absolute(self._checked("source_or_path", os.fsdecode(given)), self.caller)

    def _checked(self, argument: str, word: str) -> str:
        """Return an argument that the operating system can take."""
        try:
            if b"\0" not in os.fsencode(word):
                return word
        except UnicodeEncodeError:
            pass
        raise ValueError(f"{self.caller}: argument '{argument}': {word!r} has a null character, or one that cannot be encoded")

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            character = f"{text[error.start]!r} at index {error.start}"
            raise ValueError(
                f"{self.caller}: argument 'source_or_path': the text cannot be encoded as UTF-8: it has {character}"
            ) from None

    def _unknown_suffix(self) -> str:
        raise ValueError(
            f"{self.caller}: {self.path} does not end in .c, .cc, .cpp, .cxx or .cu; choose the language: 'c', 'c++' or 'cuda'"
        )

    def _words(self, argument: str, given: object) -> list[str]:
        if isinstance(given, (str, bytes)):
            raise TypeError(
                f"{self.caller}: argument '{argument}': expected a sequence of strings, got one {type(given).__name__}; "
                f"write {given.split()!r}"
            )
        words: list[object] = list(given) if hasattr(given, "__iter__") else [None]
        words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in words]
        strings = [word for word in words if isinstance(word, str)]
        if len(strings) < len(words):
            raise TypeError(f"{self.caller}: argument '{argument}': expected a sequence of strings, got {given!r}")
        return [self._checked(argument, word) for word in strings]

    def _split(self, place: str, text: str) -> list[str]:
        if not text:
            return []
        import shlex

        try:
            return shlex.split(text, posix=os.name != "nt")
        except ValueError as error:
            raise ValueError(f"{self.caller}: {place}: {text!r} is not a list of words: {error}") from None

    def _variable(self, name: str) -> list[str]:
        return self._split(f"the environment variable {name}", os.environ.get(name, ""))

    def _find_compiler(self, given: object) -> list[str]:
        """Return the words of the command, with the path of the program."""
        if given is None:
            words = self._variable(_VARIABLES.get(self.language, ("",))[0])
            choices = [words] if words else [[name] for name in self._default_compilers()]
        else:
            if isinstance(given, str):
                words = self._split("argument 'compiler'", self._checked("compiler", given))
            else:
                words = [os.fsdecode(given)] if isinstance(given, os.PathLike) else self._words("compiler", given)
            if not words:
                raise ValueError(f"{self.caller}: argument 'compiler': it is empty")
            choices = [[_cpp_driver(word) for word in words] if self.language == "c++" else words]
        for words in choices:
            found = _which(words[0])
            if found and os.path.basename(words[0]).lower() in ("cl", "cl.exe"):
                raise CompileError(f"{self.caller}: the compiler cl is not supported; use clang or gcc")
            if found:
                return [found[0], *words[1:]]
        raise CompileError(f"{self.caller}: {self._no_compiler(choices, given)}")

    def _default_compilers(self) -> list[str]:
        names = list(_COMPILERS[self.language])
        if self.language == "cuda":
            homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
            names = [os.path.join(home, "bin", "nvcc") for home in homes if home] + names + ["/usr/local/cuda/bin/nvcc"]
        return names

    def _no_compiler(self, choices: list[list[str]], given: object) -> str:
        name = _NAMES[self.language]
        if len(choices) == 1:
            source = "" if given is not None else f" (from {_VARIABLES[self.language][0]})"
            path = choices[0][0]
            why = "is not installed, or is not on the PATH"
            if os.path.dirname(path) and os.path.exists(path):
                why = "is a folder" if os.path.isdir(path) else "is not executable"
            return f"the {name} compiler {path!r}{source} {why}"
        if self.language == "cuda":
            return "nvcc is not installed: it is neither in CUDA_HOME nor on the PATH; install the CUDA toolkit, or set CUDA_HOME"
        names = ", ".join(words[0] for words in choices)
        return (
            f"no {name} compiler is installed ({names}); install one (on Debian: apt install {'g++' if name == 'C++' else 'gcc'}; "
            f"on macOS: xcode-select --install), or set {_VARIABLES[self.language][0]}"
        )

    def add_machine(self, machine: str) -> None:
        """Compile for these CPUs."""
        self.flags += ["-Xcompiler", f"-march={machine}"] if self.is_nvcc else [f"-march={machine}"]

    def name(self) -> str:
        """Return the stem of the file, or the name of the module in the text."""
        if self.path:
            return os.path.splitext(os.path.basename(self.path))[0]
        found = re.search(_MODULE, self.source, re.M)
        return found[1].decode() if found else "source"

    def command(self, source: str, built: str, used: str) -> list[str]:
        words = [*self.compiler, "-shared"]
        for option, value in (("-std=", _STANDARDS[self.language]), ("-O", "3")):
            if not any(flag.startswith(option) for flag in self.flags):  # nvcc warns about a second one
                words.append(option + value)
        if self.is_nvcc:
            words += ["-Xcompiler", "-fPIC,-fvisibility=hidden"]
            others = [*self.flags, *(os.environ.get(name, "") for name in _ENVIRONMENT)]
            if not any(re.search("-arch|-gencode|--gpu-arch|--generate-code", word) for word in others):
                words += ["-arch=native"]
            words += ["-I" + folder("include")]
            words += [source] if source.endswith(".cu") else ["-x", self.language.replace("cuda", "cu"), source]
        else:
            words += ["-fPIC", "-fvisibility=hidden", "-g1"]  # -g1: a debugger shows lines
            words += self.environment_flags()
            words += ["-I" + folder("include"), "-x", self.language, source, "-x", "none"]
        return [*words, "-o", built, "-MD", "-MF", used, *self.flags]

    def environment_flags(self) -> list[str]:
        """Return the flags of the environment. nvcc reads its own."""
        names = () if self.is_nvcc else _VARIABLES.get(self.language, ())[1:]
        return [word for name in names for word in self._variable(name)]

    def key(self) -> str:
        """Return a hash of everything that decides the result, except for the files that the source includes."""
        command = self.command(self.path or "source", "built", "used")
        parts: list[object] = [tenon.__version__, sys.platform, self.language, command]
        parts += [_identity(word) for word in self.compiler if not word.startswith("-")]
        parts += [os.environ.get(name) for name in _ENVIRONMENT]
        given = [*(word for word in self.compiler if word.startswith("-")), *self.environment_flags(), *self.flags]
        if self.is_nvcc:
            given += [word for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS") for word in os.environ.get(name, "").split()]
        if not all(re.fullmatch(_SAME_EVERYWHERE, word) for word in given) or not all(map(os.path.isabs, _folders())):
            parts.append(_absolute(os.curdir, self.caller))
        if any("native" in word for word in command):
            import platform

            parts.append((platform.node(), os.environ.get("CUDA_VISIBLE_DEVICES")))  # a home folder can be shared
        return _cache.digest_of(repr(parts).encode("utf-8", "surrogateescape") + b"\0" + self.source)[:32]

    def used(self, written: str) -> Optional[list[str]]:
        """Return the files that were compiled, which the compiler has listed, and those that the flags name."""
        try:
            with open(written, encoding="utf-8", errors="surrogateescape") as file:
                found = _dependencies(file.read())
        except OSError:
            return None  # not every compiler writes it
        for flag in [*self.environment_flags(), *self.flags]:
            words = [flag, *re.split("[,=]", flag)]  # -Wl,--whole-archive,libkernels.a or -fplugin=plugin.so
            found += [word for word in (word[word.startswith("@") :] for word in words) if os.path.isfile(word)]
        return [name for name in map(os.path.abspath, found) if not name.startswith(_SYSTEM)]


def _folders() -> list[str]:
    """Return the folders that the environment names. An empty name is the current folder."""
    values = filter(None, map(os.environ.get, _FOLDERS))
    return [folder for value in values for folder in value.split(os.pathsep)]


def _absolute(path: str, caller: str = "tenon.compile()") -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError as error:
        why = f"{caller}: the current folder was removed; change to another one, or use absolute paths"
        raise FileNotFoundError(error.errno, why, path) from None


def _which(name: str) -> list[str]:
    """Return every program of this name: the first one may be a wrapper, such as ccache, that calls the next one."""
    if os.path.dirname(name):
        found = [_absolute(name)]
    else:
        found = [os.path.join(parent, name) for parent in os.get_exec_path()]
    if os.name == "nt" and not name.lower().endswith(".exe"):
        found = [path + ".exe" for path in found]
    return [path for path in found if os.access(path, os.X_OK) and os.path.isfile(path)]


def _identity(word: str) -> list[object]:
    """Describe a program, so that a new version is another one."""
    found = [word, *_which(os.path.basename(word))]
    stats = [(os.path.realpath(path), os.stat(path)) for path in found if os.path.isfile(path)]
    return [(path, one.st_size, one.st_mtime_ns) for path, one in stats]


def _cpp_driver(word: str) -> str:
    """Return the C++ compiler that belongs to a C compiler: only that one links C++'s library."""
    found = re.fullmatch(_C_DRIVER, word)
    other = found and f"{found[1]}{_CPP_DRIVERS[found[2]]}{found[3] or ''}{found[4] or ''}"
    return other if other and _which(other) else word


def _dependencies(rule: str) -> list[str]:
    """Return the names in a rule of make: spaces and # have a backslash before them, and $ is written twice."""
    names = re.sub(r"\\\r?\n", " ", rule).partition("\n")[0].partition(": ")[2]
    words = re.findall(r"(?:\\[\s#]|\$\$|\S)+", names)
    return [re.sub(r"\\([\s#])", r"\1", word).replace("$$", "$") for word in words]


# ------------------------------------------------------------------------------------------------------------ to build


def _build(job: _Job, key: str, parent: str, verbose: bool, started: int) -> Library:
    """Compile, store and load. Raise Unusable if the cache folder cannot be written to."""
    with _WorkFolder("tenon-", None) as work:
        name = job.name()
        built, used = os.path.join(work, name + _cache.SUFFIX), os.path.join(work, "used")
        try:
            entry = _cache.make_entry(parent, key)
            source = job.path or _cache.put(entry, name + _SUFFIXES[job.language], job.source)
        except OSError as error:
            raise _unusable(parent, error) from None
        try:
            _run(job, job.command(source, built, used), work, built, verbose)
            with open(built, "rb") as file:
                content = file.read()
            includes = job.used(used)
            if includes is not None and not job.path:
                includes = [name for name in includes if name != source]  # the key has its content
            try:
                library = _cache.store(entry, name, content, includes, started)
            except OSError as error:
                raise _unusable(parent, error) from None
            return _load(job, entry, library)
        except BaseException as error:
            if not (isinstance(error, CompileError) and error.command):  # a command that failed can be run again
                _cache.discard(entry, "" if job.path else source)
            raise


class _WorkFolder:
    """A temporary folder for the compiler. That of the module tempfile would be removed when a process ends that was forked
    meanwhile by another thread."""

    def __init__(self, prefix: str, parent: Optional[str]) -> None:
        import tempfile

        self.path = tempfile.mkdtemp(prefix=prefix, dir=parent)

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *exception: object) -> None:
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)


def _unusable(parent: str, error: OSError) -> Exception:
    if parent == _cache.private_folder():
        return error
    return _cache.Unusable(f"cannot write to the cache folder {parent} ({error.strerror})")


def _load(job: _Job, entry: str, library: str) -> Library:
    try:
        return load(library)
    except ImportError as error:
        _cache.drop(entry, library)
        message = str(error).replace(f"{library}: ", "", 1)
        raise CompileError(f"{job.caller}: the source was compiled, but the library cannot be loaded: {message}") from None
    except BaseException:
        _cache.drop(entry, library)
        raise


def _run(job: _Job, command: list[str], work: str, built: str, verbose: bool) -> None:
    """Run the compiler. Its temporary files are in the folder `work`."""
    import subprocess

    if verbose:
        import shlex

        _print(shlex.join(command) + "\n")
    environment = {**os.environ, "TMPDIR": work}
    try:
        # A session of its own: an interrupt reaches this process, which then ends all processes of the compiler.
        # Its output goes to a file: a server that it starts, such as sccache's, would keep a pipe open.
        with open(os.path.join(work, "output"), "w+b") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
            _wait(process)
            output.seek(0)
            printed = output.read().decode("utf-8", "replace")
    except OSError as error:
        raise CompileError(f"{job.caller}: the compiler cannot be started: {error.strerror}", command) from error
    if process.returncode or not os.path.isfile(built):
        raise CompileError(f"{job.caller}: {_failure(job, process.returncode)}", command, printed)
    _print(printed)


def _print(text: str) -> None:
    """Print to stderr, if there is one. The call does not fail if that is not possible."""
    if not text or not sys.stderr:
        return
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    try:
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # it is closed, or its other end is


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait()
    except BaseException:
        _end(process.pid)
        process.kill()
        process.wait()
        raise


def _end(session: int) -> None:
    if hasattr(os, "killpg"):
        import signal

        try:
            os.killpg(session, signal.SIGKILL)
        except OSError:
            pass


def _failure(job: _Job, status: int) -> str:
    if not status:
        return "the compiler wrote no library"
    if status < 0:
        return f"the compiler was ended by signal {-status}"
    if job.guessed and job.language == "c":
        return f"the compiler failed with status {status}; the text was taken for C (pass language='c++' or 'cuda' otherwise)"
    return f"the compiler failed with status {status}"
