"""The pages of the documentation site: docs/stage.py collects them, and the part `site` (Sphinx and tools/check-site) checks the
rest."""

import re
import subprocess
import sys

import pytest
from scripts import ROOT, load

stage, check = load("docs/stage.py"), load("tools/check-site")


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


def test_a_header_has_an_entry_for_each_public_name(tree):
    root, made = tree
    (root / "core/include/tenon/a.h").write_text(
        "/* About a. */\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
        "/* Room for `name`. */\n#define TENON_ROOM 96\n#define TENON__PRIVATE 1\n"
        "/* -------------------------------- part one */\n\n"
        "/* A view.\n *\n * Errors:    TENON_EINVAL. */\nTENON_API TENON_NODISCARD int tenon_a_view(const int *a,\n    int **out);\n"
        "static inline int tenon_a_size(int a)\n{\n    return a;\n}\n"
        "static inline int tenon__a_hidden(int a)\n{\n    return a;\n}\n"
        "/* One. */\ntypedef struct tenon_a {\n    int b;\n} tenon_a;\n#ifdef __cplusplus\n}\n#endif\n"
    )
    made.add("core/include/tenon/a.h")
    text = (root / "build/headers/a.h.md").read_text()
    assert re.findall(r"^::::\{(.*)\} (.*)$|^(##? .*)$", text, re.M) == [
        ("", "", "# tenon/a.h"),
        ("c:macro", "TENON_ROOM", ""),
        ("", "", "## Part one"),
        ("c:function", "int tenon_a_view(const int *a, int **out)", ""),
        ("c:function", "int tenon_a_size(int a)", ""),
        ("c:type", "tenon_a", ""),
    ]
    assert "About a." in text and "**Errors:** TENON\\_EINVAL." in text and "    int b;" in text
    assert "int tenon\\_\\_a" not in text and "TENON__PRIVATE" in (root / "build/source/core/include/tenon/a.h.md").read_text()


def test_a_comment_is_that_of_the_declarations_up_to_an_empty_line():
    reference = load("docs/reference.py")
    header = (
        "/* A header.\n *\n *   int made = tenon_one();\n *\n * The end. */\n"
        "/* ------------------------------------------ first part\n *\n * About it. */\n"
        "/* Two of them. */\nint tenon_one(void);\nint tenon_two(void);\n\nint tenon_three(void);\n"
    )
    first, page, names = reference.header_page(header)
    assert "\n\n    int made = tenon_one();\n\nThe end." in first
    assert "## First part\n\nAbout it.\n" in page
    assert [re.search(rf"{name}\(void\)\n(.*)", page)[1] for name in names] == ["Two of them.", "Two of them.", ""]


def test_every_function_of_an_author_s_header_has_a_comment():
    reference = load("docs/reference.py")
    headers = [ROOT / "core/include/tenon" / f"{name}.h" for name in ("abi", "function", "view", "tensor", "shared", "spec", "types", "memory")]
    headers += [ROOT / "python/include/tenon/python.h", ROOT / "frameworks/torch/include/tenon/torch.h", ROOT / "elixir/include/tenon/nif.h"]
    for header in headers:
        page = reference.header_page(header.read_text())[1]
        assert re.findall(r"^::::\{c:(?:function|macro)\} (.*)\n\n", page, re.M) == [], header.name
        assert page.count("{c:") > 2, header.name


def test_python_entries_have_types_and_docstrings():
    reference = load("docs/reference.py")
    text, missing = reference.python_page((ROOT / "docs/python.md").read_text(), ROOT)
    assert missing == []
    assert ":::{py:function} tenon.check(on: bool, /) -> bool\nCheck the calls of all functions" in text
    assert re.search(r":::\{py:property\} shape\n:type: tuple\[int, \.\.\.\]\n\nThe sizes of the dimensions", text)
    assert ":::{py:function} tenon.load(path: str | bytes | PathLike[str] | PathLike[bytes]) -> Library\nOpen a shared" in text
    assert ":::{py:property} shared_name\n:type: str | None\n" in text
    for name in reference.Package(ROOT).names:
        shown = re.search(rf"\}} tenon\.{name}\b.*\n(.*)", text)
        assert name == "__version__" or shown, name


def test_every_public_name_needs_a_heading():
    reference = load("docs/reference.py")
    assert "load" in reference.python_page("## tenon.to\n", ROOT)[1] and "to" not in reference.python_page("## tenon.to\n", ROOT)[1]


