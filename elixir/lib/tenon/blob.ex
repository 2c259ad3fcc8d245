defmodule Tenon.Blob do
  @moduledoc """
  Memory as an address with what describes it: ExTorch's `Tensor.Blob`, key for key.

      iex> tensor = Tenon.from_list!([[1.0, 2.0], [3.0, 4.0]])
      iex> blob = Tenon.Blob.to_blob(tensor)
      iex> {blob.shape, blob.strides, blob.dtype, blob.device, blob.element_size}
      {{2, 2}, [2, 1], :float, :cpu, 4}
      iex> view = Tenon.Blob.from_blob(blob, owner: tensor)
      iex> Tenon.to_list!(view.tensor)
      [[1.0, 2.0], [3.0, 4.0]]

  An address says nothing about its memory, so what is passed to `from_blob/2` is trusted as far as it cannot be
  checked. What can be is: types, devices, alignment, overflow, and the extent where `data_size:` is given.

  Both functions return bare values and raise `Tenon.Error`.
  """

  alias Tenon.{BlobView, Memory, Nif, Options, Tensor}

  @type t :: %__MODULE__{
          ptr: non_neg_integer,
          shape: tuple,
          strides: [integer],
          dtype: atom,
          device: :cpu | {atom, non_neg_integer},
          element_size: pos_integer,
          owner: term
        }

  # No caller passes this term as an owner.
  @not_given {__MODULE__, :not_given}

  defstruct [:ptr, :shape, :strides, :dtype, :device, :element_size, :owner]

  @doc """
  The address of a tensor's first element, and what describes the rest. `owner` is the tensor, so the blob keeps the
  memory alive.

  Whoever writes through the address does it behind Tenon's back: it knows neither readers nor binaries.
  """
  @spec to_blob(Tensor.t() | BlobView.t()) :: t
  def to_blob(%BlobView{tensor: tensor}), do: to_blob(tensor)

  def to_blob(tensor) do
    case Nif.to_blob(tensor) do
      {:ok, {ptr, shape, strides, dtype, device, element_size}} ->
        %__MODULE__{
          ptr: ptr,
          shape: shape,
          strides: strides,
          dtype: dtype,
          device: device,
          element_size: element_size,
          owner: tensor
        }

      {:error, error} ->
        raise error
    end
  end

  @doc """
  A tensor on memory that exists, held by its owner: any term without functions inside, of at most 1,000,000 words.
  Holding a term costs what copying it costs, and the size of what a function has captured cannot be known before it is
  copied; pass the reference or the tensor that owns the memory instead.

  `blob` is a `%Tenon.Blob{}` or a map with `:ptr`, `:shape` and `:dtype`; `:strides` (in elements), `:device` and
  `:element_size` may be there. The type is torch's name (`:float32`, `:float`, `:long`) or Nx's (`{:f, 32}`, `:s64`).

  Options:

    * `:owner` - the term that keeps the memory alive, beside the blob's own `owner`; the result is a
      `%Tenon.BlobView{}` with the tensor and this term, even if that is `nil`. Without the option the result is the
      tensor.
    * `:data_size` - bytes of the memory from `ptr` on: what would reach beyond them is an error.
    * `:immutable` - `true` says that nobody ever changes the bytes: `Tenon.to_binary/2` need not copy then.

  The tensor itself holds every owner. Which tensors and binaries they are, or have somewhere inside, decides who may
  write; their order does not matter:

    * Where all of the memory is inside that of a tensor which Tenon allocated or made from a binary, the result is a
      view of that tensor, and holds its memory only.
    * Else, inside another tensor's, it shares that one's state: it is frozen, read-only or busy where that is.
    * Inside a binary that starts at a byte and has more than 64 of them (others move), it is frozen.
    * Else the memory is the owners' business, and may be written.

  All memory that the CPU can read is compared by address, whatever its device is called. Memory that begins inside a
  tensor's or a binary's and ends outside is an error, as is `device: {:cuda, 0}` for memory of the CPU's, unless
  another owner has all of it. A tensor that was released is an error too, unless the first case makes it needless.

  Without any owner the address is all that is known: `inspect/2` shows it, and does not read the memory. With
  `config :tenon, unowned: :raise` a blob without any owner is an error; `nil`, `false`, `[]` and `{}` own nothing.
  Whether other terms own the memory cannot be checked.
  """
  @spec from_blob(t | map, keyword) :: BlobView.t() | Tensor.t()
  def from_blob(blob, options \\ []) do
    {given, data_size, immutable} = options(options)
    if not is_map(blob), do: fail(:blob, "expected a map with :ptr, :shape and :dtype")
    owner = owners(reference(Map.get(blob, :owner)), reference(given))
    if owner == nil and Application.get_env(:tenon, :unowned) == :raise, do: fail(:owner, "expected one")

    fields =
      {fetch(blob, :ptr), fetch(blob, :shape), Map.get(blob, :strides), fetch(blob, :dtype),
       Map.get(blob, :device) || :cpu, data_size, immutable, Map.get(blob, :element_size)}

    case Memory.charge(Nif.from_blob(fields, owner != nil, owner)) do
      {:ok, tensor} when given == @not_given -> tensor
      {:ok, tensor} -> %BlobView{tensor: tensor, owner: given}
      {:error, error} -> raise error
    end
  end

  # The usual ones without a walk through a list.
  defp options(owner: owner), do: {owner, nil, false}

  defp options(options) do
    options = Options.read!(options, owner: @not_given, data_size: nil, immutable: false)
    {options[:owner], options[:data_size], options[:immutable]}
  end

  # What of an owner holds the memory.
  defp reference(%BlobView{tensor: tensor}), do: reference(tensor)
  defp reference(%__MODULE__{owner: owner}), do: reference(owner)
  defp reference(nothing) when nothing in [false, [], {}, @not_given], do: nil
  defp reference(owner), do: owner

  defp owners(nil, given), do: given
  defp owners(own, nil), do: own
  defp owners(%Tensor{ref: ref} = own, %Tensor{ref: ref}), do: own
  defp owners(own, given), do: {given, own}

  defp fetch(blob, key) do
    case blob do
      %{^key => value} -> value
      _ -> fail(key, "it is missing")
    end
  end

  @spec fail(atom, String.t()) :: no_return
  defp fail(argument, why) do
    Options.raise_public(%Tenon.Error{
      reason: {:badarg, argument},
      function: :from_blob,
      argument: argument,
      message: "from_blob(): argument '#{argument}': #{why}"
    })
  end
end
