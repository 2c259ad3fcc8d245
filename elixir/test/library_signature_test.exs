defmodule Tenon.LibrarySignatureTest do
  use ExUnit.Case, async: true

  alias Tenon.Signature
  alias Tenon.Test.Kernels, as: Build

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

    assert {:error, "the signature is not UTF-8"} = Signature.parse(<<255>>)

    assert {:error, "a signature has at most 65536 bytes, but this one has 1000000"} =
             Signature.parse(String.duplicate("x", 1_000_000))
  end

  test "defaults" do
    for {default, value} <- [
          {"int = 1", 1},
          {"int = -9223372036854775808", -9_223_372_036_854_775_808},
          {"float = 1", 1.0},
          {"float = -2.5e3", -2500.0},
          {"float = 1e-5", 1.0e-5},
          {"float = .5", 0.5},
          {"float = 2.", 2.0},
          {"float = 1E+2", 100.0},
          {"float = 1e400", :infinity},
          {"floats = [-1e400, 1]", [:neg_infinity, 1.0]},
          {"bool = True", true},
          {"bool = False", false},
          {"str = 'it = 3, or (4)'", "it = 3, or (4)"},
          {"str = \"\"", ""},
          {"'a'|'b c' = 'b c'", :"b c"},
          {"ints = (1, -2)", [1, -2]},
          {"ints = (1,)", [1]},
          {"floats = []", []},
          {"floats = [1, 2.5]", [1.0, 2.5]},
          {"float = -0", -0.0},
          {"float = 1e-400", 0.0},
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

  # What the library says of its functions when it is open.
  defp described(path) do
    {:ok, {_doc, functions}} = Tenon.Nif.library_describe(path)
    for {text, _doc, read} <- functions, do: {text, Signature.described(text, read)}
  end

  defp build!(name, signatures) do
    rows = Enum.map_join(signatures, ", ", &"TENON_FUNCTION(#{inspect(&1, printable_limit: :infinity)}, f, NULL)")

    Build.build_text!(name, """
    static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
    TENON_MODULE(#{name}, NULL, #{rows})
    """)
  end

  test "the library says what the text says" do
    sources = [Build.source("kernels.c"), Build.repository("examples/functions/kernels.c")]

    for source <- sources, source != nil do
      functions = described(Build.build!("parity_#{Path.basename(Path.dirname(source))}", source))
      assert length(functions) >= 5
      for {text, signature} <- functions, do: assert(parse!(text) === signature)
    end
  end

  @types ["int", "float", "bool", "str", "ints", "floats", "ints[3]", "floats [ 2 ]", "handle('A, b')", "'a,b'|\"c)\""] ++
           ["'x'", "f32[]", "bool[n]", "bool|u8[n]", "f32[n, 3] c aligned(64)", "real[_, n] rw alias cpu|cuda"] ++
           ["T[*b, n + 1, (n - 1) // 2] unaligned", "T[n] rw inplace(other)", "'größe'|'\u{1F600}'"]

  @defaults ["int = 1", "int = -9223372036854775808", "int? = None", "int? = 3", "float = 1", "float = -2.5e3"] ++
              ["float = 1e-5", "float = .5", "float = 2.", "float = 1E+2", "float = 1e400", "float = -1e400"] ++
              ["float = 1e-400", "float = -0", "float = 0.1", "float = 123456789012345678901234567890"] ++
              ["float = #{String.duplicate("9", 50)}", "float? = 2.5", "bool = True", "bool = False", "bool? = None"] ++
              ["str = 'it = 3, or (4)'", "str = \"\"", "str = 'ä'", "str? = 'x'", "'a'|'b c' = 'b c'", "'ü'|'b' = 'ü'"] ++
              ["'a'|'b' ? = 'a'", "'a'? = None", "ints = (1, -2)", "ints = (1,)", "ints[2] = [3, 4]", "ints = ()"] ++
              ["floats = []", "floats = [1, 2.5]", "floats = (-1e400, 1)", "floats? = None", "ints ? = [1 , ]"] ++
              ["f32[n]? = None", "handle('A')? = None", "str = '#{String.duplicate("long ", 60)}'"]

  test "the library says what the text says, for every type and default" do
    tail = "other: T[*b, n]) where T = f32|f64"
    given = for {type, i} <- Enum.with_index(@types), do: "t#{i}(x: #{type}, #{tail}"
    optional = for {type, i} <- Enum.with_index(@types), do: "o#{i}(*, x: #{optional(type)}, #{tail}"
    results = for i <- 0..7, do: "r#{i}(x: f32[n, *b]) -> #{Enum.at(results(), i)}"
    defaults = for {type, i} <- Enum.with_index(@defaults), do: "d#{i}(x: #{type})"
    keywords = for {type, i} <- Enum.with_index(@defaults), do: "k#{i}(a: int,\n *, \tx: #{type}, y: str)"
    choices = "'#{String.duplicate("ä", 300)}'|'b'"
    others = ["n()", "m ( a :int ) ->\n  f32[?, a] , 'a  b'|'b'", "l(x: #{choices} = 'b') -> #{choices}"]
    signatures = given ++ optional ++ results ++ defaults ++ keywords ++ others
    functions = described(build!("parity", signatures))
    assert length(functions) == length(signatures)
    for {text, signature} <- functions, do: assert(parse!(text) === signature)
  end

  defp results do
    ["int", "float?", "f32[n]", "f32[?]?", "a: str, b: 'x'|'y', c: bool?", "handle('A')", "u8[*b, n + 1], int, str?"] ++
      ["f32[n] alias cpu, f64[]"]
  end

  # The "?" of a tensor comes before its attributes.
  defp optional(type) do
    case String.split(type, "]", parts: 2) do
      ["ints" <> _ = head, _] -> head <> "]?"
      ["floats" <> _ = head, _] -> head <> "]?"
      [head, attributes] -> "#{head}]?#{attributes}"
      [_] -> type <> "?"
    end
  end

  # The class of each signature is A.
  @entries [
             "class A",
             " class  B ",
             "A(x: f32[n, d] c keep, leaf: int = 16)",
             "A.one(self)",
             "A . two ( self , ) -> int"
           ] ++
             ["A.three(self, x: f32[n]? keep c, *, k: int = 1) -> rows: i64[n], distance: f32[n, k] own"] ++
             ["A.four(self) -> f32[?, ?] of(self) rw", "A.__len__(self) -> int", "A.__repr__(self) -> str"] ++
             ["A.__getitem__(self, i: int) -> f32[?] c of(self)", "B.ending(self, b: handle('B')?)"] ++
             ["load(path: str) -> f32[?, ?] own", "of(x: f32[n], own: int, keep: int, self: int) -> f32[?] of(x)"] ++
             ["take(a: handle('A'), b: handle('Other')) -> handle('A'), handle('Other')?", "B()"]

  test "classes, and memory that outlives a call" do
    rows =
      Enum.map_join(@entries, ", ", fn text ->
        if text =~ ~r/^ *class/, do: "{#{inspect(text)}, NULL}", else: "TENON_FUNCTION(#{inspect(text)}, f, NULL)"
      end)

    path =
      Build.build_text!("parity_classes", """
      static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
      TENON_MODULE(parity_classes, NULL, #{rows})
      """)

    functions = described(path)
    assert Enum.map(functions, &elem(&1, 0)) == @entries
    {:ok, nil, parsed} = Signature.parse_file(Enum.join(@entries, "\n"))
    assert parsed === Enum.map(functions, &elem(&1, 1))

    assert %{role: :method, class: "A", name: "A.two", params: [%{name: "self", kind: :handle, handle: "A"}]} =
             Enum.at(parsed, 4)

    assert %{role: :constructor, class: "B", results: [%{name: nil, handle: "B"}]} = List.last(parsed)
    assert parse!("A(x: int)").role == :function
  end

  test "static methods, properties and constants" do
    assert %{role: :static, name: "A.f", class: "A", params: []} = parse!("A.f()")
    assert %{role: :static, params: [%{name: "self"}]} = parse!("A.f(self: int)")
    assert %{role: :property, params: [%{handle: "A"}], results: [%{kind: :tensor}]} = parse!("A.f: f32[?, 3] of(self)")

    for {text, value} <- [{"A.F = 3", 3}, {"A.F = -2.5e3", -2500.0}, {"A.F = 'x = 1'", "x = 1"}, {"A.F = False", false}] do
      assert %{role: :constant, name: "A.F", class: "A", results: [%{default: {:ok, ^value}}]} = parse!(text)
    end

    assert %{role: :constant, name: "F", class: nil} = parse!("F = 1")
  end

  test "what is not a method or a constructor" do
    for text <-
          ["A.f() x", "A.f =", "A.f:", "A.(self)", "A.f", "1.f(self)", "class", "class 1", "class A B", "f(self)"] ++
            ["A.f(self x: int)", "f(x: handle)", "f(x: handle(A))"] do
      assert {:error, "the signature " <> _} = Signature.parse(text)
    end

    assert {:error, "the signature A() -> int: a constructor is written without ->" <> _} =
             Signature.parse("A() -> int", ["A"])
  end

  test "a library whose signature is not UTF-8 is refused" do
    path =
      Build.build_text!("not_text", """
      static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
      TENON_MODULE(not_text, NULL, TENON_FUNCTION("f(x: '\\xff')", f, NULL))
      """)

    code = "defmodule Tenon.LibrarySignatureTest.NotText do use Tenon.Library, path: #{inspect(path)} end"
    error = assert_raise(CompileError, fn -> Code.eval_string(code) end)
    assert Exception.message(error) =~ "#{path}: the signature is not UTF-8"
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
