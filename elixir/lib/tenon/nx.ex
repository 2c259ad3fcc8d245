defmodule Tenon.Nx do
  @moduledoc """
  To Nx and from it, without depending on it: only Nx's public functions are called, and only where it is there.

  Nx needs Elixir 1.17; on older ones this module is tested with a stand-in only.

  Holding an Nx tensor does not protect its memory from `Nx.backend_deallocate/1`, nor from a backend that donates its
  buffers: whoever takes a pointer by `from_nx/2` keeps away from these.
  """

  alias Tenon.{Blob, Options, Tensor}

  @doc """
  The tensor as one of Nx, which shows the same memory, frozen from then on: `Tenon.to_binary/2` says when that cannot
  be, and takes the same `:copy`. A `{:bool, 8}` is a `{:u, 8}` in Nx.
  """
  @spec to_nx(Tensor.t(), keyword) :: Tenon.result(struct)
  def to_nx(tensor, options \\ []) do
    with :ok <- available(:to_nx),
         {:ok, tensor} <- again(tensor),
         {:ok, type} <- nx_type(tensor.type),
         {:ok, binary} <- Tenon.to_binary(tensor, options) do
      {:ok, call(:reshape, [call(:from_binary, [binary, type]), tensor.shape])}
    end
  end

  @doc """
  An Nx tensor as one of ours.

  Without options its binary is taken: with Nx's own backend that is the memory itself, held and frozen; others copy it.

  With `device:` (such as `:cpu` or `{:cuda, 0}`) the memory of another backend is shared through
  `Nx.to_pointer(tensor, mode: :local)`, with the tensor as its owner. Nx does not say on which device a pointer is, so
  the caller has to: with the wrong one the address means nothing. Nor does it say how the elements are stored: memory
  that is not exactly as large as the shape and the type need (Torchx keeps u16 and u32 in wider integers) is
  `{:size_mismatch, expected, got}`.

  A vectorized tensor comes as `Nx.devectorize/1` gives it: its vectorized axes first.
  """
  @spec from_nx(struct, keyword) :: Tenon.result(Tensor.t())
  def from_nx(tensor, options \\ []) do
    options = Options.read!(options, device: nil)

    with :ok <- available(:from_nx),
         {:ok, tensor} <- nx_tensor(tensor) do
      {type, shape} = {call(:type, [tensor]), call(:shape, [tensor])}

      if options[:device] == nil,
        do: Tenon.from_binary(call(:to_binary, [tensor]), type, shape: shape),
        else: from_pointer(tensor, type, shape, options[:device])
    end
  end

  @doc """
  An `Nx.Pointer` to a tensor in C order, and its owner, which must be kept as long as the pointer is used.
  """
  @spec to_pointer(Tensor.t()) :: Tenon.result({struct, Tensor.t()})
  def to_pointer(tensor) do
    with :ok <- available(:to_pointer),
         # Nothing moves: where it would have to, this says so.
         {:ok, flat} <- Tenon.reshape(tensor, {-1}) do
      address = Blob.to_blob(flat).ptr
      {:ok, {struct!(Nx.Pointer, kind: :local, address: address, data_size: flat.byte_size), tensor}}
    end
  end

  for {name, arity} <- [to_nx: 2, from_nx: 2, to_pointer: 1] do
    arguments = Macro.generate_arguments(arity, __MODULE__)

    if arity == 2 do
      @doc false
      def unquote(:"#{name}!")(tensor), do: Tenon.value!(unquote(name)(tensor))
    end

    @doc "As `#{name}/#{arity}`, but returns the value or raises `Tenon.Error`."
    def unquote(:"#{name}!")(unquote_splicing(arguments)), do: Tenon.value!(unquote(name)(unquote_splicing(arguments)))
  end

  defp from_pointer(tensor, type, shape, device) do
    pointer = call(:to_pointer, [tensor, [mode: :local]])
    expected = div(Tuple.product(shape) * elem(type, 1), 8)

    if pointer.data_size == expected,
      do: share(pointer, tensor, type, shape, device),
      else: wrong_size(pointer.data_size, expected)
  end

  defp wrong_size(got, expected) do
    fail(
      {:size_mismatch, expected, got},
      :from_nx,
      :tensor,
      "the shape and type need #{expected} bytes, and the backend's memory has #{got}: it stores the elements in its " <>
        "own way; without device: they are copied"
    )
  end

  defp share(pointer, tensor, type, shape, device) do
    blob = %{ptr: pointer.address, shape: shape, dtype: type, device: device}
    {:ok, Blob.from_blob(blob, owner: tensor, data_size: pointer.data_size).tensor}
  rescue
    error in Tenon.Error -> {:error, error}
  end

  # Anyone may have changed the struct's fields; those of a view are right.
  defp again(tensor) do
    with {:error, error} <- Tenon.squeeze(tensor, axes: []) do
      {:error, %{error | function: :to_nx, message: String.replace_prefix(error.message, "squeeze", "to_nx")}}
    end
  end

  # By apply, so that the compiler does not look for a module that need not be there.
  defp call(function, arguments), do: apply(Nx, function, arguments)

  @doc false
  def vectorized?(tensor), do: Map.get(tensor, :vectorized_axes, []) != []

  @doc false
  def available(function) do
    if Code.ensure_loaded?(Nx),
      do: :ok,
      else: fail({:library, :nx}, function, nil, "Nx is not here; add it to the dependencies")
  end

  # The memory has all axes; Nx.shape/1 leaves the vectorized ones out.
  defp nx_tensor(%{__struct__: Nx.Tensor} = tensor) do
    {:ok, if(vectorized?(tensor), do: call(:devectorize, [tensor]), else: tensor)}
  end

  defp nx_tensor(_), do: fail({:badarg, :tensor}, :from_nx, :tensor, "expected an Nx tensor")

  @types [s: 8, s: 16, s: 32, s: 64, u: 8, u: 16, u: 32, u: 64, f: 8, f: 16, f: 32, f: 64, bf: 16, c: 64, c: 128] ++
           [f8_e4m3fn: 8]

  defp nx_type({:bool, 8}), do: {:ok, {:u, 8}}
  defp nx_type(type) when type in @types, do: {:ok, type}
  defp nx_type(type), do: fail({:unsupported_type, type}, :to_nx, :tensor, "Nx has no type #{inspect(type)}")

  defp fail(reason, function, argument, why) do
    {:error, %Tenon.Error{reason: reason, function: function, argument: argument, message: "#{function}(): #{why}"}}
  end
end
