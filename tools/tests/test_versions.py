"""Numbers that are written in more than one place."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


def version():
    return re.search(r'^#define TENON_VERSION "(.*)"$', (ROOT / "core/include/tenon/tenon.h").read_text(), re.M)[1]


def test_the_elixir_project_has_the_header_s_version():
    assert re.findall(r'version: "(.*?)"', (ROOT / "elixir/mix.exs").read_text()) == [version()]


def test_the_demo_is_built_again_if_any_source_changes():
    """The stamp of tools/demo is made from all that the package is built from: what CMake reads."""
    named = re.search(r'^sources="(.*?)"', (ROOT / "tools/demo").read_text(), re.M | re.S)[1].split()
    assert all((ROOT / name).exists() for name in named)
    listed = re.findall(r"add_subdirectory\(([\w/]+)\)", (ROOT / "CMakeLists.txt").read_text())
    folders = [folder for folder in listed if (ROOT / folder / "src").exists()]
    assert folders == ["core", "python"]
    parts = [f"{folder}/{part}" for folder in folders for part in ("CMakeLists.txt", "include", "src")]
    wanted = {part for part in parts if (ROOT / part).exists()}
    assert wanted | {"CMakeLists.txt", "pyproject.toml", "tools/bundle", "python/tenon", "frameworks"} <= set(named)


def test_the_citation_has_the_header_s_version():
    assert re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M) == [version()]


def test_the_changelog_has_the_header_s_version():
    assert re.search(rf"\b{re.escape(version())}\b", (ROOT / "CHANGELOG.md").read_text())
