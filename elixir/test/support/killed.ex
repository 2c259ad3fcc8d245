defmodule Tenon.Killed do
  @moduledoc false
  # For a VM with two schedulers: kills processes in dirty calls, whose terms are then the last ones on a tensor.

  alias Tenon.Test.Kernels, as: Build

  # Its path is known at run time only.
  @kernels """
  defmodule Tenon.Killed.Kernels do
    use Tenon.Library, path: LIBRARY
  end
  """

  def run(library, rounds) do
    :erlang.process_flag(:scheduler, 1)
    [{kernels, _} | _] = Code.compile_string(String.replace(@kernels, "LIBRARY", inspect(library)))
    for _ <- 1..rounds, do: kill_one(kernels)
  end

  @doc "The counters while no process can be made, after enough memory that Tenon collects garbage."
  def without_processes do
    {:ok, _} = Tenon.zeros({1})
    Tenon.stats()
    Process.sleep(100)
    full = fill([])
    tensors = for _ <- 1..2, do: Tenon.zeros!({32 * 1024 * 1024}, type: :u8)
    stats = Map.delete(Tenon.stats(), :deferred)
    for pid <- elem(full, 1), do: Process.exit(pid, :kill)
    2 = length(tensors)
    {elem(full, 0), stats}
  end

  defp fill(pids) do
    fill([spawn(fn -> Process.sleep(:infinity) end) | pids])
  rescue
    SystemLimitError -> {:full, pids}
  end

  # Tenon makes the tensor in the process that dies, so no other term refers to it. The process ends while this scheduler
  # is occupied, so that the other scheduler has to wait for it, and sleeps, before it may free the process.
  defp kill_one(kernels) do
    {caller, monitor} = :erlang.spawn_opt(fn -> kernels.hold_read(Tenon.zeros!({8})) end, [:monitor, {:scheduler, 2}])

    Build.until(fn -> kernels.is_holding!() end)
    %{live: 1, bytes: 32} = Tenon.stats()

    kill = fn ->
      Process.sleep(20)
      Process.exit(caller, :kill)
    end

    :erlang.spawn_opt(kill, scheduler: 2)
    kernels.occupy(100)
    receive do: ({:DOWN, ^monitor, :process, ^caller, :killed} -> :ok)
    kernels.let_go!()
    if released?(6000), do: :released, else: Tenon.stats()
  end

  defp released?(tries) do
    cond do
      Tenon.stats().live == 0 -> true
      tries == 0 -> false
      true -> Process.sleep(10) && released?(tries - 1)
    end
  end
end
