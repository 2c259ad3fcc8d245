"""tenon.compile: what it takes, which compiler it runs and how, and every way to fail."""

import array
import io
import os
import pathlib
import pickle
import re
import shlex
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from building import run_python, tenon
from compile_stand_ins import C, answers, logging_compiler, script
from programs import runs

from tenon import _compile

CPP = """
#include <vector>
#include <tenon/function.h>
static tenon_status answer(tenon_call *call)
{
    std::vector<int> numbers{1, 2, 3};
    tenon_return_int(call, 0, static_cast<int64_t>(numbers.size()));
    return TENON_OK;
}
TENON_MODULE(answers, "Answers.", TENON_FUNCTION("answer() -> int", answer, NULL))
"""
needs_cpp = pytest.mark.skipif(not runs("c++"), reason="there is no C++ compiler that runs")
needs_sh = pytest.mark.skipif(os.name == "nt", reason="the stand-in for a compiler is a shell script")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and a folder for temporary files in which nothing is left."""
    temporary = tmp_path / "temporary files"
    temporary.mkdir()
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    for name in ("CPPFLAGS", "CXXFLAGS", "LDFLAGS", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / "cache"
    assert os.listdir(temporary) == []


def failure(*arguments, exception=tenon.CompileError, **keywords):
    with pytest.raises(exception) as caught:
        tenon.compile(*arguments, **keywords)
    assert type(caught.value) is exception
    return caught.value


# ----------------------------------------------------------------------------------------------------------- the source


def test_text(cache):
    module = tenon.compile(answers(42))
    assert (module.answer(), module.__name__, module.__doc__) == (42, "answers", "Answers.")
    assert module.__file__.startswith(str(cache)) and "answers" not in sys.modules
    (source,) = cache.glob("*/answers.c")
    assert source.read_text() == answers(42)


@pytest.mark.parametrize("form", [str, pathlib.Path], ids=["str", "Path"])
def test_path(tmp_path, monkeypatch, form):
    file = tmp_path / "two words é.c"
    file.write_text(answers(7))
    assert tenon.compile(form(file)).answer() == 7
    monkeypatch.chdir(tmp_path)
    module = tenon.compile(form("two words é.c"))
    assert module.answer() == 7 and os.path.basename(module.__file__).startswith("two words é-")
    file.write_text(answers(8))
    assert tenon.compile(form(file)).answer() == 8 and module.answer() == 7


def test_file_includes_its_neighbours(tmp_path):
    (tmp_path / "neighbour.h").write_text("#define ANSWER 12\n")
    (tmp_path / "kernels.c").write_text('#include "neighbour.h"\n' + C)
    assert tenon.compile(tmp_path / "kernels.c").answer() == 12


@needs_cpp
def test_cpp(tmp_path):
    assert tenon.compile(CPP, language="c++").answer() == 3
    for suffix in (".cc", ".cpp", ".cxx"):
        (tmp_path / f"kernels{suffix}").write_text(answers("sizeof(class C *) > 1 ? 3 : 0"))
        assert tenon.compile(tmp_path / f"kernels{suffix}").answer() == 3
    (tmp_path / "kernels.inl").write_text(answers(3))
    assert tenon.compile(tmp_path / "kernels.inl", language="c++").answer() == 3
    assert "does not end in .c, .cc" in str(failure(tmp_path / "kernels.inl", exception=ValueError))


@needs_cpp
def test_versions_share_no_variables():
    """Without hidden visibility, all libraries of a process would have one variable of a template."""
    text = """
        #include <tenon/function.h>
        template <class T> struct Counter { static T value; };
        template <class T> T Counter<T>::value = ANSWER;
        static tenon_status next(tenon_call *call)
        {
            tenon_return_int(call, 0, Counter<int64_t>::value++);
            return TENON_OK;
        }
        TENON_MODULE(counter, nullptr, TENON_FUNCTION("next() -> int", next, nullptr))
        """
    old, new = (tenon.compile(text, language="c++", flags=[f"-DANSWER={number}"]) for number in (10, 20))
    assert [old.next(), new.next(), old.next(), new.next()] == [10, 20, 11, 21]


@needs_cpp
def test_text_that_is_cpp():
    module = tenon.compile("""
        #include <tenon/function.hpp>

        static void twice(tenon::in<float, 1> x, tenon::out<float, 1> y)
        {
            for (int64_t i = 0; i < x.size(); i++)
                y(i) = 2 * x(i);
        }

        TENON_CPP_MODULE(twice, "Twice.", TENON_CPP("twice(x: f32[n] c) -> f32[n]", twice, "2*x"))
        """)
    x = tenon.to(array.array("f", [1, 2, 3]), "tenon")
    assert tenon.to(module.twice(x), "memoryview").tolist() == [2, 4, 6] and module.__name__ == "twice"


@needs_sh
@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("#include <tenon/function.hpp>", "c++"),
        ('  #  include "tenon/function.hpp"', "c++"),
        ("#include <tenon/stl.hpp>", "c++"),
        ("#include <tenon/cpp/numbers.hpp>", "c++"),
        ("#include <other.hpp>", "c"),
        ("// #include <tenon/function.hpp>", "c"),
        ("#include <tenon/function.h>", "c"),
    ],
)
def test_language_of_text(tmp_path, line, language):
    fake = script(tmp_path / "bin", "fake", "exit 3\n")
    words = failure(f"{line}\n", compiler=str(fake)).command
    assert words[words.index("-x") + 1] == language


def test_one_name_and_many_versions():
    """As in a notebook: the cell is changed and runs again."""
    modules = [tenon.compile(answers(number)) for number in (1, 2, 1)]
    assert [module.answer() for module in modules] == [1, 2, 1]
    assert {module.__name__ for module in modules} == {"answers"}


@pytest.mark.parametrize("wrong", ["", "kernels.so", "int x;", "kernels"])
def test_neither_text_nor_a_source_file(wrong):
    message = str(failure(wrong, exception=ValueError))
    assert repr(wrong) in message and "'source_or_path'" in message and "tenon.load()" in message


def test_wrong_arguments(tmp_path):
    for wrong in (None, 3, b"#\n", ["x.c"]):
        assert type(wrong).__name__ in str(failure(wrong, exception=TypeError))
    assert "'c', 'c++' or 'cuda', got 'C'" in str(failure(C, language="C", exception=ValueError))
    message = str(failure(C, flags="-O2 -g", exception=TypeError))
    assert message.endswith("'flags': expected a sequence of strings, got one str; write ['-O2', '-g']")
    for wrong in (3, [3], None, [b"-g"]):
        assert "'flags': expected a sequence of strings" in str(failure(C, flags=wrong, exception=TypeError))
    for wrong in (3, [3]):
        assert "'compiler': expected a sequence" in str(failure(C, compiler=wrong, exception=TypeError))
    for empty in ("", []):
        assert "'compiler': it is empty" in str(failure(C, compiler=empty, exception=ValueError))
    for argument, wrong in (("flags", ["a\0b"]), ("flags", ["\ud800"]), ("compiler", "c\0c"), ("compiler", ["c\0c"])):
        message = str(failure(C, exception=ValueError, **{argument: wrong}))
        assert message.startswith(f"tenon.compile(): argument '{argument}': ") and "null character" in message
    assert "argument 'source_or_path': 'a\\x00.c' has a null" in str(failure("a\0.c", exception=ValueError))
    message = str(failure("#\n// \udc80", exception=ValueError))
    assert message.endswith("'source_or_path': the text cannot be encoded as UTF-8: it has '\\udc80' at index 5")
    message = str(failure(C, compiler="gcc 'x", exception=ValueError))
    assert message == "tenon.compile(): argument 'compiler': \"gcc 'x\" is not a list of words: No closing quotation"
    assert "'more.c' is a second source" in str(failure(C, flags=["more.c"], exception=ValueError))
    failure(tmp_path / "missing.c", exception=FileNotFoundError)
    failure("missing.cu", exception=FileNotFoundError)
    failure(tmp_path, exception=IsADirectoryError)


# --------------------------------------------------------------------------------------------------------- the command


@needs_sh
def test_flags_come_last(tmp_path):
    compiler, log = logging_compiler(tmp_path)
    assert tenon.compile(C, flags=("-DANSWER=5", "-O1"), compiler=compiler).answer() == 5
    words = log.read_text().splitlines()
    assert words[-2:] == ["-DANSWER=5", "-O1"] and "-O3" not in words
    assert {"-shared", "-fPIC", "-std=gnu11", "-MD"} <= set(words)


@needs_sh
def test_environment(tmp_path, monkeypatch):
    compiler, log = logging_compiler(tmp_path, "my cc")
    monkeypatch.setenv("CC", f'"{compiler}" -DEXTRA=1')
    monkeypatch.setenv("CFLAGS", "-DANSWER=EXTRA -DUNUSED='a b'")
    assert tenon.compile(C).answer() == 1
    assert "-DUNUSED=a b" in log.read_text().splitlines()
    monkeypatch.setenv("CFLAGS", "-DANSWER=2")
    assert tenon.compile(C).answer() == 2
    assert tenon.compile(C, flags=["-UANSWER", "-DANSWER=3"]).answer() == 3


def test_environment_that_is_not_a_list_of_words(monkeypatch):
    for name in ("CFLAGS", "CC"):
        monkeypatch.setenv(name, "'-O2")
        message = str(failure(C, exception=ValueError))
        assert message.startswith(f"tenon.compile(): the environment variable {name}: ")


@needs_sh
@pytest.mark.parametrize("form", [str, pathlib.Path, lambda path: [str(path), "-DANSWER=4"], lambda path: [path]])
def test_compiler(tmp_path, form):
    compiler, log = logging_compiler(tmp_path)
    assert tenon.compile(C.replace("ANSWER", "4 + 0*ANSWER"), flags=["-DANSWER=4"], compiler=form(compiler)).answer() == 4
    assert log.exists()


@needs_sh
def test_compiler_on_the_path(tmp_path, monkeypatch):
    logging_compiler(tmp_path, "my-cc")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert tenon.compile(answers(6), compiler="my-cc -DX").answer() == 6
    assert "-DX" in (tmp_path / "arguments").read_text().splitlines()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c_compiler_for_cpp(compiler):
    other = {"gcc": "g++", "clang": "clang++"}[compiler]
    if not runs(compiler) or not runs(other):
        pytest.skip(f"{other} is not installed")
    assert tenon.compile(CPP, language="c++", compiler=compiler).answer() == 3


@needs_cpp
def test_cpp_compiler_for_c():
    """C that is not C++."""
    text = answers(9).replace("static", "static int class; static", 1)
    assert tenon.compile(text, compiler="c++").answer() == 9


def test_verbose(capfd):
    tenon.compile(answers(1), verbose=True)
    printed = capfd.readouterr().err
    assert printed.count("\n") == 1 and "-shared" in shlex.split(printed)
    module = tenon.compile(answers(1), verbose=True)
    assert capfd.readouterr().err == f"tenon.compile(): cached: {module.__file__}\n"
    tenon.compile(answers(1))
    assert capfd.readouterr() == ("", "")


def test_warnings_are_shown_once(capfd):
    text = "#warning look here\n" + answers(1)
    assert tenon.compile(text).answer() == 1
    assert "look here" in capfd.readouterr().err
    assert tenon.compile(text).answer() == 1
    assert capfd.readouterr() == ("", "")


def test_warnings_that_cannot_be_printed(monkeypatch):
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    closed = io.StringIO()
    closed.close()
    for number, stream in enumerate([None, ascii_only, closed, open(os.devnull)]):
        monkeypatch.setattr(sys, "stderr", stream)
        text = "#warning caf\xe9\n" + answers(number)
        assert [tenon.compile(text, verbose=True).answer() for _ in range(2)] == [number] * 2
    assert b"warning caf\\xe9" in ascii_only.buffer.getvalue() and b"cached: " in ascii_only.buffer.getvalue()
    stream.close()


# ---------------------------------------------------------------------------------------------------------------- CUDA


@needs_sh
def test_nvcc(tmp_path, monkeypatch):
    """nvcc is looked for in CUDA_HOME first, and gets the architecture of this machine's GPU unless it is told another."""
    log = tmp_path / "log"
    home = tmp_path / "toolkit" / "bin"
    home.parent.mkdir()
    script(home, "nvcc", f"""
        printf '%s\\n' "$@" > {log}
        while [ $# -gt 0 ]; do
            case "$1" in
                -o) out=$2 ;;
                *.cu) source=$1 ;;
                -MF) used=$2 ;;
                -I*) include=$1 ;;
            esac
            shift
        done
        echo "$out : $source" > "$used"
        exec $REAL -x c -shared -fPIC "$include" "$source" -o "$out"
        """)
    monkeypatch.setenv("CUDA_HOME", str(home.parent))
    (tmp_path / "kernels.cu").write_text(answers(1))
    for source, keywords in ((answers(1), {"language": "cuda"}), (tmp_path / "kernels.cu", {})):
        assert tenon.compile(source, **keywords).answer() == 1
        words = log.read_text().splitlines()
        assert {"-arch=native", "-std=c++17", "-shared", "-fPIC,-fvisibility=hidden"} <= set(words) and "-x" not in words
        log.unlink()
        tenon.compile(source, **keywords)
        assert not log.exists()
    tenon.compile(tmp_path / "kernels.cu", flags=["-gencode=arch=compute_90a,code=sm_90a"])
    assert "-arch=native" not in log.read_text()
    (tmp_path / "kernels.inl").write_text(answers(1))
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_HOME")
    failure(tmp_path / "kernels.inl", language="cuda")  # the stand-in sees no source
    assert "-x\ncu\n" in log.read_text()


