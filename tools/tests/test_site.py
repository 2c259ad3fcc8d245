"""The pages of the documentation site: docs/stage.py collects them, and Sphinx (the part `site`) checks the rest."""

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("stage", ROOT / "docs/stage.py")
stage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stage)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository with one page, and the folder that it is collected in."""
    files = {
        "docs/page.md": "[a](other.md#part) [b](../core/include/tenon/a.h) [c](../examples) `[d](none.md)`\n```c\n[e](none)\n```\n",
        "docs/other.md": "# Other\n[web](https://example.org/x) [here](#other)\n",
        "core/include/tenon/a.h": "/* A. */\n/* -------------------------------- part one */\nint a;\n",
        "examples/one.c": "int one;\n",
        "examples/deep/two.py": "two = 2\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(stage, "ROOT", tmp_path)
    return tmp_path, stage.Stage(tmp_path / "build")


def collect(made):
    while made.wanted:
        made.add(made.wanted.pop())


def test_links_lead_to_pages_of_the_site(tree):
    root, made = tree
    made.add("docs/page.md")
    collect(made)
    text = (root / "build/page.md").read_text()
    assert "[a](other.md#part) [b](headers/a.h.md) [c](source/examples/index.md)" in text
    assert "`[d](none.md)`" in text and "[e](none)" in text and not made.failures
    assert (root / "build/other.md").read_text() == (root / "docs/other.md").read_text()
    assert "[one.c](one.c.md)" in (root / "build/source/examples/index.md").read_text()
    assert "two = 2" in (root / "build/source/examples/deep/two.py.md").read_text()


def test_a_header_is_shown_in_its_sections(tree):
    root, made = tree
    made.add("core/include/tenon/a.h")
    text = (root / "build/headers/a.h.md").read_text()
    assert re.findall(r"^## (.*)$|^:lineno-start: (\d+)$", text, re.M) == [("", "1"), ("Part one", ""), ("", "2")]


def test_a_link_to_nothing_is_a_failure(tree):
    root, made = tree
    (root / "docs/page.md").write_text("One.\n[x](none.md) [y](../examples/none.c)\n")
    made.add("docs/page.md")
    assert made.failures == [f"docs/page.md: a link to {name}, which does not exist" for name in ("none.md", "../examples/none.c")]


def test_every_page_is_in_the_table_of_contents_once():
    """Sphinx says it too, but only if it is installed."""
    listed = [line for block in re.findall(r"^:::\{toctree\}\n(.*?)^:::$", (ROOT / "docs/index.md").read_text(), re.M | re.S)
              for line in block.split("\n\n", 1)[1].split()]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages |= set(stage.PAGES.values())
    assert sorted(listed) == sorted(page[:-3] for page in pages - {"index.md"})
