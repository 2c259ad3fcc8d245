"""tools/check-release finds what must change before a release."""


import pytest
from scripts import ROOT, load

check_release = load("tools/check-release")


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "core/include/tenon").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "core/include/tenon/tenon.h").write_text('#define TENON_VERSION "1.2.3"\n')
    (tmp_path / "README.md").write_text("pip install libtenon\n")
    (tmp_path / "CHANGELOG.md").write_text("## [1.2.3] - 2026-11-16\n")
    (tmp_path / "docs/start.md").write_text("It is published.\n")
    return tmp_path


def test_a_tree_that_is_ready(tree):
    assert list(check_release.failures(tree, "v1.2.3")) == []


@pytest.mark.parametrize("tag", ["v1.3.0", "1.2.3", "v1.2", ""])
def test_another_tag(tree, tag):
    (failure,) = check_release.failures(tree, tag)
    assert failure.endswith("TENON_VERSION is 1.2.3; the tag must be v1.2.3")


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("CHANGELOG.md", "## [Unreleased]\n", "CHANGELOG.md has no line `## [1.2.3] - YYYY-MM-DD`"),
        ("README.md", "\n**It is not published yet.**\n", "README.md:2 says that nothing is published"),
        ("docs/start.md", "Until it is published, make\n", "docs/start.md:1 says that nothing is published"),
    ],
)
def test_what_must_change(tree, name, text, said):
    (tree / name).write_text(text)
    assert list(check_release.failures(tree, "v1.2.3")) == [said]


def test_this_tree_is_read():
    assert list(check_release.failures(ROOT, ""))
