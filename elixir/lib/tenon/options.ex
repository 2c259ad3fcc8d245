defmodule Tenon.Options do
  @moduledoc false
  # Reads keyword lists of options, and formats terms for messages.

  @most 64

  @doc """
  Returns the options in the order of `defaults`, with defaults for those that are missing. Like Keyword.validate!/2, but fast
  enough for the paths that are measured in nanoseconds, and with a limit on the number of options.
  """
  def read!([], defaults), do: defaults
  def read!(options, defaults), do: read(options, defaults, defaults, [], 0)

  defp read([], _defaults, read, _seen, _count), do: read

  defp read([_ | _], _defaults, _read, _seen, @most) do
    raise_public(ArgumentError.exception("expected at most #{@most} options"))
  end

  # If an option is given twice the first one counts, as in Keyword.get/2.
  defp read([{key, _} = option | rest], defaults, read, seen, count) do
    cond do
      not :lists.keymember(key, 1, defaults) ->
        known = Enum.map_join(defaults, ", ", &inspect(elem(&1, 0)))
        raise_public(ArgumentError.exception("unknown option #{show(key)}; the options are #{known}"))

      key in seen ->
        read(rest, defaults, read, seen, count + 1)

      true ->
        read(rest, defaults, :lists.keyreplace(key, 1, read, option), [key | seen], count + 1)
    end
  end

  defp read(other, _defaults, _read, _seen, _count) do
    raise_public(ArgumentError.exception("expected a keyword list of options, got #{show(other)}"))
  end

  @tenon [Tenon, Tenon.Blob, Tenon.Nx, Tenon.Library, Tenon.Shared, __MODULE__]

  @doc "Raises with a stack trace that begins with the public function that was called, without the functions it calls."
  @spec raise_public(Exception.t()) :: no_return
  def raise_public(exception) do
    {:current_stacktrace, [_process_info | stack]} = Process.info(self(), :current_stacktrace)
    {inside, callers} = Enum.split_while(stack, fn {module, _, _, _} -> module in @tenon end)
    :erlang.raise(:error, exception, Enum.take(inside, -1) ++ callers)
  end

  @doc """
  Describes a term briefly, for messages. Formatting a large term takes too long; for an integer the time grows with the
  square of its size.
  """
  def show(term) when is_atom(term) or is_float(term), do: inspect(term)
  def show(term) when term in -0x8000000000000000..0xFFFFFFFFFFFFFFFF, do: inspect(term)
  def show(term) when is_integer(term), do: "an integer of more than 64 bits"
  def show(term) when is_binary(term) and byte_size(term) <= 100, do: inspect(term)
  def show(%module{}), do: inspect(module)

  def show(term) when is_tuple(term) and tuple_size(term) <= 4 do
    "{#{term |> Tuple.to_list() |> Enum.map_join(", ", &show_inside/1)}}"
  end

  def show([{key, _} | _]) when is_atom(key), do: "a keyword list"

  def show(term) do
    cond do
      is_binary(term) -> "a binary"
      is_list(term) -> "a list"
      is_tuple(term) -> "a tuple"
      is_map(term) -> "a map"
      is_function(term) -> "a function"
      true -> inspect(term)
    end
  end

  defp show_inside(term) when is_tuple(term), do: "{…}"
  defp show_inside(term), do: show(term)

  @doc "The message of a foreign exception: its first line, at most 500 bytes. It does not format large terms."
  def message(%module{} = error) do
    line = if small?(error), do: error |> Exception.message() |> String.split("\n", parts: 2) |> hd(), else: ""
    if line != "" and String.valid?(line), do: cut(line, 500), else: inspect(module)
  end

  @doc "A valid string, cut to at most `most` bytes without splitting a character."
  def cut(text, most) when byte_size(text) <= most, do: text
  def cut(text, most), do: whole_characters(text, most) <> "…"

  defp whole_characters(text, most) do
    part = binary_part(text, 0, most)
    if String.valid?(part), do: part, else: whole_characters(text, most - 1)
  end

  # It contains at most 1,000 terms, and no integer of more than 64 bits.
  defp small?(term), do: budget_after(term, 1000) > 0

  defp budget_after(_term, left) when left <= 0, do: 0

  defp budget_after(term, _left) when is_integer(term) and term not in -0x8000000000000000..0xFFFFFFFFFFFFFFFF, do: 0

  defp budget_after([head | tail], left), do: budget_after(tail, budget_after(head, left - 1))

  defp budget_after(term, left) when is_tuple(term) do
    if tuple_size(term) > left, do: 0, else: budget_after(Tuple.to_list(term), left)
  end

  defp budget_after(term, left) when is_map(term) do
    if map_size(term) > left, do: 0, else: budget_after(:maps.to_list(term), left)
  end

  defp budget_after(_term, left), do: left - 1
end
