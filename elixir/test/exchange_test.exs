defmodule Tenon.ExchangeTest do
  use Tenon.Case
  alias Tenon.OtherNif
  alias Tenon.Test.Kernels, as: Build

  describe "from_resource" do
    test "takes another NIF's tensor without copying, and its deleter runs once, off the schedulers" do
      {deleted, on_scheduler, signals_open} = OtherNif.counts()

      in_process(fn ->
        tensor = Tenon.from_resource!(OtherNif.source(5), OtherNif.type())
        assert {tensor.type, tensor.shape} == {{:f, 32}, {5}}
        assert Tenon.to_list!(tensor) == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert Tenon.to_list!(Tenon.slice!(tensor, [1], [2])) == [1.0, 2.0]
        assert Tenon.writable?(tensor)
        assert reason(Tenon.to_binary(tensor)) == :would_copy
        Tenon.release(tensor)
        Tenon.release(tensor)
      end)

      assert eventually(fn -> OtherNif.counts() == {deleted + 1, on_scheduler, signals_open} end)
      assert {on_scheduler, signals_open} == {0, 0}
    end

    test "immutable and read-only" do
      trusted = Tenon.from_resource!(OtherNif.source(100), OtherNif.type(), immutable: true)
      binary = Tenon.to_binary!(trusted)
      Tenon.release(trusted)
      settled()
      assert <<0.0::float-32-native, 1.0::float-32-native, _::binary>> = binary
      refute Tenon.writable?(trusted = Tenon.from_resource!(OtherNif.source(1), OtherNif.type(), immutable: true))
      Tenon.release(trusted)
      read_only = Tenon.from_resource!(OtherNif.source(1, kind: :read_only), OtherNif.type())
      refute Tenon.writable?(read_only)
      assert reason(Tenon.to_binary(read_only)) == :would_copy
      assert [0.0] == Tenon.to_list!(Tenon.from_resource!(OtherNif.source(1, kind: :no_deleter), OtherNif.type()))
    end

    test "what is wrong, with each struct given back" do
      {deleted, on_scheduler, _} = OtherNif.counts()
      take = fn kind -> reason(Tenon.from_resource(OtherNif.source(3, kind: kind), OtherNif.type())) end
      assert take.(:bad_version) == {:badarg, :resource}
      assert take.(:bad_shape) == {:badarg, :resource}
      assert take.(:lanes) == {:unsupported_type, :f32x2}
      assert take.(:bad_dtype) == {:unsupported_type, :unknown}
      assert take.(:misaligned) == {:misaligned, 4, 1}

      assert eventually(fn ->
               match?({_, ^on_scheduler, _}, OtherNif.counts()) and elem(OtherNif.counts(), 0) == deleted + 5
             end)

      assert take.(:nothing) == {:failed, -1}
      assert take.(:busy) == :busy
      assert take.(:refuses) == :readonly
      assert take.(:no_memory) == {:failed, :no_memory}
      {:error, error} = Tenon.from_resource(OtherNif.source(1, kind: :nothing), OtherNif.type())
      assert error.message =~ "did not answer"
      source = OtherNif.source(1)
      assert reason(Tenon.from_resource(source, OtherNif.type(), immutable: 1)) == {:badarg, :immutable}
      assert reason(Tenon.from_resource(source, {OtherNif, :other})) == {:badarg, :type}
      assert reason(Tenon.from_resource(source, {Nowhere, :source})) == {:badarg, :type}
      assert reason(Tenon.from_resource(source, :x)) == {:badarg, :type}
      assert reason(Tenon.from_resource(make_ref(), OtherNif.type())) == {:badarg, :type}
      assert reason(Tenon.from_resource(:x, OtherNif.type())) == {:badarg, :resource}
    end

    test "our own tensors too" do
      tensor = Tenon.from_list!([1.0, 2.0])
      again = Tenon.from_resource!(tensor.ref, {Tenon.Nif, :tenon_tensor_1})
      assert Tenon.to_list!(again) == [1.0, 2.0]
      assert address(again) == address(tensor)
      refute Tenon.writable?(again)
    end
  end

  describe "another NIF" do
    test "reads a tensor, and counts as a reader until it gives it back" do
      tensor = Tenon.slice!(Tenon.from_list!([1.0, 2.0, 3.0, 4.0]), [0], [4], strides: [2])
      {:ok, held} = OtherNif.hold(tensor.ref, 0)
      {:ok, second} = OtherNif.hold(tensor.ref, 0)
      assert {4.0, flags} = OtherNif.sum(held)
      assert rem(flags, 2) == 1
      assert OtherNif.hold(tensor.ref, 1) == {:error, 3}
      Tenon.release(tensor)
      settled()
      assert {4.0, _} = OtherNif.sum(held)
      OtherNif.drop(held)
      OtherNif.drop(second)
      assert OtherNif.hold(tensor.ref, 0) == {:error, 2}
    end

    test "writes one alone: others are told that it is busy" do
      tensor = Tenon.zeros!({3})
      view = Tenon.slice!(tensor, [1], [2])
      {:ok, held} = OtherNif.hold(view.ref, 1)
      OtherNif.fill(held, 7.0)
      assert reason(Tenon.Nif.to_list(tensor)) == :busy
      assert reason(Tenon.to_binary(tensor)) == :busy
      assert reason(Tenon.to_binary(tensor, copy: :always)) == :busy
      assert OtherNif.hold(tensor.ref, 0) == {:error, 3}
      assert OtherNif.hold(tensor.ref, 1) == {:error, 3}
      assert inspect(tensor) =~ "(:busy)"
      OtherNif.drop(held)
      assert Tenon.to_list!(tensor) == [0.0, 7.0, 7.0]
      Tenon.to_binary!(tensor)
      assert OtherNif.hold(tensor.ref, 1) == {:error, 4}
      assert OtherNif.hold(Tenon.from_binary!(large(), :f32).ref, 1) == {:error, 4}
      assert OtherNif.hold(tensor.ref, 2) == {:error, 1}
      repeated = Tenon.broadcast!(Tenon.zeros!({1}), {9})
      assert OtherNif.hold(repeated.ref, 1) == {:error, 6}
      assert {:ok, _} = OtherNif.hold(repeated.ref, 0)
    end

    test "a struct that is forgotten comes back by garbage collection" do
      tensor = Tenon.zeros!({3})
      in_process(fn -> {:ok, _} = OtherNif.hold(tensor.ref, 1) end)
      assert eventually(fn -> match?({:ok, _}, Tenon.Nif.to_list(tensor)) end)
    end

    test "two that want to write at once: one gets it" do
      tensor = Tenon.zeros!({1000})
      refused = :counters.new(1, [])

      # The first one that gets it waits until another one does not.
      hold = fn _ ->
        with {:ok, held} <- OtherNif.hold(tensor.ref, 1) do
          Build.until(fn -> :counters.get(refused, 1) > 0 end)
          Process.sleep(1)
          OtherNif.drop(held)
        else
          refusal ->
            :counters.add(refused, 1, 1)
            refusal
        end
      end

      results =
        1..200
        |> Task.async_stream(hold, max_concurrency: 50, timeout: :infinity)
        |> Enum.map(fn {:ok, result} -> result end)

      assert :ok in results
      assert {:error, 3} in results
      assert Enum.uniq(results) -- [:ok, {:error, 3}] == []
      assert {:ok, _} = OtherNif.hold(tensor.ref, 1)
    end
  end
end