def test_no_nvcc(tmp_path, monkeypatch):
    if os.path.exists("/usr/local/cuda/bin/nvcc"):
        pytest.skip("it is installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    error = failure(answers(1), language="cuda")
    assert str(error).startswith("tenon.compile(): nvcc is not installed") and "CUDA_HOME" in str(error)


# --------------------------------------------------------------------------------------------------------------- errors


def test_source_that_does_not_compile(cache):
    text = "#include <tenon/function.h>\n\nint broken = missing;\n"
    error = failure(text)
    assert isinstance(error, ImportError)
    assert re.search(r"source\.c:3:14: error: .*missing", error.output) and error.output.rstrip() in str(error)
    command = str(error).splitlines()[-1]
    assert command == "command: " + shlex.join(error.command) and "language='c++'" in str(error).splitlines()[0]
    again = subprocess.run(command.partition(" ")[2], shell=True, stderr=subprocess.PIPE, text=True)
    assert again.returncode and "source.c:3:14: error: " in again.stderr  # the command can be pasted
    assert "language='c++'" not in str(failure(text, language="c"))
    assert not list(cache.glob("*/manifest"))
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.command, copy.output) == (str(error), error.command, error.output)


def test_source_without_a_module(cache):
    for _ in range(2):
        error = failure("#include <tenon/function.h>\nint nothing;\n")
        assert "compiled, but the library cannot be loaded: it has no tenon_module_v1()" in str(error)
        assert "TENON_MODULE" in str(error) and str(cache) not in str(error)
    assert not list(cache.glob("*/*.so"))


