alias Tenon.Test.Kernels, as: Build

Build.build!("kinds", Build.source("kinds.c"))

defmodule Tenon.LibraryKindsTest.Kinds do
  use Tenon.Library, path: Build.path("kinds")
end

defmodule Tenon.LibraryKindsTest do
  use Tenon.Case
  alias Tenon.LibraryKindsTest.Kinds

  defp message({:error, %Tenon.Error{message: message}}), do: message

  test "uint" do
    for x <- [0, 1, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF] do
      assert Kinds.echo_uint(x) == {:ok, x}
    end

    assert Kinds.echo_uint!() == 7

    for x <- [-1, 2 ** 64, -(2 ** 70)] do
      assert reason(Kinds.echo_uint(x)) == {:overflow, :x}

      assert message(Kinds.echo_uint(x)) ==
               "echo_uint(): argument 'x': the integer is out of range: expected 0 to 18446744073709551615 (64 bits)"
    end

    for x <- [1.0, "1", nil, true, [1]], do: assert(reason(Kinds.echo_uint(x)) == {:badarg, :x})
    assert message(Kinds.echo_uint(1.0)) == "echo_uint(): argument 'x': expected uint, got a float"
  end

  test "complex" do
    assert Kinds.echo_complex({1.5, -2}) == {:ok, {1.5, -2.0}}
    assert Kinds.echo_complex(3) == {:ok, {3.0, 0.0}}
    assert Kinds.echo_complex({:nan, :neg_infinity}) == {:ok, {:nan, :neg_infinity}}
    assert Kinds.echo_complex(%{__struct__: Complex, re: 1.0, im: 2.0}) == {:ok, {1.0, 2.0}}
    assert Kinds.echo_complex() == {:ok, {1.0, -2.0}}

    for x <- [{1}, {1, 2, 3}, {1, "2"}, %{re: 1}, %{}, "1j", nil, [1, 2]],
        do: assert(reason(Kinds.echo_complex(x)) == {:badarg, :x})

    assert reason(Kinds.echo_complex({1, 2 ** 2000})) == {:overflow, :x}
    assert message(Kinds.echo_complex({1, :j})) == "echo_complex(): argument 'x': expected complex, got a tuple"
  end

  test "bytes, without a copy" do
    for x <- ["", "text", <<0, 255>>, :binary.copy(<<1>>, 1000)], do: assert(Kinds.echo_bytes(x) == {:ok, x})
    assert Kinds.echo_bytes() == {:ok, nil}
    binary = :binary.copy(<<7>>, 1000)
    assert Kinds.same_bytes(binary, {binary, :u8, {1000}}) == {:ok, true}

    assert Kinds.same_bytes(binary_part(binary, 100, 100), Tenon.from_binary!(binary_part(binary, 100, 100), :u8)) ==
             {:ok, true}

    <<_::3, odd::binary-size(100), _::bitstring>> = binary
    assert Kinds.echo_bytes(odd) == {:ok, odd}
    for x <- [:bytes, 'bytes', ["b"], 1, <<1::3>>], do: assert(reason(Kinds.echo_bytes(x)) == {:badarg, :x})
    assert message(Kinds.echo_bytes(<<1::3>>)) == "echo_bytes(): argument 'x': expected bytes?, got a bitstring"
    # As other arguments, many of them go to a dirty scheduler.
    assert {Kinds.is_dirty!(binary), Kinds.is_dirty!(:binary.copy(binary, 100))} == {false, true}
    assert Kinds.is_dirty!("", List.duplicate("a", 10_000))
  end

  test "strings" do
    for x <- [[], [""], ["a", "größe", "a\0b"], List.duplicate("é", 5000)], do: assert(Kinds.echo_strs(x) == {:ok, x})
    assert Kinds.echo_strs!() == ["a", "b"]
    assert message(Kinds.echo_strs(["a", :b])) == "echo_strs(): argument 'x': element 1: expected a string, got :b"

    for x <- [<<0xFF>>, <<0xED, 0xA0, 0x80>>] do
      assert message(Kinds.echo_strs([x])) ==
               "echo_strs(): argument 'x': element 0: expected a string in UTF-8, got a binary"
    end

    for x <- ["ab", ["a" | "b"], %{}, [["a"]], nil, {"a"}], do: assert(reason(Kinds.echo_strs(x)) == {:badarg, :x})
    assert reason(Kinds.lie()) == {:failed, :efailed}
  end

  test "lists of numbers are results" do
    assert Kinds.echo_lists([1, -2], [1, :nan, 2.5]) == {:ok, {[1, -2], [1.0, :nan, 2.5]}}
    assert Kinds.echo_lists([], []) == {:ok, {[], []}}
  end

  test "dtypes" do
    for {type, bits} <- [
          {{:f, 32}, 32},
          {:f64, 64},
          {{:bf, 16}, 16},
          {:int, 32},
          {{:s, 8}, 8},
          {{:c, 128}, 128},
          {:bool, 8}
        ] do
      assert Kinds.bits(type) == {:ok, bits}
    end

    assert Kinds.bits!() == 32
    for type <- [:f33, {:f, 33}, "f32", nil, 32, {}], do: assert(reason(Kinds.bits(type)) == {:unsupported_type, type})
    assert Tenon.to_list!(Kinds.ones!(3, :u8)) == [1, 1, 1]
    assert Tenon.to_list!(Kinds.ones!(1, {:s, 16})) == [257]
    assert reason(Kinds.ones(1, {:f, 32})) == {:mismatch, :x}
  end

  test "choices of integers, and conditions" do
    for k <- [1, 2, 4], do: assert(Kinds.choose(k) == {:ok, k})
    assert Kinds.choose!() == 2
    assert reason(Kinds.choose(3)) == {:mismatch, :k}
    assert message(Kinds.choose(3)) =~ "choose(): argument 'k': expected 1|2|4, got 3"
    assert reason(Kinds.choose(:one)) == {:badarg, :k}
    assert reason(Kinds.ones(0, :u8)) == {:mismatch, :n}
    assert message(Kinds.ones(0, :u8)) =~ "expected n > 0, got n = 0"
  end

  test "arguments that are converted" do
    for type <- [:f64, :f32, :bf16, :u8, :s64, :bool] do
      assert Kinds.total(Tenon.from_list!([1, 0, 1], type: type)) == {:ok, 2.0}
    end

    matrix = Tenon.from_list!([[1, 2], [3, 4]], type: :f64)
    assert Kinds.total(Tenon.transpose!(matrix)) == {:ok, 10.0}
    assert Kinds.total({<<1, 2, 3>>, :u8, {3}}) == {:ok, 6.0}
    assert Kinds.total({<<0, 1.5::float-32-native>> |> binary_part(1, 4), :f32, {1}}) == {:ok, 1.5}
    # The copy counts too, when a scheduler is chosen.
    assert Kinds.total(Tenon.zeros!({30_000}, type: :u8)) == {:ok, 0.0}
    assert reason(Kinds.total(Tenon.zeros!({2}, type: :c64))) == {:mismatch, :x}
    assert reason(Kinds.total([1.0])) == {:badarg, :x}
  end

  test "batches" do
    f32 = &Tenon.from_list!(&1, type: :f32)
    assert Tenon.to_list!(Kinds.add!(f32.([[1, 2], [3, 4]]), f32.([10, 20]))) == [[11.0, 22.0], [13.0, 24.0]]
    assert Tenon.to_list!(Kinds.add!(f32.(1), f32.([[1], [2]]))) == [[2.0], [3.0]]
    assert Tenon.to_list!(Kinds.add!({<<1.0::float-32-native>>, :f32, {1}}, f32.([1, 2]))) == [2.0, 3.0]
    assert reason(Kinds.add(f32.([1, 2]), f32.([1, 2, 3]))) == {:mismatch, :y}
  end

  test "constants" do
    assert {Kinds.limit(), Kinds.scale(), Kinds.title(), Kinds.fast()} == {1024, -1.5, "kinds", true}
  end

  test "signatures from a file say the same" do
    texts = for {text, _, _} <- elem(elem(Tenon.Nif.library_describe(Build.path("kinds")), 1), 1), do: text
    {:ok, _, parsed} = Tenon.Signature.parse_file(Enum.join(texts, "\n"))
    {:ok, {_, described}} = Tenon.Nif.library_describe(Build.path("kinds"))
    by_name = Map.new(parsed, &{&1.name, &1})

    for {text, _, read} <- described do
      one = Tenon.Signature.described(text, read)
      other = by_name[one.name]
      assert {one.name, one.role, one.class} == {other.name, other.role, other.class}
      assert Enum.map(one.params, & &1.kind) == Enum.map(other.params, & &1.kind)
      assert Enum.map(one.params, & &1.choices) == Enum.map(other.params, & &1.choices)
      defaults = fn s -> for p <- s.params ++ s.results, p.kind != :dtype, do: p.default end
      assert defaults.(one) == defaults.(other)
    end

    assert {:error, message} = Tenon.Signature.parse("f(g: callable('(x: float) -> float'))")
    assert message =~ "a NIF cannot call functions of Elixir while it runs"
  end
end
