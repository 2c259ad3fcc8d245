"""Which sources were measured: a hash of the files that the figures depend on, the commit and the day."""
import hashlib
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("core/include", "core/src", "python/include", "python/src", "python/tenon", "frameworks",
           "elixir/include", "elixir/c_src", "elixir/lib", "elixir/bench", "bench/peers", "bench/groups", "bench/copy")
LEFT_OUT = {".md", ".pyc", ".so", ".o"}


def stamp():
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in LEFT_OUT and not {"vendor", "tests"} & set(path.parts):
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def git(*words):
    """The output of git in this repository; "" if git fails."""
    try:
        # Without its locks: looking at the state must not write the index.
        return subprocess.run(["git", "--no-optional-locks", "-C", str(ROOT), *words], capture_output=True, text=True,
                              timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def describe():
    top = git("rev-parse", "--show-toplevel")
    ours = bool(top) and pathlib.Path(top).resolve() == ROOT
    commit = git("rev-parse", "--short=10", "HEAD") if ours else ""
    return {"stamp": stamp(), "commit": commit or None,
            "changed": bool(commit and git("status", "--porcelain", "--", *FOLDERS)),
            "date": time.strftime("%Y-%m-%d", time.gmtime())}


def words(results):
    """`of the sources … of commit …, on …`, for the page and the terminal."""
    of = results.get("sources")
    if not of:
        return "of unnamed sources"
    commit = f" (commit {of['commit']}{' and changes' if of['changed'] else ''})" if of["commit"] else ""
    return f"of the sources {of['stamp']}{commit}, on {of['date']}"
