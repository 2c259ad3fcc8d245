"""Every atomic of the sources is in the table of memory orders in docs/threads.md, and everything in the table exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ["core/src", "python/src", "python/tenon", "elixir/c_src", "frameworks"]
DECLARATION = re.compile(r"^[^*/]*?\b(?:_Atomic(?:\s*\(|\s+\w)|atomic_flag\s+\w|atomic_llong\s+\w)")
OTHER = re.compile(r"=.*[(&]|\batomic_(?:load|store|fetch|compare|exchange|init)|\bsizeof|^\s*(?:static )?inline|\)\s*$|\w\([^*]*\)\s*;?$")


def declared(text):
    """The names of the atomics that a source declares."""
    found = set()
    for line in re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", "").splitlines():
        if DECLARATION.match(line) and not OTHER.search(line.strip()):
            line = re.sub(r"\[.*?\]|=.*", "", line).rstrip("; ").split(")")[-1]
            line = re.sub(r"^.*?\b(?:_Atomic|atomic_flag|atomic_llong)\b", "", line)
            found |= {re.findall(r"\w+", name)[-1] for name in line.split(",") if re.findall(r"\w+", name)}
    return found


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            if not {"tests", "vendor"} & set(path.parts):
                yield path


def test_the_table_is_complete():
    page = (ROOT / "docs/threads.md").read_text(encoding="utf-8")
    table = page[page.index("## Memory orders") :]
    known = set(re.findall(r"`(\w+)`", table))
    missing = {}
    for path in sources():
        for name in declared(path.read_text(encoding="utf-8")) - known:
            missing[name] = str(path.relative_to(ROOT))
    assert not missing
    text = "".join(path.read_text(encoding="utf-8") for path in sources())
    named = set(re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| **"))))
    assert len(named) > 60
    assert not {name for name in named if not re.search(rf"\b{name}\b", text)}


def test_declarations_are_found():
    text = """
    static _Atomic(struct x *) one, two; /* a comment */
    _Atomic int64_t three;
    static atomic_flag four = ATOMIC_FLAG_INIT;
    static _Atomic(entry *) five[BUCKETS];
    atomic_store(&other, 1);
static inline void f(_Atomic int *g)
    """
    assert declared(text) == {"one", "two", "three", "four", "five"}
