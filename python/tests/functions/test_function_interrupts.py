"""What is not an Exception is never replaced, wherever foreign code raises it; nor is MemoryError. And no message is
cut inside a character."""

import pytest
from handmade import Echo, entry, host_fail, load_one

numpy = pytest.importorskip("numpy")

KINDS = [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError]
X = numpy.ones(3, "float32")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def raised(request):
    return request.param("stop")


def thrown(error):
    def method(*args, **kwargs):
        raise error

    return method


def stops(raised, function, *args, **kwargs):
    with pytest.raises(type(raised)) as caught:
        function(*args, **kwargs)
    assert caught.value is raised
    raised.__traceback__ = None


@pytest.mark.parametrize("name", ["__index__", "__float__", "dtype", "__dlpack_device__"])
def test_from_a_number(raised, name):
    body = {"__index__": lambda self: 1} if name != "__float__" else {}
    body[name] = property(thrown(raised)) if name == "dtype" else thrown(raised)
    number = type("Number", (), body)()
    kind = "int" if name == "__index__" else "float"
    for wrong in (X, 5, X.astype("f8"), numpy.ones((2, 2), "f4")):  # an earlier mistake does not replace it
        stops(raised, Echo(f"f(x: f32[n], a: {kind})"), wrong, number)
    stops(raised, Echo(f"f(a: {kind}s)"), [1, number])


def test_from_a_dtype_with_a_property(raised):
    dtype = type("Dtype", (), {"kind": property(thrown(raised))})()
    number = type("Number", (), {"dtype": dtype, "__float__": lambda self: 1.0})()
    stops(raised, Echo("f(a: float)"), number)


def meta(name, raised):
    """A class of classes that do not give this attribute away."""

    def look(cls, asked):
        if asked == name:
            raise raised
        return type.__getattribute__(cls, asked)

    return type("Meta", (type,), {"__getattribute__": look})


@pytest.mark.parametrize("name", ["__module__", "__qualname__"])
@pytest.mark.parametrize("kind", ["int", "str", "bool", "f32[n]"])
def test_from_the_name_of_a_type(raised, name, kind):
    stops(raised, Echo(f"f(a: {kind})"), meta(name, raised)("Thing", (), {})())


def test_from_the_name_of_an_array_that_does_not_fit(raised):
    methods = {
        "__dlpack__": lambda self, **keywords: X.__dlpack__(**keywords),
        "__dlpack_device__": lambda self: X.__dlpack_device__(),
    }
    array = meta("__qualname__", raised)("Array", (), methods)()
    Echo("f(x: f32[n])")(array)
    stops(raised, Echo("f(x: f64[n])"), array)
    stops(raised, Echo("f(x: f32[n]) -> f64[n]"), X, out=array)


@pytest.mark.parametrize("attribute", ["__array_interface__", "__array_struct__", "__array__"])
def test_from_an_attribute_that_is_looked_for(raised, attribute):
    def look(self, name):
        if name == attribute:
            raise raised
        raise AttributeError(name)

    stops(raised, Echo("f(x: f32[n])"), type("Thing", (), {"__getattr__": look})())


def test_from_the_words_of_an_exception(raised):
    refusal = type("Refusal", (ValueError,), {"__str__": thrown(raised)})()
    producer = type("Producer", (), {"__dlpack__": thrown(refusal), "__dlpack_device__": lambda self: (1, 0)})()
    stops(raised, Echo("f(x: f32[n])"), producer)
    odd = type("Odd", (TypeError,), {"__str__": thrown(raised)})()
    stops(raised, Echo("f(a: int)"), type("Number", (), {"__index__": thrown(odd)})())


def test_from_a_pair_that_is_a_list(raised):
    pair = type("Pair", (list,), {"__getitem__": thrown(raised)})([1, 0])
    producer = type("Producer", (), {"__dlpack__": thrown(ValueError()), "__dlpack_device__": lambda self: pair})()
    stops(raised, Echo("f(x: f32[n])"), producer)


@pytest.mark.parametrize("attribute", ["is_meta", "is_nested", "layout", "is_quantized"])
def test_from_a_tensor_that_is_asked_why(raised, attribute):
    torch = pytest.importorskip("torch")
    answers = {name: False for name in ("is_meta", "is_nested", "layout", "is_quantized")}
    answers[attribute] = property(thrown(raised))
    x = torch.zeros(3, device="meta").as_subclass(type("Odd", (torch.Tensor,), answers))
    stops(raised, Echo("f(x: f32[n])"), x)


def test_while_a_write_is_counted(raised, monkeypatch):
    torch = pytest.importorskip("torch")
    x = torch.zeros(3)
    monkeypatch.setattr(torch.autograd.graph, "increment_version", thrown(raised))
    stops(raised, Echo("f(x: f32[n] rw)"), x)
    stops(raised, Echo("f(x: f32[n]) -> f32[n]"), X, out=x)


# ---------------------------------------------------------------------------------------------------------- messages


def test_a_size_that_does_not_fit():
    with pytest.raises(OverflowError, match="overflows 64 bits or divides by 0"):
        Echo("f(n: int) -> f32[n * n]")(2**62)


@pytest.mark.parametrize("character", ["x", "\u00e9", "\u20ac", "\U0001f600"])
@pytest.mark.parametrize("before", range(4))
def test_a_long_message_ends_with_a_whole_character(character, before):
    text = "a" * before + character * 2000
    failed = load_one(entry("f()", lambda call: host_fail(call, 1, text.encode())))
    with pytest.raises(ValueError) as caught:
        failed()
    told = str(caught.value)[len("f(): ") :]
    assert told.endswith("...") and text.startswith(told[:-3]) and len(told.encode()) > 1000
