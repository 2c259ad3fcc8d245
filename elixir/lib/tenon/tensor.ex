defmodule Tenon.Tensor do
  @moduledoc """
  A tensor: a reference to memory, and its description.

  Only `ref` matters: it keeps the memory alive, wherever the term goes on this node. The other fields are a cache for
  reading and pattern matching; changing them has no effect on the tensor. All functions are in `Tenon`. `names` are the
  names of axes that `Tenon.Nx.from_nx/2` found, for `Tenon.Nx.to_nx/2`; a view has none.
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

  @typedoc "The device of the memory."
  @type device :: :cpu | {atom, non_neg_integer}

  @enforce_keys [:ref, :type, :shape, :strides, :device, :byte_size]
  defstruct @enforce_keys ++ [:names]
end

defimpl Inspect, for: Tenon.Tensor do
  import Inspect.Algebra

  # The fields are a cache that the caller may have changed, so this must not raise, whatever they contain.
  def inspect(%{type: {kind, bits}, shape: shape} = tensor, opts)
      when is_atom(kind) and is_integer(bits) and is_tuple(shape) do
    dims = Tuple.to_list(shape)
    head = [color(type_name(kind, bits), :atom, opts) | Enum.map(dims, &concat(["[", to_doc(&1, opts), "]"]))]
    lines = concat([line(), concat(head), line(), values(tensor, dims, opts)])
    concat([color("#Tenon.Tensor<", :map, opts), nest(lines, 2), line(), color(">", :map, opts)])
  end

  def inspect(tensor, opts), do: Inspect.Any.inspect(tensor, opts)

  defp type_name(kind, bits) when kind in [:f, :bf, :s, :u, :c], do: "#{kind}#{bits}"
  defp type_name(kind, _bits), do: "#{kind}"

  # Reads only the elements that are shown.
  defp values(tensor, dims, opts) do
    kept = if opts.limit == :infinity, do: dims, else: keep(Enum.reverse(dims), max(opts.limit, 1), [])

    with false <- Tenon.Nif.unowned(tensor),
         {:ok, part} <- Tenon.slice(tensor, Enum.map(dims, fn _ -> 0 end), kept),
         {:ok, list} <- Tenon.to_list(part) do
      rows(list, Enum.zip(dims, kept), %{opts | limit: :infinity})
    else
      # Memory without an owner may be gone: crash reports must not read it.
      address when is_integer(address) -> "at 0x#{Integer.to_string(address, 16)}, without an owner"
      {:error, %{reason: reason}} -> concat(["(", to_doc(reason, opts), ")"])
    end
  end

  defp keep([], _budget, kept), do: kept

  defp keep([dim | outer], budget, kept) do
    count = min(dim, budget)
    keep(outer, max(div(budget, max(count, 1)), 1), [count | kept])
  end

  defp rows(value, [], opts), do: to_doc(value, opts)

  # A row is wrapped at the line width.
  defp rows(list, [{dim, kept}], opts) do
    show = fn
      :more, _opts -> "..."
      {element}, opts -> to_doc(element, opts)
    end

    items = Enum.map(list, &{&1}) ++ if(kept < dim, do: [:more], else: [])
    {open, close} = {color("[", :list, opts), color("]", :list, opts)}
    container_doc(open, items, close, opts, show, separator: color(",", :list, opts), break: :flex)
  end

  defp rows(list, [{dim, kept} | inner], opts) do
    blocks = Enum.map(list, &rows(&1, inner, opts)) ++ if(kept < dim, do: ["..."], else: [])
    body = Enum.intersperse(blocks, concat(color(",", :list, opts), line()))
    concat([color("[", :list, opts), nest(concat([line() | body]), 2), line(), color("]", :list, opts)])
  end
end
