# The part of Nx that Tenon calls, for test runs without NX_PATH. It is not compiled into the build, so that a build
# serves both kinds of runs.
defmodule Nx.Tensor do
  @moduledoc false
  defstruct [:data, :type, :shape]
end

defmodule Nx.Pointer do
  @moduledoc false
  defstruct [:kind, :address, :data_size, :handle]
end

defmodule Nx do
  @moduledoc false
  def from_binary(binary, {_, bits} = type) when rem(bit_size(binary), bits) == 0 do
    %Nx.Tensor{data: binary, type: type, shape: {div(bit_size(binary), bits)}}
  end

  def reshape(tensor, shape) do
    true = Tuple.product(tensor.shape) == Tuple.product(shape)
    %{tensor | shape: shape}
  end

  # A backend whose memory is elsewhere has a tensor of Tenon's for it.
  def to_binary(%{data: %Tenon.Tensor{} = tensor}), do: Tenon.to_binary!(tensor, copy: :always)
  def to_binary(tensor), do: tensor.data
  def type(tensor), do: tensor.type
  def shape(tensor), do: tensor.shape

  def to_pointer(%{data: %Tenon.Tensor{} = memory}, mode: :local) do
    %Nx.Pointer{kind: :local, address: Tenon.Blob.to_blob(memory).ptr, data_size: memory.byte_size}
  end
end
