defmodule Tenon.NxTest do
  use Tenon.Case

  defp nx(binary, type, shape), do: apply(Nx, :reshape, [apply(Nx, :from_binary, [binary, type]), shape])

  test "to Nx and back it is the same memory" do
    tensor = Tenon.zeros!({10, 10})
    there = Tenon.Nx.to_nx!(tensor)
    assert {apply(Nx, :type, [there]), apply(Nx, :shape, [there])} == {{:f, 32}, {10, 10}}
    refute Tenon.writable?(tensor)
    back = Tenon.Nx.from_nx!(there)
    assert {back.type, back.shape} == {{:f, 32}, {10, 10}}
    assert address(back) == address(tensor)
  end

  test "from Nx" do
    binary = for number <- 1..100, into: <<>>, do: <<number * 1.0::float-32-native>>
    tensor = Tenon.Nx.from_nx!(nx(binary, {:f, 32}, {4, 25}))
    assert tensor.shape == {4, 25}
    assert Tenon.to_binary!(tensor) == binary
    refute Tenon.writable?(tensor)
  end

  test "what Nx does not have, or what needs a copy" do
    assert apply(Nx, :type, [Tenon.Nx.to_nx!(Tenon.from_list!([true]))]) == {:u, 8}
    assert reason(Tenon.Nx.to_nx(Tenon.zeros!({1}, type: :f8_e3m4))) == {:unsupported_type, {:f8_e3m4, 8}}
    assert reason(Tenon.Nx.to_nx(Tenon.zeros!({1}, type: :c32))) == {:unsupported_type, {:c, 32}}
    transposed = Tenon.transpose!(Tenon.from_list!([[1, 2], [3, 4]]))
    assert reason(Tenon.Nx.to_nx(transposed)) == :not_contiguous
    assert Tenon.to_list(Tenon.Nx.from_nx!(Tenon.Nx.to_nx!(transposed, copy: :allow))) == [[1, 3], [2, 4]]
    assert reason(Tenon.Nx.to_nx(:x)) == {:badarg, :tensor}
    assert_raise Tenon.Error, ~r/^to_nx\(\): argument 'tensor'/, fn -> Tenon.Nx.to_nx!(:x) end
    assert reason(Tenon.Nx.from_nx(:x)) == {:badarg, :tensor}
    assert_raise ArgumentError, fn -> Tenon.Nx.from_nx(:x, devise: :cpu) end
  end

  test "the fields of the struct are not what counts" do
    tensor = Tenon.zeros!({2, 2})

    for changed <- [%{tensor | type: {:s, 32}}, %{tensor | shape: {4}}] do
      there = Tenon.Nx.to_nx!(changed)
      assert {apply(Nx, :type, [there]), apply(Nx, :shape, [there])} == {{:f, 32}, {2, 2}}
    end
  end

  test "to_pointer" do
    tensor = Tenon.from_list!([[1.0, 2.0], [3.0, 4.0]])
    assert {pointer, ^tensor} = Tenon.Nx.to_pointer!(tensor)
    assert {pointer.kind, pointer.address, pointer.data_size} == {:local, address(tensor), 16}
    assert reason(Tenon.Nx.to_pointer(Tenon.transpose!(tensor))) == :not_contiguous
  end

  unless System.get_env("NX_PATH") do
    test "another backend's memory, through its pointer" do
      memory = Tenon.from_list!(Enum.to_list(1..6), type: :f32)
      tensor = struct!(Nx.Tensor, data: memory, type: {:f, 32}, shape: {2, 3})
      shared = Tenon.Nx.from_nx!(tensor, device: :cpu)
      assert Tenon.to_list(shared) == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
      assert address(shared) == address(memory)
      assert address(Tenon.Nx.from_nx!(tensor)) != address(memory)
      assert reason(Tenon.Nx.from_nx(%{tensor | shape: {2, 4}}, device: :cpu)) == {:badarg, :data_size}
      assert reason(Tenon.Nx.from_nx(tensor, device: :moon)) == {:badarg, :device}
      assert reason(Tenon.Nx.from_nx(tensor, device: {:cuda, 0})) == {:device_mismatch, :cpu, {:cuda, 0}}
      there = Tenon.Blob.from_blob(%{ptr: 4096, shape: {6}, dtype: :f32, device: {:cuda, 0}})
      assert Tenon.Nx.from_nx!(%{tensor | data: there}, device: {:cuda, 0}).device == {:cuda, 0}
    end

    test "the tensor alone keeps that backend's tensor alive" do
      shared =
        in_process(fn ->
          memory = Tenon.from_list!(Enum.to_list(1..100), type: :f32)
          Tenon.Nx.from_nx!(struct!(Nx.Tensor, data: memory, type: {:f, 32}, shape: {100}), device: :cpu)
        end)

      settled()
      assert Enum.sum(Tenon.to_list(shared)) == 5050.0
    end
  end
end
