alias Tenon.Test.Kernels, as: Build

Build.build!("kernels", Build.source("kernels.c"))

defmodule Tenon.LibraryTest.Kernels do
  use Tenon.Library,
    path: Build.path("kernels"),
    schedulers: [is_dirty_by_option: :dirty, is_normal_by_option: :normal]
end

defmodule Tenon.LibraryTest.Same do
  @moduledoc "Not the library's own words."
  use Tenon.Library, path: Build.path("kernels")
end

defmodule Tenon.LibraryTest do
  use ExUnit.Case, async: false

  alias Tenon.LibraryTest.{Kernels, Same}

  defp reason({:error, %Tenon.Error{reason: reason}}), do: reason
  defp message({:error, %Tenon.Error{message: message}}), do: message

  defp f32(list), do: Tenon.from_list!(list, type: {:f, 32})

  test "conditions" do
    x = f32([1, 2])
    assert Kernels.limited(x, 2) == :ok
    assert Kernels.limited(x, 2, 2) == :ok
    assert reason(Kernels.limited(x, 2, 3)) == {:mismatch, :k}

    assert message(Kernels.limited(x, 2, 3)) ==
             "limited(): argument 'k': expected k <= n, got k = 3 (n = 2 from argument 'x')"

    assert message(Kernels.limited(x, :nan)) == "limited(): argument 'by': expected by > 0, got by = nan"
    assert Tenon.to_list!(x) == [4.0, 8.0]
  end

  describe "numbers" do
    test "integers of 64 bits" do
      for x <- [0, -1, 1, 0x7FFFFFFFFFFFFFFF, -0x8000000000000000], do: assert(Kernels.echo_int(x) == {:ok, x})

      for x <- [0x8000000000000000, -0x8000000000000001, 2 ** 200] do
        assert reason(Kernels.echo_int(x)) == {:overflow, :x}

        assert message(Kernels.echo_int(x)) ==
                 "echo_int(): argument 'x': the integer is out of range: " <>
                   "expected -9223372036854775808 to 9223372036854775807 (64 bits)"
      end
    end

    test "floats, and those that are no numbers" do
      for x <- [0.0, -1.5, 1.0e308, :nan, :infinity, :neg_infinity], do: assert(Kernels.echo_float(x) == {:ok, x})
      assert Kernels.echo_float(3) === {:ok, 3.0}
      assert Kernels.echo_float(-(2 ** 53)) === {:ok, -9_007_199_254_740_992.0}
      assert reason(Kernels.echo_float(2 ** 2000)) == {:overflow, :x}

      assert message(Kernels.echo_float(-(2 ** 2000))) ==
               "echo_float(): argument 'x': the integer is out of range: " <>
                 "expected -1.7976931348623157e308 to 1.7976931348623157e308"
    end

    test "booleans are no numbers" do
      for x <- [true, false], do: assert(Kernels.echo_bool(x) == {:ok, x})
      for x <- [0, 1, nil, :yes, "true"], do: assert(reason(Kernels.echo_bool(x)) == {:badarg, :x})
    end

    test "what is no number" do
      for x <- ["1", nil, true, [1], {1}, %{}, self(), make_ref(), 1.5, &reason/1] do
        assert reason(Kernels.echo_int(x)) == {:badarg, :x}
      end

      for x <- ["1", nil, true, [1], {1}, %{}, :inf], do: assert(reason(Kernels.echo_float(x)) == {:badarg, :x})
      assert message(Kernels.echo_int("1")) == "echo_int(): argument 'x': expected int, got a binary"
      assert message(Kernels.echo_int(nil)) == "echo_int(): argument 'x': expected int, got nil"
      assert message(Kernels.echo_int(1.5)) == "echo_int(): argument 'x': expected int, got a float"
      assert message(Kernels.echo_int(1..2)) == "echo_int(): argument 'x': expected int, got Range"
    end
  end

  describe "texts and lists" do
    test "strings" do
      for x <- ["", "text", "größe", "a\0b", String.duplicate("é", 1000)], do: assert(Kernels.echo_str(x) == {:ok, x})
      for x <- [:text, 'text', nil, <<1::1>>], do: assert(reason(Kernels.echo_str(x)) == {:badarg, :x})

      for x <- [<<0xFF>>, <<0xC0, 0x80>>, <<0xED, 0xA0, 0x80>>, <<0xF4, 0x90, 0x80, 0x80>>, "é" <> <<0xC3>>] do
        assert reason(Kernels.echo_str(x)) == {:badarg, :x}
        refute String.valid?(x)
      end
    end

    test "enums are atoms, or strings" do
      for x <- [:mean, :"two words", :größe] do
        assert Kernels.echo_enum(x) == {:ok, x}
        assert Kernels.echo_enum(Atom.to_string(x)) == {:ok, x}
      end

      assert reason(Kernels.echo_enum(:sum)) == {:badarg, :x}

      assert message(Kernels.echo_enum("sum")) ==
               "echo_enum(): argument 'x': expected 'mean'|'two words'|'größe', got \"sum\""

      assert message(Kernels.echo_enum(:sum)) =~ "got :sum"
      assert String.valid?(message(Kernels.echo_enum(<<0xFF>>)))
    end

    test "lists of numbers" do
      assert {:ok, t} = Kernels.echo_ints([1, -2, 3])
      assert {t.type, Tenon.to_list!(t)} == {{:s, 64}, [1, -2, 3]}
      assert {:ok, t} = Kernels.echo_ints([])
      assert t.shape == {0}
      assert {:ok, t} = Kernels.echo_floats([1, 2.5, :nan, :neg_infinity])
      assert Tenon.to_list!(t) == [1.0, 2.5, :nan, :neg_infinity]
      for x <- [1, "x", {1, 2}, [1 | 2], ["x"], [1.5], nil], do: assert(reason(Kernels.echo_ints(x)) == {:badarg, :x})
      assert reason(Kernels.echo_ints([2 ** 64])) == {:overflow, :x}

      for {call, said} <- [
            {Kernels.echo_ints([0, 1, :a]), "element 2: expected an integer, got :a"},
            {Kernels.echo_ints([1.5]), "element 0: expected an integer, got a float"},
            {Kernels.echo_ints([0, 2 ** 63]),
             "element 1: the integer is out of range: expected -9223372036854775808 to"},
            {Kernels.echo_floats([1, %{}]), "element 1: expected a number, got a map"},
            {Kernels.echo_floats([1, 2 ** 1024]),
             "element 1: the integer is out of range: expected -1.7976931348623157e308"},
            {Kernels.echo_ints([1 | 2]), "expected ints, got an improper list"},
            {Kernels.echo_floats([1 | 2]), "expected floats, got an improper list"},
            {Kernels.echo_ints({1}), "expected ints, got a tuple"}
          ] do
        assert message(call) =~ ~r/^echo_[a-z]+\(\): argument 'x': #{Regex.escape(said)}/
      end

      # On a dirty scheduler too.
      assert message(Kernels.echo_ints(Enum.to_list(1..100_000) ++ [nil])) =~
               "element 100000: expected an integer, got nil"

      assert {:ok, _} = Kernels.echo_three([1, 2, 3])
      assert message(Kernels.echo_three([1])) == "echo_three(): argument 'x': expected ints[3], got 1 number"
    end
  end

  describe "what may be left out" do
    test "nil for what is optional" do
      assert Kernels.given() == {:ok, "nnnnnnnn"}
      assert Kernels.given(nil, nil, nil, nil, nil, nil, nil, nil) == {:ok, "nnnnnnnn"}
      counter = Kernels.counter_new!()
      assert Kernels.given(1, 2, true, "x", :a, [1], counter, f32([1])) == {:ok, "yyyyyyyy"}
      assert Kernels.given(1) == {:ok, "ynnnnnnn"}
      assert reason(Kernels.echo_tensor(nil)) == {:badarg, :x}
    end

    test "defaults" do
      assert Kernels.defaults() == {:ok, "-3 -2500 1 text 1 2:7"}
      assert Kernels.infinite() == {:ok, :neg_infinity}
      assert Kernels.defaults(1, 0.5, false, "other", :a, []) == {:ok, "1 0.5 0 other 0 0:0"}
      for arity <- 0..6, do: assert(function_exported?(Kernels, :defaults, arity))
      refute function_exported?(Kernels, :defaults, 7)
    end

    test "keywords" do
      assert Kernels.keywords(1, eps: 0.5) == {:ok, "1 1 0.5 1"}
      assert Kernels.keywords(1, eps: 0.5, mode: :mean) == {:ok, "1 0 0.5 0"}
      assert Kernels.keywords(1, eps: 0.5, eps: 2) == {:ok, "1 1 0.5 1"}
      assert reason(Kernels.keywords(1, eps: "x")) == {:badarg, :eps}
      assert_raise ArgumentError, "keywords(): missing option :eps", fn -> Kernels.keywords(1, mode: :mean) end
      assert_raise ArgumentError, "keywords(): unknown option :other", fn -> Kernels.keywords(1, other: 1) end

      for options <- [1, nil, [1], [{1, 2}], [:eps], [{:eps, 1} | 2]] do
        assert_raise ArgumentError, fn -> Kernels.keywords(1, options) end
      end
    end

    test "results" do
      assert Kernels.maybe(false) == {:ok, {nil, nil, nil, nil, nil}}
      assert {:ok, {t, 3, 0.5, false, "given"}} = Kernels.maybe(true)
      assert Tenon.to_list!(t) == [1.0, 1.0]
    end
  end

  describe "the first mistake" do
    test "is the one that is reported, in the order of the arguments" do
      {:ok, wide} = Tenon.from_list([1.0, 2.0], type: :f64)
      assert reason(Kernels.scale(wide, "x")) == {:mismatch, :x}
      assert reason(Kernels.scale(f32([1]), "x")) == {:badarg, :by}
      assert reason(Kernels.add(wide, :none)) == {:mismatch, :x}
      assert reason(Kernels.add(f32([1]), :none)) == {:badarg, :y}
      assert reason(Kernels.add_keywords(x: wide, y: 5)) == {:mismatch, :x}
    end
  end

  describe "names" do
    test "that Elixir does not have for variables" do
      assert Kernels.odd_names(1, 2, 3, 4, 5) == {:ok, 123_456}
      assert Kernels.odd_names(1, 2, 3, 4, 5, self: 7) == {:ok, 123_457}
    end

    test "more than 64 of them are not looked at" do
      assert Kernels.keywords(1, List.duplicate({:eps, 1.0}, 64)) == Kernels.keywords(1, eps: 1.0)

      for rest <- [[eps: 1.0], [:x], [none: 1]] do
        assert_raise ArgumentError, "keywords(): expected at most 64 options", fn ->
          Kernels.keywords(1, List.duplicate({:eps, 1.0}, 64) ++ rest)
        end
      end
    end

    test "of functions that Kernel has too" do
      assert Kernels.max(1, 2) == {:ok, 12}
      assert Kernels.max!(1) == 10
    end

    test "documentation and specs come from the library" do
      # Elixir 1.18 writes neither for modules of a test unless it is told to.
      before = for option <- [:docs, :debug_info], do: {option, Code.get_compiler_option(option)}
      Code.compiler_options(docs: true, debug_info: true)
      on_exit(fn -> Code.compiler_options(before) end)

      {:module, module, code, _} =
        Module.create(
          Tenon.LibraryTest.Documented,
          quote(do: use(Tenon.Library, path: unquote(Build.path("kernels")))),
          Macro.Env.location(__ENV__)
        )

      {:ok, {_, [{'Docs', docs}]}} = :beam_lib.chunks(code, ['Docs'])
      {:docs_v1, _, :elixir, _, %{"en" => "For the tests."}, _, functions} = :erlang.binary_to_term(docs)
      {_, _, [head], %{"en" => doc}, _} = List.keyfind(functions, {:function, :keywords, 2}, 0)
      assert head == "keywords(x, options)"
      assert doc =~ "    keywords(x: int, *, mode: 'mean'|'sum' = 'sum', eps: float) -> str"
      {_, _, [head], _, %{defaults: 6}} = List.keyfind(functions, {:function, :defaults, 6}, 0)
      assert head == ~S|defaults(i \\ -3, x \\ -2500.0, b \\ true, s \\ "text", e \\ :b, l \\ [7, -8])|
      {_, _, [head], _, _} = List.keyfind(functions, {:function, :odd_names, 6}, 0)
      assert head == "odd_names(n_, n, x, after_, options, options_ \\\\ [])"
      {:ok, specs} = Code.Typespec.fetch_specs(code)
      {_, [spec]} = List.keyfind(specs, {:echo_int, 1}, 0)
      quoted = Code.Typespec.spec_to_quoted(:echo_int, spec)
      assert Macro.to_string(quoted) == "echo_int(integer()) :: {:ok, integer()} | {:error, Tenon.Error.t()}"
      assert List.keyfind(specs, {:defaults, 0}, 0) && List.keyfind(specs, {:defaults!, 6}, 0)
      assert module.__info__(:functions)[:echo_int!] == 1
    end
  end

  describe "tensors" do
    test "of every layout and dtype" do
      for {type, values} <- [
            {{:f, 32}, [1.5, :nan]},
            {{:u, 8}, [1, 255]},
            {{:s, 64}, [-1, 2]},
            {{:bf, 16}, [1.0, :infinity]},
            {{:c, 64}, [{1.0, 2.0}, {3.0, :nan}]}
          ] do
        x = Tenon.from_list!(values, type: type)
        assert {:ok, y} = Kernels.echo_tensor(x)
        assert {y.type, Tenon.to_list!(y)} == {type, values}
      end

      x = Tenon.from_list!([[1, 2, 3], [4, 5, 6]], type: {:f, 32})
      assert Kernels.echo_tensor!(x).shape == {2, 3}
      column = x |> Tenon.slice!([0, 1], [2, 1]) |> Tenon.reshape!({2})
      assert Tenon.to_list!(Kernels.add!(column, column)) == [4.0, 10.0]
      assert reason(Kernels.echo_tensor(column)) == {:mismatch, :x}
      assert Kernels.echo_tensor!(Tenon.zeros!({0, 3}, type: {:f, 32})).shape == {0, 3}
    end

    test "as a binary with its type and shape" do
      floats = for x <- [1.0, 2.0, 3.0], into: <<>>, do: <<x::float-32-native>>
      assert Tenon.to_list!(Kernels.echo_tensor!({floats, {:f, 32}, {3}})) == [1.0, 2.0, 3.0]
      assert Tenon.to_list!(Kernels.echo_tensor!({floats, :f32, [3, 1]})) == [[1.0], [2.0], [3.0]]
      assert Tenon.to_list!(Kernels.add!({floats, :f32, {3}}, f32([1, 1, 1]))) == [2.0, 3.0, 4.0]
      # Part of a larger one, at an odd address, and at an odd bit.
      <<_, part::binary>> = <<0, floats::binary>>
      assert Tenon.to_list!(Kernels.echo_tensor!({part, :f32, {3}})) == [1.0, 2.0, 3.0]
      <<_::3, odd::binary-size(12), _::bits>> = <<0::3, floats::binary, 0::5>>
      assert Tenon.to_list!(Kernels.echo_tensor!({odd, :f32, {3}})) == [1.0, 2.0, 3.0]
      <<_, doubles::binary-size(800), _::binary>> = :binary.copy(<<0>>, 808)
      assert Kernels.misaligned({doubles, :f64, {100}}) == {:ok, 0}
      large = :binary.copy(<<1, 0, 0, 0>>, 50_000)
      <<_, large_part::binary>> = <<0, large::binary>>
      assert Tenon.to_binary!(Kernels.echo_tensor!({large_part, :s32, {50_000}})) == large
      assert Kernels.echo_tensor!({"", :f32, {0}}).shape == {0}

      assert reason(Kernels.echo_tensor({floats, :f32, {4}})) == {:size_mismatch, 16, 12}
      assert reason(Kernels.echo_tensor({floats, :f31, {3}})) == {:unsupported_type, :f31}
      assert reason(Kernels.echo_tensor({floats, :f32, {-3}})) == {:badarg, :x}
      assert reason(Kernels.echo_tensor({floats, :f32, {2 ** 62, 2 ** 62}})) == {:overflow, :x}

      for x <- [{1, :f32, {3}}, {floats, :f32, 3}, {floats, :f32}, {<<1::1>>, :f32, {1}}, {}] do
        assert reason(Kernels.echo_tensor(x)) == {:badarg, :x}
      end

      assert reason(Kernels.scale({floats, :f32, {3}}, 2)) == :readonly
    end

    test "that do not fit" do
      x = f32([1, 2, 3])
      assert reason(Kernels.add(x, f32([1, 2]))) == {:mismatch, :y}

      assert message(Kernels.add(x, f32([1, 2]))) ==
               "add(): argument 'y': dimension 0 is 2, but n = 3 from argument 'x'"

      {:error, error} = Kernels.add(x, Tenon.from_list!([1, 2, 3], type: {:s, 32}))
      assert {error.reason, error.function, error.argument} == {{:mismatch, :y}, :add, :y}
      assert error.message == "add(): argument 'y': expected f32[n], got s32[3] (Tenon.Tensor)\n  dtype is s32, not f32"

      assert reason(Kernels.add(x, [1, 2, 3])) == {:badarg, :y}
      assert message(Kernels.add([1, 2, 3], x)) == "add(): argument 'x': expected f32[n], got a list"

      for y <- [1, "x", %{}, nil, %{ref: make_ref()}, make_ref(), Kernels.counter_new!()] do
        assert reason(Kernels.add(x, y)) == {:badarg, :y}
      end

      assert reason(Kernels.count_up(-1)) == {:mismatch, :result}
      assert reason(Kernels.count_up(2 ** 62)) in [{:failed, :no_memory}, {:failed, :eoverflow}, {:mismatch, :result}]
      small = Tenon.slice!(Tenon.zeros!({100}, type: {:u, 8}), [1], [3])
      assert reason(Kernels.aligned(small)) == {:mismatch, :x}
    end

    test "results are written by Tenon's owner only" do
      {:ok, {a, b}} = Kernels.halves(f32([1, 2, 3]))
      assert {Tenon.to_list!(a), Tenon.to_list!(b)} == {[1.0], [2.0, 3.0]}
      assert Kernels.scale(b, 2) == :ok
      assert Kernels.scale!(b, 2) == :ok
      assert Tenon.to_list!(b) == [8.0, 12.0]
      assert Kernels.count_up!(3) |> Tenon.to_list!() == [0.0, 1.0, 2.0]
    end
  end

  describe "who may write" do
    test "in place, and not what is frozen" do
      x = f32([1, 2])
      assert Kernels.scale(x, 3) == :ok
      assert Tenon.to_list!(x) == [3.0, 6.0]
      assert Tenon.to_binary!(x) == <<3.0::float-32-native, 6.0::float-32-native>>
      assert reason(Kernels.scale(x, 3)) == :readonly
      assert message(Kernels.scale(x, 3)) == "scale(): argument 'x' is read-only, but must be writable; pass a copy"
      binary = Tenon.from_binary!(:binary.copy(<<0>>, 4096), {:f, 32})
      assert reason(Kernels.scale(binary, 3)) == :readonly
      assert {:ok, _} = Kernels.add(binary, binary)
    end

    test "one storage by several arguments" do
      x = f32([1, 2, 3, 4])
      {low, high} = {Tenon.slice!(x, [0], [2]), Tenon.slice!(x, [2], [2])}
      assert Kernels.swap(low, high) == :ok
      assert Tenon.to_list!(x) == [3.0, 4.0, 1.0, 2.0]
      assert {:error, %Tenon.Error{reason: :overlap, argument: :x}} = Kernels.swap(x, x)
      assert reason(Kernels.swap(low, Tenon.slice!(x, [1], [2]))) == :overlap
      assert Tenon.to_list!(x) == [3.0, 4.0, 1.0, 2.0]
      assert {:ok, _} = Kernels.add(x, x)
      # Nothing stayed taken.
      assert Kernels.scale(x, 1) == :ok
    end

    test "not while another process writes or reads" do
      {x, y} = {f32([1, 2]), f32([1, 2])}
      task = Task.async(fn -> Kernels.hold_written(x) end)
      Build.until(fn -> Kernels.is_holding!() end)
      assert reason(Kernels.scale(x, 2)) == :busy
      assert reason(Kernels.add(x, y)) == :busy
      assert reason(Kernels.add(y, x)) == :busy
      {:error, error} = Kernels.swap(y, x)
      assert {error.reason, error.argument} == {:busy, :x} or {error.reason, error.argument} == {:busy, :y}
      # What was granted before the refusal is given back.
      assert Kernels.scale(y, 1) == :ok
      Kernels.let_go!()
      assert Task.await(task, :infinity) == :ok
      assert Kernels.scale(x, 2) == :ok

      task = Task.async(fn -> Kernels.hold_read(x) end)
      Build.until(fn -> Kernels.is_holding!() end)
      assert reason(Kernels.scale(x, 2)) == :busy
      assert {:ok, _} = Kernels.add(x, y)
      Kernels.let_go!()
      assert Task.await(task, :infinity) == :ok
      assert Kernels.scale(x, 2) == :ok
    end

    test "a storage that is read and written by one call is written" do
      x = f32([1, 2, 3, 4])
      {low, high} = {Tenon.slice!(x, [0], [2]), Tenon.slice!(x, [2], [2])}
      task = Task.async(fn -> Kernels.hold_both(low, high) end)
      Build.until(fn -> Kernels.is_holding!() end)
      assert reason(Kernels.add(low, low)) == :busy
      Kernels.let_go!()
      assert Task.await(task, :infinity) == :ok
      assert {:ok, _} = Kernels.add(low, low)
    end

    test "a tensor that is released during a call is there until its end" do
      x = f32([1, 2])
      task = Task.async(fn -> Kernels.hold_read(x) end)
      Build.until(fn -> Kernels.is_holding!() end)
      assert Tenon.release(x) == :ok
      assert reason(Kernels.scale(x, 2)) == :released
      Kernels.let_go!()
      assert Task.await(task, :infinity) == :ok
    end

    test "a killed caller gives its storages back" do
      x = f32([1, 2])
      pid = spawn(fn -> Kernels.hold_written(x) end)
      Build.until(fn -> Kernels.is_holding!() end)
      Process.exit(pid, :kill)
      assert reason(Kernels.scale(x, 2)) == :busy
      Kernels.let_go!()
      Build.until(fn -> Kernels.scale(x, 2) == :ok end)
    end
  end

  describe "failures" do
    test "of a function" do
      {:error, error} = Kernels.fail(1, "what is wrong")
      assert {error.reason, error.message, error.function} == {{:failed, :einval}, "fail(): what is wrong", :fail}
      assert reason(Kernels.fail(13, "x")) == {:failed, :efailed}
      assert reason(Kernels.fail(2)) == {:failed, :no_memory}
      assert message(Kernels.fail(1, "")) == "fail(): it failed with TENON_EINVAL and gave no reason"
      assert message(Kernels.fail(1)) == "fail(): it failed with TENON_EINVAL and gave no reason"
      assert reason(Kernels.fail(99)) == {:failed, 99}

      # However long it is, it ends with a whole character.
      for character <- ["é", "€", "😀"], shift <- 0..3 do
        text = String.duplicate("a", shift) <> String.duplicate(character, 1000)
        "fail(): " <> told = message(Kernels.fail(1, text))
        assert String.starts_with?(text, told) and byte_size(told) > 790

        "echo_enum(): argument 'x': expected 'mean'|'two words'|'größe', got \"" <> told =
          message(Kernels.echo_enum(text))

        assert String.starts_with?(text, String.trim_trailing(told, "\"")) and byte_size(told) > 90
      end

      assert reason(Kernels.fail(-1)) == {:failed, -1}
      assert message(Kernels.fail(99)) == "fail(): it returned 99, which is not a valid status"
      assert Kernels.fail(0) == :ok
      assert_raise Tenon.Error, "fail(): what is wrong", fn -> Kernels.fail!(1, "what is wrong") end
    end

    test "garbage for every argument of every function" do
      garbage = [nil, 1, -1.5, :atom, "", <<1::3>>, [], [1 | 2], {}, {1, 2, 3}, %{}, %{ref: 1}, self(), make_ref()]

      garbage =
        garbage ++
          [fn -> 1 end, 2 ** 100, [nil], %{__struct__: Tenon.Tensor}, {"", {:f, 32}, {0}}, List.duplicate(1, 5000)]

      :rand.seed(:exsss, {1, 2, 3})
      waits = [:hold_read, :hold_written, :hold_both, :hold_read!, :hold_written!, :hold_both!]

      for {name, arity} <- Kernels.__info__(:functions), name not in waits, _ <- 1..50 do
        arguments = for _ <- 1..arity//1, do: Enum.random(garbage)

        try do
          case apply(Kernels, name, arguments) do
            :ok -> :ok
            {:ok, _} -> :ok
            {:error, %Tenon.Error{message: message}} -> assert String.valid?(message)
            _ -> assert name |> Atom.to_string() |> String.ends_with?(["!", "__"])
          end
        rescue
          error in [Tenon.Error, ArgumentError] -> assert is_binary(Exception.message(error))
        end
      end
    end

    test "the NIF itself is called with nonsense" do
      for arguments <- [[Kernels, 1, {}], [Kernels, 2 ** 50, {}], [:none, 0, {}]] do
        assert apply(Tenon.Nif, :call, arguments) == :unbound
      end

      for arguments <- [[Kernels, -1, {}], [Kernels, 0, []], [Kernels, "x", {}]] do
        assert_raise ArgumentError, fn -> apply(Tenon.Nif, :call, arguments) end
      end

      for argument <- [nil, {}, {0, "x"}, {0, "", []}, {0, "a\0b", []}, {-1, "x", []}, {0, "x", 1}] do
        assert_raise ArgumentError, fn -> Tenon.Nif.library_open(Kernels, argument) end
      end

      path = Build.path("kernels")

      for list <- [[1], [{1, 2}], [{"x", 1}], [{"x", :auto} | 1]] do
        assert {:error, _} = Tenon.Nif.library_open(:nobody, {0, path, list})
      end

      for path <- [nil, 1, "", "a\0b"], do: assert_raise(ArgumentError, fn -> Tenon.Nif.library_describe(path) end)
    end
  end

  describe "handles" do
    defp alive, do: elem(Kernels.counts!(), 0)

    # In a process of its own, so that nothing of it stays on our stack.
    defp in_process(function), do: function |> Task.async() |> Task.await(:infinity)

    test "are the library's own objects" do
      counter = Kernels.counter_new!(5)
      assert {Kernels.counter_next!(counter), Kernels.counter_next!(counter)} == {5, 6}
      assert in_process(fn -> Kernels.counter_next!(counter) end) == 7
      for x <- [nil, 1, make_ref(), f32([1]), "x"], do: assert(reason(Kernels.counter_next(x)) == {:badarg, :counter})

      assert message(Kernels.other_next(counter)) ==
               "other_next(): argument 'counter': expected handle('Other'), got a handle 'Counter' of kernels"
    end

    test "of another node" do
      encoded = :erlang.term_to_binary(Kernels.counter_new!())
      own = Atom.to_string(node())
      tags = [<<100, byte_size(own)::16, own::binary>>, <<119, byte_size(own), own::binary>>]
      counter = :erlang.binary_to_term(:binary.replace(encoded, tags, <<119, 3, "a@b">>))
      assert reason(Kernels.counter_next(counter)) == {:not_local, :a@b}
    end

    test "are destroyed once, with the last reference" do
      :erlang.garbage_collect()
      Build.until(fn -> alive() == 0 end)
      for _ <- 1..3, do: in_process(fn -> assert Kernels.counter_next!(Kernels.counter_new!(1)) == 1 end)
      Build.until(fn -> alive() == 0 end)

      table = :ets.new(:kept, [:public])
      in_process(fn -> :ets.insert(table, {1, Kernels.counter_new!(9)}) end)
      :erlang.garbage_collect()
      assert alive() == 1
      in_process(fn -> assert Kernels.counter_next!(:ets.lookup_element(table, 1, 2)) == 9 end)
      assert alive() == 1
      :ets.delete(table)
      Build.until(fn -> alive() == 0 end)
    end
  end

  describe "schedulers" do
    test "a normal one for little, a dirty one for much" do
      little = Tenon.zeros!({1000}, type: {:u, 8})
      much = Tenon.zeros!({32 * 1024}, type: {:u, 8})
      assert Kernels.is_dirty!(little) == false
      assert Kernels.is_dirty!(much) == true
      assert Kernels.is_dirty!({:binary.copy("x", 40_000), :u8, {40_000}}) == true
      assert Kernels.is_dirty_for_text!("x") == false
      assert Kernels.is_dirty_for_text!(String.duplicate("é", 20_000)) == true
      assert Kernels.is_dirty_for_list!([1]) == false
      assert Kernels.is_dirty_for_list!(Enum.to_list(1..5000)) == true
      assert elem(Kernels.is_dirty_for_result!(1000), 0) == false
      assert elem(Kernels.is_dirty_for_result!(100_000), 0) == true
      broadcast = Tenon.broadcast!(Tenon.zeros!({1}, type: {:u, 8}), {2 ** 40})
      assert Kernels.is_dirty!(broadcast) == true
    end

    test "as the function says, or the module" do
      little = Tenon.zeros!({1000}, type: {:u, 8})
      much = Tenon.zeros!({100_000}, type: {:u, 8})
      assert Kernels.is_dirty_always!(little) == true
      assert Kernels.is_dirty_never!(much) == false
      assert Kernels.is_dirty_by_option!(little) == true
      assert Kernels.is_normal_by_option!(much) == false
      # Another module has its own options.
      assert Same.is_dirty_by_option!(little) == false
      assert Same.is_normal_by_option!(much) == true
    end

    test "the same mistakes on both" do
      x = Tenon.zeros!({100_000}, type: {:f, 32})
      assert reason(Kernels.add(x, f32([1]))) == {:mismatch, :y}
      assert Kernels.scale(x, 2) == :ok
      Tenon.to_binary!(x)
      assert reason(Kernels.scale(x, 2)) == :readonly
    end
  end

  test "two modules share one library" do
    {_, calls} = Kernels.counts!()
    assert elem(Same.counts!(), 1) == calls + 1
    assert Same.counter_next!(Kernels.counter_new!(3)) == 3
  end

  test "nothing stays" do
    :erlang.garbage_collect()
    before = Map.take(Tenon.Case.settled(), [:live, :bytes])

    in_process(fn ->
      for _ <- 1..100 do
        x = Kernels.count_up!(10)
        Kernels.add(x, f32([1]))
        Kernels.scale(x, 2)
        Kernels.fail(1, "x")
        assert reason(Kernels.fail_late(10)) == {:failed, :einval}
      end
    end)

    assert Tenon.Case.eventually(fn -> Tenon.Case.back_to?(before) end)
  end
end
