alias Tenon.Test.Kernels, as: Build

Build.build!("kernels", Build.source("kernels.c"))

defmodule Tenon.MemoryTest.Kernels do
  use Tenon.Library, path: Build.path("kernels")
end

defmodule Tenon.MemoryTest do
  use Tenon.Case
  alias Tenon.MemoryTest.Kernels
  alias Tenon.OtherNif

  # What a process drops goes, even if the process has a heap so large that it would not collect its garbage soon.

  @elements 1_000_000

  # The most tensors that were alive at once, above those that the process keeps.
  defp peak(make, kept, count \\ 300) do
    in_process(fn ->
      list = Enum.map(1..100_000, &(&1 + 1))
      before = Tenon.stats().live
      peak = loop(make, count, List.duplicate(nil, kept), before, 0)
      {peak - kept, length(list)} |> elem(0)
    end)
  end

  defp loop(_make, 0, _kept, _before, peak), do: peak

  defp loop(make, count, kept, before, peak) do
    tensor = make.()
    kept = if kept == [], do: [], else: [tensor | Enum.drop(kept, -1)]
    # Tenon.stats would wake the schedulers each time.
    loop(make, count - 1, kept, before, max(peak, Tenon.Nif.stats().live - before))
  end

  # On a loaded machine the threads that release memory may get no time for a while, which is nobody's mistake here. So the
  # best of several runs counts. Without a bound, every run has almost as many tensors alive as it makes.
  defp assert_bounded(limit, name, measure) do
    peaks =
      Enum.reduce_while(1..10, [], fn _, peaks ->
        peak = measure.()
        if peak <= limit, do: {:halt, :ok}, else: {:cont, [peak | peaks]}
      end)

    assert peaks == :ok, "#{name}: more than #{limit} at once in every run: #{inspect(peaks, charlists: :as_lists)}"
  end

  defp foreign(memory) do
    blob = %{Tenon.Blob.to_blob(memory) | owner: nil}
    fn -> Tenon.Blob.from_blob(blob, owner: make_ref()).tensor end
  end

  for kept <- [0, 4] do
    test "memory that is dropped is given back, with #{kept} kept" do
      kept = unquote(kept)
      binary = :binary.copy(<<1>>, 4 * @elements)
      memory = Tenon.zeros!({@elements})

      for {name, make} <- [
            zeros: fn -> Tenon.zeros!({@elements}) end,
            copies: fn -> Tenon.from_binary!(binary, :u8, copy: :always) end,
            results: fn -> Kernels.count_up!(@elements) end,
            foreign: foreign(memory),
            views: fn -> Tenon.reshape!(Tenon.zeros!({@elements}), {1, @elements}) end
          ] do
        # A view counts twice while what it is a view of has not gone.
        allowed = if name == :views, do: 32, else: 16
        assert_bounded(allowed, name, fn -> peak(make, kept) end)
      end
    end
  end

  test "resources of other NIFs too" do
    make = fn -> Tenon.from_resource!(OtherNif.source(@elements), OtherNif.type()) end
    assert_bounded(16, :resources, fn -> peak(make, 0, 200) end)
  end

  # The most that was alive while a process with a large heap received tensors and dropped them.
  defp received(give, take) do
    parent = self()

    server =
      spawn_link(fn ->
        serve(Enum.map(1..100_000, &(&1 + 1)), fn term -> send(parent, {:most, take.(term), used()}) end)
      end)

    peak =
      for _ <- 1..300, reduce: 0 do
        peak ->
          spawn_link(fn -> send(server, give.(Tenon.zeros!({@elements}))) end)
          assert_receive {:most, _, used}, 60_000
          max(peak, used)
      end

    Process.unlink(server)
    Process.exit(server, :kill)
    peak
  end

  # Tensors, or binaries that none of them shows any more.
  defp used, do: div(:erlang.memory(:binary), 4 * @elements)

  defp serve(heap, take) do
    receive do
      term -> take.(term)
    end

    serve(heap, take)
  end

  test "a process that receives tensors can bound its memory, as documented" do
    for {name, give, take} <- [
          {:release, & &1, &Tenon.release/1},
          {:collect, & &1, fn _ -> :erlang.garbage_collect() end},
          {:binary, &Tenon.to_binary!/1, fn binary -> Tenon.from_binary!(binary, :f32).shape end}
        ] do
      assert_bounded(16, name, fn ->
        before = used()
        received(give, take) - before
      end)
    end
  end

  test "with slow functions that release them too" do
    # 20 ms each, and made in a few microseconds. 8 are made before a collection, and 8 may be due after it.
    slow = fn -> Tenon.from_resource!(OtherNif.source(@elements, sleep_ms: 20), OtherNif.type()) end
    assert_bounded(32, :slow, fn -> peak(slow, 0, 100) end)
  end

  test "small tensors do not start a collection each" do
    memory = Tenon.zeros!({6})

    for make <- [fn -> Tenon.zeros!({6}) end, foreign(memory), fn -> Tenon.zeros!({500}) end] do
      tracer = spawn_link(fn -> count(0) end)

      in_process(fn ->
        list = Enum.map(1..100_000, &(&1 + 1))
        :erlang.garbage_collect()
        :erlang.trace(self(), true, [:garbage_collection, {:tracer, tracer}])
        for _ <- 1..1000, do: make.()
        :erlang.trace(self(), false, [:garbage_collection])
        length(list)
      end)

      send(tracer, {:tell, self()})
      assert_receive {:collections, collections}, 60_000
      assert collections < 50
    end
  end

  defp count(collections) do
    receive do
      {:trace, _, start, _} when start in [:gc_minor_start, :gc_major_start] -> count(collections + 1)
      {:trace, _, _, _} -> count(collections)
      {:tell, pid} -> send(pid, {:collections, collections})
    end
  end

  test "memory of Tenon's is a binary" do
    # So large that what other processes have, or give back meanwhile, does not matter.
    large = Tenon.zeros!({32 * @elements})
    assert :erlang.memory(:binary) >= 128 * @elements
    :ok = Tenon.release(large)
    tensor = Tenon.zeros!({@elements})
    # What shows it is a part of that one, and is charged to whoever has it.
    binary = Tenon.to_binary!(tensor)
    assert byte_size(binary) == 4 * @elements
    assert :binary.referenced_byte_size(binary) in (4 * @elements)..(4 * @elements + 64)
    assert rem(address(tensor), 64) == 0
    :ok = Tenon.release(tensor)
    assert binary == <<0::size(4 * @elements)-unit(8)>>
  end
end
