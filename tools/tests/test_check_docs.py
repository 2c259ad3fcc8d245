"""tools/check-docs finds what a document cites and nobody has written."""

import importlib.machinery
import importlib.util
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
loader = importlib.machinery.SourceFileLoader("check_docs", str(ROOT / "tools/check-docs"))
check_docs = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_docs", loader))
loader.exec_module(check_docs)


@pytest.fixture
def tests(monkeypatch):
    monkeypatch.chdir(ROOT)
    return check_docs.Tests()


@pytest.mark.parametrize(
    "citation",
    [
        "test_race: test_one_winner_each_time",
        "test_tensor: blob_copies_shape, copied, contiguous",
        "core/tests/test_threads.c: released_exactly_once",
        "functions/test_function_lock.py",
        "test_function_values.py, test_function_lies.py",
        "test_views",
        "test_one_winner_each_time",
        "core/tests/python",
        "elixir/test/tour_test.exs",
        "test_NAME.py",
        "python/tests/test_<framework>.py",
        "tenon_py_borrow",
        "x: f32[n]",
        "a / b",
    ],
)
def test_exists(tests, citation):
    assert tests.missing(citation) == []


@pytest.mark.parametrize(
    "citation, missing",
    [
        ("test_race: test_one_winner_each_time, test_nobody_wrote", ["test_race: test_nobody_wrote"]),
        ("test_nothing: test_one_winner_each_time", ["test_nothing: test_one_winner_each_time"]),
        ("core/tests/test_threads.c: test_one_winner_each_time", ["core/tests/test_threads.c: test_one_winner_each_time"]),
        ("functions/test_function_threads.py", ["functions/test_function_threads.py"]),
        ("test_function_values.py, test_nothing.py", ["test_nothing.py"]),
        ("test_nobody_wrote", ["test_nobody_wrote"]),
        ("python/test_views.c", ["python/test_views.c"]),
        ("core/tests/nothing.c", ["core/tests/nothing.c"]),
    ],
)
def test_is_missing(tests, citation, missing):
    assert tests.missing(citation) == missing


def test_places_are_named(tests, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("One.\n```text\n`test_in_a_block`\n```\nTwo (`test_nobody_wrote`).\n")
    assert check_docs.check_citations(str(page), tests) == [f"{page}:5: test_nobody_wrote does not exist"]
    header = tmp_path / "header.h"
    header.write_text("/* Ends here: test_nobody_wrote.\n * test_race.py */\n")
    assert check_docs.check_citations(str(header), tests) == [f"{header}:1: test_nobody_wrote does not exist"]


def test_every_citation_exists(tests):
    """Of the pages and headers, without running any block."""
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("elixir/*.md"), *ROOT.glob("*/include/tenon/*.h")]
    names = [os.path.relpath(document, ROOT) for document in documents]
    assert [failure for name in names for failure in check_docs.check_citations(name, tests)] == []


def test_writes_named_blocks_and_leaves_elixir_to_its_own_tests(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n# one.py\nprint(1)\n```\n```sh\npython3 one.py\n```\n```text\n1\n```\n"
        "```elixir\nIO.puts(2)\n```\n```text\n2\n```\n```sh\npython3 one.py\n```\n```text\n3\n```\n"
    )
    count, failures = check_docs.check(str(page), tmp_path)
    assert count == 5 and len(failures) == 1 and "expected\n3" in failures[0]


def test_a_block_may_need_a_program(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\n# needs no-such-program\nexit 1\n```\n```text\n1\n```\n```sh\n# needs git no-such-program\nexit 1\n```\n"
        "```sh\n# needs git\necho 2\n```\n```text\n3\n```\n"
    )
    count, failures = check_docs.check(str(page), tmp_path)
    assert count == 2 and len(failures) == 1 and "expected\n3" in failures[0]
