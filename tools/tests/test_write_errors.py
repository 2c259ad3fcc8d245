"""docs/errors.md has every status, exception and reason of the headers."""

import shutil

import pytest
from scripts import ROOT, load

write_errors = load("tools/write-errors")

HEADER, PYTHON, ELIXIR = "core/include/tenon/abi.h", "python/include/tenon/python.h", "elixir/lib/tenon/error.ex"


@pytest.fixture
def headers(tmp_path, monkeypatch):
    """A copy of the files that it reads."""
    for name in (HEADER, PYTHON, ELIXIR):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(write_errors, "ROOT", tmp_path)
    return tmp_path


def replace(path, before, after):
    text = path.read_text("utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), "utf-8")


def test_the_page_is_up_to_date():
    assert (ROOT / "docs/errors.md").read_text("utf-8") == write_errors.page(), "run tools/write-errors"


def test_a_changed_comment_changes_the_page(headers):
    replace(headers / HEADER, "/* out of memory */", "/* not enough memory */")
    assert "| `TENON_ENOMEM` | not enough memory | MemoryError |" in write_errors.page()


@pytest.mark.parametrize(
    "name, before, after, missing",
    [
        (HEADER, "    TENON_EFAILED = 13,", "    TENON_ELATE = 14,    /* too late */\n    TENON_EFAILED = 13,", "TENON_ELATE"),
        (PYTHON, "and OSError (the file", "and KeyError (the file", "KeyError"),
        (ELIXIR, "          | :stale\n", "          | :stale\n          | {:late, atom}\n", "late"),
    ],
)
def test_each_needs_a_remedy(headers, name, before, after, missing):
    replace(headers / name, before, after)
    with pytest.raises(SystemExit, match=f"no remedy for .*{missing}"):
        write_errors.page()


def test_a_status_that_no_longer_exists(headers):
    replace(headers / HEADER, "    TENON_EOVERLAP = 12, /* memory that would be written to overlaps other memory in use */\n", "")
    with pytest.raises(SystemExit, match="nothing like .*TENON_EOVERLAP"):
        write_errors.page()
