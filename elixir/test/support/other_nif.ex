defmodule Tenon.OtherNif do
  @moduledoc """
  A second NIF, which links nothing of Tenon. `other_nif.c` beside this file says what it does.
  """

  @source Path.join(__DIR__, "other_nif.c")
  @external_resource @source
  @kinds [good: 0, bad_version: 1, bad_shape: 2, lanes: 3, nothing: 4, busy: 5, read_only: 6, no_deleter: 7] ++
           [misaligned: 8, bad_dtype: 9, refuses: 10, no_memory: 11]

  @on_load :load

  def load do
    erts = Path.join([:code.root_dir(), "erts-#{:erlang.system_info(:version)}", "include"])
    output = Path.join(System.tmp_dir!(), "tenon_other_nif_#{System.pid()}")
    flags = ~w(-std=c11 -D_POSIX_C_SOURCE=200809L -O1 -Wall -Wextra -Werror -fPIC -shared -pthread)
    arguments = flags ++ ["-isystem", erts, "-I", Tenon.include_dir(), @source, "-o", output <> ".so"]
    {text, status} = System.cmd("cc", arguments, stderr_to_stdout: true)
    if status != 0, do: IO.puts(text)
    result = :erlang.load_nif(String.to_charlist(output), 0)
    File.rm(output <> ".so")
    result
  end

  @doc "A resource that gives a tensor of 0.0, 1.0, …; its deleter sleeps, or waits at the gate."
  def source(count, options \\ []) do
    sleep_ms = if options[:gate], do: -1, else: Keyword.get(options, :sleep_ms, 0)
    make(count, sleep_ms, @kinds[Keyword.get(options, :kind, :good)])
  end

  def close_gate, do: :erlang.nif_error(:not_loaded)
  def open_gate, do: :erlang.nif_error(:not_loaded)

  def type, do: {__MODULE__, :source}

  def make(_count, _sleep_ms, _kind), do: :erlang.nif_error(:not_loaded)

  @doc "Deleters that ran; of these on a scheduler; of these with signals not blocked."
  def counts, do: :erlang.nif_error(:not_loaded)

  @doc "Fetches an owned struct from a tensor's `ref`; flag 1: to write."
  def hold(_ref, _flags), do: :erlang.nif_error(:not_loaded)
  def drop(_held), do: :erlang.nif_error(:not_loaded)

  @doc "The sum of the elements, and the struct's flags."
  def sum(_held), do: :erlang.nif_error(:not_loaded)
  def fill(_held, _value), do: :erlang.nif_error(:not_loaded)
end
