# Measures, each beside an empty NIF in the same run:  MIX_ENV=prod mix run bench/run.exs
#
# Numbers are the least of several rounds, in nanoseconds, of the call as users write it.

defmodule Bench.Empty do
  @on_load :load

  def load do
    folder = Path.join(System.tmp_dir!(), "tenon_bench_#{System.pid()}")
    File.mkdir_p!(folder)
    source = Path.join(folder, "empty.c")

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

    {_, 0} =
      System.cmd("cc", ["-O2", "-fPIC", "-shared", "-isystem", erts, source, "-o", Path.join(folder, "empty.so")])

    result = :erlang.load_nif(String.to_charlist(Path.join(folder, "empty")), 0)
    File.rm_rf!(folder)
    result
  end

  def empty(_term), do: :erlang.nif_error(:not_loaded)
end

defmodule Bench do
  def run do
    tensor = Tenon.from_list!([1, 2, 3, 4, 5, 6], type: :f32)
    blob = Tenon.Blob.to_blob(tensor)
    owner = make_ref()
    foreign = %{blob | owner: nil}
    large = Tenon.zeros!({64 * 1024 * 1024}, type: :u8)
    binary = Tenon.to_binary!(Tenon.zeros!({64 * 1024 * 1024}, type: :u8))

    report("empty NIF", per_call(fn -> Bench.Empty.empty(tensor) end))
    report("zeros({6})", per_call(fn -> Tenon.zeros({6}) end))
    report("slice", per_call(fn -> Tenon.slice(tensor, [1], [2]) end))
    report("to_blob", per_call(fn -> Tenon.Blob.to_blob(tensor) end))
    report("from_blob, owner", per_call(fn -> Tenon.Blob.from_blob(foreign, owner: owner) end))
    report("from_blob, owner a tensor", per_call(fn -> Tenon.Blob.from_blob(blob, owner: tensor) end))
    shown = in_fresh(fn -> Tenon.to_binary!(large) end, 500)
    copied = in_fresh(fn -> :binary.copy(binary) end, 15)
    report("to_binary, 64 MiB", shown)
    report(":binary.copy, 64 MiB", copied)
    IO.puts("  a copy takes #{round(copied / shown)} times as long")
    destructors()
  end

  # A process that looks at the clock without pause gives memory up: the longest time that its scheduler was elsewhere.
  # Where others use the machine too, the least of the rounds says most.
  defp destructors do
    for {name, make} <- [
          {"idle", fn -> nil end},
          {"1 GiB given up", fn -> touched(1024 * 1024 * 1024) end},
          {"3 MiB given up", fn -> touched(3 * 1024 * 1024) end}
        ] do
      gaps = for _ <- 1..5, do: Task.await(Task.async(fn -> watch(make.()) end), :infinity)
      report("longest gap of a scheduler: #{name}", Enum.min(gaps))
    end
  end

  defp watch(tensor) do
    :erlang.garbage_collect()
    if tensor, do: Tenon.release(tensor)
    start = now()
    look(start, start, 0)
  end

  defp touched(size), do: Tenon.from_binary!(:binary.copy(<<1>>, size), :u8, copy: :always)

  defp look(start, last, gap) do
    time = now()
    gap = max(gap, time - last)
    if time - start > 100_000_000, do: gap, else: look(start, time, gap)
  end

  defp per_call(function) do
    rounds =
      for _ <- 1..15 do
        Task.await(
          Task.async(fn ->
            start = now()
            repeat(function, 20_000)
            (now() - start) / 20_000
          end),
          :infinity
        )
      end

    Enum.min(rounds)
  end

  defp in_fresh(function, count) do
    rounds =
      for _ <- 1..count do
        Task.await(
          Task.async(fn ->
            start = now()
            function.()
            now() - start
          end),
          :infinity
        )
      end

    Enum.min(rounds)
  end

  defp repeat(_function, 0), do: :ok

  defp repeat(function, count) do
    function.()
    repeat(function, count - 1)
  end

  defp now, do: :erlang.monotonic_time(:nanosecond)
  defp report(name, ns), do: IO.puts("  #{String.pad_trailing(name, 40)} #{round(ns)} ns")
end

Bench.run()
