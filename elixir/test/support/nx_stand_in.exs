# The part of Nx that Tenon calls, for test runs without NX_PATH. It is not compiled into the build, so that a build
# serves both kinds of runs.
defmodule Nx.Tensor do
  @moduledoc false
  defstruct [:data, :type, :shape, names: [], vectorized_axes: []]
end

defmodule Nx.Pointer do
  @moduledoc false
  defstruct [:kind, :address, :data_size, :handle]
end

defmodule Nx.BinaryBackend do
  @moduledoc false
  defstruct [:state]

  def to_binary(%{data: %{state: binary}}, _limit), do: binary
end

defmodule Nx.TemplateBackend do
  @moduledoc false
  defstruct []

  def to_binary(_tensor, _limit), do: raise("cannot perform operations on a Nx.TemplateBackend tensor")
  def to_pointer(_tensor, _options), do: raise("cannot perform operations on a Nx.TemplateBackend tensor")
end

defmodule Nx do
  @moduledoc false
  def from_binary(binary, type, options \\ [])

  def from_binary(binary, {_, bits} = type, options) when rem(bit_size(binary), bits) == 0 do
    if binary == "", do: raise(ArgumentError, "cannot build an empty tensor")
    # The default of this Nx is not its own backend.
    backend = Keyword.get(options, :backend, Tenon.Test.Backend)

    {backend, options} = if is_tuple(backend), do: backend, else: {backend, []}
    out = %Nx.Tensor{type: type, shape: {div(bit_size(binary), bits)}, names: [nil]}

    if backend == Nx.BinaryBackend,
      do: from_binary_backend(binary, type, bits),
      else: backend.from_binary(out, binary, options)
  end

  defp from_binary_backend(binary, type, bits) do
    data = %Nx.BinaryBackend{state: binary}
    %Nx.Tensor{data: data, type: type, shape: {div(bit_size(binary), bits)}, names: [nil]}
  end

  def reshape(tensor, shape) do
    true = Tuple.product(tensor.shape) == Tuple.product(shape)
    %{tensor | shape: shape, names: List.duplicate(nil, tuple_size(shape))}
  end

  def template(shape, type) do
    names = List.duplicate(nil, tuple_size(shape))
    %Nx.Tensor{data: %Nx.TemplateBackend{}, type: type, shape: shape, names: names}
  end

  def rename(tensor, names), do: %{tensor | names: names}

  def devectorize(%{vectorized_axes: axes} = tensor) do
    {names, sizes} = Enum.unzip(axes)
    shape = List.to_tuple(sizes ++ Tuple.to_list(tensor.shape))
    %{tensor | shape: shape, names: names ++ tensor.names, vectorized_axes: []}
  end

  def type(tensor), do: tensor.type
  def shape(tensor), do: tensor.shape
  def to_binary(tensor), do: backend(tensor).to_binary(tensor, nil)
  def to_pointer(tensor, options), do: backend(tensor).to_pointer(tensor, options)

  defp backend(%{data: %backend{}}), do: backend
end
