"""tools/check-docs finds what a document cites and nobody has written."""

import os
import re

import pytest
from scripts import ROOT, load

check_docs = load("tools/check-docs")


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
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("elixir/*.md"), *ROOT.glob("*/include/tenon/**/*.h")]
    names = [os.path.relpath(document, ROOT) for document in documents]
    assert [failure for name in names for failure in check_docs.check_citations(name, tests)] == []


def test_writes_the_files_of_a_crate(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```rust\n// one/src/lib.rs\nfn one() {}\n```\n```toml\n# one/Cargo.toml\n[package]\n```\n"
        "```sh\ncat one/src/lib.rs one/Cargo.toml\n```\n```text\n// one/src/lib.rs\nfn one() {}\n# one/Cargo.toml\n[package]\n```\n"
    )
    assert check_docs.check(str(page), tmp_path) == (4, [])


def test_writes_named_blocks_and_leaves_elixir_to_its_own_tests(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n# one.py\nprint(1)\n```\n```sh\npython3 one.py\n```\n```text\n1\n```\n"
        "```elixir\nIO.puts(2)\n```\n```text\n2\n```\n```sh\npython3 one.py\n```\n```text\n3\n```\n"
    )
    count, failures = check_docs.check(str(page), tmp_path)
    assert count == 5 and len(failures) == 1 and "expected\n3" in failures[0]


@pytest.fixture
def failures_of(tmp_path):
    def check(text):
        page = tmp_path / "page.md"
        page.write_text(text)
        count, failures = check_docs.check(str(page), tmp_path)
        return count, [failure.removeprefix(f"{page}:") for failure in failures]

    return check


def test_the_whole_output(failures_of):
    """And nothing else: neither a part of it nor what an earlier block printed."""
    count, failures = failures_of(
        "```sh\nseq 2\n```\n```text\n1\n2\n```\n```sh\nseq 2\n```\n```text\n2\n```\n```text\nnot an output\n```\n"
    )
    assert (count, failures) == (4, ["11: expected\n2\nprinted\n1\n2\n"])
    assert failures_of("```sh\necho at 0x12ab\n```\n```text\nat 0x7f\n```\n") == (2, [])


def test_an_output_with_fences(failures_of):
    block = "```sh\nprintf '```\\none\\n```\\n'\n```\n````text\n```\n{}\n```\n````\n"
    assert failures_of(block.format("one")) == (2, [])
    assert len(failures_of(block.format("two"))[1]) == 1


def test_every_block_has_a_language(failures_of):
    assert failures_of("Text.\n```\n1\n```\n") == (1, ["2: the block has no language"])


@pytest.mark.skipif("TENON_PACKAGE" not in os.environ, reason="needs the built package")
def test_signatures_are_loaded(failures_of, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.environ["TENON_PACKAGE"])
    assert failures_of("```signature\nf(x: f32[n]) -> f32[n]\nTree(k: int)\nTree.size(self) -> int\n```\n") == (1, [])
    count, failures = failures_of("```signature\nf(x: f32[n]) -> f32[n]\ng(x: f32[n] wr)\n```\n")
    assert count == 1 and len(failures) == 1 and "unknown attribute 'wr'" in failures[0]


def test_messages_of_signatures():
    """docs/signatures.md shows messages that two files of tests compare."""
    page = (ROOT / "docs/signatures.md").read_text("utf-8")
    block = page.partition("have each message:\n\n```text\n")[2].partition("\n```\n")[0]
    source = "".join((ROOT / f"core/tests/test_signature_{name}.c").read_text("utf-8") for name in ("match", "result"))
    known = re.sub(r'"\s+"', "", source).replace("\\n", "\n").splitlines()
    assert block and all(any(line in text for text in known) for line in block.splitlines())


def test_a_block_may_need_a_program(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\n# needs no-such-program\nexit 1\n```\n```text\n1\n```\n```sh\n# needs git no-such-program\nexit 1\n```\n"
        "```sh\n# needs git json\necho 2\n```\n```text\n3\n```\n"
    )
    count, failures = check_docs.check(str(page), tmp_path)
    assert count == 2 and len(failures) == 1 and "expected\n3" in failures[0]


def test_a_block_may_need_a_header():
    assert not check_docs.lacks_tools("# needs stdio.h cc\n") and check_docs.lacks_tools("# needs no_such_header.h\n")
