# Benchmarks of the BEAM bridge:  MIX_ENV=bench mix run bench/run.exs [--quick]
#
# Prints a line of JSON for each row, as bench/worker.py does; bench/run.py reads them and writes docs/benchmarks.md. For
# people it also prints each row as text. Contenders take turns, each sample in a fresh process. A figure is the minimum,
# the spread how much longer (in percent) the median took. Nothing is subtracted; the empty NIF is measured beside it.

defmodule Bench.Build do
  def folder, do: Path.join(System.tmp_dir!(), "tenon_bench_#{System.pid()}")

  def compile!(source, name, options) do
    output = Path.join(folder(), name)
    {_, 0} = System.cmd("cc", ["-fPIC", "-shared"] ++ options ++ [source, "-o", output <> ".so"])
    output
  end
end

File.mkdir_p!(Bench.Build.folder())
System.at_exit(fn _ -> File.rm_rf!(Bench.Build.folder()) end)

defmodule Bench.Empty do
  @on_load :load

  def load do
    source = Path.join(Bench.Build.folder(), "empty.c")

    File.write!(source, """
    #include <erl_nif.h>
    static ERL_NIF_TERM empty(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
    {
        (void)env;
        (void)argc;
        return argv[0];
    }
    static ErlNifFunc functions[] = {{"empty", 1, empty, 0}};
    ERL_NIF_INIT(Elixir.Bench.Empty, functions, NULL, NULL, NULL, NULL)
    """)

    erts = Path.join([:code.root_dir(), "erts-#{:erlang.system_info(:version)}", "include"])
    :erlang.load_nif(String.to_charlist(Bench.Build.compile!(source, "empty", ["-O2", "-isystem", erts])), 0)
  end

  def empty(_term), do: :erlang.nif_error(:not_loaded)
end

defmodule Bench.Kernels do
  # The library that the rows for Python load too.
  @source Path.expand("../../bench/peers/tenon/kernels.c", __DIR__)
  use Tenon.Library, path: Bench.Build.compile!(@source, "kernels", ["-O3", "-I", Tenon.include_dir()]) <> ".so"
end

# A second NIF, whose tensors have a release function that sleeps.
Code.require_file("../test/support/other_nif.ex", __DIR__)

