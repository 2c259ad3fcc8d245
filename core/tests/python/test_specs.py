"""Specs made together with a view that fits them, and with one that breaks exactly one constraint."""

import ctypes as C
import os
import re
import subprocess
import sys

import pytest
import tenon_ctypes as T
from harness import run_cases

INTEGER = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "u4", "i128"]
REAL = INTEGER + ["f16", "f32", "f64", "bf16", "f8_e4m3fn", "f4_e2m1fn", "f6_e2m3fn"]
ANY = REAL + ["bool", "c64", "c128", "opaque32", "f32x4"]
HOST = [(T.CPU, 0), (T.CUDA_HOST, 0), (T.CUDA_MANAGED, 1)]
AWAY = [(T.CUDA, 0), (T.CUDA, 3), (T.ROCM, 0)]
ADDRESS = 1 << 30


class Wanted:
    """What a view is made from; a violation changes one field."""

    def __init__(self, rng):
        self.dtype = rng.choice(ANY)
        self.shape = [rng.randrange(1, 6) for _ in range(rng.randrange(5))]
        self.order = "c"
        self.flags = 0
        self.device = rng.choice(HOST)
        self.address = ADDRESS

    def strides(self):
        """C order; F; dense but neither; with gaps; repeated."""
        if self.order == "folded":
            return [0] * len(self.shape)
        places = list(range(len(self.shape)))[::-1]
        if self.order == "f":
            places.reverse()
        if self.order == "mixed":
            places = places[1:] + places[:1]
        strides, step = [0] * len(places), 2 if self.order == "gaps" else 1
        for place in places:
            strides[place] = step
            step *= max(self.shape[place], 1)
        return strides

    def view(self):
        return T.view_init(self.address, self.shape, self.strides(), T.dtype(self.dtype), device=self.device,
                           flags=self.flags)

    def __repr__(self):
        return f"{self.dtype}{self.shape} {self.order} device {self.device} flags {self.flags} at {self.address:#x}"


def fits_kind(name, kind):
    """The rule of spec.h for the three kinds; a vector of reals is not real."""
    return kind == "any" or name in (REAL if kind == "real" else INTEGER)


