defmodule Tenon.Tensor do
  @moduledoc """
  A tensor: a handle on memory, and what is known about it.

  Only `ref` counts: it keeps the memory alive, wherever the term goes on this node. The other fields are a cache for
  reading and matching; whoever changes them changes nothing. All functions are in `Tenon`. `names` are those that
  `Tenon.Nx.from_nx/2` found, for `Tenon.Nx.to_nx/2`; a view has none.
  """

  @type t :: %__MODULE__{
          ref: reference,
          type: {atom, pos_integer},
          shape: tuple,
          strides: [integer],
          device: device,
          byte_size: non_neg_integer,
          names: [atom] | nil
        }

  @typedoc "Where memory is."
  @type device :: :cpu | {atom, non_neg_integer}

  @enforce_keys [:ref, :type, :shape, :strides, :device, :byte_size]
  defstruct @enforce_keys ++ [:names]
end

defimpl Inspect, for: Tenon.Tensor do
  import Inspect.Algebra

  # The fields are a cache that anyone may have filled: whatever they hold, this raises nothing.
  def inspect(%{type: {kind, bits}, shape: shape} = tensor, opts)
      when is_atom(kind) and is_integer(bits) and is_tuple(shape) do
    dims = Tuple.to_list(shape)
    head = Enum.join([type_name(kind, bits) | Enum.map(dims, &"[#{Kernel.inspect(&1)}]")])
    lines = Enum.map([head | values(tensor, dims, opts.limit)], &concat("  ", &1))
    concat(Enum.intersperse(["#Tenon.Tensor<"] ++ lines ++ [">"], line()))
  end

  def inspect(tensor, opts), do: Inspect.Any.inspect(tensor, opts)

  defp type_name(kind, bits) when kind in [:f, :bf, :s, :u, :c], do: "#{kind}#{bits}"
  defp type_name(kind, _bits), do: "#{kind}"

  # Only as many elements as are shown are read.
  defp values(tensor, dims, limit) do
    kept = if limit == :infinity, do: dims, else: keep(Enum.reverse(dims), max(limit, 1), [])

    with false <- Tenon.Nif.unowned(tensor),
         {:ok, part} <- Tenon.slice(tensor, Enum.map(dims, fn _ -> 0 end), kept),
         {:ok, list} <- Tenon.Nif.to_list(part) do
      rows(list, Enum.zip(dims, kept))
    else
      # Nobody has said that this memory is there: crash reports must not read it.
      address when is_integer(address) -> ["at 0x#{Integer.to_string(address, 16)}, without an owner"]
      {:error, %{reason: reason}} -> ["(#{Kernel.inspect(reason)})"]
    end
  end

  defp keep([], _budget, kept), do: kept

  defp keep([dim | outer], budget, kept) do
    count = min(dim, budget)
    keep(outer, max(div(budget, max(count, 1)), 1), [count | kept])
  end

  defp rows(value, []), do: [Kernel.inspect(value)]

  defp rows(list, [{dim, kept}]) do
    shown = Enum.map(list, &Kernel.inspect/1)
    ["[" <> Enum.join(if(kept < dim, do: shown ++ ["..."], else: shown), ", ") <> "]"]
  end

  defp rows(list, [{dim, kept} | inner]) do
    blocks = Enum.map(list, &rows(&1, inner))
    blocks = if kept < dim, do: blocks ++ [["..."]], else: blocks
    last = length(blocks) - 1

    body =
      blocks
      |> Enum.with_index()
      |> Enum.flat_map(fn {block, i} -> if i == last, do: block, else: add_comma(block) end)

    ["["] ++ Enum.map(body, &("  " <> &1)) ++ ["]"]
  end

  defp add_comma(block), do: List.update_at(block, -1, &(&1 <> ","))
end