def test_a_page_without_a_heading_gets_one(tree):
    root, made = tree
    (root / "examples/note.md").write_text("Only a note.\n")
    (root / "examples/README.md").write_text("# Examples\n")
    for name in ("examples/note.md", "examples/README.md"):
        made.add(name)
    assert (root / "build/source/examples/note.md").read_text().endswith("---\n\n# examples/note.md\n\nOnly a note.\n")
    assert (root / "build/source/examples/README.md").read_text().endswith("---\n\n# Examples\n")


def test_the_search_has_the_headers_but_no_other_sources(tree):
    root, made = tree
    made.add("docs/page.md")
    collect(made)
    hidden = {path.relative_to(root / "build").as_posix() for path in (root / "build").rglob("*.md")
              if "nosearch: true" in path.read_text()}
    sources = {f"source/examples/{name}.md" for name in ("index", "one.c", "deep/index", "deep/two.py")}
    assert hidden == sources | {"source/core/include/tenon/a.h.md"}


def test_a_page_without_a_title_is_a_failure(tmp_path):
    (tmp_path / "good.html").write_text("<title>Good - Tenon</title>")
    (tmp_path / "bad.html").write_text("<title>&lt;no title&gt; - Tenon</title>")
    (tmp_path / "searchindex.js").write_text('{"titles":["Good","<no title>"]}')
    assert [line.split(":")[0] for line in check.find_untitled(tmp_path)] == ["bad.html", "searchindex.js"]


STYLES = """.highlight .hll { background-color: #ffffcc }
.highlight { background: #f0f0f0; color: #080808 }
%s
@media not print {
body[data-theme="dark"] .highlight { background: #0d1117; color: #E6EDF3 }
%s
}
"""


@pytest.mark.parametrize(("light", "dark", "faint"), [
    (".c { color: #515151 }", ".c { color: #ccc }", []),
    (".c { color: #60A0B0; font-style: italic }", ".c { color: #ccc }", ["light: .c is #60A0B0 on #f8f9fb, a contrast of 2.79"]),
    (".go { color: #888 }", ".go { color: #ccc }", ["light: .go is #888 on #f8f9fb, a contrast of 3.37"]),
    (".cs { color: #515151; background-color: #555 }", ".cs { color: #ccc; background-color: #000 }",
     ["light: .cs is #515151 on #555, a contrast of 1.06"]),
    (".w { color: #515151 }", ".w { color: #6E7681 }",
     [f"dark: .w is #6E7681 on {page}" for page in ("#0d1117, a contrast of 4.12", "#1a1c1e, a contrast of 3.72")]),
    # The rule of the light theme is also that of the dark one, which has none.
    (".k { color: #000000 }", ".x { color: #ccc }",
     [f"dark: .k is #000000 on {page}" for page in ("#0d1117, a contrast of 1.11", "#1a1c1e, a contrast of 1.23")]),
])
def test_code_that_is_hard_to_read_is_a_failure(tmp_path, light, dark, faint):
    (tmp_path / "_static/styles").mkdir(parents=True)
    (tmp_path / "_static/styles/furo.css").write_text(
        "a{--color-background-secondary:#f8f9fb}b{--color-background-secondary:#1a1c1e}")
    readable = [f".n{i} {{ color: %s }}" for i in range(20)]
    rules = ["\n".join(f"{theme} {rule}" for rule in [own, *(rule % colour for rule in readable)]) for theme, own, colour in (
        (".highlight", light, "#000000"), ('body[data-theme="dark"] .highlight', dark, "#ffffff"))]
    (tmp_path / "_static/pygments.css").write_text(STYLES % tuple(rules))
    assert [line.split(", ", 1)[1].split(";")[0] for line in check.find_faint(tmp_path)] == faint


def test_a_site_without_colours_is_a_failure(tmp_path):
    (tmp_path / "_static/styles").mkdir(parents=True)
    for name in ("styles/furo.css", "pygments.css"):
        (tmp_path / "_static" / name).write_text("")
    assert [line.split(";")[0] for line in check.find_faint(tmp_path)] == [
        f"_static: the colours of the {theme} theme were not found" for theme in ("light", "dark")]


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


def test_a_search_without_results_is_a_failure(tmp_path):
    """In a browser, on a site of two pages."""
    (tmp_path / "index.html").write_text("""<style>
        body { background: #fff; color: #000 }
        @media (prefers-color-scheme: dark) { body { background: #000; color: #fff } }
        </style><article><p>Text.</p></article>""")
    (tmp_path / "search.html").write_text("""<div id="search-results">
        <p class="search-summary">Your search did not match any documents.</p></div>""")
    done = subprocess.run([sys.executable, str(ROOT / "tools/look-site"), str(tmp_path)], capture_output=True, text=True,
                          timeout=60)
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[1:] == ["search.html?q=overlap: the first result is not signatures.html; the results are []"]