def test_signature_that_does_not_parse():
    error = failure(answers(1).replace("answer() ->", "answer(x: ) ->"))
    assert "a type such as" in str(error)


def test_load_that_fails(cache, monkeypatch):
    text = """
    #include <stdlib.h>
    #include <tenon/function.h>
    static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
    static tenon_status load(tenon_call *call, void **state)
    {
        (void)state;
        return getenv("TENON_TEST_LICENCE") ? TENON_OK : tenon_fail(call, TENON_EFAILED, "no licence");
    }
    TENON_MODULE_STATE(closed, NULL, load, NULL, TENON_FUNCTION("f()", f, NULL))"""
    for _ in range(2):
        assert str(failure(text)).endswith("the library cannot be loaded: load(): no licence")
        assert not list(cache.glob("*/*"))
    monkeypatch.setenv("TENON_TEST_LICENCE", "1")
    assert tenon.compile(text).f() is None


def test_compiler_that_is_not_installed(tmp_path, monkeypatch):
    for compiler in ("no-such-cc", str(tmp_path / "no-such-cc"), ["no-such-cc", "-O2"]):
        error = failure(C, compiler=compiler)
        assert "no-such-cc' is not installed" in str(error) and (error.command, error.output) == ([], "")
    monkeypatch.setenv("CC", "no-such-cc -O2")
    assert "the C compiler 'no-such-cc' (from CC) is not installed" in str(failure(C))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC")
    assert "no C compiler is installed (cc, gcc, clang); install one" in str(failure(C))
    assert "no C++ compiler is installed (c++, g++, clang++)" in str(failure(C, language="c++"))


