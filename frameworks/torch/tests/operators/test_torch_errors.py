"""tenon.torch_ops: an argument that the function refuses gets the same exception, whatever way torch takes to the function."""

import contextlib
import itertools

import pytest
from operators import VERSION, compiled_library, tenon, torch

SOURCE = """
#include <tenon/function.h>
static tenon_status pass(tenon_call *call)
{
    (void)call;
    return TENON_OK;
}
TENON_MODULE(pass, "", TENON_FUNCTION("bytes(x: u8[n]) -> u8[n]", pass, ""),
             TENON_FUNCTION("write_bytes(x: u8[n] rw)", pass, ""), TENON_FUNCTION("first(x: f32[n], y: f32[n]) -> f32[n]", pass, ""),
             TENON_FUNCTION("second(y: f32[n], x: f32[n]) -> f32[n]", pass, ""),
             TENON_FUNCTION("write(x: f32[n] rw)", pass, ""),
             TENON_FUNCTION("order(x: f32[n, m] c) -> f32[n]", pass, ""),
             TENON_FUNCTION("limited(x: f32[n], mode: 'a'|'b', sizes: ints[2], k: int) -> f32[n]", pass, ""))
"""


def freed(offset):
    x = torch.ones(offset + 3)[offset:]
    x.untyped_storage().resize_(0)
    return x


BAD = {
    "freed": lambda: freed(0),
    "freed, with an offset": lambda: freed(5),
    "bits8": lambda: torch.ones(3, dtype=torch.uint8).view(torch.bits8),
    "uint4": lambda: torch.ones(3, dtype=torch.uint8).view(torch.uint4),
    "float64": lambda: torch.ones(3).double(),
    "int32": lambda: torch.ones(3).int(),
    "bool": lambda: torch.ones(3, dtype=torch.bool),
    "float8": lambda: torch.ones(3).to(torch.float8_e4m3fn),
    "complex": lambda: torch.ones(3, dtype=torch.complex64),
    "conjugated": lambda: torch.ones(3, dtype=torch.complex64).conj(),
    "no dimension": lambda: torch.tensor(1.0),
    "two dimensions": lambda: torch.ones(3, 3),
    "many dimensions": lambda: torch.ones([1] * 64),
    "short": lambda: torch.ones(2),
    "empty": lambda: torch.ones(0),
    "transposed": lambda: torch.ones(3, 4).T,
    "expanded": lambda: torch.ones(1).expand(3),
    "an inference tensor of another dtype": lambda: inference(torch.float64),
    "a view of another dtype": lambda: torch.ones(6).double()[::2],
    "a parameter of another dtype": lambda: torch.nn.Parameter(torch.ones(3).double(), requires_grad=False),
    "another dtype that requires grad": lambda: torch.ones(3, dtype=torch.float64, requires_grad=True),
    "None": lambda: None,
}
# Of these torch.ops says something else: a kernel in C does not see the class of a tensor, and torch has its
# own words for a dtype that DLPack does not have.
OTHER_WORDS = {"bits8", "uint4", "a parameter of another dtype"}
if VERSION < (2, 13):
    OTHER_WORDS.add("None")  # a kernel in C cannot tell it from a tensor that is undefined


def inference(dtype):
    with torch.inference_mode():
        return torch.ones(3, dtype=dtype)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    (folder / "source.c").write_text(SOURCE)
    return tenon.load(compiled_library(folder, folder / "source.c"))


@pytest.fixture(scope="module")
def operators(library):
    made = {direct: tenon.torch_ops(library, name=f"tenon_errors_{direct}", direct=direct) for direct in (True, False)}
    yield made
    for ops in made.values():
        ops.close()


def profiler():
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


WAYS = {
    "direct": (True, contextlib.nullcontext),
    "autocast": (True, lambda: torch.autocast("cpu")),
    "profiler": (True, profiler),
    "direct=False": (False, contextlib.nullcontext),
    "direct=False, autocast": (False, lambda: torch.autocast("cpu")),
    "direct=False, no_grad": (False, torch.no_grad),
    "direct=False, inference": (False, torch.inference_mode),
}


def raised(function, *args):
    try:
        function(*args)
    except Exception as error:
        return type(error), str(error)
    return None


def calls():
    for name, make in BAD.items():
        if name == "conjugated":  # an operator gets a resolved copy of an argument that it only reads
            yield name, "write", lambda make=make: (make(),)
            continue
        yield name, "first", lambda make=make: (torch.ones(3), make())
        yield name, "second", lambda make=make: (make(), torch.ones(3))
        if name == "None":  # without a tensor torch finds no kernel
            continue
        # The operator refuses first to write to a tensor that requires grad.
        for function in ("order", "bytes", *(("write", "write_bytes") if "grad" not in name else ())):
            yield name, function, lambda make=make: (make(),)
    good = torch.ones(3)
    for mode, sizes, k in itertools.product(("a", "c"), ([1, 2], [1]), (1, 2**62)):
        yield "values", "limited", lambda args=(good, mode, sizes, k): args
        yield "a tensor and values", "limited", lambda args=(good.double(), mode, sizes, k): args


@pytest.mark.filterwarnings("ignore")
def test_every_way_raises_what_the_function_raises(library, operators):
    refused = 0
    for name, function, args in calls():
        with torch.no_grad():  # gradients are the operator's concern
            expected = raised(getattr(library, function), *args())
        if expected is None:
            continue
        refused += 1
        for way, (direct, context) in WAYS.items():
            given = args()
            with context():
                found = raised(getattr(operators[direct], function), *given)
            assert found == expected, (name, function, way)
        kind, message = raised(getattr(torch.ops.tenon_errors_True, function), *args())
        assert message == expected[1] or name in OTHER_WORDS, (name, function)
    assert refused > 60
