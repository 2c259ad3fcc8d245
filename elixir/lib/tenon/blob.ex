defmodule Tenon.Blob do
  @moduledoc """
  Memory as an address with its description, with the same keys as ExTorch's `Tensor.Blob`.

      iex> tensor = Tenon.from_list!([[1.0, 2.0], [3.0, 4.0]])
      iex> blob = Tenon.Blob.to_blob(tensor)
      iex> {blob.shape, blob.strides, blob.dtype, blob.device, blob.element_size}
      {{2, 2}, [2, 1], :float, :cpu, 4}
      iex> view = Tenon.Blob.from_blob(blob, owner: tensor)
      iex> Tenon.to_list!(view.tensor)
      [[1.0, 2.0], [3.0, 4.0]]

  An address says nothing about its memory, so `from_blob/2` has to trust its caller. It checks what can be checked:
  types, devices, alignment, overflow, and the extent if `data_size:` is given.

  Both functions return plain values and raise `Tenon.Error`.
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
  Returns the address of a tensor's first element, with shape, strides, type and device. `owner` is the tensor, so the
  blob keeps the memory alive.

  Tenon does not see writes through the address, and cannot protect readers and binaries from them.
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
  Makes a tensor on existing memory, which its owner keeps alive. The owner is any term of at most 20,000,000 words: a
  reference, a tensor, a struct that contains one, or a function that has captured one.

  The owner is not copied. Tenon searches it, and keeps its references and its binaries of more than 64 bytes, also those
  that functions in it have captured; no other term keeps memory alive. Searching a large owner takes time, so the
  reference or the tensor itself is best.

  `blob` is a `%Tenon.Blob{}` or a map with `:ptr`, `:shape` and `:dtype`; `:strides` (in elements), `:device` and
  `:element_size` are optional. The type is a name of torch (`:float32`, `:float`, `:long`, `:complex_float`) or of Nx
  (`{:f, 32}`, `:s64`). The device is an atom, a tuple or a string as in ExTorch: `:cpu`, `:cuda`, `{:cuda, 1}`, `"cuda:1"`,
  `:hip`.

  Options:

    * `:owner` - the term that keeps the memory alive, in addition to the blob's own `owner`. With this option, even if it
      is `nil`, the result is a `%Tenon.BlobView{}` with the tensor and this term; without it, the result is the tensor.
    * `:data_size` - the number of bytes from `ptr` on. A tensor that would reach beyond them is an error.
    * `:immutable` - `true` promises that the bytes never change, so that `Tenon.to_binary/2` need not copy.

  The tensor keeps every owner alive. Tenon searches the owners for tensors and binaries; these decide who may write,
  whatever their order:

    * If all of the memory is inside a tensor that Tenon allocated or made from a binary, the result is a view of that
      tensor, and keeps only that tensor's memory alive.
    * If it is inside another tensor, it shares the state of that tensor: frozen, read-only or busy.
    * If it is inside a binary that starts at a byte and has more than 64 bytes (smaller ones move), it is frozen.
    * Otherwise the owners are responsible for the memory, and it may be written to.

  All memory that the CPU can read is compared by address, whatever the name of its device. It is an error if the memory
  begins inside a tensor or a binary and ends outside, or if CPU memory is passed with `device: {:cuda, 0}`, unless
  another owner has all of the memory. A released tensor as an owner is an error too, unless the first case applies
  without it.

  Without an owner only the address is known, so `inspect/2` shows it and does not read the memory. With
  `config :tenon, unowned: :raise` a blob without an owner is an error; `nil`, `false`, `[]` and `{}` do not count as
  owners. Tenon cannot check whether other terms really own the memory.
  """
  @spec from_blob(t | map, keyword) :: BlobView.t() | Tensor.t()
  def from_blob(blob, options \\ []) do
    {given, data_size, immutable} = options(options)
    if not is_map(blob), do: fail(:blob, "expected a map with :ptr, :shape and :dtype")
    owner = owners(reference(Map.get(blob, :owner)), reference(given))

    if owner == nil and Application.get_env(:tenon, :unowned) == :raise,
      do: fail(:owner, "expected an owner of the memory")

    fields =
      {fetch(blob, :ptr), fetch(blob, :shape), Map.get(blob, :strides), fetch(blob, :dtype),
       Map.get(blob, :device) || :cpu, data_size, immutable, Map.get(blob, :element_size)}

    case hold(fields, owner, []) do
      {:ok, tensor} when given == @not_given -> tensor
      {:ok, tensor} -> %BlobView{tensor: tensor, owner: given}
      {:error, error} -> raise error
    end
  end

  # The NIF cannot look into functions. It returns those that it has found, and gets what they have captured, which may
  # contain functions too.
  @most_layers 100
  defp hold(_fields, _owner, known) when length(known) > @most_layers do
    fail(
      :owner,
      "its functions have captured functions, #{@most_layers} levels deep; pass what owns the memory instead"
    )
  end

  defp hold(fields, owner, known) do
    case Nif.from_blob(fields, owner != nil, owner, known) do
      {:functions, functions} -> hold(fields, Enum.map(functions, &:erlang.fun_info(&1, :env)), [owner | known])
      result -> Memory.charge(result)
    end
  end

  # The usual case, without walking through a list.
  defp options(owner: owner), do: {owner, nil, false}

  defp options(options) do
    options = Options.read!(options, owner: @not_given, data_size: nil, immutable: false)
    {options[:owner], options[:data_size], options[:immutable]}
  end

  # The part of an owner that keeps the memory alive.
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