@needs_sh
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 'no licence' >&2; exit 9", "failed with status 9\nno licence\ncommand: "),
        ("exit 9", "failed with status 9\ncommand: "),
        ("kill -9 $$", "ended by signal 9\n"),
        ("exit 0", "tenon.compile(): the compiler wrote no library"),
        ("printf 'caf\\351\\n'; exit 1", "caf\ufffd\n"),
    ],
)
def test_compiler_that_refuses(tmp_path, text, words):
    assert words in str(failure(C, language="c", compiler=script(tmp_path / "bin", "cc", text + "\n")))


@needs_sh
def test_compiler_that_does_not_start(tmp_path):
    file = tmp_path / "rubbish"
    file.write_bytes(b"\0rubbish")
    file.chmod(0o755)
    assert "the compiler cannot be started" in str(failure(C, compiler=file))
    file.chmod(0o644)
    assert f"the C compiler {str(file)!r} is not executable" in str(failure(C, compiler=file))
    assert f"the C compiler {str(tmp_path)!r} is a folder" in str(failure(C, compiler=tmp_path))
    assert "cl is not supported" in str(failure(C, compiler=script(tmp_path / "bin", "cl", "")))


@needs_sh
def test_library_that_is_not_one(tmp_path):
    compiler = script(tmp_path / "bin", "cc", 'while [ "$1" != -o ]; do shift; done; echo text > "$2"\n')
    assert "it is not a shared library" in str(failure(C, compiler=compiler))


