defmodule Tenon.Test.Backend do
  @moduledoc """
  A backend of Nx, or of its stand-in, whose memory is a tensor of Tenon's: not what Nx's own backend has.

  `pointer` is what `Nx.to_pointer/2` gives instead of the memory's own.
  """
  defstruct [:memory, :pointer]

  @doc "A tensor of Nx on this backend."
  def tensor(memory, type, shape, options \\ []) do
    names = List.duplicate(nil, tuple_size(shape))
    data = %__MODULE__{memory: memory, pointer: options[:pointer]}
    fields = [data: data, type: type, shape: shape, names: names] ++ Keyword.take(options, [:vectorized_axes])
    struct!(Nx.Tensor, Keyword.merge(fields, Keyword.take(options, [:names])))
  end

  def init(options), do: options

  def from_binary(out, binary, _options) do
    memory = Tenon.from_binary!(binary, out.type, shape: out.shape, copy: :always)
    %{out | data: %__MODULE__{memory: memory}}
  end

  def reshape(out, tensor), do: %{out | data: tensor.data}

  def to_binary(%{data: %{memory: memory}}, _limit), do: Tenon.to_binary!(memory, copy: :always)

  def to_pointer(%{data: %{pointer: nil, memory: memory}}, mode: :local) do
    struct!(Nx.Pointer, kind: :local, address: Tenon.Blob.to_blob(memory).ptr, data_size: memory.byte_size)
  end

  def to_pointer(%{data: %{pointer: function}}, mode: :local), do: function.()
end

defmodule Tenon.Test.Pointer do
  @moduledoc "A backend that gives any pointer, and whose tensors have any term inside."
  defstruct [:pointer, :inside]
  def to_pointer(%{data: %{pointer: pointer}}, mode: :local), do: pointer
end

defmodule Tenon.Test.NoBackend do
  @moduledoc false
  defstruct []
end
