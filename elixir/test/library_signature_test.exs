defmodule Tenon.LibrarySignatureTest do
  use ExUnit.Case, async: true

  alias Tenon.Signature

  doctest Signature

  defp parse!(text), do: elem({:ok, _} = Signature.parse(text), 1)
  defp params(text), do: for(p <- parse!(text).params, do: {p.name, p.kind, p.optional, p.default})

  test "kinds" do
    for {type, kind, optional} <- [
          {"int", :int, false},
          {"float?", :float, true},
          {"bool", :bool, false},
          {"bool[n]", :tensor, false},
          {"bool|u8[n]?", :tensor, true},
          {"str ?", :str, true},
          {"ints", :ints, false},
          {"ints[3]?", :ints, true},
          {"floats [ 2 ]", :floats, false},
          {"handle('A, b')", :handle, false},
          {"handle(\"A?\")?", :handle, true},
          {"'a,b'|\"c)\"", :enum, false},
          {"'a'|'b' ?", :enum, true},
          {"f32[]", :tensor, false},
          {"T[*b, n + 1, (k - 1) // 2] rw inplace(y) cpu|cuda", :tensor, false},
          {"f32[n, 3]? c aligned(64)", :tensor, true},
          {"f32[n]? unaligned rw", :tensor, true}
        ] do
      assert [%{kind: ^kind, optional: ^optional}] = parse!("f(x: #{type})").params
      assert [%{kind: ^kind, optional: ^optional}] = parse!("f() -> #{type} where T = f32|f64, U = any").results
      assert [%{name: "a"}, %{name: "b", kind: ^kind}] = parse!("f() -> a: int, b: #{type}").results
    end
  end

  test "messages are short, and are text" do
    long = String.duplicate("é", 10_000)
    digits = String.duplicate("9", 50_000)

    for text <- [
          String.duplicate("x", 1_000_000),
          long,
          "f(x: #{long})",
          "f(x: int = #{digits})",
          "f(x: float = -#{digits}.5)",
          "f(x: ints = [1, #{digits}])",
          "f(x: int = #{String.duplicate("9 ", 20_000)})",
          "f(x: 'a' = #{long})",
          <<"f(x: ", 255, ")">>,
          <<255>>,
          <<"f(x: str = '", 255, "')">>
        ] do
      assert {:error, message} = Signature.parse(text)
      assert String.valid?(message) and byte_size(message) < 4000
      assert {:error, message} = Signature.parse_file("# one\n" <> text)
      assert String.valid?(message) and byte_size(message) < 4000
    end

    assert {:error, "the signature is not text in UTF-8"} = Signature.parse(<<255>>)

    assert {:error, "a signature has at most 65536 bytes, this one has 1000000"} =
             Signature.parse(String.duplicate("x", 1_000_000))
  end

  test "defaults" do
    for {default, value} <- [
          {"int = 1", 1},
          {"int = -9223372036854775808", -9_223_372_036_854_775_808},
          {"float = 1", 1},
          {"float = -2.5e3", -2500.0},
          {"float = 1e-5", 1.0e-5},
          {"float = .5", 0.5},
          {"float = 2.", 2.0},
          {"float = 1E+2", 100.0},
          {"float = 1e400", :infinity},
          {"floats = [-1e400, 1]", [:neg_infinity, 1]},
          {"bool = True", true},
          {"bool = False", false},
          {"str = 'it = 3, or (4)'", "it = 3, or (4)"},
          {"str = \"\"", ""},
          {"'a'|'b c' = 'b c'", :"b c"},
          {"ints = (1, -2)", [1, -2]},
          {"ints = (1,)", [1]},
          {"floats = []", []},
          {"floats = [1, 2.5]", [1, 2.5]},
          {"int? = None", nil},
          {"f32[n]? = None", nil},
          {"int?", nil},
          {"int? = 3", 3}
        ] do
      assert [{"x", _, _, {:ok, ^value}}] = params("f(x: #{default})")
    end

    assert [{"x", :int, false, nil}] = params("f(x: int)")
  end

  test "keyword-only parameters, results, spaces" do
    assert for(p <- parse!("f(a: int, *, b: int, c: str = 'x')").params, do: p.keyword_only) == [false, true, true]
    assert parse!("f(*, b: int)").params |> hd() |> Map.fetch!(:keyword_only)
    assert parse!(" f ( a :int ) ->\n  f32[?, n] , 'a'|'b'").text == "f ( a :int ) -> f32[?, n] , 'a'|'b'"

    assert for(r <- parse!("f() -> f32[?, n], 'a'|'b', str").results, do: {r.kind, r.optional, r.choices}) ==
             [{:tensor, false, []}, {:enum, false, ["a", "b"]}, {:str, false, []}]

    assert parse!("f(x: '  a')").text == "f(x: '  a')"
  end

  test "what is no signature" do
    for text <-
          ["", "f", "f(", "f()x: int", "f(x)", "f(x: )", "f(x: int = )", "f(x: int", "f(x: float = y)", "1f()"] ++
            ["f(x: f32)", "f(x: f32[n)", "f(x: str = 3)", "f(,)", "f() -> ", "f(*)", "f(x: int = 1 2)"] do
      assert {:error, "the signature " <> _} = Signature.parse(text)
    end
  end

  test "files" do
    assert {:ok, nil, []} = Signature.parse_file("")
    assert {:ok, nil, [%{name: "f", doc: nil}]} = Signature.parse_file("f()")
    assert {:ok, nil, [%{name: "f", doc: "One.\n\nTwo."}]} = Signature.parse_file("# One.\n#\n# Two.\r\nf()\r\n")

    assert {:ok, "All.", [f, g]} =
             Signature.parse_file("# lib 1.0\n# All.\n\n# F.\nf()\n\n# Nobody's.\n\ng()\n# End.\n")

    assert {f.doc, g.doc} == {"F.", nil}
    assert {:error, "the signature g: expected name(…)"} = Signature.parse_file("f()\ng\n")
  end
end
