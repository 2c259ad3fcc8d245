defmodule TenonTest do
  use Tenon.Case
  doctest Tenon
  doctest Tenon.Blob

  describe "from_binary and to_binary" do
    test "hold the binary, and give that very binary back" do
      binary = large()
      tensor = Tenon.from_binary!(binary, {:s, 32})
      assert tensor.shape == {1024}
      assert tensor.byte_size == 4096
      refute Tenon.copied?(tensor)
      refute Tenon.writable?(tensor)
      assert Tenon.to_binary!(tensor) == binary
      assert :binary.referenced_byte_size(Tenon.to_binary!(tensor)) == :binary.referenced_byte_size(binary)
      part = Tenon.slice!(tensor, [256], [512])
      assert address(part) == address(tensor) + 1024
      assert Tenon.to_binary!(part) == binary_part(binary, 1024, 2048)
      assert :binary.referenced_byte_size(Tenon.to_binary!(part)) == :binary.referenced_byte_size(binary)
      assert address(Tenon.from_binary!(Tenon.to_binary!(part), :u8)) == address(part)
    end

    test "copy small binaries, unaligned ones and bits that do not start at a byte, and say so" do
      for {binary, reason} <- [
            {<<1, 2, 3, 4>>, :would_copy},
            {binary_part(large(), 1, 400), {:misaligned, 4, 1}},
            {binary_part(large(), 2, 400), {:misaligned, 4, 2}},
            {unaligned_bits(large()), :would_copy}
          ] do
        tensor = Tenon.from_binary!(binary, :f32)
        assert Tenon.copied?(tensor)
        refute Tenon.writable?(tensor)
        assert Tenon.to_binary!(tensor) == binary
        assert reason(Tenon.from_binary(binary, :f32, copy: :never)) == reason
      end
    end

    test "a copy that was asked for may be written" do
      tensor = Tenon.from_binary!(large(), :u8, copy: :always)
      assert Tenon.copied?(tensor)
      assert Tenon.writable?(tensor)
    end

    test "a sub-binary is held as it is" do
      part = binary_part(large(), 8, 800)
      tensor = Tenon.from_binary!(part, :s64, copy: :never)
      refute Tenon.copied?(tensor)
      assert Tenon.to_binary!(tensor) == part
    end

    test "without copying, memory of our own is frozen" do
      tensor = Tenon.zeros!({1000})
      assert Tenon.writable?(tensor)
      assert Tenon.to_binary!(tensor, copy: :always) == <<0::size(4000)-unit(8)>>
      assert Tenon.writable?(tensor)
      binary = Tenon.to_binary!(tensor)
      refute Tenon.writable?(tensor)
      assert address(Tenon.from_binary!(binary, :f32, copy: :never)) == address(tensor)
    end

    test "views that are not in C order need a copy" do
      tensor = Tenon.transpose!(Tenon.from_list!([[1, 2], [3, 4]], type: :u8))
      assert reason(Tenon.to_binary(tensor)) == :not_contiguous
      assert Tenon.to_binary!(tensor, copy: :allow) == <<1, 3, 2, 4>>
      assert Tenon.writable?(tensor)
    end

    test "large copies run elsewhere, with the same result" do
      binary = large(4 * 1024 * 1024)
      tensor = Tenon.from_binary!(binary, :u8, shape: {2048, 2048}, copy: :always)
      assert Tenon.to_binary!(tensor, copy: :always) == binary
      odd = binary_part(binary, 1, 4 * 1024 * 1024 - 4)
      assert Tenon.copied?(Tenon.from_binary!(odd, :f32))
      transposed = tensor |> Tenon.transpose!() |> Tenon.to_binary!(copy: :allow)
      assert binary_part(transposed, 0, 3) == <<0, 0, 0>>
      assert :binary.at(transposed, 2048) == 1
    end

    test "nothing in it" do
      tensor = Tenon.from_binary!(<<>>, :f32)
      assert tensor.shape == {0}
      assert Tenon.to_binary!(tensor) == <<>>
      assert Tenon.to_binary!(Tenon.zeros!({0, 3})) == <<>>
      assert Tenon.to_list!(Tenon.zeros!({2, 0})) == [[], []]
      assert Tenon.to_binary!(Tenon.slice!(Tenon.from_binary!(large(), :u8), [8], [0])) == <<>>
      full = Tenon.zeros!({3})

      for copy <- [:never, :allow, :always],
          do: assert(Tenon.to_binary!(Tenon.slice!(full, [0], [0]), copy: copy) == "")

      assert Tenon.writable?(full)
    end

    test "what is wrong" do
      assert reason(Tenon.from_binary(<<0, 1, 2>>, :f32)) == {:size_mismatch, 4, 3}
      assert message(Tenon.from_binary(<<0, 1, 2>>, :f32)) =~ "must be a multiple of 4, but is 3"
      assert reason(Tenon.from_binary(<<0, 1, 2>>, :u8, shape: {4})) == {:size_mismatch, 4, 3}
      assert reason(Tenon.from_binary(<<0>>, {:f, 24})) == {:unsupported_type, {:f, 24}}
      assert reason(Tenon.from_binary(<<0>>, {:u, 4})) == {:unsupported_type, {:u, 4}}
      assert reason(Tenon.from_binary(<<0>>, :u8, shape: {-1})) == {:badarg, :shape}
      assert reason(Tenon.from_binary(<<0>>, :f64, shape: {2 ** 62})) == {:overflow, :shape}
      assert reason(Tenon.from_binary(<<0>>, :u8, shape: :x)) == {:badarg, :shape}
      assert reason(Tenon.from_binary(<<0>>, :u8, copy: :maybe)) == {:badarg, :copy}
      assert reason(Tenon.from_binary(<<0::3>>, :u8)) == {:badarg, :binary}
      assert reason(Tenon.zeros({1_000_000_000_000, 1_000_000_000_000})) == {:overflow, :shape}
      assert reason(Tenon.zeros({1_000_000_000_000_000})) == {:failed, :no_memory}
      assert_raise ArgumentError, fn -> Tenon.zeros({1}, typ: :f32) end
      assert_raise Tenon.Error, ~r/from_binary\(\): argument 'binary'/, fn -> Tenon.from_binary!(1, :u8) end
    end
  end

  defp message({:error, %Tenon.Error{message: message}}), do: message

  defp unaligned_bits(binary) do
    <<_::4, rest::binary-size(800), _::bitstring>> = binary
    rest
  end

  describe "lists" do
    test "of every type come back" do
      for type <- [{:s, 8}, {:s, 16}, {:s, 32}, {:s, 64}, {:u, 8}, {:u, 16}, {:u, 32}, {:u, 64}] do
        {kind, bits} = type
        {low, high} = if kind == :s, do: {-(2 ** (bits - 1)), 2 ** (bits - 1) - 1}, else: {0, 2 ** bits - 1}
        assert_list([low, 0, 1, high], type)
        assert reason(Tenon.from_list([high + 1], type: type)) == {:badarg, :list}
        assert reason(Tenon.from_list([low - 1], type: type)) == {:badarg, :list}
        assert reason(Tenon.from_list([1.0], type: type)) == {:badarg, :list}
      end

      for type <- [{:f, 16}, {:bf, 16}, {:f, 32}, {:f, 64}, {:f, 8}, {:f8_e3m4, 8}, {:f8_e4m3, 8}] do
        assert_list([0.0, -1.5, 1.0, :nan, :infinity, :neg_infinity], type)
      end

      for type <- [{:f8_e4m3fn, 8}, {:f8_e4m3fnuz, 8}, {:f8_e5m2fnuz, 8}, {:f8_e4m3b11fnuz, 8}] do
        assert_list([0.0, -1.5, 1.0, :nan], type)
        assert reason(Tenon.from_list([:infinity], type: type)) == {:badarg, :list}
      end

      assert_list([{1.0, -2.0}, {0.0, :infinity}], {:c, 64})
      assert_list([{1.0, -2.0}, {:nan, 0.5}], {:c, 128})
      assert_list([true, false], {:bool, 8})
      assert Tenon.to_list!(Tenon.from_list!([1, 2], type: {:c, 64})) == [{1.0, 0.0}, {2.0, 0.0}]
      assert Tenon.to_list!(Tenon.from_list!(5)) == 5
    end

    test "infer their type" do
      assert Tenon.from_list!([1, 2]).type == {:s, 64}
      assert Tenon.from_list!([1, 2.0]).type == {:f, 32}
      assert Tenon.from_list!([1, :nan]).type == {:f, 32}
      assert Tenon.from_list!([1.0, {1, 2}]).type == {:c, 64}
      assert Tenon.from_list!([true]).type == {:bool, 8}
      assert Tenon.from_list!([]).type == {:f, 32}
    end

    test "floats: rounded to nearest, never to infinity; integers of any size" do
      assert Tenon.to_list!(Tenon.from_list!([2049, 2051, 65_504], type: {:f, 16})) == [2048.0, 2052.0, 65_504.0]
      assert reason(Tenon.from_list([65_520], type: {:f, 16})) == {:badarg, :list}
      assert reason(Tenon.from_list([1.0e39], type: {:f, 32})) == {:badarg, :list}
      assert Tenon.to_list!(Tenon.from_list!([2 ** 200, -(2 ** 70) - 1], type: {:f, 64})) == [2.0 ** 200, -(2.0 ** 70)]
      assert reason(Tenon.from_list([2 ** 2000], type: {:f, 64})) == {:badarg, :list}
      # The smallest numbers, where the exponent ends.
      assert Tenon.to_list!(Tenon.from_list!([2.0 ** -24, 2.0 ** -26], type: {:f, 16})) == [2.0 ** -24, 0.0]
    end

    test "of every 8-bit and 16-bit float decode and encode alike" do
      for {type, bits} <-
            [{{:f, 16}, 16}, {{:bf, 16}, 16}] ++
              Enum.map(~w(f8_e3m4 f8_e4m3 f8_e4m3fn f8_e4m3fnuz f8_e4m3b11fnuz f8_e5m2 f8_e5m2fnuz)a, &{&1, 8}) do
        all = for value <- 0..(2 ** bits - 1), into: <<>>, do: <<value::size(bits)-native>>
        list = Tenon.to_list!(Tenon.from_binary!(all, type))
        again = Tenon.to_binary!(Tenon.from_list!(list, type: type))
        numbers = Enum.zip([list, values(all, bits), values(again, bits)])
        assert Enum.all?(numbers, fn {value, was, is} -> value == :nan or was == is end)
      end
    end

    defp values(binary, bits), do: for(<<value::size(bits)-native <- binary>>, do: value)

    test "too many of them, or of a type that has none" do
      for tensor <- [Tenon.zeros!({2 ** 40, 0}), Tenon.broadcast!(Tenon.zeros!({1}), {2 ** 40, 2 ** 10})] do
        assert reason(Tenon.Nif.to_list(tensor)) == {:failed, :no_memory}
      end

      assert message(Tenon.Nif.to_list(Tenon.zeros!({1}, type: {:f, 128}))) =~ "no numbers of this type"
      assert message(Tenon.from_list([1], type: {:f, 128})) =~ "no numbers of this type"

      for {list, type, said} <- [
            {[:x], :s8, "element [0]: :x is not a value of type s8, or is out of its range"},
            {[[1, 2], [3, 300]], :u8, "element [1][1]: 300 is out of the range of u8, 0 to 255"},
            {[0, -129], :s8, "element [1]: -129 is out of the range of s8, -128 to 127"},
            {[1.5], :s16, "element [0]: 1.5 is not a value of type s16"},
            {2 ** 63, :s64,
             "9223372036854775808 is out of the range of s64, -9223372036854775808 to 9223372036854775807"},
            {[-1], :u64, "element [0]: -1 is out of the range of u64, 0 to 18446744073709551615"},
            {[[[0.0], [1.0e6]]], :f16, "element [0][1][0]: 1000000 is not a value of type f16, or is out of its range"}
          ] do
        assert message(Tenon.from_list(list, type: type)) =~ "from_list(): argument 'list': " <> said
      end
    end

    test "with nested levels, and what is wrong with them" do
      nested = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
      assert Tenon.from_list!(nested).shape == {2, 2, 2}
      assert Tenon.to_list!(Tenon.from_list!(nested)) == nested
      long = Enum.map(1..100, fn i -> Enum.to_list(i..(i + 99)) end)
      assert Tenon.to_list!(Tenon.from_list!(long)) == long

      for bad <- [[1, [2]], [[1], 2], [[1], [2, 3]], [1 | 2], [[1] | [2 | 3]], :x, %{}, ["a"], [nil], [{1, 2, 3}]] do
        assert reason(Tenon.from_list(bad)) == {:badarg, :list}
      end

      deep = Enum.reduce(1..65, 1, fn _, list -> [list] end)
      assert reason(Tenon.from_list(deep)) == {:badarg, :list}
    end

    defp assert_list(list, type) do
      tensor = Tenon.from_list!(list, type: type)
      assert tensor.type == type
      assert Tenon.to_list!(tensor) === list
    end
  end

  describe "types" do
    test "by all their names" do
      for {names, type} <- [
            {[:f32, :float32, :float, {:f, 32}], {:f, 32}},
            {[:f64, :float64, :double], {:f, 64}},
            {[:f16, :half], {:f, 16}},
            {[:bf16, :bfloat16], {:bf, 16}},
            {[:s64, :i64, :int64, :long], {:s, 64}},
            {[:s32, :int], {:s, 32}},
            {[:s16, :short], {:s, 16}},
            {[:s8, :char], {:s, 8}},
            {[:u8, :byte, :uint8], {:u, 8}},
            {[:bool, {:bool, 8}], {:bool, 8}},
            {[:c64, :complex64], {:c, 64}},
            {[:f8_e5m2, {:f, 8}], {:f, 8}}
          ],
          name <- names do
        assert Tenon.zeros!({1}, type: name).type == type
      end

      for bad <- [
            :f31,
            :f32x4,
            {:f, 32, 1},
            {:i, 32},
            {:float32, 32},
            "f32",
            32,
            nil,
            {:f, 0},
            {:f, -32},
            {:f, 2 ** 70}
          ] do
        assert reason(Tenon.zeros({1}, type: bad)) == {:unsupported_type, bad}
      end
    end
  end

  describe "release" do
    test "gives up the handle; other users keep the memory" do
      tensor = Tenon.zeros!({1000})
      before = Tenon.stats().bytes
      view = Tenon.slice!(tensor, [10], [10])
      assert Tenon.release(tensor) == :ok
      assert Tenon.release(tensor) == :ok
      assert Tenon.stats().bytes == before
      assert Tenon.to_list!(view) == List.duplicate(0.0, 10)

      for {_, result} <- [
            a: Tenon.to_binary(tensor),
            b: Tenon.slice(tensor, [0], [1]),
            c: Tenon.reshape(tensor, {1, 1000}),
            d: Tenon.Nif.to_list(tensor),
            e: Tenon.Nif.writable(tensor),
            f: Tenon.Nif.to_blob(tensor)
          ] do
        assert reason(result) == :released
      end

      assert inspect(tensor) == "#Tenon.Tensor<\n  f32[1000]\n  (:released)\n>"
      binary = Tenon.to_binary!(view)
      assert Tenon.release(view) == :ok
      assert binary == <<0::size(40)-unit(8)>>
    end

    test "frees at once where nobody else is there" do
      before = Tenon.stats().bytes
      tensor = Tenon.zeros!({1000})
      assert Tenon.stats().bytes == before + 4000
      Tenon.release(tensor)
      assert eventually(fn -> Tenon.stats().bytes == before end)
      assert tensor.shape == {1000}
    end
  end

  describe "inspect" do
    test "is as in Nx" do
      assert inspect(Tenon.from_list!([1.0, :nan, :neg_infinity])) ==
               "#Tenon.Tensor<\n  f32[3]\n  [1.0, :nan, :neg_infinity]\n>"

      assert inspect(Tenon.from_list!([[1, 2], [3, 4]], type: :u8)) ==
               "#Tenon.Tensor<\n  u8[2][2]\n  [\n    [1, 2],\n    [3, 4]\n  ]\n>"

      assert inspect(Tenon.from_list!(7)) == "#Tenon.Tensor<\n  s64\n  7\n>"
    end

    test "reads only what it shows" do
      tensor = Tenon.broadcast!(Tenon.from_list!([1]), {1_000_000_000, 1_000_000_000})
      text = inspect(tensor, limit: 3)
      assert text == "#Tenon.Tensor<\n  s64[1000000000][1000000000]\n  [\n    [1, 1, 1, ...],\n    ...\n  ]\n>"
    end

    test "takes whatever is in the struct" do
      tensor = Tenon.zeros!({2})
      assert inspect(%{tensor | shape: {3}}) =~ "{:badarg, :lengths}"
      assert inspect(%{tensor | shape: :x}) =~ "Tenon.Tensor"
      assert inspect(%{tensor | shape: {:a, "b"}, type: nil}) =~ "Tenon.Tensor"
      assert inspect(%{tensor | ref: 1}) =~ "{:badarg, :tensor}"
    end
  end

  test "options: the first of two counts, and more than 64 are not looked at" do
    assert Tenon.zeros!({1}, type: :u8, type: :f64).type == {:u, 8}
    assert Tenon.zeros!({1}, List.duplicate({:type, :u8}, 64)).type == {:u, 8}
    many = List.duplicate({:type, :u8}, 64)

    for rest <- [[type: :u8], [1], [typ: 1], [1 | 2]] do
      assert_raise ArgumentError, "expected at most 64 options", fn -> Tenon.zeros({1}, many ++ rest) end
    end

    assert_raise ArgumentError, ~r/^unknown option :typ; the options are :type$/, fn -> Tenon.zeros({1}, typ: 1) end
    assert_raise ArgumentError, ~r/a keyword list of options, got 1$/, fn -> Tenon.zeros({1}, [{:type, :u8} | 1]) end
    assert_raise ArgumentError, ~r/a keyword list of options, got a map$/, fn -> Tenon.zeros({1}, %{}) end
  end

  test "the struct is a cache: only ref counts" do
    tensor = Tenon.from_list!([1, 2, 3])
    liar = %{tensor | shape: {1_000_000}, type: {:f, 64}, byte_size: 8_000_000, strides: [7], device: :moon}
    assert Tenon.to_list!(liar) == [1, 2, 3]
    assert Tenon.reshape!(liar, {3, 1}).shape == {3, 1}
  end

  test "stats" do
    before = Tenon.stats()
    tensor = Tenon.zeros!({100}, type: :u8)
    assert Tenon.stats() == %{before | live: before.live + 1, bytes: before.bytes + 100}
    assert tensor.byte_size == 100
  end

  test "include_dir has the headers" do
    assert File.exists?(Path.join(Tenon.include_dir(), "tenon/function.h"))
    assert File.exists?(Path.join(Tenon.include_dir(), "tenon/nif.h"))
  end

  test "f8 is Nx's float of 8 bits, as an atom too" do
    assert Tenon.zeros!({1}, type: :f8).type == {:f, 8}
    assert Tenon.to_list!(Tenon.from_list!([1.5], type: :f8)) == [1.5]

    assert Tenon.from_binary!(<<0x3E>>, :f8) |> Tenon.to_list!() ==
             Tenon.from_binary!(<<0x3E>>, {:f, 8}) |> Tenon.to_list!()

    assert Tenon.zeros!({1}, type: :f8_e5m2).type == {:f, 8}
  end

  test "shapes and axes say which element is wrong" do
    range = "is out of range (-9223372036854775808 to 9223372036854775807)"
    t = Tenon.zeros!({2, 3})

    for {call, said} <- [
          {Tenon.zeros({2, 2 ** 63}),
           "argument 'shape': expected a tuple or list of up to 64 integers; element 1 #{range}"},
          {Tenon.zeros([2, :x]), "element 1 is :x"},
          {Tenon.from_binary(<<1>>, :u8, shape: [1.0]), "element 0 is a float"},
          {Tenon.slice(t, [0, 2 ** 70], [1, 1]),
           "argument 'starts': expected a list of one integer for each dimension; " <>
             "element 1 #{range}"},
          {Tenon.transpose(t, axes: [0, nil]), "element 1 is nil"},
          {Tenon.broadcast(t, {2, 2, "3"}), "element 2 is a binary"},
          {Tenon.squeeze(t, axes: [-(2 ** 63) - 1]), "element 0 #{range}"},
          {Tenon.Nif.from_blob({4096, {1, 2 ** 64}, nil, :u8, :cpu, nil, false, nil}, false, nil, []),
           "element 1 #{range}"},
          {Tenon.Nif.from_blob({4096, {1}, [self()], :u8, :cpu, nil, false, nil}, false, nil, []),
           "element 0 is a pid"},
          {Tenon.zeros([1 | 2]), "expected a tuple or list of up to 64 integers"},
          {Tenon.zeros(List.duplicate(1, 65)), "expected a tuple or list of up to 64 integers"},
          {Tenon.zeros(Tuple.duplicate(1, 65)), "expected a tuple or list of up to 64 integers"}
        ] do
      assert message(call) |> String.ends_with?(said)
    end
  end
end
