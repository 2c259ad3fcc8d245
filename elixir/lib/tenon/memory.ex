defmodule Tenon.Memory do
  @moduledoc false
  # Counts the memory that a process has made, so that the process collects its garbage in time. The runtime knows the
  # memory that Tenon allocates, and collects the young garbage of a process accordingly, but not its old garbage, and it
  # does not know foreign memory.

  # Documented in Tenon.
  @budget 32 * 1024 * 1024

  # How long to wait for releases, in milliseconds: until none is left, for the next one of many, and at most. Documented
  # in Tenon.
  @short 10
  @patience 50
  @most 1000
  @few 8

  @doc "Charges the process for memory that a NIF made, and returns the NIF's result."
  def charge({:charge, bytes, result}) do
    # The bytes since the last collection, and since the last full one.
    {recent, all} = Process.get(__MODULE__, {0, 0})
    spend(recent + bytes, all + bytes)
    result
  end

  def charge(result), do: result

  defp spend(recent, all) when recent <= @budget, do: Process.put(__MODULE__, {recent, all})

  # The time of a full collection grows with the heap, so there is one only after as many bytes as the heap has.
  defp spend(_recent, all) do
    {:total_heap_size, words} = Process.info(self(), :total_heap_size)
    full? = words * :erlang.system_info(:wordsize) <= all
    :erlang.garbage_collect(self(), type: if(full?, do: :major, else: :minor))
    # The scheduler frees memory when it changes processes.
    :erlang.yield()
    wake_schedulers()
    now = System.monotonic_time(:millisecond)
    wait(now, now, :infinity)
    Process.put(__MODULE__, {0, if(full?, do: 0, else: all)})
  end

  # A process that is killed in a dirty NIF, of any library, ends while the NIF still runs. Its heap, with all that its
  # terms refer to, is then freed by the last of two threads: the dirty scheduler, and the scheduler on which the process
  # ended. The second one has to wait until all schedulers have made progress (erts_schedule_thr_prgr_later_cleanup_op in
  # erl_process.c), and does not ask to be woken for that unless this adds up to 64 KB of process structs. If it has no
  # other work, it may sleep meanwhile, and nothing else frees the heap. Each scheduler has to answer this question, so all
  # of them wake up. They answer late if a NIF holds one of them, so a process of its own waits for the answers.
  @doc "Wakes all schedulers, so that they free the heaps of processes that were killed in dirty NIFs."
  def wake_schedulers do
    spawn(fn -> :erlang.system_info({:allocator_sizes, :temp_alloc}) end)
    :ok
  rescue
    # So many processes keep the schedulers awake.
    SystemLimitError -> :ok
  end

  # Waits for Tenon's thread, because a process could make memory faster than the thread releases it. Releases are foreign
  # functions and may be slow, so this stops when few are left, when none has ended for a while (a slow one must not hold
  # up processes that have nothing to do with it), and in any case after a second. Only this process sleeps.
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