@needs_sh
def test_compiler_that_leaves_a_process(tmp_path):
    """As sccache leaves its server, which has the compiler's stderr. tenon.compile does not wait for its end."""
    session, ended = tmp_path / "session", tmp_path / "ended"
    compiler = script(tmp_path / "bin", "cc", f'echo $$ > {session}; (sleep 20; touch {ended}) & $REAL "$@"\n')
    assert tenon.compile(answers(1), compiler=compiler).answer() == 1 and not ended.exists()
    os.killpg(int(session.read_text()), signal.SIGKILL)


@needs_sh
@pytest.mark.skipif(not hasattr(signal, "SIGINT") or sys.platform == "win32", reason="no such signal")
def test_interrupt(tmp_path, cache):
    """The compiler and what it started are ended, and no file is left."""
    started = tmp_path / "started"
    compiler = script(tmp_path / "bin", "cc", f"""
        touch "$TMPDIR/temporary"
        sleep 100 &
        echo $$ $! > {started}.new; mv {started}.new {started}
        wait
        """)
    code = f"""
        import subprocess, tenon

        def announce(process, wait=subprocess.Popen.wait):
            print("waiting", flush=True)
            return wait(process)

        subprocess.Popen.wait = announce
        try:
            tenon.compile({C!r}, compiler={str(compiler)!r})
        except KeyboardInterrupt:
            print("interrupted")
        """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(pathlib.Path(tenon.__file__).parents[1])})
    assert process.stdout.readline() == "waiting\n"
    while not started.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0].endswith("interrupted\n")
    for number in map(int, started.read_text().split()):
        for _ in range(500):  # until its new parent has noticed
            try:
                with open(f"/proc/{number}/stat") as file:
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        break
            except OSError:
                break
            time.sleep(0.01)
        else:
            raise AssertionError(f"process {number} still runs")
    assert not list(cache.glob("*/*"))


