"""Collects the pages of the documentation site in one folder, from which Sphinx makes the site.

    stage.py FOLDER

The pages are the Markdown files of docs/ and those of PAGES. A link to any other file of the repository becomes a link to a
page with that file in it, so that the site is complete. A link to a file that does not exist is an error, in README.md too;
Sphinx checks the headings that links name.
"""

import pathlib
import posixpath
import re
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import reference

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "elixir/README.md": "elixir.md", "CONTRIBUTING.md": "contributing.md",
         "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md", "CODE_OF_CONDUCT.md": "conduct.md"}
# In the order of the page that lists them, docs/headers.md.
HEADERS = ["core/include/tenon", "core/include/tenon/host", "python/include/tenon", "frameworks/torch/include/tenon",
           "elixir/include/tenon"]
LANGUAGES = {".c": "c", ".h": "c", ".cpp": "cpp", ".hpp": "cpp", ".cu": "cuda", ".cuh": "cuda", ".py": "python", ".pyi": "python",
             ".rs": "rust", ".f90": "fortran", ".toml": "toml", ".ex": "elixir", ".exs": "elixir", ".cmake": "cmake"}
# Code, which has no links, or a link.
LINK = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)|`[^`\n]*`|(?<=\]\()(?P<link>[^)\s]+)(?=\))", re.M | re.S)
# A page that no table of contents has. Of these the search has only the headers: the others would hide the documentation.
ORPHAN = "---\norphan: true\n---\n\n"
SOURCE = "---\norphan: true\nnosearch: true\n---\n\n"


def page_of(name):
    """The page of a file or folder of the repository, by its path there."""
    if name in PAGES:
        return PAGES[name]
    if name.startswith("docs/"):
        return name[len("docs/"):]
    if (ROOT / name).is_dir():
        return f"source/{name}/index.md"
    if posixpath.dirname(name) in HEADERS:
        return f"headers/{posixpath.basename(name)}.md"
    return f"source/{name}" if name.endswith(".md") else f"source/{name}.md"


class Stage:
    """The folder, and what is still to be written to it."""

    def __init__(self, folder):
        self.folder, self.written, self.wanted, self.failures = folder, set(), [], []

    def write(self, page, data):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.written.add(path)

    def link(self, name, target):
        """The target of a link in the file `name`, on the site."""
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return target
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if (ROOT / path).exists():
            self.wanted.append(path)
        else:
            self.failures.append(f"{name}: a link to {target}, which does not exist")
        return posixpath.relpath(page_of(path), posixpath.dirname(page_of(name)) or ".") + mark + anchor

    def read_markdown(self, name):
        """The text of a page, with the links of the site."""
        text = (ROOT / name).read_text("utf-8").replace("```rust,ignore\n", "```rust\n")  # rustdoc's word
        return LINK.sub(lambda match: self.link(name, match[0]) if match["link"] else match[0], text)

    def add_markdown(self, name):
        text = self.read_markdown(name)
        if name == "docs/python.md":
            text, missing = reference.python_page(text, ROOT)
            self.failures += [f"{name}: there is no heading `## tenon.{one}`" for one in missing]
        if page_of(name).startswith("source/"):
            text = SOURCE + ("" if text.startswith("# ") else f"# {name}\n\n") + text
        self.write(page_of(name), text.encode())

    def add_source(self, name, page=None):
        """A page with a file."""
        text, language = (ROOT / name).read_text("utf-8"), LANGUAGES.get(pathlib.Path(name).suffix, "text")
        self.write(page or page_of(name), f"""{SOURCE}# {posixpath.basename(name)}

`{name}`, as it is in the repository.

::::{{code-block}} {language}
:lineno-start: 1

{text.rstrip()}
::::
""".encode())

    def add_header(self, name):
        """A page with an entry for each function, macro and type of a header, and one with the header."""
        source = f"source/{name}.md"
        texts = (path.read_text("utf-8") for folder in HEADERS for path in (ROOT / folder).glob("*.h"))
        structs = set().union(*map(reference.structs_of, texts))
        first, entries, _ = reference.header_page((ROOT / name).read_text("utf-8"), structs)
        title = f"tenon/{name.partition('tenon/')[2]}"
        self.write(page_of(name), f"{ORPHAN}# {title}\n\n{first}\n\n[The whole file](../{source})\n\n{entries}".encode())
        self.add_source(name, source)

    def add_folder(self, name):
        names = sorted(child.name for child in (ROOT / name).iterdir()
                       if child.suffix in (".md", *LANGUAGES) or child.is_dir() and child.name[0] not in "._")
        links = "".join(f"- [{child}]({self.link(f'{name}/.', child)})\n" for child in names)
        self.write(page_of(name), f"{SOURCE}# {name}\n\n{links}".encode())

    def add(self, name):
        """Any file or folder that a page has a link to."""
        if (self.folder / page_of(name)) in self.written:
            return
        if (ROOT / name).is_dir():
            self.add_folder(name)
        elif name.endswith(".md"):
            self.add_markdown(name)
        elif name.startswith("docs/"):
            self.write(page_of(name), (ROOT / name).read_bytes())
        elif page_of(name).startswith("headers/") and name.endswith(".h"):
            self.add_header(name)
        else:
            self.add_source(name)


def main():
    stage = Stage(pathlib.Path(sys.argv[1]).resolve())
    shutil.rmtree(stage.folder, ignore_errors=True)
    for path in sorted(ROOT.glob("docs/**/*.md")):
        stage.add_markdown(path.relative_to(ROOT).as_posix())
    for name in PAGES:
        if name != "README.md" and (ROOT / name).exists():
            stage.add_markdown(name)
    for folder in HEADERS:
        for path in sorted((ROOT / folder).iterdir()):
            stage.add(path.relative_to(ROOT).as_posix())
    for path in sorted(ROOT.glob("docs/_static/*")):
        stage.write(f"_static/{path.name}", path.read_bytes())
    stage.read_markdown("README.md")
    while stage.wanted:
        stage.add(stage.wanted.pop())
    return "\n".join(stage.failures) or None


if __name__ == "__main__":
    sys.exit(main())
