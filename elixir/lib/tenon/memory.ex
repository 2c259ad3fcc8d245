defmodule Tenon.Memory do
  @moduledoc false
  # What a process has made, so that it collects its garbage in time. The runtime is told of the memory that Tenon
  # allocates, and collects a process's young garbage by that; but not what has grown old, and not the memory of others.

  # Documented in Tenon.
  @budget 32 * 1024 * 1024

  @doc "The result of a NIF that makes memory."
  def charge({:charge, bytes, result}) do
    # Since the last collection, and since the last full one.
    {recent, all} = Process.get(__MODULE__, {0, 0})
    spend(recent + bytes, all + bytes)
    result
  end

  def charge(result), do: result

  defp spend(recent, all) when recent <= @budget, do: Process.put(__MODULE__, {recent, all})

  # A full collection takes as long as the heap is large: what was made since the last one pays for it.
  defp spend(_recent, all) do
    {:total_heap_size, words} = Process.info(self(), :total_heap_size)
    full? = words * :erlang.system_info(:wordsize) <= all
    :erlang.garbage_collect(self(), type: if(full?, do: :major, else: :minor))
    # Memory is given back while the scheduler is between processes.
    :erlang.yield()
    wait(10)
    Process.put(__MODULE__, {0, if(full?, do: 0, else: all)})
  end

  # What is released by Tenon's thread gets some milliseconds: else a process on a busy machine makes memory faster than
  # the thread gives it back. A release that takes long holds nobody up for longer.
  defp wait(0), do: :ok

  defp wait(tries) do
    case Tenon.Nif.stats() do
      %{deferred: deferred} when deferred > 0 ->
        Process.sleep(1)
        wait(tries - 1)

      _ ->
        :ok
    end
  end
end
