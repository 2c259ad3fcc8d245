defmodule Tenon.LifetimeTest do
  use Tenon.Case
  alias Tenon.Test.Kernels, as: Build

  describe "any term alone keeps the memory" do
    test "a view, after its tensor and its process are gone" do
      view =
        in_process(fn ->
          Tenon.slice!(Tenon.from_list!(Enum.to_list(1..1000)), [500], [3])
        end)

      settled()
      assert Tenon.to_list!(view) == [501, 502, 503]
    end

    test "a binary, a sub-binary of it, in ETS and in another process" do
      table = :ets.new(:table, [:public])
      before = Tenon.stats().bytes

      in_process(fn ->
        # Small enough to be Tenon's own memory; larger ones are the runtime's (memory_test.exs).
        binary = Tenon.to_binary!(Tenon.from_list!(Enum.to_list(1..500), type: :u16))
        :ets.insert(table, {:part, binary_part(binary, 500, 200)})
      end)

      settled()
      assert Tenon.stats().bytes == before + 1000

      in_process(fn ->
        [{:part, part}] = :ets.lookup(table, :part)
        assert for(<<number::16-native <- part>>, do: number) == Enum.to_list(251..350)
      end)

      :ets.delete(table)
      assert eventually(fn -> Tenon.stats().bytes == before end)
    end

    test "a tensor in ETS, and a held binary whose process is gone" do
      table = :ets.new(:table, [:public])
      in_process(fn -> :ets.insert(table, {:tensor, Tenon.from_binary!(large(), :u8)}) end)
      settled()
      [{:tensor, tensor}] = :ets.lookup(table, :tensor)
      assert Tenon.to_binary!(tensor) == large()
      :ets.delete(table)
    end

    test "a binary, after the tensor was released" do
      tensor = Tenon.from_list!(Enum.to_list(1..100), type: :u8)
      binary = Tenon.to_binary!(tensor)
      Tenon.release(tensor)
      settled()
      assert binary == :binary.list_to_bin(Enum.to_list(1..100))
    end
  end

  test "a binary never changes: as a key it is found again" do
    tensor = Tenon.zeros!({100})
    key = Tenon.to_binary!(tensor)
    map = %{key => :found}
    assert {:error, 4} = Tenon.OtherNif.hold(tensor.ref, 1)
    assert map[:binary.copy(key)] == :found
  end

  test "10,000 processes share one tensor" do
    tensor = Tenon.from_list!(Enum.to_list(0..9999))

    sum =
      0..9999
      |> Enum.map(fn i ->
        Task.async(fn ->
          [value] = Tenon.to_list!(Tenon.slice!(tensor, [i], [1]))
          value
        end)
      end)
      |> Enum.map(&Task.await(&1, :infinity))
      |> Enum.sum()

    assert sum == div(9999 * 10_000, 2)
  end

  test "a tensor that is released while others use it" do
    for _ <- 1..200 do
      tensor = Tenon.zeros!({64})

      tasks =
        for i <- 1..8 do
          Task.async(fn ->
            if i == 4, do: Tenon.release(tensor)
            Tenon.Nif.to_list(tensor)
          end)
        end

      for result <- Task.await_many(tasks, :infinity) do
        assert match?({:ok, [0.0 | _]}, result) or reason(result) == :released
      end
    end
  end

  describe "a tensor that was encoded" do
    test "and decoded while it is alive is the same" do
      tensor = Tenon.from_list!([1, 2])
      assert Tenon.to_list!(:erlang.binary_to_term(:erlang.term_to_binary(tensor))) == [1, 2]
    end

    test "and decoded after its death is stale" do
      encoded = in_process(fn -> :erlang.term_to_binary(Tenon.from_list!([1, 2])) end)
      settled()
      assert_everywhere(:erlang.binary_to_term(encoded), :stale)
      assert_everywhere(%{Tenon.zeros!({1}) | ref: make_ref()}, :stale)
    end

    test "on another node says where it is" do
      encoded = :erlang.term_to_binary(Tenon.from_list!([1, 2]))
      assert_everywhere(:erlang.binary_to_term(on_node(encoded, "a@b")), {:not_local, :a@b})
      long = String.duplicate("n", 100) <> "@" <> String.duplicate("é", 100)
      assert_everywhere(:erlang.binary_to_term(on_node(encoded, long)), {:not_local, String.to_atom(long)})
      remote = :erlang.binary_to_term(on_node(encoded, "a@b"))
      assert reason(Tenon.from_resource(remote.ref, {Tenon.Nif, :tenon_tensor_1})) == {:not_local, :a@b}
    end

    # As another node would have written it.
    defp on_node(encoded, name) do
      own = Atom.to_string(node())
      tags = [<<100, byte_size(own)::16, own::binary>>, <<119, byte_size(own), own::binary>>]

      new =
        if byte_size(name) < 256,
          do: <<119, byte_size(name), name::binary>>,
          else: <<118, byte_size(name)::16, name::binary>>

      assert :binary.matches(encoded, tags) != []
      :binary.replace(encoded, tags, new, [:global])
    end

    defp assert_everywhere(tensor, reason) do
      assert reason(Tenon.Nif.to_list(tensor)) == reason
      assert reason(Tenon.to_binary(tensor)) == reason
      assert reason(Tenon.reshape(tensor, {1})) == reason
      assert reason(Tenon.release(tensor)) == reason
      assert_raise Tenon.Error, fn -> Tenon.writable?(tensor) end
      assert inspect(tensor) =~ inspect(reason)
    end
  end

  test "what a process refers to that is killed in a dirty call is released, even if its scheduler sleeps" do
    library = Build.build!("kernels", Build.source("kernels.c"))
    paths = Enum.flat_map(:code.get_path(), &['-pa', &1])
    # Two schedulers: the process ends on the second one, which has nothing else to do.
    {:ok, peer, _} = :peer.start_link(%{connection: :standard_io, args: ['+S', '2:2' | paths]})
    {:ok, _} = :peer.call(peer, :application, :ensure_all_started, [:elixir], :infinity)
    assert :peer.call(peer, Tenon.Killed, :run, [library, 10], :infinity) == List.duplicate(:released, 10)
    :peer.stop(peer)
  end

  test "memory is counted and made while there can be no more processes" do
    paths = Enum.flat_map(:code.get_path(), &['-pa', &1])
    {:ok, peer, _} = :peer.start_link(%{connection: :standard_io, args: ['+P', '1024' | paths]})
    {:ok, _} = :peer.call(peer, :application, :ensure_all_started, [:elixir], :infinity)
    assert :peer.call(peer, Tenon.Killed, :without_processes, [], :infinity) == {:full, %{live: 2, bytes: 67_108_864}}
    :peer.stop(peer)
  end

  @tag timeout: :infinity
  test "hot upgrade of the NIF: what was made before goes on, and is given back" do
    folder = Path.join(System.tmp_dir!(), "tenon_upgrade_#{System.pid()}")
    File.mkdir_p!(folder)
    on_exit(fn -> File.rm_rf!(folder) end)
    paths = Enum.flat_map(:code.get_path(), &['-pa', &1])
    {:ok, peer, _} = :peer.start_link(%{connection: :standard_io, args: paths})
    {:ok, _} = :peer.call(peer, :application, :ensure_all_started, [:elixir], :infinity)
    checks = :peer.call(peer, Tenon.Upgrade, :run, [folder], :infinity)
    assert Enum.reject(checks, fn {_, result} -> result == true end) == []
    :peer.stop(peer)
  end
end