# ------------------------------------------------------------------------------------------------------------- the rest


def test_threads():
    results, text = [], answers(11)
    go = threading.Barrier(8)

    def work():
        go.wait()
        results.append(tenon.compile(text).answer())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [11] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_fork_while_another_thread_compiles(tmp_path):
    """The end of the child removes nothing that the parent needs."""
    started, forked = tmp_path / "started", tmp_path / "forked"
    compiler = script(tmp_path / "bin", "cc", f"""
        touch {started}
        while ! [ -e {forked} ]; do sleep 0.01; done
        exec $REAL "$@"
        """)
    code = f"""
        import os, sys, threading, time, tenon
        modules = []
        thread = threading.Thread(target=lambda: modules.append(tenon.compile({answers(5)!r}, compiler={str(compiler)!r})))
        thread.start()
        while not os.path.exists({str(started)!r}):
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            sys.exit()
        os.waitpid(child, 0)
        open({str(forked)!r}, "w").close()
        thread.join()
        print(modules[0].answer())
        """
    assert run_python(code) == "5\n"


def test_names_that_make_escapes():
    rule = "/tmp/a b.so: a\\ b.c \\\n  /x/c\\#d.h $$e.h \\\r\n x:y.h\nother: more.h\n"
    assert _compile._dependencies(rule) == ["a b.c", "/x/c#d.h", "$e.h", "x:y.h"]
    assert _compile._dependencies("built.so :one.h two.h\n") == []
    assert _compile._dependencies("") == []


def test_import_is_not_slower():
    loaded = run_python("import sys, tenon; print(*(name for name in sys.modules if name.startswith('tenon')))").split()
    assert "tenon._load" in loaded and not {"tenon._compile", "tenon._cache", "tenon._folders", "tenon._names", "tenon._pickle"} & set(loaded)
    assert "compile" in dir(tenon) and "CompileError" in dir(tenon)


# ------------------------------------------------------------------------------------------------------ python -m tenon


def command(*arguments, **options):
    paths = [str(pathlib.Path(tenon.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "tenon", "compile", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        **options,
    )


def test_command(tmp_path, cache):
    (tmp_path / "kernels.c").write_text(C)
    done = command("kernels.c", "-o", "out.so", "--flags", "-DANSWER=3", "-O1", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    old = tenon.load(tmp_path / "out.so")
    done = command("kernels.c", "-o", "out.so", "--verbose", "--language", "c", "--flags=-DANSWER=4", cwd=tmp_path)
    assert done.returncode == 0 and "-shared" in shlex.split(done.stderr)
    assert (old.answer(), tenon.load(tmp_path / "out.so").answer()) == (3, 4)
    assert stat.S_IMODE((tmp_path / "out.so").stat().st_mode) & 0o444 == 0o444 & ~_umask()
    assert not cache.exists()


def _umask():
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


def test_command_that_fails(tmp_path):
    (tmp_path / "wrong.c").write_text("int x = missing;\n")
    (tmp_path / "out.so").write_text("the old library")
    done = command("wrong.c", "-o", "out.so", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == "" and "wrong.c:1:9: error: " in done.stderr
    assert done.stderr.startswith("python -m tenon: compile: the compiler failed") and "\ncommand: " in done.stderr
    for arguments, words in (
        (["missing.c", "-o", "out.so"], "No such file"),
        (["wrong.c", "-o", "missing/out.so"], "missing"),
        (["wrong.c", "-o", "wrong.c"], "is the source"),
        (["wrong.c", "-o", "."], "compile: the output . is a folder"),
        (["wrong.c", "-o", "out.so", "--compiler", "no-such-cc"], "'no-such-cc' is not installed"),
        (["out.so", "-o", "other.so"], "choose the language"),
    ):
        done = command(*arguments, cwd=tmp_path)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr
    assert command("wrong.c", cwd=tmp_path).returncode == 2
    assert (tmp_path / "out.so").read_text() == "the old library" and (tmp_path / "wrong.c").exists()
    assert sorted(os.listdir(tmp_path)) == ["out.so", "temporary files", "wrong.c"]
