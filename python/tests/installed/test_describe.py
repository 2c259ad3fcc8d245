"""python -m tenon describe: what another runtime's reader of signatures gets."""

import json

from libraries import WIDE, build, run

EXPECTED = r"""# wide 1.2
# Wide \ and "quoted".
#
# With \"\"\" in it, ends "so"

# Returns a*x + y.
saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]

# Two
#   lines.
pool(x: T[n, k], mode: 'mean'|'s  um' = 'mean', *, size: ints[2] = (1, 2), w: floats?, m: f32[n]?, b: bool = True, s: str = 'x', i: int) -> y: T[n], count: int, int: float, kind: 'a'|'b'? where T = f32|f64

# Opens.
open(path: str, like_this: handle('my index')?) -> handle('my index')

close(index: handle('my index'), other: handle('Any'), third: handle('2d'))

int(x: int) -> int, float, bool, str

Literal(x: f32[n] rw, __y: int)

typing(x: int? = None)

# Café.
nonzero(x: f32[n]) -> i64[?]

grad(t: handle('torch.Tensor'), sizes: ints) -> handle('torch.Tensor')

mode() -> 'a'|"b"

total(x: f32[n]) -> total: float
""".replace(r"\"", '"')  # noqa: E501


def test_describe(tmp_path):
    done = run("describe", build(tmp_path / "wide.so", WIDE))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == EXPECTED


def test_signatures_survive(tmp_path):
    """Who compiles the signatures of the text has the same library again."""
    signatures = [line for line in EXPECTED.splitlines() if line and not line.startswith("#")]
    table = ",".join(f"TENON_FUNCTION({json.dumps(signature)}, none, NULL)" for signature in signatures)
    code = f"""
    #include <tenon/function.h>
    static tenon_status none(tenon_call *call) {{ (void)call; return TENON_OK; }}
    TENON_MODULE(again, NULL, {table})"""
    done = run("describe", build(tmp_path / "again.so", code))
    assert done.stdout == "# again\n\n" + "\n\n".join(signatures) + "\n"


def test_version_and_documentation_may_be_missing(tmp_path):
    code = """
    #include <tenon/function.h>
    static tenon_status none(tenon_call *call) { (void)call; return TENON_OK; }
    TENON_MODULE(plain, NULL, TENON_FUNCTION("f()", none, NULL))"""
    assert run("describe", build(tmp_path / "plain.so", code)).stdout == "# plain\n\nf()\n"
