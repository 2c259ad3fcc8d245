"""Reads JSON files, with one line for a broken one, and replaces files so that none is ever half written."""
import json
import os
import pathlib

LATEST = pathlib.Path(__file__).resolve().parent / "results/latest.json"
FIELDS = ("group", "operation", "producer", "contender", "version", "ns", "spread", "instructions")  # of every row
NEEDED = ("machine", "load_at_start", "quick", "seconds", "problems", "rows")


class Unusable(Exception):
    """Why a file of results cannot be used."""


def known(path):
    """The content of a JSON file; {} if it does not exist or is not valid."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def whole(row):
    """A row with all fields; missing ones are None."""
    return {**dict.fromkeys(FIELDS), **row}


def results(path):
    """The results of a run; every row has all fields."""
    if not path.exists():
        raise Unusable(f"{path.name} does not exist; make bench writes it")
    found = known(path)
    rows = found.get("rows")
    if not all(name in found for name in NEEDED) or not isinstance(rows, list) or not all(
            isinstance(row, dict) and {"group", "operation", "producer", "contender"} <= row.keys() for row in rows):
        raise Unusable(f"{path.name} is incomplete, or was written by another version of the benchmark; run make bench")
    return {"layers": {}, **found, "rows": [whole(row) for row in rows]}


def replace(path, text):
    """Write a file under another name and rename it, so that an interrupted run keeps the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
