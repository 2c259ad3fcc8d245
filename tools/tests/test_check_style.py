"""tools/check-style english finds the phrases of tools/english.txt, in each language and across the end of a line."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOUND = [
    "NULL where it was not given", "it is freed, also where the call fails", "a tensor, where there is one", "this is no array",
    "if there is none", "What else there is to know of a tensor", "What is reached by a pointer starts with its size.",
    "the rule stands in view.h", "elements lie there", "the quick way", "memory of ours", "a tensor of torch's.", "anybody's array",
    "a `?` behind the type", "gcc is not here", "the error is told", "it lets the lock go", "an int will do", "made anew",
    "kept for ever", "the very same", "a text of 3 bytes",
    'const char *s = "of "\n    "ours";', "/* it is\n * no array */", "# it was not\n# here", "/// another\n/// word",
]
PLAIN = [
    "f(x: T[n]) -> T[n] where T = f32|f64", "x: T[n]?, y: T = None where T = any", "the folder where it is",
    "arrays stay where they are, whatever their size", "Where the memory is, a str", "there is no such file", "it is no longer used",
    "None stands for the default", "make bench BENCH=--quick", "says what is wrong", "What is a tensor?", "a view of torch's memory",
]


@pytest.fixture
def tree(tmp_path):
    """A repository with nothing but the script."""
    (tmp_path / "tools").mkdir()
    for name in ("check-style", "common.sh", "english.txt"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def run(tree):
    done = subprocess.run(["tools/check-style", "english"], cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def test_every_phrase_is_found(tree):
    for i, text in enumerate(FOUND):
        (tree / f"{i}.c").write_text(f"{text}\n")
    status, printed = run(tree)
    assert status == 1
    assert not [text for i, text in enumerate(FOUND) if f"{i}.c:{text}\n" not in printed]
    # And every pattern has an example.
    assert printed.count("    write: ") == len((ROOT / "tools/english.txt").read_text().splitlines())


def test_plain_english_and_tests_are_clean(tree):
    (tree / "plain.md").write_text("\n\n".join(PLAIN))
    (tree / "src/tests").mkdir(parents=True)
    (tree / "src/tests/test.c").write_text("/* behind */\n")
    status, printed = run(tree)
    assert status == 0 and printed.endswith("english: clean\n"), printed


def test_a_pattern_that_grep_refuses_is_an_error(tree):
    (tree / "plain.md").write_text("plain\n")
    (tree / "tools/english.txt").write_text("after\t(behind\n")
    assert run(tree)[0] not in (0, 77)


def test_it_is_skipped_if_git_lists_no_files(tree):
    shutil.rmtree(tree / ".git")
    status, printed = run(tree)
    assert status == 77 and "skipped: git does not list the files of this folder: fatal: not a git repository" in printed
