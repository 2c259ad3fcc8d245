defmodule Tenon.Memory do
  @moduledoc false
  # What a process has made, so that it collects its garbage in time. The runtime is told of the memory that Tenon
  # allocates, and collects a process's young garbage by that; but not what has grown old, and not the memory of others.

  # Documented in Tenon.
  @budget 32 * 1024 * 1024

  # How long to wait for releases, in milliseconds: for all of them, for one of many, and at most. Documented in Tenon.
  @short 10
  @patience 50
  @most 1000
  @few 8

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
    now = System.monotonic_time(:millisecond)
    wait(now, now, :infinity)
    Process.put(__MODULE__, {0, if(full?, do: 0, else: all)})
  end

  # What is released by Tenon's thread gets time: else a process makes memory faster than the thread gives it back. That
  # takes as long as the functions of others do, so it ends when few are left, when none has ended for a while (one that
  # takes that long would hold up processes that have nothing to do with it), and after a second in any case. Only this
  # process sleeps.
  defp wait(start, progress, least) do
    now = System.monotonic_time(:millisecond)
    deferred = Tenon.Nif.stats().deferred
    # Atoms are greater than numbers.
    {progress, least} = if deferred < least, do: {now, deferred}, else: {progress, least}
    many? = deferred > @few and now - progress < @patience and now - start < @most

    if deferred > 0 and (many? or now - start < @short) do
      Process.sleep(1)
      wait(start, progress, least)
    end
  end
end