defmodule Bench do
  @large 64 * 1024 * 1024
  @calls 20_000

  def run(quick) do
    rounds = if quick, do: 5, else: 25
    x = Tenon.from_list!([1, 2, 3, 4, 5, 6], type: :f32)
    y = Tenon.from_list!([1, 2, 3, 4, 5, 6], type: :f32)
    [3.0, 6.0 | _] = Tenon.to_list!(Bench.Kernels.saxpy!(2.0, x, y))
    91.0 = Bench.Kernels.dot!(x, y)
    blob = %{Tenon.Blob.to_blob(x) | owner: nil}
    owner = make_ref()

    calls = [
      {"saxpy", fn -> Bench.Kernels.saxpy(2.0, x, y) end},
      {"dot", fn -> Bench.Kernels.dot(x, y) end},
      {"to_blob", fn -> Tenon.Blob.to_blob(x) end},
      {"from_blob with an owner", fn -> Tenon.Blob.from_blob(blob, owner: owner) end},
      {"zeros({6})", fn -> Tenon.zeros({6}) end},
      {"slice", fn -> Tenon.slice(x, [1], [2]) end}
    ]

    gaps = [
      {"a release that sleeps 1 s", fn -> slow_release() end},
      {"1 GiB given up", fn -> touched(1024 * 1024 * 1024) end},
      {"15 MiB given up", fn -> touched(15 * 1024 * 1024) end}
    ]

    say(%{total: length(calls) + 1 + length(gaps)})

    for {name, function} <- calls do
      compare(name, rounds, %{
        "tenon" => fn -> per_call(function) end,
        "empty NIF" => fn -> per_call(fn -> Bench.Empty.empty(x) end) end
      })
    end

    tensor = Tenon.zeros!({@large}, type: :u8)
    binary = Tenon.to_binary!(Tenon.zeros!({@large}, type: :u8))

    compare("to_binary of 64 MiB", rounds, %{
      "tenon" => fn -> once(fn -> Tenon.to_binary!(tensor) end) end,
      ":binary.copy" => fn -> once(fn -> :binary.copy(binary) end) end
    })

    # With one scheduler, everything that a destructor does on it is visible; the reaper has the other cores.
    :erlang.system_flag(:schedulers_online, 1)

    for {name, make} <- gaps do
      compare("longest gap of a scheduler: #{name}", if(quick, do: 2, else: 9), %{
        "tenon" => fn -> watch(make.()) end,
        "idle" => fn -> watch(nil) end
      })
    end
  end

  defp compare(operation, rounds, contenders) do
    samples =
      for _ <- 1..rounds, {name, sample} <- contenders do
        {name, Task.await(Task.async(sample), :infinity)}
      end

    for {name, values} <- Enum.group_by(samples, &elem(&1, 0), &elem(&1, 1)) do
      least = Enum.min(values)
      middle = Enum.at(Enum.sort(values), div(length(values), 2))
      spread = Float.round(100 * (middle / least - 1), 1)
      row = %{group: "elixir", operation: operation, producer: "elixir", contender: name, ns: least, spread: spread}
      say(%{row: Map.put(row, :version, if(name == "tenon", do: to_string(Application.spec(:tenon, :vsn))))})
      IO.puts("  #{String.pad_trailing("#{operation}, #{name}", 64)} #{round(least)} ns +#{round(spread)} %")
    end

    say(%{step: operation})
  end

  defp per_call(function) do
    start = now()
    repeat(function, @calls)
    (now() - start) / @calls
  end

  defp repeat(_function, 0), do: :ok

  defp repeat(function, count) do
    function.()
    repeat(function, count - 1)
  end

  # The minimum of three fresh processes, because the first one finds the caches filled by the other contender. Their heaps
  # are minimal: with more on it, the runtime would collect garbage after a call that returns a large binary.
  defp once(function) do
    time = fn ->
      start = now()
      function.()
      exit({:took, now() - start})
    end

    Enum.min(
      for _ <- 1..3 do
        {_, process} = spawn_monitor(time)

        receive do
          {:DOWN, ^process, :process, _, {:took, took}} -> took
        end
      end
    )
  end

  # A process releases a tensor and then reads the clock without pause: the longest time that its scheduler was busy.
  defp watch(tensor) do
    :erlang.garbage_collect()
    start = now()
    if tensor, do: Tenon.release(tensor)
    look(start, start, 0)
  end

  defp look(start, last, gap) do
    time = now()
    gap = max(gap, time - last)
    if time - start > 100_000_000, do: gap, else: look(start, time, gap)
  end

  defp touched(size), do: Tenon.from_binary!(:binary.copy(<<1>>, size), :u8, copy: :always)

  # Waits for the release before it to end; otherwise this one would wait for its turn, and delay nothing.
  defp slow_release do
    if Tenon.stats().deferred == 0 do
      Tenon.from_resource!(Tenon.OtherNif.source(1, sleep_ms: 1000), Tenon.OtherNif.type())
    else
      Process.sleep(20)
      slow_release()
    end
  end

  defp now, do: :erlang.monotonic_time(:nanosecond)
  defp say(line), do: IO.puts(json(line))

  defp json(map) when is_map(map), do: "{" <> Enum.map_join(map, ", ", fn {k, v} -> "\"#{k}\": #{json(v)}" end) <> "}"
  defp json(text) when is_binary(text), do: "\"#{text}\""
  defp json(nil), do: "null"
  defp json(number), do: to_string(number)
end

Bench.run("--quick" in System.argv())
