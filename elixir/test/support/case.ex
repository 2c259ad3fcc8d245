defmodule Tenon.Case do
  @moduledoc """
  For tests whose counters must come back to where they were: each runs in a process of its own, whose terms die with
  it, and afterwards nothing may be alive that was not before.
  """
  use ExUnit.CaseTemplate

  using do
    quote do
      import Tenon.Case
    end
  end

  setup do
    before = settled()

    on_exit(fn ->
      unless eventually(fn -> back_to?(before) end) do
        raise "not released: #{inspect(Tenon.stats())}, before the test #{inspect(before)}"
      end
    end)

    :ok
  end

  @doc "The counters, once nothing is on its way."
  def settled do
    collect_all()
    eventually(fn -> Tenon.stats().deferred == 0 end)
    Tenon.stats()
  end

  @doc "Whether nothing is alive that was not before. Less may be: other tests' garbage can go at any time."
  def back_to?(before) do
    now = Tenon.stats()
    Enum.all?(before, fn {key, count} -> now[key] <= count end)
  end

  @doc "Whether it becomes true within a minute; garbage is collected between the looks."
  def eventually(check, tries \\ 3000) do
    cond do
      check.() ->
        true

      tries == 0 ->
        false

      true ->
        collect_all()
        Process.sleep(20)
        eventually(check, tries - 1)
    end
  end

  defp collect_all do
    Enum.each(Process.list(), &:erlang.garbage_collect/1)
    # For those that were killed in a call.
    Tenon.Memory.wake_schedulers()
  end

  @doc "Runs it in a process that has ended when this returns; its result must not hold what it made."
  def in_process(function) do
    Task.await(Task.async(function), :infinity)
  end

  @doc "The reason of an {:error, %Tenon.Error{}}."
  def reason({:error, %Tenon.Error{reason: reason, message: message}}) when is_binary(message), do: reason

  @doc "The address of a tensor's first element."
  def address(tensor), do: Tenon.Blob.to_blob(tensor).ptr

  @doc "A binary that the runtime does not copy, aligned as large ones are."
  def large(size \\ 4096), do: :binary.copy(<<0, 1, 2, 3, 4, 5, 6, 7>>, div(size, 8))
end
