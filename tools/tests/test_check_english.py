"""tools/check-english finds phrases in the text of each language, and holds their numbers."""

import json
import subprocess
import sys

import pytest
from scripts import ROOT, load

check_english = load("tools/check-english")


def phrases(text):
    return [name for name, pattern in check_english.PATTERNS.items() if pattern.search(text)]


@pytest.mark.parametrize("text, phrase", [
    ("NULL where it was not given", "where"),
    ("it is freed, also where the call fails", "where"),
    ("Where threads share it, it is locked", "where"),
    ("a tensor, where there is one", "where"),
    ("this is no array", "is no"),
    ("it's no array", "is no"),
    ("What else there is to know of a tensor", "what is"),
    ("What counts is the first one.", "what is"),
    ("there is\nnone", "is no"),
    ("What is reached by a pointer starts with its size.", "what is"),
    ("the rule stands in view.h", "stands, lies"),
    ("elements lie there", "stands, lies"),
    ("the quick way", "quick"),
    ("memory of ours", "of ours"),
    ("a tensor of torch's.", "of ours"),
    ("anybody's array", "somebody"),
    ("a `?` behind the type", "behind"),
    ("gcc is not here", "is here"),
    ("the error is told", "told"),
    ("it lets the lock go", "let go"),
    ("an int will do", "will do"),
    ("made anew", "anew"),
    ("kept for ever", "for ever"),
    ("the very same", "the very"),
    ("a text of 3 bytes", "a text, a word"),
])
def test_phrases_of_the_table_are_found(text, phrase):
    assert phrases(text) == [phrase]


@pytest.mark.parametrize("text", [
    "f(x: T[n]) -> T[n] where T = f32|f64",
    "x: T[n]?, y: T = None where T = any",
    "the folder where it is",
    "arrays stay where they are, whatever their size",
    "Where the memory is, a str",
    "there is no such file",
    "it is no longer used",
    "None stands for the default",
    "make bench BENCH=--quick",
    "says what is wrong",
    "What is a tensor?",
    "a view of torch's memory",
])
def test_plain_english_is_not(text):
    assert phrases(text) == []


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository with one file of each language: each has one string and one comment, which have a line end inside."""
    files = {
        "src/a.c": 'int quick; /* it is no\n * array */\nconst char *s = "of " \n    "ours";\n',
        "include/b.h": "/* behind */\n",
        "c.py": '"""Made\nanew."""\n# nobody\nquick = 1\n',
        "lib/d.ex": '@doc """\nthe very\nend\n"""\ndef f, do: "#{"a"} is told" # will do\n',
        "e.md": "Gcc is not\nhere.\n",
        "tests/f.c": "/* nobody */\n",
        "f.rs": '/// Made anew.\nfn quick() { panic!("for ever") }\n',
        "g.f90": "! let it go\nprint *, 'kept for ever'\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tools").mkdir()
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*options):
    command = [sys.executable, ROOT / "tools/check-english", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def test_strings_and_comments_of_each_language_are_read(tree):
    assert sorted((kind, phrase, place) for kind, phrase, place, _ in check_english.find()) == [
        ("comments", "anew", "f.rs:1"), ("comments", "is no", "src/a.c:1"), ("comments", "let go", "g.f90:1"),
        ("comments", "somebody", "c.py:3"), ("comments", "will do", "lib/d.ex:5"),
        ("documentation", "is here", "e.md:1"), ("headers", "behind", "include/b.h:1"), ("messages", "anew", "c.py:2"),
        ("messages", "for ever", "f.rs:2"), ("messages", "for ever", "g.f90:2"), ("messages", "of ours", "src/a.c:3"), ("messages", "the very", "lib/d.ex:2"), ("messages", "told", "lib/d.ex:5")]


def test_counts_only_go_down(tree):
    counts = {kind: {phrase: 9 for phrase in check_english.PHRASES} for kind in ("comments", "headers", "messages")}
    (tree / "tools/english.json").write_text(json.dumps({**counts, "documentation": {"is here": 1}}))
    assert run("--save") == (0, "english: 13 phrases left, 0 failures\n")
    assert json.loads((tree / "tools/english.json").read_text())["headers"] == {"behind": 1}
    assert run() == (0, "english: 13 phrases left, 0 failures\n")
    saved = (tree / "tools/english.json").read_text()
    (tree / "e.md").write_text("Gcc is not here. Nor is what is behind it.\n")
    status, printed = run()
    assert status == 1 and 'documentation: "behind" is used 1 times, 0 are allowed; write "after"' in printed
    assert run("--save") == (status, printed)
    assert (tree / "tools/english.json").read_text() == saved
    assert run("--list", "behind")[1].splitlines()[0].startswith("e.md:1: documentation: behind: Gcc is not here")
    (tree / "e.md").write_text("Gcc is not installed.\n")
    status, printed = run()
    assert status == 1 and 'documentation: "is here" is used 0 times, no longer 1; run `tools/check-english --save`' in printed
    assert run("--save")[0] == 0 and run()[0] == 0