def natural_alignment(name):
    """By size, but a complex number is as two; sub-byte values are packed."""
    sizes = {"bool": 1, "c64": 4, "c128": 8, "f32x4": 16}
    return sizes.get(name) or max(int(re.search(r"\d+", name)[0]) // 8, 1)


def choose_dtypes(rng, want):
    """(text, where clause, a dtype that does not fit or None)"""
    kind = rng.random()
    names = [want.dtype] + rng.sample(ANY, rng.randrange(3))
    rng.shuffle(names)
    outside = [n for n in ANY if n not in names]
    if kind < 0.5:
        return "|".join(names), "", rng.choice(outside)
    group = rng.choice([k for k in ("real", "integer", "any") if fits_kind(want.dtype, k)])
    outside_group = [n for n in ANY if not fits_kind(n, group)]
    if kind < 0.65:
        return group, "", rng.choice(outside_group) if outside_group else None
    if kind < 0.85:
        return "T", " where T = " + "|".join(names), rng.choice(outside)
    if kind < 0.95:
        return "Type_2", f" where Type_2 = {group}", rng.choice(outside_group) if outside_group else None
    return "T", " where T = any", None


def expression(rng, name, value, wanted):
    """A text over `name`, which is `value`, that gives `wanted`."""
    choices = [f"{name} + {wanted - value}" if wanted >= value else f"{name} - {value - wanted}",
               f"({name} + {wanted}) - {name}", f"{wanted} * {name} // {name}", f"{name}*{wanted}//{value}",
               f"{wanted + value}-{name}", f"2*{name} + {wanted} - {name} - {name}",
               f"({name}*{name} + {value * wanted}) // {value} - {name}",
               f"{wanted} + 1 + (0 - {name}) // ({name} + 1)"]  # rounds down, to -1
    return rng.choice(choices)


def choose_dims(rng, want):
    """The texts of the dims, the indices whose size is constrained, and whether the number of dims is."""
    shape, texts, fixed, bound = want.shape, [], [], {}
    star = sorted(rng.randrange(len(shape) + 1) for _ in range(2)) if rng.random() < 0.3 else None
    for at, size in enumerate(shape):
        if star and star[0] <= at < star[1]:
            continue
        kind = rng.random()
        known = [n for n in bound if bound[n] == size]
        if kind < 0.2:
            texts.append(str(size))
        elif kind < 0.3:
            texts.append("_")
            continue
        elif kind < 0.5 and known:
            texts.append(rng.choice(known))
        elif kind < 0.75 and bound:
            name = rng.choice(sorted(bound))
            texts.append(expression(rng, name, bound[name], size))
        else:
            name = rng.choice(("n", "k", "width", "n_2", "channels")) + "abcdefg"[at]
            bound[name] = size
            texts.append(name)
            continue
        fixed.append(at)
    if star:
        texts.insert(star[0], rng.choice(("*b", "*batch")))
    return texts, fixed, star


def choose_attributes(rng, want):
    """The words, and the violations that each makes possible."""
    words, breaks = [], []
    long_dims = [n for n in want.shape if n > 1]

    def breaks_order(*orders):
        return lambda: setattr(want, "order", rng.choice(orders))
    if rng.random() < 0.35:
        want.order = rng.choice(("c", "f", "mixed"))
        words.append({"c": "c", "f": "f", "mixed": "dense"}[want.order])
        if len(long_dims) >= 2 and want.order != "mixed":
            breaks.append((breaks_order("gaps", "f" if want.order == "c" else "c"), T.ELAYOUT))
        elif long_dims:
            breaks.append((breaks_order("gaps"), T.ELAYOUT))
    else:
        want.order = rng.choice(("c", "f", "mixed", "gaps"))
    if rng.random() < 0.2:
        power = rng.choice((2, 16, 64, 4096))
        words.append(f"aligned({power})")
        breaks.append((lambda: setattr(want, "address", ADDRESS + power // 2), T.ELAYOUT))
    elif rng.random() < 0.2:
        words.append("unaligned")
        want.address = ADDRESS + rng.randrange(16)
    elif natural_alignment(want.dtype) > 1:
        wrong = rng.randrange(1, natural_alignment(want.dtype))
        breaks.append((lambda: setattr(want, "address", ADDRESS + wrong), T.ELAYOUT))
    if rng.random() < 0.3:
        words.append("rw")
        breaks.append((lambda: setattr(want, "flags", T.READ_ONLY), T.EREADONLY))
        if long_dims and not set(words) & {"c", "f", "dense"}:
            breaks.append((breaks_order("folded"), T.EOVERLAP))
    else:
        want.flags = rng.choice((0, T.READ_ONLY))
    place = rng.random()
    if place < 0.6:
        words += rng.choice(([], ["cpu"]))
        breaks.append((lambda: setattr(want, "device", rng.choice(AWAY)), T.EDEVICE))
    elif place < 0.75:
        want.device = rng.choice(AWAY[:2])
        words.append(rng.choice(("cuda", "cuda|rocm", "rocm | cuda")))
        breaks.append((lambda: setattr(want, "device", (T.CPU, 0)), T.EDEVICE))
    elif place < 0.85:
        want.device = rng.choice(HOST + AWAY[:2])
        words.append("cpu|cuda")
        breaks.append((lambda: setattr(want, "device", (T.ROCM, 0)), T.EDEVICE))
    else:
        want.device = rng.choice(HOST + AWAY)
        words.append("anywhere")
    rng.shuffle(words)
    return words, breaks


def parse(text, names=None):
    names, spec = names or T.Names(), T.Spec()
    T.call("spec_parse", text.encode(), C.byref(names), C.byref(spec))
    return names, spec


def match(spec, names, view, bindings=None):
    bindings = bindings or T.Bindings(names=C.pointer(names), function=b"f", argument=b"x")
    try:
        T.call("spec_match", C.byref(spec), None if view is None else C.byref(view), C.byref(bindings))
    except T.Error as error:
        return error.status, error.message
    return T.OK, ""


def change(want, field, value):
    return lambda: setattr(want, field, value)


def spec_case(rng):
    want = Wanted(rng)
    dtypes, where, other = choose_dtypes(rng, want)
    texts, fixed, star = choose_dims(rng, want)
    words, breaks = choose_attributes(rng, want)
    optional = rng.random() < 0.2
    space = rng.choice(("", " "))
    text = f"{dtypes}[{(',' + space).join(texts)}]{'?' if optional else ''}" + "".join(" " + w for w in words) + where
    if len(text) >= T.SPEC_TEXT:
        return
    names, spec = parse(text)
    status, message = match(spec, names, want.view())
    assert status == T.OK, f"{text!r} and {want!r}: {message}"
    status, message = match(spec, names, None)
    assert status == (T.OK if optional else T.EINVAL), f"{text!r} left out: {message}"
    if other:
        breaks.append((change(want, "dtype", other), T.EDTYPE))
    for at in fixed:
        grown = list(want.shape)
        grown[at] += 1
        breaks.append((change(want, "shape", grown), T.ESHAPE))
    if not star:
        breaks.append((change(want, "shape", want.shape + [2]), T.ESHAPE))
        if want.shape:
            breaks.append((change(want, "shape", want.shape[1:]), T.ESHAPE))
    elif len(texts) > 1:
        breaks.append((change(want, "shape", want.shape[:len(texts) - 2]), T.ESHAPE))
    if not breaks:
        return
    spoil, expected = rng.choice(breaks)
    before = repr(want)
    spoil()
    status, message = match(spec, names, want.view())
    assert status == expected, f"{text!r}: {before} spoilt to {want!r} gives {status} ({message!r}), not {expected}"
    assert message.startswith("f(): argument 'x'") and " , " not in message, message


def two_case(rng):
    """Two specs that share names: the second is held to what the first has bound."""
    n, k = rng.randrange(1, 6), rng.randrange(1, 6)
    batch = [rng.randrange(1, 4) for _ in range(rng.randrange(3))]
    names, first = parse("T[*b, n, k] where T = any")
    _, second = parse(rng.choice(("T[*b, k, n]", "T[*b, n + k - n, n]", "T[*b, k*n//n, n]")), names)
    kind = rng.choice(("fits", "dtype", "n", "k", "batch", "rank"))
    shape, name = batch + [k, n], "f32"
    expected = T.OK if kind == "fits" else T.EDTYPE if kind == "dtype" else T.ESHAPE
    if kind == "dtype":
        name = "f64"
    elif kind == "n":
        shape[-1] += 1
    elif kind == "k":
        shape[-2] += 1
    elif kind == "batch" and batch:
        shape[0] += 1
    elif kind in ("rank", "batch"):
        shape = [1] + shape
    bindings = T.Bindings(names=C.pointer(names), function=b"f", argument=b"x")
    a = T.view_init(ADDRESS, batch + [n, k], None, T.dtype("f32"))
    b = T.view_init(ADDRESS, shape, None, T.dtype(name))
    assert match(first, names, a, bindings)[0] == T.OK
    bindings.argument = b"y"
    status, message = match(second, names, b, bindings)
    assert status == expected, f"{kind}: {batch}, {n}, {k}: {message}"


TOKENS = ["f32", "real", "any", "T", "[", "]", "n", "k", "_", "*b", "+", "-", "*", "//", "(", ")", ",", "?", " ", "rw",
          "c", "f", "dense", "aligned(", "16", "0", "unaligned", "cuda", "|", "anywhere", "alias", "inplace(x)", "where", "=", "1",
          "99999999999999999999", "\n", "é", "%n", "[n]", "f32[n]", "/", "x" * 40]
GOOD = ["f32[n, k] c", "f32|f64[n, 3] rw", "T[*b, n + 1, n]? where T = real", "any[] anywhere", "i8[(n+1)*2//3, n] f",
        "bool[_] aligned(64) cuda|rocm", "f64[n] unaligned rw", "u8[n] inplace(x)", "c64[2, *rest, 4] dense alias"]


def spec_text_case(rng):
    """Any text is a spec or is refused with a caret, and a refusal changes nothing."""
    if rng.random() < 0.5:
        text = "".join(rng.choice(TOKENS) for _ in range(rng.randrange(1, 12)))
    else:
        text = rng.choice(GOOD)
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(TOKENS + [""]) + text[at + rng.randrange(3):]
    names, spec = T.Names(), T.Spec()
    C.memset(C.byref(spec), 0x5A, C.sizeof(spec))
    before = bytes(names), bytes(spec)
    try:
        T.call("spec_parse", text.encode(), C.byref(names), C.byref(spec))
    except T.Error as error:
        assert error.status == T.EPARSE and "^" in error.message, f"{text!r}: {error}"
        assert (bytes(names), bytes(spec)) == before, f"{text!r}: a refusal changed its outputs"
        return
    for shape in ([], [3], [2, 3], [4, 3, 2]):
        view = T.view_init(ADDRESS, shape, None, T.dtype("f32"))
        match(spec, names, view)


@pytest.mark.parametrize("case, count", [(spec_case, 5000), (two_case, 600), (spec_text_case, 4000)])
def test_specs(case, count):
    run_cases(case, count)


@pytest.mark.parametrize("text", GOOD)
def test_good(text):
    parse(text)


# The caret stands under the column where the mistake begins.
BAD = [("", 0), ("f32[n", 5), ("f31[n]", 0), ("f32[n] q", 7), ("f32[n, n + ] c", 11), ("f32[n]]", 6),
       ("f32[*a, *b]", 8),
       ("f32[n] c f", 9), ("f32[n] aligned(3)", 15), ("f32[n] aligned(8) unaligned", 18), ("f32[n] anywhere cuda", 16), ("f32[n] cuda rocm", 12),
       ("T[n] where U = f32", 11), ("f32[n] rw rw", 10), ("f32[99999999999999999999]", 4), ("f32[n] where", 12),
       ("f32[n /2]", 6), ("f32[N]", 4), ("f32[-1]", 4), ("f32[2**3]", 6), ("f32[_ + 1]", 6), ("any[] cpu|", 10),
       ("f32[n] inplace(3)", 15), ("f32x0[n]", 0), ("|".join(["f32"] * 17) + "[n]", 64)]


@pytest.mark.parametrize("text, column", BAD)
def test_caret(text, column):
    with pytest.raises(T.Error) as caught:
        parse(text)
    lines = caught.value.message.split("\n")
    assert caught.value.status == T.EPARSE
    assert lines[-2].strip() == text and lines[-1].strip() == "^"
    assert lines[-1].index("^") - (lines[-2].index(text) if text else 2) == column


@pytest.mark.parametrize("text", ["'f32[' + '(' * 1000000 + 'n'", "'f32[' + 'n' * 1000000",
                                  "'f32[' + ' ' * 1000000 + ']'",
                                  "'f32[n' + ' + 1' * 1000 + ']'", "'f32[' + '1,' * 1000 + '1]'",
                                  "'f32[n]' + ' c' * 1000"])
def test_long_texts(text):
    """In a process of its own: what is tried here is to run out of stack."""
    code = ("import test_specs as S, tenon_ctypes as T\n"
            f"try:\n    S.parse({text})\nexcept T.Error as error:\n    print(error.status)")
    result = subprocess.run([sys.executable, "-B", "-c", code], cwd=os.path.dirname(os.path.abspath(__file__)),
                            capture_output=True, text=True)
    assert result.stdout.strip() == str(T.EPARSE), (result.returncode, result.stderr[-500:])
